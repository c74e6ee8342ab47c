//! What is said of the row that was added last.

use super::HostRows;
use wakepath_model::rows::{Event, MessageRole, WitnessKind, message_flag, op_flag};

/// System call number of futex on x86-64.
const FUTEX: u16 = 202;
/// epoll_wait of x86-64.
const EPOLL_WAIT: u16 = 232;

impl HostRows {
    /// io_uring carried the operation that was added last.
    pub fn is_of_ring(&mut self) {
        if let Some(Event::Op(row)) = self.rows.last_mut() {
            row.flags |= op_flag::IO_URING;
        }
    }

    /// The last message gets no reply, and is put into a queue.
    pub fn is_posted(&mut self) {
        if let Some(Event::Message(m)) = self.rows.last_mut() {
            m.flags = message_flag::NO_REPLY | message_flag::QUEUED;
        }
    }

    /// The last message is put into a queue, and whoever takes it up is to answer.
    pub fn is_relayed(&mut self) {
        if let Some(Event::Message(m)) = self.rows.last_mut() {
            m.flags = message_flag::QUEUED | message_flag::RELAYED;
        }
    }

    /// The last message asks to wait until something happens elsewhere.
    pub fn asks_to_wait(&mut self) {
        if let Some(Event::Message(m)) = self.rows.last_mut() {
            m.flags |= message_flag::AWAITS;
        }
    }

    /// The last message is answered before the next one, if at all.
    pub fn is_by_turn(&mut self) {
        if let Some(Event::Message(m)) = self.rows.last_mut() {
            m.flags = message_flag::BY_TURN;
        }
    }

    /// The last message answers nothing, where turns alone would say so.
    pub fn is_push(&mut self) {
        if let Some(Event::Message(m)) = self.rows.last_mut() {
            (m.role, m.flags) = (MessageRole::Unsolicited, message_flag::BY_TURN);
        }
    }

    /// The message told last has an identifier of this kind and value.
    pub fn bears(&mut self, kind: WitnessKind, value: u64) {
        if let Some(Event::Message(r)) = self.rows.last_mut() {
            (r.witness_kind, r.witness) = (kind, value);
        }
    }

    /// The wait that was added last was at a futex.
    pub fn at_futex(&mut self, address: u64) {
        if let Some(Event::Wait(row)) = self.rows.last_mut() {
            (row.syscall, row.arg0) = (FUTEX, address);
        }
    }

    /// The wait that was added last was in epoll.
    pub fn in_epoll(&mut self) {
        if let Some(Event::Wait(row)) = self.rows.last_mut() {
            row.syscall = EPOLL_WAIT;
        }
    }
}
