//! The functions that the hooks stand before: what the program would have called without this library.
//!
//! They are looked up when the library is loaded. A call from before that goes to the kernel directly, as does one of
//! a function that this C library does not have.

use core::ffi::CStr;
use core::sync::atomic::{AtomicUsize, Ordering::*};
use libc::*;

/// Looks `name` up after this library; 0 where there is none.
pub fn next(name: &CStr) -> usize {
    // SAFETY: a C string; the loader's own lock is all that this takes
    unsafe { dlsym(RTLD_NEXT, name.as_ptr()) as usize }
}

/// `errno` of a function that this C library does not have.
pub fn missing() -> isize {
    crate::sys::ret(-(ENOSYS as isize))
}

macro_rules! functions {
    ($($name:ident($($a:ident: $t:ty),*) -> $r:ty = $direct:expr;)*) => {
        #[allow(non_upper_case_globals)]
        mod found {
            use super::*;
            $(pub static $name: AtomicUsize = AtomicUsize::new(0);)*
        }

        /// Looks all of them up.
        pub fn resolve() {
            vfork();
            SYSCALL.store(next(c"syscall"), Release);
            $(
                const { assert!(!stringify!($name).is_empty()) };
                // SAFETY: the literal ends in its only zero byte
                let name = unsafe { CStr::from_bytes_with_nul_unchecked(concat!(stringify!($name), "\0").as_bytes()) };
                found::$name.store(next(name), Release);
            )*
        }

        $(
            /// The function after the hook of this name.
            ///
            /// # Safety
            /// As the C function's own.
            #[inline]
            #[allow(clippy::too_many_arguments, non_snake_case)]
            pub unsafe fn $name($($a: $t),*) -> $r {
                let p = found::$name.load(Relaxed);
                if p == 0 {
                    // SAFETY: the caller's promise
                    #[allow(unused_unsafe)]
                    return unsafe { $direct };
                }
                // SAFETY: the loader gave this address for this name, whose type is this; it may unwind where a thread
                // is cancelled
                let f: unsafe extern "C-unwind" fn($($t),*) -> $r = unsafe { core::mem::transmute(p) };
                // SAFETY: the caller's promise
                unsafe { f($($a),*) }
            }
        )*
    };
}

macro_rules! kernel {
    ($nr:ident $(, $a:expr)*) => {{
        #[allow(unused_mut, unused_assignments)]
        let a = { let mut a = [0usize; 6]; let mut i = 0; $( a[i] = $a as usize; i += 1; )* let _ = i; a };
        crate::sys::ret(crate::sys::call(libc::$nr, a)) as _
    }};
}

/// What a thread is started with.
// SAFETY: whoever calls one keeps to what its program meant it for
pub type Start = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;

