//! `wakepath export`.

mod clickhouse;
mod packets;

use crate::cli::{ExportArgs, Form, usage_error};
use crate::output::{self, Closed, tell};
use crate::requests::{part, spans, whole};
use crate::{find, folders, progress};
use anyhow::{Context as _, Result, anyhow, bail};
use clap::error::ErrorKind as Usage;
use std::cell::Cell;
use std::io::{self, BufWriter, ErrorKind, IsTerminal as _, Write};
use std::path::PathBuf;
use std::rc::Rc;
use wakepath_analysis::flame::{Flame, flame};
use wakepath_analysis::names::Names;
use wakepath_analysis::selection::{Known, Placed, Selection};
use wakepath_analysis::why::Recording;
use wakepath_causality::Options;
use wakepath_causality::path::Request;
use wakepath_export::perfetto::tasks::{self, InFlight, Window};
use wakepath_export::push::Push;
use wakepath_export::trace::{Paths, Tells, Traces};
use wakepath_export::{folded, jaeger, otlp, perfetto, pprof, prometheus};
use wakepath_graph::Index;
use wakepath_model::defects::Answer;
use wakepath_model::folder::Folder;
use wakepath_model::ids::{HostId, TaskId};
use wakepath_present::losses;
use wakepath_present::units::counted;

/// Bytes that are written together.
const BUFFER: usize = 1 << 18;
/// What is wrong where a form of several files has no place.
const NEEDS_FOLDER: &str = "clickhouse is a folder of files: give -o DIR";

/// What was exported.
#[derive(Default)]
struct Exported {
    requests: u64,
    /// Of them, with a path known to be incomplete.
    incomplete: u64,
    /// What else there is to say, for people.
    parts: Vec<String>,
    /// Not all that should have been was delivered.
    is_short: bool,
    /// What to do with it, for people; said last.
    next: Option<String>,
}

/// What is exported, and what is known of it.
struct Source<'a> {
    args: &'a ExportArgs,
    dirs: &'a [PathBuf],
    folder: &'a Folder,
    names: &'a Names<'a>,
    index: Option<&'a Index>,
    selection: Selection,
    /// The only one, where one was asked for.
    only: Option<Request>,
    /// When the recording began and ended (ns since 1970).
    span: (i64, i64),
}

/// Exports requests.
pub fn run(args: &ExportArgs) -> Result<i32> {
    if let Err(wrong) = check(args) {
        usage_error("export", Usage::ArgumentConflict, wrong);
    }
    let is_binary = matches!(args.to, Form::Perfetto | Form::Pprof | Form::Pcapng) || args.protobuf;
    if is_binary && args.output.is_none() && io::stdout().is_terminal() {
        usage_error("export", Usage::ArgumentConflict, "this form is not for a terminal: give -o FILE");
    }
    let made = make(args, |source| match (&args.endpoint, &args.output) {
        (Some(url), _) => source.push(url),
        (None, Some(dir)) if args.to == Form::Clickhouse => source.write_tables(dir),
        (None, _) => to_file(args, |out| source.write(out)),
    })?;
    tell!("wakepath: exported {}", made.exported.told());
    if made.is_touched {
        tell!("wakepath: data loss may affect it: wakepath info {}", args.folders.folders[0].display());
    }
    if let Some(next) = &made.exported.next {
        tell!("wakepath: {next}");
    }
    let is_short = made.is_touched || made.exported.incomplete > 0 || made.exported.is_short;
    Ok(if args.strict && is_short { output::ANSWERED_WITH_LOSSES } else { output::ANSWERED })
}

/// Writes an export for somebody else in this process. Gives what was written, for people.
pub fn write(args: &ExportArgs, out: &mut dyn Write) -> Result<String> {
    check(args).map_err(|wrong| anyhow!(wrong))?;
    let made = make(args, |source| source.write(out))?;
    let losses = if made.is_touched { "; data loss may affect it" } else { "" };
    Ok(format!("{}{losses}", made.exported.told()))
}

