//! Any bytes as a perf.data: no panic, an end, bounded memory, and the same events however often it is read.
//!
//! `cargo +nightly fuzz run perf`, from the root of the repository; `tests/golden/read.perf` has files to begin with.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakepath_decode::raw::{Raw, RawSink};
use wakepath_decode::readers::perf::PerfReader;
use wakepath_model::ids::MonoNs;

#[derive(Default, PartialEq, Debug)]
struct Sum {
    events: u64,
    lost: u64,
    times: u64,
}

impl RawSink for Sum {
    fn event(&mut self, at: MonoNs, cpu: u16, _: &Raw<'_>) {
        self.events += 1;
        self.times = self.times.rotate_left(7) ^ at.0 ^ u64::from(cpu);
    }
    fn lost(&mut self, _: Option<u16>, from: MonoNs, to: MonoNs, count: u64) {
        assert!(from <= to, "a loss ends before it begins");
        self.lost = self.lost.saturating_add(count);
    }
    fn count(&mut self, _: &'static str, _: MonoNs) {}
}

fn read(data: &[u8]) -> Sum {
    let mut sum = Sum::default();
    let mut reader = PerfReader::open(data.to_vec());
    reader.run(&mut sum);
    let counts = reader.counts();
    assert_eq!(counts.lost, sum.lost);
    sum
}

fuzz_target!(|data: &[u8]| {
    assert_eq!(read(data), read(data));
});
