use super::*;
use crate::sink::pushed::Pushed;
use wakepath_model::rows::MessageRole;

const ID: EndpointId = EndpointId(1);

/// A connection as one end sees it, and what was told of it.
struct End {
    flow: Flow,
    rows: Pushed,
    at: u64,
    /// When the calls began whose plaintext is told; 0 = not known.
    began: u64,
    /// Received, sent.
    moved: [u64; 2],
}

/// A record around this many bytes, with what TLS 1.3 adds.
fn record(plain: usize) -> Vec<u8> {
    let length = plain + 17;
    let mut out = vec![23, 3, 3, (length >> 8) as u8, length as u8];
    out.resize(5 + length, 0xaa);
    out
}

fn handshake(bytes: u16) -> Vec<u8> {
    let mut out = vec![22, 3, 3];
    out.extend(bytes.to_be_bytes());
    out.resize(5 + usize::from(bytes), 1);
    out
}

impl End {
    fn new(side: Side) -> End {
        let mut flow = Flow::new(side, (443, 40_000), false);
        let mut rows = Pushed::default();
        flow.in_clear(ID, MonoNs(0), false, &mut rows);
        End { flow, rows, at: 0, began: 0, moved: [1000, 1000] }
    }

    /// Ciphertext moves in one operation, of which at most `head` bytes were captured.
    fn cipher_head(&mut self, sent: bool, bytes: &[u8], head: usize) {
        let from = self.moved[usize::from(sent)];
        self.moved[usize::from(sent)] = from + bytes.len() as u64;
        self.at += 1;
        let moved = from..from + bytes.len() as u64;
        self.flow.bytes(ID, MonoNs(self.at), sent, moved, &bytes[..bytes.len().min(head)], &mut self.rows);
    }

    fn cipher(&mut self, sent: bool, bytes: &[u8]) {
        self.cipher_head(sent, bytes, 4096);
    }

    /// Reads a header and what follows it apart, as OpenSSL does.
    fn reads(&mut self, record: &[u8]) {
        self.cipher(false, &record[..5]);
        self.cipher(false, &record[5..]);
    }

    fn plain(&mut self, sent: bool, text: &[u8], room: usize) -> Option<u64> {
        self.told_plain(sent, text, text.len() == room, None)
    }

    fn told_plain(&mut self, sent: bool, text: &[u8], is_filled: bool, record: Option<u64>) -> Option<u64> {
        self.at += 1;
        let said = Plaintext {
            at: MonoNs(self.at),
            began: MonoNs(self.began),
            sent,
            bytes: text.len() as u64,
            is_filled,
            head: text.to_vec(),
            goes_on: false,
            record,
        };
        self.flow.plain_bytes(ID, said, &mut self.rows)
    }

    /// Role, start and end of each message, and the ends that came later; of the handshake nothing.
    fn told(&self) -> Vec<(MessageRole, u64, u64)> {
        let mut told: Vec<(MessageRole, u64, u64)> = Vec::new();
        for row in &self.rows.0 {
            match row {
                Event::Message(m) if matches!(m.role, MessageRole::Request | MessageRole::Reply) => {
                    told.push((m.role, m.start, m.end));
                }
                Event::MessageEnd(e) if e.end != OPEN => {
                    told.iter_mut().filter(|m| m.1 == e.start && m.2 == OPEN).for_each(|m| m.2 = e.end);
                }
                _ => {}
            }
        }
        told
    }
}

const GET: &[u8] = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n";
const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[test]
fn both_ends_number_a_message_alike_though_tickets_lie_between() {
    let ticket = record(238);
    let (request, reply) = (record(GET.len()), record(OK.len()));
    let (len, cut) = (request.len() as u64, GET.len() - 10);
    let mut server = End::new(Side::Server);
    server.cipher(true, &ticket);
    let mut client = End::new(Side::Client);
    for _ in 0..2 {
        // a reader with little room, and a writer by memory, whose plaintext is known before its records
        server.reads(&request);
        assert!(server.plain(false, &GET[..cut], cut).is_some());
        assert!(server.plain(false, &GET[cut..], cut).is_some());
        assert_eq!(server.plain(true, OK, OK.len()), None, "not sent yet");
        server.cipher(true, &reply);
        client.cipher(true, &request);
        assert!(client.plain(true, GET, GET.len()).is_some());
        if client.moved[0] == 1000 {
            client.reads(&ticket);
        }
        client.reads(&reply);
        assert!(client.plain(false, OK, 4096).is_some());
    }
    let (ticket, answer) = (ticket.len() as u64, reply.len() as u64);
    let expected = vec![
        (MessageRole::Request, 1000, 1000 + len),
        (MessageRole::Reply, 1000 + ticket, 1000 + ticket + answer),
        (MessageRole::Request, 1000 + len, 1000 + 2 * len),
        (MessageRole::Reply, 1000 + ticket + answer, 1000 + ticket + 2 * answer),
    ];
    assert_eq!((server.told(), client.told()), (expected.clone(), expected));
}

