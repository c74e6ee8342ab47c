//! A task that was made while its maker worked on a request, never waited for work, and ended with that request or soon
//! after it: all that it did was for that request. Whoever takes up other work lives on.
//!
//! That a task is made for a request does not say that it begins with its work: a pool grows by a worker, and another's job
//! may be the first in its queue. So nothing is claimed before it ends. Where it waited, it may be that of which [`super::spawned`] speaks.
//!
//! Counterexample: `link.fork/worker_of_a_pool`.

use crate::attribution::claims::{Claim, Claimed};
use crate::attribution::facts::Facts;
use crate::evidence::Rule;
use crate::exchange::Slab;
use crate::finished::Parent;
use crate::lineage::{Basis, Line};
use wakepath_model::rows::{Strength, TaskRow};

impl Facts<'_> {
    /// A task ended: whose were the calls that it made?
    pub(in crate::attribution) fn claim_lifetime(&mut self, xs: &Slab, r: &TaskRow) -> Vec<Claim> {
        let (task, at) = (r.task, r.at);
        let born_of = self.tasks.get_mut(task).and_then(|w| w.born_of.take()).map(|x| (x, Rule::Fork));
        let born_of = born_of.filter(|_| r.parent_strength == Strength::None);
        let is_spawned = |line: &Line| line.basis == Basis::EndsWithIt && self.is_known(*line, task);
        let spawned = || self.made_for(task, at).filter(is_spawned).map(|line| (line.of, Rule::Spawned));
        let of = born_of.or_else(spawned).filter(|&(x, _)| self.is_undelivered(xs, x));
        let Some((x, rule)) = of else { return Vec::new() };
        let segment = self.tasks.get_mut(task).map(|w| std::mem::take(&mut w.segment)).unwrap_or_default();
        let is_pending = |y: &_| self.is_undelivered(xs, *y) && self.state(*y).call.parent == Some(Parent::Pending);
        let is_lost = self.roles.is_lossy(xs.get(x).request.taken, at);
        let claimed = if is_lost { Claimed::Lost } else { Claimed::By(x, rule) };
        segment.into_iter().filter(is_pending).map(|call| Claim { call, claimed }).collect()
    }
}
