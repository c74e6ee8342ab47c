//! What is decided once all of a recording was seen.

use super::Roles;
use super::doing::UnderWay;
use super::habits::HabitId;
use crate::of_tasks::OfTasks;
use crate::process::known::{Does, ProcessFlag};
use crate::process::runtime::Nature;

impl Roles {
    /// Nothing more comes: puts losses in order and decides which processes move requests between tasks.
    pub fn finish(&mut self) {
        self.losses.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::new();
        for &(a, b) in &self.losses {
            match merged.last_mut() {
                Some(l) if a <= l.1 => l.1 = l.1.max(b),
                _ => merged.push((a, b)),
            }
        }
        self.losses = merged;
        let serving: Vec<_> = self.known.tasks().filter(|(_, t)| t.role.has(Does::Take)).collect();
        for (id, task) in serving {
            let process = self.process_of(id);
            self.known.serves(process);
            let role = task.role;
            // one that replies to nothing reads for the others: they keep what they take
            if role.has(Does::GiveAway) && (role.has(Does::ReplyItself) || role.has(Does::ReplyForOthers)) {
                let moves = match task.nature {
                    Nature::NamedLate => ProcessFlag::MovesBetweenLateNamed,
                    Nature::Plain | Nature::Context => ProcessFlag::MovesBetweenThreads,
                };
                self.known.at(process).flags.add(moves);
            }
        }
        self.loops_share_work();
        self.finish_habits();
        self.logical_tasks.finish(&mut self.habits);
        self.known.finish();
        self.multiplexed.finish();
        self.doing = OfTasks::default();
        self.under_way = UnderWay::default();
    }

    /// Counts what calls and connections show of habits, and then at each worker what its siblings show.
    fn finish_habits(&mut self) {
        for process in self.habits.processes() {
            let (fans_out, is_unasked) = (self.fans_out(process), self.calls_of_its_own(process));
            let keeps = self.keeps_connections(process);
            let habits = self.habits.at(process);
            habits.exception_if(HabitId::OneCall, fans_out);
            habits.exception_if(HabitId::Idle, is_unasked);
            habits.exception_if(HabitId::OneUse, keeps);
        }
        let known = &self.known;
        self.habits.merge(|process| known.master_of(process));
    }
}
