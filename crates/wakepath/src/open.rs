//! `wakepath open`.

use crate::cli::OpenArgs;
use crate::{folders, output};
use anyhow::Result;
use wakepath_analysis::names::Names;
use wakepath_analysis::open;
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
    let index = folders::index(&folder, &args.folders.folders)?;
    let names = Names::read(&folder);
    let unended = open::open(&folder, &index, &names);
    let view = OpenView::new(&unended, &names, folder.hosts().len());
    folders::whole(&index, &args.folders.folders)?;
    let losses = losses::collect(&folder);
    let text = if args.answering.json {
        json::document(SCHEMA, &losses, &view)?
    } else {
        let style = Style::for_stdout();
        format!("{}\n{}", view.render(&unended, args.limit, style), losses_or_none(&losses, style))
    };
    output::answer(text.as_bytes())?;
    let touched = losses::touch(&losses, &[Answer::Requests, Answer::Waits]);
    Ok(output::exit_code(&args.answering, touched))
}
