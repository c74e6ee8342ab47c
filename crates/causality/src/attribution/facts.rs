//! What is known of a host's tasks, processes and exchanges up to now: what rules ask.

use super::domain::Domain;
use super::job::Job;
use super::request_set::{SHARED_FROM, SetId};
use super::state::{Progress, RequestFlag, State};
use super::worker::Worker;
use crate::conditions::holds;
use crate::exchange::{ExId, ExchangeFlag, Slab};
use crate::lineage::Lineage;
use crate::options::Options;
use crate::per_task::OfTasks;
use crate::process::ProcessId;
use crate::process::dials::Dials;
use crate::process::known::Does;
use crate::roles::{HabitId, Roles};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;
use wakepath_flows::places::Places;
use wakepath_model::ids::{EndpointId, MonoNs, TaskId};
use wakepath_model::rows::OPEN;

/// What is known of one host.
pub(super) struct Facts<'a> {
    pub(super) roles: &'a Roles,
    pub(super) tasks: OfTasks<Worker>,
    /// What logical tasks were made for.
    pub(super) lineage: Lineage,
    /// What goroutines that take items through channels are at.
    pub(super) jobs: FxHashMap<TaskId, Job>,
    /// By the leading task of each process.
    pub(super) domains: OfTasks<Domain>,
    pub(super) states: Places<State>,
    /// Open requests of each flow, where the library vantage hands inputs over: nothing else asks for them.
    pub(super) on_flow: FxHashMap<EndpointId, SmallVec<[ExId; 2]>>,
    /// How many flows have several.
    pub(super) shared_flows: usize,
    /// How links are sought.
    pub(super) options: Options,
    /// A request was put off.
    pub(super) puts_off: bool,
    /// Connections that are made and not used yet.
    pub(super) dials: Dials,
    /// The poll whose inputs come next: its task, and until when it was told to wait (ns).
    pub(super) last_poll: (TaskId, u64),
}

impl<'a> Facts<'a> {
    pub(super) fn new(roles: &'a Roles, options: Options) -> Self {
        Facts {
            roles,
            tasks: OfTasks::default(),
            lineage: Lineage::knowing(Arc::clone(roles.logical_tasks.lineage.births())),
            jobs: FxHashMap::default(),
            domains: OfTasks::default(),
            states: Places::default(),
            on_flow: FxHashMap::default(),
            shared_flows: 0,
            options,
            puts_off: false,
            dials: Dials::default(),
            last_poll: (TaskId::UNKNOWN, 0),
        }
    }

    /// From how many requests on a set is not copied.
    pub(super) fn shared_from(&self) -> usize {
        self.options.shared_from.unwrap_or(SHARED_FROM)
    }

    pub(super) fn state(&self, x: ExId) -> &State {
        &self.states[x.place]
    }

    pub(super) fn state_mut(&mut self, x: ExId) -> &mut State {
        &mut self.states[x.place]
    }

    /// An exchange begins, in a place that another had before, or in the next one.
    pub(super) fn begin(&mut self, x: ExId, state: State) {
        match self.states.get_mut(x.place) {
            Some(s) => *s = state,
            None => {
                let place = self.states.push(state);
                debug_assert_eq!(place, x.place);
            }
        }
    }

    pub(super) fn domain(&self, process: ProcessId) -> Option<&Domain> {
        self.domains.get(process.leader())
    }

    pub(super) fn domain_mut(&mut self, process: ProcessId) -> &mut Domain {
        self.domains.or_default(process.leader())
    }

    /// Open requests of a process.
    pub(super) fn open(&self, process: ProcessId) -> &[ExId] {
        self.members(SetId::Open(process))
    }

    /// Open requests of a flow.
    pub(super) fn on_flow(&self, flow: EndpointId) -> &[ExId] {
        self.on_flow.get(&flow).map_or(&[], |on_flow| on_flow)
    }

    pub(super) fn is_open(&self, xs: &Slab, x: ExId) -> bool {
        xs.is_live(x) && !self.state(x).flags.has(Progress::Closed)
    }

    /// Whether the exchange is in memory and was not handed on.
    pub(super) fn is_undelivered(&self, xs: &Slab, x: ExId) -> bool {
        xs.is_live(x) && !self.state(x).flags.has(Progress::Given)
    }

    /// Its reply has begun and only something else can end it: it asks for nothing more.
    pub(super) fn is_implicitly_ended(xs: &Slab, x: ExId) -> bool {
        let e = xs.get(x);
        e.is(ExchangeFlag::OpenEnded) && e.reply.start != OPEN
    }

    /// Whether the task is one that takes requests or makes calls.
    pub(super) fn knows(&self, task: TaskId) -> bool {
        let role = self.roles.role(task);
        role.has(Does::Take) || role.has(Does::Call) || self.tasks.contains(task)
    }

