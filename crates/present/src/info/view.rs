//! What a folder holds, for people.

use super::{HostFacts, Info, Service};
use crate::losses;
use crate::table::{Cell, Column, Table};
use crate::text::{Style, Tint, sanitise, wrap};
use crate::units;
use wakepath_model::folder::{Kept, KeptPart, PartState};

/// Rows shown of a list; the JSON document has all.
const SHOWN_MAX: usize = 40;

/// Why an agent kept a folder, and which parts it has.
fn why_kept(kept: &Kept) -> String {
    let at = |ns: u64| units::wall(i64::try_from(ns).unwrap_or(i64::MAX));
    let part = |p: &KeptPart| {
        let agent = if p.agent.is_empty() { "this agent" } else { &p.agent };
        match p.state {
            PartState::Here => format!("{agent} {}", units::bytes(p.bytes)),
            PartState::Asked => format!("{agent} NOT HERE YET"),
            PartState::Empty => format!("{agent} recorded NOTHING then"),
            PartState::Late => format!("{agent} LATE ({})", p.why),
            PartState::Missing => format!("{agent} MISSING ({})", p.why),
        }
    };
    let parts: Vec<String> = kept.parts.iter().map(part).collect();
    format!(
        "kept from {} to {}: {}; parts: {}",
        at(kept.from_real_ns),
        at(kept.to_real_ns),
        kept.reason,
        parts.join(", ")
    )
}

/// The report.
pub fn render(info: &Info, style: Style) -> String {
    let mut out = String::new();
    for f in &info.folders {
        let derived = match f.derived.count {
            0 => String::new(),
            n => {
                let files = units::counted(n, "derived file", "derived files");
                format!("; {} more in {files}", units::bytes(f.derived.bytes))
            }
        };
        let text = format!(
            "{}: made {} by {}, format {}; {} in {}{derived}",
            f.path,
            units::wall(i64::try_from(f.created_real_ns).unwrap_or(i64::MAX)),
            if f.tool.is_empty() { "?" } else { &f.tool },
            f.format_version,
            units::bytes(f.segments.bytes),
            units::counted(f.segments.count, "segment", "segments"),
        );
        out.push_str(&wrap(&sanitise(&text), "", style.prose()));
        if let Some(kept) = &f.kept {
            out.push_str(&wrap(&sanitise(&why_kept(kept)), "  ", style.prose()));
        }
    }
    if info.hosts.is_empty() {
        out.push_str("\nNo host: nothing was recorded into it.\n");
        out.push_str("  → Record with `wakepath record -o DIR`, or copy the complete folder again.\n");
    }
    for h in &info.hosts {
        out.push('\n');
        host(&mut out, h, style);
    }
    out.push('\n');
    for text in &info.incomplete {
        out.push_str(&wrap(&format!("Not all counted: {}.", sanitise(text)), "", style.prose()));
    }
    if info.losses.is_empty() {
        let sure = if info.verified {
            "every byte was read and is intact"
        } else {
            "none recorded, none found in what was read (--verify reads every byte)"
        };
        let text = wrap(&format!("No losses: {sure}."), "", style.prose());
        out.push_str(&text.replacen("No losses", &style.paint("No losses", Tint::Good), 1));
    } else {
        out.push_str(&style.paint("Losses", Tint::Strong));
        out.push('\n');
        out.push_str(&losses::render(&info.losses, style));
    }
    out
}

fn host(out: &mut String, h: &HostFacts, style: Style) {
    let mut about: Vec<String> = Vec::new();
    if !h.kernel_release.is_empty() {
        about.push(format!("Linux {}", h.kernel_release));
    }
    if !h.arch.is_empty() {
        about.push(h.arch.clone());
    }
    if h.cpus > 0 {
        about.push(units::counted(h.cpus.into(), "processor", "processors"));
    }
    if !h.boot_id.is_empty() {
        about.push(format!("boot {}", h.boot_id.chars().take(8).collect::<String>()));
    }
    let line = format!("Host {}", h.name);
    out.push_str(&style.paint(&sanitise(&line), Tint::Strong));
    if !about.is_empty() {
        out.push_str(&format!(" ({})", sanitise(&about.join(", "))));
    }
    out.push('\n');
    let mut facts = Table::new(&[Column::text(""), Column::text("")]).indented(2);
    if let Some(s) = h.span {
        let when = match s.begin_wall_ns {
            Some(ns) => format!("{} for {}", units::wall(ns), units::duration(s.duration_ns)),
            None => format!("{} (wall-clock time not known)", units::duration(s.duration_ns)),
        };
        let but = match s.paused_ns {
            0 => String::new(),
            ns => format!(", but no recorder ran for {} of it", units::duration(ns)),
        };
        facts.row(["recorded".into(), format!("{when}{but}").into()]);
    }
    for (name, value) in [
        ("selection", h.selection.clone()),
        ("settings", h.flags.join(" ")),
        ("also selected", h.earlier_selections.join("; ")),
        ("agent", format!("wakepath {}, clock {}", h.agent_version, h.clock)),
        ("limits", h.limits.map(|l| l.line()).unwrap_or_default()),
        ("annotations", h.annotations.map(|a| a.line()).unwrap_or_default()),
        ("page faults", h.faults.map(|f| f.line()).unwrap_or_default()),
    ] {
        if !value.is_empty() {
            facts.row([name.into(), value.into()]);
        }
    }
    out.push_str(&facts.render(style));
    let Some(span) = h.span else {
        out.push_str("  No rows: the recording ended before anything was written.\n");
        out.push_str("  → Record again; `wakepath doctor` tries what recording needs.\n");
        return;
    };

    let mut rows = Table::new(&[Column::text("rows of"), Column::number("count"), Column::number("rate")]).indented(2);
    for t in h.tables.iter().filter(|t| t.rows > 0) {
        rows.row([t.table.into(), units::count(t.rows).into(), units::rate(t.rows, span.duration_ns).into()]);
    }
    out.push('\n');
    out.push_str(&rows.render(style));
    protocols(out, h, style);
    sniffed(out, h, style);
    services(out, &h.services, style);
}

