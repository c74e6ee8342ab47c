//! Whether requests move between tasks of a process, as far as their tasks are known; and whether a task is done with one when it takes
//! the next.

use super::Roles;
use super::doing::Doing;
use crate::conditions::holds;
use crate::exchange::Exchange;
use crate::process::ProcessId;
use crate::process::known::{Does, ProcessFlag};
use crate::process::runtime::Nature;
use rustc_hash::FxHashMap;
use wakepath_model::ids::TaskId;

/// One in so many replies of a loop at a word of another thread is enough: what is rarer is a connection that failed, or a file
/// that a helper read.
const UNSEEN_ONE_IN: u32 = 32;

impl Roles {
    /// Processes with several event loops that go on with requests at each other's word. A loop that is awake looks for such
    /// work in memory, amid what its polls gave it: so a call may be for a request that another loop took.
    ///
    /// Counterexample: `link.fragment/loops_give_each_other_work`.
    pub(super) fn loops_share_work(&mut self) {
        let mut loops: FxHashMap<ProcessId, (u32, bool)> = FxHashMap::default();
        for (task, Doing { replies: (replies, unseen), .. }) in self.doing.iter() {
            if *replies > 0 && self.role(task).is_loop() {
                let (count, is_told) = loops.entry(self.process_of(task)).or_default();
                *count += 1;
                *is_told |= *unseen > 0 && unseen.saturating_mul(UNSEEN_ONE_IN) >= *replies;
            }
        }
        let works_alone = |count: u32, is_told: bool| holds("turn.no_others_work", count < 2 || !is_told);
        let sharing = loops.into_iter().filter(|(_, (count, is_told))| !works_alone(*count, *is_told));
        sharing.for_each(|(process, _)| self.known.at(process).flags.add(ProcessFlag::MovesBetweenThreads));
    }

    /// Whether tasks of the process that reply to requests give away some that they took: any may go on with any.
    pub fn is_migrating(&self, process: ProcessId) -> bool {
        self.is_so(process, ProcessFlag::MovesBetweenThreads) || self.is_so(process, ProcessFlag::MovesBetweenLateNamed)
    }

    /// The same of the tasks among which this one is: threads, or tasks that were named late.
    pub fn is_among_migrating(&self, task: TaskId) -> bool {
        let process = self.process_of(task);
        match self.is_named_late(task) {
            true => self.is_so(process, ProcessFlag::MovesBetweenLateNamed),
            false => self.is_migrating(process),
        }
    }

    /// Whether it is a task whose name the recorder had to find first, as Tokio's are.
    pub fn is_named_late(&self, task: TaskId) -> bool {
        self.known.of_task(task).nature == Nature::NamedLate
    }

    /// Whether a request was taken before its process's tasks had names: by whom is not known.
    pub(super) fn is_taken_before_names(&self, e: &Exchange, replies: TaskId) -> bool {
        let since = self.known.of(self.process_of(replies)).and_then(|p| p.named_since);
        self.is_named_late(replies)
            && !self.is_named_late(e.request.actor)
            && since.is_some_and(|since| e.request.taken < since)
    }

    /// Whether a task is done with its request when it takes another one, or closes its connection: it works on one at a time, and
    /// no task goes on in its stead.
    ///
    /// Counterexamples: `link.leaving/counter_leaves_a_loop`, `counter_leaves_a_reader`.
    pub fn turns_away(&self, task: TaskId) -> bool {
        let role = self.role(task);
        let is_context = self.known.of_task(task).nature == Nature::Context;
        let is_alone = holds("leaving.one_at_a_time", !role.is_loop() && !is_context);
        is_alone && holds("leaving.keeps_what_it_takes", !role.has(Does::GiveAway)) && !self.is_among_migrating(task)
    }
}
