//! Inside a component: which request made which call. One rule a case, each only under its condition; where none
//! holds the call stays without a parent and every request that could have made it is in doubt.

mod completion;
mod rest;
mod steps;
mod turn;

use crate::evidence::{Hole, Rule};
use crate::exchange::{ExId, Exchange, Side, Slab};
use crate::finished::{Calls, Done, Finished, Parent};
use crate::roles::Roles;
use crate::worker::{Mark, Pieces, State, Woken, Worker};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use turn::Made;
pub(crate) use turn::Turn;
use wakepath_model::ids::{EndpointId, MonoNs, TaskId};
use wakepath_model::rows::{InputRow, OPEN, PollRow, TaskRow, WaitRow, cause, input, life, witness};

/// How long after its end an exchange can still be linked.
pub(crate) const GRACE_NS: u64 = 1_000_000_000;
/// How long an exchange whose end only a turn shows is waited for.
const IDLE_NS: u64 = 5_000_000_000;
/// How long the call of a task that replies waits for that task's next reply.
const CLAIM_NS: u64 = 60_000_000_000;
/// Most calls kept for one request.
const CALLS_MAX: usize = 100_000;
/// io_uring_enter: where an io_uring loop waits.
const IO_URING_ENTER: u16 = 426;

/// System calls in which a task waits for something to do, and may wait no longer than until a time: poll, nanosleep,
/// select, futex, clock_nanosleep, epoll_wait, pselect6, ppoll, epoll_pwait.
const IDLE: [u16; 9] = [7, 35, 23, 202, 230, 232, 270, 271, 281];

/// Follows the requests of all components of one host.
pub struct Component<'a, F: Finished> {
    roles: &'a Roles,
    tasks: FxHashMap<TaskId, Worker>,
    /// Open requests by process.
    open: FxHashMap<u32, Vec<ExId>>,
    states: Vec<State>,
    owners: FxHashMap<EndpointId, (ExId, TaskId)>,
    /// Connections being made that could be several requests', with their process.
    unowned: FxHashMap<EndpointId, u32>,
    /// Calls and connections under way of each process whose request is not known.
    unknown: FxHashMap<u32, u32>,
    /// What pieces of work were seen in processes with helpers.
    pieces: FxHashMap<u32, Pieces>,
    waiting: VecDeque<(MonoNs, ExId)>,
    idle: VecDeque<(MonoNs, ExId)>,
    to_release: Vec<ExId>,
    /// Processes that had come to rest when they were given their last input, and have done nothing else since.
    rests: FxHashMap<u32, rest::Rest>,
    /// Calls that any of several requests could have made, of processes that were ever given an input so.
    doubtful: FxHashMap<u32, Vec<ExId>>,
    /// The poll whose inputs come next: its task, and until when it was told to wait (ns).
    last_poll: (TaskId, u64),
    /// Where finished exchanges go.
    pub out: F,
    /// What came of calls.
    pub calls: Calls,
    /// Links by rule.
    pub links: FxHashMap<Rule, u64>,
    /// Where a stronger rule overruled a weaker one.
    pub disagreements: u64,
}

impl<'a, F: Finished> Component<'a, F> {
    /// A linker that knows how tasks work.
    pub fn new(roles: &'a Roles, out: F) -> Self {
        Component {
            roles,
            tasks: FxHashMap::default(),
            open: FxHashMap::default(),
            states: Vec::new(),
            owners: FxHashMap::default(),
            unowned: FxHashMap::default(),
            unknown: FxHashMap::default(),
            pieces: FxHashMap::default(),
            waiting: VecDeque::new(),
            idle: VecDeque::new(),
            to_release: Vec::new(),
            rests: FxHashMap::default(),
            doubtful: FxHashMap::default(),
            last_poll: (TaskId::UNKNOWN, 0),
            out,
            calls: Calls::default(),
            links: FxHashMap::default(),
            disagreements: 0,
        }
    }

