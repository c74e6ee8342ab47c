//! What every recording has: the folder as the decoder sees it, and what was lost on the way into it.

use crate::cli::{Collector, WordsFlag};
use crate::output::tell;
use crate::placements::Placements;
use crate::record::files::Files;
use crate::record::stacks::Stacks;
use crate::rights;
use crate::tls;
use anyhow::{Context as _, Result};
use std::path::Path;
use wakepath_capture::{monotonic_ns, procfs, realtime_ns};
use wakepath_decode::recurring::{Key, Recurring, Said};
use wakepath_decode::{Payload, RowSink, TaskFacts};
use wakepath_export::follow::{Begins, Exporter};
use wakepath_model::cgroup::telling_path;
use wakepath_model::defects::id as defect;
use wakepath_model::folder::{FolderWriter, HostInfo, MONOTONIC, Options, Overwrite};
use wakepath_model::ids::{EndpointId, MonoNs, StrId};
use wakepath_model::rows::{AnchorRow, Life, PlacementRow, Row, Table, TaskClass, TaskRow};
use wakepath_wire as w;

/// How long (ns) and how small (bytes) a segment is at least before it is closed for those who read along: the state that each
/// begins with must be small beside it.
pub const PART: (u64, u64) = (2_000_000_000, 4 << 20);
/// The same where requests are sent to a collector meanwhile: smaller, so that what is read again is short.
const PART_TO_SEND: (u64, u64) = (PART.0, 256 << 10);
/// Most processes that wait to be looked at; of more, those that are still there at the end are looked at then.
const NEW_PROCESSES_MAX: usize = 4096;

/// How a folder is written that others read along, to send requests meanwhile or to look at them.
pub fn read_along(collector: Option<&Collector>, options: Options) -> Options {
    Options { part: Some(if collector.is_some() { PART_TO_SEND } else { PART }), ..options }
}

/// Begins to send what is written into a folder to a collector.
///
/// # Errors
/// Where no thread can be made.
pub fn exporter(folder: &Path, collector: &Collector) -> Result<Exporter> {
    let begins = Begins {
        boot: procfs::host().1,
        first: rights::go_last,
        say: |why| tell!("wakepath: --otlp: {why}; recording continues"),
    };
    Ok(Exporter::begin(folder, &collector.0, begins)?)
}

