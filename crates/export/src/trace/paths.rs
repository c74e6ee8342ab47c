//! What the critical path of a request says of its spans.

use super::Happened;
use super::attributes::Attributes;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use wakepath_analysis::causes::Cause;
use wakepath_analysis::critical_path::critical_path;
use wakepath_analysis::slices::Slice;
use wakepath_analysis::why::{Reader, Recording};
use wakepath_causality::exchange::ExchangeFlag;
use wakepath_causality::path::Request;
use wakepath_present::waits;

/// Most parts of a request's critical path that are told one by one: the longest.
const TOLD_MAX: usize = 64;

/// Walks critical paths.
pub struct Paths<'a> {
    recording: Recording<'a>,
    reader: Reader<'a>,
    /// The longest waits are told one by one, and not only their sums.
    tells_each: bool,
}

/// What a span's part of the critical path went to.
#[derive(Default)]
pub struct Spent {
    /// By cause, how long (ns).
    pub causes: BTreeMap<Cause, u64>,
    /// The longest waits of the request that lie in this span.
    pub longest: Vec<Happened>,
}

impl<'a> Paths<'a> {
    /// For the requests of a recording. With `tells_each`, the longest waits are told one by one beside their sums: some 30 kB
    /// more a request.
    pub fn new(recording: Recording<'a>, tells_each: bool) -> Paths<'a> {
        let reader = Reader::new(recording.folder, recording.index, recording.names);
        Paths { recording, reader, tells_each }
    }

    /// By span. Nothing where the path is incomplete or no whole reply came: what is not known would look like something else.
    pub fn spent(&self, r: &Request) -> Vec<Spent> {
        let reply = r.spans[0].callee.as_ref().or(r.spans[0].caller.as_ref()).map(|h| &h.exchange);
        if !r.is_complete()
            || reply
                .is_none_or(|e| e.is(ExchangeFlag::Cut) || e.is(ExchangeFlag::Reset) || !e.is(ExchangeFlag::Replied))
        {
            return Vec::new();
        }
        let mut spent: Vec<Spent> = r.spans.iter().map(|_| Spent::default()).collect();
        let mut longest: Vec<(u64, u32, Slice, Cause)> = Vec::new();
        let path = critical_path(self.recording.folder, self.recording.index, r);
        self.reader.read_path(Some(r), |take| path.drain(take), &mut |s, what, _| {
            let span = s.span.unwrap_or(0);
            let Some(of) = spent.get_mut(span as usize) else { return };
            *of.causes.entry(what.cause).or_default() += s.duration_ns();
            if self.tells_each && what.cause != Cause::Cpu {
                longest.push((s.duration_ns(), span, s.clone(), what.cause));
                if longest.len() >= 2 * TOLD_MAX {
                    keep_longest(&mut longest);
                }
            }
        });
        keep_longest(&mut longest);
        for (_, span, slice, cause) in longest {
            spent[span as usize].longest.push(self.waited(&slice, cause));
        }
        spent
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
