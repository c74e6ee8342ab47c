//! The tasks of an imported trace: which task a tid means at a moment, what it is called, and how it stands.

use crate::RowSink;
use crate::raw::{self, Peer};
use rustc_hash::FxHashMap;
use wakepath_model::ids::{MonoNs, StrId, TaskId};
use wakepath_model::rows::{EndedBy, Life, STATE_UNKNOWN, TaskClass, TaskRow};

/// [`WaitRow::syscall`] where there was none.
pub const NO_SYSCALL: u16 = 0xffff;
/// State of a task that was made and never ran (`TASK_NEW`).
pub(super) const STATE_NEW: u16 = 0x800;

/// Linux gives no thread a higher number (`PID_MAX_LIMIT`): bounds what a damaged trace can make us hold.
const TID_MAX: u32 = 1 << 22;
/// The parent of all kernel threads.
const KTHREADD: u32 = 2;
const NAME_BYTES: usize = 16;

/// Whether a task has a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Run {
    /// It runs on this processor.
    On(u16),
    /// It does not, since then.
    Off(MonoNs),
    /// Not known since then: the trace began, or events were lost.
    Unsure(MonoNs),
}

/// What made a task runnable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wake {
    pub at: MonoNs,
    pub cpu: u16,
    pub cause: EndedBy,
    pub object: u64,
    pub by: TaskId,
}

/// A system call that a task is in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub nr: u16,
    pub arg0: u64,
    pub entry: MonoNs,
}

/// One living task.
#[derive(Debug)]
pub(super) struct Task {
    row: TaskRow,
    name: [u8; NAME_BYTES],
    pub run: Run,
    /// End of its last interval: nothing of it is older.
    pub edge: MonoNs,
    /// As it stopped running: state, system call with first argument (or the address of a fault), preempter.
    pub state: u16,
    pub syscall: u16,
    pub arg0: u64,
    pub by: TaskId,
    pub wake: Option<Wake>,
    pub call: Option<Call>,
    /// Address of the page fault that it may be in, 0 = none.
    pub fault: u64,
    /// The other end of a socket that it named last.
    pub peer: Option<Peer>,
    /// It has ended but for its last switch.
    pub exited: bool,
}

impl Task {
    pub fn id(&self) -> TaskId {
        self.row.task
    }

    pub fn is_kernel(&self) -> bool {
        self.row.class == TaskClass::Kernel
    }

    /// Its name, as far as it is known.
    pub fn comm(&self) -> &[u8] {
        text(&self.name)
    }

    /// Whether it may receive packets in its own context: an interrupt's thread, NAPI's, any other of the kernel's.
    pub fn receives_itself(&self) -> bool {
        self.is_kernel() || self.comm().starts_with(b"irq/") || self.comm().starts_with(b"napi/")
    }

    /// Nothing is known of it any more, since then.
    pub fn forget(&mut self, since: MonoNs) {
        self.run = Run::Unsure(since.max(self.edge));
        self.state = STATE_UNKNOWN;
        (self.syscall, self.arg0, self.by) = (NO_SYSCALL, 0, TaskId::UNKNOWN);
        (self.wake, self.call, self.fault) = (None, None, 0);
    }
}

/// Those that live now.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    by_tid: FxHashMap<u32, Task>,
    next: u32,
}

impl Tasks {
    /// The task of an event, described as far as the event does; `begin` is since when a new one may have waited.
    /// `None` for the idle task and for what cannot be a thread.
    #[inline]
    pub fn meet<S: RowSink>(&mut self, at: MonoNs, begin: MonoNs, t: raw::Task<'_>, sink: &mut S) -> Option<&mut Task> {
        if t.tid == 0 || t.tid > TID_MAX {
            return None;
        }
        let (next, mut is_new) = (&mut self.next, false);
        let task = self.by_tid.entry(t.tid).or_insert_with(|| {
            is_new = true;
            *next += 1;
            fresh(TaskId(*next), t.tid, Run::Unsure(begin))
        });
        if is_new || differs(task, t) {
            learn(at, task, t, is_new, sink);
        }
        Some(task)
    }

