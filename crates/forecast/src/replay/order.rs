//! Whether items came to another, or in another order, than in another replay.

use crate::system::QueueId;
use rustc_hash::FxHashMap;

/// Samples that are kept at most; where there were more items, [`Order::changed`] is an estimate.
const SAMPLES: usize = 1 << 16;

/// Who took what after what: a sample of the items that went through queues.
#[derive(Clone, Debug, Default)]
pub struct Order {
    queues: Vec<Handed>,
    /// Of the items, those whose key begins with so many zero bits are kept.
    zeros: u32,
    /// An item's key, its queue, and who took it, after which other.
    taken: FxHashMap<u64, (QueueId, u64)>,
}

/// What a queue's items were like until now.
#[derive(Clone, Copy, Debug, Default)]
struct Handed {
    /// Who gave and took the first.
    pair: Option<(u64, u64)>,
    /// Others gave or took as well: where nobody did, there is one order only.
    is_mixed: bool,
    items: u64,
    /// The last item's key.
    last: u64,
}

/// Mixes numbers so that each bit depends on all: two rounds of multiplication.
pub(super) fn mix(a: u64, b: u64) -> u64 {
    let mut h = a.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ b.wrapping_add(0x2545_f491_4f6c_dd1d);
    h = (h ^ (h >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    h = (h ^ (h >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    h ^ (h >> 32)
}

impl Order {
    pub(super) fn new(queues: usize) -> Order {
        Order { queues: vec![Handed::default(); queues], ..Order::default() }
    }

    /// An item goes from one to another; its key says who put it in with which step.
    pub(super) fn add(&mut self, queue: QueueId, key: u64, giver: u64, taker: u64) {
        let handed = &mut self.queues[queue.index()];
        let pair = *handed.pair.get_or_insert((giver, taker));
        handed.is_mixed |= pair != (giver, taker);
        handed.items += 1;
        let after = std::mem::replace(&mut handed.last, key);
        if key.leading_zeros() < self.zeros {
            return;
        }
        self.taken.insert(key, (queue, mix(taker, after)));
        if self.taken.len() > SAMPLES {
            self.zeros += 1;
            let zeros = self.zeros;
            self.taken.retain(|key, _| key.leading_zeros() >= zeros);
        }
    }

    /// How many items were taken by another or after another than in `before`: exact as long as there are few, an
    /// estimate from a sample where there are many.
    pub fn changed(&self, before: &Order) -> u64 {
        let zeros = self.zeros.max(before.zeros);
        let is_mixed = |queue: usize| {
            let of = |order: &Order| order.queues.get(queue).is_some_and(|q| q.is_mixed);
            of(self) || of(before)
        };
        let items = self.queues.iter().enumerate().filter(|&(i, _)| is_mixed(i)).map(|(_, q)| q.items).sum::<u64>();
        let (mut both, mut other) = (0u64, 0u64);
        let sampled =
            self.taken.iter().filter(|(key, (queue, _))| key.leading_zeros() >= zeros && is_mixed(queue.index()));
        for (key, how) in sampled {
            if let Some(was) = before.taken.get(key) {
                both += 1;
                other += u64::from(was != how);
            }
        }
        match both {
            0 => 0,
            _ if items == both => other,
            _ => (items as f64 * other as f64 / both as f64).round() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_items_are_told_exactly_and_many_about() {
        for (items, swapped) in [(10u64, 2u64), (1_000_000, 250_000)] {
            let (mut one, mut other) = (Order::new(2), Order::new(2));
            for item in 0..items {
                // of a queue between two there is nothing to tell
                one.add(QueueId(1), mix(item, 8), 0, 0);
                other.add(QueueId(1), mix(item, 8), 0, 0);
                one.add(QueueId(0), mix(item, 7), 1, item % 3);
                other.add(QueueId(0), mix(item, 7), 1, if item < swapped { 9 } else { item % 3 });
            }
            let changed = other.changed(&one);
            assert!(changed.abs_diff(swapped) <= swapped / 20, "{changed} of {items}");
            assert_eq!(one.changed(&one.clone()), 0);
            assert!(one.taken.len() <= SAMPLES);
        }
    }
}
