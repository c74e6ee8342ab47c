//! Whole paths and links against a truth file.

use crate::bases::{Bases, line};
use crate::truth::Truth;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use wakepath_causality::Report;
use wakepath_causality::path::{Request, Span};
use wakepath_model::folder::Folder;
use wakepath_model::ids::MonoNs;

/// What was claimed of a hop, worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Claim {
    /// No span is this hop.
    #[default]
    Unseen,
    /// Its parent is the true one (or it is the root, and truly so).
    Right,
    /// No parent was claimed, and said so.
    Admitted,
    /// A root without a word.
    Orphan,
    /// Another parent than the true one.
    Wrong,
}

/// Right and wrong links of a rule.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByRule {
    /// Links to the true parent.
    pub right: u64,
    /// Links to another.
    pub wrong: u64,
}

/// What is wrong with a path that says it is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A span under another parent than the true one.
    WrongParent {
        /// Index of the span.
        span: u32,
    },
    /// The root is a call that another hop made.
    NotARoot,
    /// A span that is no hop of the truth.
    Foreign {
        /// Index of the span.
        span: u32,
    },
    /// A hop of the request that no span is.
    Missing {
        /// Index of the hop.
        hop: u32,
    },
    /// Two spans are the same hop.
    Twice {
        /// Index of the later span.
        span: u32,
    },
}

/// A path that was reported, with the hop of each span.
pub struct Reported<'a> {
    /// As reconstructed.
    pub request: &'a Request,
    /// The hop that each span is.
    pub hops: Vec<Option<u32>>,
    /// What is wrong.
    pub faults: Vec<Fault>,
}

/// Counts over a trace.
pub struct Score<'t> {
    truth: &'t Truth,
    bases: Bases,
    span: (u64, u64),
    claims: Vec<Claim>,
    /// By hop: a path with it says that it is incomplete.
    incomplete: Vec<bool>,
    right: Vec<bool>,
    reported: u64,
    admitted: u64,
    holes: BTreeMap<&'static str, u64>,
    rules: BTreeMap<&'static str, ByRule>,
    joined: BTreeMap<&'static str, u64>,
    twice: u64,
}

