//! Which of the ready descriptors the program is given: with isolation one at a time, in turn. What is left out stays
//! ready, since poll and select ask anew each time, and of an epoll instance only one event is taken.

use crate::fds::{self, Fd};
use crate::flow::{Flow, Kind};
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

/// Who handed a flow to the program last.
const BY_POLL: u8 = 1;
const BY_EPOLL: u8 = 2;

/// Whether the program will be told that `fd`, which means `f`, is ready, as far as one knows. Where another descriptor
/// of the same socket is registered in an epoll instance, nothing is known of `fd`.
pub fn is_told_of(f: &Flow, fd: c_int) -> bool {
    match f.waited.load(Relaxed) {
        0 => epolls::has(fd),
        BY_POLL => true,
        _ => epolls::has(fd) || f.has_one_descriptor(),
    }
}

thread_local! {
    /// The descriptor that this thread was given last by poll or select.
    static LAST: Cell<c_int> = const { Cell::new(-1) };
    /// The loop of this thread that was given an isolated input or a time-out last.
    static LOOP: Cell<Loop> = const { Cell::new(NO_LOOP) };
}

/// What is known of a loop that waits in an epoll instance.
#[derive(Clone, Copy)]
struct Loop {
    /// The instance.
    ep: c_int,
    /// How often it may still be put off.
    left: u32,
    /// Where on the stack it waited.
    at: usize,
}

const NO_LOOP: Loop = Loop { ep: -1, left: 0, at: 0 };

/// Frames of a handler between two polls take more of the stack than this, and ways in which one loop polls differ by
/// less (bytes): Redis's take 1728 and more, an interpreter that warms up (CPython 3.11) differs by 544. Either mistake
/// is told as it was, and costs an isolated input.
const HANDLER: usize = 1024;

impl Loop {
    /// Whether a poll at `at` is one of a handler that this loop has called and that is not done (a server that answers
    /// others while it runs a long script). The stack grows downwards on all architectures here.
    fn has_called(&self, ep: c_int, at: usize) -> bool {
        self.ep == ep && self.at.saturating_sub(at) > HANDLER
    }
}

/// Whether something that comes in through `fd` may come from another process.
fn is_foreign(me: &Me, fd: c_int) -> bool {
    match fds::get(me, fd) {
        Some(Fd::Flow(f)) => f.is_foreign(),
        Some(Fd::Epoll) => epolls::is_foreign(fd),
        _ => false,
    }
}

/// The one whose turn it is among the descriptors of `ready`: the next after the one given last, in a circle.
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
fn what(me: &Me, r: &Return, fd: c_int, readable: bool) -> (u8, u64) {
    match fds::get(me, fd) {
        Some(Fd::Flow(f)) => {
            f.ready(me, fd);
            f.waited.store(if r.fd < 0 { BY_POLL } else { BY_EPOLL }, Relaxed);
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
    /// Where on the stack it was called; of epoll only.
    pub at: usize,
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
        let (sub, flow) = what(me, r, fd, readable);
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

/// Whether the program is told that nothing is ready. A loop that asks not to wait, right after an input or a time-out,
/// has left something of that for later (asyncio's `call_soon`, libuv's `setImmediate`): it does that first, so that the
/// next input finds nothing left over. What is ready stays ready in the kernel. One that goes on asking so never waits:
/// it is given what there is, until it does. It is told as what the program saw: a return without waiting, with nothing.
/// A handler that asks has left nothing: it wants to serve others before it is done.
/// `at`: where on the stack it asks.
pub fn is_put_off(me: &Me, ep: c_int, timeout_ns: u64, at: usize) -> bool {
    let last = LOOP.get();
    let may = timeout_ns == 0 && last.ep == ep && last.left > 0 && me.isolate && !last.has_called(ep, at);
    if !may || !matches!(fds::get(me, ep), Some(Fd::Epoll)) {
        return false;
    }
    LOOP.set(Loop { left: last.left - 1, ..last });
    true
}

/// Tells of a return that was put off.
pub fn put_off(me: &Me, r: &Return) {
    r.tell(me, 0, None);
}

/// How many events epoll is asked for.
pub fn events_wanted(me: &Me, ep: c_int, asked: c_int) -> c_int {
    let is_one = me.isolate && asked > 1 && (me.rest || epolls::is_foreign(ep)) && epolls::can_rearm(ep);
    if is_one { 1 } else { asked }
}

const EPOLL_READ: u32 = (libc::EPOLLIN | libc::EPOLLPRI | libc::EPOLLHUP | libc::EPOLLERR | libc::EPOLLRDHUP) as u32;

/// Tells what epoll returned.
/// `limited`: it was asked for fewer than the program would have taken.
pub fn epolled(me: &Me, r: &Return, events: &[epoll_event], ready: c_int, limited: bool) {
    let last = LOOP.get();
    let never_waits = last.ep == r.fd && last.left == 0;
    // a handler's own looks begin and end nothing
    let is_other = r.timeout_ns == 0 && (never_waits || last.has_called(r.fd, r.at));
    if !is_other {
        // a timer too leaves things for later
        let has_begun = ready == 1 || ready == 0 && r.timeout_ns != 0;
        let is_loop = me.isolate && has_begun && epolls::is_foreign(r.fd);
        LOOP.set(if is_loop { Loop { ep: r.fd, left: PUT_OFF_MAX, at: r.at } } else { NO_LOOP });
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
