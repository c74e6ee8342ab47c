//! From a request to the commands that make it and those that undo it: nothing here looks at the host.

use super::selection::{Cut, Selection, rules};
use super::{Command, MirrorId, Switch, ovs, tc};
use crate::CaptureError;
use std::fmt::Write as _;
use std::net::IpAddr;

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
    let (references, selection) = match take {
        Take::Ports(names, direction) => selected_ports(names, *direction, cut)?,
        Take::Flows(_) => Default::default(),
    };
    if let (Take::Ports(..), To::Port(name)) = (take, to) {
        notices.push(format!("until you remove the mirror, port {name} carries only its packets"));
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

/// Arguments that look these ports up, and columns of a mirror that takes what passes them.
fn selected_ports(
    names: &[String],
    direction: Direction,
    cut: Option<Cut>,
) -> Result<(Vec<String>, Vec<String>), CaptureError> {
    if names.is_empty() {
        return Err(CaptureError::Setting("name at least one port to mirror".into()));
    }
    let refer = |(i, name): (usize, &String)| {
        ["--".to_owned(), format!("--id=@p{i}"), "get".to_owned(), "Port".to_owned(), name.clone()]
    };
    let references = names.iter().enumerate().flat_map(refer).collect();
    let all = (0..names.len()).map(|i| format!("@p{i}")).collect::<Vec<_>>().join(",");
    let mut columns = Vec::new();
    // what comes in from a port has it as its source
    if direction != Direction::Out {
        columns.push(format!("select_src_port={all}"));
    }
    if direction != Direction::In {
        columns.push(format!("select_dst_port={all}"));
    }
    columns.extend(cut.map(|cut| format!("snaplen={}", cut.bytes(true))));
    Ok((references, columns))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mirror::{Flags, Prefix};

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
        // without an address, both versions of IP; each is cut after its own headers
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
