//! The list of protocols: one line each. A test holds it against `tests/golden/`.

use crate::amqp::{self, Amqp};
use crate::dns::{self, DnsTcp, DnsUdp};
use crate::duplex::Fit;
use crate::fastcgi::FastCgi;
use crate::http1::{self, Http1};
use crate::http2::{self, Http2};
use crate::kafka::{self, Kafka};
use crate::line::Line;
use crate::memcached::{self, Memcached};
use crate::mongo::{self, Mongo};
use crate::mysql::{self, MySql};
use crate::oneshot::Oneshot;
use crate::postgres::{self, Postgres};
use crate::redis::{self, Redis};
use crate::tls::{self, Tls};
use crate::x11::{self, X11};
use crate::{Dir, Processor, Sink};

/// What carries the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// A byte stream: TCP, UNIX stream sockets, pipes.
    Stream,
    /// Datagrams: UDP, UNIX datagram sockets.
    Datagram,
}

/// What the first bytes of a flow say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is this protocol, and the bytes travel in this direction.
    Protocol(Protocol, Dir),
    /// It may be known when more bytes of the same direction are shown from the start.
    NeedMore,
    /// No protocol of the list, as far as these bytes show. Bytes behind a later turn may show more.
    Unknown,
}

/// What is done with a new processor, whatever its type: boxed, as a rule, by a caller that may allocate.
pub trait Maker {
    /// What becomes of it.
    type Made;
    /// Takes it.
    fn take<P: Processor + Send + 'static>(self, processor: P) -> Self::Made;
}

macro_rules! registry {
    ($($variant:ident($type:ty) = $id:literal, $transport:ident, $ports:expr, $fit:expr, $doc:literal;)+) => {
        /// A protocol on its transport.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Protocol { $(#[doc = $doc] $variant),+ }

        impl Protocol {
            /// All protocols, in the order in which they are tried.
            pub const ALL: &[Protocol] = &[$(Protocol::$variant),+];

            /// The id used in commands, counters, documents and golden folders. A protocol that exists on both
            /// transports has one id.
            pub fn id(self) -> &'static str {
                match self { $(Protocol::$variant => $id),+ }
            }

            /// What it runs on.
            pub fn transport(self) -> Transport {
                match self { $(Protocol::$variant => Transport::$transport),+ }
            }

            /// Ports on which it is usual: they decide only where the bytes alone do not.
            pub fn ports(self) -> &'static [u16] {
                match self { $(Protocol::$variant => $ports),+ }
            }

            /// Hands a new processor of exactly this protocol to `maker`: with many flows [`AnyProcessor`] is too large.
            pub fn make<M: Maker>(self, maker: M) -> M::Made {
                match self { $(Protocol::$variant => maker.take(<$type>::new())),+ }
            }

            /// In which direction `bytes` travel, as the begin of a message of this protocol: known where only one side
            /// could send them.
            pub fn direction(self, bytes: &[u8]) -> Option<Dir> {
                if bytes.is_empty() {
                    return None;
                }
                // Replies of Kafka look like requests, but for the client's name.
                let usual = self.id() != "proto.kafka";
                match [Dir::ToServer, Dir::ToClient].map(|dir| self.fit(dir, bytes, usual)) {
                    [Fit::Yes, Fit::No] => Some(Dir::ToServer),
                    [Fit::No, Fit::Yes] => Some(Dir::ToClient),
                    _ => None,
                }
            }

            fn fit(self, dir: Dir, bytes: &[u8], usual: bool) -> Fit {
                let fit: fn(Dir, &[u8], bool) -> Fit = match self { $(Protocol::$variant => $fit),+ };
                fit(dir, bytes, usual)
            }
        }

        /// A processor of any protocol. As large as the largest of them, HTTP/2; a test prints the sizes. Where flows of
        /// one protocol are many, keep its own type instead.
        #[allow(clippy::large_enum_variant)] // no allocation, so no box
        pub enum AnyProcessor { $(#[doc = $doc] $variant($type)),+ }

        impl AnyProcessor {
            /// A processor for a new flow.
            pub fn new(protocol: Protocol) -> Self {
                match protocol { $(Protocol::$variant => AnyProcessor::$variant(<$type>::new())),+ }
            }

            /// The protocol.
            pub fn protocol(&self) -> Protocol {
                match self { $(AnyProcessor::$variant(_) => Protocol::$variant),+ }
            }
        }

        impl Processor for AnyProcessor {
            fn data(&mut self, dir: Dir, pos: u64, bytes: &[u8], sink: &mut dyn Sink) {
                match self { $(AnyProcessor::$variant(p) => p.data(dir, pos, bytes, sink)),+ }
            }
            fn data_to_border(&mut self, dir: Dir, pos: u64, bytes: &[u8], sink: &mut dyn Sink) -> usize {
                match self { $(AnyProcessor::$variant(p) => p.data_to_border(dir, pos, bytes, sink)),+ }
            }
            fn ahead(&self, dir: Dir) -> u64 {
                match self { $(AnyProcessor::$variant(p) => p.ahead(dir)),+ }
            }
            fn gap(&mut self, dir: Dir, pos: u64, len: u64, sink: &mut dyn Sink) {
                match self { $(AnyProcessor::$variant(p) => p.gap(dir, pos, len, sink)),+ }
            }
            fn turn(&mut self, dir: Dir, pos: u64, sink: &mut dyn Sink) {
                match self { $(AnyProcessor::$variant(p) => p.turn(dir, pos, sink)),+ }
            }
            fn shutdown(&mut self, dir: Dir, pos: u64, sink: &mut dyn Sink) {
                match self { $(AnyProcessor::$variant(p) => p.shutdown(dir, pos, sink)),+ }
            }
        }
    };
}

