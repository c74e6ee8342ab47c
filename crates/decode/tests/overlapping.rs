//! Files whose parts lie over one another, a thousand times: no byte of a file belongs to two parts, so what is read of it grows
//! with its size and not with the square of that.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use wakepath_decode::raw::{Raw, RawSink};
use wakepath_decode::readers::ftrace::FtraceReader;
use wakepath_decode::readers::perf::PerfReader;
use wakepath_decode::readers::{ReadAt, TraceReader};
use wakepath_model::ids::MonoNs;

/// Bytes of each file, and how often all of it may be read.
const BYTES: usize = 64 << 10;
const TIMES: u64 = 4;

/// A file that counts what is read of it.
struct Counted(Vec<u8>, Arc<AtomicU64>);

impl ReadAt for Counted {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read_at(&self, at: u64, buf: &mut [u8]) -> std::io::Result<usize> {
        let count = self.0.read_at(at, buf)?;
        self.1.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

struct Nobody;

impl RawSink for Nobody {
    fn event(&mut self, _: MonoNs, _: u16, _: &Raw<'_>) {}
    fn lost(&mut self, _: Option<u16>, _: MonoNs, _: MonoNs, _: u64) {}
    fn count(&mut self, _: &'static str, _: MonoNs) {}
}

/// Whether little is read of a file, and the reader says that it is damaged.
fn check<R: TraceReader>(what: &str, mut file: Vec<u8>, open: impl FnOnce(Counted) -> R) {
    file.resize(BYTES, 0);
    let read = Arc::new(AtomicU64::new(0));
    let mut reader = open(Counted(file, Arc::clone(&read)));
    while reader.next(&mut Nobody) {}
    let read = read.load(Ordering::Relaxed);
    assert!(read <= TIMES * BYTES as u64, "{what}: {read} bytes of {BYTES}");
    assert!(!reader.counts().faults.is_empty(), "{what}");
}

fn le(value: u64, bytes: usize) -> Vec<u8> {
    value.to_le_bytes()[..bytes].to_vec()
}

/// A trace.dat of version 7, with these options in its first section.
fn trace_dat_7(packing: &str, options: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut file = b"\x17\x08\x44tracing7\0\0\x08".to_vec();
    file.extend(le(4096, 4));
    file.extend(packing.bytes().chain(*b"\0\0"));
    let first = file.len() + 8;
    file.extend(le(first as u64, 8));
    let mut text: Vec<u8> = Vec::new();
    for (id, data) in options {
        text.extend([le(*id, 2), le(data.len() as u64, 4), data.clone()].concat());
    }
    text.extend([le(0, 2), le(8, 4), le(0, 8)].concat());
    file.extend([le(0, 8), le(text.len() as u64, 8)].concat());
    file.extend(text);
    file
}

#[test]
fn options_that_name_one_section() {
    const AT: usize = BYTES / 2;
    let mut file = trace_dat_7("none", &vec![(17, le(AT as u64, 8)); 1000]);
    file.resize(AT, 0);
    file.extend([le(0, 8), le(BYTES as u64 / 2 - 16, 8)].concat());
    check("one section", file, FtraceReader::new);
}

#[test]
fn sections_that_follow_each_other_in_a_circle() {
    let mut file = trace_dat_7("none", &[(1, vec![b'0'; BYTES / 2])]);
    let first = file.len() - BYTES / 2 - 36;
    let next = file.len() - 8;
    file[next..].copy_from_slice(&le(first as u64, 8));
    check("a circle", file, FtraceReader::new);
}

#[test]
fn processors_with_the_same_data() {
    let mut data = [le(0, 8), b"\0local\0".to_vec(), le(1000, 4)].concat();
    for cpu in 0..1000 {
        data.extend([le(cpu, 4), le(0, 8), le(BYTES as u64, 8)].concat());
    }
    check("the same data", trace_dat_7("none", &[(3, data)]), FtraceReader::new);
}

#[test]
fn packed_sections_that_claim_more_than_they_can_hold() {
    // a byte that is nothing packed, and would be 64 MB
    const AT: usize = BYTES / 2;
    let options: Vec<(u64, Vec<u8>)> = (0..1000).map(|n| (17, le((AT + n * 28) as u64, 8))).collect();
    let mut file = trace_dat_7("zstd", &options);
    file.resize(AT, 0);
    for _ in 0..1000 {
        file.extend([le(0, 2), le(1, 2), le(0, 4), le(16, 8), le(4, 4), le(64 << 20, 4), le(0, 4)].concat());
    }
    let begun = std::time::Instant::now();
    check("nothing packed", file, FtraceReader::new);
    // 64 GB are not filled in that time
    assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
}

#[test]
fn attributes_with_the_same_ids() {
    const ATTR: usize = 80;
    let mut file = b"PERFILE2".to_vec();
    file.extend([le(104, 8), le(ATTR as u64, 8), le(104, 8), le(500 * ATTR as u64, 8), le(104, 8), le(8, 8)].concat());
    file.resize(104, 0);
    for _ in 0..500 {
        file.extend(vec![0; ATTR - 16]);
        file.extend([le(0, 8), le(BYTES as u64, 8)].concat());
    }
    check("the same ids", file, PerfReader::new);
}
