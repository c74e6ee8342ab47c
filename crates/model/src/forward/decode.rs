//! Frames into rows. Any bytes are bad data at worst.

use super::{
    CHECKSUM, FIXED, KIND_HELLO, KIND_LAST, KIND_ROWS, MAGIC, Said, TEXT_BYTES_MAX, VERSION, checksum, exchange, flow,
    number, tag, time,
};
use crate::folder::HostInfo;
use crate::ids::{MonoNs, SniffedFlowId, StrId};
use crate::rows::{AnchorRow, Event, Failed, LossRow, OPEN, SniffedExchangeRow, SniffedFlowRow};
use crate::table::UnknownCode;

/// Why bytes are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Bad {
    /// Something else came to this port.
    #[error("not from a Wakepath sniffer")]
    Foreign,
    /// A later format.
    #[error("format version {0}; this collector reads version {VERSION}: use the same wakepath on both sides")]
    Version(u8),
    /// Changed or cut on the way.
    #[error("damaged on the way")]
    Damaged,
    /// The checksum is right, the contents are not.
    #[error("its contents make no sense")]
    Contents,
    /// It says something that a later sniffer may know.
    #[error("{0}; use the same wakepath on both sides")]
    Code(#[from] UnknownCode),
}

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// It has rows.
    Rows,
    /// It says who sends, and how much was sent.
    Hello,
    /// The same, for the last time.
    Last,
}

/// A frame whose checksum is right.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// What it is.
    pub kind: FrameKind,
    /// Who sent it.
    pub session: u64,
    /// Its number; of a hello that of the next frame with rows.
    pub sequence: u64,
    /// Rows in all frames before it.
    pub rows_before: u64,
    /// Rows in it.
    pub rows: u64,
    /// Time of its first row, or of the last row sent.
    pub base: MonoNs,
    body: &'a [u8],
}

/// Who sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The host and clock that rows are of.
    pub host: HostInfo,
}

