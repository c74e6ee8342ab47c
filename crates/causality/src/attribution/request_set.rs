//! Sets of open requests, and calls that each member may have made.
//!
//! A process may have thousands of requests open, and each call that any of them could have made would be in doubt at each of
//! them. So such a call is noted once, at the set. Who joins the set remembers where its list of calls ended then, and who
//! leaves it remembers the part of the list in between.

use crate::exchange::{ExId, Exchange};
use crate::process::ProcessId;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::rc::Rc;
use wakepath_model::ids::TaskId;

/// From how many members on calls are noted at the set, where options do not say otherwise.
pub(super) const SHARED_FROM: usize = 32;
/// So many calls are kept of a set in any case.
const LISTED: usize = 4_096;
/// Calls that share a word of [`Doubts::is_open`].
const WORD: u64 = 64;
/// Words that share a count of [`Doubts::open_in`].
const BLOCK: u64 = 64;

/// A few requests.
pub(super) type Requests = SmallVec<[ExId; 4]>;

/// Requests that could have made a call.
#[derive(Clone, Default)]
pub(super) struct Candidates {
    pub(super) few: Requests,
    /// All members of this set besides.
    pub(super) set: Option<SetId>,
    /// Somebody who is no open request could have, too: one that was answered, or the program itself, as it was seen to.
    pub(super) are_not_all: bool,
    /// It was a single request when the call was made.
    pub(super) is_one: bool,
}

impl Candidates {
    /// These requests and no other.
    pub(super) fn these(few: Requests) -> Candidates {
        Candidates { few, ..Candidates::default() }
    }

    /// All members of a set.
    pub(super) fn all_of(scope: SetId) -> Candidates {
        Candidates { set: Some(scope), ..Candidates::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.few.is_empty() && self.set.is_none()
    }

    /// The only one.
    pub(super) fn only(&self) -> Option<ExId> {
        match self.few[..] {
            [x] if self.set.is_none() => Some(x),
            _ => None,
        }
    }
}

/// Which set of open requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SetId {
    /// All of a process.
    Open(ProcessId),
    /// Those of a process of which nothing is outstanding.
    Free(ProcessId),
    /// All of its process that a task holds.
    Held(TaskId),
    /// Those of them of which nothing is outstanding.
    FreeHeld(TaskId),
}

impl SetId {
    /// How many kinds there are: a request is in at most one set of each.
    pub(super) const KINDS: usize = 4;

    pub(super) fn kind(self) -> usize {
        match self {
            SetId::Open(_) => 0,
            SetId::Free(_) => 1,
            SetId::Held(_) => 2,
            SetId::FreeHeld(_) => 3,
        }
    }
}

/// Where a request stands in a set.
#[derive(Clone, Copy)]
pub(super) struct Membership {
    at: u32,
    /// Calls from this one on may be its.
    pub(super) since: u64,
}

impl Default for Membership {
    fn default() -> Membership {
        Membership { at: u32::MAX, since: 0 }
    }
}

impl Membership {
    pub(super) fn is_taken(self) -> bool {
        self.at != u32::MAX
    }
}

/// A part of a set's list of calls: all of them may be of a request that was a member then.
#[derive(Clone, Copy)]
pub(super) struct CallRange {
    pub(super) scope: SetId,
    pub(super) from: u64,
    pub(super) to: u64,
}

/// A call that several requests could have made, as it was when it began.
pub(super) struct OpenCall {
    pub(super) call: ExId,
    pub(super) exchange: Exchange,
    /// How many others could have made it.
    pub(super) others: u32,
}

/// A set of requests.
#[derive(Default)]
pub(super) struct RequestSet {
    members: Vec<ExId>,
    pub(super) doubts: Doubts,
}

impl RequestSet {
    pub(super) fn members(&self) -> &[ExId] {
        &self.members
    }

    /// Whether it has neither members nor calls that one who left may have made.
    pub(super) fn is_unused(&self) -> bool {
        self.members.is_empty() && self.doubts.calls.is_empty()
    }

    pub(super) fn join(&mut self, x: ExId) -> Membership {
        self.members.push(x);
        Membership { at: self.members.len() as u32 - 1, since: self.doubts.end() }
    }

    /// Takes a member out; gives who sits in its place now.
    pub(super) fn leave(&mut self, membership: Membership) -> Option<ExId> {
        self.members.swap_remove(membership.at as usize);
        self.members.get(membership.at as usize).copied()
    }

    /// Who sits in another's place now.
    pub(super) fn moved(membership: &mut Membership, to: Membership) {
        membership.at = to.at;
    }
}

/// Calls that every member of a set may have made, counted on from the set's beginning.
#[derive(Default)]
pub(super) struct Doubts {
    /// Number of the first that is kept: a multiple of [`WORD`].
    first: u64,
    /// What is known of each; none of what is no call that can be shown, or is known to be somebody's.
    calls: VecDeque<Option<Rc<OpenCall>>>,
    /// Whether each may still be any member's.
    is_open: VecDeque<u64>,
    /// How many of each block may, so that nobody must look at all words.
    open_in: VecDeque<u32>,
    /// Where the last of those ended that may be another's since something was lost.
    lossy_to: u64,
}

impl Doubts {
    /// One past the last.
    pub(super) fn end(&self) -> u64 {
        self.first + self.calls.len() as u64
    }

