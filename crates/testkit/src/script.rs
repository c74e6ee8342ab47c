//! Recordings from a text: one step a line, each with its time in microseconds, its task, and what the task does.
//!
//! ```text
//! # a comment
//! host web                       a host; clock +90s: what its clock shows at 0
//! task A app                     a process; `on web` where there are several hosts, else the last one
//! task B app of A                another thread of it
//! flow c - A                     a flow from somebody who is not watched to A's process
//! flow d A D                     from A to D; `A -`: D is not watched
//!                                behind it: opaque, old (older than the recording), ports 40000 80, netns 2 (both ends),
//!                                seq 4294967000 (first byte of both directions), seen as 10.9.9.9 80 (what the client
//!                                dialled, where an address is translated), peer (the server's end is one of the peers of
//!                                an unconnected datagram socket), ids (each message has an x-request-id of its own),
//!                                streams (each bears the number of its request, and replies come in any order)
//! 100 A takes r1 c               A reads a request that somebody unwatched sent; `r1,r2`: both at once
//! 110 A asks q1 d for r1         A sends a request in the service of r1 (`for -`: of nothing)
//! 110 A posts q1 d for r1        the same of a message that gets no reply, put into a queue
//! 120 D takes q1                 its other end reads it
//! 130 D answers q1               also `answers q1 500`; `part`: the first half of the reply, `rest`: the other half
//! 140 A hears q1                 A reads the reply, as far as it was sent (by an unwatched server: all of it)
//! 150 A answers r1
//! 160 A connects d               also `connects d later` (in progress); 160 D accepts d
//! 170 A polls 2                  epoll gave 2 descriptors; behind it: since 165, timeout 500 (milliseconds)
//! 170 A given c                  the library gave A one input: FLOW is readable; `write`: writable; `other`: no flow (then
//!                                `given -`); behind it: of 3 (were ready), together (not isolated), rest (its whole process
//!                                was at rest), since, timeout
//! 175 A else                     A's process goes on with something else than the input that it was given at rest
//! 180 B woken by A since 170     B was blocked since 170; `by timer`, `by c` (a flow); behind it: when 175 (B ran late), at 64
//!                                (the futex), in epoll
//! 190 A forks B app              B begins
//! 195 B ends
//! 200 A closes d                 also `A resets d`
//! sniffer tap                    somebody who sees packets; clock +3s
//! seen q1 by tap 112 138         an exchange passes it between two times; behind it: from 10.0.0.9, to 10.0.0.2 80 and
//!                                for r1 (where no task of the script has it: else as that one's), id X (x-request-id),
//!                                trace T S (trace and span), again 10.0.0.9 10.1.1.1 80 (passes translated as well),
//!                                old (the flow is), unanswered, open, reply only
//! packets lost 100 200           by every sniffer
//! lost 100 200                   operations were lost between two times
//! recorded 100 900               nothing before or after was recorded
//! ```
//!
//! Before a step, `~` says that it happened and was not recorded; `?` that the operation was recorded, but no message
//! known from it.

mod wire;

use crate::recording::{Announced, HEAD_BYTES, HostRows, Recording};
use crate::truth::Call;
use std::collections::BTreeMap;
use wakepath_model::rows::{input, op, seen, witness};

const US: u64 = 1_000;
const REQUEST_BYTES: u64 = 80;
const REPLY_BYTES: u64 = 200;
/// Ids of the peers of an unconnected datagram socket have it.
const PEER_BIT: u64 = 1 << 61;

struct Task {
    host: usize,
    number: u32,
    leader: u32,
}

/// One end of a flow: host and endpoint, where watched.
type Side = Option<(usize, u64)>;

struct Flow {
    client: Side,
    server: Side,
    /// Leading tasks of both ends' processes.
    leaders: [u32; 2],
    opaque: bool,
    has_ids: bool,
    has_streams: bool,
    noted: [bool; 2],
    /// Client and server, as the client has them.
    addresses: [([u8; 4], u16); 2],
    /// Next byte to be sent and to be read: of requests, of replies.
    sent: [u64; 2],
    read: [u64; 2],
}

