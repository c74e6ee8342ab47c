//! Which request a logical task works for, where its runtime tells what made it, and when.
//!
//! What a task of a request's makes is for that request too, as long as it is open. A task is of a request if it took it, or
//! replied to it, or was made by such a task at that time, or was made after its first byte and made the one that replied.
//! Who made which task the first pass learns ([`Births`]). Both passes follow which requests those have: the first sees which tasks work
//! for others as well.

use crate::conditions::holds;
use crate::exchange::{ExId, Exchange, ExchangeFlag, Side, Slab};
use crate::flags::{Flags, flags};
use crate::per_task::PerTask;
use crate::process::births::Births;
use crate::process::runtime::traits;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;
use wakepath_model::ids::{EndpointId, MonoNs, TaskId};
use wakepath_model::rows::{Life, OPEN, StreamRow, TaskRow};

/// Requests kept of each task: what it makes is told soon after.
const TAKES_MAX: usize = 4;
/// From how many on tasks are forgotten whose request is gone.
const LINES_MAX: usize = 262_144;
/// How long after its request a task may end that was made for it (ns), or for which part of that request's own time: who waited for it
/// may be faster than itself. What a slow host stretches, it stretches with the request. An absolute time remains since a short request
/// says little of how long a task lacks a processor.
const END_NS: u64 = 1_000_000;
const END_PART: u64 = 8;
/// How long after it may end without being one that lives on (ns), or as long as the request: it may have lacked a processor.
const LATE_NS: u64 = 20_000_000;
/// Most makers one above the other that are asked.
const DEPTH_MAX: usize = 8;

/// What it rests on that a task works for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Basis {
    /// Who made it, when, and what it did.
    Seen,
    /// A habit: it was made after the reply, by the task that had replied to this request alone.
    AfterReply,
    /// A habit: the task replied to the requests of one connection and to no others.
    OneConnection,
    /// A habit: what its process makes in requests, and calls, ends with them.
    EndsWithIt,
    /// A habit: it took an item of the request's and handed back what came of it.
    HandedOver,
}

/// The request that a task works for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// The request.
    pub(crate) of: ExId,
    /// The task itself replies to it, or was made by that one after the reply: what it does after that is of no request.
    pub(crate) answers: bool,
    /// Why.
    pub(crate) basis: Basis,
}

impl Line {
    /// The same of a task that it made.
    fn of_made(self) -> Line {
        Line { answers: self.basis == Basis::AfterReply, ..self }
    }
}

/// A request that a task took, or replied to.
#[derive(Clone, Copy)]
struct Take {
    taken: MonoNs,
    of: ExId,
    /// When it was over; the end of time until then.
    over: MonoNs,
}

flags! {
    /// What is so of the requests of a task.
    enum TakesFlag {
        /// It had two at once, or of two connections: what it makes may be for either.
        Several,
        /// It replies to them.
        Answers,
        /// It may have been there before the first of them.
        Older,
        /// Some of them are kept no more.
        Forgotten,
    }
}

/// Requests that a task took, or replied to.
struct Takes {
    flags: Flags<TakesFlag>,
    last: SmallVec<[Take; 1]>,
    /// The connection on which they came.
    flow: EndpointId,
}

impl Takes {
    /// Which one it had last at a moment, or what is known else.
    fn at(&self, at: MonoNs) -> Result<Take, TaskRequest> {
        if !holds("born.one_at_a_time", !self.flags.has(TakesFlag::Several)) {
            return Err(TaskRequest::Nothing);
        }
        let last = self.last.iter().rev().find(|take| take.taken <= at);
        last.copied().ok_or(if self.flags.has(TakesFlag::Forgotten) {
            TaskRequest::Forgotten
        } else {
            TaskRequest::Nothing
        })
    }

    fn line(&self, of: ExId) -> TaskRequest {
        let basis = if self.flags.has(TakesFlag::Answers) && self.flags.has(TakesFlag::Older) {
            Basis::OneConnection
        } else {
            Basis::Seen
        };
        TaskRequest::Of(Line { of, answers: self.flags.has(TakesFlag::Answers), basis })
    }
}

/// What is known of a task's request.
pub(crate) enum TaskRequest {
    Of(Line),
    Nothing,
    /// It was known once.
    Forgotten,
}

/// What is known of the end of a logical task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum End {
    /// Its runtime does not tell, nor who made it.
    #[default]
    Untold,
    /// It will be told.
    Expected,
    /// It came a little after the end of the request that it was made for: it may have waited for work, or for a processor.
    Late,
    /// It came before that, or at once afterwards.
    InTime,
}

