//! The critical path of a request: from its first byte's arrival to the last byte of its reply, at each moment the one
//! thing that the request was waiting for.
//!
//! The request's own graph says which calls were outstanding; the active path says what a task did between them. One
//! cursor walks back from the reply. Where a call had just been answered it goes down into the call: the answer's way
//! back, the server's span, the call's way there. Where none is outstanding, the task that did the next thing is walked
//! back. Of parallel calls the one that ended last counts at each join.

use crate::active_path::others::Outstanding;
use crate::active_path::taken::Taken;
use crate::active_path::untaken;
use crate::active_path::{Evidence, Message, Walk};
use crate::backwards::Backwards;
use crate::names::remote;
use crate::reasons;
use crate::slices::{Slice, State};
use wakepath_causality::evidence::Class;
use wakepath_causality::path::{Half, Request, Span, Wire};
use wakepath_graph::Index;
use wakepath_model::folder::Folder;
use wakepath_model::ids::{CommonNs, EndpointId, HostId, MonoNs, TaskId};

/// A span that is being walked back.
struct Frame {
    span: u32,
    depth: u16,
    /// From here on a task had it.
    taken: CommonNs,
    /// When a task took its first byte.
    began: CommonNs,
    /// First byte's arrival.
    start: CommonNs,
    taker: (HostId, TaskId),
    /// Nobody watches it: what is known of it passed a sniffer.
    is_on_wire: bool,
    /// Who did what happened at the cursor, and in whose name.
    task: (HostId, TaskId),
    actor: TaskId,
    /// Its calls in `Critical::calls` that are not passed yet.
    calls: std::ops::Range<usize>,
    /// The connection on which it came in; 0 where nobody watches.
    entry: EndpointId,
    /// A call that was gone down into, and whose way there is still to be told.
    outstanding: Option<u32>,
}

/// The critical path of a request.
pub struct CriticalPath(Backwards);

impl CriticalPath {
    /// Gives its slices in order of the common time: they cover the request without gap or overlap. None where the
    /// request has no length.
    pub fn each(&self, take: &mut dyn FnMut(&Slice)) {
        self.0.each(take);
    }

    /// As `each`, the slices themselves.
    pub fn drain(mut self, take: &mut dyn FnMut(Slice)) {
        self.0.drain(take);
    }
}

/// The critical path of a request. Memory: some 2 MB at most; a longer path is in a temporary file.
pub fn critical_path(folder: &Folder, index: &Index, request: &Request) -> CriticalPath {
    debug_assert!(folder.hosts().len() >= index.host_count());
    let Some(root) = request.spans.first() else { return CriticalPath(Backwards::default()) };
    let mut walk = Walk::new(index);
    // where no call is missing, those under way are all that there were, also in a request that the recording cut off
    let has_all_calls = !request.gaps().iter().any(|(_, gap)| gap.hides_calls());
    walk.of_request(has_all_calls.then(|| outstanding(index, request)));
    let mut c = Critical { index, request, walk, calls: calls(index, request), stack: Vec::new() };
    match (&root.callee, &root.caller) {
        (Some(callee), _) => {
            let start = c.start(callee);
            c.walk.start_at(index.common(callee.host, callee.exchange.reply.ended));
            c.enter(0, 0, callee, start);
            c.run();
        }
        (None, Some(_)) if sniffed(root).is_some() => {
            let wire = sniffed(root).expect("just seen");
            let (began, ended) = c.sides(root);
            c.walk.start_at(ended);
            c.enter_wire(0, 0, wire, began, ended);
            c.run();
        }
        (None, Some(caller)) => {
            c.walk.start_at(index.common(caller.host, caller.exchange.reply.ended));
            let began = index.common(caller.host, caller.exchange.request.began);
            c.walk.place(0, Some(0), None);
            c.walk.back_until(answerer(caller), began, unanswered(index, caller));
        }
        (None, None) => {}
    }
    CriticalPath(c.walk.into_slices())
}

