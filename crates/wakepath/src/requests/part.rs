//! `wakepath requests --each`, `--map`, `--over-time` and `--common`: a selection of requests, one by one, by service, over time, or
//! against the others.

use super::{is_read, spans, whole};
use crate::cli::{PartOfRequests, RequestsArgs};
use crate::output::{self, Answers};
use crate::{folders, progress, suggest};
use anyhow::{Result, bail};
use wakepath_analysis::common::common;
use wakepath_analysis::each::each;
use wakepath_analysis::names::Names;
use wakepath_analysis::over_time::over_time;
use wakepath_analysis::selection::{Selection, is_called};
use wakepath_analysis::service_map::service_map;
use wakepath_graph::Index;
use wakepath_model::defects::Answer;
use wakepath_model::folder::Folder;
use wakepath_model::ids::CommonNs;
use wakepath_present::common::CommonView;
use wakepath_present::each::EachView;
use wakepath_present::losses::Loss;
use wakepath_present::over_time::OverTimeView;
use wakepath_present::service_map::ServiceMapView;
use wakepath_present::text::Style;
use wakepath_present::{json, losses};

/// Schema of the JSON answer of `--each`.
pub const EACH_SCHEMA: &str = "wakepath.each/1";
/// Schema of the JSON answer of `--map`.
pub const MAP_SCHEMA: &str = "wakepath.service_map/1";

/// Schema of the JSON answer of `--over-time`.
pub const OVER_TIME_SCHEMA: &str = "wakepath.over_time/1";
/// Schema of the JSON answer of `--common`.
pub const COMMON_SCHEMA: &str = "wakepath.common/1";

/// What a form of the answer is made of.
struct Asked<'a> {
    args: &'a RequestsArgs,
    folder: &'a Folder,
    names: &'a Names<'a>,
    selection: Selection,
    /// The times in which something was recorded (ns since 1970).
    spans: Vec<(i64, i64)>,
}

/// What was found: the answer as text, how many requests are selected, and whether the answer may be affected by what is missing.
type Found = (String, u64, bool);

/// Prints a selection.
pub fn run(args: &RequestsArgs, out: &mut Answers) -> Result<i32> {
    let folder = &folders::open(&args.folders.folders)?;
    let names = &Names::read(folder);
    let spans = spans(folder);
    let selection = selection(&args.part, args.kind.as_deref(), whole(&spans))?;
    let asked = Asked { args, folder, names, selection, spans };
    let (text, found, touched) = if args.each {
        asked.each()?
    } else if args.over_time {
        asked.over_time()?
    } else if args.common {
        asked.common()?
    } else {
        asked.map()?
    };
    if found == 0 {
        exists(folder, &asked.selection)?;
    }
    out.give(text.as_bytes())?;
    Ok(output::exit_code(&args.answering, touched))
}

