//! QEMU's interface of plugins, version 4 (QEMU 10.0): the few functions of it that are used, and GLib's arrays of bytes,
//! which it takes. QEMU has both when it loads the plugin, so nothing is linked.
//!
//! Written by hand from the documented interface (QEMU, "TCG Plugins", `qemu-plugin.h`).

use std::ffi::{c_char, c_int, c_uint, c_void};

/// The version of the interface that is spoken. QEMU refuses a plugin whose version it does not have.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)] // QEMU looks for this name
pub static qemu_plugin_version: c_int = 4;

/// The plugin's number.
pub type Id = u64;
/// What QEMU calls when an instruction runs: a processor's number, and what was given with the instruction.
pub type Callback = extern "C" fn(c_uint, *mut c_void);

/// What QEMU says of itself.
#[repr(C)]
pub struct Info {
    /// Name of the processor that it emulates.
    pub target_name: *const c_char,
    // more follows, which is not read
}

/// A piece of code that is being translated.
#[repr(C)]
pub struct Translation {
    opaque: [u8; 0],
}

/// An instruction of it.
#[repr(C)]
pub struct Instruction {
    opaque: [u8; 0],
}

/// A register.
#[repr(C)]
pub struct Handle {
    opaque: [u8; 0],
}

/// What QEMU says of a register.
#[repr(C)]
pub struct Description {
    /// What it is read by.
    pub handle: *mut Handle,
    /// Its name.
    pub name: *const c_char,
    feature: *const c_char,
}

/// GLib's array of bytes.
#[repr(C)]
struct ByteArray {
    data: *mut u8,
    length: c_uint,
}

/// GLib's array.
#[repr(C)]
struct Array {
    data: *mut Description,
    length: c_uint,
}

/// Registers are read by what is called.
const READS_REGISTERS: c_int = 1;

// SAFETY: these are the declarations of QEMU's and GLib's documented interfaces
unsafe extern "C" {
    fn qemu_plugin_register_vcpu_init_cb(id: Id, f: extern "C" fn(Id, c_uint));
    fn qemu_plugin_register_vcpu_tb_trans_cb(id: Id, f: extern "C" fn(Id, *mut Translation));
    fn qemu_plugin_tb_n_insns(block: *const Translation) -> usize;
    fn qemu_plugin_tb_get_insn(block: *const Translation, i: usize) -> *mut Instruction;
    fn qemu_plugin_insn_data(instruction: *const Instruction, to: *mut c_void, bytes: usize) -> usize;
    fn qemu_plugin_insn_vaddr(instruction: *const Instruction) -> u64;
    fn qemu_plugin_register_vcpu_insn_exec_cb(i: *mut Instruction, f: Callback, flags: c_int, with: *mut c_void);
    fn qemu_plugin_get_registers() -> *mut Array;
    fn qemu_plugin_read_register(handle: *mut Handle, to: *mut ByteArray) -> c_int;
    fn qemu_plugin_read_memory_vaddr(at: u64, to: *mut ByteArray, bytes: usize) -> bool;
    fn g_byte_array_new() -> *mut ByteArray;
    fn g_byte_array_set_size(array: *mut ByteArray, bytes: c_uint) -> *mut ByteArray;
    fn g_byte_array_free(array: *mut ByteArray, free_bytes: c_int) -> *mut u8;
    fn g_array_free(array: *mut Array, free_bytes: c_int) -> *mut c_char;
}

/// Has QEMU call us when a processor is made, and when code is translated.
pub fn register(id: Id, began: extern "C" fn(Id, c_uint), translated: extern "C" fn(Id, *mut Translation)) {
    // SAFETY: the plugin's own number, and functions of these types that are never unloaded
    unsafe {
        qemu_plugin_register_vcpu_init_cb(id, began);
        qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    }
}

