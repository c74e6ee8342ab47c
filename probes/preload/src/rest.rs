//! Inputs that are handed over only when the whole process has come to rest, for programs whose threads hand requests
//! to each other: until the next input all that any thread does is for this one.
//!
//! A thread that was given an input from outside waits here, inside its own poll or epoll, until every other thread
//! sleeps in the kernel or waits here too, and nothing that a thread left for another one is still to be taken. It
//! waits a bounded time ([`LIMIT_NS`]); after that it goes on as it would, and [`else_now`] says so. So do threads
//! that a time-out or a call of their own lets go on.

use crate::fds::{self, Fd};
use crate::flow::{Flow, Kind};
use crate::process::Me;
use crate::{epolls, isolate, record, sys};
use core::cell::Cell;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*, fence};
use libc::{c_int, epoll_event, pollfd};

/// A wait for rest that has taken so long (ns), and in which was looked so often (count), is in vain. On a busy machine
/// who looks seldom runs, and nor do those that are waited for: then it may take `BUSY` times as long.
const LIMIT_NS: u64 = 100_000_000;
const LOOKS: u32 = 200;
const BUSY: u64 = 10;
/// After so many waits in vain in a row (count) a process is one that never rests.
const VAIN: u32 = 3;
/// How long such a process is left alone the first time (ns); twice as long each time after, up to 64 times.
const ALONE_NS: u64 = 1_000_000_000;
/// An input that comes so shortly before a timer of its loop may be due waits for it (ns): what both begin would be
/// told apart by nobody. At most so much of a thread's time is spent on that (a share).
const HOLD_NS: u64 = 10_000_000;
const HOLD_SHARE: u64 = 8;
/// Most threads that wait here at once, and most threads of a process that is waited for.
const WAITERS: usize = 64;
const THREADS: usize = 512;
/// Most reads that are put off after one input.
const PUT_OFF_MAX: u32 = 100;
/// Most events of an instance that are looked at for one that comes from inside.
const EVENTS: usize = 256;

/// A thread that waits here. All zeros: a free place.
struct Waiter {
    tid: AtomicU32,
    /// When it came; the oldest goes first.
    since: AtomicU64,
    /// 1: something from inside may come in where it waits.
    inner: AtomicU32,
    /// It is to look whether something has, and it did and found nothing: the number of the question.
    asked: AtomicU32,
    answered: AtomicU32,
}

/// A thread, and how long it had run (ns).
struct Thread {
    tid: AtomicU32,
    ran: AtomicU64,
}

#[allow(clippy::declare_interior_mutable_const)] // what each place begins as
const NOBODY: Waiter = Waiter {
    tid: AtomicU32::new(0),
    since: AtomicU64::new(0),
    inner: AtomicU32::new(0),
    asked: AtomicU32::new(0),
    answered: AtomicU32::new(0),
};

static PLACES: [Waiter; WAITERS] = [const { NOBODY }; WAITERS];
/// The others, while one looks at them.
static OTHERS: [Thread; THREADS] = [const { Thread { tid: AtomicU32::new(0), ran: AtomicU64::new(0) } }; THREADS];
/// The thread that looks, or 0.
static LOOKER: AtomicU32 = AtomicU32::new(0);
/// Counts threads that left.
static MOVES: AtomicU32 = AtomicU32::new(0);
/// Numbers questions.
static QUESTION: AtomicU32 = AtomicU32::new(0);
/// 1: the input that was handed over last explains all that is done.
static LIVE: AtomicU32 = AtomicU32::new(0);
/// When that was, on which flow, and what was accepted since.
static HANDED: AtomicU64 = AtomicU64::new(0);
static FLOW: AtomicU64 = AtomicU64::new(0);
static ACCEPTED: AtomicU64 = AtomicU64::new(0);
/// 1: something was taken from it. How often reads of others were put off since.
static TAKEN: AtomicU32 = AtomicU32::new(0);
static PUT_OFF: AtomicU32 = AtomicU32::new(0);
/// Waits in vain in a row, and until when nobody waits.
static MISSED: AtomicU32 = AtomicU32::new(0);
static ALONE_UNTIL: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// This thread waits here: a signal handler of its may come by.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    /// When this thread last waited for a timer.
    static HELD: Cell<u64> = const { Cell::new(0) };
}

