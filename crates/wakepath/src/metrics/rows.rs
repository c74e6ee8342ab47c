//! Trace folders: what a sniffer saw, and what endpoints did.

use super::{Counted, options};
use crate::cli::MetricsArgs;
use crate::folders;
use anyhow::{Result, bail};
use wakepath_analysis::metrics::{Metrics, MetricsOptions, of_endpoints};
use wakepath_analysis::names::Names;
use wakepath_model::defects::id as defect;
use wakepath_model::folder::{Folder, TableSet};
use wakepath_model::ids::CommonNs;
use wakepath_model::rows::{Event, Table};
use wakepath_present::losses;
use wakepath_present::metrics::Seen;

const SNIFFED: [Table; 2] = [Table::SniffedFlow, Table::SniffedExchange];

/// Reads the folders.
pub fn read(args: &MetricsArgs) -> Result<Counted> {
    let folder = folders::open(&args.sources)?;
    let span = span(&folder);
    let mut options = options(args)?;
    let at =
        |m: Option<crate::moment::Moment>| m.map(|m| CommonNs(m.common_ns(span.map_or((0, 0), |s| (s.0.0, s.1.0)))));
    options.from = at(args.from).unwrap_or(options.from);
    options.to = at(args.to).unwrap_or(options.to);
    let has = |tables: &[Table]| folder.hosts().iter().any(|h| tables.iter().any(|t| h.row_count(*t) > 0));
    let mut parts = Vec::new();
    if has(&SNIFFED) {
        parts.push((Seen::Packets, of_packets(&folder, options, span)));
    }
    if has(&[Table::Op]) {
        let seen = of_endpoints(&folder, &Names::read(&folder), options);
        parts.push((Seen::Server, seen.server));
        parts.push((Seen::Client, seen.client));
    }
    if parts.is_empty() {
        bail!(
            "{}: has neither packets nor socket operations; record with `wakepath sniff -o DIR`, `record` or `run`, or \
             give a capture file",
            args.sources[0].display()
        );
    }
    if let Some((from, to)) = span {
        parts.iter_mut().for_each(|(_, m)| m.watched(from, to));
    }
    Ok(Counted { parts, capture: None, losses: losses::collect(&folder) })
}

/// From when to when any host was recorded.
fn span(folder: &Folder) -> Option<(CommonNs, CommonNs)> {
    let line = folder.timeline();
    let spans = folder.hosts().iter().filter_map(|h| {
        let (from, to) = h.span()?;
        Some((line.common(h.id(), from), line.common(h.id(), to)))
    });
    spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
}

/// Metrics of what sniffers saw, in the order of the hosts' common time.
fn of_packets(folder: &Folder, options: MetricsOptions, span: Option<(CommonNs, CommonNs)>) -> Metrics {
    let mut metrics = Metrics::new(options);
    if let Some((from, to)) = span {
        // before rows close windows, whose rates are by the time that was watched
        metrics.watched(from, to);
    }
    let line = folder.timeline();
    let mut tables = SNIFFED.to_vec();
    tables.push(Table::Loss);
    let mut streams: Vec<_> =
        folder.hosts().iter().map(|h| (h, h.events(TableSet::of(&tables), ..).peekable())).collect();
    loop {
        let times = streams.iter_mut().enumerate().filter_map(|(i, (host, events))| {
            let event = events.peek()?;
            Some((line.common(host.id(), event.at()), i))
        });
        let Some((at, i)) = times.min() else { break };
        let (host, events) = &mut streams[i];
        match events.next() {
            Some(Event::SniffedFlow(r)) => metrics.flow(host.id().0, at, &r, *host),
            Some(Event::SniffedExchange(r)) => metrics.exchange(host.id().0, at, &r, *host),
            Some(Event::Loss(r))
                if host.text(r.what) == defect::PACKET_DROP && at >= options.from && at < options.to =>
            {
                metrics.lost(r.count);
            }
            _ => {}
        }
    }
    metrics.finish();
    metrics
}
