//! Comparisons as text for a terminal.

use super::*;
use wakepath_analysis::reasons;

/// Digits of a request's id in a table; `wakepath waits` takes first digits.
pub(super) const DIGITS: usize = 8;

pub(super) fn short(example: &str) -> &str {
    if example.len() == 16 && example.bytes().all(|b| b.is_ascii_hexdigit()) { &example[..DIGITS] } else { example }
}

/// How much more, or less where all is less: `12 ms`, `−3 ms` against the direction.
pub(super) fn relative(ns: i64, whole: i64) -> String {
    let is_against = (ns < 0) != (whole < 0) && ns != 0;
    format!("{}{}", if is_against { "−" } else { "" }, units::duration(ns.unsigned_abs()))
}

pub(super) fn percent(share: f64) -> String {
    let text = format!("{:.0} %", share * 100.0);
    if text == "-0 %" { "0 %".into() } else { text.replace('-', "−") }
}

/// What a difference consists of, where its own row does not say it, with the signs of rows of a difference `whole`. Where what is told
/// is more than the row, what went the other way is told with it.
pub(super) fn sub_rows(d: &DifferenceView, whole: i64) -> Vec<String> {
    const LEAST: f64 = 0.15;
    let mut rows: Vec<(i64, String)> = Vec::new();
    for p in &d.parts {
        let mut text = match (&p.meanwhile, d.cause) {
            (Some(who), _) if p.reason == Some(reasons::HOLDERS_CLIENT) => {
                format!("meanwhile {who} held it and waited for its client to send (idle in a transaction)")
            }
            (Some(who), _) => format!("meanwhile {who} {}", doing(p.state)),
            (None, "lock") => continue,
            _ => String::new(),
        };
        if p.by != d.main.by || d.cause == "preempted" {
            let by = p.by.as_deref().unwrap_or("an unknown task");
            text = if text.is_empty() { format!("by {by}") } else { format!("{text}, by {by}") };
        }
        if p.object != d.main.object
            && let Some(object) = &p.object
        {
            let _ = write!(text, "{}{object}", if text.is_empty() { "" } else { ", " });
        }
        if p.serving != d.main.serving
            && let Some(asked) = &p.serving
        {
            let _ = write!(text, "{}for {asked}", if text.is_empty() { "" } else { ", " });
        }
        if text.is_empty() && p.syscall != d.main.syscall {
            text = p.syscall.as_ref().map_or_else(|| "in no system call".into(), |call| format!("in {call}"));
        }
        match rows.iter_mut().find(|r| r.1 == text) {
            _ if text.is_empty() => {}
            Some(row) => row.0 += p.more_ns,
            None => rows.push((p.more_ns, text)),
        }
    }
    rows.retain(|r| r.0 as f64 / d.more_ns as f64 >= LEAST);
    // one row that says what stands above it already says nothing
    if rows.len() == 1 && d.cause == "preempted" {
        rows.clear();
    }
    let rest = d.more_ns - rows.iter().map(|r| r.0).sum::<i64>();
    if !rows.is_empty() && rest != 0 && (rest < 0) != (d.more_ns < 0) {
        let word = if rest < 0 { "less" } else { "more" };
        rows.push((rest, format!("the rest, which took {word}")));
    }
    rows.into_iter().map(|(ns, text)| format!("  {} {text}", relative(ns, whole))).collect()
}

/// What somebody did, by the name of the state.
pub(super) fn doing(state: &str) -> String {
    match state {
        "running" => "ran".into(),
        "preempted" => "was ready and had no processor".into(),
        "timer" => "slept".into(),
        "unknown" => "did something unknown".into(),
        other => format!("waited ({other})"),
    }
}

pub(super) fn notes(k: &KindView) -> Vec<String> {
    let mut out = Vec::new();
    for g in [&k.slow, &k.typical] {
        if g.is_sample {
            let (count, found) = (units::count(g.count), units::count(g.found));
            out.push(format!("Of {}, {count} of {found} were examined, sampled evenly.", g.label));
        }
        let mut left: Vec<String> = Vec::new();
        if g.incomplete > 0 {
            left.push(format!("{} with an incomplete path", units::count(g.incomplete)));
        }
        if g.unanswered > 0 {
            left.push(format!("{} without a complete reply", units::count(g.unanswered)));
        }
        if !left.is_empty() {
            out.push(format!("Left out of {}: {}.", g.label, left.join(", ")));
        }
    }
    if k.slow.failed > 0 {
        let count = format!("{} failed", units::count(k.slow.failed));
        out.push(format!("Of {}, {count} by their reply.", k.slow.label));
    }
    let unknown: i64 = k.differences.iter().filter(|d| d.cause == Cause::Unknown.name()).map(|d| d.more_ns).sum();
    if k.more_ns != 0 && unknown as f64 / k.more_ns as f64 >= SHARE_SHOWN {
        out.push(not_known(unknown, k.more_ns));
    }
    out
}

