//! The screen of `top`.

use super::snapshot::{Kind, PARTS, Snapshot};
use super::state::{List, Shown, Top};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Table, TableState};
use std::borrow::Cow;
use wakepath_model::defects::Severity;
use wakepath_present::losses::Loss;
use wakepath_present::text::{sanitise, wrap};
use wakepath_present::units;

/// Below this height (lines) `why` gets three lines, else eight.
const TALL: u16 = 36;
/// Narrower than this (columns), sparklines have a quarter of the parts.
const WIDE: u16 = 120;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const KEYS: &str = "Enter show  w waits  y why  / filter  Tab other list  p pause  ? help  q quit";
const HELP: &str = "\
Up Down j k, PgUp PgDn, Home End    choose a line
Tab                                 the other list
Enter                               show the request; of a kind, its slowest one
w                                   what it waited for: its critical path
y                                   why the slow ones are slow; of the chosen kind, or of all
/                                   show lines with a text only; Esc shows all again
p                                   pause; press again to continue
?                                   this list
Esc                                 back
q, Ctrl-C                           quit

Age, and what a request waits for, are as of the moment at the top: until then was recorded.
Each bar is a sixtieth of the time (narrow terminals: a fifteenth), against the kind's highest.";

/// Draws the screen; without `colour`, what matters still says so in words.
pub fn draw(top: &Top, colour: bool, frame: &mut Frame<'_>) {
    let area = frame.area();
    match &top.shown {
        Shown::Lists => lists(top, colour, frame, area),
        Shown::Help => page("Keys", HELP.lines().map(Line::from).collect(), frame, area),
        Shown::Answer { command, lines, first } => {
            let lines = match lines {
                Some(lines) => lines.iter().skip(*first).map(|l| tinted(l)).collect(),
                None => vec![Line::from("Asking …")],
            };
            page(&format!("$ {command}"), lines, frame, area);
        }
    }
}

/// A page of text with its title, and how to leave it.
fn page(title: &str, lines: Vec<Line<'_>>, frame: &mut Frame<'_>, area: Rect) {
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(1)]).areas(area);
    frame.render_widget(bold(sanitise(title)), head);
    frame.render_widget(Paragraph::new(lines), body);
    frame.render_widget(dim("Up Down PgUp PgDn scroll  Esc back  q quit"), foot);
}

fn lists(top: &Top, colour: bool, frame: &mut Frame<'_>, area: Rect) {
    let why_lines = if area.height < TALL { 3 } else { 8 };
    let flights = top.flights().len().max(1) as u16;
    let rest = area.height.saturating_sub(7 + why_lines);
    let [head, losses, in_flight, kinds, why_head, why, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(2 + flights.min(rest / 2)),
        Constraint::Fill(1),
        Constraint::Length(1),
        Constraint::Length(why_lines),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(header(top), head);
    frame.render_widget(footer(top), foot);
    let Some(snapshot) = &top.snapshot else {
        let said = top.failed.as_deref().unwrap_or("Reading …");
        frame.render_widget(Paragraph::new(wrap(&sanitise(said), "", area.width.into())), kinds);
        return;
    };
    frame.render_widget(lost(&snapshot.losses, top.failed.as_deref(), colour), losses);
    draw_flights(top, snapshot, frame, in_flight);
    draw_kinds(top, snapshot, colour, frame, kinds);
    let title =
        if snapshot.is_part() { "Why the last minute is slower than before" } else { "Why the slowest are slow" };
    frame.render_widget(bold(title.into()), why_head);
    let text = match &snapshot.why {
        Ok(sentences) => sentences.iter().map(|s| wrap(&sanitise(s), "", area.width.into())).collect::<String>(),
        Err(reason) => wrap(&sanitise(&format!("Not known: {reason}")), "", area.width.into()),
    };
    frame.render_widget(Paragraph::new(text), why);
}

/// What is looked at, and as of when.
fn header(top: &Top) -> Line<'_> {
    let mut said = format!("wakepath top {}", sanitise(&top.dirs));
    if let Some(s) = &top.snapshot {
        let length = units::duration(s.span.1.saturating_sub(s.span.0).max(0) as u64);
        let sample = if s.is_sample { "sample of " } else { "" };
        said += &format!("  {sample}{length} until {}, read in {}", units::wall(s.span.1), took(s));
    }
    if top.paused {
        said += "  PAUSED";
    }
    Line::from(said).style(Style::new().add_modifier(Modifier::BOLD))
}

fn took(s: &Snapshot) -> String {
    units::duration(s.took.as_nanos() as u64)
}

fn footer(top: &Top) -> Line<'_> {
    match (&top.entry, top.filter.as_str()) {
        (Some(typed), _) => Line::from(format!("/{}_  Enter keeps it, Esc cancels it", sanitise(typed))),
        (None, "") => dim(KEYS),
        (None, filter) => Line::from(format!("/{} (Esc shows all)  {KEYS}", sanitise(filter))),
    }
}

/// What was lost, in one line.
fn lost<'l>(losses: &'l [Loss], failed: Option<&'l str>, colour: bool) -> Line<'l> {
    let bad = if colour { Style::new().fg(Color::Red) } else { Style::new() }.add_modifier(Modifier::BOLD);
    if let Some(why) = failed {
        return Line::from(format!("Not read again: {}", sanitise(why))).style(bad);
    }
    let heavy: Vec<String> = losses
        .iter()
        .filter(|l| l.severity != Severity::Info.name())
        .map(|l| format!("{} x {}", sanitise(&l.id), units::count(l.count)))
        .collect();
    match heavy.is_empty() {
        true => dim("No data lost that affects an answer."),
        false => Line::from(format!("LOST: {}; answers may be wrong (wakepath info says which)", heavy.join(", ")))
            .style(bad),
    }
}

