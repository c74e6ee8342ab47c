//! Endpoints: sides, addresses, ends, what is older than the recording, namespaces.

use crate::harness::*;
use crate::net::*;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;
use wakepath_flows::{How, Pairs};
use wakepath_model::ids::HostId;
use wakepath_model::rows::{EndpointRow, MessageRole, OpKind, OpRow, RangeHow, Reset, SeenHow, Side, TcpState};

fn local(e: &EndpointRow) -> (Ipv4Addr, u16) {
    (Ipv4Addr::new(e.laddr[0], e.laddr[1], e.laddr[2], e.laddr[3]), e.lport)
}

fn remote(e: &EndpointRow) -> (Ipv4Addr, u16) {
    (Ipv4Addr::new(e.raddr[0], e.raddr[1], e.raddr[2], e.raddr[3]), e.rport)
}

fn v4(a: SocketAddr) -> (Ipv4Addr, u16) {
    match a.ip() {
        IpAddr::V4(ip) => (ip, a.port()),
        IpAddr::V6(ip) => panic!("{ip} is not of version 4"),
    }
}

fn netns() -> u32 {
    let link = std::fs::read_link("/proc/thread-self/ns/net").expect("a namespace");
    link.to_string_lossy().trim_matches(|c: char| !c.is_ascii_digit()).parse().expect("a number")
}

#[test]
fn a_connection_is_told_from_both_sides() {
    for backend in BACKENDS {
        let Some(rec) = record(backend, &[]) else {
            continue;
        };
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let (a, b) = tcp_pair_at(&listener);
        let (fa, fb) = (ids(&a), ids(&b));
        let (near, far) = (v4(a.local_addr().expect("bound")), v4(a.peer_addr().expect("connected")));
        send_by("write", &a, b"hello!");
        recv_by("read", &b, 6);
        drop(a);
        pause(10);
        drop(b);
        let has_ended = |t: &Trace| t.states.iter().any(|s| fa.contains(&s.flow) && s.new == TcpState::Close);
        let trace = rec.stop_when(has_ended);
        let (fa, fb) = (trace.flow(fa), trace.flow(fb));
        let (ea, eb) = (trace.first_endpoint(fa).expect("told"), trace.first_endpoint(fb).expect("told"));
        assert_eq!(
            (ea.side, ea.how, eb.side, eb.how),
            (Side::Client, SeenHow::Connected, Side::Server, SeenHow::Accepted),
            "{backend}"
        );
        assert_eq!((local(&ea), remote(&ea), local(&eb), remote(&eb)), (near, far, far, near));
        assert_eq!((ea.netns, eb.netns), (netns(), netns()));
        assert_eq!((ea.snd, ea.rcv), (eb.rcv, eb.snd), "the two ends are mirror images");
        let kinds = |f| trace.flow_ops(f).iter().map(|o| o.kind).collect::<Vec<_>>();
        assert_eq!(kinds(fa), [OpKind::Connect, OpKind::Send, OpKind::Close], "{backend}");
        assert_eq!(kinds(fb), [OpKind::Accept, OpKind::Recv, OpKind::Close], "{backend}");
        let connect = trace.flow_ops(fa)[0];
        assert!(connect.result == 0 && connect.entry < connect.at);
        assert!(trace.states.iter().any(|s| s.flow == fa && s.new == TcpState::Close), "its end is told");
        let me = trace.task(gettid());
        assert!([fa, fb].iter().all(|f| trace.flow_ops(*f).iter().all(|o| o.task == me)));
    }
}

/// A port of loopback that refuses, for as long as the socket lives.
fn silent_port() -> (OwnedFd, u16) {
    // SAFETY: plain socket calls with structures of the stated sizes; the descriptor is ours alone.
    unsafe {
        let fd = OwnedFd::from_raw_fd(libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0));
        let mut at: libc::sockaddr_in = std::mem::zeroed();
        let mut size = size_of_val(&at) as u32;
        at.sin_family = libc::AF_INET as u16;
        at.sin_addr.s_addr = u32::from_ne_bytes([127, 0, 0, 1]);
        assert_eq!(libc::bind(fd.as_raw_fd(), (&raw const at).cast(), size), 0);
        assert_eq!(libc::getsockname(fd.as_raw_fd(), (&raw mut at).cast(), &mut size), 0);
        (fd, u16::from_be(at.sin_port))
    }
}

