//! Blocks of pcapng (draft-ietf-opsawg-pcapng §3, §4).

use super::record::{Order, RECORD_MAX, Record, Step, link_type};
use wakepath_wire::packet::Packet;

/// A section header block's type, the same in both byte orders.
pub(super) const SECTION: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// Interfaces of a section, at most: a file with more is damaged.
const INTERFACES_MAX: usize = 1 << 16;
/// What stands at a section's begin, in its byte order.
const ORDER_MAGIC: u32 = 0x1a2b_3c4d;

/// Types of the blocks that are read.
mod kind {
    pub const INTERFACE: u32 = 1;
    /// The packet block of old.
    pub const PACKET: u32 = 2;
    pub const SIMPLE_PACKET: u32 = 3;
    pub const STATISTICS: u32 = 5;
    pub const ENHANCED_PACKET: u32 = 6;
}

/// The section that is read.
#[derive(Debug)]
pub(super) struct Sections {
    order: Order,
    interfaces: Vec<Interface>,
    /// Interfaces of the sections before.
    before: u32,
    /// Time of the packet before, ns since 1970, 0 before the first.
    at_ns: u64,
    /// Time of the first packet.
    first_ns: u64,
    /// The block at hand has a time that is none.
    is_timeless: bool,
}

impl Default for Sections {
    fn default() -> Sections {
        Sections { order: Order::Little, interfaces: Vec::new(), before: 0, at_ns: 0, first_ns: 0, is_timeless: false }
    }
}

/// What a section says of an interface.
#[derive(Clone, Copy, Debug)]
struct Interface {
    link: u32,
    /// Bytes captured of a packet, at most; 0 = all.
    snap: u32,
    unit: Unit,
    offset_s: i64,
    /// Dropped packets that its statistics told of.
    dropped: u64,
    /// Until when they did, ns since 1970.
    told_ns: u64,
}

/// What times are counted in.
#[derive(Clone, Copy, Debug)]
enum Unit {
    /// So many ns.
    Ns(u64),
    /// ns divided by so many.
    PartOfNs(u64),
    /// 2 to the minus so many seconds.
    Binary(u32),
}

impl Unit {
    /// Of option `if_tsresol`.
    fn of(resolution: u8) -> Option<Unit> {
        match (u32::from(resolution & 0x7f), resolution & 0x80 != 0) {
            (power, true) if power < 64 => Some(Unit::Binary(power)),
            (power @ 0..=9, false) => Some(Unit::Ns(10_u64.pow(9 - power))),
            (power @ 10..=28, false) => Some(Unit::PartOfNs(10_u64.pow(power - 9))),
            _ => None,
        }
    }
}

impl Interface {
    /// ns since 1970 of a time as blocks have it; `None` where that is before 1970 or after 2262.
    #[inline]
    fn ns(&self, high: u32, low: u32) -> Option<u64> {
        let time = u64::from(high) << 32 | u64::from(low);
        let ns = match self.unit {
            Unit::Ns(ns) => time.checked_mul(ns)?,
            Unit::PartOfNs(parts) => time / parts,
            Unit::Binary(power) => ((u128::from(time) * 1_000_000_000) >> power).try_into().ok()?,
        };
        let ns = ns.checked_add_signed(self.offset_s.checked_mul(1_000_000_000)?)?;
        (ns <= i64::MAX as u64).then_some(ns)
    }
}