/// In a child: its parent's threads are not its own.
pub fn forked() {
    for p in &PLACES {
        p.tid.store(0, Relaxed);
    }
    for n in [&LOOKER, &LIVE, &MISSED] {
        n.store(0, Relaxed);
    }
    ALONE_UNTIL.store(0, Relaxed);
    INSIDE.set(false);
}

/// Whether what comes in through `fd` can only come from this process.
pub fn is_inner(me: &Me, fd: c_int) -> bool {
    match fds::get(me, fd) {
        Some(Fd::Flow(f)) => is_inner_flow(f),
        Some(Fd::Event) => true,
        _ => false,
    }
}

fn is_inner_flow(f: &Flow) -> bool {
    !matches!(f.kind(), Kind::Listener | Kind::Other) && !f.is_foreign()
}

/// How a wait here ended.
pub enum Passed<T> {
    /// The process is at rest; since then, ns.
    Rest(u64),
    /// Something from inside came in first.
    Inner(T),
    /// A timer of the loop is due first.
    Over,
    /// It did not come to rest.
    No,
}

/// What is to be handed over.
pub struct Given {
    /// Its flow (0: nothing that is a flow).
    flow: u64,
    /// Something from inside may come in where the thread waits.
    inner: bool,
    /// When the thread asked to wait no longer, ns.
    until: u64,
}

/// Waits until the process is at rest. `look` says whether something from inside has come in.
pub fn pass<T>(me: &Me, given: &Given, mut look: impl FnMut() -> Option<T>) -> Passed<T> {
    let (begin, inner) = (sys::now(), given.inner);
    if INSIDE.get() || begin < ALONE_UNTIL.load(Relaxed) {
        else_now(me);
        return Passed::No;
    }
    let place = PLACES.iter().find(|p| p.tid.compare_exchange(0, me.tid, AcqRel, Relaxed).is_ok());
    let Some(place) = place else {
        else_now(me);
        return Passed::No;
    };
    place.since.store(begin, Relaxed);
    place.inner.store(u32::from(inner), Relaxed);
    place.answered.store(place.asked.load(Relaxed), Relaxed);
    INSIDE.set(true);
    let (mut naps, mut holds) = (0, false);
    let passed = loop {
        let asked = place.asked.load(Acquire);
        if inner && let Some(found) = look() {
            lock(me);
            break Passed::Inner(found);
        }
        place.answered.store(asked, Release);
        let left = given.until.saturating_sub(sys::now());
        if !holds && left <= HOLD_NS && left * HOLD_SHARE <= begin.saturating_sub(HELD.get()) {
            holds = true;
            place.since.store(u64::MAX, Relaxed); // the others need not wait for it
        }
        if holds && left == 0 {
            HELD.set(sys::now());
            lock(me);
            break Passed::Over;
        }
        if !holds && is_oldest(place) && try_lock(me) {
            if is_at_rest(me) && nobody_found(place) {
                // at rest nothing is left over for this thread either
                if inner && let Some(found) = look() {
                    break Passed::Inner(found);
                }
                let now = sys::now();
                HANDED.store(now, Relaxed);
                FLOW.store(given.flow, Relaxed);
                for n in [&TAKEN, &PUT_OFF] {
                    n.store(0, Relaxed);
                }
                ACCEPTED.store(0, Relaxed);
                LIVE.store(1, Release);
                MISSED.store(0, Relaxed);
                break Passed::Rest(now);
            }
            LOOKER.store(0, Release);
        }
        let now = sys::now();
        let waited = now.saturating_sub(begin);
        if waited > LIMIT_NS && (naps > LOOKS || waited > BUSY * LIMIT_NS) {
            let missed = MISSED.fetch_add(1, Relaxed) + 1;
            if let Some(more) = missed.checked_sub(VAIN) {
                ALONE_UNTIL.store(now + (ALONE_NS << more.min(6)), Relaxed);
            }
            lock(me);
            break Passed::No;
        }
        nap(naps);
        naps += 1;
    };
    place.since.store(u64::MAX, Relaxed);
    place.tid.store(0, Release);
    MOVES.fetch_add(1, AcqRel);
    INSIDE.set(false);
    if matches!(passed, Passed::No) {
        else_now(me);
    }
    let _ = LOOKER.compare_exchange(me.tid, 0, Release, Relaxed);
    passed
}

