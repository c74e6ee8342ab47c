//! What the linker inside components hands on.

use crate::evidence::{Hole, Rule};
use crate::exchange::{ExId, Exchange};
use crate::pairs::Place;
use wakepath_model::ids::{EndpointId, MonoNs, TaskId};

/// Whose doing a call was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parent {
    /// Nobody's here: its component had no request open.
    Root,
    /// A request's.
    Of(ExId, Rule),
    /// Not known.
    Open(Hole),
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
    pub parent: Option<Hole>,
    /// It is a call that nobody's request made.
    pub is_root_call: bool,
    /// Calls that may belong to it and could not be told.
    pub doubts: u32,
    /// Why it is not whole, besides.
    pub hole: Option<Hole>,
    /// Announcements of flows were lost on its host before it ended.
    pub flows_lost: bool,
    /// Connections that were tried for it and did not come about, the first ones.
    pub refusals: Vec<Refusal>,
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
