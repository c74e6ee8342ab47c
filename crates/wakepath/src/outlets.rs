//! Where the rows of the network vantage go: a folder, a collector elsewhere, figures; and what is said at the end.

use crate::forward::{Forwarded, Forwarder};
use crate::record::stopped;
use anyhow::Result;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wakepath_analysis::metrics::Metrics;
use wakepath_model::defects::id as defect;
use wakepath_model::folder::{Durability, FolderWriter, HostInfo, Options, WriteCounts};
use wakepath_model::ids::{CommonNs, MonoNs, StrId};
use wakepath_model::intern::Interner;
use wakepath_model::rows::{AnchorRow, Event, ExchangeKind, FlowRowKind, LossRow};

/// How often rows are written.
const FLUSH: Duration = Duration::from_millis(100);

/// Figures of all hosts, shared with who shows them.
#[derive(Clone)]
pub struct Figures(Arc<Mutex<Metrics>>);

impl Figures {
    pub fn new(metrics: Metrics) -> Figures {
        Figures(Arc::new(Mutex::new(metrics)))
    }

    pub fn lock(&self) -> MutexGuard<'_, Metrics> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What came of a host's rows.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Rows taken.
    pub rows: u64,
    /// Flows begun.
    pub flows: u64,
    /// Exchanges that are over.
    pub exchanges: u64,
    /// Times of the first and the last row.
    pub span: Option<(MonoNs, MonoNs)>,
    /// By defect: how many, from when to when.
    pub lost: BTreeMap<String, (u64, MonoNs, MonoNs)>,
}

impl Totals {
    /// How often a defect was met.
    pub fn count(&self, defect: &str) -> u64 {
        self.lost.get(defect).map_or(0, |l| l.0)
    }

    fn add(&mut self, event: &Event, texts: &Interner) {
        self.rows += 1;
        let at = event.at();
        let (first, last) = self.span.unwrap_or((at, at));
        self.span = Some((first.min(at), last.max(at)));
        match event {
            Event::SniffedFlow(r) => self.flows += u64::from(r.what == FlowRowKind::Begin),
            Event::SniffedExchange(r) => self.exchanges += u64::from(r.what != ExchangeKind::Open),
            Event::Loss(r) => self.lost(&String::from_utf8_lossy(texts.get(r.what).unwrap_or_default()), r),
            _ => {}
        }
    }

    fn lost(&mut self, what: &str, row: &LossRow) {
        match self.lost.get_mut(what) {
            Some(sum) => *sum = (sum.0.saturating_add(row.count), sum.1.min(row.from), sum.2.max(row.at)),
            None => drop(self.lost.insert(what.to_owned(), (row.count, row.from, row.at))),
        }
    }
}

/// A folder, and how it names strings.
struct IntoHost {
    writer: FolderWriter,
    path: PathBuf,
    /// By the rows' own number of a string; 0 = not asked for yet.
    strings: Vec<StrId>,
    anchor: Option<AnchorRow>,
    flushed: Instant,
}

impl IntoHost {
    fn push(&mut self, event: &Event, texts: &Interner) {
        match event {
            Event::SniffedExchange(r) => {
                let mut row = *r;
                for id in [&mut row.protocol, &mut row.verb, &mut row.target, &mut row.detail] {
                    *id = self.string(*id, texts);
                }
                self.writer.push(&row);
            }
            Event::SniffedFlow(r) => {
                let mut row = *r;
                row.protocol = self.string(row.protocol, texts);
                row.reason = self.string(row.reason, texts);
                self.writer.push(&row);
            }
            Event::Loss(r) => {
                let what = self.string(r.what, texts);
                self.writer.push(&LossRow { what, ..*r });
            }
            Event::Anchor(r) => {
                self.anchor = Some(*r);
                self.writer.push(r);
            }
            // the network vantage makes no other rows
            _ => {}
        }
    }

    fn string(&mut self, id: StrId, texts: &Interner) -> StrId {
        if id == StrId::EMPTY {
            return id;
        }
        let i = id.0 as usize;
        if i >= self.strings.len() {
            self.strings.resize(texts.count().max(i + 1), StrId::EMPTY);
        }
        if self.strings[i] == StrId::EMPTY {
            self.strings[i] = self.writer.intern(texts.get(id).unwrap_or_default());
        }
        self.strings[i]
    }

