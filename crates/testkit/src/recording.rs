//! Rows of hosts that never were, and how they come into a folder.

mod logical;
mod said;

use crate::random::Random;
use crate::truth::Truth;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use wakepath_model::folder::{Durability, FolderError, FolderWriter, HostInfo, MONOTONIC, Options};
use wakepath_model::ids::{EndpointId, MonoNs, StrId, TaskId};
use wakepath_model::rows::{
    AnchorRow, EndedBy, EndpointRow, Event, Failed, FaultKind, FaultRow, FlowNoteRow, FlowStateRow, InputKind,
    InputRow, Life, LossRow, MessageEndHow, MessageEndRow, MessageRole, MessageRow, OpKind, OpRow, PollRow, RangeHow,
    Reset, SeenHow, Side, TaskClass, TaskRow, TcpState, UNFRAMED, WaitRow, WitnessKind, op_flag,
};

/// Nanoseconds since 1970 at true time 0.
pub const EPOCH_NS: u64 = 1_700_000_000_000_000_000;
/// Most of a message that is its head.
pub const HEAD_BYTES: u64 = 100;
/// The protocol that simulated messages are of.
pub const PROTOCOL: &str = "proto.http1";
/// No system call.
const NO_SYSCALL: u16 = 0xffff;

/// The rows of one host, in its own clock.
#[derive(Clone, Debug)]
pub struct HostRows {
    /// Its name.
    pub name: String,
    /// What its clock shows at true time 0.
    pub clock_ns: i64,
    /// Rows in any order.
    pub rows: Vec<Event>,
    strings: Vec<String>,
}

/// A recording of some hosts, and what really happened.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// Hosts.
    pub hosts: Vec<HostRows>,
    /// The truth.
    pub truth: Truth,
}

/// An endpoint, as it is announced.
#[derive(Clone, Copy, Debug)]
pub struct Announced {
    /// Number.
    pub flow: u64,
    /// Local address and port.
    pub local: ([u8; 4], u16),
    /// Remote address and port.
    pub remote: ([u8; 4], u16),
    /// Network namespace.
    pub netns: u32,
    /// Next byte to be sent.
    pub snd: u64,
    /// Next byte to be read.
    pub rcv: u64,
    /// Holder.
    pub task: u32,
    /// How it came to be known.
    pub how: SeenHow,
    /// Which end it is.
    pub side: Side,
}

/// How a recording is cut into what is on disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cuts {
    /// Flushes after so many rows on average; 0 = one flush at the end.
    pub flush_rows: u64,
    /// Seed of where they are.
    pub seed: u64,
    /// Bytes of a segment; 0 = one segment.
    pub segment_bytes: u64,
}

impl HostRows {
    /// A host without rows, whose clock shows `clock_ns` at true time 0.
    pub fn new(name: &str, clock_ns: i64) -> HostRows {
        let mut h = HostRows { name: name.to_owned(), clock_ns, rows: Vec::new(), strings: vec![String::new()] };
        h.anchor(0);
        h
    }

    /// The host's time at a true time.
    pub fn at(&self, true_ns: u64) -> MonoNs {
        MonoNs(true_ns.saturating_add_signed(self.clock_ns))
    }

    /// An id for a text, of this recording.
    pub fn text(&mut self, text: &str) -> StrId {
        let i = self.strings.iter().position(|s| s == text).unwrap_or_else(|| {
            self.strings.push(text.to_owned());
            self.strings.len() - 1
        });
        StrId(i as u32)
    }

    /// Both clocks at a moment.
    pub fn anchor(&mut self, t: u64) {
        let at = self.at(t);
        self.rows.push(AnchorRow { at, real_ns: EPOCH_NS + t, error_ns: 50, ..Default::default() }.into());
    }

    /// A task was met, or made by `parent`; `leader` is its process.
    pub fn task(&mut self, t: u64, task: u32, leader: u32, parent: u32, comm: &str) {
        let what = if parent == 0 { Life::Snapshot } else { Life::Fork };
        self.life(t, task, leader, parent, [comm, ""], what);
    }

    /// A process was started with such words, by another.
    pub fn started_with(&mut self, t: u64, leader: u32, parent: u32, comm: &str, words: &str) {
        self.life(t, leader, leader, parent, [comm, words], Life::Fork);
    }

    /// A process was selected to be watched.
    pub fn watched(&mut self, t: u64, leader: u32, comm: &str) {
        self.life(t, leader, leader, 0, [comm, ""], Life::Watched);
    }

