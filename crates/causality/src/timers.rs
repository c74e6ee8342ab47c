//! How exactly programs set their timers.

/// Time-outs are given in rounded milliseconds: timers may be due that much earlier (ns).
pub(crate) const TIMER_GRAIN_NS: u64 = 2_000_000;
