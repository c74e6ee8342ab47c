//! What is decided once all of a recording was seen.

use super::Roles;
use super::habits::HabitId;
use crate::dense::PerTask;
use crate::per_end::PerEnd;
use rustc_hash::FxHashMap;
use wakepath_model::ids::StrId;

impl Roles {
    /// Nothing more comes: puts losses in order and decides which processes move requests between tasks.
    pub fn finish(&mut self) {
        self.unseen.losses.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::new();
        for &(a, b) in &self.unseen.losses {
            match merged.last_mut() {
                Some(l) if a <= l.1 => l.1 = l.1.max(b),
                _ => merged.push((a, b)),
            }
        }
        self.unseen.losses = merged;
        for (task, role) in self.roles.iter().filter(|(_, role)| role.takes) {
            let process = self.process_of(task);
            self.serving.processes.insert(process);
            self.serving.names.extend(Some(self.processes.names.get(process.leader())).filter(|n| *n != StrId::EMPTY));
            // one that replies to nothing reads for the others: they keep what they take
            if role.gives_away && (role.replies_own || role.replies_foreign) {
                let is_named_late = self.processes.is_named_late.get(task);
                let migrating = match is_named_late {
                    true => &mut self.serving.migrating_named,
                    false => &mut self.serving.migrating,
                };
                migrating.insert(process);
            }
        }
        self.loops_share_work();
        self.finish_habits();
        self.answerers.finish();
        self.requests.held = FxHashMap::default();
        self.workers.first_calls = FxHashMap::default();
        self.requests.open = FxHashMap::default();
        self.requests.newest = FxHashMap::default();
        self.loops.rounds = PerTask::default();
        self.loops.rests = FxHashMap::default();
        self.connections.connecting = FxHashMap::default();
        self.connections.dialling = FxHashMap::default();
        self.connections.asked_on = PerEnd::default();
        self.connections.spare = FxHashMap::default();
        self.calls.unanswered = Vec::new();
        self.calls.asking = FxHashMap::default();
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
        let processes = &self.processes;
        self.habits.merge(|process| processes.crew_of(process));
    }
}
