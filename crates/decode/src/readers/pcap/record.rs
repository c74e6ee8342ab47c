//! Records of captures, and what their fields mean in both formats.

use wakepath_wire::packet::{Packet, link};

/// A record longer than this is damage: the longest packets that are captured have 256 KiB.
pub(super) const RECORD_MAX: usize = 1 << 24;

/// What a capture says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A packet.
    Packet(Packet<'a>),
    /// The capture dropped packets of an interface: `count` between `from_ns` and `at_ns`, ns since 1970.
    Lost {
        /// As in [`Packet`].
        interface: u32,
        /// After this time.
        from_ns: u64,
        /// Before this time.
        at_ns: u64,
        /// How many.
        count: u64,
    },
}

/// A byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Little,
    Big,
}

impl Order {
    pub(super) fn u16(self, bytes: &[u8; 2]) -> u16 {
        match self {
            Order::Little => u16::from_le_bytes(*bytes),
            Order::Big => u16::from_be_bytes(*bytes),
        }
    }

    pub(super) fn u32(self, bytes: &[u8; 4]) -> u32 {
        match self {
            Order::Little => u32::from_le_bytes(*bytes),
            Order::Big => u32::from_be_bytes(*bytes),
        }
    }

    pub(super) fn u64(self, bytes: &[u8; 8]) -> u64 {
        match self {
            Order::Little => u64::from_le_bytes(*bytes),
            Order::Big => u64::from_be_bytes(*bytes),
        }
    }

    /// The number of four bytes at `at`.
    pub(super) fn u32_at(self, bytes: &[u8], at: usize) -> Option<u32> {
        Some(self.u32(bytes.get(at..)?.first_chunk()?))
    }

    /// The number of two bytes at `at`.
    pub(super) fn u16_at(self, bytes: &[u8], at: usize) -> Option<u16> {
        Some(self.u16(bytes.get(at..)?.first_chunk()?))
    }
}

/// What became of the bytes at the next record.
pub(super) enum Step {
    /// It has so many bytes.
    Took(usize),
    /// It was of no interest and has so many bytes, which need not be there yet.
    Skip(u64),
    /// So many bytes from its begin on are needed.
    Need(usize),
    /// It cannot be read, nor can what follows.
    Damaged(&'static str),
}

/// The link type as the file format numbers it; above it stands how long frame check sequences are.
pub(super) fn link_type(field: u32) -> u32 {
    match field & 0xffff {
        // What the BSDs call "raw" in memory, and some programs write.
        12 | 14 => link::RAW,
        other => other,
    }
}