#[test]
fn refusals_and_resets_are_told() {
    for backend in BACKENDS {
        let Some(rec) = record(backend, &[]) else {
            continue;
        };
        // a port that nobody listens at, and nobody else can take
        let (_kept, port) = silent_port();
        let refused = TcpStream::connect(("127.0.0.1", port)).expect_err("nobody listens");
        assert_eq!(refused.raw_os_error(), Some(libc::ECONNREFUSED));
        let (a, mut b) = tcp_pair();
        let (fa, fb) = (ids(&a), ids(&b));
        reset(a);
        assert!(b.read(&mut [0]).is_err());
        let has_ended = |t: &Trace| t.states.iter().any(|s| fa.contains(&s.flow) && s.new == TcpState::Close);
        let trace = rec.stop_when(has_ended);
        // other tests' programs may be refused elsewhere meanwhile
        let to = |o: &OpRow| trace.endpoint(o.flow).map(|e| remote(&e));
        let failed = trace.ops.iter().filter(|o| o.kind == OpKind::Connect && o.result < 0);
        let failed: Vec<_> = failed.filter(|o| to(o) == Some((Ipv4Addr::LOCALHOST, port))).collect();
        assert_eq!(failed.len(), 1, "{backend}");
        assert_eq!(failed[0].result, -libc::ECONNREFUSED);
        assert!(trace.states.iter().any(|s| s.flow == failed[0].flow && s.reset == Reset::Received));
        let (fa, fb) = (trace.flow(fa), trace.flow(fb));
        assert!(trace.states.iter().any(|s| s.flow == fb && s.reset == Reset::Received), "{backend}: received");
        assert!(trace.states.iter().any(|s| s.flow == fa && s.new == TcpState::Close), "{backend}");
        let error = trace.flow_ops(fb).into_iter().find(|o| o.kind == OpKind::Recv).expect("the failed receive");
        assert_eq!(error.result, -libc::ECONNRESET);
    }
}

#[test]
fn the_same_four_tuple_twice_is_two_endpoints() {
    for backend in BACKENDS {
        let Some(rec) = record(backend, &[]) else {
            continue;
        };
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut from = 0;
        let mut flows = Vec::new();
        for round in 0..2u8 {
            // SAFETY: plain socket calls with structures of the stated sizes.
            let a = unsafe {
                let fd = libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
                let one = 1i32;
                libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, (&raw const one).cast(), 4);
                let mut at: libc::sockaddr_in = std::mem::zeroed();
                at.sin_family = libc::AF_INET as u16;
                at.sin_addr.s_addr = u32::from_ne_bytes([127, 0, 0, 1]);
                at.sin_port = u16::to_be(from);
                assert_eq!(libc::bind(fd, (&raw const at).cast(), 16), 0);
                at.sin_port = u16::to_be(listener.local_addr().expect("bound").port());
                assert_eq!(libc::connect(fd, (&raw const at).cast(), 16), 0);
                TcpStream::from_raw_fd(fd)
            };
            from = a.local_addr().expect("bound").port();
            let (b, _) = listener.accept().expect("it accepts");
            send_by("write", &a, &[round; 10]);
            recv_by("read", &b, 10);
            flows.push((ids(&a), ids(&b)));
            reset(a);
            pause(5);
        }
        let trace = rec.stop();
        let ends: Vec<_> = flows.into_iter().map(|(a, b)| (trace.flow(a), trace.flow(b))).collect();
        assert_ne!(ends[0].0, ends[1].0);
        for (a, b) in &ends {
            assert_eq!(
                trace.chain(*a, OpKind::Send, RangeHow::Exact),
                trace.chain(*b, OpKind::Recv, RangeHow::Exact),
                "{backend}"
            );
            let (ea, eb) = (trace.first_endpoint(*a).expect("told"), trace.first_endpoint(*b).expect("told"));
            assert_eq!((local(&ea).1, ea.snd, ea.rcv), (from, eb.rcv, eb.snd));
        }
    }
}

