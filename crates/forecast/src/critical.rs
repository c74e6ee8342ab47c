//! Critical paths while the replay runs, in bounded memory.
//!
//! After Hollingsworth (SPDT 1996; section 4.1 of the paper): there is no graph. Every state machine and every queued item
//! carries the path that led to it, and where one waited for the other, it goes on with the other's path. A path is a
//! chain of segments that share their beginnings. Once so many segments were added (a window), those that nobody
//! carries on are dropped, and stretches without a fork are folded into sums by place; what is left is at most two
//! stretches for each carrier, each of as many segments as it has places, or half a window, whichever is more.
//!
//! Loops (section 3.5) are found when a stretch is folded, as long as its order is still known.

use crate::outcome::Place;
use crate::system::{Queue, QueueId, StateId, StationId, System};
use rustc_hash::FxHashMap;

/// The last segment of a path, which stands for all of it.
pub(crate) type Node = u32;
/// The path that nothing is on yet.
pub(crate) const ROOT: Node = 0;
/// In place of a state machine where a segment is a sum.
const FOLDED: u32 = u32::MAX;
/// Sum of a place: time (ns) and how often.
pub(crate) type Sum = (f64, u64);

/// A loop's queue, its total, and its places.
pub(crate) type LoopSum = (u32, Sum, Vec<(u32, Sum)>);

/// Places as numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    states: u32,
    stations: u32,
    queues: u32,
}

impl Places {
    /// Those of a system.
    pub(crate) fn of(system: &System) -> Places {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX / 8);
        Places {
            states: count(system.states.len()),
            stations: count(system.stations.len()),
            queues: count(system.queues.len()),
        }
    }

    /// A place's number.
    pub(crate) fn number(self, place: Place) -> u32 {
        match place {
            Place::State(s) => s.0,
            Place::Station(s) => self.states + s.0,
            Place::Queue(q) => self.states + self.stations + q.0,
            Place::Full(q) => self.states + self.stations + self.queues + q.0,
        }
    }

    /// The place of a number; `None` where it is none.
    pub(crate) fn place(self, number: u32) -> Option<Place> {
        let mut n = number;
        // what is left where it is not of this kind
        let mut is = |count: u32| match n.checked_sub(count) {
            Some(left) => {
                n = left;
                None
            }
            None => Some(n),
        };
        let state = is(self.states).map(|n| Place::State(StateId(n)));
        let station = state.or_else(|| is(self.stations).map(|n| Place::Station(StationId(n))));
        let queue = station.or_else(|| is(self.queues).map(|n| Place::Queue(QueueId(n))));
        queue.or_else(|| is(self.queues).map(|n| Place::Full(QueueId(n))))
    }

    /// The queue of the number of a [`Place::Full`].
    fn full(self, number: u32) -> Option<u32> {
        let first = self.states + self.stations + self.queues;
        number.checked_sub(first).filter(|&q| q < self.queues)
    }

    fn end(self) -> u32 {
        self.states + self.stations + 2 * self.queues
    }
}

/// A part of a path.
#[derive(Clone, Copy, Debug)]
struct Segment {
    before: Node,
    /// A place's number, or beyond those an entry of [`Paths::looped`].
    place: u32,
    /// The state machine.
    actor: u32,
    count: u32,
    ns: f64,
}

/// A queue's loop with a place in it, or with none for its total.
type Looped = (u32, Option<u32>);

/// All paths that somebody carries.
pub(crate) struct Paths {
    segments: Vec<Segment>,
    places: Places,
    /// For each queue, whether its tokens are held and given back by the same machine.
    held: Option<Vec<bool>>,
    window: usize,
    fold_at: usize,
    /// Names what a segment of a loop's sum is about.
    looped: Vec<Looped>,
    looped_numbers: FxHashMap<Looped, u32>,
    /// Of the fold under way: carried, and how many live segments come after (2 = more than one).
    carried: Vec<bool>,
    after: Vec<u8>,
    moved: Vec<Node>,
    scan: Scan,
}

impl Paths {
    /// For paths of `system`; `loops` are looked for where it is said. `window` is the least number of segments between two folds.
    pub(crate) fn new(system: &System, loops: bool, window: usize) -> Paths {
        let root = Segment { before: ROOT, place: u32::MAX, actor: FOLDED, count: 0, ns: 0.0 };
        Paths {
            segments: vec![root],
            places: Places::of(system),
            held: loops.then(|| system.queues.iter().map(Queue::is_held).collect()),
            window: window.max(16),
            fold_at: window.max(16),
            looped: Vec::new(),
            looped_numbers: FxHashMap::default(),
            carried: Vec::new(),
            after: Vec::new(),
            moved: Vec::new(),
            scan: Scan::default(),
        }
    }

    /// A path that goes on with another segment.
    pub(crate) fn push(&mut self, before: Node, place: u32, actor: u32, count: u32, ns: f64) -> Node {
        let node = self.segments.len() as Node;
        self.segments.push(Segment { before, place, actor, count, ns });
        node
    }

    /// Whose the last segment of a path is.
    pub(crate) fn actor(&self, node: Node) -> Option<u32> {
        Some(self.segments[node as usize].actor).filter(|&actor| actor != FOLDED)
    }

