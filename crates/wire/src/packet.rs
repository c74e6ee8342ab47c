//! Packets as sources of the network vantage hand them over: live rings, capture files, tunnels.

/// What the bytes of a [`Packet`] begin with: numbers of the pcap format (`LINKTYPE_…`, <https://www.tcpdump.org/linktypes.html>).
pub mod link {
    /// BSD loopback: four bytes of address family in the capturing host's byte order.
    pub const NULL: u32 = 0;
    /// Ethernet.
    pub const ETHERNET: u32 = 1;
    /// IPv4 or IPv6, by the version in the first byte.
    pub const RAW: u32 = 101;
    /// BSD loopback of OpenBSD: address family in network byte order.
    pub const LOOP: u32 = 108;
    /// Linux "cooked" capture.
    pub const LINUX_SLL: u32 = 113;
    /// IPv4.
    pub const IPV4: u32 = 228;
    /// IPv6.
    pub const IPV6: u32 = 229;
    /// Linux "cooked" capture, version 2.
    pub const LINUX_SLL2: u32 = 276;
}

/// One captured packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// When it passed, ns of the capturing host's monotonic clock. A capture file has wall-clock time alone: there, ns since
    /// 1970 stand for it.
    pub at_ns: u64,
    /// What the bytes begin with: one of [`link`], or a number that nobody here knows.
    pub link: u32,
    /// Which interface, in the order in which the source named them.
    pub interface: u32,
    /// Bytes on the wire; more than `bytes` where the capture cut it.
    pub length: u32,
    /// What was captured.
    pub bytes: &'a [u8],
}
