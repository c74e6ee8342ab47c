//! Slack: how much later, or slower, something may be before it matters; and what would be if a place were not there.
//!
//! The slack of an edge of the dependence graph is by how much what it brings could be later without making whom it
//! comes to later (after Hollingsworth and Miller's and Fields' measures of that name). Where two things have to come
//! together at a queue, one of the two edges has none. How much *faster* a place has to be until it no longer matters
//! cannot be read off one run; replays tell ([`matters_until`]).

use crate::critical::Places;
use crate::outcome::{Outcome, Place};
use crate::replay::{Observe, Options, replay, replay_observed};
use crate::system::{Queue, QueueId, Runs, System};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use wakepath_analysis::histogram::Histogram;

/// The slack of all edges between two places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slack {
    /// What was done before, `None` = nothing yet.
    pub from: Option<Place>,
    /// Where it came together with something else: items with who takes them, or room with who gives.
    pub to: Place,
    /// Edges.
    pub count: u64,
    /// The least slack (ns).
    pub least_ns: u64,
    /// The median (ns).
    pub median_ns: u64,
}

/// The slack of a system's edges by pair of places, least first.
pub fn slack(system: &System) -> Vec<Slack> {
    let room = |q: &Queue| q.capacity.is_some().then(VecDeque::new);
    let mut book = Book {
        places: Places::of(system),
        is_tokens: system.queues.iter().map(Queue::is_tokens).collect(),
        room: system.queues.iter().map(room).collect(),
        edges: FxHashMap::default(),
    };
    replay_observed(system, &mut book, &Options { path: false, ..Options::default() });
    let edge = |((from, to), h): ((Option<Place>, Place), Histogram)| Slack {
        from,
        to,
        count: h.count(),
        least_ns: h.min(),
        median_ns: h.quantile(0.5),
    };
    let mut all: Vec<Slack> = book.edges.into_iter().map(edge).collect();
    all.sort_by_key(|s| (s.least_ns, s.median_ns, s.from, s.to));
    all
}

/// Gathers slack from a replay.
struct Book {
    places: Places,
    is_tokens: Vec<bool>,
    /// Room of queues that have a bound: how much, since when, and what was done before.
    room: Vec<Option<VecDeque<(u64, f64, u32)>>>,
    edges: FxHashMap<(Option<Place>, Place), Histogram>,
}

impl Book {
    /// Two things come together, of each what was done before and when it was there.
    fn meet(&mut self, to: Place, one: (u32, f64), other: (u32, f64)) {
        let both = one.1.max(other.1);
        for (place, at) in [one, other] {
            let slack = (both - at).round() as u64;
            self.edges.entry((self.places.place(place), to)).or_default().add(slack);
        }
    }
}

impl Observe for Book {
    fn took(&mut self, queue: QueueId, own: (u32, f64), theirs: (u32, f64)) {
        let to = if self.is_tokens[queue.index()] { Place::Full(queue) } else { Place::Queue(queue) };
        // what is there from the begin on is nobody's edge
        if theirs.1.is_finite() {
            self.meet(to, own, theirs);
        }
    }

    fn freed(&mut self, queue: QueueId, count: u64, place: u32, now: f64) {
        if let Some(room) = &mut self.room[queue.index()] {
            room.push_back((count, now, place));
        }
    }

    fn gave(&mut self, queue: QueueId, count: u64, own: (u32, f64)) {
        let Some(room) = &mut self.room[queue.index()] else { return };
        let mut left = count;
        let mut last = None;
        while left > 0
            && let Some(first) = room.front_mut()
        {
            let some = left.min(first.0);
            first.0 -= some;
            left -= some;
            last = Some((first.2, first.1));
            if first.0 == 0 {
                room.pop_front();
            }
        }
        // room from the begin on is nobody's edge
        if let Some(room) = last.filter(|&(place, _)| place != u32::MAX) {
            self.meet(Place::Full(queue), own, room);
        }
    }
}

/// A system in which a place takes no time: work is done at once, a station has servers for all, a way takes no time, a
/// queue has room, or tokens, for all (logical zeroing, section 3.4).
pub fn without(system: &System, place: Place) -> System {
    scaled(system, place, 0.0)
}

/// A system in which a place takes `factor` (not negative) of its time: work and ways; of stations and queues there is
/// as much more room as there is less time: half the factor, twice the servers.
pub fn scaled(system: &System, place: Place, factor: f64) -> System {
    let mut system = system.clone();
    let factor = factor.max(0.0);
    let time = |ns: u64| (ns as f64 * factor).round() as u64;
    let room = |count: u64| if factor == 0.0 { PLENTY } else { ((count as f64 / factor) as u64).min(PLENTY) };
    match place {
        Place::State(of) => {
            system.scale_work(|s| s == of, factor);
        }
        Place::Station(of) => {
            if let Some(station) = system.stations.get_mut(of.index()) {
                station.servers = if factor > 0.0 { station.servers / factor } else { f64::INFINITY };
            }
        }
        Place::Queue(of) | Place::Full(of) => {
            let Some(queue) = system.queues.get_mut(of.index()) else { return system };
            let is_tokens = queue.is_tokens();
            let is_way = matches!(place, Place::Queue(_));
            if is_way {
                queue.delay_ns = time(queue.delay_ns);
                queue.ns_per_item *= factor;
            } else {
                queue.capacity = queue.capacity.filter(|_| factor > 0.0).map(room);
                if is_tokens {
                    queue.initial = room(queue.initial);
                }
            }
            // who waits for tokens, or for room, is called by whom gives them; all others by their items
            let if_so = |is_it: bool| if is_it { factor } else { 1.0 };
            system.scale_latency(of, if_so(is_tokens != is_way), if_so(!is_way));
        }
    }
    system
}

/// As many as nobody takes.
const PLENTY: u64 = 1 << 60;
/// Replays of a bisection: the scale is told within a thousandth.
const HALVINGS: u32 = 10;
/// Of the run: less than this is no gain.
const NO_GAIN: f64 = 1e-3;

/// To which part of its time a place has to come until it no longer matters: the largest factor of [`scaled`] from which
/// on less of it gains nothing more (no thousandth of the run). 1 where it does not matter as it is, 0 where it matters
/// as long as it takes any time. For systems with fixed arrivals it is mean durations that count, else the whole run.
pub fn matters_until(system: &System, place: Place) -> f64 {
    let options = Options { path: false, ..Options::default() };
    let is_open = !system.actors.iter().any(|a| a.runs == Runs::Shared) && system.actors.iter().any(|a| a.start_ns > 0);
    let cost = |outcome: &Outcome| match is_open && outcome.transactions > 0 {
        true => outcome.mean_ns(),
        false => outcome.elapsed_ns as f64,
    };
    let of = |factor| cost(&replay(&scaled(system, place, factor), &options));
    let (least, now) = (of(0.0), of(1.0));
    let enough = least + NO_GAIN * now;
    if now <= enough {
        return 1.0;
    }
    let (mut free, mut costs) = (0.0, 1.0);
    for _ in 0..HALVINGS {
        let middle = (free + costs) / 2.0;
        if of(middle) <= enough { free = middle } else { costs = middle }
    }
    free
}
