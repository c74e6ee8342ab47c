//! The active path of a task: its elapsed time, with every interval in which it was blocked replaced by what it waited
//! for (Giraldeau and Dagenais, section 2.3, Algorithm 2; in its backward step, `v ← edge.from` is read as the *source*
//! of the wake-up or packet).
//!
//! One cursor walks back from the end. What it has passed is given as slices, each ending where the one before began, so
//! they cover the interval exactly whatever the records say. A wait is followed to its source by a frame on an explicit
//! stack; the frame goes down to where the wait began, and there the waiter's own time goes on.

mod acceptor;
pub(crate) mod locks;
mod logical;
mod network;
pub(crate) mod others;
mod own;
mod processor;
pub(crate) mod taken;
pub(crate) mod timeouts;
pub(crate) mod untaken;

pub(crate) use own::own_wait;

use crate::backwards::Backwards;
use crate::causes::{Cause, Told};
use crate::names::remote_of;
use crate::reasons;
use crate::slices::{Slice, State};
use network::is_local;
use wakepath_causality::evidence::Class;
use wakepath_graph::{Index, is_futex};
use wakepath_model::ids::{CommonNs, EndpointId, HostId, TaskId};
use wakepath_model::rows::{EndedBy, WaitRow, gaps};

/// Most waits followed one inside the other.
const DEPTH_MAX: usize = 500;
/// Most slices of one window or request: beyond it the rest is one slice that says so.
const SLICES_MAX: u64 = 1 << 24;
/// Waits of the task that are looked at together.
const WINDOW_WAITS: u64 = 1024;
/// Most switches told apart while a task waits for its processor once.
const SWITCHES_MAX: usize = 1 << 20;
/// Polling without waiting more often than this is busy waiting.
const BUSY_NS: u64 = 1_000_000;
/// Least time that is looked at for busy waiting.
const BUSY_FROM_NS: u64 = 100_000;
/// No system call.
const NO_SYSCALL: u16 = 0xffff;
/// Object of a preemption: a cgroup of the task had used up its CPU quota.
const QUOTA: u64 = 1;
/// `__TASK_TRACED`.
const TRACED: u16 = 8;
/// `TASK_FROZEN`.
const FROZEN: u16 = 0x8000;

/// How a step is known.
pub(crate) type Evidence = (&'static str, Class);

const FORK: Evidence = ("fork", Class::Observed);

/// The active path of `task` between two moments of the common time line, as slices in order of time that cover the
/// interval without gap or overlap. The interval is cut to what was recorded of the task. Memory: a window of the path.
pub fn active_path(
    index: &Index,
    host: HostId,
    task: TaskId,
    from: CommonNs,
    to: CommonNs,
    out: &mut dyn FnMut(Slice),
) {
    let local = |t| index.timeline().local(host, t);
    let (mut at, mut walk) = (from, Walk::new(index));
    while at < to {
        // windows end where the task came onto a processor, so that none cuts a wait in two
        let next = index.waits_from(host, task, local(at)).saturating_add(WINDOW_WAITS);
        let end = index.wait(host, task, next).map_or(to, |w| index.common(host, w.at).min(to));
        let end = if end > at { end } else { to };
        walk.back(host, task, at, end);
        walk.slices.drain(out);
        walk.count = 0;
        at = end;
    }
}

/// What a task's time is cut to: from where it was recorded or made, until it ended. `None` where nothing is left.
pub fn lifetime(index: &Index, host: HostId, task: TaskId) -> Option<(CommonNs, CommonNs)> {
    let (first, last) = index.span(host, task);
    let from = index.fork(host, task).map_or(first, |(at, _)| at.max(first));
    let to = index.exit(host, task).map_or(last, |at| at.min(last));
    let (from, to) = (index.common(host, from), index.common(host, to));
    (from < to).then_some((from, to))
}

/// A task that is being walked back.
#[derive(Clone, Copy)]
struct Frame {
    host: HostId,
    task: TaskId,
    /// Down to where.
    floor: CommonNs,
    /// Where the cursor was when it came here: who is met twice without a step back waits in a circle.
    entered: CommonNs,
    /// Place of the next wait to be passed, one past.
    place: u64,
    depth: u16,
    evidence: Option<Evidence>,
    wait: Option<State>,
}

/// Walks back; reusable, so that its memory is.
pub struct Walk<'a> {
    index: &'a Index,
    /// The slices, last first.
    slices: Backwards,
    /// How many there were in this window.
    count: u64,
    stack: Vec<Frame>,
    /// Begin of what has been told.
    at: CommonNs,
    base_depth: u16,
    base_evidence: Option<Evidence>,
    span: Option<u32>,
    /// Messages that end waits of the task itself are these: they are told and not followed.
    message: Option<Message>,
    /// Of a request, what its own task does in it: the connection on which it came in. Others' inputs are not its.
    entry: Option<(HostId, EndpointId)>,
    /// The calls of that request, where all are known.
    outstanding: Option<others::Outstanding>,
    /// What ended its own task's waits in poll that this walk has passed.
    later: others::Later,
    /// The thread that took that request.
    taker: Option<TaskId>,
    /// The logical task (goroutine, virtual thread) whose path is walked, where that is none of a thread.
    name: Option<TaskId>,
    /// The wait for a futex that was looked at last, where it went on after a time-out.
    again: Option<timeouts::Again>,
}

