//! Queues at work.

use super::Usual;
use crate::critical::{Node, ROOT};
use crate::outcome::QueueUse;
use crate::system::{Queue, WhenFull};
use std::collections::VecDeque;

/// Of nobody: no transaction.
pub(super) const NONE: u64 = 0;

/// Items that came together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lot {
    /// When they were put in.
    pub(super) at: f64,
    /// When the first was on its way: later where others occupied it.
    begin: f64,
    pub(super) count: u64,
    /// So many of them were taken.
    taken: u64,
    /// What led to them.
    pub(super) path: Node,
    /// What led to them from the begin of their transaction.
    pub(super) way: Node,
    /// Their transaction.
    pub(super) transaction: u64,
    /// Who put them in, with which of its steps, and what it did last.
    pub(super) giver: u64,
    pub(super) key: u64,
    pub(super) giver_place: u32,
}

impl Lot {
    /// Of `count` items put in now.
    pub(super) fn new(at: f64, count: u64) -> Lot {
        let (path, way, transaction, giver) = (ROOT, ROOT, NONE, u64::MAX);
        Lot { at, begin: at, count, taken: 0, path, way, transaction, giver, key: 0, giver_place: u32::MAX }
    }
}

/// A queue while it is replayed.
pub(super) struct Line {
    /// Most items; `u64::MAX` = any.
    pub(super) capacity: u64,
    delay: f64,
    per_item: f64,
    pub(super) when_full: WhenFull,
    /// Its items are tokens or credits: who waits for them waits for room.
    pub(super) is_tokens: bool,
    /// Its tokens are held and given back by the same machine.
    pub(super) is_held: bool,
    pub(super) usual: Usual,
    pub(super) lots: VecDeque<Lot>,
    /// Items in `lots` that nobody took.
    pub(super) inside: u64,
    /// Items that take room: `inside`, and those promised to or from somebody who is on the way.
    pub(super) occupied: u64,
    /// The way is taken until then.
    way_taken: f64,
    /// Who waits for items, and for how many.
    pub(super) takers: VecDeque<(u32, u64)>,
    /// The first of them is called when its items arrive.
    pub(super) promised: bool,
    /// Who waits for room, and for how much.
    pub(super) givers: VecDeque<(u32, u64)>,
    /// What led to the last room that was made.
    pub(super) freed: Node,
    most: u64,
    full_since: Option<f64>,
    full: f64,
    pub(super) waited_items: f64,
    pub(super) waited_room: f64,
    through: u64,
}

impl Line {
    pub(super) fn new(queue: &Queue, usual: Usual) -> Line {
        let per_item = if queue.ns_per_item > 0.0 { queue.ns_per_item } else { 0.0 };
        let mut line = Line {
            capacity: queue.capacity.unwrap_or(u64::MAX),
            delay: queue.delay_ns as f64,
            per_item,
            when_full: queue.when_full,
            is_tokens: queue.is_tokens(),
            is_held: queue.is_held(),
            usual,
            lots: VecDeque::new(),
            inside: queue.initial,
            occupied: queue.initial,
            way_taken: 0.0,
            takers: VecDeque::new(),
            promised: false,
            givers: VecDeque::new(),
            freed: ROOT,
            most: queue.initial,
            full_since: None,
            full: 0.0,
            waited_items: 0.0,
            waited_room: 0.0,
            through: 0,
        };
        if queue.initial > 0 {
            let mut lot = Lot::new(0.0, queue.initial);
            // they are there from the begin on
            lot.begin = f64::NEG_INFINITY;
            line.lots.push_back(lot);
        }
        line.note(0.0);
        line
    }

    /// Whether so many fit in now.
    pub(super) fn fits(&self, count: u64) -> bool {
        self.occupied.checked_add(count).is_some_and(|all| all <= self.capacity)
    }

    /// Room is taken for items to come.
    pub(super) fn reserve(&mut self, count: u64) {
        self.occupied += count;
        self.most = self.most.max(self.occupied);
    }

    /// Items for which room was reserved come.
    pub(super) fn put(&mut self, mut lot: Lot) {
        lot.begin = lot.at.max(self.way_taken);
        self.way_taken = lot.begin + lot.count as f64 * self.per_item;
        self.inside += lot.count;
        self.lots.push_back(lot);
    }

    /// When the next `count` items will be there, of which all are in the queue.
    pub(super) fn there_at(&self, count: u64) -> f64 {
        let mut left = count;
        for lot in &self.lots {
            let here = lot.count - lot.taken;
            if left <= here {
                return lot.begin + (lot.taken + left) as f64 * self.per_item + self.delay;
            }
            left -= here;
        }
        f64::INFINITY
    }

    /// When the last item that was taken of a lot was there.
    pub(super) fn was_there_at(&self, lot: &Lot) -> f64 {
        lot.begin + lot.taken as f64 * self.per_item + self.delay
    }

    /// Whether those items are there.
    pub(super) fn has(&self, count: u64, now: f64) -> bool {
        self.inside >= count && (self.delay == 0.0 && self.per_item == 0.0 || self.there_at(count) <= now)
    }

    /// Takes items out, of which all are there, and keeps their room; gives the lot of the last.
    pub(super) fn take(&mut self, count: u64, mut each: impl FnMut(&Lot)) -> Lot {
        let mut left = count;
        let mut last = Lot::new(0.0, 0);
        while let Some(lot) = self.lots.front_mut() {
            let some = left.min(lot.count - lot.taken);
            lot.taken += some;
            left -= some;
            last = *lot;
            each(lot);
            if lot.taken == lot.count {
                self.lots.pop_front();
            }
            if left == 0 {
                break;
            }
        }
        self.inside -= count - left;
        self.through += count - left;
        last
    }

    /// Gives room back.
    pub(super) fn free(&mut self, count: u64, path: Node) {
        self.occupied -= count.min(self.occupied);
        self.freed = path;
    }

    /// Takes down whether it is full.
    pub(super) fn note(&mut self, now: f64) {
        let is_full = match self.is_tokens {
            true => self.inside == 0 || !self.takers.is_empty(),
            false => self.capacity != u64::MAX && (self.occupied >= self.capacity || !self.givers.is_empty()),
        };
        match (is_full, self.full_since) {
            (true, None) => self.full_since = Some(now),
            (false, Some(since)) => {
                self.full += now - since;
                self.full_since = None;
            }
            _ => {}
        }
    }

    pub(super) fn report(&self, now: f64) -> QueueUse {
        let full = self.full + self.full_since.map_or(0.0, |since| now - since);
        QueueUse {
            most: self.most,
            full_ns: full.round() as u64,
            waited_items_ns: self.waited_items.round() as u64,
            waited_room_ns: self.waited_room.round() as u64,
            count: self.through,
        }
    }
}
