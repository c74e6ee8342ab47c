//! `wakepath record`: wires the kernel vantage to the decoder to the folder.

pub mod files;
mod pace;
pub mod report;
mod rings;
mod selection;
pub mod stacks;
mod starting;
mod unselected;

use crate::cli::{BackendFlag, PayloadFlag, RecordArgs};
use crate::ending::{self, Ending};
use crate::limits::Limits;
use crate::marks::Marks;
use crate::output::tell;
use crate::owner;
use crate::priority::Priority;
use crate::program::{self, CannotStart};
use crate::recording::{Vantage, pump};
use crate::rights;
use crate::sink::{self, Drops, Sink, anchor, facts, host_info, options};
use crate::status::Status;
use crate::tls;
use anyhow::{Context as _, Result, bail};
use pace::Pace;
use report::Report;
use selection::{Selection, Selectors, Watched, check_pids};
use stacks::Stacks;
use starting::{Phase, Starting};
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;
use wakepath_capture::runtimes::{self, Allowed, Probed, Runtimes};
use wakepath_capture::{Backend, KernelOptions, KernelSource, monotonic_ns, procfs};
use wakepath_decode::{KernelDecoder, Payload, RowSink as _};
use wakepath_export::follow::Exporter;
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
    if args.tls && matches!(args.payload, PayloadFlag::None) {
        bail!("--tls reads messages, and --payload none keeps nothing of them: leave one of them out");
    }
    let selectors = Selectors::of(args);
    let watched = selectors.watched(args);
    let asked: Vec<Probed> = args.runtimes.iter().map(|flag| flag.probed()).collect();
    let probed = runtimes::probed(&asked, watched != Watched::All).map_err(anyhow::Error::msg)?;
    let payload = args.payload.into();
    let recurring = sink::recurring(args.words, payload)?;

    let stop = ending::on_signals()?;
    let starting = Starting::begin(&stop);
    let before = Priority::start(args.priority);

    // attached before the folder is made: a kernel that refuses leaves no folder after
    let kernel = kernel_options(args, &selectors, watched, payload, &probed);
    let mut source = KernelSource::attach(&kernel)?;
    starting.reached(Phase::Selecting);
    // an operation that was begun without its identity could not be gone on with: known before the first is seen
    let mut known = kernel.runtimes;
    if args.tls {
        tell!(
            "wakepath: --tls reads what programs say through OpenSSL's and GnuTLS's functions and Go's crypto/tls: methods, paths, \
             statements and statuses, masked as without TLS"
        );
    }
    let selection = match watched {
        Watched::Selected => {
            let sockets = if args.port.is_empty() { Vec::new() } else { snapshot(&mut source)? };
            Selection::begin(args, &mut source, &sockets, |source, tgid| {
                let layout = runtimes::without_probes(tgid, &probed);
                known.extend(layout.filter(|l| source.read_identities(tgid, l).is_ok()).map(|l| (tgid, l)));
            })?
        }
        Watched::All | Watched::Command => Selection::none(),
    };
    starting.reached(Phase::Reading);
    let (keep_ns, max_bytes) = (args.keep.map(|k| k.0), args.max_bytes.map(|b| b.0));
    let options = options(args.append, args.force, keep_ns, max_bytes, !args.no_compress);
    let mut options = sink::read_along(args.otlp.as_ref(), options);
    options.overwrite = owner::claim(&args.output, options.overwrite).with_context(|| format!("{:?}", args.output))?;
    let folder = FolderWriter::create(&args.output, host_info(args.selection(), args.flags()), options)?;
    let mut sink = Sink::new(folder, payload, recurring, source.stacks()?.map(Stacks::new));
    sink.unread_tls = args.tls.then(Default::default);
    let mut recording =
        Recording::begin(args, watched, source, selection, KernelDecoder::new(payload), sink, (&probed, known))?;
    recording.report = args.report.then(|| Report::new(&stop));
    // from here on a signal ends a recording, which has something to keep
    drop(starting);
    before.restore();
    let child = recording.start(&args.command, watched == Watched::Command)?;
    // from here on the command is waited for, whatever becomes of us
    let ending = Ending::new(child, stop, args.duration.map(|d| d.0));
    let priority = Priority::take(args.priority);
    rights::keep_only_needed(ending.child().is_some());
    recording.until(ending, priority, args)
}

