//! What holds a system up, as text and as JSON.

mod path;
mod words;

pub use path::{LoopView, PathView, Scope, ShareView};
pub use words::{limit, number, place, work};

use crate::calibration::CalibrationView;
use crate::table::{Cell, Column, Table};
use crate::text::{Style, Tint, columns, sanitise, wrap};
use crate::units;
use serde::Serialize;
use std::fmt::Write as _;
use wakepath_forecast::bottleneck::{Found, Limit, Margin};
use wakepath_forecast::derived::Flow;
use wakepath_forecast::forecast::Coming;
use wakepath_forecast::jobs::Arrivals;
use wakepath_forecast::slack::Slack;
use wakepath_forecast::system::System;
use words::{beyond, is_bytes, is_spread, percent};

/// Most rows of a table in text.
const ROWS_MAX: usize = 12;
/// Most rows of slack in text.
const SLACK_MAX: usize = 5;
/// Most flows of annotations told of in text.
const FLOWS_MAX: usize = 5;
/// Gains below this are none.
const HARDLY: f64 = 1.01;
/// How requests come.
#[derive(Clone, Debug, Serialize)]
pub struct ArrivalsView {
    /// `closed`, `open`, or `recorded`: each state machine begins when it began.
    pub model: &'static str,
    /// It was not given, but follows from the recording.
    pub inferred: bool,
    /// Of a closed model: how many ask at a time.
    pub clients: Option<u32>,
    /// What it means, and what of the recording says so.
    pub why: Option<String>,
}

/// Something that was taken away in a replay.
#[derive(Clone, Debug, Serialize)]
pub struct TriedView {
    /// In words.
    pub what: String,
    /// Speedup without it: 2 is half the latency, or half the run.
    pub gain: f64,
}

/// The bottleneck.
#[derive(Clone, Debug, Serialize)]
pub struct BottleneckView {
    /// What limits, in words; several must be raised together. Empty where nothing that could be taken away gains anything.
    pub limits: Vec<String>,
    /// It is no limit but work, or a delay: what takes its time however much there is of everything.
    pub is_work: bool,
    /// Speedup without it: 2 is half the latency, or half the run.
    pub gain: f64,
    /// What there is of it, where that is a number and it is one thing.
    pub now: Option<f64>,
    /// That number is of bytes.
    pub is_bytes: bool,
    /// How much of it gives nine tenths of what can be gained; more no longer matters.
    pub enough: Option<f64>,
    /// Changes that forecast just that, as `--change` reads them.
    pub changes: Vec<String>,
    /// What was tried alone, the best first.
    pub tried: Vec<TriedView>,
    /// Its clients keep their connections to the processes that accepted them, so that it is not known what more of these gain.
    #[serde(skip)]
    pub keeps_clients: bool,
    /// What else it takes to have `enough`.
    #[serde(skip)]
    beyond: Option<String>,
}

/// How much longer something could take before anything that it comes together with waits for it.
#[derive(Clone, Debug, Serialize)]
pub struct SlackView {
    /// What is done before; null = nothing yet.
    pub from: Option<String>,
    /// Where it comes together with something else.
    pub to: String,
    /// How often.
    pub count: u64,
    /// The least (ns).
    pub least_ns: u64,
    /// The median (ns).
    pub median_ns: u64,
}

/// How far something can be improved, alone, until that no longer matters.
#[derive(Clone, Debug, Serialize)]
pub struct MarginView {
    /// What, in words.
    pub what: String,
    /// It is work or a delay, of which `enough` is a part.
    pub is_work: bool,
    /// Speedup without it: 2 is half the latency, or half the run.
    pub gain: f64,
    /// What there is of it, where that is a number.
    pub now: Option<f64>,
    /// That number is of bytes.
    pub is_bytes: bool,
    /// How much of it gives 90 % of the gain: a number where `now` is one, else a factor; null where nothing is gained,
    /// or
    /// finding out would take too long.
    pub enough: Option<f64>,
}

/// Machines of annotations that had a part in the same items.
#[derive(Clone, Debug, Serialize)]
pub struct FlowView {
    /// Their names with their keys, in order of their first marks.
    pub machines: Vec<String>,
    /// Items that came to the last of them.
    pub items: u64,
}

