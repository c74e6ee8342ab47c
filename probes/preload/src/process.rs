//! Who is calling: the process with its slot, the thread with its id. Found out once, and again after a fork.

use crate::arena::{self, Slot, Tail};
use crate::sys;
use core::cell::Cell;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering::*};
use wakepath_wire as w;
use wakepath_wire::arena::{ISOLATE, ON, REST};

/// What a child of a fork, by whatever call, must find to be zero.
#[repr(C)]
struct Wiped {
    /// `NEW`, `BUSY`, `LIVE`, `REFUSED`.
    state: AtomicU32,
    /// The process.
    tgid: AtomicU32,
    /// The slot, see [`Slot::to_raw`].
    slot: AtomicUsize,
    /// The epoch in which no slot was free.
    refused: AtomicU32,
}

const NEW: u32 = 0;
const BUSY: u32 = 1;
const LIVE: u32 = 2;
const REFUSED: u32 = 3;

static WIPED: AtomicPtr<Wiped> = AtomicPtr::new(core::ptr::null_mut());
/// The process that claimed a slot last, here or in the parent that this was forked from.
static BEFORE: AtomicU32 = AtomicU32::new(0);

/// What a thread keeps of itself. Copied by a fork, shared with a vfork child.
struct Task {
    tid: Cell<u32>,
    tgid: Cell<u32>,
    /// A vfork child of this thread may be running in its place.
    lent: Cell<bool>,
    /// Inside a call of ours that must not be told again.
    quiet: Cell<u32>,
}

thread_local! {
    // constant and without a destructor: thread-local storage of the loader, nothing is allocated
    static TASK: Task = const { Task { tid: Cell::new(0), tgid: Cell::new(0), lent: Cell::new(false), quiet: Cell::new(0) } };
}

/// The caller, while recording is on.
#[derive(Clone, Copy)]
pub struct Me {
    /// Thread.
    pub tid: u32,
    /// Thread group.
    pub tgid: u32,
    /// Where its records go.
    pub slot: Slot,
    /// Whether inputs are to be isolated.
    pub isolate: bool,
    /// Whether they are to be handed over when the process is at rest.
    pub rest: bool,
    /// See [`arena::epoch`].
    pub epoch: u32,
}

impl Me {
    /// Counts that the library stepped aside.
    pub fn aside(&self, why: usize) {
        self.slot.aside(why);
    }
}

/// The page that tells a child that it is one. Without it (a kernel before 4.14) nothing is recorded.
pub fn prepare() -> bool {
    let p = arena::pages(4096, true).cast::<Wiped>();
    WIPED.store(p, Release);
    !p.is_null()
}

/// The caller, or `None` where nothing is to be recorded. Almost all of its cost while recording is off is the
/// load of a word.
#[inline(always)]
pub fn watch() -> Option<Me> {
    let switches = arena::switches();
    if switches & ON == 0 { None } else { enter(switches) }
}

/// Whether recording is switched on.
#[inline(always)]
pub fn is_on() -> bool {
    arena::switches() & ON != 0
}

/// Like [`watch`], for calls that change what a descriptor means: also while recording is off.
#[inline(always)]
pub fn lent() -> bool {
    arena::header().is_some() && TASK.with(is_lent)
}

/// Whether this is a vfork child that runs in its parent's memory.
fn is_lent(t: &Task) -> bool {
    if !t.lent.get() {
        return false;
    }
    if t.tid.get() == sys::gettid() {
        t.lent.set(false); // the parent is back
        return false;
    }
    true
}

#[inline]
fn enter(switches: u32) -> Option<Me> {
    // SAFETY: null, or a page of our own that is never unmapped
    let p = unsafe { WIPED.load(Acquire).as_ref() }?;
    TASK.with(|t| {
        if t.quiet.get() != 0 || is_lent(t) {
            return None;
        }
        if p.state.load(Acquire) != LIVE {
            adopt(p, t)?;
        }
        let tgid = p.tgid.load(Relaxed);
        if t.tgid.get() != tgid || t.tid.get() == 0 {
            t.tid.set(sys::gettid());
            t.tgid.set(tgid);
        }
        // SAFETY: it was stored by `adopt`
        let slot = unsafe { Slot::from_raw(p.slot.load(Relaxed)) }?;
        Some(Me {
            tid: t.tid.get(),
            tgid,
            slot,
            isolate: switches & ISOLATE != 0,
            rest: switches & REST != 0,
            epoch: arena::epoch(),
        })
    })
}

