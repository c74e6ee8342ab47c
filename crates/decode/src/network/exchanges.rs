//! Which reply answers which request: messages of one flow in, exchanges out.
//!
//! A reply with its protocol's own number answers the oldest request with that number. All others answer in order, and
//! order holds only where nothing is hidden. So after bytes in which a message may have begun unseen, and where a
//! connection is joined in mid-stream, nothing is paired by order until a request comes first after the server has
//! spoken: a client that waits for its replies has nothing outstanding then. Whether it does wait is on *trial* first:
//! pairs are held back until the flow went back and forth a number of times, was silent for long, or ended, without a
//! reply too many or one that cannot be. Otherwise they are told as a request and a reply that cannot be told.

mod message_sink;
mod open;

pub(super) use message_sink::MessageSink;

use super::timeline::ByteTimeline;
use super::unsure::{Order, Trust};
use crate::RowSink;
use crate::words::Speech;
use open::{Kind, Number, Open, Part, apart, has, has_any, reused, same_question, unanswered};
use std::collections::VecDeque;
use wakepath_model::defects::id as defect;
use wakepath_model::ids::{MonoNs, SniffedFlowId, StrId};
use wakepath_model::rows::{ExchangeKind, MessageEndHow, OPEN, SniffedExchangeRow, WitnessKind};
use wakepath_protocols::{Dir, Message};

/// Messages of one flow that are not at their ends, or wait for replies.
const OPEN_MAX: usize = 1024;

/// Exchanges of one flow that are written again at once while they stay open.
const TOLD_OPEN_MAX: usize = 64;

/// How a flow, or the capture of it, ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// It was closed or reset: what has no reply gets none.
    Closed,
    /// It is not followed any longer.
    Forgotten,
}

/// The open exchanges of a flow.
pub(super) struct ExchangeTracker {
    flow: SniffedFlowId,
    protocol: StrId,
    speech: Speech,
    pub timelines: [ByteTimeline; 2],
    opens: VecDeque<Open>,
    /// Earliest ends of messages that are known and not reached.
    due: [u64; 2],
    trust: Trust,
    /// Pairs on trial.
    held: Vec<SniffedExchangeRow>,
    /// The flow turned to the server, and no request has come since.
    turned: bool,
    /// After this the flow is another protocol, or encrypted.
    pub opaque: bool,
    /// Exchanges ended.
    pub ended: u64,
    latest: MonoNs,
    /// The flow began before what is known of it.
    joined: bool,
    /// A message of each direction was met.
    met: [bool; 2],
    /// It is said to all who listen: nobody owes an answer, and what answers comes in another flow.
    pub to_all: bool,
}

impl ExchangeTracker {
    /// Of a flow. `whole`: nothing that was said before is hidden.
    pub fn new(flow: SniffedFlowId, protocol: StrId, speech: Speech, whole: bool) -> ExchangeTracker {
        ExchangeTracker {
            flow,
            protocol,
            speech,
            timelines: [ByteTimeline::new(), ByteTimeline::new()],
            opens: VecDeque::new(),
            due: [OPEN; 2],
            trust: Trust::new(whole),
            held: Vec::new(),
            turned: true,
            opaque: false,
            ended: 0,
            latest: MonoNs(0),
            joined: !whole,
            met: [false; 2],
            to_all: false,
        }
    }

    /// Of the same flow, of which nothing was said.
    pub fn anew(&self) -> ExchangeTracker {
        // What is said again is said by the same one, so that a word does not seem to come from two clients.
        let to_all = self.to_all;
        ExchangeTracker { to_all, ..ExchangeTracker::new(self.flow, self.protocol, self.speech, !self.joined) }
    }

    /// The flow turned to `dir`.
    pub fn turn(&mut self, dir: Dir) {
        self.turned = dir == Dir::ToServer;
    }

    /// Bytes of `dir` have been dealt with. `ahead`: how many of the next ones need no look (`u64::MAX`: all).
    pub fn moved<S: RowSink>(&mut self, dir: Dir, ahead: u64, at: MonoNs, out: &mut S) {
        let d = dir.index();
        self.latest = self.latest.max(at);
        let end = self.timelines[d].end();
        if ahead > 0 {
            self.timelines[d].forget(end);
        }
        // Not only once: the order may have begun anew since, while nothing was looked at.
        if ahead == u64::MAX {
            self.hidden(dir, out);
        }
        if end >= self.due[d] {
            self.settle(dir, out);
        }
    }

