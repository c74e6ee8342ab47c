//! Recordings from a text: one step a line, each with its time in microseconds, its task, and what the task does.
//!
//! ```text
//! # a comment
//! host web                       a host; clock +90s: what its clock shows at 0
//! task A app                     a process; `on web` where there are several hosts, else the last one
//! task B app of A                another thread of it; `by A`: a process that A's forked, `by A with x.conf`: with such words
//! goroutine g of A               a logical task of A's process; `A/g takes r1 c`: A does it in its name
//! tokio t of A                   the same of Tokio's. `110 A/t gives conn to u`: it wakes the idle task u (whose kind is called conn), which
//!                                sends; `empty` after it: t, which sends for others, resumes u; `born`: t made u, which no
//!                                other one ever woke (`A/- gives`: others did before)
//! node n of A at 101             the same of Node's: a request's context
//! context k of A                 the same of Python's; after both: by j at 105 (another made it, then). `110 A/g ends`
//!                                `110 A/g works for others`: its runtime was seen to
//!                                `110 A/g gives job to h`: an item of a channel, whose type is called job; after it: of g0 (who sent
//!                                it first), first 95 (when), sent 105, empty
//! flow c - A                     a flow from somebody who is not watched to A's process
//! flow d A D                     from A to D; `A -`: D is not watched
//!                                after it: opaque, old (older than the recording), counted (old, and the kernel tells the
//!                                numbers of its first bytes), unsided (old, and which end serves only
//!                                messages tell), ports 40000 80, netns 2 (both ends),
//!                                seq 4294967000 (first byte of both directions), seen as 10.9.9.9 80 (what the client
//!                                dialled, where an address is translated), peer (the server's end is one of the peers of
//!                                an unconnected datagram socket), ids (each message has an x-request-id of its own),
//!                                late (its protocol shows with its first whole head),
//!                                chunked (how long a reply in parts is shows at its end),
//!                                streams (each bears the number of its request, and replies come in any order), ring (io_uring
//!                                carries its operations), turns (a message that another follows is not answered, as WebSocket's),
//!                                awaits (what is asked waits until something happens elsewhere, as `BRPOP`),
//!                                relayed (what is asked is queued, and answered by who takes it up), piped (two pipes, one each way; `piped as d`: the same as d's;
//!                                `piped read`: its messages are, and numbers pair them)
//! 100 A takes r1 c               A reads a request that somebody unwatched sent; `r1,r2`: both at once; `part`: its first half,
//!                                then `takes r1 rest`
//! 110 A asks q1 d for r1         A sends a request in the service of r1 (`for -`: of nothing); `q1,q2`: both at once
//! 110 A posts q1 d for r1        the same of a message that gets no reply, put into a queue
//! 120 D takes q1                 its other end reads it
//! 130 D answers q1               also `answers q1 500`; `part`: the first half of the reply, `rest`: the other half
//! 140 A hears q1                 A reads the reply, as far as it was sent (by an unwatched server: all of it); `q1,q2`: both at once
//! 150 A answers r1
//! 150 A loses borders d          from here on nobody knows where messages to the server begin, until one is known again
//! 160 A connects d               also `connects d later` (in progress); 160 D accepts d
//! 150 A sends frames c           bytes of no message (control frames, or what wakes another thread: `flow w B A piped`); also `reads frames`; `sends push`: a message of the server's
//!                                that answers nothing, on a flow with turns; `reads push`
//! 150 A sends withdrawal q1      a client takes its request on a flow with streams back; 152 D reads withdrawal q1
//! 170 A runs k                   its processor's clock ticks while it works for k
//! 170 A polls 2                  epoll gave 2 descriptors; after it: since 165, timeout 500 (milliseconds)
//! 170 A given c                  the library gave A one input: FLOW is readable; `write`: writable; `other`: no flow (then
//!                                `given -`); after it: of 3 (were ready), together (not isolated), rest (its whole process
//!                                was at rest), since, timeout
//! 175 A else                     A's process goes on with something else than the input that it was given at rest
//! 180 B woken by A since 170     B was blocked since 170; `by timer`, `by c` (a flow); after it: when 175 (B ran late), at 64
//!                                (the futex), in epoll, by datagram (to a socket of which nothing else is known)
//! 190 A forks B app              B begins
//! 195 B ends
//! 200 A closes d                 after it: amid (within what is sent at that time); also `A resets d`; `A leaves d`: the client
//!                                closes its end, and the other keeps the flow
//! 200 A loses client c           the client of c, at whose other end A is, closes it; `reset` after it: it resets it.
//!                                `A drops c`: the server closes its end; `A fails c`: it could not send
//! bears r1 X                     the request r1, which comes later, has the x-request-id X; `span S`: and a traceparent with that
//! says r1 X                      the reply to r1, which comes later, begins with the bytes X; without it, with some that nobody read
//! sniffer tap                    somebody who sees packets; clock +3s
//! seen q1 by tap 112 138         an exchange passes it between two times; after it: from 10.0.0.9, to 10.0.0.2 80 and
//!                                for r1 (where no task of the script has it: else as that one's), id X (x-request-id),
//!                                trace T S (trace and span), again 10.0.0.9 10.1.1.1 80 (passes translated as well),
//!                                old (the flow is), unanswered, open, reply only
//! packets lost 100 200           by every sniffer
//! lost 100 200                   operations were lost between two times
//! waits lost 100 200             waits were lost, by every host
//! handovers lost 100 200         what channels handed over was, by every host
//! recorded 100 900               nothing before or after was recorded
//! ```
//!
//! Before a step, `~` says that it happened and was not recorded; `?` that the operation was recorded, by `splice`, so that no
//! message is known from it.

