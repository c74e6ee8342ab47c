//! `wakepath run`, and the recorder in the background: wires the library vantage, and the kernel vantage beside it where
//! asked for, to the decoder to the folder.

pub mod switch;

use crate::cli::{Collector, LibraryArgs, RecorderArgs, RunArgs};
use crate::ending::{self, Ending};
use crate::limits::Limits;
use crate::output::tell;
use crate::owner;
use crate::program::{self, CannotStart};
use crate::record::stopped;
use crate::recording::{Vantage, pump};
use crate::rights;
use crate::sink::{self, Drops, Sink, anchor, facts, host_info, options};
use anyhow::{Context as _, Result, bail};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;
use wakepath_capture::{Arena, ArenaOptions, KernelOptions, KernelSource, LibrarySource, Watch, monotonic_ns, procfs};
use wakepath_decode::recurring::Recurring;
use wakepath_decode::{KernelDecoder, Payload, RowSink as _};
use wakepath_export::follow::Exporter;
use wakepath_model::defects::id as defect;
use wakepath_model::folder::{Durability, FolderWriter, HostInfo, Options};
use wakepath_model::ids::MonoNs;
use wakepath_wire::Frame;
use wakepath_wire::arena::{ARENA_ENV, aside};

/// The library's file.
pub const LIBRARY: &str = "libwakepath_preload.so";
/// What makes the loader put it before the C library.
pub const PRELOAD_ENV: &str = "LD_PRELOAD";

/// How often the rings are looked at.
const TICK: Duration = Duration::from_millis(4);
/// A program that the loader gives the library has said so long before.
const COMES_WITHIN_NS: u64 = 2_000_000_000;
/// How long after the switch is off records may still be under way.
const LAST_CALLS: Duration = Duration::from_millis(5);

/// What the counts of [`aside`] are called.
const ASIDE: [&str; aside::KINDS] = [
    defect::LIBRARY_DESCRIPTOR,
    defect::LIBRARY_RACE,
    defect::LIBRARY_TABLE_FULL,
    defect::LIBRARY_IO_URING,
    defect::LIBRARY_TLS,
    defect::LIBRARY_NOT_ISOLATED,
    defect::LIBRARY_NOT_LOADED,
    defect::LIBRARY_SHARED_FLOW,
    defect::LIBRARY_DEEPBIND,
    defect::GUEST_TYPES,
    defect::GUEST_UNREAD,
    defect::GUEST_CALLS_32,
    defect::GUEST_IO_URING,
    defect::GUEST_TABLE_FULL,
];

/// Records a command until it ends, the time is over, or a signal comes. Returns its exit code.
pub fn run(args: &RunArgs) -> Result<i32> {
    if let Some(program) = args.command.first() {
        program::require(program)?;
    }
    let library = find_preload()?;
    if args.kernel
        && let Some(missing) = rights::missing_for_kernel_vantage()
    {
        bail!("--kernel needs {missing}; without it, `wakepath run` needs no rights");
    }
    let stop = ending::on_signals()?;
    let payload = args.library.payload.into();
    let kernel = if args.kernel {
        let head_bytes = if payload == Payload::None { 0 } else { args.library.head_bytes };
        let (watch, faults) = (Watch::Processes(Vec::new()), args.faults);
        let options = KernelOptions { head_bytes, watch, faults, ..KernelOptions::default() };
        Some(KernelSource::attach(&options)?)
    } else {
        None
    };
    let arena = Arena::create(&arena_options(&args.library))?;
    let source = LibrarySource::new(arena)?;
    let selection = args.command.first().map_or(String::new(), |c| format!("-- {c}"));
    let mut flags = args.library.flags(args.isolation, args.kernel);
    if args.faults {
        flags.push("--faults".into());
    }
    let folder = options(args.append, args.force, None, None, !args.library.no_compress);
    let recording = Recording::begin(Beginning {
        output: &args.output,
        host: host_info(selection, flags),
        options: sink::read_along(args.otlp.as_ref(), folder),
        payload,
        recurring: sink::recurring(args.library.words, payload)?,
        source,
        kernel,
        is_guest: false,
    })?;
    args.isolation.switch_on(recording.source.arena());
    let mut recording = recording;
    let child = recording.start(&args.command, &library)?;
    // from here on the command is waited for, whatever becomes of us
    let pid = child.id();
    let ending = Ending::new(Some(child), stop, args.duration.map(|d| d.0));
    let ready = tell_ready(args, pid);
    recording.until(ending, ready, &args.output, args.otlp.as_ref())
}

