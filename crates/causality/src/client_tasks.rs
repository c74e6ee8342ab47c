//! Client tasks: one that others set going sends a request for one of them, and resumes that one with the answer.
//!
//! So clients work that have a task for each connection (hyper and what is built on it). Where the runtime tells who wakes whom
//! (Tokio, where it has probes), each that woke the idle task before it sent may have asked. Why a task is woken shows by its kind and by the
//! place in the program that wakes it: those that ask are resumed with the answer, and those that make room, or set a place free, are not.
//! The first pass over a recording counts this for each such way, among the habits.

use crate::exchange::Exchange;
use crate::lineage::Lineage;
use crate::process::ProcessId;
use crate::roles::{HabitId, HabitTable};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use wakepath_model::ids::{MonoNs, TaskId};
use wakepath_model::rows::HandoverRow;

/// Most tasks of which is kept for whom they send: calls of those beyond stay open, unless others of their kind tell.
const TASKS_MAX: usize = 1 << 18;
/// Most ways in which one of them is woken; what else wakes it is not known to ask.
const WAYS_MAX: usize = 8;

/// Somebody who woke a task before it sent.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Wakeup {
    /// Who; unknown where it was no task.
    pub(crate) by: TaskId,
    /// When.
    pub(crate) at: MonoNs,
    /// In which way.
    pub(crate) way: u64,
    /// It made the task, which no other one ever woke.
    is_birth: bool,
}

/// Who woke a task before it sent.
#[derive(Clone, Default)]
pub(crate) struct Wakeups {
    /// When it sent.
    sent: MonoNs,
    /// All who did.
    pub(crate) all: SmallVec<[Wakeup; 2]>,
}

impl Wakeups {
    /// A row tells of one of them. Rows of the same sending have the same time.
    pub(crate) fn add(&mut self, r: &HandoverRow) {
        if self.sent != r.at {
            self.all.clear();
        }
        self.sent = r.at;
        let is_birth = r.first == TaskId::UNKNOWN && r.from != TaskId::UNKNOWN;
        self.all.push(Wakeup { by: r.from, at: r.sent, way: r.of, is_birth });
    }

    /// Whether a call was sent then.
    pub(crate) fn is_sent_by(&self, e: &Exchange) -> bool {
        !self.all.is_empty() && (e.request.began..=e.request.taken).contains(&self.sent)
    }
}

/// A task that sends for others.
#[derive(Default)]
struct ClientTask {
    process: ProcessId,
    wakeups: Wakeups,
    /// Who may have asked for what it sent last.
    asked_by: SmallVec<[Wakeup; 2]>,
    /// In which ways it was ever woken before it sent.
    ways: SmallVec<[u64; 4]>,
    /// How many of its calls are under way.
    under_way: u32,
    /// It called for who made it.
    has_called_for_maker: bool,
    /// The last one's answer has begun, and it resumed no task since who could be who asked.
    is_answered: bool,
}

/// The client tasks of a recording, as far as they show habits.
#[derive(Default)]
pub(crate) struct ClientTasks {
    tasks: FxHashMap<TaskId, ClientTask>,
}

impl ClientTasks {
    /// A task of a process was woken before it sent, or resumed by one that sends.
    pub(crate) fn handed_over(
        &mut self,
        r: &HandoverRow,
        process: ProcessId,
        lineage: &Lineage,
        habits: &mut HabitTable,
    ) {
        if r.is_empty == 0 {
            if self.tasks.len() < TASKS_MAX || self.tasks.contains_key(&r.task) {
                let task = self.tasks.entry(r.task).or_default();
                task.process = process;
                task.wakeups.add(r);
            }
            return;
        }
        let Some(task) = self.tasks.get_mut(&r.from) else { return };
        let asked_by = || task.asked_by.iter().filter(|w| !w.is_birth);
        let is_who_asked = asked_by().any(|w| w.by == r.task);
        if asked_by().next().is_none() || !is_who_asked && !lineage.has_requests(r.task) {
            return;
        }
        for w in asked_by() {
            let Some(way) = habits.at_way(task.process, w.way) else { continue };
            way.case_if(HabitId::ResumesWhoAsked, w.by == r.task && task.is_answered);
            let is_another = w.by != r.task && (task.is_answered || !is_who_asked);
            way.exception_if(HabitId::ResumesWhoAsked, is_another);
        }
        if task.is_answered {
            task.asked_by.clear();
        }
    }

    /// A task calls.
    pub(crate) fn called(&mut self, e: &Exchange, habits: &mut HabitTable) {
        let Some(task) = self.tasks.get_mut(&e.request.actor) else { return };
        let wakeups = std::mem::take(&mut task.wakeups);
        task.asked_by = if wakeups.is_sent_by(e) { wakeups.all } else { SmallVec::new() };
        task.is_answered = false;
        task.under_way += 1;
        for w in &task.asked_by {
            // by no task, or by what others woke before
            let is_unknown = w.by == TaskId::UNKNOWN;
            if is_unknown || w.is_birth {
                let goes_on = w.is_birth && std::mem::replace(&mut task.has_called_for_maker, true);
                if let Some(way) = habits.at_way(task.process, w.way) {
                    way.case_if(HabitId::ResumesWhoAsked, w.is_birth);
                    way.exception_if(HabitId::WokenByWhoAsks, is_unknown);
                    way.exception_if(HabitId::MadeForOneCall, goes_on);
                }
            }
            if !task.ways.contains(&w.way) && task.ways.len() < WAYS_MAX {
                task.ways.push(w.way);
            }
        }
        if task.under_way > 1 {
            for number in &task.ways {
                if let Some(way) = habits.at_way(task.process, *number) {
                    way.exception_if(HabitId::OneCallAtATime, true);
                }
            }
        }
    }

    /// The answer to a call began.
    pub(crate) fn answered(&mut self, e: &Exchange) {
        if let Some(task) = self.tasks.get_mut(&e.request.actor) {
            task.is_answered = true;
        }
    }

    /// A call is over.
    pub(crate) fn over(&mut self, e: &Exchange) {
        if let Some(task) = self.tasks.get_mut(&e.request.actor) {
            task.under_way = task.under_way.saturating_sub(1);
        }
    }
}
