//! Who woke a task, and who made it.

use super::Importer;
use super::cpu::Current;
use super::tasks::{Notice, Run, STATE_NEW, Wake};
use crate::RowSink;
use crate::raw;
use wakepath_model::ids::{MonoNs, TaskId};
use wakepath_model::rows::{EndedBy, PacketRow};

impl<S: RowSink> Importer<S> {
    /// Somebody wakes a task.
    pub(super) fn wake(&mut self, at: MonoNs, cpu: u16, task: raw::Task<'_>, notice: Notice) {
        match notice {
            Notice::Waking => self.has.waking = true,
            Notice::Wakeup { .. } => self.has.wakeups = true,
        }
        let begin = self.done.first;
        let c = &mut self.cpus[usize::from(cpu)];
        let (current, in_task) = (c.current, c.in_task());
        let Some(t) = self.tasks.meet(at, begin, task, &mut self.out) else { return };
        // a task that was preempted needs no waking, and none wakes itself out of a sleep
        if (matches!(t.run, Run::Off(_)) && t.state == 0) || (in_task && current == Current::Tid(task.tid)) {
            return;
        }
        let mut wake = Wake { at, cpu, cause: EndedBy::Unknown, object: 0, by: TaskId::UNKNOWN };
        if notice != Notice::Waking && self.has.waking {
            // its waking was not seen: only the time is known
            if t.wake.is_none() && !matches!(t.run, Run::On(_)) {
                t.wake = Some(wake);
            }
            return;
        }
        let is_here = match notice {
            Notice::Waking => true,
            // with one processor, there is nowhere else
            Notice::Wakeup { target } => self.has_one_cpu || target.is_some_and(|target| target != cpu),
        };
        if let Some((cause, object)) = c.way_out_cause(at, cpu, t.comm()) {
            (wake.cause, wake.object) = (cause, object);
        } else if is_here || !c.is_called() {
            if let Some((cause, object)) = c.waking_cause() {
                (wake.cause, wake.object) = (cause, object);
            } else if let (Current::Tid(tid), true) = (current, is_here) {
                (wake.cause, wake.by) = (EndedBy::Task, self.tasks.id(tid));
            }
        }
        let Some(t) = self.tasks.get(task.tid) else { return };
        t.wake = Some(wake);
        let taken = |r: &mut PacketRow| (EndedBy::Packet, r.id) == (wake.cause, wake.object);
        if let Some(mut row) = self.cpus[usize::from(cpu)].arriving.take_if(taken) {
            // it waited for what it had asked there
            row.sport = t.peer.filter(|p| p.address == row.saddr).map_or(0, |p| p.port);
            self.out.push(&row);
        }
    }

    /// A task is made, and waits to run for the first time.
    pub(super) fn fork(&mut self, at: MonoNs, cpu: u16, parent: raw::Task<'_>, child: raw::Task<'_>) {
        let begin = self.done.first;
        let by = self.tasks.meet(at, begin, parent, &mut self.out).map_or(TaskId::UNKNOWN, |t| t.id());
        if let Some(t) = self.tasks.fork(at, parent.tid, child, &mut self.out) {
            t.state = STATE_NEW;
            t.wake = Some(Wake { at, cpu, cause: EndedBy::Task, object: 0, by });
        }
    }

    /// A new task may run.
    pub(super) fn wakeup_new(&mut self, at: MonoNs, cpu: u16, task: raw::Task<'_>) {
        if let Some(t) = self.tasks.get(task.tid)
            && t.state == STATE_NEW
        {
            // the fork said whose child it is
            if let (Run::Off(_), Some(wake)) = (t.run, &mut t.wake) {
                wake.at = at;
            }
            return;
        }
        let c = &self.cpus[usize::from(cpu)];
        if let (Current::Tid(tid), true) = (c.current, c.in_task()) {
            self.fork(at, cpu, raw::Task { tid, ..raw::Task::default() }, task);
        } else {
            self.tasks.meet(at, at, task, &mut self.out);
        }
    }
}