impl<'a> Frame<'a> {
    /// Reads the head of a frame and checks its bytes.
    pub fn read(bytes: &'a [u8]) -> Result<Frame<'a>, Bad> {
        let Some((fixed, rest)) = bytes.split_first_chunk::<FIXED>() else {
            return Err(Bad::Foreign);
        };
        if fixed[..2] != MAGIC {
            return Err(Bad::Foreign);
        }
        if fixed[2] != VERSION {
            return Err(Bad::Version(fixed[2]));
        }
        let word = |at: usize| u32::from_le_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
        if checksum(bytes) != word(CHECKSUM.start) {
            return Err(Bad::Damaged);
        }
        let kind = match fixed[3] {
            KIND_ROWS => FrameKind::Rows,
            KIND_HELLO => FrameKind::Hello,
            KIND_LAST => FrameKind::Last,
            _ => return Err(Bad::Contents),
        };
        let mut c = Cursor { bytes: rest };
        let session = u64::from(word(12)) << 32 | u64::from(word(8));
        let (sequence, rows_before, rows) = (c.varint()?, c.varint()?, c.varint()?);
        let base = MonoNs(c.varint()?);
        // no row has fewer than five bytes
        if rows > c.bytes.len() as u64 / 5 || rows_before.checked_add(rows).is_none() || sequence == u64::MAX {
            return Err(Bad::Contents);
        }
        Ok(Frame { kind, session, sequence, rows_before, rows, base, body: c.bytes })
    }

    /// What a hello says.
    pub fn hello(&self) -> Result<Hello, Bad> {
        if self.kind == FrameKind::Rows {
            return Err(Bad::Contents);
        }
        let mut c = Cursor { bytes: self.body };
        let cpus = c.varint()?.min(u64::from(u32::MAX)) as u32;
        let (hostname, boot_id, kernel_release, arch) = (c.string()?, c.string()?, c.string()?, c.string()?);
        let (selection, agent_version, clock) = (c.string()?, c.string()?, c.string()?);
        let count = c.varint()?;
        if count > 32 {
            return Err(Bad::Contents);
        }
        let flags = (0..count).map(|_| c.string()).collect::<Result<Vec<_>, _>>()?;
        Ok(Hello {
            host: HostInfo {
                hostname,
                boot_id,
                kernel_release,
                arch,
                cpus,
                selection,
                flags,
                agent_version,
                clock,
                ..HostInfo::default()
            },
        })
    }

    /// Adds the frame's rows to `out`, with strings as `intern` numbers them. Where the frame is bad, none.
    pub fn rows(&self, intern: &mut impl FnMut(&[u8]) -> StrId, out: &mut Vec<Event>) -> Result<(), Bad> {
        let before = out.len();
        let mut reader =
            Reader { c: Cursor { bytes: self.body }, last: self.base.0, flows: Vec::new(), texts: Vec::new(), intern };
        for _ in 0..self.rows {
            match reader.row() {
                Ok(row) => out.push(row),
                Err(e) => {
                    out.truncate(before);
                    return Err(e);
                }
            }
        }
        if !reader.c.bytes.is_empty() {
            out.truncate(before);
            return Err(Bad::Contents);
        }
        Ok(())
    }
}

struct Reader<'a, 'i, I> {
    c: Cursor<'a>,
    last: u64,
    flows: Vec<Said>,
    texts: Vec<StrId>,
    intern: &'i mut I,
}

impl<I: FnMut(&[u8]) -> StrId> Reader<'_, '_, I> {
    fn row(&mut self) -> Result<Event, Bad> {
        match self.c.byte()? {
            tag::EXCHANGE => self.exchange().map(Event::SniffedExchange),
            tag::FLOW => self.flow(false).map(Event::SniffedFlow),
            tag::FLOW_AGAIN => self.flow(true).map(Event::SniffedFlow),
            tag::LOSS => {
                let (from, at) = (MonoNs(self.delta()?), MonoNs(self.delta()?));
                Ok(Event::Loss(LossRow { at, from, count: self.c.varint()?, what: self.text()?, ..Default::default() }))
            }
            tag::ANCHOR => {
                let at = MonoNs(self.delta()?);
                Ok(Event::Anchor(AnchorRow {
                    at,
                    real_ns: self.c.varint()?,
                    error_ns: self.c.varint()?,
                    ..Default::default()
                }))
            }
            _ => Err(Bad::Contents),
        }
    }

