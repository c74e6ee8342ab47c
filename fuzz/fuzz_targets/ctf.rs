//! Any bytes as metadata and streams: no panic, bounded memory, the same events however they are asked for, and the
//! programs of the fast path end where a plain reading of the types ends.
//!
//! `cargo +nightly fuzz run ctf`, from the root of the repository. The input: two bytes with the length of the metadata,
//! the metadata, two bytes with the length of the first stream, and the streams.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakepath_decode::raw::{Raw, RawSink};
use wakepath_decode::readers::ctf::{CtfReader, Source};
use wakepath_model::defects;
use wakepath_model::ids::MonoNs;

#[derive(Default, PartialEq, Debug)]
struct Sum {
    events: u64,
    times: u64,
    lost: u64,
    defects: u64,
}

impl RawSink for Sum {
    fn event(&mut self, at: MonoNs, cpu: u16, event: &Raw<'_>) {
        self.events += 1;
        self.times = self.times.wrapping_mul(31).wrapping_add(at.0 ^ u64::from(cpu));
        assert!(format!("{event:?}").len() > 2);
    }

    fn lost(&mut self, _: Option<u16>, from: MonoNs, to: MonoNs, count: u64) {
        assert!(from <= to);
        self.lost = self.lost.wrapping_add(count);
    }

    fn count(&mut self, defect: &'static str, _: MonoNs) {
        assert!(defects::find(defect).is_some());
        self.defects += 1;
    }
}

fn part(data: &[u8]) -> (&[u8], &[u8]) {
    match data.split_first_chunk::<2>() {
        Some((len, rest)) => rest.split_at(usize::from(u16::from_le_bytes(*len)).min(rest.len())),
        None => (data, &[]),
    }
}

fn reader(data: &[u8]) -> Option<CtfReader> {
    let (metadata, rest) = part(data);
    let (first, second) = part(rest);
    let streams = [first, second].map(|s| ("s".to_owned(), Box::new(s.to_vec()) as Box<_>)).into();
    CtfReader::new(vec![Source { name: "t".into(), metadata: metadata.to_vec(), streams }]).ok()
}

fuzz_target!(|data: &[u8]| {
    let Some(mut whole) = reader(data) else { return };
    let mut sum = Sum::default();
    whole.run(&mut sum);
    let mut pieces = reader(data).expect("as before");
    let mut again = Sum::default();
    while pieces.advance(3, &mut again) {
        assert!(pieces.progress().done <= pieces.progress().total);
    }
    assert_eq!(sum, again);
    assert_eq!(whole.counts(), pieces.counts());
    let mut plain = reader(data).expect("as before");
    let mut count = 0;
    plain.each(&mut |event| {
        count += 1;
        assert!(event.agrees, "{event:?}");
    });
    assert_eq!(count, whole.tally().events);
});
