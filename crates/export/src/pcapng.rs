//! Packets as pcapng, a section of its own with a comment for each packet
//! (<https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcapng/>).

use std::io::{self, Write};

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const COMMENT: u16 = 1;
const USER_APPLICATION: u16 = 4;
const TIME_RESOLUTION: u16 = 9;
/// Options and names are no longer.
const OPTION_BYTES_MAX: usize = 1 << 15;

/// Writes packets.
#[derive(Debug, Default)]
pub struct Writer {
    /// What the bytes of each interface's packets begin with.
    links: Vec<u32>,
    block: Vec<u8>,
}

impl Writer {
    /// Begins a file; `about` says what is in it.
    pub fn new(about: &str, out: &mut dyn Write) -> io::Result<Writer> {
        let mut writer = Writer::default();
        writer.words(&[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]);
        writer.option(COMMENT, about.as_bytes());
        writer.option(USER_APPLICATION, crate::SCOPE.as_bytes());
        writer.end_options();
        writer.write(SECTION, out)?;
        Ok(writer)
    }

    /// A packet: when it passed (ns since 1970), what its bytes begin with (`LINKTYPE_…`), how many it had, and what it is.
    pub fn packet(
        &mut self,
        at_ns: u64,
        link: u32,
        length: u32,
        bytes: &[u8],
        comment: &str,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let interface = match self.links.iter().position(|l| *l == link) {
            Some(known) => known,
            None => {
                self.words(&[link & 0xffff, 0]);
                self.option(TIME_RESOLUTION, &[9]);
                self.end_options();
                self.write(INTERFACE, out)?;
                self.links.push(link);
                self.links.len() - 1
            }
        };
        self.words(&[interface as u32, (at_ns >> 32) as u32, at_ns as u32, bytes.len() as u32, length]);
        self.padded(bytes);
        self.option(COMMENT, comment.as_bytes());
        self.end_options();
        self.write(ENHANCED_PACKET, out)
    }

    fn words(&mut self, words: &[u32]) {
        words.iter().for_each(|w| self.block.extend_from_slice(&w.to_le_bytes()));
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.block.extend_from_slice(bytes);
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        let value = &value[..value.len().min(OPTION_BYTES_MAX)];
        if value.is_empty() {
            return;
        }
        self.block.extend_from_slice(&code.to_le_bytes());
        self.block.extend_from_slice(&(value.len() as u16).to_le_bytes());
        self.padded(value);
    }

    fn end_options(&mut self) {
        self.words(&[0]);
    }

    /// Writes the block: its kind, its length, what was gathered, and its length again.
    fn write(&mut self, kind: u32, out: &mut dyn Write) -> io::Result<()> {
        let length = (self.block.len() as u32 + 12).to_le_bytes();
        out.write_all(&kind.to_le_bytes())?;
        out.write_all(&length)?;
        out.write_all(&self.block)?;
        out.write_all(&length)?;
        self.block.clear();
        Ok(())
    }
}
