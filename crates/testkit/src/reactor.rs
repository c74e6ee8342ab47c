//! A service that runs every request in one loop, as programs on Node, asyncio or libuv do: requests share connections in both
//! directions, wait for timers, for a place in a pool and for what another one sets free, and go on after their reply; the
//! program makes calls of its own besides.

use crate::recording::Recording;
use crate::shapes::serve_backend;
use crate::world::{Conn, Got, Listener, Read, Source, Thread, US, World};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// What to simulate. Percentages are of a request's steps, unless it says otherwise.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Seed.
    pub seed: u64,
    /// Connections of clients.
    pub clients: u64,
    /// Requests on each of them.
    pub requests: u64,
    /// Most requests of one connection at once. Several are told apart by an identifier (a stream).
    pub streams: u64,
    /// Connections to the backend that a call has for itself.
    pub pool: usize,
    /// Calls that go over one connection that all requests share, where replies come in order.
    pub shared_percent: u64,
    /// Steps before which a request waits for a timer.
    pub timer_percent: u64,
    /// Steps that a request puts off to the end of the turn.
    pub deferred_percent: u64,
    /// Steps in which it makes two calls at once.
    pub parallel_percent: u64,
    /// Requests (percent) that make a call after their reply.
    pub after_percent: u64,
    /// Microseconds between calls that the program makes of its own accord; 0: none.
    pub own_us: u64,
    /// The library vantage isolates events.
    pub isolated: bool,
}

impl Plan {
    /// Requests that make one call after another, each client with one request at a time, with nothing else going on.
    pub fn new(seed: u64) -> Plan {
        Plan {
            seed,
            clients: 4,
            requests: 6,
            streams: 1,
            pool: 8,
            shared_percent: 0,
            timer_percent: 0,
            deferred_percent: 0,
            parallel_percent: 0,
            after_percent: 0,
            own_us: 0,
            isolated: false,
        }
    }
}

/// Runs a plan.
pub fn simulate(plan: &Plan) -> Recording {
    let w = World::new(plan.seed);
    w.isolate(plan.isolated);
    let host = w.host("web", 7_000_000_000);
    let db = w.process(Some(host), "db", 1);
    let backend = db.listen(5432);
    serve_backend(&db, backend);
    let app = w.process(Some(host), "app", 1);
    let front = app.listen(80);
    let front = if plan.streams > 1 { front.multiplexed(&w) } else { front };
    let p = plan.clone();
    app.main(move |t| async move { Reactor::new(t, p, front, backend).await.run().await });
    let outside = w.process(None, "client", 1);
    for _ in 0..plan.clients {
        let (requests, streams) = (plan.requests, plan.streams);
        outside.thread(move |t| async move {
            t.sleep(t.world().within(3_000, 6_000)).await;
            let c = t.connect(front).await;
            let mut left = requests;
            while left > 0 {
                let burst = left.min(t.world().within(1, streams.max(1)));
                for _ in 0..burst {
                    t.request(c, "/a", 90, None).await;
                }
                for _ in 0..burst {
                    if t.recv(c).await.is_none() {
                        return;
                    }
                }
                left -= burst;
                t.sleep(t.world().within(1, 400)).await;
            }
            // its connection stays: what a program does after a reply must not end with it
            t.sleep(50_000).await;
            t.close(c).await;
        });
    }
    w.run(2_000_000 * US);
    w.finish()
}

/// What is next in a request.
#[derive(Clone, Copy)]
enum Step {
    Call,
    TwoCalls,
    Timer,
    Defer,
    Reply,
}

/// A request, or work of the program's own.
struct Job {
    /// The request and its connection; none where nobody asked.
    of: Option<(Conn, usize)>,
    steps: VecDeque<Step>,
    /// Calls that are not answered.
    waits: u64,
}

/// What is due at a time.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Job(usize),
    Own,
}

struct Reactor {
    t: Thread,
    plan: Plan,
    front: Listener,
    backend: Listener,
    sources: Vec<Source>,
    jobs: BTreeMap<usize, Job>,
    next_job: usize,
    idle: Vec<Conn>,
    made: usize,
    busy: BTreeMap<Conn, usize>,
    /// Jobs that wait for a connection of the pool.
    waiting: VecDeque<usize>,
    shared: Option<Conn>,
    /// Whose replies come next on the shared connection.
    owed: VecDeque<usize>,
    timers: BinaryHeap<Reverse<(u64, Due)>>,
    deferred: Vec<usize>,
}

impl Reactor {
    async fn new(t: Thread, plan: Plan, front: Listener, backend: Listener) -> Reactor {
        let mut sources = vec![Source::Listener(front)];
        let shared = if plan.shared_percent > 0 { Some(t.connect(backend).await) } else { None };
        sources.extend(shared.map(Source::Conn));
        let mut timers = BinaryHeap::new();
        if plan.own_us > 0 {
            timers.push(Reverse((t.world().now() + plan.own_us * US, Due::Own)));
        }
        Reactor {
            t,
            plan,
            front,
            backend,
            sources,
            jobs: BTreeMap::new(),
            next_job: 0,
            idle: Vec::new(),
            made: 0,
            busy: BTreeMap::new(),
            waiting: VecDeque::new(),
            shared,
            owed: VecDeque::new(),
            timers,
            deferred: Vec::new(),
        }
    }

    fn chance(&self, percent: u64) -> bool {
        self.t.world().chance(percent as f64)
    }

