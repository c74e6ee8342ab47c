//! Records that are rows of their own: nothing but the task is looked up.

use crate::file_name::masked;
use crate::kept::OwnWait;
use crate::sink::{RowSink, known};
use crate::tasks::Tasks;
use wakepath_model::defects::id as defect;
use wakepath_model::ids::{EndpointId, MonoNs, StrId, TaskId};
use wakepath_model::rows::{
    DescriptorRow, EndedBy, InputRow, LimitKind, LimitRow, MarkRow, ParkRow, PollRow, RanRow, ResentRow, StackRow,
    StayRow, TcpState, WaitRow, gaps,
};
use wakepath_wire::{self as w, Frame};

/// The number of futex(2).
const FUTEX: u16 = 202;

/// A descriptor that a process has.
pub(super) fn descriptor<S: RowSink>(tasks: &mut Tasks, r: &w::Descriptor, sink: &mut S) {
    let at = MonoNs(r.ts_ns);
    let task = tasks.id(r.tgid, r.tgid, at, sink);
    let state = code(r.state, at, sink);
    // the other end's FIN counts as a byte until it is read, and is none
    let fin = u32::from(matches!(state, TcpState::CloseWait | TcpState::LastAck | TcpState::Closing));
    sink.push(&DescriptorRow {
        at,
        flow: EndpointId(r.flow),
        received: MonoNs(r.received_ns),
        sent: MonoNs(r.sent_ns),
        task,
        fd: r.fd,
        unread: r.unread.saturating_sub(fin),
        unacked: r.unacked,
        window: r.window,
        state,
        marks: r.marks,
        look: r.look,
        ..Default::default()
    });
}

/// A wait that is over.
pub(super) fn wait<S: RowSink>(tasks: &mut Tasks, r: &w::Wait, f: &Frame<'_>, sink: &mut S) {
    let at = MonoNs(r.ts_ns);
    let task = tasks.id(r.tgid, r.tid, at, sink);
    let (sub, who, rest) = named::<w::Wait>(&r.head, f);
    let file = w::view::<w::WaitFile>(rest).filter(|_| sub & w::SUB_FILE != 0);
    let cause = code(sub & !(w::SUB_LAST | w::SUB_FILE), at, sink);
    let bit = |sub_bit, gap| if r.head.sub & sub_bit == 0 { 0 } else { gap };
    let gaps = bit(w::SUB_GAP, gaps::BEFORE) | bit(w::SUB_LAST, gaps::AFTER);
    let (is_lock, holder) = lock_of(tasks, r, cause);
    let logical = who.filter(|who| who.key != 0).map_or(TaskId::UNKNOWN, |who| tasks.logical(r.tgid, &who, at, sink));
    let file = file.map_or(StrId::EMPTY, |file| sink.intern(path_of(&file).as_bytes()));
    sink.push(&WaitRow {
        at,
        blocked: MonoNs(r.blocked_ns),
        woken: MonoNs(r.woken_ns),
        object: r.object,
        arg0: r.arg0,
        task,
        by: if r.by_tid != 0 { tasks.known_at(r.by_tid, MonoNs(r.woken_ns)) } else { TaskId::UNKNOWN },
        rcv_seq: if cause == EndedBy::Socket { r.rcv_seq } else { 0 },
        state: r.state,
        syscall: r.syscall,
        cpu: r.cpu,
        woken_cpu: r.woken_cpu,
        cause,
        is_told: u8::from(who.is_some()),
        is_lock: u8::from(is_lock),
        gaps,
        logical,
        holder,
        file,
        ..Default::default()
    });
    if r.syscall == FUTEX && cause != EndedBy::Socket && r.rcv_seq & (w::FUTEX_LOCK | w::FUTEX_OWN) == w::FUTEX_OWN {
        let by =
            if cause == EndedBy::Task { tasks.known_in(r.tgid, r.by_tid, MonoNs(r.woken_ns)) } else { TaskId::UNKNOWN };
        tasks.waited_at_its_own(r.tid, OwnWait::new(r.arg0, [r.blocked_ns, r.woken_ns].map(MonoNs), by), sink);
    }
}

