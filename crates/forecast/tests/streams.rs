//! Streams that never were: what is derived of their rows against what they were made with, and forecasts against the same
//! streams made again as changed.

use std::path::PathBuf;
use wakepath_analysis::names::Names;
use wakepath_forecast::change::{Change, apply};
use wakepath_forecast::derive::{self, Selection, streams};
use wakepath_forecast::derived::{Derived, Model, Unit};
use wakepath_forecast::outcome::Outcome;
use wakepath_forecast::replay::{Options, replay};
use wakepath_forecast::system::{QueueKind, Step, System};
use wakepath_graph::Index;
use wakepath_model::folder::Folder;
use wakepath_model::rows::{self, Event, OpKind, SeenHow};
use wakepath_testkit::recording::{Announced, Cuts, HostRows};
use wakepath_testkit::script::play;

/// First byte's number, as rows have it.
const FIRST: u64 = (1 << 32) + 7;
const PACKET: u64 = 4096;
const CALL: u64 = 16 << 10;
const WAKE_NS: u64 = 10_000;
const SENDER: u32 = 1;
const READER: u32 = 2;
const NEAR: u64 = 11;
const FAR: u64 = 12;

/// What a stream is made with.
#[derive(Clone, Copy)]
struct Made {
    /// Time that a byte occupies the link (ns).
    link_ns: f64,
    /// Each way (ns).
    delay_ns: u64,
    /// Of the send buffer (bytes).
    room: u64,
    /// The sender is told of room when so many parts of the buffer are free: 3 = a third, as Linux does. With 0 it is told
    /// of any, so that it sends evenly.
    told_at: u64,
    sender_ns: f64,
    reader_ns: f64,
    bytes: u64,
}

const NARROW: Made = Made {
    link_ns: 400.0,
    delay_ns: 20_000_000,
    room: 256 << 10,
    told_at: 0,
    sender_ns: 1.0,
    reader_ns: 80.0,
    bytes: 12 << 20,
};

/// Runs the stream and tells what a recording would; gives also its rate (bytes a second) when it ran steadily.
fn run(made: &Made) -> (HostRows, f64) {
    let mut h = HostRows::new("one", 1_000_000);
    h.task(1, SENDER, SENDER, 0, "sends");
    h.task(1, READER, READER, 0, "reads");
    let (a, b) = (([10, 0, 0, 1], 5000), ([10, 0, 0, 2], 7000));
    let begin = 1_000_000;
    let connected = begin + 2 * made.delay_ns;
    let end = |flow, local, remote, netns, task, how, side| Announced {
        flow,
        local,
        remote,
        netns,
        snd: FIRST,
        rcv: FIRST,
        task,
        how,
        side,
    };
    h.endpoint(connected, &end(NEAR, a, b, 1, SENDER, SeenHow::Connected, rows::Side::Client));
    h.endpoint(connected + made.delay_ns, &end(FAR, b, a, 2, READER, SeenHow::Accepted, rows::Side::Server));
    h.op(begin, connected + WAKE_NS, SENDER, NEAR, OpKind::Connect, 0);
    // when each packet arrived, and until where the stream reaches with it
    let mut arrivals: Vec<(u64, u64)> = Vec::new();
    let (mut t, mut sent, mut acked, mut free) = (connected + WAKE_NS, 0, 0usize, 0f64);
    while sent < made.bytes {
        let (entry, start) = (t, sent);
        while sent < start + CALL {
            while arrivals.get(acked).is_some_and(|p| p.0 + made.delay_ns <= t) {
                acked += 1;
            }
            if sent - acked as u64 * PACKET + PACKET > made.room {
                let (from, mut woken) = (t, t);
                let enough = made.room.checked_div(made.told_at).unwrap_or(0).max(PACKET);
                while sent - acked as u64 * PACKET + enough > made.room {
                    woken = arrivals[acked].0 + made.delay_ns;
                    acked += 1;
                }
                t = woken + WAKE_NS;
                h.waited(from, woken, t, SENDER, 0, 0);
            }
            t += (PACKET as f64 * made.sender_ns) as u64;
            sent += PACKET;
            free = free.max(t as f64) + PACKET as f64 * made.link_ns;
            arrivals.push((free as u64 + made.delay_ns, sent));
        }
        h.moved((entry, t, 0), SENDER, NEAR, true, FIRST + start..FIRST + sent);
    }
    let (mut t, mut read, mut next) = (connected + made.delay_ns, 0, 0);
    let mut reads = Vec::new();
    while read < sent {
        if arrivals[next].0 > t {
            let (from, (woken, until)) = (t, arrivals[next]);
            t = woken + 2 * WAKE_NS;
            h.waited(from, woken, t, READER, 0, FAR);
            if let Some(Event::Wait(w)) = h.rows.last_mut() {
                w.rcv_seq = (FIRST + until) as u32;
            }
        }
        let there = arrivals[next..].partition_point(|p| p.0 <= t);
        let until = (arrivals[next + there - 1].1).min(read + CALL);
        h.moved((t, t, arrivals[next].0), READER, FAR, false, FIRST + read..FIRST + until);
        t += ((until - read) as f64 * made.reader_ns) as u64;
        read = until;
        next = (read / PACKET) as usize;
        reads.push((t, read));
    }
    let middle = &reads[reads.len() / 5..reads.len() * 4 / 5];
    let (first, last) = (middle[0], middle[middle.len() - 1]);
    (h, (last.1 - first.1) as f64 * 1e9 / (last.0 - first.0) as f64)
}

