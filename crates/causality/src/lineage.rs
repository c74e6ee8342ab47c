//! Which request a logical task works for, where its runtime tells what made it, and when.
//!
//! What a task of a request's makes is for that request too, as long as it is open. A task is of a request if it took it, or
//! replied to it, or was made by such a task at that time. Both passes over a recording keep this: the first sees which tasks
//! work for others as well.

use crate::canary::holds;
use crate::exchange::{ExId, Exchange, Slab};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use wakepath_model::ids::{EndpointId, MonoNs, TaskId};
use wakepath_model::rows::{OPEN, TaskRow, runtime};

/// Requests kept of each task: what it makes is told soon after.
const TAKES_MAX: usize = 4;
/// From how many on tasks are forgotten whose request is gone.
const LINES_MAX: usize = 262_144;
/// Most makers one above the other that are asked.
const DEPTH_MAX: usize = 8;

/// The request that a task works for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// The request.
    pub(crate) of: ExId,
    /// The task itself replies to it: what it does behind that is nobody's.
    pub(crate) answers: bool,
    /// It rests on that the task replied to the requests of one connection and to no others.
    pub(crate) is_habit: bool,
}

/// A request that a task took, or replied to.
#[derive(Clone, Copy)]
struct Take {
    taken: MonoNs,
    of: ExId,
    /// When it was over; the end of time until then.
    over: MonoNs,
}

/// Requests that a task took, or replied to.
struct Takes {
    last: SmallVec<[Take; 1]>,
    /// The connection on which they came.
    flow: EndpointId,
    /// It had two at once, or of two connections: what it makes may be for either.
    has_several: bool,
    answers: bool,
    /// It may have been there before the first of them.
    is_older: bool,
    has_forgotten: bool,
}

impl Takes {
    /// Which one it had last at a moment, or what is known else.
    fn at(&self, at: MonoNs) -> Result<Take, Known> {
        if !holds("born.one_at_a_time", !self.has_several) {
            return Err(Known::Nothing);
        }
        let last = self.last.iter().rev().find(|take| take.taken <= at);
        last.copied().ok_or(if self.has_forgotten { Known::Forgotten } else { Known::Nothing })
    }

    fn line(&self, of: ExId) -> Known {
        Known::Of(Line { of, answers: self.answers, is_habit: self.answers && self.is_older })
    }
}

/// What is known of a task's request.
pub(crate) enum Known {
    Of(Line),
    Nothing,
    /// It was known once.
    Forgotten,
}

/// What logical tasks work for.
#[derive(Default)]
pub(crate) struct Lineage {
    takes: FxHashMap<TaskId, Takes>,
    /// Who made each task, and when.
    made: FxHashMap<TaskId, (TaskId, MonoNs)>,
    lines: FxHashMap<TaskId, Line>,
    /// How many lines there may be at the next look at which requests are gone.
    lines_max: usize,
}

impl Lineage {
    /// A task's row: a runtime may tell when it was made, and by which.
    pub(crate) fn task(&mut self, xs: &Slab, r: &TaskRow) {
        if r.runtime == 0 || r.start.0 == 0 {
            return;
        }
        // Python's name for it is when it was made itself; what is told of its maker may be of one further up
        let own = if r.runtime == runtime::PYTHON { MonoNs(r.key) } else { r.start };
        if let Some(takes) = self.takes.get_mut(&r.task) {
            takes.is_older = takes.last.first().is_none_or(|first| own < first.taken);
        }
        if r.parent == TaskId::UNKNOWN {
            return;
        }
        if self.lines.len() + self.made.len() >= LINES_MAX.max(self.lines_max) {
            self.lines.retain(|_, line| xs.is_live(line.of));
            self.made.clear();
            self.takes.retain(|_, takes| takes.last.iter().any(|take| xs.is_live(take.of)));
            // where most are open yet, the next look is far off
            self.lines_max = self.lines.len() * 2;
        }
        match self.request(r.parent, r.start, DEPTH_MAX) {
            Known::Of(line) => {
                self.lines.insert(r.task, Line { answers: false, ..line });
            }
            _ => {
                self.made.insert(r.task, (r.parent, r.start));
            }
        }
    }

