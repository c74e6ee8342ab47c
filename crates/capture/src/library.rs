//! The library vantage: drains what watched programs wrote into the arena's slots, in order of time.
//!
//! The programs owe nothing to the recorder and it trusts them in nothing: lengths are checked, records are copied out
//! before they are looked at, and a slot whose positions make no sense is skipped to its end and counted.

mod arena;
mod remover;

pub use arena::{Arena, ArenaOptions};

use crate::CaptureError;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use wakepath_wire::arena::{self as a, SlotHeader, aside, commit_tag};
use wakepath_wire::{self as w, Frame};

/// How long a reserved record of a living process is waited for: its thread may be stopped, or was killed by another's exec.
const STUCK_NS: u64 = 1_000_000_000;
/// How often a slot's process is compared with the one that has its number now.
const IDENTITY_NS: u64 = 2_000_000_000;
/// Shortest record: a head and a time.
const RECORD_MIN: usize = 16;
/// Slots kept open beyond those that are claimed.
const OPEN_AHEAD: usize = 16;

/// What the recorder keeps of a slot.
#[derive(Default)]
struct Slot {
    /// Everything before this position was handed over.
    cursor: u64,
    /// Positions after the cursor that were handed over: something newer stands before them. In order.
    ahead: VecDeque<u64>,
    /// A process has it; its number, 0 = no.
    tgid: u32,
    /// When it was first seen claimed, in ns since boot: who has the number and began later is another process.
    met_boot_ns: u64,
    /// Where a record is reserved and not written, and since when.
    stuck: Option<(u64, u64)>,
    /// Counts up with each claim: of two slots of one process the older is from before an exec.
    claim: u64,
}

/// A record that can be handed over.
struct Ready {
    ts: u64,
    slot: u32,
    position: u64,
    bytes: u32,
}

/// What stands at a position.
enum At {
    Record { bytes: usize, ts: u64 },
    Nothing,
}

/// The recorder's end of an [`Arena`].
pub struct LibrarySource {
    arena: Arena,
    slots: Vec<Slot>,
    /// One more than the highest slot that is not closed: only these are looked at.
    open: usize,
    ready: Vec<Ready>,
    scratch: Vec<u8>,
    claims: u64,
    /// A process that is to come, and has not yet.
    awaited: Option<u32>,
    identity_checked_ns: u64,
    /// Counts of slots that are free again.
    drops_before: [u64; w::DROP_KINDS as usize],
    aside_before: [u64; aside::KINDS],
}

impl LibrarySource {
    /// Takes an arena for recording; fails where another recorder has it.
    pub fn new(arena: Arena) -> Result<LibrarySource, CaptureError> {
        arena.lock()?;
        let count = arena.slots();
        let mut slots: Vec<Slot> = Vec::new();
        slots.resize_with(count, Slot::default);
        for (i, slot) in slots.iter_mut().enumerate() {
            // what a recorder before this one left unread is still news
            slot.cursor = arena.slot(i).consumed.load(Ordering::Relaxed);
        }
        let is_open = |&i: &usize| arena.slot(i).state.load(Ordering::Acquire) != a::SLOT_CLOSED;
        let open = (0..count).rfind(is_open).map_or(0, |i| i + 1);
        let mut source = LibrarySource {
            arena,
            slots,
            open,
            ready: Vec::new(),
            scratch: vec![0; w::RING_SLACK as usize],
            claims: 0,
            awaited: None,
            identity_checked_ns: 0,
            drops_before: [0; w::DROP_KINDS as usize],
            aside_before: [0; aside::KINDS],
        };
        source.open_slots();
        Ok(source)
    }

    /// Watches out for a process: see [`LibrarySource::is_awaited`].
    pub fn expect(&mut self, tgid: u32) {
        self.awaited = Some(tgid);
    }

    /// Watches out for nobody.
    pub fn expect_nobody(&mut self) {
        self.awaited = None;
    }

    /// Whether the process that is watched out for has not come.
    pub fn is_awaited(&self) -> bool {
        self.awaited.is_some()
    }

