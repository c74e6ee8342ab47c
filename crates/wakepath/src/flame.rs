//! `wakepath flame`.

use crate::cli::FlameArgs;
use crate::output::{self, Answers};
use crate::requests::{part, spans};
use crate::{folders, suggest};
use anyhow::{Result, bail};
use wakepath_analysis::flame::flame;
use wakepath_analysis::names::Names;
use wakepath_analysis::why::Recording;
use wakepath_model::defects::Answer;
use wakepath_present::flame::FlameView;
use wakepath_present::text::Style;
use wakepath_present::{json, losses};

/// Schema of the JSON answer.
pub const SCHEMA: &str = "wakepath.flame/1";

/// Prints where the time of requests went.
pub fn run(args: &FlameArgs, out: &mut Answers) -> Result<i32> {
    let dirs = &args.folders.folders;
    let folder = folders::open(dirs)?;
    let names = Names::read(&folder);
    let begin = spans(&folder).first().map_or(0, |s| s.0);
    let selection = part::selection(&args.part, args.kind.as_deref(), begin)?;
    let index = folders::index(&folder, dirs)?;
    let recording = Recording { folder: &folder, index: &index, names: &names };
    let (selected, others) = flame(&recording, &selection, args.difference);
    folders::whole(&index, dirs)?;
    if let (true, Some(kind)) = (selected.stacks.is_empty(), &args.kind)
        && !crate::requests::has_kind(&folder, kind)
    {
        bail!("no request of kind {kind:?}: {}", suggest::kind(&folder, kind));
    }
    let view = FlameView::new(&selected, args.difference.then_some(&others));
    let losses = losses::collect(&folder);
    if args.answering.json {
        out.give_with(|mut to| json::write(&mut to, SCHEMA, &losses, &view))?;
    } else {
        out.give(view.render(args.least.0, &losses, Style::for_stdout()).as_bytes())?;
    }
    let touched = losses::touch(&losses, &[Answer::Requests, Answer::CriticalPath]) || !view.is_complete();
    Ok(output::exit_code(&args.answering, touched))
}
