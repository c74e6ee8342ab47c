//! `wakepath requests`: the kinds of request, where each spends its time, and what went wrong.

mod call_errors;
mod connections;
mod ended;
mod full_queues;
mod text;
mod throttled;

pub use call_errors::CallErrorView;
pub use connections::{ClosedUnreadView, HeldRepliesView};
pub use ended::EndedView;
pub use full_queues::{FullQueueView, StarvedView};
pub(crate) use text::{never_replied, replies_unknown};
pub use throttled::ThrottledView;

use crate::refusals;
use crate::units;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use wakepath_analysis::requests::{Asked, Kind, Kinds, OpenCalls, Tier};
use wakepath_causality::Report;
use wakepath_causality::evidence::Missing;
use wakepath_causality::finished::Calls;

/// Most things asked of a tier that are told, those with most time first.
const ASKED_TOLD: usize = 5;
/// So many calls of the same a request, and more, are worth a sentence.
const REPEATED_MIN: f64 = 10.0;
/// Where they take this part of the request's time, or more.
const REPEATED_SHARE: f64 = 0.1;

/// How a word is shown that was not written down.
const MASKED: &str = "{value}";
/// What that is, and how it is had.
pub(crate) const MASKED_WORDS: &str =
    "{value}: words that fewer than three clients sent are not written. `wakepath record --words all` writes them.";

/// What was asked of a tier.
#[derive(Serialize)]
pub struct AskedView {
    /// What.
    pub asked: String,
    /// How often for each request, on average.
    pub calls_per_request: f64,
    /// In how many requests at all.
    pub requests: u64,
    /// How long callers waited for it before the reply to the request, for each request (ns).
    pub took_ns: u64,
}

/// A service and what people call it.
#[derive(Serialize)]
pub struct KnownAsView {
    /// Service.
    pub service: String,
    /// What its command line calls it: `gunicorn shop.wsgi`.
    pub name: String,
}

/// A tier of a kind.
#[derive(Serialize)]
pub struct TierView {
    /// Service.
    pub service: String,
    /// Spans in it for each request, on average.
    pub spans_per_request: f64,
    /// Time of its own for each request (ns).
    pub self_ns: u64,
    /// Of that, in spans some of whose calls could not be assigned: a part of it may be theirs (ns).
    pub self_unsure_ns: u64,
    /// Waited there before a task took it, for each request (ns); nothing is known of it where no arrival was seen.
    pub queued_ns: u64,
    /// When requests arrived at its host was seen, of some at least. By the preload library it is not: durations begin when
    /// the program reads.
    pub arrivals_seen: bool,
    /// Spans, of all requests together, whose arrival at the host was not seen: they may have waited there before, which then is in
    /// `between_ns`, or in no figure where nobody recorded calls.
    pub arrivals_unseen: u64,
    /// Time in which its replies found no room, since its clients had not read what came before (ns, average a request).
    pub unread_ns: u64,
    /// Time in which it waited for the rest of its requests, which its clients had not sent yet (ns, average a request).
    pub unsent_ns: u64,
    /// Until connections to it were there, for their first calls (ns, average a request): in no own time.
    pub connect_ns: u64,
    /// Until it had answered in the handshakes of these connections (TLS, or its greeting; ns, average a request): in no own time.
    pub handshake_ns: u64,
    /// Between its callers and it, for each request (ns).
    pub between_ns: u64,
    /// Time that its calls went on after the reply of the request that they were made for, or after their caller had left, for each
    /// request (ns): it is in the other figures, and in no duration of a request.
    pub after_ns: u64,
    /// Share of the mean duration that is its own time.
    pub share: f64,
    /// It is not recorded.
    pub unwatched: bool,
    /// What was asked there, besides the requests themselves; those with most time first.
    pub asked: Vec<AskedView>,
}