registry! {
    Http1(Http1) = "proto.http1", Stream, &[80, 3000, 5000, 8000, 8080], fit_http1, "HTTP/1.0 and HTTP/1.1.";
    Postgres(Postgres) = "proto.postgres", Stream, &[5432, 6432], postgres::recognise, "PostgreSQL, protocol 3.";
    Redis(Redis) = "proto.redis", Stream, &[6379], redis::recognise, "Redis and its relatives, RESP2 and RESP3.";
    FastCgi(FastCgi) = "proto.fastcgi", Stream, &[9000], crate::fastcgi::recognise, "FastCGI.";
    Http2(Http2) = "proto.http2", Stream, &[50051], fit_http2, "HTTP/2 with prior knowledge, and gRPC.";
    MySql(MySql) = "proto.mysql", Stream, &[3306], mysql::recognise, "MySQL and MariaDB.";
    Amqp(Amqp) = "proto.amqp", Stream, &[5672], fit_amqp, "AMQP 0-9-1.";
    Mongo(Mongo) = "proto.mongo", Stream, &[27017], fit_mongo, "MongoDB.";
    Kafka(Kafka) = "proto.kafka", Stream, &[9092], kafka::recognise, "Kafka.";
    Memcached(Memcached) = "proto.memcached", Stream, &[11211], memcached::recognise, "Memcached, text and binary.";
    X11(X11) = "proto.x11", Stream, &[6000, 6001], fit_x11, "X11, as a client speaks it.";
    DnsTcp(DnsTcp) = "proto.dns", Stream, &[53], fit_dns_tcp, "DNS over TCP.";
    DnsUdp(DnsUdp) = "proto.dns", Datagram, &[53, 5353], fit_dns_udp, "DNS datagrams.";
    Tls(Tls) = "proto.tls", Stream, &[443, 8443], fit_tls, "TLS, of which only the handshake is read.";
    Line(Line) = "proto.line", Stream, &[], never, "Lines, of which nothing else is known; only where asked for.";
    Oneshot(Oneshot) = "proto.oneshot", Stream, &[], never, "One exchange a connection; only where asked for.";
}

/// Which protocol a flow speaks.
///
/// `bytes` are the first of a direction, or the first behind a turn. `dir`: their direction, if known. `ports`: local
/// and remote, in any order (0: none). A usual port never decides against the bytes.
pub fn recognise(transport: Transport, dir: Option<Dir>, bytes: &[u8], ports: (u16, u16)) -> Verdict {
    if bytes.is_empty() {
        return Verdict::NeedMore;
    }
    // First what the bytes say by themselves; then, on a usual port, what they may be.
    for usual in [false, true] {
        let mut more = false;
        for &protocol in Protocol::ALL {
            let listed = protocol.ports();
            let here = listed.contains(&ports.0) || listed.contains(&ports.1);
            if protocol.transport() != transport || (usual && !here) {
                continue;
            }
            for side in [Dir::ToServer, Dir::ToClient] {
                if dir.is_some_and(|dir| dir != side) {
                    continue;
                }
                match protocol.fit(side, bytes, usual) {
                    Fit::Yes => return Verdict::Protocol(protocol, side),
                    Fit::More => more = true,
                    Fit::No => {}
                }
            }
        }
        if more {
            return Verdict::NeedMore;
        }
    }
    Verdict::Unknown
}

fn never(_: Dir, _: &[u8], _: bool) -> Fit {
    Fit::No
}

fn fit_http1(dir: Dir, bytes: &[u8], _: bool) -> Fit {
    http1::recognise(dir, bytes)
}

fn fit_http2(dir: Dir, bytes: &[u8], _: bool) -> Fit {
    http2::recognise(dir, bytes)
}

fn fit_amqp(dir: Dir, bytes: &[u8], _: bool) -> Fit {
    amqp::recognise(dir, bytes)
}

fn fit_mongo(dir: Dir, bytes: &[u8], _: bool) -> Fit {
    mongo::recognise(dir, bytes)
}

fn fit_tls(dir: Dir, bytes: &[u8], _: bool) -> Fit {
    tls::recognise(dir, bytes)
}

fn fit_x11(dir: Dir, bytes: &[u8], _: bool) -> Fit {
    x11::recognise(dir, bytes)
}

fn fit_dns_tcp(dir: Dir, bytes: &[u8], usual: bool) -> Fit {
    match bytes.len() {
        _ if !usual => Fit::No, // two bytes of length and a few flags are too little to go by
        ..14 => Fit::More,
        _ => dns::fits(dir, &bytes[2..]).into(),
    }
}

fn fit_dns_udp(dir: Dir, bytes: &[u8], usual: bool) -> Fit {
    (usual && dns::fits(dir, bytes)).into()
}