    fn state(&mut self, x: ExId) -> &mut State {
        let i = x.place as usize;
        if self.states.len() <= i {
            self.states.resize_with(i + 1, State::default);
        }
        &mut self.states[i]
    }

    fn is_open(&self, xs: &Slab, x: ExId) -> bool {
        xs.is_live(x) && !self.states[x.place as usize].closed
    }

    /// Its reply has begun and only something else can end it: it asks for nothing more.
    fn is_over_softly(xs: &Slab, x: ExId) -> bool {
        let e = xs.get(x);
        e.open_ended && e.reply_start != OPEN
    }

    /// A poll returned.
    pub fn poll(&mut self, r: &PollRow) {
        self.last_poll = (r.task, r.entry.0.saturating_add(r.timeout_ns));
        let is_over = |w: &&Worker| w.turn.is_isolated() && (r.ready != 0 || r.timeout_ns != 0);
        let left = self.tasks.get(&r.task).filter(is_over).and_then(|w| w.current);
        if let Some(x) = left {
            // nothing was done for it in its own fragment: it waits for something that is no input of its own
            let s = self.state(x);
            s.is_lying = s.outstanding == 0 && s.calls.is_empty();
        }
        if self.knows(r.task) {
            self.tasks.entry(r.task).or_default().polled(r);
        }
    }

    /// Whether the task is one that takes requests or makes calls.
    fn knows(&self, task: TaskId) -> bool {
        let role = self.roles.role(task);
        role.takes || role.calls || self.tasks.contains_key(&task)
    }

    /// The library vantage handed an input to a task, behind the row of the poll that returned it.
    pub fn input(&mut self, xs: &Slab, r: &InputRow) {
        self.given_at_rest(xs, r);
        if !self.knows(r.task) || r.kind == input::ELSE {
            return;
        }
        let of = if r.isolated != 0 && r.kind == input::WRITE { self.writes_for(xs, r.flow, r.task) } else { None };
        let w = self.tasks.entry(r.task).or_default();
        w.given(r);
        if let Some(x) = of.filter(|_| w.turn.is_isolated()) {
            w.turn.may_write(r.flow, x);
            w.enter(x, r.at);
        }
    }

    /// For which request a task goes on when a flow can be written to: the one that the flow was connected for, or
    /// whose reply is on its way there.
    fn writes_for(&self, xs: &Slab, flow: EndpointId, task: TaskId) -> Option<ExId> {
        if let Some(&(x, _)) = self.owners.get(&flow) {
            return Some(x).filter(|&x| self.is_open(xs, x));
        }
        let held = &self.tasks.get(&task)?.held;
        let on_flow = |x: &&ExId| self.is_open(xs, **x) && xs.get(**x).flow == flow;
        held.iter().filter(on_flow).min_by_key(|x| xs.get(**x).number).copied()
    }

    /// Where any task may go on with any request: the one that a task works on because the library vantage gave it that one
    /// input, where the others are at none that it could be instead.
    fn isolated(&self, xs: &Slab, task: TaskId, at: MonoNs) -> Option<ExId> {
        let w = self.tasks.get(&task)?;
        let is_isolated = w.turn.is_isolated() && w.turn.no_timer_due(at);
        let x = w.current.filter(|&x| is_isolated && self.is_open(xs, x) && !self.is_beside_another(xs, w, x))?;
        let process = self.roles.process_of(task);
        let is_other = |t: &TaskId| *t != task && self.roles.process_of(*t) == process;
        let elsewhere: Vec<ExId> =
            self.tasks.iter().filter(|(t, _)| is_other(t)).filter_map(|(_, w)| w.current).collect();
        let open = self.open.get(&process)?;
        self.in_court(xs, open).iter().all(|y| *y == x || elsewhere.contains(y)).then_some(x)
    }

