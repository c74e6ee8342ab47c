//! Files of marks into a folder: annotations of state machines, as text.

use super::{BATCH_BYTES, PLACES_MAX, Problem, made_id};
use crate::cli::ImportArgs;
use crate::output::{self, tell};
use anyhow::{Context as _, Result, bail};
use indicatif::ProgressBar;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use wakepath_decode::readers::marks::{Mark, MarksReader};
use wakepath_forecast::derive::marks;
use wakepath_forecast::derived::Warning;
use wakepath_model::defects;
use wakepath_model::folder::{Durability, Folder, FolderError, FolderWriter, HostInfo, Options, Overwrite};
use wakepath_model::ids::MonoNs;
use wakepath_model::rows::AnchorRow;
use wakepath_present::import::{HostView, ImportView, NameView, SCHEMA, SourceView};
use wakepath_present::{json, losses, parquet, text, units};

/// Bytes read at once.
const PIECE_BYTES: usize = 1 << 20;
/// Hosts of one import, at most: each has files open.
const HOSTS_MAX: usize = 256;

/// What was imported of a host.
struct Host {
    info: HostInfo,
    sources: Vec<SourceView>,
    span: Option<(u64, u64)>,
    names: BTreeMap<&'static str, u64>,
    rows: u64,
    /// The recording being written: one for each file.
    writer: Option<FolderWriter>,
}

/// What is made of all files.
struct Import<'a> {
    args: &'a ImportArgs,
    hosts: Vec<Host>,
    /// The host of the line before.
    last: usize,
    seq: u64,
    failure: Option<anyhow::Error>,
    /// Lines that could not be read, with the first's place.
    problems: Vec<Problem>,
}

/// Reads the files and writes the folder.
pub fn run(args: &ImportArgs, files: &[PathBuf]) -> Result<i32> {
    let size = |f: &PathBuf| std::fs::metadata(f).map_or(0, |m| m.len());
    let bar = crate::progress::of_bytes("importing", Some(files.iter().map(size).sum()))?;
    let mut import = Import { args, hosts: Vec::new(), last: 0, seq: 0, failure: None, problems: Vec::new() };
    for file in files {
        import.file(file, &files[0], &bar)?;
    }
    bar.finish_and_clear();
    if import.hosts.is_empty() {
        let first = import.problems.iter().find_map(|p| p.first.as_deref());
        bail!(
            "nothing to import: no mark could be read{}; docs/formats/marks.md says how they are written",
            first.map_or(String::new(), |p| format!(" ({p})"))
        );
    }
    import.answer()
}

impl Import<'_> {
    fn file(&mut self, path: &Path, first: &Path, bar: &ProgressBar) -> Result<()> {
        let mut file = File::open(path).with_context(|| format!("{}: cannot open it", path.display()))?;
        let (mut reader, mut piece) = (MarksReader::default(), vec![0; PIECE_BYTES]);
        let mut bytes = 0u64;
        let mut met: Vec<usize> = Vec::new();
        loop {
            let count = match file.read(&mut piece) {
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                other => other.with_context(|| format!("{}: cannot read it", path.display()))?,
            };
            if count == 0 || reader.is_hopeless() {
                break;
            }
            bytes += count as u64;
            bar.inc(count as u64);
            reader.feed(&piece[..count], |mark| {
                let host = self.host(mark.host, path, first);
                if let Some(host) = host {
                    if !met.contains(&host) {
                        met.push(host);
                    }
                    self.seq += 1;
                    self.hosts[host].push(mark, self.seq);
                }
            });
            if let Some(failure) = self.failure.take() {
                return Err(failure);
            }
            for host in &met {
                self.hosts[*host].flush(reader.epoch_ns())?;
            }
        }
        reader.finish();
        for (id, count) in reader.bad_counts() {
            let first = reader.bad().iter().find(|b| b.defect == *id);
            let first = first.map(|b| format!("{}:{}: {}", path.display(), b.line, b.what));
            match self.problems.iter_mut().find(|p| p.id == *id) {
                Some(p) => p.count += count,
                None => self.problems.push(Problem { id, count: *count, first }),
            }
            // whose lines they were is not known: the first host of the file tells of them
            if let Some(writer) = met.first().and_then(|h| self.hosts[*h].writer.as_mut()) {
                writer.push_loss(id, *count, MonoNs(0), MonoNs(u64::MAX));
            }
        }
        for host in met {
            let host = &mut self.hosts[host];
            host.sources.push(SourceView { path: path.display().to_string(), format: "marks", bytes });
            host.close(reader.epoch_ns())?;
        }
        Ok(())
    }

    /// The host that a line names; `None` after a failure.
    fn host(&mut self, name: &str, path: &Path, first: &Path) -> Option<usize> {
        if self.failure.is_some() {
            return None;
        }
        let is_it = |h: &Host| h.info.hostname == name;
        if !self.hosts.get(self.last).is_some_and(is_it) {
            self.last = match self.hosts.iter().position(is_it) {
                Some(known) => known,
                None if self.hosts.len() >= HOSTS_MAX => {
                    let what = anyhow::anyhow!(
                        "{}: more than {HOSTS_MAX} hosts; is the host the second word?",
                        path.display()
                    );
                    self.failure = Some(what);
                    return None;
                }
                None => {
                    self.hosts.push(Host::new(name, first));
                    self.hosts.len() - 1
                }
            };
        }
        let is_first = self.hosts.iter().all(|h| h.writer.is_none() && h.sources.is_empty());
        let host = &mut self.hosts[self.last];
        if host.writer.is_none() {
            let overwrite = if is_first { super::claim(self.args) } else { Ok(Overwrite::Append) };
            let made = overwrite.and_then(|overwrite| {
                let options = Options { overwrite, ..Options::default() };
                Ok(FolderWriter::create(&self.args.output, host.info.clone(), options)?)
            });
            match made {
                Ok(writer) => host.writer = Some(writer),
                Err(e) => {
                    self.failure = Some(e);
                    return None;
                }
            }
        }
        Some(self.last)
    }

    fn answer(&self) -> Result<i32> {
        let folder = Folder::open(&[&self.args.output])?;
        let contradictions = marks::check(&folder)?;
        let mut losses = losses::collect(&folder);
        for loss in &mut losses {
            loss.place = self.problems.iter().find(|p| p.id == loss.id).and_then(|p| p.first.clone());
        }
        losses.extend(losses::contradictions(&contradictions));
        if self.args.answering.json {
            let names = parquet::host_names(&folder);
            let name = |h: &Host| {
                let known = folder.hosts().iter().zip(&names).find(|(f, _)| f.info().boot_id == h.info.boot_id);
                known.map_or(&h.info.hostname, |(_, name)| name).clone()
            };
            let view = ImportView {
                output: self.args.output.display().to_string(),
                hosts: self.hosts.iter().map(|h| h.view(name(h))).collect(),
                traces_left_out: 0,
            };
            output::answer(json::document(SCHEMA, &losses, &view)?.as_bytes())?;
        } else {
            self.tell(&contradictions);
        }
        Ok(output::exit_code(&self.args.answering, losses::touch_any(&losses)))
    }

    fn tell(&self, contradictions: &[Warning]) {
        for host in &self.hosts {
            let marks: u64 = host.names.values().sum();
            let of = |kind: &str| units::count(host.names.get(kind).copied().unwrap_or(0));
            tell!(
                "{}: {} marks: {} states, {} enqueues, {} dequeues, {} waits",
                text::sanitise(&host.info.hostname),
                units::count(marks),
                of("state"),
                of("enqueue"),
                of("dequeue"),
                units::count(["wait_empty", "wait_full"].iter().filter_map(|k| host.names.get(k)).sum::<u64>())
            );
        }
        let read = self.problems.iter().map(|p| (p.id, p.count, p.first.clone().unwrap_or_default()));
        let met = contradictions.iter().map(|w| (w.defect, w.count, w.place()));
        let all: Vec<(&str, u64, String)> = read.chain(met).collect();
        for (id, count, place) in all.iter().take(2 * PLACES_MAX) {
            let Some(d) = defects::find(id) else { continue };
            let place = if place.is_empty() { String::new() } else { format!(", first {}", text::sanitise(place)) };
            tell!("  {}: {id} × {}{place}. {} {}", d.severity.name(), units::count(*count), d.meaning, d.remedy);
        }
        let dir = self.args.output.display();
        tell!(
            "imported {} into {dir}",
            if self.hosts.len() == 1 { "one host".into() } else { format!("{} hosts", self.hosts.len()) }
        );
        tell!("next: wakepath bottleneck {dir}           what limits it, and by which queue");
    }
}

