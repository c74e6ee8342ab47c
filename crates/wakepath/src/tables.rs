//! `wakepath tables`.

use crate::cli::TablesArgs;
use crate::folders;
use crate::output;
use crate::owner;
use crate::progress;
use anyhow::{Context as _, Result};
use clap::error::ErrorKind;
use wakepath_model::folder::Overwrite;
use wakepath_present::parquet::{write_derived, write_tables};
use wakepath_present::table::{Column, Table};
use wakepath_present::text::Style;
use wakepath_present::units;

/// Writes the Parquet tables.
pub fn run(args: &TablesArgs) -> Result<i32> {
    let dirs = &args.folders.folders;
    let out = match (&args.output, dirs.as_slice()) {
        (Some(out), _) => out.clone(),
        (None, [dir]) => dir.join("tables"),
        (None, _) => crate::cli::usage_error(
            "tables",
            ErrorKind::MissingRequiredArgument,
            "with several folders, say where the tables go: -o OUT",
        ),
    };
    let folder = folders::open(dirs)?;
    match &args.output {
        Some(out) => drop(owner::claim(out, Overwrite::Append).with_context(|| out.display().to_string())?),
        None => owner::makes_caches(dirs),
    }
    let bar = progress::of_rows()?;
    let written = write_tables(&folder, &out, |p| {
        bar.set_length(p.rows_all);
        bar.set_position(p.rows);
        bar.set_message(p.table.name());
    });
    bar.set_message("requests");
    let derived = written.and_then(|w| Ok((w, write_derived(&folder, &out, |n| bar.set_position(n))?)));
    bar.finish_and_clear();
    let (written, derived) = derived?;

    let mut table =
        Table::new(&[Column::text("table"), Column::number("rows"), Column::number("size"), Column::text("file")]);
    for t in written.tables.iter().chain(&derived.tables) {
        table.row([
            t.name.as_str().into(),
            units::count(t.rows).into(),
            units::bytes(t.bytes).into(),
            t.path.display().to_string().into(),
        ]);
    }
    output::answer(table.render(Style::for_stdout()).as_bytes())?;
    for d in folder.defects() {
        output::say(&format!(
            "{}: {} × {}: {} {}",
            d.defect.severity.name(),
            d.defect.id,
            d.count,
            d.defect.meaning,
            d.defect.remedy
        ));
    }
    Ok(output::ANSWERED)
}
