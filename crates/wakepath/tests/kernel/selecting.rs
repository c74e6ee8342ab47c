//! A selection is a rule that holds while the recording runs: who comes to fit it later is recorded too, from its first message on.

use crate::harness::*;
use crate::runtimes;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use wakepath_model::rows::{Life, OpKind, RuntimeKind};

/// A process that serves one TCP connection, or one datagram, at a port.
struct Server {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Server {
    fn start(mut command: Command) -> Server {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("it starts");
        let said = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut server = Server { child, said };
        server.hears("up");
        server
    }

    fn python(program: &str) -> Server {
        Server::start(python(program))
    }

    fn hears(&mut self, word: &str) {
        let mut line = String::new();
        self.said.read_line(&mut line).expect("it speaks");
        assert_eq!(line.trim(), word);
    }

    fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Stops the server, once it has served what it was asked.
    fn end(&mut self) {
        self.child.kill().expect("it is ours");
        self.child.wait().expect("it ended");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn python(program: &str) -> Command {
    let mut command = Command::new("python3");
    command.args(["-uc", program]);
    command
}

/// A program that answers connections at a port, one after the other.
fn tcp(port: u16) -> String {
    format!(
        "import socket\nl = socket.create_server(('127.0.0.1', {port}))\nprint('up')\n\
         while True:\n  c, _ = l.accept()\n  c.sendall(c.recv(100) + b'!')\n  c.close()"
    )
}

fn ask(port: u16) {
    let mut to = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
    to.write_all(b"hello").expect("sent");
    let mut answer = Vec::new();
    to.read_to_end(&mut answer).expect("answered");
    assert_eq!(answer, b"hello!");
}

/// Whether all of what a server did for one question was recorded, and that it was selected.
fn is_recorded(trace: &Trace, pid: i32) -> bool {
    let tasks = trace.tasks_of(pid);
    let did = |kind| trace.ops.iter().any(|o| tasks.contains(&o.task) && o.kind == kind && o.result > 0);
    let is_selected = trace.tasks.iter().any(|t| t.tid == pid as u32 && t.what == Life::Watched);
    did(OpKind::Recv) && did(OpKind::Send) && is_selected
}

/// Whether anything was recorded that a process sent or received.
fn has_moved(trace: &Trace, pid: u32) -> bool {
    let of: Vec<_> = trace.tasks.iter().filter(|t| t.tgid == pid).map(|t| t.task).collect();
    trace.ops.iter().any(|o| of.contains(&o.task) && o.kind <= OpKind::Recv)
}

#[test]
fn a_service_that_restarts_at_its_port_stays_recorded() {
    for backend in BACKENDS {
        let port = free_port();
        let Some(rec) = record_as(backend, &["--port", &port.to_string()]) else { continue };
        assert!(rec.said().contains("no process listens there yet"), "{}", rec.said());
        let mut pids = Vec::new();
        for _ in 0..2 {
            let mut server = Server::python(&tcp(port));
            ask(port);
            pids.push(server.pid());
            server.end();
        }
        let trace = rec.stop_when(|t| pids.iter().all(|pid| is_recorded(t, *pid)));
        assert!(!has_moved(&trace, std::process::id()), "{backend}: who asks is not selected");
        assert!(
            trace.ops.iter().any(|o| o.kind == OpKind::Accept && o.task == trace.task(pids[1])),
            "{backend}: its accept"
        );
    }
}

/// As a service does that is handed its socket by who opened it.
#[test]
fn who_accepts_at_a_port_that_another_one_opened_is_recorded() {
    for backend in BACKENDS {
        let port = free_port();
        let dir = tempfile::tempdir().expect("a folder");
        let by = dir.path().join("by").display().to_string();
        let Some(rec) = record_as(backend, &["--port", &port.to_string()]) else { continue };
        let takes = format!(
            "import os, socket\nu = socket.socket(socket.AF_UNIX)\nu.bind('{by}')\nu.listen()\nprint('up')\nd, _ = u.accept()\n\
             _, [fd], _, _ = socket.recv_fds(d, 10, 1)\nprint('up')\nc, _ = socket.socket(fileno=fd).accept()\n\
             c.sendall(c.recv(100) + b'!')\nc.close()\nprint('served')"
        );
        let mut takes = Server::python(&takes);
        let opens = format!(
            "import socket\nl = socket.create_server(('127.0.0.1', {port}))\nprint('up')\nu = socket.socket(socket.AF_UNIX)\n\
             u.connect('{by}')\nsocket.send_fds(u, [b'x'], [l.fileno()])"
        );
        let _opens = Server::python(&opens);
        takes.hears("up");
        ask(port);
        takes.hears("served");
        rec.stop_when(|t| is_recorded(t, takes.pid()));
    }
}

#[test]
fn a_server_of_datagrams_is_recorded_from_its_bind_on() {
    for backend in BACKENDS {
        let port = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|s| s.local_addr()).expect("a port").port();
        let Some(rec) = record_as(backend, &["--port", &port.to_string()]) else { continue };
        let server = Server::python(&format!(
            "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.bind(('127.0.0.1', {port}))\n\
             print('up')\nwhile True:\n  d, who = s.recvfrom(100)\n  s.sendto(d, who)"
        ));
        let to = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        to.send_to(b"hello", (Ipv4Addr::LOCALHOST, port)).expect("sent");
        assert_eq!(to.recv(&mut [0; 100]).expect("answered"), 5);
        rec.stop_when(|t| is_recorded(t, server.pid()));
    }
}

#[test]
fn who_takes_a_selected_name_is_recorded() {
    for backend in BACKENDS {
        let Some(rec) = record_as(backend, &["--comm", "wakepath-shop"]) else { continue };
        let port = free_port();
        // as programs do that title their processes
        let named = format!("import ctypes\nctypes.CDLL(None).prctl(15, b'wakepath-shop', 0, 0, 0)\n{}", tcp(port));
        let server = Server::python(&named);
        ask(port);
        rec.stop_when(|t| is_recorded(t, server.pid()));
    }
}

/// A cgroup of this test's own that may be made again.
struct Group(PathBuf);

impl Group {
    fn make(root: &Path) -> Option<Group> {
        let dir = root.join(format!("wakepath-selecting-{}", std::process::id()));
        fs::create_dir_all(dir.join("below")).ok()?;
        Some(Group(dir))
    }

