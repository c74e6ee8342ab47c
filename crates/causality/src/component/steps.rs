//! What each step of an exchange means inside its component.

use super::{CALLS_MAX, Component};
use crate::evidence::{Hole, Rule};
use crate::exchange::{ExId, Side, Slab, Steps};
use crate::finished::{Finished, Parent};
use crate::worker::{Mark, OPEN_CALLS_MAX, REFUSALS_MAX, State, Woken};
use wakepath_model::ids::{EndpointId, MonoNs, TaskId};

impl<F: Finished> Component<'_, F> {
    /// Call `y` may be request `x`'s, or that of one of the others among `candidates`.
    fn doubt(&mut self, xs: &Slab, x: ExId, y: ExId, candidates: usize) {
        let s = self.state(x);
        s.doubts += 1;
        if s.open_calls.len() < OPEN_CALLS_MAX {
            s.open_calls.push((y, xs.get(y).clone(), candidates.saturating_sub(1) as u32));
        }
    }
}

impl<F: Finished> Steps for Component<'_, F> {
    const KEEPS: bool = true;

    fn begun(&mut self, xs: &Slab, x: ExId, at: MonoNs) {
        let e = xs.get(x);
        let process = self.roles.process_of(e.task);
        *self.state(x) = State { process, holder: e.task, last_input: at, ..State::default() };
        if e.is_internal {
            self.state(x).given = true;
            return;
        }
        self.out.began(e, !self.roles.serves(process, at));
        if e.side == Side::Server {
            self.open.entry(process).or_default().push(x);
            let w = self.tasks.entry(e.task).or_default();
            if self.roles.role(e.task).replies_foreign {
                // what it did before was for another, to which it did not reply
                w.segment.clear();
            }
            w.held.push(x);
            w.unknown_work = false;
            w.turn.took(e.flow, x);
            // a task that takes a request in the flow's order is done with what it had of others
            w.enter(x, at);
            self.took_at_rest(e.task, e.flow, Some(x));
            return;
        }
        self.calls.begun += 1;
        let task = e.task;
        self.tasks.entry(task).or_default().called = at;
        let owned = self.owners.remove(&e.flow).filter(|(o, _)| self.is_open(xs, *o));
        if let Some((o, _)) = owned {
            // the connection was its outstanding business until now
            let s = self.state(o);
            s.outstanding = s.outstanding.saturating_sub(1);
            if self.roles.is_lossy(xs.get(o).taken, at) {
                self.state(x).parent = Some(Parent::Open(Hole::Losses));
                self.state(o).doubts += 1;
                return;
            }
            if !self.is_pooling(process) || self.at_rest(xs, process, at) == Some(o) {
                self.link(xs, x, o, Rule::Owner);
                return;
            }
        }
        let (parent, suspects) = self.decide(xs, task, at);
        self.state(x).parent = Some(parent);
        // decided while the connection still counts as under way
        if let Some(process) = self.unowned.remove(&e.flow) {
            self.known_again(process);
        }
        if matches!(parent, Parent::Open(_)) {
            *self.unknown.entry(process).or_default() += 1;
        }
        if parent == Parent::Open(Hole::Ambiguous) {
            self.doubted_at_rest(xs, x, process);
        }
        match parent {
            Parent::Of(p, rule) => {
                self.state(x).parent = None;
                self.link(xs, x, p, rule);
                if rule == Rule::Handoff {
                    let w = self.tasks.entry(task).or_default();
                    w.is_handed_work = true;
                    w.segment.push(x);
                    let (pieces, _) = w.mark(at, Mark::Call);
                    self.saw_pieces(task, pieces);
                }
            }
            Parent::Pending | Parent::Open(_) => {
                for &s in &suspects {
                    self.doubt(xs, s, x, suspects.len());
                    if parent == Parent::Open(Hole::Losses) {
                        self.state(s).lossy = true;
                    }
                }
                self.state(x).suspects = suspects;
                if parent == Parent::Pending {
                    self.state(x).has_one_suspect = self.has_one_suspect(xs, task, at);
                    let w = self.tasks.entry(task).or_default();
                    let (pieces, _) = w.mark(at, Mark::Call);
                    if w.segment.len() < CALLS_MAX {
                        w.segment.push(x);
                    }
                    self.saw_pieces(task, pieces);
                }
            }
            Parent::Root => {}
        }
    }

    fn request_progress(&mut self, xs: &Slab, x: ExId, task: TaskId, at: MonoNs) {
        if self.is_open(xs, x) && !xs.get(x).is_internal {
            self.take_input(x, task, at);
            self.tasks.entry(task).or_default().turn.took(xs.get(x).flow, x);
            self.took_at_rest(task, xs.get(x).flow, Some(x));
        }
    }

    fn reply_began(&mut self, xs: &Slab, x: ExId, task: TaskId, at: MonoNs) {
        let e = xs.get(x);
        if e.side != Side::Server || e.is_internal {
            return;
        }
        let role = self.roles.role(task);
        if self.roles.is_migrating(self.roles.process_of(task)) {
            return;
        }
        if role.takes && (role.is_loop() || !role.replies_foreign) {
            self.claim_backwards(xs, x, task, at);
            return;
        }
        self.claim_segment(xs, x, task, at);
        // from here on it holds the request: a partial reply may be followed by more calls
        self.take_input(x, task, at);
        let w = self.tasks.entry(task).or_default();
        w.woken = Woken::Unknown;
    }

    fn reply_progress(&mut self, xs: &Slab, y: ExId, task: TaskId, at: MonoNs) {
        if xs.get(y).is_internal {
            return;
        }
        if xs.get(y).side != Side::Client {
            if xs.get(y).open_ended {
                self.idle.push_back((at, y));
            }
            // more of a partial reply: what came between its parts was for it
            let role = self.roles.role(task);
            if role.replies_foreign && !role.takes && !self.roles.is_migrating(self.roles.process_of(task)) {
                self.claim_segment(xs, y, task, at);
            }
            return;
        }
        let s = self.state(y);
        s.replied = true;
        s.reply_task = task;
        let parent = s.parent;
        if let Some(Parent::Of(x, _)) = parent
            && xs.get(y).by_order
            && Self::is_over_softly(xs, y)
        {
            // nothing but the next one on its flow will tell that it was over, and its request may go on before
            self.no_longer_outstanding(xs, y, x);
        }
        let of = match parent {
            Some(Parent::Of(x, _)) => Some(x).filter(|&x| self.is_open(xs, x)),
            _ => None,
        };
        self.took_at_rest(task, xs.get(y).flow, of);
        self.answered_at_rest(self.roles.process_of(task));
        let made_by = match parent {
            Some(Parent::Of(x, _)) if xs.is_live(x) => Some(x),
            _ => None,
        };
        let is_known = made_by.is_some() || parent == Some(Parent::Root);
        let w = self.tasks.entry(task).or_default();
        w.turn.heard(xs.get(y).flow, made_by, is_known);
        if let Some(x) = of {
            self.take_input(x, task, at);
        } else {
            w.leave_fragment();
            w.unknown_call = Some(y);
        }
    }

    fn closed(&mut self, xs: &Slab, x: ExId, at: MonoNs) {
        let e = xs.get(x);
        self.state(x).closed = true;
        self.waiting.push_back((at, x));
        if e.is_internal {
            return;
        }
        if e.side == Side::Client {
            self.keep_rivals(xs, x);
            if !self.state(x).replied
                && let Some(w) = self.tasks.get_mut(&e.task)
            {
                w.turn.ended();
                self.answered_at_rest(self.roles.process_of(e.task));
            }
            match self.state(x).parent {
                Some(Parent::Of(p, _)) => self.no_longer_outstanding(xs, x, p),
                Some(Parent::Open(_)) => {
                    let process = self.state(x).process;
                    self.known_again(process);
                }
                _ => {}
            }
            return;
        }
        let (process, holder) = (self.state(x).process, self.state(x).holder);
        // more of a reply whose length is not known may be among what was lost
        let until = if e.replied && !e.open_ended { e.ended } else { e.ended.max(at) };
        let lossy = self.roles.is_lossy(e.taken, until);
        self.state(x).lossy |= lossy;
        self.state(x).holder_called = self.tasks.get(&holder).map_or(MonoNs(0), |w| w.called);
        if let Some(open) = self.open.get_mut(&process) {
            open.retain(|&o| o != x);
        }
        if let Some(w) = self.tasks.get_mut(&holder) {
            w.held.retain(|&o| o != x);
            if w.current == Some(x) {
                w.leave_fragment();
            }
        }
    }

    fn accepted(&mut self, flow: EndpointId, task: TaskId) {
        if let Some(w) = self.tasks.get_mut(&task) {
            w.turn.accepted(flow);
        }
        self.accepted_at_rest(task, flow);
    }

    fn connecting(&mut self, xs: &Slab, flow: EndpointId, task: TaskId, at: MonoNs) {
        let process = self.roles.process_of(task);
        if self.is_pooling(process) && self.at_rest(xs, process, at).is_none() {
            // whoever wants a connection first gets it, and takes one that was set free meanwhile
            return;
        }
        match self.decide(xs, task, at).0 {
            Parent::Of(x, rule) => {
                if rule == Rule::Handoff {
                    self.tasks.entry(task).or_default().is_handed_work = true;
                }
                // until its first request is on its way, the connection is what the request waits for
                self.state(x).outstanding += 1;
                self.owners.insert(flow, (x, task));
            }
            Parent::Open(_) => {
                if self.unowned.insert(flow, process).is_none() {
                    *self.unknown.entry(process).or_default() += 1;
                }
            }
            Parent::Root | Parent::Pending => {}
        }
    }

    fn refused(&mut self, xs: &Slab, flow: EndpointId, task: TaskId, at: MonoNs, error: i32) {
        let refusal = self.out.refused(flow, task, at, error);
        let of = match self.owners.get(&flow) {
            Some(&(x, _)) => Some(x),
            None if self.unowned.contains_key(&flow) => None,
            None => match self.decide(xs, task, at).0 {
                Parent::Of(x, _) => Some(x),
                _ => None,
            },
        };
        if let Some(x) = of.filter(|&x| self.is_open(xs, x)) {
            let refusals = &mut self.state(x).refusals;
            if refusals.len() < REFUSALS_MAX {
                refusals.push(refusal);
            }
        }
        // nobody waits for it any more
        self.flow_gone(xs, flow);
    }

    fn unseen_reply(&mut self, task: TaskId, _: MonoNs) {
        let segment = self.tasks.get_mut(&task).map(|w| std::mem::take(&mut w.segment)).unwrap_or_default();
        for y in segment {
            if self.state(y).parent == Some(Parent::Pending) {
                self.state(y).parent = Some(Parent::Open(Hole::BeforeRecording));
            }
        }
    }

    fn stray_reply(&mut self, task: TaskId, _: MonoNs) {
        // what it did until now was for the request that it answers
        let Some(w) = self.tasks.get_mut(&task) else { return };
        w.woken = Woken::Unknown;
        w.leave_fragment();
        for y in std::mem::take(&mut w.segment) {
            if self.state(y).parent == Some(Parent::Pending) {
                self.state(y).parent = Some(Parent::Open(Hole::Losses));
            }
        }
    }

    fn unclear(&mut self, xs: &Slab, side: Side, task: TaskId, at: MonoNs) {
        if side == Side::Server {
            let w = self.tasks.entry(task).or_default();
            w.unknown_work = true;
            w.leave_fragment();
            return;
        }
        // a call that cannot be shown: whoever made it is not whole
        let (parent, suspects) = self.decide(xs, task, at);
        let made_by = match parent {
            Parent::Of(x, _) => vec![x],
            _ => suspects,
        };
        for x in made_by {
            self.state(x).doubts += 1;
        }
    }

    fn left(&mut self, last: ExId, task: TaskId, at: MonoNs) {
        if let Some(w) = self.tasks.get_mut(&task).filter(|w| !w.marks.is_empty()) {
            w.mark(at, Mark::Left(last));
        }
    }

    fn flow_gone(&mut self, xs: &Slab, flow: EndpointId) {
        if let Some(process) = self.unowned.remove(&flow) {
            self.known_again(process);
        }
        if let Some((x, _)) = self.owners.remove(&flow)
            && self.is_open(xs, x)
        {
            let s = self.state(x);
            s.outstanding = s.outstanding.saturating_sub(1);
            let process = s.process;
            self.answered_at_rest(process);
        }
    }

    fn process_of(&self, task: TaskId) -> u32 {
        self.roles.process_of(task)
    }
}
