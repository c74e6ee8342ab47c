//! Small runs in every model and policy: the truth parses, is complete, and is a tree; nothing is left running.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;

const MODELS: [&str; 9] = [
    "process",
    "thread",
    "dispatcher",
    "eventloop",
    "seda",
    "workqueue",
    "workqueue --reply-by reader",
    "tokio",
    "iouring",
];
const POLICIES: [&str; 4] = ["", "--keepalive", "--pooled 3", "--pipelined 4"];
const REQUESTS: u64 = 60;
/// Longer than anything here takes, on a machine however busy.
const PATIENCE: Duration = Duration::from_secs(120);

fn vapp(line: &str, truth: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_vapp"))
        .args(["run", "--sessions", "6", "--timeout", "200", "--json", "--seed", "7", "--truth"])
        .arg(truth)
        .args(["--requests", &REQUESTS.to_string()])
        .args(line.split_whitespace())
        .output()
        .unwrap()
}

/// What must be the same in every model: hop, parent and component below the root.
type Trees = BTreeMap<u64, Vec<(u64, u64, String)>>;

/// Runs, checks everything that can be checked of a single run, and returns the trees and the truth.
fn checked(line: &str) -> (Trees, Vec<Value>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("truth.jsonl");
    let output = vapp(line, &path);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{line}: {}{}", text(&output.stdout), text(&output.stderr));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["errors"], 0, "{line}");

    let file = std::fs::read_to_string(&path).unwrap();
    let mut lines = file.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let header = lines.next().unwrap();
    assert_eq!(header["format"], "wakepath-truth");
    assert_eq!(header["version"], 1);
    assert_eq!(header["clock"], "CLOCK_MONOTONIC");
    let requests: Vec<Value> = lines.collect();
    assert_eq!(requests.len() as u64, REQUESTS, "{line}");
    let (mut trees, mut count) = (Trees::new(), 0);
    for request in &requests {
        assert_eq!(request["ok"], true);
        let tree = check_tree(line, request);
        count += tree.len() as u64;
        assert!(trees.insert(request["request"].as_u64().unwrap(), tree).is_none(), "{line}: a request twice");
    }
    assert_eq!(trees.keys().copied().collect::<Vec<_>>(), (1..=REQUESTS).collect::<Vec<_>>());
    assert_eq!(summary["hops"], count, "{line}");
    check_connections(line, &requests);
    (trees, requests)
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("{name} in {value}"))
}

fn check_tree(line: &str, request: &Value) -> Vec<(u64, u64, String)> {
    let hops: HashMap<u64, &Value> =
        request["hops"].as_array().unwrap().iter().map(|h| (number(h, "hop"), h)).collect();
    assert_eq!(hops.len(), request["hops"].as_array().unwrap().len(), "{line}: a hop twice in {request}");
    let mut tree = Vec::new();
    for (id, hop) in &hops {
        let parent = number(hop, "parent");
        let send = |h: &Value, n: usize| h["send_ns"][n].as_u64().unwrap();
        assert!(send(hop, 0) <= send(hop, 1), "{line}: {hop}");
        assert!(send(hop, 0) < number(hop, "reply_ns"), "{line}: {hop}");
        // one clock: a call lies within the call that it was made for
        let (from, to) = match hops.get(&parent) {
            Some(parent) => (send(parent, 0), number(parent, "reply_ns")),
            None => (number(request, "start_ns"), number(request, "end_ns")),
        };
        assert!(parent == 0 || hops.contains_key(&parent), "{line}: no parent of {hop}");
        assert!(from <= send(hop, 0) && number(hop, "reply_ns") <= to, "{line}: {hop} outside its parent");
        tree.push((*id, parent, hop["component"].as_str().unwrap().to_owned()));
    }
    assert_eq!(tree.iter().filter(|(_, parent, _)| *parent == 0).count(), 1, "{line}: one root in {request}");
    tree.sort();
    tree
}

/// On each connection the messages follow each other without a gap, so `conn_bytes` and `len` are right together.
fn check_connections(line: &str, requests: &[Value]) {
    let mut flows = HashMap::<_, Vec<_>>::new();
    for hop in requests.iter().flat_map(|r| r["hops"].as_array().unwrap()) {
        let end = |name: &str| hop[name].as_str().unwrap().to_owned();
        let message = (hop["send_ns"][0].as_u64().unwrap(), number(hop, "conn_bytes"), number(hop, "len"));
        flows.entry((end("client"), end("server"))).or_default().push(message);
    }
    for (flow, mut messages) in flows {
        messages.sort_unstable();
        let mut at = 0;
        for (_, conn_bytes, len) in messages {
            // a port that is used again begins at 0
            assert!(conn_bytes == at || conn_bytes == 0, "{line}: {flow:?} has {conn_bytes} where {at} was written");
            at = conn_bytes + len;
        }
    }
}

