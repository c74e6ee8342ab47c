//! Rows into frames.

use super::{
    CHECKSUM, FIXED, FRAME_BYTES_MAX, KIND_HELLO, KIND_LAST, KIND_ROWS, MAGIC, Said, TEXT_BYTES_MAX, VERSION, checksum,
    exchange, flow, number, tag, time,
};
use crate::folder::HostInfo;
use crate::ids::StrId;
use crate::rows::{AnchorRow, Event, Failed, LossRow, OPEN, SniffedExchangeRow, SniffedFlowRow};

/// Packs the rows of one sender. After the first frames it allocates nothing.
pub struct Encoder {
    session: u64,
    frame_bytes: usize,
    /// Number of the next frame.
    sequence: u64,
    /// Rows in all frames before the one that is being filled.
    rows: u64,
    /// Rows in it.
    count: u64,
    /// Its body.
    body: Vec<u8>,
    /// The first time of a row in it.
    base: u64,
    /// The last time that was written into it; of an empty one the last row's time.
    last: u64,
    /// Flows that it named.
    flows: Vec<Said>,
    /// By string: the frame that named it last, and as which.
    named: Vec<(u64, u32)>,
    names: u32,
    frame: Vec<u8>,
}

impl Encoder {
    /// Packs for the sender `session`, a number that no other has. Frames have about `frame_bytes` bytes; only one that
    /// holds a single row may be longer.
    pub fn new(session: u64, frame_bytes: usize) -> Encoder {
        Encoder {
            session,
            frame_bytes: frame_bytes.min(FRAME_BYTES_MAX),
            sequence: 0,
            rows: 0,
            count: 0,
            body: Vec::new(),
            base: 0,
            last: 0,
            flows: Vec::new(),
            named: Vec::new(),
            names: 0,
            frame: Vec::new(),
        }
    }

    /// Rows taken so far.
    pub fn rows(&self) -> u64 {
        self.rows + self.count
    }

    /// Rows that wait for their frame to be full.
    pub fn waiting(&self) -> u64 {
        self.count
    }

