//! Who made this call? All that could have are its candidates; rules exclude some of them; where one is left, it was that one.
//!
//! A rule excludes by what was seen, and never asks what other rules made of it, so that their order changes nothing.
//! What follows from what was seen is *shown*. Where that leaves several, *habits* are asked: what the process was
//! never seen to do though it could have been. A link that needs one says so.

use super::facts::Facts;
use super::rules::ExclusionRule;
use super::worker::Worker;
use crate::evidence::{Hole, Rule, Strength};
use crate::exchange::{ExId, Slab};
use crate::proof::{CANDIDATES_MAX, Candidate, Considered, Excluded};
use crate::roles::Role;
use smallvec::SmallVec;
use wakepath_model::ids::{MonoNs, TaskId};

/// A few requests.
pub(super) type Requests = SmallVec<[ExId; 4]>;

/// A call that a task makes now, and all that rules may ask about it.
pub(super) struct Question<'q> {
    pub(super) facts: &'q Facts<'q>,
    pub(super) xs: &'q Slab,
    pub(super) process: u32,
    pub(super) task: TaskId,
    pub(super) at: MonoNs,
    pub(super) role: Role,
    pub(super) worker: Option<&'q Worker>,
}

impl<'q> Question<'q> {
    pub(super) fn new(facts: &'q Facts<'q>, xs: &'q Slab, task: TaskId, at: MonoNs) -> Self {
        let (process, role) = (facts.roles.process_of(task), facts.roles.role(task));
        Question { facts, xs, process, task, at, role, worker: facts.tasks.get(&task) }
    }

    pub(super) fn is_open(&self, x: ExId) -> bool {
        self.facts.is_open(self.xs, x)
    }

    /// Requests that the task holds.
    pub(super) fn held(&self) -> &'q [ExId] {
        self.worker.map_or(&[], |w| &w.held)
    }

    /// The request of the fragment that the task is in.
    pub(super) fn current(&self) -> Option<ExId> {
        self.worker.and_then(|w| w.current).filter(|&x| self.is_open(x))
    }

    /// The request that the task was made in, until it waits for work.
    pub(super) fn born_of(&self) -> Option<ExId> {
        self.worker.and_then(|w| w.born_of).filter(|&x| self.is_open(x))
    }

    /// Whether the task's requests move between tasks of its process: any may go on with any.
    pub(super) fn is_migrating(&self) -> bool {
        self.facts.roles.is_migrating(self.process)
    }

    /// Whether the task takes requests and may have several at once, or go on with something of its own.
    pub(super) fn is_loop(&self) -> bool {
        // one that has but one connection may work on several requests at once all the same
        let is_beside = |w: &Worker, x: ExId| self.is_open(x) && self.facts.is_beside_another(self.xs, w, x);
        let has_several = |w: &Worker| w.turn.is_given_inputs() && w.held.iter().any(|&x| is_beside(w, x));
        self.role.takes && !self.is_migrating() && (self.role.is_loop() || self.worker.is_some_and(has_several))
    }

    /// Whether the task takes requests and works on one at a time.
    pub(super) fn is_thread(&self) -> bool {
        self.role.takes && !self.is_migrating() && !self.is_loop()
    }

    /// Whether the call may be of a request that was under way before the recording.
    fn is_before(&self) -> bool {
        self.at <= self.facts.roles.unseen_until(self.process)
    }

    /// Whether a later fact can still name who made it: the task works for others, who show when it replies, wakes one of
    /// them, or ends.
    pub(super) fn may_be_told_later(&self) -> bool {
        match () {
            () if self.facts.open(self.process).is_empty() => self.born_of().is_some(),
            () if self.is_migrating() || self.is_loop() => false,
            () if self.role.takes => self.role.replies_foreign || self.born_of().is_some(),
            () => true,
        }
    }

    /// Whether the task holds a request, as far as requests stay with the task that took them.
    pub(super) fn holds(&self, x: ExId) -> bool {
        self.role.replies_foreign || self.facts.state(x).holder == self.task
    }

    /// Whether the kernel receives ahead of the program (io_uring): what it took, and when, is not known.
    pub(super) fn is_ring(&self) -> bool {
        self.facts.roles.is_ring(self.task)
    }

    /// All that could have made the call if nothing were known of what they did: open requests of its process; answered
    /// ones, where the task is a loop that was given something of theirs; where a process has none, the one in which its
    /// maker made it.
    pub(super) fn candidates(&self) -> impl Iterator<Item = ExId> {
        let open = self.facts.open(self.process);
        let given = self.worker.filter(|_| self.is_loop()).map_or(&[][..], |w| w.turn.owners());
        let answered = given.iter().copied().filter(|&x| self.xs.is_live(x) && !self.is_open(x));
        let maker = self.born_of().filter(|_| open.is_empty());
        open.iter().copied().filter(|&x| self.is_open(x)).chain(answered).chain(maker)
    }
}

