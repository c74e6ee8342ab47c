//! Logical tasks of real runtimes: a service in Go, or on Python's asyncio, serves many connections on few threads, and each of
//! its calls must be found at the request whose handler made it.

use crate::harness::*;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Barrier};
use std::time::Duration;
use wakepath_causality::reconstruct;
use wakepath_causality::request::Request;
use wakepath_model::folder::Folder;
use wakepath_model::rows::runtime;

const CLIENTS: usize = 8;
const REQUESTS: usize = 25;

fn root() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../.."].iter().collect()
}

/// The service, built by the Go that scripts/install brings; `None` (and why) where there is none.
fn service() -> Option<PathBuf> {
    let own = root().join("target/venv/bin/go");
    let go = if own.exists() { own } else { "go".into() };
    let out = root().join("target/goroutines/service");
    // not stripped, then stripped: both must be read
    let built = Command::new(&go)
        .args(["build", "-trimpath", "-ldflags=-s -w", "-o"])
        .arg(&out)
        .arg(".")
        .current_dir(root().join("testbeds/goroutines"))
        .env("GOTOOLCHAIN", "local")
        .env("GOCACHE", root().join("target/goroutines/cache"))
        .env("GOFLAGS", "-mod=mod")
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
struct Server(Child, u16);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn serve(program: &[PathBuf], args: &[&str]) -> Server {
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

/// Asks on kept connections, all at once; a second time when each had its first reply.
fn ask(port: u16) {
    let met = Arc::new(Barrier::new(CLIENTS));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let met = Arc::clone(&met);
            std::thread::spawn(move || {
                let mut to = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
                to.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
                for request in 0..REQUESTS {
                    let name = word(client, request);
                    write!(to, "GET /x/{name} HTTP/1.1\r\nHost: x\r\n\r\n").expect("sent");
                    let (mut reply, mut part) = (Vec::new(), [0; 4096]);
                    while !reply.ends_with(format!("\r\n\r\n{name}").as_bytes()) {
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
fn paths(folder: &std::path::Path) -> BTreeMap<String, (Vec<String>, bool)> {
    let folder = Folder::open(&[folder]).expect("it can be read");
    let mut requests: Vec<Request> = Vec::new();
    reconstruct(&folder, |r| requests.push(r), |_, _, _, _| {});
    let host = &folder.hosts()[0];
    let mut out = BTreeMap::new();
    for r in &requests {
        let target = |i: usize| {
            let half = r.spans[i].callee.as_ref().or(r.spans[i].caller.as_ref()).expect("one side is watched");
            host.text(half.exchange.target).to_owned()
        };
        if target(0).starts_with("/x/") {
            out.insert(target(0), ((1..r.spans.len()).map(target).collect(), r.is_complete()));
        }
    }
    out
}

/// Every call of a request of `kind` is found at it: so many each.
fn check(program: &[PathBuf], kind: &str, args: &[&str], calls_each: usize, by: u8) {
    let down = serve(program, &["down"]);
    let service = serve(program, &[kind, &down.1.to_string()]);
    let pids = [&service, &down].map(|s| s.0.id().to_string());
    let Some(mut recording) = record_as("auto", &[&["--pid", &pids[0], "--pid", &pids[1]], args].concat()) else {
        return;
    };
    ask(service.1);
    recording.signal(libc::SIGINT);
    assert_eq!(recording.wait(Duration::from_secs(60)), 0, "{}", recording.said());
    let trace = recording.read();
    let logical = trace.tasks.iter().filter(|t| t.runtime == by).count();
    assert!(logical >= CLIENTS, "{logical} logical tasks; {}", recording.said());
    let found = paths(&recording.folder);
    assert_eq!(found.len(), CLIENTS * REQUESTS, "each request once");
    for (target, (calls, is_whole)) in &found {
        let down = target.replace("/x/", "/down/");
        assert!(calls.iter().all(|call| *call == down), "{target}: {calls:?}");
        assert!(calls.len() == calls_each && *is_whole, "{target}: {calls:?}");
    }
    assert_eq!(trace.lost("runtime.refuted"), 0);
}

fn check_go(kind: &str, args: &[&str]) {
    let Some(program) = service() else { return };
    check(&[program], kind, args, 1, runtime::GO);
}

fn check_python(kind: &str) {
    let python = PathBuf::from("/usr/bin/python3");
    let version = Command::new(&python).args(["-c", "import sys; print(sys.version_info[1])"]).output();
    let minor: u32 =
        version.ok().and_then(|o| String::from_utf8_lossy(&o.stdout).trim().parse().ok()).unwrap_or_default();
    if !(11..=13).contains(&minor) {
        return skip(&format!("the layout of CPython 3.{minor} is not known; 3.11 to 3.13 are"));
    }
    let service = root().join("testbeds/contexts/service.py");
    check(&[python, service], kind, &["--runtimes=python"], 2, runtime::PYTHON);
}

#[test]
fn what_a_goroutine_does_is_for_the_request_that_it_serves() {
    check_go("raw", &[]);
}

#[test]
fn a_connection_of_the_http_client_works_for_the_goroutine_that_took_it() {
    check_go("client", &["--runtimes=go"]);
}

#[test]
fn what_a_task_of_asyncio_does_is_for_the_request_that_it_was_made_for() {
    check_python("task");
}

#[test]
fn what_tasks_in_tasks_do_is_for_the_request_of_the_first() {
    check_python("layers");
}

#[test]
fn a_task_of_asyncio_that_serves_a_connection_works_for_its_requests() {
    check_python("connection");
}
