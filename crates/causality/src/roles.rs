//! First pass: how each task of the recording works, since the same events mean different things on a thread that
//! serves one request at a time and in an event loop.

mod awaited;
mod background;
mod connection_tasks;
mod consumers;
mod doing;
mod endings;
mod futexes;
mod habits;
mod logical_tasks;
mod migrating;
mod multiplexed;
mod paced;
mod resumed;
mod steps;
mod streams;

use crate::conditions::holds;
use crate::exchange::{ExId, Exchange, Side, Slab};
use crate::intervals::Intervals;
use crate::per_task::OfTasks;
use crate::process::ProcessId;
use crate::process::dials::Dial;
use crate::process::known::{Calls, Does, PARTNERS_MAX, Process, ProcessFlag, Processes, Rest};
use crate::process::listening::Listening;
use crate::process::runtime::Nature;
use crate::remembered::Remembered;
use consumers::Consumers;
use doing::{Asked, Doing, Replied, TurnFlag, Unanswered, UnderWay};
use logical_tasks::LogicalTasks;
use multiplexed::Multiplexed;
use rustc_hash::FxHashMap;
use wakepath_model::defects;
use wakepath_model::ids::{EndpointId, HostId, MonoNs, TaskId};
use wakepath_model::rows::{InputKind, InputRow, Life, LossRow, PollRow, TaskRow};

pub use crate::process::known::Role;
pub(crate) use habits::{HabitId, HabitTable};

/// System call number of futex on x86-64.
pub const FUTEX: u16 = 202;
/// Records that were under way when an interval began in which some were lost belong to it.
const LATE_NS: u64 = 5_000_000;

/// How long a request is taken to last at most where too few were replied to (ns). Where enough were, the process's own longest counts.
/// After either, the path says that what was done then is not known.
const LASTS_NS: u64 = 5_000_000_000;

/// What is known of tasks before paths are sought.
#[derive(Default)]
pub struct Roles {
    known: Processes,
    doing: OfTasks<Doing>,
    under_way: UnderWay,
    pub(crate) habits: HabitTable,
    pub(crate) logical_tasks: LogicalTasks,
    pub(crate) consumers: Consumers,
    listening: Listening,
    /// Fingerprints of the answers to calls of each process, to tell a proxy from a service that makes answers, or keeps them from before
    /// the recording. A cache that keeps one for longer than they are remembered makes an exception.
    answers: FxHashMap<ProcessId, Remembered<u64, ()>>,
    /// When operations were lost.
    pub(crate) losses: Intervals,
    /// The library vantage handed over inputs.
    pub(crate) are_given_inputs: bool,
    /// Who waited at each futex of a process; `UNKNOWN` where several tasks did. And whether tasks that take requests did,
    /// and others.
    futexes: FxHashMap<(ProcessId, u64), (TaskId, [bool; 2])>,
    multiplexed: Multiplexed,
}

impl Roles {
    /// A step in a task's life: which process it is of, and what it was made for.
    pub fn task(&mut self, xs: &Slab, r: &TaskRow) {
        self.logical_tasks.task(xs, r, &mut self.habits);
        self.known.task(r);
        if r.what == Life::Exit
            && let Some(doing) = self.doing.get_mut(r.task)
        {
            doing.held = Vec::new();
        }
    }

    /// Something was lost.
    pub fn loss(&mut self, r: &LossRow, what: &str) {
        if what.starts_with("loss.ring.task") || defects::hides_rows(what) {
            self.logical_tasks.jobs.lost(r.from.0.saturating_sub(LATE_NS), r.at.0);
        }
        if what.starts_with("loss.ring.wait") || defects::hides_rows(what) {
            self.consumers.lost_waits();
        }
        if defects::loses_operations(what) {
            self.losses.push(r.from.0.saturating_sub(LATE_NS), r.at.0);
            self.logical_tasks.connection_tasks.lost_accepts();
        }
    }

