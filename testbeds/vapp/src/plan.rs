//! The stochastic choices: which steps a server takes for a request.
//!
//! A choice depends on the seed, the request and the hop only, never on time or threads. So one seed gives the same
//! trees in every server model, and the client can work out what a correct answer must contain.

use std::fmt;
use std::str::FromStr;

/// Hop ids are hexadecimal paths: the n-th call made for hop `p` is `p * HOP_BASE + n`, the client being hop 0.
pub const HOP_BASE: u64 = 16;
/// The most calls one server may make for one request, so that a hop id keeps one digit a level.
pub const MAX_CALLS: u64 = HOP_BASE - 1;
/// The most tiers: one hexadecimal digit a level, and ids stay exact in JSON readers that use doubles.
pub const MAX_TIERS: usize = 13;

/// The id of the `n`-th call (from 1) made while working on hop `parent`.
pub fn child_hop(parent: u64, n: u64) -> u64 {
    debug_assert!((1..=MAX_CALLS).contains(&n));
    parent * HOP_BASE + n
}

/// A server's name, as used for the command name and in the truth: `t2s1`.
pub fn component(tier: usize, server: usize) -> String {
    format!("t{tier}s{}", server + 1)
}

/// An inclusive range of whole numbers, written `A..B` or `A`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Smallest value.
    pub low: u64,
    /// Largest value.
    pub high: u64,
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |part: &str| {
            part.parse::<u64>().map_err(|_| format!("`{text}` is neither a number nor a range like 0..500"))
        };
        let (low, high) = match text.split_once("..") {
            Some((low, high)) => (number(low)?, number(high)?),
            None => (number(text)?, number(text)?),
        };
        if low > high {
            return Err(format!("`{text}` is an empty range"));
        }
        Ok(Self { low, high })
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.low, self.high)
    }
}

/// SplitMix64: small, seedable by a tuple, good enough for choices.
#[derive(Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator for one combination of seed values.
    pub fn new(parts: &[u64]) -> Self {
        let mut rng = Self(0x57a6_b1c3_0d5e_94f7);
        for part in parts {
            rng.0 ^= *part;
            rng.0 = rng.next();
        }
        rng
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn chance(&mut self, probability: f64) -> bool {
        ((self.next() >> 11) as f64) < probability * (1u64 << 53) as f64
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// A number in `span`, ends included.
    pub fn within(&mut self, span: Span) -> u64 {
        span.low + self.next() % (span.high - span.low + 1)
    }
}

/// One thing a server does for a request; after the last one it replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Wait so many microseconds without using a processor.
    Think(u64),
    /// Use a processor for so many microseconds.
    Work(u64),
    /// Send what there is of the reply upstream; more follows.
    Part,
    /// Send a request to this server (from 0) of the next tier.
    Call(usize),
}

/// The parameters of the stochastic process.
#[derive(Clone, Debug)]
pub struct Behaviour {
    /// Seed of all choices.
    pub seed: u64,
    /// Number of tiers.
    pub tiers: usize,
    /// Servers in each tier.
    pub servers: usize,
    /// Probability of (another) downstream call at each decision.
    pub depth_prob: f64,
    /// Most downstream calls a server makes for one request.
    pub max_calls: u64,
    /// Probability, at each call, that a first part of the reply is sent before it.
    pub partial: f64,
    /// Think time at each decision, in microseconds.
    pub think_us: Span,
    /// Busy work at each decision, in microseconds.
    pub work_us: Span,
    /// Padding bytes in each message.
    pub payload: Span,
}

impl Behaviour {
    /// What a server of `tier` does for `hop` of `request`.
    pub fn steps(&self, request: u64, hop: u64, tier: usize) -> Vec<Step> {
        let mut rng = Rng::new(&[self.seed, request, hop]);
        let mut steps = Vec::new();
        let mut parted = false;
        for calls in 0..=self.max_calls {
            match rng.within(self.think_us) {
                0 => {}
                us => steps.push(Step::Think(us)),
            }
            match rng.within(self.work_us) {
                0 => {}
                us => steps.push(Step::Work(us)),
            }
            if tier >= self.tiers || calls == self.max_calls || !rng.chance(self.depth_prob) {
                break;
            }
            let part = rng.chance(self.partial);
            if part && !parted {
                steps.push(Step::Part);
                parted = true;
            }
            steps.push(Step::Call(rng.below(self.servers)));
        }
        steps
    }

    /// The server (from 0) of the first tier that the client asks for this number (a request or a session).
    pub fn front(&self, number: u64) -> usize {
        Rng::new(&[self.seed, number, 0]).below(self.servers)
    }

    /// Padding for one message of a hop.
    pub fn padding(&self, request: u64, hop: u64, which: u64) -> usize {
        Rng::new(&[self.seed, request, hop, which]).within(self.payload) as usize
    }

    /// Hop, parent and component of everything below (and with) `hop` at server `server` of `tier`, in calling order.
    pub fn expected(&self, request: u64, hop: u64, tier: usize, server: usize, out: &mut Vec<(u64, u64, String)>) {
        out.push((hop, hop / HOP_BASE, component(tier, server)));
        let mut calls = 0;
        for step in self.steps(request, hop, tier) {
            if let Step::Call(next) = step {
                calls += 1;
                self.expected(request, child_hop(hop, calls), tier + 1, next, out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn behaviour() -> Behaviour {
        Behaviour {
            seed: 1,
            tiers: 3,
            servers: 2,
            depth_prob: 0.6,
            max_calls: 4,
            partial: 0.2,
            think_us: Span { low: 0, high: 500 },
            work_us: Span { low: 0, high: 200 },
            payload: Span::default(),
        }
    }

    #[test]
    fn spans() {
        assert_eq!("3..9".parse(), Ok(Span { low: 3, high: 9 }));
        assert_eq!("7".parse(), Ok(Span { low: 7, high: 7 }));
        assert!("9..3".parse::<Span>().is_err());
        assert!("a..3".parse::<Span>().is_err());
    }

    #[test]
    fn choices_repeat_and_respect_their_limits() {
        let behaviour = behaviour();
        let (mut calls, mut parts) = (0, 0);
        for request in 1..2000 {
            let steps = behaviour.steps(request, 1, 1);
            assert_eq!(steps, behaviour.steps(request, 1, 1));
            let count = steps.iter().filter(|s| matches!(s, Step::Call(_))).count();
            assert!(count <= 4);
            calls += count;
            parts += steps.iter().filter(|s| matches!(s, Step::Part)).count();
            assert!(behaviour.steps(request, 1, 3).iter().all(|s| !matches!(s, Step::Call(_))));
            if let Some(at) = steps.iter().position(|s| matches!(s, Step::Part)) {
                assert!(matches!(steps[at + 1], Step::Call(_)));
            }
        }
        // 0.6 + 0.36 + 0.216 + 0.1296 = 1.3 calls on average
        assert!((2400..2800).contains(&calls), "{calls}");
        assert!(parts > 300, "{parts}");
    }

    #[test]
    fn expected_tree_has_unique_hops_whose_parents_come_first() {
        let behaviour = behaviour();
        for request in 1..200 {
            let mut hops = Vec::new();
            behaviour.expected(request, 1, 1, 0, &mut hops);
            let mut seen = std::collections::HashSet::from([0]);
            for (hop, parent, _) in hops {
                assert!(seen.contains(&parent));
                assert!(seen.insert(hop));
            }
        }
    }
}
