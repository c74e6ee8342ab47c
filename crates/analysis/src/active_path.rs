//! The active path of a task: its elapsed time, with every interval in which it was blocked replaced by what it waited
//! for (Giraldeau and Dagenais, section 2.3, Algorithm 2; in its backward step, `v ← edge.from` is read as the *source*
//! of the wake-up or packet).
//!
//! One cursor walks back from the end. What it has passed is given as slices, each ending where the one before began, so
//! they cover the interval exactly whatever the records say. A wait is followed to its source by a frame on an explicit
//! stack; the frame goes down to where the wait began, and there the waiter's own time goes on.

use crate::names::remote_of;
use crate::reasons;
use crate::slices::{Slice, State};
use wakepath_causality::evidence::Class;
use wakepath_causality::graph::{Index, Left, how, is_vague};
use wakepath_causality::pairs::How;
use wakepath_model::ids::{CommonNs, EndpointId, HostId, TaskId};
use wakepath_model::rows::{PacketRow, WaitRow, cause, context, op};

/// Most waits followed one inside the other.
const DEPTH_MAX: usize = 500;
/// Most slices of one window: beyond it the rest is one slice that says so.
const WINDOW_SLICES_MAX: usize = 1 << 20;
/// Waits of the task that are looked at together.
const WINDOW_WAITS: u64 = 1024;
/// Most packets followed back through softirqs.
const HOPS_MAX: usize = 64;
/// Polling without waiting more often than this is busy waiting.
const BUSY_NS: u64 = 1_000_000;
/// Least time that is looked at for busy waiting.
const BUSY_FROM_NS: u64 = 100_000;
/// No system call.
const NO_SYSCALL: u16 = 0xffff;
/// `TASK_UNINTERRUPTIBLE`.
const UNINTERRUPTIBLE: u16 = 2;
/// Interrupt lines of the keyboard and mouse controller of a PC.
const INPUT_LINES: [u64; 2] = [1, 12];

/// How a step is known.
pub(crate) type Evidence = (&'static str, Class);

const WAKE_UP: Evidence = ("wake-up", Class::Observed);
const BYTES: Evidence = ("bytes", Class::Observed);
const TRANSLATED: Evidence = ("bytes (translated address)", Class::Observed);
const CONNECT: Evidence = ("connect", Class::Observed);
const CLOSE: Evidence = ("close", Class::Observed);
const DATAGRAM: Evidence = ("datagram", Class::ByRule);
const LAST_SEND: Evidence = ("last send", Class::ByRule);
const PACKET: Evidence = ("packet", Class::Observed);
const PACKET_LENGTH: Evidence = ("packet length", Class::ByRule);
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
        walk.slices.drain(..).rev().for_each(&mut *out);
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
    syscall: Option<u16>,
}

