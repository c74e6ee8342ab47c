//! What stands in front of IP: read, or counted by its kind.

use super::*;

#[test]
fn tags_and_tunnels_around_ip_are_read() {
    let ip = ip4(17, &dns());
    let in_udp = |port, header: &[u8]| ip4(17, &udp(port, &[header, &ip].concat()));
    let ppp = [&[0x21][..], &ip].concat();
    let data = [&[0x08, 0x01][..], &[0; 22], &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0], &ip].concat();
    let quality = [&[0x88, 0x03][..], &[0; 30], &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0], &ip].concat();
    let call = [&(ppp.len() as u16).to_be_bytes()[..], &[0, 9]].concat();
    let mut reserved = vxlan(4789, 77, &frame());
    reserved[15] = 0x42;
    let mut all_flags = reserved.clone();
    all_flags[8..12].copy_from_slice(&[0xff, 1, 0xd1, 0xf2]);
    for (name, frame) in [
        ("VXLAN with a reserved byte", ethernet(0x0800, &ip4(17, &reserved))),
        ("VXLAN with all flags", ethernet(0x0800, &ip4(17, &all_flags))),
        ("VXLAN-GPE, IP", ethernet(0x0800, &in_udp(4790, &[0x0c, 0, 0, 1, 0, 0, 77, 0]))),
        ("VXLAN-GPE, NSH", ethernet(0x0800, &in_udp(4790, &[0x0c, 0, 0, 4, 0, 0, 77, 0, 0, 2, 2, 1, 0, 0, 9, 255]))),
        ("GTP-U", ethernet(0x0800, &in_udp(2152, &[0x30, 255, 0, 44, 0, 0, 0, 1]))),
        (
            "GTP-U with a header more",
            ethernet(0x0800, &in_udp(2152, &[0x34, 255, 0, 52, 0, 0, 0, 1, 0, 0, 0, 0x85, 1, 0, 9, 0])),
        ),
        ("GRE in UDP", ethernet(0x0800, &in_udp(4754, &[0, 0, 8, 0]))),
        ("PPPoE, one byte", ethernet(0x8864, &[&[0x11, 0, 0, 7, 0, 45][..], &ppp].concat())),
        ("PPPoE, two bytes", ethernet(0x8864, &[&[0x11, 0, 0, 7, 0, 46, 0][..], &ppp].concat())),
        (
            "PPTP",
            ethernet(0x0800, &ip4(47, &[&[0x30, 0x81, 0x88, 0x0b][..], &call, &[0; 8], &[0xff, 3], &ppp].concat())),
        ),
        ("PPP in GRE", ethernet(0x0800, &ip4(47, &gre(0, 0x880b, &[], &ppp)))),
        ("802.11 in GRE", ethernet(0x0800, &ip4(47, &gre(0, 0x8200, &[], &data)))),
        ("802.11 relayed, in GRE", ethernet(0x0800, &ip4(47, &gre(0, 0x8210, &[], &quality)))),
        ("WCCP 1", ethernet(0x0800, &ip4(47, &gre(0, 0x883e, &[], &ip)))),
        ("WCCP 2", ethernet(0x0800, &ip4(47, &gre(0, 0x883e, &[], &[&[0, 1, 2, 3][..], &ip].concat())))),
        ("PBB", ethernet(0x88a8, &vlan(3, 0x88e7, &[&[0, 0, 0, 9][..], &frame()].concat()))),
        ("VN-Tag", ethernet(0x8926, &[&[0, 1, 0, 2, 8, 0][..], &ip].concat())),
        ("E-Tag", ethernet(0x893f, &[&[0, 1, 0, 2, 0, 0, 8, 0][..], &ip].concat())),
        ("NSH", ethernet(0x894f, &[&[0, 2, 2, 3, 0, 0, 9, 255][..], &frame()].concat())),
        (
            "MACsec that signs",
            ethernet(0x88e5, &[&[0x20, 0, 0, 0, 0, 1][..], &[0; 8], &[8, 0], &ip, &[7; 16]].concat()),
        ),
        ("Ethernet in IP", ethernet(0x0800, &ip4(97, &[&[0x30, 0][..], &frame()].concat()))),
    ] {
        let seen = see(&[packet(link::ETHERNET, &frame)]);
        assert_eq!((seen.got.len(), seen.not_ip, &seen.defects[..]), (1, 0, &[][..]), "{name}: {frame:02x?}");
        assert_dns(&seen.got[0]);
        // Cut anywhere it says so, and does not panic.
        for cut in 0..frame.len() {
            see(&[Packet { length: frame.len() as u32, ..packet(link::ETHERNET, &frame[..cut]) }]);
        }
    }
}

