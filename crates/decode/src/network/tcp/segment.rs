//! A segment: the header of TCP and the payload after it.

use wakepath_model::ids::MonoNs;

pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
pub(crate) const ACK: u8 = 16;
pub(crate) const URG: u8 = 32;

/// A segment's header and payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment<'a> {
    pub at: MonoNs,
    pub source: u16,
    pub destination: u16,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    /// The timestamp option's two numbers, mixed; 0 where there is none.
    pub stamp: u32,
    pub ip_id: u32,
    pub wire_bytes: u32,
    /// Bytes of payload on the wire.
    pub length: u32,
    /// Those captured.
    pub payload: &'a [u8],
}

impl<'a> Segment<'a> {
    /// Reads the header in `bytes`, of `wire` bytes on the wire. `None`: it is not whole, or none.
    pub fn read(bytes: &'a [u8], wire: u32) -> Option<Segment<'a>> {
        let head: &[u8; 20] = bytes.first_chunk()?;
        let half = |i: usize| u16::from_be_bytes([head[i], head[i + 1]]);
        let word = |i: usize| u32::from_be_bytes([head[i], head[i + 1], head[i + 2], head[i + 3]]);
        let behind = usize::from(head[12] >> 4) * 4;
        if behind < 20 || behind as u64 > u64::from(wire) {
            return None;
        }
        // Of a packet that was cut in its options no payload was captured.
        let options = bytes.get(20..behind.min(bytes.len())).unwrap_or(&[]);
        Some(Segment {
            at: MonoNs(0),
            source: half(0),
            destination: half(2),
            seq: word(4),
            ack: word(8),
            flags: head[13],
            window: half(14),
            stamp: stamp(options),
            ip_id: u32::MAX,
            wire_bytes: 0,
            length: wire - behind as u32,
            payload: bytes.get(behind..).map_or(&[], |p| &p[..p.len().min((wire as usize) - behind)]),
        })
    }

    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// What a packet that is captured again has in common with itself.
    pub fn mark(&self) -> u32 {
        let words = [self.seq, self.ack, self.ip_id, self.stamp, self.length ^ u32::from(self.flags) << 16];
        let mixed = words.iter().fold(u64::from(self.window), |h, &w| {
            (h.rotate_left(5) ^ u64::from(w)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        });
        (mixed >> 32) as u32
    }

    pub fn known_id(&self) -> bool {
        self.ip_id != u32::MAX && self.ip_id != 0
    }
}

/// The timestamp option, wherever it stands.
fn stamp(mut options: &[u8]) -> u32 {
    loop {
        options = match options {
            [1, rest @ ..] => rest,
            [8, 10, a, b, c, d, e, f, g, h, ..] => {
                return u32::from_be_bytes([*a, *b, *c, *d]) ^ u32::from_be_bytes([*e, *f, *g, *h]).rotate_left(16);
            }
            [kind, length, ..] if *kind > 1 && *length > 1 => options.get(usize::from(*length)..).unwrap_or(&[]),
            _ => return 0,
        };
    }
}
