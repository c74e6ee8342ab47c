//! What perf recorded (`perf_event_attr` of `perf_event_open(2)`), and where its records have their fields.

use crate::readers::source::ReadAt;
use crate::readers::tracefs::{Order, Scan};

/// A tracepoint as an attribute's type.
pub const TYPE_TRACEPOINT: u32 = 2;
/// Bytes of the first published attribute, and most that are believed.
pub const ATTR_BYTES: std::ops::RangeInclusive<u64> = 64..=4096;

const IP: u64 = 1;
const TID: u64 = 1 << 1;
const TIME: u64 = 1 << 2;
const ADDR: u64 = 1 << 3;
const READ: u64 = 1 << 4;
const CALLCHAIN: u64 = 1 << 5;
const ID: u64 = 1 << 6;
const CPU: u64 = 1 << 7;
const PERIOD: u64 = 1 << 8;
const STREAM_ID: u64 = 1 << 9;
const RAW: u64 = 1 << 10;
const IDENTIFIER: u64 = 1 << 16;

const FLAG_SAMPLE_ID_ALL: u32 = 18;
const FLAG_USE_CLOCKID: u32 = 25;

/// Bytes of a record's head: type, misc, size.
const HEAD: u16 = 8;

/// One attribute: an event with its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attr {
    /// [`TYPE_TRACEPOINT`], or another.
    pub kind: u32,
    /// A tracepoint's number.
    pub config: u64,
    /// The name of an event that is no tracepoint, empty where not known.
    pub name: String,
    /// The clock of its times, where it is not perf's own: a `CLOCK_…` number.
    pub clock: Option<u32>,
    sample_type: u64,
    read_format: u64,
    sample: Fields,
    trailer: Fields,
    /// Where the variable part of a sample begins.
    variable: u16,
}

/// Offsets of the fields with a fixed place: in a sample from its begin, in other records from their end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Fields {
    tid: Option<u16>,
    time: Option<u16>,
    id: Option<u16>,
    cpu: Option<u16>,
}

/// What is found at those places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Process and thread, 0 where not known.
    pub tgid: u32,
    /// Thread.
    pub tid: u32,
    /// Processor, where the record says.
    pub cpu: Option<u16>,
}

impl Attr {
    /// From `size` bytes at the scan's place, which is `size` bytes further on afterwards.
    pub fn read<R: ReadAt>(scan: &mut Scan<'_, R>, size: u64) -> Option<Attr> {
        let begin = scan.at;
        let kind = scan.u32()?;
        scan.skip(4);
        let config = scan.u64()?;
        scan.skip(8);
        let (sample_type, read_format, flags) = (scan.u64()?, scan.u64()?, scan.u64()?);
        // bit fields begin at the most significant bit on big-endian machines
        let flag = |n: u32| flags >> if scan.order == Order::Big { 63 - n } else { n } & 1 == 1;
        let (sample_id_all, use_clock) = (flag(FLAG_SAMPLE_ID_ALL), flag(FLAG_USE_CLOCKID));
        let mut clock = None;
        if use_clock && size >= 96 {
            scan.at = begin.checked_add(92)?;
            clock = Some(scan.u32()?);
        }
        scan.at = begin.checked_add(size)?;

        let mut sample = Fields::default();
        let mut at = HEAD;
        for bit in [IDENTIFIER, IP, TID, TIME, ADDR, ID, STREAM_ID, CPU, PERIOD] {
            if sample_type & bit != 0 {
                sample.note(bit, at);
                at += 8;
            }
        }
        let variable = at;
        let mut trailer = Fields::default();
        let mut back = 0;
        for bit in [IDENTIFIER, CPU, STREAM_ID, ID, TIME, TID] {
            if sample_id_all && sample_type & bit != 0 {
                back += 8;
                trailer.note(bit, back);
            }
        }
        let name = String::new();
        Some(Attr { kind, config, name, clock, sample_type, read_format, sample, trailer, variable })
    }

    fn place(&self, is_sample: bool, field: impl Fn(&Fields) -> Option<u16>, len: usize) -> Option<usize> {
        if is_sample {
            field(&self.sample).map(usize::from)
        } else {
            len.checked_sub(usize::from(field(&self.trailer)?)).filter(|at| *at >= usize::from(HEAD))
        }
    }

    /// The id in a record, which says whose it is.
    pub fn id(&self, order: Order, is_sample: bool, record: &[u8]) -> Option<u64> {
        order.u64(record, self.place(is_sample, |f| f.id, record.len())?)
    }

    /// A record's time, in ns of the recording's clock.
    pub fn time(&self, order: Order, is_sample: bool, record: &[u8]) -> Option<u64> {
        order.u64(record, self.place(is_sample, |f| f.time, record.len())?)
    }

