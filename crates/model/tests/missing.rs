//! Whatever one file of a folder suffers, the others are read, and what is missing is said: which, how much, from when to when.

mod common;

use common::{host, op, options};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use wakepath_model::defects::id;
use wakepath_model::folder::{
    Durability, Folder, FolderError, FolderWriter, Missing, Options, Overwrite, TableSet, merge,
};
use wakepath_model::ids::MonoNs;
use wakepath_model::rows::{Event, LossRow, Table};

type Outcome = Result<(), Box<dyn std::error::Error>>;

const SEGMENTS: u64 = 5;
const ROWS: u64 = 40;

/// A recording of five segments of forty operations, of which each takes four flushes and has times of its own hundred.
fn record(path: &Path, overwrite: Overwrite, extra: Options) -> Result<FolderWriter, FolderError> {
    let options = Options { overwrite, max_segment_bytes: 1, ..extra };
    let mut w = FolderWriter::create(path, host("web", "b1"), options)?;
    for segment in 0..SEGMENTS {
        for i in 0..ROWS {
            w.push(&op(1000 + segment * 100 + i, segment * ROWS + i));
        }
        w.flush(Durability::Write)?;
    }
    Ok(w)
}

fn recorded(dir: &Path) -> PathBuf {
    let path = dir.join("t");
    record(&path, Overwrite::Refuse, options()).and_then(FolderWriter::close).expect("a recording");
    path
}

/// A copy of such a recording, which is made once: making things durable takes its time.
fn copied(dir: &Path) -> PathBuf {
    static ORIGINAL: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, original) = ORIGINAL.get_or_init(|| {
        let dir = tempfile::tempdir().expect("a folder");
        let path = recorded(dir.path());
        (dir, path)
    });
    for file in files(original) {
        let to = dir.join("t").join(file.strip_prefix(original).expect("it lies below"));
        fs::create_dir_all(to.parent().expect("a folder")).expect("it is made");
        fs::copy(&file, &to).expect("it is copied");
    }
    dir.join("t")
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for entry in fs::read_dir(dir).expect("a folder").flatten() {
        if entry.path().is_dir() { out.extend(files(&entry.path())) } else { out.push(entry.path()) }
    }
    out.sort();
    out
}

/// Operations that can be read, the losses among the rows, and how often each defect was met.
fn read(path: &Path) -> (Vec<u64>, Vec<LossRow>, BTreeMap<&'static str, u64>, Vec<Missing>) {
    let folder = Folder::open(&[path]).expect("it opens");
    let (mut starts, mut losses, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    for host in folder.hosts() {
        for event in host.events(TableSet::ALL, ..) {
            match event {
                Event::Op(o) => starts.push(o.start),
                Event::Loss(l) => {
                    assert!(host.text(l.what).starts_with("folder."));
                    losses.push(l);
                }
                _ => {}
            }
        }
        let batches: usize = host.batches(Table::Loss.into(), ..).map(|b| b.rows::<LossRow>().len()).sum();
        assert!(batches <= losses.len());
        missing.extend_from_slice(host.missing());
    }
    starts.sort_unstable();
    let defects = folder.defects().iter().map(|d| (d.defect.id, d.count)).collect();
    (starts, losses, defects, missing)
}

#[test]
fn a_whole_recording_misses_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let (starts, losses, defects, _) = read(&recorded(dir.path()));
    assert_eq!(starts, (0..SEGMENTS * ROWS).collect::<Vec<_>>());
    assert!(losses.is_empty() && defects.is_empty(), "{defects:?}");
}

/// What is done to a file.
#[derive(Clone, Copy, Debug)]
enum Harm {
    Remove,
    Empty,
    Cut(usize),
    Flip(usize),
}

fn harm(file: &Path, how: Harm) {
    let mut bytes = fs::read(file).expect("it is there");
    match how {
        Harm::Remove => return fs::remove_file(file).expect("it goes"),
        Harm::Empty => bytes.clear(),
        // a description without the line's end says the same
        Harm::Cut(at) => bytes.truncate(at % bytes.trim_ascii_end().len().max(1)),
        Harm::Flip(at) => {
            let at = at % bytes.len().max(1);
            bytes[at] ^= 0x20;
        }
    }
    fs::write(file, bytes).expect("it is written");
}

