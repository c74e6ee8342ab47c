//! Work that a goroutine gets through a channel and hands back: between the two it is at that alone.
//!
//! A worker of a pool takes an item of the goroutine that works for a request, and sends what came of it to just that goroutine. If in
//! between it took nothing from others that could be work, and handed nothing back to others, that is a **job**. The first pass over
//! a recording finds them, since only its end shows what it was.
//!
//! What a goroutine borrows amid an item, such as a connection that another worker sets free, looks like an item of that one's, too:
//! some day it hands something back to just that one. Items of such a type are **lent** where none was ever taken but amid another item.
//!
//! A pool's connections, and tokens that bound how many do something, also go to goroutines that have no item. Their types **come round**:
//! who had received such an item sends it on. They begin no job.

use crate::conditions::holds;
use crate::flags::{Flags, flags};
use crate::intervals::Intervals;
use crate::lineage::{Lineage, TaskRequest};
use crate::process::ProcessId;
use crate::roles::{HabitId, HabitTable};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use wakepath_model::ids::{MonoNs, TaskId};
use wakepath_model::rows::HandoverRow;

/// Most jobs kept: calls in those beyond stay open.
const JOBS_MAX: usize = 1 << 20;
/// Most goroutines of which is kept what they took.
const TAKERS_MAX: usize = 1 << 18;
/// Most items kept of one: an older one counts as never handed back.
const ITEMS_MAX: usize = 8;
/// Types of items told apart in a process; those beyond count as one, of which anything may be work.
const KINDS_MAX: usize = 63;
/// Sets of types that a process's workers take, told apart.
const WORKERS_MAX: usize = 1 << 10;

flags! {
    /// What is so of an item.
    enum ItemFlag {
        /// Who sent it was at work for a request.
        Somebodys,
        /// Who sent it has requests itself.
        OfRequests,
        /// It gave something to others.
        Given,
        /// Another item was handed back meanwhile.
        Mixed,
    }
}

/// An item that a goroutine took and has not handed back.
struct Item {
    flags: Flags<ItemFlag>,
    /// Who sent it first.
    first: TaskId,
    kind: u64,
    taken: MonoNs,
    /// When it last called since; 0: not.
    called: MonoNs,
    /// What it gave to goroutines that have requests, since.
    gave: u64,
    /// When others were taken that were somebody's and not handed back by then, and their types.
    amid: SmallVec<[(MonoNs, u64); 1]>,
    /// Types of such that may have been lent.
    lent: u64,
}

impl Item {
    /// Whether it may have been lent, where this came of it.
    fn may_be_lent(&self, back: u64) -> bool {
        !self.amid.is_empty() && (!self.flags.has(ItemFlag::OfRequests) || back == self.kind)
    }
}

/// Types of items of a goroutine that takes such.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Worker {
    /// It had jobs that began with such, and called or had others work in them.
    jobs: u64,
    /// It never handed such back, and took them amid no job.
    loose: u64,
    /// It took such when it had nothing else.
    alone: u64,
}

/// What is kept of a goroutine that takes items.
#[derive(Default)]
struct Taker {
    process: ProcessId,
    items: SmallVec<[Item; 2]>,
    is: Worker,
    /// How many items of a type it sent for which it got none.
    sent: SmallVec<[(u64, u32); 2]>,
}

impl Taker {
    /// All that it took, once it is over.
    fn ended(&self) -> Worker {
        Worker { loose: self.is.loose | self.items.first().map_or(0, |i| i.kind), ..self.is }
    }
}

/// A job, of which is not known yet what the types of items in it are.
struct Candidate {
    process: ProcessId,
    /// What began it.
    began: u64,
    /// It had calls, and began amid nothing else.
    is_case: bool,
    /// When what came of the item was sent.
    until: MonoNs,
    /// Which it took meanwhile.
    took: u64,
    gave: u64,
    /// Which it handed back meanwhile, and which it had all the time: if these were lent, it is none of their work.
    lent: u64,
}

