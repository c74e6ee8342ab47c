//! `wakepath bundle`: one request as a small folder without names.

mod copy;

use crate::cli::{BundleArgs, usage_error};
use crate::output::{self, tell};
use crate::owner;
use crate::{asked, find, folders, progress, show};
use anyhow::{Context as _, Result, anyhow, bail};
use clap::error::ErrorKind;
use copy::Around;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use wakepath_analysis::names::Names;
use wakepath_analysis::selection::Placed;
use wakepath_causality::path::Request;
use wakepath_model::folder::{Folder, write_archive};
use wakepath_model::ids::CommonNs;
use wakepath_present::units;

/// How much before and after the request is tried, in turn, until it is the same (ns).
const MARGINS: [i64; 4] = [50_000_000, 1_000_000_000, 10_000_000_000, i64::MAX];

/// Makes the folder.
pub fn run(args: &BundleArgs) -> Result<i32> {
    let (dirs, wanted) = match show::split(&args.what) {
        Ok(split) => split,
        Err(missing) => usage_error("bundle", ErrorKind::MissingRequiredArgument, missing),
    };
    let out = &args.output;
    let made = make(dirs, &wanted, args.kind.as_deref(), out)?;
    tell!(
        "bundled request {} into {}: {}; next: wakepath show {} {}",
        made.id,
        out.display(),
        made.told(),
        asked::typed_word(&out.to_string_lossy()),
        made.id,
    );
    Ok(output::ANSWERED)
}

/// Writes a bundle for somebody else in this process, as a tar archive. Gives what was written, for people.
pub fn write(args: &BundleArgs, to: &mut dyn Write) -> Result<String> {
    let (dirs, wanted) = show::split(&args.what).map_err(|missing| anyhow!(missing))?;
    let made = make(dirs, &wanted, args.kind.as_deref(), &args.output)?;
    write_archive(&args.output, to).context("sending the bundle")?;
    Ok(format!("request {} of the bundle: {}", made.id, made.told()))
}

/// What was made.
struct Made {
    /// The request's id in the new folder.
    id: String,
    rows: u64,
    bytes: u64,
}

impl Made {
    fn told(&self) -> String {
        format!("{}, {}", units::counted(self.rows, "row", "rows"), units::bytes(self.bytes))
    }
}

fn make(dirs: &[PathBuf], wanted: &str, kind: Option<&str>, out: &PathBuf) -> Result<Made> {
    if out.symlink_metadata().is_ok() {
        bail!("{} exists, and bundle only makes new folders; choose another name after -o", out.display());
    }
    let folder = folders::open(dirs)?;
    let names = Names::read(&folder);
    progress::reads(&folder, wakepath_causality::bytes_to_read(&folder));
    let request = find::request(&folder, &names, wanted, kind)?;
    let id = format!("{:016x}", request.id);
    let placed = Placed::or_orphan(&request, &names, &folder.timeline()).context("the request has no message")?;
    let before = seen(dirs, &id)?;
    for margin in MARGINS {
        let around = Around {
            from: placed.began.0.saturating_sub(margin),
            to: placed.began.0.saturating_add_unsigned(placed.duration_ns).saturating_add(margin),
        };
        let tried = try_with(&folder, around, &placed, out, &before);
        match tried {
            Ok(Some((id, rows))) => {
                let bytes = folders::open(std::slice::from_ref(out))?.hosts().iter().map(|h| h.bytes()).sum();
                return Ok(Made { id, rows, bytes });
            }
            Ok(None) => remove(out)?,
            Err(e) => {
                remove(out)?;
                return Err(e);
            }
        }
    }
    Err(anyhow!(
        "request {id} would not look the same in a folder of its own, so none was made; hand over the whole folder, or \
         wakepath export --request {id}"
    ))
}

