//! From a packet to what its innermost IP packet carries: link headers, VLANs, MPLS, tunnels, fragments.
//!
//! Nothing is allocated but for fragments, and nothing here panics on foreign bytes. What is no IP is counted as such;
//! what breaks a format's rules is counted as a defect.

#[cfg(test)]
mod captures;
mod ether;
mod ip;
mod ppp;
#[cfg(test)]
mod tests;
mod tunnels;
mod wireless;

pub(super) use ip::Piece;

use super::fragments::{Added, Datagram, Fragments};
use wakepath_model::defects::id;
use wakepath_model::ids::MonoNs;
use wakepath_protocols::mask;
use wakepath_wire::packet::{Packet, link};

/// Headers one inside the other in one packet, some 16 tunnels; what lies deeper is not looked at.
const HEADERS_MAX: u32 = 72;

/// Address family of IPv4, as in rows.
pub(crate) const FAMILY_IP4: u16 = 2;
/// Address family of IPv6, as in rows.
pub(crate) const FAMILY_IP6: u16 = 10;

/// Whether an address is a group's (RFC 5771, RFC 4291 §2.7), or that of all that are near (RFC 919).
pub(crate) fn is_to_all(family: u16, address: &[u8; 16]) -> bool {
    match family {
        FAMILY_IP4 => address[0] & 0xf0 == 0xe0 || address[..4] == [0xff; 4],
        FAMILY_IP6 => address[0] == 0xff,
        _ => false,
    }
}

/// What the innermost IP packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inner<'a> {
    /// When it passed.
    pub at: MonoNs,
    /// Hash of the VLANs and tunnels around it, 0 = none. The same number in every run and version.
    pub tunnel: u64,
    /// [`FAMILY_IP4`] or [`FAMILY_IP6`].
    pub family: u16,
    /// From whom (IPv4 in the first four bytes).
    pub src: [u8; 16],
    /// To whom.
    pub dst: [u8; 16],
    /// IP protocol of `payload`, after IPv6's extension headers.
    pub ip_protocol: u8,
    /// Identification of an IPv4 packet, `u32::MAX` in IPv6.
    pub ip_id: u32,
    /// The IP packet's bytes on the wire, its header included; of a reassembled datagram, those of all fragments.
    pub wire_bytes: u32,
    /// What was captured, from the transport header on; may be shorter than that header.
    pub payload: &'a [u8],
    /// Bytes on the wire, from the transport header on. Of a datagram whose fragments did not all come: those that came.
    pub payload_length: u32,
    /// Why nobody looks into it, empty where somebody may.
    pub reason: &'static str,
    /// The frame around it was sent to all that are near.
    pub to_all: bool,
}

impl Inner<'static> {
    /// What stands for a packet without IP, so that it is counted with its like: an address family of 0, the kind's number as
    /// the server's port. `number`: the packet's own.
    pub fn without_ip(unread: Unread, at: MonoNs, wire_bytes: u32, number: u32) -> Inner<'static> {
        let mut dst = [0; 16];
        dst[..8].copy_from_slice(&mask::fnv1a(unread.what.as_bytes()).to_le_bytes());
        Inner {
            at,
            tunnel: 0,
            family: 0,
            src: [0; 16],
            dst,
            ip_protocol: 0,
            ip_id: number.clamp(1, u32::MAX - 1),
            wire_bytes,
            payload: &[],
            payload_length: wire_bytes,
            reason: unread.what,
            to_all: false,
        }
    }
}

/// What was met besides packets.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Packets that carry no IP: ARP, LLDP, spanning tree…
    pub not_ip: u64,
    /// IP fragments.
    pub fragments: u64,
    /// Defects since the last [`Counts::take`].
    defects: Vec<(&'static str, MonoNs)>,
    /// What was not looked into since the last [`Counts::take_unread`]: when, and bytes on the wire.
    unread: Vec<(Unread, MonoNs, u32)>,
}

impl Counts {
    /// Hands over the defects met since the last call.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = (&'static str, MonoNs)> + '_ {
        self.defects.drain(..)
    }

    /// Hands over what was not looked into since the last call: what it is, when it passed, and its bytes on the wire.
    pub(crate) fn take_unread(&mut self) -> impl Iterator<Item = (Unread, MonoNs, u32)> + '_ {
        self.unread.drain(..)
    }

    pub(super) fn defect(&mut self, id: &'static str, at: MonoNs) {
        self.defects.push((id, at));
    }
}

/// Strips what is around IP packets, and puts fragments together.
pub(crate) struct Link {
    fragments: Fragments,
}

/// What a packet carries that is not looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unread {
    /// What it is, as people call it.
    pub what: &'static str,
    /// Its number among those of its kind: an EtherType, a protocol of PPP, a service access point of LLC; 0 = it has none.
    pub number: u16,
}

