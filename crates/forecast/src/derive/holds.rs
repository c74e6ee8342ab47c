//! What of there is a number of was taken and given back, by whom and when: the common result of [`super::pools`] and
//! [`super::locks`].

use super::disks::{self, Disks};
use super::locks::{self, Interpreter};
use super::pools;
use super::visits::Visits;
use crate::jobs::{Pool, PoolId};
use wakepath_analysis::names::Names;
use wakepath_causality::path::Request;
use wakepath_graph::Index;
use wakepath_model::ids::{HostId, MonoNs, TaskId};

/// All that requests had to take turns at.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Pools of connections, then locks.
    pub tokens: Tokens,
    /// Processes that run one thread at a time: what they compute is served by a station of one server each.
    pub interpreters: Vec<Interpreter>,
    /// Disks.
    pub disks: Disks,
}

/// Finds pools, locks, interpreters and disks in the waits of those who served `requests`. Memory: some 100 bytes a visit
/// and a wait.
pub fn find(index: &Index, names: &Names<'_>, requests: &[Request]) -> Found {
    let visits = Visits::of(names, requests);
    let (interpreters, turns, waits) = locks::waits(index, names, &visits);
    let pools = pools::find(index, names, requests, &visits, &turns);
    let locks = locks::find(index, names, requests, &visits, &pools, waits);
    Found { tokens: turns.join(pools).join(locks), interpreters, disks: disks::find(index, names, &visits) }
}

/// One of a pool, or a lock, in the hands of a task that serves a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The host whose clock the times are of.
    pub host: HostId,
    /// Who held it: a logical task, or a task.
    pub task: TaskId,
    /// Of [`Tokens::pools`].
    pub pool: PoolId,
    /// When it wanted it; equal to `taken` where it did not wait.
    pub asked: MonoNs,
    /// From when it had it.
    pub taken: MonoNs,
    /// Until when.
    pub given: MonoNs,
}

/// Pools and locks, who held them, and which waits were for nothing but their turn.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    /// What there is a number of.
    pub pools: Vec<Pool>,
    /// What finding them took for granted, a sentence each.
    pub assumptions: Vec<String>,
    /// What could not be seen, with what would show it, a sentence each.
    pub unseen: Vec<String>,
    /// By host, task and `taken`.
    holds: Vec<Hold>,
    /// Begins of waits for a turn: by host and task.
    turns: Vec<(HostId, TaskId, MonoNs)>,
}

impl Tokens {
    /// With these holds; `turns` are the begins of waits for a token or an interpreter's turn.
    pub fn new(pools: Vec<Pool>, mut holds: Vec<Hold>, mut turns: Vec<(HostId, TaskId, MonoNs)>) -> Tokens {
        holds.sort_unstable_by_key(|h| (h.host, h.task, h.taken, h.given));
        turns.sort_unstable();
        turns.dedup();
        Tokens { pools, holds, turns, ..Tokens::default() }
    }

    /// What a task took between two moments, by time. Between `asked` and `taken` it did nothing but wait for it.
    pub fn held(&self, host: HostId, task: TaskId, from: MonoNs, to: MonoNs) -> &[Hold] {
        let place = |at: MonoNs| self.holds.partition_point(|h| (h.host, h.task, h.taken) < (host, task, at));
        &self.holds[place(from)..place(to).max(place(from))]
    }

    /// Whether the wait of a task that began at a moment was for its turn at something of which the model has a queue or
    /// a station: then it is no work, and the replay makes it anew.
    pub fn is_turn(&self, host: HostId, task: TaskId, blocked: MonoNs) -> bool {
        self.turns.binary_search(&(host, task, blocked)).is_ok()
    }

    /// Adds others' pools, holds and sentences to these.
    pub fn join(mut self, other: Tokens) -> Tokens {
        let base = self.pools.len();
        self.pools.extend(other.pools);
        self.holds.extend(other.holds.into_iter().map(|h| Hold { pool: h.pool + base, ..h }));
        self.turns.extend(other.turns);
        let (assumptions, unseen) = (other.assumptions, other.unseen);
        let mut all = Tokens::new(self.pools, self.holds, self.turns);
        (all.assumptions, all.unseen) = (self.assumptions, self.unseen);
        all.assumptions.extend(assumptions);
        all.unseen.extend(unseen);
        all
    }
}
