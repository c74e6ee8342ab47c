//! How tracepoints are laid out: the kernel's `format` files, and the head that perf.data and trace.dat share, which
//! has them all (`trace-cmd.dat.v6(5)`).

use super::source::ReadAt;

/// Longest name and text believed, bytes: a damaged length must not make a large allocation.
const NAME_MAX: usize = 256;
const DATA_MAX: u64 = 1 << 20;
/// Most formats believed: their ids are 16 bits.
const FORMATS_MAX: usize = 1 << 16;

/// Byte order of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl Order {
    /// An unsigned integer of 1 to 8 bytes, all of `bytes`.
    pub fn unsigned(self, bytes: &[u8]) -> u64 {
        match (bytes, self) {
            (&[a, b, c, d, e, f, g, h], Order::Little) => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            (&[a, b, c, d], Order::Little) => u32::from_le_bytes([a, b, c, d]).into(),
            (_, Order::Little) => bytes.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b)),
            (_, Order::Big) => bytes.iter().fold(0, |n, b| n << 8 | u64::from(*b)),
        }
    }

    /// The 16-bit integer at `at`, if it is there.
    pub fn u16(self, bytes: &[u8], at: usize) -> Option<u16> {
        bytes.get(at..)?.first_chunk().map(|b| match self {
            Order::Little => u16::from_le_bytes(*b),
            Order::Big => u16::from_be_bytes(*b),
        })
    }

    /// The 32-bit integer at `at`, if it is there.
    pub fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        bytes.get(at..)?.first_chunk().map(|b| match self {
            Order::Little => u32::from_le_bytes(*b),
            Order::Big => u32::from_be_bytes(*b),
        })
    }

    /// The 64-bit integer at `at`, if it is there.
    pub fn u64(self, bytes: &[u8], at: usize) -> Option<u64> {
        bytes.get(at..)?.first_chunk().map(|b| match self {
            Order::Little => u64::from_le_bytes(*b),
            Order::Big => u64::from_be_bytes(*b),
        })
    }
}

/// Where a field's bytes are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Place {
    /// No such field.
    #[default]
    Absent,
    /// At its offset.
    Here,
    /// `__data_loc`: the field has the offset from the event's begin (low half) and the length.
    FromBegin,
    /// `__rel_loc`: the offset counts from the field's end.
    FromField,
}

/// A field as an event reads it; absent fields read as zero or nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Slot {
    /// Bytes from the event's begin.
    pub offset: u16,
    /// Bytes.
    pub size: u16,
    /// Whether it is to be extended by its sign.
    pub signed: bool,
    /// Where its bytes are.
    pub place: Place,
}

impl Slot {
    /// Whether the event has the field.
    pub fn is_there(self) -> bool {
        self.place != Place::Absent
    }

    /// Its value as an integer; 0 where it is absent or beyond the event's end. Of an array its first eight bytes.
    pub fn number(self, order: Order, event: &[u8]) -> u64 {
        let at = usize::from(self.offset);
        let size = usize::from(self.size).min(8);
        let Some(bytes) = event.get(at..at + size) else { return 0 };
        let value = order.unsigned(bytes);
        let unused = 64 - 8 * size as u32;
        if self.signed && (1..64).contains(&unused) { ((value << unused) as i64 >> unused) as u64 } else { value }
    }

    /// Its bytes up to the first NUL; empty where it is absent or beyond the event's end.
    pub fn text(self, order: Order, event: &[u8]) -> &[u8] {
        let field = usize::from(self.offset);
        let at = match self.place {
            Place::Absent => return &[],
            Place::Here => field..field + usize::from(self.size),
            Place::FromBegin | Place::FromField => {
                let Some(loc) = order.u32(event, field) else { return &[] };
                let base = if self.place == Place::FromField { field + 4 } else { 0 };
                let begin = base + (loc & 0xffff) as usize;
                begin..begin + (loc >> 16) as usize
            }
        };
        let bytes = event.get(at).unwrap_or_default();
        &bytes[..bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len())]
    }
}

