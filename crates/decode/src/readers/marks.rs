//! Reader of `marks`: annotations of state machines as text, one a line (`docs/formats/marks.md`).
//!
//! It is fed pieces of a file, cut anywhere, and holds no more of it than a line. A line that breaks the format is left
//! out and told with its number.

mod line;

use super::reader::{About, Content, Layout, Reader};
use line::Words;
use std::collections::BTreeMap;
use wakepath_model::defects::id as defect;
use wakepath_model::ids::{MonoNs, StrId, TaskId};
use wakepath_model::rows::{MarkKind, MarkRow};

/// What a file begins with.
const MAGIC: &[u8] = b"wakepath-marks ";
/// The version that is read.
const VERSION: u64 = 1;
/// Longer lines are none.
const LINE_MAX: usize = 1 << 16;
/// Femtoseconds in a nanosecond.
const FS: u128 = 1_000_000;

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark<'a> {
    /// When.
    pub at: MonoNs,
    /// Its line, from 1.
    pub line: u64,
    /// On which host.
    pub host: &'a str,
    /// Which machine.
    pub machine: &'a str,
    /// Which context of it.
    pub key: u64,
    /// What it says.
    pub kind: MarkKind,
    /// The state, queue or kind of transaction.
    pub name: &'a str,
    /// Which queue of that name.
    pub name_key: u64,
    /// Items; 1 for states and transactions.
    pub count: u64,
}

impl Mark<'_> {
    /// As a row; `seq` is its number in the import.
    pub fn row(&self, seq: u64, mut intern: impl FnMut(&str) -> StrId) -> MarkRow {
        MarkRow {
            at: self.at,
            seq,
            key: self.key,
            name_key: self.name_key,
            count: self.count,
            task: TaskId(0),
            machine: intern(self.machine),
            name: intern(self.name),
            kind: self.kind,
            ..Default::default()
        }
    }
}

/// A line, or the end of the file, that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bad {
    /// Id in the central list of defects.
    pub defect: &'static str,
    /// The line, from 1.
    pub line: u64,
    /// What was met there; text of the file in quotes, escaped and cut.
    pub what: String,
}

/// What the first line says of all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    /// Femtoseconds of a unit of time.
    unit_fs: u128,
    /// Wall-clock time (ns since 1970) at time 0.
    epoch_ns: Option<i64>,
}

/// Reads one file.
#[derive(Debug, Default)]
pub struct MarksReader {
    /// A line whose end has not come yet.
    partial: Vec<u8>,
    /// The line that comes is too long: the rest of it is stepped over.
    skips: bool,
    line: u64,
    header: Option<Header>,
    /// The header cannot be understood: nothing after it can.
    hopeless: bool,
    read: [u64; MarkKind::ALL.len()],
    bad: Vec<Bad>,
    bad_counts: BTreeMap<&'static str, u64>,
}

impl Reader for MarksReader {
    const ABOUT: About = About {
        id: "read.marks",
        name: "marks",
        reads: "annotations of state machines as text, as a simulator prints them: `docs/formats/marks.md`",
        content: Content::Marks,
        layout: Layout::File,
        refused: None,
    };

    fn fits(head: &[u8]) -> bool {
        head.starts_with(MAGIC)
    }
}

impl MarksReader {
    /// How many lines that could not be read are kept with their place.
    pub const PLACES: usize = 64;

    /// Reads a further piece of the file.
    pub fn feed(&mut self, mut bytes: &[u8], mut each: impl FnMut(&Mark<'_>)) {
        while let Some(end) = memchr(bytes) {
            let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
            bytes = rest;
            self.line += 1;
            if std::mem::take(&mut self.skips) || self.partial.len() + line.len() > LINE_MAX {
                self.partial.clear();
                self.fault(defect::MARKS_LINE, format!("a line of more than {LINE_MAX} bytes"));
            } else if self.partial.is_empty() {
                self.whole(line, &mut each);
            } else {
                let mut whole = std::mem::take(&mut self.partial);
                whole.extend_from_slice(line);
                self.whole(&whole, &mut each);
                whole.clear();
                self.partial = whole;
            }
        }
        if self.skips || self.partial.len() + bytes.len() > LINE_MAX {
            self.skips = true;
            self.partial.clear();
        } else {
            self.partial.extend_from_slice(bytes);
        }
    }

    /// The file has ended. A last line without its end may have lost digits, so it is left out.
    pub fn finish(&mut self) {
        if self.skips || !self.partial.is_empty() {
            self.line += 1;
            let what = format!("{} bytes without an end of line", self.partial.len());
            self.partial.clear();
            self.skips = false;
            self.fault(defect::IMPORT_CUT, what);
        }
        if self.header.is_none() && !self.hopeless {
            self.line = self.line.max(1);
            self.fault(defect::MARKS_HEADER, "no header".to_owned());
        }
    }

    /// Wall-clock time (ns since 1970) minus the file's clock, where its header says it.
    pub fn epoch_ns(&self) -> Option<i64> {
        self.header.and_then(|h| h.epoch_ns)
    }

    /// Whether the header could not be understood: nothing else will be read.
    pub fn is_hopeless(&self) -> bool {
        self.hopeless
    }

    /// Marks read so far, by verb.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        MarkKind::ALL.iter().zip(self.read).map(|(kind, count)| (kind.name(), count)).filter(|(_, count)| *count > 0)
    }

