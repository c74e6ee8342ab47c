//! Slack: how much later, or slower, something may be before it matters.
//!
//! The slack of an edge of the dependence graph is by how much what it brings could be later without making whom it
//! comes to later (after Hollingsworth and Miller's and Fields' measures of that name). Where two things have to come
//! together at a queue, one of the two edges has none. How much *faster* a place has to be until it no longer matters
//! cannot be read off one run; replays tell ([`crate::bottleneck`]).

use crate::critical::Places;
use crate::outcome::Place;
use crate::replay::{Observe, Options, replay_observed};
use crate::system::{Queue, QueueId, System};
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
