//! What else of the host matters to a recording: clock, namespaces, memory, disk.

use super::tls::tls_check;
use super::{check, check_to_do};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs;
use wakepath_capture::limits::Cgroups;
use wakepath_capture::procfs;
use wakepath_capture::runtimes::is_sought;
use wakepath_present::doctor::{Check, Verdict};
use wakepath_present::units;
use wakepath_runtimes::{Runtime, Unread};

/// Bytes of each processor's ring, unless `--ring-bytes` says otherwise.
const RING_BYTES: u64 = 8 << 20;
/// Less free space than this is too little for a recording of some minutes.
const DISK_BYTES_LOW: u64 = 1 << 30;
/// The inode of the first PID namespace, in every kernel.
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Whether this is root.
pub fn is_root() -> bool {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Processors that could be used, also those that are off now.
pub fn possible_cpus() -> u32 {
    let text = fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    cpus_in(&text).unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get() as u32))
}

/// The number of processors in a list like `0-3,8-11`.
fn cpus_in(list: &str) -> Option<u32> {
    let mut sum = 0u32;
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        sum = sum.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(sum)
}

/// Everything but the kernel and the rights.
pub fn checks() -> Vec<Check> {
    vec![
        pid_namespace_check(
            fs::read_link("/proc/self/ns/pid").ok().and_then(|p| p.into_os_string().into_string().ok()).as_deref(),
            &fs::read_to_string("/proc/self/status").unwrap_or_default(),
        ),
        clock_check(
            fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource").ok().as_deref(),
        ),
        rings_check(possible_cpus(), memory_available(&fs::read_to_string("/proc/meminfo").unwrap_or_default())),
        memlock_check(),
        disk_check(),
        limits_check(&Cgroups::find()),
        runtimes_check(&runtimes()),
        tls_check(),
    ]
}

/// The runtimes of the processes that run now.
fn runtimes() -> Vec<(u32, Runtime)> {
    let found = |pid| Some((pid, wakepath_runtimes::of_process(pid)?));
    procfs::processes().into_iter().filter_map(found).collect()
}

/// What puts helpers into the processes that lack them.
fn attaching(found: &[(u32, Runtime)]) -> String {
    const SHOWN_MAX: usize = 8;
    let lack: Vec<String> = found
        .iter()
        .filter(|(_, r)| matches!(r.layout, Err(Unread::Helper | Unread::Agent)))
        .map(|(pid, _)| pid.to_string())
        .collect();
    let (shown, more) = lack.split_at(lack.len().min(SHOWN_MAX));
    match (shown, more) {
        ([], _) => String::new(),
        ([one], _) => format!(
            " `wakepath attach {one}` puts the helper into that process while it runs; it says first what it does, and asks."
        ),
        (_, []) => {
            format!(" `wakepath attach PID` puts the helper into a process while it runs: {}.", shown.join(", "))
        }
        _ => format!(
            " `wakepath attach PID` puts the helper into a process while it runs: {}, and {} more.",
            shown.join(", "),
            more.len()
        ),
    }
}

/// Whose logical tasks are told apart.
fn runtimes_check(found: &[(u32, Runtime)]) -> Check {
    let (id, title) = ("host.runtimes", "runtimes");
    let mut told: BTreeMap<String, usize> = BTreeMap::new();
    for (_, r) in found {
        let what = match &r.layout {
            Ok(layout) if is_sought(layout) => {
                format!(
                    "{} {}: a recording tells {} apart, once it has found their numbers",
                    r.name, r.version, r.tasks
                )
            }
            Ok(_) if r.asked_by.is_empty() => format!("{} {}: {} are told apart", r.name, r.version, r.tasks),
            Ok(_) => format!("{} {}: {} are told apart by `record {}`", r.name, r.version, r.tasks, r.asked_by),
            Err(why) => format!("{} {}: {} are not told apart, because {}", r.name, r.version, r.tasks, why.reason()),
        };
        *told.entry(what).or_default() += 1;
    }
    let lines: Vec<String> = told.iter().map(|(what, n)| format!("{n} × {what}")).collect();
    match found.iter().all(|(_, r)| r.layout.is_ok()) {
        true if lines.is_empty() => check(id, title, Verdict::Yes, "no process of a runtime that is known"),
        true => check(id, title, Verdict::Yes, lines.join("; ")),
        false => check_to_do(
            id,
            title,
            Verdict::Limit,
            lines.join("; "),
            format!(
                "Paths through these processes may stay open under load.{} docs/runtimes.md lists what can be read, and how.",
                attaching(found)
            ),
        ),
    }
}

/// Where quotas are read that forecasts need.
fn limits_check(cgroups: &Cgroups) -> Check {
    let (id, title) = ("host.limits", "limits");
    let found: Vec<String> =
        cgroups.hierarchies().map(|(version, at)| format!("cgroup v{version} at {}", at.display())).collect();
    if found.is_empty() {
        return check_to_do(
            id,
            title,
            Verdict::Limit,
            "no cgroup hierarchy is mounted here: forecasts take every process for one without a quota",
            "Run it where /sys/fs/cgroup is mounted.",
        );
    }
    check(
        id,
        title,
        Verdict::Yes,
        format!("quotas of processor time, for forecasts, are read from {}", found.join(" and ")),
    )
}

