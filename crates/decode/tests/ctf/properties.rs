//! What must hold for any trace.

use crate::support::{Lines, events, reader};
use proptest::prelude::*;
use std::fmt::Write as _;
use wakepath_decode::readers::ReadAt;
use wakepath_decode::readers::TraceReader as _;
use wakepath_decode::readers::ctf::{CtfReader, Source};

/// A type as TSDL writes it, before and after its name, whatever its nesting.
fn ty(depth: u32) -> BoxedStrategy<(String, String)> {
    let plain = (1u32..=64, prop::sample::select(vec![1u32, 2, 4, 8, 16, 32, 64]), any::<(bool, bool)>());
    let int = plain.prop_map(|(size, align, (signed, big))| {
        let order = if big { "be" } else { "le" };
        (
            format!("integer {{ size = {size}; align = {align}; signed = {signed}; byte_order = {order}; }}"),
            String::new(),
        )
    });
    let string = Just(("string".to_owned(), String::new()));
    let float = Just(("floating_point { exp_dig = 8; mant_dig = 24; align = 8; }".to_owned(), String::new()));
    let leaf = prop_oneof![4 => int, 2 => string, 1 => float].boxed();
    if depth == 0 {
        return leaf;
    }
    let array = (ty(depth - 1), 0u32..4).prop_map(|((before, behind), n)| (before, format!("[{n}]{behind}")));
    let members = prop::collection::vec(ty(depth - 1), 0..4);
    let structure = (members, prop::sample::select(vec![1u32, 8, 32])).prop_map(|(members, align)| {
        let mut out = String::from("struct { ");
        for (i, (before, behind)) in members.iter().enumerate() {
            let _ = write!(out, "{before} _m{i}{behind}; ");
        }
        (format!("{out} }} align({align})"), String::new())
    });
    // a length or a tag, and what depends on it
    let sequence = ty(depth - 1).prop_map(|(before, behind)| {
        let len = "integer { size = 3; align = 1; }";
        (format!("struct {{ {len} _n; {before} _s[_n]{behind}; }}"), String::new())
    });
    let variant = (ty(depth - 1), ty(depth - 1)).prop_map(|((b1, e1), (b2, e2))| {
        let tag = "enum : integer { size = 8; } { \"_a\" = 0 ... 100, \"_b\" = 101 ... 255 }";
        (format!("struct {{ {tag} _t; variant <_t> {{ {b1} _a{e1}; {b2} _b{e2}; }} _v; }}"), String::new())
    });
    prop_oneof![3 => leaf, 2 => array, 2 => structure, 2 => sequence, 2 => variant].boxed()
}

fn metadata(fields: &[(String, String)], big: bool) -> String {
    let order = if big { "be" } else { "le" };
    let mut out = format!("/* CTF 1.8 */ trace {{ major = 1; minor = 8; byte_order = {order}; }};\n");
    out += "event { name = \"x\"; fields := struct { integer { size = 7; } _first; ";
    for (i, (before, behind)) in fields.iter().enumerate() {
        let _ = write!(out, "{before} _f{i}{behind}; ");
    }
    out + "}; };\n"
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn programs_end_where_the_types_end(
        fields in prop::collection::vec(ty(3), 1..5), big: bool, bytes in prop::collection::vec(any::<u8>(), 0..600),
    ) {
        let text = metadata(&fields, big);
        let stream = [("s".to_owned(), bytes)];
        // `events` asserts it for each
        let lines = events(&mut reader(text.as_bytes(), &stream));
        let mut run = reader(text.as_bytes(), &stream);
        run.run(&mut Lines::default());
        prop_assert_eq!(run.tally().events, lines.len() as u64);
    }

    #[test]
    fn any_bytes_as_metadata_are_read_or_refused(text in prop::collection::vec(any::<u8>(), 0..200)) {
        let source = Source { name: "t".into(), metadata: text, streams: Vec::new() };
        match CtfReader::new(vec![source]) {
            Ok(mut reader) => reader.run(&mut Lines::default()),
            Err(e) => prop_assert!(e.to_string().contains("t: metadata at byte ")),
        }
    }
}

