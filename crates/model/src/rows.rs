//! The tables: one fixed-size row type each, without padding. Their numbers with a meaning are codes (enums); a frame with
//! a number that is none is left out and counted where it is read.
//!
//! A row's time (`Row::at`) is when the recorder knew it; rows of a segment come in that order but for small
//! inversions between processors, which readers must bear.

use crate::ids::MonoNs;
use crate::table::{Declared, FieldLayout, Id, Value, id_count, id_offsets, layout, ways};
use bytemuck::checked::{try_cast_slice, try_pod_read_unaligned};
use bytemuck::{CheckedBitPattern, NoUninit};

mod descriptors;
mod faults;
mod flows;
mod limits;
mod marks;
mod messages;
mod names;
mod operations;
mod packets;
mod placements;
mod recording;
mod reduced;
mod sniffed;
mod tasks;
mod waits;

pub use descriptors::{DescriptorRow, LastWord, ResentRow, descriptor, held};
pub use faults::{FaultKind, FaultRow, NO_OFFSET, access};
pub use flows::{EndpointRow, FlowNoteRow, FlowStateRow, Reset, SeenHow, Side, TcpState, UNFRAMED};
pub use limits::{LimitKind, LimitRow};
pub use marks::{MarkKind, MarkRow};
pub use messages::{
    Failed, MessageEndHow, MessageEndRow, MessageRole, MessageRow, WitnessKind, fingerprint, message_flag,
};
pub use operations::{InputKind, InputRow, OpKind, OpRow, PollRow, RangeHow, SENT_AT_ONCE, op_flag};
pub use packets::{PacketContext, PacketRow};
pub use placements::PlacementRow;
pub use recording::{AnchorRow, LossRow};
pub use reduced::{AnsweredBy, AskedFor, QueuedHow, ReducedRow, StepKind, reduced_trait};
pub use sniffed::{ExchangeKind, FlowRowKind, ResetBy, SideHow, SniffedExchangeRow, SniffedFlowRow};
pub use tasks::{
    HandoverRow, JVM_EXECUTORS, Life, OUT_OF_MEMORY, RuntimeKind, StreamRow, Strength, TaskClass, TaskRow,
};
pub use waits::{EndedBy, Park, ParkRow, RanRow, STATE_UNKNOWN, StackRow, StayRow, WaitRow, gaps};

/// End offset of a message whose end is not known yet.
pub const OPEN: u64 = u64::MAX;

/// Rows have no more words than this.
pub const WORDS_MAX: usize = 32;

/// What all rows have: a time and a table.
pub trait Row: NoUninit + CheckedBitPattern + Default + Declared {
    /// The table's number on disk.
    const TABLE: Table;
    /// First bytes of its fields that are strings of the recording.
    const STRINGS: &'static [usize];
    /// First bytes of its fields that are tasks of the recording.
    const TASKS: &'static [usize];
    /// How each of its words is packed: numbers of [`crate::table::Way`].
    const WAYS: [u8; WORDS_MAX] = ways(Self::FIELDS);
    /// When the recorder knew it.
    fn at(&self) -> MonoNs;
}

