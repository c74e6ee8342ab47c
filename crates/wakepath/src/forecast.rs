//! `wakepath forecast`.

use crate::cli::{Edge, ForecastArgs, PartArgs};
use crate::output::Answers;
use crate::progress::Reading;
use crate::{folders, output, owner, requests, suggest};
use anyhow::{Result, anyhow, bail};
use std::path::PathBuf;
use wakepath_analysis::names::Names;
use wakepath_forecast::derive::{Selection, derive};
use wakepath_forecast::derived::Derived;
use wakepath_forecast::forecast::{Question, forecast};
use wakepath_graph::Index;
use wakepath_model::defects::Answer;
use wakepath_model::folder::Folder;
use wakepath_model::ids::CommonNs;
use wakepath_present::forecast::ForecastView;
use wakepath_present::losses::{self, Loss, losses_or_none};
use wakepath_present::text::Style;
use wakepath_present::{bottleneck, json};

/// What its answer is made of: losses that touch it are told.
const ANSWERS: &[Answer] = &[Answer::Forecast, Answer::Requests];

/// Schema of the JSON answer.
pub const SCHEMA: &str = "wakepath.forecast/1";

/// A recording made into a model.
pub struct Modelled {
    /// The model and what was measured.
    pub derived: Derived,
    /// What was lost.
    losses: Vec<Loss>,
    /// Where annotations contradict themselves.
    contradictions: Vec<Loss>,
}

impl Modelled {
    /// Reads the folders.
    pub fn read(dirs: &[PathBuf], part: &PartArgs) -> Result<Modelled> {
        let folder = folders::open(dirs)?;
        let names = Names::read(&folder);
        // marks alone have no waits, and are replayed all the same
        owner::makes_caches(dirs);
        let bar = Reading::of(&folder, "indexing waits", Index::bytes_to_read(&folder));
        let index = Index::open(&folder, dirs)?;
        drop(bar);
        let span = (start(&folder, &index), requests::whole(&requests::spans(&folder)).1);
        let mut selection =
            Selection { kind: part.request.clone(), arrivals: part.arrivals.map(Into::into), ..Selection::default() };
        match (&part.from, &part.to) {
            (Some(Edge::Machine(a)), Some(Edge::Machine(b))) => selection.between = Some((a.clone(), b.clone())),
            (Some(Edge::Machine(m)), _) | (_, Some(Edge::Machine(m))) => {
                bail!(
                    "{m:?} is not a valid time (use 2026-11-21T04:55:12.5Z, +12.5s or nanoseconds); for machines \
                     give both --from and --to"
                )
            }
            (from, to) => {
                let moment = |edge: &Option<Edge>| match edge {
                    Some(Edge::Moment(m)) => Some(CommonNs(m.common_ns(span))),
                    _ => None,
                };
                (selection.from, selection.to) = (moment(from), moment(to));
            }
        }
        if let (Some(from), Some(to)) = (selection.from, selection.to)
            && from >= to
        {
            bail!("--from is not before --to: there is nothing between them");
        }
        let derived = derive(&folder, &index, &names, &selection).map_err(|e| {
            if let Some(kind) = selection.kind.as_deref().filter(|k| !requests::has_kind(&folder, k)) {
                return anyhow!("{}: no request of kind {kind:?}: {}", dirs[0].display(), suggest::kind(&folder, kind));
            }
            // who sees little since much was lost must not be sent to record for longer
            let is_lost = losses::touch(&losses::collect(&folder), ANSWERS);
            let why =
                if is_lost { format!(". Losses may be why: wakepath info {}", typed(dirs)) } else { String::new() };
            anyhow!("{}: {e}{why}", dirs[0].display())
        })?;
        folders::whole(&index, dirs)?;
        let contradictions = losses::contradictions(&derived.warnings);
        Ok(Modelled { derived, losses: losses::collect(&folder), contradictions })
    }

    /// Whether losses or holes touch the answer.
    pub fn is_touched(&self) -> bool {
        losses::touch(&self.all_losses(), ANSWERS) || self.derived.lossy > 0.0
    }

    /// What was lost, and what contradicts itself.
    pub fn all_losses(&self) -> Vec<Loss> {
        [&self.contradictions[..], &self.losses].concat()
    }

    /// The same in words.
    pub fn told(&self, style: Style) -> String {
        let mut out = String::new();
        if !self.contradictions.is_empty() {
            out.push_str("The annotations contradict themselves:\n");
            out.push_str(&losses::render(&self.contradictions, style));
            out.push('\n');
        }
        out.push_str(&losses_or_none(&self.losses, ANSWERS, style));
        out
    }
}

/// When the recording began.
fn start(folder: &Folder, index: &Index) -> i64 {
    let begins = folder.hosts().iter().filter_map(|h| h.span().map(|(a, _)| index.common(h.id(), a).0));
    begins.min().unwrap_or(0)
}

/// The folders as they would be typed.
pub fn typed(dirs: &[PathBuf]) -> String {
    let is_plain = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._-+:@".contains(&b));
    let word = |d: &PathBuf| {
        let text = d.display().to_string();
        if is_plain(&text) { text } else { bottleneck::shell(&text) }
    };
    dirs.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// Prints a forecast.
pub fn run(args: &ForecastArgs, out: &mut Answers) -> Result<i32> {
    let modelled = Modelled::read(&args.folders.folders, &args.part)?;
    let question = Question { changes: args.change.clone(), next: args.next.into(), kind: args.part.request.clone() };
    let answer = forecast(&modelled.derived, &question)?;
    let request = args.part.request.as_deref();
    let view = ForecastView::new(&answer, args.part.arrivals.is_none(), request, modelled.derived.lossy);
    let text = if args.answering.json {
        json::document(SCHEMA, &modelled.all_losses(), &view)?
    } else {
        let style = Style::for_stdout();
        format!("{}\n{}", view.render(&typed(&args.folders.folders), style), modelled.told(style))
    };
    out.give(text.as_bytes())?;
    Ok(output::exit_code(&args.answering, modelled.is_touched() || !view.is_complete()))
}
