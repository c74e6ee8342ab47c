//! Tunnels that end here.

use super::namespace::{self, Namespace, frame, private};
use super::{Kept, keep};
use std::net::{IpAddr, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};
use wakepath_capture::monotonic_ns;
use wakepath_capture::packets::{Filter, Listen, TunnelOptions, TunnelSource};
use wakepath_wire::packet::link;

fn options(listen: &str) -> TunnelOptions {
    let listen = Listen::parse(listen).expect("it is right");
    TunnelOptions { listen, address: None, buffer_bytes: 1 << 20, filter: None }
}

fn take(source: &mut TunnelSource, count: usize) -> Vec<Kept> {
    let mut kept = Vec::new();
    let end = Instant::now() + Duration::from_secs(5);
    while kept.len() < count && Instant::now() < end {
        source.poll(Duration::from_millis(50), &mut |p| kept.push(keep(p))).expect("it goes on");
    }
    kept
}

fn vxlan(inner: &[u8]) -> Vec<u8> {
    [&[8, 0, 0, 0, 0, 0, 42, 0], inner].concat()
}

#[test]
fn udp_tunnels_are_told_with_their_outer_headers() {
    let Some(_ns) = Namespace::new() else { return };
    let mut source = TunnelSource::open(options("any")).expect("it opens");
    let inner = frame(None, 6, 1000, 80, 100);
    let payload = vxlan(&inner);
    for (host, version, headers_bytes) in [("127.0.0.1", 4, 28), ("::1", 6, 48)] {
        let host: IpAddr = host.parse().expect("an address");
        let sender = UdpSocket::bind((host, 0)).expect("a port");
        let before = monotonic_ns();
        sender.send_to(&payload, (host, 4789)).expect("it is sent");
        sender.send_to(&payload, (host, 6081)).expect("it is sent");
        let after = monotonic_ns();
        let got = take(&mut source, 2);
        assert_eq!(got.len(), 2);
        for (p, (port, number)) in got.iter().zip([(4789u16, 0), (6081, 1)]) {
            assert_eq!((p.link, p.interface, p.bytes[0] >> 4), (link::RAW, number, version));
            assert_eq!(p.bytes[headers_bytes..], payload, "what was sent is behind the headers");
            assert_eq!(p.length as usize, p.bytes.len());
            let udp = &p.bytes[headers_bytes - 8..];
            let from = sender.local_addr().expect("bound").port();
            assert_eq!((&udp[..2], &udp[2..4]), (&from.to_be_bytes()[..], &port.to_be_bytes()[..]));
            let (src, dst) = if version == 4 { (12..16, 16..20) } else { (8..24, 24..40) };
            assert_eq!(p.bytes[src], p.bytes[dst], "from this host to itself");
            assert!(p.at + 1_000_000 >= before && p.at <= after + 1_000_000);
        }
    }
    assert_eq!(source.interfaces(), ["vxlan", "geneve", "gre"]);
    assert_eq!(source.drops(), 0);
}

#[test]
fn an_unusual_port_is_told_as_the_usual_one() {
    let Some(_ns) = Namespace::new() else { return };
    let mut source = TunnelSource::open(options("vxlan:8472")).expect("it opens");
    let sender = UdpSocket::bind("127.0.0.1:0").expect("a port");
    sender.send_to(&vxlan(b"x"), "127.0.0.1:8472").expect("it is sent");
    let got = take(&mut source, 1);
    assert_eq!(got[0].bytes[22..24], 4789u16.to_be_bytes());
}