    /// A call begins: more of them without an answer than requests that could make them show that a request makes several
    /// at once, or that some are of no request.
    fn asks(&mut self, x: ExId, e: &Exchange, process: ProcessId, dial: Option<Dial>) {
        let p = self.known.at(process);
        let asked =
            self.under_way.asked_on.or_insert_with((HostId(0), e.flow), || Asked { process, ..Asked::default() });
        let is_again = std::mem::replace(&mut asked.is_used, true);
        if is_again {
            p.flags.add(ProcessFlag::KeepsConnections);
            p.now.spare = p.now.spare.saturating_sub(u32::from(asked.under_way == 0));
        }
        asked.under_way += 1;
        p.flags.add_if(ProcessFlag::SharesConnections, asked.under_way > 1);
        self.doing
            .or_default(e.request.actor)
            .activity
            .flags
            .set(TurnFlag::Spare, p.now.spare > 0 || p.flags.has(ProcessFlag::SharesConnections));
        self.pairs(e, process, is_again);
        let of = self.maker(e.request.actor, e.request.began);
        let p = self.known.at(process);
        let Some(open) = p.now.open else { return };
        p.now.asking += 1;
        if open == 0 {
            p.calls.unasked_by_any = e.request.began;
        }
        if p.now.asking > open {
            p.calls.fanned_out = e.request.began;
        }
        let place = x.place as usize;
        if self.under_way.calls.len() <= place {
            self.under_way.calls.resize(place + 1, None);
        }
        let dialled_for = dial.and_then(|dial| dial.of).filter(|_| open > 1);
        self.under_way.calls[place] = Some(Unanswered { process, of, dialled_for });
    }

    /// Something was answered to a call, for the first time where it gives what is known of that.
    fn answered(&mut self, x: ExId) -> Option<Unanswered> {
        let call = self.under_way.calls.get_mut(x.place as usize)?.take()?;
        let now = &mut self.known.at(call.process).now;
        now.asking = now.asking.saturating_sub(1);
        Some(call)
    }

    /// A poll returned.
    pub fn poll(&mut self, r: &PollRow) {
        let process = self.process_of(r.task);
        self.logical_tasks.polled(r, process, &mut self.habits);
        let Doing { activity, held, .. } = self.doing.or_default(r.task);
        let given_by = if r.ready > 0 && r.fd >= 0 { r.fd.saturating_add(1) } else { 0 };
        let asked_by = activity.epoll.asked_by;
        let mut turn = activity.turn;
        if turn.polled(r).is_some() {
            activity.tell(self.habits.at(process));
            if activity.calls_unseen() {
                self.known.at_task(r.task).role.add(Does::CallUnseen);
            }
            activity.turns(turn);
        }
        activity.turn = turn;
        activity.epoll.given_by = if given_by != 0 { given_by } else { activity.epoll.given_by };
        if r.fd >= 0 && asked_by == r.fd.saturating_add(1) && !held.is_empty() {
            self.known.at_task(r.task).role.add(Does::WaitAmid);
        }
    }

    /// The library vantage handed over an input.
    pub fn input(&mut self, r: &InputRow) {
        self.are_given_inputs = true;
        self.doing.or_default(r.task).activity.turn.is_by_library = true;
        let process = self.process_of(r.task);
        if r.isolated >= 2 {
            self.known.at(process).now.rest = Some(Rest::default());
        } else if r.kind == InputKind::Else {
            self.known.at(process).now.rest = None;
        }
    }

