//! System calls seen at tracepoints of their own: what no program sees begin, and programs that come and go.

use crate::harness::*;
use crate::net::*;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use wakepath_model::ids::EndpointId;
use wakepath_model::rows::{OpKind, OpRow, SENT_AT_ONCE};

/// Longer than programs for datagrams stay where nobody has a socket for them.
const AWAY_MS: u64 = 1000;

fn record_calls() -> Option<Recording> {
    record_as("calls", &["--pid", &std::process::id().to_string()])
}

/// Sends messages of several sizes one way, each answered with a byte, and gives the ids of both ends.
fn exchange<S: Read + Write + AsRawFd + Send + 'static>(mut a: S, mut b: S) -> [[EndpointId; 2]; 2] {
    const SIZES: [usize; 6] = [1, 1000, 5000, 20_000, 65_000, 300_000];
    const ROUNDS: usize = 60;
    let fds = [ids(&a), ids(&b)];
    let reader = std::thread::spawn(move || {
        let mut room = vec![0u8; 1 << 20];
        for size in SIZES.into_iter().cycle().take(SIZES.len() * ROUNDS) {
            b.read_exact(&mut room[..size]).expect("it comes");
            b.write_all(b"x").expect("it goes");
        }
    });
    for size in SIZES.into_iter().cycle().take(SIZES.len() * ROUNDS) {
        a.write_all(&vec![7; size]).expect("it goes");
        a.read_exact(&mut [0]).expect("it comes");
    }
    reader.join().expect("it ends");
    fds
}

#[test]
fn what_was_sent_is_never_read_before_its_send_began() {
    for kind in ["tcp", "unix"] {
        let Some(rec) = record_calls() else { return };
        pause(AWAY_MS);
        let fds = if kind == "tcp" {
            let (a, b) = tcp_pair();
            exchange(a, b)
        } else {
            let (a, b) = UnixStream::pair().expect("a pair");
            exchange(a, b)
        };
        let trace = rec.stop();
        let [fa, fb] = fds.map(|f| trace.flow(f));
        let mut counts = (0, 0);
        for (from, to) in [(fa, fb), (fb, fa)] {
            let reads = trace.moved(to, OpKind::Recv);
            for s in trace.moved(from, OpKind::Send) {
                counts.0 += 1;
                counts.1 += usize::from(s.entry < s.at);
                for r in reads.iter().filter(|r| r.start < s.end && s.start < r.end) {
                    assert!(s.entry <= r.at, "{kind}: {s:?} read by {r:?}");
                    // a begin that is not known says that it is not
                    let is_told = s.entry < s.at && s.end - s.start <= u64::from(SENT_AT_ONCE);
                    assert!(!is_told || r.arrived.0 == 0 || s.entry <= r.arrived, "{kind}: {s:?} arrived for {r:?}");
                }
            }
        }
        assert!(
            counts.0 >= 720 && counts.1 * 10 >= counts.0 * 9,
            "{kind}: the begin of {} of {} is known",
            counts.1,
            counts.0
        );
    }
}

#[test]
fn what_lay_unread_for_long_is_said_to_have_lain_so_long() {
    const LAY_MS: u64 = 4500;
    for backend in BACKENDS {
        let Some(rec) = record(backend, &[]) else { return };
        let (mut a, b) = tcp_pair();
        let fb = ids(&b);
        a.write_all(b"early").expect("it goes");
        pause(LAY_MS);
        recv_raw(&b, 10, 0);
        let trace = rec.stop();
        let reads = trace.moved(trace.flow(fb), OpKind::Recv);
        // before Linux 6.3 nothing tells when bytes come
        let lay_ms = |r: &OpRow| (r.at.0 - r.arrived.0) / 1_000_000;
        assert!(
            reads.len() == 1 && (backend == "syscalls" || (LAY_MS - 10..LAY_MS + 1000).contains(&lay_ms(&reads[0]))),
            "{reads:?}"
        );
    }
}

/// Six questions and answers; how many of the questions were recorded with their sender, and without.
fn questions(rec: Recording, server: &UdpSocket) -> (usize, usize) {
    let client = UdpSocket::bind("127.0.0.1:0").expect("a port");
    client.connect(server.local_addr().expect("bound")).expect("it connects");
    for _ in 0..6 {
        client.send(b"question").expect("it goes");
        let (_, from) = server.recv_from(&mut [0; 64]).expect("it comes");
        server.send_to(b"answer", from).expect("it goes");
        client.recv(&mut [0; 64]).expect("it comes");
        pause(150);
    }
    let (port, peer) = (server.local_addr().expect("bound").port(), client.local_addr().expect("bound").port());
    let trace = rec.stop();
    let count = |is_known: bool| {
        let of = trace.endpoints.iter().filter(|e| e.lport == port && (e.rport == peer) == is_known);
        let flows: BTreeSet<EndpointId> = of.map(|e| e.flow).collect();
        flows.iter().map(|f| trace.moved(*f, OpKind::Recv).len()).sum::<usize>()
    };
    (count(true), count(false))
}

#[test]
fn senders_of_datagrams_are_known_at_a_socket_that_was_there_before() {
    let server = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let Some(rec) = record_calls() else { return };
    pause(AWAY_MS);
    assert_eq!(questions(rec, &server), (6, 0));
}

#[test]
fn senders_of_datagrams_are_known_soon_at_the_first_socket_for_them() {
    let Some(rec) = record_calls() else { return };
    pause(AWAY_MS);
    let server = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let (known, other) = questions(rec, &server);
    assert_eq!(known + other, 6, "each is recorded once");
    assert!(known >= 4, "{known} of 6 with their sender");
}
