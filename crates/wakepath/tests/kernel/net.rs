//! Sockets and every call that moves bytes on them, as thin safe functions.

use crate::harness::until;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// A connected pair on loopback: client, server.
pub fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    tcp_pair_at(&listener)
}

pub fn tcp_pair_at(listener: &TcpListener) -> (TcpStream, TcpStream) {
    let client = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it connects");
    let (server, _) = listener.accept().expect("it accepts");
    client.set_nodelay(true).expect("no delay");
    server.set_nodelay(true).expect("no delay");
    (client, server)
}

pub fn pipe() -> (OwnedFd, OwnedFd) {
    let (r, w) = std::io::pipe().expect("a pipe");
    (r.into(), w.into())
}

/// A file that holds `bytes`, read from its start.
pub fn file_of(bytes: &[u8]) -> std::fs::File {
    use std::io::{Seek as _, Write as _};
    let mut f = tempfile::tempfile().expect("a file");
    f.write_all(bytes).expect("it is written");
    f.rewind().expect("it rewinds");
    f
}

fn iovecs(parts: &[&[u8]]) -> Vec<libc::iovec> {
    parts.iter().map(|p| libc::iovec { iov_base: p.as_ptr() as *mut _, iov_len: p.len() }).collect()
}

fn iovecs_mut(parts: &mut [&mut [u8]]) -> Vec<libc::iovec> {
    parts.iter_mut().map(|p| libc::iovec { iov_base: p.as_mut_ptr().cast(), iov_len: p.len() }).collect()
}

fn header(iov: &mut [libc::iovec]) -> libc::msghdr {
    // SAFETY: zero is a valid value of every field.
    let mut h: libc::msghdr = unsafe { std::mem::zeroed() };
    h.msg_iov = iov.as_mut_ptr();
    h.msg_iovlen = iov.len();
    h
}

/// Sends `bytes`, which have at least six, in the named way; panics where not all of them went.
pub fn send_by(way: &str, fd: &impl AsRawFd, bytes: &[u8]) {
    let fd = fd.as_raw_fd();
    let third = bytes.len() / 3;
    let parts = [&bytes[..third], &bytes[third..2 * third], &bytes[2 * third..]];
    // SAFETY: every pointer is to a live slice or structure of the length that goes with it.
    let n = unsafe {
        match way {
            "write" => libc::write(fd, bytes.as_ptr().cast(), bytes.len()),
            "writev" => libc::writev(fd, iovecs(&parts).as_ptr(), 3),
            "send" => libc::send(fd, bytes.as_ptr().cast(), bytes.len(), 0),
            "sendto" => libc::sendto(fd, bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL, std::ptr::null(), 0),
            "sendmsg" => libc::sendmsg(fd, &header(&mut iovecs(&parts)), 0),
            "sendmmsg" => {
                let (mut a, mut b) = (iovecs(&parts[..1]), iovecs(&parts[1..]));
                let mut m = [
                    libc::mmsghdr { msg_hdr: header(&mut a), msg_len: 0 },
                    libc::mmsghdr { msg_hdr: header(&mut b), msg_len: 0 },
                ];
                assert_eq!(libc::sendmmsg(fd, m.as_mut_ptr(), 2, 0), 2);
                (m[0].msg_len + m[1].msg_len) as isize
            }
            "sendfile" => {
                let f = file_of(bytes);
                libc::sendfile(fd, f.as_raw_fd(), std::ptr::null_mut(), bytes.len())
            }
            "splice" => {
                let (r, w) = pipe();
                assert_eq!(libc::write(w.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()), bytes.len() as isize);
                libc::splice(r.as_raw_fd(), std::ptr::null_mut(), fd, std::ptr::null_mut(), bytes.len(), 0)
            }
            other => panic!("no way {other} to send"),
        }
    };
    assert_eq!(n, bytes.len() as isize, "{way}: {}", std::io::Error::last_os_error());
}

/// Sends `bytes` by one call, in buffers of `each` bytes.
pub fn send_in_buffers(fd: &impl AsRawFd, bytes: &[u8], each: usize) {
    let parts: Vec<&[u8]> = bytes.chunks(each).collect();
    let buffers = iovecs(&parts);
    // SAFETY: every buffer is a live slice.
    let n = unsafe { libc::writev(fd.as_raw_fd(), buffers.as_ptr(), buffers.len() as i32) };
    assert_eq!(n, bytes.len() as isize, "{}", std::io::Error::last_os_error());
}