/// The answer to `wakepath bottleneck`.
#[derive(Clone, Debug, Serialize)]
pub struct BottlenecksView {
    /// Whether the model behaves as what was recorded.
    pub calibration: CalibrationView,
    /// How requests come.
    pub arrivals: ArrivalsView,
    /// The path.
    pub path: PathView,
    /// What limits.
    pub bottleneck: BottleneckView,
    /// How much faster everything could be until it no longer matters, what gains most first.
    pub margins: Vec<MarginView>,
    /// Slack by pair of places, the least first.
    pub slack: Vec<SlackView>,
    /// Of annotations, machines that had a part in the same items: what `--from` and `--to` tell apart.
    pub flows: Vec<FlowView>,
    /// Assumptions, a sentence each.
    pub assumptions: Vec<String>,
    /// Actors that wait forever in the replay.
    pub stuck: Vec<String>,
    /// Share of what was measured that losses may have touched.
    pub lossy: f64,
}

impl BottleneckView {
    /// What was found in a system.
    pub fn new(system: &System, found: &Found) -> BottleneckView {
        let one = if let [one] = found.limits[..] { Some(one) } else { None };
        let is_number = |l: &Limit| matches!(l, Limit::Servers(_) | Limit::Room(_));
        let doubled = |l: Limit| match l {
            Limit::Servers(_) | Limit::Room(_) => l.now(system) * 2.0,
            Limit::Bandwidth(_) => 2.0,
            Limit::Delay(_) | Limit::Work(_) => 0.5,
        };
        let amount = |l: Limit| found.enough.map_or_else(|| doubled(l), |enough| enough.then);
        BottleneckView {
            limits: found.limits.iter().map(|&l| limit(system, l)).collect(),
            is_work: matches!(found.limits[..], [Limit::Work(_) | Limit::Delay(_)]),
            gain: found.gain,
            now: one.filter(is_number).map(|l| l.now(system)),
            is_bytes: one.is_some_and(|l| is_bytes(system, l)),
            enough: found.enough.map(|e| e.then).filter(|_| found.limits.iter().all(|&l| is_spread(system, l))),
            changes: found.limits.iter().filter_map(|&l| l.change(system, amount(l))).map(|c| c.to_string()).collect(),
            tried: found.tried.iter().map(|&(l, gain)| TriedView { what: limit(system, l), gain }).collect(),
            keeps_clients: !found.limits.iter().all(|&l| is_spread(system, l)),
            beyond: one.zip(found.enough).and_then(|(l, enough)| beyond(system, l, enough.then)),
        }
    }

    /// In one or two sentences. `what` is better without it: `mean latency`, `the run`.
    pub fn sentence(&self, what: &str) -> String {
        let Some(first) = self.limits.first() else {
            return "Removing any single limit gains nothing: what remains are costs that no event shows.".into();
        };
        let mut text = match self.limits.get(1) {
            Some(second) => format!("{first} and {second}, together: more of one alone gains little"),
            None => first.clone(),
        };
        let without = if self.is_work { "If that took no time," } else { "Without that limit" };
        let _ = write!(text, ". {without} {what} would be {} times shorter.", number(self.gain));
        let is_whole = self.now.is_some();
        match self.enough {
            Some(enough) if is_whole => {
                let amount = |n: f64| if self.is_bytes { units::bytes(n as u64) } else { number(n) };
                let (now, enough) = (amount(self.now.unwrap_or(0.0)), amount(enough));
                let _ = write!(text, " Raising it from {now} to {enough} gives 90 % of the gain");
                text.push_str(&self.beyond.as_ref().map_or_else(|| ".".into(), |there| format!(" ({there}).")));
            }
            Some(enough) if enough < 1.0 => {
                let _ = write!(text, " Shortening it to {} of its length gives 90 % of the gain.", percent(enough));
            }
            Some(enough) => {
                let _ = write!(text, " {} times as much gives 90 % of the gain.", number(enough));
            }
            None if self.keeps_clients => {
                text += " More of them help only new connections: clients keep theirs, and each stays with the process that accepted it.";
            }
            None => {}
        }
        text
    }

    /// What to run to see it, after the changes that were made before.
    pub fn next<'a>(&'a self, folders: &str, before: impl Iterator<Item = &'a String>, style: Style) -> Option<String> {
        if self.changes.is_empty() {
            return None;
        }
        let changes: Vec<String> = before.chain(&self.changes).map(|c| format!("--change {}", shell(c))).collect();
        let line = format!("Next: wakepath forecast {folders} {}", changes.join(" "));
        // too long for a line, it is still one command
        let broken = || format!("Next: wakepath forecast {folders} \\\n        {}", changes.join(" \\\n        "));
        Some(if columns(&line) <= style.prose() { line } else { broken() })
    }
}

