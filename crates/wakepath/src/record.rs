//! `wakepath record`: wires the kernel vantage to the decoder to the folder.

pub mod files;
mod pace;
pub mod stacks;

use crate::cli::{BackendFlag, RecordArgs};
use crate::ending::{self, Ending};
use crate::limits::{self, Limits};
use crate::marks::Marks;
use crate::output::tell;
use crate::owner::{Owner, write_ready_file};
use crate::program::{self, CannotStart};
use crate::rights;
use crate::sink::{self, Drops, Sink, anchor, facts, host_info, options};
use crate::status::Status;
use anyhow::{Context as _, Result, bail};
use pace::Pace;
use stacks::Stacks;
use std::path::Path;
use std::process::{Child, Command};
use wakepath_capture::{Backend, KernelOptions, KernelSource, Watch, monotonic_ns, procfs};
use wakepath_decode::{KernelDecoder, Payload, RowSink as _};
use wakepath_model::defects::id as defect;
use wakepath_model::folder::{Durability, FolderError, FolderWriter};
use wakepath_model::ids::MonoNs;
use wakepath_wire as w;

/// How long the newest records are left in the rings, so that those of other processors can come in between.
const SETTLE_NS: u64 = 2_000_000;
/// How often a batch is written.
const FLUSH_NS: u64 = 100_000_000;
/// How often the two clocks are compared.
const ANCHOR_NS: u64 = 10_000_000_000;
/// How often waits that go on are written down.
const OPEN_WAITS_NS: u64 = 5_000_000_000;

