//! Numbers of rows as words.

use super::{STATE_UNKNOWN, access};
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::table::{Value, Word};
use std::borrow::Cow;

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident($t:ty) { $($number:pat => $word:literal),* $(,)? })*) => {
        $($(#[$doc])* pub(super) fn $name(n: u16) -> Word {
            match n as $t { $($number => Cow::Borrowed($word),)* other => Cow::Owned(other.to_string()) }
        })*
    };
}

words! {
    /// Task states at switch-out.
    task_state(u16) {
        0 => "preempted", 1 => "interruptible", 2 => "uninterruptible", 4 => "stopped", 8 => "traced", 0x10 => "dead",
        0x20 => "zombie", 0x40 => "parked", 0x80 => "dead", 0x102 => "killable", 0x402 => "idle", 0x800 => "new",
        STATE_UNKNOWN => "unknown",
    }
    /// Address families; none is empty.
    family(u16) { 0 => "", 1 => "unix", 2 => "inet", 10 => "inet6" }
    /// IP protocols; none is empty.
    ip_protocol(u16) { 0 => "", 1 => "icmp", 6 => "tcp", 17 => "udp", 58 => "icmpv6", 132 => "sctp", 262 => "mptcp" }
}

/// How memory was accessed where a page fault began.
pub(super) fn fault_access(bits: u8) -> &'static str {
    match bits {
        b if b & access::WRITE != 0 => "write",
        b if b & access::EXEC != 0 => "execute",
        _ => "read",
    }
}

/// A device as the kernel prints it.
pub(super) fn device(number: u32) -> String {
    format!("{}:{}", number >> 20, number & 0xf_ffff)
}

/// An address as text; empty for families without.
pub(super) fn address(family: u16, bytes: [u8; 16]) -> Value {
    Value::word_or_none(match family {
        2 => Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]).to_string(),
        10 => {
            let address = Ipv6Addr::from(bytes);
            address.to_ipv4_mapped().map_or_else(|| address.to_string(), |v4| v4.to_string())
        }
        _ => String::new(),
    })
}
