//! Requests that were cut: by the end of the recording, or of their connection. A client that leaves ends no work: what its request
//! asked for elsewhere may still be open.

use super::sessions;
use super::{At, Cut, End, HELD_MAX, InFlight, Readers, recorded_since, span_of};
use crate::names::Names;
use crate::requests::{awaits, kind_of};
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;
use wakepath_causality::exchange::Exchange;
use wakepath_causality::exchange::ExchangeFlag;
use wakepath_causality::path::{Half, Request, Span};
use wakepath_graph::Index;
use wakepath_model::folder::Folder;
use wakepath_model::ids::{HostId, MonoNs};
use wakepath_model::rows::RuntimeKind;

/// Whether nothing shows that somebody was done with it. Who takes a request back leaves it, though the connection goes on.
fn is_open(e: &Exchange) -> bool {
    let was_left = e.client.left.0 != 0 && !e.is(ExchangeFlag::Unfinished);
    !was_left && e.is(ExchangeFlag::Cut) && !e.is(ExchangeFlag::Replied) && !e.is(ExchangeFlag::Reset)
}

/// The same of a part of a request whose client left: its connection was open when the recording ended, and its own client waits there.
fn is_open_still(e: &Exchange) -> bool {
    is_open(e) && e.is(ExchangeFlag::Unfinished) && e.client.left.0 == 0
}

/// Requests that asked to wait until something happens, and that it had not happened for.
#[derive(Default)]
pub(super) struct Awaiting {
    pub(super) kinds: BTreeMap<(String, String), (u64, u64)>,
    /// The callers' ends of their connections.
    pub(super) ends: FxHashSet<End>,
}

impl Awaiting {
    fn add(&mut self, r: &Request, age_ns: u64, names: &Names<'_>) {
        if self.ends.len() < HELD_MAX {
            self.ends.extend(r.spans[0].caller.iter().map(|c| (c.host, c.exchange.flow)));
        }
        let (count, oldest_ns) = self.kinds.entry(kind_of(r, names)).or_default();
        (*count, *oldest_ns) = (*count + 1, age_ns.max(*oldest_ns));
    }
}

/// Who has a request, or makes a call: the thread; or the logical task of a runtime whose tasks go from thread to thread, so that what its
/// thread waits for now is not what it waits for.
fn who(index: &Index, h: &Half) -> At {
    let (thread, actor) = (h.exchange.request.task, h.exchange.request.actor);
    let leaves_threads =
        matches!(index.runtime(h.host, actor), RuntimeKind::Go | RuntimeKind::Jvm | RuntimeKind::Tokio);
    (h.host, if leaves_threads { actor } else { thread })
}

/// What is open of a request: its parts, and the innermost of them.
#[derive(Default)]
struct Parts<'r> {
    calls: Vec<(At, End)>,
    holders: Vec<At>,
    sessions: Vec<(At, String, u64)>,
    inner: Option<&'r Span>,
}

impl<'r> Parts<'r> {
    fn of(r: &'r Request, finder: &Finder<'_>, is_open: fn(&Exchange) -> bool) -> Parts<'r> {
        let mut out = Parts::default();
        for s in &r.spans {
            if let Some(c) = s.caller.as_ref().filter(|c| is_open(&c.exchange)) {
                out.calls.push((who(finder.index, c), (c.host, c.exchange.flow)));
                out.inner = Some(s);
            }
            if let Some(c) = s.callee.as_ref().filter(|c| is_open(&c.exchange)) {
                let at = who(finder.index, c);
                out.holders.push(at);
                if finder.names.text(c.host, c.exchange.content.protocol) == sessions::POSTGRES {
                    let age_ns = finder.age(c.host, c.exchange.request.began);
                    out.sessions.push((at, finder.names.asked(c), age_ns));
                }
                out.inner = Some(s);
            }
        }
        out
    }
}

/// What finds them.
struct Finder<'a> {
    folder: &'a Folder,
    index: &'a Index,
    names: &'a Names<'a>,
    /// Since when each host was recorded without a pause.
    begins: Vec<MonoNs>,
}

