//! Where messages end in what a flow carries: the protocol processors, run beside the program's own reads and writes.
//!
//! They are here for borders only. What the messages say is read off the recorded heads, later and elsewhere.

use crate::arena;
use crate::flow::{self, CLIENT, FLOWS, Flow, SERVER};
use core::mem::MaybeUninit;
use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};
use libc::iovec;
use wakepath_protocols::{
    AnyProcessor, Defect, Dir, EndHow, Likely, Message, Processor, Sink, Transport, Verdict, recognise,
};

/// `Flow.talk` below this: so many turns were looked at, and no protocol was recognised.
const TRIES: u32 = 6;
/// `Flow.talk`: the processor in the flow's place of the pool is in use.
const KNOWN: u32 = 100;
/// `Flow.talk`: no protocol that is known, or it was lost.
const BLIND: u32 = 200;

/// One processor's room for each flow, in memory that is only there once it is used.
static POOL: AtomicPtr<MaybeUninit<AnyProcessor>> = AtomicPtr::new(core::ptr::null_mut());
/// Bytes of address space that the pool takes.
pub const POOL_BYTES: usize = FLOWS * size_of::<AnyProcessor>();
static POOL_STATE: AtomicU32 = AtomicU32::new(0);

/// Makes the pool. Where there is no room for it, reads do not stop at borders.
#[cold]
fn make_pool() {
    if POOL_STATE.compare_exchange(0, 1, AcqRel, Relaxed).is_ok() {
        POOL.store(arena::pages(POOL_BYTES, false).cast(), Release);
    }
}

/// Whether anything is, or may come to be, known of the flow's borders.
pub fn is_open(f: &Flow) -> bool {
    if POOL.load(Acquire).is_null() {
        make_pool();
    }
    f.talk.load(Relaxed) != BLIND && !POOL.load(Acquire).is_null()
}

/// Whether a look at bytes to come may tell anything: a protocol is recognised at the beginning of a message alone.
pub fn is_worth_a_look(f: &Flow, turned: bool) -> bool {
    turned || f.talk.load(Relaxed) >= KNOWN
}

/// Nothing more is known of the flow. Under its lock.
pub fn give_up(f: &Flow) {
    f.talk.store(BLIND, Relaxed);
}

/// # Safety
/// The flow's lock is held and its `talk` is `KNOWN`.
#[allow(clippy::mut_from_ref)] // the lock makes it the only one
unsafe fn processor(f: &Flow) -> Option<&mut AnyProcessor> {
    let pool = POOL.load(Acquire);
    if pool.is_null() {
        return None;
    }
    // SAFETY: the pool has a place for each flow, which `know` filled before it set `KNOWN`
    Some(unsafe { (*pool.add(flow::index(f))).assume_init_mut() })
}

/// The processor takes nothing from anybody, and nobody listens to it.
struct Deaf;

