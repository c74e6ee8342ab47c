//! Tells the kernel's programs where the runtimes of watched processes keep the identity of logical tasks, as processes come, load
//! more code, and go.

mod allowed;
mod places;
mod probed;

use crate::{KernelSource, procfs};
pub use allowed::Allowed;
pub use probed::{Probed, probed};
use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};
use wakepath_runtimes::Unread;
use wakepath_wire::{self as w, Frame};

/// Says to the user, in one sentence, what was done in somebody's program or could not be.
pub type Say = fn(&str);

/// Most processes looked at in one round, so that the rings are not left alone for long.
const ROUND_MAX: usize = 16;
/// Most samples kept of a program whose tasks' numbers are sought, and most times that this begins anew.
const SAMPLES_MAX: usize = 2048;
const SEARCHES_MAX: u32 = 32;
/// Most processes that wait to be looked at.
const WAITING_MAX: usize = 4096;
/// When a process is looked at again whose helper is not loaded yet: as long after the last look, twice as long each time.
const HELPER_FIRST: Duration = Duration::from_millis(250);
/// And how often.
const HELPER_LOOKS: u32 = 8;

/// Where the runtime of a process keeps the identity of logical tasks, where that shows without probes.
pub fn without_probes(tgid: u32, probed: &[Probed]) -> Option<w::Runtime> {
    layout(tgid, probed).ok().filter(|l| !needs_probes(l))
}

/// Where a process's runtime keeps the identity of logical tasks, or why nothing is read: `None` where that will not change.
fn layout(tgid: u32, probed: &[Probed]) -> Result<w::Runtime, Option<Unread>> {
    if probed.contains(&Probed::None) {
        return Err(None);
    }
    with_marks(tgid, probed, wakepath_runtimes::of_process(tgid).ok_or(None)?.layout.map_err(Some)?)
}

/// The same, and whether it gets probes as soon as it listens.
fn layout_and_prospect(tgid: u32, probed: &[Probed]) -> (Result<w::Runtime, Option<Unread>>, bool) {
    if !probed.contains(&Probed::Services) {
        return (layout(tgid, probed), false);
    }
    match wakepath_runtimes::of_process(tgid).ok_or(None).and_then(|r| r.layout.map_err(Some)) {
        Ok(read) => {
            let found = with_marks(tgid, probed, read);
            let has_probes = found.is_ok_and(|l| l.is_marked != 0);
            (found, !has_probes && Probed::Auto.is_for(tgid, &read))
        }
        Err(why) => (Err(why), false),
    }
}

fn with_marks(tgid: u32, probed: &[Probed], layout: w::Runtime) -> Result<w::Runtime, Option<Unread>> {
    let marks = probed.iter().filter(|p| p.is_for(tgid, &layout)).map(|p| p.mark());
    let is_marked = marks.fold(0, |all, mark| all | mark);
    let is_read = is_marked != 0 || !needs_probes(&layout);
    is_read.then_some(w::Runtime { is_marked, ..layout }).ok_or(None)
}

/// Without its probes, an address in Python's memory may be one task's now and another's soon.
fn needs_probes(layout: &w::Runtime) -> bool {
    layout.kind == u32::from(w::RUNTIME_PYTHON)
}

/// uvloop and greenlet are loaded by the program, some time after it began.
fn may_load_loop(layout: &w::Runtime) -> bool {
    layout.kind == u32::from(w::RUNTIME_PYTHON) && (layout.other_loop == 0 || layout.greenlets == 0)
}

/// Where the task's number is must show in samples yet.
pub fn is_sought(layout: &w::Runtime) -> bool {
    layout.kind == u32::from(w::RUNTIME_TOKIO) && layout.tls == 0
}

/// Whether it is a JVM into which `wakepath attach` may bring the agent yet.
fn lacks_agent(found: &Result<w::Runtime, Option<Unread>>) -> bool {
    match found {
        Ok(layout) => layout.kind == u32::from(w::RUNTIME_JVM) && layout.helper_words == 0,
        Err(why) => *why == Some(Unread::Agent),
    }
}

