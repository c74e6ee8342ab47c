//! The command `metrics`.

use super::{Answering, Time};
use crate::moment::Moment;
use clap::Args;
use std::path::PathBuf;

/// Per-service metrics: load, service times, success, kinds of request, and network problems
///
/// Reads trace folders of any vantage, or capture files (pcap and pcapng, also compressed; `-` is standard input; several
/// files must follow each other in time). The service time runs from the last packet of a request's header to the last
/// packet of its reply's header. In folders without packets, times come from the endpoints. Names from a capture have all
/// their words, names from a folder only words that recur. docs/network.md defines every figure.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath metrics web.pcapng.gz                    services of a capture, and their requests
  wakepath metrics shop --service :8080 --kinds 0   one service, all its kinds
  wakepath metrics web.pcap --window 10s            load, success and times every ten seconds
  wakepath metrics shop --from +30s --to +60s --map  half a minute, and who calls whom
  wakepath metrics shop --prometheus                in the text format of Prometheus
  wakepath metrics web.pcap --json | jq '.services[] | {service, success_rate, service_time}'")]
pub struct MetricsArgs {
    /// Trace folders, or capture files
    #[arg(required = true, value_name = "DIR|FILE")]
    pub sources: Vec<PathBuf>,
    /// Also show each window of this length (10s, 1m)
    #[arg(long, value_name = "TIME")]
    pub window: Option<Time>,
    /// Only this service: ADDRESS:PORT, address, :PORT, or the process that serves
    #[arg(long, value_name = "SERVICE")]
    pub service: Option<String>,
    /// Maximum number of kinds of each service; 0 shows all
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub kinds: usize,
    /// Approximate maximum number of services, windows and clients as text; 0 shows all
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub limit: usize,
    /// Count from this time on: RFC 3339, +12.5s from the start, -5m before the end, or nanoseconds
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub from: Option<Moment>,
    /// Count until this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub to: Option<Moment>,
    /// Also show who calls whom
    #[arg(long)]
    pub map: bool,
    /// Print the text format of Prometheus instead
    #[arg(long, conflicts_with_all = ["json", "window", "map"])]
    pub prometheus: bool,
    #[command(flatten)]
    pub answering: Answering,
}
