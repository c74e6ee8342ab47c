//! What TCP does on the wire, one trap a test: streams that the sniffer puts in order, and flows that it tells apart.

mod wire;

use wakepath_decode::network::{Sniffer, SnifferOptions};
use wakepath_model::ids::MonoNs;
use wakepath_model::rows::{ExchangeKind, FlowRowKind, SniffedFlowRow};
use wakepath_wire::packet::{Packet, link};
use wire::*;

#[test]
fn segments_in_any_order_are_one_stream_with_the_times_of_their_packets() {
    let mut tcp = Tcp::new(40000, 80);
    let mut frames = tcp.open(MS);
    let request = get("/some/long/path");
    let a = tcp.data(2 * MS, true, &request[..10]);
    let b = tcp.data(3 * MS, true, &request[10..20]);
    let c = tcp.data(4 * MS, true, &request[20..]);
    frames.extend([a, Frame { at: 3 * MS, ..c }, Frame { at: 4 * MS, ..b }]);
    frames.push(tcp.data(5 * MS, false, &ok(0)));
    let rows = sniff(&frames);
    assert_eq!(rows.lines(), ["answered GET /some/long/path 200"]);
    let e = rows.exchanges[0];
    assert_eq!((e.request_first, e.request_head, e.request_packets), (MonoNs(2 * MS), MonoNs(4 * MS), 3));
    assert_eq!((rows.flow().reordered, rows.flow().retransmitted), ([1, 0], [0, 0]));
    assert!(rows.defects.is_empty(), "{:?}", rows.defects);
}

/// The receiver has the last piece and says so (SACK); only what it acknowledges in a row has passed.
fn selectively_acknowledged(is_captured_again: bool) -> Rows {
    let mut tcp = Tcp::new(40000, 80);
    let mut frames = tcp.open(MS);
    let request = get("/a/path/in/three/pieces");
    let begin = tcp.seq[0];
    let piece = |from: usize, to: usize| (begin + from as u32, &request[from..to]);
    let (seq, bytes) = piece(0, 10);
    frames.push(tcp.raw(2 * MS, true, ACK, seq, tcp.seq[1], bytes));
    // the second piece was lost before it was captured
    let (seq, bytes) = piece(20, request.len());
    frames.push(tcp.raw(3 * MS, true, ACK, seq, tcp.seq[1], bytes));
    tcp.options = [1, 1, 5, 10].into_iter().chain(seq.to_be_bytes()).collect();
    tcp.options.extend((begin + request.len() as u32).to_be_bytes());
    frames.push(tcp.raw(4 * MS, false, ACK, tcp.seq[1], begin + 10, &[]));
    tcp.options.clear();
    let (seq, bytes) = piece(10, 20);
    let again = tcp.raw(210 * MS, true, ACK, seq, tcp.seq[1], bytes);
    frames.extend(is_captured_again.then_some(again));
    tcp.seq[0] = begin + request.len() as u32;
    frames.push(tcp.data(220 * MS, false, &ok(3)));
    sniff(&frames)
}

#[test]
fn a_hole_below_a_selective_acknowledgement_is_waited_for() {
    let rows = selectively_acknowledged(true);
    assert_eq!(rows.lines(), ["answered GET /a/path/in/three/pieces 200"]);
    assert_eq!(rows.exchanges[0].request_head, MonoNs(210 * MS), "the packet that completed it");
    assert_eq!(rows.flow().missing_bytes, [0, 0]);
    assert!(rows.defects.is_empty(), "{:?}", rows.defects);
    // passed, since the reply acknowledges it, and never captured
    let rows = selectively_acknowledged(false);
    assert_eq!(rows.flow().missing_bytes, [10, 0]);
    assert_eq!(rows.count_of("net.bytes_missing"), 1);
}

