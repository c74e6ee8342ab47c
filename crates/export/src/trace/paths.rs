//! What the critical path of a request says of its spans.

use super::Happened;
use super::attributes::Attributes;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use wakepath_analysis::causes::Cause;
use wakepath_analysis::critical_path::critical_path;
use wakepath_analysis::slices::{Slice, State};
use wakepath_analysis::why::{Detail, Reader, Recording, What};
use wakepath_causality::exchange::ExchangeFlag;
use wakepath_causality::path::Request;
use wakepath_present::waits;

/// Most parts of a request's critical path that are told one by one: the longest.
const TOLD_MAX: usize = 64;
/// Most parts of a request's critical path that are told apart by what is known besides their cause.
const PARTS_MAX: usize = 1000;
/// What stands for that of further parts.
const FURTHER: &str = "details are left out after the first 1000 parts of a request";

/// Walks critical paths.
pub struct Paths<'a> {
    recording: Recording<'a>,
    reader: Reader<'a>,
    tells: Tells,
}

/// What is told of a critical path beside its sums by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tells {
    /// The longest waits one by one: some 30 kB of JSON more a request.
    pub longest: bool,
    /// Its parts, by cause and what else is known of them.
    pub parts: bool,
}

/// Why nothing is told of a request's critical path: what is not known would look like something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untold {
    /// The recording has no waits.
    NoWaits,
    /// Its path is incomplete.
    Incomplete,
    /// No complete reply came.
    NoCompleteReply,
}

impl Untold {
    /// As shown.
    pub const fn name(self) -> &'static str {
        match self {
            Untold::NoWaits => "no waits were recorded",
            Untold::Incomplete => "incomplete path",
            Untold::NoCompleteReply => "no complete reply",
        }
    }
}

/// What a span's part of the critical path went to.
#[derive(Default)]
pub struct Spent {
    /// By cause, how long (ns).
    pub causes: BTreeMap<Cause, u64>,
    /// The longest waits of the request that lie in this span.
    pub longest: Vec<Happened>,
    /// By cause and what is known besides: how long (ns), and in how many intervals.
    pub parts: BTreeMap<(What, Detail), (u64, u64)>,
}

impl Spent {
    /// Adds an interval to the part that is like it, or to one without details where that would be a new one and has no room.
    /// Gives how many parts are new.
    fn add(&mut self, what: What, detail: Detail, ns: u64, has_room: bool) -> usize {
        let before = self.parts.len();
        let mut key = (what, detail);
        if !has_room && !self.parts.contains_key(&key) {
            key.1 = without_details(key.1.state);
        }
        let sum = self.parts.entry(key).or_default();
        *sum = (sum.0 + ns, sum.1 + 1);
        self.parts.len() - before
    }
}

fn without_details(state: State) -> Detail {
    Detail {
        state,
        syscall: None,
        by: None,
        object: None,
        meanwhile: None,
        is_own_thread: false,
        serving: None,
        reason: Some(FURTHER),
    }
}

impl<'a> Paths<'a> {
    /// For the requests of a recording.
    pub fn new(recording: Recording<'a>, tells: Tells) -> Paths<'a> {
        let reader = Reader::new(recording.folder, recording.index, recording.names);
        Paths { recording, reader, tells }
    }

    /// By span, or why nothing is told.
    pub fn spent(&self, r: &Request) -> Result<Vec<Spent>, Untold> {
        if !r.is_complete() {
            return Err(Untold::Incomplete);
        }
        let reply = r.spans[0].callee.as_ref().or(r.spans[0].caller.as_ref()).map(|h| &h.exchange);
        if reply.is_none_or(|e| e.is(ExchangeFlag::Cut) || e.is(ExchangeFlag::Reset) || !e.is(ExchangeFlag::Replied)) {
            return Err(Untold::NoCompleteReply);
        }
        let mut spent: Vec<Spent> = r.spans.iter().map(|_| Spent::default()).collect();
        let mut longest: Vec<(u64, u32, Slice, Cause)> = Vec::new();
        let mut parts = 0;
        let path = critical_path(self.recording.folder, self.recording.index, r);
        self.reader.read_path(Some(r), |take| path.drain(take), &mut |s, what, detail| {
            let span = s.span.unwrap_or(0);
            let Some(of) = spent.get_mut(span as usize) else { return };
            *of.causes.entry(what.cause).or_default() += s.duration_ns();
            if self.tells.longest && what.cause != Cause::Cpu {
                longest.push((s.duration_ns(), span, s.clone(), what.cause));
                if longest.len() >= 2 * TOLD_MAX {
                    keep_longest(&mut longest);
                }
            }
            if self.tells.parts {
                parts += of.add(what, detail, s.duration_ns(), parts < PARTS_MAX);
            }
        });
        keep_longest(&mut longest);
        for (_, span, slice, cause) in longest {
            spent[span as usize].longest.push(self.waited(&slice, cause));
        }
        Ok(spent)
    }

    fn waited(&self, s: &Slice, cause: Cause) -> Happened {
        let names = self.recording.names;
        let view = waits::view(names, s);
        let mut a = Attributes::default();
        a.text("wakepath.cause", cause.name());
        a.text("wakepath.state", view.state);
        a.number("wakepath.duration_ns", i64::try_from(s.duration_ns()).unwrap_or(i64::MAX));
        a.text("wakepath.task", &view.task);
        a.text("wakepath.by", view.by.as_deref().unwrap_or(""));
        a.text("wakepath.object", view.object.as_deref().unwrap_or(""));
        a.text("wakepath.syscall", view.syscall.as_deref().unwrap_or(""));
        a.text("wakepath.evidence", &view.evidence);
        a.text("wakepath.not_known_because", view.reason.unwrap_or(""));
        Happened { name: "wait", at_ns: s.from.0, attributes: a.0 }
    }
}

fn keep_longest(longest: &mut Vec<(u64, u32, Slice, Cause)>) {
    longest.sort_by_key(|(ns, _, s, _)| (Reverse(*ns), s.from));
    longest.truncate(TOLD_MAX);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_without_room_keeps_its_time_and_cause() {
        let what = What { cause: Cause::Lock, service: "store".into(), host: "web".into() };
        let by = |name: &str| Detail { by: Some(name.into()), reason: None, ..without_details(State::Lock) };
        let mut spent = Spent::default();
        assert_eq!(spent.add(what.clone(), by("a"), 10, true), 1);
        assert_eq!(spent.add(what.clone(), by("a"), 5, false), 0, "it has a part already");
        assert_eq!(spent.add(what.clone(), by("b"), 3, false), 1);
        assert_eq!(spent.add(what.clone(), by("c"), 4, false), 0);
        let expected = [((what.clone(), by("a")), (15, 2)), ((what, without_details(State::Lock)), (7, 2))];
        assert_eq!(spent.parts, BTreeMap::from(expected));
    }
}
