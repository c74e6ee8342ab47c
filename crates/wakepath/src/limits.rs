//! Writes down what bounds the processes that are there: at the begin, of those that come, and at the end.

use crate::sink::Sink;
use std::collections::HashMap;
use wakepath_capture::limits::{Cgroups, Quota, affinity, processors};
use wakepath_capture::{monotonic_ns, procfs};
use wakepath_decode::{KernelDecoder, RowSink as _};
use wakepath_model::ids::{EndpointId, MonoNs, StrId, TaskId};
use wakepath_model::rows::{LimitKind, LimitRow};

/// Most processes looked at in one round while the recording goes on; the end looks at all that are still there.
pub const ROUND_MAX: usize = 64;

/// Where bounds are looked up.
pub struct Limits {
    cgroups: Cgroups,
    processors: u64,
}

impl Limits {
    /// Looks where the hierarchies of cgroups are.
    pub fn find() -> Limits {
        Limits { cgroups: Cgroups::find(), processors: processors() }
    }

    /// What bounds the host, and every process that is known, at a moment.
    pub fn all(&self, at: MonoNs, decoder: &KernelDecoder, sink: &mut Sink) {
        sink.new_processes.clear();
        sink.push(&row(at, LimitKind::Processors, TaskId::UNKNOWN, self.processors, 0));
        if let Some(times) = procfs::syn_linear_timeouts() {
            sink.push(&row(at, LimitKind::SynLinear, TaskId::UNKNOWN, times, 0));
        }
        self.tell(at, procfs::processes(), decoder, sink);
    }

    /// What bounds those that came since.
    pub fn new_ones(&self, decoder: &KernelDecoder, sink: &mut Sink) {
        let some = sink.new_processes.len().min(ROUND_MAX);
        let mut new: Vec<u32> = sink.new_processes.drain(..some).collect();
        new.sort_unstable();
        new.dedup();
        self.tell(MonoNs(monotonic_ns()), new, decoder, sink);
    }

    fn tell(&self, at: MonoNs, processes: Vec<u32>, decoder: &KernelDecoder, sink: &mut Sink) {
        // many are in one cgroup
        let mut quotas: HashMap<Vec<u8>, Option<Quota>> = HashMap::new();
        for tgid in processes {
            let task = decoder.task_of(tgid);
            let Some(paths) = (task != TaskId::UNKNOWN).then(|| procfs::cgroups(tgid)).flatten() else { continue };
            if let Some(q) = quotas.entry(paths).or_insert_with_key(|paths| self.cgroups.quota(paths)) {
                let cgroup = sink.intern(q.cgroup.as_bytes());
                sink.push(&LimitRow { cgroup, ..row(at, LimitKind::Quota, task, q.quota_ns, q.period_ns) });
            }
            if let Some((count, first)) = affinity(tgid).filter(|a| a.0 < self.processors) {
                sink.push(&row(at, LimitKind::Affinity, task, count, first));
            }
        }
    }
}

fn row(at: MonoNs, kind: LimitKind, task: TaskId, value: u64, beside: u64) -> LimitRow {
    LimitRow { at, flow: EndpointId(0), value, beside, task, cgroup: StrId::EMPTY, port: 0, kind, ..Default::default() }
}
