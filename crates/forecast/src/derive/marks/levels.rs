//! What was in a queue: followed twice, first to learn what was in it at the begin and how much room it has.
//!
//! At the begin of a recording a queue's contents are not known. Each dequeue needs that they were at least so many,
//! each wait for items that they were at most so many; the least number that fits is taken. Where no number fits, one of
//! the two annotations is wrong (section 3.2).

use std::collections::VecDeque;

/// Lots of one queue that are told apart; beyond, new items join the last.
const LOTS_MAX: usize = 1 << 20;

/// What the first time through learns of a queue. Levels are relative to the unknown contents at the begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Learned {
    level: i64,
    /// Items at the begin: at least, as far as dequeues tell.
    initial: i64,
    /// At most, as far as waits tell.
    at_most: i64,
    most: i64,
    /// Most that would have been in it, had what waited for room found it.
    wanted: i64,
    pub enqueued: u64,
    pub dequeued: u64,
}

impl Learned {
    pub fn new() -> Learned {
        Learned { level: 0, initial: 0, at_most: i64::MAX, most: 0, wanted: i64::MIN, enqueued: 0, dequeued: 0 }
    }

    pub fn enqueue(&mut self, count: u64) {
        self.level = self.level.saturating_add(count as i64);
        self.most = self.most.max(self.level);
        self.enqueued = self.enqueued.saturating_add(count);
    }

    pub fn dequeue(&mut self, count: u64) {
        self.level = self.level.saturating_sub(count as i64);
        self.dequeued = self.dequeued.saturating_add(count);
        if -self.level > self.at_most {
            // more than can have been there: the second time says so
            self.initial = self.initial.max(self.at_most);
            self.level = -self.initial;
        } else {
            self.initial = self.initial.max(-self.level);
        }
    }

    pub fn wait_empty(&mut self, count: u64) {
        let at_most = (count as i64) - 1 - self.level;
        if at_most >= self.initial {
            self.at_most = self.at_most.min(at_most);
        }
    }

    pub fn wait_full(&mut self, count: u64) {
        self.wanted = self.wanted.max(self.level.saturating_add(count as i64));
    }

    /// Nothing is in it, as far as is known.
    pub fn is_empty(&self) -> bool {
        self.level.saturating_add(self.initial) <= 0
    }

    /// Somebody waited for room.
    pub fn was_full(&self) -> bool {
        self.capacity().is_some()
    }

    /// Somebody took items or waited for some.
    pub fn is_needed(&self) -> bool {
        self.dequeued > 0 || self.at_most < i64::MAX
    }

    /// Its room, where somebody waited for more than it ever held: the most that was seen in it.
    pub fn capacity(&self) -> Option<u64> {
        (self.wanted > self.most).then_some(self.most.saturating_add(self.initial()) as u64)
    }

    /// What was in it at the begin.
    pub fn initial(&self) -> i64 {
        // somebody found a queue full into which nobody had put anything: what filled it was there before
        let is_full_of_old = self.wanted > self.most && self.most.saturating_add(self.initial) <= 0;
        self.initial.max(i64::from(is_full_of_old)).max(0)
    }
}

/// Items that came together.
#[derive(Clone, Copy, Debug)]
struct Lot {
    count: u64,
    /// When; `None` = before the recording.
    at: Option<i64>,
    set: u32,
}

/// Somebody who waits for room.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    machine: u32,
    count: u64,
    /// Since when there is room for it.
    freed: Option<i64>,
}

/// What was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    /// Items that were there.
    pub count: u64,
    /// When the last of them was put in; `None` where that was before the recording.
    pub at: Option<i64>,
}

/// A queue, followed the second time.
#[derive(Clone, Debug)]
pub(super) struct Level {
    lots: VecDeque<Lot>,
    level: u64,
    capacity: Option<u64>,
    /// Nobody takes anything: what is put in need not be remembered.
    forgets: bool,
    givers: Vec<Waiting>,
}

impl Level {
    pub fn new(learned: &Learned) -> Level {
        let initial = learned.initial() as u64;
        let mut level = Level {
            lots: VecDeque::new(),
            level: initial,
            capacity: learned.capacity(),
            forgets: learned.dequeued == 0,
            givers: Vec::new(),
        };
        if initial > 0 {
            level.lots.push_back(Lot { count: initial, at: None, set: u32::MAX });
        }
        level
    }

