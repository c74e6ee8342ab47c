//! Connections that did not come about. On a host's own addresses the refusal comes before the call that asked returns, from
//! elsewhere after it; a call that does not wait says "in progress" in either case. The kernel vantage then tells the end by
//! the flow's state, the library vantage by a second record of the call, when the program is told.

use rustc_hash::{FxHashMap, FxHashSet};
use wakepath_model::ids::{EndpointId, MonoNs, TaskId};
use wakepath_model::rows::{FlowStateRow, OpRow, Reset, TcpState};

/// Most refusals kept whose call was not seen yet: those of tasks that no vantage watches never are.
const EARLY_MAX: usize = 1024;

/// Linux's error numbers.
mod errno {
    pub const INTR: i32 = 4;
    pub const ISCONN: i32 = 106;
    pub const CONNREFUSED: i32 = 111;
    pub const ALREADY: i32 = 114;
    pub const INPROGRESS: i32 = 115;
    pub const CANCELED: i32 = 125;
}

/// What a call that connects comes to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Connect {
    /// A connection, or one under way.
    Begun,
    /// There will be none, for this reason (error number).
    Failed(i32),
    /// Nothing that was not told before.
    Told,
}

/// Connections under way.
#[derive(Default)]
pub(super) struct Refusals {
    /// Who asked, and since when.
    asked: FxHashMap<EndpointId, (TaskId, MonoNs)>,
    early: FxHashSet<EndpointId>,
    /// Failed, as was told: the program may still ask for it by another call.
    told: FxHashSet<EndpointId>,
}

/// Remembers a flow in a set that is bounded.
fn keep(set: &mut FxHashSet<EndpointId>, flow: EndpointId) {
    if set.len() >= EARLY_MAX {
        set.clear();
    }
    set.insert(flow);
}

impl Refusals {
    /// A call that connects returned.
    pub(super) fn connect(&mut self, r: &OpRow) -> Connect {
        if self.early.remove(&r.flow) {
            if r.result == -errno::INPROGRESS {
                keep(&mut self.told, r.flow);
            }
            return Connect::Failed(errno::CONNREFUSED);
        }
        match -r.result {
            errno::ISCONN | errno::ALREADY => Connect::Told,
            errno::INPROGRESS | errno::INTR => {
                self.asked.insert(r.flow, (r.actor(), r.entry));
                Connect::Begun
            }
            error if error > 0 => {
                self.asked.remove(&r.flow);
                if self.told.remove(&r.flow) { Connect::Told } else { Connect::Failed(error) }
            }
            // a call that did not wait, made again to learn how it ended
            _ if !self.asked.is_empty() && self.asked.remove(&r.flow).is_some() => Connect::Told,
            _ => Connect::Begun,
        }
    }

    /// A flow's state changed. Who had asked for it, and since when, where it did not come about and that is not known yet, and
    /// why: an error number, 0 = not known.
    pub(super) fn state(&mut self, r: &FlowStateRow) -> Option<(TaskId, MonoNs, i32)> {
        if r.new == TcpState::Close && r.old != TcpState::SynSent {
            self.asked.remove(&r.flow); // it had come about
        }
        if r.old != TcpState::SynSent {
            return None;
        }
        let asked = self.asked.get(&r.flow).copied();
        if r.reset != Reset::Received && r.new == TcpState::SynSent {
            return None;
        }
        self.asked.remove(&r.flow);
        if r.reset == Reset::Received {
            keep(if asked.is_some() { &mut self.told } else { &mut self.early }, r.flow);
            return asked.map(|(task, since)| (task, since, errno::CONNREFUSED));
        }
        let (task, since) = asked.filter(|_| r.new == TcpState::Close)?;
        keep(&mut self.told, r.flow);
        Some((task, since, if r.by_task == 1 { errno::CANCELED } else { 0 }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connect(flow: u64, result: i32) -> OpRow {
        OpRow { flow: EndpointId(flow), entry: MonoNs(7), task: TaskId(5), result, ..OpRow::default() }
    }

    fn state(flow: u64, old: u8, new: u8, reset: Reset) -> FlowStateRow {
        let [old, new] = [old, new].map(|n| TcpState::try_from(n).expect("a state of TCP"));
        FlowStateRow { flow: EndpointId(flow), old, new, reset, ..FlowStateRow::default() }
    }

    #[test]
    fn each_refusal_is_told_once_whichever_comes_first() {
        let mut r = Refusals::default();
        let (in_progress, refused) = (-errno::INPROGRESS, -errno::CONNREFUSED);
        // from elsewhere: the call has returned
        assert_eq!(r.connect(&connect(1, in_progress)), Connect::Begun);
        assert_eq!(r.state(&state(1, 2, 2, Reset::Received)), Some((TaskId(5), MonoNs(7), errno::CONNREFUSED)));
        assert_eq!(r.state(&state(1, 2, 7, Reset::None)), None);
        assert_eq!(r.connect(&connect(1, refused)), Connect::Told, "asked how it ended");
        // here: it has not, and says "in progress" or that it failed
        for result in [in_progress, refused] {
            assert_eq!(r.state(&state(2, 2, 2, Reset::Received)), None);
            assert_eq!(r.state(&state(2, 2, 7, Reset::None)), None);
            assert_eq!(r.connect(&connect(2, result)), Connect::Failed(errno::CONNREFUSED));
        }
        assert!(r.asked.is_empty() && r.early.is_empty());
    }

    #[test]
    fn a_connection_that_is_made_and_reset_later_was_not_refused() {
        let mut r = Refusals::default();
        assert_eq!(r.connect(&connect(1, -errno::INPROGRESS)), Connect::Begun);
        assert_eq!(r.state(&state(1, 2, 1, Reset::None)), None);
        assert_eq!(r.state(&state(1, 1, 1, Reset::Received)), None);
        assert!(r.asked.is_empty() && r.early.is_empty());
    }

    #[test]
    fn what_the_library_tells_by_a_second_record_is_the_end_of_the_first() {
        let mut r = Refusals::default();
        for error in [errno::CONNREFUSED, 110, 113, errno::CANCELED] {
            assert_eq!(r.connect(&connect(1, -errno::INPROGRESS)), Connect::Begun);
            assert_eq!(r.connect(&connect(1, -errno::ALREADY)), Connect::Told);
            assert_eq!(r.connect(&connect(1, -error)), Connect::Failed(error));
        }
        assert_eq!(r.connect(&connect(3, -errno::INPROGRESS)), Connect::Begun);
        assert_eq!(r.connect(&connect(3, 0)), Connect::Told);
        // one that came about is forgotten when its flow ends
        assert_eq!(r.connect(&connect(2, -errno::INPROGRESS)), Connect::Begun);
        assert_eq!(r.connect(&connect(2, -errno::ISCONN)), Connect::Told);
        assert_eq!(r.state(&state(2, 1, 7, Reset::None)), None);
        assert!(r.asked.is_empty() && r.told.is_empty());
    }

    #[test]
    fn given_up_is_another_thing_than_no_answer() {
        for (by_task, reason) in [(1, errno::CANCELED), (0, 0)] {
            let mut r = Refusals::default();
            assert_eq!(r.connect(&connect(1, -errno::INPROGRESS)), Connect::Begun);
            let end = FlowStateRow { by_task, ..state(1, 2, 7, Reset::None) };
            assert_eq!(r.state(&end), Some((TaskId(5), MonoNs(7), reason)));
        }
    }
}
