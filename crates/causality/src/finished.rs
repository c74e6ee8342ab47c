//! What the linker inside components hands on.

use crate::evidence::{Gap, Rule};
use crate::exchange::{ExId, Exchange};
use wakepath_flows::Place;
use wakepath_model::ids::{EndpointId, MonoNs, TaskId};
use wakepath_model::rows::{EndpointRow, SniffedExchangeRow, SniffedFlowRow};

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
    /// From when it was asked for until it was known that it would not come.
    pub tried: (MonoNs, MonoNs),
    /// Why: Linux's error number, 0 = not known.
    pub error: i32,
}

/// A connect that failed, as the linker inside components knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The endpoint that was to be connected.
    pub flow: EndpointId,
    /// Who tried.
    pub task: TaskId,
    /// From when it was asked for until it was known that it would not come.
    pub tried: (MonoNs, MonoNs),
    /// Why: Linux's error number, 0 = not known.
    pub error: i32,
    /// Where a request waited for it, its number among those of the host: the request's [`Done::refusals`] will name it.
    pub number: Option<u64>,
}

/// A finished exchange, handed on.
#[derive(Clone, Debug)]
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
    /// Connections that were tried for it and did not come about, the first ones: [`Refused::number`].
    pub refusals: Vec<u64>,
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

/// Takes what one host's linker finds, in its order: everything that is needed to join hosts ([`crate::path`]).
pub trait Finished {
    /// Operations were lost in these intervals of the host's clock (ns). Comes before all steps.
    fn lost(&mut self, intervals: &[(u64, u64)]);
    /// The ends of a pipe, or of a pair of sockets, on which processes talk. Comes before all steps.
    fn channel(&mut self, r: &EndpointRow);
    /// What follows was made of a row of this time, or of one that came late.
    fn at(&mut self, _: MonoNs) {}
    /// The next row of `endpoints` was read.
    fn endpoint(&mut self, r: &EndpointRow);
    /// The next row of `sniffed_flows` was read.
    fn sniffed_flow(&mut self, r: &SniffedFlowRow);
    /// The next row of `sniffed_exchanges` was read.
    fn sniffed_exchange(&mut self, r: &SniffedExchangeRow);
    /// A flow is over; `sent_to`: where all that it sent ends, 0 = not known.
    fn over(&mut self, flow: EndpointId, sent_to: u64);
    /// Nothing more can come on a flow since `at`.
    fn gone(&mut self, flow: EndpointId, at: MonoNs);
    /// Time went on to `at`.
    fn tick(&mut self, at: MonoNs);
    /// An exchange began; `asks_only`: its process never serves anybody.
    fn began(&mut self, e: &Exchange, asks_only: bool);
    /// An exchange is finished and will not change any more.
    fn done(&mut self, d: Done);
    /// A connect failed.
    fn refused(&mut self, r: Refused);
    /// All rows of the host were read: what follows is given since the recording is over.
    fn read_all(&mut self) {}
}
