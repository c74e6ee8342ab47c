//! The end of a tunnel of mirrored packets: VXLAN and Geneve come to UDP ports, GRE and ERSPAN to a raw socket.
//!
//! The sockets are bound, so the kernel takes the packets as wanted and answers none with an ICMP error. It puts outer fragments
//! together and takes the outer headers of UDP off; those are put before the packet again, as `Packet`s begin with IP.

mod buffers;
mod headers;

use super::clock::StampClock;
use super::filter::Filter;
use super::socket;
use crate::CaptureError;
use buffers::{BATCH, Buffers};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;
use wakepath_wire::packet::Packet;

/// UDP port of VXLAN (RFC 7348, section 8).
const VXLAN_PORT: u16 = 4789;
/// UDP port of Geneve (RFC 8926, section 3.3).
const GENEVE_PORT: u16 = 6081;

/// What is listened to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    /// VXLAN that comes to this UDP port.
    Vxlan(u16),
    /// Geneve that comes to this UDP port.
    Geneve(u16),
    /// GRE, and ERSPAN in it.
    Gre,
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Vxlan(VXLAN_PORT) => f.write_str("vxlan"),
            Listen::Vxlan(port) => write!(f, "vxlan:{port}"),
            Listen::Geneve(GENEVE_PORT) => f.write_str("geneve"),
            Listen::Geneve(port) => write!(f, "geneve:{port}"),
            Listen::Gre => f.write_str("gre"),
        }
    }
}

impl Listen {
    /// What `--listen` means by `vxlan[:PORT]`, `geneve[:PORT]`, `gre`, or `any` for all of them.
    pub fn parse(text: &str) -> Result<Vec<Listen>, String> {
        let (kind, port) = match text.split_once(':') {
            Some((kind, port)) => match port.parse::<u16>() {
                Ok(port) if port > 0 => (kind, Some(port)),
                _ => return Err(format!("{text}: {port} is no UDP port")),
            },
            None => (text, None),
        };
        Ok(match (kind, port) {
            ("vxlan", port) => vec![Listen::Vxlan(port.unwrap_or(VXLAN_PORT))],
            ("geneve", port) => vec![Listen::Geneve(port.unwrap_or(GENEVE_PORT))],
            ("gre", None) => vec![Listen::Gre],
            ("any" | "tunnel", None) => vec![Listen::Vxlan(VXLAN_PORT), Listen::Geneve(GENEVE_PORT), Listen::Gre],
            _ => return Err(format!("{text}: give vxlan, vxlan:PORT, geneve, geneve:PORT, gre or any")),
        })
    }
}

/// IP protocol number of GRE.
const GRE: i32 = 47;
/// System calls for one socket before the others have their turn.
const TURN: usize = 256;

/// What is received, and how.
pub struct TunnelOptions {
    /// Which tunnels.
    pub listen: Vec<Listen>,
    /// The address of this host to which they come; none = any.
    pub address: Option<IpAddr>,
    /// Memory of each socket's queue.
    pub buffer_bytes: usize,
    /// Which packets, by what is inside the tunnel; none = all.
    pub filter: Option<Filter>,
}

/// One socket, at which tunnels of one kind end.
struct End {
    kind: Listen,
    is_v6: bool,
    socket: OwnedFd,
    /// What packets carry as their interface.
    number: u32,
    /// What the kernel had dropped when it was last asked.
    drops_before: u32,
}

/// Receives the packets of tunnels that end here.
pub struct TunnelSource {
    ends: Vec<End>,
    names: Vec<String>,
    clock: StampClock,
    filter: Option<Filter>,
    buffers: Buffers,
}

