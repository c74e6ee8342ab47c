//! What was lost, next to the answers that it may have touched: from the recording's loss rows, and from what was found
//! wrong while reading.

use crate::text::{Style, Tint, wrap};
use crate::units;
use serde::Serialize;
use std::collections::BTreeMap;
use wakepath_forecast::derived::Warning;
use wakepath_model::defects::{self, Answer, Severity};
use wakepath_model::folder::{Folder, Host, Missing};
use wakepath_model::ids::MonoNs;
use wakepath_model::rows::{LossRow, Table};

/// One kind of loss on one host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Loss {
    /// Defect id.
    pub id: String,
    /// `info`, `warning` or `error`.
    pub severity: &'static str,
    /// How many.
    pub count: u64,
    /// The host whose recording says so; none for what was found while reading.
    pub host: Option<String>,
    /// Begin of the time in which it happened, on the host's monotonic clock.
    pub from_ns: Option<u64>,
    /// End of that time.
    pub to_ns: Option<u64>,
    /// Where it was met first (file and byte).
    pub place: Option<String>,
    /// Which answers it may touch.
    pub touches: Vec<&'static str>,
    /// What happened.
    pub meaning: String,
    /// What to do.
    pub remedy: String,
}

/// More kinds on one host are not told apart: ids are a short list, and damage must not make it a long one.
const KINDS_MAX: usize = 256;

/// What all recordings of a folder say that they lost, and what reading found so far: call it after reading.
pub fn collect(folder: &Folder) -> Vec<Loss> {
    let mut out = Vec::new();
    for (host, name) in folder.hosts().iter().zip(crate::parquet::host_names(folder)) {
        let mut by_id: BTreeMap<&str, (u64, u64, u64)> = BTreeMap::new();
        for batch in host.batches(Table::Loss.into(), ..) {
            for row in batch.rows::<LossRow>() {
                let mut id = host.text(row.what);
                if by_id.len() >= KINDS_MAX && !by_id.contains_key(id) {
                    id = wakepath_model::folder::UNDEFINED_TEXT;
                }
                let sum = by_id.entry(id).or_insert((0, u64::MAX, 0));
                *sum = (sum.0.saturating_add(row.count), sum.1.min(row.from.0), sum.2.max(row.at.0));
            }
        }
        out.extend(by_id.into_iter().map(|(id, (count, from, to))| Loss {
            host: Some(name.clone()),
            from_ns: Some(from),
            to_ns: Some(to),
            place: place_of(host, id),
            ..loss(id, count)
        }));
    }
    // what is missing stands among the rows already
    let among_rows = |id: &str| folder.hosts().iter().any(|h| h.missing().iter().any(|m| m.defect == id));
    let found = folder.defects().into_iter().filter(|d| !among_rows(d.defect.id));
    out.extend(found.map(|d| Loss { place: d.first.map(|f| f.to_string()), ..loss(d.defect.id, d.count) }));
    out
}

/// Where the first of a kind should be that is missing of a host's recordings; how many rows all of it had, and when.
fn place_of(host: &Host, id: &str) -> Option<String> {
    let missing: Vec<&Missing> = host.missing().iter().filter(|m| m.defect == id).collect();
    let first = missing.first()?;
    let rows = missing.iter().try_fold(0, |sum: u64, m| Some(sum.saturating_add(m.rows?)));
    let rows = rows.map_or("an unknown number of rows".to_owned(), |n| format!("{} rows", units::count(n)));
    let from = missing.iter().map(|m| m.from).min()?;
    let to = missing.iter().map(|m| m.to).max()?;
    let begin = host.span().map_or(from, |span| span.0.min(from));
    let since = |at: MonoNs| units::duration(at.0.saturating_sub(begin.0));
    Some(format!("{}; {rows}, from +{} to +{}", first.path.display(), since(from), since(to)))
}

/// A loss of which no more is known than how often.
pub fn loss(id: &str, count: u64) -> Loss {
    let known = defects::find(id);
    Loss {
        id: id.to_owned(),
        severity: known.map_or(Severity::Warning, |d| d.severity).name(),
        count,
        host: None,
        from_ns: None,
        to_ns: None,
        place: None,
        touches: known.map_or(ANSWERS, |d| d.touches).iter().map(|a| a.name()).collect(),
        meaning: known.map_or("A loss that this version does not know.", |d| d.meaning).to_owned(),
        remedy: known
            .map_or("Read the folder with the version that wrote it, or a later one.", |d| d.remedy)
            .to_owned(),
    }
}

/// What contradicts itself in annotations: of each kind how often, and where first.
pub fn contradictions(warnings: &[Warning]) -> Vec<Loss> {
    let of = |w: &Warning| Loss { place: Some(w.place()).filter(|p| !p.is_empty()), ..loss(w.defect, w.count) };
    warnings.iter().map(of).collect()
}

const ANSWERS: &[Answer] =
    &[Answer::Requests, Answer::Waits, Answer::CriticalPath, Answer::Forecast, Answer::Metrics, Answer::Names];

/// Whether any of the losses may touch one of these answers: what `--strict` asks.
pub fn touch(losses: &[Loss], answers: &[Answer]) -> bool {
    losses.iter().any(|l| l.severity != Severity::Info.name() && answers.iter().any(|a| l.touches.contains(&a.name())))
}

/// Whether any of the losses may touch any answer.
pub fn touch_any(losses: &[Loss]) -> bool {
    touch(losses, ANSWERS)
}

