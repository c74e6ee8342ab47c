//! Which stream has the earliest event: a tree of losers, so that a step costs one comparison a level and no branch that
//! cannot be foreseen, however many streams there are.

/// Streams in order of the time of their next event; of equal times the stream of the lower number is first.
#[derive(Clone, Debug, Default)]
pub(super) struct Merge {
    /// The winner at 0, at each node behind it the loser of its two sides. Times are above the stream's number, so that
    /// one comparison decides.
    nodes: Vec<u128>,
}

/// A stream at its end.
const END: u128 = u128::MAX;

fn key(at: Option<u64>, stream: usize) -> u128 {
    at.map_or(END, |at| u128::from(at) << 32 | stream as u128)
}

impl Merge {
    /// From the times of each stream's first event; `None`: it has none.
    pub fn new(firsts: &[Option<u64>]) -> Merge {
        let width = firsts.len().next_power_of_two();
        // winners of each node, the leaves behind the nodes
        let mut winners = vec![END; 2 * width];
        for (stream, at) in firsts.iter().enumerate() {
            winners[width + stream] = key(*at, stream);
        }
        let mut nodes = vec![END; width];
        for node in (1..width).rev() {
            let (left, right) = (winners[2 * node], winners[2 * node + 1]);
            winners[node] = left.min(right);
            nodes[node] = left.max(right);
        }
        nodes[0] = winners.get(1).copied().unwrap_or(END);
        Merge { nodes }
    }

    /// Time and number of the stream that is first.
    #[inline]
    pub fn first(&self) -> Option<(u64, usize)> {
        let first = self.nodes.first().copied().filter(|k| *k != END)?;
        Some(((first >> 32) as u64, first as u32 as usize))
    }

    /// The first stream's next event is at this time; `None`: it has ended.
    #[inline]
    pub fn replace(&mut self, at: Option<u64>) {
        let Some((_, stream)) = self.first() else { return };
        let mut winner = key(at, stream);
        let mut node = (stream + self.nodes.len()) / 2;
        while node > 0 {
            let Some(loser) = self.nodes.get_mut(node) else { break };
            let (low, high) = (winner.min(*loser), winner.max(*loser));
            *loser = high;
            winner = low;
            node /= 2;
        }
        if let Some(first) = self.nodes.first_mut() {
            *first = winner;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn gives_all_in_order(mut streams in prop::collection::vec(prop::collection::vec(0u64..50, 0..20), 0..20)) {
            streams.iter_mut().for_each(|s| s.sort_unstable());
            let mut expected: Vec<(u64, usize)> =
                streams.iter().enumerate().flat_map(|(i, s)| s.iter().map(move |at| (*at, i))).collect();
            expected.sort_unstable();
            let mut left: Vec<_> = streams.iter().map(|s| s.iter().copied()).collect();
            let firsts: Vec<_> = left.iter_mut().map(Iterator::next).collect();
            let mut merge = Merge::new(&firsts);
            let mut got = Vec::new();
            while let Some((at, stream)) = merge.first() {
                got.push((at, stream));
                merge.replace(left[stream].next());
            }
            prop_assert_eq!(got, expected);
        }
    }
}
