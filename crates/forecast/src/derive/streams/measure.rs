//! What a stream's rows say about it: rates, the link, the send buffer, both ends' processors.

use super::super::links::Way;
use super::gather::{Arrival, Move, Seen};
use crate::derived::Block;

/// Part of the stream's time at its begin that is left out: connections start slowly.
const WARM: u64 = 10;
/// Fewer reads, stalls or arrivals in a row tell nothing.
const COUNT_MIN: usize = 16;

/// What is known of a stream while it ran steadily.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// From when on it was measured (common time line).
    pub from: i64,
    /// For how long (ns).
    pub elapsed_ns: u64,
    /// Bytes that the reader took in that time.
    pub bytes: u64,
    /// The time in equal parts.
    pub blocks: Vec<Block>,
    /// Computing of the sender for a byte (ns).
    pub sender_ns: f64,
    /// Computing of the reader for a byte (ns).
    pub reader_ns: f64,
    /// Time that a byte occupies the link (ns), where bytes were seen to wait for it.
    pub link_ns: Option<f64>,
    /// Share of the time in which bytes waited for the link.
    pub link_busy: f64,
    /// The way, where something told it.
    pub way: Option<Way>,
    /// Bytes that were sent and not acknowledged while the send buffer was full and the sender refilled it, on average;
    /// `None` where it was never full.
    pub in_flight: Option<u64>,
    /// Bytes that the send buffer takes (see `in_flight`).
    pub room: Option<u64>,
    /// From bytes being there until the reader runs (ns, the middle one).
    pub reader_wake_ns: u64,
    /// Share of the bytes whose calls were not seen.
    pub missing: f64,
}

impl Facts {
    /// Its rate.
    pub fn bytes_per_ns(&self) -> f64 {
        self.bytes as f64 / self.elapsed_ns.max(1) as f64
    }
}

/// Measures a stream in `parts` equal parts; `None` where too little was seen of it.
pub fn measure(seen: &Seen, way: Option<Way>, parts: u32) -> Option<Facts> {
    let (first, last) = (seen.reads.first()?, seen.reads.last()?);
    // where a list is cut, everything is looked at until its end
    let ends = [seen.sends.last().map(|s| s.at), Some(last.at)].into_iter().flatten();
    let to = if seen.is_cut { ends.min()? } else { last.at };
    let whole = u64::try_from(to - first.at).ok()?;
    let from = first.at.checked_add_unsigned(whole / WARM)?;
    let elapsed_ns = u64::try_from(to - from).ok().filter(|e| *e > 0)?;
    let reads = within(&seen.reads, from, to);
    if reads.len() < COUNT_MIN {
        return None;
    }
    let bytes = read_until(&seen.reads, to) - read_until(&seen.reads, from);
    let sent = read_until(&seen.sends, to).checked_sub(read_until(&seen.sends, from)).filter(|s| *s > 0)?;
    // who sends may have ended while what it sent is still being read
    let sent_last = seen.sends.last()?.at;
    let way = least(seen, way);
    let way_ns = way.unwrap_or_default();
    let (busy_ns, busy_bytes, watched_ns) = link(seen, way_ns.there_ns, from, to);
    let buffer = buffer(seen, way_ns.back_ns, from, to);
    let part = elapsed_ns / u64::from(parts.max(1));
    let blocks = (0..u64::from(parts)).map(|i| {
        let begin = from.saturating_add_unsigned(i * part);
        let count = read_until(&seen.reads, begin.saturating_add_unsigned(part)) - read_until(&seen.reads, begin);
        Block { count, elapsed_ns: part, mean_ns: 0.0 }
    });
    Some(Facts {
        from,
        elapsed_ns,
        bytes,
        blocks: blocks.collect(),
        sender_ns: running(&seen.sender_away, from, to.min(sent_last)) as f64 / sent as f64,
        reader_ns: running(&seen.reader_away, from, to) as f64 / bytes.max(1) as f64,
        link_ns: (busy_bytes > 0).then(|| busy_ns as f64 / busy_bytes as f64),
        link_busy: busy_ns as f64 / watched_ns.max(1) as f64,
        way,
        in_flight: buffer.map(|b| b.in_flight),
        room: buffer.map(|b| b.room),
        reader_wake_ns: median(&mut seen.reader_wakes.clone()).unwrap_or(0),
        missing: seen.missing as f64 / bytes.max(1) as f64,
    })
}

/// The way: as the handshake tells, or shorter where a byte was faster than that. Where it is the same both ways as far as the
/// handshake tells, it stays so.
fn least(seen: &Seen, way: Option<Way>) -> Option<Way> {
    let one_way = |m: &Move| {
        let send = seen.sends.get(seen.sends.partition_point(|s| s.end <= m.start)).filter(|s| s.start <= m.start)?;
        u64::try_from(m.arrived? - send.entry).ok()
    };
    let fastest = seen.reads.iter().filter_map(one_way).min();
    match (way, fastest) {
        (Some(way), Some(there_ns)) if there_ns < way.there_ns => {
            let back_ns = if way.back_ns == way.there_ns { there_ns } else { way.back_ns };
            Some(Way { there_ns, back_ns })
        }
        (None, Some(there_ns)) => Some(Way { there_ns, back_ns: there_ns }),
        _ => way,
    }
}

