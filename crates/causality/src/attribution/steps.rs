//! What each step of an exchange means inside its component.

use super::bearers::Identifiers;
use super::exclusion::Question;
use super::facts::Facts;
use super::helper::{HelperEvent, Woken};
use super::request_set::{Candidates, SetId};
use super::rules::sole::is_asked_by_one;
use super::state::{CallFlag, Progress, REFUSALS_MAX, RequestFlag, State};
use super::{Attribution, CALLS_MAX};
use crate::conditions::{self, holds};
use crate::evidence::{Gap, Rule};
use crate::exchange::{ExId, ExchangeFlag, More, Side, Sign, Slab, Steps};
use crate::finished::{Finished, Parent, Refused};
use crate::flags::Flags;
use crate::lineage::Basis;
use crate::process::ProcessId;
use crate::process::known::Does;
use crate::proof::Outcome;
use crate::roles::HabitId;
use wakepath_model::ids::{EndpointId, MonoNs, TaskId};

impl<F: Finished> Attribution<'_, F> {
    /// A task began a call of a request's, whoever told whose: without it the job's end would look like that of one without a
    /// call.
    fn saw_call(&mut self, task: TaskId, at: MonoNs) {
        if !self.facts.roles.role(task).has(Does::Take) {
            let (jobs, _) = self.facts.tasks.or_default(task).helper.mark(at, HelperEvent::Call);
            self.facts.saw_jobs(task, jobs);
        }
    }

    /// Notes whose call `x` is, or whose it may be.
    fn decided(&mut self, xs: &Slab, x: ExId, at: MonoNs, parent: Parent, candidates: Candidates) {
        let task = xs.get(x).request.actor;
        if parent != Parent::Root {
            self.saw_call(task, at);
        }
        match parent {
            Parent::Of(p, rule) => {
                self.facts.state_mut(x).call.parent = None;
                self.link(xs, x, p, rule);
                self.was_handed_work(task, rule);
                if rule == Rule::Handoff {
                    self.facts.tasks.or_default(task).segment.push(x);
                }
            }
            Parent::Pending | Parent::Open(_) => {
                self.facts.doubt(xs, x, candidates, parent == Parent::Open(Gap::Losses));
                if parent == Parent::Pending {
                    let is_one = is_asked_by_one(&Question::new(&self.facts, xs, task, at));
                    self.facts.state_mut(x).call.flags.set(CallFlag::OneCandidate, is_one);
                    let w = self.facts.tasks.or_default(task);
                    if w.segment.len() < CALLS_MAX {
                        w.segment.push(x);
                    }
                }
            }
            Parent::Root => {}
        }
    }

    /// A request's task set a helper going before: others may, too.
    fn was_handed_work(&mut self, task: TaskId, rule: Rule) {
        if rule == Rule::Handoff {
            self.facts.tasks.or_default(task).helper.is_handed_work = true;
        }
    }

    /// Something was done that cannot be shown: whosever it was, or may have been, is not whole.
    fn lacks(&mut self, parent: Parent, candidates: &Candidates, what: RequestFlag) {
        match parent {
            Parent::Of(x, _) => self.facts.state_mut(x).request.flags.add(what),
            // that borders are not known is so whoever asked: where one request alone may have, no other one is why it is not whole
            _ => match self.facts.only(candidates).filter(|_| what == RequestFlag::Unclear) {
                Some(x) => self.facts.state_mut(x).request.flags.add(what),
                None => self.facts.doubt_unseen(candidates),
            },
        }
    }

    /// Calls of a task that its next reply would have claimed stay open: that was for a request which was not seen.
    fn leave_open(&mut self, task: TaskId, gap: Gap) {
        let segment = self.facts.tasks.get_mut(task).map(|w| std::mem::take(&mut w.segment)).unwrap_or_default();
        for y in segment {
            let parent = &mut self.facts.state_mut(y).call.parent;
            *parent = if *parent == Some(Parent::Pending) { Some(Parent::Open(gap)) } else { *parent };
        }
    }

    /// Who made call `y`, of which `task` sends something now.
    fn decide_call(&self, xs: &Slab, y: ExId, task: TaskId, flow: EndpointId, at: MonoNs) -> (Parent, Candidates) {
        let ask = || Question::new(&self.facts, xs, task, at).on(flow).carrying(&xs.get(y).content);
        match self.answer(ask()) {
            // the task's own request need not be whose message it sends
            (Parent::Of(_, Rule::Fork | Rule::Fragment | Rule::Thread), _) | (Parent::Pending, _)
                if self.facts.roles.may_send_for_others(xs.get(y)) =>
            {
                let q = ask();
                (Parent::Open(Gap::Shared), q.all_of(SetId::Open(q.process), |_| true))
            }
            answer => answer,
        }
    }

    /// Whether the identifier that call `y` carries is request `o`'s, where it has one that names a request.
    fn is_of_bearer(&self, xs: &Slab, y: ExId, o: ExId) -> bool {
        let process = self.facts.state(y).process;
        let carried = Identifiers::of(&xs.get(y).content);
        let named = self.facts.domain(process).and_then(|d| d.bearers.bearer(carried));
        named.is_none_or(|x| holds("owner.bears_the_identifier", x == o))
    }

    /// Who sends more after call `y`, on its flow: its request does not wait for the answer to what it is still sending.
    fn decide_more(&mut self, xs: &Slab, y: ExId, task: TaskId, at: MonoNs) -> (Parent, Candidates) {
        let call = &self.facts.state(y).call;
        let of = match call.parent {
            Some(Parent::Of(x, _)) if call.flags.has(CallFlag::Counted) && self.facts.is_open(xs, x) => x,
            _ => return self.decide_call(xs, y, task, xs.get(y).flow, at),
        };
        self.facts.change(of, |r| r.outstanding -= 1);
        let decided = self.decide_call(xs, y, task, xs.get(y).flow, at);
        self.facts.change(of, |r| r.outstanding += 1);
        decided
    }

    /// A request was taken.
    fn request_begun(&mut self, xs: &Slab, x: ExId, at: MonoNs) {
        let e = xs.get(x);
        self.facts.domain_mut(e.process).taken = at;
        self.facts.lineage.took(xs, x);
        if let Some(task) = self.facts.roles.logical_tasks.answerer(e) {
            self.facts.lineage.answers(xs, x, task);
        }
        if let Some(head) = self.facts.roles.logical_tasks.head(e) {
            self.facts.lineage.leads(x, head);
        }
        self.facts.opened(xs, x);
        self.facts.tasks.or_default(e.request.task).reads_of(e.flow);
        let w = self.facts.tasks.or_default(e.request.actor);
        if self.facts.roles.role(e.request.actor).has(Does::ReplyForOthers) {
            // what it did before was for another, to which it did not reply
            w.segment.clear();
        }
        w.unknown_work = false;
        w.given.asked(e.flow, x, at);
        // a task that takes a request in the flow's order is done with what it had of others
        w.enter(x, at);
        self.facts.took_at_rest(e.request.actor, e.flow, Some(x));
    }
}

