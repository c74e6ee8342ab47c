//! Reader of packet captures: pcap (draft-ietf-opsawg-pcap) and pcapng (draft-ietf-opsawg-pcapng), as tcpdump, Wireshark
//! and others write them.
//!
//! Bytes come in chunks cut anywhere, packets go out as slices of them; only a record that two chunks share is copied. A library
//! is not used because those at hand own the buffer that they read from.

mod ng;
mod record;

pub use record::Record;

use super::facts::{Counts, Progress};
use super::reader::{About, Content, Layout, Reader};
use ng::Sections;
use record::{Order, RECORD_MAX, Step, link_type};
use wakepath_model::defects::id as defect;
use wakepath_wire::packet::Packet;

/// Reads one capture, given in chunks.
#[derive(Debug, Default)]
pub struct PcapReader {
    format: Format,
    /// The begin of a record whose rest has not come.
    held: Vec<u8>,
    /// Bytes to come that are of no interest.
    skip: u64,
    /// Where in the file `held` begins, or what comes next.
    offset: u64,
    packets: u64,
    lost: u64,
    counts: Counts,
}

/// How the file is laid out.
#[derive(Debug, Default)]
enum Format {
    /// Nothing was read yet.
    #[default]
    Unknown,
    Pcap(Pcap),
    Ng(Sections),
    /// What follows cannot be read.
    Over,
}

/// What the header of a pcap file says of all packets.
#[derive(Clone, Copy, Debug)]
struct Pcap {
    order: Order,
    link: u32,
    /// ns of a unit of the fraction of a second.
    unit_ns: u32,
    /// Bytes before a packet.
    header: usize,
}

impl Reader for PcapReader {
    const ABOUT: About = About {
        id: "read.pcap",
        name: "a packet capture",
        reads: "packet captures, pcap and pcapng: by `wakepath sniff --pcap` and `wakepath metrics`, not by `import`",
        content: Content::Packets,
        layout: Layout::File,
        refused: None,
    };

    fn fits(head: &[u8]) -> bool {
        head.first_chunk().is_some_and(|magic| pcap_of(magic).is_some() || *magic == ng::SECTION)
    }
}

impl PcapReader {
    /// A reader at the begin of a file.
    pub fn new() -> PcapReader {
        PcapReader::default()
    }

