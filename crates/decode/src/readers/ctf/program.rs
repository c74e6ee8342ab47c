//! A flat program that reads one stretch of a packet.

use super::bits;

/// No output.
pub(super) const NONE: u8 = u8::MAX;
/// No slot.
pub(super) const NO_SLOT: u16 = u16::MAX;
/// Outputs that a program may fill.
pub(super) const OUTPUTS: usize = 32;

#[derive(Debug, Default)]
pub(super) struct Program {
    pub ops: Vec<Op>,
    pub gets: Vec<Get>,
    pub cases: Vec<Case>,
}

/// One step. Sizes are in bits.
#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    Align(u32),
    /// A stretch of fixed length; what is taken out of it are the `Get`s from `first` to `end`.
    Block {
        first: u32,
        end: u32,
        bits: u64,
    },
    /// Text up to a NUL of `unit` bytes.
    Str {
        unit: u8,
        out: u8,
    },
    /// LEB128.
    Var {
        signed: bool,
        out: u8,
        slot: u16,
        clock: bool,
    },
    /// As many elements as the slot says: `bits` each, one every `stride`.
    Skip {
        slot: u16,
        bits: u64,
        stride: u64,
        out: u8,
    },
    /// The ops after it up to `end`, so many times.
    Loop {
        count: Count,
        end: u32,
    },
    /// The ops of the first case (of those from `first` to `end`) that has the slot's value; then from `after` on.
    Switch {
        slot: u16,
        signed: bool,
        first: u32,
        end: u32,
        after: u32,
        must: bool,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Count {
    Fixed(u64),
    Slot(u16),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub low: i128,
    pub high: i128,
    pub first: u32,
    pub end: u32,
}

/// An integer, or bytes, at a fixed place of a stretch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Get {
    pub off: u64,
    pub kind: Kind,
    pub bits: u8,
    pub signed: bool,
    pub big: bool,
    pub out: u8,
    pub slot: u16,
    pub clock: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Whole bytes that begin at a byte.
    Byte,
    Two,
    Four,
    Eight,
    Bits,
    Bytes(u32),
}

/// Why a program stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// What it was given ends before.
    More,
    /// What it was given cannot be right.
    Bad,
}

/// What programs read.
#[derive(Clone, Debug)]
pub(super) struct Found {
    values: [u64; OUTPUTS],
    /// Which outputs are integers, and which are where bytes are.
    ints: u32,
    spans: u32,
    /// Values that others depend on.
    pub slots: Vec<u64>,
    /// The stream's clock, in ticks.
    pub clock: u64,
}

impl Found {
    pub fn new(slots: usize) -> Found {
        Found { values: [0; OUTPUTS], ints: 0, spans: 0, slots: vec![0; slots], clock: 0 }
    }

    /// Forgets outputs, but neither slots nor the clock.
    #[inline]
    pub fn clear(&mut self) {
        self.ints = 0;
        self.spans = 0;
    }

    /// Bytes from bit `at` on.
    #[inline]
    fn set_span(&mut self, out: u8, at: u64, bytes: u64) -> Result<(), Stop> {
        if usize::from(out) < OUTPUTS {
            self.values[usize::from(out)] = span(at, bytes).ok_or(Stop::Bad)?;
            self.spans |= 1 << out;
        }
        Ok(())
    }

    /// An integer (a signed one as the bits of an `i64`).
    #[inline]
    pub fn int(&self, out: u8) -> Option<u64> {
        (self.ints >> (out & 31) & 1 == 1).then(|| self.values[usize::from(out & 31)])
    }

    /// Bytes of what the program was given.
    #[inline]
    pub fn bytes<'a>(&self, out: u8, data: &'a [u8]) -> Option<&'a [u8]> {
        if self.spans >> (out & 31) & 1 == 0 {
            return None;
        }
        let span = self.values[usize::from(out & 31)];
        let (at, len) = ((span >> 32) as usize, span as u32 as usize);
        data.get(at..at + len)
    }

    #[inline]
    fn put(&mut self, value: u64, out: u8, slot: u16) {
        if usize::from(out) < OUTPUTS {
            self.values[usize::from(out)] = value;
            self.ints |= 1 << out;
        }
        if slot != NO_SLOT
            && let Some(s) = self.slots.get_mut(usize::from(slot))
        {
            *s = value;
        }
    }

    fn slot(&self, slot: u16) -> u64 {
        self.slots.get(usize::from(slot)).copied().unwrap_or(0)
    }

    /// Moves the clock to where its lowest `bits` bits are `value`: ahead, by less than a turn of them.
    #[inline]
    fn tick(&mut self, value: u64, bits: u32) {
        if bits >= 64 {
            self.clock = value;
            return;
        }
        let turn = 1u64 << bits;
        let old = self.clock & (turn - 1);
        let base = self.clock - old;
        self.clock = if value < old { base.wrapping_add(turn) } else { base } | value;
    }
}

fn span(at: u64, bytes: u64) -> Option<u64> {
    Some(u64::from(u32::try_from(at / 8).ok()?) << 32 | u64::from(u32::try_from(bytes).ok()?))
}

#[inline]
fn word<const N: usize>(data: &[u8], at: usize) -> Option<[u8; N]> {
    data.get(at..)?.first_chunk::<N>().copied()
}

impl Program {
    /// Leaves out what nobody asked for.
    pub fn prune(&mut self) {
        let mut kept = Vec::new();
        for op in &mut self.ops {
            if let Op::Block { first, end, .. } = op {
                let from = kept.len() as u32;
                let of = self.gets.get(*first as usize..*end as usize).unwrap_or_default();
                kept.extend(of.iter().filter(|g| g.out != NONE || g.slot != NO_SLOT || g.clock));
                (*first, *end) = (from, kept.len() as u32);
            }
        }
        self.gets = kept;
    }