/// Records until the command ends, the time is over, or a signal comes. Returns the exit code.
pub fn run(args: &RecordArgs) -> Result<i32> {
    if let Some(missing) = rights::missing_for_kernel_vantage() {
        bail!(
            "the kernel vantage needs {missing}: run it as root (sudo wakepath record …), or give the binary the rights \
             (setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search+ep). Without them, `wakepath run -- CMD` \
             records a command that it starts; and reading folders (requests, show, info, merge) needs no rights"
        );
    }
    if let Some(program) = args.command.first() {
        program::require(program)?;
    }
    check_pids(&args.pid)?;
    let selected = !(args.pid.is_empty() && args.comm.is_empty() && args.cgroup.is_empty() && args.port.is_empty());
    let watch = match (selected, args.command.is_empty()) {
        _ if args.all => Watch::All,
        (true, _) => Watch::Processes(selected_now(args)),
        // the command's own process is added when it starts
        (false, false) => Watch::Processes(Vec::new()),
        (false, true) => Watch::All,
    };
    let is_all = watch == Watch::All;
    let watch_command = !selected && !args.all;
    let payload = args.payload.into();
    let recurring = sink::recurring(args.words, payload)?;

    let stop = ending::on_signals()?;

    // attached before the folder is made: a kernel that refuses leaves no folder behind
    let mut source = KernelSource::attach(&KernelOptions {
        backend: match args.backend {
            BackendFlag::Auto => Backend::Auto,
            BackendFlag::SocketHooks => Backend::SocketHooks,
            BackendFlag::Syscalls => Backend::Syscalls,
        },
        // what is too large is refused there
        ring_bytes: u32::try_from(args.ring_bytes.0).unwrap_or(u32::MAX),
        head_bytes: if payload == Payload::None { 0 } else { args.head_bytes },
        waits: !args.no_waits,
        stacks: args.stacks,
        marks: true,
        faults: args.faults,
        watch,
        comms: args.comm.clone(),
    })?;
    if selected && !args.all {
        check_selected(args, &mut source)?;
    }
    let folder = FolderWriter::create(
        &args.output,
        host_info(args.selection(), args.flags()),
        options(args.append, args.force, args.keep.map(|k| k.0), args.max_bytes.map(|b| b.0), !args.no_compress),
    )?;
    let owner = Owner::caller();
    owner.iter().for_each(|o| o.give(&args.output));
    let mut sink = Sink::new(folder, payload, recurring, source.stacks()?.map(Stacks::new));
    let started = MonoNs(monotonic_ns());
    sink.push(&anchor());
    let mut decoder = KernelDecoder::new(payload);

    // events first, snapshot second: nothing falls between
    for t in procfs::tasks() {
        let (tgid, tid) = (t.tgid, t.tid);
        decoder.task(tgid, tid, &facts(t), started, &mut sink);
    }
    let mut watched = if is_all { procfs::processes() } else { Vec::new() };
    if selected && !args.all {
        // again, now that forks are followed: a child made while we attached is nobody's descendant yet
        let mut chosen = selected_now(args);
        if !args.port.is_empty() {
            let sockets = snapshot(&mut source)?;
            chosen.extend(args.port.iter().flat_map(|p| holders_of(&sockets, *p)));
        }
        watched = with_descendants(chosen);
        for tgid in &watched {
            source.watch(*tgid)?;
        }
        let there = procfs::processes();
        if !watched.iter().any(|tgid| there.contains(tgid)) {
            let until = if args.comm.is_empty() { "" } else { " until one of that name begins" };
            tell!("no process matches {}: nothing is watched{until}", args.selection());
        }
    }
    // behind the selection: what its connections move from here on is recorded, so no byte lies between
    begin_flows(&snapshot(&mut source)?, &mut decoder, &mut sink);
    feed(&open_waits(&mut source)?, &mut decoder, &mut sink);
    Marks::begin(&mut source, &watched, &mut sink);
    let pids = if is_all { Vec::new() } else { watched };
    let mut roots = Roots { pids, command: None, comms: args.comm.clone() };
    roots.write(&decoder, &mut sink);
    let limits = Limits::find();
    limits.all(&decoder, &mut sink);
    sink.folder.flush(Durability::Write)?;

    let child = match args.command.split_first() {
        Some((program, rest)) => {
            Marks::program(&mut source, program, &mut sink);
            Some(start(program, rest, watch_command, &source)?)
        }
        None => None,
    };
    roots.command = child.as_ref().filter(|_| watch_command).map(Child::id);
    // from here on the command is waited for, whatever becomes of us
    let mut ending = Ending::new(child, stop, args.duration.map(|d| d.0));
    rights::go_first();
    owner.iter().for_each(|o| o.makes_files());
    rights::keep_only_needed(ending.child().is_some());
    let mut drops = Drops::new(started);
    let about = (&limits, &mut roots);
    let result =
        tell_ready(args).and_then(|()| pump(&mut source, &mut decoder, &mut sink, about, &mut ending, &mut drops));
    let open = open_waits(&mut source);
    let sockets = sockets(&mut source);
    // detach first: whatever happens to the disk, the programs go
    source.detach();
    let written = result.and_then(|status| {
        let now = monotonic_ns();
        source.drain(now, |f| decoder.frame(f, &mut sink));
        feed(&open?, &mut decoder, &mut sink);
        feed(&sockets?, &mut decoder, &mut sink);
        source.drain(u64::MAX, |f| decoder.frame(f, &mut sink));
        limits.all(&decoder, &mut sink);
        drops.report(source.drops(), &[(defect::BPF_RECURSION, source.skipped())], &mut sink);
        sink.push(&anchor());
        sink.folder.flush(Durability::Write)?;
        Ok(status)
    });
    let kept = sink.folder.counts();
    let closed = written.and_then(|status| Ok((status, sink.folder.close()?)));
    match closed {
        Ok((status, counts)) => {
            summary(args, &counts, &drops);
            Ok(status)
        }
        Err(e) => ending.outlive(stopped(e, kept.rows, &args.output)),
    }
}

/// Why a recording stopped, and what is left of it.
pub fn stopped(e: anyhow::Error, rows: u64, output: &Path) -> anyhow::Error {
    match e.downcast_ref() {
        Some(FolderError::Gone(_)) => e.context("recording stopped"),
        _ => e.context(format!("recording stopped; {rows} rows written before are kept in {}", output.display())),
    }
}

