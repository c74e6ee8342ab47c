//! Which logical task replied to each request.

use super::background::Background;
use super::connection_tasks::ConnectionTasks;
use super::habits::{HabitId, HabitTable};
use super::paced::Paced;
use super::resumed::{Given, Resumed};
use crate::client_tasks::ClientTasks;
use crate::conditions::holds;
use crate::exchange::{ExId, Exchange, ExchangeFlag, Slab};
use crate::flags::{Flags, flags};
use crate::jobs::Jobs;
use crate::lineage::{Basis, Ends, Lineage, TaskRequest, is_over};
use crate::process::ProcessId;
use crate::process::runtime::traits;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;
use wakepath_model::ids::{EndpointId, MonoNs, TaskId};
use wakepath_model::rows::{Life, OpKind, OpRow, PollRow, TaskRow};

/// Most requests of which is kept who replied: calls for those beyond stay open, unless it was told who took them.
const ANSWERS_MAX: usize = 1 << 20;

/// A request, by its connection and first byte.
type RequestKey = (EndpointId, u64);

flags! {
    /// What a logical task was seen to be.
    pub(super) enum Is {
        /// It works for several requests at once, or for one after the end of what it was made for.
        ForOthers,
        /// Its runtime told that it works for others: it handed on what came of it, or of what it made.
        ReportedForOthers,
        /// It was made after a reply, by the one that replied, and called.
        CallingAfterReply,
        /// It was made for a request which did not wait for it.
        Background,
    }
}

/// What is kept of a logical task.
#[derive(Clone, Copy, Default)]
struct Seen {
    is: Flags<Is>,
    /// The request to whose reply it leads.
    leads_to: Option<RequestKey>,
    /// Its process, where it was made for a request and called, or made one that did, and its end will be told.
    spawned_in: Option<ProcessId>,
}

/// Who replied to a request.
#[derive(Clone, Copy, Default)]
struct Replied {
    by: Option<TaskId>,
    /// The one that was made after the request's first byte and made the one that replied, furthest up.
    head: Option<TaskId>,
}

/// Which logical tasks replied to which requests.
#[derive(Default)]
pub(crate) struct LogicalTasks {
    pub(crate) lineage: Lineage,
    /// What goroutines do between an item that they take and what they hand back.
    pub(crate) jobs: Jobs,
    /// What tasks are woken for before they send.
    pub(super) client_tasks: ClientTasks,
    pub(crate) ends: Ends,
    replied: FxHashMap<RequestKey, Replied>,
    tasks: FxHashMap<TaskId, Seen>,
    /// A task was told to work for others.
    are_some_reported: bool,
    /// The last one of each connection.
    last: FxHashMap<EndpointId, TaskId>,
    /// On which connection each replied, and what those have in common with who reads there.
    pub(super) connection_tasks: ConnectionTasks,
    /// Those that may be made for a request which does not wait for them.
    background: Background,
    pub(super) resumed: Resumed,
    pub(super) paced: Paced,
}

impl LogicalTasks {
    pub(super) fn is(&self, task: TaskId, what: Is) -> bool {
        self.tasks.get(&task).is_some_and(|seen| seen.is.has(what))
    }

    fn note(&mut self, task: TaskId, what: Is) {
        self.tasks.entry(task).or_default().is.add(what);
    }

    /// A case of a habit of a task's kind in a process, or an exception.
    fn note_of_kind(&self, task: TaskId, process: ProcessId, habits: &mut HabitTable, (id, is_case): (HabitId, bool)) {
        if let Some(habits) = habits.at_kind(process, self.lineage.births().kind(task)) {
            habits.case_if(id, is_case);
            habits.exception_if(id, !is_case);
        }
    }

    /// Whether there is room for what is kept of a task only as long as there is.
    fn has_room_for(&self, task: TaskId) -> bool {
        self.tasks.len() < ANSWERS_MAX || self.tasks.contains_key(&task)
    }

    /// The process in which a task was made for a request and called.
    fn spawned_in(&self, task: TaskId) -> Option<ProcessId> {
        self.tasks.get(&task)?.spawned_in
    }

    /// Whether a logical task works for other requests than the one that it was made for, or replied to.
    pub(crate) fn works_for_others(&self, task: TaskId) -> bool {
        self.is(task, Is::ForOthers)
    }

    /// Whether a logical task, or what made it, was told to work for others. Of one whose makers are too many it is not known.
    pub(crate) fn is_reported_for_others(&self, lineage: &Lineage, task: TaskId) -> bool {
        let mut line = lineage.line_up(task);
        let is_told = |task| self.is(task, Is::ReportedForOthers);
        let is_known = |task: &TaskId| is_told(*task) || lineage.has_requests(*task);
        self.are_some_reported && line.find(is_known).is_none_or(is_told)
    }

