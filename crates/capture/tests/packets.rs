//! The packet sources on real traffic, each test in a network namespace of its own thread, which goes with it.

#[path = "packets/namespace.rs"]
mod namespace;
#[path = "packets/tunnels.rs"]
mod tunnels;

use namespace::{Namespace, Sender, frame, private};
use std::net::UdpSocket;
use std::time::{Duration, Instant};
use wakepath_capture::packets::{Filter, LiveOptions, LiveSource};
use wakepath_capture::{CaptureError, monotonic_ns};
use wakepath_wire::packet::{Packet, link};

/// A packet that outlives the ring.
#[derive(Debug, PartialEq, Eq)]
struct Kept {
    at: u64,
    link: u32,
    interface: u32,
    length: u32,
    bytes: Vec<u8>,
}

fn keep(p: &Packet<'_>) -> Kept {
    Kept { at: p.at_ns, link: p.link, interface: p.interface, length: p.length, bytes: p.bytes.to_vec() }
}

/// Whether it is a frame that [`frame`] made: hosts send some of their own accord.
fn is_ours(p: &Packet<'_>) -> bool {
    p.bytes.starts_with(&namespace::ADDRESSES)
}

/// Takes frames of ours until there are `count`, at most five seconds.
fn take(source: &mut LiveSource, count: usize) -> Vec<Kept> {
    let mut kept = Vec::new();
    let end = Instant::now() + Duration::from_secs(5);
    while kept.len() < count && Instant::now() < end {
        source
            .poll(Duration::from_millis(100), &mut |p| {
                if is_ours(p) {
                    kept.push(keep(p));
                }
            })
            .expect("it goes on");
    }
    kept
}

fn on(interfaces: &[&str]) -> LiveOptions {
    LiveOptions {
        interfaces: interfaces.iter().map(|i| (*i).to_owned()).collect(),
        ring_bytes: 1 << 20,
        ..LiveOptions::default()
    }
}

fn open(options: LiveOptions) -> LiveSource {
    LiveSource::open(options).expect("it opens")
}

#[test]
fn packets_are_told_as_they_passed() {
    let Some(_ns) = Namespace::with_pair() else { return };
    let mut source = open(on(&["v1"]));
    let sent: Vec<Vec<u8>> = (0..3).map(|i| frame(None, 6, 1000, 80, 60 + i * 500)).collect();
    let before = monotonic_ns();
    let sender = Sender::on("v0");
    sent.iter().for_each(|f| sender.send(f));
    let after = monotonic_ns();
    // one that leaves by the interface
    Sender::on("v1").send(&frame(None, 17, 1, 2, 100));

    let got = take(&mut source, 4);
    assert_eq!(got.iter().map(|p| p.bytes.len()).collect::<Vec<_>>(), [60, 560, 1060, 100]);
    for (p, f) in got.iter().zip(&sent) {
        assert_eq!((&p.bytes, p.length, p.link, p.interface), (f, f.len() as u32, link::ETHERNET, 0));
        assert!(p.at + 1_000_000 >= before && p.at <= after + 1_000_000, "{before} {} {after}", p.at);
    }
    assert_eq!(source.interfaces(), ["v1"]);
    assert_eq!((source.drops(), source.take_notices()), (0, vec![]));
    // and a wait without packets ends by itself
    assert_eq!(source.poll(Duration::from_millis(1), &mut |_| {}).expect("it goes on"), 0);
}

#[test]
fn tags_that_the_kernel_took_off_are_put_back() {
    let Some(_ns) = Namespace::with_pair() else { return };
    let mut source = open(on(&["v1"]));
    let sender = Sender::on("v0");
    let one = frame(Some(&[(0x8100, 5)]), 6, 1000, 80, 100);
    let two = frame(Some(&[(0x88a8, 7), (0x8100, 0x2005)]), 6, 1000, 80, 100);
    for f in [&one, &two] {
        sender.send(f);
    }
    let got = take(&mut source, 2);
    assert_eq!(got.iter().map(|p| (&p.bytes, p.length)).collect::<Vec<_>>(), [(&one, 104), (&two, 108)]);
}

#[test]
fn packets_are_cut_to_the_snap_length() {
    let Some(_ns) = Namespace::with_pair() else { return };
    let mut source = open(LiveOptions { snaplen: 70, ..on(&["v1"]) });
    let sender = Sender::on("v0");
    for tags in [None, Some(&[(0x8100, 5)][..])] {
        sender.send(&frame(tags, 6, 1000, 80, 1000));
    }
    let got = take(&mut source, 2);
    // a tag comes on top
    assert_eq!(got.iter().map(|p| (p.bytes.len(), p.length)).collect::<Vec<_>>(), [(70, 1000), (74, 1004)]);
}