/// What is known of a file's path, and may be kept of it.
fn path_of(file: &w::WaitFile) -> String {
    let until_zero = |bytes: &[u8]| {
        let bytes = &bytes[..bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len())];
        masked(&String::from_utf8_lossy(bytes))
    };
    // the folder at the top has no name but its mark
    let (folder, name) =
        (if file.folder[0] == b'/' { String::new() } else { until_zero(&file.folder) }, until_zero(&file.name));
    match (folder.is_empty(), name.is_empty()) {
        (_, true) => String::new(),
        (true, false) => format!("…/{name}"),
        (false, false) => format!("…/{folder}/{name}"),
    }
}

/// Who had a processor that a selected task waited for.
pub(super) fn stay<S: RowSink>(tasks: &mut Tasks, r: &w::Stay, sink: &mut S) {
    let at = MonoNs(r.ts_ns);
    let task = tasks.id(r.tgid, r.tid, at, sink);
    sink.push(&StayRow {
        at,
        from: MonoNs(r.from_ns),
        to: MonoNs(r.to_ns),
        ran_ns: r.to_ns.saturating_sub(r.from_ns),
        task,
        cpu: r.cpu as u16,
        ..Default::default()
    });
}

/// Whether a wait was for a lock by what its futex's word said, and which thread held that.
fn lock_of(tasks: &Tasks, r: &w::Wait, ended_by: EndedBy) -> (bool, TaskId) {
    let is_lock = r.syscall == FUTEX && ended_by != EndedBy::Socket && r.rcv_seq & w::FUTEX_LOCK != 0;
    let tid = if is_lock { r.rcv_seq & !w::FUTEX_LOCK } else { 0 };
    (is_lock, if tid == 0 { TaskId::UNKNOWN } else { tasks.known(tid) })
}

/// Where a task waited.
pub(super) fn stack<S: RowSink>(tasks: &mut Tasks, r: &w::Stack, sink: &mut S) {
    const EFAULT: i32 = -14;
    let at = MonoNs(r.ts_ns);
    let task = tasks.id(r.tgid, r.tid, at, sink);
    let frames = match u32::try_from(r.id) {
        Ok(id) => sink.stack(r.tgid, r.image, id),
        Err(_) => {
            sink.count(if r.id == EFAULT { defect::STACK_UNREADABLE } else { defect::STACK_LOST }, at);
            StrId::EMPTY
        }
    };
    let cause = code(r.head.sub, at, sink);
    sink.push(&StackRow {
        at,
        blocked: MonoNs(r.blocked_ns),
        task,
        frames,
        syscall: r.syscall,
        cause,
        ..Default::default()
    });
}

/// An input that the library handed over.
pub(super) fn input<S: RowSink>(tasks: &mut Tasks, r: &w::Input, sink: &mut S) {
    let at = MonoNs(r.ts_ns);
    let Some(kind) = known(r.head.sub, at, sink) else { return };
    let task = tasks.id(r.tgid, r.tid, at, sink);
    sink.push(&InputRow {
        at,
        flow: EndpointId(r.flow),
        task,
        fd: r.fd,
        ready: r.ready,
        kind,
        isolated: (r.flags & (w::INPUTF_ISOLATED | w::INPUTF_REST)).count_ones() as u8,
        ..Default::default()
    });
}

/// Whose work a thread did: by what its runtime calls it, since this may interrupt the operation in which it is named first.
pub(super) fn ran<S: RowSink>(tasks: &mut Tasks, r: &w::Ran, sink: &mut S) {
    let at = MonoNs(r.ts_ns);
    let task = tasks.id(r.tgid, r.tid, at, sink);
    sink.push(&RanRow { at, key: r.key, task, ..Default::default() });
}

/// A logical task was parked.
pub(super) fn park<S: RowSink>(tasks: &mut Tasks, r: &w::Park, sink: &mut S) {
    let at = MonoNs(r.ts_ns);
    let mut logical = |key| match key {
        0 => TaskId::UNKNOWN,
        key => {
            let who = w::Logical { key, parent: 0, born_ns: 0, runtime: r.head.sub, pad: [0; 7] };
            tasks.logical(r.tgid, &who, at, sink)
        }
    };
    let (task, by) = (logical(r.key), logical(r.by));
    let [from, on] = [r.from_tid, r.tid].map(|tid| tasks.id(r.tgid, tid, at, sink));
    let why = code(u8::try_from(r.why).unwrap_or(u8::MAX), at, sink);
    let woken = if r.woken_ns == 0 { at } else { MonoNs(r.woken_ns) };
    sink.push(&ParkRow { at, blocked: MonoNs(r.blocked_ns), woken, task, by, from, on, why, ..Default::default() });
}