/// Which logical tasks ended with the request that they were made for, where their runtime tells.
#[derive(Default)]
pub(crate) struct Ends(PerTask<End>);

impl Ends {
    /// A step in a task's life.
    pub(crate) fn task(&mut self, lineage: &Lineage, r: &TaskRow) {
        if !traits(r.runtime).tells_ends || lineage.births.of(r.task).is_none() {
            return;
        }
        let (taken, over) = lineage.life_of(r.task);
        let own = if over == u64::MAX { 0 } else { over.saturating_sub(taken) };
        let end = self.0.entry(r.task);
        *end = match r.what {
            _ if matches!(*end, End::InTime | End::Late) => *end,
            Life::Exit if r.at.0 <= over.saturating_add(END_NS.max(own / END_PART)) => End::InTime,
            Life::Exit if r.at.0 <= over.saturating_add(LATE_NS.max(own)) => End::Late,
            _ => End::Expected,
        };
    }

    /// Whether a runtime tells when a task ends that was made for a request. One that has requests itself is not bound to its
    /// maker's.
    pub(crate) fn are_told(&self, lineage: &Lineage, task: TaskId) -> bool {
        self.0.get(task) != End::Untold && !lineage.has_requests(task)
    }

    /// Whether a task that was made for a request, and each between it and the one that took that, ended in time.
    pub(crate) fn are_in_time(&self, lineage: &Lineage, task: TaskId) -> bool {
        lineage.line_up(task).find(|&t| self.0.get(t) != End::InTime).is_some_and(|t| lineage.has_requests(t))
    }

    /// Whether a task that was made for a request ended, and when: in time, or a little afterwards.
    pub(crate) fn is_in_time(&self, task: TaskId) -> Option<bool> {
        match self.0.get(task) {
            End::InTime => Some(true),
            End::Late => Some(false),
            End::Untold | End::Expected => None,
        }
    }
}

/// Open requests that came by streams, of which others than those who read them serve each.
#[derive(Default)]
struct Streams {
    /// By the stream's number, and by who reads, and who made that.
    open: FxHashMap<(TaskId, u64), ExId>,
    /// Who serves each.
    servers: FxHashMap<ExId, TaskId>,
}

impl Streams {
    fn keys(births: &Births, e: &Exchange) -> impl Iterator<Item = (TaskId, u64)> + use<> {
        let is_stream = e.content.witness.0.is_stream();
        let (reader, stream) = (e.request.actor, e.content.witness.1);
        let keys = [Some(reader), births.maker(reader)].into_iter().flatten();
        keys.filter(move |t| is_stream && *t != TaskId::UNKNOWN).map(move |t| (t, stream))
    }

    fn took(&mut self, births: &Births, x: ExId, e: &Exchange) {
        self.open.extend(Self::keys(births, e).map(|key| (key, x)));
    }

    /// It is over; who served it.
    fn over(&mut self, births: &Births, x: ExId, e: &Exchange) -> Option<TaskId> {
        for key in Self::keys(births, e) {
            if self.open.get(&key) == Some(&x) {
                self.open.remove(&key);
            }
        }
        self.servers.remove(&x)
    }
}

/// What logical tasks work for.
#[derive(Default)]
pub(crate) struct Lineage {
    /// Who made which task: what is learned, or, where it is shared, was learned.
    births: Arc<Births>,
    streams: Streams,
    takes: FxHashMap<TaskId, Takes>,
    lines: FxHashMap<TaskId, Line>,
    /// How many lines there may be at the next look at which requests are gone.
    lines_max: usize,
}

impl Lineage {
    /// Nobody has a request yet, and it is known who made which task.
    pub(crate) fn knowing(births: Arc<Births>) -> Lineage {
        Lineage { births, ..Lineage::default() }
    }

    /// Who made which task.
    pub(crate) fn births(&self) -> &Arc<Births> {
        &self.births
    }

    /// A task's row: a runtime may tell when it was made, and by which.
    pub(crate) fn task(&mut self, xs: &Slab, r: &TaskRow) {
        // what was learned is shared, and changes no more
        if let Some(births) = Arc::get_mut(&mut self.births) {
            births.task(r);
        }
        if !Births::are_told_by(r) || r.start.0 == 0 {
            return;
        }
        if let Some(takes) = self.takes.get_mut(&r.task) {
            takes.flags.set(TakesFlag::Older, takes.last.first().is_none_or(|first| r.start < first.taken));
        }
        if r.parent == TaskId::UNKNOWN {
            return;
        }
        if self.lines.len() >= LINES_MAX.max(self.lines_max) {
            self.lines.retain(|_, line| xs.is_live(line.of));
            self.takes.retain(|_, takes| takes.last.iter().any(|take| xs.is_live(take.of)));
            // where most are open yet, the next look is far off
            self.lines_max = self.lines.len() * 2;
        }
        if let TaskRequest::Of(line) = self.request(r.parent, r.start, DEPTH_MAX) {
            // it may be known as one that leads to a reply
            self.lines.entry(r.task).or_insert(line.of_made());
        } else if traits(r.runtime).has_loops
            && let Some(of) = self.replied_before(r.parent, r.start)
        {
            self.lines.insert(r.task, Line { of, answers: true, basis: Basis::AfterReply });
        }
    }

