//! `wakepath flame`: where the critical paths of a selection of requests went, by host, service, program and cause.

use crate::losses::{Loss, losses_or_none};
use crate::table::{Cell, Column, Table};
use crate::text::{Style, wrap};
use crate::units;
use serde::Serialize;
use std::collections::BTreeMap;
use wakepath_analysis::flame::{Flame, Stack};
use wakepath_model::defects::Answer;

/// A group of requests.
#[derive(Clone, Debug, Serialize)]
pub struct GroupView {
    /// Requests whose path was looked at.
    pub requests: u64,
    /// Length of all their paths together (ns).
    pub elapsed_ns: u64,
    /// Left out for an incomplete path.
    pub incomplete: u64,
    /// Left out since no whole reply came.
    pub unanswered: u64,
}

/// A stack.
#[derive(Clone, Debug, Serialize)]
pub struct StackView {
    /// Host.
    pub host: String,
    /// Service in whose part of the request the time lies.
    pub service: String,
    /// Program whose time it is.
    pub program: String,
    /// As `wakepath why` names causes.
    pub cause: &'static str,
    /// Who or what was waited for; empty where nothing of it is known.
    pub by: String,
    /// All selected requests together (ns).
    pub duration_ns: u64,
    /// In so many slices.
    pub slices: u64,
    /// All others together (ns); 0 where they were not asked for.
    pub others_ns: u64,
}

/// The answer.
#[derive(Clone, Debug, Serialize)]
pub struct FlameView {
    /// The selected requests.
    pub selected: GroupView,
    /// All others; none where they were not asked for.
    pub others: Option<GroupView>,
    /// By name. The sum is the groups' length.
    pub stacks: Vec<StackView>,
}

fn ns(ns: u128) -> u64 {
    u64::try_from(ns).unwrap_or(u64::MAX)
}

impl GroupView {
    fn new(flame: &Flame) -> GroupView {
        let left_out = flame.left_out;
        GroupView {
            requests: flame.requests,
            elapsed_ns: ns(flame.elapsed_ns),
            incomplete: left_out.incomplete,
            unanswered: left_out.unanswered,
        }
    }

    /// For each request (ns).
    fn mean(&self, ns: u64) -> i64 {
        i64::try_from(ns.checked_div(self.requests).unwrap_or(0)).unwrap_or(i64::MAX)
    }

    fn left_out(&self) -> u64 {
        self.incomplete + self.unanswered
    }
}

/// A line of the text.
struct Node {
    duration_ns: u64,
    others_ns: u64,
    below: BTreeMap<String, Node>,
}

impl Node {
    fn new() -> Node {
        Node { duration_ns: 0, others_ns: 0, below: BTreeMap::new() }
    }
}

impl FlameView {
    /// From what was found.
    pub fn new(selected: &Flame, others: Option<&Flame>) -> FlameView {
        let mut stacks: BTreeMap<&Stack, StackView> = BTreeMap::new();
        for (flame, is_other) in [(Some(selected), false), (others, true)] {
            for (stack, time) in flame.iter().flat_map(|f| &f.stacks) {
                let view = stacks.entry(stack).or_insert_with(|| StackView {
                    host: stack.host.clone(),
                    service: stack.service.clone(),
                    program: stack.program.clone(),
                    cause: stack.cause.name(),
                    by: stack.by.clone(),
                    duration_ns: 0,
                    slices: 0,
                    others_ns: 0,
                });
                if is_other {
                    view.others_ns = ns(time.ns);
                } else {
                    (view.duration_ns, view.slices) = (ns(time.ns), time.slices);
                }
            }
        }
        FlameView {
            selected: GroupView::new(selected),
            others: others.map(GroupView::new),
            stacks: stacks.into_values().collect(),
        }
    }

    /// Whether no request was left out.
    pub fn is_complete(&self) -> bool {
        self.selected.left_out() == 0 && self.others.as_ref().is_none_or(|o| o.left_out() == 0)
    }

    /// As text for a terminal; parts below `least` (0 to 1) of the whole are left out.
    pub fn render(&self, least: f64, losses: &[Loss], style: Style) -> String {
        let mut out = String::new();
        if self.selected.requests == 0 {
            out.push_str(
                "No request with a complete path is selected. `wakepath requests` shows which kinds there are.\n",
            );
        } else {
            let mut titles = vec![Column::number("a request"), Column::number("share")];
            if self.others.is_some() {
                titles.push(Column::number("than others"));
            }
            titles.push(Column::text("host / service / program / cause / waited for"));
            let mut table = Table::new(&titles);
            self.rows(&self.tree(), 0, least, &mut table);
            out.push_str(&table.render(style));
            out.push_str(&wrap(&self.which(least), "", style.prose()));
        }
        out.push_str(&losses_or_none(losses, &[Answer::Requests, Answer::CriticalPath], style));
        out
    }

