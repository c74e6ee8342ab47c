//! `wakepath sync`: how the hosts' clocks relate, with the bounds that messages set.

use crate::table::{Cell, Column, Table};
use crate::text::{Style, Tint, columns, sanitise, wrap};
use crate::units;
use serde::Serialize;
use std::fmt::Write as _;
use wakepath_clocks::sighting::Evidence;
use wakepath_clocks::{Outcome, PairReport, PieceReport, Unsynchronised};
use wakepath_model::clock::{Timeline, WallClock};
use wakepath_model::folder::{Folder, Host};

/// Schema of the JSON answer.
pub const SCHEMA: &str = "wakepath.sync/1";

/// The whole answer.
#[derive(Clone, Debug, Serialize)]
pub struct SyncView {
    /// Every host.
    pub hosts: Vec<HostView>,
    /// Hosts whose clocks were put on one line.
    pub groups: Vec<GroupView>,
    /// Every two hosts.
    pub pairs: Vec<PairView>,
    /// Messages found at both ends.
    pub messages: u64,
    /// Messages that the result puts before their sending.
    pub inversions: u64,
    /// All hosts are on one line.
    pub complete: bool,
    /// Entries held at most while matching, and for how long unmatched ones are kept.
    pub matching: MatchingView,
    /// Files that were written; empty for a trial.
    pub written: Vec<String>,
}

/// How the matching went.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct MatchingView {
    /// Entries of the coarse pass.
    pub coarse_entries_max: usize,
    /// Entries of the main pass.
    pub main_entries_max: usize,
    /// How long the main pass keeps what is not matched.
    pub window_ns: i64,
}

/// A host's clock.
#[derive(Clone, Debug, Serialize)]
pub struct HostView {
    /// Its name, told apart from others of the same name.
    pub host: String,
    /// Boot id.
    pub boot_id: String,
    /// Number of its group; none where it is in none.
    pub group: Option<usize>,
    /// Its clock is its group's line.
    pub reference: bool,
    /// The most by which its times may be off against the reference's.
    pub uncertainty_ns: Option<u64>,
    /// What its wall clock was ahead of the reference's at its first row; none where one has no anchor.
    pub wall_ahead_ns: Option<i64>,
}

/// A group.
#[derive(Clone, Debug, Serialize)]
pub struct GroupView {
    /// The host whose clock the line is.
    pub reference: String,
    /// All its hosts.
    pub hosts: Vec<String>,
    /// Pairs of hosts that hold it together most closely.
    pub tree: Vec<[String; 2]>,
    /// Linear pieces of each clock.
    pub pieces: usize,
}

/// A number with its bounds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct BoundedView<T> {
    /// As chosen.
    pub value: T,
    /// Least possible; none where nothing bounds it.
    pub min: Option<T>,
    /// Greatest possible.
    pub max: Option<T>,
}

/// A linear piece of two clocks.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PieceView {
    /// Begin, on the first host's clock.
    pub from_ns: u64,
    /// End.
    pub to_ns: u64,
    /// What the second clock is ahead at the begin.
    pub offset_begin_ns: BoundedView<i64>,
    /// The same at the end.
    pub offset_end_ns: BoundedView<i64>,
    /// What the second clock gains, and the two extreme slopes (parts per million).
    pub drift_ppm: BoundedView<f64>,
}

/// Messages by what they were recognised.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct EvidenceView {
    /// The same bytes of a TCP stream at both ends.
    pub socket_bytes: u64,
    /// The same datagram, by an identifier in it.
    pub datagrams: u64,
    /// The same packet, by its header.
    pub packets: u64,
    /// Packets whose bytes lie within one that was sent.
    pub packet_bytes: u64,
}

