//! `wakepath import`: traces of other tracers into a folder.

mod folder;
mod marks;
mod reading;
mod sources;

use crate::cli::ImportArgs;
use crate::output::{self, tell};
use crate::owner;
use crate::progress;
use anyhow::{Context as _, Result, bail};
use fnv::FnvHasher;
use folder::FolderSink;
use reading::Trace;
use sources::Found;
use std::collections::BTreeMap;
use std::hash::Hasher as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use wakepath_decode::imported::Imported;
use wakepath_decode::readers::{Content, Counts, Fault};
use wakepath_model::defects::{self, id as defect};
use wakepath_model::folder::{Folder, FolderWriter, HostInfo, Options, Overwrite};
use wakepath_present::import::{HostView, ImportView, NameView, SCHEMA, SourceView};
use wakepath_present::{json, losses, parquet, units};

/// A batch of this many bytes is written.
const BATCH_BYTES: usize = 2 << 20;
/// Problems of one host that are told one by one, with their place.
const PLACES_MAX: usize = 5;

/// A defect of a trace, and how often it was met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Its id in the central list.
    pub id: &'static str,
    /// How often.
    pub count: u64,
    /// Where first.
    pub first: Option<String>,
}

/// All that is imported of one host.
struct Host {
    info: HostInfo,
    /// The parts of each trace, traces in order.
    traces: Vec<Vec<Trace>>,
    bytes: u64,
}

/// What came of a host.
#[derive(Default)]
struct Outcome {
    /// Events read, by name.
    names: BTreeMap<String, u64>,
    events: u64,
    /// Times of the first and the last event of which rows are made.
    span: Option<(u64, u64)>,
    rows: u64,
    imported: Imported,
    problems: Vec<Problem>,
}

/// Reads the sources and writes the folder.
pub fn run(args: &ImportArgs) -> Result<i32> {
    let (marks, found) = sources(args)?;
    if !marks.is_empty() {
        return marks::run(args, &marks);
    }
    let (hosts, user_space) = hosts(args, &found)?;
    let writers = writers(args, &hosts)?;
    let all: u64 = hosts.iter().map(|h| h.bytes).sum();
    let done: Vec<AtomicU64> = hosts.iter().map(|_| AtomicU64::new(0)).collect();
    let workers = thread::available_parallelism().map_or(1, usize::from).min(hosts.len());

    let queue = Mutex::new(hosts.iter().zip(writers).zip(&done).enumerate());
    let results = Mutex::new(Vec::new());
    let bar = progress::of_bytes("importing", Some(all))?;
    thread::scope(|scope| {
        let work = || {
            loop {
                let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some((i, ((host, writer), done))) = next else { break };
                let result = import_host(args, host, writer, done);
                results.lock().unwrap_or_else(PoisonError::into_inner).push((i, result));
            }
        };
        let handles: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        while handles.iter().any(|h| !h.is_finished()) {
            bar.set_position(done.iter().map(|d| d.load(Ordering::Relaxed)).sum());
            thread::park_timeout(Duration::from_millis(50));
        }
    });
    bar.finish_and_clear();

    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(i, _)| *i);
    let mut outcomes = Vec::new();
    for (i, result) in results {
        outcomes.push(result.with_context(|| format!("importing {}", hosts[i].info.hostname))?);
    }
    if outcomes.iter().all(|o| o.imported.events == 0) {
        discard(args);
        let events: u64 = outcomes.iter().map(|o| o.events).sum();
        for (host, outcome) in hosts.iter().zip(&outcomes).filter(|(_, o)| !o.problems.is_empty()) {
            tell_outcome(&host.info.hostname, outcome);
        }
        if events == 0 {
            bail!("nothing to import: no event could be read");
        }
        bail!(
            "nothing to import: none of the {} events read is of the kernel's scheduler, interrupts, system calls or \
             network; trace with the events that `wakepath import --help` names",
            units::count(events)
        );
    }
    if args.answering.json || args.answering.strict {
        return answer(args, &hosts, &outcomes, user_space);
    }
    tell_all(args, &hosts, &outcomes);
    Ok(output::ANSWERED)
}

/// Says what came of all, and what to ask next.
fn tell_all(args: &ImportArgs, hosts: &[Host], outcomes: &[Outcome]) {
    for (host, outcome) in hosts.iter().zip(outcomes) {
        tell_outcome(&host.info.hostname, outcome);
    }
    tell_next(args, hosts, outcomes);
}

