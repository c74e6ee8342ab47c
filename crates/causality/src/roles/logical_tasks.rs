//! Which logical task replied to each request.

use super::background::Background;
use super::connection_tasks::ConnectionTasks;
use super::habits::{HabitId, HabitTable};
use super::resumed::{Answer, Resumed};
use crate::conditions::holds;
use crate::errands::Errands;
use crate::exchange::{ExId, Exchange, Slab};
use crate::lineage::{Basis, Ends, Known, Line, Lineage, is_over};
use crate::process::ProcessId;
use crate::process::births::Births;
use crate::process::runtime::traits;
use crate::tenures::Tenures;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;
use wakepath_model::ids::{EndpointId, MonoNs, TaskId};
use wakepath_model::rows::{HandoverRow, Life, PollRow, StreamRow, TaskRow};

/// Most requests of which is kept who replied: calls for those beyond stay open, unless it was told who took them.
const ANSWERS_MAX: usize = 1 << 20;

/// Logical tasks that work for others.
#[derive(Default)]
struct ForOthers {
    /// For several requests at once, or for one after the end of what they were made for.
    seen: FxHashSet<TaskId>,
    /// As their runtime was seen to hand on what came of them, or of what they made.
    told: FxHashSet<TaskId>,
    /// Those that were made after a reply, by the one that replied, and called.
    after_reply: FxHashSet<TaskId>,
    /// Those that were made for a request which did not wait for them.
    background: Background,
    resumed: Resumed,
    /// Processes of which one that was made for a request handed on to another.
    handing_on: FxHashSet<ProcessId>,
}

impl ForOthers {
    /// Whether a task, or what made it, was told to. Of one whose makers are too many it is not known.
    fn is_told(&self, lineage: &Lineage, task: TaskId) -> bool {
        let mut line = std::iter::once(task).chain(lineage.makers(task).map(|(maker, _)| maker));
        let is_known = |task: &TaskId| self.told.contains(task) || lineage.has_requests(*task);
        !self.told.is_empty() && line.find(is_known).is_none_or(|task| self.told.contains(&task))
    }
}

/// Which logical tasks replied to which requests.
#[derive(Default)]
pub(super) struct LogicalTasks {
    lineage: Lineage,
    /// What goroutines do between an item that they take and what they hand back.
    tenures: Tenures,
    /// What tasks are woken for before they send.
    errands: Errands,
    ends: Ends,
    /// Of each request, by its connection and first byte.
    of: FxHashMap<(EndpointId, u64), TaskId>,
    /// Those made after a request's first byte that made the one that replied, furthest up first: of each request, and back.
    heads: FxHashMap<(EndpointId, u64), TaskId>,
    leads_to: FxHashMap<TaskId, (EndpointId, u64)>,
    /// The last one of each connection.
    last: FxHashMap<EndpointId, TaskId>,
    /// On which connection each replied, and what those have in common with who reads there.
    connection_tasks: ConnectionTasks,
    for_others: ForOthers,
    /// Tasks that were made for a request and called, or made one that did, whose end will be told, with their processes.
    spawned: FxHashMap<TaskId, ProcessId>,
}

impl LogicalTasks {
    /// Whether a logical task that was made for a request, and what is between, ended with that.
    pub(super) fn ended_in_time(&self, lineage: &Lineage, task: TaskId) -> bool {
        self.ends.are_in_time(lineage, task)
    }

    /// Whether a runtime tells when a logical task ends that was made for a request.
    pub(super) fn is_end_told(&self, lineage: &Lineage, task: TaskId) -> bool {
        self.ends.are_told(lineage, task)
    }

    /// Whether a logical task was made for a request that did not wait for it, as far as it shows by what it did.
    pub(super) fn is_background(&self, task: TaskId) -> bool {
        self.for_others.background.is_one(task)
    }

    /// Whether a logical task works for other requests than the one that it was made for, or replied to.
    pub(super) fn works_for_others(&self, task: TaskId) -> bool {
        self.for_others.seen.contains(&task)
    }

    /// Whether a logical task, or what made it, was told to work for others.
    pub(super) fn is_told_for_others(&self, lineage: &Lineage, task: TaskId) -> bool {
        self.for_others.is_told(lineage, task)
    }

