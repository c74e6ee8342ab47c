//! TLS in clear on connections that are older than the recording: what is read of them is right, and of what is not read the recording says so.

use crate::harness::*;
use crate::runtimes::built_by_go_with;
use crate::tls::{ASKED, Program, built_from_c, by_flow};
use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;
use wakepath_model::defects::id as defect;
use wakepath_model::rows::{MessageRole, MessageRow};

/// Ends of the connections: two clients, and their server.
const ENDS: usize = 4;

/// What of one connection's requests or replies may be at a place: what is not known is empty.
fn is_it(trace: &Trace, m: &MessageRow, (verb, target, status): (&str, &str, u16)) -> bool {
    let may_be = |said: &str, is: &str| said.is_empty() || said == is;
    match m.role {
        MessageRole::Request => may_be(trace.text(m.verb), verb) && may_be(trace.text(m.target), target),
        _ => m.status == 0 || m.status == status,
    }
}

/// Records a program whose connections are in use, and gives how many of their ends were read in clear.
fn read_ends(mut program: Program, protocol: &str) -> Option<usize> {
    let pid = program.0.id().to_string();
    program.begin();
    std::thread::sleep(Duration::from_millis(300));
    let rec = record_as("auto", &["--tls", "--pid", &pid])?;
    std::thread::sleep(Duration::from_secs(2));
    let trace = rec.stop();
    program.begin();
    let failed = program.line();
    assert!(failed.starts_with("0 "), "{failed}");
    let (mut ends, mut places) = (0, BTreeMap::new());
    for ((flow, _), said) in by_flow(&trace) {
        let said: Vec<_> = said.into_iter().filter(|m| trace.text(m.protocol) == protocol).collect();
        if said.is_empty() {
            continue;
        }
        // one after the other, as they were asked, whichever was the first
        let fits =
            |first: usize| said.iter().enumerate().all(|(i, m)| is_it(&trace, m, ASKED[(first + i) % ASKED.len()]));
        let names = || said.iter().map(|m| (trace.text(m.verb), trace.text(m.target), m.status)).collect::<Vec<_>>();
        assert!((0..ASKED.len()).any(fits), "{flow}: {:?}", names());
        ends += usize::from(said[0].role == MessageRole::Request);
        // two ends of a connection call a byte alike, so what one says of it holds for the other
        let end = trace.endpoints.iter().find(|e| e.flow.0 == flow).expect("an endpoint of each flow");
        let connection = (end.lport.min(end.rport), end.lport.max(end.rport));
        for m in said.iter().filter(|m| m.role == MessageRole::Request && !trace.text(m.target).is_empty()) {
            let names = (trace.text(m.verb), trace.text(m.target));
            let other = *places.entry((connection, m.start)).or_insert(names);
            assert_eq!(other, names, "{flow}: two things at {}", m.start);
        }
    }
    let lost = [defect::TLS_UNFIT, defect::TLS_UNJOINED, defect::TLS_UNREAD].map(|id| trace.lost(id));
    println!("{ends} of {ENDS} ends; unfit, unjoined, unread: {lost:?}");
    assert!(ends == ENDS || lost.iter().sum::<u64>() > 0, "{ends} ends, and nothing is said to be lost");
    Some(ends)
}

fn read_ends_of_c(name: &str, flags: &[&str]) -> Option<usize> {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let built = built_from_c(dir.path(), name, flags)?;
    read_ends(Program::start_with(&mut Command::new(built), "kept", dir.path(), 1), "proto.http1")
}

fn read_ends_of_go(mode: &str, protocol: &str) -> Option<usize> {
    let keys = tempfile::tempdir().expect("a temporary folder");
    let built = built_by_go_with("crates/wakepath/tests/kernel/tls", &format!("tls-{mode}"), &[])?;
    read_ends(Program::start_with(&mut Command::new(built), mode, keys.path(), 1), protocol)
}

fn read_ends_of_python(mode: &str) -> Option<usize> {
    let keys = tempfile::tempdir().expect("a temporary folder");
    read_ends(Program::start(mode, keys.path(), 1), "proto.http1")
}

#[test]
fn sockets_of_openssl_are_read() {
    let Some(ends) = read_ends_of_c("tls-openssl", &["-lssl", "-lcrypto"]) else { return };
    assert_eq!(ends, ENDS);
}

#[test]
fn sockets_of_gnutls_are_read() {
    let Some(ends) = read_ends_of_c("tls-gnutls", &["-DGNUTLS", "-lgnutls"]) else { return };
    assert_eq!(ends, ENDS);
}

#[test]
fn what_goes_through_memory_is_right_or_counted() {
    read_ends_of_python("memory-kept");
}

#[test]
fn what_go_encrypts_is_right_or_counted() {
    read_ends_of_go("http1-kept", "proto.http1");
}

#[test]
fn http2_that_go_encrypts_is_right_or_counted() {
    read_ends_of_go("http2-kept", "proto.http2");
}