/// Says that recording has begun.
fn tell_ready(args: &RunArgs, command: u32) -> Result<()> {
    match &args.ready_file {
        Some(f) => owner::write_ready_file(f, &format!("{command}\n")).with_context(|| format!("writing {f:?}"))?,
        None => tell!("recording into {} (Ctrl-C ends it)", args.output.display()),
    }
    Ok(())
}

/// Says that the library does not see a command.
fn tell_unseen(what: &str, has_kernel: bool) {
    let instead = if has_kernel {
        "it is recorded by the kernel vantage only"
    } else {
        "its own actions are not recorded; `wakepath record -- CMD` or `wakepath run --kernel` sees it"
    };
    tell!("wakepath: {what}, so the library cannot be loaded into it: {instead}");
}

/// Records what runs under a folder's arena until SIGTERM or SIGINT. Says `ready` on standard output when it records.
pub fn recorder(args: &RecorderArgs) -> Result<i32> {
    let payload = args.library.payload.into();
    let stop = ending::on_signals()?;
    let arena = Arena::of_folder(&args.output, &arena_options(&args.library))?;
    let source = LibrarySource::new(arena)?;
    let recording = Recording::begin(Beginning {
        output: &args.output,
        host: host_info(
            format!("{ARENA_ENV}={}", source.arena().path().display()),
            args.library.flags(args.isolation, false),
        ),
        options: sink::read_along(None, options(true, false, None, None, !args.library.no_compress)),
        payload,
        recurring: sink::recurring(args.library.words, payload)?,
        source,
        kernel: None,
        is_guest: false,
    })?;
    args.isolation.switch_on(recording.source.arena());
    crate::output::print(b"ready\n")?;
    let folder = std::path::absolute(&args.output).unwrap_or_else(|_| args.output.clone());
    recording.until(Ending::new(None, stop, None).with_folder(folder), Ok(()), &args.output, None)
}

fn arena_options(args: &LibraryArgs) -> ArenaOptions {
    ArenaOptions {
        slots: args.slots,
        ring_bytes: u32::try_from(args.ring_bytes.0).unwrap_or(u32::MAX),
        head_bytes: if Payload::from(args.payload) == Payload::None { 0 } else { args.head_bytes },
    }
}

/// The preload library, where the loader can have it.
pub fn find_preload() -> Result<PathBuf> {
    let found = find_library(LIBRARY, "wakepath-preload")?;
    // the loader splits the variable there
    if found.to_string_lossy().contains([':', ' ']) {
        bail!("{} cannot be preloaded: no folder of its path may have a space or a colon in its name", found.display());
    }
    Ok(found)
}

/// The file of a library that the crate `from` makes: beside this program, or where an installation puts it.
pub fn find_library(name: &str, from: &str) -> Result<PathBuf> {
    let exe = std::env::current_exe().context("finding this program's own file")?;
    let dir = exe.parent().unwrap_or(Path::new("/"));
    let places = [dir.join(name), dir.join("../lib/wakepath").join(name)];
    let Some(found) = places.iter().find(|p| p.is_file()) else {
        bail!(
            "the library {name} is neither beside {} nor in ../lib/wakepath: build it \
             (cargo build --release -p {from}) and put it there",
            exe.display()
        );
    };
    Ok(found.canonicalize().unwrap_or_else(|_| found.clone()))
}

/// What a recording begins with.
pub struct Beginning<'a> {
    /// The folder.
    pub output: &'a Path,
    /// Whose recording it is.
    pub host: HostInfo,
    /// How the folder is written.
    pub options: Options,
    /// What is kept of messages.
    pub payload: Payload,
    /// Which words are written.
    pub recurring: Recurring,
    /// Where records come from.
    pub source: LibrarySource,
    /// Where those of the kernel come from.
    pub kernel: Option<KernelSource>,
    /// The records are of a guest: this host's processes are none of its own.
    pub is_guest: bool,
}

/// What is recorded, and what it becomes.
pub struct Recording {
    source: LibrarySource,
    kernel: Option<KernelSource>,
    decoder: KernelDecoder,
    sink: Sink,
    drops: Drops,
    /// None of a guest: they are not looked up in it.
    limits: Option<Limits>,
    /// Library records of this round, where both vantages record.
    round: Round,
    /// Only where requests are sent meanwhile.
    exporter: Option<Exporter>,
}

