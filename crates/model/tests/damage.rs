//! Whatever is done to a segment's bytes, reading never panics, and loses no more than what was hit.

mod common;

use common::{fault, host, op, options, task};
use proptest::prelude::*;
use std::fs;
use std::path::{Path, PathBuf};
use wakepath_model::defects::id;
use wakepath_model::folder::{Durability, Folder, FolderWriter, TableSet};
use wakepath_model::ids::{EndpointId, MonoNs};
use wakepath_model::rows::{Event, Table};

/// Five flushes of ten operations, a new task and a page fault each, and a raw head; the segment's bytes and where each flush ended.
fn segment(dir: &Path) -> (PathBuf, Vec<u8>, Vec<u64>) {
    let mut w = FolderWriter::create(dir.join("t"), host("web", "b1"), options()).unwrap();
    let file = w.host_dir().join("00000000.seg");
    let mut ends = Vec::new();
    for f in 0..5u64 {
        let comm = w.intern(format!("task-{f}"));
        w.push(&task(f * 100, f as u32 + 1, comm));
        for i in 0..10 {
            w.push(&op(f * 100 + i, f * 10 + i));
        }
        let library = w.intern(format!("/lib/{f}"));
        w.push(&fault(f * 100, f as u32 + 1, library));
        w.push_head(MonoNs(f * 100), EndpointId(1), f, true, b"GET / HTTP/1.1\r\n");
        w.flush(Durability::Write).unwrap();
        ends.push(fs::metadata(&file).unwrap().len());
    }
    w.close().unwrap();
    let bytes = fs::read(&file).unwrap();
    (dir.join("t"), bytes, ends)
}

/// Rows in frames, whether or not these can be read.
fn rows_in_file(folder: &Folder) -> usize {
    Table::ALL.iter().map(|t| folder.hosts()[0].row_count(*t) as usize).sum()
}

/// All that can be read but what tells of losses, and what was wrong.
fn read(folder: &Path) -> (Vec<Event>, u64) {
    let folder = Folder::open(&[folder]).unwrap();
    let mut events = Vec::new();
    for host in folder.hosts() {
        events.extend(host.events(TableSet::ALL, ..));
        let in_batches: usize = host.batches(TableSet::ALL, ..).map(|b| b.row_count()).sum();
        assert_eq!(in_batches, events.len());
        let _ = host.heads(..).count();
        for event in &events {
            if let Event::Task(t) = event {
                assert!(host.text(t.comm).starts_with("task-") || host.text(t.comm) == "?");
            }
            if let Event::Fault(f) = event {
                assert!(host.text(f.file).starts_with("/lib/") || host.text(f.file) == "?");
            }
        }
    }
    events.retain(|e| e.table() != Table::Loss);
    let defects = folder.defects().iter().filter(|d| d.defect.id != id::FOLDER_DUPLICATE).map(|d| d.count).sum();
    (events, defects)
}

#[test]
fn a_cut_at_any_byte_reads_up_to_the_cut() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, bytes, ends) = segment(dir.path());
    let file = folder.join("hosts/web-b1/00000000.seg");
    let (whole, defects) = read(&folder);
    assert_eq!((whole.len(), defects), (60, 0));
    for cut in 0..bytes.len() {
        fs::write(&file, &bytes[..cut]).unwrap();
        let (events, defects) = read(&folder);
        let flushes = ends.iter().filter(|e| **e <= cut as u64).count();
        assert!(events.len() >= flushes * 12, "cut at {cut}: {} rows", events.len());
        assert!(events.len() <= (flushes + 1) * 12);
        assert!(events.iter().all(|e| whole.contains(e)), "cut at {cut}");
        assert!(defects > 0, "cut at {cut}: nothing was said");
        let opened = Folder::open(&[&folder]).unwrap();
        for d in opened.defects() {
            let is_of_list = [id::FOLDER_GAP, id::FOLDER_SEGMENT].contains(&d.defect.id);
            assert!(is_of_list || d.defect.id == id::FOLDER_CUT, "cut at {cut}: {}", d.defect.id);
            assert!(d.first.is_some_and(|l| l.offset <= cut as u64));
        }
        let missing: u64 = opened.hosts()[0].missing().iter().filter_map(|m| m.rows).sum();
        assert_eq!(missing, (whole.len() - rows_in_file(&opened)) as u64, "cut at {cut}");
    }
}

#[test]
fn damage_costs_the_frame_that_it_hit() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, bytes, _) = segment(dir.path());
    let file = folder.join("hosts/web-b1/00000000.seg");
    let (whole, _) = read(&folder);
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x41;
        fs::write(&file, &damaged).unwrap();
        let (events, defects) = read(&folder);
        assert!(events.len() >= whole.len() - 10, "byte {at}: {} rows", events.len());
        assert!(defects > 0, "byte {at}: nothing was said");
        let same = |e: &Event| match e {
            // A task or a file whose name was hit keeps the rest.
            Event::Fault(f) => whole.iter().any(|w| matches!(w, Event::Fault(o) if o.task == f.task)),
            Event::Task(t) => whole.iter().any(|w| matches!(w, Event::Task(o) if o.task == t.task)),
            _ => whole.contains(e),
        };
        assert!(events.iter().all(same), "byte {at}: a wrong row");
    }
}

#[test]
fn bytes_between_frames_are_skipped_and_located() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, bytes, ends) = segment(dir.path());
    let file = folder.join("hosts/web-b1/00000000.seg");
    let middle = ends[1] as usize;
    for junk in [&b"x"[..], &[0; 300_000], b"WkFr", &bytes[64..94]] {
        let damaged = [&bytes[..middle], junk, &bytes[middle..]].concat();
        fs::write(&file, damaged).unwrap();
        let opened = Folder::open(&[&folder]).unwrap();
        assert_eq!(opened.hosts()[0].events(TableSet::ALL, ..).count(), 60);
        assert!(opened.hosts()[0].missing().is_empty());
        let damage = opened.defects().into_iter().find(|d| d.defect.id == id::FOLDER_DAMAGED).unwrap();
        assert_eq!(damage.first.unwrap().offset, middle as u64);
    }
}

#[test]
fn frames_of_another_segment_are_payload_here() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, bytes, ends) = segment(dir.path());
    let other = tempfile::tempdir().unwrap();
    let (_, foreign, _) = segment(other.path());
    let middle = ends[1] as usize;
    let file = folder.join("hosts/web-b1/00000000.seg");
    fs::write(&file, [&bytes[..middle], &foreign[64..], &bytes[middle..]].concat()).unwrap();
    let (events, defects) = read(&folder);
    assert_eq!(events.len(), 60);
    assert!(defects > 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_garbage_is_data(bytes in proptest::collection::vec(any::<u8>(), 0..4000)) {
        let dir = tempfile::tempdir().unwrap();
        let (folder, ..) = segment(dir.path());
        fs::write(folder.join("hosts/web-b1/00000000.seg"), bytes).unwrap();
        read(&folder);
    }

    #[test]
    fn random_damage_is_data(changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40)) {
        let dir = tempfile::tempdir().unwrap();
        let (folder, mut bytes, _) = segment(dir.path());
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        fs::write(folder.join("hosts/web-b1/00000000.seg"), bytes).unwrap();
        read(&folder);
    }
}
