//! The fixed bytes of a segment: its header and the headers of its frames.

use crate::rows::{Table, WORDS_MAX};

/// Version of the folder's format.
pub const FORMAT_VERSION: u32 = 3;

/// First bytes of a segment.
pub(super) const SEGMENT_MAGIC: [u8; 8] = *b"WAKESEG1";
/// First bytes of a frame.
pub(super) const FRAME_MAGIC: [u8; 4] = *b"WkFr";
/// Bytes of a segment's header, and of a frame's.
pub(super) const HEADER_BYTES: usize = 64;
/// A frame's body is never longer, compressed or not: a bound on what damage can make a reader allocate.
pub(super) const BODY_BYTES_MAX: u32 = 64 << 20;

/// Frame kind: definitions of strings. Lower numbers are tables.
pub(super) const KIND_STRINGS: u8 = 128;
/// Frame kind: raw heads of messages.
pub(super) const KIND_HEADS: u8 = 129;

/// A segment's header says: its recording keeps a list of its segments (see `list`).
const FLAG_LISTED: u32 = 1;

/// The body is compressed as one LZ4 block.
pub(super) const FLAG_LZ4: u8 = 1;
/// The rows are packed (see `packed`).
pub(super) const FLAG_PACKED: u8 = 2;

pub(super) fn u32_at(bytes: &[u8; HEADER_BYTES], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(super) fn u64_at(bytes: &[u8; HEADER_BYTES], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

pub(super) fn sealed(mut bytes: [u8; HEADER_BYTES]) -> [u8; HEADER_BYTES] {
    let crc = crc32fast::hash(&bytes[..60]);
    bytes[60..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

pub(super) fn is_sealed(bytes: &[u8; HEADER_BYTES]) -> bool {
    u32_at(bytes, 60) == crc32fast::hash(&bytes[..60])
}

/// What a segment says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub version: u32,
    pub number: u32,
    pub recording: u64,
    pub host: u64,
    pub created_real_ns: u64,
    /// Its recording keeps a list of its segments.
    pub is_listed: bool,
}

impl SegmentHeader {
    pub fn write(&self) -> [u8; HEADER_BYTES] {
        let mut b = [0; HEADER_BYTES];
        b[..8].copy_from_slice(&SEGMENT_MAGIC);
        b[8..12].copy_from_slice(&self.version.to_le_bytes());
        b[12..16].copy_from_slice(&self.number.to_le_bytes());
        b[16..24].copy_from_slice(&self.recording.to_le_bytes());
        b[24..32].copy_from_slice(&self.host.to_le_bytes());
        b[32..40].copy_from_slice(&self.created_real_ns.to_le_bytes());
        b[40..44].copy_from_slice(&(if self.is_listed { FLAG_LISTED } else { 0 }).to_le_bytes());
        sealed(b)
    }

    pub fn read(b: &[u8; HEADER_BYTES]) -> Option<SegmentHeader> {
        (b[..8] == SEGMENT_MAGIC && is_sealed(b)).then(|| SegmentHeader {
            version: u32_at(b, 8),
            number: u32_at(b, 12),
            recording: u64_at(b, 16),
            host: u64_at(b, 24),
            created_real_ns: u64_at(b, 32),
            is_listed: u32_at(b, 40) & FLAG_LISTED != 0,
        })
    }
}

/// What a frame says of its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct FrameHeader {
    pub kind: u8,
    pub flags: u8,
    pub body_bytes: u32,
    pub raw_bytes: u32,
    pub rows: u32,
    pub task_max: u32,
    pub first: u64,
    pub last: u64,
    pub sequence: u32,
    pub segment: u32,
    pub recording: u64,
    pub body_crc: u32,
}

impl FrameHeader {
    pub fn write(&self) -> [u8; HEADER_BYTES] {
        let mut b = [0; HEADER_BYTES];
        b[..4].copy_from_slice(&FRAME_MAGIC);
        b[4] = self.kind;
        b[5] = self.flags;
        b[8..12].copy_from_slice(&self.body_bytes.to_le_bytes());
        b[12..16].copy_from_slice(&self.raw_bytes.to_le_bytes());
        b[16..20].copy_from_slice(&self.rows.to_le_bytes());
        b[20..24].copy_from_slice(&self.task_max.to_le_bytes());
        b[24..32].copy_from_slice(&self.first.to_le_bytes());
        b[32..40].copy_from_slice(&self.last.to_le_bytes());
        b[40..44].copy_from_slice(&self.sequence.to_le_bytes());
        b[44..48].copy_from_slice(&self.segment.to_le_bytes());
        b[48..56].copy_from_slice(&self.recording.to_le_bytes());
        b[56..60].copy_from_slice(&self.body_crc.to_le_bytes());
        sealed(b)
    }

    /// Reads a header; `None` where the bytes are not one.
    pub fn read(b: &[u8; HEADER_BYTES]) -> Option<FrameHeader> {
        (b[..4] == FRAME_MAGIC && is_sealed(b)).then(|| FrameHeader {
            kind: b[4],
            flags: b[5],
            body_bytes: u32_at(b, 8),
            raw_bytes: u32_at(b, 12),
            rows: u32_at(b, 16),
            task_max: u32_at(b, 20),
            first: u64_at(b, 24),
            last: u64_at(b, 32),
            sequence: u32_at(b, 40),
            segment: u32_at(b, 44),
            recording: u64_at(b, 48),
            body_crc: u32_at(b, 56),
        })
    }

    /// The table whose rows the frame holds.
    pub fn table(&self) -> Option<Table> {
        Table::from_number(self.kind)
    }

    /// Words of a row as it stands in the frame. Those of a later version may have more than we know, those of an earlier
    /// one fewer.
    pub fn row_words(&self) -> usize {
        self.raw_bytes.checked_div(self.rows).unwrap_or(0) as usize / 8
    }

    /// Whether the header's fields can be true together.
    pub fn is_consistent(&self) -> bool {
        self.body_bytes <= BODY_BYTES_MAX
            && self.raw_bytes <= BODY_BYTES_MAX
            && match self.flags {
                0 => self.body_bytes == self.raw_bytes,
                FLAG_LZ4 => self.table().is_none(),
                FLAG_PACKED => self.table().is_some(),
                _ => false,
            }
            && self.first <= self.last
            && self.table().is_none_or(|t| {
                let own = u64::from(self.rows) * t.row_bytes() as u64;
                (self.raw_bytes == 0) == (self.rows == 0)
                    && own <= u64::from(BODY_BYTES_MAX)
                    && u64::from(self.raw_bytes) == u64::from(self.rows) * self.row_words() as u64 * 8
                    && self.row_words() <= WORDS_MAX
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_read_back_and_every_flipped_bit_shows() {
        let frame = FrameHeader {
            kind: 1,
            flags: FLAG_PACKED,
            body_bytes: 10,
            raw_bytes: 64,
            rows: 1,
            task_max: 7,
            first: 5,
            last: 6,
            sequence: 9,
            segment: 3,
            recording: 0x1234_5678_9abc_def0,
            body_crc: 0xdead_beef,
        };
        assert!(frame.is_consistent());
        let segment = SegmentHeader {
            version: FORMAT_VERSION,
            number: 3,
            recording: 4,
            host: 5,
            created_real_ns: 6,
            is_listed: true,
        };
        assert_eq!(FrameHeader::read(&frame.write()), Some(frame));
        assert_eq!(SegmentHeader::read(&segment.write()), Some(segment));
        for bit in 0..HEADER_BYTES * 8 {
            let mut bytes = frame.write();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(FrameHeader::read(&bytes), None);
            let mut bytes = segment.write();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(SegmentHeader::read(&bytes), None);
        }
    }
}