impl Recording {
    /// Makes the folder, and writes down what is there already.
    pub fn begin(beginning: Beginning<'_>) -> Result<Recording> {
        let Beginning { output, host, mut options, payload, recurring, source, mut kernel, is_guest } = beginning;
        options.overwrite = owner::claim(output, options.overwrite).with_context(|| format!("{output:?}"))?;
        let folder = FolderWriter::create(output, host, options)?;
        let mut sink = Sink::new(folder, payload, recurring, None);
        sink.is_guest = is_guest;
        let started = MonoNs(monotonic_ns());
        sink.push(&anchor());
        let mut decoder = KernelDecoder::new(payload);
        if let Some(kernel) = &mut kernel {
            decoder.join();
            for t in procfs::tasks() {
                let (tgid, tid) = (t.tgid, t.tid);
                decoder.task(tgid, tid, &facts(t), started, &mut sink);
            }
            kernel.snapshot(|f| decoder.frame(f, &mut sink))?;
        }
        let limits = (!is_guest).then(Limits::find);
        limits.iter().for_each(|limits| limits.all(started, &decoder, &mut sink));
        sink.folder.flush(Durability::Write)?;
        let (drops, round) = (Drops::new(started), Round::default());
        Ok(Recording { source, kernel, decoder, sink, drops, limits, round, exporter: None })
    }

    /// The shared memory.
    pub fn arena(&self) -> &Arena {
        self.source.arena()
    }

    fn start(&mut self, command: &[String], library: &Path) -> Result<Child> {
        use std::os::unix::process::CommandExt as _;
        let (program, rest) = command.split_first().context("no command was given")?;
        let mut preload = OsString::from(library);
        if let Some(others) = std::env::var_os(PRELOAD_ENV).filter(|o| !o.is_empty()) {
            preload.push(":");
            preload.push(others);
        }
        let mut command = Command::new(program);
        command.args(rest).env(PRELOAD_ENV, preload).env(ARENA_ENV, self.source.arena().path());
        if let Some(kernel) = &self.kernel {
            // SAFETY: the closure makes one system call and one atomic addition.
            unsafe { command.pre_exec(kernel.watch_on_exec()) };
        }
        let child = owner::spawn(&mut command).map_err(|e| CannotStart::new(program, &e))?;
        self.source.expect(child.id());
        if let Some(what) = program::unseen_by_library(program) {
            tell_unseen(&what, self.kernel.is_some());
            self.count_unseen();
        }
        Ok(child)
    }

    /// Counts the command as one that the library does not see, once.
    fn count_unseen(&mut self) {
        self.source.expect_nobody();
        self.source.arena().count_not_loaded();
    }

    /// Records until the end, whatever it is, and writes what is left.
    pub fn until(
        mut self,
        mut ending: Ending,
        ready: Result<()>,
        output: &Path,
        collector: Option<&Collector>,
    ) -> Result<i32> {
        // only now: a command is not to inherit this
        rights::go_first();
        match &self.kernel {
            Some(_) => rights::keep_only_needed(ending.child().is_some()),
            None => rights::keep_only_paths(true, ending.child().is_some()),
        }
        let exporter = collector.map(|url| sink::exporter(output, url)).transpose();
        let result = ready.and(exporter).and_then(|exporter| {
            self.exporter = exporter;
            pump(&mut self, &mut ending)
        });
        self.source.arena().switch_off();
        if let Some(kernel) = &mut self.kernel {
            kernel.detach();
        }
        std::thread::sleep(LAST_CALLS);
        let mut exported = None;
        let written = result.and_then(|status| {
            self.drain(u64::MAX)?;
            self.decoder.finish(&mut self.sink);
            let at = MonoNs(monotonic_ns());
            self.limits.iter().for_each(|limits| limits.all(at, &self.decoder, &mut self.sink));
            if self.source.is_awaited() && self.source.without_slot() == 0 {
                self.tell_absent();
            }
            self.report_losses();
            self.sink.push(&anchor());
            self.sink.folder.flush(Durability::Write)?;
            if let Some(exporter) = &mut self.exporter {
                exported = Some(exporter.finish());
                self.report_losses();
            }
            Ok(status)
        });
        let rows = self.sink.folder.counts().rows;
        let end = self.end_text();
        let closed = written.and_then(|status| Ok((status, self.sink.folder.close()?)));
        // the shared memory is root's, and goes away as root's
        rights::write_as_self();
        match closed {
            Ok((status, counts)) => {
                let (rows, megabytes) = (counts.rows, counts.bytes as f64 / 1e6);
                tell!("recorded {rows} rows, {megabytes:.1} MB, into {}{end}", output.display());
                exported.iter().for_each(|said| tell!("{said}"));
                Ok(status)
            }
            Err(e) => ending.outlive(stopped(e, rows, output)),
        }
    }