    /// A task made a call on a flow, or `dials` for one. More of them than there were things to go on with, and no timer due: a request makes
    /// several at once.
    fn called(&mut self, task: TaskId, flow: EndpointId, at: MonoNs, dials: bool) {
        let process = self.process_of(task);
        let Process { flags, now, .. } = self.known.at(process);
        if let Some(rest) = now.rest.as_mut().filter(|rest| rest.last != flow) {
            (rest.calls, rest.last) = (rest.calls + 1, flow);
            flags.add_if(ProcessFlag::ParallelAtRest, rest.calls > rest.took.max(1));
        }
        let is_any_open = now.open.is_some_and(|open| open > 0);
        let activity = &mut self.doing.or_default(task).activity;
        // what leaves by one operation is one step
        if activity.last == (flow, at) {
            return;
        }
        activity.last = (flow, at);
        activity.calls += 1;
        // what is made for an accepted connection is for no input before that
        let is_for_accepted = dials && activity.promptness.has_accepted;
        let since_call = if is_for_accepted { u32::MAX } else { std::mem::take(&mut activity.promptness.since_call) };
        let is_put_off = activity.turn.messages > 1 && since_call == 0;
        // after several inputs, a call may be of any of them
        activity.promptness.is_seen |= activity.turn.messages > 1 && since_call == 1;
        let is_timely = activity.turn.no_timer_due(at);
        activity.flags.set(TurnFlag::CalledTimely, is_timely);
        let habits = self.habits.at(process);
        habits.exception_if(HabitId::DialsWhenAsked, is_for_accepted);
        let is_parallel = activity.turn.ready > 0 && activity.calls > activity.turn.ready && is_timely;
        habits.exception_if(HabitId::OneCall, is_parallel);
        habits.exception_if(HabitId::Asked, activity.turn.messages == 0 && activity.turn.due != 0);
        if activity.turn.ready == 1 && is_timely {
            activity.replied.called(is_any_open, habits);
        }
        habits.exception_if(HabitId::Prompt, is_put_off);
    }

    /// A loop has answered a request, and was given nothing since.
    fn has_replied(&mut self, task: TaskId, at: MonoNs) {
        let process = self.process_of(task);
        let (spare, is_shared) =
            self.known.of(process).map_or((0, false), |p| (p.now.spare, p.flags.has(ProcessFlag::SharesConnections)));
        let activity = &mut self.doing.or_default(task).activity;
        // who waited for the connection that was just set free would use that one
        let is_spare = is_shared || spare > u32::from(activity.taken.heard != EndpointId(0));
        activity.replied = match () {
            () if !activity.turn.no_timer_due(at) => Replied::Bound,
            () if is_spare => Replied::Freely,
            () => Replied::WithoutSpare,
        };
    }

    /// The process of a task: the number of its leading task.
    pub fn process_of(&self, task: TaskId) -> ProcessId {
        self.known.process_of(task)
    }

    /// What a task does.
    pub fn role(&self, task: TaskId) -> Role {
        self.known.of_task(task).role
    }

    /// Whether something was seen of a process.
    pub(crate) fn is_so(&self, process: ProcessId, what: ProcessFlag) -> bool {
        self.known.of(process).is_some_and(|p| p.flags.has(what))
    }

    /// Whether it was last seen of a process after requests from before the recording could have been its reason.
    fn is_seen_last(&self, process: ProcessId, what: impl Fn(&Calls) -> MonoNs) -> bool {
        self.known.of(process).is_some_and(|p| what(&p.calls) > p.unseen_until)
    }

    /// Whether requests of an event loop's process may make several calls at once: they did, or too few were seen to tell.
    pub fn is_parallel(&self, process: ProcessId) -> bool {
        !self.habits.of(process, HabitId::OneCall).is_kept()
            || self.single_cases(process) < HabitId::OneCall.min_cases()
    }

    /// Whether a process with loops may make calls of its own accord: it did when it had no request open, or, as far as was
    /// seen, could have had reason to at any time.
    pub fn may_call_unasked(&self, process: ProcessId) -> bool {
        let is_asked = self.habits.is_often(process, HabitId::Idle) || self.habits.is_believed(process, HabitId::Asked);
        self.may_go_on_answered(process) || !is_asked
    }

    /// Whether requests of a process with loops may go on after their reply.
    pub fn may_go_on_answered(&self, process: ProcessId) -> bool {
        let (replied, after) = self.after_replies(process);
        let is_known = after == 0
            && (replied >= HabitId::OverWithReply.min_cases() || self.habits.is_often(process, HabitId::Idle));
        self.calls_of_its_own(process) || !is_known
    }

    /// How often a request could have been seen to make several calls at once.
    pub fn single_cases(&self, process: ProcessId) -> u32 {
        let cases = |id| self.habits.of(process, id).cases;
        // where no connection is used again, another call would have made one too
        let dialled = if self.keeps_connections(process) { 0 } else { cases(HabitId::OneCallDialled) };
        cases(HabitId::OneCall).max(dialled)
    }

