//! A task that others woke sends for one of them: a client's own task for a connection, as hyper's. And one that was made, and that
//! no other task ever woke, sends for the one that made it: a check of a connection that goes back to its pool, as sqlx's.
//!
//! Habit: the task was idle, and all who woke it before it sent are known. Who may have asked shows by the way in which each woke it. At
//! least eight that had woken a task so were resumed with the answer, and no other one that takes requests ever was. And tasks that are
//! woken so have one call at a time. Of tasks that were made: at least eight of the kind called for who made them, each once (one that
//! goes on may drain a queue), and none did that others had woken before. That a task does not send what it had kept for somebody else is
//! in no record, so this is no proof.
//!
//! Counterexamples: `link.client-task/set_going_by_another`, `errands_at_once`, `few_errands`,
//! `made_and_woken_by_others`, `made_to_drain_a_queue`.

use crate::attribution::exclusion::{ExclusionRule, Keeps, Kept, Question};
use crate::attribution::facts::Facts;
use crate::attribution::request_set::Requests;
use crate::client_tasks::Wakeup;
use crate::evidence::Rule;
use crate::exchange::Exchange;
use wakepath_model::ids::TaskId;
use wakepath_model::rows::HandoverRow;

pub(super) const RULE: ExclusionRule = ExclusionRule {
    says: "this request's task woke the one that sends, as those do that it resumes with the answer; or made it for this call",
    names: Some(|_, _| Rule::ClientTask),
    cases: Some(cases),
    ..ExclusionRule::habit(1, "client task", |q| {
        let of = |w: &Wakeup| q.facts.at_work(q.xs, w.by, w.at);
        if !q.is_woken_by_who_asks() {
            return None;
        }
        let mut requests: Requests = q.asking().map(of).collect::<Option<_>>()?;
        requests.retain(|&mut x| q.is_open(x));
        // what was asked for one that was answered meanwhile is of no request
        let own = requests.is_empty();
        Some(Kept { requests: Keeps::These(requests), own, before: false })
    })
};

fn cases(q: &Question) -> u32 {
    q.asking().map(|w| q.facts.roles.resumed_wakers(q.process, w.way)).min().unwrap_or_default()
}

impl Facts<'_> {
    /// A task was woken before it sent.
    pub(in crate::attribution) fn woken_to_call(&mut self, r: &HandoverRow) {
        if r.is_empty == 0 {
            self.tasks.or_default(r.task).helper.wakeups.add(r);
        }
    }

    /// A call begins: what woke its task before it sent anything else is not what it was made for.
    pub(in crate::attribution) fn drop_old_wakeups(&mut self, e: &Exchange) {
        if let Some(w) = self.tasks.get_mut(e.request.actor).filter(|w| !w.helper.wakeups.is_sent_by(e)) {
            w.helper.wakeups.all.clear();
        }
    }

    /// The call was looked at.
    pub(in crate::attribution) fn drop_wakeups(&mut self, task: TaskId) {
        if let Some(w) = self.tasks.get_mut(task) {
            w.helper.wakeups.all.clear();
        }
    }
}
