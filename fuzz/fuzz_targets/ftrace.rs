//! Any bytes as a trace.dat: no panic, an end, bounded memory, and the same events however often it is read.
//!
//! `cargo +nightly fuzz run ftrace`, from the root of the repository; `tests/golden/read.ftrace` has files to begin with.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakepath_decode::readers::TraceReader as _;
use wakepath_decode::readers::ftrace::FtraceReader;
use wakepath_fuzz::{Sum, mutate, mutations, within};

fn read(data: &[u8]) -> Sum {
    let mut sum = Sum::default();
    let mut reader = FtraceReader::new(data.to_vec());
    reader.run(&mut sum);
    let counts = reader.counts();
    assert_eq!(counts.lost, sum.lost);
    sum
}

fn one(data: &[u8]) {
    assert_eq!(read(data), read(data));
}

fuzz_target!(|data: &[u8]| within(|| one(data)));

mutations!(mutate::golden(&["read.ftrace"], mutate::whole));