/// One tracepoint's layout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Format {
    /// Its subsystem, `sched`.
    pub system: String,
    /// Its name, `sched_switch`.
    pub name: String,
    /// The number that its events carry.
    pub id: u16,
    /// Its fields by name, in order, the common ones too.
    pub fields: Vec<(String, Slot)>,
    /// How the kernel prints it: tells which bit of a state is which letter.
    pub print: String,
}

impl Format {
    /// From a `format` file's text; `None` where it has no name or number.
    pub fn parse(system: &str, text: &str) -> Option<Format> {
        let mut format = Format { system: system.to_owned(), ..Format::default() };
        let mut id = None;
        for line in text.lines().map(str::trim) {
            if let Some(name) = line.strip_prefix("name:") {
                format.name = name.trim().to_owned();
            } else if let Some(number) = line.strip_prefix("ID:") {
                id = number.trim().parse().ok();
            } else if let Some(print) = line.strip_prefix("print fmt:") {
                format.print = print.trim().to_owned();
            } else if let Some(field) = line.strip_prefix("field:") {
                format.fields.extend(parse_field(field));
            }
        }
        format.id = id?;
        (!format.name.is_empty()).then_some(format)
    }

    /// The field of that name, an absent one where it has none.
    pub fn slot(&self, name: &str) -> Slot {
        self.fields.iter().find(|f| f.0 == name).map(|f| f.1).unwrap_or_default()
    }

    /// The first field that belongs to the event itself, after `skipped`.
    pub fn first_own(&self, skipped: &str) -> Slot {
        let own = self.fields.iter().find(|f| !f.0.starts_with("common_") && f.0 != skipped);
        own.map(|f| f.1).unwrap_or_default()
    }
}

/// A line such as `char prev_comm[16]; offset:8; size:16; signed:0;`, with tabs between.
fn parse_field(line: &str) -> Option<(String, Slot)> {
    let mut parts = line.split(';').map(str::trim);
    let declaration = parts.next()?;
    let mut slot = Slot { place: Place::Here, ..Slot::default() };
    for part in parts {
        match part.split_once(':') {
            Some(("offset", n)) => slot.offset = n.trim().parse().ok()?,
            Some(("size", n)) => slot.size = n.trim().parse().ok()?,
            Some(("signed", n)) => slot.signed = n.trim() == "1",
            _ => {}
        }
    }
    if declaration.starts_with("__data_loc") {
        slot.place = Place::FromBegin;
    } else if declaration.starts_with("__rel_loc") {
        slot.place = Place::FromField;
    }
    // the name is the last word, without the array's length: `char prev_comm[16]`, `__data_loc char[] name`, `u8 a[B + 1]`
    let named = match declaration.strip_suffix(']').and_then(|d| d.rsplit_once('[')) {
        Some((named, _)) => named,
        None => declaration,
    };
    let name = named.rsplit([' ', '*', ']']).find(|w| !w.is_empty())?;
    Some((name.to_owned(), slot))
}

/// Reads a file's integers and texts one after the other.
pub(super) struct Scan<'a, R> {
    source: &'a R,
    /// Where the next read begins.
    pub at: u64,
    end: u64,
    /// Of the integers.
    pub order: Order,
}

