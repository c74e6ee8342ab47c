//! Bodies of frames, as rows.

use super::{FrameRef, Host, Recording};
use crate::defects::id;
use crate::folder::codec::{decode_bytes, decode_rows};
use crate::folder::files;
use crate::folder::layout::HEADER_BYTES;
use crate::folder::resize::resize_rows;
use crate::folder::strings::UNDEFINED;
use crate::rows::Table;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::Ordering;

/// Reads bodies of frames; keeps its buffers and the files that it read last.
#[derive(Default)]
pub(in crate::folder) struct FrameReader {
    open: Vec<(u32, File)>,
    body: Vec<u8>,
    plain: Vec<u8>,
}

impl FrameReader {
    fn keep(&mut self, index: u32, file: File) {
        if self.open.len() >= 4 {
            self.open.remove(0);
        }
        self.open.push((index, file));
    }

    /// Reads a frame's body into the beginning of `body` and checks it; a defect where that fails.
    fn read(&mut self, host: &Host, frame: &FrameRef) -> Option<usize> {
        if !self.open.iter().any(|o| o.0 == frame.file) {
            match files::open_regular(&host.files[frame.file as usize].path) {
                Ok((file, _)) => self.keep(frame.file, file),
                Err(_) => {
                    host.defect(id::FOLDER_IO, 1, frame);
                    return None;
                }
            }
        }
        let file = &self.open.iter().find(|o| o.0 == frame.file)?.1;
        let bytes = frame.header.body_bytes as usize;
        if self.body.len() < bytes {
            self.body = vec![0; bytes];
        }
        let body = &mut self.body[..bytes];
        if file.read_exact_at(body, frame.at + HEADER_BYTES as u64).is_err() {
            host.defect(id::FOLDER_IO, 1, frame);
            return None;
        }
        host.read.fetch_add(u64::from(frame.header.body_bytes), Ordering::Relaxed);
        if crc32fast::hash(body) != frame.header.body_crc {
            host.defect(id::FOLDER_CRC, 1, frame);
            return None;
        }
        Some(bytes)
    }

    /// The plain bytes of a frame that holds no rows.
    pub fn bytes(&mut self, host: &Host, frame: &FrameRef) -> Option<&[u8]> {
        let bytes = self.read(host, frame)?;
        let header = &frame.header;
        if !decode_bytes(header.flags, header.raw_bytes as usize, &self.body[..bytes], &mut self.plain) {
            host.defect(id::FOLDER_FRAME, 1, frame);
            return None;
        }
        Some(&self.plain)
    }

    /// The rows of a frame, with ids of the host: their table, and of how many words at the beginning of `words` they are. What
    /// lies behind is of no meaning: a buffer that is used again is not made shorter, or what it gains would be written twice.
    pub fn rows(&mut self, host: &Host, frame: &FrameRef, words: &mut Vec<u64>) -> Option<(Table, usize)> {
        let table = frame.header.table()?;
        let bytes = self.read(host, frame)?;
        let (stored, count, width) = (frame.header.row_words(), frame.header.rows as usize, table.row_bytes() / 8);
        if words.len() < stored * count {
            // a new one comes zeroed from the system; what the old one held would be copied for nothing
            *words = vec![0; stored * count];
        }
        if !decode_rows(frame.header.flags, stored, &self.body[..bytes], &mut words[..stored * count]) {
            host.defect(id::FOLDER_FRAME, 1, frame);
            return None;
        }
        if stored != width {
            words.truncate(stored * count);
            resize_rows(words, stored, width);
        }
        let used = &mut words[..width * count];
        if !table.are_rows(used) {
            host.unknown_code(frame, || table.unknown_code(used).unwrap_or_default());
            return None;
        }
        let recording = &host.recordings[host.files[frame.file as usize].recording];
        let undefined = translate(table, recording, used);
        if undefined > 0 {
            host.defect(id::FOLDER_STRING, undefined, frame);
        }
        Some((table, used.len()))
    }
}

/// Makes a recording's ids the host's; returns how many strings were not defined.
fn translate(table: Table, recording: &Recording, words: &mut [u64]) -> u64 {
    let (strings, tasks) = (table.strings(), table.tasks());
    let width = table.row_bytes();
    let mut undefined = 0;
    if recording.task_offset > 0 && !tasks.is_empty() {
        for row in bytemuck::cast_slice_mut::<u64, u8>(words).chunks_exact_mut(width) {
            for &at in tasks {
                let field = &mut row[at..at + 4];
                let task = u32::from_le_bytes([field[0], field[1], field[2], field[3]]);
                if task != 0 {
                    field.copy_from_slice(&task.saturating_add(recording.task_offset).to_le_bytes());
                }
            }
        }
    }
    if !strings.is_empty() {
        for row in bytemuck::cast_slice_mut::<u64, u8>(words).chunks_exact_mut(width) {
            for &at in strings {
                let field = &mut row[at..at + 4];
                let local = u32::from_le_bytes([field[0], field[1], field[2], field[3]]);
                let known = recording.strings.get(local);
                undefined += u64::from(known == UNDEFINED.0);
                if known != local {
                    field.copy_from_slice(&known.to_le_bytes());
                }
            }
        }
    }
    undefined
}
