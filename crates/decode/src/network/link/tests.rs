//! Packets built by hand, one a kind of header.

mod kinds;

use super::*;
use proptest::prelude::*;

/// An [`Inner`] that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Got {
    pub at: u64,
    pub tunnel: u64,
    pub src: Vec<u8>,
    pub dst: Vec<u8>,
    pub ip_protocol: u8,
    pub ip_id: u32,
    pub wire_bytes: u32,
    pub payload: Vec<u8>,
    pub payload_length: u32,
}

impl Got {
    pub(super) fn of(inner: &Inner<'_>) -> Got {
        assert!(
            inner.payload.len() as u64 <= u64::from(inner.payload_length),
            "captured more than was sent: {inner:?}"
        );
        let address = if inner.family == FAMILY_IP4 { 4 } else { 16 };
        Got {
            at: inner.at.0,
            tunnel: inner.tunnel,
            src: inner.src[..address].to_vec(),
            dst: inner.dst[..address].to_vec(),
            ip_protocol: inner.ip_protocol,
            ip_id: inner.ip_id,
            wire_bytes: inner.wire_bytes,
            payload: inner.payload.to_vec(),
            payload_length: inner.payload_length,
        }
    }
}

/// What comes of packets: what they carry, how many carry no IP, and defects.
#[derive(Default, Debug)]
struct Seen {
    got: Vec<Got>,
    not_ip: u64,
    fragments: u64,
    defects: Vec<&'static str>,
}

fn packet(link: u32, bytes: &[u8]) -> Packet<'_> {
    Packet { at_ns: 1, link, interface: 0, length: bytes.len() as u32, bytes }
}

fn see(packets: &[Packet<'_>]) -> Seen {
    let (mut link, mut counts, mut seen) = (Link::new(1 << 20), Counts::default(), Seen::default());
    for packet in packets {
        link.take(packet, &mut |inner| seen.got.push(Got::of(inner)), &mut counts);
    }
    link.finish(&mut |inner| seen.got.push(Got::of(inner)), &mut counts);
    seen.defects = counts.take().map(|(id, _)| id).collect();
    seen.not_ip = counts.not_ip;
    seen.fragments = counts.fragments;
    seen
}

/// The one thing that an Ethernet frame carries.
fn one(frame: &[u8]) -> Got {
    let mut seen = see(&[packet(link::ETHERNET, frame)]);
    assert_eq!((seen.got.len(), seen.not_ip, &seen.defects[..]), (1, 0, &[][..]), "{frame:02x?}");
    seen.got.remove(0)
}

fn ethernet(kind: u16, payload: &[u8]) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2], &kind.to_be_bytes()[..], payload].concat()
}

fn vlan(id: u16, kind: u16, payload: &[u8]) -> Vec<u8> {
    [&id.to_be_bytes()[..], &kind.to_be_bytes(), payload].concat()
}

fn ip4_part(protocol: u8, id: u16, flags: u16, payload: &[u8]) -> Vec<u8> {
    let mut header = vec![0x45, 0];
    header.extend((20 + payload.len() as u16).to_be_bytes());
    header.extend(id.to_be_bytes());
    header.extend(flags.to_be_bytes());
    header.extend([64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    header.extend(payload);
    header
}

fn ip4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    ip4_part(protocol, 7, 0x4000, payload)
}

fn ip6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut header = vec![0x60, 0, 0, 0];
    header.extend((payload.len() as u16).to_be_bytes());
    header.extend([next, 64]);
    header.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    header.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    header.extend(payload);
    header
}

fn udp(to: u16, payload: &[u8]) -> Vec<u8> {
    let length = 8 + payload.len() as u16;
    [&40_000_u16.to_be_bytes()[..], &to.to_be_bytes(), &length.to_be_bytes(), &[0, 0], payload].concat()
}

fn vxlan(port: u16, number: u32, frame: &[u8]) -> Vec<u8> {
    udp(port, &[&[8, 0, 0, 0], &(number << 8).to_be_bytes()[..], frame].concat())
}

