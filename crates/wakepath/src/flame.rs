//! `wakepath flame`.

use crate::cli::{FlameArgs, PartOfRequests};
use crate::folders;
use crate::output::{self, Answers};
use crate::requests::{part, spans, whole};
use anyhow::{Context as _, Result};
use std::path::PathBuf;
use wakepath_analysis::flame::{Flame, flame};
use wakepath_analysis::names::Names;
use wakepath_analysis::why::Recording;
use wakepath_model::defects::Answer;
use wakepath_present::flame::FlameView;
use wakepath_present::json;
use wakepath_present::losses::{self, Loss};
use wakepath_present::text::Style;

/// Schema of the JSON answer.
pub const SCHEMA: &str = "wakepath.flame/1";

/// Prints where the time of requests went.
pub fn run(args: &FlameArgs, out: &mut Answers) -> Result<i32> {
    let own = &args.folders.folders;
    let (selected, mut others, mut losses) = read(own, &args.part, args, args.difference)?;
    if !args.against.is_empty() {
        let more;
        (others, _, more) = read(args.against.folders(own), &args.against.part(&args.part), args, false)?;
        // of the same folders they are told once
        if !args.against.against.is_empty() {
            losses.extend(more);
        }
    }
    let is_compared = args.difference || !args.against.is_empty();
    let view = FlameView::new(&selected, is_compared.then_some(&others));
    if args.answering.json {
        out.give_with(|mut to| json::write(&mut to, SCHEMA, &losses, &view))?;
    } else {
        out.give(view.render(args.least.0, &losses, Style::for_stdout()).as_bytes())?;
    }
    let touched = losses::touch(&losses, &[Answer::Requests, Answer::CriticalPath]) || !view.is_complete();
    Ok(output::exit_code(&args.answering, touched))
}

/// The selected requests of a recording, all its others where they are wanted, and what it lost.
fn read(
    dirs: &[PathBuf],
    requests: &PartOfRequests,
    args: &FlameArgs,
    wants_others: bool,
) -> Result<(Flame, Flame, Vec<Loss>)> {
    let folder = folders::open(dirs)?;
    let names = Names::read(&folder);
    let selection = part::selection(requests, args.kind.as_deref(), whole(&spans(&folder)))?;
    let index = folders::index(&folder, dirs)?;
    let recording = Recording { folder: &folder, index: &index, names: &names };
    let (selected, others) = flame(&recording, &selection, wants_others);
    folders::whole(&index, dirs)?;
    if selected.stacks.is_empty() {
        part::exists(&folder, &selection).with_context(|| dirs[0].display().to_string())?;
    }
    Ok((selected, others, losses::collect(&folder)))
}
