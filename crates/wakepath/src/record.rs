//! `wakepath record`: wires the kernel vantage to the decoder to the folder.

mod stacks;

use crate::cli::{BackendFlag, PayloadFlag, RecordArgs};
use crate::output::tell;
use crate::rights;
use anyhow::{Context as _, Result, bail};
use stacks::Stacks;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wakepath_capture::{Backend, KernelOptions, KernelSource, Watch, monotonic_ns, procfs, realtime_ns};
use wakepath_decode::{KernelDecoder, Payload, RowSink, TaskFacts};
use wakepath_model::defects::id as defect;
use wakepath_model::folder::{Durability, FolderWriter, HostInfo, MONOTONIC, Options, Overwrite};
use wakepath_model::ids::{EndpointId, MonoNs, StrId};
use wakepath_model::rows::{AnchorRow, Row};
use wakepath_wire as w;

/// How long the newest records are left in the rings, so that those of other processors can come in between.
const SETTLE_NS: u64 = 2_000_000;
/// How often the rings are looked at.
const TICK: Duration = Duration::from_millis(4);
/// How often a batch is written.
const FLUSH_NS: u64 = 100_000_000;
/// How often the two clocks are compared.
const ANCHOR_NS: u64 = 10_000_000_000;
/// How often waits that go on are written down.
const OPEN_WAITS_NS: u64 = 5_000_000_000;
/// How long a command that was asked to end is waited for.
const END_WAIT_NS: u64 = 3_000_000_000;

