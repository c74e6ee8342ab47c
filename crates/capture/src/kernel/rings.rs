//! The rings that the kernel programs write, mapped and drained.

use super::skel::{WakepathSkel, types};
use crate::CaptureError;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};
use wakepath_wire::{self as w, Frame};

/// The rings as this process sees them.
pub(super) struct Rings {
    base: *const u8,
    mapped: usize,
    stride: usize,
    ring_bytes: u64,
    pub cpus: usize,
    control: *const types::cpu_state,
    cursor: Vec<u64>,
    /// How far each ring was written when it was looked at last.
    written: Vec<u64>,
    /// Time of each ring's next record; [`NOTHING`] where none is complete.
    next_ns: Vec<u64>,
    /// Whether more is to come of each ring's last operation. An interrupt may have written in between, later than what is to
    /// come: no other processor's operation comes before that.
    goes_on: Vec<bool>,
    /// Time of the newest record that each ring handed over.
    last_ns: Vec<u64>,
    /// At which place each ring waits for a record, and since when: its room is taken, and it is not written yet.
    unwritten: Vec<(u64, u64)>,
    /// Records whose room was taken and that nobody wrote until the end.
    abandoned: u64,
}

/// Longest that a record which is still being written holds back later ones of other processors (ns). A program writes in less than
/// a microsecond; but one in a probe of a program may be preempted there, and goes on when its thread runs again.
const HOLD_NS: u64 = 1_000_000_000;
/// How long the end waits for such records.
const LAST_WAIT: Duration = Duration::from_millis(100);

/// Later than all records.
const NOTHING: u64 = u64::MAX;

// SAFETY: the pointers are to memory shared with the kernel for the life of the source; one thread uses it at a time.
unsafe impl Send for Rings {}

impl Drop for Rings {
    fn drop(&mut self) {
        // SAFETY: `base` and `mapped` are what mmap gave.
        unsafe { libc::munmap(self.base as *mut _, self.mapped) };
    }
}

