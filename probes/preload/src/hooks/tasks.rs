//! Processes, threads and programs.

use super::environment::{self, Environment};
use super::io;
use crate::process::{self, watch};
use crate::receive::Receive;
use crate::record::Call;
use crate::transmit::Send;
use crate::{arena, fds, real, sys};
use core::ptr::null;
use core::sync::atomic::{AtomicU32, Ordering::*};
use libc::*;
use wakepath_wire as w;
use wakepath_wire::arena::aside;

/// What a new thread is started with.
struct Thread {
    start: real::Start,
    arg: *mut c_void,
    parent: (u32, u32),
}

/// Threads that were created and have not begun yet: a fixed number of places, so that nothing is allocated.
const PLACES: usize = 256;
static TAKEN: [AtomicU32; PLACES] = [const { AtomicU32::new(0) }; PLACES];
static mut WAITING: [core::mem::MaybeUninit<Thread>; PLACES] = [const { core::mem::MaybeUninit::uninit() }; PLACES];

fn place() -> Option<usize> {
    (0..PLACES).find(|&i| TAKEN[i].compare_exchange(0, 1, AcqRel, Relaxed).is_ok())
}

// SAFETY: called by the C library as the new thread, with the place that `pthread_create` filled
unsafe extern "C-unwind" fn begin(place: *mut c_void) -> *mut c_void {
    let i = place as usize;
    // SAFETY: `pthread_create` filled the place for this thread alone
    let t = unsafe { (*(&raw mut WAITING).cast::<core::mem::MaybeUninit<Thread>>().add(i)).assume_init_read() };
    TAKEN[i % PLACES].store(0, Release);
    if let Some(me) = watch() {
        process::step(&me, w::TASK_FORK, t.parent);
        process::at_exit();
    }
    // SAFETY: the program's own function and argument
    unsafe { (t.start)(t.arg) }
}

