//! What is known of one side of a call, under the names of OpenTelemetry's semantic conventions.

use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};
use wakepath_analysis::each::End;
use wakepath_analysis::names::{Names, Placement};
use wakepath_causality::exchange::ExchangeFlag;
use wakepath_causality::path::Half;
use wakepath_flows::Place;
use wakepath_present::text::escaped;

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text, in which everything unsafe to show is an escape.
    Text(String),
    /// A whole number.
    Number(i64),
}

/// An attribute: its name, and its value.
pub type Attribute = (Cow<'static, str>, Value);

/// Attributes in the order in which they are told.
#[derive(Default)]
pub struct Attributes(pub Vec<Attribute>);

impl Attributes {
    /// Adds a text that is not empty.
    pub fn text(&mut self, name: &'static str, text: &str) {
        if !text.is_empty() {
            self.0.push((name.into(), Value::Text(escaped(text).into_owned())));
        }
    }

    /// Adds a number.
    pub fn number(&mut self, name: impl Into<Cow<'static, str>>, number: i64) {
        self.0.push((name.into(), Value::Number(number)));
    }
}

/// In which container, pod and systemd unit something runs.
pub fn placement(p: &Placement<'_>) -> Vec<Attribute> {
    let mut a = Attributes::default();
    a.text("container.id", p.container);
    a.text("container.runtime.name", p.runtime);
    a.text("container.image.name", p.image);
    let is_pod = !p.pod.is_empty() || !p.pod_uid.is_empty();
    a.text(if is_pod { "k8s.container.name" } else { "container.name" }, p.name);
    a.text("k8s.namespace.name", p.namespace);
    a.text("k8s.pod.name", p.pod);
    a.text("k8s.pod.uid", p.pod_uid);
    a.text("k8s.deployment.name", p.deployment);
    a.text("wakepath.systemd.unit", p.unit);
    a.0
}

/// What was asked, and what the reply said.
pub fn asked(names: &Names<'_>, half: &Half, is_server: bool, a: &mut Attributes) {
    let e = &half.exchange;
    let text = |id| names.text(half.host, id);
    let (protocol, verb, target) =
        (text(e.content.protocol).trim_start_matches("proto."), text(e.content.verb), text(e.content.target));
    a.text("network.protocol.name", protocol);
    let is_http = matches!(protocol, "http1" | "http2" | "fastcgi");
    if e.content.status != 0 {
        a.number(if is_http { "http.response.status_code" } else { "wakepath.status" }, i64::from(e.content.status));
    }
    match protocol {
        _ if is_http => {
            a.text("http.request.method", verb);
            a.text(if is_server { "http.route" } else { "url.template" }, target);
        }
        "postgres" | "mysql" => {
            a.text("db.system.name", if protocol == "postgres" { "postgresql" } else { protocol });
            a.text("db.operation.name", verb);
            // a statement's shape: every literal is masked
            a.text("db.query.text", target);
        }
        "mongo" => {
            a.text("db.system.name", "mongodb");
            a.text("db.operation.name", verb);
            a.text("db.collection.name", target);
        }
        "redis" | "memcached" => {
            a.text("db.system.name", protocol);
            a.text("db.operation.name", verb);
        }
        "kafka" | "amqp" => {
            a.text("messaging.system", if protocol == "amqp" { "rabbitmq" } else { protocol });
            a.text("messaging.operation.name", verb);
            a.text("messaging.destination.name", target);
        }
        "dns" => a.text("dns.question.name", target),
        _ => {}
    }
}

/// Who spoke with whom, as this side's socket has it.
pub fn addresses(place: &Place, is_server: bool, a: &mut Attributes) {
    const AF_UNIX: u16 = 1;
    const TCP: u16 = 6;
    const UDP: u16 = 17;
    a.text(
        "network.transport",
        match (place.family, place.protocol) {
            (AF_UNIX, _) => "unix",
            (_, TCP) => "tcp",
            (_, UDP) => "udp",
            _ => "",
        },
    );
    if place.lport == 0 || place.rport == 0 {
        return;
    }
    let (own, peer) = ((place.laddr, place.lport), (place.raddr, place.rport));
    let (server, client) = if is_server { (own, peer) } else { (peer, own) };
    a.text("server.address", &address(place.family, server.0));
    a.number("server.port", i64::from(server.1));
    a.text("client.address", &address(place.family, client.0));
    a.number("client.port", i64::from(client.1));
}

fn address(family: u16, bytes: [u8; 16]) -> String {
    const AF_INET6: u16 = 10;
    let [a, b, c, d, ..] = bytes;
    if family == AF_INET6 { Ipv6Addr::from(bytes).to_string() } else { Ipv4Addr::new(a, b, c, d).to_string() }
}

/// How it ended; what went wrong, for people, where something did.
pub fn ending(names: &Names<'_>, half: &Half, a: &mut Attributes) -> Option<String> {
    let e = &half.exchange;
    let detail = names.text(half.host, e.content.detail);
    let ended = match End::of(e) {
        End::ClientLeft => Some((
            "client_left",
            "the client closed the connection, or took the request back, before the reply was complete",
        )),
        End::Reset => Some(("reset", "the connection was reset before the reply was complete")),
        End::Unfinished => Some(("unfinished", "")),
        End::Cut => Some(("cut", "the connection ended before the reply was complete")),
        End::Answered => None,
    };
    let (kind, failure) = match ended {
        // whether it will fail is not known
        Some(("unfinished", _)) => {
            a.text("wakepath.end", "its end was not recorded");
            return None;
        }
        Some((kind, failure)) => (kind.to_owned(), failure.to_owned()),
        None if e.is(ExchangeFlag::Failed) && !detail.is_empty() => (detail.to_owned(), detail.to_owned()),
        None if e.is(ExchangeFlag::Failed) && e.content.status != 0 => {
            (e.content.status.to_string(), format!("status {}", e.content.status))
        }
        None if e.is(ExchangeFlag::Failed) => ("_OTHER".to_owned(), "the reply says that it failed".to_owned()),
        None => return None,
    };
    a.text("error.type", &kind);
    Some(escaped(&failure).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_serves_is_the_server_on_both_sides() {
        let place = |own: u8, lport, peer: u8, rport| {
            let at = |last| {
                let mut bytes = [0; 16];
                bytes[..4].copy_from_slice(&[10, 0, 0, last]);
                bytes
            };
            Place { laddr: at(own), raddr: at(peer), lport, rport, family: 2, protocol: 6, ..Place::default() }
        };
        let (mut server, mut client) = (Attributes::default(), Attributes::default());
        addresses(&place(1, 80, 2, 40_000), true, &mut server);
        addresses(&place(2, 40_000, 1, 80), false, &mut client);
        assert_eq!(server.0, client.0);
        assert!(server.0.contains(&("server.address".into(), Value::Text("10.0.0.1".into()))), "{:?}", server.0);
    }
}
