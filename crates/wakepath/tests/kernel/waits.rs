//! Waits and their causes; returns from poll.

use crate::harness::*;
use crate::net::*;
use std::io::Write as _;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;
use wakepath_model::rows::{EndedBy, WaitRow};

fn sound(w: &WaitRow) {
    assert!(w.blocked <= w.woken && w.woken <= w.at, "{w:?}");
}

#[test]
fn each_wait_names_what_ended_it() {
    for backend in BACKENDS {
        // what happens amid the kernel's own program for it is not told, but counted: then once more
        assert!((0..5).any(|_| names_what_ended_each(backend)), "{backend}: each time something was left out");
    }
}

/// False where the kernel left something out.
fn names_what_ended_each(backend: &str) -> bool {
    let Some(rec) = record(backend, &[]) else {
        return true;
    };
    // a lock of another thread
    let (tell, told) = mpsc::channel();
    let (says, said) = mpsc::channel();
    let says_too = says.clone();
    let thread = std::thread::spawn(move || {
        says.send(gettid()).expect("it is heard");
        told.recv().expect("it is told");
    });
    let sleeper = said.recv().expect("it says so");
    until_asleep(sleeper, libc::SYS_futex, None);
    pause(30);
    tell.send(()).expect("it waits");
    thread.join().expect("it ends");
    let waker = gettid();

    let naps = std::thread::spawn(|| {
        pause(20);
        gettid()
    });
    let naps = naps.join().expect("it ends");

    // data on loopback, for a thread that waits for it
    let (mut a, b) = tcp_pair();
    let fb = ids(&b);
    let thread = std::thread::spawn(move || {
        says_too.send(gettid()).expect("it is heard");
        recv_raw(&b, 10, 0);
        // and none, until a time is over
        let tv = libc::timeval { tv_sec: 0, tv_usec: 20_000 };
        // SAFETY: passes a structure of the stated size.
        unsafe { libc::setsockopt(b.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVTIMEO, (&raw const tv).cast(), 16) };
        assert_eq!(recv_raw(&b, 10, 0), -(libc::EAGAIN as isize));
        b
    });
    let reader = said.recv().expect("it says so");
    until_asleep(reader, libc::SYS_recvfrom, None);
    a.write_all(b"wake").expect("it goes");
    let _b = thread.join().expect("it ends");

    let poller = std::thread::spawn(|| {
        let e = epoll();
        epoll_wait(&e, 25);
        gettid()
    });
    let poller = poller.join().expect("it ends");
    let trace = rec.stop();
    if trace.lost("loss.bpf.recursion") != 0 {
        return false;
    }

    let waits = trace.slept_in(sleeper, libc::SYS_futex);
    let w = waits.iter().max_by_key(|w| w.at.0 - w.blocked.0).expect("it slept");
    assert_eq!((w.cause, w.by), (EndedBy::Task, trace.task(waker)), "{backend}: {w:?}");
    sound(w);
    assert!(w.woken.0 - w.blocked.0 > 20_000_000, "{w:?}");

    let waits = trace.slept_in(naps, libc::SYS_clock_nanosleep);
    assert_eq!(waits.len(), 1, "{backend}");
    assert_eq!(waits[0].cause, EndedBy::Timer, "{backend}: {:?}", waits[0]);
    sound(&waits[0]);

    let waits = trace.slept_in(reader, libc::SYS_recvfrom);
    assert_eq!(waits.len(), 2, "{backend}: {waits:?}");
    let fb = trace.flow(fb);
    if backend != "syscalls" || waits[0].cause != EndedBy::Net {
        assert_eq!((waits[0].cause, waits[0].object), (EndedBy::Socket, fb.0), "{backend}");
    }
    assert_eq!(waits[1].cause, EndedBy::Timer, "{backend}");
    waits.iter().for_each(sound);

    let waits = trace.slept_in(poller, libc::SYS_epoll_wait);
    assert_eq!(waits.len(), 1);
    assert_eq!(waits[0].cause, EndedBy::Timer, "{backend}");
    trace.waits.iter().for_each(sound);
    true
}

/// A thread that waits for a lock on `path` until `meanwhile` was done and the lock let go; its number. `meanwhile` has its descriptor.
fn waits_for_lock(path: &std::path::Path, meanwhile: impl FnOnce(i32)) -> i32 {
    let [held, mine] = [(); 2].map(|()| std::fs::File::create(path).expect("it is made"));
    let fd = mine.as_raw_fd();
    // SAFETY: takes a lock on a descriptor that is open.
    let lock = |fd: i32| unsafe { libc::flock(fd, libc::LOCK_EX) };
    assert_eq!(lock(held.as_raw_fd()), 0);
    let (says, said) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        says.send(gettid()).expect("it is heard");
        assert_eq!(lock(mine.as_raw_fd()), 0);
    });
    let sleeper = said.recv().expect("it says so");
    until_asleep(sleeper, libc::SYS_flock, Some(fd));
    pause(20);
    meanwhile(fd);
    drop(held);
    thread.join().expect("it ends");
    sleeper
}

