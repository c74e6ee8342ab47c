//! Plaintext at the calls of TLS libraries (OpenSSL, GnuTLS).
//!
//! A program may have several such libraries, one of its own and one in each plug-in. So the real function is the one that
//! the *caller* would have got: after this library in the global scope, else in the caller's own scope. The caller is
//! known by the return address, which a few instructions hand on.
//!
//! What the TLS library itself does on the socket during such a call is not told: its bytes are the same ones, encrypted.

use crate::flow::Flow;
use crate::process::{self, Me, watch};
use crate::record::{self, Call, Cause, Moved};
use crate::{border, fds, real, sys};
use core::cell::Cell;
use core::ffi::CStr;
use core::sync::atomic::{AtomicUsize, Ordering::*};
use libc::{c_int, c_void, iovec};
use wakepath_wire as w;
use wakepath_wire::arena::aside;

/// A function of a TLS library, and one of the same library that gives a session's descriptor.
struct Function {
    name: &'static CStr,
    descriptor: &'static CStr,
    /// By caller: return address, the real function, the one for the descriptor. Written back to front.
    callers: [[AtomicUsize; 3]; CALLERS],
}

/// Most places in a program that call one such function; further ones are looked up each time.
const CALLERS: usize = 64;

impl Function {
    const fn new(name: &'static CStr, descriptor: &'static CStr) -> Function {
        Function { name, descriptor, callers: [const { [const { AtomicUsize::new(0) }; 3] }; CALLERS] }
    }

    /// The real function for a caller, and the one for the descriptor; 0 where there is none.
    fn get(&self, caller: usize) -> (usize, usize) {
        let first = caller.wrapping_mul(0x9e37_79b9) >> 8;
        for i in 0..8 {
            let c = &self.callers[(first + i) % CALLERS];
            if c[0].load(Acquire) == caller {
                return (c[1].load(Relaxed), c[2].load(Relaxed));
            }
        }
        self.look_up(caller, first)
    }

    #[cold]
    fn look_up(&self, caller: usize, first: usize) -> (usize, usize) {
        let found = match real::next(self.name) {
            0 => match in_library_of(caller, self.name) {
                // the caller found a function of the library by itself, and that one comes here
                0 => in_only_library(self.name),
                p => p,
            },
            p => p,
        };
        let descriptor = if found == 0 { 0 } else { in_library_of(found, self.descriptor) };
        for i in 0..8 {
            let c = &self.callers[(first + i) % CALLERS];
            // a place is claimed before it is filled, and only then can be found
            if c[0].compare_exchange(0, 1, AcqRel, Relaxed).is_ok() {
                c[1].store(found, Relaxed);
                c[2].store(descriptor, Relaxed);
                c[0].store(caller, Release);
                break;
            }
        }
        (found, descriptor)
    }
}

/// `name` in the one TLS library that is loaded, in whatever scope; 0 where there is none, or more than one.
fn in_only_library(name: &CStr) -> usize {
    let mut found = 0;
    for library in [c"libssl.so.3", c"libssl.so.1.1", c"libgnutls.so.30"] {
        // SAFETY: nothing is loaded by this; the library stays loaded from now on
        let p = unsafe {
            let handle = libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            if handle.is_null() { 0 } else { libc::dlsym(handle, name.as_ptr()) as usize }
        };
        if p != 0 && found != 0 {
            return 0;
        }
        found |= p;
    }
    found
}

