//! The recorder under hard conditions: too little room, a sudden death, a full disk; and what must never be kept.

use crate::harness::*;
use crate::net::*;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wakepath_model::rows::OpKind;

/// A process that sends and receives so many times whenever it is told to.
#[test]
fn what_found_no_room_is_counted() {
    const NAME: &str = "recorder::what_found_no_room_is_counted";
    const PAIRS: u64 = 20_000;
    if part().is_some() {
        let (a, b) = socketpair(libc::SOCK_STREAM);
        println!("up");
        while std::io::stdin().read_exact(&mut [0]).is_ok() {
            for _ in 0..PAIRS {
                send_by("send", &a, b"sixsix");
                assert_eq!(recv_raw(&b, 6, 0), 6);
            }
            println!("done");
        }
        return;
    }
    for backend in BACKENDS {
        let mut busy = helper(NAME, "busy").stdout(Stdio::piped()).spawn().expect("it starts");
        let (mut to, said) = (busy.stdin.take().expect("a pipe"), busy.stdout.take().expect("a pipe"));
        let mut said = BufReader::new(said).lines().map_while(Result::ok);
        let mut hears = |word: &str| assert!(said.any(|l| l.ends_with(word)), "it does not say {word}");
        hears("up");
        let Some(rec) = record_as(backend, &["--pid", &busy.id().to_string(), "--ring-bytes", "64K"]) else {
            drop(to);
            busy.wait().expect("it ends");
            continue;
        };
        let mut works = || {
            to.write_all(b"x").expect("it listens");
            hears("done");
        };
        works();
        // a recorder that does not come to its work: the program goes on
        rec.signal(libc::SIGSTOP);
        let status = format!("/proc/{}/status", rec.child.id());
        let is_stopped = || std::fs::read_to_string(&status).is_ok_and(|s| s.contains("State:\tT"));
        until("its stop", is_stopped);
        works();
        rec.signal(libc::SIGCONT);
        works();
        let done = 3 * 2 * PAIRS;
        let trace = rec.stop();
        drop(to);
        busy.wait().expect("it ends");
        let rows = trace.ops.iter().filter(|o| o.kind <= OpKind::Recv).count() as u64;
        let lost = trace.lost("loss.ring.op");
        println!("{backend}: {done} operations, {rows} rows, {lost} lost");
        assert!(lost >= PAIRS, "{backend}: {lost} of {} while nobody read", 2 * PAIRS);
        // being told and saying so are operations too
        assert!((done..done + 50).contains(&(rows + lost)), "{backend}: {rows} + {lost} of {done}");
    }
}

/// Programs that a process holds, by its descriptors.
fn programs_of(pid: u32) -> Vec<u32> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/fdinfo")).expect("it lives").flatten() {
        let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
        out.extend(text.lines().filter_map(|l| l.strip_prefix("prog_id:")?.trim().parse::<u32>().ok()));
    }
    out
}

fn program_lives(id: u32) -> bool {
    const BPF_PROG_GET_FD_BY_ID: i32 = 13;
    let mut attr = [0u8; 128];
    attr[..4].copy_from_slice(&id.to_ne_bytes());
    // SAFETY: an attribute block of the stated size; a descriptor that comes is ours to close.
    unsafe {
        let fd = libc::syscall(libc::SYS_bpf, BPF_PROG_GET_FD_BY_ID, attr.as_mut_ptr(), attr.len());
        if fd >= 0 {
            libc::close(fd as i32);
        }
        fd >= 0
    }
}

#[test]
fn a_sudden_death_leaves_a_folder_and_no_program() {
    for backend in BACKENDS {
        let Some(mut rec) = record(backend, &[]) else {
            continue;
        };
        let (a, b) = tcp_pair();
        for _ in 0..40 {
            send_by("write", &a, b"sixsix");
            recv_by("read", &b, 6);
            pause(10);
        }
        let programs = programs_of(rec.child.id());
        assert!(programs.len() > 10, "{backend}: {programs:?}");
        // what was written by now stays
        let flow = ids(&a);
        let sent = |t: &Trace| t.ops.iter().filter(|o| flow.contains(&o.flow) && o.kind == OpKind::Send).count();
        until("a part of what was sent", || sent(&rec.read()) >= 10);
        rec.signal(libc::SIGKILL);
        rec.wait(Duration::from_secs(60));
        let begun = Instant::now();
        while programs.iter().any(|p| program_lives(*p)) {
            assert!(begun.elapsed() < Duration::from_secs(60), "{backend}: programs outlive their recorder");
            pause(10);
        }
        let trace = rec.read();
        let sent = trace.moved(trace.flow(ids(&a)), OpKind::Send).len();
        assert!((10..=40).contains(&sent), "{backend}: {sent}");
    }
}

/// A small file system, gone when this is.
struct Small(tempfile::TempDir);

impl Drop for Small {
    fn drop(&mut self) {
        let _ = run("umount", &["-l", self.0.path().to_str().expect("plain")]);
    }
}

#[test]
fn a_full_disk_is_said_and_what_was_written_reads() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().to_str().expect("plain").to_owned();
    if let Err(e) = run("mount", &["-t", "tmpfs", "-o", "size=8m", "none", &path]) {
        return skip(&e);
    }
    let small = Small(dir);
    let folder = small.0.path().join("trace");
    let Some(mut rec) = record_to("auto", &["--no-compress"], folder.clone()) else {
        return;
    };
    let stop = Arc::new(AtomicBool::new(false));
    let busy = {
        let stop = stop.clone();
        std::thread::spawn(move || {
            let (a, b) = socketpair(libc::SOCK_STREAM);
            while !stop.load(Ordering::Relaxed) {
                send_by("send", &a, b"sixsix");
                recv_raw(&b, 6, 0);
            }
        })
    };
    let code = rec.wait(Duration::from_secs(120));
    stop.store(true, Ordering::Relaxed);
    busy.join().expect("it ends");
    assert_eq!(code, 1, "{}", rec.said());
    assert!(rec.said().contains("free space") && rec.said().contains("are kept in"), "{}", rec.said());
    let trace = rec.read();
    assert!(!trace.ops.is_empty());
    drop(rec);
}

