//! Writes the tables of a folder and prints rows per second: `tables_rate FOLDER OUT`. Without arguments it makes a
//! folder of a million operations first.

use std::path::PathBuf;
use std::time::Instant;
use wakepath_model::folder::{Folder, FolderWriter, HostInfo, Options, Overwrite};
use wakepath_model::ids::{EndpointId, MonoNs, StrId, TaskId};
use wakepath_model::rows::{
    AnchorRow, EndedBy, Failed, Life, MessageRole, MessageRow, OpKind, OpRow, RangeHow, TaskClass, TaskRow, WaitRow,
    WitnessKind,
};
use wakepath_present::parquet::write_tables;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).map(PathBuf::from);
    let (folder, out) = match (arguments.next(), arguments.next()) {
        (Some(folder), Some(out)) => (folder, out),
        _ => {
            let folder = std::env::temp_dir().join("wakepath-tables-rate");
            make(&folder)?;
            (folder.clone(), folder.join("tables"))
        }
    };
    let folder = Folder::open(&[folder])?;
    let begin = Instant::now();
    let summary = write_tables(&folder, &out, |_| ())?;
    let elapsed = begin.elapsed().as_secs_f64();
    for t in &summary.tables {
        let per_row = t.bytes as f64 / t.rows.max(1) as f64;
        println!("{:14} {:9} rows {:10} bytes {per_row:7.1} B/row", t.name, t.rows, t.bytes);
    }
    let rows: u64 = summary.tables.iter().map(|t| t.rows).sum();
    println!("{:.2} M rows/s into {}", rows as f64 / elapsed / 1e6, out.display());
    Ok(())
}

fn make(folder: &std::path::Path) -> Result<(), Box<dyn std::error::Error>> {
    let host = HostInfo { hostname: "rate".into(), boot_id: "0123456789".into(), ..HostInfo::default() };
    let options = Options { overwrite: Overwrite::Force, ..Options::default() };
    let mut w = FolderWriter::create(folder, host, options)?;
    let [comm, http, get, path] = ["nginx", "proto.http1", "GET", "/users/{}"].map(|t| w.intern(t));
    w.push(&TaskRow {
        at: MonoNs(1),
        start: MonoNs(1),
        task: TaskId(1),
        parent: TaskId(0),
        tgid: 100,
        tid: 100,
        comm,
        cmdline: StrId::EMPTY,
        cgroup: StrId::EMPTY,
        what: Life::Snapshot,
        class: TaskClass::User,
        ..Default::default()
    });
    let mut x = 0x9e37_79b9_7f4a_7c15u64;
    let mut at = 1_000_000_000u64;
    for i in 0..1_000_000u64 {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        at += 200 + x % 4000;
        if i % 10_000 == 0 {
            w.push(&AnchorRow {
                at: MonoNs(at),
                real_ns: 1_790_000_000_000_000_000 + at,
                error_ns: 100,
                ..Default::default()
            });
        }
        let flow = EndpointId(0x1000 + x % 64);
        w.push(&OpRow {
            at: MonoNs(at),
            entry: MonoNs(at - 1000),
            arrived: MonoNs(0),
            flow,
            start: i * 100,
            end: i * 100 + 100,
            task: TaskId(1),
            result: 100,
            kind: OpKind::Recv,
            range: RangeHow::Exact,
            flags: 0,
            syscall: 45,
            cpu: (x >> 50) as u16 % 8,
            ..Default::default()
        });
        if i % 3 == 0 {
            w.push(&wait(at, x, flow));
        }
        if i % 10 == 0 {
            w.push(&request(at, i, flow, [http, get, path]));
        }
    }
    w.close()?;
    Ok(())
}

fn wait(at: u64, x: u64, flow: EndpointId) -> WaitRow {
    WaitRow {
        at: MonoNs(at),
        blocked: MonoNs(at - (x >> 30) % 100_000),
        woken: MonoNs(at - 900),
        object: flow.0,
        arg0: 3,
        task: TaskId(1),
        by: TaskId(0),
        rcv_seq: 0,
        state: 1,
        syscall: 232,
        cpu: 0,
        woken_cpu: 0,
        cause: EndedBy::Socket,
        ..Default::default()
    }
}

fn request(at: u64, i: u64, flow: EndpointId, [protocol, verb, target]: [StrId; 3]) -> MessageRow {
    MessageRow {
        at: MonoNs(at),
        flow,
        start: i * 100,
        end: i * 100 + 100,
        witness: 0,
        protocol,
        verb,
        target,
        detail: StrId::EMPTY,
        status: 0,
        role: MessageRole::Request,
        sent: 0,
        witness_kind: WitnessKind::None,
        failed: Failed::No,
        cut: 0,
        flags: 0,
        ..Default::default()
    }
}
