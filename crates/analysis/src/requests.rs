//! Kinds of request: how many, how long, through which tiers, and where their time went.

use crate::activity::Activity;
use crate::connections::{ClosedUnread, HeldReplies};
use crate::each::End;
use crate::ended::Ended;
use crate::histogram::Histogram;
use crate::listeners::{Filled, Starved};
use crate::names::Names;
use crate::served_at::ServedAt;
use crate::spans::{OpeningNs, Timed, lay_out};
use crate::throttled::Throttled;
use std::collections::{BTreeMap, BTreeSet};
use wakepath_causality::Report;
use wakepath_causality::evidence::{Gap, Missing};
use wakepath_causality::exchange::Exchange;
use wakepath_causality::exchange::ExchangeFlag;
use wakepath_causality::path::{Request, Span};
use wakepath_model::ids::{CommonNs, StrId};
use wakepath_model::rows::AskedFor;

/// Most kinds told apart; what comes later is one kind called `(other)`.
pub const KINDS_MAX: usize = 2000;
/// Most tiers told apart in a kind.
const TIERS_MAX: usize = 200;
/// Most errors of calls told apart; what comes later is counted together.
const ERRORS_MAX: usize = 1000;
/// Most things asked of a tier that are told apart; what comes later is one called `(other)`.
const ASKED_MAX: usize = 100;
/// How many of the slowest requests of a kind are remembered.
const SLOWEST: usize = 3;

/// What was asked of a tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// How often.
    pub calls: u64,
    /// In how many requests.
    pub requests: u64,
    /// How long their callers waited before the reply to the request was sent, all together (ns).
    pub took_ns: u64,
}

/// What one tier took of a kind's requests.
#[derive(Clone, Debug, Default)]
pub struct Tier {
    /// Spans in it.
    pub spans: u64,
    /// Time of its own, all requests together (ns).
    pub self_ns: u64,
    /// Of that, in spans some of whose calls may be missing, or of which only the callers tell: a part of it may be others' (ns).
    pub self_unsure_ns: u64,
    /// Spans of watched servers whose arrival at the host was not seen, so that nothing is known of their wait there.
    pub arrivals_unseen: u64,
    /// Time requests waited there before a task took them (ns).
    pub queued_ns: u64,
    /// Time in which its replies found no room, since its clients had not read what came before (ns).
    pub unread_ns: u64,
    /// Time in which it waited for the rest of its requests, which its clients had not sent yet (ns).
    pub unsent_ns: u64,
    /// Time in which connections to it came about, for their first calls (ns).
    pub opening: OpeningNs,
    /// Time between its callers and it (ns).
    pub between_ns: u64,
    /// Time that calls of it went on after the reply of the request that they were made for, or after their caller had left (ns).
    pub after_ns: u64,
    /// Least depth at which it was met.
    pub depth: u32,
    /// Nobody watches there, nor on the way: its time is as its callers saw it.
    pub unwatched: bool,
    /// What was asked there, the requests themselves left out.
    pub asked: BTreeMap<String, Asked>,
}

/// Requests alike.
#[derive(Clone, Debug, Default)]
pub struct Kind {
    /// How many.
    pub count: u64,
    /// When they came.
    pub activity: Activity,
    /// Durations of those that ended before the recording did (ns).
    pub durations: Histogram,
    /// Of them, failed by their reply (5xx, an error).
    pub failed: u64,
    /// Of them, answered, but the reply says neither success nor failure, or was not readable (encrypted, not recorded).
    pub outcome_unknown: u64,
    /// Of them, whose client closed or reset the connection before the reply was complete.
    pub left: u64,
    /// The longest time that such a client waited (ns).
    pub left_longest_ns: u64,
    /// Of them, whose flow was reset before the reply was complete.
    pub reset: u64,
    /// Of them, whose flow ended before the reply was complete.
    pub cut: u64,
    /// Of them, of no known protocol, whose flow ended with no reply: whether one was due is not known.
    pub unreplied: u64,
    /// Of them, those whose end was not recorded.
    pub unfinished: u64,
    /// Of them, with a path known to be incomplete.
    pub incomplete: u64,
    /// Of these, those that lack nothing but what came after the recording.
    pub cut_off: u64,
    /// Of them, with calls to who is not watched: what happened there is not in their paths.
    pub leaving: u64,
    /// Why, with how often.
    pub gaps: BTreeMap<Gap, u64>,
    /// Tiers by name.
    pub tiers: BTreeMap<String, Tier>,
    /// The slowest: duration (ns) and id, slowest first.
    pub slowest: Vec<(u64, u64)>,
    /// The slowest that failed, was refused (4xx), reset, or whose client left: duration (ns) and id.
    pub failed_example: Option<(u64, u64)>,
    /// When the first of those began.
    pub first_failed: Option<CommonNs>,
    /// Statuses with how often.
    pub statuses: BTreeMap<u16, u64>,
}

