//! First pass: how each task of the recording works, since the same events mean different things on a thread that
//! serves one request at a time and in an event loop.

mod answerers;
mod awaited;
mod endings;
mod finish;
mod fired;
mod futexes;
mod habits;
mod handed;
mod kin;
mod lasting;
mod learned;
mod migrating;
mod resumed;
mod steps;

use crate::conditions::holds;
use crate::dense::PerTask;
use crate::exchange::{ExId, Exchange, Slab};
use crate::polled::Polled;
use crate::process::ProcessId;
use answerers::Answerers;
use habits::{CASES_MIN, HabitId, HabitTable};
use learned::{
    Asked, CallCounts, Connections, Dial, Epoll, Leader, Loops, OpenRequests, Pairs, Processes, Replied, Round,
    Serving, Unanswered, Unseen, Workers,
};
use rustc_hash::FxHashMap;
use wakepath_model::defects;
use wakepath_model::ids::{EndpointId, HostId, MonoNs, StrId, TaskId};
use wakepath_model::rows::{InputRow, LossRow, PollRow, TaskRow, input, life, runtime};

/// System call number of futex on x86-64.
pub const FUTEX: u16 = 202;
/// Records that were under way when an interval began in which some were lost belong to it.
const LATE_NS: u64 = 5_000_000;

/// What a task was ever seen to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Role {
    /// Takes requests.
    pub takes: bool,
    /// Took a request while it had another of another flow.
    pub multiplexes: bool,
    /// Waited amid a request at the epoll descriptor that had given it the request: a loop, which may go on with others, or
    /// do something of its own.
    pub waits_amid: bool,
    /// Replies to requests that another task took.
    pub replies_foreign: bool,
    /// Another task replied to a request that it took.
    pub gives_away: bool,
    /// Replies to requests that it took.
    pub replies_own: bool,
    /// Sends requests.
    pub calls: bool,
}

impl Role {
    /// Whether it may work on several requests at once, or on none, between two steps of one.
    pub fn is_loop(&self) -> bool {
        self.multiplexes || self.waits_amid
    }
}

/// Most connections of a process whose partners are kept.
const PAIRS_MAX: usize = 100_000;

/// What is known of tasks before paths are sought.
#[derive(Default)]
pub struct Roles {
    roles: PerTask<Role>,
    processes: Processes,
    serving: Serving,
    requests: OpenRequests,
    unseen: Unseen,
    calls: CallCounts,
    connections: Connections,
    loops: Loops,
    habits: HabitTable,
    workers: Workers,
    answerers: Answerers,
    /// Who waited at each futex of a process; `UNKNOWN` where several tasks did. And whether tasks that take requests did,
    /// and others.
    futexes: FxHashMap<(ProcessId, u64), (TaskId, [bool; 2])>,
}

impl Roles {
    /// A step in a task's life: which process it is of, and what it was made for.
    pub fn task(&mut self, xs: &Slab, r: &TaskRow) {
        self.answerers.task(xs, r, &mut self.habits);
        self.learn_process(r);
        if r.runtime == runtime::TOKIO {
            *self.processes.is_named_late.entry(r.task) = true;
            self.processes.named_since.entry(self.process_of(r.task)).or_insert(r.at);
        }
        if matches!(r.runtime, runtime::PYTHON | runtime::NODE) {
            *self.processes.is_context.entry(r.task) = true;
        }
        let process = self.process_of(r.task).leader();
        *self.processes.names.entry(process) = r.comm;
        if r.cmdline != StrId::EMPTY {
            *self.processes.words.entry(process) = r.cmdline;
        }
        if r.what == life::EXIT {
            self.requests.held.remove(&r.task);
        }
    }