/// Two hosts.
#[derive(Clone, Debug, Serialize)]
pub struct PairView {
    /// The first.
    pub a: String,
    /// The second.
    pub b: String,
    /// Their times may be compared closely.
    pub synchronised: bool,
    /// Messages from the first to the second.
    pub messages_there: u64,
    /// Messages back.
    pub messages_back: u64,
    /// By what they were recognised.
    pub evidence: EvidenceView,
    /// Left out, since the same name came twice (retransmissions).
    pub ambiguous: u64,
    /// Left out, since no clock puts them in order with the others.
    pub rejected: u64,
    /// Least delay there, after synchronisation.
    pub delay_min_there_ns: Option<i64>,
    /// Least delay back.
    pub delay_min_back_ns: Option<i64>,
    /// Messages that the result puts before their sending.
    pub inversions: u64,
    /// The hosts by which the offset is known, both ends included.
    pub via: Vec<String>,
    /// In the spanning tree.
    pub in_tree: bool,
    /// The most by which the offset may be off, at any time that both were recorded.
    pub uncertainty_ns: Option<u64>,
    /// The same while messages go: from the first to the last one of every two hosts on the way `via`.
    pub uncertainty_amid_ns: Option<u64>,
    /// The pieces.
    pub pieces: Vec<PieceView>,
    /// Why it is not synchronised.
    pub why_not: Option<String>,
    /// What to do about that.
    pub remedy: Option<&'static str>,
}

fn names(hosts: &[Host]) -> Vec<String> {
    let is_twice = |name: &str| hosts.iter().filter(|h| h.info().hostname == name).count() > 1;
    let name = |h: &Host| {
        let info = h.info();
        if is_twice(&info.hostname) { info.folder_name() } else { info.hostname.clone() }
    };
    hosts.iter().map(name).collect()
}

/// The answer, of a folder and what came of its synchronisation.
pub fn collect(folder: &Folder, outcome: &Outcome, written: Vec<String>) -> SyncView {
    let hosts = folder.hosts();
    let names = names(hosts);
    let walls: Vec<WallClock> = hosts.iter().map(Host::wall_clock).collect();
    let line = Timeline::new(&walls, outcome.clock_groups());
    let group_of = |h: usize| outcome.groups.iter().position(|g| g.hosts.contains(&h));
    let host = |(h, host): (usize, &Host)| {
        let group = group_of(h);
        let reference = group.map(|g| outcome.groups[g].reference);
        let wall_ahead = || {
            let (reference, (first, _)) = (reference?, host.span()?);
            walls[reference].wall_ns(hosts[reference].span()?.0)?;
            walls[h].wall_ns(first)?.checked_sub(line.common(host.id(), first).0)
        };
        HostView {
            host: names[h].clone(),
            boot_id: host.info().boot_id.clone(),
            group,
            reference: reference == Some(h),
            uncertainty_ns: reference.and_then(|r| line.uncertainty_ns(hosts[r].id(), host.id())),
            wall_ahead_ns: wall_ahead(),
        }
    };
    SyncView {
        hosts: hosts.iter().enumerate().map(host).collect(),
        groups: outcome
            .groups
            .iter()
            .map(|g| GroupView {
                reference: names[g.reference].clone(),
                hosts: g.hosts.iter().map(|h| names[*h].clone()).collect(),
                tree: g.tree.iter().map(|t| [names[t.0].clone(), names[t.1].clone()]).collect(),
                pieces: g.pieces,
            })
            .collect(),
        pairs: outcome.pairs.iter().map(|p| pair(p, &names)).collect(),
        messages: outcome.messages,
        inversions: outcome.inversions,
        complete: hosts.len() < 2 || outcome.groups.first().is_some_and(|g| g.hosts.len() == hosts.len()),
        matching: MatchingView {
            coarse_entries_max: outcome.held_max.0,
            main_entries_max: outcome.held_max.1,
            window_ns: outcome.window_ns,
        },
        written,
    }
}

