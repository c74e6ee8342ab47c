//! Reader of packet captures: every folder `tests/golden/read.pcap/*` is a test with a capture and what is read from it
//! (`UPDATE_GOLDEN=1` writes it anew); files given in pieces, cut and damaged anywhere; and what tshark reads.

use proptest::prelude::*;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use wakepath_decode::readers::pcap::{PcapReader, Record};
use wakepath_decode::readers::{Counts, Reader as _};
use wakepath_testkit::data;
use wakepath_wire::packet::Packet;

/// A capture's records as lines.
fn read(chunks: &[&[u8]]) -> (Vec<String>, Counts) {
    let (mut reader, mut lines) = (PcapReader::new(), Vec::new());
    for chunk in chunks {
        reader.feed(chunk, &mut |record| {
            lines.push(match record {
                Record::Packet(Packet { at_ns, link, interface, length, bytes }) => {
                    format!("{at_ns} link {link} interface {interface} length {length} {bytes:02x?}")
                }
                Record::Lost { interface, from_ns, at_ns, count } => {
                    assert!(from_ns <= at_ns, "a loss ends before it begins");
                    format!("{at_ns} interface {interface} lost {count} since {from_ns}")
                }
            });
        });
    }
    let before = reader.progress().done;
    reader.finish();
    assert!(before <= chunks.iter().map(|c| c.len() as u64).sum());
    (lines, reader.counts())
}

fn golden() -> Vec<(PathBuf, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/read.pcap");
    let mut cases: Vec<PathBuf> = std::fs::read_dir(&root).unwrap().map(|e| e.unwrap().path()).collect();
    cases.sort();
    assert!(!cases.is_empty());
    let file =
        |case: &Path| ["pcap", "pcapng"].iter().find_map(|n| std::fs::read(case.join(format!("capture.{n}"))).ok());
    cases.into_iter().map(|case| (file(&case).map(|f| (case, f))).expect("a capture")).collect()
}

#[test]
fn golden_captures() {
    for (case, file) in golden() {
        assert!(PcapReader::fits(&file));
        let (lines, counts) = read(&[&file]);
        let mut text = format!("{counts:#?}\n");
        lines.iter().for_each(|l| writeln!(text, "{l}").unwrap());
        wakepath_testkit::golden::holds(&case, &text);
    }
}

#[test]
fn a_file_cut_anywhere_is_read_up_to_the_cut() {
    for (case, file) in golden() {
        let (whole, counts) = read(&[&file]);
        for len in 0..file.len() {
            let (lines, cut) = read(&[&file[..len]]);
            assert_eq!(lines[..], whole[..lines.len()], "{} cut at {len}", case.display());
            let at_a_border = cut.fault_count <= counts.fault_count;
            let named = cut.faults.last().is_some_and(|f| f.defect == "import.cut" && f.offset <= len as u64);
            assert!(at_a_border || named, "{} cut at {len}: {cut:?}", case.display());
        }
        // One byte less than all of the last record is a cut.
        let (_, cut) = read(&[&file[..file.len() - 1]]);
        assert!(cut.fault_count > 0, "{}", case.display());
    }
}

#[test]
fn what_is_no_capture_is_a_fault_at_its_begin() {
    for bytes in [&b"PERFILE2 and what follows"[..], b"\x1f\x8b\x08\0\0\0\0\0"] {
        assert!(!PcapReader::fits(bytes));
        let (lines, counts) = read(&[bytes]);
        assert_eq!((lines.len(), counts.faults[0].defect, counts.faults[0].offset), (0, "import.damaged", 0));
    }
    assert_eq!(read(&[b""]).1.faults[0].defect, "import.cut");
}

