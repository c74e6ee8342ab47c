//! Tasks that a request made, and that hand on to another one: what came of the answer to their call, that one waited for. A worker that
//! requests start when there is work, and that ends when there is none, takes what others put into a queue of the program's. A task or
//! callback that gathers what several requests ask, and asks it at once, is made by the first of them.
//!
//! That shows where answers to such calls are all that a loop is given in its turn, and another request is replied to in it, or calls: it
//! can only have been resumed by one of them. Where it calls on the connection on which such an answer came, it may have waited for that
//! alone (a pool's). One that waited for a lock looks the same: whether it also got what the answer brought is not known. And the turn
//! after must be known whole too: a thread puts its result where the loop finds it before it wakes the loop.
//!
//! Where a thread of a pool called, it wakes the loop once it has done what it was given: who does that is the last that called in it.
//!
//! Which request a task was made for may show at the reply alone, if a connection's task or its callback read the request. So who acted is
//! compared with whose answers came once that is known: what made both is of no request.

use crate::lineage::{Lineage, TaskRequest};
use crate::process::ProcessId;
use crate::process::turn::Turn;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use wakepath_model::ids::{EndpointId, MonoNs, TaskId};
use wakepath_model::rows::PollRow;

/// What a loop may be given: the answer to a task's call, which began then, or the request that a task reads.
#[derive(Clone, Copy)]
pub(super) enum Given {
    Answer(TaskId, MonoNs),
    Request(TaskId),
}

type Tasks = SmallVec<[TaskId; 2]>;

/// A task that acted, those whose answers alone may have resumed it, and those for which threads called and woke no loop since: what came
/// of that may lie there before.
type Acted = (TaskId, Tasks, Tasks);

/// Most that is kept of one turn; a longer one shows nothing.
const ACTS_MAX: usize = 64;
/// Most ways by which threads wake loops.
const WAYS_MAX: usize = 1 << 12;
/// How many acts are kept of which is not known yet for which requests they were.
const UNDECIDED_MAX: usize = 1 << 12;

/// What a loop did since it last waited.
#[derive(Default)]
struct Acts {
    turn: Turn,
    /// On which connections it took something, each once after a poll.
    read: SmallVec<[EndpointId; 2]>,
    /// How many of these before its last poll.
    read_before: usize,
    /// Whose answers and requests it took there.
    given_by: SmallVec<[TaskId; 2]>,
    takes_requests: bool,
    /// What woke it from other threads.
    rung_by: SmallVec<[TaskId; 2]>,
    is_rung_by_others: bool,
    /// How much it read of what woke it before the writers went on (bytes).
    owed: u64,
    /// It took something else, or what a poll need not have found.
    is_given_more: bool,
    /// Who acted there, how many it had been given by then, and for whom threads had called.
    acted: SmallVec<[(TaskId, usize, Tasks); 4]>,
    /// A timer may have been due, or it was too long.
    is_late: bool,
    /// In the turn before, they may have been handed on to by others.
    before: SmallVec<[Acted; 1]>,
}

/// What threads write to wake a loop.
#[derive(Default)]
struct Rings {
    /// For which tasks they wrote what was not read yet: none where that is not known.
    unread: SmallVec<[Option<TaskId>; 2]>,
    unread_bytes: u64,
    /// Which thread reads there, and how much before the writers went on (bytes).
    reader: TaskId,
    owed: u64,
}

/// What loops do, by their threads: none where no runtime has such loops.
#[derive(Default)]
pub(super) struct Resumed {
    /// Of threads that took a request. Others that poll, a pool's, wait so for one answer, and then go on with another's job.
    acts: FxHashMap<TaskId, Acts>,
    are_loops: bool,
    rings: FxHashMap<u64, Rings>,
    /// For whom a thread called that is no loop's, and woke none since.
    worked: FxHashMap<TaskId, TaskId>,
    undecided: FxHashSet<(ProcessId, Acted)>,
}

impl Resumed {
    /// There are loops of a runtime that has a thread for each, which runs nothing else between two polls.
    pub(super) fn has_loops(&mut self) {
        self.are_loops = true;
    }

