//! What `/proc` says of tasks: read once at the start and when an event names a task that no event introduced.

use std::fs;
use std::path::PathBuf;

/// A task as `/proc` shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcTask {
    /// Thread group.
    pub tgid: u32,
    /// Thread.
    pub tid: u32,
    /// Start, ns since boot (10 ms grain: only the kernel's own events are finer).
    pub start_ns: u64,
    /// Name.
    pub comm: Vec<u8>,
    /// Command line of the process, NUL-separated.
    pub cmdline: Vec<u8>,
    /// cgroup path (v2, else the longest of v1).
    pub cgroup: Vec<u8>,
    /// Kernel thread.
    pub kernel: bool,
}

/// Every task there is now. Tasks that end meanwhile are left out.
pub fn tasks() -> Vec<ProcTask> {
    let mut out = Vec::new();
    for tgid in numbers("/proc".into()) {
        let process = match task(tgid, tgid) {
            Some(p) => p,
            None => continue,
        };
        for tid in numbers(format!("/proc/{tgid}/task").into()) {
            if tid == tgid {
                out.push(process.clone());
            } else if let Some((comm, start_ns, _)) = stat(tgid, tid) {
                out.push(ProcTask { tid, comm, start_ns, ..process.clone() });
            }
        }
    }
    out
}

/// One task, or `None` where it is gone.
pub fn task(tgid: u32, tid: u32) -> Option<ProcTask> {
    let (comm, start_ns, flags) = stat(tgid, tid)?;
    let cmdline = fs::read(format!("/proc/{tgid}/cmdline")).unwrap_or_default();
    let cgroups = fs::read_to_string(format!("/proc/{tgid}/cgroup")).unwrap_or_default();
    const PF_KTHREAD: u64 = 0x0020_0000;
    Some(ProcTask {
        tgid,
        tid,
        start_ns,
        comm,
        cmdline,
        cgroup: cgroup_path(&cgroups).into(),
        kernel: flags & PF_KTHREAD != 0,
    })
}

fn cgroup_path(text: &str) -> &str {
    let paths = text.lines().filter_map(|l| {
        let mut parts = l.splitn(3, ':');
        Some((parts.next()?, parts.next()?, parts.next()?))
    });
    let (mut v2, mut v1) = ("", "");
    for (id, controllers, path) in paths {
        match (id, controllers) {
            ("0", "") => v2 = path,
            _ if path.len() > v1.len() => v1 = path,
            _ => {}
        }
    }
    if v2.len() > 1 || v1.len() <= 1 { v2 } else { v1 }
}

/// Name, start and flags from `stat`; the name may hold spaces and parentheses.
fn stat(tgid: u32, tid: u32) -> Option<(Vec<u8>, u64, u64)> {
    let text = fs::read(format!("/proc/{tgid}/task/{tid}/stat")).ok()?;
    parse_stat(&text)
}

fn parse_stat(text: &[u8]) -> Option<(Vec<u8>, u64, u64)> {
    let open = text.iter().position(|&b| b == b'(')?;
    let close = text.iter().rposition(|&b| b == b')')?;
    let rest = std::str::from_utf8(text.get(close + 1..)?).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // fields are counted from 3 behind the name: flags is the 9th, starttime the 22nd
    let flags = fields.get(6)?.parse().ok()?;
    let ticks: u64 = fields.get(19)?.parse().ok()?;
    Some((text.get(open + 1..close)?.to_vec(), ticks.saturating_mul(10_000_000), flags))
}

fn numbers(folder: PathBuf) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()).collect()
}

/// (process, its parent) of every process.
pub fn parents() -> Vec<(u32, u32)> {
    numbers("/proc".into())
        .into_iter()
        .filter_map(|pid| {
            let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
            let close = text.iter().rposition(|&b| b == b')')?;
            let rest = std::str::from_utf8(text.get(close + 1..)?).ok()?;
            Some((pid, rest.split_ascii_whitespace().nth(1)?.parse().ok()?))
        })
        .collect()
}

/// Identity of this host: name, boot id, kernel release.
pub fn host() -> (String, String, String) {
    let read = |p: &str| fs::read_to_string(p).map(|s| s.trim().to_owned()).unwrap_or_default();
    (read("/proc/sys/kernel/hostname"), read("/proc/sys/kernel/random/boot_id"), read("/proc/sys/kernel/osrelease"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_hold_parentheses() {
        let line = b"7 (a) b) S 1 7 7 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 12345 0 0";
        let (comm, start, flags) = parse_stat(line).unwrap();
        assert_eq!((comm.as_slice(), start, flags), (&b"a) b"[..], 123_450_000_000, 4194304));
    }

    #[test]
    fn the_unified_path_is_preferred() {
        assert_eq!(cgroup_path("12:cpu:/x\n0::/system.slice/a.service\n"), "/system.slice/a.service");
        assert_eq!(cgroup_path("12:cpu:/docker/abc\n0::/\n"), "/docker/abc");
    }

    #[test]
    fn own_task_is_there() {
        let me = std::process::id();
        assert!(tasks().iter().any(|t| t.tgid == me && t.tid == me && !t.kernel));
    }
}
