//! What the running kernel offers.

use super::{check, check_to_do};
use crate::rights;
use std::fs;
use wakepath_capture::{Support, faults};
use wakepath_present::doctor::{Check, Tracepoint, Verdict};

/// The first kernel with all that the vantage cannot do without.
const NEEDED: (u32, u32) = (5, 12);

/// What the vantage cannot do without, and since when the kernel has it.
const FEATURES: &[((u32, u32), &str)] = &[
    ((5, 5), "BTF tracepoints and memory-mapped maps"),
    ((5, 8), "BPF iterators over open files"),
    ((5, 11), "task storage, and socket storage in tracing programs"),
    ((5, 12), "compare-and-exchange in BPF programs"),
];

/// Major and minor of `6.1.0-18-amd64`.
pub fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Whether operations can be seen at the sockets themselves.
pub fn has_socket_hooks(support: &Support) -> bool {
    support.has("sock_send_length") && support.has("sock_recv_length")
}

/// The backend that `record` chooses.
pub fn backend(support: &Support) -> Option<&'static str> {
    if has_socket_hooks(support) && support.calls {
        Some("calls")
    } else if has_socket_hooks(support) {
        Some("socket-hooks")
    } else if support.btf && support.has("sys_enter") && support.has("sys_exit") {
        Some("syscalls")
    } else {
        None
    }
}

/// What recording loses without a tracepoint.
fn without(name: &str) -> &'static str {
    match name {
        "sys_enter" | "sys_exit" => "no operation can be recorded",
        "sock_send_length" | "sock_recv_length" => {
            "operations are seen at system call exits instead (--backend syscalls)"
        }
        "sk_data_ready" => "a wait that a packet ended does not say which flow, and arrival times are missing",
        "tcp_probe" => "before Linux 6.3, a packet that ended a kernel thread's wait does not say its flow",
        "inet_sock_set_state" => "connections are met at their first operation, and their closing is not seen",
        "io_uring_submit_req" => "what programs send and receive by io_uring is not read",
        "tcp_receive_reset" => "resets look like other closings",
        "sched_switch" | "sched_waking" => "waits are not recorded",
        "softirq_entry" | "softirq_exit" | "irq_handler_entry" | "irq_handler_exit" => {
            "waits ended by interrupts are attributed to the interrupted task"
        }
        "hrtimer_expire_entry" | "hrtimer_expire_exit" => "waits ended by timers do not say so",
        "block_rq_complete" => "waits ended by a disk do not say so",
        "signal_generate" => "who stopped a task by a signal is not known",
        "sched_process_fork" | "sched_process_exec" | "sched_process_exit" => {
            "new tasks are met at their first operation, without parent"
        }
        "page_fault_user" => "page faults cannot be recorded (`record --faults`)",
        "page_fault_kernel" => "page faults that the kernel takes in a program's name have no begin",
        "mm_filemap_fault" | "mm_filemap_map_pages" => {
            "before Linux 6.12, only page faults that read name their file, and none has its offset"
        }
        "mm_filemap_add_to_page_cache" => "before Linux 6.12, page faults do not name their file",
        _ => "later names of tasks are not seen",
    }
}

/// Every tracepoint.
pub fn tracepoints(support: &Support) -> Vec<Tracepoint> {
    support.tracepoints.iter().map(|&(name, present)| Tracepoint { name, present, without: without(name) }).collect()
}

