//! How a link is known: who could have made a call, and what excluded each of them.

use crate::text::{Style, Tint, sanitise, wrap};
use crate::units;
use serde::Serialize;
use std::fmt::Write as _;
use wakepath_analysis::names::Names;
use wakepath_causality::evidence::{Rule, Strength};
use wakepath_causality::path::Half;
use wakepath_causality::proof::{Candidate, Considered, Excluded, Outcome, Proof};
use wakepath_model::ids::MonoNs;

/// The proof of one call.
#[derive(Debug, Serialize)]
pub struct ProofView {
    /// The call's span in the request; none where it may be the request's and could not be told.
    pub span: Option<u32>,
    /// What it asks.
    pub asked: String,
    /// Task that made it.
    pub task: String,
    /// When it began, after the root's begin, ns.
    pub offset_ns: i64,
    /// The rule that names its request, empty where none does.
    pub rule: String,
    /// `shown`, or `habit` where the link rests on what the process was never seen to do; empty where there is none.
    pub strength: &'static str,
    /// What was made of it, in a sentence.
    pub verdict: String,
    /// Those who could have made it.
    pub candidates: Vec<CandidateView>,
    /// How many more there were.
    pub more: u32,
    /// Of a call that stayed open: conditions of rules that did not hold, in the order in which they were asked.
    pub failed: Vec<ConditionView>,
}

/// A condition of a rule.
#[derive(Debug, Serialize)]
pub struct ConditionView {
    /// Its name in docs/internals/attribution.md.
    pub condition: &'static str,
    /// What would have been true if it had held.
    pub says: &'static str,
}

/// Who could have made a call.
#[derive(Debug, Serialize)]
pub struct CandidateView {
    /// `request`, `program` (of its own accord) or `before` (a request from before the recording).
    pub kind: &'static str,
    /// A request: what it asked; else empty.
    pub asked: String,
    /// When it was taken, after the root's begin, ns; null where it is not a request.
    pub offset_ns: Option<i64>,
    /// It may have made the call.
    pub remains: bool,
    /// What speaks against it.
    pub excluded: Vec<ExclusionView>,
}

/// A rule that excludes a candidate.
#[derive(Debug, Serialize)]
pub struct ExclusionView {
    /// The rule.
    pub rule: &'static str,
    /// Why.
    pub says: &'static str,
    /// `shown` or `habit`.
    pub strength: &'static str,
    /// When what says so was seen, after the root's begin, ns; null where it has no time.
    pub offset_ns: Option<i64>,
    /// Of a habit: in how many cases an exception could have been seen and was not; null where that is not counted.
    pub cases: Option<u32>,
}

const fn strength(s: Strength) -> &'static str {
    match s {
        Strength::Shown => "shown",
        Strength::Habit => "habit",
    }
}

impl ProofView {
    /// Of a proof; `offset` gives moments of the caller's host as they stand behind the root's begin.
    pub fn new(
        proof: &Proof,
        span: Option<u32>,
        half: &Half,
        names: &Names<'_>,
        offset: impl Fn(MonoNs) -> i64,
    ) -> ProofView {
        let rule = rule(proof);
        let candidates: Vec<CandidateView> =
            proof.candidates.iter().map(|c| CandidateView::new(c, half, names, &offset)).collect();
        ProofView {
            span,
            asked: names.asked(half),
            task: names.task(half.host, proof.task),
            offset_ns: offset(proof.at),
            rule: rule.map_or(String::new(), |r| r.name().to_owned()),
            strength: rule.map_or("", |r| strength(r.strength())),
            verdict: verdict(proof, &candidates),
            candidates,
            more: proof.more,
            failed: failed(proof),
        }
    }
}

fn rule(proof: &Proof) -> Option<Rule> {
    proof.later.map(|l| l.0).or(match proof.outcome {
        Outcome::Linked(rule) | Outcome::Owned(rule) => Some(rule),
        _ => None,
    })
}

