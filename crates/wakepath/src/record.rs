//! `wakepath record`: wires the kernel vantage to the decoder to the folder.

pub mod files;
mod pace;
pub mod stacks;

use crate::cli::{BackendFlag, RecordArgs};
use crate::ending::{self, Ending};
use crate::limits::{self, Limits};
use crate::marks::Marks;
use crate::otlp::{self, Exporter};
use crate::output::tell;
use crate::owner;
use crate::program::{self, CannotStart};
use crate::recording::{Vantage, pump};
use crate::rights;
use crate::runtimes::{self, Allowed, Runtimes};
use crate::sink::{self, Drops, Sink, anchor, facts, host_info, options};
use crate::status::Status;
use anyhow::{Context as _, Result, bail};
use pace::Pace;
use stacks::Stacks;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;
use wakepath_capture::{Backend, KernelOptions, KernelSource, Watch, monotonic_ns, procfs};
use wakepath_decode::{KernelDecoder, Payload, RowSink as _};
use wakepath_model::defects::id as defect;
use wakepath_model::folder::{Durability, FolderError, FolderWriter};
use wakepath_model::ids::MonoNs;
use wakepath_wire as w;

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
    runtimes::check(&args.runtimes)?;
    let watched = Watched::of(args);
    let payload = args.payload.into();
    let recurring = sink::recurring(args.words, payload)?;

    let stop = ending::on_signals()?;

    // attached before the folder is made: a kernel that refuses leaves no folder behind
    let kernel = kernel_options(args, watched, payload);
    let mut source = KernelSource::attach(&kernel)?;
    if watched == Watched::Selected {
        check_selected(args, &mut source)?;
    }
    let (keep_ns, max_bytes) = (args.keep.map(|k| k.0), args.max_bytes.map(|b| b.0));
    let options = options(args.append, args.force, keep_ns, max_bytes, !args.no_compress);
    let mut options = otlp::options(args.otlp.as_ref(), options);
    options.overwrite = owner::claim(&args.output, options.overwrite).with_context(|| format!("{:?}", args.output))?;
    let folder = FolderWriter::create(&args.output, host_info(args.selection(), args.flags()), options)?;
    let sink = Sink::new(folder, payload, recurring, source.stacks()?.map(Stacks::new));
    let mut recording = Recording::begin(args, watched, source, KernelDecoder::new(payload), sink, kernel.runtimes)?;
    let child = recording.start(&args.command, watched == Watched::Command)?;
    // from here on the command is waited for, whatever becomes of us
    let ending = Ending::new(child, stop, args.duration.map(|d| d.0));
    rights::go_first();
    rights::keep_only_needed(ending.child().is_some());
    recording.until(ending, args)
}

/// Whose doings are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watched {
    /// Everybody's.
    All,
    /// Those of the processes that selectors name.
    Selected,
    /// Those of the command alone.
    Command,
}

impl Watched {
    fn of(args: &RecordArgs) -> Watched {
        let selected = !(args.pid.is_empty() && args.comm.is_empty() && args.cgroup.is_empty() && args.port.is_empty());
        match (selected, args.command.is_empty()) {
            _ if args.all => Watched::All,
            (true, _) => Watched::Selected,
            (false, false) => Watched::Command,
            (false, true) => Watched::All,
        }
    }
}

fn kernel_options(args: &RecordArgs, watched: Watched, payload: Payload) -> KernelOptions {
    KernelOptions {
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
        watch: match watched {
            Watched::All => Watch::All,
            Watched::Selected => Watch::Processes(selected_now(args)),
            // its own process is added when it starts
            Watched::Command => Watch::Processes(Vec::new()),
        },
        comms: args.comm.clone(),
        runtimes: runtimes::now(&args.runtimes),
    }
}

/// What the kernel programs gather, and what it becomes.
struct Recording {
    source: KernelSource,
    decoder: KernelDecoder,
    sink: Sink,
    drops: Drops,
    limits: Limits,
    roots: Roots,
    marks: Marks,
    runtimes: Runtimes,
    status: Status,
    pace: Pace,
    /// When the waits that go on were written down last.
    looked_ns: u64,
    /// Only where requests are sent meanwhile.
    exporter: Option<Exporter>,
}

