//! System calls made directly: no hook is entered, nothing is cancelled, `errno` stays as it is.

use core::arch::asm;
use core::sync::atomic::{AtomicI64, Ordering::Relaxed};
use libc::{c_int, c_long, iovec};

/// The kernel's answer: a result, or a negative error number.
///
/// # Safety
/// As the system call's own arguments ask for.
#[cfg(target_arch = "x86_64")]
#[inline]
pub unsafe fn call(nr: c_long, a: [usize; 6]) -> isize {
    let r: isize;
    // SAFETY: the system call convention of x86-64; what the call does to memory is the caller's matter
    unsafe {
        asm!("syscall", inlateout("rax") nr as isize => r, in("rdi") a[0], in("rsi") a[1], in("rdx") a[2],
            in("r10") a[3], in("r8") a[4], in("r9") a[5], out("rcx") _, out("r11") _, options(nostack));
    }
    r
}

/// The kernel's answer: a result, or a negative error number.
///
/// # Safety
/// As the system call's own arguments ask for.
#[cfg(target_arch = "aarch64")]
#[inline]
pub unsafe fn call(nr: c_long, a: [usize; 6]) -> isize {
    let r: isize;
    // SAFETY: the system call convention of aarch64; what the call does to memory is the caller's matter
    unsafe {
        asm!("svc 0", in("x8") nr as usize, inlateout("x0") a[0] as isize => r, in("x1") a[1], in("x2") a[2],
            in("x3") a[3], in("x4") a[4], in("x5") a[5], options(nostack));
    }
    r
}

/// `errno` of this thread.
pub fn errno() -> c_int {
    // SAFETY: the address is that of the calling thread's own variable
    unsafe { *libc::__errno_location() }
}

/// Sets `errno` of this thread.
pub fn set_errno(e: c_int) {
    // SAFETY: as in `errno`
    unsafe { *libc::__errno_location() = e };
}

/// Turns the kernel's answer into C's: -1 and `errno`.
pub fn ret(r: isize) -> isize {
    if (-4095..0).contains(&r) {
        set_errno(-r as c_int);
        return -1;
    }
    r
}

/// What the time namespace of this process adds to the host's `CLOCK_MONOTONIC` and `CLOCK_BOOTTIME`, in nanoseconds.
static OFFSETS: [AtomicI64; 2] = [const { AtomicI64::new(0) }; 2];

/// Reads those offsets, when a process takes its place. Where it asked for another namespace for its children, the file is about
/// that one: what was known before stays.
pub fn learn_offsets() {
    if namespace(b"/proc/self/ns/time\0") != namespace(b"/proc/self/ns/time_for_children\0") {
        return;
    }
    lines(b"/proc/self/timens_offsets\0", |line| {
        let mut words = line.split(|b| b.is_ascii_whitespace()).filter(|w| !w.is_empty());
        let at = match words.next() {
            Some(b"monotonic" | b"1") => 0,
            Some(b"boottime" | b"7") => 1,
            _ => return,
        };
        let (Some(seconds), Some(ns)) = (words.next().and_then(signed), words.next().and_then(signed)) else { return };
        OFFSETS[at].store(seconds.wrapping_mul(1_000_000_000).wrapping_add(ns), Relaxed);
    });
}

/// A decimal number with or without a sign; `None` where it is none.
fn signed(word: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match word.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, word),
    };
    let n = digits
        .iter()
        .try_fold(0i64, |n, b| b.is_ascii_digit().then(|| n.wrapping_mul(10).wrapping_add(i64::from(b - b'0'))))?;
    Some(if is_negative { n.wrapping_neg() } else { n })
}

/// A time since boot as this process has it, as the host has it.
pub fn boot_of_host(ns: u64) -> u64 {
    ns.wrapping_sub(OFFSETS[1].load(Relaxed) as u64)
}

/// Nanoseconds of the host's `CLOCK_MONOTONIC`.
#[inline]
pub fn now() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a live timespec; the call is served without entering the kernel and is safe in signal handlers
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    (t.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(t.tv_nsec as u64)
        .wrapping_sub(OFFSETS[0].load(Relaxed) as u64)
}

/// Thread id, from the kernel.
pub fn gettid() -> u32 {
    // SAFETY: no arguments
    unsafe { call(libc::SYS_gettid, [0; 6]) as u32 }
}

/// Process id, from the kernel.
pub fn getpid() -> u32 {
    // SAFETY: no arguments
    unsafe { call(libc::SYS_getpid, [0; 6]) as u32 }
}

