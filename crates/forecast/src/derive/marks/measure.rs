//! What was measured: transactions where there are some, else items that reached a machine that passes nothing on.

use super::check::Life;
use super::levels::Learned;
use crate::derived::{Block, Measured, Unit};
use wakepath_analysis::histogram::Histogram;

/// Equal parts of the recording, for how much it varies.
const BLOCKS: usize = 10;

#[derive(Clone, Copy, Default)]
struct Part {
    count: u64,
    sum_ns: u128,
}

/// Counts while marks are gone through.
pub(super) struct Tally {
    from: i64,
    to: i64,
    is_sink: Vec<bool>,
    /// Where no machine is a sink: the queue whose items count.
    queue: Option<u32>,
    items: [Part; BLOCKS],
    item_count: u64,
    transactions: [Part; BLOCKS],
    latency: Histogram,
    transaction_count: u64,
    /// From the first transaction's begin to the last's end.
    busy: Option<(i64, i64)>,
}

impl Tally {
    pub fn new((from, to): (i64, i64), lives: &[Life], queues: &[Learned]) -> Tally {
        let is_sink: Vec<bool> = lives.iter().map(Life::is_sink).collect();
        let busiest = (0u32..).zip(queues).max_by_key(|(i, q)| (q.dequeued, std::cmp::Reverse(*i))).map(|(i, _)| i);
        Tally {
            from,
            to,
            queue: busiest.filter(|_| !is_sink.contains(&true)),
            is_sink,
            items: [Part::default(); BLOCKS],
            item_count: 0,
            transactions: [Part::default(); BLOCKS],
            latency: Histogram::default(),
            transaction_count: 0,
            busy: None,
        }
    }

    fn block(&self, at: i64) -> usize {
        let (since, all) = (at.abs_diff(self.from), self.to.abs_diff(self.from).max(1));
        usize::try_from(u128::from(since) * BLOCKS as u128 / u128::from(all)).unwrap_or(BLOCKS).min(BLOCKS - 1)
    }

    /// A machine took items.
    pub fn took(&mut self, at: i64, machine: u32, queue: u32, count: u64) {
        if self.queue == Some(queue) || self.queue.is_none() && self.is_sink[machine as usize] {
            let block = self.block(at);
            self.items[block].count += count;
            self.item_count += count;
        }
    }

    /// A transaction ended.
    pub fn ended(&mut self, begun: i64, at: i64) {
        let (ns, block) = (at.abs_diff(begun), self.block(at));
        self.latency.add(ns);
        self.transaction_count += 1;
        self.transactions[block].count += 1;
        self.transactions[block].sum_ns += u128::from(ns);
        let (from, to) = self.busy.unwrap_or((begun, at));
        self.busy = Some((from.min(begun), to.max(at)));
    }

    /// What it comes to.
    pub fn measured(self) -> Measured {
        let elapsed_ns = self.to.abs_diff(self.from);
        let (unit, count, parts, elapsed_ns) = match self.busy {
            Some((from, to)) => (Unit::Requests, self.transaction_count, self.transactions, to.abs_diff(from)),
            None => (Unit::Items, self.item_count, self.items, elapsed_ns),
        };
        let length = self.to.abs_diff(self.from) / BLOCKS as u64;
        let mean = |p: &Part| if p.count == 0 { 0.0 } else { p.sum_ns as f64 / p.count as f64 };
        let block = |p: &Part| Block { count: p.count, elapsed_ns: length, mean_ns: mean(p) };
        let blocks = if length == 0 { Vec::new() } else { parts.iter().map(block).collect() };
        Measured { unit, count, elapsed_ns, latency: self.latency, blocks }
    }
}
