//! `wakepath waits --stacks`.

use super::{choose, interval};
use crate::cli::WaitsArgs;
use crate::output::Answers;
use crate::{folders, output};
use anyhow::{Context as _, Result, bail};
use wakepath_analysis::names::Names;
use wakepath_analysis::stacks::stacks;
use wakepath_model::defects::Answer;
use wakepath_model::folder::Folder;
use wakepath_model::rows::Table;
use wakepath_present::json;
use wakepath_present::losses::{self, losses_or_none};
use wakepath_present::stacks::StacksView;
use wakepath_present::text::Style;

/// What its answer is made of: losses that touch it are told.
const ANSWERS: &[Answer] = &[Answer::Waits];

/// Schema of the JSON answer.
pub const SCHEMA: &str = "wakepath.stacks/1";

/// Prints where in its program a task waited.
pub fn run(args: &WaitsArgs, folder: &Folder, names: &Names<'_>, wanted: &str, out: &mut Answers) -> Result<i32> {
    let index = folders::index(folder, &args.folders.folders)?;
    let (id, task) = choose(args, &index, names, wanted)?;
    let name = names.task(id, task);
    let (from, to) = interval(args, &index, id, task, &name)?;
    let host = folder.host(id).context("the task's host is in the folder")?;
    if host.row_count(Table::Stack) == 0 {
        bail!("no stacks were recorded on {}; record it again with --stacks", names.host(id));
    }
    let waited = stacks(folder, id, task, from, to);
    let view = StacksView::new(name, host, names.host(id), (from.0, to.0), &waited);
    let losses = losses::collect(folder);
    let text = if args.answering.json {
        json::document(SCHEMA, &losses, &view)?
    } else if args.folded {
        view.folded()
    } else {
        let style = Style::for_stdout();
        format!("{}\n{}", view.render(args.limit, style), losses_or_none(&losses, ANSWERS, style))
    };
    out.give(text.as_bytes())?;
    Ok(output::exit_code(&args.answering, losses::touch(&losses, ANSWERS) || view.lost_ns > 0))
}
