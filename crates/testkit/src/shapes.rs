//! The usual architectures of a service, each between unwatched clients and a watched backend.

mod special;

pub use special::{namespaces, pipelined};

use crate::recording::Recording;
use crate::world::{Conn, Got, Listener, Process, Queue, Read, Source, Thread, World};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// How a service is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Shape {
    /// A thread is made for each connection and blocks.
    ThreadPerConnection,
    /// Processes that each accept and serve one connection after the other.
    Prefork,
    /// One task reads all requests; workers call and reply.
    Dispatcher,
    /// One task reads all requests and sends all replies; workers call.
    DispatcherReplies,
    /// One task does everything, over kept upstream connections.
    EventLoop,
    /// One task reads, others make the first call, others again the second, and reply.
    Seda,
    /// A thread a connection hands calls to a pool and waits for the results.
    Executor,
    /// Workers read, call and reply; one task waits on idle connections, and reads what comes first on them for the workers.
    Reactor,
}

impl Shape {
    /// Every shape.
    pub const ALL: [Shape; 8] = [
        Shape::ThreadPerConnection,
        Shape::Prefork,
        Shape::Dispatcher,
        Shape::DispatcherReplies,
        Shape::EventLoop,
        Shape::Seda,
        Shape::Executor,
        Shape::Reactor,
    ];

    /// Whether a task does all the work of a request, and no other's meanwhile.
    pub fn is_blocking(self) -> bool {
        matches!(self, Shape::ThreadPerConnection | Shape::Prefork)
    }
}

/// What to simulate.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The service's shape.
    pub shape: Shape,
    /// Seed.
    pub seed: u64,
    /// Clients, each with one request at a time.
    pub clients: u64,
    /// Requests of each.
    pub requests: u64,
    /// Clients keep their connection.
    pub keepalive: bool,
    /// The backend is another host.
    pub two_hosts: bool,
    /// What that host's clock is ahead of the service's.
    pub ahead_ns: i64,
    /// The backend's address is translated.
    pub translated: bool,
    /// Nobody knows the backend's protocol.
    pub opaque: bool,
    /// Messages of a hundred written in two pieces.
    pub split_percent: f64,
    /// Replies of a hundred whose first half is sent before the last call.
    pub partial_percent: f64,
    /// After how many connections ports are given again.
    pub ports: u16,
    /// Microseconds that a client thinks, at most.
    pub think_us: u64,
    /// The service runs under the library vantage, which isolates events.
    pub isolated: bool,
    /// Jobs of a hundred of an executor that make no call.
    pub callless_percent: f64,
    /// An executor's request hears of the last of its jobs alone.
    pub counts_down: bool,
    /// Requests of a hundred of an executor that hand out no more than one job.
    pub single_percent: f64,
    /// Microseconds that an executor's request works between the results of its jobs, at most.
    pub between_us: u64,
}

impl Plan {
    /// A small plan.
    pub fn new(shape: Shape, seed: u64) -> Plan {
        Plan {
            shape,
            seed,
            clients: 5,
            requests: 6,
            keepalive: true,
            two_hosts: false,
            ahead_ns: 4_000_000_123,
            translated: false,
            opaque: false,
            split_percent: 0.0,
            partial_percent: 0.0,
            ports: 20_000,
            think_us: 400,
            isolated: false,
            callless_percent: 0.0,
            counts_down: false,
            single_percent: 0.0,
            between_us: 0,
        }
    }
}

