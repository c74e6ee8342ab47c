//! A helper to which requests handed work before, in a process with one open request: such helpers never called when there
//! was none.
//!
//! Condition: no timer made it go on; it is not still at what it was made for; what it was woken for is over only where there
//! was never more than one request at once.
//!
//! That requests hand it work may not show, where that goes by way of other threads. Then it is enough that no task of its
//! process made a call when it had no request open: nothing later may have named another ([`Facts::is_handed_work`]).
//!
//! Such moments must have been there often enough: where a request is always open, work that is left after a reply does
//! not show. And so must such calls: a thread that calls every few seconds may do so once while a request is open.
//!
//! Counterexamples: `link.sole/helper_calls_of_its_own`, `not_handed_work`, `woken_by_a_timer`, `helper_of_another`, `too_few_calls`,
//! `behind_a_reply`.

use crate::attribution::exclusion::{ExclusionRule, Kept, Question};
use crate::attribution::facts::Facts;
use crate::attribution::helper::Woken;
use crate::conditions::holds;
use crate::evidence::Rule;
use crate::process::known::{Does, ProcessFlag};
use crate::roles::HabitId;
use wakepath_model::ids::TaskId;

pub(super) const RULE: ExclusionRule = ExclusionRule {
    says: "helpers of this process never made a call while no request was open",
    names: Some(|_, _| Rule::Sole),
    ..ExclusionRule::habit(6, "sole", keeps)
};

fn keeps(q: &Question) -> Option<Kept> {
    let is_helper = !q.role.has(Does::Take) && !q.is_migrating();
    let is_handed_work = q.worker.filter(|_| is_helper)?.helper.is_handed_work;
    (is_handed_work && is_asked_by_one(q)).then_some(Kept::all_but_own())
}

impl Facts<'_> {
    /// Whether calls of a helper are for requests: one was seen to hand it work, or none was ever made without.
    pub(in crate::attribution) fn is_handed_work(&self, helper: TaskId) -> bool {
        let was_handed = self.tasks.get(helper).is_some_and(|w| w.helper.is_handed_work);
        let process = self.roles.process_of(helper);
        holds("sole.handed_work", was_handed || !self.roles.calls_of_its_own(process))
    }
}

/// Whether a call of a helper can only be of a request that its process has open; of which, where there are several, is another
/// question.
pub(in crate::attribution) fn is_asked_by_one(q: &Question) -> bool {
    let roles = q.facts.roles;
    let is_asked = match q.worker.map(|w| w.helper.woken).unwrap_or_default() {
        Woken::Unknown => true,
        // it went on to something else without sleeping, and there was never more than one thing to go on to
        Woken::For(x) => !q.is_open(x) && !roles.is_so(q.process, ProcessFlag::Concurrent),
        Woken::Timer => holds("sole.no_timer", false),
    };
    // what it does may be of a request that is over
    let is_at_first_work = q.worker.is_some_and(|w| w.born_of.is_some());
    is_asked
        && !q.is_woken_by_who_asks()
        && holds("sole.not_of_its_maker", !is_at_first_work)
        && q.at > roles.unseen_until(q.process)
        && holds("sole.never_without_a_request", !roles.calls_unasked(q.process))
        && holds("sole.often", roles.habits.is_often(q.process, HabitId::Idle))
        && holds("sole.calls_often", roles.habits.is_often(q.process, HabitId::HelpersAreAsked))
}
