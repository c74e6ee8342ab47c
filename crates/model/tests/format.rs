//! A folder that an earlier build of this format's version wrote is read as it was meant: every number of every code, and every bit of
//! every set of flags, stands for the same word.
//!
//! `format/trace` is that folder. It changes only with the format's version: `UPDATE_GOLDEN=1` makes it if it is not there, and
//! writes `format/expected.txt` again.

mod common;

use common::{host, options};
use std::fmt::Write as _;
use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;
use wakepath_model::folder::{Durability, Folder, FolderWriter, TableSet};
use wakepath_model::ids::{MonoNs, StrId, TaskId};
use wakepath_model::rows::{Event, Row, Table};
use wakepath_model::table;

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Fields of one byte or two whose numbers mean something: those numbers, of which the first stands in rows about another field.
const NUMBERS: &[(Table, &str, &[RangeInclusive<u16>])] = &[
    (Table::Op, "kind", &[1..=6]),
    (Table::Op, "range", &[0..=4]),
    (
        Table::Op,
        "flags",
        &[0..=0, 8..=8, 32..=32, 64..=64, 512..=512, 0x2000..=0x2000, 0x4000..=0x4000, 0x6000..=0x6000],
    ),
    (Table::Op, "logical_strength", &[0..=3]),
    (Table::Input, "kind", &[1..=4]),
    (Table::Input, "isolated", &[0..=2]),
    (Table::Message, "role", &[1..=4]),
    (Table::Message, "sent", &[0..=1]),
    (Table::Message, "witness_kind", &[0..=12]),
    (Table::Message, "failed", &[0..=2]),
    (Table::Message, "cut", &[0..=1]),
    (Table::Message, "flags", &[0..=2, 4..=4, 8..=8, 16..=16]),
    (Table::MessageEnd, "how", &[0..=4]),
    (Table::MessageEnd, "failed", &[0..=2]),
    (Table::Endpoint, "how", &[1..=4]),
    (Table::Endpoint, "state", &[0..=13]),
    (Table::Endpoint, "side", &[0..=2]),
    (Table::Endpoint, "ulp", &[0..=1]),
    (Table::FlowState, "reset", &[0..=2]),
    (Table::FlowState, "by_task", &[0..=1]),
    (Table::Wait, "cause", &[0..=11]),
    (Table::Wait, "gaps", &[0..=3]),
    (Table::Task, "what", &[1..=7]),
    (Table::Task, "class", &[0..=2]),
    (Table::Task, "runtime", &[0..=5]),
    (Table::Task, "parent_strength", &[0..=3]),
    (Table::Packet, "context", &[0..=3]),
    (Table::SniffedFlow, "what", &[1..=6]),
    (Table::SniffedFlow, "side", &[0..=3]),
    (Table::SniffedFlow, "reset_by", &[0..=2]),
    (Table::SniffedExchange, "what", &[1..=7]),
    (Table::SniffedExchange, "witness_kind", &[0..=12]),
    (Table::SniffedExchange, "failed", &[0..=2]),
    (Table::SniffedExchange, "request_how", &[0..=4]),
    (Table::SniffedExchange, "reply_how", &[0..=4]),
    (Table::Mark, "kind", &[1..=7]),
    (Table::Limit, "kind", &[1..=6]),
    (Table::Fault, "kind", &[1..=3]),
    (Table::Fault, "access", &[4..=4, 5..=6, 0..=0, 20..=20, 128..=128]),
    (Table::Descriptor, "marks", &[0..=2, 4..=4, 8..=8, 16..=16]),
    (Table::Handover, "is_empty", &[0..=1]),
    (Table::Stream, "calls", &[0..=1]),
    (Table::Park, "why", &[0..=8]),
];

/// A row for each number of each field, the field's name with it.
fn rows() -> Vec<(&'static str, Event)> {
    let mut out = Vec::new();
    for (table, field, numbers) in NUMBERS {
        for number in numbers.iter().flat_map(Clone::clone) {
            let mut bytes = vec![0u8; table.row_bytes()];
            // in this order
            bytes[..8].copy_from_slice(&(out.len() as u64 + 1).to_le_bytes());
            let fields = table.layout();
            let mut put = |name: &str, number: u16| {
                let at = fields.iter().find(|f| f.name == name).expect("a field of this name").at;
                bytes[at] = number as u8;
                if number > 0xff {
                    bytes[at + 1] = (number >> 8) as u8;
                }
            };
            for (_, other, numbers) in NUMBERS.iter().filter(|n| n.0 == *table) {
                put(other, *numbers[0].start());
            }
            put(field, number);
            let row = Event::read(*table, &bytes);
            out.push((*field, row.unwrap_or_else(|| panic!("{}.{field} = {number}", table.name()))));
        }
    }
    out
}

