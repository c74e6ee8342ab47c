//! What a program that is executed needs to be watched: this library and the arena's name in its environment.

use crate::arena;
use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::sync::atomic::{AtomicUsize, Ordering::*};
use libc::{c_char, c_void};
use wakepath_wire::program::{HEAD_BYTES, unseen};

/// `WAKEPATH_ARENA=…` and `LD_PRELOAD=…` as they were when this program began.
static ARENA: Text<768> = Text(UnsafeCell::new([0; 768]));
static PRELOAD: Text<1024> = Text(UnsafeCell::new([0; 1024]));
/// Length of the library's path in `PRELOAD`, or 0 before `remember`.
static PATH: AtomicUsize = AtomicUsize::new(0);

/// Bytes that the constructor writes and everybody else reads.
struct Text<const N: usize>(UnsafeCell<[u8; N]>);

// SAFETY: written by `remember` alone, before there is a second thread
unsafe impl<const N: usize> Sync for Text<N> {}

const ARENA_NAME: &[u8] = b"WAKEPATH_ARENA=";
const PRELOAD_NAME: &[u8] = b"LD_PRELOAD=";
/// Most strings of an environment that is completed; a larger one goes as it is.
const ROOM: usize = 1024;

/// Keeps what later programs need. `arena`: the value with its zero byte. Once, by the constructor.
pub fn remember(arena: &[u8]) {
    // SAFETY: all zeros is a valid answer of dladdr
    let mut info: libc::Dl_info = unsafe { core::mem::zeroed() };
    // SAFETY: an address inside this library; nobody else runs yet
    unsafe {
        if libc::dladdr(remember as *const c_void, &mut info) == 0 || info.dli_fname.is_null() {
            return;
        }
        let path = CStr::from_ptr(info.dli_fname).to_bytes_with_nul();
        let (a, p) = (&mut *ARENA.0.get(), &mut *PRELOAD.0.get());
        if ARENA_NAME.len() + arena.len() > a.len() || PRELOAD_NAME.len() + path.len() > p.len() {
            return;
        }
        a[..ARENA_NAME.len()].copy_from_slice(ARENA_NAME);
        a[ARENA_NAME.len()..ARENA_NAME.len() + arena.len()].copy_from_slice(arena);
        p[..PRELOAD_NAME.len()].copy_from_slice(PRELOAD_NAME);
        p[PRELOAD_NAME.len()..PRELOAD_NAME.len() + path.len()].copy_from_slice(path);
        PATH.store(path.len() - 1, Release);
    }
}

/// An environment, completed where something was missing.
pub struct Environment {
    strings: [*const c_char; ROOM],
    preload: [u8; 2048],
}

impl Environment {
    /// Room for one, on the stack: a vfork child has no memory of its own.
    pub const fn new() -> Environment {
        Environment { strings: [core::ptr::null(); ROOM], preload: [0; 2048] }
    }

    /// `env`, or a completed copy of it in `self`.
    ///
    /// # Safety
    /// `env` is null or an array of C strings that ends in a null.
    pub unsafe fn complete(&mut self, env: *const *const c_char) -> *const *const c_char {
        let path = PATH.load(Acquire);
        if path == 0 || arena::header().is_none() {
            return env;
        }
        // SAFETY: written once, before any other thread ran
        let (a, p) = unsafe { (&*ARENA.0.get(), &*PRELOAD.0.get()) };
        let own = &p[PRELOAD_NAME.len()..PRELOAD_NAME.len() + path];
        let (mut n, mut has_arena, mut preload) = (0, false, None);
        // SAFETY: the caller's promise
        unsafe {
            while !env.is_null() && !(*env.add(n)).is_null() {
                let s = CStr::from_ptr(*env.add(n)).to_bytes();
                has_arena |= s.starts_with(ARENA_NAME);
                if s.starts_with(PRELOAD_NAME) && preload.is_none() {
                    preload = Some((n, s));
                }
                if n + 3 >= ROOM {
                    return env;
                }
                self.strings[n] = *env.add(n);
                n += 1;
            }
        }
        let loads =
            preload.is_some_and(|(_, s)| s[PRELOAD_NAME.len()..].split(|b| b": ".contains(b)).any(|one| one == own));
        if has_arena && loads {
            return env;
        }
        if !has_arena {
            self.strings[n] = a.as_ptr().cast();
            n += 1;
        }
        match preload {
            _ if loads => {}
            None => {
                self.strings[n] = p.as_ptr().cast();
                n += 1;
            }
            // the program's own libraries stay, after this one
            Some((at, s)) => {
                let rest = &s[PRELOAD_NAME.len()..];
                let len = PRELOAD_NAME.len() + path;
                let Some(room) = self.preload.get_mut(..len + rest.len() + 2) else { return env };
                room[..len].copy_from_slice(&p[..len]);
                room[len] = b':';
                room[len + 1..len + 1 + rest.len()].copy_from_slice(rest);
                self.strings[at] = self.preload.as_ptr().cast();
            }
        }
        self.strings[n] = core::ptr::null();
        self.strings.as_ptr()
    }
}

/// Counts a program that this library will not see: the loader gives it none, since it is static, say, or has rights of its
/// own; or its runtime passes the library by.
///
/// # Safety
/// `path` is a C string, or null.
pub unsafe fn judge(path: *const c_char) {
    if path.is_null() || arena::switches() == 0 {
        return;
    }
    let mut head = [0u8; HEAD_BYTES];
    // SAFETY: the caller's promise
    let n = unsafe { crate::sys::slurp(CStr::from_ptr(path).to_bytes_with_nul(), &mut head) };
    if privileged(path) || unseen(head.get(..n).unwrap_or(&[])).is_some() {
        arena::not_loaded();
    }
}

fn privileged(path: *const c_char) -> bool {
    let mut s = core::mem::MaybeUninit::<libc::stat>::zeroed();
    let a = [libc::AT_FDCWD as usize, path as usize, s.as_mut_ptr() as usize, 0, 0, 0];
    // SAFETY: the path is a C string, and the kernel fills one `stat`
    let r = unsafe { crate::sys::call(libc::SYS_newfstatat, a) };
    // SAFETY: all bytes were zeroed, and any are a valid `stat`
    let s = unsafe { s.assume_init() };
    // SAFETY: no conditions
    let (uid, gid) = unsafe { (libc::getuid(), libc::getgid()) };
    let gives = |bit: libc::mode_t, other: bool| s.st_mode & bit != 0 && other;
    r == 0 && (gives(libc::S_ISUID, s.st_uid != uid) || gives(libc::S_ISGID, s.st_gid != gid))
}
