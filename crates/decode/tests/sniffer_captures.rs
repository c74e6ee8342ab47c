//! Real captures, our own and other people's, through the whole sniffer: the messages that the protocol processors find in them
//! one by one, which `crates/protocols/tests/captures.rs` holds against tshark; the same where packets come twice or out
//! of order; and no panic, whatever is cut away.

#[path = "../../protocols/tests/support/mod.rs"]
mod reference;
mod wire;

use proptest::prelude::*;
use reference::{Recorder, packets};
use std::collections::BTreeMap;
use wakepath_decode::network::{Sniffer, SnifferOptions};
use wakepath_decode::readers::pcap::{PcapReader, Record};
use wakepath_model::rows::{ExchangeKind, OPEN};
use wakepath_protocols::{AnyProcessor, Dir, Processor, Protocol, Role};
use wakepath_testkit::data;
use wakepath_wire::packet::Packet;
use wire::Rows;

/// A capture: its name, the protocol in it, the server's port.
type Capture = (&'static str, Protocol, u16);

/// Our own, in `tests/data/pcap`.
const OWN: &[Capture] = &[
    ("http1.pcap", Protocol::Http1, 8080),
    ("http2.pcap", Protocol::Http2, 8082),
    ("postgres.pcap", Protocol::Postgres, 5432),
    ("mysql.pcap", Protocol::MySql, 3306),
    ("redis.pcap", Protocol::Redis, 6379),
    ("fastcgi.pcap", Protocol::FastCgi, 9000),
    ("dns-udp.pcap", Protocol::DnsUdp, 53),
    ("dns-tcp.pcap", Protocol::DnsTcp, 53),
    ("memcached.pcap", Protocol::Memcached, 11211),
    ("amqp.pcap", Protocol::Amqp, 5672),
];

/// Other people's.
const OTHERS: &[Capture] = &[
    ("http-client-ip.pcap", Protocol::Http1, 8080),
    ("http-httpv1.pcap", Protocol::Http1, 80),
    ("http-sw8.pcap", Protocol::Http1, 20880),
    ("http-grpc-unary.pcap", Protocol::Http2, 30035),
    ("postgre-error.pcap", Protocol::Postgres, 5432),
    ("postgre-simple_query.pcap", Protocol::Postgres, 5432),
    ("mysql-mysql.pcap", Protocol::MySql, 20130),
    ("mysql-mysql-error.pcap", Protocol::MySql, 20130),
    ("mysql-mysql-statement.pcap", Protocol::MySql, 30130),
    ("redis-redis.pcap", Protocol::Redis, 6379),
    ("redis-redis-error.pcap", Protocol::Redis, 6379),
    ("fastcgi-fastcgi.pcap", Protocol::FastCgi, 9000),
    ("dns-a-and-ns.pcap", Protocol::DnsUdp, 53),
    ("dns-dns-tcp-multi.pcap", Protocol::DnsTcp, 53),
    ("memcached-memcached.pcap", Protocol::Memcached, 11211),
    ("mongo-mongo-msg.pcap", Protocol::Mongo, 3717),
    ("kafka-00-produce-v7-sw8.pcap", Protocol::Kafka, 36333),
    ("amqp-amqp1.pcap", Protocol::Amqp, 5672),
];

/// A packet as read from a file.
#[derive(Clone)]
struct Captured {
    at: u64,
    link: u32,
    length: u32,
    bytes: Vec<u8>,
}

/// The bytes of a capture of either list.
fn file(name: &str) -> Vec<u8> {
    let is_own = OWN.iter().any(|c| c.0 == name);
    let name = format!("pcap/{name}");
    let path = if is_own { data::own(&name) } else { data::others(&name) };
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn all_packets(file: &[u8]) -> Vec<Captured> {
    let (mut reader, mut all) = (PcapReader::new(), Vec::new());
    reader.feed(file, &mut |record| {
        if let Record::Packet(p) = record {
            all.push(Captured { at: p.at_ns, link: p.link, length: p.length, bytes: p.bytes.to_vec() });
        }
    });
    reader.finish();
    all
}

fn sniff(packets: &[Captured]) -> Rows {
    let mut sniffer = Sniffer::new(Rows::default(), SnifferOptions::default());
    for p in packets {
        let packet = Packet { at_ns: p.at, link: p.link, interface: 0, length: p.length, bytes: &p.bytes };
        sniffer.packet(&packet);
    }
    sniffer.finish();
    std::mem::take(sniffer.out())
}

/// Messages by the client's port and direction, in the order of the stream.
type Messages = BTreeMap<(u16, bool), Vec<String>>;

/// What the processor says of each flow by itself.
fn expected(file: &[u8], protocol: Protocol, port: u16) -> Messages {
    type Flow = (AnyProcessor, Recorder, [Option<u32>; 2], [u64; 2], Option<Dir>);
    let mut flows: BTreeMap<u16, Flow> = BTreeMap::new();
    for packet in packets(file) {
        let to_server = packet.to.1 == port;
        let dir = if to_server { Dir::ToServer } else { Dir::ToClient };
        let client = if to_server { packet.from.1 } else { packet.to.1 };
        let (processor, recorder, origins, seen, last) = flows
            .entry(client)
            .or_insert_with(|| (AnyProcessor::new(protocol), Recorder::default(), [None; 2], [0; 2], None));
        let mut number = |dir: Dir, seq: u32| {
            let origin = *origins[dir.index()].get_or_insert(seq);
            (1u64 << 32).wrapping_add_signed(i64::from(seq.wrapping_sub(origin) as i32))
        };
        let (seq, ack) = packet.tcp_seq.unwrap_or_default();
        let (pos, acked) = (number(dir, seq), number(dir.other(), ack));
        let other = &mut seen[dir.other().index()];
        if acked > *other && *other > 0 {
            processor.gap(dir.other(), *other, acked - *other, recorder);
            *other = acked;
        }
        let end = pos + packet.payload.len() as u64 + packet.missing;
        seen[dir.index()] = seen[dir.index()].max(end + u64::from(packet.fin));
        if !packet.payload.is_empty() {
            if last.replace(dir) != Some(dir) {
                processor.turn(dir, pos, recorder);
            }
            processor.data(dir, pos, &packet.payload, recorder);
            processor.gap(dir, pos + packet.payload.len() as u64, packet.missing, recorder);
        }
        if packet.fin {
            processor.shutdown(dir, pos + packet.payload.len() as u64, recorder);
        }
    }
    let mut messages = Messages::new();
    for (client, (_, recorder, ..)) in flows {
        for seen in recorder.seen.iter().filter(|m| m.role != Role::Interim && m.verb != "OPAQUE") {
            let to_server = seen.dir == Dir::ToServer;
            let line = if to_server {
                format!("{} {}", seen.verb, seen.target)
            } else {
                format!("{} {}", seen.code.unwrap_or(0), seen.class)
            };
            messages.entry((client, to_server)).or_default().push(line);
        }
    }
    messages
}

/// What the rows say.
fn found(rows: &Rows) -> Messages {
    let clients: BTreeMap<_, _> = rows.flows.iter().map(|f| (f.flow, f.client_port)).collect();
    let mut sorted: BTreeMap<(u16, bool, u64), String> = BTreeMap::new();
    for e in rows.exchanges.iter() {
        let client = clients[&e.flow];
        if e.request_start != OPEN {
            let line = format!("{} {}", rows.text(e.verb), rows.text(e.target));
            sorted.insert((client, true, e.request_start), line);
        }
        if e.reply_start != OPEN {
            let line = format!("{} {}", e.status, rows.text(e.detail));
            sorted.insert((client, false, e.reply_start), line);
        }
    }
    let mut messages = Messages::new();
    for ((client, to_server, _), line) in sorted {
        messages.entry((client, to_server)).or_default().push(line);
    }
    messages
}

#[test]
fn all_messages_of_all_captures_are_found() {
    all_are_found(OWN);
}

#[test]
#[ignore = "needs WAKEPATH_DATA"]
fn all_messages_of_others_captures_are_found() {
    all_are_found(OTHERS);
}

fn all_are_found(captures: &[Capture]) {
    for &(name, protocol, port) in captures {
        let bytes = file(name);
        let rows = sniff(&all_packets(&bytes));
        assert_eq!(found(&rows), expected(&bytes, protocol, port), "{name}: {:#?}", rows.lines());
        let names: Vec<&str> = rows.last_flows().iter().map(|f| rows.text(f.protocol)).collect();
        assert!(names.contains(&protocol.id()), "{name}: {names:?}");
        println!("{name}: {} exchanges, {} answered", rows.exchanges.len(), rows.of(ExchangeKind::Answered).len());
    }
}

#[test]
fn packets_twice_or_in_another_order_give_the_same_messages() {
    order_changes_nothing(OWN);
}

#[test]
#[ignore = "needs WAKEPATH_DATA"]
fn others_packets_twice_or_in_another_order_give_the_same_messages() {
    order_changes_nothing(OTHERS);
}

fn order_changes_nothing(captures: &[Capture]) {
    for &(name, protocol, _) in captures {
        let bytes = file(name);
        let all = all_packets(&bytes);
        let once = sniff(&all);
        let twice: Vec<Captured> =
            all.iter().flat_map(|p| [p.clone(), Captured { at: p.at + 20_000, ..p.clone() }]).collect();
        assert_eq!(found(&sniff(&twice)), found(&once), "{name}, each packet twice");
        // As the queues of a device are read: each packet up to 5 ms late.
        for seed in 1..=20u64 {
            let late = |i: usize| (i as u64 + 1).wrapping_mul(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)) >> 40;
            let mut order: Vec<(u64, usize)> =
                all.iter().enumerate().map(|(i, p)| (p.at + late(i) % 5_000_000, i)).collect();
            order.sort_unstable();
            let mixed: Vec<Captured> = order.into_iter().map(|(_, i)| all[i].clone()).collect();
            let rows = sniff(&mixed);
            assert_eq!(
                found(&rows),
                found(&once),
                "{name}, order {seed}: {:#?} {:?} {:?}",
                rows.lines(),
                rows.defects,
                rows.flows
            );
            // Nothing but its time says of a datagram that it comes before another.
            let answered = |rows: &Rows| rows.of(ExchangeKind::Answered).len();
            assert!(protocol == Protocol::DnsUdp || answered(&rows) == answered(&once), "{name} {seed}");
        }
    }
}

#[test]
#[ignore = "needs WAKEPATH_DATA"]
fn tunnelled_captures_are_read_through_their_tunnels() {
    for name in ["common-ff-vxlan.pcap", "common-ip6-vxlan.pcap", "flow_generator-client-keep-alive.pcap"] {
        let bytes = file(name);
        let rows = sniff(&all_packets(&bytes));
        assert!(!rows.flows.is_empty(), "{name}");
        println!("{name}: {:?} {:?}", rows.lines(), rows.defects);
    }
    let bytes = file("flow_generator-tcp-segment.pcap");
    let rows = sniff(&all_packets(&bytes));
    assert!(rows.count_of("net.malformed") == 0, "{:?}", rows.defects);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    /// Whatever is cut away, lost, damaged, repeated or put elsewhere: rows, and nothing paired that the whole capture pairs
    /// otherwise.
    #[test]
    fn damaged_captures_are_read_without_a_panic(
        which in 0..OWN.len(),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..20),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 0..20),
        swaps in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..20),
        from in any::<prop::sample::Index>(),
    ) {
        let bytes = file(OWN[which].0);
        let mut all = all_packets(&bytes);
        all.drain(..from.index(all.len()));
        for (packet, at) in cuts {
            let packet = packet.get(&all).clone();
            let i = all.iter().position(|p| p.at == packet.at).unwrap_or(0);
            let length = at.index(all[i].bytes.len() + 1);
            all[i].bytes.truncate(length);
        }
        for (packet, at, value) in damage {
            let i = packet.index(all.len());
            if !all[i].bytes.is_empty() {
                let at = at.index(all[i].bytes.len());
                all[i].bytes[at] = value;
            }
        }
        for (a, b) in swaps {
            let (a, b) = (a.index(all.len()), b.index(all.len()));
            all.swap(a, b);
        }
        let rows = sniff(&all);
        prop_assert!(rows.exchanges.iter().all(|e| e.what != ExchangeKind::Unanswered || e.reply_start == OPEN));
    }
}