    fn learn_process(&mut self, r: &TaskRow) {
        let leads = r.tgid == r.tid;
        let own = Leader { task: r.task, stands_in: !leads };
        // a thread group is its leader's task: a reused tgid has another leader
        let leader = match self.processes.leaders.get(&r.tgid) {
            Some(&known) if !leads || known.stands_in && r.what != life::FORK => known,
            _ => own,
        };
        self.processes.leaders.insert(r.tgid, leader);
        *self.processes.process.entry(r.task) = ProcessId::led_by(leader.task);
        if leads && r.parent != TaskId::UNKNOWN {
            let parent = self.process_of(r.parent);
            *self.processes.parents.entry(leader.task) = parent;
        }
    }

    /// Something was lost.
    pub fn loss(&mut self, r: &LossRow, what: &str) {
        if what.starts_with("loss.ring.task") || defects::hides_rows(what) {
            self.answerers.lost_handovers(r.from.0.saturating_sub(LATE_NS), r.at.0);
        }
        let is_of_operations = ["loss.ring.op", "loss.ring.flow", "loss.storage"].iter().any(|l| what.starts_with(l));
        if is_of_operations || defects::hides_rows(what) {
            self.unseen.losses.push((r.from.0.saturating_sub(LATE_NS), r.at.0));
            self.answerers.lost_accepts();
        }
    }

    /// The recording ends, with these exchanges open.
    pub fn ended(&mut self, xs: &Slab) {
        self.answerers.ended(xs, &mut self.habits);
    }

    /// A call begins: more of them without an answer than requests that could make them show that a request makes several
    /// at once, or that some are nobody's.
    fn asks(&mut self, x: ExId, e: &Exchange, process: ProcessId, dial: Option<Dial>) {
        let spare = self.connections.spare.entry(process).or_default();
        let asked =
            self.connections.asked_on.or_insert_with((HostId(0), e.flow), || Asked { process, ..Asked::default() });
        let is_again = std::mem::replace(&mut asked.is_used, true);
        if is_again {
            self.connections.keeping.insert(process);
            *spare = spare.saturating_sub(u32::from(asked.under_way == 0));
        }
        asked.under_way += 1;
        if asked.under_way > 1 {
            self.connections.sharing.insert(process);
        }
        self.loops.rounds.entry(e.actor).has_spare = *spare > 0 || self.connections.sharing.contains(&process);
        self.pairs(e, process, is_again);
        let Some(&open) = self.requests.open.get(&process) else { return };
        let of = self.maker(e.actor, e.began);
        let place = x.place as usize;
        if self.calls.unanswered.len() <= place {
            self.calls.unanswered.resize(place + 1, None);
        }
        let dialled_for = dial.and_then(|dial| dial.of).filter(|_| open > 1);
        self.calls.unanswered[place] = Some(Unanswered { process, of, dialled_for });
        let asking = self.calls.asking.entry(process).or_default();
        *asking += 1;
        if open == 0 {
            self.calls.unasked_by_any.insert(process, e.began);
        }
        if *asking > open {
            self.calls.fanned_out.insert(process, e.began);
        }
    }

    /// Something was answered to a call, for the first time where it gives what is known of that.
    fn answered(&mut self, x: ExId) -> Option<Unanswered> {
        let call = self.calls.unanswered.get_mut(x.place as usize)?.take()?;
        if let Some(asking) = self.calls.asking.get_mut(&call.process) {
            *asking = asking.saturating_sub(1);
        }
        Some(call)
    }

    /// A poll returned.
    pub fn poll(&mut self, r: &PollRow) {
        let process = self.process_of(r.task);
        self.answerers.polled(r, process);
        let round = self.loops.rounds.entry(r.task);
        let given_by = if r.ready > 0 && r.fd >= 0 { r.fd.saturating_add(1) } else { 0 };
        let asked_by = round.epoll.asked_by;
        if r.timeout_ns != 0 {
            round.tell(self.habits.at(process));
            *round = Round { polled: Polled::begin(r), epoll: Epoll { given_by: 0, asked_by }, ..Round::default() };
        }
        round.epoll.given_by = if given_by != 0 { given_by } else { round.epoll.given_by };
        if r.fd >= 0
            && asked_by == r.fd.saturating_add(1)
            && self.requests.held.get(&r.task).is_some_and(|h| !h.is_empty())
        {
            self.roles.entry(r.task).waits_amid = true;
        }
        round.polled.found(r);
    }

