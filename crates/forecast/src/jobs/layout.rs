//! Lays jobs out as a system: scripts of steps for the replay.
//!
//! A visit is a script of its own, forked by who asks and joined where the answer is needed. Workers, pools and locks
//! are queues of tokens. A client of a closed arrival model takes the next job when it was answered and has paused.

use super::{Arrivals, Crowd, Holds, Job, Jobs, Part, Service, ServiceId, Visit, WorkState};
use crate::derive::links::SYN_RETRY_NS;
use crate::system::{
    self, Actor, KindId, NOT_SEEN, Queue, QueueId, QueueKind, Runs, ScriptId, State, StateId, Step, System, WhenFull,
    Workers,
};
use rustc_hash::FxHashMap;

/// What clients are called, in names of links.
pub const CLIENT: &str = "client";
/// Host and process of what nobody watches.
pub const UNWATCHED: &str = "unwatched";
/// A closed model's clients go through the jobs as often as it takes to make this many, so that begin and end, where not
/// all clients are at work, weigh little.
const JOBS_MIN: usize = 20_000;
/// But not oftener than this.
const ROUNDS_MAX: usize = 8;

impl Jobs {
    /// The system that a replay runs. Equal jobs give equal systems.
    pub fn system(&self) -> System {
        let mut out = Layout {
            jobs: self,
            system: System::default(),
            states: FxHashMap::default(),
            workers: Vec::new(),
            accepts: Vec::new(),
        };
        out.system.stations = self.stations.clone();
        out.queues();
        let mut kinds: FxHashMap<usize, KindId> = FxHashMap::default();
        for job in &self.jobs {
            let next = KindId(kinds.len() as u32);
            let kind = *kinds.entry(job.root.asked).or_insert(next);
            if kind == next {
                out.system.kinds.push(self.asked.get(job.root.asked).cloned().unwrap_or_default());
            }
            out.job(job, kind);
        }
        let mut system = out.system;
        system.rounds = 1;
        if let Some(Arrivals::Closed { clients }) = self.arrivals {
            system.rounds = JOBS_MIN.div_ceil(self.jobs.len().max(1)).clamp(1, ROUNDS_MAX) as u32;
            system.crowds = self.crowds.iter().map(|c| self.crowd(c)).collect();
            let clients = match self.crowds.iter().map(|c| c.clients).sum() {
                0 => clients,
                all => all,
            };
            let actor = |n| Actor { name: format!("{CLIENT} {n}"), start_ns: 0, runs: Runs::Shared };
            system.actors = (1..=clients.max(1)).map(actor).collect();
        }
        system
    }
}

impl Jobs {
    fn crowd(&self, c: &Crowd) -> system::Crowd {
        let is_its = |(_, job): &(usize, &Job)| c.asks.contains(&job.root.asked);
        let takes = self.jobs.iter().enumerate().filter(is_its).map(|(at, _)| at as u32).collect();
        system::Crowd { clients: c.clients, takes, stays: c.stays }
    }
}

/// What the workers of a service are.
fn workers(s: &Service) -> Workers {
    match () {
        () if s.is_threaded() => Workers::Threads,
        () if s.is_pinned() => Workers::Processes,
        () => Workers::Any,
    }
}

struct Layout<'a> {
    jobs: &'a Jobs,
    system: System,
    states: FxHashMap<(Option<ServiceId>, usize, Kind), StateId>,
    /// Of each service, its workers and its accept queue.
    workers: Vec<Option<QueueId>>,
    accepts: Vec<Option<QueueId>>,
}

/// What a state is: work of a visit, or what passes without anybody's work.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Work(WorkState),
    /// On the way from this service (or a client) to another.
    Way(Option<ServiceId>),
    Wake,
}

