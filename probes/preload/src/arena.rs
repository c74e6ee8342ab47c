//! The arena as a writer sees it: mapping it, claiming a slot, adding records to the slot's ring.

use crate::sys;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};
use libc::c_void;
use wakepath_wire as w;
use wakepath_wire::arena as a;

/// The mapped arena, or null.
static ARENA: AtomicPtr<a::ArenaHeader> = AtomicPtr::new(core::ptr::null_mut());
/// Lets go of the arena for good: a program that forbids itself system calls might be killed for one of ours.
pub fn leave() {
    if switches() & a::ON != 0 {
        not_loaded();
    }
    SWITCHES.store(&raw const NONE as *mut AtomicU32, Release);
    ARENA.store(core::ptr::null_mut(), Release);
}

/// What is read while there is no arena.
static NONE: AtomicU32 = AtomicU32::new(0);
/// Where the switches are.
static SWITCHES: AtomicPtr<AtomicU32> = AtomicPtr::new(&raw const NONE as *mut AtomicU32);

/// `ArenaHeader.switches`; 0 where nobody records.
#[inline(always)]
pub fn switches() -> u32 {
    // SAFETY: it points to a static, or into a mapping that is never undone
    unsafe { (*SWITCHES.load(Relaxed)).load(Relaxed) }
}

/// The arena's first page.
pub fn header() -> Option<&'static a::ArenaHeader> {
    // SAFETY: null, or a mapping that is never undone
    unsafe { ARENA.load(Relaxed).as_ref() }
}

/// Bytes of this process's address space that the arena takes; `None` where it has none.
pub fn mapped() -> Option<usize> {
    header().map(|h| a::arena_bytes(h.slots, h.ring_bytes))
}

/// Maps the arena that the file at `path` (ends in a zero byte) holds. Whatever is not as it should be leaves the
/// library silent.
pub fn map(path: &[u8]) {
    if path.last() != Some(&0) {
        return;
    }
    let flags = (libc::O_RDWR | libc::O_CLOEXEC | libc::O_NOFOLLOW) as usize;
    // SAFETY: the path ends in a zero byte, as checked
    let fd = unsafe { sys::call(libc::SYS_openat, [libc::AT_FDCWD as usize, path.as_ptr() as usize, flags, 0, 0, 0]) };
    if fd < 0 {
        return;
    }
    let size = size(fd as i32);
    // SAFETY: a file of this size
    let at = size.map_or(-1, |bytes| unsafe { map_shared(fd as usize, bytes) });
    if size.is_some() && at <= 0 {
        count_unseen(fd as usize);
    }
    // SAFETY: a descriptor of our own
    unsafe { sys::call(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]) };
    if at <= 0 {
        return;
    }
    let header = at as *mut a::ArenaHeader;
    // SAFETY: the mapping is at least one page
    let h = unsafe { &*header };
    if h.magic.load(Acquire) != a::ARENA_MAGIC || !sound(h, size.unwrap_or(0)) {
        // SAFETY: the mapping made above, which nobody knows yet
        unsafe { sys::call(libc::SYS_munmap, [at as usize, size.unwrap_or(0), 0, 0, 0, 0]) };
        return;
    }
    ARENA.store(header, Release);
    SWITCHES.store(&raw const h.switches as *mut AtomicU32, Release);
}

/// Counts a program that has no room for the arena (its address space is limited), where there is room for a page of it.
#[cold]
fn count_unseen(fd: usize) {
    // SAFETY: a file of at least a page
    let at = unsafe { map_shared(fd, a::ARENA_PAGE) };
    if at <= 0 {
        return;
    }
    // SAFETY: the page mapped above
    let h = unsafe { &*(at as *const a::ArenaHeader) };
    if h.magic.load(Acquire) == a::ARENA_MAGIC && h.version == a::ARENA_VERSION {
        h.not_loaded.fetch_add(1, Relaxed);
    }
    // SAFETY: the mapping made above, which nobody keeps
    unsafe { sys::call(libc::SYS_munmap, [at as usize, a::ARENA_PAGE, 0, 0, 0, 0]) };
}

