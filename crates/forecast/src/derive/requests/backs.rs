//! How long replies were on their way back to who asked.
//!
//! It is known of a reply for which its reader slept. On one host, a reply mostly wakes its reader before the call that
//! sends it returns: it took no time, and counts as such. If only those counted whose reader was woken later, only
//! replies that something held up would, and all others were taken for such.

use super::between;
use super::collect::Collected;
use super::services::Services;
use crate::derive::demand::{Demand, Slept};
use crate::derive::visits::median;
use rustc_hash::FxHashMap;
use wakepath_causality::path::Span;
use wakepath_graph::Index;
use wakepath_model::ids::CommonNs;

/// Between whom a way is: the asking and the serving service, by number; `None` = not watched.
type Ends = (Option<usize>, Option<usize>);

/// A reply that both ends saw.
#[derive(Clone, Copy, Debug)]
struct Back {
    /// Its server began to send it.
    began: CommonNs,
    /// Its server had sent it.
    sent: CommonNs,
    /// Who asked had read it.
    read: CommonNs,
    /// The reader's last sleep before: when it began, when it was woken; and whether that was for something to be read.
    slept: Option<(CommonNs, CommonNs)>,
    is_for_input: bool,
}

impl Back {
    /// Of a call. `None` where an end is not watched.
    fn of(index: &Index, s: &Span, slept: Slept) -> Option<Back> {
        let (caller, callee) = (s.caller.as_ref()?, s.callee.as_ref()?);
        let (asks, serves) = (|at| index.common(caller.host, at), |at| index.common(callee.host, at));
        let reply = &callee.exchange.reply;
        Some(Back {
            began: serves(reply.began),
            sent: serves(reply.ended),
            read: asks(caller.exchange.reply.ended),
            slept: slept.map(|s| (asks(s.blocked), asks(s.woken))),
            is_for_input: slept.is_some_and(|s| s.is_for_input),
        })
    }

    /// How long it was on its way (ns): from its sending until its reader, asleep, was woken. `None` where the reader did
    /// not sleep for it. Who has read the first part of a reply falls asleep for the rest after that was sent.
    fn known(&self) -> Option<u64> {
        let (blocked, woken) = self.slept?;
        let is_for_it = self.began <= woken && (blocked <= self.sent || self.is_for_input);
        is_for_it.then(|| between(self.sent, woken.min(self.read.max(self.sent))))
    }

    /// How long it was on its way (ns), where replies like it usually take so long: it was there when it was read.
    fn or_usual(&self, usual: u64) -> u64 {
        self.known().unwrap_or_else(|| usual.min(between(self.sent, self.read)))
    }
}

/// The usual ways back.
pub struct Backs(FxHashMap<Ends, u64>);

impl Backs {
    /// The median of the replies for which their readers slept, by who asked whom.
    pub fn read(index: &Index, collected: &Collected, services: &Services, demand: &Demand) -> Backs {
        let mut seen: FxHashMap<Ends, Vec<u64>> = FxHashMap::default();
        for (r, first) in collected.requests.iter().zip(&collected.first) {
            for (i, s) in r.spans.iter().enumerate() {
                let at = *first as usize + i;
                if let Some(ns) = Back::of(index, s, demand.slept[at]).and_then(|b| b.known()) {
                    let asker = s.parent.and_then(|p| services.of_span[(*first + p) as usize]);
                    seen.entry((asker, services.of_span[at])).or_default().push(ns);
                }
            }
        }
        Backs(seen.into_iter().map(|(ends, mut all)| (ends, median(&mut all))).collect())
    }

    /// How long the reply to a call was on its way (ns). `there_ns`: how long its request was, which counts where nobody
    /// slept for a reply between these ends.
    pub fn of(&self, index: &Index, s: &Span, slept: Slept, ends: Ends, there_ns: u64) -> u64 {
        let usual = self.0.get(&ends).copied().unwrap_or(there_ns);
        Back::of(index, s, slept).map_or(usual, |b| b.or_usual(usual))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reply that was being sent from 1,000 to 1,100, and read at a time.
    fn reply(slept: Option<(i64, i64)>, read: i64) -> Back {
        let slept = slept.map(|(blocked, woken)| (CommonNs(blocked), CommonNs(woken)));
        Back { began: CommonNs(1_000), sent: CommonNs(1_100), read: CommonNs(read), slept, is_for_input: false }
    }

    /// Nine of ten replies wake their reader while they are sent. The tenth, which was held up, is not the usual one.
    #[test]
    fn the_usual_way_back_is_not_that_of_the_few_that_were_held_up() {
        let woken_at_once = reply(Some((500, 1_050)), 1_200);
        let held_up = reply(Some((500, 41_100)), 41_200);
        let mut all: Vec<u64> = (0..9).map(|_| woken_at_once).chain([held_up]).filter_map(|b| b.known()).collect();
        assert_eq!(median(&mut all), 0);
        assert_eq!(held_up.known(), Some(40_000));
    }

    #[test]
    fn a_reply_was_not_on_its_way_for_longer_than_until_it_was_read() {
        assert_eq!(reply(None, 1_300).or_usual(40_000), 200);
        assert_eq!(reply(None, 90_000).or_usual(40_000), 40_000);
        assert_eq!(reply(Some((500, 1_400)), 1_500).or_usual(40_000), 300);
    }

    /// Who was woken before the reply was begun was woken for something else, and so was who slept for a lock after it was sent. Who
    /// slept then for something to read waited for the rest of a reply that was held back.
    #[test]
    fn who_slept_at_another_time_did_not_sleep_for_the_reply() {
        assert_eq!(reply(Some((500, 900)), 1_300).known(), None);
        let later = reply(Some((1_150, 41_100)), 41_300);
        assert_eq!(later.known(), None);
        assert_eq!(Back { is_for_input: true, ..later }.known(), Some(40_000));
    }
}