fn derived(rows: &HostRows) -> Result<Option<Derived>, Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let path: PathBuf = dir.path().join("trace");
    rows.write(&path, Cuts::default())?;
    let dirs = [path];
    let folder = Folder::open(&dirs)?;
    let index = Index::open(&folder, &dirs)?;
    Ok(streams::derive(&folder, &index, &Names::read(&folder), &Selection::default())?)
}

/// The bottleneck of a stream beside them is none of theirs.
#[test]
fn a_stream_stands_for_no_requests_that_cannot_be_modelled() -> Result<(), Box<dyn std::error::Error>> {
    let mut text = String::from(
        "host web\ntask A app\ntask D db\nflow d A D ports 30000 5432\nflow c1 - A ports 40001 80\nflow c2 - A ports 40002 80\n",
    );
    // a loop with two requests open calls for one of them, nobody knows which
    for n in 0..20 {
        for (at, line) in [
            (10, format!("A takes a{n} c1")),
            (20, format!("A takes b{n} c2")),
            (30, format!("A asks q{n} d for b{n}")),
            (40, format!("D takes q{n}")),
            (50, format!("D answers q{n}")),
            (60, format!("A hears q{n}")),
            (70, format!("A answers a{n}")),
            (80, format!("A answers b{n}")),
        ] {
            text += &format!("{} {line}\n", 1_000 * n + at);
        }
    }
    let recording = play(&text)?;
    let (rows, _) = run(&Made { bytes: 4 << 20, ..NARROW });
    for has_requests in [true, false] {
        let dir = tempfile::tempdir()?;
        let mut folders = vec![dir.path().join("stream")];
        rows.write(&folders[0], Cuts::default())?;
        if has_requests {
            folders.extend(recording.write(dir.path(), Cuts::default())?);
        }
        let folder = Folder::open(&folders)?;
        let index = Index::open(&folder, &folders)?;
        let derived = derive::derive(&folder, &index, &Names::read(&folder), &Selection::default());
        match (derived, has_requests) {
            (Err(why), true) => assert!(why.to_string().contains("have a complete path"), "{why}"),
            (Ok(derived), false) => assert_eq!(derived.measured.unit, Unit::Bytes),
            (other, _) => panic!("{other:?}"),
        }
    }
    Ok(())
}

fn system(model: &Model) -> &System {
    match model {
        Model::Machines(s) => s,
        Model::Jobs(_) => panic!("a stream is made into state machines"),
    }
}

/// Bytes a second of a replay.
fn rate(s: &System, outcome: &Outcome) -> f64 {
    let piece = s.steps.iter().find_map(|s| if let Step::Enqueue { count, .. } = s { Some(*count) } else { None });
    outcome.throughput() * piece.unwrap_or(0) as f64
}

