//! One host's steps as rows: its linker runs by itself, and the join ([`crate::path`]) later, elsewhere, without the host's rows.
//!
//! ```text
//! rows of a host ─► first pass ─► second pass ─(steps)─► rows of `reduced`    one host, by itself
//! rows of `reduced` of each host ─(steps, by time)─► the join ─► requests     all hosts
//! ```
//!
//! Both the join and [`Steps`] are [`Finished`](crate::finished::Finished): who joins at once has the same steps.

mod replay;
mod rows;
mod steps;

use crate::first_pass::learn;
use crate::options::Options;
use crate::stream::Stream;
pub(crate) use replay::Replay;
use rows::COPIED;
pub use steps::Steps;
use wakepath_model::folder::{Copier, Host, TableSet};
use wakepath_model::ids::MonoNs;
use wakepath_model::rows::{Event, ReducedRow, StepKind, Table};

/// Whether a host was linked by itself: its rows of operations and messages are not there, its steps are.
pub fn is_reduced(host: &Host) -> bool {
    host.row_count(Table::Reduced) > 0
}

/// Links a host by itself: reads it three times, and writes its steps and the rows that are needed beside them ([`COPIED`]). Links
/// rest on everything that one host shows; who asks for links without habits, or for proofs, needs the host's own rows.
/// Memory: what is open at once, and what is learned of its tasks.
pub fn reduce<'c, 'h>(into: &'c mut Copier<'h>) -> Steps<'c, 'h> {
    let host = into.host();
    for event in host.events(TableSet::of(&COPIED), ..) {
        into.push(&event);
    }
    let (roles, known) = learn(host);
    let mut stream = Stream::new(host, &roles, known, Options::default(), Steps::new(into));
    while stream.step() {}
    let (report, mut steps) = stream.finish();
    steps.report(&report);
    steps
}

/// The first rows of a reduced host: what is known before its steps.
fn head(host: &Host) -> impl Iterator<Item = ReducedRow> {
    let rows =
        host.events(Table::Reduced.into(), ..).filter_map(|e| if let Event::Reduced(r) = e { Some(r) } else { None });
    rows.take_while(|r| matches!(r.what, StepKind::Recorded | StepKind::Left))
}

/// When each recording of a host began and ended, also of one whose rows were left out.
pub fn recordings(host: &Host) -> Vec<(MonoNs, MonoNs)> {
    if !is_reduced(host) {
        return host.recordings().into_iter().map(|(_, from, to)| (from, to)).collect();
    }
    head(host).filter(|r| r.what == StepKind::Recorded).map(|r| (r.began, r.reply_ended)).collect()
}

/// How many rows of a table were recorded, also where they were left out.
pub fn row_count(host: &Host, table: Table) -> u64 {
    let is_of = |r: &ReducedRow| r.what == StepKind::Left && host.text(r.text) == table.name();
    let left_out: u64 = if is_reduced(host) { head(host).filter(is_of).map(|r| r.number).sum() } else { 0 };
    host.row_count(table) + left_out
}
