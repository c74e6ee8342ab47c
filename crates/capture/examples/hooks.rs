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

/// The same at the tracepoint of a single system call, by its number.
fn attach_to_call(name: &str, id: u64) -> std::io::Result<()> {
    let name = CString::new(name)?;
    let (kind, count) = (sys::BPF_PROG_TYPE_TRACEPOINT, NOTHING.len() as sys::size_t);
    // SAFETY: names end with zeros, and the instructions are as many as said.
    let program = unsafe {
        sys::bpf_prog_load(kind, name.as_ptr(), c"GPL".as_ptr(), NOTHING.as_ptr(), count, std::ptr::null_mut())
    };
    // SAFETY: zeroed is a valid attribute: a size and what is meant follow.
    let mut event: sys::perf_event_attr = unsafe { std::mem::zeroed() };
    event.size = size_of_val(&event) as u32;
    event.type_ = sys::PERF_TYPE_TRACEPOINT;
    event.config = id;
    // SAFETY: the attribute is valid for the call. A program at a tracepoint runs on every processor.
    let event = unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const event, -1, 0, -1, 0) };
    let event = check(i32::try_from(event).map_err(std::io::Error::other)?)?;
    // SAFETY: two descriptors, and no options.
    check(unsafe { sys::bpf_link_create(check(program)?, event, sys::BPF_PERF_EVENT, std::ptr::null()) })?;
    Ok(())
}

/// What libbpf returns: a number, or an error code below zero.
fn check(returned: i32) -> std::io::Result<i32> {
    if returned < 0 { Err(std::io::Error::from_raw_os_error(-returned)) } else { Ok(returned) }
}

fn main() -> std::io::Result<()> {
    let support = wakepath_capture::support();
    let mut hooks: Vec<String> = support.usual_hooks().map(str::to_owned).collect();
    for hook in &hooks {
        attach(hook).map_err(|e| std::io::Error::other(format!("{hook}: {e}")))?;
    }
    for (name, id) in support.usual_calls() {
        attach_to_call(&name, id).map_err(|e| std::io::Error::other(format!("{name}: {e}")))?;
        hooks.push(name);
    }
    println!("{}", hooks.join(" "));
    std::io::stdout().flush()?;
    loop {
        std::thread::park();
    }
}