/// What the types of items of a process are for, each a bit.
#[derive(Default)]
struct Kinds {
    /// The types, by their numbers.
    types: Vec<u64>,
    /// What goroutines were that had jobs.
    workers: FxHashSet<Worker>,
    /// Taken by workers amid no job.
    idle: u64,
    /// Begin jobs, where they do not come round.
    work: u64,
    /// The same of what is work or a loan.
    maybe_work: u64,
    /// What such work began with and ended with, and whether it may have been a loan.
    ends: FxHashSet<(u64, u64, bool)>,
    /// End jobs.
    answers: u64,
    /// Taken by goroutines that had no other item: these are not lent.
    alone: u64,
    /// Sent by who had received them.
    round: u64,
}

impl Kinds {
    /// The number of a type, where it has one of its own.
    fn number(&self, of: u64) -> Option<usize> {
        self.types.iter().position(|known| *known == of)
    }

    /// The bit of a type that was met.
    fn bit(&mut self, of: u64) -> u64 {
        let number = self.number(of).unwrap_or_else(|| {
            let next = self.types.len();
            if next < KINDS_MAX {
                self.types.push(of);
            }
            next
        });
        1 << number
    }

    /// Types that workers take amid jobs alone, and that begin none: what they waited for themselves, as a connection of a pool is.
    fn harmless(&self) -> u64 {
        !(self.idle | self.work) & !(1 << KINDS_MAX)
    }

    /// A goroutine that took items is over.
    fn ended(&mut self, worker: Worker) {
        match worker.jobs != 0 && self.workers.len() >= WORKERS_MAX {
            true => self.idle |= worker.loose | worker.alone,
            false if worker.jobs != 0 => _ = self.workers.insert(worker),
            false => {}
        }
    }

    /// All has been seen: what was no loan was work.
    fn finish(&mut self) {
        self.alone |= 1 << KINDS_MAX;
        let round = self.round;
        let is_worker = |w: &&Worker| w.jobs & !round != 0;
        let idle = |w: &Worker| w.loose | w.alone & round;
        self.idle |= self.workers.iter().filter(is_worker).fold(0, |all, w| all | idle(w));
        self.work = (self.work | self.maybe_work & self.alone) & !self.round;
        let was_work =
            |&&(began, _, is_maybe): &&(u64, u64, bool)| began & if is_maybe { self.work } else { !self.round } != 0;
        self.answers = self.ends.iter().filter(was_work).fold(0, |all, (_, ended, _)| all | ended);
    }

    /// Whether items of a type may be work: nobody who received one sends it on.
    fn may_be_work(&self, kind: u64) -> bool {
        holds("handed.comes_not_round", kind & self.round == 0)
    }

    /// Whether items of all these types were never taken but amid others.
    fn are_lent(&self, kinds: u64) -> bool {
        holds("handed.lent_amid_others", kinds & self.alone & !self.round == 0)
    }
}

/// Whether what was handed over ends what a goroutine has an item for, which another one sent it first.
fn ends(r: &HandoverRow, giver: TaskId, first: TaskId) -> bool {
    first != TaskId::UNKNOWN && (first == r.task || giver == r.from && first == r.first)
}

/// The jobs of a recording.
#[derive(Default)]
pub(crate) struct Jobs {
    kinds: FxHashMap<ProcessId, Kinds>,
    takers: FxHashMap<TaskId, Taker>,
    /// By who took an item, and when. Once all was seen, what is left are jobs.
    candidates: FxHashMap<(TaskId, MonoNs), Candidate>,
    /// When handovers were lost.
    losses: Intervals,
}

impl Jobs {
    /// A goroutine of a process got an item. `lineage`: what each works for now.
    pub(crate) fn handed_over(&mut self, r: &HandoverRow, process: ProcessId, lineage: &Lineage) {
        let is_for_requests = lineage.has_requests(r.task);
        let is_round = self.comes_round(r, is_for_requests, lineage);
        let kinds = self.kinds.entry(process).or_default();
        let kind = kinds.bit(r.of);
        kinds.round |= if is_round { kind } else { 0 };
        let mut is_answer = self.gives(r.from, r, kind, is_for_requests);
        if r.first != r.from {
            is_answer |= self.gives(r.first, r, kind, is_for_requests);
        }
        if r.is_empty == 0 && !is_for_requests && !is_answer {
            self.takes(r, process, kind, lineage);
        }
    }

