//! Annotations into a system of state machines (forecasting paper, sections 2.1 and 3.1 to 3.3).
//!
//! Marks are gone through twice, in order of time over all hosts. The first time tells what was in queues at the begin and
//! how much room they have, the second makes the steps: time between marks is work of the state that the machine is in;
//! time in a wait has weight zero, and what passed between the items' (or the room's) being there and the wait's end is
//! the latency of that operation. Where nobody waited the operation stays as a dependence without latency.
//!
//! Memory: names of machines and queues, what is in queues at a time, and steps up to a bound; more of them lie on disk.

mod check;
mod elsewhere;
mod journeys;
mod levels;
mod measure;
mod names;
mod scripts;
mod steps;

use crate::derived::{Derived, Flow, Model, Warning};
use crate::replay::Spooled;
use crate::system::{Actor, NOT_SEEN, Queue, QueueId, QueueKind, Runs, ScriptId, State, Step, System, WhenFull};
use check::{Life, Warnings};
use elsewhere::Elsewhere;
use journeys::{Context, Journeys};
use levels::{Learned, Level};
use measure::Tally;
use names::{Names, What};
use scripts::{Awaited, Operation, Script};
use std::path::Path;
use steps::Steps;
use wakepath_model::defects::{self, Answer, Severity, id as defect};
use wakepath_model::folder::Folder;
use wakepath_model::ids::CommonNs;
use wakepath_model::rows::{LossRow, Table};

/// Flows that are told.
const FLOWS_MAX: usize = 1000;
/// What a machine's work for others than are asked for counts as.
const OTHERS: &str = "other items";

/// Who put in what was there before the recording.
const BEFORE: &str = "before the recording";

/// Which part of the marks is meant, and where steps go that do not fit into memory.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    /// Follow only items that one of these machines had a part in (`MACHINE`, `HOST/MACHINE`, either with `[KEY]`);
    /// `None` follows all. Machines that have nothing to do with such items are left out.
    pub between: Option<(&'a str, &'a str)>,
    /// Only marks from the first of these moments on, and before the second.
    pub times: (Option<CommonNs>, Option<CommonNs>),
    /// More steps than that go to disk; 0: none are made.
    pub steps_max: usize,
    /// Where that file without a name is made.
    pub directory: &'a Path,
}

/// Why nothing can be derived.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There are no marks.
    #[error("the recording has no annotations; annotate the program, or import marks (docs/formats/marks.md)")]
    NoMarks,
    /// A machine was named that is not there.
    #[error("no machine is called {0:?}; there are {1}")]
    NoMachine(String, String),
    /// Steps could not be written to disk.
    #[error("cannot keep the steps of {1} in {0}: {2}; free space there, or name another place with TMPDIR")]
    Disk(String, &'static str, std::io::Error),
}

/// Whether a folder has marks.
pub fn has_marks(folder: &Folder) -> bool {
    folder.hosts().iter().any(|h| h.row_count(Table::Mark) > 0)
}

/// Makes a system of the marks of a folder.
///
/// # Errors
/// Where there are no marks, a machine of `between` is not known, or the disk fails.
pub fn derive(folder: &Folder, options: &Options<'_>) -> Result<Derived, Error> {
    let mut names = Names::new(folder);
    let first = First::learn(folder, &mut names, options.times);
    let Some(span) = first.span else { return Err(Error::NoMarks) };
    let selected = match options.between {
        None => None,
        Some((a, b)) => Some([meant(&names, a)?, meant(&names, b)?].concat()),
    };
    let disk = |e| Error::Disk(options.directory.display().to_string(), "marks", e);
    let mut second = Second::new(&names, &first, selected, options);
    names::each(folder, &mut names, options.times, |at, machine, what| second.mark(at, machine, what));
    let mut warnings = Warnings::default();
    let gone = |(i, s): (u32, &State)| (s.state == names::GONE).then_some(i);
    let gone: Vec<u32> = (0u32..).zip(&names.states).filter_map(gone).collect();
    check::lives(&first, &gone, span, &mut warnings);
    second.finish(folder, &names, &first, span, warnings).map_err(disk)
}