/// Bytes of the file, where they hold at least a header.
fn size(fd: i32) -> Option<usize> {
    let mut s = core::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the kernel fills one `stat`
    let r = unsafe { sys::call(libc::SYS_fstat, [fd as usize, s.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    // SAFETY: all bytes were zeroed, and any are a valid `stat`
    let s = unsafe { s.assume_init() };
    (r == 0 && s.st_size as usize >= a::ARENA_PAGE).then_some(s.st_size as usize)
}

/// # Safety
/// `fd` is a file of `bytes` bytes.
unsafe fn map_shared(fd: usize, bytes: usize) -> isize {
    let prot = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    // SAFETY: the kernel chooses a free place
    unsafe { sys::call(libc::SYS_mmap, [0, bytes, prot, libc::MAP_SHARED as usize, fd, 0]) }
}

fn sound(h: &a::ArenaHeader, bytes: usize) -> bool {
    h.version == a::ARENA_VERSION
        && h.ring_bytes.is_power_of_two()
        && h.ring_bytes >= 64 << 10
        && h.head_bytes <= w::HEAD_MAX
        && (1..1 << 16).contains(&h.slots)
        && bytes >= a::arena_bytes(h.slots, h.ring_bytes)
        && [0, sys::namespace(b"/proc/self/ns/pid\0")].contains(&h.pidns.load(Relaxed))
}

/// A claimed slot.
#[derive(Clone, Copy)]
pub struct Slot(&'static a::SlotHeader);

/// Claims a slot for the process `tgid`, or goes on with the one that it had before an exec.
pub fn claim(tgid: u32, start_ns: u64) -> Option<Slot> {
    let h = header()?;
    let nth = |i: u32| {
        let at = a::ARENA_PAGE + i as usize * a::slot_bytes(h.ring_bytes);
        // SAFETY: `sound` checked that the mapping has all slots
        unsafe { &*((&raw const *h).cast::<u8>().add(at).cast::<a::SlotHeader>()) }
    };
    // each look at a slot is a page to be mapped, so none is taken at those of others, nor, where nothing tells whose they
    // were, after the first that is not open yet
    for i in 0..h.slots {
        let claimed_by = h.claimed_by.get(i as usize);
        if claimed_by.is_some_and(|c| c.load(Acquire) != tgid as u16) {
            continue;
        }
        let s = nth(i);
        match s.state.load(Acquire) {
            a::SLOT_LIVE if s.tgid.load(Relaxed) == tgid => {
                let before = s.start_ns.load(Relaxed);
                if before == start_ns || before == 0 || start_ns == 0 {
                    return Some(Slot(s));
                }
            }
            a::SLOT_CLOSED if claimed_by.is_none() => break,
            _ => {}
        }
    }
    for i in 0..h.slots {
        let s = nth(i);
        match s.state.compare_exchange(a::SLOT_FREE, a::SLOT_CLAIMED, AcqRel, Relaxed) {
            Ok(_) => {}
            Err(a::SLOT_CLOSED) => break,
            Err(_) => continue,
        }
        if let Some(c) = h.claimed_by.get(i as usize) {
            c.store(tgid as u16, Release);
        }
        s.tgid.store(tgid, Relaxed);
        s.start_ns.store(start_ns, Relaxed);
        s.consumed.store(0, Relaxed);
        s.reserved.store(0, Relaxed);
        for c in s.drops.iter().chain(&s.aside) {
            c.store(0, Relaxed);
        }
        s.state.store(a::SLOT_LIVE, Release);
        return Some(Slot(s));
    }
    h.no_slot.fetch_add(1, Relaxed);
    None
}

impl Slot {
    /// The slot as a number that can be kept in an atomic, and back.
    pub fn to_raw(self) -> usize {
        &raw const *self.0 as usize
    }

    /// # Safety
    /// `raw` is 0 or came from `to_raw`.
    pub unsafe fn from_raw(raw: usize) -> Option<Slot> {
        // SAFETY: the caller's promise; mappings are never undone
        unsafe { (raw as *const a::SlotHeader).as_ref() }.map(Slot)
    }

    /// Counts that the library stepped aside.
    pub fn aside(self, why: usize) {
        if let Some(c) = self.0.aside.get(why) {
            c.fetch_add(1, Relaxed);
        }
    }

    /// Room for a record of `bytes` (a multiple of eight); `None`, and counted, where the ring is full.
    fn reserve(self, bytes: usize, drop: u32) -> Option<(*mut u8, u32)> {
        let h = header()?;
        let ring = u64::from(h.ring_bytes);
        let room = if bytes > w::RING_SLACK as usize { None } else { self.0.claim(bytes as u64, ring) };
        let Some(at) = room else {
            if let Some(c) = self.0.drops.get(drop as usize) {
                c.fetch_add(1, Relaxed);
            }
            return None;
        };
        let offset = a::ARENA_PAGE + (at & (ring - 1)) as usize;
        // SAFETY: a slot has its page, its ring and the slack after it, and a record is no longer than the slack
        let p = unsafe { (&raw const *self.0).cast::<u8>().cast_mut().add(offset) };
        Some((p, a::commit_tag(at, h.key)))
    }

    /// Adds a record: its fixed part (whose head's `tag` and `bytes` are filled in here) and what follows it.
    pub fn put<T: w::Record>(self, record: &T, drop: u32, tail: &Tail<'_>) {
        let fixed = size_of::<T>();
        let bytes = (fixed + tail.len() + 7) & !7;
        let Some((p, tag)) = self.reserve(bytes, drop) else { return };
        // SAFETY: `reserve` gave `bytes` bytes of the ring to this call alone; a record has no padding
        unsafe {
            let from = (&raw const *record).cast::<u8>();
            // the tag comes last, when everything else is there
            core::ptr::copy_nonoverlapping(from.add(4), p.add(4), fixed - 4);
            p.add(4).cast::<u16>().write(bytes as u16);
            tail.copy(p.add(fixed));
            (*p.cast::<AtomicU32>()).store(tag, Release);
        }
    }
}

/// What follows the fixed part of a record: a prefix, then the first bytes of the program's scatter list.
pub struct Tail<'a> {
    /// Bytes of our own.
    pub prefix: &'a [u8],
    /// The program's buffers.
    pub iov: &'a [libc::iovec],
    /// How many bytes of them (count); not more than they have.
    pub take: usize,
}

impl Tail<'_> {
    /// Nothing.
    pub const EMPTY: Tail<'static> = Tail { prefix: &[], iov: &[], take: 0 };

    fn len(&self) -> usize {
        self.prefix.len() + self.take
    }

    /// # Safety
    /// `to` has room for `len` bytes, and the buffers hold what was just moved through them.
    unsafe fn copy(&self, to: *mut u8) {
        // SAFETY: the caller's promise
        unsafe {
            core::ptr::copy_nonoverlapping(self.prefix.as_ptr(), to, self.prefix.len());
            let (mut at, mut left) = (self.prefix.len(), self.take);
            for v in self.iov {
                let n = v.iov_len.min(left);
                core::ptr::copy_nonoverlapping(v.iov_base.cast::<u8>(), to.add(at), n);
                at += n;
                left -= n;
            }
            // never more than was there: what is missing reads as zeros
            core::ptr::write_bytes(to.add(at), 0, left);
        }
    }
}

/// A private mapping of zeros, or null. `wipe`: a child begins with zeros again.
pub fn pages(bytes: usize, wipe: bool) -> *mut c_void {
    let prot = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as usize;
    // SAFETY: a new mapping where the kernel likes
    let at = unsafe { sys::call(libc::SYS_mmap, [0, bytes, prot, flags, usize::MAX, 0]) };
    if at <= 0 {
        return core::ptr::null_mut();
    }
    if wipe {
        // SAFETY: the mapping made above
        let r = unsafe { sys::call(libc::SYS_madvise, [at as usize, bytes, libc::MADV_WIPEONFORK as usize, 0, 0, 0]) };
        if r != 0 {
            return core::ptr::null_mut();
        }
    }
    at as *mut c_void
}

/// Counts in the arena's own page that a program was executed which the loader gives no library.
pub fn not_loaded() {
    if let Some(h) = header() {
        h.not_loaded.fetch_add(1, Relaxed);
    }
}

/// Counts in the arena's own page that something was not seen for want of a slot.
pub fn unseen() {
    if let Some(h) = header() {
        h.no_slot.fetch_add(1, Relaxed);
    }
}

/// The number that grows each time that recording is switched on; at most 16 bits of it, never 0.
pub fn epoch() -> u32 {
    header().map_or(1, |h| h.epoch.load(Relaxed) & 0x7fff | 0x8000)
}

/// Most bytes of a head.
pub fn head_bytes() -> usize {
    header().map_or(0, |h| h.head_bytes as usize)
}
