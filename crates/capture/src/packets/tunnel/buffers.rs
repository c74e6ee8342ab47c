//! Where the packets of one system call come to, and the headers that are put before them again.

use super::headers::{self, inside};
use super::{End, GENEVE_PORT, GRE, Listen, VXLAN_PORT};
use crate::packets::clock::StampClock;
use crate::packets::filter::Filter;
use crate::realtime_ns;
use std::io;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, OwnedFd};
use wakepath_wire::packet::{Packet, link};

/// Packets taken with one system call.
pub const BATCH: usize = 32;
/// Longest IP packet.
const PACKET_BYTES: usize = 65_536;
/// Room before it: an IPv6 and a UDP header.
const ROOM_BYTES: usize = 48;
const STRIDE: usize = ROOM_BYTES + PACKET_BYTES;

/// Room for a time stamp and the destination, aligned as their headers are.
#[repr(align(8))]
#[derive(Clone, Copy)]
struct Control([u8; 128]);

/// Buffers of one `recvmmsg`.
pub struct Buffers {
    bytes: Vec<u8>,
    control: Vec<Control>,
    from: Vec<libc::sockaddr_in6>,
    /// What the kernel filled in last; its pointers are set anew before each call.
    messages: Vec<libc::mmsghdr>,
}

// SAFETY: the pointers in `messages` are only used within `receive`, which sets them.
unsafe impl Send for Buffers {}

impl Buffers {
    pub fn new() -> Buffers {
        // SAFETY: zero is a valid value of every field of both.
        let (from, message) = unsafe { (zeroed::<libc::sockaddr_in6>(), zeroed::<libc::mmsghdr>()) };
        Buffers {
            bytes: vec![0; BATCH * STRIDE],
            control: vec![Control([0; 128]); BATCH],
            from: vec![from; BATCH],
            messages: vec![message; BATCH],
        }
    }

    /// Takes what is there, without waiting; how many.
    pub fn receive(&mut self, socket: &OwnedFd) -> io::Result<usize> {
        // SAFETY: zero is a valid value of every field.
        let mut parts: [libc::iovec; BATCH] = unsafe { zeroed() };
        for (i, (part, message)) in parts.iter_mut().zip(&mut self.messages).enumerate() {
            let at = i * STRIDE + ROOM_BYTES;
            part.iov_base = self.bytes[at..at + PACKET_BYTES].as_mut_ptr().cast();
            part.iov_len = PACKET_BYTES;
            let header = &mut message.msg_hdr;
            header.msg_name = (&raw mut self.from[i]).cast();
            header.msg_namelen = size_of::<libc::sockaddr_in6>() as u32;
            header.msg_iov = part;
            header.msg_iovlen = 1;
            header.msg_control = (&raw mut self.control[i]).cast();
            header.msg_controllen = size_of::<Control>() as _;
        }
        // SAFETY: every pointer was just set to a live place of the length beside it.
        let n = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.messages.as_mut_ptr(),
                BATCH as u32,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        if n >= 0 {
            return Ok(n as usize);
        }
        let e = io::Error::last_os_error();
        match e.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(0),
            _ => Err(e),
        }
    }

    /// Hands the i-th packet over, if it is wanted; whether it was.
    pub fn hand_over(
        &mut self,
        i: usize,
        end: &End,
        clock: &StampClock,
        filter: Option<&mut Filter>,
        sink: &mut impl FnMut(&Packet<'_>),
    ) -> bool {
        let (stamp, to) = self.told(i);
        let from = self.from(i, end.is_v6);
        let payload_bytes = self.messages[i].msg_len as usize;
        let at = i * STRIDE + ROOM_BYTES;
        let (room, payload) = self.bytes[at - ROOM_BYTES..at + payload_bytes].split_at_mut(ROOM_BYTES);
        let to = to.unwrap_or(match end.is_v6 {
            true => Ipv6Addr::UNSPECIFIED.into(),
            false => Ipv4Addr::UNSPECIFIED.into(),
        });
        let header_bytes = match end.kind {
            // a raw socket of IPv4 gives the packet with its header
            Listen::Gre if !end.is_v6 => 0,
            Listen::Gre => headers::put_ip(room, payload.len(), GRE as u8, from.0, to),
            Listen::Vxlan(_) => headers::put_udp(room, payload.len(), from, (to, VXLAN_PORT)),
            Listen::Geneve(_) => headers::put_udp(room, payload.len(), from, (to, GENEVE_PORT)),
        };
        let bytes = &self.bytes[at - header_bytes..at + payload_bytes];
        let packet = Packet {
            at_ns: clock.monotonic(stamp.unwrap_or_else(realtime_ns)),
            link: link::RAW,
            interface: end.number,
            length: bytes.len() as u32,
            bytes,
        };
        if let Some(filter) = filter
            && !inside(&packet).is_some_and(|inner| filter.matches(&inner))
        {
            return false;
        }
        sink(&packet);
        true
    }

    fn from(&self, i: usize, is_v6: bool) -> (IpAddr, u16) {
        let a = &self.from[i];
        let port = u16::from_be(a.sin6_port);
        if is_v6 {
            return (Ipv6Addr::from(a.sin6_addr.s6_addr).into(), port);
        }
        // both structures have the port at the same place, and this one the address after it
        (Ipv4Addr::from(a.sin6_flowinfo.to_ne_bytes()).into(), port)
    }

    /// Wall-clock time and destination, from the control messages.
    fn told(&self, i: usize) -> (Option<u64>, Option<IpAddr>) {
        let control = &self.control[i].0;
        let used = self.messages[i].msg_hdr.msg_controllen.min(control.len());
        let (mut stamp, mut to) = (None, None);
        let header_bytes = size_of::<libc::cmsghdr>();
        let mut at = 0;
        while at + header_bytes <= used {
            // SAFETY: it lies within the buffer, and any bytes are a valid header.
            let header = unsafe { control[at..].as_ptr().cast::<libc::cmsghdr>().read_unaligned() };
            let end = at.saturating_add(header.cmsg_len);
            if end < at + header_bytes || end > used {
                break;
            }
            let data = &control[at + header_bytes..end];
            match (header.cmsg_level, header.cmsg_type) {
                (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS) => {
                    stamp = read::<libc::timespec>(data).map(|t| t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64);
                }
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    to = read::<libc::in_pktinfo>(data).map(|p| Ipv4Addr::from(p.ipi_addr.s_addr.to_ne_bytes()).into());
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    to = read::<libc::in6_pktinfo>(data).map(|p| Ipv6Addr::from(p.ipi6_addr.s6_addr).into());
                }
                _ => {}
            }
            at = end.next_multiple_of(size_of::<usize>());
        }
        (stamp, to)
    }
}

/// A structure of integers at the start of `data`.
fn read<T: Copy>(data: &[u8]) -> Option<T> {
    // SAFETY: `data` is long enough, and callers name structures for which any bytes are valid.
    (data.len() >= size_of::<T>()).then(|| unsafe { data.as_ptr().cast::<T>().read_unaligned() })
}
