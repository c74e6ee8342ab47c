//! What a processor says, into open exchanges.

use super::Book;
use super::open::{Kind, Number, Open, Part, has, number, question};
use crate::RowSink;
use crate::words;
use wakepath_model::ids::MonoNs;
use wakepath_model::rows::{OPEN, SniffedExchangeRow};
use wakepath_protocols::{Dir, EndHow, Message, Role, Sink, Status, Witness, mask};

/// The book, with where its rows go: what a processor is given.
pub(crate) struct Ear<'a, S> {
    pub book: &'a mut Book,
    pub at: MonoNs,
    pub out: &'a mut S,
}

impl<S: RowSink> Ear<'_, S> {
    fn row(&mut self, m: &Message<'_>) -> (SniffedExchangeRow, Number) {
        let (number, witness_kind, value) = number(m.witnesses);
        let trail = &self.book.trails[m.dir.index()];
        let first = trail.first(m.start);
        let head = trail.latest(m.start, m.head_end.max(m.start.saturating_add(1)));
        let (flow, protocol) = (self.book.flow, self.book.protocol);
        let mut row = SniffedExchangeRow { flow, protocol, ..Default::default() };
        (row.request_start, row.request_end, row.reply_start, row.reply_end) = (OPEN, OPEN, OPEN, OPEN);
        [row.verb, row.target, row.detail] = self.book.speech.message(m, self.out);
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
            let told =
                m.witnesses.iter().find_map(|w| if let Witness::XRequestId(hash) = w { Some(*hash) } else { None });
            row.request_id = told.unwrap_or(0);
        }
        (row, number)
    }
}

impl<S: RowSink> Sink for Ear<'_, S> {
    fn message(&mut self, m: &Message<'_>) {
        let (row, number) = self.row(m);
        let book = &mut *self.book;
        book.met[m.dir.index()] = true;
        let kind = match (m.role, m.dir) {
            (Role::Interim, Dir::ToServer) => return,
            (Role::Interim, Dir::ToClient) => {
                let of = |o: &&mut Open| {
                    o.waits()
                        && match number {
                            Number::Own(kind, value) => has(&o.row, kind, value),
                            _ => o.ordered,
                        }
                };
                let paired = matches!(number, Number::Own(..)) || book.trust.pairs();
                if let Some(open) = book.opens.iter_mut().find(of).filter(|_| paired) {
                    open.row.interim = open.row.interim.saturating_add(1);
                }
                return;
            }
            (Role::Request, Dir::ToServer) => {
                let mut open = Open::new(row, Kind::Asked, [book.begin(m), Part::default()]);
                open.question = question(m);
                return book.request(number, open, self.out);
            }
            (Role::Reply, Dir::ToClient) => return book.reply(m, number, row, self.out),
            (_, Dir::ToServer) => Kind::NoReply,
            (_, Dir::ToClient) => Kind::Unsolicited,
        };
        if m.attrs.verb == "OPAQUE" {
            book.opaque = true;
            return;
        }
        let (part, none) = (book.begin(m), Part::default());
        let parts = if m.dir == Dir::ToServer { [part, none] } else { [none, part] };
        book.push(Open::new(row, kind, parts), self.out);
    }

    fn end(&mut self, dir: Dir, start: u64, end: u64, how: EndHow) {
        let book = &mut *self.book;
        let d = dir.index();
        let is =
            |o: &Open| o.parts[d].begun && !o.parts[d].done && start == [o.row.request_start, o.row.reply_start][d];
        // Requests end behind all others, replies before them.
        let found = if d == 0 { book.opens.iter().rposition(is) } else { book.opens.iter().position(is) };
        let lost = how == EndHow::Lost;
        let Some(i) = found else { return };
        let how = words::end(how);
        let row = &mut book.opens[i].row;
        let known = if lost { OPEN } else { end };
        if d == 0 {
            (row.request_end, row.request_how) = (known, how);
        } else {
            (row.reply_end, row.reply_how) = (known, how);
        }
        if end <= book.trails[d].end() || lost {
            book.part_done(i, dir, end, self.out);
        } else {
            book.due[d] = book.due[d].min(end);
        }
        if !lost {
            book.trails[d].forget(end);
        }
    }

    fn amend(&mut self, _: Dir, start: u64, status: Status<'_>) {
        let detail = self.book.speech.class(&status, start, self.out);
        let mut opens = self.book.opens.iter_mut();
        let Some(open) = opens.find(|o| o.parts[1].begun && o.row.reply_start == start) else { return };
        open.row.failed = words::failed(Role::Reply, status.outcome);
        open.row.detail = detail;
        open.row.status = status.code.unwrap_or(open.row.status);
    }

    fn defect(&mut self, d: wakepath_protocols::Defect, dir: Dir, _: u64) {
        // Joined amid a message: nothing is missing but what passed before the capture.
        let joins = self.book.joined && !self.book.met[dir.index()];
        if !joins || d != wakepath_protocols::Defect::BorderLost {
            self.out.count(words::defect(d), self.at);
        }
    }
}
