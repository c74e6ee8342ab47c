//! Which of the ready descriptors the program is given: with isolation one at a time, in turn. What is left out stays
//! ready, since poll and select ask anew each time, and of an epoll instance only one event is taken.

use crate::fds::{self, Fd};
use crate::flow::Kind;
use crate::process::Me;
use crate::record::{self, Call, Cause};
use crate::{epolls, sys};
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use libc::{c_int, epoll_event, fd_set, pollfd};
use wakepath_wire as w;
use wakepath_wire::arena::aside;

/// Most inputs of one return that are told when they are not isolated.
const TOLD: usize = 64;

/// Some flow was handed to the program by a poll, select or epoll that was seen.
static WAITED: AtomicBool = AtomicBool::new(false);

/// Whether this program waits by calls that are seen, as far as one knows.
pub fn is_seen_waiting() -> bool {
    WAITED.load(Relaxed)
}

thread_local! {
    /// The descriptor that this thread was given last by poll or select.
    static LAST: Cell<c_int> = const { Cell::new(-1) };
    /// The epoll instance that gave this thread an isolated input, and how often it may be put off since.
    static LOOP: Cell<(c_int, u32)> = const { Cell::new((-1, 0)) };
}

/// Whether something that comes in through `fd` may come from another process.
fn is_foreign(me: &Me, fd: c_int) -> bool {
    match fds::get(me, fd) {
        Some(Fd::Flow(f)) => f.is_foreign(),
        Some(Fd::Epoll) => epolls::is_foreign(fd),
        _ => false,
    }
}

/// The one whose turn it is among the descriptors of `ready`: the next behind the one given last, in a circle.
pub fn turn(ready: impl Iterator<Item = c_int>) -> Option<c_int> {
    let last = LAST.get();
    let (mut first, mut behind) = (None::<c_int>, None::<c_int>);
    for fd in ready {
        first = Some(first.map_or(fd, |x| x.min(fd)));
        if fd > last {
            behind = Some(behind.map_or(fd, |x| x.min(fd)));
        }
    }
    let chosen = behind.or(first)?;
    LAST.set(chosen);
    Some(chosen)
}

/// What an input is: which `INPUT_…`, on which flow (0: none).
fn what(me: &Me, fd: c_int, readable: bool) -> (u8, u64) {
    match fds::get(me, fd) {
        Some(Fd::Flow(f)) => {
            f.ready(me, fd);
            f.waited.store(1, Relaxed);
            WAITED.store(true, Relaxed);
            let sub = if readable || f.kind() == Kind::Listener { w::INPUT_READ } else { w::INPUT_WRITE };
            (sub, f.id())
        }
        _ => (w::INPUT_OTHER, 0),
    }
}

/// What a return was: its call, class, time-out (ns, all ones for none) and descriptor (-1 for none).
pub struct Return {
    /// When.
    pub call: Call,
    /// `SC_…`.
    pub class: u8,
    /// The time-out that the program gave.
    pub timeout_ns: u64,
    /// The epoll instance.
    pub fd: c_int,
    /// The whole process was at rest.
    pub rest: bool,
}

impl Return {
    fn tell(&self, me: &Me, ready: c_int, first: Option<c_int>) {
        let flow = first.and_then(|fd| Some((fds::known(fd)?.1, fd)));
        let cause = match (ready, flow) {
            (0, _) => Cause::Timer,
            (_, Some((f, fd))) => Cause::Ready(f, fd),
            _ => Cause::Unknown,
        };
        record::wait(me, self.call, self.fd, &cause);
        record::poll(me, self.call, self.class, self.timeout_ns, ready, self.fd);
    }
}

const POLL_READ: i16 = libc::POLLIN | libc::POLLPRI | libc::POLLHUP | libc::POLLERR | libc::POLLRDHUP;