    /// The answer to a call began, or the call is over.
    pub(super) fn answered(&mut self, e: &Exchange, is_over: bool) {
        if is_over {
            self.background.answered(e.request.actor, e.reply.ended);
            self.client_tasks.over(e);
        } else {
            self.client_tasks.answered(e);
        }
    }

    /// The logical task that replies to a request, and to those of no other connection.
    pub(crate) fn answerer(&self, e: &Exchange) -> Option<TaskId> {
        self.replied.get(&(e.flow, e.request.start))?.by
    }

    /// The logical task that was made for a request, since it made the one that replied to that and to no other, or what made that.
    pub(crate) fn head(&self, e: &Exchange) -> Option<TaskId> {
        self.replied.get(&(e.flow, e.request.start))?.head
    }

    /// A poll of a process's thread returned.
    pub(super) fn polled(&mut self, r: &PollRow, process: ProcessId, habits: &mut HabitTable) {
        self.resumed.polled(r, process);
        self.hand_on(false, habits);
    }

    /// Notes what is known by now of tasks that hand on to other requests.
    fn hand_on(&mut self, is_over: bool, habits: &mut HabitTable) {
        for process in self.resumed.handed_on(&self.lineage, is_over) {
            habits.at(process).exception_if(HabitId::HandsNothingOn, true);
        }
    }

    /// Whether a logical task that calls works for a request, as far as its makers tell.
    pub(super) fn is_in_line(&self, e: &Exchange) -> bool {
        let line = self.lineage.of(e.request.actor, e.request.began);
        e.request.actor != e.request.task && matches!(line, TaskRequest::Of(_))
    }

    /// Whether two tasks of a loop send on one connection, the second before the first is answered.
    pub(super) fn are_several(&self, e: &Exchange, task: TaskId) -> bool {
        e.request.actor != task && self.lineage.births().traits(e.request.actor).has_loops
    }

    /// A thread reads an answer.
    pub(super) fn hears(&mut self, e: &Exchange) {
        let task = e.request.actor;
        let answer = Given::Answer(task, e.request.began);
        let is_of_loop = self.lineage.births().traits(task).has_loops;
        self.resumed.takes(e.reply.task, e.flow, Some(answer).filter(|_| is_of_loop));
    }

    /// A thread moves bytes to another of its process: that may be a loop, for which it has done something.
    pub(super) fn moved_within(&mut self, way: u64, r: &OpRow) {
        let bytes = u64::try_from(r.result).unwrap_or(0);
        match r.kind {
            OpKind::Send => self.resumed.rings(way, (r.task, r.actor()), bytes),
            _ => self.resumed.is_rung(way, r.task, r.flow, bytes),
        }
    }

    /// A request was taken.
    pub(super) fn took(&mut self, xs: &Slab, x: ExId) {
        self.lineage.took(xs, x);
        let e = xs.get(x);
        self.resumed.serves(e.request.task);
        self.resumed.takes(e.request.task, e.flow, Some(Given::Request(e.request.actor)));
        if e.request.actor != e.request.task {
            self.connection_tasks.works(&self.lineage, e.flow, e.request.actor);
        }
        self.connection_tasks.read(e.flow, e.request.began);
        // who replied last on this connection may do it again
        if let Some(&task) = self.last.get(&xs.get(x).flow) {
            self.lineage.answers(xs, x, task);
        }
    }

    /// A task calls: after the end of the request that it was made for, it calls for somebody else, unless it is the one that
    /// replied.
    pub(super) fn called(&mut self, xs: &Slab, e: &Exchange, process: ProcessId, habits: &mut HabitTable) {
        let is_after_its_end = match self.lineage.of(e.request.actor, e.request.began) {
            TaskRequest::Of(line) if line.basis == Basis::AfterReply => {
                let is_first = self.has_room_for(e.request.actor) && !self.is(e.request.actor, Is::CallingAfterReply);
                if is_first {
                    self.note(e.request.actor, Is::CallingAfterReply);
                }
                // one that calls again may be a worker that lives on
                !holds("background.calls_once", is_first)
            }
            TaskRequest::Of(line) => !line.answers && (!xs.is_live(line.of) || is_over(xs.get(line.of))),
            TaskRequest::Forgotten => true,
            TaskRequest::Nothing => false,
        };
        self.resumed.works(e.request.task, e.request.actor);
        // what goes on after its request has ended may be a worker that takes others' work
        if !is_after_its_end && self.lineage.births().traits(e.request.actor).has_loops {
            self.resumed.calls((e.request.task, e.flow), e.request.actor, e.request.began);
        }
        if !is_after_its_end || !self.may_be_background(e.request.actor, process) {
            if is_after_its_end {
                self.note(e.request.actor, Is::ForOthers);
            }
            self.spawned_called(e.request.actor, process, is_after_its_end, habits);
        }
        self.jobs.called(e.request.actor, e.request.began);
        self.client_tasks.called(e, habits);
    }

