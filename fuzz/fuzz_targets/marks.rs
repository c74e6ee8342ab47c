//! Any bytes as a file of marks: no panic, bounded memory, and the same marks however the bytes are cut.
//!
//! `cargo +nightly fuzz run marks`, from the root of the repository; `tests/golden/read.marks` has files to begin with.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakepath_fuzz::{mutate, mutations, within};
use wakepath_decode::readers::marks::{Bad, MarksReader};

fn read(data: &[u8], piece: usize) -> (Vec<String>, Vec<Bad>) {
    let (mut reader, mut lines) = (MarksReader::default(), Vec::new());
    for bytes in data.chunks(piece) {
        reader.feed(bytes, |mark| lines.push(format!("{mark:?}")));
    }
    reader.finish();
    let counted: u64 = reader.counts().map(|(_, count)| count).sum();
    assert_eq!(counted, lines.len() as u64);
    (lines, reader.bad().to_vec())
}

fn one(data: &[u8]) {
    let piece = 1 + data.first().map_or(0, |b| usize::from(*b));
    // without a header nothing is read: half of the inputs begin with one
    let with_header = [b"wakepath-marks 1 unit=1us\n", data].concat();
    for data in [data, &with_header] {
        assert_eq!(read(data, data.len().max(1)), read(data, piece));
    }
}

fuzz_target!(|data: &[u8]| within(|| one(data)));

mutations!(mutate::golden(&["read.marks"], mutate::lines));
