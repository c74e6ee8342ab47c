//! A turn of a loop: everything between two waits for something to do.

use wakepath_model::ids::MonoNs;
use wakepath_model::rows::PollRow;

/// Programs give time-outs in rounded milliseconds: timers may be due that much earlier (ns). A matter of the unit in which they are
/// given, not of the host's speed.
pub(crate) const ROUNDED_NS: u64 = 2_000_000;

/// The same where nobody knows which clock the program reads (ns): nginx and libevent read one that goes on with the kernel's tick alone,
/// each 4 ms where it ticks 250 times a second.
const TICK_NS: u64 = 5_000_000;

/// A turn of a loop. A poll that asks for no waiting continues it: something was put off, and is done before or after what that poll
/// gave.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turn {
    /// When its first poll returned; 0 before the loop's first one.
    pub(crate) since: MonoNs,
    /// Until when its last poll was told to wait (ns); 0 before its first one.
    pub(crate) due: u64,
    /// The library vantage hands it its inputs: it waits for the loop, by a clock without ticks.
    pub(crate) is_by_library: bool,
    /// How many things its polls found ready.
    pub(crate) ready: u32,
    /// How many requests and replies were taken.
    pub(crate) messages: u32,
}

impl Turn {
    /// A poll returned. One that waited begins the next turn, and gives the one that is over.
    pub(crate) fn polled(&mut self, r: &PollRow) -> Option<Turn> {
        let next = Turn { since: r.at, due: r.entry.0.saturating_add(r.timeout_ns), ..Turn::default() };
        let over = (r.timeout_ns != 0).then(|| std::mem::replace(self, next));
        self.ready = self.ready.saturating_add(u32::try_from(r.ready).unwrap_or(0));
        over
    }

    /// A request or reply was taken.
    pub(crate) fn takes(&mut self) {
        self.messages = self.messages.saturating_add(1);
    }

    /// Whether no timer of the loop can be due: it asked its poll to return by then.
    pub(crate) fn no_timer_due(&self, at: MonoNs) -> bool {
        let is_by_a_tick = !self.is_by_library;
        if is_by_a_tick { at.0.saturating_add(TICK_NS) < self.due } else { self.no_rounded_timer_due(at) }
    }

    /// The same of a loop that reads a clock without ticks.
    pub(crate) fn no_rounded_timer_due(&self, at: MonoNs) -> bool {
        at.0.saturating_add(ROUNDED_NS) < self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll(at: u64, timeout_ns: u64, ready: i32) -> PollRow {
        PollRow { at: MonoNs(at), entry: MonoNs(at - 1), timeout_ns, ready, ..PollRow::default() }
    }

    #[test]
    fn a_poll_that_waits_begins_the_next_turn_and_one_that_does_not_adds_to_it() {
        let mut turn = Turn::default();
        assert!(turn.polled(&poll(10, 50_000_000, 1)).is_some());
        turn.takes();
        assert!(turn.polled(&poll(20, 0, 2)).is_none());
        assert_eq!((turn.since, turn.ready, turn.messages), (MonoNs(10), 3, 1));
        assert!(turn.no_timer_due(MonoNs(40_000_000)) && !turn.no_timer_due(MonoNs(46_000_000)));
        let over = turn.polled(&poll(30, 7, 1)).expect("it waited");
        assert_eq!((over.since, over.ready, turn.since, turn.ready), (MonoNs(10), 3, MonoNs(30), 1));
    }
}
