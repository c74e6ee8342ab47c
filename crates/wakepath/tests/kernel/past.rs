//! Ways of bytes that naive numbering gets wrong: urgent data, data in the SYN, MPTCP, pages sent without a copy.

use crate::harness::*;
use crate::net::*;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd as _, OwnedFd};
use wakepath_model::rows::{OpKind, OpRow, RangeHow};

fn sent(fd: &impl AsRawFd, bytes: &[u8], flags: i32) {
    // SAFETY: a live buffer and its length.
    let n = unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
    assert_eq!(n, bytes.len() as isize, "{}", std::io::Error::last_os_error());
}

fn option(fd: &impl AsRawFd, level: i32, name: i32, value: i32) -> bool {
    // SAFETY: `value` is an int, and so long.
    unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const value).cast(), 4) == 0 }
}

fn places(ops: &[OpRow], base: u64) -> Vec<(u64, u64)> {
    ops.iter().map(|o| (o.start - base, o.end - base)).collect()
}

#[test]
fn an_urgent_byte_moves_no_other_bytes_number() {
    for backend in BACKENDS {
        let Some(rec) = record(backend, &[]) else {
            continue;
        };
        let (a, b) = tcp_pair();
        sent(&a, &[b'a'; 10], 0);
        sent(&a, b"!", libc::MSG_OOB);
        sent(&a, &[b'b'; 20], 0);
        wait_for(b.as_raw_fd(), 10);
        pause(20);
        // a read stops before the urgent byte, and the next skips it
        assert_eq!(recv_raw(&b, 100, 0), 10);
        assert_eq!(recv_raw(&b, 100, 0), 20);
        sent(&a, &[b'c'; 5], 0);
        recv_by("read", &b, 5);
        let pair = (ids(&a), ids(&b));
        let trace = rec.stop();
        let (from, to) = (trace.flow(pair.0), trace.flow(pair.1));
        let (base, end) = trace.chain(from, OpKind::Send, RangeHow::Exact);
        assert_eq!(end - base, 36, "{backend}");
        let read = trace.moved(to, OpKind::Recv);
        assert_eq!(places(&read, base), [(0, 10), (11, 31), (31, 36)], "{backend}");
        assert_eq!(read.iter().map(|o| o.range).collect::<Vec<_>>(), [RangeHow::Exact, RangeHow::Gap, RangeHow::Exact]);
        assert_eq!(trace.ranged(RangeHow::Gap, &[from, to]), 1, "the byte that nobody read is told");
    }
}

/// A thread that lives in a network of its own, with a loopback interface.
fn apart<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let thread = std::thread::spawn(move || {
        // SAFETY: moves this thread alone.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 || run("ip", &["link", "set", "lo", "up"]).is_err() {
            return None;
        }
        Some(f())
    });
    thread.join().expect("it does not panic")
}

#[test]
fn data_in_a_syn_is_numbered_like_any_other() {
    /// `sysctl net.ipv4.tcp_fastopen`: client and server, neither with a cookie.
    const BOTH: &str = "1543";
    const SYN_DATA: u8 = 32;
    for backend in BACKENDS {
        let Some(rec) = record(backend, &[]) else {
            continue;
        };
        let done = apart(move || {
            // the setting is that of the network of who writes it
            std::fs::write("/proc/sys/net/ipv4/tcp_fastopen", BOTH).ok()?;
            let listener = TcpListener::bind("127.0.0.1:0").ok()?;
            option(&listener, libc::IPPROTO_TCP, libc::TCP_FASTOPEN, 5).then_some(())?;
            let SocketAddr::V4(at) = listener.local_addr().ok()? else { return None };
            // SAFETY: makes a descriptor that is ours alone.
            let a = unsafe { OwnedFd::from_raw_fd(libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0)) };
            // SAFETY: zeroed is a valid value.
            let mut to: libc::sockaddr_in = unsafe { std::mem::zeroed() };
            to.sin_family = libc::AF_INET as u16;
            to.sin_port = at.port().to_be();
            to.sin_addr.s_addr = u32::from_ne_bytes(at.ip().octets());
            let bytes = [b'a'; 100];
            // SAFETY: a live buffer, a live address, and their lengths.
            let n = unsafe {
                let (to, size) = ((&raw const to).cast(), size_of_val(&to) as u32);
                libc::sendto(a.as_raw_fd(), bytes.as_ptr().cast(), 100, libc::MSG_FASTOPEN, to, size)
            };
            assert_eq!(n, 100, "{}", std::io::Error::last_os_error());
            let (b, _) = listener.accept().ok()?;
            recv_by("read", &b, 100);
            sent(&b, b"answer", 0);
            recv_by("read", &a, 6);
            let mut info = [0u8; 8];
            let mut size = 8u32;
            // SAFETY: a place for eight bytes and its length.
            unsafe {
                let place = info.as_mut_ptr().cast();
                libc::getsockopt(a.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, place, &mut size);
            }
            Some((ids(&a), ids(&b), info[5] & SYN_DATA != 0))
        });
        let trace = rec.stop();
        let Some((from, to, true)) = done.flatten() else {
            skip("no data in a SYN here");
            continue;
        };
        let (from, to) = (trace.flow(from), trace.flow(to));
        let numbers = trace.chain(from, OpKind::Send, RangeHow::Exact);
        assert_eq!(numbers.1 - numbers.0, 100, "{backend}");
        assert_eq!(trace.chain(to, OpKind::Recv, RangeHow::Exact), numbers, "{backend}");
        assert_eq!(
            trace.chain(to, OpKind::Send, RangeHow::Exact),
            trace.chain(from, OpKind::Recv, RangeHow::Exact),
            "{backend}"
        );
        assert!(trace.is_whole(&[from, to]));
    }
}

