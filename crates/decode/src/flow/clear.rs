//! A connection whose TLS is read in clear: its operations move ciphertext, its messages are in the plaintext that the calls of a
//! TLS library told.
//!
//! Both ends must number a message alike, also where only one of them is read in clear, and messages must follow each other without
//! gaps, as without TLS. So each message bears numbers of ciphertext: plaintext begins where the records before it ended, and ends
//! with its record. Which record has which plaintext, lengths tell: encryption adds the same to each. What does not fit is not
//! joined.

use super::joining::{Direction, Fit, Plaintext};
use super::{Clear, Flow, Listening, ProtocolState, Rest};
use crate::RowSink;
use crate::TaskFacts;
use crate::recurring::Said;
use std::ops::Range;
use wakepath_model::defects::id as defect;
use wakepath_model::ids::{EndpointId, MonoNs, StrId};
use wakepath_model::rows::{Event, MessageEndHow, MessageEndRow, MessageRow, OPEN, PlacementRow, Row, Side};
use wakepath_protocols::Protocol;

/// Most plaintext that waits for its records: calls.
const WAITING_MAX: usize = 256;

/// The kind of a record of the handshake.
const HANDSHAKE: u8 = 22;

/// Why a flow is opaque whose plaintext and ciphertext did not fit together.
const UNFIT: &str = "encrypted (TLS): its plaintext was read, but not which records it is of";

impl Flow {
    /// From now on the plaintext of its TLS is told. `keeps_heads`: the sink takes it as it is, too.
    pub fn in_clear<S: RowSink>(&mut self, id: EndpointId, at: MonoNs, keeps_heads: bool, sink: &mut S) {
        if matches!(self.state, ProtocolState::Known(_)) {
            // what was taken for its messages ends here
            for sent in [false, true] {
                self.ended(id, at, sent, sink);
            }
        }
        (self.state, self.is_tls) = (ProtocolState::Listening(Listening::new()), false);
        self.last_sent = None;
        self.clear = Some(Box::new(Clear::new(self, keeps_heads)));
    }

    /// Whether it is.
    pub fn is_in_clear(&self) -> bool {
        self.clear.is_some()
    }

    /// It speaks TLS whose plaintext is not told: counted once.
    pub(super) fn unread<S: RowSink>(&mut self, at: MonoNs, sink: &mut S) {
        if !std::mem::replace(&mut self.is_unread, true) {
            self.is_news_unread = true;
            sink.count(defect::TLS_UNREAD, at);
        }
    }

    /// Whether that was found since this was last asked.
    pub fn takes_unread(&mut self) -> bool {
        std::mem::take(&mut self.is_news_unread)
    }

    /// Ciphertext moved. Whether it is of the handshake, which is read as such.
    pub(super) fn ciphertext<S: RowSink>(
        &mut self,
        (id, at): (EndpointId, MonoNs),
        sent: bool,
        moved: &Range<u64>,
        head: &[u8],
        sink: &mut S,
    ) -> bool {
        let Some(clear) = &mut self.clear else { return true };
        let direction = &mut clear.directions[usize::from(sent)];
        direction.moved(moved, head, at);
        if !std::mem::replace(&mut clear.is_met, true) {
            // of one that is older than this nothing is a handshake
            clear.is_begun = head.first() != Some(&HANDSHAKE);
        }
        let is_handshake = !clear.is_begun;
        if let (true, ProtocolState::Listening(_), Some(dir)) = (is_handshake, &self.state, self.dir(sent)) {
            // many read a header first, which alone could be anything's
            self.know(id, at, Protocol::Tls, dir, sent, sink);
        }
        if sent {
            self.join_or_give_up(id, at, sink);
        }
        is_handshake
    }

    /// All of an operation's ciphertext moved, also what was not captured.
    pub(super) fn ciphertext_to<S: RowSink>(
        &mut self,
        (id, at): (EndpointId, MonoNs),
        sent: bool,
        end: u64,
        sink: &mut S,
    ) {
        let Some(clear) = &mut self.clear else { return };
        clear.directions[usize::from(sent)].moved_to(end, at);
        if sent {
            self.join_or_give_up(id, at, sink);
        }
    }

    /// As [`Self::join_waiting`]. Where records were missed, they may have been those of what waits, and a later one that is as long
    /// another's: that is given up.
    fn join_or_give_up<S: RowSink>(&mut self, id: EndpointId, at: MonoNs, sink: &mut S) {
        let Some(clear) = &mut self.clear else { return };
        let (is_lost, was_joined) = (clear.directions[1].takes_loss(), clear.directions[1].is_joined());
        if is_lost && !clear.waiting.is_empty() {
            return self.is_unfit(id, at, was_joined, sink);
        }
        self.join_waiting(id, sink);
    }

    /// The handshake is over: what follows is told as plaintext.
    pub(super) fn begins_in_clear(&mut self) -> bool {
        let Some(clear) = &mut self.clear else { return false };
        clear.is_begun = true;
        self.state = ProtocolState::Opaque;
        true
    }

