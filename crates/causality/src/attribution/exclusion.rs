//! What rules are asked, and what they say: of all that could have made a call, whom they keep.

use super::bearers::Identifiers;
use super::facts::Facts;
use super::request_set::{Candidates, Requests, SHARED_FROM, SetId};
use super::worker::Worker;
use crate::client_tasks::Wakeup;
use crate::conditions::holds;
use crate::evidence::{Gap, Missing, Rule, Strength};
use crate::exchange::{Content, ExId, Slab};
use crate::lineage::{Basis, Line};
use crate::process::ProcessId;
use crate::process::known::Does;
use crate::roles::Role;
use smallvec::SmallVec;
use wakepath_model::ids::{EndpointId, MonoNs, TaskId};

/// A call that a task makes now, and all that rules may ask about it.
pub(super) struct Question<'q> {
    pub(super) facts: &'q Facts<'q>,
    pub(super) xs: &'q Slab,
    pub(super) process: ProcessId,
    pub(super) task: TaskId,
    pub(super) at: MonoNs,
    /// The flow on which the call is made; 0 where that is not known.
    pub(super) flow: EndpointId,
    /// The identifiers that the call hands on, where its head was read and has some.
    pub(super) carried: Identifiers,
    /// It asks to wait until something happens elsewhere.
    awaits: bool,
    pub(super) role: Role,
    pub(super) worker: Option<&'q Worker>,
    is_migrating: bool,
}

impl<'q> Question<'q> {
    pub(super) fn new(facts: &'q Facts<'q>, xs: &'q Slab, task: TaskId, at: MonoNs) -> Self {
        let (process, role) = (facts.roles.process_of(task), facts.roles.role(task));
        let is_migrating = facts.roles.is_among_migrating(task);
        Question {
            facts,
            xs,
            process,
            task,
            at,
            flow: EndpointId(0),
            carried: Identifiers::default(),
            awaits: false,
            role,
            worker: facts.tasks.get(task),
            is_migrating,
        }
    }

