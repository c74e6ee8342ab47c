//! Tasks' lives, and whose operations are recorded.

use crate::harness::*;
use crate::net::*;
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use wakepath_model::ids::TaskId;
use wakepath_model::rows::{Life, OpKind, TaskRow};

#[test]
fn lives_are_told() {
    match part().as_deref() {
        Some("thread") => {
            // the leader is ended by an exec in another thread, which takes its tid
            std::thread::spawn(|| {
                use std::os::unix::process::CommandExt as _;
                panic!("{}", Command::new("sleep").arg("0.01").exec());
            });
            loop {
                pause(1000);
            }
        }
        Some(_) => return,
        None => {}
    }
    for backend in BACKENDS {
        let Some(rec) = record(backend, &[]) else {
            continue;
        };
        let mut child = Command::new("sleep").arg("0.02").spawn().expect("it starts");
        let pid = child.id() as i32;
        child.wait().expect("it ends");
        let named = std::thread::spawn(|| {
            // SAFETY: a name of less than sixteen bytes with its NUL.
            unsafe { libc::prctl(libc::PR_SET_NAME, c"a-name-of-mine".as_ptr()) };
            let (a, b) = socketpair(libc::SOCK_STREAM);
            send_by("write", &a, b"sixsix");
            recv_by("read", &b, 6);
            gettid()
        });
        let named = named.join().expect("it ends");
        let mut other = helper("tasks::lives_are_told", "thread")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let leader = other.id() as i32;
        other.wait().expect("it ends");
        let me = std::process::id();
        let trace = rec.stop();

        let of = |tid: i32| trace.tasks.iter().filter(|t| t.tid == tid as u32).copied().collect::<Vec<_>>();
        let lives: Vec<_> = of(pid).iter().map(|t| t.what).filter(|w| *w != Life::Name).collect();
        assert_eq!(lives, [Life::Fork, Life::Exec, Life::Exit], "{backend}");
        let exec = of(pid).into_iter().find(|t| t.what == Life::Exec).expect("it was told");
        assert_eq!((trace.text(exec.comm), trace.text(exec.cmdline)), ("sleep", "sleep 0.02"));
        let parent = of(pid)[0].parent;
        assert!(
            trace.tasks.iter().any(|t| t.task == parent && t.tgid == me),
            "{backend}: its parent is of this process"
        );
        assert!(of(named).iter().any(|t| trace.text(t.comm) == "a-name-of-mine" && t.what == Life::Name));
        assert!(trace.ops.iter().any(|o| o.task == trace.task(named)));

        // the thread that ran exec goes on under the leader's tid, as itself
        let exec = of(leader).into_iter().rfind(|t| t.what == Life::Exec).expect("it was told");
        assert_eq!(trace.text(exec.cmdline), "sleep 0.01");
        let first = of(leader)[0].task;
        assert_ne!(exec.task, first, "{backend}: the leader is gone");
        let born = trace.tasks.iter().find(|t| t.task == exec.task).expect("it was made");
        assert!(born.what == Life::Fork && born.tid != leader as u32 && born.tgid == leader as u32);
        assert!(of(leader).iter().any(|t| t.task == exec.task && t.what == Life::Exit));
        let slept = trace.waits.iter().any(|w| w.task == exec.task && w.at > exec.at && w.state != 0);
        assert!(slept, "{backend}: its state goes on under the leader's tid");
    }
}

#[test]
fn a_tid_that_is_used_again_is_another_task() {
    for backend in BACKENDS {
        let Some(rec) = record(backend, &[]) else {
            continue;
        };
        let run = || {
            let mut c = Command::new("true").spawn().expect("it starts");
            let pid = c.id();
            c.wait().expect("it ends");
            pid
        };
        // other things may take and give numbers meanwhile
        let first = run();
        let mut again = 0;
        for _ in 0..50 {
            if std::fs::write("/proc/sys/kernel/ns_last_pid", (first - 1).to_string()).is_err() {
                rec.stop();
                return skip("the next pid cannot be set here");
            }
            again = run();
            if again == first {
                break;
            }
        }
        let trace = rec.stop();
        if again != first {
            return skip("the pid was not given again");
        }
        let is_ours = |t: &&TaskRow| t.tid == first && t.what == Life::Exec && trace.text(t.cmdline) == "true";
        let ours: BTreeSet<TaskId> = trace.tasks.iter().filter(is_ours).map(|t| t.task).collect();
        assert_eq!(ours.len(), 2, "{backend}: {:?}", trace.tasks_of(first as i32));
    }
}

