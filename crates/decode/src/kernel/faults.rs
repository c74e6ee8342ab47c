//! Page faults, and what the files are called on which they were.

use crate::sink::{RowSink, known};
use crate::tasks::Tasks;
use rustc_hash::FxHashMap;
use wakepath_model::ids::{MonoNs, StrId};
use wakepath_model::rows::FaultRow;
use wakepath_wire as w;

/// Most names of files that are remembered; beyond, they are learned again.
const FILE_NAMES_MAX: usize = 1 << 16;

/// Names of files by device, inode and generation, as page faults tell them.
#[derive(Default)]
pub(super) struct Files {
    names: FxHashMap<(u32, u64, u32), StrId>,
}

impl Files {
    /// What a file is called, for where its path cannot be looked up.
    pub fn learn<S: RowSink>(&mut self, r: &w::FaultFile, sink: &mut S) {
        let name = &r.name[..r.name.iter().position(|&b| b == 0).unwrap_or(r.name.len())];
        if name.is_empty() {
            return;
        }
        if self.names.len() >= FILE_NAMES_MAX {
            self.names.clear();
        }
        let text = sink.intern(&["…/".as_bytes(), name].concat());
        self.names.insert((r.device, r.inode, r.generation), text);
    }

    /// A page fault that is over.
    pub fn fault<S: RowSink>(&self, r: &w::Fault, tasks: &mut Tasks, sink: &mut S) {
        let at = MonoNs(r.ts_ns);
        let Some(kind) = known(r.head.sub, at, sink) else { return };
        let task = tasks.id(r.tgid, r.tid, at, sink);
        let has_file = r.inode != 0;
        let mut file = if has_file { sink.file(r.tgid, r.device, r.inode, r.generation) } else { StrId::EMPTY };
        if has_file && file == StrId::EMPTY {
            let known = self.names.get(&(r.device, r.inode, r.generation));
            file = known.copied().unwrap_or(StrId::EMPTY);
        }
        sink.push(&FaultRow {
            at,
            began: MonoNs(r.began_ns),
            address: r.address,
            ip: r.ip,
            inode: r.inode,
            offset: r.offset,
            device: r.device,
            task,
            file,
            cpu: r.cpu,
            kind,
            access: r.access,
            ..Default::default()
        });
    }
}