macro_rules! tables {
    ($($(#[$m:meta])* $name:ident = $n:literal => $row:ident, $file:literal;)*) => {
        /// The tables of a folder; numbers are part of the format and never reused.
        #[repr(u8)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Table { $($(#[$m])* $name = $n),* }

        impl Table {
            /// Every table.
            pub const ALL: &'static [Table] = &[$(Table::$name),*];
            /// The table's name: of its Parquet file and in documents.
            pub const fn name(self) -> &'static str { match self { $(Table::$name => $file),* } }
            /// Bytes of one row.
            pub const fn row_bytes(self) -> usize { match self { $(Table::$name => size_of::<$row>()),* } }
            /// What a row is.
            pub const fn about(self) -> &'static str { match self { $(Table::$name => $row::ABOUT),* } }
            /// Its fields in the order of their bytes.
            pub fn layout(self) -> Vec<FieldLayout> { match self { $(Table::$name => layout($row::FIELDS)),* } }
            /// [`Row::STRINGS`] of its rows.
            pub const fn strings(self) -> &'static [usize] { match self { $(Table::$name => $row::STRINGS),* } }
            /// [`Row::TASKS`] of its rows.
            pub const fn tasks(self) -> &'static [usize] { match self { $(Table::$name => $row::TASKS),* } }
            /// [`Row::WAYS`] of its rows.
            pub const fn ways(self) -> [u8; WORDS_MAX] { match self { $(Table::$name => $row::WAYS),* } }
            /// Whether words are rows of it: whole ones, in which every code is one that we know.
            pub fn are_rows(self, words: &[u64]) -> bool {
                match self { $(Table::$name => try_cast_slice::<u64, $row>(words).is_ok()),* }
            }
            /// What keeps words from being its rows, where [`Table::are_rows`] says that they are none: the first number that no
            /// code has, with its row (from 0), its field and its code.
            pub fn unknown_code(self, words: &[u64]) -> Option<String> {
                match self { $(Table::$name => unknown_code::<$row>(words)),* }
            }
            /// A row of it in which nothing is said.
            #[cfg(test)]
            fn blank(self) -> Event { match self { $(Table::$name => Event::$name(Default::default())),* } }
            /// From its number on disk.
            pub const fn from_number(n: u8) -> Option<Table> { match n { $($n => Some(Table::$name),)* _ => None } }
        }

        $(impl Row for $row {
            const TABLE: Table = Table::$name;
            const STRINGS: &'static [usize] = &id_offsets::<_, { id_count($row::FIELDS, Id::Str) }>($row::FIELDS, Id::Str);
            const TASKS: &'static [usize] = &id_offsets::<_, { id_count($row::FIELDS, Id::Task) }>($row::FIELDS, Id::Task);
            fn at(&self) -> MonoNs { self.at }
        })*

        /// A row of any table.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum Event { $($(#[$m])* $name($row)),* }

        impl Event {
            /// When the recorder knew it.
            pub fn at(&self) -> MonoNs { match self { $(Event::$name(r) => r.at),* } }
            /// Its table.
            pub fn table(&self) -> Table { match self { $(Event::$name(_) => Table::$name),* } }
            /// The row's bytes.
            pub fn bytes(&self) -> &[u8] { match self { $(Event::$name(r) => bytemuck::bytes_of(r)),* } }
            /// The values of its columns, in their order.
            pub fn values(&self, mut give: impl FnMut(Value)) {
                match self { $(Event::$name(r) => $row::FIELDS.iter().for_each(|f| f.values(r, &mut give))),* }
            }
            /// Reads one row of `table` from exactly its bytes.
            pub fn read(table: Table, bytes: &[u8]) -> Option<Event> {
                match table { $(Table::$name => try_pod_read_unaligned(bytes).ok().map(Event::$name)),* }
            }
        }
        $(impl From<$row> for Event { fn from(r: $row) -> Event { Event::$name(r) } })*

        /// A row of any table, where it was read to: most readers look at a row once, and need no copy of it.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum EventRef<'a> { $($(#[$m])* $name(&'a $row)),* }

        impl<'a> EventRef<'a> {
            /// One row of `table` that is exactly these words.
            #[inline]
            pub(crate) fn of_words(table: Table, words: &'a [u64]) -> Option<EventRef<'a>> {
                match table {
                    $(Table::$name => match try_cast_slice::<u64, $row>(words) {
                        Ok([r]) => Some(EventRef::$name(r)),
                        _ => None,
                    }),*
                }
            }
            /// When the recorder knew it.
            #[inline]
            pub fn at(self) -> MonoNs { match self { $(EventRef::$name(r) => r.at),* } }
            /// The row by itself.
            #[inline]
            pub fn owned(self) -> Event { match self { $(EventRef::$name(r) => Event::$name(*r)),* } }
        }
    };
}

tables! {
    /// Operations.
    Op = 1 => OpRow, "operations";
    /// Messages.
    Message = 2 => MessageRow, "messages";
    /// Ends of messages that were open when their row was written.
    MessageEnd = 3 => MessageEndRow, "message_ends";
    /// Endpoints of flows.
    Endpoint = 4 => EndpointRow, "endpoints";
    /// Changes of a flow's state.
    FlowState = 5 => FlowStateRow, "flow_states";
    /// Waits.
    Wait = 6 => WaitRow, "waits";
    /// Returns from poll, select, epoll.
    Poll = 7 => PollRow, "polls";
    /// Steps in tasks' lives.
    Task = 8 => TaskRow, "tasks";
    /// What was lost.
    Loss = 9 => LossRow, "losses";
    /// Pairs of monotonic and wall-clock time.
    Anchor = 10 => AnchorRow, "anchors";
    /// What is known of a flow's protocol, or why it is opaque.
    FlowNote = 11 => FlowNoteRow, "flow_notes";
    /// Packets seen by an imported trace.
    Packet = 12 => PacketRow, "packets";
    /// Where in its program a task blocked (only with `--stacks`).
    Stack = 13 => StackRow, "stacks";
    /// Inputs that the library vantage handed over, one at a time.
    Input = 14 => InputRow, "inputs";
    /// Flows that a sniffer saw.
    SniffedFlow = 15 => SniffedFlowRow, "sniffed_flows";
    /// Requests and their replies that a sniffer saw.
    SniffedExchange = 16 => SniffedExchangeRow, "sniffed_exchanges";
    /// Annotations of state machines.
    Mark = 17 => MarkRow, "marks";
    /// What bounds the host, its processes and its flows.
    Limit = 18 => LimitRow, "limits";
    /// Page faults (only with `--faults`).
    Fault = 19 => FaultRow, "faults";
    /// How descriptors' sockets and pipes stood.
    Descriptor = 20 => DescriptorRow, "descriptors";
    /// What TCP sent once more.
    Resent = 21 => ResentRow, "retransmissions";
    /// Where tasks run: containers, pods, units.
    Placement = 22 => PlacementRow, "placements";
    /// Items that went from one goroutine to another (only with `--runtimes=go-channels`).
    Handover = 23 => HandoverRow, "handovers";
    /// Who serves streams of HTTP/2, and who asks by them (only with `--runtimes=go`).
    Stream = 24 => StreamRow, "streams";
    /// What goroutines waited for inside their program (only with `--runtimes=go-waits`).
    Park = 25 => ParkRow, "parks";
    /// Whose work threads of event loops did at ticks of the clock (only with `--runtimes=python`).
    Ran = 26 => RanRow, "ran";
    /// Who had a processor and is not selected.
    Stay = 27 => StayRow, "stays";
    /// What the linker of a host found (only in folders that `reduce` made).
    Reduced = 28 => ReducedRow, "reduced";
}

/// [`Table::unknown_code`] of the table whose rows are `R`.
fn unknown_code<R: Row>(words: &[u64]) -> Option<String> {
    let rows = bytemuck::cast_slice::<u64, u8>(words).chunks_exact(size_of::<R>());
    rows.enumerate().find_map(|(i, row)| {
        let found = R::FIELDS.iter().find_map(|f| Some((f, f.unknown(row)?)));
        found
            .map(|(f, number)| format!("row {i} of {}: {}: {number} is no known {}", R::TABLE.name(), f.name, f.stored))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_whole_words_and_begin_with_their_time() {
        for table in Table::ALL {
            let bytes = table.row_bytes();
            assert!(bytes.is_multiple_of(8) && bytes / 8 <= WORDS_MAX, "{}: {bytes}", table.name());
            let fields = table.layout();
            // the folder sorts by the first word without knowing the row's type
            assert_eq!((fields[0].at, fields[0].name, fields[0].stored), (0, "at", "MonoNs"), "{}", table.name());
        }
    }

    #[test]
    fn a_row_with_a_number_that_no_code_has_is_no_row() {
        let row = OpRow { kind: OpKind::Close, ..OpRow::default() };
        let mut words: Vec<u64> = bytemuck::cast_slice(&[row]).to_vec();
        assert!(Table::Op.are_rows(&words));
        bytemuck::cast_slice_mut::<u64, u8>(&mut words)[std::mem::offset_of!(OpRow, kind)] = 200;
        assert!(!Table::Op.are_rows(&words) && Event::read(Table::Op, bytemuck::cast_slice(&words)).is_none());
        assert_eq!(
            Table::Op.unknown_code(&words).as_deref(),
            Some("row 0 of operations: kind: 200 is no known OpKind")
        );
        let unknown = OpKind::try_from(200).expect_err("no kind");
        assert_eq!(unknown.to_string(), "200 is no known OpKind");
        assert_eq!(OpKind::try_from(5), Ok(OpKind::Close));
        assert!(EndedBy::ALL.iter().all(|c| EndedBy::try_from(*c as u8) == Ok(*c)));
        assert_eq!(
            [Side::Server, Side::Client, Side::Unknown].map(Side::other),
            [Side::Client, Side::Server, Side::Unknown]
        );
    }

    #[test]
    fn every_field_of_an_id_is_found_by_its_type() {
        for table in Table::ALL {
            let of = |stored: &str| -> Vec<usize> {
                table.layout().iter().filter(|f| f.stored == stored).map(|f| f.at).collect()
            };
            assert_eq!(table.strings(), of("StrId"), "{}", table.name());
            assert_eq!(table.tasks(), of("TaskId"), "{}", table.name());
        }
    }

    #[test]
    fn each_row_has_a_value_for_each_column() {
        for table in Table::ALL {
            let columns: Vec<_> = table.layout().into_iter().flat_map(|f| f.columns).collect();
            let names: std::collections::BTreeSet<_> = columns.iter().map(|c| c.name).collect();
            assert_eq!(names.len(), columns.len(), "{}: a column's name twice", table.name());
            let row = table.blank();
            assert_eq!(Event::read(*table, row.bytes()), Some(row));
            let mut values = Vec::new();
            row.values(|v| values.push(v));
            assert_eq!(values.len(), columns.len(), "{}", table.name());
            for (value, column) in values.iter().zip(&columns) {
                assert!(*value != Value::None || column.may_miss, "{}.{} has no value", table.name(), column.name);
                assert!(!column.about.trim().is_empty());
            }
        }
    }
}
