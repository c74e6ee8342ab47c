//! Tasks that read requests for others: a reactor, or an acceptor with workers.

use super::{At, Cut};
use rustc_hash::FxHashMap;
use wakepath_causality::exchange::ExchangeFlag;
use wakepath_causality::path::Request;
use wakepath_model::ids::TaskId;

/// So many requests that a task read must have been answered by others, and more than those that it answered itself.
const HANDED_MIN: u64 = 3;

/// Who answered the requests that a task read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandedOn {
    /// The requests that it read and that were answered.
    pub read: u64,
    /// Those of them that other tasks answered.
    pub by_others: u64,
}

/// All tasks that read requests.
#[derive(Default)]
pub(super) struct Readers(FxHashMap<At, HandedOn>);

impl Readers {
    /// Counts the answered parts of a request.
    pub(super) fn count(&mut self, r: &Request) {
        for half in r.spans.iter().filter_map(|s| s.callee.as_ref()) {
            let e = &half.exchange;
            let is_known = e.request.actor != TaskId::UNKNOWN && e.reply.actor != TaskId::UNKNOWN;
            if !is_known || !e.is(ExchangeFlag::Replied) {
                continue;
            }
            let of = self.0.entry((half.host, e.request.task)).or_insert(HandedOn { read: 0, by_others: 0 });
            of.read += 1;
            // another logical task on the same thread sleeps where this one does
            let is_another = e.request.actor != e.reply.actor && e.request.task != e.reply.task;
            of.by_others += u64::from(is_another);
        }
    }

    /// What is known of a task that hands on what it reads; `None` for others.
    fn hands_on(&self, at: At) -> Option<HandedOn> {
        let of = self.0.get(&at).copied()?;
        (of.by_others >= HANDED_MIN && 2 * of.by_others > of.read).then_some(of)
    }

    /// Takes requests from tasks that hand on what they read: that one of them was read last by such a task does not say that it has it.
    pub(super) fn take_from(&self, cuts: &mut [Cut]) {
        for c in cuts {
            c.flight.handed_on = c.flight.task.and_then(|at| self.hands_on(at));
            c.holders.retain(|at| self.hands_on(*at).is_none());
        }
    }
}
