//! What this kernel offers.

use crate::faults;

/// What this kernel offers, hook by hook.
#[derive(Clone, Debug)]
pub struct Support {
    /// BTF of the running kernel can be read.
    pub btf: bool,
    /// Names of tracepoints that the programs use and whether this kernel has each.
    pub tracepoints: Vec<(&'static str, bool)>,
    /// One link may hold many user-space probes (Linux 6.6).
    pub has_multi: bool,
    /// Programs may run at the tracepoints of single system calls, and what they miss is counted.
    pub calls: bool,
}

const TRACEPOINTS: &[&str] = &[
    "sys_enter",
    "sys_exit",
    "sock_send_length",
    "sock_recv_length",
    "sk_data_ready",
    "tcp_probe",
    "inet_sock_set_state",
    "tcp_receive_reset",
    "io_uring_submit_req",
    "tcp_retransmit_skb",
    "sched_switch",
    "sched_waking",
    "softirq_entry",
    "softirq_exit",
    "irq_handler_entry",
    "irq_handler_exit",
    "hrtimer_expire_entry",
    "hrtimer_expire_exit",
    "block_rq_complete",
    "signal_generate",
    "sched_process_fork",
    "sched_process_exec",
    "sched_process_exit",
    "task_rename",
    "cgroup_attach_task",
    "page_fault_user",
    "page_fault_kernel",
    "mm_filemap_fault",
    "mm_filemap_map_pages",
    "mm_filemap_add_to_page_cache",
];

/// Looks at the running kernel's BTF.
pub fn support() -> Support {
    let btf = libbpf_rs::btf::Btf::from_vmlinux().ok();
    // what page faults tell of themselves is known of x86 alone
    let is_known = |name: &str| cfg!(target_arch = "x86_64") || !name.starts_with("page_fault_");
    let has = |name: &str| {
        is_known(name)
            && btf.as_ref().is_some_and(|b| {
                b.type_by_name::<libbpf_rs::btf::types::Typedef<'_>>(&format!("btf_trace_{name}")).is_some()
            })
    };
    let has_multi = btf
        .as_ref()
        .is_some_and(|b| b.type_by_name::<libbpf_rs::btf::types::Struct<'_>>("bpf_uprobe_multi_link").is_some());
    let calls = crate::kernel::has_calls();
    Support { btf: btf.is_some(), tracepoints: TRACEPOINTS.iter().map(|&n| (n, has(n))).collect(), has_multi, calls }
}

impl Support {
    /// Whether this kernel has the tracepoint.
    pub fn has(&self, name: &str) -> bool {
        self.tracepoints.iter().any(|(n, ok)| *n == name && *ok)
    }

    /// The tracepoints of single system calls, by name and number, at which such a recording has programs here all the time.
    pub fn usual_calls(&self) -> Vec<(String, u64)> {
        let hooks = self.has("sock_send_length") && self.has("sock_recv_length");
        if hooks && self.calls { crate::kernel::usual_points() } else { Vec::new() }
    }

    /// The tracepoints at which a recording with [`KernelOptions::default`] has programs here.
    pub fn usual_hooks(&self) -> impl Iterator<Item = &'static str> {
        let of_faults = |n| n == faults::OLD_POINT || faults::POINTS.contains(&n);
        let hooks = self.has("sock_send_length") && self.has("sock_recv_length");
        let has_calls = hooks && self.calls;
        let unused = move |n| {
            of_faults(n)
                || n == "io_uring_submit_req"
                || (n == "tcp_probe" && self.has("sk_data_ready"))
                || (has_calls && matches!(n, "sys_enter" | "sys_exit"))
        };
        self.tracepoints.iter().filter(move |(n, ok)| *ok && !unused(*n)).map(|(n, _)| *n)
    }
}

/// The running kernel's version, its first two numbers.
pub(crate) fn release() -> Option<(u32, u32)> {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}
