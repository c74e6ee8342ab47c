//! Folders from a text: one row a line, times in microseconds.
//!
//! ```text
//! host web +500                     a host, and what its clock shows at 0
//! task A                            a task of the last host that was there before; `at 10`: met only then; `named postgres`
//! task B of A at 30                 forked; `thread`: another thread of A's process
//! exit B 90
//! watched B                         B's process was selected
//! flow f A B                        a TCP flow between two tasks' hosts; after it: `udp`, `listens` (B's end);
//!                                   `flow f A -`: to somebody who is not watched; `unaccepted 81`: B listens at that port, and
//!                                   has accepted nothing (`udp`: is bound to it)
//! A 10..50 55 task B futex          blocked, woken, ran; the cause; the system call
//!                                   causes: task X, socket F SEQ, net, timer, disk, irq N, softirq N, preempted X, open,
//!                                   packet N, none, quota, stopped X SIGNAL (`-` where nobody is known); after it also `cpu N`, `D` (uninterruptible),
//!                                   `traced` (by a debugger), `word N` (the futex), `held X` (the futex is a lock that X holds; `-` not known)
//! A sends f 100..110 0..80          a send: entry, return, bytes
//! A receives f 100..110 0..80       so too; also connects, accepts, closes (no bytes)
//! A resends f 150                   TCP sends once more: bytes 0..10, or with `syn` after it the SYN
//! B fills f 20                      the queue of the listener `f` has no room from then on
//! A polls 100..101                  a poll that found nothing and was not to wait; `for 50`: at most so long; `endless`
//! A faults 10..20 major /lib/x      a page fault: began, over, how, the file; `A faults 10..20 major 77`: a file without a name
//! packet web 20 1 7 sent A          on a host, at, number, key; `sent A`, `sent net TRIGGER`, `sent timer`, `received`;
//!                                   after it: seq 5, bytes 20
//! lost web 10 20                    wait records were lost
//! ask A 0 100                       what is asked for
//! ```
#![allow(dead_code, reason = "each test binary uses its part")]

use std::collections::BTreeMap;
use std::path::Path;
use wakepath_analysis::slices::Slice;
use wakepath_model::folder::{Durability, FolderWriter, HostInfo, MONOTONIC, Options};
use wakepath_model::ids::{CommonNs, EndpointId, HostId, MonoNs, StrId, TaskId};
use wakepath_model::rows::TaskClass;
use wakepath_model::rows::*;

const US: u64 = 1_000;
/// The host of whoever is not watched.
const UNWATCHED: usize = 98;
/// Nanoseconds since 1970 at time 0.
pub const EPOCH_NS: u64 = 1_700_000_000_000_000_000;

#[derive(Default)]
pub struct Script {
    pub hosts: Vec<(String, u64, Vec<Event>)>,
    /// Tasks by name: host, number.
    pub tasks: BTreeMap<String, (usize, u32)>,
    flows: BTreeMap<String, [(usize, u64); 2]>,
    pub asked: Vec<(String, u64, u64)>,
    endpoints: u64,
    /// Names of programs and files; a row has their place here, counted from 1, until it is written.
    names: Vec<String>,
}

fn number(word: &str) -> u64 {
    word.parse().unwrap_or_else(|_| panic!("{word}: no number"))
}

fn range(word: &str) -> (u64, u64) {
    let (a, b) = word.split_once("..").unwrap_or_else(|| panic!("{word}: no range"));
    (number(a), number(b))
}

impl Script {
    fn at(&self, host: usize, us: u64) -> MonoNs {
        MonoNs((us + self.hosts[host].1) * US)
    }

    fn task(&self, name: &str) -> (usize, TaskId) {
        let t = self.tasks.get(name).unwrap_or_else(|| panic!("{name}: no task"));
        (t.0, TaskId(t.1))
    }

    fn push(&mut self, host: usize, row: impl Into<Event>) {
        self.hosts[host].2.push(row.into());
    }

    fn host(&self, name: &str) -> usize {
        self.hosts.iter().position(|h| h.0 == name).unwrap_or_else(|| panic!("{name}: no host"))
    }

    pub fn read(text: &str) -> Script {
        let mut s = Script::default();
        for line in text.lines() {
            let words: Vec<&str> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
            if !words.is_empty() {
                s.line(&words);
            }
        }
        s
    }

