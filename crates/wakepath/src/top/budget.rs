//! What reading along may cost: a part of what the recorder itself takes, so that watching a busy host does not make it busier.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// `top` takes at most one part in so many of the recorder's processor time; starting and drawing once take a little more.
const PARTS: u32 = 12;
/// What is read for each second of processor time, until it was measured (bytes).
const BYTES_PER_S: u64 = 4_000_000;
/// No less is read: it would hold too few requests to say anything.
pub const LEAST: u64 = 64 << 10;

/// How much may be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Nobody records: as much as there is.
    All,
    /// At most so many bytes.
    Bytes(u64),
    /// Nothing yet.
    Later,
}

/// The recorder's processor time, and ours.
pub struct Budget {
    recorders: Vec<u32>,
    /// The recorders' time when we began.
    began: Duration,
    bytes_per_s: u64,
}

impl Budget {
    /// For who writes into these folders now.
    pub fn of(dirs: &[PathBuf]) -> Budget {
        let recorders: Vec<u32> = dirs.iter().filter_map(|d| recorder_of(d)).collect();
        let began = recorders.iter().filter_map(|pid| cpu_of(*pid)).sum();
        Budget { recorders, began, bytes_per_s: BYTES_PER_S }
    }

    /// What may be read now.
    pub fn share(&self) -> Share {
        let times: Vec<Duration> = self.recorders.iter().filter_map(|pid| cpu_of(*pid)).collect();
        if times.is_empty() {
            return Share::All;
        }
        let theirs = times.iter().sum::<Duration>().saturating_sub(self.began);
        self.of_times(theirs, own_cpu())
    }

    fn of_times(&self, theirs: Duration, ours: Duration) -> Share {
        let left = (theirs / PARTS).saturating_sub(ours);
        let bytes = (left.as_secs_f64() * self.bytes_per_s as f64) as u64;
        if bytes < LEAST { Share::Later } else { Share::Bytes(bytes) }
    }

    /// So many bytes were read, which took so much processor time.
    pub fn measured(&mut self, bytes: u64, took: Duration) {
        // of less, most went to what any reading takes
        if bytes >= LEAST && !took.is_zero() {
            self.bytes_per_s = (bytes as f64 / took.as_secs_f64()) as u64;
        }
    }
}

/// The processor time of this process.
pub fn own_cpu() -> Duration {
    // SAFETY: fills a structure of ours.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let of = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    of(usage.ru_utime) + of(usage.ru_stime)
}

/// The process that records into a folder: it holds a lock on the list of its segments.
fn recorder_of(dir: &Path) -> Option<u32> {
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let hosts = fs::read_dir(dir.join("hosts")).ok()?.flatten();
    let files = hosts.filter_map(|h| fs::read_dir(h.path()).ok()).flatten().flatten();
    let lists = files.filter(|f| f.path().extension().is_some_and(|e| e == "list"));
    lists.filter_map(|f| f.metadata().ok()).find_map(|m| holder(&locks, m.ino()))
}

/// Who holds a lock of the whole file with that inode: `1: FLOCK  ADVISORY  WRITE 4711 fe:01:1234 0 EOF`.
fn holder(locks: &str, inode: u64) -> Option<u32> {
    locks.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let kind = words.next().filter(|w| *w == "FLOCK");
        let (pid, file) = (words.nth(2)?.parse().ok()?, words.next()?);
        kind.filter(|_| file.rsplit(':').next().and_then(|i| i.parse().ok()) == Some(inode)).map(|_| pid)
    })
}

/// The processor time of a process that is a recorder of ours.
fn cpu_of(pid: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (name, rest) = stat.rsplit_once(") ")?;
    // another process may have its number, or another's lock its file's
    if !name.contains("(wakepath") {
        return None;
    }
    let ticks: u64 = rest.split(' ').skip(11).take(2).filter_map(|n| n.parse::<u64>().ok()).sum();
    // the unit that Linux shows programs, on every machine
    Some(Duration::from_millis(ticks * 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_holds_the_lock_of_a_file_is_found() {
        let locks = "1: POSIX  ADVISORY  WRITE 12 fe:01:77 0 EOF\n2: FLOCK  ADVISORY  WRITE 4711 fe:01:77 0 EOF\n2: -> FLOCK  ADVISORY  WRITE 9 fe:01:78 0 EOF\n";
        assert_eq!(holder(locks, 77), Some(4711));
        assert_eq!(holder(locks, 7), None);
    }

    #[test]
    fn no_more_is_read_than_a_part_of_what_the_recorder_took() {
        let mut budget = Budget { recorders: vec![1], began: Duration::ZERO, bytes_per_s: 10_000_000 };
        let s = Duration::from_secs;
        assert_eq!(budget.of_times(s(12), Duration::ZERO), Share::Bytes(10_000_000));
        assert_eq!(budget.of_times(s(12), s(1)), Share::Later);
        budget.measured(LEAST, Duration::from_millis(64));
        assert_eq!(budget.of_times(s(12), Duration::ZERO), Share::Bytes(1_024_000));
    }
}