/// How often a thread looks whether another one has claimed the slot (count). Claiming takes some reads of `/proc`.
const LOOKS: u32 = 1000;

/// First call of a process: it claims a slot and says who it is. Threads that call meanwhile wait for it, since what they
/// do would be missing in the recording without a word; not for long, since it may be this very thread that is at it,
/// below a signal handler.
#[cold]
fn adopt(p: &Wiped, t: &Task) -> Option<()> {
    let epoch = arena::epoch();
    let from = p.state.load(Acquire);
    let is_ours = match from {
        NEW => true,
        REFUSED if p.refused.load(Relaxed) != epoch => true,
        REFUSED => return None,
        _ => false,
    };
    if !is_ours || p.state.compare_exchange(from, BUSY, AcqRel, Relaxed).is_err() {
        for _ in 0..LOOKS {
            match p.state.load(Acquire) {
                LIVE => return Some(()),
                REFUSED => return None,
                // SAFETY: takes no arguments
                _ => unsafe { sys::call(libc::SYS_sched_yield, [0; 6]) },
            };
        }
        arena::unseen();
        return None;
    }
    let tgid = sys::getpid();
    sys::learn_offsets();
    let start_ns = start_ns();
    let Some(slot) = arena::claim(tgid, start_ns) else {
        p.refused.store(epoch, Relaxed);
        p.state.store(REFUSED, Release);
        return None;
    };
    p.slot.store(slot.to_raw(), Relaxed);
    p.tgid.store(tgid, Relaxed);
    for _ in 0..crate::hooks::loader::bound_past() {
        slot.aside(wakepath_wire::arena::aside::DEEPBIND);
    }
    let tid = sys::gettid();
    let before = BEFORE.swap(tgid, AcqRel);
    let what = if before == 0 || before == tgid { w::TASK_EXEC } else { w::TASK_FORK };
    if what == w::TASK_FORK {
        // the thread-local copy is that of the thread which forked
        crate::rest::forked();
        let parent = if t.tid.get() != 0 { t.tid.get() } else { before };
        task_event(slot, w::TASK_FORK, (tgid, tid), (before, parent), start_ns);
    } else {
        exec_event(slot, tgid, tid, start_ns);
    }
    t.tid.set(tid);
    t.tgid.set(tgid);
    p.state.store(LIVE, Release);
    Some(())
}

/// In the child, right after a fork: its first record comes before anything that it does.
pub fn after_fork() {
    let _ = watch();
}

/// Before a vfork: from now on this thread's memory may be its child's.
pub fn lend() {
    if watch().is_some() {
        TASK.with(|t| t.lent.set(true));
    } else if arena::header().is_some() {
        TASK.with(|t| {
            t.tid.set(sys::gettid());
            t.lent.set(true);
        });
    }
}

/// What this process writes into a lock that it holds; differs from that of a process that it forked from.
pub fn mark() -> u32 {
    BEFORE.load(Relaxed).max(1)
}

/// From here on this thread's calls are not told.
pub fn hush() {
    TASK.with(|t| t.quiet.set(t.quiet.get().saturating_add(1)));
}

/// Ends what [`hush`] began.
pub fn unhush() {
    TASK.with(|t| t.quiet.set(t.quiet.get().saturating_sub(1)));
}

/// A step in the life of the calling thread.
pub fn step(me: &Me, what: u8, parent: (u32, u32)) {
    task_event(me.slot, what, (me.tgid, me.tid), parent, 0);
}

/// A child in which another program was started by a call that was entered at `entry`.
pub fn child(me: &Me, tgid: u32, entry: u64) {
    // before anything that the child says of itself
    let e = w::TaskEvent { ts_ns: entry, ..event(w::TASK_FORK, (tgid, tgid), (me.tgid, me.tid), 0) };
    me.slot.put(&e, w::DROP_TASK, &Tail::EMPTY);
}

