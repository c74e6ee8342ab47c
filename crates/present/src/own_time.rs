//! A time of a service's own, of which a part may be time of calls that nobody could assign to a request.

use crate::units;

/// What "≤" before such a time means.
pub(crate) const AT_MOST: &str =
    "≤: some calls could not be assigned to a request. Time spent waiting for them is in this figure too.";

/// So much of it may be time of missing calls that it must be said: more than a hundredth. Both in ns.
pub(crate) fn is_unsure(self_ns: u64, unsure_ns: u64) -> bool {
    unsure_ns > self_ns / 100
}

/// What stands before a figure made of it.
pub(crate) fn at_most(self_ns: u64, unsure_ns: u64) -> &'static str {
    if is_unsure(self_ns, unsure_ns) { "≤ " } else { "" }
}

/// It, for people.
pub(crate) fn own_time(self_ns: u64, unsure_ns: u64) -> String {
    format!("{}{}", at_most(self_ns, unsure_ns), units::duration(self_ns))
}