    /// A task calls after the end of the request that it was made for: whether it may be one for which no task waits.
    fn may_be_background(&mut self, task: TaskId, process: ProcessId) -> bool {
        let is_made = !matches!(self.lineage.of(task, MonoNs(u64::MAX)), TaskRequest::Nothing);
        if !is_made || !self.ends.are_told(&self.lineage, task) {
            return false;
        }
        let has_called = self.spawned_in(task).is_some() || self.is(task, Is::ForOthers);
        self.background.called(task, process, has_called)
    }

    /// A task called; where it was made for a request, its end shows whether it belongs to that alone.
    fn spawned_called(&mut self, task: TaskId, process: ProcessId, is_after_its_end: bool, habits: &mut HabitTable) {
        let is_made = matches!(self.lineage.of(task, MonoNs(u64::MAX)), TaskRequest::Of(_) | TaskRequest::Forgotten);
        if !is_made || !self.ends.are_told(&self.lineage, task) {
            return;
        }
        if is_after_its_end || !self.has_room_for(task) {
            self.note_of_kind(task, process, habits, (HabitId::EndsWithRequest, false));
        } else {
            let between = self.lineage.makers(task).map(|(maker, _)| maker);
            let between = between.take_while(|&maker| !self.lineage.has_requests(maker));
            let on = between.filter(|&maker| self.ends.is_in_time(maker).is_none());
            let spawned: SmallVec<[TaskId; 8]> = on.chain([task]).collect();
            for task in spawned {
                self.tasks.entry(task).or_default().spawned_in = Some(process);
            }
        }
    }

    /// A task of a process replies to a request.
    pub(super) fn replied(&mut self, xs: &Slab, x: ExId, by: (TaskId, ProcessId), habits: &mut HabitTable) {
        let (task, process) = by;
        let e = xs.get(x);
        if let Some(&last) = self.last.get(&e.flow).filter(|last| **last != task) {
            self.lineage.answers_not(x, last);
        }
        // who took it and replies is one that other rules know
        if e.reply.actor != task || e.reply.task == task || e.request.actor == task {
            return;
        }
        match self.lineage.of(task, e.reply.began) {
            TaskRequest::Of(line) if line.of != x && !line.answers => {
                self.note(task, Is::ForOthers);
            }
            _ => self.lineage.answers(xs, x, task),
        }
        self.find_head(xs, x, task);
        self.last.insert(e.flow, task);
        let habits = habits.at(process);
        if self.replied.len() >= ANSWERS_MAX || self.connection_tasks.is_full_for(task) {
            // whether it replies on others too is not kept
            habits.exception_if(HabitId::OneTaskReplies, true);
            return;
        }
        self.replied.entry((e.flow, e.request.start)).or_default().by = Some(task);
        match self.connection_tasks.replied(&self.lineage, e, task, process) {
            None => {
                self.note(task, Is::ForOthers);
                habits.exception_if(HabitId::OneTaskReplies, true);
            }
            Some(replies) => habits.case_if(HabitId::OneTaskReplies, replies == 2),
        }
    }

    /// A task replies: what made it, as far as that was made after the request's first byte, was made for it. But not what leads
    /// to a reply to another request too.
    fn find_head(&mut self, xs: &Slab, x: ExId, task: TaskId) {
        let e = xs.get(x);
        let request = (e.flow, e.request.start);
        let mut head = None;
        let mut is_after_its_end = true;
        let makers: SmallVec<[_; 8]> = self.lineage.makers(task).collect();
        for (maker, made) in makers {
            let leads_to = self.tasks.get(&maker).and_then(|seen| seen.leads_to);
            let leads_elsewhere = leads_to.is_some_and(|of| of != request);
            if leads_elsewhere || self.lineage.is_for_another(maker, x) {
                self.note(maker, Is::ForOthers);
                is_after_its_end = false;
            }
            is_after_its_end &= made.is_some_and(|made| made > e.request.taken) && !self.lineage.has_requests(maker);
            head = if is_after_its_end { Some(maker) } else { head };
        }
        // what leads elsewhere is found out in any case
        let Some(head) = head.filter(|_| self.replied.len() < ANSWERS_MAX) else { return };
        self.replied.entry(request).or_default().head = Some(head);
        self.tasks.entry(head).or_default().leads_to = Some(request);
        self.lineage.leads(x, head);
    }

