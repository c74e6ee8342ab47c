//! A time's part of a folder, on this host and on its way to another; and what is deleted of recordings that have ended.

mod common;

use common::{host, op, options};
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use wakepath_model::defects::id;
use wakepath_model::folder::{
    Durability, Folder, FolderWriter, Kept, KeptPart, Options, Overwrite, PartState, TableSet, adopt, describe_kept,
    prune, read_archive, read_kept, segment_bytes, window, write_archive,
};
use wakepath_model::rows::Event;

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}

/// Writes a segment with one operation, of this number.
fn segment(w: &mut FolderWriter, number: u64) -> Outcome {
    w.push(&op(1000 + number, number));
    Ok(w.flush(Durability::Write)?)
}

fn begin(path: &Path, boot: &str) -> Result<FolderWriter, Box<dyn std::error::Error>> {
    let options = Options { overwrite: Overwrite::Append, max_segment_bytes: 1, ..options() };
    Ok(FolderWriter::create(path, host("web", boot), options)?)
}

/// Times of the operations of a folder.
fn ops(path: &Path) -> Vec<u64> {
    let folder = Folder::open(&[path]).expect("it opens");
    let events = folder.hosts().iter().flat_map(|h| h.events(TableSet::ALL, ..)).collect::<Vec<_>>();
    events.iter().filter_map(|e| if let Event::Op(o) = e { Some(o.at.0) } else { None }).collect()
}

fn defects(path: &Path) -> Vec<&'static str> {
    Folder::open(&[path]).expect("it opens").defects().iter().map(|d| d.defect.id).collect()
}

fn pause() {
    std::thread::sleep(Duration::from_millis(1200));
}

/// A recording of three segments at different times, which still goes on, and the moments between them.
fn recorded(path: &Path) -> Result<(FolderWriter, [u64; 2]), Box<dyn std::error::Error>> {
    let mut w = begin(path, "b1")?;
    segment(&mut w, 0)?;
    pause();
    let first = now() - 550_000_000;
    segment(&mut w, 1)?;
    segment(&mut w, 2)?;
    pause();
    let second = now() - 550_000_000;
    segment(&mut w, 3)?;
    Ok((w, [first, second]))
}

#[test]
fn a_window_has_the_segments_of_its_time_and_outlives_the_ring() -> Outcome {
    let dir = tempfile::tempdir()?;
    let (ring, early, late) = (dir.path().join("ring"), dir.path().join("early"), dir.path().join("late"));
    let (mut w, [first, second]) = recorded(&ring)?;
    window(&ring, 0..=first, &early)?;
    window(&ring, second..=now(), &late)?;
    assert_eq!(
        (ops(&early), defects(&early)),
        (vec![1000, 1001], vec![]),
        "the second was begun when the first was full"
    );
    assert!(ops(&late).ends_with(&[1003]) && !ops(&late).contains(&1000), "{:?}", ops(&late));
    assert!(defects(&late).is_empty(), "a part of a recording that goes on ends as it was asked for");
    assert!(window(&ring, 0..=1, &early).is_err(), "it exists");
    let none = dir.path().join("none");
    assert_eq!(window(&ring, 0..=1, &none)?.segments, 0);
    // the ring deletes its oldest: what is kept stays, and later rows are not in it
    while w.delete_oldest()? {}
    segment(&mut w, 4)?;
    assert_eq!(ops(&early), [1000, 1001]);
    assert!(!ops(&late).contains(&1004));
    drop(w);
    let cut = dir.path().join("cut");
    window(&ring, second..=now(), &cut)?;
    assert_eq!(defects(&cut), [id::FOLDER_NOT_ENDED], "its recorder was killed, and its end is in the window");
    Ok(())
}

