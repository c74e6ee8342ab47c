//! Which programs a recording loads, and how they are set.

use super::{Backend, KernelOptions, Watch, calls, skel, tick_ns};
use crate::error::CaptureError;
use crate::faults;
use crate::support::Support;
use crate::usdt;
use libbpf_rs::Link;
use libbpf_rs::skel::{OpenSkel as _, Skel as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::sync::atomic::{AtomicU32, Ordering};
use wakepath_wire as w;

/// What is loaded.
pub(super) struct Choice<'a> {
    pub options: &'a KernelOptions,
    pub backend: Backend,
    /// Annotations are listened to.
    pub marks: bool,
    pub support: &'a Support,
}

/// The way of observing operations that this kernel has.
pub(super) fn choose(wanted: Backend, support: &Support) -> Result<Backend, CaptureError> {
    let hooks = support.has("sock_send_length") && support.has("sock_recv_length");
    Ok(match wanted {
        Backend::Auto if hooks && support.calls => Backend::Calls,
        Backend::Auto if hooks => Backend::SocketHooks,
        Backend::Auto => Backend::Syscalls,
        Backend::Calls if !(hooks && support.calls) => {
            return Err(CaptureError::Unsupported(
                "tracepoints of single system calls (Linux 6.7 on x86-64, with tracefs mounted)".into(),
            ));
        }
        Backend::SocketHooks if !hooks => {
            return Err(CaptureError::Unsupported("sock_send_length (Linux 6.3)".into()));
        }
        chosen => chosen,
    })
}

/// Sets what the programs go by, and how large their maps are.
pub(super) fn configure(
    open: &mut skel::OpenWakepathSkel<'_>,
    choice: &Choice<'_>,
    key: u32,
    cpus: usize,
) -> Result<(), CaptureError> {
    let options = choice.options;
    let stride = options.ring_bytes as usize + w::RING_SLACK as usize;
    {
        let r = open.maps.rodata_data.as_deref_mut().expect("the object has .rodata");
        r.cfg_agent_tgid = std::process::id();
        r.cfg_ring_bytes = options.ring_bytes;
        r.cfg_head_bytes = options.head_bytes.min(w::HEAD_MAX);
        r.cfg_tag_key = key;
        r.cfg_tick_ns = tick_ns();
        r.cfg_watch_all = u8::from(options.watch == Watch::All);
        r.cfg_watch_comms = u8::from(!options.rules.comms.is_empty());
        r.cfg_watch_ports = u8::from(!options.rules.ports.is_empty());
        r.cfg_watch_cgroups = u8::from(!options.rules.cgroups.is_empty());
        r.cfg_waits = u8::from(options.waits);
        r.cfg_stacks = u8::from(options.stacks);
        r.cfg_marks = u8::from(choice.marks);
        r.cfg_sock_hooks = u8::from(choice.backend != Backend::Syscalls);
        r.cfg_calls = u8::from(choice.backend == Backend::Calls);
        for call in crate::syscalls::calls() {
            if call.class != w::SC_BIND || !options.rules.ports.is_empty() {
                r.syscall_class[call.number as usize] = call.class;
            }
        }
        // where records call calls by other numbers than this machine
        #[cfg(target_arch = "aarch64")]
        for (nr, recorded) in r.syscall_number.iter_mut().enumerate() {
            *recorded = w::calls::recorded(nr as i64);
        }
    }
    open.maps.rings.set_value_size(stride as u32)?;
    open.maps.rings.set_max_entries(cpus as u32)?;
    // who had a processor is kept where its holders' own waits are not recorded
    let is_kept = options.waits && options.watch != Watch::All;
    open.maps.histories.set_max_entries(if is_kept { cpus as u32 } else { 1 })?;
    if !options.tls {
        open.maps.tls_calls.set_max_entries(1)?;
        open.maps.tls_sessions.set_max_entries(1)?;
        open.maps.tls_sent.set_max_entries(1)?;
        open.maps.go_tls_records.set_max_entries(1)?;
        open.maps.tls_freed.set_max_entries(1)?;
    }
    open.maps.stacks.set_autocreate(options.stacks)?;
    open.maps.fault_slots.set_autocreate(options.faults)?;
    open.maps.told_files.set_autocreate(options.faults)?;
    Ok(())
}

