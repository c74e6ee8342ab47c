//! The requests that become jobs, and the moments at which tasks took up and put away their work.

use crate::derive::Selection;
use rustc_hash::FxHashMap;
use wakepath_analysis::names::Names;
use wakepath_analysis::requests::{awaits, kind_of};
use wakepath_analysis::spans::lay_out;
use wakepath_causality::exchange::ExchangeFlag;
use wakepath_causality::path::Request;
use wakepath_graph::Index;
use wakepath_model::folder::Folder;
use wakepath_model::ids::{CommonNs, EndpointId, HostId, MonoNs, TaskId};

/// Most requests that become jobs.
const REQUESTS_MAX: usize = 100_000;
/// Most spans of them: what bounds memory (some 700 bytes a span).
const SPANS_MAX: usize = 600_000;
/// The span of a point whose request becomes no job.
pub const NOBODYS: u32 = u32::MAX;

/// What a task did for a span at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Did {
    /// It had read the request.
    Took,
    /// It had read the answer to a call.
    Answered,
    /// It began to send a call.
    Called,
    /// It sent the last of the reply.
    Replied,
}

/// A moment at which a task turned to a span, or did something for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    /// Whose clock it is.
    pub host: HostId,
    /// Who.
    pub task: TaskId,
    /// When.
    pub at: MonoNs,
    /// What.
    pub did: Did,
    /// For which span, counted over all kept requests.
    pub span: u32,
    /// Of a call and its answer, the span of the call.
    pub call: u32,
}

/// A request that was answered, and whose path is not known as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Its kind: index in [`Collected::kinds`].
    pub kind: u32,
    /// Over which connection.
    pub flow: (HostId, EndpointId),
    /// When it came.
    pub came: CommonNs,
    /// When it was answered.
    pub left: CommonNs,
    /// Its server is recorded.
    pub is_served: bool,
}

/// Requests of a contiguous part of the recording.
#[derive(Default)]
pub struct Collected {
    /// Whole ones, by the time at which they came.
    pub requests: Vec<Request>,
    /// The number of the first span of each request.
    pub first: Vec<u32>,
    /// All points, by host, task and time.
    pub points: Vec<Point>,
    /// Kinds of requests: entry service, and what was asked.
    pub kinds: Vec<(String, String)>,
    /// Of each kept request, its kind.
    pub kind_of: Vec<u32>,
    /// Requests that are not kept, since something of their path is missing, though they were answered; by time.
    pub missing: Vec<Missing>,
    /// Requests that are not kept, since something of their path is missing, or they were not answered.
    pub holes: u64,
    /// Of them, with no complete reply.
    pub unanswered: u64,
    /// Requests that are not kept, since there are too many.
    pub too_many: u64,
    /// Requests to servers that are not recorded, which are not kept, since others are served here.
    pub elsewhere: u64,
    /// Messages of which it is not known whose request they belong to.
    pub orphans: u64,
    /// From the first request to the last reply.
    pub span: (CommonNs, CommonNs),
}

impl Collected {
    /// The part of the requests that are not kept, since something of their path is missing.
    pub fn lossy(&self) -> f64 {
        self.holes as f64 / (self.requests.len() as u64 + self.holes).max(1) as f64
    }

    /// How many spans the kept requests have.
    pub fn span_count(&self) -> usize {
        match (self.first.last(), self.requests.last()) {
            (Some(first), Some(last)) => *first as usize + last.spans.len(),
            _ => 0,
        }
    }
}

/// When a request came and when it was answered; `None` for one that was not.
pub fn interval(index: &Index, r: &Request) -> Option<(CommonNs, CommonNs)> {
    let timed = lay_out(r);
    let root = timed.first().filter(|t| t.index == 0 && t.end > t.start)?;
    let half = r.spans[0].callee.as_ref().or(r.spans[0].caller.as_ref())?;
    (half.exchange.is(ExchangeFlag::Replied) && !half.exchange.is(ExchangeFlag::Cut))
        .then(|| (index.common(root.host, root.start), index.common(root.host, root.end)))
}

/// Whether a kind is the one that is asked for, as `requests` names it.
pub fn is_of_kind((service, asked): &(String, String), kind: &str) -> bool {
    asked == kind || format!("{service} {asked}") == kind
}

/// Over which connection a request came.
pub fn flow_of(r: &Request) -> Option<(HostId, EndpointId)> {
    let root = r.spans.first()?;
    let half = root.callee.as_ref().or(root.caller.as_ref())?;
    Some((half.host, half.exchange.flow))
}

