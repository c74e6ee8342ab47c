//! `wakepath waits`.

mod stacks;

use crate::cli::WaitsArgs;
use crate::output::Answers;
use crate::{find, folders, output};
use anyhow::{Result, bail};
use wakepath_analysis::active_path::{active_path, lifetime};
use wakepath_analysis::critical_path::{CriticalPath, critical_path};
use wakepath_analysis::names::Names;
use wakepath_analysis::requests::kind_of;
use wakepath_analysis::slices::Slice;
use wakepath_causality::path::Request;
use wakepath_graph::Index;
use wakepath_model::defects::Answer;
use wakepath_model::folder::Folder;
use wakepath_model::ids::{CommonNs, HostId, TaskId};
use wakepath_present::json;
use wakepath_present::losses::{self, losses_or_none};
use wakepath_present::text::Style;
use wakepath_present::waits::{Collector, Shown, WaitsView};

/// What its answer is made of: losses that touch it are told.
const ANSWERS: &[Answer] = &[Answer::Waits, Answer::CriticalPath];

/// Schema of the JSON answer.
pub const SCHEMA: &str = "wakepath.waits/1";

/// A path that was asked for.
enum Path {
    Task(HostId, TaskId, CommonNs, CommonNs),
    Request(CriticalPath),
}

/// Prints the active path of a task, or the critical path of a request.
pub fn run(args: &WaitsArgs, out: &mut Answers) -> Result<i32> {
    let folder = folders::open(&args.folders.folders)?;
    let names = Names::read(&folder);
    if let (Some(task), true) = (&args.task, args.stacks) {
        return stacks::run(args, &folder, &names, task, out);
    }
    let shown = match (args.answering.json, args.limit) {
        (true, _) => Shown::None,
        (_, 0) => Shown::All,
        (_, rows) => Shown::Longest(rows),
    };
    let index;
    let (view, path) = match (&args.task, &args.request) {
        (Some(task), _) => {
            index = folders::index(&folder, &args.folders.folders)?;
            of_task(args, &index, &names, task, shown)?
        }
        (None, Some(request)) => {
            let request = find::request(&folder, &names, request, args.kind.as_deref())?;
            index = folders::index(&folder, &args.folders.folders)?;
            of_request(&folder, &index, &names, &request, shown)
        }
        (None, None) => bail!("give --task NAME|TID or --request ID"),
    };
    folders::whole(&index, &args.folders.folders)?;
    let losses = losses::collect(&folder);
    if args.answering.json {
        let slices = |take: &mut dyn FnMut(&Slice)| path.each(&index, take);
        out.give_with(|mut to| json::write(&mut to, SCHEMA, &losses, &view.with_slices(&names, &slices)))?;
        // the path was walked once more
        folders::whole(&index, &args.folders.folders)?;
    } else {
        let style = Style::for_stdout();
        out.give(format!("{}\n{}", view.render(style), losses_or_none(&losses, ANSWERS, style)).as_bytes())?;
    }
    let touched = losses::touch(&losses, ANSWERS) || !view.is_complete();
    Ok(output::exit_code(&args.answering, touched))
}

impl Path {
    /// Gives its slices in order of time. A task's path is walked anew, so that it need not be held.
    fn each(&self, index: &Index, take: &mut dyn FnMut(&Slice)) {
        match self {
            Path::Task(host, task, from, to) => active_path(index, *host, *task, *from, *to, &mut |s| take(&s)),
            Path::Request(path) => path.each(take),
        }
    }
}

fn of_task(
    args: &WaitsArgs,
    index: &Index,
    names: &Names<'_>,
    wanted: &str,
    shown: Shown,
) -> Result<(WaitsView, Path)> {
    let (host, task) = choose(args, index, names, wanted)?;
    let name = names.task(host, task);
    let (from, to) = interval(args, index, host, task, &name)?;
    let mut collector = Collector::new(names, from, to, shown);
    let path = Path::Task(host, task, from, to);
    path.each(index, &mut |s| collector.add(s));
    let title = format!("Active path of {name} on {}", names.host(host));
    Ok((collector.finish(Some(name), None, title), path))
}