    /// Whether an item shows that its type comes round: who sent it first received it and sends it again, or a request's goroutine sends on
    /// what it received; or a request's goroutine gets one without having sent one, which is no answer to one.
    fn comes_round(&mut self, r: &HandoverRow, is_for_requests: bool, lineage: &Lineage) -> bool {
        let is_sent_by_requests = lineage.has_requests(r.from);
        let is_sent_on = r.first_sent < r.sent && (r.first == r.from || is_sent_by_requests);
        let mut of_receiver = self.takers.get_mut(&r.task).into_iter().flat_map(|taker| &mut taker.sent);
        let sent = of_receiver.find(|(of, _)| *of == r.of && is_for_requests);
        let is_unasked = is_for_requests && sent.is_none_or(|(_, n)| std::mem::replace(n, n.saturating_sub(1)) == 0);
        if is_sent_by_requests && (self.takers.len() < TAKERS_MAX || self.takers.contains_key(&r.from)) {
            let taker = self.takers.entry(r.from).or_default();
            match taker.sent.iter_mut().find(|(of, _)| *of == r.of) {
                Some((_, n)) => *n += 1,
                None => taker.sent.push((r.of, 1)),
            }
        }
        is_sent_on || is_unasked
    }

    /// Whether a goroutine has an item that is a request's, of another one than this.
    fn is_at_work(&self, task: TaskId, but: TaskId) -> bool {
        let taker = self.takers.get(&task);
        taker.is_some_and(|t| t.items.iter().any(|i| i.flags.has(ItemFlag::Somebodys) && i.first != but))
    }

    fn takes(&mut self, r: &HandoverRow, process: ProcessId, kind: u64, lineage: &Lineage) {
        let is_of_requests = lineage.has_requests(r.first);
        let is_made_for_one = || matches!(lineage.of(r.first, MonoNs(u64::MAX)), TaskRequest::Of(_));
        let is_somebodys = is_of_requests || is_made_for_one() || self.is_at_work(r.first, r.task);
        if self.takers.len() >= TAKERS_MAX && !self.takers.contains_key(&r.task) {
            return;
        }
        let taker = self.takers.entry(r.task).or_default();
        taker.process = process;
        let is_open = |i: &&Item| i.flags.has(ItemFlag::Somebodys) && !lineage.was_over(i.first, i.taken, r.at);
        let amid: SmallVec<[(MonoNs, u64); 1]> =
            taker.items.iter().filter(is_open).map(|i| (i.taken, i.kind)).collect();
        if amid.is_empty() {
            self.kinds.entry(process).or_default().alone |= kind;
        }
        if taker.items.len() == ITEMS_MAX {
            taker.is.loose |= taker.items.remove(0).kind;
        }
        taker.is.alone |= if taker.items.is_empty() { kind } else { 0 };
        let mut flags = Flags::default();
        flags.set(ItemFlag::Somebodys, is_somebodys);
        flags.set(ItemFlag::OfRequests, is_of_requests);
        taker.items.push(Item { flags, first: r.first, kind, taken: r.at, called: MonoNs(0), gave: 0, amid, lent: 0 });
    }

