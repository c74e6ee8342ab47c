//! `wakepath requests --each` and `--map`: a selection of requests, one by one or by service.

use super::{spans, whole};
use crate::cli::{PartOfRequests, RequestsArgs};
use crate::output::{self, Answers};
use crate::{folders, progress, suggest};
use anyhow::{Result, bail};
use wakepath_analysis::each::each;
use wakepath_analysis::names::Names;
use wakepath_analysis::selection::{Selection, is_called};
use wakepath_analysis::service_map::service_map;
use wakepath_model::defects::Answer;
use wakepath_model::folder::Folder;
use wakepath_model::ids::CommonNs;
use wakepath_present::each::EachView;
use wakepath_present::service_map::ServiceMapView;
use wakepath_present::text::Style;
use wakepath_present::{json, losses};

/// Schema of the JSON answer of `--each`.
pub const EACH_SCHEMA: &str = "wakepath.each/1";
/// Schema of the JSON answer of `--map`.
pub const MAP_SCHEMA: &str = "wakepath.service_map/1";

/// Prints a selection.
pub fn run(args: &RequestsArgs, out: &mut Answers) -> Result<i32> {
    let dirs = &args.folders.folders;
    let folder = folders::open(dirs)?;
    let names = Names::read(&folder);
    let spans = spans(&folder);
    let span = whole(&spans);
    let selection = selection(&args.part, args.kind.as_deref(), span)?;
    let (text, found, touched) = if args.each {
        let index = folders::index_if_any(&folder, dirs)?;
        progress::reads(&folder, wakepath_causality::bytes_to_read(&folder));
        let each = each(&folder, &names, index.as_ref(), &selection, args.limit);
        if let Some(index) = &index {
            folders::whole(index, dirs)?;
        }
        let (view, losses) = (EachView::new(&each, span), losses::collect(&folder));
        let text = if args.answering.json {
            json::document(EACH_SCHEMA, &losses, &view)?
        } else {
            view.render(&losses, Style::for_stdout())
        };
        let is_whole = each.requests.iter().all(|r| r.complete);
        (text, each.found, !is_whole || losses::touch(&losses, &[Answer::Requests, Answer::CriticalPath]))
    } else {
        let within = spans.iter().map(|s| within(*s, &selection));
        let span_ns = within.map(|(from, to)| to.abs_diff(from)).sum();
        progress::reads(&folder, wakepath_causality::bytes_to_read(&folder));
        let map = service_map(&folder, &names, &selection);
        let (view, losses) = (ServiceMapView::new(&map, span_ns), losses::collect(&folder));
        let text = if args.answering.json {
            json::document(MAP_SCHEMA, &losses, &view)?
        } else {
            view.render(&losses, Style::for_stdout())
        };
        (text, map.requests, map.incomplete > 0 || losses::touch(&losses, &[Answer::Requests]))
    };
    if found == 0 {
        exists(&folder, &selection)?;
    }
    out.give(text.as_bytes())?;
    Ok(output::exit_code(&args.answering, touched))
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
        service_map(folder, &names, &selection)
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
