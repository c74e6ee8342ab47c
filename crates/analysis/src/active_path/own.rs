//! What a wait was for, by its own record: nothing is followed.

use super::NO_SYSCALL;
use super::locks::{futex, is_lock_call};
use super::network::is_local;
use super::timeouts::{is_connect, is_receive, is_sleep};
use crate::causes::{Cause, Told};
use crate::slices::State;
use wakepath_graph::{Index, is_futex};
use wakepath_model::ids::{EndpointId, HostId, TaskId};
use wakepath_model::rows::{EndedBy, WaitRow};

/// Whether it was a kernel thread that slept between two pieces of work: one that waits for a disk lets no signal wake it.
pub(super) fn has_no_work(index: &Index, host: HostId, w: &WaitRow) -> bool {
    w.is_interruptible() && index.is_kernel(host, w.task)
}

/// What a task waited for, as far as the record of its wait tells.
pub(crate) fn own_wait(index: &Index, host: HostId, w: &WaitRow) -> State {
    let is_woken = w.by != TaskId::UNKNOWN;
    match w.cause {
        EndedBy::Preempted => State::Preempted,
        EndedBy::Stopped => State::Stopped,
        EndedBy::Task | EndedBy::Unknown if w.is_stopped() => State::Stopped,
        EndedBy::Open | EndedBy::Timer | EndedBy::Task if is_futex(w) => futex(index, host, w, w.by).0,
        // that a time-out ended it is no object
        EndedBy::Timer if is_lock_call(w.syscall) => State::Lock,
        EndedBy::Timer if is_receive(w) || is_connect(w) => State::Network,
        EndedBy::Timer if w.is_uninterruptible() && w.syscall != NO_SYSCALL && !is_sleep(w) => State::Unknown,
        EndedBy::Timer => State::Timer,
        EndedBy::Block if has_no_work(index, host, w) => State::Blocked,
        EndedBy::Block => {
            let is_outside = w.syscall == NO_SYSCALL && w.is_uninterruptible() && !index.is_kernel(host, w.task);
            if is_outside || index.fault_around(host, w).is_some() { State::PageFault } else { State::Disk }
        }
        EndedBy::Task if is_lock_call(w.syscall) => State::Lock,
        EndedBy::Task if is_woken => State::Blocked,
        // the writer's own call: a UNIX socket or a pipe
        EndedBy::Socket if w.rcv_seq == 0 && is_woken && is_local(index, host, EndpointId(w.object)) => State::Blocked,
        EndedBy::Socket | EndedBy::Net | EndedBy::Packet => State::Network,
        _ => Cause::told(w).map_or(State::Unknown, |Told { state, .. }| state),
    }
}

/// The disk that a wait's object names; older folders have a softirq's number there where no disk was known.
pub(super) fn device(object: u64) -> Option<String> {
    let device = object >> 32;
    (device != 0).then(|| format!("device {}:{}", device >> 20, device & 0xf_ffff))
}
