//! Which packets a mirror takes, how much of each, and the rules of a switch or an interface that say so.

use super::{MirrorId, ovs};
use crate::CaptureError;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::str::FromStr;

/// Ethernet, a VLAN tag, IPv4, and TCP with all its options.
const HEADERS_V4_BYTES: u32 = 14 + 4 + 20 + 60;
/// The same with IPv6.
const HEADERS_V6_BYTES: u32 = 14 + 4 + 40 + 60;
/// Shortest that Open vSwitch cuts to, and longest.
const CUT_BYTES: std::ops::RangeInclusive<u32> = 14..=65_535;

/// Most rules of one mirror.
const RULES_MAX: usize = 1024;

/// Packets of TCP services.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Addresses of the servers; none = any.
    pub addresses: Vec<Prefix>,
    /// Their ports; none = any.
    pub ports: Vec<u16>,
    /// By TCP's flags.
    pub flags: Flags,
}

/// Which packets by TCP's flags (SDN paper, section 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flags {
    /// All.
    #[default]
    Any,
    /// Those with PSH, which end a write: requests and the last packets of replies.
    Psh,
    /// Those with PSH or ACK. A match is an "and", so it takes two rules.
    PshOrAck,
}

/// An address, or those that begin alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// The address.
    pub address: IpAddr,
    /// How many of its bits count.
    pub bits: u8,
}

impl FromStr for Prefix {
    type Err = String;
    fn from_str(s: &str) -> Result<Prefix, String> {
        let (address, bits) = s.split_once('/').map_or((s, None), |(a, b)| (a, Some(b)));
        let address: IpAddr =
            address.parse().map_err(|_| format!("{s}: give an address, as 10.0.0.2 or 10.0.0.0/24"))?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse).map_err(|_| format!("{s}: no number of bits"))?;
        if bits == 0 || bits > most {
            return Err(format!("{s}: the number of bits is from 1 to {most}"));
        }
        Ok(Prefix { address, bits })
    }
}

/// How much of a packet is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// As much as headers may take, and this many bytes more.
    Headers(u32),
    /// This many bytes.
    Bytes(u32),
}

impl FromStr for Cut {
    type Err = String;
    fn from_str(s: &str) -> Result<Cut, String> {
        let number = |text: &str, before| {
            let n: Option<u32> = text.parse().ok();
            n.filter(|n| n.checked_add(before).is_some_and(|all| CUT_BYTES.contains(&all))).ok_or(())
        };
        let cut = match s.strip_prefix("headers") {
            Some("") => Ok(Cut::Headers(0)),
            Some(more) => more.strip_prefix('+').ok_or(()).and_then(|n| number(n, HEADERS_V6_BYTES)).map(Cut::Headers),
            None => number(s, 0).map(Cut::Bytes),
        };
        cut.map_err(|()| format!("{s}: give headers, headers+N, or a number of bytes from 14 on"))
    }
}

impl Cut {
    pub(super) fn bytes(self, is_v6: bool) -> u32 {
        match self {
            Cut::Headers(more) if is_v6 => HEADERS_V6_BYTES + more,
            Cut::Headers(more) => HEADERS_V4_BYTES + more,
            Cut::Bytes(n) => n,
        }
    }
}

/// Packets of one direction of a service.
pub(super) struct Rule {
    pub is_v6: bool,
    pub prefix: Option<Prefix>,
    pub port: Option<u16>,
    /// To the server, or from it.
    pub is_request: bool,
    /// TCP flags that are set, and those that are not.
    pub set: &'static [(&'static str, u8)],
    pub clear: &'static [(&'static str, u8)],
}

const PSH: (&str, u8) = ("psh", 0x08);
const ACK: (&str, u8) = ("ack", 0x10);