    fn line(&mut self, words: &[&str]) {
        match words[0] {
            "host" => {
                let clock = words.get(2).map_or(0, |w| number(w.trim_start_matches('+')));
                self.hosts.push((words[1].to_owned(), clock, Vec::new()));
                let host = self.hosts.len() - 1;
                let anchor = AnchorRow { at: self.at(host, 0), real_ns: EPOCH_NS, error_ns: 0, ..Default::default() };
                self.push(host, anchor);
            }
            "task" | "exit" | "watched" => self.task_row(words),
            "flow" => self.flow_rows(words),
            "packet" => self.packet_row(words),
            "lost" => {
                let host = self.host(words[1]);
                let (from, at) = (self.at(host, number(words[2])), self.at(host, number(words[3])));
                self.push(host, LossRow { at, from, count: 1, what: StrId::EMPTY, ..Default::default() });
            }
            "ask" => self.asked.push((words[1].to_owned(), number(words[2]), number(words[3]))),
            name if words[1].contains("..") => self.wait(name, words),
            name => self.act(name, words),
        }
    }

    /// `task NAME [of PARENT] [at US] [named COMM] [kernel]`, `exit NAME US`.
    fn task_row(&mut self, words: &[&str]) {
        let after = |what: &str| words.iter().position(|w| *w == what).map(|i| words[i + 1]);
        let of = after("of").map(|p| self.task(p));
        if words[0] == "task" {
            let host = of.map_or(self.hosts.len() - 1, |o| o.0);
            let number = self.tasks.values().filter(|t| t.0 == host).count() as u32 + 1;
            self.tasks.insert(words[1].to_owned(), (host, number));
        }
        let (host, task) = self.task(words[1]);
        let us = after("at").map_or(if words[0] == "exit" { number(words[2]) } else { 0 }, number);
        let at = self.at(host, us);
        let comm = after("named").map_or(StrId::EMPTY, |name| {
            self.names.push(name.replace('_', " "));
            StrId(self.names.len() as u32)
        });
        let is_thread = words.contains(&"thread");
        let what = match (words[0], of) {
            ("exit", _) => Life::Exit,
            ("watched", _) => Life::Watched,
            (_, Some(_)) => Life::Fork,
            _ => Life::Snapshot,
        };
        self.push(
            host,
            TaskRow {
                at,
                start: at,
                task,
                parent: of.map_or(TaskId::UNKNOWN, |o| o.1),
                tgid: of.filter(|_| is_thread).map_or(task, |o| o.1).0,
                tid: task.0,
                comm,
                cmdline: StrId::EMPTY,
                cgroup: StrId::EMPTY,
                what,
                class: if words.contains(&"kernel") { TaskClass::Kernel } else { TaskClass::User },
                ..Default::default()
            },
        );
    }

    /// `flow NAME CLIENT SERVER [listens] [udp]`: an endpoint for each end that is watched.
    fn flow_rows(&mut self, words: &[&str]) {
        self.endpoints += 2;
        let client = self.task(words[2]).0;
        let server = if words[3] == "-" { UNWATCHED } else { self.task(words[3]).0 };
        let ends = [(client, self.endpoints - 1), (server, self.endpoints)];
        let unaccepted = words.iter().position(|w| *w == "unaccepted").map(|i| number(words[i + 1]) as u16);
        let is_listening = unaccepted.is_some() || words.contains(&"listens");
        let (port, holder) = (unaccepted.unwrap_or(80), unaccepted.map_or(TaskId::UNKNOWN, |_| self.task(words[3]).1));
        for (i, (host, flow)) in ends.into_iter().enumerate().filter(|(_, e)| e.0 != UNWATCHED) {
            let (mut laddr, mut raddr) = ([0; 16], [0; 16]);
            laddr[..4].copy_from_slice(&[10, 0, 0, 1 + host as u8]);
            raddr[..4].copy_from_slice(&[10, 0, 0, 1u8.wrapping_add(ends[1 - i].0 as u8)]);
            let ports = [40_000 + self.endpoints as u16, port];
            if unaccepted.is_some() && i == 1 {
                raddr = [0; 16];
            }
            let at = self.at(host, 0);
            self.push(
                host,
                EndpointRow {
                    at,
                    flow: EndpointId(flow),
                    peer: EndpointId(0),
                    snd: 0,
                    rcv: 0,
                    laddr,
                    raddr,
                    netns: 1,
                    task: if i == 1 { holder } else { TaskId::UNKNOWN },
                    path: StrId::EMPTY,
                    lport: ports[i],
                    rport: if unaccepted.is_some() && i == 1 { 0 } else { ports[1 - i] },
                    family: 2,
                    protocol: if words.contains(&"udp") { 17 } else { 6 },
                    how: SeenHow::Snapshot,
                    state: match () {
                        () if is_listening && i == 1 && words.contains(&"udp") => TcpState::Close,
                        () if is_listening && i == 1 => TcpState::Listen,
                        () => TcpState::Established,
                    },
                    side: if i == 0 { Side::Client } else { Side::Server },
                    ulp: 0,
                    ..Default::default()
                },
            );
        }
        self.flows.insert(words[1].to_owned(), ends);
    }