    /// The first lines that could not be read.
    pub fn bad(&self) -> &[Bad] {
        &self.bad
    }

    /// How many could not, by defect.
    pub fn bad_counts(&self) -> &BTreeMap<&'static str, u64> {
        &self.bad_counts
    }

    fn fault(&mut self, defect: &'static str, what: String) {
        *self.bad_counts.entry(defect).or_insert(0) += 1;
        if self.bad.len() < Self::PLACES {
            self.bad.push(Bad { defect, line: self.line, what });
        }
    }

    fn whole(&mut self, line: &[u8], each: &mut impl FnMut(&Mark<'_>)) {
        if self.hopeless {
            return;
        }
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Some(header) = self.header else {
            match header(line) {
                Ok(header) => self.header = Some(header),
                Err(what) => {
                    self.hopeless = true;
                    self.fault(defect::MARKS_HEADER, what);
                }
            }
            return;
        };
        match self.mark(line, header, each) {
            Ok(()) => {}
            Err(what) => self.fault(defect::MARKS_LINE, what),
        }
    }

    /// Reads one line.
    fn mark(&mut self, line: &[u8], header: Header, each: &mut impl FnMut(&Mark<'_>)) -> Result<(), String> {
        let mut words = Words::new(line);
        let Some(time) = words.next()? else { return Ok(()) };
        let at = nanoseconds(&time, header.unit_fs).ok_or_else(|| format!("{} is no time", line::quoted(&time)))?;
        let mut next = |what: &str| words.next()?.ok_or_else(|| format!("it ends before {what}"));
        let (host, machine) = (next("the host")?, next("the machine")?);
        let key = number(&next("the key")?)?;
        let verb = next("the verb")?;
        let Some(place) = MarkKind::ALL.iter().position(|k| k.name() == verb) else {
            return Err(format!("{} is no verb", line::quoted(&verb)));
        };
        let kind = MarkKind::ALL[place];
        let name = match kind {
            // the kind of a transaction may go without saying
            MarkKind::Begin | MarkKind::End => words.next()?.unwrap_or("transaction".into()),
            _ => next("a name")?,
        };
        let (mut count, mut name_key) = (1, 0);
        if matches!(kind, MarkKind::Enqueue | MarkKind::Dequeue | MarkKind::WaitEmpty | MarkKind::WaitFull) {
            if let Some(word) = words.next()? {
                count = number(&word)?;
            }
            if let Some(word) = words.next()? {
                name_key = number(&word)?;
            }
        }
        if let Some(word) = words.next()? {
            return Err(format!("{} is one word too many", line::quoted(&word)));
        }
        if host.is_empty() || machine.is_empty() || name.is_empty() {
            return Err("an empty name".to_owned());
        }
        self.read[place] += 1;
        let line = self.line;
        let (host, machine, name) = (&*host, &*machine, &*name);
        each(&Mark { at: MonoNs(at), line, host, machine, key, kind, name, name_key, count });
        Ok(())
    }
}

/// Where the line ends.
fn memchr(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|b| *b == b'\n')
}