#[test]
fn a_stream_is_what_it_was_made_with() -> Result<(), Box<dyn std::error::Error>> {
    // told of a third, what is in the buffer swings between full and two thirds of that
    for (told_at, in_flight) in [(0, 1.0), (3, 5.0 / 6.0)] {
        let (rows, truth) = run(&Made { told_at, ..NARROW });
        let derived = derived(&rows)?.ok_or("no stream")?;
        let s = system(&derived.model);
        let link = s.queues.iter().find(|q| q.kind == QueueKind::Link).ok_or("no link")?;
        assert_eq!((link.name.as_str(), link.delay_ns), ("sends-reads", NARROW.delay_ns));
        assert!((link.ns_per_item / NARROW.link_ns - 1.0).abs() < 0.01, "{}", link.ns_per_item);
        let buffer = s.queues.iter().find(|q| q.name == "sends send buffer").ok_or("no buffer")?;
        let share = buffer.initial as f64 / NARROW.room as f64;
        assert!((share / in_flight - 1.0).abs() < 0.05, "{share}");
        assert_eq!(derived.measured.unit, Unit::Bytes);
        let measured = derived.measured.count as f64 * 1e9 / derived.measured.elapsed_ns as f64;
        assert!((measured / truth - 1.0).abs() < 0.01, "{measured} {truth}");
        let outcome = replay(s, &Options::default());
        assert!((rate(s, &outcome) / truth - 1.0).abs() < 0.03, "{} {truth}", rate(s, &outcome));
        assert!(outcome.stuck.is_empty(), "{:?}", outcome.stuck);
        assert_eq!(derived.lossy, 0.0);
    }
    Ok(())
}

/// The paper's sequence (section 4.3): each bottleneck taken away, all from the one recording.
#[test]
fn what_comes_after_each_bottleneck_is_foreseen() -> Result<(), Box<dyn std::error::Error>> {
    let (rows, before) = run(&NARROW);
    let mut derived = derived(&rows)?.ok_or("no stream")?;
    let unchanged = rate(system(&derived.model), &replay(system(&derived.model), &Options::default()));
    let mut made = Made { bytes: 48 << 20, ..NARROW };
    for step in 0..3 {
        let change = match step {
            0 => {
                made.link_ns /= 10.0;
                "link reads-sends bandwidth=10x"
            }
            1 => {
                made.room = 1 << 40;
                "queue sends send buffer=unbounded"
            }
            _ => {
                made.reader_ns /= 4.0;
                "scale */reads/cpu=0.25"
            }
        };
        let change: Change = change.parse()?;
        apply(&change, &mut derived.model)?;
        let s = system(&derived.model);
        let forecast = before * rate(s, &replay(s, &Options::default())) / unchanged;
        let truth = run(&made).1;
        assert!((forecast / truth - 1.0).abs() < 0.05, "step {step}: {forecast} and really {truth}");
    }
    Ok(())
}

/// Windows are not recorded: a change of one says so, and changes nothing.
#[test]
fn a_window_is_refused_with_what_is_missing() -> Result<(), Box<dyn std::error::Error>> {
    let mut model = derived(&run(&NARROW).0)?.ok_or("no stream")?.model;
    let before = model.clone();
    for (change, says) in [
        ("queue reads receive window=2x", "Not seen: how large the congestion window and the receive window were"),
        ("queue sends congestion window=unbounded", "tcp_probe"),
        ("queue sends send buffer=unbounded", ""),
        ("queue sends buffer=2x", "What can be named here:\n    sends send buffer"),
    ] {
        match apply(&change.parse()?, &mut model) {
            Err(no) => {
                let text = no.to_string();
                assert!(!says.is_empty() && text.contains(says) && model == before, "{text}");
            }
            Ok(_) => {
                assert!(says.is_empty() && model != before, "{change}");
                model = before.clone();
            }
        }
    }
    Ok(())
}

/// What answers requests is no stream, and neither is what goes both ways.
#[test]
fn not_everything_is_a_stream() -> Result<(), Box<dyn std::error::Error>> {
    let (rows, _) = run(&Made { bytes: 256 << 10, ..NARROW });
    assert!(derived(&rows)?.is_none());
    assert!(derived(&HostRows::new("one", 0))?.is_none());
    Ok(())
}

#[test]
fn what_was_lost_is_said() -> Result<(), Box<dyn std::error::Error>> {
    let (mut rows, _) = run(&NARROW);
    rows.lost(1_000_000_000, 4_000_000_000, 10, "loss.ring.wait");
    let derived = derived(&rows)?.ok_or("no stream")?;
    assert!(derived.lossy > 0.3 && derived.lossy <= 1.0, "{}", derived.lossy);
    Ok(())
}