/// The rules that take what is selected.
pub(super) fn rules(selection: &Selection) -> Result<Vec<Rule>, CaptureError> {
    if selection.addresses.is_empty() && selection.ports.is_empty() {
        return Err(CaptureError::Setting("select by address, by port, or both".into()));
    }
    let flags: &[(&'static [_], &'static [_])] = match selection.flags {
        Flags::Any => &[(&[], &[])],
        Flags::Psh => &[(&[PSH], &[])],
        Flags::PshOrAck => &[(&[PSH], &[]), (&[ACK], &[PSH])],
    };
    let prefixes: Vec<(bool, Option<Prefix>)> = match selection.addresses.as_slice() {
        [] => vec![(false, None), (true, None)],
        some => some.iter().map(|p| (p.address.is_ipv6(), Some(*p))).collect(),
    };
    let ports: Vec<Option<u16>> = match selection.ports.as_slice() {
        [] => vec![None],
        some => some.iter().map(|p| Some(*p)).collect(),
    };
    let mut rules = Vec::new();
    for (is_v6, prefix) in prefixes {
        for port in &ports {
            for is_request in [true, false] {
                for (set, clear) in flags {
                    rules.push(Rule { is_v6, prefix, port: *port, is_request, set, clear });
                }
            }
        }
    }
    if rules.len() > RULES_MAX {
        return Err(CaptureError::Setting(format!(
            "that would take {} rules; give at most {RULES_MAX}: prefixes instead of addresses, or fewer ports",
            rules.len()
        )));
    }
    Ok(rules)
}

impl Rule {
    /// As ovs-ofctl reads it. The copy is sent first, then all goes on as it would have without the rule.
    pub fn flow(&self, id: MirrorId, priority: u16, output: &str, cut: Option<Cut>) -> String {
        let mut f = format!("cookie={:#x},priority={priority},", ovs::cookie(id));
        f.push_str(if self.is_v6 { "tcp6" } else { "tcp" });
        if let Some(p) = self.prefix {
            let side = if self.is_request { "dst" } else { "src" };
            let field = if self.is_v6 { "ipv6" } else { "nw" };
            let _ = write!(f, ",{field}_{side}={}/{}", p.address, p.bits);
        }
        if let Some(port) = self.port {
            let _ = write!(f, ",tp_{}={port}", if self.is_request { "dst" } else { "src" });
        }
        if !self.set.is_empty() {
            let set: String = self.set.iter().map(|(name, _)| format!("+{name}")).collect();
            let clear: String = self.clear.iter().map(|(name, _)| format!("-{name}")).collect();
            let _ = write!(f, ",tcp_flags={set}{clear}");
        }
        let _ = match cut {
            Some(cut) => {
                write!(f, ",actions=output(port=\"{output}\",max_len={}),NORMAL", cut.bytes(self.is_v6))
            }
            None => write!(f, ",actions=output:\"{output}\",NORMAL"),
        };
        f
    }

    /// As tc's u32 reads it: bytes from the IP header on. Packets with IP options and later fragments have their ports
    /// elsewhere and are left out where ports or flags are asked for.
    pub fn u32_matches(&self) -> Vec<String> {
        let (ip, tcp_at) = if self.is_v6 { ("ip6", 40) } else { ("ip", 20) };
        // next header, or protocol
        let mut m = vec![format!("u8 0x06 0xff at {}", if self.is_v6 { 6 } else { 9 })];
        if let Some(p) = self.prefix {
            m.push(format!("{ip} {} {}/{}", if self.is_request { "dst" } else { "src" }, p.address, p.bits));
        }
        if !self.is_v6 && (self.port.is_some() || !self.set.is_empty()) {
            m.push("u8 0x05 0x0f at 0".into());
            m.push("u16 0x0000 0x1fff at 6".into());
        }
        if let Some(port) = self.port {
            m.push(format!("u16 {port:#06x} 0xffff at {}", tcp_at + if self.is_request { 2 } else { 0 }));
        }
        if !self.set.is_empty() {
            let bits = |flags: &[(&str, u8)]| flags.iter().fold(0, |b, (_, bit)| b | bit);
            let (set, clear) = (bits(self.set), bits(self.clear));
            m.push(format!("u8 {set:#04x} {:#04x} at {}", set | clear, tcp_at + 13));
        }
        m
    }
}