/// Takes back what was made.
fn remove(out: &Path) -> Result<()> {
    owner::writes_in(out);
    match fs::remove_dir_all(out) {
        // where its owner may not remove it, it stays, empty
        Err(e)
            if e.kind() != std::io::ErrorKind::NotFound && fs::read_dir(out).is_ok_and(|mut d| d.next().is_some()) =>
        {
            Err(e).with_context(|| format!("removing {}", out.display()))
        }
        _ => Ok(()),
    }
}

/// Writes the rows around the request. Gives its id in the new folder and how many rows that has, where it is the same there.
fn try_with(
    folder: &Folder,
    around: Around,
    placed: &Placed,
    out: &PathBuf,
    before: &Value,
) -> Result<Option<(String, u64)>> {
    let rows = copy::copy(folder, around, out)?;
    let dirs = std::slice::from_ref(out);
    let made = folders::open(dirs)?;
    for id in begun_at(&made, placed.began, placed.duration_ns) {
        let id = format!("{id:016x}");
        if seen(dirs, &id)? == *before {
            // what was made of it to compare is no part of it
            owner::writes_in(out);
            let _ = fs::remove_dir_all(out.join("cache"));
            return Ok(Some((id, rows)));
        }
    }
    Ok(None)
}

/// The requests that began just then and took just so long.
fn begun_at(folder: &Folder, began: CommonNs, duration_ns: u64) -> Vec<u64> {
    let names = Names::read(folder);
    let line = folder.timeline();
    let mut found = Vec::new();
    let take = |r: Request| {
        let placed = Placed::or_orphan(&r, &names, &line);
        if placed.is_some_and(|p| p.began == began && p.duration_ns == duration_ns) {
            found.push(r.id);
        }
    };
    wakepath_causality::reconstruct(folder, take, |_, _, _, _| {});
    found
}

/// All of a request that has no name in it: its tree with times and evidence, and its critical path.
fn seen(dirs: &[PathBuf], id: &str) -> Result<Value> {
    const OF_SPANS: [&str; 17] = [
        "span",
        "parent",
        "status",
        "failed",
        "reset",
        "start_ns",
        "end_ns",
        "offset_ns",
        "duration_ns",
        "self_ns",
        "queued_ns",
        "between_ns",
        "evidence",
        "hole",
        "watched",
        "queued",
        "faults",
    ];
    const OF_SLICES: [&str; 5] = ["from_ns", "to_ns", "state", "span", "syscall"];
    let ask = |words: &[&str], last: &[&str]| -> Result<Value, String> {
        let mut line: Vec<OsString> = ["wakepath", "--no-pager"].map(OsString::from).to_vec();
        line.extend(words.iter().map(OsString::from));
        line.extend(dirs.iter().map(|d| d.clone().into_os_string()));
        line.extend(last.iter().map(OsString::from));
        serde_json::from_slice(&asked::answer(line)?).map_err(|e| e.to_string())
    };
    let shown = ask(&["show", "--json"], &[id]).map_err(|e| anyhow!(e))?;
    // without waits there is no path: in neither folder
    let waits = ask(&["waits", "--json"], &["--request", id]).unwrap_or_default();
    let without_files = |mut spans: Value| {
        for span in spans.as_array_mut().into_iter().flatten() {
            if let Some(faults) = span.get_mut("faults").and_then(Value::as_object_mut) {
                faults.remove("files");
            }
        }
        spans
    };
    Ok(json!({
        "complete": shown["complete"],
        "spans": without_files(columns(&shown["spans"], &OF_SPANS)),
        "elapsed_ns": waits["elapsed_ns"],
        "unknown_ns": waits["unknown_ns"],
        "slices": columns(&waits["slices"], &OF_SLICES),
    }))
}

/// Of each entry of a list only these.
fn columns(list: &Value, names: &[&str]) -> Value {
    let entry = |e: &Value| -> Value { names.iter().map(|n| ((*n).to_owned(), e[*n].clone())).collect() };
    list.as_array().map_or(Value::Null, |l| l.iter().map(entry).collect())
}
