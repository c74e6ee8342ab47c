//! What a program may leave in the shared memory of the library vantage: drained and decoded without a panic, whatever it is.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakepath_fuzz::{mutations, within};
use std::os::unix::fs::FileExt as _;
use wakepath_capture::{Arena, ArenaOptions, LibrarySource};
use wakepath_decode::recurring::Said;
use wakepath_decode::{KernelDecoder, Payload, RowSink, TaskFacts};
use wakepath_model::ids::{EndpointId, MonoNs, StrId};
use wakepath_model::rows::Row;
use wakepath_wire::arena as a;

struct Nowhere;

impl RowSink for Nowhere {
    fn push<R: Row>(&mut self, _: &R) {}
    fn push_head(&mut self, _: MonoNs, _: EndpointId, _: u64, _: bool, _: &[u8]) {}
    fn count(&mut self, _: &'static str, _: MonoNs) {}
    fn intern(&mut self, _: &[u8]) -> StrId {
        StrId::EMPTY
    }
    fn said(&mut self, text: &str, _: &Said) -> StrId {
        self.intern(text.as_bytes())
    }
    fn describe(&mut self, _: u32, _: u32) -> TaskFacts {
        TaskFacts::default()
    }
}

const RING: u32 = 1 << 16;

/// Records of every kind and of two lengths, whose contents are zeros.
fn records() -> Vec<Vec<u8>> {
    let record = |kind: u8, length: u16| {
        let mut out = vec![0; usize::from(length)];
        out[4..6].copy_from_slice(&length.to_ne_bytes());
        out[6] = kind;
        out
    };
    (0..32).flat_map(|kind| [record(kind, 64), record(kind, 128)]).collect()
}

fn one(data: &[u8]) {
    let Some((&[shape, tgid], data)) = data.split_first_chunk::<2>() else { return };
    let options = ArenaOptions { slots: 1, ring_bytes: RING, head_bytes: 64 };
    let Ok(mut source) = Arena::create(&options).and_then(LibrarySource::new) else { return };
    let Ok(file) = std::fs::OpenOptions::new().read(true).write(true).open(source.arena().path()) else { return };
    let slot = a::ARENA_PAGE as u64;
    let mut key = [0u8; 4];
    let at = std::mem::offset_of!(a::ArenaHeader, key) as u64;
    file.read_exact_at(&mut key, at).expect("the header is there");
    let mut bytes = data.to_vec();
    if shape & 1 != 0 {
        // marks that are right, as far as records follow each other
        let mut p = 0;
        while p + 16 <= bytes.len() {
            bytes[p..p + 4].copy_from_slice(&a::commit_tag(p as u64, u32::from_ne_bytes(key)).to_ne_bytes());
            p += usize::from(u16::from_ne_bytes([bytes[p + 4], bytes[p + 5]])).next_multiple_of(8).max(16);
        }
    }
    bytes.truncate(RING as usize);
    let put = |bytes: &[u8], at: u64| file.write_all_at(bytes, slot + at).expect("the memory is set aside");
    put(&bytes, a::ARENA_PAGE as u64);
    put(&(bytes.len() as u64 & !7).to_ne_bytes(), std::mem::offset_of!(a::SlotHeader, reserved) as u64);
    put(&u32::from(tgid).to_ne_bytes(), std::mem::offset_of!(a::SlotHeader, tgid) as u64);
    put(&a::SLOT_LIVE.to_ne_bytes(), std::mem::offset_of!(a::SlotHeader, state) as u64);
    let mut decoder = KernelDecoder::new(Payload::Attributes);
    if shape & 2 != 0 {
        decoder.join();
    }
    for now in [1, 3_000_000_000, 6_000_000_000] {
        source.drain(now, u64::MAX, |f| {
            if shape & 4 != 0 {
                decoder.frame(f, &mut Nowhere);
            }
            decoder.library_frame(f, &mut Nowhere);
        });
    }
    decoder.finish(&mut Nowhere);
}

fuzz_target!(|data: &[u8]| within(|| one(data)));

mutations!(records());