/// An error that a service replied to a call, or that the call met instead of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallError {
    /// Who replied.
    pub service: String,
    /// What it had been asked for.
    pub asked: String,
    /// The protocol's class of error (a SQLSTATE, `WRONGTYPE`), or a status; empty where the reply only says that it failed.
    /// Or what ended the connection before an answer was complete: `connection reset`, `no complete answer`, `answer not read`.
    pub error: String,
    /// Entry service and kind of the request that it was part of; `None` where that is not known.
    pub kind: Option<(String, String)>,
}

/// Requests that asked to wait until something happens elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Awaited {
    /// How many.
    pub count: u64,
    /// Of them, answered: it happened, or their own time was up.
    pub answered: u64,
    /// The longest (ns), up to its answer or the recording's end.
    pub longest_ns: u64,
}

/// Whether a request did nothing but wait until something happened elsewhere, as a worker's for its next job: that it takes long is
/// not slow, and that it goes on hangs nowhere.
pub fn awaits(r: &Request) -> bool {
    let root = r.spans.first().and_then(|s| s.callee.as_ref().or(s.caller.as_ref()));
    root.is_some_and(|h| h.exchange.awaits())
}

/// Whether a request, whose kind is `asked`, did nothing but open a connection for other messages: a handshake (101), a tunnel by CONNECT, or a
/// subscription.
pub fn opens(r: &Request, asked: &str) -> bool {
    let [root] = &r.spans[..] else { return false };
    root.callee.as_ref().or(root.caller.as_ref()).is_some_and(|h| {
        let is_tunnel = asked.starts_with("CONNECT ") && (200..300).contains(&h.exchange.content.status);
        h.exchange.content.status == 101 || is_tunnel || h.exchange.content.wanted == AskedFor::Messages
    })
}

/// How often a call met an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Met {
    /// Replies with it.
    pub count: u64,
    /// Of them, in requests that were answered without an error.
    pub hidden: u64,
    /// Of them, in requests whose own reply says neither success nor failure, or was not readable.
    pub outcome_unknown: u64,
}

/// All kinds of a recording.
#[derive(Default)]
pub struct Kinds {
    /// By entry service and what was asked.
    pub kinds: BTreeMap<(String, String), Kind>,
    /// Messages whose caller is watched but whose request is not known, by service.
    pub orphans: BTreeMap<String, (u64, BTreeMap<Gap, u64>)>,
    /// Errors that calls of requests were answered with, whatever came of the request.
    pub call_errors: BTreeMap<CallError, Met>,
    /// Replies to calls of known protocols that do not show whether the call failed, by service and what was asked.
    pub unread_replies: BTreeMap<(String, String), u64>,
    /// Connections that did not come about, by who tried, where, and why (Linux's error number, 0 = not known).
    pub refused: BTreeMap<(String, String, i32), u64>,
    /// Listeners whose accept queue filled up, with who listens: name and port.
    pub full_queues: Vec<(String, Filled)>,
    /// Listeners at which accepts failed for want of a descriptor, with their names and ports.
    pub starved: Vec<(String, Starved)>,
    /// Cgroups whose CPU quotas held processes back, each with the process that it held back longest: NAME/PID.
    pub throttled: Vec<(String, Throttled)>,
    /// Processes that did not end well, by program and how: of the first its NAME/PID, and when it ended (ns since 1970).
    pub ended: Vec<((String, i64), Vec<Ended>)>,
    /// Services whose replies TCP held back, with their names and ports.
    pub held_replies: Vec<(String, HeldReplies)>,
    /// Services that closed connections without reading what the client sent, with their names and ports.
    pub closed_unread: Vec<(String, ClosedUnread)>,
    /// Requests that asked to wait until something happens, and that nobody else's request led to, by service and what was asked.
    pub awaited: BTreeMap<(String, String), Awaited>,
    /// Requests that only opened a connection for other messages, by service and what was asked.
    pub opened: BTreeMap<(String, String), u64>,
    /// Messages that put something where others take it up later (a queue, a list, a topic), by service and what was asked.
    pub queued: BTreeMap<(String, String), u64>,
    /// What people call services that an interpreter runs, by name: `gunicorn shop.wsgi`.
    pub known_as: BTreeMap<String, Option<String>>,
    /// What would have told whose calls are that are open, by what it is and by the program that made them.
    pub missing: BTreeMap<Missing, BTreeMap<String, OpenCalls>>,
    /// Requests in all.
    pub requests: u64,
    served_at: ServedAt,
}