/// Losses in words, or that there were none. A note that touches none of these answers, and no name in them, is for
/// `wakepath info` to tell.
pub fn losses_or_none(losses: &[Loss], answers: &[Answer], style: Style) -> String {
    let concerns = |l: &Loss| answers.iter().chain(&[Answer::Names]).any(|a| l.touches.contains(&a.name()));
    let told: Vec<Loss> =
        losses.iter().filter(|l| l.severity != Severity::Info.name() || concerns(l)).cloned().collect();
    let heading = match told.iter().all(|l| l.severity == Severity::Info.name()) {
        true if told.is_empty() => return "No data lost.\n".into(),
        true => "No data lost. Notes:",
        false => "Lost:",
    };
    format!("{heading}\n{}", render(&told, style))
}

/// The losses in words, the worst first: what, how many, what they touch, what to do.
pub fn render(losses: &[Loss], style: Style) -> String {
    let rank = |l: &Loss| match l.severity {
        "error" => 0,
        "warning" => 1,
        _ => 2,
    };
    let mut sorted: Vec<&Loss> = losses.iter().collect();
    sorted.sort_by_key(|l| rank(l));
    let mut out = String::new();
    for l in sorted {
        let (mark, tint) = match l.severity {
            "error" => ("ERROR", Tint::Bad),
            "warning" => ("warning", Tint::Warn),
            _ => ("note", Tint::Dim),
        };
        let host = l.host.as_ref().map_or(String::new(), |h| format!(" on {}", crate::text::sanitise(h)));
        out.push_str(&format!(
            "  {} {} × {}{host}\n",
            style.paint(mark, tint),
            crate::text::sanitise(&l.id),
            units::count(l.count),
        ));
        let mut prose = l.meaning.clone();
        if !l.touches.is_empty() {
            prose.push_str(&format!(" May affect: {}.", l.touches.join(", ")));
        }
        out.push_str(&wrap(&prose, "    ", style.prose()));
        if let Some(place) = &l.place {
            let place = format!("First at {}.", crate::text::sanitise(place));
            out.push_str(&wrap(&place, "    ", style.prose()));
        }
        out.push_str(&wrap(&format!("→ {}", l.remedy), "    ", style.prose()));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakepath_model::defects::id;
    use wakepath_model::folder::{Durability, FolderWriter, HostInfo, Options};
    use wakepath_model::rows::AnchorRow;

    #[test]
    fn what_is_not_known_is_a_warning_about_everything() {
        let l = loss("loss.of_the_future", 3);
        assert_eq!((l.severity, l.touches.len()), ("warning", ANSWERS.len()));
    }

    #[test]
    fn a_removed_segment_is_told_with_its_rows_and_times() -> Result<(), Box<dyn std::error::Error>> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("t");
        let options = Options { max_segment_bytes: 1, ..Options::default() };
        let mut w = FolderWriter::create(&path, HostInfo { hostname: "web".into(), ..HostInfo::default() }, options)?;
        for segment in 0..3u64 {
            for i in 0..5 {
                let at = MonoNs(7_000_000_000 + segment * 1_000_000_000 + i * 1_000_000);
                w.push(&AnchorRow { at, real_ns: 0, error_ns: 0, ..Default::default() });
            }
            w.flush(Durability::Write)?;
        }
        let gone = w.host_dir().join("00000001.seg");
        w.close()?;
        assert!(
            losses_or_none(&collect(&Folder::open(&[&path])?), ANSWERS, Style::default()).contains("No data lost.")
        );
        std::fs::remove_file(&gone)?;
        let losses = collect(&Folder::open(&[&path])?);
        let [l] = &losses[..] else { return Err(format!("one loss: {losses:?}").into()) };
        assert_eq!((l.id.as_str(), l.count, l.host.as_deref()), (id::FOLDER_SEGMENT, 1, Some("web")));
        assert_eq!((l.from_ns, l.to_ns), (Some(8_000_000_000), Some(8_004_000_000)));
        let text = render(&losses, Style::default()).replace("\n    ", " ");
        assert!(text.contains("00000001.seg; 5 rows, from +1.00 s to +1.00 s"), "{text}");
        assert!(touch(&losses, &[Answer::Requests]));
        Ok(())
    }

    #[test]
    fn strict_minds_what_touches_the_answer() {
        let info = loss(id::FLIGHT_SEGMENTS, 1);
        let waits = loss(id::RING_WAIT, 1);
        assert!(!touch_any(&[info]));
        assert!(touch(std::slice::from_ref(&waits), &[Answer::Waits]));
        assert!(!touch(&[waits], &[Answer::Metrics]));
    }

    #[test]
    fn only_notes_are_left_to_info_and_only_where_they_touch_nothing_that_was_asked() {
        let told = |id, answers| losses_or_none(&[loss(id, 1)], answers, Style::default()) != "No data lost.\n";
        assert!(!told(id::WAIT_END, &[Answer::Requests]) && told(id::WAIT_END, &[Answer::Waits]));
        assert!(told(id::STRING_OVERFLOW, &[Answer::Requests]), "requests have names");
        assert!(told(id::RING_WAIT, &[Answer::Metrics]), "no loss is hidden");
    }

    #[test]
    fn the_worst_comes_first_within_100_columns() {
        let all: Vec<Loss> = defects::ALL.iter().map(|d| loss(d.id, 1)).collect();
        let text = render(&all, Style::default());
        assert!(text.lines().all(|l| crate::text::columns(l) <= crate::text::WIDTH_MAX));
        let last_error = text.rfind("  ERROR");
        assert!(last_error < text.find("  warning"), "{text}");
    }
}