#[test]
fn connections_that_were_open_before_chain_and_have_sides() {
    const COUNT: usize = 8;
    for backend in BACKENDS {
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let before = || {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            let mut pool: Vec<(TcpStream, TcpStream)> = (0..COUNT).map(|_| tcp_pair_at(&listener)).collect();
            for (a, b) in &pool {
                send_by("write", a, b"before it began");
                recv_by("read", b, 15);
                send_by("write", b, b"unread at the snapshot");
            }
            // some are busy while the recorder attaches and takes its snapshot
            let mut busy = Vec::new();
            for (mut a, mut b) in pool.drain(COUNT / 2..).collect::<Vec<_>>() {
                let stop = stop.clone();
                busy.push(std::thread::spawn(move || {
                    recv_by("read", &a, 22);
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        a.write_all(b"ping").expect("it goes");
                        b.read_exact(&mut [0; 4]).expect("it comes");
                        b.write_all(b"pong").expect("it goes");
                        a.read_exact(&mut [0; 4]).expect("it comes");
                        std::thread::sleep(std::time::Duration::from_micros(200));
                    }
                    (a, b)
                }));
            }
            // who listened tells which side is which
            (listener, pool, busy)
        };
        let Some((rec, (_listener, mut pool, busy))) = record_behind(backend, before) else {
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            continue;
        };
        for (a, b) in &pool {
            recv_by("read", a, 22);
            send_by("write", a, b"after it began");
            recv_by("read", b, 14);
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        pool.extend(busy.into_iter().map(|t| t.join().expect("it ends")));
        let flows: Vec<_> = pool.iter().map(|(a, b)| (ids(a), ids(b))).collect();
        let trace = rec.stop();
        for (i, (a, b)) in flows.into_iter().enumerate() {
            let (a, b) = (trace.flow(a), trace.flow(b));
            let (ea, eb) = (trace.endpoint(a).expect("told"), trace.endpoint(b).expect("told"));
            assert_eq!((ea.side, eb.side), (Side::Client, Side::Server), "{backend} {i}");
            let (there, here) =
                (trace.chain(a, OpKind::Send, RangeHow::Exact), trace.chain(b, OpKind::Recv, RangeHow::Exact));
            assert_eq!(there.1, here.1, "{backend} {i}");
            let here = trace.chain(a, OpKind::Recv, RangeHow::Exact);
            if i < COUNT / 2 {
                assert_eq!((here.1 - here.0, here.1), (22, eb.snd), "{backend} {i}: sent before it began");
                continue;
            }
            let there = trace.chain(b, OpKind::Send, RangeHow::Exact);
            assert_eq!(there.1, here.1, "{backend} {i}");
        }
    }
}

