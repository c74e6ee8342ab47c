//! Streams of one connection: requests that begin without a change of direction.

use crate::harness::*;
use crate::net::*;
use std::io::Read as _;
use wakepath_model::ids::EndpointId;
use wakepath_model::rows::{MessageRole, MessageRow};

/// Requests in one burst: more bytes than are taken of other protocols before a flow turns.
const BURST: u32 = 60;
/// Requests that are each answered before the next one.
const TURNS: u32 = 40;

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, block: &[u8]) -> Vec<u8> {
    let length = block.len() as u32;
    let mut out = length.to_be_bytes()[1..].to_vec();
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(block);
    out
}

/// The n-th request: `GET /` with a long field of its own, which no table keeps.
fn request(n: u32) -> Vec<u8> {
    let mut block = vec![0x82, 0x86, 0x84, 0x00, 1, b'x', 40];
    block.extend([b'y'; 40]);
    frame(1, 5, 2 * n + 1, &block)
}

/// Its response: 200.
fn response(n: u32) -> Vec<u8> {
    frame(1, 5, 2 * n + 1, &[0x88])
}

fn passes(from: &impl std::os::fd::AsRawFd, to: &impl std::os::fd::AsRawFd, bytes: &[u8]) {
    send_by("write", from, bytes);
    assert_eq!(recv_by("read", to, bytes.len()), bytes);
}

/// A connection that is open for streams: client, server.
fn connection() -> (std::net::TcpStream, std::net::TcpStream) {
    let (a, b) = tcp_pair();
    open(&a, &b);
    (a, b)
}

/// Opens a connection for streams.
fn open(client: &impl std::os::fd::AsRawFd, server: &impl std::os::fd::AsRawFd) {
    let mut preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    preface.extend(frame(4, 0, 0, &[]));
    passes(client, server, &preface);
    passes(server, client, &frame(4, 0, 0, &[]));
}

#[test]
fn a_burst_of_streams_is_seen_whole() {
    for backend in BACKENDS {
        let Some(rec) = record(backend, &[]) else { continue };
        let (a, b) = connection();
        (0..BURST).for_each(|n| passes(&a, &b, &request(n)));
        (0..BURST).for_each(|n| passes(&b, &a, &response(n)));
        for n in BURST..BURST + TURNS {
            passes(&a, &b, &request(n));
            passes(&b, &a, &response(n));
        }
        let (fa, fb) = (ids(&a), ids(&b));
        let trace = rec.stop();
        for flow in [trace.flow(fa), trace.flow(fb)] {
            let count = |of| trace.messages.iter().filter(|m| m.flow == flow && m.role == of).count() as u32;
            assert_eq!(
                (count(MessageRole::Request), count(MessageRole::Reply)),
                (BURST + TURNS, BURST + TURNS),
                "{backend}"
            );
        }
    }
}

/// A request with a body: its HEADERS, and DATA of so many bytes that begin like a frame.
fn upload(n: u32, body: usize) -> Vec<u8> {
    let mut out = frame(1, 4, 2 * n + 1, &[0x83, 0x86, 0x84]);
    out.extend(frame(0, 1, 2 * n + 1, &frame(1, 5, 1, &[0x82]).repeat(body)[..body]));
    out
}

