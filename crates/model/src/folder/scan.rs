//! Finding the frames of a segment without reading their bodies, past cuts and damage.

use super::files::next_data;
use super::layout::{FORMAT_VERSION, FRAME_MAGIC, FrameHeader, HEADER_BYTES, KIND_HEADS, KIND_STRINGS, SegmentHeader};
use crate::defects::{Ledger, id};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes that are searched at a time for the next frame.
const SEARCH_BYTES: usize = 256 << 10;

/// A segment's header and where its frames are.
pub(super) struct Scanned {
    /// Where it is damaged, what frames say; `host` and `created_real_ns` are 0 then.
    pub header: SegmentHeader,
    pub frames: Vec<(u64, FrameHeader)>,
    /// Numbers of frames that are there and were left out.
    pub left_out: Vec<u32>,
}

/// Finds the frames of `file`, which has `length` bytes. `number` is what its name says, for when its header does not.
pub(super) fn scan(file: &File, length: u64, path: &Path, number: u32, ledger: &Ledger) -> io::Result<Option<Scanned>> {
    let defect = |what: &str, offset: u64| ledger.add(what, 1, Some((path, offset)));
    let header = match read_header(file, 0, length)?.as_ref().map(SegmentHeader::read) {
        Some(Some(header)) => Some(header),
        Some(None) => {
            defect(id::FOLDER_HEADER, 0);
            None
        }
        None => {
            defect(id::FOLDER_CUT, 0);
            return Ok(None);
        }
    };
    if header.is_some_and(|h| h.version != FORMAT_VERSION) {
        defect(id::FOLDER_VERSION, 0);
        return Ok(None);
    }
    // What frames must agree with: the header, or the first frame where that is damaged.
    let mut expected = header.map(|h| (h.recording, h.number));
    let (mut frames, mut left_out) = (Vec::new(), Vec::new());
    let mut at = HEADER_BYTES as u64;
    while at < length {
        let frame = match read_header(file, at, length)? {
            None => {
                defect(id::FOLDER_CUT, at);
                break;
            }
            Some(bytes) => FrameHeader::read(&bytes).filter(|f| belongs(f, expected)),
        };
        let Some(frame) = frame else {
            let next = search(file, at + 1, length, expected)?;
            // Half a header at the very end is a cut, not damage.
            let is_tail = next.is_none() && length - at < 2 * HEADER_BYTES as u64;
            defect(if is_tail { id::FOLDER_CUT } else { id::FOLDER_DAMAGED }, at);
            match next {
                Some(next) => at = next,
                None => break,
            }
            continue;
        };
        expected.get_or_insert((frame.recording, frame.segment));
        let body = at + HEADER_BYTES as u64;
        let end = body + u64::from(frame.body_bytes);
        if !frame.is_consistent() {
            defect(id::FOLDER_FRAME, at);
            left_out.push(frame.sequence);
        } else if end > length {
            // The body is cut, or a whole frame stands where its rest should be.
            match search(file, body, length, expected)? {
                Some(next) => {
                    defect(id::FOLDER_DAMAGED, at);
                    at = next;
                    continue;
                }
                None => {
                    defect(id::FOLDER_CUT, at);
                    break;
                }
            }
        } else if frame.table().is_none() && frame.kind != KIND_STRINGS && frame.kind != KIND_HEADS {
            defect(id::FOLDER_UNKNOWN_FRAME, at);
            left_out.push(frame.sequence);
        } else {
            frames.push((at, frame));
        }
        at = end;
    }
    let (recording, number) = expected.unwrap_or((0, number));
    let header = header.unwrap_or(SegmentHeader {
        version: FORMAT_VERSION,
        number,
        recording,
        host: 0,
        created_real_ns: 0,
        is_listed: false,
    });
    Ok(Some(Scanned { header, frames, left_out }))
}

/// A frame of another segment may stand inside this one as payload that somebody sent: it is not ours.
fn belongs(frame: &FrameHeader, expected: Option<(u64, u32)>) -> bool {
    expected.is_none_or(|e| e == (frame.recording, frame.segment))
}

fn read_header(file: &File, at: u64, length: u64) -> io::Result<Option<[u8; HEADER_BYTES]>> {
    if length - at.min(length) < HEADER_BYTES as u64 {
        return Ok(None);
    }
    let mut bytes = [0; HEADER_BYTES];
    match file.read_exact_at(&mut bytes, at) {
        Ok(()) => Ok(Some(bytes)),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(e) => Err(e),
    }
}

/// The next place from `at` on where a valid frame header stands.
fn search(file: &File, mut at: u64, length: u64, expected: Option<(u64, u32)>) -> io::Result<Option<u64>> {
    let mut bytes = vec![0; SEARCH_BYTES];
    while at + HEADER_BYTES as u64 <= length {
        // a header has no zeros at its begin: none begins in a hole
        at = next_data(file, at, length);
        let wanted = usize::try_from(length - at).unwrap_or(SEARCH_BYTES).min(SEARCH_BYTES);
        let mut have = 0;
        while have < wanted {
            match file.read_at(&mut bytes[have..wanted], at + have as u64) {
                Ok(0) => break,
                Ok(n) => have += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        if have < HEADER_BYTES {
            return Ok(None);
        }
        for (i, window) in bytes[..have].windows(HEADER_BYTES).enumerate() {
            if window[..4] != FRAME_MAGIC {
                continue;
            }
            let Some(header) = window.first_chunk() else {
                continue;
            };
            if FrameHeader::read(header).is_some_and(|f| belongs(&f, expected)) {
                return Ok(Some(at + i as u64));
            }
        }
        at += (have - HEADER_BYTES + 1) as u64;
    }
    Ok(None)
}