#[test]
fn descriptors_that_are_handed_on_keep_their_flow() {
    if let Some(fd) = part() {
        // inherited over fork and exec
        // SAFETY: the parent left this descriptor open for us alone.
        let fd = unsafe { OwnedFd::from_raw_fd(fd.parse().expect("a number")) };
        send_by("write", &fd, b"from the child");
        return;
    }
    for backend in BACKENDS {
        let Some(rec) = record(backend, &[]) else {
            continue;
        };
        let (a, b) = tcp_pair();
        // SAFETY: duplicates of our own descriptor; the first is to survive exec.
        let (kept, dup) = unsafe { (libc::dup(a.as_raw_fd()), OwnedFd::from_raw_fd(libc::dup(a.as_raw_fd()))) };
        let name = "flows::descriptors_that_are_handed_on_keep_their_flow";
        let mut child = helper(name, &kept.to_string()).stdout(std::process::Stdio::null()).spawn().expect("it starts");
        let tid = child.id() as i32;
        assert!(child.wait().expect("it ends").success());
        recv_by("read", &b, 14);
        send_by("write", &dup, b"from a dup");
        recv_by("read", &b, 10);
        // over a UNIX socket, to another thread
        let (x, y) = socketpair(libc::SOCK_STREAM);
        pass(&x, a.as_raw_fd());
        std::thread::spawn(move || send_by("write", &take(&y), b"from a passed one")).join().expect("it ends");
        recv_by("read", &b, 17);
        let (fa, fb) = (ids(&a), ids(&b));
        let trace = rec.stop();
        let (fa, fb) = (trace.flow(fa), trace.flow(fb));
        let sent = trace.chain(fa, OpKind::Send, RangeHow::Exact);
        assert_eq!(sent, trace.chain(fb, OpKind::Recv, RangeHow::Exact), "{backend}");
        assert_eq!(sent.1 - sent.0, 41);
        let tasks: std::collections::HashSet<_> = trace.moved(fa, OpKind::Send).iter().map(|o| o.task).collect();
        assert_eq!(tasks.len(), 3, "{backend}: three tasks sent");
        // the child's test runs in a thread of it
        let first = trace.moved(fa, OpKind::Send)[0].task;
        assert!(trace.tasks.iter().any(|t| t.task == first && t.tgid == tid as u32));
        // SAFETY: ours, and used no more.
        unsafe { libc::close(kept) };
    }
}

fn control() -> (Vec<u8>, libc::iovec, [u8; 1]) {
    (vec![0u8; 64], libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 1 }, [0])
}

fn pass(over: &impl AsRawFd, fd: i32) {
    let (mut space, mut iov, mut byte) = control();
    iov.iov_base = byte.as_mut_ptr().cast();
    // SAFETY: the header's pointers are to live buffers; the control buffer has room for one descriptor.
    unsafe {
        let mut h: libc::msghdr = std::mem::zeroed();
        (h.msg_iov, h.msg_iovlen) = (&mut iov, 1);
        (h.msg_control, h.msg_controllen) = (space.as_mut_ptr().cast(), libc::CMSG_SPACE(4) as usize);
        let c = libc::CMSG_FIRSTHDR(&h);
        ((*c).cmsg_level, (*c).cmsg_type, (*c).cmsg_len) =
            (libc::SOL_SOCKET, libc::SCM_RIGHTS, libc::CMSG_LEN(4) as usize);
        libc::CMSG_DATA(c).cast::<i32>().write_unaligned(fd);
        assert_eq!(libc::sendmsg(over.as_raw_fd(), &h, 0), 1);
    }
}

fn take(over: &impl AsRawFd) -> OwnedFd {
    let (mut space, mut iov, mut byte) = control();
    iov.iov_base = byte.as_mut_ptr().cast();
    // SAFETY: as in `pass`; the descriptor that came is ours.
    unsafe {
        let mut h: libc::msghdr = std::mem::zeroed();
        (h.msg_iov, h.msg_iovlen) = (&mut iov, 1);
        (h.msg_control, h.msg_controllen) = (space.as_mut_ptr().cast(), space.len());
        assert_eq!(libc::recvmsg(over.as_raw_fd(), &mut h, 0), 1);
        OwnedFd::from_raw_fd(libc::CMSG_DATA(libc::CMSG_FIRSTHDR(&h)).cast::<i32>().read_unaligned())
    }
}

/// A question for `name`, and its answer.
fn dns(id: u16, name: &str, answer: bool) -> Vec<u8> {
    let mut m = Vec::new();
    m.extend(id.to_be_bytes());
    m.extend(if answer { [0x81, 0x80] } else { [0x01, 0x00] });
    m.extend([0, 1, 0, u8::from(answer), 0, 0, 0, 0]);
    for label in name.split('.') {
        m.push(label.len() as u8);
        m.extend(label.bytes());
    }
    m.extend([0, 0, 1, 0, 1]);
    if answer {
        m.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 10, 0, 0, 1]);
    }
    m
}

