//! Open vSwitch: what is asked of ovs-vsctl and ovs-ofctl, and what they answer.

use super::command::Failed;
use super::plan::Bridge;
use super::{Command, Cut, Found, Looked, MirrorId, Part, Switch, Take, To};
use crate::CaptureError;
use serde_json::Value;

/// Upper half of our flows' cookies: "wake".
const COOKIE: u64 = 0x7761_6b65 << 32;
/// The half by which ours are known.
const COOKIE_MASK: u64 = 0xffff_ffff << 32;
/// Priority of our flows, where the bridge's own leaves room.
const PRIORITY: u16 = 0x7761;
/// The key of the mark in `external_ids`.
const MARK: &str = "wakepath";
/// Longest that the switch may take to answer, s.
const ANSWER_SECONDS: &str = "10";

/// Cookie of a mirror's flows.
pub fn cookie(id: MirrorId) -> u64 {
    COOKIE | u64::from(id.0)
}

/// Name of a mirror's row.
pub fn mirror_name(id: MirrorId) -> String {
    format!("wakepath-{id}")
}

/// Name of a tunnel's port, short enough for an interface.
pub fn port_name(id: MirrorId) -> String {
    format!("wkp{id}")
}

/// The mark of a row, as ovs-vsctl sets it.
pub fn mark(id: MirrorId) -> String {
    format!("external_ids:{MARK}={id}")
}

/// A string as ovs-vsctl reads it where it has colons.
pub fn value(text: &str) -> String {
    format!("\"{text}\"")
}

/// A transaction: all of it or nothing.
pub fn vsctl(switch: &Switch, args: impl IntoIterator<Item = impl Into<String>>) -> Command {
    let mut all = vec![format!("--timeout={ANSWER_SECONDS}")];
    all.extend(switch.db.iter().map(|db| format!("--db={db}")));
    all.extend(args.into_iter().map(Into::into));
    Command { environment: environment(switch), ..Command::new("ovs-vsctl", all) }
}

/// Something about a bridge's flows.
pub fn ofctl(switch: &Switch, args: impl IntoIterator<Item = impl Into<String>>) -> Command {
    let mut all = vec![format!("--timeout={ANSWER_SECONDS}")];
    all.extend(args.into_iter().map(Into::into));
    Command { environment: environment(switch), ..Command::new("ovs-ofctl", all) }
}

/// Has the switch look anew at flows that are in use. By itself it goes on with them as before for as long as packets come
/// when a mirror alone is made or removed (Open vSwitch 3.1).
pub fn look_anew(switch: &Switch) -> Result<(), String> {
    let args = [format!("--timeout={ANSWER_SECONDS}"), "--target=ovs-vswitchd".into(), "revalidator/purge".into()];
    let purge = Command { environment: environment(switch), ..Command::new("ovs-appctl", args) };
    purge.run().map(drop).map_err(|e| {
        format!(
            "connections that are in use follow only after a silence of 10 s, or `ovs-appctl revalidator/purge`: {e}"
        )
    })
}

fn environment(switch: &Switch) -> Vec<(&'static str, String)> {
    switch.run.iter().map(|run| ("OVS_RUNDIR", run.display().to_string())).collect()
}

/// Deletes a mirror's flows on a bridge, and no others.
pub fn delete_flows(switch: &Switch, bridge: &str, id: MirrorId) -> Command {
    ofctl(switch, ["del-flows".to_owned(), bridge.to_owned(), format!("cookie={:#x}/-1", cookie(id))])
}

/// Deletes mirrors, by bridge and name, and ports, in one transaction.
pub fn delete_rows(switch: &Switch, mirrors: &[(&str, String)], ports: &[&str]) -> Command {
    let mut args: Vec<String> = Vec::new();
    for (i, (bridge, name)) in mirrors.iter().enumerate() {
        args.extend(["--".into(), format!("--id=@m{i}"), "get".into(), "Mirror".into(), name.clone()]);
        args.extend(["--", "remove", "Bridge", bridge, "mirrors"].map(str::to_owned));
        args.push(format!("@m{i}"));
    }
    for port in ports {
        args.extend(["--", "--if-exists", "del-port", port].map(str::to_owned));
    }
    vsctl(switch, args)
}

fn failed(words: impl Into<String>) -> CaptureError {
    CaptureError::Mirror(words.into())
}