/// How much of a difference is not known: never more than the whole of it. Other things may have gone the other way.
fn not_known(unknown_ns: i64, more_ns: i64) -> String {
    let part = units::duration(unknown_ns.unsigned_abs());
    if unknown_ns.unsigned_abs() <= more_ns.unsigned_abs() {
        return format!("Not known: {part} of it, see the rows that say so.");
    }
    let (word, rest) = if more_ns < 0 { ("less", "more") } else { ("more", "less") };
    format!("Not known: {part} {word}, see the rows that say so. Other parts take {rest} time.")
}

impl WhyView {
    /// As text for a terminal; at most `limit` differences of each kind (0 = all).
    pub fn render(&self, limit: usize, style: Style) -> String {
        let mut out = String::new();
        for (i, kind) in self.kinds.iter().enumerate() {
            if i > 0 {
                out.push('\n');
            }
            self.kind(kind, limit, &mut out, style);
        }
        if self.kinds.is_empty() {
            out.push_str(&wrap(self.nothing(), "", style.prose()));
        }
        let mut notes: Vec<String> = Vec::new();
        if self.further_kinds > 0 {
            notes.push(format!(
                "{} more kinds lost less time; --kinds or --kind asks for them, `wakepath requests` lists them.",
                units::count(self.further_kinds)
            ));
        }
        if self.too_few_kinds > 0 {
            let least = wakepath_analysis::why::REQUESTS_MIN;
            let why = match self.mode {
                Mode::Selected => format!("the selection leaves out fewer than {least} requests of each"),
                Mode::BeforeAfter => format!("one side has fewer than {least} requests of each"),
                _ => format!("there are fewer than {least} requests of each"),
            };
            notes.push(format!(
                "Not compared: {} ({}), as {why}.",
                units::counted(self.too_few_kinds, "kind", "kinds"),
                units::counted(self.too_few_requests, "request", "requests")
            ));
        }
        if !self.one_sided.is_empty() {
            const SHOWN: usize = 3;
            let named: Vec<String> = self
                .one_sided
                .iter()
                .take(SHOWN)
                .map(|k| format!("{} at {} ({})", k.kind, k.service, units::count(k.requests)))
                .collect();
            let more = if self.one_sided.len() > SHOWN { ", …" } else { "" };
            let count = units::counted(self.one_sided.len() as u64, "kind is", "kinds are");
            notes.push(format!("{count} in only one of the two: {}{more}.", named.join(", ")));
        }
        if self.failed_reads > 0 {
            notes.push(format!("{} reads of the index failed.", units::count(self.failed_reads)));
        }
        if !notes.is_empty() {
            out.push('\n');
            for note in notes {
                out.push_str(&wrap(&sanitise(&note), "", style.prose()));
            }
        }
        for held in &self.held_replies {
            out.push('\n');
            out.push_str(&wrap(&sanitise(&held.sentence), "", style.prose()));
        }
        out
    }