/// Walks back; reusable, so that its memory is.
pub struct Walk<'a> {
    index: &'a Index,
    /// The slices, last first.
    pub slices: Vec<Slice>,
    stack: Vec<Frame>,
    /// Begin of what has been told.
    at: CommonNs,
    limit: usize,
    base_depth: u16,
    base_evidence: Option<Evidence>,
    span: Option<u32>,
    /// Messages that end waits of the task itself are these: they are told and not followed.
    message: Option<Message>,
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
            slices: Vec::new(),
            stack: Vec::new(),
            at: CommonNs(0),
            limit: WINDOW_SLICES_MAX,
            base_depth: 0,
            base_evidence: None,
            span: None,
            message: None,
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
            syscall: None,
        };
        self.tell(&f, from, state, What { by: m.by, object, reason: m.reason, syscall: None });
    }

    /// The path of `task` down to `floor`, in which messages that end its own waits are `message`.
    pub(crate) fn back_until(&mut self, task: (HostId, TaskId), floor: CommonNs, message: Message) {
        self.message = Some(message);
        self.back(task.0, task.1, floor, self.at);
        self.message = None;
    }

    /// Appends the path of `task` between two moments to [`Walk::slices`], last first.
    pub fn back(&mut self, host: HostId, task: TaskId, floor: CommonNs, to: CommonNs) {
        if floor >= to {
            return;
        }
        self.at = to;
        let depth = self.base_depth;
        self.stack.clear();
        self.push(Frame {
            host,
            task,
            floor,
            entered: to,
            place: 0,
            depth,
            evidence: self.base_evidence,
            wait: None,
            syscall: None,
        });
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
            syscall: what.syscall.or(f.syscall),
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
            _ => self.slices.push(slice),
        }
    }

    /// What a frame's task waited for, which is not followed further.
    fn tell_wait(&mut self, f: &Frame, state: State, what: What) {
        let f = Frame { wait: f.wait.or(Some(state)), ..*f };
        self.tell(&f, f.floor, state, what);
    }

    /// One wait of a frame's task, and what it ran after it.
    fn step(&mut self, mut f: Frame) {
        if self.slices.len() >= self.limit {
            // everything that is left, at once
            let floor = self.stack.first().map_or(f.floor, |b| b.floor.min(f.floor));
            f.floor = floor;
            self.tell_wait(&f, State::Unknown, because(reasons::TOO_MANY));
            self.stack.clear();
            return;
        }
        let index = self.index;
        let Some(w) = f.place.checked_sub(1).and_then(|p| index.wait(f.host, f.task, p)) else {
            self.beginning(f);
            return;
        };
        let ran = index.common(f.host, w.at);
        if index.wait(f.host, f.task, f.place).is_none() {
            // behind its last wait: it ran, as far as anybody watched
            let last = index.common(f.host, index.span(f.host, f.task).1).max(ran);
            self.tell_wait(&Frame { floor: last.max(f.floor), ..f }, State::Unknown, because(reasons::AFTER));
        }
        if ran < self.at {
            self.running(&f, ran.max(f.floor), Some(&w));
            if self.at <= f.floor {
                return;
            }
        }
        let woken = index.common(f.host, w.woken.min(w.at).max(w.blocked));
        // nobody wakes a task that was preempted or still waits
        if woken < self.at && w.cause != cause::PREEMPTED && w.cause != cause::OPEN {
            self.ready(&f, woken, &w);
            if self.at <= f.floor {
                return;
            }
        }
        let begin = index.common(f.host, w.blocked);
        // an open wait has a record at each flush
        f.place -= 1;
        if f.place > 0 && index.wait(f.host, f.task, f.place - 1).is_some_and(|p| p.blocked == w.blocked) {
            f.place = index.waits_from(f.host, f.task, w.blocked);
        }
        let inner = Frame { floor: begin.max(f.floor), ..f };
        self.stack.push(f);
        self.blocked(inner, &w);
    }

    /// The task ran from `from` to the cursor.
    fn running(&mut self, f: &Frame, from: CommonNs, after: Option<&WaitRow>) {
        let index = self.index;
        let local = |t| index.timeline().local(f.host, t);
        if from >= self.at {
            return;
        }
        let (a, b) = (local(from), local(self.at));
        if index.lost_between(f.host, a, b) {
            let displaced = after.and_then(|w| index.displaced(f.host, f.task, w.cpu, w.at, b));
            if let Some(left) = displaced {
                let left = index.common(f.host, left);
                self.tell(f, left.max(from), State::Unknown, because(reasons::LOST));
            }
            self.tell(f, from, State::Running, because(reasons::MAYBE_LOST));
            return;
        }
        let is_busy = b.0.saturating_sub(a.0) >= BUSY_FROM_NS && index.polls_busily(f.host, f.task, a, b, BUSY_NS);
        let what = if is_busy { because(reasons::BUSY) } else { What::default() };
        self.tell(f, from, State::Running, what);
    }

    /// The task was ready from `woken` to the cursor, and another had the processor.
    fn ready(&mut self, f: &Frame, woken: CommonNs, w: &WaitRow) {
        let index = self.index;
        let local = |t| index.timeline().local(f.host, t);
        let from = woken.max(f.floor);
        let by = index.holder(f.host, w.cpu, local(from), local(self.at), f.task);
        let reason = by.is_none().then_some(reasons::LATENCY);
        let what = What { by: by.map(|t| (f.host, t)), reason, ..What::default() };
        self.tell(f, from, State::Preempted, what);
    }

    /// The frame's task was not running from the frame's floor to the cursor.
    fn blocked(&mut self, mut f: Frame, w: &WaitRow) {
        if f.floor >= self.at {
            return;
        }
        let host = f.host;
        let syscall = (w.syscall != NO_SYSCALL).then_some(w.syscall);
        let what = |reason| What { by: None, syscall, object: None, reason };
        if let Some(m) = self.message
            && f.depth == self.base_depth
            && is_by_message(w, m.by)
        {
            let object = self.index.end(host, EndpointId(w.object)).as_ref().map(remote_of);
            f.evidence = m.evidence.or(f.evidence);
            self.tell_wait(&f, State::Network, What { by: m.by, syscall, object, reason: m.reason });
            return;
        }
        match w.cause {
            cause::PREEMPTED => {
                // the record names who came next; who then had the processor longest is why it took so long
                let local = |t| self.index.timeline().local(host, t);
                let longest = self.index.holder(host, w.cpu, local(f.floor), local(self.at), f.task);
                let by = longest.or((w.by != TaskId::UNKNOWN && w.by != f.task).then_some(w.by)).map(|t| (host, t));
                let reason = by.is_none().then_some(reasons::LATENCY);
                self.tell(&f, f.floor, State::Preempted, What { by, ..what(reason) });
            }
            cause::OPEN => {
                let state = if is_futex(w) { State::Lock } else { State::Unknown };
                let object = is_futex(w).then(|| format!("futex {:#x}", w.arg0));
                self.tell_wait(&f, state, What { object, ..what(Some(reasons::OPEN)) });
            }
            cause::TIMER => self.tell_wait(&f, State::Timer, what(None)),
            cause::BLOCK => {
                let is_fault = syscall.is_none() && w.state & UNINTERRUPTIBLE != 0;
                let state = if is_fault { State::PageFault } else { State::Disk };
                let object = (w.object != 0).then(|| device(w.object));
                self.tell_wait(&f, state, What { object, ..what(None) });
            }
            cause::IRQ if INPUT_LINES.contains(&w.object) => {
                self.tell_wait(&f, State::Input, what(None));
            }
            cause::IRQ => {
                let object = Some(format!("irq {}", w.object));
                self.tell_wait(&f, State::Interrupt, What { object, ..what(None) });
            }
            cause::SOFTIRQ => {
                let object = Some(format!("softirq {}", softirq(w.object)));
                self.tell_wait(&f, State::Interrupt, What { object, ..what(None) });
            }
            cause::TASK => self.woken_by(f, w, syscall),
            cause::SOCKET => {
                let end = EndpointId(w.object);
                if w.rcv_seq == 0 && w.by != TaskId::UNKNOWN && self.is_local(host, end) {
                    // the writer's own call: a UNIX socket or a pipe
                    self.woken_by(f, w, syscall);
                } else {
                    f.wait = f.wait.or(Some(State::Network));
                    self.socket(f, w, end, syscall);
                }
            }
            cause::NET => {
                f.wait = f.wait.or(Some(State::Network));
                self.network(f, w, syscall);
            }
            cause::PACKET => {
                f.wait = f.wait.or(Some(State::Network));
                self.packet(f, w, syscall);
            }
            _ => self.tell_wait(&f, State::Unknown, what(Some(reasons::NO_CAUSE))),
        }
    }

    fn is_local(&self, host: HostId, flow: EndpointId) -> bool {
        const AF_INET: u16 = 2;
        const AF_INET6: u16 = 10;
        self.index.end(host, flow).is_none_or(|e| e.family != AF_INET && e.family != AF_INET6)
    }

    /// Another task of the host woke it.
    fn woken_by(&mut self, f: Frame, w: &WaitRow, syscall: Option<u16>) {
        let kind = if is_futex(w) { State::Lock } else { State::Blocked };
        let what = What {
            by: (w.by != TaskId::UNKNOWN).then_some((f.host, w.by)),
            syscall,
            object: is_futex(w).then(|| format!("futex {:#x}", w.arg0)),
            reason: None,
        };
        if w.by == TaskId::UNKNOWN {
            let state = if kind == State::Lock { kind } else { State::Unknown };
            self.tell_wait(&f, state, What { reason: Some(reasons::NO_WAKER), ..what });
        } else if w.by == f.task {
            self.tell_wait(&f, kind, What { reason: Some(reasons::ITSELF), ..what });
        } else {
            let evidence = if is_futex(w) { ("futex", Class::Observed) } else { WAKE_UP };
            let to = (f.host, w.by);
            self.follow(f, to, kind, evidence, what);
        }
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
            syscall: what.syscall.or(f.syscall),
        });
    }

    /// A message was on its way from `sent` to the cursor; its sender's time goes on below.
    fn sent_by(&mut self, f: Frame, from: HostId, left: &Left, evidence: Evidence, what: What) {
        let sent = self.index.common(from, left.entry).max(f.floor);
        let on_way = Frame { evidence: Some(evidence), wait: f.wait.or(Some(State::Network)), ..f };
        let by = Some((from, left.task));
        self.tell(&on_way, sent, State::Network, What { by, ..what.clone() });
        if self.at > f.floor {
            if left.task == TaskId::UNKNOWN {
                self.tell_wait(&f, State::Unknown, What { reason: Some(reasons::NO_WAKER), ..what });
            } else {
                self.follow(f, (from, left.task), State::Network, evidence, what);
            }
        }
    }

    /// A message on a socket woke it.
    fn socket(&mut self, f: Frame, w: &WaitRow, flow: EndpointId, syscall: Option<u16>) {
        const LISTENING: u16 = 10;
        const UDP: u16 = 17;
        let index = self.index;
        let end = index.end(f.host, flow);
        let object = end.as_ref().map(remote_of);
        let what = |reason| What { by: None, syscall, object: object.clone(), reason };
        if end.is_none_or(|e| e.state == LISTENING || (e.protocol == UDP && e.how == 0)) {
            // a listener, or a datagram socket for many peers: what it took next says who it was
            self.network(f, w, syscall);
            return;
        }
        let Some(end) = end else { return };
        let Some(kind) = how(&end) else {
            self.tell_wait(&f, State::Network, what(Some(reasons::NO_PEER)));
            return;
        };
        let peer = HostId(end.peer_host);
        // the cursor stands before the wake-up where only a part of the wait is asked for
        let until = index.common(f.host, w.woken).max(self.at);
        let found = if end.protocol == UDP {
            index.last_left(peer, end.peer, op::SEND, until).map(|l| (l, DATAGRAM))
        } else {
            let evidence = if kind == How::Translated { TRANSLATED } else { BYTES };
            index.send_of(peer, end.peer, w.rcv_seq, until).map(|l| (l, evidence))
        };
        // the end of a stream has a number of its own, which no send covers
        let found = found
            .or_else(|| index.last_left(peer, end.peer, op::SHUTDOWN, until).map(|l| (l, CLOSE)))
            .or_else(|| index.last_left(peer, end.peer, op::CLOSE, until).map(|l| (l, CLOSE)))
            .or_else(|| index.last_left(peer, end.peer, op::SEND, until).map(|l| (l, LAST_SEND)));
        match found {
            Some((left, evidence)) => self.sent_by(f, peer, &left, evidence, what(None)),
            None => self.tell_wait(&f, State::Network, what(Some(reasons::NO_SEND))),
        }
    }

    /// The network woke it, the socket is not named: its own operation tells which, the one that it was in, else the
    /// one that it did next.
    fn network(&mut self, f: Frame, w: &WaitRow, syscall: Option<u16>) {
        let index = self.index;
        let until = index.common(f.host, w.woken).max(self.at);
        let after = index.wait(f.host, f.task, index.waits_from(f.host, f.task, w.at));
        let next = index
            .operation_from(f.host, f.task, w.at)
            .filter(|o| o.entry <= w.blocked || after.is_none_or(|a| o.at <= a.blocked));
        let Some(o) = next else {
            let what = What { by: None, syscall, object: None, reason: Some(reasons::NO_SOCKET) };
            self.tell_wait(&f, State::Network, what);
            return;
        };
        let end = index.end(f.host, o.flow);
        let object = end.as_ref().map(remote_of);
        let what = |reason| What { by: None, syscall, object: object.clone(), reason };
        let inside = o.entry <= w.blocked;
        let reason = match (o.kind, &end) {
            (op::CONNECT, _) if inside => reasons::CONNECTING,
            (op::SEND, _) if inside => reasons::SEND_ROOM,
            (op::RECV | op::ACCEPT, Some(e)) if e.how != 0 => {
                let peer = HostId(e.peer_host);
                let found = match o.kind {
                    op::ACCEPT => index.last_left(peer, e.peer, op::CONNECT, until).map(|l| (l, CONNECT)),
                    _ if o.end > o.start => index
                        .send_of(peer, e.peer, (o.start as u32).wrapping_add(1), until)
                        .map(|l| (l, BYTES))
                        .or_else(|| index.last_left(peer, e.peer, op::SEND, until).map(|l| (l, LAST_SEND))),
                    _ => index
                        .last_left(peer, e.peer, op::SHUTDOWN, until)
                        .or_else(|| index.last_left(peer, e.peer, op::CLOSE, until))
                        .map(|l| (l, CLOSE)),
                };
                if let Some((left, evidence)) = found {
                    self.sent_by(f, peer, &left, evidence, what(None));
                    return;
                }
                reasons::NO_SEND
            }
            (op::RECV | op::ACCEPT, _) => reasons::NO_PEER,
            _ => reasons::NO_SOCKET,
        };
        self.tell_wait(&f, State::Network, what(Some(reason)));
    }

    /// A packet that an imported trace saw woke it: back to the task that sent it, through the softirqs that answered
    /// packets with packets and the timers that sent them late.
    fn packet(&mut self, mut f: Frame, w: &WaitRow, syscall: Option<u16>) {
        let index = self.index;
        let (mut host, mut id) = (f.host, w.object);
        let mut what = What { syscall, reason: Some(reasons::NO_PACKET), ..What::default() };
        for _ in 0..HOPS_MAX {
            let Some(received) = index.packet(host, id) else { break };
            what.object = packet_name(&received);
            let Some((from, mut sent)) = index.sent(host, &received) else { break };
            f.evidence = Some(if is_vague(&received) { PACKET_LENGTH } else { PACKET });
            let left = index.common(from, sent.at);
            let by = is_by_task(&sent).then_some((from, sent.task));
            self.tell(&f, left, State::Network, What { by, reason: None, ..what.clone() });
            let nobody = Frame { host: from, task: TaskId::UNKNOWN, ..f };
            if sent.context == context::TIMER {
                let Some(earlier) = index.before_timer(from, &sent) else {
                    what.reason = Some(reasons::BY_TIMER);
                    break;
                };
                let is_again = earlier.sent != 0;
                let object = Some(if is_again { "retransmission" } else { "delayed acknowledgement" }.to_owned());
                let what = What { object, ..What::default() };
                self.tell(&nobody, index.common(from, earlier.at), State::Timer, what);
                if !is_again {
                    (host, id) = (from, earlier.id);
                    continue;
                }
                sent = earlier;
            }
            if self.at <= f.floor {
                return;
            }
            if is_by_task(&sent) {
                let evidence = f.evidence.unwrap_or(PACKET);
                self.follow(f, (from, sent.task), State::Network, evidence, What { reason: None, ..what });
                return;
            }
            let Some(trigger) = (sent.trigger != 0).then(|| index.packet(from, sent.trigger)).flatten() else {
                what.reason =
                    Some(if sent.context == context::TIMER { reasons::BY_TIMER } else { reasons::NO_TRIGGER });
                break;
            };
            let object = Some(format!("softirq {}", softirq(3)));
            self.tell(&nobody, index.common(from, trigger.at), State::Interrupt, What { object, ..What::default() });
            (host, id) = (from, trigger.id);
        }
        self.tell(&f, f.floor, State::Network, what);
    }

    /// Before the first wait of the frame's task: it ran, from when it was made or recorded.
    fn beginning(&mut self, f: Frame) {
        let index = self.index;
        let (first, last) = index.span(f.host, f.task);
        let (first, last) = (index.common(f.host, first), index.common(f.host, last));
        if last < self.at {
            self.tell(&f, last, State::Unknown, because(reasons::AFTER));
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

/// Whether a wait was ended by a message, as far as its record tells: by the network, or by the writer itself.
fn is_by_message(w: &WaitRow, by: Option<(HostId, TaskId)>) -> bool {
    match w.cause {
        cause::SOCKET | cause::NET | cause::PACKET => true,
        cause::TASK => w.by != TaskId::UNKNOWN && by.is_some_and(|b| b.1 == w.by),
        _ => false,
    }
}

fn is_futex(w: &WaitRow) -> bool {
    // futex, futex_waitv, futex_wait of x86-64
    matches!(w.syscall, 202 | 449 | 455)
}

fn is_by_task(p: &PacketRow) -> bool {
    p.context == context::TASK && p.task != TaskId::UNKNOWN
}

/// Ports of a packet, with its addresses where the trace has them.
fn packet_name(p: &PacketRow) -> Option<String> {
    if p.sport == 0 && p.dport == 0 {
        return None;
    }
    let end = |a: &[u8; 16], port: u16| match p.ip {
        4 => format!("{}.{}.{}.{}:{port}", a[0], a[1], a[2], a[3]),
        6 => format!("[{}]:{port}", std::net::Ipv6Addr::from(*a)),
        _ => format!(":{port}"),
    };
    Some(format!("{} > {}", end(&p.saddr, p.sport), end(&p.daddr, p.dport)))
}

/// A block device as the kernel numbers it, and the sector where it is told.
fn device(object: u64) -> String {
    let dev = if object >> 32 != 0 { object >> 32 } else { object };
    format!("device {}:{}", dev >> 20, dev & 0xf_ffff)
}

fn softirq(vector: u64) -> &'static str {
    const NAMES: [&str; 10] =
        ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];
    usize::try_from(vector).ok().and_then(|v| NAMES.get(v)).copied().unwrap_or("?")
}