    /// The library vantage handed over an input.
    pub fn input(&mut self, r: &InputRow) {
        self.loops.are_given_inputs = true;
        if r.isolated >= 2 {
            self.loops.rests.insert(self.process_of(r.task), (0, 0, EndpointId(0)));
        } else if r.kind == input::ELSE {
            self.loops.rests.remove(&self.process_of(r.task));
        }
    }

    /// A task made a call on a flow, or `dials` for one. More of them than there were things to go on with, and no timer due: a request makes
    /// several at once.
    fn called(&mut self, task: TaskId, flow: EndpointId, at: MonoNs, dials: bool) {
        let process = self.process_of(task);
        if let Some((took, calls, last)) = self.loops.rests.get_mut(&process).filter(|(.., last)| *last != flow) {
            (*calls, *last) = (*calls + 1, flow);
            if *calls > (*took).max(1) {
                self.loops.parallel_at_rest.insert(process);
            }
        }
        let round = self.loops.rounds.entry(task);
        // what leaves by one operation is one step
        if round.last == (flow, at) {
            return;
        }
        round.last = (flow, at);
        round.calls += 1;
        // what is made for an accepted connection is for no input before that
        let is_for_accepted = dials && round.promptness.has_accepted;
        let since_call = if is_for_accepted { u32::MAX } else { std::mem::take(&mut round.promptness.since_call) };
        let is_put_off = round.polled.messages > 1 && since_call == 0;
        // behind several inputs, a call may be of any of them
        round.promptness.is_seen |= round.polled.messages > 1 && since_call == 1;
        let is_timely = round.polled.no_timer_due(at);
        round.has_called_timely = is_timely;
        let habits = self.habits.at(process);
        habits.exception_if(HabitId::DialsWhenAsked, is_for_accepted);
        let is_parallel = round.polled.ready > 0 && round.calls > round.polled.ready && is_timely;
        habits.exception_if(HabitId::OneCall, is_parallel);
        habits.exception_if(HabitId::Asked, round.polled.messages == 0 && round.polled.due != 0);
        if round.polled.ready == 1 && is_timely {
            let is_any_open = self.requests.open.get(&process).is_some_and(|&open| open > 0);
            round.replied.called(is_any_open, habits);
        }
        habits.exception_if(HabitId::Prompt, is_put_off);
    }

    /// A loop has answered a request, and was given nothing since.
    fn has_replied(&mut self, task: TaskId, at: MonoNs) {
        let process = self.process_of(task);
        let spare = self.connections.spare.get(&process).copied().unwrap_or_default();
        let is_shared = self.connections.sharing.contains(&process);
        let round = self.loops.rounds.entry(task);
        // who waited for the connection that was just set free would use that one
        let is_spare = is_shared || spare > u32::from(round.taken.heard != EndpointId(0));
        round.replied = match () {
            () if !round.polled.no_timer_due(at) => Replied::Bound,
            () if is_spare => Replied::Freely,
            () => Replied::WithoutSpare,
        };
    }

    /// The process of a task: the number of its leading task.
    pub fn process_of(&self, task: TaskId) -> ProcessId {
        match self.processes.process.get(task) {
            ProcessId::UNKNOWN => ProcessId::led_by(task),
            process => process,
        }
    }

    /// What a task does.
    pub fn role(&self, task: TaskId) -> Role {
        self.roles.get(task)
    }

    /// Whether the process ever had several requests at once.
    pub fn is_concurrent(&self, process: ProcessId) -> bool {
        self.requests.concurrent.contains(&process)
    }

