//! Items that are not followed: they come to a machine when they came, whatever happens to those that are.

use crate::system::{Actor, NOT_SEEN, Queue, QueueId, QueueKind, Runs, ScriptId, StateId, Step, WhenFull};
use rustc_hash::FxHashMap;

/// What stands for all who give other items to a machine.
struct Source {
    machine: u32,
    /// When the last item came.
    last: i64,
}

/// The sources, each with a queue and a script after those of the machines.
pub(super) struct Elsewhere {
    begin: i64,
    first_queue: u32,
    first_script: u32,
    of: FxHashMap<u32, u32>,
    sources: Vec<Source>,
    /// Steps that were not fetched yet.
    pub steps: Vec<(ScriptId, Step)>,
}

impl Elsewhere {
    /// Of a recording whose first mark is at `begin`; queues and scripts with lower numbers are taken.
    pub fn new(begin: i64, first_queue: usize, first_script: usize) -> Elsewhere {
        let (first_queue, first_script) = (first_queue as u32, first_script as u32);
        Elsewhere { begin, first_queue, first_script, of: FxHashMap::default(), sources: Vec::new(), steps: Vec::new() }
    }

    /// An item came at `at`, told as work of `state`. Gives the queue from which the machine takes it.
    pub fn put(&mut self, machine: u32, at: i64, state: u32) -> u32 {
        let next = self.sources.len() as u32;
        let id = *self.of.entry(machine).or_insert(next);
        if id == next {
            self.sources.push(Source { machine, last: self.begin });
        }
        let source = &mut self.sources[id as usize];
        let ns = at.saturating_sub(source.last).max(0) as u64;
        source.last = source.last.max(at);
        let (script, queue) = (ScriptId(self.first_script + id), self.first_queue + id);
        self.steps.push((script, Step::Work { state: StateId(state), ns }));
        self.steps.push((script, Step::Enqueue { queue: QueueId(queue), count: 1, latency_ns: NOT_SEEN }));
        queue
    }

    /// The machines that the sources are of, in their order.
    pub fn machines(&self) -> impl Iterator<Item = u32> + '_ {
        self.sources.iter().map(|s| s.machine)
    }

    /// Their queue, of a machine of that name.
    pub fn queue(name: &str) -> Queue {
        Queue {
            name: name.to_owned(),
            kind: QueueKind::Annotated,
            capacity: None,
            initial: 0,
            delay_ns: 0,
            ns_per_item: 0.0,
            when_full: WhenFull::Wait,
            is_bytes: false,
        }
    }

    /// Their actor: of the source with that number.
    pub fn actor(&self, number: u32, name: &str) -> Actor {
        Actor { name: name.to_owned(), start_ns: 0, runs: Runs::Script(ScriptId(self.first_script + number)) }
    }
}