    /// A goroutine of a process got an item from another. `is_errand`: it is a task whose runtime tells who set it going.
    pub(super) fn handed_over(
        &mut self,
        r: &HandoverRow,
        process: ProcessId,
        is_errand: bool,
        habits: &mut HabitTable,
    ) {
        let lineage = &self.lineage;
        let has_requests = |task| lineage.has_requests(task);
        if is_errand {
            return self.errands.handed_over(r, process, has_requests, habits);
        }
        let is_made_for_one = |task| matches!(lineage.of(task, MonoNs(u64::MAX)), Known::Of(_));
        let is_over = |task, at| lineage.was_over(task, at, r.at);
        self.tenures.handed_over(r, process, has_requests, is_made_for_one, is_over);
    }

    /// Handovers were lost.
    pub(super) fn lost_handovers(&mut self, from: u64, to: u64) {
        self.tenures.lost(from, to);
    }

    /// The answer to a call began, or the call is over.
    pub(super) fn answered(&mut self, e: &Exchange, is_over: bool) {
        if is_over {
            self.for_others.background.answered(e.actor, e.ended);
            self.errands.over(e);
        } else {
            self.errands.answered(e);
        }
    }

    /// What was learned of items.
    pub(super) fn tenures(&self) -> &Tenures {
        &self.tenures
    }

    /// Who replies to a request.
    pub(super) fn of(&self, e: &Exchange) -> Option<TaskId> {
        self.of.get(&(e.flow, e.request_start)).copied()
    }

    /// Who made which task.
    pub(super) fn births(&self) -> &Arc<Births> {
        self.lineage.births()
    }

    /// Which task was made for a request, since what it made replied to that, and to no other.
    pub(super) fn head(&self, e: &Exchange) -> Option<TaskId> {
        self.heads.get(&(e.flow, e.request_start)).copied()
    }

    /// Whether a task of the process that was made for a request, and did not reply to it, was seen to hand on to another.
    pub(super) fn hands_on(&self, process: ProcessId) -> bool {
        self.for_others.handing_on.contains(&process)
    }

    /// A poll of a process's thread returned.
    pub(super) fn polled(&mut self, r: &PollRow, process: ProcessId) {
        if self.for_others.resumed.polled(r) {
            self.for_others.handing_on.insert(process);
        }
    }

    /// What the task works for that makes a call, where its runtime has loops with a thread each.
    fn of_loop(&self, e: &Exchange) -> Option<Line> {
        if !self.lineage.births().traits(e.actor).has_loops {
            return None;
        }
        match self.lineage.of(e.actor, e.began) {
            Known::Of(line) => Some(line),
            _ => None,
        }
    }

    /// A thread reads more of a request.
    pub(super) fn takes_more(&mut self, thread: TaskId) {
        self.for_others.resumed.takes(thread, None);
    }

    /// A thread reads an answer.
    pub(super) fn hears(&mut self, e: &Exchange) {
        let answer = match self.of_loop(e) {
            Some(line) if !line.answers => Some(Answer { task: e.actor, of: line.of, called: e.began }),
            _ => None,
        };
        self.for_others.resumed.takes(e.reply_task, answer);
    }

    /// A request was taken.
    pub(super) fn took(&mut self, xs: &Slab, x: ExId) {
        self.lineage.took(xs, x);
        let e = xs.get(x);
        self.for_others.resumed.takes(e.task, None);
        if e.actor != e.task {
            self.connection_tasks.works(&self.lineage, e.flow, e.actor);
        }
        self.connection_tasks.read(e.flow, e.began);
        // who replied last on this connection may do it again
        if let Some(&task) = self.last.get(&xs.get(x).flow) {
            self.lineage.answers(xs, x, task);
        }
    }

    /// A message told what a request is that a task took.
    pub(super) fn told(&mut self, xs: &Slab, x: ExId) {
        self.lineage.told(xs, x);
    }

    /// A logical task serves a stream.
    pub(super) fn serves(&mut self, xs: &Slab, r: &StreamRow) {
        self.lineage.serves(xs, r);
    }

