//! Bytes that move in another task than their owner's, after the socket's calls, or with a listener shared by several.

use crate::flows::{Namespaces, inside};
use crate::harness::*;
use crate::net::*;
use io_uring::{IoUring, cqueue, opcode, squeue, types::Fd};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use wakepath_model::ids::TaskId;
use wakepath_model::rows::{EndedBy, MessageRole, OpKind, OpRow, RangeHow, Side, op_flag};

fn push(ring: &mut IoUring, e: squeue::Entry) {
    // SAFETY: the buffers of every entry live until its completion, which is waited for.
    unsafe { ring.submission().push(&e).expect("room") };
}

/// The next completion: result, flags, and whose it is.
fn completed(ring: &mut IoUring) -> (i32, u32, u64) {
    ring.submit_and_wait(1).expect("it completes");
    let c = ring.completion().next().expect("a completion");
    (c.result(), c.flags(), c.user_data())
}

/// What was moved by a ring, and that all tasks that did it are of this process.
fn by_ring(trace: &Trace, ops: &[OpRow]) -> Vec<i32> {
    let me = std::process::id();
    let is_ours = |task: TaskId| trace.tasks.iter().any(|t| t.task == task && t.tgid == me);
    let ring: Vec<_> = ops.iter().filter(|o| o.flags & op_flag::IO_URING != 0).collect();
    assert!(ring.iter().all(|o| is_ours(o.task)), "{ring:?}");
    ring.iter().map(|o| o.result).collect()
}

/// Holds what is told of bytes that a ring moved beside ordinary calls: each with its place; or, where the ring is not
/// seen, a gap that is said. `there`: sizes by the ring of what was sent and received.
fn check_ring(
    backend: &str,
    trace: &Trace,
    pair: ([wakepath_model::ids::EndpointId; 2], [wakepath_model::ids::EndpointId; 2]),
    there: (&[i32], &[i32]),
) {
    let (a, b) = (trace.flow(pair.0), trace.flow(pair.1));
    let (sent, received) = (trace.moved(a, OpKind::Send), trace.moved(b, OpKind::Recv));
    if backend != "syscalls" {
        let numbers = trace.chain(a, OpKind::Send, RangeHow::Exact);
        assert_eq!(trace.chain(b, OpKind::Recv, RangeHow::Exact), numbers);
        assert_eq!((by_ring(trace, &sent), by_ring(trace, &received)), (there.0.to_vec(), there.1.to_vec()));
        assert_eq!(trace.ranged(RangeHow::Gap, &[a, b]), 0);
        return;
    }
    for (flow, ops, hidden) in [(a, sent, there.0), (b, received, there.1)] {
        assert!(by_ring(trace, &ops).is_empty());
        let gaps: u64 = ops.windows(2).map(|p| p[1].start - p[0].end).sum();
        assert_eq!(gaps, hidden.iter().sum::<i32>() as u64, "{ops:?}");
        assert_eq!(trace.ranged(RangeHow::Gap, &[flow]), 1);
    }
}

/// Sends and receives by a ring between two ordinary exchanges; each entry goes through `how`.
fn exchange_by(ring: &mut IoUring, a: &TcpStream, b: &TcpStream, how: impl Fn(squeue::Entry) -> squeue::Entry) {
    let mut buffer = [0u8; 64];
    let (fa, fb) = (Fd(a.as_raw_fd()), Fd(b.as_raw_fd()));
    send_by("write", a, b"before");
    recv_by("read", b, 6);
    push(ring, how(opcode::Send::new(fa, b"one".as_ptr(), 3).build()));
    assert_eq!(completed(ring).0, 3);
    push(ring, how(opcode::Recv::new(fb, buffer.as_mut_ptr(), 64).build()));
    assert_eq!(completed(ring).0, 3);
    push(ring, how(opcode::Write::new(fa, b"three".as_ptr(), 5).build()));
    assert_eq!(completed(ring).0, 5);
    push(ring, how(opcode::Read::new(fb, buffer.as_mut_ptr(), 64).build()));
    assert_eq!(completed(ring).0, 5);
    send_by("write", a, b"behind");
    recv_by("read", b, 6);
}