    /// Whether one read took another request too that is still open (from a TLS record, or where reads are not made short):
    /// that input was not one's alone.
    fn is_beside_another(&self, xs: &Slab, w: &Worker, x: ExId) -> bool {
        let (flow, taken) = (xs.get(x).flow, xs.get(x).taken);
        let is_beside = |y: &&ExId| **y != x && xs.get(**y).flow == flow && xs.get(**y).taken == taken;
        w.held.iter().filter(is_beside).any(|&y| self.is_open(xs, y))
    }

    /// A task was made.
    pub fn task(&mut self, xs: &Slab, r: &TaskRow) {
        if r.what == life::FORK {
            let of = self.tasks.get(&r.parent).and_then(|p| p.current.or(only(&p.held)));
            if let Some(x) = of.filter(|&x| self.is_open(xs, x)) {
                self.tasks.entry(r.task).or_default().born_of = Some(x);
            }
        }
        if r.what == life::EXIT {
            self.claim_lifetime(xs, r.task, r.at);
        }
        if r.what == life::EXIT
            && let Some(w) = self.tasks.get(&r.task)
            && w.held.is_empty()
            && w.segment.is_empty()
        {
            self.tasks.remove(&r.task);
        }
    }

    /// A wait ended.
    pub fn wait(&mut self, xs: &Slab, r: &WaitRow) {
        if r.syscall == IO_URING_ENTER
            && let Some(w) = self.tasks.get_mut(&r.task)
        {
            w.turn.waited(r.blocked);
            w.leave_fragment();
        }
        if r.cause == cause::TIMER
            && IDLE.contains(&r.syscall)
            && let Some(w) = self.tasks.get_mut(&r.task)
        {
            w.woken = Woken::Timer;
        }
        let holds = self.tasks.get(&r.task).and_then(|w| self.sole_of(xs, &w.held));
        if holds.is_some() && matches!(r.cause, cause::TASK | cause::OPEN) && self.roles.is_private(r) {
            let to = if r.cause == cause::OPEN { r.at } else { r.woken };
            self.tasks.entry(r.task).or_default().slept(r.blocked, to);
        }
        if r.cause != cause::TASK || r.by == TaskId::UNKNOWN || r.by == r.task {
            return;
        }
        if self.roles.process_of(r.by) != self.roles.process_of(r.task) {
            return;
        }
        let role = self.roles.role(r.task);
        if let Some(x) = holds {
            if !self.roles.is_private(r) {
                // a lock that was released says nothing of whose work was done
                return;
            }
            // it may have been waiting for what the other did for it
            self.saw_waking(r, x);
            return;
        }
        if role.takes {
            return;
        }
        let x = self.tasks.get(&r.by).and_then(|by| by.request_at(r.woken).or(only(&by.held)));
        let woken = match x.filter(|&x| self.is_open(xs, x)) {
            Some(x) => Woken::For(x),
            None => Woken::Unknown,
        };
        let busy = self
            .tasks
            .get(&r.task)
            .is_some_and(|w| w.segment.iter().any(|&y| xs.is_live(y) && !self.states[y.place as usize].replied));
        let is_private = self.roles.is_private(r);
        if !busy {
            let w = self.tasks.entry(r.task).or_default();
            w.segment.retain(|&y| xs.is_live(y));
            w.woken = woken;
            w.born_of = w.born_of.filter(|_| !is_private);
            w.leave_fragment();
            if !self.roles.is_lock(r) {
                let (pieces, _) = w.mark(r.blocked, Mark::Idle);
                self.saw_pieces(r.task, pieces);
            }
        }
    }

    /// Whether a call of a helper can only be of the one request that its process has open: no timer
    /// made it begin, what it was woken for before is over, and such helpers never call when there is no request.
    fn has_one_suspect(&self, xs: &Slab, task: TaskId, at: MonoNs) -> bool {
        let process = self.roles.process_of(task);
        let is_asked = match self.tasks.get(&task).map(|w| w.woken).unwrap_or_default() {
            Woken::Unknown => true,
            // it went on to something else without sleeping, and there was never more than one thing to go on to
            Woken::For(x) => !self.is_open(xs, x) && !self.roles.is_concurrent(process),
            Woken::Timer => false,
        };
        is_asked
            && self.open.get(&process).is_some_and(|open| open.len() == 1)
            && at > self.roles.unseen_until(process)
            && !self.roles.calls_unasked(process)
    }

