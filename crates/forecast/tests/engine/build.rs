//! Systems made by hand.

use wakepath_forecast::bottleneck::Limit;
use wakepath_forecast::outcome::{Outcome, Place, Share};
use wakepath_forecast::system::*;

/// A system in the making.
#[derive(Default)]
pub struct Build(pub System);

impl Build {
    pub fn new() -> Build {
        Build(System { rounds: 1, ..System::default() })
    }

    pub fn station(&mut self, servers: f64, discipline: Discipline) -> StationId {
        let name = format!("station {}", self.0.stations.len());
        self.0.stations.push(Station { name, what: "processors", servers, speed: 1.0, others: 0.0, discipline });
        StationId(self.0.stations.len() as u32 - 1)
    }

    pub fn state(&mut self, process: &str, state: &str, station: Option<StationId>) -> StateId {
        let (host, process, state) = ("host".to_owned(), process.to_owned(), state.to_owned());
        self.0.states.push(State { host, process, state, station });
        StateId(self.0.states.len() as u32 - 1)
    }

    /// An annotated queue.
    pub fn queue(&mut self, name: &str, capacity: Option<u64>, initial: u64) -> QueueId {
        self.0.queues.push(Queue {
            name: name.to_owned(),
            kind: QueueKind::Annotated,
            capacity,
            initial,
            delay_ns: 0,
            ns_per_item: 0.0,
            when_full: WhenFull::Wait,
            is_bytes: false,
        });
        QueueId(self.0.queues.len() as u32 - 1)
    }

    pub fn kind(&mut self, name: &str) -> KindId {
        self.0.kinds.push(name.to_owned());
        KindId(self.0.kinds.len() as u32 - 1)
    }

    pub fn script(&mut self, steps: impl IntoIterator<Item = Step>) -> ScriptId {
        let first = self.0.steps.len();
        self.0.steps.extend(steps);
        self.0.scripts.push(first..self.0.steps.len());
        ScriptId(self.0.scripts.len() as u32 - 1)
    }

    pub fn actor(&mut self, name: &str, start_ns: u64, script: ScriptId) {
        self.0.actors.push(Actor { name: name.to_owned(), start_ns, runs: Runs::Script(script) });
    }

    /// A machine: its script and who runs it from the begin on.
    pub fn machine(&mut self, name: &str, steps: impl IntoIterator<Item = Step>) {
        let script = self.script(steps);
        self.actor(name, 0, script);
    }

    pub fn clients(&mut self, clients: usize) {
        for i in 0..clients {
            self.0.actors.push(Actor { name: format!("client {i}"), start_ns: 0, runs: Runs::Shared });
        }
    }
}

pub fn work(state: StateId, ns: u64) -> Step {
    Step::Work { state, ns }
}

pub fn put(queue: QueueId, count: u64) -> Step {
    Step::Enqueue { queue, count, latency_ns: NOT_SEEN }
}

pub fn get(queue: QueueId, count: u64) -> Step {
    Step::Dequeue { queue, count, latency_ns: NOT_SEEN }
}

/// A dequeue that was seen to go on so long after its items were there.
pub fn get_late(queue: QueueId, latency_ns: u64) -> Step {
    Step::Dequeue { queue, count: 1, latency_ns }
}

/// Time of a place on the path.
pub fn on_path(outcome: &Outcome, place: Place) -> u64 {
    at(&outcome.path, place)
}

/// Time of a place among shares.
pub fn at(shares: &[Share], place: Place) -> u64 {
    shares.iter().find(|s| s.place == place).map_or(0, |s| s.ns)
}

/// Length of shares.
pub fn length(shares: &[Share]) -> u64 {
    shares.iter().map(|s| s.ns).sum()
}

/// Numbers without end, the same each time.
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in 0 to 1, neither included.
    pub fn unit(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Exponential with that mean.
    pub fn exponential(&mut self, mean: f64) -> u64 {
        (-self.unit().ln() * mean).round() as u64
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// Senders with windows of credits over links, and readers of a pool of workers on a host with a disk: some of everything.
pub struct Busy {
    pub system: System,
    /// Of each connection: its states, link and credit.
    connections: Vec<[u32; 5]>,
    dice: Dice,
}

impl Busy {
    /// A system whose scripts are still empty: sender and reader of each connection in turn.
    pub fn new(connections: u32) -> Busy {
        let mut b = Build::new();
        let host = b.station(1.5, Discipline::Shared);
        let disk = b.station(1.0, Discipline::Fifo);
        b.kind("item");
        b.queue("workers", None, 2);
        b.0.queues[0].kind = QueueKind::Workers(Workers::Any);
        let connection = |i| {
            let sends = b.state(&format!("sender {i}"), "cpu", None);
            let reads = b.state(&format!("reader {i}"), "cpu", Some(host));
            let writes = b.state(&format!("reader {i}"), "disk", Some(disk));
            let link = b.queue(&format!("link {i}"), Some(5000), 0);
            let credit = b.queue(&format!("credit {i}"), None, 3000);
            let way = &mut b.0.queues[link.index()];
            (way.delay_ns, way.ns_per_item) = (500, 0.3);
            let back = &mut b.0.queues[credit.index()];
            (back.delay_ns, back.kind) = (400, QueueKind::Buffer);
            b.machine("sender", []);
            b.machine("reader", []);
            [sends.0, reads.0, writes.0, link.0, credit.0]
        };
        let connections = (0..connections).map(connection).collect();
        Busy { system: b.0, connections, dice: Dice(3) }
    }

    /// The next round of a connection.
    pub fn round(&mut self, connection: usize) -> ([Step; 4], [Step; 7]) {
        let [sends, reads, writes, link, credit] = self.connections[connection];
        let (link, credit, workers) = (QueueId(link), QueueId(credit), QueueId(0));
        let dice = &mut self.dice;
        let bytes = 500 + dice.below(1000);
        let begin = Step::Begin { kind: KindId(0) };
        (
            [get(credit, bytes), begin, work(StateId(sends), dice.below(300)), put(link, bytes)],
            [
                get(link, bytes),
                get(workers, 1),
                work(StateId(reads), dice.below(200)),
                work(StateId(writes), dice.below(60)),
                put(workers, 1),
                Step::End,
                put(credit, bytes),
            ],
        )
    }
}

/// The system with so many times as much of something.
pub fn widened(system: &System, limit: Limit, times: f64) -> System {
    let mut changed = system.clone();
    limit.widen(&mut changed, times);
    changed
}