#[test]
fn bytes_that_are_sent_again_count_once() {
    let mut tcp = Tcp::new(40000, 80);
    let mut frames = tcp.open(MS);
    let request = get("/again");
    let seq = tcp.seq[0];
    frames.push(tcp.data(2 * MS, true, &request[..12]));
    // whole, in part with new bytes, and over other borders
    frames.push(tcp.raw(250 * MS, true, ACK, seq, tcp.seq[1], &request[..12]));
    frames.push(tcp.raw(251 * MS, true, ACK, seq + 4, tcp.seq[1], &request[4..20]));
    frames.push(tcp.raw(252 * MS, true, ACK, seq + 8, tcp.seq[1], &request[8..]));
    tcp.seq[0] = seq + request.len() as u32;
    frames.push(tcp.data(300 * MS, false, &ok(3)));
    let rows = sniff(&frames);
    assert_eq!(rows.lines(), ["answered GET /again 200"]);
    let f = rows.flow();
    assert_eq!((f.retransmitted, f.stream_bytes[0], f.missing_bytes), ([3, 0], request.len() as u64, [0, 0]));
    assert_eq!(rows.exchanges[0].request_head, MonoNs(252 * MS));
}

#[test]
fn of_bytes_with_two_contents_those_that_came_first_are_taken() {
    let mut tcp = Tcp::new(40000, 80);
    let mut frames = tcp.open(MS);
    let (seq, ack) = (tcp.seq[0], tcp.seq[1]);
    let request = get("/right");
    // The first bytes are missing at first, so that the others are held.
    frames.push(tcp.raw(2 * MS, true, ACK, seq + 4, ack, &request[4..]));
    frames.push(tcp.raw(3 * MS, true, ACK, seq + 4, ack, &get("/WRONG")[4..]));
    frames.push(tcp.raw(4 * MS, true, ACK, seq, ack, &request[..4]));
    tcp.seq[0] = seq + request.len() as u32;
    frames.push(tcp.data(5 * MS, false, &ok(0)));
    let rows = sniff(&frames);
    assert_eq!(rows.lines(), ["answered GET /right 200"]);
    assert_eq!(rows.count_of("net.overlap_differs"), 1);
    assert_eq!(rows.flow().retransmitted, [1, 0]);
}

#[test]
fn a_packet_that_was_captured_twice_is_no_retransmission() {
    let (mut tcp, frames) = simple();
    let mut all: Vec<Frame> = frames.into_iter().chain(tcp.close(8 * MS)).collect();
    let once = sniff(&all);
    all = all.iter().flat_map(|frame| [frame.clone(), frame.later(5000)]).collect();
    let twice = sniff(&all);
    assert_eq!(once.exchanges, twice.exchanges);
    let f = twice.flow();
    assert_eq!((f.packets, f.retransmitted, f.wire_bytes), (once.flow().packets, [0; 2], once.flow().wire_bytes));
    assert_eq!(twice.count_of("net.duplicate"), 8);
}

#[test]
fn the_same_flow_inside_and_outside_of_a_tunnel_is_one() {
    let (mut tcp, frames) = simple();
    let all: Vec<Frame> = frames.into_iter().chain(tcp.close(8 * MS)).collect();
    let once = sniff(&all);
    let both: Vec<Frame> = all.iter().flat_map(|frame| [frame.in_vxlan(7), frame.later(3000)]).collect();
    let rows = sniff(&both);
    let flows: Vec<_> = rows.last_flows().into_iter().filter(|f| f.ip_protocol == 6).collect();
    assert_eq!(flows.len(), 1);
    assert_eq!((flows[0].packets, flows[0].retransmitted), (once.flow().packets, [0; 2]));
    assert_eq!(rows.lines(), once.lines());
}

#[test]
fn the_same_ends_in_two_tunnels_are_two_tenants() {
    let (mut tcp, frames) = simple();
    let one: Vec<Frame> = frames.into_iter().chain(tcp.close(8 * MS)).collect();
    let mut tcp = Tcp::new(40000, 80);
    tcp.seq = [123_456_789, 3_000_000_000];
    let mut other = tcp.open(MS + 500);
    other.push(tcp.data(3 * MS, true, &get("/other")));
    other.push(tcp.data(6 * MS, false, &ok(1)));
    let mut all: Vec<Frame> = one.iter().map(|f| f.in_vxlan(1)).chain(other.iter().map(|f| f.in_vxlan(2))).collect();
    all.sort_by_key(|f| f.at);
    let rows = sniff(&all);
    assert_eq!(rows.lines(), ["answered GET /a 200", "answered GET /other 200"]);
    let flows = rows.last_flows();
    assert_eq!(flows.len(), 2);
    assert_ne!((flows[0].tunnel, flows[0].flow), (flows[1].tunnel, flows[1].flow));
}