/// Kernel, hooks, lockdown.
pub fn checks(release: &str, support: &Support, works: bool) -> Vec<Check> {
    let mut checks = vec![
        release_check(release, support.btf, works),
        architecture_check(std::env::consts::ARCH),
        btf_check(support.btf, fs::metadata("/sys/kernel/btf/vmlinux").is_ok()),
    ];
    checks.extend(tracepoint_checks(support));
    checks.push(match backend(support) {
        Some("calls") => check(
            "kernel.backend",
            "backend",
            Verdict::Yes,
            "calls: operations are seen at the sockets, and programs run only in the system calls that matter",
        ),
        Some("socket-hooks") => check_to_do(
            "kernel.backend",
            "backend",
            Verdict::Note,
            "socket-hooks: operations are seen at the sockets; each system call of every process costs about 60 ns more \
             while you record",
            "On Linux 6.7 or later on x86-64 with tracefs mounted (`mount -t tracefs tracefs /sys/kernel/tracing`), it costs \
             up to 20 ns.",
        ),
        Some(name) => check_to_do(
            "kernel.backend",
            "backend",
            Verdict::Limit,
            format!("{name}: operations are seen at system call exits; io_uring and other ways around them are not"),
            "Linux 6.3 or later has the socket hooks.",
        ),
        None => check_to_do(
            "kernel.backend",
            "backend",
            Verdict::No,
            "none: neither socket hooks (6.3) nor system call tracepoints can be used",
            "Boot Linux 5.12 or later with BTF; 6.3 or later gives the socket hooks.",
        ),
    });
    checks.push(lockdown_check(fs::read_to_string("/sys/kernel/security/lockdown").ok().as_deref(), works));
    checks.push(unprivileged_check(fs::read_to_string("/proc/sys/kernel/unprivileged_bpf_disabled").ok().as_deref()));
    let has_uprobes = fs::metadata("/sys/bus/event_source/devices/uprobe").is_ok();
    let has_files = support.has("mm_filemap_fault");
    checks.push(faults_check(support.has("page_fault_user"), has_files, faults::counter_refusal().as_deref()));
    checks.push(annotations_check(has_uprobes, support.has_multi && rights::has(rights::CAP_SYS_ADMIN)));
    checks
}

/// Whether page faults can be recorded; `refused`: why this user cannot have the kernel's counters of them.
fn faults_check(has_point: bool, has_files: bool, refused: Option<&str>) -> Check {
    let (id, title) = ("kernel.faults", "page faults");
    match (has_point, refused) {
        (false, _) => check_to_do(
            id,
            title,
            Verdict::Limit,
            "cannot be recorded: the kernel has no tracepoint exceptions:page_fault_user",
            "Boot a kernel of x86_64 built with tracepoints; waits for a disk outside of system calls are recorded without it.",
        ),
        (true, Some(why)) => check_to_do(
            id,
            title,
            Verdict::Limit,
            format!("cannot be recorded by this user: the kernel's counters of page faults are refused ({why})"),
            "Run as root, or with CAP_PERFMON.",
        ),
        (true, None) if has_files => {
            check(id, title, Verdict::Yes, "recorded with `record --faults`, with their files")
        }
        (true, None) => check(
            id,
            title,
            Verdict::Yes,
            "recorded with `record --faults`; faults that read have their file; from Linux 6.12 others have it too",
        ),
    }
}

/// Whether annotated programs are heard; `is_late`: also those that are mapped once rights were given up.
fn annotations_check(has_uprobes: bool, is_late: bool) -> Check {
    let (id, title) = ("kernel.annotations", "annotations");
    match (has_uprobes, is_late) {
        (false, _) => check_to_do(
            id,
            title,
            Verdict::Limit,
            "not received by `record`: the kernel has no uprobes (CONFIG_UPROBE_EVENTS)",
            "Start annotated programs with `wakepath run -- CMD`, which needs none.",
        ),
        (true, true) => check(id, title, Verdict::Yes, "received by uprobes, also from programs that start later"),
        (true, false) => check_to_do(
            id,
            title,
            Verdict::Limit,
            "received from programs that run when `record` begins and from the command that it starts, not from later ones",
            "Linux 6.6 or later with CAP_SYS_ADMIN receives these too; `wakepath run -- CMD` needs neither.",
        ),
    }
}

fn release_check(release: &str, btf: bool, works: bool) -> Check {
    let (id, title) = ("kernel.release", "kernel");
    let Some(found) = version(release) else {
        return check(id, title, Verdict::Note, format!("Linux {release}: not a release number that can be compared"));
    };
    if found >= NEEDED {
        return check(id, title, Verdict::Yes, format!("Linux {release}"));
    }
    let mut missing: Vec<&str> = FEATURES.iter().filter(|(since, _)| found < *since).map(|(_, what)| *what).collect();
    if !btf {
        missing.insert(0, "BTF of its own types");
    }
    let text = format!("Linux {release} is older than 5.12 and by its number lacks: {}", missing.join("; "));
    if works {
        return check(
            id,
            title,
            Verdict::Note,
            format!("{text}. The trial succeeded all the same: its vendor added them"),
        );
    }
    check_to_do(
        id,
        title,
        Verdict::No,
        format!("{text} (a vendor may have added some: only the trial is proof)"),
        "Boot Linux 5.12 or later with BTF (RHEL 9, Debian 12, Ubuntu 22.04): from 6.3 record uses the socket hooks, \
         below that `--backend syscalls`.",
    )
}