    /// The same of a call on this flow.
    pub(super) fn on(self, flow: EndpointId) -> Question<'q> {
        Question { flow, ..self }
    }

    /// The same of a call whose message says this.
    pub(super) fn carrying(self, content: &Content) -> Question<'q> {
        Question { carried: Identifiers::of(content), awaits: content.awaits(), ..self }
    }

    pub(super) fn is_open(&self, x: ExId) -> bool {
        self.facts.is_open(self.xs, x)
    }

    /// Whether the call waits for what happens elsewhere, as the last one on its connection did, which was answered in this turn and is of no
    /// request, as far as is known.
    pub(super) fn asks_again(&self) -> bool {
        let heard = self.facts.domain(self.process).and_then(|d| d.listening.heard(self.flow)).filter(|_| self.awaits);
        heard.is_some_and(|heard| self.worker.is_some_and(|w| w.given.turn.since <= heard))
    }

    /// The same as far as is known: what was called before on its connection was not seen.
    pub(super) fn may_ask_again(&self) -> bool {
        let seen = self.facts.domain(self.process).is_some_and(|d| d.listening.has_seen(self.flow));
        self.awaits && !seen || self.asks_again()
    }

    /// Requests that the task holds.
    pub(super) fn held(&self) -> &'q [ExId] {
        self.worker.map_or(&[], |w| w.held.all.members())
    }

    /// The request of the fragment that the task is in.
    pub(super) fn current(&self) -> Option<ExId> {
        self.worker.and_then(|w| w.fragment.of).filter(|&x| self.is_open(x))
    }

    /// The request that the task was made in, until it waits for work.
    pub(super) fn born_of(&self) -> Option<ExId> {
        self.worker.and_then(|w| w.born_of).filter(|&x| self.is_open(x))
    }

    /// Whether the task's requests move between tasks of its process: any may go on with any.
    pub(super) fn is_migrating(&self) -> bool {
        self.is_migrating
    }

    /// Whether the task takes requests and may have several at once, or go on with something of its own.
    pub(super) fn is_loop(&self) -> bool {
        // one that has but one connection may work on several requests at once all the same
        let has_several = |w: &Worker| w.given.is_given_inputs() && w.held.twins > 0;
        let is_one_at_a_time = !self.role.is_loop() && !self.worker.is_some_and(has_several);
        self.role.has(Does::Take) && !self.is_migrating() && !holds("thread.one_at_a_time", is_one_at_a_time)
    }

    /// Whether the task takes requests and works on one at a time.
    pub(super) fn is_thread(&self) -> bool {
        self.role.has(Does::Take) && !self.is_migrating() && !self.is_loop()
    }

    /// Whether the call may be of a request that was under way before the recording.
    pub(super) fn is_before(&self) -> bool {
        !holds("before.began_in_the_recording", self.at > self.facts.roles.unseen_until(self.process))
    }

    /// Whether a later fact can still name who made it: the task works for others, who show when it replies, wakes one of
    /// them, or ends.
    pub(super) fn may_be_told_later(&self) -> bool {
        match () {
            // it was told when it was made
            () if self.is_in_line() || self.is_woken_by_who_asks() || self.is_background() || self.is_paced() => false,
            () if self.consumes_since().is_some() => false,
            () if self.facts.open(self.process).is_empty() => self.born_of().is_some(),
            () if self.is_migrating() || self.is_loop() => false,
            () if self.role.has(Does::Take) => self.role.has(Does::ReplyForOthers) || self.born_of().is_some(),
            () => true,
        }
    }

    /// Who woke the task before it sent, or made it, so that they may have asked.
    pub(super) fn asking(&self) -> impl Iterator<Item = &'q Wakeup> {
        let roles = self.facts.roles;
        let wakeups = self.worker.map_or(&[][..], |w| &w.helper.wakeups.all);
        wakeups.iter().filter(|w| holds("errand.often", roles.resumed_wakers(self.process, w.way) > 0))
    }

    /// Whether it is known who may have asked, be it for a request or for none.
    pub(super) fn is_woken_by_who_asks(&self) -> bool {
        self.asking().next().is_some()
    }

    /// Whether the task is one for which its request does not wait.
    pub(super) fn is_background(&self) -> bool {
        self.facts.roles.background_cases(self.task, self.process) > 0
    }

    /// Whether the task calls at a pace of its own, and for nobody else.
    pub(super) fn is_paced(&self) -> bool {
        let is_free = !self.role.has(Does::Take) && !self.is_migrating() && self.born_of().is_none();
        is_free && self.facts.made_for(self.task, self.at).is_none() && self.facts.roles.paced_rounds(self.task) > 0
    }

    /// Since when the task has been in a loop in which it asks for work.
    pub(super) fn consumes_since(&self) -> Option<MonoNs> {
        self.facts.roles.consumes_since(self.task).filter(|&since| since <= self.at)
    }

    /// Whether the task works for one request alone, as its runtime tells.
    fn is_in_line(&self) -> bool {
        let line = self.facts.made_for(self.task, self.at);
        line.is_some_and(|line| self.facts.is_known(line, self.task))
    }

    /// The request for which alone the task works, where that rests on this.
    pub(super) fn line(&self, basis: Basis) -> Option<Line> {
        self.facts.made_for(self.task, self.at).filter(|line| line.basis == basis)
    }

    /// Whether the task holds a request, as far as requests stay with the task that took them.
    pub(super) fn holds(&self, x: ExId) -> bool {
        self.role.has(Does::ReplyForOthers) || self.facts.state(x).holder == self.task
    }

    /// A request that the task may still be at: turns alone say that it was answered.
    pub(super) fn answered_by_turn(&self) -> Option<ExId> {
        let turn = &self.worker?.given;
        let given = if self.is_loop() { &turn.owners[..] } else { &[] };
        let may_go_on = |x: &ExId| {
            let is_answered = self.facts.is_undelivered(self.xs, *x) && !self.is_open(*x);
            is_answered && self.xs.get(*x).is_by_turn()
        };
        given.iter().copied().chain(turn.read_last()).find(may_go_on)
    }

    /// Whether the kernel receives ahead of the program (io_uring): what it took, and when, is not known.
    pub(super) fn is_ring(&self) -> bool {
        !holds("turn.not_ahead", !self.role.has(Does::UseRing))
    }

    /// Whether the task is a loop that may have taken up what a thread of its process got for somebody.
    pub(super) fn may_have_taken_results(&self) -> bool {
        self.is_loop() && self.facts.may_take_results(self.task, self.process, self.at)
    }

    /// What would have said whose the call is, if it stays open for that reason.
    pub(super) fn missing(&self, why: Gap) -> Missing {
        match why {
            Gap::Losses => Missing::Lost,
            _ if self.facts.roles.is_named_late(self.task) && !self.role.has(Does::Take) => Missing::OwnTask,
            Gap::BeforeRecording => Missing::Before,
            Gap::Borders | Gap::Shared => Missing::Borders,
            Gap::Turns => Missing::Answers,
            _ if self.is_ring() => Missing::Heard,
            _ if self.is_migrating() => Missing::WhichOfAny,
            _ if self.is_loop() && self.facts.roles.are_given_inputs => Missing::WithinLoop,
            _ if self.is_loop() => Missing::WhichOfLoop,
            _ => Missing::PickUp,
        }
    }

    /// All that could have made the call if nothing were known of what they did: open requests of its process; answered
    /// ones, where the task is a loop that was given something of theirs; where a process has none, the one in which its
    /// maker made it.
    pub(super) fn candidates(&self) -> impl Iterator<Item = ExId> {
        let open = self.facts.open(self.process);
        let given = self.worker.filter(|_| self.is_loop()).map_or(&[][..], |w| &w.given.owners);
        let answered = given.iter().copied().filter(|&x| self.xs.is_live(x) && !self.is_open(x));
        let maker = self.born_of().filter(|_| open.is_empty());
        open.iter().copied().chain(answered).chain(maker)
    }

    /// Those of the candidates that are open.
    pub(super) fn open_candidates(&self) -> Candidates {
        let open = self.facts.open(self.process);
        if open.is_empty() {
            return Candidates::these(self.born_of().into_iter().collect());
        }
        self.all_of(SetId::Open(self.process), |_| true)
    }

    /// Requests of which one may make a call now: those that wait for nothing, or all where requests make several at once.
    pub(super) fn may_call(&self, process: ProcessId) -> Candidates {
        if self.facts.roles.fans_out(process) {
            return self.all_of(SetId::Open(process), |_| true);
        }
        self.all_of(SetId::Free(process), |x| !self.facts.is_waiting(self.xs, x))
    }

    /// The members of a set of which `remains` holds: as a set where there are many, and it is all of them.
    pub(super) fn all_of(&self, scope: SetId, remains: impl Fn(ExId) -> bool) -> Candidates {
        let members = self.facts.members(scope);
        if self.is_shared(scope) {
            return Candidates::all_of(scope);
        }
        Candidates::these(members.iter().copied().filter(|&x| remains(x)).collect())
    }

    /// Whether a set is named rather than copied: it has many members, and what is true of it is true of each.
    pub(super) fn is_shared(&self, scope: SetId) -> bool {
        let is_exact = match scope {
            SetId::Open(_) => true,
            SetId::Free(_) => !self.facts.may_wait_for_turn(),
            SetId::Held(_) => self.worker.is_some_and(|w| w.held.foreign == 0),
            SetId::FreeHeld(_) => !self.facts.may_wait_for_turn() && self.worker.is_some_and(|w| w.held.foreign == 0),
        };
        let many = self.facts.members(scope).len();
        is_exact && many >= self.facts.shared_from() && !self.needs_rivals(many)
    }

    /// Whether each of those that could have made the call must be known later: a helper finishes jobs for tasks that wait,
    /// each with a request of its own. A loop has several, and seldom waits with one alone where there are many.
    fn needs_rivals(&self, many: usize) -> bool {
        let holder = self.facts.open(self.process).first().map(|&x| self.facts.state(x).holder);
        let are_few = many < SHARED_FROM;
        self.facts.is_helper(self.task) && holder.is_some_and(|t| are_few || !self.facts.roles.role(t).is_loop())
    }
}