impl<'a, R: ReadAt> Scan<'a, R> {
    /// From offset `at` up to `end`.
    pub fn new(source: &'a R, at: u64, end: u64, order: Order) -> Scan<'a, R> {
        Scan { source, at, end: end.min(source.size()), order }
    }

    /// Fills `buf`, or `None` at the end.
    pub fn bytes(&mut self, buf: &mut [u8]) -> Option<()> {
        let next = self.at.checked_add(buf.len() as u64).filter(|n| *n <= self.end)?;
        fill(self.source, self.at, buf).then(|| self.at = next)
    }

    /// Skips; beyond the end the next read finds nothing.
    pub fn skip(&mut self, bytes: u64) {
        self.at = self.at.saturating_add(bytes);
    }

    /// An unsigned integer of `N` bytes, at most 8.
    pub fn number<const N: usize>(&mut self) -> Option<u64> {
        let mut buf = [0; N];
        self.bytes(&mut buf)?;
        Some(self.order.unsigned(&buf))
    }

    /// A 32-bit integer.
    pub fn u32(&mut self) -> Option<u32> {
        self.number::<4>().map(|n| n as u32)
    }

    /// A 64-bit integer.
    pub fn u64(&mut self) -> Option<u64> {
        self.number::<8>()
    }

    /// A text up to its NUL; `None` where it is longer than any name.
    pub fn name(&mut self) -> Option<String> {
        let mut buf = Vec::new();
        loop {
            let mut byte = [0];
            self.bytes(&mut byte)?;
            match byte[0] {
                0 => return Some(String::from_utf8_lossy(&buf).into_owned()),
                b if buf.len() < NAME_MAX => buf.push(b),
                _ => return None,
            }
        }
    }

    /// `size` bytes, or `None` where they are not there or too many to be believed.
    pub fn data(&mut self, size: u64) -> Option<Vec<u8>> {
        if size > DATA_MAX || size > self.end.saturating_sub(self.at) {
            return None;
        }
        let mut buf = vec![0; size as usize];
        self.bytes(&mut buf)?;
        Some(buf)
    }

    /// The same as a text.
    pub fn text(&mut self, size: u64) -> Option<String> {
        self.data(size).map(|d| String::from_utf8_lossy(&d).into_owned())
    }
}

/// Reads exactly `buf.len()` bytes; whether they were there.
pub(super) fn fill(source: &impl ReadAt, mut at: u64, mut buf: &mut [u8]) -> bool {
    while !buf.is_empty() {
        match source.read_at(at, buf) {
            Ok(count) if count > 0 && count <= buf.len() => {
                at += count as u64;
                buf = &mut buf[count..];
            }
            _ => return false,
        }
    }
    true
}

/// The layout of the ring buffer's pages, from `header_page`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageLayout {
    /// Bytes of the page's count of used bytes: 4 or 8.
    pub commit_bytes: u8,
    /// Where the events begin.
    pub data: u16,
}

impl PageLayout {
    /// Of the kernel's `header_page` file; that of a 64-bit kernel where it does not say.
    pub fn parse(text: &str) -> PageLayout {
        let field =
            |name| text.lines().filter_map(|l| parse_field(l.trim().strip_prefix("field:")?)).find(|f| f.0 == name);
        PageLayout {
            commit_bytes: field("commit").map_or(8, |f| if f.1.size == 4 { 4 } else { 8 }),
            data: field("data").map_or(16, |f| f.1.offset.clamp(12, 64)),
        }
    }
}

/// `header_page` and `header_event`, each after its name and length.
pub(super) fn header_info<R: ReadAt>(scan: &mut Scan<'_, R>) -> Option<PageLayout> {
    let mut layout = None;
    for name in ["header_page", "header_event"] {
        if scan.name()? != name {
            return None;
        }
        let size = scan.u64()?;
        let text = scan.text(size)?;
        layout.get_or_insert_with(|| PageLayout::parse(&text));
    }
    layout
}

/// The formats of ftrace's own events: a count, then each after its length.
pub(super) fn ftrace_formats<R: ReadAt>(scan: &mut Scan<'_, R>, take: &mut impl FnMut(Format)) -> Option<()> {
    formats(scan, "ftrace", take)
}

/// The formats of all other systems: a count, then for each system its name and formats.
pub(super) fn event_formats<R: ReadAt>(scan: &mut Scan<'_, R>, take: &mut impl FnMut(Format)) -> Option<()> {
    for _ in 0..scan.u32()? {
        let system = scan.name()?;
        formats(scan, &system, take)?;
    }
    Some(())
}

fn formats<R: ReadAt>(scan: &mut Scan<'_, R>, system: &str, take: &mut impl FnMut(Format)) -> Option<()> {
    let count = scan.u32()?;
    if count as usize > FORMATS_MAX {
        return None;
    }
    for _ in 0..count {
        let size = scan.u64()?;
        if let Some(format) = Format::parse(system, &scan.text(size)?) {
            take(format);
        }
    }
    Some(())
}