/// Harms one file of a recording and asks what is said of it.
fn check(which: usize, how: Harm) {
    let dir = tempfile::tempdir().expect("a folder");
    let path = copied(dir.path());
    let all = files(&path);
    let file = &all[which % all.len()];
    let what = format!("{} {how:?}", file.display());
    harm(file, how);
    let (starts, losses, defects, missing) = read(&path);
    // a description is plain text without a checksum: a letter may be another
    let is_text = file.extension().is_some_and(|e| e == "json") && matches!(how, Harm::Flip(_));
    assert!(!defects.is_empty() || is_text, "{what}: nothing was said");
    if file.extension().is_none_or(|e| e != "seg") {
        assert_eq!(starts.len() as u64, SEGMENTS * ROWS, "{what}: {defects:?}");
        assert!(losses.is_empty(), "{what}");
        return;
    }
    let number: u64 = file.file_stem().and_then(|s| s.to_str()).and_then(|s| s.parse().ok()).expect("a number");
    let lost: Vec<u64> = (0..SEGMENTS * ROWS).filter(|s| !starts.contains(s)).collect();
    assert!(lost.iter().all(|s| s / ROWS == number), "{what}: {lost:?}");
    if lost.is_empty() {
        return;
    }
    // in the rows, so that nothing is linked across it
    let times = 1000 + number * 100..=1000 + number * 100 + ROWS - 1;
    let covers = |from: MonoNs, to: MonoNs| from.0 <= *times.start() && to.0 >= *times.end();
    assert!(losses.iter().any(|l| covers(l.from, l.at)), "{what}: {losses:?}");
    if defects.contains_key(id::FOLDER_CRC) {
        return;
    }
    assert_eq!(missing.iter().filter_map(|m| m.rows).sum::<u64>(), lost.len() as u64, "{what}: {missing:?}");
    assert!(missing.iter().all(|m| covers(m.from, m.to) && m.path == *file), "{what}: {missing:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn one_harmed_file_costs_no_other_and_is_told(which in any::<usize>(), at in any::<usize>(), kind in 0..4) {
        check(which, match kind {
            0 => Harm::Remove,
            1 => Harm::Empty,
            2 => Harm::Cut(at),
            _ => Harm::Flip(at),
        });
    }
}

#[test]
fn a_description_with_another_boot_id_costs_no_rows() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = copied(dir.path());
    let file = path.join("hosts/web-b1/host.json");
    let text = fs::read_to_string(&file).expect("it is there");
    fs::write(&file, text.replace("b1", "b7")).expect("it is written");
    let (starts, _, defects, _) = read(&path);
    assert_eq!(starts.len() as u64, SEGMENTS * ROWS);
    assert_eq!(defects, BTreeMap::from([(id::FOLDER_HOST, 1)]));
}

#[test]
fn any_file_may_be_removed_or_emptied() {
    for which in 0..SEGMENTS as usize + 4 {
        check(which, Harm::Remove);
        check(which, Harm::Empty);
    }
}

#[test]
fn segments_that_changed_places_or_came_twice_are_read_as_they_are() -> Outcome {
    let dir = tempfile::tempdir()?;
    let path = recorded(dir.path());
    let host_dir = path.join("hosts/web-b1");
    let [a, b, aside] = ["00000001.seg", "00000003.seg", "x"].map(|n| host_dir.join(n));
    fs::rename(&a, &aside)?;
    fs::rename(&b, &a)?;
    fs::rename(&aside, &b)?;
    let (starts, losses, defects, _) = read(&path);
    assert_eq!((starts.len() as u64, losses.len(), defects.len()), (SEGMENTS * ROWS, 0, 0));
    fs::copy(&a, host_dir.join("00000077.seg"))?;
    let (starts, losses, defects, _) = read(&path);
    assert_eq!((starts.len() as u64, losses.len()), (SEGMENTS * ROWS, 0));
    assert_eq!(defects.into_keys().collect::<Vec<_>>(), [id::FOLDER_DUPLICATE]);
    Ok(())
}

#[test]
fn a_segment_of_another_host_is_left_out() -> Outcome {
    let dir = tempfile::tempdir()?;
    let path = recorded(dir.path());
    let mut w = FolderWriter::create(&path, host("db", "b2"), Options { overwrite: Overwrite::Append, ..options() })?;
    w.push(&op(5, 999_999));
    let other = w.host_dir().join("00000000.seg");
    w.close()?;
    fs::copy(&other, path.join("hosts/web-b1/00000009.seg"))?;
    let (starts, _, defects, _) = read(&path);
    assert_eq!(starts.iter().filter(|s| **s == 999_999).count(), 1);
    assert_eq!(defects.get(id::FOLDER_FOREIGN), Some(&1));
    Ok(())
}

#[test]
fn what_the_flight_recorder_deleted_is_not_missed() -> Outcome {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("t");
    let w = record(&path, Overwrite::Refuse, Options { keep_ns: Some(150), ..options() })?;
    let deleted = w.counts().deleted_segments;
    assert!(deleted >= 2);
    w.close()?;
    let folder = Folder::open(&[&path])?;
    assert!(folder.defects().is_empty(), "{:?}", folder.defects());
    assert!(folder.hosts()[0].missing().is_empty());
    // and what was not deleted is
    let last = files(&path).into_iter().rfind(|f| f.extension().is_some_and(|e| e == "seg")).ok_or("no segment")?;
    fs::remove_file(last)?;
    assert_eq!(Folder::open(&[&path])?.ledger().count(id::FOLDER_SEGMENT), 1);
    Ok(())
}

