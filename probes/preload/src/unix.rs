//! The other end of a UNIX socket, asked of the kernel (`NETLINK_SOCK_DIAG`); it needs no rights.

use crate::sys;

/// `struct unix_diag_req` after its `nlmsghdr`.
#[repr(C)]
struct Request {
    len: u32,
    ty: u16,
    flags: u16,
    seq: u32,
    pid: u32,
    family: u8,
    protocol: u8,
    pad: u16,
    states: u32,
    inode: u32,
    show: u32,
    cookie: [u32; 2],
}

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const UDIAG_SHOW_PEER: u32 = 4;
const UNIX_DIAG_PEER: u16 = 2;

/// Cookie of the peer of the socket with this inode number.
pub fn peer(inode: u64) -> Option<u64> {
    let a = [libc::AF_NETLINK as usize, (libc::SOCK_RAW | libc::SOCK_CLOEXEC) as usize, 4, 0, 0, 0];
    // SAFETY: plain numbers
    let fd = unsafe { sys::call(libc::SYS_socket, a) };
    if fd < 0 {
        return None;
    }
    let answer = ask(fd as usize, inode as u32).and_then(|(_, peer)| ask(fd as usize, peer));
    // SAFETY: a descriptor of our own
    unsafe { sys::call(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]) };
    answer.map(|(cookie, _)| cookie)
}

/// Cookie of a socket and inode number of its peer (0: none, or not accepted yet).
fn ask(fd: usize, inode: u32) -> Option<(u64, u32)> {
    if inode == 0 {
        return None;
    }
    let q = Request {
        len: size_of::<Request>() as u32,
        ty: SOCK_DIAG_BY_FAMILY,
        flags: 1, // a request
        seq: 1,
        pid: 0,
        family: libc::AF_UNIX as u8,
        protocol: 0,
        pad: 0,
        states: u32::MAX,
        inode,
        show: UDIAG_SHOW_PEER,
        cookie: [u32::MAX; 2],
    };
    let mut r = [0u8; 256];
    let (quiet, now) = (libc::MSG_NOSIGNAL as usize, libc::MSG_DONTWAIT as usize);
    // SAFETY: the kernel reads one request and writes at most as much as the buffer holds
    let n = unsafe {
        sys::call(libc::SYS_sendto, [fd, &raw const q as usize, size_of::<Request>(), quiet, 0, 0]);
        sys::call(libc::SYS_recvfrom, [fd, r.as_mut_ptr() as usize, r.len(), now, 0, 0])
    };
    let r = r.get(..usize::try_from(n).ok()?)?;
    let word = |at: usize| Some(u32::from_ne_bytes(r.get(at..at + 4)?.try_into().ok()?));
    let short = |at: usize| Some(u16::from_ne_bytes(r.get(at..at + 2)?.try_into().ok()?));
    if short(4)? != SOCK_DIAG_BY_FAMILY {
        return None; // an error: no such socket, or no such module
    }
    // nlmsghdr 16, then family, type, state, pad, inode, cookie
    let cookie = u64::from(word(24)?) | u64::from(word(28)?) << 32;
    let (mut at, mut peer) = (32, 0);
    while let (Some(len @ 4..), Some(kind)) = (short(at), short(at + 2)) {
        if kind == UNIX_DIAG_PEER {
            peer = word(at + 4)?;
        }
        at += usize::from(len).next_multiple_of(4);
    }
    Some((cookie, peer))
}
