//! What was lost, next to the answers that it may have touched: from the recording's loss rows, and from what was found
//! wrong while reading.

use crate::text::{Style, Tint, wrap};
use crate::units;
use serde::Serialize;
use std::collections::BTreeMap;
use wakepath_forecast::derived::Warning;
use wakepath_model::defects::{self, Answer, Severity};
use wakepath_model::folder::Folder;
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
            ..loss(id, count)
        }));
    }
    out.extend(
        folder
            .defects()
            .into_iter()
            .map(|d| Loss { place: d.first.map(|f| f.to_string()), ..loss(d.defect.id, d.count) }),
    );
    out
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
    if told.is_empty() { "Lost: nothing.\n".into() } else { format!("Lost:\n{}", render(&told, style)) }
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
            prose.push_str(&format!(" May touch: {}.", l.touches.join(", ")));
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

    #[test]
    fn what_is_not_known_is_a_warning_about_everything() {
        let l = loss("loss.of_the_future", 3);
        assert_eq!((l.severity, l.touches.len()), ("warning", ANSWERS.len()));
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
        let told = |id, answers| losses_or_none(&[loss(id, 1)], answers, Style::default()) != "Lost: nothing.\n";
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
