//! The traces of one host being read, whatever their format.

use super::sources::{Found, part};
use anyhow::Result;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use wakepath_decode::raw::RawSink;
use wakepath_decode::readers::{Counts, Format, HostFacts};

/// One trace, known by what it says of itself and not read yet.
pub struct Trace {
    pub format: Format,
    /// The file, or its folder.
    pub path: PathBuf,
    pub facts: HostFacts,
    /// Traces with the same id are parts of one.
    pub id: String,
    /// Bytes to be read.
    pub bytes: u64,
}

/// Looks at a trace. `None`: it is not of a kernel, and has nothing to import.
pub fn look(found: &Found) -> Result<Option<Trace>> {
    let Found { format, path, .. } = found;
    let reader = format.open(vec![part(*format, path)?])?;
    Ok(reader.is_of_kernel().then(|| Trace {
        format: *format,
        path: path.clone(),
        facts: reader.facts().clone(),
        id: reader.trace_id().unwrap_or_else(|| path.display().to_string()),
        bytes: reader.progress().total,
    }))
}

/// Reads the parts of one trace. `done` grows by how many bytes were read; `stop` is asked now and then.
pub fn read<S: RawSink>(parts: &[Trace], sink: &mut S, done: &AtomicU64, stop: impl Fn(&S) -> bool) -> Result<Counts> {
    let Some(first) = parts.first() else { return Ok(Counts::default()) };
    let before = done.load(Ordering::Relaxed);
    let files = parts.iter().map(|trace| part(trace.format, &trace.path)).collect::<Result<_>>()?;
    let mut reader = first.format.open(files)?;
    let mut more = true;
    while more {
        more = reader.next(sink) && !stop(sink);
        done.store(before + reader.progress().done, Ordering::Relaxed);
    }
    Ok(reader.counts())
}
