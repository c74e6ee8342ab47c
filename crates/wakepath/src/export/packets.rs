//! `wakepath export --to pcapng`: the packets of one request, out of captures that were made beside the recording.

use super::{Exported, Source};
use crate::captures::Capture;
use anyhow::{Context as _, Result, bail};
use std::io::Write;
use wakepath_causality::path::{Half, Request, Wire};
use wakepath_decode::network::{Ends, EndsReader};
use wakepath_decode::readers::pcap::Record;
use wakepath_export::pcapng::Writer;
use wakepath_flows::Place;
use wakepath_model::clock::Timeline;
use wakepath_model::ids::MonoNs;
use wakepath_present::text::escaped;
use wakepath_present::units::counted;
use wakepath_wire::packet::Packet;

/// Packets this long (ns) before and after what an endpoint saw of an exchange are taken for its own: on their way,
/// acknowledgements, and what two clocks differ by. Of what a sniffer saw, first and last packets are known.
const MARGIN_NS: i64 = 1_000_000;

/// A connection, and when it was a request's.
struct Wanted {
    place: Place,
    from_ns: i64,
    to_ns: i64,
    /// What it was then.
    about: String,
}

impl Wanted {
    fn has(&self, ends: &Ends, at_ns: u64) -> bool {
        let Place { laddr, raddr, lport, rport, family, protocol, .. } = self.place;
        let at = i64::try_from(at_ns).unwrap_or(i64::MAX);
        let is_sent = (ends.src, ends.dst, ends.ports) == (laddr, raddr, (lport, rport));
        let is_received = (ends.src, ends.dst, ends.ports) == (raddr, laddr, (rport, lport));
        (self.from_ns..=self.to_ns).contains(&at)
            && (family, protocol) == (ends.family, u16::from(ends.protocol))
            && (is_sent || is_received)
    }
}

impl Source<'_> {
    /// Writes the packets of the request that was asked for.
    pub(super) fn write_packets(&self, out: &mut dyn Write) -> Result<Exported> {
        let request = self.only.as_ref().context("pcapng is of one request: give --request")?;
        let wanted = self.connections(request);
        if wanted.is_empty() {
            bail!("request {:016x} used no TCP or UDP connection: it has no packets", request.id);
        }
        let captures = self.args.capture.iter().map(|path| Capture::open(path));
        let captures = captures.collect::<Result<Vec<_>>>()?;
        let mut writer = Writer::new(&format!("wakepath: packets of request {:016x}", request.id), out)?;
        let (mut found, mut reader, mut written) = (0, EndsReader::default(), Ok(()));
        let (mut first, mut last) = (u64::MAX, 0);
        for mut capture in captures {
            let mut take = |record: Record<'_>| {
                let Record::Packet(packet) = record else { return };
                (first, last) = (packet.at_ns.min(first), packet.at_ns.max(last));
                let Some(about) = of_any(&wanted, &mut reader, &packet).filter(|_| written.is_ok()) else { return };
                found += 1;
                let Packet { at_ns, link, length, bytes, .. } = packet;
                written = writer.packet(at_ns, link, length, bytes, about, out);
            };
            while capture.next(&mut take)? {}
        }
        written.context("writing the packets")?;
        if first > last {
            bail!("the capture has no packets");
        }
        if found == 0 {
            let (from, to) = (wanted.iter().map(|w| w.from_ns).min(), wanted.iter().map(|w| w.to_ns).max());
            let wall = |ns: i64| wakepath_present::units::wall(ns);
            bail!(
                "no packet of request {:016x} is in the capture: it has packets from {} to {}, the request lasted from {} to {}; \
                 capture where the request passes, on the clock of the recording",
                request.id,
                wall(i64::try_from(first).unwrap_or(0)),
                wall(i64::try_from(last).unwrap_or(0)),
                wall(from.unwrap_or(0)),
                wall(to.unwrap_or(0)),
            );
        }
        Ok(Exported {
            requests: 1,
            incomplete: u64::from(!request.is_complete()),
            parts: vec![counted(found, "packet", "packets")],
            ..Exported::default()
        })
    }

    /// Why there are no packets, and what to do.
    pub(super) fn without_packets(&self) -> String {
        let dir = self.dirs[0].display();
        let selections = self.folder.hosts().iter().map(|h| h.info().selection.as_str());
        let files: Vec<&str> = selections.flat_map(|s| s.split("--pcap ").skip(1)).map(str::trim).collect();
        let from = match &files[..] {
            [] => "capture packets beside the recording (tcpdump -i any -w FILE) and name the file with --capture FILE"
                .into(),
            [first, ..] => format!("it was read from {first}: name that with --capture {first}"),
        };
        format!("{dir} keeps no packets, because payload is never written; {from}")
    }

    /// The connections of a request.
    fn connections(&self, request: &Request) -> Vec<Wanted> {
        let line = self.folder.timeline();
        let mut out: Vec<Wanted> = Vec::new();
        for (i, span) in request.spans.iter().enumerate() {
            for half in span.caller.iter().chain(&span.callee).filter(|h| h.place.lport != 0 && h.place.rport != 0) {
                let (from_ns, to_ns) = span.wire.as_ref().map_or_else(|| lasted(half, &line), |w| passed(w, &line));
                let service = self.names.service(span);
                let about = format!("span {i}: {} at {service}", self.names.asked(half));
                let about = escaped(&about).into_owned();
                out.push(Wanted { place: half.place, from_ns, to_ns, about });
            }
        }
        // the innermost says most of what a packet is
        out.sort_by_key(|w| w.to_ns - w.from_ns);
        out
    }
}

/// When a side of an exchange was under way, with a margin (ns since 1970).
fn lasted(half: &Half, line: &Timeline) -> (i64, i64) {
    let e = &half.exchange;
    let began = if e.request.arrived == MonoNs(0) { e.request.began } else { e.request.arrived.min(e.request.began) };
    let common = |at| line.common(half.host, at).0;
    (common(began) - MARGIN_NS, common(e.reply.ended.max(e.request.began)) + MARGIN_NS)
}

/// When an exchange passed a sniffer (ns since 1970).
fn passed(wire: &Wire, line: &Timeline) -> (i64, i64) {
    let common = |at| line.common(wire.host, at).0;
    (common(wire.request_first), common(wire.request_last.max(wire.reply_last)))
}

/// What a packet is of the request; `None` where it is another's.
fn of_any<'w>(wanted: &'w [Wanted], reader: &mut EndsReader, packet: &Packet<'_>) -> Option<&'w str> {
    let ends = reader.of(packet)?;
    wanted.iter().find(|w| w.has(&ends, packet.at_ns)).map(|w| w.about.as_str())
}