/// What a process is called; empty where it is gone.
fn name(tgid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{tgid}/comm")).unwrap_or_default().trim_end().to_owned()
}

/// The file that a process runs.
fn program(tgid: u32) -> Option<File> {
    let file = std::fs::metadata(format!("/proc/{tgid}/exe")).ok()?;
    Some((file.dev(), file.ino(), file.ctime(), file.ctime_nsec()))
}

/// A program's file: device, inode, and when it was last changed (s, ns), since one may be written anew in place.
type File = (u64, u64, i64, i64);

/// What is sought in samples of a program's thread-local words.
#[derive(Default)]
struct Search {
    samples: Vec<w::LocalWords>,
    begun: u32,
    found: Option<i32>,
}

impl Search {
    /// Asks again, with more samples.
    fn go_on(&mut self, layout: &w::Runtime, more: impl Iterator<Item = w::LocalWords>) {
        if self.samples.len() >= SAMPLES_MAX {
            self.samples.clear();
            self.begun += 1;
        }
        self.samples.extend(more);
        self.found = wakepath_runtimes::tokio_word(&self.samples, layout);
        if self.found.is_some() || self.is_given_up() {
            self.samples = Vec::new();
        }
    }

    fn is_given_up(&self) -> bool {
        self.begun >= SEARCHES_MAX
    }
}

/// Processes whose runtimes are known.
pub struct Runtimes {
    say: Say,
    searches: HashMap<File, Search>,
    known: HashMap<u32, w::Runtime>,
    waiting: Vec<u32>,
    /// How many threads processes made that are of no known runtime: it may come as a library, later than the program.
    threads: HashMap<u32, u32>,
    /// Processes that were made, and by which.
    made: Vec<(u32, u32)>,
    /// Processes that may load a helper yet: when to look again, and how often that was done.
    later: Vec<(u32, Instant, u32)>,
    /// Processes that lack one: `wakepath attach` may bring it at any time.
    helpless: HashSet<u32>,
    /// JVMs that lack the agent: the same.
    agentless: HashSet<u32>,
    probed: Vec<Probed>,
    allowed: Allowed,
    /// Programs whose tasks were asked for, and cannot be read.
    unread: HashSet<File>,
    /// Of processes that are gone.
    refuted: u64,
}

impl Runtimes {
    /// Of no process yet.
    fn new(probed: Vec<Probed>, allowed: Allowed, say: Say) -> Runtimes {
        Runtimes {
            say,
            searches: HashMap::new(),
            known: HashMap::new(),
            waiting: Vec::new(),
            threads: HashMap::new(),
            made: Vec::new(),
            later: Vec::new(),
            helpless: HashSet::new(),
            agentless: HashSet::new(),
            probed,
            allowed,
            unread: HashSet::new(),
            refuted: 0,
        }
    }

    /// Goes on from those that are [known without probes](without_probes), with the other processes that are recorded.
    pub fn begin(
        source: &mut KernelSource,
        known: Vec<(u32, w::Runtime)>,
        probed: &[Probed],
        allowed: Allowed,
        say: Say,
    ) -> Runtimes {
        let known: HashMap<u32, w::Runtime> = known.into_iter().collect();
        for (tgid, layout) in &known {
            places::place(source, *tgid, layout, &allowed, say);
        }
        let lacking = known.iter().filter(|(_, layout)| lacks_agent(&Ok(**layout)));
        let agentless = lacking.map(|(&tgid, _)| tgid).take(WAITING_MAX).collect();
        let mut out = Runtimes { known, agentless, ..Runtimes::new(probed.to_vec(), allowed, say) };
        let may_serve =
            |(&tgid, l): (&u32, &w::Runtime)| (l.is_marked == 0 && Probed::Auto.is_for(tgid, l)).then_some(tgid);
        let idle: Vec<u32> = out.known.iter().filter_map(may_serve).collect();
        if probed.contains(&Probed::Services) {
            idle.into_iter().for_each(|tgid| out.look_later(tgid, 0));
        }
        let there = match &out.allowed {
            Allowed::All => procfs::processes(),
            Allowed::Processes(some) => some.iter().copied().collect(),
        };
        for tgid in there {
            if !out.known.contains_key(&tgid) {
                out.look(source, tgid);
            }
        }
        out
    }

