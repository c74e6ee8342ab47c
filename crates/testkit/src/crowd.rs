//! A service that has as many requests open at once as the plan says, all the while: for measuring what each costs, and for
//! holding what is said of many against the truth. A backend that is watched too serves its calls.

use crate::random::Random;
use crate::recording::{Announced, HostRows, Recording};
use crate::truth::Call;
use std::collections::VecDeque;
use wakepath_model::rows::{InputKind, SeenHow, Side};

const US: u64 = 1_000;
const REQUEST_BYTES: u64 = 80;
const REPLY_BYTES: u64 = 200;
/// Connections to the backend that the proxy keeps beyond those it needs.
const SPARE: u64 = 8;
/// Workers of [`Serves::Workers`].
const WORKERS: u64 = 16;
/// Loops of [`Serves::Loops`].
const LOOPS: u64 = 4;
/// Where workers wait for work.
const QUEUE: u64 = 0x7f00_1000;

/// How the service works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serves {
    /// One event loop passes requests on: each makes two calls, one after the other.
    Loop,
    /// The same in several threads, each with connections of its own.
    Loops,
    /// The same under the library, which hands over one input at a time.
    Isolated,
    /// One thread reads all requests; few workers take them up in order, make a call each, and reply.
    Workers,
    /// One event loop whose requests wait for nothing that is recorded; its timer is due whenever a call begins. Each is
    /// answered as soon as its call is.
    Timers,
    /// The same, but they are answered when a timer is due again.
    Parked,
}

impl Serves {
    /// All, with their names.
    pub const ALL: [(&str, Serves); 6] = [
        ("loop", Serves::Loop),
        ("loops", Serves::Loops),
        ("isolated", Serves::Isolated),
        ("workers", Serves::Workers),
        ("timers", Serves::Timers),
        ("parked", Serves::Parked),
    ];
}

/// What to simulate.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How the service works.
    pub serves: Serves,
    /// Requests open at once.
    pub open: u64,
    /// Requests in all.
    pub requests: u64,
    /// Most inputs that a loop is given at once.
    pub at_once: u64,
    /// Seed.
    pub seed: u64,
}

/// Runs a plan.
pub fn simulate(plan: &Plan) -> Recording {
    let mut crowd = Crowd::new(*plan);
    match plan.serves {
        Serves::Workers => crowd.run_workers(),
        Serves::Timers | Serves::Parked => crowd.run_parked(),
        Serves::Loop | Serves::Loops | Serves::Isolated => crowd.run_loops(),
    }
    crowd.out.hosts.push(crowd.host);
    crowd.out
}

/// A connection, by its watched ends (client's 0: not watched), and how far each direction has come.
struct Wire {
    client: u64,
    server: u64,
    moved: [u64; 2],
    /// Its ends' protocol was recognised.
    is_noted: [bool; 2],
}

/// A request that is open.
#[derive(Clone, Copy)]
struct Open {
    front: usize,
    request: usize,
    /// The connection and number of its call, and how many it made before.
    upstream: usize,
    call: usize,
    made: u32,
}

struct Crowd {
    plan: Plan,
    random: Random,
    out: Recording,
    host: HostRows,
    now: u64,
    wires: Vec<Wire>,
    idle: Vec<VecDeque<usize>>,
    made: u64,
}

/// Tasks: the service's first thread, and the backend's.
const SERVICE: u32 = 1;
const BACKEND: u32 = 1_000;

impl Crowd {
    fn new(plan: Plan) -> Crowd {
        let mut host = HostRows::new("web", 5_000_000_000);
        let threads = match plan.serves {
            Serves::Loops => LOOPS as u32,
            Serves::Workers => WORKERS as u32 + 1,
            _ => 1,
        };
        (0..threads).for_each(|i| host.task(0, SERVICE + i, SERVICE, 0, "service"));
        host.task(0, BACKEND, BACKEND, 0, "backend");
        let mut crowd = Crowd {
            plan,
            random: Random::new(plan.seed),
            out: Recording::default(),
            host,
            now: 1_000 * US,
            wires: Vec::new(),
            idle: vec![VecDeque::new(); threads as usize],
            made: 0,
        };
        for i in 0..plan.open + SPARE {
            let task = SERVICE + (i % u64::from(threads)) as u32;
            let front = crowd.wire(None, task);
            debug_assert_eq!(front, 2 * i as usize);
            let upstream = crowd.wire(Some(task), BACKEND);
            crowd.idle[(task - SERVICE) as usize].push_back(upstream);
        }
        crowd
    }

