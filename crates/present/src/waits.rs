//! `wakepath waits`: a path of slices as a timeline and a table, with sums that add up to the elapsed time.

mod text;

pub use text::what;

use crate::table::{Cell, Column, Table};
use crate::text::{Style, Tint, columns, cut, sanitise, wrap};
use crate::units;
use serde::Serialize;
use serde::ser::{SerializeSeq as _, Serializer};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use text::{LANES_MAX, WIDTH};
use wakepath_analysis::causes::Sort;
use wakepath_analysis::names::Names;
use wakepath_analysis::slices::{Slice, State};
use wakepath_model::ids::{CommonNs, HostId, TaskId};
use wakepath_model::syscalls;

/// Most rows of a table that shows every slice; the sums have all.
const ROWS_MAX: usize = 200_000;
/// Rows held at most where the table is to be short.
const ROWS_HELD: usize = 4096;
/// A slice, as shown.
#[derive(Serialize)]
pub struct SliceView {
    /// Begin on the common time line, ns.
    pub from_ns: i64,
    /// End, one past.
    pub to_ns: i64,
    /// Length.
    pub duration_ns: u64,
    /// Host.
    pub host: String,
    /// `NAME/TID`.
    pub task: String,
    /// What was done: see [`name`].
    pub state: &'static str,
    /// What the outermost wait in which it lies was for; none where the task itself ran or was ready.
    pub wait: Option<&'static str>,
    /// Who preempted, woke or sent: `NAME/TID`, with the host where it is another.
    pub by: Option<String>,
    /// System call of the wait.
    pub syscall: Option<String>,
    /// What was waited for.
    pub object: Option<String>,
    /// How many waits deep.
    pub depth: u16,
    /// Of a request: the span in whose time it lies.
    pub span: Option<u32>,
    /// The rule that led here and its class; `self` at depth 0.
    pub evidence: String,
    /// Why it is not known, or not followed.
    pub reason: Option<&'static str>,
}

/// One line of a sum.
#[derive(Serialize)]
pub struct SumView {
    /// Of what.
    pub name: String,
    /// How long, ns.
    pub duration_ns: u64,
    /// In how many slices.
    pub slices: u64,
}

/// The answer.
#[derive(Serialize)]
pub struct WaitsView {
    /// Whose path: `NAME/TID`, or none for a request.
    pub task: Option<String>,
    /// The request's id, or none for a task.
    pub request: Option<String>,
    /// What it is, for people.
    pub title: String,
    /// Begin on the common time line (ns since 1970, by the clock of the reference host).
    pub from_ns: i64,
    /// End, one past.
    pub to_ns: i64,
    /// Elapsed time: what each of the sums adds up to.
    pub elapsed_ns: u64,
    /// How many slices there are.
    pub slice_count: u64,
    /// Time that is not known, ns.
    pub unknown_ns: u64,
    /// Time by host.
    pub by_host: Vec<SumView>,
    /// Time by task.
    pub by_task: Vec<SumView>,
    /// Time by cause.
    pub by_cause: Vec<SumView>,
    /// Time by the reason for not knowing or not following.
    pub by_reason: Vec<SumView>,
    #[serde(skip)]
    rows: Vec<Row>,
    #[serde(skip)]
    lanes: Vec<Lane>,
    #[serde(skip)]
    has_hosts: bool,
}

/// A slice, or short neighbours together.
struct Row {
    first: SliceView,
    duration_ns: u64,
    slices: u64,
    longest_ns: u64,
}

/// Which slices the table shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// There is no table.
    None,
    /// The longest, in at most about so many rows: short neighbours are told as one.
    Longest(usize),
    /// All of them.
    All,
}

/// Gives the slices of a path one after the other, whenever it is called.
pub type Slices<'a> = dyn Fn(&mut dyn FnMut(&Slice)) + 'a;

/// An answer with its slices, which are made while they are written: none of them is held.
#[derive(Serialize)]
pub struct Whole<'a, 'f> {
    #[serde(flatten)]
    view: &'a WaitsView,
    slices: Each<'a, 'f>,
}

struct Each<'a, 'f> {
    names: &'a Names<'f>,
    slices: &'a Slices<'a>,
}

impl Serialize for Each<'_, '_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut list = to.serialize_seq(None)?;
        let mut so_far = Ok(());
        (self.slices)(&mut |s| {
            if so_far.is_ok() {
                so_far = list.serialize_element(&view(self.names, s));
            }
        });
        so_far?;
        list.end()
    }
}

struct Lane {
    name: String,
    total_ns: u64,
    /// By column, the time of each state.
    columns: Vec<BTreeMap<State, u64>>,
}

/// What a slice's time goes to: its state, and after what the path's own task waited meanwhile.
pub fn cause(s: &Slice) -> String {
    match s.wait {
        Some(w) if w != s.state => format!("{} (behind {})", s.state.name(), w.name()),
        _ => s.state.name().to_owned(),
    }
}

