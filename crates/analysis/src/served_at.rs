//! Where recorded servers took calls, and so which calls went to somebody who is not watched.

use crate::spans::Timed;
use rustc_hash::FxHashSet;
use wakepath_causality::exchange::ExchangeFlag;
use wakepath_causality::path::{Request, Span};
use wakepath_model::ids::HostId;

/// Most addresses of servers that are remembered; a call to another one counts as one to who is not watched.
const SERVED_AT_MAX: usize = 1 << 16;

/// Addresses at which a recorded server took a call: by the caller's host, its network namespace, the address, and the port. One that came
/// to nothing there, because the server ended before, still went to somebody who is watched.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServedAt(FxHashSet<(HostId, u32, [u8; 16], u16)>);

impl ServedAt {
    fn of(s: &Span) -> Option<(HostId, u32, [u8; 16], u16)> {
        let caller = s.caller.as_ref().filter(|c| c.place.rport != 0)?;
        Some((caller.host, caller.place.netns, caller.place.raddr, caller.place.rport))
    }

    /// Adds the servers of a request.
    pub(crate) fn learn(&mut self, r: &Request) {
        let taken = r.spans.iter().filter(|s| s.callee.is_some()).filter_map(ServedAt::of);
        self.0.extend(taken.take(SERVED_AT_MAX.saturating_sub(self.0.len())));
    }

    /// Whether a call came to nothing there. One that was answered, by whom nobody saw, went to somebody else at the same address.
    fn has(&self, s: &Span) -> bool {
        let is_unanswered = s.caller.as_ref().is_some_and(|c| !c.exchange.is(ExchangeFlag::Replied));
        is_unanswered && ServedAt::of(s).is_some_and(|at| self.0.contains(&at))
    }

    /// Whether nobody watches a span's server, nor the way to it.
    pub(crate) fn is_unwatched(&self, s: &Span, t: &Timed) -> bool {
        s.is_unwatched() && t.wire.is_none() && !self.has(s)
    }

    /// Whether a span's server may be watched, and its side cannot be told, or was not seen to take the call: its time is as its caller saw
    /// it, and may be that of others.
    pub(crate) fn is_untold(&self, s: &Span, t: &Timed) -> bool {
        s.callee.is_none() && t.wire.is_none() && !self.is_unwatched(s, t)
    }
}