    /// A goroutine sent what another one got: where that sent it an item, this is what came of it; and so it is done with an item
    /// that it passes on as it is. Whether it is an answer to who got it.
    fn gives(&mut self, task: TaskId, r: &HandoverRow, kind: u64, is_for_requests: bool) -> bool {
        let Some(taker) = self.takers.get_mut(&task) else { return false };
        let sent = r.sent;
        let is_ended = |i: &Item| i.flags.has(ItemFlag::Somebodys) && i.taken <= sent && ends(r, task, i.first);
        let gave_more = |items: &mut [Item]| {
            for item in items.iter_mut().filter(|i| i.taken <= sent) {
                item.flags.add_if(ItemFlag::Given, r.is_empty == 0);
                item.gave |= if is_for_requests { kind } else { 0 };
            }
        };
        let Some(at) = taker.items.iter().position(is_ended) else {
            gave_more(&mut taker.items);
            return false;
        };
        let item = taker.items.remove(at);
        let may_be_lent = item.may_be_lent(kind);
        // who lent something takes what comes back as whatever it is
        let is_answer = item.first == r.task && !may_be_lent;
        let is_amid = |i: &Item| i.taken > item.taken && i.taken <= sent;
        let took = taker.items.iter().filter(|i| is_amid(i)).fold(0, |all, i| all | i.kind);
        let kinds = self.kinds.entry(taker.process).or_default();
        for later in taker.items.iter_mut().filter(|i| i.taken > sent && !i.amid.is_empty()) {
            later.amid.retain(|(taken, _)| *taken != item.taken);
            kinds.alone |= if later.amid.is_empty() { later.kind } else { 0 };
        }
        // what it did after the sending is not for it: its job ends there
        let is_whole = holds("handed.nothing_else_was_handed_back", !item.flags.has(ItemFlag::Mixed));
        if may_be_lent {
            gave_more(&mut taker.items);
            taker.items.iter_mut().filter(|i| i.taken <= sent).for_each(|i| i.lent |= item.kind);
            kinds.maybe_work |= item.kind;
        } else {
            taker.items.iter_mut().filter(|i| i.taken <= sent).for_each(|i| i.flags.add(ItemFlag::Mixed));
        }
        kinds.ends.insert((item.kind, kind, may_be_lent));
        if !is_whole {
            return is_answer;
        }
        if !may_be_lent {
            taker.items.retain(|i| !is_amid(i) || i.kind == item.kind);
        }
        if item.called.0 == 0 && !item.flags.has(ItemFlag::Given) {
            return is_answer;
        }
        taker.is.jobs |= item.kind;
        kinds.work |= if may_be_lent { 0 } else { item.kind };
        // for whom it called amid another one's work cannot be known
        let lent = item.amid.iter().fold(item.lent, |all, (_, kind)| all | kind);
        let is_case = item.called.0 != 0 && item.amid.is_empty();
        let candidate =
            Candidate { process: taker.process, began: item.kind, is_case, until: sent, took, gave: item.gave, lent };
        if self.candidates.len() < JOBS_MAX {
            self.candidates.insert((task, item.taken), candidate);
        }
        is_answer
    }

    /// A task calls.
    pub(crate) fn called(&mut self, task: TaskId, at: MonoNs) {
        if let Some(taker) = self.takers.get_mut(&task) {
            taker.items.iter_mut().for_each(|i| i.called = i.called.max(at));
        }
    }

    /// Handovers were lost.
    pub(crate) fn lost(&mut self, from: u64, to: u64) {
        self.losses.push(from, to);
    }

    /// A goroutine ended.
    pub(crate) fn ended(&mut self, task: TaskId) {
        if let Some(taker) = self.takers.remove(&task) {
            self.kinds.entry(taker.process).or_default().ended(taker.ended());
        }
    }

    /// Nothing more comes.
    pub(crate) fn finish(&mut self, habits: &mut HabitTable) {
        for taker in std::mem::take(&mut self.takers).into_values() {
            self.kinds.entry(taker.process).or_default().ended(taker.ended());
        }
        self.kinds.values_mut().for_each(Kinds::finish);
        for c in self.candidates.values().filter(|c| c.is_case && self.kinds[&c.process].may_be_work(c.began)) {
            habits.at(c.process).cases(HabitId::HandsBack, 1);
        }
        self.losses.settle();
        let (kinds, losses) = (&self.kinds, &self.losses);
        self.candidates.retain(|&(_, taken), c| {
            let kinds = &kinds[&c.process];
            kinds.may_be_work(c.began)
                && kinds.are_lent(c.lent)
                && holds("handed.nothing_else_was_taken", c.took & !kinds.harmless() == 0)
                && holds("handed.nothing_was_handed_to_others", c.gave & kinds.answers == 0)
                && holds("handed.nothing_was_lost", !losses.touch(taken, c.until))
        });
    }

    /// When a job ended that began with an item that a goroutine took at a moment; none where that began none.
    pub(crate) fn until(&self, task: TaskId, taken: MonoNs) -> Option<MonoNs> {
        self.candidates.get(&(task, taken)).map(|c| c.until)
    }

    /// Whether items of a type are no work, for all that is known.
    pub(crate) fn is_harmless(&self, process: ProcessId, of: u64) -> bool {
        let kinds = self.kinds.get(&process);
        kinds.is_some_and(|kinds| kinds.harmless() >> kinds.number(of).unwrap_or(KINDS_MAX) & 1 == 1)
    }
}
