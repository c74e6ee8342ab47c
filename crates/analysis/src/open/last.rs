//! What waiting tasks wait in and did last: the last wait of each, the connections that descriptors were, the last operations.

use super::{At, Cut, End, For, HELD_MAX};
use crate::names::Names;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use wakepath_model::folder::{Folder, TableSet};
use wakepath_model::ids::{EndpointId, HostId, MonoNs, TaskId};
use wakepath_model::rows::{EndedBy, Event, Life, OpKind, Reset, Table, TcpState, WaitRow};

/// Records of the last flush are not older than this.
const FLUSH_NS: u64 = 1_000_000_000;

/// A descriptor of a process: host, process, number.
pub(super) type Descriptor = (HostId, u32, u64);

/// What descriptors are, as far as that was seen.
pub(super) type Descriptors = FxHashMap<Descriptor, EndpointId>;

/// The descriptor on which a task waits for bytes.
pub(super) fn descriptor_of(names: &Names<'_>, at: At, w: &WaitRow) -> Option<Descriptor> {
    (For::of(w) == For::Bytes).then(|| (at.0, names.tgid(at.0, at.1), w.arg0))
}

/// The waits that go on, by task, and which connections descriptors were, by earlier waits on them.
pub(super) fn last_waits(folder: &Folder, names: &Names<'_>) -> (BTreeMap<At, WaitRow>, Descriptors) {
    let mut waits: BTreeMap<At, WaitRow> = BTreeMap::new();
    let mut descriptors: Descriptors = FxHashMap::default();
    for host in folder.hosts() {
        let id = host.id();
        let mut within: FxHashMap<TaskId, (Descriptor, WaitRow)> = FxHashMap::default();
        // a wait that was recorded before a pause may have ended in it
        let tables = TableSet::of(&[Table::Wait, Table::Task, Table::Op]);
        for event in host.events(tables, super::recorded_since(folder, id)..) {
            match event {
                Event::Task(r) if r.what == Life::Exit => {
                    waits.remove(&(id, r.task));
                    within.remove(&r.task);
                }
                Event::Wait(r) if r.cause == EndedBy::Open => _ = waits.insert((id, r.task), r),
                Event::Wait(r) => {
                    // a record may come a little later than the flush that it precedes
                    if waits.get(&(id, r.task)).is_some_and(|w| w.blocked <= r.blocked) {
                        waits.remove(&(id, r.task));
                    }
                    if let Some(key) = descriptor_of(names, (id, r.task), &r).filter(|_| descriptors.len() < HELD_MAX) {
                        if r.cause == EndedBy::Socket {
                            descriptors.insert(key, EndpointId(r.object));
                        }
                        within.insert(r.task, (key, r));
                    }
                }
                // what a task waited for within a call that received is what it received from: a pipe, too
                Event::Op(r) if r.kind == OpKind::Recv => {
                    if let Some((key, w)) = within.remove(&r.task)
                        && r.syscall == w.syscall
                        && r.entry <= w.blocked
                        && w.at <= r.at
                    {
                        descriptors.insert(key, r.flow);
                    }
                }
                _ => {}
            }
        }
        // what the last flush does not have any more was lost when it ended
        let flushed = waits.range((id, TaskId(0))..=(id, TaskId(u32::MAX))).map(|w| w.1.at.0).max().unwrap_or(0);
        waits.retain(|at, w| at.0 != id || w.at.0.saturating_add(FLUSH_NS) >= flushed);
    }
    (waits, descriptors)
}

/// An operation that moved bytes.
pub(super) struct Moved {
    pub flow: EndpointId,
    pub kind: OpKind,
    pub at: MonoNs,
}

/// What waiting tasks did last.
#[derive(Default)]
pub(super) struct Last {
    /// Of each: what it did last, but for what it wrote to pipes.
    pub of: FxHashMap<At, Moved>,
    /// Of each that waits on a known descriptor: what it did last there.
    pub on: FxHashMap<At, Moved>,
}

/// What each waiting task did last. Drops requests whose connection is gone, and descriptors that were closed: their
/// numbers may be others' now.
pub(super) fn last_operations(
    folder: &Folder,
    names: &Names<'_>,
    waits: &BTreeMap<At, WaitRow>,
    descriptors: &mut Descriptors,
    cuts: &mut Vec<Cut>,
) -> Last {
    let mut last = Last::default();
    let mut on: FxHashMap<At, EndpointId> = FxHashMap::default();
    let mut awaited: FxHashMap<(HostId, u32, EndpointId), Descriptor> = FxHashMap::default();
    for (at, w) in waits {
        if let Some(key) = descriptor_of(names, *at, w)
            && let Some(flow) = descriptors.get(&key)
        {
            on.insert(*at, *flow);
            awaited.insert((key.0, key.1, *flow), key);
        }
    }
    let mut gone: FxHashMap<End, MonoNs> = cuts.iter().map(|c| (c.end, MonoNs(0))).collect();
    for host in folder.hosts() {
        let id = host.id();
        for event in host.events(TableSet::of(&[Table::Op, Table::FlowState]), ..) {
            let ended = match event {
                Event::Op(r) => {
                    if waits.contains_key(&(id, r.task)) && r.result > 0 {
                        let moved = || Moved { flow: r.flow, kind: r.kind, at: r.at };
                        let at = (id, r.task);
                        if on.get(&at) == Some(&r.flow) {
                            last.on.insert(at, moved());
                        }
                        if r.kind != OpKind::Send || !r.flow.is_pipe() {
                            last.of.insert(at, moved());
                        }
                    }
                    if r.kind == OpKind::Close
                        && let Some(key) = awaited.get(&(id, names.tgid(id, r.task), r.flow))
                    {
                        descriptors.remove(key);
                    }
                    (r.kind == OpKind::Close).then_some((r.flow, r.at))
                }
                Event::FlowState(r) => (r.new == TcpState::Close || r.reset != Reset::None).then_some((r.flow, r.at)),
                _ => None,
            };
            if let Some((flow, at)) = ended
                && let Some(when) = gone.get_mut(&(id, flow))
            {
                *when = at;
            }
        }
    }
    cuts.retain(|c| gone.get(&c.end).is_none_or(|at| *at < c.began));
    last
}
