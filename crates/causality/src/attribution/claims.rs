//! What a later fact says of a call whose maker was not known when it began.

use crate::evidence::Rule;
use crate::exchange::ExId;

/// What is known of a call now.
pub(super) struct Claim {
    pub(super) call: ExId,
    pub(super) claimed: Claimed,
}

/// Whose a call was.
#[derive(Clone, Copy)]
pub(super) enum Claimed {
    /// A request's.
    By(ExId, Rule),
    /// This request's by one rule, and by another, which was asked before, that one's.
    Disputed(ExId, ExId),
    /// This request's, as was said before, or another's: its task works for several.
    Anyones(ExId),
    /// What would tell may be among what was lost.
    Lost,
    /// Whether it was this request's may be among what was lost.
    LostFrom(ExId),
}
