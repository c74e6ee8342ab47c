//! What is registered in which epoll instance, so that an event's word gives its descriptor, and an edge-triggered
//! descriptor can be armed again after a read that was made short.

use crate::{fdinfo, fds, process, real, rest, sys};
use core::cell::Cell;
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::*};
use libc::{EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, epoll_event};

/// The registration of a descriptor. Of several, in different instances, only the last is here, and `several` is set;
/// so it is where what is here may not be what the kernel has.
struct Registration {
    lock: AtomicU32,
    /// The kernel is to look again whether the descriptor is ready: `ARM…`. Whoever holds the lock sees to it.
    again: AtomicU32,
    /// The instance + 1, or 0.
    ep: AtomicI32,
    events: AtomicU32,
    several: AtomicU32,
    data: AtomicU64,
    /// Of an instance: something in it may bring what another process sent.
    foreign: AtomicU32,
    /// Of an instance: `CHANGES` when that was looked at last.
    looked: AtomicU32,
    /// It has duplicates.
    copied: AtomicU32,
}

static TABLE: [Registration; fds::FDS] = [const {
    Registration {
        lock: AtomicU32::new(0),
        again: AtomicU32::new(0),
        ep: AtomicI32::new(0),
        events: AtomicU32::new(0),
        several: AtomicU32::new(0),
        data: AtomicU64::new(0),
        foreign: AtomicU32::new(0),
        looked: AtomicU32::new(0),
        copied: AtomicU32::new(0),
    }
}; fds::FDS];

/// Of a descriptor that is a duplicate: what it duplicates + 1, or `LOST`; 0 of others. Runtimes register through one
/// and wait through the other (mio).
static SAME: [AtomicI32; fds::FDS] = [const { AtomicI32::new(0) }; fds::FDS];
/// One more than the highest descriptor that was ever a duplicate: what lies behind was never touched.
static SAME_HIGH: AtomicI32 = AtomicI32::new(0);
/// What it duplicates is closed: nothing is known of the instance.
const LOST: i32 = i32::MIN;

/// Descriptor + 1 that a word meant last, by a hash of it.
static BY_DATA: [AtomicU32; 4096] = [const { AtomicU32::new(0) }; 4096];
/// Counts registrations and new flows.
static CHANGES: AtomicU32 = AtomicU32::new(1);
/// One more than the highest descriptor that was ever registered.
static HIGH: AtomicI32 = AtomicI32::new(0);

/// Where it is registered edge-triggered, and not for one event.
const ARM: u32 = 1;
/// Where it is registered for one event, too.
const ARM_ONESHOT: u32 = 2;

const EPOLLET: u32 = libc::EPOLLET as u32;
const EPOLLONESHOT: u32 = libc::EPOLLONESHOT as u32;
const EPOLLEXCLUSIVE: u32 = 1 << 28;

fn entry(fd: i32) -> Option<&'static Registration> {
    TABLE.get(usize::try_from(fd).ok()?)
}

/// The descriptor under which the instance `ep` is in the tables.
fn instance(ep: i32) -> i32 {
    match usize::try_from(ep).ok().and_then(|i| SAME.get(i)).map_or(0, |s| s.load(Relaxed)) {
        0 => ep,
        LOST => -1,
        n => n - 1,
    }
}

/// `new` was made a duplicate of `old`.
pub fn copied(old: i32, new: i32) {
    let of = instance(old);
    if let (Some(r), Some(s)) = (entry(of), usize::try_from(new).ok().and_then(|i| SAME.get(i))) {
        r.copied.store(1, Relaxed);
        SAME_HIGH.fetch_max(new.saturating_add(1), Relaxed);
        s.store(of + 1, Relaxed);
    }
}

/// Something may have come in touch with another process.
pub fn changed() {
    CHANGES.fetch_add(1, Relaxed);
}

