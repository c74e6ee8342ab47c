//! Page faults: the kernel's own counters of them, one event a processor, each with a kernel program on it.

use crate::CaptureError;
use libbpf_rs::libbpf_sys::{
    PERF_COUNT_SW_PAGE_FAULTS_MAJ, PERF_COUNT_SW_PAGE_FAULTS_MIN, PERF_FLAG_FD_CLOEXEC, PERF_TYPE_SOFTWARE,
    perf_event_attr,
};
use libbpf_rs::{Link, ProgramMut};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};

/// What the programs of page faults hang on: tracepoints, and the section of those on counters.
pub(crate) const POINTS: [&str; 5] =
    ["page_fault_user", "page_fault_kernel", "mm_filemap_fault", "mm_filemap_map_pages", "perf_event"];
/// Stands in for the page cache's own tracepoints of faults before Linux 6.12.
pub(crate) const OLD_POINT: &str = "mm_filemap_add_to_page_cache";

/// Which page faults are counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counter {
    Minor,
    Major,
}

/// Opens a counter on one processor that tells of each fault.
fn open(counter: Counter, cpu: i32) -> io::Result<OwnedFd> {
    // SAFETY: zeroed is a valid attribute: a size and flags follow.
    let mut attr: perf_event_attr = unsafe { std::mem::zeroed() };
    attr.size = size_of::<perf_event_attr>() as u32;
    attr.type_ = PERF_TYPE_SOFTWARE;
    attr.config = u64::from(match counter {
        Counter::Minor => PERF_COUNT_SW_PAGE_FAULTS_MIN,
        Counter::Major => PERF_COUNT_SW_PAGE_FAULTS_MAJ,
    });
    attr.__bindgen_anon_1.sample_period = 1;
    // SAFETY: `attr` is valid for the call and says how long it is; of every task, on this processor.
    let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC) };
    match i32::try_from(fd) {
        // SAFETY: the kernel has just made it and nobody else knows it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Why the kernel does not tell of page faults through its counters; `None` where it does.
pub fn counter_refusal() -> Option<String> {
    let refused = open(Counter::Minor, 0).err()?;
    Some(format!("perf_event_open: {refused}"))
}

/// Attaches a program to a counter, on every processor that runs now. What comes up later is not counted.
pub(crate) fn attach(program: &ProgramMut<'_>, counter: Counter) -> Result<Vec<Link>, CaptureError> {
    let mut links = Vec::new();
    for cpu in online()? {
        let fd = open(counter, cpu).map_err(|e| match e.kind() {
            io::ErrorKind::PermissionDenied => CaptureError::Denied(format!("counting page faults: {e}")),
            _ => CaptureError::Unsupported(format!("a counter of page faults (perf_event_open: {e})")),
        })?;
        links.push(program.attach_perf_event(fd.as_raw_fd())?);
        // the link closes it
        let _ = fd.into_raw_fd();
    }
    Ok(links)
}

/// Processors that run.
fn online() -> Result<Vec<i32>, CaptureError> {
    let path = "/sys/devices/system/cpu/online";
    let text = std::fs::read_to_string(path).map_err(|e| CaptureError::Load(format!("reading {path}: {e}")))?;
    Ok(ranges(&text))
}

/// `0-3,8` as numbers.
fn ranges(text: &str) -> Vec<i32> {
    let range = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        Some(from.parse::<u16>().ok()?..=to.parse::<u16>().ok()?)
    };
    text.trim().split(',').filter_map(range).flatten().map(i32::from).collect()
}

#[cfg(test)]
mod tests {
    use super::ranges;

    #[test]
    fn processors_are_listed_by_ranges() {
        assert_eq!(ranges("0-1\n"), [0, 1]);
        assert_eq!(ranges("0,2-4,9\n"), [0, 2, 3, 4, 9]);
        assert_eq!(ranges("\n"), [] as [i32; 0]);
    }
}