/// A kind of request.
#[derive(Serialize)]
pub struct KindView {
    /// Entry service.
    pub service: String,
    /// What was asked.
    pub asked: String,
    /// Requests.
    pub count: u64,
    /// Requests a second while they came; null where there are too few to tell.
    pub rate_per_s: Option<f64>,
    /// How long they came: from the first to the end of the last, without idle time (ns).
    pub active_ns: u64,
    /// Mean duration (ns). This and the following are of the requests that ended before the recording did.
    pub mean_ns: u64,
    /// Median (ns).
    pub p50_ns: u64,
    /// 95th percentile (ns).
    pub p95_ns: u64,
    /// 99th percentile (ns).
    pub p99_ns: u64,
    /// Longest (ns).
    pub max_ns: u64,
    /// Failed by their reply.
    pub failed: u64,
    /// Answered, but the reply says neither success nor failure, or was not readable.
    pub outcome_unknown: u64,
    /// Whose client closed or reset the connection before the reply was complete.
    pub left: u64,
    /// The longest time that such a client waited before it left (ns).
    pub left_longest_ns: u64,
    /// Reset.
    pub reset: u64,
    /// Cut short.
    pub cut: u64,
    /// Of no known protocol, and without a reply: whether one was due is not known.
    pub unreplied: u64,
    /// Requests whose end was not recorded: they were in progress when recording stopped, or it was lost.
    pub unfinished: u64,
    /// With a path known to be incomplete.
    pub incomplete: u64,
    /// Of these, those that lack nothing but what came after the recording.
    pub cut_off: u64,
    /// With calls to who is not watched: what happened there is in no path.
    pub leaving: u64,
    /// Why, with how often.
    pub why_incomplete: Vec<(String, u64)>,
    /// Statuses with how often; 0 = none.
    pub statuses: Vec<(u16, u64)>,
    /// Tiers in the order of depth.
    pub tiers: Vec<TierView>,
    /// Ids of the slowest.
    pub slowest: Vec<String>,
    /// Id of the slowest that failed, was reset or was refused (4xx).
    pub failed_example: Option<String>,
    /// When the first of those began (ns since 1970).
    pub first_failed_ns: Option<i64>,
}

/// Connections that did not come about.
#[derive(Serialize)]
pub struct RefusedView {
    /// Who tried.
    pub process: String,
    /// Where.
    pub remote: String,
    /// Why.
    pub why: String,
    /// The same as a number of Linux's, 0 = not known.
    pub error: i32,
    /// How often.
    pub count: u64,
}

/// Messages without a request.
#[derive(Serialize)]
pub struct OrphanView {
    /// Who served them.
    pub service: String,
    /// How many.
    pub count: u64,
    /// Why, with how often.
    pub why: Vec<(String, u64)>,
}

/// Messages of one kind that are told of without times.
#[derive(Serialize)]
pub struct QueuedView {
    /// Who took them.
    pub service: String,
    /// What was asked.
    pub asked: String,
    /// How many.
    pub count: u64,
}

fn counted(of: &BTreeMap<(String, String), u64>) -> Vec<QueuedView> {
    of.iter()
        .map(|((service, asked), &count)| QueuedView { service: service.clone(), asked: asked.clone(), count })
        .collect()
}

/// Requests that asked to wait until something happens elsewhere: no answer to them is slow.
#[derive(Serialize)]
pub struct AwaitedView {
    /// Who was asked.
    pub service: String,
    /// What was asked.
    pub asked: String,
    /// How many.
    pub count: u64,
    /// Of them, answered: it happened, or the time that they had given was up.
    pub answered: u64,
    /// The longest (ns).
    pub longest_ns: u64,
}

/// A service that requests called and that nobody watches.
#[derive(Serialize)]
pub struct UnwatchedView {
    /// Its address.
    pub service: String,
    /// Calls of requests to it.
    pub calls: u64,
}

/// A rule with how many links it made.
#[derive(Serialize)]
pub struct RuleView {
    /// Rule.
    pub rule: &'static str,
    /// Class.
    pub class: &'static str,
    /// Links.
    pub links: u64,
}

/// What became of the exchanges that sniffers saw.
#[derive(Serialize)]
pub struct OnWireView {
    /// Each counted once, however often it was captured.
    pub exchanges: u64,
    /// Several requests of the same identifier could have made them.
    pub ambiguous: u64,
    /// They bore no identifier, and came from where requests were being worked on.
    pub unwitnessed: u64,
    /// Reported after the request that they belong to was given out.
    pub late: u64,
    /// Decided early, for lack of memory.
    pub given_up: u64,
    /// Without a row that tells of their flow.
    pub without_flow: u64,
}