impl Asked<'_> {
    /// Where waits were recorded, their index; then what is read is followed.
    fn index(&self) -> Result<Option<Index>> {
        let dirs = &self.args.folders.folders;
        let index = match self.selection.asks_for_causes() {
            true => Some(folders::index(self.folder, dirs)?),
            false => folders::index_if_any(self.folder, dirs)?,
        };
        self.follow();
        Ok(index)
    }

    fn follow(&self) {
        progress::reads(self.folder, wakepath_causality::bytes_to_read(self.folder));
    }

    /// The same where the selection asks for causes.
    fn index_for(&self) -> Result<Option<Index>> {
        let index = folders::index_for(self.folder, &self.args.folders.folders, &self.selection)?;
        self.follow();
        Ok(index)
    }

    fn is_read(&self, index: Option<&Index>) -> Result<()> {
        is_read(index, &self.args.folders.folders)
    }

    /// The answer as `document` or `render` gives it, and what was lost.
    fn text(
        &self,
        document: impl FnOnce(&[Loss]) -> Result<String>,
        render: impl FnOnce(&[Loss], Style) -> String,
    ) -> Result<(String, Vec<Loss>)> {
        let losses = losses::collect(self.folder);
        let text = match self.args.answering.json {
            true => document(&losses)?,
            false => render(&losses, Style::for_stdout()),
        };
        Ok((text, losses))
    }

    fn each(&self) -> Result<Found> {
        let index = self.index()?;
        let each = each(self.folder, self.names, index.as_ref(), &self.selection, self.args.limit);
        self.is_read(index.as_ref())?;
        let view = EachView::new(&each, whole(&self.spans));
        let (text, losses) =
            self.text(|l| Ok(json::document(EACH_SCHEMA, l, &view)?), |l, style| view.render(l, style))?;
        let is_whole = each.requests.iter().all(|r| r.complete);
        Ok((text, each.found, !is_whole || losses::touch(&losses, &[Answer::Requests, Answer::CriticalPath])))
    }

    fn map(&self) -> Result<Found> {
        let within = self.spans.iter().map(|s| within(*s, &self.selection));
        let span_ns = within.map(|(from, to)| to.abs_diff(from)).sum();
        let index = self.index_for()?;
        let map = service_map(self.folder, self.names, index.as_ref(), &self.selection);
        self.is_read(index.as_ref())?;
        let view = ServiceMapView::new(&map, span_ns);
        let (text, losses) =
            self.text(|l| Ok(json::document(MAP_SCHEMA, l, &view)?), |l, style| view.render(l, style))?;
        Ok((text, map.requests, map.incomplete > 0 || losses::touch(&losses, &[Answer::Requests])))
    }

    fn over_time(&self) -> Result<Found> {
        let span = whole(&self.spans);
        let time = within(span, &self.selection);
        let index = self.index_for()?;
        let columns = self.args.columns as usize;
        let over = over_time(self.folder, self.names, index.as_ref(), &self.selection, time, columns);
        self.is_read(index.as_ref())?;
        let view = OverTimeView::new(&over, &self.spans, time);
        let (text, losses) =
            self.text(|l| Ok(json::document(OVER_TIME_SCHEMA, l, &view)?), |l, style| view.render(l, style))?;
        Ok((text, over.requests(), losses::touch(&losses, &[Answer::Requests])))
    }

    fn common(&self) -> Result<Found> {
        let index = self.index()?;
        let common = common(self.folder, self.names, index.as_ref(), &self.selection);
        self.is_read(index.as_ref())?;
        let view = CommonView::new(&common, self.args.limit);
        let (text, losses) =
            self.text(|l| Ok(json::document(COMMON_SCHEMA, l, &view)?), |l, style| view.render(l, style))?;
        Ok((text, common.selected, losses::touch(&losses, &[Answer::Requests, Answer::CriticalPath])))
    }
}

/// What of a span (ns since 1970) lies in the time that is asked about; nothing is as long as nothing.
pub fn within((from, to): (i64, i64), selection: &Selection) -> (i64, i64) {
    let from = selection.from.map_or(from, |f| f.0.max(from));
    (from, selection.to.map_or(to, |t| t.0.min(to)).max(from))
}

/// For a selection that has nothing in it: refuses a kind or a service that a folder does not have at all, and says what it has.
pub fn exists(folder: &Folder, selection: &Selection) -> Result<()> {
    if let Some(kind) = selection.kind.as_ref().filter(|k| !super::has_kind(folder, k)) {
        bail!("no request of kind {kind:?}: {}", suggest::kind(folder, kind));
    }
    let Some(service) = &selection.service else { return Ok(()) };
    let names = Names::read(folder);
    // by the selection itself: a map tells only so many services apart
    let of = |service: Option<&String>, calls: Option<&String>| {
        let selection = Selection { service: service.cloned(), calls: calls.cloned(), ..Selection::default() };
        service_map(folder, &names, None, &selection)
    };
    let passing = of(Some(service), None);
    if passing.requests == 0 {
        let all = of(None, None);
        let near = suggest::service(service, all.services.keys().map(String::as_str));
        bail!("no request is known to pass through {service:?}: {near}");
    }
    if let Some(called) = &selection.calls
        && of(Some(service), Some(called)).requests == 0
    {
        let by_it = passing.edges.keys().filter(|(caller, _)| is_called(caller, service));
        let near = suggest::service(called, by_it.map(|(_, name)| name.as_str()));
        bail!("{service:?} is not known to call {called:?}: {near}");
    }
    Ok(())
}

/// What is asked about; `span`: when the recording began and ended (ns since 1970).
pub fn selection(part: &PartOfRequests, kind: Option<&str>, span: (i64, i64)) -> Result<Selection> {
    let selection = Selection {
        kind: kind.map(str::to_owned),
        from: part.from.map(|m| CommonNs(m.common_ns(span))),
        to: part.to.map(|m| CommonNs(m.common_ns(span))),
        at_least_ns: part.such.longer_than.map(|t| t.0),
        shorter_than_ns: part.such.shorter_than.map(|t| t.0),
        service: part.such.service.clone(),
        calls: part.such.calls.clone(),
        with: part.such.with.iter().map(|w| (w.0, w.1.clone())).collect(),
    };
    if let (Some(from), Some(to)) = (selection.from, selection.to)
        && from >= to
    {
        bail!("--from is not before --to: there is nothing between them");
    }
    if let (Some(least), Some(most)) = (selection.at_least_ns, selection.shorter_than_ns)
        && least >= most
    {
        bail!("--longer-than is not less than --shorter-than: no request can match both");
    }
    Ok(selection)
}