/// Only what contradicts itself in the marks: as [`derive`] without the system.
///
/// # Errors
/// As of [`derive`].
pub fn check(folder: &Folder) -> Result<Vec<Warning>, Error> {
    let directory = Path::new("");
    Ok(derive(folder, &Options { between: None, times: (None, None), steps_max: 0, directory })?.warnings)
}

fn meant(names: &Names, by: &str) -> Result<Vec<u32>, Error> {
    let found: Vec<u32> = (0u32..).zip(&names.machines).filter(|(_, m)| m.is_meant(by)).map(|(i, _)| i).collect();
    if found.is_empty() {
        let mut known: Vec<&str> = names.machines.iter().take(8).map(|m| m.shown.as_str()).collect();
        if names.machines.len() > known.len() {
            known.push("…");
        }
        return Err(Error::NoMachine(by.to_owned(), known.join(", ")));
    }
    Ok(found)
}

/// What the first time through tells.
struct First {
    queues: Vec<Learned>,
    lives: Vec<Life>,
    /// First and last mark.
    span: Option<(i64, i64)>,
}

impl First {
    fn learn(folder: &Folder, names: &mut Names, times: (Option<CommonNs>, Option<CommonNs>)) -> First {
        let mut first = First { queues: Vec::new(), lives: Vec::new(), span: None };
        names::each(folder, names, times, |at, machine, what| first.mark(at, machine, what));
        first.queues.resize(names.queues.len(), Learned::new());
        first
    }

    fn mark(&mut self, at: i64, machine: u32, what: What) {
        let (from, _) = self.span.unwrap_or((at, at));
        self.span = Some((from, at));
        if self.lives.len() <= machine as usize {
            self.lives.resize_with(machine as usize + 1, Life::default);
        }
        let life = &mut self.lives[machine as usize];
        life.mark(at, what);
        let (What::Enqueue { queue, .. }
        | What::Dequeue { queue, .. }
        | What::WaitEmpty { queue, .. }
        | What::WaitFull { queue, .. }) = what
        else {
            return;
        };
        if self.queues.len() <= queue as usize {
            self.queues.resize(queue as usize + 1, Learned::new());
        }
        let learned = &mut self.queues[queue as usize];
        match what {
            What::Enqueue { count, .. } => learned.enqueue(count),
            What::Dequeue { count, .. } => {
                learned.dequeue(count);
                if learned.is_empty() {
                    self.lives[machine as usize].left_it_empty();
                }
            }
            What::WaitEmpty { count, .. } => learned.wait_empty(count),
            What::WaitFull { count, .. } => learned.wait_full(count),
            What::State(_) | What::Begin(_) | What::End(_) => {}
        }
    }
}

/// The second time through.
struct Second {
    levels: Vec<Level>,
    scripts: Vec<Script>,
    contexts: Vec<Context>,
    journeys: Journeys,
    selected: Option<Vec<u32>>,
    /// By machine: whether it has a part in what is selected.
    takes_part: Vec<bool>,
    /// By state: as which work for others counts, and what these are.
    others: (Vec<u32>, Vec<State>),
    /// By queue: items of whom is known that came to somebody who had a part in them before, and all.
    came_back: Vec<(u64, u64)>,
    elsewhere: Elsewhere,
    /// When the last of the machines that are asked for has ended: what others do then is nothing that they wait for.
    until: i64,
    tally: Tally,
    steps: Steps,
    warnings: Warnings,
}