/// The whole answer.
#[derive(Serialize)]
pub struct RequestsView {
    /// Time recorded (ns). Where recordings do not overlap, their sum; gaps between them are not counted.
    pub span_ns: u64,
    /// Recordings that do not overlap in time, of which `span_ns` is the sum.
    pub recordings: u64,
    /// Requests.
    pub requests: u64,
    /// Kinds, most requests first.
    pub kinds: Vec<KindView>,
    /// Errors that calls of requests were answered with, most frequent first.
    pub call_errors: Vec<CallErrorView>,
    /// Connections that did not come about.
    pub refused: Vec<RefusedView>,
    /// Listeners whose accept queue filled up.
    pub full_queues: Vec<FullQueueView>,
    /// Listeners from which no connection could be taken, since no descriptor was left.
    pub starved: Vec<StarvedView>,
    /// Cgroups whose CPU quotas held processes back, longest first.
    pub throttled: Vec<ThrottledView>,
    /// Processes that took part in requests, or crashed, and did not end well: the most requests left unanswered first.
    pub ended: Vec<EndedView>,
    /// Services whose replies TCP held back when they were written.
    pub held_replies: Vec<HeldRepliesView>,
    /// Services that closed connections without reading what the client sent.
    pub closed_unread: Vec<ClosedUnreadView>,
    /// Messages whose caller is watched but whose request could not be determined.
    pub orphans: Vec<OrphanView>,
    /// Replies to calls of known protocols that do not show whether the call failed (HTTP/2 on a connection from before the recording).
    pub unread_replies: Vec<QueuedView>,
    /// Messages put into queues, lists and topics. What is done about them later is not linked to these requests.
    pub queued: Vec<QueuedView>,
    /// Requests that asked to wait until something happens, and that belong to no other request: they are in no figure above.
    pub awaited: Vec<AwaitedView>,
    /// Services that requests called and that nobody watches, most calls first.
    pub unwatched: Vec<UnwatchedView>,
    /// Requests that only opened a connection for other messages: handshakes (101), tunnels by CONNECT, subscriptions. They are in no figure above.
    pub opened: Vec<QueuedView>,
    /// Evidence: links by rule.
    pub rules: Vec<RuleView>,
    /// What came of the calls that watched services made.
    pub calls: CallsView,
    /// Where a witness on the wire contradicted the rule of another vantage.
    pub disagreements: u64,
    /// What sniffers saw; `None` where there was none.
    pub on_wire: Option<OnWireView>,
    /// Messages that were seen in the folder, of requests or not; only where it is asked about as a whole.
    #[serde(skip)]
    pub messages: u64,
    /// What people call services whose program an interpreter runs.
    pub known_as: Vec<KnownAsView>,
}

/// What came of calls: each is in one class.
#[derive(Serialize)]
pub struct CallsView {
    /// Seen to begin.
    pub begun: u64,
    /// In the path of the request that made them.
    pub linked: u64,
    /// Open: several requests could have made them, or something is missing.
    pub open: u64,
    /// Made when no request that could have was in progress: by the program itself, or after a reply.
    pub own: u64,
    /// In no class: a defect of this program.
    pub unaccounted: u64,
    /// What would have told whose the open ones are, most calls first.
    pub missing: Vec<MissingView>,
}

/// A fact that was not recorded and leaves calls open.
#[derive(Serialize)]
pub struct MissingView {
    /// The fact.
    pub what: &'static str,
    /// Calls that are open for lack of it.
    pub calls: u64,
    /// The programs that made them, most calls first.
    pub programs: Vec<String>,
    /// Of them, those for which `wakepath attach` to the running processes gives the fact.
    pub attachable: Vec<AttachableView>,
    /// What to do.
    pub remedy: &'static str,
}

/// A program that calls are open of, and to which `wakepath attach` helps.
#[derive(Serialize)]
pub struct AttachableView {
    /// Its name.
    pub program: String,
    /// Calls of it that are open.
    pub calls: u64,
    /// The numbers of its processes.
    pub processes: Vec<u32>,
}

impl CallsView {
    fn new(c: &Calls, missing: &BTreeMap<Missing, BTreeMap<String, OpenCalls>>) -> CallsView {
        // those beyond what is kept of one request are left open
        let open = c.open + c.beyond;
        let unaccounted = c.begun.abs_diff(c.linked + open + c.own);
        let view = |(what, of): (&Missing, &BTreeMap<String, OpenCalls>)| {
            let mut programs: Vec<String> = of.keys().cloned().collect();
            programs.sort_by_key(|name| Reverse(of[name].calls));
            let remedy = what.remedy(programs.iter().map(String::as_str));
            let attachable = |name: &String| AttachableView {
                program: name.clone(),
                calls: of[name].calls,
                processes: of[name].processes.iter().copied().filter(|pid| *pid != 0).collect(),
            };
            let attachable = programs.iter().filter(|name| what.comes_by_attaching(name)).map(attachable).collect();
            let fact = what.fact(programs.iter().map(String::as_str));
            MissingView { what: fact, calls: of.values().map(|o| o.calls).sum(), programs, attachable, remedy }
        };
        let mut missing: Vec<MissingView> = missing.iter().map(view).collect();
        missing.sort_by(|a, b| b.calls.cmp(&a.calls).then(a.what.cmp(b.what)));
        CallsView { begun: c.begun, linked: c.linked, open, own: c.own, unaccounted, missing }
    }
}

