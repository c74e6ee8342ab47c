//! What a sniffer may hold, and what it has seen.

use wakepath_model::ids::MonoNs;

/// Bounds of a sniffer's memory, and how often it tells of what goes on.
#[derive(Clone, Copy, Debug)]
pub struct SnifferOptions {
    /// Flows remembered at once; the one that was silent longest makes room.
    pub flows_max: usize,
    /// Bytes of segments and fragments held, of all flows together, until what lies before them comes.
    pub held_bytes_max: usize,
    /// How often a flow that goes on, and an exchange that stays open, are written again, ns.
    pub update_ns: u64,
    /// After how long a silent flow is forgotten, ns.
    pub idle_ns: u64,
}

impl Default for SnifferOptions {
    fn default() -> SnifferOptions {
        SnifferOptions {
            flows_max: 1 << 17,
            held_bytes_max: 64 << 20,
            update_ns: 5_000_000_000,
            idle_ns: 120_000_000_000,
        }
    }
}

/// What a sniffer has seen so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sniffed {
    /// Packets given.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Of them those that carry no IP: ARP, LLDP, spanning tree…
    pub not_ip: u64,
    /// Of them IP fragments.
    pub fragments: u64,
    /// Flows begun.
    pub flows: u64,
    /// Exchanges ended.
    pub exchanges: u64,
    /// Time of the first packet.
    pub first: MonoNs,
    /// Time of the latest packet.
    pub last: MonoNs,
}
