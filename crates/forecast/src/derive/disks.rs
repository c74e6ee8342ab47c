//! Disks: how long each wait for one kept it busy, and whether it serves one at a time.
//!
//! Who waits in a queue before a disk and who is served look alike from outside. Where waits overlapped, those that
//! were not alone tell: they take as much longer as there are more of them where the disk serves one at a time, and as
//! long as others where it serves all at once.

use super::visits::{Visits, waits};
use crate::system::{Discipline, Station};
use rustc_hash::FxHashMap;
use wakepath_analysis::names::Names;
use wakepath_graph::Index;
use wakepath_model::ids::{HostId, MonoNs, TaskId};
use wakepath_model::rows::{EndedBy, WaitRow};

/// Least waits in company, and alone, that tell how a disk serves.
const COMPARED_MIN: usize = 20;
/// In company: on average with at least so many others' part beside its own.
const IN_COMPANY: f64 = 1.5;
/// Alone: with less than that.
const ALONE: f64 = 1.1;

/// Disks that requests waited for.
#[derive(Clone, Debug, Default)]
pub struct Disks {
    /// Each host's, where one was waited for; named `HOST/disk`.
    pub stations: Vec<(HostId, Station)>,
    /// What finding them took for granted, a sentence each.
    pub assumptions: Vec<String>,
    /// How long the disk took for a wait (ns), by host, task and begin.
    served: FxHashMap<(HostId, TaskId, MonoNs), u64>,
}

impl Disks {
    /// How long the disk needed for a task's wait (ns), without those that it served before; `None` where the wait was
    /// not for a disk.
    pub fn served_ns(&self, host: HostId, wait: &WaitRow) -> Option<u64> {
        self.served.get(&(host, wait.task, wait.blocked)).copied()
    }
}

/// A wait for a disk.
#[derive(Clone, Copy)]
struct Io {
    task: TaskId,
    from: MonoNs,
    to: MonoNs,
}

/// The disks that `visits` waited for.
pub fn find(index: &Index, names: &Names<'_>, visits: &Visits) -> Disks {
    let mut of_host: FxHashMap<HostId, Vec<Io>> = FxHashMap::default();
    for v in visits.all() {
        for w in waits(index, v.host, v.task, v.from, v.to).filter(is_disk) {
            let io = Io { task: w.task, from: w.blocked, to: w.woken.clamp(w.blocked, w.at) };
            of_host.entry(v.host).or_default().push(io);
        }
    }
    let mut hosts: Vec<(HostId, Vec<Io>)> = of_host.into_iter().collect();
    hosts.sort_unstable_by_key(|h| h.0);
    let mut out = Disks::default();
    for (host, mut ios) in hosts {
        ios.sort_unstable_by_key(|io| (io.to, io.from, io.task));
        // an event loop's visits share its waits
        ios.dedup_by_key(|io| (io.task, io.from));
        let name = format!("{}/disk", names.host(host));
        let is_one = match serves_one(&ios) {
            Some(true) => {
                out.assumptions.push(format!("{name} serves one at a time: waits together took as much longer"));
                true
            }
            Some(false) => {
                out.assumptions.push(format!("{name} serves all at once: waits together took no longer than alone"));
                false
            }
            None => {
                out.assumptions.push(format!("{name} serves one at a time: too few waits overlapped to tell"));
                true
            }
        };
        let mut last = MonoNs(0);
        for io in &ios {
            let from = if is_one { io.from.max(last) } else { io.from };
            last = io.to;
            out.served.insert((host, io.task, io.from), io.to.0.saturating_sub(from.0));
        }
        let servers = if is_one { 1.0 } else { f64::INFINITY };
        let station = Station { name, what: "disk", servers, speed: 1.0, others: 0.0, discipline: Discipline::Fifo };
        out.stations.push((host, station));
    }
    out
}

/// Whether a wait was for a disk: a block request ended it, or it flushed a file, or slept in a file's read or write
/// without letting signals through.
pub fn is_disk(w: &WaitRow) -> bool {
    match w.syscall {
        // fsync, fdatasync, msync, sync, sync_file_range, syncfs of x86-64
        74 | 75 | 26 | 162 | 277 | 306 => true,
        // read, write, pread64, pwrite64, readv, writev, preadv, pwritev
        0 | 1 | 17 | 18 | 19 | 20 | 295 | 296 => {
            w.cause == EndedBy::Block || (w.is_uninterruptible() && matches!(w.cause, EndedBy::Timer | EndedBy::Task))
        }
        _ => w.cause == EndedBy::Block,
    }
}

/// Whether a disk serves one at a time, by the waits for it (ordered by their ends). `None` where they do not tell.
fn serves_one(ios: &[Io]) -> Option<bool> {
    let mut alone = (0usize, 0.0);
    let mut company = (0usize, 0.0, 0.0);
    let mut steps: Vec<(MonoNs, i32)> = ios.iter().flat_map(|io| [(io.from, 1), (io.to, -1)]).collect();
    steps.sort_unstable();
    // area under the number of waits, to look up the mean number during each
    let mut times: Vec<(MonoNs, f64, f64)> = Vec::with_capacity(steps.len());
    let (mut now, mut area, mut last) = (0i32, 0.0, MonoNs(0));
    for (at, step) in steps {
        area += f64::from(now) * at.0.saturating_sub(last.0) as f64;
        now += step;
        last = at;
        times.push((at, area, f64::from(now)));
    }
    let area_at = |at: MonoNs| match times.partition_point(|t| t.0 <= at).checked_sub(1) {
        Some(i) => times[i].1 + times[i].2 * (at.0 - times[i].0.0) as f64,
        None => 0.0,
    };
    for io in ios {
        let ns = io.to.0.saturating_sub(io.from.0) as f64;
        if ns <= 0.0 {
            continue;
        }
        let mean = (area_at(io.to) - area_at(io.from)) / ns;
        if mean < ALONE {
            alone = (alone.0 + 1, alone.1 + ns);
        } else if mean >= IN_COMPANY {
            company = (company.0 + 1, company.1 + ns, company.2 + mean);
        }
    }
    if alone.0 < COMPARED_MIN || company.0 < COMPARED_MIN {
        return None;
    }
    let longer = (company.1 / company.0 as f64) / (alone.1 / alone.0 as f64) - 1.0;
    let more = company.2 / company.0 as f64 - 1.0;
    Some(longer > more / 2.0)
}
