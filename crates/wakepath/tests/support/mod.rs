//! Small folders, the command itself, and the schemas of its answers.
#![allow(dead_code, reason = "each test binary uses its part")]

use jsonschema::Validator;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use wakepath_model::defects::id as defect;
use wakepath_model::folder::{FolderWriter, HostInfo, MONOTONIC, Options};
use wakepath_model::ids::{EndpointId, MonoNs, StrId, TaskId};
use wakepath_model::rows::{
    AnchorRow, EndpointRow, Failed, FlowNoteRow, Life, MessageRole, MessageRow, SeenHow, Side, TaskClass, TaskRow,
    TcpState, WitnessKind,
};

/// Any failure of a test.
pub type Tested = Result<(), Box<dyn std::error::Error>>;

/// The command, with nothing of the caller's environment that changes what it prints. Most tests ask a few things once and
/// look for them by name, so all words are written; `tests/privacy.rs` holds what is written by default.
pub fn wakepath(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wakepath"));
    command.args(args).stdin(Stdio::null());
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "PAGER", "WAKEPATH_PAGER", "SUDO_UID", "SUDO_GID"]
    {
        command.env_remove(name);
    }
    command.env("TERM", "xterm").env("WAKEPATH_WORDS", "all");
    command
}

/// Runs the command.
pub fn run(args: &[&str]) -> Output {
    wakepath(args).output().expect("the command starts")
}

/// What it printed.
pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What it said beside the answer.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Columns of the widest line.
pub fn widest(text: &str) -> usize {
    text.lines().map(|l| l.chars().count()).max().unwrap_or(0)
}

/// The schemas' folder.
pub fn schemas() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas")
}

fn schema(name: &str) -> Value {
    let path = schemas().join(format!("{name}.schema.json"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Checks a document against `docs/schemas/NAME.schema.json`.
pub fn check(name: &str, document: &str) -> Value {
    let own = schema(name);
    assert!(jsonschema::meta::is_valid(&own));
    let validator: Validator = jsonschema::options().build(&own).expect("the schema is one");
    let value: Value = serde_json::from_str(document).unwrap_or_else(|e| panic!("{e}: {document}"));
    let wrong: Vec<String> = validator.iter_errors(&value).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(wrong.is_empty(), "{wrong:#?}\n{document}");
    value
}

/// A host.
pub fn host(name: &str, boot: &str) -> HostInfo {
    HostInfo {
        hostname: name.into(),
        boot_id: boot.into(),
        kernel_release: "6.1.0-18-amd64".into(),
        arch: "x86_64".into(),
        cpus: 2,
        selection: "--port 443".into(),
        flags: vec!["--payload attributes".into()],
        agent_version: "0.1.0".into(),
        clock: MONOTONIC.into(),
        ..HostInfo::default()
    }
}

/// An endpoint on 127.0.0.1.
pub fn endpoint(at: u64, flow: u64, lport: u16, state: TcpState) -> EndpointRow {
    let mut laddr = [0; 16];
    laddr[..4].copy_from_slice(&[127, 0, 0, 1]);
    EndpointRow {
        at: MonoNs(at),
        flow: EndpointId(flow),
        peer: EndpointId(0),
        snd: 0,
        rcv: 0,
        laddr,
        raddr: laddr,
        netns: 1,
        task: TaskId(1),
        path: StrId::EMPTY,
        lport,
        rport: 0,
        family: 2,
        protocol: 6,
        how: SeenHow::Snapshot,
        state,
        side: Side::Server,
        ulp: 0,
        ..Default::default()
    }
}

/// A web server with one listener, one HTTP flow with two messages, one opaque flow and a UNIX listener; its name tries
/// to play with the terminal. With `loss`, the recording says that it lost operations.
pub fn write_small(path: &Path, name: &str, boot: &str, loss: bool) {
    let mut w = FolderWriter::create(path, host(name, boot), Options::default()).expect("a new folder");
    let comm = w.intern("ngi\u{1b}[2Jnx");
    let cgroup = w.intern("/system.slice/nginx.service");
    w.push(&TaskRow {
        at: MonoNs(1_000),
        start: MonoNs(500),
        task: TaskId(1),
        parent: TaskId(0),
        tgid: 77,
        tid: 77,
        comm,
        cmdline: StrId::EMPTY,
        cgroup,
        what: Life::Snapshot,
        class: TaskClass::User,
        ..Default::default()
    });
    w.push(&AnchorRow { at: MonoNs(1_000), real_ns: 1_700_000_000_000_000_000, error_ns: 50, ..Default::default() });
    w.push(&endpoint(1_001, 10, 443, TcpState::Listen));
    w.push(&endpoint(1_002, 11, 443, TcpState::Established));
    w.push(&endpoint(1_003, 12, 443, TcpState::Established));
    let unix = EndpointRow { family: 1, protocol: 0, lport: 0, ..endpoint(1_004, 13, 0, TcpState::Listen) };
    w.push(&unix);
    let (http, why) = (w.intern("proto.http1"), w.intern("encrypted (TLS)"));
    w.push(&FlowNoteRow {
        at: MonoNs(2_000),
        flow: EndpointId(11),
        protocol: http,
        reason: StrId::EMPTY,
        ..Default::default()
    });
    w.push(&FlowNoteRow {
        at: MonoNs(2_001),
        flow: EndpointId(12),
        protocol: StrId::EMPTY,
        reason: why,
        ..Default::default()
    });
    let (get, target) = (w.intern("GET"), w.intern("/cart/{id}"));
    for (at, role, failed) in [(3_000, MessageRole::Request, 0), (2_000_003_000, MessageRole::Reply, 1)] {
        w.push(&MessageRow {
            at: MonoNs(at),
            flow: EndpointId(11),
            start: 0,
            end: 100,
            witness: 0,
            protocol: http,
            verb: get,
            target,
            detail: StrId::EMPTY,
            status: 503 * u16::from(failed),
            role,
            sent: failed,
            witness_kind: WitnessKind::None,
            failed: if failed == 0 { Failed::No } else { Failed::Yes },
            cut: 0,
            flags: 0,
            ..Default::default()
        });
    }
    if loss {
        w.push_loss(defect::RING_OP, 12, MonoNs(3_000), MonoNs(4_000));
        w.push_loss(defect::RING_OP, 3, MonoNs(4_000), MonoNs(5_000));
    }
    w.close().expect("the disk takes it");
}

/// The first segment of a folder's first host.
pub fn segment(folder: &Path) -> PathBuf {
    let first = |dir: &Path, wanted: &str| -> PathBuf {
        let entries = std::fs::read_dir(dir).expect("it is there").flatten().map(|e| e.path());
        let mut found: Vec<PathBuf> =
            entries.filter(|p| wanted.is_empty() || p.extension().is_some_and(|e| e == wanted)).collect();
        found.sort();
        found.swap_remove(0)
    };
    first(&first(&folder.join("hosts"), ""), "seg")
}