/// Before an exec: a vfork child, which has no ring of its own, says in its parent's whose child it is.
pub fn executes() {
    // SAFETY: null, or a page of our own that is never unmapped
    let Some(p) = (unsafe { WIPED.load(Acquire).as_ref() }) else { return };
    TASK.with(|t| {
        if arena::switches() & ON == 0 || p.state.load(Acquire) != LIVE || !is_lent(t) {
            return;
        }
        // SAFETY: it was stored by `adopt`
        if let Some(slot) = unsafe { Slot::from_raw(p.slot.load(Relaxed)) } {
            let tgid = sys::getpid();
            task_event(slot, w::TASK_FORK, (tgid, tgid), (p.tgid.load(Relaxed), t.tid.get()), 0);
        }
    });
}

/// The calling thread ends its process.
pub fn ended(code: i32) {
    if let Some(me) = watch() {
        task_event(me.slot, w::TASK_EXIT, (me.tgid, me.tid), (code as u32, 0), 0);
    }
}

/// Key whose destructor tells that a thread ended, however it did; + 1, 0 = none.
static KEY: AtomicU32 = AtomicU32::new(0);

// SAFETY: called by the C library when a thread ends; the value is not looked at
unsafe extern "C" fn thread_ended(_: *mut libc::c_void) {
    TASK.with(|t| t.quiet.set(0)); // it may have been cancelled in a call that was not to be told
    ended(0);
}

/// Makes the key. Once, by the constructor.
pub fn make_key() {
    let mut key: libc::pthread_key_t = 0;
    // SAFETY: a key of our own; the library is never unloaded
    if unsafe { libc::pthread_key_create(&mut key, Some(thread_ended)) } == 0 {
        KEY.store(key + 1, Release);
    }
}

/// The calling thread's end will be told.
pub fn at_exit() {
    if let Some(key) = KEY.load(Acquire).checked_sub(1) {
        // SAFETY: the key made by `make_key`; any value but null makes the destructor run
        unsafe { libc::pthread_setspecific(key, core::ptr::dangling::<libc::c_void>()) };
    }
}

fn event(what: u8, (tgid, tid): (u32, u32), parent: (u32, u32), start_ns: u64) -> w::TaskEvent {
    let mut comm = [0u8; 16];
    // SAFETY: the kernel writes at most 16 bytes
    unsafe { sys::call(libc::SYS_prctl, [libc::PR_GET_NAME as usize, comm.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    w::TaskEvent {
        head: w::Head { tag: 0, bytes: 0, kind: w::KIND_TASK, sub: what },
        ts_ns: sys::now(),
        start_ns,
        cgroup: 0,
        tgid,
        tid,
        parent_tid: parent.1,
        parent_tgid: parent.0,
        comm,
        cmdline_bytes: 0,
        flags: 0,
    }
}

fn task_event(slot: Slot, what: u8, task: (u32, u32), parent: (u32, u32), start_ns: u64) {
    slot.put(&event(what, task, parent, start_ns), w::DROP_TASK, &Tail::EMPTY);
}

fn exec_event(slot: Slot, tgid: u32, tid: u32, start_ns: u64) {
    let mut line = [0u8; w::CMDLINE_MAX as usize];
    let n = sys::slurp(b"/proc/self/cmdline\0", &mut line);
    // an exec leaves the leader's id to whoever called it, so old and new id are the same
    let mut e = event(w::TASK_EXEC, (tgid, tid), (0, tid), start_ns);
    e.cmdline_bytes = n as u32;
    slot.put(&e, w::DROP_TASK, &Tail { prefix: line.get(..n).unwrap_or(&[]), iov: &[], take: 0 });
}

/// Start of the process in ns since boot, to the precision that `/proc` has (10 ms); 0 where it cannot be read.
fn start_ns() -> u64 {
    let mut text = [0u8; 1024];
    let n = sys::slurp(b"/proc/self/stat\0", &mut text);
    let text = text.get(..n).unwrap_or(&[]);
    // after the name, which may hold spaces and parentheses
    let Some(end) = text.iter().rposition(|&b| b == b')') else { return 0 };
    let mut fields = text.get(end + 2..).unwrap_or(&[]).split(|&b| b == b' ');
    let ticks = fields.nth(19).and_then(|f| f.iter().try_fold(0u64, |n, &b| digit(n, b)));
    ticks.map_or(0, |t| sys::boot_of_host(t.saturating_mul(10_000_000)))
}

/// One more decimal digit; `None` where it is none.
pub fn digit(n: u64, b: u8) -> Option<u64> {
    b.is_ascii_digit().then(|| n.wrapping_mul(10).wrapping_add(u64::from(b - b'0')))
}
