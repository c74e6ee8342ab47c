//! Whether a process answers only with what its calls were answered with: a proxy, and not a service that makes answers, or keeps them from
//! before the recording.

use crate::exchange::{Said, Side};
use crate::remembered::Remembered;

/// Fingerprints of the answers to a process's calls. A cache that keeps one for longer than they are remembered makes an exception.
#[derive(Default)]
pub(super) struct Answers(Remembered<u64, ()>);

impl Answers {
    /// A reply of the process, or to a call of it, begins with bytes of a known fingerprint. Where it answers a request with success: whether
    /// that was passed on. Other replies may be the proxy's own.
    pub(super) fn says(&mut self, side: Side, said: Said) -> Option<bool> {
        const NO_SUCCESS: u16 = 300;
        if side == Side::Client {
            self.0.at(said.fingerprint);
        }
        (side == Side::Server && said.status < NO_SUCCESS).then(|| self.0.get(said.fingerprint).is_some())
    }
}
