//! What channels of Go say of goroutines that take items.

use super::Roles;
use super::habits::HabitId;
use crate::conditions::holds;
use crate::exchange::Slab;
use crate::process::ProcessId;
use wakepath_model::ids::{MonoNs, TaskId};
use wakepath_model::rows::{HandoverRow, StreamRow};

impl Roles {
    /// A goroutine got an item from another.
    pub fn handed_over(&mut self, r: &HandoverRow) {
        let process = self.process_of(r.task);
        let is_errand = self.is_named_late(r.task);
        self.logical_tasks.handed_over(r, process, is_errand, &mut self.habits);
    }

    /// How often who had woken a task of a process in a way was resumed with the answer to a call; 0 where that is no habit.
    pub(crate) fn errands(&self, process: ProcessId, way: u64) -> u32 {
        let of = |id| self.habits.of_way(process, way, id);
        let cases = of(HabitId::ResumesWhoAsked).cases;
        let is_asking = holds("errand.resumes_who_asked", of(HabitId::ResumesWhoAsked).is_kept())
            && holds("errand.of_none_but_its_maker", of(HabitId::WokenByWhoAsks).is_kept())
            && holds("errand.made_for_one_call", of(HabitId::MadeForOneCall).is_kept())
            && holds("errand.one_at_a_time", of(HabitId::OneErrandAtATime).is_kept());
        if is_asking && cases >= HabitId::ResumesWhoAsked.min_cases() { cases } else { 0 }
    }

    /// A logical task serves a stream.
    pub fn serves_stream(&mut self, xs: &Slab, r: &StreamRow) {
        self.logical_tasks.serves(xs, r);
    }

    /// When a goroutine handed back what came of an item that it took at a moment; none where something else came between, or it never did.
    pub(crate) fn tenure_until(&self, task: TaskId, taken: MonoNs) -> Option<MonoNs> {
        self.logical_tasks.tenures().until(task, taken)
    }

    /// Whether items of a type are no work.
    pub(crate) fn is_harmless_item(&self, process: ProcessId, of: u64) -> bool {
        self.logical_tasks.tenures().is_harmless(process, of)
    }
}
