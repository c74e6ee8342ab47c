//! Kafka (kafka.apache.org/protocol): the request and response headers, and a little of what is behind.
//!
//! ```text
//! > size, api 0, version 7, correlation 1, client id    request, verb PRODUCE, target the first topic, witness 1
//! < size, correlation 1                                 reply; error with its number where that stands near the start
//! ```
//!
//! Replies are paired by the correlation id. A produce request that asks for no acknowledgement gets no reply: it is
//! unsolicited. Of 16 requests api and version are remembered; the status of replies to others, and to apis whose error
//! lies deep inside, is unknown. Not handled: topics of other requests than PRODUCE, SASL without Kafka's own framing.

use crate::bytes::{be16, be32};
use crate::duplex::{BAD, Duplex, Fit, Framer, Stop, Unit, Wire};
use crate::registry::{About, Docs};
use crate::vocabulary::{Grammar, List, Vocabulary};
use crate::{Attrs, Dir, Outcome, Role, Status, Text, Witness, mask};

/// Bytes kept of a message in each direction.
pub const HEAD: usize = 256;

/// The Kafka processor.
pub type Kafka = Duplex<Framing, HEAD>;

/// What the registry says of it.
pub const ABOUT: About = About {
    id: "proto.kafka",
    ports: &[9092],
    recognise,
    vocabulary: Vocabulary { verb: Grammar::Constant, target: Grammar::Path(List::NONE), class: Grammar::Constant },
    bytes_max: 768,
    // replies look like requests, but for the client's name
    direction_by_port: false,
    docs: Docs {
        what: "Kafka",
        request: "a request",
        kept: "api, topic of a PRODUCE, error number",
        pairs: "correlation id",
    },
    ..About::NEW
};

/// What of Kafka is remembered between units.
pub struct Framing {
    /// The last requests: correlation id, api, version.
    asked: [(u32, u8, u8); 16],
    next: u8,
}

const PRODUCE: u16 = 0;
/// An api that is none: there is no request here.
const FREE: (u32, u8, u8) = (0, 0xff, 0);

#[rustfmt::skip]
const APIS: [&str; 58] = [
    "PRODUCE", "FETCH", "LIST OFFSETS", "METADATA", "LEADER AND ISR", "STOP REPLICA", "UPDATE METADATA",
    "CONTROLLED SHUTDOWN", "OFFSET COMMIT", "OFFSET FETCH", "FIND COORDINATOR", "JOIN GROUP", "HEARTBEAT",
    "LEAVE GROUP", "SYNC GROUP", "DESCRIBE GROUPS", "LIST GROUPS", "SASL HANDSHAKE", "API VERSIONS", "CREATE TOPICS",
    "DELETE TOPICS", "DELETE RECORDS", "INIT PRODUCER ID", "OFFSET FOR LEADER EPOCH", "ADD PARTITIONS TO TXN",
    "ADD OFFSETS TO TXN", "END TXN", "WRITE TXN MARKERS", "TXN OFFSET COMMIT", "DESCRIBE ACLS", "CREATE ACLS",
    "DELETE ACLS", "DESCRIBE CONFIGS", "ALTER CONFIGS", "ALTER REPLICA LOG DIRS", "DESCRIBE LOG DIRS",
    "SASL AUTHENTICATE", "CREATE PARTITIONS", "CREATE DELEGATION TOKEN", "RENEW DELEGATION TOKEN",
    "EXPIRE DELEGATION TOKEN", "DESCRIBE DELEGATION TOKEN", "DELETE GROUPS", "ELECT LEADERS",
    "INCREMENTAL ALTER CONFIGS", "ALTER PARTITION REASSIGNMENTS", "LIST PARTITION REASSIGNMENTS", "OFFSET DELETE",
    "DESCRIBE CLIENT QUOTAS", "ALTER CLIENT QUOTAS", "DESCRIBE USER SCRAM CREDENTIALS",
    "ALTER USER SCRAM CREDENTIALS", "VOTE", "BEGIN QUORUM EPOCH", "END QUORUM EPOCH", "DESCRIBE QUORUM",
    "ALTER PARTITION", "UPDATE FEATURES",
];

