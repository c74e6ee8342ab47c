//! Flows that go on in another protocol: after a tunnel's CONNECT, and after `101 Switching Protocols`. And what a flow speaks, told again.

use super::{Flow, Listening, ProtocolState};
use crate::RowSink;
use std::ops::Range;
use wakepath_model::ids::{EndpointId, MonoNs, StrId};
use wakepath_model::rows::{FlowNoteRow, Side};
use wakepath_protocols::{Dir, Protocol, Upgrade};

impl Flow {
    /// The note again, for a segment that must stand alone.
    pub fn restate<S: RowSink>(&self, id: EndpointId, at: MonoNs, sink: &mut S) {
        if let Some(protocol) = self.known_in_clear().or(self.known.map(|(_, name)| name)) {
            sink.push(&FlowNoteRow { at, flow: id, protocol, reason: StrId::EMPTY, ..Default::default() });
        }
    }

    /// From byte `pos` on the flow speaks another protocol, perhaps in the same operation, which moved these bytes.
    pub(super) fn upgrade<S: RowSink>(
        &mut self,
        id: EndpointId,
        at: MonoNs,
        sent: bool,
        (to, pos): (Upgrade, u64),
        (moved, head): (Range<u64>, &[u8]),
        sink: &mut S,
    ) {
        let dir = if sent == (self.side == Side::Client) { Dir::ToServer } else { Dir::ToClient };
        match to {
            Upgrade::Other => return,
            Upgrade::Tunnel => {
                (self.state, self.known, self.is_tls) = (ProtocolState::Listening(Listening::new()), None, false);
            }
            Upgrade::WebSocket => self.know(id, at, Protocol::WebSocket, dir, sent, sink),
            Upgrade::Http2 => self.know(id, at, Protocol::Http2, dir, sent, sink),
        }
        // whoever speaks next begins
        self.last_sent = None;
        let rest = head.get((pos - moved.start) as usize..).unwrap_or(&[]);
        if !rest.is_empty() {
            self.read(id, at, sent, pos..moved.end, rest, sink);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TaskFacts;
    use crate::recurring::Said;
    use wakepath_model::intern::Interner;
    use wakepath_model::rows::{Event, MessageRole, Row};

    /// Protocol, verb and role of each message, and the number of its stream.
    #[derive(Default)]
    struct Messages(Vec<(String, String, MessageRole, u64)>, Interner);

    impl RowSink for Messages {
        fn push<R: Row>(&mut self, row: &R) {
            if let Some(Event::Message(r)) = Event::read(R::TABLE, bytemuck::bytes_of(row)) {
                let text = |id| String::from_utf8_lossy(self.1.get(id).unwrap_or_default()).into_owned();
                let said = (text(r.protocol), text(r.verb), r.role, r.witness);
                self.0.push(said);
            }
        }
        fn push_head(&mut self, _: MonoNs, _: EndpointId, _: u64, _: bool, _: &[u8]) {}
        fn count(&mut self, _: &'static str, _: MonoNs) {}
        fn intern(&mut self, text: &[u8]) -> StrId {
            self.1.intern(text)
        }
        fn said(&mut self, text: &str, _: &Said) -> StrId {
            self.intern(text.as_bytes())
        }
        fn describe(&mut self, _: u32, _: u32) -> TaskFacts {
            TaskFacts::default()
        }
    }

    /// The messages of a client's flow, where it sends (true) and receives these.
    fn messages(steps: &[(bool, &[u8])]) -> Vec<(String, String, MessageRole, u64)> {
        let (mut flow, mut sink) = (Flow::new(Side::Client, (40_000, 8080), false), Messages::default());
        let mut at = [1 << 32, 1 << 32];
        for (i, &(sent, bytes)) in steps.iter().enumerate() {
            let start = at[usize::from(sent)];
            at[usize::from(sent)] += bytes.len() as u64;
            let moved = start..at[usize::from(sent)];
            flow.bytes(EndpointId(1), MonoNs(i as u64 + 1), sent, moved, bytes, &mut sink);
        }
        sink.0
    }

    /// What it asks.
    fn said(steps: &[(bool, &[u8])]) -> Vec<(String, String)> {
        messages(steps).into_iter().filter(|m| m.2 == MessageRole::Request).map(|m| (m.0, m.1)).collect()
    }

    fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
        of.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
    }

    #[test]
    fn what_goes_through_a_tunnel_is_read() {
        let steps: &[(bool, &[u8])] = &[
            (true, b"CONNECT shop:80 HTTP/1.1\r\nHost: shop\r\n\r\n"),
            (false, b"HTTP/1.1 200 OK\r\n\r\n"),
            (true, b"GET /a HTTP/1.1\r\nHost: shop\r\n\r\n"),
            (false, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
            (true, b"GET /b HTTP/1.1\r\nHost: shop\r\n\r\n"),
        ];
        let http = "proto.http1";
        assert_eq!(said(steps), pairs(&[(http, "CONNECT"), (http, "GET"), (http, "GET")]));
    }

    #[test]
    fn messages_after_a_handshake_are_requests() {
        let steps: &[(bool, &[u8])] = &[
            (true, b"GET /chat HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"),
            (false, b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n\x81\x02hi"),
            (true, b"\x81\x82\x01\x02\x03\x04ab"),
            (false, b"\x81\x02ok"),
            (true, b"\x81\x82\x01\x02\x03\x04ab"),
        ];
        let websocket = ("proto.websocket", "text");
        assert_eq!(said(steps), pairs(&[("proto.http1", "GET"), websocket, websocket]));
    }

    #[test]
    fn the_request_that_offered_http2_is_answered_as_stream_1() {
        const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";
        let takes = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n";
        let steps: &[(bool, &[u8])] = &[
            (true, b"GET /a HTTP/1.1\r\nHost: shop\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n"),
            // at once, as servers do, or the handshake alone
            (false, &[takes, SETTINGS].concat()),
            (true, &[b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", SETTINGS].concat()),
            // `:status 200`, and the stream ends
            (false, b"\0\0\x01\x01\x05\0\0\0\x01\x88"),
            // `:method GET`, `:scheme http`, `:path /`: stream 3
            (true, b"\0\0\x03\x01\x05\0\0\0\x03\x82\x86\x84"),
            (false, b"\0\0\x01\x01\x05\0\0\0\x03\x88"),
        ];
        let (http1, http2) = ("proto.http1", "proto.http2");
        assert_eq!(said(steps), pairs(&[(http1, "GET"), (http2, "GET")]), "the handshake is no request of its own");
        let of = |role| messages(steps).into_iter().filter(|m| m.2 == role).map(|m| (m.0, m.3)).collect::<Vec<_>>();
        assert_eq!(of(MessageRole::Reply), [(http2.to_owned(), 1), (http2.to_owned(), 3)]);
        assert_eq!(of(MessageRole::Interim), [(http1.to_owned(), 0)]);
    }
}
