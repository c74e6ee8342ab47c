//! The commands of the network vantage.

use super::{Answering, Size, Time, WordsFlag};
use crate::sink;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::str::FromStr;
use wakepath_model::folder::Options;

/// Requests and service times from network packets: live, from a capture file, or from a mirror's tunnel.
///
/// Wakepath reads TCP streams by protocol. Each request with its reply becomes one row, each connection a few. It keeps no
/// payload: attributes are masked as in a recording, and only words that several clients sent are written. Rows go into a
/// folder (-o), to a collector (--forward), and into metrics for Prometheus (--metrics). Without these options, a table is
/// shown while it runs. Packets that the kernel dropped are counted, and no reply is paired across such a gap.
/// docs/network.md says where to sniff, and how to mirror.
#[derive(Args, Debug)]
#[command(group(clap::ArgGroup::new("from").required(true).multiple(false)))]
#[command(after_help = "\
Examples:
  wakepath sniff --iface eth0                              a table of services, live, until Ctrl-C
  wakepath sniff --iface eth0 --filter 'port 80' -o web    into a folder, for the other commands
  wakepath sniff --pcap monday.pcapng.gz -o monday         a capture file
  tcpdump -i eth0 -w - | wakepath sniff --pcap -           what another program captures
  wakepath sniff --listen vxlan --metrics :9464            a mirror's tunnel, metrics for Prometheus
  wakepath sniff --iface br0 --forward 10.0.0.7:4747       to `wakepath collect` on that host")]
pub struct SniffArgs {
    /// Capture from this interface; `any` = all of them (may be repeated)
    #[arg(long, value_name = "IF", group = "from")]
    pub iface: Vec<String>,
    /// Read this capture file, pcap or pcapng, also compressed; `-` = standard input (may be repeated: one host, in order
    /// of time)
    #[arg(long, value_name = "FILE", group = "from", num_args = 1..)]
    pub pcap: Vec<PathBuf>,
    /// Receive a mirror's tunnel that ends here: vxlan[:PORT], geneve[:PORT], gre, any (may be repeated)
    #[arg(long, value_name = "TUNNEL", group = "from")]
    pub listen: Vec<String>,
    /// Capture only these packets, in tcpdump's filter language (man pcap-filter); needs libpcap
    #[arg(long, value_name = "EXPR")]
    pub filter: Option<String>,
    /// Maximum bytes captured of each packet; if packets are cut, streams have gaps
    #[arg(long, value_name = "BYTES", default_value = "256K", conflicts_with_all = ["pcap", "listen"])]
    pub snaplen: Size,
    /// Capture only packets for this host, not all that pass
    #[arg(long, conflicts_with_all = ["pcap", "listen"])]
    pub no_promiscuous: bool,
    /// Size of each interface's ring, or of each tunnel's queue
    #[arg(long, default_value = "64M", value_name = "BYTES")]
    pub ring_bytes: Size,
    /// Which words of paths, statements and names to write: those that several clients sent, or all (docs/privacy.md)
    #[arg(long, value_enum, default_value = "recurring", env = "WAKEPATH_WORDS", value_name = "WHICH")]
    pub words: WordsFlag,
    #[command(flatten)]
    pub into: IntoFolder,
    /// Forward rows to `wakepath collect` at this address
    #[arg(long, value_name = "HOST:PORT")]
    pub forward: Option<String>,
    /// How to send: datagrams, whose losses are counted, or a connection that is resumed
    #[arg(long, value_enum, default_value = "udp", requires = "forward")]
    pub forward_by: ForwardBy,
    /// With --forward-by tcp: maximum memory for rows that the collector has not acknowledged
    #[arg(long, value_name = "BYTES", default_value = "64M", requires = "forward")]
    pub forward_buffer: Size,
    /// Serve Prometheus metrics at /metrics; without a host, on 127.0.0.1
    #[arg(long, value_name = "[HOST]:PORT")]
    pub metrics: Option<Listen>,
    /// Stop after this time (30s, 5m, 1h)
    #[arg(long, value_name = "TIME")]
    pub duration: Option<Time>,
    /// How often to print the table; 1s on a terminal, else 10s
    #[arg(long, value_name = "TIME")]
    pub every: Option<Time>,
    /// Write this file when capturing has begun
    #[arg(long, value_name = "FILE")]
    pub ready_file: Option<PathBuf>,
    #[command(flatten)]
    pub answering: Answering,
}