impl RequestsView {
    /// Whether the kinds with most requests cannot be told apart, since their words were not written.
    pub(crate) fn is_masked(&self) -> bool {
        self.kinds.first().is_some_and(|k| k.asked.contains(MASKED))
    }

    /// From what the analysis found.
    /// `spans`: when anything was recorded, without overlap (ns).
    pub fn new(kinds: &Kinds, report: &Report, spans: &[(i64, i64)]) -> RequestsView {
        let span_ns = spans.iter().map(|(a, b)| b.saturating_sub(*a).max(0) as u64).sum();
        let mut list: Vec<KindView> = kinds.kinds.iter().map(|((s, a), k)| kind_view(s, a, k)).collect();
        list.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.asked.cmp(&b.asked)));
        let mut rules: Vec<RuleView> = report
            .made
            .iter()
            .chain(&report.linked.joined)
            .map(|(r, n)| RuleView { rule: r.name(), class: r.class().name(), links: *n })
            .collect();
        rules.sort_by(|a, b| b.links.cmp(&a.links).then(a.rule.cmp(b.rule)));
        RequestsView {
            span_ns,
            recordings: spans.len() as u64,
            requests: kinds.requests,
            kinds: list,
            call_errors: call_errors::call_errors(kinds),
            refused: kinds
                .refused
                .iter()
                .map(|((process, remote, error), &count)| RefusedView {
                    process: process.clone(),
                    remote: remote.clone(),
                    why: refusals::why(*error),
                    error: *error,
                    count,
                })
                .collect(),
            starved: kinds.starved.iter().map(|(listener, s)| StarvedView::new(listener, s)).collect(),
            throttled: kinds.throttled.iter().map(|(process, t)| ThrottledView::new(process, t)).collect(),
            ended: kinds.ended.iter().map(|(first, ended)| EndedView::new(first, ended)).collect(),
            full_queues: kinds.full_queues.iter().map(|(listener, f)| FullQueueView::new(listener, f)).collect(),
            held_replies: kinds.held_replies.iter().map(|(service, h)| HeldRepliesView::new(service, h)).collect(),
            closed_unread: kinds.closed_unread.iter().map(|(service, c)| ClosedUnreadView::new(service, c)).collect(),
            orphans: kinds
                .orphans
                .iter()
                .map(|(s, (n, why))| OrphanView {
                    service: s.clone(),
                    count: *n,
                    why: why.iter().map(|(h, n)| (h.name().to_owned(), *n)).collect(),
                })
                .collect(),
            unread_replies: counted(&kinds.unread_replies),
            queued: counted(&kinds.queued),
            opened: counted(&kinds.opened),
            awaited: kinds
                .awaited
                .iter()
                .map(|((service, asked), a)| AwaitedView {
                    service: service.clone(),
                    asked: asked.clone(),
                    count: a.count,
                    answered: a.answered,
                    longest_ns: a.longest_ns,
                })
                .collect(),
            unwatched: unwatched(kinds),
            rules,
            calls: CallsView::new(&report.calls, &kinds.missing),
            disagreements: report.disagreements,
            on_wire: Some(&report.on_wire).filter(|w| w.exchanges > 0).map(|w| OnWireView {
                exchanges: w.exchanges,
                ambiguous: w.ambiguous,
                unwitnessed: w.unwitnessed,
                late: w.late,
                given_up: w.given_up,
                without_flow: w.without_flow,
            }),
            messages: 0,
            known_as: kinds
                .known_as
                .iter()
                .filter_map(|(service, name)| Some(KnownAsView { service: service.clone(), name: name.clone()? }))
                .collect(),
        }
    }

    /// Whether every path is whole, but for what came after the recording.
    pub fn is_complete(&self) -> bool {
        self.orphans.is_empty() && self.kinds.iter().all(|k| k.incomplete == k.cut_off)
    }
}

fn unwatched(kinds: &Kinds) -> Vec<UnwatchedView> {
    let mut calls: HashMap<&str, u64> = HashMap::new();
    for (service, tier) in kinds.kinds.values().flat_map(|k| &k.tiers).filter(|(_, t)| t.unwatched && t.depth > 0) {
        *calls.entry(service).or_default() += tier.spans;
    }
    let view = |(service, calls): (&str, u64)| UnwatchedView { service: service.to_owned(), calls };
    let mut all: Vec<UnwatchedView> = calls.into_iter().map(view).collect();
    all.sort_by(|a, b| b.calls.cmp(&a.calls).then_with(|| a.service.cmp(&b.service)));
    all
}

