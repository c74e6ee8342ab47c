//! Connections that began before the capture: who the server is shows in what is said, and what was taken wrongly until then
//! leaves nothing behind.

mod wire;

use wakepath_decode::network::SnifferOptions;
use wakepath_model::rows::{ExchangeKind, FlowRowKind, SideHow};
use wire::*;

const MS: u64 = 1_000_000;

/// A connection that is under way, between two ports.
fn under_way(client_port: u16, server_port: u16) -> Tcp {
    let mut tcp = Tcp::new(client_port, server_port);
    tcp.seq = [770_000, 990_000];
    tcp
}

/// `count` exchanges, a millisecond each, after `before` of the server.
fn exchanges(
    tcp: &mut Tcp,
    before: &[u8],
    count: u32,
    request: impl Fn(u32) -> Vec<u8>,
    reply: impl Fn(u32) -> Vec<u8>,
) -> Vec<Frame> {
    let mut frames = vec![tcp.data(MS, false, before)];
    for i in 0..count {
        let at = u64::from(i + 2) * MS;
        frames.push(tcp.data(at, true, &request(i)));
        frames.push(tcp.data(at + MS / 2, false, &reply(i)));
    }
    frames
}

/// All are paired, at the right service, and nothing is blamed.
fn assert_paired(frames: &[Frame], count: usize, server_port: u16, protocol: &str) {
    let rows = sniff(frames);
    assert_eq!(rows.of(ExchangeKind::Answered).len(), count, "{:#?} {:?}", rows.lines(), rows.defects);
    assert!(rows.flows.iter().all(|f| f.server_port == server_port), "from the first row on: {:?}", rows.flows);
    assert_eq!(rows.flows[0].what, FlowRowKind::Begin);
    assert_eq!(rows.text(rows.flow().protocol), protocol);
    assert_eq!(rows.flow().reordered, [0, 0], "the packets are in order");
    assert_eq!(rows.flow().missing_bytes, [0, 0]);
    let blamed: Vec<_> = rows.defects.keys().filter(|d| **d != "net.pairing_unsure").collect();
    assert!(blamed.is_empty(), "{blamed:?}");
}

fn frame(kind: u8, flags: u8, stream: u32, body: &[u8]) -> Vec<u8> {
    let mut out = (body.len() as u32).to_be_bytes()[1..].to_vec();
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(body);
    out
}

/// `:method POST`, `:scheme http`, and a path that stands in the compression's table.
fn asks(stream: u32) -> Vec<u8> {
    [frame(1, 4, stream, &[0x83, 0x86, 0xbe]), frame(0, 1, stream, b"question")].concat()
}

/// `:status 200`, a body, and trailers that stand in the table.
fn answers(stream: u32) -> Vec<u8> {
    [frame(1, 4, stream, &[0x88, 0xbf]), frame(0, 0, stream, b"answer"), frame(1, 5, stream, &[0xbe])].concat()
}

#[test]
fn http2_is_joined_behind_a_reply_with_streams_of_any_number() {
    for first in [5, (1 << 24) - 3, (1 << 30) + 1] {
        // 50051 is usual, but here it is the client's
        for (client, server) in [(40_000, 50_051), (40_000, 61_616), (50_051, 61_616), (61_616, 40_000)] {
            let mut tcp = under_way(client, server);
            let request = |i| asks(first + 2 * i);
            let frames = exchanges(&mut tcp, &answers(first - 2), 20, request, |i| answers(first + 2 * i));
            assert_paired(&frames, 20, server, "proto.http2");
        }
    }
}

#[test]
fn http2_is_known_by_one_frame_that_begins_a_request() {
    let mut tcp = under_way(40_000, 61_616);
    let request = |i| frame(1, 5, 7 + 2 * i, &[0x82, 0x86, 0x84]);
    let frames = exchanges(&mut tcp, b"the rest of a reply", 20, request, |i| answers(7 + 2 * i));
    assert_paired(&frames, 20, 61_616, "proto.http2");
}

/// An AMQP method's frame.
fn method(channel: u16, class: u16, number: u16, arguments: &[u8]) -> Vec<u8> {
    let mut out = vec![1];
    out.extend(channel.to_be_bytes());
    out.extend((4 + arguments.len() as u32).to_be_bytes());
    out.extend(class.to_be_bytes());
    out.extend(number.to_be_bytes());
    out.extend(arguments);
    out.push(0xce);
    out
}

#[test]
fn amqp_is_joined_behind_a_reply() {
    let declare = |_| method(1, 50, 10, b"\0\0\x01q\0\0\0\0\0");
    let declared = |_| method(1, 50, 11, b"\x01q\0\0\0\0\0\0\0\0");
    for (client, server) in [(40_000, 5672), (5672, 61_616), (40_000, 61_616), (61_616, 40_000)] {
        let frames = exchanges(&mut under_way(client, server), &declared(0), 20, declare, declared);
        assert_paired(&frames, 20, server, "proto.amqp");
    }
}