impl TunnelSource {
    /// Begins to receive. GRE needs CAP_NET_RAW.
    ///
    /// Errors: no right, a port that another has (the host's own VXLAN device, say); the message says what to do.
    pub fn open(options: TunnelOptions) -> Result<TunnelSource, CaptureError> {
        let TunnelOptions { listen, address, buffer_bytes, filter } = options;
        if listen.is_empty() {
            return Err(CaptureError::Setting("name a tunnel to listen to: vxlan, geneve, gre or any".into()));
        }
        let (mut ends, mut names) = (Vec::new(), Vec::new());
        for (number, kind) in listen.into_iter().enumerate() {
            if let Some(address) = address {
                ends.push(End::open(kind, number as u32, address, buffer_bytes).map_err(|e| refused(kind, e))?);
            } else {
                let mut open =
                    |address| End::open(kind, number as u32, address, buffer_bytes).map(|end| ends.push(end));
                open(Ipv4Addr::UNSPECIFIED.into()).map_err(|e| refused(kind, e))?;
                match open(Ipv6Addr::UNSPECIFIED.into()).map_err(|e| (e.raw_os_error(), e)) {
                    // a host without IPv6 has no tunnels over it
                    Ok(()) | Err((Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL), _)) => {}
                    Err((_, e)) => return Err(refused(kind, e)),
                }
            }
            names.push(kind.to_string());
        }
        Ok(TunnelSource { ends, names, clock: StampClock::new(), filter, buffers: Buffers::new() })
    }

    /// Hands over what has come, waiting for it no longer than `timeout`; the number of packets handed over.
    ///
    /// They begin with the outer IP header (link type `RAW`). A port other than the usual one is told as the usual one, so
    /// that who takes the tunnel off knows it.
    pub fn poll(&mut self, timeout: Duration, sink: &mut impl FnMut(&Packet<'_>)) -> Result<usize, CaptureError> {
        let mut fds: Vec<libc::pollfd> = self
            .ends
            .iter()
            .map(|e| libc::pollfd { fd: e.socket.as_raw_fd(), events: libc::POLLIN, revents: 0 })
            .collect();
        socket::wait(&mut fds, timeout).map_err(|e| CaptureError::Packets(format!("waiting for packets: {e}")))?;
        self.clock.look();
        let mut count = 0;
        for (end, _) in self.ends.iter().zip(&fds).filter(|(_, fd)| fd.revents != 0) {
            for _ in 0..TURN {
                let got = self.buffers.receive(&end.socket);
                let got = got.map_err(|e| CaptureError::Packets(format!("receiving {}: {e}", end.kind)))?;
                for i in 0..got {
                    count += usize::from(self.buffers.hand_over(i, end, &self.clock, self.filter.as_mut(), sink));
                }
                if got < BATCH {
                    break;
                }
            }
        }
        Ok(count)
    }

    /// Packets that the kernel dropped since the last call, because a queue was full. Needs Linux 4.12; 0 before.
    pub fn drops(&mut self) -> u64 {
        let mut drops = 0;
        for end in &mut self.ends {
            let now = end.drops();
            drops += u64::from(now.wrapping_sub(end.drops_before));
            end.drops_before = now;
        }
        drops
    }

    /// What is listened to, by the number that packets carry as their interface.
    pub fn interfaces(&self) -> &[String] {
        &self.names
    }
}

impl End {
    fn open(kind: Listen, number: u32, address: IpAddr, buffer_bytes: usize) -> io::Result<End> {
        let is_v6 = address.is_ipv6();
        let family = if is_v6 { libc::AF_INET6 } else { libc::AF_INET };
        let (socket, port) = match kind {
            Listen::Vxlan(port) | Listen::Geneve(port) => (socket::open(family, libc::SOCK_DGRAM, 0)?, port),
            Listen::Gre => (socket::open(family, libc::SOCK_RAW, GRE)?, 0),
        };
        if is_v6 {
            if kind != Listen::Gre {
                socket::set(&socket, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, &1i32)?;
            }
            socket::set(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, &1i32)?;
        } else {
            socket::set(&socket, libc::IPPROTO_IP, libc::IP_PKTINFO, &1i32)?;
        }
        socket::set(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1i32)?;
        let bytes = i32::try_from(buffer_bytes).unwrap_or(i32::MAX);
        // beyond the host's limit only with CAP_NET_ADMIN; without it as much as the limit gives
        if socket::set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &bytes).is_err() {
            socket::set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, &bytes)?;
        }
        socket::bind(&socket, SocketAddr::new(address, port))?;
        let mut end = End { kind, is_v6, socket, number, drops_before: 0 };
        end.drops_before = end.drops();
        Ok(end)
    }

    fn drops(&self) -> u32 {
        let counts: [u32; 9] = socket::get(&self.socket, libc::SOL_SOCKET, libc::SO_MEMINFO).unwrap_or_default();
        counts[libc::SK_MEMINFO_DROPS as usize]
    }
}

fn refused(kind: Listen, e: io::Error) -> CaptureError {
    let remedy = match e.raw_os_error() {
        Some(libc::EADDRINUSE) => {
            "Another program, or a tunnel device of this host, has the port: capture on that device instead (--iface; \
             `ip -d link` names it), or send the mirror to another port"
        }
        Some(libc::EPERM | libc::EACCES) => {
            "Run as root, or give the binary the right, once: sudo setcap cap_net_raw,cap_net_admin+ep $(which wakepath)"
        }
        Some(libc::EADDRNOTAVAIL) => "No interface of this host has that address; `ip address` names those that it has",
        _ => "`wakepath doctor` tells what this host allows",
    };
    CaptureError::Packets(format!("listening for {kind}: {e}. {remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_listened_to() {
        assert_eq!(Listen::parse("vxlan"), Ok(vec![Listen::Vxlan(4789)]));
        assert_eq!(Listen::parse("vxlan:8472"), Ok(vec![Listen::Vxlan(8472)]));
        assert_eq!(Listen::parse("geneve:1"), Ok(vec![Listen::Geneve(1)]));
        assert_eq!(Listen::parse("gre"), Ok(vec![Listen::Gre]));
        assert_eq!(Listen::parse("any").map(|l| l.len()), Ok(3));
        for wrong in ["", "vxlan:", "vxlan:0", "vxlan:70000", "gre:1", "any:1", "ipip"] {
            assert!(Listen::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(Listen::Vxlan(8472).to_string(), "vxlan:8472");
    }
}
