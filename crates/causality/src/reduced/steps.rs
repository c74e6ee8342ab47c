//! Steps of one host, written as rows.

use super::rows::{self, CLASSES, COPIED};
use crate::evidence::Gap;
use crate::exchange::Exchange;
use crate::finished::{Done, Finished, Refused};
use crate::report::HostReport;
use wakepath_model::folder::{Copier, TableSet};
use wakepath_model::ids::{EndpointId, MonoNs, StrId};
use wakepath_model::rows::{
    EndpointRow, ReducedRow, SniffedExchangeRow, SniffedFlowRow, StepKind, Table, reduced_trait,
};

/// Writes the steps of a host as rows.
pub struct Steps<'c, 'h> {
    into: &'c mut Copier<'h>,
    at: MonoNs,
    /// The times of the host's first and last row.
    begin: MonoNs,
    end: MonoNs,
    sequence: u32,
}

impl<'c, 'h> Steps<'c, 'h> {
    /// Begins with what was recorded of the host.
    pub(super) fn new(into: &'c mut Copier<'h>) -> Self {
        let host = into.host();
        let (begin, end) = host.span().unwrap_or_default();
        let mut steps = Steps { into, at: begin, begin, end, sequence: 0 };
        for (_, from, to) in host.recordings() {
            steps.push(StepKind::Recorded, ReducedRow { began: from, reply_ended: to, ..ReducedRow::default() });
        }
        for &table in Table::ALL.iter().filter(|t| !TableSet::of(&COPIED).contains(**t)) {
            let number = host.row_count(table);
            if number > 0 {
                let text = steps.word(table.name());
                steps.push(StepKind::Left, ReducedRow { number, text, ..ReducedRow::default() });
            }
        }
        steps
    }

    /// Adds a row.
    pub fn push(&mut self, what: StepKind, row: ReducedRow) {
        self.into.writer.push(&ReducedRow { at: self.at, what, sequence: self.sequence, ..row });
        self.sequence = self.sequence.wrapping_add(1);
    }

    /// Something was found wrong while the host was read.
    pub fn defect(&mut self, defect: &str, count: u64) {
        self.into.writer.push_loss(defect, count, self.begin, self.end);
    }

    /// The last row: nothing is missing after it.
    pub fn end(mut self) {
        self.push(StepKind::End, ReducedRow::default());
    }

    fn word(&mut self, word: &str) -> StrId {
        self.into.writer.intern(word)
    }

    fn gap(&mut self, gap: Option<Gap>) -> StrId {
        gap.map_or(StrId::EMPTY, |gap| self.word(gap.name()))
    }

    /// An exchange as a row, after the rows of how its connection came about.
    fn exchange(&mut self, e: &Exchange) -> ReducedRow {
        if let Some(opening) = &e.client.opening {
            let interval =
                |(began, reply_ended)| ReducedRow { flow: e.flow, began, reply_ended, ..ReducedRow::default() };
            self.push(StepKind::Opening, interval(opening.connect()));
            for &answer in opening.answers() {
                self.push(StepKind::Handshake, interval(answer));
            }
        }
        rows::of_exchange(e, |id| self.into.string(id))
    }

    /// What came of the host, after its last step.
    pub(super) fn report(&mut self, report: &HostReport) {
        let HostReport { made, missing, calls, operations, held_max } = report;
        for (rule, &number) in made {
            let text = self.word(rule.name());
            self.push(StepKind::Made, ReducedRow { text, number, ..ReducedRow::default() });
        }
        for (&(missing, leader), &number) in missing {
            let text = self.word(missing.name());
            self.push(StepKind::Missing, ReducedRow { text, number, process: leader, ..ReducedRow::default() });
        }
        let classes = CLASSES.iter().zip([calls.begun, calls.linked, calls.open, calls.own, calls.beyond]);
        for (class, number) in classes {
            let text = self.word(class);
            self.push(StepKind::Calls, ReducedRow { text, number, ..ReducedRow::default() });
        }
        let count = u32::try_from(*held_max).unwrap_or(u32::MAX);
        self.push(StepKind::Operations, ReducedRow { number: *operations, count, ..ReducedRow::default() });
    }
}

