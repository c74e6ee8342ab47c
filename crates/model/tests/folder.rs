//! A folder reads back what was written, in order, however it was cut into recordings and segments.

mod common;

use common::{host, op, options, task, write_small};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use wakepath_model::defects::id;
use wakepath_model::folder::{
    Durability, Folder, FolderError, FolderWriter, Options, Overwrite, Part, TableSet, merge,
};
use wakepath_model::ids::{EndpointId, MonoNs, StrId, TaskId};
use wakepath_model::rows::{AnchorRow, Event, MessageRow, OpRow, Table};

type Outcome = Result<(), Box<dyn std::error::Error>>;

#[test]
fn reads_back_in_order_of_time_across_tables_and_batches() -> Outcome {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("t");
    let mut w = FolderWriter::create(&path, host("web", "b1"), options())?;
    // Small inversions within and between batches.
    for i in 0..1000u64 {
        w.push(&op(1000 + i * 10 + (i * 7919) % 50, i));
        if i % 4 == 0 {
            w.push(&AnchorRow {
                at: MonoNs(1000 + i * 10),
                real_ns: 5_000_000 + i * 10,
                error_ns: 1,
                ..Default::default()
            });
        }
        if i % 100 == 99 {
            w.flush(Durability::Write)?;
        }
    }
    let counts = w.close()?;
    assert_eq!(counts.rows, 1250);

    let folder = Folder::open(&[&path])?;
    let host = &folder.hosts()[0];
    assert_eq!((host.row_count(Table::Op), host.row_count(Table::Anchor)), (1000, 250));
    let events: Vec<Event> = host.events(TableSet::ALL, ..).collect();
    assert_eq!(events.len(), 1250);
    assert!(events.is_sorted_by_key(Event::at));
    let mut starts: Vec<u64> =
        events.iter().filter_map(|e| if let Event::Op(o) = e { Some(o.start) } else { None }).collect();
    starts.sort_unstable();
    assert_eq!(starts, (0..1000).collect::<Vec<u64>>());

    let some: Vec<Event> = host.events(Table::Op.into(), MonoNs(3000)..MonoNs(4000)).collect();
    let wanted: Vec<Event> =
        events.iter().filter(|e| e.table() == Table::Op && (3000..4000).contains(&e.at().0)).copied().collect();
    assert_eq!(some, wanted);
    let in_batches: usize =
        host.batches(Table::Op.into(), MonoNs(3000)..MonoNs(4000)).map(|b| b.rows::<OpRow>().len()).sum();
    assert_eq!(in_batches, wanted.len());
    assert_eq!(host.events(TableSet::ALL, ..MonoNs(0)).count(), 0);
    assert_eq!(host.wall_clock().wall_ns(MonoNs(1005)), Some(5_000_005));
    assert!(folder.defects().is_empty(), "{:?}", folder.defects());
    Ok(())
}

#[test]
fn only_the_owner_may_read() -> Outcome {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("t");
    write_small(&path, "b1", Overwrite::Refuse)?;
    let mut files = 0;
    let mut dirs = vec![path];
    while let Some(d) = dirs.pop() {
        assert_eq!(fs::metadata(&d)?.permissions().mode() & 0o777, 0o700, "{}", d.display());
        for entry in fs::read_dir(&d)? {
            let p = entry?.path();
            if p.is_dir() {
                dirs.push(p);
            } else {
                files += 1;
                assert_eq!(fs::metadata(&p)?.permissions().mode() & 0o777, 0o600, "{}", p.display());
            }
        }
    }
    assert_eq!(files, 4);
    Ok(())
}