    /// The one request of a list that still wants something, if there is just one. Requests of one flow are answered
    /// in order, so the oldest stands for them; but not where an identifier says which is answered, for then any may be.
    fn sole_of(&self, xs: &Slab, held: &[ExId]) -> Option<ExId> {
        let mut found: Option<ExId> = None;
        let mut soft: Option<ExId> = None;
        for &x in held {
            if !self.is_open(xs, x) {
                continue;
            }
            if Self::is_over_softly(xs, x) {
                soft = Some(x);
                continue;
            }
            match found {
                None => found = Some(x),
                Some(f) if xs.get(f).flow == xs.get(x).flow && !witness::names_exchange(xs.get(x).witness.0) => {
                    if xs.get(x).number < xs.get(f).number {
                        found = Some(x);
                    }
                }
                Some(_) => return None,
            }
        }
        found.or(soft)
    }

    /// Requests of a list that their component could be working on: nothing of theirs is outstanding. A reply that
    /// may go on (its end shows only when something else begins) may also be followed by more calls.
    fn in_court(&self, xs: &Slab, list: &[ExId]) -> Vec<ExId> {
        let open = |x: &ExId| self.is_open(xs, *x);
        let ready = |x: &ExId| self.states[x.place as usize].outstanding == 0 && !self.is_behind(xs, *x, list);
        list.iter().copied().filter(open).filter(ready).collect()
    }

    /// Requests of which one may make a call now: those in court, or all where requests make several at once.
    fn may_call(&self, xs: &Slab, process: u32, open: &[ExId]) -> Vec<ExId> {
        if self.roles.fans_out(process) {
            return self.all_open(xs, open);
        }
        self.in_court(xs, open)
    }

    fn all_open(&self, xs: &Slab, list: &[ExId]) -> Vec<ExId> {
        list.iter().copied().filter(|&x| self.is_open(xs, x)).collect()
    }

    /// Whether a pipelined request waits for the one before it on its flow: it was an input of its own, and nothing was
    /// done for it then. Not where messages bear an identifier, since those are served in any order.
    fn is_behind(&self, xs: &Slab, x: ExId, list: &[ExId]) -> bool {
        let e = xs.get(x);
        self.states[x.place as usize].is_lying
            && !witness::names_exchange(e.witness.0)
            && list.iter().any(|&y| self.is_open(xs, y) && xs.get(y).flow == e.flow && xs.get(y).number < e.number)
    }