    /// Takes the next bytes of the file.
    pub fn feed(&mut self, mut bytes: &[u8], out: &mut impl FnMut(Record<'_>)) {
        while !matches!(self.format, Format::Over) {
            if self.skip > 0 {
                let count = self.skip.min(bytes.len() as u64);
                self.skip -= count;
                self.offset += count;
                bytes = &bytes[count as usize..];
                if self.skip > 0 {
                    return;
                }
            }
            if self.held.is_empty() {
                bytes = self.records(bytes, out);
                if self.skip == 0 {
                    self.held.extend_from_slice(bytes);
                    return;
                }
                continue;
            }
            // A record that began in an earlier chunk gets what it still needs, and no more.
            let mut held = std::mem::take(&mut self.held);
            match self.step(&held, out) {
                Step::Need(needed) => {
                    let count = needed.saturating_sub(held.len()).min(bytes.len());
                    held.extend_from_slice(&bytes[..count]);
                    bytes = &bytes[count..];
                    let is_short = held.len() < needed;
                    self.held = held;
                    if is_short {
                        return;
                    }
                }
                step => {
                    let count = match step {
                        Step::Took(count) => count.min(held.len()),
                        Step::Damaged(what) => {
                            self.damaged(what);
                            return;
                        }
                        _ => held.len(),
                    };
                    if let Step::Skip(skip) = step {
                        self.skip = skip.saturating_sub(count as u64);
                    }
                    self.offset += count as u64;
                    held.drain(..count);
                    self.held = held;
                }
            }
        }
    }

    /// Takes all records that are whole. What is left: the begin of one, or bytes of one to be skipped.
    fn records<'b>(&mut self, mut bytes: &'b [u8], out: &mut impl FnMut(Record<'_>)) -> &'b [u8] {
        loop {
            match self.step(bytes, out) {
                Step::Took(count) => {
                    self.offset += count as u64;
                    bytes = &bytes[count..];
                }
                Step::Skip(count) => {
                    self.skip = count;
                    return bytes;
                }
                Step::Need(_) => return bytes,
                Step::Damaged(what) => {
                    self.damaged(what);
                    return &[];
                }
            }
        }
    }

    fn damaged(&mut self, what: &'static str) {
        self.counts.fault(defect::IMPORT_DAMAGED, "", self.offset, what);
        self.format = Format::Over;
    }

    #[inline]
    fn step(&mut self, bytes: &[u8], out: &mut impl FnMut(Record<'_>)) -> Step {
        match &mut self.format {
            Format::Pcap(pcap) => {
                let (step, packet) = pcap.step(bytes);
                if let Some(packet) = packet {
                    self.packets += 1;
                    out(Record::Packet(packet));
                }
                step
            }
            Format::Ng(sections) => {
                let (packets, lost) = (&mut self.packets, &mut self.lost);
                let mut fault = |what: &'static str| self.counts.fault(defect::IMPORT_DAMAGED, "", self.offset, what);
                sections.step(bytes, &mut fault, &mut |record| {
                    match record {
                        Record::Packet(_) => *packets += 1,
                        Record::Lost { count, .. } => *lost = lost.saturating_add(count),
                    }
                    out(record);
                })
            }
            Format::Unknown => self.begin(bytes),
            Format::Over => Step::Need(usize::MAX),
        }
    }

    /// Finds out what the file is.
    fn begin(&mut self, bytes: &[u8]) -> Step {
        let Some(magic) = bytes.first_chunk() else { return Step::Need(4) };
        if *magic == ng::SECTION {
            self.format = Format::Ng(Sections::default());
            return Step::Took(0);
        }
        let Some((order, unit_ns, header)) = pcap_of(magic) else {
            return Step::Damaged("not a packet capture");
        };
        let Some(link) = order.u32_at(bytes, 20) else { return Step::Need(24) };
        self.format = Format::Pcap(Pcap { order, link: link_type(link), unit_ns, header });
        Step::Took(24)
    }

    /// What follows of the file cannot be had, for the reason `what`.
    pub fn broken(&mut self, what: &str) {
        if !matches!(self.format, Format::Over) {
            self.counts.fault(defect::IMPORT_CUT, "", self.offset, what);
            self.format = Format::Over;
        }
    }

    /// The file ends here.
    pub fn finish(&mut self) {
        let what = match self.format {
            Format::Over => return,
            Format::Unknown => "the file ends in its header",
            _ if self.skip > 0 || !self.held.is_empty() => "the file ends in a record",
            _ => return,
        };
        self.counts.fault(defect::IMPORT_CUT, "", self.offset, what);
        self.format = Format::Over;
    }

    /// What was read so far: packets as events, dropped ones as lost.
    pub fn counts(&self) -> Counts {
        Counts { events: [("packet".to_owned(), self.packets)].into(), lost: self.lost, ..self.counts.clone() }
    }

    /// How far it is; how long the file is, only the caller knows.
    pub fn progress(&self) -> Progress {
        let done = self.offset + self.held.len() as u64;
        Progress { done, total: done }
    }
}

/// Byte order, ns of a unit of time, and bytes of a packet's header of the file that begins so.
fn pcap_of(magic: &[u8; 4]) -> Option<(Order, u32, usize)> {
    [Order::Little, Order::Big].into_iter().find_map(|order| match order.u32(magic) {
        0xa1b2_c3d4 => Some((order, 1000, 16)),
        0xa1b2_3c4d => Some((order, 1, 16)),
        // Alexey Kuznetzov's, with an interface, a protocol and a packet type more.
        0xa1b2_cd34 => Some((order, 1000, 24)),
        _ => None,
    })
}

impl Pcap {
    #[inline]
    fn step<'b>(&self, bytes: &'b [u8]) -> (Step, Option<Packet<'b>>) {
        let Some(header) = bytes.first_chunk::<16>() else { return (Step::Need(16), None) };
        let field = |at: usize| self.order.u32(&[header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let (seconds, fraction, captured, length) = (field(0), field(4), field(8) as usize, field(12));
        if captured > RECORD_MAX {
            return (Step::Damaged("a packet of impossible length"), None);
        }
        let end = self.header + captured;
        let Some(packet) = bytes.get(self.header..end) else { return (Step::Need(end), None) };
        let at_ns = u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * u64::from(self.unit_ns);
        let length = length.max(captured as u32);
        (Step::Took(end), Some(Packet { at_ns, link: self.link, interface: 0, length, bytes: packet }))
    }
}
