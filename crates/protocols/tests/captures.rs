//! Real captures, our own and other people's: every message that tshark shows is found, with what it says of it.
//!
//! What tshark shows of our own is kept beside them (`tests/data/pcap/*.txt`); where tshark is installed, it is asked again,
//! and has to show the same. `UPDATE_CAPTURES=1 cargo test -p wakepath-protocols --test captures` writes it anew.

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{Recorder, Seen, packets};
use wakepath_protocols::mask::{self, Sql};
use wakepath_protocols::{AnyProcessor, Dir, Outcome, Processor, Protocol, Role, Text, Witness};
use wakepath_testkit::data;

/// Feeds a capture, one processor a flow, and returns all that they said by the client's port. The server is the side
/// with `port`.
fn read(bytes: &[u8], protocol: Protocol, port: u16) -> BTreeMap<u16, Recorder> {
    type Flow = (AnyProcessor, Recorder, [Option<u32>; 2], [u64; 2], Option<Dir>);
    let mut flows: BTreeMap<_, Flow> = BTreeMap::new();
    for packet in packets(bytes) {
        let to_server = packet.to.1 == port;
        let (client, server) = if to_server { (packet.from, packet.to) } else { (packet.to, packet.from) };
        let dir = if to_server { Dir::ToServer } else { Dir::ToClient };
        let (processor, recorder, origins, seen, side) = flows.entry((client, server)).or_insert_with(|| {
            let processor = AnyProcessor::new(protocol);
            (processor, Recorder::default(), [None; 2], [0; 2], None)
        });
        // Sequence numbers as stream offsets, from the middle so that an early retransmission has room.
        let (seq, ack) = packet.tcp_seq.unwrap_or_default();
        let mut offset = |dir: Dir, seq: u32| {
            let origin = *origins[dir.index()].get_or_insert(seq);
            (1u64 << 32).wrapping_add_signed(i64::from(seq.wrapping_sub(origin) as i32))
        };
        let (pos, acked) = (offset(dir, seq), offset(dir.other(), ack));
        // What the peer acknowledges has moved, though the capture does not have it.
        let other = &mut seen[dir.other().index()];
        if acked > *other && *other > 0 {
            processor.gap(dir.other(), *other, acked - *other, recorder);
            *other = acked;
        }
        let end = pos + packet.payload.len() as u64 + packet.missing;
        seen[dir.index()] = seen[dir.index()].max(end + u64::from(packet.fin));
        if !packet.payload.is_empty() {
            if *side != Some(dir) {
                processor.turn(dir, pos, recorder);
                *side = Some(dir);
            }
            processor.data(dir, pos, &packet.payload, recorder);
            if packet.missing > 0 {
                processor.gap(dir, pos + packet.payload.len() as u64, packet.missing, recorder);
            }
        }
        if packet.fin {
            processor.shutdown(dir, pos + packet.payload.len() as u64, recorder);
        }
    }
    flows.into_iter().map(|((client, _), (_, recorder, ..))| (client.1, recorder)).collect()
}

/// A capture, how tshark is asked about it, and how its answers and ours become the same words.
struct Capture {
    file: PathBuf,
    protocol: Protocol,
    port: u16,
    /// tshark's name of the protocol; empty where it has none, so that segments are all it shows.
    layer: &'static str,
    fields: &'static [&'static str],
    /// The messages in a packet of these fields, to the server or not. `*`: a message of which nothing is said.
    theirs: fn(bool, &Row) -> Vec<String>,
    ours: fn(&Seen) -> Option<String>,
}

/// The fields of one packet, each with all its values.
struct Row<'r>(Vec<Vec<&'r str>>);

impl<'r> Row<'r> {
    fn all(&self, field: usize) -> &[&'r str] {
        self.0.get(field).map_or(&[], Vec::as_slice)
    }

    fn one(&self, field: usize) -> &'r str {
        self.all(field).first().copied().unwrap_or("")
    }
}

/// A capture of our own.
fn own(name: &str) -> PathBuf {
    data::own(&format!("pcap/{name}.pcap"))
}

/// Other people's.
fn others(name: &str) -> PathBuf {
    data::others(&format!("pcap/{name}.pcap"))
}