    pub(super) fn nothing(&self) -> &'static str {
        match self.mode {
            Mode::Slowest if self.too_few_kinds == 0 => {
                "There are no requests to compare. For a folder without requests, compare a task with itself in another \
                 recording: wakepath why BEFORE AFTER --task NAME."
            }
            Mode::Selected => {
                "There is nothing to compare the selected requests with: their kinds have fewer than eight others."
            }
            _ => "No kind of request can be compared: `wakepath requests` lists what there is.",
        }
    }

    pub(super) fn kind(&self, k: &KindView, limit: usize, out: &mut String, style: Style) {
        let sentence = wrap(&sanitise(&k.sentence), "", style.prose());
        for line in sentence.lines() {
            let _ = writeln!(out, "{}", style.paint(line, Tint::Strong));
        }
        let is_compared = k.slow.count > 0 && k.typical.count > 0;
        if is_compared && !k.differences.is_empty() {
            out.push('\n');
            out.push_str(&self.table(k, limit).render(style));
        }
        if is_compared && !k.calls.is_empty() {
            let _ = writeln!(out, "\nCalls that a request led to, on average, where their number differs:\n");
            out.push_str(&self.calls(k).render(style));
        }
        out.push('\n');
        for note in notes(k) {
            out.push_str(&wrap(&sanitise(&note), "", style.prose()));
        }
        if let Some(next) = &k.next {
            let _ = writeln!(out, "Next: {}", sanitise(next));
        }
    }

    /// The kinds of call whose number differs most.
    fn calls(&self, k: &KindView) -> Table {
        const SHOWN: usize = 5;
        let (slow, typical) = match self.mode {
            Mode::Slowest => ("slow", "typical"),
            Mode::Selected => ("selected", "others"),
            Mode::BeforeAfter | Mode::Tasks => ("after", "before"),
        };
        let mut t = Table::new(&[
            Column::number(slow),
            Column::number(typical),
            Column::number("requests"),
            Column::wrapped("call"),
        ]);
        for c in k.calls.iter().take(SHOWN) {
            t.row([
                Cell::from(format!("{:.1}", c.slow)),
                Cell::from(format!("{:.1}", c.typical)),
                Cell::from(format!("{} of {}", units::count(c.requests_with), units::count(k.slow.count))),
                Cell::from(format!("{} at {}", c.kind, c.service)),
            ]);
        }
        if let Some(further @ 1..) = k.calls.len().checked_sub(SHOWN) {
            let text = units::counted(further as u64, "further kind", "further kinds");
            t.row([Cell::default(), Cell::default(), Cell::default(), Cell::tinted(text, Tint::Dim)]);
        }
        t
    }

    pub(super) fn table(&self, k: &KindView, limit: usize) -> Table {
        let are_tasks = self.mode == Mode::Tasks;
        let one = |d: &&DifferenceView| d.share.abs() >= SHARE_SHOWN;
        let limit = if limit == 0 { usize::MAX } else { limit };
        let shown: Vec<&DifferenceView> = k.differences.iter().filter(one).take(limit).collect();
        let mut t = Table::new(&[
            Column::number(if k.more_ns < 0 { "less" } else { "more" }),
            Column::number("share"),
            Column::number(if are_tasks { "tasks" } else { "requests" }),
            Column::wrapped("spent on"),
        ]);
        let many_hosts = k.differences.iter().any(|d| d.host != k.differences[0].host);
        for d in &shown {
            let host = if many_hosts { format!(" on {}", d.host) } else { String::new() };
            t.row([
                Cell::from(relative(d.more_ns, k.more_ns)),
                Cell::from(percent(d.share)),
                Cell::from(format!("{} of {}", units::count(d.requests_with), units::count(k.slow.count))),
                Cell::from(format!("{}{host}", d.text)),
            ]);
            let examples: Vec<&str> = d.examples.iter().map(|e| short(e)).collect();
            let examples = (!examples.is_empty()).then(|| format!("  e.g. {}", examples.join(" ")));
            for text in sub_rows(d, k.more_ns).into_iter().chain(examples) {
                t.row([Cell::default(), Cell::default(), Cell::default(), Cell::tinted(text, Tint::Dim)]);
            }
        }
        let told: i64 = shown.iter().map(|d| d.more_ns).sum();
        let rest = k.more_ns - told;
        if rest != 0 {
            let others = k.differences.len() - shown.len();
            let text = match others {
                0 => "the rest".into(),
                n => format!("the rest: {}", units::counted(n as u64, "smaller difference", "smaller differences")),
            };
            let share = if k.more_ns == 0 { 0.0 } else { rest as f64 / k.more_ns as f64 };
            t.row([
                Cell::from(relative(rest, k.more_ns)),
                Cell::from(percent(share)),
                Cell::default(),
                Cell::tinted(text, Tint::Dim),
            ]);
        }
        t.row([Cell::from(relative(k.more_ns, k.more_ns)), Cell::from("100 %"), Cell::default(), Cell::from("total")]);
        t
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(more_ns: i64, by: &str) -> PartView {
        PartView {
            more_ns,
            state: "preempted",
            syscall: None,
            by: Some(by.into()),
            object: None,
            meanwhile: None,
            is_own_thread: false,
            serving: None,
            reason: None,
        }
    }

    fn row(more_ns: i64, parts: Vec<PartView>) -> DifferenceView {
        DifferenceView {
            rank: 1,
            cause: "preempted",
            text: String::new(),
            service: String::new(),
            host: String::new(),
            main: MainView::default(),
            more_ns,
            share: 0.0,
            slow_ns: 0,
            typical_ns: 0,
            requests_with: 1,
            examples: Vec::new(),
            parts,
        }
    }

    #[test]
    fn what_stands_under_a_row_is_a_part_of_it() {
        let more = row(759_000, vec![part(976_000, "compile"), part(124_000, "wakepath")]);
        assert_eq!(
            sub_rows(&more, 106_000_000),
            ["  976 µs by compile", "  124 µs by wakepath", "  −341 µs the rest, which took less"]
        );
        let less = row(-3_720_000, vec![part(-1_900_000, "postgres"), part(-1_000_000, "java")]);
        assert_eq!(sub_rows(&less, 106_000_000), ["  −1.90 ms by postgres", "  −1.00 ms by java"]);
    }
}