    /// Who made a call that `task` makes now.
    fn decide(&self, xs: &Slab, task: TaskId, at: MonoNs) -> (Parent, Vec<ExId>) {
        let process = self.roles.process_of(task);
        let none = Vec::new();
        let open = self.open.get(&process).unwrap_or(&none);
        let worker = self.tasks.get(&task);
        let born_of = worker.and_then(|w| w.born_of).filter(|&x| self.is_open(xs, x));
        if worker.is_some_and(|w| w.unknown_work) {
            return (Parent::Open(Hole::Borders), self.may_call(xs, process, open));
        }
        if open.is_empty() {
            if let Some(x) = born_of {
                return (Parent::Pending, vec![x]);
            }
            let parent = if at <= self.roles.unseen_until(process) {
                Parent::Open(Hole::BeforeRecording)
            } else if self.roles.is_lossy(MonoNs(0), at) && self.roles.serves(process, at) {
                // the request that it works on may be among what was lost
                Parent::Open(Hole::Losses)
            } else {
                Parent::Root
            };
            return (parent, Vec::new());
        }
        let role = self.roles.role(task);
        let current = worker.and_then(|w| w.current).filter(|&x| self.is_open(xs, x));
        // a loop that has but one connection may work on several requests at once all the same
        let is_beside = |w: &Worker, x: ExId| self.is_open(xs, x) && self.is_beside_another(xs, w, x);
        let has_several = |w: &Worker| w.turn.is_given_inputs() && w.held.iter().any(|&x| is_beside(w, x));
        let found = if let Some(x) = self.at_rest(xs, process, at) {
            Ok((x, Rule::Isolation))
        } else if self.roles.is_migrating(process) {
            if let Some(x) = self.isolated(xs, task, at) {
                return self.checked(xs, x, Rule::Isolation, at);
            }
            // any task may go on with any request: only the last one that could want something is certain
            let mut set = self.may_call(xs, process, open);
            if let Some(c) = current
                && !set.contains(&c)
            {
                set.push(c);
            }
            match set[..] {
                [x] if at > self.roles.unseen_until(process) && !self.roles.calls_of_its_own(process) => {
                    Ok((x, if current == Some(x) { Rule::Fragment } else { Rule::Sole }))
                }
                _ => Err(set),
            }
        } else if role.takes && !role.is_loop() && !worker.is_some_and(has_several) {
            let held = worker.map_or(&none, |w| &w.held);
            match self.sole_of(xs, held) {
                // where others read for it, one that is not read whole may have been put aside
                Some(x) if !role.replies_foreign || xs.get(x).is_received() => Ok((x, Rule::Fragment)),
                // its reply will tell which request it had picked up
                _ if role.replies_foreign => return (Parent::Pending, self.all_open(xs, open)),
                _ if born_of.is_some() => return (Parent::Pending, self.all_open(xs, open)),
                _ => Err(self.may_call(xs, process, open)),
            }
        } else if role.takes {
            match self.in_turn(xs, task, at) {
                // the kernel receives ahead of the program: there is no order of inputs and calls
                _ if self.roles.is_ring(task) => Err(self.all_open(xs, open)),
                Made::By(x, rule) => Ok((x, rule)),
                Made::OneOf(set) => Err(set),
                Made::Unasked if self.roles.is_lossy(MonoNs(0), at) => {
                    return (Parent::Open(Hole::Losses), self.all_open(xs, open));
                }
                Made::Unasked => return (Parent::Root, Vec::new()),
            }
        } else if role.replies_foreign
            && let Some(x) = worker.and_then(|w| self.sole_of(xs, &w.held))
            && !Self::is_over_softly(xs, x)
        {
            // a worker that took X up by replying to it, or by reading a reply of its
            Ok((x, Rule::Fragment))
        } else if born_of.is_some() {
            // whether it works for that request alone shows when it ends
            return (Parent::Pending, self.all_open(xs, open));
        } else {
            // the woken idle task's doing, where nothing else was waiting to be taken up. A request may hand out several
            // pieces of work at once, so that one of its calls is under way excludes nothing
            let set = self.all_open(xs, open);
            match (worker.map(|w| w.woken).unwrap_or_default(), &set[..]) {
                (Woken::For(x), [only]) if x == *only && at > self.roles.unseen_until(process) => {
                    Ok((x, Rule::Handoff))
                }
                // requests were handed to it before, and there is but one
                (_, [only]) if worker.is_some_and(|w| w.is_handed_work) && self.has_one_suspect(xs, task, at) => {
                    Ok((*only, Rule::Sole))
                }
                _ => return (Parent::Pending, set),
            }
        };
        match found {
            Ok((x, rule)) => self.checked(xs, x, rule, at),
            Err(mut set) => {
                if self.roles.is_ring(task) {
                    // a reply may have been received long before the program hears of it: nobody is out of court
                    set = self.all_open(xs, open);
                }
                let hole = if at <= self.roles.unseen_until(process) { Hole::BeforeRecording } else { Hole::Ambiguous };
                (Parent::Open(hole), set)
            }
        }
    }

