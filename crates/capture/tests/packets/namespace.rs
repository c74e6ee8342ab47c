//! A network namespace of the calling thread, pairs of interfaces in it, and frames to send.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Command, Stdio};

/// Destination and source of every frame of ours.
pub const ADDRESSES: [u8; 12] = [2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8];

/// A namespace that only this thread and what it starts are in; it goes with the thread.
pub struct Namespace;

impl Namespace {
    /// Moves the calling thread into a new namespace; none, and says so, where that is refused.
    pub fn new() -> Option<Namespace> {
        // SAFETY: moves this thread alone.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            println!("skipped: a network namespace needs root: {}", std::io::Error::last_os_error());
            return None;
        }
        if !ip(&["link", "set", "lo", "up"]) {
            println!("skipped: `ip` is missing (apt-get install iproute2)");
            return None;
        }
        Some(Namespace)
    }

    /// The same, with the two ends v0 and v1 of a virtual cable in it.
    pub fn with_pair() -> Option<Namespace> {
        let ns = Namespace::new()?;
        // so that nobody sends of its own accord
        let _ = std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
        private(&["link", "add", "v0", "type", "veth", "peer", "name", "v1"]);
        private(&["link", "set", "v0", "up"]);
        private(&["link", "set", "v1", "up"]);
        Some(ns)
    }
}

/// Runs `ip`; whether it succeeded.
pub fn ip(args: &[&str]) -> bool {
    Command::new("ip").args(args).stdin(Stdio::null()).status().is_ok_and(|s| s.success())
}

/// Runs `ip`, which must succeed.
pub fn private(args: &[&str]) {
    assert!(ip(args), "ip {}", args.join(" "));
}

/// Takes this thread's capabilities away.
pub fn give_up_rights() {
    let header = [0x2008_0522u32, 0];
    // SAFETY: capset(2)'s layouts: version 3, this thread, two times three sets.
    assert_eq!(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), [0u32; 6].as_ptr()) }, 0);
}

/// Sends frames as they are.
pub struct Sender(OwnedFd);

impl Sender {
    pub fn on(interface: &str) -> Sender {
        let name = std::ffi::CString::new(interface).expect("a name");
        // SAFETY: plain values; the descriptor is new; the address is live and of the length given.
        unsafe {
            let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
            assert!(fd >= 0, "{}", std::io::Error::last_os_error());
            let socket = OwnedFd::from_raw_fd(fd);
            let mut a: libc::sockaddr_ll = std::mem::zeroed();
            a.sll_family = libc::AF_PACKET as u16;
            a.sll_ifindex = libc::if_nametoindex(name.as_ptr()) as i32;
            assert!(a.sll_ifindex > 0, "{interface}");
            let length = size_of::<libc::sockaddr_ll>() as u32;
            assert_eq!(libc::bind(fd, std::ptr::from_ref(&a).cast(), length), 0);
            Sender(socket)
        }
    }

    pub fn send(&self, frame: &[u8]) {
        // SAFETY: the slice is live.
        let n = unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        assert_eq!(n, frame.len() as isize, "{}", std::io::Error::last_os_error());
    }
}

/// A frame of IPv4 of that protocol and those ports; `length` without its tags.
pub fn frame(tags: Option<&[(u16, u16)]>, protocol: u8, from: u16, to: u16, length: usize) -> Vec<u8> {
    let mut f = ADDRESSES.to_vec();
    for (kind, tag) in tags.into_iter().flatten() {
        f.extend(kind.to_be_bytes());
        f.extend(tag.to_be_bytes());
    }
    f.extend([8, 0, 0x45, 0]);
    f.extend(((length - 14) as u16).to_be_bytes());
    f.extend([0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 8, 10, 0, 0, 9]);
    f.extend(from.to_be_bytes());
    f.extend(to.to_be_bytes());
    let tags_bytes = tags.map_or(0, |t| t.len() * 4);
    f.resize(length + tags_bytes, 0);
    f
}

/// The ports of a frame without tags.
pub fn ports(frame: &[u8]) -> (u16, u16) {
    let port = |at| u16::from_be_bytes([frame[at], frame[at + 1]]);
    (port(34), port(36))
}