    /// The arena: its path and switches.
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Hands over records in order of time, up to `until_ns`; their number. `now_ns` is the monotonic time.
    ///
    /// A record takes its time before it is written: give an `until_ns` a few milliseconds before now, and bear small
    /// inversions. Slots of processes that are gone are given free once they are read.
    pub fn drain(&mut self, now_ns: u64, until_ns: u64, mut sink: impl FnMut(Frame<'_>)) -> u64 {
        self.look_at_processes(now_ns);
        self.ready.clear();
        for i in 0..self.open {
            if self.arena.slot(i).state.load(Ordering::Acquire) != a::SLOT_CLOSED {
                self.scan(i, now_ns, until_ns);
            }
        }
        self.ready.sort_unstable_by_key(|r| (r.ts, r.slot, r.position));
        for r in &self.ready {
            let bytes = &mut self.scratch[..r.bytes as usize];
            self.arena.copy(r.slot as usize, r.position, bytes);
            sink(Frame { origin: r.slot, bytes });
        }
        for (i, slot) in self.slots.iter().take(self.open).enumerate().filter(|(_, s)| s.tgid != 0) {
            self.arena.slot(i).consumed.store(slot.cursor, Ordering::Release);
        }
        self.free_dead();
        self.open_slots();
        self.ready.len() as u64
    }

    /// Notes who has which slot.
    fn look_at_processes(&mut self, now_ns: u64) {
        let boot_ns = crate::boot_ns();
        for i in 0..self.open {
            let header = self.arena.slot(i);
            let state = header.state.load(Ordering::Acquire);
            let tgid = header.tgid.load(Ordering::Relaxed);
            let slot = &mut self.slots[i];
            if self.awaited == Some(tgid) {
                self.awaited = None;
            }
            let is_claimed = matches!(state, a::SLOT_LIVE | a::SLOT_CLAIMED);
            if is_claimed && tgid != 0 && slot.tgid != tgid {
                self.claims += 1;
                (slot.tgid, slot.met_boot_ns, slot.claim) = (tgid, boot_ns, self.claims);
            } else if is_claimed && tgid == 0 && slot.tgid == 0 {
                // killed between claiming the slot and signing it
                let since = slot.stuck.get_or_insert((u64::MAX, now_ns)).1;
                if now_ns.saturating_sub(since) > STUCK_NS {
                    slot.stuck = None;
                    self.arena.clear(i);
                }
            }
        }
        if now_ns.saturating_sub(self.identity_checked_ns) > IDENTITY_NS {
            self.identity_checked_ns = now_ns;
            for slot in self.slots.iter_mut().filter(|s| s.tgid != 0) {
                const GRAIN_NS: u64 = 1_000_000_000;
                let began = crate::procfs::task(slot.tgid, slot.tgid).map(|t| t.start_ns);
                if began.is_some_and(|b| b > slot.met_boot_ns + GRAIN_NS) {
                    // another process has the number: the one that wrote is gone
                    slot.met_boot_ns = 0;
                }
            }
        }
    }

    fn is_dead(&self, slot: &Slot) -> bool {
        if slot.met_boot_ns == 0 {
            return true;
        }
        // SAFETY: signal 0 only asks whether the process is there.
        let r = unsafe { libc::kill(slot.tgid as i32, 0) };
        r != 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
    }

    /// Collects what a slot has up to `until_ns`, and moves its cursor over what then is handed over without a hole.
    fn scan(&mut self, i: usize, now_ns: u64, until_ns: u64) {
        let reserved = self.arena.slot(i).reserved.load(Ordering::Acquire);
        let mut slot = std::mem::take(&mut self.slots[i]);
        if reserved.wrapping_sub(slot.cursor) > self.arena.ring_bytes() {
            // overrun, or positions that nobody keeps
            if slot.tgid != 0 {
                self.drops_before[w::DROP_OP as usize] += 1;
            }
            slot.cursor = reserved & !7;
            slot.ahead.clear();
        }
        let mut at = slot.cursor;
        let mut is_whole = true;
        let mut ahead = std::mem::take(&mut slot.ahead).into_iter().peekable();
        while at < reserved {
            let (bytes, ts) = match self.arena.look(i, at, reserved) {
                At::Record { bytes, ts } => (bytes, ts),
                At::Nothing => {
                    let since = match slot.stuck {
                        Some((place, since)) if place == at => since,
                        _ => {
                            slot.stuck = Some((at, now_ns));
                            now_ns
                        }
                    };
                    if slot.tgid != 0 && now_ns.saturating_sub(since) < STUCK_NS && !self.is_dead(&slot) {
                        break;
                    }
                    // who reserved it is gone: on to the next record, or to the end
                    let next = self.arena.next_record(i, at + 8, reserved).unwrap_or(reserved & !7);
                    self.drops_before[w::DROP_OP as usize] += 1;
                    slot.stuck = None;
                    if is_whole {
                        slot.cursor = next.max(at + 8);
                    }
                    at = next.max(at + 8);
                    continue;
                }
            };
            let position = at;
            at += bytes as u64;
            if ahead.next_if_eq(&position).is_some() {
                if !is_whole {
                    slot.ahead.push_back(position);
                }
            } else if ts > until_ns {
                is_whole = false;
            } else {
                self.ready.push(Ready { ts, slot: i as u32, position, bytes: bytes as u32 });
                if !is_whole {
                    slot.ahead.push_back(position);
                }
            }
            if is_whole {
                slot.cursor = at;
            }
        }
        slot.ahead.extend(ahead);
        self.slots[i] = slot;
    }

    /// Gives free what processes left behind: those that are gone, and what one had before an exec.
    fn free_dead(&mut self) {
        for i in 0..self.open {
            let slot = &self.slots[i];
            if slot.tgid == 0 || slot.cursor < self.arena.slot(i).reserved.load(Ordering::Acquire) & !7 {
                continue;
            }
            let is_before_exec = self.slots.iter().any(|o| o.tgid == slot.tgid && o.claim > slot.claim);
            if !is_before_exec && !self.is_dead(slot) {
                continue;
            }
            let header = self.arena.slot(i);
            for (sum, n) in self.drops_before.iter_mut().zip(&header.drops) {
                *sum += n.swap(0, Ordering::Relaxed);
            }
            for (sum, n) in self.aside_before.iter_mut().zip(&header.aside) {
                *sum += n.swap(0, Ordering::Relaxed);
            }
            self.arena.clear(i);
            self.slots[i] = Slot::default();
        }
    }

    /// Sets memory aside for more slots, so that a few are free at any time.
    fn open_slots(&mut self) {
        let mut free = 0;
        for i in 0..self.arena.slots() {
            if free >= OPEN_AHEAD {
                return;
            }
            match self.arena.slot(i).state.load(Ordering::Relaxed) {
                a::SLOT_FREE => free += 1,
                a::SLOT_CLOSED => {
                    if !self.arena.open_slot(i) {
                        return;
                    }
                    self.open = self.open.max(i + 1);
                    free += 1;
                }
                _ => {}
            }
        }
    }

    /// Bytes waiting in the fullest ring, and a ring's size.
    pub fn backlog(&self) -> (u64, u64) {
        let waiting =
            |(i, s): (usize, &Slot)| self.arena.slot(i).reserved.load(Ordering::Relaxed).saturating_sub(s.cursor);
        let fullest = self.slots.iter().take(self.open).enumerate().map(waiting).max();
        (fullest.unwrap_or(0), self.arena.ring_bytes())
    }

    /// Records that were lost so far, by `DROP_…`.
    pub fn drops(&self) -> [u64; w::DROP_KINDS as usize] {
        let mut sum = self.drops_before;
        for i in self.claimed() {
            for (s, n) in sum.iter_mut().zip(&self.arena.slot(i).drops) {
                *s = s.saturating_add(n.load(Ordering::Relaxed));
            }
        }
        sum
    }

    /// How often the library stepped aside so far, by [`aside`].
    pub fn asides(&self) -> [u64; aside::KINDS] {
        let mut sum = self.aside_before;
        for i in self.claimed() {
            for (s, n) in sum.iter_mut().zip(&self.arena.slot(i).aside) {
                *s = s.saturating_add(n.load(Ordering::Relaxed));
            }
        }
        sum[aside::NOT_LOADED] =
            sum[aside::NOT_LOADED].saturating_add(self.arena.header().not_loaded.load(Ordering::Relaxed));
        sum
    }

    /// Processes that found no slot so far.
    pub fn without_slot(&self) -> u64 {
        self.arena.header().no_slot.load(Ordering::Relaxed)
    }

    /// Processes that write now.
    pub fn processes(&self) -> usize {
        self.slots.iter().filter(|s| s.tgid != 0).count()
    }

    fn claimed(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.slots.len()).filter(|&i| self.slots[i].tgid != 0)
    }
}

