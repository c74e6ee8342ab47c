//! From raw events into the folder: what a reader feeds, and what keeps the disk's pace.

use super::{BATCH_BYTES, Problem};
use wakepath_decode::imported::{Imported, Importer};
use wakepath_decode::raw::{Raw, RawSink};
use wakepath_decode::readers::HostFacts;
use wakepath_decode::recurring::Said;
use wakepath_decode::{RowSink, TaskFacts};
use wakepath_model::defects::{self, Severity};
use wakepath_model::folder::{Durability, FolderError, FolderWriter};
use wakepath_model::ids::{EndpointId, MonoNs, StrId};
use wakepath_model::rows::{AnchorRow, Row};

/// Events between two looks at the batch.
const LOOK_EVENTS: u32 = 1 << 15;
/// How well a tracer knows the wall clock: none says, all take it once, when they begin.
const ANCHOR_ERROR_NS: u64 = 1_000_000;

/// The folder as the importer sees it, with the defects that were counted since the last batch.
struct Rows {
    folder: FolderWriter,
    counts: Vec<(&'static str, u64)>,
    all: Vec<Problem>,
}

impl RowSink for Rows {
    fn push<R: Row>(&mut self, row: &R) {
        self.folder.push(row);
    }
    fn push_head(&mut self, at: MonoNs, flow: EndpointId, pos: u64, sent: bool, bytes: &[u8]) {
        self.folder.push_head(at, flow, pos, sent, bytes);
    }
    fn count(&mut self, defect: &'static str, _: MonoNs) {
        match self.counts.iter_mut().find(|(d, _)| *d == defect) {
            Some((_, n)) => *n += 1,
            None => self.counts.push((defect, 1)),
        }
    }
    fn intern(&mut self, text: &[u8]) -> StrId {
        self.folder.intern(text)
    }
    /// Kernel traces hold nothing of what was said.
    fn said(&mut self, _: &str, _: &Said) -> StrId {
        StrId::EMPTY
    }
    fn describe(&mut self, _: u32, _: u32) -> TaskFacts {
        TaskFacts::default()
    }
}

impl Rows {
    /// Writes down what was counted between two times. What has made rows wrong or missing may have done so anywhere
    /// between; all else is marked in the rows themselves and covers no time.
    fn report(&mut self, from: MonoNs, to: MonoNs) {
        for (id, count) in std::mem::take(&mut self.counts) {
            let is_hole = defects::find(id).is_some_and(|d| d.severity == Severity::Error);
            self.folder.push_loss(id, count, if is_hole { from } else { to }, to);
            match self.all.iter_mut().find(|p| p.id == id) {
                Some(p) => p.count += count,
                None => self.all.push(Problem { id, count, first: None }),
            }
        }
    }
}

/// What came of one trace.
pub struct Written {
    pub imported: Imported,
    pub rows: u64,
    pub problems: Vec<Problem>,
}

/// Takes the raw events of one trace and writes rows.
pub struct FolderSink {
    importer: Importer<Rows>,
    wall_offset_ns: Option<i64>,
    since_look: u32,
    reported: MonoNs,
    anchored: bool,
    failure: Option<FolderError>,
}

impl FolderSink {
    /// Writes into `folder` what a trace with these facts says.
    pub fn new(folder: FolderWriter, facts: &HostFacts) -> FolderSink {
        FolderSink {
            importer: Importer::new(Rows { folder, counts: Vec::new(), all: Vec::new() }, facts.cpus),
            wall_offset_ns: facts.wall_offset_ns,
            since_look: 0,
            reported: MonoNs(0),
            anchored: false,
            failure: None,
        }
    }

    /// Whether writing failed: what is read from then on is for nothing.
    pub fn failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Ends the trace and makes it durable.
    pub fn finish(mut self) -> Result<Written, FolderError> {
        self.look();
        let (mut rows, imported) = self.importer.finish();
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        anchor(&mut rows.folder, imported.last, self.wall_offset_ns);
        rows.report(self.reported.min(imported.last), imported.last);
        let problems = rows.all;
        let counts = rows.folder.close()?;
        Ok(Written { imported, rows: counts.rows, problems })
    }

    #[cold]
    fn look(&mut self) {
        self.since_look = 0;
        let (first, now) = (self.importer.so_far().first, self.importer.so_far().last);
        if now < first {
            return;
        }
        if !self.anchored {
            self.anchored = true;
            self.reported = first;
            anchor(&mut self.importer.out().folder, first, self.wall_offset_ns);
        }
        let out = self.importer.out();
        if out.folder.batch_bytes() < BATCH_BYTES {
            return;
        }
        out.report(self.reported.min(now), now);
        self.reported = now;
        if let Err(e) = out.folder.flush(Durability::Write) {
            self.failure.get_or_insert(e);
        }
        if out.folder.needs_state() {
            anchor(&mut out.folder, now, self.wall_offset_ns);
            self.importer.restate();
        }
    }
}

impl RawSink for FolderSink {
    #[inline]
    fn event(&mut self, at: MonoNs, cpu: u16, event: &Raw<'_>) {
        self.importer.event(at, cpu, event);
        self.since_look += 1;
        if self.since_look >= LOOK_EVENTS {
            self.look();
        }
    }
    fn lost(&mut self, cpu: Option<u16>, from: MonoNs, to: MonoNs, count: u64) {
        self.importer.lost(cpu, from, to, count);
    }
    fn count(&mut self, defect: &'static str, at: MonoNs) {
        debug_assert!(defects::find(defect).is_some(), "{defect} is not in the list of defects");
        self.importer.count(defect, at);
    }
}

fn anchor(folder: &mut FolderWriter, at: MonoNs, wall_offset_ns: Option<i64>) {
    let real = wall_offset_ns.and_then(|o| u64::try_from(i128::from(at.0) + i128::from(o)).ok());
    if let Some(real_ns) = real {
        folder.push(&AnchorRow { at, real_ns, error_ns: ANCHOR_ERROR_NS, ..Default::default() });
    }
}