    /// A task calls: after the end of the request that it was made for, it calls for somebody else, unless it is the one that
    /// replied.
    pub(super) fn called(&mut self, xs: &Slab, e: &Exchange, process: ProcessId, habits: &mut HabitTable) {
        let is_after_its_end = match self.lineage.of(e.actor, e.began) {
            Known::Of(line) if line.basis == Basis::AfterReply => {
                let after_reply = &mut self.for_others.after_reply;
                let is_first = after_reply.len() < ANSWERS_MAX && after_reply.insert(e.actor);
                // one that calls again may be a worker that lives on
                !holds("background.calls_once", is_first)
            }
            Known::Of(line) => !line.answers && (!xs.is_live(line.of) || is_over(xs.get(line.of))),
            Known::Forgotten => true,
            Known::Nothing => false,
        };
        if let Some(line) = self.of_loop(e) {
            let makers = self.lineage.makers(e.actor).map(|(maker, _)| maker);
            self.for_others.resumed.calls(e.task, std::iter::once(e.actor).chain(makers), line.of, e.began);
        }
        if !is_after_its_end || !self.may_be_background(e.actor, process) {
            self.for_others.seen.extend(Some(e.actor).filter(|_| is_after_its_end));
            self.spawned_called(e.actor, process, is_after_its_end, habits);
        }
        self.tenures.called(e.actor, e.began);
        self.errands.called(e, habits);
    }

    /// A task calls after the end of the request that it was made for: whether it may be one for which nobody waits.
    fn may_be_background(&mut self, task: TaskId, process: ProcessId) -> bool {
        let is_made = !matches!(self.lineage.of(task, MonoNs(u64::MAX)), Known::Nothing);
        if !is_made || !self.ends.are_told(&self.lineage, task) {
            return false;
        }
        let has_called = self.spawned.contains_key(&task) || self.for_others.seen.contains(&task);
        self.for_others.background.called(task, process, has_called)
    }

