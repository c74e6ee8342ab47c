//! `wakepath open`.

use crate::cli::OpenArgs;
use crate::{folders, output};
use anyhow::{Result, bail};
use wakepath_analysis::names::Names;
use wakepath_analysis::open;
use wakepath_causality::graph::Index;
use wakepath_model::defects::Answer;
use wakepath_present::open::OpenView;
use wakepath_present::requests::losses_or_none;
use wakepath_present::text::Style;
use wakepath_present::{json, losses};

/// Schema of the JSON answer.
pub const SCHEMA: &str = "wakepath.open/1";

/// Prints what had not ended.
pub fn run(args: &OpenArgs) -> Result<i32> {
    let folder = folders::open(&args.folders.folders)?;
    let index = Index::open(&folder, &args.folders.folders)?;
    if index.wait_count() == 0 {
        bail!(
            "{}: no waits were recorded; record again without --no-waits, or import a trace that has sched_switch",
            args.folders.folders[0].display()
        );
    }
    let names = Names::read(&folder);
    let unended = open::open(&folder, &index, &names);
    let view = OpenView::new(&unended, &names, folder.hosts().len());
    let losses = losses::collect(&folder);
    let text = if args.answering.json {
        json::document(SCHEMA, &losses, &view)?
    } else {
        let style = Style::for_stdout();
        format!("{}\n{}", view.render(&unended, args.limit, style), losses_or_none(&losses, style))
    };
    output::answer(text.as_bytes())?;
    let touched = losses::touch(&losses, &[Answer::Requests, Answer::Waits]) || index.failed_reads() > 0;
    Ok(output::exit_code(&args.answering, touched))
}