/// Says that recording has begun.
fn tell_ready(args: &RecordArgs) -> Result<()> {
    match &args.ready_file {
        Some(f) => write_ready_file(f, std::process::id()).with_context(|| format!("writing {f:?}"))?,
        None => tell!("recording into {} (Ctrl-C ends it)", args.output.display()),
    }
    Ok(())
}

fn pump(
    source: &mut KernelSource,
    decoder: &mut KernelDecoder,
    sink: &mut Sink,
    (limits, roots): (&Limits, &mut Roots),
    ending: &mut Ending,
    drops: &mut Drops,
) -> Result<i32> {
    let begin = monotonic_ns();
    let (mut flushed, mut anchored, mut looked) = (begin, begin, begin);
    let mut marks = Marks::default();
    let mut status = Status::new(ending.child().is_some());
    let mut pace = Pace::new(source.backlog().1);
    loop {
        let now = monotonic_ns();
        let (found, size) = source.backlog();
        source.drain(now.saturating_sub(SETTLE_NS), |f| {
            marks.note(&f, sink);
            decoder.frame(f, sink);
        });
        marks.listen(source, sink);
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
            drops.report(source.drops(), &[(defect::BPF_RECURSION, source.skipped())], sink);
            roots.meet(decoder, sink);
            limits.new_ones(decoder, sink);
            sink.folder.flush(Durability::Write)?;
            if sink.folder.needs_state() {
                sink.push(&anchor());
                decoder.restate(MonoNs(now), sink);
                roots.write(decoder, sink);
                limits.all(decoder, sink);
                feed(&sockets(source)?, decoder, sink);
            }
            flushed = now;
        }
        status.show(now, || (sink.folder.counts(), drops.lost()));
        if let Some(status) = ending.status(now)? {
            return Ok(status);
        }
        let sleep = pace.after(found, size);
        if source.backlog().0 < size / 8 {
            std::thread::sleep(sleep);
        }
    }
}

/// The waits that go on, as records.
fn open_waits(source: &mut KernelSource) -> Result<Vec<Vec<u8>>> {
    let mut out = Vec::new();
    source.open_waits(|f| out.push(f.bytes.to_vec()))?;
    Ok(out)
}

/// How sockets and pipes stand, as records.
fn sockets(source: &mut KernelSource) -> Result<Vec<Vec<u8>>> {
    let mut out = Vec::new();
    source.sockets(|f| out.push(f.bytes.to_vec()))?;
    Ok(out)
}

/// Everything that was open before, as records.
fn snapshot(source: &mut KernelSource) -> Result<Vec<Vec<u8>>> {
    let mut out = Vec::new();
    source.snapshot(|f| out.push(f.bytes.to_vec()))?;
    Ok(out)
}

/// Feeds a snapshot, listeners first: they tell which end of the others serves.
fn begin_flows(snapshot: &[Vec<u8>], decoder: &mut KernelDecoder, sink: &mut Sink) {
    const LISTEN: u8 = 10;
    for listeners in [true, false] {
        for bytes in snapshot {
            let f = w::Frame { origin: u32::MAX, bytes };
            let is = f.head().is_some_and(|h| h.kind == w::KIND_FLOW)
                && f.read::<w::FlowSeen>().is_some_and(|r| r.state == LISTEN);
            if is == listeners {
                decoder.frame(f, sink);
            }
        }
    }
}

fn feed(records: &[Vec<u8>], decoder: &mut KernelDecoder, sink: &mut Sink) {
    for bytes in records {
        decoder.frame(w::Frame { origin: u32::MAX, bytes }, sink);
    }
}