/// The instructions of a piece of code, while it is translated.
pub fn instructions(block: *mut Translation) -> impl Iterator<Item = *mut Instruction> {
    // SAFETY: QEMU gave the block for this call
    let count = unsafe { qemu_plugin_tb_n_insns(block) };
    // SAFETY: as above, and `i` is below their number
    (0..count).map(move |i| unsafe { qemu_plugin_tb_get_insn(block, i) })
}

/// The virtual address of an instruction.
pub fn address(instruction: *mut Instruction) -> u64 {
    // SAFETY: QEMU gave it for this call
    unsafe { qemu_plugin_insn_vaddr(instruction) }
}

/// Its first bytes, and how many there are.
pub fn bytes(instruction: *mut Instruction, to: &mut [u8]) -> usize {
    // SAFETY: QEMU writes at most so many bytes
    unsafe { qemu_plugin_insn_data(instruction, to.as_mut_ptr().cast(), to.len()) }
}

/// Has QEMU call `f` with `at` whenever an instruction is about to run.
pub fn on_execution(instruction: *mut Instruction, f: Callback, at: u64) {
    // SAFETY: QEMU gave the instruction for this call; `at` is only a number
    unsafe { qemu_plugin_register_vcpu_insn_exec_cb(instruction, f, READS_REGISTERS, at as *mut c_void) };
}

/// The registers of the processor that calls, when it was made.
pub fn registers() -> Vec<Description> {
    // SAFETY: QEMU gives an array of our own, whose entries have this layout and keep their strings
    unsafe {
        let array = qemu_plugin_get_registers();
        if array.is_null() {
            return Vec::new();
        }
        let all = (0..(*array).length as usize).map(|i| (*array).data.add(i).read()).collect();
        g_array_free(array, 1);
        all
    }
}

/// An array that each thread keeps: one is taken to read into, and none is made for each read.
struct Kept(*mut ByteArray);

impl Drop for Kept {
    fn drop(&mut self) {
        // SAFETY: it was made by `g_byte_array_new` and is freed once
        unsafe { g_byte_array_free(self.0, 1) };
    }
}

thread_local! {
    static ARRAY: Kept = {
        // SAFETY: no conditions
        Kept(unsafe { g_byte_array_new() })
    };
}

/// Lets `read` fill an array, and gives its bytes to `take`; false where it has none.
fn by_array(read: impl FnOnce(*mut ByteArray) -> bool, take: impl FnOnce(&[u8])) -> bool {
    let run = |array: &Kept| {
        // SAFETY: the thread's own array, which nobody else has; its length is that of its bytes
        unsafe {
            g_byte_array_set_size(array.0, 0);
            if !read(array.0) || (*array.0).data.is_null() {
                return false;
            }
            take(std::slice::from_raw_parts((*array.0).data, (*array.0).length as usize));
            true
        }
    };
    ARRAY.try_with(run).unwrap_or(false)
}

/// The lowest 64 bits of a register of the processor that calls; 0 where it cannot be read.
///
/// # Safety
/// QEMU gave the handle for this processor.
pub unsafe fn read_register(handle: *mut Handle) -> u64 {
    let mut value = 0;
    // SAFETY: the caller's promise, and an array of our own
    let read = |array| unsafe { qemu_plugin_read_register(handle, array) > 0 };
    by_array(read, |bytes| value = bytes.iter().take(8).rev().fold(0, |n, &b| n << 8 | u64::from(b)));
    value
}

/// Fills `into` from the memory that the calling processor has at the virtual address `at`; false where it is not there.
pub fn read_memory(at: u64, into: &mut [u8]) -> bool {
    let (mut is_filled, length) = (false, into.len());
    // SAFETY: QEMU checks the address, and fills an array of our own
    let read = |array| unsafe { qemu_plugin_read_memory_vaddr(at, array, length) };
    let take = |bytes: &[u8]| {
        if bytes.len() == into.len() {
            into.copy_from_slice(bytes);
            is_filled = true;
        }
    };
    by_array(read, take) && is_filled
}
