//! Byte ranges: whatever call moves bytes, both ends number them alike and without a hole.

use crate::harness::*;
use crate::net::*;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd, OwnedFd};
use wakepath_model::rows::{OpKind, RangeHow, Side, op_flag};

const SENDS: [&str; 8] = ["write", "writev", "send", "sendto", "sendmsg", "sendmmsg", "sendfile", "splice"];
const RECVS: [&str; 9] = ["read", "readv", "recv", "recvfrom", "recvmsg", "recvmmsg", "peek", "pieces", "splice"];

/// Bytes that differ from message to message and place to place.
fn pattern(seed: usize, count: usize) -> Vec<u8> {
    (0..count).map(|i| (seed * 31 + i * 7 + i / 251) as u8).collect()
}

/// Every way to send against every way to receive, with an answer after each so that each begins a message.
fn exchange(a: &impl AsRawFd, b: &impl AsRawFd, sends: &[&str], recvs: &[&str]) -> (Vec<u8>, Vec<u8>) {
    let (mut there, mut back) = (Vec::new(), Vec::new());
    for (i, s) in sends.iter().enumerate() {
        for (j, r) in recvs.iter().enumerate() {
            let message = pattern(i * 16 + j, 60 + 41 * i + 5 * j);
            send_by(s, a, &message);
            assert_eq!(recv_by(r, b, message.len()), message, "{s} to {r}");
            send_by("write", b, b"answer");
            assert_eq!(recv_by("read", a, 6), b"answer");
            there.extend(message);
            back.extend(b"answer");
        }
    }
    (there, back)
}

#[test]
fn tcp_ranges_are_the_same_at_both_ends() {
    for backend in BACKENDS {
        for (selection, name) in [(false, "all"), (true, "pid")] {
            let me = std::process::id().to_string();
            let args: &[&str] = if selection { &["--pid", &me, "--payload", "heads"] } else { &["--payload", "heads"] };
            let Some(rec) = record_as(backend, args) else {
                continue;
            };
            let (a, b) = tcp_pair();
            let (there, back) = exchange(&a, &b, &SENDS, &RECVS);
            let (fa, fb) = (ids(&a), ids(&b));
            let trace = rec.stop();
            let (fa, fb) = (trace.flow(fa), trace.flow(fb));
            let sent = trace.chain(fa, OpKind::Send, RangeHow::Exact);
            assert_eq!(sent, trace.chain(fb, OpKind::Recv, RangeHow::Exact), "{backend} {name}");
            assert_eq!(sent.1 - sent.0, there.len() as u64);
            let answers = trace.chain(fb, OpKind::Send, RangeHow::Exact);
            assert_eq!(answers, trace.chain(fa, OpKind::Recv, RangeHow::Exact));
            assert_eq!(answers.1 - answers.0, back.len() as u64);
            assert_eq!(trace.first_endpoint(fa).map(|e| e.snd), Some(sent.0));
            // a head wherever the bytes were in the caller's memory
            let n = trace.check_heads(fa, true, sent.0, &there);
            assert!(n >= 6 * RECVS.len(), "{backend}: {n} heads of what was sent");
            let n = trace.check_heads(fb, false, sent.0, &there);
            assert!(n >= SENDS.len() * 8, "{backend}: {n} heads of what was received");
            trace.check_heads(fb, true, answers.0, &back);
            assert!(trace.is_whole(&[fa, fb]));
        }
    }
}

