//! What is kept of a goroutine that takes items through channels.

use crate::exchange::ExId;
use wakepath_model::ids::MonoNs;

/// What a goroutine that takes items is at.
#[derive(Clone, Copy, Default)]
pub(super) struct Job {
    /// For which request it works, where it is at one.
    of: Option<ExId>,
    taken: MonoNs,
    /// When it was handed back; the beginning of time where it is at nothing that is known.
    pub(super) until: MonoNs,
    /// The one before: for which request, and since when.
    before: Option<(ExId, MonoNs, MonoNs)>,
}

impl Job {
    /// For which request it worked at a moment not long ago.
    pub(super) fn at(&self, at: MonoNs) -> Option<ExId> {
        if (self.taken..=self.until).contains(&at) {
            return self.of;
        }
        self.before.filter(|&(_, from, to)| (from..=to).contains(&at)).map(|(x, ..)| x)
    }

    /// It took an item, and works for a request with it until then, where that is known.
    pub(super) fn begin(&mut self, at: MonoNs, of: Option<ExId>, until: MonoNs) {
        let before = self.until.min(at);
        self.before = self.of.map(|x| (x, self.taken, before)).or(self.before);
        (self.of, self.taken, self.until) = (of, at, until);
    }
}
