//! Active paths of real calls (the wait paper's sections 3.1 and 3.3): while the caller is blocked its path must be with
//! the one that computes, for as long as that one does; what the caller computes meanwhile is its own.

use crate::harness::*;
use crate::net::*;
use serde_json::Value;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const CALLS: usize = 4;
const COMPUTE_NS: u64 = 10_000_000;
/// What the clocks and the time between looking at them and computing may add up to.
const SLACK_NS: u64 = 1_000_000;

/// Begin and end, in nanoseconds of CLOCK_MONOTONIC.
type Interval = (u64, u64);

fn now_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

fn compute(ns: u64) -> Interval {
    let begin = now_ns();
    while now_ns() < begin + ns {
        std::hint::spin_loop();
    }
    (begin, now_ns())
}

/// What CLOCK_MONOTONIC lacks to the time of day, in which answers are.
fn offset_ns() -> u64 {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
    (0..50).map(|_| now() - now_ns()).min().unwrap_or_default()
}

fn overlap(a: Interval, b: Interval) -> u64 {
    a.1.min(b.1).saturating_sub(a.0.max(b.0))
}

fn pair(udp: bool) -> (OwnedFd, OwnedFd) {
    if !udp {
        let (a, b) = tcp_pair();
        return (a.into(), b.into());
    }
    let [a, b] = [0; 2].map(|_| UdpSocket::bind("127.0.0.1:0").expect("a port"));
    a.connect(b.local_addr().expect("its address")).expect("it is there");
    b.connect(a.local_addr().expect("its address")).expect("it is there");
    (a.into(), b.into())
}

/// Calls, one after the other, in which the caller computes for `own_ns` before it reads. Gives both threads' numbers,
/// when each caller was blocked, and when its server computed.
fn calls(udp: bool, own_ns: u64) -> (i32, i32, Vec<(Interval, Interval)>) {
    let (ours, theirs) = pair(udp);
    let server = std::thread::spawn(move || {
        let mut computed = Vec::new();
        for _ in 0..CALLS {
            assert_eq!(recv_raw(&theirs, 8, 0), 1);
            computed.push(compute(COMPUTE_NS));
            send_raw(&theirs);
        }
        (gettid(), computed)
    });
    let client = std::thread::spawn(move || {
        let mut blocked = Vec::new();
        for _ in 0..CALLS {
            send_raw(&ours);
            if own_ns > 0 {
                compute(own_ns);
            }
            let read = now_ns();
            assert_eq!(recv_raw(&ours, 8, 0), 1);
            blocked.push((read, now_ns()));
            pause(1);
        }
        (gettid(), blocked)
    });
    let (server, computed) = server.join().expect("it ends");
    let (client, blocked) = client.join().expect("it ends");
    (client, server, blocked.into_iter().zip(computed).collect())
}

fn send_raw(fd: &impl AsRawFd) {
    // SAFETY: one byte that lives.
    assert_eq!(unsafe { libc::send(fd.as_raw_fd(), [7u8].as_ptr().cast(), 1, 0) }, 1);
}

/// The active path of a thread: (begin, end, the number of the thread that the slice is of), in CLOCK_MONOTONIC.
fn active_path(recording: &Recording, tid: i32, offset: u64) -> Vec<(u64, u64, i32)> {
    let line = Command::new(binary())
        .args(["waits", "--json", "--task", &tid.to_string()])
        .arg(&recording.folder)
        .output()
        .expect("the binary starts");
    assert!(line.status.success(), "{}", String::from_utf8_lossy(&line.stderr));
    let told: Value = serde_json::from_slice(&line.stdout).expect("it is JSON");
    let ns = |v: &Value, name: &str| v[name].as_u64().unwrap_or_else(|| panic!("no {name} in {v}"));
    let slices = told["slices"].as_array().expect("it has slices");
    let sum: u64 = slices.iter().map(|s| ns(s, "duration_ns")).sum();
    assert_eq!(sum, ns(&told, "elapsed_ns"), "the slices add up to the elapsed time");
    for two in slices.windows(2) {
        assert_eq!(two[0]["to_ns"], two[1]["from_ns"], "no gap and no overlap");
    }
    let of = |s: &Value| {
        let task = s["task"].as_str().and_then(|t| t.rsplit_once('/')).and_then(|(_, tid)| tid.parse().ok());
        (ns(s, "from_ns") - offset, ns(s, "to_ns") - offset, task.unwrap_or_default())
    };
    slices.iter().map(of).collect()
}

#[test]
fn a_blocked_caller_is_with_its_server() {
    for backend in BACKENDS {
        for udp in [false, true] {
            for own_percent in [0, 50, 120] {
                let Some(mut recording) = record(backend, &[]) else {
                    continue;
                };
                let (client, server, calls) = calls(udp, COMPUTE_NS * own_percent / 100);
                pause(30);
                recording.signal(libc::SIGINT);
                assert_eq!(recording.wait(Duration::from_secs(60)), 0, "{}", recording.said());
                let path = active_path(&recording, client, offset_ns());
                for (blocked, computed) in calls {
                    let truth = overlap(blocked, computed);
                    let told: u64 = path.iter().filter(|s| s.2 == server).map(|s| overlap(blocked, (s.0, s.1))).sum();
                    assert!(
                        told + SLACK_NS >= truth,
                        "{backend}, udp {udp}, {own_percent} %: {told} of {truth} ns are said to be the server's"
                    );
                }
                // on a busy machine the caller may come to wait late; that it never waits would test nothing
                if own_percent == 0 {
                    let told: u64 = path.iter().filter(|s| s.2 == server).map(|s| s.1 - s.0).sum();
                    assert!(told > COMPUTE_NS, "{backend}, udp {udp}: {told} ns");
                }
            }
        }
    }
}