    /// How often one could have been seen to make a call after its reply.
    pub fn answered_cases(&self, process: ProcessId) -> u32 {
        self.after_replies(process).0.max(self.habits.of(process, HabitId::Idle).cases)
    }

    /// In how many turns something that a loop of the process, or of its siblings, put off while it took other inputs could have been
    /// seen; 0 where it was.
    pub fn prompt_cases(&self, process: ProcessId) -> u32 {
        let prompt = self.habits.of(process, HabitId::Prompt);
        if holds("prompt.never_put_off", prompt.is_kept()) { prompt.cases } else { 0 }
    }

    /// Whether a loop does at once what an input asks for.
    pub fn is_prompt(&self, process: ProcessId) -> bool {
        holds("prompt.often", self.prompt_cases(process) >= HabitId::Prompt.min_cases())
    }

    /// In how many turns a call after a reply could have been seen, and in how many one was.
    fn after_replies(&self, process: ProcessId) -> (u32, u32) {
        let [own, dialled, beside] =
            [HabitId::OverWithReply, HabitId::OverWithReplyDialled, HabitId::OverWithReplyBesideOthers]
                .map(|id| self.habits.of(process, id));
        // where no connection is used again, no task waits for one
        let dials = !self.keeps_connections(process);
        // where requests move between tasks, a call beside an open request says nothing, and then neither does one that was not made
        let is_handed_over = beside.exceptions > 0 || dials && dialled.exceptions > own.exceptions;
        if is_handed_over && holds("answered.nothing_was_handed_over", self.is_migrating(process)) {
            return (0, own.exceptions);
        }
        let (cases, exceptions) = (own.cases, own.exceptions + beside.exceptions);
        if dials { (cases + dialled.cases, exceptions + dialled.exceptions) } else { (cases, exceptions) }
    }

    /// A loop makes a call, on a connection that was used before where `is_again`: was it for the one request that it was
    /// given, and are its connections used so?
    fn pairs(&mut self, e: &Exchange, process: ProcessId, is_again: bool) {
        let activity = self.doing.get(e.request.actor).map(|d| d.activity).unwrap_or_default();
        let is_for_one = activity.is_given_one(e.request.began);
        let connections = &mut self.known.at(process).connections;
        let last = std::mem::replace(&mut connections.last, e.flow);
        let is_broken = !self.habits.of(process, HabitId::Paired).is_kept();
        if !is_again || !is_for_one || activity.taken.asked == EndpointId(0) || is_broken {
            return;
        }
        let with = activity.taken.asked;
        let has_room = connections.partners.len() < PARTNERS_MAX;
        let Some(&partner) = connections.partners.get(&e.flow) else {
            connections.partners.extend(has_room.then_some((e.flow, with)));
            return;
        };
        if !holds("paired.never_another", partner == with) {
            // they serve several, and have no partners
            connections.partners = FxHashMap::default();
            self.habits.at(process).exception_if(HabitId::Paired, true);
        } else {
            self.habits.at(process).case_if(HabitId::Paired, activity.flags.has(TurnFlag::Spare) && last != e.flow);
        }
    }

    /// The connection for whose requests alone calls are made on this one, as far as was seen.
    pub fn partner(&self, process: ProcessId, flow: EndpointId) -> Option<EndpointId> {
        let partner = *self.known.of(process)?.connections.partners.get(&flow)?;
        holds("paired.often", self.habits.is_often(process, HabitId::Paired)).then_some(partner)
    }

    /// A task sends to a client, in a protocol that nobody knows: whether it passes on what it has just been sent by another one, of which
    /// alone it was given something, or what it was sent meanwhile, and calls nobody.
    fn sends_on(&mut self, xs: &Slab, x: ExId, task: TaskId, at: MonoNs) {
        let (e, Some(activity)) = (xs.get(x), self.doing.get(task).map(|d| &d.activity)) else { return };
        let (asked, is_one) = (activity.taken.asked, activity.turn.ready == 1 && activity.turn.no_timer_due(at));
        let is_of_another = asked != EndpointId(0) && asked != e.flow;
        let is_later = || !self.role(task).has(Does::Call) && activity.was_asked_since(e.flow, e.request.taken, at);
        let is_at_once = is_of_another && holds("relays.given_one", is_one);
        if e.is_by_direction() && (is_at_once || is_later()) {
            let relayed = &mut self.known.at(self.process_of(task)).relayed;
            *relayed = relayed.saturating_add(1);
        }
    }

