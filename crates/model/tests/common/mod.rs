//! Small recordings for the tests of the folder.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::path::Path;
use wakepath_model::folder::{FolderError, FolderWriter, HostInfo, Options, Overwrite, WriteCounts};
use wakepath_model::ids::{EndpointId, MonoNs, StrId, TaskId};
use wakepath_model::rows::{AnchorRow, FaultRow, Life, OpKind, OpRow, RangeHow, TaskClass, TaskRow};

pub fn host(hostname: &str, boot_id: &str) -> HostInfo {
    HostInfo { hostname: hostname.into(), boot_id: boot_id.into(), cpus: 2, ..HostInfo::default() }
}

pub fn options() -> Options {
    Options::default()
}

pub fn op(at: u64, start: u64) -> OpRow {
    OpRow {
        at: MonoNs(at),
        entry: MonoNs(at),
        arrived: MonoNs(0),
        flow: EndpointId(7),
        start,
        end: start.wrapping_add(1),
        task: TaskId(1),
        result: 1,
        kind: OpKind::Send,
        range: RangeHow::Exact,
        flags: 0,
        syscall: 44,
        cpu: 1,
        ..Default::default()
    }
}

pub fn task(at: u64, task: u32, comm: StrId) -> TaskRow {
    TaskRow {
        at: MonoNs(at),
        start: MonoNs(at),
        task: TaskId(task),
        parent: TaskId(0),
        tgid: task,
        tid: task,
        comm,
        cmdline: StrId::EMPTY,
        cgroup: StrId::EMPTY,
        what: Life::Snapshot,
        class: TaskClass::User,
        ..Default::default()
    }
}

pub fn fault(at: u64, task: u32, file: StrId) -> FaultRow {
    FaultRow {
        at: MonoNs(at),
        began: MonoNs(at),
        address: 0x7f00_0000_1000,
        ip: 0x40_1000,
        inode: 12,
        offset: 4096,
        device: 8 << 20,
        task: TaskId(task),
        file,
        cpu: 1,
        kind: wakepath_model::rows::FaultKind::Major,
        access: wakepath_model::rows::access::USER,
        ..Default::default()
    }
}

/// Ten operations, a task and an anchor.
pub fn write_small(path: &Path, boot_id: &str, overwrite: Overwrite) -> Result<WriteCounts, FolderError> {
    let mut w = FolderWriter::create(path, host("web", boot_id), Options { overwrite, ..options() })?;
    let comm = w.intern("nginx");
    w.push(&task(1, 1, comm));
    w.push(&AnchorRow { at: MonoNs(2), real_ns: 1_700_000_000_000_000_000, error_ns: 50, ..Default::default() });
    for i in 0..10 {
        w.push(&op(10 + i, i));
    }
    w.close()
}