#[test]
fn what_is_not_looked_into_is_counted_by_its_kind() {
    for (frame, what, number) in [
        (ethernet(0x0806, &[0; 28]), "ARP", 0x0806),
        (ethernet(0x88e5, &[&[0x0c, 0, 0, 0, 0, 1][..], &[7; 60]].concat()), "MACsec, encrypted", 0x88e5),
        (ethernet(0x7777, &[0; 46]), "an EtherType that is not known", 0x7777),
        (ethernet(38, &[0x42, 0x42, 3, 0, 0, 0, 0, 0]), "spanning tree", 0x42),
        (ethernet(0x8864, &[0x11, 0, 0, 7, 0, 4, 0xc0, 0x21, 1, 1]), "PPP, negotiation", 0xc021),
        (ethernet(0x894f, &[0, 2, 2, 9, 0, 0, 9, 255]), "a service's own protocol (NSH, VXLAN-GPE)", 9),
    ] {
        let (mut link, mut counts) = (Link::new(1 << 20), Counts::default());
        link.take(&packet(link::ETHERNET, &frame), &mut |inner| panic!("{inner:?}"), &mut counts);
        let unread: Vec<_> = counts.take_unread().collect();
        assert_eq!(unread, [(Unread { what, number }, MonoNs(1), frame.len() as u32)], "{frame:02x?}");
    }
}

#[test]
fn a_tunnel_that_cannot_be_read_is_a_flow_between_its_ends() {
    let compressed = [&[0x30, 0x81, 0x88, 0x0b, 0, 29, 0, 9][..], &[0; 8], &[0xfd, 1, 2, 3]].concat();
    for (gre, reason) in [
        (gre(0, 0x8200, &[], &[0x08, 0x41, 0, 0]), "802.11, encrypted"),
        (gre(0, 0x9998, &[], &[1; 20]), "an EtherType that is not known"),
        (compressed, "PPP, compressed"),
    ] {
        let (mut link, mut counts, mut got) = (Link::new(1 << 20), Counts::default(), Vec::new());
        let frame = ethernet(0x0800, &ip4(47, &gre));
        let mut take = |inner: &Inner<'_>| got.push((inner.ip_protocol, inner.src[..4].to_vec(), inner.reason));
        link.take(&packet(link::ETHERNET, &frame), &mut take, &mut counts);
        assert_eq!(got, [(47, vec![10, 0, 0, 1], reason)]);
    }
}

#[test]
fn what_carries_no_ip_is_counted_and_no_defect() {
    for frame in [
        ethernet(0x0806, &[0; 28]),
        ethernet(0x88cc, &[0; 46]),
        ethernet(0x8863, &[0; 46]),
        ethernet(38, &[0x42, 0x42, 3, 0, 0, 0, 0, 0]),
        ethernet(3, &[0x42]),
        ethernet(0x0800, &ip4(17, &vxlan(4789, 1, &ethernet(0x0806, &[0; 28])))),
    ] {
        let seen = see(&[packet(link::ETHERNET, &frame)]);
        assert_eq!((seen.got.len(), seen.not_ip, seen.defects.len()), (0, 1, 0), "{frame:02x?}");
    }
}
