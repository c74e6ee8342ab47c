//! What requests differ by besides when they began and how long they took: attributes, of which each request has some values.

use crate::each::End;
use crate::names::{Names, UNKNOWN_PEER, remote};
use crate::requests::{failed, has_failed, went_wrong};
use crate::why::KindName;
use wakepath_causality::exchange::ExchangeFlag;
use wakepath_causality::path::{Request, Span};

/// What requests differ by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Attribute {
    /// What was asked, and of whom.
    Kind,
    /// `error`, `ok` or `unknown`: whether it failed by its reply, was reset or cut, or left by its client.
    Outcome,
    /// Its status, or how it ended without one.
    Reply,
    /// Who asked: its program, or its address where it was not recorded.
    Client,
    /// A service that it is known to pass through, besides its entry.
    Service,
    /// A call that is known to be its, and of whom.
    Call,
    /// A process that is known to have served a part of it.
    Process,
    /// A host that is known to have served a part of it.
    Host,
    /// Its main cause: what most of its critical path went to, and at which service.
    Cause,
}

impl Attribute {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Attribute::Kind => "kind",
            Attribute::Outcome => "outcome",
            Attribute::Reply => "reply",
            Attribute::Client => "client",
            Attribute::Service => "service",
            Attribute::Call => "call",
            Attribute::Process => "process",
            Attribute::Host => "host",
            Attribute::Cause => "cause",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Attribute> {
        ALL.into_iter().find(|a| a.name() == name)
    }
}

/// All attributes.
pub const ALL: [Attribute; 9] = [
    Attribute::Kind,
    Attribute::Outcome,
    Attribute::Reply,
    Attribute::Client,
    Attribute::Service,
    Attribute::Call,
    Attribute::Process,
    Attribute::Host,
    Attribute::Cause,
];

/// Gives the values that a request of a kind has of the attributes that are wanted; a value may come several times. Causes are
/// not among them: they need the index.
pub fn visit(
    r: &Request,
    kind: &KindName,
    names: &Names<'_>,
    wants: impl Fn(Attribute) -> bool,
    mut take: impl FnMut(Attribute, String),
) {
    let root = &r.spans[0];
    if wants(Attribute::Kind) {
        take(Attribute::Kind, format!("{} at {}", kind.1, kind.0));
    }
    if wants(Attribute::Outcome) {
        take(Attribute::Outcome, outcome(root).into());
    }
    if let Some(reply) = Some(root).filter(|_| wants(Attribute::Reply)).and_then(reply) {
        take(Attribute::Reply, reply);
    }
    if let Some(client) = Some(root).filter(|_| wants(Attribute::Client)).and_then(|root| client(root, names)) {
        take(Attribute::Client, client);
    }
    for (n, span) in r.spans.iter().enumerate() {
        if let Some(h) = &span.callee {
            let tgid = names.tgid(h.host, h.exchange.request.task);
            if tgid != 0 && wants(Attribute::Process) {
                take(Attribute::Process, format!("{}/{tgid}", names.program(h.host, h.exchange.request.task)));
            }
            if wants(Attribute::Host) {
                take(Attribute::Host, names.host(h.host).to_owned());
            }
        }
        if let Some(half) = span.callee.as_ref().or(span.caller.as_ref()).filter(|_| n > 0) {
            if wants(Attribute::Call) {
                take(Attribute::Call, format!("{} at {}", names.asked(half), names.service(span)));
            }
            if wants(Attribute::Service) {
                take(Attribute::Service, names.service(span));
            }
        }
    }
}

/// Whether a request went wrong, in a word.
fn outcome(root: &Span) -> &'static str {
    let Some(e) = root.callee.as_ref().or(root.caller.as_ref()).map(|h| &h.exchange) else { return "unknown" };
    match () {
        () if went_wrong(e) => "error",
        () if e.is(ExchangeFlag::Replied) && !e.is(ExchangeFlag::OneWay) && failed(e) == Some(false) => "ok",
        () => "unknown",
    }
}

/// How a request was answered; `None` where that is not known.
fn reply(root: &Span) -> Option<String> {
    let e = &root.callee.as_ref().or(root.caller.as_ref())?.exchange;
    match End::of(e) {
        End::ClientLeft => Some("client left".into()),
        End::Reset => Some("reset".into()),
        End::Cut => Some("cut".into()),
        End::Unfinished => Some("unfinished".into()),
        End::Answered if e.content.status != 0 => Some(e.content.status.to_string()),
        End::Answered if has_failed(e) => Some("failed".into()),
        End::Answered if e.is(ExchangeFlag::Replied) && !e.is(ExchangeFlag::OutcomeUnknown) => Some("no error".into()),
        End::Answered => None,
    }
}

/// Who asked; `None` where not even an address is known.
fn client(root: &Span, names: &Names<'_>) -> Option<String> {
    if let Some(h) = &root.caller {
        return Some(names.program(h.host, h.exchange.request.task).to_owned()).filter(|program| program != "?");
    }
    let mut place = root.callee.as_ref()?.place;
    // each connection has another
    place.rport = 0;
    Some(remote(&place)).filter(|address| address != UNKNOWN_PEER)
}
