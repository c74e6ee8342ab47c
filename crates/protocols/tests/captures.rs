//! Real captures, if they are there: requests and replies are found as tshark shows them.

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use support::{Recorder, packets};
use wakepath_protocols::{AnyProcessor, Dir, Processor, Protocol, Role};

/// Feeds a capture, one processor a flow, and returns all that they said. The server is the side with `port`.
fn read(file: &str, protocol: Protocol, port: u16) -> Option<Vec<Recorder>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/pcap");
    let Ok(bytes) = std::fs::read(folder.join(file)) else {
        eprintln!("skipped: ../shared/data not present");
        return None;
    };
    type Flow = (AnyProcessor, Recorder, [Option<u32>; 2], [u64; 2], Option<Dir>);
    let mut flows: BTreeMap<_, Flow> = BTreeMap::new();
    for packet in packets(&bytes) {
        let to_server = packet.to.1 == port;
        let (client, server) = if to_server { (packet.from, packet.to) } else { (packet.to, packet.from) };
        let dir = if to_server { Dir::ToServer } else { Dir::ToClient };
        let (processor, recorder, origins, seen, side) = flows.entry((client, server)).or_insert_with(|| {
            let processor = AnyProcessor::new(protocol);
            (processor, Recorder::default(), [None; 2], [0; 2], None)
        });
        // Sequence numbers as stream offsets, from the middle so that an early retransmission has room.
        let (seq, ack) = packet.tcp_seq.unwrap_or_default();
        let mut offset = |dir: Dir, seq: u32| {
            let origin = *origins[dir.index()].get_or_insert(seq);
            (1u64 << 32).wrapping_add_signed(i64::from(seq.wrapping_sub(origin) as i32))
        };
        let (pos, acked) = (offset(dir, seq), offset(dir.other(), ack));
        // What the peer acknowledges has moved, though the capture does not have it.
        let other = &mut seen[dir.other().index()];
        if acked > *other && *other > 0 {
            processor.gap(dir.other(), *other, acked - *other, recorder);
            *other = acked;
        }
        let end = pos + packet.payload.len() as u64 + packet.missing;
        seen[dir.index()] = seen[dir.index()].max(end + u64::from(packet.fin));
        if !packet.payload.is_empty() {
            if *side != Some(dir) {
                processor.turn(dir, pos, recorder);
                *side = Some(dir);
            }
            processor.data(dir, pos, &packet.payload, recorder);
            if packet.missing > 0 {
                processor.gap(dir, pos + packet.payload.len() as u64, packet.missing, recorder);
            }
        }
        if packet.fin {
            processor.shutdown(dir, pos + packet.payload.len() as u64, recorder);
        }
    }
    Some(flows.into_values().map(|(_, recorder, ..)| recorder).collect())
}

fn counts(file: &str, protocol: Protocol, port: u16, requests: usize, replies: usize) {
    let Some(flows) = read(file, protocol, port) else {
        return;
    };
    let sum = |role| flows.iter().map(|r| r.count(role)).sum::<usize>();
    let lines: Vec<_> = flows.iter().flat_map(|r| &r.lines).take(40).collect();
    assert_eq!((sum(Role::Request), sum(Role::Reply)), (requests, replies), "{file}: {lines:#?}");
}

#[test]
fn http() {
    counts("http-client-ip.pcap", Protocol::Http1, 8080, 1, 1);
    counts("http-httpv1.pcap", Protocol::Http1, 80, 1, 1);
    counts("http-sw8.pcap", Protocol::Http1, 20880, 3, 3);
}
#[test]
fn postgres() {
    counts("postgre-error.pcap", Protocol::Postgres, 5432, 1, 1);
    counts("postgre-simple_query.pcap", Protocol::Postgres, 5432, 1, 1);
}
#[test]
fn redis() {
    counts("redis-redis-error.pcap", Protocol::Redis, 6379, 1, 1);
    counts("redis-redis.pcap", Protocol::Redis, 6379, 10, 10);
}
#[test]
fn fastcgi() {
    counts("fastcgi-fastcgi.pcap", Protocol::FastCgi, 9000, 1, 1);
}
#[test]
fn dns() {
    counts("dns-a-and-ns.pcap", Protocol::DnsUdp, 53, 2, 2);
    counts("dns-dns-tcp-multi.pcap", Protocol::DnsTcp, 53, 2, 2);
}