#[test]
fn a_wait_for_a_file_says_for_which() {
    for backend in BACKENDS {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = dir.path().join("sessions");
        std::fs::create_dir(&folder).expect("it is made");
        let Some(rec) = record(backend, &[]) else { return };
        let named = waits_for_lock(&folder.join("a.lock"), |_| ());
        // somebody's session, which is nobody else's to know
        let masked = waits_for_lock(&folder.join("sess_4f2a9c1e07"), |_| ());
        // the descriptor is another file's when the wait ends
        let other = std::fs::File::create(folder.join("other")).expect("it is made");
        let swapped = waits_for_lock(&folder.join("b.lock"), |fd| {
            // SAFETY: replaces a descriptor of this process, which its owner closes.
            assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), fd) }, fd);
        });
        // too short to be worth a name, or none at all
        std::fs::File::create(folder.join("c")).and_then(|f| f.sync_all()).expect("it is written");
        let trace = rec.stop();
        let longest = |tid| {
            let waits = trace.slept_in(tid, libc::SYS_flock);
            waits.into_iter().max_by_key(|w| w.at.0 - w.blocked.0).expect("it slept")
        };
        assert_eq!(trace.text(longest(named).file), "…/sessions/a.lock", "{backend}");
        assert_eq!(trace.text(longest(masked).file), "…/sessions/sess_?", "{backend}");
        assert_eq!(trace.text(longest(swapped).file), "", "{backend}");
        let is_short = |w: &&WaitRow| w.at.0 - w.blocked.0 < 1_000_000;
        assert!(trace.waits.iter().filter(is_short).all(|w| trace.text(w.file).is_empty()), "{backend}");
    }
}

#[test]
fn a_wait_for_a_file_that_goes_on_says_for_which() {
    for backend in BACKENDS {
        let dir = tempfile::tempdir().expect("a folder");
        let Some(rec) = record(backend, &[]) else { return };
        let mut trace = None;
        let waiter = waits_for_lock(&dir.path().join("open.lock"), |_| trace = Some(rec.stop()));
        let trace = trace.expect("it was stopped");
        let is_open = |w: &&WaitRow| w.cause == EndedBy::Open && w.syscall == libc::SYS_flock as u16;
        let waits = trace.waits_of(waiter);
        let w = waits.iter().find(is_open).expect("it goes on");
        assert!(trace.text(w.file).ends_with("/open.lock"), "{backend}: {:?}", trace.text(w.file));
    }
}

#[test]
fn a_child_that_closed_a_connection_ends_its_parents_wait_itself() {
    for backend in BACKENDS {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it has an address").port();
        let Some(rec) = record(backend, &[]) else {
            return;
        };
        let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; read -t 0.2 -u 3");
        let mut child = std::process::Command::new("bash").args(["-c", &script]).spawn().expect("bash is there");
        let _kept = listener.accept().expect("it connects");
        child.wait().expect("it is our child");
        let (parent, number) = (gettid(), child.id() as i32);
        let trace = rec.stop();
        let waits = trace.slept_in(parent, libc::SYS_wait4);
        let w = waits.iter().max_by_key(|w| w.at.0 - w.blocked.0).expect("it slept");
        assert_eq!((w.cause, w.by), (EndedBy::Task, trace.task(number)), "{backend}: {w:?}");
    }
}

#[test]
fn a_disk_wait_names_the_disk_or_who_stood_in() {
    let Some(rec) = record("auto", &[]) else {
        return;
    };
    let t = std::thread::spawn(|| {
        let mut f = tempfile::tempfile_in(std::env::current_dir().expect("a folder")).expect("a file");
        for i in 0..20u8 {
            f.write_all(&[i; 65536]).expect("it is written");
            // SAFETY: our own descriptor.
            unsafe { libc::fdatasync(f.as_raw_fd()) };
        }
        gettid()
    });
    let tid = t.join().expect("it ends");
    let trace = rec.stop();
    let waits = trace.slept_in(tid, libc::SYS_fdatasync);
    if waits.is_empty() {
        return skip("the file system waits for nothing");
    }
    let mut causes = std::collections::BTreeMap::new();
    for w in &waits {
        *causes.entry(w.cause).or_insert(0) += 1;
        sound(w);
    }
    println!("causes of {} waits in fdatasync: {causes:?}", waits.len());
    // the request itself, its interrupt, or the kernel's worker that completes it
    assert!(
        causes.keys().any(|c| [EndedBy::Block, EndedBy::Irq, EndedBy::Task, EndedBy::Softirq].contains(c)),
        "{causes:?}"
    );
    for w in waits.iter().filter(|w| w.cause == EndedBy::Task) {
        assert_ne!(w.by.0, 0, "{w:?}");
    }
}