/// What a rule leaves.
pub(super) struct Kept {
    /// Which requests it keeps.
    pub(super) requests: Keeps,
    /// The program itself stays a candidate.
    pub(super) own: bool,
    /// Requests from before the recording stay candidates.
    pub(super) before: bool,
}

/// Which requests a rule keeps.
pub(super) enum Keeps {
    /// All.
    All,
    /// These alone. They may be answered already, or another process's, as a maker's are.
    These(Requests),
    /// Those of which this holds.
    Those(Property),
}

/// What may hold of a request. Open requests are kept by it ([`SetId`]), so that nobody must look at each.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Property {
    /// It is open.
    Open,
    /// The task holds it.
    Held,
    /// The task holds it, or was given something of it in its turn.
    GivenOrHeld,
    /// It waits for nothing, or the task is at it.
    GoesOn,
    /// It came on the connection that the call's own always served.
    Paired,
}

impl Property {
    fn is_of(self, q: &Question, x: ExId) -> bool {
        match self {
            Property::Open => q.is_open(x),
            Property::Held => q.facts.is_member(x, SetId::Held(q.task)),
            Property::GivenOrHeld => q.holds(x) || q.worker.is_some_and(|w| w.given.owners.contains(&x)),
            Property::GoesOn if q.is_loop() => {
                let is_written = q.worker.is_some_and(|w| w.given.writes_for == Some(x));
                is_written || !q.is_open(x) || !q.holds(x) || !q.facts.is_waiting(q.xs, x)
            }
            Property::Paired => q.facts.roles.partner(q.process, q.flow) == Some(q.xs.get(x).flow),
            Property::GoesOn => q.current() == Some(x) || !q.facts.is_waiting(q.xs, x),
        }
    }
}

