//! Page faults: every one that the kernel counts has a row that says where it was and how it ended.

use crate::harness::*;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use wakepath_model::rows::{EndedBy, FaultKind, FaultRow, NO_OFFSET, access};

const PAGE: usize = 4096;

/// Memory that is mapped and not there yet, in small pages.
struct Mapped {
    at: usize,
    pages: usize,
}

impl Mapped {
    fn new(pages: usize, rights: i32, flags: i32, file: i32) -> Mapped {
        // SAFETY: a new mapping, where the kernel likes; the result is checked.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), pages * PAGE, rights, flags, file, 0) };
        assert_ne!(at, libc::MAP_FAILED, "memory is mapped");
        // a file's pages are not read ahead, and others not made many at once; who knows neither does neither
        for advice in [libc::MADV_NOHUGEPAGE, libc::MADV_RANDOM] {
            // SAFETY: advice on a mapping of ours.
            unsafe { libc::madvise(at, pages * PAGE, advice) };
        }
        Mapped { at: at as usize, pages }
    }

    fn anonymous(pages: usize) -> Mapped {
        Mapped::new(pages, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)
    }

    /// The address of a byte in a page: another byte in each.
    fn byte(&self, page: usize) -> u64 {
        (self.at + page * PAGE + 8 * (page % 100)) as u64
    }

    fn write(&self, page: usize) {
        // SAFETY: inside a mapping that can be written.
        unsafe { (self.byte(page) as *mut u8).write_volatile(1) };
    }

    fn read(&self, page: usize) -> u8 {
        // SAFETY: inside a mapping that can be read.
        unsafe { (self.byte(page) as *const u8).read_volatile() }
    }

    fn holds(&self, f: &FaultRow) -> bool {
        let at = self.at as u64;
        (at..at + (self.pages * PAGE) as u64).contains(&f.address)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: what `new` mapped; nobody uses it any more.
        unsafe { libc::munmap(self.at as *mut _, self.pages * PAGE) };
    }
}

/// Page faults of this thread so far, as the kernel counts them: without and with a read.
fn counted() -> (i64, i64) {
    // SAFETY: zeroed is a valid value, and is only written to.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage
    };
    (usage.ru_minflt, usage.ru_majflt)
}

fn now() -> u64 {
    wakepath_capture::monotonic_ns()
}

#[test]
fn every_page_fault_that_the_kernel_counts_has_a_row() {
    const PAGES: usize = 500;
    let Some(rec) = record("auto", &["--faults"]) else { return };
    let thread = std::thread::spawn(|| {
        let fresh = Mapped::anonymous(PAGES);
        let shared = Mapped::anonymous(PAGES);
        let given = Mapped::anonymous(16);
        let barred = Mapped::new(1, libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1);
        let zeros = std::fs::File::open("/dev/zero").expect("it is there");
        // their own code is there from now on
        let _ = (now(), counted());
        let (began, before) = (now(), counted());
        (0..PAGES).for_each(|page| fresh.write(page));
        // a page of zeros is there after the read, and is copied when it is written
        (0..PAGES).for_each(|page| assert_eq!(shared.read(page), 0));
        (0..PAGES).for_each(|page| shared.write(page));
        // SAFETY: the kernel writes into a mapping of that length.
        let n = unsafe { libc::read(zeros.as_raw_fd(), given.at as *mut _, given.pages * PAGE) };
        assert_eq!(n, (given.pages * PAGE) as isize);
        // SAFETY: the kernel looks for a path in memory that may not be read, and says so.
        let refused = unsafe { libc::access(barred.at as *const _, 0) };
        assert_eq!(refused, -1, "nothing can be read there");
        let (after, ended) = (counted(), now());
        // what ended a fault that nobody counts is known with the next one
        fresh.read(0);
        Mapped::anonymous(1).write(0);
        let minor = after.0 - before.0;
        (gettid(), [fresh, shared, given, barred], began..ended, minor, after.1 - before.1)
    });
    let (tid, [fresh, shared, given, barred], during, minor, major) = thread.join().expect("it ends");
    let trace = rec.stop();
    assert_eq!(trace.lost("loss.ring.fault"), 0);
    let task = trace.task(tid);
    let all: Vec<&FaultRow> = trace.faults.iter().filter(|f| f.task == task).collect();
    let of = |kind: FaultKind| all.iter().filter(|f| f.kind == kind && during.contains(&f.at.0)).count() as i64;
    assert_eq!((of(FaultKind::Minor), of(FaultKind::Major)), (minor, major), "as getrusage says");
    for f in &all {
        assert!(f.began <= f.at && f.access & access::UNSEEN == 0, "{f:?}");
    }

    let inside = |m: &Mapped| all.iter().filter(|f| m.holds(f)).map(|f| **f).collect::<Vec<FaultRow>>();
    let rows = inside(&fresh);
    let wanted: Vec<u64> = (0..PAGES).map(|page| fresh.byte(page)).collect();
    assert_eq!(rows.iter().map(|f| f.address).collect::<Vec<u64>>(), wanted, "one each, where it was");
    assert!(rows.iter().all(|f| (f.kind, f.access) == (FaultKind::Minor, access::WRITE | access::USER)), "{rows:?}");
    assert!(rows.iter().all(|f| f.inode == 0 && f.duration_ns().is_some()), "no file is there");

    let rows = inside(&shared);
    let (read, copied) = rows.split_at(rows.len() / 2);
    let wanted: Vec<u64> = (0..PAGES).map(|page| shared.byte(page)).collect();
    for (rows, how) in [(read, access::USER), (copied, access::USER | access::WRITE | access::PRESENT)] {
        assert_eq!(rows.iter().map(|f| f.address).collect::<Vec<u64>>(), wanted);
        assert!(rows.iter().all(|f| (f.kind, f.access) == (FaultKind::Minor, how)), "{rows:?}");
    }

    let rows = inside(&given);
    let pages: std::collections::BTreeSet<u64> = rows.iter().map(|f| f.address / PAGE as u64).collect();
    assert_eq!(pages.len(), given.pages, "each page that the kernel wrote to: {rows:?}");
    assert!(rows.iter().all(|f| f.kind == FaultKind::Minor && f.access & access::USER == 0), "{rows:?}");

    let rows = inside(&barred);
    assert!(!rows.is_empty() && rows.iter().all(|f| f.kind == FaultKind::Neither), "{rows:?}");
    assert!(rows.iter().all(|f| f.duration_ns().is_none() && f.access & access::USER == 0), "{rows:?}");
}