/// What was exported, and whether what was lost touches it.
struct Made {
    exported: Exported,
    is_touched: bool,
}

fn make(args: &ExportArgs, write: impl FnOnce(&Source<'_>) -> Result<Exported>) -> Result<Made> {
    let dirs = &args.folders.folders;
    let folder = folders::open(dirs)?;
    let names = Names::read(&folder);
    let spans = spans(&folder);
    let span = whole(&spans);
    let kind = args.kind.as_deref();
    let selection = part::selection(&args.part(), kind, span)?;
    progress::reads(&folder, wakepath_causality::bytes_to_read(&folder));
    let only = args.request.as_ref().map(|id| find::request(&folder, &names, id, kind)).transpose()?;
    let index = match args.to {
        Form::Folded | Form::Pprof => Some(folders::index(&folder, dirs)?),
        Form::Prometheus | Form::Pcapng => folders::index_for(&folder, dirs, &selection)?,
        _ if selection.asks_for_causes() => Some(folders::index(&folder, dirs)?),
        _ => folders::index_if_any(&folder, dirs)?,
    };
    let source = Source { args, dirs, folder: &folder, names: &names, index: index.as_ref(), selection, only, span };
    if args.to == Form::Pcapng && args.capture.is_empty() {
        bail!("{}", source.without_packets());
    }
    progress::reads(&folder, wakepath_causality::bytes_to_read(&folder));
    let exported = write(&source)?;
    if let Some(index) = &index {
        folders::whole(index, dirs)?;
    }
    if exported.requests == 0 {
        part::exists(&folder, &source.selection)?;
    }
    let losses = losses::collect(&folder);
    Ok(Made { exported, is_touched: losses::touch(&losses, &[Answer::Requests, Answer::CriticalPath]) })
}

/// Refuses flags that belong to another form.
fn check(args: &ExportArgs) -> Result<(), &'static str> {
    if args.to != Form::Otlp && (args.endpoint.is_some() || args.protobuf) {
        return Err("--endpoint and --protobuf are for --to otlp");
    }
    if args.to != Form::Folded && args.difference {
        return Err("--difference is for --to folded");
    }
    if args.to != Form::Prometheus && args.no_exemplars {
        return Err("--no-exemplars is for --to prometheus");
    }
    if args.request.is_some() && matches!(args.to, Form::Folded | Form::Pprof | Form::Prometheus) {
        return Err("one request is no sum: --request is for otlp, jaeger, clickhouse, perfetto and pcapng");
    }
    if !args.which.is_all() && (args.to != Form::Perfetto || args.request.is_some()) {
        return Err("--task, --search and --host are for --to perfetto without --request");
    }
    if args.to == Form::Pcapng && args.request.is_none() {
        return Err("pcapng is of one request: give --request ID");
    }
    if args.to != Form::Pcapng && !args.capture.is_empty() {
        return Err("--capture is for --to pcapng");
    }
    if args.to == Form::Clickhouse && args.output.is_none() {
        return Err(NEEDS_FOLDER);
    }
    Ok(())
}

/// Gives where to write: the file that was asked for, else standard output.
fn to_file(args: &ExportArgs, write: impl FnOnce(&mut dyn Write) -> Result<Exported>) -> Result<Exported> {
    match &args.output {
        Some(path) => {
            let file = crate::owner::create(path).with_context(|| path.display().to_string())?;
            let mut out = BufWriter::with_capacity(BUFFER, file);
            let exported = write(&mut out)?;
            out.flush().with_context(|| format!("{}: cannot be written", path.display()))?;
            Ok(exported)
        }
        None => {
            let mut out = BufWriter::with_capacity(BUFFER, io::stdout().lock());
            let exported = write(&mut out).and_then(|e| Ok(out.flush().map(|()| e)?));
            exported.map_err(|e| match e.downcast_ref::<io::Error>().map(io::Error::kind) {
                Some(ErrorKind::BrokenPipe) => Closed.into(),
                _ => e,
            })
        }
    }
}

