//! What is pushed and not yet written: rows by table, strings to define, raw heads; and the frames made of it.

use super::codec::{encode_bytes, encode_rows};
use super::layout::{FrameHeader, HEADER_BYTES, KIND_HEADS, KIND_STRINGS};
use crate::rows::{Row, Table};

/// Tables have numbers below this.
const TABLES: usize = 32;
const _: () = assert!(Table::ALL.len() < TABLES);

/// Rows of one table.
#[derive(Default)]
struct TableRows {
    words: Vec<u64>,
    last: u64,
    unsorted: bool,
    task_max: u32,
}

/// One batch; its buffers are kept from batch to batch.
#[derive(Default)]
pub(super) struct Pending {
    tables: [TableRows; TABLES],
    strings: Vec<u8>,
    string_count: u32,
    heads: Vec<u8>,
    head_count: u32,
    head_times: (u64, u64),
    /// Bytes that wait.
    pub bytes: usize,
    /// The latest time ever pushed.
    pub newest: u64,
    sorting: Vec<(u64, u32)>,
    sorted: Vec<u64>,
}

/// What frames hold.
pub(super) struct Encoded {
    pub rows: u64,
    pub first: u64,
    pub last: u64,
    /// The number of the next frame.
    pub sequence: u32,
}

impl Pending {
    /// Adds a row.
    #[inline]
    pub fn push<R: Row>(&mut self, row: &R) {
        let bytes = bytemuck::bytes_of(row);
        let table = &mut self.tables[R::TABLE as usize % TABLES];
        for &at in R::TASKS {
            table.task_max = table.task_max.max(word32(bytes, at));
        }
        let at = row.at().0;
        table.unsorted |= at < table.last;
        table.last = at;
        table.words.extend_from_slice(bytemuck::cast_slice(std::slice::from_ref(row)));
        self.newest = self.newest.max(at);
        self.bytes += size_of::<R>();
    }

    /// Adds the definition of a string.
    pub fn define(&mut self, id: u32, text: &[u8]) {
        self.strings.extend_from_slice(&id.to_le_bytes());
        self.strings.extend_from_slice(&(text.len() as u32).to_le_bytes());
        self.strings.extend_from_slice(text);
        self.string_count += 1;
        self.bytes += 8 + text.len();
    }

    /// Adds a raw head.
    pub fn push_head(&mut self, at: u64, flow: u64, pos: u64, sent: bool, bytes: &[u8]) {
        for word in [at, flow, pos] {
            self.heads.extend_from_slice(&word.to_le_bytes());
        }
        self.heads.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        self.heads.extend_from_slice(&[u8::from(sent), 0, 0, 0]);
        self.heads.extend_from_slice(bytes);
        self.head_times =
            if self.head_count == 0 { (at, at) } else { (self.head_times.0.min(at), self.head_times.1.max(at)) };
        self.head_count += 1;
        self.newest = self.newest.max(at);
        self.bytes += 32 + bytes.len();
    }

    /// Turns the batch into frames in `out`; `frame` says which segment and frame number they begin with.
    pub fn encode(&mut self, mut frame: FrameHeader, compress: bool, out: &mut Vec<u8>) -> Encoded {
        let (mut rows, mut first, mut last) = (0u64, u64::MAX, 0u64);
        if self.string_count > 0 {
            frame.kind = KIND_STRINGS;
            (frame.rows, frame.first, frame.last) = (self.string_count, self.newest, self.newest);
            put_frame(out, &mut frame, self.strings.len(), |out| encode_bytes(&self.strings, compress, out));
        }
        for table in Table::ALL {
            let pending = &mut self.tables[*table as usize % TABLES];
            if pending.words.is_empty() {
                continue;
            }
            let width = table.row_bytes() / 8;
            if pending.unsorted {
                sort(&mut pending.words, width, &mut self.sorting, &mut self.sorted);
            }
            let words = &pending.words;
            frame.kind = *table as u8;
            frame.rows = (words.len() / width) as u32;
            frame.first = words[0];
            frame.last = words[words.len() - width];
            frame.task_max = pending.task_max;
            rows += u64::from(frame.rows);
            (first, last) = (first.min(frame.first), last.max(frame.last));
            put_frame(out, &mut frame, words.len() * 8, |out| encode_rows(*table, words, compress, out));
        }
        if self.head_count > 0 {
            frame.kind = KIND_HEADS;
            frame.rows = self.head_count;
            frame.task_max = 0;
            (frame.first, frame.last) = self.head_times;
            (first, last) = (first.min(frame.first), last.max(frame.last));
            put_frame(out, &mut frame, self.heads.len(), |out| encode_bytes(&self.heads, compress, out));
        }
        Encoded { rows, first, last, sequence: frame.sequence }
    }

    /// Begins the next batch.
    pub fn clear(&mut self) {
        for table in &mut self.tables {
            table.words.clear();
            table.last = 0;
            table.unsorted = false;
            table.task_max = 0;
        }
        self.strings.clear();
        self.string_count = 0;
        self.heads.clear();
        self.head_count = 0;
        self.bytes = 0;
    }
}

/// The 32-bit field at byte `at` of a row.
#[inline(always)]
pub(super) fn word32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Appends one frame: its body first, so that the header can tell about it.
fn put_frame(out: &mut Vec<u8>, frame: &mut FrameHeader, raw_bytes: usize, body: impl FnOnce(&mut Vec<u8>) -> u8) {
    let start = out.len();
    out.resize(start + HEADER_BYTES, 0);
    frame.flags = body(out);
    let body = &out[start + HEADER_BYTES..];
    frame.raw_bytes = raw_bytes as u32;
    frame.body_bytes = body.len() as u32;
    frame.body_crc = crc32fast::hash(body);
    out[start..start + HEADER_BYTES].copy_from_slice(&frame.write());
    frame.sequence += 1;
}

/// Sorts rows by time, rows of the same time staying as they came.
fn sort(words: &mut Vec<u64>, width: usize, order: &mut Vec<(u64, u32)>, sorted: &mut Vec<u64>) {
    order.clear();
    order.extend(words.chunks_exact(width).enumerate().map(|(i, row)| (row[0], i as u32)));
    order.sort_unstable();
    sorted.clear();
    for (_, i) in order {
        sorted.extend_from_slice(&words[*i as usize * width..][..width]);
    }
    std::mem::swap(words, sorted);
}
