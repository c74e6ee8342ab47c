//! What is replayed: actors that go through scripts, queues between them, stations that serve their work.
//!
//! Everything that anybody may wait for is one of two things. A *station* has servers, and work takes one of them for its
//! length: processors, a disk. A *queue* has items and room, and who dequeues waits for items, who enqueues for room
//! (section 3.1): socket buffers, windows, accept queues, and as queues of tokens, pools, locks and workers.

use crate::replay::Spooled;

/// Names an entry of a list of the [`System`].
macro_rules! id {
    ($($(#[$m:meta])* $name:ident;)*) => { $(
        $(#[$m])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);
        impl $name {
            /// Its place in its list.
            pub fn index(self) -> usize { self.0 as usize }
        }
    )* };
}

id! {
    /// Of [`System::stations`].
    StationId;
    /// Of [`System::queues`].
    QueueId;
    /// Of [`System::states`].
    StateId;
    /// Of [`System::scripts`].
    ScriptId;
    /// Of [`System::kinds`].
    KindId;
}

/// How a station divides itself among the work that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// In order of arrival, each until it is done: a disk.
    Fifo,
    /// All at once, each at an equal part of the speed and none faster than one server: processors under a fair scheduler.
    Shared,
    /// As `Shared`, and `at_once` of them run at full speed until in this period [`Station::servers`] times its length is
    /// used up; then all wait for the next period: a cgroup's quota.
    Quota {
        /// Length of a period (ns).
        period_ns: u64,
        /// Processors that there are.
        at_once: u32,
    },
}

impl Discipline {
    /// Whether all are served at once: processors.
    pub fn is_shared(self) -> bool {
        self != Discipline::Fifo
    }
}

/// Something that serves work.
#[derive(Clone, Debug, PartialEq)]
pub struct Station {
    /// For people, as `--change` names it: `HOST` for the processors of a host, `HOST/disk`.
    pub name: String,
    /// What it is, for people: `processors`, `disk`.
    pub what: &'static str,
    /// Servers. A shared station may have a fraction (a quota of 0.3 processors); a FIFO station has a whole number.
    /// Infinite = nobody ever waits.
    pub servers: f64,
    /// How fast a server is: 1 = as recorded.
    pub speed: f64,
    /// Servers beside these that are taken by what the model leaves out: tasks that serve no request.
    pub others: f64,
    /// How it divides itself.
    pub discipline: Discipline,
}

/// Room or tokens of a queue that never run out.
pub const WITHOUT_BOUND: u64 = 1 << 50;

/// What becomes of who finds a queue full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// It waits for room.
    Wait,
    /// It tries again: a SYN to a full accept queue.
    Retry {
        /// After so long (ns) at first.
        first_ns: u64,
        /// So many times more after the same time, 255 at most; from then on the time is doubled each time.
        linear: u8,
    },
}

/// How long who was refused so many times waits before it tries again (ns).
pub(crate) fn retry_ns(first_ns: u64, linear: u8, refused: u32) -> f64 {
    let doubled = refused.saturating_sub(1).saturating_sub(linear.into());
    first_ns.max(1) as f64 * f64::from(doubled).exp2()
}

/// What the workers of a service are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Workers {
    /// Threads or processes, of which any takes any request.
    Any,
    /// Threads of fewer processes.
    Threads,
    /// Processes to which clients keep connections: each stays with the one that accepted it.
    Processes,
}

impl Workers {
    /// One of them, and several, in words.
    pub const fn names(self) -> [&'static str; 2] {
        match self {
            Workers::Any => ["worker", "workers"],
            Workers::Threads => ["thread", "threads"],
            Workers::Processes => ["process", "processes"],
        }
    }
}

/// What a queue is of: decides words and which changes apply to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum QueueKind {
    /// Connections that nobody accepted yet; `queue NAME=+N`.
    AcceptQueue,
    /// Tokens of a service's workers; `workers P=+N`.
    Workers(Workers),
    /// Tokens of a pool of connections; `pool P=+N`.
    Pool,
    /// The one token of a lock.
    Lock,
    /// A way between two hosts; `link A-B …`.
    Link,
    /// Room of a socket's send buffer, a window or a pipe, as credits in bytes; `queue NAME=…`.
    Buffer,
    /// A queue that an annotation names.
    Annotated,
}

/// Items in order between who enqueues and who dequeues.
#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    /// For people, as `--change` names it.
    pub name: String,
    /// What it is.
    pub kind: QueueKind,
    /// Most items (or bytes) in it, on their way or there; `None` = without bound.
    pub capacity: Option<u64>,
    /// Items in it at the begin: the tokens of a pool.
    pub initial: u64,
    /// From leaving the sender to being there (ns), besides the time below.
    pub delay_ns: u64,
    /// Time that one item (or byte) occupies the way, one after the other (ns): the inverse of a link's bandwidth.
    pub ns_per_item: f64,
    /// What happens where it is full.
    pub when_full: WhenFull,
    /// Its counts are bytes.
    pub is_bytes: bool,
}

impl Queue {
    /// Its tokens are held and given back by whoever took them.
    pub fn is_held(&self) -> bool {
        matches!(self.kind, QueueKind::Workers(_) | QueueKind::Pool | QueueKind::Lock)
    }

    /// Its items stand for room or for a right: who waits for them waits for what others give back. Of buffers and annotated
    /// queues, those with items at the begin: somebody has to begin with them.
    pub fn is_tokens(&self) -> bool {
        self.is_held() || matches!(self.kind, QueueKind::Buffer | QueueKind::Annotated) && self.initial > 0
    }
}

