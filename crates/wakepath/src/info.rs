//! `wakepath info`.

use crate::cli::InfoArgs;
use crate::folders;
use crate::output::{self, Answers};
use crate::requests::spans;
use anyhow::Result;
use std::path::PathBuf;
use wakepath_model::folder::Folder;
use wakepath_present::info::{BRIEF_SCHEMA, Brief, SCHEMA, collect, render};
use wakepath_present::text::Style;
use wakepath_present::{json, losses};

/// Tells what the folders hold.
pub fn run(args: &InfoArgs, out: &mut Answers) -> Result<i32> {
    let folder = folders::open_reduced(&args.folders.folders)?;
    if args.brief {
        return brief(&folder, args, out);
    }
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

/// Only what the heads of its frames say.
fn brief(folder: &Folder, args: &InfoArgs, out: &mut Answers) -> Result<i32> {
    let dirs = &args.folders.folders;
    let losses = losses::collect(folder);
    let text = if args.answering.json {
        brief_json(folder, dirs)?
    } else {
        Brief::new(folder, dirs, &spans(folder)).render(&losses, Style::for_stdout())
    };
    out.give(text.as_bytes())?;
    Ok(output::exit_code(&args.answering, losses::touch_any(&losses)))
}

/// The same as one JSON document.
pub fn brief_json(folder: &Folder, dirs: &[PathBuf]) -> Result<String> {
    Ok(json::document(BRIEF_SCHEMA, &losses::collect(folder), &Brief::new(folder, dirs, &spans(folder)))?)
}
