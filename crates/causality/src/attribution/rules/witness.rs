//! A call that carries the identifier of one request, handed on as it came: `traceparent` or `x-request-id`.
//!
//! Condition: one request of the process bears it, that one is open, and no other was seen to bear it, also none that is over: clients
//! that try again or hedge send it twice, and some give one to a whole session. Nor is a request open whose head was not read (encrypted,
//! say): it may bear it too. What came before the recording is not seen. That a candidate bears another identifier excludes
//! nothing by itself: gateways mint their own.
//!
//! Counterexamples: `link.witness/borne_by_two`, `bearer_is_over`, `bearer_is_not_the_owner`, `another_is_unread`; and `minted`, where it says nothing.

use crate::attribution::exclusion::{ExclusionRule, Kept, Question};
use crate::conditions::holds;
use crate::evidence::Rule;

pub(super) const RULE: ExclusionRule = ExclusionRule {
    says: "the call carries the identifier of this request, which no other was seen to bear",
    names: Some(|_, _| Rule::Witness),
    ..ExclusionRule::shown(0, "witness", keeps)
};

fn keeps(q: &Question) -> Option<Kept> {
    let x = q.facts.domain(q.process)?.bearers.bearer(q.carried)?;
    // what is done after its reply may be another's
    holds("witness.is_open", q.is_open(x)).then(|| Kept::one(x))
}
