//! Logical tasks: what threads do in the name of goroutines.

use super::HostRows;
use wakepath_model::ids::{StrId, TaskId};
use wakepath_model::rows::{Event, TaskRow, life, runtime, strength};

impl HostRows {
    /// A goroutine of a process was met.
    pub fn goroutine(&mut self, t: u64, task: u32, leader: u32) {
        let (at, comm) = (self.at(t), StrId::EMPTY);
        let (key, runtime) = (u64::from(task), runtime::GO);
        let (task, tgid) = (TaskId(task), 1000 + leader);
        let row = TaskRow { at, start: at, key, task, tgid, comm, what: life::SNAPSHOT, runtime, ..Default::default() };
        self.rows.push(row.into());
    }

    /// What the rows from `first` on tell was done in the name of a logical task.
    pub fn in_the_name_of(&mut self, task: u32, first: usize) {
        for row in &mut self.rows[first..] {
            match row {
                Event::Op(r) => (r.logical, r.logical_strength) = (TaskId(task), strength::SEEN),
                Event::Poll(r) => r.logical = TaskId(task),
                _ => {}
            }
        }
    }
}