fn geneve(number: u32, options: &[u8], kind: u16, payload: &[u8]) -> Vec<u8> {
    let head = [(options.len() / 4) as u8, 0];
    udp(6081, &[&head[..], &kind.to_be_bytes(), &(number << 8).to_be_bytes(), options, payload].concat())
}

fn gre(flags: u8, kind: u16, options: &[u8], payload: &[u8]) -> Vec<u8> {
    [&[flags, 0], &kind.to_be_bytes()[..], options, payload].concat()
}

fn dns() -> Vec<u8> {
    udp(53, b"question")
}

/// An IPv4 packet in Ethernet, which everything here is put around.
fn frame() -> Vec<u8> {
    ethernet(0x0800, &ip4(17, &dns()))
}

fn assert_dns(got: &Got) {
    assert_eq!(got.payload, dns());
    assert_eq!((got.ip_protocol, got.payload_length), (17, 16));
    let header = if got.src.len() == 4 { 20 } else { 40 };
    assert!(got.wire_bytes >= header + 16, "{got:?}");
}

#[test]
fn every_link_type() {
    let (ip4, ip6) = (ip4(17, &dns()), ip6(17, &dns()));
    let cooked = |kind: u16| [&[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0], &kind.to_be_bytes()[..]].concat();
    let cooked2 =
        |kind: u16| [&kind.to_be_bytes()[..], &[0, 0, 0, 0, 0, 3, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0]].concat();
    for (link, bytes) in [
        (link::ETHERNET, ethernet(0x0800, &ip4)),
        (link::ETHERNET, ethernet(0x86dd, &ip6)),
        (link::RAW, ip4.clone()),
        (link::RAW, ip6.clone()),
        (link::IPV4, ip4.clone()),
        (link::IPV6, ip6.clone()),
        (link::NULL, [&[2, 0, 0, 0][..], &ip4].concat()),
        (link::NULL, [&[0, 0, 0, 30][..], &ip6].concat()),
        (link::LOOP, [&[0, 0, 0, 24][..], &ip6].concat()),
        (link::LINUX_SLL, [cooked(0x0800), ip4.clone()].concat()),
        (link::LINUX_SLL, [cooked(0x8100), vlan(5, 0x86dd, &ip6)].concat()),
        (link::LINUX_SLL2, [cooked2(0x86dd), ip6.clone()].concat()),
    ] {
        let seen = see(&[packet(link, &bytes)]);
        assert_eq!((seen.got.len(), seen.defects.len(), seen.not_ip), (1, 0, 0), "link type {link}: {seen:?}");
        assert_dns(&seen.got[0]);
    }
    assert_eq!(see(&[packet(105, &frame())]).defects, [id::NET_LINK]);
}

#[test]
fn addresses_ids_and_lengths_are_those_of_the_ip_header() {
    let got = one(&frame());
    assert_eq!((&got.src[..], &got.dst[..]), (&[10, 0, 0, 1][..], &[10, 0, 0, 2][..]));
    assert_eq!((got.ip_id, got.tunnel, got.wire_bytes), (7, 0, 36));
    let got = one(&ethernet(0x86dd, &ip6(17, &dns())));
    assert_eq!((got.src[15], got.dst[15]), (1, 2));
    assert_eq!((got.ip_id, got.tunnel, got.wire_bytes), (u32::MAX, 0, 56));
}

