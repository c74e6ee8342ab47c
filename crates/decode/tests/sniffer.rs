//! What happens on the wire, one trap a test: what the sniffer makes of it.

mod wire;

use fnv::FnvHasher;
use std::hash::Hasher as _;
use wakepath_decode::network::{Sniffer, SnifferOptions};
use wakepath_model::ids::MonoNs;
use wakepath_model::rows::{ExchangeKind, FlowRowKind, MessageEndHow, OPEN, ResetBy, SideHow};
use wakepath_wire::packet::{Packet, link};
use wire::*;

#[test]
fn one_exchange_with_all_its_times_and_numbers() {
    let (mut tcp, mut frames) = simple();
    frames.extend(tcp.close(8 * MS));
    let rows = sniff(&frames);
    assert_eq!(rows.lines(), ["answered GET /a 200"]);
    let e = rows.exchanges[0];
    assert_eq!((e.request_first, e.request_head, e.request_last), (MonoNs(2 * MS), MonoNs(2 * MS), MonoNs(2 * MS)));
    assert_eq!((e.reply_first, e.reply_head, e.reply_last), (MonoNs(5 * MS), MonoNs(5 * MS), MonoNs(5 * MS)));
    let request = (1 << 32) + 1001;
    assert_eq!((e.request_start, e.request_end), (request, request + get("/a").len() as u64));
    assert_eq!((e.reply_start, e.reply_end), ((1 << 32) + 5001, (1 << 32) + 5001 + ok(10).len() as u64));
    assert_eq!((e.request_packets, e.reply_packets, e.missing_bytes), (1, 1, 0));
    assert_eq!((e.request_how, e.reply_how), (MessageEndHow::Framed, MessageEndHow::Framed));
    let f = rows.flow();
    assert_eq!((f.what, f.side, f.reset_by), (FlowRowKind::Fin, SideHow::Handshake, ResetBy::Nobody));
    assert_eq!((f.syn, f.syn_ack, f.ack), (MonoNs(MS), MonoNs(MS + 1000), MonoNs(MS + 2000)));
    assert_eq!(f.origin, [request, (1 << 32) + 5001]);
    assert_eq!(f.packets, [5, 3]);
    assert_eq!(f.stream_bytes, [get("/a").len() as u64, ok(10).len() as u64]);
    assert_eq!(
        (f.client, f.client_port, f.server_port),
        ([10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 40000, 80)
    );
    assert_eq!((f.retransmitted, f.reordered, f.missing_bytes, f.zero_windows), ([0; 2], [0; 2], [0; 2], [0; 2]));
    assert_eq!(rows.text(f.protocol), "proto.http1");
    assert!(rows.defects.is_empty(), "{:?}", rows.defects);
}

#[test]
fn the_service_time_runs_between_the_last_packets_of_the_heads() {
    let mut tcp = Tcp::new(40000, 80);
    let mut frames = tcp.open(MS);
    let request = b"POST /p HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody";
    for (i, part) in [&request[..5], &request[5..30], &request[30..41], &request[41..]].into_iter().enumerate() {
        frames.push(tcp.data((10 + i as u64) * MS, true, part));
    }
    let reply = ok(100);
    for (i, part) in [&reply[..20], &reply[20..50], &reply[50..]].into_iter().enumerate() {
        frames.push(tcp.data((20 + i as u64) * MS, false, part));
    }
    let rows = sniff(&frames);
    let e = rows.of(ExchangeKind::Answered)[0];
    assert_eq!([e.request_first, e.request_head, e.request_last], [10, 12, 13].map(|ms| MonoNs(ms * MS)));
    assert_eq!([e.reply_first, e.reply_head, e.reply_last], [20, 21, 22].map(|ms| MonoNs(ms * MS)));
    assert_eq!((e.request_packets, e.reply_packets), (4, 3));
}

#[test]
fn a_reply_whose_head_was_lost_leaves_its_request_alone_and_the_next_pair_right() {
    let (mut tcp, mut frames) = simple();
    frames.push(tcp.data(10 * MS, true, &get("/lost")));
    tcp.data(11 * MS, false, &ok(20)); // not captured
    frames.push(tcp.data(50 * MS, true, &get("/next")));
    frames.push(tcp.data(51 * MS, false, &ok(1)));
    frames.extend(tcp.close(60 * MS));
    let rows = sniff(&frames);
    assert_eq!(rows.lines(), ["answered GET /a 200", "reply missed GET /lost", "answered GET /next 200"]);
    assert_eq!(rows.exchanges[2].reply_first, MonoNs(51 * MS));
}

#[test]
fn a_request_that_was_lost_leaves_its_reply_alone() {
    let (mut tcp, mut frames) = simple();
    tcp.data(10 * MS, true, &get("/lost")); // not captured
    frames.push(tcp.data(11 * MS, false, &ok(20)));
    frames.push(tcp.data(50 * MS, true, &get("/next")));
    frames.push(tcp.data(51 * MS, false, &ok(1)));
    frames.extend(tcp.close(60 * MS));
    let rows = sniff(&frames);
    assert_eq!(rows.lines(), ["answered GET /a 200", "reply only 200", "answered GET /next 200"]);
}

#[test]
fn pipelined_requests_are_answered_oldest_first() {
    let mut tcp = Tcp::new(40000, 80);
    let mut frames = tcp.open(MS);
    frames.push(tcp.data(2 * MS, true, &[get("/one"), get("/two"), get("/three")].concat()));
    frames.push(tcp.data(5 * MS, false, &[ok(1), ok(2)].concat()));
    frames.push(tcp.data(7 * MS, false, &ok(3)));
    let rows = sniff(&frames);
    assert_eq!(rows.lines(), ["answered GET /one 200", "answered GET /two 200", "answered GET /three 200"]);
    assert_eq!(rows.exchanges[2].reply_head, MonoNs(7 * MS));
}

#[test]
fn of_a_pipeline_with_a_hole_nothing_is_paired_that_could_be_wrong() {
    let mut tcp = Tcp::new(40000, 80);
    let mut frames = tcp.open(MS);
    frames.push(tcp.data(2 * MS, true, &get("/one")));
    tcp.data(2 * MS, true, &get("/two")); // not captured
    frames.push(tcp.data(2 * MS, true, &get("/three")));
    frames.push(tcp.data(30 * MS, false, &ok(1)));
    frames.push(tcp.data(31 * MS, false, &ok(2)));
    frames.push(tcp.data(32 * MS, false, &ok(3)));
    frames.push(tcp.data(33 * MS, true, &get("/four")));
    let rows = sniff(&frames);
    let answered = rows.lines().into_iter().filter(|l| l.starts_with("answered")).collect::<Vec<_>>();
    assert_eq!(answered, ["answered GET /one 200"]);
    // Nor is it known whether the second one is to a HEAD, so that its length does not say where the third begins.
    assert_eq!(rows.of(ExchangeKind::ReplyOnly).len(), 1);
}

#[test]
fn a_refused_connection_and_a_reset_amid_a_request() {
    let mut tcp = Tcp::new(40000, 80);
    let syn = tcp.raw(MS, true, SYN, 1000, 0, &[]);
    let refusal = tcp.raw(2 * MS, false, RST | ACK, 0, 1001, &[]);
    let refused = sniff(&[syn, refusal]).flow();
    assert_eq!((refused.what, refused.reset_by, refused.syn), (FlowRowKind::Reset, ResetBy::Server, MonoNs(MS)));

    let (mut tcp, mut frames) = simple();
    frames.push(tcp.data(10 * MS, true, &get("/never")));
    frames.push(tcp.raw(11 * MS, true, RST, tcp.seq[0], 0, &[]));
    let rows = sniff(&frames);
    assert_eq!(rows.lines(), ["answered GET /a 200", "unanswered GET /never"]);
    assert_eq!((rows.flow().what, rows.flow().reset_by), (FlowRowKind::Reset, ResetBy::Client));
}

#[test]
fn a_client_that_closes_its_half_still_gets_its_reply() {
    let mut tcp = Tcp::new(40000, 80);
    let mut frames = tcp.open(MS);
    frames.push(tcp.data(2 * MS, true, b"GET / HTTP/1.0\r\n\r\n"));
    frames.push(tcp.fin(3 * MS, true));
    frames.push(tcp.data(5 * MS, false, b"HTTP/1.0 200 OK\r\n\r\nuntil"));
    frames.push(tcp.data(6 * MS, false, b" close"));
    frames.push(tcp.fin(7 * MS, false));
    frames.push(tcp.ack(8 * MS, true));
    let rows = sniff(&frames);
    assert_eq!(rows.lines(), ["answered GET / 200"]);
    let e = rows.exchanges[0];
    assert_eq!((e.reply_how, e.reply_last, e.reply_packets), (MessageEndHow::Close, MonoNs(6 * MS), 2));
    assert_eq!(rows.flow().what, FlowRowKind::Fin);
}

#[test]
fn joined_in_the_middle_the_flow_is_picked_up_where_a_message_begins() {
    let mut tcp = Tcp::new(40000, 12345);
    tcp.seq = [77_000, 99_000];
    let frames = [
        tcp.data(MS, false, b"the rest of a body that began before"),
        tcp.data(2 * MS, true, &get("/first")),
        tcp.data(3 * MS, false, &ok(5)),
        tcp.data(4 * MS, true, &get("/second")),
        tcp.data(5 * MS, false, &ok(5)),
    ];
    let rows = sniff(&frames);
    assert_eq!(rows.lines(), ["answered GET /first 200", "answered GET /second 200"]);
    assert_eq!((rows.flow().side, rows.flow().server_port), (SideHow::Protocol, 12345));
}

#[test]
fn a_reply_too_many_undoes_what_was_paired_on_trial() {
    // Joined while one request was outstanding: its reply looks like that of the next.
    let mut tcp = Tcp::new(40000, 80);
    let mut frames = vec![tcp.data(MS, true, &get("/two")), tcp.data(2 * MS, false, &ok(1))];
    frames.push(tcp.data(3 * MS, true, &get("/three")));
    frames.push(tcp.data(4 * MS, false, &ok(2)));
    frames.push(tcp.data(5 * MS, false, &ok(3)));
    frames.extend(tcp.close(6 * MS));
    let rows = sniff(&frames);
    assert!(rows.of(ExchangeKind::Answered).is_empty(), "{:?}", rows.lines());
    assert_eq!(rows.of(ExchangeKind::ReplyMissed).len(), 2);
    assert_eq!(rows.of(ExchangeKind::ReplyOnly).len(), 3);
}

#[test]
fn packets_cut_to_their_heads_are_framed_by_what_the_heads_say() {
    let mut tcp = Tcp::new(40000, 80);
    let mut frames = tcp.open(MS);
    for i in 0..5 {
        frames.push(tcp.data((2 + 2 * i) * MS, true, &get("/cut")).cut(120));
        let reply = ok(2500);
        for part in reply.chunks(1000) {
            frames.push(tcp.data((3 + 2 * i) * MS, false, part).cut(120));
        }
    }
    let rows = sniff(&frames);
    assert_eq!(rows.lines(), vec!["answered GET /cut 200"; 5]);
    assert_eq!(rows.exchanges[0].reply_packets, 3);
    let e = rows.exchanges[0];
    assert_eq!(u64::from(e.missing_bytes), (e.reply_end - e.reply_start) - 3 * 80);
    assert_eq!(rows.flow().missing_bytes[1], 5 * u64::from(e.missing_bytes));
    assert_eq!(rows.count_of("net.payload_cut"), 1);
    assert_eq!(rows.count_of("net.bytes_missing"), 0);
}

#[test]
fn only_one_direction_is_captured() {
    let mut tcp = Tcp::new(40000, 80);
    let mut frames = Vec::new();
    for i in 0..5 {
        tcp.data((2 + 2 * i) * MS, true, &get("/unseen"));
        frames.push(tcp.data((3 + 2 * i) * MS, false, &ok(10)));
    }
    let rows = sniff(&frames);
    assert_eq!(rows.lines(), vec!["reply only 200"; 5]);
    let requests: Vec<Frame> = {
        let mut tcp = Tcp::new(40000, 80);
        (0..5)
            .map(|i| {
                let frame = tcp.data((2 + 2 * i) * MS, true, &get("/seen"));
                tcp.data((3 + 2 * i) * MS, false, &ok(10));
                frame
            })
            .collect()
    };
    let rows = sniff(&requests);
    assert!(rows.of(ExchangeKind::Answered).is_empty());
    assert_eq!(rows.exchanges.len(), 5, "{:?}", rows.lines());
}

#[test]
fn tls_is_opaque_and_still_counted() {
    let mut tcp = Tcp::new(40000, 443);
    let mut frames = tcp.open(MS);
    frames.push(tcp.data(2 * MS, true, &[22, 3, 1, 0, 100, 1, 0, 0, 96, 3, 3]));
    frames.push(tcp.data(3 * MS, false, &[22, 3, 3, 0, 100, 2]));
    frames.push(tcp.data(4 * MS, true, &[23; 500]));
    frames.extend(tcp.close(5 * MS));
    let rows = sniff(&frames);
    let f = rows.flow();
    assert_eq!((rows.text(f.reason), rows.text(f.protocol)), ("encrypted (TLS)", ""));
    assert_eq!((f.stream_bytes, f.what, f.ack), ([511, 6], FlowRowKind::Fin, MonoNs(MS + 2000)));
}

#[test]
fn dns_answers_come_in_any_order() {
    let (client, server) = (([10, 0, 0, 1], 5000), ([10, 0, 0, 9], 53));
    let message = |id: u8, reply: bool, name: &[u8]| {
        let mut bytes = vec![0, id, if reply { 0x81 } else { 1 }, if reply { 0x80 } else { 0 }, 0, 1, 0, 0, 0, 0, 0, 0];
        bytes.push(name.len() as u8);
        bytes.extend(name);
        bytes.extend([0, 0, 1, 0, 1]);
        bytes
    };
    let frames = [
        udp(MS, client, server, &message(1, false, b"one"), 1),
        udp(2 * MS, client, server, &message(2, false, b"two"), 2),
        udp(2 * MS + 10, client, server, &message(2, false, b"two"), 2), // captured twice
        udp(3 * MS, server, client, &message(2, true, b"two"), 3),
        udp(4 * MS, server, client, &message(9, true, b"nobody"), 4),
        udp(5 * MS, client, server, &message(1, false, b"one"), 5), // asked again
        udp(6 * MS, server, client, &message(1, true, b"one"), 6),
        udp(7 * MS, client, server, &message(3, false, b"three"), 7),
        udp(8 * MS, server, client, &message(3, true, b"other"), 8), // answers another question
    ];
    let rows = sniff(&frames);
    assert_eq!(
        rows.lines(),
        ["answered A two", "reply only A nobody", "answered A one", "reply only A other", "unanswered A three"]
    );
    assert_eq!((rows.exchanges[2].request_first, rows.exchanges[2].request_packets), (MonoNs(MS), 2));
    assert_eq!(rows.count_of("net.duplicate"), 1);
    assert_eq!((rows.flow().packets, rows.flow().server_port), ([4, 4], 53));
}

#[test]
fn after_a_loss_of_the_capture_nobody_knows_that_a_question_had_no_answer() {
    let (client, server) = (([10, 0, 0, 1], 5000), ([10, 0, 0, 9], 53));
    let question = [0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, b'a', 0, 0, 1, 0, 1];
    let mut sniffer = Sniffer::new(Rows::default(), SnifferOptions::default());
    sniffer.packet(&udp(MS, client, server, &question, 1).packet());
    sniffer.lost(MonoNs(MS), MonoNs(2 * MS), 3);
    sniffer.finish();
    assert_eq!(sniffer.out().lines(), ["reply missed A a"]);
}

#[test]
fn an_open_exchange_is_told_again_and_again_and_then_once_more() {
    let mut tcp = Tcp::new(40000, 80);
    let mut sniffer = Sniffer::new(Rows::default(), SnifferOptions::default());
    let mut frames = tcp.open(MS);
    frames.push(tcp.data(2 * MS, true, &get("/slow")));
    frames.iter().for_each(|frame| sniffer.packet(&frame.packet()));
    (1..=13).for_each(|s| sniffer.idle(MonoNs(s * 1000 * MS)));
    assert_eq!(sniffer.out().lines(), vec!["open GET /slow"; 2]);
    sniffer.packet(&tcp.data(13_500 * MS, false, &ok(1)).packet());
    sniffer.finish();
    assert_eq!(sniffer.out().lines().last().unwrap(), "answered GET /slow 200");
    assert_eq!(sniffer.so_far().exchanges, 1);
    let whats: Vec<_> = sniffer.out().flows.iter().map(|f| f.what).collect();
    assert_eq!(whats, [FlowRowKind::Begin, FlowRowKind::Update, FlowRowKind::CaptureEnd]);
}

#[test]
fn memory_is_bounded_by_flows_and_by_held_bytes() {
    let options = SnifferOptions { flows_max: 100, ..SnifferOptions::default() };
    let mut frames = Vec::new();
    for port in 0..1000u16 {
        let mut tcp = Tcp::new(10_000 + port, 80);
        let at = u64::from(port) * MS;
        frames.extend(tcp.open(at));
        frames.push(tcp.data(at + 3000, true, &get("/")));
        frames.push(tcp.data(at + 4000, false, &ok(1)));
    }
    let rows = sniff_with(&frames, options);
    assert_eq!(rows.of(ExchangeKind::Answered).len(), 1000);
    assert_eq!(rows.count_of("net.flows_limit"), 900);
    let flows = rows.last_flows();
    assert_eq!(flows.iter().filter(|f| f.what == FlowRowKind::Forgotten).count(), 900);

    let options = SnifferOptions { held_bytes_max: 10_000, ..SnifferOptions::default() };
    let mut tcp = Tcp::new(40000, 80);
    let mut frames = tcp.open(MS);
    let acked = tcp.seq[0];
    tcp.data(2 * MS, true, &[0; 10]); // not captured, and not acknowledged
    for i in 0..100 {
        frames.push(tcp.data((3 + i) * MS, true, &[b'x'; 1000]));
        frames.push(tcp.raw((3 + i) * MS, false, ACK, tcp.seq[1], acked, &[]));
    }
    let rows = sniff_with(&frames, options);
    assert!(rows.count_of("net.held_limit") >= 1);
    assert_eq!((rows.flow().missing_bytes[0], rows.flow().stream_bytes[0]), (10, 100_010));
}

#[test]
fn what_is_silent_for_long_is_forgotten() {
    let (_, frames) = simple();
    let mut sniffer = Sniffer::new(Rows::default(), SnifferOptions::default());
    frames.iter().for_each(|frame| sniffer.packet(&frame.packet()));
    (1..=30).for_each(|s| sniffer.idle(MonoNs(s * 5000 * MS)));
    assert_eq!(sniffer.out().flow().what, FlowRowKind::Forgotten);
}

#[test]
fn who_asked_across_hosts_is_kept_with_the_request() {
    let mut tcp = Tcp::new(40000, 80);
    let mut frames = tcp.open(MS);
    let request = b"GET / HTTP/1.1\r\ntraceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n\
                    x-request-id: abc\r\n\r\n";
    frames.push(tcp.data(2 * MS, true, request));
    frames.push(tcp.data(3 * MS, false, &ok(1)));
    let e = sniff(&frames).exchanges[0];
    let trace = 0x0af7651916cd43dd8448eb211c80319c_u128.to_be_bytes();
    let fnv = |bytes: &[u8]| {
        let mut hash = FnvHasher::default();
        hash.write(bytes);
        hash.finish()
    };
    assert_eq!((e.trace, e.span, e.request_id), (fnv(&trace), 0xb7ad_6b71_6920_3331, fnv(b"abc") & !1));
}

#[test]
fn an_identifier_that_the_server_made_is_known_from_its_reply() {
    let id_of = |asked: &[u8]| {
        let mut tcp = Tcp::new(40000, 80);
        let mut frames = tcp.open(MS);
        frames.push(tcp.data(2 * MS, true, asked));
        let reply = b"HTTP/1.1 200 OK\r\nX-Request-Id: made\r\nContent-Length: 0\r\n\r\n";
        frames.push(tcp.data(3 * MS, false, reply));
        sniff(&frames).exchanges[0].request_id
    };
    let made = id_of(b"GET / HTTP/1.1\r\n\r\n");
    assert_ne!(made, 0);
    // one that the client had sent is not replaced
    let sent = id_of(b"GET / HTTP/1.1\r\nx-request-id: sent\r\n\r\n");
    assert!(sent != 0 && sent != made);
}

#[test]
fn interim_and_unasked_messages_are_no_replies() {
    let mut tcp = Tcp::new(40000, 80);
    let mut frames = tcp.open(MS);
    frames.push(tcp.data(2 * MS, true, b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"));
    frames.push(tcp.data(3 * MS, false, b"HTTP/1.1 100 Continue\r\n\r\n"));
    frames.push(tcp.data(4 * MS, true, b"ab"));
    frames.push(tcp.data(5 * MS, false, &ok(1)));
    let rows = sniff(&frames);
    assert_eq!(rows.lines(), ["answered POST / 200"]);
    assert_eq!((rows.exchanges[0].interim, rows.exchanges[0].reply_first), (1, MonoNs(5 * MS)));

    let mut tcp = Tcp::new(40001, 5432);
    let mut frames = tcp.open(MS);
    frames.push(tcp.data(2 * MS, true, b"Q\0\0\0\x0dSELECT 1\0"));
    frames.push(tcp.data(3 * MS, false, b"C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I"));
    frames.push(tcp.data(4 * MS, false, b"A\0\0\0\x0b\0\0\0\x01a\0b\0"));
    frames.push(tcp.data(5 * MS, true, b"X\0\0\0\x04"));
    let rows = sniff(&frames);
    assert_eq!(rows.lines(), ["answered SELECT SELECT ?", "unsolicited NOTIFY", "unsolicited TERMINATE TERMINATE"]);
    assert_eq!((rows.exchanges[1].reply_start > 1 << 32, rows.exchanges[1].request_start), (true, OPEN));

    // how HTTP/2 begins asks for nothing
    let mut tcp = Tcp::new(40002, 80);
    let mut frames = tcp.open(MS);
    frames.push(tcp.data(
        2 * MS,
        true,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x03\x01\x05\0\0\0\x01\x82\x86\x84",
    ));
    frames.push(tcp.data(3 * MS, false, b"\0\0\0\x04\0\0\0\0\0\0\0\x01\x01\x05\0\0\0\x01\x88"));
    assert_eq!(sniff(&frames).lines(), ["unsolicited PRI PRI", "answered GET / 200"]);
}

const YEAR: u64 = 365 * 24 * 3600 * 1000 * MS;

#[test]
fn a_packet_with_a_time_of_its_own_disturbs_nothing() {
    let (mut tcp, frames) = simple();
    let all: Vec<Frame> = frames.into_iter().chain(tcp.close(8 * MS)).collect();
    for odd in [0, 20 * YEAR, 500 * YEAR, u64::MAX] {
        for i in 1..all.len() - 1 {
            let mut all: Vec<Frame> = all.iter().map(|f| f.later(YEAR)).collect();
            all[i].at = odd;
            let rows = sniff(&all);
            assert_eq!(rows.lines(), ["answered GET /a 200"], "packet {i} at {odd}");
            assert_eq!((rows.flow().what, rows.last_flows().len()), (FlowRowKind::Fin, 1));
            assert_eq!(rows.count_of("net.time_jumps"), 1);
        }
    }
}

#[test]
fn time_may_jump_by_years_in_either_direction() {
    let (mut tcp, frames) = simple();
    let one: Vec<Frame> = frames.into_iter().chain(tcp.close(8 * MS)).collect();
    let at = |years: u64| one.iter().map(move |f| f.later(years * YEAR));
    let all: Vec<Frame> = at(3).chain(at(250)).chain(at(2)).collect();
    let rows = sniff(&all);
    assert_eq!(rows.lines(), ["answered GET /a 200"; 3]);
    let ended = rows.flows.iter().filter(|f| f.what == FlowRowKind::Fin).count();
    assert_eq!((ended, rows.count_of("net.time_jumps")), (3, 0));
    let took = rows.exchanges.iter().map(|e| e.reply_last.0 - e.request_first.0).collect::<Vec<_>>();
    assert_eq!(took, [3 * MS; 3]);
    // what is open then is not waited for
    let mut open = Tcp::new(40001, 80);
    let mut begun = open.open(MS);
    begun.push(open.data(2 * MS, true, &get("/open")));
    let later = begun.into_iter().chain(one.iter().map(|f| f.later(200 * YEAR)));
    let rows = sniff(&later.collect::<Vec<_>>());
    assert_eq!(rows.lines(), ["open GET /open", "answered GET /a 200"]);
}

#[test]
fn what_carries_no_ip_is_counted_by_its_kind_as_a_flow() {
    let mut sniffer = Sniffer::new(Rows::default(), SnifferOptions::default());
    let ethernet = |kind: u16| [&[0; 12][..], &kind.to_be_bytes(), &[7; 46]].concat();
    for (n, kind) in [0x88e5, 0x7777, 0x88e5, 0x0806, 0x88e5].into_iter().enumerate() {
        let bytes = ethernet(kind);
        let at_ns = MS + n as u64;
        sniffer.packet(&Packet { at_ns, link: link::ETHERNET, interface: 0, length: 60, bytes: &bytes });
    }
    sniffer.finish();
    let seen = sniffer.so_far();
    assert_eq!((seen.packets, seen.not_ip, seen.flows), (5, 5, 3));
    let rows = std::mem::take(sniffer.out());
    let kinds: Vec<_> = rows
        .last_flows()
        .iter()
        .map(|f| (rows.text(f.reason).to_owned(), f.server_port, f.packets[0], f.wire_bytes[0], f.family))
        .collect();
    assert_eq!(
        kinds,
        [
            ("MACsec, encrypted".to_owned(), 0x88e5, 3, 180, 0),
            ("an EtherType that is not known".to_owned(), 0x7777, 1, 60, 0),
            ("ARP".to_owned(), 0x0806, 1, 60, 0),
        ]
    );
    assert!(rows.defects.is_empty(), "{:?}", rows.defects);
}