    /// A request that made a call, unless what was lost speaks against it.
    fn checked(&self, xs: &Slab, x: ExId, rule: Rule, at: MonoNs) -> (Parent, Vec<ExId>) {
        let hole = match () {
            () if xs.get(x).murky => Hole::Borders,
            () if self.roles.is_lossy(xs.get(x).taken, at) => Hole::Losses,
            () => return (Parent::Of(x, rule), Vec::new()),
        };
        // its own end may be among what was missed, and the call another's
        let process = self.states[x.place as usize].process;
        let mut set = self.may_call(xs, process, self.open.get(&process).map_or(&[][..], |open| &open[..]));
        if !set.contains(&x) {
            set.push(x);
        }
        (Parent::Open(hole), set)
    }

    fn link(&mut self, xs: &Slab, y: ExId, x: ExId, rule: Rule) {
        let suspects = std::mem::take(&mut self.state(y).suspects);
        // the place of one that was given away is another's now
        for s in suspects.into_iter().filter(|&s| xs.is_live(s)) {
            let s = self.state(s);
            s.doubts = s.doubts.saturating_sub(1);
            s.open_calls.retain(|c| c.0 != y);
        }
        let before = self.state(y).parent.replace(Parent::Of(x, rule));
        if let Some(Parent::Of(old, _)) = before {
            self.disagreements += 1;
            self.no_longer_outstanding(xs, y, old);
            self.state(old).calls.retain(|&c| c != y);
        }
        let is_under_way = !self.state(y).closed && !Self::is_over_softly(xs, y);
        self.state(y).is_counted = is_under_way;
        let s = self.state(x);
        let is_beyond = s.calls.len() >= CALLS_MAX;
        if !is_beyond {
            s.calls.push(y);
        }
        s.overflow |= is_beyond;
        if is_under_way {
            s.outstanding += 1;
        }
        self.calls.beyond += u64::from(is_beyond);
        *self.links.entry(rule).or_default() += 1;
    }

    /// A call is over, or may be: its request `x` waits for it no more.
    fn no_longer_outstanding(&mut self, xs: &Slab, y: ExId, x: ExId) {
        if std::mem::take(&mut self.state(y).is_counted) && xs.is_live(x) {
            let s = self.state(x);
            s.outstanding = s.outstanding.saturating_sub(1);
        }
    }

    /// The fragment that began with the reply to a call of unknown origin went on to reply to X: the call was X's, if
    /// X was among those that could have made it.
    fn claim_backwards(&mut self, xs: &Slab, x: ExId, task: TaskId, at: MonoNs) {
        let Some(w) = self.tasks.get_mut(&task) else { return };
        let Some(y) = w.unknown_call.take() else { return };
        // only where that reply was all that there was to go on with
        let lossy = self.roles.is_lossy(xs.get(x).taken, at);
        if lossy || self.roles.is_ring(task) || !w.turn.is_single(at) {
            return;
        }
        let s = self.state(y);
        if s.given || !matches!(s.parent, Some(Parent::Open(Hole::Ambiguous))) || !s.suspects.contains(&x) {
            return;
        }
        let (closed, process) = (s.closed, s.process);
        if !closed {
            self.known_again(process);
        }
        // that X waited for the answer does not say that nobody else asked for it
        self.link(xs, y, x, Rule::Habit);
    }