#[test]
fn a_send_is_entered_before_it_is_received() {
    for backend in BACKENDS {
        let Some(rec) = record(backend, &[]) else {
            continue;
        };
        let (mut a, mut b) = tcp_pair();
        let fds = (ids(&a), ids(&b));
        let server = std::thread::spawn(move || {
            let mut one = [0u8; 1];
            while b.read(&mut one).is_ok_and(|n| n == 1) {
                b.write_all(&one).expect("it goes");
            }
        });
        for i in 0..2000 {
            a.write_all(&[i as u8]).expect("it goes");
            a.read_exact(&mut [0]).expect("it comes");
        }
        drop(a);
        server.join().expect("it ends");
        let trace = rec.stop();
        let (fa, fb) = (trace.flow(fds.0), trace.flow(fds.1));
        for (from, to) in [(fa, fb), (fb, fa)] {
            let (sends, receives) = (trace.moved(from, OpKind::Send), trace.moved(to, OpKind::Recv));
            assert_eq!((sends.len(), receives.len()), (2000, 2000), "{backend}");
            for (s, r) in sends.iter().zip(&receives) {
                assert_eq!((s.start, s.end), (r.start, r.end));
                assert!(s.entry < r.at, "{backend}: sent from {:?}, received at {:?}", s.entry, r.at);
                assert!(r.arrived.0 == 0 || r.arrived >= s.entry, "{backend}: arrived {:?} before {s:?}", r.arrived);
            }
        }
    }
}

#[test]
fn a_head_of_fastcgi_is_taken_as_long_as_one_of_http() {
    for backend in BACKENDS {
        let Some(rec) = record(backend, &["--payload", "heads"]) else {
            continue;
        };
        let (mut a, mut b) = tcp_pair();
        let fa = ids(&a);
        // BEGIN_REQUEST, and PARAMS of 1,792 bytes
        let mut message = vec![1, 1, 0, 1, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 4, 0, 1, 7, 0, 0, 0];
        message.extend(pattern(3, 1792));
        a.write_all(&message).expect("it goes");
        b.read_exact(&mut vec![0; message.len()]).expect("it comes");
        let trace = rec.stop();
        let fa = trace.flow(fa);
        let taken = trace.heads.iter().filter(|h| h.flow == fa && h.sent).map(|h| h.bytes.len()).max();
        assert_eq!(taken, Some(message.len()), "{backend}");
    }
}

#[test]
fn nothing_moved_is_no_operation_and_an_end_is_one() {
    for backend in BACKENDS {
        let Some(rec) = record(backend, &[]) else {
            continue;
        };
        let (a, b) = tcp_pair();
        assert_eq!(recv_raw(&b, 10, libc::MSG_DONTWAIT), -(libc::EAGAIN as isize));
        assert_eq!(recv_raw(&b, 0, libc::MSG_DONTWAIT).min(0), recv_raw(&b, 0, libc::MSG_DONTWAIT).min(0));
        send_by("write", &a, b"0123456789");
        wait_for(b.as_raw_fd(), 10);
        recv_raw(&b, 0, 0);
        assert_eq!(recv_raw(&b, 4, 0), 4);
        // the end of the stream comes while bytes are unread: the last receive passes both
        a.shutdown(std::net::Shutdown::Write).expect("it shuts");
        pause(20);
        assert_eq!(recv_raw(&b, 100, 0), 6);
        assert_eq!(recv_raw(&b, 100, 0), 0);
        assert_eq!(recv_raw(&b, 100, 0), 0);
        let (fa, fb) = (ids(&a), ids(&b));
        let trace = rec.stop();
        let (fa, fb) = (trace.flow(fa), trace.flow(fb));
        let sent = trace.chain(fa, OpKind::Send, RangeHow::Exact);
        assert_eq!(sent, trace.chain(fb, OpKind::Recv, RangeHow::Exact), "{backend}");
        let received: Vec<_> = trace.flow_ops(fb).into_iter().filter(|o| o.kind == OpKind::Recv).collect();
        let results: Vec<i32> = received.iter().map(|o| o.result).collect();
        assert_eq!(results, [4, 6, 0, 0], "{backend}");
        assert!(received[2..].iter().all(|o| o.start == sent.1 && o.end == sent.1));
        assert_eq!(received[0].flags & op_flag::MORE, op_flag::MORE, "more was there to read");
        assert!(trace.is_whole(&[fa, fb]));
        assert!(trace.flow_ops(fa).iter().any(|o| o.kind == OpKind::Shutdown && o.flags & op_flag::SHUT_WRITE != 0));
    }
}