/// Runs a plan.
pub fn simulate(plan: &Plan) -> Recording {
    let w = World::new(plan.seed);
    w.split(plan.split_percent);
    w.ports(plan.ports);
    w.isolate(plan.isolated);
    let web = w.host("web", 7_000_000_000);
    let other = if plan.two_hosts { w.host("db", 7_000_000_000 + plan.ahead_ns) } else { web };
    let db = w.process(Some(other), "db", 1);
    let backend = db.listen(5432);
    let backend = if plan.translated { backend.publish(&w, [10, 96, 0, 10], 15432) } else { backend };
    let backend = if plan.opaque { backend.opaque(&w) } else { backend };
    serve_backend(&db, backend);
    let app = w.process(Some(web), "app", 1);
    let front = app.listen(80);
    let s = Service { backend, partial_percent: plan.partial_percent };
    match plan.shape {
        Shape::ThreadPerConnection => thread_per_connection(&app, front, s),
        Shape::Prefork => prefork(&w, web, &app, front, s),
        Shape::Dispatcher => dispatcher(&app, front, s, false),
        Shape::DispatcherReplies => dispatcher(&app, front, s, true),
        Shape::EventLoop => event_loop(&app, front, s),
        Shape::Seda => seda(&app, front, s),
        Shape::Executor => executor(&app, front, s, plan),
        Shape::Reactor => reactor(&app, front, s),
    }
    let outside = w.process(None, "client", 1);
    let keepalive = plan.keepalive && plan.shape != Shape::Prefork;
    for _ in 0..plan.clients {
        let (requests, think) = (plan.requests, plan.think_us);
        outside.thread(move |t| async move {
            t.sleep(t.world().within(100, 2_000)).await;
            let mut kept: Option<Conn> = None;
            for _ in 0..requests {
                t.sleep(t.world().within(1, think.max(1))).await;
                let c = match kept.take() {
                    Some(c) => c,
                    None => t.connect(front).await,
                };
                let target = ["/a", "/b", "/c"][t.world().within(0, 2) as usize];
                t.call(c, target, None).await;
                if keepalive {
                    kept = Some(c);
                } else {
                    t.close(c).await;
                }
            }
            if let Some(c) = kept {
                t.close(c).await;
            }
        });
    }
    w.run(3_600_000_000_000);
    w.finish()
}

/// Requests under way between tasks: where the reply goes, and which it is.
type Work = Queue<(Conn, usize)>;
/// The signal of finished requests, and where they are.
type Replying = (Source, Work, Service);

#[derive(Clone, Copy)]
struct Service {
    backend: Listener,
    partial_percent: f64,
}

impl Service {
    async fn reply(&self, t: &Thread, c: Conn, call: usize) {
        let status = if t.world().chance(10.0) { 500 } else { 200 };
        t.reply(c, call, t.world().within(120, 2_000), status).await;
    }

    /// Calls one after the other, then the reply: all by this task.
    async fn serve(&self, t: &Thread, c: Conn, call: usize, mut kept: Option<Conn>) -> Option<Conn> {
        let calls = t.world().within(0, 3);
        let partial = t.world().chance(self.partial_percent);
        for i in 0..calls {
            t.work(80).await;
            if partial && i + 1 == calls {
                t.begin_reply(c, call, 600, 300, 200).await;
            }
            let up = match kept.take() {
                Some(up) => up,
                None => t.connect(self.backend).await,
            };
            t.call(up, "/q", Some(call)).await;
            if t.world().chance(25.0) {
                t.close(up).await;
            } else {
                kept = Some(up);
            }
        }
        t.work(80).await;
        if partial && calls > 0 {
            t.end_reply(c, call).await;
        } else {
            self.reply(t, c, call).await;
        }
        kept
    }
}

/// A service with a thread for each connection.
pub(crate) fn serve_backend(db: &Process, l: Listener) {
    db.main(move |t| async move {
        loop {
            let c = t.accept(l).await;
            t.spawn(move |t| async move {
                while let Some(got) = t.recv(c).await {
                    t.work(250).await;
                    t.reply(c, got.call, t.world().within(110, 900), 200).await;
                }
                t.close(c).await;
            });
        }
    });
}

fn thread_per_connection(app: &Process, front: Listener, s: Service) {
    app.main(move |t| async move {
        loop {
            let c = t.accept(front).await;
            t.spawn(move |t| async move {
                let mut kept = None;
                while let Some(got) = t.recv(c).await {
                    kept = s.serve(&t, c, got.call, kept).await;
                }
                t.close(c).await;
                if let Some(up) = kept {
                    t.close(up).await;
                }
            });
        }
    });
}

fn prefork(w: &World, host: usize, app: &Process, front: Listener, s: Service) {
    let program = move |t: Thread| async move {
        let mut kept = None;
        loop {
            let c = t.accept(front).await;
            while let Some(got) = t.recv(c).await {
                kept = s.serve(&t, c, got.call, kept).await;
            }
            t.close(c).await;
        }
    };
    app.main(program);
    for _ in 0..3 {
        w.process(Some(host), "app", 1).main(program);
    }
}

