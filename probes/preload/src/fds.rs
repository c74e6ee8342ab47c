//! What each descriptor of the process means: a table that calls fill in as they make and close descriptors, and
//! that finds out what it was not told.

use crate::flow::{self, Flow, Kind};
use crate::process::Me;
use crate::{epolls, sys, unix};
use core::sync::atomic::{AtomicI32, AtomicU64, Ordering::*};
use wakepath_wire as w;
use wakepath_wire::arena::aside;

/// Descriptors below this number are watched.
pub const FDS: usize = 65536;

/// What a descriptor is.
#[derive(Clone, Copy)]
pub enum Fd {
    /// A flow.
    Flow(&'static Flow),
    /// An epoll instance.
    Epoll,
    /// An eventfd.
    Event,
    /// Anything else: a file, a terminal, a timer.
    Other,
}

const UNKNOWN: u64 = 0;
const FLOW: u64 = 1;
const EPOLL: u64 = 2;
const OTHER: u64 = 3;
const EVENT: u64 = 4;

/// Index of the flow | kind << 32 | epoch << 40, in one word so that it is read and changed whole.
static TABLE: [AtomicU64; FDS] = [const { AtomicU64::new(0) }; FDS];
/// One more than the highest descriptor that was ever entered.
static HIGH: AtomicI32 = AtomicI32::new(0);

fn entry(fd: i32) -> Option<&'static AtomicU64> {
    TABLE.get(usize::try_from(fd).ok()?)
}

fn pack(kind: u64, index: u32, epoch: u32) -> u64 {
    u64::from(index) | kind << 32 | u64::from(epoch) << 40
}

/// One more than the highest descriptor in the table.
pub fn high() -> i32 {
    HIGH.load(Relaxed)
}

fn set(fd: i32, word: u64) {
    if let Some(e) = entry(fd) {
        HIGH.fetch_max(fd + 1, Relaxed);
        // what was there went without a call that is watched
        let old = e.swap(word, AcqRel);
        if (old >> 32) & 0xff == FLOW {
            flow::release(old as u32);
        }
    }
}

/// What `fd` is; found out where it is not known.
#[inline]
pub fn get(me: &Me, fd: i32) -> Option<Fd> {
    let word = entry(fd)?.load(Acquire);
    if (word >> 40) as u32 != me.epoch {
        return meet(me, fd);
    }
    match (word >> 32) & 0xff {
        FLOW => flow::get(word as u32).map(Fd::Flow),
        EPOLL => Some(Fd::Epoll),
        EVENT => Some(Fd::Event),
        OTHER => Some(Fd::Other),
        _ => meet(me, fd),
    }
}

/// The flow that `fd` means, announced and with its numbers known.
#[inline]
pub fn flow(me: &Me, fd: i32) -> Option<&'static Flow> {
    match get(me, fd)? {
        Fd::Flow(f) => {
            f.ready(me, fd);
            Some(f)
        }
        _ => None,
    }
}

/// The flow that `fd` is in the table, whatever the epoch; nothing is found out.
pub fn known(fd: i32) -> Option<(u32, &'static Flow)> {
    let word = entry(fd)?.load(Acquire);
    if (word >> 32) & 0xff != FLOW {
        return None;
    }
    flow::get(word as u32).map(|f| (word as u32, f))
}

/// A descriptor that was not met in this epoch.
#[cold]
fn meet(me: &Me, fd: i32) -> Option<Fd> {
    let (mode, inode) = sys::stat(fd)?;
    let (id, kind) = match mode & libc::S_IFMT {
        libc::S_IFIFO => (w::FLOW_PIPE_BIT | inode, Kind::Pipe),
        libc::S_IFSOCK => (cookie(fd)?, socket_kind(fd)),
        0 if epolls::is_eventfd(fd) => {
            set(fd, pack(EVENT, 0, me.epoch));
            return Some(Fd::Event);
        }
        0 if epolls::is_epoll(fd) => {
            set(fd, pack(EPOLL, 0, me.epoch));
            epolls::snapshot(fd);
            return Some(Fd::Epoll);
        }
        _ => {
            set(fd, pack(OTHER, 0, me.epoch));
            return Some(Fd::Other);
        }
    };
    // the table may have it from before the switch was off, or by another descriptor
    if let Some((index, f)) = known(fd).filter(|(_, f)| f.id() == id)
        && let Some(e) = entry(fd)
    {
        e.store(pack(FLOW, index, me.epoch), Release);
        return Some(Fd::Flow(f));
    }
    let (index, f) = match flow::find(id) {
        Some((index, f)) => {
            flow::hold(index);
            (index, f)
        }
        None => {
            let Some((index, f)) = flow::make(id, kind) else {
                me.aside(aside::TABLE_FULL);
                return None;
            };
            if kind == Kind::Tcp {
                f.numbers_from_kernel(fd);
            }
            let mut peer = 0;
            if kind == Kind::Unix {
                // it came from another process or program, and nothing counts its earlier bytes
                me.aside(aside::SHARED_FLOW);
                peer = unix::peer(inode).unwrap_or(0);
            }
            f.announce(me, fd, w::FLOW_MET, peer, sys::now());
            (index, f)
        }
    };
    set(fd, pack(FLOW, index, me.epoch));
    Some(Fd::Flow(f))
}

