//! `wakepath why`.

use crate::cli::WhyArgs;
use crate::output::Answers;
use crate::progress::Reading;
use crate::requests::part::{self, selection};
use crate::requests::{held, spans, whole};
use crate::{folders, output, sides, suggest};
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};
use wakepath_analysis::active_path::lifetime;
use wakepath_analysis::connections::HeldReplies;
use wakepath_analysis::names::Names;
use wakepath_analysis::selection::Selection;
use wakepath_analysis::why::{Comparison, Question, Recording, Side, between, of_tasks, selected, slowest};
use wakepath_graph::Index;
use wakepath_model::defects::Answer;
use wakepath_model::folder::Folder;
use wakepath_model::ids::{HostId, TaskId};
use wakepath_present::json;
use wakepath_present::losses::{self, losses_or_none};
use wakepath_present::requests::HeldRepliesView;
use wakepath_present::text::Style;
use wakepath_present::why::{Mode, WhyView, Words};

/// What its answer is made of: losses that touch it are told.
const ANSWERS: &[Answer] = &[Answer::Requests, Answer::Waits, Answer::CriticalPath];

/// Schema of the JSON answer.
pub const SCHEMA: &str = "wakepath.why/1";

/// Which share of a kind's requests are the slow ones, where nothing else is asked: the slowest hundredth.
const SLOWEST: f64 = 0.01;

/// A folder that is asked.
struct Asked<'a> {
    dir: &'a Path,
    folder: Folder,
    index: Index,
}