    /// Messages of `dir` may begin unseen from here on.
    pub fn hidden<S: RowSink>(&mut self, dir: Dir, out: &mut S) {
        if dir == Dir::ToServer && !self.trust.trial_is_over() {
            // Those that were asked before are answered first, in order.
            return self.trust.requests_hidden(self.opens.iter().filter(|o| o.waits() && o.ordered).count());
        }
        if self.trust.on_trial() {
            self.take_apart(out);
        }
        self.trust.replies_hidden();
        self.opens.iter_mut().for_each(|open| open.doubtful = true);
        self.give_up(out);
    }

    /// The order on trial does not hold: what was paired by it belonged to others.
    fn take_apart<S: RowSink>(&mut self, out: &mut S) {
        for row in std::mem::take(&mut self.held) {
            let [asked, answered] = apart(&row);
            self.write(asked, ExchangeKind::ReplyMissed, out);
            self.write(answered, ExchangeKind::ReplyOnly, out);
        }
        for i in 0..self.opens.len() {
            let open = &mut self.opens[i];
            if std::mem::take(&mut open.trial) {
                let [asked, answered] = apart(&open.row);
                (open.row, open.kind, open.parts[0]) = (answered, Kind::Reply, Part::default());
                open.ordered = false;
                self.write(asked, ExchangeKind::ReplyMissed, out);
            }
        }
        self.give_up(out);
    }

    /// The replies to what waits in order cannot be told.
    fn give_up<S: RowSink>(&mut self, out: &mut S) {
        for i in (0..self.opens.len()).rev() {
            let open = &mut self.opens[i];
            if open.waits() && open.ordered {
                open.kind = Kind::Missed;
                if open.parts[0].done {
                    self.leave(i, ExchangeKind::ReplyMissed, out);
                }
            }
        }
    }

    /// Nothing that is answered in order is outstanding, as far as known.
    fn drained(&self) -> bool {
        !self.opens.iter().any(|o| o.ordered && o.kind == Kind::Asked)
    }

    fn request<S: RowSink>(&mut self, number: Number, mut open: Open, out: &mut S) {
        if let Number::Own(kind, value) = number {
            if let Some(i) = self.opens.iter().position(|o| o.waits() && has(&o.row, kind, value)) {
                let old = &mut self.opens[i];
                if kind == WitnessKind::Dns && old.question == open.question {
                    // The same question again: its answer answers both, and was waited for from the first on.
                    old.row.request_packets = old.row.request_packets.saturating_add(1);
                    return;
                }
                // A number is used again when its exchange is over.
                let what = if old.doubtful { ExchangeKind::ReplyMissed } else { ExchangeKind::Unanswered };
                self.leave(i, what, out);
            }
        } else {
            if self.trust.trial_is_over() {
                self.hidden(Dir::ToClient, out);
            }
            open.ordered = true;
            let first = std::mem::take(&mut self.turned);
            let outstanding = if self.drained() { 0 } else { self.opens.len() };
            let silent = open.row.request_first.0.saturating_sub(self.latest.0);
            match self.trust.request(first, outstanding, if self.latest.0 == 0 { 0 } else { silent }) {
                Order::Holds | Order::Begins => {}
                Order::Proven => self.release(out),
                Order::Unknown => open.kind = Kind::Missed,
            }
        }
        self.push(open, out);
    }

    fn reply<S: RowSink>(&mut self, m: &Message<'_>, number: Number, row: SniffedExchangeRow, out: &mut S) {
        let part = self.begin(m);
        let found = match number {
            Number::Own(kind, value) => {
                let found = self.opens.iter().position(|o| {
                    o.waits() && has(&o.row, kind, value) && (kind != WitnessKind::Dns || same_question(o, m))
                });
                // Replies were hidden: if its own was among them, this one answers a later request of the same number.
                let unsure = found.filter(|&i| self.opens[i].doubtful && reused(kind));
                if let Some(i) = unsure {
                    self.leave(i, ExchangeKind::ReplyMissed, out);
                }
                found.filter(|_| unsure.is_none())
            }
            number => self.in_order(m, number, out),
        };
        let Some(i) = found else {
            return self.push(Open::new(row, Kind::Reply, [Part::default(), part]), out);
        };
        let on_trial = self.trust.on_trial();
        let open = &mut self.opens[i];
        let to = &mut open.row;
        (to.reply_start, to.reply_first, to.reply_head) = (row.reply_start, row.reply_first, row.reply_head);
        (to.status, to.failed, to.detail) = (row.status, row.failed, row.detail);
        to.cut |= row.cut;
        if to.request_id == 0 {
            to.request_id = row.request_id;
        }
        open.parts[1] = part;
        if open.ordered {
            open.trial = on_trial;
            self.trust.answered();
        }
    }