impl Unread {
    /// The stop that it is.
    fn stop<T>(what: &'static str, number: u16) -> Result<T, Stop> {
        Err(Stop::NotIp(Unread { what, number }))
    }
}

/// Why a packet gave nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It carries no IP, or none that can be read.
    NotIp(Unread),
    /// It is a fragment that does not fit to others.
    Fragments,
    /// A header was not captured whole.
    Cut,
    /// A header breaks its format's rules.
    Malformed,
    /// More headers than [`HEADERS_MAX`].
    TooDeep,
    /// Nobody here knows what the packet begins with.
    UnknownLink,
}

/// What the rest of a packet begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layer {
    Ethernet,
    /// By its EtherType.
    Type(u16),
    Ip,
    /// By the protocol number in the IP header last seen.
    Transport,
    /// Here is what is asked for.
    Found,
}

/// An IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ip {
    pub family: u16,
    pub src: [u8; 16],
    pub dst: [u8; 16],
    pub protocol: u8,
    pub id: u32,
    pub wire_bytes: u32,
}

/// Bytes of a packet that are still to be looked at, and what was around them.
#[derive(Clone, Copy)]
pub(super) struct Walk<'a> {
    pub bytes: &'a [u8],
    /// How many they were on the wire.
    pub wire: u32,
    pub at: MonoNs,
    pub tunnel: u64,
    pub ip: Ip,
    /// How many headers were left behind.
    pub headers: u32,
    /// Why nobody looks into what is left, empty where somebody may.
    pub reason: &'static str,
    /// The innermost frame was sent to all that are near.
    pub to_all: bool,
}

impl<'a> Walk<'a> {
    fn new(bytes: &'a [u8], wire: u32, at: MonoNs) -> Walk<'a> {
        let ip = Ip { family: 0, src: [0; 16], dst: [0; 16], protocol: 0, id: u32::MAX, wire_bytes: 0 };
        Walk { bytes, wire, at, tunnel: 0, ip, headers: 0, reason: "", to_all: false }
    }

    /// The next `N` bytes, which stay.
    fn head<const N: usize>(&self) -> Result<&'a [u8; N], Stop> {
        self.bytes.first_chunk::<N>().ok_or_else(|| self.short(N))
    }

    /// Leaves the next `count` bytes behind.
    fn skip(&mut self, count: usize) -> Result<(), Stop> {
        self.bytes = self.bytes.get(count..).ok_or_else(|| self.short(count))?;
        self.wire = self.wire.saturating_sub(count as u32);
        Ok(())
    }

    /// The next `N` bytes, which are left behind.
    fn next<const N: usize>(&mut self) -> Result<&'a [u8; N], Stop> {
        let head = self.head()?;
        self.skip(N)?;
        Ok(head)
    }

    /// What it means that there are no `wanted` bytes.
    fn short(&self, wanted: usize) -> Stop {
        if wanted as u64 <= u64::from(self.wire) { Stop::Cut } else { Stop::Malformed }
    }

    /// Goes into the VLAN or tunnel `number`.
    fn enter(&mut self, around: Around, number: u64) {
        self.tunnel = mixed(mixed(self.tunnel ^ around as u64) ^ number).max(1);
    }

    fn inner(&self) -> Inner<'a> {
        Inner {
            at: self.at,
            tunnel: self.tunnel,
            family: self.ip.family,
            src: self.ip.src,
            dst: self.ip.dst,
            ip_protocol: self.ip.protocol,
            ip_id: self.ip.id,
            wire_bytes: self.ip.wire_bytes,
            payload: self.bytes,
            payload_length: self.wire,
            reason: self.reason,
            to_all: self.to_all,
        }
    }
}

