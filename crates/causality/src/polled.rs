//! What a loop's polls gave it since it last waited for something to do.

use wakepath_model::ids::MonoNs;
use wakepath_model::rows::PollRow;

/// Programs give time-outs in rounded milliseconds: timers may be due that much earlier (ns). A matter of the unit in which they are
/// given, not of the host's speed.
pub(crate) const TIMER_GRAIN_NS: u64 = 2_000_000;

/// What a loop's polls gave it since its last one that waited. A poll that asks for no waiting continues the turn: something
/// was put off, and is done before or after what that poll gave.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Polled {
    /// When the first timer of the loop can be due (ns); 0 before its first poll.
    pub(crate) due: u64,
    /// How many things its polls found ready.
    pub(crate) ready: u32,
    /// How many requests and replies were taken.
    pub(crate) messages: u32,
}

impl Polled {
    /// What begins when a poll that waited returns; what it found ready is not counted yet.
    pub(crate) fn begin(r: &PollRow) -> Polled {
        Polled { due: r.entry.0.saturating_add(r.timeout_ns), ready: 0, messages: 0 }
    }

    /// What a poll found ready.
    pub(crate) fn found(&mut self, r: &PollRow) {
        self.ready = self.ready.saturating_add(u32::try_from(r.ready).unwrap_or(0));
    }

    /// A request or reply was taken.
    pub(crate) fn takes(&mut self) {
        self.messages = self.messages.saturating_add(1);
    }

    /// Whether no timer of the loop can be due: it asked its poll to return by then.
    pub(crate) fn no_timer_due(&self, at: MonoNs) -> bool {
        at.0.saturating_add(TIMER_GRAIN_NS) < self.due
    }
}
