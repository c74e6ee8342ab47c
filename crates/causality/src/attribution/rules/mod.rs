//! One file a rule. Each says under which condition it holds, and the smallest case in which the condition fails and a link
//! would be wrong (`tests/golden/link.*`).
//!
//! Rules of [`EXCLUSIONS`] are asked when a call begins: who can have made it? The others ([`completion`], [`fork`],
//! [`reply`], [`awaited`]) hear of what happens later, and name whose a call was that was left open or pending.

pub(super) mod answered;
pub(super) mod awaited;
pub(super) mod completion;
pub(super) mod fork;
pub(super) mod handoff;
pub(super) mod isolated;
pub(super) mod owner;
pub(super) mod pickup;
pub(super) mod reply;
pub(super) mod rest;
pub(super) mod sole;
pub(super) mod thread;
pub(super) mod turn;
pub(super) mod unasked;
pub(super) mod waiting;

use super::candidates::{Kept, Question};
use crate::evidence::{Rule, Strength};
use crate::exchange::ExId;
use wakepath_model::ids::MonoNs;

/// A rule that excludes candidates.
#[derive(Clone, Copy)]
pub(super) struct ExclusionRule {
    /// Its file's name, as `--evidence` shows it.
    pub(super) name: &'static str,
    /// Why the others did not make the call.
    pub(super) says: &'static str,
    /// What it is worth.
    pub(super) strength: Strength,
    /// Where several name the same request, the one of the lowest rank is shown.
    pub(super) rank: u8,
    /// Whom it keeps; `None` where its condition does not hold.
    pub(super) keeps: fn(&Question) -> Option<Kept>,
    /// What a link is shown by that it made, alone or with habits.
    pub(super) names: Option<fn(&Question, Strength) -> Rule>,
    /// When what excludes a request (or, without one, the program itself) was seen; 0 where it is no moment.
    pub(super) seen_at: fn(&Question, Option<ExId>) -> MonoNs,
    /// Of a habit: how often an exception could have been seen in the process.
    pub(super) cases: Option<fn(&Question) -> u32>,
}

/// What excludes is no moment.
pub(super) const NO_MOMENT: fn(&Question, Option<ExId>) -> MonoNs = |_, _| MonoNs(0);

/// All of them, in any order.
pub(super) const EXCLUSIONS: &[ExclusionRule] = &[
    rest::RULE,
    isolated::RULE,
    thread::RULE,
    turn::RULE,
    pickup::RULE,
    handoff::RULE,
    sole::RULE,
    waiting::RULE,
    answered::RULE,
    unasked::RULE,
];
