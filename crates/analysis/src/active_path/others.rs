//! A loop that serves several requests takes others' inputs while one of them waits: for a timer, or for a thread. What the
//! loop did for the others is nothing that this one waited for. So its wait goes on through them, up to the wake-up with
//! which the loop went on with it. Others' inputs are their requests, and the answers to what they had asked.

use super::locks::is_poll;
use super::network::is_local;
use super::{Evidence, Frame, Walk, What, because};
use crate::reasons;
use crate::slices::State;
use wakepath_causality::evidence::Class;
use wakepath_model::ids::{CommonNs, EndpointId, HostId, MonoNs, TaskId};
use wakepath_model::rows::{EndedBy, OpKind, OpRow, Side, TcpState, WaitRow};

const OTHERS: Evidence = ("others' inputs", Class::ByRule);
/// Of a loop's operations so many before a wait are looked at for whether it serves others.
const SERVED_LOOKED_AT: usize = 256;
/// Most waits of a loop between two polls that are looked at.
const WORK_MAX: usize = 4096;

impl Walk<'_> {
    /// Lets a wait of the request's own task begin where the loop had left the request, before it took others' inputs.
    /// Gives the place of the wait that it begins with, and how that is known.
    pub(super) fn without_others(&mut self, f: &Frame, w: &mut WaitRow) -> (u64, Option<Evidence>) {
        let (mut place, mut evidence) = (f.place, f.evidence);
        let is_loop = is_poll(w) && w.cause != EndedBy::Preempted && w.cause != EndedBy::Open;
        let entry = self.entry.filter(|e| is_loop && e.0 == f.host && f.depth == self.base_depth);
        let went_on = entry.is_some() && self.later.goes_on_with(w.cause);
        while let Some((at, before)) = entry.and_then(|_| self.poll_before(f, place)) {
            // one that ended before the request was taken brought the request itself, or what came before it
            let is_amid = self.index.common(f.host, before.at) > f.floor;
            let is_others = entry.is_some_and(|e| self.is_others(f.host, &before, e.1));
            if !is_amid || !(is_others || went_on && self.is_answer_to_others(f.host, &before)) {
                break;
            }
            (w.blocked, place, evidence) = (before.blocked, at, Some(OTHERS));
        }
        (place, evidence)
    }

    /// Whether the request's own task waited in poll as a loop does that serves others too: a timer that ended that may be anybody's.
    pub(super) fn is_wait_of_loop(&self, f: &Frame, w: &WaitRow) -> bool {
        let entry = self.entry.filter(|e| e.0 == f.host && f.depth == self.base_depth && is_poll(w));
        entry.is_some_and(|(_, own)| self.serves_others(f, own, w.woken))
    }

    /// Whether a frame's task took requests lately on other connections. A worker that only replies is at one request at a time.
    fn serves_others(&self, f: &Frame, own: EndpointId, until: MonoNs) -> bool {
        self.takes_others((f.host, f.task), own, until)
    }

    /// Whether a task took requests before `until`, lately, on other connections than `own`.
    pub(super) fn takes_others(&self, (host, task): (HostId, TaskId), own: EndpointId, until: MonoNs) -> bool {
        let mut before = self.index.operations_back(host, task, until).take(SERVED_LOOKED_AT);
        before.any(|o| o.kind != OpKind::Send && self.is_anothers(host, o.flow, own))
    }

    /// Where a wait of the request's own task ended with another's input, and the loop went on with the request: what that
    /// had waited for is not known.
    pub(super) fn tell_others(&mut self, f: &Frame, w: &WaitRow, syscall: Option<u16>) -> bool {
        let entry = self.entry.filter(|e| e.0 == f.host && f.depth == self.base_depth);
        let is_others = entry.is_some_and(|e| self.is_others(f.host, w, e.1));
        if is_others {
            self.tell_wait(f, State::Unknown, What { syscall, ..because(reasons::OTHERS) });
        }
        is_others
    }

    /// The request's own task ran from `from` to the cursor, and acted for others meanwhile: what it ran for these is no work for the
    /// request, and what it ran between that and its next act may be either's. Tells nothing where it did nothing for others.
    pub(super) fn ran_amid_others(&mut self, f: &Frame, from: CommonNs) {
        let entry = self.entry.filter(|e| e.0 == f.host && f.depth == self.base_depth && e.1 != EndpointId(0));
        let Some((host, own)) = entry else { return };
        let until = self.index.timeline().local(host, self.at);
        let is_amid = |o: &OpRow| self.index.common(host, o.entry) > from;
        let amid = self.index.operations_back(host, f.task, until).take(WORK_MAX).take_while(is_amid);
        // it may have been held up before it replied
        let mut amid = amid.chain(self.index.operation_from(host, f.task, until));
        if !amid.any(|o| self.is_for_another(host, &o, own)) || !self.serves_others(f, own, until) {
            return;
        }
        for w in self.work((host, f.task), from, own) {
            let f = Frame { floor: w.from.max(f.floor), ..*f };
            match (w.is_others, w.is_eithers) {
                (true, _) => {
                    self.tell_wait(&f, State::Queued, What { object: w.object, ..because(reasons::TASK_BUSY) });
                }
                (false, true) => self.tell_wait(&f, State::Unknown, because(reasons::EITHERS)),
                (false, false) => self.tell(&f, w.from, State::Running, What::default()),
            }
        }
    }

    /// The last wait in poll of a frame's task before the one at a place. What waits between them was for is the work that
    /// began with it.
    fn poll_before(&self, f: &Frame, place: u64) -> Option<(u64, WaitRow)> {
        let before = (0..place).rev().take(WORK_MAX);
        let mut polls = before.map_while(|at| Some((at, self.index.wait(f.host, f.task, at)?)));
        polls.find(|(_, w)| is_poll(w) && w.cause != EndedBy::Preempted).filter(|(_, w)| w.cause != EndedBy::Open)
    }

    /// Whether a wait in poll ended with an input that is none of the request that came in on `entry`: a connection, or
    /// bytes on another one on which this process is asked.
    fn is_others(&self, host: HostId, w: &WaitRow, entry: EndpointId) -> bool {
        self.input(host, w).filter(|&flow| flow != entry).is_some_and(|flow| {
            self.index.end(host, flow).is_some_and(|e| e.side == Side::Server || e.state == TcpState::Listen)
        })
    }

    /// Whether a wait in poll ended with bytes on a connection to another service, on which the request had nothing
    /// outstanding then.
    fn is_answer_to_others(&self, host: HostId, w: &WaitRow) -> bool {
        let flow = self.input(host, w).filter(|&flow| !is_local(self.index, host, flow));
        let is_answer = |flow| self.index.end(host, flow).is_some_and(|e| e.side == Side::Client);
        let is_its =
            |flow| self.outstanding.as_ref().is_none_or(|o| o.at(host, flow, self.index.common(host, w.woken)));
        flow.is_some_and(|flow| is_answer(flow) && !is_its(flow))
    }

    /// The connection whose bytes ended a wait in poll.
    fn input(&self, host: HostId, w: &WaitRow) -> Option<EndpointId> {
        if !is_poll(w) {
            return None;
        }
        match w.cause {
            EndedBy::Socket => Some(EndpointId(w.object)),
            EndedBy::Net => {
                let next = self.index.operation_from(host, w.task, w.at);
                next.filter(|o| matches!(o.kind, OpKind::Recv | OpKind::Accept)).map(|o| o.flow)
            }
            _ => None,
        }
    }
}