    /// `packet HOST US ID KEY sent|received [CONTEXT] [seq N] [bytes N]`.
    fn packet_row(&mut self, words: &[&str]) {
        let after = |what: &str| words.iter().position(|w| *w == what).map(|i| words[i + 1]);
        let host = self.host(words[1]);
        let mut row = PacketRow { at: self.at(host, number(words[2])), ..Default::default() };
        (row.id, row.key) = (number(words[3]), number(words[4]));
        row.sent = u8::from(words[5] == "sent");
        (row.sport, row.dport, row.protocol, row.flow) = (1, 2, 6, 9);
        row.seq = after("seq").map_or(0, |w| number(w) as u32);
        row.payload = after("bytes").map_or(0, |w| number(w) as u32);
        row.context = PacketContext::Net;
        match words.get(6) {
            Some(&"net") => row.trigger = words.get(7).map_or(0, |w| number(w)),
            Some(&"timer") => row.context = PacketContext::Timer,
            Some(&task) if task != "bytes" && task != "seq" => {
                (row.task, row.context) = (self.task(task).1, PacketContext::Task)
            }
            _ => {}
        }
        self.push(host, row);
    }

    fn wait(&mut self, name: &str, words: &[&str]) {
        let (host, task) = self.task(name);
        let (blocked, woken) = range(words[1]);
        let mut row: WaitRow = Default::default();
        (row.blocked, row.woken, row.at) =
            (self.at(host, blocked), self.at(host, woken), self.at(host, number(words[2])));
        (row.task, row.state, row.syscall) = (task, 1, 0xffff);
        let mut rest = words[3..].iter();
        while let Some(&word) = rest.next() {
            let mut next = || *rest.next().unwrap_or_else(|| panic!("{word}: of what?"));
            match word {
                "task" => {
                    (row.cause, row.by) = (EndedBy::Task, self.tasks.get(next()).map_or(TaskId(0), |t| TaskId(t.1)))
                }
                "preempted" => {
                    (row.cause, row.by, row.state) = (EndedBy::Preempted, self.task(next()).1, 0);
                    row.woken = row.blocked;
                }
                "socket" => {
                    let ends = self.flows[next()];
                    let end = ends.iter().rev().find(|e| e.0 == host).map_or(0, |e| e.1);
                    // on one host the reader is told by the direction: `<` is the client's end
                    let seq = next();
                    let end = if seq.starts_with('<') { ends[0].1 } else { end };
                    (row.cause, row.object, row.rcv_seq) =
                        (EndedBy::Socket, end, number(seq.trim_start_matches('<')) as u32);
                }
                "net" => row.cause = EndedBy::Net,
                "timer" => row.cause = EndedBy::Timer,
                "disk" => (row.cause, row.object) = (EndedBy::Block, 8 << 52),
                "irq" => (row.cause, row.object) = (EndedBy::Irq, number(next())),
                "softirq" => (row.cause, row.object) = (EndedBy::Softirq, number(next())),
                "open" => row.cause = EndedBy::Open,
                "packet" => (row.cause, row.object) = (EndedBy::Packet, number(next())),
                "none" => row.cause = EndedBy::Unknown,
                "stopped" => {
                    (row.cause, row.state) = (EndedBy::Stopped, 4);
                    row.by = self.tasks.get(next()).map_or(TaskId(0), |t| TaskId(t.1));
                    row.object = number(next());
                }
                "traced" => row.state = 8,
                "quota" => (row.cause, row.object, row.state) = (EndedBy::Preempted, 1, 0),
                "cpu" => row.cpu = number(next()) as u16,
                "gap" => row.gaps |= gaps::BEFORE,
                "last" => row.gaps |= gaps::AFTER,
                "D" => row.state = 2,
                "word" => row.arg0 = number(next()),
                "held" => (row.is_lock, row.holder) = (1, self.tasks.get(next()).map_or(TaskId(0), |t| TaskId(t.1))),
                call => row.syscall = wakepath_model::syscalls::number(call).unwrap_or_else(|| panic!("{call}: what?")),
            }
        }
        self.push(host, row);
    }

