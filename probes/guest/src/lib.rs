//! A plugin for QEMU's emulator that watches the system calls of a guest.
//!
//! Each instruction is looked at once, when the emulator translates it. Those that enter and leave the kernel call us
//! whenever they run. We read the processor's registers and the guest's memory, and write records into the shared memory
//! of `wakepath guest`. The guest and QEMU's own work are not changed.
//!
//! What goes wrong here must never end the emulator: a panic is caught, and after it the plugin stays silent.
#![deny(missing_docs)]

mod arena;
mod qemu;
mod registers;

use arena::Slot;
use qemu::{Id, Info, Translation};
use registers::{Register, Registers};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};
use wakepath_guest::{Cpu, Guest, Memory, Records, calls};
use wakepath_wire::arena::aside;

/// Addresses below are programs', the others the kernel's.
const PROGRAMS_END: u64 = 1 << 47;
/// Bytes of the instructions that are looked for.
const LONGEST: usize = 3;
/// Code segment of 64-bit programs.
const USER_64: u64 = 0x33;

/// What the emulator's threads share.
struct Watched {
    guest: Mutex<Guest>,
    slot: Slot,
}

static WATCHED: OnceLock<Watched> = OnceLock::new();
/// Something went wrong in us.
static IS_BROKEN: AtomicBool = AtomicBool::new(false);

/// The guest's memory by the addresses of the processor that calls.
struct OfProcessor;

impl Memory for OfProcessor {
    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        qemu::read_memory(at, into)
    }
}

/// QEMU calls it once, when it loads the plugin. `arguments` are those after the file's name.
///
/// # Safety
/// As QEMU's interface of plugins says: `info` and `arguments` are valid while it runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: Id,
    info: *const Info,
    count: c_int,
    arguments: *const *const c_char,
) -> c_int {
    // SAFETY: the caller's promise
    let given: Vec<&CStr> = unsafe {
        let all = 0..usize::try_from(count).unwrap_or(0);
        all.map(|i| CStr::from_ptr(*arguments.add(i))).collect()
    };
    // SAFETY: the caller's promise
    let result = target(unsafe { info.as_ref() }).and_then(|()| install(id, &given));
    match result {
        Ok(()) => 0,
        Err(why) => {
            eprintln!("wakepath: {why}");
            1
        }
    }
}

fn target(info: Option<&Info>) -> Result<(), String> {
    let name = info.map(|i| i.target_name);
    // SAFETY: QEMU gives a string
    let name = name.filter(|n| !n.is_null()).map(|n| unsafe { CStr::from_ptr(n) });
    match name.and_then(|n| n.to_str().ok()) {
        Some("x86_64") => Ok(()),
        other => Err(format!("it watches guests of x86_64, not of {}", other.unwrap_or("an unknown processor"))),
    }
}

fn install(id: Id, given: &[&CStr]) -> Result<(), String> {
    let path = given.iter().find_map(|a| a.to_str().ok()?.strip_prefix("arena="));
    let path = path.ok_or("the plugin needs arena=FILE; `wakepath guest --flags` prints it")?;
    let slot = Slot::claim(path)?;
    let guest = Mutex::new(Guest::new(slot.head_bytes()));
    WATCHED.set(Watched { guest, slot }).map_err(|_| "the plugin is loaded twice")?;
    qemu::register(id, processor_began, translated);
    Ok(())
}

/// Runs `f` with the guest, unless something went wrong before.
fn watch(f: impl FnOnce(&mut Guest, &mut Slot)) {
    if IS_BROKEN.load(Relaxed) {
        return;
    }
    let run = || {
        let Some(watched) = WATCHED.get().filter(|w| w.slot.is_on()) else { return };
        let mut slot = watched.slot;
        f(&mut watched.guest.lock().unwrap_or_else(PoisonError::into_inner), &mut slot);
    };
    if catch_unwind(AssertUnwindSafe(run)).is_err() {
        IS_BROKEN.store(true, Relaxed);
        eprintln!("wakepath: the plugin failed and records no more; the guest is not affected");
    }
}