/// Reads requests of all connections and gives them to `found`; `wake` tells of replies to be sent.
async fn read_all(t: Thread, front: Listener, found: Work, wake: Option<Replying>) {
    let mut sources = vec![Source::Listener(front)];
    sources.extend(wake.as_ref().map(|w| w.0));
    loop {
        for s in t.poll(&sources, None).await {
            match s {
                Source::Listener(l) => {
                    let c = t.accept(l).await;
                    sources.push(Source::Conn(c));
                }
                Source::Conn(c) => match t.read(c).await {
                    Read::End => {
                        sources.retain(|&o| o != s);
                        t.close(c).await;
                    }
                    Read::Messages(all) => {
                        for got in all {
                            t.push(&found, (c, got.call)).await;
                        }
                    }
                },
                Source::Event(e) => {
                    t.take_signals(e).await;
                    if let Some((_, done, s)) = &wake {
                        while let Some((c, call)) = t.try_pop(done) {
                            s.reply(&t, c, call).await;
                        }
                    }
                }
            }
        }
    }
}

fn dispatcher(app: &Process, front: Listener, s: Service, replies: bool) {
    let (found, done): (Work, Work) = Default::default();
    let event = replies.then(|| app.event());
    for _ in 0..3 {
        let (found, done) = (found.clone(), done.clone());
        app.thread(move |t| async move {
            let mut kept = None;
            loop {
                let (c, call) = t.pop(&found).await;
                match event {
                    None => kept = s.serve(&t, c, call, kept).await,
                    Some(e) => {
                        for _ in 0..t.world().within(0, 2) {
                            let up = match kept.take() {
                                Some(up) => up,
                                None => t.connect(s.backend).await,
                            };
                            t.call(up, "/q", Some(call)).await;
                            kept = Some(up);
                        }
                        t.push(&done, (c, call)).await;
                        t.signal(e).await;
                    }
                }
            }
        });
    }
    app.main(move |t| read_all(t, front, found, event.map(|e| (Source::Event(e), done, s))));
}

struct Loop {
    s: Service,
    /// Idle upstream connections.
    idle: Vec<Conn>,
    /// What an upstream connection is used for.
    busy: BTreeMap<Conn, usize>,
    /// Requests: connection and calls still to be made.
    open: BTreeMap<usize, (Conn, u64)>,
}

impl Loop {
    async fn go_on(&mut self, t: &Thread, call: usize, sources: &mut Vec<Source>) {
        let Some((c, left)) = self.open.get(&call).copied() else { return };
        t.work(30).await;
        if left == 0 {
            self.open.remove(&call);
            self.s.reply(t, c, call).await;
            return;
        }
        self.open.insert(call, (c, left - 1));
        let up = match self.idle.pop() {
            Some(up) => up,
            None => {
                let up = t.connect(self.s.backend).await;
                sources.push(Source::Conn(up));
                up
            }
        };
        self.busy.insert(up, call);
        t.request(up, "/q", t.world().within(60, 300), Some(call)).await;
    }
}

fn event_loop(app: &Process, front: Listener, s: Service) {
    app.main(move |t| async move {
        let mut l = Loop { s, idle: Vec::new(), busy: BTreeMap::new(), open: BTreeMap::new() };
        let mut sources = vec![Source::Listener(front)];
        loop {
            for s in t.poll(&sources.clone(), None).await {
                match s {
                    Source::Listener(f) => {
                        let c = t.accept(f).await;
                        sources.push(Source::Conn(c));
                    }
                    Source::Conn(c) => match t.read(c).await {
                        Read::End => {
                            sources.retain(|&o| o != s);
                            t.close(c).await;
                        }
                        Read::Messages(all) => {
                            for Got { call, is_reply } in all {
                                let mine = if is_reply {
                                    let mine = l.busy.remove(&c);
                                    l.idle.push(c);
                                    mine
                                } else {
                                    l.open.insert(call, (c, t.world().within(0, 2)));
                                    Some(call)
                                };
                                if let Some(mine) = mine {
                                    l.go_on(&t, mine, &mut sources).await;
                                }
                            }
                        }
                    },
                    Source::Event(_) => {}
                }
            }
        }
    });
}

fn seda(app: &Process, front: Listener, s: Service) {
    let (first, second): (Work, Work) = Default::default();
    for _ in 0..2 {
        let (first, second) = (first.clone(), second.clone());
        app.thread(move |t| async move {
            let up = t.connect(s.backend).await;
            loop {
                let (c, call) = t.pop(&first).await;
                t.work(40).await;
                t.call(up, "/first", Some(call)).await;
                t.push(&second, (c, call)).await;
            }
        });
    }
    for _ in 0..2 {
        let second = second.clone();
        app.thread(move |t| async move {
            let up = t.connect(s.backend).await;
            loop {
                let (c, call) = t.pop(&second).await;
                t.work(40).await;
                t.call(up, "/second", Some(call)).await;
                s.reply(&t, c, call).await;
            }
        });
    }
    app.main(move |t| read_all(t, front, first, None));
}

