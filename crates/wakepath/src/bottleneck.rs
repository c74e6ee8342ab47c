//! `wakepath bottleneck`.

use crate::cli::BottleneckArgs;
use crate::forecast::{Modelled, typed};
use crate::output::{self, Answers};
use anyhow::{Result, bail};
use wakepath_forecast::bottleneck::{find, margins};
use wakepath_forecast::calibration::calibrate;
use wakepath_forecast::forecast::{coming, kind_of, lay_out, no_kind, score, trusted};
use wakepath_forecast::replay::{Options, replay};
use wakepath_forecast::slack::slack;
use wakepath_present::bottleneck::{
    ArrivalsView, BottleneckView, BottlenecksView, FlowView, MarginView, PathView, Scope, SlackView,
};
use wakepath_present::calibration::CalibrationView;
use wakepath_present::json;
use wakepath_present::text::Style;

/// Schema of the JSON answer.
pub const SCHEMA: &str = "wakepath.bottleneck/1";

/// Prints the critical path and what limits.
pub fn run(args: &BottleneckArgs, out: &mut Answers) -> Result<i32> {
    let modelled = Modelled::read(&args.folders.folders, &args.part)?;
    let derived = &modelled.derived;
    let system = lay_out(&derived.model);
    let kind = match &args.part.request {
        Some(name) => Some(kind_of(&system, name).ok_or_else(|| no_kind(&system, name))?),
        None => None,
    };
    let outcome = replay(&system, &Options::default());
    if outcome.steps == 0 {
        bail!("the recording has nothing that could be replayed; `wakepath info` shows what it holds");
    }
    let calibration = calibrate(derived, &system, &outcome, kind);
    trusted(&calibration, derived)?;
    let score = score(&derived.model, kind);
    let found = find(&system, &outcome, score);
    let margins = margins(&system, &outcome, &found, score);
    let coming = coming(&derived.model);
    let mut assumptions = derived.assumptions.clone();
    let view = BottlenecksView {
        calibration: CalibrationView::new(&calibration),
        arrivals: ArrivalsView::new(&coming, args.part.arrivals.is_none(), &mut assumptions),
        path: PathView::new(&system, &outcome, Scope::of(&coming, kind, &outcome)),
        bottleneck: BottleneckView::new(&system, &found),
        margins: margins.iter().map(|m| MarginView::new(&system, m)).collect(),
        slack: slack(&system).iter().map(|s| SlackView::new(&system, s)).collect(),
        flows: derived.flows.iter().map(FlowView::new).collect(),
        assumptions,
        stuck: outcome.stuck.clone(),
        lossy: derived.lossy,
    };
    let text = if args.answering.json {
        json::document(SCHEMA, &modelled.all_losses(), &view)?
    } else {
        let style = Style::for_stdout();
        format!("{}\n{}", view.render(&typed(&args.folders.folders), style), modelled.told(style))
    };
    out.give(text.as_bytes())?;
    Ok(output::exit_code(&args.answering, modelled.is_touched() || !view.stuck.is_empty()))
}
