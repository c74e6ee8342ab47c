//! Registers of the guest's processors.

use crate::qemu::{self, Handle};
use std::ffi::{CStr, c_uint};
use std::sync::OnceLock;

/// Most processors of a guest.
const PROCESSORS: usize = 256;

/// Registers that are read.
#[derive(Clone, Copy)]
pub enum Register {
    /// The call's number, and its result.
    Rax,
    /// Where a program goes on after a call.
    Rcx,
    /// The arguments, in order.
    Rdi,
    /// See `Rdi`.
    Rsi,
    /// See `Rdi`.
    Rdx,
    /// See `Rdi`.
    R10,
    /// See `Rdi`.
    R8,
    /// See `Rdi`.
    R9,
    /// The stack.
    Rsp,
    /// The code segment.
    Cs,
    /// Where the kernel has its variables of the processor.
    KernelGs,
}

/// As QEMU names them.
const NAMES: [&str; 11] = ["rax", "rcx", "rdi", "rsi", "rdx", "r10", "r8", "r9", "rsp", "cs", "k_gs_base"];

/// The arguments of a call.
pub const ARGUMENTS: [Register; 6] =
    [Register::Rdi, Register::Rsi, Register::Rdx, Register::R10, Register::R8, Register::R9];

/// The registers of one processor.
#[derive(Clone, Copy)]
pub struct Registers([*mut Handle; NAMES.len()]);

// SAFETY: a handle is what QEMU knows a register by; it is used by the thread of its processor alone
unsafe impl Send for Registers {}
// SAFETY: as above
unsafe impl Sync for Registers {}

static ALL: [OnceLock<Registers>; PROCESSORS] = [const { OnceLock::new() }; PROCESSORS];

/// Finds the registers of a processor that was made, whose thread calls.
pub fn learn(number: c_uint) {
    let mut found = [std::ptr::null_mut(); NAMES.len()];
    for description in qemu::registers() {
        // SAFETY: QEMU gives a string
        let name = unsafe { CStr::from_ptr(description.name) };
        if let Some(i) = NAMES.iter().position(|n| n.as_bytes() == name.to_bytes()) {
            found[i] = description.handle;
        }
    }
    match found.iter().position(|handle| handle.is_null()) {
        Some(missing) => eprintln!("wakepath: this QEMU does not show the register {}", NAMES[missing]),
        None => _ = ALL.get(number as usize).map(|all| all.set(Registers(found))),
    }
}

impl Registers {
    /// Those of a processor; `None` where QEMU does not show them.
    pub fn of(number: c_uint) -> Option<Registers> {
        ALL.get(number as usize)?.get().copied()
    }

    /// What a register holds.
    pub fn read(&self, register: Register) -> u64 {
        // SAFETY: QEMU gave the handle for this processor, whose thread calls
        unsafe { qemu::read_register(self.0[register as usize]) }
    }
}