#[test]
fn blocks_that_nobody_reads_are_stepped_over_in_no_memory() {
    let mut file = golden().into_iter().find(|(case, _)| case.ends_with("resolutions")).expect("the case").1;
    let packets = read(&[&file]).0.len();
    let section = usize::from(file[4]);
    let blocks = file.split_off(section);
    let size: u32 = 1 << 30;
    file.extend([&5_555_u32.to_le_bytes()[..], &size.to_le_bytes()].concat());
    let mut reader = PcapReader::new();
    let mut count = 0;
    reader.feed(&file, &mut |_| count += 1);
    let zeros = vec![0; 1 << 20];
    (0..1 << 10)
        .for_each(|n| reader.feed(&zeros[..if n == 0 { zeros.len() - 8 } else { zeros.len() }], &mut |_| count += 1));
    reader.feed(&blocks, &mut |_| count += 1);
    reader.finish();
    assert_eq!((count, reader.counts().fault_count), (packets, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_pieces_give_the_same_packets(
        pick in any::<prop::sample::Index>(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..30),
        single in any::<bool>(),
    ) {
        let all = golden();
        let file = &pick.get(&all).1;
        let mut cuts: Vec<usize> = cuts.iter().map(|c| c.index(file.len())).collect();
        if single {
            cuts = (0..file.len()).collect();
        }
        cuts.extend([0, file.len()]);
        cuts.sort_unstable();
        let chunks: Vec<&[u8]> = cuts.windows(2).map(|w| &file[w[0]..w[1]]).collect();
        prop_assert_eq!(read(&chunks), read(&[file]));
    }

    #[test]
    fn damaged_files_are_read_without_a_panic(
        pick in any::<prop::sample::Index>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        cut in any::<prop::sample::Index>(),
    ) {
        let all = golden();
        let mut file = pick.get(&all).1.clone();
        for (at, value) in damage {
            let at = at.index(file.len());
            file[at] = value;
        }
        let cut = cut.index(file.len());
        prop_assert_eq!(read(&[&file]), read(&[&file[..cut], &file[cut..]]));
    }
}

/// What tshark says of a capture: a line for each packet with its time, lengths and interface.
fn tshark(file: &Path) -> Option<Vec<String>> {
    let fields = ["frame.time_epoch", "frame.len", "frame.cap_len"];
    let mut command = Command::new("tshark");
    command.arg("-r").arg(file).args(["-n", "-T", "fields"]);
    fields.iter().for_each(|f| {
        command.args(["-e", f]);
    });
    let out = command.env("TZ", "UTC").output().ok()?;
    Some(String::from_utf8_lossy(&out.stdout).lines().map(str::to_owned).collect())
}

/// Holds each file against tshark, where that is installed.
fn read_as_tshark_reads(files: &[PathBuf]) {
    let mut compared = 0;
    for path in files {
        let Some(theirs) = tshark(path) else {
            println!("skipped: there is no tshark");
            return;
        };
        let (mut reader, mut ours) = (PcapReader::new(), Vec::new());
        reader.feed(&std::fs::read(path).unwrap(), &mut |record| {
            if let Record::Packet(p) = record {
                let (seconds, ns) = (p.at_ns / 1_000_000_000, p.at_ns % 1_000_000_000);
                ours.push(format!("{seconds}.{ns:09}\t{}\t{}", p.length, p.bytes.len()));
            }
        });
        reader.finish();
        assert_eq!(ours, theirs, "{}", path.display());
        compared += ours.len();
    }
    assert!(compared > 100, "{compared} packets");
}

#[test]
fn captures_are_read_as_tshark_reads_them() {
    read_as_tshark_reads(&data::own_captures());
}

#[test]
#[ignore = "needs WAKEPATH_DATA"]
fn others_captures_are_read_as_tshark_reads_them() {
    read_as_tshark_reads(&data::others_captures());
}

#[test]
fn formats_that_editcap_writes_give_the_same_packets() {
    let packets = |file: &Path, ns: u64| {
        let (mut reader, mut packets) = (PcapReader::new(), Vec::new());
        reader.feed(&std::fs::read(file).unwrap(), &mut |record| {
            if let Record::Packet(Packet { at_ns, link, length, bytes, .. }) = record {
                packets.push((at_ns / ns * ns, link, length, bytes.to_vec()));
            }
        });
        reader.finish();
        assert_eq!(reader.counts().fault_count, 0, "{}", file.display());
        packets
    };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/net.link/snapped/capture.pcap");
    let folder = tempfile::tempdir().unwrap();
    for (format, ns) in [("pcapng", 1), ("nsecpcap", 1), ("pcap", 1000), ("modpcap", 1000)] {
        let target = folder.path().join(format);
        let Ok(out) = Command::new("editcap").args(["-F", format]).arg(&source).arg(&target).output() else {
            println!("skipped: there is no editcap");
            return;
        };
        assert!(out.status.success(), "{format}: {}", String::from_utf8_lossy(&out.stderr));
        assert_eq!(packets(&target, ns), packets(&source, ns), "{format}");
    }
}