#[test]
fn a_ring_that_the_kernel_polls_moves_bytes_of_the_process() {
    let Ok(mut ring) = IoUring::builder().setup_sqpoll(50).build(8) else {
        return skip("this kernel gives no io_uring that it polls");
    };
    for backend in BACKENDS {
        let Some(rec) = record(backend, &[]) else {
            continue;
        };
        let (a, b) = tcp_pair();
        exchange_by(&mut ring, &a, &b, |e| e);
        let pair = (ids(&a), ids(&b));
        check_ring(backend, &rec.stop(), pair, (&[3, 5], &[3, 5]));
    }
}

#[test]
fn a_rings_workers_move_bytes_of_the_process() {
    let Ok(mut ring) = IoUring::new(8) else {
        return skip("this kernel gives no io_uring");
    };
    for backend in BACKENDS {
        let Some(rec) = record(backend, &[]) else {
            continue;
        };
        let (a, b) = tcp_pair();
        exchange_by(&mut ring, &a, &b, |e| e.flags(squeue::Flags::ASYNC));
        let pair = (ids(&a), ids(&b));
        check_ring(backend, &rec.stop(), pair, (&[3, 5], &[3, 5]));
    }
}

/// A server that reads requests and writes replies by a ring alone: what it says is read at both ends. Where its operations are not seen,
/// nothing is made up of it.
#[test]
fn what_is_said_over_a_ring_is_read_at_both_ends() {
    const REQUEST: &[u8] = b"GET /by-a-ring HTTP/1.1\r\nHost: shop\r\n\r\n";
    const REPLY: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let Ok(mut ring) = IoUring::new(8) else {
        return skip("this kernel gives no io_uring");
    };
    for backend in BACKENDS {
        let Some(rec) = record(backend, &[]) else {
            continue;
        };
        let (client, server) = tcp_pair();
        let mut buffer = [0u8; 256];
        for _ in 0..3 {
            send_by("write", &client, REQUEST);
            push(&mut ring, opcode::Recv::new(Fd(server.as_raw_fd()), buffer.as_mut_ptr(), 256).build());
            assert_eq!(completed(&mut ring).0, REQUEST.len() as i32);
            push(&mut ring, opcode::Send::new(Fd(server.as_raw_fd()), REPLY.as_ptr(), REPLY.len() as u32).build());
            assert_eq!(completed(&mut ring).0, REPLY.len() as i32);
            recv_by("read", &client, REPLY.len());
        }
        let (ends, trace) = ([ids(&client), ids(&server)], rec.stop());
        let [asks, serves] = ends.map(|id| trace.flow(id));
        let of = |flow, role| {
            let all = trace.messages.iter().filter(|m| m.flow == flow && m.role == role);
            all.map(|m| (trace.text(m.verb), trace.text(m.target), m.status)).collect::<Vec<_>>()
        };
        let ends = if backend == "syscalls" { &[asks][..] } else { &[asks, serves] };
        for &end in ends {
            assert_eq!(of(end, MessageRole::Request), [("GET", "/by-a-ring", 0); 3], "{backend}");
            assert_eq!(of(end, MessageRole::Reply), [("", "", 200); 3], "{backend}");
        }
        assert_eq!(trace.messages.len(), 6 * ends.len(), "{backend}");
        if backend != "syscalls" {
            // each with its place, so that both ends are one exchange
            let sent: u64 = trace.moved(asks, OpKind::Send).iter().map(|o| o.result as u64).sum();
            assert_eq!(by_ring(&trace, &trace.moved(serves, OpKind::Recv)), [REQUEST.len() as i32; 3], "{backend}");
            assert_eq!(sent, 3 * REQUEST.len() as u64, "{backend}");
        }
    }
}