/// What tshark shows, a line for each packet: client's port, arrow, fields with their values after `|`.
fn ask_tshark(c: &Capture) -> Option<String> {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(&c.file).args(["-T", "fields", "-E", "occurrence=a", "-E", "aggregator=|"]);
    let transport = if c.protocol == Protocol::DnsUdp { "udp" } else { "tcp" };
    if c.layer.is_empty() {
        command.args(["-Y", "tcp.len > 0"]);
    } else {
        command.args(["-Y", c.layer]);
        // Recognised on its usual port as it is.
        if !c.protocol.ports().contains(&c.port) || c.layer == "http" {
            command.args(["-d", &format!("tcp.port=={},{}", c.port, c.layer)]);
        }
    }
    if c.layer == "http" {
        // Bodies that were not captured to their ends would keep the heads from being shown.
        command.args(["-o", "tcp.desegment_tcp_streams:FALSE"]);
    }
    for field in [format!("{transport}.srcport"), format!("{transport}.dstport")].iter().map(String::as_str) {
        command.args(["-e", field]);
    }
    c.fields.iter().for_each(|field| {
        command.args(["-e", field]);
    });
    let answer = command.output().ok().filter(|answer| answer.status.success())?;
    let mut text = String::new();
    for line in String::from_utf8_lossy(&answer.stdout).lines() {
        let (from, rest) = line.split_once('\t')?;
        let (to, fields) = rest.split_once('\t').unwrap_or((rest, ""));
        let to_server = to == c.port.to_string();
        let line = format!("{} {}\t{fields}", if to_server { from } else { to }, if to_server { '>' } else { '<' });
        text += &(line + "\n");
    }
    Some(text)
}

/// What tshark shows of a capture: asked now, or as kept; `None` where it is neither installed nor was asked before.
fn shown(c: &Capture) -> Option<String> {
    let fresh = ask_tshark(c);
    let kept = c.file.with_extension("txt");
    if let (Some(fresh), true) = (&fresh, std::env::var_os("UPDATE_CAPTURES").is_some() && is_own(&c.file)) {
        std::fs::write(&kept, fresh).unwrap_or_else(|e| panic!("{}: {e}", kept.display()));
    }
    if !is_own(&c.file) {
        return fresh;
    }
    let shown = std::fs::read_to_string(&kept).unwrap_or_else(|e| panic!("{}: {e}", kept.display()));
    if let Some(fresh) = fresh {
        assert_eq!(fresh, shown, "{}: tshark shows something else than is kept", c.file.display());
    }
    Some(shown)
}

fn is_own(file: &Path) -> bool {
    file.parent() == own("http1").parent()
}

fn check(c: &Capture) {
    let name = c.file.display();
    let bytes = std::fs::read(&c.file).unwrap_or_else(|e| panic!("{name}: {e}"));
    let Some(shown) = shown(c) else {
        println!("skipped: there is no tshark to read {name}");
        return;
    };
    let mut theirs: BTreeMap<(u16, bool), Vec<String>> = BTreeMap::new();
    for line in shown.lines() {
        let (head, fields) = line.split_once('\t').unwrap();
        let (client, arrow) = head.split_once(' ').unwrap();
        let row = Row(fields.split('\t').map(|f| f.split('|').filter(|v| !v.is_empty()).collect()).collect());
        let to_server = arrow == ">";
        theirs.entry((client.parse().unwrap(), to_server)).or_default().extend((c.theirs)(to_server, &row));
    }
    theirs.retain(|_, messages| !messages.is_empty());
    let mut ours: BTreeMap<(u16, bool), Vec<String>> = BTreeMap::new();
    let flows = read(&bytes, c.protocol, c.port);
    for (client, recorder) in &flows {
        for seen in &recorder.seen {
            if let Some(words) = (c.ours)(seen) {
                ours.entry((*client, seen.dir == Dir::ToServer)).or_default().push(words);
            }
        }
    }
    assert!(!theirs.is_empty(), "{name}: tshark shows no message");
    let lines = || flows.values().flat_map(|r| &r.lines).take(60).collect::<Vec<_>>();
    assert_eq!(theirs.keys().collect::<Vec<_>>(), ours.keys().collect::<Vec<_>>(), "{name}: {:#?}", lines());
    for (flow, theirs) in &theirs {
        let ours = &ours[flow];
        let same = theirs.len() == ours.len() && theirs.iter().zip(ours).all(|(t, o)| t == "*" || t == o);
        assert!(same, "{name} {flow:?}:\ntshark {theirs:#?}\nours {ours:#?}\n{:#?}", lines());
    }
}

