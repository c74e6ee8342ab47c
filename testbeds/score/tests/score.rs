//! The scorer on a small trace made by hand: it must agree with the truth, and must notice every way of being wrong.

use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use wakepath_model::folder::{FolderWriter, HostInfo, Options};
use wakepath_model::ids::{EndpointId, MonoNs, StrId, TaskId};
use wakepath_model::rows::{EndpointRow, Life, OpKind, OpRow, RangeHow, SeenHow, Side, TaskClass, TaskRow, TcpState};

const MS: u64 = 1_000_000;
const CLIENT: TaskId = TaskId(1);
const FRONT: TaskId = TaskId(2);
const BACK: TaskId = TaskId(3);
const FRONT_PORT: u16 = 9001;
const BACK_PORT: u16 = 9002;

/// One end of a connection on loopback.
fn end(flow: u64, task: TaskId, ports: (u16, u16), numbers: (u64, u64), accepted: bool) -> EndpointRow {
    let loopback = [127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    EndpointRow {
        at: MonoNs(MS),
        flow: EndpointId(flow),
        peer: EndpointId(0),
        snd: numbers.0,
        rcv: numbers.1,
        laddr: loopback,
        raddr: loopback,
        netns: 1,
        task,
        path: StrId::EMPTY,
        lport: ports.0,
        rport: ports.1,
        family: 2,
        protocol: 6,
        how: if accepted { SeenHow::Accepted } else { SeenHow::Connected },
        state: TcpState::Established,
        side: if accepted { Side::Server } else { Side::Client },
        ulp: 0,
        ..Default::default()
    }
}

/// Bytes moved, taking 10 us.
fn moved(at: u64, task: TaskId, flow: u64, kind: OpKind, bytes: (u64, u64)) -> OpRow {
    OpRow {
        at: MonoNs(at + 10_000),
        entry: MonoNs(at),
        arrived: MonoNs(0),
        flow: EndpointId(flow),
        start: bytes.0,
        end: bytes.1,
        task,
        result: (bytes.1 - bytes.0) as i32,
        kind,
        range: RangeHow::Exact,
        flags: 0,
        syscall: 0,
        cpu: 0,
        ..Default::default()
    }
}

fn task(id: TaskId) -> TaskRow {
    TaskRow {
        at: MonoNs(MS),
        start: MonoNs(1),
        task: id,
        parent: TaskId(0),
        tgid: 100 + id.0,
        tid: 100 + id.0,
        comm: StrId::EMPTY,
        cmdline: StrId::EMPTY,
        cgroup: StrId::EMPTY,
        what: Life::Snapshot,
        class: TaskClass::User,
        ..Default::default()
    }
}

/// Three requests on kept connections: client -> front -> back.
fn trace(dir: &Path) {
    let mut w = FolderWriter::create(dir, HostInfo::default(), Options::default()).expect("a folder");
    for t in [CLIENT, FRONT, BACK] {
        w.push(&task(t));
    }
    w.push(&end(1, CLIENT, (5001, FRONT_PORT), (100, 500), false));
    w.push(&end(2, FRONT, (FRONT_PORT, 5001), (500, 100), true));
    w.push(&end(3, FRONT, (5002, BACK_PORT), (1000, 2000), false));
    w.push(&end(4, BACK, (BACK_PORT, 5002), (2000, 1000), true));
    for i in 0..3 {
        let at = |step: u64| (10 + 10 * i + step) * MS;
        let bytes = |first: u64| (first + 20 * i, first + 20 * i + 20);
        w.push(&moved(at(0), CLIENT, 1, OpKind::Send, bytes(100)));
        w.push(&moved(at(1), FRONT, 2, OpKind::Recv, bytes(100)));
        w.push(&moved(at(2), FRONT, 3, OpKind::Send, bytes(1000)));
        w.push(&moved(at(3), BACK, 4, OpKind::Recv, bytes(1000)));
        w.push(&moved(at(4), BACK, 4, OpKind::Send, bytes(2000)));
        w.push(&moved(at(5), FRONT, 3, OpKind::Recv, bytes(2000)));
        w.push(&moved(at(6), FRONT, 2, OpKind::Send, bytes(500)));
        w.push(&moved(at(7), CLIENT, 1, OpKind::Recv, bytes(500)));
    }
    w.close().expect("written");
}

fn hop(id: u64, parent: u64, i: u64, step: u64) -> Value {
    let (client, server, component) = if parent == 0 {
        ("127.0.0.1:5001", "127.0.0.1:9001", "front")
    } else {
        ("127.0.0.1:5002", "127.0.0.1:9002", "back")
    };
    let at = |s: u64| (10 + 10 * i + s) * MS;
    json!({
        "hop": id, "parent": parent, "client": client, "server": server, "component": component,
        "conn_bytes": 20 * i, "send_ns": [at(step) - 1000, at(step) + 20_000], "reply_ns": at(7 - step) + 500_000,
        "len": 20, "reply_len": 20, "reply_parts": 1,
    })
}

fn truth(file: &Path, requests: &[Vec<Value>]) {
    let mut text = json!({ "format": "wakepath-truth", "version": 1, "testbed": "hand" }).to_string();
    for (i, hops) in requests.iter().enumerate() {
        let (start, end) = ((10 + 10 * i as u64) * MS - 2000, (17 + 10 * i as u64) * MS + 10_000);
        let line = json!({ "request": i + 1, "start_ns": start, "end_ns": end, "ok": true, "hops": hops });
        text.push_str(&format!("\n{line}"));
    }
    std::fs::write(file, text + "\n").expect("written");
}

fn score(requests: &[Vec<Value>]) -> (i32, Value, String) {
    let dir = tempfile::tempdir().expect("a folder");
    let (folder, file) = (dir.path().join("trace"), dir.path().join("truth.jsonl"));
    trace(&folder);
    truth(&file, requests);
    let out = Command::new(env!("CARGO_BIN_EXE_wakepath-score"))
        .args([&folder, &file])
        .args(["--json", "--show", "3"])
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&out.stderr).into_owned();
    let document = serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {text}"));
    (out.status.code().expect("it ended by itself"), document, text)
}