#[test]
fn datagrams_have_an_endpoint_a_peer_and_dns_is_read() {
    for backend in BACKENDS {
        // somebody else may have it for a moment
        let bind = |attempt: u32| {
            if attempt > 0 {
                pause(100);
            }
            UdpSocket::bind("127.0.0.1:5353").ok()
        };
        let Some(server) = (0..100).find_map(bind) else {
            return skip("port 5353 is taken");
        };
        server.set_read_timeout(Some(std::time::Duration::from_secs(60))).expect("a limit");
        let Some(rec) = record(backend, &[]) else {
            continue;
        };
        let connected = UdpSocket::bind("127.0.0.1:0").expect("a port");
        connected.connect("127.0.0.1:5353").expect("it connects");
        let free = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let mut b = [0u8; 512];
        let mut answer = |id: u16, name: &str| {
            let (n, from) = server.recv_from(&mut b).expect("a question");
            assert_eq!(&b[..n], dns(id, name, false));
            server.send_to(&dns(id, name, true), from).expect("it goes");
        };
        connected.send(&dns(1, "one.example", false)).expect("it goes");
        answer(1, "one.example");
        connected.recv(&mut [0; 512]).expect("an answer");
        free.send_to(&dns(2, "two.example", false), "127.0.0.1:5353").expect("it goes");
        answer(2, "two.example");
        free.recv_from(&mut [0; 512]).expect("an answer");
        // as the resolver of glibc asks: both questions in one call
        two_questions(&connected, &dns(3, "three.example", false), &dns(4, "four.example", false));
        answer(3, "three.example");
        answer(4, "four.example");
        assert_eq!(recv_raw(&connected, 512, 0), dns(3, "three.example", true).len() as isize);
        assert_eq!(recv_raw(&connected, 512, 0), dns(4, "four.example", true).len() as isize);
        let (near, far) = (v4(connected.local_addr().expect("bound")), v4(free.local_addr().expect("bound")));
        let (fs, fc) = (ids(&server), ids(&connected));
        let trace = rec.stop();
        let fc = trace.flow(fc);
        // the server's socket has one endpoint for each peer
        let of_server = |peer| {
            let e = trace.endpoints.iter().find(|e| e.lport == 5353 && remote(e) == peer);
            e.copied().unwrap_or_else(|| panic!("{backend}: no endpoint for {peer:?}"))
        };
        let (one, two) = (of_server(near), of_server(far));
        assert!(one.flow != two.flow && !fs.contains(&one.flow));
        assert_eq!((one.side, two.side), (Side::Server, Side::Server), "{backend}");
        assert_eq!(trace.endpoint(fc).expect("told").side, Side::Client, "{backend}");
        assert_eq!(remote(&trace.endpoint(fc).expect("told")), (Ipv4Addr::LOCALHOST, 5353));
        let count = |flow, kind| trace.moved(flow, kind).len();
        assert_eq!((count(one.flow, OpKind::Recv), count(one.flow, OpKind::Send)), (3, 3), "{backend}");
        assert_eq!((count(two.flow, OpKind::Recv), count(two.flow, OpKind::Send)), (1, 1), "{backend}");
        assert_eq!((count(fc, OpKind::Send), count(fc, OpKind::Recv)), (3, 3), "{backend}");
        assert_eq!(
            trace.chain(fc, OpKind::Send, RangeHow::Counted),
            trace.chain(one.flow, OpKind::Recv, RangeHow::Counted)
        );
        let read: Vec<_> = trace
            .messages
            .iter()
            .filter(|m| m.flow == one.flow)
            .map(|m| (trace.text(m.protocol), m.role, m.witness, trace.text(m.target).to_owned()))
            .collect();
        assert_eq!(read.len(), 6, "{backend}: {read:?}");
        assert!(read.iter().all(|r| r.0 == "proto.dns"));
        let ids = |wanted| read.iter().filter(|r| r.1 == wanted).map(|r| r.2).collect::<Vec<_>>();
        assert_eq!(ids(MessageRole::Request), [1, 3, 4]);
        assert_eq!(ids(MessageRole::Reply), [1, 3, 4]);
    }
}

