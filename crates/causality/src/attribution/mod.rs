//! Inside a process: which request made which call.
//!
//! Whoever could have made a call is a candidate ([`candidates`]); rules exclude candidates, one file a rule ([`rules`]); the
//! one that is left made it. Where several are left the call is open, and each of them is in doubt.

mod bearers;
mod candidates;
mod carriers;
mod claims;
mod domain;
mod exclusion;
mod facts;
mod given;
mod helper;
mod job;
mod members;
mod replies;
mod request_set;
mod rules;
mod state;
mod steps;
mod unfollowed;
mod waits;
mod worker;

use crate::conditions;
use crate::evidence::{Class, Gap, Missing, Rule};
use crate::exchange::{ExId, Exchange, ExchangeFlag, Side, Slab};
use crate::finished::{Calls, Done, Finished, Parent};
use crate::options::Options;
use crate::process::ProcessId;
use crate::process::known::Does;
use crate::proof::{Outcome, Proof};
use crate::roles::Roles;
use candidates::{Verdict, judge};
use claims::{Claim, Claimed};
use exclusion::{ExclusionRule, Question};
use facts::Facts;
use helper::GRACE_NS;
use request_set::{Candidates, SetId};
use rustc_hash::{FxBuildHasher, FxHashMap};
use state::{CallFlag, Progress, RequestFlag, State};
use std::collections::VecDeque;
use std::hash::BuildHasher as _;
use wakepath_model::ids::{EndpointId, HostId, MonoNs, TaskId};
use wakepath_model::rows::{AskedFor, HandoverRow, InputKind, InputRow, Life, PollRow, QueuedHow};
use wakepath_model::rows::{StreamRow, Strength, TaskRow};
use worker::Worker;

/// How long an exchange whose end only a turn shows is waited for: a bound of memory. It ends at its last byte either way, and what
/// goes on after that time is reported as missing.
const IDLE_NS: u64 = 5_000_000_000;
/// How long the call of a task that replies waits for that task's next reply: a bound of memory, after which the call stays open.
const CLAIM_NS: u64 = 60_000_000_000;
/// Most calls kept for one request.
const CALLS_MAX: usize = 100_000;
/// io_uring_enter: where an io_uring loop waits.
const IO_URING_ENTER: u16 = 426;

/// Imports do not say in which system call a task waited: it may have been one of [`IDLE`].
const NO_SYSCALL: u16 = 0xffff;
/// System calls in which a task waits for something to do, and may wait no longer than until a time: poll, nanosleep,
/// select, futex, clock_nanosleep, epoll_wait, pselect6, ppoll, epoll_pwait.
const IDLE: [u16; 9] = [7, 35, 23, 202, 230, 232, 270, 271, 281];

/// Exchanges that wait to be handed on, in order of time.
#[derive(Default)]
struct Outbox {
    /// Ended.
    waiting: VecDeque<(MonoNs, ExId)>,
    /// With a reply of which only something else shows that it is over.
    idle: VecDeque<(MonoNs, ExId)>,
    /// Calls answered as a request was, since then.
    alike: VecDeque<(MonoNs, ExId)>,
    to_release: Vec<ExId>,
}

/// What came of calls.
#[derive(Default)]
pub struct Tally {
    /// What came of calls.
    pub calls: Calls,
    /// Links by rule.
    pub links: FxHashMap<Rule, u64>,
    /// What would have told whose the open calls are.
    pub missing: FxHashMap<(Missing, ProcessId), u64>,
}

/// Follows the requests of all processes of one host.
pub struct Attribution<'a, F: Finished> {
    facts: Facts<'a>,
    outbox: Outbox,
    host: HostId,
    /// [`rules::EXCLUSIONS`], in whatever order.
    rules: Vec<ExclusionRule>,
    /// Proofs of calls that are not handed on yet.
    proofs: FxHashMap<ExId, Proof>,
    /// Refused connections that requests waited for, so far.
    refusals: u64,
    /// Where finished exchanges go.
    pub out: F,
    /// What came of calls.
    pub tally: Tally,
}