    fn exchange(&mut self) -> Result<SniffedExchangeRow, Bad> {
        let mask = u32::from_le_bytes(self.c.array()?);
        let has = |bit: u32| mask & bit != 0;
        let mut r = SniffedExchangeRow::default();
        let flow = self.flow_id()?;
        r.flow = SniffedFlowId(self.flows[flow].id);
        let mut times = [0; 7];
        for (i, t) in times.iter_mut().enumerate() {
            *t = self.time(mask >> (2 * i))?;
        }
        let [request_first, request_head, request_last, reply_first, reply_head, reply_last, at] = times.map(MonoNs);
        (r.request_first, r.request_head, r.request_last) = (request_first, request_head, request_last);
        (r.reply_first, r.reply_head, r.reply_last, r.at) = (reply_first, reply_head, reply_last, at);
        let mut numbers = [OPEN; 4];
        let mut before = 0;
        for (i, n) in numbers.iter_mut().enumerate() {
            *n = match mask >> (exchange::NUMBERS as usize + 2 * i) & 3 {
                number::OPEN => OPEN,
                number::WHOLE => self.c.varint()?,
                number::LENGTH => self.c.varint()?.checked_add(before).ok_or(Bad::Contents)?,
                _ => {
                    let end = self.flows[flow].first_and_next(i / 2).1.ok_or(Bad::Contents)?;
                    self.c.difference(end)?
                }
            };
            before = *n;
        }
        [r.request_start, r.request_end, r.reply_start, r.reply_end] = numbers;
        self.flows[flow].exchange(&r);
        for (bit, field) in [
            (exchange::WITNESS, &mut r.witness),
            (exchange::TRACE, &mut r.trace),
            (exchange::SPAN, &mut r.span),
            (exchange::REQUEST_ID, &mut r.request_id),
        ] {
            if has(bit) {
                *field = u64::from_le_bytes(self.c.array()?);
            }
        }
        if has(exchange::WITNESS) {
            r.witness_kind = self.c.byte()?.try_into()?;
        }
        if has(exchange::MISSING) {
            r.missing_bytes = self.c.varint32()?;
        }
        if has(exchange::INTERIM) {
            r.interim = self.c.byte()?;
        }
        r.failed = match (has(exchange::FAILED), has(exchange::OUTCOME_UNKNOWN)) {
            (true, _) => Failed::Yes,
            (_, true) => Failed::Unknown,
            _ => Failed::No,
        };
        r.cut = u8::from(has(exchange::CUT));
        r.what = self.c.byte()?.try_into()?;
        let how = self.c.byte()?;
        (r.request_how, r.reply_how) = ((how >> 4).try_into()?, (how & 15).try_into()?);
        r.status = u16::try_from(self.c.varint()?).map_err(|_| Bad::Contents)?;
        (r.request_packets, r.reply_packets) = (self.c.varint32()?, self.c.varint32()?);
        (r.protocol, r.verb, r.target) = (self.text()?, self.text()?, self.text()?);
        if has(exchange::DETAIL) {
            r.detail = self.text()?;
        }
        Ok(r)
    }

    fn flow(&mut self, is_again: bool) -> Result<SniffedFlowRow, Bad> {
        let mask = u16::from_le_bytes(self.c.array()?);
        let has = |bit: u16| mask & bit != 0;
        let flow = self.flow_id()?;
        let before = match (is_again, self.flows[flow].row) {
            (false, _) => None,
            (true, Some(row)) => Some(row),
            (true, None) => return Err(Bad::Contents),
        };
        let mut r = SniffedFlowRow { flow: SniffedFlowId(self.flows[flow].id), ..Default::default() };
        let mut times = before.map_or([0; 4], |b| [b.syn.0, b.syn_ack.0, b.ack.0, 0]);
        for (i, t) in times.iter_mut().enumerate() {
            let how = u32::from(mask) >> (2 * i);
            if how & 3 != time::FLOW {
                *t = self.time(how)?;
            } else if *t == 0 {
                return Err(Bad::Contents);
            }
        }
        [r.syn, r.syn_ack, r.ack, r.at] = times.map(MonoNs);
        let [what, side] = self.c.array()?;
        (r.what, r.side, r.reset_by) = (what.try_into()?, (side >> 4).try_into()?, (side & 15).try_into()?);
        if let Some(b) = before {
            (r.ip_protocol, r.family, r.tunnel, r.origin) = (b.ip_protocol, b.family, b.tunnel, b.origin);
            (r.client, r.server, r.client_port, r.server_port) = (b.client, b.server, b.client_port, b.server_port);
        } else {
            r.ip_protocol = self.c.byte()?;
            r.family = u16::try_from(self.c.varint()?).map_err(|_| Bad::Contents)?;
            if has(flow::LONG) {
                (r.client, r.server) = (self.c.array()?, self.c.array()?);
            } else {
                r.client[..4].copy_from_slice(&self.c.array::<4>()?);
                r.server[..4].copy_from_slice(&self.c.array::<4>()?);
            }
            r.client_port = u16::from_le_bytes(self.c.array()?);
            r.server_port = u16::from_le_bytes(self.c.array()?);
        }
        (r.packets, r.wire_bytes, r.stream_bytes) = (self.pair()?, self.pair()?, self.pair()?);
        if has(flow::ORIGIN) {
            for (direction, origin) in r.origin.iter_mut().enumerate() {
                *origin = self.c.difference(self.flows[flow].first_and_next(direction).0)?;
            }
        }
        if has(flow::MISSING) {
            r.missing_bytes = self.pair()?;
        }
        for (bit, field) in [
            (flow::RETRANSMITTED, &mut r.retransmitted),
            (flow::REORDERED, &mut r.reordered),
            (flow::ZERO_WINDOWS, &mut r.zero_windows),
        ] {
            if has(bit) {
                *field = [self.c.varint32()?, self.c.varint32()?];
            }
        }
        if has(flow::TUNNEL) {
            r.tunnel = u64::from_le_bytes(self.c.array()?);
        }
        r.protocol = self.text()?;
        if has(flow::REASON) {
            r.reason = self.text()?;
        }
        self.flows[flow].flow(&r);
        Ok(r)
    }