fn path(target: &str) -> String {
    let mut out = Text::<256>::new();
    mask::path(target.as_bytes(), false, &mut out);
    out.as_str().into()
}

fn shape(sql: &str, dialect: Sql) -> String {
    let mut out = Text::<256>::new();
    mask::statement(sql.as_bytes(), false, dialect, &mut out);
    out.as_str().into()
}

fn exchanges(seen: &Seen) -> bool {
    matches!(seen.role, Role::Request | Role::Reply)
}

fn http(file: PathBuf, port: u16) {
    check(&Capture {
        file,
        protocol: Protocol::Http1,
        port,
        layer: "http",
        fields: &["http.request.method", "http.request.uri", "http.response.code"],
        theirs: |to_server, row| match to_server {
            _ if row.one(0).is_empty() && row.one(2).is_empty() => Vec::new(), // more of a body
            true => vec![format!("{} {}", row.one(0), path(row.one(1)))],
            false => vec![row.one(2).into()],
        },
        ours: |seen| {
            Some(match seen.dir {
                Dir::ToServer => format!("{} {}", seen.verb, seen.target),
                Dir::ToClient => seen.code.map_or(String::new(), |code| code.to_string()),
            })
        },
    });
}

#[test]
fn http1() {
    http(own("http1"), 8080);
}

#[test]
#[ignore = "needs WAKEPATH_DATA"]
fn others_http1() {
    http(others("http-client-ip"), 8080);
    http(others("http-httpv1"), 80);
    http(others("http-sw8"), 20880);
}

fn grpc(file: PathBuf, port: u16) {
    check(&Capture {
        file,
        protocol: Protocol::Http2,
        port,
        layer: "http2",
        fields: &["http2.type", "http2.streamid", "http2.headers.method", "http2.headers.path", "http2.headers.status"],
        theirs: |to_server, row| {
            let heads = row.all(0).iter().zip(row.all(1)).filter(|(kind, _)| **kind == "1");
            heads
                .enumerate()
                .map(|(n, (_, stream))| match to_server {
                    true => format!("{stream} {} {}", row.all(2)[n], path(row.all(3)[n])),
                    false => format!("{stream} {}", row.all(4)[n]),
                })
                .collect()
        },
        ours: |seen| {
            // the preface is of no stream
            let Some(Witness::Http2(stream @ 1..)) = seen.witness else { return None };
            Some(match seen.dir {
                Dir::ToServer => format!("{stream} {} {}", seen.verb, seen.target),
                Dir::ToClient => format!("{stream} {}", seen.code.unwrap_or(0)),
            })
        },
    });
}

#[test]
fn http2() {
    grpc(own("http2"), 8082);
}

#[test]
#[ignore = "needs WAKEPATH_DATA"]
fn others_http2() {
    grpc(others("http-grpc-unary"), 30035);
}

fn postgresql(file: PathBuf) {
    check(&Capture {
        file,
        protocol: Protocol::Postgres,
        port: 5432,
        layer: "pgsql",
        fields: &["pgsql.type", "pgsql.query", "pgsql.code"],
        theirs: |to_server, row| match to_server {
            true => vec![shape(row.one(1), Sql::Postgres)],
            // rows, and that the server is ready again, may come in packets of their own
            false => {
                let ends = row.all(0).iter().filter(|kind| matches!(**kind, "Error" | "Command completion"));
                ends.map(|_| row.one(2).into()).collect()
            }
        },
        ours: |seen| Some(if seen.dir == Dir::ToServer { seen.target.clone() } else { seen.class.clone() }),
    });
}

#[test]
fn postgres() {
    postgresql(own("postgres"));
}