fn connections(requests: &[Value]) -> usize {
    let hops = requests.iter().flat_map(|r| r["hops"].as_array().unwrap());
    hops.filter(|h| number(h, "conn_bytes") == 0).count()
}

/// Every policy in one model; the trees are the same everywhere.
fn all_policies(model: &str) {
    let common = "--partial 0.3 --think-us 0..300 --work-us 0..50";
    let (reference, _) = checked(&format!("--model thread {common}"));
    for policy in POLICIES {
        if model == "process" && policy.starts_with("--pooled") {
            continue;
        }
        for extra in ["", "--wire raw --split-writes --payload 0..3000"] {
            let (trees, requests) = checked(&format!("--model {model} {policy} {common} {extra}"));
            let hops: usize = trees.values().map(Vec::len).sum();
            match policy {
                "" => assert_eq!(connections(&requests), hops, "{model}: a connection per call"),
                _ => assert!(connections(&requests) < hops, "{model} {policy}: connections are used again"),
            }
            if policy.starts_with("--pooled") {
                assert!(connections(&requests) <= 3 * (2 + 4 + 4), "{model}: {} connections", connections(&requests));
            }
            if !policy.starts_with("--pipelined") {
                assert_eq!(trees, reference, "{model} {policy} {extra}");
            }
            let parts = |h: &Value| number(h, "reply_parts");
            let hops = || requests.iter().flat_map(|r| r["hops"].as_array().unwrap());
            assert!(hops().any(|h| parts(h) == 2) && hops().any(|h| parts(h) == 1), "partial replies");
        }
    }
}

macro_rules! models {
    ($($test:ident $index:literal),*) => {$(
        #[test]
        fn $test() {
            all_policies(MODELS[$index]);
        }
    )*};
}

models!(process 0, thread 1, dispatcher 2, eventloop 3, seda 4, workqueue 5, workqueue_reader 6, tokio 7, iouring 8);

#[test]
fn http_with_split_writes_in_every_model() {
    for model in MODELS {
        checked(&format!("--model {model} --keepalive --split-writes --payload 0..3000 --partial 0.5"));
    }
}

#[test]
fn mixed_models_and_deep_trees() {
    checked("--model thread,eventloop,process --keepalive");
    checked("--model iouring,seda,tokio,dispatcher,workqueue --tiers 5 --pooled 2 --depth-prob 0.5");
}

#[test]
fn large_messages_fill_socket_buffers() {
    for model in MODELS {
        checked(&format!("--model {model} --keepalive --tiers 2 --payload 0..3000000 --depth-prob 0.3"));
    }
}

#[test]
fn wrong_use_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let truth = folder.path().join("truth.jsonl");
    for line in [
        "--model process --pooled 2",
        "--model thread,thread",
        "--keepalive --pooled 2",
        "--think-us 9..3",
        "--base-port 65534",
        "--pipelined 8 --payload 100000",
    ] {
        assert_eq!(vapp(line, &truth).status.code(), Some(2), "{line}");
    }
}

/// A run that ends with the test, also when the test fails.
struct Run(std::process::Child);

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Processes whose command line mentions `mark`, as numbers.
fn processes(mark: &str) -> HashSet<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains(mark)))
        .collect()
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn ready_and_start_files_and_nothing_survives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let (ready, start) = (folder.path().join("ready"), folder.path().join("start"));
    let seed = format!("--seed={}", 1_000_000_000 + u64::from(std::process::id()));
    let begin = || {
        let _ = std::fs::remove_file(&ready);
        let child = Command::new(env!("CARGO_BIN_EXE_vapp"))
            .args(["run", "--model=process,thread,seda", "--requests=10", "--timeout=200", &seed, "--keepalive"])
            .args(["--ready-file".as_ref(), ready.as_os_str(), "--start-file".as_ref(), start.as_os_str()])
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        Run(child)
    };

    let mut run = begin();
    until("the ready file", || ready.exists());
    let text: Value = serde_json::from_slice(&std::fs::read(&ready).unwrap()).unwrap();
    let names: Vec<_> = text["servers"].as_array().unwrap().iter().map(|s| s["component"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 6);
    for server in text["servers"].as_array().unwrap() {
        let comm = std::fs::read_to_string(format!("/proc/{}/comm", server["pid"])).unwrap();
        assert_eq!(comm.trim_end(), server["component"].as_str().unwrap());
    }
    until("servers, and the accepting processes of the process model", || processes(&seed).len() >= 6 + 1 + 4);
    run.0.kill().unwrap();
    run.0.wait().unwrap();
    until("all processes end after a kill", || processes(&seed).is_empty());

    let mut run = begin();
    until("the ready file", || ready.exists());
    std::fs::write(&start, "").unwrap();
    assert!(run.0.wait().unwrap().success());
    until("all processes end after a run", || processes(&seed).is_empty());
}