/// Tells what poll returned, and leaves one ready descriptor in it where inputs are isolated. What the program is told.
pub fn polled(me: &Me, r: &Return, set: &mut [pollfd], ready: c_int) -> c_int {
    if ready <= 0 {
        let error = sys::errno();
        r.tell(me, if ready < 0 { -error } else { 0 }, None);
        return ready;
    }
    let mut given = ready;
    if me.isolate && ready > 1 && set.iter().any(|p| p.fd >= 0 && is_foreign(me, p.fd)) {
        if let Some(fd) = turn(set.iter().filter(|p| p.revents != 0).map(|p| p.fd)) {
            // the same descriptor may stand in several places
            let others = set.iter_mut().filter(|p| p.fd != fd);
            others.for_each(|p| p.revents = 0);
            given = set.iter().filter(|p| p.revents != 0).count() as c_int;
        }
    } else if ready == 1 {
        LAST.set(set.iter().find(|p| p.revents != 0).map_or(-1, |p| p.fd));
    }
    let inputs = set.iter().filter(|p| p.revents != 0).map(|p| (p.fd, p.revents & POLL_READ != 0));
    tell_inputs(me, r, inputs, given, ready);
    given
}

/// Tells a return with inputs. `given`: as many as the program is told of; `ready`: as many as there were.
fn tell_inputs(me: &Me, r: &Return, inputs: impl Iterator<Item = (c_int, bool)> + Clone, given: c_int, ready: c_int) {
    let mut distinct = inputs.clone();
    let first = distinct.next().map(|(fd, _)| fd);
    // of epoll's events some may be of descriptors that are not known
    let alone = distinct.all(|(fd, _)| fd >= 0 && Some(fd) == first);
    r.tell(me, given, first);
    if !alone {
        me.aside(aside::NOT_ISOLATED);
    }
    for (fd, readable) in inputs.take(if alone { 1 } else { TOLD }) {
        let (sub, flow) = what(me, fd, readable);
        let flags = match alone {
            true if r.rest => w::INPUTF_ISOLATED | w::INPUTF_REST,
            true => w::INPUTF_ISOLATED,
            false => 0,
        };
        record::input(me, r.call.ret, sub, flow, fd, ready.max(1) as u32, flags);
    }
}

/// The three sets of select, as words.
pub struct Sets<'a> {
    /// Readable, writable, exceptional.
    pub sets: [Option<&'a mut [u64]>; 3],
}

impl<'a> Sets<'a> {
    /// # Safety
    /// Each set is null or has room for `n` descriptors, as select asks for.
    pub unsafe fn new(n: c_int, sets: [*mut fd_set; 3]) -> Sets<'a> {
        let words = (n.max(0) as usize).div_ceil(64);
        // SAFETY: the caller's promise; a set is an array of longs
        let slice =
            |s: *mut fd_set| (!s.is_null()).then(|| unsafe { core::slice::from_raw_parts_mut(s.cast::<u64>(), words) });
        Sets { sets: sets.map(slice) }
    }

    fn any(&self, word: usize) -> u64 {
        self.sets.iter().flatten().filter_map(|s| s.get(word)).fold(0, |n, w| n | w)
    }

    /// Descriptors in any set.
    fn members(&self) -> impl Iterator<Item = c_int> + Clone + '_ {
        let words = self.sets.iter().flatten().map(|s| s.len()).max().unwrap_or(0);
        (0..words).flat_map(move |i| {
            let word = self.any(i);
            (0..64).filter(move |b| word >> b & 1 != 0).map(move |b| (i * 64 + b) as c_int)
        })
    }

    fn has(&self, set: usize, fd: c_int) -> bool {
        let s = self.sets.get(set).and_then(|s| s.as_ref());
        s.and_then(|s| s.get(fd as usize / 64)).is_some_and(|w| w >> (fd % 64) & 1 != 0)
    }

    /// Leaves `fd` alone in the sets; in how many it is.
    fn keep(&mut self, fd: c_int) -> c_int {
        let mut count = 0;
        for s in self.sets.iter_mut().flatten() {
            for (i, word) in s.iter_mut().enumerate() {
                *word &= if i == fd as usize / 64 { 1 << (fd % 64) } else { 0 };
                count += word.count_ones() as c_int;
            }
        }
        count
    }
}