const LTTNG: &str = include_str!("lttng.tsdl");

/// A packet of LTTng's layout with events of number 1 (a 4-byte field) at these times.
fn packet(stream: u64, cpu: u32, times: &[u64], lost: u64, sequence: u64) -> Vec<u8> {
    let mut body = Vec::new();
    for t in times {
        // compact header: 5 bits of number, 27 bits of time
        body.extend((1u32 | (*t as u32) << 5).to_le_bytes());
        body.extend(cpu.to_le_bytes());
    }
    let mut out = 0xc1fc_1fc1u32.to_le_bytes().to_vec();
    out.extend([7; 16]);
    out.extend(0u32.to_le_bytes());
    out.extend(stream.to_le_bytes());
    let size = (out.len() + 6 * 8 + 4 + body.len()) as u64 * 8;
    let begin = times.first().copied().unwrap_or(0);
    let end = times.last().copied().unwrap_or(0);
    for v in [begin, end, size, size, sequence, lost] {
        out.extend(v.to_le_bytes());
    }
    out.extend(cpu.to_le_bytes());
    out.extend(body);
    out
}

fn times(lines: &Lines) -> Vec<u64> {
    let raw = lines.0.iter().filter_map(|l| l.strip_prefix("raw ")?.split(' ').next());
    raw.map(|t| t.parse().expect("a time")).collect()
}

#[test]
fn many_streams_are_merged_by_time_and_their_losses_counted() {
    let mut streams = Vec::new();
    for s in 0..200u64 {
        let at = |k: u64| 1_000 + k * 200 + s * 7 % 200;
        let first: Vec<u64> = (0..20).map(at).collect();
        let second: Vec<u64> = (20..40).map(at).collect();
        let bytes = [packet(s, s as u32, &first, 5, 3), packet(s, s as u32, &second, 5 + s, 3 + 1 + s % 2)].concat();
        streams.push((format!("k_{s}"), bytes));
    }
    let mut reader = reader(LTTNG.as_bytes(), &streams);
    let mut lines = Lines::default();
    reader.run(&mut lines);
    let times = times(&lines);
    assert_eq!(times.len(), 200 * 40);
    assert!(times.is_sorted());
    let tally = reader.tally();
    assert_eq!((tally.events, tally.packets, tally.steps_back), (8_000, 400, 0));
    assert_eq!((tally.lost_events, tally.lost_packets, tally.lost_before), ((0..200).sum(), 100, 1_000));
    assert_eq!(reader.counts().lost, tally.lost_events);
    assert_eq!(reader.counts_by_stream().map(|(_, n)| n).collect::<Vec<_>>(), vec![40; 200]);
}

#[test]
fn files_of_one_stream_follow_each_other_whatever_their_names() {
    // rotation: the second file is the older one; times wrap at 27 bits in between
    let late = packet(9, 1, &[(3 << 27) - 2, (3 << 27) + 5], 8, 12);
    let early = packet(9, 1, &[(2 << 27) + 1, (3 << 27) - 9], 2, 11);
    let mut reader = reader(LTTNG.as_bytes(), &[("k_0_0".into(), late), ("k_0_1".into(), early)]);
    let mut lines = Lines::default();
    reader.run(&mut lines);
    assert_eq!(times(&lines), [(2 << 27) + 1, (3 << 27) - 9, (3 << 27) - 2, (3 << 27) + 5]);
    let tally = reader.tally();
    assert_eq!((tally.lost_events, tally.lost_packets, tally.lost_before), (6, 0, 2));
    assert_eq!(reader.counts_by_stream().count(), 1);
}