    /// The request that a reply without a number of its own answers.
    fn in_order<S: RowSink>(&mut self, m: &Message<'_>, number: Number, out: &mut S) -> Option<usize> {
        if !self.trust.pairs() {
            if self.trust.trial_is_over() {
                self.hidden(Dir::ToClient, out);
            }
            return None;
        }
        let oldest = self.opens.iter().position(|o| o.waits() && o.ordered);
        let fits = |open: &Open| {
            // A server that has not got the request's first byte yet does not answer it; an echoed number is the same.
            let ack = self.timelines[1].ack(m.start);
            let early = self.trust.on_trial() && ack != 0 && ack <= open.row.request_start;
            let other = matches!(number, Number::Echo(value) if has_any(&open.row) && open.row.witness != value);
            !early && !other
        };
        match oldest {
            Some(i) if fits(&self.opens[i]) => Some(i),
            None if !self.trust.on_trial() => None,
            // One reply too many, or one that cannot be: somewhere a request is hidden.
            _ => {
                self.hidden(Dir::ToClient, out);
                None
            }
        }
    }

    fn begin(&self, m: &Message<'_>) -> Part {
        let timeline = &self.timelines[m.dir.index()];
        Part {
            begun: true,
            done: false,
            packets_before: timeline.packets_before(m.start),
            missing_before: timeline.missing_before(m.start),
        }
    }

    fn push<S: RowSink>(&mut self, open: Open, out: &mut S) {
        if self.opens.len() >= OPEN_MAX {
            out.count(defect::NET_OPEN_LIMIT, self.latest);
            if self.opens[0].waits() && self.opens[0].ordered {
                self.hidden(Dir::ToClient, out);
            } else {
                self.leave(0, self.opens[0].cut_short(), out);
            }
        }
        self.opens.push_back(open);
    }

    /// Ends the parts whose ends have passed.
    fn settle<S: RowSink>(&mut self, dir: Dir, out: &mut S) {
        let (d, end) = (dir.index(), self.timelines[dir.index()].end());
        self.due[d] = OPEN;
        let mut i = 0;
        while i < self.opens.len() {
            let open = &self.opens[i];
            let until = if d == 0 { open.row.request_end } else { open.row.reply_end };
            let part = open.parts[d];
            if part.begun && !part.done && until != OPEN {
                if until > end {
                    self.due[d] = self.due[d].min(until);
                } else if self.part_done(i, dir, until, out) {
                    continue;
                }
            }
            i += 1;
        }
    }

    /// The message of `opens[i]` ends at `end`, which has passed. `true`: the exchange is over, and gone.
    fn part_done<S: RowSink>(&mut self, i: usize, dir: Dir, end: u64, out: &mut S) -> bool {
        let (d, timeline) = (dir.index(), &self.timelines[dir.index()]);
        let open = &mut self.opens[i];
        let (part, row) = (&mut open.parts[d], &mut open.row);
        part.done = true;
        let start = if d == 0 { row.request_start } else { row.reply_start };
        let how = if d == 0 { row.request_how } else { row.reply_how };
        let last = if how == MessageEndHow::Lost { MonoNs(0) } else { timeline.last(start, end) };
        let packets = timeline.packets_until(end).wrapping_sub(part.packets_before).max(1);
        let missing = timeline.missing_before(end).saturating_sub(part.missing_before);
        row.missing_bytes = row.missing_bytes.saturating_add(missing.try_into().unwrap_or(u32::MAX));
        if d == 0 {
            row.request_last = last;
            row.request_packets = row.request_packets.saturating_add(packets);
        } else {
            (row.reply_last, row.reply_packets) = (last, packets);
        }
        let over = open.kind != Kind::Asked || (open.parts[0].done && open.parts[1].done);
        if over {
            let what = open.cut_short();
            self.leave(i, what, out);
        }
        over
    }

