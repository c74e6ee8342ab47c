//! Services that have too little of something, under more load than they can serve: the first screen must name what limits.

use crate::harness::*;
use crate::limits::bounded;
use crate::open::{Helper, listen, start};
use serde_json::Value;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::process::Command;
use std::time::{Duration, Instant};

/// Two processes that answer one request after another, on connections of their own.
fn serve(listener: &TcpListener, backlog: i32, work: fn()) {
    // SAFETY: changes the queue's length of a listener of our own.
    assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), backlog) }, 0);
    for _ in 0..2 {
        // SAFETY: the child goes on with what this thread has under a name of its own, and ends with its parent.
        let is_parent = unsafe {
            libc::fork() != 0
                || libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL)
                    + libc::prctl(libc::PR_SET_NAME, c"worker".as_ptr())
                    != 0
        };
        if !is_parent {
            answer(listener, work);
        }
    }
    wait_stdin();
}

fn answer(listener: &TcpListener, work: fn()) {
    for connection in listener.incoming() {
        let mut connection = connection.expect("a connection");
        if connection.read(&mut [0; 500]).is_ok_and(|n| n > 0) {
            work();
            let _ = connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n");
        }
    }
}

fn sleep() {
    pause(20);
}

/// Takes 10 ms of a processor.
fn compute() {
    let used = || {
        let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: writes one structure of ours.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut t) };
        Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
    };
    let until = used() + Duration::from_millis(10);
    while used() < until {}
}

/// So many clients ask again and again for so long, each time on another connection.
fn load(port: u16, clients: usize, seconds: u64) {
    let until = Instant::now() + Duration::from_secs(seconds);
    std::thread::scope(|s| {
        for _ in 0..clients {
            s.spawn(move || {
                while Instant::now() < until {
                    let Ok(mut to) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                    let _ = to.write_all(b"GET /work HTTP/1.1\r\nHost: a\r\n\r\n");
                    let _ = to.read_to_end(&mut Vec::new());
                }
            });
        }
    });
}

/// What the first screen says of limits when this server was recorded under load; `None` where nothing can be recorded. Where
/// other work of the machine came between, so that no replay fits, it is recorded again.
fn limits(server: &Helper, clients: usize) -> Option<Vec<String>> {
    const ATTEMPTS: usize = 3;
    let mut found = limits_once(server, clients)?;
    for _ in 1..ATTEMPTS {
        if !found.first().is_some_and(|s| s.starts_with("Not known")) {
            break;
        }
        found = limits_once(server, clients)?;
    }
    Some(found)
}

fn limits_once(server: &Helper, clients: usize) -> Option<Vec<String>> {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let folder = dir.path().join("trace");
    let port = server.port.to_string();
    let rec = record_to("auto", &["--port", &port], folder.clone())?;
    let _neighbour = full_queue();
    load(server.port, clients, 3);
    rec.stop();
    let output = Command::new(binary()).args(["triage", "--json"]).arg(&folder).output().expect("the command starts");
    let screen: Value = serde_json::from_slice(&output.stdout).expect("a document");
    let of_limits = |f: &&Value| f["section"] == "limits";
    let found = screen["findings"].as_array().expect("a list").iter().filter(of_limits);
    Some(found.filter_map(|f| f["sentence"].as_str().map(str::to_owned)).collect())
}

/// A listener of this process, which is not selected, and the connections that fill its queue.
fn full_queue() -> (TcpListener, [TcpStream; 2]) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    // SAFETY: changes how long the queue of an open socket may be.
    assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 1) }, 0);
    let at = listener.local_addr().expect("it has an address");
    (listener, [(); 2].map(|()| TcpStream::connect(at).expect("there is room for two")))
}

#[test]
fn two_busy_workers_are_named() {
    const NAME: &str = "saturated::two_busy_workers_are_named";
    if part().is_some() {
        return serve(&listen(), 64, sleep);
    }
    let server = start(NAME, "server");
    let Some(found) = limits(&server, 12) else { return };
    let is_right = |s: &String| s.contains(&format!("workers of worker:{} (2).", server.port));
    assert!(found.first().is_some_and(is_right), "{found:#?}");
}

#[test]
fn an_accept_queue_that_fills_up_is_named() {
    const NAME: &str = "saturated::an_accept_queue_that_fills_up_is_named";
    if part().is_some() {
        return serve(&listen(), 2, sleep);
    }
    let server = start(NAME, "server");
    let Some(found) = limits(&server, 12) else { return };
    let named = format!(":{} (room for 3) filled up ", server.port);
    let is_right = |s: &String| s.contains(&named) && s.contains("Clients on this host had to retry at least");
    assert!(found.first().is_some_and(is_right), "{found:#?}");
}