impl<'t> Score<'t> {
    /// For a folder and what is true of it.
    pub fn new(truth: &'t Truth, folder: &Folder) -> Score<'t> {
        let spans = || folder.hosts().iter().filter_map(|h| h.span());
        let first = spans().map(|s| s.0).min().unwrap_or(MonoNs(0));
        let last = spans().map(|s| s.1).max().unwrap_or(MonoNs(0));
        Score {
            truth,
            bases: Bases::read(folder, |a| truth.is_server(a)),
            span: (first.0, last.0),
            claims: vec![Claim::default(); truth.hops.len()],
            incomplete: vec![false; truth.hops.len()],
            right: vec![false; truth.requests.len()],
            reported: 0,
            admitted: 0,
            holes: BTreeMap::new(),
            rules: BTreeMap::new(),
            joined: BTreeMap::new(),
            twice: 0,
        }
    }

    /// The hop that a span is.
    fn hop(&self, s: &Span) -> Option<u32> {
        // what the caller saw is nearest to what the truth says
        [s.caller.as_ref(), s.callee.as_ref()]
            .into_iter()
            .flatten()
            .find_map(|h| self.truth.find(&line(h), self.bases.offset(h), h.exchange.request.began.0))
    }

    /// Whether a request counts: answered, and wholly inside the recording.
    fn counts(&self, request: u32) -> bool {
        let r = &self.truth.requests[request as usize];
        r.ok && r.start_ns >= self.span.0 && r.end_ns <= self.span.1
    }

    /// Takes a path. Gives it back with its faults where it says that it is complete and is not correct, or where it
    /// says that it is incomplete and has a wrong link besides.
    pub fn take<'a>(&mut self, request: &'a Request) -> Option<Reported<'a>> {
        let hops: Vec<Option<u32>> = request.spans.iter().map(|s| self.hop(s)).collect();
        let known: Vec<u32> = hops.iter().flatten().copied().collect();
        if !known.iter().any(|&h| self.counts(self.truth.hops[h as usize].request)) {
            return None;
        }
        let mut faults = Vec::new();
        for (i, s) in request.spans.iter().enumerate() {
            if let Some(j) = s.joined_by {
                *self.joined.entry(j.name()).or_default() += 1;
            }
            let Some(hop) = hops[i] else {
                faults.push(Fault::Foreign { span: i as u32 });
                continue;
            };
            if hops[..i].contains(&Some(hop)) {
                self.twice += 1;
                faults.push(Fault::Twice { span: i as u32 });
                continue;
            }
            let truly = self.truth.parent(hop);
            let claim = match s.parent {
                None if truly.is_none() => Claim::Right,
                None if request.orphan.is_some() => Claim::Admitted,
                None => {
                    faults.push(Fault::NotARoot);
                    Claim::Orphan
                }
                Some(p) if truly.is_some() && hops[p as usize] == truly => Claim::Right,
                Some(_) => {
                    faults.push(Fault::WrongParent { span: i as u32 });
                    Claim::Wrong
                }
            };
            if let Some(rule) = s.made_by {
                let by = self.rules.entry(rule.name()).or_default();
                if claim == Claim::Right { by.right += 1 } else { by.wrong += 1 }
            }
            let slot = &mut self.claims[hop as usize];
            *slot = (*slot).max(claim);
        }
        if !request.is_complete() {
            self.admitted += 1;
            for (_, hole) in request.gaps() {
                *self.holes.entry(hole.name()).or_default() += 1;
            }
            for &h in &known {
                self.incomplete[h as usize] = true;
            }
            // it may be incomplete, but what it says must be true
            faults.retain(|f| matches!(f, Fault::WrongParent { .. }));
            return (!faults.is_empty()).then_some(Reported { request, hops, faults });
        }
        self.reported += 1;
        let whose = self.truth.hops[known[0] as usize].request;
        faults.extend(self.truth.hops_of(whose).filter(|h| !known.contains(h)).map(|hop| Fault::Missing { hop }));
        if faults.is_empty() {
            let first = !std::mem::replace(&mut self.right[whose as usize], true);
            if first {
                return None;
            }
            self.twice += 1;
        }
        Some(Reported { request, hops, faults })
    }

    /// Adds up.
    pub fn finish(mut self, report: &Report) -> Outcome {
        let truth = self.truth;
        let mut o = Outcome {
            about: truth.about.clone(),
            reported: self.reported,
            admitted: self.admitted,
            twice: self.twice,
            holes: std::mem::take(&mut self.holes),
            rules: std::mem::take(&mut self.rules),
            joined: std::mem::take(&mut self.joined),
            operations: report.operations,
            disagreements: report.disagreements,
            ..Outcome::default()
        };
        for (i, r) in truth.requests.iter().enumerate() {
            if !self.counts(i as u32) {
                o.outside += 1;
                continue;
            }
            o.existing += 1;
            o.correct += u64::from(self.right[i]);
            let seen = (r.first..r.first + r.count).any(|h| self.claims[h as usize] != Claim::Unseen);
            o.unseen_requests += u64::from(!seen);
            for h in truth.hops_of(i as u32) {
                let parent = truth.parent(h);
                o.links.all += 1;
                match self.claims[h as usize] {
                    Claim::Right => o.links.right += 1,
                    Claim::Admitted => o.links.admitted += 1,
                    Claim::Orphan => o.links.orphan += 1,
                    Claim::Wrong => o.links.wrong += 1,
                    Claim::Unseen if parent.is_some_and(|p| self.incomplete[p as usize]) => o.links.admitted += 1,
                    Claim::Unseen => o.links.missing += 1,
                }
            }
        }
        o
    }
}

/// Links, one a hop: to its parent, or to none for the first.
#[derive(Clone, Debug, Default)]
pub struct Links {
    /// How many there are.
    pub all: u64,
    /// Claimed, and true.
    pub right: u64,
    /// A parent that is not the true one.
    pub wrong: u64,
    /// Given as a root without a word, but it has a parent.
    pub orphan: u64,
    /// Left open, and said so.
    pub admitted: u64,
    /// Not there, without a word.
    pub missing: u64,
}