/// Whose reply each request got: by the number of the request's first byte, the reply's time and the request's. By times,
/// since a processor that joins amid a MySQL login may miss the first bytes of the reply to what follows.
fn pairs(rows: &Rows) -> BTreeMap<u64, (u64, u64)> {
    let low = |n: u64| n & 0xffff_ffff;
    let answered = rows.of(ExchangeKind::Answered);
    answered.iter().map(|e| (low(e.request_start), (e.reply_first.0, e.request_first.0))).collect()
}

#[test]
fn a_part_of_a_capture_pairs_nothing_wrongly() {
    parts_pair_nothing_wrongly(OWN);
}

#[test]
#[ignore = "needs WAKEPATH_DATA"]
fn a_part_of_others_captures_pairs_nothing_wrongly() {
    parts_pair_nothing_wrongly(OTHERS);
}

/// Joined at any packet, and with any packet lost: what is paired then is paired so in the whole capture.
fn parts_pair_nothing_wrongly(captures: &[Capture]) {
    let mut found = [0, 0];
    // Datagrams have no numbers by which to compare.
    for &(name, ..) in captures.iter().filter(|c| c.1 != Protocol::DnsUdp) {
        let bytes = file(name);
        let all = all_packets(&bytes);
        let truth = pairs(&sniff(&all));
        let step = all.len() / 60 + 1;
        for from in (0..all.len()).step_by(step) {
            for lost in (from..all.len()).step_by(step) {
                let part: Vec<Captured> = [&all[from..lost], &all[lost + 1..]].concat();
                let rows = sniff(&part);
                for (request, reply) in pairs(&rows) {
                    // What the whole leaves alone, because of what lies before, may be certain without that.
                    let same = truth.get(&request).is_none_or(|truth| *truth == reply);
                    let sole = truth.iter().all(|(r, truth)| truth.0 != reply.0 || *r == request);
                    let place = format!("{name} from {from} without {lost}: {request} {reply:?}");
                    assert!(same && sole, "{place} {truth:?} {:#?}", rows.lines());
                    found[0] += 1;
                }
                found[1] += truth.len();
            }
        }
    }
    println!("{found:?} pairs");
}