#[test]
fn bytes_that_were_acknowledged_and_never_captured_are_a_gap() {
    let mut tcp = Tcp::new(40000, 80);
    let mut frames = tcp.open(MS);
    frames.push(tcp.data(2 * MS, true, &get("/a")));
    let reply = ok(3000);
    frames.push(tcp.data(3 * MS, false, &reply[..1000]));
    tcp.data(3 * MS, false, &reply[1000..2000]); // not captured
    frames.push(tcp.data(3 * MS + 2, false, &reply[2000..]));
    frames.push(tcp.ack(4 * MS, true));
    frames.push(tcp.data(100 * MS, true, &get("/b")));
    frames.push(tcp.data(101 * MS, false, &ok(5)));
    let rows = sniff(&frames);
    assert_eq!(rows.lines(), ["answered GET /a 200", "answered GET /b 200"]);
    assert_eq!((rows.exchanges[0].missing_bytes, rows.exchanges[0].reply_last), (1000, MonoNs(3 * MS + 2)));
    assert_eq!((rows.flow().missing_bytes, rows.flow().reordered), ([0, 1000], [0, 0]));
    assert_eq!(rows.count_of("net.bytes_missing"), 1);
}

#[test]
fn keep_alives_and_window_probes_are_no_data() {
    let (mut tcp, mut frames) = simple();
    let (seq, ack) = (tcp.seq[0], tcp.seq[1]);
    frames.push(tcp.raw(1000 * MS, true, ACK, seq - 1, ack, &[]));
    frames.push(tcp.raw(2000 * MS, true, ACK, seq - 1, ack, &[0]));
    frames.push(tcp.ack(2001 * MS, false));
    let rows = sniff(&frames);
    let f = rows.flow();
    assert_eq!((f.retransmitted, f.stream_bytes[0]), ([0; 2], get("/a").len() as u64));
    assert_eq!(rows.lines(), ["answered GET /a 200"]);
}

#[test]
fn closed_windows_are_counted_for_who_was_stopped() {
    let (mut tcp, mut frames) = simple();
    tcp.window[0] = 0;
    frames.push(tcp.ack(6 * MS, true));
    frames.push(tcp.ack(7 * MS, true));
    tcp.window[0] = 100;
    frames.push(tcp.ack(8 * MS, true));
    tcp.window[0] = 0;
    frames.push(tcp.ack(9 * MS, true));
    assert_eq!(sniff(&frames).flow().zero_windows, [0, 2]);
}

#[test]
fn sequence_numbers_wrap() {
    let mut tcp = Tcp::new(40000, 80);
    tcp.seq = [u32::MAX - 20, u32::MAX - 5];
    let mut frames = tcp.open(MS);
    for i in 0..3 {
        frames.push(tcp.data((2 + 2 * i) * MS, true, &get("/wrap")));
        frames.push(tcp.data((3 + 2 * i) * MS, false, &ok(4)));
    }
    let rows = sniff(&frames);
    assert_eq!(rows.lines(), vec!["answered GET /wrap 200"; 3]);
    assert_eq!(rows.exchanges[0].request_start, (1 << 32) + u64::from(u32::MAX - 19));
    assert_eq!(rows.exchanges[1].request_start, rows.exchanges[0].request_end);
    assert!(rows.exchanges[2].reply_end > 2 << 32);
}

#[test]
fn a_port_that_is_used_again_is_another_flow() {
    let (mut tcp, mut frames) = simple();
    frames.extend(tcp.close(8 * MS));
    let mut tcp = Tcp::new(40000, 80);
    tcp.seq = [700_000, 800_000];
    frames.extend(tcp.open(10 * MS));
    frames.push(tcp.data(12 * MS, true, &get("/second")));
    frames.push(tcp.data(13 * MS, false, &ok(1)));
    let rows = sniff(&frames);
    assert_eq!(rows.lines(), ["answered GET /a 200", "answered GET /second 200"]);
    let flows = rows.last_flows();
    assert_eq!(flows.iter().map(|f| f.what).collect::<Vec<_>>(), [FlowRowKind::Fin, FlowRowKind::CaptureEnd]);
    assert_ne!(flows[0].flow, flows[1].flow);
}