#[test]
fn filters_are_obeyed() {
    let Some(_ns) = Namespace::with_pair() else { return };
    if let Err(e) = Filter::compile("tcp") {
        return println!("skipped: {e}");
    }
    let frames = [
        frame(None, 6, 1000, 80, 100),
        frame(None, 6, 1000, 81, 101),
        frame(None, 17, 1000, 80, 102),
        frame(Some(&[(0x8100, 5)]), 6, 1000, 80, 103),
    ];
    for (expression, snaplen, lengths) in [
        // the kernel takes tags off before its filter looks
        ("tcp port 80", 1000, &[100, 107][..]),
        ("port 80", 1000, &[100, 102, 107]),
        ("tcp dst port 81", 50, &[101]),
        ("vlan 5 and tcp port 80", 1000, &[107]),
        ("udp and not vlan", 1000, &[102]),
    ] {
        let filter = Some(Filter::compile(expression).expect("it is right"));
        let mut source = open(LiveOptions { filter, snaplen, ..on(&["v1"]) });
        let sender = Sender::on("v0");
        frames.iter().for_each(|f| sender.send(f));
        let got = take(&mut source, lengths.len());
        assert_eq!(got.iter().map(|p| p.length).collect::<Vec<_>>(), lengths, "{expression}");
        assert!(got.iter().all(|p| p.bytes.len() <= snaplen as usize + 4));
        // the one that is not wanted comes last, so nothing is on its way
        assert_eq!(source.poll(Duration::from_millis(30), &mut |_| {}).expect("it goes on"), 0, "{expression}");
    }
}

#[test]
fn a_filter_looks_at_packets_of_files_too() {
    let mut filter = match Filter::compile("tcp port 80") {
        Ok(filter) => filter,
        Err(e) => return println!("skipped: {e}"),
    };
    let bytes = frame(None, 6, 1000, 80, 100);
    fn p(link: u32, bytes: &[u8]) -> Packet<'_> {
        Packet { at_ns: 0, link, interface: 0, length: 100, bytes }
    }
    assert!(filter.matches(&p(link::ETHERNET, &bytes)));
    assert!(filter.matches(&p(link::RAW, &bytes[14..])) && filter.matches(&p(link::IPV4, &bytes[14..])));
    assert!(!filter.matches(&p(link::ETHERNET, &bytes[..30])), "its ports were cut off");
    assert!(!filter.matches(&p(link::ETHERNET, &bytes[14..])) && !filter.matches(&p(link::RAW, &bytes)));
    assert!(!filter.matches(&p(0xdead_beef, &bytes)));
    assert!(!filter.matches(&p(link::ETHERNET, &frame(None, 6, 1000, 81, 100))));
    assert!(!filter.matches(&p(link::ETHERNET, &[])));

    let Err(CaptureError::Filter(words)) = Filter::compile("tcp prot 80").map(|_| ()) else {
        panic!("it is wrong");
    };
    assert!(
        words.contains("tcp prot 80") && words.contains("syntax error") && words.contains("pcap-filter"),
        "{words}"
    );
    // no expression means all of it
    assert!(Filter::compile("").is_ok_and(|mut f| f.matches(&p(link::ETHERNET, &bytes))));
}

#[test]
fn loopback_is_seen_once() {
    let Some(_ns) = Namespace::new() else { return };
    let mut source = open(on(&["any"]));
    let a = UdpSocket::bind("127.0.0.1:0").expect("a port");
    for _ in 0..3 {
        a.send_to(b"12345", a.local_addr().expect("bound")).expect("it is sent");
    }
    let mut lengths = Vec::new();
    let end = Instant::now() + Duration::from_secs(5);
    while lengths.len() < 3 && Instant::now() < end {
        source.poll(Duration::from_millis(50), &mut |p| lengths.push((p.length, p.link))).expect("it goes on");
    }
    source.poll(Duration::from_millis(50), &mut |p| lengths.push((p.length, p.link))).expect("it goes on");
    assert_eq!(lengths, [(14 + 20 + 8 + 5, link::ETHERNET); 3]);
    assert_eq!(source.interfaces(), ["lo"]);
}

#[test]
fn several_interfaces_come_in_order_of_time() {
    let Some(_ns) = Namespace::with_pair() else { return };
    private(&["link", "add", "w0", "type", "veth", "peer", "name", "w1"]);
    for name in ["w0", "w1"] {
        private(&["link", "set", name, "up"]);
    }
    let send = || {
        let senders = [Sender::on("v0"), Sender::on("w0")];
        for i in 0..100 {
            senders[i % 2].send(&frame(None, 17, 1, 2, 100 + i));
        }
    };
    let mut source = open(on(&["v1", "w1"]));
    send();
    let got = take(&mut source, 100);
    // blocks of two interfaces end at different moments; all of it was there when they did
    let mut order: Vec<(u32, u32)> = got.iter().map(|p| (p.length, p.interface)).collect();
    order.sort_unstable();
    assert_eq!(order, (0..100).map(|i| (100 + i, i % 2)).collect::<Vec<_>>());

    // all of them at once: one queue, four ends
    let mut source = open(on(&["any"]));
    send();
    let got = take(&mut source, 200);
    let mut names: Vec<&str> = got.iter().map(|p| source.interfaces()[p.interface as usize].as_str()).collect();
    assert!(got.is_sorted_by_key(|p| p.at));
    names.sort_unstable();
    names.dedup();
    assert_eq!((got.len(), names), (200, vec!["v0", "v1", "w0", "w1"]));
}