    /// A new connection from a task, or from somebody who is not watched.
    fn wire(&mut self, from: Option<u32>, to: u32) -> usize {
        let number = self.wires.len();
        let ports = (10_000 + (number % 50_000) as u16, if to == BACKEND { 5432 } else { 80 });
        let here = ([10, 0, 1, (number / 50_000) as u8], ports.0);
        let there = ([10, 0, 0, if to == BACKEND { 2 } else { 1 }], ports.1);
        let ids = [2 * number as u64 + 1, 2 * number as u64 + 2];
        // connections begin with numbers of their own, as a kernel chooses them
        let moved = [1, 2].map(|half| number as u64 * 80_000 + half * 40_000);
        let end = |flow, local, remote, task, how, side| {
            let (snd, rcv) = if side == Side::Client { (moved[0], moved[1]) } else { (moved[1], moved[0]) };
            Announced { flow, local, remote, netns: 1, snd, rcv, task, how, side }
        };
        if let Some(task) = from {
            self.host.endpoint(0, &end(ids[0], here, there, task, SeenHow::Connected, Side::Client));
        }
        self.host.endpoint(0, &end(ids[1], there, here, to, SeenHow::Accepted, Side::Server));
        let client = if from.is_some() { ids[0] } else { 0 };
        self.wires.push(Wire { client, server: ids[1], moved, is_noted: [false; 2] });
        number
    }

    /// A task moves a whole message on one end; `arrived`: it is read.
    fn moves(&mut self, task: u32, wire: usize, is_client: bool, is_request: bool, start: u64) {
        self.now += 10 * US;
        let w = &mut self.wires[wire];
        let flow = if is_client { w.client } else { w.server };
        let bytes = start..start + if is_request { REQUEST_BYTES } else { REPLY_BYTES };
        let is_send = is_client == is_request;
        let arrived = if is_send { 0 } else { self.now - 3 * US };
        self.host.moved((self.now - US, self.now, arrived), task, flow, is_send, bytes.clone());
        if !std::mem::replace(&mut w.is_noted[usize::from(is_client)], true) {
            self.host.note(self.now, flow, true);
        }
        self.host.message(self.now, flow, is_send, bytes, ("GET", "/"), if is_request { 0 } else { 200 });
    }

    /// A request is sent on a connection, by its client's task where that is watched.
    fn asks(&mut self, wire: usize, task: Option<u32>, cause: Option<usize>) -> usize {
        let w = &mut self.wires[wire];
        let start = w.moved[0];
        w.moved[0] += REQUEST_BYTES;
        let end = |flow| (flow != 0).then(|| ("web".to_owned(), flow));
        let call = self.out.truth.calls.len();
        self.out.truth.calls.push(Call {
            name: format!("q{call}"),
            cause,
            client: end(w.client),
            server: end(w.server),
            wire: Vec::new(),
            start,
            began_ns: self.now,
            ended_ns: u64::MAX,
        });
        if let Some(task) = task {
            self.moves(task, wire, true, true, start);
        }
        call
    }

    fn takes(&mut self, task: u32, wire: usize) {
        self.moves(task, wire, false, true, self.wires[wire].moved[0] - REQUEST_BYTES);
    }

    fn answers(&mut self, task: u32, wire: usize, call: usize) {
        let start = self.wires[wire].moved[1];
        self.wires[wire].moved[1] += REPLY_BYTES;
        self.moves(task, wire, false, false, start);
        self.out.truth.calls[call].ended_ns = self.now;
    }

    fn hears(&mut self, task: u32, wire: usize) {
        self.moves(task, wire, true, false, self.wires[wire].moved[1] - REPLY_BYTES);
    }

    fn polls(&mut self, task: u32, ready: usize, timeout_ns: u64) {
        self.now += 5 * US;
        self.host.polled(self.now - 2 * US, self.now, task, ready as i32, timeout_ns);
    }

    /// The backend is asked: it takes up what there is.
    fn backend_takes(&mut self, wires: &[usize]) {
        self.polls(BACKEND, wires.len(), u64::MAX);
        wires.iter().for_each(|&w| self.takes(BACKEND, w));
    }

    /// The thread that a request belongs to.
    fn thread_of(&self, front: usize) -> u32 {
        SERVICE + (front / 2 % self.idle.len()) as u32
    }

    /// A loop is given what can be read of connections; after the library one at a time.
    fn given(&mut self, task: u32, count: usize) {
        if self.plan.serves != Serves::Isolated {
            self.polls(task, count, u64::MAX);
        }
    }

    fn handed(&mut self, task: u32, flow: u64, of: usize) {
        if self.plan.serves == Serves::Isolated {
            self.polls(task, 1, u64::MAX);
            self.host.given(self.now, task, flow, InputKind::Read, of as u32, 1);
        }
    }

    /// A request makes its next call.
    fn calls(&mut self, task: u32, open: &mut Open) {
        let wire = self.idle[(task - SERVICE) as usize].pop_front().expect("as many connections as requests");
        open.upstream = wire;
        open.call = self.asks(wire, Some(task), Some(open.request));
        open.made += 1;
    }

