//! Where a row keeps ids that belong to one recording: strings and tasks. The folder uses it to define the strings
//! that a segment needs, and to translate ids where recordings are joined.

use crate::rows::{
    DescriptorRow, EndpointRow, FaultRow, FlowNoteRow, FlowStateRow, InputRow, LimitRow, LossRow, MarkRow,
    MessageEndRow, MessageRow, OpRow, PacketRow, PollRow, SniffedExchangeRow, SniffedFlowRow, StackRow, Table, TaskRow,
    WaitRow,
};
use std::mem::offset_of;

/// Byte offsets of the [`crate::ids::StrId`] fields of a table's rows.
pub const fn str_fields(table: Table) -> &'static [usize] {
    match table {
        Table::Message => {
            const {
                &[
                    offset_of!(MessageRow, protocol),
                    offset_of!(MessageRow, verb),
                    offset_of!(MessageRow, target),
                    offset_of!(MessageRow, detail),
                ]
            }
        }
        Table::MessageEnd => const { &[offset_of!(MessageEndRow, detail)] },
        Table::Endpoint => const { &[offset_of!(EndpointRow, path)] },
        Table::Task => {
            const { &[offset_of!(TaskRow, comm), offset_of!(TaskRow, cmdline), offset_of!(TaskRow, cgroup)] }
        }
        Table::Loss => const { &[offset_of!(LossRow, what)] },
        Table::FlowNote => const { &[offset_of!(FlowNoteRow, protocol), offset_of!(FlowNoteRow, reason)] },
        Table::Stack => const { &[offset_of!(StackRow, frames)] },
        Table::Fault => const { &[offset_of!(FaultRow, file)] },
        Table::SniffedFlow => const { &[offset_of!(SniffedFlowRow, protocol), offset_of!(SniffedFlowRow, reason)] },
        Table::SniffedExchange => {
            const {
                &[
                    offset_of!(SniffedExchangeRow, protocol),
                    offset_of!(SniffedExchangeRow, verb),
                    offset_of!(SniffedExchangeRow, target),
                    offset_of!(SniffedExchangeRow, detail),
                ]
            }
        }
        Table::Mark => const { &[offset_of!(MarkRow, machine), offset_of!(MarkRow, name)] },
        Table::Limit => const { &[offset_of!(LimitRow, cgroup)] },
        Table::Op
        | Table::FlowState
        | Table::Wait
        | Table::Poll
        | Table::Anchor
        | Table::Packet
        | Table::Input
        | Table::Descriptor
        | Table::Resent => &[],
    }
}

/// Byte offsets of the [`crate::ids::TaskId`] fields of a table's rows.
pub const fn task_fields(table: Table) -> &'static [usize] {
    match table {
        Table::Op => const { &[offset_of!(OpRow, task)] },
        Table::Endpoint => const { &[offset_of!(EndpointRow, task)] },
        Table::FlowState => const { &[offset_of!(FlowStateRow, task)] },
        Table::Wait => const { &[offset_of!(WaitRow, task), offset_of!(WaitRow, by)] },
        Table::Poll => const { &[offset_of!(PollRow, task)] },
        Table::Packet => const { &[offset_of!(PacketRow, task)] },
        Table::Stack => const { &[offset_of!(StackRow, task)] },
        Table::Fault => const { &[offset_of!(FaultRow, task)] },
        Table::Input => const { &[offset_of!(InputRow, task)] },
        Table::Mark => const { &[offset_of!(MarkRow, task)] },
        Table::Limit => const { &[offset_of!(LimitRow, task)] },
        Table::Task => const { &[offset_of!(TaskRow, task), offset_of!(TaskRow, parent)] },
        Table::Descriptor => const { &[offset_of!(DescriptorRow, task)] },
        Table::Message
        | Table::MessageEnd
        | Table::Loss
        | Table::Anchor
        | Table::FlowNote
        | Table::SniffedFlow
        | Table::SniffedExchange
        | Table::Resent => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::{AnchorRow, ResentRow, Row};

    fn holds<R: Row>() {
        assert_eq!(size_of::<R>() % 8, 0, "{} rows are whole words", R::TABLE.name());
        assert_eq!(align_of::<R>(), 8);
        // `at` is the first word of every row: the folder sorts by it without knowing the row's type.
        let mut row = R::zeroed();
        bytemuck::bytes_of_mut(&mut row)[..8].copy_from_slice(&77u64.to_le_bytes());
        assert_eq!(row.at().0, 77);
    }

    #[test]
    fn rows_are_whole_words_and_begin_with_their_time() {
        holds::<OpRow>();
        holds::<MessageRow>();
        holds::<MessageEndRow>();
        holds::<EndpointRow>();
        holds::<FlowStateRow>();
        holds::<WaitRow>();
        holds::<PollRow>();
        holds::<TaskRow>();
        holds::<LossRow>();
        holds::<AnchorRow>();
        holds::<FlowNoteRow>();
        holds::<PacketRow>();
        holds::<StackRow>();
        holds::<InputRow>();
        holds::<SniffedFlowRow>();
        holds::<SniffedExchangeRow>();
        holds::<MarkRow>();
        holds::<LimitRow>();
        holds::<FaultRow>();
        holds::<DescriptorRow>();
        holds::<ResentRow>();
    }
}