#[test]
fn options_and_extension_headers_are_stepped_over() {
    let mut options = ip4(17, &[&[1; 8][..], &dns()].concat());
    options[0] = 0x47;
    assert_dns(&one(&ethernet(0x0800, &options)));
    let chain = [
        &[43, 0, 5, 2, 0, 0, 0, 0],
        &[60, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..],
        &[51, 0, 1, 4, 0, 0, 0, 0],
    ]
    .concat();
    let authentication = [17, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1];
    let got = one(&ethernet(0x86dd, &ip6(0, &[&chain[..], &authentication, &dns()].concat())));
    assert_dns(&got);
    assert_eq!(got.wire_bytes, 40 + 32 + 24 + 16);
    assert_dns(&one(&ethernet(0x0800, &ip4(51, &[&authentication[..], &dns()].concat()))));
    // A fragment header of a datagram that is whole.
    assert_dns(&one(&ethernet(0x86dd, &ip6(44, &[&[17, 0, 0, 0, 0, 0, 0, 9][..], &dns()].concat()))));
}

#[test]
fn vlans_tell_flows_apart_at_any_depth() {
    let inner = ip4(17, &dns());
    let single = one(&ethernet(0x8100, &vlan(0x2005, 0x0800, &inner)));
    let double = one(&ethernet(0x88a8, &vlan(6, 0x8100, &vlan(5, 0x0800, &inner))));
    let swapped = one(&ethernet(0x88a8, &vlan(5, 0x8100, &vlan(6, 0x0800, &inner))));
    let tunnels = [single.tunnel, double.tunnel, swapped.tunnel];
    assert!(tunnels.iter().all(|&t| t != 0) && tunnels[0] != tunnels[1] && tunnels[1] != tunnels[2], "{tunnels:?}");
    // Only the number counts, not the priority; number 0 is a priority alone.
    assert_eq!(one(&ethernet(0x8100, &vlan(0xe005, 0x0800, &inner))).tunnel, single.tunnel);
    assert_eq!(one(&ethernet(0x8100, &vlan(0xe000, 0x0800, &inner))).tunnel, 0);
    [single, double, swapped].iter().for_each(assert_dns);
}

#[test]
fn the_tunnel_hash_is_the_same_in_every_version() {
    assert_eq!(one(&ethernet(0x8100, &vlan(5, 0x0800, &ip4(17, &dns())))).tunnel, TUNNEL_VLAN_5);
    assert_eq!(one(&ethernet(0x0800, &ip4(17, &vxlan(4789, 77, &frame())))).tunnel, TUNNEL_VNI_77);
}

const TUNNEL_VLAN_5: u64 = 12_773_366_489_153_039_575;
const TUNNEL_VNI_77: u64 = 16_694_179_344_897_479_431;

#[test]
fn mpls_pppoe_and_snap() {
    let inner = ip4(17, &dns());
    let labels = [[0, 1, 0, 64], [0, 2, 1, 64]].concat();
    let got = one(&ethernet(0x8847, &[&labels[..], &inner].concat()));
    assert_dns(&got);
    assert_eq!(got.tunnel, 0, "labels differ by direction");
    assert_dns(&one(&ethernet(0x8847, &[&labels[..], &[0, 0, 0, 0], &frame()].concat())));
    let session = [&[0x11, 0, 0, 9, 0, 38, 0, 0x21][..], &inner].concat();
    let got = one(&ethernet(0x8864, &session));
    assert_dns(&got);
    assert_ne!(got.tunnel, 0);
    assert_dns(&one(&ethernet(44, &[&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0][..], &inner].concat())));
}

