//! Who made each logical task, and when, as its runtime tells; and who made each thread. That is one fact for the whole recording: the first
//! pass learns it, and the second knows it.

use super::runtime::{Traits, traits};
use crate::per_task::PerTask;
use wakepath_model::ids::{MonoNs, StrId, TaskId};
use wakepath_model::rows::{Life, RuntimeKind, TaskRow};

/// What is told of a task's birth.
#[derive(Clone, Copy, Debug, Default)]
struct Birth {
    /// 0 where it is not told.
    at: MonoNs,
    /// Unknown where it is not told.
    maker: TaskId,
    runtime: RuntimeKind,
    /// The first name that a thread got after it, or none.
    name: StrId,
}

/// Births of logical tasks, and of threads beside the first of their process.
#[derive(Debug, Default)]
pub(crate) struct Births(PerTask<Birth>);

impl Births {
    /// Whether a step in a task's life tells of its birth. What is told again of a thread names no maker.
    pub(crate) fn are_told_by(r: &TaskRow) -> bool {
        r.runtime != RuntimeKind::None || r.what == Life::Fork && r.tid != r.tgid
    }

    /// A step in a task's life.
    pub(crate) fn task(&mut self, r: &TaskRow) {
        if r.what == Life::Name && self.maker(r.task).is_some() {
            let name = &mut self.0.entry(r.task).name;
            *name = if *name == StrId::EMPTY { r.comm } else { *name };
        }
        if !Births::are_told_by(r) {
            return;
        }
        let birth = self.0.entry(r.task);
        birth.runtime = r.runtime;
        if r.parent != TaskId::UNKNOWN {
            birth.maker = r.parent;
        }
        if r.start.0 != 0 {
            birth.at = r.start;
        }
    }

    /// Who made a task, whenever that was.
    pub(crate) fn maker(&self, task: TaskId) -> Option<TaskId> {
        Some(self.0.get(task).maker).filter(|maker| *maker != TaskId::UNKNOWN)
    }

    /// When a task was made.
    pub(crate) fn at(&self, task: TaskId) -> Option<MonoNs> {
        Some(self.0.get(task).at).filter(|at| at.0 != 0)
    }

    /// What threads of a kind are named, as far as they are: programs name what their threads do, and Ruby the place of its code.
    pub(crate) fn kind(&self, task: TaskId) -> StrId {
        self.0.get(task).name
    }

    /// Who made a task, and when, where both are told.
    pub(crate) fn of(&self, task: TaskId) -> Option<(TaskId, MonoNs)> {
        self.maker(task).zip(self.at(task))
    }

    /// Tasks of which both are told.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.0.iter().filter(|(_, birth)| birth.maker != TaskId::UNKNOWN && birth.at.0 != 0).map(|(task, _)| task)
    }

    /// Properties of a task's runtime.
    pub(crate) fn traits(&self, task: TaskId) -> Traits {
        traits(self.0.get(task).runtime)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_row_tells_no_later_one_takes_back() {
        let mut births = Births::default();
        let (task, maker, at) = (TaskId(7), TaskId(3), MonoNs(40));
        let row = TaskRow { task, runtime: RuntimeKind::Go, ..TaskRow::default() };
        births.task(&TaskRow { parent: maker, ..row });
        assert_eq!((births.maker(task), births.of(task)), (Some(maker), None));
        births.task(&TaskRow { start: at, ..row });
        births.task(&TaskRow { runtime: RuntimeKind::None, parent: TaskId(9), start: MonoNs(90), ..row });
        assert_eq!((births.of(task), births.at(task)), (Some((maker, at)), Some(at)));
        assert_eq!(births.tasks().collect::<Vec<_>>(), [task]);
        assert!(births.traits(task).tells_ends && births.maker(maker).is_none());
    }
}