fn calls(index: &Index, request: &Request) -> Vec<(u32, CommonNs, u32)> {
    let mut calls = Vec::with_capacity(request.spans.len());
    for (i, s) in request.spans.iter().enumerate() {
        if let (Some(parent), Some(caller)) = (s.parent, &s.caller) {
            calls.push((parent, index.common(caller.host, caller.exchange.reply.ended), i as u32));
        }
    }
    calls.sort_unstable();
    calls
}

/// Where and when a request waited for answers.
fn outstanding(index: &Index, request: &Request) -> Outstanding {
    let callers = request.spans.iter().filter_map(|s| s.caller.as_ref());
    let asked = callers.map(|c| {
        let [began, ended] = [c.exchange.request.began, c.exchange.reply.ended].map(|at| index.common(c.host, at));
        (c.host, c.exchange.flow, began, ended)
    });
    Outstanding::of(asked.collect())
}

struct Critical<'a> {
    index: &'a Index,
    request: &'a Request,
    walk: Walk<'a>,
    /// Calls: who made it, when it ended, its span. Sorted.
    calls: Vec<(u32, CommonNs, u32)>,
    stack: Vec<Frame>,
}

impl Critical<'_> {
    fn common(&self, host: HostId, at: MonoNs) -> CommonNs {
        self.index.common(host, at)
    }

    /// Arrival of a span's first byte; what arrived before the previous reply left waited after it.
    fn start(&self, callee: &Half) -> CommonNs {
        let e = &callee.exchange;
        self.common(
            callee.host,
            if e.request.arrived.0 != 0 { e.request.arrived.min(e.request.began) } else { e.request.began },
        )
    }

    /// How a span is known to be its caller's: by the weaker of its two links, since both must hold.
    fn evidence(&self, span: u32) -> Option<Evidence> {
        let s = &self.request.spans[span as usize];
        let made = s.made_by.filter(|r| r.class() != Class::Observed);
        made.or(s.joined_by).or(s.made_by).map(|r| (r.name(), r.class()))
    }

    /// Goes down into a span, from the cursor back.
    fn enter(&mut self, span: u32, depth: u16, callee: &Half, floor: CommonNs) {
        let (host, e) = (callee.host, &callee.exchange);
        let from = self.calls.partition_point(|c| c.0 < span);
        let to = self.calls.partition_point(|c| c.0 <= span);
        let start = self.start(callee).max(floor);
        let taken = self.common(host, e.request.taken).max(start);
        let last = if e.reply.task == TaskId::UNKNOWN { e.request.task } else { e.reply.task };
        self.stack.push(Frame {
            span,
            depth,
            taken,
            began: self.common(host, e.request.began).clamp(start, taken),
            start,
            taker: (host, e.request.task),
            is_on_wire: false,
            task: (host, last),
            actor: if e.reply.task == TaskId::UNKNOWN { e.request.actor } else { e.reply.actor },
            entry: e.flow,
            calls: from..to,
            outstanding: None,
        });
    }

    /// When a call was sent and answered, at its caller.
    fn sides(&self, span: &Span) -> (CommonNs, CommonNs) {
        let caller = span.caller.as_ref().or(span.callee.as_ref()).expect("a span has a side");
        let began = self.common(caller.host, caller.exchange.request.began);
        (began, self.common(caller.host, caller.exchange.reply.ended).max(began))
    }

    /// Goes down into a span that a sniffer alone saw, from the cursor back: the reply's way, the server's time.
    fn enter_wire(&mut self, span: u32, depth: u16, wire: &Wire, floor: CommonNs, ended: CommonNs) {
        let nobody = (wire.host, TaskId::UNKNOWN);
        let within = |at: CommonNs| at.clamp(floor, ended.max(floor));
        let answered = within(self.common(wire.host, wire.reply_first));
        let taken = within(self.common(wire.host, wire.request_last)).min(answered);
        self.walk.put(nobody, answered, State::Network, Message::NOTHING, None);
        let from = self.calls.partition_point(|c| c.0 < span);
        let to = self.calls.partition_point(|c| c.0 <= span);
        self.stack.push(Frame {
            span,
            depth,
            taken,
            began: taken,
            start: floor,
            taker: nobody,
            is_on_wire: true,
            task: nobody,
            actor: TaskId::UNKNOWN,
            entry: EndpointId(0),
            calls: from..to,
            outstanding: None,
        });
    }

    /// What a span did itself, from the cursor back.
    fn own(&mut self, f: &Frame, from: CommonNs) {
        if f.is_on_wire {
            self.walk.put(f.taker, from, State::Unknown, unwatched(), None);
        } else {
            self.walk.in_name_of(logical(f.task.1, f.actor));
            self.walk.back_within(f.task, from, f.entry, f.taker);
            self.walk.in_name_of(None);
        }
    }

    /// What a span did itself before its first call. A worker that another thread hands requests to had this one from when it was done
    /// with the one before.
    fn begin_with(&mut self, f: &Frame) {
        let is_handed = f.task != f.taker && f.task.0 == f.taker.0 && logical(f.task.1, f.actor).is_none();
        let replied = if is_handed { self.walk.replied_since(f.task, f.taken, f.entry) } else { None };
        self.own(f, replied.unwrap_or(f.taken));
        if replied.is_some() {
            self.walk.picked_up_by(f.task, f.taken, f.entry, Taken::Request);
        }
    }

    /// Who read a span's request.
    fn reader(&self, span: u32) -> TaskId {
        let callee = &self.request.spans[span as usize].callee;
        callee.as_ref().map_or(TaskId::UNKNOWN, |c| c.exchange.request.actor)
    }

    fn run(&mut self) {
        while let Some(mut f) = self.stack.pop() {
            self.walk.place(f.depth, Some(f.span), self.evidence(f.span));
            if let Some(call) = f.outstanding.take() {
                self.way_there(&mut f, call);
            }
            match self.last_call(&mut f) {
                Some(call) => self.call(f, call),
                None if f.is_on_wire => {
                    self.own(&f, f.taken);
                    self.walk.put(f.taker, f.start, State::Network, Message::NOTHING, None);
                }
                None => {
                    self.begin_with(&f);
                    // from its first byte until its head was whole its task was reading, and may have waited for the rest
                    self.walk.in_name_of(logical(f.taker.1, self.reader(f.span)));
                    let (host, task) = f.taker;
                    self.walk.back(host, task, f.began, self.walk.at());
                    self.walk.in_name_of(None);
                    self.walk.taken(f.taker, f.start, f.entry);
                }
            }
        }
    }

    /// The call that had ended last at the cursor.
    fn last_call(&mut self, f: &mut Frame) -> Option<u32> {
        while f.calls.end > f.calls.start {
            f.calls.end -= 1;
            let (_, end, span) = self.calls[f.calls.end];
            if end <= f.taken {
                f.calls.end = f.calls.start;
                return None;
            }
            if end <= self.walk.at() {
                return Some(span);
            }
        }
        None
    }

    /// A call: the time since its answer, the answer's way, and down into the server.
    fn call(&mut self, mut f: Frame, call: u32) {
        let request = self.request;
        let span = &request.spans[call as usize];
        let Some(caller) = &span.caller else {
            self.stack.push(f);
            return;
        };
        let ended = self.common(caller.host, caller.exchange.reply.ended).max(f.taken);
        let began = self.common(caller.host, caller.exchange.request.began).max(f.taken);
        self.own(&f, ended);
        self.unread(&f, caller, began);
        let depth = f.depth.saturating_add(1);
        self.walk.place(depth, Some(call), self.evidence(call));
        if !f.is_on_wire {
            f.task = (caller.host, caller.exchange.request.task);
            f.actor = caller.exchange.request.actor;
        }
        let e = &caller.exchange;
        self.walk.in_name_of(logical(
            answerer(caller).1,
            if e.reply.task == TaskId::UNKNOWN { e.request.actor } else { e.reply.actor },
        ));
        match (&span.callee, sniffed(span)) {
            (Some(callee), _) => {
                let answered = self.common(callee.host, callee.exchange.reply.ended).clamp(began, ended.max(began));
                let by = Some((callee.host, callee.exchange.reply.task));
                let sender = (callee.host, callee.exchange.flow, callee.exchange.reply.end as u32);
                let message = Message { by, from: Some(sender), ..Message::NOTHING };
                self.walk.back_until(answerer(caller), answered, message);
                f.outstanding = Some(call);
                self.stack.push(f);
                self.enter(call, depth, callee, began);
            }
            (None, Some(wire)) => {
                self.stack.push(f);
                self.enter_wire(call, depth, wire, began, ended);
            }
            (None, None) => {
                self.walk.back_until(answerer(caller), began, unanswered(self.index, caller));
                self.stack.push(f);
            }
        }
        self.walk.in_name_of(None);
    }

    /// An answer had come, and who takes it was busy with something else: down to when it came.
    fn unread(&mut self, f: &Frame, caller: &Half, began: CommonNs) {
        let taker = answerer(caller);
        let came = self.walk.arrival(taker, caller.exchange.flow).max(began);
        if came < self.walk.at() {
            self.walk.busy_since(taker, came, f.entry, Taken::Answer);
        }
    }

    /// From when a call was made until it reached its server.
    fn way_there(&mut self, f: &mut Frame, call: u32) {
        let request = self.request;
        let span = &request.spans[call as usize];
        let Some(caller) = &span.caller else { return };
        let began = self.common(caller.host, caller.exchange.request.began).max(f.taken);
        let task = (caller.host, caller.exchange.request.task);
        self.walk.place(f.depth.saturating_add(1), Some(call), self.evidence(call));
        // its first byte is what the server saw arrive
        let sender = (caller.host, caller.exchange.flow, (caller.exchange.request.start as u32).wrapping_add(1));
        let message = Message { by: Some(task), from: Some(sender), ..Message::NOTHING };
        let object = Some(remote(&caller.place));
        if let Some(callee) = span.callee.as_ref().filter(|c| c.exchange.request.arrived.0 == 0) {
            let e = &callee.exchange;
            let still_awaited = self.walk.awaited_until((callee.host, e.request.task), e.flow);
            let from = still_awaited.map_or(began, |at| at.max(began));
            let unseen = Message { by: Some(task), reason: Some(reasons::NO_ARRIVAL), ..Message::NOTHING };
            self.walk.put(task, from, State::Unknown, unseen, object.clone());
        }
        self.walk.put(task, began, State::Network, message, object);
        self.walk.place(f.depth, Some(f.span), self.evidence(f.span));
    }
}

/// In whose name a thread acted, where that is not its own.
fn logical(task: TaskId, actor: TaskId) -> Option<TaskId> {
    (actor != task && actor != TaskId::UNKNOWN).then_some(actor)
}

/// Who received the last byte of an answer.
fn answerer(caller: &Half) -> (HostId, TaskId) {
    let e = &caller.exchange;
    (caller.host, if e.reply.task == TaskId::UNKNOWN { e.request.task } else { e.reply.task })
}

/// What a sniffer saw of a span whose server nobody watches, where that can be laid into its caller's time.
fn sniffed(span: &Span) -> Option<&Wire> {
    span.wire.as_ref().filter(|w| span.callee.is_none() && w.offset_ns.is_some() && w.reply_first.0 != 0)
}

/// What is known of an answer that nobody was seen to give: who should have taken the call, or that nobody watches there.
fn unanswered(index: &Index, caller: &Half) -> Message {
    let e = &caller.exchange;
    untaken::message(index, (caller.host, e.flow), e.request.began, e.reply.ended).unwrap_or_else(unwatched)
}

fn unwatched() -> Message {
    Message { reason: Some(reasons::NOT_WATCHED), ..Message::NOTHING }
}