    /// Plaintext went through a call of a TLS library. The number of its first byte in the ciphertext, where it was joined.
    pub fn plain_bytes<S: RowSink>(&mut self, id: EndpointId, said: Plaintext, sink: &mut S) -> Option<u64> {
        let clear = self.clear.as_mut()?;
        clear.is_at_joined = false;
        if !said.sent {
            let direction = &mut clear.directions[0];
            let (plain, was_joined) = (direction.plain, direction.is_joined());
            let fit = match said.record {
                Some(record) => direction.received_record(said.bytes, record, &mut clear.over),
                None => direction.received(said.bytes, said.is_filled, &mut clear.over),
            };
            return match fit {
                Fit::Yes => {
                    self.join(id, &said, plain, sink);
                    self.clear.as_ref()?.directions[0].start(plain)
                }
                _ => {
                    self.is_unfit(id, said.at, was_joined, sink);
                    None
                }
            };
        }
        let (at, plain) = (said.at, clear.directions[1].plain);
        if clear.waiting.len() >= WAITING_MAX {
            let was_joined = clear.directions[1].is_joined();
            self.is_unfit(id, at, was_joined, sink);
            return None;
        }
        if said.record.is_some() && clear.waiting.is_empty() {
            clear.directions[1].begins_behind();
        }
        clear.waiting.push_back((said, Vec::new()));
        self.join_waiting(id, sink);
        let clear = self.clear.as_ref()?;
        if clear.waiting.is_empty() { clear.directions[1].start(plain) } else { None }
    }

    /// More bytes of the last plaintext, which returned at `at`, from its byte `from` on; `is_last`: none follow.
    pub fn more_clear<S: RowSink>(
        &mut self,
        id: EndpointId,
        at: MonoNs,
        from: u64,
        bytes: &[u8],
        is_last: bool,
        sink: &mut S,
    ) {
        let Some(clear) = self.clear.as_deref_mut() else { return };
        if !clear.is_at_joined {
            if let Some((_, pieces)) = clear.waiting.back_mut().filter(|(said, _)| said.at == at) {
                pieces.push((from, bytes.to_vec(), is_last));
            }
            return;
        }
        let Clear { inner, directions, keeps_heads, .. } = clear;
        let read = |flow: &mut Flow, sent, moved, sink: &mut Mapped<'_, S>| flow.read(id, at, sent, moved, bytes, sink);
        let mut mapped = Mapped { sink, directions };
        let place = inner.piece(at, (from, bytes.len()), &mut mapped, read);
        if is_last {
            inner.end_of_reading(id, &mut mapped);
        }
        if let Some((sent, plain)) = place.filter(|_| *keeps_heads) {
            mapped.head(id, at, sent, plain, bytes);
        }
    }

    /// Joins what was sent to the records that were sent after it.
    fn join_waiting<S: RowSink>(&mut self, id: EndpointId, sink: &mut S) {
        while let Some(clear) = &mut self.clear
            && let Some((said, _)) = clear.waiting.front()
        {
            let (at, direction) = (said.at, &mut clear.directions[1]);
            let (plain, was_joined) = (direction.plain, direction.is_joined());
            match direction.sent(said.bytes, said.began, &mut clear.over) {
                Fit::Later => return,
                Fit::No => return self.is_unfit(id, at, was_joined, sink),
                Fit::Yes => {}
            }
            let Some((said, pieces)) = clear.waiting.pop_front() else { return };
            self.join(id, &said, plain, sink);
            for (from, bytes, is_last) in pieces {
                self.more_clear(id, at, from, &bytes, is_last, sink);
            }
        }
    }

    /// Reads plaintext whose place in the ciphertext is known.
    fn join<S: RowSink>(&mut self, id: EndpointId, said: &Plaintext, plain: u64, sink: &mut S) {
        self.begins_in_clear();
        let (side, ports, addresses, asker) = (self.side, self.ports, self.addresses, self.asker);
        let Some(clear) = self.clear.as_deref_mut() else { return };
        clear.is_at_joined = true;
        let Clear { inner, directions, keeps_heads, .. } = clear;
        (inner.ports, inner.addresses) = (ports, addresses);
        if side != Side::Unknown {
            (inner.side, inner.asker) = (side, asker);
        }
        let mut sink = Mapped { sink, directions };
        if *keeps_heads {
            sink.head(id, said.at, said.sent, plain, &said.head);
        }
        let moved = plain..plain + said.bytes;
        let numbers = if said.sent { &mut inner.snd } else { &mut inner.rcv };
        numbers.follow(said.bytes);
        inner.end_of_reading(id, &mut sink);
        let behind = if said.goes_on { moved.start + said.head.len() as u64 } else { moved.end };
        inner.read(id, said.at, said.sent, moved.start..behind, &said.head, &mut sink);
        if said.goes_on {
            inner.rest = Some(Rest { at: said.at, sent: said.sent, moved });
        }
        sink.tell_ends(said.at, said.sent);
        if self.side == Side::Unknown {
            self.side = clear.inner.side;
        }
    }