#[test]
#[ignore = "needs WAKEPATH_DATA"]
fn others_postgres() {
    postgresql(others("postgre-error"));
    postgresql(others("postgre-simple_query"));
}

fn mysqld(file: PathBuf, port: u16) {
    check(&Capture {
        file,
        protocol: Protocol::MySql,
        port,
        layer: "mysql",
        fields: &[
            "mysql.command",
            "mysql.query",
            "mysql.login_request",
            "mysql.server_greeting",
            "mysql.error_code",
            "mysql.response_code",
        ],
        theirs: |to_server, row| match (to_server, row.one(0)) {
            (true, _) if !row.one(2).is_empty() => vec!["LOGIN".into()],
            (true, "") => vec!["AUTH".into()],
            (true, "1") => vec!["QUIT".into()],
            (true, "2") => vec!["USE".into()],
            (true, "25") => vec!["CLOSE".into()],
            (true, _) if row.one(1).is_empty() => vec!["*".into()],
            (true, _) => vec![shape(row.one(1), Sql::MySql)],
            (false, _) if !row.one(3).is_empty() => vec!["GREETING".into()],
            (false, _) if !row.one(4).is_empty() => vec![format!("error {}", row.one(4))],
            // A change of the login's method is not a reply; tshark calls it as it calls the end of rows.
            (false, _) if row.all(5) == ["0xfe"] => vec!["*".into()],
            (false, _) => vec!["ok".into()],
        },
        ours: |seen| {
            Some(match (seen.dir, seen.outcome, seen.code) {
                (Dir::ToServer, ..) => seen.target.clone(),
                (_, Outcome::Unknown, _) => seen.verb.clone(),
                (_, Outcome::Error, Some(code)) => format!("error {code}"),
                _ => "ok".into(),
            })
        },
    });
}

#[test]
fn mysql() {
    mysqld(own("mysql"), 3306);
}

#[test]
#[ignore = "needs WAKEPATH_DATA"]
fn others_mysql() {
    mysqld(others("mysql-mysql"), 20130);
    mysqld(others("mysql-mysql-error"), 20130);
    mysqld(others("mysql-mysql-statement"), 30130);
}

fn resp(file: PathBuf) {
    check(&Capture {
        file,
        protocol: Protocol::Redis,
        port: 6379,
        layer: "resp",
        fields: &["resp.array.length", "resp.error"],
        theirs: |to_server, row| match to_server {
            true => row.all(0).iter().map(|n| (n.parse::<u32>().unwrap() - 1).to_string()).collect(),
            false => vec![row.one(1).split(' ').next().unwrap_or("").into()],
        },
        ours: |seen| match seen.dir {
            Dir::ToServer => seen.args.map(|args| args.to_string()),
            Dir::ToClient => Some(seen.class.clone()),
        },
    });
}

#[test]
fn redis() {
    resp(own("redis"));
}

#[test]
#[ignore = "needs WAKEPATH_DATA"]
fn others_redis() {
    resp(others("redis-redis-error"));
    resp(others("redis-redis"));
}

fn php(file: PathBuf) {
    check(&Capture {
        file,
        protocol: Protocol::FastCgi,
        port: 9000,
        layer: "",
        fields: &["tcp.len"],
        theirs: |_, _| vec!["*".into()],
        ours: |seen| exchanges(seen).then(String::new),
    });
}

#[test]
fn fastcgi() {
    php(own("fastcgi"));
}

#[test]
#[ignore = "needs WAKEPATH_DATA"]
fn others_fastcgi() {
    php(others("fastcgi-fastcgi"));
}

fn dns(file: PathBuf, protocol: Protocol) {
    check(&Capture {
        file,
        protocol,
        port: 53,
        layer: "dns",
        fields: &["dns.id", "dns.qry.name", "dns.flags.rcode"],
        theirs: |to_server, row| {
            let messages = row.all(0).iter().zip(row.all(1));
            messages
                .map(
                    |(id, name)| if to_server { format!("{id} {name}") } else { format!("{id} {name} {}", row.one(2)) },
                )
                .collect()
        },
        ours: |seen| {
            let Some(Witness::Dns(id)) = seen.witness else { return None };
            let code = seen.code.map_or(String::new(), |code| format!(" {code}"));
            Some(format!("{id:#06x} {}{code}", seen.target))
        },
    });
}