fn is_oldest(place: &Waiter) -> bool {
    let mine = place.since.load(Relaxed);
    // one that was unwound stands here for ever
    let is_older = |p: &&Waiter| {
        let since = p.since.load(Relaxed);
        p.tid.load(Relaxed) != 0 && since < mine && since + 2 * BUSY * LIMIT_NS > mine
    };
    !PLACES.iter().any(|p| is_older(&p))
}

fn try_lock(me: &Me) -> bool {
    LOOKER.compare_exchange(0, me.tid, AcqRel, Relaxed).is_ok()
}

/// Waits for who looks, which takes well below a millisecond; who was ended meanwhile is waited for no longer than
/// that.
fn lock(me: &Me) {
    for _ in 0..100 {
        if LOOKER.load(Relaxed) == me.tid || try_lock(me) {
            return;
        }
        nap(1);
    }
}

/// Lets other threads run; longer the more often (`n`) that was done before.
pub fn nap(n: u32) {
    if n < 4 {
        // SAFETY: takes no arguments
        unsafe { sys::call(libc::SYS_sched_yield, [0; 6]) };
        return;
    }
    let t = libc::timespec { tv_sec: 0, tv_nsec: if n < 40 { 10_000 } else { 200_000 } };
    // SAFETY: the kernel reads one timespec
    unsafe { sys::call(libc::SYS_nanosleep, [&raw const t as usize, 0, 0, 0, 0, 0]) };
}

/// Whether no other thread runs or could. Exact: none ran between the first and the last look at it, so none woke
/// another after that one was seen to sleep.
fn is_at_rest(me: &Me) -> bool {
    let moves = MOVES.load(Acquire);
    let mut count = 0;
    let mut own = false;
    let listed = sys::threads(|tid| {
        own |= tid == me.tid;
        if tid == me.tid || PLACES.iter().any(|p| p.tid.load(Relaxed) == tid) {
            return true;
        }
        let (Some(o), Some(ran)) = (OTHERS.get(count), sys::ran_ns(tid)) else { return false };
        o.tid.store(tid, Relaxed);
        o.ran.store(ran, Relaxed);
        count += 1;
        true
    });
    if !listed || !own {
        return false;
    }
    fence(SeqCst);
    let others = || OTHERS.iter().take(count);
    let sleep = others().all(|o| sys::sleeps(o.tid.load(Relaxed)));
    fence(SeqCst);
    sleep
        && others().all(|o| sys::ran_ns(o.tid.load(Relaxed)) == Some(o.ran.load(Relaxed)))
        && MOVES.load(Acquire) == moves
}

/// Asks all who wait here whether something from inside came in for them; at rest nothing can come in later.
fn nobody_found(own: &Waiter) -> bool {
    let moves = MOVES.load(Acquire);
    let question = QUESTION.fetch_add(1, Relaxed) + 1;
    let is_other = |p: &&Waiter| !core::ptr::eq(*p, own) && p.tid.load(Relaxed) != 0 && p.inner.load(Relaxed) != 0;
    for p in PLACES.iter().filter(is_other) {
        p.asked.store(question, Release);
        let mut n = 0;
        while p.answered.load(Acquire) != question {
            if n > 50 || p.tid.load(Relaxed) == 0 {
                return false;
            }
            nap(n);
            n += 1;
        }
    }
    MOVES.load(Acquire) == moves
}