#[test]
fn unix_sockets_and_pipes_count_alike_at_both_ends() {
    for backend in BACKENDS {
        let Some(rec) = record(backend, &["--payload", "heads"]) else {
            continue;
        };
        let (a, b) = socketpair(libc::SOCK_STREAM);
        let (fa, fb) = (ids(&a), ids(&b));
        // a socketpair whose ends are first met by a receive and by nothing
        let (there, back) = exchange(&a, &b, &SENDS, &RECVS);

        let path = rec.dir().join("listener");
        let listener = std::os::unix::net::UnixListener::bind(&path).expect("it binds");
        let mut client = std::os::unix::net::UnixStream::connect(&path).expect("it connects");
        client.write_all(b"before accept").expect("it goes");
        let (server, _) = listener.accept().expect("it accepts");
        recv_by("read", &server, 13);
        exchange(&client, &server, &["write", "sendmsg"], &["read"]);
        let (fc, fs) = (ids(&client), ids(&server));

        let (r, w): (OwnedFd, OwnedFd) = pipe();
        send_by("write", &w, b"through a pipe");
        recv_by("read", &r, 14);
        send_by("writev", &w, b"again");
        let p = pipe_id(r.as_raw_fd());
        assert_eq!(recv_by("readv", &r, 5), b"again");
        let trace = rec.stop();

        let (fa, fb) = (trace.flow(fa), trace.flow(fb));
        let sent = trace.chain(fa, OpKind::Send, RangeHow::Counted);
        assert_eq!(sent, trace.chain(fb, OpKind::Recv, RangeHow::Counted), "{backend}");
        assert_eq!(sent.1 - sent.0, there.len() as u64);
        assert_eq!(trace.chain(fb, OpKind::Send, RangeHow::Counted), trace.chain(fa, OpKind::Recv, RangeHow::Counted));
        assert!(trace.check_heads(fa, true, sent.0, &there) > 0);
        assert!(!back.is_empty());
        let (ea, eb) = (trace.endpoint(fa).expect("known"), trace.endpoint(fb).expect("known"));
        assert_eq!((ea.peer, eb.peer), (fb, fa), "{backend}");
        assert_eq!((ea.side, eb.side), (Side::Unknown, Side::Unknown), "of a socketpair neither end serves");

        let (fc, fs) = (trace.flow(fc), trace.flow(fs));
        let (ec, es) = (trace.endpoint(fc).expect("known"), trace.endpoint(fs).expect("known"));
        assert_eq!((ec.peer, es.peer), (fs, fc), "{backend}");
        assert_eq!((ec.side, es.side), (Side::Client, Side::Server), "{backend}");
        assert_eq!(trace.text(es.path), path.to_str().expect("a plain path"));
        assert_eq!(trace.text(ec.path), path.to_str().expect("a plain path"));
        assert_eq!(trace.chain(fc, OpKind::Send, RangeHow::Counted), trace.chain(fs, OpKind::Recv, RangeHow::Counted));

        let written = trace.chain(p, OpKind::Send, RangeHow::Counted);
        assert_eq!(written, trace.chain(p, OpKind::Recv, RangeHow::Counted), "{backend}");
        assert_eq!(written.1 - written.0, 19);
    }
}

#[test]
fn a_socket_at_the_address_of_another_is_another() {
    for backend in BACKENDS {
        let Some(rec) = record(backend, &[]) else {
            continue;
        };
        let mut seen = Vec::new();
        for i in 0..200 {
            let (a, b) = socketpair(if i % 2 == 0 { libc::SOCK_STREAM } else { libc::SOCK_DGRAM });
            send_by("write", &a, b"sixsix");
            recv_by("read", &b, 6);
            seen.push((ids(&a), ids(&b)));
        }
        let trace = rec.stop();
        for (a, b) in seen {
            let (a, b) = (trace.flow(a), trace.flow(b));
            assert_eq!(trace.chain(a, OpKind::Send, RangeHow::Counted).0, 1 << 32, "{backend}: counts begin anew");
            assert_eq!(trace.chain(b, OpKind::Recv, RangeHow::Counted).0, 1 << 32, "{backend}");
        }
    }
}

