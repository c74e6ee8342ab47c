//! `wakepath requests`.

mod compared;
pub mod part;

use crate::cli::RequestsArgs;
use crate::output::Answers;
use crate::{folders, output, progress};
use anyhow::Result;
use std::path::PathBuf;
use wakepath_analysis::connections::{HeldReplies, connections};
use wakepath_analysis::ended::{Ended, Ends};
use wakepath_analysis::listeners::{Filled, Starved, filled, starved};
use wakepath_analysis::names::Names;
use wakepath_analysis::requests::Kinds;
use wakepath_analysis::selected::Selected;
use wakepath_analysis::selection::{Known, Placed, Selection};
use wakepath_analysis::throttled::{Throttled, throttled};
use wakepath_causality::path::Request;
use wakepath_causality::reduced;
use wakepath_graph::Index;
use wakepath_model::defects::Answer;
use wakepath_model::folder::Folder;
use wakepath_model::ids::TaskId;
use wakepath_model::rows::Table;
use wakepath_present::requests::RequestsView;
use wakepath_present::text::Style;
use wakepath_present::{json, losses};

/// Schema of the JSON answer.
pub const SCHEMA: &str = "wakepath.requests/1";

/// Prints the kinds of request of the folders.
pub fn run(args: &RequestsArgs, out: &mut Answers) -> Result<i32> {
    if !args.against.is_empty() {
        return compared::run(args, out);
    }
    if args.each || args.map || args.over_time || args.common {
        return part::run(args, out);
    }
    let folder = folders::open_reduced(&args.folders.folders)?;
    let selection = part::selection(&args.part, args.kind.as_deref(), whole(&spans(&folder)))?;
    let index = folders::index_for(&folder, &args.folders.folders, &selection)?;
    let view = view_of(&folder, index.as_ref(), &selection);
    is_read(index.as_ref(), &args.folders.folders)?;
    if view.requests == 0 && view.orphans.is_empty() {
        part::exists(&folder, &selection)?;
    }
    let losses = losses::collect(&folder);
    let text = if args.answering.json {
        json::document(SCHEMA, &losses, &view)?
    } else {
        view.render(args.limit, &losses, Style::for_stdout())
    };
    out.give(text.as_bytes())?;
    let touched = losses::touch(&losses, &[Answer::Requests]) || !view.is_complete();
    Ok(output::exit_code(&args.answering, touched))
}

/// The kinds of request of a folder, as they are shown.
pub fn view(folder: &Folder) -> RequestsView {
    view_of(folder, None, &Selection::default())
}

/// The same of selected requests. What has no request (connections that did not come about, full queues) is of the whole
/// folder, and left out where some are selected.
fn view_of(folder: &Folder, index: Option<&Index>, selection: &Selection) -> RequestsView {
    let names = Names::read(folder);
    let known = Known::new(folder, &names, index, selection.asks_for_causes());
    let line = folder.timeline();
    let is_all = *selection == Selection::default();
    let has = |r: &Request| is_all || Placed::or_orphan(r, &names, &line).is_some_and(|p| selection.has(r, &p, &known));
    let mut kinds = Kinds::default();
    let mut refused = std::collections::BTreeMap::new();
    progress::reads(folder, wakepath_causality::bytes_to_read(folder));
    let mut ends = if is_all { Ends::read(folder) } else { Ends::default() };
    let report = wakepath_causality::reconstruct(
        folder,
        |r| {
            if has(&r) {
                kinds.add(&r, &names);
                ends.add(&r);
            }
        },
        |host, task, place, error| {
            *refused
                .entry((names.program(host, task).to_owned(), names.asked_for(host, &place), error))
                .or_default() += 1;
        },
    );
    if is_all {
        kinds.refused = refused;
        let who = |f: &Filled| format!("{}:{}", names.program(f.host, f.task), f.port);
        // a listener is told of by whoever connects, and its holder need not be selected
        let selected = Selected::read(folder);
        let is_selected = |f: &Filled| f.task == TaskId::UNKNOWN || selected.has(f.host, names.tgid(f.host, f.task));
        kinds.full_queues = filled(folder).into_iter().filter(is_selected).map(|f| (who(&f), f)).collect();
        let who = |s: &Starved| format!("{}:{}", names.program(s.host, s.task), s.port);
        kinds.starved = starved(folder).into_iter().map(|s| (who(&s), s)).collect();
        let who = |t: &Throttled| names.task(t.host, t.task);
        let first = |e: &Ended| (names.task(e.host, e.task), line.common(e.host, e.at).0);
        kinds.ended = ends.told(&names).into_iter().map(|group| (first(&group[0]), group)).collect();
        kinds.throttled = throttled(folder, &names).into_iter().map(|t| (who(&t), t)).collect();
        let found = connections(folder);
        let who = |host, task, port: u16| format!("{}:{port}", names.program(host, task));
        kinds.held_replies = found.held_replies.into_iter().map(|h| (who(h.host, h.task, h.port), h)).collect();
        kinds.closed_unread = found.closed_unread.into_iter().map(|c| (who(c.host, c.task, c.port), c)).collect();
    }
    let recorded = spans(folder).into_iter().map(|s| part::within(s, selection));
    let recorded: Vec<(i64, i64)> = recorded.filter(|(from, to)| is_all || from < to).collect();
    kinds.add_missing(&report, &names);
    let mut view = RequestsView::new(&kinds, &report, &recorded);
    if is_all {
        view.messages = folder.hosts().iter().map(|h| reduced::row_count(h, Table::Message)).sum();
    }
    view
}

/// Refuses what an index could not be read for.
fn is_read(index: Option<&Index>, dirs: &[PathBuf]) -> Result<()> {
    index.map_or(Ok(()), |index| folders::whole(index, dirs))
}

/// The services whose replies TCP held back, with their names and ports.
pub fn held(folder: &Folder, names: &Names<'_>) -> Vec<(String, HeldReplies)> {
    let who = |h: &HeldReplies| format!("{}:{}", names.program(h.host, h.task), h.port);
    connections(folder).held_replies.into_iter().map(|h| (who(&h), h)).collect()
}

/// When the first recording began and the last ended (ns since 1970).
pub fn whole(spans: &[(i64, i64)]) -> (i64, i64) {
    (spans.first().map_or(0, |s| s.0), spans.last().map_or(0, |s| s.1))
}

/// Whether any request is of a kind, named with or without its entry service.
pub fn has_kind(folder: &Folder, kind: &str) -> bool {
    view(folder).kinds.iter().any(|k| k.asked == kind || format!("{} {}", k.service, k.asked) == kind)
}

/// The times in which something was recorded, on any host: begin and end, on the line that all hosts share, without overlap.
pub fn spans(folder: &Folder) -> Vec<(i64, i64)> {
    let line = folder.timeline();
    let mut spans: Vec<(i64, i64)> = folder
        .hosts()
        .iter()
        .flat_map(|h| {
            let at = |at| line.common(h.id(), at).0;
            reduced::recordings(h).into_iter().map(move |(a, b)| (at(a), at(b))).collect::<Vec<_>>()
        })
        .collect();
    spans.sort_unstable();
    let mut out: Vec<(i64, i64)> = Vec::new();
    for (from, to) in spans {
        match out.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => out.push((from, to)),
        }
    }
    out
}
