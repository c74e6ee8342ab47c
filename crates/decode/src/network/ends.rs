//! Between whom packets pass, for who looks for those of one connection.

use super::link::{Counts, Inner, Link};
use wakepath_wire::packet::Packet;

/// Bytes of fragments that are held.
const HELD_BYTES_MAX: usize = 1 << 20;

/// Sender and receiver of a packet, as the endpoints of rows have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Address family, as in rows.
    pub family: u16,
    /// From whom (IPv4 in the first four bytes).
    pub src: [u8; 16],
    /// To whom.
    pub dst: [u8; 16],
    /// IP protocol: 6 or 17.
    pub protocol: u8,
    /// Ports, of the sender first.
    pub ports: (u16, u16),
}

impl Ends {
    fn of(inner: &Inner<'_>) -> Option<Ends> {
        let &[a, b, c, d] = inner.payload.first_chunk()?;
        let Inner { family, src, dst, ip_protocol: protocol, .. } = *inner;
        let ports = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        matches!(protocol, 6 | 17).then_some(Ends { family, src, dst, protocol, ports })
    }
}

/// Finds them, after VLANs and tunnels too. Of a datagram in fragments, the one that makes it whole has them.
pub struct EndsReader {
    link: Link,
    counts: Counts,
}

impl Default for EndsReader {
    fn default() -> EndsReader {
        EndsReader { link: Link::new(HELD_BYTES_MAX), counts: Counts::default() }
    }
}

impl EndsReader {
    /// Those of the next packet; `None` of what is neither TCP nor UDP, or was not captured so far.
    pub fn of(&mut self, packet: &Packet<'_>) -> Option<Ends> {
        let mut ends = None;
        self.link.take(packet, &mut |inner| ends = Ends::of(inner).or(ends), &mut self.counts);
        // what is wrong with a capture is told where it is read for requests
        self.counts.take().for_each(drop);
        self.counts.take_unread().for_each(drop);
        ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakepath_wire::packet::link;

    #[test]
    fn ports_and_addresses_are_found_behind_a_vlan() {
        let mut bytes = vec![0; 12];
        bytes.extend([0x81, 0, 0, 7, 8, 0]);
        bytes.extend([0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        bytes.extend([0x30, 0x39, 0, 53, 0, 8, 0, 0]);
        let packet = Packet { at_ns: 1, link: link::ETHERNET, interface: 0, length: 46, bytes: &bytes };
        let mut reader = EndsReader::default();
        let ends = reader.of(&packet).expect("a datagram");
        assert_eq!((ends.family, ends.protocol, ends.ports), (2, 17, (12345, 53)));
        assert_eq!((&ends.src[..4], &ends.dst[..4]), (&[10, 0, 0, 1][..], &[10, 0, 0, 2][..]));
        assert_eq!(reader.of(&Packet { bytes: &bytes[..36], ..packet }), None, "cut before its ports");
    }
}
