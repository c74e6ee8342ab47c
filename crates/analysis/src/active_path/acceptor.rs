//! Waits of a task that only accepts connections: each of them is for the next connection.

use super::locks::is_poll;
use super::{Frame, Walk};
use wakepath_model::rows::{EndedBy, OpKind, OpRow, WaitRow};

/// Waits looked at before the one that the connection ended.
const AGAIN_MAX: usize = 4096;
/// Operations by which a task is known to do nothing but accept.
const ACCEPTS: usize = 4;

impl Walk<'_> {
    /// A wait of a task that only accepts, before the one that a connection ended: goes on with who connected; whether it is one.
    pub(super) fn tell_acceptor(&mut self, f: Frame, w: &WaitRow, syscall: Option<u16>) -> bool {
        let accepted = self.accepts_at_last(&f, w);
        if let Some(accepted) = &accepted {
            self.network(f, accepted, syscall);
        }
        accepted.is_some()
    }

    /// The later wait that a connection ended, where a task that only accepts waited again and did nothing in between: that it
    /// looked whether it is to end, or collected a child, is no cause. The connection had not come before, or it had not
    /// waited again. An event loop does other things between its waits, and a request's own task may be one.
    fn accepts_at_last(&self, f: &Frame, w: &WaitRow) -> Option<WaitRow> {
        if !is_poll(w) || w.cause == EndedBy::Preempted || f.depth == self.base_depth {
            return None;
        }
        let is_accept = |o: &OpRow| o.kind == OpKind::Accept;
        let accepted = self.index.operation_from(f.host, w.task, w.at).filter(is_accept)?;
        let until = self.index.timeline().local(f.host, self.at);
        if !self.index.operations_back(f.host, w.task, until).take(ACCEPTS).all(|o| is_accept(&o)) {
            return None;
        }
        let until = self.index.waits_from(f.host, w.task, accepted.entry);
        let later = (f.place.saturating_add(1)..until).rev().take(AGAIN_MAX);
        let mut later = later.map_while(|place| self.index.wait(f.host, w.task, place));
        let last = later.find(|l| l.cause != EndedBy::Preempted)?;
        (is_poll(&last) && matches!(last.cause, EndedBy::Socket | EndedBy::Net)).then_some(last)
    }
}
