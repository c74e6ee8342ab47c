//! What hangs: real processes that wait for each other, and one that never answers.

use crate::harness::*;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Lines, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use wakepath_model::defects::id as defect;

/// A helper that says its port, and takes another's.
pub struct Helper {
    pub child: Child,
    pub port: u16,
    pub to: ChildStdin,
    said: Lines<BufReader<ChildStdout>>,
}

impl Helper {
    /// The thread that asked, and of which descriptor it waits for the answer.
    pub fn asked(&mut self) -> (i32, i32) {
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

pub fn start(name: &str, part: &str) -> Helper {
    let mut child = helper(name, part).stdout(Stdio::piped()).spawn().expect("it starts");
    let to = child.stdin.take().expect("a pipe");
    let mut said = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let lines = said.by_ref().map_while(Result::ok);
    let port = lines.filter_map(|l| l.split("port ").nth(1)?.trim().parse().ok()).next().expect("it says its port");
    Helper { child, port, to, said }
}

pub fn listen() -> TcpListener {
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
        assert!(request["kind"].as_str().is_some_and(|k| k.starts_with("GET /")), "{backend}: {found:#}");
        assert!(request["age_ns"].as_u64() > Some(100_000_000), "{backend}: {request:#}");
        let waits = found["waits"].as_array().expect("a list");
        let holder = waits.iter().find(|w| w["holds"][0] == request["request"]).expect("somebody holds it");
        assert_eq!((&holder["waits_for"], &holder["task"]), (&Value::from("stopped"), &request["task"]), "{backend}");
        drop(asked);
    }
}

#[test]
fn a_server_that_is_killed_is_told_with_the_request_that_it_had() {
    const NAME: &str = "open::a_server_that_is_killed_is_told_with_the_request_that_it_had";
    if part().is_some() {
        let (mut from, _) = listen().accept().expect("it accepts");
        let _ = from.read(&mut [0; 1000]).expect("a request");
        // SAFETY: has no conditions.
        unsafe { libc::raise(libc::SIGKILL) };
        return;
    }
    for backend in BACKENDS {
        let mut server = start(NAME, "server");
        let dir = tempfile::tempdir().expect("a temporary folder");
        let folder = dir.path().join("trace");
        let pid = server.child.id();
        let Some(rec) = record_to(backend, &["--pid", &pid.to_string()], folder.clone()) else { continue };
        let mut asked = TcpStream::connect(("127.0.0.1", server.port)).expect("it connects");
        asked.write_all(b"GET /never HTTP/1.1\r\nHost: a\r\n\r\n").expect("it is sent");
        server.child.wait().expect("it ends");
        // until its end of the connection is gone too
        let _ = asked.read(&mut [0; 10]);
        rec.stop();
        let output =
            Command::new(binary()).args(["requests", "--json"]).arg(&folder).output().expect("the command starts");
        let found: Value = serde_json::from_slice(&output.stdout).expect("a document");
        let ended = &found["ended"][0];
        let process = ended["process"].as_str().unwrap_or_default();
        assert!(process.ends_with(&format!("/{pid}")), "{backend}: {found:#}");
        assert_eq!(
            (&ended["signal"], &ended["unanswered"]),
            (&Value::from(9), &Value::from(1)),
            "{backend}: {ended:#}"
        );
        assert_eq!(ended["out_of_memory"], false, "{backend}: nobody was out of memory");
    }
}

#[test]
fn what_hung_before_the_recording_is_known() {
    const NAME: &str = "open::what_hung_before_the_recording_is_known";
    match part().as_deref() {
        Some("front") => {
            let listener = listen();
            let mut line = String::new();
            std::io::stdin().read_line(&mut line).expect("the other's port");
            // one that was answered, and is kept
            let (mut kept, _) = listener.accept().expect("it accepts");
            kept.read_exact(&mut [0; 4]).expect("a request");
            kept.write_all(b"pong").expect("it is sent");
            // one that was asked again as soon as it had answered
            let (mut again, _) = listener.accept().expect("it accepts");
            again.read_exact(&mut [0; 4]).expect("a request");
            again.write_all(b"pong").expect("it is sent");
            again.read_exact(&mut [0; 4]).expect("the next one");
            let (mut from, _) = listener.accept().expect("it accepts");
            let _ = from.read(&mut [0; 100]).expect("a request");
            let mut back =
                TcpStream::connect(("127.0.0.1", line.trim().parse().expect("a port"))).expect("it connects");
            println!("tid {} asks {}", gettid(), back.as_raw_fd());
            back.write_all(b"what is yours?").expect("it is sent");
            let _ = back.read(&mut [0; 10]);
            return;
        }
        Some(_) => {
            let listener = listen();
            let (mut from, _) = listener.accept().expect("it accepts");
            let _ = from.read(&mut [0; 100]).expect("a request");
            pause(1_000_000);
            return;
        }
        None => {}
    }
    for backend in BACKENDS {
        let (mut front, back) = (start(NAME, "front"), start(NAME, "back"));
        writeln!(front.to, "{}", back.port).expect("it listens");
        let connect = || TcpStream::connect(("127.0.0.1", front.port)).expect("it connects");
        let mut kept = connect();
        kept.write_all(b"ping").expect("it is sent");
        kept.read_exact(&mut [0; 4]).expect("the answer");
        let mut again = connect();
        again.write_all(b"ping").expect("it is sent");
        again.read_exact(&mut [0; 4]).expect("the answer");
        again.write_all(b"ping").expect("it is sent");
        let mut hung = connect();
        hung.write_all(b"GET /hung HTTP/1.1\r\n\r\n").expect("it is sent");
        let (tid, fd) = front.asked();
        until_asleep(tid, libc::SYS_recvfrom, Some(fd));
        // its client gives up: the connection is still one that was open, and a FIN is no byte that nobody read
        hung.shutdown(Shutdown::Write).expect("it is closed");
        pause(1000);
        let dir = tempfile::tempdir().expect("a temporary folder");
        let folder = dir.path().join("trace");
        let pids = [front.child.id().to_string(), back.child.id().to_string()];
        let args = ["--pid", pids[0].as_str(), "--pid", &pids[1]];
        let Some(rec) = record_to(backend, &args, folder.clone()) else { continue };
        pause(100);
        rec.stop();
        let found = unended(&folder);
        let before = found["before"].as_array().expect("a list");
        let asked: Vec<&Value> = before.iter().filter(|b| b["is_asked"] == true).collect();
        let mine = format!(":{}", front.port);
        assert_eq!(asked.len(), 3, "{backend}: two of front's clients and front wait: {before:#?}");
        let given_up: Vec<&Value> = asked.iter().filter(|b| b["is_given_up"] == true).map(|b| &b["unread"]).collect();
        assert_eq!(given_up, [0], "{backend}: all of it was read: {asked:#?}");
        let waits_since = |b: &&&Value| b["age_ns"].as_u64() > Some(1_000_000_000);
        assert_eq!(asked.iter().filter(waits_since).count(), 3, "{backend}: {asked:#?}");
        assert!(
            asked.iter().any(|b| b["process"].as_str().is_some_and(|p| p.ends_with(&mine))),
            "{backend}: {asked:#?}"
        );
        assert_eq!(found["before_unknown"], 0, "{backend}: {found:#}");
        assert_eq!(found["open_before"], 4, "{backend}: the kept ones, the hung one, and what it asks");
        // and what its task has waited for since
        let waits = found["waits"].as_array().expect("a list");
        let wait = waits.iter().find(|w| w["task"].as_str().is_some_and(|t| t.ends_with(&format!("/{tid}"))));
        let wait = wait.unwrap_or_else(|| panic!("{backend}: {found:#}"));
        assert!(wait["age_ns"].as_u64() > Some(1_000_000_000), "{backend}: {wait:#}");
        assert_eq!(wait["awaited"][0]["address"], format!("127.0.0.1:{}", back.port), "{backend}: {wait:#}");
        drop((kept, again, hung));
    }
}

#[test]
fn a_full_accept_queue_is_named_with_its_length() {
    const NAME: &str = "open::a_full_accept_queue_is_named_with_its_length";
    match part().as_deref() {
        Some("server") => {
            let listener = listen();
            // SAFETY: changes the queue's length of a listener of our own.
            assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 1) }, 0);
            wait_stdin();
            return;
        }
        Some(_) => {
            println!("port 0");
            let mut line = String::new();
            std::io::stdin().read_line(&mut line).expect("the other's port");
            let port: u16 = line.trim().parse().expect("a port");
            let ask = move || {
                println!("tid {} asks 0", gettid());
                let mut to = TcpStream::connect(("127.0.0.1", port)).expect("it connects");
                to.write_all(b"GET /queued HTTP/1.1\r\n\r\n").expect("it is sent");
                let _ = to.read(&mut [0; 100]);
            };
            for _ in 0..3 {
                std::thread::spawn(ask);
                pause(50);
            }
            wait_stdin();
            return;
        }
        None => {}
    }
    for backend in BACKENDS {
        let (server, mut client) = (start(NAME, "server"), start(NAME, "client"));
        let dir = tempfile::tempdir().expect("a temporary folder");
        let folder = dir.path().join("trace");
        let pids = [server.child.id().to_string(), client.child.id().to_string()];
        let args = ["--pid", pids[0].as_str(), "--pid", &pids[1]];
        let Some(rec) = record_to(backend, &args, folder.clone()) else { continue };
        writeln!(client.to, "{}", server.port).expect("it listens");
        let tids = [(); 3].map(|()| client.asked().0);
        for (tid, call) in tids.into_iter().zip([libc::SYS_recvfrom, libc::SYS_recvfrom, libc::SYS_connect]) {
            until_asleep(tid, call, None);
        }
        pause(100);
        rec.stop();
        let found = unended(&folder);
        let full = &found["full_queues"][0];
        let name = |v: &Value| v["listener"].as_str().is_some_and(|l| l.ends_with(&format!(":{}", server.port)));
        assert!(name(full) && full["waiting"] == 2 && full["room"] == 2, "{backend}: {found:#}");
        let waits = found["waits"].as_array().expect("a list");
        let queue_of = |tid: i32| {
            let of = waits.iter().find(|w| w["task"].as_str().is_some_and(|t| t.ends_with(&format!("/{tid}"))));
            of.map_or(Value::Null, |w| w["awaited"][0]["queue"].clone())
        };
        for (tid, is_in) in tids.into_iter().zip([true, true, false]) {
            let queue = queue_of(tid);
            assert!(name(&queue) && queue["is_full"] == true && queue["is_in"] == is_in, "{backend} {tid}: {found:#}");
        }
        drop(client);
        drop(server);
    }
}

