//! The guest's tasks: who is new, who made it, and the calls that each is in.

use crate::flows::{Flow, head};
use crate::kernel::{Kernel, Numbers, Task};
use crate::{Cpu, Records, user};
use rustc_hash::{FxHashMap, FxHashSet};
use wakepath_wire as w;

/// Most tasks that are kept. Those that a signal ended are not seen to end.
const TASKS_MAX: usize = 1 << 16;
/// Most calls of a task that signals interrupted and that are not over.
const CALLS_MAX: usize = 8;
/// Most tasks that are being made.
const BIRTHS_MAX: usize = 256;
/// How long a task that is being made may take until it runs.
const BIRTH_NS: u64 = 10_000_000_000;
/// After so many borders, only those of calls that go on are kept.
const BORDERS_MAX: usize = 1 << 14;
/// Most bytes of a command line.
const WORDS_MAX: u64 = w::CMDLINE_MAX as u64;

/// Where a program left for the kernel, or comes back: its stack, and the address in its page. An emulator translates a
/// page of code once for all programs that have it, wherever each has it, so whole addresses are not known. A handler of
/// signals begins with another stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Border {
    stack: u64,
    in_page: u16,
}

impl Border {
    /// At the address `at`, with this stack.
    pub fn new(at: u64, stack: u64) -> Border {
        Border { stack, in_page: (at & 0xfff) as u16 }
    }
}

/// A call that a task is in.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    /// Its number.
    pub number: u64,
    /// Its arguments.
    pub arguments: [u64; 6],
    /// Where it returns to.
    pub returns_to: Border,
    /// When it began.
    pub entry_ns: u64,
    /// What its first and its second descriptor were when it began.
    pub flows: [Option<Flow>; 2],
    /// Its flow has one descriptor alone.
    pub is_last: bool,
    /// TCP's numbers, when the last descriptor of a connection is to be closed.
    pub end: Option<Numbers>,
    /// Its timeout in ns, all ones for none.
    pub timeout_ns: u64,
}

/// A task that was met.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// As it was.
    pub task: Task,
    calls: Vec<Pending>,
}

impl Known {
    /// It begins a call.
    fn enters(&mut self, call: Pending) {
        // a call that begins where another did, which has not returned there, is that one again
        if let Some(again) = self.calls.iter().position(|c| c.returns_to == call.returns_to) {
            self.calls.truncate(again);
        }
        if self.calls.len() == CALLS_MAX {
            self.calls.remove(0);
        }
        self.calls.push(call);
    }

    /// It comes back at `at`: the call that is over then. Those inside it, of a handler that was left, are given up.
    pub fn returns(&mut self, at: Border) -> Option<Pending> {
        let over = self.calls.iter().rposition(|c| c.returns_to == at)?;
        self.calls.truncate(over + 1);
        self.calls.pop()
    }

    /// A call that it is in and that began another program, if that is so.
    fn executes(&self) -> bool {
        const EXEC: [u64; 2] = [59, 322];
        self.calls.last().is_some_and(|c| EXEC.contains(&c.number))
    }
}

/// A task is being made: it begins with this stack.
struct Birth {
    stack: u64,
    is_thread: bool,
    by: Task,
    at_ns: u64,
}

/// All that were met, by where the kernel has them.
#[derive(Default)]
pub struct Tasks {
    by_place: FxHashMap<u64, Known>,
    births: Vec<Birth>,
    /// Where calls began: all that go on, and some that are over.
    borders: FxHashSet<Border>,
    /// Tasks that are about to begin another program.
    executing: FxHashSet<u64>,
}

impl Tasks {
    /// Nothing is known any more.
    pub fn clear(&mut self) {
        self.by_place.clear();
        self.births.clear();
        self.borders.clear();
        self.executing.clear();
    }

    /// A task begins a call.
    pub fn enters(&mut self, place: u64, call: Pending) {
        let Some(known) = self.by_place.get_mut(&place) else { return };
        known.enters(call);
        if known.executes() {
            self.executing.insert(place);
        }
        self.borders.insert(call.returns_to);
        if self.borders.len() > BORDERS_MAX {
            let calls = self.by_place.values().flat_map(|k| &k.calls);
            self.borders = calls.map(|c| c.returns_to).collect();
        }
    }

    /// Whether somebody who comes back there may be of interest.
    pub fn awaits(&self, border: Border) -> bool {
        !self.births.is_empty() || !self.executing.is_empty() || self.borders.contains(&border)
    }

    /// Those that were to be made long ago did not come.
    pub fn forget_births(&mut self, now_ns: u64) {
        self.births.retain(|b| now_ns.saturating_sub(b.at_ns) < BIRTH_NS);
    }

    /// Whether the task at `place` was met and is still that one.
    pub fn is_known(&self, place: u64, ids: (u32, u32)) -> bool {
        self.by_place.get(&place).is_some_and(|k| (k.task.tid, k.task.tgid) == ids)
    }

