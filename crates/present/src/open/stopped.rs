//! Processes that were stopped when the recording ended: by SIGSTOP, a debugger, or the freezer of their cgroup.

use crate::units;
use serde::Serialize;
use std::collections::BTreeMap;
use wakepath_analysis::names::Names;
use wakepath_analysis::open::{For, Unended};
use wakepath_model::ids::HostId;

/// A process with stopped threads.
#[derive(Clone, Debug, Serialize)]
pub struct StoppedView {
    /// NAME/PID.
    pub process: String,
    /// On which host.
    pub host: String,
    /// How many of its threads are stopped, of those that are known to wait.
    pub threads: u64,
    /// For how long the first of them has been (ns).
    pub age_ns: u64,
    /// In one sentence.
    pub sentence: String,
}

/// Those with stopped threads, the one that has been stopped for longest first.
pub(super) fn stopped(unended: &Unended, names: &Names<'_>) -> Vec<StoppedView> {
    let mut found: BTreeMap<(HostId, u32), (u64, u64, &str)> = BTreeMap::new();
    for w in unended.waits.iter().filter(|w| w.what == For::Stopped) {
        let (host, task) = w.at;
        let of = found.entry((host, names.tgid(host, task))).or_insert((0, 0, names.program(host, task)));
        (of.0, of.1) = (of.0 + 1, of.1.max(w.age_ns));
    }
    let view = |((host, pid), (threads, age_ns, name)): ((HostId, u32), (u64, u64, &str))| {
        let process = format!("{name}/{pid}");
        let sentence = format!(
            "{process} has been stopped for {} ({}): by SIGSTOP, a debugger, or the freezer of its cgroup. What waits for it waits until it \
             continues.",
            units::duration(age_ns),
            units::counted(threads, "thread", "threads")
        );
        StoppedView { process, host: names.host(host).to_owned(), threads, age_ns, sentence }
    };
    let mut all: Vec<StoppedView> = found.into_iter().map(view).collect();
    all.sort_by_key(|s| std::cmp::Reverse(s.age_ns));
    all
}