    /// A task ended.
    pub fn ended(&mut self, t: u64, task: u32, leader: u32) {
        self.life(t, task, leader, 0, [""; 2], Life::Exit);
    }

    fn life(&mut self, t: u64, task: u32, leader: u32, parent: u32, [comm, words]: [&str; 2], what: Life) {
        let (at, comm, cmdline) = (self.at(t), self.text(comm), self.text(words));
        self.rows.push(
            TaskRow {
                at,
                start: at,
                task: TaskId(task),
                parent: TaskId(parent),
                tgid: 1000 + leader,
                tid: 1000 + task,
                comm,
                cmdline,
                cgroup: StrId::EMPTY,
                what,
                class: TaskClass::User,
                ..Default::default()
            }
            .into(),
        );
    }

    /// An endpoint became known.
    pub fn endpoint(&mut self, t: u64, e: &Announced) {
        self.counted_endpoint(t, e, (0, 0));
    }

    /// The same of one of which the kernel told the numbers of the first bytes sent and received; 0 = it did not.
    pub fn counted_endpoint(&mut self, t: u64, e: &Announced, first: (u64, u64)) {
        let wide = |a: [u8; 4]| {
            let mut out = [0; 16];
            out[..4].copy_from_slice(&a);
            out
        };
        let at = self.at(t);
        self.rows.push(
            EndpointRow {
                at,
                flow: EndpointId(e.flow),
                peer: EndpointId(0),
                snd: e.snd,
                rcv: e.rcv,
                laddr: wide(e.local.0),
                raddr: wide(e.remote.0),
                netns: e.netns,
                task: TaskId(e.task),
                path: StrId::EMPTY,
                lport: e.local.1,
                rport: e.remote.1,
                family: 2,
                protocol: 6,
                how: e.how,
                state: TcpState::Established,
                side: e.side,
                ulp: 0,
                snd_first: first.0,
                rcv_first: first.1,
            }
            .into(),
        );
    }

    /// The flow's protocol was recognised, or (false) given up.
    pub fn note(&mut self, t: u64, flow: u64, known: bool) {
        let at = self.at(t);
        let text = self.text(if known { PROTOCOL } else { "no known protocol" });
        let (protocol, reason) = if known { (text, StrId::EMPTY) } else { (StrId::EMPTY, text) };
        self.rows.push(FlowNoteRow { at, flow: EndpointId(flow), protocol, reason, ..Default::default() }.into());
    }

    /// Of the flow's protocol the next border between requests is not known.
    pub fn loses_borders(&mut self, t: u64, flow: u64) {
        let (at, protocol, reason) = (self.at(t), self.text(PROTOCOL), self.text(UNFRAMED));
        self.rows.push(FlowNoteRow { at, flow: EndpointId(flow), protocol, reason, ..Default::default() }.into());
    }

    /// An operation without bytes: accept, connect, the end of a stream.
    pub fn op(&mut self, entry: u64, at: u64, task: u32, flow: u64, kind: OpKind, result: i32) {
        let row = OpRow {
            at: self.at(at),
            entry: self.at(entry),
            arrived: MonoNs(0),
            flow: EndpointId(flow),
            start: 0,
            end: 0,
            task: TaskId(task),
            result,
            kind,
            range: RangeHow::None,
            flags: 0,
            syscall: 0,
            cpu: 0,
            ..Default::default()
        };
        self.rows.push(row.into());
    }

    /// Bytes moved. `arrived` is 0 where they were sent.
    pub fn moved(&mut self, times: (u64, u64, u64), task: u32, flow: u64, is_send: bool, bytes: std::ops::Range<u64>) {
        let (entry, at, arrived) = times;
        let row = OpRow {
            at: self.at(at),
            entry: self.at(entry),
            arrived: if arrived == 0 { MonoNs(0) } else { self.at(arrived) },
            flow: EndpointId(flow),
            start: bytes.start,
            end: bytes.end,
            task: TaskId(task),
            result: (bytes.end - bytes.start) as i32,
            kind: if is_send { OpKind::Send } else { OpKind::Recv },
            range: RangeHow::Exact,
            flags: 0,
            syscall: if is_send { 44 } else { 45 },
            cpu: 0,
            ..Default::default()
        };
        self.rows.push(row.into());
    }