impl Second {
    fn new(names: &Names, first: &First, selected: Option<Vec<u32>>, options: &Options<'_>) -> Second {
        let (begin, end) = first.span.unwrap_or_default();
        let last = |all: &Vec<u32>| all.iter().map(|m| first.lives[*m as usize].last()).max();
        let until = selected.as_ref().and_then(last).unwrap_or(end);
        let script = |(m, life): (&names::MachineName, &Life)| Script::new(m.first_state, life.first(), begin);
        let mut takes_part = vec![selected.is_none(); names.machines.len()];
        selected.iter().flatten().for_each(|m| takes_part[*m as usize] = true);
        Second {
            levels: first.queues.iter().map(Level::new).collect(),
            scripts: names.machines.iter().zip(&first.lives).map(script).collect(),
            contexts: vec![Context::default(); names.machines.len()],
            journeys: Journeys::default(),
            others: if selected.is_some() { names::others(&names.states, OTHERS) } else { Default::default() },
            selected,
            takes_part,
            tally: Tally::new((begin, until), &first.lives, &first.queues),
            came_back: vec![(0, 0); first.queues.len()],
            until,
            elsewhere: Elsewhere::new(begin, names.queues.len(), names.machines.len() + 1),
            // one more for what was in queues before
            steps: Steps::new(names.machines.len() + 1, options),
            warnings: Warnings::default(),
        }
    }

    fn mark(&mut self, at: i64, machine: u32, what: What) {
        if at > self.until {
            return;
        }
        let m = machine as usize;
        let script = &mut self.scripts[m];
        let mut out = |step| self.steps.push(ScriptId(machine), step);
        let found = match what {
            What::State(state) => {
                let is_other = script.is_for_others();
                let shown = if is_other { self.others.0[state as usize] } else { state };
                script.state(at, state, shown, &mut out);
                None
            }
            What::WaitEmpty { queue, count } => {
                let is_true = self.levels[queue as usize].lacks(count);
                if !is_true {
                    self.warnings.add(defect::MARKS_WAIT_NOT_EMPTY, Some(machine), Some(queue), Some(at));
                }
                script.wait(at, Awaited { queue, is_full: false, is_true }, &mut out)
            }
            What::WaitFull { queue, count } => {
                let level = &mut self.levels[queue as usize];
                let is_true = level.is_full_for(count);
                if is_true {
                    level.wait_full(machine, count);
                } else {
                    self.warnings.add(defect::MARKS_WAIT_NOT_FULL, Some(machine), Some(queue), Some(at));
                }
                script.wait(at, Awaited { queue, is_full: true, is_true }, &mut out)
            }
            What::Enqueue { queue, count } => self.enqueue(at, machine, queue, count),
            What::Dequeue { queue, count } => self.dequeue(at, machine, queue, count),
            What::Begin(kind) => {
                script.open.push((kind, at));
                script.other(at, Some(scripts::begin(kind)), &mut out)
            }
            What::End(kind) => {
                let is_last = script.open.last().is_some_and(|(k, _)| *k == kind);
                let begun = script.open.pop_if(|_| is_last);
                if let Some((_, begun)) = begun {
                    self.tally.ended(begun, at);
                } else {
                    self.warnings.add(defect::MARKS_TRANSACTION, Some(machine), None, Some(at));
                }
                script.other(at, begun.map(|_| Step::End), &mut out)
            }
        };
        self.elsewhere.steps.drain(..).for_each(|(script, step)| self.steps.push(script, step));
        if let Some(found) = found {
            self.warnings.add(found, Some(machine), None, Some(at));
        }
    }