fn unreachable(words: &str) -> String {
    format!(
        "Open vSwitch does not answer: {words}. Is it running (systemctl status openvswitch-switch)? If its sockets are \
             elsewhere, give --ovs-run or --db"
    )
}

/// Which bridges there are.
pub fn look(switch: &Switch) -> Looked {
    match vsctl(switch, ["list-br"]).try_run() {
        Ok(bridges) => Looked::There(bridges.lines().map(str::to_owned).collect()),
        Err(Failed::Missing) => Looked::Missing,
        Err(Failed::Refused(words)) => Looked::Silent(words),
    }
}

/// Looks whether a mirror can be made on the bridge without changing what it does with packets.
pub fn check(
    switch: &Switch,
    bridge: Option<&str>,
    take: &Take,
    to: &To,
    cut: Option<Cut>,
) -> Result<Bridge, CaptureError> {
    let bridges = vsctl(switch, ["list-br"]).run().map_err(|e| failed(unreachable(&e)))?;
    let bridges: Vec<&str> = bridges.lines().collect();
    let name = match (bridge, bridges.as_slice()) {
        (Some(name), all) if all.contains(&name) => name,
        (None, [only]) => *only,
        (Some(name), all) => return Err(failed(format!("there is no bridge {name}; {}", there_are(all)))),
        (None, all) => return Err(failed(format!("say which --bridge: {}", there_are(all)))),
    };
    let ports = vsctl(switch, ["list-ports", name]).run().map_err(failed)?;
    let ports: Vec<&str> = ports.lines().collect();
    let (mut asked, mut priority) = (Vec::new(), PRIORITY);
    if matches!((take, to), (Take::Ports(..), To::Tunnel { .. })) && cut.is_some() {
        let kind = vsctl(switch, ["get", "Bridge", name, "datapath_type"]).run().map_err(failed)?;
        if kind.trim().trim_matches('"') == "netdev" {
            return Err(failed(format!(
                "bridge {name} is switched in user space, where Open vSwitch cuts what it mirrors into a tunnel after it has \
                 written the outer headers, whose lengths are then wrong, and the other host throws it away. Select packets \
                 instead of ports (--address, --port), which are cut before, or leave --truncate out"
            )));
        }
    }
    if let To::Port(to) = to {
        asked.push(to.as_str());
    }
    match take {
        Take::Ports(from, _) => {
            asked.extend(from.iter().map(String::as_str));
            if let To::Port(to) = to
                && from.contains(to)
            {
                return Err(failed(format!("port {to} cannot be mirrored to itself")));
            }
        }
        Take::Flows(_) => priority = check_flows(switch, name)?,
    }
    for port in asked {
        if !ports.contains(&port) {
            return Err(failed(format!("bridge {name} has no port {port}; it has {}", ports.join(", "))));
        }
        if port.contains(['"', ',', '@']) {
            return Err(failed(format!("port {port:?}: Open vSwitch does not accept a name with such characters")));
        }
    }
    Ok(Bridge { name: name.to_owned(), priority })
}

fn there_are(bridges: &[&str]) -> String {
    match bridges {
        [] => "this switch has none".into(),
        some => format!("there are {}", some.join(", ")),
    }
}

/// A flow that copies must also say what else becomes of the packet, and only `NORMAL` is known to be what becomes of it
/// without that flow. So the bridge's only other flow must be that, for all packets.
fn check_flows(switch: &Switch, bridge: &str) -> Result<u16, CaptureError> {
    const INSTEAD: &str = "Mirror ports instead (`wakepath mirror port` or `truncated`), which leaves flows alone, and select \
                           when capturing (--filter)";
    let controllers = vsctl(switch, ["get-controller", bridge]).run().map_err(failed)?;
    if let Some(controller) = controllers.lines().next() {
        return Err(failed(format!(
            "bridge {bridge} has a controller ({controller}), whose flows a selective mirror would overrule. {INSTEAD}"
        )));
    }
    let text = ofctl(switch, ["dump-flows", bridge]).run().map_err(|e| failed(unreachable(&e)))?;
    let flows: Vec<Flow<'_>> = text.lines().filter_map(Flow::parse).collect();
    if let Some(ours) = flows.iter().find_map(|f| f.id()) {
        return Err(failed(format!(
            "bridge {bridge} has a selective mirror already, {ours}, and where both select a packet only one would get it. \
             `wakepath mirror clean {ours}` first, and give all addresses and ports together"
        )));
    }
    match flows.as_slice() {
        [one] if one.is_plain_normal() && one.priority < u16::MAX => Ok(PRIORITY.max(one.priority + 1)),
        [] => Err(failed(format!(
            "bridge {bridge} has no flows, so it forwards nothing, and a selective mirror would make it forward. {INSTEAD}"
        ))),
        several => {
            let example = several.iter().find(|f| !f.is_plain_normal()).map_or(String::new(), |f| f.text());
            Err(failed(format!(
                "bridge {bridge} has its own flows ({example}), which a selective mirror would override. {INSTEAD}"
            )))
        }
    }
}