/// The columns of a row that are words or true.
fn said(field: &str, row: &Event) -> String {
    let mut out = format!("{} {field}:", row.table().name());
    let columns: Vec<_> = row.table().layout().into_iter().flat_map(|f| f.columns).collect();
    let mut column = 0;
    row.values(|value| {
        use wakepath_model::table::Value;
        let name = columns[column].name;
        column += 1;
        match value {
            Value::Word(word) => write!(out, " {name}={word}"),
            Value::Bool(true) => write!(out, " {name}"),
            _ => Ok(()),
        }
        .expect("strings take all");
    });
    out
}

#[test]
fn a_folder_of_this_version_reads_as_it_was_meant() -> Outcome {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/format");
    let (trace, expected) = (dir.join("trace"), dir.join("expected.txt"));
    let rows = rows();
    let text: String = rows.iter().map(|(field, row)| said(field, row) + "\n").collect();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        if !trace.exists() {
            let mut writer = FolderWriter::create(&trace, host("web", "b1"), options())?;
            rows.iter().for_each(|(_, row)| writer.push_event(row));
            writer.close()?;
        }
        fs::write(&expected, &text)?;
    }
    assert_eq!(text, fs::read_to_string(&expected)?);
    let folder = Folder::open(&[&trace])?;
    let read: Vec<Event> = folder.hosts()[0].events(TableSet::ALL, ..).collect();
    let written: Vec<Event> = rows.into_iter().map(|(_, row)| row).collect();
    assert_eq!(read, written);
    assert!(folder.defects().is_empty(), "{:?}", folder.defects());
    Ok(())
}

table! {
    /// A [`wakepath_model::rows::StackRow`] of a later version, which knows more causes.
    LaterRow {
        /// When it ran again.
        at: MonoNs,
        /// When it stopped running.
        blocked: MonoNs => near(),
        /// Who waited.
        task: TaskId,
        /// Return addresses.
        frames: StrId,
        /// System call number.
        syscall: u16,
        /// What ended it.
        cause: u8,
        /// Zero.
        pad: [u8; 5],
    }
}

impl Row for LaterRow {
    const TABLE: Table = Table::Stack;
    const STRINGS: &'static [usize] = Table::Stack.strings();
    const TASKS: &'static [usize] = Table::Stack.tasks();
    fn at(&self) -> MonoNs {
        self.at
    }
}

#[test]
fn a_number_of_a_later_version_costs_its_frame_and_is_named() -> Outcome {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("t");
    let mut writer = FolderWriter::create(&path, host("web", "b1"), options())?;
    for (at, cause) in [(1, 3), (2, 3), (3, 200)] {
        writer.push(&LaterRow { at: MonoNs(at), task: TaskId(1), cause, ..LaterRow::default() });
    }
    writer.flush(Durability::Write)?;
    writer.push(&LaterRow { at: MonoNs(4), task: TaskId(1), cause: 4, ..LaterRow::default() });
    writer.close()?;
    let folder = Folder::open(&[&path])?;
    let events: Vec<Event> = folder.hosts()[0].events(TableSet::ALL, ..).collect();
    let lost = events.iter().find_map(|e| if let Event::Loss(r) = e { Some((r.count, r.from, r.at)) } else { None });
    assert_eq!(lost, Some((3, MonoNs(1), MonoNs(3))), "{events:?}");
    assert_eq!(events.iter().filter(|e| e.table() == Table::Stack).count(), 1, "what came after it is read");
    let defects = folder.defects();
    assert_eq!(defects.iter().map(|d| (d.defect.id, d.count)).collect::<Vec<_>>(), [("folder.unknown_code", 1)]);
    let place = defects[0].first.as_ref().expect("a place").to_string();
    assert!(place.ends_with(" (row 2 of stacks: cause: 200 is no known EndedBy)"), "{place}");
    Ok(())
}