/// The name of a request's kind: entry service, and what was asked.
pub fn kind_of(r: &Request, names: &Names<'_>) -> (String, String) {
    let root = &r.spans[0];
    let asked = root.callee.as_ref().or(root.caller.as_ref()).map_or(String::new(), |h| names.asked(h));
    (names.service(root), asked)
}

/// Whether the server failed, by its reply: 5xx, or an error of a protocol without codes. `None` where no reply that says
/// so was read: none came, it is encrypted or of no known protocol, or that part of it was not recorded.
pub fn failed(e: &Exchange) -> Option<bool> {
    let is_known = e.is(ExchangeFlag::Failed) || !e.is(ExchangeFlag::OutcomeUnknown);
    is_known.then_some(e.is(ExchangeFlag::Failed) && (e.content.status >= 500 || e.content.status == 0))
}

/// Whether there is a whole reply that could say how it went.
fn is_answered(e: &Exchange) -> bool {
    e.is(ExchangeFlag::Replied) && !e.is(ExchangeFlag::OneWay)
}

/// Whether nobody knows that an answer was due: none came, and of no known protocol is what was sent.
fn may_be_one_way(e: &Exchange) -> bool {
    e.content.protocol == StrId::EMPTY && !e.is(ExchangeFlag::Replied)
}

/// What a call met whose connection was reset before its answer was complete.
const RESET: &str = "connection reset";
/// What one met whose connection one of its ends closed before: who asked gave up, or who was asked went away.
const UNANSWERED: &str = "no complete answer";
/// What one met whose caller closed the connection while the server worked on it.
const GIVEN_UP: &str = "caller left before the answer";
/// What one met whose server answered in full, before or after who asked closed without reading that.
const UNREAD: &str = "answer not read";

/// Whether a call's connection ended before its answer was complete, where the protocol owes one.
pub(crate) fn is_unanswered(e: &Exchange) -> bool {
    let is_owed = e.content.protocol != StrId::EMPTY
        && !e.is(ExchangeFlag::OneWay)
        && !e.is(ExchangeFlag::UnclearBorders)
        && !e.is_by_direction();
    is_owed && (e.is(ExchangeFlag::Reset) || e.is(ExchangeFlag::Cut)) && !e.is(ExchangeFlag::Unfinished)
}

/// Whether the server of a call was still at it when its caller closed or reset the connection.
fn has_caller_left(span: &Span) -> bool {
    span.callee.as_ref().is_some_and(|h| End::of(&h.exchange) == End::ClientLeft)
}

/// Whether the reply says that the server failed.
pub fn has_failed(e: &Exchange) -> bool {
    failed(e) == Some(true)
}

/// Whether a request failed by its reply, was reset or cut, or left by its client: what `requests` counts as errors.
pub fn went_wrong(e: &Exchange) -> bool {
    let is_wrong_end = match End::of(e) {
        End::ClientLeft | End::Reset => true,
        End::Cut => !may_be_one_way(e),
        End::Answered | End::Unfinished => false,
    };
    has_failed(e) || is_wrong_end
}

