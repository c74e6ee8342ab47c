//! Any bytes as a capture: no panic, bounded memory, and the same records however the file is cut into chunks.
//!
//! `cargo +nightly fuzz run pcap`, from the root of the repository; `tests/golden/read.pcap` has files to begin with.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakepath_fuzz::{mutate, mutations, within};
use wakepath_decode::readers::Counts;
use wakepath_decode::readers::pcap::{PcapReader, Record};

fn read(data: &[u8], chunk: usize) -> (Counts, Vec<u64>) {
    let (mut reader, mut records) = (PcapReader::new(), Vec::new());
    for chunk in data.chunks(chunk) {
        reader.feed(chunk, &mut |record| match record {
            Record::Packet(p) => {
                assert!(p.bytes.len() as u64 <= u64::from(p.length), "captured more than there was");
                let first = p.bytes.first().copied().unwrap_or_default();
                records.push(p.at_ns ^ u64::from(p.length) << 32 ^ p.bytes.len() as u64 ^ u64::from(first) << 8);
            }
            Record::Lost { from_ns, at_ns, count, .. } => {
                assert!(from_ns <= at_ns, "a loss ends before it begins");
                records.push(from_ns ^ count);
            }
        });
    }
    reader.finish();
    (reader.counts(), records)
}

/// A capture's blocks; a file of the older format has none.
fn blocks(file: Vec<u8>) -> Vec<Vec<u8>> {
    let (mut out, mut rest) = (Vec::new(), &file[..]);
    while let Some(length) = rest.get(4..8).and_then(|bytes| bytes.first_chunk()).map(|b| u32::from_le_bytes(*b)) {
        let Some((block, behind)) = rest.split_at_checked(length as usize).filter(|(block, _)| block.len() >= 12) else { break };
        out.push(block.to_vec());
        rest = behind;
    }
    out.push(file);
    out
}

fn one(data: &[u8]) {
    let Some((&chunk, data)) = data.split_first() else { return };
    assert_eq!(read(data, data.len().max(1)), read(data, usize::from(chunk).max(1)));
}

fuzz_target!(|data: &[u8]| within(|| one(data)));

mutations!(mutate::golden(&["read.pcap"], blocks));