#[test]
fn dns_over_both() {
    dns(own("dns-udp"), Protocol::DnsUdp);
    dns(own("dns-tcp"), Protocol::DnsTcp);
}

#[test]
#[ignore = "needs WAKEPATH_DATA"]
fn others_dns_over_both() {
    dns(others("dns-a-and-ns"), Protocol::DnsUdp);
    dns(others("dns-dns-tcp-multi"), Protocol::DnsTcp);
}

fn memcache(file: PathBuf) {
    check(&Capture {
        file,
        protocol: Protocol::Memcached,
        port: 11211,
        layer: "memcache",
        fields: &["memcache.command"],
        theirs: |_, row| vec![row.one(0).to_uppercase()],
        ours: |seen| Some(seen.verb.clone()),
    });
}

#[test]
fn memcached() {
    memcache(own("memcached"));
}

#[test]
#[ignore = "needs WAKEPATH_DATA"]
fn others_memcached() {
    memcache(others("memcached-memcached"));
}

#[test]
#[ignore = "needs WAKEPATH_DATA"]
fn others_mongo() {
    check(&Capture {
        file: others("mongo-mongo-msg"),
        protocol: Protocol::Mongo,
        port: 3717,
        layer: "mongo",
        fields: &["mongo.request_id", "mongo.response_to", "mongo.element.name"],
        theirs: |to_server, row| match to_server {
            true => vec![format!("{} {}", row.one(0), row.one(2))],
            false => vec![format!("{} ok", row.one(1))],
        },
        ours: |seen| {
            let Some(Witness::Mongo(id)) = seen.witness else { return None };
            let says = if seen.outcome == Outcome::Ok { "ok" } else { &seen.verb };
            Some(format!("{id:#010x} {says}"))
        },
    });
}

#[test]
#[ignore = "needs WAKEPATH_DATA"]
fn others_kafka() {
    check(&Capture {
        file: others("kafka-00-produce-v7-sw8"),
        protocol: Protocol::Kafka,
        port: 36333,
        layer: "kafka",
        fields: &["kafka.correlation_id", "kafka.topic_name", "kafka.error"],
        theirs: |to_server, row| match to_server {
            true => vec![format!("{} {}", row.one(0), row.one(1))],
            false => vec![format!("{} {}", row.one(0), row.one(2))],
        },
        ours: |seen| {
            let Some(Witness::Kafka(id)) = seen.witness else { return None };
            let says = seen.code.map_or(seen.target.clone(), |code| code.to_string());
            Some(format!("{id} {says}"))
        },
    });
}

fn rabbitmq(file: PathBuf) {
    check(&Capture {
        file,
        protocol: Protocol::Amqp,
        port: 5672,
        layer: "amqp",
        fields: &["amqp.method.class", "amqp.method.method"],
        theirs: |to_server, row| {
            let methods = row.all(0).iter().zip(row.all(1));
            let name = |(class, number): (&&str, &&str)| match (*class, *number) {
                ("10", "11") => "connection.start-ok",
                ("10", "31") => "connection.tune-ok",
                ("10", "40") => "connection.open",
                ("10", "50") => "connection.close",
                ("20", "10") => "channel.open",
                ("20", "40") => "channel.close",
                ("40", "10") => "exchange.declare",
                ("50", "10") => "queue.declare",
                ("50", "20") => "queue.bind",
                ("60", "20") => "basic.consume",
                ("60", "40") => "basic.publish",
                ("60", "60") => "basic.deliver",
                ("60", "80") => "basic.ack",
                _ if to_server => "*",
                _ => "",
            };
            methods.map(|method| name(method).into()).collect()
        },
        // The first bytes of a connection are no method to tshark.
        ours: |seen| (seen.verb != "connect").then(|| seen.verb.clone()),
    });
}

#[test]
fn amqp() {
    rabbitmq(own("amqp"));
}

#[test]
#[ignore = "needs WAKEPATH_DATA"]
fn others_amqp() {
    rabbitmq(others("amqp-amqp1"));
}