hooks! {
    /// `pthread_create`: the new thread says who made it.
    fn pthread_create(t: *mut pthread_t, a: *const pthread_attr_t, start: real::Start, arg: *mut c_void) -> c_int {
        let Some(me) = watch() else { return real::pthread_create(t, a, start, arg) };
        let Some(i) = place() else { return real::pthread_create(t, a, start, arg) };
        let at = (&raw mut WAITING).cast::<core::mem::MaybeUninit<Thread>>().add(i);
        (*at).write(Thread { start, arg, parent: (me.tgid, me.tid) });
        let r = real::pthread_create(t, a, begin, i as *mut c_void);
        if r != 0 {
            TAKEN[i].store(0, Release);
        }
        r
    }

    /// `fork`: the child says so before it does anything.
    fn fork() -> pid_t {
        let _ = watch();
        let r = real::fork();
        if r == 0 {
            let error = sys::errno();
            process::after_fork();
            sys::set_errno(error);
        }
        r
    }

    /// `_Fork`.
    fn _Fork() -> pid_t {
        let _ = watch();
        let r = real::_Fork();
        if r == 0 {
            let error = sys::errno();
            process::after_fork();
            sys::set_errno(error);
        }
        r
    }

    /// `execve`.
    fn execve(path: *const c_char, argv: *const *const c_char, env: *const *const c_char) -> c_int {
        executes(path);
        real::execve(path, argv, Environment::new().complete(env))
    }

    /// `execv`.
    fn execv(path: *const c_char, argv: *const *const c_char) -> c_int {
        executes(path);
        real::execve(path, argv, Environment::new().complete(environ.cast()))
    }

    /// `execvp`.
    fn execvp(file: *const c_char, argv: *const *const c_char) -> c_int {
        executes(null());
        real::execvpe(file, argv, Environment::new().complete(environ.cast()))
    }

    /// `execvpe`.
    fn execvpe(file: *const c_char, argv: *const *const c_char, env: *const *const c_char) -> c_int {
        executes(null());
        real::execvpe(file, argv, Environment::new().complete(env))
    }

    /// `execveat`.
    fn execveat(
        dir: c_int, path: *const c_char, argv: *const *const c_char, env: *const *const c_char, flags: c_int,
    ) -> c_int {
        executes(null());
        real::execveat(dir, path, argv, Environment::new().complete(env), flags)
    }

    /// `fexecve`.
    fn fexecve(fd: c_int, argv: *const *const c_char, env: *const *const c_char) -> c_int {
        executes(null());
        real::fexecve(fd, argv, Environment::new().complete(env))
    }

    /// `posix_spawn`.
    fn posix_spawn(
        pid: *mut pid_t, path: *const c_char, f: *const c_void, a: *const c_void, argv: *const *mut c_char,
        env: *const *mut c_char,
    ) -> c_int {
        environment::judge(path);
        let (mut own, entry): (pid_t, u64) = (0, sys::now());
        let to = if pid.is_null() { &raw mut own } else { pid };
        spawned(real::posix_spawn(to, path, f, a, argv, Environment::new().complete(env.cast()).cast()), to, entry)
    }

    /// `posix_spawnp`.
    fn posix_spawnp(
        pid: *mut pid_t, file: *const c_char, f: *const c_void, a: *const c_void, argv: *const *mut c_char,
        env: *const *mut c_char,
    ) -> c_int {
        let (mut own, entry): (pid_t, u64) = (0, sys::now());
        let to = if pid.is_null() { &raw mut own } else { pid };
        spawned(real::posix_spawnp(to, file, f, a, argv, Environment::new().complete(env.cast()).cast()), to, entry)
    }

    /// `pthread_setname_np`.
    fn pthread_setname_np(t: pthread_t, name: *const c_char) -> c_int {
        let r = real::pthread_setname_np(t, name);
        if let Some(me) = watch().filter(|_| r == 0 && t == pthread_self()) {
            process::step(&me, w::TASK_NAME, (0, 0));
        }
        r
    }

    /// `prctl`; variadic in C, see `fcntl`.
    fn prctl(op: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int {
        if op == crate::marks::JOIN {
            return crate::marks::join(a as *mut crate::marks::Channel);
        }
        if op == PR_SET_SECCOMP {
            arena::leave();
        }
        let r = real::prctl(op, a, b, c, d);
        if let Some(me) = watch().filter(|_| r == 0 && op == PR_SET_NAME) {
            process::step(&me, w::TASK_NAME, (0, 0));
        }
        r
    }

    /// `_exit`.
    fn _exit(code: c_int) -> () {
        process::ended(code);
        real::_exit(code)
    }

    /// `_Exit`.
    fn _Exit(code: c_int) -> () {
        process::ended(code);
        real::_exit(code)
    }

    /// `getaddrinfo`: the C library asks name servers by calls of its own, which are not seen; the wait for them is.
    fn getaddrinfo(
        node: *const c_char, service: *const c_char, hints: *const addrinfo, res: *mut *mut addrinfo,
    ) -> c_int {
        let Some(me) = watch() else { return real::getaddrinfo(node, service, hints, res) };
        let entry = sys::now();
        let r = real::getaddrinfo(node, service, hints, res);
        let error = sys::errno();
        let call = Call::done(entry, w::NO_SYSCALL.into());
        crate::record::wait(&me, call, -1, &crate::record::Cause::Unknown);
        sys::set_errno(error);
        r
    }
}

/// Before another program takes this one's place. `path`: where it is, if that is known.
fn executes(path: *const c_char) {
    let error = sys::errno();
    process::executes();
    // SAFETY: null, or the program's own path
    unsafe { environment::judge(path) };
    sys::set_errno(error);
}

/// A child that another program was started in: its parent says so, since its own constructor cannot know.
///
/// # Safety
/// `pid` is where the child's id is, if `r` is 0.
unsafe fn spawned(r: c_int, pid: *const pid_t, entry: u64) -> c_int {
    if let Some(me) = watch().filter(|_| r == 0) {
        // SAFETY: the caller's promise
        let child = unsafe { *pid } as u32;
        process::child(&me, child, entry);
    }
    r
}

#[allow(non_upper_case_globals)] // the C library's names
fn noticed(nr: c_long, a: usize, b: usize, c: usize, r: c_long) {
    match nr {
        SYS_io_uring_setup => {
            if let Some(me) = watch() {
                me.aside(aside::IO_URING);
            }
        }
        SYS_io_submit => submitted(c as *const *const Asked, b),
        _ if process::lent() => {}
        SYS_close => {
            fds::forget(a as c_int);
        }
        SYS_close_range if c == 0 => {
            fds::forget_range(a as c_int, c_int::try_from(b).unwrap_or(c_int::MAX));
        }
        SYS_dup3 => fds::copied(a as c_int, b as c_int),
        SYS_dup => fds::copied(a as c_int, r as c_int),
        SYS_socket | SYS_accept4 | SYS_accept | SYS_openat | SYS_memfd_create | SYS_pidfd_open | SYS_pidfd_getfd => {
            fds::forget(r as c_int);
        }
        _ => {}
    }
}

/// Linux's `struct iocb`, as far as it is looked at.
#[repr(C)]
struct Asked {
    data: u64,
    key_and_flags: u64,
    opcode: u16,
    priority: i16,
    fd: u32,
}

/// `n` calls were handed to the kernel to be carried out by itself. Of those on flows nothing more is seen, which is said.
fn submitted(calls: *const *const Asked, n: usize) {
    let Some(me) = watch() else { return };
    for i in 0..n {
        // SAFETY: the kernel has just read these
        let fd = unsafe { (**calls.add(i)).fd } as c_int;
        if fds::flow(&me, fd).is_some() {
            me.aside(aside::DESCRIPTOR);
        }
    }
}

/// `syscall` but for calls that make a task; variadic in C, see `fcntl`. What changes descriptors after our back is
/// noticed.
///
/// # Safety
/// As the C function's own.
#[allow(non_upper_case_globals)] // the C library's names
unsafe extern "C-unwind" fn watched(nr: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long {
    if nr == SYS_seccomp {
        arena::leave();
    }
    // SAFETY: the program's own arguments
    let plain = |c: usize| unsafe { real::syscall(nr, a, b, c, d, e, f) };
    let r = match nr {
        // libuv's way to these
        SYS_recvmmsg => {
            let plain = |n| plain(n as usize) as c_int;
            // SAFETY: as of the C function, which takes the same arguments
            unsafe { io::receive_many(a as c_int, b as *mut mmsghdr, c as c_uint, d as c_int, plain) }.into()
        }
        // SAFETY: see above
        SYS_sendmmsg => unsafe { io::send_many(a as c_int, b as *mut mmsghdr, || plain(c) as c_int) }.into(),
        SYS_read | SYS_write | SYS_sendto | SYS_recvfrom => {
            // SAFETY: the program's own arguments
            unsafe { told(nr, (a as c_int, b as *mut c_void, c, d as c_int), || plain(c)) }
        }
        _ => plain(c),
    };
    if nr == SYS_futex && r == -1 && sys::errno() == ETIMEDOUT {
        if let Some(me) = watch() {
            crate::rest::else_now(&me);
        }
        sys::set_errno(ETIMEDOUT);
    }
    if arena::header().is_some() && r >= 0 {
        // of those that were handed over, so many were taken
        noticed(nr, a, if nr == SYS_io_submit { r as usize } else { b }, c, r);
    }
    r
}

/// A call that moves bytes, made by its number: never made shorter, but told as if it had been made by its name.
///
/// # Safety
/// The arguments are those of the call that `plain` makes: descriptor, buffer, its length, and flags where it has some.
#[allow(non_upper_case_globals)] // the C library's names
unsafe fn told(
    nr: c_long,
    (fd, at, n, flags): (c_int, *mut c_void, usize, c_int),
    plain: impl FnOnce() -> c_long,
) -> c_long {
    let Some(me) = watch() else { return plain() };
    let error = sys::errno();
    let is_flow = fds::flow(&me, fd).is_some();
    sys::set_errno(error);
    let entry = sys::now();
    let r = plain();
    if is_flow && r > 0 {
        let error = sys::errno();
        let (iov, call) = ([iovec { iov_base: at, iov_len: n }], Call::done(entry, nr));
        match nr {
            SYS_read | SYS_recvfrom => {
                let flags = if nr == SYS_read { 0 } else { flags };
                let c = Receive { fd, iov: &iov, flags, msg: None, nr };
                crate::receive::moved_already(&me, &c, r as isize, call);
            }
            _ => {
                if let Some(f) = fds::flow(&me, fd) {
                    let c = Send { fd, iov: &iov, to: (core::ptr::null(), 0), nr };
                    crate::transmit::tell(&me, f, f.id(), &c, r as isize, call, 0);
                }
            }
        }
        sys::set_errno(error);
    }
    r
}

/// `syscall`. A call that makes a task may return twice on one stack, so the real function is jumped to.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
// SAFETY: arguments and stack are as the caller left them, whatever is jumped to
pub unsafe extern "C" fn syscall() -> c_long {
    core::arch::naked_asm!(
        "cmp rdi, {clone}", "je 2f", "cmp rdi, {vfork}", "je 2f", "cmp rdi, {clone3}", "je 2f", "jmp {watched}",
        "2:", "mov rax, [rip + {real}]", "test rax, rax", "jz 3f", "jmp rax", "3:", "jmp {watched}",
        clone = const SYS_clone, vfork = const SYS_vfork, clone3 = const SYS_clone3,
        watched = sym watched, real = sym real::SYSCALL
    )
}

/// See the other one.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
// SAFETY: arguments and stack are as the caller left them, whatever is jumped to
pub unsafe extern "C" fn syscall() -> c_long {
    core::arch::naked_asm!(
        "cmp x0, {clone}", "b.eq 2f", "cmp x0, {clone3}", "b.eq 2f", "b {watched}",
        "2:", "adrp x16, {real}", "ldr x16, [x16, :lo12:{real}]", "cbz x16, 3f", "br x16", "3:", "b {watched}",
        clone = const SYS_clone, clone3 = const SYS_clone3, watched = sym watched, real = sym real::SYSCALL
    )
}

/// `vfork` returns twice, so nothing of ours may stand on the stack: it is only noted that this thread's memory is lent
/// to a child, and the real one is jumped to.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
// SAFETY: the stack is as the caller left it when the real function is jumped to
pub unsafe extern "C" fn vfork() -> pid_t {
    core::arch::naked_asm!("sub rsp, 8", "call {lend}", "add rsp, 8", "jmp rax", lend = sym lend_to_child)
}

/// See the other one.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
// SAFETY: stack and link register are as the caller left them when the real function is jumped to
pub unsafe extern "C" fn vfork() -> pid_t {
    core::arch::naked_asm!(
        "stp x29, x30, [sp, #-16]!", "bl {lend}", "ldp x29, x30, [sp], #16", "br x0",
        lend = sym lend_to_child
    )
}

/// Notes that a vfork child may run in this thread's place; the address of the real `vfork`.
extern "C" fn lend_to_child() -> usize {
    let error = sys::errno();
    process::lend();
    sys::set_errno(error);
    real::vfork()
}