impl Kind {
    /// Connections that did not come about while a span was served: a tier of their own, which no request reached.
    fn tried_in_vain(&mut self, span: &Span, t: &Timed, names: &Names<'_>) {
        for f in &span.refusals {
            let (from, to) = (f.tried.0.max(t.start).0, f.tried.1.min(t.end).0);
            let place = names.asked_for(t.host, &f.place);
            if from < to && (self.tiers.len() < TIERS_MAX || self.tiers.contains_key(&place)) {
                let tier = self.tiers.entry(place).or_insert_with(|| Tier { depth: t.depth + 1, ..Tier::default() });
                tier.opening.connect += to - from;
            }
        }
    }

    /// Counts what a request's path lacks: at which span, and why.
    fn lacks(&mut self, gaps: &[(u32, Gap)]) {
        self.incomplete += u64::from(!gaps.is_empty());
        self.cut_off += u64::from(!gaps.is_empty() && gaps.iter().all(|h| h.1 == Gap::AfterRecording));
        for (_, gap) in gaps {
            *self.gaps.entry(*gap).or_default() += 1;
        }
    }

    /// Counts how a request ended that began at `at`; `this`: its duration (ns) and id.
    fn ended(&mut self, e: &Exchange, this: (u64, u64), at: CommonNs) {
        self.failed += u64::from(has_failed(e));
        self.outcome_unknown += u64::from(is_answered(e) && failed(e).is_none());
        let end = End::of(e);
        match end {
            End::Answered => {}
            End::ClientLeft => {
                let began =
                    if e.request.arrived.0 != 0 { e.request.arrived.min(e.request.began) } else { e.request.began };
                self.left += 1;
                self.left_longest_ns = self.left_longest_ns.max(e.client.left.0.saturating_sub(began.0));
            }
            End::Reset => self.reset += 1,
            End::Unfinished => self.unfinished += 1,
            End::Cut if may_be_one_way(e) => self.unreplied += 1,
            End::Cut => self.cut += 1,
        }
        *self.statuses.entry(e.content.status).or_default() += 1;
        let is_without_reply = matches!(end, End::ClientLeft | End::Reset);
        let went_wrong = has_failed(e) || is_without_reply || (400..500).contains(&e.content.status);
        if went_wrong {
            self.first_failed = Some(self.first_failed.map_or(at, |first| first.min(at)));
        }
        if went_wrong && self.failed_example.is_none_or(|f| f.0 < this.0) {
            self.failed_example = Some(this);
        }
    }
}

impl Tier {
    /// Adds the times of a span.
    fn add(&mut self, span: &Span, t: &Timed, is_unsure: bool) {
        self.spans += 1;
        self.self_ns += t.self_ns;
        self.self_unsure_ns += if is_unsure { t.self_ns } else { 0 };
        self.queued_ns += t.queued_ns;
        self.arrivals_unseen += u64::from(span.callee.as_ref().is_some_and(|h| h.exchange.request.arrived.0 == 0));
        self.unread_ns += t.unread_ns;
        self.unsent_ns += t.unsent_ns;
        self.opening.connect += t.opening.connect;
        self.opening.handshake += t.opening.handshake;
        self.between_ns += t.between_ns.unwrap_or(0);
        self.after_ns += t.after_ns;
    }

    /// Counts what one request asked here.
    fn was_asked(&mut self, what: String, calls: u64, took_ns: u64) {
        let is_known = self.asked.len() < ASKED_MAX || self.asked.contains_key(&what);
        let of = self.asked.entry(if is_known { what } else { "(other)".into() }).or_default();
        of.calls += calls;
        of.requests += 1;
        of.took_ns += took_ns;
    }
}

/// Calls of a program that are open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenCalls {
    /// How many.
    pub calls: u64,
    /// The numbers of the processes that made them.
    pub processes: BTreeSet<u32>,
}