impl Recording {
    /// Writes down what is there when the recording begins.
    fn begin(
        args: &RecordArgs,
        watched: Watched,
        mut source: KernelSource,
        mut decoder: KernelDecoder,
        mut sink: Sink,
        known: Vec<(u32, wakepath_wire::Runtime)>,
    ) -> Result<Recording> {
        let started = MonoNs(monotonic_ns());
        if watched == Watched::All {
            decoder.select_all();
        }
        sink.push(&anchor());
        // events first, snapshot second: nothing falls between
        for t in procfs::tasks() {
            let (tgid, tid) = (t.tgid, t.tid);
            decoder.task(tgid, tid, &facts(t), started, &mut sink);
        }
        let processes = match watched {
            Watched::All => procfs::processes(),
            Watched::Selected => watch_selected(args, &mut source)?,
            Watched::Command => Vec::new(),
        };
        // behind the selection: what its connections move from here on is recorded, so no byte lies between
        begin_flows(&snapshot(&mut source)?, &mut decoder, &mut sink);
        feed(&open_waits(&mut source)?, &mut decoder, &mut sink);
        Marks::begin(&mut source, &processes, &mut sink);
        let pids = if watched == Watched::All { Vec::new() } else { processes };
        // who takes a selected name later cannot be told from others here
        let is_anybody = watched == Watched::All || !args.comm.is_empty();
        let allowed = if is_anybody { Allowed::All } else { Allowed::Processes(pids.clone()) };
        let runtimes = Runtimes::begin(&mut source, known, &args.runtimes, allowed);
        let roots = Roots { pids, command: None, comms: args.comm.clone() };
        roots.write(&mut decoder, &mut sink);
        let limits = Limits::find();
        limits.all(&decoder, &mut sink);
        sink.folder.flush(Durability::Write)?;
        let pace = Pace::new(source.backlog().1);
        let (drops, marks, status) = (Drops::new(started), Marks::default(), Status::new(!args.command.is_empty()));
        let looked_ns = monotonic_ns();
        Ok(Recording {
            source,
            decoder,
            sink,
            drops,
            limits,
            roots,
            marks,
            runtimes,
            status,
            pace,
            looked_ns,
            exporter: None,
        })
    }

    /// Starts the command, if there is one; `is_watched`: it names itself among those watched between fork and exec.
    fn start(&mut self, command: &[String], is_watched: bool) -> Result<Option<Child>> {
        use std::os::unix::process::CommandExt as _;
        let Some((program, rest)) = command.split_first() else { return Ok(None) };
        Marks::program(&mut self.source, program, &mut self.sink);
        let mut command = Command::new(program);
        command.args(rest);
        if is_watched {
            // SAFETY: the closure makes one system call and one atomic addition: nothing that a lock held by another
            // thread at the fork could stop.
            unsafe { command.pre_exec(self.source.watch_on_exec()) };
        }
        let child = owner::spawn(&mut command).map_err(|e| CannotStart::new(program, &e))?;
        self.roots.command = is_watched.then(|| child.id());
        self.runtimes.allow(child.id());
        Ok(Some(child))
    }

    /// Records until the end, whatever it is, and writes what is left.
    fn until(mut self, mut ending: Ending, args: &RecordArgs) -> Result<i32> {
        let result =
            self.begin_export(args).and_then(|()| tell_ready(args)).and_then(|()| pump(&mut self, &mut ending));
        let open = open_waits(&mut self.source);
        let sockets = sockets(&mut self.source);
        // detach first: whatever happens to the disk, the programs go
        self.source.detach();
        let mut exported = None;
        let written = result.and_then(|status| {
            let Recording { source, decoder, sink, .. } = &mut self;
            source.drain(monotonic_ns(), |f| decoder.frame(f, sink));
            feed(&open?, decoder, sink);
            feed(&sockets?, decoder, sink);
            source.drain(u64::MAX, |f| decoder.frame(f, sink));
            self.limits.all(&self.decoder, &mut self.sink);
            self.report_losses();
            self.sink.push(&anchor());
            self.sink.folder.flush(Durability::Write)?;
            if let Some(exporter) = &mut self.exporter {
                exported = Some(exporter.finish());
                self.report_losses();
            }
            Ok(status)
        });
        let kept = self.sink.folder.counts();
        let closed = written.and_then(|status| Ok((status, self.sink.folder.close()?)));
        match closed {
            Ok((status, counts)) => {
                summary(args, &counts, &self.drops);
                exported.iter().for_each(|said| tell!("{said}"));
                Ok(status)
            }
            Err(e) => ending.outlive(stopped(e, kept.rows, &args.output)),
        }
    }

    fn begin_export(&mut self, args: &RecordArgs) -> Result<()> {
        self.exporter = args.otlp.as_ref().map(|url| Exporter::begin(&args.output, &url.0)).transpose()?;
        Ok(())
    }

