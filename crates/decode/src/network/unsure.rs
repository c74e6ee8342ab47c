//! Whether the order of replies can be trusted, in a flow of which bytes may be hidden.

/// How many times a flow has to go back and forth, with nothing outstanding in between, until its order is believed.
const ROUNDS: u32 = 16;

/// After so long a silence with nothing outstanding, nothing hidden is outstanding either.
const SILENCE_NS: u64 = 2_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing is hidden.
    Sure,
    /// Requests may be hidden behind the `left` ones that are still answered in order; `trial`: as far as that was known.
    Blind { left: usize, trial: bool },
    /// A request came first after the server had spoken. If its sender waits for replies, the order holds.
    Trial {
        /// Times that the flow went back and forth since.
        rounds: u32,
        /// Most requests outstanding since.
        peak: usize,
    },
}

/// What a new request means for the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// It holds, as before.
    Holds,
    /// It begins anew with this request.
    Begins,
    /// It held for long enough: it is no longer on trial.
    Proven,
    /// It is not known whose reply comes next.
    Unknown,
}

/// How far the order of one flow is trusted.
#[derive(Debug)]
pub(super) struct Trust {
    state: State,
    /// Most requests that were ever outstanding.
    peak: usize,
    /// Times in a row that no second request was sent before the reply.
    serial: u32,
    /// Requests were outstanding together since the flow last turned with none outstanding.
    together: bool,
    /// Messages were hidden since then.
    hidden: bool,
    /// The longest that an exchange took, ns.
    longest_ns: u64,
    /// Requests so far.
    requests: u64,
}

impl Trust {
    /// Of a flow. `whole`: nothing that was said before is hidden.
    pub fn new(whole: bool) -> Trust {
        let state = if whole { State::Sure } else { State::Blind { left: 0, trial: false } };
        Trust { state, peak: 1, serial: 0, together: false, hidden: false, longest_ns: 0, requests: 0 }
    }

    /// Nothing is hidden.
    pub fn sure(&self) -> bool {
        self.state == State::Sure
    }

    /// What is paired now may turn out to be wrong.
    pub fn on_trial(&self) -> bool {
        matches!(self.state, State::Trial { .. } | State::Blind { trial: true, .. })
    }

    /// Whatever comes next, of the order on trial nothing more can be known.
    pub fn trial_is_over(&self) -> bool {
        matches!(self.state, State::Blind { trial: true, .. })
    }

    /// The flow ends: whether what is on trial is believed. Not where the client was seen to send more at a time than since
    /// the trial began, nor where something was hidden again and this was not the flow's only request.
    pub fn holds_at_end(&self) -> bool {
        match self.state {
            State::Sure => true,
            State::Blind { trial, .. } => !trial || self.requests <= 1,
            State::Trial { peak, .. } => peak >= self.peak,
        }
    }

    /// The next reply in order answers the oldest request that is known.
    pub fn pairs(&self) -> bool {
        !matches!(self.state, State::Blind { left: 0, .. })
    }

    /// A request comes after `silent_ns`. `first`: the first since the server spoke. `outstanding`: known ones before it.
    pub fn request(&mut self, first: bool, outstanding: usize, silent_ns: u64) -> Order {
        self.requests += 1;
        let drained = outstanding == 0;
        let round = first && drained;
        if round {
            // Rounds in which something was hidden prove nothing.
            self.serial = if self.together { 0 } else { self.serial + u32::from(!self.hidden) };
            (self.together, self.hidden) = (false, false);
        } else {
            (self.together, self.serial) = (true, 0);
        }
        let silent = drained && silent_ns >= self.silence_ns();
        let order = match &mut self.state {
            State::Sure => Order::Holds,
            _ if silent => {
                self.state = State::Sure;
                Order::Proven
            }
            State::Blind { left: 0, .. } if round => {
                self.state = if self.serial > ROUNDS { State::Sure } else { State::Trial { rounds: 0, peak: 1 } };
                return Order::Begins;
            }
            // Its round is not the flow's: others may be outstanding.
            State::Blind { .. } => return Order::Unknown,
            State::Trial { rounds, peak } => {
                *peak = (*peak).max(outstanding + 1);
                *rounds += u32::from(round);
                // A client that was seen to send several at a time may have others outstanding all the time.
                if *rounds < ROUNDS || *peak < self.peak {
                    Order::Holds
                } else {
                    self.state = State::Sure;
                    Order::Proven
                }
            }
        };
        self.peak = self.peak.max(outstanding + 1);
        order
    }