const fn tint(state: State) -> Tint {
    match state.sort() {
        Sort::Work => Tint::Good,
        Sort::HeldUp => Tint::Warn,
        Sort::Awaited => Tint::Plain,
        Sort::Unknown => Tint::Bad,
    }
}

/// Gathers a path slice by slice: memory for the sums and the rows that are shown, not for the path.
pub struct Collector<'n, 'f> {
    names: &'n Names<'f>,
    from: CommonNs,
    to: CommonNs,
    shown: Shown,
    rows: Vec<Row>,
    count: u64,
    hosts: BTreeMap<HostId, (u64, u64)>,
    tasks: BTreeMap<(HostId, TaskId), (u64, u64)>,
    causes: BTreeMap<String, (u64, u64)>,
    reasons: BTreeMap<&'static str, (u64, u64)>,
    unknown_ns: u64,
    lanes: BTreeMap<(HostId, TaskId), Lane>,
}

/// Tasks told apart in the timeline while it is gathered.
const LANES_HELD: usize = 400;

impl<'n, 'f> Collector<'n, 'f> {
    /// For a path between two moments.
    pub fn new(names: &'n Names<'f>, from: CommonNs, to: CommonNs, shown: Shown) -> Collector<'n, 'f> {
        Collector {
            names,
            from,
            to,
            shown,
            rows: Vec::new(),
            count: 0,
            hosts: BTreeMap::new(),
            tasks: BTreeMap::new(),
            causes: BTreeMap::new(),
            reasons: BTreeMap::new(),
            unknown_ns: 0,
            lanes: BTreeMap::new(),
        }
    }

    /// Takes the next slice.
    pub fn add(&mut self, s: &Slice) {
        let ns = s.duration_ns();
        let count = |sum: &mut (u64, u64)| {
            sum.0 += ns;
            sum.1 += 1;
        };
        self.count += 1;
        count(self.hosts.entry(s.host).or_default());
        count(self.tasks.entry((s.host, s.task)).or_default());
        count(self.causes.entry(cause(s)).or_default());
        if let Some(reason) = s.reason {
            count(self.reasons.entry(reason).or_default());
        }
        if s.state == State::Unknown {
            self.unknown_ns += ns;
        }
        self.draw(s);
        let held_max = match self.shown {
            Shown::None => return,
            Shown::All => ROWS_MAX,
            Shown::Longest(rows) => ROWS_HELD.max(rows.saturating_mul(4)),
        };
        if self.rows.len() < held_max {
            self.rows.push(Row { first: view(self.names, s), duration_ns: ns, slices: 1, longest_ns: ns });
        }
        if self.rows.len() == held_max && self.shown != Shown::All {
            // a quarter of them stay: more than will be shown, so these are among the shortest in the end, too
            shorten(&mut self.rows, held_max / 4);
        }
    }

    fn draw(&mut self, s: &Slice) {
        let key = (s.host, s.task);
        if self.lanes.len() >= LANES_HELD && !self.lanes.contains_key(&key) {
            return;
        }
        let names = self.names;
        let lane = self.lanes.entry(key).or_insert_with(|| Lane {
            name: names.task(s.host, s.task),
            total_ns: 0,
            columns: vec![BTreeMap::new(); WIDTH],
        });
        lane.total_ns += s.duration_ns();
        let span = (i128::from(self.to.0) - i128::from(self.from.0)).max(1);
        let column = |t: CommonNs| (i128::from(t.0) - i128::from(self.from.0)) * WIDTH as i128;
        let (a, b) = (column(s.from), column(s.to));
        let (first, last) = ((a / span).clamp(0, WIDTH as i128 - 1), ((b - 1) / span).clamp(0, WIDTH as i128 - 1));
        for c in first..=last {
            let part = b.min((c + 1) * span) - a.max(c * span);
            *lane.columns[c as usize].entry(s.state).or_default() += part.max(0) as u64;
        }
    }