    /// The only request of a task that was made for it and replied to it, if that was over at a moment.
    fn replied_before(&self, task: TaskId, at: MonoNs) -> Option<ExId> {
        let takes = self.takes.get(&task).filter(|takes| {
            takes.flags.has(TakesFlag::Answers)
                && !takes.flags.has(TakesFlag::Several)
                && !takes.flags.has(TakesFlag::Forgotten)
        })?;
        let made = self.made_at(task)?;
        match takes.last[..] {
            [take] if made > take.taken && take.over < at => Some(take.of),
            _ => None,
        }
    }

    /// What made a task, and what made that, nearest first, each with when it was made itself, where that is known.
    pub(crate) fn makers(&self, task: TaskId) -> impl Iterator<Item = (TaskId, Option<MonoNs>)> {
        let maker = |task: &TaskId| self.births.of(*task).map(|(maker, _)| maker);
        let makers = std::iter::successors(maker(&task), maker).take(DEPTH_MAX);
        makers.map(|task| (task, self.made_at(task)))
    }

    /// A task, and what made it, as [`Lineage::makers`].
    pub(crate) fn line_up(&self, task: TaskId) -> impl Iterator<Item = TaskId> {
        std::iter::once(task).chain(self.makers(task).map(|(maker, _)| maker))
    }

    /// When a task was made, where its maker is known too.
    fn made_at(&self, task: TaskId) -> Option<MonoNs> {
        self.births.of(task).map(|(_, made)| made)
    }

    /// When the request was taken, and over, that a task was made for (ns): the end of time where it is not, the beginning where that is not
    /// known.
    fn life_of(&self, task: TaskId) -> (u64, u64) {
        let takes = self.line_up(task).find_map(|t| self.takes.get(&t));
        let of = self.lines.get(&task).map(|line| line.of);
        let take = takes.and_then(|takes| takes.last.iter().rev().find(|take| Some(take.of) == of));
        take.map_or((0, 0), |take| (take.taken.0, take.over.0))
    }

    /// Whether a task was made for another request than this one.
    pub(crate) fn is_for_another(&self, task: TaskId, x: ExId) -> bool {
        self.lines.get(&task).is_some_and(|line| line.of != x)
    }

    /// Whether a task took requests, or replied to them.
    pub(crate) fn has_requests(&self, task: TaskId) -> bool {
        self.takes.contains_key(&task)
    }

    /// A task was made after a request's first byte, and made the one that replies to it, or what made that.
    pub(crate) fn leads(&mut self, x: ExId, task: TaskId) {
        self.lines.insert(task, Line { of: x, answers: false, basis: Basis::Seen });
    }

    /// The request that a task worked for when it made another: of one that took requests, the last, if that was open yet.
    fn request(&self, task: TaskId, at: MonoNs, depth: usize) -> TaskRequest {
        let Some(takes) = self.takes.get(&task) else {
            return match (self.lines.get(&task), self.births.of(task)) {
                (Some(line), _) => TaskRequest::Of(*line),
                (None, Some((maker, made))) if depth > 0 => match self.request(maker, made, depth - 1) {
                    TaskRequest::Of(line) => TaskRequest::Of(line.of_made()),
                    known => known,
                },
                _ => TaskRequest::Nothing,
            };
        };
        match takes.at(at) {
            Ok(take) if holds("born.before_the_end", at <= take.over) => takes.line(take.of),
            Ok(_) => TaskRequest::Nothing,
            Err(known) => known,
        }
    }

    /// What a task works for now. Of one that takes requests and leaves the replies to others, other rules speak.
    pub(crate) fn of(&self, task: TaskId, at: MonoNs) -> TaskRequest {
        match self.takes.get(&task) {
            Some(takes) if !takes.flags.has(TakesFlag::Answers) => TaskRequest::Nothing,
            Some(takes) => takes.at(at).map_or_else(|known| known, |take| takes.line(take.of)),
            None => self.request(task, at, DEPTH_MAX),
        }
    }