    /// Reads from bit `at` of `data`, of which the first `limit` bits belong to the packet, and gives the bit after them.
    #[inline]
    pub fn run(&self, data: &[u8], at: u64, limit: u64, found: &mut Found) -> Result<u64, Stop> {
        let limit = limit.min(data.len() as u64 * 8);
        self.range(0, self.ops.len() as u32, data, at, limit, found)
    }

    fn range(&self, from: u32, to: u32, data: &[u8], at: u64, limit: u64, found: &mut Found) -> Result<u64, Stop> {
        let mut at = at;
        let mut next = from;
        while next < to {
            let Some(op) = self.ops.get(next as usize) else { return Err(Stop::Bad) };
            next += 1;
            match *op {
                Op::Block { first, end, bits } => {
                    let behind = at.saturating_add(bits);
                    if behind > limit {
                        return Err(Stop::More);
                    }
                    for get in self.gets.get(first as usize..end as usize).unwrap_or_default() {
                        take(get, data, at + get.off, found)?;
                    }
                    at = behind;
                }
                Op::Align(to) => {
                    at = bits::align(at, to);
                    if at > limit {
                        return Err(Stop::More);
                    }
                }
                Op::Str { unit, out } => at = text(unit, out, data, at, limit, found)?,
                Op::Var { signed, out, slot, clock } => {
                    let rest = data.get(..(limit / 8) as usize).ok_or(Stop::More)?;
                    let (value, bytes) = bits::leb128(rest, (at / 8) as usize, signed).ok_or(Stop::More)?;
                    found.put(value, out, slot);
                    if clock {
                        found.tick(value, (bytes as u32).saturating_mul(7));
                    }
                    at += bytes as u64 * 8;
                }
                Op::Skip { slot, bits, stride, out } => {
                    at = skip(found.slot(slot), (bits, stride), out, at, limit, found)?;
                }
                Op::Loop { count, end } => {
                    let count = match count {
                        Count::Fixed(n) => n,
                        Count::Slot(slot) => found.slot(slot),
                    };
                    for _ in 0..count {
                        let behind = self.range(next, end, data, at, limit, found)?;
                        // elements without a size: however many they are, they end here
                        if behind == at {
                            break;
                        }
                        at = behind;
                    }
                    next = end;
                }
                Op::Switch { slot, signed, first, end, after, must } => {
                    let value = found.slot(slot);
                    let value = if signed { i128::from(value as i64) } else { i128::from(value) };
                    let cases = self.cases.get(first as usize..end as usize).unwrap_or_default();
                    match cases.iter().find(|c| (c.low..=c.high).contains(&value)) {
                        Some(case) => at = self.range(case.first, case.end, data, at, limit, found)?,
                        None if must => return Err(Stop::Bad),
                        None => {}
                    }
                    next = after;
                }
            }
        }
        Ok(at)
    }
}

/// Steps over a text that ends with a zero of `unit` bytes; where it is goes to `out`. The position after it.
#[inline]
fn text(unit: u8, out: u8, data: &[u8], at: u64, limit: u64, found: &mut Found) -> Result<u64, Stop> {
    let start = (at / 8) as usize;
    let rest = data.get(start..(limit / 8) as usize).ok_or(Stop::More)?;
    let unit = usize::from(unit.max(1));
    let len = match unit {
        1 => rest.iter().position(|b| *b == 0),
        _ => rest.chunks_exact(unit).position(|c| c.iter().all(|b| *b == 0)).map(|n| n * unit),
    };
    let len = len.ok_or(Stop::More)?;
    found.set_span(out, at, len as u64)?;
    Ok(at + ((len + unit) * 8) as u64)
}

/// Steps over `count` elements of `bits`, the next beginning `stride` behind the last; where they are goes to `out`. The position behind them.
#[inline]
fn skip(count: u64, (bits, stride): (u64, u64), out: u8, at: u64, limit: u64, found: &mut Found) -> Result<u64, Stop> {
    if count == 0 {
        return Ok(at);
    }
    let total = (count - 1).checked_mul(stride).and_then(|b| b.checked_add(bits)).ok_or(Stop::Bad)?;
    let behind = at.checked_add(total).ok_or(Stop::Bad)?;
    if behind > limit {
        return Err(Stop::More);
    }
    found.set_span(out, at, total / 8)?;
    Ok(behind)
}

#[inline]
fn take(get: &Get, data: &[u8], at: u64, found: &mut Found) -> Result<(), Stop> {
    let byte = (at >> 3) as usize;
    let value = match get.kind {
        Kind::Byte => u64::from(*data.get(byte).ok_or(Stop::More)?),
        Kind::Two => {
            let raw = word(data, byte).ok_or(Stop::More)?;
            u64::from(if get.big { u16::from_be_bytes(raw) } else { u16::from_le_bytes(raw) })
        }
        Kind::Four => {
            let raw = word(data, byte).ok_or(Stop::More)?;
            u64::from(if get.big { u32::from_be_bytes(raw) } else { u32::from_le_bytes(raw) })
        }
        Kind::Eight => {
            let raw = word(data, byte).ok_or(Stop::More)?;
            if get.big { u64::from_be_bytes(raw) } else { u64::from_le_bytes(raw) }
        }
        Kind::Bits => bits::read(data, at, get.bits, get.big).ok_or(Stop::More)?,
        Kind::Bytes(len) => {
            return found.set_span(get.out, at, len.into());
        }
    };
    if get.clock {
        found.tick(value, get.bits.into());
    }
    let value = if get.signed { bits::extend(value, get.bits) } else { value };
    found.put(value, get.out, get.slot);
    Ok(())
}
