//! `wakepath reduce`.

use crate::cli::ReduceArgs;
use crate::progress::Reading;
use crate::{folders, output, owner};
use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};
use wakepath_model::folder::{Options, Overwrite, SYNC_FILE, SyncFile};
use wakepath_present::units;

/// Links one host of the folders, and writes it into a new one.
pub fn run(args: &ReduceArgs) -> Result<i32> {
    let out = &args.output;
    if out.symlink_metadata().is_ok() {
        bail!("{} exists, and reduce only makes new folders; choose another name after -o", out.display());
    }
    let folder = folders::open_host(&args.folders.folders, args.host.as_deref())?;
    let overwrite = owner::claim(out, Overwrite::Refuse).with_context(|| out.display().to_string())?;
    let bytes = folder.hosts().iter().map(|h| h.bytes()).sum();
    let bar = Reading::of(&folder, "linking", wakepath_causality::bytes_to_read(&folder));
    let written = wakepath_analysis::reduce::reduce(&folder, out, Options { overwrite, ..Options::default() });
    drop(bar);
    let written = written?;
    copy_clocks(&args.folders.folders, out)?;
    let name = folder.hosts().first().map_or("", |h| h.info().hostname.as_str());
    output::say(&format!(
        "reduced {name} into {}: {} of {}",
        out.display(),
        units::bytes(written.bytes),
        units::bytes(bytes)
    ));
    Ok(output::ANSWERED)
}

/// How the clocks of all hosts relate goes along: later no messages are there that would tell.
fn copy_clocks(from: &[PathBuf], to: &Path) -> Result<()> {
    for dir in from {
        let path = dir.join(SYNC_FILE);
        let Ok(text) = std::fs::read(&path) else { continue };
        if let Some(file) = SyncFile::parse(&text) {
            file.write(to)?;
            break;
        }
    }
    Ok(())
}
