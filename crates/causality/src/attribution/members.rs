//! Who is in which set of requests, kept at each step; and what that says of calls that several could have made.

use super::bearers::Identifiers;
use super::facts::Facts;
use super::request_set::{CallRange, Candidates, OpenCall, RequestSet, SetId};
use super::state::{OPEN_CALLS_MAX, RequestDoubts, RequestFlag, RequestState, State};
use crate::exchange::{ExId, Exchange, Slab};
use std::rc::Rc;
use wakepath_model::ids::TaskId;

impl Facts<'_> {
    /// The members of a set.
    pub(super) fn members(&self, scope: SetId) -> &[ExId] {
        self.set(scope).map_or(&[], RequestSet::members)
    }

    fn set(&self, scope: SetId) -> Option<&RequestSet> {
        match scope {
            SetId::Open(process) => self.domains.get(process.leader()).map(|d| &d.open),
            SetId::Free(process) => self.domains.get(process.leader()).map(|d| &d.free),
            SetId::Held(task) => self.tasks.get(task).map(|w| &w.held.all),
            SetId::FreeHeld(task) => self.tasks.get(task).map(|w| &w.held.free),
        }
    }

    fn set_mut(&mut self, scope: SetId) -> &mut RequestSet {
        match scope {
            SetId::Open(process) => &mut self.domain_mut(process).open,
            SetId::Free(process) => &mut self.domain_mut(process).free,
            SetId::Held(task) => &mut self.tasks.or_default(task).held.all,
            SetId::FreeHeld(task) => &mut self.tasks.or_default(task).held.free,
        }
    }

    /// The set of a kind that a request is in, if any.
    fn scopes(s: &State) -> [SetId; SetId::KINDS] {
        [SetId::Open(s.process), SetId::Free(s.process), SetId::Held(s.holder), SetId::FreeHeld(s.holder)]
    }

    /// Whether a request is in a set.
    pub(super) fn is_member(&self, x: ExId, scope: SetId) -> bool {
        let s = self.state(x);
        s.request.memberships[scope.kind()].is_taken() && Self::scopes(s)[scope.kind()] == scope
    }

    fn join(&mut self, x: ExId, scope: SetId) {
        self.state_mut(x).request.memberships[scope.kind()] = self.set_mut(scope).join(x);
    }

    fn leave(&mut self, x: ExId, scope: SetId) {
        let membership = std::mem::take(&mut self.state_mut(x).request.memberships[scope.kind()]);
        if !membership.is_taken() {
            return;
        }
        let set = self.set_mut(scope);
        let moved = set.leave(membership);
        let (to, is_lossy) = (set.doubts.end(), set.doubts.is_lossy_since(membership.since));
        if let Some(moved) = moved {
            RequestSet::moved(&mut self.state_mut(moved).request.memberships[scope.kind()], membership);
        }
        self.state_mut(x).request.note(CallRange { scope, from: membership.since, to }, is_lossy);
    }

    /// A request begins.
    pub(super) fn opened(&mut self, xs: &Slab, x: ExId) {
        if self.roles.are_given_inputs {
            let on_flow = self.on_flow.entry(xs.get(x).flow).or_default();
            on_flow.push(x);
            self.shared_flows += usize::from(on_flow.len() == 2);
        }
        let process = self.state(x).process;
        if !self.options.refuses_witness {
            let e = xs.get(x);
            for id in Identifiers::of(&e.content).each() {
                self.domain_mut(process).bearers.came(id, x);
            }
            if e.is_by_direction() {
                self.domain_mut(process).bearers.came_unread(x);
            }
        }
        self.join(x, SetId::Open(process));
        self.join(x, SetId::Free(process));
        self.taken_up(xs, x);
    }

    /// A request is over.
    pub(super) fn left_open(&mut self, xs: &Slab, x: ExId) {
        self.laid_down(xs, x);
        let (flow, process) = (xs.get(x).flow, self.state(x).process);
        self.leave(x, SetId::Free(process));
        self.leave(x, SetId::Open(process));
        self.domain_mut(process).bearers.left(x);
        if let Some(on_flow) = self.on_flow.get_mut(&flow) {
            on_flow.retain(|o| *o != x);
            self.shared_flows -= usize::from(on_flow.len() == 1);
            if on_flow.is_empty() {
                self.on_flow.remove(&flow);
            }
        }
    }

    /// Another task took the last input of a request.
    pub(super) fn handed_over(&mut self, xs: &Slab, x: ExId, to: TaskId) {
        if self.state(x).holder == to || !self.is_open(xs, x) {
            return;
        }
        self.laid_down(xs, x);
        self.state_mut(x).holder = to;
        self.taken_up(xs, x);
    }

    /// Its holder holds it from here on.
    fn taken_up(&mut self, xs: &Slab, x: ExId) {
        let s = self.state(x);
        let (holder, is_free) = (s.holder, self.is_free(x));
        let is_foreign = self.roles.process_of(holder) != s.process;
        let twins = self.twins(xs, x);
        self.join(x, SetId::Held(holder));
        if is_free {
            self.join(x, SetId::FreeHeld(holder));
        }
        let held = &mut self.tasks.or_default(holder).held;
        held.twins += twins;
        held.foreign += usize::from(is_foreign);
    }

    fn laid_down(&mut self, xs: &Slab, x: ExId) {
        let s = self.state(x);
        let (holder, is_foreign) = (s.holder, self.roles.process_of(s.holder) != s.process);
        self.leave(x, SetId::FreeHeld(holder));
        self.leave(x, SetId::Held(holder));
        let twins = self.twins(xs, x);
        if let Some(w) = self.tasks.get_mut(holder) {
            w.held.twins -= twins;
            w.held.foreign -= usize::from(is_foreign);
        }
    }

    /// How many other requests its holder took by the same read.
    fn twins(&self, xs: &Slab, x: ExId) -> usize {
        let (holder, e) = (self.state(x).holder, xs.get(x));
        let is_twin = |y: &&ExId| {
            **y != x && xs.get(**y).request.taken == e.request.taken && self.is_member(**y, SetId::Held(holder))
        };
        self.on_flow(e.flow).iter().filter(is_twin).count()
    }

    /// Whether nothing is outstanding of a request, as far as is known.
    pub(super) fn is_free(&self, x: ExId) -> bool {
        let s = self.state(x);
        if s.request.memberships[SetId::Open(s.process).kind()].is_taken() {
            return s.request.memberships[SetId::Free(s.process).kind()].is_taken();
        }
        self.has_nothing_outstanding(s)
    }

    fn has_nothing_outstanding(&self, s: &State) -> bool {
        s.request.outstanding <= if self.is_pooled(s.process) { s.request.dialling } else { 0 }
    }

    /// What is outstanding of a request changes.
    pub(super) fn change(&mut self, x: ExId, change: impl FnOnce(&mut RequestState)) {
        change(&mut self.state_mut(x).request);
        let s = self.state(x);
        let (is_free, process, holder) = (self.has_nothing_outstanding(s), s.process, s.holder);
        for (all, free) in
            [(SetId::Open(process), SetId::Free(process)), (SetId::Held(holder), SetId::FreeHeld(holder))]
        {
            match (self.is_member(x, all) && is_free, self.is_member(x, free)) {
                (true, false) => self.join(x, free),
                (false, true) => self.leave(x, free),
                _ => {}
            }
        }
    }

    /// Call `y` may be any suspect's.
    pub(super) fn doubt(&mut self, xs: &Slab, y: ExId, mut candidates: Candidates, is_lossy: bool) {
        let count = self.count(&candidates);
        candidates.is_one = count == 1;
        let others = count.saturating_sub(1) as u32;
        let doubted = Rc::new(OpenCall { call: y, exchange: xs.get(y).clone(), others });
        for &s in &candidates.few {
            let r = &mut self.state_mut(s).request;
            r.doubts.add(Rc::clone(&doubted));
            r.flags.add_if(RequestFlag::Lossy, is_lossy);
        }
        if let Some(scope) = candidates.set {
            self.state_mut(y).call.number = self.add(scope, Some(doubted), is_lossy);
        }
        self.state_mut(y).call.candidates = Some(candidates).filter(|s| !s.is_empty()).map(Box::new);
    }

    /// A call that cannot be shown may be any suspect's.
    pub(super) fn doubt_unseen(&mut self, candidates: &Candidates) {
        for &x in &candidates.few {
            self.state_mut(x).request.doubts.count += 1;
        }
        if let Some(scope) = candidates.set {
            self.add(scope, None, false);
        }
    }

    fn add(&mut self, scope: SetId, call: Option<Rc<OpenCall>>, is_lossy: bool) -> u64 {
        let states = self.states.count();
        let doubts = &mut self.set_mut(scope).doubts;
        let number = doubts.add(call, is_lossy);
        if let Some(to) = doubts.is_due_to(states) {
            self.count_up_to(scope, to);
        }
        number
    }

    /// Counts the calls that are noted at a set at each of their candidates, up to one, and forgets them there.
    fn count_up_to(&mut self, scope: SetId, to: u64) {
        let mut doubts = std::mem::take(&mut self.set_mut(scope).doubts);
        for s in self.states.iter_mut() {
            let is_seated = s.request.memberships[scope.kind()].is_taken() && Self::scopes(s)[scope.kind()] == scope;
            let RequestState { doubts: own, memberships, .. } = &mut s.request;
            let membership = &mut memberships[scope.kind()];
            let is_due = is_seated && membership.since < to;
            if own.parts.is_empty() && !is_due {
                continue;
            }
            let mut count = |from: u64, until: u64| {
                let (count, calls) = doubts.count(from, until.min(to), OPEN_CALLS_MAX);
                own.count += count;
                own.calls.extend(calls);
            };
            own.parts.iter().filter(|p| p.scope == scope).for_each(|p| count(p.from, p.to));
            if is_due {
                count(membership.since, to);
                membership.since = to;
            }
            own.parts.retain_mut(|p| {
                if p.scope == scope {
                    p.from = p.from.max(to);
                }
                p.from < p.to
            });
            own.calls.sort_by_key(|c| c.exchange.number);
            own.calls.truncate(OPEN_CALLS_MAX);
        }
        doubts.forget(to);
        self.set_mut(scope).doubts = doubts;
    }

    /// Whose a call was is known: others did not make it.
    pub(super) fn resolve(&mut self, xs: &Slab, y: ExId) {
        let call = &mut self.state_mut(y).call;
        let Some(candidates) = call.candidates.take() else { return };
        let number = call.number;
        // the place of one that was given away is another's now
        for s in candidates.few.into_iter().filter(|&s| xs.is_live(s)) {
            self.state_mut(s).request.doubts.resolve(y);
        }
        if let Some(scope) = candidates.set {
            self.set_mut(scope).doubts.resolve(number);
        }
    }

    /// Whether a request is among those that could have made a call.
    pub(super) fn is_candidate(&self, x: ExId, y: ExId) -> bool {
        let call = &self.state(y).call;
        let of_crowd = |scope: SetId| {
            let r = &self.state(x).request;
            let was = |p: &CallRange| p.scope == scope && (p.from..p.to).contains(&call.number);
            self.is_member(x, scope) && r.memberships[scope.kind()].since <= call.number
                || r.doubts.parts.iter().any(was)
        };
        call.candidates.as_ref().is_some_and(|s| s.few.contains(&x) || s.set.is_some_and(of_crowd))
    }

    /// How many calls may be a request's, and the first of them.
    pub(super) fn doubts_of(&mut self, x: ExId) -> (u32, Vec<(Exchange, u32)>) {
        self.note_seats(x);
        let RequestDoubts { mut count, mut calls, parts } = std::mem::take(&mut self.state_mut(x).request.doubts);
        for part in parts {
            let Some(set) = self.set(part.scope) else { continue };
            let (more, shown) = set.doubts.count(part.from, part.to, OPEN_CALLS_MAX);
            count += more;
            calls.extend(shown);
        }
        calls.sort_by_key(|c| c.exchange.number);
        calls.truncate(OPEN_CALLS_MAX);
        (count, calls.into_iter().map(|c| (c.exchange.clone(), c.others)).collect())
    }

    /// What is noted until now at the sets that a request is still in: its reply may go on when it is handed on.
    fn note_seats(&mut self, x: ExId) {
        for scope in Self::scopes(self.state(x)) {
            let membership = self.state(x).request.memberships[scope.kind()];
            let Some(doubts) = membership.is_taken().then(|| self.set(scope)).flatten().map(|c| &c.doubts) else {
                continue;
            };
            let (to, is_lossy) = (doubts.end(), doubts.is_lossy_since(membership.since));
            let r = &mut self.state_mut(x).request;
            r.memberships[scope.kind()].since = to;
            r.note(CallRange { scope, from: membership.since, to }, is_lossy);
        }
    }

    /// The request, where there is one alone.
    pub(super) fn only(&self, candidates: &Candidates) -> Option<ExId> {
        let in_set = candidates.set.and_then(|scope| self.members(scope).iter().next());
        candidates.few.first().or(in_set).copied().filter(|_| self.count(candidates) == 1)
    }

    /// How many requests.
    pub(super) fn count(&self, candidates: &Candidates) -> usize {
        candidates.few.len() + candidates.set.map_or(0, |scope| self.members(scope).len())
    }
}