impl Kinds {
    /// Adds what calls lack that are open.
    pub fn add_missing(&mut self, report: &Report, names: &Names<'_>) {
        for (&(missing, host, leader), calls) in &report.missing {
            let program = names.process(host, leader).to_owned();
            let of = self.missing.entry(missing).or_default().entry(program).or_default();
            of.calls += calls;
            of.processes.insert(names.tgid(host, leader));
        }
    }

    /// Adds the errors that calls were answered with; of a request itself its kind counts them.
    fn add_errors(&mut self, r: &Request, names: &Names<'_>) {
        let root = r.spans[0].callee.as_ref().or(r.spans[0].caller.as_ref());
        let outcome = root.map(|h| &h.exchange).filter(|e| r.orphan.is_none() && is_answered(e)).map(failed);
        for span in r.spans.iter().skip(usize::from(r.orphan.is_none())) {
            self.add_unread(span, names);
            let answered = span.callee.as_ref().or(span.caller.as_ref()).filter(|h| has_failed(&h.exchange));
            let asked = span.caller.as_ref().filter(|h| is_unanswered(&h.exchange));
            let Some(half) = answered.or(asked) else { continue };
            let e = &half.exchange;
            let is_told =
                span.callee.as_ref().is_some_and(|h| is_answered(&h.exchange) && !h.exchange.is(ExchangeFlag::Cut));
            let error = match names.text(half.host, e.content.detail) {
                _ if answered.is_none() && has_caller_left(span) => GIVEN_UP.to_owned(),
                _ if answered.is_none() && e.is(ExchangeFlag::Reset) => RESET.to_owned(),
                _ if answered.is_none() => if is_told { UNREAD } else { UNANSWERED }.to_owned(),
                "" if e.content.status != 0 => e.content.status.to_string(),
                class => class.to_owned(),
            };
            let kind = r.orphan.is_none().then(|| kind_of(r, names));
            let mut key = CallError { service: names.service(span), asked: names.asked(half), error, kind };
            if self.call_errors.len() >= ERRORS_MAX && !self.call_errors.contains_key(&key) {
                key = CallError { service: "(other)".into(), ..CallError::default() };
            }
            let met = self.call_errors.entry(key).or_default();
            met.count += 1;
            met.hidden += u64::from(outcome == Some(Some(false)));
            met.outcome_unknown += u64::from(outcome == Some(None));
        }
    }

    /// Counts the reply to a call of a known protocol that does not show whether the call failed.
    fn add_unread(&mut self, span: &Span, names: &Names<'_>) {
        let Some(half) = span.callee.as_ref().or(span.caller.as_ref()) else { return };
        let e = &half.exchange;
        if is_answered(e) && e.content.protocol != StrId::EMPTY && failed(e).is_none() {
            let what = (names.service(span), names.asked(half));
            if self.unread_replies.len() < KINDS_MAX || self.unread_replies.contains_key(&what) {
                *self.unread_replies.entry(what).or_default() += 1;
            }
        }
    }

    /// Adds a request that waited until something happened.
    fn add_awaited(&mut self, r: &Request, mut key: (String, String)) {
        if self.awaited.len() >= KINDS_MAX && !self.awaited.contains_key(&key) {
            key = ("(other)".into(), "(other)".into());
        }
        let root = r.spans[0].callee.as_ref().or(r.spans[0].caller.as_ref());
        let awaited = self.awaited.entry(key).or_default();
        awaited.count += 1;
        awaited.answered += u64::from(root.is_some_and(|h| h.exchange.is(ExchangeFlag::Replied)));
        awaited.longest_ns = awaited.longest_ns.max(lay_out(r).first().map_or(0, |t| t.duration_ns()));
    }

    /// Counts a request apart that did no work: it only waited for something, or opened a connection. Gives whether it is one.
    fn has_no_work(&mut self, r: &Request, key: &(String, String)) -> bool {
        if awaits(r) {
            self.add_awaited(r, key.clone());
            return true;
        }
        let is_opened = opens(r, &key.1) && (self.opened.len() < KINDS_MAX || self.opened.contains_key(key));
        if is_opened {
            *self.opened.entry(key.clone()).or_default() += 1;
        }
        is_opened
    }

