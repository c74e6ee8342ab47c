//! What hangs: real processes that wait for each other, and one that never answers.

use crate::harness::*;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Lines, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A helper that says its port, and takes another's.
struct Helper {
    child: Child,
    port: u16,
    to: ChildStdin,
    said: Lines<BufReader<ChildStdout>>,
}

impl Helper {
    /// The thread that asked, and of which descriptor it waits for the answer.
    fn asked(&mut self) -> (i32, i32) {
        let mut found = self.said.by_ref().map_while(Result::ok).filter_map(|l| {
            let (tid, fd) = l.split_once("tid ")?.1.split_once(" asks ")?;
            Some((tid.parse().ok()?, fd.trim().parse().ok()?))
        });
        found.next().expect("it says so")
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(name: &str, part: &str) -> Helper {
    let mut child = helper(name, part).stdout(Stdio::piped()).spawn().expect("it starts");
    let to = child.stdin.take().expect("a pipe");
    let mut said = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let lines = said.by_ref().map_while(Result::ok);
    let port = lines.filter_map(|l| l.split("port ").nth(1)?.trim().parse().ok()).next().expect("it says its port");
    Helper { child, port, to, said }
}

fn listen() -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    println!("port {}", listener.local_addr().expect("it is bound").port());
    listener
}

fn unended(folder: &std::path::Path) -> Value {
    let output = Command::new(binary()).args(["open", "--json"]).arg(folder).output().expect("the command starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("a document")
}

#[test]
fn a_deadlock_is_named() {
    const NAME: &str = "open::a_deadlock_is_named";
    if part().is_some() {
        let listener = listen();
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).expect("the other's port");
        let mut other = TcpStream::connect(("127.0.0.1", line.trim().parse().expect("a port"))).expect("it connects");
        let (mut from, _) = listener.accept().expect("it accepts");
        other.write_all(b"hello").expect("it is sent");
        from.read_exact(&mut [0; 5]).expect("it comes");
        // each asks, and waits for the answer instead of giving one
        println!("tid {} asks {}", gettid(), other.as_raw_fd());
        other.write_all(b"what is yours?").expect("it is sent");
        println!("it was asked"); // to a pipe, where nobody answers
        let _ = other.read(&mut [0; 10]);
        return;
    }
    for backend in BACKENDS {
        let (mut left, mut right) = (start(NAME, "left"), start(NAME, "right"));
        let dir = tempfile::tempdir().expect("a temporary folder");
        let pids = [left.child.id().to_string(), right.child.id().to_string()];
        let folder = dir.path().join("trace");
        let args = ["--pid", pids[0].as_str(), "--pid", &pids[1]];
        let Some(rec) = record_to(backend, &args, folder.clone()) else { continue };
        writeln!(left.to, "{}", right.port).expect("it listens");
        writeln!(right.to, "{}", left.port).expect("it listens");
        for helper in [&mut left, &mut right] {
            let (tid, fd) = helper.asked();
            until_asleep(tid, libc::SYS_recvfrom, Some(fd));
        }
        pause(100);
        rec.stop();
        let found = unended(&folder);
        let circle = &found["circles"][0];
        assert_eq!(circle["is_deadlock"], true, "{backend}: {found:#}");
        assert_eq!(circle["members"].as_array().map(Vec::len), Some(2), "{backend}: {circle:#}");
        assert_eq!(found["circles"].as_array().map(Vec::len), Some(1), "{backend}: {found:#}");
    }
}

#[test]
fn a_server_that_never_answers_has_the_request() {
    const NAME: &str = "open::a_server_that_never_answers_has_the_request";
    if part().is_some() {
        let listener = listen();
        let (mut from, _) = listener.accept().expect("it accepts");
        let _ = from.read(&mut [0; 1000]).expect("a request");
        // SAFETY: has no conditions.
        unsafe { libc::raise(libc::SIGSTOP) };
        return;
    }
    for backend in BACKENDS {
        let server = start(NAME, "server");
        let dir = tempfile::tempdir().expect("a temporary folder");
        let folder = dir.path().join("trace");
        let pid = server.child.id().to_string();
        let Some(rec) = record_to(backend, &["--pid", &pid], folder.clone()) else { continue };
        let mut asked = TcpStream::connect(("127.0.0.1", server.port)).expect("it connects");
        asked.write_all(b"GET /never HTTP/1.1\r\nHost: a\r\n\r\n").expect("it is sent");
        until("its stop", || {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            status.lines().any(|l| l.starts_with("State:\tT"))
        });
        pause(200);
        rec.stop();
        let found = unended(&folder);
        let request = &found["requests"][0];
        assert_eq!(request["kind"], "GET /never", "{backend}: {found:#}");
        assert!(request["age_ns"].as_u64() > Some(100_000_000), "{backend}: {request:#}");
        let waits = found["waits"].as_array().expect("a list");
        let holder = waits.iter().find(|w| w["holds"][0] == request["request"]).expect("somebody holds it");
        assert_eq!((&holder["waits_for"], &holder["task"]), (&Value::from("stopped"), &request["task"]), "{backend}");
        drop(asked);
    }
}
