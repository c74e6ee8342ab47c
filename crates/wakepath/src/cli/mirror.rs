//! Flags of `wakepath mirror`.

use clap::{Args, Subcommand, ValueEnum};
use std::net::IpAddr;
use std::path::PathBuf;
use wakepath_capture::mirror::{Cut, Direction, Flags, MirrorId, Prefix, TunnelKind};

/// Copy packets to where they can be captured: on Open vSwitch, or on an interface by tc.
///
/// Each mirror stays until you run `clean`. Everything that it creates is marked with the mirror's id, so `clean` removes
/// exactly that, also after a crash, and nothing else. If a mirror would change what happens to other packets, it is refused.
/// Setting up needs the rights of ovs-vsctl and tc (root).
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath mirror port --from web --to an0                    all that passes port web
  wakepath mirror selective --port 8080 --flags psh --to an0  requests and ends of replies
  wakepath mirror truncated --from web --to an0               headers only
  wakepath mirror tunnel --via vxlan --remote 10.9.0.2 --port 8080
                                                              to another host: sniff --listen vxlan
  wakepath mirror tc --from eth1 --to mon0                    without Open vSwitch
  wakepath mirror show --json | jq '.mirrors[].id'            what there is
  wakepath mirror clean                                       removes all of it")]
pub struct MirrorArgs {
    #[command(subcommand)]
    pub what: MirrorCommand,
}

#[derive(Subcommand, Debug)]
pub enum MirrorCommand {
    Port(PortArgs),
    Selective(SelectiveArgs),
    Truncated(TruncatedArgs),
    Tunnel(TunnelArgs),
    Tc(TcArgs),
    Show(ShowMirrorsArgs),
    Clean(CleanArgs),
}

/// All packets of ports of a bridge, to another port of it
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath mirror port --bridge br0 --from web --from db --to an0
  wakepath mirror port --from web --to an0 --direction in --dry-run")]
pub struct PortArgs {
    #[command(flatten)]
    pub ports: Ports,
    /// The port that gets the copies, and nothing else while the mirror exists
    #[arg(long, value_name = "PORT")]
    pub to: String,
    #[command(flatten)]
    pub switch: SwitchArgs,
}

/// Packets of TCP services by address, port and flags, by OpenFlow rules, to a port
///
/// Only on a bridge that forwards like a plain switch (one flow, NORMAL). If the bridge has its own flows or a controller, a rule
/// that copies would override them, and the mirror is refused.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath mirror selective --address 10.0.0.2 --port 8080 --flags psh --to an0
  wakepath mirror selective --port 8080 --port 3306 --truncate headers+256 --to an0
  wakepath mirror selective --port 8080 --flags psh-or-ack --to an0    for success rates")]
pub struct SelectiveArgs {
    #[command(flatten)]
    pub selection: SelectionArgs,
    /// The port that gets the copies
    #[arg(long, value_name = "PORT")]
    pub to: String,
    /// How much of each packet: headers, headers+N, or a number of bytes
    #[arg(long, value_name = "LENGTH")]
    pub truncate: Option<Cut>,
    #[command(flatten)]
    pub switch: SwitchArgs,
}

/// As `port`, but only the beginning of each packet
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath mirror truncated --from web --to an0                        headers
  wakepath mirror truncated --from web --to an0 --length headers+256   and what is asked for")]
pub struct TruncatedArgs {
    #[command(flatten)]
    pub ports: Ports,
    /// The port that gets the copies, and nothing else while the mirror exists
    #[arg(long, value_name = "PORT")]
    pub to: String,
    /// How much of each packet: headers, headers+N, or a number of bytes
    #[arg(long, value_name = "LENGTH", default_value = "headers")]
    pub length: Cut,
    #[command(flatten)]
    pub switch: SwitchArgs,
}

/// To another host: ports or selected packets, by VXLAN or GRE
///
/// Do not mirror the port through which the tunnel itself leaves: its packets would be mirrored too.
#[derive(Args, Debug)]
#[command(group(clap::ArgGroup::new("what").required(true).multiple(true).args(["from", "address", "port"])))]
#[command(after_help = "\
Examples:
  wakepath mirror tunnel --via vxlan --remote 10.9.0.2 --from web
  wakepath mirror tunnel --via gre --remote 10.9.0.2 --port 8080 --flags psh --truncate headers+256
On 10.9.0.2: wakepath sniff --listen any")]
pub struct TunnelArgs {
    /// How
    #[arg(long, value_enum, value_name = "KIND")]
    pub via: Via,
    /// The host that gets the copies
    #[arg(long, value_name = "ADDRESS")]
    pub remote: IpAddr,
    /// Network identifier of VXLAN, key of GRE
    #[arg(long, value_name = "N")]
    pub key: Option<u32>,
    /// All packets of this port (may be repeated)
    #[arg(long, value_name = "PORT", conflicts_with_all = ["address", "port", "flags"])]
    pub from: Vec<String>,
    /// With --from: the direction, as the switch sees it
    #[arg(long, value_enum, default_value = "both", requires = "from")]
    pub direction: Way,
    #[command(flatten)]
    pub selection: SelectionArgs,
    /// How much of each packet: headers, headers+N, or a number of bytes
    #[arg(long, value_name = "LENGTH")]
    pub truncate: Option<Cut>,
    #[command(flatten)]
    pub switch: SwitchArgs,
}