#[test]
fn a_port_that_is_used_again_without_its_syn_is_known_by_its_numbers() {
    let (_, mut frames) = simple();
    let mut tcp = Tcp::new(40000, 80);
    tcp.seq = [2_000_000_000, 3_000_000_000];
    frames.push(tcp.data(12 * MS, true, &get("/second")));
    frames.push(tcp.data(13 * MS, false, &ok(1)));
    let rows = sniff(&frames);
    assert_eq!(rows.last_flows().len(), 2);
    assert_eq!(rows.lines(), ["answered GET /a 200", "answered GET /second 200"]);
}

#[test]
fn both_ends_close_at_once() {
    let (mut tcp, mut frames) = simple();
    let (client, server) = (tcp.seq[0], tcp.seq[1]);
    frames.push(tcp.raw(8 * MS, true, ACK | FIN, client, server, &[]));
    frames.push(tcp.raw(8 * MS + 10, false, ACK | FIN, server, client, &[]));
    frames.push(tcp.raw(9 * MS, true, ACK, client + 1, server + 1, &[]));
    frames.push(tcp.raw(9 * MS + 10, false, ACK, server + 1, client + 1, &[]));
    let rows = sniff(&frames);
    assert_eq!((rows.flow().what, rows.flow().packets), (FlowRowKind::Fin, [5, 4]));
    assert_eq!(rows.last_flows().len(), 1);
}

#[test]
fn a_hole_with_nobody_to_acknowledge_it_is_given_up_in_time() {
    let mut tcp = Tcp::new(40000, 80);
    let mut frames = vec![tcp.data(MS, false, &ok(10))];
    tcp.data(2 * MS, false, &ok(10)); // not captured
    for i in 0..30 {
        frames.push(tcp.data((3 + 100 * i) * MS, false, &ok(10)));
    }
    let rows = sniff_with(&frames, SnifferOptions { update_ns: 100 * MS, ..SnifferOptions::default() });
    let missing = |f: &SniffedFlowRow| f.missing_bytes[1] > 0;
    assert!(rows.flows.iter().any(|f| f.at.0 < 1500 * MS && missing(f)));
    assert!(!rows.flows.iter().any(|f| f.at.0 < 1000 * MS && missing(f)));
    assert_eq!(rows.flow().stream_bytes[1], 32 * ok(10).len() as u64);
}

#[test]
fn a_syn_that_is_sent_again_counts_as_sent_again() {
    let mut tcp = Tcp::new(40000, 80);
    let [client, server] = tcp.seq;
    let mut frames = vec![tcp.raw(MS, true, SYN, client, 0, &[]), tcp.raw(1001 * MS, true, SYN, client, 0, &[])];
    frames.push(tcp.raw(1002 * MS, false, SYN | ACK, server, client + 1, &[]));
    frames.push(tcp.raw(2003 * MS, false, SYN | ACK, server, client + 1, &[]));
    frames.push(tcp.raw(2004 * MS, true, ACK, client + 1, server + 1, &[]));
    tcp.seq = tcp.seq.map(|seq| seq + 1);
    frames.push(tcp.data(2005 * MS, true, &get("/a")));
    frames.push(tcp.data(2006 * MS, false, &ok(1)));
    let rows = sniff(&frames);
    assert_eq!(rows.lines(), ["answered GET /a 200"]);
    assert_eq!((rows.flow().retransmitted, rows.flow().packets), ([1, 1], [4, 3]));
    // captured twice it is no other packet
    let twice: Vec<Frame> = frames.iter().flat_map(|frame| [frame.clone(), frame.later(1000)]).collect();
    assert_eq!((sniff(&twice).flow().retransmitted, sniff(&twice).flow().packets), ([1, 1], [4, 3]));
}

#[test]
fn a_segment_that_is_sent_twice_within_a_moment_is_no_copy_of_the_first() {
    // Who gives all its packets one identification, or none: a repetition looks like the first.
    for id in [1, 0] {
        let mut tcp = Tcp::new(40000, 80);
        let mut frames = tcp.open(MS);
        let seq = tcp.seq[0];
        frames.push(tcp.data(2 * MS, true, &get("/a")));
        frames.push(tcp.raw(60 * MS, true, ACK | PSH, seq, tcp.seq[1], &get("/a")));
        frames.push(tcp.data(70 * MS, false, &ok(1)));
        frames.iter_mut().for_each(|frame| frame.bytes[4..6].copy_from_slice(&[0, id]));
        let rows = sniff(&frames);
        assert_eq!(rows.lines(), ["answered GET /a 200"]);
        assert_eq!((rows.flow().retransmitted, rows.flow().packets), ([1, 0], [4, 2]), "{id}");
        assert_eq!(rows.count_of("net.duplicate"), 0);
    }
}

