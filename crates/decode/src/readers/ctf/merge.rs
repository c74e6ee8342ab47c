//! Which stream has the earliest event: a tree of losers, so that a step costs one comparison a level and no branch that
//! cannot be foreseen, however many streams there are.

use std::hint::select_unpredictable;

/// Streams in order of the time of their next event; of equal times the stream of the lower number is first.
#[derive(Clone, Debug, Default)]
pub(super) struct Merge {
    /// The winner at 0, at each node after it the loser of its two sides. Times since `base` are above the stream's
    /// number, so that one comparison of one word decides.
    nodes: Vec<u64>,
    base: u64,
    /// Time of each stream's next event.
    times: Vec<Option<u64>>,
}

/// A stream at its end.
const END: u64 = u64::MAX;
/// Bits of a stream's number.
const STREAM_BITS: u32 = 16;
/// Times as late as this or later (three days after the base) are told apart when they come first.
const FAR: u64 = (END >> STREAM_BITS) - 1;
/// How far streams may go back after the first one and still be told apart.
const BACK: u64 = 1 << 46;

impl Merge {
    /// From the times of each stream's first event; `None`: it has none. At most 65,536 streams.
    pub fn new(firsts: &[Option<u64>]) -> Merge {
        let mut merge = Merge { times: firsts.to_vec(), ..Merge::default() };
        merge.build();
        merge
    }

    fn key(&self, at: Option<u64>, stream: usize) -> u64 {
        at.map_or(END, |at| at.saturating_sub(self.base).min(FAR) << STREAM_BITS | stream as u64)
    }

    fn build(&mut self) {
        self.base = self.times.iter().flatten().min().map_or(0, |at| at.saturating_sub(BACK));
        let width = self.times.len().next_power_of_two();
        // winners of each node, the leaves after the nodes
        let mut winners = vec![END; 2 * width];
        for (stream, at) in self.times.iter().enumerate() {
            winners[width + stream] = self.key(*at, stream);
        }
        self.nodes = vec![END; width];
        for node in (1..width).rev() {
            let (left, right) = (winners[2 * node], winners[2 * node + 1]);
            winners[node] = left.min(right);
            self.nodes[node] = left.max(right);
        }
        self.nodes[0] = winners.get(1).copied().unwrap_or(END);
    }

    /// The stream that is first.
    #[inline]
    pub fn first(&self) -> Option<usize> {
        let first = self.nodes.first().copied().filter(|k| *k != END)?;
        Some((first & ((1 << STREAM_BITS) - 1)) as usize)
    }

    /// Its time.
    pub fn first_at(&self) -> Option<u64> {
        self.times.get(self.first()?).copied().flatten()
    }

    /// The first stream's next event is at this time; `None`: it has ended.
    #[inline]
    pub fn replace(&mut self, at: Option<u64>) {
        let Some(stream) = self.first() else { return };
        if let Some(time) = self.times.get_mut(stream) {
            *time = at;
        }
        let mut winner = self.key(at, stream);
        let mut node = (stream + self.nodes.len()) / 2;
        while node > 0 {
            let Some(loser) = self.nodes.get_mut(node) else { break };
            // a branch would be foreseen wrongly every other time
            let wins = winner < *loser;
            let (low, high) = (select_unpredictable(wins, winner, *loser), select_unpredictable(wins, *loser, winner));
            *loser = high;
            winner = low;
            node /= 2;
        }
        if let Some(first) = self.nodes.first_mut() {
            *first = winner;
        }
        if winner >= FAR << STREAM_BITS && winner != END {
            self.build();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Near each other, and anywhere.
    fn times() -> impl Strategy<Value = u64> {
        prop_oneof![0u64..50, (0u64..50).prop_map(|at| at << 45), any::<u64>()]
    }

    proptest! {
        #[test]
        fn gives_all_in_order(mut streams in prop::collection::vec(prop::collection::vec(times(), 0..20), 0..20)) {
            streams.iter_mut().for_each(|s| s.sort_unstable());
            let mut expected: Vec<(u64, usize)> =
                streams.iter().enumerate().flat_map(|(i, s)| s.iter().map(move |at| (*at, i))).collect();
            expected.sort_unstable();
            let mut left: Vec<_> = streams.iter().map(|s| s.iter().copied()).collect();
            let firsts: Vec<_> = left.iter_mut().map(Iterator::next).collect();
            let mut merge = Merge::new(&firsts);
            let mut got = Vec::new();
            while let Some((at, stream)) = merge.first_at().zip(merge.first()) {
                got.push((at, stream));
                merge.replace(left[stream].next());
            }
            prop_assert_eq!(got, expected);
        }
    }
}