/// Reads a socket option of fixed size; `None` where it is not to be had.
pub fn option<T: Copy + Default>(fd: c_int, level: c_int, name: c_int) -> Option<T> {
    let mut value = T::default();
    let mut len = size_of::<T>() as libc::socklen_t;
    let a = [fd as usize, level as usize, name as usize, &raw mut value as usize, &raw mut len as usize, 0];
    // SAFETY: the kernel writes at most `len` bytes, which is the size of `value`
    let r = unsafe { call(libc::SYS_getsockopt, a) };
    (r == 0).then_some(value)
}

/// What `ioctl` answers for a count of bytes (`FIONREAD`, `SIOCOUTQ`); 0 where it does not.
pub fn count(fd: c_int, request: u64) -> u32 {
    let mut n: c_int = 0;
    // SAFETY: these requests write one int
    let r = unsafe { call(libc::SYS_ioctl, [fd as usize, request as usize, &raw mut n as usize, 0, 0, 0]) };
    if r == 0 { n.max(0) as u32 } else { 0 }
}

/// Whether a descriptor is in non-blocking mode; `None` where there is none of this number.
pub fn is_nonblocking(fd: c_int) -> Option<bool> {
    // SAFETY: plain numbers
    let flags = unsafe { call(libc::SYS_fcntl, [fd as usize, libc::F_GETFL as usize, 0, 0, 0, 0]) };
    (flags >= 0).then_some(flags & libc::O_NONBLOCK as isize != 0)
}

