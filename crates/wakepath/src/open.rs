//! `wakepath open`.

use crate::cli::OpenArgs;
use crate::output::Answers;
use crate::{folders, output};
use anyhow::Result;
use wakepath_analysis::names::Names;
use wakepath_analysis::open::{self, Unended};
use wakepath_graph::Index;
use wakepath_model::defects::Answer;
use wakepath_model::folder::Folder;
use wakepath_present::json;
use wakepath_present::losses::{self, losses_or_none};
use wakepath_present::open::OpenView;
use wakepath_present::text::Style;

/// What its answer is made of: losses that touch it are told.
const ANSWERS: &[Answer] = &[Answer::Requests, Answer::Waits];

/// Schema of the JSON answer.
pub const SCHEMA: &str = "wakepath.open/1";

/// What had not ended, and how it is shown.
pub fn view(folder: &Folder, index: &Index, names: &Names<'_>) -> (Unended, OpenView) {
    let unended = open::open(folder, index, names);
    let view = OpenView::new(&unended, names, folder.hosts().len());
    (unended, view)
}

/// Prints what had not ended.
pub fn run(args: &OpenArgs, out: &mut Answers) -> Result<i32> {
    let folder = folders::open(&args.folders.folders)?;
    let index = folders::index(&folder, &args.folders.folders)?;
    let names = Names::read(&folder);
    let (unended, view) = view(&folder, &index, &names);
    folders::whole(&index, &args.folders.folders)?;
    let losses = losses::collect(&folder);
    let text = if args.answering.json {
        json::document(SCHEMA, &losses, &view)?
    } else {
        let style = Style::for_stdout();
        format!("{}\n{}", view.render(&unended, args.limit, style), losses_or_none(&losses, ANSWERS, style))
    };
    out.give(text.as_bytes())?;
    let touched = losses::touch(&losses, ANSWERS);
    Ok(output::exit_code(&args.answering, touched))
}