#[test]
fn every_tunnel() {
    let ip = ip4(17, &dns());
    let key = [0, 0, 0, 42];
    let all = [
        ip4(17, &vxlan(4789, 77, &frame())),
        ip4(17, &vxlan(8472, 77, &frame())),
        ip6(17, &vxlan(4789, 77, &ethernet(0x8100, &vlan(3, 0x86dd, &ip6(17, &dns()))))),
        ip4(17, &geneve(5, &[], 0x6558, &frame())),
        ip4(17, &geneve(5, &[1; 12], 0x0800, &ip)),
        ip4(47, &gre(0, 0x0800, &[], &ip)),
        ip4(47, &gre(0x80, 0x0800, &[1; 4], &ip)),
        ip4(47, &gre(0x20, 0x86dd, &key, &ip6(17, &dns()))),
        ip4(47, &gre(0xb0, 0x6558, &[&[0; 4], &key[..], &[0; 4]].concat(), &frame())),
        // ERSPAN I, II, III, and III with the platform's part.
        ip4(47, &gre(0, 0x88be, &[], &frame())),
        ip4(47, &gre(0x10, 0x88be, &[0, 0, 0, 1, 0x10, 0, 0, 9, 0, 0, 0, 0], &frame())),
        ip4(47, &gre(0x10, 0x22eb, &[0, 0, 0, 1, 0x20, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0], &frame())),
        ip6(
            47,
            &gre(0x10, 0x22eb, &[&[0, 0, 0, 1, 0x20, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1][..], &[0; 8]].concat(), &frame()),
        ),
        ip4(4, &ip),
        ip4(41, &ip6(17, &dns())),
        ip6(4, &ip),
        ip6(41, &ip6(17, &dns())),
        ip4(137, &[&[0, 1, 1, 64][..], &ip].concat()),
    ];
    for packet in &all {
        let kind = if packet[0] >> 4 == 4 { 0x0800 } else { 0x86dd };
        assert_dns(&one(&ethernet(kind, packet)));
    }
    // One in the other: what is inside is the same, and counts once.
    let mut nested = frame();
    for number in 0..3 {
        nested = ethernet(0x0800, &ip4(17, &vxlan(4789, number, &nested)));
        nested = ethernet(0x0800, &ip4(47, &gre(0x20, 0x6558, &key, &nested)));
        nested = ethernet(0x0800, &ip4(4, &ip4(41, &ip6(17, &geneve(number, &[], 0x6558, &nested)))));
        let got = one(&nested);
        assert_dns(&got);
        assert_eq!(got.wire_bytes, 36);
    }
}

#[test]
fn numbers_of_tunnels_tell_flows_apart() {
    let erspan = |session: u8| gre(0x10, 0x88be, &[0, 0, 0, 1, 0x10, 0, 0, session, 0, 0, 0, 0], &frame());
    let tunnels: std::collections::BTreeSet<u64> = [
        ip4(17, &vxlan(4789, 1, &frame())),
        ip4(17, &vxlan(4789, 2, &frame())),
        ip4(17, &geneve(1, &[], 0x6558, &frame())),
        ip4(47, &gre(0x20, 0x6558, &[0, 0, 0, 1], &frame())),
        ip4(47, &gre(0x20, 0x6558, &[0, 0, 0, 2], &frame())),
        ip4(47, &erspan(1)),
        ip4(47, &erspan(2)),
        ip4(17, &vxlan(4789, 1, &ethernet(0x0800, &ip4(17, &vxlan(4789, 2, &frame()))))),
        ip4(17, &vxlan(4789, 2, &ethernet(0x0800, &ip4(17, &vxlan(4789, 1, &frame()))))),
    ]
    .iter()
    .map(|packet| one(&ethernet(0x0800, packet)).tunnel)
    .collect();
    assert_eq!(tunnels.len(), 9);
    assert!(!tunnels.contains(&0));
}

#[test]
fn a_port_is_no_proof_of_a_tunnel() {
    for payload in [&b""[..], b"short", b"not a tunnel at all, but long", b"\x08\x42\x81\x80\0\x01\0\0a DNS reply"] {
        for port in [4789, 8472, 6081] {
            let got = one(&ethernet(0x0800, &ip4(17, &udp(port, payload))));
            assert_eq!(got.payload, udp(port, payload));
        }
    }
    // PPTP's GRE, and other protocols, stay what they are.
    assert_eq!(one(&ethernet(0x0800, &ip4(47, &[0x30, 1, 0x88, 0x0b, 0, 0, 0, 0]))).ip_protocol, 47);
    assert_eq!(one(&ethernet(0x0800, &ip4(50, &[1; 40]))).ip_protocol, 50);
}

