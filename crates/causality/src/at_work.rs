//! What is at work on an endpoint: its exchanges, from their beginning until their place in a path is known.

use crate::evidence::Gap;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use wakepath_flows::Working;

/// From how many on they are found by a table.
const FEW: usize = 16;

/// How far it is known who asked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Caller {
    /// The call is not explained yet.
    Live,
    /// Call so much of this node.
    Linked(u64, u32),
    /// No request did.
    Root,
    /// It is not known which request did.
    Orphan(Gap),
}

/// How far it is known what was done for it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Server {
    /// It is not over.
    Live,
    /// This node.
    Given(u64),
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Caller(Caller),
    Server(Server),
}

/// Exchanges of an endpoint by their number in its flow: mostly there is one.
#[derive(Default)]
pub(crate) struct AtWork {
    few: SmallVec<[(u64, Stage); 1]>,
    /// Those beyond [`FEW`], by number and whether a caller's.
    more: Option<Box<FxHashMap<(u64, bool), Stage>>>,
}

impl Working for AtWork {
    fn is_none(&self) -> bool {
        self.few.is_empty() && self.more.as_ref().is_none_or(|m| m.is_empty())
    }
}

impl AtWork {
    fn at(&self, number: u64, is_caller: bool) -> Option<usize> {
        self.few.iter().position(|(n, s)| *n == number && matches!(s, Stage::Caller(_)) == is_caller)
    }

    fn get(&self, number: u64, is_caller: bool) -> Option<Stage> {
        let more = || self.more.as_ref()?.get(&(number, is_caller)).copied();
        self.at(number, is_caller).map(|i| self.few[i].1).or_else(more)
    }

    fn put(&mut self, number: u64, is_caller: bool, stage: Stage) {
        match self.at(number, is_caller) {
            Some(i) => self.few[i].1 = stage,
            None if self.few.len() < FEW && self.more.is_none() => self.few.push((number, stage)),
            None => {
                self.more.get_or_insert_default().insert((number, is_caller), stage);
            }
        }
    }

    fn remove(&mut self, number: u64, is_caller: bool) -> bool {
        if let Some(i) = self.at(number, is_caller) {
            self.few.swap_remove(i);
            return true;
        }
        let Some(more) = &mut self.more else { return false };
        let is_found = more.remove(&(number, is_caller)).is_some();
        if more.is_empty() {
            self.more = None;
        }
        is_found
    }

    /// Who asked in this exchange, where its caller is known here.
    pub(crate) fn caller(&self, number: u64) -> Option<Caller> {
        match self.get(number, true)? {
            Stage::Caller(caller) => Some(caller),
            Stage::Server(_) => None,
        }
    }

    /// What was done in it, where it is served here.
    pub(crate) fn server(&self, number: u64) -> Option<Server> {
        match self.get(number, false)? {
            Stage::Server(server) => Some(server),
            Stage::Caller(_) => None,
        }
    }

    pub(crate) fn put_caller(&mut self, number: u64, caller: Caller) {
        self.put(number, true, Stage::Caller(caller));
    }

    pub(crate) fn put_server(&mut self, number: u64, server: Server) {
        self.put(number, false, Stage::Server(server));
    }

    pub(crate) fn remove_caller(&mut self, number: u64) -> bool {
        self.remove(number, true)
    }

    pub(crate) fn remove_server(&mut self, number: u64) -> bool {
        self.remove(number, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn says_what_two_tables_would(steps in proptest::collection::vec((0u64..60, any::<bool>(), 0u8..3), 0..400)) {
            let (mut at_work, mut callers, mut servers) = (AtWork::default(), FxHashMap::default(), FxHashMap::default());
            for (i, (number, is_caller, what)) in steps.into_iter().enumerate() {
                let node = i as u64;
                match (what, is_caller) {
                    (0, true) => prop_assert_eq!(at_work.remove_caller(number), callers.remove(&number).is_some()),
                    (0, false) => prop_assert_eq!(at_work.remove_server(number), servers.remove(&number).is_some()),
                    (_, true) => {
                        at_work.put_caller(number, Caller::Linked(node, 0));
                        callers.insert(number, node);
                    }
                    (_, false) => {
                        at_work.put_server(number, Server::Given(node));
                        servers.insert(number, node);
                    }
                }
                prop_assert_eq!(at_work.is_none(), callers.is_empty() && servers.is_empty());
            }
            for number in 0..60 {
                let caller = at_work.caller(number).map(|c| matches!(c, Caller::Linked(n, 0) if Some(&n) == callers.get(&number)));
                let server = at_work.server(number).map(|s| matches!(s, Server::Given(n) if Some(&n) == servers.get(&number)));
                prop_assert_eq!(caller, callers.contains_key(&number).then_some(true));
                prop_assert_eq!(server, servers.contains_key(&number).then_some(true));
            }
        }
    }
}