    /// The one request of a list that still wants something, if there is just one. Requests of one flow are answered
    /// in order, so the oldest stands for them; but not where an identifier says which is answered, for then any may be.
    pub(super) fn sole_of(&self, xs: &Slab, held: &[ExId]) -> Option<ExId> {
        let mut found: Option<ExId> = None;
        let mut ended: Option<ExId> = None;
        for &x in held {
            if !self.is_open(xs, x) {
                continue;
            }
            if Self::is_implicitly_ended(xs, x) {
                ended = ended.into_iter().chain([x]).max_by_key(|&x| xs.get(x).number);
                continue;
            }
            match found {
                None => found = Some(x),
                Some(f) if xs.get(f).flow == xs.get(x).flow && !xs.get(x).content.witness.0.names_exchange() => {
                    if xs.get(x).number < xs.get(f).number {
                        found = Some(x);
                    }
                }
                Some(_) => return None,
            }
        }
        found.or(ended)
    }

    /// Whether a request waits for something outside its process, as far as is known: for the answer to a call or for a
    /// connection, or, pipelined, for the request before it on its flow.
    pub(super) fn is_waiting(&self, xs: &Slab, x: ExId) -> bool {
        !self.is_free(x) || self.waits_for_turn(xs, x)
    }

    /// Whether connections are kept by a process, so that a request that waits for its own may be given another's before.
    pub(super) fn is_pooled(&self, process: ProcessId) -> bool {
        let may_pool =
            self.roles.keeps_connections(process) && !self.roles.habits.is_believed(process, HabitId::DialsForOne);
        !holds("waiting.no_pool", !may_pool)
    }

    /// Since when it waits for the answer to its last call; 0 where it waits for something else.
    pub(super) fn waits_since(&self, xs: &Slab, x: ExId) -> MonoNs {
        let asking = self.state(x).request.calls.iter().rev().copied().find(|&y| self.is_open(xs, y));
        asking.map_or(MonoNs(0), |y| xs.get(y).request.began)
    }

    /// Whether a pipelined request waits for the one before it on its flow: it was an input of its own, and nothing was
    /// done for it then. Not where messages bear an identifier, since those are served in any order.
    fn waits_for_turn(&self, xs: &Slab, x: ExId) -> bool {
        let e = xs.get(x);
        let process = self.state(x).process;
        let is_before = |y: &ExId| self.state(*y).process == process && xs.get(*y).number < e.number;
        self.state(x).request.flags.has(RequestFlag::PutOff)
            && !e.content.witness.0.names_exchange()
            && self.on_flow(e.flow).iter().any(is_before)
    }

    /// Whether a request may wait for the one before it on its flow.
    pub(super) fn may_wait_for_turn(&self) -> bool {
        self.puts_off && self.shared_flows > 0
    }

    /// Open requests of a process of which nothing is outstanding. A reply that may go on (its end shows only when
    /// something else begins) may also be followed by more calls.
    pub(super) fn runnable(&self, xs: &Slab, process: ProcessId) -> impl Iterator<Item = ExId> {
        let free = self.members(SetId::Free(process)).iter().copied();
        free.filter(move |&x| !self.waits_for_turn(xs, x))
    }

    /// Whether one read took another request too that is still open (from a TLS record, or where reads are not made short):
    /// that input was not one's alone.
    pub(super) fn is_beside_another(&self, xs: &Slab, task: TaskId, x: ExId) -> bool {
        let (flow, taken) = (xs.get(x).flow, xs.get(x).request.taken);
        let is_held = |y: ExId| self.is_member(y, SetId::Held(task));
        self.on_flow(flow).iter().any(|&y| y != x && xs.get(y).request.taken == taken && is_held(y))
    }

    /// For which request a task goes on when a flow can be written to: the one that the flow was connected for, or
    /// whose reply is on its way there.
    pub(super) fn writes_for(&self, xs: &Slab, flow: EndpointId, task: TaskId) -> Option<ExId> {
        if let Some(x) = self.dials.get(flow).and_then(|d| d.of) {
            return Some(x).filter(|&x| self.is_open(xs, x));
        }
        let held = self.on_flow(flow).iter().filter(|&&x| self.is_member(x, SetId::Held(task)));
        held.min_by_key(|x| xs.get(**x).number).copied()
    }

    /// Whether a task is a helper: it takes no requests, never replies, and makes calls.
    pub(super) fn is_helper(&self, task: TaskId) -> bool {
        let role = self.roles.role(task);
        role.has(Does::Call) && !role.has(Does::Take) && !role.has(Does::ReplyForOthers)
    }

    /// Whether a loop may take up, in its turn, what a thread of its process got for somebody (a client with threads of its own): such a
    /// result lies in memory, and is taken in whichever turn comes.
    pub(super) fn may_take_results(&self, task: TaskId, process: ProcessId, at: MonoNs) -> bool {
        let left = self.domain(process).map_or(MonoNs(0), |d| d.carriers.until(at));
        let takes = |w: &Worker| !w.given.is_isolated() && w.given.may_take_up(left);
        let may = left != MonoNs(0) && self.tasks.get(task).is_some_and(takes);
        !holds("turn.no_result_of_a_thread", !may)
    }
}