struct Asked {
    flow: String,
    call: usize,
    start: u64,
    reply: Option<(u64, u64)>,
    reply_sent: u64,
    reply_known: bool,
    status: u16,
    sent_at: u64,
    /// It gets no reply, and is put into a queue.
    is_posted: bool,
}

/// A script under way.
#[derive(Default)]
struct Player {
    out: Recording,
    tasks: BTreeMap<String, Task>,
    flows: BTreeMap<String, Flow>,
    asked: BTreeMap<String, Asked>,
    endpoints: u64,
    passings: u64,
    window: Option<(u64, u64)>,
}

/// What is wrong with a line.
type Played<T> = Result<T, String>;

/// Plays a script; an error names the line.
pub fn play(text: &str) -> Result<Recording, String> {
    let mut p = Player::default();
    for (i, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if !line.is_empty() {
            p.line(line).map_err(|e| format!("line {}: {e}: {line}", i + 1))?;
        }
    }
    if let Some((from, to)) = p.window {
        p.out.cut(from * US, to * US);
    }
    Ok(p.out)
}

/// A clock's setting, as `+90s`.
fn seconds(word: &str) -> Played<i64> {
    word.trim_start_matches('+').trim_end_matches('s').parse().map_err(|_| format!("{word} is no clock"))
}

fn number(word: &str) -> Played<u64> {
    word.parse().map_err(|_| format!("{word} is no number"))
}

