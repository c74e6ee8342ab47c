//! Who made this call? All that could have are its candidates; rules exclude some of them; where one is left, it was that one.
//!
//! A rule excludes by what was seen, and never asks what other rules made of it, so that their order changes nothing.
//! What follows from what was seen is *shown*. Where that leaves several, *habits* are asked: what the process was
//! never seen to do though it could have been. A link that needs one says so.

use super::exclusion::{ExclusionRule, Keeps, Kept, Question, Requests};
use crate::evidence::{Hole, Rule, Strength};
use crate::exchange::ExId;
use crate::proof::{CANDIDATES_MAX, Candidate, Considered, Excluded};
use smallvec::SmallVec;

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
