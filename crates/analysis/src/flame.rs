//! Where the critical paths of many requests went: their time by host, service, program and cause, for a flame graph. Of two
//! selections the same, side by side.

use crate::causes::Cause;
use crate::critical_path::critical_path;
use crate::selection::{Known, Placed, Selection};
use crate::why::{LeftOut, Reader, Recording};
use std::collections::BTreeMap;
use wakepath_causality::exchange::ExchangeFlag;
use wakepath_causality::path::Request;

/// Most stacks told apart; those that come later are joined by host and service.
const STACKS_MAX: usize = 20_000;
/// What the program, and who was waited for, of joined stacks is called.
const OTHER: &str = "(other)";

/// Where time was spent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stack {
    /// On which host.
    pub host: String,
    /// In the time of which service's part of the request.
    pub service: String,
    /// By which program.
    pub program: String,
    /// On what.
    pub cause: Cause,
    /// Who held, sent or was waited for, or what; empty where nothing of it is known.
    pub by: String,
}

/// How much time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Time {
    /// All paths together (ns).
    pub ns: u128,
    /// In so many slices.
    pub slices: u64,
}

/// The time of a selection of requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flame {
    /// By stack. The sum is `elapsed_ns`.
    pub stacks: BTreeMap<Stack, Time>,
    /// Requests that were looked at.
    pub requests: u64,
    /// Requests in the selection that were not, and why.
    pub left_out: LeftOut,
    /// Length of all paths together (ns).
    pub elapsed_ns: u128,
}

impl Flame {
    fn add(&mut self, stack: Stack, ns: u64) {
        let is_new = self.stacks.len() >= STACKS_MAX && !self.stacks.contains_key(&stack);
        let stack = if is_new { Stack { program: OTHER.into(), by: String::new(), ..stack } } else { stack };
        let time = self.stacks.entry(stack).or_default();
        time.ns += u128::from(ns);
        time.slices += 1;
        self.elapsed_ns += u128::from(ns);
    }
}

/// The requests of a selection, and all others. Reads the folder once; memory: the stacks.
pub fn flame(recording: &Recording<'_>, selection: &Selection, wants_others: bool) -> (Flame, Flame) {
    let Recording { folder, index, names } = *recording;
    let reader = Reader::new(folder, index, names);
    let known = Known::new(folder, names, Some(index), selection.asks_for_causes());
    let line = folder.timeline();
    let (mut selected, mut others) = (Flame::default(), Flame::default());
    let out = |r: Request| {
        let Some(placed) = Placed::new(&r, names, &line) else { return };
        let flame = match selection.has(&r, &placed, &known) {
            true => &mut selected,
            false if wants_others => &mut others,
            false => return,
        };
        let reply = r.spans[0].callee.as_ref().or(r.spans[0].caller.as_ref()).map(|h| &h.exchange);
        if reply.is_none_or(|e| e.is(ExchangeFlag::Cut) || e.is(ExchangeFlag::Reset) || !e.is(ExchangeFlag::Replied)) {
            flame.left_out.unanswered += 1;
        } else if !r.is_complete() {
            flame.left_out.incomplete += 1;
        } else {
            flame.requests += 1;
            let services: Vec<String> = r.spans.iter().map(|s| names.service(s)).collect();
            let path = critical_path(folder, index, &r);
            reader.read_path(Some(&r), |take| path.drain(take), &mut |s, what, detail| {
                let service = s.span.and_then(|i| services.get(i as usize)).cloned();
                let stack = Stack {
                    host: names.host(s.host).to_owned(),
                    service: service.unwrap_or(what.service),
                    program: names.program(s.host, s.task).to_owned(),
                    cause: what.cause,
                    by: detail.by.or(detail.object).unwrap_or_default(),
                };
                flame.add(stack, s.duration_ns());
            });
        }
    };
    wakepath_causality::reconstruct(folder, out, |_, _, _, _| {});
    (selected, others)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_joined_and_counted() {
        let mut flame = Flame::default();
        for n in 0..STACKS_MAX + 10 {
            let stack = Stack {
                host: "h".into(),
                service: "s".into(),
                program: format!("p{n}"),
                cause: Cause::Cpu,
                by: String::new(),
            };
            flame.add(stack, 3);
        }
        assert_eq!(flame.stacks.len(), STACKS_MAX + 1);
        let joined = flame.stacks.iter().find(|(s, _)| s.program == OTHER).expect("there are some").1;
        assert_eq!((joined.ns, joined.slices), (30, 10));
        assert_eq!(flame.elapsed_ns, flame.stacks.values().map(|t| t.ns).sum());
    }
}