/// Receives exactly `count` bytes, all of which are on their way, in the named way.
pub fn recv_by(way: &str, fd: &impl AsRawFd, count: usize) -> Vec<u8> {
    let fd = fd.as_raw_fd();
    let mut out = vec![0u8; count];
    let half = count / 2;
    wait_for(fd, count);
    // SAFETY: every pointer is to a live buffer or structure of the length that goes with it.
    let n = unsafe {
        match way {
            "read" => libc::read(fd, out.as_mut_ptr().cast(), count),
            "readv" => {
                let (a, b) = out.split_at_mut(half);
                libc::readv(fd, iovecs_mut(&mut [a, b]).as_ptr(), 2)
            }
            "recv" => libc::recv(fd, out.as_mut_ptr().cast(), count, 0),
            "recvfrom" => {
                libc::recvfrom(fd, out.as_mut_ptr().cast(), count, 0, std::ptr::null_mut(), std::ptr::null_mut())
            }
            "recvmsg" => {
                let (a, b) = out.split_at_mut(half);
                libc::recvmsg(fd, &mut header(&mut iovecs_mut(&mut [a, b])), 0)
            }
            "recvmmsg" => {
                let (a, b) = out.split_at_mut(half);
                let (mut a, mut b) = (iovecs_mut(&mut [a]), iovecs_mut(&mut [b]));
                let mut m = [
                    libc::mmsghdr { msg_hdr: header(&mut a), msg_len: 0 },
                    libc::mmsghdr { msg_hdr: header(&mut b), msg_len: 0 },
                ];
                let got = libc::recvmmsg(fd, m.as_mut_ptr(), 2, libc::MSG_DONTWAIT, std::ptr::null_mut());
                assert_eq!(got, 2, "{}", std::io::Error::last_os_error());
                (m[0].msg_len + m[1].msg_len) as isize
            }
            "peek" => {
                // looks at the same bytes twice, in both ways there are, before it takes them
                assert_eq!(libc::recv(fd, out.as_mut_ptr().cast(), count, libc::MSG_PEEK), count as isize);
                out.fill(0);
                libc::recvmsg(fd, &mut header(&mut iovecs_mut(&mut [&mut out])), libc::MSG_PEEK);
                out.fill(0);
                libc::recv(fd, out.as_mut_ptr().cast(), count, 0)
            }
            "pieces" => {
                let mut n = 0;
                while n < count {
                    let piece = 7.min(count - n);
                    n += libc::read(fd, out[n..].as_mut_ptr().cast(), piece) as usize;
                }
                n as isize
            }
            "splice" => {
                let (r, w) = pipe();
                let mut n = 0;
                while n < count {
                    let m = libc::splice(fd, std::ptr::null_mut(), w.as_raw_fd(), std::ptr::null_mut(), count - n, 0);
                    assert!(m > 0, "{}", std::io::Error::last_os_error());
                    n += m as usize;
                }
                libc::read(r.as_raw_fd(), out.as_mut_ptr().cast(), count)
            }
            other => panic!("no way {other} to receive"),
        }
    };
    assert_eq!(n, count as isize, "{way}: {}", std::io::Error::last_os_error());
    out
}

/// Waits until `count` bytes can be read at once.
pub fn wait_for(fd: i32, count: usize) {
    until("what was sent", || {
        let mut n = 0i32;
        // SAFETY: `n` is a place for an int.
        unsafe { libc::ioctl(fd, libc::FIONREAD, &mut n) };
        n as usize >= count
    });
}

/// One receive; the result or the error number, negative.
pub fn recv_raw(fd: &impl AsRawFd, count: usize, flags: i32) -> isize {
    let mut b = vec![0u8; count.max(1)];
    // SAFETY: a live buffer of at least `count` bytes.
    let n = unsafe { libc::recv(fd.as_raw_fd(), b.as_mut_ptr().cast(), count, flags) };
    if n < 0 { -(std::io::Error::last_os_error().raw_os_error().unwrap_or(0) as isize) } else { n }
}

pub fn socketpair(kind: i32) -> (OwnedFd, OwnedFd) {
    let mut fds = [0; 2];
    // SAFETY: a place for two descriptors, which are then ours alone.
    unsafe {
        assert_eq!(libc::socketpair(libc::AF_UNIX, kind | libc::SOCK_CLOEXEC, 0, fds.as_mut_ptr()), 0);
        (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1]))
    }
}

/// Closes with a reset.
pub fn reset(stream: TcpStream) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    // SAFETY: passes a structure of the stated size.
    unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            size_of_val(&linger) as u32,
        );
    }
}
