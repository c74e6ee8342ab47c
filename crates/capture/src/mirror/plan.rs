//! From a request to the commands that make it and those that undo it: nothing here looks at the host.

use super::{Command, MirrorId, Switch, ovs, tc};
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

/// What is copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Take {
    /// All of these ports.
    Ports(Vec<String>, Direction),
    /// What is selected, on the whole bridge.
    Flows(Selection),
}

/// Which way, as seen from the switch or interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// What comes in.
    In,
    /// What goes out.
    Out,
    /// Both.
    Both,
}

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

/// Where copies go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum To {
    /// A port of the bridge.
    Port(String),
    /// A host, through a tunnel that is made for it.
    Tunnel {
        /// Which.
        kind: TunnelKind,
        /// The host.
        remote: IpAddr,
        /// VXLAN's network identifier, or GRE's key.
        key: Option<u32>,
    },
}

/// How copies are sent to another host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunnelKind {
    /// VXLAN over UDP.
    Vxlan,
    /// GRE.
    Gre,
}

impl TunnelKind {
    /// Open vSwitch's name for it.
    pub fn name(self) -> &'static str {
        match self {
            TunnelKind::Vxlan => "vxlan",
            TunnelKind::Gre => "gre",
        }
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
    fn bytes(self, is_v6: bool) -> u32 {
        match self {
            Cut::Headers(more) if is_v6 => HEADERS_V6_BYTES + more,
            Cut::Headers(more) => HEADERS_V4_BYTES + more,
            Cut::Bytes(n) => n,
        }
    }
}

/// Commands, in order, each of which leaves only what is marked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Which mirror.
    pub id: MirrorId,
    /// What makes it.
    pub commands: Vec<Command>,
    /// What undoes it.
    pub undo: Vec<Command>,
    /// What it does to others, in sentences.
    pub notices: Vec<String>,
}

/// What was found out about a bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bridge {
    pub name: String,
    /// Priority of our flows: above the one that forwards.
    pub priority: u16,
}

/// A mirror on a bridge.
pub(super) fn on_bridge(
    switch: &Switch,
    id: MirrorId,
    bridge: &Bridge,
    take: &Take,
    to: &To,
    cut: Option<Cut>,
) -> Result<Plan, CaptureError> {
    let mut args: Vec<String> = Vec::new();
    let mut notices = Vec::new();
    let mut undo = Vec::new();
    let tunnel = ovs::port_name(id);
    let output = match to {
        To::Port(name) => name.as_str(),
        To::Tunnel { kind, remote, key } => {
            args.extend(["--", "add-port", &bridge.name, &tunnel].map(str::to_owned));
            args.extend(["--", "set", "Port", &tunnel].map(str::to_owned));
            args.push(ovs::mark(id));
            args.extend(["--", "set", "Interface", &tunnel].map(str::to_owned));
            args.push(format!("type={}", kind.name()));
            args.push(format!("options:remote_ip={}", ovs::value(&remote.to_string())));
            if let Some(key) = key {
                args.push(format!("options:key={key}"));
            }
            args.push(ovs::mark(id));
            tunnel.as_str()
        }
    };
    let mut selection = Vec::new();
    let mut references = Vec::new();
    if let Take::Ports(names, direction) = take {
        if names.is_empty() {
            return Err(CaptureError::Setting("name at least one port to mirror".into()));
        }
        for (i, name) in names.iter().enumerate() {
            references.extend(["--".into(), format!("--id=@p{i}"), "get".into(), "Port".into(), name.clone()]);
        }
        let all = (0..names.len()).map(|i| format!("@p{i}")).collect::<Vec<_>>().join(",");
        // what comes in from a port has it as its source
        if *direction != Direction::Out {
            selection.push(format!("select_src_port={all}"));
        }
        if *direction != Direction::In {
            selection.push(format!("select_dst_port={all}"));
        }
        if let Some(cut) = cut {
            selection.push(format!("snaplen={}", cut.bytes(true)));
        }
        if let To::Port(name) = to {
            notices.push(format!("as long as it is there, port {name} carries the mirror's packets and nothing else"));
        }
    }
    // a mirror that selects nothing keeps the bridge's own traffic out of a tunnel that flows send to
    let reserves = matches!(to, To::Tunnel { .. });
    if reserves || !selection.is_empty() {
        args.extend(references);
        args.extend(["--", "--id=@out", "get", "Port", output].map(str::to_owned));
        args.extend(["--", "--id=@m", "create", "Mirror"].map(str::to_owned));
        args.push(format!("name={}", ovs::mirror_name(id)));
        args.push(ovs::mark(id));
        args.extend(selection);
        args.push("output_port=@out".into());
        args.extend(["--", "add", "Bridge", &bridge.name, "mirrors", "@m"].map(str::to_owned));
    }
    let mut commands = Vec::new();
    if !args.is_empty() {
        commands.push(ovs::vsctl(switch, args));
    }
    if let Take::Flows(selection) = take {
        let mut flows = String::new();
        for rule in rules(selection)? {
            let _ = writeln!(flows, "{}", rule.flow(id, bridge.priority, output, cut));
        }
        let mut add = ovs::ofctl(switch, ["add-flows", &bridge.name, "-"]);
        add.input = flows;
        commands.push(add);
        undo.push(ovs::delete_flows(switch, &bridge.name, id));
    }
    if reserves || matches!(take, Take::Ports(..)) {
        let tunnel = reserves.then_some(tunnel.as_str());
        undo.push(ovs::delete_rows(switch, &[(&bridge.name, ovs::mirror_name(id))], tunnel.as_slice()));
    }
    Ok(Plan { id, commands, undo, notices })
}