#[test]
fn small_steps_back_are_borne_and_counted() {
    let bytes = [packet(1, 0, &[100, 200], 0, 0), packet(1, 0, &[190, 300], 0, 1)].concat();
    let mut reader = reader(LTTNG.as_bytes(), &[("k_0".into(), bytes)]);
    let mut lines = Lines::default();
    reader.run(&mut lines);
    assert_eq!(times(&lines), [100, 200, 190, 300]);
    assert_eq!((reader.tally().steps_back, reader.counts().fault_count), (1, 0));
}

#[test]
fn a_stream_cut_at_any_byte_gives_its_first_events() {
    let bytes = [packet(1, 0, &[100, 200, 250], 0, 0), packet(1, 0, &[300, 400], 0, 1)].concat();
    let all = [100, 200, 250, 300, 400];
    for len in 0..bytes.len() {
        let mut reader = reader(LTTNG.as_bytes(), &[("k_0".into(), bytes[..len].to_vec())]);
        let mut lines = Lines::default();
        reader.run(&mut lines);
        let got = times(&lines);
        assert_eq!(got, all[..got.len()], "{len}");
        // between two packets nothing is missing
        let border = len == 0 || len == packet(1, 0, &[100, 200, 250], 0, 0).len();
        assert_eq!(reader.counts().fault_count, u64::from(!border), "{len}: {:?}", reader.counts());
    }
}

#[test]
fn a_packet_that_was_never_closed_is_read_to_its_last_event() {
    for unset in [0u64, u64::MAX] {
        let mut bytes = packet(1, 0, &[100, 200, 250], 0, 0);
        for at in [48, 56] {
            bytes[at..at + 8].copy_from_slice(&unset.to_le_bytes());
        }
        bytes.extend([0; 3_000]);
        let mut reader = reader(LTTNG.as_bytes(), &[("k_0".into(), bytes)]);
        let mut lines = Lines::default();
        reader.run(&mut lines);
        assert_eq!(times(&lines), [100, 200, 250]);
        let faults = reader.counts().faults;
        assert_eq!(faults.iter().map(|f| f.defect).collect::<Vec<_>>(), ["ctf.open_packet"]);
    }
}

/// A file of one packet that is not in memory.
struct Endless {
    head: Vec<u8>,
    size: u64,
    largest: std::sync::Arc<std::sync::atomic::AtomicUsize>,
}

impl ReadAt for Endless {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, at: u64, buf: &mut [u8]) -> std::io::Result<usize> {
        self.largest.fetch_max(buf.len(), std::sync::atomic::Ordering::Relaxed);
        let event: Vec<u8> = (2u32 | 64 << 5).to_le_bytes().into_iter().chain((1u32 << 20).to_le_bytes()).collect();
        let every = 8 + (1 << 20);
        for (i, b) in buf.iter_mut().enumerate() {
            let at = at + i as u64;
            *b = match self.head.get(at as usize) {
                Some(b) => *b,
                None => event.get(((at - self.head.len() as u64) % every) as usize).copied().unwrap_or(b'x'),
            };
        }
        Ok(buf.len())
    }
}

#[test]
fn a_long_packet_needs_but_a_window() {
    let events = 64u64;
    let mut head = packet(1, 0, &[], 0, 0);
    let size = head.len() as u64 + events * (8 + (1 << 20));
    for at in [48, 56] {
        head[at..at + 8].copy_from_slice(&(size * 8).to_le_bytes());
    }
    let largest = std::sync::Arc::default();
    let file = Endless { head, size, largest: std::sync::Arc::clone(&largest) };
    let source = Source {
        name: String::new(),
        metadata: LTTNG.as_bytes().to_vec(),
        streams: vec![("k_0".into(), Box::new(file))],
    };
    let mut reader = CtfReader::new(vec![source]).expect("metadata are whole");
    reader.run(&mut Lines::default());
    assert_eq!((reader.tally().events, reader.counts().fault_count), (events, 0));
    // an event of a mebibyte fits into a window of two
    assert!(largest.load(std::sync::atomic::Ordering::Relaxed) <= 2 << 20);
}