functions! {
    read(fd: c_int, buf: *mut c_void, n: usize) -> isize = kernel!(SYS_read, fd, buf, n);
    write(fd: c_int, buf: *const c_void, n: usize) -> isize = kernel!(SYS_write, fd, buf, n);
    readv(fd: c_int, iov: *const iovec, n: c_int) -> isize = kernel!(SYS_readv, fd, iov, n);
    writev(fd: c_int, iov: *const iovec, n: c_int) -> isize = kernel!(SYS_writev, fd, iov, n);
    preadv2(fd: c_int, iov: *const iovec, n: c_int, at: off_t, flags: c_int) -> isize =
        kernel!(SYS_preadv2, fd, iov, n, at, 0, flags);
    pwritev2(fd: c_int, iov: *const iovec, n: c_int, at: off_t, flags: c_int) -> isize =
        kernel!(SYS_pwritev2, fd, iov, n, at, 0, flags);
    send(fd: c_int, buf: *const c_void, n: usize, flags: c_int) -> isize = kernel!(SYS_sendto, fd, buf, n, flags);
    sendto(fd: c_int, buf: *const c_void, n: usize, flags: c_int, to: *const sockaddr, len: socklen_t) -> isize =
        kernel!(SYS_sendto, fd, buf, n, flags, to, len);
    sendmsg(fd: c_int, m: *const msghdr, flags: c_int) -> isize = kernel!(SYS_sendmsg, fd, m, flags);
    sendmmsg(fd: c_int, m: *mut mmsghdr, n: c_uint, flags: c_int) -> c_int = kernel!(SYS_sendmmsg, fd, m, n, flags);
    recv(fd: c_int, buf: *mut c_void, n: usize, flags: c_int) -> isize = kernel!(SYS_recvfrom, fd, buf, n, flags);
    recvfrom(fd: c_int, buf: *mut c_void, n: usize, flags: c_int, from: *mut sockaddr, len: *mut socklen_t) -> isize =
        kernel!(SYS_recvfrom, fd, buf, n, flags, from, len);
    recvmsg(fd: c_int, m: *mut msghdr, flags: c_int) -> isize = kernel!(SYS_recvmsg, fd, m, flags);
    recvmmsg(fd: c_int, m: *mut mmsghdr, n: c_uint, flags: c_int, t: *mut timespec) -> c_int =
        kernel!(SYS_recvmmsg, fd, m, n, flags, t);
    __read_chk(fd: c_int, buf: *mut c_void, n: usize, room: usize) -> isize = read(fd, buf, n.min(room));
    __recv_chk(fd: c_int, buf: *mut c_void, n: usize, room: usize, flags: c_int) -> isize =
        recv(fd, buf, n.min(room), flags);
    __recvfrom_chk(fd: c_int, buf: *mut c_void, n: usize, room: usize, flags: c_int, from: *mut sockaddr,
        len: *mut socklen_t) -> isize =
        recvfrom(fd, buf, n.min(room), flags, from, len);
    __poll_chk(fds: *mut pollfd, n: nfds_t, timeout: c_int, room: usize) -> c_int =
        poll(fds, n.min((room / size_of::<pollfd>()) as nfds_t), timeout);
    __ppoll_chk(fds: *mut pollfd, n: nfds_t, t: *const timespec, mask: *const sigset_t, room: usize) -> c_int =
        ppoll(fds, n.min((room / size_of::<pollfd>()) as nfds_t), t, mask);
    sendfile(to: c_int, from: c_int, at: *mut off_t, n: usize) -> isize = kernel!(SYS_sendfile, to, from, at, n);
    sendfile64(to: c_int, from: c_int, at: *mut off_t, n: usize) -> isize = kernel!(SYS_sendfile, to, from, at, n);
    splice(from: c_int, at: *mut loff_t, to: c_int, to_at: *mut loff_t, n: usize, flags: c_uint) -> isize =
        kernel!(SYS_splice, from, at, to, to_at, n, flags);
    socket(domain: c_int, ty: c_int, protocol: c_int) -> c_int = kernel!(SYS_socket, domain, ty, protocol);
    socketpair(domain: c_int, ty: c_int, protocol: c_int, fds: *mut c_int) -> c_int =
        kernel!(SYS_socketpair, domain, ty, protocol, fds);
    listen(fd: c_int, n: c_int) -> c_int = kernel!(SYS_listen, fd, n);
    accept(fd: c_int, a: *mut sockaddr, len: *mut socklen_t) -> c_int = kernel!(SYS_accept4, fd, a, len, 0);
    accept4(fd: c_int, a: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int =
        kernel!(SYS_accept4, fd, a, len, flags);
    connect(fd: c_int, a: *const sockaddr, len: socklen_t) -> c_int = kernel!(SYS_connect, fd, a, len);
    aio_read(a: *mut aiocb) -> c_int = missing() as _;
    aio_read64(a: *mut aiocb) -> c_int = missing() as _;
    aio_write(a: *mut aiocb) -> c_int = missing() as _;
    aio_write64(a: *mut aiocb) -> c_int = missing() as _;
    getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int =
        kernel!(SYS_getsockopt, fd, level, name, value, len);
    shutdown(fd: c_int, how: c_int) -> c_int = kernel!(SYS_shutdown, fd, how);
    pipe(fds: *mut c_int) -> c_int = kernel!(SYS_pipe2, fds, 0);
    pipe2(fds: *mut c_int, flags: c_int) -> c_int = kernel!(SYS_pipe2, fds, flags);
    dup(fd: c_int) -> c_int = kernel!(SYS_dup, fd);
    dup2(from: c_int, to: c_int) -> c_int =
        if from == to { kernel!(SYS_fcntl, from, F_GETFD) } else { kernel!(SYS_dup3, from, to, 0) };
    dup3(from: c_int, to: c_int, flags: c_int) -> c_int = kernel!(SYS_dup3, from, to, flags);
    fcntl(fd: c_int, cmd: c_int, arg: usize) -> c_int = kernel!(SYS_fcntl, fd, cmd, arg);
    fcntl64(fd: c_int, cmd: c_int, arg: usize) -> c_int = kernel!(SYS_fcntl, fd, cmd, arg);
    close(fd: c_int) -> c_int = kernel!(SYS_close, fd);
    close_range(from: c_uint, to: c_uint, flags: c_int) -> c_int = kernel!(SYS_close_range, from, to, flags);
    closefrom(from: c_int) -> () = { let _: c_int = kernel!(SYS_close_range, from, c_uint::MAX, 0); };
    fclose(file: *mut FILE) -> c_int = { let _ = file; missing() as c_int };
    fdopen(fd: c_int, mode: *const c_char) -> *mut FILE = { let _ = (fd, mode); missing(); core::ptr::null_mut() };
    poll(fds: *mut pollfd, n: nfds_t, timeout: c_int) -> c_int = poll_by_kernel(fds, n, timeout);
    ppoll(fds: *mut pollfd, n: nfds_t, t: *const timespec, mask: *const sigset_t) -> c_int =
        kernel!(SYS_ppoll, fds, n, t, mask, 8);
    select(n: c_int, r: *mut fd_set, w: *mut fd_set, e: *mut fd_set, t: *mut timeval) -> c_int =
        select_by_kernel(n, r, w, e, t);
    pselect(n: c_int, r: *mut fd_set, w: *mut fd_set, e: *mut fd_set, t: *const timespec,
        mask: *const sigset_t) -> c_int =
        { let _ = (n, r, w, e, t, mask); missing() as c_int };
    epoll_create(n: c_int) -> c_int =
        if n <= 0 { crate::sys::ret(-(EINVAL as isize)) as c_int } else { kernel!(SYS_epoll_create1, 0) };
    epoll_create1(flags: c_int) -> c_int = kernel!(SYS_epoll_create1, flags);
    epoll_ctl(ep: c_int, op: c_int, fd: c_int, e: *mut epoll_event) -> c_int = kernel!(SYS_epoll_ctl, ep, op, fd, e);
    epoll_wait(ep: c_int, e: *mut epoll_event, n: c_int, timeout: c_int) -> c_int =
        kernel!(SYS_epoll_pwait, ep, e, n, timeout, 0, 8);
    epoll_pwait(ep: c_int, e: *mut epoll_event, n: c_int, timeout: c_int, mask: *const sigset_t) -> c_int =
        kernel!(SYS_epoll_pwait, ep, e, n, timeout, mask, 8);
    epoll_pwait2(ep: c_int, e: *mut epoll_event, n: c_int, t: *const timespec, mask: *const sigset_t) -> c_int =
        kernel!(SYS_epoll_pwait2, ep, e, n, t, mask, 8);
    eventfd(n: c_uint, flags: c_int) -> c_int = kernel!(SYS_eventfd2, n, flags);
    signalfd(fd: c_int, mask: *const sigset_t, flags: c_int) -> c_int = kernel!(SYS_signalfd4, fd, mask, 8, flags);
    timerfd_create(clock: clockid_t, flags: c_int) -> c_int = kernel!(SYS_timerfd_create, clock, flags);
    fork() -> pid_t = kernel!(SYS_clone, SIGCHLD);
    _Fork() -> pid_t = kernel!(SYS_clone, SIGCHLD);
    execve(path: *const c_char, argv: *const *const c_char, env: *const *const c_char) -> c_int =
        kernel!(SYS_execve, path, argv, env);
    execveat(dir: c_int, path: *const c_char, argv: *const *const c_char, env: *const *const c_char,
        flags: c_int) -> c_int =
        kernel!(SYS_execveat, dir, path, argv, env, flags);
    fexecve(fd: c_int, argv: *const *const c_char, env: *const *const c_char) -> c_int =
        kernel!(SYS_execveat, fd, c"".as_ptr(), argv, env, AT_EMPTY_PATH);
    execvpe(file: *const c_char, argv: *const *const c_char, env: *const *const c_char) -> c_int =
        { let _ = (file, argv, env); missing() as c_int };
    posix_spawn(pid: *mut pid_t, path: *const c_char, f: *const c_void, a: *const c_void, argv: *const *mut c_char,
        env: *const *mut c_char) -> c_int =
        { let _ = (pid, path, f, a, argv, env); ENOSYS };
    posix_spawnp(pid: *mut pid_t, path: *const c_char, f: *const c_void, a: *const c_void,
        argv: *const *mut c_char, env: *const *mut c_char) -> c_int =
        { let _ = (pid, path, f, a, argv, env); ENOSYS };
    pthread_create(t: *mut pthread_t, a: *const pthread_attr_t, f: Start, arg: *mut c_void) -> c_int =
        { let _ = (t, a, f, arg); EAGAIN };
    pthread_setname_np(t: pthread_t, name: *const c_char) -> c_int = { let _ = (t, name); ENOSYS };
    getrlimit(resource: c_int, l: *mut rlimit64) -> c_int = kernel!(SYS_prlimit64, 0, resource, 0, l);
    getrlimit64(resource: c_int, l: *mut rlimit64) -> c_int = kernel!(SYS_prlimit64, 0, resource, 0, l);
    setrlimit(resource: c_int, l: *const rlimit64) -> c_int = kernel!(SYS_prlimit64, 0, resource, l, 0);
    setrlimit64(resource: c_int, l: *const rlimit64) -> c_int = kernel!(SYS_prlimit64, 0, resource, l, 0);
    prlimit(pid: pid_t, resource: c_int, l: *const rlimit64, old: *mut rlimit64) -> c_int =
        kernel!(SYS_prlimit64, pid, resource, l, old);
    prlimit64(pid: pid_t, resource: c_int, l: *const rlimit64, old: *mut rlimit64) -> c_int =
        kernel!(SYS_prlimit64, pid, resource, l, old);
    prctl(op: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int = kernel!(SYS_prctl, op, a, b, c, d);
    syscall(nr: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long =
        crate::sys::ret(crate::sys::call(nr, [a, b, c, d, e, f])) as c_long;
    nanosleep(t: *const timespec, left: *mut timespec) -> c_int = kernel!(SYS_nanosleep, t, left);
    clock_nanosleep(clock: clockid_t, flags: c_int, t: *const timespec, left: *mut timespec) -> c_int =
        -crate::sys::call(SYS_clock_nanosleep, [clock as usize, flags as usize, t as usize, left as usize, 0, 0])
            as c_int;
    usleep(us: c_uint) -> c_int = { let _ = us; missing() as c_int };
    sleep(s: c_uint) -> c_uint = { missing(); s };
    pthread_cond_timedwait(c: *mut pthread_cond_t, m: *mut pthread_mutex_t, t: *const timespec) -> c_int =
        { let _ = (c, m, t); ENOSYS };
    pthread_cond_clockwait(c: *mut pthread_cond_t, m: *mut pthread_mutex_t, clock: clockid_t,
        t: *const timespec) -> c_int =
        { let _ = (c, m, clock, t); ENOSYS };
    sem_timedwait(s: *mut sem_t, t: *const timespec) -> c_int = { let _ = (s, t); missing() as c_int };
    sem_clockwait(s: *mut sem_t, clock: clockid_t, t: *const timespec) -> c_int =
        { let _ = (s, clock, t); missing() as c_int };
    _exit(code: c_int) -> () = { let _ = crate::sys::call(SYS_exit_group, [code as usize, 0, 0, 0, 0, 0]); };
    getaddrinfo(node: *const c_char, service: *const c_char, hints: *const addrinfo, res: *mut *mut addrinfo) -> c_int =
        { let _ = (node, service, hints, res); EAI_SYSTEM };
}

/// Address of the real `syscall`, for where it is jumped to.
pub static SYSCALL: AtomicUsize = AtomicUsize::new(0);

/// Address of the real `vfork`: it is jumped to, not called.
pub fn vfork() -> usize {
    static VFORK: AtomicUsize = AtomicUsize::new(0);
    let known = VFORK.load(Relaxed);
    if known != 0 {
        return known;
    }
    // before the constructor ran, or where there is none: a fork does what a vfork may do
    let found = match next(c"vfork") {
        0 => next(c"fork"),
        p => p,
    };
    VFORK.store(found, Relaxed);
    found
}

/// # Safety
/// As `poll`'s.
unsafe fn poll_by_kernel(fds: *mut pollfd, n: nfds_t, timeout: c_int) -> c_int {
    let t = timespec { tv_sec: i64::from(timeout / 1000), tv_nsec: i64::from(timeout % 1000) * 1_000_000 };
    let p = if timeout < 0 { core::ptr::null() } else { &raw const t };
    // SAFETY: the caller's promise
    unsafe { kernel!(SYS_ppoll, fds, n, p, 0, 8) }
}

/// # Safety
/// As `select`'s.
unsafe fn select_by_kernel(n: c_int, r: *mut fd_set, w: *mut fd_set, e: *mut fd_set, t: *mut timeval) -> c_int {
    // SAFETY: `t` is null or a timeval, as the caller promised
    let left = unsafe { t.as_ref() }.map(|t| timespec { tv_sec: t.tv_sec, tv_nsec: t.tv_usec.saturating_mul(1000) });
    let p = left.as_ref().map_or(core::ptr::null(), |t| &raw const *t);
    // SAFETY: the caller's promise
    unsafe { kernel!(SYS_pselect6, n, r, w, e, p, 0) }
}
