//! Traces of our own and of other people, held against what babeltrace2 says of them.

use crate::support::{Lines, events, own, shared, source, traces};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use wakepath_decode::readers::TraceReader as _;
use wakepath_decode::readers::ctf::CtfReader;

/// Events by name, events lost and packets lost, as babeltrace2 counts them; `None` where it is absent.
fn babeltrace(dir: &Path) -> Option<(BTreeMap<String, u64>, u64, u64)> {
    let all = ["--clock-cycles", "--no-delta", "--names=none"];
    let out = Command::new("babeltrace2").arg(dir).args(all).env("LC_ALL", "C").output();
    let Ok(out) = out else {
        eprintln!("skipped: babeltrace2 is absent");
        return None;
    };
    let mut names = BTreeMap::new();
    for line in String::from_utf8_lossy(&out.stdout).lines() {
        // `[TIME] HOST NAME: { … }`; a time only where there is a clock
        let line = if line.starts_with('[') { line.split_once("] ").map_or(line, |(_, rest)| rest) } else { line };
        let head = line.split(" {").next().unwrap_or(line).trim_end().trim_end_matches(':');
        *names.entry(head.to_owned()).or_default() += 1;
    }
    let (mut events, mut packets) = (0, 0);
    for line in String::from_utf8_lossy(&out.stderr).lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if let ["WARNING:", "Tracer", "discarded", count, what, ..] = words[..] {
            let count: u64 = count.parse().unwrap_or(0);
            *if what.starts_with("packet") { &mut packets } else { &mut events } += count;
        }
    }
    Some((names, events, packets))
}

fn ours(dir: &Path) -> CtfReader {
    let sources = traces(dir).iter().map(|d| source(d)).collect();
    CtfReader::new(sources).unwrap_or_else(|e| panic!("{e}"))
}

/// What must hold for a trace of others that is whole.
fn held_against(dir: &Path) {
    let mut reader = ours(dir);
    let mut lines = Lines::default();
    reader.run(&mut lines);
    let (counts, tally) = (reader.counts(), reader.tally());
    let progress = reader.progress();
    assert_eq!(progress.done, progress.total, "{}", dir.display());
    let mut plain = ours(dir);
    assert_eq!(events(&mut plain).len() as u64, tally.events, "{}", dir.display());
    let Some((names, lost, packets)) = babeltrace(dir) else { return };
    let total: u64 = names.values().sum();
    assert_eq!((counts.total(), counts.lost, tally.lost_packets), (total, lost, packets), "{}", dir.display());
    for (name, count) in &counts.events {
        let theirs: u64 = names.iter().filter(|(head, _)| is_name(head, name)).map(|(_, n)| n).sum();
        assert_eq!(*count, theirs, "{}: {name}", dir.display());
    }
}

/// Whether what stands before an event's fields ends with its name.
fn is_name(head: &str, name: &str) -> bool {
    // a host's name may stand before it, a log level or the like after it
    head == name || head.split(' ').any(|w| w.trim_end_matches(':') == name) || head.ends_with(&format!(" {name}"))
}

#[test]
fn own_kernel_traces_have_the_events_that_babeltrace_counts() {
    let dir = own();
    let traces = traces(dir.path());
    assert_eq!(traces.len(), 2);
    traces.iter().for_each(|trace| held_against(trace));
}

#[test]
#[ignore = "needs WAKEPATH_DATA"]
fn kernel_traces_have_the_events_that_babeltrace_counts() {
    for archive in ["guests-wget", "wget-pair", "django-vote"] {
        let dir = shared(archive);
        for trace in traces(dir.path()) {
            held_against(&trace);
        }
    }
    // beside this one's folder lies metadata without streams
    held_against(&shared("kernel-6.2").path().join("traces/kernel"));
}

#[test]
#[ignore = "needs WAKEPATH_DATA"]
fn odd_traces_have_the_events_that_babeltrace_counts() {
    let dir = shared("ctf1-conformance");
    for group in ["succeed", "packet-seq-num"] {
        let folders = std::fs::read_dir(dir.path().join(group)).expect("the archive has it");
        for folder in folders.flatten() {
            held_against(&folder.path());
        }
    }
}

#[test]
#[ignore = "needs WAKEPATH_DATA"]
fn both_versions_of_a_recording_have_the_same_events() {
    let (one, two) = (shared("ctf1-conformance"), shared("ctf2-samples"));
    let mut compared = 0;
    for new in traces(two.path()) {
        let name = new.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let old = name.rsplit_once("-7.0-").map(|(_, n)| one.path().join("succeed").join(n));
        let new_events = events(&mut ours(&new));
        assert!(!new_events.is_empty(), "{name}");
        let Some(old) = old.filter(|o| o.is_dir()) else { continue };
        // one of them was recorded with another file name in it
        let same = |lines: Vec<String>| lines.iter().map(|l| l.replace("_so", "-so")).collect::<Vec<_>>();
        assert_eq!(same(new_events), same(events(&mut ours(&old))), "{name}");
        compared += 1;
    }
    assert!(compared > 0);
}

#[test]
fn a_kernel_trace_cut_anywhere_gives_its_first_events() {
    let dir = own();
    let trace = traces(dir.path()).into_iter().next().expect("a trace");
    let whole = source(&trace);
    let (name, stream) = &whole.streams[0];
    let mut bytes = vec![0; 40_000];
    let got = stream.read_at(0, &mut bytes).expect("in memory");
    bytes.truncate(got);
    let read = |len: usize| {
        let metadata = whole.metadata.clone();
        let stream = Box::new(bytes[..len].to_vec()) as Box<_>;
        let source = wakepath_decode::readers::ctf::Source {
            name: String::new(),
            metadata,
            streams: vec![(name.clone(), stream)],
        };
        let mut reader = CtfReader::new(vec![source]).expect("metadata are whole");
        let mut lines = Lines::default();
        reader.run(&mut lines);
        assert!(reader.counts().fault_count > 0, "a cut at {len} is said");
        lines.0.retain(|l| l.starts_with("raw"));
        lines.0
    };
    let most = read(bytes.len());
    assert!(most.len() > 100);
    for len in [1, 40, 100, 101, 102, 103, 5_000, 17_777, 32_768, 39_999] {
        let fewer = read(len);
        assert_eq!(fewer, most[..fewer.len()], "{len}");
    }
}
