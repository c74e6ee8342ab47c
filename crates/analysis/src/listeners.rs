//! Listeners whose accept queue filled up while it was recorded.

use rustc_hash::FxHashMap;
use wakepath_model::folder::{Folder, Host, TableSet};
use wakepath_model::ids::{EndpointId, HostId, TaskId};
use wakepath_model::rows::{EndpointRow, Event, LimitKind, LimitRow, ResentRow, Table, TcpState};

/// A listener whose queue had no room for one more connection, once or more often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filled {
    /// Its host.
    pub host: HostId,
    /// A task of a process that listens.
    pub task: TaskId,
    /// Its port.
    pub port: u16,
    /// How many connections have room.
    pub room: u64,
    /// How often the queue was seen full: each time a connection took the last place, or the listener was looked at.
    pub times: u64,
    /// How often a client on the same host asked for a connection again, since nobody had answered. Clients elsewhere are not
    /// seen.
    pub asked_again: u64,
}

/// The TCP listeners of watched processes that were seen full, by host and port. Memory: what listens, and the connections
/// that were asked for more than once.
pub fn filled(folder: &Folder) -> Vec<Filled> {
    let mut out: Vec<Filled> = folder.hosts().iter().flat_map(of_host).collect();
    out.sort_by_key(|f| (f.host, f.port, f.task));
    out
}

fn of_host(host: &Host) -> Vec<Filled> {
    let mut full: FxHashMap<EndpointId, (u64, u64)> = FxHashMap::default();
    let mut again: FxHashMap<EndpointId, u64> = FxHashMap::default();
    for event in host.events(TableSet::of(&[Table::Limit, Table::Resent]), ..) {
        match event {
            Event::Limit(LimitRow { kind: LimitKind::Backlog, flow, value, beside, .. }) if beside > value => {
                let (room, times) = full.entry(flow).or_default();
                (*room, *times) = (value + 1, *times + 1);
            }
            Event::Resent(ResentRow { state: TcpState::SynSent, flow, .. }) => *again.entry(flow).or_default() += 1,
            _ => {}
        }
    }
    if full.is_empty() {
        return Vec::new();
    }
    let mut listeners: FxHashMap<EndpointId, EndpointRow> = FxHashMap::default();
    let mut asking: FxHashMap<EndpointId, EndpointRow> = FxHashMap::default();
    for event in host.events(TableSet::of(&[Table::Endpoint]), ..) {
        let Event::Endpoint(r) = event else { continue };
        if r.state == TcpState::Listen && r.lport != 0 && full.contains_key(&r.flow) {
            listeners.insert(r.flow, r);
        } else if again.contains_key(&r.flow) {
            asking.insert(r.flow, r);
        }
    }
    listeners
        .into_iter()
        .map(|(flow, l)| {
            let (room, times) = full[&flow];
            let is_its = |e: &EndpointRow| e.rport == l.lport && (l.laddr == [0; 16] || e.raddr == l.laddr);
            let of_it = asking.iter().filter(|(_, e)| is_its(e)).map(|(flow, _)| again[flow]);
            Filled { host: host.id(), task: l.task, port: l.lport, room, times, asked_again: of_it.sum() }
        })
        .collect()
}
