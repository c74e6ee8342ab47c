//! `wakepath requests --common`: what the selected requests have in common and the others have not.

use crate::losses::{Loss, losses_or_none};
use crate::table::{Cell, Column, Table};
use crate::text::{Style, wrap};
use crate::units;
use serde::Serialize;
use wakepath_analysis::common::Common;
use wakepath_model::defects::Answer;

/// A value of an attribute.
#[derive(Clone, Debug, Serialize)]
pub struct ValueView {
    /// What requests differ by.
    pub attribute: &'static str,
    /// Its value.
    pub value: String,
    /// Selected requests that have it.
    pub selected: u64,
    /// Others that have it.
    pub others: u64,
    /// The share of the selected that have it (0 to 1).
    pub selected_share: f64,
    /// The share of the others.
    pub others_share: f64,
}

/// The whole answer.
#[derive(Clone, Debug, Serialize)]
pub struct CommonView {
    /// Selected requests.
    pub selected: u64,
    /// The others: of the kind that is asked for, or all.
    pub others: u64,
    /// Of the selected, those whose main cause is known: shares of causes are of these.
    pub selected_with_cause: u64,
    /// Of the others.
    pub others_with_cause: u64,
    /// Values by how much their shares differ, the largest difference first.
    pub values: Vec<ValueView>,
    /// Further values whose shares differ less.
    pub further: u64,
}

impl CommonView {
    /// Of what was found, at most `limit` values (0 = all).
    pub fn new(common: &Common, limit: usize) -> CommonView {
        let ranked = common.ranked();
        let shown = if limit == 0 { ranked.len() } else { limit.min(ranked.len()) };
        let value = |&(attribute, value, having, _): &(_, &str, _, f64)| {
            let (selected_share, others_share) = common.shares(attribute, having);
            ValueView {
                attribute: attribute.name(),
                value: value.to_owned(),
                selected: having.selected,
                others: having.others,
                selected_share,
                others_share,
            }
        };
        CommonView {
            selected: common.selected,
            others: common.others,
            selected_with_cause: common.selected_with_cause,
            others_with_cause: common.others_with_cause,
            values: ranked[..shown].iter().map(value).collect(),
            further: (ranked.len() - shown) as u64,
        }
    }

    /// As text for a terminal.
    pub fn render(&self, losses: &[Loss], style: Style) -> String {
        let mut out = String::new();
        let compared = format!(
            "{} selected, {} not. Shares of causes are of the {} and {} whose main cause is known.",
            units::counted(self.selected, "request is", "requests are"),
            units::count(self.others),
            units::count(self.selected_with_cause),
            units::count(self.others_with_cause)
        );
        out.push_str(&wrap(&compared, "", style.prose()));
        if self.selected == 0 || self.others == 0 {
            out.push_str("There is nothing to compare: select some requests, and not all of them.\n");
        } else if self.values.is_empty() {
            out.push_str("They differ in no attribute.\n");
        } else {
            let mut t = Table::new(&[
                Column::text("attribute"),
                Column::number("selected"),
                Column::number("others"),
                Column::text("value"),
            ]);
            for v in &self.values {
                t.row([
                    Cell::from(v.attribute),
                    Cell::from(share(v.selected_share)),
                    Cell::from(share(v.others_share)),
                    Cell::from(&v.value),
                ]);
            }
            out.push_str(&t.render(style));
            if self.further > 0 {
                let more = units::counted(self.further, "further value differs", "further values differ");
                out.push_str(&wrap(&format!("{more} less (--limit 0 shows all)."), "", style.prose()));
            }
        }
        out.push_str(&losses_or_none(losses, &[Answer::Requests, Answer::CriticalPath], style));
        out
    }
}

/// A share as people read it: `12.3 %`.
fn share(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}