/// What a helper does when it is told to: some operations on a socket pair of its own.
fn chatter() {
    let (a, b) = socketpair(libc::SOCK_STREAM);
    for _ in 0..10 {
        send_by("write", &a, b"chatter");
        recv_by("read", &b, 7);
    }
}

#[test]
fn a_process_is_recorded_with_its_descendants() {
    const NAME: &str = "tasks::a_process_is_recorded_with_its_descendants";
    match part().as_deref() {
        Some("parent") => {
            println!("up {}", gettid());
            wait_stdin();
            // the first wait is older than the recording: when it began nobody knows
            println!("again");
            wait_stdin();
            chatter();
            let mut c = helper(NAME, "child").stdout(Stdio::null()).spawn().expect("it starts");
            assert!(c.wait().expect("it ends").success());
            return;
        }
        Some(_) => return chatter(),
        None => {}
    }
    for backend in BACKENDS {
        let mut watched = helper(NAME, "parent").stdout(Stdio::piped()).spawn().expect("it starts");
        let mut said = BufReader::new(watched.stdout.take().expect("a pipe"));
        let mut hears = |word: &str| loop {
            let mut line = String::new();
            assert!(said.read_line(&mut line).expect("it says so") > 0);
            // the harness prints before the test on the same line
            if let Some((_, rest)) = line.split_once(word) {
                return rest.trim().to_owned();
            }
        };
        let tid = hears("up ").parse().expect("a number");
        let pid = watched.id();
        let Some(rec) = record_as(backend, &["--pid", &pid.to_string()]) else {
            let _ = watched.kill();
            let _ = watched.wait();
            continue;
        };
        chatter();
        let mut to = watched.stdin.take().expect("a pipe");
        until_asleep(tid, libc::SYS_read, Some(0));
        to.write_all(b"g").expect("it listens");
        hears("again");
        until_asleep(tid, libc::SYS_read, Some(0));
        to.write_all(b"o").expect("it listens");
        assert!(watched.wait().expect("it ends").success());
        let trace = rec.stop();
        let me = std::process::id();
        let tgid = |task| trace.tasks.iter().find(|t| t.task == task).map_or(0, |t| t.tgid);
        let of: std::collections::HashSet<u32> = trace.ops.iter().map(|o| tgid(o.task)).collect();
        assert!(!of.contains(&me), "{backend}: this process was not selected");
        assert!(of.contains(&pid), "{backend}");
        assert!(of.len() >= 2, "{backend}: nor was its child forgotten: {of:?}");
        // who wakes from outside is named all the same
        assert!(trace.waits.iter().any(|w| tgid(w.task) == pid && tgid(w.by) == me), "{backend}");
    }
}

#[test]
fn a_program_that_begins_later_is_found_by_its_name() {
    const NAME: &str = "tasks::a_program_that_begins_later_is_found_by_its_name";
    match part().as_deref() {
        Some("late") => {
            chatter();
            let mut c = helper(NAME, "child").stdout(Stdio::null()).spawn().expect("it starts");
            return assert!(c.wait().expect("it ends").success());
        }
        Some(_) => return chatter(),
        None => {}
    }
    let dir = tempfile::tempdir().expect("a folder");
    let named = dir.path().join("latecomer");
    std::os::unix::fs::symlink(std::env::current_exe().expect("a path"), &named).expect("a link");
    for backend in BACKENDS {
        let Some(rec) = record_as(backend, &["--comm", "latecomer"]) else {
            continue;
        };
        let mut late = Command::new(&named);
        late.args([NAME, "--exact", "--nocapture"]).env("WAKEPATH_PART", "late").stdout(Stdio::null());
        let mut late = late.spawn().expect("it starts");
        chatter();
        assert!(late.wait().expect("it ends").success());
        let trace = rec.stop();
        let tgid = |task| trace.tasks.iter().find(|t| t.task == task).map_or(0, |t| t.tgid);
        let of: std::collections::HashSet<u32> = trace.ops.iter().map(|o| tgid(o.task)).collect();
        // it, what it made, and nobody else
        assert!(of.contains(&late.id()) && of.len() == 2 && !of.contains(&std::process::id()), "{backend}: {of:?}");
    }
}

