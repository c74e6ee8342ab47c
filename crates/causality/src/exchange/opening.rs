//! How a client's connection came about: what its caller waited for before the first request on it could be sent.

use smallvec::SmallVec;
use wakepath_model::ids::{MonoNs, TaskId};
use wakepath_model::rows::OpRow;

/// Most answers of a handshake that are kept; what comes later is no more told apart from the caller's own time.
const ANSWERS_MAX: usize = 8;

/// From calling for a connection until the first request on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// In whose name it was called for.
    by: TaskId,
    /// From the call until it was there.
    connect: (MonoNs, MonoNs),
    /// Of a handshake (TLS, or a server's greeting): from what was sent last until the answer was read, in order.
    answers: SmallVec<[(MonoNs, MonoNs); 2]>,
    /// Since when the peer's next answer is waited for.
    since: MonoNs,
}

impl Opening {
    /// A task calls for a connection. Where the call does not wait, the connection is there later.
    pub(super) fn new(r: &OpRow) -> Opening {
        Opening { by: r.actor(), connect: (r.entry, r.at), answers: SmallVec::new(), since: r.at }
    }

    /// One that is over, of which these are the times.
    pub(crate) fn past(connect: (MonoNs, MonoNs), answers: SmallVec<[(MonoNs, MonoNs); 2]>) -> Opening {
        Opening { by: TaskId::UNKNOWN, connect, answers, since: MonoNs(0) }
    }

    /// It is there.
    pub(super) fn connected(&mut self, at: MonoNs) {
        self.connect.1 = self.connect.1.max(at);
        self.since = self.since.max(at);
    }

    /// Bytes moved, of which none is a request.
    pub(super) fn moved(&mut self, r: &OpRow, sent: bool) {
        if !sent && self.since.0 != 0 && self.answers.len() < ANSWERS_MAX {
            self.answers.push((self.since, r.at));
        }
        self.since = if sent { r.at } else { MonoNs(0) };
    }

    /// Whether this task called for it, so that it waited for it.
    pub(super) fn is_by(&self, task: TaskId) -> bool {
        self.by == task
    }

    /// From the call for the connection until it was there.
    pub fn connect(&self) -> (MonoNs, MonoNs) {
        self.connect
    }

    /// When the caller waited for the peer's answers in a handshake.
    pub fn answers(&self) -> &[(MonoNs, MonoNs)] {
        &self.answers
    }
}
