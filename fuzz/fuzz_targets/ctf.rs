//! Any bytes as metadata and streams: no panic, bounded memory, the same events however they are asked for, and the
//! programs of the fast path end where a plain reading of the types ends.
//!
//! `cargo +nightly fuzz run ctf`, from the root of the repository. The input: two bytes with the length of the metadata,
//! the metadata, two bytes with the length of the first stream, and the streams.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakepath_decode::readers::TraceReader as _;
use wakepath_decode::readers::ctf::{CtfReader, Source};
use wakepath_fuzz::{Sum, mutate, mutations, within};

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

fn one(data: &[u8]) {
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
}

fuzz_target!(|data: &[u8]| within(|| one(data)));

mutations!(mutate::golden(&["read.ctf"], mutate::whole));