/// grpc-go writes what many streams say at once, and reads up to 32 KiB at once: frames stand anywhere in that, and most of it may be
/// bodies, which are not taken.
#[test]
fn streams_in_long_operations_are_seen_whole() {
    const STREAMS: u32 = 300;
    for backend in BACKENDS {
        let Some(rec) = record(backend, &["--payload", "heads"]) else { continue };
        let (a, b) = connection();
        let short: Vec<u8> = (0..STREAMS).flat_map(request).collect();
        let long: Vec<u8> = (0..20).flat_map(|n| upload(STREAMS + n, 16_384 - 64 * n as usize)).collect();
        for (bytes, sent, read) in [(&short, 1 << 20, 1 << 20), (&long, 32 << 10, 5_003), (&short, 4_100, 10_007)] {
            let mut reader = b.try_clone().expect("a second descriptor");
            let (count, mut room) = (bytes.len(), vec![0_u8; read]);
            let got = std::thread::spawn(move || {
                let mut got: Vec<u8> = Vec::new();
                while got.len() < count {
                    let n = reader.read(&mut room).expect("it reads");
                    got.extend(&room[..n]);
                }
                got
            });
            bytes.chunks(sent).for_each(|part| send_by("write", &a, part));
            assert_eq!(&got.join().expect("it read all"), bytes);
        }
        let (fa, fb) = (ids(&a), ids(&b));
        let trace = rec.stop();
        for flow in [trace.flow(fa), trace.flow(fb)] {
            let count =
                trace.messages.iter().filter(|m| m.flow == flow && m.role == MessageRole::Request).count() as u32;
            assert_eq!(count, 2 * STREAMS + 20, "{backend}");
        }
        // who writes 32 KiB at once
        let taken: usize = trace.heads.iter().filter(|h| h.sent).map(|h| h.bytes.len()).sum();
        assert!(taken < 3 * short.len() + long.len() / 4, "{backend}: {taken}");
        // who reads the long ones 5,003 bytes at once: two of four reads lie within a body
        let taken: usize = trace.heads.iter().filter(|h| !h.sent).map(|h| h.bytes.len()).sum();
        assert!(taken < 3 * short.len() + long.len() / 2, "{backend}: {taken}");
        assert_eq!(trace.lost("protocol.framing_lost"), 0, "{backend}");
    }
}

/// gRPC within a host may use a UNIX socket, whose state the kernel programs keep elsewhere.
#[test]
fn streams_in_long_operations_on_a_unix_socket_are_seen_whole() {
    const STREAMS: u32 = 40;
    for backend in BACKENDS {
        let Some(rec) = record(backend, &[]) else { continue };
        let (a, b) = std::os::unix::net::UnixStream::pair().expect("a pair");
        open(&a, &b);
        let bytes: Vec<u8> = (0..STREAMS).flat_map(|n| upload(n, 16_384 - 64 * n as usize)).collect();
        bytes.chunks(32 << 10).for_each(|part| passes(&a, &b, part));
        let (fa, fb) = (ids(&a), ids(&b));
        let trace = rec.stop();
        for flow in [trace.flow(fa), trace.flow(fb)] {
            let count =
                trace.messages.iter().filter(|m| m.flow == flow && m.role == MessageRole::Request).count() as u32;
            assert_eq!(count, STREAMS, "{backend}");
        }
        assert_eq!(trace.lost("protocol.framing_lost"), 0, "{backend}");
    }
}

/// Clients that share a connection to Redis write a few commands at once, and the server reads what many of them wrote, up to 16 KiB. The
/// first reply is a list, whose end is known after the heads of the others.
#[test]
fn commands_that_are_read_at_once_are_seen_whole() {
    const COMMANDS: usize = 80;
    let command = format!("*3\r\n$6\r\nLRANGE\r\n$160\r\n{}\r\n$1\r\n0\r\n", "k".repeat(160));
    let replies = format!("*2\r\n$1\r\na\r\n$1\r\nb\r\n{}", ":1\r\n".repeat(COMMANDS - 1));
    for backend in BACKENDS {
        let Some(rec) = record(backend, &[]) else { continue };
        let (a, b) = tcp_pair();
        for _ in 0..3 {
            (0..COMMANDS).for_each(|_| send_by("write", &a, command.as_bytes()));
            assert_eq!(recv_by("read", &b, COMMANDS * command.len()).len(), COMMANDS * command.len());
            passes(&b, &a, replies.as_bytes());
        }
        let (fa, fb) = (ids(&a), ids(&b));
        let trace = rec.stop();
        for flow in [trace.flow(fa), trace.flow(fb)] {
            let of = |role| trace.messages.iter().filter(|m| m.flow == flow && m.role == role).count();
            assert_eq!((of(MessageRole::Request), of(MessageRole::Reply)), (3 * COMMANDS, 3 * COMMANDS), "{backend}");
        }
        assert_eq!(trace.lost("protocol.framing_lost"), 0, "{backend}");
    }
}