impl Player {
    fn line(&mut self, line: &str) -> Played<()> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["host", name, ref rest @ ..] => {
                let clock = match rest {
                    ["clock", c] => seconds(c)?,
                    _ => 0,
                };
                self.out.hosts.push(HostRows::new(name, clock * 1_000_000_000));
                Ok(())
            }
            ["packets", "lost", from, to] => {
                let (from, to) = (number(from)? * US, number(to)? * US);
                self.out.hosts.iter_mut().for_each(|h| h.lost(from, to, 1, "loss.packet"));
                Ok(())
            }
            ["sniffer", name] => {
                self.sniffer(name, 0);
                Ok(())
            }
            ["sniffer", name, "clock", c] => {
                self.sniffer(name, seconds(c)?);
                Ok(())
            }
            ["seen", name, "by", tap, from, to, ref rest @ ..] => self.seen(name, tap, from, to, rest),
            ["task", name, comm, ref rest @ ..] => self.task(name, comm, rest),
            ["flow", name, client, server, ref rest @ ..] => self.flow(name, client, server, rest),
            ["lost", from, to] => {
                let (from, to) = (number(from)? * US, number(to)? * US);
                self.out.hosts.iter_mut().for_each(|h| h.lost(from, to, 1, "loss.ring.op"));
                Ok(())
            }
            ["recorded", from, to] => {
                self.window = Some((number(from)?, number(to)?));
                Ok(())
            }
            [time, who, verb, ref rest @ ..] => {
                let plain = time.trim_start_matches(['~', '?']);
                let recorded = !time.starts_with('~');
                let rows_before: Vec<usize> = self.out.hosts.iter().map(|h| h.rows.len()).collect();
                self.step(number(plain)? * US, who, verb, rest, !time.starts_with('?'))?;
                if !recorded {
                    for (h, n) in self.out.hosts.iter_mut().zip(rows_before) {
                        h.rows.truncate(n);
                    }
                }
                Ok(())
            }
            _ => Err("not understood".into()),
        }
    }

    fn task(&mut self, name: &str, comm: &str, rest: &[&str]) -> Played<()> {
        if self.out.hosts.is_empty() {
            self.out.hosts.push(HostRows::new("web", 0));
        }
        let number = self.tasks.len() as u32 + 1;
        let (host, leader) = match *rest {
            ["of", other] => {
                let t = self.who(other)?;
                (t.host, t.leader)
            }
            ["on", host] => {
                let found = self.out.hosts.iter().position(|h| h.name == host);
                (found.ok_or_else(|| format!("no host {host}"))?, number)
            }
            _ => (self.out.hosts.len() - 1, number),
        };
        self.out.hosts[host].task(0, number, leader, 0, comm);
        self.tasks.insert(name.to_owned(), Task { host, number, leader });
        Ok(())
    }

    fn who(&self, name: &str) -> Played<&Task> {
        self.tasks.get(name).ok_or_else(|| format!("no task {name}"))
    }

    fn flow(&mut self, name: &str, client: &str, server: &str, rest: &[&str]) -> Played<()> {
        let index = self.flows.len() as u16;
        let mut ports = (40_000 + index, 80 + index);
        let (mut opaque, mut old, mut netns, mut seq) = (false, false, 1, 1_000 * u64::from(index + 1));
        let (mut dialled, mut is_peer, mut has_ids, mut has_streams) = (None, false, false, false);
        let mut rest = rest;
        while let Some((word, more)) = rest.split_first() {
            rest = match (*word, more) {
                ("opaque", _) => {
                    opaque = true;
                    more
                }
                ("peer", _) => {
                    is_peer = true;
                    more
                }
                ("ids", _) => {
                    has_ids = true;
                    more
                }
                ("streams", _) => {
                    has_streams = true;
                    more
                }
                ("old", _) => {
                    old = true;
                    more
                }
                ("ports", [a, b, more @ ..]) => {
                    ports = (number(a)? as u16, number(b)? as u16);
                    more
                }
                ("netns", [n, more @ ..]) => {
                    netns = number(n)? as u32;
                    more
                }
                ("seq", [n, more @ ..]) => {
                    seq = number(n)?;
                    more
                }
                ("seen", ["as", address, port, more @ ..]) => {
                    let octets: Vec<u8> = address.split('.').filter_map(|o| o.parse().ok()).collect();
                    let octets: [u8; 4] = octets.try_into().map_err(|_| format!("{address} is no address"))?;
                    dialled = Some((octets, number(port)? as u16));
                    more
                }
                _ => return Err(format!("{word} is not understood")),
            };
        }
        let reply_seq = seq + 500_000;
        let leaders = [client, server].map(|who| self.tasks.get(who).map_or(0, |t| t.leader));
        let mut side = |who: &str, is_server: bool| -> Played<Side> {
            if who == "-" {
                return Ok(None);
            }
            let t = self.who(who)?;
            let (host, task) = (t.host, t.number);
            self.endpoints += 1;
            let id = if is_peer && is_server { PEER_BIT | self.endpoints } else { self.endpoints };
            let address = |h: Option<usize>| h.map_or([10, 0, 0, 99], |h| [10, 0, 0, 1 + h as u8]);
            let other = |n: &str| self.tasks.get(n).map(|t| t.host);
            let here = (address(other(client)), ports.0);
            let there = (address(other(server)), ports.1);
            let (local, remote) = if is_server { (there, here) } else { (here, dialled.unwrap_or(there)) };
            let (snd, rcv) = if is_server { (reply_seq, seq) } else { (seq, reply_seq) };
            let how = match (old, is_server) {
                (true, _) => seen::SNAPSHOT,
                (_, true) => seen::ACCEPTED,
                _ => seen::CONNECTED,
            };
            let e =
                Announced { flow: id, local, remote, netns, snd, rcv, task, how, side: if is_server { 1 } else { 2 } };
            self.out.hosts[host].endpoint(0, &e);
            Ok(Some((host, id)))
        };
        let (client, server) = (side(client, false)?, side(server, true)?);
        let numbers = [seq, reply_seq];
        let address = |s: Side| s.map_or([10, 0, 0, 99], |(h, _)| [10, 0, 0, 1 + h as u8]);
        let addresses = [(address(client), ports.0), dialled.unwrap_or((address(server), ports.1))];
        self.flows.insert(
            name.to_owned(),
            Flow {
                client,
                server,
                leaders,
                opaque,
                has_ids,
                has_streams,
                noted: [false; 2],
                addresses,
                sent: numbers,
                read: numbers,
            },
        );
        Ok(())
    }

    fn flow_of(&mut self, name: &str) -> Played<&mut Flow> {
        self.flows.get_mut(name).ok_or_else(|| format!("no flow {name}"))
    }

    fn asked_of(&mut self, name: &str) -> Played<&mut Asked> {
        self.asked.get_mut(name).ok_or_else(|| format!("{name} was not asked"))
    }

    fn begin(&mut self, name: &str, flow: &str, at: u64, cause: Option<usize>) -> Played<()> {
        let f = self.flow_of(flow)?;
        let start = f.sent[0];
        f.sent[0] += REQUEST_BYTES;
        let (client, server) = (f.client, f.server);
        let end = |s: Side| s.map(|(h, e)| (self.out.hosts[h].name.clone(), e));
        let call = Call {
            name: name.to_owned(),
            cause,
            client: end(client),
            server: end(server),
            wire: Vec::new(),
            start,
            began_ns: at,
            ended_ns: u64::MAX,
        };
        self.out.truth.calls.push(call);
        let call = self.out.truth.calls.len() - 1;
        let asked = Asked {
            flow: flow.to_owned(),
            call,
            start,
            reply: None,
            reply_sent: 0,
            reply_known: false,
            status: 200,
            sent_at: at,
            is_posted: false,
        };
        self.asked.insert(name.to_owned(), asked);
        Ok(())
    }

    /// The rows of bytes that a task moved on one side of a flow (sent where they did not arrive), and of the messages
    /// whose heads were complete by it.
    fn moved(
        &mut self,
        step: (u64, u32, bool),
        side: Side,
        bytes: std::ops::Range<u64>,
        arrived: u64,
        messages: &[(String, std::ops::Range<u64>, u16)],
    ) -> Played<()> {
        let (at, task, says) = step;
        let (host, flow) = side.ok_or("this end is not watched")?;
        let is_send = arrived == 0;
        let h = &mut self.out.hosts[host];
        h.moved((at - US / 2, at, arrived), task, flow, is_send, bytes);
        let Some(f) = self.flows.values_mut().find(|f| f.client == side || f.server == side) else { return Ok(()) };
        let noted = std::mem::replace(&mut f.noted[usize::from(f.server == side)], true);
        if !noted {
            h.note(at, flow, !f.opaque);
        }
        if says && !f.opaque {
            for (name, range, status) in messages {
                h.message(at, flow, is_send, range.clone(), ("GET", &format!("/{name}")), *status);
                if self.asked.get(name).is_some_and(|a| a.is_posted) {
                    h.is_posted();
                }
                if f.has_ids {
                    h.bears(witness::X_REQUEST_ID, range.start);
                }
                if f.has_streams
                    && let Some(a) = self.asked.get(name)
                {
                    h.bears(witness::HTTP2, a.call as u64 + 1);
                }
            }
        }
        Ok(())
    }

    fn step(&mut self, at: u64, who: &str, verb: &str, rest: &[&str], says: bool) -> Played<()> {
        let t = self.who(who)?;
        let (host, task, leader) = (t.host, t.number, t.leader);
        let step = (at, task, says);
        match (verb, rest) {
            ("takes", [names, flow @ ..]) => self.takes(step, names, flow.first().copied()),
            ("asks" | "posts", [name, flow, "for", cause]) => {
                let cause = match *cause {
                    "-" => None,
                    c => Some(self.asked_of(c)?.call),
                };
                self.begin(name, flow, at, cause)?;
                if verb == "posts" {
                    let a = self.asked_of(name)?;
                    a.is_posted = true;
                    let call = a.call;
                    self.out.truth.calls[call].ended_ns = at;
                }
                let f = self.flow_of(flow)?;
                let (client, end) = (f.client, f.sent[0]);
                let bytes = end - REQUEST_BYTES..end;
                let message = [((*name).to_owned(), bytes.clone(), 0)];
                self.moved(step, client, bytes, 0, &message)
            }
            ("answers", [name, how @ ..]) => self.answers(step, name, how),
            ("hears", [name]) => {
                let flow = self.asked_of(name)?.flow.clone();
                let is_answered = self.asked_of(name)?.reply.is_some();
                if self.flow_of(&flow)?.server.is_none() && !is_answered {
                    self.answers(step, name, &[])?;
                }
                let a = self.asked_of(name)?;
                let (start, end) = a.reply.ok_or("there is no reply yet")?;
                let (status, flow, to, sent_at) = (a.status, a.flow.clone(), start + a.reply_sent, a.sent_at);
                let known = std::mem::replace(&mut a.reply_known, true);
                let f = self.flow_of(&flow)?;
                let bytes = f.read[1].max(start)..to;
                f.read[1] = to;
                let client = f.client;
                let message = [((*name).to_owned(), start..end, status)];
                self.moved(step, client, bytes, sent_at + 1, if known { &[] } else { &message })
            }
            ("accepts" | "connects", [flow, how @ ..]) => {
                let f = self.flow_of(flow)?;
                let (side, kind) = if verb == "accepts" { (f.server, op::ACCEPT) } else { (f.client, op::CONNECT) };
                let (h, e) = side.ok_or("this end is not watched")?;
                self.out.hosts[h].op(at - US / 2, at, task, e, kind, if *how == ["later"] { -115 } else { 0 });
                Ok(())
            }
            ("polls", [ready, how @ ..]) => {
                let (mut entry, mut timeout) = (at, u64::MAX);
                for pair in how.chunks(2) {
                    match pair {
                        ["since", t] => entry = number(t)? * US,
                        ["timeout", ms] => timeout = number(ms)? * 1_000_000,
                        _ => return Err("not understood".into()),
                    }
                }
                self.out.hosts[host].polled(entry, at, task, number(ready)? as i32, timeout);
                Ok(())
            }
            ("given", [flow, how @ ..]) => {
                let (mut entry, mut timeout, mut ready, mut kind, mut isolated) = (at, u64::MAX, 1, input::READ, 1);
                let mut how = how;
                while let Some((word, more)) = how.split_first() {
                    how = match (*word, more) {
                        ("write", _) => {
                            kind = input::WRITE;
                            more
                        }
                        ("other", _) => {
                            kind = input::OTHER;
                            more
                        }
                        ("together", _) => {
                            isolated = 0;
                            more
                        }
                        ("rest", _) => {
                            isolated = 2;
                            more
                        }
                        ("of", [n, more @ ..]) => {
                            ready = number(n)? as u32;
                            more
                        }
                        ("since", [t, more @ ..]) => {
                            entry = number(t)? * US;
                            more
                        }
                        ("timeout", [ms, more @ ..]) => {
                            timeout = number(ms)? * 1_000_000;
                            more
                        }
                        _ => return Err(format!("{word} is not understood")),
                    };
                }
                let flow = match *flow {
                    "-" => 0,
                    name => {
                        let f = self.flow_of(name)?;
                        let mine = if f.leaders[1] == leader { f.server } else { f.client };
                        mine.ok_or("this end is not watched")?.1
                    }
                };
                let h = &mut self.out.hosts[host];
                h.polled(entry, at, task, if isolated > 0 { 1 } else { ready as i32 }, timeout);
                h.given(at, task, flow, kind, ready, isolated);
                Ok(())
            }
            ("else", []) => {
                self.out.hosts[host].given(at, task, 0, input::ELSE, 0, 0);
                Ok(())
            }
            ("woken", ["by", by, "since", blocked, rest @ ..]) => {
                let (by, on) = match (*by, self.tasks.get(*by)) {
                    ("timer", _) => (0, 0),
                    (_, Some(t)) => (t.number, 0),
                    (flow, None) => {
                        let f = self.flow_of(flow)?;
                        let side = [f.client, f.server].into_iter().flatten().find(|s| s.0 == host);
                        (0, side.ok_or("this end is not watched")?.1)
                    }
                };
                let (mut woken, mut futex, mut is_epoll) = (at - US, None, false);
                for pair in rest.chunks(2) {
                    match pair {
                        ["when", t] => woken = number(t)? * US,
                        ["at", address] => futex = Some(number(address)?),
                        ["in", "epoll"] => is_epoll = true,
                        other => return Err(format!("unknown behind `woken`: {other:?}")),
                    }
                }
                let h = &mut self.out.hosts[host];
                h.waited(number(blocked)? * US, woken, at, task, by, on);
                futex.into_iter().for_each(|address| h.at_futex(address));
                if is_epoll {
                    h.in_epoll();
                }
                Ok(())
            }
            ("forks", [name, comm]) => {
                let child = self.tasks.len() as u32 + 1;
                self.out.hosts[host].task(at, child, leader, task, comm);
                self.tasks.insert((*name).to_owned(), Task { host, number: child, leader });
                Ok(())
            }
            ("ends", []) => {
                self.out.hosts[host].ended(at, task, leader);
                Ok(())
            }
            ("closes" | "resets", [flow]) => {
                let f = self.flow_of(flow)?;
                for (h, e) in [f.client, f.server].into_iter().flatten() {
                    self.out.hosts[h].closed(at, e, task, verb == "resets");
                }
                Ok(())
            }
            _ => Err("not understood".into()),
        }
    }

    fn takes(&mut self, step: (u64, u32, bool), names: &str, flow: Option<&str>) -> Played<()> {
        let mut messages = Vec::new();
        let (mut server, mut from, mut to, mut arrived) = (None, u64::MAX, 0, u64::MAX);
        for name in names.split(',') {
            if let Some(flow) = flow {
                self.begin(name, flow, step.0, None)?;
            }
            let a = self.asked_of(name)?;
            let (flow, start, sent_at) = (a.flow.clone(), a.start, a.sent_at);
            let f = self.flow_of(&flow)?;
            server = f.server;
            from = from.min(start);
            to = to.max(start + REQUEST_BYTES);
            f.read[0] = to;
            arrived = arrived.min(if f.client.is_some() { sent_at + 1 } else { step.0 - US });
            messages.push((name.to_owned(), start..start + REQUEST_BYTES, 0));
        }
        self.moved(step, server, from..to, arrived, &messages)
    }

    fn answers(&mut self, step: (u64, u32, bool), name: &str, how: &[&str]) -> Played<()> {
        let mut status = 200;
        let mut part = None;
        for word in how {
            match *word {
                "part" | "rest" => part = Some(*word),
                code => status = number(code)? as u16,
            }
        }
        let flow = self.asked_of(name)?.flow.clone();
        let f = self.flow_of(&flow)?;
        let next = f.sent[1];
        let server = f.server;
        let a = self.asked_of(name)?;
        let is_first = a.reply.is_none();
        let (start, end) = *a.reply.get_or_insert((next, next + REPLY_BYTES));
        let to = if part == Some("part") { start + HEAD_BYTES } else { end };
        let from = start + a.reply_sent;
        a.reply_sent = to - start;
        if is_first {
            a.status = status;
        }
        a.sent_at = step.0;
        let (call, status) = (a.call, a.status);
        let f = self.flow_of(&flow)?;
        f.sent[1] = f.sent[1].max(to);
        if part != Some("part") {
            self.out.truth.calls[call].ended_ns = step.0;
        }
        if server.is_none() {
            return Ok(()); // nobody sees it leave
        }
        let message = [(name.to_owned(), start..end, status)];
        self.moved(step, server, from..to, 0, if is_first { &message } else { &[] })
    }
}
