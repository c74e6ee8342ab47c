//! Requests in the forms that other tools read. Every writer takes one request at a time and holds none: memory does not grow
//! with the length of a recording. Ids depend on the recording alone, so that an export made twice is the same.
#![deny(missing_docs)]

pub mod clickhouse;
pub mod folded;
pub mod follow;
pub mod jaeger;
pub mod otlp;
pub mod pcapng;
pub mod perfetto;
pub mod pprof;
pub mod prometheus;
pub mod protobuf;
pub mod push;
pub mod trace;

/// The name under which we appear in what we export.
pub const SCOPE: &str = "wakepath";
