//! Tells the kernel's programs where the runtimes of watched processes keep the identity of logical tasks.

use crate::output::tell;
use std::collections::HashMap;
use wakepath_capture::{KernelSource, RuntimeProbe, procfs};
use wakepath_runtimes::Point;
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
    /// CPython 3.11 to 3.13, asyncio: where contexts are made (about 2 µs each)
    Python,
}

impl Probed {
    /// One of `RUNTIME_…`.
    fn kind(self) -> u8 {
        match self {
            Probed::Go => w::RUNTIME_GO,
            Probed::Python => w::RUNTIME_PYTHON,
        }
    }
}

/// Where the runtimes of the processes that run now keep the identity of logical tasks, where that shows without probes.
pub fn now(probed: &[Probed]) -> Vec<(u32, w::Runtime)> {
    let known = |tgid| layout(tgid, probed).filter(|l| !needs_probes(l));
    procfs::processes().into_iter().filter_map(|tgid| Some((tgid, known(tgid)?))).collect()
}

fn layout(tgid: u32, probed: &[Probed]) -> Option<w::Runtime> {
    let layout = wakepath_runtimes::of_process(tgid)?.layout.ok()?;
    let is_marked = probed.iter().any(|p| u32::from(p.kind()) == layout.kind);
    (is_marked || !needs_probes(&layout)).then(|| w::Runtime { is_marked: u32::from(is_marked), ..layout })
}

/// Without its probes, an address in Python's memory may be one task's now and another's soon.
fn needs_probes(layout: &w::Runtime) -> bool {
    layout.kind == u32::from(w::RUNTIME_PYTHON)
}

/// In whose programs probes may be placed.
#[derive(Default)]
pub enum Allowed {
    /// In everybody's.
    #[default]
    All,
    /// In those of these processes and their descendants.
    Processes(Vec<u32>),
}

impl Allowed {
    fn allows(&self, tgid: u32) -> bool {
        let Allowed::Processes(roots) = self else { return true };
        let parents: HashMap<u32, u32> = procfs::parents().into_iter().collect();
        // as many steps as there are processes, should a number be used again meanwhile
        let mut line = std::iter::successors(Some(tgid), |pid| parents.get(pid).copied()).take(parents.len());
        line.any(|pid| roots.contains(&pid))
    }
}

/// Processes whose runtimes are known.
#[derive(Default)]
pub struct Runtimes {
    known: HashMap<u32, w::Runtime>,
    waiting: Vec<u32>,
    /// Processes that were made, and by which.
    made: Vec<(u32, u32)>,
    probed: Vec<Probed>,
    allowed: Allowed,
    /// Of processes that are gone.
    refuted: u64,
}

impl Runtimes {
    /// Goes on from those that were known [`now`], with processes that began meanwhile.
    pub fn begin(
        source: &mut KernelSource,
        known: Vec<(u32, w::Runtime)>,
        probed: &[Probed],
        allowed: Allowed,
    ) -> Runtimes {
        let known: HashMap<u32, w::Runtime> = known.into_iter().collect();
        for (tgid, layout) in &known {
            place_probes(source, *tgid, layout, &allowed);
        }
        let mut out = Runtimes { known, probed: probed.to_vec(), allowed, ..Runtimes::default() };
        let is_new = |tgid: &u32| !out.known.contains_key(tgid);
        for tgid in procfs::processes().into_iter().filter(is_new).collect::<Vec<_>>() {
            out.look(source, tgid);
        }
        out
    }

    /// Probes may be placed in another process, too.
    pub fn allow(&mut self, pid: u32) {
        if let Allowed::Processes(roots) = &mut self.allowed {
            roots.push(pid);
        }
    }

    /// Takes note where a record says that a process was made, began another program, or ended.
    pub fn note(&mut self, f: &Frame<'_>) {
        if f.head().is_none_or(|h| h.kind != w::KIND_TASK) {
            return;
        }
        let Some(r) = f.read::<w::TaskEvent>().filter(|r| r.tgid == r.tid) else { return };
        if r.head.sub == w::TASK_FORK && self.known.contains_key(&r.parent_tgid) && self.made.len() < WAITING_MAX {
            self.made.push((r.tgid, r.parent_tgid));
        }
        let is_news = matches!(r.head.sub, w::TASK_EXEC | w::TASK_EXIT);
        if is_news && self.waiting.len() < WAITING_MAX && !self.waiting.contains(&r.tgid) {
            self.waiting.push(r.tgid);
        }
    }

    /// Looks at some of them.
    pub fn learn(&mut self, source: &mut KernelSource) {
        for (tgid, maker) in self.made.drain(..) {
            // it is what its maker is, until it begins another program
            let Some(layout) = self.known.get(&maker).copied() else { continue };
            if !self.known.contains_key(&tgid) && source.read_identities(tgid, &layout).is_ok() {
                self.known.insert(tgid, layout);
            }
        }
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
        let Some(layout) = layout else { return };
        let is_probed = place_probes(source, tgid, &layout, &self.allowed);
        if (is_probed || !needs_probes(&layout)) && source.read_identities(tgid, &layout).is_ok() {
            self.known.insert(tgid, layout);
        }
    }

    /// How often an identity was not the asking thread's.
    pub fn refuted(&self, source: &KernelSource) -> u64 {
        let living = self.known.keys().filter_map(|tgid| source.identities(*tgid)).map(|counted| counted.refuted);
        self.refuted + living.sum::<u64>()
    }
}

/// Whether the process's runtime has its probes now. What was done is said: a probe is an instruction in the memory of somebody
/// else's program.
fn place_probes(source: &mut KernelSource, tgid: u32, layout: &w::Runtime, allowed: &Allowed) -> bool {
    if layout.is_marked == 0 || !allowed.allows(tgid) {
        return false;
    }
    let Ok(name) = std::fs::read_to_string(format!("/proc/{tgid}/comm")) else { return false };
    let name = name.trim_end();
    let kind = layout.kind as u8;
    let Some(at) = wakepath_runtimes::probing(tgid, kind) else {
        let lacks = if kind == w::RUNTIME_GO {
            "no net/http client as Go builds it"
        } else {
            "none of CPython's functions that make contexts"
        };
        tell!("wakepath: {name} ({tgid}) has {lacks}: no probes, nothing is changed in it");
        return false;
    };
    let places: Vec<_> = at.places.iter().map(|&(point, place)| (probe(point), place)).collect();
    let what = if kind == w::RUNTIME_GO { "at net/http's client" } else { "where CPython makes contexts" };
    match source.probe_runtime(&at.file, &places) {
        Ok(true) => tell!(
            "wakepath: {name} ({tgid}) and all that run the same program or library have {} probes {what} now; they go when \
             the recording ends",
            places.len()
        ),
        Ok(false) => {}
        Err(e) => {
            tell!("wakepath: no probes in {name} ({tgid}), whose calls may stay open: {e}");
            return false;
        }
    }
    true
}

fn probe(point: Point) -> RuntimeProbe {
    match point {
        Point::GoTakes => RuntimeProbe::GoTakes,
        Point::GoWrites => RuntimeProbe::GoWrites,
        Point::PythonCopies => RuntimeProbe::PythonCopies,
        Point::PythonMakes => RuntimeProbe::PythonMakes,
    }
}
