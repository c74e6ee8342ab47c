//! Readers of kernels' traces that are one file, whichever the registry has: every folder `tests/golden/ID/*` is a test with a
//! recording and what is read from it (`UPDATE_GOLDEN=1` writes it anew), and files cut and damaged anywhere. Beside
//! them ring buffers of perf.data and trace.dat made by hand in both byte orders.

use proptest::prelude::*;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use wakepath_decode::raw::{Raw, RawSink};
use wakepath_decode::readers::{Content, Counts, Format, HostFacts, Layout, Part};
use wakepath_model::ids::MonoNs;

/// Each event as a line.
#[derive(Default)]
struct Lines(Vec<String>);

impl RawSink for Lines {
    fn event(&mut self, at: MonoNs, cpu: u16, event: &Raw<'_>) {
        let mut text = format!("{event:?}");
        // names as text rather than as numbers
        while let Some((begin, rest)) = text.split_once(": [").map(|(a, b)| (a.to_owned(), b.to_owned())) {
            let (bytes, rest) = rest.split_once(']').expect("a closed list");
            let name: Vec<u8> = bytes.split(", ").filter_map(|b| b.parse().ok()).collect();
            text = format!("{begin}: {:?}{rest}", String::from_utf8_lossy(&name));
        }
        self.0.push(format!("{} {cpu} {text}", at.0));
    }

    fn lost(&mut self, cpu: Option<u16>, from: MonoNs, to: MonoNs, count: u64) {
        self.0.push(format!("{} lost {count} of {cpu:?} since {}", to.0, from.0));
    }

    fn count(&mut self, defect: &'static str, at: MonoNs) {
        assert!(wakepath_model::defects::ALL.iter().any(|d| d.id == defect), "{defect}");
        self.0.push(format!("{} defect {defect}", at.0));
    }
}

struct Read {
    facts: HostFacts,
    counts: Counts,
    lines: Vec<String>,
}

fn read(file: &[u8]) -> Read {
    // what is no trace is what a damaged one may have become
    read_as(Format::of(file).unwrap_or(Format::Perf), file)
}

fn read_as(format: Format, file: &[u8]) -> Read {
    let part = Part { name: "t".into(), files: vec![("t".into(), Box::new(file.to_vec()))] };
    let mut reader = format.open(vec![part]).unwrap_or_else(|e| panic!("{e}"));
    let mut lines = Lines::default();
    reader.run(&mut lines);
    Read { facts: reader.facts().clone(), counts: reader.counts(), lines: lines.0 }
}

/// The formats of kernels' traces that are one file.
fn formats() -> impl Iterator<Item = Format> {
    let is_one_file =
        |f: &Format| f.about().content == Content::KernelEvents && matches!(f.about().layout, Layout::File);
    Format::ALL.iter().copied().filter(is_one_file)
}

/// Folder and recording of each golden case.
fn golden(format: Format) -> Vec<(PathBuf, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(format.about().id);
    let mut cases: Vec<PathBuf> = std::fs::read_dir(&root).unwrap().map(|e| e.unwrap().path()).collect();
    cases.sort();
    assert!(!cases.is_empty());
    let file = |case: &Path| {
        let files = std::fs::read_dir(case).unwrap().map(|e| std::fs::read(e.unwrap().path()).unwrap());
        files.into_iter().find(|file| Format::of(file) == Some(format))
    };
    cases.into_iter().map(|case| (file(&case).map(|f| (case, f))).expect("a recording")).collect()
}

#[test]
fn every_case_gives_what_is_expected() {
    for (case, file) in formats().flat_map(golden) {
        let read = read(&file);
        let mut text = format!("{:#?}\n{:#?}\n", read.facts, read.counts);
        read.lines.iter().for_each(|l| writeln!(text, "{l}").unwrap());
        wakepath_testkit::golden::holds(&case, &text);
    }
}

