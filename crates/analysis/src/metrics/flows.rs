//! The flows that metrics know, bounded: two generations, of which the older one goes when the younger is full.

use rustc_hash::FxHashMap;
use wakepath_model::ids::SniffedFlowId;
use wakepath_model::rows::SniffedFlowRow;

/// No service yet.
pub(super) const NONE: u32 = u32::MAX;

/// What a flow's rows have said so far, by direction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Said {
    pub packets: [u64; 2],
    pub wire_bytes: [u64; 2],
    pub stream_bytes: [u64; 2],
    pub missing_bytes: [u64; 2],
    pub retransmitted: [u64; 2],
    pub reordered: [u64; 2],
    pub zero_windows: [u64; 2],
}

fn less(a: [u64; 2], b: [u64; 2]) -> [u64; 2] {
    [a[0].saturating_sub(b[0]), a[1].saturating_sub(b[1])]
}

impl Said {
    /// What a row says.
    pub fn of(r: &SniffedFlowRow) -> Said {
        Said {
            packets: r.packets,
            wire_bytes: r.wire_bytes,
            stream_bytes: r.stream_bytes,
            missing_bytes: r.missing_bytes,
            retransmitted: r.retransmitted.map(u64::from),
            reordered: r.reordered.map(u64::from),
            zero_windows: r.zero_windows.map(u64::from),
        }
    }

    /// The same with the sides exchanged.
    pub fn turn(&mut self) {
        let pairs = [
            &mut self.packets,
            &mut self.wire_bytes,
            &mut self.stream_bytes,
            &mut self.missing_bytes,
            &mut self.retransmitted,
            &mut self.reordered,
            &mut self.zero_windows,
        ];
        pairs.into_iter().for_each(|p| p.swap(0, 1));
    }

    /// What came since `before`.
    pub fn since(&self, before: &Said) -> Said {
        Said {
            packets: less(self.packets, before.packets),
            wire_bytes: less(self.wire_bytes, before.wire_bytes),
            stream_bytes: less(self.stream_bytes, before.stream_bytes),
            missing_bytes: less(self.missing_bytes, before.missing_bytes),
            retransmitted: less(self.retransmitted, before.retransmitted),
            reordered: less(self.reordered, before.reordered),
            zero_windows: less(self.zero_windows, before.zero_windows),
        }
    }
}

/// A flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    /// Which capture tells of it; others that saw it too are not counted.
    pub source: u16,
    /// What was counted of it.
    pub said: Said,
    pub client: [u8; 16],
    pub server: [u8; 16],
    pub server_port: u16,
    pub family: u16,
    pub ip_protocol: u8,
    pub service: u32,
    pub caller: u32,
    /// Its end was told.
    pub ended: bool,
    /// Handshake times that were counted: the server's, the client's.
    pub rtt: [bool; 2],
}

impl Flow {
    /// As a row tells of it; nothing of it is counted yet.
    pub fn new(source: u16, r: &SniffedFlowRow) -> Flow {
        Flow {
            source,
            said: Said::default(),
            client: r.client,
            server: r.server,
            server_port: r.server_port,
            family: r.family,
            ip_protocol: r.ip_protocol,
            service: NONE,
            caller: NONE,
            ended: false,
            rtt: [false; 2],
        }
    }
}

/// The flows, by id.
pub(super) struct Flows {
    young: FxHashMap<SniffedFlowId, Flow>,
    old: FxHashMap<SniffedFlowId, Flow>,
    half: usize,
}

impl Flows {
    /// For at most `max` flows.
    pub fn new(max: usize) -> Flows {
        Flows { young: FxHashMap::default(), old: FxHashMap::default(), half: (max / 2).max(1) }
    }

    /// A flow that is known.
    pub fn get(&mut self, id: SniffedFlowId) -> Option<&mut Flow> {
        if !self.old.is_empty()
            && let Some(flow) = self.old.remove(&id)
        {
            // room for it is made when the next flow comes
            self.young.insert(id, flow);
        }
        self.young.get_mut(&id)
    }

    /// Adds a flow; gives those that had to make room and had not ended.
    pub fn add(&mut self, id: SniffedFlowId, flow: Flow) -> Vec<Flow> {
        let mut gone = Vec::new();
        if self.young.len() >= self.half {
            gone = std::mem::take(&mut self.old).into_values().filter(|f| !f.ended).collect();
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(id, flow);
        gone
    }
}