/// FETCH waits for records, JOIN GROUP and SYNC GROUP for the other members.
const AWAITS: &[u16] = &[1, 11, 14];

impl Framer for Framing {
    const NEW: Framing = Framing { asked: [FREE; 16], next: 0 };

    fn fit(&self, dir: Dir, bytes: &[u8]) -> Fit {
        match dir {
            _ if bytes.len() < 8 => Fit::More,
            Dir::ToClient => self.asked.iter().any(|a| a.1 != FREE.1 && Some(a.0) == be32(bytes, 4)).into(),
            Dir::ToServer => request_fits(bytes),
        }
    }

    fn unit(&mut self, wire: &mut Wire<'_>, bytes: &[u8], last: bool) -> Unit {
        let size = be32(bytes, 0).ok_or(Stop::Need)?;
        if !(4..1 << 30).contains(&size) || (wire.dir == Dir::ToServer && size < 8) {
            return Err(BAD);
        }
        let total = u64::from(size) + 4;
        if bytes.len() < HEAD && (bytes.len() as u64) < total && !last {
            return Err(Stop::Need);
        }
        let view = &bytes[..bytes.len().min(total as usize)];
        let end = wire.behind(total);
        match wire.dir {
            Dir::ToServer => self.request(wire, view, end)?,
            Dir::ToClient => self.reply(wire, view, end)?,
        }
        Ok(total)
    }
}

impl Framing {
    fn request(&mut self, wire: &mut Wire<'_>, view: &[u8], end: u64) -> Result<(), Stop> {
        let id = be32(view, 8).ok_or(Stop::Need)?;
        let (api, version) = (be16(view, 4).unwrap_or(0), be16(view, 6).unwrap_or(0));
        let verb = APIS.get(usize::from(api)).copied().unwrap_or("OTHER");
        let produce = if api == PRODUCE { produce(view, version) } else { None };
        let mut target = Text::<64>::new();
        if let Some((_, topic)) = produce {
            mask::path(topic, false, &mut target);
        }
        let silent = produce.is_some_and(|(acks, _)| acks == 0);
        if !silent {
            self.asked[usize::from(self.next)] = (id, api.min(0xfe) as u8, version.min(0xff) as u8);
            self.next = (self.next + 1) % self.asked.len() as u8;
        }
        let role = if silent { Role::OneWay } else { Role::Request };
        let cut = target.is_cut() || (api == PRODUCE && produce.is_none());
        let (queued, awaits) = (api == PRODUCE, AWAITS.contains(&api));
        let attrs = Attrs { verb, target: target.as_str(), cut, queued, awaits, ..Attrs::default() };
        wire.whole(role, end, view.len(), attrs, &[Witness::Kafka(id)]);
        Ok(())
    }

    fn reply(&mut self, wire: &mut Wire<'_>, view: &[u8], end: u64) -> Result<(), Stop> {
        let id = be32(view, 4).ok_or(Stop::Need)?;
        let asked = self.asked.iter_mut().find(|asked| asked.0 == id && asked.1 != FREE.1);
        let asked = asked.map(|asked| core::mem::replace(asked, FREE));
        let code = asked.and_then(|(_, api, version)| code(view, api.into(), version.into()));
        let outcome = match code {
            None => Outcome::Unknown,
            Some(0) => Outcome::Ok,
            Some(_) => Outcome::Error,
        };
        let attrs = Attrs { status: Status { outcome, code, class: "" }, ..Attrs::default() };
        wire.whole(Role::Reply, end, view.len(), attrs, &[Witness::Kafka(id)]);
        Ok(())
    }
}

/// A string of versions before or after the change to compact ones, and where it ends; a null is empty.
fn string(bytes: &[u8], at: usize, compact: bool) -> Option<(&[u8], usize)> {
    let (length, start) = match compact {
        // Lengths of names take one byte, or two.
        true => match *bytes.get(at)? {
            short @ 0..=0x7f => (usize::from(short).saturating_sub(1), at + 1),
            low => ((usize::from(low & 0x7f) | usize::from(*bytes.get(at + 1)?) << 7) - 1, at + 2),
        },
        false => (be16(bytes, at).filter(|length| *length != 0xffff).map_or(0, usize::from), at + 2),
    };
    Some((bytes.get(start..start + length)?, start + length))
}

