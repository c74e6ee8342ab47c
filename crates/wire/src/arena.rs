//! The shared memory between the programs under the library vantage and who records them.
//!
//! One file in memory (`/dev/shm`), mapped by every watched program at its start and kept over `fork`: a page that
//! says what is wanted, then slots. Each process claims a slot and writes its records into the slot's ring; the
//! recorder drains the rings. Nobody waits for anybody: a full ring, or no free slot, is counted and nothing else.
//!
//! ```text
//! ArenaHeader (4096 bytes) | slot 0: SlotHeader (4096) ring (ring_bytes) slack (RING_SLACK) | slot 1 | …
//! ```
//!
//! A ring is the kernel vantage's: a writer reserves by adding to `reserved`, writes the record, and stores the
//! commit mark (`Head.tag`, see [`commit_tag`]) last, with release order. Several threads may write one ring.
//! A record may begin before the ring's end and run into the slack.

use core::sync::atomic::Ordering::{AcqRel, Acquire};
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

/// What [`ArenaHeader::magic`] holds: "WAKEPATH" as little-endian bytes.
pub const ARENA_MAGIC: u64 = u64::from_le_bytes(*b"WAKEPATH");
/// Version of this layout. A library that finds another one stays silent.
pub const ARENA_VERSION: u32 = 4;
/// Bytes of [`ArenaHeader`] and of [`SlotHeader`], with their padding.
pub const ARENA_PAGE: usize = 4096;
/// Environment variable that names the arena's file.
pub const ARENA_ENV: &str = "WAKEPATH_ARENA";

/// `ArenaHeader.switches`: record.
pub const ON: u32 = 1;
/// `ArenaHeader.switches`: isolate events; else observe only.
pub const ISOLATE: u32 = 2;
/// `ArenaHeader.switches`, with [`ISOLATE`]: an input is handed over when the whole process has come to rest.
pub const REST: u32 = 4;

/// `SlotHeader.state`: nobody's.
pub const SLOT_FREE: u32 = 0;
/// `SlotHeader.state`: being claimed.
pub const SLOT_CLAIMED: u32 = 1;
/// `SlotHeader.state`: a process writes.
pub const SLOT_LIVE: u32 = 2;
/// `SlotHeader.state`: its memory is not set aside yet; the recorder opens more as others are claimed, so that no
/// program ever writes where there is no memory (SIGBUS).
pub const SLOT_CLOSED: u32 = 3;

/// Why the library did not see, or did not isolate: index into [`SlotHeader::aside`].
pub mod aside {
    /// A descriptor whose kind or flow could not be told.
    pub const DESCRIPTOR: usize = 0;
    /// Two threads read one flow at the same time, or the peeked bytes were not those read.
    pub const RACE: usize = 1;
    /// The table of descriptors or flows is full.
    pub const TABLE_FULL: usize = 2;
    /// The program set up io_uring: what goes through it is not seen here.
    pub const IO_URING: usize = 3;
    /// A TLS session that is on no descriptor (memory BIO).
    pub const TLS_NO_FD: usize = 4;
    /// The input was handed over together with others (observing, or it could not be separated).
    pub const NOT_ISOLATED: usize = 5;
    /// A program was executed that the loader gives no library: static or privileged.
    pub const NOT_LOADED: usize = 6;
    /// A flow went to another process, or came from one, in the middle: its bytes could not be numbered.
    pub const SHARED_FLOW: usize = 7;
    /// A plug-in was loaded with `RTLD_DEEPBIND`: what it calls does not pass the library.
    pub const DEEPBIND: usize = 8;
    /// The guest's kernel does not describe its types, or not all that are needed: nothing of it was seen.
    pub const GUEST_TYPES: usize = 9;
    /// What a system call of a guest was about could not be read in its memory.
    pub const GUEST_UNREAD: usize = 10;
    /// System calls of 32-bit programs of a guest.
    pub const GUEST_CALLS_32: usize = 11;
    /// Programs of a guest set up io_uring.
    pub const GUEST_IO_URING: usize = 12;
    /// The table of a guest's connections is full.
    pub const GUEST_TABLE_FULL: usize = 13;
    /// How many there are.
    pub const KINDS: usize = 14;
}

/// First page of the arena.
#[repr(C)]
pub struct ArenaHeader {
    /// [`ARENA_MAGIC`], written last by who makes the arena.
    pub magic: AtomicU64,
    /// [`ARENA_VERSION`].
    pub version: u32,
    /// Number of slots.
    pub slots: u32,
    /// Bytes of each ring: a power of two, at least 64 KiB.
    pub ring_bytes: u32,
    /// Most bytes of a message head in one record, at most [`crate::HEAD_MAX`]; 0 = none.
    pub head_bytes: u32,
    /// [`ON`], [`ISOLATE`], [`REST`].
    pub switches: AtomicU32,
    /// Mixed into commit marks.
    pub key: u32,
    /// Counts up when recording is switched on: a process announces its flows again.
    pub epoch: AtomicU32,
    /// Zero.
    pub pad: u32,
    /// Processes that found no free slot.
    pub no_slot: AtomicU64,
    /// See [`aside::NOT_LOADED`]; counted here, since who executes such a program loses its slot.
    pub not_loaded: AtomicU64,
    /// Inode of the recorder's PID namespace: numbers of processes of another one mean nothing here, so a library there
    /// stays silent. 0 = not known.
    pub pidns: AtomicU64,
    /// Of the first slots, the low bits of the process number that claimed each last: a program that takes another's place
    /// in a process finds the slot by it, without a look at each slot, which is a page to be mapped.
    pub claimed_by: [AtomicU16; CLAIMED_BY],
}

