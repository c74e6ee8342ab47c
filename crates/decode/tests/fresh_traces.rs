//! Recordings made here and now: as many events of each name as perf and trace-cmd themselves count in them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use wakepath_decode::raw::{Raw, RawSink};
use wakepath_decode::readers::ftrace::FtraceReader;
use wakepath_decode::readers::perf::PerfReader;
use wakepath_decode::readers::{Counts, TraceReader as _};
use wakepath_model::ids::MonoNs;

/// What is recorded: some processes, timers, a pipe and a file.
const LOAD: &str = "for i in 1 2 3 4 5; do echo $i | cat; sleep 0.02; done >/dev/null; sync -f .";
const PERF_EVENTS: &str = "sched:sched_switch,sched:sched_waking,sched:sched_process_fork,sched:sched_process_exit,\
                           irq:softirq_entry,timer:hrtimer_expire_entry,block:block_rq_issue";

/// Holds the order of time against what came.
#[derive(Default)]
struct Order {
    latest: u64,
    back: u64,
    switches: u64,
    forks: u64,
}

impl RawSink for Order {
    fn event(&mut self, at: MonoNs, _: u16, event: &Raw<'_>) {
        self.back += u64::from(at.0 < self.latest);
        self.latest = at.0;
        self.switches += u64::from(matches!(event, Raw::Switch { .. }));
        self.forks += u64::from(matches!(event, Raw::Fork { .. }));
    }

    fn lost(&mut self, _: Option<u16>, _: MonoNs, _: MonoNs, _: u64) {}

    fn count(&mut self, defect: &'static str, _: MonoNs) {
        panic!("{defect}");
    }
}

/// Runs a shell command; what it printed, or why it failed.
fn shell(command: &str, dir: &Path) -> Result<String, String> {
    let out = Command::new("timeout").args(["60", "sh", "-c", command]).current_dir(dir).stdin(Stdio::null()).output();
    let out = out.map_err(|e| e.to_string())?;
    match out.status.success() {
        true => Ok(String::from_utf8_lossy(&out.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&out.stderr).lines().take(3).collect::<Vec<_>>().join("; ")),
    }
}

fn check(counts: &Counts, expected: &BTreeMap<String, u64>, order: &Order, what: &str) {
    assert_eq!(&counts.events, expected, "{what}");
    assert_eq!((order.back, counts.fault_count), (0, 0), "{what}: {:?}", counts.faults);
    let count = |name| counts.events.get(name).copied().unwrap_or(0);
    assert!(count("sched:sched_switch") > 0, "{what}: {counts:?}");
    assert_eq!(order.switches, count("sched:sched_switch"), "{what}");
    // perf tells of forks by records of its own, too
    assert!(order.forks >= count("sched:sched_process_fork"), "{what}");
}

#[test]
fn as_many_events_as_perf_script_says() {
    let dir = tempfile::tempdir().unwrap();
    for (name, record) in [
        ("file", format!("perf record -q -a -o file -e {PERF_EVENTS} -- sh -c '{LOAD}'")),
        ("compressed", format!("perf record -q -a -z -k mono -o compressed -e {PERF_EVENTS} -- sh -c '{LOAD}'")),
        ("pipe", format!("perf record -q -a -o - -e {PERF_EVENTS} -- sh -c '{LOAD}' >pipe")),
    ] {
        if let Err(why) = shell(&record, dir.path()) {
            println!("skipped: perf does not record {name} here: {why}");
            continue;
        }
        let script = shell(&format!("perf script -i {name} -F event"), dir.path()).expect("perf script");
        let mut expected = BTreeMap::new();
        for event in script.lines().filter_map(|l| l.trim().strip_suffix(':')) {
            *expected.entry(event.to_owned()).or_default() += 1;
        }
        let mut order = Order::default();
        let mut reader = PerfReader::new(std::fs::read(dir.path().join(name)).unwrap());
        reader.run(&mut order);
        check(&reader.counts(), &expected, &order, name);
        let facts = reader.facts();
        assert!(!facts.hostname.is_empty() && !facts.kernel_release.is_empty() && facts.cpus > 0, "{facts:?}");
        let is_mono = name == "compressed";
        assert_eq!((facts.clock == "monotonic", facts.wall_offset_ns.is_some()), (is_mono, is_mono), "{facts:?}");
    }
}

/// `COMM-PID [CPU] SECONDS: EVENT: …`; the name of the event.
fn event_of(line: &str) -> Option<&str> {
    let mut parts = line.split("] ").skip(1);
    parts.find_map(|part| {
        let (time, rest) = part.trim_start().split_once(": ")?;
        let is_time = time.contains('.') && time.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        rest.trim_start().split_once(':').filter(|_| is_time).map(|(name, _)| name)
    })
}

#[test]
fn as_many_events_as_trace_cmd_report_says() {
    let dir = tempfile::tempdir().unwrap();
    // Kernels under lockdown refuse the function tracer's files, which trace-cmd opens without needing them: plain
    // files stand in their places while it runs, in a mount namespace of its own.
    let trace_cmd =
        "set -e; : >empty; echo 1 >one; [ -e /sys/kernel/tracing/trace ] || mount -t tracefs nodev /sys/kernel/tracing
        mount --bind one /proc/sys/kernel/ftrace_enabled
        for f in set_ftrace_filter set_ftrace_notrace set_graph_function set_graph_notrace set_ftrace_pid set_ftrace_notrace_pid; do
            mount --bind empty /sys/kernel/tracing/$f 2>/dev/null || :
        done
        exec trace-cmd \"$@\"";
    std::fs::write(dir.path().join("trace-cmd"), trace_cmd).unwrap();
    for (name, options) in [
        ("v6", "--file-version 6 -C local"),
        ("zstd", "--file-version 7 --compression zstd -C mono --date"),
        ("none", "--file-version 7 --compression none -C local"),
    ] {
        let record = format!(
            "unshare -m sh trace-cmd record -q -b 16384 -o {name} {options} -e sched -e irq -e timer -e net -e block sh -c '{LOAD}'"
        );
        if let Err(why) = shell(&record, dir.path()) {
            println!("skipped: trace-cmd does not record {name} here: {why}");
            continue;
        }
        let report = shell(&format!("trace-cmd report {name}"), dir.path()).expect("trace-cmd report");
        let mut expected: BTreeMap<String, u64> = BTreeMap::new();
        for event in report.lines().filter_map(event_of) {
            *expected.entry(event.to_owned()).or_default() += 1;
        }
        if expected.is_empty() {
            println!("skipped: trace-cmd recorded nothing into {name}");
            continue;
        }
        let mut order = Order::default();
        let mut reader = FtraceReader::new(std::fs::read(dir.path().join(name)).unwrap());
        reader.run(&mut order);
        let counts = reader.counts();
        // trace-cmd does not print the system
        let mut short: BTreeMap<String, u64> = BTreeMap::new();
        for (event, count) in &counts.events {
            *short.entry(event.split_once(':').unwrap().1.to_owned()).or_default() += count;
        }
        assert_eq!(short, expected, "{name}");
        check(&counts, &counts.events, &order, name);
        let facts = reader.facts();
        assert!(!facts.hostname.is_empty() && facts.arch == std::env::consts::ARCH && facts.cpus > 0, "{facts:?}");
        assert_eq!(facts.wall_offset_ns.is_some(), name == "zstd", "{facts:?}");
    }
}
