//! Logical tasks: what threads do in the name of goroutines.

use super::HostRows;
use wakepath_model::ids::{MonoNs, StrId, TaskId};
use wakepath_model::rows::{Event, HandoverRow, Life, RanRow, RuntimeKind, Strength, TaskRow};

/// `splice`, by its number on x86-64.
const SPLICE: u16 = 275;

impl HostRows {
    /// A logical task of a process was met: one of a runtime, perhaps made by another at a time.
    pub fn logical(&mut self, task: u32, leader: u32, runtime: RuntimeKind, maker: Option<(u32, u64)>) {
        let (parent, made) = maker.unwrap_or((0, 0));
        let (at, comm) = (self.at(made), StrId::EMPTY);
        let start = if maker.is_some() { at } else { MonoNs(0) };
        let key = if maker.is_some() { at.0 } else { u64::from(task) };
        let (task, parent, tgid) = (TaskId(task), TaskId(parent), 1000 + leader);
        let row =
            TaskRow { at, start, key, task, parent, tgid, comm, what: Life::Snapshot, runtime, ..Default::default() };
        self.rows.push(row.into());
    }

    /// What the rows from `first` on tell was done in the name of a logical task.
    pub fn in_the_name_of(&mut self, task: u32, first: usize) {
        for row in &mut self.rows[first..] {
            match row {
                Event::Op(r) => (r.logical, r.logical_strength) = (TaskId(task), Strength::Seen),
                Event::Poll(r) => r.logical = TaskId(task),
                _ => {}
            }
        }
    }

    /// What moved bytes in the rows from `first` on did so past the program.
    pub fn by_splice(&mut self, first: usize) {
        for row in &mut self.rows[first..] {
            if let Event::Op(r) = row
                && r.end > r.start
            {
                r.syscall = SPLICE;
            }
        }
    }

    /// A thread was at work for a logical task when its processor's clock ticked.
    pub fn ran(&mut self, at: u64, task: u32, logical: u32) {
        let named = self.rows.iter().find_map(|row| match row {
            Event::Task(r) if r.task == TaskId(logical) => Some(r.key),
            _ => None,
        });
        let key = named.expect("a task is named first");
        self.rows.push(RanRow { at: self.at(at), key, task: TaskId(task), ..Default::default() }.into());
    }

    /// What a logical task's runtime tells of it later, one of [`Life`].
    pub fn logical_again(&mut self, t: u64, task: u32, what: Life) {
        let made = self.rows.iter().find_map(|row| match row {
            Event::Task(r) if r.task == TaskId(task) => Some(*r),
            _ => None,
        });
        let row = TaskRow { at: self.at(t), what, ..made.expect("a task is named first") };
        self.rows.push(row.into());
    }

    /// A goroutine sent an item, which another one got: who sent it, who sent it first, and who got it.
    pub fn handed_over(
        &mut self,
        [first_sent, sent, at]: [u64; 3],
        of: u64,
        [from, first, task]: [u32; 3],
        is_empty: bool,
    ) {
        let [first_sent, sent, at] = [first_sent, sent, at].map(|at| self.at(at));
        let [from, first, task] = [from, first, task].map(TaskId);
        let is_empty = u8::from(is_empty);
        self.rows
            .push(HandoverRow { at, sent, first_sent, of, task, from, first, is_empty, ..Default::default() }.into());
    }
}