#[test]
fn an_existing_output_is_refused_appended_or_replaced() -> Outcome {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("t");
    write_small(&path, "b1", Overwrite::Refuse)?;
    let refused = write_small(&path, "b1", Overwrite::Refuse);
    assert!(matches!(refused, Err(FolderError::Exists(_))));

    write_small(&path, "b1", Overwrite::Append)?;
    let folder = Folder::open(&[&path])?;
    assert_eq!(folder.hosts().len(), 1);
    assert_eq!(folder.hosts()[0].info().earlier.len(), 1);
    assert_eq!(folder.hosts()[0].row_count(Table::Op), 20);

    write_small(&path, "b2", Overwrite::Force)?;
    let folder = Folder::open(&[&path])?;
    assert_eq!(folder.hosts()[0].row_count(Table::Op), 10);

    let precious = dir.path().join("precious");
    fs::create_dir(&precious)?;
    fs::write(precious.join("thesis.txt"), "years")?;
    assert!(matches!(write_small(&precious, "b", Overwrite::Force), Err(FolderError::NotOurs(_))));
    assert!(matches!(write_small(&precious, "b", Overwrite::Append), Err(FolderError::NotAFolder(_))));
    assert!(precious.join("thesis.txt").exists());
    assert!(matches!(Folder::open(&[&precious]), Err(FolderError::NotAFolder(_))));
    Ok(())
}

#[test]
fn what_somebody_else_put_into_a_folder_survives_its_replacement() -> Outcome {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("t");
    write_small(&path, "b1", Overwrite::Refuse)?;
    fs::create_dir_all(path.join("cache/answers"))?;
    fs::create_dir_all(path.join("cache/graph-0123456789abcdef"))?;
    fs::create_dir_all(path.join("tables"))?;
    let own = [
        "cache/answers/0a1b2c3d.answer",
        "cache/graph-0123456789abcdef/waits-0",
        "tables/operations.parquet",
        "sync.json",
    ];
    let foreign = [
        "thesis.txt",
        "cache/notes",
        "cache/graph-0123456789abcdef/notes.txt",
        "hosts/notes",
        "hosts/web-b1/00000000.seg.bak",
        "hosts/web-b1/00000099.seg",
        "hosts/web-b1/deeper/00000000.seg",
        "tables/mine.parquet",
    ];
    fs::create_dir(path.join("hosts/web-b1/deeper"))?;
    for file in own.iter().chain(&foreign) {
        fs::write(
            path.join(file),
            "years of work, in more bytes than a segment's header has, so that it could be one",
        )?;
    }
    let target = dir.path().join("precious");
    fs::write(&target, "years")?;
    std::os::unix::fs::symlink(&target, path.join("hosts/web-b1/00000003.list"))?;
    let mut told: Vec<_> = wakepath_model::folder::foreign(&path);
    told.retain(|p| p.is_file());
    assert_eq!(told.len(), foreign.len() - 1, "one is in a folder that is foreign itself: {told:?}");

    write_small(&path, "b1", Overwrite::Force)?;
    for file in foreign {
        assert!(path.join(file).exists(), "{file}");
    }
    for file in own {
        assert!(!path.join(file).exists(), "{file}");
    }
    assert_eq!(fs::read_to_string(&target)?, "years");
    let folder = Folder::open(&[&path])?;
    assert_eq!((folder.hosts().len(), folder.hosts()[0].row_count(Table::Op)), (1, 10));
    Ok(())
}

#[test]
fn a_recording_follows_no_link_inside_its_folder() -> Outcome {
    let dir = tempfile::tempdir()?;
    let (path, elsewhere) = (dir.path().join("t"), dir.path().join("elsewhere"));
    fs::create_dir(&elsewhere)?;
    for inside in ["hosts", "hosts/web-b1", "cache"] {
        write_small(&path, "b1", Overwrite::Refuse)?;
        let aside = dir.path().join("aside");
        fs::rename(path.join(inside), &aside)?;
        std::os::unix::fs::symlink(&elsewhere, path.join(inside))?;
        let refused = write_small(&path, "b1", Overwrite::Append);
        assert!(matches!(&refused, Err(FolderError::Link(at)) if at.ends_with(inside)), "{inside}: {refused:?}");
        assert_eq!(fs::read_dir(&elsewhere)?.count(), 0, "{inside}");
        fs::remove_dir_all(&aside)?;
        fs::remove_dir_all(&path)?;
    }
    Ok(())
}

