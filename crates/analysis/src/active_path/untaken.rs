//! What was asked for on a connection and nobody took: the connection was not accepted, or what came on it was not read. Whose it
//! is, the recording knows: who listens there, and who had the other end. That is said only of who is watched, since of others it
//! is not known what they read.

use super::Message;
use crate::reasons;
use wakepath_causality::graph::{Index, how};
use wakepath_model::ids::{CommonNs, EndpointId, HostId, MonoNs, TaskId};
use wakepath_model::rows::{TcpState, cause, op};

/// Who should have taken what `flow` sent at `asked` and had not done so by `at`, and why no more is known; `None` where that was taken,
/// or nobody watches there.
pub(crate) fn untaken(
    index: &Index,
    (host, flow): (HostId, EndpointId),
    asked: MonoNs,
    at: MonoNs,
) -> Option<((HostId, TaskId), &'static str)> {
    let end = index.end(host, flow).filter(|e| e.state != TcpState::Listen)?;
    let reasons =
        [[reasons::NOT_ACCEPTED, reasons::NOT_ACCEPTED_STOPPED], [reasons::NOT_TAKEN, reasons::NOT_TAKEN_STOPPED]];
    let (who, reasons) = if how(&end).is_some() {
        let peer = (HostId(end.peer_host), end.peer);
        let (sent, until) = (index.common(host, asked), index.common(host, at));
        let did = |kind| index.last_left(peer.0, peer.1, kind, until);
        let read = index.last_read(peer.0, peer.1, until, 0).map(|l| index.common(peer.0, l.at));
        if read.is_some_and(|read| read >= sent) {
            return None;
        }
        let ever = |kind| index.last_left(peer.0, peer.1, kind, CommonNs(i64::MAX)).map(|l| l.task);
        let acted =
            [op::RECV, op::SEND, op::ACCEPT].into_iter().find_map(|kind| did(kind).map(|l| l.task).or(ever(kind)));
        let task = acted.filter(|&t| t != TaskId::UNKNOWN).or_else(|| index.has_end(peer.0, peer.1))?;
        ((peer.0, task), reasons[1])
    } else {
        let listener = index.listener(host, &end.raddr, end.rport)?;
        ((host, listener.task), reasons[0])
    };
    if who.1 == TaskId::UNKNOWN || !index.is_watched(who.0, who.1) {
        return None;
    }
    let local = index.timeline().local(who.0, index.common(host, at));
    Some((who, reasons[usize::from(is_stopped(index, who, local))]))
}

/// The same as what a message says that never came.
pub(crate) fn message(index: &Index, end: (HostId, EndpointId), asked: MonoNs, at: MonoNs) -> Option<Message> {
    let (who, reason) = untaken(index, end, asked, at)?;
    Some(Message { by: Some(who), reason: Some(reason), on: Some(end.1), ..Message::NOTHING })
}

/// Whether a signal, a debugger or a freezer had stopped a task at a moment.
fn is_stopped(index: &Index, (host, task): (HostId, TaskId), at: MonoNs) -> bool {
    let after = index.waits_from(host, task, MonoNs(at.0.saturating_add(1)));
    let last = after.checked_sub(1).and_then(|place| index.wait(host, task, place));
    last.is_some_and(|w| w.is_stopped() && (w.cause == cause::OPEN || w.at >= at))
}