    /// Whether a process passes on what clients send in an unknown protocol, as was seen more than once: who answers them is not known.
    pub fn relays(&self, process: ProcessId) -> bool {
        self.known.of(process).is_some_and(|p| holds("relays.again", p.relayed > 1))
    }

    /// A call is made: whether one that waits for what happens elsewhere is asked again as soon as it was answered.
    fn listens(&mut self, e: &Exchange, process: ProcessId) {
        let heard = self.listening.heard(e.flow).filter(|_| e.awaits());
        self.listening.asks(e.flow, e.awaits());
        let (Some(heard), Some(doing)) = (heard, self.doing.get(e.request.actor)) else { return };
        let since = doing.activity.turn.since;
        let is_again = since != MonoNs(0) && since <= heard;
        let open = self.known.at(process).now.open;
        let is_alone = holds("asked-again.alone", open.is_none_or(|open| open <= 1));
        let habits = self.habits.at(process);
        habits.case_if(HabitId::ListensAgain, is_again && is_alone);
        habits.exception_if(HabitId::ListensAgain, !is_again);
    }

    /// How often the process asked again, as soon as it was answered, for what it waits for elsewhere; 0 where it is not believed to.
    pub fn listening_cases(&self, process: ProcessId) -> u32 {
        let seen = self.habits.of(process, HabitId::ListensAgain);
        let is_often = holds("asked-again.often", self.habits.is_often(process, HabitId::ListensAgain));
        if is_often && holds("asked-again.always", seen.is_kept()) { seen.cases.max(1) } else { 0 }
    }

    /// How often the process could have been seen to make a call of its own accord.
    pub fn unasked_cases(&self, process: ProcessId) -> u32 {
        let cases = |id| self.habits.of(process, id).cases;
        cases(HabitId::Idle).max(cases(HabitId::Asked))
    }

    /// How often a task called at a pace of its own; 0 where it has none.
    pub fn paced_rounds(&self, task: TaskId) -> u32 {
        self.logical_tasks.paced.rounds(task)
    }

    /// Whether tasks of the process that take no requests were seen to make calls when it had none open: what they do may
    /// be of no request then.
    pub fn calls_unasked(&self, process: ProcessId) -> bool {
        self.is_seen_last(process, |calls| calls.unasked)
    }

    /// Whether one request ever made several calls at once, as far as their number shows: where they were more than the
    /// requests that were open.
    pub fn fans_out(&self, process: ProcessId) -> bool {
        self.is_seen_last(process, |calls| calls.fanned_out)
    }

    /// Whether a process ever made a call when it had no request open: what it does may be of no request.
    pub fn calls_of_its_own(&self, process: ProcessId) -> bool {
        self.is_seen_last(process, |calls| calls.unasked_by_any)
    }

    /// A connection that was being made is used, or gone.
    fn dialled(&mut self, flow: EndpointId, is_used: bool) -> Option<Dial> {
        let dial = self.under_way.dials.end(flow)?;
        if is_used && self.under_way.dials.count(dial.process) > 0 {
            self.habits.at(dial.process).case_if(HabitId::DialsForOne, true);
        }
        Some(dial)
    }

    /// Whether workers of a process are mostly busy with another request until they take one up, as far as their calls show.
    pub fn works_on_others(&self, process: ProcessId) -> bool {
        let of = self.habits.of(process, HabitId::CallsForOne);
        of.exceptions > of.cases
    }

    /// Whether every request of a process that was open at a moment was replied to: else a worker may have begun with one to which nobody
    /// replied.
    pub(crate) fn replied_to_all(&self, process: ProcessId, at: MonoNs) -> bool {
        !self.known.of(process).is_some_and(|p| p.unanswered.touch(at, at))
    }

    /// Whether the process uses connections again: then who has one made need not be who gets it.
    pub fn keeps_connections(&self, process: ProcessId) -> bool {
        self.is_so(process, ProcessFlag::KeepsConnections)
    }