    /// Whether it has fewer items than that.
    pub fn lacks(&self, count: u64) -> bool {
        self.level < count
    }

    /// Whether it has no room for so many.
    pub fn is_full_for(&self, count: u64) -> bool {
        self.capacity.is_some_and(|c| self.level.saturating_add(count) > c)
    }

    /// A machine begins to wait for room.
    pub fn wait_full(&mut self, machine: u32, count: u64) {
        self.givers.retain(|g| g.machine != machine);
        self.givers.push(Waiting { machine, count, freed: None });
    }

    /// Items come. Gives when there was room for them, where the machine waited for it.
    pub fn enqueue(&mut self, machine: u32, at: i64, count: u64, set: u32) -> Option<i64> {
        let mut freed = None;
        if let Some(i) = self.givers.iter().position(|g| g.machine == machine) {
            freed = self.givers.swap_remove(i).freed;
        }
        self.level = self.level.saturating_add(count);
        for i in 0..self.givers.len() {
            if self.is_full_for(self.givers[i].count) {
                self.givers[i].freed = None;
            }
        }
        if self.forgets {
            return freed;
        }
        let (is_long, lot) = (self.lots.len() >= LOTS_MAX, Lot { count, at: Some(at), set });
        match self.lots.back_mut() {
            Some(last) if is_long || last.at == lot.at && last.set == set => {
                *last = Lot { count: last.count.saturating_add(count), ..lot };
            }
            _ => self.lots.push_back(lot),
        }
        freed
    }

    /// Items go, from those that were put in first; `each` is told of their sets and counts.
    pub fn dequeue(&mut self, at: i64, count: u64, mut each: impl FnMut(u32, u64)) -> Taken {
        let mut taken = Taken::default();
        while taken.count < count
            && let Some(lot) = self.lots.front_mut()
        {
            let some = lot.count.min(count - taken.count);
            taken = Taken { count: taken.count + some, at: lot.at };
            each(lot.set, some);
            lot.count -= some;
            if lot.count == 0 {
                self.lots.pop_front();
            }
        }
        self.level = self.level.saturating_sub(taken.count);
        for i in 0..self.givers.len() {
            let Waiting { count, freed, .. } = self.givers[i];
            // the whole of what it waits for, or as much as ever fits
            let fits = !self.is_full_for(count) || self.capacity.is_some_and(|c| count > c && self.level < c);
            if freed.is_none() && fits {
                self.givers[i].freed = Some(at);
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_at_the_begin_are_the_least_that_dequeues_need_and_waits_bear() {
        let mut q = Learned::new();
        q.dequeue(1);
        q.dequeue(2);
        q.enqueue(1);
        q.dequeue(1);
        assert_eq!(q.initial(), 3);
        q.wait_empty(1);
        // nothing can have been there
        q.dequeue(1);
        assert_eq!(q.initial(), 3);
        let mut level = Level::new(&q);
        assert_eq!(level.dequeue(1, 3, |_, _| ()), Taken { count: 3, at: None });
        assert_eq!(level.dequeue(2, 1, |_, _| ()), Taken::default());
    }

    #[test]
    fn room_is_the_most_that_was_seen_where_somebody_wanted_more() {
        let mut q = Learned::new();
        q.enqueue(2);
        assert_eq!(q.capacity(), None);
        q.wait_full(1);
        assert_eq!(q.capacity(), Some(2));
        q.dequeue(1);
        q.enqueue(2);
        // it held three later, so it was not full
        assert_eq!(q.capacity(), None);
    }

    #[test]
    fn room_comes_when_the_last_item_goes_that_was_in_the_way() {
        let mut learned = Learned::new();
        learned.enqueue(4);
        learned.wait_full(2);
        learned.dequeue(4);
        let mut q = Level::new(&learned);
        q.enqueue(0, 1, 4, 0);
        assert!(q.is_full_for(2) && !q.lacks(4) && q.lacks(5));
        q.wait_full(0, 2);
        q.dequeue(5, 1, |_, _| ());
        q.dequeue(6, 1, |_, _| ());
        q.dequeue(7, 1, |_, _| ());
        assert_eq!(q.enqueue(0, 8, 2, 0), Some(6));
    }
}