/// A message is received into a buffer that the kernel chooses: what its request names itself, here another message, is not read.
#[test]
fn nothing_is_read_where_a_ring_chooses_the_buffer_of_a_message() {
    const GROUP: u16 = 9;
    const REQUEST: &[u8] = b"GET /sent HTTP/1.1\r\nHost: shop\r\n\r\n";
    let mut room = [0u8; 4 * 256];
    let Ok(mut ring) = IoUring::new(8) else {
        return skip("this kernel gives no io_uring");
    };
    let mut decoy = *b"GET /told HTTP/1.1\r\nHost: shop\r\n\r\n";
    for backend in BACKENDS {
        let Some(rec) = record(backend, &[]) else {
            continue;
        };
        push(&mut ring, opcode::ProvideBuffers::new(room.as_mut_ptr(), 256, 4, GROUP, 0).build());
        assert!(completed(&mut ring).0 >= 0, "buffers are taken");
        let (a, b) = tcp_pair();
        let part = libc::iovec { iov_base: decoy.as_mut_ptr().cast(), iov_len: decoy.len() };
        // SAFETY: a zeroed msghdr is a valid one.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        (message.msg_iov, message.msg_iovlen) = ((&raw const part).cast_mut(), 1);
        send_by("write", &a, REQUEST);
        let receive = opcode::RecvMsg::new(Fd(b.as_raw_fd()), &raw mut message).buf_group(GROUP).build();
        push(&mut ring, receive.flags(squeue::Flags::BUFFER_SELECT));
        assert_eq!(completed(&mut ring).0, REQUEST.len() as i32);
        let (ends, trace) = ([ids(&a), ids(&b)], rec.stop());
        let [from, to] = ends.map(|id| trace.flow(id));
        let on =
            |flow| trace.messages.iter().filter(|m| m.flow == flow).map(|m| trace.text(m.target)).collect::<Vec<_>>();
        assert_eq!((on(from), on(to)), (vec!["/sent"], vec![]), "{backend}");
    }
}

#[test]
fn one_request_to_a_ring_receives_many_times() {
    const GROUP: u16 = 7;
    for backend in BACKENDS {
        let mut room = [0u8; 8 * 64];
        let Ok(mut ring) = IoUring::new(8) else {
            return skip("this kernel gives no io_uring");
        };
        let Some(rec) = record(backend, &[]) else {
            continue;
        };
        push(&mut ring, opcode::ProvideBuffers::new(room.as_mut_ptr(), 64, 8, GROUP, 0).build());
        assert!(completed(&mut ring).0 >= 0, "buffers are taken");
        let (a, b) = tcp_pair();
        send_by("write", &a, b"before");
        recv_by("read", &b, 6);
        push(&mut ring, opcode::RecvMulti::new(Fd(b.as_raw_fd()), GROUP).build().user_data(1));
        ring.submit().expect("it is taken");
        for size in [6usize, 60, 33] {
            send_by("write", &a, &vec![b'm'; size]);
            let (result, flags, _) = completed(&mut ring);
            if result == -libc::EINVAL {
                return skip("this kernel receives once for each request to a ring");
            }
            assert_eq!((result, cqueue::more(flags)), (size as i32, true));
        }
        push(&mut ring, opcode::AsyncCancel::new(1).build().user_data(2));
        while completed(&mut ring).2 != 2 {}
        send_by("write", &a, b"behind");
        recv_by("read", &b, 6);
        let pair = (ids(&a), ids(&b));
        let trace = rec.stop();
        let (from, to) = (trace.flow(pair.0), trace.flow(pair.1));
        let numbers = trace.chain(from, OpKind::Send, RangeHow::Exact);
        if backend != "syscalls" {
            assert_eq!(trace.chain(to, OpKind::Recv, RangeHow::Exact), numbers);
            assert_eq!(by_ring(&trace, &trace.moved(to, OpKind::Recv)), [6, 60, 33]);
            assert_eq!(trace.ranged(RangeHow::Gap, &[from, to]), 0);
        } else {
            let read = trace.moved(to, OpKind::Recv);
            assert_eq!(read.iter().map(|o| o.range).collect::<Vec<_>>(), [RangeHow::Exact, RangeHow::Gap], "{read:?}");
            assert_eq!((read[1].start - read[0].end, trace.ranged(RangeHow::Gap, &[from, to])), (99, 1));
        }
    }
}