impl Sink for Deaf {
    fn message(&mut self, _: &Message<'_>) {}
    fn end(&mut self, _: Dir, _: u64, _: u64, _: EndHow) {}
    fn defect(&mut self, _: Defect, _: Dir, _: u64) {}
}

fn dir(f: &Flow, sent: bool) -> Option<Dir> {
    match (f.side.load(Relaxed), sent) {
        (SERVER, true) | (CLIENT, false) => Some(Dir::ToClient),
        (SERVER, false) | (CLIENT, true) => Some(Dir::ToServer),
        _ => None,
    }
}

/// So many of the next bytes to be received, or sent, need not be looked at. Under the flow's lock.
pub fn ahead(f: &Flow, sent: bool) -> u64 {
    if f.talk.load(Relaxed) != KNOWN {
        return 0;
    }
    // SAFETY: the caller holds the lock, and the processor is in use
    match (unsafe { processor(f) }, dir(f, sent)) {
        (Some(p), Some(dir)) => p.ahead(dir),
        _ => 0,
    }
}

/// Whether `len` bytes of which so many lie `ahead` (see [`ahead`]) are all of one message's body: their number tells
/// as much as they do. Of a flow whose borders were lost they may tell more.
pub fn is_body(ahead: u64, len: u64) -> bool {
    len <= ahead && ahead != u64::MAX
}

/// Shows the processor `len` bytes that moved, or are about to be received, from the stream position `pos` on. How many
/// of them lie before the first border (all, where `sent` or none is known). `turned`: the direction changed. Under the
/// flow's lock.
pub fn look(f: &Flow, sent: bool, turned: bool, pos: u64, iov: &[iovec], len: usize) -> usize {
    // a fault in a processor must not be one of the program's
    let looked = std::panic::catch_unwind(AssertUnwindSafe(|| feed(f, sent, turned, pos, iov, len)));
    looked.unwrap_or_else(|_| {
        give_up(f);
        len
    })
}

fn feed(f: &Flow, sent: bool, turned: bool, pos: u64, iov: &[iovec], len: usize) -> usize {
    if f.talk.load(Relaxed) < KNOWN && turned {
        let first = pieces(iov, len).next().unwrap_or(&[]);
        listen(f, sent, first);
    }
    if f.talk.load(Relaxed) != KNOWN {
        return len;
    }
    // SAFETY: the caller holds the lock, and the processor is in use
    let (Some(p), Some(dir)) = (unsafe { processor(f) }, dir(f, sent)) else { return len };
    if turned {
        p.turn(dir, pos, &mut Deaf);
    }
    let mut done = 0;
    for piece in pieces(iov, len) {
        if sent {
            p.data(dir, pos + done as u64, piece, &mut Deaf);
            done += piece.len();
            continue;
        }
        let taken = p.data_to_border(dir, pos + done as u64, piece, &mut Deaf);
        done += taken.min(piece.len());
        if taken < piece.len() {
            break;
        }
    }
    // at least one byte goes, or the program would read nothing and take it for the end
    if sent { len } else { done.max(1).min(len) }
}

/// `len` bytes moved, or will move, that nobody could look at. Under the flow's lock.
pub fn unseen(f: &Flow, sent: bool, pos: u64, len: u64) {
    if f.talk.load(Relaxed) != KNOWN {
        return;
    }
    // SAFETY: the caller holds the lock, and the processor is in use
    if let (Some(p), Some(dir)) = (unsafe { processor(f) }, dir(f, sent)) {
        p.gap(dir, pos, len, &mut Deaf);
    }
}

fn listen(f: &Flow, sent: bool, first: &[u8]) {
    let tries = f.talk.load(Relaxed);
    let ports = f.ports.load(Relaxed);
    let ports = ((ports >> 16) as u16, ports as u16);
    match recognise(Transport::Stream, dir(f, sent), first, ports, &mut Likely::default()) {
        Verdict::Protocol(protocol, dir) => {
            if f.side.load(Relaxed) == 0 {
                let side = if (dir == Dir::ToServer) == sent { CLIENT } else { SERVER };
                f.side.store(side, Relaxed);
            }
            let pool = POOL.load(Acquire);
            if pool.is_null() {
                return give_up(f);
            }
            // SAFETY: the pool has a place for each flow; nobody reads it before `KNOWN` is set
            unsafe { (*pool.add(flow::index(f))).write(AnyProcessor::new(protocol)) };
            f.talk.store(KNOWN, Relaxed);
        }
        _ if tries >= TRIES || is_tls(first) => give_up(f),
        _ => f.talk.store(tries + 1, Relaxed),
    }
}

fn is_tls(first: &[u8]) -> bool {
    matches!(first, [20..=23, 3, 0..=4, ..])
}

/// The first `len` bytes of the program's buffers.
fn pieces(iov: &[iovec], len: usize) -> impl Iterator<Item = &[u8]> {
    let mut left = len;
    iov.iter().filter_map(move |v| {
        let n = v.iov_len.min(left);
        left -= n;
        // SAFETY: the kernel has just moved these bytes through the buffer
        (n > 0).then(|| unsafe { core::slice::from_raw_parts(v.iov_base.cast::<u8>(), n) })
    })
}