/// Answers with the losses that the folder now tells of: those of what was in it before are among them.
fn answer(args: &ImportArgs, hosts: &[Host], outcomes: &[Outcome], user_space: u64) -> Result<i32> {
    let folder = Folder::open(&[&args.output])?;
    let names = parquet::host_names(&folder);
    let name = |host: &Host| {
        let known = folder.hosts().iter().zip(&names).find(|(h, _)| h.info().boot_id == host.info.boot_id);
        known.map_or(&host.info.hostname, |(_, name)| name).clone()
    };
    let mut losses = losses::collect(&folder);
    for (host, outcome) in hosts.iter().zip(outcomes) {
        let name = name(host);
        for loss in losses.iter_mut().filter(|l| l.host.as_ref() == Some(&name)) {
            loss.place = outcome.problems.iter().find(|p| p.id == loss.id).and_then(|p| p.first.clone());
        }
    }
    if args.answering.json {
        let view = ImportView {
            output: args.output.display().to_string(),
            hosts: hosts.iter().zip(outcomes).map(|(h, o)| o.view(name(h), h)).collect(),
            traces_left_out: user_space,
        };
        output::answer(json::document(SCHEMA, &losses, &view)?.as_bytes())?;
    } else {
        tell_all(args, hosts, outcomes);
    }
    Ok(output::exit_code(&args.answering, losses::touch_any(&losses)))
}

/// Finds all files of marks, or all traces: their clocks have nothing in common.
fn sources(args: &ImportArgs) -> Result<(Vec<PathBuf>, Vec<Found>)> {
    let mut found = Vec::new();
    for source in &args.sources {
        found.extend(sources::find(source, None)?);
    }
    for named in &args.host {
        found.extend(sources::find(&named.source, Some(&named.name))?);
    }
    let (marks, traces): (Vec<Found>, Vec<Found>) =
        found.into_iter().partition(|f| f.format.about().content == Content::Marks);
    match (marks.first(), traces.first()) {
        (Some(m), Some(t)) => bail!(
            "{} and {}: marks and traces of a kernel are imported apart; the second time with --append",
            m.path.display(),
            t.path.display()
        ),
        (Some(m), None) if m.host.is_some() => {
            bail!("{}: each line of marks names its host; give the file without --host", m.path.display())
        }
        _ => Ok((marks.into_iter().map(|f| f.path).collect(), traces)),
    }
}

/// Puts traces of one host together; with them, how many traces of programs were left out.
fn hosts(args: &ImportArgs, found: &[Found]) -> Result<(Vec<Host>, u64)> {
    let mut hosts: Vec<Host> = Vec::new();
    let mut user_space = 0u64;
    for f in found {
        let Some(trace) = reading::look(f)? else {
            user_space += 1;
            continue;
        };
        let info = host_info(f.host.as_deref(), &trace);
        let host = match hosts.iter().position(|h| h.info.boot_id == info.boot_id) {
            Some(i) => &mut hosts[i],
            None => {
                hosts.push(Host { info: info.clone(), traces: Vec::new(), bytes: 0 });
                let last = hosts.len() - 1;
                &mut hosts[last]
            }
        };
        if let Some(name) = f.host.as_ref().filter(|n| **n != host.info.hostname) {
            bail!(
                "{}: named {name}, but it has the same boot id as {}: they are one host with one clock; give them one name",
                f.path.display(),
                host.info.hostname
            );
        }
        host.bytes += trace.bytes;
        match host.traces.iter_mut().find(|parts| parts[0].id == trace.id) {
            Some(parts) => parts.push(trace),
            None => host.traces.push(vec![trace]),
        }
    }
    for named in &args.host {
        let count = hosts.iter().filter(|h| h.info.hostname == named.name).count();
        if count > 1 {
            bail!(
                "--host {}={}: there are traces of {count} hosts in it; name the folder of each",
                named.name,
                named.source.display()
            );
        }
    }
    if user_space > 0 {
        tell!("left out: {user_space} traces of programs (user space), which say nothing of waits");
    }
    if hosts.is_empty() {
        bail!(
            "nothing to import: no trace of a kernel among the sources; give the session's folder with `kernel` in it"
        );
    }
    Ok((hosts, user_space))
}