impl<'a, F: Finished> Attribution<'a, F> {
    /// A linker of one host that knows how its tasks work.
    pub fn new(roles: &'a Roles, host: HostId, options: Options, out: F) -> Self {
        let mut rules = rules::EXCLUSIONS.to_vec();
        if let Some(seed) = options.order {
            rules.sort_by_key(|r| FxBuildHasher.hash_one((seed, r.name)));
        }
        Attribution {
            facts: Facts::new(roles, options),
            outbox: Outbox::default(),
            host,
            rules,
            proofs: FxHashMap::default(),
            refusals: 0,
            out,
            tally: Tally::default(),
        }
    }

    /// A poll returned.
    pub fn poll(&mut self, r: &PollRow) {
        self.facts.last_poll = (r.task, r.entry.0.saturating_add(r.timeout_ns));
        let is_over = |w: &&Worker| w.given.is_isolated() && (r.ready != 0 || r.timeout_ns != 0);
        let left = self.facts.tasks.get(r.task).filter(is_over).and_then(|w| w.fragment.of);
        if let Some(x) = left {
            // nothing was done for it in its own fragment: it waits for something that is no input of its own
            let r = &mut self.facts.state_mut(x).request;
            r.flags.set(RequestFlag::PutOff, r.outstanding == 0 && r.calls.is_empty());
            self.facts.puts_off |= r.flags.has(RequestFlag::PutOff);
        }
        if self.facts.knows(r.task) {
            self.facts.tasks.or_default(r.task).polled(r);
        }
    }

    /// The library vantage handed an input to a task, after the row of the poll that returned it.
    pub fn input(&mut self, xs: &Slab, r: &InputRow) {
        self.facts.given_at_rest(xs, r);
        if !self.facts.knows(r.task) || r.kind == InputKind::Else {
            return;
        }
        let of = if r.isolated != 0 && r.kind == InputKind::Write {
            self.facts.writes_for(xs, r.flow, r.task)
        } else {
            None
        };
        let w = self.facts.tasks.or_default(r.task);
        w.given(r);
        if let Some(x) = of.filter(|_| w.given.is_isolated()) {
            w.given.may_write(r.flow, x);
            w.enter(x, r.at);
        }
    }

    /// A goroutine got an item from another.
    pub fn handed_over(&mut self, xs: &Slab, r: &HandoverRow) {
        if self.facts.roles.is_named_late(r.task) {
            return self.facts.woken_to_call(r);
        }
        self.facts.handed_over_item(xs, r);
    }

    /// A logical task serves a stream.
    pub fn serves_stream(&mut self, xs: &Slab, r: &StreamRow) {
        self.facts.lineage.serves(xs, r);
    }

    /// A task was made.
    pub fn task(&mut self, xs: &Slab, r: &TaskRow) {
        self.facts.lineage.task(xs, r);
        // what a kept thread waits for amid a task, it may have waited for in others: that it never waited for work would not show
        if r.what == Life::Fork && r.parent_strength == Strength::None {
            let of = self.facts.tasks.get(r.parent).and_then(|p| p.fragment.of.or(p.held.only()));
            if let Some(x) = of.filter(|&x| self.facts.is_open(xs, x)) {
                self.facts.tasks.or_default(r.task).born_of = Some(x);
            }
        }
        if r.what == Life::Exit {
            self.facts.jobs.remove(&r.task);
            let claims = self.facts.claim_lifetime(xs, r);
            self.claim(xs, claims);
        }
        if r.what == Life::Exit
            && let Some(w) = self.facts.tasks.get(r.task)
            && w.held.is_unused()
            && w.segment.is_empty()
        {
            self.facts.tasks.remove(r.task);
        }
    }

    /// Who made a call that `task` makes now on a flow; else who may have made it.
    fn decide(&self, xs: &Slab, task: TaskId, flow: EndpointId, at: MonoNs) -> (Parent, Candidates) {
        self.answer(Question::new(&self.facts, xs, task, at).on(flow))
    }

