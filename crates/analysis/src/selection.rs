//! Which requests a question is about: of a kind, begun in a time, as long as that, passing through a service.

use crate::attributes::{Attribute, visit};
use crate::names::Names;
use crate::pattern::is_meant;
use crate::requests::kind_of;
use crate::spans::{Timed, lay_out};
use crate::why::{KindName, Reader, Recording, largest};
use wakepath_causality::path::{Request, Span};
use wakepath_graph::Index;
use wakepath_model::clock::Timeline;
use wakepath_model::folder::Folder;
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
    /// Known to pass through this service, as `wakepath requests --map` prints it, with or without its port; `*` stands for anything.
    pub service: Option<String>,
    /// In which that service is known to call this one.
    pub calls: Option<String>,
    /// That have each of these values; `*` stands for anything.
    pub with: Vec<(Attribute, String)>,
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

    /// Whether it asks for causes: only the index of waits tells them.
    pub fn asks_for_causes(&self) -> bool {
        self.with.iter().any(|(attribute, _)| *attribute == Attribute::Cause)
    }

    /// Whether it asks for a request, which `placed` is of.
    pub fn has(&self, r: &Request, placed: &Placed, known: &Known<'_>) -> bool {
        let names = known.names;
        self.from.is_none_or(|from| placed.began >= from)
            && self.to.is_none_or(|to| placed.began < to)
            && self.at_least_ns.is_none_or(|least| placed.duration_ns >= least)
            && self.shorter_than_ns.is_none_or(|most| placed.duration_ns < most)
            && self.has_kind(&placed.kind)
            && self.service.as_ref().is_none_or(|service| passes_through(r, names, service, self.calls.as_deref()))
            && self.with.iter().filter(|(attribute, _)| *attribute != Attribute::Cause).all(|(attribute, value)| {
                let mut has = false;
                visit(r, &placed.kind, names, |a| a == *attribute, |_, own| has |= is_meant(value, &own));
                has
            })
            // last: its critical path is walked for it
            && (!self.asks_for_causes() || known.has_cause(r, &self.with))
    }
}

/// What a selection looks requests up in.
pub struct Known<'a> {
    names: &'a Names<'a>,
    paths: Option<(Recording<'a>, Reader<'a>)>,
}

impl<'a> Known<'a> {
    /// Of a folder. Without an index, or unless causes are asked for, no cause is known, and a selection by cause has nothing in it.
    pub fn new(folder: &'a Folder, names: &'a Names<'a>, index: Option<&'a Index>, with_causes: bool) -> Known<'a> {
        let index = index.filter(|_| with_causes);
        Known {
            names,
            paths: index.map(|index| (Recording { folder, index, names }, Reader::new(folder, index, names))),
        }
    }

    /// Whether the main cause of a request, on which most of its critical path was spent, is each of those that are asked for.
    fn has_cause(&self, r: &Request, with: &[(Attribute, String)]) -> bool {
        let paths = self.paths.as_ref().filter(|_| r.orphan.is_none());
        let main = paths.and_then(|(recording, reader)| largest(recording, reader, r));
        let mut wanted = with.iter().filter(|(attribute, _)| *attribute == Attribute::Cause);
        main.is_some_and(|(what, _)| wanted.all(|(_, value)| is_cause(what.cause.name(), &what.service, value)))
    }
}

/// Whether a cause at a service is what somebody calls it: its name alone, or both as `CAUSE at SERVICE`; `*` stands for anything.
fn is_cause(name: &str, service: &str, wanted: &str) -> bool {
    match wanted.split_once(" at ") {
        None => is_meant(wanted, name),
        Some((cause, place)) => is_meant(cause, name) && is_called(service, place),
    }
}

/// Whether a name of a service is what somebody calls it: the name, or all but its port; `*` stands for anything.
pub fn is_called(name: &str, wanted: &str) -> bool {
    let bare = name.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()).map(|(bare, _)| bare);
    is_meant(wanted, name) || bare.is_some_and(|bare| is_meant(wanted, bare))
}

/// Whether a request is known to pass through a service, and this to call that one, where there is one.
fn passes_through(r: &Request, names: &Names<'_>, service: &str, calls: Option<&str>) -> bool {
    let is = |span: &Span, wanted: &str| is_called(&names.service(span), wanted);
    match calls {
        None => r.spans.iter().any(|span| is(span, service)),
        Some(called) => r.spans.iter().any(|span| {
            let caller = span.parent.and_then(|parent| r.spans.get(parent as usize));
            is(span, called) && caller.is_some_and(|caller| is(caller, service))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::{is_called, is_cause};

    #[test]
    fn a_cause_is_called_with_or_without_its_service() {
        for (wanted, expected) in [
            ("lock", true),
            ("l*", true),
            ("*", true),
            ("loc", false),
            ("disk", false),
            ("lock at web:80", true),
            ("lock at web", true),
            ("* at web", true),
            ("lock at db", false),
            ("disk at web", false),
        ] {
            assert_eq!(is_cause("lock", "web:80", wanted), expected, "{wanted}");
        }
    }

    #[test]
    fn a_service_is_called_with_or_without_its_port() {
        for (name, wanted, expected) in [
            ("postgres:5432", "postgres:5432", true),
            ("postgres:5432", "postgres", true),
            ("postgres:5432", "postgres:", false),
            ("postgres:5432", "postgres:54", false),
            ("postgres:5432", "post", false),
            ("postgres:5432", "", false),
            ("[::1]:6379", "[::1]", true),
            ("[::1]:6379", "[:", false),
            ("shop/my web:80", "shop/my web", true),
            ("unix socket", "unix socket", true),
            ("a:b:80", "a", false),
            ("shop/web:80", "shop/*", true),
            ("shop/web:80", "*web", true),
            ("shop/web:80", "*:443", false),
        ] {
            assert_eq!(is_called(name, wanted), expected, "{name} {wanted}");
        }
    }
}