/// On an interface of this host, without Open vSwitch
///
/// The filters see packets without a VLAN tag and, if you give ports or flags, without IP options. A packet that two rules select
/// is copied twice.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath mirror tc --from eth1 --to mon0
  wakepath mirror tc --from eth1 --to mon0 --port 8080 --flags psh --dry-run")]
pub struct TcArgs {
    /// The interface whose packets are copied
    #[arg(long, value_name = "IF")]
    pub from: String,
    /// The interface that gets the copies
    #[arg(long, value_name = "IF")]
    pub to: String,
    /// Which way
    #[arg(long, value_enum, default_value = "both")]
    pub direction: Way,
    #[command(flatten)]
    pub selection: SelectionArgs,
    /// Print the commands and do nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// List the mirrors of all runs, and what they copied so far
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath mirror show
  wakepath mirror show --json | jq '.mirrors[] | {id, parts: .parts | length}'")]
pub struct ShowMirrorsArgs {
    #[command(flatten)]
    pub place: Place,
    /// Print one JSON document instead of text; its schema is in docs/schemas
    #[arg(long)]
    pub json: bool,
}

/// Remove mirrors: exactly what wakepath created, including the rest of a killed setup
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath mirror clean               all
  wakepath mirror clean 0badcafe      one, as `wakepath mirror show` names it
  wakepath mirror clean --dry-run     only print the commands")]
pub struct CleanArgs {
    /// Which; none = all
    #[arg(value_name = "ID")]
    pub ids: Vec<MirrorId>,
    #[command(flatten)]
    pub place: Place,
    /// Print the commands and do nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Ports of a bridge.
#[derive(Args, Debug)]
pub struct Ports {
    /// The port whose packets are copied (may be repeated)
    #[arg(long, value_name = "PORT", required = true)]
    pub from: Vec<String>,
    /// Direction, as the switch sees it
    #[arg(long, value_enum, default_value = "both")]
    pub direction: Way,
}

/// Packets of TCP services.
#[derive(Args, Debug)]
pub struct SelectionArgs {
    /// Address of a server, or a prefix (may be repeated)
    #[arg(long, value_name = "ADDRESS[/BITS]")]
    pub address: Vec<Prefix>,
    /// TCP port of a service (may be repeated)
    #[arg(long, value_name = "PORT")]
    pub port: Vec<u16>,
    /// Which of their packets
    #[arg(long, value_enum, value_name = "FLAGS")]
    pub flags: Option<FlagsFlag>,
}

/// A bridge of a switch.
#[derive(Args, Debug)]
pub struct SwitchArgs {
    /// The bridge; not needed if there is only one
    #[arg(long, value_name = "BRIDGE")]
    pub bridge: Option<String>,
    #[command(flatten)]
    pub place: Place,
    /// Print the commands and do nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Where a switch is found.
#[derive(Args, Debug)]
pub struct Place {
    /// Database of Open vSwitch, as ovs-vsctl takes it (unix:FILE, tcp:HOST:PORT)
    #[arg(long, value_name = "DB")]
    pub db: Option<String>,
    /// Folder of its sockets, if it is not the distribution's
    #[arg(long, value_name = "DIR")]
    pub ovs_run: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum, PartialEq, Eq)]
pub enum Way {
    /// What comes in
    In,
    /// What goes out
    Out,
    /// Both
    Both,
}

impl From<Way> for Direction {
    fn from(way: Way) -> Direction {
        match way {
            Way::In => Direction::In,
            Way::Out => Direction::Out,
            Way::Both => Direction::Both,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum, PartialEq, Eq)]
pub enum FlagsFlag {
    /// All
    Any,
    /// With PSH: ends of what was written at once, so requests and the ends of replies
    Psh,
    /// With PSH or ACK: two rules
    PshOrAck,
}

impl From<FlagsFlag> for Flags {
    fn from(flag: FlagsFlag) -> Flags {
        match flag {
            FlagsFlag::Any => Flags::Any,
            FlagsFlag::Psh => Flags::Psh,
            FlagsFlag::PshOrAck => Flags::PshOrAck,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum, PartialEq, Eq)]
pub enum Via {
    /// Over UDP port 4789
    Vxlan,
    /// IP protocol 47
    Gre,
}

impl From<Via> for TunnelKind {
    fn from(via: Via) -> TunnelKind {
        match via {
            Via::Vxlan => TunnelKind::Vxlan,
            Via::Gre => TunnelKind::Gre,
        }
    }
}