fn reactor(app: &Process, front: Listener, s: Service) {
    let (work, idle): (Queue<(Conn, Option<usize>)>, Queue<Conn>) = Default::default();
    let event = app.event();
    for _ in 0..3 {
        let (work, idle) = (work.clone(), idle.clone());
        app.thread(move |t| async move {
            let mut kept = None;
            loop {
                let (c, mut next) = t.pop(&work).await;
                loop {
                    let read = if next.is_none() { t.read(c).await } else { Read::Messages(Vec::new()) };
                    let call = match (next.take(), read) {
                        (Some(call), _) => call,
                        (None, Read::Messages(all)) if !all.is_empty() => all[0].call,
                        (None, Read::Messages(_)) => {
                            t.push(&idle, c).await;
                            t.signal(event).await;
                            break;
                        }
                        (None, Read::End) => {
                            t.close(c).await;
                            break;
                        }
                    };
                    kept = s.serve(&t, c, call, kept).await;
                    t.work(200).await;
                }
            }
        });
    }
    app.main(move |t| async move {
        let mut sources = vec![Source::Listener(front), Source::Event(event)];
        loop {
            for source in t.poll(&sources.clone(), None).await {
                match source {
                    Source::Listener(l) => {
                        let c = t.accept(l).await;
                        t.push(&work, (c, None)).await;
                    }
                    Source::Event(e) => {
                        t.take_signals(e).await;
                        while let Some(c) = t.try_pop(&idle) {
                            sources.push(Source::Conn(c));
                        }
                    }
                    Source::Conn(c) => match t.read(c).await {
                        Read::Messages(all) if all.is_empty() => {}
                        read => {
                            sources.retain(|&o| o != source);
                            match read {
                                Read::Messages(all) => t.push(&work, (c, Some(all[0].call))).await,
                                Read::End => t.close(c).await,
                            }
                        }
                    },
                }
            }
        }
    });
}

/// A request's piece of work: its call, how many others are not done, and where to say so.
type Job = (usize, Rc<Cell<u64>>, Queue<()>);

fn executor(app: &Process, front: Listener, s: Service, plan: &Plan) {
    let (callless, counts_down) = (plan.callless_percent, plan.counts_down);
    let (single, between_us) = (plan.single_percent, plan.between_us);
    let jobs: Queue<Job> = Queue::default();
    for _ in 0..3 {
        let jobs = jobs.clone();
        app.thread(move |t| async move {
            let mut kept = None;
            loop {
                let (call, left, done) = t.pop(&jobs).await;
                let calls = if t.world().chance(callless) { 0 } else { 1 + t.world().within(0, 3) / 3 };
                for _ in 0..calls {
                    let up = match kept.take() {
                        Some(up) => up,
                        None => t.connect(s.backend).await,
                    };
                    t.call(up, "/job", Some(call)).await;
                    kept = Some(up);
                }
                t.work(20).await;
                left.set(left.get() - 1);
                if left.get() == 0 || !counts_down {
                    t.push(&done, ()).await;
                }
            }
        });
    }
    app.main(move |t| async move {
        loop {
            let c = t.accept(front).await;
            let jobs = jobs.clone();
            t.spawn(move |t| async move {
                while let Some(got) = t.recv(c).await {
                    let done: Queue<()> = Queue::default();
                    let is_single = single > 0.0 && t.world().chance(single);
                    let n = t.world().within(0, if is_single { 1 } else { 3 });
                    let left = Rc::new(Cell::new(n));
                    for _ in 0..n {
                        t.push(&jobs, (got.call, left.clone(), done.clone())).await;
                    }
                    for _ in 0..if counts_down { n.min(1) } else { n } {
                        t.pop(&done).await;
                        if between_us > 0 {
                            t.work(between_us).await;
                        }
                    }
                    s.reply(&t, c, got.call).await;
                }
                t.close(c).await;
            });
        }
    });
}

/// A long recording in little memory: what `count` requests of one shape leave, with as many at once as `clients`.
pub fn long(shape: Shape, seed: u64, clients: u64, count: u64) -> Recording {
    simulate(&Plan { clients, requests: count / clients, think_us: 1_000, ..Plan::new(shape, seed) })
}
