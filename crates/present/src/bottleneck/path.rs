//! The path that time is on: its shares, and the loops in it.

use super::ROWS_MAX;
use super::words::{bare, number, place, queue_kind, work};
use crate::table::{Cell, Column, Table};
use crate::text::{Style, Tint, sanitise, wrap};
use crate::units;
use serde::Serialize;
use std::fmt::Write as _;
use wakepath_forecast::forecast::Coming;
use wakepath_forecast::jobs::Arrivals;
use wakepath_forecast::outcome::{Loop, Outcome, Place, Share};
use wakepath_forecast::system::{KindId, StateId, System};

/// Shares of a path below this part of it are summed up in text.
pub(super) const SHARE_SHOWN: f64 = 0.005;

/// Most loops told of in text.
pub(super) const LOOPS_MAX: usize = 3;

/// A part of a path.
#[derive(Clone, Debug, Serialize)]
pub struct ShareView {
    /// `work`, `waiting` (for a server of a station), `queue` (on the way through one), or `full` (for room or a token).
    pub place: &'static str,
    /// In words.
    pub what: String,
    /// Of the path (ns).
    pub ns: u64,
    /// Of the path; 1 = all of it.
    pub share: f64,
    /// How often on the path: of requests, of one on average.
    pub count: f64,
}

/// A loop on the critical path.
#[derive(Clone, Debug, Serialize)]
pub struct LoopView {
    /// The queue whose room, or whose tokens, close it.
    pub queue: String,
    /// What that is of: `accept queue`, `workers`, `pool`, `lock`, `link`, `buffer` or `queue`.
    pub kind: &'static str,
    /// Time of the path in its rounds (ns).
    pub ns: u64,
    /// Of the path; 1 = all of it.
    pub share: f64,
    /// Rounds.
    pub count: u64,
    /// Where a round's time goes, longest first.
    pub round: Vec<ShareView>,
}

/// A critical path: that of a run, or that of a request on average. All its times add up to its length: none is a sum over
/// requests that were served at the same time, or over several passes of a replay.
#[derive(Clone, Debug, Serialize)]
pub struct PathView {
    /// Of what: a kind of request; `None` = all, or the whole run.
    pub request: Option<String>,
    /// Its length (ns): of a run, as long as the recording; of requests, the mean of one.
    pub ns: u64,
    /// Requests that it is the mean of; 0 for a run.
    pub requests: u64,
    /// Where its time went, longest first.
    pub shares: Vec<ShareView>,
    /// The work that is most of it.
    pub most_critical: Option<String>,
    /// Loops on the run's path, longest first; none on that of a request.
    pub loops: Vec<LoopView>,
}

/// Which path is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// That of the run, from its end back to its begin.
    Run,
    /// Those of all requests, or of a kind, each from its begin to its end.
    Requests(Option<KindId>),
}

impl Scope {
    /// What tells most: where requests come at their times, nothing leads from one to the next. And the client that ends last may have
    /// paused for most of the run: its path then tells little of the others.
    pub fn of(coming: &Coming, kind: Option<KindId>, outcome: &Outcome) -> Scope {
        let on_path: u64 = outcome.path.iter().map(|s| s.ns).sum();
        match (coming, kind) {
            (_, Some(_)) | (Coming::Jobs(Arrivals::Open), None) => Scope::Requests(kind),
            (Coming::Jobs(_), None) if on_path < outcome.elapsed_ns / 2 => Scope::Requests(None),
            _ => Scope::Run,
        }
    }
}

pub(super) fn share_view(system: &System, s: &Share, whole: u64) -> ShareView {
    let (class, what) = place(system, s.place);
    ShareView { place: class, what, ns: s.ns, share: s.ns as f64 / whole.max(1) as f64, count: s.count as f64 }
}

/// `whole` is the length of the path that the loop is on, of all `passes`.
pub(super) fn loop_view(system: &System, l: &Loop, whole: u64, passes: u64) -> LoopView {
    let queue = system.queues.get(l.closed_by.index());
    let round: u64 = l.round.iter().map(|s| s.ns).sum();
    let mut parts: Vec<ShareView> = Vec::new();
    for mut view in l.round.iter().map(|s| share_view(system, s, round)) {
        (view.ns, view.count) = (view.ns / passes, view.count / passes as f64);
        match parts.iter_mut().find(|o| o.what == view.what) {
            Some(o) => (o.ns, o.count, o.share) = (o.ns + view.ns, o.count + view.count, o.share + view.share),
            None => parts.push(view),
        }
    }
    LoopView {
        queue: queue.map_or_else(String::new, |q| bare(q).to_owned()),
        kind: queue.map_or("queue", |q| queue_kind(q.kind)),
        ns: l.ns / passes,
        share: l.ns as f64 / whole.max(1) as f64,
        count: l.count.div_ceil(passes),
        round: parts,
    }
}

