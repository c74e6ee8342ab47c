//! Streams as state machines: sender, way there, kernel of the reader's host, way back, reader.

use super::find::{Bulk, Side};
use super::measure::Facts;
use crate::system::{
    Actor, Discipline, KindId, Queue, QueueId, QueueKind, Runs, ScriptId, State, StateId, Station, StationId, Step,
    System, WhenFull,
};
use wakepath_analysis::names::Names;
use wakepath_graph::Index;
use wakepath_model::folder::Folder;
use wakepath_model::ids::HostId;

/// A stream is replayed in pieces, so many of what is in flight.
const PIECES: u64 = 64;
/// Bytes of a piece where nothing bounds what is in flight.
const PIECE: u64 = 16 << 10;
/// Most pieces of a stream that are replayed: it runs steadily, so a part stands for the whole.
const PIECES_MAX: u64 = 20_000;
/// Bytes on the way back for each on the way there: an acknowledgement of 66 bytes for two full segments (RFC 5681,
/// section 4.2), where both ways are equally wide.
const BACK: f64 = 66.0 / (2.0 * 1514.0);

/// Adds things to a system and gives their ids.
#[derive(Default)]
struct Build {
    system: System,
}

impl Build {
    fn queue(&mut self, name: &str, kind: QueueKind, delay_ns: u64, ns_per_item: f64, initial: u64) -> QueueId {
        let queue = Queue {
            name: name.to_owned(),
            kind,
            capacity: None,
            initial,
            delay_ns,
            ns_per_item,
            when_full: WhenFull::Wait,
            is_bytes: true,
        };
        self.system.queues.push(queue);
        QueueId((self.system.queues.len() - 1) as u32)
    }

    fn state(&mut self, host: &str, process: &str, station: StationId) -> StateId {
        let state = State {
            host: host.to_owned(),
            process: process.to_owned(),
            state: "cpu".to_owned(),
            station: Some(station),
        };
        let at = self.system.states.iter().position(|s| *s == state).unwrap_or_else(|| {
            self.system.states.push(state);
            self.system.states.len() - 1
        });
        StateId(at as u32)
    }

    fn actor(&mut self, name: String, pieces: u64, piece: &[Step]) {
        let begin = self.system.steps.len();
        for _ in 0..pieces {
            self.system.steps.extend_from_slice(piece);
        }
        self.system.scripts.push(begin..self.system.steps.len());
        let script = ScriptId((self.system.scripts.len() - 1) as u32);
        self.system.actors.push(Actor { name, start_ns: 0, runs: Runs::Script(script) });
    }

    /// The processors of a host.
    fn station(&mut self, folder: &Folder, name: &str, host: HostId) -> StationId {
        let at = self.system.stations.iter().position(|s| s.name == name).unwrap_or_else(|| {
            let processors = folder.host(host).map_or(1, |h| h.info().cpus).max(1);
            let station = Station {
                name: name.to_owned(),
                what: "processors",
                servers: f64::from(processors),
                speed: 1.0,
                others: 0.0,
                discipline: Discipline::Shared,
            };
            self.system.stations.push(station);
            self.system.stations.len() - 1
        });
        StationId(at as u32)
    }
}

/// What a link's two ends are called: their hosts, or on one host, in namespaces of its own, the processes.
fn ends(index: &Index, names: &Names<'_>, sender: &Side, reader: &Side) -> (String, String) {
    let process = |s: &Side| names.program(s.host, s.task).to_owned();
    let host = |s: &Side| names.host(s.host).to_owned();
    let _ = index;
    if sender.host == reader.host { (process(sender), process(reader)) } else { (host(sender), host(reader)) }
}

/// The streams as one system, and what it takes for granted.
pub fn system(folder: &Folder, index: &Index, names: &Names<'_>, flows: &[(Bulk, Facts)]) -> (System, Vec<String>) {
    let mut build = Build::default();
    let mut assumptions = Vec::new();
    for (bulk, facts) in flows {
        stream(&mut build, folder, index, names, bulk, facts, flows.len() > 1);
        for sentence in granted(index, names, bulk, facts) {
            if !assumptions.contains(&sentence) {
                assumptions.push(sentence);
            }
        }
    }
    if flows.len() > 1 {
        assumptions.push("Each stream keeps to the part of a link's bandwidth that it had.".into());
    }
    build.system.rounds = 1;
    (build.system, assumptions)
}

