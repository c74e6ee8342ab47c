//! `wakepath requests`.

pub mod part;

use crate::cli::{RequestsArgs, usage_error};
use crate::output::Answers;
use crate::{folders, output};
use anyhow::Result;
use clap::error::ErrorKind;
use wakepath_analysis::listeners::{Filled, filled};
use wakepath_analysis::names::Names;
use wakepath_analysis::requests::Kinds;
use wakepath_model::defects::Answer;
use wakepath_model::folder::Folder;
use wakepath_present::requests::RequestsView;
use wakepath_present::text::Style;
use wakepath_present::{json, losses};

/// Schema of the JSON answer.
pub const SCHEMA: &str = "wakepath.requests/1";

/// Prints the kinds of request of the folders.
pub fn run(args: &RequestsArgs, out: &mut Answers) -> Result<i32> {
    if args.each || args.map {
        return part::run(args, out);
    }
    if !args.part.is_empty() {
        let said =
            "--from, --to, --longer-than and --shorter-than select requests for --each or --map: give one of these";
        usage_error("requests", ErrorKind::MissingRequiredArgument, said);
    }
    let folder = folders::open(&args.folders.folders)?;
    let view = view(&folder);
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
    let names = Names::read(folder);
    let mut kinds = Kinds::default();
    let mut refused = std::collections::BTreeMap::new();
    let report = wakepath_causality::reconstruct(
        folder,
        |r| kinds.add(&r, &names),
        |host, task, place, error| {
            *refused
                .entry((names.program(host, task).to_owned(), names.asked_for(host, &place), error))
                .or_default() += 1;
        },
    );
    kinds.refused = refused;
    let who = |f: &Filled| format!("{}:{}", names.program(f.host, f.task), f.port);
    kinds.full_queues = filled(folder).into_iter().map(|f| (who(&f), f)).collect();
    RequestsView::new(&kinds, &report, &spans(folder))
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
        .flat_map(|h| h.recordings().into_iter().map(|(_, a, b)| (line.common(h.id(), a).0, line.common(h.id(), b).0)))
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