    fn tree(&self) -> Node {
        let mut root = Node::new();
        for s in &self.stacks {
            let frames = [s.host.as_str(), &s.service, &s.program, s.cause, &s.by];
            let mut node = &mut root;
            for frame in frames.into_iter().filter(|f| !f.is_empty()) {
                node = node.below.entry(frame.to_owned()).or_insert_with(Node::new);
                node.duration_ns = node.duration_ns.saturating_add(s.duration_ns);
                node.others_ns = node.others_ns.saturating_add(s.others_ns);
            }
        }
        root
    }

    /// The lines below a node, those with most time first.
    fn rows(&self, node: &Node, depth: usize, least: f64, table: &mut Table) {
        let mut below: Vec<(&String, &Node)> = node.below.iter().collect();
        below.sort_by_key(|(_, n)| std::cmp::Reverse(n.duration_ns));
        for (name, n) in below {
            let share = n.duration_ns as f64 / self.selected.elapsed_ns.max(1) as f64;
            let mean = self.selected.mean(n.duration_ns);
            let more = self.others.as_ref().map(|o| mean.saturating_sub(o.mean(n.others_ns)));
            let more_share = more
                .map_or(0.0, |m| m.unsigned_abs() as f64 / self.selected.mean(self.selected.elapsed_ns).max(1) as f64);
            if share.max(more_share) < least {
                continue;
            }
            let mut cells =
                vec![Cell::from(units::duration(mean.unsigned_abs())), Cell::from(format!("{:.1} %", share * 100.0))];
            cells.extend(more.map(|m| {
                let sign = if m < 0 { "-" } else { "+" };
                Cell::from(format!("{sign}{}", units::duration(m.unsigned_abs())))
            }));
            cells.push(Cell::from(format!("{}{name}", "  ".repeat(depth))));
            table.row(cells);
            self.rows(n, depth + 1, least, table);
        }
    }

    fn which(&self, least: f64) -> String {
        let of = |g: &GroupView| {
            let left_out = match g.left_out() {
                0 => String::new(),
                n => format!(", {} left out (path incomplete, or not answered)", units::count(n)),
            };
            let requests = units::counted(g.requests, "request", "requests");
            format!("{requests} of {} on average{left_out}", units::duration(g.mean(g.elapsed_ns).unsigned_abs()))
        };
        let others = self.others.as_ref().map_or_else(String::new, |o| format!(" Against {}.", of(o)));
        format!(
            "{}.{others} Parts below {:.1} % are not shown (--least 0 shows all).",
            of(&self.selected),
            least * 100.0
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakepath_analysis::causes::Cause;
    use wakepath_analysis::flame::Time;

    fn flame(requests: u64, stacks: &[(&str, Cause, u128)]) -> Flame {
        let mut flame = Flame { requests, ..Flame::default() };
        for &(program, cause, ns) in stacks {
            let stack = Stack {
                host: "web".into(),
                service: "app:80".into(),
                program: program.into(),
                cause,
                by: String::new(),
            };
            flame.stacks.insert(stack, Time { ns, slices: 1 });
            flame.elapsed_ns += ns;
        }
        flame
    }

    #[test]
    fn what_differs_is_told_for_each_request() {
        let selected = flame(2, &[("app", Cause::Cpu, 4_000_000), ("app", Cause::Timer, 16_000_000)]);
        let others = flame(4, &[("app", Cause::Cpu, 8_000_000), ("app", Cause::Disk, 4_000_000)]);
        let view = FlameView::new(&selected, Some(&others));
        assert_eq!((view.stacks.len(), view.selected.elapsed_ns), (3, 20_000_000));
        let text = view.render(0.001, &[], Style::default());
        let line = |name: &str| text.lines().find(|l| l.trim_end().ends_with(name)).unwrap_or_default().to_owned();
        assert!(line("timer").contains("8.00 ms") && line("timer").contains("+8.00 ms"), "{text}");
        assert!(line("disk").contains("-1.00 ms") && line("cpu").contains("+0 s"), "{text}");
        assert!(text.contains("2 requests of 10.0 ms on average"), "{text}");
    }
}