#[test]
fn gre_is_received_over_both_versions_of_ip() {
    let Some(_ns) = Namespace::new() else { return };
    let mut source = TunnelSource::open(options("gre")).expect("it opens");
    let payload = [&[0u8, 0, 0x65, 0x58][..], &frame(None, 6, 1000, 80, 100)].concat();
    for (family, header_bytes) in [(libc::AF_INET, 20), (libc::AF_INET6, 40)] {
        // SAFETY: a new descriptor; the addresses are live and of the length given.
        unsafe {
            let fd = libc::socket(family, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 47);
            let socket = OwnedFd::from_raw_fd(fd);
            let mut v4: libc::sockaddr_in = std::mem::zeroed();
            v4.sin_family = libc::AF_INET as u16;
            v4.sin_addr.s_addr = u32::from_be_bytes([127, 0, 0, 1]).to_be();
            let mut v6: libc::sockaddr_in6 = std::mem::zeroed();
            v6.sin6_family = libc::AF_INET6 as u16;
            v6.sin6_addr.s6_addr[15] = 1;
            let (to, length) = match family {
                libc::AF_INET => (std::ptr::from_ref(&v4).cast::<libc::sockaddr>(), size_of_val(&v4)),
                _ => (std::ptr::from_ref(&v6).cast(), size_of_val(&v6)),
            };
            let n = libc::sendto(socket.as_raw_fd(), payload.as_ptr().cast(), payload.len(), 0, to, length as u32);
            assert_eq!(n, payload.len() as isize, "{}", std::io::Error::last_os_error());
        }
        let got = take(&mut source, 1);
        assert_eq!((got[0].link, &got[0].bytes[header_bytes..]), (link::RAW, &payload[..]));
        let protocol = if header_bytes == 20 { got[0].bytes[9] } else { got[0].bytes[6] };
        assert_eq!(protocol, 47);
    }
}

#[test]
fn a_filter_is_for_what_is_inside() {
    let Some(_ns) = Namespace::new() else { return };
    let filter = match Filter::compile("tcp port 80") {
        Ok(filter) => Some(filter),
        Err(e) => return println!("skipped: {e}"),
    };
    let mut source = TunnelSource::open(TunnelOptions { filter, ..options("vxlan") }).expect("it opens");
    let sender = UdpSocket::bind("127.0.0.1:0").expect("a port");
    for port in [81, 80, 82, 80] {
        let wanted = frame(None, 6, 1000, port, 100);
        sender.send_to(&vxlan(&wanted), "127.0.0.1:4789").expect("it is sent");
    }
    let got = take(&mut source, 2);
    let ports: Vec<(u16, u16)> = got.iter().map(|p| namespace::ports(&p.bytes[36..])).collect();
    assert_eq!(ports, [(1000, 80); 2]);
    assert_eq!(source.poll(Duration::from_millis(20), &mut |_| {}).expect("it goes on"), 0);
}

#[test]
fn what_a_full_queue_dropped_is_counted() {
    let Some(_ns) = Namespace::new() else { return };
    let mut source = TunnelSource::open(TunnelOptions { buffer_bytes: 1, ..options("vxlan") }).expect("it opens");
    let sender = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let payload = vxlan(&frame(None, 6, 1000, 80, 1000));
    for _ in 0..500 {
        sender.send_to(&payload, "127.0.0.1:4789").expect("it is sent");
    }
    let mut got = 0;
    while source.poll(Duration::from_millis(20), &mut |_| got += 1).expect("it goes on") > 0 {}
    let drops = source.drops();
    assert!(got > 0 && drops > 0 && got + drops == 500, "{got} {drops}");
    assert_eq!(source.drops(), 0, "each is counted once");
}

#[test]
fn a_port_that_another_has_says_what_to_do() {
    let Some(_ns) = Namespace::new() else { return };
    let error = |o| TunnelSource::open(o).map(|_| ()).expect_err("it cannot be").to_string();
    let held = UdpSocket::bind("0.0.0.0:4789").expect("a port");
    let words = error(options("vxlan"));
    assert!(words.contains("vxlan") && words.contains("--iface"), "{words}");
    drop(held);
    let elsewhere = TunnelOptions { address: Some("192.0.2.1".parse().expect("an address")), ..options("vxlan") };
    assert!(error(elsewhere).contains("ip address"));
    private(&["link", "set", "lo", "down"]);
    namespace::give_up_rights();
    let words = error(options("gre"));
    assert!(words.contains("root") && words.contains("cap_net_raw"), "{words}");
}
