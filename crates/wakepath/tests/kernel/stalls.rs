//! Services that are held up in their runtimes: the critical paths of who waited say for what, or that it is not known.

use crate::harness::*;
use crate::runtimes::{Server, built_by_go, java_service, serve};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use wakepath_analysis::critical_path::critical_path;
use wakepath_analysis::slices::{Slice, State};
use wakepath_causality::reconstruct;
use wakepath_graph::Index;
use wakepath_model::folder::Folder;

/// How long services are held up.
const HELD_NS: u64 = 50_000_000;

fn ask(to: &mut TcpStream, path: &str) {
    // at once: a head in pieces waits for the network, too
    to.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).expect("sent");
    let (mut reply, mut part) = (Vec::new(), [0; 4096]);
    while !reply.ends_with(b"\r\n\r\nok") {
        let n = to.read(&mut part).expect("an answer");
        assert!(n > 0, "{}", String::from_utf8_lossy(&reply));
        reply.extend_from_slice(&part[..n]);
    }
}

fn connect(server: &Server) -> TcpStream {
    let to = TcpStream::connect(("127.0.0.1", server.1)).expect("it listens");
    to.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
    to
}

/// The critical paths of the requests of a recording that took long.
fn long_paths(folder: &Path) -> Vec<Vec<Slice>> {
    let dirs = [folder.to_owned()];
    let folder = Folder::open(&dirs).expect("it can be read");
    let index = Index::open(&folder, &dirs).expect("an index");
    let mut paths = Vec::new();
    let mut take = |r| {
        let mut slices: Vec<Slice> = Vec::new();
        critical_path(&folder, &index, &r).drain(&mut |s| slices.push(s));
        let first = slices.first().map_or(0, |s| s.from.0);
        if slices.last().is_some_and(|s| s.to.0 - first >= HELD_NS as i64 / 2) {
            paths.push(slices);
        }
    };
    reconstruct(&folder, &mut take, |_, _, _, _| {});
    paths
}

fn sum(slices: &[Slice], holds: impl Fn(&Slice) -> bool) -> u64 {
    slices.iter().filter(|s| holds(s)).map(Slice::duration_ns).sum()
}

/// A recording of a service while it is asked: the paths of requests that took long.
fn recorded(program: &[PathBuf], asked: impl FnOnce(&Server)) -> Option<Vec<Vec<Slice>>> {
    recorded_with(&[], program, asked)
}

/// The same with more flags of `record`.
fn recorded_with(flags: &[&str], program: &[PathBuf], asked: impl FnOnce(&Server)) -> Option<Vec<Vec<Slice>>> {
    let service = serve(program, &[]);
    let mut first = connect(&service);
    ask(&mut first, "/work");
    let pid = service.0.id().to_string();
    let mut recording = record_as("auto", &[&["--pid", &pid], flags].concat())?;
    asked(&service);
    recording.signal(libc::SIGINT);
    assert_eq!(recording.wait(Duration::from_secs(60)), 0, "{}", recording.said());
    Some(long_paths(&recording.folder))
}

/// Others' requests wait while an event loop computes for one; the path of each of those says so.
#[test]
fn a_loop_that_computes_for_another_request_is_named() {
    names_for_whom_a_loop_computes(&[]);
}

/// So it does where the loop reads in one context and replies in another.
#[test]
fn a_loop_that_computes_for_another_request_is_named_by_its_contexts() {
    names_for_whom_a_loop_computes(&["--runtimes=python"]);
}

fn names_for_whom_a_loop_computes(flags: &[&str]) {
    let source = [env!("CARGO_MANIFEST_DIR"), "../../testbeds/stalls/service.py"].iter().collect::<PathBuf>();
    let program = [PathBuf::from("/usr/bin/python3"), source];
    let paths = recorded_with(flags, &program, |service| {
        let (mut hog, mut others) = (connect(service), [connect(service), connect(service)]);
        others.iter_mut().for_each(|o| ask(o, "/work"));
        for _ in 0..4 {
            std::thread::scope(|s| {
                s.spawn(|| ask(&mut hog, "/hog"));
                pause(10);
                for o in &mut others {
                    s.spawn(|| ask(o, "/work"));
                }
            });
        }
    });
    let Some(paths) = paths else { return };
    let is_named = |s: &Slice| {
        s.state == State::Queued && s.object.as_deref().is_some_and(|o| o.starts_with("computing for GET "))
    };
    let waited: Vec<_> = paths.iter().filter(|p| sum(p, |s| s.state == State::Queued) > HELD_NS / 5).collect();
    assert!(!waited.is_empty(), "nobody waited: {paths:#?}");
    for path in waited {
        assert!(sum(path, is_named) > HELD_NS / 5, "{path:#?}");
        assert!(sum(path, |s| s.state == State::Running) < HELD_NS / 5, "its loop computed for another: {path:#?}");
    }
}

/// Threads of a Go program sleep while a goroutine waits: none of these sleeps is what that waited for.
#[test]
fn a_goroutine_that_waits_is_not_given_what_its_threads_did() {
    let Some(program) = built_by_go("testbeds/stalls", "stalls") else { return };
    let paths = recorded(&[program], |service| {
        let mut to = connect(service);
        for cause in ["mutex", "channel", "channel", "sleep"] {
            ask(&mut to, &format!("/work?cause={cause}"));
        }
    });
    let Some(paths) = paths else { return };
    assert!(paths.len() >= 3, "{paths:#?}");
    for path in paths {
        let parked = |s: &Slice| s.reason.is_some_and(|r| r.contains("logical task ran on no thread"));
        assert!(sum(&path, parked) > 0, "{path:#?}");
        // the poller's thread, woken by an acknowledgement on the request's own connection, is still told as the network
        // (docs/limits.md)
        let of_thread = |s: &Slice| matches!(s.state, State::Lock | State::Timer | State::Running);
        assert!(sum(&path, of_thread) < HELD_NS / 5, "{path:#?}");
    }
}