    /// Counts a message that could not be assigned to a request.
    fn add_orphan(&mut self, gap: Gap, service: String) {
        let (count, gaps) = self.orphans.entry(service).or_default();
        *count += 1;
        *gaps.entry(gap).or_default() += 1;
    }

    /// Adds a request.
    pub fn add(&mut self, r: &Request, names: &Names<'_>) {
        self.add_errors(r, names);
        if let Some(gap) = r.orphan {
            return self.add_orphan(gap, names.service(&r.spans[0]));
        }
        let mut key = kind_of(r, names);
        if self.has_no_work(r, &key) {
            return;
        }
        self.requests += 1;
        if self.kinds.len() >= KINDS_MAX && !self.kinds.contains_key(&key) {
            key.1 = "(other)".into();
        }
        let kind = self.kinds.entry(key).or_default();
        let timed = lay_out(r);
        let Some(first) = timed.first() else { return };
        let (duration, began) = (first.duration_ns(), names.common(first.host, first.start));
        kind.count += 1;
        kind.activity.add(began, names.common(first.host, first.end));
        let root = &r.spans[0];
        if let Some(e) = root.callee.as_ref().or(root.caller.as_ref()).map(|h| &h.exchange) {
            kind.ended(e, (duration, r.id), began);
        }
        let gaps = r.gaps();
        kind.lacks(&gaps);
        self.served_at.learn(r);
        let served_at = &self.served_at;
        let leaves = |(s, t): (&Span, &Timed)| s.parent.is_some() && served_at.is_unwatched(s, t);
        kind.leaving += u64::from(r.spans.iter().zip(&timed).any(leaves));
        // how long it takes is not known, nor what of that its tiers take
        if r.is_in_progress() {
            return;
        }
        kind.durations.add(duration);
        if kind.slowest.len() < SLOWEST || kind.slowest.last().is_some_and(|s| s.0 < duration) {
            kind.slowest.push((duration, r.id));
            kind.slowest.sort_unstable_by(|a, b| b.cmp(a));
            kind.slowest.truncate(SLOWEST);
        }
        let mut asked: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
        for t in &timed {
            let span = &r.spans[t.index as usize];
            let may_lack_calls = gaps.iter().any(|&(at, gap)| at == t.index && gap.hides_calls());
            let is_unsure = may_lack_calls || served_at.is_untold(span, t);
            let mut name = names.service(span);
            if let Some(half) = span.callee.as_ref().or(span.caller.as_ref()).filter(|h| h.exchange.content.is_queued())
            {
                let what = (name.clone(), names.asked(half));
                if self.queued.len() < KINDS_MAX || self.queued.contains_key(&what) {
                    *self.queued.entry(what).or_default() += 1;
                }
            }
            if kind.tiers.len() >= TIERS_MAX && !kind.tiers.contains_key(&name) {
                name = "(other)".into();
            }
            if let Some(half) = span.callee.as_ref().or(span.caller.as_ref()) {
                // the thread that served one request may not be known, and that of another one is
                if span.callee.is_some() && self.known_as.get(&name).is_none_or(Option::is_none) {
                    let task = names.serves(half.host, half.exchange.request.task, half.place.lport);
                    self.known_as.insert(name.clone(), names.known_as(half.host, task));
                }
                if span.parent.is_some() {
                    let seen = span.caller.as_ref().map_or(half, |caller| caller);
                    let took = seen.exchange.duration_ns().saturating_sub(t.after_ns);
                    let of = asked.entry((name.clone(), names.asked(half))).or_default();
                    *of = (of.0 + 1, of.1 + took);
                }
            }
            kind.tried_in_vain(span, t, names);
            let fresh = !kind.tiers.contains_key(&name);
            let tier = kind.tiers.entry(name).or_default();
            tier.add(span, t, is_unsure);
            tier.depth = if fresh { t.depth } else { tier.depth.min(t.depth) };
            tier.unwatched = served_at.is_unwatched(span, t);
        }
        for ((name, what), (calls, took_ns)) in asked {
            if let Some(tier) = kind.tiers.get_mut(&name) {
                tier.was_asked(what, calls, took_ns);
            }
        }
    }
}
