//! `wakepath merge`.

use crate::cli::MergeArgs;
use crate::folders;
use crate::output;
use crate::owner;
use crate::progress;
use anyhow::{Context as _, Result, bail};
use wakepath_model::folder::{Overwrite, merge_told};

/// Copies the folders into a new one.
pub fn run(args: &MergeArgs) -> Result<i32> {
    folders::check(&args.folders.folders)?;
    let out = &args.output;
    if out.symlink_metadata().is_ok() {
        bail!("{} exists, and merge only makes new folders; choose another name after -o", out.display());
    }
    owner::claim(out, Overwrite::Refuse).with_context(|| out.display().to_string())?;
    let bar = progress::of_bytes("copying", Some(0))?;
    let told = |done, all| {
        bar.set_length(all);
        bar.set_position(done);
    };
    let merged = merge_told(&args.folders.folders, out, told);
    bar.finish_and_clear();
    let merged = merged?;
    let plural = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let mut text = format!(
        "merged {} into {}: {}, {}",
        plural(args.folders.folders.len(), "folder"),
        out.display(),
        plural(merged.hosts, "host"),
        plural(merged.segments, "segment")
    );
    if merged.duplicates > 0 {
        text.push_str(&format!("; {} given twice and copied once", plural(merged.duplicates, "segment")));
    }
    output::say(&text);
    for d in &merged.defects {
        let place = d.first.as_ref().map_or(String::new(), |f| format!(", first at {f}"));
        output::say(&format!(
            "{}: {} × {}{place}: {} {}",
            d.defect.severity.name(),
            d.defect.id,
            d.count,
            d.defect.meaning,
            d.defect.remedy
        ));
    }
    Ok(output::ANSWERED)
}