impl Finished for Steps<'_, '_> {
    fn lost(&mut self, intervals: &[(u64, u64)]) {
        for &(from, to) in intervals {
            let row = ReducedRow { began: MonoNs(from), reply_ended: MonoNs(to), ..ReducedRow::default() };
            self.push(StepKind::Lost, row);
        }
    }

    fn channel(&mut self, r: &EndpointRow) {
        let row = ReducedRow { flow: r.flow, number: r.peer.0, side: r.side, ..ReducedRow::default() };
        self.push(StepKind::Channel, row);
    }

    fn at(&mut self, at: MonoNs) {
        self.at = at;
    }

    fn endpoint(&mut self, r: &EndpointRow) {
        self.push(StepKind::Endpoint, ReducedRow { flow: r.flow, ..ReducedRow::default() });
    }

    fn sniffed_flow(&mut self, r: &SniffedFlowRow) {
        self.push(StepKind::SniffedFlow, ReducedRow { flow: EndpointId(r.flow.0), ..ReducedRow::default() });
    }

    fn sniffed_exchange(&mut self, r: &SniffedExchangeRow) {
        self.push(StepKind::SniffedExchange, ReducedRow { flow: EndpointId(r.flow.0), ..ReducedRow::default() });
    }

    fn over(&mut self, flow: EndpointId, sent_to: u64) {
        self.push(StepKind::Over, ReducedRow { flow, request_start: sent_to, ..ReducedRow::default() });
    }

    fn gone(&mut self, flow: EndpointId, at: MonoNs) {
        self.push(StepKind::Gone, ReducedRow { flow, began: at, ..ReducedRow::default() });
    }

    fn tick(&mut self, at: MonoNs) {
        self.push(StepKind::Tick, ReducedRow { began: at, ..ReducedRow::default() });
    }

    fn began(&mut self, e: &Exchange, asks_only: bool) {
        let row = rows::of_exchange(e, |id| self.into.string(id));
        self.push(StepKind::Began, ReducedRow { count: asks_only.into(), ..row });
    }

    fn done(&mut self, d: Done) {
        for (call, rule) in &d.calls {
            let row = self.exchange(call);
            let text = self.word(rule.name());
            self.push(StepKind::Call, ReducedRow { text, ..row });
        }
        for (call, others) in &d.open_calls {
            let row = self.exchange(call);
            self.push(StepKind::OpenCall, ReducedRow { count: *others, ..row });
        }
        for &number in &d.refusals {
            self.push(StepKind::Tried, ReducedRow { number, ..ReducedRow::default() });
        }
        let row = self.exchange(&d.exchange);
        let bit = |is_so, bit| if is_so { bit } else { 0 };
        let traits =
            row.traits | bit(d.is_root_call, reduced_trait::ROOT_CALL) | bit(d.flows_lost, reduced_trait::FLOWS_LOST);
        let (text, orphan) = (self.gap(d.gap), self.gap(d.parent));
        self.push(StepKind::Done, ReducedRow { traits, count: d.doubts, text, orphan, ..row });
    }

    fn refused(&mut self, r: Refused) {
        let Refused { flow, task, tried, error, number } = r;
        let traits = number.map_or(0, |_| reduced_trait::WAITED_FOR);
        let number = number.unwrap_or(0);
        let row = ReducedRow {
            flow,
            task,
            began: tried.0,
            reply_ended: tried.1,
            count: error as u32,
            number,
            traits,
            ..ReducedRow::default()
        };
        self.push(StepKind::Refused, row);
    }

    fn read_all(&mut self) {
        self.at = self.end.max(self.at);
        self.push(StepKind::ReadAll, ReducedRow::default());
    }
}
