//! What was asked for on a connection and nobody took: the connection was not accepted, or what came on it was not read. Whose it
//! is, the recording knows: who listens there, and who had the other end. That is said only of who is watched, since of others it
//! is not known what they read.

use super::Message;
use crate::reasons;
use wakepath_graph::{Index, how};
use wakepath_model::ids::{CommonNs, EndpointId, HostId, MonoNs, TaskId};
use wakepath_model::rows::{EndedBy, OpKind, TcpState};

/// Who should have taken what `flow` sent at `asked` and had not done so by `at`, and why no more is known; `None` where that was taken,
/// or nobody watches there.
pub(crate) fn untaken(
    index: &Index,
    (host, flow): (HostId, EndpointId),
    asked: MonoNs,
    at: MonoNs,
) -> Option<((HostId, TaskId), &'static str)> {
    let end = index.end(host, flow).filter(|e| e.state != TcpState::Listen)?;
    let accept = [reasons::NOT_ACCEPTED, reasons::NOT_ACCEPTED_STOPPED];
    let take = [reasons::NOT_TAKEN, reasons::NOT_TAKEN_STOPPED];
    let peer = if how(&end).is_some() { (HostId(end.peer_host), end.peer) } else { (host, EndpointId(0)) };
    let read = index.last_read(peer.0, peer.1, index.common(host, at), 0).map(|l| index.common(peer.0, l.at));
    if read.is_some_and(|read| read >= index.common(host, asked)) {
        return None;
    }
    let (who, reasons) = match has(index, peer) {
        Some(task) => ((peer.0, task), take),
        // a datagram lies at the socket that is bound there until its owner reads it
        None if end.is_of_datagrams() => {
            let bound = index.bound(peer.0, &end)?;
            let read = index.last_read(peer.0, bound.flow, index.common(host, at), 0);
            if read.is_some_and(|l| index.common(peer.0, l.at) >= index.common(host, asked)) {
                return None;
            }
            ((peer.0, bound.task), take)
        }
        // a kernel makes the other end before anybody accepts it
        None => ((peer.0, index.listener(peer.0, &end.raddr, end.rport)?.task), accept),
    };
    if who.1 == TaskId::UNKNOWN || !index.is_watched(who.0, who.1) {
        return None;
    }
    let local = index.timeline().local(who.0, index.common(host, at));
    Some((who, reasons[usize::from(is_stopped(index, who, local))]))
}

/// A task that has an endpoint: as it used it, or as a snapshot of descriptors found it.
fn has(index: &Index, (host, flow): (HostId, EndpointId)) -> Option<TaskId> {
    let used = |kind| index.last_left(host, flow, kind, CommonNs(i64::MAX)).map(|l| l.task);
    let by_use =
        [OpKind::Recv, OpKind::Send, OpKind::Accept].into_iter().find_map(used).filter(|&task| task != TaskId::UNKNOWN);
    by_use.or_else(|| index.has_end(host, flow))
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
    last.is_some_and(|w| w.is_stopped() && (w.cause == EndedBy::Open || w.at >= at))
}