impl Rings {
    /// Maps the rings of `cpus` processors.
    pub fn map(skel: &WakepathSkel<'_>, ring_bytes: u32, cpus: usize) -> Result<Rings, CaptureError> {
        let fd = skel.maps.rings.as_fd().as_raw_fd();
        let stride = ring_bytes as usize + w::RING_SLACK as usize;
        let mapped = page_up(stride.next_multiple_of(8) * cpus);
        // SAFETY: maps the whole array map for reading; the result is checked.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), mapped, libc::PROT_READ, libc::MAP_SHARED | libc::MAP_POPULATE, fd, 0)
        };
        if base == libc::MAP_FAILED {
            return Err(CaptureError::Load(format!("mapping the rings: {}", std::io::Error::last_os_error())));
        }
        let control = &raw const skel.maps.bss_data.as_deref().expect("the object has .bss").cpus[0];
        Ok(Rings::over(base.cast(), mapped, ring_bytes, control, cpus))
    }

    /// Rings that begin at `base`, where `mapped` bytes are mapped.
    fn over(base: *const u8, mapped: usize, ring_bytes: u32, control: *const types::cpu_state, cpus: usize) -> Rings {
        let stride = ring_bytes as usize + w::RING_SLACK as usize;
        Rings {
            base,
            mapped,
            stride: stride.next_multiple_of(8),
            ring_bytes: ring_bytes.into(),
            cpus,
            control,
            cursor: vec![0; cpus],
            written: vec![0; cpus],
            next_ns: vec![NOTHING; cpus],
            goes_on: vec![false; cpus],
            last_ns: vec![0; cpus],
            unwritten: vec![(0, 0); cpus],
            abandoned: 0,
        }
    }

    fn head(&self, cpu: usize) -> &AtomicU64 {
        // SAFETY: `control` points at MAX_CPUS entries in the mapped .bss; u64 fields are aligned and only accessed atomically here.
        unsafe { &*(&raw const (*self.control.add(cpu)).head).cast::<AtomicU64>() }
    }

    fn tail(&self, cpu: usize) -> &AtomicU64 {
        // SAFETY: as in `head`.
        unsafe { &*(&raw const (*self.control.add(cpu)).tail).cast::<AtomicU64>() }
    }

    pub fn drops(&self, cpu: usize) -> [u64; w::DROP_KINDS as usize] {
        // SAFETY: as in `head`; a torn read of a counter cannot happen on 64-bit machines.
        unsafe { std::ptr::read_volatile(&raw const (*self.control.add(cpu)).drops) }
    }

    /// How many waits a processor left out, and how long (ns) those ran there who did not matter.
    pub fn unselected(&self, cpu: usize) -> (u64, u64) {
        // SAFETY: as in `drops`.
        unsafe {
            let control = self.control.add(cpu);
            (
                std::ptr::read_volatile(&raw const (*control).unrecorded),
                std::ptr::read_volatile(&raw const (*control).others_ns),
            )
        }
    }

    /// Looks how far the rings are written. Their processors write to the same cache line with each record, so this is done
    /// once for many records.
    fn look(&mut self, key: u32) {
        for cpu in 0..self.cpus {
            self.written[cpu] = self.head(cpu).load(Ordering::Acquire);
            let first = |ts| if self.goes_on[cpu] { 0 } else { ts };
            self.next_ns[cpu] = self.peek(cpu, key).map_or(NOTHING, |(_, ts)| first(ts));
        }
    }

    /// The processor with the oldest record, its time, and the time of the oldest record of the others.
    fn oldest(&self) -> (usize, u64, u64) {
        let (mut first, mut first_ns, mut second_ns) = (0, NOTHING, NOTHING);
        for (cpu, &ns) in self.next_ns.iter().enumerate() {
            if ns < first_ns {
                (first, second_ns, first_ns) = (cpu, first_ns, ns);
            } else if ns < second_ns {
                second_ns = ns;
            }
        }
        (first, first_ns, second_ns)
    }

    /// Gives the room of what was handed over back to a ring's processor.
    fn give_back(&self, cpu: usize) {
        self.tail(cpu).store(self.cursor[cpu], Ordering::Release);
    }

    /// The next committed record of a processor, if there was one when the rings were looked at.
    fn peek(&self, cpu: usize, key: u32) -> Option<(&[u8], u64)> {
        let at = self.cursor[cpu];
        if at >= self.written[cpu] {
            return None;
        }
        let offset = cpu * self.stride + (at & (self.ring_bytes - 1)) as usize;
        // SAFETY: a record begins inside the ring and is at most RING_SLACK long, which the mapping has room for.
        let p = unsafe { self.base.add(offset) };
        // SAFETY: records are 8-byte aligned; the tag is written last by the kernel side.
        let tag = unsafe { (*p.cast::<AtomicU32>()).load(Ordering::Acquire) };
        if tag != (at >> 3) as u32 ^ key {
            return None;
        }
        fence(Ordering::Acquire);
        // SAFETY: as above; 16 bytes are always there.
        let (bytes, ts) = unsafe { (p.add(4).cast::<u16>().read(), p.add(8).cast::<u64>().read()) };
        let bytes = (bytes as usize).clamp(16, w::RING_SLACK as usize);
        // SAFETY: the kernel side does not touch a committed record until `tail` passes it.
        Some((unsafe { std::slice::from_raw_parts(p, bytes) }, ts))
    }

    /// Up to when records may be handed over, given that a ring waits for one that is being written: that one is later than those
    /// before it, and others may be later than that one. Not for ever, and not until rings are full.
    fn held(&mut self, cpu: usize, until_ns: u64) -> u64 {
        let at = self.cursor[cpu];
        if at >= self.written[cpu] || until_ns == u64::MAX {
            return until_ns;
        }
        if self.unwritten[cpu].0 != at || self.unwritten[cpu].1 == 0 {
            self.unwritten[cpu] = (at, until_ns);
        }
        let is_too_long = until_ns.saturating_sub(self.unwritten[cpu].1) > HOLD_NS;
        let (fullest, size) = self.fullest();
        if is_too_long || fullest > size / 2 { until_ns } else { self.last_ns[cpu].min(until_ns) }
    }

    /// The last look, when the programs are gone: waits a little for records that are still being written, and leaves out those that
    /// nobody writes any more. Their length is not known; the next record tells itself by its mark.
    pub fn finish(&mut self, key: u32, sink: &mut impl FnMut(Frame<'_>)) -> u64 {
        let mut count = self.drain(key, u64::MAX, sink);
        let begun = Instant::now();
        while (0..self.cpus).any(|cpu| self.cursor[cpu] < self.written[cpu]) {
            if begun.elapsed() < LAST_WAIT {
                std::thread::sleep(Duration::from_millis(1));
            } else {
                (0..self.cpus).for_each(|cpu| self.skip_unwritten(cpu, key));
            }
            count += self.drain(key, u64::MAX, sink);
        }
        count
    }

    fn skip_unwritten(&mut self, cpu: usize, key: u32) {
        if self.cursor[cpu] >= self.written[cpu] || self.peek(cpu, key).is_some() {
            return;
        }
        self.abandoned += 1;
        self.goes_on[cpu] = false;
        while self.cursor[cpu] < self.written[cpu] && self.peek(cpu, key).is_none() {
            self.cursor[cpu] += 8;
        }
    }

    /// Records whose room was taken and that nobody wrote.
    pub fn abandoned(&self) -> u64 {
        self.abandoned
    }

    /// Bytes that wait in the fullest ring, and how many each has room for.
    pub fn fullest(&self) -> (u64, u64) {
        let fullest = (0..self.cpus).map(|c| self.head(c).load(Ordering::Relaxed).saturating_sub(self.cursor[c])).max();
        (fullest.unwrap_or(0), self.ring_bytes)
    }

    /// Hands over committed records in time order, up to `until_ns`; the number handed over.
    pub fn drain(&mut self, key: u32, until_ns: u64, sink: &mut impl FnMut(Frame<'_>)) -> u64 {
        const GIVE_BACK: u64 = 64 << 10;
        let mut count = 0;
        self.look(key);
        let mut until_ns = until_ns;
        for cpu in 0..self.cpus {
            if self.next_ns[cpu] == NOTHING {
                until_ns = until_ns.min(self.held(cpu, until_ns));
            }
        }
        loop {
            // run on with the oldest record's ring up to the next oldest's time
            let (cpu, first_ns, second_ns) = self.oldest();
            if first_ns == NOTHING || first_ns > until_ns {
                break;
            }
            let limit = second_ns.min(until_ns);
            self.next_ns[cpu] = NOTHING;
            while let Some((bytes, ts)) = self.peek(cpu, key) {
                if ts > limit && !self.goes_on[cpu] {
                    self.next_ns[cpu] = ts;
                    break;
                }
                let n = bytes.len() as u64;
                let frame = Frame { origin: cpu as u32, bytes };
                let goes_on = goes_on(&frame).unwrap_or(self.goes_on[cpu]);
                sink(frame);
                self.goes_on[cpu] = goes_on;
                self.last_ns[cpu] = self.last_ns[cpu].max(ts);
                let before = self.cursor[cpu];
                self.cursor[cpu] += n;
                count += 1;
                if before / GIVE_BACK != self.cursor[cpu] / GIVE_BACK {
                    self.give_back(cpu);
                }
            }
            if self.next_ns[cpu] == NOTHING {
                until_ns = self.held(cpu, until_ns);
            }
        }
        if count > 0 {
            (0..self.cpus).for_each(|cpu| self.give_back(cpu));
        }
        count
    }
}

/// Whether more bytes of an operation follow a record; `None` where it says nothing of that.
fn goes_on(frame: &Frame<'_>) -> Option<bool> {
    let head = frame.head()?;
    match head.kind {
        w::KIND_OP => Some(head.sub & w::SUB_GOES_ON != 0),
        w::KIND_MORE if head.sub & w::MORE_LAST != 0 => Some(false),
        _ => None,
    }
}

fn page_up(n: usize) -> usize {
    // SAFETY: asks for a constant.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    n.next_multiple_of(page)
}

#[cfg(test)]
mod tests;