    /// A message's head was complete. `status` 0 is a request.
    pub fn message(
        &mut self,
        t: u64,
        flow: u64,
        sent: bool,
        bytes: std::ops::Range<u64>,
        asked: (&str, &str),
        status: u16,
    ) {
        let at = self.at(t);
        let (protocol, verb, target) = (self.text(PROTOCOL), self.text(asked.0), self.text(asked.1));
        self.rows.push(
            MessageRow {
                at,
                flow: EndpointId(flow),
                start: bytes.start,
                end: bytes.end,
                witness: 0,
                protocol,
                verb,
                target,
                detail: StrId::EMPTY,
                status,
                role: if status == 0 { MessageRole::Request } else { MessageRole::Reply },
                sent: u8::from(sent),
                witness_kind: WitnessKind::None,
                failed: if status >= 400 { Failed::Yes } else { Failed::No },
                cut: 0,
                flags: 0,
                ..Default::default()
            }
            .into(),
        );
    }

    /// A message that was sent ended here, of which that was not known when it began.
    pub fn message_ended(&mut self, t: u64, flow: u64, bytes: std::ops::Range<u64>, sent: bool) {
        let row = MessageEndRow {
            at: self.at(t),
            flow: EndpointId(flow),
            start: bytes.start,
            end: bytes.end,
            sent: sent.into(),
            how: MessageEndHow::Framed,
            ..Default::default()
        };
        self.rows.push(row.into());
    }

    /// A flow is closed, or reset.
    pub fn closed(&mut self, t: u64, flow: u64, task: u32, reset: bool) {
        let at = self.at(t);
        self.rows.push(
            FlowStateRow {
                at,
                flow: EndpointId(flow),
                snd: 0,
                rcv: 0,
                task: TaskId(task),
                old: TcpState::Established,
                new: TcpState::Close,
                reset: if reset { Reset::Received } else { Reset::None },
                by_task: 1,
                ..Default::default()
            }
            .into(),
        );
    }

    /// The client of a server's flow closed its end, or reset the flow.
    pub fn client_left(&mut self, t: u64, flow: u64, is_reset: bool) {
        let (at, flow) = (self.at(t), EndpointId(flow));
        let row = FlowStateRow { at, flow, old: TcpState::Established, ..Default::default() };
        if !is_reset {
            self.rows.push(FlowStateRow { new: TcpState::CloseWait, ..row }.into());
            return;
        }
        self.rows.push(FlowStateRow { new: TcpState::Established, reset: Reset::Received, ..row }.into());
        self.rows.push(FlowStateRow { new: TcpState::Close, ..row }.into());
    }

    /// A wait ended. `by` 0 and `on` 0 is a timer, `on` a flow.
    pub fn waited(&mut self, blocked: u64, woken: u64, ran: u64, task: u32, by: u32, on: u64) {
        let row = WaitRow {
            at: self.at(ran),
            blocked: self.at(blocked),
            woken: self.at(woken),
            object: on,
            arg0: 0,
            task: TaskId(task),
            by: TaskId(by),
            rcv_seq: 0,
            state: 1,
            syscall: NO_SYSCALL,
            cpu: 0,
            woken_cpu: 0,
            cause: match (by, on) {
                (0, 0) => EndedBy::Timer,
                (0, _) => EndedBy::Socket,
                _ => EndedBy::Task,
            },
            ..Default::default()
        };
        self.rows.push(row.into());
    }

    /// A poll returned. No time-out is `u64::MAX`.
    pub fn polled(&mut self, entry: u64, at: u64, task: u32, ready: i32, timeout_ns: u64) {
        let row = PollRow {
            at: self.at(at),
            entry: self.at(entry),
            timeout_ns,
            task: TaskId(task),
            ready,
            fd: 5,
            ..Default::default()
        };
        self.rows.push(row.into());
    }

    /// The library vantage handed an input to a task: of `kind` on a flow (0: none), out of `ready`;
    /// `isolated` as in [`InputRow`].
    pub fn given(&mut self, at: u64, task: u32, flow: u64, kind: InputKind, ready: u32, isolated: u8) {
        let row = InputRow {
            at: self.at(at),
            flow: EndpointId(flow),
            task: TaskId(task),
            fd: 9,
            ready,
            kind,
            isolated,
            ..Default::default()
        };
        self.rows.push(row.into());
    }

