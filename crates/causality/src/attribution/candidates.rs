//! Who made this call? All that could have are its candidates; rules exclude some of them; where one is left, it was that one.
//!
//! A rule excludes by what was seen, and never asks what other rules made of it, so that their order changes nothing.
//! What follows from what was seen is *shown*. Where that leaves several, *habits* are asked: what the process was
//! never seen to do though it could have been. A link that needs one says so.

use super::exclusion::{ExclusionRule, Keeps, Kept, Property, Question};
use super::request_set::{Candidates, Requests, SetId};
use crate::evidence::{Gap, Rule, Strength};
use crate::exchange::ExId;
use crate::process::known::Does;
use crate::proof::{CANDIDATES_MAX, Candidate, Considered, Excluded};
use smallvec::SmallVec;

/// Who is left.
struct Left {
    requests: Candidates,
    own: bool,
    before: bool,
    /// The rule that names the request, where one is left.
    rule: Rule,
}

impl Left {
    /// The one request, where no other is left.
    fn one(&self, q: &Question) -> Option<ExId> {
        self.requests.only().filter(|&x| !self.own && !self.before && q.is_open(x))
    }

    fn is_empty(&self) -> bool {
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
    Open(Gap, Candidates),
}

/// Habits of what the program does for no request.
const OF_PROGRAM: [&str; 2] = ["unasked", "asked again"];

/// Asks all rules; habits only if `uses_habits`.
pub(super) fn judge(q: &Question, rules: &[ExclusionRule], uses_habits: bool) -> Verdict {
    let shown = left(q, rules.iter().filter(|r| r.strength == Strength::Shown), Strength::Shown);
    if let Some(x) = shown.one(q) {
        return Verdict::By(x, shown.rule);
    }
    if !uses_habits || shown.before {
        return undecided(q, &shown);
    }
    // with which request a loop goes on that takes what a thread left is no matter of habit; that the program does nothing itself is
    let of_program = |r: &&ExclusionRule| r.strength == Strength::Shown || OF_PROGRAM.contains(&r.name);
    let is_any = !q.may_have_taken_results();
    let habit = left(q, rules.iter().filter(|r| is_any || of_program(r)), Strength::Habit);
    match habit.one(q) {
        Some(x) => Verdict::By(x, habit.rule),
        // none is left: a habit was broken, and says nothing
        None if habit.is_empty() => undecided(q, &shown),
        None => undecided(q, &habit),
    }
}

fn undecided(q: &Question, left: &Left) -> Verdict {
    let mut open = left.requests.clone();
    open.few.retain(|&mut x| q.is_open(x));
    let may_be_own = left.own && q.facts.roles.calls_of_its_own(q.process);
    open.are_not_all = may_be_own || left.before || open.few.len() < left.requests.few.len();
    match () {
        () if left.before => Verdict::Open(Gap::BeforeRecording, open),
        () if open.is_empty() && !left.is_empty() => Verdict::Own,
        // who is of no request by all rules: one of them was deceived, and any may have made it
        () if open.is_empty() => Verdict::Open(Gap::Ambiguous, Candidates { are_not_all: true, ..q.open_candidates() }),
        () => Verdict::Open(Gap::Ambiguous, open),
    }
}

/// Who is left by rules up to a strength.
fn left<'r>(q: &Question, rules: impl Iterator<Item = &'r ExclusionRule>, strength: Strength) -> Left {
    let mut kept: SmallVec<[Kept; 4]> = SmallVec::new();
    let mut left = Left { requests: Candidates::default(), own: true, before: q.is_before(), rule: Rule::Sole };
    let mut named = u8::MAX;
    for rule in rules {
        let Some(k) = (rule.keeps)(q) else { continue };
        left.own &= k.own;
        left.before &= k.before;
        if let Some(name) = rule.names.filter(|_| rule.rank < named) {
            (named, left.rule) = (rule.rank, name(q, strength));
        }
        kept.push(k);
    }
    left.requests = remaining(q, &kept);
    left
}

/// The requests that are kept by all.
fn remaining(q: &Question, kept: &[Kept]) -> Candidates {
    let remains = |x: &ExId| kept.iter().all(|k| k.has(q, *x));
    let these = kept.iter().filter_map(|k| match &k.requests {
        Keeps::These(these) => Some(these),
        _ => None,
    });
    if let Some(these) = these.min_by_key(|t| t.len()) {
        return Candidates::these(these.iter().copied().filter(remains).collect());
    }
    let Some(scope) = scope(q, kept) else {
        return Candidates::these(q.candidates().filter(remains).collect());
    };
    let mut left = q.all_of(scope, |x| remains(&x));
    let besides = besides(q).into_iter().filter(|&x| !q.facts.is_member(x, scope)).filter(remains);
    left.few.extend(besides);
    left
}

/// The set of open requests, all of which are kept. Others that are kept are [`besides`] it. None where it is not known.
fn scope(q: &Question, kept: &[Kept]) -> Option<SetId> {
    let is_by = |property: Property| kept.iter().any(|k| k.is_by(property));
    let is_held = is_by(Property::Held) || is_by(Property::GivenOrHeld) && !q.role.has(Does::ReplyForOthers);
    let has_foreign = q.worker.is_some_and(|w| w.held.foreign > 0);
    match (is_held, is_by(Property::GoesOn)) {
        (true, _) if has_foreign => None,
        (true, true) => Some(SetId::FreeHeld(q.task)),
        (true, false) => Some(SetId::Held(q.task)),
        // a loop is asked of what it holds alone
        (false, true) if q.is_loop() && !q.role.has(Does::ReplyForOthers) => None,
        (false, true) => Some(SetId::Free(q.process)),
        (false, false) => Some(SetId::Open(q.process)),
    }
}

/// Candidates that may be kept for another reason than those of a set: what the task is at, or was given.
fn besides(q: &Question) -> Requests {
    let turn = q.worker.map(|w| &w.given);
    let is_of_process = |x: &ExId| q.is_open(*x) && q.facts.state(*x).process == q.process;
    let given = turn.map_or(&[][..], |t| &t.owners).iter().copied();
    let at_hand = turn.and_then(|t| t.writes_for).into_iter().chain(q.current());
    let answered = given.clone().filter(|&x| q.is_loop() && q.xs.is_live(x) && !q.is_open(x));
    let maker = q.born_of().filter(|_| q.facts.open(q.process).is_empty());
    let mut found: Requests = given.chain(at_hand).filter(is_of_process).chain(answered).chain(maker).collect();
    found.sort_unstable();
    found.dedup();
    found
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
