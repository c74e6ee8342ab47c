//! What is kept of the messages between two hosts.

use super::hull::{Hull, Point};

/// Hulls are kept for so many parts of the time, so that clocks that are not linear can be fitted piece by piece.
pub const CELLS: usize = 64;

/// How many messages went between two hosts, first to second and back, and what came of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MessageCounts {
    /// Messages matched from the first to the second, and back.
    pub messages: [u64; 2],
    /// The same, by what they were recognised (in the order of [`super::sighting::Evidence::ALL`]).
    pub evidence: [u64; 4],
    /// Messages left out, since no clock puts them in order with the others ([`super::outliers`]).
    pub rejected: u64,
    /// Least delay after synchronisation, by direction (ns).
    pub delay_min_ns: [Option<i64>; 2],
    /// Messages that the result inverts.
    pub inversions: u64,
}

/// What is kept of the messages between two hosts: first from the lower to the higher number, then back.
pub(super) struct PairPoints {
    pub hulls: [Vec<Hull>; 2],
    pub counts: MessageCounts,
    /// Messages that an earlier fit inverted: direction, times on the coarse line.
    pub inverted: Vec<(usize, i64, i64)>,
}

impl Default for PairPoints {
    fn default() -> PairPoints {
        let hulls = || vec![Hull::default(); CELLS];
        PairPoints { hulls: [hulls(), hulls()], counts: MessageCounts::default(), inverted: Vec::new() }
    }
}

impl PairPoints {
    /// Corners of the hull of one of so many pieces.
    pub fn corners(&mut self, direction: usize, piece: usize, pieces: usize) -> Vec<Point> {
        let cells = CELLS / pieces;
        let mut all = Hull::default();
        self.hulls[direction][piece * cells..(piece + 1) * cells].iter().for_each(|h| all.merge(h));
        all.corners().to_vec()
    }
}

/// A correction at a time: on the line through the knots, continued at the ends.
pub(super) fn correction_at(knots: &[i64], corrections: &[f64], x: i64) -> f64 {
    let piece = knots.partition_point(|k| *k <= x).saturating_sub(1).min(knots.len() - 2);
    let part = (x - knots[piece]) as f64 / (knots[piece + 1] - knots[piece]) as f64;
    corrections[piece] + part * (corrections[piece + 1] - corrections[piece])
}