/// What a trace.dat of version 6 and perf's TRACING_DATA begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// `6`, `7`, `0.6`.
    pub version: String,
    /// Of all integers that follow.
    pub order: Order,
    /// Bytes of a page on the host.
    pub page_bytes: u32,
}

/// The bytes before the version.
pub(super) const MAGIC: &[u8; 10] = b"\x17\x08\x44tracing";

/// Reads the head; `None` where it is none.
pub(super) fn head<R: ReadAt>(scan: &mut Scan<'_, R>) -> Option<Head> {
    let mut magic = [0; 10];
    scan.bytes(&mut magic)?;
    if magic != *MAGIC {
        return None;
    }
    let version = scan.name()?;
    let order = if scan.number::<1>()? == 0 { Order::Little } else { Order::Big };
    scan.order = order;
    scan.skip(1); // bytes of a user space long: nothing here depends on it
    Some(Head { version, order, page_bytes: scan.u32()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: &str = "name: sched_switch\nID: 372\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\tfield:__data_loc char[] name;\toffset:40;\tsize:4;\tsigned:0;\n\tfield:__rel_loc u8[] rel;\toffset:44;\tsize:4;\tsigned:0;\n\tfield:const char * text;\toffset:48;\tsize:8;\tsigned:0;\n\tfield:u32 caps[((0) + 3) / 4];\toffset:56;\tsize:4;\tsigned:0;\n\nprint fmt: \"x\", REC->prev_state\n";

    #[test]
    fn reads_a_format() {
        let format = Format::parse("sched", SWITCH).unwrap();
        assert_eq!((format.name.as_str(), format.id), ("sched_switch", 372));
        let names: Vec<_> = format.fields.iter().map(|f| f.0.as_str()).collect();
        assert_eq!(names, ["common_type", "prev_comm", "prev_state", "name", "rel", "text", "caps"]);
        assert_eq!(format.slot("prev_state"), Slot { offset: 32, size: 8, signed: true, place: Place::Here });
        assert_eq!(format.slot("name").place, Place::FromBegin);
        assert_eq!(format.slot("rel").place, Place::FromField);
        assert_eq!(format.first_own("prev_comm"), format.slot("prev_state"));
        assert!(!format.slot("nothing").is_there());
        assert_eq!(format.print, "\"x\", REC->prev_state");
        assert_eq!(Format::parse("sched", "name: x\nformat:\n"), None);
    }

    #[test]
    fn reads_fields_in_both_orders_and_beyond_the_end() {
        let mut event = vec![0; 60];
        event[8..11].copy_from_slice(b"ab\0");
        event[40..44].copy_from_slice(&(3u32 << 16 | 52).to_le_bytes());
        event[44..48].copy_from_slice(&(2u32 << 16 | 4).to_le_bytes());
        event[52..55].copy_from_slice(b"xyz");
        let format = Format::parse("sched", SWITCH).unwrap();
        assert_eq!(format.slot("prev_comm").text(Order::Little, &event), b"ab");
        assert_eq!(format.slot("name").text(Order::Little, &event), b"xyz");
        assert_eq!(format.slot("rel").text(Order::Little, &event), b"xy");
        assert_eq!(format.slot("name").text(Order::Little, &event[..53]), b"");
        assert_eq!(format.slot("prev_state").number(Order::Little, &event[..36]), 0);
        let small = Slot { offset: 0, size: 2, signed: true, place: Place::Here };
        assert_eq!(small.number(Order::Little, &[0xfe, 0xff]) as i64, -2);
        assert_eq!(small.number(Order::Big, &[0x01, 0x02]), 0x102);
    }

    #[test]
    fn knows_the_page_of_a_32_bit_kernel() {
        let text = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\tsize:4;\tsigned:1;\n\tfield: char data;\toffset:12;\tsize:4084;\tsigned:0;\n";
        assert_eq!(PageLayout::parse(text), PageLayout { commit_bytes: 4, data: 12 });
        assert_eq!(PageLayout::parse(""), PageLayout { commit_bytes: 8, data: 16 });
    }
}