    fn time(&mut self, how: u32) -> Result<u64, Bad> {
        match how & 3 {
            time::ZERO => Ok(0),
            time::SAME => Ok(self.last),
            time::DELTA => self.delta(),
            _ => Err(Bad::Contents),
        }
    }

    fn delta(&mut self) -> Result<u64, Bad> {
        self.last = self.c.difference(self.last)?;
        Ok(self.last)
    }

    fn pair(&mut self) -> Result<[u64; 2], Bad> {
        Ok([self.c.varint()?, self.c.varint()?])
    }

    /// The index of the flow that is named.
    fn flow_id(&mut self) -> Result<usize, Bad> {
        match self.c.varint()? {
            0 => {
                let id = u64::from_le_bytes(self.c.array()?);
                self.flows.push(Said::new(id));
                Ok(self.flows.len() - 1)
            }
            back => (self.flows.len() as u64).checked_sub(back).map(|at| at as usize).ok_or(Bad::Contents),
        }
    }

    fn text(&mut self) -> Result<StrId, Bad> {
        match self.c.varint()? {
            0 => Ok(StrId::EMPTY),
            1 => {
                let id = (self.intern)(self.c.counted()?);
                self.texts.push(id);
                Ok(id)
            }
            n => {
                let place = usize::try_from(n - 2).map_err(|_| Bad::Contents)?;
                self.texts.get(place).copied().ok_or(Bad::Contents)
            }
        }
    }
}

/// Bytes that are taken from the front.
struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn byte(&mut self) -> Result<u8, Bad> {
        self.array::<1>().map(|[b]| b)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Bad> {
        let (taken, rest) = self.bytes.split_first_chunk::<N>().ok_or(Bad::Contents)?;
        self.bytes = rest;
        Ok(*taken)
    }

    fn varint(&mut self) -> Result<u64, Bad> {
        let mut n = 0;
        for shift in (0..64).step_by(7) {
            let b = self.byte()?;
            // the tenth byte has one bit of the number
            if shift == 63 && b > 1 {
                return Err(Bad::Contents);
            }
            n |= u64::from(b & 0x7f) << shift;
            if b < 0x80 {
                return Ok(n);
            }
        }
        Err(Bad::Contents)
    }

    /// A number by its difference to one before.
    fn difference(&mut self, before: u64) -> Result<u64, Bad> {
        let z = self.varint()?;
        Ok(before.wrapping_add(z >> 1 ^ (z & 1).wrapping_neg()))
    }

    fn varint32(&mut self) -> Result<u32, Bad> {
        u32::try_from(self.varint()?).map_err(|_| Bad::Contents)
    }

    fn counted(&mut self) -> Result<&'a [u8], Bad> {
        let length = self.varint()?;
        if length > TEXT_BYTES_MAX as u64 || length > self.bytes.len() as u64 {
            return Err(Bad::Contents);
        }
        let (text, rest) = self.bytes.split_at(length as usize);
        self.bytes = rest;
        Ok(text)
    }

    fn string(&mut self) -> Result<String, Bad> {
        self.counted().map(|b| String::from_utf8_lossy(b).into_owned())
    }
}