fn two_questions(socket: &UdpSocket, a: &[u8], b: &[u8]) {
    let mut iov = [a, b].map(|m| libc::iovec { iov_base: m.as_ptr() as *mut _, iov_len: m.len() });
    // SAFETY: zero is a valid value, and the pointers are to live buffers.
    unsafe {
        let mut m: [libc::mmsghdr; 2] = std::mem::zeroed();
        for (m, iov) in m.iter_mut().zip(&mut iov) {
            (m.msg_hdr.msg_iov, m.msg_hdr.msg_iovlen) = (iov, 1);
        }
        assert_eq!(libc::sendmmsg(socket.as_raw_fd(), m.as_mut_ptr(), 2, 0), 2);
    }
}

/// Two namespaces joined by a veth pair, gone when this is.
pub struct Namespaces(pub String, pub String);

impl Drop for Namespaces {
    fn drop(&mut self) {
        for n in [&self.0, &self.1] {
            let _ = run("ip", &["netns", "del", n]);
        }
    }
}

impl Namespaces {
    pub fn new(tag: &str) -> Result<Namespaces, String> {
        let id = std::process::id();
        let ns = Namespaces(format!("wkp{tag}a{id}"), format!("wkp{tag}b{id}"));
        let (a, b) = (ns.0.as_str(), ns.1.as_str());
        run("ip", &["netns", "add", a])?;
        run("ip", &["netns", "add", b])?;
        run("ip", &["-n", a, "link", "add", "v0", "type", "veth", "peer", "name", "v0", "netns", b])?;
        for (n, address) in [(a, "10.211.77.1/24"), (b, "10.211.77.2/24")] {
            run("ip", &["-n", n, "addr", "add", address, "dev", "v0"])?;
            run("ip", &["-n", n, "link", "set", "v0", "up"])?;
            run("ip", &["-n", n, "link", "set", "lo", "up"])?;
        }
        Ok(ns)
    }
}

/// Runs `f` in a thread that lives in the namespace.
pub fn inside<T: Send + 'static>(name: &str, f: impl FnOnce() -> T + Send + 'static) -> std::thread::JoinHandle<T> {
    let ns = std::fs::File::open(format!("/var/run/netns/{name}")).expect("the namespace is there");
    std::thread::spawn(move || {
        // SAFETY: moves this thread alone.
        assert_eq!(unsafe { libc::setns(ns.as_raw_fd(), libc::CLONE_NEWNET) }, 0);
        f()
    })
}

#[test]
fn equal_addresses_in_two_namespaces_do_not_mix() {
    for backend in BACKENDS {
        let ns = match Namespaces::new("m") {
            Ok(ns) => ns,
            Err(e) => return skip(&e),
        };
        let Some(rec) = record(backend, &[]) else {
            continue;
        };
        let work = |seed: u8| {
            move || {
                let listener = TcpListener::bind("127.0.0.1:5432").expect("the port is this namespace's own");
                let (a, b) = tcp_pair_at(&listener);
                send_by("write", &a, &[seed; 100]);
                recv_by("read", &b, 100);
                (ids(&a), ids(&b), netns())
            }
        };
        let (one, two) =
            (inside(&ns.0, work(1)).join().expect("it ends"), inside(&ns.1, work(2)).join().expect("it ends"));
        let trace = rec.stop();
        for (a, b, net) in [one, two] {
            let (a, b) = (trace.flow(a), trace.flow(b));
            let (ea, eb) = (trace.first_endpoint(a).expect("told"), trace.first_endpoint(b).expect("told"));
            assert_eq!((ea.netns, eb.netns, eb.lport), (net, net, 5432), "{backend}");
            assert_eq!(trace.chain(a, OpKind::Send, RangeHow::Exact), trace.chain(b, OpKind::Recv, RangeHow::Exact));
        }
        assert_ne!(one.2, two.2);
        drop(ns);
    }
}

/// Publishes a namespace's port 9090 as its port 8080.
fn publish(ns: &str) -> Result<(), String> {
    let rules = "add table ip t; add chain ip t pre { type nat hook prerouting priority -100; }; \
                 add rule ip t pre tcp dport 8080 dnat to 10.211.77.2:9090";
    run("ip", &["netns", "exec", ns, "nft", rules])
}

