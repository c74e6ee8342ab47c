//! Listeners and the queues before them, and what TCP sent once more.

use super::records::{DATAGRAMS, End, Listener};
use super::{HostRows, Index, NEAR};
use wakepath_model::ids::{EndpointId, HostId, MonoNs, TaskId};
use wakepath_model::rows::{LimitRow, ResentRow};

/// How many connections waited to be accepted at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// When it was looked at, or filled.
    pub at: MonoNs,
    /// So many waited.
    pub waiting: u64,
    /// So many have room.
    pub room: u64,
}

impl Backlog {
    fn of(r: &LimitRow) -> Backlog {
        // Linux takes one more than the number that was given
        Backlog { at: r.at, waiting: r.beside, room: r.value.saturating_add(1) }
    }

    /// Whether the kernel drops whoever asks for one more connection.
    pub fn is_full(&self) -> bool {
        self.waiting >= self.room
    }
}

/// `::1`.
const LOOPBACK_V6: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

/// The one socket of some rows, as the last of them has it.
fn only(rows: impl Iterator<Item = Listener>) -> Option<Listener> {
    let mut found: Option<Listener> = None;
    for l in rows {
        match found {
            Some(f) if f.flow != l.flow => return None,
            _ => found = Some(l),
        }
    }
    found
}

impl Index {
    /// The listener of a host that takes connections to an address and port; `None` where there is none, or where several
    /// (of several network namespaces) could be it.
    pub fn listener(&self, host: HostId, address: &[u8; 16], port: u16) -> Option<Listener> {
        let fits = |l: &Listener| l.laddr == *address || l.laddr == [0; 16];
        only(self.listeners_at(self.rows(host)?, port).filter(fits))
    }

    /// The socket that takes the datagrams which an end sends, on its own host and in its network namespace; `None` where there is none,
    /// or where several could be it. One that is bound to every address is told only of what stays on the host: whose address another
    /// one is, is not known.
    pub fn bound(&self, host: HostId, end: &End) -> Option<Listener> {
        let is_here = end.raddr[0] == 127 && end.raddr[4..] == [0; 12] || end.raddr == LOOPBACK_V6;
        let fits = |l: &Listener| l.laddr == end.raddr || l.laddr == [0; 16] && is_here;
        let is_its = |l: &Listener| l.protocol == DATAGRAMS && l.netns == end.netns && fits(l);
        only(self.sockets_at(self.rows(host)?, end.rport).filter(|_| end.is_of_datagrams()).filter(is_its))
    }

    /// The lowest port at which a process listens.
    pub fn listens_at(&self, host: HostId, tgid: u32) -> Option<u16> {
        let h = self.rows(host)?;
        let listeners = (0..h.endpoints.listeners.count()).filter_map(|i| self.store.get(&h.endpoints.listeners, i));
        let is_its = |l: &Listener| {
            l.port != 0 && l.protocol != DATAGRAMS && self.program(host, l.task).is_some_and(|p| p.0 == tgid)
        };
        listeners.into_iter().find(is_its).map(|l| l.port)
    }

    /// A task of a process that had an endpoint when that was announced.
    pub fn has_end(&self, host: HostId, flow: EndpointId) -> Option<TaskId> {
        let h = self.rows(host)?;
        let first = self.store.lower_bound(&h.endpoints.ends, (flow.0, 0, 0));
        let rows = (first..).map_while(|i| self.store.get(&h.endpoints.ends, i).filter(|e| e.flow == flow));
        rows.take(NEAR as usize).map(|e| e.task).find(|&task| task != TaskId::UNKNOWN)
    }

    /// The listeners at a port, those of one endpoint behind each other.
    fn listeners_at<'a>(&'a self, h: &'a HostRows, port: u16) -> impl Iterator<Item = Listener> + 'a {
        self.sockets_at(h, port).filter(|l| l.protocol != DATAGRAMS)
    }

    /// The same, with those that take datagrams.
    fn sockets_at<'a>(&'a self, h: &'a HostRows, port: u16) -> impl Iterator<Item = Listener> + 'a {
        let first = self.store.lower_bound(&h.endpoints.listeners, (u64::from(port), 0, 0));
        (first..h.endpoints.listeners.count())
            .map_while(move |i| self.store.get(&h.endpoints.listeners, i).filter(|l| l.port == port))
    }

    /// The queue of a listener as it was looked at last, not after `until`.
    pub fn backlog(&self, host: HostId, listener: EndpointId, until: MonoNs) -> Option<Backlog> {
        let h = self.rows(host)?;
        let after = self.store.lower_bound(&h.endpoints.backlogs, (listener.0, until.0.saturating_add(1), 0));
        let row = self.store.get(&h.endpoints.backlogs, after.checked_sub(1)?).filter(|r| r.flow == listener)?;
        Some(Backlog::of(&row))
    }

    /// When an accept at the port of an endpoint first failed between two moments, since no descriptor was left. `None` where none did, or
    /// where several sockets listen at that port.
    pub fn starved(&self, host: HostId, accepted: EndpointId, from: MonoNs, to: MonoNs) -> Option<MonoNs> {
        let h = self.rows(host).filter(|h| h.endpoints.starved.count() > 0)?;
        let port = self.end(host, accepted)?.lport;
        let mut at_port = self.listeners_at(h, port).map(|l| l.flow);
        let listener = at_port.next().filter(|_| port != 0)?;
        if at_port.any(|flow| flow != listener) {
            return None;
        }
        let first = self.store.lower_bound(&h.endpoints.starved, (listener.0, from.0, 0));
        let row = self.store.get(&h.endpoints.starved, first)?;
        (row.flow == listener && row.at <= to).then_some(row.at)
    }

    /// What an endpoint sent once more between two moments, in order of time.
    pub fn resent(
        &self,
        host: HostId,
        flow: EndpointId,
        from: MonoNs,
        to: MonoNs,
    ) -> impl Iterator<Item = ResentRow> + '_ {
        let rows = self.rows(host).map(|h| &h.endpoints.resent);
        let first = rows.map_or(0, |rows| self.store.lower_bound(rows, (flow.0, from.0, 0)));
        (first..).map_while(move |i| self.store.get(rows?, i).filter(|r| r.flow == flow && r.at <= to))
    }
}