    /// A reply was paired by order.
    pub fn answered(&mut self) {
        if let State::Blind { left, .. } = &mut self.state {
            *left = left.saturating_sub(1);
        }
    }

    /// An exchange took so long.
    pub fn took(&mut self, ns: u64) {
        self.longest_ns = self.longest_ns.max(ns);
    }

    /// Requests may begin unseen from here on; `waiting` are known and not answered.
    pub fn requests_hidden(&mut self, waiting: usize) {
        self.hidden = true;
        self.state = match self.state {
            State::Sure => State::Blind { left: waiting, trial: false },
            State::Blind { left, trial } => State::Blind { left: left.min(waiting), trial },
            State::Trial { .. } => State::Blind { left: waiting, trial: true },
        };
    }

    /// Replies may begin unseen from here on.
    pub fn replies_hidden(&mut self) {
        self.hidden = true;
        self.state = State::Blind { left: 0, trial: false };
    }

    /// Whether `silent_ns` with nothing outstanding proves that nothing hidden is.
    pub fn silence_proves(&self, silent_ns: u64) -> bool {
        !self.sure() && silent_ns >= self.silence_ns()
    }

    /// Nothing is hidden any more.
    pub fn proven(&mut self) {
        self.state = State::Sure;
    }

    fn silence_ns(&self) -> u64 {
        SILENCE_NS.max(self.longest_ns.saturating_mul(4))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_joined_in_the_middle_is_on_trial_for_some_rounds() {
        let mut trust = Trust::new(false);
        assert!(!trust.pairs());
        assert_eq!(trust.request(true, 0, 0), Order::Begins);
        for _ in 1..ROUNDS {
            assert_eq!(trust.request(true, 0, 0), Order::Holds);
            assert!(trust.on_trial());
        }
        assert_eq!(trust.request(true, 0, 0), Order::Proven);
        assert!(trust.sure());
    }

    #[test]
    fn a_client_that_always_waited_begins_again_at_once() {
        let mut trust = Trust::new(true);
        (0..=ROUNDS).for_each(|_| assert_eq!(trust.request(true, 0, 0), Order::Holds));
        trust.replies_hidden();
        assert_eq!(trust.request(true, 0, 0), Order::Begins);
        assert!(trust.sure());
    }

    #[test]
    fn one_that_did_not_wait_has_to_show_as_many_together_again() {
        let mut trust = Trust::new(true);
        assert_eq!(trust.request(true, 0, 0), Order::Holds);
        assert_eq!(trust.request(false, 1, 0), Order::Holds);
        trust.requests_hidden(2);
        assert!(trust.pairs());
        trust.answered();
        trust.answered();
        assert!(!trust.pairs());
        assert_eq!(trust.request(false, 0, 0), Order::Unknown);
        for _ in 0..100 {
            assert_ne!(trust.request(true, 0, 0), Order::Proven);
        }
        assert_eq!(trust.request(false, 1, 0), Order::Proven);
    }

    #[test]
    fn a_long_silence_proves_that_nothing_is_outstanding() {
        let mut trust = Trust::new(false);
        assert_eq!(trust.request(true, 0, SILENCE_NS), Order::Proven);
        trust.took(SILENCE_NS);
        trust.replies_hidden();
        assert!(!trust.silence_proves(3 * SILENCE_NS));
        assert!(trust.silence_proves(4 * SILENCE_NS));
    }
}
