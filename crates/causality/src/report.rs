//! What came of a reconstruction: counts, of each host and of all.

use crate::evidence::{Missing, Rule};
use crate::finished::Calls;
use crate::path::Linked;
use crate::sniffed::OnWire;
use rustc_hash::FxHashMap;
use wakepath_model::ids::{HostId, TaskId};

/// What came of a reconstruction, besides the requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Counts of the assembler.
    pub linked: Linked,
    /// What came of calls, as each host's own vantage saw them.
    pub calls: Calls,
    /// What would have told whose the open calls are, and how many of them, by the process that made them (its leading task).
    pub missing: FxHashMap<(Missing, HostId, TaskId), u64>,
    /// Links inside components, by rule.
    pub made: FxHashMap<Rule, u64>,
    /// Where a witness on the wire contradicted the rule of another vantage.
    pub disagreements: u64,
    /// Socket operations read in the second pass.
    pub operations: u64,
    /// Most exchanges held at once.
    pub held_max: usize,
    /// What sniffers saw.
    pub on_wire: OnWire,
}

/// What came of one host.
#[derive(Default)]
pub(crate) struct HostReport {
    /// Links inside components, by rule.
    pub(crate) made: FxHashMap<Rule, u64>,
    /// What would have told whose the open calls are, and how many of them, by the leading task of the process that made them.
    pub(crate) missing: FxHashMap<(Missing, TaskId), u64>,
    pub(crate) calls: Calls,
    pub(crate) operations: u64,
    pub(crate) held_max: usize,
}

impl Report {
    /// A host was read to its end.
    pub(crate) fn add_host(&mut self, host: HostId, of: HostReport) {
        for (rule, n) in of.made {
            *self.made.entry(rule).or_default() += n;
        }
        for ((missing, leader), n) in of.missing {
            *self.missing.entry((missing, host, leader)).or_default() += n;
        }
        self.calls.add(&of.calls);
        self.operations += of.operations;
        self.held_max = self.held_max.max(of.held_max);
    }

    /// Requests were given by way of what sniffers saw.
    pub(crate) fn add(&mut self, on_wire: &OnWire) {
        (self.linked.requests, self.linked.complete, self.linked.orphans) = on_wire.given;
        for (made, of) in [(&on_wire.made, &mut self.made), (&on_wire.joined, &mut self.linked.joined)] {
            for (rule, n) in made {
                *of.entry(*rule).or_default() += n;
            }
        }
        self.disagreements += on_wire.disagreements;
        self.held_max = self.held_max.max(on_wire.held_max);
        self.on_wire = on_wire.clone();
    }
}
