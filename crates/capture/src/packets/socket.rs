//! Socket options and names of interfaces, as thin safe functions.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// A new socket.
pub fn open(family: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    // SAFETY: plain values.
    let fd = unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made, and owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets an option. `T` is the C structure that the option takes.
pub fn set<T>(socket: &OwnedFd, level: i32, option: i32, value: &T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointer is to a live `T` of the length given.
    let r = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, std::ptr::from_ref(value).cast(), length) };
    if r == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads an option of plain numbers; what the kernel does not fill is zero.
pub fn get<T: Copy>(socket: &OwnedFd, level: i32, option: i32) -> io::Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointer is to a place of the length given.
    let r = unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, value.as_mut_ptr().cast(), &mut length) };
    if r != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: zeroed, and callers read integers and structures of integers only.
    Ok(unsafe { value.assume_init() })
}

/// The socket's pending error, which this takes away.
pub fn take_error(socket: &OwnedFd) -> Option<io::Error> {
    match get::<i32>(socket, libc::SOL_SOCKET, libc::SO_ERROR) {
        Ok(0) => None,
        Ok(e) => Some(io::Error::from_raw_os_error(e)),
        Err(e) => Some(e),
    }
}

/// Waits until one of the descriptors has something, no longer than `timeout`. A signal ends it early.
pub fn wait(fds: &mut [libc::pollfd], timeout: Duration) -> io::Result<()> {
    let timeout = libc::timespec {
        tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    };
    // SAFETY: the slice is live and its length goes with it; no signal mask is given.
    let r = unsafe { libc::ppoll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, &timeout, std::ptr::null()) };
    if r >= 0 {
        return Ok(());
    }
    let e = io::Error::last_os_error();
    if e.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(e) }
}

/// Binds to an address of this host; port 0 = none.
pub fn bind(socket: &OwnedFd, address: SocketAddr) -> io::Result<()> {
    // SAFETY: zero is a valid value of every field.
    let mut a: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
    a.sin6_port = address.port().to_be();
    let length = match address.ip() {
        IpAddr::V6(ip) => {
            a.sin6_family = libc::AF_INET6 as u16;
            a.sin6_addr.s6_addr = ip.octets();
            size_of::<libc::sockaddr_in6>()
        }
        IpAddr::V4(ip) => {
            // sockaddr_in has its address where the other has its flow label
            a.sin6_family = libc::AF_INET as u16;
            a.sin6_flowinfo = u32::from_ne_bytes(ip.octets());
            size_of::<libc::sockaddr_in>()
        }
    };
    // SAFETY: the address is live and at least as long as given.
    let r = unsafe { libc::bind(socket.as_raw_fd(), std::ptr::from_ref(&a).cast(), length as libc::socklen_t) };
    if r == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn request() -> libc::ifreq {
    // SAFETY: zero is a valid value of every field.
    unsafe { std::mem::zeroed() }
}

fn ask(socket: &OwnedFd, what: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: the questions asked here read and write one ifreq.
    let r = unsafe { libc::ioctl(socket.as_raw_fd(), what as _, std::ptr::from_mut(request)) };
    if r == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn named(name: &str) -> io::Result<libc::ifreq> {
    let mut r = request();
    if name.is_empty() || name.len() >= r.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in r.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(r)
}

/// The index of an interface in the socket's network namespace.
pub fn index_of(socket: &OwnedFd, name: &str) -> io::Result<i32> {
    let mut r = named(name)?;
    ask(socket, libc::SIOCGIFINDEX as _, &mut r)?;
    // SAFETY: the kernel has filled this member.
    Ok(unsafe { r.ifr_ifru.ifru_ifindex })
}

/// The name of an interface in the socket's network namespace.
pub fn name_of(socket: &OwnedFd, index: i32) -> io::Result<String> {
    let mut r = request();
    r.ifr_ifru.ifru_ifindex = index;
    ask(socket, libc::SIOCGIFNAME as _, &mut r)?;
    Ok(r.ifr_name.iter().take_while(|c| **c != 0).map(|c| *c as u8 as char).collect())
}

/// Whether an interface is up.
pub fn is_up(socket: &OwnedFd, name: &str) -> io::Result<bool> {
    let mut r = named(name)?;
    ask(socket, libc::SIOCGIFFLAGS as _, &mut r)?;
    // SAFETY: the kernel has filled this member.
    Ok(unsafe { r.ifr_ifru.ifru_flags } as i32 & libc::IFF_UP != 0)
}
