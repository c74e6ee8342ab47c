//! The simulation's main loop and what actors do by themselves.

use super::actor::{Actor, Does, Stuck};
use super::events::{Due, Events};
use super::order::Order;
use super::queue::{Line, NONE};
use super::station::{Server, Serves};
use super::{Options, Source};
use crate::critical::{Node, Paths, Places, ROOT};
use crate::outcome::{Outcome, Place};
use crate::system::{KindId, QueueId, Runs, ScriptId, StateId, StationId, Step, System};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use wakepath_analysis::histogram::Histogram;

/// Is told what is handed over. Places are numbers of [`Places`], `u32::MAX` where nothing was done yet.
pub(crate) trait Observe {
    /// Somebody who had done `own.0` and was at the queue at `own.1` takes items that came from `theirs.0` and were
    /// there at `theirs.1`.
    fn took(&mut self, _queue: QueueId, _own: (u32, f64), _theirs: (u32, f64)) {}
    /// Room for so many was made by who had done `place`.
    fn freed(&mut self, _queue: QueueId, _count: u64, _place: u32, _now: f64) {}
    /// Somebody who had done `own.0` and was at the queue at `own.1` takes room for so many.
    fn gave(&mut self, _queue: QueueId, _count: u64, _own: (u32, f64)) {}
}

impl Observe for () {}

/// A transaction that is under way.
pub(super) struct Open {
    pub(super) kind: KindId,
    pub(super) at: f64,
    /// The way at its begin.
    pub(super) from: Node,
}

/// What became of a kind of transactions.
#[derive(Default)]
pub(super) struct Kind {
    pub(super) latency: Histogram,
    pub(super) sums: FxHashMap<u32, (f64, u64)>,
}

/// A replay under way.
pub(crate) struct Engine<'a, S: Source, O: Observe> {
    pub(super) system: &'a System,
    source: &'a mut S,
    pub(super) observer: &'a mut O,
    pub(super) options: &'a Options,
    pub(super) places: Places,
    pub(super) now: f64,
    pub(super) events: Events,
    /// Who goes on now.
    pub(super) ready: VecDeque<u32>,
    pub(super) actors: Vec<Actor>,
    free: Vec<u32>,
    pub(super) queues: Vec<Line>,
    pub(super) stations: Vec<Server>,
    /// When each shared station is done with its next work.
    station_next: Vec<f64>,
    /// The first of those, and which.
    soonest: (f64, usize),
    /// Done with their work at the moment.
    done: Vec<u32>,
    /// Actors by start, where the system has them in another order.
    by_start: Option<Vec<u32>>,
    begun: usize,
    /// Shared scripts that were taken.
    shared: u64,
    /// The same of each crowd, and how many of its clients have begun.
    crowds: Vec<(u64, u32)>,
    pub(super) paths: Paths,
    pub(super) ways: Paths,
    pub(super) open: FxHashMap<u64, Open>,
    pub(super) transactions_begun: u64,
    pub(super) transactions_ended: u64,
    pub(super) span: Option<(f64, f64)>,
    pub(super) kinds: Vec<Kind>,
    pub(super) order: Order,
    /// What led to the last end of an actor.
    pub(super) last: Node,
    pub(super) has_ended: bool,
    pub(super) retrying: usize,
    /// Retries since anything else happened.
    pub(super) in_vain: usize,
    pub(super) steps: u64,
    pub(super) is_cut: bool,
}

