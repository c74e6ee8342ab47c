//! `wakepath timeline`.

use crate::cli::{TimelineArgs, WhichTasks};
use crate::folders;
use crate::output::{self, Answers};
use crate::requests::spans;
use anyhow::{Result, bail};
use wakepath_analysis::active_path::active_path;
use wakepath_analysis::names::Names;
use wakepath_analysis::timeline::{ByCall, Counted, First, Interval, Sums, Thin, add, processors, stays, tasks};
use wakepath_graph::Index;
use wakepath_model::defects::Answer;
use wakepath_model::ids::{CommonNs, HostId};
use wakepath_present::text::Style;
use wakepath_present::timeline::{
    CallView, EventView, EventsView, MoreView, PartView, PathPartView, ProcessorView, TaskView, TimelineView, by_call,
    by_state, column_ns,
};
use wakepath_present::{json, losses};

/// Schema of the JSON answer.
pub const SCHEMA: &str = "wakepath.timeline/1";

/// Prints what tasks did over time.
pub fn run(args: &TimelineArgs, out: &mut Answers) -> Result<i32> {
    let dirs = &args.folders.folders;
    let folder = folders::open(dirs)?;
    let names = Names::read(&folder);
    let index = folders::index(&folder, dirs)?;
    let spans = spans(&folder);
    let (begin, end) = (spans.first().map_or(0, |s| s.0), spans.last().map_or(0, |s| s.1));
    let from = args.from.map_or(begin, |m| m.common_ns((begin, end))).max(begin);
    let to = args.to.map_or(end, |m| m.common_ns((begin, end))).min(end);
    if from >= to {
        bail!(
            "nothing was recorded between --from and --to; the recording is from {} to {}",
            wakepath_present::units::wall(begin),
            wakepath_present::units::wall(end)
        );
    }
    let mut found = found(&index, &names, &args.which)?;
    let mut drawn = Drawn { index: &index, names: &names, from: CommonNs(from), to: CommonNs(to), column_ns: 0 };
    // these are of all that match, however many are drawn
    let syscalls = args.syscalls.then(|| drawn.calls(&found));
    let events = args.events.map(|max| drawn.events(&found, (max as usize, begin), args.what.as_deref()));
    let all = found.len();
    if args.limit > 0 {
        found.truncate(args.limit);
    }
    if args.path && found.len() != 1 {
        bail!("--path is of one task, and {} are shown: name it with --task NAME/TID", found.len());
    }
    drawn.column_ns = column_ns(drawn.from, drawn.to, args.columns as usize);
    let mut sums = Sums::new();
    let tasks: Vec<TaskView> = found.iter().map(|t| drawn.task(*t, &mut sums)).collect();
    let view = TimelineView {
        begin_ns: begin,
        end_ns: end,
        from_ns: from,
        to_ns: to,
        column_ns: drawn.column_ns,
        more_tasks: (all - tasks.len()) as u64,
        by_state: by_state(&sums),
        more: MoreView {
            path: args.path.then(|| drawn.path(found[0])),
            processors: args.processors.then(|| drawn.processors(folder.hosts().iter().map(|h| h.id()), &args.which)),
            syscalls,
            events,
        },
        tasks,
    };
    folders::whole(&index, dirs)?;
    let losses = losses::collect(&folder);
    if args.answering.json {
        out.give_with(|mut to| json::write(&mut to, SCHEMA, &losses, &view))?;
    } else {
        out.give(view.render(args.columns as usize, &losses, Style::for_stdout()).as_bytes())?;
    }
    Ok(output::exit_code(&args.answering, losses::touch(&losses, &[Answer::Waits])))
}

/// The tasks that are asked about: those of programs that serve first, then those with most waits.
///
/// # Errors
/// Where there is none.
pub fn found(index: &Index, names: &Names<'_>, which: &WhichTasks) -> Result<Vec<Counted>> {
    let found = tasks(index, names, &which.wanted());
    if found.is_empty() {
        bail!("no task with recorded waits matches; leave out --task, --search and --host to list all");
    }
    Ok(found)
}

/// What is drawn.
struct Drawn<'a> {
    index: &'a Index,
    names: &'a Names<'a>,
    from: CommonNs,
    to: CommonNs,
    column_ns: u64,
}

impl Drawn<'_> {
    /// A task; its time is added to `all`.
    fn task(&self, Counted { waits, host, task, serves }: Counted, all: &mut Sums) -> TaskView {
        let (mut thin, mut sums) = (Thin::new(self.column_ns), Sums::new());
        stays(self.index, host, task, self.from, self.to, &mut |s| {
            add(&mut sums, &s);
            add(all, &s);
            thin.add(s.from, s.to, s.state, s);
        });
        TaskView {
            host: self.names.host(host).to_owned(),
            task: self.names.task(host, task),
            program: self.names.program(host, task).to_owned(),
            waits,
            serves,
            by_state: by_state(&sums),
            parts: thin.finish().iter().map(|p| PartView::new(self.names, host, p)).collect(),
        }
    }

    /// The processors of the hosts that are asked about.
    fn processors(&self, hosts: impl Iterator<Item = HostId>, which: &WhichTasks) -> Vec<ProcessorView> {
        let wanted = hosts.filter(|h| which.host.as_ref().is_none_or(|host| self.names.host(*h) == host));
        let of =
            |host| processors(self.index, host, self.from, self.to, self.column_ns).into_iter().map(move |p| (host, p));
        wanted.flat_map(of).map(|(host, p)| ProcessorView::new(self.names, host, &p)).collect()
    }

    /// Gives every interval of tasks.
    fn each(&self, found: &[Counted], out: &mut dyn FnMut(Interval)) {
        for &Counted { host, task, .. } in found {
            stays(self.index, host, task, self.from, self.to, &mut |stay| out(Interval { stay, host, task }));
        }
    }

    /// Waits by system call.
    fn calls(&self, found: &[Counted]) -> Vec<CallView> {
        let mut calls = ByCall::default();
        self.each(found, &mut |of| calls.add(of));
        by_call(self.names, &calls)
    }

    /// The first intervals that begin in the time, or with the recording, of which a state or a system call has this in its name.
    fn events(&self, found: &[Counted], (max, begin): (usize, i64), what: Option<&str>) -> EventsView {
        let (mut first, what) = (First::new(max), what.map(str::to_lowercase));
        self.each(found, &mut |of| {
            let is_cut = of.stay.from <= self.from && self.from.0 > begin;
            if !is_cut && what.as_ref().is_none_or(|what| EventView::has(&of, what)) {
                first.add(of);
            }
        });
        let (events, more) = first.finish();
        EventsView { events: events.iter().map(|of| EventView::new(self.names, of)).collect(), more }
    }

    /// The active path of a task.
    fn path(&self, Counted { host, task, .. }: Counted) -> Vec<PathPartView> {
        let mut thin = Thin::new(self.column_ns);
        active_path(self.index, host, task, self.from, self.to, &mut |s| {
            thin.add(s.from, s.to, (s.host, s.task, s.state), ());
        });
        thin.finish().iter().map(|p| PathPartView::new(self.names, p)).collect()
    }
}
