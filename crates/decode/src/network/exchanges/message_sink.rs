//! What a processor says, into open exchanges.

use super::ExchangeTracker;
use super::open::{Kind, Number, Open, Part, has, number, question};
use crate::RowSink;
use crate::words;
use wakepath_model::ids::MonoNs;
use wakepath_model::rows::{OPEN, SniffedExchangeRow};
use wakepath_protocols::{Dir, EndHow, Message, Role, Sink, Status, Witness, mask};

/// The tracker, with where its rows go: what a processor is given.
pub(crate) struct MessageSink<'a, S> {
    pub tracker: &'a mut ExchangeTracker,
    pub at: MonoNs,
    pub out: &'a mut S,
}

impl<S: RowSink> MessageSink<'_, S> {
    fn row(&mut self, m: &Message<'_>) -> (SniffedExchangeRow, Number) {
        let (number, witness_kind, value) = number(m.witnesses);
        let timeline = &self.tracker.timelines[m.dir.index()];
        let first = timeline.first(m.start);
        let head = timeline.latest(m.start, m.head_end.max(m.start.saturating_add(1)));
        let (flow, protocol) = (self.tracker.flow, self.tracker.protocol);
        let mut row = SniffedExchangeRow { flow, protocol, ..Default::default() };
        (row.request_start, row.request_end, row.reply_start, row.reply_end) = (OPEN, OPEN, OPEN, OPEN);
        [row.verb, row.target, row.detail] = self.tracker.speech.message(m, self.out);
        (row.witness, row.witness_kind) = (value, witness_kind);
        row.cut = u8::from(m.attrs.cut);
        row.status = m.attrs.status.code.unwrap_or(0);
        row.failed = words::failed(m.role, m.attrs.status.outcome);
        if m.dir == Dir::ToServer {
            (row.request_start, row.request_first, row.request_head) = (m.start, first, head);
            for witness in m.witnesses {
                match witness {
                    Witness::TraceParent { trace, span } => {
                        (row.trace, row.span) = (mask::fnv1a(trace), u64::from_be_bytes(*span));
                    }
                    Witness::XRequestId(hash) => row.request_id = *hash,
                    _ => {}
                }
            }
        } else {
            (row.reply_start, row.reply_first, row.reply_head) = (m.start, first, head);
            // a server that made the identifier tells it there
            let reported =
                m.witnesses.iter().find_map(|w| if let Witness::XRequestId(hash) = w { Some(*hash) } else { None });
            row.request_id = reported.unwrap_or(0);
        }
        (row, number)
    }
}

impl<S: RowSink> Sink for MessageSink<'_, S> {
    fn message(&mut self, m: &Message<'_>) {
        let (row, number) = self.row(m);
        let tracker = &mut *self.tracker;
        tracker.met[m.dir.index()] = true;
        let kind = match (m.role, m.dir) {
            (Role::Request, _) if tracker.to_all => Kind::NoReply,
            (_, _) if tracker.to_all => Kind::Unsolicited,
            // a reply that was on its way then passes all the same
            (Role::Withdrawal, _) | (Role::Interim, Dir::ToServer) => return,
            (Role::Interim, Dir::ToClient) => {
                let of = |o: &&mut Open| {
                    o.waits()
                        && match number {
                            Number::Own(kind, value) => has(&o.row, kind, value),
                            _ => o.ordered,
                        }
                };
                let paired = matches!(number, Number::Own(..)) || tracker.trust.pairs();
                if let Some(open) = tracker.opens.iter_mut().find(of).filter(|_| paired) {
                    open.row.interim = open.row.interim.saturating_add(1);
                }
                return;
            }
            (Role::Request, Dir::ToServer) => {
                let mut open = Open::new(row, Kind::Asked, [tracker.begin(m), Part::default()]);
                open.question = question(m);
                return tracker.request(number, open, self.out);
            }
            (Role::Reply, Dir::ToClient) => return tracker.reply(m, number, row, self.out),
            (Role::OneWay, Dir::ToServer) => Kind::NoReply,
            _ => Kind::Unsolicited,
        };
        if m.attrs.verb == "OPAQUE" {
            tracker.opaque = true;
            return;
        }
        let (part, none) = (tracker.begin(m), Part::default());
        let parts = if m.dir == Dir::ToServer { [part, none] } else { [none, part] };
        tracker.push(Open::new(row, kind, parts), self.out);
    }

    fn end(&mut self, dir: Dir, start: u64, end: u64, how: EndHow) {
        let tracker = &mut *self.tracker;
        let d = dir.index();
        let is =
            |o: &Open| o.parts[d].begun && !o.parts[d].done && start == [o.row.request_start, o.row.reply_start][d];
        // Requests end after all others, replies before them.
        let found = if d == 0 { tracker.opens.iter().rposition(is) } else { tracker.opens.iter().position(is) };
        let lost = how == EndHow::Lost;
        let Some(i) = found else { return };
        let how = words::end(how);
        let row = &mut tracker.opens[i].row;
        let known = if lost { OPEN } else { end };
        if d == 0 {
            (row.request_end, row.request_how) = (known, how);
        } else {
            (row.reply_end, row.reply_how) = (known, how);
        }
        if end <= tracker.timelines[d].end() || lost {
            tracker.part_done(i, dir, end, self.out);
        } else {
            tracker.due[d] = tracker.due[d].min(end);
        }
        if !lost {
            tracker.timelines[d].forget(end);
        }
    }

    fn amend(&mut self, _: Dir, start: u64, status: Status<'_>) {
        let detail = self.tracker.speech.class(&status, start, self.out);
        let mut opens = self.tracker.opens.iter_mut();
        let Some(open) = opens.find(|o| o.parts[1].begun && o.row.reply_start == start) else { return };
        open.row.failed = words::failed(Role::Reply, status.outcome);
        open.row.detail = detail;
        open.row.status = status.code.unwrap_or(open.row.status);
    }

    fn defect(&mut self, d: wakepath_protocols::Defect, dir: Dir, _: u64) {
        // Joined amid a message: nothing is missing but what passed before the capture.
        let joins = self.tracker.joined && !self.tracker.met[dir.index()];
        if !joins || d != wakepath_protocols::Defect::BorderLost {
            self.out.count(words::defect(d), self.at);
        }
    }
}