#[test]
fn a_page_fault_that_reads_names_its_file_and_its_waits() {
    const PAGES: usize = 256;
    const STEP: usize = 8;
    let Some(rec) = record("auto", &["--faults"]) else { return };
    let dir = tempfile::tempdir_in(std::env::current_dir().expect("a folder")).expect("a folder");
    let path = dir.path().join("cold");
    let mut file = std::fs::File::options().read(true).write(true).create_new(true).open(&path).expect("a file");
    for page in 0..PAGES {
        file.write_all(&[page as u8; PAGE]).expect("it is written");
    }
    file.sync_all().expect("it is on the disk");
    let thread = std::thread::spawn(move || {
        // SAFETY: our own descriptor.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        let cold = Mapped::new(PAGES, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd());
        // their own code is there from now on
        let _ = (now(), counted());
        let (began, before) = (now(), counted());
        for page in (0..PAGES).step_by(STEP) {
            assert_eq!(cold.read(page), page as u8);
        }
        let (after, ended) = (counted(), now());
        // what ended the last fault is known with the next one
        Mapped::anonymous(1).write(0);
        (gettid(), cold, began..ended, after.1 - before.1)
    });
    let (tid, cold, during, major) = thread.join().expect("it ends");
    let trace = rec.stop();
    if major == 0 {
        return skip("the file system does not let go of what was written");
    }
    let task = trace.task(tid);
    let read: Vec<FaultRow> = trace.faults.iter().filter(|f| f.task == task && cold.holds(f)).copied().collect();
    // where memory is short, code of the test's own may be read again too
    let slow = trace.faults.iter().filter(|f| f.task == task && f.kind == FaultKind::Major && during.contains(&f.at.0));
    let slow: Vec<&FaultRow> = slow.collect();
    assert_eq!((slow.len() as i64, read.len()), (major, PAGES / STEP), "as getrusage says");
    for f in slow.iter().filter(|f| cold.holds(f)) {
        assert_eq!(trace.text(f.file), path.to_str().expect("its name is text"), "{f:?}");
        let page = (f.address - cold.at as u64) / PAGE as u64 * PAGE as u64;
        assert!(f.offset == page || f.offset == NO_OFFSET, "{f:?}: page at {page}");
    }
    // whatever the disk made it wait for outside of system calls lies in one of them
    let slept = trace.waits_of(tid).into_iter().filter(|w| w.cause == EndedBy::Block && w.syscall == u16::MAX);
    for w in slept {
        let is_major = |f: &&FaultRow| f.task == task && f.kind == FaultKind::Major;
        let mut all = trace.faults.iter().filter(is_major);
        assert!(all.any(|f| f.began <= w.blocked && w.at <= f.at), "{w:?}");
    }
}

#[test]
fn only_what_was_asked_for_has_page_faults() {
    for args in [&["--all"][..], &["--faults", "--comm", "nobody-has-this"]] {
        let Some(rec) = record_as("auto", args) else { return };
        Mapped::anonymous(1).write(0);
        assert_eq!(rec.stop().faults.len(), 0, "{args:?}");
    }
}