fn pair(p: &PairReport, names: &[String]) -> PairView {
    let by = |e: Evidence| p.counts.evidence[e.index()];
    let (why_not, remedy) = p.why_not.map(|w| reason(w, p, names)).unzip();
    PairView {
        a: names[p.a].clone(),
        b: names[p.b].clone(),
        synchronised: p.why_not.is_none(),
        messages_there: p.counts.messages[0],
        messages_back: p.counts.messages[1],
        evidence: EvidenceView {
            socket_bytes: by(Evidence::Bytes),
            datagrams: by(Evidence::Datagram),
            packets: by(Evidence::Packet),
            packet_bytes: by(Evidence::PacketBytes),
        },
        ambiguous: p.ambiguous,
        rejected: p.counts.rejected,
        delay_min_there_ns: p.counts.delay_min_ns[0],
        delay_min_back_ns: p.counts.delay_min_ns[1],
        inversions: p.counts.inversions,
        via: p.via.iter().map(|h| names[*h].clone()).collect(),
        in_tree: p.in_tree,
        uncertainty_ns: p.uncertainty_ns,
        uncertainty_amid_ns: p.uncertainty_amid_ns,
        pieces: p.pieces.iter().map(piece).collect(),
        why_not,
        remedy,
    }
}

fn piece(p: &PieceReport) -> PieceView {
    let offset = |(value, range): (i64, Option<(i64, i64)>)| BoundedView {
        value,
        min: range.map(|r| r.0),
        max: range.map(|r| r.1),
    };
    PieceView {
        from_ns: p.span.0.0,
        to_ns: p.span.1.0,
        offset_begin_ns: offset(p.begin_ns),
        offset_end_ns: offset(p.end_ns),
        drift_ppm: BoundedView {
            value: p.drift_ppm.value,
            min: p.drift_ppm.range.map(|r| r.0),
            max: p.drift_ppm.range.map(|r| r.1),
        },
    }
}

/// Why two hosts are not synchronised, and what to do.
fn reason(why: Unsynchronised, p: &PairReport, names: &[String]) -> (String, &'static str) {
    match why {
        Unsynchronised::NoMessages => (
            "no message that one of them sent was found at the other".into(),
            "Record both at the same time and with the processes that talk to each other, or let both talk to a third \
             host that is recorded too.",
        ),
        Unsynchronised::OneWay(from) => {
            let to = if from == p.a { p.b } else { p.a };
            (
                format!("messages from {} to {} were found, and none back", names[from], names[to]),
                "Messages in one direction bound a clock on one side only: record the answering host too.",
            )
        }
        Unsynchronised::Contradiction(by_ns) => (
            format!("no clock, in however many pieces, puts all messages in order: the best is off by {}", time(by_ns)),
            "A clock was set during the recording, or different messages look alike: synchronize a shorter recording.",
        ),
    }
}

fn time(ns: f64) -> String {
    units::duration(ns.abs().round() as u64)
}

/// How far off clocks may be: between the messages, and at the worst moment of the recordings where that is another.
fn within(worst_ns: u64, amid_ns: Option<u64>) -> String {
    let worst = units::duration(worst_ns);
    match amid_ns.map(units::duration).filter(|amid| *amid != worst) {
        Some(amid) => format!("within {amid} between their messages (within {worst} before and after them)"),
        None => format!("within {worst}"),
    }
}

/// A difference of clocks: seconds to the nanosecond.
fn offset(ns: i64) -> String {
    let sign = if ns < 0 { '-' } else { '+' };
    format!("{sign}{}.{:09} s", ns.unsigned_abs() / 1_000_000_000, ns.unsigned_abs() % 1_000_000_000)
}

/// Bounds, as distances from the value.
fn around(b: &BoundedView<i64>) -> String {
    match (b.min, b.max) {
        (Some(min), Some(max)) => {
            format!("-{} +{}", units::duration(b.value.abs_diff(min)), units::duration(b.value.abs_diff(max)))
        }
        _ => "not bounded".into(),
    }
}

impl SyncView {
    /// As text for the terminal.
    pub fn render(&self, style: Style) -> String {
        let mut out = String::new();
        if self.hosts.len() < 2 {
            let what = if self.hosts.is_empty() { "No host" } else { "One host, one clock" };
            let _ = writeln!(out, "{what}: nothing to synchronize.");
            return out;
        }
        self.head(&mut out, style);
        for p in &self.pairs {
            out.push('\n');
            self.pair(&mut out, p, style);
        }
        out.push('\n');
        match &self.written[..] {
            [] if self.groups.is_empty() => out.push_str("The wall clocks stay in use.\n"),
            [] => out.push_str("A trial: nothing was written.\n"),
            files => files.iter().for_each(|f| {
                let _ = writeln!(out, "Written: {}", sanitise(f));
            }),
        }
        out
    }

