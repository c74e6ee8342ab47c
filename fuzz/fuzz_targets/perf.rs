//! Any bytes as a perf.data: no panic, an end, bounded memory, and the same events however often it is read.
//!
//! `cargo +nightly fuzz run perf`, from the root of the repository; `tests/golden/read.perf` has files to begin with.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakepath_decode::readers::TraceReader as _;
use wakepath_decode::readers::perf::PerfReader;
use wakepath_fuzz::{Sum, mutate, mutations, within};

fn read(data: &[u8]) -> Sum {
    let mut sum = Sum::default();
    let mut reader = PerfReader::new(data.to_vec());
    reader.run(&mut sum);
    let counts = reader.counts();
    assert_eq!(counts.lost, sum.lost);
    sum
}

fn one(data: &[u8]) {
    assert_eq!(read(data), read(data));
}

fuzz_target!(|data: &[u8]| within(|| one(data)));

mutations!(mutate::golden(&["read.perf"], mutate::whole));