    /// A page fault that ended so; `file` is empty where it has no name, `inode` 0 where there is none.
    pub fn faulted(&mut self, began: u64, at: u64, task: u32, kind: FaultKind, file: &str, inode: u64) {
        let (began, at, file) = (self.at(began), self.at(at), self.text(file));
        let (task, device) = (TaskId(task), 8 << 20);
        let offset = wakepath_model::rows::NO_OFFSET;
        let row = FaultRow {
            at,
            began,
            address: 0,
            ip: 0,
            inode,
            offset,
            device,
            task,
            file,
            cpu: 0,
            kind,
            access: 0,
            ..Default::default()
        };
        self.rows.push(row.into());
    }

    /// Something was lost between two moments.
    pub fn lost(&mut self, from: u64, to: u64, count: u64, what: &str) {
        let (from, at, what) = (self.at(from), self.at(to), self.text(what));
        self.rows.push(LossRow { at, from, count, what, ..Default::default() }.into());
    }

    /// Loses operations, with the messages that they told of: about `percent` of them, in bursts of up to `burst_ns`, and
    /// says so in loss rows. As in a recording, what comes after a lost range is marked as a gap, and the kernel's marks of
    /// a flow's turns are those of all that moved.
    pub fn lose(&mut self, percent: f64, burst_ns: u64, random: &mut Random) {
        if percent <= 0.0 {
            return;
        }
        self.rows.sort_by_key(|r| r.at());
        let Some((first, last)) = self.rows.first().zip(self.rows.last()).map(|(a, b)| (a.at().0, b.at().0)) else {
            return;
        };
        let mut bursts: Vec<(u64, u64, u64)> = Vec::new();
        let mut t = first;
        while t <= last {
            let length = random.within(burst_ns / 4 + 1, burst_ns);
            if random.chance(percent * 1.25) {
                bursts.push((t, t + length, 0));
            }
            t += length + 1;
        }
        // what the kernel knows of a flow, recorded or not; and what the decoder sees of it
        let mut turned: BTreeMap<u64, OpKind> = BTreeMap::new();
        let mut gone: BTreeMap<(u64, bool), Vec<(u64, u64)>> = BTreeMap::new();
        let mut gaps: BTreeSet<(u64, OpKind)> = BTreeSet::new();
        let rows = std::mem::take(&mut self.rows);
        for mut row in rows {
            let at = row.at().0;
            let burst = bursts.iter_mut().find(|b| b.0 <= at && at <= b.1);
            match &mut row {
                // a message is known from the records of its first bytes
                Event::Message(m) => {
                    let head = m.start..(m.start + HEAD_BYTES).min(m.end);
                    let lost = gone.get(&(m.flow.0, m.sent == 1));
                    if lost.is_some_and(|l| l.iter().any(|&(a, b)| a < head.end && head.start < b)) {
                        continue;
                    }
                }
                Event::Op(o) => {
                    let moves = o.end > o.start;
                    if moves && turned.insert(o.flow.0, o.kind) != Some(o.kind) {
                        o.flags |= op_flag::TURN;
                    }
                    if let Some(b) = burst.filter(|_| random.chance(80.0)) {
                        b.2 += 1;
                        if moves {
                            gone.entry((o.flow.0, o.kind == OpKind::Send)).or_default().push((o.start, o.end));
                            gaps.insert((o.flow.0, o.kind));
                        }
                        continue;
                    }
                    if moves && gaps.remove(&(o.flow.0, o.kind)) {
                        o.range = RangeHow::Gap;
                    }
                }
                _ => {}
            }
            self.rows.push(row);
        }
        let what = self.text("loss.ring.op");
        for (from, to, count) in bursts.into_iter().filter(|b| b.2 > 0) {
            self.rows.push(LossRow { at: MonoNs(to), from: MonoNs(from), count, what, ..Default::default() }.into());
        }
    }

