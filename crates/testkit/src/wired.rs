//! Services that call each other while a sniffer sees their packets: random topologies, many requests at once, identifiers
//! handed on, dropped, made anew and repeated by clients that ask again. Some hosts may be watched by the kernel vantage too.

use crate::random::Random;
use crate::recording::{Announced, HostRows, Recording};
use crate::tap::Passing;
use crate::truth::Call;
use std::collections::BTreeMap;
use wakepath_model::rows::{Event, ExchangeKind, FlowRowKind, SeenHow, Side};

const US: u64 = 1_000;
const SECOND: u64 = 1_000_000_000;
const REQUEST_BYTES: u64 = 80;
const REPLY_BYTES: u64 = 200;
/// How often an exchange that stays open is told of.
const TOLD_NS: u64 = 5 * SECOND;

/// What a service does with the identifiers that it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ids {
    /// Hands them on; of a trace with a span of its own.
    HandsOn,
    /// Hands them on as they came.
    Verbatim,
    /// Drops them.
    Drops,
    /// Makes its own for each call.
    Makes,
}

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Seed of everything.
    pub seed: u64,
    /// Services, each of which calls later ones.
    pub services: usize,
    /// Requests of clients.
    pub requests: u64,
    /// Clients, each of which asks one thing after the other.
    pub clients: usize,
    /// What services may do with identifiers.
    pub ids: &'static [Ids],
    /// A service asks others at once.
    pub is_parallel: bool,
    /// Who asks gives up and asks again, in percent of calls.
    pub retried_percent: f64,
    /// Requests take seconds instead of milliseconds, in percent.
    pub long_percent: f64,
    /// Services behind addresses that are translated; their packets pass before and behind.
    pub is_translated: bool,
    /// Time during which packets are lost, in percent.
    pub lost_percent: f64,
    /// Services, by number, whose hosts the kernel vantage watches.
    pub watched: Vec<usize>,
    /// By how much the sniffer's idea of the time of day is wrong.
    pub wall_error_ns: i64,
}

impl Plan {
    /// A few services that hand everything on.
    pub fn new(seed: u64) -> Plan {
        Plan {
            seed,
            services: 4,
            requests: 60,
            clients: 8,
            ids: &[Ids::HandsOn],
            is_parallel: false,
            retried_percent: 0.0,
            long_percent: 0.0,
            is_translated: false,
            lost_percent: 0.0,
            watched: Vec::new(),
            wall_error_ns: 0,
        }
    }
}

type Address = [u8; 4];

struct Service {
    instances: Vec<Address>,
    published: Option<Address>,
    port: u16,
    ids: Ids,
    calls: Vec<usize>,
}

/// A connection of one thread of a client to a thread of a server.
struct Connection {
    number: u64,
    client: (Address, u16),
    dialled: (Address, u16),
    server: (Address, u16),
    free_at: u64,
    next: [u64; 2],
    /// Task of the server, and both ends where watched: host and endpoint.
    thread: u32,
    ends: [Option<(usize, u64)>; 2],
}

/// Identifiers in a message.
#[derive(Clone, Copy, Default)]
struct Bears {
    request_id: u64,
    trace: (u64, u64),
}

/// Who asks: its address, and its thread.
#[derive(Clone, Copy)]
struct Asker {
    address: Address,
    thread: u32,
    host: Option<usize>,
}

struct Sim {
    plan: Plan,
    random: Random,
    out: Recording,
    services: Vec<Service>,
    connections: BTreeMap<(u32, Address, u16), Vec<Connection>>,
    threads: u32,
    numbers: u64,
    /// Watched hosts by address.
    hosts: BTreeMap<Address, usize>,
    passings: Vec<(Passing, usize)>,
}

