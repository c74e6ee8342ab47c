//! `wakepath show`.

use crate::cli::ShowArgs;
use crate::output;
use anyhow::{Result, bail};
use wakepath_analysis::names::Names;
use wakepath_analysis::requests::kind_of;
use wakepath_analysis::spans::lay_out;
use wakepath_causality::path::Request;
use wakepath_model::defects::Answer;
use wakepath_model::folder::Folder;
use wakepath_present::json;
use wakepath_present::losses::{self, losses_or_none};
use wakepath_present::show::ShowView;
use wakepath_present::text::Style;

/// What its answer is made of: losses that touch it are told.
const ANSWERS: &[Answer] = &[Answer::Requests];

/// Schema of the JSON answer.
pub const SCHEMA: &str = "wakepath.show/1";

/// Prints one request.
pub fn run(args: &ShowArgs) -> Result<i32> {
    let folder = Folder::open(&args.folder)?;
    let names = Names::read(&folder);
    let wanted = args.request.trim().to_ascii_lowercase();
    let mut found: Option<(u64, Request)> = None;
    let mut others = 0u64;
    wakepath_causality::reconstruct(
        &folder,
        |r| {
            let duration = lay_out(&r).first().map_or(0, |t| t.duration_ns());
            let better = match wanted.as_str() {
                "slowest" => {
                    let of_kind = args.kind.as_ref().is_none_or(|k| {
                        let (service, asked) = kind_of(&r, &names);
                        asked == *k || format!("{service} {asked}") == *k
                    });
                    r.orphan.is_none() && of_kind && found.as_ref().is_none_or(|f| f.0 < duration)
                }
                id => {
                    let hit = format!("{:016x}", r.id).starts_with(id);
                    others += u64::from(hit && found.is_some());
                    hit && found.is_none()
                }
            };
            if better {
                found = Some((duration, r));
            }
        },
        |_, _, _, _| {},
    );
    let Some((_, request)) = found else {
        bail!(
            "no request {:?}{}; `wakepath requests` lists kinds with the ids of their slowest, and `slowest` names the slowest of all",
            args.request,
            args.kind.as_ref().map_or(String::new(), |k| format!(" of kind {k:?}"))
        );
    };
    if others > 0 {
        bail!("{others} more requests begin with {:?}: give more digits", args.request);
    }
    let losses = losses::collect(&folder);
    let line = folder.timeline();
    let wall = |host, at| folder.host(host)?.wall_clock().wall_ns(wakepath_model::ids::MonoNs(at));
    let faults = wakepath_analysis::faults::of_request(&folder, &request);
    let view = ShowView::new(&request, &faults, &names, wall, |host, at| line.common(host, at));
    let text = if args.answering.json {
        json::document(SCHEMA, &losses, &view)?
    } else {
        let style = Style::for_stdout();
        format!("{}\n{}", view.render(style), losses_or_none(&losses, ANSWERS, style))
    };
    output::answer(text.as_bytes())?;
    let touched = losses::touch(&losses, ANSWERS) || !view.complete;
    Ok(output::exit_code(&args.answering, touched))
}
