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

/// What is kept of a request's head.
pub(crate) struct Heading<const N: usize> {
    pub verb: Text<16>,
    pub target: Text<N>,
    /// The head is incomplete.
    pub cut: bool,
    trace: Option<Witness>,
    id: Option<Witness>,
}

impl<const N: usize> Heading<N> {
    pub const NEW: Self = Heading { verb: Text::new(), target: Text::new(), cut: false, trace: None, id: None };

    /// Keeps the target's template; `cut`: its end is missing.
    pub fn target(&mut self, target: &[u8], cut: bool) {
        self.target = Text::new();
        mask::path(target, cut, &mut self.target);
    }

    /// Keeps a `traceparent` field; the first counts.
    pub fn trace(&mut self, value: &[u8]) {
        self.trace = self.trace.or(traceparent(value));
    }

    /// Keeps the hash of an `x-request-id` field; the first counts.
    pub fn request_id(&mut self, value: &[u8]) {
        self.id = self.id.or(Some(Witness::XRequestId(mask::fnv1a(value.trim_ascii()))));
    }

    pub fn attrs(&self) -> Attrs<'_> {
        let cut = self.cut || self.target.is_cut();
        Attrs { verb: self.verb.as_str(), target: self.target.as_str(), cut, ..Attrs::default() }
    }

    /// The witnesses after `first`, and how many they are.
    pub fn witnesses(&self, first: Option<Witness>) -> ([Witness; 3], usize) {
        let (mut all, mut count) = ([Witness::XRequestId(0); 3], 0);
        for witness in [first, self.trace, self.id].into_iter().flatten() {
            all[count] = witness;
            count += 1;
        }
        (all, count)
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