fn architecture_check(arch: &str) -> Check {
    let (id, title) = ("kernel.arch", "architecture");
    match arch {
        "x86_64" => {
            check(id, title, Verdict::Yes, "x86_64; system calls of 32-bit programs (i386, x32) are not decoded")
        }
        "aarch64" => {
            let found = "aarch64; system calls of 32-bit programs are not decoded, page faults and runtimes' logical tasks not read";
            check(id, title, Verdict::Yes, found)
        }
        other => check_to_do(
            id,
            title,
            Verdict::No,
            format!("{other}: system calls are only known for x86_64 and aarch64"),
            "Record on a host of x86_64 or aarch64; reading trace folders works here.",
        ),
    }
}

fn btf_check(readable: bool, exists: bool) -> Check {
    let (id, title) = ("kernel.btf", "BTF");
    match (readable, exists) {
        (true, _) => check(id, title, Verdict::Yes, "the kernel describes its types (/sys/kernel/btf/vmlinux)"),
        (false, true) => check_to_do(
            id,
            title,
            Verdict::No,
            "/sys/kernel/btf/vmlinux exists but cannot be read",
            "Check its rights, and whether a container hides /sys.",
        ),
        (false, false) => check_to_do(
            id,
            title,
            Verdict::No,
            "no /sys/kernel/btf/vmlinux: the kernel does not describe its types, so no program can be attached",
            "Boot a kernel built with CONFIG_DEBUG_INFO_BTF=y (5.12 and later); in a container, make /sys visible.",
        ),
    }
}

fn tracepoint_checks(support: &Support) -> Vec<Check> {
    let all = support.tracepoints.len();
    let missing: Vec<&str> = support.tracepoints.iter().filter(|(_, has)| !has).map(|(name, _)| *name).collect();
    let (id, title) = ("kernel.tracepoints", "tracepoints");
    if missing.is_empty() {
        return vec![check(id, title, Verdict::Yes, format!("all {all} that are used"))];
    }
    if !support.btf {
        return vec![check(id, title, Verdict::No, "not known without BTF")];
    }
    let mut checks = vec![check(id, title, Verdict::Limit, format!("{} of {all} that are used", all - missing.len()))];
    for name in missing {
        let is_vital = matches!(name, "sys_enter" | "sys_exit");
        let verdict = if is_vital { Verdict::No } else { Verdict::Limit };
        let found = format!("missing: {}", without(name));
        let title = format!("  {name}");
        checks.push(match is_vital {
            true => check_to_do(
                "kernel.tracepoint",
                &title,
                verdict,
                found,
                "Boot a kernel built with CONFIG_FTRACE_SYSCALLS=y.",
            ),
            false => check("kernel.tracepoint", &title, verdict, found),
        });
    }
    checks
}

fn lockdown_check(text: Option<&str>, works: bool) -> Check {
    let (id, title) = ("kernel.lockdown", "lockdown");
    let mode = text.and_then(|t| Some(t.split_once('[')?.1.split_once(']')?.0));
    match mode {
        Some("none") => check(id, title, Verdict::Yes, "none"),
        Some("integrity") => {
            check(id, title, Verdict::Yes, "integrity: forbids kprobes and fentry, which are not used")
        }
        Some(mode) if works => check(id, title, Verdict::Note, format!("{mode}; the trial succeeded all the same")),
        Some(mode) => check_to_do(
            id,
            title,
            Verdict::No,
            format!("{mode}: programs may not read kernel memory"),
            "Boot with lockdown=integrity, or without lockdown.",
        ),
        None => check(
            id,
            title,
            Verdict::Note,
            "not known: /sys/kernel/security/lockdown cannot be read (most kernels without it have no lockdown)",
        ),
    }
}