    /// Whether requests of an event loop's process may make several calls at once: they did, or too few were seen to tell.
    pub fn is_parallel(&self, process: ProcessId) -> bool {
        !self.habits.of(process, HabitId::OneCall).is_kept()
            || self.single_cases(process) < HabitId::OneCall.min_cases()
    }

    /// Whether a process with loops may make calls of its own accord: it did when it had no request open, or, as far as was
    /// seen, could have had reason to at any time.
    pub fn may_call_unasked(&self, process: ProcessId) -> bool {
        let is_asked = self.often_has_none(process) || self.habits.is_believed(process, HabitId::Asked);
        self.may_go_on_answered(process) || !is_asked
    }

    /// Whether requests of a process with loops may go on after their reply.
    pub fn may_go_on_answered(&self, process: ProcessId) -> bool {
        let (replied, after) = self.behind_replies(process);
        let is_known = after == 0 && (replied >= HabitId::OverWithReply.min_cases() || self.often_has_none(process));
        self.calls_of_its_own(process) || !is_known
    }

    /// How often a request could have been seen to make several calls at once.
    pub fn single_cases(&self, process: ProcessId) -> u32 {
        let cases = |id| self.habits.of(process, id).cases;
        // where no connection is used again, another call would have made one too
        let dialled = if self.keeps_connections(process) { 0 } else { cases(HabitId::OneCallDialled) };
        cases(HabitId::OneCall).max(dialled)
    }

    /// How often one could have been seen to make a call behind its reply.
    pub fn answered_cases(&self, process: ProcessId) -> u32 {
        self.behind_replies(process).0.max(self.habits.of(process, HabitId::Idle).cases)
    }

    /// In how many turns something that a loop of the process, or of its siblings, put off while it took other inputs could have been
    /// seen; 0 where it was.
    pub fn prompt_cases(&self, process: ProcessId) -> u32 {
        let prompt = self.habits.of(process, HabitId::Prompt);
        if holds("prompt.never_put_off", prompt.is_kept()) { prompt.cases } else { 0 }
    }

    /// Whether a loop makes connections for what was asked alone, as far as was seen: none for a connection that it accepted, before
    /// something was read there.
    pub fn dials_when_asked(&self, process: ProcessId) -> bool {
        self.habits.is_believed(process, HabitId::DialsWhenAsked)
    }

    /// Whether a loop does at once what an input asks for.
    pub fn is_prompt(&self, process: ProcessId) -> bool {
        holds("prompt.often", self.prompt_cases(process) >= HabitId::Prompt.min_cases())
    }

    /// In how many turns a call behind a reply could have been seen, and in how many one was.
    fn behind_replies(&self, process: ProcessId) -> (u32, u32) {
        let [own, dialled, beside] =
            [HabitId::OverWithReply, HabitId::OverWithReplyDialled, HabitId::OverWithReplyBesideOthers]
                .map(|id| self.habits.of(process, id));
        // where no connection is used again, nobody waits for one
        let dials = !self.keeps_connections(process);
        // where requests move between tasks, a call beside an open request says nothing, and then neither does one that was not made
        let is_handed_over = beside.exceptions > 0 || dials && dialled.exceptions > own.exceptions;
        if is_handed_over && holds("answered.nothing_was_handed_over", self.is_migrating(process)) {
            return (0, own.exceptions);
        }
        let (cases, exceptions) = (own.cases, own.exceptions + beside.exceptions);
        if dials { (cases + dialled.cases, exceptions + dialled.exceptions) } else { (cases, exceptions) }
    }

    /// Whether a process that keeps connections makes each for one request, as far as was seen of it and its siblings: they
    /// often made several at once, and never had more than requests when one was answered.
    pub fn dials_for_one(&self, process: ProcessId) -> bool {
        self.habits.is_believed(process, HabitId::DialsForOne)
    }