#[test]
fn a_command_outlives_a_full_disk_and_its_status_is_passed_on() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().to_str().expect("plain").to_owned();
    if let Err(e) = run("mount", &["-t", "tmpfs", "-o", "size=3m", "none", &path]) {
        return skip(&e);
    }
    let small = Small(dir);
    let end = tempfile::NamedTempFile::new().expect("a file");
    let script = format!(
        "dd if=/dev/zero bs=1 count=200000 2>/dev/null | dd bs=1 of=/dev/null 2>/dev/null; sleep 1; echo well > {}; exit 126",
        end.path().display()
    );
    let recorder = || {
        let mut command = std::process::Command::new(binary());
        command.args(["record", "--no-compress", "-o"]).arg(small.0.path().join("trace"));
        command.args(["--", "sh", "-c", &script]).stdin(Stdio::null()).output().expect("it starts")
    };
    let output = unrecorded(recorder);
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("the kernel vantage needs") {
        return skip(&said);
    }
    assert_eq!(output.status.code(), Some(126), "{said}");
    assert!(said.contains("free space") && said.contains("keeps running without being recorded"), "{said}");
    assert_eq!(std::fs::read_to_string(end.path()).expect("it is there"), "well\n");
}

#[test]
fn a_recorder_keeps_only_the_rights_that_it_needs() {
    let Some(rec) = record("auto", &[]) else {
        return;
    };
    let status = std::fs::read_to_string(format!("/proc/{}/status", rec.child.id())).expect("it lives");
    let field = |name: &str| {
        let line = status.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':')).expect("it has one");
        u64::from_str_radix(line.trim(), 16).expect("a number")
    };
    assert_eq!((field("NoNewPrivs"), field("CapBnd"), field("CapInh"), field("CapAmb")), (1, 0, 0, 0), "{status}");
    // CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH
    let needed = 1 << 39 | 1 << 38 | 1 << 19 | 1 << 2;
    assert_eq!(field("CapPrm") & !needed, 0, "{status}");
    assert_eq!(field("CapEff"), field("CapPrm"), "{status}");
}

fn contains(folder: &Path, needle: &[u8]) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return false;
    };
    entries.flatten().any(|e| {
        if e.path().is_dir() {
            return contains(&e.path(), needle);
        }
        std::fs::read(e.path()).is_ok_and(|b| b.windows(needle.len()).any(|w| w == needle))
    })
}

#[test]
fn secrets_are_not_written_down() {
    const SECRET: &str = "hunter2-S3CR3T";
    for backend in BACKENDS {
        for (payload, kept) in [("attributes", false), ("none", false), ("heads", true)] {
            let Some(rec) = record(backend, &["--no-compress", "--payload", payload]) else {
                continue;
            };
            let (mut a, mut b) = tcp_pair();
            let mut buffer = [0u8; 4096];
            let request = format!(
                "GET /login?password={SECRET} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {SECRET}\r\nCookie: s={SECRET}\r\n\r\n"
            );
            a.write_all(request.as_bytes()).expect("it goes");
            assert!(b.read(&mut buffer).expect("it comes") > 0);
            b.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").expect("it goes");
            assert!(a.read(&mut buffer).expect("it comes") > 0);
            let (mut c, mut d) = tcp_pair();
            let mut startup = vec![0, 0, 0, 0, 0, 3, 0, 0];
            startup.extend(b"user\0me\0database\0shop\0\0");
            startup[3] = startup.len() as u8;
            c.write_all(&startup).expect("it goes");
            assert!(d.read(&mut buffer).expect("it comes") > 0);
            d.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I").expect("it goes");
            assert!(c.read(&mut buffer).expect("it comes") > 0);
            for statement in [
                format!("select * from users where password = '{SECRET}' and id = 4711081547110816\0"),
                // a literal that the end of the head cuts
                format!("insert into notes values ({}, '{}')\0", "1".repeat(900), format!("{SECRET} ").repeat(60)),
            ] {
                let mut query = vec![b'Q'];
                query.extend((statement.len() as u32 + 4).to_be_bytes());
                query.extend(statement.as_bytes());
                c.write_all(&query).expect("it goes");
                wait_for(d.as_raw_fd(), query.len());
                assert!(d.read(&mut buffer).expect("it comes") > 0);
                d.write_all(b"C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I").expect("it goes");
                assert!(c.read(&mut buffer).expect("it comes") > 0);
            }
            let flows = (ids(&a), ids(&c));
            let folder = rec.folder.clone();
            let dir = rec.dir().to_owned();
            // read before the folder goes with its recording
            let mut rec = rec;
            pause(20);
            rec.signal(libc::SIGINT);
            assert_eq!(rec.wait(Duration::from_secs(60)), 0, "{}", rec.said());
            let trace = rec.read();
            assert_eq!(contains(&folder, SECRET.as_bytes()), kept, "{backend} {payload}");
            assert_eq!(contains(&dir, b"4711081547110816"), kept, "{backend} {payload}");
            let (http, sql) = (trace.flow(flows.0), trace.flow(flows.1));
            let of = |flow| trace.messages.iter().filter(|m| m.flow == flow).count();
            if payload == "none" {
                assert_eq!(trace.messages.len(), 0);
            } else {
                assert!(of(http) >= 2 && of(sql) >= 4, "{backend}: {} and {} messages", of(http), of(sql));
            }
        }
    }
}