    fn head(&self, out: &mut String, style: Style) {
        let synchronised: usize = self.groups.iter().map(|g| g.hosts.len()).sum();
        let worst = self.pairs.iter().filter_map(|p| p.uncertainty_ns).max();
        let amid = self.pairs.iter().filter_map(|p| p.uncertainty_amid_ns).max();
        let inversions = units::counted(self.inversions, "inversion", "inversions");
        let line = format!(
            "{synchronised} of {} hosts synchronized{}{}: {} messages, {inversions}.",
            self.hosts.len(),
            if self.groups.len() > 1 { format!(" in {} groups", self.groups.len()) } else { String::new() },
            worst.map_or(String::new(), |w| format!(" {}", within(w, amid))),
            units::count(self.messages),
        );
        let tint = if self.inversions == 0 { Tint::Good } else { Tint::Bad };
        out.push_str(&wrap(&line, "", style.prose()).replacen(&inversions, &style.paint(&inversions, tint), 1));
        let mut table = Table::new(&[
            Column::text("HOST"),
            Column::text("LINE"),
            Column::number("ERROR BETWEEN MESSAGES"),
            Column::number("ERROR AT WORST"),
            Column::number("WALL CLOCK AHEAD"),
        ]);
        for h in &self.hosts {
            let line = match (h.group, h.reference) {
                (None, _) => "its wall clock".to_owned(),
                (Some(_), true) => "the reference".to_owned(),
                (Some(g), false) => format!("as {}", self.groups[g].reference),
            };
            let ahead = h.wall_ahead_ns.filter(|_| !h.reference);
            let bound = |ns: Option<u64>| ns.filter(|_| !h.reference).map_or("-".into(), units::duration);
            let reference = h.group.map(|g| &self.groups[g].reference);
            let is_of = |p: &&PairView| {
                (p.a == h.host && Some(&p.b) == reference) || (p.b == h.host && Some(&p.a) == reference)
            };
            let amid = self.pairs.iter().find(is_of).and_then(|p| p.uncertainty_amid_ns);
            table.row([
                Cell::from(&h.host),
                line.into(),
                bound(amid.or(h.uncertainty_ns)).into(),
                bound(h.uncertainty_ns).into(),
                ahead.map_or("-".to_owned(), |a| format!("{}{}", if a < 0 { "-" } else { "" }, time(a as f64))).into(),
            ]);
        }
        out.push_str(&table.render(style));
        for g in &self.groups {
            let tree: Vec<String> = g.tree.iter().map(|[a, b]| format!("{a} – {b}")).collect();
            let text = format!(
                "Spanning tree: {}; {} of each clock.",
                tree.join(", "),
                units::counted(g.pieces as u64, "linear piece", "linear pieces")
            );
            out.push_str(&wrap(&sanitise(&text), "", style.prose()));
        }
    }

