//! What sentences call the two sides of a comparison.

use crate::requests::part::within;
use std::path::PathBuf;
use wakepath_analysis::selection::Selection;
use wakepath_present::units;

/// A side of a comparison: requests of `dirs`, whose recording goes over `whole` (ns since 1970). Where both sides are of the
/// same folders (`is_same`), it is called by its period; else by its folders, with the period where one is selected.
pub fn name(dirs: &[PathBuf], selection: &Selection, whole: (i64, i64), is_same: bool) -> String {
    let (from, to) = within(whole, selection);
    let at = |ns: i64| format!("+{}", units::duration(u64::try_from(ns.saturating_sub(whole.0)).unwrap_or(0)));
    let period = format!("{} to {}", at(from), at(to));
    let folders = dirs.iter().map(|d| d.display().to_string()).collect::<Vec<_>>().join(" ");
    match (is_same, selection.from.or(selection.to)) {
        (true, _) => format!("the period {period}"),
        (false, None) => folders,
        (false, Some(_)) => format!("{folders} ({period})"),
    }
}
