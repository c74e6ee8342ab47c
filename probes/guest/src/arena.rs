//! The shared memory of `wakepath guest`: one slot of it is QEMU's, and all processors write into its ring.

use std::ffi::CString;
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicU32, Ordering::*};
use wakepath_guest::Records;
use wakepath_wire as w;
use wakepath_wire::arena as a;

/// A claimed slot of a mapping that is never undone.
#[derive(Clone, Copy)]
pub struct Slot {
    arena: &'static a::ArenaHeader,
    slot: &'static a::SlotHeader,
}

impl Slot {
    /// Maps the arena in the file at `path` and takes a slot of it.
    pub fn claim(path: &str) -> Result<Slot, String> {
        let arena = map(path).map_err(|why| format!("{path}: {why}"))?;
        let slot = (0..arena.slots).map(|i| nth(arena, i)).find(|s| {
            let taken = s.state.compare_exchange(a::SLOT_FREE, a::SLOT_CLAIMED, AcqRel, Relaxed);
            taken.is_ok()
        });
        let Some(slot) = slot else {
            arena.no_slot.fetch_add(1, Relaxed);
            return Err(format!("{path}: another emulator is recorded into it"));
        };
        slot.tgid.store(std::process::id(), Relaxed);
        slot.start_ns.store(0, Relaxed);
        slot.consumed.store(0, Relaxed);
        slot.reserved.store(0, Relaxed);
        slot.drops.iter().chain(&slot.aside).for_each(|n| n.store(0, Relaxed));
        slot.state.store(a::SLOT_LIVE, Release);
        Ok(Slot { arena, slot })
    }

    /// Whether somebody records.
    pub fn is_on(&self) -> bool {
        self.arena.switches.load(Relaxed) & a::ON != 0
    }

    /// Most bytes of a message's head.
    pub fn head_bytes(&self) -> usize {
        self.arena.head_bytes as usize
    }

    /// Room for a record of `bytes`, and its commit mark; `None` where the ring is full.
    fn reserve(&self, bytes: usize) -> Option<(*mut u8, u32)> {
        let ring = u64::from(self.arena.ring_bytes);
        let at = if bytes > w::RING_SLACK as usize { None } else { self.slot.claim(bytes as u64, ring) }?;
        let offset = a::ARENA_PAGE + (at & (ring - 1)) as usize;
        // SAFETY: a slot has its page, its ring and the slack after it, and a record is no longer than the slack
        let place = unsafe { (&raw const *self.slot).cast::<u8>().cast_mut().add(offset) };
        Some((place, a::commit_tag(at, self.arena.key)))
    }
}

impl Records for Slot {
    fn put<T: w::Record>(&mut self, record: &T, tail: &[u8], drop: u32) {
        const LENGTH: usize = 4;
        let fixed = w::bytes_of(record);
        let bytes = (fixed.len() + tail.len()).next_multiple_of(8);
        let Some((place, tag)) = self.reserve(bytes) else {
            if let Some(lost) = self.slot.drops.get(drop as usize) {
                lost.fetch_add(1, Relaxed);
            }
            return;
        };
        // SAFETY: `reserve` gave `bytes` bytes of the ring to this call alone. The mark comes last, when all else is there
        unsafe {
            std::ptr::copy_nonoverlapping(fixed[LENGTH..].as_ptr(), place.add(LENGTH), fixed.len() - LENGTH);
            place.add(LENGTH).cast::<u16>().write(bytes as u16);
            std::ptr::copy_nonoverlapping(tail.as_ptr(), place.add(fixed.len()), tail.len());
            let end = fixed.len() + tail.len();
            std::ptr::write_bytes(place.add(end), 0, bytes - end);
            (*place.cast::<AtomicU32>()).store(tag, Release);
        }
    }

    fn aside(&mut self, why: usize) {
        if let Some(count) = self.slot.aside.get(why) {
            count.fetch_add(1, Relaxed);
        }
    }
}

fn nth(arena: &'static a::ArenaHeader, i: u32) -> &'static a::SlotHeader {
    let at = a::ARENA_PAGE + i as usize * a::slot_bytes(arena.ring_bytes);
    // SAFETY: `map` checked that the mapping has all slots
    unsafe { &*(&raw const *arena).cast::<u8>().add(at).cast::<a::SlotHeader>() }
}

fn map(path: &str) -> Result<&'static a::ArenaHeader, String> {
    let os = || std::io::Error::last_os_error().to_string();
    let name = CString::new(path).map_err(|e| e.to_string())?;
    // SAFETY: a string that ends in a zero byte
    let fd = unsafe { libc::open(name.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC | libc::O_NOFOLLOW) };
    if fd < 0 {
        return Err(os());
    }
    let bytes = std::fs::metadata(path).map_or(0, |m| m.size() as usize);
    let mapped = if bytes < a::ARENA_PAGE {
        Err("it is no shared memory of Wakepath".to_owned())
    } else {
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a file of at least a page; the kernel chooses a free place
        let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, prot, libc::MAP_SHARED, fd, 0) };
        if at == libc::MAP_FAILED { Err(os()) } else { Ok(at.cast::<a::ArenaHeader>()) }
    };
    // SAFETY: a descriptor of our own
    unsafe { libc::close(fd) };
    // SAFETY: the mapping has at least a page, is never undone, and what changes in it is atomic
    let arena = unsafe { &*mapped? };
    let is_sound = arena.magic.load(Acquire) == a::ARENA_MAGIC
        && arena.version == a::ARENA_VERSION
        && arena.ring_bytes.is_power_of_two()
        && arena.ring_bytes >= 64 << 10
        && arena.head_bytes <= w::HEAD_MAX
        && (1..1 << 16).contains(&arena.slots)
        && bytes >= a::arena_bytes(arena.slots, arena.ring_bytes);
    if is_sound { Ok(arena) } else { Err("it is of another version of Wakepath".into()) }
}