/// Simulates a plan. The sniffer is the host `tap`.
pub fn simulate(plan: &Plan) -> Recording {
    let mut sim = Sim {
        plan: plan.clone(),
        random: Random::new(plan.seed),
        out: Recording::default(),
        services: Vec::new(),
        connections: BTreeMap::new(),
        threads: 0,
        numbers: 0,
        hosts: BTreeMap::new(),
        passings: Vec::new(),
    };
    sim.build();
    let mut free: Vec<(u64, u32)> = (0..plan.clients as u32).map(|i| (u64::from(i) * 137 * US + SECOND, i)).collect();
    for _ in 0..plan.requests {
        free.sort_unstable();
        let (at, client) = free[0];
        let asker = Asker { address: [10, 9, 0, client as u8 + 1], thread: 1_000_000 + client, host: None };
        let bears = Bears { request_id: sim.random.any() | 1, trace: (sim.random.any() | 1, sim.random.any() | 1) };
        let done = sim.call(asker, 0, at, None, bears);
        free[0].0 = done + sim.random.within(10 * US, 2_000 * US);
    }
    sim.pass();
    sim.out
}

impl Sim {
    fn build(&mut self) {
        for s in 0..self.plan.services {
            let count = self.random.within(1, 2);
            let instances: Vec<Address> = (0..count).map(|i| [10, 1, s as u8, i as u8 + 1]).collect();
            let ids = self.plan.ids[self.random.within(0, self.plan.ids.len() as u64 - 1) as usize];
            let later = (self.plan.services - s - 1) as u64;
            let calls = match later {
                0 => Vec::new(),
                _ => (0..self.random.within(1, 3)).map(|_| s + 1 + self.random.within(0, later - 1) as usize).collect(),
            };
            let published = self.plan.is_translated.then_some([10, 96, s as u8, 1]);
            if self.plan.watched.contains(&s) {
                for &a in &instances {
                    self.hosts.insert(a, self.out.hosts.len());
                    let clock = self.random.within(0, 100) as i64 * SECOND as i64;
                    self.out.hosts.push(HostRows::new(&format!("host{}-{}", a[2], a[3]), clock));
                }
            }
            self.services.push(Service { instances, published, port: 80 + s as u16, ids, calls });
        }
    }

    /// A connection of a thread to a service that is free, or a new one.
    fn connection(&mut self, asker: Asker, service: usize, at: u64) -> Connection {
        let s = &self.services[service];
        let server = s.instances[self.random.within(0, s.instances.len() as u64 - 1) as usize];
        let (dialled, port) = (s.published.unwrap_or(server), s.port);
        let kept = self.connections.entry((asker.thread, server, port)).or_default();
        if let Some(i) = kept.iter().position(|c| c.free_at < at) {
            return kept.swap_remove(i);
        }
        self.numbers += 1;
        self.threads += 1;
        let seq = (1 << 32) + (self.random.any() & 0xffff_ffff);
        let reply_seq = (1 << 32) + (self.random.any() & 0xffff_ffff);
        let client_port = 20_000 + (self.numbers % 40_000) as u16;
        let mut c = Connection {
            number: self.numbers,
            client: (asker.address, client_port),
            dialled: (dialled, port),
            server: (server, port),
            free_at: 0,
            next: [seq, reply_seq],
            thread: self.threads,
            ends: [None, None],
        };
        let there = self.hosts.get(&server).copied();
        if let Some(host) = there {
            self.out.hosts[host].task(at - 3 * US, c.thread, 900_000 + server[2] as u32, 0, "server");
        }
        for (i, host) in [asker.host, there].into_iter().enumerate() {
            let Some(host) = host else { continue };
            let number = 10 * c.number + i as u64;
            let (local, remote) = if i == 0 { (c.client, c.dialled) } else { (c.server, c.client) };
            let (snd, rcv) = if i == 0 { (seq, reply_seq) } else { (reply_seq, seq) };
            let task = if i == 0 { asker.thread } else { c.thread };
            let how = if i == 0 { SeenHow::Connected } else { SeenHow::Accepted };
            let side = if i == 0 { Side::Client } else { Side::Server };
            let e = Announced { flow: number, local, remote, netns: 1, snd, rcv, task, how, side };
            let h = &mut self.out.hosts[host];
            h.endpoint(at - 2 * US, &e);
            h.note(at - US, number, true);
            c.ends[i] = Some((host, number));
        }
        c
    }