#[test]
fn io_uring_operations_are_there_or_leave_a_gap() {
    use io_uring::{IoUring, opcode, types::Fd};
    const STREAM: &[u8] = b"plain-1ringring-2late-3plain-2onlytwo2";
    let Ok(mut ring) = IoUring::new(8) else {
        return skip("this kernel gives no io_uring");
    };
    fn push(ring: &mut IoUring, e: io_uring::squeue::Entry) {
        // SAFETY: the buffers of every entry live until its completion, which is waited for below.
        unsafe { ring.submission().push(&e).expect("room") };
    }
    fn finish(ring: &mut IoUring) -> i32 {
        ring.submit_and_wait(1).expect("it completes");
        ring.completion().next().expect("a completion").result()
    }
    for backend in BACKENDS {
        let Some(rec) = record(backend, &["--payload", "heads"]) else {
            continue;
        };
        let (a, b) = tcp_pair();
        let mut buffer = [0u8; 64];
        let room = buffer.as_mut_ptr();
        let (fa, fb) = (Fd(a.as_raw_fd()), Fd(b.as_raw_fd()));
        send_by("write", &a, b"plain-1");
        recv_by("read", &b, 7);
        push(&mut ring, opcode::Send::new(fa, b"ring".as_ptr(), 4).build());
        assert_eq!(finish(&mut ring), 4);
        push(&mut ring, opcode::Recv::new(fb, room, 64).build());
        assert_eq!(finish(&mut ring), 4);
        push(&mut ring, opcode::Write::new(fa, b"ring-2".as_ptr(), 6).build());
        assert_eq!(finish(&mut ring), 6);
        push(&mut ring, opcode::Read::new(fb, room, 64).build());
        assert_eq!(finish(&mut ring), 6);
        // one that must wait: it is carried out on this task's way out of another call, whose buffer is not its own
        push(&mut ring, opcode::Recv::new(fb, room, 64).build());
        ring.submit().expect("it is taken");
        send_by("write", &a, b"late-3");
        assert_eq!(finish(&mut ring), 6);
        send_by("write", &a, b"plain-2");
        recv_by("read", &b, 7);
        // two at once: which of them is done first nobody knows
        let mut other = [0u8; 4];
        push(&mut ring, opcode::Recv::new(fb, room, 4).build());
        push(&mut ring, opcode::Recv::new(fb, other.as_mut_ptr(), 4).build());
        ring.submit().expect("they are taken");
        send_by("write", &a, b"onlytwo2");
        assert_eq!((finish(&mut ring), finish(&mut ring)), (4, 4));
        let pair = (ids(&a), ids(&b));
        let trace = rec.stop();
        let (fa, fb) = (trace.flow(pair.0), trace.flow(pair.1));
        let by_ring = |flow, kind| {
            let ops = trace.moved(flow, kind).into_iter();
            ops.filter(|o| o.flags & op_flag::IO_URING != 0).map(|o| (o.result, o.syscall)).collect::<Vec<_>>()
        };
        if backend != "syscalls" {
            let sent = trace.chain(fa, OpKind::Send, RangeHow::Exact);
            assert_eq!(sent, trace.chain(fb, OpKind::Recv, RangeHow::Exact));
            assert_eq!(sent.1 - sent.0, STREAM.len() as u64);
            assert_eq!(by_ring(fa, OpKind::Send), [(4, 0xffff), (6, 0xffff)]);
            assert_eq!(by_ring(fb, OpKind::Recv), [4, 6, 6, 4, 4].map(|n| (n, 0xffff)));
            // of each operation, but of the two at once
            assert_eq!(trace.check_heads(fa, true, sent.0, STREAM), 6);
            assert_eq!(trace.check_heads(fb, false, sent.0, STREAM), 5);
            assert_eq!(trace.ranged(RangeHow::Gap, &[fa, fb]), 0);
            continue;
        }
        // not seen, and the next operation says so
        for (flow, kind, hidden) in [(fa, OpKind::Send, 10), (fb, OpKind::Recv, 16)] {
            assert!(by_ring(flow, kind).is_empty());
            let ops = trace.moved(flow, kind);
            let gaps: u64 = ops.windows(2).map(|p| p[1].start - p[0].end).sum();
            assert_eq!(gaps, hidden);
            assert_eq!(trace.ranged(RangeHow::Gap, &[flow]), 1);
        }
    }
}