/// What a rule leaves.
pub(super) struct Kept {
    /// Which requests it keeps.
    pub(super) requests: Keeps,
    /// The program itself stays a candidate.
    pub(super) own: bool,
    /// Requests from before the recording stay candidates.
    pub(super) before: bool,
}

/// Which requests a rule keeps.
pub(super) enum Keeps {
    /// All.
    All,
    /// These alone. They may be answered already, or another process's, as a maker's are.
    These(Requests),
    /// Those of which this holds.
    Those(fn(&Question, ExId) -> bool),
}

impl Kept {
    /// This request and nobody else.
    pub(super) fn one(x: ExId) -> Kept {
        Kept { requests: Keeps::These(SmallVec::from_slice(&[x])), own: false, before: false }
    }

    /// All but the program itself.
    pub(super) fn all_but_own() -> Kept {
        Kept { requests: Keeps::All, own: false, before: true }
    }

    /// All but requests of which this does not hold.
    pub(super) fn those(of: fn(&Question, ExId) -> bool) -> Kept {
        Kept { requests: Keeps::Those(of), own: true, before: true }
    }

    fn has(&self, q: &Question, x: ExId) -> bool {
        match &self.requests {
            Keeps::All => true,
            Keeps::These(these) => these.contains(&x),
            Keeps::Those(of) => of(q, x),
        }
    }
}

/// Who is left.
struct Left {
    requests: Requests,
    own: bool,
    before: bool,
    /// The rule that names the request, where one is left.
    rule: Rule,
}

impl Left {
    /// The one request, where nobody else is left.
    fn one(&self, q: &Question) -> Option<ExId> {
        match self.requests[..] {
            [x] if !self.own && !self.before && q.is_open(x) => Some(x),
            _ => None,
        }
    }

    fn is_nobody(&self) -> bool {
        self.requests.is_empty() && !self.own && !self.before
    }
}

/// Who made the call.
pub(super) enum Verdict {
    /// A request.
    By(ExId, Rule),
    /// No request that is open: the program itself, or one that was answered.
    Own,
    /// Any of these, or one from before the recording.
    Open(Hole, Requests),
}

/// Asks all rules; habits only if `uses_habits`.
pub(super) fn judge(q: &Question, rules: &[ExclusionRule], uses_habits: bool) -> Verdict {
    let shown = left(q, rules, Strength::Shown);
    if let Some(x) = shown.one(q) {
        return Verdict::By(x, shown.rule);
    }
    if !uses_habits || shown.before {
        return undecided(q, &shown);
    }
    let habit = left(q, rules, Strength::Habit);
    match habit.one(q) {
        Some(x) => Verdict::By(x, habit.rule),
        // nobody is left: a habit was broken, and says nothing
        None if habit.is_nobody() => undecided(q, &shown),
        None => undecided(q, &habit),
    }
}