fn true_requests() -> Vec<Vec<Value>> {
    (0..3).map(|i| vec![hop(1, 0, i, 0), hop(17, 1, i, 2)]).collect()
}

#[test]
fn agrees_with_the_truth() {
    let (code, found, text) = score(&true_requests());
    assert_eq!(found["paths"]["correct"], 3, "{text}");
    assert_eq!(found["paths"]["completeness"], 1.0);
    assert_eq!(found["links"]["right"], 6);
    assert_eq!(code, 0);
}

#[test]
fn a_call_of_another_request_is_a_wrong_parent() {
    let mut requests = true_requests();
    let mut moved = requests[1].pop().expect("a call");
    moved["hop"] = json!(18);
    requests[0].push(moved);
    let (code, found, text) = score(&requests);
    assert_eq!(found["links"]["wrong_parent"], 1, "{text}");
    assert_eq!(found["paths"]["correct"], 1);
    assert_eq!(code, 1);
    assert!(text.contains("is put under r2/1 front") && text.contains("truly under r1/1 front"), "{text}");
    assert!(text.contains("<== WRONG"), "{text}");
}

#[test]
fn a_call_that_is_not_in_the_trace_is_missing() {
    let mut requests = true_requests();
    let mut more = hop(18, 1, 2, 2);
    more["client"] = json!("127.0.0.1:5003");
    requests[2].push(more);
    let (code, found, text) = score(&requests);
    assert_eq!(found["links"]["missing"], 1, "{text}");
    assert_eq!(found["paths"]["correct"], 2);
    assert_eq!(code, 1);
}

#[test]
fn a_call_that_the_truth_does_not_know_is_wrong() {
    let mut requests = true_requests();
    requests[0].pop();
    let (code, found, text) = score(&requests);
    assert_eq!(found["paths"]["correct"], 2, "{text}");
    assert_eq!(code, 1);
    assert!(text.contains("is no call of the truth"), "{text}");
}

#[test]
fn unreadable_input_is_said() {
    let dir = tempfile::tempdir().expect("a folder");
    let out =
        Command::new(env!("CARGO_BIN_EXE_wakepath-score")).args([dir.path(), dir.path()]).output().expect("it runs");
    assert_eq!(out.status.code(), Some(2));
}