/// A mirror on an interface. `has_qdisc`: filters can be attached already.
pub(super) fn on_interface(
    id: MirrorId,
    interface: &str,
    to: &str,
    direction: Direction,
    selection: Option<&Selection>,
    has_qdisc: bool,
) -> Result<Plan, CaptureError> {
    let mark = tc::mark(id, has_qdisc);
    let mut commands = vec![tc::add_mark(interface, &mark)];
    let mut undo = Vec::new();
    if !has_qdisc {
        commands.push(tc::add_qdisc(interface));
    }
    let hooks = match direction {
        Direction::In => &["ingress"][..],
        Direction::Out => &["egress"],
        Direction::Both => &["ingress", "egress"],
    };
    let rules = match selection {
        Some(selection) => rules(selection)?,
        None => Vec::new(),
    };
    for hook in hooks {
        let mut protocols = Vec::new();
        let mut add = |protocol, matches: &[String]| {
            commands.push(tc::add_filter(interface, hook, protocol, matches, to));
            if !protocols.contains(&protocol) {
                protocols.push(protocol);
            }
        };
        if rules.is_empty() {
            add("all", &["u32 0 0".into()]);
        }
        for rule in &rules {
            add(if rule.is_v6 { "ipv6" } else { "ip" }, &rule.u32_matches());
        }
        undo.extend(protocols.iter().map(|p| tc::delete_filters(interface, hook, p)));
    }
    if !has_qdisc {
        undo.push(tc::delete_qdisc(interface));
    }
    undo.push(tc::delete_mark(interface, &mark));
    Ok(Plan { id, commands, undo, notices: Vec::new() })
}

/// Packets of one direction of a service.
struct Rule {
    is_v6: bool,
    prefix: Option<Prefix>,
    port: Option<u16>,
    /// To the server, or from it.
    is_request: bool,
    /// TCP flags that are set, and those that are not.
    set: &'static [(&'static str, u8)],
    clear: &'static [(&'static str, u8)],
}

const PSH: (&str, u8) = ("psh", 0x08);
const ACK: (&str, u8) = ("ack", 0x10);

