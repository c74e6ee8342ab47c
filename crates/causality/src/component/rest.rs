//! Processes that the library vantage gave an input when all of their tasks had come to rest: what any task does until
//! the next is for that input.

use super::Component;
use crate::exchange::{ExId, Slab};
use crate::finished::Finished;
use crate::worker::TIMER_GRAIN_NS;
use wakepath_model::ids::{EndpointId, MonoNs, TaskId};
use wakepath_model::rows::{InputRow, input};

/// The last input of a process that had come to rest.
#[derive(Clone, Copy)]
pub(super) struct Rest {
    /// Its flow, and what was accepted since.
    flows: [EndpointId; 2],
    /// The request that it is of, once that is known.
    of: Option<ExId>,
    /// Inputs of two requests were taken from that flow: nobody knows which is gone on with.
    is_mixed: bool,
    /// When the first timer of the loop that took it can be due, in ns.
    until: u64,
}

impl<F: Finished> Component<'_, F> {
    /// An input was handed over, or a process goes on with something else.
    pub(super) fn given_at_rest(&mut self, xs: &Slab, r: &InputRow) {
        let process = self.roles.process_of(r.task);
        if r.kind == input::ELSE {
            self.rests.remove(&process);
        }
        if r.isolated < 2 {
            return;
        }
        let is_of = |x: &&ExId| self.is_open(xs, **x) && xs.get(**x).flow == r.flow;
        let of = match self.owners.get(&r.flow) {
            _ if r.kind != input::WRITE => None,
            Some(&(x, _)) => Some(x),
            // a reply is on its way there
            None => {
                self.open.get(&process).and_then(|o| o.iter().filter(is_of).min_by_key(|x| xs.get(**x).number)).copied()
            }
        };
        let until = if self.last_poll.0 == r.task { self.last_poll.1 } else { 0 };
        let rest = Rest { flows: [r.flow, EndpointId(0)], of, is_mixed: false, until };
        self.rests.insert(process, rest);
    }

    /// A task took something of a request from `flow`; `None` where nobody knows of which.
    pub(super) fn took_at_rest(&mut self, task: TaskId, flow: EndpointId, x: Option<ExId>) {
        let process = self.roles.process_of(task);
        if let Some(r) = self.rests.get_mut(&process).filter(|r| r.flows.contains(&flow)) {
            r.is_mixed |= x.is_none() || r.of.is_some() && r.of != x;
            r.of = x;
        }
    }

    /// A connection was accepted.
    pub(super) fn accepted_at_rest(&mut self, task: TaskId, flow: EndpointId) {
        if let Some(r) = self.rests.get_mut(&self.roles.process_of(task)) {
            r.flows[1] = flow;
        }
    }

    /// The request for which all is done in a process, where the input's request is the only one that could be gone on
    /// with: what was done for it may set free what another one waits for inside the program.
    pub(super) fn at_rest(&self, xs: &Slab, process: u32, at: MonoNs) -> Option<ExId> {
        let r = self.rests.get(&process)?;
        let x = r.of.filter(|&x| !r.is_mixed && self.is_open(xs, x))?;
        if at.0.saturating_add(TIMER_GRAIN_NS) >= r.until {
            return None;
        }
        let waits = |y: &ExId| *y != x && !Self::is_over_softly(xs, *y);
        let open = self.open.get(&process)?;
        (!self.in_court(xs, open).iter().any(waits)).then_some(x)
    }
}