impl Kept {
    /// This request and no other.
    pub(super) fn one(x: ExId) -> Kept {
        Kept { requests: Keeps::These(SmallVec::from_slice(&[x])), own: false, before: false }
    }

    /// No request: the program itself, or one that is over.
    pub(super) fn no_request() -> Kept {
        Kept { requests: Keeps::These(SmallVec::new()), own: true, before: false }
    }

    /// All but the program itself.
    pub(super) fn all_but_own() -> Kept {
        Kept { requests: Keeps::All, own: false, before: true }
    }

    /// All but requests of which this does not hold.
    pub(super) fn those(of: Property) -> Kept {
        Kept { requests: Keeps::Those(of), own: true, before: true }
    }

    /// Whether it keeps only requests of which this holds.
    pub(super) fn is_by(&self, property: Property) -> bool {
        matches!(self.requests, Keeps::Those(of) if of == property)
    }

    pub(super) fn has(&self, q: &Question, x: ExId) -> bool {
        match &self.requests {
            Keeps::All => true,
            Keeps::These(these) => these.contains(&x),
            Keeps::Those(of) => of.is_of(q, x),
        }
    }
}

/// A rule that excludes candidates.
#[derive(Clone, Copy)]
pub(super) struct ExclusionRule {
    /// Its file's name, as `--evidence` shows it.
    pub(super) name: &'static str,
    /// Why the others did not make the call.
    pub(super) says: &'static str,
    /// What it is worth.
    pub(super) strength: Strength,
    /// Where several name the same request, the one of the lowest rank is shown.
    pub(super) rank: u8,
    /// Whom it keeps; `None` where its condition does not hold.
    pub(super) keeps: fn(&Question) -> Option<Kept>,
    /// What a link is shown by that it made, alone or with habits.
    pub(super) names: Option<fn(&Question, Strength) -> Rule>,
    /// When what excludes a request (or, without one, the program itself) was seen; 0 where it is no moment.
    pub(super) seen_at: fn(&Question, Option<ExId>) -> MonoNs,
    /// Of a habit: how often an exception could have been seen in the process.
    pub(super) cases: Option<fn(&Question) -> u32>,
}

impl ExclusionRule {
    /// A rule that names no link, and whose exclusions are no moments.
    const fn new(strength: Strength, rank: u8, name: &'static str, keeps: fn(&Question) -> Option<Kept>) -> Self {
        ExclusionRule { name, says: "", strength, rank, keeps, names: None, seen_at: |_, _| MonoNs(0), cases: None }
    }

    /// One whose exclusions follow from what was seen.
    pub(super) const fn shown(rank: u8, name: &'static str, keeps: fn(&Question) -> Option<Kept>) -> Self {
        ExclusionRule::new(Strength::Shown, rank, name, keeps)
    }

    /// One whose exclusions rest on a habit.
    pub(super) const fn habit(rank: u8, name: &'static str, keeps: fn(&Question) -> Option<Kept>) -> Self {
        ExclusionRule::new(Strength::Habit, rank, name, keeps)
    }
}