/// With probes it is known: the wait is the goroutine's own, and who ended it is named.
#[test]
fn what_a_goroutine_waits_for_inside_its_program_is_named() {
    let Some(program) = built_by_go("testbeds/stalls", "stalls") else { return };
    let waits = [
        ("mutex", State::Lock, Some("a mutex")),
        ("rwmutex", State::Lock, Some("a read-write lock")),
        ("channel", State::Blocked, Some("room in a channel")),
        ("receive", State::Blocked, Some("an item of a channel")),
        ("select", State::Blocked, Some("one of several channels")),
        ("after", State::Blocked, Some("one of several channels")),
        ("condition", State::Blocked, Some("a condition")),
        ("group", State::Blocked, Some("a wait group or a semaphore")),
        ("sleep", State::Timer, None),
    ];
    for (cause, state, object) in waits {
        let paths = recorded_with(&["--runtimes=go-waits"], std::slice::from_ref(&program), |service| {
            let (mut to, mut other) = (connect(service), connect(service));
            for _ in 0..2 {
                std::thread::scope(|s| {
                    s.spawn(|| ask(&mut to, &format!("/work?cause={cause}")));
                    // what its threads do meanwhile is for another
                    (0..20).for_each(|_| ask(&mut other, "/work"));
                });
            }
        });
        let Some(paths) = paths else { return };
        // what takes long beside it is a busy machine's
        let named = |path: &[Slice]| sum(path, |s| s.state == state && s.object.as_deref() == object && s.depth == 0);
        let found = paths.iter().filter(|path| named(path) >= HELD_NS * 4 / 5);
        assert_eq!(found.clone().count(), 2, "{cause}: {paths:#?}");
        for slice in found.flatten().filter(|s| s.object.as_deref() == object && object.is_some()) {
            // a timer is nobody
            let by_another = slice.by.is_some_and(|(_, by)| by != slice.task);
            assert_eq!(by_another, cause != "after", "{cause}: {slice:#?}");
        }
    }
}

/// A goroutine reads a head that comes in two pieces: what its threads slept for between them is not what it waited for.
#[test]
fn a_goroutine_that_reads_is_not_given_what_its_threads_did() {
    let Some(program) = built_by_go("testbeds/stalls", "stalls") else { return };
    let paths = recorded(&[program], |service| {
        let (mut to, mut other) = (connect(service), connect(service));
        for _ in 0..3 {
            std::thread::scope(|s| {
                s.spawn(|| ask(&mut other, "/work?cause=sleep"));
                to.write_all(b"GET /work HTTP/1.1\r\n").expect("sent");
                pause(100);
                to.write_all(b"Host: x\r\n\r\n").expect("sent");
            });
            let mut reply = [0; 4096];
            assert!(to.read(&mut reply).expect("an answer") > 0);
        }
    });
    let Some(paths) = paths else { return };
    for path in paths {
        let of_thread = |s: &Slice| matches!(s.state, State::Lock | State::Timer | State::Running);
        assert!(sum(&path, of_thread) < HELD_NS / 5, "{path:#?}");
    }
}

/// A virtual thread that sleeps in a monitor keeps its carrier, up to Java 23: the carrier's wait is its own. Without the monitor it
/// is not.
#[test]
fn a_pinned_virtual_thread_has_its_carriers_wait() {
    let classes = tempfile::tempdir().expect("a folder");
    let Some(program) = java_service("21", classes.path(), "testbeds/stalls/Stalls.java", "Stalls") else { return };
    let parked = |s: &Slice| s.reason.is_some_and(|r| r.contains("logical task ran on no thread"));
    // after the wait it calls another service, for which it leaves its thread
    let source = [env!("CARGO_MANIFEST_DIR"), "../../testbeds/stalls/service.py"].iter().collect::<PathBuf>();
    let down = serve(&[PathBuf::from("/usr/bin/python3"), source], &[]);
    let calling = [&program[..], &[PathBuf::from(down.1.to_string())]].concat();
    for (program, cause, is_pinned) in
        [(&program[..], "pinned", true), (&program, "sleep", false), (&calling, "pinned", true)]
    {
        let paths = recorded(program, |service| {
            let mut to = connect(service);
            let until = Instant::now() + Duration::from_millis(400);
            while Instant::now() < until {
                ask(&mut to, &format!("/work?cause={cause}"));
            }
        });
        let Some(paths) = paths else { return };
        assert!(paths.len() >= 2, "{paths:#?}");
        // the first is met before the JVM is known; and the kernel leaves out a wake-up now and then, which is then said
        let is_untold = |s: &Slice| s.reason.is_some_and(|r| r.contains("no wake-up was recorded"));
        let told: Vec<_> = paths[1..].iter().filter(|path| sum(path, is_untold) < HELD_NS / 2).collect();
        assert!(2 * told.len() >= paths.len() - 1 && !told.is_empty(), "{paths:#?}");
        for path in told {
            // nothing shows who holds a lock of the JVM: it is a futex that somebody is to wake
            let own = sum(path, |s| matches!(s.wait, Some(State::Lock | State::Futex)));
            let (is_own, is_parked) = (own > HELD_NS / 2, sum(path, parked) > HELD_NS / 2);
            assert_eq!((is_own, is_parked), (is_pinned, !is_pinned), "{cause}: {path:#?}");
        }
    }
}
