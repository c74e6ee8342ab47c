//! How long a process works on requests, and what shows that a task is done with one: asked of those whose clients left.

use super::Roles;
use super::habits::CASES_MIN;
use crate::conditions::holds;
use crate::exchange::Side;
use crate::process::ProcessId;
use crate::process::known::Does;
use crate::process::runtime::Nature;
use wakepath_model::ids::TaskId;

/// How long a request is taken to last at most where too few were replied to (ns). Where enough were, the process's own longest counts.
/// After either, the path says that what was done then is not known.
const UNKNOWN_NS: u64 = 5_000_000_000;

impl Roles {
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

    /// Whether a server of this process (or, of a client's side, one that it asks) was seen to say something when nothing was asked, on a
    /// connection where turns alone pair messages; or one of its siblings.
    pub fn pushes(&self, process: ProcessId, side: Side) -> bool {
        self.known.pushes(process, side)
    }

    /// The longest time in which the process replied to a request (ns).
    pub fn longest(&self, process: ProcessId) -> u64 {
        match self.known.of(process).map(|p| p.lasted) {
            Some((count, longest)) if count >= CASES_MIN => longest,
            _ => UNKNOWN_NS,
        }
    }
}
