//! Programs that do nothing, at the tracepoints of the kernel vantage: what a kernel asks for the hooks alone, whatever
//! they do. `bench/overhead` holds recordings against it. Prints the names of the hooks in one line and stays until it
//! is ended; they go with it.

use libbpf_rs::libbpf_sys as sys;
use std::ffi::CString;
use std::io::Write;

/// `r0 = 0; exit`.
const NOTHING: [sys::bpf_insn; 2] = [instruction(0xb7), instruction(0x95)];

const fn instruction(code: u8) -> sys::bpf_insn {
    // SAFETY: all zeros is an instruction; registers, offset and value are 0.
    let mut i: sys::bpf_insn = unsafe { std::mem::zeroed() };
    i.code = code;
    i
}

/// Attaches an empty program as the real one is attached (BTF tracepoint). Its descriptors stay open.
fn attach(hook: &str) -> std::io::Result<()> {
    let name = CString::new(hook)?;
    // SAFETY: zeroed is a valid set of options, and its size is passed along.
    let mut options: sys::bpf_prog_load_opts = unsafe { std::mem::zeroed() };
    options.sz = size_of_val(&options) as sys::size_t;
    options.expected_attach_type = sys::BPF_TRACE_RAW_TP;
    // SAFETY: the name ends with a zero.
    let id = unsafe { sys::libbpf_find_vmlinux_btf_id(name.as_ptr(), sys::BPF_TRACE_RAW_TP) };
    options.attach_btf_id = check(id)? as u32;
    let (kind, count) = (sys::BPF_PROG_TYPE_TRACING, NOTHING.len() as sys::size_t);
    // SAFETY: names end with zeros, and the instructions are as many as said.
    let program =
        unsafe { sys::bpf_prog_load(kind, name.as_ptr(), c"GPL".as_ptr(), NOTHING.as_ptr(), count, &raw mut options) };
    // SAFETY: the program says itself where it belongs.
    check(unsafe { sys::bpf_raw_tracepoint_open(std::ptr::null(), check(program)?) })?;
    Ok(())
}

/// What libbpf returns: a number, or an error code below zero.
fn check(returned: i32) -> std::io::Result<i32> {
    if returned < 0 { Err(std::io::Error::from_raw_os_error(-returned)) } else { Ok(returned) }
}

fn main() -> std::io::Result<()> {
    let hooks: Vec<&str> = wakepath_capture::support().usual_hooks().collect();
    for hook in &hooks {
        attach(hook).map_err(|e| std::io::Error::other(format!("{hook}: {e}")))?;
    }
    println!("{}", hooks.join(" "));
    std::io::stdout().flush()?;
    loop {
        std::thread::park();
    }
}