#[test]
fn redis_is_joined_behind_a_reply_that_looks_like_a_request() {
    let request = |i: u32| format!("*4\r\n$6\r\nLRANGE\r\n$2\r\nk{}\r\n$1\r\n0\r\n$1\r\n9\r\n", i % 10).into_bytes();
    let list = b"*2\r\n$3\r\nGET\r\n$1\r\nx\r\n";
    for (client, server) in [(40_000, 6379), (40_000, 7777), (50_000, 61_616)] {
        let reply = |i: u32| if i.is_multiple_of(3) { b"$1\r\nx\r\n".to_vec() } else { list.to_vec() };
        let frames = exchanges(&mut under_way(client, server), list, 20, request, reply);
        assert_paired(&frames, 20, server, "proto.redis");
    }
}

#[test]
fn mongodb_may_ask_with_request_0() {
    let message = |id: u32, to: u32, body: &[u8]| {
        let mut out = Vec::new();
        [21 + body.len() as u32, id, to, 2013, 0].iter().for_each(|word| out.extend(word.to_le_bytes()));
        out.push(0);
        out.extend(body);
        out
    };
    let ping = b"\x1e\0\0\0\x10ping\0\x01\0\0\0\x02$db\0\x06\0\0\0admin\0\0";
    let ok = b"\x11\0\0\0\x01ok\0\0\0\0\0\0\0\xf0?\0";
    for (client, server) in [(40_000, 27_017), (40_000, 61_616)] {
        let mut tcp = under_way(client, server);
        let frames = exchanges(&mut tcp, &message(9, 0, ok), 20, |_| message(0, 0, ping), |i| message(10 + i, 0, ok));
        assert_paired(&frames, 20, server, "proto.mongo");
    }
}

#[test]
fn what_a_server_of_a_high_port_serves_is_its_own_whatever_the_ports_of_its_clients() {
    let talk = |client: u16, server: u16, at: u64| {
        let mut tcp = under_way(client, server);
        (0..3).map(|i| tcp.data(at + i * MS, i % 2 == 0, b"\x01\x02\x03 nobody knows this")).collect::<Vec<_>>()
    };
    // what Linux gives to clients ends at 60999
    assert_eq!(sniff(&talk(40_000, 61_616, MS)).flow().server_port, 61_616);
    let all: Vec<Frame> = [20_000, 33_000, 45_000].into_iter().flat_map(|c| talk(c, 50_000, u64::from(c))).collect();
    let rows = sniff(&all);
    let last = rows.last_flows();
    assert_eq!(last.len(), 3);
    assert!(last.iter().skip(1).all(|f| f.server_port == 50_000), "{last:?}");
    // two ports of the same sort: a guess, and said so
    assert_eq!(sniff(&talk(45_000, 50_000, MS)).flow().side, SideHow::Guessed);
}

#[test]
fn a_flow_that_stays_undecided_is_told_all_the_same() {
    let list = b"*1\r\n$1\r\nx\r\n";
    let mut tcp = under_way(40_000, 6379);
    let frames = exchanges(&mut tcp, list, 300, |_| list.to_vec(), |_| list.to_vec());
    let rows = sniff(&frames);
    assert_eq!(rows.of(ExchangeKind::Answered).len(), 300, "{:?}", rows.defects);
    assert_eq!((rows.flow().server_port, rows.flow().side), (6379, SideHow::Port));
    // with no room to keep anything the port decides at once
    let rows = sniff_with(&frames, SnifferOptions { held_bytes_max: 1, ..SnifferOptions::default() });
    assert_eq!(rows.of(ExchangeKind::Answered).len(), 300);
}

#[test]
fn a_side_that_was_taken_wrongly_for_long_is_taken_otherwise_when_something_shows_it() {
    let list = b"*1\r\n$1\r\nx\r\n";
    // the usual port is the client's, and for long either side could have said all
    let reply = |i: u32| if i < 200 { list.to_vec() } else { b"+OK\r\n".to_vec() };
    let frames = exchanges(&mut under_way(6379, 61_616), list, 260, |_| list.to_vec(), reply);
    let rows = sniff(&frames);
    let flows = rows.last_flows();
    assert_eq!(flows.iter().map(|f| f.server_port).collect::<Vec<_>>(), [6379, 61_616]);
    let right = rows.of(ExchangeKind::Answered).iter().filter(|e| e.flow == flows[1].flow).count();
    assert!(right >= 50, "{right}");
}