/// What was asked of a tier in `n` requests.
fn asked_view(t: &Tier, n: u64) -> Vec<AskedView> {
    let view = |(asked, a): (&String, &Asked)| AskedView {
        asked: asked.clone(),
        calls_per_request: a.calls as f64 / n as f64,
        requests: a.requests,
        took_ns: a.took_ns / n,
    };
    let mut all: Vec<AskedView> = t.asked.iter().map(view).collect();
    all.sort_by(|a, b| b.took_ns.cmp(&a.took_ns).then_with(|| a.asked.cmp(&b.asked)));
    all.truncate(ASKED_TOLD);
    all
}

impl KindView {
    /// The same call, made again and again for each request, where it takes a part of the time that counts: in a sentence.
    pub fn repeated(&self) -> Option<String> {
        let each = self.tiers.iter().flat_map(|t| t.asked.iter().map(move |a| (t, a)));
        let counts = |a: &AskedView| {
            let is_at_once = a.took_ns > self.mean_ns;
            a.calls_per_request >= REPEATED_MIN
                && a.took_ns as f64 >= REPEATED_SHARE * self.mean_ns as f64
                && !is_at_once
        };
        let (tier, asked) = each.filter(|(_, a)| counts(a)).max_by_key(|(_, a)| a.took_ns)?;
        Some(format!(
            "Each {} at {} makes {:.0} calls of {} at {} on average, which take {} of {}. If they differ in nothing but values \
             (N+1), one call for all would replace {:.0} round trips.",
            self.asked,
            self.service,
            asked.calls_per_request,
            asked.asked,
            tier.service,
            units::duration(asked.took_ns),
            units::duration(self.mean_ns),
            asked.calls_per_request,
        ))
    }
}

fn kind_view(service: &str, asked: &str, k: &Kind) -> KindView {
    let n = k.durations.count().max(1);
    let mean = k.durations.mean().max(1);
    let mut tiers: Vec<(u32, TierView)> = k
        .tiers
        .iter()
        .map(|(name, t)| {
            let view = TierView {
                service: name.clone(),
                spans_per_request: t.spans as f64 / n as f64,
                self_ns: t.self_ns / n,
                self_unsure_ns: t.self_unsure_ns / n,
                queued_ns: t.queued_ns / n,
                arrivals_seen: t.unwatched || t.spans == 0 || t.arrivals_unseen < t.spans,
                arrivals_unseen: t.arrivals_unseen,
                unread_ns: t.unread_ns / n,
                unsent_ns: t.unsent_ns / n,
                connect_ns: t.opening.connect / n,
                handshake_ns: t.opening.handshake / n,
                between_ns: t.between_ns / n,
                after_ns: t.after_ns / n,
                share: (t.self_ns / n) as f64 / mean as f64,
                unwatched: t.unwatched,
                asked: asked_view(t, n),
            };
            (t.depth, view)
        })
        .collect();
    tiers.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| b.1.self_ns.cmp(&a.1.self_ns)));
    KindView {
        service: service.to_owned(),
        asked: asked.to_owned(),
        count: k.count,
        rate_per_s: k.activity.rate_per_s(),
        active_ns: k.activity.active_ns(),
        mean_ns: k.durations.mean(),
        p50_ns: k.durations.quantile(0.5),
        p95_ns: k.durations.quantile(0.95),
        p99_ns: k.durations.quantile(0.99),
        max_ns: k.durations.max(),
        failed: k.failed,
        outcome_unknown: k.outcome_unknown,
        left: k.left,
        left_longest_ns: k.left_longest_ns,
        reset: k.reset,
        cut: k.cut,
        unreplied: k.unreplied,
        unfinished: k.unfinished,
        incomplete: k.incomplete,
        cut_off: k.cut_off,
        leaving: k.leaving,
        why_incomplete: k.gaps.iter().map(|(h, n)| (h.name().to_owned(), *n)).collect(),
        statuses: k.statuses.iter().map(|(s, n)| (*s, *n)).collect(),
        tiers: tiers.into_iter().map(|t| t.1).collect(),
        slowest: k.slowest.iter().map(|(_, id)| format!("{id:016x}")).collect(),
        failed_example: k.failed_example.map(|(_, id)| format!("{id:016x}")),
        first_failed_ns: k.first_failed.map(|at| at.0),
    }
}
