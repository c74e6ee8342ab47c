//! Who serves: services, how many take requests at a time, and how long one is taken by a request.

use super::collect::{Collected, Did};
use crate::jobs::{Holds, ServiceId};
use rustc_hash::{FxHashMap, FxHashSet};
use wakepath_analysis::names::Names;
use wakepath_causality::path::Span;
use wakepath_model::ids::{EndpointId, HostId, MonoNs, TaskId};

/// A service, as the requests show it.
#[derive(Clone, Debug)]
pub struct Found {
    /// As `requests` names it.
    pub name: String,
    /// Where.
    pub host: HostId,
    /// Name of its processes.
    pub process: String,
    /// The port at which it listens, 0 where it has none.
    pub port: u16,
    /// Tasks that took requests, in order.
    pub tasks: Vec<TaskId>,
    /// How many of them limit how many requests are served at a time.
    pub workers: Option<u32>,
    /// How long one is taken by a request.
    pub holds: Holds,
    /// Each request came over a connection of its own, so that what waits, waits to be accepted.
    pub is_per_connection: bool,
}

/// The services of the kept requests.
#[derive(Clone, Debug, Default)]
pub struct Services {
    /// All of them, by name and host.
    pub all: Vec<Found>,
    /// Of each span, who served it; `None` = nobody watched.
    pub of_span: Vec<Option<ServiceId>>,
}

/// One request at a task.
struct Stay {
    service: ServiceId,
    task: TaskId,
    flow: EndpointId,
    from: MonoNs,
    to: MonoNs,
}

/// The share of requests that must have been taken up while another was open on the same task, for its tasks to count as
/// event loops. Below, it is a few pipelined requests.
const OVERLAPPING: f64 = 0.01;
/// `epoll_wait` and `epoll_pwait` of x86-64 and `epoll_pwait2`: who waits for an answer there can be woken by other
/// requests too.
const EPOLL: [u16; 3] = [232, 281, 441];

/// Whether a system call waits for many flows at once.
pub fn is_epoll(syscall: u16) -> bool {
    EPOLL.contains(&syscall)
}

/// Finds the services of requests.
pub fn find(collected: &Collected, names: &Names<'_>) -> Services {
    let mut ids: FxHashMap<(HostId, String), ServiceId> = FxHashMap::default();
    let mut by_task: FxHashMap<(HostId, TaskId, u16), ServiceId> = FxHashMap::default();
    let mut out = Services { of_span: vec![None; collected.span_count()], ..Services::default() };
    let mut stays = Vec::new();
    for (r, first) in collected.requests.iter().zip(&collected.first) {
        for (i, s) in r.spans.iter().enumerate() {
            let Some(h) = &s.callee else { continue };
            let e = &h.exchange;
            let service = *by_task
                .entry((h.host, e.request.task, h.place.lport))
                .or_insert_with(|| id_of(&mut out.all, &mut ids, names, s, h.host, e.request.task, h.place.lport));
            out.of_span[*first as usize + i] = Some(service);
            stays.push(Stay { service, task: e.request.task, flow: e.flow, from: e.request.taken, to: e.reply.ended });
        }
    }
    stays.sort_unstable_by_key(|s| (s.service, s.task, s.from, s.to));
    for (id, service) in out.all.iter_mut().enumerate() {
        let from = stays.partition_point(|s| s.service < id);
        let to = stays.partition_point(|s| s.service <= id);
        describe(service, &stays[from..to]);
    }
    out
}

fn id_of(
    all: &mut Vec<Found>,
    ids: &mut FxHashMap<(HostId, String), ServiceId>,
    names: &Names<'_>,
    span: &Span,
    host: HostId,
    task: TaskId,
    port: u16,
) -> ServiceId {
    let name = names.service(span);
    *ids.entry((host, name.clone())).or_insert_with(|| {
        let process = names.program(host, task).to_owned();
        let (tasks, workers, holds) = (Vec::new(), None, Holds::Visit);
        all.push(Found { name, host, process, port, tasks, workers, holds, is_per_connection: false });
        all.len() - 1
    })
}

/// Tasks, workers and how they are held, from a service's requests by task and time.
fn describe(service: &mut Found, stays: &[Stay]) {
    let mut overlapping = 0usize;
    // of each task its first and last moment with a request, and its flows
    let mut lives: Vec<(MonoNs, MonoNs)> = Vec::new();
    let mut flows: FxHashSet<EndpointId> = FxHashSet::default();
    let mut is_reused = false;
    for of_task in stays.chunk_by(|a, b| a.task == b.task) {
        let mut until = MonoNs(0);
        for s in of_task {
            overlapping += usize::from(s.from < until);
            until = until.max(s.to);
            flows.insert(s.flow);
        }
        is_reused |= of_task.iter().any(|s| s.flow != of_task[0].flow);
        service.tasks.push(of_task[0].task);
        lives.push((of_task[0].from, until));
    }
    if overlapping as f64 > OVERLAPPING * stays.len() as f64 {
        service.holds = Holds::Work;
    }
    // a task that never serves but one connection was made for it: their number limits nothing
    service.workers = is_reused.then(|| most_at_once(&lives));
    service.is_per_connection = flows.len() * 10 > stays.len() * 9;
}

/// Most intervals that overlap at any moment.
pub fn most_at_once<T: Copy + Ord>(intervals: &[(T, T)]) -> u32 {
    let mut steps: Vec<(T, i32)> = intervals.iter().flat_map(|&(a, b)| [(a, 1), (b, -1)]).collect();
    // who comes when another leaves was there with it
    steps.sort_unstable_by_key(|&(at, n)| (at, -n));
    let (mut now, mut most) = (0i32, 0i32);
    for (_, n) in steps {
        now += n;
        most = most.max(now);
    }
    most.unsigned_abs()
}

impl Services {
    /// Makes event loops of services whose tasks wait for answers where other requests can wake them.
    pub fn settle(&mut self, waits: &FxHashMap<ServiceId, (u64, u64)>) {
        for (&id, &(in_epoll, all)) in waits {
            if let Some(s) = self.all.get_mut(id).filter(|_| in_epoll * 2 > all) {
                s.holds = Holds::Work;
                s.workers = s.workers.or(Some(s.tasks.len() as u32));
            }
        }
    }
}

/// Whether a point is the end of a task's work rather than its begin.
pub fn is_output(did: Did) -> bool {
    matches!(did, Did::Called | Did::Replied)
}