impl Exported {
    fn told(&self) -> String {
        let mut out = counted(self.requests, "request", "requests");
        for part in &self.parts {
            out += ", ";
            out += part;
        }
        if self.incomplete > 0 {
            out += &format!("; the paths of {} are incomplete, and say so", self.incomplete);
        }
        out
    }

    fn of_flame(flame: &Flame) -> Exported {
        let left_out = flame.left_out.incomplete + flame.left_out.unanswered;
        let mut parts = vec![counted(flame.stacks.len() as u64, "stack", "stacks")];
        if left_out > 0 {
            parts.push(format!("{left_out} left out (path incomplete, or not answered)"));
        }
        Exported { requests: flame.requests, parts, is_short: left_out > 0, ..Exported::default() }
    }
}

impl Source<'_> {
    fn recording(&self) -> Option<Recording<'_>> {
        Some(Recording { folder: self.folder, index: self.index?, names: self.names })
    }

    fn traces(&self) -> Traces<'_> {
        let tells = Tells { longest: self.args.waits, parts: self.args.to == Form::Clickhouse };
        Traces::new(self.names, self.folder.timeline(), self.recording().map(|r| Paths::new(r, tells)))
    }

    /// Gives the requests that are exported, one after the other; what is left over where a write failed is not read on.
    fn each(&self, exported: &mut Exported, take: &mut dyn FnMut(&Request, &Placed) -> io::Result<()>) -> Result<()> {
        let line = self.folder.timeline();
        let known = Known::new(self.folder, self.names, self.index, self.selection.asks_for_causes());
        let (mut so_far, stop) = (Ok(()), Rc::new(Cell::new(false)));
        let mut each = |r: &Request| {
            if so_far.is_err() {
                return;
            }
            let placed = Placed::or_orphan(r, self.names, &line);
            if let Some(placed) = placed.filter(|p| self.only.is_some() || self.selection.has(r, p, &known)) {
                exported.requests += 1;
                exported.incomplete += u64::from(!r.is_complete());
                so_far = take(r, &placed);
                stop.set(so_far.is_err());
            }
        };
        match &self.only {
            Some(r) => each(r),
            None => {
                let options = Options { stop: Some(Rc::clone(&stop)), ..Options::default() };
                wakepath_causality::reconstruct_with(self.folder, &options, |r| each(&r), |_, _, _, _| {});
            }
        }
        so_far.context("writing the export")
    }

    fn push(&self, url: &str) -> Result<Exported> {
        let (mut exported, mut push, traces) = (Exported::default(), Push::new(url)?, self.traces());
        self.each(&mut exported, &mut |r, _| {
            push.add(&traces.of(r));
            Ok(())
        })?;
        let (sent, why) = push.finish();
        if let (0, Some(why)) = (sent.spans, why) {
            return Err(why.into());
        }
        exported.parts.push(counted(sent.spans, "span taken by the collector", "spans taken by the collector"));
        if sent.rejected + sent.dropped > 0 {
            exported.is_short = true;
            exported.parts.push(format!("{} rejected by it, {} not delivered", sent.rejected, sent.dropped));
        }
        Ok(exported)
    }

    fn write(&self, out: &mut dyn Write) -> Result<Exported> {
        match self.args.to {
            Form::Otlp => self.write_otlp(out),
            Form::Jaeger => self.write_jaeger(out),
            Form::Perfetto => self.write_perfetto(out),
            Form::Prometheus => self.write_prometheus(out),
            Form::Folded | Form::Pprof => self.write_flame(out),
            Form::Pcapng => self.write_packets(out),
            Form::Clickhouse => bail!(NEEDS_FOLDER),
        }
    }

    fn write_otlp(&self, out: &mut dyn Write) -> Result<Exported> {
        let form = if self.args.protobuf { otlp::Form::Protobuf } else { otlp::Form::Json };
        let (mut exported, mut spans, traces) = (Exported::default(), 0, self.traces());
        self.each(&mut exported, &mut |r, _| {
            let trace = traces.of(r);
            spans += trace.spans.len() as u64;
            otlp::write(&trace, form, out)
        })?;
        exported.parts.push(counted(spans, "span", "spans"));
        Ok(exported)
    }

    fn write_jaeger(&self, out: &mut dyn Write) -> Result<Exported> {
        let (mut exported, mut spans, traces) = (Exported::default(), 0, self.traces());
        let mut to = jaeger::Writer::default();
        self.each(&mut exported, &mut |r, _| {
            let trace = traces.of(r);
            spans += trace.spans.len() as u64;
            to.write(&trace, out)
        })?;
        to.finish(out)?;
        exported.parts.push(counted(spans, "span", "spans"));
        Ok(exported)
    }

    fn write_perfetto(&self, out: &mut dyn Write) -> Result<Exported> {
        let window = Window::of(self.only.as_ref(), &self.selection, self.folder, self.span);
        let tasks = match (self.index, &self.only) {
            (Some(index), Some(r)) => tasks::of_request(self.folder, index, r),
            (Some(index), None) => self.tasks(index)?,
            (None, _) if !self.args.which.is_all() => bail!("{}: no waits were recorded", self.dirs[0].display()),
            (None, _) => Vec::new(),
        };
        let mut to = perfetto::Writer::new(self.names, window.from.0, tasks.iter().copied(), out)?;
        let (mut exported, traces) = (Exported::default(), self.traces());
        let mut in_flight = InFlight::new(&window);
        self.each(&mut exported, &mut |r, placed| {
            in_flight.add(placed);
            to.trace(&traces.of(r), out)
        })?;
        if self.only.is_none() {
            in_flight.write(&mut to, out)?;
        }
        if let Some(index) = self.index {
            tasks::write(index, &tasks, &window, &mut to, out)?;
        }
        exported.parts.push(counted(to.written.spans, "span", "spans"));
        exported.parts.push(counted(to.written.stays, "interval of tasks", "intervals of tasks"));
        exported.parts.push(counted(to.written.arrows, "arrow", "arrows"));
        Ok(exported)
    }

    /// The tasks that have a track: those that are asked for, of all of which waits were recorded.
    fn tasks(&self, index: &Index) -> Result<Vec<(HostId, TaskId)>> {
        let which = &self.args.which;
        // where all are asked for, there may be none
        let found = if which.is_all() {
            wakepath_analysis::timeline::tasks(index, self.names, &which.wanted())
        } else {
            crate::timeline::found(index, self.names, which)?
        };
        Ok(found.into_iter().map(|c| (c.host, c.task)).collect())
    }

    fn write_prometheus(&self, out: &mut dyn Write) -> Result<Exported> {
        let (mut exported, mut counts) = (Exported::default(), prometheus::Counted::default());
        self.each(&mut exported, &mut |r, placed| {
            if r.orphan.is_none() {
                counts.add(r, placed);
            }
            Ok(())
        })?;
        let form = if self.args.no_exemplars { prometheus::Form::Plain } else { prometheus::Form::OpenMetrics };
        out.write_all(counts.render(form).as_bytes())?;
        if counts.without_room > 0 {
            exported.parts.push(format!("{} of kinds that are one called (other)", counts.without_room));
        }
        Ok(exported)
    }

    fn write_flame(&self, out: &mut dyn Write) -> Result<Exported> {
        let recording = self.recording().with_context(|| format!("{}: no waits", self.dirs[0].display()))?;
        let (selected, others) = flame(&recording, &self.selection, self.args.difference);
        match self.args.to {
            Form::Pprof => pprof::write(&selected, self.span, out)?,
            _ if self.args.difference => folded::write_difference(&selected, &others, out)?,
            _ => folded::write(&selected, out)?,
        }
        Ok(Exported::of_flame(&selected))
    }
}