    fn pair(&self, out: &mut String, p: &PairView, style: Style) {
        let title = format!("{} – {}", sanitise(&p.a), sanitise(&p.b));
        let how = match (&p.why_not, p.via.len()) {
            (Some(_), _) => "not synchronized".to_owned(),
            (None, 2) => format!("synchronized{}", if p.in_tree { ", in the tree" } else { "" }),
            (None, _) => format!("composed: {}", p.via.join(" – ")),
        };
        let within = p.uncertainty_ns.map_or(String::new(), |u| format!(", {}", within(u, p.uncertainty_amid_ns)));
        let line = format!("{title}: {}{within}", sanitise(&how));
        if columns(&line) <= style.prose() {
            out.push_str(&line.replacen(&title, &style.paint(&title, Tint::Strong), 1));
            out.push('\n');
        } else {
            out.push_str(&wrap(&line, "", style.prose()));
        }
        if p.messages_there + p.messages_back > 0 {
            let least = |d: Option<i64>| d.map_or(String::new(), |d| format!(" (least delay {d} ns)"));
            let by = [
                ("socket bytes", p.evidence.socket_bytes),
                ("datagrams", p.evidence.datagrams),
                ("packets", p.evidence.packets),
                ("bytes of packets", p.evidence.packet_bytes),
            ];
            let by: Vec<String> =
                by.iter().filter(|b| b.1 > 0).map(|b| format!("{} {}", b.0, units::count(b.1))).collect();
            let mut text = format!(
                "Messages: {} there{}, {} back{}; by {}; {}.",
                units::count(p.messages_there),
                least(p.delay_min_there_ns),
                units::count(p.messages_back),
                least(p.delay_min_back_ns),
                by.join(", "),
                units::counted(p.inversions, "inversion", "inversions"),
            );
            if p.ambiguous > 0 {
                let _ = write!(text, " {} left out: the same name came twice.", units::count(p.ambiguous));
            }
            if p.rejected > 0 {
                let _ = write!(
                    text,
                    " {} REJECTED: no clock puts them in order with the others; something else was taken for them, or a \
                     clock was set.",
                    units::count(p.rejected),
                );
            }
            out.push_str(&wrap(&text, "  ", style.prose()));
        }
        if let Some(why) = &p.why_not {
            let text = format!("{}. → {}", why, p.remedy.unwrap_or(""));
            out.push_str(&wrap(&sanitise(&text), "  ", style.prose()));
            return;
        }
        let mut table = Table::new(&[
            Column::number("OFFSET"),
            Column::text("AT THE START"),
            Column::text("AT THE END"),
            Column::number("DRIFT ppm"),
            Column::text("SLOPES"),
        ])
        .indented(2);
        for piece in &p.pieces {
            let d = &piece.drift_ppm;
            let slopes = d.min.zip(d.max).map_or("not bounded".to_owned(), |(l, h)| format!("{l:+.4} {h:+.4}"));
            table.row([
                Cell::from(offset(piece.offset_begin_ns.value)),
                around(&piece.offset_begin_ns).into(),
                around(&piece.offset_end_ns).into(),
                format!("{:+.4}", d.value).into(),
                slopes.into(),
            ]);
        }
        out.push_str(&table.render(style));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_hosts_has_both_bounds() {
        let host = |name: &str, uncertainty_ns| HostView {
            host: name.into(),
            boot_id: String::new(),
            group: Some(0),
            reference: uncertainty_ns == Some(0),
            uncertainty_ns,
            wall_ahead_ns: Some(0),
        };
        let none = EvidenceView { socket_bytes: 0, datagrams: 0, packets: 0, packet_bytes: 0 };
        let view = SyncView {
            hosts: vec![host("web", Some(0)), host("db", Some(27_800_000))],
            groups: vec![GroupView {
                reference: "web".into(),
                hosts: vec!["web".into(), "db".into()],
                tree: Vec::new(),
                pieces: 1,
            }],
            pairs: vec![PairView {
                a: "db".into(),
                b: "web".into(),
                synchronised: true,
                messages_there: 23,
                messages_back: 23,
                evidence: none,
                ambiguous: 0,
                rejected: 0,
                delay_min_there_ns: None,
                delay_min_back_ns: None,
                inversions: 0,
                via: vec!["db".into(), "web".into()],
                in_tree: true,
                uncertainty_ns: Some(27_800_000),
                uncertainty_amid_ns: Some(150_000),
                pieces: Vec::new(),
                why_not: None,
                remedy: None,
            }],
            messages: 46,
            inversions: 0,
            complete: true,
            matching: MatchingView { coarse_entries_max: 0, main_entries_max: 0, window_ns: 0 },
            written: Vec::new(),
        };
        let text = view.render(Style::default());
        let row: Vec<&str> = text.lines().find(|l| l.starts_with("db ")).expect("its row").split_whitespace().collect();
        assert_eq!(row[..7], ["db", "as", "web", "150", "µs", "27.8", "ms"], "{text}");
    }
}
