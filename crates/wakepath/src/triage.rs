//! `wakepath triage`: asks what the other commands ask, beside each other and for a bounded time, and shows it on one screen.

use crate::cli::{PartArgs, TriageArgs};
use crate::forecast::{Modelled, typed};
use crate::output::Answers;
use crate::{folders, open, output, progress, requests, why};
use anyhow::{Result, anyhow};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};
use wakepath_analysis::names::Names;
use wakepath_forecast::forecast::{Question, forecast};
use wakepath_present::forecast::ForecastView;
use wakepath_present::info::{self, Info};
use wakepath_present::json;
use wakepath_present::losses::{self, Loss};
use wakepath_present::open::OpenView;
use wakepath_present::requests::RequestsView;
use wakepath_present::text::Style;
use wakepath_present::triage::{Part, Parts, TriageView};
use wakepath_present::why::WhyView;

/// Schema of the JSON answer.
pub const SCHEMA: &str = "wakepath.triage/1";

/// Kinds whose slow requests are looked into.
const KINDS: usize = 2;

/// Where a part's answer comes.
type Awaited<T> = Receiver<Result<T>>;

/// Prints the screen.
pub fn run(args: &TriageArgs, out: &mut Answers) -> Result<i32> {
    let dirs = Arc::new(args.folders.folders.clone());
    // a part that is late would leave its bar after
    progress::hide();
    // what is no folder is said at once
    folders::open(&dirs)?;
    let end = Instant::now() + Duration::from_nanos(args.within.0);
    let (requests, info) = counted(&dirs);
    let (open, why, forecast) = followed(&dirs);
    let requests = part(&requests, end);
    let open = part(&open, end);
    let why = part(&why, end);
    let forecast = part(&forecast, end);
    let (info, losses) = match part(&info, end) {
        Part::Answer((info, losses)) => (Part::Answer(info), losses),
        Part::None(why) => (Part::None(why), Vec::new()),
        Part::Late => (Part::Late, Vec::new()),
    };
    let parts = Parts { requests, why, open, forecast, info, losses };
    let view = TriageView::new(&typed(&dirs), &parts);
    let text = if args.answering.json {
        json::document(SCHEMA, &parts.losses, &view)?
    } else {
        view.render(Style::for_stdout())
    };
    out.give(text.as_bytes())?;
    // parts that are late end with the process
    Ok(output::exit_code(&args.answering, losses::touch_any(&parts.losses) || !view.is_complete()))
}

/// What passes over the rows say.
fn counted(dirs: &Arc<Vec<PathBuf>>) -> (Awaited<RequestsView>, Awaited<(Info, Vec<Loss>)>) {
    let (to_requests, requests) = sync_channel(1);
    let (to_info, info) = sync_channel(1);
    let dirs = Arc::clone(dirs);
    thread::spawn(move || {
        let folder = folders::open(&dirs);
        let counts = folder.map(|folder| {
            let _ = to_requests.send(Ok(requests::view(&folder)));
            let info = info::collect(&folder, &dirs, false);
            // after all that was read: what was found damaged on the way is among them
            let losses = losses::collect(&folder);
            (info, losses)
        });
        let _ = to_info.send(counts);
    });
    (requests, info)
}

/// What follows waits and replays, which needs the index: made once, by the first that asks.
fn followed(dirs: &Arc<Vec<PathBuf>>) -> (Awaited<OpenView>, Awaited<WhyView>, Awaited<ForecastView>) {
    let (to_open, open) = sync_channel(1);
    let (to_why, why) = sync_channel(1);
    let (to_forecast, forecast) = sync_channel(1);
    let dirs = Arc::clone(dirs);
    thread::spawn(move || {
        let indexed = folders::open(&dirs).and_then(|folder| Ok((folders::index(&folder, &dirs)?, folder)));
        match indexed {
            Ok((index, folder)) => {
                let names = Names::read(&folder);
                let (_, view) = open::view(&folder, &index, &names);
                let _ = to_open.send(folders::whole(&index, &dirs).map(|()| view));
                let view = why::slowest_of(&folder, &index, &names, &typed(&dirs), KINDS);
                let _ = to_why.send(folders::whole(&index, &dirs).map(|()| view));
            }
            Err(e) => {
                let why = output::reasons(&e);
                let _ = to_open.send(Err(anyhow!(why.clone())));
                let _ = to_why.send(Err(anyhow!(why)));
            }
        }
        let _ = to_forecast.send(what_limits(&dirs));
    });
    (open, why, forecast)
}

fn what_limits(dirs: &[PathBuf]) -> Result<ForecastView> {
    let modelled = Modelled::read(dirs, &PartArgs::default())?;
    let answer = forecast(&modelled.derived, &Question::default())?;
    Ok(ForecastView::new(&answer, true, None, modelled.derived.lossy))
}

/// An answer, if it comes in time.
fn part<T>(awaited: &Awaited<T>, end: Instant) -> Part<T> {
    match awaited.recv_timeout(end.saturating_duration_since(Instant::now())) {
        Ok(Ok(answer)) => Part::Answer(answer),
        Ok(Err(e)) => Part::None(first_sentence(&output::reasons(&e))),
        Err(RecvTimeoutError::Timeout) => Part::Late,
        Err(RecvTimeoutError::Disconnected) => Part::None("that part of wakepath failed".into()),
    }
}

/// What a screen has room for of an error.
fn first_sentence(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim_end_matches(['.', ':']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_takes_too_long_is_left_out() {
        let (answer, awaited) = sync_channel(1);
        assert!(matches!(part::<u8>(&awaited, Instant::now()), Part::Late));
        let _ = answer.send(Ok(7));
        assert!(matches!(part(&awaited, Instant::now()), Part::Answer(7)));
        drop(answer);
        assert!(matches!(part::<u8>(&awaited, Instant::now()), Part::None(_)), "a thread that panicked is no hang");
    }

    #[test]
    fn an_error_is_told_in_its_first_line() {
        assert_eq!(
            first_sentence("no waits were recorded; record again:\n  wakepath record"),
            "no waits were recorded; record again"
        );
    }
}