impl PathView {
    /// Of a replay.
    pub fn new(system: &System, outcome: &Outcome, scope: Scope) -> PathView {
        let (kind, is_of_requests) = match scope {
            Scope::Run => (None, false),
            Scope::Requests(kind) => (kind, true),
        };
        let is_wanted = |k: KindId| is_of_requests && kind.is_none_or(|wanted| wanted == k);
        let kinds = || outcome.kinds.iter().filter(|k| is_wanted(k.kind));
        let run = outcome.path.iter().filter(|_| scope == Scope::Run);
        let all = run.chain(kinds().flat_map(|k| &k.shares)).filter(|s| s.ns > 0);
        // two ways of a link are one to people
        let mut shares: Vec<ShareView> = Vec::new();
        let mut worked: Vec<(u64, StateId)> = Vec::new();
        for s in all {
            let view = share_view(system, s, 1);
            match shares.iter_mut().find(|o| o.what == view.what) {
                Some(other) => (other.ns, other.count) = (other.ns + s.ns, other.count + view.count),
                None => shares.push(view),
            }
            if let Place::State(id) = s.place {
                match worked.iter_mut().find(|w| w.1 == id) {
                    Some(w) => w.0 += s.ns,
                    None => worked.push((s.ns, id)),
                }
            }
        }
        let sum: u64 = shares.iter().map(|s| s.ns).sum();
        let requests = kinds().map(|k| k.latency.count()).sum();
        // a replay of few requests goes through them several times
        let passes = u64::from(system.rounds.max(1));
        let of = if is_of_requests { requests } else { passes }.max(1);
        for s in &mut shares {
            s.share = s.ns as f64 / sum.max(1) as f64;
            (s.ns, s.count) = (s.ns / of, s.count / of as f64);
        }
        shares.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| a.what.cmp(&b.what)));
        let loops = outcome.loops.iter().filter(|_| scope == Scope::Run);
        PathView {
            request: kind.and_then(|k| system.kinds.get(k.index()).cloned()),
            ns: sum / of,
            requests,
            shares,
            most_critical: worked.iter().max_by_key(|w| w.0).map(|w| work(system, w.1)),
            loops: loops.map(|l| loop_view(system, l, sum, passes)).collect(),
        }
    }

    /// As text.
    pub fn render(&self, out: &mut String, style: Style) {
        let length = units::duration(self.ns);
        let title = if self.requests > 0 {
            let kind = self.request.as_ref().map_or(String::new(), |k| format!(" {k}"));
            format!("Critical path of a request{kind}, {length} (the mean of {}):", units::count(self.requests))
        } else {
            format!("Critical path of the run, {length} from its first request to its last reply:")
        };
        let _ = writeln!(out, "{}", style.paint(&sanitise(&title), Tint::Strong));
        let mut t = Table::new(&[
            Column::text("where its time goes"),
            Column::number("time"),
            Column::number("share"),
            Column::number("times"),
        ])
        .indented(2);
        let shown = self.shares.iter().take(ROWS_MAX).take_while(|s| s.share >= SHARE_SHOWN).count();
        let row = |what: String, ns: u64, share: f64, count: f64| {
            let share = format!("{:.1} %", 100.0 * share);
            let times = if count < 10.0 { number(count) } else { units::count(count.round() as u64) };
            [Cell::from(what), Cell::from(units::duration(ns)), Cell::from(share), Cell::from(times)]
        };
        for s in &self.shares[..shown] {
            t.row(row(s.what.clone(), s.ns, s.share, s.count));
        }
        let rest = &self.shares[shown..];
        if !rest.is_empty() {
            let sum = rest.iter().fold((0, 0.0, 0.0), |a, s| (a.0 + s.ns, a.1 + s.share, a.2 + s.count));
            t.row(row(format!("({} more)", rest.len()), sum.0, sum.1, sum.2));
        }
        out.push_str(&t.render(style));
        if let Some(work) = &self.most_critical {
            out.push_str(&wrap(&sanitise(&format!("Most critical state: {work}.")), "", style.prose()));
        }
        for l in self.loops.iter().take(LOOPS_MAX) {
            out.push_str(&wrap(&sanitise(&l.sentence()), "", style.prose()));
        }
        if self.loops.len() > LOOPS_MAX {
            let _ = writeln!(out, "{} smaller loops; --json has them.", self.loops.len() - LOOPS_MAX);
        }
    }
}

impl LoopView {
    /// What goes round, and what closes it.
    pub fn sentence(&self) -> String {
        const PARTS: usize = 3;
        let closes = match self.kind {
            "workers" => format!("the workers of {}: no request starts until a worker has answered one", self.queue),
            "pool" => format!("the pool {}: no request gets a connection until one is returned", self.queue),
            "lock" => format!("the lock {}: it has one holder at a time", self.queue),
            "accept queue" => format!("the accept queue of {}: no client connects until there is room", self.queue),
            "link" => format!("the link {}: nothing is sent until earlier data has passed", self.queue),
            _ => format!("{}: nothing goes in until something is taken out", self.queue),
        };
        let parts: Vec<String> = self
            .round
            .iter()
            .filter(|s| s.share >= SHARE_SHOWN)
            .take(PARTS)
            .map(|s| format!("{} ({:.0} %)", s.what, 100.0 * s.share))
            .collect();
        let each = units::duration(self.ns / self.count.max(1));
        let mut text = format!(
            "A loop, {:.0} % of the path in {} rounds of {each}, is closed by {closes}.",
            100.0 * self.share,
            units::count(self.count)
        );
        if !parts.is_empty() {
            let _ = write!(text, " A round is {}.", parts.join(", "));
        }
        text
    }
}