    /// The request that a task worked for at a moment, as its makers would be asked.
    pub(crate) fn worked_for(&self, task: TaskId, at: MonoNs) -> TaskRequest {
        self.request(task, at, DEPTH_MAX)
    }

    /// Whether the request that a task had at a moment was over by another.
    pub(crate) fn was_over(&self, task: TaskId, at: MonoNs, by: MonoNs) -> bool {
        self.takes.get(&task).and_then(|takes| takes.at(at).ok()).is_some_and(|take| take.over <= by)
    }

    /// Tasks that were made for requests that are not over.
    pub(crate) fn made_for_open(&self, xs: &Slab) -> impl Iterator<Item = TaskId> {
        let is_open = |line: &Line| !line.answers && xs.is_live(line.of) && !is_over(xs.get(line.of));
        self.births
            .tasks()
            .filter(move |&task| matches!(self.of(task, MonoNs(u64::MAX)), TaskRequest::Of(line) if is_open(&line)))
    }

    /// A task took a request.
    pub(crate) fn took(&mut self, xs: &Slab, x: ExId) {
        let e = xs.get(x);
        self.has(xs, x, e.request.actor);
        if e.request.actor != e.request.task {
            self.streams.took(&self.births, x, e);
        }
    }

    /// A message told what a request is that a task took.
    pub(crate) fn identified(&mut self, xs: &Slab, x: ExId) {
        let e = xs.get(x);
        if e.side == Side::Server && e.request.actor != e.request.task {
            self.streams.took(&self.births, x, e);
        }
    }

    /// A logical task serves a stream, on which a request was read.
    pub(crate) fn serves(&mut self, xs: &Slab, r: &StreamRow) {
        let Some(&x) = self.streams.open.get(&(r.by, r.stream)).filter(|x| xs.is_live(**x)) else { return };
        let takes = self.has(xs, x, r.task);
        takes.flags.add(TakesFlag::Answers);
        takes.flags.set(TakesFlag::Older, false);
        self.streams.servers.insert(x, r.task);
    }

    /// A logical task replies to a request, or will.
    pub(crate) fn answers(&mut self, xs: &Slab, x: ExId, task: TaskId) {
        self.has(xs, x, task).flags.add(TakesFlag::Answers);
    }

    /// Another one replied to a request than who was taken to.
    pub(crate) fn answers_not(&mut self, x: ExId, task: TaskId) {
        if let Some(takes) = self.takes.get_mut(&task) {
            takes.last.retain(|take| take.of != x);
        }
    }

    /// A request is over: what its tasks make from now on is not for it.
    pub(crate) fn over(&mut self, xs: &Slab, x: ExId, at: MonoNs) {
        let e = xs.get(x);
        let server = self.streams.over(&self.births, x, e);
        for task in [e.request.actor, e.reply.actor].into_iter().chain(server) {
            let takes = self.takes.get_mut(&task).map(|takes| takes.last.iter_mut());
            takes.into_iter().flatten().filter(|take| take.of == x).for_each(|take| take.over = take.over.min(at));
        }
    }

    fn has(&mut self, xs: &Slab, x: ExId, task: TaskId) -> &mut Takes {
        let flow = xs.get(x).flow;
        let new = || Takes { last: SmallVec::new(), flow, flags: Flags::of(&[TakesFlag::Older]) };
        let takes = self.takes.entry(task).or_insert_with(new);
        if takes.last.iter().any(|take| take.of == x) {
            return takes;
        }
        // a thread has connections one after the other
        takes.flags.add_if(TakesFlag::Several, takes.flow != flow && task != xs.get(x).request.task);
        takes
            .flags
            .add_if(TakesFlag::Several, takes.last.iter().any(|take| xs.is_live(take.of) && !is_over(xs.get(take.of))));
        if takes.last.len() == TAKES_MAX {
            takes.last.remove(0);
            takes.flags.add(TakesFlag::Forgotten);
        }
        takes.last.push(Take { taken: xs.get(x).request.taken, of: x, over: MonoNs(u64::MAX) });
        takes
    }
}

/// Whether a request has its whole reply, or will never have it. A reply of which a protocol will tell the end may be sent in parts,
/// between which its tasks go on; where none is known, nothing but what comes next tells.
pub(crate) fn is_over(e: &Exchange) -> bool {
    let is_untold = e.is_by_direction() && e.is(ExchangeFlag::OpenEnded) && e.reply.start != OPEN;
    e.is(ExchangeFlag::Replied) || e.is(ExchangeFlag::Cut) || e.is(ExchangeFlag::Reset) || is_untold
}