    fn end(&self, e: Option<(usize, u64)>) -> Option<(String, u64)> {
        e.map(|(h, n)| (self.out.hosts[h].name.clone(), n))
    }

    /// A call, asked again as often as its caller gives up. Gives when it was answered.
    fn call(&mut self, asker: Asker, service: usize, at: u64, cause: Option<usize>, bears: Bears) -> u64 {
        let mut c = self.connection(asker, service, at);
        let way = self.random.within(20 * US, 200 * US);
        let call = self.out.truth.calls.len();
        let (start, reply) = (c.next[0], c.next[1]);
        c.next = [start + REQUEST_BYTES, reply + REPLY_BYTES];
        self.out.truth.calls.push(Call {
            name: format!("call{call}"),
            cause,
            client: self.end(c.ends[0]),
            server: self.end(c.ends[1]),
            wire: Vec::new(),
            start,
            began_ns: at,
            ended_ns: u64::MAX,
        });
        let target = format!("/s{service}");
        let message = ("GET", target.as_str());
        if let Some((h, e)) = c.ends[0] {
            let h = &mut self.out.hosts[h];
            h.moved((at, at + US, 0), asker.thread, e, true, start..start + REQUEST_BYTES);
            h.message(at + US, e, true, start..start + REQUEST_BYTES, message, 0);
        }
        let taken = at + way + self.random.within(10 * US, 50 * US);
        if let Some((h, e)) = c.ends[1] {
            let h = &mut self.out.hosts[h];
            h.moved((taken - US, taken, at + way), c.thread, e, false, start..start + REQUEST_BYTES);
            h.message(taken, e, false, start..start + REQUEST_BYTES, message, 0);
        }
        let server = Asker { address: c.server.0, thread: c.thread, host: self.hosts.get(&c.server.0).copied() };
        let gives_up = self.random.chance(self.plan.retried_percent).then(|| at + self.random.within(way, 5_000 * US));
        let replied = self.serve(server, service, taken, call, bears);
        let heard = replied + way;
        let gone = gives_up.filter(|&t| t < replied);
        let passing = Passing {
            flow: c.number,
            client: c.client,
            server: c.dialled,
            request_at: (at + way / 2, at + way / 2 + US),
            reply_at: if gone.is_some() { (0, 0) } else { (replied + way / 2, replied + way / 2 + US) },
            ended_at: gone.unwrap_or(0),
            request: start..start + REQUEST_BYTES,
            reply: reply..reply + REPLY_BYTES,
            request_id: bears.request_id,
            trace: bears.trace,
            what: if gone.is_some() { ExchangeKind::Unanswered } else { ExchangeKind::Answered },
            target: target.clone(),
        };
        if self.services[service].published.is_some() {
            self.passings.push((behind_its_address(&c, &passing), call));
        }
        self.passings.push((passing, call));
        if let Some(gone) = gone {
            // its server goes on without it, the connection is not used again
            let again = gone + self.random.within(10 * US, 500 * US);
            return self.call(asker, service, again, cause, bears);
        }
        self.out.truth.calls[call].ended_ns = replied;
        let status = 200;
        if let Some((h, e)) = c.ends[1] {
            let h = &mut self.out.hosts[h];
            h.moved((replied - US, replied, 0), c.thread, e, true, reply..reply + REPLY_BYTES);
            h.message(replied, e, true, reply..reply + REPLY_BYTES, message, status);
        }
        if let Some((h, e)) = c.ends[0] {
            let h = &mut self.out.hosts[h];
            h.moved((heard, heard + 2 * US, heard), asker.thread, e, false, reply..reply + REPLY_BYTES);
            h.message(heard + 2 * US, e, false, reply..reply + REPLY_BYTES, message, status);
        }
        c.free_at = heard + 5 * US;
        self.connections.entry((asker.thread, c.server.0, c.server.1)).or_default().push(c);
        heard + 3 * US
    }

