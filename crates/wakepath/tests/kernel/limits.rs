//! What bounds processes and flows is written down, of those that were there and of those that came.

use crate::harness::*;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use wakepath_model::rows::{LimitKind, LimitRow};

/// A cgroup of this test's own, with a quota.
pub struct Bounded(pub PathBuf);

impl Drop for Bounded {
    fn drop(&mut self) {
        // a process that just ended may take a moment to leave it
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            pause(10);
        }
    }
}

/// 0.3 processors in periods of 10 ms; `None` where that cannot be had.
pub fn bounded(name: &str) -> Option<Bounded> {
    let dir = Path::new("/sys/fs/cgroup/cpu").join(format!("{name}-{}", std::process::id()));
    if fs::create_dir(&dir).is_ok() {
        let made = Bounded(dir);
        let set = |file: &str, us: &str| fs::write(made.0.join(file), us);
        return set("cpu.cfs_period_us", "10000").and_then(|()| set("cpu.cfs_quota_us", "3000")).ok().map(|()| made);
    }
    let dir = Path::new("/sys/fs/cgroup").join(format!("{name}-{}", std::process::id()));
    fs::create_dir(&dir).ok()?;
    let made = Bounded(dir);
    fs::write(made.0.join("cpu.max"), "3000 10000").ok().map(|()| made)
}

fn sleeper(cgroup: &Bounded) -> Child {
    let script = format!("echo $$ > {}/cgroup.procs && exec taskset -c {} cat", cgroup.0.display(), a_processor());
    let mut child =
        Command::new("sh").args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("sh");
    // it answers when it is where it should be
    child.stdin.as_mut().expect("piped").write_all(b"x").expect("it reads");
    child.stdout.as_mut().expect("piped").read_exact(&mut [0]).expect("it writes");
    child
}

fn rows(t: &Trace, kind: LimitKind, is: impl Fn(&LimitRow) -> bool) -> Vec<LimitRow> {
    t.limits.iter().filter(|r| r.kind == kind && is(r)).copied().collect()
}

#[test]
fn quotas_and_affinity_of_processes_are_told() {
    let Some(cgroup) = bounded("wakepath-limits") else { return skip("no cgroup with a quota can be made here") };
    let mut before = Ended(sleeper(&cgroup));
    let Some(rec) = record("auto", &[]) else { return };
    let mut after = Ended(sleeper(&cgroup));
    // looked at while it lives: it is gone before the recording ends
    let pid = after.0.id() as i32;
    until("its quota", || {
        rec.read().limits.iter().any(|r| r.kind == LimitKind::Quota && rec.read().tasks_of(pid).contains(&r.task))
    });
    drop(after.0.stdin.take());
    assert!(after.0.wait().expect("it ends").success());
    let trace = rec.stop();
    drop(before.0.stdin.take());
    let online = Command::new("getconf").arg("_NPROCESSORS_ONLN").output().expect("getconf").stdout;
    let online: u64 = String::from_utf8_lossy(&online).trim().parse().expect("a number");
    let host = rows(&trace, LimitKind::Processors, |_| true);
    assert!(!host.is_empty() && host.iter().all(|r| r.value == online), "{host:?}");
    let said = fs::read_to_string("/proc/sys/net/ipv4/tcp_syn_linear_timeouts").ok();
    let linear = rows(&trace, LimitKind::SynLinear, |_| true);
    match said.and_then(|text| text.trim().parse::<u64>().ok()) {
        Some(times) => assert!(!linear.is_empty() && linear.iter().all(|r| r.value == times), "{linear:?}"),
        None => assert!(linear.is_empty(), "{linear:?}"),
    }
    for child in [&before, &after] {
        let task = trace.task(child.0.id() as i32);
        let quota = rows(&trace, LimitKind::Quota, |r| r.task == task);
        let name = cgroup.0.file_name().and_then(|n| n.to_str()).expect("UTF-8");
        let is_right =
            |r: &LimitRow| (r.value, r.beside) == (3_000_000, 10_000_000) && trace.text(r.cgroup) == format!("/{name}");
        assert!(!quota.is_empty() && quota.iter().all(is_right), "{quota:?}");
        let affinity = rows(&trace, LimitKind::Affinity, |r| r.task == task);
        let is_right = |r: &LimitRow| (r.value, r.beside) == (1, 1 << a_processor());
        assert!(online == 1 || !affinity.is_empty() && affinity.iter().all(is_right), "{affinity:?}");
    }
}

#[test]
fn backlogs_and_buffers_are_told() {
    for backend in BACKENDS {
        let old = socket(5);
        let Some(rec) = record(backend, &[]) else { continue };
        let new = socket(9);
        let (lists, sizes) = ([ids(&old), ids(&new)], [5, 9]);
        let client = TcpStream::connect(new.local_addr().expect("an address")).expect("it listens");
        let (mut server, _) = new.accept().expect("a connection");
        let both = [ids(&client), ids(&server)];
        let sent = std::thread::spawn(move || {
            let mut client = client;
            client.write_all(&vec![7; 1 << 20]).expect("it is read");
        });
        std::io::copy(&mut server, &mut std::io::sink()).expect("it is sent");
        sent.join().expect("it was sent");
        drop(server);
        let has_both = |t: &Trace| {
            both.iter().all(|ids| t.limits.iter().any(|r| r.kind == LimitKind::Buffers && ids.contains(&r.flow)))
        };
        let trace = rec.stop_when(has_both);
        for (ids, backlog) in lists.into_iter().zip(sizes) {
            let told = rows(&trace, LimitKind::Backlog, |r| ids.contains(&r.flow));
            // where it was listened with another number first, the last row holds
            assert_eq!(told.last().map(|r| r.value), Some(backlog), "{backend}: {told:?}");
            let port = if backlog == 5 { &old } else { &new }.local_addr().expect("an address").port();
            assert!(told.iter().all(|r| r.port == port), "{backend}: {told:?}");
        }
        for ids in both {
            let told = rows(&trace, LimitKind::Buffers, |r| ids.contains(&r.flow));
            assert!(!told.is_empty() && told.iter().all(|r| r.value > 4096 && r.beside > 4096), "{backend}: {told:?}");
        }
    }
}

/// A listener that keeps so many connections.
fn socket(backlog: i32) -> TcpListener {
    use std::os::fd::AsRawFd as _;
    let s = TcpListener::bind("127.0.0.1:0").expect("a free port");
    // SAFETY: a socket of our own that listens already: only its backlog changes
    assert_eq!(unsafe { libc::listen(s.as_raw_fd(), backlog) }, 0);
    s
}

/// A child that does not outlive the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