    fn flush(&mut self) -> Result<()> {
        let flushed = self.writer.flush(Durability::Write);
        flushed.map_err(|e| stopped(e.into(), self.writer.counts().rows, &self.path))?;
        if self.writer.needs_state()
            && let Some(anchor) = self.anchor
        {
            self.writer.push(&anchor);
        }
        Ok(())
    }
}

/// Where one host's rows go.
#[derive(Default)]
pub struct Outlets {
    folder: Option<IntoHost>,
    forward: Option<Forwarder>,
    figures: Option<(Figures, u16)>,
    /// Wall-clock time minus the rows' clock, by the latest anchor.
    wall_offset_ns: i64,
    totals: Totals,
}

impl Outlets {
    /// Into a folder too.
    pub fn write_folder(&mut self, path: &Path, host: HostInfo, options: Options) -> Result<()> {
        let writer = FolderWriter::create(path, host, options)?;
        let path = path.to_owned();
        self.folder = Some(IntoHost { writer, path, strings: Vec::new(), anchor: None, flushed: Instant::now() });
        Ok(())
    }

    /// The folder's writer, where there is one.
    pub fn writer(&mut self) -> Option<&mut FolderWriter> {
        self.folder.as_mut().map(|f| &mut f.writer)
    }

    /// To a collector too.
    pub fn forward(&mut self, forwarder: Forwarder) {
        self.forward = Some(forwarder);
    }

    /// Begins to send on, now that rights are given up.
    pub fn start_forwarding(&mut self) -> Result<()> {
        self.forward.as_mut().map_or(Ok(()), Forwarder::start)
    }

    /// Into figures too, as the capture `source`.
    pub fn figures(&mut self, figures: Figures, source: u16) {
        self.figures = Some((figures, source));
    }

    /// What came so far.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Takes rows, whose strings are `texts`.
    pub fn take(&mut self, events: &[Event], texts: &Interner) {
        for event in events {
            if let Event::Anchor(a) = event {
                self.wall_offset_ns = a.real_ns.wrapping_sub(a.at.0) as i64;
            }
            self.totals.add(event, texts);
            if let Some(folder) = &mut self.folder {
                folder.push(event, texts);
            }
            if let Some(forward) = &mut self.forward {
                forward.push(event, &|id| texts.get(id).unwrap_or_default());
            }
        }
        if let Some((figures, source)) = &self.figures {
            let mut metrics = figures.lock();
            for event in events {
                let at = CommonNs((event.at().0 as i64).wrapping_add(self.wall_offset_ns));
                match event {
                    Event::SniffedFlow(r) => metrics.flow(*source, at, r, texts),
                    Event::SniffedExchange(r) => metrics.exchange(*source, at, r, texts),
                    Event::Loss(r) if texts.get(r.what) == Some(defect::PACKET_DROP.as_bytes()) => {
                        metrics.lost(r.count)
                    }
                    _ => {}
                }
            }
        }
    }

    /// It is `now`: writes and sends what has waited for long enough. Errors: the disk takes no more.
    pub fn tick(&mut self, now: Instant) -> Result<()> {
        if let Some(forward) = &mut self.forward {
            forward.tick(now);
        }
        if let Some(folder) = &mut self.folder
            && now.duration_since(folder.flushed) >= FLUSH
        {
            folder.flushed = now;
            folder.flush()?;
        }
        Ok(())
    }

    /// Writes what waits, now.
    pub fn flush(&mut self) -> Result<()> {
        self.folder.as_mut().map_or(Ok(()), IntoHost::flush)
    }

    /// Ends all. The folder is closed also where the collector cannot be reached.
    pub fn close(self, stop: &AtomicBool) -> Result<(Totals, Option<WriteCounts>, Option<Forwarded>)> {
        let written = self.folder.map(|folder| {
            let rows = folder.writer.counts().rows;
            folder.writer.close().map_err(|e| stopped(e.into(), rows, &folder.path))
        });
        let sent = self.forward.map(|f| f.finish(stop));
        Ok((self.totals, written.transpose()?, sent))
    }
}