/// Lines with nothing in them that could do something to a terminal.
pub fn lines(text: &str) -> String {
    text.lines().map(sanitise).collect::<Vec<_>>().join("\n")
}

/// A text as one word of a shell.
pub fn shell(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

impl ArrivalsView {
    /// Of a model; `inferred` unless they were given. Takes the sentence about them out of what is taken for granted.
    pub fn new(coming: &Coming, inferred: bool, assumptions: &mut Vec<String>) -> ArrivalsView {
        let (model, clients) = match coming {
            Coming::Jobs(Arrivals::Closed { clients }) => ("closed", Some(*clients)),
            Coming::Jobs(Arrivals::Open) => ("open", None),
            Coming::Recorded => ("recorded", None),
        };
        let why = assumptions.iter().position(|a| a.starts_with("Arrivals are ")).map(|at| assumptions.remove(at));
        ArrivalsView { model, inferred, clients, why }
    }

    /// In a sentence: what it means, and how to say otherwise.
    pub fn sentence(&self) -> String {
        let means = match (&self.why, self.model, self.clients) {
            (Some(why), ..) => why.trim_end_matches('.').to_owned(),
            (None, "closed", Some(1)) => {
                "Arrivals are closed: 1 client, which sends its next request after a reply".into()
            }
            (None, "closed", n) => {
                let clients = units::count(n.unwrap_or(0).into());
                format!("Arrivals are closed: {clients} clients, each of which sends its next request after a reply")
            }
            (None, "open", _) => {
                "Arrivals are open: requests come at the recorded times, whatever happens to earlier ones".into()
            }
            _ => return "Arrivals are as recorded: each state machine begins when it began.".into(),
        };
        let other = if self.model == "open" { "closed" } else { "open" };
        let how =
            if self.inferred { format!("inferred; --arrivals {other} assumes the other") } else { "as given".into() };
        format!("{means} ({how}).")
    }
}

/// Sentences, one a line.
pub fn listed(out: &mut String, title: &str, sentences: &[String], style: Style) {
    if sentences.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{title}");
    for s in sentences {
        let lines = wrap(&sanitise(s), "    ", style.prose());
        let _ = write!(out, "  - {}", lines.trim_start());
    }
}

/// What a lost share means, if there is any.
pub fn lossy_sentence(lossy: f64) -> Option<String> {
    (lossy > 0.0).then(|| {
        format!(
            "Incomplete paths or lost data may affect {:.1} % of the measurements: the error bars are that much wider.",
            100.0 * lossy
        )
    })
}

impl SlackView {
    /// Of a system's slack.
    pub fn new(system: &System, s: &Slack) -> SlackView {
        SlackView {
            from: s.from.map(|at| place(system, at).1),
            to: place(system, s.to).1,
            count: s.count,
            least_ns: s.least_ns,
            median_ns: s.median_ns,
        }
    }
}

impl MarginView {
    /// Of what a search told.
    pub fn new(system: &System, m: &Margin) -> MarginView {
        let is_number = matches!(m.limit, Limit::Servers(_) | Limit::Room(_));
        MarginView {
            what: limit(system, m.limit),
            is_work: matches!(m.limit, Limit::Work(_) | Limit::Delay(_)),
            gain: m.gain,
            now: is_number.then(|| m.limit.now(system)),
            is_bytes: is_bytes(system, m.limit),
            enough: m.enough.map(|e| e.then).filter(|_| is_spread(system, m.limit)),
        }
    }

    /// From where on more no longer matters.
    fn until(&self) -> String {
        match self.enough {
            None if self.gain < HARDLY => "little to gain".into(),
            None => "-".into(),
            Some(enough) if self.is_bytes => units::bytes(enough as u64),
            Some(enough) if self.now.is_some() => number(enough),
            Some(enough) if self.is_work => format!("{} of its length", percent(enough)),
            Some(enough) => format!("{} times as much", number(enough)),
        }
    }
}

impl FlowView {
    /// Of a derivation's.
    pub fn new(f: &Flow) -> FlowView {
        FlowView { machines: f.machines.clone(), items: f.items }
    }

    /// What to type to see it alone: machines that have no part in any of the others.
    fn ends(&self, others: &[FlowView]) -> Option<String> {
        let is_own = |m: &&String| !others.iter().any(|o| o.machines.contains(m));
        let mut own = self.machines.iter().filter(is_own);
        let first = own.next()?;
        Some(format!("--from {} --to {}", word(first), word(own.next_back().unwrap_or(first))))
    }
}

/// A text as a shell reads it, in quotes where it needs them.
fn word(text: &str) -> String {
    let is_plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._-+:@".contains(&b));
    if is_plain { text.to_owned() } else { shell(text) }
}

impl BottlenecksView {
    /// As text for a terminal. `folders` as they were given.
    pub fn render(&self, folders: &str, style: Style) -> String {
        let mut out = String::new();
        self.calibration.render(&mut out, style);
        out.push_str(&wrap(&self.arrivals.sentence(), "", style.prose()));
        out.push('\n');
        let what = if self.arrivals.model == "recorded" { "the run" } else { "mean latency" };
        let sentence = format!("The bottleneck: {}", self.bottleneck.sentence(what));
        for line in wrap(&sanitise(&sentence), "", style.prose()).lines() {
            let _ = writeln!(out, "{}", style.paint(line, Tint::Strong));
        }
        out.push('\n');
        self.path.render(&mut out, style);
        self.margins(&mut out, style);
        // of requests that any worker may take, that says little
        if self.arrivals.model == "recorded" {
            self.slack(&mut out, style);
        }
        self.flows(&mut out, folders, style);
        let mut notes = self.assumptions.clone();
        notes.extend(lossy_sentence(self.lossy));
        listed(&mut out, "Assumptions:", &notes, style);
        listed(
            &mut out,
            "In the replay these wait forever, because what they wait for was not recorded:",
            &self.stuck,
            style,
        );
        if let Some(next) = self.bottleneck.next(folders, std::iter::empty(), style) {
            let _ = writeln!(out, "\n{}", lines(&next));
        }
        out
    }

    fn slack(&self, out: &mut String, style: Style) {
        // what never waits for anything else has none to speak of
        let mut rows: Vec<&SlackView> = self.slack.iter().filter(|s| s.median_ns > 0).collect();
        if rows.is_empty() {
            return;
        }
        rows.sort_by_key(|s| s.median_ns);
        let mut t = Table::new(&[
            Column::text("slack: this could take longer"),
            Column::text("before this waits for it"),
            Column::number("by (median)"),
            Column::number("times"),
        ])
        .indented(2);
        for s in rows.iter().take(SLACK_MAX) {
            t.row([
                Cell::from(s.from.as_deref().unwrap_or("(nothing before)")),
                Cell::from(&s.to),
                Cell::from(units::duration(s.median_ns)),
                Cell::from(units::count(s.count)),
            ]);
        }
        out.push('\n');
        out.push_str(&t.render(style));
    }

    fn margins(&self, out: &mut String, style: Style) {
        if self.margins.is_empty() {
            return;
        }
        let mut t = Table::new(&[
            Column::text("improved alone"),
            Column::number("speedup if removed"),
            Column::text("90 % of the gain at"),
        ])
        .indented(2);
        for m in self.margins.iter().take(ROWS_MAX) {
            t.row([Cell::from(&m.what), Cell::from(format!("{:.2}", m.gain)), Cell::from(m.until())]);
        }
        out.push('\n');
        out.push_str(&t.render(style));
    }

    /// Who belongs together, where machines tell more than one flow.
    fn flows(&self, out: &mut String, folders: &str, style: Style) {
        let Some((first, others)) = self.flows.split_first().filter(|(_, others)| !others.is_empty()) else { return };
        let _ = writeln!(out, "\nMachines that handled the same items:");
        for f in self.flows.iter().take(FLOWS_MAX) {
            let line = format!("{} ({} items)", f.machines.join(", "), units::count(f.items));
            let lines = wrap(&sanitise(&line), "    ", style.prose());
            let _ = write!(out, "  - {}", lines.trim_start());
        }
        if self.flows.len() > FLOWS_MAX {
            let _ = writeln!(out, "  {} more; --json has them.", self.flows.len() - FLOWS_MAX);
        }
        if let Some(ends) = first.ends(others) {
            let _ = writeln!(out, "{}", sanitise(&format!("The first alone: wakepath bottleneck {folders} {ends}")));
        }
    }
}