/// A line of `ovs-ofctl dump-flows`.
struct Flow<'a> {
    cookie: u64,
    table: u8,
    priority: u16,
    packets: u64,
    bytes: u64,
    /// What it matches, with commas.
    matches: String,
    actions: &'a str,
}

impl<'a> Flow<'a> {
    fn parse(line: &'a str) -> Option<Flow<'a>> {
        let (head, actions) = line.split_once("actions=")?;
        let mut flow =
            Flow { cookie: 0, table: 0, priority: 32_768, packets: 0, bytes: 0, matches: String::new(), actions };
        for word in head.split([',', ' ']).filter(|w| !w.is_empty()) {
            match word.split_once('=') {
                Some(("cookie", v)) => {
                    flow.cookie = u64::from_str_radix(v.trim_start_matches("0x"), 16).unwrap_or_default();
                }
                Some(("table", v)) => flow.table = v.parse().unwrap_or(u8::MAX),
                Some(("priority", v)) => flow.priority = v.parse().unwrap_or(u16::MAX),
                Some(("n_packets", v)) => flow.packets = v.parse().unwrap_or_default(),
                Some(("n_bytes", v)) => flow.bytes = v.parse().unwrap_or_default(),
                Some(("duration" | "idle_age" | "hard_age", _)) => {}
                _ => {
                    if !flow.matches.is_empty() {
                        flow.matches.push(',');
                    }
                    flow.matches.push_str(word);
                }
            }
        }
        Some(flow)
    }

    fn id(&self) -> Option<MirrorId> {
        (self.cookie & COOKIE_MASK == COOKIE).then_some(MirrorId(self.cookie as u32))
    }

    /// Forwards all packets as a switch does.
    fn is_plain_normal(&self) -> bool {
        self.table == 0 && self.matches.is_empty() && self.actions == "NORMAL"
    }

    fn text(&self) -> String {
        let table = if self.table > 0 { format!("table={},", self.table) } else { String::new() };
        let matches = if self.matches.is_empty() { "" } else { "," };
        format!("{table}priority={}{matches}{} actions={}", self.priority, self.matches, self.actions)
    }
}

/// A table of the database, as `--format=json` prints it.
struct Rows(Vec<serde_json::Map<String, Value>>);

impl Rows {
    fn parse(line: &str) -> Option<Rows> {
        let table: Value = serde_json::from_str(line).ok()?;
        let headings: Vec<&str> = table.get("headings")?.as_array()?.iter().filter_map(Value::as_str).collect();
        let rows = table.get("data")?.as_array()?.iter().filter_map(Value::as_array);
        let row = |cells: &Vec<Value>| headings.iter().map(|h| (*h).to_owned()).zip(cells.iter().cloned()).collect();
        Some(Rows(rows.map(row).collect()))
    }
}

/// A cell's members: of a set, of one value, or of none.
fn members(cell: Option<&Value>) -> Vec<&Value> {
    match cell {
        Some(Value::Array(a)) if a.first().and_then(Value::as_str) == Some("set") => {
            a.get(1).and_then(Value::as_array).map_or(Vec::new(), |m| m.iter().collect())
        }
        Some(one) => vec![one],
        None => Vec::new(),
    }
}

/// A UUID, as `["uuid", "…"]`.
fn uuid(cell: &Value) -> Option<&str> {
    cell.as_array().filter(|a| a.first().and_then(Value::as_str) == Some("uuid"))?.get(1)?.as_str()
}

/// A key's value in a map.
fn entry<'a>(cell: Option<&'a Value>, key: &str) -> Option<&'a Value> {
    let pairs = cell?.as_array().filter(|a| a.first().and_then(Value::as_str) == Some("map"))?.get(1)?.as_array()?;
    pairs.iter().filter_map(Value::as_array).find(|p| p.first().and_then(Value::as_str) == Some(key))?.get(1)
}