fn unprivileged_check(text: Option<&str>) -> Check {
    let (id, title) = ("kernel.unprivileged_bpf", "unprivileged BPF");
    let found = match text.map(str::trim) {
        Some("0") => {
            "allowed (unprivileged_bpf_disabled=0); wakepath does not use it and needs capabilities either way"
        }
        Some("1") => "off until the next boot (unprivileged_bpf_disabled=1); no matter: wakepath uses capabilities",
        Some("2") => "off (unprivileged_bpf_disabled=2); no matter: wakepath uses capabilities",
        _ => {
            "not known: /proc/sys/kernel/unprivileged_bpf_disabled cannot be read; no matter: wakepath uses capabilities"
        }
    };
    check(id, title, Verdict::Note, found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn support(btf: bool, missing: &[&str]) -> Support {
        let names = ["sys_enter", "sys_exit", "sock_send_length", "sock_recv_length", "sk_data_ready"];
        Support {
            btf,
            tracepoints: names.iter().map(|n| (*n, btf && !missing.contains(n))).collect(),
            has_multi: btf,
            calls: btf,
        }
    }

    #[test]
    fn versions_of_distributions() {
        assert_eq!(version("6.1.0-18-amd64"), Some((6, 1)));
        assert_eq!(version("4.18.0-553.el8_10.x86_64"), Some((4, 18)));
        assert_eq!(version("5.15.0-101-generic"), Some((5, 15)));
        assert_eq!(version("6.18"), Some((6, 18)));
        assert_eq!(version("custom"), None);
    }

    #[test]
    fn an_old_kernel_is_told_exactly_what_it_lacks() {
        let rhel8 = release_check("4.18.0-553.el8_10.x86_64", false, false);
        assert_eq!(rhel8.verdict, Verdict::No);
        for what in ["BTF of its own types", "BTF tracepoints", "iterators", "task storage", "socket storage"] {
            assert!(rhel8.found.contains(what), "{}", rhel8.found);
        }
        let remedy = rhel8.remedy.unwrap_or_default();
        assert!(remedy.contains("5.12") && remedy.contains("6.3") && remedy.contains("--backend syscalls"), "{remedy}");
        let ubuntu = release_check("5.8.0-1", true, false);
        assert!(ubuntu.found.contains("task storage") && !ubuntu.found.contains("iterators"), "{}", ubuntu.found);
        assert_eq!(release_check("4.18.0", true, true).verdict, Verdict::Note);
        assert_eq!(release_check("6.1.0", true, false).verdict, Verdict::Yes);
    }

    #[test]
    fn the_backend_follows_the_hooks() {
        assert_eq!(backend(&support(true, &[])), Some("calls"));
        let without_calls = Support { calls: false, ..support(true, &[]) };
        assert_eq!(backend(&without_calls), Some("socket-hooks"));
        assert_eq!(backend(&support(true, &["sock_send_length"])), Some("syscalls"));
        assert_eq!(backend(&support(false, &[])), None);
        let checks = tracepoint_checks(&support(true, &["sock_send_length", "sys_exit"]));
        let verdicts: Vec<Verdict> = checks.iter().map(|c| c.verdict).collect();
        assert_eq!(verdicts, [Verdict::Limit, Verdict::No, Verdict::Limit]);
    }

    #[test]
    fn lockdown_matters_only_as_confidentiality() {
        assert_eq!(lockdown_check(Some("[none] integrity confidentiality\n"), false).verdict, Verdict::Yes);
        assert_eq!(lockdown_check(Some("none [integrity] confidentiality\n"), false).verdict, Verdict::Yes);
        assert_eq!(lockdown_check(Some("none integrity [confidentiality]\n"), false).verdict, Verdict::No);
        assert_eq!(lockdown_check(None, false).verdict, Verdict::Note);
    }

    #[test]
    fn annotations_need_uprobes_and_later_ones_more() {
        let all = [(false, true), (true, false), (true, true)].map(|(has, late)| annotations_check(has, late));
        assert_eq!(all.each_ref().map(|c| c.verdict), [Verdict::Limit, Verdict::Limit, Verdict::Yes]);
        assert!(all.iter().all(|c| c.remedy.is_some() == (c.verdict == Verdict::Limit)));
    }

    #[test]
    fn page_faults_need_a_tracepoint_and_a_counter() {
        let refused = Some("perf_event_open: no");
        let all = [(false, None), (true, refused), (true, None)].map(|(has, why)| faults_check(has, true, why));
        assert_eq!(all.each_ref().map(|c| c.verdict), [Verdict::Limit, Verdict::Limit, Verdict::Yes]);
        assert!(all.iter().all(|c| c.remedy.is_some() == (c.verdict == Verdict::Limit)));
        assert_ne!(faults_check(true, false, None).found, all[2].found);
    }

    #[test]
    fn every_no_says_what_to_do() {
        let mut all = checks("4.18.0", &support(false, &[]), false);
        all.push(architecture_check("riscv64"));
        all.push(btf_check(false, true));
        // without BTF the tracepoints repeat what the line before says
        for c in all.iter().filter(|c| c.verdict == Verdict::No && c.id != "kernel.tracepoints") {
            assert!(c.remedy.is_some(), "{} says nothing", c.id);
        }
    }
}
