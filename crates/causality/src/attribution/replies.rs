//! Which replies of a process begin with the same bytes, as their fingerprints tell.

use crate::exchange::{ExId, Side};
use crate::remembered::Remembered;
use wakepath_model::ids::MonoNs;

/// Whose replies begin with the same bytes.
#[derive(Clone, Copy, Default)]
pub(super) struct Whose {
    /// The first.
    pub(super) first: Option<ExId>,
    /// Others begin so, too.
    pub(super) is_shared: bool,
}

impl Whose {
    fn add(&mut self, x: ExId) {
        self.is_shared = self.first.is_some();
        self.first = self.first.or(Some(x));
    }
}

/// Replies that begin with the same bytes.
#[derive(Clone, Copy, Default)]
pub(super) struct Alike {
    /// To calls.
    pub(super) calls: Whose,
    /// To requests.
    pub(super) requests: Whose,
}

/// The replies to a process's calls, and its own to requests.
#[derive(Default)]
pub(super) struct Replies {
    of: Remembered<u64, Alike>,
    /// How many are under way of whose bytes nothing was read.
    unread: u32,
    /// When the last of those was over.
    unread_at: MonoNs,
}

impl Replies {
    /// A reply begins of whose bytes nothing is read yet.
    pub(super) fn begins_unread(&mut self) {
        self.unread += 1;
    }

    /// Such a one was read after all, or is over at a time.
    pub(super) fn is_read_or_over(&mut self, over: Option<MonoNs>) {
        self.unread = self.unread.saturating_sub(1);
        self.unread_at = self.unread_at.max(over.unwrap_or_default());
    }

    /// A reply begins with bytes of this fingerprint.
    pub(super) fn begins(&mut self, fingerprint: u64, side: Side, x: ExId) {
        let alike = self.of.at(fingerprint);
        (if side == Side::Client { &mut alike.calls } else { &mut alike.requests }).add(x);
    }

    /// Whose replies begin with bytes of this fingerprint.
    pub(super) fn alike(&self, fingerprint: u64) -> Alike {
        self.of.get(fingerprint).copied().unwrap_or_default()
    }

    /// Whether every reply that was under way since then was read.
    pub(super) fn were_read_since(&self, since: MonoNs) -> bool {
        self.unread == 0 && self.unread_at < since
    }
}
