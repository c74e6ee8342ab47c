//! Where each connection's counting begins, so that a position becomes an offset.

use crate::truth::{Addr, Line, Truth};
use rustc_hash::FxHashMap;
use wakepath_causality::exchange::Side;
use wakepath_causality::path::Half;
use wakepath_model::folder::{Folder, TableSet};
use wakepath_model::ids::{EndpointId, HostId};
use wakepath_model::rows::{EndpointRow, Event, SeenHow, Table, TcpState};

/// The caller's first byte, of each connection that began inside the recording.
#[derive(Default)]
pub struct Bases(FxHashMap<(HostId, EndpointId), u64>);

/// The two ends of an endpoint, the caller's first.
fn line_of(r: &EndpointRow, accepted: bool) -> Line {
    let plain = |a: [u8; 16]| {
        let mut out = a;
        if a[..10] == [0; 10] && a[10..12] == [0xff, 0xff] {
            out = [0; 16];
            out[..4].copy_from_slice(&a[12..]);
        }
        out
    };
    let (local, remote) = ((plain(r.laddr), r.lport), (plain(r.raddr), r.rport));
    if accepted { (remote, local) } else { (local, remote) }
}

impl Bases {
    /// Reads the endpoints of servers that matter.
    pub fn read(folder: &Folder, is_server: impl Fn(&Addr) -> bool) -> Bases {
        let mut bases = Bases::default();
        for host in folder.hosts() {
            for event in host.events(TableSet::of(&[Table::Endpoint]), ..) {
                let Event::Endpoint(r) = event else { continue };
                let accepted = r.how == SeenHow::Accepted;
                if r.state == TcpState::Listen || !(accepted || r.how == SeenHow::Connected) {
                    continue;
                }
                if is_server(&line_of(&r, accepted).1) {
                    let base = if accepted { r.rcv } else { r.snd };
                    // a later row of the same flow says how far it is by then
                    bases.0.entry((host.id(), r.flow)).or_insert(base);
                }
            }
        }
        bases
    }

    /// How many bytes the caller had sent before this exchange, where the beginning was seen.
    pub fn offset(&self, h: &Half) -> Option<u64> {
        let base = self.0.get(&(h.host, h.exchange.flow))?;
        Some(h.exchange.request.start.wrapping_sub(*base))
    }
}

/// How far the clock of `truth` is before that of the recording, ns: no message can be sent before its connection is there, and of
/// some it is sent at once. `None` where no connection of it was seen to be made.
pub fn lead_ns(folder: &Folder, truth: &Truth) -> Option<i64> {
    let mut made: FxHashMap<Line, u64> = FxHashMap::default();
    for host in folder.hosts() {
        for event in host.events(TableSet::of(&[Table::Endpoint]), ..) {
            let Event::Endpoint(r) = event else { continue };
            if r.how == SeenHow::Connected {
                made.entry(line_of(&r, false)).or_insert(r.at.0);
            }
        }
    }
    let lead = |(line, &at): (&Line, &u64)| Some(truth.first_sent_ns(line)?.wrapping_sub(at) as i64);
    made.iter().filter_map(lead).min()
}

/// The two ends of a half's connection, the caller's first.
pub fn line(h: &Half) -> Line {
    let p = &h.place;
    let (local, remote) = ((p.laddr, p.lport), (p.raddr, p.rport));
    match h.exchange.side {
        Side::Client => (local, remote),
        Side::Server => (remote, local),
    }
}