mod flows;
mod steps;
mod wire;

use crate::recording::{HEAD_BYTES, HostRows, Recording};
use crate::truth::Call;
use std::collections::BTreeMap;
use steps::Step;
use wakepath_model::rows::{Life, RuntimeKind, WitnessKind, fingerprint};

const US: u64 = 1_000;
const REQUEST_BYTES: u64 = 80;
const REPLY_BYTES: u64 = 200;

struct Task {
    host: usize,
    number: u32,
    leader: u32,
}

/// One end of a flow: host and endpoint, where watched.
type Side = Option<(usize, u64)>;

/// What a message says besides.
#[derive(Clone, Copy, Default)]
struct Said {
    /// Of a request: hash, kind and value of an identifier.
    identifier: Option<(u64, (WitnessKind, u64))>,
    /// Of its reply: fingerprint of the body.
    body: u64,
}

struct Flow {
    client: Side,
    server: Side,
    /// Leading tasks of both ends' processes.
    leaders: [u32; 2],
    opaque: bool,
    is_late: bool,
    is_ring: bool,
    has_ids: bool,
    has_streams: bool,
    is_chunked: bool,
    is_relayed: bool,
    awaits: bool,
    has_turns: bool,
    noted: [bool; 2],
    /// Its messages are read, of a pair of pipes.
    is_read: bool,
    /// Of a pair of pipes, the one of the requests; that of the replies is the next one.
    pipes: Option<u64>,
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
    /// What requests bear: an `x-request-id`, hashed, and their witness.
    said: BTreeMap<String, Said>,
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
    /// Something was lost between two times, by every host.
    fn lost(&mut self, from: &str, to: &str, what: &str) -> Played<()> {
        let (from, to) = (number(from)? * US, number(to)? * US);
        self.out.hosts.iter_mut().for_each(|h| h.lost(from, to, 1, what));
        Ok(())
    }

