//! Lines about flows: `flow NAME CLIENT SERVER …`.

use super::{Flow, Played, Player, Side, number};
use crate::recording::Announced;
use wakepath_model::rows::{self, SeenHow};

/// Ids of the peers of an unconnected datagram socket have it.
const PEER_BIT: u64 = 1 << 61;
/// Ids of pipes have this bit; ends of a pair of them the one of who asks, or of who answers.
const PIPE_BIT: u64 = 1 << 63;
const ASKS_BIT: u64 = 1 << 60;
const ANSWERS_BIT: u64 = 1 << 59;
/// Bytes that went each way on a counted flow before the recording.
const MOVED_BEFORE: u64 = 700;
/// What stands behind a flow's ends.
struct FlowOptions {
    ports: (u16, u16),
    netns: u32,
    /// First byte of the requests; replies begin 500 000 later.
    seq: u64,
    is_opaque: bool,
    is_late: bool,
    is_ring: bool,
    /// It was there before the recording; and which end serves only messages tell.
    is_old: bool,
    is_unsided: bool,
    /// The numbers of its first bytes are told.
    is_counted: bool,
    is_peer: bool,
    has_ids: bool,
    has_streams: bool,
    is_chunked: bool,
    is_relayed: bool,
    awaits: bool,
    has_turns: bool,
    /// A pair of pipes, one each way; those of another flow, where several processes have them.
    is_piped: bool,
    is_read: bool,
    pipes_of: Option<u64>,
    /// The address and port that the client dialled, where they are not the server's.
    dialled: Option<([u8; 4], u16)>,
}

impl FlowOptions {
    fn read(index: u16, mut rest: &[&str], pipes: impl Fn(&str) -> Option<u64>) -> Played<FlowOptions> {
        let mut o = FlowOptions {
            ports: (40_000 + index, 80 + index),
            netns: 1,
            seq: 1_000 * u64::from(index + 1),
            is_opaque: false,
            is_late: false,
            is_ring: false,
            is_old: false,
            is_unsided: false,
            is_counted: false,
            is_peer: false,
            has_ids: false,
            has_streams: false,
            is_chunked: false,
            is_relayed: false,
            awaits: false,
            has_turns: false,
            is_piped: false,
            is_read: false,
            pipes_of: None,
            dialled: None,
        };
        while let Some((word, mut more)) = rest.split_first() {
            match (*word, more) {
                ("opaque", _) => o.is_opaque = true,
                ("late", _) => o.is_late = true,
                ("ring", _) => o.is_ring = true,
                ("peer", _) => o.is_peer = true,
                ("ids", _) => o.has_ids = true,
                ("streams", _) => o.has_streams = true,
                ("turns", _) => o.has_turns = true,
                ("relayed", _) => o.is_relayed = true,
                ("awaits", _) => o.awaits = true,
                ("chunked", _) => o.is_chunked = true,
                ("piped", ["as", other, after @ ..]) => {
                    (o.is_piped, o.pipes_of) = (true, pipes(other));
                    more = after;
                }
                ("piped", _) => o.is_piped = true,
                ("read", _) => o.is_read = true,
                ("old", _) => o.is_old = true,
                ("counted", _) => (o.is_old, o.is_counted) = (true, true),
                ("unsided", _) => (o.is_old, o.is_unsided) = (true, true),
                ("ports", [a, b, after @ ..]) => {
                    o.ports = (number(a)? as u16, number(b)? as u16);
                    more = after;
                }
                ("netns", [n, after @ ..]) => {
                    o.netns = number(n)? as u32;
                    more = after;
                }
                ("seq", [n, after @ ..]) => {
                    o.seq = number(n)?;
                    more = after;
                }
                ("seen", ["as", address, port, after @ ..]) => {
                    let octets: Vec<u8> = address.split('.').filter_map(|o| o.parse().ok()).collect();
                    let octets: [u8; 4] = octets.try_into().map_err(|_| format!("{address} is no address"))?;
                    o.dialled = Some((octets, number(port)? as u16));
                    more = after;
                }
                _ => return Err(format!("{word} is not understood")),
            }
            rest = more;
        }
        Ok(o)
    }
}

