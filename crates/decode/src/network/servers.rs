//! Which ends of flows are servers: what flows of which more is known say of others with the same end.

use rustc_hash::FxHashMap;

/// No slot.
pub(super) const NONE: u32 = u32::MAX;

/// Ends remembered; then all are forgotten, and met again.
const ENDS_MAX: usize = 1 << 16;

/// An address and a port.
pub(super) type End = ([u64; 2], u16);

#[derive(Clone, Copy)]
struct SeenEnd {
    /// It took connections, or answered.
    is_server: bool,
    /// Flows that it is an end of, as far as they were met.
    flows: u32,
    /// The first of them: slot and generation.
    first: (u32, u32),
}

/// Ends that were met.
#[derive(Default)]
pub(super) struct Servers {
    ends: FxHashMap<End, SeenEnd>,
}

impl Servers {
    /// A flow begins between `ends`; `server`: which of them is known to be the server.
    pub fn meet(&mut self, ends: [End; 2], server: Option<usize>, flow: (u32, u32)) {
        if self.ends.len() + 2 > ENDS_MAX {
            self.ends.clear();
        }
        for (i, end) in ends.into_iter().enumerate() {
            let seen = self.ends.entry(end).or_insert(SeenEnd { is_server: false, flows: 0, first: flow });
            seen.flows = seen.flows.saturating_add(1);
            seen.is_server |= server == Some(i);
        }
    }

    /// Which of two ends is the server, by other flows: one that is known to be; or the only one that has several, since each
    /// connection has a client's port of its own.
    pub fn of(&self, ends: [End; 2]) -> Option<usize> {
        let [a, b] = ends.map(|end| self.ends.get(&end).map_or((false, 0), |seen| (seen.is_server, seen.flows)));
        match (a.0, b.0, a.1 > 0, b.1 > 0) {
            (true, false, ..) => Some(0),
            (false, true, ..) => Some(1),
            (false, false, true, false) => Some(0),
            (false, false, false, true) => Some(1),
            _ => None,
        }
    }

    /// The flow with which an end was met first: slot and generation.
    pub fn first_of(&self, end: End) -> (u32, u32) {
        self.ends.get(&end).map_or((NONE, 0), |seen| seen.first)
    }
}

/// How much a port looks like one that programs listen on: well-known ones most, then what is registered, then what is above
/// the ports that Linux gives to clients, and these least.
pub(super) fn rank(port: u16) -> u8 {
    match port {
        0..=1023 => 3,
        1024..=32767 => 2,
        32768..=60999 => 0,
        61000.. => 1,
    }
}