#[test]
fn a_command_is_recorded_from_its_first_instruction() {
    const NAME: &str = "tasks::a_command_is_recorded_from_its_first_instruction";
    match part().as_deref() {
        Some("command") => {
            chatter();
            let mut c = helper(NAME, "child").stdout(Stdio::null()).spawn().expect("it starts");
            assert!(c.wait().expect("it ends").success());
            // its own status is passed on
            std::process::exit(7);
        }
        Some(_) => return chatter(),
        None => {}
    }
    for backend in BACKENDS {
        let exe = std::env::current_exe().expect("a path");
        let part = ["--", "env", "WAKEPATH_PART=command", exe.to_str().expect("plain"), NAME, "--exact", "--nocapture"];
        let Some(mut rec) = record_as(backend, &part) else {
            continue;
        };
        chatter();
        assert_eq!(rec.wait(std::time::Duration::from_secs(60)), 7, "{}", rec.said());
        let trace = rec.read();
        let me = std::process::id();
        let tgid = |task| trace.tasks.iter().find(|t| t.task == task).map_or(0, |t| t.tgid);
        let of: std::collections::HashSet<u32> = trace.ops.iter().map(|o| tgid(o.task)).collect();
        assert!(!of.contains(&me) && of.len() >= 2, "{backend}: {of:?}");
        // the command's first act, seen by nobody who comes late: the loader's own exec
        assert!(
            trace.tasks.iter().any(|t| t.what == Life::Exec && trace.text(t.cmdline).contains("--nocapture")),
            "{backend}"
        );

        let begun = std::time::Instant::now();
        let dir = tempfile::tempdir().expect("a folder");
        let failed = Command::new(binary())
            .args(["record", "--backend", backend, "-o"])
            .arg(dir.path().join("t"))
            .args(["--", "/no/such/program"])
            .output()
            .expect("it starts");
        assert_eq!(failed.status.code(), Some(127));
        assert!(String::from_utf8_lossy(&failed.stderr).contains("cannot start"));
        assert!(begun.elapsed() < std::time::Duration::from_secs(120), "a command that cannot start does not hang");
    }
}

#[test]
fn the_holder_of_a_port_is_recorded() {
    const NAME: &str = "tasks::the_holder_of_a_port_is_recorded";
    if part().is_some() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        println!("port {}", listener.local_addr().expect("bound").port());
        let (mut s, _) = listener.accept().expect("it accepts");
        let mut b = [0; 8];
        s.read_exact(&mut b).expect("it comes");
        s.write_all(&b).expect("it goes");
        return;
    }
    for backend in BACKENDS {
        let mut server = helper(NAME, "server").stdout(Stdio::piped()).spawn().expect("it starts");
        let mut said = BufReader::new(server.stdout.take().expect("a pipe"));
        let port = loop {
            let mut line = String::new();
            assert!(said.read_line(&mut line).expect("it says so") > 0);
            // the harness prints before the test on the same line
            if let Some(at) = line.find("port ") {
                break line[at + 5..].trim().to_owned();
            }
        };
        let Some(rec) = record_as(backend, &["--port", &port]) else {
            let _ = server.kill();
            let _ = server.wait();
            continue;
        };
        let mut c = TcpStream::connect(format!("127.0.0.1:{port}")).expect("it connects");
        c.write_all(b"12345678").expect("it goes");
        c.read_exact(&mut [0; 8]).expect("it comes");
        assert!(server.wait().expect("it ends").success());
        let pid = server.id();
        let trace = rec.stop();
        let tgid = |task| trace.tasks.iter().find(|t| t.task == task).map_or(0, |t| t.tgid);
        assert!(trace.ops.iter().all(|o| tgid(o.task) == pid), "{backend}");
        let kinds: Vec<OpKind> = trace.ops.iter().map(|o| o.kind).filter(|k| *k <= OpKind::Accept).collect();
        assert!([OpKind::Accept, OpKind::Recv, OpKind::Send].iter().all(|k| kinds.contains(k)), "{backend}: {kinds:?}");
    }
}