    /// Whether it is time to fold: mark all carriers, [`Self::fold`], and ask for each carrier where it is now.
    pub(crate) fn is_due(&self) -> bool {
        self.segments.len() >= self.fold_at
    }

    /// Begins a fold.
    pub(crate) fn begin_fold(&mut self) {
        self.carried.clear();
        self.carried.resize(self.segments.len(), false);
    }

    /// Somebody carries this path.
    pub(crate) fn mark(&mut self, node: Node) {
        self.carried[node as usize] = true;
    }

    /// Where a marked path is after the fold.
    pub(crate) fn moved(&self, node: Node) -> Node {
        self.moved[node as usize]
    }

    /// Drops what nobody carries and folds stretches without a fork.
    pub(crate) fn fold(&mut self) {
        let old = std::mem::take(&mut self.segments);
        self.after.clear();
        self.after.resize(old.len(), 0);
        // segments come after those that they go on from
        for i in (1..old.len()).rev() {
            if self.carried[i] || self.after[i] > 0 {
                let before = old[i].before as usize;
                self.after[before] = self.after[before].saturating_add(1).min(2);
            }
        }
        self.moved.clear();
        self.moved.resize(old.len(), ROOT);
        self.segments.push(old[0]);
        let mut stretch = Vec::new();
        for i in 1..old.len() {
            if !(self.carried[i] || self.after[i] > 1) {
                continue;
            }
            stretch.clear();
            let mut at = i;
            while at != ROOT as usize && (at == i || !(self.carried[at] || self.after[at] > 1)) {
                stretch.push(old[at]);
                at = old[at].before as usize;
            }
            stretch.reverse();
            self.moved[i] = self.keep(&stretch, self.moved[at]);
        }
        self.fold_at = (2 * self.segments.len()).max(self.window);
    }

    /// Keeps a stretch: the sums of its beginning, and as it is what comes after its last round.
    fn keep(&mut self, stretch: &[Segment], before: Node) -> Node {
        let mut node = before;
        let may_stay = self.segments.len() + stretch.len() < self.window / 2;
        let last_full = stretch.iter().rposition(|s| self.closes(s).is_some());
        let summed = match last_full {
            _ if !may_stay => stretch.len(),
            Some(at) => at + 1,
            None if stretch.len() <= SHORT => 0,
            None => stretch.len(),
        };
        if summed > 0 {
            self.scan(&stretch[..summed]);
            let mut scan = std::mem::take(&mut self.scan);
            scan.sums.sort_unstable_by_key(|&(place, _)| place);
            for &(place, (ns, count)) in &scan.sums {
                node = self.push(node, place, FOLDED, u32::try_from(count).unwrap_or(u32::MAX), ns);
            }
            self.scan = scan;
        }
        if let Some(full) = last_full.map(|at| stretch[at]).filter(|_| may_stay) {
            // what was got there is held from there on
            node = self.push(node, full.place, full.actor, 0, 0.0);
        }
        for s in &stretch[summed..] {
            node = self.push(node, s.place, s.actor, s.count, s.ns);
        }
        node
    }

    /// The queue of a segment that stands for waiting for its room or tokens.
    fn closes(&self, s: &Segment) -> Option<u32> {
        self.places.full(s.place).filter(|_| s.actor != FOLDED && s.count > 0)
    }

    /// Sums a stretch by place into `scan.sums`, with the loops in it.
    fn scan(&mut self, stretch: &[Segment]) {
        let mut scan = std::mem::take(&mut self.scan);
        scan.clear();
        for s in stretch {
            scan.add(s.place, (s.ns, u64::from(s.count)));
        }
        if let Some(held) = self.held.take() {
            self.loops(&held, stretch, &mut scan);
            self.held = Some(held);
        }
        scan.finish();
        self.scan = scan;
    }

    /// Finds rounds: the path is back at a state machine that waited for room or credit where it was before, or a token
    /// that somebody on the path took is given back to who waits for it.
    fn loops(&mut self, held: &[bool], stretch: &[Segment], scan: &mut Scan) {
        // what all rounds together may be long, since rounds of several queues lie over each other
        let mut budget = 16 * stretch.len();
        let mut current = FOLDED;
        for (at, s) in stretch.iter().enumerate() {
            if s.actor == FOLDED {
                scan.visits.clear();
                scan.takes.clear();
                current = FOLDED;
                continue;
            }
            if let Some(queue) = self.closes(s) {
                let is_held = held.get(queue as usize).copied().unwrap_or(false);
                let from = match is_held {
                    true => scan.takes.get(&(current, queue)).copied(),
                    false => scan.visits.get(&s.actor).copied(),
                };
                // a part of the path is in one round of a queue: else its rounds would be longer than the path
                let from = from.map(|from| from.max(scan.closed.get(&queue).copied().unwrap_or(0)));
                if let Some(from) = from.filter(|from| at + 1 - from <= budget) {
                    budget -= at + 1 - from;
                    scan.closed.insert(queue, at + 1);
                    let mut total = 0.0;
                    for part in &stretch[from..=at] {
                        total += part.ns;
                        let number = self.looped((queue, Some(part.place)));
                        scan.add(number, (part.ns, u64::from(part.count)));
                    }
                    let number = self.looped((queue, None));
                    scan.add(number, (total, 1));
                }
                // the next round begins after what closed this one
                scan.takes.insert((s.actor, queue), at + 1);
                scan.visits.insert(s.actor, at + 1);
                current = s.actor;
                continue;
            }
            if let Some(queue) = self.places.full(s.place) {
                scan.takes.insert((s.actor, queue), at);
            }
            if s.actor != current {
                scan.visits.insert(s.actor, at);
                current = s.actor;
            }
        }
    }

