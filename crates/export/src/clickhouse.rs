//! Tables of ClickHouse: spans in the layout of the ClickHouse exporter of OpenTelemetry's collector, and requests with what
//! their critical paths went to.
//!
//! The files are lines of JSON, compressed by zstd. ClickHouse finds columns by their names there, so a table with other or more
//! columns takes them too, and nothing is held but the line that is written. DuckDB and Polars read the same files. Times are
//! texts with a `Z`: what ClickHouse makes of a number depends on its version, and of a text without a zone on its settings.

use crate::SCOPE;
use crate::otlp::{hex, resource, unix_ns};
use crate::trace::{Attribute, PathPart, Side, Trace, TraceSpan, Untold, Value};
use serde_json::{Map, json};
use std::io::{self, Write};
use wakepath_analysis::each::One;
use wakepath_analysis::requests::{awaits, opens};
use wakepath_analysis::selection::Placed;
use wakepath_causality::path::Request;
use wakepath_model::syscalls;
use wakepath_present::text::escaped;
use wakepath_present::units::wall_ns;
use zstd::stream::write::Encoder;

/// Makes the tables that are not there.
pub const SCHEMA: &str = include_str!("clickhouse/schema.sql");
/// Loads [`SPANS`] and [`REQUESTS`] from the folder in which it runs.
pub const LOAD: &str = include_str!("clickhouse/load.sql");
/// Questions to the tables.
pub const QUERIES: &str = include_str!("clickhouse/queries.sql");
/// Name of the file with the rows of `otel_traces`.
pub const SPANS: &str = "otel_traces.jsonl.zst";
/// Name of the file with the rows of `wakepath_requests`.
pub const REQUESTS: &str = "wakepath_requests.jsonl.zst";

/// Level of zstd: its own default.
const LEVEL: i32 = 3;

/// Writes the two files.
pub struct Writer<W: Write> {
    spans: Encoder<'static, W>,
    requests: Encoder<'static, W>,
    line: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins them.
    pub fn new(spans: W, requests: W) -> io::Result<Writer<W>> {
        Ok(Writer { spans: Encoder::new(spans, LEVEL)?, requests: Encoder::new(requests, LEVEL)?, line: Vec::new() })
    }

    /// Adds the spans of a request, and a row for it. A call whose request is not known has spans alone. `parts` is what its
    /// critical path went to, or why that is not known, as of [`Traces::with_parts`](crate::trace::Traces::with_parts).
    pub fn write(
        &mut self,
        r: &Request,
        placed: &Placed,
        trace: &Trace,
        parts: &Result<Vec<PathPart>, Untold>,
    ) -> io::Result<()> {
        let id = hex(&trace.id);
        for s in &trace.spans {
            put(&mut self.line, &mut self.spans, &span(&id, s))?;
        }
        match r.orphan {
            None => put(&mut self.line, &mut self.requests, &request(&id, r, placed, parts)),
            Some(_) => Ok(()),
        }
    }

    /// Ends the files, and gives back where they were written to.
    pub fn finish(self) -> io::Result<[W; 2]> {
        Ok([self.spans.finish()?, self.requests.finish()?])
    }
}

/// Writes a row; `line` is only room for it.
fn put(line: &mut Vec<u8>, out: &mut dyn Write, row: &serde_json::Value) -> io::Result<()> {
    line.clear();
    serde_json::to_writer(&mut *line, row)?;
    line.push(b'\n');
    out.write_all(line)
}

/// ns since 1970 as a time.
fn time(ns: i64) -> String {
    wall_ns(unix_ns(ns).cast_signed())
}

/// Attributes as a map of texts.
fn map(attributes: &[Attribute]) -> Map<String, serde_json::Value> {
    let text = |value: &Value| match value {
        Value::Text(text) => text.clone(),
        Value::Number(n) => n.to_string(),
    };
    attributes.iter().map(|(name, value)| (name.to_string(), text(value).into())).collect()
}

/// One column of rows within a row.
fn column<T>(rows: &[T], value: impl Fn(&T) -> serde_json::Value) -> serde_json::Value {
    rows.iter().map(value).collect()
}

