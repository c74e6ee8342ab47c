//! Rings in memory of the test's own, written as the kernel programs do: room is taken, and later the record is written.

use super::*;

const KEY: u32 = 0x5eed;
const RING_BYTES: u32 = 1 << 16;
/// A record of two words: its head and its time.
const BYTES: u64 = 16;

/// Two processors that write, and the reader.
struct Bed {
    rings: Rings,
    control: Box<[types::cpu_state; 2]>,
    memory: *mut u8,
}

impl Bed {
    fn new() -> Bed {
        let stride = (RING_BYTES as usize + w::RING_SLACK as usize).next_multiple_of(8);
        let mapped = page_up(stride * 2);
        // SAFETY: maps new memory of its own; the result is checked.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mapped,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(memory, libc::MAP_FAILED);
        // SAFETY: integers alone, for which zero is a value.
        let control: Box<[types::cpu_state; 2]> = Box::new(unsafe { std::mem::zeroed() });
        let rings = Rings::over(memory.cast(), mapped, RING_BYTES, control.as_ptr(), 2);
        Bed { rings, control, memory: memory.cast() }
    }

    /// Takes room for a record; its place.
    fn reserve(&mut self, cpu: usize) -> u64 {
        let at = self.rings.head(cpu).fetch_add(BYTES, Ordering::Relaxed);
        assert!(self.control.len() > cpu);
        at
    }

    /// Writes a record to its place.
    fn commit(&mut self, cpu: usize, at: u64, ts: u64) {
        let offset = cpu * self.rings.stride + (at & u64::from(RING_BYTES - 1)) as usize;
        // SAFETY: inside the memory, which is aligned to pages, and nobody else writes there.
        unsafe {
            let p = self.memory.add(offset);
            p.add(4).cast::<u16>().write(BYTES as u16);
            p.add(6).write(w::KIND_WAIT);
            p.add(7).write(0);
            p.add(8).cast::<u64>().write(ts);
            (*p.cast::<AtomicU32>()).store((at >> 3) as u32 ^ KEY, Ordering::Release);
        }
    }

    fn write(&mut self, cpu: usize, ts: u64) {
        let at = self.reserve(cpu);
        self.commit(cpu, at, ts);
    }

    /// The times of what is handed over.
    fn drained(&mut self, until_ns: u64) -> Vec<u64> {
        let mut out = Vec::new();
        let mut sink = |f: Frame<'_>| out.push(u64::from_ne_bytes(f.bytes[8..16].try_into().expect("eight bytes")));
        match until_ns {
            u64::MAX => self.rings.finish(KEY, &mut sink),
            _ => self.rings.drain(KEY, until_ns, &mut sink),
        };
        out
    }
}

#[test]
fn a_record_that_is_being_written_holds_back_later_ones_of_other_processors() {
    let mut bed = Bed::new();
    bed.write(0, 100);
    let late = bed.reserve(0);
    bed.write(0, 130);
    bed.write(1, 90);
    bed.write(1, 120);
    assert_eq!(bed.drained(1_000), [90, 100], "what may be later than the one that is missing waits");
    assert_eq!(bed.drained(2_000), [0; 0]);
    bed.commit(0, late, 110);
    assert_eq!(bed.drained(3_000), [110, 120, 130]);
}

#[test]
fn it_holds_them_back_for_a_second_at_most() {
    let mut bed = Bed::new();
    bed.write(0, 100);
    let late = bed.reserve(0);
    bed.write(1, 120);
    assert_eq!(bed.drained(1_000), [100]);
    assert_eq!(bed.drained(1_000 + HOLD_NS), [0; 0]);
    assert_eq!(bed.drained(1_001 + HOLD_NS), [120]);
    bed.commit(0, late, 110);
    bed.write(1, 130);
    assert_eq!(bed.drained(1_002 + HOLD_NS), [110, 130]);
}

#[test]
fn full_rings_are_emptied_whatever_is_being_written() {
    let mut bed = Bed::new();
    bed.reserve(0);
    for n in 0..u64::from(RING_BYTES) / 2 / BYTES + 1 {
        bed.write(1, 100 + n);
    }
    assert_eq!(bed.drained(10_000).len() as u64, u64::from(RING_BYTES) / 2 / BYTES + 1);
}

#[test]
fn what_nobody_writes_until_the_end_is_counted_and_the_rest_is_kept() {
    let mut bed = Bed::new();
    bed.write(0, 100);
    bed.reserve(0);
    bed.reserve(0);
    bed.write(0, 130);
    bed.write(1, 120);
    assert_eq!(bed.drained(u64::MAX), [100, 120, 130]);
    assert_eq!(bed.rings.abandoned(), 1, "two side by side cannot be told apart");
    assert_eq!(bed.drained(u64::MAX), [0; 0]);
}