    /// A loop makes a call, on a connection that was used before where `is_again`: was it for the one request that it was
    /// given, and are its connections used so?
    fn pairs(&mut self, e: &Exchange, process: ProcessId, is_again: bool) {
        let round = self.loops.rounds.get(e.actor);
        let is_for_one = round.is_given_one(e.began);
        let pairs = self.loops.pairs.entry(process).or_default();
        let last = std::mem::replace(&mut pairs.last, e.flow);
        let is_broken = !self.habits.of(process, HabitId::Paired).is_kept();
        if !is_again || !is_for_one || round.taken.asked == EndpointId(0) || is_broken {
            return;
        }
        let is_known = pairs.partners.contains_key(&e.flow);
        if !is_known && pairs.partners.len() >= PAIRS_MAX {
            return;
        }
        let partner = *pairs.partners.entry(e.flow).or_insert(round.taken.asked);
        if !holds("paired.never_another", partner == round.taken.asked) {
            *pairs = Pairs::default();
            self.habits.at(process).exception_if(HabitId::Paired, true);
        } else {
            let could_differ = is_known && round.has_spare && last != e.flow;
            self.habits.at(process).case_if(HabitId::Paired, could_differ);
        }
    }

    /// The connection for whose requests alone calls are made on this one, as far as was seen.
    pub fn partner(&self, process: ProcessId, flow: EndpointId) -> Option<EndpointId> {
        let partner = self.loops.pairs.get(&process)?.partners.get(&flow).copied()?;
        holds("paired.often", self.pair_cases(process) >= HabitId::Paired.min_cases()).then_some(partner)
    }

    /// How often a connection could have been seen to serve another one.
    pub fn pair_cases(&self, process: ProcessId) -> u32 {
        self.habits.of(process, HabitId::Paired).cases
    }

    /// Whether the process often enough had no request open: what its tasks do of their own accord, or behind a reply, would
    /// have shown.
    pub fn often_has_none(&self, process: ProcessId) -> bool {
        self.habits.of(process, HabitId::Idle).cases >= HabitId::Idle.min_cases()
    }

    /// How often the process could have been seen to make a call of its own accord.
    pub fn unasked_cases(&self, process: ProcessId) -> u32 {
        let cases = |id| self.habits.of(process, id).cases;
        cases(HabitId::Idle).max(cases(HabitId::Asked))
    }

    /// Whether the library vantage handed over any input on the host.
    pub fn are_given_inputs(&self) -> bool {
        self.loops.are_given_inputs
    }

    /// Whether one input, handed over when the whole process was at rest, ever led to several calls: a request makes
    /// several at once, or what it sets free lets another go on.
    pub fn is_parallel_at_rest(&self, process: ProcessId) -> bool {
        self.loops.parallel_at_rest.contains(&process)
    }

    /// Whether tasks of the process that take no requests were seen to make calls when it had none open: what they do may
    /// be nobody's then.
    pub fn calls_unasked(&self, process: ProcessId) -> bool {
        self.calls.unasked.get(&process).is_some_and(|&at| at > self.unseen_until(process))
    }

    /// Whether one request ever made several calls at once, as far as their number shows: where they were more than the
    /// requests that were open.
    pub fn fans_out(&self, process: ProcessId) -> bool {
        self.calls.fanned_out.get(&process).is_some_and(|&at| at > self.unseen_until(process))
    }

    /// Whether a process ever made a call when it had no request open: what it does may be nobody's.
    pub fn calls_of_its_own(&self, process: ProcessId) -> bool {
        self.calls.unasked_by_any.get(&process).is_some_and(|&at| at > self.unseen_until(process))
    }

    /// A connection that was being made is used, or gone.
    fn dialled(&mut self, flow: EndpointId, is_used: bool) -> Option<Dial> {
        let dial = self.connections.connecting.remove(&flow)?;
        let process = self.process_of(dial.by);
        let under_way = self.connections.dialling.entry(process).or_default();
        if is_used && *under_way > 1 {
            self.habits.at(process).cases(HabitId::DialsForOne, 1);
        }
        *under_way = under_way.saturating_sub(1);
        Some(dial)
    }