    /// Another process is recorded from now on.
    pub fn allow(&mut self, tgid: u32) {
        self.allowed.allow(tgid);
        self.wait(tgid);
    }

    /// Takes note where a record says that a process was made, began another program, or ended.
    pub fn note(&mut self, f: &Frame<'_>) {
        let kind = f.head().map(|h| h.kind);
        if kind == Some(w::KIND_MAPPED) {
            return f.read::<w::Mapped>().iter().for_each(|r| self.note_mapped(r.tgid));
        }
        if kind != Some(w::KIND_TASK) {
            return;
        }
        let Some(r) = f.read::<w::TaskEvent>() else { return };
        if r.tgid == r.tid && r.head.sub == w::TASK_FORK {
            self.allowed.inherit(r.tgid, r.parent_tgid);
        }
        if !self.allowed.allows(r.tgid) {
            return;
        }
        if r.tgid != r.tid {
            let is_settled = self.known.contains_key(&r.tgid) && !self.agentless.contains(&r.tgid);
            if r.head.sub == w::TASK_FORK && !is_settled {
                self.note_thread(r.tgid);
            }
            return;
        }
        if r.head.sub == w::TASK_FORK && self.known.contains_key(&r.parent_tgid) && self.made.len() < WAITING_MAX {
            self.made.push((r.tgid, r.parent_tgid));
        }
        let is_news = matches!(r.head.sub, w::TASK_EXEC | w::TASK_EXIT);
        if is_news {
            self.threads.remove(&r.tgid);
            self.wait(r.tgid);
        }
        if r.head.sub == w::TASK_EXIT {
            self.allowed.forget(r.tgid);
        }
    }

    /// A process mapped code: its runtime, or what its runtime lacked, may have come with it.
    fn note_mapped(&mut self, tgid: u32) {
        let is_settled = self.known.get(&tgid).is_some_and(|layout| !may_load_loop(layout));
        if self.allowed.allows(tgid) && !is_settled {
            self.wait(tgid);
        }
    }

    fn wait(&mut self, tgid: u32) {
        if self.waiting.len() < WAITING_MAX && !self.waiting.contains(&tgid) {
            self.waiting.push(tgid);
        }
    }

    /// A process is looked at again when it makes its first thread, the second, the fourth, and so on: a runtime that is loaded as a
    /// library (the JVM's) makes some as soon as it is there.
    fn note_thread(&mut self, tgid: u32) {
        if self.helpless.contains(&tgid) || self.agentless.contains(&tgid) {
            return self.look_soon(tgid);
        }
        if self.threads.len() >= WAITING_MAX && !self.threads.contains_key(&tgid) {
            return;
        }
        let made = self.threads.entry(tgid).or_default();
        *made = made.saturating_add(1);
        if made.is_power_of_two() {
            self.wait(tgid);
        }
    }

    /// A process without a helper made a thread, as Node does when its inspector opens, by which the helper may come.
    fn look_soon(&mut self, tgid: u32) {
        let soon = Instant::now() + HELPER_FIRST;
        // one that is due sooner stays, so that many threads do not put the look off
        if self.later.iter().any(|&(of, at, _)| of == tgid && at <= soon) {
            return;
        }
        self.later.retain(|&(of, ..)| of != tgid);
        if self.later.len() < WAITING_MAX {
            self.later.push((tgid, soon, 1));
        }
    }