/// Whether any descriptor that is waited for may bring what another process sent; asked before select changes its sets.
pub fn any_foreign(me: &Me, sets: &Sets<'_>) -> bool {
    me.isolate && sets.members().any(|fd| is_foreign(me, fd))
}

/// As [`polled`], for select. `foreign`: see [`any_foreign`].
pub fn selected(me: &Me, r: &Return, sets: &mut Sets<'_>, foreign: bool, ready: c_int) -> c_int {
    if ready <= 0 {
        let error = sys::errno();
        r.tell(me, if ready < 0 { -error } else { 0 }, None);
        return ready;
    }
    let mut given = ready;
    if foreign
        && ready > 1
        && let Some(fd) = turn(sets.members())
    {
        given = sets.keep(fd);
    } else if ready == 1 {
        LAST.set(sets.members().next().unwrap_or(-1));
    }
    let inputs = sets.members().map(|fd| (fd, sets.has(0, fd) || sets.has(2, fd)));
    tell_inputs(me, r, inputs, given, ready);
    given
}

/// How often in a row a loop is put off at most: then it is one that never waits.
const PUT_OFF_MAX: u32 = 100;

/// Whether the program is told that nothing is ready. A loop that asks not to wait, right after an input, has left
/// something of that input for later (asyncio's `call_soon`, libuv's `setImmediate`): it does that first, so that the
/// next input finds nothing left over. What is ready stays ready in the kernel. One that goes on asking so never waits:
/// it is given what there is, until it does. It is told as what the program saw: a return without waiting, with nothing.
pub fn is_put_off(me: &Me, ep: c_int, timeout_ns: u64) -> bool {
    let (last, left) = LOOP.get();
    if timeout_ns != 0 || last != ep || left == 0 || !me.isolate || !matches!(fds::get(me, ep), Some(Fd::Epoll)) {
        return false;
    }
    LOOP.set((ep, left - 1));
    true
}

/// Tells of a return that was put off.
pub fn put_off(me: &Me, r: &Return) {
    r.tell(me, 0, None);
}

/// How many events epoll is asked for.
pub fn events_wanted(me: &Me, ep: c_int, asked: c_int) -> c_int {
    if me.isolate && asked > 1 && (me.rest || epolls::is_foreign(ep)) { 1 } else { asked }
}

const EPOLL_READ: u32 = (libc::EPOLLIN | libc::EPOLLPRI | libc::EPOLLHUP | libc::EPOLLERR | libc::EPOLLRDHUP) as u32;

/// Tells what epoll returned.
/// `limited`: it was asked for fewer than the program would have taken.
pub fn epolled(me: &Me, r: &Return, events: &[epoll_event], ready: c_int, limited: bool) {
    let never_waits = r.timeout_ns == 0 && LOOP.get() == (r.fd, 0);
    if !never_waits {
        let is_loop = me.isolate && ready == 1 && epolls::is_foreign(r.fd);
        LOOP.set(if is_loop { (r.fd, PUT_OFF_MAX) } else { (-1, 0) });
    }
    if ready <= 0 {
        let error = sys::errno();
        return r.tell(me, if ready < 0 { -error } else { 0 }, None);
    }
    let inputs = events.iter().map(|e| {
        let (events, data) = (e.events, e.u64);
        (epolls::descriptor(r.fd, data).unwrap_or(-1), events & EPOLL_READ != 0)
    });
    if limited {
        // an instance inside another that is edge-triggered there: the rest of its events must be told of again
        epolls::rearm(r.fd);
    }
    tell_inputs(me, r, inputs, ready, ready);
}
