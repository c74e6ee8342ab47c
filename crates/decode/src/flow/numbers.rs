//! Byte numbers of one direction.

use wakepath_model::rows::RangeHow;

/// Numbers of one direction, from 32 wrapping bits to 64.
#[derive(Clone, Copy, Default)]
pub struct Numbers {
    next: Option<u64>,
    /// `next` was read beside the flow's operations, not from one: the first of them may begin before it.
    soft: bool,
    /// Bytes that the kernel side's count does not have.
    uncounted: u64,
}

impl Numbers {
    /// Sets the next byte's number from the flow's own, unless operations told it already.
    pub fn begin(&mut self, seq: u32) -> u64 {
        // far from zero, so that the other end's first sight, a little earlier or later, does not wrap below it
        *self.next.get_or_insert_with(|| {
            self.soft = true;
            (1 << 32) + u64::from(seq)
        })
    }

    /// The range of `bytes` that follow the last ones, where the kernel side could not number them.
    pub fn follow(&mut self, bytes: u64) -> (u64, u64, RangeHow) {
        let start = self.next.unwrap_or(1 << 32);
        self.next = Some(start + bytes);
        self.uncounted += bytes;
        (start, start + bytes, RangeHow::Counted)
    }

    /// The next byte's number, if known.
    pub fn next(&self) -> Option<u64> {
        self.next
    }

    /// Whether no operation was seen since its number was looked at.
    pub fn is_looked_at(&self) -> bool {
        self.soft
    }

    /// The range of `bytes` that end at `seq_end`, and how well it chains to what came before.
    pub fn moved(&mut self, seq_end: u32, bytes: u64, counted: bool) -> (u64, u64, RangeHow) {
        let seq_end = if counted { seq_end.wrapping_add(self.uncounted as u32) } else { seq_end };
        let expected = self.next.map(|n| n + bytes);
        let end = match expected {
            Some(e) => unwrap_near(e, seq_end),
            None => (1 << 32) + u64::from(seq_end),
        };
        let start = end.saturating_sub(bytes);
        let class = match self.next {
            _ if counted => RangeHow::Counted,
            None => RangeHow::Exact,
            Some(n) if n == start => RangeHow::Exact,
            // an operation from before the moment at which the state was read
            Some(n) if n > start && self.soft => {
                self.next = None;
                RangeHow::Exact
            }
            Some(n) if n < start => RangeHow::Gap,
            Some(_) => RangeHow::Overlap,
        };
        self.soft = false;
        self.next = Some(self.next.unwrap_or(0).max(end));
        (start, end, class)
    }
}

fn unwrap_near(near: u64, seq: u32) -> u64 {
    let delta = seq.wrapping_sub(near as u32) as i32;
    near.wrapping_add_signed(i64::from(delta))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_chain_over_the_wrap() {
        let mut n = Numbers::default();
        n.begin(u32::MAX - 4);
        let (s, e, c) = n.moved(5, 10, false);
        assert_eq!((e - s, c), (10, RangeHow::Exact));
        assert_eq!(e, (2 << 32) + 5);
    }

    #[test]
    fn an_operation_from_before_the_snapshot_chains() {
        let mut n = Numbers::default();
        n.begin(100);
        assert_eq!(n.moved(90, 10, false), ((1 << 32) + 80, (1 << 32) + 90, RangeHow::Exact));
        assert_eq!(n.moved(100, 10, false).2, RangeHow::Exact);
        assert_eq!(n.begin(500), (1 << 32) + 100, "a late announcement moves nothing");
        assert_eq!(n.moved(105, 5, false).2, RangeHow::Exact);
    }

    #[test]
    fn unnumbered_bytes_are_counted_on() {
        let mut n = Numbers::default();
        n.begin(0);
        n.moved(10, 10, true);
        assert_eq!(n.follow(5).1, (1 << 32) + 15);
        assert_eq!(n.moved(20, 10, true), ((1 << 32) + 15, (1 << 32) + 25, RangeHow::Counted));
    }

    #[test]
    fn a_hole_and_an_overlap_are_named() {
        let mut n = Numbers::default();
        n.begin(100);
        assert_eq!(n.moved(110, 10, false).2, RangeHow::Exact);
        assert_eq!(n.moved(130, 10, false).2, RangeHow::Gap);
        assert_eq!(n.moved(125, 10, false).2, RangeHow::Overlap);
        assert_eq!(n.moved(140, 10, false).2, RangeHow::Exact);
    }
}