    /// vPath's thread pattern: the task that replies did the work since it took the request up. Only calls that it
    /// also waited for: one whose reply another task reads was not made by a task that serves one request at a time.
    fn claim_segment(&mut self, xs: &Slab, x: ExId, task: TaskId, at: MonoNs) {
        let Some(w) = self.tasks.get_mut(&task).filter(|w| !w.segment.is_empty()) else { return };
        let segment = std::mem::take(&mut w.segment);
        let taken = xs.get(x).taken;
        for y in segment {
            if !xs.is_live(y) || self.state(y).given {
                continue;
            }
            let s = &self.states[y.place as usize];
            let synchronous = s.replied && s.reply_task == task;
            let undecided = matches!(s.parent, Some(Parent::Pending | Parent::Of(_, Rule::Handoff)));
            if !undecided || s.parent == Some(Parent::Of(x, Rule::Handoff)) {
                continue;
            }
            if xs.get(y).taken >= taken && synchronous {
                if self.roles.is_lossy(taken, at) {
                    self.state(y).parent = Some(Parent::Open(Hole::Losses));
                } else {
                    self.link(xs, y, x, Rule::Reply);
                }
            } else if self.roles.is_lossy(MonoNs(0), at) {
                // that its request was taken before may be among what was lost
                self.state(x).lossy = true;
            }
        }
    }

    /// One thing fewer is under way in a process that nobody could be told to have begun.
    fn known_again(&mut self, process: u32) {
        if let Some(n) = self.unknown.get_mut(&process) {
            *n = n.saturating_sub(1);
        }
    }

    fn take_input(&mut self, x: ExId, task: TaskId, at: MonoNs) {
        let role = self.roles.role(task);
        if !role.takes && !role.replies_foreign {
            // a helper works for whoever holds the request, and goes on to another's without a sign
            self.state(x).last_input = at;
            return;
        }
        let holder = std::mem::replace(&mut self.state(x).holder, task);
        self.state(x).last_input = at;
        if holder != task
            && let Some(h) = self.tasks.get_mut(&holder)
        {
            h.held.retain(|&o| o != x);
        }
        let w = self.tasks.entry(task).or_default();
        if !w.held.contains(&x) {
            w.held.push(x);
        }
        w.enter(x, at);
    }

    /// Time went on to `now`: gives away what can no longer change. Returns exchanges whose places can be released.
    pub fn advance(&mut self, xs: &Slab, now: MonoNs) -> Vec<ExId> {
        while let Some(&(at, x)) = self.waiting.front() {
            if at.0 + GRACE_NS > now.0 {
                break;
            }
            self.waiting.pop_front();
            if self.may_still_be_claimed(xs, x, now) {
                self.waiting.push_back((now, x));
                continue;
            }
            self.give(xs, x);
        }
        while let Some(&(at, x)) = self.idle.front() {
            if at.0 + IDLE_NS > now.0 {
                break;
            }
            self.idle.pop_front();
            if xs.is_live(x) && !self.state(x).closed && !self.state(x).given && xs.get(x).ended == at {
                self.give(xs, x);
            }
        }
        std::mem::take(&mut self.to_release)
    }

    /// A call of a task that replies: its next reply will tell whose it was.
    fn may_still_be_claimed(&self, xs: &Slab, y: ExId, now: MonoNs) -> bool {
        if !xs.is_live(y) || self.states[y.place as usize].parent != Some(Parent::Pending) {
            return false;
        }
        let e = xs.get(y);
        let is_ungiven = |x: ExId| xs.is_live(x) && !self.states[x.place as usize].given;
        let born_of = self.tasks.get(&e.task).and_then(|w| w.born_of);
        (self.roles.role(e.task).replies_foreign || born_of.is_some_and(is_ungiven) || self.is_being_completed(xs, y))
            && e.ended.0 + CLAIM_NS > now.0
    }

    fn resolve(&mut self, xs: &Slab, y: ExId) {
        let parent = self.state(y).parent;
        if let Some(x) = self.completed(xs, y)
            && parent != Some(Parent::Of(x, Rule::Handoff))
            && !self.state(x).given
        {
            if self.roles.is_lossy(xs.get(x).taken, xs.get(y).ended) {
                self.state(y).parent = Some(Parent::Open(Hole::Losses));
            } else {
                self.link(xs, y, x, Rule::Completion);
            }
        }
        if self.state(y).parent != Some(Parent::Pending) {
            return;
        }
        // that its task is one to which requests are handed may have shown later
        let is_handed_work = self.tasks.get(&xs.get(y).task).is_some_and(|w| w.is_handed_work);
        let s = &self.states[y.place as usize];
        if let [x] = s.suspects[..]
            && s.has_one_suspect
            && is_handed_work
            && xs.is_live(x)
            && !self.states[x.place as usize].given
            && !self.roles.is_lossy(xs.get(x).taken, xs.get(y).began)
        {
            return self.link(xs, y, x, Rule::Sole);
        }
        self.state(y).parent = Some(Parent::Open(Hole::Ambiguous));
    }