#[test]
fn mptcp_is_counted_by_results_and_claims_no_number_of_tcp() {
    for backend in BACKENDS {
        // SAFETY: makes a descriptor that is ours alone, or -1.
        let made = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_MPTCP) };
        if made < 0 {
            return skip("this kernel has no MPTCP");
        }
        // SAFETY: it was made above; a socket of a stream takes the calls of a listener.
        let listener = unsafe { TcpListener::from_raw_fd(made) };
        // SAFETY: zeroed but for the family: any port of any address.
        let bound = unsafe {
            let mut any: libc::sockaddr_in = std::mem::zeroed();
            any.sin_family = libc::AF_INET as u16;
            libc::bind(made, (&raw const any).cast(), size_of_val(&any) as u32) + libc::listen(made, 5)
        };
        assert_eq!(bound, 0, "{}", std::io::Error::last_os_error());
        let Some(rec) = record(backend, &[]) else {
            continue;
        };
        let port = listener.local_addr().expect("it is bound").port();
        // SAFETY: makes a descriptor that is ours alone.
        let a = unsafe { TcpStream::from_raw_fd(libc::socket(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_MPTCP)) };
        // SAFETY: a live address and its length.
        let connected = unsafe {
            let mut to: libc::sockaddr_in = std::mem::zeroed();
            to.sin_family = libc::AF_INET as u16;
            to.sin_port = port.to_be();
            to.sin_addr.s_addr = u32::from_ne_bytes([127, 0, 0, 1]);
            libc::connect(a.as_raw_fd(), (&raw const to).cast(), size_of_val(&to) as u32)
        };
        assert_eq!(connected, 0, "{}", std::io::Error::last_os_error());
        let (b, _) = listener.accept().expect("it accepts");
        sent(&a, &[b'a'; 100], 0);
        recv_by("read", &b, 100);
        sent(&b, b"answer", 0);
        recv_by("read", &a, 6);
        let pair = (ids(&a), ids(&b));
        let trace = rec.stop();
        for (id, out, back) in [(pair.0, 100, 6), (pair.1, 6, 100)] {
            let flow = trace.flow(id);
            let length = |kind| trace.moved(flow, kind).iter().map(|o| o.result).sum::<i32>();
            assert_eq!((length(OpKind::Send), length(OpKind::Recv)), (out, back), "{backend}");
            let ops = trace.flow_ops(flow);
            assert!(ops.iter().all(|o| o.range != RangeHow::Exact), "{backend}: {ops:?}");
        }
    }
}

#[test]
fn pages_that_are_sent_without_a_copy_are_numbered() {
    const MSG_ZEROCOPY: i32 = 0x400_0000;
    const BYTES: usize = 65_536;
    for backend in BACKENDS {
        let Some(rec) = record(backend, &[]) else {
            continue;
        };
        let (a, b) = tcp_pair();
        if !option(&a, libc::SOL_SOCKET, libc::SO_ZEROCOPY, 1) {
            return skip("this kernel does not send without a copy");
        }
        let page = vec![b'z'; BYTES];
        sent(&a, &page, MSG_ZEROCOPY);
        assert_eq!(recv_by("pieces", &b, BYTES).len(), BYTES);
        let pair = (ids(&a), ids(&b));
        let trace = rec.stop();
        let numbers = trace.chain(trace.flow(pair.0), OpKind::Send, RangeHow::Exact);
        assert_eq!(numbers.1 - numbers.0, BYTES as u64, "{backend}");
        assert_eq!(trace.chain(trace.flow(pair.1), OpKind::Recv, RangeHow::Exact), numbers, "{backend}");
    }
}