#[test]
fn data_in_the_syn_is_the_first_that_is_said() {
    // TCP Fast Open (RFC 7413): the server has the request with the SYN.
    let mut tcp = Tcp::new(40000, 80);
    let request = get("/a");
    let [client, server] = tcp.seq;
    let behind = client + 1 + request.len() as u32;
    let mut frames = vec![
        tcp.raw(MS, true, SYN, client, 0, &request),
        tcp.raw(2 * MS, false, SYN | ACK, server, behind, &[]),
        tcp.raw(3 * MS, true, ACK, behind, server + 1, &[]),
    ];
    tcp.seq = [behind, server + 1];
    frames.push(tcp.data(5 * MS, false, &ok(3)));
    frames.push(tcp.data(6 * MS, true, &get("/b")));
    frames.push(tcp.data(7 * MS, false, &ok(3)));
    frames.extend(tcp.close(8 * MS));
    let rows = sniff(&frames);
    assert_eq!(rows.lines(), ["answered GET /a 200", "answered GET /b 200"]);
    assert_eq!((rows.exchanges[0].request_first, rows.exchanges[0].reply_first), (MonoNs(MS), MonoNs(5 * MS)));
    assert!(rows.defects.is_empty(), "{:?}", rows.defects);
}

#[test]
fn the_last_row_of_a_request_is_not_older_than_those_before() {
    // Rows are read in the order of their times: a row that tells of it as open would else stand behind its end.
    let mut tcp = Tcp::new(40000, 80);
    let mut frames = tcp.open(MS);
    frames.push(tcp.data(2 * MS, true, &get("/a")));
    for second in 1..20 {
        frames.push(udp(second * 1000 * MS, ([10, 0, 0, 3], 1), ([10, 0, 0, 4], 2), b"x", second as u16));
    }
    frames.push(tcp.fin(20_000 * MS, true));
    frames.push(tcp.raw(20_001 * MS, true, RST, tcp.seq[0], 0, &[]));
    let rows = sniff(&frames);
    let of_it: Vec<_> = rows.exchanges.iter().map(|row| (row.at, row.what)).collect();
    assert!(of_it.len() > 2 && of_it.is_sorted_by_key(|row| row.0), "{of_it:?}");
    assert_eq!(of_it.last().map(|row| row.1), Some(ExchangeKind::Unanswered));
}

#[test]
fn a_question_to_all_owes_no_answer() {
    // Multicast DNS: a question that nobody answers, an answer that nobody asked for here, and the same question to one server.
    let question = b"\0\0\0\0\0\x01\0\0\0\0\0\0\x05_http\x04_tcp\x05local\0\0\x0c\0\x01";
    let answer = b"\0\0\x84\0\0\0\0\x01\0\0\0\0\x05_http\x04_tcp\x05local\0\0\x0c\0\x01\0\0\0\x0a\0\x02\x01a";
    for all in [[224, 0, 0, 251], [255, 255, 255, 255]] {
        let frames = [
            udp(MS, ([10, 0, 0, 1], 5353), (all, 5353), question, 1),
            udp(2 * MS, ([10, 0, 0, 2], 5353), (all, 5353), answer, 2),
            udp(3 * MS, ([10, 0, 0, 2], 5353), (all, 5353), question, 3),
        ];
        let rows = sniff(&frames);
        let count = |what| rows.of(what).len();
        assert_eq!((count(ExchangeKind::NoReply), count(ExchangeKind::Unsolicited)), (2, 1), "{:?}", rows.lines());
        assert!(rows.exchanges.len() == 3 && rows.defects.is_empty(), "{:?} {:?}", rows.lines(), rows.defects);
    }
    let rows = sniff(&[udp(MS, ([10, 0, 0, 1], 40000), ([10, 0, 0, 2], 53), question, 1)]);
    assert_eq!(rows.of(ExchangeKind::Unanswered).len(), 1);
}

/// A question by the name service of Multicast DNS, LLMNR and NetBIOS.
const QUESTION: &[u8] = b"\0\x07\0\0\0\x01\0\0\0\0\0\0\x04host\x05local\0\0\x01\0\x01";