    /// Plaintext fits no records. `was_joined`: some before it did; so what follows is not known either.
    fn is_unfit<S: RowSink>(&mut self, id: EndpointId, at: MonoNs, was_joined: bool, sink: &mut S) {
        sink.count(defect::TLS_UNFIT, at);
        let Some(clear) = &mut self.clear else { return };
        clear.waiting.clear();
        if was_joined {
            self.clear = None;
            self.state = ProtocolState::Listening(Listening::new());
            self.opaque(id, at, UNFIT, sink);
        }
    }

    /// One direction ended.
    pub(super) fn clear_ended<S: RowSink>(&mut self, id: EndpointId, at: MonoNs, sent: bool, sink: &mut S) {
        let Some(Clear { inner, directions, .. }) = self.clear.as_deref_mut() else { return };
        inner.stops(id, at, sent, &mut Mapped { sink, directions });
    }

    /// What its plaintext was recognised as.
    pub(super) fn known_in_clear(&self) -> Option<StrId> {
        self.clear.as_ref()?.inner.known.map(|(_, name)| name)
    }
}

/// Gives messages the numbers that they have in the ciphertext.
struct Mapped<'a, S: RowSink> {
    sink: &'a mut S,
    directions: &'a mut [Direction; 2],
}

impl<S: RowSink> Mapped<'_, S> {
    /// Plaintext as it is.
    fn head(&mut self, id: EndpointId, at: MonoNs, sent: bool, plain: u64, bytes: &[u8]) {
        let start = self.directions[usize::from(sent)].start(plain).filter(|_| !bytes.is_empty());
        if let Some(start) = start {
            self.sink.push_head(at, id, start, sent, bytes);
        }
    }

    fn message(&mut self, mut row: MessageRow) {
        let direction = &mut self.directions[usize::from(row.sent)];
        let plain = row.start;
        let Some(start) = direction.start(plain) else { return self.sink.count(defect::TLS_UNFIT, row.at) };
        let end = if row.end == OPEN { None } else { direction.end(row.end) };
        if end.is_none() {
            direction.begins(plain, start);
        }
        if end.is_none() && row.end != OPEN {
            direction.owes(MessageEndRow {
                at: row.at,
                flow: row.flow,
                start: plain,
                end: row.end,
                sent: row.sent,
                how: MessageEndHow::Framed,
                ..MessageEndRow::default()
            });
        }
        // who sent it is the one who sent the record
        (row.start, row.end, row.at) = (start, end.unwrap_or(OPEN), row.at.max(direction.reached_at));
        self.sink.push(&row);
    }

    fn message_end(&mut self, mut row: MessageEndRow) {
        let direction = &mut self.directions[usize::from(row.sent)];
        let plain = row.start;
        let Some(start) = direction.start(plain) else { return self.sink.count(defect::TLS_UNFIT, row.at) };
        if row.end != OPEN {
            let Some(end) = direction.end(row.end) else { return direction.owes(row) };
            row.end = end;
        }
        if row.how != MessageEndHow::NotKnown {
            direction.ended(plain);
        }
        (row.start, row.at) = (start, row.at.max(direction.reached_at));
        self.sink.push(&row);
    }

    /// Tells the ends that were due and came.
    fn tell_ends(&mut self, at: MonoNs, sent: bool) {
        for row in self.directions[usize::from(sent)].came() {
            self.message_end(MessageEndRow { at, ..row });
        }
    }
}

impl<S: RowSink> RowSink for Mapped<'_, S> {
    fn push<R: Row>(&mut self, row: &R) {
        match Event::read(R::TABLE, bytemuck::bytes_of(row)) {
            Some(Event::Message(row)) => self.message(row),
            Some(Event::MessageEnd(row)) => self.message_end(row),
            _ => self.sink.push(row),
        }
    }
    fn push_head(&mut self, at: MonoNs, flow: EndpointId, pos: u64, sent: bool, bytes: &[u8]) {
        self.sink.push_head(at, flow, pos, sent, bytes);
    }
    fn count(&mut self, defect: &'static str, at: MonoNs) {
        self.sink.count(defect, at);
    }
    fn intern(&mut self, text: &[u8]) -> StrId {
        self.sink.intern(text)
    }
    fn said(&mut self, text: &str, said: &Said) -> StrId {
        self.sink.said(text, said)
    }
    fn quiet(&mut self, flow: EndpointId) {
        self.sink.quiet(flow);
    }
    fn runs_on(&mut self, flow: EndpointId, in_frames: bool) {
        self.sink.runs_on(flow, in_frames);
    }
    fn describe(&mut self, tgid: u32, tid: u32) -> TaskFacts {
        self.sink.describe(tgid, tid)
    }
    fn placement(&mut self, cgroup: &[u8]) -> Option<PlacementRow> {
        self.sink.placement(cgroup)
    }
}

#[cfg(test)]
mod tests;