#[test]
fn what_breaks_the_rules_is_a_defect() {
    let mut short_header = ip4(17, &dns());
    short_header[0] = 0x44;
    let mut short_total = ip4(17, &dns());
    short_total[3] = 19;
    let version = [&[0x50], &ip4(17, &dns())[1..]].concat();
    for (bytes, defect) in [
        (ethernet(0x0800, &short_header), id::NET_MALFORMED),
        (ethernet(0x0800, &short_total), id::NET_MALFORMED),
        (ethernet(0x0800, &version), id::NET_MALFORMED),
        (ethernet(0x0800, &ip4(17, &dns())[..19]), id::NET_MALFORMED),
        (vec![1; 13], id::NET_MALFORMED),
        (vec![], id::NET_MALFORMED),
        (ethernet(0x0800, &ip4(47, &[0, 0])), id::NET_MALFORMED),
    ] {
        let seen = see(&[packet(link::ETHERNET, &bytes)]);
        assert_eq!((seen.got.len(), seen.not_ip, &seen.defects[..]), (0, 0, &[defect][..]), "{bytes:02x?}");
    }
    let mut deep = ip4(17, &dns());
    (0..70).for_each(|_| deep = ip4(4, &deep));
    assert_eq!(see(&[packet(link::RAW, &deep)]).defects, [id::NET_TOO_DEEP]);
}

#[test]
fn lengths_are_those_on_the_wire() {
    let whole = frame();
    // Cut by the capture: to the transport header, into it, and to nothing of it.
    for captured in [34 + 8, 34 + 3, 34] {
        let got = &see(&[Packet { length: whole.len() as u32, ..packet(link::ETHERNET, &whole[..captured]) }]).got[0];
        assert_eq!((got.wire_bytes, got.payload_length, got.payload.len()), (36, 16, captured - 34));
    }
    // Cut by a mirror, which then says that this is all.
    let got = &see(&[packet(link::ETHERNET, &whole[..42])]).got[0];
    assert_eq!((got.wire_bytes, got.payload_length, got.payload.len()), (36, 16, 8));
    // Padded.
    let got = one(&[&whole[..], &[0; 20]].concat());
    assert_eq!((got.wire_bytes, got.payload_length, got.payload.len()), (36, 16, 16));
    // Longer than the field can say.
    let mut large = ip4(6, &vec![1; 70_000]);
    large[2..4].fill(0);
    let got = one(&ethernet(0x0800, &large));
    assert_eq!((got.wire_bytes, got.payload_length, got.payload.len()), (70_020, 70_000, 70_000));
    let mut large = ip6(6, &vec![1; 70_000]);
    large[4..6].fill(0);
    let got = one(&ethernet(0x86dd, &large));
    assert_eq!((got.wire_bytes, got.payload_length, got.payload.len()), (70_040, 70_000, 70_000));
    let jumbo = [0, 4, 0xc2, 4, 0, 1, 0x11, 0x78];
    let mut large = ip6(0, &[&[6, 0], &jumbo[2..], &vec![1; 70_000]].concat());
    large[4..6].fill(0);
    let got = one(&ethernet(0x86dd, &large));
    assert_eq!((got.wire_bytes, got.payload_length, got.ip_protocol), (70_048, 70_000, 6));
    // The same inside a tunnel, where the outer packet's end is what is known.
    let mut large = ip4(6, &[1; 1000]);
    large[2..4].fill(0);
    let bytes = [&ethernet(0x0800, &ip4(4, &large))[..], &[0; 9]].concat();
    assert_eq!(one(&bytes).payload_length, 1000);
}

#[test]
fn a_capture_cut_in_the_headers_says_so() {
    let bytes = ethernet(0x0800, &ip4(17, &vxlan(4789, 1, &frame())));
    for captured in [13, 20, 33, 44, 50, 60, 70] {
        let cut = Packet { length: bytes.len() as u32, ..packet(link::ETHERNET, &bytes[..captured]) };
        let seen = see(&[cut]);
        assert_eq!((seen.got.len(), &seen.defects[..]), (0, &[id::NET_CUT][..]), "cut at {captured}: {seen:?}");
    }
}