    /// What a service does for a call; gives when it replies.
    fn serve(&mut self, server: Asker, service: usize, at: u64, call: usize, bears: Bears) -> u64 {
        let calls = self.services[service].calls.clone();
        let ids = self.services[service].ids;
        let is_long = self.random.chance(self.plan.long_percent);
        let mut now = at + self.random.within(20 * US, 2_000 * US);
        let mut done = now;
        for to in calls {
            let span = self.random.any() | 1;
            let on = match ids {
                Ids::HandsOn => Bears { trace: (bears.trace.0, if bears.trace.0 == 0 { 0 } else { span }), ..bears },
                Ids::Verbatim => bears,
                Ids::Drops => Bears::default(),
                Ids::Makes => Bears { request_id: self.random.any() | 1, trace: (0, 0) },
            };
            let answered = self.call(server, to, now, Some(call), on);
            done = done.max(answered);
            now = if self.plan.is_parallel { now + self.random.within(5 * US, 50 * US) } else { answered };
            now += self.random.within(5 * US, 500 * US);
        }
        let work =
            if is_long { self.random.within(SECOND, 30 * SECOND) } else { self.random.within(20 * US, 3_000 * US) };
        done.max(now) + work
    }

    /// Writes what the sniffer saw.
    fn pass(&mut self) {
        let mut tap = HostRows::new("tap", self.random.within(0, 50) as i64 * SECOND as i64);
        for row in &mut tap.rows {
            if let Event::Anchor(a) = row {
                a.real_ns = a.real_ns.saturating_add_signed(self.plan.wall_error_ns);
            }
        }
        let mut passings = std::mem::take(&mut self.passings);
        passings.sort_by_key(|(p, _)| p.request_at.0);
        let last = passings.iter().map(|(p, _)| p.reply_at.1.max(p.request_at.1)).max().unwrap_or(0);
        let mut lost: Vec<(u64, u64)> = Vec::new();
        let mut t = 0;
        while self.plan.lost_percent > 0.0 && t < last {
            let length = self.random.within(200 * US, 1_000 * US);
            if self.random.chance(self.plan.lost_percent) {
                lost.push((t, t + length));
            }
            t += length + 1;
        }
        let is_lost = |at: u64| lost.iter().any(|&(a, b)| a <= at && at <= b);
        let mut begun = std::collections::BTreeSet::new();
        for (mut p, call) in passings {
            let (no_request, no_reply) = (is_lost(p.request_at.0), p.reply_at.1 != 0 && is_lost(p.reply_at.0));
            if no_request && (no_reply || p.reply_at.1 == 0) {
                continue;
            }
            if begun.insert(p.flow) {
                let at = if no_request { p.reply_at.0 } else { p.request_at.0 };
                tap.sniffed_flow(at - US, &p, FlowRowKind::Begin, !no_request);
            }
            if no_request {
                p.what = ExchangeKind::ReplyOnly;
                tap.sniffed(&p);
                continue;
            }
            if no_reply {
                (p.what, p.ended_at, p.reply_at) = (ExchangeKind::ReplyMissed, p.reply_at.0, (0, 0));
            }
            let mut told = p.request_at.1 + TOLD_NS;
            while told < p.reply_at.0.max(p.ended_at) {
                tap.sniffed(&Passing { what: ExchangeKind::Open, reply_at: (0, 0), ended_at: told, ..p.clone() });
                told += TOLD_NS;
            }
            self.out.truth.calls[call].wire.push((("tap".into(), p.flow), p.request.start));
            tap.sniffed(&p);
        }
        for (from, to) in lost {
            tap.lost(from, to, 1, "loss.packet");
        }
        self.out.hosts.push(tap);
    }
}

/// The same exchange as it passes behind a published address, a little later and back a little earlier.
fn behind_its_address(c: &Connection, passing: &Passing) -> Passing {
    let later = |t: (u64, u64), by: i64| {
        if t.1 == 0 { t } else { (t.0.saturating_add_signed(by), t.1.saturating_add_signed(by)) }
    };
    Passing {
        flow: c.number + (1 << 40),
        server: c.server,
        request_at: later(passing.request_at, 2_000),
        reply_at: later(passing.reply_at, -2_000),
        ..passing.clone()
    }
}