fn rules(selection: &Selection) -> Result<Vec<Rule>, CaptureError> {
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
    fn flow(&self, id: MirrorId, priority: u16, output: &str, cut: Option<Cut>) -> String {
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
    fn u32_matches(&self) -> Vec<String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    const ID: MirrorId = MirrorId(0x0bad_cafe);

    fn bridge() -> Bridge {
        Bridge { name: "br0".into(), priority: 30_561 }
    }

    fn printed(commands: &[Command]) -> Vec<String> {
        commands.iter().map(ToString::to_string).collect()
    }

    fn plan(take: Take, to: To, cut: Option<Cut>) -> Plan {
        let switch = Switch { db: None, run: Some("/run/ovs".into()) };
        on_bridge(&switch, ID, &bridge(), &take, &to, cut).expect("it can be")
    }

    fn web(flags: Flags) -> Selection {
        Selection { addresses: vec!["10.0.0.2".parse().expect("an address")], ports: vec![80], flags }
    }

    #[test]
    fn ports_are_one_transaction() {
        let ports = Take::Ports(vec!["web".into(), "db".into()], Direction::In);
        let plan = plan(ports, To::Port("an0".into()), Some(Cut::Headers(10)));
        let vsctl = "OVS_RUNDIR=/run/ovs ovs-vsctl --timeout=10";
        assert_eq!(
            printed(&plan.commands),
            [format!(
                "{vsctl} -- --id=@p0 get Port web -- --id=@p1 get Port db -- --id=@out get Port an0 \
                 -- --id=@m create Mirror name=wakepath-0badcafe external_ids:wakepath=0badcafe \
                 select_src_port=@p0,@p1 snaplen=128 output_port=@out -- add Bridge br0 mirrors @m"
            )]
        );
        assert_eq!(
            printed(&plan.undo),
            [format!("{vsctl} -- --id=@m0 get Mirror wakepath-0badcafe -- remove Bridge br0 mirrors @m0")]
        );
        assert!(plan.notices[0].contains("an0"));
    }

    #[test]
    fn flags_take_as_many_rules_as_openflow_needs() {
        let flows = |flags, cut| {
            let plan = plan(Take::Flows(web(flags)), To::Port("an0".into()), cut);
            assert_eq!(
                (plan.commands.len(), printed(&plan.undo)),
                (
                    1,
                    vec![
                        "OVS_RUNDIR=/run/ovs ovs-ofctl --timeout=10 del-flows br0 cookie=0x77616b650badcafe/-1"
                            .to_owned()
                    ]
                )
            );
            plan.commands[0].input.clone()
        };
        let head = "cookie=0x77616b650badcafe,priority=30561,tcp";
        assert_eq!(
            flows(Flags::Any, None),
            format!(
                "{head},nw_dst=10.0.0.2/32,tp_dst=80,actions=output:\"an0\",NORMAL\n\
                 {head},nw_src=10.0.0.2/32,tp_src=80,actions=output:\"an0\",NORMAL\n"
            )
        );
        let both = flows(Flags::PshOrAck, Some(Cut::Bytes(200)));
        assert_eq!(
            both.lines().collect::<Vec<_>>(),
            [
                format!(
                    "{head},nw_dst=10.0.0.2/32,tp_dst=80,tcp_flags=+psh,actions=output(port=\"an0\",max_len=200),NORMAL"
                ),
                format!(
                    "{head},nw_dst=10.0.0.2/32,tp_dst=80,tcp_flags=+ack-psh,actions=output(port=\"an0\",max_len=200),NORMAL"
                ),
                format!(
                    "{head},nw_src=10.0.0.2/32,tp_src=80,tcp_flags=+psh,actions=output(port=\"an0\",max_len=200),NORMAL"
                ),
                format!(
                    "{head},nw_src=10.0.0.2/32,tp_src=80,tcp_flags=+ack-psh,actions=output(port=\"an0\",max_len=200),NORMAL"
                ),
            ]
        );
        // without an address, both versions of IP; each is cut behind its own headers
        let ports = Selection { addresses: vec![], ports: vec![80], flags: Flags::Psh };
        let plan = plan(Take::Flows(ports), To::Port("an0".into()), Some(Cut::Headers(0)));
        let lines: Vec<&str> = plan.commands[0].input.lines().collect();
        assert_eq!(lines.len(), 4);
        assert!(lines[0].contains(",tcp,") && lines[0].contains("max_len=98)"), "{}", lines[0]);
        assert!(lines[3].contains(",tcp6,") && lines[3].contains("max_len=118)"), "{}", lines[3]);
    }

    #[test]
    fn a_tunnel_is_made_with_its_mirror_and_kept_out_of_the_bridge() {
        let remote = "2001:db8::2".parse().expect("an address");
        let to = To::Tunnel { kind: TunnelKind::Vxlan, remote, key: Some(7) };
        let made = |select: &str| {
            format!(
                "OVS_RUNDIR=/run/ovs ovs-vsctl --timeout=10 -- add-port br0 wkp0badcafe \
                 -- set Port wkp0badcafe external_ids:wakepath=0badcafe \
                 -- set Interface wkp0badcafe type=vxlan 'options:remote_ip=\"2001:db8::2\"' options:key=7 \
                 external_ids:wakepath=0badcafe{select}"
            )
        };
        let ports = plan(Take::Ports(vec!["web".into()], Direction::Both), to.clone(), None);
        assert_eq!(
            printed(&ports.commands),
            [made(
                " -- --id=@p0 get Port web -- --id=@out get Port wkp0badcafe -- --id=@m create Mirror \
                 name=wakepath-0badcafe external_ids:wakepath=0badcafe select_src_port=@p0 select_dst_port=@p0 \
                 output_port=@out -- add Bridge br0 mirrors @m"
            )]
        );
        let undo = "OVS_RUNDIR=/run/ovs ovs-vsctl --timeout=10 -- --id=@m0 get Mirror wakepath-0badcafe \
                    -- remove Bridge br0 mirrors @m0 -- --if-exists del-port wkp0badcafe";
        assert_eq!(printed(&ports.undo), [undo]);
        // for flows, a mirror that selects nothing reserves the port
        let flows = plan(Take::Flows(web(Flags::Psh)), to, None);
        assert_eq!(
            printed(&flows.commands[..1]),
            [made(
                " -- --id=@out get Port wkp0badcafe -- --id=@m create Mirror name=wakepath-0badcafe \
                 external_ids:wakepath=0badcafe output_port=@out -- add Bridge br0 mirrors @m"
            )]
        );
        assert!(flows.commands[1].input.contains("output:\"wkp0badcafe\",NORMAL"));
        assert_eq!(printed(&flows.undo)[1], undo);
    }

    #[test]
    fn an_interface_is_marked_first_and_unmarked_last() {
        let all = on_interface(ID, "eth1", "mon0", Direction::Both, None, false).expect("it can be");
        assert_eq!(
            printed(&all.commands),
            [
                "ip link property add dev eth1 altname wakepath-0badcafe-q",
                "tc qdisc add dev eth1 clsact",
                "tc filter add dev eth1 ingress pref 30561 protocol all u32 match u32 0 0 \
                 action mirred egress mirror dev mon0 continue",
                "tc filter add dev eth1 egress pref 30564 protocol all u32 match u32 0 0 \
                 action mirred egress mirror dev mon0 continue",
            ]
        );
        assert_eq!(
            printed(&all.undo),
            [
                "tc filter del dev eth1 ingress pref 30561",
                "tc filter del dev eth1 egress pref 30564",
                "tc qdisc del dev eth1 clsact",
                "ip link property del dev eth1 altname wakepath-0badcafe-q",
            ]
        );
        // another's qdisc stays
        let some =
            on_interface(ID, "eth1", "mon0", Direction::In, Some(&web(Flags::PshOrAck)), true).expect("it can be");
        let commands = printed(&some.commands);
        assert_eq!(
            (commands.len(), commands[0].as_str()),
            (5, "ip link property add dev eth1 altname wakepath-0badcafe")
        );
        assert_eq!(
            commands[2],
            "tc filter add dev eth1 ingress pref 30562 protocol ip u32 match u8 0x06 0xff at 9 match ip dst 10.0.0.2/32 \
             match u8 0x05 0x0f at 0 match u16 0x0000 0x1fff at 6 match u16 0x0050 0xffff at 22 match u8 0x10 0x18 at 33 \
             action mirred egress mirror dev mon0 continue"
        );
        assert_eq!(
            printed(&some.undo),
            ["tc filter del dev eth1 ingress pref 30562", "ip link property del dev eth1 altname wakepath-0badcafe"]
        );
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let none = Selection::default();
        assert!(rules(&none).is_err_and(|e| e.to_string().contains("by address")));
        let many = Selection { ports: (1..=1000).collect(), ..Selection::default() };
        assert!(rules(&many).is_err_and(|e| e.to_string().contains("4000 rules")));
        for wrong in ["", "x", "10.0.0.1/33", "10.0.0.1/0", "::1/129", "10.0.0.1/x"] {
            assert!(wrong.parse::<Prefix>().is_err(), "{wrong}");
        }
        for wrong in ["", "0", "13", "65536", "headers+", "headers-1", "headers+65535", "-1"] {
            assert!(wrong.parse::<Cut>().is_err(), "{wrong}");
        }
        assert_eq!("headers+256".parse(), Ok(Cut::Headers(256)));
        assert_eq!("14".parse(), Ok(Cut::Bytes(14)));
        assert_eq!("65535".parse(), Ok(Cut::Bytes(65_535)));
        assert_eq!(("0badcafe".parse(), "badcafe".parse::<MirrorId>().is_err()), (Ok(ID), true));
    }
}
