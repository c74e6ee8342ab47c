//! Any bytes as a frame of a sniffer, and any body under a right checksum: no panic, and rows or an error; and any frames
//! in any order: what is lost is never more than what was said to be sent.
//!
//! `cargo +nightly fuzz run forward`, from the root of the repository.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakepath_fuzz::{mutations, within};
use wakepath_model::forward::{Frame, FrameKind, Gaps};
use wakepath_model::intern::Interner;

/// The bytes as a frame whose head and checksum are right.
fn sealed(data: &[u8]) -> Vec<u8> {
    let mut frame = b"Wf\x01\x01\0\0\0\0session0".to_vec();
    frame[3] = data.first().map_or(1, |b| b % 4);
    frame.extend_from_slice(data.get(1..).unwrap_or_default());
    let mut crc = crc32fast::Hasher::new();
    crc.update(&frame[..4]);
    crc.update(&frame[8..]);
    frame[4..8].copy_from_slice(&crc.finalize().to_le_bytes());
    frame
}

/// Frames of each kind as the target reads them, of small numbers.
fn frames() -> Vec<Vec<u8>> {
    (0..4).flat_map(|kind| [8u8, 24, 80].map(|n| [&[n + 1, kind][..], &(0..n).collect::<Vec<_>>()].concat())).collect()
}

fn one(data: &[u8]) {
    let mut gaps = Gaps::default();
    let (mut events, mut texts) = (Vec::new(), Interner::with_bounds(1000, 1 << 20));
    // a stream of frames, each behind its length
    let mut rest = data;
    let mut now = 0;
    while let Some((length, behind)) = rest.split_first() {
        let (part, behind) = behind.split_at(behind.len().min(usize::from(*length)));
        rest = behind;
        for bytes in [part.to_vec(), sealed(part)] {
            let Ok(frame) = Frame::read(&bytes) else { continue };
            now += 1;
            events.clear();
            let read = frame.rows(&mut |t| texts.intern(t), &mut events);
            assert_eq!(events.len() as u64, if read.is_ok() { frame.rows } else { 0 });
            match frame.kind {
                FrameKind::Rows => drop(gaps.frame(frame.sequence, frame.rows_before, frame.rows, frame.base, now)),
                FrameKind::Hello | FrameKind::Last => {
                    let _ = frame.hello();
                    gaps.total(frame.sequence, frame.rows_before, frame.base, now);
                }
            }
        }
    }
    while let Some(lost) = gaps.settle(u64::MAX) {
        assert!(lost.rows > 0 && lost.from <= lost.at);
    }
}

fuzz_target!(|data: &[u8]| within(|| one(data)));

mutations!(frames());
