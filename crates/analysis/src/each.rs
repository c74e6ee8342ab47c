//! Requests one by one: when each began, how long it took, and what most of that went to. Of more than are asked for, the
//! slowest, and an even sample of the others; memory is that of the ones asked for.

use crate::names::Names;
use crate::requests::failed;
use crate::selection::{Known, Placed, Selection};
use crate::why::{KindName, Reader, Recording, What, largest};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use wakepath_causality::exchange::Exchange;
use wakepath_causality::exchange::ExchangeFlag;
use wakepath_causality::path::Request;
use wakepath_graph::Index;
use wakepath_model::folder::Folder;
use wakepath_model::ids::CommonNs;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With a whole reply.
    Answered,
    /// Its client closed or reset the connection before.
    ClientLeft,
    /// Its flow was reset before.
    Reset,
    /// Its flow ended before.
    Cut,
    /// Its end was not recorded: the recording ended before, or missed it.
    Unfinished,
}

impl End {
    /// As answers name it.
    pub const fn name(self) -> &'static str {
        match self {
            End::Answered => "answered",
            End::ClientLeft => "client_left",
            End::Reset => "reset",
            End::Cut => "cut",
            End::Unfinished => "unfinished",
        }
    }

    /// Of a request by its exchange. A client that closes its end leaves, even where the server's attempt to reply is then reset.
    pub fn of(e: &Exchange) -> End {
        match e {
            e if e.client.left.0 != 0 && !e.is(ExchangeFlag::Replied) => End::ClientLeft,
            e if e.is(ExchangeFlag::Reset) => End::Reset,
            e if e.is_without_end() => End::Unfinished,
            e if e.is(ExchangeFlag::Cut) => End::Cut,
            _ => End::Answered,
        }
    }
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct One {
    /// Its id.
    pub id: u64,
    /// Entry service, and what was asked.
    pub kind: KindName,
    /// When it began.
    pub began: CommonNs,
    /// How long it took (ns).
    pub duration_ns: u64,
    /// Status of its reply; 0 = none.
    pub status: u16,
    /// Whether the server failed, by its reply; `None` where no reply that says so was read.
    pub failed: Option<bool>,
    /// How it ended.
    pub end: End,
    /// Nothing is known to be missing in its path.
    pub complete: bool,
    /// Its messages, itself included.
    pub spans: u32,
    /// What most of its critical path went to (ns); `None` where waits were not recorded, its path is incomplete or no
    /// complete reply came.
    pub largest: Option<(What, u64)>,
}

/// What was found of a selection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Each {
    /// Slowest first.
    pub requests: Vec<One>,
    /// Requests in the selection.
    pub found: u64,
    /// This many of the first in `requests` are the slowest of the selection, none left out.
    pub slowest: u64,
    /// The others in `requests` are one in so many of the others in the selection.
    pub one_in: u64,
}

/// The requests of a selection, at most `limit` (0 = all). Without an index no cause is known.
pub fn each(folder: &Folder, names: &Names<'_>, index: Option<&Index>, selection: &Selection, limit: usize) -> Each {
    let line = folder.timeline();
    let reader = index.map(|index| (Recording { folder, index, names }, Reader::new(folder, index, names)));
    let known = Known::new(folder, names, index, selection.asks_for_causes());
    let mut kept = Kept::new(limit);
    let take = |r: Request| {
        let Some(placed) = Placed::new(&r, names, &line).filter(|p| selection.has(&r, p, &known)) else { return };
        kept.add(placed.duration_ns, r.id, || {
            let largest = reader.as_ref().and_then(|(recording, reader)| largest(recording, reader, &r));
            One::new(&r, &placed, largest)
        });
    };
    wakepath_causality::reconstruct(folder, take, |_, _, _, _| {});
    kept.into_each()
}

impl One {
    /// From a request, and what most of its critical path went to, where that is known.
    pub fn new(r: &Request, placed: &Placed, largest: Option<(What, u64)>) -> One {
        let root = r.spans[0].callee.as_ref().or(r.spans[0].caller.as_ref()).map(|h| &h.exchange);
        let end = root.map_or(End::Answered, End::of);
        One {
            id: r.id,
            began: placed.began,
            duration_ns: placed.duration_ns,
            kind: placed.kind.clone(),
            status: root.map_or(0, |e| e.content.status),
            failed: root.filter(|e| e.is(ExchangeFlag::Replied) && !e.is(ExchangeFlag::OneWay)).and_then(failed),
            end,
            complete: r.is_complete(),
            spans: r.spans.len() as u32,
            largest,
        }
    }
}

/// The slowest by duration and id, slowest last to be taken.
type Slowest = BinaryHeap<Reverse<(u64, u64, Slot)>>;

/// A request that compares as nothing: its duration and id before it decide.
struct Slot(One);