/// The figures.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Models, policy and framing.
    pub about: String,
    /// Requests that exist in the truth and lie inside the recording.
    pub existing: u64,
    /// Of the truth, not counted: not answered, or not inside the recording.
    pub outside: u64,
    /// Paths that say they are complete.
    pub reported: u64,
    /// Paths that say they are incomplete.
    pub admitted: u64,
    /// Paths equal to the truth.
    pub correct: u64,
    /// Requests of which no hop was found.
    pub unseen_requests: u64,
    /// Spans or paths that are there twice.
    pub twice: u64,
    /// By link.
    pub links: Links,
    /// By rule that made the link.
    pub rules: BTreeMap<&'static str, ByRule>,
    /// Sides joined, by rule.
    pub joined: BTreeMap<&'static str, u64>,
    /// Reasons of incomplete paths.
    pub holes: BTreeMap<&'static str, u64>,
    /// Operations read.
    pub operations: u64,
    /// Where a stronger rule overruled a weaker one.
    pub disagreements: u64,
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 1.0 } else { part as f64 / whole as f64 }
}

impl Outcome {
    /// correct / existing.
    pub fn completeness(&self) -> f64 {
        share(self.correct, self.existing)
    }

    /// correct / reported.
    pub fn accuracy(&self) -> f64 {
        share(self.correct, self.reported)
    }

    /// As a document.
    pub fn json(&self) -> Value {
        let rules: serde_json::Map<String, Value> = self
            .rules
            .iter()
            .map(|(name, r)| ((*name).to_owned(), json!({ "right": r.right, "wrong": r.wrong })))
            .collect();
        json!({
            "about": self.about,
            "paths": {
                "existing": self.existing, "reported": self.reported, "correct": self.correct,
                "incomplete": self.admitted, "unseen": self.unseen_requests, "outside": self.outside,
                "twice": self.twice,
                "completeness": self.completeness(), "accuracy": self.accuracy(),
            },
            "links": {
                "all": self.links.all, "right": self.links.right, "wrong_parent": self.links.wrong,
                "orphan": self.links.orphan, "incomplete_said": self.links.admitted, "missing": self.links.missing,
            },
            "rules": rules,
            "joined": self.joined,
            "holes": self.holes,
            "operations": self.operations,
            "disagreements": self.disagreements,
        })
    }

    /// As text.
    pub fn table(&self) -> String {
        let mut t = String::new();
        let l = &self.links;
        let percent = |part, whole| 100.0 * share(part, whole);
        let _ = writeln!(t, "truth         {}", self.about);
        let _ = writeln!(
            t,
            "paths         {} existing, {} reported complete, {} correct, {} say they are incomplete, {} unseen",
            self.existing, self.reported, self.correct, self.admitted, self.unseen_requests
        );
        if self.outside > 0 {
            let _ = writeln!(t, "not counted   {} requests not answered or not inside the recording", self.outside);
        }
        let _ = writeln!(t, "completeness  {:.3} %", percent(self.correct, self.existing));
        let _ = writeln!(t, "accuracy      {:.3} %", percent(self.correct, self.reported));
        let _ = writeln!(
            t,
            "links         {} all, {} right, {} orphan, {} wrong parent, {} incomplete and said so, {} missing",
            l.all, l.right, l.orphan, l.wrong, l.admitted, l.missing
        );
        for (name, r) in &self.rules {
            let _ = writeln!(t, "  by {name:<24} {:>9} right {:>7} wrong", r.right, r.wrong);
        }
        for (name, n) in &self.joined {
            let _ = writeln!(t, "  joined by {name:<17} {n:>9}");
        }
        for (name, n) in &self.holes {
            let _ = writeln!(t, "  hole: {name:<44} {n:>7}");
        }
        let _ = writeln!(t, "operations    {}, rules disagreed {} times", self.operations, self.disagreements);
        t
    }
}
