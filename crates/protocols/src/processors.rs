//! The list of protocols, in the order in which they are tried: a `mod` and a line each. A test holds it against
//! `tests/golden/`, and `cargo xtask tables` makes the table of `docs/protocols.md` from it.

pub mod amqp;
pub mod dns;
pub mod fastcgi;
pub mod http1;
pub mod http2;
pub mod jsonrpc;
pub mod kafka;
pub mod line;
pub mod memcached;
pub mod mongo;
pub mod mysql;
pub mod nats;
pub mod oneshot;
pub mod postgres;
pub mod redis;
pub mod tls;
pub mod websocket;
pub mod x11;

use crate::registry::{About, Maker, Transport, registry};
use crate::{Dir, Processor, Sink};

registry! {
    Nats(nats::Nats) = nats::ABOUT;
    Http1(http1::Http1) = http1::ABOUT;
    Postgres(postgres::Postgres) = postgres::ABOUT;
    Redis(redis::Redis) = redis::ABOUT;
    FastCgi(fastcgi::FastCgi) = fastcgi::ABOUT;
    Http2(http2::Http2) = http2::ABOUT;
    MySql(mysql::MySql) = mysql::ABOUT;
    Amqp(amqp::Amqp) = amqp::ABOUT;
    Mongo(mongo::Mongo) = mongo::ABOUT;
    Kafka(kafka::Kafka) = kafka::ABOUT;
    Memcached(memcached::Memcached) = memcached::ABOUT;
    X11(x11::X11) = x11::ABOUT;
    DnsTcp(dns::DnsTcp) = dns::TCP;
    DnsUdp(dns::DnsUdp) = dns::UDP;
    Tls(tls::Tls) = tls::ABOUT;
    JsonRpc(jsonrpc::JsonRpc) = jsonrpc::ABOUT;
    WebSocket(websocket::WebSocket) = websocket::ABOUT;
    Line(line::Line) = line::ABOUT;
    Oneshot(oneshot::Oneshot) = oneshot::ABOUT;
}