/// Takes what has arrived by `TCP_ZEROCOPY_RECEIVE` into memory of ours; `None` where the kernel does not.
fn taken_by_option(fd: &impl AsRawFd, count: usize) -> Option<usize> {
    /// Linux's `struct tcp_zerocopy_receive` (5.12).
    #[repr(C)]
    #[derive(Default)]
    struct Receive {
        address: u64,
        length: u32,
        recv_skip_hint: u32,
        inq: u32,
        err: i32,
        copybuf_address: u64,
        copybuf_len: i32,
        flags: u32,
        msg_control: u64,
        msg_controllen: u64,
        msg_flags: u32,
        reserved: u32,
    }
    const TCP_ZEROCOPY_RECEIVE: i32 = 35;
    const BYTES: usize = 65_536;
    let mut buffer = vec![0u8; BYTES];
    wait_for(fd.as_raw_fd(), count);
    // SAFETY: maps the socket's pages at a place of the kernel's choice, asks it to fill them and a live buffer, and gives
    // the place back.
    unsafe {
        let at = libc::mmap(std::ptr::null_mut(), BYTES, libc::PROT_READ, libc::MAP_SHARED, fd.as_raw_fd(), 0);
        if at == libc::MAP_FAILED {
            return None;
        }
        let mut r = Receive {
            address: at as u64,
            length: BYTES as u32,
            copybuf_address: buffer.as_mut_ptr() as u64,
            copybuf_len: BYTES as i32,
            ..Receive::default()
        };
        let mut len = size_of::<Receive>() as u32;
        let told = libc::getsockopt(fd.as_raw_fd(), 6, TCP_ZEROCOPY_RECEIVE, (&raw mut r).cast(), &mut len);
        libc::munmap(at, BYTES);
        (told == 0 && r.err == 0).then_some(r.length as usize + r.copybuf_len.max(0) as usize)
    }
}

#[test]
fn bytes_that_are_taken_by_an_option_leave_a_gap_that_is_said() {
    for backend in BACKENDS {
        let Some(rec) = record(backend, &[]) else {
            continue;
        };
        let (a, b) = tcp_pair();
        send_by("write", &a, b"before");
        recv_by("read", &b, 6);
        send_by("write", &a, &[b'z'; 5000]);
        match taken_by_option(&b, 5000) {
            Some(n) => assert_eq!(n, 5000),
            None => return skip("this kernel gives no TCP_ZEROCOPY_RECEIVE"),
        }
        send_by("write", &a, b"behind");
        recv_by("read", &b, 6);
        let pair = (ids(&a), ids(&b));
        let trace = rec.stop();
        let (from, to) = (trace.flow(pair.0), trace.flow(pair.1));
        let (base, end) = trace.chain(from, OpKind::Send, RangeHow::Exact);
        assert_eq!(end - base, 5012);
        let read = trace.moved(to, OpKind::Recv);
        let places: Vec<_> = read.iter().map(|o| (o.start - base, o.end - base, o.range)).collect();
        assert_eq!(places, [(0, 6, RangeHow::Exact), (5006, 5012, RangeHow::Gap)], "{backend}");
        assert_eq!(trace.ranged(RangeHow::Gap, &[from, to]), 1);
    }
}

/// Listens at `port` together with others; 0 for any.
fn shared_listener(port: u16) -> TcpListener {
    // SAFETY: makes a descriptor that is ours alone, and gives it live arguments.
    unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
        let one = 1i32;
        libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, (&raw const one).cast(), 4);
        let mut at: libc::sockaddr_in = std::mem::zeroed();
        at.sin_family = libc::AF_INET as u16;
        at.sin_port = port.to_be();
        at.sin_addr.s_addr = u32::from_ne_bytes([127, 0, 0, 1]);
        let bound = libc::bind(fd, (&raw const at).cast(), size_of_val(&at) as u32) + libc::listen(fd, 64);
        assert_eq!(bound, 0, "{}", std::io::Error::last_os_error());
        TcpListener::from_raw_fd(fd)
    }
}