impl Drop for LibrarySource {
    /// Gives the memory of slots that nobody has back: nobody empties them now.
    fn drop(&mut self) {
        for i in 0..self.arena.slots() {
            self.arena.close_slot(i);
        }
    }
}

impl Arena {
    fn look(&self, i: usize, at: u64, reserved: u64) -> At {
        let p = self.place(i, at);
        // SAFETY: `place` gives an 8-byte aligned address with a whole record's room after it; atomics may be shared.
        let tag = unsafe { &*p.cast::<AtomicU32>() }.load(Ordering::Acquire);
        if tag != commit_tag(at, self.key()) {
            return At::Nothing;
        }
        fence(Ordering::Acquire);
        // SAFETY: as above; volatile, since another process may still write there if it misbehaves.
        let (bytes, ts) =
            unsafe { (p.add(4).cast::<u16>().read_volatile() as usize, p.add(8).cast::<u64>().read_volatile()) };
        let fits = bytes >= RECORD_MIN && bytes <= w::RING_SLACK as usize && bytes % 8 == 0;
        if !fits || at + bytes as u64 > reserved {
            return At::Nothing;
        }
        At::Record { bytes, ts }
    }

    /// The first written record from a position on.
    fn next_record(&self, i: usize, from: u64, reserved: u64) -> Option<u64> {
        (from..reserved).step_by(8).find(|&at| matches!(self.look(i, at, reserved), At::Record { .. }))
    }

    fn slot(&self, i: usize) -> &SlotHeader {
        // SAFETY: the arena has `slots` slots from there on, page-aligned; all fields are atomics.
        unsafe { &*self.slot_address(i).cast::<SlotHeader>() }
    }
}

#[cfg(test)]
#[path = "library/tests.rs"]
mod tests;