impl PartialEq for Slot {
    fn eq(&self, _: &Slot) -> bool {
        true
    }
}
impl Eq for Slot {}
impl PartialOrd for Slot {
    fn partial_cmp(&self, other: &Slot) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Slot {
    fn cmp(&self, _: &Slot) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

/// The slowest, and an even sample of the others.
struct Kept {
    slowest: Slowest,
    slowest_max: usize,
    others: Vec<One>,
    others_max: usize,
    found: u64,
    /// One in so many of the others is kept: a power of two.
    one_in: u64,
}

impl Kept {
    fn new(limit: usize) -> Kept {
        let (slowest_max, others_max) = match limit {
            0 => (0, usize::MAX),
            n => (n.div_ceil(2), n / 2),
        };
        Kept { slowest: BinaryHeap::new(), slowest_max, others: Vec::new(), others_max, found: 0, one_in: 1 }
    }

    /// Which request is in the sample depends on its id alone, so that the same are in it each time.
    fn is_in_sample(&self, id: u64) -> bool {
        (id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).is_multiple_of(self.one_in)
    }

    /// Adds a request, which `make` makes if it is kept.
    fn add(&mut self, duration_ns: u64, id: u64, make: impl FnOnce() -> One) {
        self.found += 1;
        let is_full = self.slowest.len() >= self.slowest_max;
        let is_slow = !is_full || self.slowest.peek().is_some_and(|least| (least.0.0, least.0.1) < (duration_ns, id));
        if is_slow && self.slowest_max > 0 {
            self.slowest.push(Reverse((duration_ns, id, Slot(make()))));
            if !is_full {
                return;
            }
            if let Some(Reverse((_, id, Slot(least)))) = self.slowest.pop().filter(|l| self.is_in_sample(l.0.1)) {
                debug_assert_eq!(least.id, id);
                self.add_other(least);
            }
        } else if self.is_in_sample(id) {
            self.add_other(make());
        }
    }

    fn add_other(&mut self, one: One) {
        self.others.push(one);
        while self.others.len() > self.others_max {
            self.one_in *= 2;
            let mut others = std::mem::take(&mut self.others);
            others.retain(|o| self.is_in_sample(o.id));
            self.others = others;
            if self.one_in > 1 << 32 {
                self.others.truncate(self.others_max);
            }
        }
    }

    fn into_each(self) -> Each {
        let slowest = self.slowest.len() as u64;
        let mut requests: Vec<One> = self.slowest.into_iter().map(|Reverse((_, _, Slot(one)))| one).collect();
        requests.extend(self.others);
        requests.sort_by(|a, b| b.duration_ns.cmp(&a.duration_ns).then(b.id.cmp(&a.id)));
        Each { requests, found: self.found, slowest, one_in: self.one_in }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(limit: usize, count: u64) -> Each {
        let mut kept = Kept::new(limit);
        for n in 0..count {
            // ids and durations in an order that has nothing to do with each other
            let (id, duration_ns) = (n.wrapping_mul(0x2545_f491_4f6c_dd1d), (n * 7919) % 100_003);
            let one = || One {
                id,
                kind: Default::default(),
                began: CommonNs(0),
                duration_ns,
                status: 200,
                failed: Some(false),
                end: End::Answered,
                complete: true,
                spans: 1,
                largest: None,
            };
            kept.add(duration_ns, id, one);
        }
        kept.into_each()
    }

    #[test]
    fn keeps_all_that_find_room() {
        for (limit, count) in [(0, 1000), (1000, 1000), (1001, 1000)] {
            let each = keep(limit, count);
            assert_eq!((each.found, each.requests.len() as u64, each.one_in), (count, count, 1), "{limit}");
            assert!(each.requests.is_sorted_by(|a, b| a.duration_ns >= b.duration_ns));
        }
    }

    #[test]
    fn of_more_keeps_the_slowest_and_an_even_sample() {
        let (all, some) = (keep(0, 50_000), keep(1000, 50_000));
        assert_eq!((some.found, some.slowest), (50_000, 500));
        assert_eq!(some.requests[..500], all.requests[..500], "the slowest, all of them");
        let others = some.requests.len() - 500;
        assert!((200..=500).contains(&others), "{others}");
        let expected = (50_000 - 500) / some.one_in;
        assert!((others as u64).abs_diff(expected) < expected / 4, "{others}, one in {}", some.one_in);
        // as many of the faster half as of the slower half
        let fast = some.requests[500..].iter().filter(|o| o.duration_ns < 50_000).count();
        assert!(fast.abs_diff(others / 2) < others / 5, "{fast} of {others}");
    }

    #[test]
    fn one_is_the_slowest() {
        let each = keep(1, 100);
        assert_eq!((each.requests.len(), each.slowest), (1, 1));
        assert_eq!(each.requests[0], keep(0, 100).requests[0]);
    }
}