/// A datagram's payload, and fragments of it: where each begins and ends.
fn pieces(payload: &[u8], parts: &[(usize, usize)], six: bool) -> Vec<Vec<u8>> {
    let part = |&(from, to): &(usize, usize)| {
        let more = u16::from(to < payload.len());
        match six {
            false => ethernet(0x0800, &ip4_part(17, 99, more << 13 | (from / 8) as u16, &payload[from..to])),
            true => {
                let field = (from as u16 | more).to_be_bytes();
                ethernet(0x86dd, &ip6(44, &[&[17, 0, field[0], field[1], 0, 0, 0, 99], &payload[from..to]].concat()))
            }
        }
    };
    parts.iter().map(part).collect()
}

fn see_frames(frames: &[Vec<u8>]) -> Seen {
    see(&frames.iter().map(|f| packet(link::ETHERNET, f)).collect::<Vec<_>>())
}

#[test]
fn fragments_come_together_in_any_order_twice_and_overlapping() {
    let payload = udp(53, &(0..200).collect::<Vec<u8>>());
    for six in [false, true] {
        for parts in [
            &[(0, 96), (96, 192), (192, 208)][..],
            &[(192, 208), (96, 192), (0, 96)],
            &[(96, 192), (96, 192), (0, 96), (192, 208)],
            &[(0, 96), (48, 144), (88, 208)],
            &[(0, 8), (200, 208), (8, 200)],
            &[(64, 128), (0, 192), (128, 208)],
        ] {
            let seen = see_frames(&pieces(&payload, parts, six));
            assert_eq!((seen.got.len(), seen.defects.len()), (1, 0), "{parts:?}: {seen:?}");
            assert_eq!(seen.fragments, parts.len() as u64);
            let got = &seen.got[0];
            assert_eq!((&got.payload, got.payload_length, got.ip_protocol), (&payload, 208, 17));
            let header = if six { 40 + 8 } else { 20 };
            assert!(got.wire_bytes >= 208 + 2 * header, "{got:?}");
        }
    }
}

#[test]
fn a_tunnel_in_fragments_is_looked_into() {
    let payload = vxlan(4789, 77, &ethernet(0x0800, &ip4(17, &udp(53, &[7; 300]))));
    let seen = see_frames(&pieces(&payload, &[(0, 200), (200, payload.len())], false));
    assert_eq!(seen.got[0].payload, udp(53, &[7; 300]));
    assert_eq!(seen.got[0].tunnel, TUNNEL_VNI_77);
    // And the other way round.
    let inner = pieces(&dns(), &[(0, 8), (8, 16)], false);
    let outer: Vec<_> = inner.iter().map(|f| ethernet(0x0800, &ip4(17, &vxlan(4789, 77, f)))).collect();
    let seen = see_frames(&outer);
    assert_eq!((seen.got.len(), &seen.got[0].payload), (1, &dns()));
}

#[test]
fn fragments_that_contradict_each_other_give_nothing() {
    let payload = udp(53, &[7; 200]);
    let mut other = payload.clone();
    other[100] = 8;
    let mut frames = pieces(&payload, &[(0, 104)], false);
    frames.extend(pieces(&other, &[(96, 208)], false));
    let seen = see_frames(&frames);
    assert_eq!((seen.got.len(), &seen.defects[..]), (0, &[id::NET_FRAGMENT][..]));
    // After the end, a second end, not of eights, and longer than a datagram can be.
    for parts in [&[(104, 208), (208, 216)][..], &[(0, 13)]] {
        let seen = see_frames(&pieces(&[1; 216], parts, false));
        assert!(seen.got.is_empty() || parts.len() > 1, "{parts:?}");
        assert!(!seen.defects.is_empty(), "{parts:?}");
    }
    let long = ethernet(0x0800, &ip4_part(17, 3, 0x1fff, &[1; 100]));
    assert_eq!(see_frames(&[long]).defects, [id::NET_FRAGMENT]);
}