fn draw_flights(top: &Top, snapshot: &Snapshot, frame: &mut Frame<'_>, area: Rect) {
    let flights = top.flights();
    let title = match &snapshot.flights {
        Ok(all) => format!("In flight: {}, oldest first", units::counted(all.len() as u64, "request", "requests")),
        Err(why) => format!("In flight: not known: {}", sanitise(why.lines().next().unwrap_or_default())),
    };
    let [head, body] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    frame.render_widget(bold(title.into()), head);
    let rows = flights.iter().map(|f| {
        Row::new([
            Cell::from(Line::from(units::duration(f.age_ns)).right_aligned()),
            Cell::from(f.request[..8].to_owned()),
            Cell::from(sanitise(&f.kind)),
            Cell::from(sanitise(&f.waits_for)),
        ])
    });
    let widths = [Constraint::Length(8), Constraint::Length(8), Constraint::Fill(2), Constraint::Fill(3)];
    let header = Row::new([right("age"), Cell::from("request"), Cell::from("what was asked"), Cell::from("waits for")]);
    let table = Table::new(rows, widths).header(header.style(faint()));
    render_table(table, top, List::InFlight, frame, body);
}

fn draw_kinds(top: &Top, snapshot: &Snapshot, colour: bool, frame: &mut Frame<'_>, area: Rect) {
    let kinds = top.kinds();
    let parts = if area.width < WIDE { PARTS / 4 } else { PARTS };
    let when = if snapshot.is_part() { "of the last minute" } else { "of the whole recording" };
    let title = format!("{} {when}", units::counted(snapshot.kinds.len() as u64, "kind", "kinds"));
    let [head, body] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    frame.render_widget(bold(title.into()), head);
    let errors = |k: &Kind| match k.errors() {
        0 if k.view.outcome_unknown + k.view.unreplied > 0 => right("?"),
        0 => right("-"),
        n if colour => right(&units::count(n)).style(Style::new().fg(Color::Red)),
        n => right(&units::count(n)),
    };
    let rate = |k: &Kind| k.view.rate();
    let rows = kinds.iter().map(|k| {
        Row::new([
            Cell::from(sanitise(&k.view.asked)),
            Cell::from(sanitise(&k.view.service)),
            right(&rate(k)),
            right(&units::duration(k.view.p50_ns)),
            right(&units::duration(k.view.p99_ns)),
            errors(k),
            Cell::from(bars(&k.begun, parts)),
        ])
    });
    let widths = [
        Constraint::Fill(3),
        Constraint::Fill(2),
        Constraint::Length(8),
        Constraint::Length(7),
        Constraint::Length(7),
        Constraint::Length(6),
        Constraint::Length(parts as u16),
    ];
    let header = Row::new([
        Cell::from("kind"),
        Cell::from("entry"),
        right("rate"),
        right("p50"),
        right("p99"),
        right("errors"),
        Cell::from("begun"),
    ]);
    let table = Table::new(rows, widths).header(header.style(faint()));
    render_table(table, top, List::Kinds, frame, body);
}

fn render_table(table: Table<'_>, top: &Top, list: List, frame: &mut Frame<'_>, area: Rect) {
    let chosen = (top.list == list).then(|| top.chosen(list));
    let table = table.row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    frame.render_stateful_widget(table, area, &mut TableState::new().with_selected(chosen));
}

/// Counts as bars, so many of them: nothing where nothing began.
fn bars(begun: &[u32; PARTS], parts: usize) -> String {
    let sums: Vec<u32> = begun.chunks(PARTS / parts.max(1)).map(|c| c.iter().sum()).collect();
    let most = sums.iter().copied().max().unwrap_or(0).max(1);
    let bar = |n: &u32| match n {
        0 => ' ',
        n => BARS[(*n as usize * BARS.len()).div_ceil(most as usize).clamp(1, BARS.len()) - 1],
    };
    sums.iter().map(bar).collect()
}

fn right(text: &str) -> Cell<'static> {
    Cell::from(Line::from(text.to_owned()).right_aligned())
}

fn bold(text: Cow<'_, str>) -> Line<'_> {
    Line::from(text).style(Style::new().add_modifier(Modifier::BOLD))
}

fn faint() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

fn dim(text: &str) -> Line<'_> {
    Line::from(text).style(faint())
}

/// A line with the colours that commands print.
fn tinted(line: &str) -> Line<'_> {
    let mut parts = line.split("\x1b[");
    let mut spans: Vec<Span<'_>> = vec![Span::raw(parts.next().unwrap_or_default())];
    for part in parts {
        let (code, text) = part.split_once('m').unwrap_or(("0", part));
        let style = match code {
            "1" => Style::new().add_modifier(Modifier::BOLD),
            "2" => faint(),
            "31" => Style::new().fg(Color::Red),
            "32" => Style::new().fg(Color::Green),
            "33" => Style::new().fg(Color::Yellow),
            _ => Style::new(),
        };
        spans.push(Span::styled(text, style));
    }
    Line::from(spans)
}
