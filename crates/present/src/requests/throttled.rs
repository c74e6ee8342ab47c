//! CPU quotas that held services back.

use crate::units;
use serde::Serialize;
use wakepath_analysis::throttled::Throttled;

/// A quota is worth a sentence where it held processes back for this part of the recording, or longer.
const SHARE_MIN: f64 = 0.05;

/// A cgroup whose CPU quota held processes back.
#[derive(Serialize)]
pub struct ThrottledView {
    /// The cgroup: its path in the hierarchy of the processors.
    pub cgroup: String,
    /// The process that it held back longest: NAME/PID.
    pub process: String,
    /// How many processes it held back.
    pub processes: u64,
    /// Processor time that the cgroup gets in each period (ns).
    pub quota_ns: u64,
    /// The period (ns).
    pub period_ns: u64,
    /// For how long one or more threads were ready to run, and the quota was used up (ns).
    pub held_ns: u64,
    /// How long the host was recorded (ns).
    pub recorded_ns: u64,
    /// The same in words.
    pub sentence: String,
}

impl ThrottledView {
    pub(super) fn new(process: &str, t: &Throttled) -> ThrottledView {
        let others = match t.processes.saturating_sub(1) {
            0 => String::new(),
            n => format!(" and {}", units::counted(n, "other process", "other processes")),
        };
        let sentence = format!(
            "The CPU quota of the cgroup {} ({} in each {}) was used up for {} of {} while threads of {process}{others} were ready \
             to run. Remedy: raise the quota, or compute less.",
            t.cgroup,
            units::duration(t.quota_ns.0),
            units::duration(t.quota_ns.1),
            units::duration(t.held_ns),
            units::duration(t.recorded_ns),
        );
        ThrottledView {
            cgroup: t.cgroup.clone(),
            process: process.to_owned(),
            processes: t.processes,
            quota_ns: t.quota_ns.0,
            period_ns: t.quota_ns.1,
            held_ns: t.held_ns,
            recorded_ns: t.recorded_ns,
            sentence,
        }
    }

    /// Whether it held processes back for so long that it is worth a sentence.
    pub(crate) fn is_worth_a_sentence(&self) -> bool {
        self.held_ns as f64 >= SHARE_MIN * self.recorded_ns as f64
    }

    /// Whether a service, `NAME:PORT`, is of the process that it held back longest.
    pub(crate) fn is_of(&self, service: &str) -> bool {
        let program = self.process.rsplit_once('/').map_or(self.process.as_str(), |p| p.0);
        service.rsplit_once(':').is_some_and(|s| s.0 == program || s.0.ends_with(&format!("/{program}")))
    }
}