impl Host {
    fn new(name: &str, first: &Path) -> Host {
        let path = std::fs::canonicalize(first).unwrap_or_else(|_| first.to_owned());
        let info = HostInfo {
            hostname: name.to_owned(),
            boot_id: made_id(&path.join(name)),
            selection: format!("imported from {} (marks)", first.display()),
            agent_version: env!("CARGO_PKG_VERSION").into(),
            clock: "marks".into(),
            ..HostInfo::default()
        };
        Host { info, sources: Vec::new(), span: None, names: BTreeMap::new(), rows: 0, writer: None }
    }

    fn push(&mut self, mark: &Mark<'_>, seq: u64) {
        let Some(writer) = &mut self.writer else { return };
        let row = mark.row(seq, |text| writer.intern(text));
        writer.push(&row);
        let (from, to) = self.span.unwrap_or((mark.at.0, mark.at.0));
        self.span = Some((from.min(mark.at.0), to.max(mark.at.0)));
        *self.names.entry(mark.kind.name()).or_insert(0) += 1;
    }

    fn flush(&mut self, epoch_ns: Option<i64>) -> Result<(), FolderError> {
        let (Some(writer), Some((_, to))) = (&mut self.writer, self.span) else { return Ok(()) };
        if writer.needs_state() {
            anchor(writer, to, epoch_ns);
        }
        if writer.batch_bytes() >= BATCH_BYTES { writer.flush(Durability::Write) } else { Ok(()) }
    }

    fn close(&mut self, epoch_ns: Option<i64>) -> Result<(), FolderError> {
        let (Some(mut writer), Some((_, to))) = (self.writer.take(), self.span) else { return Ok(()) };
        anchor(&mut writer, to, epoch_ns);
        self.rows += writer.close()?.rows;
        Ok(())
    }

    fn view(&self, host: String) -> HostView {
        HostView {
            host,
            boot_id: self.info.boot_id.clone(),
            sources: self.sources.clone(),
            from_ns: self.span.map(|s| s.0),
            to_ns: self.span.map(|s| s.1),
            events: self.names.values().sum(),
            events_lost: 0,
            rows: self.rows,
            waits: 0,
            open_waits: 0,
            packets: 0,
            names: self.names.iter().map(|(name, count)| NameView { name: (*name).into(), count: *count }).collect(),
        }
    }
}

/// Marks of all hosts of an import are of one clock; where nothing says what it counts from, it is 1970.
fn anchor(writer: &mut FolderWriter, at: u64, epoch_ns: Option<i64>) {
    let real = i128::from(at) + i128::from(epoch_ns.unwrap_or(0));
    if let Ok(real_ns) = u64::try_from(real) {
        writer.push(&AnchorRow { at: MonoNs(at), real_ns, error_ns: 0, ..Default::default() });
    }
}