/// What is known of a trace's host. A trace that does not say of which boot it is gets an id by its place, so that two
/// sources are two hosts.
fn host_info(name: Option<&str>, trace: &Trace) -> HostInfo {
    let facts = &trace.facts;
    let path = std::fs::canonicalize(&trace.path).unwrap_or_else(|_| trace.path.clone());
    let hostname = match name {
        Some(name) => name.to_owned(),
        None if !facts.hostname.is_empty() => facts.hostname.clone(),
        None => name_of(&path),
    };
    HostInfo {
        hostname,
        boot_id: if facts.boot_id.is_empty() { made_id(&path) } else { facts.boot_id.clone() },
        kernel_release: facts.kernel_release.clone(),
        arch: facts.arch.clone(),
        cpus: facts.cpus,
        selection: format!("imported from {} ({})", trace.path.display(), trace.format.about().name),
        agent_version: env!("CARGO_PKG_VERSION").into(),
        clock: facts.clock.clone(),
        ..HostInfo::default()
    }
}

/// A host's name where nothing says it: that of the file, or of its folder where the file is called as they all are.
pub(crate) fn name_of(path: &Path) -> String {
    let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    let parent = || path.parent().and_then(Path::file_name).map(|s| s.to_string_lossy().into_owned());
    match stem.as_str() {
        "" | "perf" | "trace" | "kernel" => parent().unwrap_or(stem),
        _ => stem,
    }
}

/// An id made from a place, in the form of a boot id.
pub(crate) fn made_id(path: &Path) -> String {
    let hash = |mut hash: FnvHasher| {
        hash.write(path.as_os_str().as_encoded_bytes());
        hash.finish()
    };
    let (a, b) = (hash(FnvHasher::default()), hash(FnvHasher::with_key(0x9e37_79b9_7f4a_7c15)));
    let (b_high, b_low) = (b >> 48, b & 0xffff_ffff_ffff);
    format!("{:08x}-{:04x}-{:04x}-{b_high:04x}-{b_low:012x}", a >> 32, a >> 16 & 0xffff, a & 0xffff)
}

/// How the first host is written into the folder, which is made by whom it is for.
fn claim(args: &ImportArgs) -> Result<Overwrite> {
    let overwrite = match (args.append, args.force) {
        (true, _) => Overwrite::Append,
        (_, true) => Overwrite::Force,
        _ => Overwrite::Refuse,
    };
    owner::claim(&args.output, overwrite).with_context(|| format!("{:?}", args.output))
}

/// Makes the folder and each host's place in it.
fn writers(args: &ImportArgs, hosts: &[Host]) -> Result<Vec<FolderWriter>> {
    let mut writers = Vec::new();
    let mut overwrite = claim(args)?;
    for host in hosts {
        let options = Options { overwrite, ..Options::default() };
        overwrite = Overwrite::Append;
        writers.push(FolderWriter::create(&args.output, host.info.clone(), options)?);
    }
    Ok(writers)
}

/// Takes away a folder that was made for nothing.
fn discard(args: &ImportArgs) {
    if !args.append {
        let _ = std::fs::remove_dir_all(&args.output);
    }
}

/// Reads one host's traces, one after the other.
fn import_host(args: &ImportArgs, host: &Host, writer: FolderWriter, done: &AtomicU64) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut writer = Some(writer);
    for parts in &host.traces {
        let writer = match writer.take() {
            Some(first) => first,
            // another trace of the same boot: a recording of its own, so that no wait bridges the gap
            None => {
                let options = Options { overwrite: Overwrite::Append, ..Options::default() };
                let info = host_info(Some(&host.info.hostname), &parts[0]);
                FolderWriter::create(&args.output, info, options)?
            }
        };
        let mut sink = FolderSink::new(writer, &parts[0].facts);
        let read = reading::read(parts, &mut sink, done, FolderSink::failed)?;
        let written = sink.finish()?;
        outcome.add(&read, written);
    }
    Ok(outcome)
}

impl Outcome {
    fn add(&mut self, read: &Counts, written: folder::Written) {
        self.events += read.total();
        for (name, count) in &read.events {
            *self.names.entry(name.clone()).or_insert(0) += count;
        }
        self.rows += written.rows;
        let (all, one) = (&mut self.imported, &written.imported);
        all.events += one.events;
        all.waits += one.waits;
        all.open_waits += one.open_waits;
        all.packets += one.packets;
        all.lost = all.lost.saturating_add(one.lost);
        if one.events > 0 {
            let (first, last) = self.span.unwrap_or((one.first.0, one.last.0));
            self.span = Some((first.min(one.first.0), last.max(one.last.0)));
        }
        for mut p in written.problems {
            p.first = read.faults.iter().find(|f| f.defect == p.id).map(place);
            match self.problems.iter_mut().find(|q| q.id == p.id) {
                Some(q) => q.count += p.count,
                None => self.problems.push(p),
            }
        }
    }
}

