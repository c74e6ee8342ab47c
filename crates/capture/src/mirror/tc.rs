//! The kernel's traffic control: filters that copy, on an interface whose second name says whose they are.
//!
//! Neither a qdisc nor a filter has room for a mark, so the interface gets an alternative name first (Linux 5.5), which says
//! which mirror it is and whether the qdisc is ours too; it goes last.

use super::{Command, Direction, Found, MirrorId, Part};
use crate::CaptureError;
use serde_json::Value;

/// Preferences of our filters. A preference has one protocol, and u32 shares its tables between the two hooks of a qdisc.
const PREFERENCES: [(&str, u16, &str); 6] = [
    ("ingress", 0x7761, "all"),
    ("ingress", 0x7762, "ip"),
    ("ingress", 0x7763, "ipv6"),
    ("egress", 0x7764, "all"),
    ("egress", 0x7765, "ip"),
    ("egress", 0x7766, "ipv6"),
];
/// Where filters are.
const HOOKS: [&str; 2] = ["ingress", "egress"];
/// The begin of our alternative names.
const MARK: &str = "wakepath-";
/// The end of one that says that the qdisc is ours.
const WITH_QDISC: &str = "-q";

/// The alternative name of an interface with a mirror.
pub fn mark(id: MirrorId, has_qdisc: bool) -> String {
    format!("{MARK}{id}{}", if has_qdisc { "" } else { WITH_QDISC })
}

/// Marks an interface.
pub fn add_mark(interface: &str, mark: &str) -> Command {
    Command::new("ip", ["link", "property", "add", "dev", interface, "altname", mark])
}

/// Takes the mark away.
pub fn delete_mark(interface: &str, mark: &str) -> Command {
    Command::new("ip", ["link", "property", "del", "dev", interface, "altname", mark])
}

/// Makes the place for filters.
pub fn add_qdisc(interface: &str) -> Command {
    Command::new("tc", ["qdisc", "add", "dev", interface, "clsact"])
}

/// Takes it away.
pub fn delete_qdisc(interface: &str) -> Command {
    Command::new("tc", ["qdisc", "del", "dev", interface, "clsact"])
}

/// Adds a filter that copies what has all of these matches, and lets the filters after it decide as they would have.
pub fn add_filter(interface: &str, hook: &str, protocol: &str, matches: &[String], to: &str) -> Command {
    let preference = preference(hook, protocol).to_string();
    let mut args: Vec<String> =
        ["filter", "add", "dev", interface, hook, "pref", &preference, "protocol", protocol, "u32"]
            .map(str::to_owned)
            .to_vec();
    for m in matches {
        args.push("match".into());
        args.extend(m.split(' ').map(str::to_owned));
    }
    args.extend(["action", "mirred", "egress", "mirror", "dev", to, "continue"].map(str::to_owned));
    Command::new("tc", args)
}

/// Deletes all filters of a hook and protocol.
pub fn delete_filters(interface: &str, hook: &str, protocol: &str) -> Command {
    let preference = preference(hook, protocol).to_string();
    Command::new("tc", ["filter", "del", "dev", interface, hook, "pref", &preference])
}

fn preference(hook: &str, protocol: &str) -> u16 {
    PREFERENCES.iter().find(|(h, _, p)| (*h, *p) == (hook, protocol)).map_or(0x7761, |(_, n, _)| *n)
}

fn failed(words: impl Into<String>) -> CaptureError {
    CaptureError::Mirror(words.into())
}

fn answer(command: &Command) -> Result<Vec<Value>, CaptureError> {
    let text = command.run().map_err(failed)?;
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    match serde_json::from_str(&text) {
        Ok(Value::Array(rows)) => Ok(rows),
        _ => Err(failed(format!("`{command}` printed something else than JSON; iproute2 5.4 or newer is needed"))),
    }
}

fn filters(interface: &str, hook: &str) -> Result<Vec<Value>, CaptureError> {
    answer(&Command::new("tc", ["-s", "-j", "filter", "show", "dev", interface, hook]))
}

fn qdisc_kind(interface: &str) -> Result<Option<String>, CaptureError> {
    let qdiscs = answer(&Command::new("tc", ["-j", "qdisc", "show", "dev", interface]))?;
    let kinds = qdiscs.iter().filter_map(|q| q.get("kind")?.as_str());
    Ok(kinds.filter(|k| ["clsact", "ingress"].contains(k)).map(str::to_owned).next())
}

fn preference_of(filter: &Value) -> Option<u64> {
    filter.get("pref")?.as_u64()
}

fn is_ours(filter: &Value) -> bool {
    preference_of(filter).is_some_and(|p| PREFERENCES.iter().any(|(_, ours, _)| u64::from(*ours) == p))
}

