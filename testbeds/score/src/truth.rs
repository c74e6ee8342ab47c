//! Truth files (docs/formats/truth.md), and finding the hop that a span is.

use anyhow::{Context, Result, bail, ensure};
use rustc_hash::FxHashMap;
use serde::Deserialize;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// An address as the trace has it: IPv4 in the first four bytes.
pub type Addr = ([u8; 16], u16);

/// A connection's two ends: who called, who served.
pub type Line = (Addr, Addr);

/// Clocks of two ends of a call are read around it, not in it.
const SLACK_NS: u64 = 1_000_000;

#[derive(Deserialize)]
struct HeaderLine {
    format: String,
    version: u32,
    #[serde(default)]
    models: Vec<String>,
    #[serde(default)]
    policy: String,
    #[serde(default)]
    wire: String,
}

#[derive(Deserialize)]
struct RequestLine {
    request: u64,
    start_ns: u64,
    end_ns: u64,
    ok: bool,
    hops: Vec<HopLine>,
}

#[derive(Deserialize)]
struct HopLine {
    hop: u64,
    parent: u64,
    client: SocketAddr,
    server: SocketAddr,
    component: String,
    conn_bytes: u64,
    send_ns: [u64; 2],
    reply_ns: u64,
}

/// One call.
#[derive(Debug)]
pub struct Hop {
    /// Index of its request.
    pub request: u32,
    /// Id within the request.
    pub id: u64,
    /// The calling hop's id; 0 is the client.
    pub parent: u64,
    /// Index of the called server's name.
    pub component: u16,
    /// Who called.
    pub client: Addr,
    /// Who served.
    pub server: Addr,
    /// Bytes of the caller before it on the connection.
    pub conn_bytes: u64,
    /// Before the first and after the last send call.
    pub send_ns: [u64; 2],
    /// After the reply was read; 0 if it never was.
    pub reply_ns: u64,
}

/// One request of the client.
#[derive(Debug)]
pub struct Request {
    /// Its number in the file.
    pub number: u64,
    /// Before its connection was opened or taken.
    pub start_ns: u64,
    /// After its reply was read.
    pub end_ns: u64,
    /// Answered, and correctly.
    pub ok: bool,
    /// Index of its first hop; its hops follow each other.
    pub first: u32,
    /// How many hops.
    pub count: u32,
}

/// A truth file in memory.
#[derive(Debug, Default)]
pub struct Truth {
    /// Models of the tiers, connection policy and framing, for the report.
    pub about: String,
    /// All requests.
    pub requests: Vec<Request>,
    /// All hops, request after request.
    pub hops: Vec<Hop>,
    /// Names of servers.
    pub components: Vec<String>,
    lines: FxHashMap<Line, Vec<u32>>,
    servers: FxHashMap<Addr, u16>,
}

fn addr(a: SocketAddr) -> Addr {
    let mut bytes = [0; 16];
    match a.ip().to_canonical() {
        IpAddr::V4(v4) => bytes[..4].copy_from_slice(&v4.octets()),
        IpAddr::V6(v6) => bytes = v6.octets(),
    }
    (bytes, a.port())
}

impl Truth {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Truth> {
        let file = File::open(path).with_context(|| format!("{}: cannot be opened", path.display()))?;
        let mut truth = Truth::default();
        let mut names: FxHashMap<String, u16> = FxHashMap::default();
        for (i, line) in BufReader::with_capacity(1 << 20, file).lines().enumerate() {
            let line = line?;
            let place = || format!("{}:{}", path.display(), i + 1);
            if i == 0 {
                let h: HeaderLine = serde_json::from_str(&line).with_context(place)?;
                ensure!(h.format == "wakepath-truth" && h.version == 1, "{}: not a truth file of version 1", place());
                truth.about = format!("{} {} {}", h.models.join(","), h.policy, h.wire);
                continue;
            }
            let r: RequestLine = serde_json::from_str(&line).with_context(place)?;
            truth.add(r, &mut names);
        }
        if truth.requests.is_empty() {
            bail!("{}: no requests", path.display());
        }
        let hops = &truth.hops;
        for list in truth.lines.values_mut() {
            list.sort_by_key(|&h| hops[h as usize].send_ns[0]);
        }
        Ok(truth)
    }

    fn add(&mut self, r: RequestLine, names: &mut FxHashMap<String, u16>) {
        let request = self.requests.len() as u32;
        let first = self.hops.len() as u32;
        self.requests.push(Request {
            number: r.request,
            start_ns: r.start_ns,
            end_ns: r.end_ns,
            ok: r.ok,
            first,
            count: r.hops.len() as u32,
        });
        for h in r.hops {
            let component = *names.entry(h.component).or_insert_with_key(|name| {
                self.components.push(name.clone());
                self.components.len() as u16 - 1
            });
            let (client, server) = (addr(h.client), addr(h.server));
            self.servers.insert(server, component);
            self.lines.entry((client, server)).or_default().push(self.hops.len() as u32);
            self.hops.push(Hop {
                request,
                id: h.hop,
                parent: h.parent,
                component,
                client,
                server,
                conn_bytes: h.conn_bytes,
                send_ns: h.send_ns,
                reply_ns: h.reply_ns,
            });
        }
    }

