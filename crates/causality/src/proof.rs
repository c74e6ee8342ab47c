//! How a link is known, step by step: who could have made a call, and what excluded each of them.
//!
//! Proofs are not kept: they are derived again for the calls that somebody asks about ([`crate::Options::explain`]).

use crate::conditions::Condition;
use crate::evidence::{Gap, Rule, Strength};
use crate::exchange::Exchange;
use wakepath_model::ids::{EndpointId, MonoNs, TaskId};

/// Who may have made a call.
#[derive(Clone, Debug)]
pub enum Candidate {
    /// This request of the same process, as far as it had come when the call began.
    Request(Box<Exchange>),
    /// The program itself: a timer, a refresh, a health check.
    Own,
    /// A request that was under way before the recording began.
    Before,
}

/// A rule excluded a candidate.
#[derive(Clone, Debug)]
pub struct Excluded {
    /// The rule's name: the file that has its condition.
    pub rule: &'static str,
    /// Why it did not make the call.
    pub says: &'static str,
    /// What that is worth.
    pub strength: Strength,
    /// When what says so was seen, in the host's clock; 0 where it is no moment.
    pub at: MonoNs,
    /// Of a habit: how often the process could have shown an exception, and did not. 0 where not counted.
    pub cases: u32,
}

/// A candidate and all that speaks against it; nothing does where it may have made the call.
#[derive(Clone, Debug)]
pub struct Considered {
    /// Who.
    pub candidate: Candidate,
    /// Each rule that excludes it, strongest first.
    pub excluded: Vec<Excluded>,
}

/// What was made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The one candidate that was left made it.
    Linked(Rule),
    /// The process opened the connection for that request.
    Owned(Rule),
    /// No request that was open.
    Own,
    /// Several are left, or something is missing.
    Open(Gap),
    /// Not decided when the call began: what its task did later tells.
    Later,
}

/// Who could have made a call, and what was made of that.
#[derive(Clone, Debug)]
pub struct Proof {
    /// The call's flow.
    pub flow: EndpointId,
    /// Its first byte.
    pub start: u64,
    /// The task that made it.
    pub task: TaskId,
    /// When it began.
    pub at: MonoNs,
    /// Those who could have made it; at most [`CANDIDATES_MAX`].
    pub candidates: Vec<Considered>,
    /// How many more there were.
    pub more: u32,
    /// What was made of it when it began.
    pub outcome: Outcome,
    /// The rule by which something that came later named the request, and when that was.
    pub later: Option<(Rule, MonoNs)>,
    /// Conditions of rules that did not hold: of those that were asked when it began, and of those that hear of it later.
    pub failed: Vec<Condition>,
}

impl Proof {
    /// Whether nothing named the request when the call began.
    pub fn is_undecided(&self) -> bool {
        matches!(self.outcome, Outcome::Open(_) | Outcome::Later)
    }
}

/// Most candidates that one proof names.
pub const CANDIDATES_MAX: usize = 64;
