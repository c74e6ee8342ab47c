//! Connections that do not come about: whom the program tried, and what came of it, however it was told.

mod support;

use std::path::Path;
use support::{Mode, Run, program, run, same_in_all_modes};
use wakepath_wire as w;

/// What one part of the program did: its run, isolating, and the ports that it tried.
fn tried(part: &str) -> (Run, Vec<u16>) {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("connects-{part}-{}", std::process::id()));
    let name = file.to_str().expect("a plain path");
    same_in_all_modes(&program("connects"), &[part, name]);
    // the ports are those of the last run
    let run = run(Mode::Isolate, &program("connects"), &[part, name]);
    let ports = std::fs::read_to_string(&file).expect("it was written");
    (run, ports.lines().map(|l| l.parse().expect("a port")).collect())
}

/// Each connect in order: the other end's family, address and port as announced, and the result.
fn connects(run: &Run) -> Vec<(u16, [u8; 16], u16, i32)> {
    let flows: Vec<w::FlowSeen> = run.all(w::KIND_FLOW);
    let asked = run.operations().into_iter().filter(|o| o.head.sub == w::OP_CONNECT);
    asked
        .map(|o| {
            let f = flows.iter().rfind(|f| f.flow == o.flow && f.ts_ns <= o.ts_ns).expect("it was announced before");
            (f.family, f.raddr, f.rport, o.bytes)
        })
        .collect()
}

fn here() -> [u8; 16] {
    let mut a = [0; 16];
    a[..4].copy_from_slice(&[127, 0, 0, 1]);
    a
}

const INET: u16 = libc::AF_INET as u16;

#[test]
fn a_call_that_waits_tells_to_whom_it_was_to_go() {
    let (run, ports) = tried("waiting");
    let mut nowhere = [0; 16];
    nowhere[..4].copy_from_slice(&[255; 4]);
    let expected = [(INET, here(), ports[0], -libc::ECONNREFUSED), (INET, nowhere, 9, -libc::ENETUNREACH)];
    assert_eq!(connects(&run), expected, "and nothing of calls on what is no socket, or to no address");
}

#[test]
fn ipv6() {
    let (run, ports) = tried("waiting_6");
    if run.text().contains("no IPv6") {
        println!("skipped: no IPv6 here");
        return;
    }
    let mut here = [0; 16];
    here[15] = 1;
    assert_eq!(connects(&run), [(libc::AF_INET6 as u16, here, ports[0], -libc::ECONNREFUSED)]);
}

#[test]
fn unix_sockets_by_path() {
    let (run, _) = tried("by_path");
    let results: Vec<_> = connects(&run).iter().map(|c| (c.0, c.3)).collect();
    let unix = libc::AF_UNIX as u16;
    assert_eq!(results, [(unix, -libc::ENOENT), (unix, -libc::ECONNREFUSED)]);
    let named = run.records.iter().filter(|r| r[6] == w::KIND_FLOW);
    let paths = named.filter(|r| r.windows(19).any(|part| part == b"/nonexistent/socket")).count();
    assert_eq!(paths, 1, "where it was to go");
}

#[test]
fn a_call_that_does_not_wait_is_told_when_its_end_is_learnt() {
    for part in ["by_option", "by_write", "by_read", "by_another_call", "by_poll"] {
        let (run, ports) = tried(part);
        let one = |result: i32| (INET, here(), ports[0], result);
        assert_eq!(connects(&run), [one(-libc::EINPROGRESS), one(-libc::ECONNREFUSED)], "{part}");
    }
}

#[test]
fn no_answer_in_time() {
    let (run, ports) = tried("timed_out");
    let connects = connects(&run);
    assert_eq!(connects.last(), Some(&(INET, here(), ports[0], -libc::ETIMEDOUT)), "{connects:?}");
}

#[test]
fn given_up_before_an_answer() {
    let (run, ports) = tried("given_up");
    let one = |result: i32| (INET, here(), ports[0], result);
    assert_eq!(
        connects(&run),
        [one(0), one(-libc::EINPROGRESS), one(-libc::ECANCELED)],
        "asking again is no other try"
    );
}

#[test]
fn one_that_comes_about_has_no_second_end() {
    let (run, ports) = tried("made");
    let connects = connects(&run);
    assert_eq!(connects[0], (INET, here(), ports[0], -libc::EINPROGRESS), "to no address: to this host");
    assert!(connects[1..].iter().all(|c| c.3 == 0), "{connects:?}");
    let sent = run.operations().into_iter().filter(|o| o.head.sub == w::OP_SEND && o.bytes == 1).count();
    assert_eq!(sent, 1);
}
