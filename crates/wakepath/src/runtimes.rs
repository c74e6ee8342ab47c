//! Tells the kernel's programs where the runtimes of watched processes keep the identity of logical tasks.

use crate::output::tell;
use std::collections::HashMap;
use wakepath_capture::{KernelSource, procfs};
use wakepath_wire::{self as w, Frame};

/// Most processes looked at in one round, so that the rings are not left alone for long.
const ROUND_MAX: usize = 16;
/// Most processes that wait to be looked at.
const WAITING_MAX: usize = 4096;

/// A runtime in whose programs probes can be placed, where its memory alone does not show who works for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Probed {
    /// net/http's client: where it takes a connection, and where it begins to write on one (about 1 µs a call)
    Go,
}

/// Where the runtimes of the processes that run now keep the identity of logical tasks.
pub fn now(probed: &[Probed]) -> Vec<(u32, w::Runtime)> {
    procfs::processes().into_iter().filter_map(|tgid| Some((tgid, layout(tgid, probed)?))).collect()
}

fn layout(tgid: u32, probed: &[Probed]) -> Option<w::Runtime> {
    let layout = wakepath_runtimes::of_process(tgid)?.layout.ok()?;
    Some(w::Runtime { is_marked: u32::from(probed.contains(&Probed::Go)), ..layout })
}

/// Processes whose runtimes are known.
#[derive(Default)]
pub struct Runtimes {
    known: HashMap<u32, w::Runtime>,
    waiting: Vec<u32>,
    probed: Vec<Probed>,
    /// Of processes that are gone.
    refuted: u64,
}

impl Runtimes {
    /// Goes on from those that were known [`now`], with processes that began meanwhile.
    pub fn begin(source: &mut KernelSource, known: Vec<(u32, w::Runtime)>, probed: &[Probed]) -> Runtimes {
        let known: HashMap<u32, w::Runtime> = known.into_iter().collect();
        for (tgid, layout) in &known {
            place_probes(source, *tgid, layout);
        }
        let mut out = Runtimes { known, probed: probed.to_vec(), ..Runtimes::default() };
        let is_new = |tgid: &u32| !out.known.contains_key(tgid);
        for tgid in procfs::processes().into_iter().filter(is_new).collect::<Vec<_>>() {
            out.look(source, tgid);
        }
        out
    }

    /// Takes note where a record says that a process began another program, or ended.
    pub fn note(&mut self, f: &Frame<'_>) {
        let is_news = f.head().is_some_and(|h| h.kind == w::KIND_TASK && matches!(h.sub, w::TASK_EXEC | w::TASK_EXIT));
        let Some(r) = f.read::<w::TaskEvent>().filter(|r| is_news && r.tgid == r.tid) else { return };
        if self.waiting.len() < WAITING_MAX && !self.waiting.contains(&r.tgid) {
            self.waiting.push(r.tgid);
        }
    }

    /// Looks at some of them.
    pub fn learn(&mut self, source: &mut KernelSource) {
        let some = self.waiting.len().min(ROUND_MAX);
        for tgid in self.waiting.drain(..some).collect::<Vec<_>>() {
            self.look(source, tgid);
        }
    }

    /// A process may have become another program: what was known of it goes.
    fn look(&mut self, source: &mut KernelSource, tgid: u32) {
        let layout = layout(tgid, &self.probed);
        if layout == self.known.get(&tgid).copied() {
            return;
        }
        self.refuted += source.forget_identities(tgid).map_or(0, |counted| counted.refuted);
        self.known.remove(&tgid);
        if let Some(layout) = layout.filter(|l| source.read_identities(tgid, l).is_ok()) {
            self.known.insert(tgid, layout);
            place_probes(source, tgid, &layout);
        }
    }

    /// How often an identity was not the asking thread's.
    pub fn refuted(&self, source: &KernelSource) -> u64 {
        let living = self.known.keys().filter_map(|tgid| source.identities(*tgid)).map(|counted| counted.refuted);
        self.refuted + living.sum::<u64>()
    }
}

/// Says it first: a probe is an instruction in the memory of somebody else's program.
fn place_probes(source: &mut KernelSource, tgid: u32, layout: &w::Runtime) {
    if layout.is_marked == 0 {
        return;
    }
    let name = std::fs::read_to_string(format!("/proc/{tgid}/comm")).unwrap_or_default();
    let name = name.trim_end();
    let Some(at) = wakepath_runtimes::go_client(tgid) else {
        tell!("wakepath: {name} ({tgid}) has no net/http client as Go builds it: no probes, nothing is changed in it");
        return;
    };
    match source.probe_go_client(tgid, at.takes, at.writes) {
        Ok(true) => tell!(
            "wakepath: {name} ({tgid}) and all that run its program have two probes at net/http's client now; they go when the \
             recording ends"
        ),
        Ok(false) => {}
        Err(e) => tell!("wakepath: no probe in {name} ({tgid}): {e}"),
    }
}
