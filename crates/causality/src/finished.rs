//! What the linker inside components hands on.

use crate::evidence::{Gap, Rule};
use crate::exchange::{ExId, Exchange};
use wakepath_flows::Place;
use wakepath_model::ids::{EndpointId, MonoNs, TaskId};

/// Whose doing a call was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parent {
    /// Nobody's here: its component had no request open.
    Root,
    /// A request's.
    Of(ExId, Rule),
    /// Not known.
    Open(Gap),
    /// Not decided yet: the task is not one that takes requests.
    Pending,
}

/// A connection that did not come about.
#[derive(Clone, Copy, Debug)]
pub struct Refusal {
    /// Where it was to go.
    pub place: Place,
    /// Who tried.
    pub task: TaskId,
    /// When that was known.
    pub at: MonoNs,
    /// Why: Linux's error number, 0 = not known.
    pub error: i32,
}

/// A finished exchange, handed on.
pub struct Done {
    /// The exchange.
    pub exchange: Exchange,
    /// Calls made for it (of a server's exchange).
    pub calls: Vec<(Exchange, Rule)>,
    /// Whose doing it was (of a client's exchange).
    pub parent: Option<Gap>,
    /// It is a call that no request made.
    pub is_root_call: bool,
    /// Calls that may belong to it and could not be told.
    pub doubts: u32,
    /// The first of them, each with how many other requests could have made it.
    pub open_calls: Vec<(Exchange, u32)>,
    /// Why it is not whole, besides.
    pub gap: Option<Gap>,
    /// Announcements of flows were lost on its host before it ended.
    pub flows_lost: bool,
    /// Connections that were tried for it and did not come about, the first ones.
    pub refusals: Vec<Refusal>,
}

/// What came of all calls that watched tasks made: each is in one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Seen to begin. What a process says to itself is no call.
    pub begun: u64,
    /// In the path of the request that made them.
    pub linked: u64,
    /// Left open: several requests could have made them, or something is missing.
    pub open: u64,
    /// Made by no request that was open.
    pub own: u64,
    /// Too many of one request.
    pub beyond: u64,
}

impl Calls {
    /// Whether every call is in one class.
    pub fn are_conserved(&self) -> bool {
        self.begun == self.linked + self.open + self.own + self.beyond
    }

    /// Adds those of another host.
    pub fn add(&mut self, other: &Calls) {
        self.begun += other.begun;
        self.linked += other.linked;
        self.open += other.open;
        self.own += other.own;
        self.beyond += other.beyond;
    }
}

/// Takes what is finished, and hears of what begins.
pub trait Finished {
    /// An exchange began; `asks_only`: its process never serves anybody.
    fn began(&mut self, e: &Exchange, asks_only: bool);
    /// An exchange is finished and will not change any more.
    fn done(&mut self, d: Done);
    /// A connect failed, for this reason (Linux's error number, 0 = not known).
    fn refused(&mut self, flow: EndpointId, task: TaskId, at: MonoNs, error: i32) -> Refusal;
}
