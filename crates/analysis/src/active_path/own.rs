//! What a wait was for, by its own record: nothing is followed.

use super::locks::is_lock_call;
use super::network::is_local;
use super::{NO_SYSCALL, is_futex};
use crate::causes::{Cause, Told};
use crate::slices::State;
use wakepath_causality::graph::Index;
use wakepath_model::ids::{EndpointId, HostId, TaskId};
use wakepath_model::rows::{WaitRow, cause};

/// Whether it was a kernel thread that slept between two pieces of work: one that waits for a disk lets no signal wake it.
pub(super) fn has_no_work(index: &Index, host: HostId, w: &WaitRow) -> bool {
    w.is_interruptible() && index.is_kernel(host, w.task)
}

/// What a task waited for, as far as the record of its wait tells.
pub(crate) fn own_wait(index: &Index, host: HostId, w: &WaitRow) -> State {
    let is_woken = w.by != TaskId::UNKNOWN;
    match w.cause {
        cause::PREEMPTED => State::Preempted,
        cause::STOPPED => State::Stopped,
        cause::TASK | cause::UNKNOWN if w.is_stopped() => State::Stopped,
        cause::OPEN if is_futex(w) => State::Lock,
        cause::TIMER => State::Timer,
        cause::BLOCK if has_no_work(index, host, w) => State::Blocked,
        cause::BLOCK => {
            let is_outside = w.syscall == NO_SYSCALL && w.is_uninterruptible() && !index.is_kernel(host, w.task);
            if is_outside || index.fault_around(host, w).is_some() { State::PageFault } else { State::Disk }
        }
        cause::TASK if is_futex(w) || is_lock_call(w.syscall) => State::Lock,
        cause::TASK if is_woken => State::Blocked,
        // the writer's own call: a UNIX socket or a pipe
        cause::SOCKET if w.rcv_seq == 0 && is_woken && is_local(index, host, EndpointId(w.object)) => State::Blocked,
        cause::SOCKET | cause::NET | cause::PACKET => State::Network,
        _ => Cause::told(w).map_or(State::Unknown, |Told { state, .. }| state),
    }
}
