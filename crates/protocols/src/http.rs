//! What HTTP says of a request and a reply, however it is carried: HTTP/1, HTTP/2, FastCGI.

use crate::vocabulary::{Grammar, List, Vocabulary};
use crate::{Attrs, Outcome, Status, Text, Witness, mask};

/// Methods (RFC 9110 and the registry of IANA), and what the processors themselves say.
#[rustfmt::skip]
const METHODS: &[&str] = &[
    "ACL", "BASELINE-CONTROL", "BIND", "CHECKIN", "CHECKOUT", "CONNECT", "COPY", "DELETE", "GET", "HEAD", "LABEL",
    "LINK", "LOCK", "M-SEARCH", "MERGE", "MKACTIVITY", "MKCALENDAR", "MKCOL", "MKREDIRECTREF", "MKWORKSPACE", "MOVE",
    "NOTIFY", "OPAQUE", "OPTIONS", "ORDERPATCH", "PATCH", "POST", "PRI", "PROPFIND", "PROPPATCH", "PURGE", "PUT",
    "QUERY", "REBIND", "REPORT", "SEARCH", "SUBSCRIBE", "TRACE", "UNBIND", "UNCHECKOUT", "UNLINK", "UNLOCK",
    "UNSUBSCRIBE", "UPDATE", "UPDATEREDIRECTREF", "VERSION-CONTROL",
];

/// The words of messages of HTTP.
pub(crate) const VOCABULARY: Vocabulary =
    Vocabulary { verb: Grammar::Words(List::of(METHODS)), target: Grammar::Path(List::NONE), class: Grammar::Constant };

/// Whether nobody else would give the same identifier to another request by chance: it is no number that is counted up (`req-17`), which
/// others count too. What stands before its last digits is long, and has digits as well; or it is a long number.
fn names_one(id: &[u8]) -> bool {
    let digits = id.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let (before, is_long) = (&id[..id.len() - digits], digits >= 16);
    is_long || (id.len() >= 10 && before.len() >= 6 && before.iter().any(u8::is_ascii_digit))
}

/// A field that services hand on with the calls that they make for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandedOn {
    /// `traceparent` (W3C Trace Context).
    TraceParent,
    /// `x-request-id`.
    RequestId,
    /// `x-correlation-id`.
    CorrelationId,
    /// `x-b3-traceid` (Zipkin).
    B3TraceId,
    /// `b3`: the trace, and more after a hyphen.
    B3,
    /// `x-amzn-trace-id`: the trace is its `Root`.
    Amazon,
    /// `x-cloud-trace-context`: the trace, and more after a slash.
    Google,
}

impl HandedOn {
    /// The longest of the names.
    pub const LONGEST: usize = 21;

    /// The field of a name in lower case.
    pub fn of(name: &[u8]) -> Option<HandedOn> {
        Some(match name {
            b"traceparent" => HandedOn::TraceParent,
            b"x-request-id" => HandedOn::RequestId,
            b"x-correlation-id" => HandedOn::CorrelationId,
            b"x-b3-traceid" => HandedOn::B3TraceId,
            b"b3" => HandedOn::B3,
            b"x-amzn-trace-id" => HandedOn::Amazon,
            b"x-cloud-trace-context" => HandedOn::Google,
            _ => return None,
        })
    }

    /// The longest of the parameters of FastCGI that are such fields.
    pub const LONGEST_PARAMETER: usize = Self::PARAMETER.len() + Self::LONGEST;
    const PARAMETER: &[u8] = b"HTTP_";

    /// The field that a parameter of FastCGI is.
    pub fn of_parameter(key: &[u8]) -> Option<HandedOn> {
        Self::of_any_case(key.strip_prefix(Self::PARAMETER)?, b'_')
    }

    /// The field of a name in any case, in which hyphens may be something else.
    pub fn of_any_case(name: &[u8], hyphen: u8) -> Option<HandedOn> {
        if !matches!(name.first()?, b't' | b'T' | b'x' | b'X' | b'b' | b'B') || name.len() > Self::LONGEST {
            return None;
        }
        let mut lower = [0; Self::LONGEST];
        for (to, from) in lower.iter_mut().zip(name) {
            *to = if *from == hyphen { b'-' } else { from.to_ascii_lowercase() };
        }
        Self::of(&lower[..name.len()])
    }

    /// What of the value stays the same on the way.
    fn kept(self, value: &[u8]) -> &[u8] {
        let until = |end: u8| value.split(|&b| b == end).next().unwrap_or(value);
        match self {
            HandedOn::B3 => until(b'-'),
            HandedOn::Google => until(b'/'),
            HandedOn::Amazon => value.split(|&b| b == b';').find_map(|part| part.strip_prefix(b"Root=")).unwrap_or(b""),
            _ => value,
        }
    }
}

/// What is kept of a request's head.
pub(crate) struct Heading<const N: usize> {
    pub verb: Text<16>,
    pub target: Text<N>,
    /// The head is incomplete.
    pub cut: bool,
    trace: Option<Witness>,
    /// Hash of the `x-request-id`; 0 = none.
    id: u64,
    /// The same of another such field.
    other_id: u64,
    /// It says that its answer waits for events.
    awaits: bool,
}

impl<const N: usize> Heading<N> {
    pub const NEW: Self =
        Heading { verb: Text::new(), target: Text::new(), cut: false, trace: None, id: 0, other_id: 0, awaits: false };