/// What can be around a flow and tells it from another of the same addresses. MPLS labels are not among them: the two
/// directions of a flow have different ones.
#[derive(Clone, Copy)]
enum Around {
    Vlan = 1,
    Pppoe,
    Vxlan,
    Geneve,
    GreKey,
    Erspan,
    Pbb,
    Nsh,
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood: Fast splittable pseudorandom number generators, 2014, fig. 15).
pub(super) fn mixed(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Link {
    /// Holds at most `held_bytes_max` bytes of fragments.
    pub(crate) fn new(held_bytes_max: usize) -> Link {
        Link { fragments: Fragments::new(held_bytes_max) }
    }

    /// Gives what the packet carries to `out`: nothing or one [`Inner`]; before it those of datagrams whose other fragments
    /// are not waited for any longer, with the time of their first fragment.
    pub(crate) fn take(&mut self, packet: &Packet<'_>, out: &mut impl FnMut(&Inner<'_>), counts: &mut Counts) {
        let at = MonoNs(packet.at_ns);
        self.idle(at, out, counts);
        let wire = packet.length.max(packet.bytes.len() as u32);
        let mut walk = Walk::new(packet.bytes, wire, at);
        let done = link_layer(packet.link, &mut walk).and_then(|layer| self.walk(walk, layer, out, counts));
        tell(done, at, wire, counts);
    }

    /// It is `now`: gives up datagrams whose fragments did not all come in time.
    pub(crate) fn idle(&mut self, now: MonoNs, out: &mut impl FnMut(&Inner<'_>), counts: &mut Counts) {
        while let Some(datagram) = self.fragments.overdue(now) {
            counts.defect(id::NET_FRAGMENT, datagram.as_ref().map_or(now, Datagram::at));
            if let Some(datagram) = datagram {
                let at = datagram.at();
                let wire = datagram.walk().ip.wire_bytes;
                let done = self.datagram(datagram, out, counts);
                tell(done, at, wire, counts);
            }
        }
    }

    /// The capture ended: gives up all datagrams that are not whole.
    pub(crate) fn finish(&mut self, out: &mut impl FnMut(&Inner<'_>), counts: &mut Counts) {
        self.idle(MonoNs(u64::MAX), out, counts);
    }

    /// Looks into a datagram that was put together.
    fn datagram(
        &mut self,
        datagram: Datagram,
        out: &mut impl FnMut(&Inner<'_>),
        counts: &mut Counts,
    ) -> Result<(), Stop> {
        let mut walk = datagram.walk();
        let done = ip::behind_fragments(&mut walk).and_then(|layer| self.walk(walk, layer, out, counts));
        self.fragments.reuse(datagram);
        done
    }

    fn walk(
        &mut self,
        mut walk: Walk<'_>,
        mut layer: Layer,
        out: &mut impl FnMut(&Inner<'_>),
        counts: &mut Counts,
    ) -> Result<(), Stop> {
        loop {
            walk.headers += 1;
            if walk.headers > HEADERS_MAX {
                return Err(Stop::TooDeep);
            }
            layer = match layer {
                Layer::Ethernet => {
                    let header: &[u8; 14] = walk.next()?;
                    walk.to_all = header.starts_with(&[0xff; 6]);
                    Layer::Type(u16::from_be_bytes([header[12], header[13]]))
                }
                Layer::Type(number) => ether::inside(number, &mut walk)?,
                Layer::Ip => match ip::header(&mut walk)? {
                    None => Layer::Transport,
                    Some(piece) => {
                        counts.fragments += 1;
                        return match self.fragments.add(&walk, piece) {
                            Added::Waits => Ok(()),
                            Added::Whole(datagram) => self.datagram(datagram, out, counts),
                            Added::Contradicts => Err(Stop::Fragments),
                        };
                    }
                },
                Layer::Transport => tunnels::inside(&mut walk)?,
                Layer::Found => {
                    out(&walk.inner());
                    return Ok(());
                }
            };
        }
    }
}

fn tell(done: Result<(), Stop>, at: MonoNs, wire: u32, counts: &mut Counts) {
    match done {
        Ok(()) => {}
        Err(Stop::Fragments) => counts.defect(id::NET_FRAGMENT, at),
        Err(Stop::NotIp(unread)) => {
            counts.not_ip += 1;
            counts.unread.push((unread, at, wire));
        }
        Err(Stop::Cut) => counts.defect(id::NET_CUT, at),
        Err(Stop::Malformed) => counts.defect(id::NET_MALFORMED, at),
        Err(Stop::TooDeep) => counts.defect(id::NET_TOO_DEEP, at),
        Err(Stop::UnknownLink) => counts.defect(id::NET_LINK, at),
    }
}

/// What a cooked capture calls a frame that was sent to all that are near (pcap-linktype(7), LINUX_SLL).
const SLL_BROADCAST: u8 = 1;

/// Strips the headers that only captures have.
fn link_layer(link: u32, walk: &mut Walk<'_>) -> Result<Layer, Stop> {
    match link {
        link::ETHERNET => Ok(Layer::Ethernet),
        link::RAW | link::IPV4 | link::IPV6 => Ok(Layer::Ip),
        link::NULL | link::LOOP => {
            let family: &[u8; 4] = walk.next()?;
            // Of the capturing system, in its byte order: 2 everywhere; IPv6 is 10 in Linux, 24, 28 and 30 in the BSDs.
            match u32::from_be_bytes(*family).min(u32::from_le_bytes(*family)) {
                2 | 10 | 24 | 28 | 30 => Ok(Layer::Ip),
                family => Unread::stop("an address family that is not IP", family as u16),
            }
        }
        link::LINUX_SLL => {
            let header: &[u8; 16] = walk.next()?;
            walk.to_all = header[..2] == [0, SLL_BROADCAST];
            Ok(Layer::Type(u16::from_be_bytes([header[14], header[15]])))
        }
        link::LINUX_SLL2 => {
            let header: &[u8; 20] = walk.next()?;
            walk.to_all = header[10] == SLL_BROADCAST;
            Ok(Layer::Type(u16::from_be_bytes([header[0], header[1]])))
        }
        _ => Err(Stop::UnknownLink),
    }
}