fn failed(proof: &Proof) -> Vec<ConditionView> {
    let is_open = proof.later.is_none() && proof.is_undecided();
    let failed = proof.failed.iter().filter(|_| is_open);
    failed.map(|c| ConditionView { condition: c.name, says: c.says }).collect()
}

fn verdict(proof: &Proof, candidates: &[CandidateView]) -> String {
    let left = candidates.iter().filter(|c| c.remains).count();
    match (proof.later, proof.outcome) {
        (Some((rule, _)), _) => format!("identified by a later event: {}", said_later(rule)),
        (_, Outcome::Linked(_)) => "one is left".to_owned(),
        (_, Outcome::Owned(Rule::Dialled)) => {
            "the connection was made for this request, and its process always used each for the request that it was made for"
                .to_owned()
        }
        (_, Outcome::Owned(_)) => {
            "the connection was made for this request, and no other can have received it".to_owned()
        }
        (_, Outcome::Own) => "no open request made it".to_owned(),
        (_, Outcome::Later) => "no later action of its task identified its request".to_owned(),
        (_, Outcome::Open(gap)) if left > 1 => format!("{left} are left: {}", gap.name()),
        (_, Outcome::Open(gap)) => format!("not known: {}", gap.name()),
    }
}

fn said_later(rule: Rule) -> &'static str {
    match rule {
        Rule::Reply => "the task that made it sent this request's reply next",
        Rule::Completion => "when it was answered, its task woke the task that held this request",
        Rule::Fork => "its task was made in this request and ended with it",
        Rule::Awaited => "the loop received only its answer, and then replied to this request",
        _ => "only this request could have handed over this work",
    }
}

impl CandidateView {
    fn new(c: &Considered, half: &Half, names: &Names<'_>, offset: &impl Fn(MonoNs) -> i64) -> CandidateView {
        let (kind, asked, at) = match &c.candidate {
            Candidate::Request(e) => {
                let of = Half { exchange: (**e).clone(), ..half.clone() };
                ("request", names.asked(&of), Some(offset(e.request.taken)))
            }
            Candidate::Own => ("program", String::new(), None),
            Candidate::Before => ("before", String::new(), None),
        };
        let excluded = c.excluded.iter().map(|e| ExclusionView::new(e, offset)).collect();
        CandidateView { kind, asked, offset_ns: at, remains: c.excluded.is_empty(), excluded }
    }

    fn name(&self) -> String {
        match (self.kind, self.offset_ns) {
            ("program", _) => "the program itself (a timer, a refresh)".to_owned(),
            ("before", _) => "a request from before the recording".to_owned(),
            (_, at) => format!("{}, taken at {}", self.asked, moment(at.unwrap_or_default())),
        }
    }
}

impl ExclusionView {
    fn new(e: &Excluded, offset: &impl Fn(MonoNs) -> i64) -> ExclusionView {
        ExclusionView {
            rule: e.rule,
            says: e.says,
            strength: strength(e.strength),
            offset_ns: (e.at != MonoNs(0)).then(|| offset(e.at)),
            cases: (e.cases > 0).then_some(e.cases),
        }
    }

    /// In a line; with its moment where it is of one candidate.
    fn line(&self, is_of_one: bool) -> String {
        let at = self.offset_ns.filter(|_| is_of_one);
        let since = at.map_or(String::new(), |at| format!(", at {}", moment(at)));
        let worth = match (self.strength, self.cases) {
            ("habit", Some(n)) => format!("habit: no exception in {} cases", units::count(u64::from(n))),
            ("habit", None) => "habit".to_owned(),
            _ => "shown".to_owned(),
        };
        format!("{} [{}{since}; {worth}]", self.says, self.rule)
    }
}

/// A moment after the root's begin, or before it.
fn moment(offset_ns: i64) -> String {
    let length = units::duration(offset_ns.unsigned_abs());
    if offset_ns < 0 { format!("-{length}") } else { length }
}