    /// When the first message of a connection was sent.
    pub fn first_sent_ns(&self, line: &Line) -> Option<u64> {
        self.lines.get(line)?.first().map(|&h| self.hops[h as usize].send_ns[0])
    }

    /// Takes so many ns off all times. A time of 0 says that there is none.
    pub fn set_back(&mut self, ns: i64) {
        let earlier = |t: &mut u64| {
            if *t != 0 {
                *t = t.saturating_add_signed(ns.saturating_neg()).max(1);
            }
        };
        for r in &mut self.requests {
            earlier(&mut r.start_ns);
            earlier(&mut r.end_ns);
        }
        for h in &mut self.hops {
            h.send_ns.iter_mut().for_each(earlier);
            earlier(&mut h.reply_ns);
        }
    }

    /// The hops of a request, by index.
    pub fn hops_of(&self, request: u32) -> std::ops::Range<u32> {
        let r = &self.requests[request as usize];
        r.first..r.first + r.count
    }

    /// The hop that made a hop's call, by index; `None` where that is the client.
    pub fn parent(&self, hop: u32) -> Option<u32> {
        let h = &self.hops[hop as usize];
        self.hops_of(h.request).find(|&p| h.parent != 0 && self.hops[p as usize].id == h.parent)
    }

    /// Whether one of the servers is there.
    pub fn is_server(&self, a: &Addr) -> bool {
        self.servers.contains_key(a)
    }

    /// The name of the server that is there.
    pub fn component_at(&self, a: &Addr) -> Option<&str> {
        self.servers.get(a).map(|&c| &self.components[usize::from(c)][..])
    }

    /// The hop with a message on this connection, at this offset where known, under way at this time.
    pub fn find(&self, line: &Line, offset: Option<u64>, at: u64) -> Option<u32> {
        const LOW: u64 = 0xffff_ffff;
        let list = self.lines.get(line)?;
        // without an offset only time tells one message from the next
        let slack = if offset.is_some() { SLACK_NS } else { 0 };
        let next = list.partition_point(|&h| self.hops[h as usize].send_ns[0] <= at.saturating_add(slack));
        let fits = |h: &Hop| {
            let under_way = h.reply_ns == 0 || at <= h.reply_ns + slack;
            under_way && offset.is_none_or(|o| o & LOW == h.conn_bytes & LOW)
        };
        list[..next].iter().rev().copied().find(|&h| fits(&self.hops[h as usize]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn truth(lines: &[&str]) -> Truth {
        let mut t = Truth::default();
        let mut names = FxHashMap::default();
        for l in lines {
            t.add(serde_json::from_str(l).expect("a request"), &mut names);
        }
        t
    }

    const ONE: &str = r#"{"request":1,"start_ns":10000000,"end_ns":90000000,"ok":true,"hops":[
        {"hop":1,"parent":0,"client":"127.0.0.1:5","server":"127.0.0.1:9","component":"a",
         "conn_bytes":0,"send_ns":[20000000,21000000],"reply_ns":80000000},
        {"hop":17,"parent":1,"client":"127.0.0.1:6","server":"127.0.0.1:8","component":"b",
         "conn_bytes":7,"send_ns":[30000000,31000000],"reply_ns":40000000}]}"#;

    #[test]
    fn finds_by_line_offset_and_time() {
        let t = truth(&[ONE]);
        let at = |s: &str| addr(s.parse().expect("an address"));
        let line = (at("127.0.0.1:6"), at("127.0.0.1:8"));
        assert_eq!(t.find(&line, Some(7), 30_500_000), Some(1));
        assert_eq!(t.find(&line, Some(8), 30_500_000), None);
        assert_eq!(t.find(&line, None, 30_500_000), Some(1));
        assert_eq!(t.find(&line, Some(7), 20_000_000), None, "before it was sent");
        assert_eq!(t.find(&line, Some(7), 60_000_000), None, "after its reply");
        let mut earlier = truth(&[ONE]);
        earlier.set_back(5_000_000);
        assert_eq!(earlier.first_sent_ns(&line), Some(25_000_000));
        assert_eq!((earlier.requests[0].start_ns, earlier.requests[0].end_ns), (5_000_000, 85_000_000));
        assert_eq!(t.parent(1), Some(0));
        assert_eq!(t.parent(0), None);
        assert_eq!(t.component_at(&at("[::ffff:127.0.0.1]:8")), Some("b"));
    }
}
