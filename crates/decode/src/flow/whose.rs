//! Whose ends an endpoint joins.

use super::{AF_UNIX, Flow};
use crate::network::is_to_all;
use crate::recurring::{Asker, address_number};
use wakepath_model::rows::{EndpointRow, Side};

impl Flow {
    /// Whose ends it joins.
    pub fn joins(&mut self, row: &EndpointRow) {
        self.ports = (row.lport, row.rport);
        let number = |address: [u8; 16]| {
            let all = u128::from_le_bytes(address);
            address_number([all as u64, (all >> 64) as u64])
        };
        self.addresses = [number(row.laddr), number(row.raddr)];
        self.to_all = [row.laddr, row.raddr].iter().any(|a| is_to_all(row.family, a));
        // the ends of a UNIX connection have no addresses, and one of them has no name: the two endpoints tell it apart
        let connection = if row.peer.0 == 0 { row.flow.0 } else { row.flow.0.min(row.peer.0) };
        self.asker = (row.family == AF_UNIX).then_some(Asker { service: 1, address: 1, connection });
    }

    /// Who asks whom, as far as that is known.
    pub(super) fn asker(&mut self) -> Asker {
        let (local, remote) = ((self.addresses[0], self.ports.0), (self.addresses[1], self.ports.1));
        match (self.asker, self.side) {
            (Some(asker), _) => asker,
            (None, Side::Unknown) => Asker::default(),
            (None, side) => {
                let asker = if side == Side::Server { Asker::of(local, remote) } else { Asker::of(remote, local) };
                *self.asker.insert(asker)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recurring::Said;
    use crate::{RowSink, TaskFacts};
    use wakepath_model::ids::{EndpointId, MonoNs, StrId};
    use wakepath_model::rows::{Event, Row, message_flag};

    /// For each message whether it owes no reply.
    #[derive(Default)]
    struct Owes(Vec<bool>);

    impl RowSink for Owes {
        fn push<R: Row>(&mut self, row: &R) {
            if let Some(Event::Message(r)) = Event::read(R::TABLE, bytemuck::bytes_of(row)) {
                self.0.push(r.flags & message_flag::NO_REPLY != 0);
            }
        }
        fn push_head(&mut self, _: MonoNs, _: EndpointId, _: u64, _: bool, _: &[u8]) {}
        fn count(&mut self, _: &'static str, _: MonoNs) {}
        fn intern(&mut self, _: &[u8]) -> StrId {
            StrId::EMPTY
        }
        fn said(&mut self, _: &str, _: &Said) -> StrId {
            StrId::EMPTY
        }
        fn describe(&mut self, _: u32, _: u32) -> TaskFacts {
            TaskFacts::default()
        }
    }

    #[test]
    fn a_question_to_a_group_of_hosts_owes_no_reply_at_an_endpoint() {
        const QUESTION: &[u8] = b"\0\x07\0\0\0\x01\0\0\0\0\0\0\x04host\x05local\0\0\x01\0\x01";
        let ip4 = |address: [u8; 4]| std::array::from_fn(|i| address.get(i).copied().unwrap_or(0));
        let ip6 = |first: u8| std::array::from_fn(|i| if i == 0 { first } else { u8::from(i == 15) });
        for (family, raddr, owes_none) in [
            (2, ip4([224, 0, 0, 251]), true),
            (2, ip4([255; 4]), true),
            (2, ip4([10, 0, 0, 2]), false),
            (10, ip6(0xff), true),
            (10, ip6(0xfd), false),
        ] {
            let (mut flow, mut sink) = (Flow::new(Side::Client, (40_000, 53), true), Owes::default());
            flow.joins(&EndpointRow { family, raddr, lport: 40_000, rport: 53, ..Default::default() });
            let moved = 1 << 32..(1 << 32) + QUESTION.len() as u64;
            flow.bytes(EndpointId(1), MonoNs(1), true, moved, QUESTION, &mut sink);
            assert_eq!(sink.0, [owes_none], "{family} {raddr:?}");
        }
    }
}
