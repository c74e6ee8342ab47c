//! Requests by entry service and kind in OpenMetrics' text, which Prometheus reads: rate, errors, durations, each bucket with the
//! trace of its slowest request as an exemplar.

use crate::otlp::hex;
use crate::trace::trace_id;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use wakepath_analysis::requests::{KINDS_MAX, has_failed};
use wakepath_analysis::selection::Placed;
use wakepath_causality::exchange::ExchangeFlag;
use wakepath_causality::path::Request;
use wakepath_present::metrics::prometheus::{BOUNDS, labels, seconds};

/// What kinds are called that found no room.
const OTHER: &str = "(other)";

/// What became of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Ok,
    Error,
    Unknown,
    Unanswered,
}

impl Outcome {
    const fn name(self) -> &'static str {
        match self {
            Outcome::Ok => "ok",
            Outcome::Error => "error",
            Outcome::Unknown => "unknown",
            Outcome::Unanswered => "unanswered",
        }
    }
}

/// A request that stands for its bucket.
#[derive(Clone, Copy)]
struct Slowest {
    duration_ns: u64,
    id: u64,
    /// When it ended (ns since 1970).
    ended_ns: i64,
}

/// Requests of one length.
#[derive(Default)]
struct Bucket {
    count: u64,
    slowest: Option<Slowest>,
}

/// Requests of a kind.
#[derive(Default)]
struct Kind {
    outcomes: BTreeMap<Outcome, u64>,
    /// The last one has no bound.
    buckets: [Bucket; BOUNDS.len() + 1],
    sum_ns: u128,
}

/// How the text is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// OpenMetrics, with exemplars.
    OpenMetrics,
    /// Prometheus's older text format, which has none.
    Plain,
}

/// Counts requests.
#[derive(Default)]
pub struct Counted {
    kinds: BTreeMap<(String, String), Kind>,
    /// Requests of kinds that found no room.
    pub without_room: u64,
}

impl Counted {
    /// Adds a request.
    pub fn add(&mut self, r: &Request, placed: &Placed) {
        let mut name = placed.kind.clone();
        if self.kinds.len() >= KINDS_MAX && !self.kinds.contains_key(&name) {
            self.without_room += 1;
            name = (OTHER.into(), OTHER.into());
        }
        let kind = self.kinds.entry(name).or_default();
        let root = r.spans[0].callee.as_ref().or(r.spans[0].caller.as_ref()).map(|h| &h.exchange);
        let outcome = match root {
            Some(e)
                if e.is(ExchangeFlag::Cut)
                    || e.is(ExchangeFlag::Reset)
                    || (!e.is(ExchangeFlag::Replied) && !e.is(ExchangeFlag::OneWay)) =>
            {
                Outcome::Unanswered
            }
            Some(e) if has_failed(e) => Outcome::Error,
            Some(e) if e.is(ExchangeFlag::OutcomeUnknown) => Outcome::Unknown,
            Some(_) => Outcome::Ok,
            None => Outcome::Unknown,
        };
        *kind.outcomes.entry(outcome).or_default() += 1;
        if outcome == Outcome::Unanswered {
            return;
        }
        let at = BOUNDS.iter().position(|b| placed.duration_ns <= *b).unwrap_or(BOUNDS.len());
        let bucket = &mut kind.buckets[at];
        bucket.count += 1;
        kind.sum_ns += u128::from(placed.duration_ns);
        let ended_ns = placed.began.0.saturating_add_unsigned(placed.duration_ns);
        if bucket.slowest.is_none_or(|s| (placed.duration_ns, r.id) > (s.duration_ns, s.id)) {
            bucket.slowest = Some(Slowest { duration_ns: placed.duration_ns, id: r.id, ended_ns });
        }
    }

    /// The text.
    pub fn render(&self, form: Form) -> String {
        const REQUESTS: &str = "wakepath_entry_requests";
        const DURATION: &str = "wakepath_entry_request_duration_seconds";
        let mut out = String::new();
        // OpenMetrics names the family, the older format its samples
        let family = if form == Form::Plain { format!("{REQUESTS}_total") } else { REQUESTS.to_owned() };
        let _ = writeln!(out, "# TYPE {family} counter\n# HELP {family} Requests by entry service, kind and outcome.");
        for ((service, kind), k) in &self.kinds {
            for (outcome, n) in &k.outcomes {
                let pairs = labels(&[("service", service), ("kind", kind), ("outcome", outcome.name())]);
                let _ = writeln!(out, "{REQUESTS}_total{pairs} {n}");
            }
        }
        let unit = if form == Form::Plain { String::new() } else { format!("# UNIT {DURATION} seconds\n") };
        let _ = writeln!(
            out,
            "# TYPE {DURATION} histogram\n{unit}# HELP {DURATION} How long answered requests took, from their first byte's arrival to the reply's last."
        );
        for ((service, kind), k) in &self.kinds {
            let bounds = BOUNDS.iter().map(|b| seconds((*b).into())).chain(["+Inf".to_owned()]);
            let mut below = 0;
            for (le, bucket) in bounds.zip(&k.buckets) {
                below += bucket.count;
                let le = if le.contains('.') || le == "+Inf" { le } else { format!("{le}.0") };
                let pairs = labels(&[("service", service), ("kind", kind), ("le", &le)]);
                let _ = write!(out, "{DURATION}_bucket{pairs} {below}");
                if let (Form::OpenMetrics, Some(s)) = (form, bucket.slowest) {
                    let at = u128::try_from(s.ended_ns).unwrap_or(0);
                    let trace = labels(&[("trace_id", &hex(&trace_id(s.id)))]);
                    let _ = write!(out, " # {trace} {} {}", seconds(s.duration_ns.into()), seconds(at));
                }
                out.push('\n');
            }
            let pairs = labels(&[("service", service), ("kind", kind)]);
            let _ = writeln!(out, "{DURATION}_count{pairs} {below}\n{DURATION}_sum{pairs} {}", seconds(k.sum_ns));
        }
        if form == Form::OpenMetrics {
            out.push_str("# EOF\n");
        }
        out
    }
}
