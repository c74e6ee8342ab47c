//! Annotations without the kernel's help: annotated programs find this library by a `prctl` that only it knows, and call
//! [`wakepath_mark`] from then on (`annotations/c/wakepath.h`).

use crate::{arena, process, record};
use core::ffi::{c_char, c_int, c_ulong};
use core::sync::atomic::{AtomicU16, Ordering::Relaxed};
use wakepath_wire as w;

/// The option of `prctl` by which a program joins; the header's `WAKEPATH_PRCTL_JOIN`.
pub const JOIN: c_int = 0x574b_5041;

// SAFETY: a type; only annotated programs call such a function, with strings
type Mark = unsafe extern "C" fn(c_ulong, *const c_char, c_ulong, *const c_char, c_ulong, c_ulong);

/// The header's `struct wakepath_channel`, in the program's memory.
#[repr(C)]
pub struct Channel {
    bytes: c_ulong,
    semaphore: *mut u16,
    mark: Option<Mark>,
}

/// A program that is annotated wants to be heard. 0, or -1 where it is not: there is no arena, or it means another
/// layout.
///
/// # Safety
/// `channel` is null or the program's channel, whose semaphore can be written.
pub unsafe fn join(channel: *mut Channel) -> c_int {
    // SAFETY: the caller's promise
    let Some(c) = (unsafe { channel.as_mut() }) else { return -1 };
    if arena::header().is_none() || c.bytes != size_of::<Channel>() as c_ulong || c.semaphore.is_null() {
        return -1;
    }
    if c.mark.replace(wakepath_mark).is_none() {
        // SAFETY: the caller's promise; the kernel counts its listeners there too
        unsafe { AtomicU16::from_ptr(c.semaphore) }.fetch_add(1, Relaxed);
    }
    0
}

/// One mark. `kind`: `MARK_…`; `machine` and `name` end in a zero byte; keys and `count` as in the header.
///
/// # Safety
/// Both names are strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wakepath_mark(
    kind: c_ulong,
    machine: *const c_char,
    key: c_ulong,
    name: *const c_char,
    name_key: c_ulong,
    count: c_ulong,
) {
    let Some(me) = process::watch() else { return };
    let Ok(kind @ w::MARK_STATE..=w::MARK_END) = u8::try_from(kind) else { return };
    let mut names = [0u8; 2 * ROOM];
    let (first, second) = names.split_at_mut(ROOM);
    // SAFETY: the caller's promise
    let (machine_bytes, name_bytes) = unsafe { (copy(first, machine), copy(second, name)) };
    let is_cut = machine_bytes.max(name_bytes) as usize >= ROOM - 1;
    let r = w::Mark {
        head: record::head(w::KIND_MARK, kind),
        ts_ns: 0,
        key,
        name_key,
        count,
        tgid: 0,
        tid: 0,
        machine_bytes,
        name_bytes,
        flags: if is_cut { w::MARKF_CUT } else { 0 },
        pad: 0,
    };
    record::mark(&me, &r, &names);
}

const ROOM: usize = w::MARK_NAME_BYTES as usize;

/// Copies a name, leaving the last byte zero; its length.
///
/// # Safety
/// `from` is null or a string.
unsafe fn copy(to: &mut [u8], from: *const c_char) -> u8 {
    let mut n = 0;
    if from.is_null() {
        return 0;
    }
    for room in to.iter_mut().take(ROOM - 1) {
        // SAFETY: the string has not ended before
        let byte = unsafe { from.add(n).cast::<u8>().read() };
        if byte == 0 {
            break;
        }
        *room = byte;
        n += 1;
    }
    n as u8
}
