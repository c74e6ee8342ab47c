//! The queue of a listener, where what is waited for lies in it or finds no room there.

use super::looks::Looks;
use super::{At, End};
use wakepath_flows::Place;
use wakepath_graph::{Backlog, Index, Listener};
use wakepath_model::ids::{HostId, MonoNs, TaskId};

/// A listener's queue, and where in it a connection is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptQueue {
    /// The listener.
    pub end: End,
    /// A task of a process that listens there, where known.
    pub task: Option<At>,
    /// Its port.
    pub port: u16,
    /// How long it was when it was looked at last, and how much room it has; `None` where that was not seen.
    pub length: Option<(u64, u64)>,
    /// The connection is in it. Else it was still being asked for.
    pub is_in: bool,
}

impl AcceptQueue {
    fn of(index: &Index, host: HostId, l: &Listener, is_in: bool) -> AcceptQueue {
        let backlog = index.backlog(host, l.flow, MonoNs(u64::MAX));
        AcceptQueue {
            end: (host, l.flow),
            task: (l.task != TaskId::UNKNOWN).then_some((host, l.task)),
            port: l.port,
            length: backlog.map(|b: Backlog| (b.waiting, b.room)),
            is_in,
        }
    }

    /// Whether it had no room for one more.
    pub fn is_full(&self) -> bool {
        self.length.is_some_and(|(waiting, room)| waiting >= room)
    }
}

/// The queues of watched listeners that had no room when all were looked at last.
pub(super) fn full(index: &Index, looks: &Looks) -> Vec<AcceptQueue> {
    let mut out: Vec<AcceptQueue> = Vec::new();
    for (end, task) in looks.listeners() {
        let Some(b) = index.backlog(end.0, end.1, MonoNs(u64::MAX)).filter(Backlog::is_full) else { continue };
        let port = looks.place(end).map_or(0, |p| p.lport);
        // UNIX listeners are full in another way, and have no port to be named by
        if port != 0 && !out.iter().any(|q| q.end == end) {
            let length = Some((b.waiting, b.room));
            out.push(AcceptQueue { end, task: Some((end.0, task)), port, length, is_in: false });
        }
    }
    out.sort_by_key(|q| (q.port, q.end));
    out
}

/// The queue in which the other end of `end` lies: it came about, and no process has it. `place` is where `end` is.
pub(super) fn of_unaccepted(index: &Index, looks: &Looks, end: End, place: &Place) -> Option<AcceptQueue> {
    let peer = super::peers::peer(index, end)?;
    if !looks.is_unheld(peer)? {
        return None;
    }
    let listener = index.listener(peer.0, &place.raddr, place.rport)?;
    Some(AcceptQueue::of(index, peer.0, &listener, true))
}

/// The queue that a connection which is still asked for is to go to: a listener of the same host.
pub(super) fn of_connecting(index: &Index, host: HostId, place: &Place) -> Option<AcceptQueue> {
    let listener = index.listener(host, &place.raddr, place.rport)?;
    Some(AcceptQueue::of(index, host, &listener, false))
}