    /// Takes `opens[i]` out and tells of it.
    fn leave<S: RowSink>(&mut self, i: usize, what: ExchangeKind, out: &mut S) {
        let Some(open) = self.opens.remove(i) else { return };
        if open.ordered && what == ExchangeKind::Answered {
            self.trust.took(open.row.reply_last.0.saturating_sub(open.row.request_first.0));
        }
        if open.trial && what == ExchangeKind::Answered {
            self.held.push(SniffedExchangeRow { what, ..open.row });
        } else {
            self.write(open.row, what, out);
        }
    }

    /// The order on trial holds.
    fn release<S: RowSink>(&mut self, out: &mut S) {
        for row in std::mem::take(&mut self.held) {
            self.write(row, ExchangeKind::Answered, out);
        }
        self.opens.iter_mut().for_each(|open| open.trial = false);
    }

    fn write<S: RowSink>(&mut self, mut row: SniffedExchangeRow, what: ExchangeKind, out: &mut S) {
        row.what = what;
        let times = [row.request_last, row.request_head, row.reply_first, row.reply_head, row.reply_last];
        // Not before the rows that told of it as open: readers take rows in the order of their times.
        row.at = times.into_iter().fold(row.at.max(row.request_first), MonoNs::max);
        match what {
            ExchangeKind::Open => row.at = self.latest.max(row.at),
            ExchangeKind::ReplyOnly | ExchangeKind::ReplyMissed => out.count(defect::NET_UNPAIRED, row.at),
            _ => {}
        }
        self.ended += u64::from(what != ExchangeKind::Open);
        out.push(&row);
    }

    /// It is `now`: what the flow's silence proves, and what stays open. `lost`: when the capture last lost packets;
    /// `wait_ns`: after how long nothing is an answer any more, where a flow does not end or replies were hidden.
    pub fn visit<S: RowSink>(&mut self, now: MonoNs, lost: MonoNs, update_ns: u64, wait_ns: u64, out: &mut S) {
        if self.trust.silence_proves(now.0.saturating_sub(self.latest.0)) && self.drained() {
            self.trust.proven();
            self.release(out);
        }
        let (mut reported, mut i) = (0, 0);
        while i < self.opens.len() {
            let open = &mut self.opens[i];
            let waited = now.0.saturating_sub(open.row.request_first.0);
            if open.waits() && !open.ordered && waited > wait_ns {
                let what = unanswered(open, lost);
                self.leave(i, what, out);
                continue;
            }
            // Its time is that of the row before.
            if open.kind == Kind::Asked && now.0 - now.0.min(open.row.at.max(open.row.request_first).0) >= update_ns {
                open.row.at = now;
                out.push(&SniffedExchangeRow { what: ExchangeKind::Open, ..open.row });
                reported += 1;
            }
            if reported >= TOLD_OPEN_MAX {
                break;
            }
            i += 1;
        }
    }

    /// The flow's end, or the end of what is known of it. `datagrams`: there is no end in order.
    pub fn finish<S: RowSink>(&mut self, ending: Ending, datagrams: bool, lost: MonoNs, out: &mut S) {
        if self.trust.holds_at_end() {
            self.release(out);
        } else {
            self.hidden(Dir::ToClient, out);
        }
        let over = ending == Ending::Closed || datagrams;
        while let Some(mut open) = self.opens.pop_front() {
            let what = match open.kind {
                Kind::Asked if !over => ExchangeKind::Open,
                Kind::Asked if open.waits() && (!open.ordered || self.trust.pairs()) => unanswered(&open, lost),
                _ => open.cut_short(),
            };
            let [asked, answered] = open.parts;
            let row = &mut open.row;
            if asked.begun && !asked.done {
                let timeline = &self.timelines[0];
                row.request_packets = timeline.packets_until(timeline.end()).wrapping_sub(asked.packets_before);
                row.request_last = timeline.latest(row.request_start, timeline.end());
                (row.request_end, row.request_how) = (OPEN, MessageEndHow::NotKnown);
            }
            if answered.begun && !answered.done {
                let timeline = &self.timelines[1];
                row.reply_packets = timeline.packets_until(timeline.end()).wrapping_sub(answered.packets_before);
                row.reply_last = timeline.latest(row.reply_start, timeline.end());
                // What was closed inside a message ends where the stream did.
                let end = if over { (timeline.end(), MessageEndHow::Close) } else { (OPEN, MessageEndHow::NotKnown) };
                (row.reply_end, row.reply_how) = end;
            }
            self.write(open.row, what, out);
        }
    }
}
