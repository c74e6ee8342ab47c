//! What really happened: hops, and the truth file (see `docs/formats/truth.md`).

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::sync::Mutex;

use serde::Serialize;

/// One call: a request message on a flow and its reply, as its caller saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hop {
    /// Id within the request.
    pub hop: u64,
    /// The hop in whose processing this call was made; 0 is the client.
    pub parent: u64,
    /// The caller's end of the connection.
    pub client: SocketAddrV4,
    /// The called server's end of the connection.
    pub server: SocketAddrV4,
    /// The called server's name.
    pub component: String,
    /// Bytes the caller had written on this connection before this message.
    pub conn_bytes: u64,
    /// CLOCK_MONOTONIC before the first and after the last send call of the request message.
    pub send_ns: [u64; 2],
    /// CLOCK_MONOTONIC after the complete reply was read; 0 if it never was.
    pub reply_ns: u64,
    /// Bytes of the request message on the wire.
    pub len: u64,
    /// Bytes of the reply on the wire.
    pub reply_len: u64,
    /// In how many parts the reply was sent.
    pub reply_parts: u32,
}

impl Hop {
    /// A call that has not been sent.
    pub fn new(hop: u64, parent: u64, component: String, len: usize) -> Self {
        let nowhere = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
        Self {
            hop,
            parent,
            client: nowhere,
            server: nowhere,
            component,
            conn_bytes: 0,
            send_ns: [0; 2],
            reply_ns: 0,
            len: len as u64,
            reply_len: 0,
            reply_parts: 0,
        }
    }
}

/// One request of the client with everything done for it.
#[derive(Debug, Serialize)]
pub struct RequestTruth {
    /// Number of the request, from 1.
    pub request: u64,
    /// Before the connection for it was opened or taken.
    pub start_ns: u64,
    /// After its reply was read.
    pub end_ns: u64,
    /// Whether the reply is what the seed says it must be.
    pub ok: bool,
    /// All calls, in no particular order.
    pub hops: Vec<Hop>,
}

/// The first line of a truth file.
#[derive(Debug, Serialize)]
pub struct Header {
    format: &'static str,
    version: u32,
    testbed: &'static str,
    /// The server model of each tier.
    pub models: Vec<String>,
    clock: &'static str,
    /// The seed of the run.
    pub seed: u64,
    /// Connection policy: `new`, `keepalive`, `pooled` or `pipelined`.
    pub policy: &'static str,
    /// Framing: `http` or `raw`.
    pub wire: String,
}

impl Header {
    /// The header of this testbed.
    pub fn new(models: Vec<String>, seed: u64, policy: &'static str, wire: String) -> Self {
        Self {
            format: "wakepath-truth",
            version: 1,
            testbed: "vapp",
            models,
            clock: "CLOCK_MONOTONIC",
            seed,
            policy,
            wire,
        }
    }
}

/// Writes a truth file, from many threads, a line at a time.
#[derive(Debug)]
pub struct TruthWriter(Mutex<BufWriter<File>>);

impl TruthWriter {
    /// Creates the file and writes the header.
    pub fn create(path: &Path, header: &Header) -> io::Result<Self> {
        let writer = Self(Mutex::new(BufWriter::with_capacity(1 << 18, File::create(path)?)));
        writer.line(header)?;
        Ok(writer)
    }

    fn line(&self, value: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        self.0.lock().unwrap().write_all(&line)
    }

    /// Adds a request.
    pub fn write(&self, request: &RequestTruth) -> io::Result<()> {
        self.line(request)
    }

    /// Brings everything into the file.
    pub fn finish(&self) -> io::Result<()> {
        self.0.lock().unwrap().flush()
    }
}

/// Whether `hops` are exactly the `expected` calls, each answered, each under its parent.
pub fn matches(hops: &[Hop], expected: &[(u64, u64, String)]) -> bool {
    let got: HashSet<_> = hops.iter().map(|h| (h.hop, h.parent, h.component.as_str())).collect();
    hops.len() == expected.len()
        && got.len() == expected.len()
        && expected.iter().all(|(hop, parent, component)| got.contains(&(*hop, *parent, component.as_str())))
        && hops.iter().all(|h| {
            h.send_ns[0] > 0
                && h.send_ns[0] <= h.send_ns[1]
                && h.reply_ns > h.send_ns[0]
                && h.client.port() != 0
                && h.server.port() != 0
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_wants_all_hops_once_and_answered() {
        let mut hop = Hop::new(1, 0, "t1s1".into(), 10);
        let expected = [(1, 0, "t1s1".to_owned())];
        assert!(!matches(std::slice::from_ref(&hop), &expected));
        hop.client.set_port(1);
        hop.server.set_port(2);
        (hop.send_ns, hop.reply_ns) = ([5, 6], 7);
        assert!(matches(std::slice::from_ref(&hop), &expected));
        assert!(!matches(&[hop.clone(), hop.clone()], &expected));
        assert!(!matches(&[], &expected));
        hop.parent = 3;
        assert!(!matches(&[hop], &expected));
    }
}