/// A row of `otel_traces`.
fn span(trace: &str, s: &TraceSpan) -> serde_json::Value {
    let kind = match s.side {
        Side::Server => "Server",
        Side::Client => "Client",
        Side::Producer => "Producer",
    };
    json!({
        "Timestamp": time(s.from_ns),
        "TraceId": trace,
        "SpanId": format!("{:016x}", s.id),
        "ParentSpanId": s.parent.map_or_else(String::new, |p| format!("{p:016x}")),
        "TraceState": "",
        "SpanName": s.name,
        "SpanKind": kind,
        "ServiceName": s.service,
        "ResourceAttributes": map(&resource(s.origin())),
        "ScopeName": SCOPE,
        "ScopeVersion": env!("CARGO_PKG_VERSION"),
        "SpanAttributes": map(&s.attributes),
        "Duration": unix_ns(s.to_ns) - unix_ns(s.from_ns),
        "StatusCode": if s.failed { "Error" } else { "Unset" },
        "StatusMessage": s.failure,
        "Events.Timestamp": column(&s.happened, |h| time(h.at_ns).into()),
        "Events.Name": column(&s.happened, |h| h.name.into()),
        "Events.Attributes": column(&s.happened, |h| map(&h.attributes).into()),
        "Links.TraceId": column(&s.links, |l| hex(&l.trace).into()),
        "Links.SpanId": column(&s.links, |l| format!("{:016x}", l.span).into()),
        "Links.TraceState": column(&s.links, |_| "".into()),
        "Links.Attributes": column(&s.links, |l| map(&l.attributes).into()),
    })
}

/// A row of `wakepath_requests`.
fn request(trace: &str, r: &Request, placed: &Placed, parts: &Result<Vec<PathPart>, Untold>) -> serde_json::Value {
    let one = One::new(r, placed, None);
    let class = match &one.kind.1 {
        _ if awaits(r) => "awaits",
        asked if opens(r, asked) => "opens",
        _ => "request",
    };
    let gaps: Vec<&str> = r.gaps().into_iter().map(|(_, gap)| gap.name()).collect();
    let open_calls: u64 = r.spans.iter().map(|s| u64::from(s.doubts)).sum();
    let (parts, untold) = match parts {
        Ok(parts) => (parts.as_slice(), ""),
        Err(untold) => (&[][..], untold.name()),
    };
    let text = |of: Option<&str>| escaped(of.unwrap_or_default()).into();
    let call = |nr: Option<u16>| {
        nr.map_or_else(String::new, |nr| syscalls::name(nr).map_or_else(|| format!("syscall {nr}"), str::to_owned))
    };
    json!({
        "Timestamp": time(one.began.0),
        "TraceId": trace,
        "ServiceName": escaped(&one.kind.0),
        "SpanName": escaped(&one.kind.1),
        "Class": class,
        "Duration": one.duration_ns,
        "Status": one.status,
        "Failed": one.failed,
        "End": one.end.name(),
        "Spans": one.spans,
        "Complete": one.complete,
        "Incomplete": gaps,
        "OpenCalls": open_calls,
        "NoCriticalPath": untold,
        "CriticalPath.SpanId": column(parts, |p| format!("{:016x}", p.span).into()),
        "CriticalPath.Cause": column(parts, |p| p.what.cause.name().into()),
        "CriticalPath.Service": column(parts, |p| escaped(&p.what.service).into()),
        "CriticalPath.Host": column(parts, |p| escaped(&p.what.host).into()),
        "CriticalPath.State": column(parts, |p| p.detail.state.name().into()),
        "CriticalPath.Call": column(parts, |p| call(p.detail.syscall).into()),
        "CriticalPath.By": column(parts, |p| text(p.detail.by.as_deref())),
        "CriticalPath.OwnThread": column(parts, |p| p.detail.is_own_thread.into()),
        "CriticalPath.Object": column(parts, |p| text(p.detail.object.as_deref())),
        "CriticalPath.Meanwhile": column(parts, |p| text(p.detail.meanwhile.as_deref())),
        "CriticalPath.Serving": column(parts, |p| text(p.detail.serving.as_deref())),
        "CriticalPath.Reason": column(parts, |p| text(p.detail.reason)),
        "CriticalPath.Duration": column(parts, |p| p.ns.into()),
        "CriticalPath.Intervals": column(parts, |p| p.intervals.into()),
    })
}
