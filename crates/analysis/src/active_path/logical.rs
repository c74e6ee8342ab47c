//! A thread runs logical tasks (goroutines, virtual threads) in turns. What it waited for when it ran none, or another one, is
//! nothing that this one waited for.

use super::{Frame, Walk};
use wakepath_model::ids::{CommonNs, TaskId};
use wakepath_model::rows::{WaitRow, cause, runtime};

/// Most operations, and most waits, of a thread that are looked at for when it last ran a logical task.
const LOOKED_AT_MAX: usize = 256;

impl Walk<'_> {
    /// The logical task whose path a frame is.
    fn name_of(&self, f: &Frame) -> Option<TaskId> {
        self.name.filter(|_| f.depth == self.base_depth)
    }

    /// When the logical task that is walked came onto its thread before the cursor, as far as is known; `None` where that ran it
    /// since before its last wait, or nothing tells.
    pub(super) fn came_onto_thread(&self, f: &Frame, w: &WaitRow) -> Option<CommonNs> {
        let name = self.name_of(f).filter(|_| self.message.is_none() && self.is_told(f, w))?;
        let common = |at| self.index.common(f.host, at);
        let until = self.index.timeline().local(f.host, self.at);
        let mut mine =
            self.index.operations_back(f.host, f.task, until).take_while(|o| o.at >= w.at && common(o.at) > f.floor);
        let others = mine.find(|o| o.logical != name).map(|o| common(o.at));
        others.or_else(|| (w.logical != name && common(w.at) > f.floor).then(|| common(w.at)))
    }

    /// When the logical task that is walked was last seen on a thread before the cursor, by its operations and by its waits there; the
    /// beginning of time where it was not.
    pub(super) fn last_on_thread(&self, f: &Frame, thread: TaskId) -> CommonNs {
        let Some(name) = self.name_of(f) else { return CommonNs(i64::MIN) };
        let (index, until) = (self.index, self.index.timeline().local(f.host, self.at));
        let mut operations = index.operations_back(f.host, thread, until).take(LOOKED_AT_MAX);
        let acted = operations.find(|o| o.logical == name && o.at < until).map(|o| o.at);
        let place = index.waits_from(f.host, thread, until);
        let mut waits = (0..place).rev().take(LOOKED_AT_MAX).map_while(|at| index.wait(f.host, thread, at));
        let waited = waits.find(|w| w.logical == name && w.cause != cause::OPEN && w.at < until).map(|w| w.at);
        acted.max(waited).map_or(CommonNs(i64::MIN), |at| index.common(f.host, at))
    }

    /// Whether a thread waited in nobody's name, or in that of another than whose path is walked.
    pub(super) fn is_of_another(&self, f: &Frame, w: &WaitRow) -> bool {
        self.name_of(f).is_some_and(|name| w.logical != name && self.is_told(f, w))
    }

    /// Whether a thread's runtime tells in whose name it waits. Go's and the JVM's do, but not of waits that began before the
    /// process was known: in whose name such a one is nobody knows, and nothing says that it was this one's.
    fn is_told(&self, f: &Frame, w: &WaitRow) -> bool {
        let tells = |name| matches!(self.index.runtime(f.host, name), runtime::GO | runtime::JVM);
        w.is_told != 0 || self.name_of(f).is_some_and(tells)
    }
}
