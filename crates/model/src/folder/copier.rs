//! Rows of one host, written into another folder.

use super::reader::Host;
use super::writer::FolderWriter;
use crate::ids::StrId;
use crate::rows::Event;

/// Writes rows of a host into a folder: its strings become those of the folder. Numbers of tasks stay, so a folder into which a
/// host is copied must have no other recording of it.
pub struct Copier<'h> {
    host: &'h Host,
    /// Takes the rows.
    pub writer: FolderWriter,
    /// By string of the host; empty where it was not met yet.
    strings: Vec<StrId>,
}

impl<'h> Copier<'h> {
    /// From a host into a folder.
    pub fn new(host: &'h Host, writer: FolderWriter) -> Copier<'h> {
        Copier { host, writer, strings: Vec::new() }
    }

    /// The host.
    pub fn host(&self) -> &'h Host {
        self.host
    }

    /// The folder's string for one of the host.
    pub fn string(&mut self, id: StrId) -> StrId {
        if id == StrId::EMPTY {
            return id;
        }
        let at = id.0 as usize;
        if at >= self.strings.len() {
            self.strings.resize(at + 1, StrId::EMPTY);
        }
        if self.strings[at] == StrId::EMPTY {
            self.strings[at] = self.writer.intern(self.host.text(id));
        }
        self.strings[at]
    }

    /// Writes a row of the host.
    pub fn push(&mut self, event: &Event) {
        let table = event.table();
        if table.strings().is_empty() {
            return self.writer.push_event(event);
        }
        let mut bytes = event.bytes().to_vec();
        for &at in table.strings() {
            let at = at..at + size_of::<StrId>();
            let id = bytes[at.clone()].try_into().map_or(StrId::EMPTY, |b| StrId(u32::from_le_bytes(b)));
            bytes[at].copy_from_slice(&self.string(id).0.to_le_bytes());
        }
        // only ids of strings were changed, so it still is a row
        self.writer.push_event(&Event::read(table, &bytes).unwrap_or(*event));
    }
}