    /// Looks at some of them.
    pub fn learn(&mut self, source: &mut KernelSource) {
        for (tgid, maker) in std::mem::take(&mut self.made) {
            // it is what its maker is, until it begins another program
            let Some(layout) = self.known.get(&maker).copied() else { continue };
            if !self.known.contains_key(&tgid) && source.read_identities(tgid, &layout).is_ok() {
                self.known.insert(tgid, layout);
                if may_load_loop(&layout) {
                    self.look_later(tgid, 0);
                }
            }
        }
        let some = self.waiting.len().min(ROUND_MAX);
        for tgid in self.waiting.drain(..some).collect::<Vec<_>>() {
            self.later.retain(|&(of, ..)| of != tgid);
            self.look(source, tgid);
        }
        let now = Instant::now();
        let due = self.later.iter().position(|&(_, at, _)| at <= now);
        if let Some((tgid, _, looks)) = due.map(|i| self.later.swap_remove(i)) {
            // of a JVM one look at what it has mapped does
            if !self.agentless.contains(&tgid) || wakepath_runtimes::jvm_agent_words(tgid).is_some() {
                self.look_for_helper(source, tgid, looks);
            }
        }
        let samples = source.local_words();
        if !samples.is_empty() {
            self.search(source, &samples);
        }
    }

    /// Looks for the tasks' numbers of programs of which samples came.
    fn search(&mut self, source: &mut KernelSource, samples: &[w::LocalWords]) {
        let sought: Vec<u32> = self.known.iter().filter(|(_, l)| is_sought(l)).map(|(&tgid, _)| tgid).collect();
        for tgid in sought {
            let Some(file) = program(tgid) else { continue };
            let layout = self.known[&tgid];
            let search = self.searches.entry(file).or_default();
            if search.found.is_none() {
                search.go_on(&layout, samples.iter().filter(|s| s.tgid == tgid).copied());
            }
            if let Some(tls) = search.found {
                let layout = w::Runtime { tls, ..layout };
                if source.read_identities(tgid, &layout).is_ok() {
                    self.known.insert(tgid, layout);
                    (self.say)(&format!("the tasks of Tokio in {} ({tgid}) are told apart from now on", name(tgid)));
                }
            } else if search.is_given_up() {
                source.forget_identities(tgid);
                self.known.remove(&tgid);
            }
        }
    }

    /// A process may have become another program: what was known of it goes.
    fn look(&mut self, source: &mut KernelSource, tgid: u32) {
        self.look_for_helper(source, tgid, 0);
    }

    /// The same, after so many looks at which it had no helper.
    fn look_for_helper(&mut self, source: &mut KernelSource, tgid: u32, looks: u32) {
        let (found, may_serve) = layout_and_prospect(tgid, &self.probed);
        if found.is_err_and(|why| why.is_some_and(Unread::is_lasting)) {
            self.say_unread(tgid);
        }
        let mut was_helpless = false;
        if !lacks_agent(&found) {
            was_helpless = self.agentless.remove(&tgid);
        } else if self.agentless.len() < WAITING_MAX {
            self.agentless.insert(tgid);
        }
        if found != Err(Some(Unread::Helper)) {
            was_helpless |= self.helpless.remove(&tgid);
        } else if self.helpless.contains(&tgid) || self.helpless.len() < WAITING_MAX {
            self.helpless.insert(tgid);
            self.look_later(tgid, looks);
        }
        if may_serve || found.is_ok_and(|l| may_load_loop(&l)) {
            self.look_later(tgid, looks);
        }
        let layout = found.ok().and_then(|l| self.searched(tgid, l));
        if layout == self.known.get(&tgid).copied() {
            return;
        }
        self.refuted += source.forget_identities(tgid).map_or(0, |counted| counted.refuted);
        self.known.remove(&tgid);
        let Some(layout) = layout else { return };
        let is_probed = places::place(source, tgid, &layout, &self.allowed, self.say);
        if (is_probed || !needs_probes(&layout)) && source.read_identities(tgid, &layout).is_ok() {
            self.known.insert(tgid, layout);
            if was_helpless {
                let what = if layout.kind == u32::from(w::RUNTIME_JVM) { "tasks of executors" } else { "requests" };
                (self.say)(&format!("the {what} of {} ({tgid}) are told apart from now on", name(tgid)));
            }
        }
    }

