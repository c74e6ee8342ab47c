//! Whether the task that sends a message is the one that asks ([`super::multiplexed`]).

use super::Roles;
use crate::conditions::holds;
use crate::exchange::Exchange;
use crate::process::ProcessId;
use crate::process::known::Does;

impl Roles {
    /// A call begins: where its protocol has streams, whether one operation began several while several requests were open.
    pub(super) fn begins_stream(&mut self, e: &Exchange, process: ProcessId) {
        if !e.content.witness.0.interleaves() {
            return;
        }
        let is_beside_another = self.multiplexed.begins(e.flow, e.request.began);
        // who sends for all and works for none is another matter, and so is a goroutine that is told to have asked, whoever sends
        let (role, is_thread) = (self.known.at_task(e.request.actor).role, e.request.actor == e.request.task);
        let works_for_one = is_thread && role.has(Does::Take) && !role.is_loop();
        let is_of_a_request = works_for_one || self.logical_tasks.lineage.births().traits(e.request.actor).has_loops;
        if is_beside_another && is_of_a_request && self.known.at(process).now.open.is_some_and(|open| open > 1) {
            self.multiplexed.add(e.flow);
        }
    }

    /// Whether what a task sends there may be another request's, whatever it works for.
    pub(crate) fn may_send_for_others(&self, e: &Exchange) -> bool {
        let has_overlap = e.is_by_direction() || e.content.witness.0.interleaves();
        let is_one = has_overlap && self.multiplexed.is_for_others(e.flow);
        !holds("shared.sends_for_itself", !is_one)
    }
}