    /// A task called; where it was made for a request, its end shows whether it belongs to that alone.
    fn spawned_called(&mut self, task: TaskId, process: ProcessId, is_after_its_end: bool, habits: &mut HabitTable) {
        let is_made = matches!(self.lineage.of(task, MonoNs(u64::MAX)), Known::Of(_) | Known::Forgotten);
        if !is_made || !self.ends.are_told(&self.lineage, task) {
            return;
        }
        if is_after_its_end || self.spawned.len() >= ANSWERS_MAX {
            habits.at(process).exception_if(HabitId::EndsWithRequest, true);
        } else {
            let between = self.lineage.makers(task).map(|(maker, _)| maker);
            let between = between.take_while(|&maker| !self.lineage.has_requests(maker));
            let on = between.filter(|&maker| self.ends.is_in_time(maker).is_none()).map(|maker| (maker, process));
            self.spawned.extend(on.chain([(task, process)]));
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
        if e.reply_actor != task || e.reply_task == task || e.actor == task {
            return;
        }
        match self.lineage.of(task, e.reply_began) {
            Known::Of(line) if line.of != x && !line.answers => {
                self.for_others.seen.insert(task);
            }
            _ => self.lineage.answers(xs, x, task),
        }
        self.find_head(xs, x, task);
        self.last.insert(e.flow, task);
        let habits = habits.at(process);
        if self.of.len() >= ANSWERS_MAX || self.connection_tasks.is_full_for(task) {
            // whether it replies on others too is not kept
            habits.exception_if(HabitId::OneTaskReplies, true);
            return;
        }
        self.of.insert((e.flow, e.request_start), task);
        match self.connection_tasks.replied(&self.lineage, e, task, process) {
            None => {
                self.for_others.seen.insert(task);
                habits.exception_if(HabitId::OneTaskReplies, true);
            }
            Some(replies) => habits.case_if(HabitId::OneTaskReplies, replies == 2),
        }
    }

    /// A task replies: what made it, as far as that was made after the request's first byte, was made for it. But not what leads
    /// to a reply to another request too.
    fn find_head(&mut self, xs: &Slab, x: ExId, task: TaskId) {
        let e = xs.get(x);
        let request = (e.flow, e.request_start);
        let mut head = None;
        let mut is_after_its_end = true;
        for (maker, made) in self.lineage.makers(task) {
            let leads_elsewhere = self.leads_to.get(&maker).is_some_and(|of| *of != request);
            if leads_elsewhere || self.lineage.is_for_another(maker, x) {
                self.for_others.seen.insert(maker);
                is_after_its_end = false;
            }
            is_after_its_end &= made.is_some_and(|made| made > e.taken) && !self.lineage.has_requests(maker);
            head = if is_after_its_end { Some(maker) } else { head };
        }
        // what leads elsewhere is found out in any case
        let Some(head) = head.filter(|_| self.heads.len() < ANSWERS_MAX) else { return };
        self.heads.insert(request, head);
        self.leads_to.insert(head, request);
        self.lineage.leads(x, head);
    }

    /// More of a reply is sent: where nobody is known who sent the first part, by who sends this one.
    pub(super) fn replies_on(&mut self, xs: &Slab, x: ExId, by: (TaskId, ProcessId), habits: &mut HabitTable) {
        let e = xs.get(x);
        self.for_others.resumed.replies(e.reply_task, x, e.ended);
        if e.reply_task != by.0 && !self.of.contains_key(&(e.flow, e.request_start)) {
            self.replied(xs, x, by, habits);
        }
    }

    /// A request has its whole reply, or will never have it.
    pub(super) fn closed(&mut self, xs: &Slab, x: ExId, at: MonoNs) {
        let e = xs.get(x);
        if let Some(&task) = self.of.get(&(e.flow, e.request_start)).filter(|_| e.replied)
            && self.lineage.births().traits(task).is_named_by_last_part
            && !holds("born.told_to_the_end", e.reply_actor == task)
        {
            self.for_others.seen.extend([task, e.reply_actor].into_iter().filter(|&t| t != e.reply_task));
        }
        self.lineage.over(xs, x, at);
    }

    /// A process accepted a connection.
    pub(super) fn accepted(&mut self, flow: EndpointId, process: ProcessId, at: MonoNs) {
        self.connection_tasks.accepted(flow, process, at);
    }

    /// Operations were lost: connections may have been accepted that nobody saw.
    pub(super) fn lost_accepts(&mut self) {
        self.connection_tasks.lost_accepts();
    }

    /// A connection is gone.
    pub(super) fn gone(&mut self, flow: EndpointId) {
        self.last.remove(&flow);
        self.connection_tasks.gone(flow);
    }

    /// The recording ends: of what was made for a request that is open yet, nobody saw whether it works on after its end.
    pub(super) fn ended(&mut self, xs: &Slab, habits: &mut HabitTable) {
        self.for_others.seen.extend(self.lineage.made_for_open(xs));
        for (task, lives_on_in) in self.for_others.background.finish() {
            self.for_others.seen.insert(task);
            if let Some(process) = lives_on_in {
                habits.at(process).exception_if(HabitId::EndsWithRequest, true);
            }
        }
        // of these nobody saw how they end
        for (task, process) in self.spawned.drain() {
            if !self.for_others.seen.contains(&task) {
                habits.at(process).exception_if(HabitId::EndsWithRequest, true);
            }
        }
    }

    /// A step in a task's life.
    pub(super) fn task(&mut self, xs: &Slab, r: &TaskRow, habits: &mut HabitTable) {
        self.lineage.task(xs, r);
        if traits(r.runtime).has_loops {
            self.for_others.resumed.has_loops();
        }
        self.ends.task(&self.lineage, r);
        if r.what == Life::ForOthers {
            self.for_others.told.insert(r.task);
        }
        if r.what == Life::Exit {
            self.tenures.ended(r.task);
            if let Some((process, is_background)) = self.for_others.background.ended(r.task, r.at) {
                self.for_others.seen.extend(Some(r.task).filter(|_| !is_background));
                habits.at(process).case_if(HabitId::Background, is_background);
                habits.at(process).exception_if(HabitId::EndsWithRequest, !is_background);
            }
        }
        if r.what == Life::Exit
            && let Some(process) = self.spawned.remove(&r.task)
        {
            // of one that is late it says nothing
            let is_in_time = self.ends.is_in_time(r.task);
            habits.at(process).case_if(HabitId::EndsWithRequest, is_in_time == Some(true));
            habits.at(process).exception_if(HabitId::EndsWithRequest, is_in_time.is_none());
        }
    }

    /// Nothing more comes.
    pub(super) fn finish(&mut self, habits: &mut HabitTable) {
        let LogicalTasks { of, heads, for_others, .. } = self;
        of.retain(|_, task| !for_others.seen.contains(task));
        heads.retain(|_, task| holds("born.leads_to_one", !for_others.seen.contains(task)));
        for_others.after_reply = FxHashSet::default();
        for_others.resumed = Resumed::default();
        self.tenures.finish(habits);
        self.errands = Errands::default();
        self.connection_tasks.finish(habits);
        self.leads_to = FxHashMap::default();
        self.lineage = Lineage::knowing(Arc::clone(self.lineage.births()));
        self.last = FxHashMap::default();
    }
}