    /// The same of a call that is asked about.
    fn answer(&self, q: Question<'_>) -> (Parent, Candidates) {
        let at = q.at;
        if q.worker.is_some_and(|w| w.unknown_work) {
            return (Parent::Open(Gap::Borders), q.may_call(q.process));
        }
        match judge(&q, &self.rules, self.uses_habits()) {
            Verdict::By(x, rule) => self.checked(&q, x, rule),
            _ if q.may_be_told_later() => (Parent::Pending, q.open_candidates()),
            // the request that it works on may be among what was lost
            Verdict::Own if self.facts.roles.is_lossy(MonoNs(0), at) && self.facts.roles.serves(q.process, at) => {
                (Parent::Open(Gap::Losses), q.all_of(SetId::Open(q.process), |_| true))
            }
            Verdict::Own if let Some(x) = q.answered_by_turn() => {
                (Parent::Open(Gap::Turns), Candidates::these([x].into_iter().collect()))
            }
            Verdict::Own => (Parent::Root, Candidates::default()),
            Verdict::Open(gap, left) => (Parent::Open(gap), left),
        }
    }

    /// Whether links may rest on what a process was never seen to do.
    fn uses_habits(&self) -> bool {
        !self.facts.options.refuses_habits
    }

    /// Keeps the proof of a call that somebody asks about.
    fn prove(&mut self, xs: &Slab, y: ExId, on: EndpointId, at: MonoNs, outcome: Outcome) {
        let e = xs.get(y);
        if !self.is_asked(e) {
            return;
        }
        let failed = conditions::failed();
        let q = Question::new(&self.facts, xs, e.request.actor, at).on(on).carrying(&e.content);
        let (candidates, more) = candidates::explain(&q, &self.rules, self.uses_habits());
        let (flow, start, task) = (e.flow, e.request.start, e.request.actor);
        self.proofs.insert(y, Proof { flow, start, task, at, candidates, more, outcome, later: None, failed });
    }

    /// Whether somebody asks how a call is known.
    fn is_asked(&self, e: &Exchange) -> bool {
        let explain = self.facts.options.explain.as_ref();
        explain.is_some_and(|explain| (explain.is_asked)(self.host, e.flow, e.request.start))
    }

