//! What a guest may have in its memory: any bytes as the kernel's types, and as what they describe. No panic, and bounded records.
//!
//! The input: BTF, as long as its header says, then bytes that the memory has again and again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakepath_fuzz::{mutations, within};
use wakepath_guest::btf::{Btf, Lengths};
use wakepath_guest::{Cpu, Guest, Memory, Records, made};
use wakepath_wire as w;

struct Again<'a>(&'a [u8]);

impl Memory for Again<'_> {
    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let length = self.0.len().max(1) as u64;
        let byte = |at: u64| self.0.get((at % length) as usize).copied().unwrap_or(0);
        into.iter_mut().enumerate().for_each(|(i, to)| *to = byte(at.wrapping_add(i as u64)));
        !at.is_multiple_of(13)
    }
}

struct Bounded;

impl Records for Bounded {
    fn put<T: w::Record>(&mut self, _: &T, tail: &[u8], _: u32) {
        assert!(size_of::<T>() + tail.len() <= w::RING_SLACK as usize);
    }
    fn aside(&mut self, why: usize) {
        assert!(why < w::arena::aside::KINDS);
    }
}

fn one(data: &[u8]) {
    let split = Lengths::of(data).map_or(0, |lengths| lengths.all().min(data.len()));
    let (types, rest) = data.split_at(split);
    let mut guest = Guest::new(w::HEAD_MAX as usize);
    guest.use_types(Btf::new(types.to_vec()).as_ref(), &mut Bounded);
    let memory = Again(rest);
    for (i, piece) in rest.chunks(8).take(256).enumerate() {
        let mut word = [0; 8];
        word[..piece.len()].copy_from_slice(piece);
        let word = u64::from_le_bytes(word);
        let cpu = Cpu { number: 0, now_ns: i as u64, variables: word, stack: word >> 8, memory: &memory };
        guest.enters(u64::from(piece[0]), [word; 6], word, &cpu, &mut Bounded);
        guest.returns(word, word >> 16, &cpu, &mut Bounded);
    }
    // the last pages of the kernel's image
    guest.kernel(0xffff_ffff_bfff_0000, &memory, &mut Bounded);
}

fuzz_target!(|data: &[u8]| within(|| one(data)));

mutations!(vec![made::types().bytes(), vec![0; 64], (0..=255).collect()]);