/// How often the tasks of a process group waited so far.
fn waits_of_group(group: i64) -> u64 {
    let is_its = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let (_, rest) = stat.rsplit_once(')').unwrap_or_default();
        rest.split_whitespace().nth(2) == Some(&group.to_string())
    };
    let tasks = processes("").into_iter().filter(is_its);
    let tasks = tasks.flat_map(|pid| std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten());
    let waits = |status: String| {
        status.lines().find_map(|l| l.strip_prefix("voluntary_ctxt_switches:")?.trim().parse::<u64>().ok())
    };
    tasks.filter_map(|t| waits(std::fs::read_to_string(t.path().join("status")).ok()?)).sum()
}

/// A server that dies in the middle costs errors, in every model, and neither hangs nor truth that is wrong.
#[test]
fn a_dying_server_is_counted() {
    // of so many when nobody dies: about a thousand
    const WAITS: u64 = 100;
    for (model, policy) in MODELS.iter().flat_map(|model| [(model, "--keepalive"), (model, "--pooled 3")]) {
        if *model == "process" && policy == "--pooled 3" {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let (ready, truth) = (folder.path().join("ready"), folder.path().join("truth"));
        let child = Command::new(env!("CARGO_BIN_EXE_vapp"))
            .args(["run", "--sessions=8", "--requests=400", "--think-us=1000", "--timeout=200", "--json"])
            .args(format!("--model {model} {policy}").split(' '))
            .args(["--ready-file".as_ref(), ready.as_os_str(), "--truth".as_ref(), truth.as_os_str()])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut run = Run(child);
        until("the ready file", || ready.exists());
        let text: Value = serde_json::from_slice(&std::fs::read(&ready).unwrap()).unwrap();
        let last = text["servers"].as_array().unwrap().last().unwrap()["pid"].as_i64().unwrap();
        until("work of its last server", || waits_of_group(last) > WAITS || run.0.try_wait().unwrap().is_some());
        assert!(Command::new("kill").args(["-9", "--", &format!("-{last}")]).status().unwrap().success());
        until("its end", || run.0.try_wait().unwrap().is_some());
        let status = run.0.wait().unwrap();
        assert_eq!(status.code(), Some(1), "{model} {policy}");
        let summary: Value = serde_json::from_reader(run.0.stdout.take().unwrap()).unwrap();
        let file = std::fs::read_to_string(&truth).unwrap();
        let requests: Vec<Value> = file.lines().skip(1).map(|l| serde_json::from_str(l).unwrap()).collect();
        assert_eq!(requests.len(), 400, "{model} {policy}");
        let wrong = requests.iter().filter(|r| r["ok"] == false).count() as u64;
        assert!(wrong > 0 && wrong < 400 && summary["errors"] == wrong, "{model} {policy}: {wrong} of {summary}");
    }
}

#[test]
fn a_run_that_takes_too_long_fails() {
    let started = Instant::now();
    let output = Command::new(env!("CARGO_BIN_EXE_vapp"))
        .args(["run", "--requests=1000000", "--think-us=100000", "--timeout=1"])
        .output()
        .unwrap();
    assert!(!output.status.success());
    // of what is asked for, a thousandth part takes longer
    assert!(started.elapsed() < PATIENCE);
}

#[test]
fn echo_measures() {
    let output = Command::new(env!("CARGO_BIN_EXE_vapp"))
        .args(["echo-client", "--threads=5", "--seconds=0.3"])
        .output()
        .unwrap();
    assert!(output.status.success());
    let line: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(line["round_trips"].as_u64().unwrap() >= 5, "one each at least");
    assert!(line["server_cpu_seconds"].as_f64().unwrap() > 0.0);
}