    /// Whether the process takes requests; where operations were lost before `at`, whether it may: its takings, or
    /// the fork that would say whose child it is, may be among them, so its namesakes stand for it.
    pub fn serves(&self, process: ProcessId, at: MonoNs) -> bool {
        self.is_so(process, ProcessFlag::Serves) || self.is_lossy(MonoNs(0), at) && self.known.may_serve(process)
    }

    /// Until when requests from before the recording were under way in the process.
    pub fn unseen_until(&self, process: ProcessId) -> MonoNs {
        self.known.of(process).map_or(MonoNs(0), |p| p.unseen_until)
    }

    /// Whether operations were lost in `from..=to`.
    pub fn is_lossy(&self, from: MonoNs, to: MonoNs) -> bool {
        !holds("loss.nothing_was_lost", !self.losses.touch(from, to))
    }

    /// An operation was carried by io_uring.
    pub fn ring(&mut self, task: TaskId) {
        self.known.at_task(task).role.add(Does::UseRing);
    }

    /// Whether anybody works in a way that wake-ups must explain.
    pub fn needs_wakes(&self) -> bool {
        let is_helped = |role: Role| role.has(Does::CallUnseen) || role.has(Does::Call) && !role.has(Does::Take);
        self.known.tasks().any(|(_, t)| is_helped(t.role))
    }

    /// Whether a server of this process (or, of a client's side, one that it asks) was seen to say something when nothing was asked, on a
    /// connection where turns alone pair messages; or one of its siblings.
    pub fn pushes(&self, process: ProcessId, side: Side) -> bool {
        self.known.pushes(process, side)
    }

    /// The longest time in which the process replied to a request (ns).
    pub fn longest(&self, process: ProcessId) -> u64 {
        match self.known.of(process).map(|p| p.lasted) {
            Some((count, longest)) if count >= habits::CASES_MIN => longest,
            _ => LASTS_NS,
        }
    }

    /// Nobody records from here on, for a while.
    pub fn paused(&mut self, xs: &Slab) {
        self.logical_tasks.paused(xs);
    }

    /// The recording ends, with these exchanges open: puts losses in order and decides which processes move requests between tasks.
    pub fn finish(&mut self, xs: &Slab) {
        self.logical_tasks.ended(xs, &mut self.habits);
        self.losses.settle();
        let is_unanswered = |e: &&Exchange| e.side == Side::Server && e.reply.is_none();
        for e in xs.live().filter(is_unanswered) {
            let process = self.process_of(e.request.actor);
            self.known.at(process).unanswered.push(e.request.taken.0, u64::MAX);
        }
        let serving: Vec<_> = self.known.tasks().filter(|(_, t)| t.role.has(Does::Take)).collect();
        for (id, task) in serving {
            let process = self.process_of(id);
            self.known.serves(process);
            let role = task.role;
            // one that replies to nothing reads for the others: they keep what they take
            if role.has(Does::GiveAway) && (role.has(Does::ReplyItself) || role.has(Does::ReplyForOthers)) {
                let moves = match task.nature {
                    Nature::NamedLate => ProcessFlag::MovesBetweenLateNamed,
                    Nature::Plain | Nature::Context => ProcessFlag::MovesBetweenThreads,
                };
                self.known.at(process).flags.add(moves);
            }
        }
        self.loops_share_work();
        self.finish_habits();
        self.logical_tasks.finish(&mut self.habits);
        self.known.finish();
        self.multiplexed.finish();
        self.doing = OfTasks::default();
        self.under_way = UnderWay::default();
    }

    /// Counts what calls and connections show of habits, and then at each worker what its siblings show.
    fn finish_habits(&mut self) {
        for process in self.habits.processes() {
            let (fans_out, is_unasked) = (self.fans_out(process), self.calls_of_its_own(process));
            let keeps = self.keeps_connections(process);
            let habits = self.habits.at(process);
            habits.exception_if(HabitId::OneCall, fans_out);
            habits.exception_if(HabitId::Idle, is_unasked);
            habits.exception_if(HabitId::OneUse, keeps);
        }
        let known = &self.known;
        self.habits.merge(|process| known.master_of(process));
    }
}