    /// A machine puts items into a queue; gives the defect that this shows.
    fn enqueue(&mut self, at: i64, machine: u32, queue: u32, count: u64) -> Option<&'static str> {
        let m = machine as usize;
        let script = &mut self.scripts[m];
        let mut out = |step| self.steps.push(ScriptId(machine), step);
        let set = self.journeys.produce(&mut self.contexts[m], machine);
        let possible = self.levels[queue as usize].enqueue(machine, at, count, set);
        let is_of_it = is_followed(self.selected.as_deref(), &self.journeys, set);
        self.takes_part[m] |= is_of_it;
        // who waits to give to others is kept by them
        let (count, possible) = if is_of_it { (count, possible) } else { (0, None) };
        script.operate(at, Operation { queue, through: queue, is_enqueue: true, count, possible }, &mut out)
    }

    /// A machine takes items from a queue; gives the defect that this shows.
    fn dequeue(&mut self, at: i64, machine: u32, queue: u32, count: u64) -> Option<&'static str> {
        let m = machine as usize;
        let is_end = self.selected.as_ref().is_some_and(|s| s.contains(&machine));
        let script = &mut self.scripts[m];
        let mut out = |step| self.steps.push(ScriptId(machine), step);
        let (journeys, context) = (&mut self.journeys, &mut self.contexts[m]);
        let mut followed = 0;
        let taken = self.levels[queue as usize].dequeue(at, count, |set, some| {
            if is_followed(self.selected.as_deref(), journeys, set) {
                followed += some;
            }
            let (back, known) = &mut self.came_back[queue as usize];
            *known += if set == journeys::NOBODY { 0 } else { some };
            *back += if journeys.has(set, machine) { some } else { 0 };
            journeys.consume(context, machine, set, some);
        });
        if taken.count < count {
            self.warnings.add(defect::MARKS_DEQUEUE_EMPTY, Some(machine), Some(queue), Some(at));
        }
        self.tally.took(at, machine, queue, followed);
        self.takes_part[m] |= followed > 0;
        let (through, count) = match taken.at {
            Some(put) if followed == 0 => {
                (self.elsewhere.put(machine, put, self.others.0[script.state_now() as usize]), 1)
            }
            _ => (queue, followed),
        };
        let op = Operation { queue, through, is_enqueue: false, count, possible: taken.at };
        let found = script.operate(at, op, &mut out);
        if self.selected.is_some() {
            let is_other = followed == 0 && !is_end;
            script.show(is_other.then(|| self.others.0[script.state_now() as usize]));
        }
        found
    }

    fn finish(
        mut self,
        folder: &Folder,
        names: &Names,
        first: &First,
        span: (i64, i64),
        warnings: Warnings,
    ) -> std::io::Result<Derived> {
        for (i, script) in (0u32..).zip(&mut self.scripts) {
            script.finish(&mut |step| self.steps.push(ScriptId(i), step));
        }
        self.warnings.join(warnings);
        if self.journeys.limited > 0 {
            self.warnings.count(defect::MARKS_IDENTITIES, self.journeys.limited);
        }
        let shown = |m: u32| names.machines[m as usize].shown.clone();
        let flows = self.journeys.flows(FLOWS_MAX).into_iter();
        let flows = flows.map(|(machines, items)| Flow { machines: machines.into_iter().map(shown).collect(), items });
        let (queues, earlier) = self.queues(names, first);
        let before = ScriptId(names.machines.len() as u32);
        let has_earlier = !earlier.is_empty();
        earlier.into_iter().for_each(|step| self.steps.push(before, step));
        self.takes_part.push(true);
        for machine in self.elsewhere.machines() {
            self.takes_part.push(self.takes_part[machine as usize]);
        }
        let kept = &self.takes_part;
        let (steps, scripts, spool) = self.steps.finish(kept)?;
        let actors = names.machines.iter().zip(&self.scripts).zip(0u32..).filter(|(_, i)| kept[*i as usize]);
        let actors = actors.map(|((name, script), i)| Actor {
            name: name.shown.clone(),
            start_ns: script.starts.saturating_sub(span.0).max(0) as u64,
            runs: Runs::Script(ScriptId(i)),
        });
        let earlier = Actor { name: BEFORE.to_owned(), start_ns: 0, runs: Runs::Script(before) };
        let sources = (0u32..).zip(self.elsewhere.machines()).filter(|(_, m)| kept[*m as usize]);
        let sources = sources.map(|(i, m)| self.elsewhere.actor(i, &elsewhere_of(names, m)));
        let actors = sources.chain(actors);
        let mut actors: Vec<Actor> = has_earlier.then_some(earlier).into_iter().chain(actors).collect();
        actors.sort_by_key(|a| a.start_ns);
        let states = names.states.iter().cloned().chain(self.others.1).collect();
        let system = System {
            queues,
            states,
            kinds: names.kinds.clone(),
            steps,
            scripts,
            spooled: spool.map(Spooled::new),
            actors,
            rounds: 1,
            ..System::default()
        };
        let (measured, assumptions) = (self.tally.measured(), assumptions(&self.warnings));
        let (flows, warnings) = (flows.collect(), self.warnings.list(names, span.0));
        let model = Model::Machines(system);
        Ok(Derived {
            model,
            measured,
            assumptions,
            lossy: lossy(folder),
            impossible: Vec::new(),
            hidden: None,
            flows,
            warnings,
        })
    }
}

