//! The states that the kernel's programs keep of connections: whose slots collide, and who is read after a reset.

use crate::harness::*;
use crate::net::*;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd};
use wakepath_model::rows::{OpKind, RangeHow, op_flag};

/// Slots of the programs' table (`FLOW_SLOTS`).
const SLOTS: u64 = 65536;

/// A TCP socket, not connected, whose slot is that of another socket.
fn rival_of(other: &impl AsRawFd) -> TcpStream {
    let slot = ids(other)[0].0 % SLOTS;
    // numbers are given out one by one, but each processor has a supply of its own: another one may have the right one
    for _ in 0..40 * SLOTS {
        // SAFETY: makes a descriptor that the stream then owns.
        let socket = unsafe {
            let fd = libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
            assert!(fd >= 0, "{}", std::io::Error::last_os_error());
            TcpStream::from_raw_fd(fd)
        };
        if ids(&socket)[0].0 % SLOTS == slot {
            return socket;
        }
    }
    panic!("no socket with slot {slot}");
}

fn connect(socket: &TcpStream, listener: &TcpListener) -> TcpStream {
    // SAFETY: a zeroed address is one, filled in below, and its length is passed along.
    let r = unsafe {
        let mut at: libc::sockaddr_in = std::mem::zeroed();
        at.sin_family = libc::AF_INET as u16;
        at.sin_addr.s_addr = u32::from_ne_bytes([127, 0, 0, 1]);
        at.sin_port = u16::to_be(listener.local_addr().expect("bound").port());
        libc::connect(socket.as_raw_fd(), (&raw const at).cast(), 16)
    };
    assert_eq!(r, 0, "{}", std::io::Error::last_os_error());
    listener.accept().expect("it accepts").0
}

#[test]
fn connections_in_one_slot_keep_apart() {
    for backend in BACKENDS {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let (a, b) = tcp_pair_at(&listener);
        let Some((rec, rival)) = record_behind(backend, || rival_of(&a)) else {
            continue;
        };
        send_by("write", &a, b"first");
        recv_by("read", &b, 5);
        let far = connect(&rival, &listener);
        for (near, far) in [(&rival, &far), (&a, &b), (&rival, &far), (&a, &b)] {
            send_by("write", near, b"question");
            recv_by("read", far, 8);
            send_by("write", far, b"answer");
            recv_by("read", near, 6);
        }
        let flows = [(ids(&a), ids(&b), 3), (ids(&rival), ids(&far), 2)];
        // its slot is given back, and taken again
        drop((a, b));
        pause(10);
        send_by("write", &rival, b"more");
        recv_by("read", &far, 4);
        let trace = rec.stop();
        for (near, far, asked) in flows {
            let (near, far) = (trace.flow(near), trace.flow(far));
            for (from, to) in [(near, far), (far, near)] {
                let sent = trace.chain(from, OpKind::Send, RangeHow::Exact);
                assert_eq!(sent, trace.chain(to, OpKind::Recv, RangeHow::Exact), "{backend}");
            }
            for flow in [near, far] {
                let turns = trace.flow_ops(flow).iter().filter(|o| o.flags & op_flag::TURN != 0).count();
                // to and fro; the first pair began with two questions, the other ended with one
                assert_eq!(turns, if asked == 3 { 4 } else { 5 }, "{backend}");
            }
        }
    }
}

#[test]
fn what_came_before_a_reset_is_read_behind_it() {
    for backend in BACKENDS {
        let Some(rec) = record(backend, &[]) else {
            continue;
        };
        let (a, b) = tcp_pair();
        let flows = (ids(&a), ids(&b));
        send_by("write", &a, b"abcde");
        recv_by("read", &b, 2);
        reset(a);
        pause(10);
        recv_by("read", &b, 3);
        let trace = rec.stop();
        let (fa, fb) = (trace.flow(flows.0), trace.flow(flows.1));
        assert_eq!(
            trace.chain(fa, OpKind::Send, RangeHow::Exact),
            trace.chain(fb, OpKind::Recv, RangeHow::Exact),
            "{backend}"
        );
        if backend != "syscalls" {
            let read = trace.moved(fb, OpKind::Recv);
            let turns: Vec<bool> = read.iter().map(|o| o.flags & op_flag::TURN != 0).collect();
            assert_eq!(turns, [true, false], "it is the same message still");
            assert!(read.iter().all(|o| o.arrived.0 != 0), "{read:?}");
        }
    }
}

#[test]
fn the_first_bytes_on_a_connection_from_before_are_seen_to_arrive() {
    for backend in ["calls", "socket-hooks"] {
        let before = || {
            let pairs: [_; 2] = std::array::from_fn(|_| tcp_pair());
            send_by("write", &pairs[1].0, b"before it began");
            pairs
        };
        let Some((rec, pairs)) = record_behind(backend, before) else {
            continue;
        };
        for (a, b) in &pairs {
            send_by("write", a, b"asked");
            pause(60);
            recv_by("read", b, if std::ptr::eq(b, &pairs[1].1) { 20 } else { 5 });
        }
        let flows = pairs.each_ref().map(|(a, b)| (ids(a), ids(b)));
        let trace = rec.stop();
        let arrived = flows.map(|(a, b)| {
            let sent = trace.moved(trace.flow(a), OpKind::Send)[0];
            let read = trace.moved(trace.flow(b), OpKind::Recv)[0];
            assert!(read.arrived.0 == 0 || read.arrived >= sent.entry, "{backend}: {read:?}, {sent:?}");
            (read.arrived.0 != 0).then(|| read.at.0 - read.arrived.0)
        });
        assert!(arrived[0].is_some_and(|lay| lay >= 50_000_000), "{backend}: {arrived:?}");
        // of what lay there before nobody knows
        assert_eq!(arrived[1], None, "{backend}");
    }
}
