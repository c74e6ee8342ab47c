//! Which flows are streams.

use super::super::Selection;
use rustc_hash::FxHashMap;
use wakepath_graph::Index;
use wakepath_model::folder::{Folder, TableSet};
use wakepath_model::ids::{EndpointId, HostId, MonoNs, TaskId};
use wakepath_model::rows::{OpKind, OpRow, Table};

/// Fewer bytes are no stream: they fit into buffers, and nothing tells what would limit more of them.
const BYTES_MIN: u64 = 1 << 20;
/// A stream goes one way: so many bytes for each that comes back.
const ONE_WAY: u64 = 50;
/// Most streams that are modelled, those with most bytes.
const STREAMS_MAX: usize = 8;
/// IP protocol of streams: what is told of buffers and of the way is TCP's.
const TCP: u16 = 6;
/// Most endpoints counted at a time; beyond, those that moved least are forgotten and may be found again.
const COUNTED_MAX: usize = 1 << 16;

/// One side of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    /// Its host.
    pub host: HostId,
    /// Its endpoint.
    pub flow: EndpointId,
    /// The task that moved most of its bytes.
    pub task: TaskId,
}

/// A stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bulk {
    /// Who sends.
    pub sender: Side,
    /// Who reads.
    pub reader: Side,
    /// Bytes that were read.
    pub bytes: u64,
    /// The sender's local port and the reader's.
    pub ports: (u16, u16),
}

#[derive(Clone, Copy, Default)]
struct Moved {
    sent: u64,
    read: u64,
    /// A task that moves its bytes, and how far it is ahead of the others (Boyer and Moore's majority).
    task: TaskId,
    ahead: u64,
}

impl Moved {
    fn add(&mut self, o: &OpRow) {
        let bytes = u64::try_from(o.result).unwrap_or(0);
        match o.kind {
            OpKind::Send => self.sent += bytes,
            OpKind::Recv => self.read += bytes,
            _ => return,
        }
        if self.task == o.task {
            self.ahead += bytes;
        } else if self.ahead >= bytes {
            self.ahead -= bytes;
        } else {
            (self.task, self.ahead) = (o.task, bytes - self.ahead);
        }
    }
}

/// The streams of a recording, both of whose ends were recorded, those with most bytes first.
pub fn find(folder: &Folder, index: &Index, selection: &Selection) -> Vec<Bulk> {
    let mut moved: FxHashMap<(HostId, EndpointId), Moved> = FxHashMap::default();
    for host in folder.hosts() {
        let id = host.id();
        let from = selection.from.map_or(MonoNs(0), |t| index.timeline().local(id, t));
        let to = selection.to.map_or(MonoNs(u64::MAX), |t| index.timeline().local(id, t));
        let mut batches = host.batches(TableSet::of(&[Table::Op]), from..to);
        while let Some(batch) = batches.next() {
            for o in batch.rows::<OpRow>() {
                moved.entry((id, o.flow)).or_default().add(o);
            }
            if moved.len() > COUNTED_MAX {
                moved.retain(|_, m| m.sent.max(m.read) >= BYTES_MIN / 4);
            }
            batches.recycle(batch);
        }
    }
    let mut found: Vec<Bulk> = Vec::new();
    for (&(host, flow), m) in &moved {
        let is_stream = m.read >= BYTES_MIN && m.read / ONE_WAY >= m.sent;
        let Some(end) = index.end(host, flow).filter(|e| is_stream && e.peer.0 != 0 && e.protocol == TCP) else {
            continue;
        };
        let peer = (HostId(end.peer_host), end.peer);
        // what is on the way at the end was sent and not read
        let Some(p) = moved.get(&peer).filter(|p| p.sent >= m.read / 2) else { continue };
        found.push(Bulk {
            sender: Side { host: peer.0, flow: peer.1, task: p.task },
            reader: Side { host, flow, task: m.task },
            bytes: m.read,
            ports: (end.rport, end.lport),
        });
    }
    found.sort_unstable_by_key(|b| (std::cmp::Reverse(b.bytes), b.reader.host, b.reader.flow));
    found.truncate(STREAMS_MAX);
    found
}