/// Requests on a connection from before the recording, whose names stand in a table that nobody saw, and which are read as net/http's
/// server does: each frame's header, and then the rest.
#[test]
fn the_first_streams_on_an_old_connection_are_seen() {
    for backend in BACKENDS {
        let Some((rec, (a, b))) = record_behind(backend, connection) else { continue };
        for n in 0..BURST {
            let request =
                frame(1, 5, 2 * n + 1, &[&[0xbe, 0x83, 0x86, 0xbf, 0, 1, b'x', 40], &[b'y'; 40][..]].concat());
            send_by("write", &a, &request);
            assert_eq!(recv_by("read", &b, 9), request[..9]);
            assert_eq!(recv_by("read", &b, request.len() - 9), request[9..]);
        }
        let (fa, fb) = (ids(&a), ids(&b));
        let trace = rec.stop();
        for flow in [trace.flow(fa), trace.flow(fb)] {
            let count =
                trace.messages.iter().filter(|m| m.flow == flow && m.role == MessageRole::Request).count() as u32;
            assert_eq!(count, BURST, "{backend}");
        }
        assert_eq!(trace.lost("protocol.framing_lost"), 0, "{backend}");
    }
}

/// A library that writes for many streams at once gives each frame as buffers of its own; its peer reads them all at once.
#[test]
fn a_burst_in_many_buffers_is_seen_whole() {
    // 3,920 bytes, more than are taken of one message
    const STREAMS: u32 = 70;
    for backend in BACKENDS {
        let Some(rec) = record(backend, &[]) else { continue };
        let (a, b) = connection();
        let requests: Vec<u8> = (0..STREAMS).flat_map(request).collect();
        let responses: Vec<u8> = (0..STREAMS).flat_map(response).collect();
        // 980, nearly as many as a call may have
        send_in_buffers(&a, &requests, 4);
        assert_eq!(recv_by("read", &b, requests.len()), requests);
        send_in_buffers(&b, &responses, 2);
        assert_eq!(recv_by("read", &a, responses.len()), responses);
        let (fa, fb) = (ids(&a), ids(&b));
        let trace = rec.stop();
        for flow in [trace.flow(fa), trace.flow(fb)] {
            let count = |of| trace.messages.iter().filter(|m| m.flow == flow && m.role == of).count() as u32;
            assert_eq!((count(MessageRole::Request), count(MessageRole::Reply)), (STREAMS, STREAMS), "{backend}");
        }
    }
}

/// A message published to the exchange `shop`: method, header and body, 102 bytes.
fn publish() -> Vec<u8> {
    let mut out = b"\x01\0\x01\0\0\0\x0f\0<\0(\0\0\x04shop\x02rk\0\xce".to_vec();
    out.extend(b"\x02\0\x01\0\0\0\x0e\0<\0\0\0\0\0\0\0\0\0\x28\0\0\xce\x03\0\x01\0\0\0\x28");
    out.extend([b'x'; 40]);
    out.push(0xce);
    out
}

/// Nobody confirms: the connection never turns.
#[test]
fn messages_published_without_confirms_are_seen_whole() {
    for backend in BACKENDS {
        let Some(rec) = record(backend, &[]) else { continue };
        let (a, b) = tcp_pair();
        passes(&a, &b, b"AMQP\0\0\x09\x01");
        passes(&b, &a, b"\x01\0\0\0\0\0\x0c\0\n\0\x1e\x07\xff\0\x02\0\0\0<\xce");
        (0..BURST).for_each(|_| passes(&a, &b, &publish()));
        let (fa, fb) = (ids(&a), ids(&b));
        let trace = rec.stop();
        for flow in [trace.flow(fa), trace.flow(fb)] {
            let published = |m: &&_| is_published(&trace, flow, m);
            assert_eq!(trace.messages.iter().filter(published).count() as u32, BURST, "{backend}");
        }
    }
}

/// On a connection from before the recording, the recorder tells the kernel's programs what it speaks: until then 1,024 bytes
/// are taken.
#[test]
fn what_is_published_on_an_old_connection_is_found_again() {
    for backend in BACKENDS {
        let Some((rec, (a, b))) = record_behind(backend, tcp_pair) else { continue };
        passes(&a, &b, &publish());
        pause(500);
        (1..BURST).for_each(|_| passes(&a, &b, &publish()));
        let (fa, fb) = (ids(&a), ids(&b));
        let trace = rec.stop();
        for flow in [trace.flow(fa), trace.flow(fb)] {
            let published = |m: &&_| is_published(&trace, flow, m);
            let count = trace.messages.iter().filter(published).count() as u32;
            assert!(count >= BURST - 3, "{backend}: {count}");
        }
    }
}

fn is_published(trace: &Trace, flow: EndpointId, m: &MessageRow) -> bool {
    m.flow == flow && m.role == MessageRole::Request && trace.text(m.verb) == "basic.publish"
}