/// The section of the program that is attached once somebody watched uses io_uring.
const RINGS: &str = "tp_btf/io_uring_submit_req";

/// Attaches that program, if this kernel has it, once it is wanted: what was submitted before is not read.
pub(super) fn attach_rings(skel: &mut skel::WakepathSkel<'_>) -> Result<Option<Link>, CaptureError> {
    let data = skel.maps.data_data.as_deref().expect("the object has .data");
    // SAFETY: a mapped u32 that kernel programs write.
    let used = unsafe { &*(&raw const data.rings_used).cast::<AtomicU32>() };
    if used.load(Ordering::Relaxed) == 0 {
        return Ok(None);
    }
    let mut programs = skel.object_mut().progs_mut();
    let program = programs.find(|p| p.section().to_string_lossy() == RINGS && p.as_fd().as_raw_fd() >= 0);
    Ok(program.map(|program| program.attach()).transpose()?)
}

/// Leaves out the programs that are not wanted, and those whose hook this kernel lacks.
pub(super) fn choose_programs(open: &mut skel::OpenWakepathSkel<'_>, choice: &Choice<'_>) {
    let options = choice.options;
    for mut program in open.open_object_mut().progs_mut() {
        let section = program.section().to_string_lossy().into_owned();
        let point = section.rsplit('/').next().unwrap_or("");
        let waits_only = matches!(
            program.name().to_str(),
            Some(
                "on_switch"
                    | "on_waking"
                    | "on_irq_entry"
                    | "on_irq_exit"
                    | "on_timer_entry"
                    | "on_timer_exit"
                    | "on_softirq_entry"
                    | "on_softirq_exit"
                    | "on_block_complete"
                    | "on_signal"
            )
        );
        let is_of_tls = program.name().to_string_lossy().starts_with("on_tls_");
        let wanted = match point {
            "sock_send_length" | "sock_recv_length" => choice.backend != Backend::Syscalls,
            "sys_enter" | "sys_exit" => choice.backend != Backend::Calls,
            calls::SECTION => choice.backend == Backend::Calls,
            // stands in for the other
            "tcp_probe" => options.waits && !choice.support.has("sk_data_ready"),
            "task_file" => true,
            faults::OLD_POINT => options.faults && !choice.support.has("mm_filemap_fault"),
            _ if faults::POINTS.contains(&point) => options.faults,
            _ if is_of_tls && !options.tls => false,
            usdt::SINGLE | usdt::SINGLE_RETURN => choice.marks && !choice.support.has_multi,
            usdt::MULTI | usdt::MULTI_RETURN => choice.marks && choice.support.has_multi,
            "task" => options.waits,
            "cgroup_attach_task" => !options.rules.cgroups.is_empty(),
            _ if waits_only => options.waits,
            _ => true,
        };
        let is_tracepoint = section.starts_with("tp_btf/");
        let exists = !is_tracepoint || choice.support.has(point);
        program.set_autoload(wanted && exists);
    }
}

/// Attaches all programs that were loaded, but iterators, which are attached to be read, and the one for annotations.
pub(super) fn attach_programs(skel: &mut skel::WakepathSkel<'_>) -> Result<Vec<Link>, CaptureError> {
    let mut links = Vec::new();
    for program in skel.object_mut().progs_mut() {
        // iterators are attached to be read, probes where a file has what they are for; what was not loaded has no descriptor
        let section = program.section().to_string_lossy();
        let is_for_later = section == calls::SECTION
            || section == RINGS
            || ["iter/", usdt::SINGLE, usdt::SINGLE_RETURN].iter().any(|s| section.starts_with(s));
        if is_for_later || program.as_fd().as_raw_fd() < 0 {
            continue;
        }
        if section == "perf_event" {
            let is_major = program.name() == "on_major";
            let counter = if is_major { faults::Counter::Major } else { faults::Counter::Minor };
            links.extend(faults::attach(&program, counter)?);
            continue;
        }
        links.push(program.attach()?);
    }
    Ok(links)
}