/// What an actor does for a time: an edge of the dependence graph (section 2.1).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The host.
    pub host: String,
    /// The process or service, or an annotated state machine.
    pub process: String,
    /// `cpu`, `disk`, `timer`, …, or what an annotation calls it.
    pub state: String,
    /// Who serves it; `None` = it takes its time whatever else happens.
    pub station: Option<StationId>,
}

/// The latency of an operation that was not seen to wait ([`Step::Enqueue`], [`Step::Dequeue`]). Where it has to wait in
/// a replay, what passes is what passed usually at that queue. Other latencies are what was seen, 0 too.
pub const NOT_SEEN: u64 = u64::MAX;

/// A step of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Works for so long (ns on a free server at speed 1).
    Work {
        /// As what.
        state: StateId,
        /// How long.
        ns: u64,
    },
    /// Puts items into a queue; where it has no room for them, waits.
    Enqueue {
        /// Where.
        queue: QueueId,
        /// How many items or bytes.
        count: u64,
        /// What was seen to pass between room and going on, where it waited for room (ns): the weight of that edge; or
        /// [`NOT_SEEN`].
        latency_ns: u64,
    },
    /// Takes items out of a queue; where there are fewer, waits.
    Dequeue {
        /// From where.
        queue: QueueId,
        /// How many items or bytes.
        count: u64,
        /// What was seen to pass between the items' being there and going on, where it waited for them (ns; section 3.1); or
        /// [`NOT_SEEN`].
        latency_ns: u64,
    },
    /// Starts another script beside this one.
    Fork {
        /// Which.
        script: ScriptId,
    },
    /// Waits until all that it forked has ended.
    Join,
    /// A transaction begins: what forecasts are about.
    Begin {
        /// Of which kind.
        kind: KindId,
    },
    /// It is over.
    End,
}

/// What an actor runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Runs {
    /// One script, once: a state machine as it was recorded.
    Script(ScriptId),
    /// Scripts of a list that all such actors share, each taking the next, one after the other until the list has been
    /// gone through [`System::rounds`] times: a client of a closed arrival model.
    Shared,
}

/// A state machine, or a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// Its name and context key, for people (section 3.3).
    pub name: String,
    /// When it starts (ns from the begin of the replay).
    pub start_ns: u64,
    /// What it does.
    pub runs: Runs,
}

/// Everything that a replay needs. Made by [`crate::derive`], altered by changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct System {
    /// Who serves.
    pub stations: Vec<Station>,
    /// What is between.
    pub queues: Vec<Queue>,
    /// What is done.
    pub states: Vec<State>,
    /// Names of the kinds of transactions, as `requests` shows them.
    pub kinds: Vec<String>,
    /// Steps of all scripts, one after the other.
    pub steps: Vec<Step>,
    /// Where each script's steps are in `steps`.
    pub scripts: Vec<std::ops::Range<usize>>,
    /// Where the steps are instead, if they do not fit into memory; then `steps` is empty, and so is each script there.
    pub spooled: Option<Spooled>,
    /// Who runs them, by start.
    pub actors: Vec<Actor>,
    /// The scripts of [`Runs::Shared`], in the recorded order, with the pause before each (ns; think time).
    pub shared: Vec<(ScriptId, u64)>,
    /// How often `shared` is gone through, at least 1.
    pub rounds: u32,
    /// Who takes what of `shared`, where not everybody takes all; the crowd with most of it first. The first actors that run
    /// [`Runs::Shared`] are of the first crowd.
    pub crowds: Vec<Crowd>,
}

/// Clients that ask for the same, while others ask for something else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Crowd {
    /// How many.
    pub clients: u32,
    /// Places in [`System::shared`], in order. Nobody takes more once the first crowd has gone through its own.
    pub takes: Vec<u32>,
    /// It was there all the time: it begins again where the first crowd takes longer than it.
    pub stays: bool,
}

impl System {
    /// Work as certain states takes `times` as long. Gives how often they work, and for how long altogether before (ns).
    pub fn scale_work(&mut self, is_it: impl Fn(StateId) -> bool, times: f64) -> (u64, u64) {
        let mut sum = (0u64, 0u64);
        let mut add = |count: u64, ns: u64| sum = (sum.0 + count, sum.1.saturating_add(ns));
        for step in &mut self.steps {
            if let Step::Work { state, ns } = step
                && is_it(*state)
            {
                add(1, *ns);
                *ns = (*ns as f64 * times).round() as u64;
            }
        }
        if let Some(spooled) = &mut self.spooled {
            for state in (0..self.states.len() as u32).map(StateId).filter(|s| is_it(*s)) {
                let (count, ns) = spooled.work(state);
                add(count, ns);
                spooled.scale_work(state, times);
            }
        }
        sum
    }

    /// How often certain states work, and for how long altogether (ns).
    pub fn work(&self, is_it: impl Fn(StateId) -> bool) -> (u64, u64) {
        let mut sum = (0u64, 0u64);
        for step in &self.steps {
            if let Step::Work { state, ns } = step
                && is_it(*state)
            {
                sum = (sum.0 + 1, sum.1.saturating_add(*ns));
            }
        }
        if let Some(spooled) = &self.spooled {
            for state in (0..self.states.len() as u32).map(StateId).filter(|s| is_it(*s)) {
                let (count, ns) = spooled.work(state);
                sum = (sum.0 + count, sum.1.saturating_add(ns));
            }
        }
        sum
    }
}
