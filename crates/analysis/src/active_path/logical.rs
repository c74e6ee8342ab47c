//! A thread runs logical tasks (goroutines, virtual threads) in turns. What it waited for when it ran none, or another one, is
//! nothing that this one waited for.

use super::{Frame, Walk, What, because};
use crate::reasons;
use crate::slices::State;
use wakepath_model::ids::{CommonNs, TaskId};
use wakepath_model::rows::{EndedBy, Park, ParkRow, RuntimeKind, WaitRow};

/// Most operations, and most waits, of a thread that are looked at for when it last ran a logical task.
const LOOKED_AT_MAX: usize = 256;

impl Walk<'_> {
    /// The logical task whose path a frame is.
    fn name_of(&self, f: &Frame) -> Option<TaskId> {
        self.name.filter(|_| f.depth == self.base_depth)
    }

    /// Tells what the logical task that is walked did down to where another thread ran it, or this one before it ran others. False where
    /// the thread ran it all along. `w`: the thread's last wait.
    pub(super) fn tell_without_thread(&mut self, f: &Frame, w: &WaitRow) -> bool {
        let parked = self.last_park(f);
        let resumed = parked.map_or(CommonNs(i64::MIN), |p| self.index.common(f.host, p.at));
        let came = self.came_onto_thread(f, w);
        // where it waited since the thread did, that is what the path leads to
        if came.is_none() && self.index.common(f.host, w.at) >= resumed {
            return false;
        }
        self.running(f, came.unwrap_or(resumed).max(resumed).max(f.floor), Some(w));
        // what it did before it left, here or where it had taken the request, is its own
        let seen = [Some(f.task), self.taker].into_iter().flatten().map(|task| (self.last_on_thread(f, task), task));
        let seen = seen.chain(parked.map(|p| (resumed, p.on)));
        let (left, task) = seen.max_by_key(|s| s.0).unwrap_or((f.floor, f.task));
        self.tell_wait(&Frame { floor: left.max(f.floor), ..*f }, State::Unknown, because(reasons::PARKED));
        match parked.filter(|_| left == resumed && self.at > f.floor) {
            Some(p) => {
                self.tell_park(f, &p);
                self.push(Frame { task: p.from, ..*f });
            }
            None => self.push(Frame { task, ..*f }),
        }
        true
    }

    /// The last wait inside its program of the logical task that is walked, as far as it lies in the path.
    fn last_park(&self, f: &Frame) -> Option<ParkRow> {
        let name = self.name_of(f).filter(|_| self.message.is_none())?;
        let until = self.index.timeline().local(f.host, self.at);
        let common = |at| self.index.common(f.host, at);
        // rows that contradict each other: who was parked for no time was not
        self.index.park_before(f.host, name, until).filter(|p| common(p.at) > f.floor.max(common(p.blocked)))
    }

    /// A wait of a logical task inside its program, which ended at the cursor.
    fn tell_park(&mut self, f: &Frame, p: &ParkRow) {
        let common = |at| self.index.common(f.host, at);
        let (blocked, woken) = (common(p.blocked).max(f.floor), common(p.woken.max(p.blocked).min(p.at)));
        let waiter = Frame { task: p.task, ..*f };
        self.tell(&waiter, woken.max(f.floor), State::Preempted, because(reasons::NO_THREAD));
        let by = (p.by != TaskId::UNKNOWN && p.by != p.task).then_some((f.host, p.by));
        let (state, object) = match p.why {
            Park::Sleep => (State::Timer, None),
            Park::Mutex => (State::Lock, Some("a mutex")),
            Park::ReadLock | Park::WriteLock => (State::Lock, Some("a read-write lock")),
            Park::Condition => (State::Blocked, Some("a condition")),
            Park::Receive => (State::Blocked, Some("an item of a channel")),
            Park::Send => (State::Blocked, Some("room in a channel")),
            Park::Select => (State::Blocked, Some("one of several channels")),
            Park::Other => (State::Blocked, Some("a wait group or a semaphore")),
        };
        let reason = match (state, by) {
            (State::Timer, _) => None,
            (State::Lock, Some(_)) => Some(reasons::HELD_INSIDE),
            (_, Some(_)) => Some(reasons::INSIDE),
            // it was seen to be made ready, and no goroutine did that
            (State::Blocked, None) if p.woken < p.at => Some(reasons::TIMED_INSIDE),
            (_, None) => Some(reasons::NO_WAKER),
        };
        let what = What { by, object: object.map(String::from), reason, ..What::default() };
        self.tell_wait(&Frame { floor: blocked, ..waiter }, state, what);
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
        let waited = waits.find(|w| w.logical == name && w.cause != EndedBy::Open && w.at < until).map(|w| w.at);
        acted.max(waited).map_or(CommonNs(i64::MIN), |at| index.common(f.host, at))
    }

    /// Whether a thread waited in nobody's name, or in that of another than whose path is walked.
    pub(super) fn is_of_another(&self, f: &Frame, w: &WaitRow) -> bool {
        self.name_of(f).is_some_and(|name| w.logical != name && self.is_told(f, w))
    }

    /// Whether a thread's runtime tells in whose name it waits. Go's and the JVM's do, but not of waits that began before the
    /// process was known: in whose name such a one is nobody knows, and nothing says that it was this one's.
    fn is_told(&self, f: &Frame, w: &WaitRow) -> bool {
        let tells = |name| matches!(self.index.runtime(f.host, name), RuntimeKind::Go | RuntimeKind::Jvm);
        w.is_told != 0 || self.name_of(f).is_some_and(tells)
    }
}