/// `name` as the loaded object that holds `address` would find it in its own scope; 0 where it would not. The object stays
/// loaded from now on.
fn in_library_of(address: usize, name: &CStr) -> usize {
    // SAFETY: all zeros is a valid answer; the name that it gives is the loader's own
    unsafe {
        let mut info: libc::Dl_info = core::mem::zeroed();
        if libc::dladdr(address as *const c_void, &mut info) == 0 || info.dli_fname.is_null() {
            return 0;
        }
        let handle = libc::dlopen(info.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if handle.is_null() {
            return 0;
        }
        libc::dlsym(handle, name.as_ptr()) as usize
    }
}

thread_local! {
    /// The function of a TLS library that this thread is inside, or 0.
    static UNDER_WAY: Cell<usize> = const { Cell::new(0) };
}

/// Where the loaded object that holds `address` begins; 0 where there is none.
fn base_of(address: usize) -> usize {
    // SAFETY: all zeros is a valid answer
    unsafe {
        let mut info: libc::Dl_info = core::mem::zeroed();
        if libc::dladdr(address as *const c_void, &mut info) == 0 { 0 } else { info.dli_fbase as usize }
    }
}

static SSL_READ: Function = Function::new(c"SSL_read", c"SSL_get_rfd");
static SSL_WRITE: Function = Function::new(c"SSL_write", c"SSL_get_wfd");
static SSL_READ_EX: Function = Function::new(c"SSL_read_ex", c"SSL_get_rfd");
static SSL_WRITE_EX: Function = Function::new(c"SSL_write_ex", c"SSL_get_wfd");
static SSL_HANDSHAKE: Function = Function::new(c"SSL_do_handshake", c"SSL_get_rfd");
static SSL_ACCEPT: Function = Function::new(c"SSL_accept", c"SSL_get_rfd");
static SSL_CONNECT: Function = Function::new(c"SSL_connect", c"SSL_get_rfd");
static GNUTLS_HANDSHAKE: Function = Function::new(c"gnutls_handshake", c"gnutls_transport_get_int");
static GNUTLS_RECV: Function = Function::new(c"gnutls_record_recv", c"gnutls_transport_get_int");
static GNUTLS_SEND: Function = Function::new(c"gnutls_record_send", c"gnutls_transport_get_int");

/// What is moved by a call on a session.
struct Session<'a> {
    me: Me,
    flow: Option<(&'a Flow, u64, c_int)>,
    entry: u64,
}

impl Session<'_> {
    /// # Safety
    /// `descriptor` is 0 or takes a session of the library that `session` is of.
    unsafe fn new(session: *mut c_void, descriptor: usize) -> Option<Self> {
        let me = watch()?;
        let error = sys::errno();
        let fd = if descriptor == 0 {
            -1
        } else {
            // SAFETY: the caller's promise
            unsafe { core::mem::transmute::<usize, unsafe extern "C" fn(*mut c_void) -> c_int>(descriptor)(session) }
        };
        let flow = if fd < 0 { None } else { fds::flow(&me, fd).map(|f| (f, f.id(), fd)) };
        if flow.is_none() {
            me.aside(aside::TLS_NO_FD);
        }
        sys::set_errno(error);
        Some(Session { me, flow, entry: sys::now() })
    }

    /// Tells `bytes` of plaintext in `buf`.
    fn done(&self, sent: bool, buf: *const c_void, bytes: usize) {
        let Some((f, id, fd)) = self.flow else { return };
        let error = sys::errno();
        let call = Call::done(self.entry, w::NO_SYSCALL.into());
        record::wait(&self.me, call, fd, &if sent || bytes == 0 { Cause::Unknown } else { Cause::Flow(f) });
        if bytes > 0 {
            border::give_up(f);
            let iov = [iovec { iov_base: buf.cast_mut(), iov_len: bytes }];
            let flags = w::OPF_PLAIN | f.flags() | f.turn(sent);
            let op = if sent { w::OP_SEND } else { w::OP_RECV };
            let seq_end = f.moved_plain(sent, bytes as u64);
            let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
            record::operation(&self.me, id, call, &Moved { op, bytes, seq_end, flags, iov: &iov, peer: None });
        }
        sys::set_errno(error);
    }
}

// SAFETY: who calls one of these keeps to what the TLS library asks of its callers
type ByCount = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, c_int) -> c_int;
type Handshake = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;
type BySize = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, usize) -> isize;
type WithSize = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, usize, *mut usize) -> c_int;