    /// Any member may have made a call; gives its number.
    pub(super) fn add(&mut self, call: Option<Rc<OpenCall>>, is_lossy: bool) -> u64 {
        let number = self.end();
        if number.is_multiple_of(WORD) {
            self.is_open.push_back(0);
        }
        if number.is_multiple_of(WORD * BLOCK) {
            self.open_in.push_back(0);
        }
        if let (Some(word), Some(count)) = (self.is_open.back_mut(), self.open_in.back_mut()) {
            *word |= 1 << (number % WORD);
            *count += 1;
        }
        self.calls.push_back(call);
        if is_lossy {
            self.lossy_to = number + 1;
        }
        number
    }

    /// Whose it was is known.
    pub(super) fn resolve(&mut self, number: u64) {
        let Some(i) = number.checked_sub(self.first) else { return };
        if let (Some(call), Some(word)) = (self.calls.get_mut(i as usize), self.is_open.get_mut((i / WORD) as usize)) {
            *call = None;
            let bit = 1 << (i % WORD);
            let count = &mut self.open_in[(number / (WORD * BLOCK) - self.first / (WORD * BLOCK)) as usize];
            *count -= u32::from(*word & bit != 0);
            *word &= !bit;
        }
    }

    /// Whether something was lost when one of those from a number on was made.
    pub(super) fn is_lossy_since(&self, from: u64) -> bool {
        from < self.lossy_to
    }

    /// How many from one to another are of no request in particular, and the first few of them.
    pub(super) fn count(&self, from: u64, to: u64, most: usize) -> (u32, Vec<Rc<OpenCall>>) {
        let (mut count, mut shown) = (0, Vec::new());
        let (from, to) = (from.max(self.first) - self.first, to.max(self.first) - self.first);
        if from >= to {
            return (0, shown);
        }
        let first_word = self.first / WORD;
        let (mut next, last) = (from / WORD, (to - 1) / WORD);
        while next <= last {
            let i = next;
            let block = (first_word + i) / BLOCK;
            let is_whole = (first_word + i).is_multiple_of(BLOCK) && i * WORD >= from && (i + BLOCK) * WORD <= to;
            let open = self.open_in.get((block - first_word / BLOCK) as usize).copied().unwrap_or_default();
            if is_whole && (open == 0 || shown.len() >= most) {
                count += open;
                next += BLOCK;
                continue;
            }
            next += 1;
            let below = |n: u64| if n >= WORD { u64::MAX } else { (1 << n) - 1 };
            let wanted = below(to - i * WORD) & !below(from.saturating_sub(i * WORD));
            let mut word = self.is_open.get(i as usize).copied().unwrap_or_default() & wanted;
            count += word.count_ones();
            while word != 0 && shown.len() < most {
                let call = i * WORD + u64::from(word.trailing_zeros());
                shown.extend(self.calls.get(call as usize).cloned().flatten());
                word &= word - 1;
            }
        }
        (count, shown)
    }

    /// Up to where calls are to be counted at each request by itself, so that the list stays short: shorter than a few times
    /// the number of requests that are to be looked at for that.
    pub(super) fn is_due_to(&self, requests: usize) -> Option<u64> {
        let most = LISTED.max(requests);
        (self.calls.len() > 2 * most).then_some(self.first + (most as u64 / WORD) * WORD)
    }

    /// Forgets calls up to one whose number is a multiple of [`WORD`].
    pub(super) fn forget(&mut self, to: u64) {
        let count = to - self.first;
        self.calls.drain(..count as usize);
        let block_of = |word: u64| word / BLOCK;
        let (first_word, first_block) = (self.first / WORD, block_of(self.first / WORD));
        for (i, word) in self.is_open.drain(..(count / WORD) as usize).enumerate() {
            self.open_in[(block_of(first_word + i as u64) - first_block) as usize] -= word.count_ones();
        }
        let gone = (block_of(to / WORD) - first_block).min(self.open_in.len() as u64);
        self.open_in.drain(..gone as usize);
        self.first = to;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn counts_what_a_plain_list_would(
            added in 0u64..20_000, resolved in proptest::collection::vec(0u64..20_000, 0..300), from in 0u64..20_100,
            length in 0u64..20_100, forgotten in proptest::collection::vec(0u64..200, 0..3), more in 0u64..5_000,
            solved in 0u64..20_000,
        ) {
            let (mut doubts, mut plain) = (Doubts::default(), Vec::new());
            let add = |doubts: &mut Doubts, plain: &mut Vec<bool>, count: u64| {
                for _ in 0..count {
                    assert_eq!(doubts.add(None, false), plain.len() as u64);
                    plain.push(true);
                }
            };
            add(&mut doubts, &mut plain, added);
            // some here and there, and long parts of which all are
            for i in resolved.into_iter().chain(0..solved).filter(|&i| i < added) {
                doubts.resolve(i);
                plain[i as usize] = false;
            }
            let mut first = 0;
            for words in forgotten {
                first = (first + words * WORD).min(plain.len() as u64 / WORD * WORD);
                doubts.forget(first);
                add(&mut doubts, &mut plain, more);
            }
            let to = (from + length).min(plain.len() as u64);
            let expected = (from.max(first)..to).filter(|&i| plain[i as usize]).count();
            prop_assert_eq!(doubts.count(from, to, 8).0 as usize, expected);
        }
    }
}