/// Processor time that this thread has used, in ms.
fn thread_cpu_ms() -> i64 {
    // SAFETY: writes one timespec, for which zeroes are valid.
    let t = unsafe {
        let mut t: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t);
        t
    };
    t.tv_sec * 1000 + t.tv_nsec / 1_000_000
}

/// Lets this thread take turns with others of its kind, before everybody else; whether it may.
fn in_turns() -> bool {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: a live structure; of this thread alone.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_RR, &priority) == 0 }
}

#[test]
fn preemption_names_the_other() {
    let Some(rec) = record("auto", &[]) else {
        return;
    };
    let both = Arc::new(Barrier::new(2));
    let busy = || {
        let both = Arc::clone(&both);
        std::thread::spawn(move || {
            // whoever else wants the processor: these two follow each other
            let is_able = on_processor(a_processor()) && in_turns();
            both.wait();
            if !is_able {
                return None;
            }
            // of processor time, not of the clock's: others may want the processor too
            while thread_cpu_ms() < 300 {
                std::hint::spin_loop();
            }
            Some(gettid())
        })
    };
    let (one, two) = (busy(), busy());
    let (one, two) = (one.join().expect("it ends"), two.join().expect("it ends"));
    let trace = rec.stop();
    let (Some(one), Some(two)) = (one, two) else { return skip("no right to a processor in turns") };
    for (tid, other) in [(one, two), (two, one)] {
        let waits: Vec<_> = trace.waits_of(tid).into_iter().filter(|w| w.cause == EndedBy::Preempted).collect();
        assert!(!waits.is_empty());
        waits.iter().for_each(sound);
        assert!(waits.iter().all(|w| w.woken == w.blocked && w.state == 0));
        let others: Vec<_> = waits.iter().map(|w| w.by).collect();
        assert!(others.contains(&trace.task(other)), "{others:?}");
    }
}

#[test]
fn a_wait_that_does_not_end_is_open() {
    for backend in BACKENDS {
        let Some(rec) = record(backend, &[]) else {
            continue;
        };
        let (a, b) = socketpair(libc::SOCK_STREAM);
        let (tell, told) = mpsc::channel();
        let t = std::thread::spawn(move || {
            tell.send(gettid()).expect("it is heard");
            recv_raw(&b, 1, 0)
        });
        let tid = told.recv().expect("it tells");
        until_asleep(tid, libc::SYS_recvfrom, None);
        pause(50);
        let trace = rec.stop();
        let task = trace.task(tid);
        let open: Vec<_> = trace.waits.iter().filter(|w| w.task == task && w.cause == EndedBy::Open).collect();
        assert_eq!(open.len(), 1, "{backend}");
        assert_eq!(i64::from(open[0].syscall), libc::SYS_recvfrom);
        assert!(open[0].state != 0 && open[0].at.0 - open[0].blocked.0 > 30_000_000, "{:?}", open[0]);
        sound(open[0]);
        drop(a);
        t.join().expect("it ends");
    }
}

fn epoll() -> OwnedFd {
    // SAFETY: a descriptor of our own.
    unsafe { OwnedFd::from_raw_fd(libc::epoll_create1(libc::EPOLL_CLOEXEC)) }
}

fn epoll_add(e: &OwnedFd, fd: &impl AsRawFd) {
    let mut ev = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
    // SAFETY: a live event.
    assert_eq!(unsafe { libc::epoll_ctl(e.as_raw_fd(), libc::EPOLL_CTL_ADD, fd.as_raw_fd(), &mut ev) }, 0);
}

fn epoll_wait(e: &OwnedFd, ms: i32) -> i32 {
    let mut ev = [libc::epoll_event { events: 0, u64: 0 }; 4];
    // SAFETY: room for four events.
    unsafe { libc::epoll_wait(e.as_raw_fd(), ev.as_mut_ptr(), 4, ms) }
}