/// A call on a session, told where its descriptor is a flow.
///
/// # Safety
/// The arguments are those of the function that `f` stands for, and `plain` calls the real one, given its address.
unsafe fn on_session(
    f: &Function,
    caller: usize,
    (session, buf): (*mut c_void, *const c_void),
    sent: bool,
    plain: impl FnOnce(usize) -> (isize, usize),
) -> isize {
    let outer = UNDER_WAY.get();
    // a function of the library that ends in a jump to this one (`SSL_accept`) leaves our own return address
    let caller = if outer != 0 && base_of(caller) == base_of((&raw const SSL_READ) as usize) { outer } else { caller };
    let (real, descriptor) = f.get(caller);
    if real == 0 {
        return -1; // the caller could not have been loaded without it
    }
    let plain = || {
        UNDER_WAY.set(real);
        let told = plain(real);
        UNDER_WAY.set(outer);
        told
    };
    // SAFETY: the caller's promise
    let Some(s) = (unsafe { Session::new(session, descriptor) }) else { return plain().0 };
    process::hush();
    let (result, bytes) = plain();
    process::unhush();
    s.done(sent, buf, bytes);
    result
}

/// # Safety
/// As `SSL_read`'s and `SSL_write`'s, with the return address after them.
unsafe fn by_count(f: &Function, s: *mut c_void, buf: *mut c_void, n: c_int, caller: usize, sent: bool) -> c_int {
    let plain = |real: usize| {
        // SAFETY: the address of the function of this name, and the program's own arguments
        let r = unsafe { core::mem::transmute::<usize, ByCount>(real)(s, buf, n) };
        (r as isize, r.max(0) as usize)
    };
    // SAFETY: the caller's promise
    unsafe { on_session(f, caller, (s, buf), sent, plain) as c_int }
}

/// # Safety
/// As `SSL_do_handshake`'s, with the return address after them.
unsafe fn handshake(f: &Function, s: *mut c_void, caller: usize) -> c_int {
    let plain = |real: usize| {
        // SAFETY: the address of the function of this name, and the program's own session
        (unsafe { core::mem::transmute::<usize, Handshake>(real)(s) } as isize, 0)
    };
    // SAFETY: the caller's promise
    unsafe { on_session(f, caller, (s, core::ptr::null()), false, plain) as c_int }
}

/// # Safety
/// As `gnutls_record_recv`'s and `gnutls_record_send`'s, with the return address after them.
unsafe fn by_size(f: &Function, s: *mut c_void, buf: *mut c_void, n: usize, caller: usize, sent: bool) -> isize {
    let plain = |real: usize| {
        // SAFETY: the address of the function of this name, and the program's own arguments
        let r = unsafe { core::mem::transmute::<usize, BySize>(real)(s, buf, n) };
        // a null buffer goes on with what was given before
        (r, if buf.is_null() { 0 } else { r.max(0) as usize })
    };
    // SAFETY: the caller's promise
    unsafe { on_session(f, caller, (s, buf), sent, plain) }
}

/// # Safety
/// As `SSL_read_ex`'s and `SSL_write_ex`'s, with the return address after them.
unsafe fn with_size(
    f: &Function,
    (s, buf): (*mut c_void, *mut c_void),
    n: usize,
    moved: *mut usize,
    caller: usize,
    sent: bool,
) -> c_int {
    let plain = |real: usize| {
        // SAFETY: the address of the function of this name, and the program's own arguments
        unsafe {
            let r = core::mem::transmute::<usize, WithSize>(real)(s, buf, n, moved);
            (r as isize, if r == 1 && !moved.is_null() { *moved } else { 0 })
        }
    };
    // SAFETY: the caller's promise
    unsafe { on_session(f, caller, (s, buf), sent, plain) as c_int }
}