#[test]
fn of_a_datagram_that_is_not_whole_the_first_fragment_is_told() {
    let payload = udp(53, &[7; 200]);
    let frames = pieces(&payload, &[(0, 96), (192, 208)], false);
    let (mut link, mut counts, mut got) = (Link::new(1 << 20), Counts::default(), Vec::new());
    for (number, frame) in frames.iter().enumerate() {
        let packet = Packet { at_ns: 5 + number as u64, ..packet(link::ETHERNET, frame) };
        link.take(&packet, &mut |inner| got.push(Got::of(inner)), &mut counts);
    }
    link.idle(MonoNs(1_999_999_999), &mut |inner| got.push(Got::of(inner)), &mut counts);
    assert_eq!(got, [], "they still may come");
    link.idle(MonoNs(2_000_000_005), &mut |inner| got.push(Got::of(inner)), &mut counts);
    assert_eq!((got.len(), got[0].at, got[0].payload_length), (1, 5, 96));
    assert_eq!(got[0].payload, payload[..96]);
    assert_eq!(counts.take().collect::<Vec<_>>(), [(id::NET_FRAGMENT, MonoNs(5))]);
    // Without the first nothing is told but the defect.
    let seen = see_frames(&pieces(&payload, &[(96, 192)], false));
    assert_eq!((seen.got.len(), &seen.defects[..]), (0, &[id::NET_FRAGMENT][..]));
}

#[test]
fn fragments_cut_by_the_capture_are_whole_up_to_the_cut() {
    let payload = udp(53, &(0..200).collect::<Vec<u8>>());
    let frames = pieces(&payload, &[(0, 96), (96, 192), (192, 208)], false);
    let cut: Vec<_> = frames
        .iter()
        .map(|f| Packet { length: f.len() as u32, ..packet(link::ETHERNET, &f[..f.len().min(74)]) })
        .collect();
    let seen = see(&cut);
    assert_eq!((seen.got[0].payload_length, &seen.got[0].payload[..]), (208, &payload[..40]));
    assert_eq!(seen.defects.len(), 0);
}

#[test]
fn fragments_take_bounded_memory() {
    let (mut link, mut counts, mut reported) = (Link::new(100_000), Counts::default(), 0);
    for number in 0..2000_u16 {
        let frame = ethernet(0x0800, &ip4_part(17, number, 0x2000, &[1; 800]));
        link.take(&packet(link::ETHERNET, &frame), &mut |_| reported += 1, &mut counts);
        assert!(link.fragments.held_bytes() <= 102_000);
    }
    assert!(reported > 1850, "{reported}");
    link.finish(&mut |_| reported += 1, &mut counts);
    assert_eq!((reported, counts.take().count()), (2000, 2000));
    assert_eq!(link.fragments.held_bytes(), 0);
}