fn protocols(out: &mut String, h: &HostFacts, style: Style) {
    if h.protocols.is_empty() {
        return;
    }
    let mut table = Table::new(&[
        Column::text("flows of"),
        Column::text("protocol"),
        Column::number("endpoints"),
        Column::number("messages"),
        Column::number("requests"),
        Column::number("failed"),
    ])
    .indented(2);
    let number = |n: u64| match n {
        0 => Cell::from("-"),
        n => units::count(n).into(),
    };
    for p in h.protocols.iter().take(SHOWN_MAX) {
        let protocol = match (&p.protocol, &p.reason) {
            (Some(id), _) => Cell::from(id.strip_prefix("proto.").unwrap_or(id)),
            (None, reason) => Cell::tinted(format!("opaque: {}", reason.as_deref().unwrap_or_default()), Tint::Dim),
        };
        table.row([
            p.transport.into(),
            protocol,
            units::count(p.endpoints).into(),
            number(p.messages),
            number(p.requests),
            match p.failed {
                0 => "-".into(),
                n => Cell::tinted(units::count(n), Tint::Bad),
            },
        ]);
    }
    out.push('\n');
    out.push_str(&table.render(style));
    more(out, h.protocols.len());
}

fn sniffed(out: &mut String, h: &HostFacts, style: Style) {
    if h.sniffed.is_empty() {
        return;
    }
    let mut table = Table::new(&[
        Column::text("sniffed"),
        Column::text("protocol"),
        Column::number("flows"),
        Column::number("packets"),
        Column::number("bytes"),
        Column::number("missing"),
        Column::number("exchanges"),
        Column::number("failed"),
        Column::number("unanswered"),
    ])
    .indented(2);
    let number = |n: u64, tint: Option<Tint>| match (n, tint) {
        (0, _) => Cell::from("-"),
        (n, Some(tint)) => Cell::tinted(units::count(n), tint),
        (n, None) => units::count(n).into(),
    };
    for f in h.sniffed.iter().take(SHOWN_MAX) {
        let protocol = match (&f.protocol, &f.reason) {
            (Some(id), _) => Cell::from(id.strip_prefix("proto.").unwrap_or(id)),
            (None, reason) => Cell::tinted(format!("opaque: {}", reason.as_deref().unwrap_or_default()), Tint::Dim),
        };
        table.row([
            f.transport.into(),
            protocol,
            number(f.flows, None),
            number(f.packets, None),
            units::bytes(f.wire_bytes).into(),
            if f.missing_bytes == 0 { "-".into() } else { Cell::tinted(units::bytes(f.missing_bytes), Tint::Bad) },
            number(f.exchanges, None),
            number(f.failed, Some(Tint::Bad)),
            number(f.unanswered, None),
        ]);
    }
    out.push('\n');
    out.push_str(&table.render(style));
    more(out, h.sniffed.len());
}

fn services(out: &mut String, services: &[Service], style: Style) {
    if services.is_empty() {
        return;
    }
    let several = services.iter().any(|s| s.netns != services[0].netns);
    let mut columns =
        vec![Column::text("service"), Column::text("listens on"), Column::number("sockets"), Column::text("runs in")];
    if several {
        columns.push(Column::number("netns"));
    }
    let mut table = Table::new(&columns).indented(2);
    for s in services.iter().take(SHOWN_MAX) {
        let place = match s.port {
            Some(port) if s.address.contains(':') => {
                format!("{} [{}]:{port}", s.transport, s.address)
            }
            Some(port) => format!("{} {}:{port}", s.transport, s.address),
            None if s.address.is_empty() => format!("{} (path not recorded)", s.transport),
            None => format!("{} {}", s.transport, s.address),
        };
        let mut cells: Vec<Cell> = vec![
            if s.command.is_empty() { "?" } else { &s.command }.into(),
            place.into(),
            units::count(s.listeners).into(),
            runs_in(s).into(),
        ];
        if several {
            cells.push(s.netns.to_string().into());
        }
        table.row(cells);
    }
    out.push('\n');
    out.push_str(&table.render(style));
    more(out, services.len());
}

/// What a service runs in, for people; its cgroup where nobody knows more.
fn runs_in(s: &Service) -> String {
    let r = &s.runs_in;
    let mut parts = Vec::new();
    if !r.pod.is_empty() {
        parts.push(format!("pod {}/{}", r.namespace, r.pod));
    } else if !r.pod_uid.is_empty() {
        parts.push(format!("pod {}", r.pod_uid));
    }
    let id: String = r.container.chars().take(12).collect();
    match (r.name.as_str(), id.as_str()) {
        ("", "") => {}
        ("", id) => parts.push(format!("container {id}")),
        (name, id) if name == id => parts.push(format!("container {name}")),
        (name, id) => parts.push(format!("container {name} ({id})")),
    }
    if !r.unit.is_empty() {
        parts.push(r.unit.clone());
    }
    if parts.is_empty() { s.cgroup.clone() } else { parts.join(", ") }
}

fn more(out: &mut String, all: usize) {
    if all > SHOWN_MAX {
        out.push_str(&format!("  … and {} more (--json has all)\n", all - SHOWN_MAX));
    }
}