extern "C" fn processor_began(_: Id, number: c_uint) {
    if catch_unwind(|| registers::learn(number)).is_err() {
        IS_BROKEN.store(true, Relaxed);
    }
}

/// Looks at the instructions that QEMU translates.
extern "C" fn translated(_: Id, block: *mut Translation) {
    let run = || {
        for instruction in qemu::instructions(block) {
            let at = qemu::address(instruction);
            let mut bytes = [0; LONGEST];
            let length = qemu::bytes(instruction, &mut bytes);
            let callback: qemu::Callback = match (&bytes[..length.min(LONGEST)], at < PROGRAMS_END) {
                ([0x0f, 0x05, ..], true) => enters,
                ([0x0f, 0x34, ..] | [0xcd, 0x80, ..], true) => enters_by_32,
                ([0x48, 0x0f, 0x07], false) => returns_at_once,
                ([0x48, 0xcf, ..], false) => returns,
                _ => continue,
            };
            qemu::on_execution(instruction, callback, at);
        }
    };
    if catch_unwind(AssertUnwindSafe(run)).is_err() {
        IS_BROKEN.store(true, Relaxed);
    }
}

/// A program executes `syscall`.
extern "C" fn enters(number: c_uint, at: *mut c_void) {
    let Some(registers) = Registers::of(number) else { return };
    let call = registers.read(Register::Rax);
    if calls::of(call).is_none() && call >> 30 == 0 {
        return;
    }
    watch(|guest, slot| {
        if registers.read(Register::Cs) & 0xffff != USER_64 {
            return slot.aside(aside::GUEST_CALLS_32);
        }
        let arguments = registers::ARGUMENTS.map(|r| registers.read(r));
        let cpu = cpu(number, &registers, registers.read(Register::Rsp));
        guest.enters(call, arguments, (at as u64).wrapping_add(2), &cpu, slot);
    });
}

/// A program enters the kernel as 32-bit programs do.
extern "C" fn enters_by_32(_: c_uint, _: *mut c_void) {
    watch(|_, slot| slot.aside(aside::GUEST_CALLS_32));
}

/// The kernel executes `sysretq`: the program goes on at RCX.
extern "C" fn returns_at_once(number: c_uint, at: *mut c_void) {
    let Some(registers) = Registers::of(number) else { return };
    watch(|guest, slot| {
        guest.kernel(at as u64, &OfProcessor, slot);
        let (to, stack) = (registers.read(Register::Rcx), registers.read(Register::Rsp));
        if guest.awaits(to, stack) {
            guest.returns(to, registers.read(Register::Rax), &cpu(number, &registers, stack), slot);
        }
    });
}

/// The kernel executes `iretq`: where to, and with which stack, is on its own stack.
extern "C" fn returns(number: c_uint, _: *mut c_void) {
    const STACK: usize = 24;
    let Some(registers) = Registers::of(number) else { return };
    let mut frame = [0; 32];
    if !qemu::read_memory(registers.read(Register::Rsp), &mut frame) {
        return;
    }
    let word = |at: usize| frame[at..at + 8].iter().rev().fold(0, |n, &b| n << 8 | u64::from(b));
    if word(0) >= PROGRAMS_END {
        return;
    }
    watch(|guest, slot| {
        if guest.awaits(word(0), word(STACK)) {
            let cpu = cpu(number, &registers, word(STACK));
            guest.returns(word(0), registers.read(Register::Rax), &cpu, slot);
        }
    });
}

fn cpu(number: c_uint, registers: &Registers, stack: u64) -> Cpu<'static> {
    Cpu {
        number: u16::try_from(number).unwrap_or(u16::MAX),
        now_ns: now_ns(),
        variables: registers.read(Register::KernelGs),
        stack,
        memory: &OfProcessor,
    }
}

fn now_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills one `timespec`
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut t) };
    (t.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(t.tv_nsec as u64)
}