/// Reads the requests of a folder.
pub fn collect(folder: &Folder, index: &Index, names: &Names<'_>, selection: &Selection) -> Collected {
    let mut out = Collected::default();
    let mut kept: Vec<(CommonNs, u32, Request)> = Vec::new();
    let mut kinds: FxHashMap<(String, String), u32> = FxHashMap::default();
    let mut kind = |r: &Request, all: &mut Vec<(String, String)>| {
        *kinds.entry(kind_of(r, names)).or_insert_with_key(|k| {
            all.push(k.clone());
            all.len() as u32 - 1
        })
    };
    let (mut spans, mut is_full) = (0, false);
    let from = selection.from.unwrap_or(CommonNs(i64::MIN));
    let to = selection.to.unwrap_or(CommonNs(i64::MAX));
    wakepath_causality::reconstruct(
        folder,
        |r| {
            let when = interval(index, &r);
            let is_wanted = when.is_none_or(|(a, b)| a >= from && b <= to);
            if !is_wanted {
                return;
            }
            if awaits(&r) {
                // when what it waits for happens is no work of this system, and nobody's latency
                points(&r, NOBODYS, &mut out.points);
                return;
            }
            if r.orphan.is_some() {
                out.orphans += 1;
            }
            let Some((came, _)) = when.filter(|_| r.is_complete()) else {
                out.holes += u64::from(r.orphan.is_none());
                out.unanswered += u64::from(r.orphan.is_none() && when.is_none());
                if !is_full {
                    points(&r, NOBODYS, &mut out.points);
                    if let (Some((came, left)), Some(flow), None) = (when, flow_of(&r), r.orphan)
                        && out.missing.len() < REQUESTS_MAX
                    {
                        let kind = kind(&r, &mut out.kinds);
                        out.missing.push(Missing { kind, flow, came, left, is_served: is_served(&r) });
                    }
                }
                return;
            };
            if is_full || kept.len() >= REQUESTS_MAX || spans + r.spans.len() > SPANS_MAX {
                is_full = true;
                out.too_many += 1;
                return;
            }
            spans += r.spans.len();
            kept.push((came, kind(&r, &mut out.kinds), r));
        },
        |_, _, _, _| {},
    );
    keep_served(&mut kept, &mut out);
    let times = kept.iter().filter_map(|(_, _, r)| interval(index, r));
    out.span = times.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).unwrap_or_default();
    kept.sort_by_key(|(came, _, r)| (*came, r.id));
    out.missing.sort_by_key(|m| (m.came, m.left, m.flow));
    for m in &out.missing {
        out.span = (out.span.0.min(m.came), out.span.1.max(m.left));
    }
    let mut next = 0u32;
    for (_, kind, r) in kept {
        out.kind_of.push(kind);
        out.first.push(next);
        points(&r, next, &mut out.points);
        next += r.spans.len() as u32;
        out.requests.push(r);
    }
    out.points.sort_unstable();
    out
}

fn is_served(r: &Request) -> bool {
    r.spans.first().is_some_and(|s| s.callee.is_some())
}

/// Leaves out requests to servers that are not recorded, where as many are served here. A client that is recorded too may be
/// the one that asks here, through an address that is translated on the way: its requests would count twice. And what others
/// do elsewhere limits nothing here.
fn keep_served(kept: &mut Vec<(CommonNs, u32, Request)>, out: &mut Collected) {
    let all = kept.len() + out.missing.len();
    let served = kept.iter().filter(|k| is_served(&k.2)).count() + out.missing.iter().filter(|m| m.is_served).count();
    if 2 * served < all {
        return;
    }
    kept.retain(|k| is_served(&k.2));
    out.missing.retain(|m| m.is_served);
    out.elsewhere = (all - served) as u64;
}

/// The points of a request whose first span has this number.
fn points(r: &Request, first: u32, out: &mut Vec<Point>) {
    let number = |i: u32| if first == NOBODYS { NOBODYS } else { first + i };
    for (i, s) in r.spans.iter().enumerate() {
        let own = number(i as u32);
        if let Some(h) = &s.callee {
            let e = &h.exchange;
            let mut add = |task, at, did| out.push(Point { host: h.host, task, at, did, span: own, call: NOBODYS });
            add(e.request.task, e.request.taken, Did::Took);
            let last = if e.reply.task == TaskId::UNKNOWN { e.request.task } else { e.reply.task };
            add(last, e.reply.ended.max(e.request.taken), Did::Replied);
        }
        // a root's watched caller does nothing of it: what it computes belongs to no service
        let asker = s.parent.map_or(NOBODYS, number);
        if let Some(h) = &s.caller {
            let e = &h.exchange;
            let mut add = |task, at, did| out.push(Point { host: h.host, task, at, did, span: asker, call: own });
            add(e.request.task, e.request.began, Did::Called);
            let last = if e.reply.task == TaskId::UNKNOWN { e.request.task } else { e.reply.task };
            add(last, e.reply.ended.max(e.request.began), Did::Answered);
        }
    }
}
