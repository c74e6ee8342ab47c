//! Tables read back with the values that were written.

use super::*;
use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::record::RowAccessor;
use std::fs::File;
use wakepath_model::folder::{FolderWriter, HostInfo, Options};
use wakepath_model::ids::{EndpointId, MonoNs, StrId, TaskId};
use wakepath_model::rows::{
    AnchorRow, EndpointRow, Failed, MessageRole, MessageRow, OPEN, OpKind, OpRow, RangeHow, SeenHow, Side, TcpState,
    WitnessKind,
};

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn record(path: &Path) -> Result<Folder, Box<dyn std::error::Error>> {
    let host = HostInfo { hostname: "web".into(), boot_id: "b1".into(), ..HostInfo::default() };
    let mut w = FolderWriter::create(path, host, Options::default())?;
    w.push(&AnchorRow { at: MonoNs(0), real_ns: 1_700_000_000_000_000_000, error_ns: 1, ..Default::default() });
    for i in 0..3u64 {
        w.push(&OpRow {
            at: MonoNs(10 + i),
            entry: MonoNs(5 + i),
            arrived: MonoNs(i),
            flow: EndpointId(u64::MAX),
            start: i,
            end: i + 1,
            task: TaskId(u32::MAX),
            result: -32,
            kind: OpKind::Send,
            range: RangeHow::Exact,
            flags: 0,
            syscall: 44,
            cpu: 3,
            ..Default::default()
        });
    }
    let (protocol, verb, target) = (w.intern("proto.http1"), w.intern("GET"), w.intern("/users/{}"));
    w.push(&MessageRow {
        at: MonoNs(11),
        flow: EndpointId(1),
        start: 1,
        end: OPEN,
        witness: 0,
        protocol,
        verb,
        target,
        detail: StrId::EMPTY,
        status: 0,
        role: MessageRole::Request,
        sent: 0,
        witness_kind: WitnessKind::None,
        failed: Failed::No,
        cut: 0,
        flags: 0,
        ..Default::default()
    });
    let mut laddr = [0; 16];
    laddr[..4].copy_from_slice(&[10, 0, 0, 7]);
    w.push(&EndpointRow {
        at: MonoNs(1),
        flow: EndpointId(1),
        peer: EndpointId(0),
        snd: 0,
        rcv: 0,
        laddr,
        raddr: [0; 16],
        netns: 0,
        task: TaskId(1),
        path: StrId::EMPTY,
        lport: 65535,
        rport: 80,
        family: 2,
        protocol: 6,
        how: SeenHow::Accepted,
        state: TcpState::Established,
        side: Side::Server,
        ulp: 0,
        ..Default::default()
    });
    w.close()?;
    Ok(Folder::open(&[path])?)
}

fn rows(path: &Path) -> Result<Vec<::parquet::record::Row>, Box<dyn std::error::Error>> {
    let reader = SerializedFileReader::new(File::open(path)?)?;
    Ok(reader.get_row_iter(None)?.collect::<Result<_, _>>()?)
}

/// A value by its column's name, as text.
fn value(row: &::parquet::record::Row, name: &str) -> String {
    row.get_column_iter().find(|(n, _)| *n == name).map_or("no such column".into(), |(_, v)| v.to_string())
}

