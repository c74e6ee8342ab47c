//! What actors do with queues, and transactions.

use super::Source;
use super::actor::{Does, Stuck};
use super::engine::{Engine, Observe, Open};
use super::order::mix;
use super::queue::{Lot, NONE};
use crate::critical::ROOT;
use crate::outcome::Place;
use crate::system::{KindId, NOT_SEEN, QueueId, WhenFull, retry_ns};

impl<S: Source, O: Observe> Engine<'_, S, O> {
    /// A step that takes items; whether it got them at once.
    pub(super) fn take(&mut self, slot: u32, queue: QueueId, count: u64, latency: u64) -> bool {
        let Some(line) = self.queues.get_mut(queue.index()) else {
            self.stuck(slot, Stuck::Unknown("queue"));
            return false;
        };
        if count == 0 {
            return true;
        }
        let actor = &mut self.actors[slot as usize];
        actor.since = self.now;
        if line.takers.is_empty() && line.has(count, self.now) {
            let lot = self.take_out(slot, queue, count);
            if self.options.path && self.queues[queue.index()].is_held {
                // where it is held from, should it be waited for
                let actor = &mut self.actors[slot as usize];
                let place = self.places.number(Place::Full(queue));
                actor.path = self.paths.push(actor.path, place, actor.root, 0, 0.0);
            }
            self.follow(slot, queue, &lot, self.now, false);
            self.free_room(slot, queue, count);
            self.settle(queue);
            return true;
        }
        actor.does = Does::Takes { queue, count, latency };
        line.takers.push_back((slot, count));
        self.settle(queue);
        false
    }

    /// A step that puts items in; whether there was room at once.
    pub(super) fn give(&mut self, slot: u32, queue: QueueId, count: u64, latency: u64) -> bool {
        let Some(line) = self.queues.get_mut(queue.index()) else {
            self.stuck(slot, Stuck::Unknown("queue"));
            return false;
        };
        if count > line.capacity {
            self.stuck(slot, Stuck::TooMuch { queue, count });
            return false;
        }
        if count == 0 {
            return true;
        }
        let actor = &mut self.actors[slot as usize];
        actor.since = self.now;
        if line.givers.is_empty() && line.fits(count) {
            line.reserve(count);
            self.observer.gave(queue, count, (actor.place, self.now));
            self.put(slot, queue, count);
            self.settle(queue);
            return true;
        }
        match line.when_full {
            WhenFull::Wait => {
                actor.does = Does::Gives { queue, count, latency };
                line.givers.push_back((slot, count));
                self.settle(queue);
            }
            WhenFull::Retry { first_ns, linear } => {
                actor.does = Does::Retries { queue, count, refused: 1 };
                self.retrying += 1;
                self.wake_at(slot, self.now + retry_ns(first_ns, linear, 1));
            }
        }
        false
    }

    /// Who found no room tries again.
    pub(super) fn retry(&mut self, slot: u32, queue: QueueId, count: u64, refused: u32) {
        let line = &mut self.queues[queue.index()];
        let actor = &mut self.actors[slot as usize];
        if !line.fits(count) {
            let WhenFull::Retry { first_ns, linear } = line.when_full else { return };
            let refused = refused.saturating_add(1);
            self.in_vain += 1;
            actor.does = Does::Retries { queue, count, refused };
            let next = self.now + retry_ns(first_ns, linear, refused);
            if !next.is_finite() {
                self.retrying -= 1;
            }
            return self.wake_at(slot, next);
        }
        self.in_vain = 0;
        self.retrying -= 1;
        line.reserve(count);
        let waited = self.now - actor.since;
        line.waited_room += waited;
        self.observer.gave(queue, count, (actor.place, actor.since));
        self.spend(slot, self.places.number(Place::Full(queue)), waited);
        self.put(slot, queue, count);
        self.resume(slot);
        self.settle(queue);
    }

    /// Puts items in for which room is reserved.
    pub(super) fn put(&mut self, slot: u32, queue: QueueId, count: u64) {
        let actor = &self.actors[slot as usize];
        let mut lot = Lot::new(self.now, count);
        lot.path = actor.path;
        lot.way = actor.way;
        lot.transaction = actor.transaction;
        lot.giver = actor.whose;
        lot.key = mix(actor.whose, u64::from(actor.script.0) << 32 ^ actor.position);
        lot.giver_place = actor.place;
        self.queues[queue.index()].put(lot);
    }

    /// An actor that took items gives their room back.
    pub(super) fn free_room(&mut self, slot: u32, queue: QueueId, count: u64) {
        let actor = &self.actors[slot as usize];
        self.queues[queue.index()].free(count, actor.path);
        self.observer.freed(queue, count, actor.place, self.now);
    }

    /// Lets in, and lets have, whoever waits first in line and can be.
    pub(super) fn settle(&mut self, queue: QueueId) {
        loop {
            let line = &mut self.queues[queue.index()];
            if let Some(&(slot, count)) = line.takers.front()
                && !line.promised
                && line.inside >= count
            {
                let at = line.there_at(count);
                if at <= self.now {
                    line.takers.pop_front();
                    self.serve(slot, queue, count);
                    continue;
                }
                if at.is_finite() {
                    line.promised = true;
                    self.events.push(at, super::events::Due::Supply(queue.0));
                }
            }
            if let Some(&(slot, count)) = line.givers.front()
                && line.fits(count)
            {
                line.givers.pop_front();
                self.admit(slot, queue, count);
                continue;
            }
            return line.note(self.now);
        }
    }

    /// What waited for items gets them; its path is that of the items.
    fn serve(&mut self, slot: u32, queue: QueueId, count: u64) {
        let lot = self.take_out(slot, queue, count);
        let line = &mut self.queues[queue.index()];
        let actor = &mut self.actors[slot as usize];
        let Does::Takes { latency, .. } = actor.does else { return };
        let latency = if latency == NOT_SEEN { line.usual.items_ns } else { latency } as f64;
        line.waited_items += self.now + latency - actor.since;
        if self.options.path {
            let (way, queue) = (self.now - lot.at, queue);
            let queued = self.places.number(Place::Queue(queue));
            // on its way it is still the giver's
            let giver = self.paths.actor(lot.path).unwrap_or(actor.root);
            actor.path = if line.is_tokens {
                let way = if way > 0.0 { self.paths.push(lot.path, queued, giver, 1, way) } else { lot.path };
                self.paths.push(way, self.places.number(Place::Full(queue)), actor.root, 1, latency)
            } else {
                self.paths.push(lot.path, queued, giver, 1, way + latency)
            };
        }
        self.follow(slot, queue, &lot, self.now + latency, true);
        if latency == 0.0 {
            self.free_room(slot, queue, count);
            self.resume(slot);
        } else {
            self.actors[slot as usize].does = Does::Took { queue, count };
            self.wake_at(slot, self.now + latency);
        }
    }

    /// Who waited for room goes in; its path is that of who made room.
    fn admit(&mut self, slot: u32, queue: QueueId, count: u64) {
        let line = &mut self.queues[queue.index()];
        let actor = &mut self.actors[slot as usize];
        let Does::Gives { latency, .. } = actor.does else { return };
        let latency = if latency == NOT_SEEN { line.usual.room_ns } else { latency } as f64;
        line.reserve(count);
        let waited = self.now + latency - actor.since;
        line.waited_room += waited;
        let place = self.places.number(Place::Full(queue));
        if self.options.path {
            actor.path = self.paths.push(line.freed, place, actor.root, 1, latency);
        }
        if actor.transaction != NONE {
            actor.way = self.ways.push(actor.way, place, actor.root, 1, waited);
        }
        self.observer.gave(queue, count, (actor.place, actor.since));
        if latency == 0.0 {
            self.put(slot, queue, count);
            self.resume(slot);
        } else {
            actor.does = Does::Gave { queue, count };
            self.wake_at(slot, self.now + latency);
        }
    }

    /// Takes items that are there out of a queue.
    fn take_out(&mut self, slot: u32, queue: QueueId, count: u64) -> Lot {
        let line = &mut self.queues[queue.index()];
        let actor = &self.actors[slot as usize];
        let lot = line.take(count, |lot| self.order.add(queue, lot.key, lot.giver, actor.whose));
        let there_at = line.was_there_at(&lot);
        self.observer.took(queue, (actor.place, actor.since), (lot.giver_place, there_at));
        lot
    }

    /// A transaction goes on with its item, or with the actor that waited. What an actor that began a transaction itself
    /// takes from others is not its transaction; tokens are nobody's.
    fn follow(&mut self, slot: u32, queue: QueueId, lot: &Lot, done: f64, waited: bool) {
        let is_tokens = self.queues[queue.index()].is_tokens;
        let actor = &mut self.actors[slot as usize];
        let is_own = actor.begun.last().is_some_and(|t| self.open.contains_key(t));
        let follows = !is_tokens
            && lot.transaction != NONE
            && (lot.transaction == actor.transaction || !is_own)
            && self.open.contains_key(&lot.transaction);
        if follows {
            actor.transaction = lot.transaction;
            actor.way = self.ways.push(lot.way, self.places.number(Place::Queue(queue)), actor.root, 1, done - lot.at);
        } else if waited && actor.transaction != NONE {
            let place = if is_tokens { Place::Full(queue) } else { Place::Queue(queue) };
            actor.way = self.ways.push(actor.way, self.places.number(place), actor.root, 1, done - actor.since);
        }
    }

    /// A transaction begins.
    pub(super) fn begin(&mut self, slot: u32, kind: KindId) -> bool {
        if kind.index() >= self.kinds.len() {
            self.stuck(slot, Stuck::Unknown("kind of transactions"));
            return false;
        }
        let actor = &mut self.actors[slot as usize];
        // what others have ended
        while actor.begun.pop_if(|t| !self.open.contains_key(t)).is_some() {}
        if actor.begun.is_empty() {
            actor.way = ROOT;
        }
        self.transactions_begun += 1;
        let transaction = self.transactions_begun;
        actor.begun.push(transaction);
        actor.transaction = transaction;
        self.open.insert(transaction, Open { kind, at: self.now, from: actor.way });
        let (_, last) = self.span.unwrap_or((self.now, self.now));
        self.span = Some((self.span.map_or(self.now, |(first, _)| first), last));
        true
    }

    /// A transaction ends: that which the actor began last, or else that on whose behalf it works.
    pub(super) fn end(&mut self, slot: u32) -> bool {
        let actor = &mut self.actors[slot as usize];
        while actor.begun.pop_if(|t| !self.open.contains_key(t)).is_some() {}
        let transaction = actor.begun.pop().unwrap_or(actor.transaction);
        let way = actor.way;
        actor.transaction = actor.begun.last().copied().unwrap_or(NONE);
        if actor.transaction == NONE {
            actor.way = ROOT;
        }
        let Some(open) = self.open.remove(&transaction) else { return true };
        self.transactions_ended += 1;
        if let Some((_, last)) = &mut self.span {
            *last = self.now;
        }
        let kind = &mut self.kinds[open.kind.index()];
        kind.latency.add((self.now - open.at).round() as u64);
        self.ways.sums(way, open.from, |place, (ns, count)| {
            let sum = kind.sums.entry(place).or_default();
            sum.0 += ns;
            sum.1 += count;
        });
        true
    }
}
