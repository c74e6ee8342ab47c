//! `wakepath waits --stacks`: where in its program a task waited, as a flame told in lines, and folded for other tools.

use crate::symbols::Symbols;
use crate::text::{Style, Tint, cut, sanitise};
use crate::units;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use wakepath_analysis::stacks::Waited;
use wakepath_model::folder::Host;
use wakepath_model::ids::StrId;
use wakepath_model::stack::{self, FRAMES_MAX};
use wakepath_model::syscalls;

/// Columns of a line of text.
const WIDTH: usize = 100;
/// Deepest indentation.
const INDENT_MAX: usize = 30;
/// Most functions of one stack, with those that were inlined.
const NAMES_MAX: usize = 4 * FRAMES_MAX;
/// What stands for a stack that was lost.
const LOST: &str = "[stack not known]";
/// What stands for callers beyond the deepest recorded frame.
const DEEPER: &str = "[callers not recorded]";

/// The waits that began at one place.
#[derive(Serialize)]
pub struct StackView {
    /// Functions, the outermost first; the system call is not one of them. Empty where the stack was lost.
    pub frames: Vec<String>,
    /// System call in which it waited.
    pub syscall: Option<String>,
    /// How long, ns.
    pub duration_ns: u64,
    /// How many waits.
    pub waits: u64,
}

/// The answer.
#[derive(Serialize)]
pub struct StacksView {
    /// Whose: `NAME/TID`.
    pub task: String,
    /// Host.
    pub host: String,
    /// Begin on the common time line (ns since 1970, by the clock of the reference host).
    pub from_ns: i64,
    /// End, one past.
    pub to_ns: i64,
    /// Time waited in all: what the stacks add up to.
    pub duration_ns: u64,
    /// Waits in all.
    pub waits: u64,
    /// Of the time, what has no stack.
    pub lost_ns: u64,
    /// Longest first; places that have the same names are one.
    pub stacks: Vec<StackView>,
    /// What to know of the files that names come from.
    pub notes: Vec<String>,
}

impl StacksView {
    /// Gives names to what the analysis added up. `task` is `NAME/TID`, `of` the host on which it ran.
    pub fn new(task: String, of: &Host, host: &str, times: (i64, i64), waited: &[Waited]) -> StacksView {
        let mut symbols = Symbols::new();
        let mut by: BTreeMap<(Vec<String>, Option<String>), (u64, u64)> = BTreeMap::new();
        let mut lost_ns = 0;
        for w in waited {
            let frames = if w.frames == StrId::EMPTY { Vec::new() } else { named(of.text(w.frames), &mut symbols) };
            if frames.is_empty() {
                lost_ns += w.duration_ns;
            }
            let syscall = w.syscall.map(|n| syscalls::name(n).map_or_else(|| format!("syscall {n}"), str::to_owned));
            let sum = by.entry((frames, syscall)).or_default();
            (sum.0, sum.1) = (sum.0 + w.duration_ns, sum.1 + w.waits);
        }
        let view = |((frames, syscall), (duration_ns, waits))| StackView { frames, syscall, duration_ns, waits };
        let mut stacks: Vec<StackView> = by.into_iter().map(view).collect();
        stacks.sort_by_key(|s| std::cmp::Reverse(s.duration_ns));
        StacksView {
            task,
            host: host.to_owned(),
            from_ns: times.0,
            to_ns: times.1,
            duration_ns: waited.iter().map(|w| w.duration_ns).sum(),
            waits: waited.iter().map(|w| w.waits).sum(),
            lost_ns,
            stacks,
            notes: symbols.notes(),
        }
    }

    /// One line for each stack: the process, its functions from the outermost on, the system call in brackets, and nanoseconds.
    pub fn folded(&self) -> String {
        let process = self.task.rsplit_once('/').map_or(self.task.as_str(), |(name, _)| name);
        let mut out = String::new();
        for s in &self.stacks {
            let mut parts = vec![plain(process)];
            parts.extend(s.parts().map(|p| plain(&p)));
            let _ = writeln!(out, "{} {}", parts.join(";"), s.duration_ns);
        }
        out
    }

    /// As text for a terminal; at most `limit` lines of the flame (0 = all).
    pub fn render(&self, limit: usize, style: Style) -> String {
        let mut out = String::new();
        let _ = writeln!(
            out,
            "Where {} on {} waited: {} in {} waits, from {}\n",
            sanitise(&self.task),
            sanitise(&self.host),
            units::duration(self.duration_ns),
            units::count(self.waits),
            units::wall(self.from_ns),
        );
        let mut root = Node::default();
        for s in &self.stacks {
            root.add(s.parts(), s.duration_ns);
        }
        let mut lines = Vec::new();
        root.lines(0, &mut lines);
        // the longest, wherever they stand: who calls waits no shorter than who is called, so that no line stands alone
        let mut by_time: Vec<usize> = (0..lines.len()).collect();
        by_time.sort_by_key(|&i| std::cmp::Reverse(lines[i].2));
        by_time.truncate(if limit == 0 { lines.len() } else { limit });
        by_time.sort_unstable();
        let _ = writeln!(out, "{:>12} {:>6}  the outermost function first", "waited", "share");
        for (indent, name, ns) in by_time.iter().map(|&i| &lines[i]) {
            let share = 100.0 * *ns as f64 / self.duration_ns.max(1) as f64;
            let name = sanitise(name);
            let name = cut(&name, WIDTH - 22 - indent);
            let name = if name.starts_with('[') { style.paint(&name, Tint::Warn) } else { name.into_owned() };
            let _ = writeln!(out, "{:>9.3} ms {share:>5.1}%  {:indent$}{name}", *ns as f64 / 1e6, "");
        }
        if by_time.len() < lines.len() {
            let _ = writeln!(out, "… and {} shorter ones: --limit 0 shows all", lines.len() - by_time.len());
        }
        if self.lost_ns > 0 {
            let _ = writeln!(out, "\n{} of it has no stack", units::duration(self.lost_ns));
        }
        for note in &self.notes {
            let _ = writeln!(out, "{}", cut(&format!("note: {}", sanitise(note)), WIDTH));
        }
        out
    }
}