    /// Keeps the target's template; `cut`: its end is missing.
    pub fn target(&mut self, target: &[u8], cut: bool) {
        self.target = Text::new();
        mask::path(target, cut, &mut self.target);
        self.awaits |= is_long_poll(target);
    }

    /// Keeps what kind of answer it accepts: a stream of events alone is what a browser's `EventSource` asks for (HTML, 9.2.2).
    pub fn accepts(&mut self, value: &[u8]) {
        self.awaits |= value.trim_ascii().eq_ignore_ascii_case(b"text/event-stream");
    }

    /// Keeps a field that is handed on: of `traceparent` trace and span, of others a hash. The first counts, and an `x-request-id`
    /// before others. `cut`: the value's end is missing.
    pub fn handed_on(&mut self, field: Option<HandedOn>, value: &[u8], cut: bool) {
        let Some(field) = field.filter(|_| !cut) else { return };
        if field == HandedOn::TraceParent {
            self.trace = self.trace.or(traceparent(value));
            return;
        }
        let kept = field.kept(value.trim_ascii());
        let place = if field == HandedOn::RequestId { &mut self.id } else { &mut self.other_id };
        if *place == 0 && !kept.is_empty() {
            *place = mask::fnv1a(kept) & !1 | u64::from(names_one(kept));
        }
    }

    pub fn attrs(&self) -> Attrs<'_> {
        let cut = self.cut || self.target.is_cut();
        let verb = self.verb.as_str();
        // who sends something waits for what comes of that, also where it comes as events
        Attrs { verb, target: self.target.as_str(), cut, awaits: self.awaits && verb == "GET", ..Attrs::default() }
    }

    /// The witnesses after `first`, and how many they are.
    pub fn witnesses(&self, first: Option<Witness>) -> ([Witness; 3], usize) {
        let (mut all, mut count) = ([Witness::XRequestId(0); 3], 0);
        let id = [self.id, self.other_id].into_iter().find(|&id| id != 0).map(Witness::XRequestId);
        for witness in [first, self.trace, id].into_iter().flatten() {
            all[count] = witness;
            count += 1;
        }
        (all, count)
    }
}

/// Whether a target asks to wait for a change: a watch of Kubernetes, or a blocking query of Consul (`index` with `wait`). Below their paths
/// alone: elsewhere a parameter of such a name may ask for work.
fn is_long_poll(target: &[u8]) -> bool {
    let Some(at) = target.iter().position(|&b| b == b'?') else { return false };
    let mut fields = target[at + 1..].split(|&b| b == b'&');
    match target {
        [b'/', b'a', b'p', b'i', b'/' | b's', ..] => fields.any(|f| matches!(f, b"watch=true" | b"watch=1")),
        [b'/', b'v', b'1', b'/', ..] => {
            let (mut has_index, mut has_wait) = (false, false);
            for field in fields {
                has_index |= field.starts_with(b"index=");
                has_wait |= field.starts_with(b"wait=");
            }
            has_index && has_wait
        }
        _ => false,
    }
}

/// `00-<32 hex>-<16 hex>-<2 hex>` (W3C Trace Context, 3.2); ids of zeros are invalid there.
fn traceparent(value: &[u8]) -> Option<Witness> {
    let mut parts = value.trim_ascii().split(|&b| b == b'-').skip(1);
    let trace = hex::<16>(parts.next()?)?;
    let span = hex::<8>(parts.next()?)?;
    (trace != [0; 16] && span != [0; 8]).then_some(Witness::TraceParent { trace, span })
}

fn hex<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if text.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        let high = char::from(pair[0]).to_digit(16)?;
        let low = char::from(pair[1]).to_digit(16)?;
        *byte = (high << 4 | low) as u8;
    }
    Some(bytes)
}

/// Whether the last transfer coding is the chunked one (RFC 9112, 6.1).
pub(crate) fn chunked(codings: &[u8]) -> bool {
    let last = codings.rsplit(|&b| b == b',').next().unwrap_or(&[]);
    last.trim_ascii().eq_ignore_ascii_case(b"chunked")
}

/// The status of three digits at the start of `text`.
pub(crate) fn code(text: &[u8]) -> Option<u16> {
    let digits = text.first_chunk::<3>().filter(|digits| digits.iter().all(u8::is_ascii_digit))?;
    Some(digits.iter().fold(0, |code, digit| code * 10 + u16::from(digit - b'0')))
}

/// A status of 400 and above is an error.
pub(crate) fn status(code: Option<u16>) -> Status<'static> {
    let outcome = match code {
        None => Outcome::Unknown,
        Some(..=399) => Outcome::Ok,
        Some(_) => Outcome::Error,
    };
    Status { outcome, code, class: "" }
}

#[cfg(test)]
mod tests {
    use super::names_one;

    #[test]
    fn what_is_counted_up_names_no_request() {
        for id in
            ["", "7", "r-12-34", "req-123456789", "request-17", "correlation-000017", "1700000000000", "web1-000017"]
        {
            assert!(!names_one(id.as_bytes()), "{id}");
        }
        let unique = [
            "0b6c2a80-1111-4222-8333-012345678901",
            "4bf92f3577b34da6a3ce929d0e0e4736",
            "3f9a1b2c-17",
            "node-1/Jb2kq9Xz1a-000042",
            "1580437391512350720",
        ];
        for id in unique {
            assert!(names_one(id.as_bytes()), "{id}");
        }
    }
}