/// Receive the rows of remote sniffers (`wakepath sniff --forward`): into a folder with one host each, or as metrics.
///
/// UDP and TCP use the same port number. Missing rows are counted for each sender and reported as data loss. Anything that
/// is not from a sniffer is counted and ignored. A sender that is silent for a minute counts as ended, and may
/// come back. At most 256 senders are accepted at once, 64 of them from one address. docs/formats/forward.md describes
/// the bytes.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath collect --listen 10.0.0.7:4747 -o racks             a folder with a host for each sniffer
  wakepath collect --listen :4747 --metrics :9464              metrics of all of them for Prometheus
  wakepath collect --listen :4747 -o last --keep 10m           only the last ten minutes

At the sniffers: wakepath sniff --iface br0 --forward 10.0.0.7:4747")]
pub struct CollectArgs {
    /// Address to listen on; without a host, all addresses of this host
    #[arg(long, value_name = "[HOST]:PORT", default_value = ":4747")]
    pub listen: Listen,
    #[command(flatten)]
    pub into: IntoFolder,
    /// Serve Prometheus metrics at /metrics; without a host, on 127.0.0.1
    #[arg(long, value_name = "[HOST]:PORT")]
    pub metrics: Option<Listen>,
    /// Stop after this time (30s, 5m, 1h)
    #[arg(long, value_name = "TIME")]
    pub duration: Option<Time>,
    /// How often to print the table if neither -o nor --metrics is given; 1s on a terminal, else 10s
    #[arg(long, value_name = "TIME")]
    pub every: Option<Time>,
    /// Write this file when it can receive
    #[arg(long, value_name = "FILE")]
    pub ready_file: Option<PathBuf>,
    #[command(flatten)]
    pub answering: Answering,
}

/// The folder that rows go into.
#[derive(Args, Debug)]
pub struct IntoFolder {
    /// Trace folder to create
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Add to an existing folder
    #[arg(long, conflicts_with = "force", requires = "output")]
    pub append: bool,
    /// Replace an existing trace folder
    #[arg(long, requires = "output")]
    pub force: bool,
    /// Flight recorder: keep only the last part, for example 10m
    #[arg(long, value_name = "TIME", requires = "output")]
    pub keep: Option<Time>,
    /// Flight recorder: keep at most this many bytes (2G); by default, `collect` keeps at most 16G for all hosts and
    /// deletes from the largest one first
    #[arg(long, value_name = "BYTES", requires = "output")]
    pub max_bytes: Option<Size>,
}

impl IntoFolder {
    /// How the folder is written.
    pub fn options(&self) -> Options {
        sink::options(self.append, self.force, self.keep.map(|k| k.0), self.max_bytes.map(|b| b.0), true)
    }
}

/// How rows are sent on.
#[derive(Clone, Copy, Debug, ValueEnum, PartialEq, Eq)]
pub enum ForwardBy {
    /// One datagram every 100 ms or 1400 bytes; none is sent twice
    Udp,
    /// A connection; what was not acknowledged is sent again on the next
    Tcp,
}

/// An address to listen at, as `HOST:PORT` or `:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// None = the command's default.
    pub host: Option<String>,
    pub port: u16,
}

impl FromStr for Listen {
    type Err = String;
    fn from_str(s: &str) -> Result<Listen, String> {
        let (host, port) = s.rsplit_once(':').unwrap_or(("", s));
        let port = port.parse().map_err(|_| format!("{s}: give a port, as :9464 or 10.0.0.7:9464"))?;
        let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
        Ok(Listen { host: (!host.is_empty()).then(|| host.to_owned()), port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_to_listen_at() {
        let listen = |host: Option<&str>, port| Ok(Listen { host: host.map(str::to_owned), port });
        assert_eq!(":9464".parse(), listen(None, 9464));
        assert_eq!("9464".parse(), listen(None, 9464));
        assert_eq!("10.0.0.7:1".parse(), listen(Some("10.0.0.7"), 1));
        assert_eq!("[::1]:1".parse(), listen(Some("::1"), 1));
        for wrong in ["", "host", "host:", "1.2.3.4:70000", ":-1"] {
            assert!(wrong.parse::<Listen>().is_err(), "{wrong}");
        }
    }
}
