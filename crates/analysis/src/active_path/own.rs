//! What a wait was for, by its own record: nothing is followed.

use super::NO_SYSCALL;
use super::locks::{futex, is_lock_call};
use super::network::is_local;
use super::timeouts::{is_connect, is_receive, is_sleep};
use crate::causes::{Cause, Told};
use crate::slices::State;
use wakepath_causality::graph::{Index, is_futex};
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
        cause::OPEN | cause::TIMER | cause::TASK if is_futex(w) => futex(index, host, w, w.by).0,
        // that a time-out ended it is no object
        cause::TIMER if is_lock_call(w.syscall) => State::Lock,
        cause::TIMER if is_receive(w) || is_connect(w) => State::Network,
        cause::TIMER if w.is_uninterruptible() && w.syscall != NO_SYSCALL && !is_sleep(w) => State::Unknown,
        cause::TIMER => State::Timer,
        cause::BLOCK if has_no_work(index, host, w) => State::Blocked,
        cause::BLOCK => {
            let is_outside = w.syscall == NO_SYSCALL && w.is_uninterruptible() && !index.is_kernel(host, w.task);
            if is_outside || index.fault_around(host, w).is_some() { State::PageFault } else { State::Disk }
        }
        cause::TASK if is_lock_call(w.syscall) => State::Lock,
        cause::TASK if is_woken => State::Blocked,
        // the writer's own call: a UNIX socket or a pipe
        cause::SOCKET if w.rcv_seq == 0 && is_woken && is_local(index, host, EndpointId(w.object)) => State::Blocked,
        cause::SOCKET | cause::NET | cause::PACKET => State::Network,
        _ => Cause::told(w).map_or(State::Unknown, |Told { state, .. }| state),
    }
}

/// The disk that a wait's object names; older folders have a softirq's number there where no disk was known.
pub(super) fn device(object: u64) -> Option<String> {
    let device = object >> 32;
    (device != 0).then(|| format!("device {}:{}", device >> 20, device & 0xf_ffff))
}