impl<'a, S: Source, O: Observe> Engine<'a, S, O> {
    pub(crate) fn new(system: &'a System, source: &'a mut S, observer: &'a mut O, options: &'a Options) -> Self {
        let line = |(i, queue)| Line::new(queue, source.usual(QueueId(i as u32)));
        let queues: Vec<Line> = system.queues.iter().enumerate().map(line).collect();
        for (i, queue) in system.queues.iter().enumerate() {
            let room = queue.capacity.map_or(u64::MAX, |c| c.saturating_sub(queue.initial));
            observer.freed(QueueId(i as u32), room, u32::MAX, 0.0);
        }
        let is_sorted = system.actors.is_sorted_by_key(|a| a.start_ns);
        let by_start = (!is_sorted).then(|| {
            let mut order: Vec<u32> = (0..system.actors.len() as u32).collect();
            order.sort_by_key(|&i| system.actors[i as usize].start_ns);
            order
        });
        Engine {
            system,
            source,
            observer,
            options,
            places: Places::of(system),
            now: 0.0,
            events: Events::default(),
            ready: VecDeque::new(),
            actors: Vec::new(),
            free: Vec::new(),
            queues,
            stations: system.stations.iter().map(Server::new).collect(),
            station_next: vec![f64::INFINITY; system.stations.len()],
            soonest: (f64::INFINITY, 0),
            done: Vec::new(),
            by_start,
            begun: 0,
            shared: 0,
            crowds: vec![(0, 0); system.crowds.len()],
            paths: Paths::new(system, true, options.window),
            ways: Paths::new(system, false, options.window),
            open: FxHashMap::default(),
            transactions_begun: 0,
            transactions_ended: 0,
            span: None,
            kinds: system.kinds.iter().map(|_| Kind::default()).collect(),
            order: Order::new(system.queues.len()),
            last: ROOT,
            has_ended: false,
            retrying: 0,
            in_vain: 0,
            steps: 0,
            is_cut: false,
        }
    }

    /// Runs to the end.
    pub(crate) fn run(mut self) -> Outcome {
        loop {
            while let Some(slot) = self.ready.pop_front() {
                self.go(slot);
                if self.is_cut {
                    return self.report();
                }
            }
            let arrival = self.next_start();
            let (station_at, station) = self.soonest;
            let event_at = self.events.next_at();
            if station_at.is_finite() && station_at <= event_at && station_at <= arrival {
                self.in_vain = 0;
                self.now = station_at;
                self.finish_shared(station);
            } else if event_at <= arrival
                && let Some((at, due)) = self.events.pop()
            {
                self.now = at;
                match due {
                    Due::Wake(slot) => self.wake(slot),
                    Due::Supply(queue) => {
                        self.in_vain = 0;
                        self.queues[queue as usize].promised = false;
                        self.settle(QueueId(queue));
                    }
                }
                if self.is_hopeless(arrival) {
                    return self.report();
                }
            } else if arrival.is_finite() {
                self.in_vain = 0;
                self.now = arrival;
                self.start();
            } else {
                return self.report();
            }
        }
    }

    /// Nothing is left but retries, and all were in vain.
    fn is_hopeless(&self, arrival: f64) -> bool {
        self.in_vain > self.retrying
            && self.events.len() == self.retrying
            && self.ready.is_empty()
            && self.soonest.0.is_infinite()
            && arrival.is_infinite()
    }

    fn next_actor(&self) -> Option<u32> {
        match &self.by_start {
            Some(order) => order.get(self.begun).copied(),
            None => (self.begun < self.system.actors.len()).then_some(self.begun as u32),
        }
    }

    fn next_start(&self) -> f64 {
        self.next_actor().map_or(f64::INFINITY, |i| self.system.actors[i as usize].start_ns as f64)
    }

    /// The next actor begins.
    fn start(&mut self) {
        let Some(index) = self.next_actor() else { return };
        self.begun += 1;
        let slot = self.slot(index);
        match self.system.actors[index as usize].runs {
            Runs::Script(script) => {
                self.actors[slot as usize].script = script;
                self.resume(slot);
            }
            Runs::Shared => {
                let crowd = self.crowds.iter().zip(&self.system.crowds).position(|(c, of)| c.1 < of.clients);
                if let Some(c) = crowd.and_then(|at| self.crowds.get_mut(at)) {
                    c.1 += 1;
                }
                let actor = &mut self.actors[slot as usize];
                (actor.is_shared, actor.crowd) = (true, crowd.unwrap_or(0) as u32);
                self.next_shared(slot);
            }
        }
    }