thread_local! {
    /// This thread is inside a change: one that a signal handler of its makes may have to do without the lock.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// `epoll_ctl`, with the registration remembered. One descriptor's changes go one after the other, so that what is
/// remembered is what the kernel has. It is remembered before the kernel hears of it: from then on another thread may be
/// given an event, whose read may be made short.
///
/// # Safety
/// As `epoll_ctl`'s.
pub unsafe fn control(ep: i32, op: i32, fd: i32, e: *mut epoll_event) -> i32 {
    let Some(r) = entry(fd) else {
        // SAFETY: the caller's promise
        return unsafe { real::epoll_ctl(ep, op, fd, e) };
    };
    let locked = lock(r);
    let of = instance(ep);
    let before = (r.ep.load(Relaxed), r.events.load(Relaxed), r.data.load(Relaxed));
    let sets = matches!(op, EPOLL_CTL_ADD | EPOLL_CTL_MOD) && !e.is_null();
    if sets {
        // SAFETY: the program's own; it may be packed, hence unaligned
        let e = unsafe { e.read_unaligned() };
        remember(r, of, fd, e.events, e.u64);
    }
    // SAFETY: the caller's promise
    let result = unsafe { real::epoll_ctl(ep, op, fd, e) };
    let error = sys::errno();
    if result == 0 {
        if op == EPOLL_CTL_DEL {
            let _ = r.ep.compare_exchange(of.wrapping_add(1), 0, AcqRel, Relaxed);
        }
        changed();
    } else if sets {
        r.events.store(before.1, Relaxed);
        r.data.store(before.2, Relaxed);
        r.ep.store(before.0, Release);
        // who took this for the registration meanwhile did not arm the real one
        r.again.fetch_or(ARM, SeqCst);
    }
    if !locked {
        // the interrupted change may be of the same descriptor: do not rely on either
        r.several.store(1, Relaxed);
        r.again.fetch_or(ARM | ARM_ONESHOT, SeqCst);
    } else {
        unlock(r);
    }
    settle(r, fd);
    sys::set_errno(error);
    result
}

/// Naps for a lock: about a second. Who holds it is inside a system call that does not sleep, or waits for a processor;
/// one that takes longer was unwound out of it.
const NAPS: u32 = 4000;

/// Takes the lock; `false` where this is inside another change of this thread's, which may be what holds it.
fn lock(r: &Registration) -> bool {
    if INSIDE.replace(true) {
        return false;
    }
    for n in 0..NAPS {
        if try_lock(r) {
            return true;
        }
        rest::nap(n);
    }
    r.several.store(1, Relaxed);
    true
}

/// A holder that forked away is none.
fn try_lock(r: &Registration) -> bool {
    let (me, held) = (process::mark(), r.lock.load(SeqCst));
    held != me && r.lock.compare_exchange(held, me, SeqCst, SeqCst).is_ok()
}

fn unlock(r: &Registration) {
    r.lock.store(0, SeqCst);
    INSIDE.set(false);
}

/// Makes the kernel look again, unless another holds the lock: that one comes by here when it has given it back.
fn settle(r: &Registration, fd: i32) {
    while r.again.load(SeqCst) != 0 {
        let nested = INSIDE.replace(true);
        let locked = try_lock(r);
        if locked {
            arm(r, fd, r.again.swap(0, SeqCst));
            r.lock.store(0, SeqCst);
        }
        INSIDE.set(nested);
        if !locked {
            return;
        }
    }
}

/// Registers `fd` as it is registered, where `what` says so. Under the lock.
fn arm(r: &Registration, fd: i32, what: u32) {
    let (ep, events) = (r.ep.load(Acquire), r.events.load(Relaxed));
    let wanted = match events & (EPOLLET | EPOLLONESHOT) {
        0 => 0,
        EPOLLET => ARM,
        _ => ARM_ONESHOT,
    };
    if ep != 0 && what & wanted != 0 && events & EPOLLEXCLUSIVE == 0 {
        let mut e = epoll_event { events, u64: r.data.load(Relaxed) };
        let a = [ep as usize - 1, EPOLL_CTL_MOD as usize, fd as usize, &raw mut e as usize, 0, 0];
        // SAFETY: the kernel reads one event
        unsafe { sys::call(libc::SYS_epoll_ctl, a) };
    }
}

/// Under the lock.
fn remember(r: &Registration, ep: i32, fd: i32, events: u32, data: u64) {
    let before = r.ep.load(Relaxed);
    if ep < 0 || before != 0 && before != ep.wrapping_add(1) {
        r.several.store(1, Relaxed);
    }
    r.events.store(events, Relaxed);
    r.data.store(data, Relaxed);
    r.ep.store(ep.wrapping_add(1), Release);
    HIGH.fetch_max(fd.saturating_add(1), Relaxed);
}

/// The descriptor was closed or means something else.
pub fn gone(fd: i32) {
    if let Some(r) = entry(fd) {
        r.ep.store(0, Relaxed);
        r.several.store(0, Relaxed);
        r.foreign.store(0, Relaxed);
        r.looked.store(0, Relaxed);
        if let Some(s) = SAME.get(fd as usize) {
            s.store(0, Relaxed);
        }
        if r.copied.swap(0, Relaxed) != 0 {
            for s in SAME.iter().take(SAME_HIGH.load(Relaxed).max(0) as usize) {
                let _ = s.compare_exchange(fd + 1, LOST, Relaxed, Relaxed);
            }
            // what is registered there stays so, and nothing can arm it
            let members = TABLE.iter().take(HIGH.load(Relaxed).max(0) as usize);
            members.filter(|r| r.ep.load(Relaxed) == fd + 1).for_each(|r| r.several.store(1, Relaxed));
        }
    }
}

/// A new instance has this number: what is remembered of an earlier one is not about it.
pub fn fresh(ep: i32) {
    gone(ep);
    for r in TABLE.iter().take(HIGH.load(Relaxed).max(0) as usize) {
        let _ = r.ep.compare_exchange(ep.wrapping_add(1), 0, Relaxed, Relaxed);
    }
}

/// The descriptor whose events in `ep` bear the word `data`.
pub fn descriptor(ep: i32, data: u64) -> Option<i32> {
    let ep = Some(instance(ep)).filter(|&ep| ep >= 0)?;
    let is =
        |fd: i32| entry(fd).is_some_and(|r| r.ep.load(Acquire) == ep.wrapping_add(1) && r.data.load(Relaxed) == data);
    let hash = (data ^ (ep as u64) << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52;
    let cache = BY_DATA.get(hash as usize)?;
    let last = cache.load(Relaxed) as i32 - 1;
    if is(last) {
        return Some(last);
    }
    let fd = (0..HIGH.load(Relaxed)).find(|&fd| is(fd))?;
    cache.store(fd as u32 + 1, Relaxed);
    Some(fd)
}

/// Whether a read of `fd` may be made short: not where the program could take that for "nothing more" and nothing
/// could tell it otherwise.
pub fn can_rearm(fd: i32) -> bool {
    entry(fd).is_none_or(|r| {
        let exclusive = EPOLLET | EPOLLEXCLUSIVE;
        r.several.load(Relaxed) == 0 && (r.ep.load(Acquire) == 0 || r.events.load(Relaxed) & exclusive != exclusive)
    })
}

/// Whether the descriptor is in an instance, as far as was seen.
pub fn has(fd: i32) -> bool {
    entry(fd).is_some_and(|r| r.ep.load(Acquire) != 0)
}

/// Makes the kernel look again whether `fd` is ready, where it is registered edge-triggered. A one-shot registration
/// is left as it is: the program arms it itself. So is what is not registered: when it is, the kernel looks.
pub fn rearm(fd: i32) {
    let Some(r) = entry(fd) else { return };
    let events = r.events.load(Relaxed);
    if r.ep.load(Acquire) != 0 && events & EPOLLET != 0 && events & EPOLLONESHOT == 0 {
        r.again.fetch_or(ARM, SeqCst);
        settle(r, fd);
    }
}

/// Whether what comes in through the instance may have come from another process. Once so, it stays so.
pub fn is_foreign(ep: i32) -> bool {
    let ep = instance(ep);
    let Some(r) = entry(ep) else { return true };
    if r.foreign.load(Relaxed) != 0 {
        return true;
    }
    let now = CHANGES.load(Relaxed);
    if r.looked.swap(now, Relaxed) == now {
        return false;
    }
    let member = |fd: i32| {
        entry(fd).is_some_and(|r| r.ep.load(Relaxed) == ep.wrapping_add(1))
            && (fds::known(fd).is_some_and(|(_, f)| f.is_foreign())
                || entry(fd).is_some_and(|inner| inner.foreign.load(Relaxed) != 0))
    };
    let foreign = (0..HIGH.load(Relaxed)).any(member);
    if foreign {
        r.foreign.store(1, Relaxed);
    }
    foreign
}

/// Whether something in the instance can only come from this process.
pub fn has_inner(me: &process::Me, ep: i32) -> bool {
    let ep = instance(ep);
    (0..HIGH.load(Relaxed))
        .any(|fd| entry(fd).is_some_and(|r| r.ep.load(Relaxed) == ep.wrapping_add(1)) && crate::rest::is_inner(me, fd))
}

/// Whether [`put_back`] can make an event of `fd` come again.
pub fn can_put_back(fd: i32) -> bool {
    entry(fd).is_some_and(|r| {
        let events = r.events.load(Relaxed);
        events & (EPOLLET | EPOLLONESHOT) == 0 || r.several.load(Relaxed) == 0 && events & EPOLLEXCLUSIVE == 0
    })
}

/// Makes an event of `fd` that was taken come again: one that stays ready does anyway.
pub fn put_back(fd: i32) {
    let Some(r) = entry(fd) else { return };
    r.again.fetch_or(ARM | ARM_ONESHOT, SeqCst);
    settle(r, fd);
}

/// Whether the descriptor is an epoll instance.
pub fn is_epoll(fd: i32) -> bool {
    is_anonymous(fd, b"anon_inode:[eventpoll]")
}

/// Whether the descriptor is an eventfd.
pub fn is_eventfd(fd: i32) -> bool {
    is_anonymous(fd, b"anon_inode:[eventfd]")
}

fn is_anonymous(fd: i32, of: &[u8]) -> bool {
    let mut path = [0u8; 32];
    let n = path_of(b"/proc/self/fd/", fd, &mut path);
    let mut target = [0u8; 32];
    let a = [libc::AT_FDCWD as usize, path.as_ptr() as usize, target.as_mut_ptr() as usize, target.len(), 0, 0];
    // SAFETY: the path ends in a zero byte, and the kernel writes at most as much as there is room
    let r = unsafe { sys::call(libc::SYS_readlinkat, a) };
    n > 0 && r > 0 && target.starts_with(of)
}

/// Remembers what is registered in an instance whose making was not seen.
pub fn snapshot(ep: i32) {
    let mut path = [0u8; 32];
    if path_of(b"/proc/self/fdinfo/", ep, &mut path) == 0 {
        return;
    }
    sys::lines(&path, |line| {
        if let Some(t) = fdinfo::line(line) {
            snap(ep, &t);
        }
    });
    changed();
}

/// Remembers what the kernel has told some time ago: where another change is known, nobody can say which came last.
fn snap(ep: i32, t: &fdinfo::Target) {
    let Some(r) = entry(t.fd) else { return };
    let locked = lock(r);
    let is_known = r.ep.load(Relaxed) == ep.wrapping_add(1);
    if !is_known {
        remember(r, ep, t.fd, t.events, t.data);
    } else if r.data.load(Relaxed) != t.data || !is_same(r.events.load(Relaxed), t.events) {
        r.several.store(1, Relaxed);
    }
    if locked {
        unlock(r);
    }
    settle(r, t.fd);
}

/// Whether what was registered is what the kernel tells: with what it adds, and of a one-shot registration that has
/// given its event, without what that asked for.
fn is_same(registered: u32, told: u32) -> bool {
    const ADDED: u32 = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
    const HOW: u32 = EPOLLET | EPOLLONESHOT | EPOLLEXCLUSIVE;
    let is_over = told & EPOLLONESHOT != 0 && told & !(HOW | libc::EPOLLWAKEUP as u32) == 0;
    registered & HOW == told & HOW && (is_over || (registered ^ told) & !(ADDED | libc::EPOLLWAKEUP as u32) == 0)
}

/// Writes `prefix` and the number with a zero byte behind them; how many bytes.
fn path_of(prefix: &[u8], fd: i32, into: &mut [u8; 32]) -> usize {
    let mut digits = [0u8; 12];
    let (mut n, mut at) = (fd.max(0), digits.len());
    loop {
        at -= 1;
        digits[at] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    let number = &digits[at..];
    let len = prefix.len() + number.len();
    if len >= into.len() {
        return 0;
    }
    into[..prefix.len()].copy_from_slice(prefix);
    into[prefix.len()..len].copy_from_slice(number);
    len + 1
}