#[test]
fn ids_of_two_recordings_are_kept_apart() -> Outcome {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("t");
    for (n, names) in [["nginx", "redis"], ["postgres", "nginx"]].iter().enumerate() {
        let overwrite = if n == 0 { Overwrite::Refuse } else { Overwrite::Append };
        let mut w = FolderWriter::create(&path, host("web", "b1"), Options { overwrite, ..options() })?;
        for (i, name) in names.iter().enumerate() {
            let comm = w.intern(name);
            w.push(&task(n as u64 * 100 + i as u64, 1 + i as u32, comm));
        }
        w.close()?;
    }
    let folder = Folder::open(&[&path])?;
    let host = &folder.hosts()[0];
    let tasks: Vec<(u32, &str)> = host
        .events(Table::Task.into(), ..)
        .filter_map(|e| if let Event::Task(t) = e { Some((t.task.0, host.text(t.comm))) } else { None })
        .collect();
    assert_eq!(tasks, [(1, "nginx"), (2, "redis"), (3, "postgres"), (4, "nginx")]);
    assert_eq!(host.strings().find("nginx").map(|id| host.text(id)), Some("nginx"));
    assert!(folder.defects().is_empty(), "{:?}", folder.defects());
    assert_eq!(host.pauses().len(), 1, "one came after the other");
    let mut losses = host.events(TableSet::of(&[Table::Loss]), ..);
    let paused = losses.find_map(|e| if let Event::Loss(r) = e { Some(host.text(r.what).to_owned()) } else { None });
    assert_eq!(paused.as_deref(), Some("folder.paused"));
    Ok(())
}

#[test]
fn each_segment_stands_alone() -> Outcome {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("t");
    let mut w = FolderWriter::create(&path, host("web", "b1"), Options { max_segment_bytes: 2000, ..options() })?;
    let mut asked = 0;
    for i in 0..200u64 {
        let verb = w.intern("GET");
        w.push(&MessageRow { at: MonoNs(i * 1000), verb, start: i, ..Default::default() });
        for j in 0..20 {
            w.push(&op(i * 1000 + j, i * 131 + j * 7));
        }
        w.flush(Durability::Write)?;
        asked += u32::from(w.needs_state());
    }
    let host_dir = w.host_dir().to_owned();
    w.close()?;
    assert!(asked > 3);
    // Without the first segment, strings of the others still resolve.
    fs::remove_file(host_dir.join("00000000.seg"))?;
    let folder = Folder::open(&[&path])?;
    let host = &folder.hosts()[0];
    let verbs: Vec<StrId> = host
        .events(Table::Message.into(), ..)
        .filter_map(|e| if let Event::Message(m) = e { Some(m.verb) } else { None })
        .collect();
    assert!(verbs.len() > 100 && verbs.iter().all(|v| host.text(*v) == "GET"));
    let told: Vec<&str> = folder.defects().iter().map(|d| d.defect.id).collect();
    assert_eq!(told, [id::FOLDER_SEGMENT]);
    Ok(())
}