fn stream(
    build: &mut Build,
    folder: &Folder,
    index: &Index,
    names: &Names<'_>,
    bulk: &Bulk,
    facts: &Facts,
    is_one_of_many: bool,
) {
    let (sender, reader) = (&bulk.sender, &bulk.reader);
    let [sends, reads] = [sender, reader].map(|s| names.program(s.host, s.task).to_owned());
    let [sender_host, reader_host] = [sender, reader].map(|s| names.host(s.host).to_owned());
    let (a, b) = ends(index, names, sender, reader);
    let way = facts.way.unwrap_or_default();
    let link_ns = facts.link_ns.unwrap_or(0.0);
    let piece = facts.in_flight.map_or(PIECE, |f| (f / PIECES).max(1));
    let pieces = (facts.bytes / piece).clamp(1, PIECES_MAX);
    let cpus = [(&sender_host, sender.host), (&reader_host, reader.host)]
        .map(|(name, host)| build.station(folder, name, host));
    let computes = [build.state(&sender_host, &sends, cpus[0]), build.state(&reader_host, &reads, cpus[1])];
    let kind = KindId(build.system.kinds.len() as u32);
    let of = if is_one_of_many { format!(" (port {} to {})", bulk.ports.0, bulk.ports.1) } else { String::new() };
    build.system.kinds.push(format!("{sends} → {reads}{of}"));
    let link = format!("{a}-{b}");
    let there = build.queue(&link, QueueKind::Link, way.there_ns, link_ns, 0);
    let arrived = build.queue(&format!("{reads} receive queue"), QueueKind::Buffer, 0, 0.0, 0);
    let back = build.queue(&link, QueueKind::Link, way.back_ns, link_ns * BACK, 0);
    let work = |ns: f64| (ns * piece as f64).round() as u64;
    let wait = |queue, latency_ns| Step::Dequeue { queue, count: piece, latency_ns };
    let give = |queue| Step::Enqueue { queue, count: piece, latency_ns: 0 };
    let mut send = vec![Step::Work { state: computes[0], ns: work(facts.sender_ns) }];
    let mut arrive = vec![wait(there, 0), give(arrived)];
    if let Some(in_flight) = facts.in_flight {
        let credits =
            build.queue(&format!("{sends} send buffer"), QueueKind::Buffer, 0, 0.0, in_flight / piece * piece);
        send.push(wait(credits, 0));
        arrive.push(give(back));
        build.actor(format!("acknowledgements{of}"), pieces, &[wait(back, 0), give(credits)]);
    }
    send.push(give(there));
    let read = [
        Step::Begin { kind },
        wait(arrived, facts.reader_wake_ns),
        Step::Work { state: computes[1], ns: work(facts.reader_ns) },
        Step::End,
    ];
    build.actor(format!("{sends}{of}"), pieces, &send);
    build.actor(format!("arrivals{of}"), pieces, &arrive);
    build.actor(format!("{reads}{of}"), pieces, &read);
}

/// What is taken for granted of a stream.
fn granted(index: &Index, names: &Names<'_>, bulk: &Bulk, facts: &Facts) -> Vec<String> {
    let [sends, reads] = [&bulk.sender, &bulk.reader].map(|s| names.program(s.host, s.task));
    let (a, b) = ends(index, names, &bulk.sender, &bulk.reader);
    let mut out = vec![
        format!(
            "The stream from {sends} to {reads} goes on as it did after its begin; a byte costs each of them as much as before."
        ),
        "Neither the congestion window nor the receive window limits: their sizes are not recorded.".into(),
    ];
    match facts.way {
        Some(w) => out.push(format!(
            "The link {a}-{b} has a delay of {:.3} ms there and {:.3} ms back: the least that its handshake and \
             its bytes took.",
            w.there_ns as f64 / 1e6,
            w.back_ns as f64 / 1e6
        )),
        None => out.push(format!(
            "The delay of the link {a}-{b} is assumed to be zero, because nothing shows it; record before the \
             connection is made."
        )),
    }
    match facts.link_ns {
        Some(ns) => out.push(format!(
            "The link {a}-{b} passes {:.1} Mbit/s of the stream's bytes: at that rate they came while others waited behind \
             them ({:.0} % of the time).",
            8e3 / ns,
            100.0 * facts.link_busy
        )),
        None => out.push(format!("The link {a}-{b} has no limit: bytes were never seen to wait for it.")),
    }
    match (facts.room, facts.in_flight) {
        (Some(room), Some(in_flight)) => out.push(format!(
            "The send buffer of {sends} is full with {room} bytes, and while it is refilled has {in_flight} in flight on average."
        )),
        _ => out.push(format!("The send buffer of {sends} has room for everything: it was never seen full.")),
    }
    out
}