    fn looped(&mut self, what: Looped) -> u32 {
        if let Some(&number) = self.looped_numbers.get(&what) {
            return number;
        }
        let number = self.places.end() + self.looped.len() as u32;
        self.looped.push(what);
        self.looped_numbers.insert(what, number);
        number
    }

    /// Sums of a path by place from `after` on.
    pub(crate) fn sums(&self, node: Node, after: Node, mut each: impl FnMut(u32, Sum)) {
        let mut at = node;
        while at != ROOT && at != after {
            let s = &self.segments[at as usize];
            each(s.place, (s.ns, u64::from(s.count)));
            at = s.before;
        }
    }

    /// The whole of a path: sums by place, and those of its loops, a total and the places' by queue.
    pub(crate) fn whole(&mut self, node: Node) -> (Vec<(u32, Sum)>, Vec<LoopSum>) {
        let mut stretch = Vec::new();
        let mut at = node;
        while at != ROOT {
            stretch.push(self.segments[at as usize]);
            at = self.segments[at as usize].before;
        }
        stretch.reverse();
        self.scan(&stretch);
        let mut sums = std::mem::take(&mut self.scan.sums);
        sums.sort_unstable_by_key(|&(place, _)| place);
        let looped = sums.split_off(sums.partition_point(|&(place, _)| place < self.places.end()));
        let mut loops: FxHashMap<u32, (Sum, Vec<(u32, Sum)>)> = FxHashMap::default();
        for (number, sum) in looped {
            match self.looped[(number - self.places.end()) as usize] {
                (queue, None) => loops.entry(queue).or_default().0 = sum,
                (queue, Some(place)) => loops.entry(queue).or_default().1.push((place, sum)),
            }
        }
        let mut loops: Vec<_> = loops.into_iter().map(|(queue, (sum, parts))| (queue, sum, parts)).collect();
        loops.sort_unstable_by_key(|&(queue, ..)| queue);
        (sums, loops)
    }
}

/// A stretch without a fork and without a loop that is no longer than this stays as it is.
const SHORT: usize = 64;

/// Working memory of one stretch.
#[derive(Default)]
struct Scan {
    sums: Vec<(u32, Sum)>,
    by_place: FxHashMap<u32, Sum>,
    /// Where the path's present or last stay at a state machine began.
    visits: FxHashMap<u32, usize>,
    /// Where a machine took from a queue last.
    takes: FxHashMap<(u32, u32), usize>,
    /// Where a queue's last round ended.
    closed: FxHashMap<u32, usize>,
}

impl Scan {
    fn clear(&mut self) {
        self.sums.clear();
        self.by_place.clear();
        self.visits.clear();
        self.takes.clear();
        self.closed.clear();
    }

    fn add(&mut self, place: u32, (ns, count): Sum) {
        let sum = self.by_place.entry(place).or_default();
        sum.0 += ns;
        sum.1 += count;
    }

    fn finish(&mut self) {
        // a take without waiting leaves nothing behind
        self.sums.extend(self.by_place.drain().filter(|&(_, (ns, count))| ns > 0.0 || count > 0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_that_of_carriers_and_a_window() {
        let state = |n: u32| crate::system::State {
            host: String::new(),
            process: String::new(),
            state: n.to_string(),
            station: None,
        };
        let system = System { states: (0..5).map(state).collect(), ..System::default() };
        let mut paths = Paths::new(&system, true, 1000);
        // three machines, of which one goes on with another's path now and then
        let mut carried = [ROOT; 3];
        let mut most = 0;
        let mut length = [0.0; 3];
        for i in 0..1_000_000u32 {
            let at = (i % 3) as usize;
            if i % 17 == 0 {
                (carried[at], length[at]) = (carried[0], length[0]);
            }
            carried[at] = paths.push(carried[at], i % 5, at as u32, 1, 1.0);
            length[at] += 1.0;
            if paths.is_due() {
                paths.begin_fold();
                carried.iter().for_each(|&node| paths.mark(node));
                paths.fold();
                carried.iter_mut().for_each(|node| *node = paths.moved(*node));
            }
            most = most.max(paths.segments.len());
        }
        assert!(most <= 1000, "{most}");
        for (node, length) in carried.into_iter().zip(length) {
            let (sums, loops) = paths.whole(node);
            assert_eq!(sums.iter().map(|&(_, (ns, _))| ns).sum::<f64>(), length);
            assert!(loops.is_empty());
        }
    }
}