    fn act(&mut self, name: &str, words: &[&str]) {
        let (host, task) = self.task(name);
        if words[1] == "polls" {
            let (entry, at) = range(words[2]);
            let (entry, at) = (self.at(host, entry), self.at(host, at));
            let timeout_ns = match words.get(3) {
                Some(&"endless") => u64::MAX,
                Some(&"for") => number(words[4]) * US,
                _ => 0,
            };
            self.push(host, PollRow { at, entry, timeout_ns, task, ready: 0, fd: 3, ..Default::default() });
            return;
        }
        if words[1] == "stays" {
            let (from, to) = range(words[2]);
            let (from, to) = (self.at(host, from), self.at(host, to));
            let (ran_ns, cpu) = (to.0 - from.0, number(words[3]) as u16);
            self.push(host, StayRow { at: to, from, to, ran_ns, task, cpu, ..Default::default() });
            return;
        }
        if words[1] == "faults" {
            return self.faults(host, task, words);
        }
        let ends = self.flows[words[2]];
        if let "resends" | "fills" = words[1] {
            self.of_tcp(host, ends, words);
            return;
        }
        let is_client = self.tasks[name].0 == ends[0].0 && (ends[0].0 != ends[1].0 || !words.contains(&"server"));
        let flow = EndpointId(ends[usize::from(!is_client)].1);
        let (entry, at) = range(words[3]);
        let (start, end) = words.get(4).filter(|w| w.contains("..")).map_or((0, 0), |w| range(w));
        let kind = match words[1] {
            "sends" => OpKind::Send,
            "receives" => OpKind::Recv,
            "connects" => OpKind::Connect,
            "accepts" => OpKind::Accept,
            "closes" => OpKind::Close,
            other => panic!("{other}: what?"),
        };
        let (entry, at) = (self.at(host, entry), self.at(host, at));
        let base = 1 << 32;
        if let Some(verb) = words.iter().find_map(|w| w.strip_prefix("asks=")) {
            self.asks(host, verb, MessageRow { at, flow, start: base + start, end: base + end, ..Default::default() });
        }
        self.push(
            host,
            OpRow {
                at,
                entry,
                arrived: MonoNs(0),
                flow,
                start: base + start,
                end: base + end,
                task,
                result: (end - start) as i32,
                kind,
                range: wakepath_model::rows::RangeHow::Exact,
                flags: 0,
                syscall: 0,
                cpu: 0,
                ..Default::default()
            },
        );
    }

    /// A page fault of a task.
    fn faults(&mut self, host: usize, task: TaskId, words: &[&str]) {
        let (began, at) = range(words[2]);
        let (began, at) = (self.at(host, began), self.at(host, at));
        let kind = match words[3] {
            "minor" => FaultKind::Minor,
            "major" => FaultKind::Major,
            _ => FaultKind::Neither,
        };
        let mut row: FaultRow = Default::default();
        (row.began, row.at, row.task, row.kind, row.device) = (began, at, task, kind, 8 << 20);
        match words.get(4) {
            Some(path) if path.starts_with('/') => {
                self.names.push((*path).to_owned());
                (row.inode, row.file) = (1, StrId(self.names.len() as u32));
            }
            Some(inode) => row.inode = number(inode),
            None => {}
        }
        self.push(host, row);
    }

    /// The message of a request that asks for something.
    fn asks(&mut self, host: usize, verb: &str, message: MessageRow) {
        self.names.push(verb.to_owned());
        let verb = StrId(self.names.len() as u32);
        self.push(host, MessageRow { verb, role: MessageRole::Request, ..message });
    }

