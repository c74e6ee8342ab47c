//! How and when a host was recorded.

use std::ops::RangeInclusive;
use wakepath_model::defects::{self, Answer, Severity};
use wakepath_model::folder::{Host, TableSet};
use wakepath_model::ids::{MonoNs, TaskId};
use wakepath_model::rows::{Event, Table};

/// Most intervals of losses told apart on a host; further ones are joined to the last.
const LOSSES_MAX: usize = 10_000;

/// How and when a host was recorded.
pub(super) struct Recorded {
    span: (MonoNs, MonoNs),
    /// Tasks and times of each of its recordings.
    recordings: Vec<(RangeInclusive<u32>, MonoNs, MonoNs)>,
    /// Intervals in which wait records were lost, in order, apart from each other.
    losses: Vec<(MonoNs, MonoNs)>,
    /// Everybody on it was watched.
    pub(super) is_whole: bool,
    /// By the preload library and not by the kernel.
    pub(super) is_by_library: bool,
    /// Its programs were handed one input at a time.
    pub(super) is_isolated: bool,
}

impl Recorded {
    pub(super) fn of(host: &Host) -> Recorded {
        let flags = &host.info().flags;
        Recorded {
            span: host.span().unwrap_or_default(),
            recordings: host.recordings(),
            losses: losses(host),
            is_whole: has_flag(flags, "--all"),
            is_by_library: is_by_library(flags),
            is_isolated: has_flag(flags, "--isolate"),
        }
    }

    /// First and last moment of the recording that names `task`; of all where none does.
    pub(super) fn span(&self, task: TaskId) -> (MonoNs, MonoNs) {
        self.recordings.iter().find(|r| r.0.contains(&task.0)).map_or(self.span, |r| (r.1, r.2))
    }

    /// Whether wait records were lost between two moments.
    pub(super) fn lost_between(&self, from: MonoNs, to: MonoNs) -> bool {
        let after = self.losses.partition_point(|l| l.0 < to);
        after.checked_sub(1).is_some_and(|i| self.losses[i].1 > from)
    }
}

/// Whether a loss is one of wait records, and not of something else that answers about waits need too.
fn is_of_waits(what: &str) -> bool {
    let touches =
        defects::find(what).is_some_and(|d| d.severity != Severity::Info && d.touches.contains(&Answer::Waits));
    touches && (what.starts_with("loss.") || what == defects::id::CTF_PACKETS_LOST || defects::hides_rows(what))
}

/// Whether a host was recorded by the preload library and not by the kernel.
fn is_by_library(flags: &[String]) -> bool {
    (has_flag(flags, "--isolate") || has_flag(flags, "--observe")) && !has_flag(flags, "--kernel")
}

fn has_flag(flags: &[String], flag: &str) -> bool {
    flags.iter().any(|f| f.split('=').next() == Some(flag))
}

fn losses(host: &Host) -> Vec<(MonoNs, MonoNs)> {
    let mut out: Vec<(MonoNs, MonoNs)> = Vec::new();
    for event in host.events(TableSet::of(&[Table::Loss]), ..) {
        let Event::Loss(r) = event else { continue };
        if !is_of_waits(host.text(r.what)) {
            continue;
        }
        let (from, to) = (r.from.min(r.at), r.at);
        let is_full = out.len() >= LOSSES_MAX;
        match out.last_mut() {
            Some(last) if from <= last.1 || is_full => {
                last.0 = last.0.min(from);
                last.1 = last.1.max(to);
            }
            _ => out.push((from, to)),
        }
    }
    out
}