/// Looks whether a mirror can be made; whether the interface has a place for filters already.
pub fn check(interface: &str, to: &str, direction: Direction) -> Result<bool, CaptureError> {
    if interface == to {
        return Err(failed(format!("interface {to} cannot be mirrored to itself")));
    }
    for name in [interface, to] {
        let link = answer(&Command::new("ip", ["-j", "link", "show", "dev", name]))?;
        if let Some((id, _)) = link.iter().find_map(marks_of).filter(|_| name == interface) {
            return Err(failed(format!(
                "interface {name} has a mirror already, {id}. `wakepath mirror clean {id}` first, and give all addresses and \
                 ports together"
            )));
        }
    }
    let kind = qdisc_kind(interface)?;
    if kind.as_deref() == Some("ingress") && direction != Direction::In {
        return Err(failed(format!(
            "interface {interface} has an ingress qdisc of another, which has no place for what goes out. Mirror what comes in \
             (--direction in), or have it replaced by clsact"
        )));
    }
    if kind.is_some() {
        for hook in HOOKS {
            if filters(interface, hook)?.iter().any(is_ours) {
                return Err(failed(format!(
                    "interface {interface} has filters of another at the preferences that a mirror's have, 30561 to 30566 \
                     (`tc filter show dev {interface} {hook}`)"
                )));
            }
        }
    }
    Ok(kind.is_some())
}

/// The mirror of an interface, and whether the qdisc is its too.
fn marks_of(link: &Value) -> Option<(MirrorId, bool)> {
    let names = link.get("altnames")?.as_array()?.iter().filter_map(Value::as_str);
    names.filter_map(|n| n.strip_prefix(MARK)).find_map(|n| match n.strip_suffix(WITH_QDISC) {
        Some(id) => Some((id.parse().ok()?, true)),
        None => Some((n.parse().ok()?, false)),
    })
}

/// Adds what this network namespace has of ours.
pub fn find(found: &mut Found) -> Result<(), CaptureError> {
    let links = match answer(&Command::new("ip", ["-j", "link", "show"])) {
        Ok(links) => links,
        Err(e) => {
            found.notices.push(format!("interfaces were not looked at: {e}"));
            return Ok(());
        }
    };
    for link in &links {
        let Some((id, owns_qdisc)) = marks_of(link) else { continue };
        let Some(interface) = link.get("ifname").and_then(Value::as_str) else { continue };
        let mut part = |kind, text: String, packets, bytes| {
            found.parts.push(Part { id, kind, on: interface.to_owned(), text, packets, bytes });
        };
        part("mark", mark(id, !owns_qdisc), None, None);
        let kind = qdisc_kind(interface)?;
        if kind.is_none() {
            continue;
        }
        let mut foreign = 0;
        for hook in HOOKS {
            let filters = filters(interface, hook)?;
            foreign += filters.iter().filter(|f| !is_ours(f)).count();
            for (_, preference, protocol) in PREFERENCES.iter().filter(|(h, ..)| *h == hook) {
                let ours: Vec<&Value> =
                    filters.iter().filter(|f| preference_of(f) == Some((*preference).into())).collect();
                if ours.is_empty() {
                    continue;
                }
                let actions = || ours.iter().filter_map(|f| f.pointer("/options/actions/0"));
                let sum = |key: &str| actions().filter_map(|a| a.pointer(&format!("/stats/{key}"))?.as_u64()).sum();
                let to = actions().find_map(|a| a.get("to_dev")?.as_str()).unwrap_or("nowhere");
                let text = format!("{hook} {protocol} rules={} to={to}", actions().count());
                part("filter", text, Some(sum("packets")), Some(sum("bytes")));
            }
        }
        if owns_qdisc && kind.as_deref() == Some("clsact") && foreign == 0 {
            part("qdisc", "clsact".into(), None, None);
        }
    }
    Ok(())
}

/// The commands that remove these parts: filters, then the qdisc if nobody else has filters there, then the mark.
pub fn undo(parts: &[&Part]) -> Vec<Command> {
    let mut commands = Vec::new();
    for mark in parts.iter().filter(|p| p.kind == "mark") {
        for part in parts.iter().filter(|p| p.on == mark.on && p.kind == "filter") {
            let mut words = part.text.split(' ');
            if let (Some(hook), Some(protocol)) = (words.next(), words.next()) {
                commands.push(delete_filters(&part.on, hook, protocol));
            }
        }
        if parts.iter().any(|p| p.on == mark.on && p.kind == "qdisc") {
            commands.push(delete_qdisc(&mark.on));
        }
        commands.push(delete_mark(&mark.on, &mark.text));
    }
    commands
}
