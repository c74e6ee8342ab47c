//! What is at work on an endpoint: its exchanges, from their beginning until their place in a path is known.

use crate::evidence::Gap;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use wakepath_flows::Working;

/// From how many on they are found by a table.
const FEW: usize = 16;

/// How far it is known who asked.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Caller {
    /// The call is not explained yet.
    #[default]
    Live,
    /// Call so much of this node.
    Linked(u64, u32),
    /// No request did.
    Root,
    /// It is not known which request did.
    Orphan(Gap),
}

/// How far it is known what was done for it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Server {
    /// It is not over.
    #[default]
    Live,
    /// This node.
    Given(u64),
}

/// Exchanges of an endpoint, by what is known of those that it asks, and of those that it serves.
#[derive(Default)]
pub(crate) struct AtWork {
    pub(crate) callers: ByNumber<Caller>,
    pub(crate) servers: ByNumber<Server>,
}

impl Working for AtWork {
    fn is_none(&self) -> bool {
        self.callers.is_empty() && self.servers.is_empty()
    }
}

/// Something of exchanges by their number in a flow: mostly there is one.
#[derive(Default)]
pub(crate) struct ByNumber<T> {
    few: SmallVec<[(u64, T); 1]>,
    /// Those beyond [`FEW`].
    more: Option<Box<FxHashMap<u64, T>>>,
}

impl<T: Copy> ByNumber<T> {
    fn is_empty(&self) -> bool {
        self.few.is_empty() && self.more.as_ref().is_none_or(|m| m.is_empty())
    }

    fn at(&self, number: u64) -> Option<usize> {
        self.few.iter().position(|(n, _)| *n == number)
    }

    pub(crate) fn get(&self, number: u64) -> Option<T> {
        let more = || self.more.as_ref()?.get(&number).copied();
        self.at(number).map(|i| self.few[i].1).or_else(more)
    }

    pub(crate) fn put(&mut self, number: u64, value: T) {
        match self.at(number) {
            Some(i) => self.few[i].1 = value,
            None if self.few.len() < FEW && self.more.is_none() => self.few.push((number, value)),
            None => _ = self.more.get_or_insert_with(Box::default).insert(number, value),
        }
    }

    pub(crate) fn remove(&mut self, number: u64) -> bool {
        if let Some(i) = self.at(number) {
            self.few.swap_remove(i);
            return true;
        }
        let Some(more) = &mut self.more else { return false };
        let is_found = more.remove(&number).is_some();
        if more.is_empty() {
            self.more = None;
        }
        is_found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn says_what_a_table_would(steps in proptest::collection::vec((0u64..60, 0u8..3), 0..400)) {
            let (mut by_number, mut table) = (ByNumber::default(), FxHashMap::default());
            for (i, (number, what)) in steps.into_iter().enumerate() {
                if what == 0 {
                    prop_assert_eq!(by_number.remove(number), table.remove(&number).is_some());
                } else {
                    by_number.put(number, i);
                    table.insert(number, i);
                }
                prop_assert_eq!(by_number.is_empty(), table.is_empty());
            }
            for number in 0..60 {
                prop_assert_eq!(by_number.get(number), table.get(&number).copied());
            }
        }
    }
}