    /// A task that was met.
    #[inline]
    pub fn get(&mut self, tid: u32) -> Option<&mut Task> {
        self.by_tid.get_mut(&tid)
    }

    /// Its id, unknown where it was not met.
    pub fn id(&self, tid: u32) -> TaskId {
        self.by_tid.get(&tid).map_or(TaskId::UNKNOWN, Task::id)
    }

    /// A child is made. Whoever had its tid is gone.
    pub fn fork<S: RowSink>(
        &mut self,
        at: MonoNs,
        parent: u32,
        child: raw::Task<'_>,
        sink: &mut S,
    ) -> Option<&mut Task> {
        if child.tid == 0 || child.tid > TID_MAX {
            return None;
        }
        let from = self.by_tid.get(&parent).map(|p| (p.row, p.name));
        self.next += 1;
        let mut task = fresh(TaskId(self.next), child.tid, Run::Off(at));
        task.edge = at;
        task.row.start = at;
        if let Some((p, name)) = from {
            (task.row.parent, task.row.comm, task.row.cmdline, task.name) = (p.task, p.comm, p.cmdline, name);
            task.row.class = if p.tid == KTHREADD { TaskClass::Kernel } else { p.class };
        }
        task.row.tgid = child.tgid;
        if !child.comm.is_empty() {
            task.name = name(child.comm);
            task.row.comm = sink.intern(text(&task.name));
        }
        write(&mut task, at, Life::Fork, sink);
        Some(self.by_tid.entry(child.tid).insert_entry(task).into_mut())
    }

    /// A program begins; a thread that is not its process's first takes over the first one's tid.
    pub fn exec<S: RowSink>(&mut self, at: MonoNs, t: raw::Task<'_>, old_tid: u32, filename: &[u8], sink: &mut S) {
        if old_tid != t.tid
            && let Some(mut moved) = self.by_tid.remove(&old_tid)
        {
            moved.row.tid = t.tid;
            self.by_tid.insert(t.tid, moved);
        }
        let Some(task) = self.by_tid.get_mut(&t.tid) else { return };
        if t.tgid != 0 {
            task.row.tgid = t.tgid;
        }
        // a helper that a kernel thread made becomes a program
        task.row.class = TaskClass::User;
        let base = filename.rsplit(|&b| b == b'/').next().unwrap_or(filename);
        let comm = if t.comm.is_empty() { &base[..base.len().min(NAME_BYTES - 1)] } else { t.comm };
        task.name = name(comm);
        task.row.comm = sink.intern(text(&task.name));
        task.row.cmdline = if filename.is_empty() { StrId::EMPTY } else { sink.intern(filename) };
        write(task, at, Life::Exec, sink);
    }

    /// A task that the trace's first lines announce.
    pub fn alive<S: RowSink>(
        &mut self,
        at: MonoNs,
        begin: MonoNs,
        t: raw::Task<'_>,
        ppid: u32,
        kernel: Option<bool>,
        sink: &mut S,
    ) {
        let parent = match ppid {
            0 => TaskId::UNKNOWN,
            p => self
                .meet(at, begin, raw::Task { tid: p, ..raw::Task::default() }, sink)
                .map_or(TaskId::UNKNOWN, |p| p.id()),
        };
        let Some(task) = self.meet(at, begin, t, sink) else { return };
        let is_kernel = kernel.unwrap_or(t.tid == KTHREADD || ppid == KTHREADD);
        let class = if is_kernel { TaskClass::Kernel } else { task.row.class };
        if (task.row.parent, task.row.class) != (parent, class) {
            (task.row.parent, task.row.class) = (parent, class);
            write(task, at, Life::Snapshot, sink);
        }
    }