#[test]
fn a_question_to_a_group_of_hosts_by_ipv6_owes_no_answer() {
    let host = [0xfe80, 0, 0, 0, 0, 0, 0, 1];
    let group = [0xff02, 0, 0, 0, 0, 0, 0, 0xfb];
    let rows = sniff(&[udp6(MS, (host, 5353), (group, 5353), QUESTION)]);
    assert_eq!(rows.lines(), ["no reply A host.local"], "{:?}", rows.defects);
    // LLMNR, which is not read: nobody failed either
    let rows = sniff(&[udp6(MS, (host, 5355), ([0xff02, 0, 0, 0, 0, 0, 1, 3], 5355), QUESTION)]);
    assert_eq!((rows.exchanges.len(), rows.defects.len(), rows.flow().packets), (0, 0, [1, 0]), "{:?}", rows.lines());
    let rows = sniff(&[udp6(MS, (host, 40000), ([0xfe80, 0, 0, 0, 0, 0, 0, 2], 53), QUESTION)]);
    assert_eq!(rows.of(ExchangeKind::Unanswered).len(), 1);
}

/// A frame to an Ethernet address.
fn to(address: [u8; 6], frame: &Frame) -> Frame {
    let bytes = [&address[..], &[2, 0, 0, 0, 0, 1, 8, 0], &frame.bytes].concat();
    Frame { at: frame.at, length: bytes.len() as u32, bytes }
}

#[test]
fn a_question_to_all_of_a_subnet_owes_no_answer() {
    let asks = |to, port| udp(MS, ([10, 0, 0, 1], port), (to, port), QUESTION, 1);
    let sniffed = |frames: &[(u32, Frame)]| {
        let mut sniffer = Sniffer::new(Rows::default(), SnifferOptions::default());
        frames.iter().for_each(|(link, f)| sniffer.packet(&Packet { link: *link, ..f.packet() }));
        sniffer.finish();
        std::mem::take(sniffer.out())
    };
    // which address is the subnet's own for all is its hosts' knowledge: 10.0.0.255 is a host of 10.0.0.0/23
    let question = asks([10, 0, 0, 255], 5353);
    let cooked = |kind: u8| {
        let bytes = [&[0, kind, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 8, 0][..], &question.bytes].concat();
        Frame { at: MS, length: bytes.len() as u32, bytes }
    };
    let of = |rows: &Rows| (rows.of(ExchangeKind::NoReply).len(), rows.of(ExchangeKind::Unanswered).len());
    assert_eq!(of(&sniffed(&[(link::ETHERNET, to([0xff; 6], &question))])), (1, 0));
    assert_eq!(of(&sniffed(&[(link::LINUX_SLL, cooked(1))])), (1, 0));
    assert_eq!(of(&sniffed(&[(link::ETHERNET, to([2, 0, 0, 0, 0, 9], &question))])), (0, 1));
    assert_eq!(of(&sniffed(&[(link::LINUX_SLL, cooked(0))])), (0, 1));
}

#[test]
fn a_question_for_an_address_fails_nobody() {
    // DHCP: a host without an address asks all servers, and one of them answers all hosts
    let message = |kind: u8| {
        let mut bytes = vec![0u8; 240];
        bytes[..4].copy_from_slice(&[kind, 1, 6, 0]);
        bytes[4..8].copy_from_slice(b"\x39\x03\xf3\x26");
        bytes[236..].copy_from_slice(&[99, 130, 83, 99]);
        bytes.extend([53, 1, kind, 255]);
        bytes
    };
    let all = [255; 4];
    let frames = [
        udp(MS, ([0; 4], 68), (all, 67), &message(1), 1),
        udp(2 * MS, ([10, 0, 0, 1], 67), (all, 68), &message(2), 2),
        udp(3 * MS, ([0; 4], 68), (all, 67), &message(1), 3),
    ];
    let rows = sniff(&frames);
    let failed = [ExchangeKind::Unanswered, ExchangeKind::Open].map(|what| rows.of(what).len());
    assert_eq!((failed, rows.defects.len()), ([0, 0], 0), "{:?} {:?}", rows.lines(), rows.defects);
    assert_eq!(rows.last_flows().len(), 2, "both are told");
}
