//! Who works on the other ends of connections that are waited for.

use super::{At, End, For, Known, Open};
use rustc_hash::{FxHashMap, FxHashSet};
use wakepath_flows::Place;
use wakepath_graph::Index;
use wakepath_model::folder::{Folder, TableSet};
use wakepath_model::ids::{HostId, TaskId};
use wakepath_model::rows::{Event, Life, Side, Table};

/// Who works on the other ends: who did so last, else whose process has it and has no other task.
pub(super) fn find_peers(folder: &Folder, index: &Index, waits: &mut [Open]) {
    let ends = waits.iter().flat_map(|w| &w.awaited).filter_map(|a| peer(index, a.end));
    let peers = workers(folder, ends);
    for w in waits {
        for a in &mut w.awaited {
            a.peer = peer(index, a.end).and_then(|p| peers.get(&p).copied()).filter(|p| *p != w.at);
        }
    }
}

/// Who works on these ends: who did so last, else whose process has it and has no other task.
pub(super) fn workers(folder: &Folder, ends: impl Iterator<Item = End>) -> FxHashMap<End, At> {
    let mut found: FxHashMap<End, Option<At>> = ends.map(|end| (end, None)).collect();
    if found.is_empty() {
        return FxHashMap::default();
    }
    let mut announced: FxHashMap<End, TaskId> = FxHashMap::default();
    for host in folder.hosts() {
        let id = host.id();
        let mut processes: FxHashMap<u32, FxHashSet<TaskId>> = FxHashMap::default();
        let mut process_of: FxHashMap<TaskId, u32> = FxHashMap::default();
        for event in host.events(TableSet::of(&[Table::Op, Table::Endpoint, Table::Task]), ..) {
            match event {
                Event::Op(r) if r.task != TaskId::UNKNOWN => {
                    if let Some(p) = found.get_mut(&(id, r.flow)) {
                        *p = Some((id, r.task));
                    }
                }
                Event::Endpoint(r) if r.task != TaskId::UNKNOWN && found.contains_key(&(id, r.flow)) => {
                    announced.insert((id, r.flow), r.task);
                }
                Event::Task(r) => {
                    process_of.insert(r.task, r.tgid);
                    let of = processes.entry(r.tgid).or_default();
                    if r.what == Life::Exit {
                        of.remove(&r.task)
                    } else {
                        of.insert(r.task)
                    };
                }
                _ => {}
            }
        }
        for (end, p) in found.iter_mut().filter(|(end, p)| end.0 == id && p.is_none()) {
            let task = announced.get(end).copied();
            let is_alone =
                |t: &TaskId| process_of.get(t).and_then(|g| processes.get(g)).is_some_and(|of| of.len() == 1);
            *p = task.filter(is_alone).map(|t| (id, t));
        }
    }
    found.into_iter().filter_map(|(end, at)| Some((end, at?))).collect()
}

pub(super) fn peer(index: &Index, end: End) -> Option<End> {
    let e = index.end(end.0, end.1)?;
    (e.how != 0).then_some((HostId(e.peer_host), e.peer))
}

/// Who listens where an end's other end is, or takes the datagrams that are sent there.
pub(super) fn listens(index: &Index, end: End, place: &Place) -> Option<At> {
    let (host, listener) = match peer(index, end) {
        Some(peer) => (peer.0, index.listener(peer.0, &place.raddr, place.rport)),
        None => (end.0, index.bound(end.0, &index.end(end.0, end.1)?)),
    };
    Some((host, listener?.task)).filter(|(_, task)| *task != TaskId::UNKNOWN)
}

/// Takes away waits of those who serve a connection and wait for the next request on it; gives how many.
pub(super) fn serve_only(folder: &Folder, waits: &mut Vec<Open>) -> u64 {
    let ends = |w: &Open| w.awaited.iter().filter(|a| a.known != Known::Call).map(|a| a.end).collect::<Vec<_>>();
    let asked: FxHashSet<End> = waits.iter().flat_map(ends).collect();
    let mut servers: FxHashSet<End> = FxHashSet::default();
    for host in folder.hosts().iter().filter(|_| !asked.is_empty()) {
        for event in host.events(TableSet::of(&[Table::Endpoint]), ..) {
            if let Event::Endpoint(r) = event
                && r.side == Side::Server
                && asked.contains(&(host.id(), r.flow))
            {
                servers.insert((host.id(), r.flow));
            }
        }
    }
    let before = waits.len();
    waits.retain_mut(|w| {
        w.awaited.retain(|a| a.known == Known::Call || !servers.contains(&a.end));
        !w.awaited.is_empty()
            || !w.holds.is_empty()
            || matches!(w.what, For::Disk | For::Stopped | For::Lock | For::Connect)
    });
    (before - waits.len()) as u64
}
