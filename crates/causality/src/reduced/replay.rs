//! Steps of one host, read from rows and given to the join.

use super::rows::{self, CLASSES};
use crate::evidence::{Gap, Missing, Rule};
use crate::exchange::{Exchange, Opening};
use crate::finished::{Done, Finished, Refused};
use crate::host_out::HostOut;
use crate::report::HostReport;
use smallvec::SmallVec;
use wakepath_model::defects::{Ledger, id};
use wakepath_model::folder::{Events, Host};
use wakepath_model::ids::{EndpointId, MonoNs, StrId};
use wakepath_model::rows::{EndpointRow, Event, ReducedRow, StepKind, Table, reduced_trait};

/// What comes before an exchange that is done, until that comes.
#[derive(Default)]
struct Before {
    opening: Option<(MonoNs, MonoNs)>,
    answers: SmallVec<[(MonoNs, MonoNs); 2]>,
    calls: Vec<(Exchange, Rule)>,
    open_calls: Vec<(Exchange, u32)>,
    refusals: Vec<u64>,
}

/// A step that makes no sense, in words.
struct Senseless(&'static str);

/// Gives the steps of a reduced host to the join.
pub(crate) struct Replay<'f, 'o> {
    host: &'f Host,
    ledger: Ledger,
    rows: Events<'f>,
    next: Option<ReducedRow>,
    endpoints: Events<'f>,
    sniffed_flows: Events<'f>,
    sniffed_exchanges: Events<'f>,
    before: Before,
    out: HostOut<'o>,
    report: HostReport,
    /// The number of the row that should come next.
    sequence: u32,
    /// Something was wrong before.
    is_doubtful: bool,
}

impl<'f, 'o> Replay<'f, 'o> {
    /// Gives what is known before the first step.
    pub(crate) fn new(host: &'f Host, ledger: Ledger, out: HostOut<'o>) -> Self {
        let events = |table: Table| host.events(table.into(), ..);
        let mut replay = Replay {
            host,
            ledger,
            rows: events(Table::Reduced),
            next: None,
            endpoints: events(Table::Endpoint),
            sniffed_flows: events(Table::SniffedFlow),
            sniffed_exchanges: events(Table::SniffedExchange),
            before: Before::default(),
            out,
            report: HostReport::default(),
            sequence: 0,
            is_doubtful: false,
        };
        replay.advance();
        replay.begin();
        replay
    }

    /// Reads what comes before the steps.
    fn begin(&mut self) {
        let mut lost: Vec<(u64, u64)> = Vec::new();
        while let Some(r) = self.next {
            match r.what {
                StepKind::Recorded | StepKind::Left => {}
                StepKind::Lost => lost.push((r.began.0, r.reply_ended.0)),
                _ => break,
            }
            self.advance();
        }
        if !lost.is_empty() {
            self.out.lost(&lost);
        }
        while let Some(r) = self.next.filter(|r| r.what == StepKind::Channel) {
            let peer = EndpointId(r.number);
            // as the first pass announces it
            self.out.channel(&EndpointRow {
                flow: r.flow,
                peer,
                family: AF_UNIX,
                side: r.side,
                ..EndpointRow::default()
            });
            self.advance();
        }
    }

    /// Looks at the next row.
    fn advance(&mut self) {
        let is_end = self.next.is_some_and(|r| r.what == StepKind::End);
        self.next = self.rows.find_map(|e| if let Event::Reduced(r) = e { Some(r) } else { None });
        match self.next {
            Some(r) if r.sequence == self.sequence => self.sequence = self.sequence.wrapping_add(1),
            Some(r) => {
                self.sequence = r.sequence.wrapping_add(1);
                self.before = Before::default();
                self.doubt("steps are missing");
            }
            None if is_end => {}
            None => {
                self.doubt("the last steps are missing");
                // who called or was called by it on other hosts is still to be known as watched
                while let Some(Event::Endpoint(row)) = self.endpoints.next() {
                    self.out.endpoint(&row);
                }
            }
        }
    }

    /// Something is wrong with the steps: counts it, and from here on anything may be missing of the host.
    fn doubt(&mut self, why: &'static str) {
        let host = self.host.info().hostname.as_str();
        self.ledger.add_what(id::FOLDER_REDUCED, 1, None, || format!("{host}: {why}"));
        self.out.lost(&[(0, u64::MAX)]);
        self.is_doubtful = true;
    }

    /// When its next step is, on the common line (ns); `None` where all rows of the host were read.
    pub(crate) fn next_at(&self) -> Option<i64> {
        self.next.filter(|r| r.what != StepKind::ReadAll).map(|r| self.out.common(r.at))
    }

    /// Makes its next step; false where all rows of the host were read.
    pub(crate) fn step(&mut self) -> bool {
        let Some(r) = self.next.filter(|r| r.what != StepKind::ReadAll) else { return false };
        self.take(&r);
        self.advance();
        true
    }

    /// The recording is over: gives what is left, and what came of the host.
    pub(crate) fn finish(mut self) -> HostReport {
        while let Some(r) = self.next {
            self.take(&r);
            self.advance();
        }
        self.report
    }

    fn take(&mut self, r: &ReducedRow) {
        if let Err(Senseless(why)) = self.give(r) {
            self.doubt(why);
        }
    }

    /// Gives a step to the join, or keeps it for the one that it belongs to.
    fn give(&mut self, r: &ReducedRow) -> Result<(), Senseless> {
        match r.what {
            StepKind::Endpoint | StepKind::SniffedFlow | StepKind::SniffedExchange => return self.row(r),
            StepKind::Over => self.out.over(r.flow, r.request_start),
            StepKind::Gone => self.out.gone(r.flow, r.began),
            StepKind::Tick => self.out.tick(r.began),
            StepKind::Began => {
                let e = self.exchange(r)?;
                self.out.began(&e, r.count != 0);
            }
            StepKind::Refused => {
                let number = (r.traits & reduced_trait::WAITED_FOR != 0).then_some(r.number);
                let (flow, task, tried, error) = (r.flow, r.task, (r.began, r.reply_ended), r.count as i32);
                self.out.refused(Refused { flow, task, tried, error, number });
            }
            StepKind::Opening => self.before.opening = Some((r.began, r.reply_ended)),
            StepKind::Handshake => self.before.answers.push((r.began, r.reply_ended)),
            StepKind::Call => {
                let rule = Rule::from_name(self.host.text(r.text)).ok_or(Senseless("a call has no rule"))?;
                let call = self.exchange(r)?;
                self.before.calls.push((call, rule));
            }
            StepKind::OpenCall => {
                let call = self.exchange(r)?;
                self.before.open_calls.push((call, r.count));
            }
            StepKind::Tried => self.before.refusals.push(r.number),
            StepKind::Done => return self.done(r),
            StepKind::Made | StepKind::Missing | StepKind::Calls | StepKind::Operations => return self.count(r),
            // what is asked of services is read by who asks
            StepKind::ReadAll | StepKind::HeldReplies | StepKind::ClosedUnread | StepKind::End => {}
            StepKind::Recorded | StepKind::Left | StepKind::Lost | StepKind::Channel => {
                return Err(Senseless("what is known before the steps comes after them"));
            }
        }
        Ok(())
    }

    /// The next row of another table was read. Where steps are missing, those before it were, too.
    fn row(&mut self, r: &ReducedRow) -> Result<(), Senseless> {
        loop {
            let of = match r.what {
                StepKind::Endpoint => self.endpoints.next(),
                StepKind::SniffedFlow => self.sniffed_flows.next(),
                _ => self.sniffed_exchanges.next(),
            };
            let flow = match &of {
                Some(Event::Endpoint(row)) => row.flow.0,
                Some(Event::SniffedFlow(row)) => row.flow.0,
                Some(Event::SniffedExchange(row)) => row.flow.0,
                _ => return Err(Senseless("a row of another table is missing")),
            };
            if flow != r.flow.0 && !self.is_doubtful {
                self.doubt("a row of another table is another one");
            }
            match &of {
                Some(Event::Endpoint(row)) => self.out.endpoint(row),
                Some(Event::SniffedFlow(row)) => self.out.sniffed_flow(row),
                Some(Event::SniffedExchange(row)) => self.out.sniffed_exchange(row),
                _ => {}
            }
            if flow == r.flow.0 {
                return Ok(());
            }
        }
    }

    /// The exchange of a row, with how its connection came about.
    fn exchange(&mut self, r: &ReducedRow) -> Result<Exchange, Senseless> {
        let mut e = rows::exchange(r).ok_or(Senseless("an exchange has no side"))?;
        let answers = std::mem::take(&mut self.before.answers);
        e.client.opening = self.before.opening.take().map(|connect| Box::new(Opening::past(connect, answers)));
        Ok(e)
    }

    fn gap(&self, text: StrId) -> Result<Option<Gap>, Senseless> {
        match self.host.text(text) {
            "" => Ok(None),
            name => Gap::from_name(name).map(Some).ok_or(Senseless("a gap is of no known kind")),
        }
    }

    fn done(&mut self, r: &ReducedRow) -> Result<(), Senseless> {
        let exchange = self.exchange(r)?;
        let (gap, parent) = (self.gap(r.text)?, self.gap(r.orphan)?);
        let Before { calls, open_calls, refusals, .. } = std::mem::take(&mut self.before);
        self.out.done(Done {
            exchange,
            calls,
            parent,
            is_root_call: r.traits & reduced_trait::ROOT_CALL != 0,
            doubts: r.count,
            open_calls,
            gap,
            flows_lost: r.traits & reduced_trait::FLOWS_LOST != 0,
            refusals,
        });
        Ok(())
    }

    /// A count of what came of the host.
    fn count(&mut self, r: &ReducedRow) -> Result<(), Senseless> {
        let name = self.host.text(r.text);
        let report = &mut self.report;
        let count = match r.what {
            StepKind::Made => {
                let rule = Rule::from_name(name).ok_or(Senseless("links are counted of no known rule"))?;
                report.made.entry(rule).or_default()
            }
            StepKind::Missing => {
                let missing = Missing::from_name(name).ok_or(Senseless("calls lack nothing that is known"))?;
                report.missing.entry((missing, r.process)).or_default()
            }
            StepKind::Operations => {
                report.held_max = report.held_max.max(r.count as usize);
                &mut report.operations
            }
            _ => {
                let class = CLASSES.iter().position(|class| *class == name);
                let calls = &mut report.calls;
                let all = [&mut calls.begun, &mut calls.linked, &mut calls.open, &mut calls.own, &mut calls.beyond];
                all.into_iter().nth(class.unwrap_or(CLASSES.len())).ok_or(Senseless("calls are of no known class"))?
            }
        };
        *count = count.saturating_add(r.number);
        Ok(())
    }
}

/// The family of channels: what they are announced as.
const AF_UNIX: u16 = 1;
