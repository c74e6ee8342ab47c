//! Packets as they pass: live from interfaces, or out of tunnels that end on this host.
//!
//! ```text
//! interfaces ─► AF_PACKET, TPACKET_V3 ring ─► LiveSource   ─┐
//! VXLAN, Geneve ─► UDP sockets, GRE ─► raw  ─► TunnelSource ─┴─► Packet, on the monotonic clock
//! ```
//! Both sources hand packets over in the calling thread, wait no longer than they are told to, and count what the kernel
//! dropped because nobody took it up in time.

mod clock;
mod filter;
mod live;
mod socket;
mod tunnel;

pub use filter::{Filter, libpcap};
pub use live::{LiveOptions, LiveSource};
pub use tunnel::{Listen, TunnelOptions, TunnelSource};
