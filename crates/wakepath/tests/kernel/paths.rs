//! Active paths of real calls (the wait paper's sections 3.1 and 3.3): while the caller is blocked its path must be with
//! the one that computes, for as long as that one does; what the caller computes meanwhile is its own.

use crate::harness::*;
use crate::net::*;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

const CALLS: usize = 4;
const COMPUTE_NS: u64 = 10_000_000;
/// What the clocks and the time between looking at them and computing may add up to.
const SLACK_NS: u64 = 1_000_000;

fn compute(ns: u64) -> Interval {
    let begin = now_ns();
    while now_ns() < begin + ns {
        std::hint::spin_loop();
    }
    (begin, now_ns())
}

/// Nanoseconds that this thread ran or waited to run so far, by the scheduler; 0 where it does not tell.
fn not_asleep_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().take(2).filter_map(|n| n.parse::<u64>().ok()).sum()
}

/// A read of the caller's: when it was, and for how long of it the caller was not asleep.
type Read = (Interval, u64);

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
/// when each caller read, and when its server computed.
fn calls(udp: bool, own_ns: u64) -> (i32, i32, Vec<(Read, Interval)>) {
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
        let mut reads = Vec::new();
        for _ in 0..CALLS {
            send_raw(&ours);
            if own_ns > 0 {
                compute(own_ns);
            }
            let (before, from) = (not_asleep_ns(), now_ns());
            assert_eq!(recv_raw(&ours, 8, 0), 1);
            let to = now_ns();
            reads.push(((from, to), not_asleep_ns() - before));
            pause(1);
        }
        (gettid(), reads)
    });
    let (server, computed) = server.join().expect("it ends");
    let (client, reads) = client.join().expect("it ends");
    (client, server, reads.into_iter().zip(computed).collect())
}

fn send_raw(fd: &impl AsRawFd) {
    // SAFETY: one byte that lives.
    assert_eq!(unsafe { libc::send(fd.as_raw_fd(), [7u8].as_ptr().cast(), 1, 0) }, 1);
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
                let name = format!("/{server}");
                let path = path_of(&recording, client).into_iter();
                let of_server = path.filter(|s| s.1["task"].as_str().is_some_and(|t| t.ends_with(&name)));
                let of_server: Vec<Interval> = of_server.map(|s| s.0).collect();
                let mut asleep = 0;
                for ((read, awake_ns), computed) in calls {
                    // on a busy machine the caller may come to wait late, or wait for a processor instead
                    let truth = overlap(read, computed).saturating_sub(awake_ns);
                    let told: u64 = of_server.iter().map(|s| overlap(read, *s)).sum();
                    assert!(
                        told + SLACK_NS >= truth,
                        "{backend}, udp {udp}, {own_percent} %: {told} of {truth} ns are said to be the server's"
                    );
                    asleep += truth;
                }
                // that it never waits would test nothing
                if own_percent == 0 {
                    assert!(asleep > COMPUTE_NS, "{backend}, udp {udp}: {asleep} ns");
                }
            }
        }
    }
}
