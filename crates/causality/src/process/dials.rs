//! Connections that processes make and have not used yet.

use super::ProcessId;
use crate::exchange::ExId;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use wakepath_model::ids::{EndpointId, MonoNs, StrId, TaskId};

/// A connection that is made and not used yet.
#[derive(Debug, Default)]
pub(crate) struct Dial {
    /// The request that it is made for, where known.
    pub(crate) of: Option<ExId>,
    /// Who makes it.
    pub(crate) by: TaskId,
    pub(crate) process: ProcessId,
    /// The process made another meanwhile.
    pub(crate) is_beside_another: bool,
    /// Whoever was just accepted had it made, but for habit.
    pub(crate) is_by_habit: bool,
    /// When it was begun, and how many calls of the request were known then.
    pub(crate) since: MonoNs,
    pub(crate) calls_before: usize,
    /// In which protocols a call was made meanwhile that may be the request's and may be another's.
    pub(crate) doubted: SmallVec<[StrId; 2]>,
    /// Where it stands among those that the process makes; [`Dials`] keeps that.
    pub(crate) at: usize,
}

/// All of a host.
#[derive(Debug, Default)]
pub(crate) struct Dials {
    under_way: FxHashMap<EndpointId, Dial>,
    of_process: FxHashMap<ProcessId, Vec<EndpointId>>,
}

impl Dials {
    /// A connection is begun. False where it was already: then the first attempt stands.
    pub(crate) fn begin(&mut self, flow: EndpointId, dial: Dial) -> bool {
        if self.under_way.contains_key(&flow) {
            return false;
        }
        let beside = self.of_process.entry(dial.process).or_default();
        if let [only] = beside[..]
            && let Some(dial) = self.under_way.get_mut(&only)
        {
            // where there are more, each of them was made beside another
            dial.is_beside_another = true;
        }
        let (at, is_beside_another) = (beside.len(), !beside.is_empty());
        beside.push(flow);
        self.under_way.insert(flow, Dial { at, is_beside_another, ..dial });
        true
    }

    /// A connection is used for the first time, or gone.
    pub(crate) fn end(&mut self, flow: EndpointId) -> Option<Dial> {
        let dial = self.under_way.remove(&flow)?;
        let beside = self.of_process.get_mut(&dial.process)?;
        beside.swap_remove(dial.at);
        match beside.get(dial.at) {
            Some(moved) => self.under_way.get_mut(moved).into_iter().for_each(|moved| moved.at = dial.at),
            None if beside.is_empty() => drop(self.of_process.remove(&dial.process)),
            None => {}
        }
        Some(dial)
    }

    pub(crate) fn get(&self, flow: EndpointId) -> Option<&Dial> {
        self.under_way.get(&flow)
    }

    /// How many connections a process is making.
    pub(crate) fn count(&self, process: ProcessId) -> usize {
        self.of_process.get(&process).map_or(0, Vec::len)
    }

    /// The one that a process is making, where it makes no other.
    pub(crate) fn only(&self, process: ProcessId) -> Option<EndpointId> {
        match self.of_process.get(&process)?[..] {
            [only] => Some(only),
            _ => None,
        }
    }

    /// A call that may be this connection's request's was made in a protocol.
    pub(crate) fn doubt(&mut self, flow: EndpointId, protocol: StrId) {
        if let Some(dial) = self.under_way.get_mut(&flow) {
            dial.doubted.push(protocol);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_knows_whether_it_was_alone_and_how_many_are_left() {
        let (mut dials, process) = (Dials::default(), ProcessId::led_by(TaskId(4)));
        let flow = EndpointId;
        let dial = |by: u32| Dial { process, by: TaskId(by), ..Dial::default() };
        assert!(dials.begin(flow(1), dial(1)));
        assert!(!dials.begin(flow(1), dial(2)), "tried again");
        assert_eq!(dials.only(process), Some(flow(1)));
        assert!(dials.begin(flow(2), dial(2)) && dials.begin(flow(3), dial(3)));
        assert_eq!((dials.count(process), dials.only(process)), (3, None));
        let first = dials.end(flow(1)).expect("it was begun");
        assert_eq!((first.by, first.is_beside_another), (TaskId(1), true));
        assert!(dials.end(flow(3)).is_some_and(|d| d.is_beside_another));
        assert_eq!(dials.only(process), Some(flow(2)));
        assert!(dials.end(flow(2)).is_some() && dials.end(flow(2)).is_none());
        assert_eq!((dials.count(process), dials.of_process.len()), (0, 0));
        assert!(dials.begin(flow(5), dial(5)) && !dials.end(flow(5)).expect("it was begun").is_beside_another);
    }
}
