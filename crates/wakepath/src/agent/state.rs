//! What an agent knows of itself: its figures, and how it shows them.

use super::config::{Config, Detail};
use super::usage::Usage;
use crate::record::report::Figures;
use serde_json::json;
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use wakepath_capture::procfs;
use wakepath_model::folder::Window;

/// A recorder reports each second; one that was silent for so long does not record.
const SILENT: Duration = Duration::from_secs(15);

/// What all parts of an agent share.
pub struct State {
    /// As it was read.
    pub config: Config,
    now: Mutex<Now>,
}

/// Figures that change.
#[derive(Debug, Default)]
pub struct Now {
    /// Of recorders that have ended, and of the one that records.
    pub ended: Figures,
    pub recorder: Figures,
    /// When it reported last.
    pub reported: Option<Instant>,
    /// Recorders that were started again after they failed.
    pub restarts: u64,
    pub lowered: Vec<Detail>,
    pub usage: Usage,
    /// Processor time of recorders that have ended (ns).
    pub ran_before_ns: u64,
    /// Share of a processor, when it was measured last.
    pub share: f64,
    /// Over budget, with no detail left that could go.
    pub is_over: bool,
    pub ring: Window,
    /// When the oldest segment was made, ns since 1970; 0 if there is none.
    pub oldest_real_ns: u64,
    /// Segments of ended recordings that were deleted for age or size.
    pub pruned: u64,
    /// Of the disk of the folder: left, and all.
    pub disk: (u64, u64),
    pub kept: Kept,
}

/// Figures of what is kept.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kept {
    /// Folders that are there, and the bytes of their segments.
    pub folders: u64,
    pub bytes: u64,
    /// Folders that were deleted to stay within `kept.max_bytes`.
    pub deleted: u64,
    /// By where they came from.
    pub triggers: [u64; Origin::ALL.len()],
    /// Asked for again while it was kept already.
    pub again: u64,
    /// Not kept: too many at once, or it could not be written.
    pub refused: u64,
    pub failed: u64,
    /// Peers' parts, as they ended.
    pub parts_here: u64,
    pub parts_empty: u64,
    pub parts_late: u64,
    pub parts_missing: u64,
    /// How often the rules were looked at, and how often that failed.
    pub looks: u64,
    pub looks_failed: u64,
    /// Until when they were looked at (wall clock, ns); 0 before the first look.
    pub looked_to: u64,
}

/// Who asked for a time to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Somebody, by `/v1/trigger`.
    Operator,
    /// Alertmanager.
    Alert,
    /// A rule of the configuration.
    Rule,
}

impl Origin {
    /// All of them, in the order of their figures.
    pub const ALL: [Origin; 3] = [Origin::Operator, Origin::Alert, Origin::Rule];

    /// As figures and names of folders have it.
    pub fn name(self) -> &'static str {
        match self {
            Origin::Operator => "operator",
            Origin::Alert => "alert",
            Origin::Rule => "rule",
        }
    }
}

impl State {
    /// Nothing recorded yet.
    pub fn new(config: Config) -> State {
        State { config, now: Mutex::default() }
    }

    /// The figures, for as long as nobody else changes them.
    pub fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it records, and a document that says so.
    pub fn health(&self) -> (bool, String) {
        let is_well = self.now().is_recording();
        (is_well, json!({ "status": if is_well { "recording" } else { "not recording" } }).to_string())
    }

    /// Who it is, and its time.
    pub fn about(&self) -> String {
        let (hostname, boot_id, _) = procfs::host();
        let now = self.now();
        let about = json!({
            "hostname": hostname,
            "boot_id": boot_id,
            "version": env!("CARGO_PKG_VERSION"),
            "recording": now.is_recording(),
            "oldest_real_ns": now.oldest_real_ns,
            "lowered": now.lowered.iter().map(|d| d.name()).collect::<Vec<_>>(),
            "kept": now.kept.folders,
            "real_ns": real_ns(),
        });
        about.to_string()
    }