    /// Takes a row; `text` gives its strings. A frame that it fills is given to `send`. Says whether the row is of a kind
    /// that is sent on: sniffed flows and exchanges, losses and anchors are.
    pub fn push<'t>(&mut self, event: &Event, text: &impl Fn(StrId) -> &'t [u8], send: &mut impl FnMut(&[u8])) -> bool {
        let (length, last, flows, names) = (self.body.len(), self.last, self.flows.len(), self.names);
        if !self.row(event, text) {
            return false;
        }
        // the header takes at most 54 bytes
        if self.count > 0 && FIXED + 38 + self.body.len() > self.frame_bytes {
            // the frame ends before the row, so what the row changed of its flows is of no interest
            self.body.truncate(length);
            self.flows.truncate(flows);
            (self.last, self.names) = (last, names);
            self.flush(send);
            self.row(event, text);
        }
        self.count += 1;
        true
    }

    /// Sends what waits.
    pub fn flush(&mut self, send: &mut impl FnMut(&[u8])) {
        if self.count == 0 {
            return;
        }
        let body = std::mem::take(&mut self.body);
        self.seal(KIND_ROWS, self.base, &body);
        self.body = body;
        send(&self.frame);
        self.body.clear();
        self.flows.clear();
        self.names = 0;
        self.sequence += 1;
        self.rows += self.count;
        self.count = 0;
    }

    /// Who sends, and how many frames and rows were sent until now: to be sent first, again every second, and, as
    /// `is_last`, at the end. Has no number of its own.
    pub fn hello(&mut self, host: &HostInfo, is_last: bool) -> &[u8] {
        debug_assert_eq!(self.count, 0, "rows wait: flush first");
        let mut body = Vec::new();
        varint(&mut body, u64::from(host.cpus));
        let texts = [
            &host.hostname,
            &host.boot_id,
            &host.kernel_release,
            &host.arch,
            &host.selection,
            &host.agent_version,
            &host.clock,
        ];
        for text in texts {
            bytes(&mut body, text.as_bytes(), 512);
        }
        let flags = &host.flags[..host.flags.len().min(32)];
        varint(&mut body, flags.len() as u64);
        for text in flags {
            bytes(&mut body, text.as_bytes(), 512);
        }
        self.seal(if is_last { KIND_LAST } else { KIND_HELLO }, self.last, &body);
        &self.frame
    }

    fn seal(&mut self, kind: u8, base: u64, body: &[u8]) {
        let f = &mut self.frame;
        f.clear();
        f.extend_from_slice(&MAGIC);
        f.extend_from_slice(&[VERSION, kind, 0, 0, 0, 0]);
        f.extend_from_slice(&self.session.to_le_bytes());
        varint(f, self.sequence);
        varint(f, self.rows);
        varint(f, self.count);
        varint(f, base);
        f.extend_from_slice(body);
        let crc = checksum(f);
        f[CHECKSUM].copy_from_slice(&crc.to_le_bytes());
    }

    fn row<'t>(&mut self, event: &Event, text: &impl Fn(StrId) -> &'t [u8]) -> bool {
        if self.body.is_empty() {
            self.base = event.at().0;
            self.last = self.base;
        }
        match event {
            Event::SniffedExchange(r) => self.exchange(r, text),
            Event::SniffedFlow(r) => self.flow(r, text),
            Event::Loss(r) => self.loss(r, text),
            Event::Anchor(r) => self.anchor(r),
            _ => return false,
        }
        true
    }

    fn exchange<'t>(&mut self, r: &SniffedExchangeRow, text: &impl Fn(StrId) -> &'t [u8]) {
        let times = [
            r.request_first.0,
            r.request_head.0,
            r.request_last.0,
            r.reply_first.0,
            r.reply_head.0,
            r.reply_last.0,
            r.at.0,
        ];
        let mut mask = 0;
        self.body.push(tag::EXCHANGE);
        let mask_at = self.body.len();
        self.body.extend_from_slice(&[0; 4]);
        let flow = self.flow_id(r.flow.0);
        for (i, t) in times.into_iter().enumerate() {
            mask |= self.time(t) << (2 * i);
        }
        mask |= self.byte_ranges(r, flow);
        self.flows[flow].exchange(r);
        mask |= self.identifiers(r);
        mask |= self.anomalies(r);
        self.body.extend_from_slice(&[r.what as u8, (r.request_how as u8) << 4 | r.reply_how as u8]);
        varint(&mut self.body, u64::from(r.status));
        varint(&mut self.body, u64::from(r.request_packets));
        varint(&mut self.body, u64::from(r.reply_packets));
        for id in [r.protocol, r.verb, r.target] {
            self.text(id, text);
        }
        if r.detail != StrId::EMPTY {
            mask |= exchange::DETAIL;
            self.text(r.detail, text);
        }
        self.body[mask_at..mask_at + 4].copy_from_slice(&mask.to_le_bytes());
    }

    /// Where request and reply lie in their streams; returns how each number is written, as bits of the mask.
    fn byte_ranges(&mut self, r: &SniffedExchangeRow, flow: usize) -> u32 {
        let numbers = [r.request_start, r.request_end, r.reply_start, r.reply_end];
        let mut mask = 0;
        let mut before = OPEN;
        for (i, n) in numbers.into_iter().enumerate() {
            let how = match n {
                OPEN => number::OPEN,
                n if i % 2 == 1 && before != OPEN && n >= before => {
                    varint(&mut self.body, n - before);
                    number::LENGTH
                }
                n => match self.flows[flow].first_and_next(i / 2).1.filter(|_| i % 2 == 0) {
                    Some(end) => {
                        varint(&mut self.body, zigzag(n, end));
                        number::BEHIND
                    }
                    None => {
                        varint(&mut self.body, n);
                        number::WHOLE
                    }
                },
            };
            before = n;
            mask |= how << (exchange::NUMBERS as usize + 2 * i);
        }
        mask
    }

    /// The identifiers that it bears; returns which, as bits of the mask.
    fn identifiers(&mut self, r: &SniffedExchangeRow) -> u32 {
        let mut mask = 0;
        let fixed = [
            (exchange::WITNESS, r.witness),
            (exchange::TRACE, r.trace),
            (exchange::SPAN, r.span),
            (exchange::REQUEST_ID, r.request_id),
        ];
        for (bit, value) in fixed {
            if value != 0 {
                mask |= bit;
                self.body.extend_from_slice(&value.to_le_bytes());
            }
        }
        if r.witness != 0 {
            self.body.push(r.witness_kind as u8);
        }
        mask
    }

    /// What is unusual about it: bytes not seen, interim replies, failure, a cut; returns what, as bits of the mask.
    fn anomalies(&mut self, r: &SniffedExchangeRow) -> u32 {
        let mut mask = 0;
        if r.missing_bytes != 0 {
            mask |= exchange::MISSING;
            varint(&mut self.body, u64::from(r.missing_bytes));
        }
        if r.interim != 0 {
            mask |= exchange::INTERIM;
            self.body.push(r.interim);
        }
        mask |= match r.failed {
            Failed::No => 0,
            Failed::Yes => exchange::FAILED,
            _ => exchange::OUTCOME_UNKNOWN,
        };
        mask | if r.cut != 0 { exchange::CUT } else { 0 }
    }

    fn flow<'t>(&mut self, r: &SniffedFlowRow, text: &impl Fn(StrId) -> &'t [u8]) {
        let mut mask = 0;
        let tag_at = self.body.len();
        self.body.extend_from_slice(&[tag::FLOW, 0, 0]);
        let flow = self.flow_id(r.flow.0);
        let who =
            |r: &SniffedFlowRow| (r.client, r.server, r.client_port, r.server_port, r.family, r.ip_protocol, r.tunnel);
        let before = self.flows[flow].row.filter(|b| who(b) == who(r));
        let times_before = before.map_or([0; 4], |b| [b.syn.0, b.syn_ack.0, b.ack.0, 0]);
        for (i, (t, before)) in [r.syn.0, r.syn_ack.0, r.ack.0, r.at.0].into_iter().zip(times_before).enumerate() {
            let how = if t != 0 && t == before { time::FLOW } else { self.time(t) };
            mask |= (how as u16) << (2 * i);
        }
        self.body.extend_from_slice(&[r.what as u8, (r.side as u8) << 4 | r.reset_by as u8]);
        if before.is_none() {
            self.body.push(r.ip_protocol);
            varint(&mut self.body, u64::from(r.family));
            let is_long = r.client[4..].iter().chain(&r.server[4..]).any(|b| *b != 0);
            let length = if is_long { 16 } else { 4 };
            mask |= if is_long { flow::LONG } else { 0 };
            self.body.extend_from_slice(&r.client[..length]);
            self.body.extend_from_slice(&r.server[..length]);
            self.body.extend_from_slice(&r.client_port.to_le_bytes());
            self.body.extend_from_slice(&r.server_port.to_le_bytes());
        }
        for pair in [r.packets, r.wire_bytes, r.stream_bytes] {
            self.pair(pair);
        }
        if r.origin != before.map_or([0; 2], |b| b.origin) {
            mask |= flow::ORIGIN;
            for (direction, origin) in r.origin.into_iter().enumerate() {
                varint(&mut self.body, zigzag(origin, self.flows[flow].first_and_next(direction).0));
            }
        }
        let wide = |pair: [u32; 2]| pair.map(u64::from);
        let pairs = [
            (flow::MISSING, r.missing_bytes),
            (flow::RETRANSMITTED, wide(r.retransmitted)),
            (flow::REORDERED, wide(r.reordered)),
            (flow::ZERO_WINDOWS, wide(r.zero_windows)),
        ];
        for (bit, pair) in pairs {
            if pair != [0; 2] {
                mask |= bit;
                self.pair(pair);
            }
        }
        if r.tunnel != 0 && before.is_none() {
            mask |= flow::TUNNEL;
            self.body.extend_from_slice(&r.tunnel.to_le_bytes());
        }
        self.text(r.protocol, text);
        if r.reason != StrId::EMPTY {
            mask |= flow::REASON;
            self.text(r.reason, text);
        }
        self.flows[flow].flow(r);
        if before.is_some() {
            self.body[tag_at] = tag::FLOW_AGAIN;
        }
        self.body[tag_at + 1..tag_at + 3].copy_from_slice(&mask.to_le_bytes());
    }

    fn loss<'t>(&mut self, r: &LossRow, text: &impl Fn(StrId) -> &'t [u8]) {
        self.body.push(tag::LOSS);
        self.delta(r.from.0);
        self.delta(r.at.0);
        varint(&mut self.body, r.count);
        self.text(r.what, text);
    }

    fn anchor(&mut self, r: &AnchorRow) {
        self.body.push(tag::ANCHOR);
        self.delta(r.at.0);
        varint(&mut self.body, r.real_ns);
        varint(&mut self.body, r.error_ns);
    }

    /// Writes a time as one of [`time`].
    fn time(&mut self, t: u64) -> u32 {
        match t {
            0 => time::ZERO,
            t if t == self.last => time::SAME,
            t => {
                self.delta(t);
                time::DELTA
            }
        }
    }

    fn delta(&mut self, t: u64) {
        varint(&mut self.body, zigzag(t, self.last));
        self.last = t;
    }

    fn pair(&mut self, pair: [u64; 2]) {
        varint(&mut self.body, pair[0]);
        varint(&mut self.body, pair[1]);
    }

    /// A flow by its place among those that the frame named, from the latest; 0 and its id where it did not. Gives its
    /// index.
    fn flow_id(&mut self, id: u64) -> usize {
        let count = self.flows.len();
        match self.flows.iter().rev().position(|f| f.id == id) {
            Some(back) => {
                varint(&mut self.body, back as u64 + 1);
                count - 1 - back
            }
            None => {
                self.body.push(0);
                self.body.extend_from_slice(&id.to_le_bytes());
                self.flows.push(Said::new(id));
                count
            }
        }
    }

    /// A string by its place among those that the frame named; 0 where it is empty, 1 and itself where it did not.
    fn text<'t>(&mut self, id: StrId, text: &impl Fn(StrId) -> &'t [u8]) {
        if id == StrId::EMPTY {
            return self.body.push(0);
        }
        let i = id.0 as usize;
        if i >= self.named.len() {
            self.named.resize(i + 1, (u64::MAX, 0));
        }
        match self.named[i] {
            // a name that was taken back with its row has a place that is not in use, or is another's
            (frame, place) if frame == self.sequence && place < self.names => {
                varint(&mut self.body, u64::from(place) + 2);
            }
            _ => {
                self.body.push(1);
                bytes(&mut self.body, text(id), TEXT_BYTES_MAX);
                self.named[i] = (self.sequence, self.names);
                self.names += 1;
            }
        }
    }
}

fn varint(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// The difference of two numbers, small where it is small in either direction.
fn zigzag(n: u64, before: u64) -> u64 {
    let d = n.wrapping_sub(before) as i64;
    (d << 1 ^ d >> 63) as u64
}

fn bytes(out: &mut Vec<u8>, text: &[u8], bytes_max: usize) {
    let text = &text[..text.len().min(bytes_max)];
    varint(out, text.len() as u64);
    out.extend_from_slice(text);
}
