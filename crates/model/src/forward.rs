//! Rows on their way from a sniffer to a collector: `docs/formats/forward.md` describes the bytes for others.
//!
//! Rows are packed into frames that can be read each by itself: strings and flows are told where a frame first names
//! them. A frame has its number and how many rows were in all before it, so that whoever receives knows exactly how many
//! rows did not come. Nothing here does input or output or reads a clock.

mod decode;
mod encode;
mod gaps;

use crate::rows::{OPEN, SniffedExchangeRow, SniffedFlowRow};

pub use decode::{Bad, Frame, FrameKind, Hello};
pub use encode::Encoder;
pub use gaps::{Gaps, Lost};

/// The first two bytes of every frame.
const MAGIC: [u8; 2] = *b"Wf";
/// Version of the format.
pub const VERSION: u8 = 1;
/// A frame of rows.
const KIND_ROWS: u8 = 1;
/// What sender this is, and how much it has sent.
const KIND_HELLO: u8 = 2;
/// The same, for the last time: the sender ends.
const KIND_LAST: u8 = 3;
/// Where the checksum stands: CRC-32 of all bytes but its own.
const CHECKSUM: std::ops::Range<usize> = 4..8;
/// Fields of fixed length at the head of a frame.
const FIXED: usize = 16;

/// No frame is longer: one UDP datagram takes it.
pub const FRAME_BYTES_MAX: usize = 60_000;
/// Strings are cut to so many bytes, so that any row fits into a frame.
pub const TEXT_BYTES_MAX: usize = 8_192;

/// The first byte of a row: what it is.
mod tag {
    pub const EXCHANGE: u8 = 1;
    pub const FLOW: u8 = 2;
    pub const LOSS: u8 = 3;
    pub const ANCHOR: u8 = 4;
    /// A flow of which the frame has a row already: what is the same in both is left out.
    pub const FLOW_AGAIN: u8 = 5;
}

/// How a time stands in a row: two bits.
mod time {
    /// It is 0, "not seen".
    pub const ZERO: u32 = 0;
    /// It is the time before it.
    pub const SAME: u32 = 1;
    /// The difference to the time before it follows.
    pub const DELTA: u32 = 2;
    /// It is that of the flow's row before.
    pub const FLOW: u32 = 3;
}

/// How a byte number stands in a row: two bits.
mod number {
    /// It is [`crate::rows::OPEN`].
    pub const OPEN: u32 = 0;
    /// It follows.
    pub const WHOLE: u32 = 1;
    /// The difference to the number before it follows.
    pub const LENGTH: u32 = 2;
    /// The difference to the latest end of the flow's direction in this frame follows.
    pub const BEHIND: u32 = 3;
}

/// Bits of an exchange's mask: seven times from bit 0, four numbers from bit 14, then which fields are not 0.
mod exchange {
    pub const NUMBERS: u32 = 14;
    pub const WITNESS: u32 = 1 << 22;
    pub const TRACE: u32 = 1 << 23;
    pub const SPAN: u32 = 1 << 24;
    pub const REQUEST_ID: u32 = 1 << 25;
    pub const MISSING: u32 = 1 << 26;
    pub const DETAIL: u32 = 1 << 27;
    pub const FAILED: u32 = 1 << 28;
    pub const CUT: u32 = 1 << 29;
    pub const INTERIM: u32 = 1 << 30;
    pub const OUTCOME_UNKNOWN: u32 = 1 << 31;
}

/// Bits of a flow's mask: four times from bit 0, then which fields are not 0, or not as in the flow's row before.
mod flow {
    pub const MISSING: u16 = 1 << 8;
    pub const RETRANSMITTED: u16 = 1 << 9;
    pub const REORDERED: u16 = 1 << 10;
    pub const ZERO_WINDOWS: u16 = 1 << 11;
    pub const TUNNEL: u16 = 1 << 12;
    pub const REASON: u16 = 1 << 13;
    /// Addresses have sixteen bytes and not four.
    pub const LONG: u16 = 1 << 14;
    pub const ORIGIN: u16 = 1 << 15;
}

/// What a frame has said of a flow.
#[derive(Clone, Copy, Debug)]
struct Said {
    id: u64,
    /// Its latest row.
    row: Option<SniffedFlowRow>,
    /// By direction, the first byte number that was said and the latest end; none where none was.
    bytes: [Option<(u64, u64)>; 2],
}

impl Said {
    fn new(id: u64) -> Said {
        Said { id, row: None, bytes: [None; 2] }
    }

    /// Learns of an exchange.
    fn exchange(&mut self, r: &SniffedExchangeRow) {
        let ranges = [(r.request_start, r.request_end), (r.reply_start, r.reply_end)];
        for (known, (start, end)) in self.bytes.iter_mut().zip(ranges) {
            if start != OPEN {
                let first = known.map_or(start, |k| k.0);
                *known = Some((first, if end == OPEN { start } else { end }));
            }
        }
    }

    /// Learns of a flow's row.
    fn flow(&mut self, r: &SniffedFlowRow) {
        for (known, origin) in self.bytes.iter_mut().zip(r.origin) {
            if known.is_none() && origin != 0 {
                *known = Some((origin, origin));
            }
        }
        self.row = Some(*r);
    }

    /// From which number on the first of a direction are told, and from which the next.
    fn first_and_next(&self, direction: usize) -> (u64, Option<u64>) {
        (self.bytes[direction].map_or(0, |b| b.0), self.bytes[direction].map(|b| b.1))
    }
}

fn checksum(frame: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&frame[..CHECKSUM.start]);
    crc.update(&frame[CHECKSUM.end..]);
    crc.finalize()
}

#[cfg(test)]
mod tests;