#[test]
fn an_archive_reads_back_and_none_that_is_cut_or_changed_is_taken_for_it() -> Outcome {
    let dir = tempfile::tempdir()?;
    let (ring, part) = (dir.path().join("ring"), dir.path().join("part"));
    let mut w = begin(&ring, "b1")?;
    (0..3).try_for_each(|n| segment(&mut w, n))?;
    window(&ring, 0..=now(), &part)?;
    let mut archive = Vec::new();
    write_archive(&part, &mut archive)?;
    let read = |bytes: &[u8], most: u64| -> Result<PathBuf, String> {
        let to = dir.path().join("read");
        let _ = fs::remove_dir_all(&to);
        read_archive(&mut Cursor::new(bytes), &to, most, &mut |_| {}).map_err(|e| e.to_string())?;
        Ok(to)
    };
    assert_eq!(ops(&read(&archive, 1 << 20)?), [1000, 1001, 1002]);
    assert!(read(&archive, 100).is_err(), "it has more bytes than may be");
    for cut in (0..archive.len()).step_by(97) {
        assert!(read(&archive[..cut], 1 << 20).is_err(), "cut at {cut} of {}", archive.len());
    }
    // a damaged header is refused, but for the blank after its sum; damage within a segment is found by the segment's own sums
    for at in (0..512).filter(|at| *at != 155) {
        let mut damaged = archive.clone();
        damaged[at] ^= 4;
        assert!(read(&damaged, 1 << 20).is_err(), "byte {at}");
    }
    // and others read it
    fs::write(dir.path().join("a.tar"), &archive)?;
    let to = dir.path().join("untarred");
    fs::create_dir(&to)?;
    let tar = std::process::Command::new("tar").arg("-xf").arg(dir.path().join("a.tar")).arg("-C").arg(&to).status();
    if tar.is_ok_and(|s| s.success()) {
        assert_eq!(ops(&to), [1000, 1001, 1002]);
    }
    Ok(())
}

#[test]
fn parts_of_hosts_come_together_and_one_that_is_missing_is_said() -> Outcome {
    let dir = tempfile::tempdir()?;
    let [one, other] = ["b1", "b2"].map(|boot| {
        let (ring, part) = (dir.path().join(format!("ring-{boot}")), dir.path().join(boot));
        let mut w = begin(&ring, boot).expect("a recording");
        segment(&mut w, 0).expect("a segment");
        window(&ring, 0..=now(), &part).expect("a window");
        part
    });
    adopt(&other, &one)?;
    let part = |state| KeptPart { agent: "b:1".into(), state, ..KeptPart::default() };
    for (state, wanted) in [
        (PartState::Here, vec![]),
        (PartState::Asked, vec![id::KEPT_PART]),
        (PartState::Late, vec![id::KEPT_PART]),
        (PartState::Missing, vec![id::KEPT_PART]),
        (PartState::Empty, vec![id::KEPT_PART]),
    ] {
        let kept = Kept { reason: "slow".into(), parts: vec![part(PartState::Here), part(state)], ..Kept::default() };
        describe_kept(&one, kept.clone())?;
        assert_eq!((defects(&one), read_kept(&one)), (wanted, Some(kept)), "{state:?}");
    }
    assert_eq!(Folder::open(&[&one])?.hosts().len(), 2);
    assert_eq!(read_kept(&other), None);
    Ok(())
}

#[test]
fn old_recordings_go_oldest_first_and_the_one_that_goes_on_stays() -> Outcome {
    let dir = tempfile::tempdir()?;
    let ring = dir.path().join("ring");
    let mut before = begin(&ring, "b0")?;
    (0..2).try_for_each(|n| segment(&mut before, n))?;
    before.close()?;
    let mut killed = begin(&ring, "b1")?;
    (2..4).try_for_each(|n| segment(&mut killed, n))?;
    drop(killed);
    let mut live = begin(&ring, "b1")?;
    segment(&mut live, 4)?;
    let all = segment_bytes(&ring)?;
    assert_eq!(prune(&ring, all.bytes, 0)?.segments, 0);
    let pruned = prune(&ring, all.bytes - 1, 0)?;
    assert_eq!((pruned.segments, segment_bytes(&ring)?.bytes), (1, all.bytes - pruned.bytes));
    assert_eq!(ops(&ring), [1001, 1002, 1003, 1004]);
    // what was deleted as asked for is not missing
    assert!(!defects(&ring).contains(&id::FOLDER_SEGMENT), "{:?}", defects(&ring));
    let of_boots = fs::read_dir(ring.join("hosts"))?.count();
    prune(&ring, u64::MAX, u64::MAX)?;
    assert_eq!((ops(&ring), defects(&ring)), (vec![1004], vec![id::FOLDER_OPEN]));
    assert_eq!((of_boots, fs::read_dir(ring.join("hosts"))?.count()), (2, 1), "the other boot has nothing left");
    segment(&mut live, 5)?;
    live.close()?;
    assert_eq!(ops(&ring), [1004, 1005]);
    Ok(())
}
