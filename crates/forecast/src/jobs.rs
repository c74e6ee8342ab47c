//! A recording as jobs: what each request needed of whom, before anything had to be waited for.
//!
//! A [`System`](crate::system::System) of state machines keeps who did what. Where any free worker may take a request,
//! that is no property of the system but of the run: so live recordings become jobs first, trees of visits at services,
//! and changes that add workers, leave out calls or make them concurrent are made there. `Jobs::system` then lays them
//! out as scripts for the replay.

mod layout;

use crate::system::{Station, StationId};

/// How requests come.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// A fixed number of clients; each sends its next request after a reply and has paused.
    Closed {
        /// Clients.
        clients: u32,
    },
    /// At fixed times, whatever becomes of those before ([`Job::at_ns`]).
    Open,
}

/// How long a worker of a service is taken by a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// From taking it up until the reply is sent: a thread or process a request.
    Visit,
    /// Only while it computes: an event loop.
    Work,
}

/// Who serves requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// As `requests` names it (`nginx:80`).
    pub name: String,
    /// Its host.
    pub host: String,
    /// Its process, as `--change` names it.
    pub process: String,
    /// The processors that it runs on.
    pub station: StationId,
    /// Workers: processes or threads that take requests; `None` where their number limits nothing (one a connection).
    pub workers: Option<u32>,
    /// The processes that they are in, by number. As many as workers: each worker is a process, and has its own of all
    /// that threads of one process share. Fewer: workers are their threads. None: not known.
    pub processes: Vec<u32>,
    /// Its processes run one thread at a time.
    pub turns: Option<Turns>,
    /// Clients keep their connections to it, and each stays with the process that accepted it.
    pub keeps_connections: bool,
    /// How long one is taken.
    pub holds: Holds,
    /// Room of its accept queue, where known and where connections wait in it.
    pub backlog: Option<u64>,
    /// From being woken to running on a processor that nobody else has (ns): passes each time that it is asked or
    /// answered, and is nobody's work.
    pub wake_ns: u64,
}

/// How many processors the processes of a service can use, of which each lets one of its threads run at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Turns {
    /// Each process.
    pub each: f64,
    /// All together at most: what there is.
    pub most: f64,
}

impl Service {
    /// Whether its workers are processes to which clients keep connections: each connection stays with the one that accepted it.
    pub fn is_pinned(&self) -> bool {
        self.keeps_connections && self.processes.len() > 1 && !self.is_threaded()
    }

    /// Whether its workers are threads of fewer processes.
    pub fn is_threaded(&self) -> bool {
        !self.processes.is_empty() && self.workers.is_some_and(|n| n as usize > self.processes.len())
    }
}

/// Something of which there is a number, taken and given back: connections of a pool, a lock.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// As `--change` names it: `SERVICE->SERVICE` for connections, `PROCESS/lock N` for a lock.
    pub name: String,
    /// How many there are.
    pub tokens: u32,
    /// It is a lock.
    pub is_lock: bool,
    /// The process whose threads share it: another process has one of its own. `None` = processes share it.
    pub process: Option<u32>,
}

/// Index in [`Jobs::services`].
pub type ServiceId = usize;
/// Index in [`Jobs::pools`].
pub type PoolId = usize;

/// What a service does for a request, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// It works or sleeps.
    Work {
        /// What for: `cpu`, `disk`, `timer`, `lock`, …
        state: WorkState,
        /// How long it takes when nothing else is in the way (ns).
        ns: u64,
    },
    /// It calls others, all at once, and goes on when all have answered.
    Calls(Vec<Visit>),
    /// It takes one of a pool, and waits where there is none.
    Take(PoolId),
    /// It gives it back.
    Give(PoolId),
    /// The reply is sent: who asked goes on, and what follows keeps only its worker (a log line, a close). At most one;
    /// without it, the reply is sent at the end.
    Reply,
}

/// What a part is spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WorkState {
    /// Computing: served by the service's processors.
    Cpu,
    /// A disk: served by the host's disk.
    Disk,
    /// Sleeping until a time, or for something outside that takes its time.
    Timer,
    /// What was not seen: an unwatched service's answer, and what no record explains.
    Outside,
}

/// One request or call at a service, with what it led to.
#[derive(Clone, Debug, PartialEq)]
pub struct Visit {
    /// Who served it; `None` = nobody watched: its time is one part of [`WorkState::Outside`].
    pub service: Option<ServiceId>,
    /// What was asked for: index in [`Jobs::asked`].
    pub asked: usize,
    /// The way there (ns), without waiting for anybody.
    pub there_ns: u64,
    /// The way back (ns).
    pub back_ns: u64,
    /// What was done.
    pub parts: Vec<Part>,
}

/// A request.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// When it came (ns from the begin).
    pub at_ns: u64,
    /// Its client's pause before it (ns; closed arrivals).
    pub think_ns: u64,
    /// How long it took (ns), as measured.
    pub took_ns: u64,
    /// All of it.
    pub root: Visit,
}

/// Clients that ask for the same, while others ask for something else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Crowd {
    /// How many.
    pub clients: u32,
    /// What they ask for: indices in [`Jobs::asked`].
    pub asks: Vec<usize>,
    /// They were there all the time.
    pub stays: bool,
}

/// A recording as jobs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Jobs {
    /// Who computes and stores.
    pub stations: Vec<Station>,
    /// Who serves.
    pub services: Vec<Service>,
    /// What there is a number of.
    pub pools: Vec<Pool>,
    /// What is asked for, with whom: `postgres:5432 SELECT …`. `drop`, `cache` and `parallel` name these.
    pub asked: Vec<String>,
    /// Requests, in order of coming.
    pub jobs: Vec<Job>,
    /// How they come.
    pub arrivals: Option<Arrivals>,
    /// Clients that ask for different things, the crowd with most requests first; none where all ask for the same, or that
    /// is not known. Of closed arrivals.
    pub crowds: Vec<Crowd>,
    /// Requests that took part in the measurement but are no jobs here, since their path has holes or there were too many.
    pub left_out: u64,
    /// Times that clients whose SYN is not answered send it again after the same time before they double it.
    pub syn_linear: u8,
    /// Length of the recording from the first request to the last reply (ns).
    pub elapsed_ns: u64,
    /// What the derivation could not see, in words, with what would show it: refusals quote these.
    pub unseen: Vec<String>,
}