    /// What rules make of a task's calls that hear of it later; conditions that do not hold are kept with the proofs of its open calls.
    fn watched<T>(&mut self, task: TaskId, claim: impl FnOnce(&mut Facts<'a>) -> T) -> T {
        let is_of = |p: &&mut Proof| p.task == task && p.later.is_none() && p.is_undecided();
        if self.proofs.values_mut().find(is_of).is_some() {
            conditions::watch();
        }
        let claims = claim(&mut self.facts);
        let failed = conditions::failed();
        for proof in self.proofs.values_mut().filter(is_of) {
            let new: Vec<_> = failed.iter().filter(|c| !proof.failed.contains(c)).copied().collect();
            proof.failed.extend(new);
        }
        claims
    }

    /// A request that made a call, unless what was lost speaks against it.
    fn checked(&self, q: &Question, x: ExId, rule: Rule) -> (Parent, Candidates) {
        let e = q.xs.get(x);
        let gap = match () {
            () if e.is(ExchangeFlag::UnclearBorders) => Gap::Borders,
            // what was never seen of others may be this one's, which is over
            () if e.is_unpaired() && rule.class() == Class::ByHabit => Gap::Turns,
            () if self.facts.roles.is_lossy(e.request.taken, q.at) => Gap::Losses,
            () => return (Parent::Of(x, rule), Candidates::default()),
        };
        // its own end may be among what was missed, and the call another's
        let mut candidates = q.may_call(self.facts.state(x).process);
        let is_in = candidates.set.is_some_and(|scope| self.facts.is_member(x, scope));
        if !is_in && !candidates.few.contains(&x) {
            candidates.few.push(x);
        }
        (Parent::Open(gap), candidates)
    }

    fn link(&mut self, xs: &Slab, y: ExId, x: ExId, rule: Rule) {
        self.facts.resolve(xs, y);
        if let Some(proof) = self.proofs.get_mut(&y).filter(|p| p.is_undecided()) {
            proof.later = Some((rule, xs.get(y).reply.ended));
        }
        // rules that hear of it later are asked of what is undecided alone
        let before = self.facts.state_mut(y).call.parent.replace(Parent::Of(x, rule));
        debug_assert!(!matches!(before, Some(Parent::Of(..))), "{rule} overrules {before:?}");
        let s = self.facts.state(y);
        let is_under_way = !s.flags.has(Progress::Closed)
            && !s.call.flags.has(CallFlag::GivenUp)
            && !Facts::is_implicitly_ended(xs, y);
        self.facts.state_mut(y).call.flags.set(CallFlag::Counted, is_under_way);
        let r = &mut self.facts.state_mut(x).request;
        // who does what it waits for, or asks to be told of, is not known
        r.flags.add_if(RequestFlag::Unfollowed, xs.get(y).content.wanted != AskedFor::Answer);
        let is_beyond = r.calls.len() >= CALLS_MAX;
        if !is_beyond {
            r.calls.push(y);
        }
        r.flags.add_if(RequestFlag::Overflow, is_beyond);
        if is_under_way {
            self.facts.change(x, |r| r.outstanding += 1);
        }
        self.tally.calls.beyond += u64::from(is_beyond);
        *self.tally.links.entry(rule).or_default() += 1;
    }

    /// A call is not known to be the request's that it was given to: it may also be of these.
    fn dispute(&mut self, xs: &Slab, y: ExId, before: ExId, mut candidates: Candidates) {
        self.no_longer_outstanding(xs, y, before);
        self.facts.state_mut(y).call.parent = Some(Parent::Open(Gap::Ambiguous));
        // it goes no more with the one that had it
        self.facts.state_mut(before).request.calls.retain(|call| *call != y);
        if self.facts.state(y).flags.has(Progress::Closed) {
            let last = self.outbox.waiting.back().map_or(MonoNs(0), |(at, _)| *at);
            self.outbox.waiting.push_back((last.max(xs.get(y).reply.ended), y));
        }
        if let Some(proof) = self.proofs.get_mut(&y) {
            (proof.outcome, proof.later) = (Outcome::Open(Gap::Ambiguous), None);
        }
        candidates.few.retain(|x| self.facts.is_undelivered(xs, *x));
        self.facts.doubt(xs, y, candidates, false);
    }

    /// The requests of a call's process that are open, or were when it was made and are not handed on yet.
    fn open_since(&self, xs: &Slab, y: ExId) -> Candidates {
        let (e, process) = (xs.get(y), self.facts.state(y).process);
        let mut candidates = Question::new(&self.facts, xs, e.request.actor, e.request.began).open_candidates();
        let was_open = |x: &ExId| {
            let is_its = xs.is_live(*x) && xs.get(*x).side == Side::Server && self.facts.state(*x).process == process;
            is_its && xs.get(*x).reply.ended >= e.request.began
        };
        candidates.few.extend(self.outbox.waiting.iter().map(|(_, x)| *x).filter(was_open));
        candidates
    }

    /// A call is over, or may be: its request `x` waits for it no more.
    fn no_longer_outstanding(&mut self, xs: &Slab, y: ExId, x: ExId) {
        if self.facts.state_mut(y).call.flags.take(CallFlag::Counted) && xs.is_live(x) {
            self.facts.change(x, |r| r.outstanding = r.outstanding.saturating_sub(1));
        }
    }

    /// What a later fact says of calls.
    fn claim(&mut self, xs: &Slab, claims: impl IntoIterator<Item = Claim>) {
        for Claim { call, claimed } in claims {
            match claimed {
                Claimed::By(_, rule) if rule.class() == Class::ByHabit && !self.uses_habits() => {}
                Claimed::By(x, rule) => self.link(xs, call, x, rule),
                Claimed::Disputed(x, before) => {
                    self.dispute(xs, call, before, Candidates::these([x, before].into_iter().collect()));
                }
                Claimed::Anyones(before) => self.dispute(xs, call, before, self.open_since(xs, call)),
                Claimed::Lost => self.facts.state_mut(call).call.parent = Some(Parent::Open(Gap::Losses)),
                Claimed::LostFrom(x) => self.facts.state_mut(x).request.flags.add(RequestFlag::Lossy),
            }
        }
    }

    fn take_input(&mut self, xs: &Slab, x: ExId, task: TaskId, at: MonoNs) {
        let role = self.facts.roles.role(task);
        if !role.has(Does::Take) && !role.has(Does::ReplyForOthers) {
            // a helper works for whoever holds the request, and goes on to another's without a sign
            return;
        }
        self.facts.handed_over(xs, x, task);
        self.facts.tasks.or_default(task).enter(x, at);
    }

    /// Time went on to `now`: gives away what can no longer change. Returns exchanges whose places can be released.
    pub fn advance(&mut self, xs: &Slab, now: MonoNs) -> Vec<ExId> {
        self.claim_same_replies(xs, now);
        while let Some(&(at, x)) = self.outbox.waiting.front() {
            if at.0 + GRACE_NS > now.0 {
                break;
            }
            self.outbox.waiting.pop_front();
            if self.may_still_be_claimed(xs, x, now) {
                self.outbox.waiting.push_back((now, x));
                continue;
            }
            self.give(xs, x);
        }
        while let Some(&(at, x)) = self.outbox.idle.front() {
            if at.0 + IDLE_NS > now.0 {
                break;
            }
            self.outbox.idle.pop_front();
            if self.facts.is_open(xs, x) && self.facts.is_undelivered(xs, x) && xs.get(x).reply.ended == at {
                self.give(xs, x);
            }
        }
        std::mem::take(&mut self.outbox.to_release)
    }

    /// A call of a task that has not replied since: its next reply will tell whose it was. (What a reply did not claim, none will: the
    /// request that it may be of is handed on soon.)
    fn may_still_be_claimed(&self, xs: &Slab, y: ExId, now: MonoNs) -> bool {
        if !xs.is_live(y) || self.facts.state(y).call.parent != Some(Parent::Pending) {
            return false;
        }
        let e = xs.get(y);
        let worker = self.facts.tasks.get(e.request.actor);
        let is_unclaimed = |w: &Worker| w.segment.contains(&y);
        (self.facts.roles.role(e.request.actor).has(Does::ReplyForOthers) && worker.is_some_and(is_unclaimed)
            || worker.and_then(|w| w.born_of).is_some_and(|x| self.facts.is_undelivered(xs, x))
            || self.facts.is_being_completed(xs, y))
            && e.reply.ended.0 + CLAIM_NS > now.0
    }

    fn resolve(&mut self, xs: &Slab, y: ExId) {
        if let Some(x) = self.watched(xs.get(y).request.actor, |facts| facts.completed(xs, y))
            && self.facts.is_undelivered(xs, x)
        {
            if self.facts.roles.is_lossy(xs.get(x).request.taken, xs.get(y).reply.ended) {
                self.facts.state_mut(y).call.parent = Some(Parent::Open(Gap::Losses));
            } else {
                self.link(xs, y, x, Rule::Completion);
            }
        }
        if self.claim_same_reply(xs, y) || self.facts.state(y).call.parent != Some(Parent::Pending) {
            return;
        }
        // that its task is one to which requests are handed may have shown later
        let is_handed_work = self.facts.is_handed_work(xs.get(y).request.actor);
        let call = &self.facts.state(y).call;
        if let Some(x) = call.candidates.as_ref().and_then(|s| s.only())
            && call.flags.has(CallFlag::OneCandidate)
            && is_handed_work
            && self.facts.is_undelivered(xs, x)
            && !self.facts.roles.is_lossy(xs.get(x).request.taken, xs.get(y).request.began)
        {
            return self.link(xs, y, x, Rule::Sole);
        }
        self.facts.state_mut(y).call.parent = Some(Parent::Open(Gap::Ambiguous));
    }

    /// Hands an exchange on. A client's goes with the request that made it, where there is one.
    fn give(&mut self, xs: &Slab, x: ExId) {
        if !self.facts.is_undelivered(xs, x) {
            if xs.is_live(x) && self.facts.state(x).flags.has(Progress::Closed) {
                self.release(x);
            }
            return;
        }
        let e = xs.get(x).clone();
        self.facts.reply_stays_unread(xs, x);
        if e.side == Side::Client {
            self.resolve(xs, x);
            match self.facts.state(x).call.parent {
                // goes with its request
                Some(Parent::Of(p, _)) if self.facts.is_undelivered(xs, p) => {}
                Some(Parent::Of(..)) => self.hand(xs, e, Vec::new(), Some(Gap::Borders), false, x),
                Some(Parent::Open(h)) => self.hand(xs, e, Vec::new(), Some(h), false, x),
                _ => self.hand(xs, e, Vec::new(), None, true, x),
            }
            return;
        }
        let calls = std::mem::take(&mut self.facts.state_mut(x).request.calls);
        for &y in &calls {
            self.resolve(xs, y);
        }
        let mut with = Vec::with_capacity(calls.len());
        for y in calls {
            let Some(Parent::Of(p, rule)) = self.facts.state(y).call.parent else { continue };
            if p != x {
                continue;
            }
            self.facts.reply_stays_unread(xs, y);
            with.push((xs.get(y).clone(), rule));
            self.tally.calls.linked += 1;
            self.facts.state_mut(y).flags.add(Progress::Given);
            if self.facts.state(y).flags.has(Progress::Closed) {
                self.release(y);
            }
        }
        self.hand(xs, e, with, None, false, x);
    }

    fn hand(
        &mut self,
        xs: &Slab,
        exchange: Exchange,
        calls: Vec<(Exchange, Rule)>,
        parent: Option<Gap>,
        is_root_call: bool,
        x: ExId,
    ) {
        if let (Side::Client, Some(why)) = (exchange.side, parent) {
            let missing = Question::new(&self.facts, xs, exchange.request.actor, exchange.request.began).missing(why);
            let process = self.facts.state(x).process;
            *self.tally.missing.entry((missing, process)).or_default() += 1;
        }
        match (exchange.side, is_root_call) {
            (Side::Server, _) => {}
            (Side::Client, true) => self.tally.calls.own += 1,
            (Side::Client, false) => self.tally.calls.open += 1,
        }
        let (doubts, open_calls) = self.facts.doubts_of(x);
        let State { process, request, .. } = self.facts.state(x);
        let (process, waited) = (*process, request.flags.has(RequestFlag::DoneElsewhere));
        let may_have_waited = exchange.side == Side::Server && self.facts.domain_mut(process).elsewhere.counts(waited);
        let s = self.facts.state_mut(x);
        let is_alone = s.call.candidates.as_ref().is_some_and(|all| all.is_one);
        let parent = parent.map(|gap| if gap == Gap::Ambiguous && is_alone { Gap::Itself } else { gap });
        s.flags.add(Progress::Given);
        let gap = match () {
            () if s.request.flags.has(RequestFlag::Lossy) => Some(Gap::Losses),
            () if exchange.is_unpaired() => Some(Gap::Turns),
            () if exchange.is(ExchangeFlag::UnclearBorders) => Some(Gap::Borders),
            () if s.request.flags.has(RequestFlag::Overflow) => Some(Gap::Borders),
            () if s.request.flags.has(RequestFlag::Unclear) => Some(Gap::Borders),
            () if s.request.flags.has(RequestFlag::Unfollowed) || exchange.content.queued == QueuedHow::Relayed => {
                Some(Gap::Unfollowed)
            }
            () if exchange.client.is_work_unknown => Some(Gap::ClientLeft),
            () if may_have_waited => Some(Gap::Unfollowed),
            () => None,
        };
        let (closed, refusals) = (s.flags.has(Progress::Closed), std::mem::take(&mut s.request.refusals));
        let flows_lost = self.facts.roles.is_lossy(MonoNs(0), exchange.reply.ended);
        self.out.done(Done { exchange, calls, parent, is_root_call, doubts, open_calls, gap, flows_lost, refusals });
        if closed {
            self.release(x);
        }
    }

    fn release(&mut self, x: ExId) {
        if let (Some(proof), Some(explain)) = (self.proofs.remove(&x), &self.facts.options.explain) {
            (explain.out.borrow_mut())(self.host, proof);
        }
        if self.facts.state_mut(x).flags.insert(Progress::Released) {
            self.outbox.to_release.push(x);
        }
    }

    /// The recording is over.
    pub fn finish(&mut self, xs: &Slab) {
        self.hand_on_all(xs);
        if let Some(explain) = &self.facts.options.explain {
            for (_, proof) in self.proofs.drain() {
                (explain.out.borrow_mut())(self.host, proof);
            }
        }
    }

    /// Hands on all that was held back: nothing more comes of it.
    pub fn hand_on_all(&mut self, xs: &Slab) {
        let all: Vec<ExId> = self.outbox.waiting.drain(..).map(|(_, x)| x).collect();
        // calls first find their requests, requests then take their calls along
        for &x in &all {
            if xs.is_live(x) && xs.get(x).side == Side::Client {
                self.resolve(xs, x);
            }
        }
        for side in [Side::Server, Side::Client] {
            for &x in &all {
                if xs.is_live(x) && !self.facts.state(x).flags.has(Progress::Released) && xs.get(x).side == side {
                    self.give(xs, x);
                }
            }
        }
    }
}
