//! Pipes, and pairs of sockets of which nobody tells which end asks: bytes go one way, and what answers them may come by another. What is
//! sent is read; which of it asks, and which answers, its messages say. Who reads it reads the same bytes.

use super::{Flow, ProtocolState};
use crate::RowSink;
use std::ops::Range;
use wakepath_model::ids::{EndpointId, MonoNs};
use wakepath_model::rows::Side;
use wakepath_protocols::{Likely, Protocol, Transport, Verdict, recognise};

/// How many writes to a pipe are looked at until nobody looks any more: most pipes carry a log, or nothing that is read here.
const WRITES: u8 = 16;

impl Flow {
    /// Bytes were sent on a pipe. Of protocols only those are known whose messages themselves say whether they ask.
    pub fn piped<S: RowSink>(&mut self, id: EndpointId, at: MonoNs, moved: Range<u64>, head: &[u8], sink: &mut S) {
        self.is_lane = true;
        let ProtocolState::Listening(listening) = &mut self.state else {
            return self.read(id, at, true, moved, head, sink);
        };
        let goes_on = listening.goes_on(moved.start);
        let mut begun = if goes_on { std::mem::take(&mut listening.begun) } else { Vec::new() };
        let begun_at = moved.start - begun.len() as u64;
        begun.extend_from_slice(head);
        let verdict = recognise(Transport::Stream, None, &begun, (0, 0), &mut Likely::default());
        if let Verdict::Protocol(protocol @ Protocol::JsonRpc, dir) = verdict {
            self.know(id, at, protocol, dir, true, sink);
            return self.read(id, at, true, begun_at..moved.end, &begun, sink);
        }
        if listening.writes == WRITES {
            self.state = ProtocolState::Opaque;
            return sink.quiet(id);
        }
        listening.writes += 1;
        let is_whole = head.len() as u64 == moved.end - moved.start && begun.len() <= super::BEGUN_MAX;
        if verdict == Verdict::NeedMore && is_whole {
            (listening.begun, listening.begun_at) = (begun, begun_at);
        }
    }

    /// Whether what it says is read.
    pub fn is_known(&self) -> bool {
        matches!(self.state, ProtocolState::Known(_))
    }

    /// Whether a protocol that its bytes showed makes it two ways for messages, not a connection: one of a pair of sockets, where
    /// messages themselves say whether they ask.
    pub(super) fn becomes_lane(&self, protocol: Protocol) -> bool {
        protocol == Protocol::JsonRpc && self.side == Side::Unknown && self.asker.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::pushed::Pushed;
    use wakepath_model::rows::Table;

    #[test]
    fn a_pipe_whose_messages_say_what_they_are_is_read_and_no_other() {
        let (mut flow, mut rows) = (Flow::new(Side::Unknown, (0, 0), false), Pushed::default());
        let mut at = 0;
        let mut write = |head: &[u8]| {
            let moved = at..at + head.len() as u64;
            at = moved.end;
            flow.piped(EndpointId(1), MonoNs(at), moved, head, &mut rows);
            rows.tables()
        };
        assert_eq!(write(b"GET / HTTP/1.1\r\n\r\n"), []);
        assert_eq!(write(b"Content-Length: 41\r\n\r\n"), []);
        assert_eq!(write(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"    }"), [Table::FlowNote, Table::Message]);
        assert_eq!(write(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":2}\n"), [Table::Message]);
    }

    #[test]
    fn a_pipe_of_something_else_is_soon_left_alone() {
        let (mut flow, mut rows) = (Flow::new(Side::Unknown, (0, 0), false), Pushed::default());
        let mut is_left = |n: u64| {
            flow.piped(EndpointId(1), MonoNs(n), n * 10..n * 10 + 10, b"a log line", &mut rows);
            matches!(flow.state, ProtocolState::Opaque)
        };
        assert!((0..u64::from(WRITES)).all(|n| !is_left(n)));
        assert!(is_left(u64::from(WRITES)));
        assert_eq!(rows.tables(), []);
    }
}
