//! The probes, and the way to the library of `wakepath run`. All unsafe code of this crate is here.

use crate::Kind;
use core::arch::asm;
use core::ffi::{CStr, c_char, c_int, c_ulong};
use core::sync::atomic::{AtomicPtr, AtomicU16, Ordering::Relaxed};

/// A page of the file for itself. Where a linker lets two segments share one, the kernel counts in the one that it finds
/// first, which is not the one that is looked at.
#[cfg_attr(target_arch = "x86_64", repr(C, align(4096)))]
#[cfg_attr(target_arch = "aarch64", repr(C, align(65536)))]
struct Page(AtomicU16);

/// Not 0 while somebody listens: the kernel counts the probes' listeners here. It must have a place in the file.
#[unsafe(link_section = ".probes")]
static SEMAPHORE: Page = Page(AtomicU16::new(0));

/// What the library fills in, and what it is asked by: `struct wakepath_channel` of the C header.
#[repr(C)]
struct Channel {
    bytes: c_ulong,
    semaphore: &'static AtomicU16,
    mark: AtomicPtr<()>,
}

static CHANNEL: Channel = Channel {
    bytes: size_of::<Channel>() as c_ulong,
    semaphore: &SEMAPHORE.0,
    mark: AtomicPtr::new(core::ptr::null_mut()),
};

// SAFETY: a type; who calls such a function says why that is sound
type Mark = unsafe extern "C" fn(c_ulong, *const c_char, c_ulong, *const c_char, c_ulong, c_ulong);

// SAFETY: as the C library declares them
unsafe extern "C" {
    fn prctl(option: c_int, ...) -> c_int;
    fn getenv(name: *const c_char) -> *const c_char;
}

/// The library stands before `prctl` and knows this option; the kernel does not, and refuses it.
const JOIN: c_int = 0x574b_5041;

/// Runs when the program is loaded.
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = join;

extern "C" fn join() {
    // SAFETY: a string; nobody changes the environment while the loader runs constructors
    if unsafe { getenv(c"WAKEPATH_ARENA".as_ptr()) }.is_null() {
        return;
    }
    // SAFETY: the kernel refuses this option without looking at the argument; the library writes `mark` and adds to the
    // semaphore, both of which are atomic
    unsafe { prctl(JOIN, (&raw const CHANNEL) as c_ulong, 0 as c_ulong, 0 as c_ulong, 0 as c_ulong) };
}

#[inline(always)]
pub fn listens() -> bool {
    SEMAPHORE.0.load(Relaxed) != 0
}

/// Reads the whole name: a probe may not wait for memory that is not there yet.
fn touch(name: &CStr) {
    core::hint::black_box(name.to_bytes().iter().fold(0u8, |sum, b| sum ^ core::hint::black_box(*b)));
}

/// Where the probe is, and where its arguments are.
macro_rules! note {
    ($probe:literal, $arguments:literal) => {
        concat!(
            ".pushsection .note.stapsdt,\"\",@note\n",
            ".balign 4\n",
            ".4byte 992f-991f, 994f-993f, 3\n",
            "991: .asciz \"stapsdt\"\n",
            "992: .balign 4\n",
            "993: .8byte 990b\n",
            ".8byte 0\n",
            ".8byte {semaphore}\n",
            ".asciz \"wakepath\"\n",
            ".asciz \"",
            $probe,
            "\"\n",
            ".asciz \"",
            $arguments,
            "\"\n",
            "994: .balign 4\n",
            ".popsection"
        )
    };
}
#[cfg(target_arch = "x86_64")]
macro_rules! probe {
    ($probe:literal, $kind:expr, $machine:expr, $key:expr, $name:expr, $name_key:expr, $count:expr) => {
        // SAFETY: an instruction that does nothing; the rest are notes in a section that is not loaded
        unsafe {
            asm!(
                // five bytes: Linux 6.18 and later turn it into a call, which is cheaper than a trap
                "990: .byte 0x0f, 0x1f, 0x44, 0x00, 0x00",
                note!($probe, "8@%rdi 8@%rsi 8@%rdx 8@%rcx 8@%r8 8@%r9"),
                semaphore = sym SEMAPHORE,
                in("rdi") $machine, in("rsi") $key, in("rdx") $name, in("rcx") $name_key, in("r8") $count,
                in("r9") $kind as u64,
                options(nostack, preserves_flags)
            )
        }
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! probe {
    ($probe:literal, $kind:expr, $machine:expr, $key:expr, $name:expr, $name_key:expr, $count:expr) => {
        // SAFETY: an instruction that does nothing; the rest are notes in a section that is not loaded
        unsafe {
            asm!(
                "990: nop",
                note!($probe, "8@x0 8@x1 8@x2 8@x3 8@x4 8@x5"),
                semaphore = sym SEMAPHORE,
                in("x0") $machine, in("x1") $key, in("x2") $name, in("x3") $name_key, in("x4") $count,
                in("x5") $kind as u64,
                options(nostack, preserves_flags)
            )
        }
    };
}

/// One mark, told to all who listen.
#[cold]
#[inline(never)]
pub fn mark(kind: Kind, machine: &CStr, key: u64, name: &CStr, name_key: u64, count: u64) {
    touch(machine);
    touch(name);
    let (m, n) = (machine.as_ptr(), name.as_ptr());
    match kind {
        Kind::State => probe!("state", kind, m, key, n, name_key, count),
        Kind::Enqueue => probe!("enqueue", kind, m, key, n, name_key, count),
        Kind::Dequeue => probe!("dequeue", kind, m, key, n, name_key, count),
        Kind::WaitEmpty => probe!("wait_empty", kind, m, key, n, name_key, count),
        Kind::WaitFull => probe!("wait_full", kind, m, key, n, name_key, count),
        Kind::Begin => probe!("begin", kind, m, key, n, name_key, count),
        Kind::End => probe!("end", kind, m, key, n, name_key, count),
    }
    let library = CHANNEL.mark.load(Relaxed);
    if !library.is_null() {
        // SAFETY: only the library writes it, and what it writes is such a function; it stays loaded
        let library: Mark = unsafe { core::mem::transmute(library) };
        // SAFETY: both are strings that end in a zero byte
        unsafe { library(kind as c_ulong, m, key as c_ulong, n, name_key as c_ulong, count as c_ulong) };
    }
}
