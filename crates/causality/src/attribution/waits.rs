//! What waits show: who let whom go on, and who may have left something for a loop.

use super::helper::{HelperEvent, Woken};
use super::state::{CallFlag, RequestFlag};
use super::{Attribution, IDLE, IO_URING_ENTER, NO_SYSCALL};
use crate::conditions::holds;
use crate::exchange::{Exchange, Slab};
use crate::finished::Finished;
use crate::process::known::Does;
use wakepath_model::ids::{EndpointId, MonoNs, TaskId};
use wakepath_model::rows::{EndedBy, WaitRow};

impl<F: Finished> Attribution<'_, F> {
    /// A wait ended.
    pub fn wait(&mut self, xs: &Slab, r: &WaitRow) {
        self.saw_worker(r);
        if r.syscall == IO_URING_ENTER
            && let Some(w) = self.facts.tasks.get_mut(r.task)
        {
            w.given.waited(r.blocked);
            w.leave_fragment();
        }
        if r.cause == EndedBy::Timer
            && (IDLE.contains(&r.syscall) || r.syscall == NO_SYSCALL)
            && let Some(w) = self.facts.tasks.get_mut(r.task)
        {
            w.helper.woken = Woken::Timer;
        }
        let held = self.facts.tasks.get(r.task).and_then(|w| self.facts.sole_of(xs, w.held.all.members()));
        if held.is_some() && matches!(r.cause, EndedBy::Task | EndedBy::Open) && self.facts.roles.is_private(r) {
            let to = if r.cause == EndedBy::Open { r.at } else { r.woken };
            self.facts.tasks.or_default(r.task).sleeps.slept(r.blocked, to);
        }
        if r.by == TaskId::UNKNOWN || r.by == r.task {
            return;
        }
        if self.facts.roles.process_of(r.by) != self.facts.roles.process_of(r.task) {
            if let Some(x) = held.filter(|&x| self.may_have_worked(r, xs.get(x).flow)) {
                let flags = &mut self.facts.state_mut(x).request.flags;
                flags.add(RequestFlag::Unfollowed);
                flags.add(RequestFlag::DoneElsewhere);
            }
            return;
        }
        if r.cause != EndedBy::Task {
            return;
        }
        let role = self.facts.roles.role(r.task);
        if role.has(Does::ReplyForOthers) {
            self.facts.woke_with_answer(xs, r);
        }
        if let Some(x) = held {
            if !self.facts.roles.is_private(r) {
                // a lock that was released says nothing of whose work was done
                return;
            }
            // it may have been waiting for what the other did for it
            self.facts.saw_wakeup(r, x);
            self.facts.lets_another_go_on(xs, r, x);
            return;
        }
        // nor does it say for whom a helper goes on
        if role.has(Does::Take) || !holds("handoff.no_lock", !self.facts.roles.is_lock(r)) {
            return;
        }
        let woken = match self.facts.woke_for(xs, r) {
            Some(x) => Woken::For(x),
            None => Woken::Unknown,
        };
        let busy = self.facts.tasks.get(r.task).is_some_and(|w| {
            w.segment.iter().any(|&y| xs.is_live(y) && !self.facts.state(y).call.flags.has(CallFlag::Replied))
        });
        let is_private = self.facts.roles.is_private(r);
        let w = self.facts.tasks.or_default(r.task);
        if is_private {
            w.helper.asked = r.at;
        }
        if !busy {
            w.segment.retain(|&y| xs.is_live(y));
            w.helper.woken = woken;
            w.born_of = w.born_of.filter(|_| holds("fork.never_waited", !is_private));
            w.leave_fragment();
            let (jobs, _) = w.helper.mark(r.blocked, HelperEvent::Idle);
            self.facts.saw_jobs(r.task, jobs);
        }
    }

    /// Whether a helper that sends more after call `y` may have been asked for something since it last sent there: it was woken, or given
    /// something, or its process took a request, whose task may have put something into a queue of the program's. That may be another's.
    pub(super) fn is_asked_since(&self, y: &Exchange, task: TaskId) -> bool {
        let helper = self.facts.tasks.get(task).filter(|_| self.facts.is_helper(task)).map(|w| &w.helper);
        let taken = self.facts.domain(y.process).map_or(MonoNs(0), |d| d.taken);
        let is_same = |sent: MonoNs, asked: MonoNs| asked <= sent && taken <= sent;
        helper.is_some_and(|h| !holds("shared.same_errand", is_same(h.sent.max(y.request.began), h.asked)))
    }

    /// A wait is over of a thread that may leave something for a loop of its process.
    fn saw_worker(&mut self, r: &WaitRow) {
        let roles = self.facts.roles;
        let process = roles.process_of(r.task);
        if r.cause == EndedBy::Open || roles.role(r.task).has(Does::Take) {
            return;
        }
        if let Some(d) = self.facts.domains.get_mut(process.leader()) {
            let is_own = r.cause == EndedBy::Task && r.by != r.task && roles.process_of(r.by) == process;
            d.carriers.waited(r, is_own && roles.role(r.by).is_loop());
        }
    }

    /// Whether a task of another process that ended a wait may have done what was waited for: it makes calls and takes no requests, and it
    /// did so by a way of its own (memory, a queue of the kernel's, a signal, a datagram), which bears no message that anybody reads, nor
    /// more of the request, which comes on `flow`. What serves requests itself may have let go of a lock as well.
    fn may_have_worked(&self, r: &WaitRow, flow: EndpointId) -> bool {
        let is_by_itself = match r.cause {
            // semop, msgrcv, rt_sigtimedwait, futex, semtimedop, mq_timedreceive, futex_waitv, futex_wait of x86-64
            EndedBy::Task => matches!(r.syscall, 65 | 70 | 128 | 202 | 220 | 243 | 449 | 455) && r.is_lock == 0,
            EndedBy::Socket => EndpointId(r.object) != flow,
            _ => false,
        };
        let role = self.facts.roles.role(r.by);
        is_by_itself && role.has(Does::Call) && !role.has(Does::Take) && !role.has(Does::ReplyForOthers)
    }
}
