//! How long a recording is, and how a recorder is told to end while it starts.

use crate::harness::*;
use crate::net::*;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wakepath_model::folder::Folder;

#[test]
fn a_recording_is_as_long_as_was_asked_for() {
    const ASKED: Duration = Duration::from_secs(2);
    for backend in BACKENDS {
        let is_over = Arc::new(AtomicBool::new(false));
        let (a, b) = tcp_pair();
        let moves = std::thread::spawn({
            let is_over = Arc::clone(&is_over);
            move || {
                while !is_over.load(Ordering::Relaxed) {
                    send_by("write", &a, b"sixsix");
                    recv_by("read", &b, 6);
                    pause(1);
                }
            }
        });
        let begun = now_ns();
        let recording = record(backend, &["--duration", "2s"]);
        let ready = now_ns();
        let over = recording.map(|mut r| (r.wait(Duration::from_secs(60)), r));
        let ended = now_ns();
        is_over.store(true, Ordering::Relaxed);
        moves.join().expect("it moves bytes to the end");
        let Some((code, recording)) = over else { continue };
        assert_eq!(code, 0, "{}", recording.said());
        let folder = Folder::open(&[&recording.folder]).expect("the folder reads");
        let (first, last) = folder.hosts()[0].span().expect("it has rows");
        // the begin has what moved since the programs look, and the snapshot: less than the programs took before. At the end a
        // round of the recorder's, which may find its processor taken
        let before = (ready - begun) / 2;
        assert!(first.0 + before >= ready, "{backend}: begins {} ns before it is ready", ready - first.0);
        let asked = ASKED.as_nanos() as u64;
        let length = last.0 - first.0;
        let most = asked + before + asked / 2;
        println!("{backend}: {length} ns, at most {most} ns");
        assert!((asked..=most).contains(&length), "{backend}: {length} ns, for {asked}; at most {most}");
        assert!(last.0 <= ended, "{backend}");
        // to its end, not only to its last look
        let ops = recording.read().ops;
        let last_op = ops.iter().map(|o| o.at.0).max().expect("it recorded");
        assert!(last_op + asked / 4 >= last.0, "{backend}: nothing of the last {} ns", last.0 - last_op);
        assert!(last_op <= last.0, "{backend}");
        assert_eq!(told_length(&recording), length, "{backend}");
    }
}

/// How long `info` says that a recording is.
fn told_length(recording: &Recording) -> u64 {
    let o = Command::new(binary()).args(["info", "--json"]).arg(&recording.folder).output().expect("the binary starts");
    let told: serde_json::Value = serde_json::from_slice(&o.stdout).expect("it is JSON");
    told["hosts"][0]["span"]["duration_ns"].as_u64().unwrap_or_else(|| panic!("no duration in {told}"))
}

/// How far a recorder has come in its start, as its descriptors and its folder tell.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Come {
    /// Its handlers are there.
    Handles,
    /// The kernel has some of its programs.
    Loads,
    /// It reads what there is.
    Reads,
}

impl Come {
    fn is_reached(self, child: u32, folder: &Path) -> bool {
        match self {
            Come::Handles => {
                let status = fs::read_to_string(format!("/proc/{child}/status")).unwrap_or_default();
                let caught =
                    status.lines().find_map(|l| u64::from_str_radix(l.strip_prefix("SigCgt:")?.trim(), 16).ok());
                caught.is_some_and(|c| c >> (libc::SIGTERM - 1) & 1 == 1)
            }
            Come::Loads => fs::read_dir(format!("/proc/{child}/fdinfo")).is_ok_and(|all| {
                all.flatten().any(|e| fs::read_to_string(e.path()).is_ok_and(|text| text.contains("prog_id:")))
            }),
            Come::Reads => folder.exists(),
        }
    }
}

#[test]
fn a_recorder_that_is_stopped_while_it_starts_ends_at_once() {
    /// The kernel gives back what it was loading, on a machine however busy.
    const AT_ONCE: Duration = Duration::from_secs(10);
    unrecorded(|| {
        for (signal, come) in [libc::SIGTERM, libc::SIGINT]
            .into_iter()
            .flat_map(|s| [Come::Handles, Come::Loads, Come::Reads].map(|come| (s, come)))
        {
            let dir = tempfile::tempdir().expect("a folder");
            let (folder, said) = (dir.path().join("trace"), dir.path().join("said"));
            let mut child = Command::new(binary())
                .args(["record", "--all", "-o"])
                .arg(&folder)
                .stdin(Stdio::null())
                .stderr(fs::File::create(&said).expect("a file"))
                .spawn()
                .expect("the binary starts");
            let said = || fs::read_to_string(&said).unwrap_or_default();
            let mut status = None;
            until("that it comes so far", || {
                status = child.try_wait().expect("it can be waited for");
                status.is_some() || come.is_reached(child.id(), &folder)
            });
            if status.is_some() {
                let said = said();
                assert!(["needs CAP", "lacks", "refused"].iter().any(|t| said.contains(t)), "{said}");
                return skip(&said);
            }
            // SAFETY: signals a child of ours that was not waited for yet.
            unsafe { libc::kill(child.id() as i32, signal) };
            let begun = Instant::now();
            let code = child.wait().expect("it ends").code();
            let took = begun.elapsed();
            println!("signal {signal}, {come:?}: {took:?}");
            assert_eq!(code, Some(0), "signal {signal}, {come:?}: {}", said());
            assert!(took < AT_ONCE, "signal {signal}, {come:?}: {took:?}");
            if come == Come::Handles {
                assert!(said().contains("nothing was recorded") && !folder.exists(), "{}", said());
            }
        }
    });
}