/// What was found of requests that were cut.
#[derive(Default)]
pub(super) struct Found {
    pub(super) cuts: Vec<Cut>,
    /// Those that asked to wait.
    pub(super) awaiting: Awaiting,
    /// How many had no client any more, and none of their parts is known to be open: how long the work went on is not known.
    pub(super) left_unknown: u64,
}

impl Finder<'_> {
    fn age(&self, host: HostId, since: MonoNs) -> u64 {
        span_of(self.folder, host).1.0.saturating_sub(since.0)
    }

    fn add(&self, r: &Request, found: &mut Found) {
        let Some(root) = r.spans.first() else { return };
        let Some(half) = root.callee.as_ref().or(root.caller.as_ref()) else { return };
        let e = &half.exchange;
        let has_left = !e.is(ExchangeFlag::Replied) && e.client.left.0 != 0;
        if found.cuts.len() >= HELD_MAX || !(is_open(e) || has_left) {
            return;
        }
        if self.begins.get(usize::from(half.host.0)).is_some_and(|begin| e.request.began < *begin) {
            // its end may have come while nobody recorded; if not, its socket tells
            return;
        }
        let since = if e.request.arrived.0 != 0 { e.request.arrived.min(e.request.began) } else { e.request.began };
        if awaits(r) {
            if is_open(e) {
                found.awaiting.add(r, self.age(half.host, since), self.names);
            }
            return;
        }
        let work_unknown = |h: &Half| h.exchange.client.left.0 != 0 && h.exchange.client.is_work_unknown;
        let is_unknown = r.spans.iter().filter_map(|s| s.callee.as_ref()).any(work_unknown);
        // what it asked for goes on, though its own connection may be gone
        let below = has_left.then(|| Parts::of(r, self, is_open_still)).filter(|p| p.inner.is_some());
        let goes_on = below.is_some();
        let parts = below.unwrap_or_else(|| Parts::of(r, self, is_open));
        let Some(inner) = parts.inner.filter(|_| goes_on || is_open(e)) else {
            found.left_unknown += u64::from(is_unknown);
            return;
        };
        let innermost = inner.callee.as_ref().or(inner.caller.as_ref());
        let asked = innermost.map_or_else(String::new, |h| self.names.asked(h));
        let flight = InFlight {
            id: r.id,
            kind: kind_of(r, self.names),
            since,
            age_ns: self.age(half.host, since),
            queue: None,
            is_unread: false,
            where_: (self.names.service(inner), asked),
            task: inner.callee.as_ref().map(|h| who(self.index, h)),
            handed_on: None,
            is_orphan: r.orphan.is_some(),
            left_ago_ns: (e.client.left.0 != 0).then(|| self.age(half.host, e.client.left)),
            goes_on,
        };
        let untaken = inner.caller.as_ref().filter(|_| inner.callee.is_none());
        let untaken = untaken.map(|c| ((c.host, c.exchange.flow), c.place));
        let inner_began = inner.callee.as_ref().map(|h| h.exchange.request.began);
        let of = innermost.filter(|_| goes_on).unwrap_or(half);
        let (end, began) = ((of.host, of.exchange.flow), of.exchange.request.began);
        let Parts { calls, holders, sessions, .. } = parts;
        found.cuts.push(Cut { flight, end, began, calls, holders, sessions, inner_began, untaken, is_unknown });
    }
}

/// Requests that were cut. Apart from them, those that asked to wait, and those of which it is not known.
pub(super) fn cuts(folder: &Folder, index: &Index, names: &Names<'_>) -> Found {
    let begins = folder.hosts().iter().map(|h| recorded_since(folder, h.id())).collect();
    let finder = Finder { folder, index, names, begins };
    let (mut found, mut readers): (Found, Readers) = Default::default();
    let out = |r: Request| {
        readers.count(&r);
        finder.add(&r, &mut found);
    };
    wakepath_causality::reconstruct(folder, out, |_, _, _, _| {});
    readers.take_from(&mut found.cuts);
    found
}