fn text<'a>(row: &'a serde_json::Map<String, Value>, column: &str) -> &'a str {
    row.get(column).and_then(Value::as_str).unwrap_or_default()
}

fn marked(row: &serde_json::Map<String, Value>) -> Option<MirrorId> {
    entry(row.get("external_ids"), MARK)?.as_str()?.parse().ok()
}

/// Adds what the switch has of ours.
pub fn find(switch: &Switch, found: &mut Found) -> Result<(), CaptureError> {
    const TABLES: [&str; 4] = ["Bridge", "Port", "Interface", "Mirror"];
    let mut args = vec!["--format=json".to_owned()];
    for table in TABLES {
        args.extend(["--", "list", table].map(str::to_owned));
    }
    let answer = match vsctl(switch, args).try_run() {
        Ok(answer) => answer,
        // a host without the switch has nothing of ours in it
        Err(Failed::Missing) => return Ok(()),
        Err(Failed::Refused(words)) => {
            found.notices.push(unreachable(&words));
            return Ok(());
        }
    };
    let tables: Vec<Rows> = answer.lines().filter_map(Rows::parse).collect();
    let [bridges, ports, interfaces, mirrors] = tables.as_slice() else {
        return Err(failed(
            "ovs-vsctl printed something that is not its tables; is it newer than this wakepath knows?",
        ));
    };
    let bridge_of = |column: &str, id: Option<&str>| {
        let has = |b: &&serde_json::Map<String, Value>| members(b.get(column)).into_iter().any(|m| uuid(m) == id);
        bridges.0.iter().find(has).map(|b| text(b, "name").to_owned())
    };
    let port_named = |id: &str| {
        let port = ports.0.iter().find(|p| p.get("_uuid").and_then(uuid) == Some(id));
        port.map_or_else(|| id.to_owned(), |p| text(p, "name").to_owned())
    };
    for row in &mirrors.0 {
        let Some(id) = marked(row).filter(|id| text(row, "name") == mirror_name(*id)) else { continue };
        let Some(on) = bridge_of("mirrors", row.get("_uuid").and_then(uuid)) else { continue };
        let mut words = Vec::new();
        for column in ["select_src_port", "select_dst_port", "output_port"] {
            let names: Vec<String> = members(row.get(column)).into_iter().filter_map(uuid).map(port_named).collect();
            if !names.is_empty() {
                words.push(format!("{column}={}", names.join(",")));
            }
        }
        if let [Value::Number(n)] = members(row.get("snaplen")).as_slice() {
            words.push(format!("snaplen={n}"));
        }
        let count = |key| entry(row.get("statistics"), key).and_then(Value::as_u64);
        let (packets, bytes) = (count("tx_packets"), count("tx_bytes"));
        found.parts.push(Part { id, kind: "mirror", on, text: words.join(" "), packets, bytes });
    }
    for row in &ports.0 {
        let Some(id) = marked(row).filter(|id| text(row, "name") == port_name(*id)) else { continue };
        let Some(on) = bridge_of("ports", row.get("_uuid").and_then(uuid)) else { continue };
        let name = text(row, "name");
        let mut words = vec![name.to_owned()];
        if let Some(interface) = interfaces.0.iter().find(|i| text(i, "name") == name) {
            words.push(format!("type={}", text(interface, "type")));
            for key in ["remote_ip", "key"] {
                words
                    .extend(entry(interface.get("options"), key).and_then(Value::as_str).map(|v| format!("{key}={v}")));
            }
        }
        found.parts.push(Part { id, kind: "port", on, text: words.join(" "), packets: None, bytes: None });
    }
    for bridge in &bridges.0 {
        let name = text(bridge, "name");
        let ours = format!("cookie={COOKIE:#x}/{COOKIE_MASK:#x}");
        match ofctl(switch, ["dump-flows", name, &ours]).run() {
            Ok(flows) => {
                for flow in flows.lines().filter_map(Flow::parse) {
                    let Some(id) = flow.id() else { continue };
                    let (packets, bytes) = (Some(flow.packets), Some(flow.bytes));
                    let (on, text) = (name.to_owned(), flow.text());
                    found.parts.push(Part { id, kind: "flow", on, text, packets, bytes });
                }
            }
            Err(e) => found.notices.push(format!("flows of bridge {name} were not looked at: {e}")),
        }
    }
    Ok(())
}