/// The socket's cookie: the id that the kernel vantage gives it too.
pub fn cookie(fd: i32) -> Option<u64> {
    sys::option::<u64>(fd, libc::SOL_SOCKET, libc::SO_COOKIE).filter(|&c| c != 0)
}

/// What a socket is.
pub fn socket_kind(fd: i32) -> Kind {
    let option = |name| sys::option::<i32>(fd, libc::SOL_SOCKET, name).unwrap_or(0);
    if option(libc::SO_ACCEPTCONN) != 0 {
        return Kind::Listener;
    }
    kind_of(option(libc::SO_DOMAIN), option(libc::SO_TYPE), option(libc::SO_PROTOCOL))
}

/// What a socket of this family, type and protocol is.
pub fn kind_of(domain: i32, ty: i32, protocol: i32) -> Kind {
    match (domain, ty & 0xf, protocol) {
        (libc::AF_INET | libc::AF_INET6, libc::SOCK_STREAM, 0 | libc::IPPROTO_TCP) => Kind::Tcp,
        (libc::AF_UNIX, libc::SOCK_STREAM, _) => Kind::Unix,
        (libc::AF_INET | libc::AF_INET6 | libc::AF_UNIX, libc::SOCK_DGRAM, _) => Kind::Datagram,
        _ => Kind::Other,
    }
}

/// A flow that was just made on `fd`; `None` where there is no room for it.
pub fn made(me: &Me, fd: i32, id: u64, kind: Kind) -> Option<(u32, &'static Flow)> {
    entry(fd)?;
    let Some((index, f)) = flow::make(id, kind) else {
        me.aside(aside::TABLE_FULL);
        return None;
    };
    set(fd, pack(FLOW, index, me.epoch));
    Some((index, f))
}

/// `fd` now means the flow at `index` too.
pub fn also(me: &Me, fd: i32, index: u32) {
    flow::hold(index);
    set(fd, pack(FLOW, index, me.epoch));
}

/// An epoll instance that was just made: all its registrations will be seen.
pub fn made_epoll(me: &Me, fd: i32) {
    set(fd, pack(EPOLL, 0, me.epoch));
}

/// An eventfd was just made.
pub fn made_event(me: &Me, fd: i32) {
    set(fd, pack(EVENT, 0, me.epoch));
}

/// Something that is no flow was just made on `fd`.
pub fn made_other(me: &Me, fd: i32) {
    set(fd, pack(OTHER, 0, me.epoch));
}

/// `new` was made a duplicate of `old`.
pub fn copied(old: i32, new: i32) {
    if old == new || new < 0 {
        return;
    }
    forget(new);
    let Some(word) = entry(old).map(|e| e.load(Acquire)) else { return };
    if (word >> 32) & 0xff == FLOW {
        flow::hold(word as u32);
    }
    set(new, word);
    if (word >> 32) & 0xff != FLOW {
        epolls::copied(old, new);
    }
}

/// `fd` is closed, or means something else from now on. `true` where it was its flow's last descriptor.
pub fn forget(fd: i32) -> bool {
    let Some(e) = entry(fd) else { return false };
    let old = e.swap(UNKNOWN, AcqRel);
    epolls::gone(fd);
    (old >> 32) & 0xff == FLOW && flow::release(old as u32)
}

/// Lays every other meaning aside: used where descriptors were closed by the dozen.
pub fn forget_range(from: i32, to: i32) {
    for fd in from.max(0)..=to.min(high() - 1) {
        forget(fd);
    }
}