    /// The reply to a request begins with these bytes.
    fn says(&mut self, name: &str, body: &str) -> Played<()> {
        self.said.entry(name.to_owned()).or_default().body = wire::hash(body).max(fingerprint::NOTHING + 1);
        Ok(())
    }

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
            ["goroutine", name, "of", process] => self.logical(name, process, RuntimeKind::Go, None),
            ["tokio", name, "of", process] => self.logical(name, process, RuntimeKind::Tokio, None),
            ["context", name, "of", process] => self.logical(name, process, RuntimeKind::Python, None),
            // by nobody whose name is known
            [kind @ ("context" | "node"), name, "of", process, "at", at] => {
                let runtime = if kind == "node" { RuntimeKind::Node } else { RuntimeKind::Python };
                self.logical(name, process, runtime, Some((0, number(at)? * US)))
            }
            [kind @ ("goroutine" | "context"), name, "of", process, "by", maker, "at", at] => {
                let maker = (self.who(maker)?.number, number(at)? * US);
                let runtime = if kind == "context" { RuntimeKind::Python } else { RuntimeKind::Go };
                self.logical(name, process, runtime, Some(maker))
            }
            [time, who, "ends"] if who.contains('/') => self.again(time, who, Life::Exit),
            [time, who, "works", "for", "others"] => self.again(time, who, Life::ForOthers),
            ["flow", name, client, server, ref rest @ ..] => self.flow(name, client, server, rest),
            [time, who, "gives", kind, "to", to, ref rest @ ..] if who.contains('/') => {
                let from = who.rsplit('/').next().unwrap_or(who);
                self.gives(number(time)? * US, from, kind, to, rest)
            }
            ["bears", name, id] => {
                let id = wire::hash(id);
                self.said.entry(name.to_owned()).or_default().identifier = Some((id, (WitnessKind::XRequestId, id)));
                Ok(())
            }
            ["bears", name, id, "span", span] => {
                let witness = (WitnessKind::Traceparent, wire::hash(span));
                self.said.entry(name.to_owned()).or_default().identifier = Some((wire::hash(id), witness));
                Ok(())
            }
            ["says", name, body] => self.says(name, body),
            ["packets", "lost", from, to] => self.lost(from, to, "loss.packet"),
            ["waits", "lost", from, to] => self.lost(from, to, "loss.ring.wait"),
            ["handovers", "lost", from, to] => self.lost(from, to, "loss.ring.task"),
            ["lost", from, to] => self.lost(from, to, "loss.ring.op"),
            ["recorded", from, to] => {
                self.window = Some((number(from)?, number(to)?));
                Ok(())
            }
            [time, who, verb, ref rest @ ..] => {
                let plain = time.trim_start_matches(['~', '?']);
                let recorded = !time.starts_with('~');
                let rows_before: Vec<usize> = self.out.hosts.iter().map(|h| h.rows.len()).collect();
                let (who, logical) = who.split_once('/').map_or((who, None), |(who, logical)| (who, Some(logical)));
                self.step(number(plain)? * US, who, verb, rest, !time.starts_with('?'))?;
                let hosts = self.out.hosts.iter_mut().zip(&rows_before).filter(|_| time.starts_with('?'));
                hosts.for_each(|(host, from)| host.by_splice(*from));
                if let Some(logical) = logical {
                    let (host, id) = self.who(logical).map(|t| (t.host, t.number))?;
                    self.out.hosts[host].in_the_name_of(id, rows_before[host]);
                }
                if !recorded {
                    self.out.hosts.iter_mut().zip(rows_before).for_each(|(h, n)| h.rows.truncate(n));
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
        let (mut parent, mut words) = (0, String::new());
        let (host, leader) = match *rest {
            ["of", other] => {
                let t = self.who(other)?;
                (t.host, t.leader)
            }
            ["by", maker, ref rest @ ..] => {
                let t = self.who(maker)?;
                (parent, words) = (t.number, rest.strip_prefix(&["with"]).unwrap_or_default().join(" "));
                (t.host, number)
            }
            ["on", host] => {
                let found = self.out.hosts.iter().position(|h| h.name == host);
                (found.ok_or_else(|| format!("no host {host}"))?, number)
            }
            _ => (self.out.hosts.len() - 1, number),
        };
        match words.is_empty() {
            true => self.out.hosts[host].task(0, number, leader, parent, comm),
            false => self.out.hosts[host].started_with(0, number, parent, comm, &words),
        }
        self.tasks.insert(name.to_owned(), Task { host, number, leader });
        Ok(())
    }

    fn logical(&mut self, name: &str, process: &str, runtime: RuntimeKind, maker: Option<(u32, u64)>) -> Played<()> {
        let t = self.who(process)?;
        let (host, leader, number) = (t.host, t.leader, self.tasks.len() as u32 + 1);
        self.out.hosts[host].logical(number, leader, runtime, maker);
        self.tasks.insert(name.to_owned(), Task { host, number, leader });
        Ok(())
    }

    /// A logical task ends, or is told to work for others.
    fn again(&mut self, time: &str, who: &str, what: Life) -> Played<()> {
        let (host, id) = self.who(who.rsplit('/').next().unwrap_or(who)).map(|t| (t.host, t.number))?;
        self.out.hosts[host].logical_again(number(time)? * US, id, what);
        Ok(())
    }

    /// A goroutine gives an item to another.
    fn gives(&mut self, at: u64, from: &str, kind: &str, to: &str, rest: &[&str]) -> Played<()> {
        let (host, to) = self.who(to).map(|t| (t.host, t.number))?;
        let from = if from == "-" { 0 } else { self.who(from)?.number };
        let (mut sent, mut first, mut first_sent, mut is_empty) = (at, from, None, false);
        let mut words = rest.iter();
        while let Some(word) = words.next() {
            match (*word, words.clone().next()) {
                ("empty", _) => is_empty = true,
                ("born", _) => first = 0,
                ("sent", Some(at)) => sent = number(at)? * US,
                ("first", Some(at)) => first_sent = Some(number(at)? * US),
                ("of", Some(who)) => first = self.who(who)?.number,
                _ => return Err(format!("{word} is not understood")),
            }
            if !matches!(*word, "empty" | "born") {
                words.next();
            }
        }
        let of = kind.bytes().fold(0u64, |n, b| n.wrapping_mul(31).wrapping_add(b.into()));
        self.out.hosts[host].handed_over([first_sent.unwrap_or(sent), sent, at], of, [from, first, to], is_empty);
        Ok(())
    }

    fn who(&self, name: &str) -> Played<&Task> {
        self.tasks.get(name).ok_or_else(|| format!("no task {name}"))
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
        step: Step,
        side: Side,
        bytes: std::ops::Range<u64>,
        arrived: u64,
        messages: &[(String, std::ops::Range<u64>, u16)],
    ) -> Played<()> {
        let Step { at, task, says, .. } = step;
        let (host, flow) = side.ok_or("this end is not watched")?;
        let is_send = arrived == 0;
        let h = &mut self.out.hosts[host];
        if let Some(f) = self.flows.values().find(|f| f.pipes.is_some() && (f.client == side || f.server == side)) {
            let is_reply = (f.server == side) == is_send;
            let pipe = f.pipes.unwrap_or_default() + u64::from(is_reply);
            h.moved((at - US / 2, at, arrived), task, pipe, is_send, bytes);
            // who reads it reads the same
            for (name, range, status) in messages.iter().filter(|_| f.is_read && is_send && says) {
                h.message(at, pipe, true, range.clone(), ("GET", &format!("/{name}")), *status);
                let a = self.asked.get(name);
                if a.is_some_and(|a| a.is_posted) {
                    h.is_posted();
                }
                h.is_on_lane(a.map_or(0, |a| a.call as u64 + 1));
            }
            return Ok(());
        }
        h.moved((at - US / 2, at, arrived), task, flow, is_send, bytes);
        let Some(f) = self.flows.values_mut().find(|f| f.client == side || f.server == side) else { return Ok(()) };
        if f.is_ring {
            h.is_of_ring();
        }
        let noted = &mut f.noted[usize::from(f.server == side)];
        if !*noted && (!f.is_late || !messages.is_empty()) {
            *noted = true;
            h.note(at, flow, !f.opaque);
        }
        if says && !f.opaque {
            for (name, range, status) in messages {
                h.message(at, flow, is_send, range.clone(), ("GET", &format!("/{name}")), *status);
                if self.asked.get(name).is_some_and(|a| a.is_posted) {
                    h.is_posted();
                }
                if f.has_turns && *status == 0 {
                    h.is_by_turn();
                }
                if f.is_relayed && *status == 0 {
                    h.is_relayed();
                }
                if f.awaits && *status == 0 {
                    h.asks_to_wait();
                }
                let said = self.said.get(name).copied().unwrap_or_default();
                if let Some((id, (kind, value))) = said.identifier.filter(|_| *status == 0) {
                    h.bears(kind, value);
                    h.carries(id);
                }
                if *status != 0 {
                    h.says(said.body);
                }
                if f.has_ids {
                    h.bears(WitnessKind::XRequestId, range.start);
                }
                if f.has_streams
                    && let Some(a) = self.asked.get(name)
                {
                    h.bears(WitnessKind::Http2, a.call as u64 + 1);
                }
            }
        }
        Ok(())
    }
}