#[test]
fn a_recorder_that_lives_or_did_not_end_is_told() -> Outcome {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("t");
    let mut w = record(&path, Overwrite::Refuse, options())?;
    let (_, losses, defects, _) = read(&path);
    assert_eq!((losses.len(), defects), (0, BTreeMap::from([(id::FOLDER_OPEN, 1)])));
    // somebody else may not replace it, and may add to it
    let refused = record(&path, Overwrite::Force, options());
    assert!(matches!(refused, Err(FolderError::InUse(_))));
    record(&path, Overwrite::Append, options())?.close()?;
    w.push(&op(1900, 77));
    w.flush(Durability::Write)?;
    drop(w);
    let (_, losses, defects, _) = read(&path);
    assert_eq!((losses.len(), defects), (0, BTreeMap::from([(id::FOLDER_NOT_ENDED, 1)])));
    record(&path, Overwrite::Force, options())?.close()?;
    assert!(read(&path).2.is_empty());
    assert_eq!(fs::read_dir(dir.path())?.count(), 1);
    Ok(())
}

#[test]
fn a_removed_or_moved_folder_is_no_success() -> Outcome {
    let dir = tempfile::tempdir()?;
    for is_moved in [false, true] {
        let path = dir.path().join("t");
        let mut w = record(&path, Overwrite::Refuse, options())?;
        if is_moved {
            fs::rename(&path, dir.path().join("u"))?
        } else {
            fs::remove_dir_all(&path)?
        }
        w.push(&op(1900, 77));
        assert!(matches!(w.close(), Err(FolderError::Gone(_))));
    }
    Ok(())
}

#[test]
fn fifos_and_sparse_gigabytes_are_refused_at_once() -> Outcome {
    let dir = tempfile::tempdir()?;
    for name in ["00000002.seg", "00000000.list", "host.json", "../../wakepath.json", "../../sync.json"] {
        for is_fifo in [true, false] {
            let path = copied(dir.path());
            let file = path.join("hosts/web-b1").join(name);
            let _ = fs::remove_file(&file);
            if is_fifo {
                let made = std::process::Command::new("mkfifo").arg(&file).status()?;
                assert!(made.success());
            } else {
                OpenOptions::new().write(true).create_new(true).open(&file)?.set_len(8 << 30)?;
            }
            let begin = Instant::now();
            let (starts, _, defects, _) = read(&path);
            assert!(begin.elapsed() < Duration::from_secs(2), "{name}: {:?}", begin.elapsed());
            assert!(!defects.is_empty(), "{name}");
            let is_segment = name.ends_with(".seg");
            assert_eq!(starts.len() as u64, (SEGMENTS - u64::from(is_segment)) * ROWS, "{name}");
            if is_segment {
                assert_eq!(defects.get(id::FOLDER_SEGMENT), Some(&1), "{defects:?}");
                merge(&[&path], dir.path().join("merged"))?;
                fs::remove_dir_all(dir.path().join("merged"))?;
            }
            fs::remove_dir_all(&path)?;
        }
    }
    Ok(())
}

#[test]
fn a_merged_folder_misses_what_its_inputs_missed_and_nothing_else() -> Outcome {
    let dir = tempfile::tempdir()?;
    let path = recorded(dir.path());
    let [copy, again] = ["copy", "again"].map(|n| dir.path().join(n));
    merge(&[&path], &copy)?;
    assert!(read(&copy).2.is_empty());
    for n in [3, 4] {
        fs::remove_file(path.join(format!("hosts/web-b1/0000000{n}.seg")))?;
    }
    merge(&[&path], &again)?;
    let (starts, _, defects, missing) = read(&again);
    assert_eq!((starts.len() as u64, defects), (3 * ROWS, BTreeMap::from([(id::FOLDER_SEGMENT, 2)])));
    let [m] = &missing[..] else { return Err("one run of segments".into()) };
    assert_eq!((m.count, m.rows, m.from.0, m.to.0), (2, Some(80), 1300, 1439));
    // the other copy has them
    let folder = Folder::open(&[&path, &copy])?;
    assert_eq!(folder.hosts()[0].row_count(Table::Op), SEGMENTS * ROWS);
    assert!(folder.hosts()[0].missing().is_empty());
    Ok(())
}

#[test]
fn without_a_list_numbers_tell_what_is_missing_between() -> Outcome {
    let dir = tempfile::tempdir()?;
    let path = recorded(dir.path());
    let host_dir = path.join("hosts/web-b1");
    fs::remove_file(host_dir.join("00000000.list"))?;
    fs::remove_file(host_dir.join("00000002.seg"))?;
    let (_, _, defects, missing) = read(&path);
    assert_eq!(defects, BTreeMap::from([(id::FOLDER_LIST, 1), (id::FOLDER_SEGMENT, 1)]));
    assert_eq!((missing[0].rows, missing[0].from.0, missing[0].to.0), (None, 1139, 1300));
    Ok(())
}