/// An annotation.
pub(super) fn mark<S: RowSink>(tasks: &mut Tasks, r: &w::Mark, f: &Frame<'_>, sink: &mut S) {
    const ROOM: usize = w::MARK_NAME_BYTES as usize;
    let at = MonoNs(r.ts_ns);
    let tail = f.tail::<w::Mark>(2 * ROOM);
    if r.flags & w::MARKF_UNREAD != 0 || tail.len() < 2 * ROOM {
        sink.count(defect::MARKS_UNREAD, at);
        return;
    }
    if r.flags & w::MARKF_CUT != 0 {
        sink.count(defect::MARKS_CUT, at);
    }
    let Some(kind) = known(r.head.sub, at, sink) else { return };
    let (machine, name) = tail.split_at(ROOM);
    let task = tasks.id(r.tgid, r.tid, at, sink);
    let machine = sink.intern(&machine[..ROOM.min(r.machine_bytes.into())]);
    let name = sink.intern(&name[..ROOM.min(r.name_bytes.into())]);
    sink.push(&MarkRow {
        at,
        seq: 0,
        key: r.key,
        name_key: r.name_key,
        count: r.count,
        task,
        machine,
        name,
        kind,
        ..Default::default()
    });
}

/// A poll that is over.
/// What a record's `sub` says else, in whose name it was done, and what follows.
pub(super) fn named<'a, T: w::Record>(head: &w::Head, f: &Frame<'a>) -> (u8, Option<w::Logical>, &'a [u8]) {
    let tail = f.tail::<T>(f.bytes.len());
    let who = w::view::<w::Logical>(tail).filter(|_| head.sub & w::SUB_LOGICAL != 0);
    let rest = if who.is_some() { &tail[size_of::<w::Logical>()..] } else { tail };
    (head.sub & !(w::SUB_LOGICAL | w::SUB_GOES_ON), who, rest)
}

pub(super) fn poll<S: RowSink>(tasks: &mut Tasks, r: &w::Poll, f: &Frame<'_>, sink: &mut S) {
    let at = MonoNs(r.ts_ns);
    let task = tasks.id(r.tgid, r.tid, at, sink);
    let (_, who, _) = named::<w::Poll>(&r.head, f);
    let logical = who.map_or(TaskId::UNKNOWN, |who| tasks.logical(r.tgid, &who, at, sink));
    sink.push(&PollRow {
        at,
        entry: MonoNs(r.ts_ns.saturating_sub(r.entry_ago_ns)),
        timeout_ns: r.timeout_ns,
        task,
        ready: r.ready,
        fd: r.fd,
        logical,
    });
}

/// A segment that was sent once more.
pub(super) fn resent<S: RowSink>(r: &w::Resent, sink: &mut S) {
    let at = MonoNs(r.ts_ns);
    let state = code(r.state, at, sink);
    sink.push(&ResentRow {
        at,
        flow: EndpointId(r.flow),
        seq: r.seq,
        seq_end: r.seq_end,
        rtt_us: r.rtt_us,
        state,
        ..Default::default()
    });
}

/// [`known`] of a code that has a number for what is not known.
pub(super) fn code<C: TryFrom<u8> + Default, S: RowSink>(number: u8, at: MonoNs, sink: &mut S) -> C {
    known(number, at, sink).unwrap_or_default()
}

/// An accept that failed: the kernel program reports those for which no descriptor was left.
pub(super) fn not_accepted(o: &w::Op, task: TaskId) -> LimitRow {
    let value = o.bytes.unsigned_abs().into();
    LimitRow {
        at: MonoNs(o.ts_ns),
        flow: EndpointId(o.flow),
        value,
        task,
        kind: LimitKind::Descriptors,
        ..Default::default()
    }
}

/// What a socket has room for.
pub(super) fn sizes(r: &w::Sizes) -> LimitRow {
    const LISTEN: u8 = TcpState::Listen as u8;
    let (kind, value, beside) = match r.state {
        LISTEN => (LimitKind::Backlog, r.backlog, r.waiting),
        _ => (LimitKind::Buffers, r.sndbuf, r.rcvbuf),
    };
    LimitRow {
        at: MonoNs(r.ts_ns),
        flow: EndpointId(r.flow),
        value: value.into(),
        beside: beside.into(),
        task: TaskId::UNKNOWN,
        cgroup: StrId::EMPTY,
        port: if kind == LimitKind::Backlog { r.lport } else { 0 },
        kind,
        ..Default::default()
    }
}