/// What is read of a file cut anywhere. All that is read of a whole file stands in front of the cut or after it.
#[test]
fn files_cut_anywhere_are_read_up_to_the_cut() {
    for (format, (case, file)) in formats().flat_map(|f| golden(f).into_iter().map(move |g| (f, g))) {
        let whole = read(&file);
        let whole_count = whole.counts.total();
        let step = (file.len() / 400).max(1);
        let mut most = 0;
        for len in (0..file.len()).step_by(step) {
            let cut = read_as(format, &file[..len]);
            assert!(cut.counts.total() <= whole_count, "{} cut at {len}", case.display());
            for fault in &cut.counts.faults {
                assert!(fault.offset <= len as u64, "{} cut at {len}: {fault:?}", case.display());
            }
            most = most.max(cut.counts.total());
            let is_pipe = file.starts_with(b"PERFILE2") && file[8] == 16;
            let is_6 = file.get(10) == Some(&b'6');
            if cut.counts.total() < whole_count && !is_pipe {
                let named = cut.counts.fault_count > 0;
                assert!(named, "{} cut at {len}: {} events and no fault", case.display(), cut.counts.total());
            }
            if is_6 || is_pipe {
                // what was written before the cut is read; what has no time of its own takes its neighbours'
                let known = |l: &String| {
                    whole.lines.contains(l) || ["Current", "Alive", "defect"].iter().any(|k| l.contains(k))
                };
                assert_eq!(cut.lines.iter().find(|l| !known(l)), None, "{} cut at {len}", case.display());
            }
        }
        if case.ends_with("v6") || case.ends_with("pipe") {
            assert!(most * 2 > whole_count, "{}: at most {most} of {whole_count}", case.display());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damaged_files_are_read_without_a_panic(
        pick in any::<prop::sample::Index>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
    ) {
        let all: Vec<_> = formats().flat_map(|f| golden(f).into_iter().map(move |(_, file)| (f, file))).collect();
        let (format, mut file) = pick.get(&all).clone();
        for (at, value) in damage {
            let at = at.index(file.len());
            file[at] = value;
        }
        let read = read_as(format, &file);
        prop_assert!(read.counts.faults.len() <= Counts::FAULTS);
    }
}

/// Writes integers in either byte order.
#[derive(Clone)]
struct Writer {
    big: bool,
    bytes: Vec<u8>,
}

impl Writer {
    fn new(big: bool) -> Writer {
        Writer { big, bytes: Vec::new() }
    }

    fn put(&mut self, value: u64, size: usize) -> &mut Writer {
        let bytes = value.to_le_bytes();
        if self.big {
            self.bytes.extend(bytes[..size].iter().rev());
        } else {
            self.bytes.extend(&bytes[..size]);
        }
        self
    }

    fn raw(&mut self, bytes: &[u8]) -> &mut Writer {
        self.bytes.extend(bytes);
        self
    }

    /// Head of a ring buffer's entry.
    fn entry(&mut self, kind: u64, delta: u64) -> &mut Writer {
        let header = if self.big { kind << 27 | delta } else { delta << 5 | kind };
        self.put(header, 4)
    }
}

const EXIT: &str = "name: softirq_exit\nID: 9\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\tfield:unsigned int vec;\toffset:8;\tsize:4;\tsigned:0;\n\nprint fmt: \"\"\n";

/// What trace.dat of version 6 and perf's tracing data begin with, with one event, `irq:softirq_exit`.
fn layouts(writer: &mut Writer, version: &[u8]) {
    let order = u8::from(writer.big);
    writer.raw(b"\x17\x08\x44tracing").raw(version).raw(&[order, 8]).put(4096, 4);
    writer.raw(b"header_page\0").put(0, 8).raw(b"header_event\0").put(0, 8);
    writer.put(0, 4).put(1, 4).raw(b"irq\0").put(1, 4).put(EXIT.len() as u64, 8).raw(EXIT.as_bytes());
    writer.put(0, 4).put(0, 4).put(0, 8); // kallsyms, printk, command lines
}

fn softirq_exit(writer: &mut Writer, vector: u64) {
    writer.put(9, 2).put(0, 6).put(vector, 4);
}

/// A trace.dat with one processor's pages.
fn trace_dat(big: bool, pages: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Writer::new(big);
    layouts(&mut file, b"6\0");
    file.put(1, 4).raw(b"options  \0").put(5, 2).put(22, 4).raw(b"Linux hex 4.19 s390x a\0").bytes.pop();
    file.put(0, 2).raw(b"flyrecord\0");
    let at = 8192;
    file.put(at, 8).put(4096 * pages.len() as u64, 8);
    file.bytes.resize(at as usize, 0);
    pages.iter().for_each(|p| file.bytes.extend(p));
    file.bytes
}

fn page(big: bool, time: u64, commit_flags: u64, fill: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut entries = Writer::new(big);
    fill(&mut entries);
    let mut page = Writer::new(big);
    page.put(time, 8).put(entries.bytes.len() as u64 | commit_flags, 8).raw(&entries.bytes);
    if commit_flags & 1 << 30 != 0 {
        page.put(5, 8);
    }
    page.bytes.resize(4096, 0);
    page.bytes
}

#[test]
fn ring_buffer_entries_of_every_kind_in_both_orders() {
    for big in [false, true] {
        let first = page(big, 1_000, 0, |w| {
            w.entry(3, 5); // 1005
            softirq_exit(w, 1);
            w.entry(30, 7).put(2, 4); // time extend: 2 << 27 and 7 on
            w.entry(0, 1).put(16, 4); // long form: 16 bytes with their count
            softirq_exit(w, 2);
            w.entry(29, 3).put(8, 4).put(0, 4); // discarded, its time counts
            w.entry(31, 9).put(4, 4); // absolute: 4 << 27 | 9
            w.entry(3, 0);
            softirq_exit(w, 3);
            w.entry(29, 0).put(0, 4); // nothing more on this page
            w.entry(3, 0);
            softirq_exit(w, 99);
        });
        let second = page(big, 2 << 30, 1 << 31 | 1 << 30, |w| {
            w.entry(3, 1);
            softirq_exit(w, 4);
        });
        let third = page(big, 3 << 30, 1 << 31, |w| {
            w.entry(3, 1);
            softirq_exit(w, 5);
            w.entry(28, 1); // reaches beyond what is used
        });
        let read = read(&trace_dat(big, &[first, second, third]));
        let extended = 1005 + 7 + (2 << 27) + 1;
        let expected = [
            "1005 0 SoftirqExit { vector: 1 }".to_owned(),
            format!("{extended} 0 SoftirqExit {{ vector: 2 }}"),
            format!("{} 0 SoftirqExit {{ vector: 3 }}", (4 << 27) + 9),
            format!("{} lost 5 of Some(0) since {}", (2u64 << 30) + 1, (4 << 27) + 9),
            format!("{} 0 SoftirqExit {{ vector: 4 }}", (2u64 << 30) + 1),
            format!("{} lost 1 of Some(0) since {}", (3u64 << 30) + 1, (2u64 << 30) + 1),
            format!("{} 0 SoftirqExit {{ vector: 5 }}", (3u64 << 30) + 1),
        ];
        assert_eq!(read.lines, expected, "big: {big}");
        assert_eq!((read.facts.arch.as_str(), read.facts.kernel_release.as_str()), ("a", "4.19"));
        assert_eq!((read.counts.lost, read.counts.fault_count), (6, 1), "{:?}", read.counts.faults);
        assert_eq!(read.counts.faults[0].offset, 8192 + 2 * 4096 + 16 + 16);
    }
}

/// A recording into a pipe with one tracepoint on two processors, whose rounds overlap.
fn perf_pipe(big: bool) -> Vec<u8> {
    const SAMPLE_TYPE: u64 = 1 << 16 | 1 << 2 | 1 << 7 | 1 << 10; // identifier, time, cpu, raw
    let mut file = Writer::new(big);
    file.raw(if big { b"2ELIFREP" } else { b"PERFILE2" }).put(16, 8);
    file.put(64, 4).put(0, 2).put(8 + 112 + 16, 2);
    let sample_id_all = if big { 63 - 18 } else { 18 };
    file.put(2, 4).put(112, 4).put(9, 8).put(1, 8).put(SAMPLE_TYPE, 8).put(0, 8).put(1 << sample_id_all, 8);
    file.raw(&[0; 112 - 48]).put(70, 8).put(71, 8);
    let mut layout = Writer::new(big);
    layouts(&mut layout, b"0.6\0");
    file.put(66, 4).put(0, 2).put(12, 2).put(layout.bytes.len() as u64, 4).raw(&layout.bytes);
    file.put(80, 4).put(0, 2).put(16 + 4 + 8, 2).put(3, 8).put(8, 4).raw(b"big-end\0");
    let sample = |file: &mut Writer, time: u64, cpu: u64| {
        file.put(9, 4).put(0, 2).put(8 + 24 + 16, 2).put(70 + cpu, 8).put(time, 8).put(cpu, 4).put(0, 4);
        file.put(12, 4);
        softirq_exit(file, time);
    };
    let round = |file: &mut Writer| {
        file.put(68, 4).put(0, 2).put(8, 2);
    };
    for (cpu, time) in [(0, 1), (0, 3), (1, 2), (1, 6)] {
        sample(&mut file, time, cpu);
    }
    round(&mut file);
    for (cpu, time) in [(0, 4), (0, 8), (1, 7)] {
        sample(&mut file, time, cpu);
    }
    // LOST: id, count; then time, processor, identifier
    file.put(2, 4).put(0, 2).put(8 + 16 + 24, 2).put(70, 8).put(40, 8).put(5, 8).put(0, 4).put(0, 4).put(70, 8);
    round(&mut file);
    sample(&mut file, 9, 0);
    file.bytes
}

#[test]
fn perf_rounds_are_put_in_order_in_both_byte_orders() {
    for big in [false, true] {
        let read = read(&perf_pipe(big));
        let times: Vec<&str> = read.lines.iter().map(|l| l.split(' ').next().unwrap()).collect();
        assert_eq!(times, ["1", "2", "3", "4", "5", "6", "7", "8", "9"], "big: {big} {:?}", read.counts);
        assert_eq!(read.lines[4], "5 lost 40 of Some(0) since 4");
        assert_eq!(read.lines[5], "6 1 SoftirqExit { vector: 6 }");
        assert_eq!((read.counts.lost, read.counts.events["irq:softirq_exit"]), (40, 8));
        assert_eq!((read.facts.hostname.as_str(), read.counts.fault_count), ("big-end", 0));
    }
}

#[test]
fn what_is_no_recording_gives_a_fault_and_no_event() {
    for file in
        [&b""[..], b"PERFILE2", b"\x17\x08\x44tracing7\0", b"PERFILE2\x68\0\0\0\0\0\0\0", b"hello, world: no trace"]
    {
        let read = read(file);
        assert_eq!((read.counts.total(), read.lines.len()), (0, 0), "{file:?}");
        assert_eq!(read.counts.fault_count, 1, "{file:?} {:?}", read.counts.faults);
    }
}