    /// What TCP says of the client's end, or of a listener.
    fn of_tcp(&mut self, host: usize, [(_, client), (_, listener)]: [(usize, u64); 2], words: &[&str]) {
        let at = self.at(host, number(words[3]));
        if words[1] == "fills" {
            let flow = EndpointId(listener);
            // Linux takes one more than the number that was given
            self.push(host, LimitRow { at, flow, kind: LimitKind::Backlog, value: 0, beside: 1, ..Default::default() });
            return;
        }
        let state = if words.contains(&"syn") { TcpState::SynSent } else { TcpState::Established };
        let flow = EndpointId(client);
        self.push(host, ResentRow { at, flow, seq: 0, seq_end: 10, rtt_us: u32::MAX, state, ..Default::default() });
    }

    /// Writes the folder.
    pub fn write(&self, dir: &Path) {
        for (name, _, rows) in &self.hosts {
            let info = HostInfo {
                hostname: name.clone(),
                boot_id: format!("boot-{name}"),
                clock: MONOTONIC.into(),
                ..HostInfo::default()
            };
            let options = Options { overwrite: wakepath_model::folder::Overwrite::Append, ..Options::default() };
            let mut w = FolderWriter::create(dir, info, options).expect("a folder");
            let lost = w.intern("loss.ring.wait");
            let mut rows = rows.clone();
            rows.sort_by_key(Event::at);
            for row in &mut rows {
                match row {
                    Event::Loss(l) => l.what = lost,
                    Event::Fault(f) if f.file != StrId::EMPTY => f.file = w.intern(&self.names[f.file.0 as usize - 1]),
                    Event::Task(t) if t.comm != StrId::EMPTY => t.comm = w.intern(&self.names[t.comm.0 as usize - 1]),
                    Event::Message(m) if m.verb != StrId::EMPTY => {
                        m.verb = w.intern(&self.names[m.verb.0 as usize - 1])
                    }
                    _ => {}
                }
                w.push_event(row);
            }
            w.flush(Durability::Write).expect("written");
            w.close().expect("closed");
        }
    }

    /// The moment of a time of the script.
    pub fn common(us: u64) -> CommonNs {
        CommonNs((EPOCH_NS + us * US) as i64)
    }

    /// Slices as text.
    pub fn show(&self, slices: &[Slice]) -> String {
        let task = |host: HostId, id: TaskId| {
            self.tasks
                .iter()
                .find(|(_, t)| t.0 == usize::from(host.0) && t.1 == id.0)
                .map_or("?", |(name, _)| name.as_str())
                .to_owned()
        };
        let us = |t: CommonNs| (t.0 - EPOCH_NS as i64) as f64 / US as f64;
        let mut out = String::new();
        for s in slices {
            out +=
                &format!("{:>5} {:>5} {}{}", us(s.from), us(s.to), "  ".repeat(s.depth.into()), task(s.host, s.task));
            out += &format!(" {:?}", s.state);
            if let Some((host, by)) = s.by {
                out += &format!(" by {}", task(host, by));
            }
            if let Some(call) = s.syscall.and_then(wakepath_model::syscalls::name) {
                out += &format!(" in {call}");
            }
            if let Some(wait) = s.wait.filter(|w| *w != s.state) {
                out += &format!(" behind {wait:?}");
            }
            if let Some(object) = &s.object {
                out += &format!(" [{object}]");
            }
            if let Some((rule, class)) = s.evidence {
                out += &format!(" ({rule}, {})", class.name());
            }
            if let Some(reason) = s.reason {
                out += &format!(": {reason}");
            }
            out.push('\n');
        }
        out
    }
}

/// Slices must cover the interval: no gap, no overlap, none empty, and their sum is its length.
pub fn check(slices: &[Slice], from: CommonNs, to: CommonNs) {
    let mut at = from;
    let mut sum = 0u64;
    for s in slices {
        assert_eq!(s.from, at, "a gap or an overlap before {s:?}");
        assert!(s.to > s.from, "empty or backwards: {s:?}");
        at = s.to;
        sum += s.duration_ns();
    }
    assert_eq!(at, to, "the last slice ends early or late");
    assert_eq!(sum, (to.0 - from.0) as u64);
}