    /// A thread takes a request.
    pub(super) fn serves(&mut self, thread: TaskId) {
        if self.are_loops {
            self.acts.entry(thread).or_default();
        }
    }

    /// A poll of a process's thread returned.
    pub(super) fn polled(&mut self, r: &PollRow, process: ProcessId) {
        let Some(acts) = self.acts.get_mut(&r.task) else { return };
        let mut turn = acts.turn;
        acts.read_before = acts.read.len();
        if turn.polled(r).is_some() {
            let mut over = std::mem::take(acts);
            let before = std::mem::take(&mut over.before);
            let is_known = over.is_all_known() && !over.is_rung_by_others();
            let with_rings = |(task, mut by, called): Acted| {
                by.extend(over.rung_by.iter().copied());
                (process, (task, by, called))
            };
            self.undecided.extend(before.into_iter().filter(|_| is_known).map(with_rings));
            acts.before = over.handed_on();
        }
        acts.turn = turn;
    }

    /// In which processes a task that was made for a request was seen to hand on to another one, as far as is known now, or may have where
    /// there is no room to wait until that is known. `is_over`: nothing more comes.
    pub(super) fn handed_on(&mut self, lineage: &Lineage, is_over: bool) -> SmallVec<[ProcessId; 2]> {
        if !is_over && self.undecided.len() < UNDECIDED_MAX {
            return SmallVec::new();
        }
        let mut seen = SmallVec::new();
        self.undecided.retain(|(process, acted)| {
            let handed_on = handed_on(lineage, acted);
            seen.extend(Some(*process).filter(|_| handed_on == Some(true)));
            handed_on.is_none()
        });
        if self.undecided.len() >= UNDECIDED_MAX / 2 {
            seen.extend(self.undecided.drain().map(|(process, _)| process));
        }
        seen
    }

    /// A thread takes something from a connection; none: it is not known of whom.
    pub(super) fn takes(&mut self, thread: TaskId, from: EndpointId, given: Option<Given>) {
        let Some(acts) = self.acts.get_mut(&thread) else { return };
        acts.reads(from);
        acts.takes_requests |= matches!(given, Some(Given::Request(_)));
        let task = match given {
            // one that is read without a wait need not be what a poll found ready
            Some(Given::Answer(task, called)) => Some(task).filter(|_| called < acts.turn.since),
            Some(Given::Request(task)) => Some(task).filter(|_| task != thread),
            None => None,
        };
        match task.filter(|_| acts.given_by.len() < ACTS_MAX) {
            Some(task) => acts.given_by.push(task),
            None => acts.is_given_more = true,
        }
    }

    /// A task's thread writes to another one of its process.
    pub(super) fn rings(&mut self, way: u64, (thread, task): (TaskId, TaskId), bytes: u64) {
        if !self.are_loops || self.rings.len() >= WAYS_MAX && !self.rings.contains_key(&way) {
            return;
        }
        // in its own name it does so once it has done what it was given
        let by = if task == thread { self.worked.remove(&thread) } else { Some(task) };
        let rings = self.rings.entry(way).or_default();
        if rings.owed == 0 {
            rings.unread_bytes += bytes;
            match rings.unread.len() < ACTS_MAX {
                true => rings.unread.push(by),
                false => rings.unread[0] = None,
            }
            return;
        }
        // who is woken by it may read it before the writer goes on
        if let Some(acts) = self.acts.get_mut(&rings.reader).filter(|acts| acts.owed == rings.owed) {
            acts.owed = acts.owed.saturating_sub(bytes);
            acts.is_rung(&[by]);
        }
        rings.owed = rings.owed.saturating_sub(bytes);
    }

    /// A thread reads what others wrote to wake it (bytes), at its end of the way.
    pub(super) fn is_rung(&mut self, way: u64, thread: TaskId, end: EndpointId, bytes: u64) {
        let Some(acts) = self.acts.get_mut(&thread) else { return };
        if self.rings.len() >= WAYS_MAX && !self.rings.contains_key(&way) {
            return acts.is_rung(&[None]);
        }
        let rings = self.rings.entry(way).or_default();
        acts.reads(end);
        acts.is_rung(&rings.unread);
        let owed = bytes.saturating_sub(std::mem::take(&mut rings.unread_bytes));
        acts.owed += owed;
        rings.owed += owed;
        rings.unread.clear();
        rings.reader = thread;
    }