    /// In Prometheus' text format.
    pub fn metrics(&self) -> String {
        let now = self.now();
        let both = |of: fn(&Figures) -> u64| of(&now.ended) + of(&now.recorder);
        let mut out = Text::default();
        out.gauge("up", "1 while the recorder reports.", u64::from(now.is_recording()));
        out.counter("rows_total", "Rows that were recorded.", both(|f| f.rows));
        out.counter("bytes_total", "Bytes that were recorded.", both(|f| f.bytes));
        out.counter("lost_total", "Events and rows that were lost.", both(|f| f.lost));
        out.counter("restarts_total", "Recorders that ended and were started again.", now.restarts);
        out.gauge("memory_bytes", "Resident memory of agent and recorder.", now.usage.memory);
        out.gauge("memory_budget_bytes", "budget.memory.", self.config.budget.memory.0);
        out.gauge("descriptors", "Open descriptors of agent and recorder.", now.usage.descriptors);
        let ran = (now.ran_before_ns + now.usage.ran_ns) as f64 / 1e9;
        out.line("processor_seconds_total", "counter", "Processor time of agent and recorders.", &[("", ran)]);
        out.line("processor_share", "gauge", "Share of one processor in the last measurement.", &[("", now.share)]);
        let budget = self.config.budget.processor.0 / 100.0;
        out.line("processor_budget_share", "gauge", "budget.processor.", &[("", budget)]);
        let lowered: Vec<(String, f64)> = [Detail::Stacks, Detail::Faults, Detail::Waits]
            .iter()
            .map(|d| (format!("{{detail=\"{}\"}}", d.name()), f64::from(u8::from(now.lowered.contains(d)))))
            .collect();
        out.lines("lowered", "gauge", "1 for a detail that is left out to stay in budget.", &lowered);
        out.gauge("over_budget", "1 if over budget with no detail left to leave out.", u64::from(now.is_over));
        out.gauge("segments", "Segments in the ring.", now.ring.segments);
        out.gauge("ring_bytes", "Bytes of the ring.", now.ring.bytes);
        let oldest = now.oldest_real_ns as f64 / 1e9;
        out.line("oldest_timestamp_seconds", "gauge", "When the oldest segment of the ring begins.", &[("", oldest)]);
        out.counter("segments_deleted_total", "Segments deleted for age or size.", both(|f| f.deleted) + now.pruned);
        out.gauge("disk_free_bytes", "Bytes left on the file system of the folder.", now.disk.0);
        let kept = &now.kept;
        out.gauge("kept_folders", "Times that are kept.", kept.folders);
        out.gauge(
            "kept_bytes",
            "Bytes of segments that are kept; those still in the ring are on the disk once.",
            kept.bytes,
        );
        out.counter("kept_deleted_total", "Kept times deleted to stay within kept.max_bytes.", kept.deleted);
        let by: Vec<(String, f64)> = Origin::ALL
            .iter()
            .map(|o| (format!("{{by=\"{}\"}}", o.name()), kept.triggers[*o as usize] as f64))
            .collect();
        out.lines("triggers_total", "counter", "Times that were kept, by who asked.", &by);
        out.counter("triggers_again_total", "Triggers for a time that was kept already.", kept.again);
        out.counter("triggers_refused_total", "Triggers refused: too many at once.", kept.refused);
        out.counter("triggers_failed_total", "Triggers whose time could not be written.", kept.failed);
        let parts = [
            ("{state=\"here\"}", kept.parts_here as f64),
            ("{state=\"empty\"}", kept.parts_empty as f64),
            ("{state=\"late\"}", kept.parts_late as f64),
            ("{state=\"missing\"}", kept.parts_missing as f64),
        ];
        out.counter("looks_total", "How often the rules were looked at.", kept.looks);
        if kept.looked_to > 0 {
            let since_s = real_ns().saturating_sub(kept.looked_to) as f64 / 1e9;
            let help = "Age of the newest time at which the rules were looked at.";
            out.line("looks_behind_seconds", "gauge", help, &[("", since_s)]);
        }
        out.counter("looks_failed_total", "Looks at the rules that had no answer.", kept.looks_failed);
        out.line("parts_total", "counter", "Parts of peers, as they ended.", &parts);
        out.0
    }
}

impl Now {
    /// Whether a recorder reported lately.
    pub fn is_recording(&self) -> bool {
        self.reported.is_some_and(|at| at.elapsed() < SILENT)
    }

    /// The recorder has ended: its figures stay in the sums.
    pub fn recorder_ended(&mut self) {
        let Figures { rows, bytes, lost, deleted } = std::mem::take(&mut self.recorder);
        self.ended.rows += rows;
        self.ended.bytes += bytes;
        self.ended.lost += lost;
        self.ended.deleted += deleted;
        self.reported = None;
    }
}

/// Now, ns since 1970.
pub fn real_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.line(name, "gauge", help, &[("", value as f64)]);
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.line(name, "counter", help, &[("", value as f64)]);
    }

    fn line(&mut self, name: &str, kind: &str, help: &str, values: &[(&str, f64)]) {
        let values: Vec<(String, f64)> = values.iter().map(|(label, value)| ((*label).to_owned(), *value)).collect();
        self.lines(name, kind, help, &values);
    }

    fn lines(&mut self, name: &str, kind: &str, help: &str, values: &[(String, f64)]) {
        let _ = write!(self.0, "# HELP wakepath_agent_{name} {help}\n# TYPE wakepath_agent_{name} {kind}\n");
        for (label, value) in values {
            let _ = writeln!(self.0, "wakepath_agent_{name}{label} {value}");
        }
    }
}