/// A message whose way is known already.
#[derive(Clone, Copy)]
pub(crate) struct Message {
    /// Who sent it.
    pub by: Option<(HostId, TaskId)>,
    /// How that is known.
    pub evidence: Option<Evidence>,
    /// Why no more is known.
    pub reason: Option<&'static str>,
    /// Where it left from: the endpoint, and the number (32 wrapping bits) of the byte after its last.
    pub from: Option<(HostId, EndpointId, u32)>,
    /// On which connection it was awaited, where it never came and the wait's own record does not name that.
    pub on: Option<EndpointId>,
}

impl Message {
    /// Of which nothing is known.
    pub(crate) const NOTHING: Message = Message { by: None, evidence: None, reason: None, from: None, on: None };
}

/// What a slice says besides its place.
#[derive(Clone, Default)]
pub(crate) struct What {
    pub by: Option<(HostId, TaskId)>,
    pub syscall: Option<u16>,
    pub object: Option<String>,
    pub reason: Option<&'static str>,
}

impl<'a> Walk<'a> {
    /// A walk over an index.
    pub fn new(index: &'a Index) -> Walk<'a> {
        Walk {
            index,
            slices: Backwards::default(),
            count: 0,
            stack: Vec::new(),
            at: CommonNs(0),
            base_depth: 0,
            base_evidence: None,
            span: None,
            message: None,
            entry: None,
            outstanding: None,
            later: others::Later::default(),
            taker: None,
            name: None,
            again: None,
        }
    }

    /// What the next walks' slices say of their depth and span, and of how the span is known.
    pub(crate) fn place(&mut self, depth: u16, span: Option<u32>, evidence: Option<Evidence>) {
        (self.base_depth, self.span, self.base_evidence) = (depth, span, evidence);
    }

    /// Begin of what has been told.
    pub(crate) fn at(&self) -> CommonNs {
        self.at
    }

    /// Sets where the next slice ends.
    pub(crate) fn start_at(&mut self, at: CommonNs) {
        self.at = at;
    }

    /// Tells one slice down to `from`, besides any walk.
    pub(crate) fn put(
        &mut self,
        task: (HostId, TaskId),
        from: CommonNs,
        state: State,
        m: Message,
        object: Option<String>,
    ) {
        let f = Frame {
            host: task.0,
            task: task.1,
            floor: from,
            entered: self.at,
            place: 0,
            depth: self.base_depth,
            evidence: m.evidence.or(self.base_evidence),
            wait: (state != State::Running && state != State::Preempted).then_some(state),
        };
        let what = What { by: m.by, object, reason: m.reason, syscall: None };
        match m.from {
            Some(sender) if state == State::Network => self.on_its_way(&f, sender, from, what),
            _ => self.tell(&f, from, state, what),
        }
    }

    /// The path of `task` down to `floor`, in which messages that end its own waits are `message`.
    pub(crate) fn back_until(&mut self, task: (HostId, TaskId), floor: CommonNs, message: Message) {
        self.message = Some(message);
        self.back(task.0, task.1, floor, self.at);
        self.message = None;
    }

    /// The path of `task` down to `floor`, of a request that `taker` took on `entry`: others' inputs are not what it waited for.
    pub(crate) fn back_within(
        &mut self,
        task: (HostId, TaskId),
        floor: CommonNs,
        entry: EndpointId,
        taker: (HostId, TaskId),
    ) {
        self.entry = Some((task.0, entry));
        self.later = others::Later::default();
        self.taker = Some(taker.1).filter(|_| taker.0 == task.0);
        self.back(task.0, task.1, floor, self.at);
        (self.entry, self.taker) = (None, None);
    }

    /// What the request of the next walks asked of others, where all of that is known.
    pub(crate) fn of_request(&mut self, outstanding: Option<others::Outstanding>) {
        self.outstanding = outstanding;
    }

    /// In whose name the next walks' own tasks run: what they did for others is not told as that one's.
    pub(crate) fn in_name_of(&mut self, logical: Option<TaskId>) {
        self.name = logical;
    }

    /// What was walked, to be read in order of time.
    pub(crate) fn into_slices(self) -> Backwards {
        self.slices
    }

    /// Walks the path of `task` between two moments.
    pub fn back(&mut self, host: HostId, task: TaskId, floor: CommonNs, to: CommonNs) {
        if floor >= to {
            return;
        }
        self.at = to;
        let depth = self.base_depth;
        self.stack.clear();
        self.push(Frame { host, task, floor, entered: to, place: 0, depth, evidence: self.base_evidence, wait: None });
        while let Some(frame) = self.stack.pop() {
            if self.at > frame.floor {
                self.step(frame);
            }
        }
    }

    /// Looks up where a frame's task stands at the cursor and makes it the one that is walked.
    fn push(&mut self, mut frame: Frame) {
        let at = self.index.timeline().local(frame.host, self.at);
        frame.place = self.index.waits_from(frame.host, frame.task, at);
        frame.entered = self.at;
        self.stack.push(frame);
    }

    /// Tells everything from `from` to the cursor; nothing where that is empty.
    fn tell(&mut self, f: &Frame, from: CommonNs, state: State, what: What) {
        let from = from.max(f.floor);
        if from >= self.at {
            return;
        }
        let to = std::mem::replace(&mut self.at, from);
        let slice = Slice {
            host: f.host,
            task: f.task,
            from,
            to,
            state,
            by: what.by,
            // the call of whoever waits is not that of the task that is waited for, and runs meanwhile
            syscall: what.syscall,
            object: what.object,
            depth: f.depth,
            wait: f.wait,
            span: self.span,
            evidence: f.evidence,
            reason: what.reason,
        };
        match self.slices.last_mut() {
            // one thing told twice is one slice
            Some(last)
                if last.from == to
                    && (Slice { from, to: last.to, ..slice.clone() }) == (Slice { from, ..last.clone() }) =>
            {
                last.from = from;
            }
            _ => {
                self.count += 1;
                self.slices.push(slice);
            }
        }
    }

    /// What a frame's task waited for, which is not followed further.
    fn tell_wait(&mut self, f: &Frame, state: State, what: What) {
        let f = Frame { wait: f.wait.or(Some(state)), ..*f };
        self.tell(&f, f.floor, state, what);
    }

    /// One wait of a frame's task, and what it ran after it.
    fn step(&mut self, mut f: Frame) {
        if self.count >= SLICES_MAX || self.slices.has_failed() {
            // everything that is left, at once
            let floor = self.stack.first().map_or(f.floor, |b| b.floor.min(f.floor));
            f.floor = floor;
            let reason = if self.slices.has_failed() { reasons::NO_ROOM } else { reasons::TOO_MANY };
            self.tell_wait(&f, State::Unknown, because(reason));
            self.stack.clear();
            return;
        }
        let index = self.index;
        let Some(mut w) = f.place.checked_sub(1).and_then(|p| index.wait(f.host, f.task, p)) else {
            self.beginning(f);
            return;
        };
        let ran = index.common(f.host, w.at);
        let next = index.wait(f.host, f.task, f.place);
        if !w.runs_until(next.as_ref()) && !self.is_just_followed(&f) {
            self.tell_wait(&Frame { floor: ran.max(f.floor), ..f }, State::Unknown, because(reasons::UNRECORDED));
            if self.at <= f.floor {
                return;
            }
        }
        if next.is_none() {
            // after its last wait: it ran, as far as anybody watched
            let last = index.common(f.host, index.span(f.host, f.task).1).max(ran);
            self.tell_wait(&Frame { floor: last.max(f.floor), ..f }, State::Unknown, because(reasons::AFTER));
        }
        if self.tell_without_thread(&f, &w) {
            return;
        }
        if ran < self.at {
            self.running(&f, ran.max(f.floor), Some(&w));
            if self.at <= f.floor {
                return;
            }
        }
        let woken = index.common(f.host, w.woken.min(w.at).max(w.blocked));
        // nobody wakes a task that was preempted or still waits
        if woken < self.at && w.cause != EndedBy::Preempted && w.cause != EndedBy::Open {
            self.ready(&f, woken, &w);
            if self.at <= f.floor {
                return;
            }
        }
        // an open wait has a record at each flush
        f.place -= 1;
        if f.place > 0 && index.wait(f.host, f.task, f.place - 1).is_some_and(|p| p.blocked == w.blocked) {
            f.place = index.waits_from(f.host, f.task, w.blocked);
        }
        let (place, evidence) = self.without_others(&f, &mut w);
        let begin = index.common(f.host, w.blocked);
        let inner = Frame { floor: begin.max(f.floor), evidence, ..f };
        self.stack.push(Frame { place, ..f });
        self.blocked(inner, &w);
    }

    /// Whether a frame's task was come to by what it did at the cursor: it ran then, whatever is not recorded of it later.
    fn is_just_followed(&self, f: &Frame) -> bool {
        f.entered == self.at && f.depth > self.base_depth && f.evidence != Some(FORK)
    }

    /// A wait that the message ended which the path is of; whether it is one.
    fn by_message(&mut self, f: &mut Frame, w: &WaitRow, syscall: Option<u16>) -> bool {
        let host = f.host;
        let Some(m) =
            self.message.filter(|m| f.depth == self.base_depth && (is_by_message(w, m.by) || self.is_of_another(f, w)))
        else {
            return false;
        };
        let end = match w.cause {
            // what its thread slept for meanwhile is another's
            _ if self.is_of_another(f, w) => None,
            EndedBy::Timer => self.unanswered(host, w),
            _ => Some(EndpointId(w.object)),
        };
        let end = m.on.or(end);
        let object = end.and_then(|end| self.index.end(host, end)).as_ref().map(remote_of);
        f.evidence = m.evidence.or(f.evidence);
        let what = What { by: m.by, syscall, object, reason: m.reason };
        match m.from {
            Some(sender) => {
                f.wait = f.wait.or(Some(State::Network));
                self.on_its_way(f, sender, f.floor, what);
            }
            // nobody had taken it
            None if m.on.is_some() => self.tell_wait(f, State::Queued, what),
            None => self.tell_wait(f, State::Network, what),
        }
        true
    }

    /// The frame's task was not running from the frame's floor to the cursor.
    fn blocked(&mut self, mut f: Frame, w: &WaitRow) {
        if f.floor >= self.at {
            return;
        }
        let host = f.host;
        let syscall = (w.syscall != NO_SYSCALL).then_some(w.syscall);
        let what = |reason| What { by: None, syscall, object: None, reason };
        let is_told = self.tell_others(&f, w, syscall) || self.tell_acceptor(f, w, syscall);
        if is_told || self.by_message(&mut f, w, syscall) {
            return;
        }
        match w.cause {
            EndedBy::Preempted => self.preempted(&f, w, what(None)),
            EndedBy::Open => {
                let state = if is_futex(w) { self.futex(host, w, TaskId::UNKNOWN).0 } else { State::Unknown };
                let object = self.awaited_object(host, w);
                let by = self.holder(host, w).map(|holder| (host, holder));
                self.tell_wait(&f, state, What { by, object, ..what(Some(reasons::OPEN)) });
            }
            EndedBy::Timer => self.timed_out(f, w, syscall),
            EndedBy::Stopped => self.stopped(&f, w, what(None)),
            // an imported trace knows who let it go on, and not who stopped it
            EndedBy::Task | EndedBy::Unknown if w.is_stopped() => {
                self.stopped(&f, &WaitRow { by: TaskId::UNKNOWN, object: 0, ..*w }, what(None));
            }
            EndedBy::Block if own::has_no_work(self.index, host, w) => {
                self.tell_wait(&f, State::Blocked, what(Some(reasons::NO_WORK)));
            }
            EndedBy::Block => {
                let fault = self.index.fault_around(host, w);
                let is_outside = syscall.is_none() && w.is_uninterruptible() && !self.index.is_kernel(host, f.task);
                let is_fault = fault.is_some() || is_outside;
                let state = if is_fault { State::PageFault } else { State::Disk };
                let file = || self.index.file_waited_for(host, w).map(str::to_owned);
                let object = fault.and_then(|f| f.1).or_else(file).or_else(|| own::device(w.object));
                self.tell_wait(&f, state, What { object, ..what(None) });
            }
            EndedBy::Task => self.woken_by(f, w, syscall),
            EndedBy::Socket => {
                let end = EndpointId(w.object);
                if w.rcv_seq == 0 && w.by != TaskId::UNKNOWN && is_local(self.index, host, end) {
                    // the writer's own call: a UNIX socket or a pipe
                    self.woken_by(f, w, syscall);
                } else {
                    f.wait = f.wait.or(Some(State::Network));
                    self.socket(f, w, end, syscall);
                }
            }
            EndedBy::Net => {
                f.wait = f.wait.or(Some(State::Network));
                self.network(f, w, syscall);
            }
            EndedBy::Packet => {
                f.wait = f.wait.or(Some(State::Network));
                self.packet(f, w, syscall);
            }
            _ => match Cause::told(w) {
                Some(Told { state, object }) => self.tell_wait(&f, state, What { object, ..what(None) }),
                None => self.tell_wait(&f, State::Unknown, what(Some(reasons::NO_CAUSE))),
            },
        }
    }

    /// A signal, a debugger or the freezer of a cgroup stopped the task: who sent the signal, where that was seen.
    fn stopped(&mut self, f: &Frame, w: &WaitRow, what: What) {
        let by = (w.by != TaskId::UNKNOWN).then_some((f.host, w.by));
        let object = Some(match w.object {
            _ if w.state & TRACED != 0 => "a debugger".to_owned(),
            _ if w.state & FROZEN != 0 => "the freezer of its cgroup".to_owned(),
            19 => "SIGSTOP".to_owned(),
            20 => "SIGTSTP".to_owned(),
            21 => "SIGTTIN".to_owned(),
            22 => "SIGTTOU".to_owned(),
            _ => "a signal".to_owned(),
        });
        self.tell_wait(f, State::Stopped, What { by, object, ..what });
    }

    /// Goes on with another task at the cursor, down to the frame's floor.
    fn follow(&mut self, f: Frame, to: (HostId, TaskId), kind: State, evidence: Evidence, what: What) {
        let mut same = self.stack.iter().rev().take_while(|s| s.entered <= self.at);
        let is_cycle = same.any(|s| (s.host, s.task) == to && s.entered == self.at);
        let reason = match self.stack.len() {
            DEPTH_MAX.. => Some(reasons::DEPTH),
            _ if is_cycle => Some(reasons::CYCLE),
            _ => None,
        };
        if reason.is_some() {
            self.tell_wait(&f, kind, What { reason, ..what });
            return;
        }
        self.push(Frame {
            host: to.0,
            task: to.1,
            floor: f.floor,
            entered: self.at,
            place: 0,
            depth: f.depth.saturating_add(1),
            evidence: Some(evidence),
            wait: f.wait.or(Some(kind)),
        });
    }

    /// Before the first wait of the frame's task: it ran, from when it was made or recorded.
    fn beginning(&mut self, f: Frame) {
        let index = self.index;
        let (first, last) = index.span(f.host, f.task);
        let (first, last) = (index.common(f.host, first), index.common(f.host, last));
        if last < self.at {
            self.tell(&f, last, State::Unknown, because(reasons::AFTER));
        }
        if index.wait(f.host, f.task, f.place).is_some_and(|w| w.gaps & gaps::BEFORE != 0) {
            self.tell_wait(&f, State::Unknown, because(reasons::UNRECORDED));
            return;
        }
        let made = index.fork(f.host, f.task).map(|(at, parent)| (index.common(f.host, at), parent));
        // an older task may have slept until just before its first record; what it did shows that it ran
        let from = match made {
            Some((at, _)) if at >= first => at,
            _ => index.first_seen(f.host, f.task).map_or(self.at, |at| index.common(f.host, at).max(first)),
        };
        if from < self.at {
            self.running(&f, from.max(f.floor), None);
        }
        if self.at <= f.floor {
            return;
        }
        if self.at > first && made.is_none_or(|m| m.0 < first) {
            self.tell_wait(&Frame { floor: first.max(f.floor), ..f }, State::Unknown, because(reasons::UNSEEN));
            if self.at <= f.floor {
                return;
            }
        }
        match made {
            Some((at, parent)) if at >= first && parent != TaskId::UNKNOWN && parent != f.task => {
                let to = (f.host, parent);
                self.follow(f, to, State::Blocked, FORK, What::default());
            }
            Some((at, _)) if at >= first => {
                self.tell_wait(&f, State::Unknown, because(reasons::UNBORN));
            }
            _ => self.tell_wait(&f, State::Unknown, because(reasons::BEFORE)),
        }
    }
}

fn because(reason: &'static str) -> What {
    What { reason: Some(reason), ..What::default() }
}

/// Whether a wait was ended by a message, as far as its record tells: by the network, or by the writer itself. One in poll
/// that a time-out ended before the message came was for it too.
fn is_by_message(w: &WaitRow, by: Option<(HostId, TaskId)>) -> bool {
    match w.cause {
        EndedBy::Timer => timeouts::is_for_bytes(w),
        EndedBy::Socket | EndedBy::Net | EndedBy::Packet => true,
        EndedBy::Task => w.by != TaskId::UNKNOWN && by.is_some_and(|b| b.1 == w.by),
        _ => false,
    }
}