/// Reads the first line: `wakepath-marks 1 unit=1ns epoch=0`.
fn header(line: &[u8]) -> Result<Header, String> {
    let rest = line.strip_prefix(MAGIC).ok_or("the first line is no header of marks")?;
    let mut words = Words::new(rest);
    let version = words.next()?.ok_or("the header ends before the version")?;
    if number(&version) != Ok(VERSION) {
        return Err(format!("version {} is not known, {VERSION} is", line::quoted(&version)));
    }
    let mut header = Header { unit_fs: FS, epoch_ns: None };
    while let Some(word) = words.next()? {
        match word.split_once('=') {
            Some(("unit", unit)) => {
                header.unit_fs = unit_fs(unit).ok_or_else(|| format!("{} is no unit of time", line::quoted(unit)))?;
            }
            Some(("epoch", ns)) => {
                let ns = ns.parse().map_err(|_| format!("{} is no epoch in nanoseconds", line::quoted(ns)))?;
                header.epoch_ns = Some(ns);
            }
            _ => return Err(format!("the header says {}, which is not known", line::quoted(&word))),
        }
    }
    Ok(header)
}

/// Femtoseconds of `us`, `250ps`, `0.4ns`.
fn unit_fs(text: &str) -> Option<u128> {
    let at = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (count, unit) = text.split_at(at);
    let fs = match unit {
        "s" => FS * 1_000_000_000,
        "ms" => FS * 1_000_000,
        "us" => FS * 1000,
        "ns" => FS,
        "ps" => 1000,
        _ => return None,
    };
    let fs = if count.is_empty() { fs } else { scaled(count)?.checked_mul(fs)? / 1_000_000_000 };
    // more than a day is no unit, and a product with it would not fit
    (1..=FS * 1_000_000_000 * 86_400).contains(&fs).then_some(fs)
}

/// A number with a fraction, times 10^9; digits beyond the ninth are left out.
fn scaled(text: &str) -> Option<u128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) {
        return None;
    }
    let mut value = u128::from(whole.parse::<u64>().ok()?) * 1_000_000_000;
    let mut weight = 100_000_000;
    for b in fraction.bytes().take(9) {
        value += u128::from(b - b'0') * weight;
        weight /= 10;
    }
    Some(value)
}

/// A time as nanoseconds, rounded down.
fn nanoseconds(text: &str, unit_fs: u128) -> Option<u64> {
    if unit_fs == FS
        && let Ok(ns) = text.parse::<u64>()
        && !text.starts_with('+')
    {
        return Some(ns);
    }
    u64::try_from(scaled(text)?.checked_mul(unit_fs)? / (1_000_000_000 * FS)).ok()
}

/// A key or count: decimal, `0x` and hexadecimal, or `-` for 0.
fn number(text: &str) -> Result<u64, String> {
    let value = match text.strip_prefix("0x") {
        _ if text == "-" => Ok(0),
        _ if text.contains('+') => return Err(format!("{} is no number", line::quoted(text))),
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    value.map_err(|_| format!("{} is no number", line::quoted(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_units_with_fractions() {
        for (text, unit, ns) in [
            ("12", "ns", Some(12)),
            ("12.9", "ns", Some(12)),
            ("1.5", "us", Some(1500)),
            ("2000", "ps", Some(2)),
            ("3", "0.25ns", Some(0)),
            ("8", "250ps", Some(2)),
            ("0.000000001", "s", Some(1)),
            ("18446744073709551615", "ns", Some(u64::MAX)),
            ("18446744073709551615", "s", None),
            ("-1", "ns", None),
            ("+1", "ns", None),
            ("1e3", "us", None),
            (".5", "us", None),
        ] {
            assert_eq!(nanoseconds(text, unit_fs(unit).unwrap()), ns, "{text} {unit}");
        }
        for unit in ["", "1", "h", "0ns", "0.1fs", "-1ns", "99999999999s"] {
            assert_eq!(unit_fs(unit), None, "{unit}");
        }
    }

    #[test]
    fn a_longer_line_than_any_is_stepped_over_however_it_comes() {
        let mut text = b"wakepath-marks 1\n".to_vec();
        text.extend(vec![b'x'; 3 * LINE_MAX]);
        text.extend(b"\n5 h m 0 state S\n");
        for piece in [1, 1000, text.len()] {
            let (mut reader, mut lines) = (MarksReader::default(), Vec::new());
            for bytes in text.chunks(piece) {
                reader.feed(bytes, |m| lines.push((m.line, m.at.0)));
                assert!(reader.partial.len() <= LINE_MAX);
            }
            reader.finish();
            assert_eq!((lines, reader.bad()[0].line, reader.bad_counts().len()), (vec![(3, 5)], 2, 1));
        }
    }
}