    /// A slot for an actor.
    fn slot(&mut self, root: u32) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.actors.push(Actor::none());
            self.actors.len() as u32 - 1
        });
        self.actors[slot as usize].reset(root);
        slot
    }

    /// An actor goes on with its next step, after those that are to go on before.
    pub(super) fn resume(&mut self, slot: u32) {
        self.actors[slot as usize].does = Does::Runs;
        self.ready.push_back(slot);
    }

    /// An actor goes on at a time to come; never where that is no time.
    pub(super) fn wake_at(&mut self, slot: u32, at: f64) {
        if at.is_finite() {
            self.events.push(at, Due::Wake(slot));
        } else {
            self.actors[slot as usize].does = Does::Stuck(Stuck::Forever);
        }
    }

    /// An actor can never go on.
    pub(super) fn stuck(&mut self, slot: u32, why: Stuck) {
        let actor = &mut self.actors[slot as usize];
        actor.does = Does::Stuck(why);
        actor.since = self.now;
    }

    /// The place in the list of what a client of a crowd takes next; `None` where there is nothing more.
    fn take_shared(&mut self, crowd: usize) -> Option<usize> {
        let rounds = u64::from(self.system.rounds.max(1));
        let all = |list: usize| (list as u64).saturating_mul(rounds);
        let Some(of) = self.system.crowds.get(crowd) else {
            let list = self.system.shared.len();
            return (self.shared < all(list)).then(|| (self.shared % list as u64) as usize);
        };
        let (first, own) = (self.crowds.first()?.0, self.crowds.get(crowd)?.0);
        let is_over = first >= all(self.system.crowds.first()?.takes.len());
        if is_over || of.takes.is_empty() || (own >= all(of.takes.len()) && !of.stays) {
            return None;
        }
        self.crowds.get_mut(crowd)?.0 += 1;
        of.takes.get((own % of.takes.len() as u64) as usize).map(|&at| at as usize)
    }

    fn next_shared(&mut self, slot: u32) {
        let taken = self.take_shared(self.actors[slot as usize].crowd as usize);
        let Some(&(script, pause)) = taken.and_then(|at| self.system.shared.get(at)) else { return self.ended(slot) };
        let actor = &mut self.actors[slot as usize];
        actor.whose = self.system.actors.len() as u64 + self.shared;
        self.shared += 1;
        actor.script = script;
        actor.position = 0;
        actor.since = self.now;
        actor.does = Does::Pauses;
        if pause == 0 {
            self.resume(slot);
        } else {
            self.wake_at(slot, self.now + pause as f64);
        }
    }

    fn wake(&mut self, slot: u32) {
        let does = self.actors[slot as usize].does;
        if !matches!(does, Does::Retries { .. }) {
            self.in_vain = 0;
        }
        match does {
            Does::Pauses => self.resume(slot),
            Does::Works { state, .. } => {
                if let Some(station) = self.system.states[state.index()].station {
                    self.served(slot, station);
                }
                self.worked(slot);
            }
            Does::Took { queue, count } => {
                self.free_room(slot, queue, count);
                self.resume(slot);
                self.settle(queue);
            }
            Does::Gave { queue, count } => {
                self.put(slot, queue, count);
                self.resume(slot);
                self.settle(queue);
            }
            Does::Retries { queue, count, refused } => self.retry(slot, queue, count, refused),
            _ => {}
        }
    }

    /// Does an actor's steps until it has to wait.
    fn go(&mut self, slot: u32) {
        loop {
            if self.paths.is_due() {
                self.fold_paths();
            }
            if self.ways.is_due() {
                self.fold_ways();
            }
            if self.steps >= self.options.steps_max {
                self.is_cut = true;
                return;
            }
            let actor = &mut self.actors[slot as usize];
            let script = actor.script;
            if script.index() >= self.system.scripts.len() {
                return self.stuck(slot, Stuck::Unknown("script"));
            }
            let Some(step) = self.source.step(script, actor.position) else {
                return match actor.is_shared {
                    true => self.next_shared(slot),
                    false => self.ended(slot),
                };
            };
            actor.position += 1;
            self.steps += 1;
            let goes_on = match step {
                Step::Work { state, ns } => self.work(slot, state, ns),
                Step::Enqueue { queue, count, latency_ns } => self.give(slot, queue, count, latency_ns),
                Step::Dequeue { queue, count, latency_ns } => self.take(slot, queue, count, latency_ns),
                Step::Fork { script } => self.fork(slot, script),
                Step::Join => {
                    let waits = actor.forked > 0;
                    if waits {
                        actor.does = Does::Joins;
                        actor.since = self.now;
                    }
                    !waits
                }
                Step::Begin { kind } => self.begin(slot, kind),
                Step::End => self.end(slot),
            };
            if !goes_on {
                return;
            }
        }
    }

    /// A step of work; whether it is done already.
    fn work(&mut self, slot: u32, state: StateId, ns: u64) -> bool {
        let Some(of) = self.system.states.get(state.index()) else {
            self.stuck(slot, Stuck::Unknown("state"));
            return false;
        };
        let actor = &mut self.actors[slot as usize];
        actor.place = self.places.number(Place::State(state));
        if ns == 0 {
            return true;
        }
        let ns = ns as f64;
        actor.since = self.now;
        actor.does = Does::Works { state, ns };
        let Some(station) = of.station else {
            self.wake_at(slot, self.now + ns);
            return false;
        };
        let Some(server) = self.stations.get_mut(station.index()) else {
            self.stuck(slot, Stuck::Unknown("station"));
            return false;
        };
        let own = ns / server.speed;
        actor.does = Does::Works { state, ns: own };
        match &mut server.serves {
            Serves::All => self.wake_at(slot, self.now + own),
            Serves::Fifo { free: 0, line } => line.push_back(slot),
            Serves::Fifo { free, .. } => {
                *free -= 1;
                self.wake_at(slot, self.now + own);
            }
            Serves::Shared(shared) => {
                let used = shared.add(self.now, server.speed, slot, ns);
                server.used(used);
                self.update(station.index());
            }
        }
        false
    }

    /// A shared station's next work is to be reckoned again.
    fn update(&mut self, station: usize) {
        let server = &self.stations[station];
        let Serves::Shared(shared) = &server.serves else { return };
        let at = shared.next_at(server.speed);
        self.station_next[station] = at;
        if at < self.soonest.0 {
            self.soonest = (at, station);
        } else if station == self.soonest.1 {
            let soonest = self.station_next.iter().copied().enumerate().min_by(|(_, a), (_, b)| a.total_cmp(b));
            self.soonest = soonest.map_or((f64::INFINITY, 0), |(i, at)| (at, i));
        }
    }

    fn finish_shared(&mut self, station: usize) {
        let mut done = std::mem::take(&mut self.done);
        done.clear();
        let server = &mut self.stations[station];
        let speed = server.speed;
        if let Serves::Shared(shared) = &mut server.serves {
            let used = shared.finish(self.now, speed, |slot| done.push(slot));
            server.used(used);
        }
        self.update(station);
        for &slot in &done {
            self.worked(slot);
        }
        self.done = done;
    }

    /// A server that serves one after the other is free again.
    fn served(&mut self, slot: u32, station: StationId) {
        let Does::Works { ns, .. } = self.actors[slot as usize].does else { return };
        let server = &mut self.stations[station.index()];
        server.used(ns);
        let Serves::Fifo { free, line } = &mut server.serves else { return };
        let Some(next) = line.pop_front() else {
            *free += 1;
            return;
        };
        if let Does::Works { ns, .. } = self.actors[next as usize].does {
            self.wake_at(next, self.now + ns);
        }
    }

    /// An actor is done with its work: its own part and what it waited for a server go to its path.
    fn worked(&mut self, slot: u32) {
        let actor = &self.actors[slot as usize];
        let Does::Works { state, ns } = actor.does else { return };
        let took = self.now - actor.since;
        let mut waited = took - ns;
        // what rounding leaves is no waiting
        if waited < NOISE_NS {
            waited = 0.0;
        }
        let place = self.places.number(Place::State(state));
        self.spend(slot, place, took - waited);
        if waited > 0.0
            && let Some(station) = self.system.states[state.index()].station
        {
            self.stations[station.index()].waited(waited);
            self.spend(slot, self.places.number(Place::Station(station)), waited);
        }
        self.resume(slot);
    }

    /// An actor's path, and its transaction's, go on at a place.
    pub(super) fn spend(&mut self, slot: u32, place: u32, ns: f64) {
        let actor = &mut self.actors[slot as usize];
        if self.options.path {
            actor.path = self.paths.push(actor.path, place, actor.root, 1, ns);
        }
        if actor.transaction != NONE {
            actor.way = self.ways.push(actor.way, place, actor.root, 1, ns);
        }
    }

    fn fork(&mut self, slot: u32, script: ScriptId) -> bool {
        let parent = &self.actors[slot as usize];
        // deeper than there are scripts, one of them is among its own forks
        if parent.depth as usize >= self.system.scripts.len() {
            self.stuck(slot, Stuck::Recursion);
            return false;
        }
        let child = self.slot(parent.root);
        let parent = &mut self.actors[slot as usize];
        parent.forked += 1;
        let (path, way, transaction, whose, depth, place) =
            (parent.path, parent.way, parent.transaction, parent.whose, parent.depth + 1, parent.place);
        let actor = &mut self.actors[child as usize];
        *actor = Actor {
            script,
            parent: Some(slot),
            path,
            way,
            transaction,
            whose,
            depth,
            place,
            ..std::mem::replace(actor, Actor::none())
        };
        self.resume(child);
        true
    }

    /// An actor has done all of its script.
    fn ended(&mut self, slot: u32) {
        let actor = &mut self.actors[slot as usize];
        let (path, way, transaction, parent) = (actor.path, actor.way, actor.transaction, actor.parent);
        self.last = path;
        self.has_ended = true;
        if actor.forked > 0 {
            actor.does = Does::Ended;
        } else {
            self.release(slot);
        }
        let Some(parent) = parent else { return };
        let waiting = &mut self.actors[parent as usize];
        waiting.forked -= 1;
        if waiting.forked > 0 {
            return;
        }
        match waiting.does {
            Does::Joins => {
                waiting.path = path;
                if waiting.transaction == transaction {
                    waiting.way = way;
                }
                self.resume(parent);
            }
            Does::Ended => self.release(parent),
            _ => {}
        }
    }

    fn release(&mut self, slot: u32) {
        self.actors[slot as usize].does = Does::Gone;
        self.free.push(slot);
    }

    fn fold_paths(&mut self) {
        self.paths.begin_fold();
        let live = |a: &&mut Actor| a.does != Does::Gone;
        self.actors.iter_mut().filter(live).for_each(|a| self.paths.mark(a.path));
        for queue in &self.queues {
            self.paths.mark(queue.freed);
            queue.lots.iter().for_each(|lot| self.paths.mark(lot.path));
        }
        self.paths.mark(self.last);
        self.paths.fold();
        self.actors.iter_mut().filter(live).for_each(|a| a.path = self.paths.moved(a.path));
        for queue in &mut self.queues {
            queue.freed = self.paths.moved(queue.freed);
            queue.lots.iter_mut().for_each(|lot| lot.path = self.paths.moved(lot.path));
        }
        self.last = self.paths.moved(self.last);
    }

    fn fold_ways(&mut self) {
        self.ways.begin_fold();
        let live = |a: &&mut Actor| a.does != Does::Gone;
        self.actors.iter_mut().filter(live).for_each(|a| self.ways.mark(a.way));
        let lots = self.queues.iter().flat_map(|q| &q.lots);
        lots.for_each(|lot| self.ways.mark(lot.way));
        self.open.values().for_each(|open| self.ways.mark(open.from));
        self.ways.fold();
        self.actors.iter_mut().filter(live).for_each(|a| a.way = self.ways.moved(a.way));
        let lots = self.queues.iter_mut().flat_map(|q| &mut q.lots);
        lots.for_each(|lot| lot.way = self.ways.moved(lot.way));
        self.open.values_mut().for_each(|open| open.from = self.ways.moved(open.from));
    }
}

/// Less than this (ns) is what rounding leaves.
const NOISE_NS: f64 = 1e-3;
