//! `wakepath metrics`.

mod packets;
mod rows;

use crate::cli::MetricsArgs;
use crate::output::{self, Answers};
use anyhow::{Result, bail};
use wakepath_analysis::metrics::{Metrics, MetricsOptions, Window};
use wakepath_model::defects::Answer;
use wakepath_present::losses::Loss;
use wakepath_present::metrics::{CaptureView, MetricsView, Part, SCHEMA, Seen, Wanted, prometheus};
use wakepath_present::text::Style;
use wakepath_present::{json, losses};

/// What was counted, by vantage, the best one first.
struct Counted {
    parts: Vec<(Seen, Metrics)>,
    capture: Option<CaptureView>,
    losses: Vec<Loss>,
}

/// Prints the metrics of folders or of capture files.
pub fn run(args: &MetricsArgs, out: &mut Answers) -> Result<i32> {
    let folders = args.sources.iter().filter(|s| s.is_dir()).count();
    let mut counted = match folders {
        0 => packets::read(args)?,
        n if n == args.sources.len() => rows::read(args)?,
        _ => bail!("give trace folders, or capture files, and not both: their figures would be mixed"),
    };
    let windows: Vec<Vec<Window>> = counted.parts.iter_mut().map(|(_, m)| m.take_windows()).collect();
    let parts: Vec<Part<'_>> = counted
        .parts
        .iter()
        .zip(&windows)
        .map(|((seen, metrics), windows)| Part { seen: *seen, metrics, windows })
        .collect();
    let wanted = Wanted {
        service: args.service.clone(),
        kinds: args.kinds,
        rows: args.limit,
        window_ns: args.window.map(|w| w.0),
        map: args.map,
    };
    let view = MetricsView::new(&parts, counted.capture, wanted);
    if let (Some(wanted), true) = (&args.service, view.services.is_empty()) {
        bail!("no service {wanted:?}; there are: {}", listed(&parts));
    }
    let losses = &counted.losses;
    if args.prometheus {
        let text = prometheus::render(&parts, args.service.as_deref(), counted.capture.map(|c| c.packets));
        out.give(text.as_bytes())?;
    } else if args.answering.json {
        out.give_with(|mut to| json::write(&mut to, SCHEMA, losses, &view))?;
    } else {
        out.give(view.render(losses, Style::for_stdout()).as_bytes())?;
    }
    let touched = losses::touch(losses, &[Answer::Metrics]) || !view.is_whole();
    Ok(output::exit_code(&args.answering, touched))
}

/// How it is counted, as far as the arguments say.
fn options(args: &MetricsArgs) -> Result<MetricsOptions> {
    let defaults = MetricsOptions::default();
    Ok(match args.window {
        Some(w) if w.0 == 0 => bail!("--window: give a length above 0, as 10s"),
        Some(w) => MetricsOptions { window_ns: w.0, ..defaults },
        None => MetricsOptions { window_rows_max: 0, ..defaults },
    })
}

/// The busiest services, for who asked for one that is not there.
fn listed(parts: &[Part<'_>]) -> String {
    const LISTED: usize = 10;
    let all = Wanted { service: None, kinds: 1, rows: 0, window_ns: None, map: false };
    let view = MetricsView::new(parts, None, all);
    let mut names: Vec<String> = view.services.iter().take(LISTED).map(|s| s.service.clone()).collect();
    match view.services.len() {
        0 => names.push("none".into()),
        n if n > LISTED => names.push(format!("and {} more", n - LISTED)),
        _ => {}
    }
    names.join(", ")
}
