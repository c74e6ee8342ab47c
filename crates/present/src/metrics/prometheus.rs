//! Metrics in the text format of Prometheus, version 0.0.4.
//!
//! Labels are bounded as the metrics are: services, kinds of a service, and status codes of a kind; what found no room there is
//! one label value called `(other)`.

use super::{Part, chosen};
use crate::text::is_unsafe;
use std::fmt::Write as _;
use wakepath_analysis::histogram::Histogram;
use wakepath_analysis::metrics::{Network, Tally};

/// What HTTP wants to hear of it.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Upper bounds of the buckets, ns.
pub const BOUNDS: [u64; 16] = [
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
];

/// Nanoseconds as seconds, exactly.
pub fn seconds(ns: u128) -> String {
    let text = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// `{name="value",…}`, values escaped.
pub fn labels(pairs: &[(&str, &str)]) -> String {
    let mut out = String::from("{");
    for (i, (name, value)) in pairs.iter().enumerate() {
        let _ = write!(out, "{}{name}=\"", if i == 0 { "" } else { "," });
        for c in value.chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                '"' => out.push_str("\\\""),
                '\n' => out.push_str("\\n"),
                // what a terminal would obey is spelt out: different values stay different
                c if is_unsafe(c) => drop(write!(out, "\\\\u{{{:x}}}", u32::from(c))),
                c => out.push(c),
            }
        }
        out.push('"');
    }
    out.push('}');
    out
}

struct Writer(String);

impl Writer {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, pairs: &[(&str, &str)], value: u64) {
        let _ = writeln!(self.0, "{name}{} {value}", if pairs.is_empty() { String::new() } else { labels(pairs) });
    }

    fn histogram(&mut self, name: &str, pairs: &[(&str, &str)], h: &Histogram) {
        let bounds = BOUNDS.map(|b| (seconds(b.into()), h.at_most(b)));
        for (bound, count) in bounds.iter().chain([&("+Inf".to_owned(), h.count())]) {
            let bucket = [pairs, &[("le", bound)]].concat();
            let _ = writeln!(self.0, "{name}_bucket{} {count}", labels(&bucket));
        }
        let _ = writeln!(self.0, "{name}_sum{} {}", labels(pairs), seconds(h.sum()));
        let _ = writeln!(self.0, "{name}_count{} {}", labels(pairs), h.count());
    }
}

/// One kind with its labels.
struct KindSample {
    service: String,
    protocol: String,
    asked: String,
    is_http: bool,
    open: u64,
    tally: Tally,
}

