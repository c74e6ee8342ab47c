//! Which requests bear the identifiers that services hand on with their calls.

use crate::conditions::holds;
use crate::exchange::{Content, ExId};
use crate::remembered::Remembered;
use wakepath_model::rows::WitnessKind;

/// An identifier in a message's head: its kind and hash.
type Identifier = (WitnessKind, u64);

/// What a message says that services hand on with the calls that they make for it.
#[derive(Clone, Copy, Default)]
pub(super) struct Identifiers([Option<Identifier>; 2]);

impl Identifiers {
    /// Those that a message bears. A `traceparent` has two: the span, which proxies pass on, and the trace, which instrumented programs
    /// keep.
    pub(super) fn of(content: &Content) -> Identifiers {
        let span = Some(content.witness).filter(|(kind, _)| *kind == WitnessKind::Traceparent);
        Identifiers([span, Some((WitnessKind::XRequestId, content.identifier)).filter(|(_, hash)| *hash != 0)])
    }

    pub(super) fn each(self) -> impl Iterator<Item = Identifier> {
        self.0.into_iter().flatten()
    }
}

/// Who bears an identifier.
#[derive(Default)]
struct Borne {
    is_seen: bool,
    /// The one that does; none where several did.
    by: Option<ExId>,
}

/// Which requests of a process bear which identifiers.
#[derive(Default)]
pub(super) struct Bearers {
    of: Remembered<Identifier, Borne>,
    /// Open requests of which no head was read: they may bear any.
    unread: Vec<ExId>,
}

impl Bearers {
    /// A request came that bears this identifier.
    pub(super) fn came(&mut self, id: Identifier, x: ExId) {
        let borne = self.of.at(id);
        let is_new = !std::mem::replace(&mut borne.is_seen, true);
        borne.by = holds("witness.borne_by_one", is_new).then_some(x);
    }

    /// A request came whose protocol is not known: encrypted, say.
    pub(super) fn came_unread(&mut self, x: ExId) {
        self.unread.push(x);
    }

    /// A request is over.
    pub(super) fn left(&mut self, x: ExId) {
        self.unread.retain(|o| *o != x);
    }

    /// The one request that was seen to bear them, as far as each was ever borne by one alone.
    pub(super) fn bearer(&self, ids: Identifiers) -> Option<ExId> {
        let mut bearers = ids.each().filter_map(|id| self.of.get(id)?.by);
        let first = bearers.next()?;
        let is_one = bearers.all(|other| holds("witness.all_of_one", other == first));
        (is_one && holds("witness.all_were_read", self.unread.is_empty())).then_some(first)
    }
}
