//! Work that a goroutine gets through a channel and hands back: between the two it is at that alone.
//!
//! A worker of a pool takes an item of the goroutine that works for a request, and sends what came of it to just that goroutine. If in
//! between it took nothing from others that could be work, and handed nothing back to others, that is a **job**. The first pass over
//! a recording finds them, since only its end shows what it was.
//!
//! What a goroutine borrows amid an item, such as a connection that another worker sets free, looks like an item of that one's, too:
//! some day it hands something back to just that one. Items of such a type are **lent** where none was ever taken but amid another item.

use crate::conditions::holds;
use crate::flags::{Flags, flags};
use crate::intervals::Intervals;
use crate::lineage::{Lineage, TaskRequest};
use crate::process::ProcessId;
use crate::roles::{HabitId, HabitTable};
use rustc_hash::FxHashMap;
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

/// What is kept of a goroutine that takes items.
#[derive(Default)]
struct Taker {
    process: ProcessId,
    items: SmallVec<[Item; 2]>,
    /// It had a job, and called or had others work in it.
    is_worker: bool,
    /// Items that it never handed back, and took amid no job.
    loose: u64,
}

impl Taker {
    /// What it took when it was at nothing.
    fn idle(&self) -> u64 {
        let first = self.items.first().map_or(0, |i| i.kind);
        if self.is_worker { self.loose | first } else { 0 }
    }
}

/// A job, of which is not known yet what the types of items in it are.
struct Candidate {
    process: ProcessId,
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
    /// Taken by workers amid no job.
    idle: u64,
    /// Begin jobs.
    work: u64,
    /// End them.
    answers: u64,
    /// Taken by goroutines that had no other item: these are not lent.
    alone: u64,
    /// Begin what is work or a loan, and end that.
    maybe_work: u64,
    maybe_answers: u64,
    /// How many jobs had calls.
    cases: u32,
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

    /// All has been seen: what was no loan was work.
    fn finish(&mut self) {
        self.alone |= 1 << KINDS_MAX;
        let was_work = self.maybe_work & self.alone;
        self.work |= was_work;
        self.answers |= if was_work == 0 { 0 } else { self.maybe_answers };
    }

    /// Whether items of all these types were never taken but amid others.
    fn are_lent(&self, kinds: u64) -> bool {
        holds("handed.lent_amid_others", kinds & self.alone == 0)
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
        let kind = self.kinds.entry(process).or_default().bit(r.of);
        let is_for_requests = lineage.has_requests(r.task);
        let mut is_answer = self.gives(r.from, r, kind, is_for_requests);
        if r.first != r.from {
            is_answer |= self.gives(r.first, r, kind, is_for_requests);
        }
        if r.is_empty == 0 && !is_for_requests && !is_answer {
            self.takes(r, process, kind, lineage);
        }
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
            taker.loose |= taker.items.remove(0).kind;
        }
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
            kinds.maybe_answers |= kind;
        } else {
            taker.items.iter_mut().filter(|i| i.taken <= sent).for_each(|i| i.flags.add(ItemFlag::Mixed));
            kinds.answers |= kind;
        }
        if !is_whole {
            return is_answer;
        }
        if !may_be_lent {
            taker.items.retain(|i| !is_amid(i) || i.kind == item.kind);
        }
        if item.called.0 == 0 && !item.flags.has(ItemFlag::Given) {
            return is_answer;
        }
        taker.is_worker = true;
        kinds.work |= if may_be_lent { 0 } else { item.kind };
        kinds.cases += u32::from(item.called.0 != 0 && item.amid.is_empty());
        // for whom it called amid another one's work cannot be known
        let lent = item.amid.iter().fold(item.lent, |all, (_, kind)| all | kind);
        let candidate = Candidate { process: taker.process, until: sent, took, gave: item.gave, lent };
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
            self.kinds.entry(taker.process).or_default().idle |= taker.idle();
        }
    }

    /// Nothing more comes.
    pub(crate) fn finish(&mut self, habits: &mut HabitTable) {
        for taker in std::mem::take(&mut self.takers).into_values() {
            self.kinds.entry(taker.process).or_default().idle |= taker.idle();
        }
        for (&process, kinds) in &mut self.kinds {
            kinds.finish();
            habits.at(process).cases(HabitId::HandsBack, kinds.cases);
        }
        self.losses.settle();
        let (kinds, losses) = (&self.kinds, &self.losses);
        self.candidates.retain(|&(_, taken), c| {
            let kinds = &kinds[&c.process];
            kinds.are_lent(c.lent)
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