#[test]
fn a_published_port_matches_by_numbers() {
    for backend in BACKENDS {
        let ns = match Namespaces::new("d") {
            Ok(ns) => ns,
            Err(e) => return skip(&e),
        };
        if let Err(e) = publish(&ns.1) {
            return skip(&format!("no address translation here: {e}"));
        }
        let Some(rec) = record(backend, &[]) else {
            continue;
        };
        let (ready, wait) = std::sync::mpsc::channel();
        let server = inside(&ns.1, move || {
            let listener = TcpListener::bind("10.211.77.2:9090").expect("a port");
            ready.send(()).expect("it is waited for");
            let (mut s, _) = listener.accept().expect("it accepts");
            s.read_exact(&mut [0; 8]).expect("it comes");
            s.write_all(b"answer").expect("it goes");
            ids(&s)
        });
        wait.recv().expect("it listens");
        let client = inside(&ns.0, || {
            let mut c = TcpStream::connect("10.211.77.2:8080").expect("it is translated");
            c.write_all(b"question").expect("it goes");
            c.read_exact(&mut [0; 6]).expect("it comes");
            ids(&c)
        });
        let (c, s) = (client.join().expect("it ends"), server.join().expect("it ends"));
        let trace = rec.stop();
        let (c, s) = (trace.flow(c), trace.flow(s));
        let (ec, es) = (trace.first_endpoint(c).expect("told"), trace.first_endpoint(s).expect("told"));
        assert_eq!((ec.rport, es.lport), (8080, 9090), "{backend}: the ends do not agree on the port");
        assert_eq!((ec.snd, ec.rcv), (es.rcv, es.snd), "{backend}: but on the numbers");
        assert_eq!(trace.chain(c, OpKind::Send, RangeHow::Exact), trace.chain(s, OpKind::Recv, RangeHow::Exact));
    }
}

/// A pool to a translated address that was filled before the recording: what was sent before is counted, on both ends alike.
#[test]
fn a_published_port_matches_by_first_numbers_if_the_connection_is_older() {
    for backend in BACKENDS {
        let ns = match Namespaces::new("o") {
            Ok(ns) => ns,
            Err(e) => return skip(&e),
        };
        if let Err(e) = publish(&ns.1) {
            return skip(&format!("no address translation here: {e}"));
        }
        let listener =
            inside(&ns.1, || TcpListener::bind("10.211.77.2:9090").expect("a port")).join().expect("it listens");
        let dial = || TcpStream::connect("10.211.77.2:8080").expect("it is translated");
        let ends: Vec<(TcpStream, TcpStream)> = (0..3u8)
            .map(|moved| {
                let mut client = inside(&ns.0, dial).join().expect("it connects");
                let (mut server, _) = listener.accept().expect("it accepts");
                // one that was never used, and others that were
                for i in 0..moved {
                    client.write_all(&vec![i; 70_000]).expect("it goes");
                    server.read_exact(&mut vec![0; 70_000]).expect("it comes");
                    server.write_all(&vec![i; 300]).expect("it goes");
                    client.read_exact(&mut vec![0; 300]).expect("it comes");
                }
                (client, server)
            })
            .collect();
        // the last bytes' acknowledgements are delayed by at most 40 ms
        std::thread::sleep(Duration::from_millis(200));
        let Some(rec) = record(backend, &[]) else {
            continue;
        };
        for (client, server) in &ends {
            send_by("write", client, b"question");
            recv_by("read", server, 8);
        }
        let ids: Vec<_> = ends.iter().map(|(c, s)| (ids(c), ids(s))).collect();
        let trace = rec.stop();
        let mut pairs: Pairs = Pairs::default();
        let host = HostId(0);
        let met: Vec<_> = ids.iter().map(|&(c, s)| (trace.flow(c), trace.flow(s))).collect();
        for end in met.iter().flat_map(|&(c, s)| [c, s]) {
            pairs.add(host, &trace.first_endpoint(end).expect("told"));
        }
        for (c, s) in met {
            assert_eq!(pairs.peer((host, c)), Some(((host, s), How::Translated)), "{backend}");
        }
    }
}