impl Player {
    /// Announces a flow's watched ends; `-` is an end that nobody watches.
    pub(super) fn flow(&mut self, name: &str, client: &str, server: &str, rest: &[&str]) -> Played<()> {
        let o = FlowOptions::read(self.flows.len() as u16, rest, |other| self.flows.get(other)?.pipes)?;
        let reply_seq = o.seq + 500_000;
        let leaders = [client, server].map(|who| self.tasks.get(who).map_or(0, |t| t.leader));
        let own_pipes = PIPE_BIT | (2 * self.endpoints + 2);
        let mut side = |who: &str, is_server: bool| -> Played<Side> {
            if who == "-" {
                return Ok(None);
            }
            let t = self.who(who)?;
            let (host, task) = (t.host, t.number);
            self.endpoints += 1;
            if o.is_piped {
                // the ends that are made of the two pipes
                return Ok(Some((host, own_pipes | if is_server { ANSWERS_BIT } else { ASKS_BIT })));
            }
            let id = if o.is_peer && is_server { PEER_BIT | self.endpoints } else { self.endpoints };
            let address = |h: Option<usize>| h.map_or([10, 0, 0, 99], |h| [10, 0, 0, 1 + h as u8]);
            let other = |n: &str| self.tasks.get(n).map(|t| t.host);
            let here = (address(other(client)), o.ports.0);
            let there = (address(other(server)), o.ports.1);
            let (local, remote) = if is_server { (there, here) } else { (here, o.dialled.unwrap_or(there)) };
            let (snd, rcv) = if is_server { (reply_seq, o.seq) } else { (o.seq, reply_seq) };
            let how = match (o.is_old, is_server) {
                (true, _) => SeenHow::Snapshot,
                (_, true) => SeenHow::Accepted,
                _ => SeenHow::Connected,
            };
            let side = match (o.is_unsided, is_server) {
                (true, _) => rows::Side::Unknown,
                (_, true) => rows::Side::Server,
                _ => rows::Side::Client,
            };
            let netns = o.netns;
            // so much went each way before the recording; of what the client sent, its SYN was counted too
            let (requests, replies) = ((1 << 32) + o.seq - MOVED_BEFORE, (1 << 32) + reply_seq - MOVED_BEFORE);
            let first = if is_server { (replies, requests) } else { (requests - 1, replies) };
            let first = if o.is_counted { first } else { (0, 0) };
            let announced = Announced { flow: id, local, remote, netns, snd, rcv, task, how, side };
            self.out.hosts[host].counted_endpoint(0, &announced, first);
            Ok(Some((host, id)))
        };
        let (client, server) = (side(client, false)?, side(server, true)?);
        let numbers = [o.seq, reply_seq];
        let address = |s: Side| s.map_or([10, 0, 0, 99], |(h, _)| [10, 0, 0, 1 + h as u8]);
        let flow = Flow {
            client,
            server,
            leaders,
            opaque: o.is_opaque,
            is_late: o.is_late,
            is_ring: o.is_ring,
            has_ids: o.has_ids,
            has_streams: o.has_streams,
            is_chunked: o.is_chunked,
            is_relayed: o.is_relayed,
            awaits: o.awaits,
            has_turns: o.has_turns,
            is_read: o.is_read,
            noted: [false; 2],
            pipes: o.is_piped.then_some(o.pipes_of.unwrap_or(own_pipes)),
            addresses: [(address(client), o.ports.0), o.dialled.unwrap_or((address(server), o.ports.1))],
            sent: numbers,
            read: numbers,
        };
        self.flows.insert(name.to_owned(), flow);
        Ok(())
    }
}