    /// What is said at the end of what was lost.
    fn end_text(&self) -> String {
        let lost: u64 =
            self.drops.reported[..5].iter().sum::<u64>() + self.drops.reported[wakepath_wire::DROP_MARK as usize];
        let mut text = String::new();
        if lost > 0 {
            text += &format!(
                "; LOST {lost} events because the rings were full: record again with --ring-bytes {}K",
                (2 * self.source.backlog().1) >> 10
            );
        }
        match self.source.without_slot() {
            0 => {}
            n => text += &format!("; {n} processes found no free slot: record again with more --slots"),
        }
        match self.source.asides()[aside::NOT_LOADED] {
            0 => {}
            n => text += &format!("; NOT SEEN: {n} programs into which the library cannot be loaded"),
        }
        match self.source.asides()[aside::GUEST_TYPES] {
            0 => {}
            _ => text += "; NOT SEEN: the guest, whose kernel does not describe its types (docs/below.md)",
        }
        text
    }

    /// Says that the command has not come under the library, though nothing in its file says why.
    fn tell_absent(&mut self) {
        tell_unseen("the command has not loaded the library", self.kernel.is_some());
        self.count_unseen();
    }

    /// Writes down what was lost.
    fn report_losses(&mut self) {
        let mut drops = self.source.drops();
        if let Some(kernel) = &self.kernel {
            for (sum, n) in drops.iter_mut().zip(kernel.drops()) {
                *sum += n;
            }
        }
        let asides = self.source.asides();
        let mut others: Vec<(&'static str, u64)> = ASIDE.into_iter().zip(asides).collect();
        others.push((defect::BPF_RECURSION, self.kernel.as_ref().map_or(0, |kernel| kernel.skipped())));
        others.push((defect::LIBRARY_NO_SLOT, self.source.without_slot()));
        others.extend(self.exporter.iter().flat_map(Exporter::left_out));
        self.drops.report(MonoNs(monotonic_ns()), drops, &others, &mut self.sink);
    }
}

impl Vantage for Recording {
    fn sink(&mut self) -> &mut Sink {
        &mut self.sink
    }

    /// Decodes what both vantages have up to a time, in order of time.
    fn drain(&mut self, until_ns: u64) -> Result<()> {
        let Recording { source, kernel, decoder, sink, round, .. } = self;
        let now_ns = monotonic_ns();
        let Some(kernel) = kernel else {
            source.drain(now_ns, until_ns, |f| decoder.library_frame(f, sink));
            sink.wanted.clear();
            return Ok(());
        };
        round.clear();
        source.drain(now_ns, until_ns, |f| round.add(f));
        kernel.drain(until_ns, |f| {
            while let Some(earlier) = round.next_before(time_of(f.bytes)) {
                decoder.library_frame(earlier, sink);
            }
            decoder.frame(f, sink);
        });
        while let Some(rest) = round.next_before(u64::MAX) {
            decoder.library_frame(rest, sink);
        }
        // what nobody reads at the kernel's calls is also not looked at by the library
        for (flow, wants) in sink.wanted.drain(..) {
            kernel.want(flow.0, wants)?;
        }
        Ok(())
    }

    fn look(&mut self, _now_ns: u64, since_begin_ns: u64) -> Result<()> {
        if since_begin_ns > COMES_WITHIN_NS && self.source.is_awaited() && self.source.without_slot() == 0 {
            self.tell_absent();
        }
        Ok(())
    }

    fn report(&mut self) -> Result<()> {
        self.report_losses();
        self.limits.iter().for_each(|limits| limits.new_ones(&self.decoder, &mut self.sink));
        Ok(())
    }

    fn restate(&mut self, at: MonoNs) -> Result<()> {
        self.decoder.restate(at, &mut self.sink);
        self.limits.iter().for_each(|limits| limits.all(at, &self.decoder, &mut self.sink));
        Ok(())
    }

    fn backlog(&self) -> (u64, u64) {
        self.source.backlog()
    }

    fn pause(&mut self, _found: u64, _size: u64) -> Duration {
        TICK
    }
}

/// Records kept for a moment, to be laid between others by their time.
#[derive(Default)]
struct Round {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    next: usize,
}

impl Round {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.next = 0;
    }

    fn add(&mut self, f: Frame<'_>) {
        self.bytes.extend_from_slice(f.bytes);
        self.ends.push(self.bytes.len());
    }

    fn next_before(&mut self, ts_ns: u64) -> Option<Frame<'_>> {
        let end = *self.ends.get(self.next)?;
        let begin = self.next.checked_sub(1).map_or(0, |i| self.ends[i]);
        if time_of(&self.bytes[begin..]) >= ts_ns && ts_ns != u64::MAX {
            return None;
        }
        self.next += 1;
        Some(Frame { origin: u32::MAX, bytes: &self.bytes[begin..end] })
    }
}

fn time_of(record: &[u8]) -> u64 {
    record.get(8..16).and_then(|b| b.try_into().ok()).map_or(0, u64::from_ne_bytes)
}