/// Length of [`ArenaHeader::claimed_by`]: twice as many as there are slots unless more are asked for.
pub const CLAIMED_BY: usize = 1024;

/// First page of a slot.
#[repr(C)]
pub struct SlotHeader {
    /// `SLOT_…`.
    pub state: AtomicU32,
    /// The process (thread group) that writes.
    pub tgid: AtomicU32,
    /// Its start (ns since boot, as in [`crate::TaskEvent::start_ns`]), so that a reused number is not taken for it; 0 = not known.
    pub start_ns: AtomicU64,
    /// Position after the last reserved record, in bytes since the slot was claimed; only grows.
    pub reserved: AtomicU64,
    /// Position up to which the recorder has read; only grows.
    pub consumed: AtomicU64,
    /// Records lost to a full ring, by [`crate::DROP_OP`] and so on.
    pub drops: [AtomicU64; crate::DROP_KINDS as usize],
    /// How often the library stepped aside, by [`aside`].
    pub aside: [AtomicU64; aside::KINDS],
}

impl SlotHeader {
    /// Reserves `bytes` of a ring of `ring` bytes for one record: its position, or `None` where the ring is full.
    pub fn claim(&self, bytes: u64, ring: u64) -> Option<u64> {
        // What was read is loaded before what was reserved: the other way round, a thread that is interrupted between the two
        // finds more read than was reserved, and takes an empty ring for a full one.
        let mut consumed = self.consumed.load(Acquire);
        loop {
            let at = self.reserved.load(Acquire);
            let end = at.wrapping_add(bytes);
            if end.wrapping_sub(consumed) > ring {
                let now = self.consumed.load(Acquire);
                if now == consumed {
                    return None;
                }
                consumed = now;
            } else if self.reserved.compare_exchange_weak(at, end, AcqRel, Acquire).is_ok() {
                return Some(at);
            }
        }
    }
}

const _: () = assert!(core::mem::size_of::<ArenaHeader>() <= ARENA_PAGE);
const _: () = assert!(core::mem::size_of::<SlotHeader>() <= ARENA_PAGE);

/// Bytes of one slot.
pub const fn slot_bytes(ring_bytes: u32) -> usize {
    ARENA_PAGE + ring_bytes as usize + crate::RING_SLACK as usize
}

/// Bytes of the whole arena.
pub const fn arena_bytes(slots: u32, ring_bytes: u32) -> usize {
    ARENA_PAGE + slots as usize * slot_bytes(ring_bytes)
}

/// The commit mark of a record that begins at `position` (bytes) of its ring. Never 0.
pub const fn commit_tag(position: u64, key: u32) -> u32 {
    let tag = ((position >> 3) as u32) ^ key;
    if tag == 0 { 1 } else { tag }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use core::sync::atomic::Ordering::Relaxed;
    use std::thread;
    use std::vec::Vec;

    const WRITERS: u64 = 4;
    const BYTES: u64 = 64;
    const RING: u64 = 4096;

    fn slot() -> SlotHeader {
        SlotHeader {
            state: AtomicU32::new(SLOT_LIVE),
            tgid: AtomicU32::new(1),
            start_ns: AtomicU64::new(0),
            reserved: AtomicU64::new(0),
            consumed: AtomicU64::new(0),
            drops: Default::default(),
            aside: Default::default(),
        }
    }

    /// Writers who each read what they wrote at once, so that a sixteenth of the ring is used at most: none of them may be told
    /// that it is full.
    #[test]
    fn a_ring_that_is_nearly_empty_is_never_called_full() {
        const ROUNDS: u64 = 500_000;
        let slot = slot();
        let write = || {
            let mut refused = 0;
            for _ in 0..ROUNDS {
                match slot.claim(BYTES, RING) {
                    Some(at) => _ = slot.consumed.fetch_max(at + BYTES, AcqRel),
                    None => refused += 1,
                }
            }
            refused
        };
        let refused: u64 = thread::scope(|s| {
            let writers: Vec<_> = (0..WRITERS).map(|_| s.spawn(write)).collect();
            writers.into_iter().map(|w| w.join().expect("a writer ends")).sum()
        });
        assert_eq!(refused, 0);
        assert_eq!(slot.reserved.into_inner(), WRITERS * ROUNDS * BYTES);
    }

    #[test]
    fn a_full_ring_refuses_and_takes_again_what_was_read() {
        let slot = slot();
        let taken: Vec<_> = (0..).map_while(|_| slot.claim(1000, RING)).collect();
        assert_eq!(taken, [0, 1000, 2000, 3000]);
        assert_eq!(slot.claim(96, RING), Some(4000));
        assert_eq!(slot.claim(1, RING), None);
        slot.consumed.store(1000, Relaxed);
        assert_eq!(slot.claim(1000, RING), Some(4096));
        assert_eq!(slot.claim(8, RING), None);
    }
}