/// The calls that returned in an interval.
fn within(moves: &[Move], from: i64, to: i64) -> &[Move] {
    let (a, b) = (moves.partition_point(|m| m.at < from), moves.partition_point(|m| m.at <= to));
    &moves[a..b.max(a)]
}

/// One past the last byte that had been moved at a moment; where that was within a call's time, in proportion: a long call
/// moves its bytes little by little.
fn read_until(moves: &[Move], at: i64) -> u64 {
    let i = moves.partition_point(|m| m.at <= at);
    let done = i.checked_sub(1).map_or_else(|| moves.first().map_or(0, |m| m.start), |i| moves[i].end);
    let Some(next) = moves.get(i).filter(|m| m.end > done) else { return done };
    let from = next.entry.max(i.checked_sub(1).map_or(i64::MIN, |i| moves[i].at));
    if at <= from || next.at <= from {
        return done;
    }
    done + ((next.end - done) as f64 * (at - from) as f64 / (next.at - from) as f64) as u64
}

/// One past the last byte that had been sent for sure at a moment.
fn sent_until(sends: &[Move], at: i64) -> u64 {
    let i = sends.partition_point(|m| m.at <= at);
    let done = i.checked_sub(1).map_or(0, |i| sends[i].end);
    sends.get(i).filter(|m| m.entry <= at).map_or(done, |m| done.max(m.start))
}

/// One past the last byte that had arrived at a moment, as far as was seen; `None` before the first.
fn arrived(arrivals: &[Arrival], at: i64) -> Option<u64> {
    arrivals.partition_point(|a| a.at <= at).checked_sub(1).map(|i| arrivals[i].end)
}

/// Time between two moments that no interval covers in which the task was away.
fn running(away: &[(i64, i64)], from: i64, to: i64) -> u64 {
    let away: u64 = away.iter().map(|&(a, b)| u64::try_from(b.min(to) - a.max(from)).unwrap_or(0)).sum();
    u64::try_from(to - from).unwrap_or(0).saturating_sub(away)
}

/// The middle one of some values.
fn median(of: &mut [u64]) -> Option<u64> {
    let middle = of.len() / 2;
    if of.is_empty() { None } else { Some(*of.select_nth_unstable(middle).1) }
}

/// How long the link was occupied, with how many bytes, and in how much time that could be told.
///
/// Between two packets for which the reader waited the link was occupied all the time if the bytes of the second one had
/// been sent before the first one was, so that they waited for their turn.
fn link(seen: &Seen, there_ns: u64, from: i64, to: i64) -> (u64, u64, u64) {
    let (mut busy_ns, mut bytes, mut watched_ns, mut count) = (0, 0, 0, 0);
    for pair in seen.arrivals.iter().filter(|a| a.woke && a.at >= from && a.at <= to).collect::<Vec<_>>().windows(2) {
        let (a, b) = (pair[0], pair[1]);
        let Ok(gap) = u64::try_from(b.at - a.at) else { continue };
        if b.end <= a.end {
            continue;
        }
        watched_ns += gap;
        if sent_until(&seen.sends, a.at.saturating_sub_unsigned(there_ns)) >= b.end {
            (busy_ns, bytes, count) = (busy_ns + gap, bytes + b.end - a.end, count + 1);
        }
    }
    if count < COUNT_MIN { (0, 0, watched_ns) } else { (busy_ns, bytes, watched_ns) }
}

#[derive(Clone, Copy)]
struct Buffer {
    room: u64,
    in_flight: u64,
}

/// The send buffer, from the moments at which the sender found it full and those at which it went on.
///
/// What was in it is what had been handed over less what was acknowledged: what had arrived one way earlier. Of the call
/// that waits a part had been handed over, nobody knows how much: the middle stands for it. A sender is told of room when a
/// part of the buffer is free (Linux: a third) and takes a moment to run, so that what is in it swings between full and
/// that; by Little's law the mean of the two is what passes in one round trip.
fn buffer(seen: &Seen, back_ns: u64, from: i64, to: i64) -> Option<Buffer> {
    let (mut full, mut freed) = (Vec::new(), 0u64);
    for s in seen.stalls.iter().filter(|s| s.from >= from && s.ran <= to) {
        let acked = |at: i64| arrived(&seen.arrivals, at.saturating_sub_unsigned(back_ns));
        let (Some(then), Some(now)) = (acked(s.from), acked(s.ran)) else { continue };
        full.push((s.start.saturating_sub(then) + s.end.saturating_sub(then)) / 2);
        freed += now.saturating_sub(then);
    }
    let count = full.len() as u64;
    let room = median(&mut full).filter(|_| count >= COUNT_MIN as u64)?;
    Some(Buffer { room, in_flight: room.saturating_sub(freed / count / 2) })
}
