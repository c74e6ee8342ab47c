//! uvloop, which reads before it enters a context, and sends when it has come round.

use crate::harness::*;
use crate::runtimes::{CLIENTS, PROBED, REQUESTS, Server, ask, check, having, paths, python, root, serve};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use wakepath_model::rows::RuntimeKind;

/// The service on a Python that has uvloop.
fn uvloop() -> Option<[PathBuf; 2]> {
    python(having("uvloop")?.to_str()?)
}

/// The same with the last uvloop that goes on within a context of its own.
fn old_uvloop() -> Option<Vec<PathBuf>> {
    let service = uvloop()?;
    let folder = root().join("target/uvloop-until-0.22");
    if !folder.join("uvloop").exists() {
        skip("no uvloop 0.22; remedy: scripts/install test");
        return None;
    }
    let path = format!("PYTHONPATH={}", folder.display());
    Some([PathBuf::from("/usr/bin/env"), path.into()].into_iter().chain(service).collect())
}

/// It reads before it enters a context, and sends when it has come round.
#[test]
fn what_a_task_on_uvloop_does_is_for_the_request_that_it_was_made_for() {
    let Some(program) = uvloop() else { return };
    check(&program, "uvloop-task", PROBED, 2, RuntimeKind::Python);
    check(&program, "uvloop-layers", PROBED, 2, RuntimeKind::Python);
}

/// Until 0.22, it calls all that are due, and sends what they wrote, within a context of its own.
#[test]
fn what_a_task_on_an_older_uvloop_does_is_for_the_request_that_it_was_made_for() {
    let Some(program) = old_uvloop() else { return };
    check(&program, "uvloop-task", PROBED, 2, RuntimeKind::Python);
    check(&program, "uvloop-layers", PROBED, 2, RuntimeKind::Python);
}

/// They too read and write outside of contexts.
#[test]
fn what_threads_beside_uvloop_do_is_the_threads() {
    let Some(program) = uvloop() else { return };
    check(&program, "uvloop-threads", PROBED, 2, RuntimeKind::Python);
}

/// A program loads it some time after it began.
#[test]
fn uvloop_is_read_where_it_is_loaded_amid_a_recording() {
    let Some(program) = uvloop() else { return };
    let down = serve(&program, &["down"]);
    // a shell that becomes the service when it is told to
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"read go && exec "$@""#, "sh"]).args(&program).args(["uvloop-task", &down.1.to_string()]);
    let mut service = Server(shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts"), 0);
    let [pid, behind] = [&service, &down].map(|s| s.0.id().to_string());
    let Some(mut recording) = record_as("auto", &["--pid", &pid, "--pid", &behind, PROBED[0]]) else { return };
    writeln!(service.0.stdin.take().expect("piped"), "go").expect("it waits");
    let mut port = String::new();
    BufReader::new(service.0.stdout.take().expect("piped")).read_line(&mut port).expect("its port");
    service.1 = port.trim().parse().expect("a port");
    let begun = Instant::now();
    while !recording.said().contains("uvloop puts off") {
        assert!(begun.elapsed() < Duration::from_secs(60), "{}", recording.said());
        std::thread::sleep(Duration::from_millis(10));
    }
    // it is said just before it is so
    ask(service.1, "/early/");
    ask(service.1, "/x/");
    recording.signal(libc::SIGINT);
    assert_eq!(recording.wait(Duration::from_secs(60)), 0, "{}", recording.said());
    let mut found = paths(&recording.folder, false);
    found.retain(|target, _| target.starts_with("/x/"));
    assert_eq!(found.len(), CLIENTS * REQUESTS);
    for (target, (calls, is_whole)) in found {
        let name = target.rsplit('/').next().expect("one part at least");
        let right = [format!("/down/{name}"), format!("/down/{name}")];
        assert!(is_whole && calls == right, "{target}: {calls:?}");
    }
}