/// The folder as the decoder sees it, with the defects of the current batch.
pub struct Sink {
    /// Where rows go.
    pub folder: FolderWriter,
    counts: Vec<(&'static str, u64)>,
    /// Processes that were made, or began another program, since somebody looked; at most [`NEW_PROCESSES_MAX`].
    pub new_processes: Vec<u32>,
    /// Flows, and which heads of them are wanted (`wakepath_wire::WANTS_EACH`); the kernel side is told after each round.
    pub wanted: Vec<(EndpointId, u8)>,
    /// Heads are wanted as they are.
    keep_heads: bool,
    /// Only where stacks are asked for.
    stacks: Option<Stacks>,
    files: Files,
    recurring: Recurring,
    placements: Placements,
    /// The tasks are a guest's: what `/proc` says of their numbers is said of others.
    pub is_guest: bool,
    /// Where plaintext of TLS was asked for: who uses TLS that cannot be read.
    pub unread_tls: Option<tls::Unread>,
}

impl Sink {
    /// A sink into a folder.
    pub fn new(folder: FolderWriter, payload: Payload, recurring: Recurring, stacks: Option<Stacks>) -> Sink {
        let (counts, new_processes, wanted, files) = Default::default();
        let keep_heads = payload == Payload::Heads;
        let placements = Placements::of_host();
        let (is_guest, unread_tls) = (false, None);
        Sink {
            folder,
            counts,
            new_processes,
            wanted,
            keep_heads,
            stacks,
            files,
            recurring,
            placements,
            is_guest,
            unread_tls,
        }
    }
}

impl Sink {
    /// Keeps who is new.
    fn meet(&mut self, t: &TaskRow) {
        let is_step = matches!(t.what, Life::Exit | Life::Name | Life::Watched);
        let is_new = t.what == Life::Exec || !is_step && t.tid == t.tgid;
        if is_new && self.new_processes.len() < NEW_PROCESSES_MAX {
            self.new_processes.push(t.tgid);
        }
    }
}

impl RowSink for Sink {
    fn push<R: Row>(&mut self, row: &R) {
        if R::TABLE == Table::Task
            && let Ok(row) = bytemuck::checked::try_pod_read_unaligned(bytemuck::bytes_of(row))
        {
            self.meet(&row);
        }
        self.folder.push(row);
    }
    fn push_head(&mut self, at: MonoNs, flow: EndpointId, pos: u64, sent: bool, bytes: &[u8]) {
        self.folder.push_head(at, flow, pos, sent, bytes);
    }
    fn count(&mut self, defect: &'static str, _: MonoNs) {
        count(&mut self.counts, defect);
    }
    fn intern(&mut self, text: &[u8]) -> StrId {
        self.folder.intern(text)
    }
    fn said(&mut self, text: &str, said: &Said) -> StrId {
        let Sink { folder, counts, recurring, .. } = self;
        let (id, lost) = recurring.take(text, said, |text| folder.intern(text));
        if let Some(defect) = lost {
            count(counts, defect);
        }
        id
    }
    fn quiet(&mut self, flow: EndpointId) {
        if !self.keep_heads {
            self.wanted.push((flow, w::WANTS_NONE));
        }
    }
    fn runs_on(&mut self, flow: EndpointId, in_frames: bool) {
        self.wanted.push((flow, if in_frames { w::WANTS_FRAMES } else { w::WANTS_EACH }));
    }
    fn unread_tls(&mut self, tgid: u32) {
        if let Some(unread) = &mut self.unread_tls {
            unread.note(tgid);
        }
    }
    fn stack(&mut self, tgid: u32, image: u64, id: u32) -> StrId {
        let Sink { folder, counts, stacks, .. } = self;
        let Some(stacks) = stacks else { return StrId::EMPTY };
        let (text, lost) = stacks.text(tgid, image, id, |text| folder.intern(text));
        if let Some(defect) = lost {
            count(counts, defect);
        }
        text
    }
    fn file(&mut self, tgid: u32, device: u32, inode: u64, generation: u32) -> StrId {
        let Sink { folder, files, .. } = self;
        files.path(tgid, (device, inode, generation), |path| folder.intern(path))
    }
    fn describe(&mut self, tgid: u32, tid: u32) -> TaskFacts {
        let told = if self.is_guest { None } else { procfs::task(tgid, tid) };
        told.map(facts).unwrap_or_default()
    }
    fn cgroup(&mut self, tgid: u32) -> Option<Vec<u8>> {
        let told = if self.is_guest { None } else { procfs::cgroups(tgid) };
        told.map(|all| told_by(&all))
    }
    fn placement(&mut self, cgroup: &[u8]) -> Option<PlacementRow> {
        let Sink { folder, placements, .. } = self;
        placements.find(cgroup, |text| folder.intern(text.as_bytes()))
    }
}

fn count(counts: &mut Vec<(&'static str, u64)>, defect: &'static str) {
    match counts.iter_mut().find(|(d, _)| *d == defect) {
        Some((_, n)) => *n += 1,
        None => counts.push((defect, 1)),
    }
}

/// Which words a recording writes. The key of their hashes is in this process's memory alone, and gone with it.
pub fn recurring(words: WordsFlag, payload: Payload) -> Result<Recurring> {
    // where whole heads are kept, there is nothing to hide behind a hash
    if words == WordsFlag::All || payload == Payload::Heads {
        return Ok(Recurring::all_words());
    }
    let mut random = [0; 16];
    getrandom::fill(&mut random).context("no random key for the words of this recording")?;
    Ok(Recurring::new(Key::new(random)))
}

/// What `/proc` says, as the decoder takes it.
pub fn facts(t: procfs::ProcTask) -> TaskFacts {
    let cgroup = told_by(&t.cgroups);
    TaskFacts {
        start_ns: t.start_ns,
        parent: t.parent,
        comm: t.comm,
        cmdline: t.cmdline,
        cgroup,
        class: if t.kernel { TaskClass::Kernel } else { TaskClass::User },
    }
}

fn told_by(cgroups: &[u8]) -> Vec<u8> {
    std::str::from_utf8(cgroups).map_or_else(|_| Vec::new(), |all| telling_path(all).into())
}

/// Drop counters: each report says what came since the one before, so that reports add up to the counters.
#[derive(Default)]
pub struct Drops {
    /// What was told of each.
    pub reported: [u64; w::DROP_KINDS as usize],
    others: Vec<(&'static str, u64)>,
    until: MonoNs,
}

impl Drops {
    /// Nothing told yet.
    pub fn new(started: MonoNs) -> Drops {
        Drops { until: started, ..Drops::default() }
    }

    /// Events that were lost, as far as they were told.
    pub fn lost(&self) -> u64 {
        let beside = [w::DROP_MARK, w::DROP_FAULT].map(|kind| self.reported[kind as usize]);
        self.reported[..5].iter().chain(&beside).sum()
    }

    /// Writes what was lost since the report before, up to a moment: `drops` by `DROP_…`, `others` counts of further defects.
    pub fn report(
        &mut self,
        at: MonoNs,
        drops: [u64; w::DROP_KINDS as usize],
        others: &[(&'static str, u64)],
        sink: &mut Sink,
    ) {
        const IDS: [&str; w::DROP_KINDS as usize] = [
            defect::RING_OP,
            defect::RING_FLOW,
            defect::RING_WAIT,
            defect::RING_POLL,
            defect::RING_TASK,
            defect::STORAGE_TASK,
            defect::STORAGE_SOCK,
            defect::HEAD_FAULT,
            defect::RING_MARK,
            defect::SWITCH,
            defect::WAIT_END,
            defect::RING_FAULT,
            defect::UNSELECTED_DROPPED,
        ];
        let from = self.until;
        self.until = at;
        for ((id, now), before) in IDS.iter().zip(drops).zip(self.reported) {
            if now > before {
                sink.folder.push_loss(id, now - before, from, self.until);
            }
        }
        self.reported = drops;
        for &(id, now) in others {
            let before = match self.others.iter_mut().find(|(d, _)| *d == id) {
                Some((_, n)) => std::mem::replace(n, now),
                None => {
                    self.others.push((id, now));
                    0
                }
            };
            if now > before {
                sink.folder.push_loss(id, now - before, from, self.until);
            }
        }
        for (id, n) in std::mem::take(&mut sink.counts) {
            sink.folder.push_loss(id, n, from, self.until);
        }
    }
}

/// The two clocks now.
pub fn anchor() -> AnchorRow {
    let before = monotonic_ns();
    let real_ns = realtime_ns();
    let after = monotonic_ns();
    AnchorRow { at: MonoNs(before + (after - before) / 2), real_ns, error_ns: after - before, ..Default::default() }
}

/// This host, recorded in that way.
pub fn host_info(selection: String, flags: Vec<String>) -> HostInfo {
    let (hostname, boot_id, kernel_release) = procfs::host();
    HostInfo {
        hostname,
        boot_id,
        kernel_release,
        arch: std::env::consts::ARCH.into(),
        cpus: std::thread::available_parallelism().map_or(0, |n| n.get() as u32),
        selection,
        flags,
        agent_version: env!("CARGO_PKG_VERSION").into(),
        clock: MONOTONIC.into(),
        ..HostInfo::default()
    }
}

/// How the folder is written: `keep` in ns and `max_bytes` are a flight recorder's.
pub fn options(append: bool, force: bool, keep_ns: Option<u64>, max_bytes: Option<u64>, compress: bool) -> Options {
    Options {
        overwrite: match (append, force) {
            (true, _) => Overwrite::Append,
            (_, true) => Overwrite::Force,
            _ => Overwrite::Refuse,
        },
        part: None,
        max_bytes,
        keep_ns,
        // a flight recorder drops whole segments: keep them small against the whole
        max_segment_bytes: max_bytes.map_or(64 << 20, |b| (b / 8).clamp(1 << 20, 64 << 20)),
        compress,
    }
}
