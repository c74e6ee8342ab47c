//! What the tests of this reader share: golden cases, events as text, traces.
//!
//! A golden case is a folder with `input.txt` and `expected.txt`. `input.txt` begins with the metadata; a line
//! `stream NAME` ends them, and what follows it are that stream's bytes in hexadecimal, `#` beginning a comment.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use wakepath_decode::raw::{Raw, RawSink};
use wakepath_decode::readers::ReadAt;
use wakepath_decode::readers::ctf::{CtfReader, Source, Value, is_stream};
use wakepath_model::ids::MonoNs;
use wakepath_testkit::data;

pub fn reader(metadata: &[u8], streams: &[(String, Vec<u8>)]) -> CtfReader {
    let streams = streams.iter().map(|(n, b)| (n.clone(), Box::new(b.clone()) as Box<dyn ReadAt + Send>)).collect();
    let source = Source { name: String::new(), metadata: metadata.to_vec(), streams };
    CtfReader::new(vec![source]).unwrap_or_else(|e| panic!("{e}"))
}

/// Metadata and streams of a golden case.
pub fn case(input: &str) -> (Vec<u8>, Vec<(String, Vec<u8>)>) {
    let mut metadata = String::new();
    let mut streams: Vec<(String, Vec<u8>)> = Vec::new();
    for line in input.lines() {
        if let Some(name) = line.strip_prefix("stream ").filter(|n| !n.contains('{')) {
            streams.push((name.to_owned(), Vec::new()));
        } else if let Some((_, bytes)) = streams.last_mut() {
            let hex: String = line.split('#').next().unwrap_or_default().split_whitespace().collect();
            let digits: Vec<u8> = hex.chars().map(|c| c.to_digit(16).expect("a digit") as u8).collect();
            bytes.extend(digits.chunks(2).map(|d| d[0] << 4 | d[1]));
        } else {
            metadata += line;
            metadata.push('\n');
        }
    }
    (metadata.into_bytes(), streams)
}

/// Writes down what it is given.
#[derive(Default, Debug, PartialEq, Clone)]
pub struct Lines(pub Vec<String>);

impl RawSink for Lines {
    fn event(&mut self, at: MonoNs, cpu: u16, event: &Raw<'_>) {
        let text = format!("{event:?}");
        self.0.push(format!("raw {} cpu{cpu} {}", at.0, names(&text)));
    }

    fn lost(&mut self, cpu: Option<u16>, from: MonoNs, to: MonoNs, count: u64) {
        self.0.push(format!("lost {count} of cpu {cpu:?} from {} to {}", from.0, to.0));
    }

    fn count(&mut self, defect: &'static str, at: MonoNs) {
        self.0.push(format!("defect {defect} at {}", at.0));
    }
}

/// Lists of bytes that are text, as text.
fn names(debug: &str) -> String {
    let mut out = String::new();
    for (i, part) in debug.split('[').enumerate() {
        if i == 0 {
            out += part;
            continue;
        }
        let (list, rest) = part.split_once(']').unwrap_or((part, ""));
        let bytes: Option<Vec<u8>> = list.split(", ").filter(|n| !n.is_empty()).map(|n| n.parse().ok()).collect();
        match bytes {
            Some(b) if b.len() != 16 && b.iter().all(|b| (32..127).contains(b)) => {
                let _ = write!(out, "\"{}\"{rest}", String::from_utf8_lossy(&b));
            }
            _ => {
                let _ = write!(out, "[{list}]{rest}");
            }
        }
    }
    out
}

pub fn value(v: &Value) -> String {
    let joined = |parts: Vec<String>| parts.join(", ");
    match v {
        Value::Int(i, labels) if labels.is_empty() => i.to_string(),
        Value::Int(i, labels) => format!("{i} ({})", labels.join("|")),
        Value::Float(f) => f.to_string(),
        Value::Text(t) => format!("{:?}", String::from_utf8_lossy(t)),
        Value::Blob(b) => format!("{b:02x?}"),
        Value::List(l) => format!("[{}]", joined(l.iter().map(value).collect())),
        Value::Fields(f) => format!("{{{}}}", joined(f.iter().map(|(n, v)| format!("{n}={}", value(v))).collect())),
        Value::Chosen(n, v) => format!("<{n}>{}", value(v)),
        Value::Nothing => "nothing".into(),
    }
}

/// All events with all their fields, as text; each must have been read alike in both ways.
pub fn events(reader: &mut CtfReader) -> Vec<String> {
    let mut out = Vec::new();
    reader.each(&mut |e| {
        assert!(e.agrees, "program and types disagree: {e:?}");
        let parts: Vec<String> = e.parts.iter().flatten().map(value).collect();
        out.push(format!("{} ns {} ticks cpu{} {} {}", e.at_ns, e.ticks, e.cpu, e.name, parts.join(" ")));
    });
    out
}

/// Our own traces, unpacked.
pub fn own() -> tempfile::TempDir {
    data::unpacked(&data::own("lttng/guests.tar.gz"))
}

/// Other people's traces, unpacked.
pub fn shared(name: &str) -> tempfile::TempDir {
    data::unpacked(&data::others(&format!("lttng/{name}.tar.gz")))
}

/// Folders with metadata, at or below one.
pub fn traces(dir: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    if dir.join("metadata").is_file() {
        out.push(dir.to_owned());
    }
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path());
    let mut folders: Vec<PathBuf> = entries.filter(|p| p.is_dir()).collect();
    folders.sort();
    out.extend(folders.iter().flat_map(|f| traces(f)));
    out
}

/// A folder's trace.
pub fn source(dir: &Path) -> Source {
    let mut streams: Vec<(String, Box<dyn ReadAt + Send>)> = Vec::new();
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path()).collect();
    files.sort();
    for file in files.iter().filter(|f| f.is_file()) {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if is_stream(&name) {
            streams.push((name, Box::new(std::fs::read(file).expect("readable"))));
        }
    }
    let metadata = std::fs::read(dir.join("metadata")).expect("readable");
    Source { name: dir.display().to_string(), metadata, streams }
}