#[test]
fn a_used_up_quota_is_named() {
    const NAME: &str = "saturated::a_used_up_quota_is_named";
    if part().is_some() {
        let listener = listen();
        // it is in its cgroup before it makes the other process
        wait_stdin();
        return serve(&listener, 64, compute);
    }
    let Some(cgroup) = bounded("wakepath-saturated") else { return skip("no cgroup with a quota can be made here") };
    let mut server = start(NAME, "server");
    fs::write(cgroup.0.join("cgroup.procs"), server.child.id().to_string()).expect("it is put there");
    server.to.write_all(b"x").expect("it waits for that");
    let Some(found) = limits(&server, 8) else { return };
    // 0.3, or the little more that was used: the kernel hands out a quota in slices
    let named = format!("CPU quota of worker:{} (0.3", server.port);
    let is_right = |s: &String| s.contains(&named);
    assert!(found.first().is_some_and(is_right), "{found:#?}");
}

/// What `requests` says of replies that TCP held back, of a server that writes each in three pieces.
fn held_replies(server: &Helper) -> Option<Vec<Value>> {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let folder = dir.path().join("trace");
    let pid = server.child.id().to_string();
    let rec = record_to(BACKENDS[0], &["--pid", &pid], folder.clone())?;
    let mut to = TcpStream::connect(("127.0.0.1", server.port)).expect("it connects");
    for _ in 0..ASKED {
        to.write_all(b"GET /pieces HTTP/1.1\r\nHost: a\r\n\r\n").expect("it is sent");
        let mut reply = Vec::new();
        while !reply.ends_with(b"ok\n") {
            let mut piece = [0; 100];
            let n = to.read(&mut piece).expect("a reply");
            assert_ne!(n, 0, "it stays open");
            reply.extend_from_slice(&piece[..n]);
        }
    }
    rec.stop();
    let output = Command::new(binary()).args(["requests", "--json"]).arg(&folder).output().expect("the command starts");
    let found: Value = serde_json::from_slice(&output.stdout).expect("a document");
    assert!(found["requests"].as_u64() >= Some(ASKED), "{found:#}");
    Some(found["held_replies"].as_array().expect("a list").clone())
}

const ASKED: u64 = 60;

#[test]
fn replies_that_nagles_algorithm_holds_back_from_an_unrecorded_client_are_told() {
    const NAME: &str = "saturated::replies_that_nagles_algorithm_holds_back_from_an_unrecorded_client_are_told";
    if let Some(part) = part() {
        let (mut to, _) = listen().accept().expect("a client");
        to.set_nodelay(part == "at once").expect("an option");
        while to.read(&mut [0; 500]).is_ok_and(|n| n > 0) {
            for piece in ["HTTP/1.1 200 OK\r\n", "Content-Length: 3\r\n\r\n", "ok\n"] {
                let _ = to.write_all(piece.as_bytes());
            }
        }
        return;
    }
    let Some(found) = held_replies(&start(NAME, "held")) else { return };
    let [one] = &found[..] else { panic!("one service: {found:#?}") };
    // the kernel acknowledges a connection's first segments at once
    assert!(one["held"].as_u64() > Some(ASKED / 3) && one["replies"] == ASKED - 1, "{one:#}");
    assert!(one["sentence"].as_str().is_some_and(|s| s.contains("Nagle")), "{one:#}");
    assert_eq!(held_replies(&start(NAME, "at once")), Some(Vec::new()), "TCP_NODELAY");
}

/// A service that answers twice, then accepts and closes without reading, as one does that drains: no request shows that. A client that
/// sends nothing, as a check whether somebody listens, lost nothing.
#[test]
fn connections_that_are_closed_unread_are_told() {
    const NAME: &str = "saturated::connections_that_are_closed_unread_are_told";
    if part().is_some() {
        let listener = listen();
        for n in 0.. {
            let Ok((mut to, _)) = listener.accept() else { return };
            if n < 2 {
                let _ = to.read(&mut [0; 500]);
                let _ = to.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            } else if n < 4 {
                // these two are left by their clients
                let _ = to.read(&mut [0; 500]);
            }
        }
        return;
    }
    let server = start(NAME, "drains");
    let dir = tempfile::tempdir().expect("a temporary folder");
    let folder = dir.path().join("trace");
    let pid = server.child.id().to_string();
    let Some(rec) = record_to(BACKENDS[0], &["--pid", &pid], folder.clone()) else { return };
    for n in 0..7 {
        let mut to = TcpStream::connect(("127.0.0.1", server.port)).expect("it connects");
        if !(2..4).contains(&n) {
            let _ = to.write_all(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
            let _ = to.read_to_end(&mut Vec::new());
        }
    }
    rec.stop();
    let output = Command::new(binary()).args(["requests", "--json"]).arg(&folder).output().expect("the command starts");
    let found: Value = serde_json::from_slice(&output.stdout).expect("a document");
    let unread = &found["closed_unread"];
    assert_eq!((&unread[0]["closed"], &unread[0]["accepted"]), (&Value::from(3), &Value::from(7)), "{unread:#}");
    assert_eq!(unread.as_array().map(Vec::len), Some(1));
}