    /// Who was current, and where.
    pub fn stamp(&self, order: Order, is_sample: bool, record: &[u8]) -> Stamp {
        let read = |field: fn(&Fields) -> Option<u16>, skip| {
            order.u32(record, self.place(is_sample, field, record.len())? + skip)
        };
        // a task that is gone already has no ids any more: all ones
        let (tgid, tid) = (read(|f| f.tid, 0).unwrap_or(0), read(|f| f.tid, 4).unwrap_or(0));
        let gone = tid == u32::MAX || tgid == u32::MAX;
        Stamp {
            tgid: if gone { 0 } else { tgid },
            tid: if gone { 0 } else { tid },
            cpu: read(|f| f.cpu, 0).and_then(|c| u16::try_from(c).ok()),
        }
    }

    /// The event's own bytes in a sample, as the kernel laid them out; `None` where it has none.
    pub fn raw<'a>(&self, order: Order, sample: &'a [u8]) -> Option<&'a [u8]> {
        if self.sample_type & RAW == 0 {
            return None;
        }
        let mut at = usize::from(self.variable);
        if self.sample_type & READ != 0 {
            at = at.checked_add(self.read_bytes(order, sample, at)?)?;
        }
        if self.sample_type & CALLCHAIN != 0 {
            let frames = usize::try_from(order.u64(sample, at)?).ok()?;
            at = frames.checked_mul(8)?.checked_add(8)?.checked_add(at)?;
        }
        let size = order.u32(sample, at)? as usize;
        sample.get(at + 4..)?.get(..size)
    }

    /// Bytes of `struct read_format`.
    fn read_bytes(&self, order: Order, sample: &[u8], at: usize) -> Option<usize> {
        let has = |bit: u32| (self.read_format >> bit & 1) as usize;
        let (enabled, running, id, group, lost) = (has(0), has(1), has(2), has(3), has(4));
        let members = if group == 1 { usize::try_from(order.u64(sample, at)?).ok()? } else { 1 };
        members.checked_mul(1 + id + lost)?.checked_add(group + enabled + running)?.checked_mul(8)
    }

    /// Its name in counts, where it is no tracepoint.
    pub fn plain_name(&self) -> String {
        if self.name.is_empty() { format!("perf:{}:{:#x}", self.kind, self.config) } else { self.name.clone() }
    }
}

impl Fields {
    fn note(&mut self, bit: u64, at: u16) {
        match bit {
            TID => self.tid = Some(at),
            TIME => self.time = Some(at),
            CPU => self.cpu = Some(at),
            // either says it; the identifier stands at a place that is the same for all attributes
            IDENTIFIER => self.id = Some(at),
            ID => self.id = self.id.or(Some(at)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attr(sample_type: u64, read_format: u64, flags: u64) -> Attr {
        let mut bytes = vec![0u8; 112];
        bytes[0] = TYPE_TRACEPOINT as u8;
        bytes[24..32].copy_from_slice(&sample_type.to_le_bytes());
        bytes[32..40].copy_from_slice(&read_format.to_le_bytes());
        bytes[40..48].copy_from_slice(&flags.to_le_bytes());
        bytes[92] = 7;
        let mut scan = Scan::new(&bytes, 0, 112, Order::Little);
        let attr = Attr::read(&mut scan, 112).unwrap();
        assert_eq!(scan.at, 112);
        attr
    }

    #[test]
    fn finds_raw_bytes_behind_counters_and_call_chain() {
        // one group of two members with id and lost, times enabled and running; a chain of two frames
        let attr = attr(IDENTIFIER | TIME | READ | CALLCHAIN | RAW, 0x1f, 0);
        let mut sample = vec![0; 8];
        let words = [77u64, 1234, 2, 5, 6, 1, 2, 3, 4, 5, 6, 2, 0xa, 0xb];
        sample.extend(words.iter().flat_map(|w| w.to_le_bytes()));
        sample.extend(4u32.to_le_bytes());
        sample.extend(b"wxyz");
        assert_eq!(attr.raw(Order::Little, &sample), Some(&b"wxyz"[..]));
        assert_eq!(attr.id(Order::Little, true, &sample), Some(77));
        assert_eq!(attr.time(Order::Little, true, &sample), Some(1234));
        assert_eq!(attr.clock, None);
        for len in 0..sample.len() {
            assert_eq!(attr.raw(Order::Little, &sample[..len]), None);
        }
    }

    #[test]
    fn finds_the_trailer_of_other_records() {
        let attr = attr(IDENTIFIER | TID | TIME | CPU, 0, 1 << FLAG_SAMPLE_ID_ALL | 1 << FLAG_USE_CLOCKID);
        assert_eq!(attr.clock, Some(7));
        let mut record = vec![0; 24];
        record.extend([1u32, 2].iter().flat_map(|w| w.to_le_bytes()));
        record.extend(1234u64.to_le_bytes());
        record.extend([3u32, 0].iter().flat_map(|w| w.to_le_bytes()));
        record.extend(77u64.to_le_bytes());
        assert_eq!(attr.time(Order::Little, false, &record), Some(1234));
        assert_eq!(attr.id(Order::Little, false, &record), Some(77));
        assert_eq!(attr.stamp(Order::Little, false, &record), Stamp { tgid: 1, tid: 2, cpu: Some(3) });
        assert_eq!(attr.time(Order::Little, false, &record[..20]), None);
    }
}