impl StackView {
    /// Functions and the system call, the outermost first.
    fn parts(&self) -> impl Iterator<Item = String> + '_ {
        let lost = self.frames.is_empty().then(|| LOST.to_owned());
        let call = self.syscall.as_ref().map(|s| format!("[{s}]"));
        lost.into_iter().chain(self.frames.iter().cloned()).chain(call)
    }
}

/// The functions of a stack's text, outermost first.
fn named(text: &str, symbols: &mut Symbols) -> Vec<String> {
    let (mut names, mut frames) = (Vec::new(), 0);
    for run in stack::runs(text) {
        frames += run.offsets.len();
        names.extend(symbols.names(&run));
        // a deeper one is no recorder's
        if frames >= FRAMES_MAX {
            break;
        }
    }
    names.truncate(NAMES_MAX);
    if frames >= FRAMES_MAX {
        names.push(DEEPER.into());
    }
    names.reverse();
    names
}

/// A name as one part of a folded line.
fn plain(name: &str) -> String {
    sanitise(name).replace(';', ":").replace('\n', " ")
}

/// A function called from one place, with what it called.
#[derive(Default)]
struct Node {
    ns: u64,
    calls: BTreeMap<String, Node>,
}

impl Node {
    fn add(&mut self, mut parts: impl Iterator<Item = String>, ns: u64) {
        self.ns += ns;
        if let Some(name) = parts.next() {
            self.calls.entry(name).or_default().add(parts, ns);
        }
    }

    /// Lines of what it called, longest first. Only where calls part they stand further in, so that deep stacks stay
    /// readable: a chain of single calls is one column.
    fn lines(&self, indent: usize, out: &mut Vec<(usize, String, u64)>) {
        let mut calls: Vec<_> = self.calls.iter().collect();
        calls.sort_by_key(|(_, n)| std::cmp::Reverse(n.ns));
        let has_siblings = calls.len() > 1;
        for (name, node) in calls {
            let parts = has_siblings || node.calls.len() > 1;
            let within = if parts { (indent + 2).min(INDENT_MAX) } else { indent };
            out.push((indent, name.clone(), node.ns));
            node.lines(within, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view() -> StacksView {
        let stack = |frames: &[&str], syscall: Option<&str>, duration_ns| StackView {
            frames: frames.iter().map(|&f| f.to_owned()).collect(),
            syscall: syscall.map(str::to_owned),
            duration_ns,
            waits: 1,
        };
        StacksView {
            task: "app/7".into(),
            host: "web".into(),
            from_ns: 0,
            to_ns: 10_000_000,
            duration_ns: 8_000_000,
            waits: 3,
            lost_ns: 1_000_000,
            stacks: vec![
                stack(&["main", "serve", "std::vec<a;b>::wait"], Some("poll"), 5_000_000),
                stack(&["main", "serve", "lock"], Some("futex"), 2_000_000),
                stack(&[], Some("read"), 1_000_000),
            ],
            notes: vec!["/bin/app has no build id: names come from the current file".into()],
        }
    }

    #[test]
    fn folded_lines_are_what_flame_graph_tools_read() {
        assert_eq!(
            view().folded(),
            "app;main;serve;std::vec<a:b>::wait;[poll] 5000000\n\
             app;main;serve;lock;[futex] 2000000\n\
             app;[stack not known];[read] 1000000\n"
        );
    }

    #[test]
    fn the_flame_goes_in_only_where_calls_part() {
        let text = view().render(0, Style::default());
        let lines: Vec<&str> = text.lines().skip(3).map(|l| l.get(21..).unwrap_or("")).take(8).collect();
        assert_eq!(
            lines,
            [
                "main",
                "  serve",
                "    std::vec<a;b>::wait",
                "      [poll]",
                "    lock",
                "      [futex]",
                LOST,
                "  [read]"
            ],
            "{text}"
        );
        assert!(text.contains("    7.000 ms  87.5%  main\n"), "{text}");
        assert!(text.lines().all(|l| l.chars().count() <= WIDTH), "{text}");
        assert!(view().render(2, Style::default()).contains("6 shorter ones"));
    }
}
