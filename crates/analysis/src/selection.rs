//! Which requests a question is about: of a kind, begun in a time, as long as that.

use crate::names::Names;
use crate::requests::kind_of;
use crate::spans::{Timed, lay_out};
use crate::why::KindName;
use wakepath_causality::path::Request;
use wakepath_model::clock::Timeline;
use wakepath_model::ids::CommonNs;

/// Requests, selected by all of these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Of this kind, as `wakepath requests` prints it.
    pub kind: Option<String>,
    /// Begun here or later.
    pub from: Option<CommonNs>,
    /// Begun before.
    pub to: Option<CommonNs>,
    /// As long as this (ns) or longer.
    pub at_least_ns: Option<u64>,
    /// Shorter than this (ns).
    pub shorter_than_ns: Option<u64>,
}

/// A request with what it is selected by.
pub struct Placed {
    /// Entry service, and what was asked.
    pub kind: KindName,
    /// When it began.
    pub began: CommonNs,
    /// How long it took (ns).
    pub duration_ns: u64,
    /// Its spans, parents before children.
    pub timed: Vec<Timed>,
}

impl Placed {
    /// `None` for what is no request: a message whose caller is watched but whose request is not known.
    pub fn new(r: &Request, names: &Names<'_>, line: &Timeline) -> Option<Placed> {
        Placed::or_orphan(r, names, line).filter(|_| r.orphan.is_none())
    }

    /// The same of a message whose request is not known, too.
    pub fn or_orphan(r: &Request, names: &Names<'_>, line: &Timeline) -> Option<Placed> {
        let timed = lay_out(r);
        let root = timed.first()?;
        let (began, duration_ns) = (line.common(root.host, root.start), root.duration_ns());
        Some(Placed { kind: kind_of(r, names), began, duration_ns, timed })
    }
}

impl Selection {
    /// Whether it asks for a kind.
    pub fn has_kind(&self, kind: &KindName) -> bool {
        self.kind.as_ref().is_none_or(|k| kind.1 == *k || format!("{} {}", kind.0, kind.1) == *k)
    }

    /// Whether it asks for a request.
    pub fn has(&self, r: &Placed) -> bool {
        self.from.is_none_or(|from| r.began >= from)
            && self.to.is_none_or(|to| r.began < to)
            && self.at_least_ns.is_none_or(|least| r.duration_ns >= least)
            && self.shorter_than_ns.is_none_or(|most| r.duration_ns < most)
            && self.has_kind(&r.kind)
    }
}
