//! Flags of `wakepath export`.

use super::requests::{PartOfRequests, SuchRequests};
use super::{Folders, WhichTasks};
use crate::complete;
use crate::moment::Moment;
use clap::{Args, ValueEnum};
use clap_complete::engine::ArgValueCompleter;
use std::path::PathBuf;

/// Convert requests for other tools: OpenTelemetry, Jaeger, ClickHouse, Perfetto, Prometheus, flame graphs, pprof
///
/// Traces have a span for each watched side of each call, with its time on the critical path by cause; with --waits also its
/// longest waits as events. Attributes say what is not known. A call that several requests could have made is a trace of its
/// own, linked from each of them. Ids are the same in every export. Invisible characters in names become escapes.
/// docs/export.md says what goes where.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath export shop --to otlp -o shop.jsonl                   for a collector's file receiver
  wakepath export shop --to otlp --endpoint http://localhost     to a collector; grpc:// works too
  wakepath export shop --to jaeger --longer-than 50ms > slow.json   for Jaeger's page
  wakepath export shop --to clickhouse -o shop-tables            tables, and queries for them
  wakepath export shop --to perfetto --request slowest -o a.pftrace  for ui.perfetto.dev
  wakepath export shop --to perfetto --from +2s --until +2.5s --search postgres -o b.pftrace
  wakepath export shop --to folded | flamegraph.pl > flame.svg   where critical paths went
  wakepath export shop --to folded --longer-than 50ms --difference | difffolded.pl
  wakepath export shop --to pprof -o shop.pb.gz; go tool pprof -top shop.pb.gz
  wakepath export shop --to prometheus > shop.prom               OpenMetrics, with exemplars
  wakepath export shop --to pcapng --request slowest --capture shop.pcap -o a.pcapng")]
pub struct ExportArgs {
    #[command(flatten)]
    pub folders: Folders,
    /// The form
    #[arg(long, value_enum, value_name = "FORM")]
    pub to: Form,
    /// The file to write or replace; by default standard output. With clickhouse: the folder
    #[arg(short, long, value_name = "FILE", conflicts_with = "endpoint")]
    pub output: Option<PathBuf>,
    /// With otlp: send to a collector: http://HOST (port 4318 unless it says another), or grpc://HOST (4317)
    #[arg(long, value_name = "URL")]
    pub endpoint: Option<String>,
    /// With otlp: protocol buffers instead of JSON
    #[arg(long, conflicts_with = "endpoint")]
    pub protobuf: bool,
    /// With otlp, jaeger, clickhouse and perfetto: add the longest waits of each request as events
    #[arg(long)]
    pub waits: bool,
    /// With folded: two numbers for each stack: its time in the other requests, scaled to the same count, and in the selected ones
    #[arg(long)]
    pub difference: bool,
    /// With prometheus: its older text format instead of OpenMetrics, for promtool and node_exporter
    #[arg(long)]
    pub no_exemplars: bool,
    /// Only this request: its id or first digits, or `slowest`
    #[arg(
        long,
        value_name = "ID",
        conflicts_with_all = ["from", "until", "longer_than", "shorter_than", "service", "with"],
        add = ArgValueCompleter::new(complete::request_ids)
    )]
    pub request: Option<String>,
    /// With pcapng: a capture file (pcap or pcapng, also compressed) that has the packets; may be repeated
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub capture: Vec<PathBuf>,
    /// Only this kind, as `wakepath requests` prints it
    #[arg(long, value_name = "KIND", add = ArgValueCompleter::new(complete::kinds))]
    pub kind: Option<String>,
    /// Requests that began at this time or later: RFC 3339, +12.5s from the start, -5m before the end, or nanoseconds
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub from: Option<Moment>,
    /// Requests that began before this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub until: Option<Moment>,
    #[command(flatten)]
    pub such: SuchRequests,
    /// Exit with 3 if data loss or incomplete paths affect the export, or if not all of it was delivered
    #[arg(long)]
    pub strict: bool,
    #[command(flatten, next_help_heading = "Tasks, with perfetto")]
    pub which: WhichTasks,
}

/// A form of other tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// OpenTelemetry's traces, a line of JSON for each request
    Otlp,
    /// The JSON that Jaeger's page takes
    Jaeger,
    /// A folder of tables: OpenTelemetry's spans, and what each request's time went to
    Clickhouse,
    /// A trace with requests, tasks and wake-ups
    Perfetto,
    /// OpenMetrics: rates, errors and durations, with exemplars
    Prometheus,
    /// Time of critical paths by stack, for flame graphs
    Folded,
    /// The same as a profile
    Pprof,
    /// The packets of one request, from a capture that was made beside the recording
    Pcapng,
}

impl ExportArgs {
    /// Which requests are exported.
    pub fn part(&self) -> PartOfRequests {
        PartOfRequests { from: self.from, to: self.until, such: self.such.clone() }
    }
}