/// What ended those waits of a request's own task in poll that were passed, after the one that is looked at.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Later {
    /// None was passed: with this one the loop went on with the request.
    #[default]
    Nothing,
    /// Timers alone.
    Timers,
    /// Something else: a timer before it may have been anybody's.
    Else,
}

impl Later {
    /// Whether the loop may have gone on with the request with a wait that ended so; from then on it is a later one.
    fn goes_on_with(&mut self, ended: EndedBy) -> bool {
        let is_timer = ended == EndedBy::Timer;
        let before = *self;
        *self = if is_timer && before != Later::Else { Later::Timers } else { Later::Else };
        before == Later::Nothing || (is_timer && before == Later::Timers)
    }
}

/// On which connections a request waited for answers, and when: all of them, or nobody could say whose others are.
pub(crate) struct Outstanding(Vec<(HostId, EndpointId, CommonNs, CommonNs)>);

impl Outstanding {
    /// From its calls: where, when they began and ended.
    pub(crate) fn of(mut calls: Vec<(HostId, EndpointId, CommonNs, CommonNs)>) -> Outstanding {
        calls.sort_unstable();
        let mut out: Vec<(HostId, EndpointId, CommonNs, CommonNs)> = Vec::new();
        for call in calls {
            match out.last_mut() {
                Some(last) if (last.0, last.1) == (call.0, call.1) && call.2 <= last.3 => last.3 = last.3.max(call.3),
                _ => out.push(call),
            }
        }
        Outstanding(out)
    }

    /// Whether it waited on a connection at a moment.
    pub(super) fn at(&self, host: HostId, flow: EndpointId, at: CommonNs) -> bool {
        let before = self.0.partition_point(|o| (o.0, o.1, o.2) <= (host, flow, at));
        before > 0 && (self.0[before - 1].0, self.0[before - 1].1) == (host, flow) && at <= self.0[before - 1].3
    }
}