/// The folder as the decoder sees it, with the defects of the current batch.
struct Sink {
    folder: FolderWriter,
    counts: Vec<(&'static str, u64)>,
    /// Flows whose heads nobody will read; the kernel side is told after each round.
    quiet: Vec<EndpointId>,
    /// Heads are wanted as they are.
    keep_heads: bool,
    /// Only where stacks are asked for.
    stacks: Option<Stacks>,
}

impl RowSink for Sink {
    fn push<R: Row>(&mut self, row: &R) {
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
    fn quiet(&mut self, flow: EndpointId) {
        if !self.keep_heads {
            self.quiet.push(flow);
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
    fn describe(&mut self, tgid: u32, tid: u32) -> TaskFacts {
        procfs::task(tgid, tid).map(facts).unwrap_or_default()
    }
}

fn count(counts: &mut Vec<(&'static str, u64)>, defect: &'static str) {
    match counts.iter_mut().find(|(d, _)| *d == defect) {
        Some((_, n)) => *n += 1,
        None => counts.push((defect, 1)),
    }
}

fn facts(t: procfs::ProcTask) -> TaskFacts {
    TaskFacts { start_ns: t.start_ns, comm: t.comm, cmdline: t.cmdline, cgroup: t.cgroup, class: t.kernel.into() }
}

/// Records until the command ends, the time is over, or a signal comes. Returns the exit code.
pub fn run(args: &RecordArgs) -> Result<i32> {
    if let Some(missing) = rights::missing_for_kernel_vantage() {
        bail!(
            "the kernel vantage needs {missing}. Without them nothing can be recorded yet: run it as root \
             (sudo wakepath record …), or give the binary the rights (setcap cap_bpf,cap_perfmon,cap_sys_ptrace,\
             cap_dac_read_search+ep). Reading folders (requests, show, info, merge) needs no rights"
        );
    }
    let selected = !(args.pid.is_empty() && args.comm.is_empty() && args.cgroup.is_empty() && args.port.is_empty());
    let watch = match (selected, args.command.is_empty()) {
        _ if args.all => Watch::All,
        (true, _) => Watch::Processes(selected_now(args)),
        // the command's own process is added when it starts
        (false, false) => Watch::Processes(Vec::new()),
        (false, true) => Watch::All,
    };
    let watch_command = !selected && !args.all;
    let payload = match args.payload {
        PayloadFlag::None => Payload::None,
        PayloadFlag::Attributes => Payload::Attributes,
        PayloadFlag::Heads => Payload::Heads,
    };

    let stop = Arc::new(AtomicBool::new(false));
    for s in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(s, Arc::clone(&stop)).context("installing signal handlers")?;
    }

    // attached before the folder is made: a kernel that refuses leaves no folder behind
    let mut source = KernelSource::attach(&KernelOptions {
        backend: match args.backend {
            BackendFlag::Auto => Backend::Auto,
            BackendFlag::SocketHooks => Backend::SocketHooks,
            BackendFlag::Syscalls => Backend::Syscalls,
        },
        ring_bytes: args.ring_bytes.0 as u32,
        head_bytes: if payload == Payload::None { 0 } else { args.head_bytes },
        waits: !args.no_waits,
        stacks: args.stacks,
        watch,
    })?;
    let folder = FolderWriter::create(&args.output, host_info(args), options(args))?;
    let mut sink = Sink {
        folder,
        counts: Vec::new(),
        quiet: Vec::new(),
        keep_heads: payload == Payload::Heads,
        stacks: source.stacks()?.map(Stacks::new),
    };
    let started = MonoNs(monotonic_ns());
    sink.push(&anchor());
    let mut decoder = KernelDecoder::new(payload);

    // events first, snapshot second: nothing falls between
    for t in procfs::tasks() {
        let (tgid, tid) = (t.tgid, t.tid);
        decoder.task(tgid, tid, &facts(t), started, &mut sink);
    }
    let mut snapshot: Vec<Vec<u8>> = Vec::new();
    source.snapshot(|f| snapshot.push(f.bytes.to_vec()))?;
    if selected && !args.all {
        // again, now that forks are followed: a child made while we attached is nobody's descendant yet
        let mut chosen = selected_now(args);
        chosen.extend(args.port.iter().flat_map(|p| holders_of(&snapshot, *p)));
        for tgid in with_descendants(chosen) {
            source.watch(tgid)?;
        }
    }
    // listeners first: they tell which end of the others serves
    for listeners in [true, false] {
        for bytes in &snapshot {
            let f = w::Frame { origin: u32::MAX, bytes };
            let is = f.head().is_some_and(|h| h.kind == w::KIND_FLOW)
                && f.read::<w::FlowSeen>().is_some_and(|r| r.state == 10);
            if is == listeners {
                decoder.frame(f, &mut sink);
            }
        }
    }
    drop(snapshot);
    sink.folder.flush(Durability::Write)?;

    let mut child = match args.command.split_first() {
        Some((program, rest)) => Some(start(program, rest, watch_command, &source)?),
        None => None,
    };
    prefer_ourselves();
    rights::go_first();
    rights::keep_only_needed();
    match &args.ready_file {
        Some(f) => std::fs::write(f, format!("{}\n", std::process::id())).with_context(|| format!("writing {f:?}"))?,
        None => tell!("recording into {} (Ctrl-C ends it)", args.output.display()),
    }

    let mut drops = Drops::new(started);
    let result = pump(args, &mut source, &mut decoder, &mut sink, &mut child, &mut drops, &stop);
    let open = open_waits(&mut source);
    // detach first: whatever happens to the disk, the programs go
    source.detach();
    let written = result.and_then(|status| {
        let now = monotonic_ns();
        source.drain(now, |f| decoder.frame(f, &mut sink));
        feed(&open?, &mut decoder, &mut sink);
        source.drain(u64::MAX, |f| decoder.frame(f, &mut sink));
        drops.report(&source, &mut sink);
        for cost in source.costs() {
            if cost.skipped > 0 {
                sink.folder.push_loss(defect::BPF_RECURSION, cost.skipped, started, MonoNs(now));
            }
        }
        sink.push(&anchor());
        sink.folder.flush(Durability::Write)?;
        Ok(status)
    });
    let status = match written {
        Ok(status) => status,
        Err(e) => {
            let kept = sink.folder.counts();
            return Err(e.context(format!(
                "recording stopped; {} rows written before are kept in {}",
                kept.rows,
                args.output.display()
            )));
        }
    };
    let counts = sink.folder.close()?;
    summary(args, &counts, &drops);
    Ok(status)
}

fn pump(
    args: &RecordArgs,
    source: &mut KernelSource,
    decoder: &mut KernelDecoder,
    sink: &mut Sink,
    child: &mut Option<Child>,
    drops: &mut Drops,
    stop: &AtomicBool,
) -> Result<i32> {
    let begin = monotonic_ns();
    let mut end = args.duration.map_or(u64::MAX, |d| begin.saturating_add(d.0));
    let (mut flushed, mut anchored, mut looked) = (begin, begin, begin);
    let mut asked_to_end = false;
    loop {
        let now = monotonic_ns();
        source.drain(now.saturating_sub(SETTLE_NS), |f| decoder.frame(f, sink));
        for flow in sink.quiet.drain(..) {
            source.quiet(flow.0)?;
        }
        if now - anchored > ANCHOR_NS {
            sink.push(&anchor());
            anchored = now;
        }
        if now - looked > OPEN_WAITS_NS {
            feed(&open_waits(source)?, decoder, sink);
            looked = now;
        }
        if now - flushed > FLUSH_NS {
            drops.report(source, sink);
            sink.folder.flush(Durability::Write)?;
            if sink.folder.needs_state() {
                sink.push(&anchor());
                decoder.restate(MonoNs(now), sink);
            }
            flushed = now;
        }
        if let Some(c) = child
            && let Some(status) = c.try_wait().context("waiting for the command")?
        {
            return Ok(match (asked_to_end, status.code()) {
                (true, code) => code.unwrap_or(0),
                (false, code) => code.unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
            });
        }
        if stop.load(Ordering::Relaxed) || now >= end {
            match child {
                // the command is the user's: it is asked to end, waited for while we go on recording, and never killed
                Some(c) if !asked_to_end => {
                    // SAFETY: signals a child of ours that was not waited for yet.
                    unsafe { libc::kill(c.id() as i32, libc::SIGTERM) };
                    asked_to_end = true;
                    stop.store(false, Ordering::Relaxed);
                    end = now + END_WAIT_NS;
                }
                Some(c) => {
                    tell!("wakepath: the command (process {}) does not end; it goes on without being recorded", c.id());
                    return Ok(0);
                }
                None => return Ok(0),
            }
        }
        let (backlog, size) = source.backlog();
        if backlog < size / 8 {
            std::thread::sleep(TICK);
        }
    }
}

/// The waits that go on, as records.
fn open_waits(source: &mut KernelSource) -> Result<Vec<Vec<u8>>> {
    let mut out = Vec::new();
    source.open_waits(|f| out.push(f.bytes.to_vec()))?;
    Ok(out)
}

fn feed(records: &[Vec<u8>], decoder: &mut KernelDecoder, sink: &mut Sink) {
    for bytes in records {
        decoder.frame(w::Frame { origin: u32::MAX, bytes }, sink);
    }
}

/// Drop counters: each report says what came since the one before, so that reports add up to the counters.
struct Drops {
    reported: [u64; w::DROP_KINDS as usize],
    until: MonoNs,
}

impl Drops {
    fn new(started: MonoNs) -> Drops {
        Drops { reported: [0; w::DROP_KINDS as usize], until: started }
    }

    fn report(&mut self, source: &KernelSource, sink: &mut Sink) {
        const IDS: [&str; w::DROP_KINDS as usize] = [
            defect::RING_OP,
            defect::RING_FLOW,
            defect::RING_WAIT,
            defect::RING_POLL,
            defect::RING_TASK,
            defect::STORAGE_TASK,
            defect::STORAGE_SOCK,
            defect::HEAD_FAULT,
        ];
        let from = self.until;
        self.until = MonoNs(monotonic_ns());
        let drops = source.drops();
        for ((id, now), before) in IDS.iter().zip(drops).zip(self.reported) {
            if now > before {
                sink.folder.push_loss(id, now - before, from, self.until);
            }
        }
        self.reported = drops;
        for (id, n) in std::mem::take(&mut sink.counts) {
            sink.folder.push_loss(id, n, from, self.until);
        }
    }
}

fn summary(args: &RecordArgs, counts: &wakepath_model::folder::WriteCounts, drops: &Drops) {
    let lost: u64 = drops.reported[..5].iter().sum();
    tell!(
        "recorded {} rows, {:.1} MB, into {}{}",
        counts.rows,
        counts.bytes as f64 / 1e6,
        args.output.display(),
        if lost > 0 {
            format!(
                "; LOST {lost} events because the rings were full: record again with --ring-bytes {}K",
                (2 * args.ring_bytes.0) >> 10
            )
        } else {
            String::new()
        }
    );
}

fn anchor() -> AnchorRow {
    let before = monotonic_ns();
    let real_ns = realtime_ns();
    let after = monotonic_ns();
    AnchorRow { at: MonoNs(before + (after - before) / 2), real_ns, error_ns: after - before }
}

fn host_info(args: &RecordArgs) -> HostInfo {
    let (hostname, boot_id, kernel_release) = procfs::host();
    HostInfo {
        hostname,
        boot_id,
        kernel_release,
        arch: std::env::consts::ARCH.into(),
        cpus: std::thread::available_parallelism().map_or(0, |n| n.get() as u32),
        selection: args.selection(),
        flags: args.flags(),
        agent_version: env!("CARGO_PKG_VERSION").into(),
        clock: MONOTONIC.into(),
        ..HostInfo::default()
    }
}

fn options(args: &RecordArgs) -> Options {
    Options {
        overwrite: match (args.append, args.force) {
            (true, _) => Overwrite::Append,
            (_, true) => Overwrite::Force,
            _ => Overwrite::Refuse,
        },
        max_bytes: args.max_bytes.map(|b| b.0),
        keep_ns: args.keep.map(|k| k.0),
        // a flight recorder drops whole segments: keep them small against the whole
        max_segment_bytes: args.max_bytes.map_or(64 << 20, |b| (b.0 / 8).clamp(1 << 20, 64 << 20)),
        compress: !args.no_compress,
    }
}

/// Processes that the selectors name now, with their descendants.
fn selected_now(args: &RecordArgs) -> Vec<u32> {
    let all = procfs::tasks();
    let mut chosen: Vec<u32> = args.pid.clone();
    for t in all.iter().filter(|t| t.tgid == t.tid) {
        let comm = String::from_utf8_lossy(&t.comm);
        let cgroup = String::from_utf8_lossy(&t.cgroup);
        if args.comm.iter().any(|c| *c == comm) || args.cgroup.iter().any(|c| cgroup.starts_with(c.as_str())) {
            chosen.push(t.tgid);
        }
    }
    with_descendants(chosen)
}

fn with_descendants(mut chosen: Vec<u32>) -> Vec<u32> {
    let parents = procfs::parents();
    loop {
        let more: Vec<u32> =
            parents.iter().filter(|(c, p)| chosen.contains(p) && !chosen.contains(c)).map(|(c, _)| *c).collect();
        if more.is_empty() {
            return chosen;
        }
        chosen.extend(more);
    }
}

fn holders_of(snapshot: &[Vec<u8>], port: u16) -> Vec<u32> {
    let flows = snapshot.iter().filter_map(|b| {
        let f = w::Frame { origin: 0, bytes: b };
        (f.head()?.kind == w::KIND_FLOW).then(|| f.read::<w::FlowSeen>()).flatten()
    });
    let mut out: Vec<u32> = flows.filter(|r| r.lport == port && r.family != 1).map(|r| r.tgid).collect();
    out.sort_unstable();
    out.dedup();
    out
}

/// A recorder that waits for its turn behind what it records loses events: it asks for little, but in time.
/// Only after the command was started, which is not to inherit this.
fn prefer_ourselves() {
    // SAFETY: concerns this process alone; a refusal leaves things as they are.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -10) };
}

/// Starts the command; `watch`: it names itself among those watched between fork and exec.
fn start(program: &str, rest: &[String], watch: bool, source: &KernelSource) -> Result<Child> {
    use std::os::unix::process::CommandExt as _;
    let mut command = Command::new(program);
    command.args(rest);
    if watch {
        // SAFETY: the closure makes one system call and one atomic addition: nothing that a lock held by another
        // thread at the fork could stop.
        unsafe { command.pre_exec(source.watch_on_exec()) };
    }
    command.spawn().with_context(|| format!("cannot start {program}; is it in PATH?"))
}
