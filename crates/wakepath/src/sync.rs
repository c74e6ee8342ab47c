//! `wakepath sync`.

use crate::cli::SyncArgs;
use crate::folders;
use crate::output;
use crate::owner;
use crate::progress::Reading;
use anyhow::{Result, bail};
use wakepath_clocks::{bytes_to_read, synchronise};
use wakepath_model::folder::{Folder, SYNC_FILE, SyncFile};
use wakepath_model::ids::HostId;
use wakepath_present::sync::{SCHEMA, collect};
use wakepath_present::text::Style;
use wakepath_present::{json, losses};

/// Synchronises the folders' clocks and writes the result into them.
pub fn run(args: &SyncArgs) -> Result<i32> {
    let folder = folders::open(&args.folders.folders)?;
    let reference = args.reference.as_deref().map(|name| find(&folder, name)).transpose()?;
    let bar = Reading::of(&folder, "comparing clocks", bytes_to_read(&folder));
    let outcome = synchronise(&folder, reference);
    drop(bar);
    let mut written = Vec::new();
    if !args.dry_run && folder.hosts().len() > 1 {
        let file = SyncFile::new(&outcome.clock_groups(), folder.hosts());
        for dir in &args.folders.folders {
            owner::writes_in(dir);
            file.write(dir)?;
            written.push(dir.join(SYNC_FILE).display().to_string());
        }
    }
    let view = collect(&folder, &outcome, written);
    let losses = losses::collect(&folder);
    let text =
        if args.answering.json { json::document(SCHEMA, &losses, &view)? } else { view.render(Style::for_stdout()) };
    output::answer(text.as_bytes())?;
    Ok(output::exit_code(&args.answering, !view.complete || view.inversions > 0))
}

/// The host of a name, or of a boot id's beginning.
fn find(folder: &Folder, name: &str) -> Result<HostId> {
    let hosts = folder.hosts();
    let named: Vec<_> = hosts.iter().filter(|h| h.info().hostname == name || h.info().folder_name() == name).collect();
    let found = if named.is_empty() {
        hosts.iter().filter(|h| !name.is_empty() && h.info().boot_id.starts_with(name)).collect()
    } else {
        named
    };
    match found[..] {
        [host] => Ok(host.id()),
        [] => {
            let all: Vec<&str> = hosts.iter().map(|h| h.info().hostname.as_str()).collect();
            bail!("--reference {name}: no such host; there are {}", all.join(", "))
        }
        _ => {
            let all: Vec<String> = found.iter().map(|h| h.info().folder_name()).collect();
            bail!("--reference {name}: several hosts have that name; give one of {}", all.join(", "))
        }
    }
}
