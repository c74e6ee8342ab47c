//! TLS in clear: what real programs say through OpenSSL, GnuTLS and Go's crypto/tls must come out as without TLS, at both ends and with the same
//! numbers.

use crate::harness::*;
use crate::runtimes::built_by_go_with;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;
use wakepath_model::defects::id as defect;
use wakepath_model::rows::{MessageRole, MessageRow};

/// What `tls.py` and `tls/main.go` ask on each connection: method, path, status.
pub const ASKED: [(&str, &str, u16); 6] = [
    ("GET", "/items", 200),
    ("GET", "/big", 200),
    ("POST", "/orders", 201),
    ("GET", "/missing", 404),
    ("GET", "/huge", 200),
    ("PUT", "/small", 200),
];
pub const SECRET: &str = "hunter2-QxKvBzJwMp";
/// Connections of a round.
const CLIENTS: usize = 2;

/// One of them, ready to begin.
pub struct Program(pub Child, BufReader<ChildStdout>);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Program {
    pub fn start(mode: &str, dir: &Path, rounds: usize) -> Program {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernel/tls.py");
        Program::start_with(Command::new("python3").arg(script), mode, dir, rounds)
    }

    pub fn start_with(program: &mut Command, mode: &str, dir: &Path, rounds: usize) -> Program {
        let mut child = program
            .arg(mode)
            .arg(dir)
            .arg(rounds.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let out = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut program = Program(child, out);
        assert_eq!(program.line(), "ready");
        program
    }

    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.1.read_line(&mut line).expect("it says something");
        line.trim_end().to_owned()
    }

    /// Lets it ask.
    pub fn begin(&mut self) {
        self.0.stdin.as_mut().expect("it is piped").write_all(b"\n").expect("it listens");
    }
}

/// The messages of each flow: whose side, and in order of bytes.
pub fn by_flow(trace: &Trace) -> BTreeMap<(u64, u8), Vec<&MessageRow>> {
    let mut flows: BTreeMap<(u64, u8), Vec<&MessageRow>> = BTreeMap::new();
    for m in trace.messages.iter().filter(|m| matches!(m.role, MessageRole::Request | MessageRole::Reply)) {
        flows.entry((m.flow.0, m.sent)).or_default().push(m);
    }
    flows
}

/// Holds that every connection of `rounds` was read whole, and alike at both ends.
fn check(trace: &Trace, protocol: &str, rounds: usize) {
    let flows = by_flow(trace);
    let connections = rounds * CLIENTS;
    // requests at clients and at servers, replies at servers and at clients
    assert_eq!(flows.len(), 4 * connections, "{:?}", trace.losses);
    let mut places: BTreeMap<Vec<u64>, usize> = BTreeMap::new();
    for said in flows.values() {
        let is_request = said[0].role == MessageRole::Request;
        for (m, (verb, target, status)) in said.iter().zip(ASKED) {
            assert_eq!(trace.text(m.protocol), protocol);
            if is_request {
                assert_eq!((trace.text(m.verb), trace.text(m.target)), (verb, target));
            } else {
                assert_eq!(m.status, status, "{target}");
            }
        }
        assert_eq!(said.len(), ASKED.len());
        *places.entry(said.iter().map(|m| m.start).collect()).or_default() += 1;
    }
    // two ends of a connection call a byte alike
    assert!(places.values().all(|ends| *ends == 2), "{places:?}");
    let lost = [defect::TLS_UNFIT, defect::TLS_UNJOINED, defect::TLS_UNREAD].map(|id| trace.lost(id));
    assert_eq!(lost, [0; 3]);
}

fn reads_all(mode: &str) {
    reads_all_of(|keys| Program::start(mode, keys, 3), "libssl", "proto.http1");
}

/// What was built from `tls/main.go` with these flags.
fn reads_all_of_go(flags: &[&str], mode: &str, protocol: &str) {
    let name = format!("tls-{mode}-{}", flags.len());
    let Some(built) = built_by_go_with("crates/wakepath/tests/kernel/tls", &name, flags) else { return };
    reads_all_of(|keys| Program::start_with(&mut Command::new(&built), mode, keys, 3), &name, protocol);
}

/// What was built from `tls.c`, with these flags of the linker.
pub fn built_from_c(dir: &Path, name: &str, flags: &[&str]) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernel/tls.c");
    let out = dir.join(name);
    let built = Command::new("cc").args(["-O2", "-pthread", "-o"]).args([&out, &source]).args(flags).output();
    let built = built.expect("a C compiler");
    let said = String::from_utf8_lossy(&built.stderr);
    if ["cannot find", "No such file"].iter().any(|lacks| said.contains(lacks)) {
        skip(&format!("{said}; remedy: apt-get install libssl-dev libgnutls28-dev"));
        return None;
    }
    assert!(built.status.success(), "{said}");
    Some(out)
}

fn reads_all_of_c(name: &str, flags: &[&str], probed: &str) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let Some(built) = built_from_c(dir.path(), name, flags) else { return };
    reads_all_of(|keys| Program::start_with(&mut Command::new(&built), "new", keys, 3), probed, "proto.http1");
}