fn kernel_options(
    args: &RecordArgs,
    selectors: &Selectors,
    watched: Watched,
    payload: Payload,
    probed: &[Probed],
) -> KernelOptions {
    let (watch, rules) = selectors.for_kernel(watched);
    KernelOptions {
        backend: match args.backend {
            BackendFlag::Auto => Backend::Auto,
            BackendFlag::Calls => Backend::Calls,
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
        tls: args.tls,
        watch,
        rules,
        // of those that are selected, when it is known who is
        runtimes: if watched == Watched::All { runtimes_of_all(probed) } else { Vec::new() },
    }
}

fn runtimes_of_all(probed: &[Probed]) -> Vec<(u32, w::Runtime)> {
    let known = |tgid| Some((tgid, runtimes::without_probes(tgid, probed)?));
    procfs::processes().into_iter().filter_map(known).collect()
}

/// Writes down what is there now. What moved since the selection was watched is in the rings, and follows: events first, snapshot second,
/// so nothing falls between.
fn write_snapshot(
    source: &mut KernelSource,
    decoder: &mut KernelDecoder,
    sink: &mut Sink,
    selection: &Selection,
) -> Result<()> {
    let started = MonoNs(monotonic_ns());
    sink.push(&anchor());
    for t in procfs::tasks() {
        let (tgid, tid) = (t.tgid, t.tid);
        decoder.task(tgid, tid, &facts(t), started, sink);
    }
    begin_flows(&snapshot(source)?, decoder, sink);
    feed(&open_waits(source)?, decoder, sink);
    selection.write(decoder, sink);
    Ok(())
}

/// What the kernel programs gather, and what it becomes.
struct Recording {
    source: KernelSource,
    decoder: KernelDecoder,
    sink: Sink,
    drops: Drops,
    limits: Limits,
    selection: Selection,
    marks: Marks,
    runtimes: Runtimes,
    status: Status,
    pace: Pace,
    /// Of the thread that records; none before it does.
    priority: Option<Priority>,
    unselected: unselected::Sums,
    /// When the waits that go on were written down last.
    looked_ns: u64,
    /// Only for an agent.
    report: Option<Report>,
    /// How many details an agent left out to stay in budget.
    lowered: u64,
    /// Only where requests are sent meanwhile.
    exporter: Option<Exporter>,
}

impl Recording {
    /// Writes down what is there when the recording begins, and then looks into the programs of those selected: that may take long on a
    /// busy host, and what connections are is not known until the first is done.
    fn begin(
        args: &RecordArgs,
        watched: Watched,
        mut source: KernelSource,
        selection: Selection,
        mut decoder: KernelDecoder,
        mut sink: Sink,
        // which probes are placed, and of which processes identities are read already
        (probed, known): (&[Probed], Vec<(u32, w::Runtime)>),
    ) -> Result<Recording> {
        let everybody = if watched == Watched::All { procfs::processes() } else { Vec::new() };
        let processes = if watched == Watched::All { &everybody } else { selection.processes() };
        if watched == Watched::All {
            decoder.select_all();
        }
        let began = MonoNs(monotonic_ns());
        let unselected = unselected::Sums::new(began, source.unselected());
        let limits = Limits::find();
        write_snapshot(&mut source, &mut decoder, &mut sink, &selection)?;
        limits.all(began, &decoder, &mut sink);
        Marks::begin(&mut source, processes, &mut sink);
        let allowed = match watched {
            Watched::All => Allowed::All,
            Watched::Selected | Watched::Command => Allowed::Processes(processes.iter().copied().collect()),
        };
        let runtimes = Runtimes::begin(&mut source, known, probed, allowed, |text| tell!("wakepath: {text}"));
        let pace = Pace::new(source.backlog().1);
        let mut recording = Recording {
            source,
            decoder,
            sink,
            drops: Drops::new(began),
            limits,
            selection,
            marks: Marks::default(),
            runtimes,
            status: Status::new(!args.command.is_empty()),
            pace,
            priority: None,
            unselected,
            looked_ns: monotonic_ns(),
            report: None,
            lowered: args.lowered.len() as u64,
            exporter: None,
        };
        recording.tell_lowered(began);
        recording.sink.folder.flush(Durability::Write)?;
        Ok(recording)
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
        if is_watched {
            self.selection.has_command(child.id());
        }
        self.runtimes.allow(child.id());
        Ok(Some(child))
    }

    /// Records until the end, whatever it is, and writes what is left.
    fn until(mut self, mut ending: Ending, priority: Priority, args: &RecordArgs) -> Result<i32> {
        priority.said(args.priority).iter().for_each(|said| tell!("{said}"));
        price(args.backend, self.source.backend()).iter().for_each(|said| tell!("{said}"));
        self.priority = Some(priority);
        let result =
            self.begin_export(args).and_then(|()| tell_ready(args)).and_then(|()| pump(&mut self, &mut ending));
        let open = open_waits(&mut self.source);
        let sockets = sockets(&mut self.source);
        // the programs go one after the other: what some of them still see would look like requests without an end
        let (ended, last) = (monotonic_ns(), anchor());
        // detach first: whatever happens to the disk, the programs go
        self.source.detach();
        let mut exported = None;
        let written = result.and_then(|status| {
            let Recording { source, decoder, sink, .. } = &mut self;
            let mut until_the_end = |f: w::Frame<'_>| {
                if f.at_ns() <= ended {
                    decoder.frame(f, sink);
                }
            };
            source.drain(ended, &mut until_the_end);
            source.drain(u64::MAX, &mut until_the_end);
            feed(&open?, decoder, sink);
            feed(&sockets?, decoder, sink);
            self.limits.all(MonoNs(ended), &self.decoder, &mut self.sink);
            self.report_losses(MonoNs(ended));
            self.unselected.write(self.source.unselected(), MonoNs(ended), true, &mut self.sink);
            self.sink.push(&last);
            self.sink.folder.flush(Durability::Write)?;
            if let Some(exporter) = &mut self.exporter {
                exported = Some(exporter.finish());
                self.report_losses(MonoNs(ended));
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
        self.exporter = args.otlp.as_ref().map(|url| sink::exporter(&args.output, url)).transpose()?;
        Ok(())
    }

    /// In each segment, since it must stand alone.
    fn tell_lowered(&mut self, at: MonoNs) {
        if self.lowered > 0 {
            self.sink.folder.push_loss(defect::BUDGET, self.lowered, at, at);
        }
    }

    fn report_losses(&mut self, at: MonoNs) {
        let mut counted = vec![
            (defect::BPF_RECURSION, self.source.skipped()),
            (defect::RUNTIME_REFUTED, self.runtimes.refuted(&self.source)),
            (defect::RUNTIME_UNREAD, self.runtimes.unread()),
            (defect::TLS_UNJOINED, self.source.tls_unjoined()),
            (defect::UNSELECTED_WAITS, self.source.unselected().waits),
        ];
        counted.extend(self.exporter.iter().flat_map(Exporter::left_out));
        self.drops.report(at, self.source.drops(), &counted, &mut self.sink);
    }
}

impl Vantage for Recording {
    fn sink(&mut self) -> &mut Sink {
        &mut self.sink
    }

    fn drain(&mut self, until_ns: u64) -> Result<()> {
        let Recording { source, decoder, sink, marks, runtimes, selection, .. } = self;
        source.drain(until_ns, |f| {
            marks.note(&f, sink);
            runtimes.note(&f);
            selection.note(&f);
            decoder.frame(f, sink);
        });
        for tgid in selection.meet(source, decoder, sink)? {
            marks.look(tgid, monotonic_ns());
            runtimes.allow(tgid);
        }
        marks.listen(source, sink);
        runtimes.learn(source);
        if let Err(e) = source.tend() {
            eprintln!("senders of datagrams that come from now on are not known: {e}");
        }
        for (flow, wants) in sink.wanted.drain(..) {
            source.want(flow.0, wants)?;
        }
        Ok(())
    }

    fn look(&mut self, now_ns: u64, _since_begin_ns: u64) -> Result<()> {
        self.priority.iter_mut().for_each(|p| p.look(now_ns));
        if now_ns - self.looked_ns > OPEN_WAITS_NS {
            feed(&open_waits(&mut self.source)?, &mut self.decoder, &mut self.sink);
            self.looked_ns = now_ns;
        }
        self.unselected.write(self.source.unselected(), MonoNs(now_ns), false, &mut self.sink);
        self.sink.unread_tls.iter_mut().for_each(tls::Unread::look);
        self.status.show(now_ns, || (self.sink.folder.counts(), self.drops.lost()));
        if let Some(report) = &mut self.report {
            report.tell(now_ns, || (self.sink.folder.counts(), self.drops.lost()));
        }
        Ok(())
    }

    fn report(&mut self) -> Result<()> {
        self.report_losses(MonoNs(monotonic_ns()));
        self.limits.new_ones(&self.decoder, &mut self.sink);
        Ok(())
    }

    fn restate(&mut self, at: MonoNs) -> Result<()> {
        let Recording { source, decoder, sink, selection, limits, .. } = self;
        decoder.restate(at, sink);
        selection.forget_ended();
        selection.write(decoder, sink);
        limits.all(at, decoder, sink);
        feed(&sockets(source)?, decoder, sink);
        self.tell_lowered(at);
        Ok(())
    }

    fn backlog(&self) -> (u64, u64) {
        self.source.backlog()
    }

    fn pause(&mut self, found: u64, size: u64) -> Duration {
        self.pace.after(found, size)
    }
}

/// Why a recording stopped, and what is left of it.
pub fn stopped(e: anyhow::Error, rows: u64, output: &Path) -> anyhow::Error {
    match e.downcast_ref() {
        Some(FolderError::Gone(_)) => e.context("recording stopped"),
        _ => e.context(format!("recording stopped; {rows} rows written before are kept in {}", output.display())),
    }
}

/// What all processes pay, if programs could not be attached to single system calls alone.
fn price(wanted: BackendFlag, found: Backend) -> Option<&'static str> {
    (wanted == BackendFlag::Auto && found == Backend::SocketHooks && cfg!(target_arch = "x86_64")).then_some(
        "backend: socket-hooks, so each system call of every process takes about 60 ns longer; `wakepath doctor` says why",
    )
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
            format!("; LOST {lost} events because the rings were full: {}", rings::advice(args.ring_bytes.0))
        } else {
            String::new()
        }
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_that_nobody_chose_is_said() {
        let said = price(BackendFlag::Auto, Backend::SocketHooks);
        assert_eq!(said.is_some(), cfg!(target_arch = "x86_64"), "{said:?}");
        assert_eq!(price(BackendFlag::SocketHooks, Backend::SocketHooks), None, "it was asked for");
        assert_eq!(price(BackendFlag::Auto, Backend::Calls), None);
    }
}