impl<'a> Asked<'a> {
    fn open(dir: &'a PathBuf) -> Result<Asked<'a>> {
        let dirs = std::slice::from_ref(dir);
        let folder = folders::open(dirs)?;
        let index = folders::index(&folder, dirs)?;
        Ok(Asked { dir, folder, index })
    }
}

/// The kinds that lose most time in their slowest hundredth, at most `kinds_max`: what is asked without any option.
pub fn slowest_of(folder: &Folder, index: &Index, names: &Names<'_>, dir: &str, kinds_max: usize) -> WhyView {
    let recording = Recording { folder, index, names };
    let question = Question { slowest: SLOWEST, kind: None, kinds_max };
    let words = Words { mode: Mode::Slowest, slowest: SLOWEST, folder: dir, after: dir, before: dir };
    WhyView::of_requests(&slowest(&recording, &question), &words, index.failed_reads())
}

/// The kinds of a selection that lose most time against all others: what is asked with `--from` and the like.
pub fn selected_of(
    folder: &Folder,
    index: &Index,
    names: &Names<'_>,
    dir: &str,
    kinds_max: usize,
    selection: &Selection,
) -> WhyView {
    let recording = Recording { folder, index, names };
    let question = Question { slowest: SLOWEST, kind: None, kinds_max };
    let words = Words { mode: Mode::Selected, slowest: SLOWEST, folder: dir, after: dir, before: dir };
    WhyView::of_requests(&selected(&recording, &question, selection), &words, index.failed_reads())
}

/// Prints why the slow ones are slow, or what changed between two recordings or periods.
pub fn run(args: &WhyArgs, out: &mut Answers) -> Result<i32> {
    let dirs: Vec<&PathBuf> = args.against.against.iter().chain(&args.folders).collect();
    if dirs.len() > 2 {
        bail!("compare one folder with one; wakepath merge makes one of several hosts' folders");
    }
    let asked = dirs.into_iter().map(Asked::open).collect::<Result<Vec<_>>>()?;
    let names: Vec<Names<'_>> = asked.iter().map(|a| Names::read(&a.folder)).collect();
    let recordings: Vec<Recording<'_>> =
        asked.iter().zip(&names).map(|(a, names)| Recording { folder: &a.folder, index: &a.index, names }).collect();
    let shown: Vec<String> = asked.iter().map(|a| a.dir.display().to_string()).collect();
    // of two that are compared, the later is read last
    let bar = asked
        .last()
        .map(|a| Reading::of(&a.folder, "comparing requests", wakepath_analysis::why::bytes_to_read(&a.folder)));
    let mut view = compare(args, &asked, &recordings)?;
    drop(bar);
    if let (Some(kind), true) = (&args.kind, view.kinds.is_empty() && view.too_few_kinds == 0) {
        bail!("no request of kind {kind:?}: {}", suggest::kind(&asked[0].folder, kind));
    }
    if args.task.is_none() {
        view.held_replies = recordings.iter().zip(&shown).flat_map(|(r, dir)| held_in(r, dir, shown.len())).collect();
    }
    let lost: Vec<_> = asked.iter().flat_map(|a| losses::collect(&a.folder)).collect();
    let text = if args.answering.json {
        json::document(SCHEMA, &lost, &view)?
    } else {
        let style = Style::for_stdout();
        let text = view.render(args.limit, style);
        format!("{text}\n{}", losses_or_none(&lost, ANSWERS, style))
    };
    out.give(text.as_bytes())?;
    let touched = losses::touch(&lost, ANSWERS) || !view.is_complete();
    Ok(output::exit_code(&args.answering, touched))
}

/// What is asked of one recording, or of two: the earlier first.
fn compare(args: &WhyArgs, asked: &[Asked<'_>], recordings: &[Recording<'_>]) -> Result<WhyView> {
    let question = Question {
        slowest: args.slowest.0,
        kind: args.kind.as_deref(),
        kinds_max: if args.kinds == 0 { usize::MAX } else { args.kinds },
    };
    let select = |r: &Recording<'_>, requests| selection(requests, args.kind.as_deref(), whole(&spans(r.folder)));
    let (Some(before), Some(after)) = (recordings.first(), recordings.last()) else { bail!("give a folder") };
    let (selected_before, selected_after) =
        (select(before, &args.against.part(&args.part))?, select(after, &args.part)?);
    let is_same = recordings.len() == 1;
    let name = |asked: Option<&Asked<'_>>, r: &Recording<'_>, selection| {
        let dirs: Vec<PathBuf> = asked.iter().map(|a| a.dir.to_path_buf()).collect();
        sides::name(&dirs, selection, whole(&spans(r.folder)), is_same)
    };
    let folder = asked.last().map(|a| a.dir.display().to_string()).unwrap_or_default();
    let [name_before, name_after] =
        [name(asked.first(), before, &selected_before), name(asked.last(), after, &selected_after)];
    let words =
        |mode| Words { mode, slowest: question.slowest, folder: &folder, after: &name_after, before: &name_before };
    let failed = || asked.iter().map(|a| a.index.failed_reads()).sum();
    match &args.task {
        Some(_) if is_same => bail!("--task compares two recordings: wakepath why BEFORE AFTER --task NAME"),
        Some(task) => tasks(args, before, after, task, &words(Mode::Tasks)),
        None if !is_same || !args.against.is_empty() => {
            let side = |recording, selection| Side { recording, selection };
            let answer = between(side(before, &selected_before), side(after, &selected_after), &question);
            Ok(WhyView::of_requests(&answer, &words(Mode::BeforeAfter), failed()))
        }
        None if args.part.is_empty() => {
            Ok(WhyView::of_requests(&slowest(after, &question), &words(Mode::Slowest), failed()))
        }
        None => {
            let answer = selected(after, &question, &selected_after);
            let view = WhyView::of_requests(&answer, &words(Mode::Selected), failed());
            if view.kinds.is_empty() && view.too_few_kinds == 0 {
                part::exists(after.folder, &selected_after)?;
                bail!(
                    "no request is selected; wakepath requests {folder} --each shows when they began and how long they took"
                );
            }
            Ok(view)
        }
    }
}

/// The services of a recording, one of `recordings`, whose replies TCP held back.
fn held_in(r: &Recording<'_>, dir: &str, recordings: usize) -> Vec<HeldRepliesView> {
    let of = if recordings > 1 { format!("In {dir}: ") } else { String::new() };
    let told = |(service, h): (String, HeldReplies)| {
        let held = HeldRepliesView::new(&service, &h);
        HeldRepliesView { sentence: format!("{of}{}", held.sentence), ..held }
    };
    held(r.folder, r.names).into_iter().map(told).collect()
}

/// Compares the tasks of a name.
fn tasks(
    args: &WhyArgs,
    before: &Recording<'_>,
    after: &Recording<'_>,
    task: &str,
    words: &Words<'_>,
) -> Result<WhyView> {
    let typical = find(args, before, task, words.before)?;
    let slow = find(args, after, task, words.folder)?;
    let compared = Comparison::new(of_tasks(after, &slow), of_tasks(before, &typical));
    let show = |n: u64| {
        let at = usize::try_from(n).ok().and_then(|n| slow.get(n));
        at.map_or_else(String::new, |&(host, task)| after.names.task(host, task))
    };
    let failed = before.index.failed_reads() + after.index.failed_reads();
    Ok(WhyView::of_tasks(task, &compared, words, &show, failed))
}

fn find(args: &WhyArgs, recording: &Recording<'_>, task: &str, dir: &str) -> Result<Vec<(HostId, TaskId)>> {
    let mut found = recording.names.find(task);
    if let Some(wanted) = &args.host {
        found.retain(|(host, _)| recording.names.host(*host) == wanted);
    }
    found.retain(|&(host, task)| lifetime(recording.index, host, task).is_some());
    if found.is_empty() {
        bail!(
            "{dir}: no task {task:?} that did anything; `wakepath info` lists services, tasks are NAME, TID or NAME/TID"
        );
    }
    Ok(found)
}