fn reads_all_of(start: impl Fn(&Path) -> Program, probed: &str, protocol: &str) {
    for backend in BACKENDS {
        let keys = tempfile::tempdir().expect("a temporary folder");
        let mut program = start(keys.path());
        let pid = program.0.id().to_string();
        let folder = keys.path().join("trace");
        let Some(rec) = record_to(backend, &["--tls", "--no-compress", "--pid", &pid], folder.clone()) else { return };
        program.begin();
        let failed = program.line();
        assert!(failed.starts_with("0 "), "{failed}");
        let said = rec.said();
        assert!(said.lines().any(|l| l.contains(" probes in ") && l.contains(probed)), "where they are: {said}");
        check(&rec.stop(), protocol, 3);
        for file in files(&folder) {
            let bytes = std::fs::read(&file).expect("a file");
            assert!(!bytes.windows(SECRET.len()).any(|w| w == SECRET.as_bytes()), "{file:?}");
        }
    }
}

pub fn files(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).expect("a folder").map(|e| e.expect("an entry").path()) {
        if entry.is_dir() { found.extend(files(&entry)) } else { found.push(entry) }
    }
    found
}

#[test]
fn what_goes_to_a_socket_amid_a_call_is_read() {
    reads_all("socket");
}

#[test]
fn what_goes_through_memory_is_read() {
    reads_all("memory");
}

#[test]
fn what_goes_through_openssl_in_a_program_with_symbols_is_read() {
    reads_all_of_c("tls-static", &["-l:libssl.a", "-l:libcrypto.a", "-ldl"], "tls-static");
}

#[test]
fn what_goes_through_gnutls_is_read() {
    reads_all_of_c("tls-gnutls", &["-DGNUTLS", "-lgnutls"], "libgnutls");
}

#[test]
fn what_go_encrypts_is_read_stripped_or_not_and_where_code_can_be_moved() {
    reads_all_of_go(&[], "http1", "proto.http1");
    reads_all_of_go(&["-ldflags=-s -w"], "tls12", "proto.http1");
    reads_all_of_go(&["-ldflags=-s -w", "-buildmode=pie"], "http1", "proto.http1");
}

#[test]
fn http2_that_go_encrypts_is_read() {
    reads_all_of_go(&["-ldflags=-s -w"], "http2", "proto.http2");
}

/// Recordings that end while connections are in use: all plaintext fits its records up to the end.
fn fits_up_to_the_end(start: impl Fn(&Path) -> Program) {
    for turn in 0..6 {
        let keys = tempfile::tempdir().expect("a temporary folder");
        let mut program = start(keys.path());
        let backend = BACKENDS[turn % BACKENDS.len()];
        let Some(rec) = record_as(backend, &["--tls", "--pid", &program.0.id().to_string()]) else { return };
        program.begin();
        std::thread::sleep(Duration::from_millis(500));
        let trace = rec.stop();
        program.begin();
        let failed = program.line();
        assert!(failed.starts_with("0 "), "{failed}");
        assert!(trace.messages.iter().any(|m| trace_is_http(&trace, m)), "{backend}: {:?}", trace.losses);
        assert_eq!(trace.lost(defect::TLS_UNFIT), 0, "{backend}, turn {turn}: {:?}", trace.losses);
    }
}

#[test]
fn a_recording_may_end_amid_calls_of_openssl() {
    fits_up_to_the_end(|keys| Program::start("socket-kept", keys, 1));
    fits_up_to_the_end(|keys| Program::start("memory-kept", keys, 1));
}

#[test]
fn a_recording_may_end_amid_calls_of_go() {
    let Some(built) = built_by_go_with("crates/wakepath/tests/kernel/tls", "tls-end", &[]) else { return };
    fits_up_to_the_end(|keys| Program::start_with(&mut Command::new(&built), "http1-kept", keys, 1));
}

#[test]
fn probes_that_come_and_go_let_no_request_fail() {
    let keys = tempfile::tempdir().expect("a temporary folder");
    no_request_fails(Program::start("socket", keys.path(), 1_000_000));
}

#[test]
fn probes_that_come_and_go_in_go_let_no_request_fail() {
    let keys = tempfile::tempdir().expect("a temporary folder");
    let Some(built) = built_by_go_with("crates/wakepath/tests/kernel/tls", "tls", &[]) else { return };
    no_request_fails(Program::start_with(&mut Command::new(built), "http1", keys.path(), 1_000_000));
}

fn no_request_fails(mut program: Program) {
    let pid = program.0.id().to_string();
    program.begin();
    for _ in 0..20 {
        let Some(rec) = record_as("auto", &["--tls", "--pid", &pid]) else { return };
        let trace = rec.stop_when(|t| t.messages.iter().any(|m| trace_is_http(t, m)));
        // of connections from before, too, nothing is read wrong
        for m in trace.messages.iter().filter(|m| m.role == MessageRole::Request && trace_is_http(&trace, m)) {
            let asked = (trace.text(m.verb), trace.text(m.target));
            assert!(ASKED.iter().any(|&(verb, target, _)| (verb, target) == asked), "{asked:?}");
        }
    }
    program.begin();
    let failed = program.line();
    assert!(failed.starts_with("0 "), "{failed}");
}

fn trace_is_http(trace: &Trace, m: &MessageRow) -> bool {
    trace.text(m.protocol) == "proto.http1"
}
