//! `wakepath info`.

use crate::cli::InfoArgs;
use crate::folders;
use crate::output::{self, Answers};
use anyhow::Result;
use wakepath_present::info::{SCHEMA, collect, render};
use wakepath_present::text::Style;
use wakepath_present::{json, losses};

/// Tells what the folders hold.
pub fn run(args: &InfoArgs, out: &mut Answers) -> Result<i32> {
    let folder = folders::open(&args.folders.folders)?;
    let info = collect(&folder, &args.folders.folders, args.verify);
    let text = if args.answering.json {
        json::document(SCHEMA, &info.losses, &info)?
    } else {
        render(&info, Style::for_stdout())
    };
    out.give(text.as_bytes())?;
    let touched = losses::touch_any(&info.losses) || !info.incomplete.is_empty();
    Ok(output::exit_code(&args.answering, touched))
}
