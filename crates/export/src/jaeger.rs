//! The JSON that Jaeger's page takes by "upload", and its API gives.

use crate::otlp::hex;
use crate::trace::{Attribute, Origin, Side, Trace, TraceSpan, Value};
use serde_json::json;
use std::io::{self, Write};

/// Writes traces one after the other; [`Writer::finish`] ends the document.
#[derive(Default)]
pub struct Writer {
    has_any: bool,
}

impl Writer {
    /// Adds a request.
    pub fn write(&mut self, trace: &Trace, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(if self.has_any { b",\n" } else { b"{\"data\":[\n" })?;
        self.has_any = true;
        serde_json::to_writer(out, &json(trace)).map_err(io::Error::from)
    }

    /// Ends the document.
    pub fn finish(self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(if self.has_any { b"\n]}\n" } else { b"{\"data\":[]}\n" })
    }
}

fn json(trace: &Trace) -> serde_json::Value {
    let mut services: Vec<Origin<'_>> = Vec::new();
    let mut spans = Vec::with_capacity(trace.spans.len());
    for s in &trace.spans {
        let key = s.origin();
        let number = services.iter().position(|k| *k == key).unwrap_or_else(|| {
            services.push(key);
            services.len() - 1
        });
        spans.push(span(&hex(&trace.id), s, number));
    }
    let processes: serde_json::Map<String, serde_json::Value> = services
        .iter()
        .enumerate()
        .map(|(n, (service, host, placement))| {
            let mut of = vec![tag("host.name", &Value::Text((*host).to_owned()))];
            of.extend(tags(placement));
            (format!("p{n}"), json!({ "serviceName": service, "tags": of }))
        })
        .collect();
    json!({ "traceID": hex(&trace.id), "spans": spans, "processes": processes })
}

fn tag(name: &str, value: &Value) -> serde_json::Value {
    match value {
        Value::Text(text) => json!({ "key": name, "type": "string", "value": text }),
        Value::Number(n) => json!({ "key": name, "type": "int64", "value": n }),
    }
}

fn tags(attributes: &[Attribute]) -> Vec<serde_json::Value> {
    attributes.iter().map(|(name, value)| tag(name, value)).collect()
}

fn span(trace: &str, s: &TraceSpan, process: usize) -> serde_json::Value {
    let reference = |kind: &str, trace: &str, span: u64| json!({ "refType": kind, "traceID": trace, "spanID": format!("{span:016x}") });
    let parent = s.parent.map(|p| reference("CHILD_OF", trace, p));
    let links = s.links.iter().map(|l| reference("FOLLOWS_FROM", &hex(&l.trace), l.span));
    let kind = match s.side {
        Side::Server => "server",
        Side::Client => "client",
        Side::Producer => "producer",
    };
    let mut tags_of = tags(&s.attributes);
    tags_of.push(tag("span.kind", &Value::Text(kind.into())));
    if s.failed {
        tags_of.push(json!({ "key": "error", "type": "bool", "value": true }));
        tags_of.push(tag("otel.status_description", &Value::Text(s.failure.clone())));
    }
    // the form has microseconds: the exact times are tags
    tags_of.push(tag("wakepath.start_ns", &Value::Number(s.from_ns)));
    tags_of.push(tag("wakepath.duration_ns", &Value::Number(s.to_ns.saturating_sub(s.from_ns))));
    json!({
        "traceID": trace,
        "spanID": format!("{:016x}", s.id),
        "operationName": s.name,
        "references": parent.into_iter().chain(links).collect::<Vec<_>>(),
        "startTime": s.from_ns.div_euclid(1000),
        "duration": s.to_ns.saturating_sub(s.from_ns).div_euclid(1000),
        "tags": tags_of,
        "logs": s.happened.iter().map(|h| {
            let mut fields = vec![tag("event", &Value::Text(h.name.into()))];
            fields.extend(tags(&h.attributes));
            json!({ "timestamp": h.at_ns.div_euclid(1000), "fields": fields })
        }).collect::<Vec<_>>(),
        "processID": format!("p{process}"),
    })
}