fn summary(args: &RecordArgs, counts: &wakepath_model::folder::WriteCounts, drops: &Drops) {
    let lost = drops.lost();
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

/// The processes that were selected; of what they make, the rows tell.
struct Roots {
    pids: Vec<u32>,
    /// The command that is watched and was not met yet.
    command: Option<u32>,
    /// Names that select whoever takes them.
    comms: Vec<String>,
}

impl Roots {
    /// Writes down who was selected: at the begin, and in each segment that must stand alone.
    fn write(&self, decoder: &KernelDecoder, sink: &mut Sink) {
        let at = MonoNs(monotonic_ns());
        for pid in &self.pids {
            decoder.watched(*pid, at, sink);
        }
    }

    /// Writes down the command once it was met, and who took a selected name.
    fn meet(&mut self, decoder: &KernelDecoder, sink: &mut Sink) {
        if !self.comms.is_empty() {
            let is_named =
                |pid: &u32| procfs::task(*pid, *pid).is_some_and(|t| self.comms.iter().any(|c| c.as_bytes() == t.comm));
            let some = sink.new_processes.iter().take(limits::ROUND_MAX).copied();
            let named: Vec<u32> = some.filter(|pid| !self.pids.contains(pid)).filter(is_named).collect();
            for pid in named {
                decoder.watched(pid, MonoNs(monotonic_ns()), sink);
                self.pids.push(pid);
            }
        }
        if let Some(pid) = self.command.filter(|pid| decoder.watched(*pid, MonoNs(monotonic_ns()), sink)) {
            self.pids.push(pid);
            self.command = None;
        }
    }
}

/// Refuses numbers that no process has.
fn check_pids(pids: &[u32]) -> Result<()> {
    let there = if pids.is_empty() { Vec::new() } else { procfs::processes() };
    match pids.iter().find(|pid| !there.contains(pid)) {
        None => Ok(()),
        Some(pid) => {
            bail!("--pid {pid}: there is no such process; `pgrep -l NAME` finds processes, --comm NAME takes names")
        }
    }
}

/// Refuses selectors that no process fits, before anything is made. Of a name, processes may still come.
fn check_selected(args: &RecordArgs, source: &mut KernelSource) -> Result<()> {
    let there = procfs::processes();
    let mut is_any = !args.comm.is_empty() || selected_now(args).iter().any(|pid| there.contains(pid));
    let mut snapshot: Vec<Vec<u8>> = Vec::new();
    if !args.port.is_empty() {
        source.snapshot(|f| snapshot.push(f.bytes.to_vec()))?;
    }
    for port in &args.port {
        match holders_of(&snapshot, *port).is_empty() {
            true => tell!("--port {port}: no process listens there or has a connection from it"),
            false => is_any = true,
        }
    }
    if !is_any {
        bail!(
            "no process matches {}: nothing was recorded; start it first, or record everything with --all",
            args.selection()
        );
    }
    Ok(())
}

/// Processes that the selectors name now, with their descendants.
fn selected_now(args: &RecordArgs) -> Vec<u32> {
    let all = procfs::tasks();
    let mut chosen: Vec<u32> = args.pid.clone();
    for t in all.iter().filter(|t| t.tgid == t.tid) {
        let comm = String::from_utf8_lossy(&t.comm);
        let cgroup = String::from_utf8_lossy(&t.cgroup);
        if args.comm.iter().any(|c| *c == comm) || args.cgroup.iter().any(|c| is_below(&cgroup, c)) {
            chosen.push(t.tgid);
        }
    }
    with_descendants(chosen)
}

/// Whether a cgroup is this one or below it: `/shop` is not above `/shop2`.
fn is_below(cgroup: &str, top: &str) -> bool {
    cgroup.strip_prefix(top.trim_end_matches('/')).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
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
    Ok(command.spawn().map_err(|e| CannotStart::new(program, &e))?)
}

#[cfg(test)]
mod tests {
    use super::is_below;

    #[test]
    fn a_cgroup_is_above_what_is_in_it_and_not_above_its_namesakes() {
        for inside in ["/shop", "/shop/web", "/shop/web/1"] {
            assert!(is_below(inside, "/shop") && is_below(inside, "/shop/") && is_below(inside, "/"), "{inside}");
        }
        for outside in ["/shop2", "/shop2/web", "/", ""] {
            assert!(!is_below(outside, "/shop"), "{outside}");
        }
    }
}
