//! A fleet of any number of hosts, each with the same work: for measuring how costs grow with the number of hosts. A request passes
//! [`TIERS`] hosts. All times are computed from the plan, so each host's rows can be made without those of the others.

use crate::random::Random;
use crate::recording::{Announced, HostRows};
use wakepath_model::rows::{SeenHow, Side};

/// Services that a request passes, each on the next host.
pub const TIERS: u64 = 3;

const US: u64 = 1_000;
const REQUEST_BYTES: u64 = 80;
const REPLY_BYTES: u64 = 200;
/// Between two requests of a worker: longer than a request takes.
const PERIOD_NS: u64 = 2_000 * US;
/// From a tier's first byte to the next tier's, and back.
const HOP_NS: u64 = 150 * US;
/// From taking a request to calling the next service, and from its reply to the own one.
const WORK_NS: u64 = 40 * US;
/// Most time that the last service works.
const LAST_NS: u64 = 600 * US;
/// Before it only what there was is announced.
const BEGIN_NS: u64 = 1_000 * US;
const PORT: u16 = 8_000;
const CLIENT_PORT: u16 = 20_000;

/// What to simulate.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Hosts.
    pub hosts: u64,
    /// Requests that begin on each host.
    pub requests: u64,
    /// Threads of each service, each with one connection to the next; they share the requests.
    pub workers: u64,
}

impl Plan {
    /// A true time after which nothing happens any more.
    pub fn length_ns(&self) -> u64 {
        BEGIN_NS + (self.requests.div_ceil(self.workers) + 2) * PERIOD_NS
    }

    /// The rows of a host. It serves as first tier what begins there, and as another what began on the hosts before it.
    pub fn host(&self, host: u64) -> HostRows {
        let mut rows = HostRows::new(&format!("h{host:05}"), 1_000_000_000 * (1 + host * 7 % 19) as i64);
        for tier in 0..TIERS {
            let leader = self.task(tier, 0);
            (0..self.workers)
                .for_each(|w| rows.task(0, self.task(tier, w), leader, 0, ["front", "app", "store"][tier as usize]));
        }
        for tier in 0..TIERS {
            let origin = (host + TIERS * self.hosts - tier) % self.hosts;
            (0..self.workers).for_each(|w| self.serves(&mut rows, (host, tier, w), origin));
        }
        rows
    }

    fn task(&self, tier: u64, worker: u64) -> u32 {
        (1 + tier * self.workers + worker) as u32
    }

    /// All requests of a worker of a tier, which began at `origin`.
    fn serves(&self, rows: &mut HostRows, (host, tier, worker): (u64, u64, u64), origin: u64) {
        let task = self.task(tier, worker);
        let next = tier + 1 < TIERS;
        let own = self.end(rows, (host, tier, worker), Side::Server);
        let called = if next { self.end(rows, (host, tier, worker), Side::Client) } else { own };
        let mut random = Random::new(origin << 20 | worker);
        let mut idle = 0;
        for r in 0..self.requests.div_ceil(self.workers) {
            let last = random.within(LAST_NS / 4, LAST_NS);
            let began = BEGIN_NS + r * PERIOD_NS + worker * PERIOD_NS / self.workers + random.within(0, PERIOD_NS / 8);
            let taken = began + tier * HOP_NS;
            let replied = began + (2 * TIERS - 2 - tier) * HOP_NS + last;
            let request = own.request(r);
            let reply = own.reply(r);
            rows.waited(idle, taken - 5 * US, taken - 4 * US, task, 0, own.flow);
            own.moves(rows, (taken, taken - 6 * US), task, request, "/");
            if next {
                let asked = taken + WORK_NS;
                let heard = replied - WORK_NS;
                called.moves(rows, (asked, 0), task, called.request(r), "/next");
                rows.waited(asked + US, heard - 5 * US, heard - 4 * US, task, 0, called.flow);
                called.moves(rows, (heard, heard - 6 * US), task, called.reply(r), "");
            }
            own.moves(rows, (replied, 0), task, reply, "");
            idle = replied + US;
        }
    }

    /// Announces an end of a connection of a worker: to its own service, or from it to the next one.
    fn end(&self, rows: &mut HostRows, (host, tier, worker): (u64, u64, u64), side: Side) -> Connection {
        let of = if side == Side::Client { tier + 1 } else { tier };
        let caller = (host + self.hosts - u64::from(side == Side::Server)) % self.hosts;
        let served = (host + u64::from(side == Side::Client)) % self.hosts;
        // who calls the first tier is nobody's
        let client = if of == 0 { [192, 168, 0, 1] } else { address(caller) };
        let client = (client, CLIENT_PORT + (of * self.workers + worker) as u16);
        let server = (address(served), PORT + of as u16);
        let (local, remote) = if side == Side::Client { (client, server) } else { (server, client) };
        let first = [of, of + TIERS].map(|n| 1 + n * 1_000_000_000 + worker * 1_000_000);
        let (snd, rcv) = if side == Side::Client { (first[0], first[1]) } else { (first[1], first[0]) };
        let flow = 1 + (tier * self.workers + worker) * 2 + u64::from(side == Side::Client);
        let (task, how) = (self.task(tier, worker), SeenHow::Snapshot);
        let netns = 1;
        rows.endpoint(0, &Announced { flow, local, remote, netns, snd, rcv, task, how, side });
        rows.note(BEGIN_NS / 2, flow, true);
        Connection { flow, first, side }
    }
}

fn address(host: u64) -> [u8; 4] {
    [10, (host >> 16) as u8, (host >> 8) as u8, host as u8]
}

/// A connection as one of its ends has it.
#[derive(Clone, Copy)]
struct Connection {
    flow: u64,
    /// First byte of its requests, and of its replies.
    first: [u64; 2],
    side: Side,
}

/// A message: whether it is a request, and its bytes.
type Message = (bool, std::ops::Range<u64>);

impl Connection {
    fn request(self, number: u64) -> Message {
        let start = self.first[0] + number * REQUEST_BYTES;
        (true, start..start + REQUEST_BYTES)
    }

    fn reply(self, number: u64) -> Message {
        let start = self.first[1] + number * REPLY_BYTES;
        (false, start..start + REPLY_BYTES)
    }

    /// A task sends or reads a message; `arrived` is 0 where it sends.
    fn moves(
        self,
        rows: &mut HostRows,
        (at, arrived): (u64, u64),
        task: u32,
        (is_request, bytes): Message,
        target: &str,
    ) {
        let is_send = (self.side == Side::Client) == is_request;
        rows.moved((at - US, at, arrived), task, self.flow, is_send, bytes.clone());
        let (verb, status) = if is_request { ("GET", 0) } else { ("", 200) };
        rows.message(at, self.flow, is_send, bytes, (verb, target), status);
    }
}