#[test]
fn the_flight_recorder_keeps_what_it_was_told_to() -> Outcome {
    let dir = tempfile::tempdir()?;
    let by_size = dir.path().join("size");
    let by_time = dir.path().join("time");
    for (path, max_bytes, keep_ns) in [(&by_size, Some(64 << 10), None), (&by_time, None, Some(1_000_000))] {
        let mut w = FolderWriter::create(path, host("web", "b1"), Options { max_bytes, keep_ns, ..options() })?;
        for i in 0..40_000u64 {
            w.push(&op(i * 100, i.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
            if i % 100 == 0 {
                w.flush(Durability::Write)?;
            }
        }
        let counts = w.close()?;
        assert!(counts.deleted_segments > 2, "{}", path.display());
        let folder = Folder::open(&[path])?;
        let host = &folder.hosts()[0];
        let losses: u64 = host
            .events(Table::Loss.into(), ..)
            .filter_map(|e| if let Event::Loss(l) = e { Some(l) } else { None })
            .inspect(|l| assert_eq!(host.text(l.what), id::FLIGHT_SEGMENTS))
            .map(|l| l.count)
            .sum();
        assert!(losses > 0 && losses <= counts.deleted_segments);
        let (first, last) = host.span().ok_or("no rows")?;
        assert_eq!(last.0, 3_999_900);
        if let Some(keep) = keep_ns {
            assert!((keep..keep * 3 / 2).contains(&(last.0 - first.0)), "{}", last.0 - first.0);
        } else {
            assert!(host.bytes() <= 64 << 10, "{}", host.bytes());
            assert!(host.bytes() >= 32 << 10, "{}", host.bytes());
        }
    }
    Ok(())
}

#[test]
fn a_part_begins_with_a_segment_and_misses_nothing_behind_it() -> Outcome {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("t");
    // a row each 100 ns, a segment about each 100 µs
    let mut w = FolderWriter::create(&path, host("web", "b1"), Options { part: Some((100_000, 1)), ..options() })?;
    for i in 0..40_000u64 {
        w.push(&op(i * 100, i.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        if i % 100 == 0 {
            w.flush(Durability::Write)?;
        }
    }
    // first and last time (ns), rows, and ids of defects
    type Found = (u64, u64, usize, Vec<&'static str>);
    let read = |part| -> Result<Found, Box<dyn std::error::Error>> {
        let folder = Folder::open_part(&[&path], part)?;
        let host = &folder.hosts()[0];
        let (first, last) = host.span().ok_or("no rows")?;
        let rows = host.events(TableSet::ALL, ..).count();
        Ok((first.0, last.0, rows, folder.defects().iter().map(|d| d.defect.id).collect()))
    };
    w.flush(Durability::Write)?;
    for part in [Part::Since(MonoNs(3_500_000)), Part::Last(499_900)] {
        // also while it is being written
        let (first, last, rows, defects) = read(part)?;
        assert!((3_380_000..=3_500_000).contains(&first) && last == 3_999_900, "{part:?}: {first} to {last}");
        assert_eq!(rows as u64, (last - first) / 100 + 1, "{part:?}");
        assert_eq!(defects, [id::FOLDER_OPEN]);
    }
    w.close()?;
    let whole = Folder::open(&[&path])?.hosts()[0].bytes();
    // as many of the newest segments as there is room for; where there is none for half of one, its begin
    let (first, last, rows, defects) = read(Part::Sample(whole / 10))?;
    assert!((3_550_000..3_900_000).contains(&first) && last == 3_999_900, "{first} to {last}");
    assert!((1_000..4_500).contains(&rows) && defects.is_empty(), "{rows} {defects:?}");
    let (first, last, rows, defects) = read(Part::Sample(whole / 200))?;
    assert!(first >= 3_780_000 && last < 3_999_900, "{first} to {last}");
    assert!((100..=400).contains(&rows) && defects.is_empty(), "{rows} {defects:?}");
    assert_eq!(read(Part::Since(MonoNs(0)))?.2, 40_000);
    assert_eq!(read(Part::Sample(u64::MAX))?.2, 40_000);
    Ok(())
}

#[test]
fn heads_come_back() -> Outcome {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("t");
    let mut w = FolderWriter::create(&path, host("web", "b1"), options())?;
    w.push_head(MonoNs(5), EndpointId(9), 77, true, b"GET / HTTP/1.1");
    w.push_head(MonoNs(6), EndpointId(9), 78, false, b"");
    w.push(&op(7, 1));
    w.close()?;
    let folder = Folder::open(&[&path])?;
    let heads: Vec<_> = folder.hosts()[0].heads(..).collect();
    assert_eq!(heads.len(), 2);
    assert_eq!((heads[0].pos, heads[0].sent, &heads[0].bytes[..]), (77, true, &b"GET / HTTP/1.1"[..]));
    assert_eq!((heads[1].at, heads[1].sent), (MonoNs(6), false));
    assert_eq!(folder.hosts()[0].heads(MonoNs(6)..).count(), 1);
    Ok(())
}

#[test]
fn several_folders_are_read_as_one_and_merge_to_one() -> Outcome {
    let dir = tempfile::tempdir()?;
    let [a, b, c, again] = ["a", "b", "c", "again"].map(|n| dir.path().join(n));
    write_small(&a, "boot-one", Overwrite::Refuse)?;
    write_small(&b, "boot-one", Overwrite::Refuse)?;
    write_small(&b, "boot-two", Overwrite::Append)?;
    let rows = |folder: &Folder| -> Vec<(String, usize)> {
        let mut rows: Vec<_> =
            folder.hosts().iter().map(|h| (h.info().boot_id.clone(), h.events(TableSet::ALL, ..).count())).collect();
        rows.sort();
        rows
    };
    let wanted = vec![("boot-one".to_owned(), 24), ("boot-two".to_owned(), 12)];
    assert_eq!(rows(&Folder::open(&[&a, &b])?), wanted);

    let merged = merge(&[&a, &b, &a], &c)?;
    assert_eq!((merged.hosts, merged.segments, merged.duplicates), (2, 3, 1));
    assert_eq!(rows(&Folder::open(&[&c])?), wanted);
    assert!(matches!(merge(&[&a, &b], &c), Err(FolderError::Exists(_))));

    // The same frames from two folders are read once.
    merge(&[&a], &again)?;
    let folder = Folder::open(&[&a, &again, &b])?;
    assert_eq!(rows(&folder), wanted);
    assert!(folder.ledger().count(id::FOLDER_DUPLICATE) > 0);
    Ok(())
}

#[test]
fn a_host_without_description_is_still_read() -> Outcome {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("t");
    write_small(&path, "b1", Overwrite::Refuse)?;
    fs::write(path.join("hosts/web-b1/host.json"), "{")?;
    let folder = Folder::open(&[&path])?;
    assert_eq!(folder.hosts()[0].info().hostname, "web-b1");
    assert_eq!(folder.hosts()[0].row_count(Table::Op), 10);
    assert_eq!(folder.ledger().count(id::FOLDER_HOST), 1);
    Ok(())
}

#[test]
fn a_full_interner_is_told() -> Outcome {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("t");
    let mut w = FolderWriter::create(&path, host("web", "b1"), options())?;
    for i in 0..200_005u32 {
        let comm = w.intern(i.to_string());
        w.push(&task(u64::from(i), i + 1, comm));
    }
    w.close()?;
    let folder = Folder::open(&[&path])?;
    let host = &folder.hosts()[0];
    let last = host.events(Table::Task.into(), ..).last();
    let Some(Event::Task(last)) = last else {
        return Err("no task".into());
    };
    assert_eq!((host.text(last.comm), last.task), ("…", TaskId(200_005)));
    let lost: u64 = host.events(Table::Loss.into(), ..).map(|e| if let Event::Loss(l) = e { l.count } else { 0 }).sum();
    assert!(lost >= 5);
    Ok(())
}

#[test]
fn a_folder_of_another_version_is_refused_with_both_versions_and_the_remedy() -> Outcome {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("t");
    common::write_small(&path, "b", Overwrite::Refuse)?;
    let description = path.join("wakepath.json");
    let text = std::fs::read_to_string(&description)?;
    std::fs::write(&description, text.replace("\"version\": 3", "\"version\": 2"))?;
    let told = Folder::open(&[&path]).expect_err("a folder of version 2").to_string();
    assert!(
        told.ends_with(
            "has format version 2, this wakepath reads version 3: record again, or use the wakepath that wrote it"
        ),
        "{told}"
    );
    Ok(())
}