    /// The answer. `task` or `request` says whose path it is.
    pub fn finish(mut self, task: Option<String>, request: Option<String>, title: String) -> WaitsView {
        if let Shown::Longest(rows) = self.shown
            && self.count > rows as u64
        {
            shorten(&mut self.rows, rows / 2);
        }
        let names = self.names;
        let has_hosts = self.hosts.len() > 1;
        let elapsed_ns = u64::try_from(self.to.0.saturating_sub(self.from.0)).unwrap_or(0);
        let mut lanes: Vec<Lane> = self.lanes.into_values().collect();
        lanes.sort_by_key(|l| std::cmp::Reverse(l.total_ns));
        lanes.truncate(LANES_MAX);
        let task_name = |(host, task): (HostId, TaskId)| {
            let name = names.task(host, task);
            if has_hosts { format!("{} on {}", name, names.host(host)) } else { name }
        };
        WaitsView {
            task,
            request,
            title,
            from_ns: self.from.0,
            to_ns: self.to.0,
            elapsed_ns,
            slice_count: self.count,
            unknown_ns: self.unknown_ns,
            rows: self.rows,
            by_host: sums(self.hosts.into_iter().map(|(h, s)| (names.host(h).to_owned(), s))),
            by_task: sums(self.tasks.into_iter().map(|(t, s)| (task_name(t), s))),
            by_cause: sums(self.causes),
            by_reason: sums(self.reasons.into_iter().map(|(r, s)| (r.to_owned(), s))),
            lanes,
            has_hosts,
        }
    }
}

/// A slice, as shown.
pub fn view(names: &Names<'_>, s: &Slice) -> SliceView {
    SliceView {
        from_ns: s.from.0,
        to_ns: s.to.0,
        duration_ns: s.duration_ns(),
        host: names.host(s.host).to_owned(),
        task: names.task(s.host, s.task),
        state: s.state.name(),
        wait: s.wait.map(State::name),
        by: s.by.map(|(host, task)| {
            let by = names.task(host, task);
            if host == s.host { by } else { format!("{by} on {}", names.host(host)) }
        }),
        syscall: s.syscall.map(|nr| syscalls::name(nr).map_or_else(|| format!("syscall {nr}"), str::to_owned)),
        object: s.object.clone(),
        depth: s.depth,
        span: s.span,
        evidence: s.evidence.map_or_else(|| "self".into(), |(rule, class)| format!("{rule} ({})", class.name())),
        reason: s.reason,
    }
}

/// Leaves at most the `longest` longest slices a row of their own, and joins those between them.
fn shorten(rows: &mut Vec<Row>, longest: usize) {
    let mut lengths: Vec<u64> = rows.iter().filter(|r| r.slices == 1).map(|r| r.duration_ns).collect();
    if lengths.len() <= longest {
        return;
    }
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    let least = lengths[longest].saturating_add(1);
    let is_short = |r: &Row| r.slices > 1 || r.duration_ns < least;
    rows.dedup_by(|next, last| {
        let joins = is_short(last) && is_short(next);
        if joins {
            last.duration_ns += next.duration_ns;
            last.slices += next.slices;
            last.longest_ns = last.longest_ns.max(next.longest_ns);
        }
        joins
    });
}

/// Longest first.
fn sums(of: impl IntoIterator<Item = (String, (u64, u64))>) -> Vec<SumView> {
    let mut out: Vec<SumView> =
        of.into_iter().map(|(name, (duration_ns, slices))| SumView { name, duration_ns, slices }).collect();
    out.sort_by(|a, b| b.duration_ns.cmp(&a.duration_ns).then_with(|| a.name.cmp(&b.name)));
    out
}

impl WaitsView {
    /// Whether every moment is explained.
    pub fn is_complete(&self) -> bool {
        self.unknown_ns == 0
    }

    /// With its slices, for JSON.
    pub fn with_slices<'a, 'f>(&'a self, names: &'a Names<'f>, slices: &'a Slices<'a>) -> Whole<'a, 'f> {
        Whole { view: self, slices: Each { names, slices } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(duration_ns: u64) -> Row {
        let first = SliceView {
            from_ns: 0,
            to_ns: 0,
            duration_ns,
            host: String::new(),
            task: String::new(),
            state: "",
            wait: None,
            by: None,
            syscall: None,
            object: None,
            depth: 0,
            span: None,
            evidence: String::new(),
            reason: None,
        };
        Row { first, duration_ns, slices: 1, longest_ns: duration_ns }
    }

    #[test]
    fn rows_shortened_on_the_way_are_those_shortened_at_the_end() {
        let lengths: Vec<u64> = (0..10_000_u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50).collect();
        let mut at_end: Vec<Row> = lengths.iter().map(|ns| row(*ns)).collect();
        shorten(&mut at_end, 20);
        let mut on_the_way = Vec::new();
        for ns in &lengths {
            on_the_way.push(row(*ns));
            if on_the_way.len() == 200 {
                shorten(&mut on_the_way, 50);
                assert!(on_the_way.len() <= 101);
            }
        }
        shorten(&mut on_the_way, 20);
        let told = |rows: &[Row]| rows.iter().map(|r| (r.duration_ns, r.slices)).collect::<Vec<_>>();
        assert_eq!(told(&on_the_way), told(&at_end));
        assert!(at_end.len() <= 41 && at_end.iter().map(|r| r.slices).sum::<u64>() == 10_000);
        assert_eq!(at_end.iter().map(|r| r.duration_ns).sum::<u64>(), lengths.iter().sum::<u64>());
    }
}