fn undecided(q: &Question, left: &Left) -> Verdict {
    let open: Requests = left.requests.iter().copied().filter(|&x| q.is_open(x)).collect();
    match () {
        () if left.before => Verdict::Open(Hole::BeforeRecording, open),
        () if open.is_empty() && !left.is_nobody() => Verdict::Own,
        // who is nobody's by all rules: one of them was deceived, and any may have made it
        () if open.is_empty() => Verdict::Open(Hole::Ambiguous, q.candidates().filter(|&x| q.is_open(x)).collect()),
        () => Verdict::Open(Hole::Ambiguous, open),
    }
}

/// Who is left by rules up to a strength.
fn left(q: &Question, rules: &[ExclusionRule], strength: Strength) -> Left {
    let mut kept: SmallVec<[Kept; 4]> = SmallVec::new();
    let mut left = Left { requests: Requests::new(), own: true, before: q.is_before(), rule: Rule::Sole };
    let mut named = u8::MAX;
    for rule in rules.iter().filter(|r| r.strength <= strength) {
        let Some(k) = (rule.keeps)(q) else { continue };
        left.own &= k.own;
        left.before &= k.before;
        if let Some(name) = rule.names.filter(|_| rule.rank < named) {
            (named, left.rule) = (rule.rank, name(q, strength));
        }
        kept.push(k);
    }
    let these = kept.iter().filter_map(|k| match &k.requests {
        Keeps::These(these) => Some(these),
        _ => None,
    });
    let remains = |x: &ExId| kept.iter().all(|k| k.has(q, *x));
    // the shortest list first: a loop may have thousands of requests open
    left.requests = match these.min_by_key(|t| t.len()) {
        Some(these) => these.iter().copied().filter(remains).collect(),
        None => q.candidates().filter(remains).collect(),
    };
    left
}

/// Who could have made the call, and each rule that speaks against them.
pub(super) fn explain(q: &Question, rules: &[ExclusionRule], uses_habits: bool) -> (Vec<Considered>, u32) {
    let mut asked: Vec<(&ExclusionRule, Kept)> = rules
        .iter()
        .filter(|r| uses_habits || r.strength == Strength::Shown)
        .filter_map(|r| (r.keeps)(q).map(|k| (r, k)))
        .collect();
    asked.sort_by_key(|(r, _)| (r.strength, r.rank));
    let speaks = |is_kept: &dyn Fn(&Kept) -> bool, x: Option<ExId>| -> Vec<Excluded> {
        let against = asked.iter().filter(|(_, k)| !is_kept(k));
        against
            .map(|(r, _)| Excluded {
                rule: r.name,
                says: r.says,
                strength: r.strength,
                at: (r.seen_at)(q, x),
                cases: r.cases.map_or(0, |cases| cases(q)),
            })
            .collect()
    };
    // a rule may name the request of another process, as a maker's is
    let named = asked.iter().flat_map(|(_, k)| match &k.requests {
        Keeps::These(these) => these.as_slice(),
        _ => &[],
    });
    let mut requests: Vec<ExId> = named.copied().chain(q.candidates()).filter(|&x| q.xs.is_live(x)).collect();
    requests.sort_unstable();
    requests.dedup();
    // those that are left stand first
    requests.sort_by_key(|&x| !asked.iter().all(|(_, k)| k.has(q, x)));
    let more = requests.len().saturating_sub(CANDIDATES_MAX) as u32;
    let mut out: Vec<Considered> = requests
        .iter()
        .take(CANDIDATES_MAX)
        .map(|&x| Considered {
            candidate: Candidate::Request(Box::new(q.xs.get(x).clone())),
            excluded: speaks(&|k| k.has(q, x), Some(x)),
        })
        .collect();
    out.push(Considered { candidate: Candidate::Own, excluded: speaks(&|k| k.own, None) });
    if q.is_before() {
        out.push(Considered { candidate: Candidate::Before, excluded: speaks(&|k| k.before, None) });
    }
    (out, more)
}
