//! One request at one server, as a state machine without I/O: every model drives this.

use std::sync::Arc;
use std::time::Duration;
use std::vec;

use crate::message::{self, Answer, Ask};
use crate::net;
use crate::options::{Policy, Shape};
use crate::plan::{self, Behaviour, Step};
use crate::truth::Hop;
use crate::wire::{Frame, Message};

/// What a server knows from its start.
#[derive(Debug)]
pub struct Context {
    /// The options of the run.
    pub shape: Shape,
    /// The stochastic process.
    pub behaviour: Behaviour,
    /// Own tier; the client is tier 0.
    pub tier: usize,
    /// Own number within the tier.
    pub server: usize,
    /// How bytes go.
    pub style: net::Style,
    /// How connections are used.
    pub policy: Policy,
}

impl Context {
    /// The context of a server, or with tier 0 the client's.
    pub fn new(shape: Shape, tier: usize, server: usize) -> Self {
        Self {
            behaviour: shape.behaviour(),
            style: net::Style::of(&shape),
            policy: shape.policy(),
            shape,
            tier,
            server,
        }
    }

    /// The number of workers, or the model's own default.
    pub fn workers(&self, default: usize) -> usize {
        self.shape.workers.map_or(default, |n| n as usize)
    }

    /// A call of `hop` to server `server` of the next tier.
    pub fn call(&self, ask: Ask, parent: u64, server: usize) -> Call {
        let tier = self.tier + 1;
        let body = message::ask(ask, self.behaviour.padding(ask.request, ask.hop, 1));
        let frame = self.shape.wire.request(tier, &body);
        let hop = Hop::new(ask.hop, parent, plan::component(tier, server), frame.bytes.len());
        Call { server, frame, hop }
    }
}

/// A call that shall be made.
#[derive(Debug)]
pub struct Call {
    /// Which server of the next tier.
    pub server: usize,
    /// The message.
    pub frame: Frame,
    /// The description; who sends it adds addresses and times.
    pub hop: Hop,
}

/// What a server has to do next for a request.
#[derive(Debug)]
pub enum Action {
    /// Wait so long.
    Think(Duration),
    /// Make a call and report with [`Job::answered`].
    Call(Call),
    /// Send this part upstream, then go on.
    Part(Frame),
    /// Send this upstream; then the job is done.
    Reply(Frame),
}

/// One request at one server.
#[derive(Debug)]
pub struct Job {
    context: Arc<Context>,
    ask: Ask,
    steps: vec::IntoIter<Step>,
    calls: u64,
    errors: u64,
    hops: Vec<Hop>,
    /// Hops that have gone upstream in a first part, or `None` if there was no part.
    parted: Option<usize>,
}

impl Job {
    /// A job for a request that was read; `None` if the message is not a request.
    pub fn new(context: &Arc<Context>, message: &Message) -> Option<Self> {
        let ask = message::read_ask(&message.body)?;
        let steps = context.behaviour.steps(ask.request, ask.hop, context.tier);
        Some(Self {
            context: Arc::clone(context),
            ask,
            steps: steps.into_iter(),
            calls: 0,
            errors: 0,
            hops: Vec::new(),
            parted: None,
        })
    }

    /// Goes on; busy work is done in here, by the calling thread.
    pub fn next(&mut self) -> Action {
        let context = Arc::clone(&self.context);
        let (wire, ask) = (context.shape.wire, self.ask);
        let padding = |which| context.behaviour.padding(ask.request, ask.hop, which);
        loop {
            match self.steps.next() {
                Some(Step::Work(us)) => net::work(us),
                Some(Step::Think(us)) => return Action::Think(Duration::from_micros(us)),
                Some(Step::Part) => {
                    self.parted = Some(self.hops.len());
                    return Action::Part(wire.first_part(&message::part(&self.hops, padding(2))));
                }
                Some(Step::Call(server)) => {
                    self.calls += 1;
                    let hop = plan::child_hop(ask.hop, self.calls);
                    return Action::Call(context.call(Ask { hop, ..ask }, ask.hop, server));
                }
                None => {
                    let rest = &self.hops[self.parted.unwrap_or(0)..];
                    let body = message::answer(ask, self.errors, rest, padding(3));
                    return Action::Reply(match self.parted {
                        None => wire.reply(&body),
                        Some(_) => wire.last_part(&body),
                    });
                }
            }
        }
    }

    /// Takes the outcome of the call that was asked for. Without a reply the call failed.
    pub fn answered(&mut self, hop: Hop, reply: Option<&Message>) {
        match reply.and_then(|reply| message::read_answer(&reply.body)) {
            Some(Answer { ask, errors, hops }) if ask.hop == hop.hop && ask.request == self.ask.request => {
                self.errors += errors;
                self.hops.push(hop);
                self.hops.extend(hops);
            }
            _ => {
                self.errors += 1;
                if hop.send_ns[0] != 0 {
                    self.hops.push(hop);
                }
            }
        }
    }
}