/// What was asked for of the time in which a task lived.
fn interval(args: &WaitsArgs, index: &Index, host: HostId, task: TaskId, name: &str) -> Result<(CommonNs, CommonNs)> {
    let Some((born, died)) = lifetime(index, host, task) else {
        bail!("{name}: nothing was recorded while it existed");
    };
    let from = args.from.map_or(born, |m| CommonNs(m.common_ns((born.0, died.0)))).max(born);
    let to = args.to.map_or(died, |m| CommonNs(m.common_ns((born.0, died.0)))).min(died);
    if from >= to {
        bail!(
            "{name}: nothing between --from and --to; it was recorded from {} to {}",
            wakepath_present::units::wall(born.0),
            wakepath_present::units::wall(died.0)
        );
    }
    Ok((from, to))
}

/// The one task that is meant.
fn choose(args: &WaitsArgs, index: &Index, names: &Names<'_>, wanted: &str) -> Result<(HostId, TaskId)> {
    const LISTED: usize = 20;
    let mut found = names.find(wanted);
    if let Some(host) = &args.host {
        found.retain(|(h, _)| names.host(*h) == host);
    }
    // of tasks that had one number one after the other, those that lived in the time asked for
    if found.len() > 1 && (args.from.is_some() || args.to.is_some()) {
        let known = found.len();
        found.retain(|&(host, task)| {
            lifetime(index, host, task).is_some_and(|(a, b)| {
                args.from.is_none_or(|m| m.common_ns((a.0, b.0)) < b.0)
                    && args.to.is_none_or(|m| m.common_ns((a.0, b.0)) > a.0)
            })
        });
        if found.is_empty() {
            bail!(
                "{wanted:?} matches {known} tasks, and none of them ran between --from and --to; leave these out to \
                 see when they ran"
            );
        }
    }
    match found[..] {
        [one] => Ok(one),
        [] => bail!(
            "no task {wanted:?}{}; `wakepath info` lists services, and TID is a thread as the kernel numbers it",
            args.host.as_ref().map_or(String::new(), |h| format!(" on host {h:?}"))
        ),
        _ => {
            // the busiest first
            found.sort_by_key(|&(host, task)| std::cmp::Reverse(index.waits_of(host, task)));
            let mut lines: Vec<String> = found
                .iter()
                .take(LISTED)
                .map(|&(host, task)| {
                    let when = lifetime(index, host, task)
                        .map_or(String::new(), |(a, _)| format!(", from {}", wakepath_present::units::wall(a.0)));
                    format!("  --task {} --host {}{when}", names.task(host, task), names.host(host))
                })
                .collect();
            if found.len() > LISTED {
                lines.push(format!("  … and {} more", found.len() - LISTED));
            }
            bail!(
                "{wanted:?} matches several tasks; choose one (--from and --to separate reused numbers):\n{}",
                lines.join("\n")
            )
        }
    }
}

fn of_request(folder: &Folder, index: &Index, names: &Names<'_>, request: &Request, shown: Shown) -> (WaitsView, Path) {
    let path = critical_path(folder, index, request);
    let (mut from, mut to) = (None, CommonNs(0));
    path.each(&mut |s| {
        from = from.or(Some(s.from));
        to = s.to;
    });
    let mut collector = Collector::new(names, from.unwrap_or(to), to, shown);
    path.each(&mut |s| collector.add(s));
    let (service, asked) = kind_of(request, names);
    let incomplete = if request.is_complete() { "" } else { ", whose path is incomplete (`wakepath show`)" };
    let title = format!("Critical path of request {:016x}, {asked} at {service}{incomplete}", request.id);
    (collector.finish(None, Some(format!("{:016x}", request.id)), title), Path::Request(path))
}