    /// The request that a task worked for when it made another: of one that took requests, the last, if that was open yet.
    fn request(&self, task: TaskId, at: MonoNs, depth: usize) -> Known {
        let Some(takes) = self.takes.get(&task) else {
            return match (self.lines.get(&task), self.made.get(&task)) {
                (Some(line), _) => Known::Of(*line),
                (None, Some(&(maker, made))) if depth > 0 => self.request(maker, made, depth - 1),
                _ => Known::Nothing,
            };
        };
        match takes.at(at) {
            Ok(take) if holds("born.before_the_end", at <= take.over) => takes.line(take.of),
            Ok(_) => Known::Nothing,
            Err(known) => known,
        }
    }

    /// What a task works for now. Of one that takes requests and leaves the replies to others, other rules speak.
    pub(crate) fn of(&self, task: TaskId, at: MonoNs) -> Known {
        match self.takes.get(&task) {
            Some(takes) if !takes.answers => Known::Nothing,
            Some(takes) => takes.at(at).map_or_else(|known| known, |take| takes.line(take.of)),
            None => self.request(task, at, DEPTH_MAX),
        }
    }

    /// Tasks that were made for requests that are not over.
    pub(crate) fn made_for_open(&self, xs: &Slab) -> impl Iterator<Item = TaskId> {
        let is_open = |line: &Line| !line.answers && xs.is_live(line.of) && !is_over(xs.get(line.of));
        let made = self.lines.keys().chain(self.made.keys()).copied();
        made.filter(move |&task| matches!(self.of(task, MonoNs(u64::MAX)), Known::Of(line) if is_open(&line)))
    }

    /// A task took a request.
    pub(crate) fn took(&mut self, xs: &Slab, x: ExId) {
        let e = xs.get(x);
        if e.actor != e.task {
            self.has(xs, x, e.actor);
        }
    }

    /// A logical task replies to a request, or will.
    pub(crate) fn answers(&mut self, xs: &Slab, x: ExId, task: TaskId) {
        self.has(xs, x, task).answers = true;
    }

    /// A request is over: what its tasks make from now on is not for it.
    pub(crate) fn over(&mut self, xs: &Slab, x: ExId, at: MonoNs) {
        let e = xs.get(x);
        for task in [e.actor, e.reply_actor] {
            let takes = self.takes.get_mut(&task).map(|takes| takes.last.iter_mut());
            takes.into_iter().flatten().filter(|take| take.of == x).for_each(|take| take.over = take.over.min(at));
        }
    }

    fn has(&mut self, xs: &Slab, x: ExId, task: TaskId) -> &mut Takes {
        let flow = xs.get(x).flow;
        let new = || Takes {
            last: SmallVec::new(),
            flow,
            has_several: false,
            answers: false,
            is_older: true,
            has_forgotten: false,
        };
        let takes = self.takes.entry(task).or_insert_with(new);
        if takes.last.iter().any(|take| take.of == x) {
            return takes;
        }
        takes.has_several |= takes.flow != flow;
        takes.has_several |= takes.last.iter().any(|take| xs.is_live(take.of) && !is_over(xs.get(take.of)));
        if takes.last.len() == TAKES_MAX {
            takes.last.remove(0);
            takes.has_forgotten = true;
        }
        takes.last.push(Take { taken: xs.get(x).taken, of: x, over: MonoNs(u64::MAX) });
        takes
    }
}

/// Whether a request has its whole reply, or will never have it.
pub(crate) fn is_over(e: &Exchange) -> bool {
    e.replied || e.cut || e.reset || (e.open_ended && e.reply_start != OPEN)
}