    fn report_losses(&mut self) {
        let mut counted = vec![
            (defect::BPF_RECURSION, self.source.skipped()),
            (defect::RUNTIME_REFUTED, self.runtimes.refuted(&self.source)),
            (defect::RUNTIME_UNREAD, self.runtimes.unread()),
        ];
        counted.extend(self.exporter.iter().flat_map(Exporter::left_out));
        self.drops.report(self.source.drops(), &counted, &mut self.sink);
    }
}

impl Vantage for Recording {
    fn sink(&mut self) -> &mut Sink {
        &mut self.sink
    }

    fn drain(&mut self, until_ns: u64) -> Result<()> {
        let Recording { source, decoder, sink, marks, runtimes, .. } = self;
        source.drain(until_ns, |f| {
            marks.note(&f, sink);
            runtimes.note(&f);
            decoder.frame(f, sink);
        });
        marks.listen(source, sink);
        runtimes.learn(source);
        for (flow, wants) in sink.wanted.drain(..) {
            source.want(flow.0, wants)?;
        }
        Ok(())
    }

    fn look(&mut self, now_ns: u64, _since_begin_ns: u64) -> Result<()> {
        if now_ns - self.looked_ns > OPEN_WAITS_NS {
            feed(&open_waits(&mut self.source)?, &mut self.decoder, &mut self.sink);
            self.looked_ns = now_ns;
        }
        self.status.show(now_ns, || (self.sink.folder.counts(), self.drops.lost()));
        Ok(())
    }

    fn report(&mut self) -> Result<()> {
        self.report_losses();
        self.roots.meet(&mut self.decoder, &mut self.sink);
        self.limits.new_ones(&self.decoder, &mut self.sink);
        Ok(())
    }

    fn restate(&mut self, at: MonoNs) -> Result<()> {
        let Recording { source, decoder, sink, roots, limits, .. } = self;
        decoder.restate(at, sink);
        roots.write(decoder, sink);
        limits.all(decoder, sink);
        feed(&sockets(source)?, decoder, sink);
        Ok(())
    }

    fn backlog(&self) -> (u64, u64) {
        self.source.backlog()
    }

    fn pause(&mut self, found: u64, size: u64) -> Duration {
        self.pace.after(found, size)
    }
}

/// Watches the selected processes and their descendants; gives them.
fn watch_selected(args: &RecordArgs, source: &mut KernelSource) -> Result<Vec<u32>> {
    // again, now that forks are followed: a child made while we attached is nobody's descendant yet
    let mut chosen = selected_now(args);
    if !args.port.is_empty() {
        let sockets = snapshot(source)?;
        chosen.extend(args.port.iter().flat_map(|p| holders_of(&sockets, *p)));
    }
    let processes = with_descendants(chosen);
    for tgid in &processes {
        source.watch(*tgid)?;
    }
    let there = procfs::processes();
    if !processes.iter().any(|tgid| there.contains(tgid)) {
        let until = if args.comm.is_empty() { "" } else { " until one of that name begins" };
        tell!("no process matches {}: nothing is watched{until}", args.selection());
    }
    Ok(processes)
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
        Some(f) => owner::write_ready_file(f, &format!("{}\n", std::process::id()))
            .with_context(|| format!("writing {f:?}"))?,
        None if std::io::IsTerminal::is_terminal(&std::io::stderr()) => {
            let folder = crate::asked::typed_word(&args.output.to_string_lossy());
            tell!(
                "recording into {} (Ctrl-C ends it); to look on, in another terminal: wakepath top {folder}",
                args.output.display()
            );
        }
        None => tell!("recording into {} (Ctrl-C ends it)", args.output.display()),
    }
    Ok(())
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
    fn write(&self, decoder: &mut KernelDecoder, sink: &mut Sink) {
        let at = MonoNs(monotonic_ns());
        for pid in &self.pids {
            decoder.watched(*pid, at, sink);
        }
    }

    /// Writes down the command once it was met, and who took a selected name.
    fn meet(&mut self, decoder: &mut KernelDecoder, sink: &mut Sink) {
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
        let cgroups = String::from_utf8_lossy(&t.cgroups);
        let mut paths = cgroups.lines().filter_map(|l| l.splitn(3, ':').nth(2));
        if args.comm.iter().any(|c| *c == comm) || paths.any(|path| args.cgroup.iter().any(|c| is_below(path, c))) {
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
