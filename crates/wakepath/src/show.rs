//! `wakepath show`.

use crate::cli::{EvidenceFlag, ShowArgs, usage_error};
use crate::output::Answers;
use crate::proofs;
use crate::{find, folders, output};
use anyhow::Result;
use clap::error::ErrorKind;
use std::path::PathBuf;
use wakepath_analysis::names::Names;
use wakepath_model::defects::Answer;
use wakepath_present::json;
use wakepath_present::losses::{self, losses_or_none};
use wakepath_present::show::ShowView;
use wakepath_present::text::Style;

/// What its answer is made of: losses that touch it are told.
const ANSWERS: &[Answer] = &[Answer::Requests];

/// Schema of the JSON answer.
pub const SCHEMA: &str = "wakepath.show/1";

/// Prints one request, and how its links are known where that is asked.
pub fn run(args: &ShowArgs, evidence: Option<EvidenceFlag>, out: &mut Answers) -> Result<i32> {
    let (dirs, wanted) = match split(&args.what) {
        Ok(split) => split,
        Err(missing) => usage_error("show", ErrorKind::MissingRequiredArgument, missing),
    };
    let folder = folders::open_reduced(dirs)?;
    if !matches!(evidence, None | Some(EvidenceFlag::Shown)) {
        proofs::can_be_found(&folder)?;
    }
    let names = Names::read(&folder);
    let request = find::request(&folder, &names, &wanted, args.kind.as_deref())?;
    let losses = losses::collect(&folder);
    let line = folder.timeline();
    let wall = |host, at| folder.host(host)?.wall_clock().wall_ns(wakepath_model::ids::MonoNs(at));
    let faults = wakepath_analysis::faults::of_request(&folder, &request);
    let mut view = ShowView::new(&request, &faults, &names, wall, |host, at| line.common(host, at));
    view.proofs = match evidence {
        None | Some(EvidenceFlag::Shown) => None,
        Some(EvidenceFlag::All) => Some(proofs::of(&folder, &names, &request, None)),
        Some(EvidenceFlag::Span(span)) if (span as usize) < request.spans.len() => {
            Some(proofs::of(&folder, &names, &request, Some(span)))
        }
        Some(EvidenceFlag::Span(span)) => {
            anyhow::bail!("request {} has no span {span}: its spans are 0 to {}", view.request, request.spans.len() - 1)
        }
    };
    let text = if args.answering.json {
        json::document(SCHEMA, &losses, &view)?
    } else {
        let style = Style::for_stdout();
        format!("{}\n{}", view.render(style), losses_or_none(&losses, ANSWERS, style))
    };
    out.give(text.as_bytes())?;
    let touched = losses::touch(&losses, ANSWERS) || !view.complete;
    Ok(output::exit_code(&args.answering, touched))
}

/// The folders, and the request that stands behind them; or which of them is missing.
pub fn split(what: &[PathBuf]) -> Result<(&[PathBuf], String), &'static str> {
    match what.split_last() {
        None => Err("the trace folder <DIR> and the request <REQUEST> are missing"),
        Some((last, _)) if last.is_dir() => {
            Err("<REQUEST> is missing: an id or its first digits, or `slowest`, after <DIR>")
        }
        Some((_, [])) => Err("<DIR> is missing: the trace folder, before the request"),
        Some((last, dirs)) => Ok((dirs, last.to_string_lossy().into_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let dir = std::env::temp_dir();
        let words = |words: &[&str]| words.iter().map(PathBuf::from).collect::<Vec<_>>();
        let folder = dir.to_string_lossy().into_owned();
        assert!(split(&[]).is_err_and(|e| e.contains("<DIR>") && e.contains("<REQUEST>")));
        assert!(split(&words(&[&folder])).is_err_and(|e| e.starts_with("<REQUEST>")));
        assert!(split(&words(&["slowest", &folder])).is_err_and(|e| e.starts_with("<REQUEST>")));
        assert!(split(&words(&["slowest"])).is_err_and(|e| e.starts_with("<DIR>")));
        assert_eq!(split(&words(&["a", "b", "8d27"])), Ok((&words(&["a", "b"])[..], "8d27".to_owned())));
    }
}