    /// More of a reply is sent: where nobody is known who sent the first part, by who sends this one.
    pub(super) fn replies_on(&mut self, xs: &Slab, x: ExId, by: (TaskId, ProcessId), habits: &mut HabitTable) {
        let e = xs.get(x);
        self.resumed.replies((e.reply.task, e.flow), e.reply.actor, e.reply.ended);
        if e.reply.task != by.0 && self.answerer(e).is_none() {
            self.replied(xs, x, by, habits);
        }
    }

    /// A request has its whole reply, or will never have it.
    pub(super) fn closed(&mut self, xs: &Slab, x: ExId, at: MonoNs) {
        let e = xs.get(x);
        if let Some(task) = self.answerer(e).filter(|_| e.is(ExchangeFlag::Replied))
            && self.lineage.births().traits(task).is_named_by_last_part
            && !holds("born.told_to_the_end", e.reply.actor == task)
        {
            for task in [task, e.reply.actor].into_iter().filter(|&t| t != e.reply.task) {
                self.note(task, Is::ForOthers);
            }
        }
        self.lineage.over(xs, x, at);
    }

    /// A connection is gone.
    pub(super) fn gone(&mut self, flow: EndpointId) {
        self.last.remove(&flow);
        self.connection_tasks.gone(flow);
    }

    /// Nobody records from here on: of what was made for a request that is open yet, it was not seen whether it works on after its end.
    pub(super) fn paused(&mut self, xs: &Slab) {
        let made_for_open: Vec<TaskId> = self.lineage.made_for_open(xs).collect();
        made_for_open.into_iter().for_each(|task| self.note(task, Is::ForOthers));
    }

    /// The recording ends.
    pub(super) fn ended(&mut self, xs: &Slab, habits: &mut HabitTable) {
        self.paused(xs);
        self.hand_on(true, habits);
        for (task, lives_on_in) in self.background.finish() {
            self.note(task, Is::ForOthers);
            if let Some(process) = lives_on_in {
                self.note_of_kind(task, process, habits, (HabitId::EndsWithRequest, false));
            }
        }
        // of these it was not seen how they end
        for (&task, seen) in self.tasks.iter().filter(|(_, seen)| !seen.is.has(Is::ForOthers)) {
            if let Some(process) = seen.spawned_in {
                self.note_of_kind(task, process, habits, (HabitId::EndsWithRequest, false));
            }
        }
    }

    /// A step in a task's life.
    pub(super) fn task(&mut self, xs: &Slab, r: &TaskRow, habits: &mut HabitTable) {
        self.lineage.task(xs, r);
        if traits(r.runtime).has_loops {
            self.resumed.has_loops();
        }
        self.ends.task(&self.lineage, r);
        if r.what == Life::ForOthers {
            self.note(r.task, Is::ReportedForOthers);
            self.are_some_reported = true;
        }
        if r.what != Life::Exit {
            return;
        }
        self.jobs.ended(r.task);
        if let Some((process, is_background)) = self.background.ended(r.task, r.at) {
            self.note(r.task, if is_background { Is::Background } else { Is::ForOthers });
            let id = if is_background { HabitId::Background } else { HabitId::EndsWithRequest };
            self.note_of_kind(r.task, process, habits, (id, is_background));
        }
        if let Some(process) = self.tasks.get_mut(&r.task).and_then(|seen| seen.spawned_in.take()) {
            // of one that is late it says nothing
            let is_in_time = self.ends.is_in_time(r.task);
            if is_in_time != Some(false) {
                self.note_of_kind(r.task, process, habits, (HabitId::EndsWithRequest, is_in_time.is_some()));
            }
        }
    }

    /// Nothing more comes.
    pub(super) fn finish(&mut self, habits: &mut HabitTable) {
        self.tasks.retain(|_, seen| {
            *seen = Seen { is: seen.is, ..Seen::default() };
            [Is::ForOthers, Is::ReportedForOthers, Is::Background].into_iter().any(|what| seen.is.has(what))
        });
        let is_for_others = |task: TaskId| self.tasks.get(&task).is_some_and(|seen| seen.is.has(Is::ForOthers));
        self.replied.retain(|_, replied| {
            replied.by = replied.by.filter(|&task| !is_for_others(task));
            replied.head = replied.head.filter(|&task| holds("born.leads_to_one", !is_for_others(task)));
            replied.by.is_some() || replied.head.is_some()
        });
        (self.resumed, self.background) = (Resumed::default(), Background::default());
        self.jobs.finish(habits);
        self.client_tasks = ClientTasks::default();
        self.connection_tasks.finish(habits);
        self.lineage = Lineage::knowing(Arc::clone(self.lineage.births()));
        self.last = FxHashMap::default();
    }
}