    /// That the tasks of its program cannot be read, once and where they were asked for.
    fn say_unread(&mut self, tgid: u32) {
        let (Some(file), Some(runtime)) = (program(tgid), wakepath_runtimes::of_process(tgid)) else { return };
        let Err(why) = runtime.layout else { return };
        let is_asked = self.probed.iter().any(|p| p.runtime() == Some(runtime.name)) && self.allowed.allows(tgid);
        if is_asked && self.unread.len() < WAITING_MAX && self.unread.insert(file) {
            let (name, of, version) = (name(tgid), runtime.name, runtime.version);
            (self.say)(&format!(
                "{} of {name} ({tgid}; {of} {version}) are not told apart, because {}",
                runtime.tasks,
                why.reason()
            ));
        }
    }

    /// How many programs had tasks that were asked for and cannot be read.
    pub fn unread(&self) -> u64 {
        self.unread.len() as u64
    }

    /// Once more, after so many looks, as long as that makes sense.
    fn look_later(&mut self, tgid: u32, looks: u32) {
        if looks < HELPER_LOOKS && self.later.len() < WAITING_MAX {
            self.later.push((tgid, Instant::now() + HELPER_FIRST * (1 << looks), looks + 1));
        }
    }

    /// With what a search found in another process of the same program; `None` where it was given up.
    fn searched(&self, tgid: u32, layout: w::Runtime) -> Option<w::Runtime> {
        let search = program(tgid).filter(|_| is_sought(&layout)).and_then(|file| self.searches.get(&file));
        match search {
            Some(Search { found: Some(tls), .. }) => Some(w::Runtime { tls: *tls, ..layout }),
            Some(search) if search.is_given_up() => None,
            _ => Some(layout),
        }
    }

    /// How often an identity was not the asking thread's.
    pub fn refuted(&self, source: &KernelSource) -> u64 {
        let living = self.known.keys().filter_map(|tgid| source.identities(*tgid)).map(|counted| counted.refuted);
        self.refuted + living.sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(runtimes: &mut Runtimes, sub: u8, tgid: u32, tid: u32) {
        let mut r: w::TaskEvent = w::view(&[0; size_of::<w::TaskEvent>()]).expect("long enough");
        (r.head.kind, r.head.sub, r.tgid, r.tid) = (w::KIND_TASK, sub, tgid, tid);
        runtimes.note(&Frame { origin: 0, bytes: w::bytes_of(&r) });
    }

    #[test]
    fn a_runtime_that_comes_as_a_library_is_looked_for_when_threads_are_made() {
        let mut runtimes = Runtimes::new(Vec::new(), Allowed::All, |_| {});
        let mut looked_at = Vec::new();
        for thread in 1..=9 {
            told(&mut runtimes, w::TASK_FORK, 7, 7 + thread);
            if runtimes.waiting.drain(..).next().is_some() {
                looked_at.push(thread);
            }
        }
        assert_eq!(looked_at, [1, 2, 4, 8]);
        told(&mut runtimes, w::TASK_EXEC, 7, 7);
        assert_eq!(std::mem::take(&mut runtimes.waiting), [7], "another program");
        told(&mut runtimes, w::TASK_FORK, 7, 8);
        assert_eq!(runtimes.waiting, [7], "and its first thread");
        told(&mut runtimes, w::TASK_FORK, 7, 8);
        assert_eq!(runtimes.waiting, [7], "once");
    }
}