impl Sections {
    /// Takes the block at the begin of `bytes`.
    #[inline]
    pub(super) fn step(
        &mut self,
        bytes: &[u8],
        fault: &mut impl FnMut(&'static str),
        out: &mut impl FnMut(Record<'_>),
    ) -> Step {
        let Some(head) = bytes.first_chunk::<12>() else { return Step::Need(12) };
        if head[..4] == SECTION {
            let magic = [head[8], head[9], head[10], head[11]];
            self.order = match [Order::Little, Order::Big].into_iter().find(|o| o.u32(&magic) == ORDER_MAGIC) {
                Some(order) => order,
                None => return Step::Damaged("a section of no known byte order"),
            };
        }
        let order = self.order;
        let size = order.u32(&[head[4], head[5], head[6], head[7]]) as usize;
        if size < 12 || !size.is_multiple_of(4) {
            return Step::Damaged("a block of impossible length");
        }
        let kind = order.u32(&[head[0], head[1], head[2], head[3]]);
        let is_read = head[..4] == SECTION || matches!(kind, 1..=3 | 5 | 6);
        if !is_read {
            return Step::Skip(size as u64);
        }
        if size > RECORD_MAX {
            return Step::Damaged("a block of impossible length");
        }
        let Some(block) = bytes.get(..size) else { return Step::Need(size) };
        let (body, end) = block[8..].split_at(size - 12);
        if end != &head[4..8] {
            return Step::Damaged("a block whose two lengths differ");
        }
        if head[..4] == SECTION {
            self.before = self.before.saturating_add(self.interfaces.len() as u32);
            self.interfaces.clear();
        } else if self.block(kind, body, out).is_none() {
            fault("a block that contradicts itself was left out");
        }
        if std::mem::take(&mut self.is_timeless) {
            fault("a time before 1970 or after 2262: the time of the packet before is used instead");
        }
        Step::Took(size)
    }

    fn block(&mut self, kind: u32, body: &[u8], out: &mut impl FnMut(Record<'_>)) -> Option<()> {
        match kind {
            kind::ENHANCED_PACKET => self.packet(body, false, out),
            kind::PACKET => self.packet(body, true, out),
            kind::SIMPLE_PACKET => self.simple_packet(body, out),
            kind::STATISTICS => self.statistics(body, out),
            kind::INTERFACE => self.interface(body),
            _ => Some(()),
        }
    }

    fn interface(&mut self, body: &[u8]) -> Option<()> {
        let link = link_type(u32::from(self.order.u16_at(body, 0)?));
        let snap = self.order.u32_at(body, 4)?;
        let mut unit = Some(Unit::Ns(1000));
        let mut offset_s = 0;
        for (code, value) in options(self.order, &body[8..]) {
            match (code, value) {
                (9, &[resolution, ..]) => unit = Unit::of(resolution),
                (14, value) => offset_s = self.order.u64(value.first_chunk()?) as i64,
                _ => {}
            }
        }
        if self.interfaces.len() >= INTERFACES_MAX {
            return None;
        }
        self.interfaces.push(Interface { link, snap, unit: unit?, offset_s, dropped: 0, told_ns: 0 });
        Some(())
    }

    /// An enhanced packet block, or a packet block of old, which has two bytes for the interface and two for drops.
    #[inline]
    fn packet(&mut self, body: &[u8], old: bool, out: &mut impl FnMut(Record<'_>)) -> Option<()> {
        let order = self.order;
        let header = body.first_chunk::<20>()?;
        let field = |at: usize| order.u32(&[header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let (number, mut lost) = match old {
            true => {
                let drops = order.u16(&[header[2], header[3]]);
                // All ones: not known.
                (u32::from(order.u16(&[header[0], header[1]])), if drops == u16::MAX { 0 } else { u64::from(drops) })
            }
            false => (field(0), 0),
        };
        let interface = self.interfaces.get(number as usize)?;
        let time = interface.ns(field(4), field(8));
        self.is_timeless = time.is_none();
        let at_ns = time.unwrap_or(self.at_ns);
        let (captured, length) = (field(12) as usize, field(16));
        let bytes = body[20..].get(..captured)?;
        let rest = body.get(20 + captured.next_multiple_of(4)..).unwrap_or_default();
        if !old && !rest.is_empty() {
            let drops = options(order, rest).find(|&(code, _)| code == 4);
            lost = drops.and_then(|(_, value)| value.first_chunk()).map_or(0, |value| order.u64(value));
        }
        let (link, interface) = (interface.link, self.before.saturating_add(number));
        if lost > 0 {
            out(Record::Lost { interface, from_ns: self.at_ns.min(at_ns), at_ns, count: lost });
        }
        if self.at_ns == 0 {
            self.first_ns = at_ns;
        }
        self.at_ns = at_ns;
        out(Record::Packet(Packet { at_ns, link, interface, length: length.max(captured as u32), bytes }));
        Some(())
    }

    /// A packet without a time: it stands at the time of the one before.
    fn simple_packet(&mut self, body: &[u8], out: &mut impl FnMut(Record<'_>)) -> Option<()> {
        let interface = self.interfaces.first()?;
        let length = self.order.u32_at(body, 0)?;
        let snap = if interface.snap == 0 { u32::MAX } else { interface.snap };
        let bytes = body[4..].get(..length.min(snap) as usize)?;
        let packet = Packet { at_ns: self.at_ns, link: interface.link, interface: self.before, length, bytes };
        out(Record::Packet(packet));
        Some(())
    }

    /// Tells of packets that were dropped since the statistics before; counts are since the capture's begin.
    fn statistics(&mut self, body: &[u8], out: &mut impl FnMut(Record<'_>)) -> Option<()> {
        let order = self.order;
        let number = order.u32_at(body, 0)?;
        let interface = self.interfaces.get_mut(number as usize)?;
        let time = interface.ns(order.u32_at(body, 4)?, order.u32_at(body, 8)?);
        self.is_timeless = time.is_none();
        let at_ns = time.unwrap_or(self.at_ns);
        let mut dropped: u64 = 0;
        for (code, value) in options(order, &body[12..]) {
            // By the interface, by the operating system.
            if matches!(code, 5 | 7) {
                dropped = dropped.saturating_add(order.u64(value.first_chunk()?));
            }
        }
        let count = dropped.saturating_sub(interface.dropped);
        let from_ns = interface.told_ns.max(self.first_ns).min(at_ns);
        interface.dropped = dropped.max(interface.dropped);
        interface.told_ns = at_ns;
        if count > 0 {
            out(Record::Lost { interface: self.before.saturating_add(number), from_ns, at_ns, count });
        }
        Some(())
    }
}

/// A block's options, up to the first that is not whole.
fn options(order: Order, mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (code, size) = (order.u16_at(bytes, 0)?, usize::from(order.u16_at(bytes, 2)?));
        let value = bytes.get(4..4 + size)?;
        bytes = bytes.get(4 + size.next_multiple_of(4)..).unwrap_or_default();
        (code != 0).then_some((code, value))
    })
}