/// Those that are excluded, by the strongest rule that does it: who, and why.
fn excluded(candidates: &[CandidateView]) -> Vec<(String, String)> {
    const NAMED: usize = 3;
    let mut groups: Vec<(&ExclusionView, Vec<&CandidateView>)> = Vec::new();
    for c in candidates {
        let Some(first) = c.excluded.first() else { continue };
        match groups.iter_mut().find(|(e, _)| e.rule == first.rule) {
            Some((_, of)) => of.push(c),
            None => groups.push((first, vec![c])),
        }
    }
    let said = groups.into_iter().map(|(e, of)| {
        let mut names: Vec<String> = of.iter().take(NAMED).map(|c| c.name()).collect();
        if of.len() > NAMED {
            names.push(format!("{} more", of.len() - NAMED));
        }
        (names.join("; "), e.line(of.len() == 1))
    });
    said.collect()
}

/// As text for a terminal.
pub fn render(proofs: &[ProofView], style: Style) -> String {
    let mut out = String::from("\nHow each call is known (times count from the root's begin):\n");
    if proofs.is_empty() {
        out.push_str("  none of its calls was made by a recorded task\n");
    }
    let mut line = |indent: usize, text: &str, tint: Tint| {
        for part in wrap(&sanitise(text), &" ".repeat(indent), style.width.max(60)).lines() {
            let _ = writeln!(out, "{}", style.paint(part, tint));
        }
    };
    for p in proofs {
        let span = p.span.map_or_else(|| "open".to_owned(), |s| format!("span {s}"));
        line(2, &format!("{span}: {}, by {} at {}", p.asked, p.task, moment(p.offset_ns)), Tint::Plain);
        let by = match (p.strength, p.rule.as_str()) {
            ("", _) => String::new(),
            ("habit", rule) => format!(" [{rule}: by habit, no proof]"),
            (_, rule) => format!(" [{rule}]"),
        };
        line(4, &format!("{}{by}", p.verdict), if p.rule.is_empty() { Tint::Warn } else { Tint::Plain });
        for c in p.candidates.iter().filter(|c| c.remains) {
            line(4, &format!("left: {}", c.name()), Tint::Plain);
        }
        for (names, why) in excluded(&p.candidates) {
            line(4, &format!("not: {names}"), Tint::Dim);
            line(9, &why, Tint::Dim);
        }
        if p.more > 0 {
            line(4, &format!("… and {} more", units::count(u64::from(p.more))), Tint::Dim);
        }
        if !p.failed.is_empty() {
            line(4, "conditions of rules that did not hold:", Tint::Plain);
        }
        for c in &p.failed {
            line(9, &format!("{} [{}]", c.says, c.condition), Tint::Dim);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakepath_causality::conditions::{CONDITIONS, Condition};
    use wakepath_causality::evidence::Gap;
    use wakepath_model::ids::{EndpointId, TaskId};

    fn proof(outcome: Outcome, failed: Vec<Condition>) -> Proof {
        let (candidates, later) = (Vec::new(), None);
        Proof {
            flow: EndpointId(1),
            start: 0,
            task: TaskId(1),
            at: MonoNs(0),
            candidates,
            more: 0,
            outcome,
            later,
            failed,
        }
    }

    #[test]
    fn what_rests_on_a_habit_is_not_called_certain() {
        let is_certain = |rule| verdict(&proof(Outcome::Owned(rule), Vec::new()), &[]).contains("no other can");
        assert!(is_certain(Rule::Owner) && !is_certain(Rule::Dialled));
    }

    #[test]
    fn open_calls_name_the_conditions_that_did_not_hold_and_linked_ones_do_not() {
        let condition = *CONDITIONS.iter().find(|c| c.name == "turn.no_timer_due").expect("a condition");
        assert!(failed(&proof(Outcome::Linked(Rule::Owner), vec![condition])).is_empty());
        let open = failed(&proof(Outcome::Open(Gap::Ambiguous), vec![condition]));
        assert_eq!((open.len(), open[0].condition), (1, "turn.no_timer_due"));
    }
}
