//! Connections that nobody took. On a host's own addresses the refusal comes before the call that asked returns, from
//! elsewhere after it; a call that does not wait says "in progress" in either case.

use rustc_hash::{FxHashMap, FxHashSet};
use wakepath_model::ids::{EndpointId, TaskId};
use wakepath_model::rows::{FlowStateRow, OpRow};

/// -EINPROGRESS.
const IN_PROGRESS: i32 = -115;
const TCP_SYN_SENT: u8 = 2;
const RESET_RECEIVED: u8 = 1;
/// Most refusals kept whose call was not seen yet: those of tasks that nobody watches never are.
const EARLY_MAX: usize = 1024;

/// Connections under way.
#[derive(Default)]
pub(super) struct Refusals {
    asked: FxHashMap<EndpointId, TaskId>,
    early: FxHashSet<EndpointId>,
}

impl Refusals {
    /// A call that connects returned: whether there will be no connection.
    pub(super) fn connect(&mut self, r: &OpRow) -> bool {
        if self.early.remove(&r.flow) || r.result < 0 && r.result != IN_PROGRESS {
            return true;
        }
        if r.result == IN_PROGRESS {
            self.asked.insert(r.flow, r.task);
        }
        false
    }

    /// A flow's state changed. Who had asked for it, where it was refused and that is not known yet.
    pub(super) fn state(&mut self, r: &FlowStateRow) -> Option<TaskId> {
        if r.old != TCP_SYN_SENT {
            return None;
        }
        if r.reset == RESET_RECEIVED {
            let asked = self.asked.remove(&r.flow);
            if asked.is_none() {
                if self.early.len() >= EARLY_MAX {
                    self.early.clear();
                }
                self.early.insert(r.flow);
            }
            return asked;
        }
        if r.new != TCP_SYN_SENT {
            self.asked.remove(&r.flow);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable as _;

    fn connect(flow: u64, result: i32) -> OpRow {
        OpRow { flow: EndpointId(flow), task: TaskId(5), result, ..OpRow::zeroed() }
    }

    fn state(flow: u64, old: u8, new: u8, reset: u8) -> FlowStateRow {
        FlowStateRow { flow: EndpointId(flow), old, new, reset, ..FlowStateRow::zeroed() }
    }

    #[test]
    fn each_refusal_is_told_once_whichever_comes_first() {
        let mut r = Refusals::default();
        // from elsewhere: the call has returned
        assert!(!r.connect(&connect(1, IN_PROGRESS)));
        assert_eq!(r.state(&state(1, 2, 2, 1)), Some(TaskId(5)));
        assert_eq!(r.state(&state(1, 2, 7, 0)), None);
        // here: it has not, and says "in progress" or that it failed
        for result in [IN_PROGRESS, -111] {
            assert_eq!(r.state(&state(2, 2, 2, 1)), None);
            assert_eq!(r.state(&state(2, 2, 7, 0)), None);
            assert!(r.connect(&connect(2, result)));
        }
        assert!(r.asked.is_empty() && r.early.is_empty());
    }

    #[test]
    fn a_connection_that_is_made_and_reset_later_was_not_refused() {
        let mut r = Refusals::default();
        assert!(!r.connect(&connect(1, IN_PROGRESS)));
        assert_eq!(r.state(&state(1, 2, 1, 0)), None);
        assert_eq!(r.state(&state(1, 1, 1, 1)), None);
        assert!(r.asked.is_empty() && r.early.is_empty());
    }
}