impl Second {
    /// The queues, and what puts into them what was there before the recording. Items that come back to who took them are
    /// rights to do something, and stay in the queue from the begin; others are work that waited.
    fn queues(&self, names: &Names, first: &First) -> (Vec<Queue>, Vec<Step>) {
        let (mut earlier, mut queues) = (Vec::new(), Vec::new());
        for (q, name) in (0u32..).zip(&names.queues) {
            let (learned, (back, known)) = (&first.queues[q as usize], self.came_back[q as usize]);
            let count = learned.initial() as u64;
            let is_right = back * 2 > known;
            if count > 0 && !is_right && self.selected.is_none() {
                earlier.push(Step::Enqueue { queue: QueueId(q), count, latency_ns: NOT_SEEN });
            }
            queues.push(Queue {
                name: name.clone(),
                kind: QueueKind::Annotated,
                capacity: learned.capacity(),
                // nobody is known to have had a part in what was there before
                initial: if is_right && self.selected.is_none() { count } else { 0 },
                delay_ns: 0,
                ns_per_item: 0.0,
                when_full: WhenFull::Wait,
                is_bytes: false,
            });
        }
        let others = self.elsewhere.machines().map(|m| Elsewhere::queue(&elsewhere_of(names, m)));
        queues.extend(others);
        (queues, earlier)
    }
}

/// What the source of other items of a machine is called.
fn elsewhere_of(names: &Names, machine: u32) -> String {
    format!("{OTHERS} of {}", names.machines[machine as usize].shown)
}

/// Whether the flow of items that is asked for, if one is, has these.
fn is_followed(selected: Option<&[u32]>, journeys: &Journeys, set: u32) -> bool {
    selected.is_none_or(|all| all.iter().any(|m| journeys.has(set, *m)))
}

fn assumptions(warnings: &Warnings) -> Vec<String> {
    let mut all = vec![
        "Machines do what they did, in the same order, and take no processor from each other.".to_owned(),
        "A queue has room for the most items that were seen in it where somebody waited for room, else for any number."
            .to_owned(),
    ];
    if warnings.total() > 0 {
        all.push("Where annotations contradict themselves, what they say counts as work.".to_owned());
    }
    all
}

/// Share of the marks that were lost, or cannot be read.
fn lossy(folder: &Folder) -> f64 {
    let (mut lost, mut marks) = (0u64, 0u64);
    for host in folder.hosts().iter().filter(|h| h.row_count(Table::Mark) > 0) {
        marks += host.row_count(Table::Mark);
        for batch in host.batches(Table::Loss.into(), ..) {
            for row in batch.rows::<LossRow>() {
                let touches =
                    |d: &defects::Defect| d.severity == Severity::Error && d.touches.contains(&Answer::Forecast);
                if defects::find(host.text(row.what)).is_some_and(touches) {
                    lost = lost.saturating_add(row.count);
                }
            }
        }
    }
    lost as f64 / (lost as f64 + marks.max(1) as f64)
}
