//! OpenTelemetry's traces: a request is one message, with a resource for each service on each host.
//!
//! As JSON, each request is a line, as the collector's file exporter writes them. In protocol buffers, the messages follow each
//! other without anything between them: together they are one `TracesData`, as a list in that format may be given in pieces.

use crate::SCOPE;
use crate::protobuf::Message;
use crate::trace::{Attribute, Link, Origin, Side, Trace, TraceSpan, Value};
use serde_json::json;
use std::io::{self, Write};

/// Version of the semantic conventions that names of attributes follow.
const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.37.0";
/// Status of a span that failed.
const ERROR: u64 = 2;

/// How messages are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A line of JSON for each request.
    Json,
    /// Protocol buffers.
    Protobuf,
}

/// The spans of a trace by what they are grouped by, in the order in which these are met.
fn resources(trace: &Trace) -> Vec<(Origin<'_>, Vec<&TraceSpan>)> {
    let mut out: Vec<(Origin<'_>, Vec<&TraceSpan>)> = Vec::new();
    for span in &trace.spans {
        let key = span.origin();
        match out.iter_mut().find(|(k, _)| *k == key) {
            Some((_, spans)) => spans.push(span),
            None => out.push((key, vec![span])),
        }
    }
    out
}

fn kind(side: Side) -> u64 {
    match side {
        Side::Server => 2,
        Side::Client => 3,
        Side::Producer => 4,
    }
}

/// Times before 1970 there are none of.
pub(crate) fn unix_ns(ns: i64) -> u64 {
    u64::try_from(ns).unwrap_or(0)
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Writes a request.
pub fn write(trace: &Trace, form: Form, out: &mut dyn Write) -> io::Result<()> {
    match form {
        Form::Json => {
            serde_json::to_writer(&mut *out, &json(trace))?;
            out.write_all(b"\n")
        }
        Form::Protobuf => out.write_all(protobuf(trace).bytes()),
    }
}

/// A request as JSON.
pub fn json(trace: &Trace) -> serde_json::Value {
    let resources = resources(trace).into_iter().map(|(origin, spans)| {
        json!({
            "resource": { "attributes": attributes_json(&resource(origin)) },
            "scopeSpans": [{
                "scope": { "name": SCOPE, "version": env!("CARGO_PKG_VERSION") },
                "spans": spans.into_iter().map(|s| span_json(&trace.id, s)).collect::<Vec<_>>(),
                "schemaUrl": SCHEMA_URL,
            }],
        })
    });
    json!({ "resourceSpans": resources.collect::<Vec<_>>() })
}

/// What is known of a group of spans.
pub(crate) fn resource((service, host, placement): Origin<'_>) -> Vec<Attribute> {
    let text = |text: &str| Value::Text(text.to_owned());
    let mut attributes = vec![("service.name".into(), text(service)), ("host.name".into(), text(host))];
    attributes.extend_from_slice(placement);
    attributes
}

fn attribute_json(name: &str, value: &Value) -> serde_json::Value {
    match value {
        Value::Text(text) => json!({ "key": name, "value": { "stringValue": text } }),
        // numbers of 64 bits are texts in this form
        Value::Number(n) => json!({ "key": name, "value": { "intValue": n.to_string() } }),
    }
}

fn attributes_json(attributes: &[Attribute]) -> Vec<serde_json::Value> {
    attributes.iter().map(|(name, value)| attribute_json(name, value)).collect()
}

fn span_json(trace: &[u8; 16], s: &TraceSpan) -> serde_json::Value {
    let link = |l: &Link| json!({ "traceId": hex(&l.trace), "spanId": format!("{:016x}", l.span), "attributes": attributes_json(&l.attributes) });
    let mut span = json!({
        "traceId": hex(trace),
        "spanId": format!("{:016x}", s.id),
        "name": s.name,
        "kind": kind(s.side),
        "startTimeUnixNano": unix_ns(s.from_ns).to_string(),
        "endTimeUnixNano": unix_ns(s.to_ns).to_string(),
        "attributes": attributes_json(&s.attributes),
        "events": s.happened.iter().map(|h| json!({
            "timeUnixNano": unix_ns(h.at_ns).to_string(),
            "name": h.name,
            "attributes": attributes_json(&h.attributes),
        })).collect::<Vec<_>>(),
        "links": s.links.iter().map(link).collect::<Vec<_>>(),
    });
    if let Some(parent) = s.parent {
        span["parentSpanId"] = json!(format!("{parent:016x}"));
    }
    if s.failed {
        span["status"] = json!({ "code": ERROR, "message": s.failure });
    }
    span
}

/// A request in protocol buffers: a `TracesData`, which is laid out as an `ExportTraceServiceRequest` is.
pub fn protobuf(trace: &Trace) -> Message {
    let mut data = Message::default();
    for (origin, spans) in resources(trace) {
        data.put(1, |resource_spans| {
            resource_spans.put(1, |message| put_attributes(message, 1, &resource(origin)));
            resource_spans.put(2, |scope_spans| {
                scope_spans.put(1, |scope| {
                    scope.put_bytes(1, SCOPE.as_bytes());
                    scope.put_bytes(2, env!("CARGO_PKG_VERSION").as_bytes());
                });
                for span in spans {
                    scope_spans.put(2, |m| put_span(m, &trace.id, span));
                }
                scope_spans.put_bytes(3, SCHEMA_URL.as_bytes());
            });
        });
    }
    data
}

fn put_attribute(m: &mut Message, field: u32, name: &str, value: &Value) {
    m.put(field, |pair| {
        pair.put_bytes(1, name.as_bytes());
        pair.put(2, |any| match value {
            Value::Text(text) => any.put_bytes_always(1, text.as_bytes()),
            Value::Number(n) => any.put_int_always(3, *n),
        });
    });
}

fn put_attributes(m: &mut Message, field: u32, attributes: &[Attribute]) {
    attributes.iter().for_each(|(name, value)| put_attribute(m, field, name, value));
}

fn put_span(m: &mut Message, trace: &[u8; 16], s: &TraceSpan) {
    m.put_bytes(1, trace);
    m.put_bytes(2, &s.id.to_be_bytes());
    if let Some(parent) = s.parent {
        m.put_bytes(4, &parent.to_be_bytes());
    }
    m.put_bytes(5, s.name.as_bytes());
    m.put_uint(6, kind(s.side));
    m.put_fixed64(7, unix_ns(s.from_ns));
    m.put_fixed64(8, unix_ns(s.to_ns));
    put_attributes(m, 9, &s.attributes);
    for h in &s.happened {
        m.put(11, |event| {
            event.put_fixed64(1, unix_ns(h.at_ns));
            event.put_bytes(2, h.name.as_bytes());
            put_attributes(event, 3, &h.attributes);
        });
    }
    for l in &s.links {
        m.put(13, |link| {
            link.put_bytes(1, &l.trace);
            link.put_bytes(2, &l.span.to_be_bytes());
            put_attributes(link, 4, &l.attributes);
        });
    }
    if s.failed {
        m.put(15, |status| {
            status.put_bytes(2, s.failure.as_bytes());
            status.put_uint(3, ERROR);
        });
    }
}