#[test]
fn live_traffic_at_the_start_is_no_loss() {
    const NAME: &str = "open::live_traffic_at_the_start_is_no_loss";
    if part().is_some() {
        let listener = listen();
        for _ in 0..8 {
            let mut to = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it connects");
            let (mut from, _) = listener.accept().expect("it accepts");
            std::thread::spawn(move || {
                let mut piece = [0; 64];
                while from.read_exact(&mut piece).is_ok() && from.write_all(&piece).is_ok() {}
            });
            std::thread::spawn(move || {
                let mut piece = [7; 64];
                while to.write_all(&piece).is_ok() && to.read_exact(&mut piece).is_ok() {
                    pause(1);
                }
            });
        }
        wait_stdin();
        return;
    }
    for backend in BACKENDS {
        let busy = start(NAME, "busy");
        pause(50);
        let dir = tempfile::tempdir().expect("a temporary folder");
        let folder = dir.path().join("trace");
        let pid = busy.child.id().to_string();
        let Some(rec) = record_to(backend, &["--pid", &pid], folder.clone()) else { continue };
        pause(100);
        let trace = rec.stop();
        assert!(trace.ops.len() > 100, "{backend}: it was busy");
        assert_eq!(trace.lost(defect::RANGE_GAP), 0, "{backend}: of {} operations", trace.ops.len());
    }
}