/// Acknowledgements asked for, and the first topic.
fn produce(view: &[u8], version: u16) -> Option<(u16, &[u8])> {
    let compact = version >= 9;
    let (_, mut at) = string(view, 12, false)?; // the client's id
    at += usize::from(compact); // no tags
    if version >= 3 {
        (_, at) = string(view, at, compact)?; // the transaction's id
    }
    let acks = be16(view, at)?;
    // After it a time-out of four bytes, and the number of topics.
    let topic = if version >= 13 { &[][..] } else { string(view, at + if compact { 7 } else { 10 }, compact)?.0 };
    Some((acks, topic))
}

/// The error of a reply, where it stands near the start.
fn code(view: &[u8], api: u16, version: u16) -> Option<u16> {
    let at = match (api, version) {
        (PRODUCE, 0..=8) => string(view, 12, false)?.1 + 8,
        (PRODUCE, 9..=12) => string(view, 10, true)?.1 + 5,
        (17 | 18 | 36, _) if api != 36 || version < 2 => 8, // SASL, API VERSIONS
        (36, _) => 9,
        // After the time for which the client is held back; flexible versions have an empty list of tags before.
        (12..=14, 0) | (11, 0..=1) | (10, 0) => 8,
        (12, 1..=3) | (13, 1..=3) | (14, 1..=3) | (11, 2..=5) | (10, 1..=2) => 12,
        (12..=14, _) | (11, _) | (10, 3) => 13,
        (1, 7..=11) => 12,
        (1, 12..) => 13,
        (22 | 25 | 26, 0..=1) => 12,
        _ => return None,
    };
    be16(view, at)
}

/// Whether `bytes` begin like a request: known api and version, and a client id that is text.
fn request_fits(bytes: &[u8]) -> Fit {
    let size = be32(bytes, 0).unwrap_or(0);
    let (api, version) = (be16(bytes, 4).unwrap_or(0xffff), be16(bytes, 6).unwrap_or(0xffff));
    if !(10..1 << 28).contains(&size) || usize::from(api) >= 80 || version > 20 {
        return Fit::No;
    }
    let Some(length) = be16(bytes, 12) else {
        return Fit::More;
    };
    let mut name = bytes[14..].iter().take(length.into());
    match length {
        0xffff => Fit::Yes,
        256.. => Fit::No,
        _ if u32::from(length) + 10 > size || !name.all(u8::is_ascii_graphic) => Fit::No,
        _ if bytes.len() < 14 + usize::from(length) => Fit::More,
        _ => Fit::Yes,
    }
}

/// Whether a flow of which these are the first bytes is Kafka: by a request with a client id; on its usual port also by
/// one without.
pub(crate) fn recognise(dir: Dir, bytes: &[u8], usual: bool) -> Fit {
    match dir {
        Dir::ToServer if bytes.len() < 8 => {
            if bytes[0] == 0 {
                Fit::More
            } else {
                Fit::No
            }
        }
        // Few bytes of the header are set: only a name makes it sure. HTTP/2's DATA has the end of an odd number, its stream's, where a
        // correlation id begins that fewer than 16 million requests were counted to.
        Dir::ToServer => match be16(bytes, 12) {
            Some(2..=0x7fff) if bytes[8] == 0 => request_fits(bytes).and_sure(),
            Some(0 | 1 | 0xffff) if !usual => Fit::No,
            _ => request_fits(bytes),
        },
        Dir::ToClient => Fit::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_of_http2_with_text_is_no_request() {
        // DATA of stream 1, with a message of gRPC in it
        let data = b"\0\0\x1b\0\0\0\0\0\x01\0\0\0\0\x16abcdefghijklmnopqrstuv";
        assert_eq!(request_fits(data), Fit::Yes);
        assert_ne!(recognise(Dir::ToServer, data, false), Fit::Sure);
        let request = b"\0\0\0\x15\0\x03\0\x01\0\0\0\x09\0\x03app\0\0\0\x01\0\x02xy";
        assert_eq!(recognise(Dir::ToServer, request, false), Fit::Sure);
    }
}
