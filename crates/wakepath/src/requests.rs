//! `wakepath requests`.

use crate::cli::RequestsArgs;
use crate::output;
use anyhow::Result;
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
pub fn run(args: &RequestsArgs) -> Result<i32> {
    let folder = Folder::open(&args.folders.folders)?;
    let names = Names::read(&folder);
    let mut kinds = Kinds::default();
    let mut refused = std::collections::BTreeMap::new();
    let report = wakepath_causality::reconstruct(
        &folder,
        |r| kinds.add(&r, &names),
        |host, task, place, error| {
            *refused
                .entry((names.process(host, task).to_owned(), names.asked_for(host, &place), error))
                .or_default() += 1;
        },
    );
    kinds.refused = refused;
    let losses = losses::collect(&folder);
    let view = RequestsView::new(&kinds, &report, span_ns(&folder));
    let text = if args.answering.json {
        json::document(SCHEMA, &losses, &view)?
    } else {
        view.render(args.limit, &losses, Style::for_stdout())
    };
    output::answer(text.as_bytes())?;
    let touched = losses::touch(&losses, &[Answer::Requests]) || !view.is_complete();
    Ok(output::exit_code(&args.answering, touched))
}

/// Length of the longest recording of the folder.
fn span_ns(folder: &Folder) -> u64 {
    folder.hosts().iter().filter_map(|h| h.span()).map(|(a, b)| b.0 - a.0).max().unwrap_or(0)
}