    /// A task ends; it still runs until its last switch.
    pub fn exit<S: RowSink>(&mut self, at: MonoNs, tid: u32, sink: &mut S) {
        if let Some(task) = self.by_tid.get_mut(&tid)
            && !std::mem::replace(&mut task.exited, true)
        {
            write(task, at, Life::Exit, sink);
        }
    }

    /// It has left its processor for good.
    pub fn remove(&mut self, tid: u32) {
        self.by_tid.remove(&tid);
    }

    /// Every task that is held, in order of their ids.
    pub fn sorted(&self) -> Vec<&Task> {
        let mut all: Vec<&Task> = self.by_tid.values().collect();
        all.sort_unstable_by_key(|t| t.id());
        all
    }

    /// Every living task again, for a segment that must stand alone.
    pub fn restate<S: RowSink>(&self, at: MonoNs, sink: &mut S) {
        for t in self.sorted().into_iter().filter(|t| !t.exited) {
            sink.push(&TaskRow { at, what: Life::Snapshot, ..t.row });
        }
    }

    /// How many live.
    pub fn count(&self) -> usize {
        self.by_tid.len()
    }
}

/// Whether a tid is one that Linux can give.
pub(super) fn is_possible(tid: u32) -> bool {
    tid <= TID_MAX
}

fn fresh(id: TaskId, tid: u32, run: Run) -> Task {
    Task {
        row: TaskRow {
            at: MonoNs(0),
            start: MonoNs(0),
            task: id,
            parent: TaskId::UNKNOWN,
            tgid: 0,
            tid,
            comm: StrId::EMPTY,
            cmdline: StrId::EMPTY,
            cgroup: StrId::EMPTY,
            what: Life::Snapshot,
            class: TaskClass::User,
            ..Default::default()
        },
        name: [0; NAME_BYTES],
        run,
        edge: MonoNs(0),
        state: STATE_UNKNOWN,
        syscall: NO_SYSCALL,
        arg0: 0,
        by: TaskId::UNKNOWN,
        wake: None,
        call: None,
        fault: 0,
        peer: None,
        exited: false,
    }
}

/// A name as the kernel keeps it.
fn name(comm: &[u8]) -> [u8; NAME_BYTES] {
    let mut out = [0; NAME_BYTES];
    let end = comm.iter().position(|&b| b == 0).unwrap_or(comm.len()).min(NAME_BYTES - 1);
    out[..end].copy_from_slice(&comm[..end]);
    out
}

fn text(name: &[u8; NAME_BYTES]) -> &[u8] {
    &name[..name.iter().position(|&b| b == 0).unwrap_or(NAME_BYTES)]
}

/// Whether an event says something new of a task.
#[inline]
fn differs(task: &Task, t: raw::Task<'_>) -> bool {
    (t.tgid != 0 && t.tgid != task.row.tgid) || (!t.comm.is_empty() && name(t.comm) != task.name)
}

#[cold]
fn learn<S: RowSink>(at: MonoNs, task: &mut Task, t: raw::Task<'_>, is_new: bool, sink: &mut S) {
    let was_named = task.name != [0; NAME_BYTES];
    if t.tgid != 0 {
        task.row.tgid = t.tgid;
    }
    if is_new && t.tid == KTHREADD {
        task.row.class = TaskClass::Kernel;
    }
    let mut what = Life::Snapshot;
    let new = name(t.comm);
    if !t.comm.is_empty() && new != task.name {
        task.name = new;
        task.row.comm = sink.intern(text(&new));
        if was_named {
            what = Life::Name;
        }
    }
    write(task, at, what, sink);
}

fn write<S: RowSink>(task: &mut Task, at: MonoNs, what: Life, sink: &mut S) {
    (task.row.at, task.row.what) = (at, what);
    sink.push(&task.row);
}

/// An event that says that a task may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// `sched_waking`: it happens at the waker.
    Waking,
    /// `sched_wakeup`: it happens at the waker, or on the woken task's processor (`target`) in an interrupt that the waker
    /// sent there.
    Wakeup { target: Option<u16> },
}
