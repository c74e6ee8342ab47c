//! `wakepath-pace`: how fast a trace's paths are reconstructed, and in how much memory. One JSON line.

use anyhow::{Result, ensure};
use clap::Parser;
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;
use wakepath_causality::reconstruct;
use wakepath_model::folder::Folder;

/// Time and memory of a reconstruction
#[derive(Parser)]
#[command(name = "wakepath-pace")]
struct Args {
    /// Trace folder
    trace: PathBuf,
}

/// Processor seconds and most resident bytes of this process.
fn used() -> (f64, u64) {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid for writing, and zeroes are a valid value.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    (seconds(usage.ru_utime) + seconds(usage.ru_stime), usage.ru_maxrss as u64 * 1024)
}

fn main() -> Result<()> {
    let args = Args::parse();
    let folder = Folder::open(&[&args.trace])?;
    ensure!(!folder.hosts().is_empty(), "{}: no host", args.trace.display());
    let (started, before) = (Instant::now(), used().0);
    let (mut requests, mut complete, mut spans) = (0u64, 0u64, 0u64);
    let report = reconstruct(
        &folder,
        |r| {
            requests += 1;
            complete += u64::from(r.is_complete());
            spans += r.spans.len() as u64;
        },
        |_, _, _, _| {},
    );
    let (after, rss) = used();
    println!(
        "{}",
        json!({
            "operations": report.operations,
            "seconds": started.elapsed().as_secs_f64(),
            "cpu_seconds": after - before,
            "requests": requests,
            "complete": complete,
            "spans": spans,
            "held_max": report.held_max,
            "resident_bytes_max": rss,
        })
    );
    Ok(())
}