fn pid_namespace_check(namespace: Option<&str>, status: &str) -> Check {
    let (id, title) = ("host.pid_namespace", "PID namespace");
    let depth = status.lines().find_map(|l| l.strip_prefix("NSpid:")).map(|l| l.split_whitespace().count());
    match (namespace, depth) {
        (Some(FIRST_PID_NAMESPACE), _) => check(id, title, Verdict::Yes, "the host's own: pids are the kernel's"),
        (None, None | Some(1)) => check(id, title, Verdict::Note, "not known: /proc/self/ns/pid cannot be read"),
        _ => check_to_do(
            id,
            title,
            Verdict::Limit,
            "not the host's (a container): the kernel names tasks by other pids than those seen here, so --pid, --comm, \
             --cgroup and --port choose wrongly, and names and command lines of running tasks are missing or wrong",
            "Run it in the host's PID namespace (docker run --pid=host, hostPID: true, or on the host itself).",
        ),
    }
}

fn clock_check(source: Option<&str>) -> Check {
    let (id, title) = ("host.clocksource", "clocksource");
    match source.map(str::trim) {
        Some(name @ ("hpet" | "acpi_pm" | "jiffies" | "pit")) => check_to_do(
            id,
            title,
            Verdict::Limit,
            format!("{name}: reading the time is slow, and every record reads it"),
            "Find out in the kernel log why tsc was rejected; a clocksource=tsc boot option is for machines whose tsc is known to be good.",
        ),
        Some(name) => check(id, title, Verdict::Yes, name),
        None => check(id, title, Verdict::Note, "not known"),
    }
}

fn memory_available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

fn rings_check(cpus: u32, available: Option<u64>) -> Check {
    let (id, title) = ("host.rings", "memory for the rings");
    let all = u64::from(cpus) * RING_BYTES;
    let mut found =
        format!("{} ({cpus} possible processors × {}, --ring-bytes)", units::bytes(all), units::bytes(RING_BYTES));
    if let Some(bytes) = available {
        found.push_str(&format!(", of {} available", units::bytes(bytes)));
    }
    if cpus > wakepath_wire::MAX_CPUS {
        return check_to_do(
            id,
            title,
            Verdict::Limit,
            format!("{cpus} possible processors: only the first {} are recorded", wakepath_wire::MAX_CPUS),
            "Boot with possible_cpus= set to the number of existing processors.",
        );
    }
    match available {
        Some(bytes) if all > bytes / 4 => {
            check_to_do(id, title, Verdict::Limit, found, "Record with a smaller --ring-bytes, as 1M.")
        }
        _ => check(id, title, Verdict::Yes, found),
    }
}

fn memlock_check() -> Check {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes to the structure that it is given.
    unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) };
    let found = match limit.rlim_cur {
        libc::RLIM_INFINITY => "unlimited".to_owned(),
        n => format!("{}; no matter: kernels from 5.11 count BPF memory by cgroup", units::bytes(n)),
    };
    check("host.memlock", "memlock limit", Verdict::Note, found)
}

fn disk_check() -> Check {
    let (id, title) = ("host.disk", "disk");
    let dir = std::env::current_dir().map_or_else(|_| ".".to_owned(), |d| d.display().to_string());
    let Some((free, writable)) = disk(&dir) else {
        return check(id, title, Verdict::Note, format!("{dir}: not known how much is free"));
    };
    let found = format!("{} free in {dir}", units::bytes(free));
    if !writable {
        return check_to_do(
            id,
            title,
            Verdict::Limit,
            format!("{dir} cannot be written by this user"),
            "Record into a folder of your own: -o DIR.",
        );
    }
    if free < DISK_BYTES_LOW {
        return check_to_do(
            id,
            title,
            Verdict::Limit,
            found,
            "Free space, write elsewhere with -o, or bound the recording with --max-bytes.",
        );
    }
    check(id, title, Verdict::Yes, found)
}

/// Bytes free for this user, and whether the folder may be written.
fn disk(dir: &str) -> Option<(u64, bool)> {
    let path = CString::new(dir).ok()?;
    // SAFETY: all zeroes is a valid value of this plain structure.
    let mut s: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends in NUL and `s` is valid to write to.
    if unsafe { libc::statvfs(path.as_ptr(), &mut s) } != 0 {
        return None;
    }
    // SAFETY: the path ends in NUL.
    let writable = unsafe { libc::access(path.as_ptr(), libc::W_OK) } == 0;
    Some((s.f_bavail.saturating_mul(s.f_frsize), writable))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_lists() {
        assert_eq!(cpus_in("0-1\n"), Some(2));
        assert_eq!(cpus_in("0\n"), Some(1));
        assert_eq!(cpus_in("0-3,8-11,16"), Some(9));
        assert_eq!(cpus_in(""), None);
        assert_eq!(cpus_in("3-1"), None);
    }

    #[test]
    fn a_container_is_told_that_pids_differ() {
        assert_eq!(pid_namespace_check(Some(FIRST_PID_NAMESPACE), "NSpid:\t7\n").verdict, Verdict::Yes);
        let inside = pid_namespace_check(Some("pid:[4026532999]"), "NSpid:\t7\n");
        assert_eq!(inside.verdict, Verdict::Limit);
        assert!(inside.remedy.is_some_and(|r| r.contains("--pid=host")));
        assert_eq!(pid_namespace_check(None, "NSpid:\t77\t1\n").verdict, Verdict::Limit);
        assert_eq!(pid_namespace_check(None, "").verdict, Verdict::Note);
    }

    #[test]
    fn rings_are_held_against_memory() {
        assert_eq!(memory_available("MemTotal: 9 kB\nMemAvailable:   2048 kB\n"), Some(2 << 20));
        assert_eq!(rings_check(2, Some(16 << 30)).verdict, Verdict::Yes);
        assert_eq!(rings_check(128, Some(2 << 30)).verdict, Verdict::Limit);
        assert_eq!(rings_check(wakepath_wire::MAX_CPUS + 1, None).verdict, Verdict::Limit);
        assert_eq!(clock_check(Some("tsc\n")).verdict, Verdict::Yes);
        assert_eq!(clock_check(Some("hpet\n")).verdict, Verdict::Limit);
    }
}
