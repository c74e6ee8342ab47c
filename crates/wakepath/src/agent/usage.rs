//! What processes use, as the kernel counts it.

use std::fs;

/// Memory and processor time of processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of memory that are theirs now (RSS).
    pub memory: u64,
    /// Processor time since they began, in ns.
    pub ran_ns: u64,
    /// Open descriptors.
    pub descriptors: u64,
}

/// Of all of these together; one that has gone uses nothing.
pub fn of(pids: &[u32]) -> Usage {
    pids.iter().fold(Usage::default(), |all, pid| {
        let one = of_one(*pid).unwrap_or_default();
        Usage {
            memory: all.memory + one.memory,
            ran_ns: all.ran_ns + one.ran_ns,
            descriptors: all.descriptors + one.descriptors,
        }
    })
}

fn of_one(pid: u32) -> Option<Usage> {
    let pages: u64 = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?.split(' ').nth(1)?.parse().ok()?;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // the name before may have blanks and parentheses
    let mut words = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let ticks: u64 = words.next()?.parse::<u64>().ok()? + words.next()?.parse::<u64>().ok()?;
    // SAFETY: asks for numbers that do not change.
    let (page, per_second) = unsafe { (libc::sysconf(libc::_SC_PAGESIZE), libc::sysconf(libc::_SC_CLK_TCK)) };
    let per_second = u64::try_from(per_second).ok().filter(|n| *n > 0)?;
    Some(Usage {
        memory: pages * u64::try_from(page).ok()?,
        ran_ns: ticks * (1_000_000_000 / per_second),
        descriptors: fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, |d| d.count() as u64),
    })
}

/// Bytes that a file system has left, and all that it has.
pub fn disk(folder: &std::path::Path) -> Option<(u64, u64)> {
    let about = rustix::fs::statvfs(folder).ok()?;
    Some((about.f_bavail * about.f_frsize, about.f_blocks * about.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_uses_memory_and_time_and_one_that_is_gone_nothing() {
        let me = of(&[std::process::id()]);
        assert!(me.memory > 100_000 && me.descriptors >= 3, "{me:?}");
        let begun = std::time::Instant::now();
        while begun.elapsed().as_millis() < 60 {
            std::hint::black_box(begun);
        }
        assert!(of(&[std::process::id()]).ran_ns >= me.ran_ns + 20_000_000);
        assert_eq!(of(&[u32::MAX]), Usage::default());
    }
}