    /// The task that was met at `place`.
    pub fn at(&mut self, place: u64) -> Option<&mut Known> {
        self.by_place.get_mut(&place)
    }

    /// Whether the task at `place` began another program and took its process's number for that.
    pub fn is_executing(&self, place: u64, task: &Task) -> bool {
        self.by_place.get(&place).is_some_and(|k| k.executes() && k.task.tgid == task.tgid && task.tid == task.tgid)
    }

    /// The first process, if it was met.
    pub fn first(&self) -> Option<&Task> {
        self.by_place.values().map(|k| &k.task).find(|t| t.tid == 1)
    }

    /// A task that was not met before; `stack` is where its stack was when it went to its program.
    pub fn meet<R: Records>(&mut self, place: u64, task: Task, stack: Option<u64>, cpu: &Cpu<'_>, out: &mut R) {
        let is_it = |b: &Birth| {
            let maker = if b.is_thread { task.tgid } else { task.parent_tgid };
            Some(b.stack) == stack && b.by.tgid == maker
        };
        let birth = self.births.iter().rposition(is_it).map(|i| self.births.remove(i));
        let (step, by) = match birth {
            Some(birth) => (w::TASK_FORK, birth.by),
            None => (w::TASK_SNAPSHOT, Task::default()),
        };
        tell(step, &task, (by.tid, by.tgid), &[], cpu, out);
        if self.by_place.len() >= TASKS_MAX {
            self.by_place.clear();
            self.executing.clear();
        }
        self.executing.remove(&place);
        self.by_place.insert(place, Known { task, calls: Vec::new() });
    }

    /// A task makes another, which begins with this stack.
    pub fn makes(&mut self, by: Task, stack: u64, is_thread: bool, at_ns: u64) {
        if self.births.len() == BIRTHS_MAX {
            self.births.remove(0);
        }
        self.births.push(Birth { stack, is_thread, by, at_ns });
    }

    /// It did not: the call failed.
    pub fn made_none(&mut self, by: &Task) {
        if let Some(last) = self.births.iter().rposition(|b| b.by.tid == by.tid) {
            self.births.remove(last);
        }
    }

    /// A task may have begun another program, where it was about to: tells it.
    pub fn executed<R: Records>(&mut self, kernel: &Kernel<'_>, place: u64, cpu: &Cpu<'_>, out: &mut R) {
        let Some(known) = self.by_place.get_mut(&place).filter(|k| k.executes()) else {
            self.executing.remove(&place);
            return;
        };
        let Some(task) = kernel.task(place).filter(|t| t.mm != known.task.mm) else { return };
        known.calls.clear();
        self.executing.remove(&place);
        // a thread that executes takes its process's number
        let before = std::mem::replace(&mut known.task, task).tid;
        let words = kernel.command_line(task.mm).map_or_else(Vec::new, |(from, to)| {
            user::head(cpu.memory, &[(from, to.saturating_sub(from).min(WORDS_MAX))], WORDS_MAX as usize)
        });
        tell(w::TASK_EXEC, &task, (before, task.tgid), &words, cpu, out);
    }

    /// A task may have another name.
    pub fn named<R: Records>(&mut self, kernel: &Kernel<'_>, place: u64, cpu: &Cpu<'_>, out: &mut R) {
        let (Some(known), Some(comm)) = (self.by_place.get_mut(&place), kernel.comm(place)) else { return };
        if known.task.comm != comm {
            known.task.comm = comm;
            tell(w::TASK_NAME, &known.task, (0, 0), &[], cpu, out);
        }
    }

    /// A task ends, with `is_process` all of its process.
    pub fn ended<R: Records>(&mut self, place: u64, is_process: bool, cpu: &Cpu<'_>, out: &mut R) {
        let Some(known) = self.by_place.remove(&place) else { return };
        tell(w::TASK_EXIT, &known.task, (0, 0), &[], cpu, out);
        if is_process {
            let of_process = |_: &u64, k: &mut Known| k.task.tgid == known.task.tgid;
            let mut others: Vec<Task> = self.by_place.extract_if(of_process).map(|(_, k)| k.task).collect();
            others.sort_by_key(|t| t.tid);
            others.iter().for_each(|t| tell(w::TASK_EXIT, t, (0, 0), &[], cpu, out));
        }
    }
}

fn tell<R: Records>(step: u8, task: &Task, by: (u32, u32), words: &[u8], cpu: &Cpu<'_>, out: &mut R) {
    let event = w::TaskEvent {
        head: head(w::KIND_TASK, step),
        ts_ns: cpu.now_ns,
        start_ns: task.start_ns,
        cgroup: 0,
        tgid: task.tgid,
        tid: task.tid,
        parent_tid: by.0,
        parent_tgid: by.1,
        comm: task.comm,
        cmdline_bytes: words.len() as u32,
        flags: 0,
    };
    out.put(&event, words, w::DROP_TASK);
}