    /// A thread calls on a connection, in the name of a task.
    pub(super) fn calls(&mut self, (thread, on): (TaskId, EndpointId), task: TaskId, at: MonoNs) {
        if let Some(acts) = self.acts.get_mut(&thread) {
            // which connection's request a task's call is for is not known yet
            acts.acts(task, at, !acts.takes_requests && !acts.read.contains(&on), &self.worked);
        }
    }

    /// A thread calls in the name of a task, be it after the end of what that was made for.
    pub(super) fn works(&mut self, thread: TaskId, task: TaskId) {
        let has_room = self.worked.len() < WAYS_MAX || self.worked.contains_key(&thread);
        if self.are_loops && has_room && thread != task && !self.acts.contains_key(&thread) {
            self.worked.insert(thread, task);
        }
    }

    /// A thread replies to a request on a connection, in the name of a task.
    pub(super) fn replies(&mut self, (thread, on): (TaskId, EndpointId), task: TaskId, at: MonoNs) {
        if let Some(acts) = self.acts.get_mut(&thread) {
            acts.acts(task, at, task != thread && !acts.read.contains(&on), &self.worked);
        }
    }
}

impl Acts {
    fn acts(&mut self, task: TaskId, at: MonoNs, may_be_resumed: bool, called: &FxHashMap<TaskId, TaskId>) {
        // runtimes that have such loops read clocks without ticks
        self.is_late |= !self.turn.no_rounded_timer_due(at) || self.acted.len() >= ACTS_MAX;
        let may_be_resumed = may_be_resumed && !self.is_late && !self.is_given_more;
        if may_be_resumed {
            self.acted.push((task, self.given_by.len(), called.values().copied().collect()));
        }
    }

    fn reads(&mut self, from: EndpointId) {
        let is_new = !self.read.iter().skip(self.read_before).any(|read| *read == from);
        self.read.extend(Some(from).filter(|_| is_new && self.read.len() < ACTS_MAX));
    }

    fn is_rung(&mut self, by: &[Option<TaskId>]) {
        self.is_rung_by_others |= self.rung_by.len() + by.len() > ACTS_MAX || by.contains(&None);
        self.rung_by.extend(by.iter().copied().flatten().filter(|_| !self.is_rung_by_others));
    }

    fn is_rung_by_others(&self) -> bool {
        self.is_rung_by_others || self.owed > 0
    }

    /// Whether all that its polls found ready was seen taken up.
    fn is_all_known(&self) -> bool {
        self.read.len() < ACTS_MAX && self.turn.ready as usize == self.read.len()
    }

    /// Who acted in it, where those whose answers came, or who woke it, were all that can have resumed it.
    fn handed_on(&self) -> SmallVec<[Acted; 1]> {
        let is_all = self.is_all_known() && !self.is_rung_by_others() && !self.is_late;
        let by = |given: usize| self.given_by[..given].iter().chain(&self.rung_by).copied().collect();
        let acted =
            self.acted.iter().filter(|_| is_all).map(|(task, given, called)| (*task, by(*given), called.clone()));
        acted.filter(|(task, by, _): &Acted| !by.is_empty() && !by.contains(task)).collect()
    }
}

/// Whether one was handed on to by tasks that were made for other requests than its own; none where it is not known yet.
fn handed_on(lineage: &Lineage, (acted, by, called): &Acted) -> Option<bool> {
    let is_known = |task: TaskId| !matches!(lineage.of(task, MonoNs(u64::MAX)), TaskRequest::Nothing);
    let is_anothers = |&task: &TaskId| {
        let line: SmallVec<[TaskId; 8]> = lineage.line_up(task).collect();
        let of_both = lineage.line_up(*acted).find(|task| line.contains(task));
        of_both.is_none_or(|task| !is_known(task))
    };
    // one of its own suffices, whatever the others are; and who takes requests was made for none
    if !by.iter().chain(called).all(is_anothers) || by.iter().all(|&task| lineage.has_requests(task)) {
        return Some(false);
    }
    (is_known(*acted) && by.iter().all(|&task| is_known(task))).then_some(true)
}