/// The process goes on with something else than its last input: from here on that does not explain what is done.
pub fn else_now(me: &Me) {
    if me.rest && LIVE.swap(0, AcqRel) != 0 {
        record::went_on(me);
    }
}

/// A time-out of the program's own ended a wait.
pub fn timed_out(me: &Me) {
    if me.rest && LIVE.load(Relaxed) != 0 {
        let _ = pass(me, &Given { flow: 0, inner: false, until: u64::MAX }, || None::<()>);
        else_now(me);
    }
}

/// A call on `f` that was entered at `entry` (ns) has moved something, which it had perhaps waited for; `took`: it has
/// taken it.
pub fn moved(me: &Me, f: &Flow, entry: u64, took: bool) {
    if !me.rest || LIVE.load(Relaxed) == 0 || is_inner_flow(f) {
        return;
    }
    let id = f.id();
    let is_given = id == FLOW.load(Relaxed) || id == ACCEPTED.load(Relaxed);
    if entry < HANDED.load(Relaxed) || took && !is_given {
        else_now(me);
    } else if took {
        TAKEN.store(1, Relaxed);
    }
}

/// A connection was accepted at `listener`.
pub fn accepted(me: &Me, listener: Option<&Flow>, entry: u64, new: u64) {
    if !me.rest {
        return;
    }
    if let Some(l) = listener {
        moved(me, l, entry, true);
    }
    ACCEPTED.store(new, Relaxed);
}

/// What epoll gave, when it may be handed over: the number of events, and since when the process is at rest (0: it is
/// not, or that does not matter). `wait`: when it began (ns), and its time-out.
pub fn epolled(me: &Me, ep: c_int, events: &mut [epoll_event], ready: c_int, wait: (u64, u64)) -> (c_int, u64) {
    let (entry, timeout_ns) = wait;
    let Some(first) = events.first_mut().filter(|_| ready == 1) else {
        match ready {
            0 if timeout_ns != 0 => timed_out(me),
            1.. => else_now(me),
            _ => {}
        }
        return (ready, 0);
    };
    let fd = epolls::descriptor(ep, first.u64);
    if fd.is_some_and(|fd| is_inner(me, fd)) {
        return (ready, 0);
    }
    let Some(fd) = fd.filter(|&fd| timeout_ns != 0 && epolls::can_put_back(fd)) else {
        else_now(me);
        return (ready, 0);
    };
    let given = Given {
        flow: fds::flow(me, fd).map_or(0, Flow::id),
        inner: epolls::has_inner(me, ep),
        until: entry.saturating_add(timeout_ns),
    };
    match pass(me, &given, || peek(me, ep)) {
        Passed::Rest(at) => (ready, at),
        Passed::Inner(found) => {
            epolls::put_back(fd);
            *first = found;
            if !epolls::descriptor(ep, found.u64).is_some_and(|fd| is_inner(me, fd)) {
                else_now(me);
            }
            (ready, 0)
        }
        Passed::Over => {
            epolls::put_back(fd);
            timed_out(me);
            (0, 0)
        }
        Passed::No => (ready, 0),
    }
}