/// The commands that remove these parts: flows first, then all rows at once.
pub fn undo(switch: &Switch, parts: &[&Part]) -> Vec<Command> {
    let of = |kind: &str| parts.iter().filter(move |p| p.kind == kind).copied().collect::<Vec<&Part>>();
    let mut flows: Vec<(&str, MirrorId)> = of("flow").iter().map(|p| (p.on.as_str(), p.id)).collect();
    flows.sort_unstable();
    flows.dedup();
    let mut commands: Vec<Command> = flows.into_iter().map(|(bridge, id)| delete_flows(switch, bridge, id)).collect();
    let mirrors: Vec<(&str, String)> = of("mirror").iter().map(|p| (p.on.as_str(), mirror_name(p.id))).collect();
    let ports: Vec<String> = of("port").iter().map(|p| port_name(p.id)).collect();
    let ports: Vec<&str> = ports.iter().map(String::as_str).collect();
    if !mirrors.is_empty() || !ports.is_empty() {
        commands.push(delete_rows(switch, &mirrors, &ports));
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_read() {
        let plain =
            " cookie=0x0, duration=4.1s, table=0, n_packets=5, n_bytes=398, idle_age=1, priority=0 actions=NORMAL";
        let flow = Flow::parse(plain).expect("a flow");
        assert!(flow.is_plain_normal() && flow.id().is_none());
        assert_eq!((flow.packets, flow.bytes, flow.text().as_str()), (5, 398, "priority=0 actions=NORMAL"));

        let ours = " cookie=0x77616b650badcafe, duration=1s, table=0, n_packets=0, n_bytes=0, \
                    priority=30561,tcp,nw_dst=10.0.0.2,tp_dst=80 actions=output:3,NORMAL";
        let flow = Flow::parse(ours).expect("a flow");
        assert_eq!(flow.id(), Some(MirrorId(0x0bad_cafe)));
        assert_eq!(flow.text(), "priority=30561,tcp,nw_dst=10.0.0.2,tp_dst=80 actions=output:3,NORMAL");
        assert!(!flow.is_plain_normal());
        for other in [
            " cookie=0x0, table=1, priority=0 actions=NORMAL",
            " cookie=0x0, table=0, in_port=1 actions=NORMAL",
            " cookie=0x0, table=0, idle_timeout=60, priority=0 actions=NORMAL",
            " cookie=0x0, table=0, priority=0 actions=drop",
            " cookie=0x0, table=0, priority=0 actions=NORMAL,output:1",
        ] {
            assert!(Flow::parse(other).is_some_and(|f| !f.is_plain_normal()), "{other}");
        }
        assert!(Flow::parse("NXST_FLOW reply (xid=0x4):").is_none());
    }

    proptest::proptest! {
        #[test]
        fn no_answer_of_a_tool_makes_a_panic(text in r#"( ?[a-z_]{0,9}[=, ]?[0-9a-fx]{0,9}){0,6} ?(actions=.{0,9})?"#, any in ".{0,60}") {
            for line in [text, any] {
                if let Some(flow) = Flow::parse(&line) {
                    let _ = (flow.text(), flow.id(), flow.is_plain_normal());
                }
                for row in Rows::parse(&line).map_or(Vec::new(), |r| r.0) {
                    let _ = marked(&row);
                }
            }
        }
    }

    #[test]
    fn tables_are_read() {
        let line = r#"{"data":[[["uuid","u1"],["map",[["wakepath","0badcafe"]]],"m",["set",[]],["set",[["uuid","p1"],["uuid","p2"]]],["uuid","p3"],96]],"headings":["_uuid","external_ids","name","none","some","one","snaplen"]}"#;
        let rows = Rows::parse(line).expect("a table");
        let row = &rows.0[0];
        assert_eq!((marked(row), text(row, "name")), (Some(MirrorId(0x0bad_cafe)), "m"));
        let uuids = |c| members(row.get(c)).into_iter().filter_map(uuid).collect::<Vec<_>>();
        assert_eq!((uuids("none"), uuids("some"), uuids("one")), (vec![], vec!["p1", "p2"], vec!["p3"]));
        for wrong in ["", "[]", "{}", r#"{"data":1,"headings":[]}"#, r#"{"data":[[1]]}"#] {
            assert!(Rows::parse(wrong).is_none(), "{wrong}");
        }
    }
}
