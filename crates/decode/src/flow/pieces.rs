//! Bytes of an operation that were taken after its head, piece by piece.

use super::{Flow, Out, ProtocolState, Rest};
use crate::RowSink;
use std::ops::Range;
use wakepath_model::ids::{EndpointId, MonoNs};

impl Flow {
    /// As [`Flow::bytes`], where more was taken than the head: it comes with [`Flow::more`].
    pub fn bytes_and_more<S: RowSink>(
        &mut self,
        id: EndpointId,
        at: MonoNs,
        sent: bool,
        moved: Range<u64>,
        head: &[u8],
        sink: &mut S,
    ) {
        let behind = moved.start + head.len() as u64;
        self.bytes(id, at, sent, moved.start..behind, head, sink);
        self.rest = Some(Rest { at, sent, moved });
    }

    /// A piece of the last operation, which returned at `at`, from its byte `from` on; `is_last`: none follows. Where it was that
    /// operation's, which direction and which place it has.
    pub fn more<S: RowSink>(
        &mut self,
        id: EndpointId,
        at: MonoNs,
        from: u64,
        bytes: &[u8],
        is_last: bool,
        sink: &mut S,
    ) -> Option<(bool, u64)> {
        let read = |flow: &mut Flow, sent, moved, sink: &mut S| flow.bytes(id, at, sent, moved, bytes, sink);
        let place = self.piece(at, (from, bytes.len()), sink, read);
        if is_last {
            self.end_of_operation(id, sink);
        }
        place
    }

    /// A piece of the last operation, where `read` reads it: it begins there, and has so many bytes.
    pub(super) fn piece<S: RowSink>(
        &mut self,
        at: MonoNs,
        (from, bytes): (u64, usize),
        sink: &mut S,
        read: impl FnOnce(&mut Flow, bool, Range<u64>, &mut S),
    ) -> Option<(bool, u64)> {
        let rest = self.rest.take_if(|rest| rest.at == at)?;
        let (sent, end, start) = (rest.sent, rest.moved.end, rest.moved.start + from);
        let behind = start + bytes as u64;
        if behind <= end && bytes > 0 {
            read(self, sent, start..behind, sink);
        }
        self.rest = Some(rest);
        (behind <= end).then_some((sent, start))
    }

    /// Nothing more comes of the last operation: what is not known of it by now was not taken.
    pub(super) fn end_of_operation<S: RowSink>(&mut self, id: EndpointId, sink: &mut S) {
        let moved = self.rest.as_ref().filter(|_| self.is_in_clear()).map(|rest| (rest.at, rest.sent, rest.moved.end));
        if let Some((at, sent, end)) = moved {
            self.ciphertext_to((id, at), sent, end, sink);
        }
        self.end_of_reading(id, sink);
    }

    /// The same where it is not ciphertext.
    pub(super) fn end_of_reading<S: RowSink>(&mut self, id: EndpointId, sink: &mut S) {
        let Some(Rest { at, sent, moved }) = self.rest.take() else { return };
        let (Some(dir), asker) = (self.dir(sent), self.asker()) else { return };
        let ProtocolState::Known(p) = &mut self.state else { return };
        if let Some(mut out) = Out::new(id, at, self.side, self.known, asker, sink) {
            p.gap(dir, moved.start, moved.end - moved.start, &mut out);
        }
    }
}