/// Device kind and inode of a descriptor: `(mode, inode)`.
pub fn stat(fd: c_int) -> Option<(u32, u64)> {
    let mut s = core::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the kernel fills one `stat`
    let r = unsafe { call(libc::SYS_fstat, [fd as usize, s.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    // SAFETY: all bytes were zeroed, and any are a valid `stat`
    let s = unsafe { s.assume_init() };
    (r == 0).then_some((s.st_mode, s.st_ino))
}

/// Inode number of a namespace, by a path that ends in a zero byte; 0 where it cannot be read.
pub fn namespace(path: &[u8]) -> u64 {
    if path.last() != Some(&0) {
        return 0;
    }
    let mut s = core::mem::MaybeUninit::<libc::stat>::zeroed();
    let a = [libc::AT_FDCWD as usize, path.as_ptr() as usize, s.as_mut_ptr() as usize, 0, 0, 0];
    // SAFETY: the path ends in a zero byte, and the kernel fills one `stat`
    let r = unsafe { call(libc::SYS_newfstatat, a) };
    // SAFETY: all bytes were zeroed, and any are a valid `stat`
    let inode = unsafe { s.assume_init() }.st_ino;
    if r == 0 { inode } else { 0 }
}

/// Opens a file, whose path ends in a zero byte, for reading.
fn open(path: &[u8]) -> Option<usize> {
    if path.last() != Some(&0) {
        return None;
    }
    let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as usize;
    // SAFETY: the path ends in a zero byte, as checked
    let fd = unsafe { call(libc::SYS_openat, [libc::AT_FDCWD as usize, path.as_ptr() as usize, flags, 0, 0, 0]) };
    usize::try_from(fd).ok()
}

fn close(fd: usize) {
    // SAFETY: a descriptor of our own
    unsafe { call(libc::SYS_close, [fd, 0, 0, 0, 0, 0]) };
}

/// Reads until `into` is full or the file ends; how many bytes there were.
fn fill(fd: usize, into: &mut [u8]) -> usize {
    let mut done = 0;
    while let Some(rest) = into.get_mut(done..).filter(|r| !r.is_empty()) {
        // SAFETY: the kernel writes at most `rest.len()` bytes
        let r = unsafe { call(libc::SYS_read, [fd, rest.as_mut_ptr() as usize, rest.len(), 0, 0, 0]) };
        if r <= 0 {
            break;
        }
        done += r as usize;
    }
    done
}

/// Writes `prefix`, the number and `suffix` with a zero byte behind them; empty where there is no room.
pub fn numbered<'a>(prefix: &[u8], number: u32, suffix: &[u8], into: &'a mut [u8; 64]) -> &'a [u8] {
    let mut digits = [0u8; 10];
    let (mut n, mut at) = (number, digits.len());
    loop {
        at -= 1;
        digits[at] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    let mut len = 0;
    for part in [prefix, &digits[at..], suffix, b"\0"] {
        let Some(room) = into.get_mut(len..len + part.len()) else { return &[] };
        room.copy_from_slice(part);
        len += part.len();
    }
    &into[..len]
}

/// Gives each thread of this process until `give` says no, which is the answer then; also `false` where they cannot be
/// listed.
pub fn threads(mut give: impl FnMut(u32) -> bool) -> bool {
    let Some(fd) = open(b"/proc/self/task\0") else { return false };
    #[repr(align(8))]
    struct Entries([u8; 1024]);
    let mut entries = Entries([0; 1024]);
    let listed = loop {
        let a = [fd, entries.0.as_mut_ptr() as usize, entries.0.len(), 0, 0, 0];
        // SAFETY: the kernel writes at most as much as there is room
        let n = unsafe { call(libc::SYS_getdents64, a) };
        if n <= 0 {
            break n == 0;
        }
        let mut rest = entries.0.get(..n as usize).unwrap_or(&[]);
        let mut goes_on = true;
        // inode (8), offset (8), length (2), type (1), name
        while let Some(length) = rest.get(16..18).map(|b| usize::from(u16::from_ne_bytes([b[0], b[1]]))) {
            let name = rest.get(19..length).unwrap_or(&[]).split(|&b| b == 0).next().unwrap_or(&[]);
            let tid = name.iter().try_fold(0u64, |n, &b| crate::process::digit(n, b)).filter(|_| !name.is_empty());
            goes_on = goes_on && tid.is_none_or(|tid| give(tid as u32));
            rest = rest.get(length.max(19)..).unwrap_or(&[]);
        }
        if !goes_on {
            break false;
        }
    };
    close(fd);
    listed
}

/// How long a thread of this process has run, in ns; `None` where it is gone.
pub fn ran_ns(tid: u32) -> Option<u64> {
    // the kernel's number of the clock that counts one thread's time on processors
    const PER_THREAD: c_int = 4;
    const SCHEDULED: c_int = 2;
    let clock = (!(tid as c_int) << 3) | PER_THREAD | SCHEDULED;
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec
    let r = unsafe { call(libc::SYS_clock_gettime, [clock as usize, &raw mut t as usize, 0, 0, 0, 0]) };
    (r == 0).then(|| (t.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(t.tv_nsec as u64))
}

/// Whether a thread of this process sleeps until something wakes it, or has ended.
pub fn sleeps(tid: u32) -> bool {
    let (mut path, mut text) = ([0u8; 64], [0u8; 96]);
    let path = numbered(b"/proc/self/task/", tid, b"/stat", &mut path);
    let Some(fd) = open(path) else { return false };
    let a = [fd, text.as_mut_ptr() as usize, text.len(), 0, 0, 0];
    // SAFETY: the kernel writes at most as much as there is room
    let n = unsafe { call(libc::SYS_read, a) };
    close(fd);
    let text = text.get(..n.max(0) as usize).unwrap_or(&[]);
    // after the name, which may hold spaces and parentheses
    let state = text.iter().rposition(|&b| b == b')').and_then(|at| text.get(at + 2));
    matches!(state, Some(b'S' | b'Z'))
}

/// Reads the beginning of a file whose path ends in a zero byte; how many bytes there were.
pub fn slurp(path: &[u8], into: &mut [u8]) -> usize {
    let Some(fd) = open(path) else { return 0 };
    let done = fill(fd, into);
    close(fd);
    done
}

/// Gives each line of a file whose path ends in a zero byte, lines longer than 1 KiB in pieces. The buffer is small,
/// since so may be the stack of the thread at hand.
pub fn lines(path: &[u8], mut give: impl FnMut(&[u8])) {
    let Some(fd) = open(path) else { return };
    let (mut text, mut have) = ([0u8; 1024], 0);
    loop {
        let new = fill(fd, text.get_mut(have..).unwrap_or(&mut []));
        have += new;
        let mut done = 0;
        while let Some(n) = text[done..have].iter().position(|&b| b == b'\n') {
            give(&text[done..done + n]);
            done += n + 1;
        }
        if new == 0 || done == 0 {
            give(&text[done..have]);
            done = have;
        }
        if new == 0 {
            break;
        }
        text.copy_within(done..have, 0);
        have -= done;
    }
    close(fd);
}

/// The program's scatter list as a slice; empty where it is nonsense, which the kernel will say.
///
/// # Safety
/// `iov` is null or points to `count` entries, as the C function asks for.
pub unsafe fn iovs<'a>(iov: *const iovec, count: usize) -> &'a [iovec] {
    if iov.is_null() || count == 0 || count > 1024 {
        return &[];
    }
    // SAFETY: the caller's promise
    unsafe { core::slice::from_raw_parts(iov, count) }
}