#[test]
fn polls_tell_how_many_and_how_long() {
    for backend in BACKENDS {
        let Some(rec) = record(backend, &[]) else {
            continue;
        };
        let (a, b) = socketpair(libc::SOCK_STREAM);
        let (c, d) = socketpair(libc::SOCK_STREAM);
        let e = epoll();
        epoll_add(&e, &b);
        epoll_add(&e, &d);
        let mut p = [&b, &d].map(|f| libc::pollfd { fd: f.as_raw_fd(), events: libc::POLLIN, revents: 0 });
        let t = libc::timespec { tv_sec: 0, tv_nsec: 3_000_000 };
        let mut expected = Vec::new();
        // SAFETY: every pointer is to a live structure of the stated size; select's sets hold small descriptors.
        unsafe {
            assert_eq!(epoll_wait(&e, 10), 0);
            expected.push((0, 10_000_000, e.as_raw_fd()));
            send_by("write", &a, b"sixsix");
            assert_eq!(epoll_wait(&e, -1), 1);
            expected.push((1, u64::MAX, e.as_raw_fd()));
            send_by("write", &c, b"sixsix");
            assert_eq!(libc::poll(p.as_mut_ptr(), 2, 0), 2);
            expected.push((2, 0, -1));
            assert_eq!(libc::ppoll(p.as_mut_ptr(), 2, &t, std::ptr::null()), 2);
            expected.push((2, 3_000_000, -1));
            assert_eq!(libc::ppoll(p.as_mut_ptr(), 0, &t, std::ptr::null()), 0);
            expected.push((0, 3_000_000, -1));
            let mut set: libc::fd_set = std::mem::zeroed();
            libc::FD_SET(b.as_raw_fd(), &mut set);
            let mut tv = libc::timeval { tv_sec: 1, tv_usec: 5 };
            let null: *mut u8 = std::ptr::null_mut();
            assert_eq!(libc::syscall(libc::SYS_select, 1024, &mut set, null, null, &mut tv), 1);
            expected.push((1, 1_000_005_000, -1));
            let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 7 };
            let n = libc::syscall(libc::SYS_pselect6, 0, null, null, null, &mut ts, null);
            assert_eq!(n, 0);
            expected.push((0, 7, -1));
        }
        let me = gettid();
        let trace = rec.stop();
        let task = trace.task(me);
        let polls: Vec<_> = trace.polls.iter().filter(|p| p.task == task).collect();
        let told: Vec<_> = polls.iter().map(|p| (p.ready, p.timeout_ns, p.fd)).collect();
        // the test's own pauses poll nothing: what is told is exactly what was done
        assert_eq!(told, expected, "{backend}");
        // the begin of one that did not sleep may not be known
        assert!(polls.iter().all(|p| p.entry < p.at || (backend == "calls" && p.ready > 0)));
        assert!(polls[0].at.0 - polls[0].entry.0 >= 9_000_000, "it took the time that it waited");
    }
}

/// How often the kernel switched this thread out so far, and a moment between two switches.
fn switches() -> (i64, u64) {
    let count = || {
        // SAFETY: writes one rusage, for which zeroes are valid.
        let r = unsafe {
            let mut r: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_THREAD, &mut r);
            r
        };
        r.ru_nvcsw + r.ru_nivcsw
    };
    loop {
        let before = count();
        let now = wakepath_capture::monotonic_ns();
        if count() == before {
            return (before, now);
        }
    }
}

#[test]
fn every_switch_has_its_record_or_is_counted() {
    let Some(rec) = record("auto", &[]) else {
        return;
    };
    // naps of all lengths down to none, yields, moves between processors, and threads that live for one nap
    let work = |n: u64| {
        let begin = switches();
        for i in 0..300 {
            match (n + i) % 4 {
                0 => std::thread::sleep(Duration::from_nanos(1 << (i % 20))),
                1 => std::thread::yield_now(),
                2 => drop(on_processor((i % 2) as usize)),
                _ => {
                    std::thread::spawn(|| std::thread::sleep(Duration::from_micros(50))).join().expect("it ends");
                }
            }
        }
        (gettid(), begin, switches())
    };
    let threads: Vec<_> = (0..12).map(|n| std::thread::spawn(move || work(n))).collect();
    let threads: Vec<_> = threads.into_iter().map(|t| t.join().expect("it ends")).collect();
    let trace = rec.stop();
    let mut missing = 0;
    for (tid, (n0, from), (n1, to)) in threads {
        let waits = trace.waits_of(tid);
        waits.iter().for_each(sound);
        let told =
            waits.iter().filter(|w| w.cause != EndedBy::Open && (from..=to).contains(&w.blocked.0)).count() as i64;
        assert!(told <= n1 - n0, "{told} waits of a thread that was switched out {} times", n1 - n0);
        missing += n1 - n0 - told;
    }
    let counted: u64 = ["loss.ring.wait", "loss.bpf.recursion"].iter().map(|l| trace.lost(l)).sum();
    println!("{missing} missing, {counted} counted, {} ends computed", trace.lost("wait.end_computed"));
    assert!(missing as u64 <= counted, "{missing} waits are missing and {counted} were counted");
}
