//! How many system calls the library adds, counted by strace. What they take is measured by `bench/library calls`.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use support::{Mode, program, run_with};

/// System calls by name.
type Counts = BTreeMap<String, i64>;

/// Those of a run with `calls` calls of a kind. The clock is no system call, but where the machine's is a slow one.
fn counts(mode: Mode, kind: &str, calls: u32) -> Counts {
    let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("strace-{}-{mode:?}", std::process::id()));
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-e", "trace=!clock_gettime", "-e", "signal=none"]);
    // a call is recorded as a wait where it took long enough, which tracing alone makes it do on slow machines only
    strace.args(["-e", "inject=poll,epoll_wait:delay_exit=100", "-o"]).arg(&log);
    let run = run_with(mode, strace.arg("--").arg(program("cost")).args([kind, &calls.to_string()]), |_, _| ());
    assert!(run.output.status.success(), "{}", run.text());
    let mut counts = Counts::new();
    for line in fs::read_to_string(&log).expect("strace wrote it").lines() {
        // `PID NAME(…`; a call that was interrupted by another's line has a second line, `PID <... NAME resumed>`
        let call = line.split_whitespace().nth(1).and_then(|w| w.split_once('('));
        if let Some((name, _)) = call {
            *counts.entry(name.to_owned()).or_default() += 1;
        }
    }
    fs::remove_file(&log).expect("it is ours");
    counts
}

/// System calls of one call of a kind: what 200 of them make more than 100, so that beginnings and ends do not count.
fn each(mode: Mode, kind: &str) -> Vec<(String, i64)> {
    let (few, many) = (counts(mode, kind, 100), counts(mode, kind, 200));
    let one = many.into_iter().map(|(name, n)| (((n - few.get(&name).unwrap_or(&0)) as f64 / 100.0).round(), name));
    one.filter(|(n, _)| *n != 0.0).map(|(n, name)| (name, n as i64)).collect()
}

/// Whether strace may trace here.
fn can_count() -> bool {
    let able =
        Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).output().is_ok_and(|o| o.status.success());
    if !able {
        println!("skipped: no strace here that may trace (remedy: scripts/install test)");
    }
    able
}

fn holds(kind: &str, mode: Mode, expected: &[(&str, i64)]) {
    let found = each(mode, kind);
    let found: Vec<_> = found.iter().map(|(name, n)| (name.as_str(), *n)).collect();
    assert_eq!(found, expected, "{kind}, {mode:?}");
}

/// Calls of a kind without the library, and what else recording makes of them, observing and isolating.
type Kind =
    (&'static str, &'static [(&'static str, i64)], &'static [(&'static str, i64)], &'static [(&'static str, i64)]);

const KINDS: [Kind; 5] = [
    ("read-file", &[("read", 1)], &[("read", 1)], &[("read", 1)]),
    // both ends are this process's, which no request of another waits for
    ("write+read-unix", &[("read", 1), ("write", 1)], &[("read", 1), ("write", 1)], &[("read", 1), ("write", 1)]),
    // how much lies there, for the place that an input has in its stream; isolating, the read that follows tells it
    ("poll", &[("poll", 1)], &[("ioctl", 1), ("poll", 1)], &[("poll", 1)]),
    ("epoll_wait", &[("epoll_wait", 1)], &[("epoll_wait", 1), ("ioctl", 1)], &[("epoll_wait", 1)]),
    // of client and server; isolating, each looks before it reads
    (
        "http-exchange",
        &[("epoll_wait", 1), ("read", 2), ("write", 2)],
        &[("epoll_wait", 1), ("ioctl", 1), ("read", 2), ("write", 2)],
        &[("epoll_wait", 1), ("recvfrom", 4), ("write", 2)],
    ),
];

#[test]
fn off_adds_no_system_call() {
    if can_count() {
        for (kind, bare, ..) in KINDS {
            holds(kind, Mode::Bare, bare);
            holds(kind, Mode::Off, bare);
        }
    }
}

#[test]
fn recording_adds_these_system_calls_and_no_other() {
    if can_count() {
        for (kind, _, observing, isolating) in KINDS {
            holds(kind, Mode::Observe, observing);
            holds(kind, Mode::Isolate, isolating);
        }
    }
}