impl Layout<'_> {
    fn queue(&mut self, name: String, kind: QueueKind, capacity: Option<u64>, initial: u64) -> QueueId {
        let id = QueueId(self.system.queues.len() as u32);
        let when_full = match kind {
            QueueKind::AcceptQueue => WhenFull::Retry { first_ns: SYN_RETRY_NS, linear: self.jobs.syn_linear },
            _ => WhenFull::Wait,
        };
        let queue = Queue { name, kind, capacity, initial, delay_ns: 0, ns_per_item: 0.0, when_full, is_bytes: false };
        self.system.queues.push(queue);
        id
    }

    /// Pools come first, so that a pool's number is its queue's.
    fn queues(&mut self) {
        for pool in &self.jobs.pools {
            let kind = if pool.is_lock { QueueKind::Lock } else { QueueKind::Pool };
            self.queue(pool.name.clone(), kind, None, u64::from(pool.tokens));
        }
        for service in &self.jobs.services {
            let kind = workers(service);
            let name = format!("{} {}", service.name, kind.names()[1]);
            let workers = service.workers.map(|n| self.queue(name, QueueKind::Workers(kind), None, u64::from(n)));
            let accepts = service.backlog.filter(|_| workers.is_some()).map(|room| {
                self.queue(format!("{} accept queue", service.name), QueueKind::AcceptQueue, Some(room), 0)
            });
            self.workers.push(workers);
            self.accepts.push(accepts);
        }
    }

    /// A service's name; what nobody watches is called by what is asked of it.
    fn name(&self, service: Option<ServiceId>, asked: usize) -> String {
        match service.and_then(|id| self.jobs.services.get(id)) {
            Some(s) => s.name.clone(),
            None => self.jobs.asked.get(asked).and_then(|a| a.split(' ').next()).unwrap_or(UNWATCHED).to_owned(),
        }
    }

    fn state(&mut self, v: &Visit, kind: Kind) -> StateId {
        // the name of what nobody watches comes from what is asked
        let key = (v.service, if v.service.is_some() { 0 } else { v.asked }, kind);
        if let Some(&id) = self.states.get(&key) {
            return id;
        }
        let service = v.service.and_then(|id| self.jobs.services.get(id));
        let host = service.map_or(UNWATCHED, |s| &s.host).to_owned();
        // where several services of a host are the same program, which of them
        let is_alone = |s: &Service| {
            !self.jobs.services.iter().any(|o| (&o.host, &o.process) == (&s.host, &s.process) && o.name != s.name)
        };
        let process = match service {
            Some(s) if is_alone(s) => s.process.clone(),
            _ => self.name(v.service, v.asked),
        };
        let disk = || {
            let name = format!("{host}/disk");
            let at = self.jobs.stations.iter().position(|s| s.name == name)?;
            Some(crate::system::StationId(at as u32))
        };
        let (process, state, station) = match kind {
            Kind::Work(WorkState::Cpu) => (process, "cpu", service.map(|s| s.station)),
            Kind::Work(WorkState::Disk) => (process, "disk", disk()),
            Kind::Work(WorkState::Timer) => (process, "timer", None),
            Kind::Work(WorkState::Outside) => (process, "outside", None),
            Kind::Wake => (process, "wake-up", None),
            Kind::Way(from) => {
                let from = from.and_then(|id| self.jobs.services.get(id)).map_or(CLIENT, |s| &s.name);
                (format!("{from}-{}", self.name(v.service, v.asked)), "link", None)
            }
        };
        let id = StateId(self.system.states.len() as u32);
        self.system.states.push(State { host, process, state: state.to_owned(), station });
        self.states.insert(key, id);
        id
    }

    fn work(&mut self, steps: &mut Vec<Step>, v: &Visit, kind: Kind, ns: u64) {
        if ns > 0 {
            let state = self.state(v, kind);
            steps.push(Step::Work { state, ns });
        }
    }

    fn script(&mut self, steps: Vec<Step>) -> ScriptId {
        let from = self.system.steps.len();
        self.system.steps.extend(steps);
        self.system.scripts.push(from..self.system.steps.len());
        ScriptId((self.system.scripts.len() - 1) as u32)
    }

    fn job(&mut self, job: &Job, kind: KindId) {
        let root = self.visit(None, &job.root);
        let script = self.script(vec![Step::Begin { kind }, Step::Fork { script: root }, Step::Join, Step::End]);
        match self.jobs.arrivals {
            Some(Arrivals::Closed { .. }) => self.system.shared.push((script, job.think_ns)),
            _ => {
                let name = self.system.kinds.get(kind.index()).cloned().unwrap_or_default();
                self.system.actors.push(Actor { name, start_ns: job.at_ns, runs: Runs::Script(script) });
            }
        }
    }

    /// The script of a visit, after those of its calls.
    fn visit(&mut self, from: Option<ServiceId>, v: &Visit) -> ScriptId {
        let jobs = self.jobs;
        let service = v.service.and_then(|id| jobs.services.get(id));
        let place = |of: &[Option<QueueId>]| v.service.and_then(|id| of.get(id).copied().flatten());
        let (workers, accepts) = (place(&self.workers), place(&self.accepts));
        let holds = service.map_or(Holds::Visit, |s| s.holds);
        let wake_ns = service.map_or(0, |s| s.wake_ns);
        let one = |queue| Step::Dequeue { queue, count: 1, latency_ns: NOT_SEEN };
        let back = |queue| Step::Enqueue { queue, count: 1, latency_ns: NOT_SEEN };
        let mut steps = Vec::with_capacity(v.parts.len() + 8);
        self.work(&mut steps, v, Kind::Way(from), v.there_ns);
        // connections wait in the accept queue until a worker comes
        steps.extend(accepts.map(back));
        // who is busy need not be woken, so that this passes beside waiting for a worker
        self.work(&mut steps, v, Kind::Wake, wake_ns);
        let whole = workers.filter(|_| holds == Holds::Visit);
        steps.extend(whole.map(one));
        steps.extend(accepts.map(one));
        let piece = workers.filter(|_| holds == Holds::Work);
        let mut is_held = false;
        // what comes after the reply is a script of its own
        let mut answered: Option<Vec<Step>> = None;
        for part in &v.parts {
            let computes = matches!(part, Part::Work { state: WorkState::Cpu | WorkState::Disk, .. });
            if let Some(queue) = piece.filter(|_| computes != is_held && !matches!(part, Part::Reply)) {
                steps.push(if computes { one(queue) } else { back(queue) });
                is_held = computes;
            }
            match part {
                Part::Work { state, ns } => self.work(&mut steps, v, Kind::Work(*state), *ns),
                Part::Calls(calls) => {
                    for call in calls {
                        let script = self.visit(v.service, call);
                        steps.push(Step::Fork { script });
                    }
                    steps.push(Step::Join);
                    self.work(&mut steps, v, Kind::Wake, wake_ns);
                }
                Part::Take(pool) => steps.push(one(QueueId(*pool as u32))),
                Part::Give(pool) => steps.push(back(QueueId(*pool as u32))),
                Part::Reply if answered.is_none() => answered = Some(std::mem::take(&mut steps)),
                Part::Reply => {}
            }
        }
        steps.extend(piece.filter(|_| is_held).map(back));
        steps.extend(whole.map(back));
        let mut before = match answered {
            Some(before) if steps.is_empty() => before,
            Some(mut before) => {
                let after = self.script(steps);
                before.push(Step::Fork { script: after });
                before
            }
            None => steps,
        };
        self.work(&mut before, v, Kind::Way(from), v.back_ns);
        self.script(before)
    }
}
