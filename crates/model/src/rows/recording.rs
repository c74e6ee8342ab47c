//! What a recording says of itself.

use crate::ids::{MonoNs, StrId};
use crate::table;

table! {
    /// Something lost, or not told apart.
    LossRow {
        /// End of the interval in which it was lost.
        at: MonoNs,
        /// Begin of that interval.
        from: MonoNs => near().named("from_ns"),
        /// How many.
        count: u64,
        /// Defect id (`loss.ring.op`): the central list is [`crate::defects`].
        what: StrId => always(),
        /// Zero.
        pad: [u8; 4],
    }
}

table! {
    /// The same instant on two clocks.
    AnchorRow {
        /// Monotonic time.
        at: MonoNs,
        /// Wall-clock time, ns since 1970.
        real_ns: u64,
        /// Uncertainty of the pair, ns.
        error_ns: u64,
    }
}