#[test]
fn what_a_full_ring_dropped_is_counted() {
    let Some(_ns) = Namespace::with_pair() else { return };
    let mut source = open(LiveOptions { ring_bytes: 1, ..on(&["v1"]) });
    let sender = Sender::on("v0");
    let f = frame(None, 17, 1, 2, 1000);
    (0..2000).for_each(|_| sender.send(&f));
    let mut got = 0;
    while source.poll(Duration::from_millis(50), &mut |p| got += u64::from(is_ours(p))).expect("it goes on") > 0 {}
    let drops = source.drops();
    assert!(got > 0 && drops > 0 && source.freezes() > 0, "{got} {drops} {}", source.freezes());
    assert!(got + drops >= 2000, "{got} and {drops}: some packets are neither told nor counted");
    assert_eq!(source.drops(), 0, "each is counted once");
    // what comes when there is room again is told
    sender.send(&f);
    assert_eq!(take(&mut source, 1).len(), 1);
}

#[test]
fn a_ring_is_read_over_and_over() {
    let Some(_ns) = Namespace::with_pair() else { return };
    let mut source = open(LiveOptions { ring_bytes: 1, ..on(&["v1"]) });
    let sender = Sender::on("v0");
    for round in 0..40u16 {
        for i in 0..50 {
            sender.send(&frame(None, 17, round, i, 1400));
        }
        let got = take(&mut source, 50);
        let ports: Vec<(u16, u16)> = got.iter().map(|p| namespace::ports(&p.bytes)).collect();
        assert_eq!(ports, (0..50).map(|i| (round, i)).collect::<Vec<_>>());
    }
    assert_eq!(source.drops(), 0);
}

#[test]
fn an_interface_that_goes_and_comes_is_told() {
    let Some(_ns) = Namespace::with_pair() else { return };
    private(&["link", "set", "v1", "down"]);
    let mut source = open(on(&["v1", "lo"]));
    let notice = |source: &mut LiveSource| {
        let end = Instant::now() + Duration::from_secs(5);
        while Instant::now() < end {
            source.poll(Duration::from_millis(20), &mut |_| {}).expect("it goes on");
            if let [one] = source.take_notices().as_slice() {
                return one.clone();
            }
        }
        panic!("nothing was told");
    };
    let words = notice(&mut source);
    assert!(words.contains("v1 is down") && words.contains("ip link set v1 up"), "{words}");

    private(&["link", "set", "v1", "up"]);
    Sender::on("v0").send(&frame(None, 17, 1, 2, 100));
    assert_eq!(take(&mut source, 1).len(), 1);

    private(&["link", "set", "v1", "down"]);
    assert!(notice(&mut source).contains("v1 went down"));
    private(&["link", "del", "v0"]);
    assert!(notice(&mut source).contains("v1 is gone"));
    private(&["link", "add", "v0", "type", "veth", "peer", "name", "v1"]);
    private(&["link", "set", "v0", "up"]);
    private(&["link", "set", "v1", "up"]);
    assert!(notice(&mut source).contains("v1 is back"));
    Sender::on("v0").send(&frame(None, 17, 1, 2, 100));
    assert_eq!(take(&mut source, 1).len(), 1);
}

#[test]
fn the_last_interface_that_goes_is_an_error() {
    let Some(_ns) = Namespace::with_pair() else { return };
    let mut source = open(on(&["v1"]));
    Sender::on("v0").send(&frame(None, 17, 1, 2, 100));
    private(&["link", "del", "v0"]);
    let mut got = 0;
    let end = Instant::now() + Duration::from_secs(5);
    let error = loop {
        match source.poll(Duration::from_millis(20), &mut |p| got += usize::from(is_ours(p))) {
            Ok(_) => assert!(Instant::now() < end, "it is an error"),
            Err(e) => break e.to_string(),
        }
    };
    assert!(error.contains("v1: gone") && error.contains("ip link"), "{error}");
    assert_eq!(got, 1, "what came before is told first");
}

#[test]
fn what_cannot_be_opened_says_what_to_do() {
    let Some(_ns) = Namespace::new() else { return };
    let error = |options| LiveSource::open(options).map(|_| ()).expect_err("it cannot be").to_string();
    assert!(error(on(&["nowhere0"])).contains("no interface nowhere0; `ip link`"));
    assert!(error(on(&["a-name-that-is-far-too-long"])).contains("no interface"));
    assert!(error(on(&[])).contains("name interfaces"));
    assert!(error(on(&["any", "lo"])).contains("alone"));
    assert!(error(on(&["lo", "lo"])).contains("twice"));
    assert!(error(LiveOptions { snaplen: 0, ..on(&["lo"]) }).contains("snap length"));
    assert!(error(LiveOptions { ring_bytes: usize::MAX >> 1, ..on(&["lo"]) }).contains("smaller"));
    namespace::give_up_rights();
    let words = error(on(&["lo"]));
    assert!(words.contains("root") && words.contains("cap_net_raw"), "{words}");
}