impl KindSample {
    fn pairs(&self) -> [(&'static str, &str); 3] {
        [("service", &self.service), ("protocol", &self.protocol), ("kind", &self.asked)]
    }

    /// Requests by what became of them: HTTP's status codes, elsewhere `ok`, `error` and `unknown`.
    fn statuses(&self) -> Vec<(String, u64)> {
        let c = &self.tally.counts;
        let mut out: Vec<(String, u64)> = Vec::new();
        if self.is_http {
            let code = |s: u16| if s == 0 { "none".to_owned() } else { s.to_string() };
            out.extend(c.statuses.iter().map(|&(s, n)| (code(s), n)));
            out.push(("(other)".into(), c.other_statuses));
        } else {
            out.push(("ok".into(), c.succeeded));
            out.push(("error".into(), c.rejected + c.failed));
            out.push(("unknown".into(), c.outcome_unknown));
        }
        out.push(("unanswered".into(), c.unanswered));
        out.push(("no_reply".into(), c.no_reply));
        out.push(("reply_missed".into(), c.reply_missed));
        out.retain(|(_, n)| *n > 0);
        out
    }
}

/// Renders the metrics; `packets` are those that were captured, where that is known.
pub fn render(parts: &[Part<'_>], service: Option<&str>, packets: Option<u64>) -> String {
    let chosen = chosen(parts, service);
    let mut kinds: Vec<KindSample> = Vec::new();
    let mut networks: Vec<(String, Network, u64, u64)> = Vec::new();
    for (part, number, s) in &chosen {
        let m = part.metrics;
        let label = s.place.label();
        kinds.extend(s.kinds.iter().map(|&k| {
            let kind = m.kind(k);
            KindSample {
                service: label.clone(),
                protocol: kind.protocol.trim_start_matches("proto.").to_owned(),
                asked: kind.asked.clone(),
                is_http: kind.protocol.starts_with("proto.http"),
                open: kind.open,
                tally: m.kind_tally(k).into_owned(),
            }
        }));
        if part.seen == super::Seen::Packets {
            let replies = m.service_tally(*number).counts.reply_only;
            networks.push((label, m.network(*number), s.flows_open, replies));
        }
    }
    let mut out = Writer(String::new());
    of_kinds(&kinds, &mut out);
    of_networks(&networks, &mut out);
    of_capture(parts, packets, &mut out);
    out.0
}

fn of_kinds(kinds: &[KindSample], out: &mut Writer) {
    const REQUESTS: &str = "wakepath_requests_total";
    out.family(REQUESTS, "counter", "Requests that are over, by the status of their reply.");
    for k in kinds {
        let [service, protocol, kind] = k.pairs();
        for (status, n) in k.statuses() {
            out.sample(REQUESTS, &[service, protocol, kind, ("status", &status)], n);
        }
    }
    type Value = fn(&KindSample) -> u64;
    let counters: [(&str, &str, &str, Value); 4] = [
        (
            "wakepath_requests_failed_total",
            "counter",
            "Requests answered with an error (HTTP: 5xx) or not answered.",
            |k| k.tally.counts.failed + k.tally.counts.unanswered,
        ),
        ("wakepath_requests_open", "gauge", "Requests in service.", |k| k.open),
        ("wakepath_request_bytes_total", "counter", "Bytes of requests.", |k| k.tally.counts.request_bytes),
        ("wakepath_reply_bytes_total", "counter", "Bytes of replies.", |k| k.tally.counts.reply_bytes),
    ];
    for (name, kind, help, value) in counters {
        out.family(name, kind, help);
        for k in kinds {
            out.sample(name, &k.pairs(), value(k));
        }
    }
    const DURATION: &str = "wakepath_request_duration_seconds";
    out.family(
        DURATION,
        "histogram",
        "Service time: last packet of the request's header to last packet of the reply's.",
    );
    for k in kinds {
        out.histogram(DURATION, &k.pairs(), &k.tally.times.head);
    }
}

fn of_networks(networks: &[(String, Network, u64, u64)], out: &mut Writer) {
    type Value = fn(&(String, Network, u64, u64)) -> u64;
    let singles: [(&str, &str, &str, Value); 4] = [
        ("wakepath_flows_total", "counter", "Connections and datagram flows seen.", |n| n.1.counts.flows),
        ("wakepath_flows_open", "gauge", "Flows that are not over.", |n| n.2),
        ("wakepath_tcp_refused_total", "counter", "Connections that the server refused.", |n| n.1.counts.refused),
        ("wakepath_replies_only_total", "counter", "Replies whose request was not captured.", |n| n.3),
    ];
    for (name, kind, help, value) in singles {
        out.family(name, kind, help);
        for n in networks {
            out.sample(name, &[("service", &n.0)], value(n));
        }
    }
    const RESETS: &str = "wakepath_tcp_resets_total";
    out.family(RESETS, "counter", "Connections that were reset, not counting refused ones.");
    for (service, n, ..) in networks {
        for (by, count) in ["client", "server"].iter().zip(n.counts.resets) {
            out.sample(RESETS, &[("service", service), ("by", by)], count);
        }
    }
    type Pair = fn(&Network) -> [u64; 2];
    let pairs: [(&str, &str, Pair); 7] = [
        ("wakepath_packets_total", "Packets.", |n| n.counts.packets),
        ("wakepath_wire_bytes_total", "Bytes of packets, without tunnels around them.", |n| n.counts.wire_bytes),
        ("wakepath_stream_bytes_total", "Bytes of streams, each counted once.", |n| n.counts.stream_bytes),
        ("wakepath_missing_bytes_total", "Bytes of streams that were never captured.", |n| n.counts.missing_bytes),
        ("wakepath_tcp_retransmits_total", "Segments that repeated bytes.", |n| n.counts.retransmitted),
        ("wakepath_tcp_reordered_total", "Segments that arrived out of order.", |n| n.counts.reordered),
        ("wakepath_tcp_zero_windows_total", "Zero windows that this direction's sender received.", |n| {
            n.counts.zero_windows
        }),
    ];
    for (name, help, value) in pairs {
        out.family(name, "counter", help);
        for (service, n, ..) in networks {
            for (direction, count) in ["to_server", "to_client"].iter().zip(value(n)) {
                out.sample(name, &[("service", service), ("direction", direction)], count);
            }
        }
    }
    const HANDSHAKE: &str = "wakepath_tcp_handshake_seconds";
    out.family(
        HANDSHAKE,
        "histogram",
        "Handshakes: SYN to SYN-ACK on the server's side, SYN-ACK to ACK on the client's.",
    );
    for (service, n, ..) in networks {
        for (side, h) in [("server", &n.rtt_server), ("client", &n.rtt_client)] {
            if h.count() > 0 {
                out.histogram(HANDSHAKE, &[("service", service), ("side", side)], h);
            }
        }
    }
}

fn of_capture(parts: &[Part<'_>], packets: Option<u64>, out: &mut Writer) {
    if let Some(packets) = packets {
        const PACKETS: &str = "wakepath_capture_packets_total";
        out.family(PACKETS, "counter", "Packets that were captured.");
        out.sample(PACKETS, &[], packets);
    }
    const LOST: &str = "wakepath_capture_lost_packets_total";
    out.family(LOST, "counter", "Packets that the capture lost.");
    out.sample(LOST, &[], parts.iter().map(|p| p.metrics.lost_packets()).sum());
    let mut limits = super::LimitsView::default();
    parts.iter().for_each(|p| limits.add(&p.metrics.limits()));
    const UNTOLD: &str = "wakepath_metrics_untold_total";
    out.family(UNTOLD, "counter", "Records without room in the metrics, or without a known flow.");
    let whats = [
        ("requests_in_other_kinds", limits.requests_in_other_kinds),
        ("flows_in_other_services", limits.flows_in_other_services),
        ("requests_without_flow", limits.requests_without_flow),
        ("flows_forgotten", limits.flows_forgotten),
        ("open_requests", limits.open_untold),
    ];
    for (what, n) in whats {
        out.sample(UNTOLD, &[("what", what)], n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_exact() {
        for (ns, text) in
            [(0, "0"), (1, "0.000000001"), (2_500_000, "0.0025"), (1_000_000_000, "1"), (90_000_000_000, "90")]
        {
            assert_eq!(seconds(ns), text);
        }
    }

    #[test]
    fn labels_are_escaped() {
        assert_eq!(labels(&[("a", "x\\\"\n{}"), ("b", "ü")]), "{a=\"x\\\\\\\"\\n{}\",b=\"ü\"}");
        assert_eq!(labels(&[("a", "\x1b[2J\r\u{9b}\u{202e}")]), r#"{a="\\u{1b}[2J\\u{d}\\u{9b}\\u{202e}"}"#);
    }
}