#[test]
fn tables_are_typed_and_readable() -> Outcome {
    let dir = tempfile::tempdir()?;
    let folder = record(&dir.path().join("t"))?;
    let out = dir.path().join("tables");
    let mut calls = 0;
    let summary = write_tables(&folder, &out, |_| calls += 1)?;
    assert_eq!(summary.tables.len(), Table::ALL.len());
    assert!(calls >= Table::ALL.len());

    let ops = rows(&out.join("operations.parquet"))?;
    assert_eq!(ops.len(), 3);
    let at = |name| value(&ops[0], name);
    assert_eq!((at("host"), at("kind"), at("range")), ("\"web\"".into(), "\"send\"".into(), "\"exact\"".into()));
    assert_eq!((at("at_ns"), at("arrived_ns"), at("result")), ("10".into(), "null".into(), "-32".into()));
    assert_eq!((at("flow"), at("task")), (u64::MAX.to_string(), u32::MAX.to_string()));
    assert_eq!(ops[1].get_long(1)?, 11);

    let messages = rows(&out.join("messages.parquet"))?;
    let at = |name| value(&messages[0], name);
    assert_eq!(
        (at("verb"), at("target"), at("role")),
        ("\"GET\"".into(), "\"/users/{}\"".into(), "\"request\"".into())
    );
    assert_eq!((at("end_byte"), at("detail"), at("sent")), ("null".into(), "null".into(), "false".into()));

    let endpoints = rows(&out.join("endpoints.parquet"))?;
    let at = |name| value(&endpoints[0], name);
    assert_eq!(
        (at("laddr"), at("lport"), at("state")),
        ("\"10.0.0.7\"".into(), "65535".into(), "\"ESTABLISHED\"".into())
    );
    Ok(())
}

#[test]
fn writing_again_replaces_and_leaves_nothing_behind() -> Outcome {
    let dir = tempfile::tempdir()?;
    let folder = record(&dir.path().join("t"))?;
    let out = dir.path().join("tables");
    let once = write_tables(&folder, &out, |_| ())?;
    let bytes = std::fs::read(out.join("operations.parquet"))?;
    assert_eq!(write_tables(&folder, &out, |_| ())?, once);
    assert_eq!(std::fs::read(out.join("operations.parquet"))?, bytes);
    assert_eq!(std::fs::read_dir(&out)?.count(), Table::ALL.len());

    let unfinished = TableWriter::create(&out, "half", &[Column::new("a", ColumnKind::U64)])?;
    drop(unfinished);
    assert_eq!(std::fs::read_dir(&out)?.count(), Table::ALL.len());
    Ok(())
}

#[test]
fn a_row_of_another_shape_is_an_error() -> Outcome {
    let dir = tempfile::tempdir()?;
    let columns = [Column::new("a", ColumnKind::U64), Column::optional("b", ColumnKind::Text)];
    let fails = |fill: &dyn Fn(&mut RowWriter<'_>)| -> Result<bool, TableError> {
        let mut table = TableWriter::create(dir.path(), "shape", &columns)?;
        let mut row = table.row();
        fill(&mut row);
        Ok(matches!(row.end(), Err(TableError::Shape { .. })))
    };
    assert!(fails(&|r| _ = r.u64(1))?);
    assert!(fails(&|r| _ = r.text("x").u64(1))?);
    assert!(fails(&|r| _ = r.none().none())?);
    assert!(fails(&|r| _ = r.u64(1).none().none())?);
    assert!(!fails(&|r| _ = r.u64(1).none())?);
    Ok(())
}

#[test]
fn groups_are_cut_and_texts_survive_it() -> Outcome {
    let dir = tempfile::tempdir()?;
    let columns =
        [Column::new("n", ColumnKind::U64), Column::optional("t", ColumnKind::Text), Column::new("f", ColumnKind::F64)];
    let mut table = TableWriter::create(dir.path(), "long", &columns)?;
    let count = 1_100_000u64;
    for i in 0..count {
        let mut row = table.row();
        row.u64(i);
        if i % 3 == 0 {
            row.none()
        } else {
            row.text(format!("t{}", i % 1000))
        };
        row.f64(i as f64);
        row.end()?;
    }
    let summary = table.finish()?;
    assert_eq!(summary.rows, count);
    let reader = SerializedFileReader::new(File::open(&summary.path)?)?;
    assert_eq!(reader.metadata().num_row_groups(), 2);
    for (i, row) in reader.get_row_iter(None)?.enumerate() {
        let row = row?;
        assert_eq!(row.get_ulong(0)?, i as u64);
        if i % 3 != 0 {
            assert_eq!(row.get_string(1)?, &format!("t{}", i % 1000));
        }
    }
    Ok(())
}