/// What poll gave, when it may be handed over: the number of entries, and since when the process is at rest (0: it is
/// not, or that does not matter). `wait`: when it began (ns), and its time-out.
pub fn polled(me: &Me, set: &mut [pollfd], ready: c_int, wait: (u64, u64)) -> (c_int, u64) {
    let (entry, timeout_ns) = wait;
    if timeout_ns == 0 || ready <= 0 {
        // a look; what is taken after it was not handed over
        if ready == 0 && timeout_ns != 0 {
            timed_out(me);
        }
        return (ready, 0);
    }
    let inner = set.iter().any(|p| is_inner(me, p.fd));
    let found = |set: &[pollfd]| set.iter().filter(|p| p.revents != 0).map(|p| p.fd).find(|&fd| is_inner(me, fd));
    if let Some(fd) = found(set) {
        return (keep(set, fd, None), 0);
    }
    let ready = set.iter().filter(|p| p.revents != 0).map(|p| p.fd);
    let Some(fd) = isolate::turn(ready) else { return (0, 0) };
    let revents = set.iter().filter(|p| p.fd == fd).fold(0, |n, p| n | p.revents);
    let flow = fds::flow(me, fd).map_or(0, Flow::id);
    let given = Given { flow, inner, until: entry.saturating_add(timeout_ns) };
    let passed = pass(me, &given, || {
        let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let a = [set.as_mut_ptr() as usize, set.len(), &raw const now as usize, 0, 8, 0];
        // SAFETY: the program's own entries
        let n = unsafe { sys::call(libc::SYS_ppoll, a) };
        if n > 0 { found(set) } else { None }
    });
    match passed {
        Passed::Inner(fd) => (keep(set, fd, None), 0),
        Passed::Rest(at) => (keep(set, fd, Some(revents)), at),
        Passed::Over => {
            set.iter_mut().for_each(|p| p.revents = 0);
            timed_out(me);
            (0, 0)
        }
        Passed::No => (keep(set, fd, Some(revents)), 0),
    }
}

/// Leaves `fd` alone in the set, with `revents` where they are given; how often it is there.
fn keep(set: &mut [pollfd], fd: c_int, revents: Option<i16>) -> c_int {
    for p in set.iter_mut() {
        p.revents = match revents {
            _ if p.fd != fd => 0,
            Some(revents) => revents & (p.events | libc::POLLERR | libc::POLLHUP | libc::POLLNVAL),
            None => p.revents,
        };
    }
    set.iter().filter(|p| p.revents != 0).count() as c_int
}

/// What select gave: it is handed over as it is.
pub fn selected(me: &Me, ready: c_int, timeout_ns: u64) {
    match ready {
        0 if timeout_ns != 0 => timed_out(me),
        1.. if timeout_ns != 0 => else_now(me),
        _ => {}
    }
}

/// Whether a read or an accept that would not wait is told that there is nothing yet: what it would take was not handed over. It
/// stays in the kernel, and the program hears of it when its turn comes. Not for ever: a program that goes on asking
/// is let go. Of datagrams and connections one is taken for each input: others may be somebody else's.
pub fn is_put_off(me: &Me, f: &Flow, fd: c_int, flags: c_int) -> bool {
    if !me.rest || LIVE.load(Relaxed) == 0 || is_inner_flow(f) {
        return false;
    }
    let id = f.id();
    let is_given = id == FLOW.load(Relaxed) && (f.is_stream() || TAKEN.load(Relaxed) == 0);
    if is_given || id == ACCEPTED.load(Relaxed) || !isolate::is_told_of(f, fd) {
        return false;
    }
    let waits = flags & libc::MSG_DONTWAIT == 0 && sys::is_nonblocking(fd) != Some(true);
    if waits || !epolls::can_rearm(fd) || PUT_OFF.fetch_add(1, Relaxed) >= PUT_OFF_MAX {
        return false;
    }
    epolls::rearm(fd);
    true
}

/// An event of `ep` that comes from inside, or that could not be put back. All others are.
fn peek(me: &Me, ep: c_int) -> Option<epoll_event> {
    let mut begin = -1;
    for _ in 0..EVENTS {
        let mut e = epoll_event { events: 0, u64: 0 };
        let a = [ep as usize, &raw mut e as usize, 1, 0, 0, 8];
        // SAFETY: the kernel writes one event
        if unsafe { sys::call(libc::SYS_epoll_pwait, a) } != 1 {
            return None;
        }
        let fd = epolls::descriptor(ep, e.u64).filter(|&fd| !is_inner(me, fd) && epolls::can_put_back(fd));
        let Some(fd) = fd else { return Some(e) };
        epolls::put_back(fd);
        if fd == begin {
            return None;
        }
        if begin < 0 {
            begin = fd;
        }
    }
    None
}