#[test]
fn what_a_library_tells_of_each_record_is_not_taken_for_what_moved_before() {
    let answer = [&b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"[..], &[b'x'; 500]].concat();
    // by lengths alone it could be of the first, with CBC, and of the second
    let before = [record(answer.len() + 100), record(answer.len())].concat();
    let reply = record(answer.len());
    let mut server = End::new(Side::Server);
    server.cipher(true, &before);
    assert_eq!(server.told_plain(true, &answer, false, Some(0)), None, "not sent yet");
    server.cipher(true, &reply);
    let starts: Vec<u64> = server.told().iter().map(|told| told.1).collect();
    assert_eq!(starts, [1000 + before.len() as u64]);

    let certificate = record(answer.len() + 100);
    let mut client = End::new(Side::Client);
    client.cipher(false, &[&certificate[..], &reply].concat());
    let is_of = Some(reply.len() as u64);
    assert_eq!(client.told_plain(false, &answer, false, is_of), Some(1000 + certificate.len() as u64));
    assert_eq!(client.told_plain(false, &answer, false, is_of), None, "no such record is left");
}

#[test]
fn one_call_may_fill_many_records_and_many_calls_one_operation() {
    let head = b"POST /a HTTP/1.1\r\nContent-Length: 40000\r\n\r\n".as_slice();
    let body = vec![b'x'; 40_000];
    let records = [record(head.len()), record(16_384), record(16_384), record(40_000 - 2 * 16_384)];
    let all: u64 = records.iter().map(|r| r.len() as u64).sum();
    let mut client = End::new(Side::Client);
    client.cipher(true, &records[0]);
    assert!(client.plain(true, head, head.len()).is_some());
    for r in &records[1..] {
        client.cipher(true, r);
    }
    assert!(client.plain(true, &body, body.len()).is_some());
    // the other end reads ahead, and gets all of it in three operations
    let mut server = End::new(Side::Server);
    let stream = records.concat();
    for part in stream.chunks(20_000) {
        server.cipher_head(false, part, part.len());
    }
    assert!(server.plain(false, head, 4096).is_some());
    for part in [16_384, 16_384, 40_000 - 2 * 16_384] {
        assert!(server.plain(false, &body[..part], 20_000).is_some());
    }
    let expected = vec![(MessageRole::Request, 1000, 1000 + all)];
    assert_eq!((client.told(), server.told()), (expected.clone(), expected));
}

#[test]
fn what_does_not_fit_is_not_joined() {
    let opaque = |end: &End| end.rows.0.iter().any(|r| matches!(r, Event::FlowNote(n) if n.protocol == StrId::EMPTY));
    let mut server = End::new(Side::Server);
    // nothing is known yet: what comes later may fit
    server.reads(&record(GET.len() + 1));
    assert_eq!(server.plain(false, GET, 4096), None);
    assert!(!opaque(&server));
    let from = server.moved[0];
    server.reads(&record(GET.len()));
    assert_eq!(server.plain(false, GET, 4096), Some(from));
    // from here on lengths are known: after one that does not fit, nothing is
    server.reads(&record(GET.len() + 1));
    assert_eq!(server.plain(false, GET, 4096), None);
    server.reads(&record(GET.len()));
    assert_eq!(server.plain(false, GET, 4096), None);
    assert!(opaque(&server) && server.told().len() == 1);
}

#[test]
fn plaintext_of_another_connection_fits_none_of_its_records() {
    let mut server = End::new(Side::Server);
    server.reads(&record(GET.len()));
    assert!(server.plain(false, GET, 4096).is_some());
    // no record came since
    assert_eq!(server.plain(false, GET, 4096), None);
    assert_eq!(server.told().len(), 1);
}

#[test]
fn a_handshake_is_no_request() {
    let mut server = End::new(Side::Server);
    server.reads(&handshake(300));
    server.cipher(true, &handshake(800));
    server.reads(&record(36));
    server.reads(&record(GET.len()));
    assert_eq!(server.plain(false, GET, 4096), Some(1000 + 305 + 58));
    assert_eq!(server.told().len(), 1);
}

#[test]
fn a_record_of_the_handshake_is_not_taken_for_what_another_cipher_makes_of_the_first_plaintext() {
    let mut server = End::new(Side::Server);
    // TLS 1.3 with SHA-384: Finished is as long as TLS 1.2 with GCM would make the first request's record
    let (finished, request) = (record(52), record(GET.len() + 17));
    assert_eq!(finished.len() - 5, 45 + 24);
    let padded = [GET, &[b' '; 17]].concat();
    assert_eq!(padded.len(), 45);
    server.cipher(false, &[&handshake(300)[..], &finished, &request].concat());
    assert_eq!(server.plain(false, &padded, 4096), Some(1000 + 305 + finished.len() as u64));
}

#[test]
fn the_longest_record_is_read_whole_though_its_reader_had_room_for_no_more() {
    let head = b"POST /a HTTP/1.1\r\nContent-Length: 20000\r\n\r\n";
    let post = [&head[..], &[b'x'; 20_000]].concat();
    let (first, rest) = post.split_at(16_384);
    let records = [handshake(300), record(52), record(first.len()), record(rest.len())].concat();
    let mut server = End::new(Side::Server);
    server.cipher_head(false, &records, records.len());
    assert_eq!(server.plain(false, first, 16_384), Some(1000 + 305 + 74));
    assert!(server.plain(false, rest, 16_384).is_some());
    assert_eq!(server.told(), [(MessageRole::Request, 1000 + 305 + 74, 1000 + records.len() as u64)]);
}

#[test]
fn plaintext_is_in_no_record_that_was_sent_before_it() {
    let mut client = End::new(Side::Client);
    // of the first request nothing was told but its record
    client.cipher(true, &record(GET.len()));
    client.reads(&record(OK.len()));
    assert!(client.plain(false, OK, 100).is_some());
    // the next is as long: its record comes after it
    client.began = client.at + 1;
    let second = client.moved[1];
    assert_eq!(client.plain(true, GET, 0), None, "not sent yet");
    client.cipher(true, &record(GET.len()));
    let requests: Vec<_> = client.told().into_iter().filter(|m| m.0 == MessageRole::Request).collect();
    assert_eq!(requests, [(MessageRole::Request, second, client.moved[1])]);
    // it is told when it is sent, not when it is written to memory: before, another task may have sent on the connection
    let is_request = |m: &&MessageRow| m.role == MessageRole::Request;
    let rows = client.rows.0.iter().filter_map(|row| if let Event::Message(m) = row { Some(m) } else { None });
    assert_eq!(rows.filter(is_request).map(|m| m.at.0).collect::<Vec<_>>(), [client.at]);
}

#[test]
fn what_waits_for_records_that_were_missed_is_given_up() {
    let mut client = End::new(Side::Client);
    assert_eq!(client.plain(true, GET, 0), None);
    client.cipher(true, &record(GET.len()));
    client.reads(&record(OK.len()));
    assert!(client.plain(false, OK, 100).is_some());
    // the record of the second was lost, and the third's is as long
    assert_eq!(client.plain(true, b"GET /b HTTP/1.1\r\nHost: h\r\n\r\n", 0), None);
    client.moved[1] += record(GET.len()).len() as u64;
    assert_eq!(client.plain(true, b"GET /c HTTP/1.1\r\nHost: h\r\n\r\n", 0), None);
    client.cipher(true, &record(GET.len()));
    client.cipher(true, &record(GET.len()));
    let requests = client.told().into_iter().filter(|m| m.0 == MessageRole::Request).count();
    assert_eq!(requests, 1, "{:?}", client.told());
}