impl<F: Finished> Steps for Attribution<'_, F> {
    const KEEPS: bool = true;

    fn begun(&mut self, xs: &Slab, x: ExId, at: MonoNs) {
        let e = xs.get(x);
        let process = self.facts.roles.process_of(e.request.actor);
        let mut flags = Flags::default();
        flags.set(Progress::Given, e.is(ExchangeFlag::Internal));
        self.facts.begin(x, State { process, holder: e.request.actor, flags, ..State::default() });
        if e.is(ExchangeFlag::Internal) {
            if e.side == Side::Server {
                self.reads_within(e.request.actor, at);
            }
            return;
        }
        self.out.began(e, !self.facts.roles.serves(process, at));
        if e.side == Side::Server {
            return self.request_begun(xs, x, at);
        }
        self.tally.calls.begun += 1;
        self.facts.domain_mut(process).carriers.is_done(e.request.task, at);
        let task = e.request.actor;
        if self.is_asked(e) {
            conditions::watch();
        }
        self.facts.drop_old_wakeups(e);
        self.facts.tasks.or_default(task).called = at;
        let dial = self.facts.dialled(xs, e.flow);
        let disputed = self.facts.goes_on_resumed(xs, task, e.flow, dial.as_ref().map(|dial| dial.since));
        self.claim(xs, disputed);
        // what a connection was made for need not be what the loop is at when it can be used
        let flow = if dial.is_some() { EndpointId(0) } else { e.flow };
        let line = self
            .facts
            .made_for(task, at)
            .filter(|line| line.basis == Basis::Seen || self.uses_habits() && self.facts.is_known(*line, task));
        let is_in_line = line.is_some_and(|line| self.facts.is_open(xs, line.of));
        if let Some(dial) = dial.filter(|_| !is_in_line)
            && let Some((o, rule)) = self.facts.owner(xs, &dial, e)
            && self.is_of_bearer(xs, x, o)
            && (rule == Rule::Owner || self.uses_habits())
        {
            if self.facts.roles.is_lossy(xs.get(o).request.taken, at) {
                self.prove(xs, x, flow, at, Outcome::Open(Gap::Losses));
                self.facts.state_mut(x).call.parent = Some(Parent::Open(Gap::Losses));
                self.facts.state_mut(o).request.doubts.count += 1;
            } else {
                self.prove(xs, x, flow, at, Outcome::Owned(rule));
                self.link(xs, x, o, rule);
            }
            self.saw_call(task, at);
            return;
        }
        let (parent, candidates) = self.decide_call(xs, x, task, flow, at);
        let outcome = match parent {
            Parent::Of(_, rule) => Outcome::Linked(rule),
            Parent::Open(gap) => Outcome::Open(gap),
            Parent::Pending => Outcome::Later,
            Parent::Root => Outcome::Own,
        };
        self.prove(xs, x, flow, at, outcome);
        self.facts.domain_mut(process).listening.asks(e.flow, e.awaits());
        self.facts.drop_wakeups(task);
        self.facts.state_mut(x).call.parent = Some(parent);
        if parent == Parent::Open(Gap::Ambiguous) {
            self.facts.doubted_at_rest(xs, x, process);
        }
        self.decided(xs, x, at, parent, candidates);
        if matches!(parent, Parent::Open(_) | Parent::Pending) {
            self.facts.doubt_dial(x, e, process);
        }
        if e.is(ExchangeFlag::UnclearBorders)
            && let Parent::Of(p, _) = parent
        {
            // whose replies are whose on its flow is not known: its request may wait for none
            self.no_longer_outstanding(xs, x, p);
        }
    }

    fn request_progress(&mut self, xs: &Slab, x: ExId, task: TaskId, at: MonoNs) {
        if xs.get(x).is(ExchangeFlag::Internal) {
            return self.reads_within(task, at);
        }
        if self.facts.is_open(xs, x) {
            self.take_input(xs, x, task, at);
            self.facts.tasks.or_default(task).given.asked(xs.get(x).flow, x, at);
            self.facts.took_at_rest(task, xs.get(x).flow, Some(x));
        }
    }

    fn reads_within(&mut self, task: TaskId, at: MonoNs) {
        self.facts.tasks.or_default(task).helper.asked = at;
    }

    fn sends_more(&mut self, xs: &Slab, y: ExId, task: TaskId, at: MonoNs) -> More {
        let e = xs.get(y);
        if e.is(ExchangeFlag::Internal) {
            return More::OfIt;
        }
        let is_same_actor = e.request.actor == task;
        // what a loop could not send at once, it may send when its request is over
        let may_be_late = is_same_actor && !e.is(ExchangeFlag::UnclearBorders) && self.facts.roles.role(task).is_loop();
        let is_same_work = is_same_actor && !self.is_asked_since(e, task);
        self.facts.tasks.or_default(task).helper.sent = at;
        let (before, (parent, candidates)) = (self.facts.state(y).call.parent, self.decide_more(xs, y, task, at));
        match (before, parent) {
            (Some(Parent::Of(a, _)), Parent::Of(b, _)) if a == b => More::OfIt,
            (Some(Parent::Of(a, _)), Parent::Of(..)) if !may_be_late || self.facts.is_open(xs, a) => {
                self.no_longer_outstanding(xs, y, a);
                More::OfAnother
            }
            (Some(Parent::Root), Parent::Of(..)) => More::OfAnother,
            (Some(Parent::Root), Parent::Root) => More::OfIt,
            // it is at the same work until it replies
            (Some(Parent::Open(Gap::Shared)), Parent::Open(Gap::Shared)) | (Some(Parent::Pending), Parent::Pending)
                if is_same_work =>
            {
                More::OfIt
            }
            // what is of no request is in no path
            (_, Parent::Root) if is_same_actor => More::OfIt,
            _ => {
                self.lacks(parent, &candidates, RequestFlag::Unclear);
                More::Unknown
            }
        }
    }

    fn reply_began(&mut self, xs: &Slab, x: ExId, task: TaskId, at: MonoNs) {
        let e = xs.get(x);
        if !e.is(ExchangeFlag::Internal) {
            self.facts.reply_begins(xs, x);
            self.seek_alike(xs, x, at);
        }
        if e.side != Side::Server || e.is(ExchangeFlag::Internal) {
            return;
        }
        let disputed = self.facts.goes_on_resumed(xs, task, EndpointId(0), None);
        self.claim(xs, disputed);
        let role = self.facts.roles.role(task);
        if self.is_answered_with_news(xs, x, task, at)
            || self.is_answered_by_another(xs, x, task, at)
            || self.may_have_asked_a_client(xs, x)
            || self.is_answered_with_anothers(xs, x, at)
        {
            self.facts.state_mut(x).request.flags.add(RequestFlag::Unfollowed);
        }
        if self.facts.roles.is_among_migrating(task) {
            return;
        }
        if role.has(Does::Take) && (role.is_loop() || !role.has(Does::ReplyForOthers)) {
            let claim = self.watched(task, |facts| facts.claim_awaited(xs, x, task, at));
            self.claim(xs, claim);
            return;
        }
        let claims = self.watched(task, |facts| facts.claim_segment(xs, x, task, at));
        self.claim(xs, claims);
        // from here on it holds the request: a partial reply may be followed by more calls. Where a thread took it in no task's name, and
        // replies in another's, it may go on with it in nobody's
        if task == e.reply.task || e.request.actor != e.request.task {
            self.take_input(xs, x, task, at);
        }
        let w = self.facts.tasks.or_default(task);
        w.helper.woken = Woken::Unknown;
    }

    fn reply_progress(&mut self, xs: &Slab, y: ExId, task: TaskId, at: MonoNs) {
        let e = xs.get(y);
        if e.is(ExchangeFlag::Internal) {
            return;
        }
        let process = self.facts.roles.process_of(task);
        if e.side != Side::Client {
            if e.is(ExchangeFlag::OpenEnded) {
                self.outbox.idle.push_back((at, y));
            }
            // more of a partial reply: what came between its parts was for it, and no later reply may claim it
            let role = self.facts.roles.role(task);
            if role.has(Does::ReplyForOthers) && !role.is_loop() && !self.facts.roles.is_among_migrating(task) {
                let claims = self.watched(task, |facts| facts.claim_segment(xs, y, task, at));
                self.claim(xs, claims);
            }
            return;
        }
        let call = &mut self.facts.state_mut(y).call;
        call.flags.add(CallFlag::Replied);
        call.reply_task = task;
        let parent = call.parent;
        if let Some(Parent::Of(x, _)) = parent
            && e.is_by_direction()
            && Facts::is_implicitly_ended(xs, y)
        {
            // nothing but the next one on its flow will tell that it was over, and its request may go on before
            self.no_longer_outstanding(xs, y, x);
        }
        let made_by = match parent {
            Some(Parent::Of(x, _)) if xs.is_live(x) => Some(x),
            _ => None,
        };
        let of = made_by.filter(|&x| self.facts.is_open(xs, x));
        self.facts.took_at_rest(task, e.flow, of);
        self.facts.answered_at_rest(process);
        // what a request waits for, it may ask for until it comes
        if e.awaits() && of.is_none() {
            self.facts.domain_mut(e.process).listening.hears(e.flow, at);
        }
        // no task goes on with what a consumer gets
        if e.awaits() && self.facts.roles.consumes_since(task).is_none() {
            self.is_notified(xs, y, process, at);
        }
        // whatever else it does: a pool's thread may reply to some, and in nobody's name it may have made no call
        if !self.facts.roles.role(task).has(Does::Take) {
            self.facts.domain_mut(process).carriers.heard(e.reply.task, at);
        }
        self.facts.domain_mut(process).elsewhere.heard = at;
        let is_known = made_by.is_some() || parent == Some(Parent::Root);
        let thread = self.facts.tasks.or_default(e.reply.task);
        thread.heard = (at, parent);
        thread.reads_of(e.flow);
        let w = self.facts.tasks.or_default(task);
        w.given.heard(e.flow, made_by, is_known);
        if let Some(x) = of {
            self.take_input(xs, x, task, at);
        } else {
            w.leave_fragment();
            w.unknown_call = Some(y);
        }
    }

    fn identified(&mut self, xs: &Slab, x: ExId) {
        self.facts.lineage.identified(xs, x);
    }

    fn reply_says(&mut self, xs: &Slab, x: ExId, at: MonoNs) {
        if !xs.get(x).is(ExchangeFlag::Internal) {
            self.facts.reply_says(xs, x);
            self.seek_alike(xs, x, at);
        }
    }

    fn read_frames(&mut self, task: TaskId) {
        if let Some(w) = self.facts.tasks.get_mut(task) {
            w.unknown_call = None;
        }
    }

    fn closed(&mut self, xs: &Slab, x: ExId, at: MonoNs) {
        let e = xs.get(x);
        self.facts.state_mut(x).flags.add(Progress::Closed);
        self.outbox.waiting.push_back((at, x));
        if e.is(ExchangeFlag::Internal) {
            return;
        }
        if e.side == Side::Client {
            self.facts.keep_rivals(xs, x);
            if !self.facts.state_mut(x).call.flags.has(CallFlag::Replied)
                && let Some(w) = self.facts.tasks.get_mut(e.request.actor)
            {
                w.given.ended();
                self.facts.answered_at_rest(self.facts.roles.process_of(e.request.actor));
            }
            if let Some(Parent::Of(p, _)) = self.facts.state_mut(x).call.parent {
                self.no_longer_outstanding(xs, x, p);
            }
            return;
        }
        self.facts.lineage.over(xs, x, at);
        let is_relayed = || e.is_by_direction() && self.facts.roles.relays(self.facts.state(x).process);
        if is_relayed() || self.may_have_waited_for_a_queue(xs, x) {
            self.facts.state_mut(x).request.flags.add(RequestFlag::Unfollowed);
        }
        let holder = self.facts.state(x).holder;
        // more of a reply whose length is not known may be among what was lost
        let until = if e.is(ExchangeFlag::Replied) && !e.is(ExchangeFlag::OpenEnded) {
            e.reply.ended
        } else {
            e.reply.ended.max(at)
        };
        let lossy = self.facts.roles.is_lossy(e.request.taken, until);
        self.facts.state_mut(x).request.flags.add_if(RequestFlag::Lossy, lossy);
        self.facts.state_mut(x).request.holder_called = self.facts.tasks.get(holder).map_or(MonoNs(0), |w| w.called);
        self.facts.left_open(xs, x);
        if let Some(w) = self.facts.tasks.get_mut(holder).filter(|w| w.fragment.of == Some(x)) {
            w.leave_fragment();
        }
    }

    fn accepted(&mut self, flow: EndpointId, task: TaskId, _: MonoNs) {
        if let Some(w) = self.facts.tasks.get_mut(task) {
            w.given.accepted(flow);
        }
        self.facts.accepted_at_rest(task, flow);
    }

    fn connecting(&mut self, xs: &Slab, flow: EndpointId, task: TaskId, at: MonoNs) {
        let process = self.facts.roles.process_of(task);
        let is_asked = || self.uses_habits() && self.facts.roles.habits.is_believed(process, HabitId::DialsWhenAsked);
        if !holds("owner.nobody_was_accepted", !self.facts.awaits_requests(task) || is_asked()) {
            // it may be for who was accepted, whose request is still to come
            self.facts.dials(flow, task, None, at);
            return;
        }
        let is_raced_for = self.facts.is_pooling(process) && self.facts.at_rest(xs, process, at).is_none();
        if !holds("owner.no_pool", !is_raced_for) {
            // whoever wants a connection first gets it, and takes one that was set free meanwhile
            return;
        }
        match self.decide(xs, task, flow, at).0 {
            Parent::Of(x, rule) => {
                self.was_handed_work(task, rule);
                self.facts.dials(flow, task, Some(x), at);
            }
            Parent::Open(_) | Parent::Root => self.facts.dials(flow, task, None, at),
            Parent::Pending => {}
        }
    }

    fn refused(&mut self, xs: &Slab, flow: EndpointId, task: TaskId, tried: (MonoNs, MonoNs), error: i32) {
        let of = match self.facts.dials.get(flow) {
            Some(dial) => dial.of,
            None => match self.decide(xs, task, flow, tried.1).0 {
                Parent::Of(x, _) => Some(x),
                _ => None,
            },
        };
        let mut number = None;
        if let Some(x) = of.filter(|&x| self.facts.is_open(xs, x)) {
            let refusals = &mut self.facts.state_mut(x).request.refusals;
            if refusals.len() < REFUSALS_MAX {
                number = Some(self.refusals);
                refusals.push(self.refusals);
                self.refusals += 1;
            }
        }
        self.out.refused(Refused { flow, task, tried, error, number });
        // no task waits for it any more
        self.flow_gone(xs, flow);
    }

    fn unseen_reply(&mut self, task: TaskId, _: MonoNs) {
        self.leave_open(task, Gap::BeforeRecording);
    }

    fn stray_reply(&mut self, task: TaskId, _: MonoNs) {
        // what it did until now was for the request that it answers
        if let Some(w) = self.facts.tasks.get_mut(task) {
            w.helper.woken = Woken::Unknown;
            w.leave_fragment();
            self.leave_open(task, Gap::Losses);
        }
    }

    fn unclear(&mut self, xs: &Slab, side: Side, task: TaskId, at: MonoNs) {
        if side == Side::Server {
            let w = self.facts.tasks.or_default(task);
            w.unknown_work = true;
            w.leave_fragment();
            return;
        }
        // a call that cannot be shown: whoever made it is not whole
        let (parent, candidates) = self.decide(xs, task, EndpointId(0), at);
        self.lacks(parent, &candidates, RequestFlag::Unclear);
    }

    fn unfollowed(&mut self, xs: &Slab, task: TaskId, at: MonoNs) {
        if self.facts.open(self.facts.roles.process_of(task)).is_empty() {
            return;
        }
        let (parent, candidates) = self.decide(xs, task, EndpointId(0), at);
        self.lacks(parent, &candidates, RequestFlag::Unfollowed);
    }

    fn unread(&mut self, xs: &Slab, process: ProcessId, at: MonoNs) {
        let candidates = Question::new(&self.facts, xs, process.leader(), at).all_of(SetId::Open(process), |_| true);
        self.facts.doubt_unseen(&candidates);
    }

    fn gave_up(&mut self, xs: &Slab, y: ExId, task: TaskId) {
        if xs.get(y).is(ExchangeFlag::Internal) {
            return;
        }
        let call = &mut self.facts.state_mut(y).call;
        call.flags.add(CallFlag::GivenUp);
        if let Some(Parent::Of(x, _)) = call.parent {
            self.no_longer_outstanding(xs, y, x);
        }
        // somebody may have waited for the connection's place
        if let Some(w) = self.facts.tasks.get_mut(task) {
            w.given.ended();
        }
    }

    fn left(&mut self, last: ExId, task: TaskId, at: MonoNs) {
        if let Some(w) = self.facts.tasks.get_mut(task).filter(|w| !w.helper.marks.is_empty()) {
            w.helper.mark(at, HelperEvent::Left(last));
        }
    }

    fn flow_gone(&mut self, xs: &Slab, flow: EndpointId) {
        let of = self.facts.dialled(xs, flow).and_then(|d| d.of);
        if let Some(x) = of.filter(|&x| self.facts.is_open(xs, x)) {
            let process = self.facts.state(x).process;
            self.facts.answered_at_rest(process);
        }
    }

    fn hears_back(&mut self, xs: &Slab, x: ExId, told: MonoNs, at: MonoNs) {
        self.heard_back(xs.get(x), told, at);
    }

    fn message_unasked(&mut self, process: ProcessId, at: MonoNs) {
        self.facts.domain_mut(process).elsewhere.notified = at;
    }

    fn pushes(&self, process: ProcessId, side: Side) -> bool {
        !holds("turns.never_pushes", !self.facts.roles.pushes(process, side))
    }

    fn turns_away(&self, task: TaskId) -> bool {
        self.facts.roles.turns_away(task)
    }

    fn sign(&self, xs: &Slab, x: ExId) -> Sign {
        let r = &self.facts.state(x).request;
        let calls = || r.calls.iter().copied().filter(|&y| xs.is_live(y));
        Sign {
            last: calls().map(|y| xs.get(y).request.began.max(xs.get(y).reply.ended)).max().unwrap_or_default(),
            is_waiting: r.outstanding > 0,
            has_dropped: calls().any(|y| self.facts.state(y).call.flags.has(CallFlag::GivenUp)),
        }
    }

    fn longest(&self, process: ProcessId) -> u64 {
        self.facts.roles.longest(process)
    }

    fn process_of(&self, task: TaskId) -> ProcessId {
        self.facts.roles.process_of(task)
    }
}