macro_rules! with_return_address {
    ($($(#[$m:meta])* $name:ident => $handler:ident, $x86:literal, $arm:literal;)*) => {
        $(
            $(#[$m])*
            ///
            /// # Safety
            /// As the C function's own.
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            // SAFETY: the return address goes into the register after the last argument's; nothing else is touched
            pub unsafe extern "C" fn $name() {
                #[cfg(target_arch = "x86_64")]
                core::arch::naked_asm!(concat!("mov ", $x86, ", [rsp]"), "jmp {f}", f = sym $handler);
                #[cfg(target_arch = "aarch64")]
                core::arch::naked_asm!(concat!("mov ", $arm, ", x30"), "b {f}", f = sym $handler);
            }
        )*
    };
}

with_return_address! {
    /// `SSL_read`.
    SSL_read => ssl_read, "rcx", "x3";
    /// `SSL_write`.
    SSL_write => ssl_write, "rcx", "x3";
    /// `SSL_read_ex`.
    SSL_read_ex => ssl_read_ex, "r8", "x4";
    /// `SSL_write_ex`.
    SSL_write_ex => ssl_write_ex, "r8", "x4";
    /// `SSL_do_handshake`.
    SSL_do_handshake => ssl_handshake, "rsi", "x1";
    /// `SSL_accept`.
    SSL_accept => ssl_accept, "rsi", "x1";
    /// `SSL_connect`.
    SSL_connect => ssl_connect, "rsi", "x1";
    /// `gnutls_handshake`.
    gnutls_handshake => gnutls_hand, "rsi", "x1";
    /// `gnutls_record_recv`.
    gnutls_record_recv => gnutls_recv, "rcx", "x3";
    /// `gnutls_record_send`.
    gnutls_record_send => gnutls_send, "rcx", "x3";
}

macro_rules! handlers {
    ($($name:ident($($a:ident: $t:ty),*) -> $r:ty $body:block)*) => {
        $(
            // SAFETY: entered by the function of the same name, with its arguments and its return address
            unsafe extern "C-unwind" fn $name($($a: $t),*) -> $r {
                // SAFETY: the program's own arguments
                unsafe { $body }
            }
        )*
    };
}

handlers! {
    ssl_read(s: *mut c_void, buf: *mut c_void, n: c_int, caller: usize) -> c_int {
        by_count(&SSL_READ, s, buf, n, caller, false)
    }
    ssl_write(s: *mut c_void, buf: *mut c_void, n: c_int, caller: usize) -> c_int {
        by_count(&SSL_WRITE, s, buf, n, caller, true)
    }
    ssl_read_ex(s: *mut c_void, buf: *mut c_void, n: usize, moved: *mut usize, caller: usize) -> c_int {
        with_size(&SSL_READ_EX, (s, buf), n, moved, caller, false)
    }
    ssl_write_ex(s: *mut c_void, buf: *mut c_void, n: usize, moved: *mut usize, caller: usize) -> c_int {
        with_size(&SSL_WRITE_EX, (s, buf), n, moved, caller, true)
    }
    ssl_handshake(s: *mut c_void, caller: usize) -> c_int {
        handshake(&SSL_HANDSHAKE, s, caller)
    }
    ssl_accept(s: *mut c_void, caller: usize) -> c_int {
        handshake(&SSL_ACCEPT, s, caller)
    }
    ssl_connect(s: *mut c_void, caller: usize) -> c_int {
        handshake(&SSL_CONNECT, s, caller)
    }
    gnutls_hand(s: *mut c_void, caller: usize) -> c_int {
        handshake(&GNUTLS_HANDSHAKE, s, caller)
    }
    gnutls_recv(s: *mut c_void, buf: *mut c_void, n: usize, caller: usize) -> isize {
        by_size(&GNUTLS_RECV, s, buf, n, caller, false)
    }
    gnutls_send(s: *mut c_void, buf: *mut c_void, n: usize, caller: usize) -> isize {
        by_size(&GNUTLS_SEND, s, buf, n, caller, true)
    }
}
