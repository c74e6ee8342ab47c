//! What is said of the row that was added last.

use super::{HostRows, Recording};
use crate::random::Random;
use std::collections::HashMap;
use wakepath_model::rows::{EndedBy, Event, MessageRole, WitnessKind, message_flag, op_flag};

/// System call number of futex on x86-64.
const FUTEX: u16 = 202;
/// epoll_wait of x86-64.
const EPOLL_WAIT: u16 = 232;
/// recvfrom of x86-64.
const RECVFROM: u16 = 45;
/// A socket that no operation names.
const UNKNOWN_SOCKET: u64 = u64::MAX - 7;

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

    /// The last message is on a way for messages, whatever they are, and this number names its exchange.
    pub fn is_on_lane(&mut self, number: u64) {
        self.bears(WitnessKind::Named, number);
        if let Some(Event::Message(m)) = self.rows.last_mut() {
            m.flags |= message_flag::ON_LANE;
        }
    }

    /// The last message answers nothing, where turns alone would say so.
    pub fn is_push(&mut self) {
        if let Some(Event::Message(m)) = self.rows.last_mut() {
            (m.role, m.flags) = (MessageRole::Unsolicited, message_flag::BY_TURN);
        }
    }

    /// The last message takes a request back.
    pub fn is_withdrawal(&mut self) {
        if let Some(Event::Message(m)) = self.rows.last_mut() {
            m.role = MessageRole::Withdrawal;
        }
    }

    /// The message told last has an identifier of this kind and value.
    pub fn bears(&mut self, kind: WitnessKind, value: u64) {
        if let Some(Event::Message(r)) = self.rows.last_mut() {
            (r.witness_kind, r.witness) = (kind, value);
        }
    }

    /// The message told last has this identifier, hashed, of those that services hand on.
    pub fn carries(&mut self, identifier: u64) {
        if let Some(Event::Message(r)) = self.rows.last_mut() {
            r.identifier = identifier;
        }
    }

    /// The message told last is a reply whose body has this fingerprint.
    pub fn says(&mut self, fingerprint: u64) {
        if let Some(Event::Message(r)) = self.rows.last_mut() {
            r.fingerprint = fingerprint;
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

    /// The last wait ended with a datagram that another task sent to a socket which bears no message that was recorded.
    pub fn by_datagram(&mut self) {
        if let Some(Event::Wait(row)) = self.rows.last_mut() {
            (row.cause, row.object, row.syscall) = (EndedBy::Socket, UNKNOWN_SOCKET, RECVFROM);
        }
    }
}

impl Recording {
    /// Gives messages identifiers as clients and services do: most requests have one of their own, some the one of the request before
    /// (sent again, or a session's), some none. Most calls carry their request's, some one of their own, some none.
    pub fn hand_on(&mut self, random: &mut Random) {
        let (mut last, mut borne) = (0, Vec::with_capacity(self.truth.calls.len()));
        for call in &self.truth.calls {
            let (fresh, choice) = (random.any() | 1, random.within(0, 99));
            let id = match call.cause.map(|c| borne[c]) {
                Some(handed) if choice < 70 => handed,
                // a program's own call is for no request
                None if choice < 15 && call.client.is_none() => last,
                _ if choice < 85 => fresh,
                _ => 0,
            };
            if call.client.is_none() && id != 0 {
                last = id;
            }
            borne.push(id);
        }
        let calls = self.truth.calls.iter().zip(&borne);
        let at: HashMap<(&str, u64, u64), u64> = calls
            .flat_map(|(c, &id)| {
                let ends = c.client.iter().chain(&c.server);
                ends.map(move |(host, flow)| ((host.as_str(), *flow, c.start), id))
            })
            .collect();
        for h in &mut self.hosts {
            for row in &mut h.rows {
                let Event::Message(m) = row else { continue };
                let id = at.get(&(h.name.as_str(), m.flow.0, m.start)).copied().unwrap_or(0);
                if m.role != MessageRole::Request || id == 0 {
                    continue;
                }
                m.identifier = id;
                if m.witness_kind == WitnessKind::None {
                    (m.witness_kind, m.witness) = (WitnessKind::XRequestId, id);
                }
            }
        }
    }
}
