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

/// A listener from which no connection could be taken, since no descriptor was left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Starved {
    /// Its host.
    pub host: HostId,
    /// The first task whose accept failed.
    pub task: TaskId,
    /// Its port, 0 where that is not known.
    pub port: u16,
    /// The whole host had no descriptor left, and not the process alone.
    pub is_host: bool,
    /// How often accept failed.
    pub times: u64,
}

/// The listeners at which accepts failed for want of a descriptor, by host and port. Memory: what listens.
pub fn starved(folder: &Folder) -> Vec<Starved> {
    let mut out: Vec<Starved> = folder.hosts().iter().flat_map(starved_of).collect();
    out.sort_by_key(|s| (s.host, s.port, s.task));
    out
}

fn starved_of(host: &Host) -> Vec<Starved> {
    const ENFILE: u64 = 23;
    let mut found: FxHashMap<(EndpointId, bool), Starved> = FxHashMap::default();
    for event in host.events(TableSet::of(&[Table::Limit]), ..) {
        let Event::Limit(LimitRow { kind: LimitKind::Descriptors, flow, task, value, .. }) = event else { continue };
        let is_host = value == ENFILE;
        let new = || Starved { host: host.id(), task, port: 0, is_host, times: 0 };
        found.entry((flow, is_host)).or_insert_with(new).times += 1;
    }
    if found.is_empty() {
        return Vec::new();
    }
    for event in host.events(TableSet::of(&[Table::Endpoint]), ..) {
        let Event::Endpoint(r) = event else { continue };
        for is_host in [false, true] {
            if let Some(s) = found.get_mut(&(r.flow, is_host)) {
                s.port = r.lport;
            }
        }
    }
    found.into_values().collect()
}

/// The TCP listeners that were seen full, by host and port. Memory: what listens, and the connections
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
