//! Any bytes as a segment, and any frames under right checksums: no panic, bounded memory, and what is read twice is
//! the same.
//!
//! `cargo +nightly fuzz run folder`, from the root of the repository.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakepath_fuzz::{mutations, within};
use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;
use wakepath_model::folder::{Folder, FolderWriter, HostInfo, Options, TableSet};
use wakepath_model::ids::MonoNs;
use wakepath_model::rows::{Event, Table};

/// A folder with one segment, whose bytes are replaced.
static SEGMENT: LazyLock<(PathBuf, PathBuf)> = LazyLock::new(|| {
    let dir = std::env::temp_dir().join(format!("wakepath-fuzz-{}", std::process::id()));
    let _ = fs::remove_dir_all(&dir);
    let writer = FolderWriter::create(&dir, HostInfo::default(), Options::default()).expect("a folder");
    let segment = writer.host_dir().join("00000000.seg");
    writer.close().expect("a segment");
    (dir, segment)
});

fn seal(mut header: [u8; 64]) -> [u8; 64] {
    let crc = crc32fast::hash(&header[..60]);
    header[60..].copy_from_slice(&crc.to_le_bytes());
    header
}

/// Frames whose checksums are right, by `docs/formats/folder.md`; their contents are the fuzzer's.
fn framed(mut data: &[u8]) -> Vec<u8> {
    let mut header = [0; 64];
    header[..8].copy_from_slice(b"WAKESEG1");
    header[8] = 1;
    let mut out = seal(header).to_vec();
    let mut sequence = 0u32;
    while let Some((fixed, rest)) = data.split_first_chunk::<12>() {
        let length = usize::from(u16::from_le_bytes([fixed[0], fixed[1]])).min(rest.len());
        let (body, rest) = rest.split_at(length);
        data = rest;
        let kind = fixed[2];
        let rows = u32::from(u16::from_le_bytes([fixed[4], fixed[5]]));
        let row_bytes = Table::from_number(kind).map_or(1, |t| t.row_bytes() as u32);
        let mut header = [0; 64];
        header[..4].copy_from_slice(b"WkFr");
        header[4] = kind;
        header[5] = fixed[3];
        header[8..12].copy_from_slice(&(body.len() as u32).to_le_bytes());
        header[12..16].copy_from_slice(&(rows * row_bytes).to_le_bytes());
        header[16..20].copy_from_slice(&rows.to_le_bytes());
        header[20..24].copy_from_slice(&u32::from(fixed[6]).to_le_bytes());
        header[24..32].copy_from_slice(&u64::from(fixed[7]).to_le_bytes());
        header[32..40].copy_from_slice(&(u64::from(fixed[7]) + u64::from(fixed[8])).to_le_bytes());
        header[40..44].copy_from_slice(&sequence.to_le_bytes());
        header[44..48].copy_from_slice(&0u32.to_le_bytes());
        header[56..60].copy_from_slice(&crc32fast::hash(body).to_le_bytes());
        sequence += 1;
        out.extend_from_slice(&seal(header));
        out.extend_from_slice(body);
    }
    out
}

/// A row of each table as the target reads it: zeros, at a time.
fn frames() -> Vec<Vec<u8>> {
    let tables = (0..=u8::MAX).filter_map(Table::from_number);
    let row = |table: Table| {
        let length = table.row_bytes() as u16;
        let mut out = length.to_le_bytes().to_vec();
        out.extend([table as u8, 0, 1, 0, 0, 5, 3, 0, 0, 0]);
        out.resize(out.len() + usize::from(length), 0);
        out
    };
    tables.map(row).collect()
}

fn one(data: &[u8]) {
    let (dir, segment) = &*SEGMENT;
    let bytes = match data.split_first() {
        Some((n, rest)) if n % 4 != 0 => framed(rest),
        _ => data.to_vec(),
    };
    fs::write(segment, bytes).expect("the segment is writable");
    let folder = Folder::open(&[dir]).expect("damage is data, not an error");
    for host in folder.hosts() {
        let events: Vec<Event> = host.events(TableSet::ALL, ..).collect();
        let again: u64 = host.batches(TableSet::ALL, ..).map(|b| b.row_count() as u64).sum();
        assert_eq!(events.len() as u64, again);
        for event in events.iter().take(100) {
            if let Event::Task(t) = event {
                let _ = host.text(t.comm);
            }
        }
        assert!(host.events(TableSet::ALL, MonoNs(3)..=MonoNs(9)).all(|e| e.at() >= MonoNs(0)));
        let _ = (host.heads(..).count(), host.wall_clock().wall_ns(MonoNs(5)), host.span());
    }
    assert!(folder.defects().iter().all(|d| d.count > 0));
}

fuzz_target!(|data: &[u8]| within(|| one(data)));

mutations!(frames());
