//! What is needed of a stream's rows, read in one pass.

use super::super::Selection;
use super::find::{Bulk, Side};
use wakepath_graph::Index;
use wakepath_model::folder::{Folder, TableSet};
use wakepath_model::ids::{HostId, MonoNs};
use wakepath_model::rows::{EndedBy, Event, OpKind, OpRow, RangeHow, Table, WaitRow};

/// Most entries of each list of a stream. What comes later is not looked at: the begin stands for it.
const KEPT_MAX: usize = 1 << 17;
/// Most waits inside one call that are looked at.
const WAITS_MAX: usize = 256;

/// So many bytes had reached the reader's host at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When.
    pub at: i64,
    /// One past the last byte.
    pub end: u64,
    /// They woke the reader: it had nothing to do, and the moment is that of the packet.
    pub woke: bool,
}

/// A call that moved bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// When it was entered.
    pub entry: i64,
    /// When it returned.
    pub at: i64,
    /// When its first byte had reached the host, of a read where that is known.
    pub arrived: Option<i64>,
    /// First byte.
    pub start: u64,
    /// One past the last.
    pub end: u64,
}

/// The sender waited for room, in the midst of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// The buffer was full.
    pub from: i64,
    /// It ran again.
    pub ran: i64,
    /// First byte of the call.
    pub start: u64,
    /// One past its last.
    pub end: u64,
}

/// What was seen of one stream, all on the common time line, in order of time.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Bytes reaching the reader's host.
    pub arrivals: Vec<Arrival>,
    /// What was read.
    pub reads: Vec<Move>,
    /// What was sent.
    pub sends: Vec<Move>,
    /// When the sender waited for room.
    pub stalls: Vec<Stall>,
    /// When the sending task did not run.
    pub sender_away: Vec<(i64, i64)>,
    /// When the reading task did not run.
    pub reader_away: Vec<(i64, i64)>,
    /// From being woken by a packet until running, of the reader (ns).
    pub reader_wakes: Vec<u64>,
    /// Bytes whose calls were not seen.
    pub missing: u64,
    /// There was more than is kept.
    pub is_cut: bool,
}

/// One side of a stream, being read.
struct Reading<'a> {
    side: &'a Side,
    stream: usize,
    is_sender: bool,
    /// Waits since its last call returned.
    waits: Vec<WaitRow>,
    /// Until when it is known not to have run.
    away_until: i64,
    /// One past the last byte that it moved.
    last: Option<u64>,
}

/// Reads what is needed of each of these streams, in their order.
pub fn gather(folder: &Folder, index: &Index, bulks: &[Bulk], selection: &Selection) -> Vec<Seen> {
    let mut seen: Vec<Seen> = vec![Seen::default(); bulks.len()];
    for host in folder.hosts() {
        let id = host.id();
        let mut sides: Vec<Reading<'_>> = bulks
            .iter()
            .enumerate()
            .flat_map(|(stream, b)| [(&b.sender, stream, true), (&b.reader, stream, false)])
            .filter(|(side, ..)| side.host == id)
            .map(|(side, stream, is_sender)| Reading {
                side,
                stream,
                is_sender,
                waits: Vec::new(),
                away_until: i64::MIN,
                last: None,
            })
            .collect();
        if sides.is_empty() {
            continue;
        }
        let local = |t| index.timeline().local(id, t);
        let from = selection.from.map_or(MonoNs(0), local);
        let to = selection.to.map_or(MonoNs(u64::MAX), local);
        for event in host.events(TableSet::of(&[Table::Op, Table::Wait]), from..to) {
            for side in &mut sides {
                let seen = &mut seen[side.stream];
                match &event {
                    Event::Wait(w) if w.task == side.side.task => side.waited(index, id, w, seen),
                    Event::Op(o) if o.flow == side.side.flow => side.moved(index, id, o, seen),
                    Event::Op(o) if o.task == side.side.task => side.waits.clear(),
                    _ => {}
                }
            }
        }
    }
    for s in &mut seen {
        s.arrivals.sort_by_key(|a| (a.at, a.end));
        // bytes arrive in order; a read that returned later may tell of earlier ones
        let mut most = 0;
        s.arrivals.iter_mut().for_each(|a| {
            most = most.max(a.end);
            a.end = most;
        });
    }
    seen
}

fn keep<T>(list: &mut Vec<T>, is_cut: &mut bool, entry: T) {
    if list.len() < KEPT_MAX { list.push(entry) } else { *is_cut = true }
}

impl Reading<'_> {
    fn waited(&mut self, index: &Index, host: HostId, w: &WaitRow, seen: &mut Seen) {
        let (from, to) = (index.common(host, w.blocked).0, index.common(host, w.at).0);
        // a wait that is still open is written down at each flush, and again when it ends
        let known = from.max(self.away_until);
        if to > known {
            let away = if self.is_sender { &mut seen.sender_away } else { &mut seen.reader_away };
            keep(away, &mut seen.is_cut, (known, to));
            self.away_until = to;
        }
        if w.cause == EndedBy::Open || w.state == 0 {
            return;
        }
        if self.is_sender {
            if self.waits.len() < WAITS_MAX {
                self.waits.push(*w);
            }
        } else if w.cause == EndedBy::Socket
            && w.object == self.side.flow.0
            && let Some(last) = self.last
        {
            keep(&mut seen.reader_wakes, &mut seen.is_cut, w.at.0.saturating_sub(w.woken.0));
            // 32 bits of the number; bytes that arrive are never far after what was read
            let more = w.rcv_seq.wrapping_sub(last as u32);
            if more < 1 << 31 {
                let at = index.common(host, w.woken).0;
                let arrival = Arrival { at, end: last + u64::from(more), woke: true };
                keep(&mut seen.arrivals, &mut seen.is_cut, arrival);
            }
        }
    }

    fn moved(&mut self, index: &Index, host: HostId, o: &OpRow, seen: &mut Seen) {
        let waits = std::mem::take(&mut self.waits);
        let is_mine = o.kind == if self.is_sender { OpKind::Send } else { OpKind::Recv };
        if !is_mine || o.result <= 0 || o.end <= o.start {
            return;
        }
        let (entry, at) = (index.common(host, o.entry).0, index.common(host, o.at).0);
        let arrived = (o.arrived.0 != 0).then(|| index.common(host, o.arrived).0);
        let done = Move { entry, at, arrived, start: o.start, end: o.end };
        if self.is_sender {
            for w in waits.iter().filter(|w| o.task == self.side.task && w.blocked >= o.entry && w.at <= o.at) {
                let [from, ran] = [w.blocked, w.at].map(|t| index.common(host, t).0);
                let stall = Stall { from, ran, start: o.start, end: o.end };
                keep(&mut seen.stalls, &mut seen.is_cut, stall);
            }
            keep(&mut seen.sends, &mut seen.is_cut, done);
        } else {
            keep(&mut seen.reads, &mut seen.is_cut, done);
            keep(&mut seen.arrivals, &mut seen.is_cut, Arrival { at, end: o.end, woke: false });
            if o.range == RangeHow::Gap {
                seen.missing += self.last.map_or(0, |last| o.start.saturating_sub(last));
            }
        }
        self.last = Some(o.end);
    }
}