    fn cut(&mut self, from: u64, to: u64) {
        let (begin, end) = (self.at(from), self.at(to));
        self.rows.sort_by_key(|r| r.at());
        let mut tasks: BTreeMap<u32, TaskRow> = BTreeMap::new();
        let mut ends: BTreeMap<u64, EndpointRow> = BTreeMap::new();
        let mut notes: BTreeMap<u64, FlowNoteRow> = BTreeMap::new();
        let (mut kept, mut anchor) = (Vec::new(), None);
        for row in std::mem::take(&mut self.rows) {
            if row.at() >= begin {
                if let Event::Message(m) = &row
                    && let Some(n) = notes.remove(&m.flow.0)
                {
                    kept.push(FlowNoteRow { at: m.at, ..n }.into());
                }
                if row.at() <= end {
                    kept.push(row);
                }
                continue;
            }
            match row {
                Event::Task(r) => _ = tasks.insert(r.task.0, TaskRow { at: begin, what: Life::Snapshot, ..r }),
                Event::Endpoint(r) => _ = ends.insert(r.flow.0, EndpointRow { at: begin, how: SeenHow::Snapshot, ..r }),
                Event::FlowNote(r) => _ = notes.insert(r.flow.0, r),
                Event::FlowState(r) if r.new == TcpState::Close => _ = ends.remove(&r.flow.0),
                Event::Op(r) if r.end > r.start => {
                    if let Some(e) = ends.get_mut(&r.flow.0) {
                        let next = if r.kind == OpKind::Send { &mut e.snd } else { &mut e.rcv };
                        *next = r.end;
                    }
                }
                Event::Anchor(r) => anchor = Some(r),
                Event::Loss(_) => kept.push(row),
                _ => {}
            }
        }
        // a recorder reads the clocks when it begins
        let read = |r: AnchorRow| Event::from(AnchorRow { at: begin, real_ns: r.real_ns + (begin.0 - r.at.0), ..r });
        kept.extend(anchor.map(read));
        self.rows = tasks.into_values().map(Event::from).chain(ends.into_values().map(Event::from)).collect();
        self.rows.extend(kept);
    }

    /// Writes the host's folder.
    pub fn write(&self, path: &Path, cuts: Cuts) -> Result<(), FolderError> {
        let boot: String = self.name.bytes().map(|b| format!("{b:02x}")).collect::<String>() + "00000000";
        let info = HostInfo {
            hostname: self.name.clone(),
            boot_id: boot,
            cpus: 2,
            clock: MONOTONIC.into(),
            ..HostInfo::default()
        };
        let mut options = Options::default();
        if cuts.segment_bytes > 0 {
            options.max_segment_bytes = cuts.segment_bytes;
        }
        let mut w = FolderWriter::create(path, info, options)?;
        let ids: Vec<StrId> = self.strings.iter().map(|s| w.intern(s)).collect();
        let id = |s: &mut StrId| *s = ids[s.0 as usize];
        let mut rows = self.rows.clone();
        rows.sort_by_key(|r| r.at());
        let mut random = Random::new(cuts.seed);
        for mut row in rows {
            match &mut row {
                Event::Message(r) => {
                    id(&mut r.protocol);
                    id(&mut r.verb);
                    id(&mut r.target);
                    id(&mut r.detail);
                }
                Event::Task(r) => {
                    id(&mut r.comm);
                    id(&mut r.cmdline);
                }
                Event::Fault(r) => id(&mut r.file),
                Event::Loss(r) => id(&mut r.what),
                Event::FlowNote(r) => {
                    id(&mut r.protocol);
                    id(&mut r.reason);
                }
                Event::Mark(r) => {
                    id(&mut r.machine);
                    id(&mut r.name);
                }
                Event::SniffedFlow(r) => {
                    id(&mut r.protocol);
                    id(&mut r.reason);
                }
                Event::SniffedExchange(r) => {
                    id(&mut r.protocol);
                    id(&mut r.verb);
                    id(&mut r.target);
                    id(&mut r.detail);
                }
                _ => {}
            }
            w.push_event(&row);
            if cuts.flush_rows > 0 && random.any().is_multiple_of(cuts.flush_rows) {
                w.flush(Durability::Write)?;
            }
        }
        w.close().map(drop)
    }
}

impl Recording {
    /// Keeps what a recording from `from` to `to` (true time) would have seen: what exists at its begin is announced by a
    /// snapshot, and a protocol is recognised at the first message after it.
    pub fn cut(&mut self, from: u64, to: u64) {
        self.truth.window_ns = (from, to);
        for h in &mut self.hosts {
            h.cut(from, to);
        }
    }

    /// Writes a folder for each host that has rows, below `dir`; gives their paths.
    pub fn write(&self, dir: &Path, cuts: Cuts) -> Result<Vec<std::path::PathBuf>, FolderError> {
        let path = |h: &HostRows| dir.join(&h.name);
        self.hosts.iter().map(|h| h.write(&path(h), cuts).map(|()| path(h))).collect()
    }
}