    /// Hands an exchange on. A client's goes with the request that made it, where there is one.
    fn give(&mut self, xs: &Slab, x: ExId) {
        if !xs.is_live(x) || self.state(x).given {
            if xs.is_live(x) && self.state(x).closed {
                self.release(x);
            }
            return;
        }
        let e = xs.get(x).clone();
        if e.side == Side::Client {
            self.resolve(xs, x);
            let parent = self.state(x).parent;
            match parent {
                // goes with its request
                Some(Parent::Of(p, _)) if xs.is_live(p) && !self.states[p.place as usize].given => {}
                Some(Parent::Of(..)) => self.hand(e, Vec::new(), Some(Hole::Borders), false, x),
                Some(Parent::Open(h)) => self.hand(e, Vec::new(), Some(h), false, x),
                _ => self.hand(e, Vec::new(), None, true, x),
            }
            return;
        }
        let calls = std::mem::take(&mut self.state(x).calls);
        for &y in &calls {
            self.resolve(xs, y);
        }
        let mut with = Vec::with_capacity(calls.len());
        for y in calls {
            let Some(Parent::Of(p, rule)) = self.state(y).parent else { continue };
            if p != x {
                continue;
            }
            with.push((xs.get(y).clone(), rule));
            self.calls.linked += 1;
            self.state(y).given = true;
            if self.state(y).closed {
                self.release(y);
            }
        }
        self.hand(e, with, None, false, x);
    }

    fn hand(
        &mut self,
        exchange: Exchange,
        calls: Vec<(Exchange, Rule)>,
        parent: Option<Hole>,
        is_root_call: bool,
        x: ExId,
    ) {
        match (exchange.side, is_root_call) {
            (Side::Server, _) => {}
            (Side::Client, true) => self.calls.own += 1,
            (Side::Client, false) => self.calls.open += 1,
        }
        let s = self.state(x);
        s.given = true;
        let hole = match () {
            () if s.lossy => Some(Hole::Losses),
            () if exchange.murky => Some(Hole::Borders),
            () if s.overflow => Some(Hole::Borders),
            () => None,
        };
        let (doubts, closed, refusals) = (s.doubts, s.closed, std::mem::take(&mut s.refusals));
        let open_calls = std::mem::take(&mut s.open_calls).into_iter().map(|(_, e, others)| (e, others)).collect();
        let flows_lost = self.roles.is_lossy(MonoNs(0), exchange.ended);
        self.out.done(Done { exchange, calls, parent, is_root_call, doubts, open_calls, hole, flows_lost, refusals });
        if closed {
            self.release(x);
        }
    }

    fn release(&mut self, x: ExId) {
        if !std::mem::replace(&mut self.state(x).released, true) {
            self.to_release.push(x);
        }
    }

    /// The recording is over.
    pub fn finish(&mut self, xs: &Slab) {
        let all: Vec<ExId> = self.waiting.drain(..).map(|(_, x)| x).collect();
        // calls first find their requests, requests then take their calls along
        for &x in &all {
            if xs.is_live(x) && xs.get(x).side == Side::Client {
                self.resolve(xs, x);
            }
        }
        for side in [Side::Server, Side::Client] {
            for &x in &all {
                if xs.is_live(x) && !self.state(x).released && xs.get(x).side == side {
                    self.give(xs, x);
                }
            }
        }
    }
}

fn only(list: &[ExId]) -> Option<ExId> {
    match list {
        [x] => Some(*x),
        _ => None,
    }
}