/// Bytes that get past the first headers more often than chance would.
fn tricky() -> impl Strategy<Value = Vec<u8>> {
    let seed = prop::sample::select(vec![
        frame(),
        ethernet(0x8864, &[&[0x11, 0, 0, 7, 0, 45, 0x21][..], &ip4(17, &dns())].concat()),
        ethernet(0x88e7, &[&[0, 0, 0, 9][..], &frame()].concat()),
        ethernet(0x894f, &[&[0, 2, 2, 3, 0, 0, 9, 255][..], &frame()].concat()),
        ethernet(0x88e5, &[&[0x20, 0, 0, 0, 0, 1][..], &[0; 8], &[8, 0], &ip4(17, &dns()), &[7; 16]].concat()),
        ethernet(
            0x0800,
            &ip4(
                17,
                &udp(
                    2152,
                    &[&[0x34, 255, 0, 52, 0, 0, 0, 1, 0, 0, 0, 0x85, 1, 0, 9, 0][..], &ip4(6, &[0; 20])].concat(),
                ),
            ),
        ),
        ethernet(
            0x0800,
            &ip4(47, &[&[0x30, 0x81, 0x88, 0x0b, 0, 29, 0, 9][..], &[0; 8], &[0x21], &ip4(17, &dns())].concat()),
        ),
        ethernet(0x0800, &ip4(47, &gre(0, 0x8200, &[], &[0x88; 60]))),
        ethernet(0x88a8, &vlan(6, 0x8847, &[&[0, 1, 1, 64][..], &ip6(0, &[60, 0, 0, 0, 0, 0, 0, 0])].concat())),
        ethernet(
            0x0800,
            &ip4(17, &vxlan(4789, 7, &ethernet(0x0800, &ip4(47, &gre(0x10, 0x88be, &[0; 12], &frame()))))),
        ),
        ethernet(0x86dd, &ip6(17, &geneve(5, &[1; 12], 0x6558, &frame()))),
        ethernet(0x0800, &ip4_part(17, 1, 0x2000, &[1; 64])),
        ethernet(0x0800, &ip4_part(17, 1, 8, &[1; 13])),
        ethernet(0x86dd, &ip6(44, &[17, 0, 0, 1, 0, 0, 0, 9, 1, 1, 1, 1, 1, 1, 1, 1])),
    ]);
    let damage = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6);
    (seed, damage, prop::collection::vec(any::<u8>(), 0..40), any::<prop::sample::Index>()).prop_map(
        |(mut bytes, damage, tail, cut)| {
            for (at, value) in damage {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            bytes.extend(tail);
            bytes.truncate(cut.index(bytes.len() * 2).min(bytes.len()));
            bytes
        },
    )
}

proptest! {
    #[test]
    fn any_bytes_give_something_and_no_panic(
        packets in prop::collection::vec((tricky(), 0..200_u32, 0..400_000_000_u64), 1..40),
        link in prop::sample::select(vec![0, 1, 1, 1, 1, 101, 108, 113, 228, 229, 276, 5]),
    ) {
        let (mut taker, mut counts, mut reported) = (Link::new(4000), Counts::default(), 0_u64);
        let (mut at_ns, mut given) = (0, 0);
        for (bytes, missing, gap) in &packets {
            at_ns += gap;
            let packet = Packet { at_ns, link, interface: 0, length: bytes.len() as u32 + missing, bytes };
            taker.take(&packet, &mut |inner| { Got::of(inner); reported += 1 }, &mut counts);
            given += 1;
        }
        taker.finish(&mut |inner| { Got::of(inner); reported += 1 }, &mut counts);
        let defects = counts.take().count() as u64;
        // Each packet is told, no IP, a defect, or a fragment.
        prop_assert!(reported + counts.not_ip + defects + counts.fragments >= given);
        prop_assert!(reported <= given);
        prop_assert_eq!(taker.fragments.held_bytes(), 0);
    }

    #[test]
    fn any_fragments_in_any_order_come_together(
        cuts in prop::collection::btree_set(1..60_usize, 0..12),
        order in any::<u64>(),
        tail in 0..8_usize,
        six in any::<bool>(),
    ) {
        let payload: Vec<u8> = (0..480 + tail).map(|i| i as u8).collect();
        let mut bounds = vec![0];
        bounds.extend(cuts.iter().map(|c| c * 8));
        bounds.push(payload.len());
        let mut frames = pieces(&payload, &bounds.windows(2).map(|w| (w[0], w[1])).collect::<Vec<_>>(), six);
        // Any order: by a hash of the place.
        let mut number = order;
        frames.sort_by_cached_key(|_| { number = mixed(number); number });
        let is_one = frames.len() == 1;
        let seen = see_frames(&frames);
        prop_assert_eq!((seen.got.len(), seen.defects.len()), (1, 0));
        prop_assert_eq!(&seen.got[0].payload, &payload);
        prop_assert_eq!(seen.fragments, if is_one { 0 } else { frames.len() as u64 });
    }
}