    /// Whether workers of a process are mostly busy with another request until they take one up, as far as their calls show.
    pub fn works_on_others(&self, process: ProcessId) -> bool {
        let of = self.habits.of(process, HabitId::CallsForOne);
        of.exceptions > of.cases
    }

    /// Whether the process uses connections again: then who has one made need not be who gets it.
    pub fn keeps_connections(&self, process: ProcessId) -> bool {
        self.connections.keeping.contains(&process)
    }

    /// Whether the process takes requests; where operations were lost before `at`, whether it may: its takings, or
    /// the fork that would say whose child it is, may be among them, so its namesakes stand for it.
    pub fn serves(&self, process: ProcessId, at: MonoNs) -> bool {
        self.serving.processes.contains(&process)
            || self.is_lossy(MonoNs(0), at) && self.may_serve(self.processes.names.get(process.leader()))
    }

    /// Whether a process of that name may be one that serves: it has no name, or that of one that does.
    fn may_serve(&self, name: StrId) -> bool {
        name == StrId::EMPTY || self.serving.names.contains(&name)
    }

    /// Until when requests from before the recording were under way in the process.
    pub fn unseen_until(&self, process: ProcessId) -> MonoNs {
        self.unseen.until.get(&process).copied().unwrap_or_default()
    }

    /// When operations were lost: intervals in order, none touching another.
    pub fn losses(&self) -> &[(u64, u64)] {
        &self.unseen.losses
    }

    /// Whether operations were lost in `from..=to`.
    pub fn is_lossy(&self, from: MonoNs, to: MonoNs) -> bool {
        let i = self.unseen.losses.partition_point(|&(_, b)| b < from.0);
        !holds("loss.nothing_was_lost", self.unseen.losses.get(i).is_none_or(|&(a, _)| a > to.0))
    }

    /// An operation was carried by io_uring.
    pub fn ring(&mut self, task: TaskId) {
        *self.processes.is_ring.entry(task) = true;
    }

    /// Whether the task's operations are carried by io_uring: the kernel receives ahead of the program.
    pub fn is_ring(&self, task: TaskId) -> bool {
        self.processes.is_ring.get(task)
    }

    /// Whether anybody works in a way that wake-ups must explain.
    pub fn needs_wakes(&self) -> bool {
        self.roles.iter().any(|(_, r)| r.calls && !r.takes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(task: u32, tgid: u32, tid: u32, what: u8) -> TaskRow {
        TaskRow {
            at: MonoNs(0),
            start: MonoNs(0),
            task: TaskId(task),
            parent: TaskId(0),
            tgid,
            tid,
            comm: StrId::EMPTY,
            cmdline: StrId::EMPTY,
            cgroup: StrId::EMPTY,
            what,
            class: 0,
            ..Default::default()
        }
    }

    #[test]
    fn threads_are_of_one_process_in_whatever_order_they_are_met() {
        let mut roles = Roles::default();
        let rows = [(1, 7, 8), (2, 7, 7), (3, 7, 9)];
        rows.iter().for_each(|&(task, tgid, tid)| roles.task(&Slab::default(), &row(task, tgid, tid, life::SNAPSHOT)));
        roles.task(&Slab::default(), &row(2, 7, 7, life::EXEC));
        let process = roles.process_of(TaskId(1));
        assert_eq!((roles.process_of(TaskId(2)), roles.process_of(TaskId(3))), (process, process));
        let of = |leader| ProcessId::led_by(TaskId(leader));
        // the number is given to others later
        roles.task(&Slab::default(), &row(4, 7, 7, life::FORK));
        roles.task(&Slab::default(), &row(5, 7, 10, life::FORK));
        assert_eq!((roles.process_of(TaskId(4)), roles.process_of(TaskId(5))), (of(4), of(4)));
        roles.task(&Slab::default(), &row(6, 7, 7, life::SNAPSHOT));
        assert_eq!(roles.process_of(TaskId(6)), of(6));
    }
}
