//! What a capture of heads sees: of each side's bytes only the first ones.

mod support;

use proptest::prelude::*;
use support::{Step, run, same};
use wakepath_protocols::{Dir, Protocol, Role};

fn http_reply(chunks: &[usize]) -> Vec<u8> {
    let mut reply = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for size in chunks.iter().map(|size| size + 1) {
        reply.extend(format!("{size:x}\r\n").bytes());
        reply.extend(vec![b'x'; size]);
        reply.extend(b"\r\n");
    }
    reply.extend(b"0\r\n\r\n");
    reply
}

fn postgres_reply(rows: &[usize]) -> Vec<u8> {
    let message = |tag: u8, body: &[u8]| [&[tag], &(body.len() as u32 + 4).to_be_bytes()[..], body].concat();
    let mut reply = message(b'T', &[0, 1]);
    reply.extend(message(b'D', b"first"));
    rows.iter().for_each(|size| reply.extend(message(b'D', &vec![b'x'; *size])));
    reply.extend(message(b'C', b"SELECT\0"));
    reply.extend(message(b'Z', b"I"));
    reply
}

fn redis_reply(values: &[usize]) -> Vec<u8> {
    let mut reply = format!("*{}\r\n", values.len()).into_bytes();
    for size in values {
        reply.extend(format!("${size}\r\n").bytes());
        reply.extend(vec![b'x'; *size]);
        reply.extend(b"\r\n");
    }
    reply
}

fn memcached_reply(values: &[usize]) -> Vec<u8> {
    let mut reply = Vec::new();
    for size in values {
        reply.extend(format!("VALUE k 0 {size}\r\n").bytes());
        reply.extend(vec![b'x'; *size]);
        reply.extend(b"\r\n");
    }
    reply.extend(b"END\r\n");
    reply
}

fn mysql_reply(rows: &[usize]) -> Vec<u8> {
    let (mut reply, mut number) = (Vec::new(), 0u8);
    let mut packet = |body: &[u8]| {
        number = number.wrapping_add(1);
        reply.extend([body.len() as u8, (body.len() >> 8) as u8, 0, number]);
        reply.extend(body);
    };
    packet(&[1]);
    packet(b"\x03def");
    rows.iter().for_each(|size| packet(&vec![b'x'; size + 1]));
    packet(&[0xfe, 0, 0, 2, 0, 0, 0]);
    reply
}

/// A protocol, a request of it, a reply of several parts, and how many bytes of that must be there.
type Exchange = (Protocol, &'static [u8], fn(&[usize]) -> Vec<u8>, usize);

const EXCHANGES: [Exchange; 5] = [
    (Protocol::Http1, b"GET /a HTTP/1.1\r\n\r\n", http_reply, 47),
    (Protocol::Postgres, b"Q\0\0\0\x0dSELECT 1\0", postgres_reply, 17),
    (Protocol::Redis, b"*1\r\n$4\r\nKEYS\r\n", redis_reply, 4),
    (Protocol::Memcached, b"get k l m\r\n", memcached_reply, 17),
    (Protocol::MySql, b"\x09\0\0\0\x03SELECT 1", mysql_reply, 5),
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn replies_one_by_one_lose_nothing_to_a_capture_of_heads(
        replies in prop::collection::vec((prop::collection::vec(0usize..300, 1..9), any::<prop::sample::Index>()), 1..6),
        cuts in prop::collection::vec(1usize..80, 1..9),
    ) {
        for (protocol, request, reply, least) in EXCHANGES {
            let (mut steps, mut starts, mut at) = (Vec::new(), Vec::new(), 0);
            for (parts, kept) in &replies {
                let reply = reply(parts);
                let kept = least + kept.index(reply.len().saturating_sub(least) + 1);
                let (head, rest) = reply.split_at(kept.min(reply.len()));
                steps.push(Step::Turn(Dir::ToServer));
                steps.push(Step::Data(Dir::ToServer, request.to_vec()));
                steps.push(Step::Turn(Dir::ToClient));
                steps.push(Step::Data(Dir::ToClient, head.to_vec()));
                if !rest.is_empty() {
                    steps.push(Step::Gap(Dir::ToClient, rest.len() as u64));
                }
                starts.push(at);
                at += reply.len() as u64;
            }
            let whole = run(protocol, 0, &steps, |len| len);
            prop_assert_eq!(whole.defects(), Vec::<&String>::new(), "{:?}", whole.lines);
            let seen: Vec<u64> = whole.seen.iter().filter(|s| s.role == Role::Reply).map(|s| s.start).collect();
            prop_assert_eq!(seen, starts, "{:?} {:?}", protocol, whole.lines);
            let mut next = cuts.iter().copied().cycle();
            let split = run(protocol, 0, &steps, |left| next.next().unwrap_or(left));
            same(protocol.id(), &whole, &split);
        }
    }
}
