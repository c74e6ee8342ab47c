//! Numbers of rows as words.

use super::{STATE_UNKNOWN, access, context, fault, input, life, limit, mark, runtime, seen, strength};
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
    /// How an endpoint came to be known.
    endpoint_how(u8) {
        seen::CONNECTED => "connected", seen::ACCEPTED => "accepted", seen::MET => "met", seen::SNAPSHOT => "snapshot",
    }
    /// In whose name a packet was handled.
    packet_context(u8) {
        context::TASK => "task", context::NET => "net", context::TIMER => "timer", context::IRQ => "irq",
    }
    /// Task states at switch-out.
    task_state(u16) {
        0 => "preempted", 1 => "interruptible", 2 => "uninterruptible", 4 => "stopped", 8 => "traced", 0x10 => "dead",
        0x20 => "zombie", 0x40 => "parked", 0x80 => "dead", 0x102 => "killable", 0x402 => "idle", 0x800 => "new",
        STATE_UNKNOWN => "unknown",
    }
    /// What happened to a task.
    task_what(u8) {
        life::FORK => "fork", life::EXEC => "exec", life::EXIT => "exit", life::NAME => "name",
        life::SNAPSHOT => "snapshot", life::WATCHED => "watched",
        life::FOR_OTHERS => "for_others",
    }
    /// Inputs of the library vantage.
    input_kind(u8) { input::READ => "read", input::WRITE => "write", input::OTHER => "other", input::ELSE => "else" }
    /// How a page fault ended.
    fault_kind(u8) { fault::MINOR => "minor", fault::MAJOR => "major", fault::NEITHER => "neither" }
    /// What an annotation says.
    mark_kind(u8) {
        mark::STATE => "state", mark::ENQUEUE => "enqueue", mark::DEQUEUE => "dequeue",
        mark::WAIT_EMPTY => "wait_empty", mark::WAIT_FULL => "wait_full", mark::BEGIN => "begin", mark::END => "end",
    }
    /// What bounds a host, a process or a flow.
    limit_kind(u8) {
        limit::PROCESSORS => "processors", limit::QUOTA => "quota", limit::AFFINITY => "affinity",
        limit::BACKLOG => "backlog", limit::BUFFERS => "buffers", limit::SYN_LINEAR => "syn_linear",
    }
    /// How well a link is known; none is empty.
    strength(u8) {
        strength::NONE => "", strength::SEEN => "seen", strength::SHOWN => "shown", strength::HABIT => "habit",
    }
    /// What runs logical tasks; none is empty.
    runtime(u8) {
        runtime::NONE => "", runtime::GO => "go", runtime::PYTHON => "python", runtime::JVM => "jvm",
        runtime::NODE => "node", runtime::TOKIO => "tokio",
    }
    /// Classes of tasks.
    task_class(u8) { 0 => "user", 1 => "kernel", 2 => "io_uring" }
    /// Resets; none is empty.
    reset(u8) { 0 => "", 1 => "received", 2 => "sent" }
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
