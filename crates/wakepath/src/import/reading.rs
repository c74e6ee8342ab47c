//! The traces of one host being read, whatever their format.

use super::sources::{Format, Found, Opened, files};
use anyhow::{Context as _, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use wakepath_decode::raw::RawSink;
use wakepath_decode::readers::ctf::{self, CtfReader, is_stream};
use wakepath_decode::readers::ftrace::FtraceReader;
use wakepath_decode::readers::perf::PerfReader;
use wakepath_decode::readers::{Counts, HostFacts, Progress};

/// Events between two looks at how far it is.
const STRIDE: usize = 1 << 14;
/// Metadata larger than this are none.
const METADATA_MAX: u64 = 256 << 20;

/// One trace, known by what it says of itself and not read yet.
pub struct Trace {
    pub format: Format,
    /// The file, or its folder.
    pub path: PathBuf,
    pub facts: HostFacts,
    /// Traces with the same mark are parts of one.
    pub mark: String,
    /// Bytes to be read.
    pub bytes: u64,
}

/// Looks at a trace. `None`: it is not of a kernel, and has nothing to import.
pub fn look(found: &Found) -> Result<Option<Trace>> {
    let Found { format, path, .. } = found;
    let mut mark = path.display().to_string();
    let (facts, bytes) = match format {
        Format::Ctf => {
            let reader = CtfReader::new(vec![ctf_source(path, false)?])?;
            if !matches!(reader.domain(), "" | "kernel") {
                return Ok(None);
            }
            if let Some(uuid) = reader.uuid() {
                mark = format!("{uuid:02x?}");
            }
            let (mut bytes, files) = (0, stream_files(path)?);
            for file in &files {
                bytes += fs::metadata(file).map_or(0, |m| m.len());
            }
            let mut facts = reader.host().clone();
            if env(&reader, "tracer_name") == "lttng-modules" {
                facts.cpus = processors(&files);
            }
            (facts, bytes)
        }
        Format::Perf => {
            let reader = PerfReader::open(Opened::new(path)?);
            (reader.facts().clone(), reader.progress().total)
        }
        Format::TraceCmd => {
            let reader = FtraceReader::open(Opened::new(path)?);
            (reader.facts().clone(), reader.progress().total)
        }
        // of a program's own, and read elsewhere
        Format::Marks => return Ok(None),
    };
    Ok(Some(Trace { format: *format, path: path.clone(), facts, mark, bytes }))
}

/// Reads the parts of one trace. `done` is told how many bytes were read; `stop` is asked now and then.
pub fn read<S: RawSink>(parts: &[Trace], sink: &mut S, done: &AtomicU64, stop: impl Fn(&S) -> bool) -> Result<Counts> {
    let before = done.load(Ordering::Relaxed);
    let tell = |p: Progress| done.store(before + p.done, Ordering::Relaxed);
    let Some(first) = parts.first() else { return Ok(Counts::default()) };
    Ok(match first.format {
        Format::Ctf => {
            let sources = parts.iter().map(|t| ctf_source(&t.path, true)).collect::<Result<_>>()?;
            let mut reader = CtfReader::new(sources)?;
            while reader.advance(STRIDE, sink) && !stop(sink) {
                tell(reader.progress());
            }
            tell(reader.progress());
            reader.counts()
        }
        Format::Perf => {
            let mut reader = PerfReader::open(Opened::new(&first.path)?);
            while reader.next(sink) && !stop(sink) {
                tell(reader.progress());
            }
            tell(reader.progress());
            reader.counts()
        }
        Format::TraceCmd => {
            let mut reader = FtraceReader::open(Opened::new(&first.path)?);
            while reader.next(sink) && !stop(sink) {
                tell(reader.progress());
            }
            tell(reader.progress());
            reader.counts()
        }
        Format::Marks => Counts::default(),
    })
}

fn env<'r>(reader: &'r CtfReader, name: &str) -> &'r str {
    reader.env().iter().find(|(n, _)| n == name).map_or("", |(_, value)| value)
}

/// How many processors a host has of which LTTng wrote these: 1, or 0 where that is not known. LTTng writes one file for
/// each channel and each processor, also for one without events, and calls it by both (`channel0_0`).
fn processors(files: &[PathBuf]) -> u32 {
    let is_of_first = |file: &PathBuf| {
        let name = file.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        // a number behind may be the processor's, or that of a part of a rotated file
        let mut numbers = name.split('_').skip(1).filter_map(|n| n.parse::<u32>().ok()).peekable();
        numbers.peek().is_some() && numbers.all(|n| n == 0)
    };
    (!files.is_empty() && files.iter().all(is_of_first)).into()
}

fn stream_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = files(folder)?;
    files.retain(|f| f.file_name().and_then(|n| n.to_str()).is_some_and(is_stream));
    Ok(files)
}

/// A trace for the reader, with its streams or only its metadata.
fn ctf_source(folder: &Path, with_streams: bool) -> Result<ctf::Source> {
    let path = folder.join("metadata");
    let metadata = match fs::metadata(&path).map(|m| m.len()) {
        Ok(n) if n > METADATA_MAX => bail!("{}: {n} bytes are too many for metadata; is it a trace?", path.display()),
        _ => fs::read(&path).with_context(|| format!("{}: cannot read it", path.display()))?,
    };
    let mut streams = Vec::new();
    if with_streams {
        for file in stream_files(folder)? {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            streams.push((name, Box::new(Opened::new(&file)?) as Box<_>));
        }
    }
    Ok(ctf::Source { name: folder.display().to_string(), metadata, streams })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_one_processor_by_the_names_of_files() {
        let count = |names: &[&str]| processors(&names.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(count(&["t/channel0_0"]), 1);
        assert_eq!(count(&["t/net_0", "t/my_sched_0"]), 1);
        assert_eq!(count(&["t/net_0", "t/net_1"]), 0);
        assert_eq!(count(&["t/channel0_0", "t/stream"]), 0);
        assert_eq!(count(&[]), 0);
    }
}
