//! `wakepath record`: wires the kernel vantage to the decoder to the folder.

use crate::cli::{BackendFlag, PayloadFlag, RecordArgs};
use crate::rights;
use anyhow::{Context as _, Result, bail};
use std::io::Write as _;
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

/// The folder as the decoder sees it, with the defects of the current batch.
struct Sink {
    folder: FolderWriter,
    counts: Vec<(&'static str, u64)>,
}

impl RowSink for Sink {
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
    fn describe(&mut self, tgid: u32, tid: u32) -> TaskFacts {
        procfs::task(tgid, tid).map(facts).unwrap_or_default()
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

    let folder = FolderWriter::create(&args.output, host_info(args), options(args))?;
    let mut sink = Sink { folder, counts: Vec::new() };
    let started = MonoNs(monotonic_ns());
    sink.push(&anchor());

    let mut source = KernelSource::attach(&KernelOptions {
        backend: match args.backend {
            BackendFlag::Auto => Backend::Auto,
            BackendFlag::SocketHooks => Backend::SocketHooks,
            BackendFlag::Syscalls => Backend::Syscalls,
        },
        ring_bytes: args.ring_bytes.0 as u32,
        head_bytes: if payload == Payload::None { 0 } else { args.head_bytes },
        waits: !args.no_waits,
        watch,
    })?;
    let mut decoder = KernelDecoder::new(payload);

    // events first, snapshot second: nothing falls between
    for t in procfs::tasks() {
        let (tgid, tid) = (t.tgid, t.tid);
        decoder.task(tgid, tid, &facts(t), started, &mut sink);
    }
    let mut snapshot: Vec<Vec<u8>> = Vec::new();
    source.snapshot(|f| snapshot.push(f.bytes.to_vec()))?;
    for port in &args.port {
        for tgid in holders_of(&snapshot, *port) {
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
        Some((program, rest)) => Some(start(program, rest, watch_command, &mut source)?),
        None => None,
    };
    rights::keep_only_needed();
    match &args.ready_file {
        Some(f) => std::fs::write(f, format!("{}\n", std::process::id())).with_context(|| format!("writing {f:?}"))?,
        None => eprintln!("recording into {} (Ctrl-C ends it)", args.output.display()),
    }

    let result = pump(args, &mut source, &mut decoder, &mut sink, &mut child, &stop);
    // detach first: whatever happens to the disk, the programs go
    source.detach();
    let status = match result {
        Ok(status) => status,
        Err(e) => {
            let kept = sink.folder.counts();
            return Err(e.context(format!("recording stopped; {} rows written before are kept in {}", kept.rows, args.output.display())));
        }
    };
    source.drain(u64::MAX, |f| decoder.frame(f, &mut sink));
    let mut drops = Drops::default();
    drops.report(&source, &mut sink, started);
    for cost in source.costs() {
        if cost.skipped > 0 {
            let now = MonoNs(monotonic_ns());
            sink.folder.push_loss(defect::BPF_RECURSION, cost.skipped, started, now);
        }
    }
    sink.push(&anchor());
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
    stop: &AtomicBool,
) -> Result<i32> {
    let begin = monotonic_ns();
    let end = args.duration.map_or(u64::MAX, |d| begin.saturating_add(d.0));
    let (mut flushed, mut anchored) = (begin, begin);
    let mut drops = Drops { quiet: true, ..Drops::default() };
    loop {
        let now = monotonic_ns();
        source.drain(now.saturating_sub(SETTLE_NS), |f| decoder.frame(f, sink));
        if now - anchored > ANCHOR_NS {
            sink.push(&anchor());
            anchored = now;
        }
        if now - flushed > FLUSH_NS {
            drops.report(source, sink, MonoNs(flushed));
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
            return Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)));
        }
        if stop.load(Ordering::Relaxed) || now >= end {
            if let Some(c) = child {
                // the command is the user's: a signal from the terminal reached it too, and a time-out ends it
                // SAFETY: signals a child of ours that was not waited for yet.
                unsafe { libc::kill(c.id() as i32, libc::SIGTERM) };
                let status = c.wait().context("waiting for the command")?;
                return Ok(if now >= end { 0 } else { status.code().unwrap_or(0) });
            }
            return Ok(0);
        }
        let (backlog, size) = source.backlog();
        if backlog < size / 8 {
            std::thread::sleep(TICK);
        }
    }
}

/// Drop counters, reported as what came since the last report.
#[derive(Default)]
struct Drops {
    before: [u64; w::DROP_KINDS as usize],
    quiet: bool,
}

impl Drops {
    fn report(&mut self, source: &KernelSource, sink: &mut Sink, from: MonoNs) {
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
        let now = MonoNs(monotonic_ns());
        let drops = source.drops();
        if self.quiet {
            for (i, id) in IDS.iter().enumerate() {
                if drops[i] > self.before[i] {
                    sink.folder.push_loss(id, drops[i] - self.before[i], from, now);
                }
            }
            for (id, n) in std::mem::take(&mut sink.counts) {
                sink.folder.push_loss(id, n, from, now);
            }
        }
        self.before = drops;
    }
}

fn summary(args: &RecordArgs, counts: &wakepath_model::folder::WriteCounts, drops: &Drops) {
    let lost: u64 = drops.before[..5].iter().sum();
    eprintln!(
        "recorded {} rows, {:.1} MB, into {}{}",
        counts.rows,
        counts.bytes as f64 / 1e6,
        args.output.display(),
        if lost > 0 {
            format!("; LOST {lost} events because the rings were full: record again with --ring-bytes {}M", 2 * args.ring_bytes.0 >> 20)
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

/// Starts the command so that it is watched from its first instruction: it waits until we know its pid.
fn start(program: &str, rest: &[String], watch: bool, source: &mut KernelSource) -> Result<Child> {
    use std::os::unix::process::CommandExt as _;
    let (mut go, wait) = std::io::pipe().map(|(r, w)| (w, r)).context("making a pipe")?;
    let mut command = Command::new(program);
    command.args(rest);
    let fd = std::os::fd::AsRawFd::as_raw_fd(&wait);
    if watch {
        // our own process is not recorded and its children inherit nothing: name the child by itself
        // SAFETY: read and getpid are async-signal-safe.
        unsafe {
            command.pre_exec(move || {
                let mut byte = [0u8; 1];
                if libc::read(fd, byte.as_mut_ptr().cast(), 1) == 1 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
            });
        }
        // spawn returns only after exec, so the waiting happens in a thread of its own
        let handle = std::thread::spawn(move || command.spawn());
        let me = std::process::id();
        let deadline = monotonic_ns() + 2_000_000_000;
        loop {
            if let Some((c, _)) = procfs::parents().into_iter().find(|(_, p)| *p == me) {
                source.watch(c)?;
                break;
            }
            if handle.is_finished() || monotonic_ns() > deadline {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = go.write_all(b"g");
        return handle
            .join()
            .map_err(|_| anyhow::anyhow!("starting the command panicked"))?
            .with_context(|| format!("cannot start {program}; is it in PATH?"));
    }
    command.spawn().with_context(|| format!("cannot start {program}; is it in PATH?"))
}