impl Outcome {
    /// As it is answered, of a host by its name in the folder.
    fn view(&self, name: String, host: &Host) -> HostView {
        let source = |t: &Trace| SourceView {
            path: t.path.display().to_string(),
            format: t.format.about().name,
            bytes: t.bytes,
        };
        HostView {
            host: name,
            boot_id: host.info.boot_id.clone(),
            sources: host.traces.iter().flatten().map(source).collect(),
            from_ns: self.span.map(|s| s.0),
            to_ns: self.span.map(|s| s.1),
            events: self.events,
            events_lost: self.imported.lost,
            rows: self.rows,
            waits: self.imported.waits,
            open_waits: self.imported.open_waits,
            packets: self.imported.packets,
            names: self.names.iter().map(|(name, count)| NameView { name: name.clone(), count: *count }).collect(),
        }
    }
}

/// Where a fault is, and what was met there.
fn place(f: &Fault) -> String {
    let file = if f.file.is_empty() { String::new() } else { format!("{} ", f.file) };
    format!("{file}at byte {}: {}", f.offset, f.what)
}

fn tell_outcome(name: &str, o: &Outcome) {
    let lost = match o.imported.lost {
        0 => String::new(),
        n => format!("; the tracer LOST {} events", units::count(n)),
    };
    tell!(
        "{name}: {} events read, {} rows: {} waits ({} open), {} packets{lost}",
        units::count(o.events),
        units::count(o.rows),
        units::count(o.imported.waits),
        units::count(o.imported.open_waits),
        units::count(o.imported.packets)
    );
    let problems = o.problems.iter().filter(|p| p.id != defect::TRACE_LOST);
    let mut told: BTreeMap<_, Vec<&Problem>> = BTreeMap::new();
    for p in problems {
        let severity = defects::find(p.id).map_or(defects::Severity::Info, |d| d.severity);
        told.entry(std::cmp::Reverse(severity)).or_default().push(p);
    }
    for p in told.values().flatten().take(PLACES_MAX) {
        let Some(d) = defects::find(p.id) else { continue };
        let place = p.first.as_ref().map_or(String::new(), |f| format!(", first {f}"));
        tell!("  {}: {} × {}{place}. {} {}", d.severity.name(), d.id, units::count(p.count), d.meaning, d.remedy);
    }
    let more = o.problems.len().saturating_sub(PLACES_MAX);
    if more > 0 {
        tell!("  and {more} other kinds: wakepath info tells them all");
    }
}

/// What to ask next.
fn tell_next(args: &ImportArgs, hosts: &[Host], outcomes: &[Outcome]) {
    let dir = args.output.display();
    tell!(
        "imported {} into {dir}",
        if hosts.len() == 1 { "one host".into() } else { format!("{} hosts", hosts.len()) }
    );
    if hosts.len() > 1 && outcomes.iter().filter(|o| o.imported.packets > 0).count() > 1 {
        tell!("next: wakepath sync {dir}                 bring the hosts' clocks together by their packets");
    }
    if outcomes.iter().any(|o| o.imported.waits > 0) {
        tell!("next: wakepath waits {dir} --task NAME    what a task waited for");
    } else {
        tell!("next: wakepath info {dir}                 there are no waits, because the trace has no sched_switch");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_where_people_put_them() {
        for (path, name) in [
            ("/traces/web/perf.data", "web"),
            ("/traces/db/trace.dat", "db"),
            ("/traces/web.dat", "web"),
            ("/traces/tr-a/kernel", "tr-a"),
            ("/traces/tr-a", "tr-a"),
        ] {
            assert_eq!(name_of(Path::new(path)), name, "{path}");
        }
    }

    #[test]
    fn made_ids_have_the_form_of_boot_ids_and_differ() {
        let (a, b) = (made_id(Path::new("a")), made_id(Path::new("b")));
        assert_ne!(a, b);
        assert_eq!(a.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
    }
}