    /// New requests on these connections, all of one thread.
    fn begin(&mut self, fronts: &[usize], queue: &mut VecDeque<Open>) {
        let Some(&first) = fronts.first() else { return };
        let task = self.thread_of(first);
        self.given(task, fronts.len());
        let mut wires = Vec::new();
        for &front in fronts {
            self.handed(task, self.wires[front].server, fronts.len());
            let request = self.asks(front, None, None);
            self.made += 1;
            self.takes(task, front);
            let mut open = Open { front, request, upstream: 0, call: 0, made: 0 };
            self.calls(task, &mut open);
            wires.push(open.upstream);
            queue.push_back(open);
        }
        self.backend_takes(&wires);
    }

    fn run_loops(&mut self) {
        let mut queues: Vec<VecDeque<Open>> = vec![VecDeque::new(); self.idle.len()];
        let threads = queues.len();
        // a few more than later, so that there are connections to spare from then on
        for i in 0..(self.plan.open + SPARE).min(self.plan.requests) as usize {
            self.begin(&[2 * i], &mut queues[i % threads]);
        }
        let mut spare = SPARE;
        while queues.iter().any(|q| !q.is_empty()) {
            for queue in &mut queues {
                let count = self.random.within(1, self.plan.at_once).min(queue.len() as u64) as usize;
                let batch: Vec<Open> = queue.drain(..count).collect();
                let Some(first) = batch.first() else { continue };
                let task = self.thread_of(first.front);
                self.polls(BACKEND, 0, 20 * US);
                batch.iter().for_each(|o| self.answers(BACKEND, o.upstream, o.call));
                self.given(task, count);
                let (mut asked, mut free) = (Vec::new(), Vec::new());
                for mut open in batch {
                    self.handed(task, self.wires[open.upstream].client, count);
                    self.hears(task, open.upstream);
                    self.idle[(task - SERVICE) as usize].push_back(open.upstream);
                    if open.made == 1 {
                        self.calls(task, &mut open);
                        asked.push(open.upstream);
                        queue.push_back(open);
                        continue;
                    }
                    self.answers(task, open.front, open.request);
                    let is_left = spare > 0;
                    spare -= u64::from(is_left);
                    if !is_left && self.made + free.len() as u64 != self.plan.requests {
                        free.push(open.front);
                    }
                }
                if !asked.is_empty() {
                    self.backend_takes(&asked);
                }
                self.begin(&free, queue);
            }
        }
    }

    /// A client's request is read by the thread that reads all.
    fn reads(&mut self, front: usize, queue: &mut VecDeque<Open>) {
        if self.made == self.plan.requests {
            return;
        }
        self.polls(SERVICE, 1, u64::MAX);
        let request = self.asks(front, None, None);
        self.made += 1;
        self.takes(SERVICE, front);
        queue.push_back(Open { front, request, upstream: 0, call: 0, made: 0 });
    }

    fn run_workers(&mut self) {
        let mut queue = VecDeque::new();
        for i in 0..self.plan.open as usize {
            self.reads(2 * i, &mut queue);
        }
        let mut busy: VecDeque<(u32, Open)> = VecDeque::new();
        let mut resting: VecDeque<u32> = (1..=WORKERS as u32).map(|i| SERVICE + i).collect();
        loop {
            let mut asked = Vec::new();
            while let Some(worker) = resting.pop_front() {
                let Some(mut open) = queue.pop_front() else { break };
                self.now += 5 * US;
                self.host.waited(self.now - 4 * US, self.now - 2 * US, self.now, worker, SERVICE, 0);
                self.host.at_futex(QUEUE);
                self.calls(worker, &mut open);
                asked.push(open.upstream);
                busy.push_back((worker, open));
            }
            if !asked.is_empty() {
                self.backend_takes(&asked);
            }
            let Some((worker, open)) = busy.pop_front() else { return };
            self.polls(BACKEND, 0, 20 * US);
            self.answers(BACKEND, open.upstream, open.call);
            self.hears(worker, open.upstream);
            self.idle[(worker - SERVICE) as usize].push_back(open.upstream);
            self.answers(worker, open.front, open.request);
            resting.push_back(worker);
            self.reads(open.front, &mut queue);
        }
    }

    /// Each time its timer is due, the oldest request makes a call, and is answered when that is.
    fn run_parked(&mut self) {
        let mut queue = VecDeque::new();
        for i in 0..self.plan.open as usize {
            self.reads(2 * i, &mut queue);
        }
        let mut spare = 2 * self.plan.open as usize;
        while let Some(mut open) = queue.pop_front() {
            self.polls(SERVICE, 0, 20 * US);
            self.calls(SERVICE, &mut open);
            self.backend_takes(&[open.upstream]);
            // the next one comes while a call is under way: that it was not who asked is then known
            self.reads(std::mem::replace(&mut spare, open.front), &mut queue);
            self.polls(BACKEND, 0, 20 * US);
            self.answers(BACKEND, open.upstream, open.call);
            self.polls(SERVICE, 1, u64::MAX);
            self.hears(SERVICE, open.upstream);
            self.idle[0].push_back(open.upstream);
            if self.plan.serves == Serves::Parked {
                self.polls(SERVICE, 0, 20 * US);
            }
            self.answers(SERVICE, open.front, open.request);
        }
    }
}