    /// The path that processes in it have.
    fn path(&self) -> String {
        format!("/{}", self.0.file_name().expect("a name").to_string_lossy())
    }

    /// A server that joins the cgroup below, as services do before they begin their program.
    fn server(&self, port: u16) -> Server {
        let mut command = python(&tcp(port));
        let procs = self.0.join("below/cgroup.procs");
        // SAFETY: between fork and exec it opens a file and writes to it: no lock of this process's is taken.
        unsafe {
            command.pre_exec(move || fs::write(&procs, "0"));
        }
        Server::start(command)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for dir in [self.0.join("below"), self.0.clone()] {
            // a process that just ended may take a moment to leave it
            for _ in 0..100 {
                if fs::remove_dir(&dir).is_ok() {
                    break;
                }
                pause(10);
            }
        }
    }
}

#[test]
fn who_joins_a_cgroup_is_recorded_also_when_it_was_made_again() {
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/pids"].map(Path::new);
    let roots: Vec<&Path> = roots.into_iter().filter(|r| r.join("cgroup.procs").exists()).collect();
    let Some(group) = roots.iter().find_map(|root| Group::make(root)) else {
        return skip("no cgroup can be made here");
    };
    let (root, path) = (group.0.parent().expect("a folder").to_owned(), group.path());
    let mut group = Some(group);
    for backend in BACKENDS {
        group = group.or_else(|| Group::make(&root));
        let Some(rec) = record_as(backend, &["--cgroup", &path]) else { continue };
        let mut pids = Vec::new();
        for _ in 0..2 {
            let there = group.take().or_else(|| Group::make(&root)).expect("it could be made before");
            let port = free_port();
            let mut server = there.server(port);
            ask(port);
            pids.push(server.pid());
            server.end();
        }
        rec.stop_when(|t| pids.iter().all(|pid| is_recorded(t, *pid)));
    }
}

/// With a selection, what a service needs is placed unasked, and said in one line; `memory` places nothing.
#[test]
fn what_tells_a_selections_contexts_apart_is_placed_unasked() {
    let Some(program) = runtimes::python("/usr/bin/python3") else { return };
    runtimes::check(&program, "task", &[], 2, RuntimeKind::Python);
    let (down, port) = (runtimes::serve(&program, &["down"]), free_port());
    for (args, is_placed) in [(&[][..], true), (&["--runtimes=memory"], false)] {
        let Some(recording) = record_as("auto", &[&["--port", &port.to_string()], args].concat()) else { return };
        // the service starts after the recording
        let service = runtimes::serve(&program, &["task", &down.1.to_string(), &port.to_string()]);
        let line = format!("({}) and all that run the same program or library", service.0.id());
        if is_placed {
            until("the line on its probes", || recording.said().contains(&line));
        }
        runtimes::ask(service.1, "/x/");
        let (said, trace) = (recording.said(), recording.stop());
        assert_eq!(said.matches(&line).count(), usize::from(is_placed), "{said}");
        assert_eq!(trace.tasks.iter().any(|t| t.runtime == RuntimeKind::Python), is_placed, "{args:?}");
    }
}