#[test]
fn who_accepts_at_a_shared_port_need_not_be_who_reads() {
    const COUNT: usize = 24;
    for backend in BACKENDS {
        let Some(rec) = record(backend, &[]) else {
            continue;
        };
        let one = shared_listener(0);
        let port = one.local_addr().expect("bound").port();
        let two = shared_listener(port);
        let clients: Vec<TcpStream> =
            (0..COUNT).map(|_| TcpStream::connect(("127.0.0.1", port)).expect("it connects")).collect();
        // each listener has its own thread that accepts, and one thread reads all
        let count = Arc::new(AtomicUsize::new(0));
        let accepting = |l: TcpListener| {
            let count = Arc::clone(&count);
            std::thread::spawn(move || {
                l.set_nonblocking(true).expect("it does");
                let mut all = Vec::new();
                // the last packet of a handshake may come later than the client is told
                until("all connections", || {
                    while let Ok((s, _)) = l.accept() {
                        all.push(s);
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    count.load(Ordering::Relaxed) == COUNT
                });
                (gettid(), all)
            })
        };
        let taken = [one, two].map(accepting).map(|t| t.join().expect("it ends"));
        assert_eq!(taken.iter().map(|t| t.1.len()).sum::<usize>(), COUNT);
        for c in &clients {
            send_by("write", c, b"a request");
        }
        let (reader, taken) = std::thread::spawn(move || {
            taken.iter().flat_map(|t| &t.1).for_each(|s| drop(recv_by("read", s, 9)));
            (gettid(), taken)
        })
        .join()
        .expect("it ends");
        let flows: Vec<_> = taken.iter().flat_map(|t| t.1.iter().map(move |s| (t.0, ids(s)))).collect();
        let sent: Vec<_> = clients.iter().map(|c| (c.local_addr().expect("bound").port(), ids(c))).collect();
        let trace = rec.stop();
        let reader = trace.task(reader);
        let mut ends = Vec::new();
        for (acceptor, id) in flows {
            let flow = trace.flow(id);
            let by = |kind| trace.flow_ops(flow).into_iter().find(|o| o.kind == kind).expect("it is told").task;
            assert_eq!((by(OpKind::Accept), by(OpKind::Recv)), (trace.task(acceptor), reader), "{backend}");
            let e = trace.endpoint(flow).expect("it is told");
            assert_eq!((e.side, e.lport), (Side::Server, port));
            ends.push((e.rport, trace.chain(flow, OpKind::Recv, RangeHow::Exact)));
        }
        ends.sort_unstable();
        let mut begins: Vec<_> =
            sent.iter().map(|(p, id)| (*p, trace.chain(trace.flow(*id), OpKind::Send, RangeHow::Exact))).collect();
        begins.sort_unstable();
        assert_eq!(begins, ends, "{backend}: each with its own");
    }
}

/// A connection whose records the kernel encrypts (`from`) and decrypts (`to`); `false` where it cannot.
fn encrypt(from: &TcpStream, to: &TcpStream) -> bool {
    const TCP_ULP: i32 = 31;
    const SOL_TLS: i32 = 282;
    /// Linux's `struct tls12_crypto_info_aes_gcm_128`, in TLS 1.2.
    #[repr(C)]
    struct Crypto {
        version: u16,
        cipher: u16,
        secret: [u8; 36],
    }
    let crypto = Crypto { version: 0x0303, cipher: 51, secret: [7; 36] };
    [(from, 1), (to, 2)].iter().all(|(s, direction)| {
        // SAFETY: live arguments of the lengths given.
        unsafe {
            libc::setsockopt(s.as_raw_fd(), 6, TCP_ULP, c"tls".as_ptr().cast(), 3) == 0
                && libc::setsockopt(
                    s.as_raw_fd(),
                    SOL_TLS,
                    *direction,
                    (&raw const crypto).cast(),
                    size_of::<Crypto>() as u32,
                ) == 0
        }
    })
}

#[test]
fn what_the_kernel_encrypts_claims_no_number_of_tcp() {
    for backend in BACKENDS {
        let Some(rec) = record(backend, &[]) else {
            continue;
        };
        let (a, b) = tcp_pair();
        send_by("write", &a, b"hello in plain");
        recv_by("read", &b, 14);
        if !encrypt(&a, &b) {
            return skip("this kernel has no TLS of its own");
        }
        for _ in 0..3 {
            send_by("write", &a, &[b's'; 100]);
            let mut got = [0u8; 100];
            std::io::Read::read_exact(&mut &b, &mut got).expect("it comes");
            assert_eq!(got, [b's'; 100]);
        }
        let pair = (ids(&a), ids(&b));
        let trace = rec.stop();
        let (from, to) = (trace.flow(pair.0), trace.flow(pair.1));
        let (sent, read) = (trace.moved(from, OpKind::Send), trace.moved(to, OpKind::Recv));
        assert_eq!(sent.iter().map(|o| o.result).sum::<i32>(), 314, "{backend}: {sent:?}");
        assert_eq!(read.iter().map(|o| o.result).sum::<i32>(), 314, "{backend}: {read:?}");
        for ops in [sent, read] {
            assert!(ops[1..].iter().all(|o| o.range != RangeHow::Exact), "{backend}: {ops:?}");
        }
    }
}

/// Makes what is behind `ip` take packets in threads of its own; `Err` says why not.
fn in_threads(ns: &str) -> Result<(), String> {
    let set = "echo 1 > /sys/class/net/v0/threaded";
    run("ip", &["netns", "exec", ns, "ethtool", "-K", "v0", "gro", "on"])?;
    run("ip", &["netns", "exec", ns, "sh", "-c", set])
}

#[test]
fn a_wait_ended_by_a_packet_in_a_thread_of_the_kernel_is_the_packets() {
    for backend in BACKENDS {
        let ns = match Namespaces::new("t") {
            Ok(ns) => ns,
            Err(e) => return skip(&e),
        };
        if let Err(e) = in_threads(&ns.0).and_then(|()| in_threads(&ns.1)) {
            return skip(&format!("packets are not taken in threads here: {e}"));
        }
        let Some(rec) = record(backend, &[]) else {
            continue;
        };
        let (told, port) = std::sync::mpsc::channel();
        let server = inside(&ns.1, move || {
            let listener = TcpListener::bind("10.211.77.2:0").expect("a port");
            told.send(listener.local_addr().expect("bound").port()).expect("it listens");
            let (s, _) = listener.accept().expect("it accepts");
            for _ in 0..5 {
                let mut got = [0u8; 5];
                std::io::Read::read_exact(&mut &s, &mut got).expect("it comes");
                send_by("write", &s, b"answer");
            }
            (gettid(), ids(&s))
        });
        let port = port.recv().expect("it listens");
        let client = inside(&ns.0, move || {
            let c = TcpStream::connect(("10.211.77.2", port)).expect("it connects");
            for _ in 0..5 {
                pause(10);
                send_by("write", &c, b"asked");
                let mut got = [0u8; 6];
                std::io::Read::read_exact(&mut &c, &mut got).expect("it comes");
            }
        });
        client.join().expect("it ends");
        let (tid, id) = server.join().expect("it ends");
        let trace = rec.stop();
        let flow = trace.flow(id);
        let slept = trace.slept_in(tid, libc::SYS_read).into_iter().chain(trace.slept_in(tid, libc::SYS_recvfrom));
        let slept: Vec<_> = slept.map(|w| (w.cause, w.object)).collect();
        assert!(slept.contains(&(EndedBy::Socket, flow.0)), "{backend}: {slept:?}");
        assert!(slept.iter().all(|w| w.0 != EndedBy::Task), "{backend}: no packet is the thread's doing: {slept:?}");
        drop(ns);
    }
}

/// What interrupts leave to it wakes ksoftirqd, on the way out of one: not the task that happened to run.
#[test]
fn a_thread_that_serves_interrupts_was_woken_by_no_task() {
    for backend in BACKENDS {
        let Some(rec) = record_as(backend, &["--all"]) else {
            continue;
        };
        // more packets than a softirq does at once
        let floods: Vec<_> = (0..2)
            .map(|_| {
                std::thread::spawn(|| {
                    let [from, to] = [0; 2].map(|_| std::net::UdpSocket::bind("127.0.0.1:0").expect("a port"));
                    from.connect(to.local_addr().expect("bound")).expect("it is there");
                    let until = now_ns() + 500_000_000;
                    while now_ns() < until {
                        let _ = from.send(&[0; 64]);
                    }
                })
            })
            .collect();
        floods.into_iter().for_each(|f| f.join().expect("it ends"));
        let trace = rec.stop();
        let serves =
            |task: TaskId| trace.tasks.iter().any(|t| t.task == task && trace.text(t.comm).starts_with("ksoftirqd/"));
        let slept = trace.waits.iter().filter(|w| w.state != 0 && w.cause != EndedBy::Open && serves(w.task));
        let causes: Vec<EndedBy> = slept.map(|w| w.cause).collect();
        if causes.is_empty() {
            skip(&format!("{backend}: ksoftirqd was not needed"));
        }
        assert!(causes.iter().all(|c| *c != EndedBy::Task), "{backend}: {causes:?}");
    }
}