    async fn run(mut self) {
        loop {
            let now = self.t.world().now();
            let due = self.timers.peek().map(|Reverse((at, _))| at.saturating_sub(now).div_ceil(1_000_000));
            let timeout_ms = if self.deferred.is_empty() { due } else { Some(0) };
            let sources = self.sources.clone();
            for s in self.t.poll(&sources, timeout_ms).await {
                self.ready(s).await;
            }
            for job in std::mem::take(&mut self.deferred) {
                self.go_on(job).await;
            }
            while let Some(Reverse((at, _))) = self.timers.peek()
                && *at <= self.t.world().now()
            {
                match self.timers.pop() {
                    Some(Reverse((_, Due::Job(job)))) => self.go_on(job).await,
                    _ => self.of_its_own().await,
                }
            }
        }
    }

    async fn ready(&mut self, s: Source) {
        let c = match s {
            Source::Listener(l) if l == self.front => {
                let c = self.t.accept(l).await;
                return self.sources.push(Source::Conn(c));
            }
            Source::Conn(c) => c,
            _ => return,
        };
        match self.t.read(c).await {
            Read::End => {
                self.sources.retain(|o| *o != s);
                self.t.close(c).await;
            }
            Read::Messages(all) => {
                for got in all {
                    self.took(c, got).await;
                }
            }
        }
    }

    async fn took(&mut self, c: Conn, got: Got) {
        if !got.is_reply {
            let job = self.new_job(Some((c, got.call)));
            return self.go_on(job).await;
        }
        let job = if Some(c) == self.shared { self.owed.pop_front() } else { self.busy.remove(&c) };
        let is_pooled = Some(c) != self.shared;
        if is_pooled {
            self.idle.push(c);
        }
        // who waits for a connection may come before who has its reply, or after
        let is_first = self.chance(50);
        if is_first && is_pooled {
            self.next_in_line().await;
        }
        if let Some(id) = job
            && let Some(j) = self.jobs.get_mut(&id)
        {
            j.waits -= 1;
            if j.waits == 0 {
                self.go_on(id).await;
            }
        }
        if !is_first && is_pooled {
            self.next_in_line().await;
        }
    }

    fn new_job(&mut self, of: Option<(Conn, usize)>) -> usize {
        let w = self.t.world().clone();
        let mut steps = VecDeque::new();
        let some = if of.is_some() { w.within(0, 3) } else { 1 };
        for _ in 0..some {
            if of.is_some() && self.chance(self.plan.timer_percent) {
                steps.push_back(Step::Timer);
            }
            if self.chance(self.plan.deferred_percent) {
                steps.push_back(Step::Defer);
            }
            steps.push_back(if self.chance(self.plan.parallel_percent) { Step::TwoCalls } else { Step::Call });
        }
        if of.is_some() {
            steps.push_back(Step::Reply);
            if self.chance(self.plan.after_percent) {
                if self.chance(50) {
                    steps.push_back(if self.chance(50) { Step::Timer } else { Step::Defer });
                }
                steps.push_back(Step::Call);
            }
        }
        self.next_job += 1;
        self.jobs.insert(self.next_job, Job { of, steps, waits: 0 });
        self.next_job
    }

    async fn of_its_own(&mut self) {
        let own_us = self.plan.own_us;
        let next = self.t.world().now() + self.t.world().within(own_us / 2, own_us) * US;
        self.timers.push(Reverse((next, Due::Own)));
        let job = self.new_job(None);
        self.go_on(job).await;
    }

    /// A job does what it can without waiting.
    async fn go_on(&mut self, id: usize) {
        loop {
            let Some(j) = self.jobs.get_mut(&id) else { return };
            let Some(step) = j.steps.pop_front() else {
                self.jobs.remove(&id);
                return;
            };
            let of = j.of;
            self.t.work(20).await;
            match step {
                Step::Reply => {
                    if let Some((c, call)) = of {
                        self.t.reply(c, call, self.t.world().within(120, 900), 200).await;
                    }
                }
                Step::Timer => {
                    let at = self.t.world().now() + self.t.world().within(1_000, 5_000) * US;
                    self.timers.push(Reverse((at, Due::Job(id))));
                    return;
                }
                Step::Defer => return self.deferred.push(id),
                Step::Call => return self.asks(id).await,
                Step::TwoCalls => {
                    self.asks(id).await;
                    return self.asks(id).await;
                }
            }
        }
    }

    /// A job makes a call, or waits for a connection that it can make it on.
    async fn asks(&mut self, id: usize) {
        if let Some(j) = self.jobs.get_mut(&id) {
            j.waits += 1;
        }
        if let Some(c) = self.shared.filter(|_| self.chance(self.plan.shared_percent)) {
            self.owed.push_back(id);
            return self.request(c, id).await;
        }
        self.waiting.push_back(id);
        self.next_in_line().await;
    }

    /// Gives connections of the pool to who waits for one.
    async fn next_in_line(&mut self) {
        while !self.waiting.is_empty() {
            let c = match self.idle.pop() {
                Some(c) => c,
                None if self.made < self.plan.pool => {
                    self.made += 1;
                    let c = self.t.connect(self.backend).await;
                    self.sources.push(Source::Conn(c));
                    c
                }
                None => return,
            };
            let Some(id) = self.waiting.pop_front() else { return };
            self.busy.insert(c, id);
            self.request(c, id).await;
        }
    }

    async fn request(&self, c: Conn, id: usize) {
        let cause = self.jobs.get(&id).and_then(|j| j.of).map(|of| of.1);
        self.t.request(c, "/q", self.t.world().within(60, 300), cause).await;
    }
}
