//! Hosts, tasks, flows and queues in virtual time: programs are `async` blocks, one a task, and what the kernel would show
//! of them becomes rows.
//!
//! One seed gives one recording. A send returns at some moment after its bytes are on their way, so that a reader may
//! be told of before the sender is; a woken task runs a little later, so that another may take its work.

use crate::random::Random;
use crate::recording::{Announced, HEAD_BYTES, HostRows, Recording};
use crate::truth::{Call, End};
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use wakepath_model::rows::{op, seen};

/// Nanoseconds of a microsecond.
pub const US: u64 = 1_000;
type Fiber = usize;

/// A simulated world.
#[derive(Clone)]
pub struct World(Rc<RefCell<Inner>>);

struct Inner {
    now: u64,
    turn: u64,
    timers: BinaryHeap<Reverse<(u64, u64, Fiber)>>,
    fibers: Vec<Option<Pin<Box<dyn Future<Output = ()>>>>>,
    current: Fiber,
    random: Random,
    recording: Recording,
    tasks: Vec<u32>,
    socks: Vec<Sock>,
    listeners: Vec<Listening>,
    events: Vec<Signal>,
    flows: u64,
    ports: u16,
    ports_wrap: u16,
    used: BTreeSet<([u8; 4], u16, usize)>,
    split_percent: f64,
}

#[derive(Default)]
struct Sock {
    /// Host and number, where watched.
    end: Option<(usize, u64)>,
    peer: usize,
    snd: u64,
    rcv: u64,
    /// Ends and arrivals of what is under way to here.
    segments: VecDeque<(u64, u64)>,
    /// Messages under way to here.
    wire: VecDeque<Wire>,
    parsed: VecDeque<Got>,
    waiters: Vec<Fiber>,
    /// When the other side closed.
    over: Option<u64>,
    noted: bool,
    opaque: bool,
    latency: (u64, u64),
    rests: BTreeMap<usize, (u64, u64)>,
    announced: Option<Announced>,
    tuple: ([u8; 4], u16, usize),
    is_closed: bool,
}

#[derive(Clone)]
struct Wire {
    start: u64,
    end: u64,
    is_told: bool,
    got: Got,
    status: u16,
}

struct Listening {
    host: Option<usize>,
    address: [u8; 4],
    port: u16,
    netns: u32,
    published: Option<([u8; 4], u16)>,
    backlog: VecDeque<(u64, usize)>,
    waiters: Vec<Fiber>,
    opaque: bool,
}

#[derive(Default)]
struct Signal {
    count: u64,
    by: Option<(u64, u32)>,
    waiters: Vec<Fiber>,
}

/// A message that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Got {
    /// The call that it asks for or answers.
    pub call: usize,
    /// It answers.
    pub is_reply: bool,
}

/// What came of reading without waiting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// Whole messages, perhaps none.
    Messages(Vec<Got>),
    /// The other side closed.
    End,
}

/// What a task can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// Bytes, or the end of a flow.
    Conn(Conn),
    /// A connection.
    Listener(Listener),
    /// A signal between tasks (eventfd).
    Event(Event),
}

/// One end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conn(usize);
/// What accepts connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listener(usize);
/// A signal between tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event(usize);

/// A process.
#[derive(Clone)]
pub struct Process {
    world: World,
    host: Option<usize>,
    leader: u32,
    name: String,
    netns: u32,
}

/// A task: what a program may do.
#[derive(Clone)]
pub struct Thread {
    process: Process,
    task: u32,
}

/// Items between tasks; who waits is woken in turn, and finds it gone where another was quicker.
pub struct Queue<T>(Rc<RefCell<Waiting<T>>>);

struct Waiting<T> {
    items: VecDeque<T>,
    waiters: VecDeque<Fiber>,
    woken: BTreeMap<Fiber, (u32, u64)>,
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Queue(Rc::clone(&self.0))
    }
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Queue(Rc::new(RefCell::new(Waiting {
            items: VecDeque::new(),
            waiters: VecDeque::new(),
            woken: BTreeMap::new(),
        })))
    }
}

/// A lock: a queue with one item.
pub type Lock = Queue<()>;

async fn pause() {
    let mut is_over = false;
    poll_fn(|_| if std::mem::replace(&mut is_over, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

impl World {
    /// An empty world.
    pub fn new(seed: u64) -> World {
        World(Rc::new(RefCell::new(Inner {
            now: US,
            turn: 0,
            timers: BinaryHeap::new(),
            fibers: Vec::new(),
            current: 0,
            random: Random::new(seed),
            recording: Recording::default(),
            tasks: Vec::new(),
            socks: Vec::new(),
            listeners: Vec::new(),
            events: Vec::new(),
            flows: 0,
            ports: 0,
            ports_wrap: 20_000,
            used: BTreeSet::new(),
            split_percent: 0.0,
        })))
    }

    /// How many messages of a hundred are written in two pieces.
    pub fn split(&self, percent: f64) {
        self.0.borrow_mut().split_percent = percent;
    }

    /// After how many connections ports are given again.
    pub fn ports(&self, count: u16) {
        self.0.borrow_mut().ports_wrap = count;
    }

    /// A watched host whose clock shows `clock_ns` at true time 0.
    pub fn host(&self, name: &str, clock_ns: i64) -> usize {
        let mut w = self.0.borrow_mut();
        w.recording.hosts.push(HostRows::new(name, clock_ns));
        w.tasks.push(0);
        w.tasks.len() - 1
    }

    /// A process of a watched host, or (none) of one that nobody watches.
    pub fn process(&self, host: Option<usize>, name: &str, netns: u32) -> Process {
        let p = Process { world: self.clone(), host, leader: 0, name: name.to_owned(), netns };
        Process { leader: p.new_task(0, None), ..p }
    }

    /// A number in `from..=to`.
    pub fn within(&self, from: u64, to: u64) -> u64 {
        self.0.borrow_mut().random.within(from, to)
    }

    /// True in `percent` of a hundred cases.
    pub fn chance(&self, percent: f64) -> bool {
        self.0.borrow_mut().random.chance(percent)
    }

    /// The true time.
    pub fn now(&self) -> u64 {
        self.0.borrow().now
    }

    /// A signal between tasks.
    pub fn event(&self) -> Event {
        let mut w = self.0.borrow_mut();
        w.events.push(Signal::default());
        Event(w.events.len() - 1)
    }

    /// A free lock.
    pub fn lock(&self) -> Lock {
        let lock = Lock::default();
        lock.0.borrow_mut().items.push_back(());
        lock
    }

    fn spawn(&self, fiber: impl Future<Output = ()> + 'static) {
        let mut w = self.0.borrow_mut();
        w.fibers.push(Some(Box::pin(fiber)));
        let (fiber, now) = (w.fibers.len() - 1, w.now);
        w.wake(fiber, now);
    }

    /// Runs until nothing more happens, or until a true time.
    pub fn run(&self, until: u64) {
        let mut context = Context::from_waker(Waker::noop());
        loop {
            let (mut running, fiber) = {
                let mut w = self.0.borrow_mut();
                let Some(&Reverse((t, _, fiber))) = w.timers.peek() else { return };
                if t > until {
                    return;
                }
                w.timers.pop();
                w.now = w.now.max(t);
                w.current = fiber;
                let Some(running) = w.fibers[fiber].take() else { continue };
                (running, fiber)
            };
            if running.as_mut().poll(&mut context).is_pending() {
                self.0.borrow_mut().fibers[fiber] = Some(running);
            }
        }
    }

    /// What was recorded.
    pub fn finish(self) -> Recording {
        let fibers = std::mem::take(&mut self.0.borrow_mut().fibers);
        drop(fibers);
        let mut w = self.0.borrow_mut();
        let now = w.now;
        w.recording.hosts.iter_mut().for_each(|h| h.anchor(now));
        std::mem::take(&mut w.recording)
    }

    async fn sleep_until(&self, t: u64) {
        while self.now() < t {
            {
                let mut w = self.0.borrow_mut();
                let fiber = w.current;
                w.wake(fiber, t);
            }
            pause().await;
        }
    }

    async fn sleep(&self, ns: u64) {
        self.sleep_until(self.now() + ns).await;
    }
}

impl Inner {
    fn wake(&mut self, fiber: Fiber, at: u64) {
        self.turn += 1;
        let at = at.max(self.now);
        self.timers.push(Reverse((at, self.turn, fiber)));
    }

    /// Since when a source is ready, or when it will be.
    fn ready_at(&self, s: Source) -> Option<u64> {
        match s {
            Source::Conn(Conn(c)) => {
                let c = &self.socks[c];
                let parsed = if c.parsed.is_empty() { None } else { Some(0) };
                parsed.or(c.segments.front().map(|s| s.1)).or(c.over)
            }
            Source::Listener(Listener(l)) => self.listeners[l].backlog.front().map(|b| b.0),
            Source::Event(Event(e)) => self.events[e].by.filter(|_| self.events[e].count > 0).map(|b| b.0),
        }
    }

    fn waiters(&mut self, s: Source) -> &mut Vec<Fiber> {
        match s {
            Source::Conn(Conn(c)) => &mut self.socks[c].waiters,
            Source::Listener(Listener(l)) => &mut self.listeners[l].waiters,
            Source::Event(Event(e)) => &mut self.events[e].waiters,
        }
    }

    fn wake_all(&mut self, s: Source, at: u64) {
        for fiber in std::mem::take(self.waiters(s)) {
            self.wake(fiber, at);
        }
    }

    fn address(host: Option<usize>) -> [u8; 4] {
        host.map_or([10, 0, 9, 9], |h| [10, 0, 0, 1 + h as u8])
    }

    fn end(&self, c: usize) -> Option<End> {
        self.socks[c].end.map(|(h, f)| (self.recording.hosts[h].name.clone(), f))
    }
}

impl Process {
    fn new_task(&self, parent: u32, t: Option<u64>) -> u32 {
        let mut w = self.world.0.borrow_mut();
        let Some(h) = self.host else { return 0 };
        w.tasks[h] += 1;
        let task = w.tasks[h];
        let leader = if self.leader == 0 { task } else { self.leader };
        w.recording.hosts[h].task(t.unwrap_or(0), task, leader, parent, &self.name);
        task
    }

    /// Runs the process's first thread.
    pub fn main<F: Future<Output = ()> + 'static>(&self, program: impl FnOnce(Thread) -> F) {
        let t = Thread { process: self.clone(), task: self.leader };
        self.world.spawn(program(t));
    }

    /// Runs another thread, which exists before the recording.
    pub fn thread<F: Future<Output = ()> + 'static>(&self, program: impl FnOnce(Thread) -> F) {
        let t = Thread { process: self.clone(), task: self.new_task(0, None) };
        self.world.spawn(program(t));
    }

    /// A signal between its tasks.
    pub fn event(&self) -> Event {
        self.world.event()
    }

    /// Listens.
    pub fn listen(&self, port: u16) -> Listener {
        let mut w = self.world.0.borrow_mut();
        w.listeners.push(Listening {
            host: self.host,
            address: if self.netns > 1 { [127, 0, 0, 1] } else { Inner::address(self.host) },
            port,
            netns: self.netns,
            published: None,
            backlog: VecDeque::new(),
            waiters: Vec::new(),
            opaque: false,
        });
        Listener(w.listeners.len() - 1)
    }
}

impl Listener {
    /// Clients dial another address, which is translated.
    pub fn publish(self, world: &World, address: [u8; 4], port: u16) -> Listener {
        world.0.borrow_mut().listeners[self.0].published = Some((address, port));
        self
    }

    /// Nobody knows the protocol of its flows.
    pub fn opaque(self, world: &World) -> Listener {
        world.0.borrow_mut().listeners[self.0].opaque = true;
        self
    }
}

impl Thread {
    /// The world.
    pub fn world(&self) -> &World {
        &self.process.world
    }

    fn rows(&self, f: impl FnOnce(&mut HostRows)) {
        if let Some(h) = self.process.host {
            f(&mut self.world().0.borrow_mut().recording.hosts[h]);
        }
    }

    /// Starts another thread of the process.
    pub fn spawn<F: Future<Output = ()> + 'static>(&self, program: impl FnOnce(Thread) -> F) {
        let task = self.process.new_task(self.task, Some(self.world().now()));
        self.world().spawn(program(Thread { process: self.process.clone(), task }));
    }

    /// Works for up to `us` microseconds.
    pub async fn work(&self, us: u64) {
        let ns = self.world().within(US, us.max(1) * US);
        self.world().sleep(ns).await;
    }

    /// Sleeps.
    pub async fn sleep(&self, us: u64) {
        let (w, blocked) = (self.world(), self.world().now());
        w.sleep(us * US).await;
        let woken = w.now();
        self.runs_again(blocked, woken, 0, 0).await;
    }

    async fn runs_again(&self, blocked: u64, woken: u64, by: u32, on: u64) {
        let w = self.world();
        w.sleep(w.within(3 * US, 40 * US)).await;
        let ran = w.now();
        self.rows(|h| h.waited(blocked, woken.max(blocked), ran, self.task, by, on));
    }

    /// Waits until one of the sources is ready, or the deadline; true where it is.
    #[expect(clippy::await_holding_refcell_ref, reason = "it is dropped before")]
    async fn ready(&self, sources: &[Source], deadline: u64) -> bool {
        let w = self.world();
        let blocked = w.now();
        let mut has_blocked = false;
        loop {
            {
                let mut w = w.0.borrow_mut();
                let now = w.now;
                let first = sources.iter().filter_map(|&s| w.ready_at(s).map(|t| (t, s))).min_by_key(|f| f.0);
                if let Some((t, s)) = first
                    && t <= now
                {
                    let (by, on) = match s {
                        Source::Event(Event(e)) => (w.events[e].by.map_or(0, |b| b.1), 0),
                        Source::Conn(Conn(c)) => (0, w.socks[c].end.map_or(1, |e| e.1)),
                        Source::Listener(_) => (0, 1),
                    };
                    drop(w);
                    if has_blocked {
                        self.runs_again(blocked, t, by, on).await;
                    }
                    return true;
                }
                if now >= deadline {
                    drop(w);
                    if has_blocked {
                        self.runs_again(blocked, deadline, 0, 0).await;
                    }
                    return false;
                }
                let fiber = w.current;
                for &s in sources {
                    if let Some(t) = w.ready_at(s) {
                        w.wake(fiber, t);
                    }
                    let waiters = w.waiters(s);
                    if !waiters.contains(&fiber) {
                        waiters.push(fiber);
                    }
                }
                if deadline != u64::MAX {
                    w.wake(fiber, deadline);
                }
            }
            has_blocked = true;
            pause().await;
        }
    }

    /// Waits as epoll does: everything that is ready.
    pub async fn poll(&self, sources: &[Source], timeout_ms: Option<u64>) -> Vec<Source> {
        let w = self.world();
        let entry = w.now();
        let deadline = timeout_ms.map_or(u64::MAX, |ms| entry + ms * 1_000_000);
        self.ready(sources, deadline).await;
        w.sleep(w.within(500, 4 * US)).await;
        let ready: Vec<Source> = {
            let w = w.0.borrow();
            sources.iter().copied().filter(|&s| w.ready_at(s).is_some_and(|t| t <= w.now)).collect()
        };
        let (at, n) = (w.now(), ready.len() as i32);
        self.rows(|h| h.polled(entry, at, self.task, n, timeout_ms.map_or(u64::MAX, |ms| ms * 1_000_000)));
        ready
    }

    /// Accepts a connection.
    pub async fn accept(&self, l: Listener) -> Conn {
        loop {
            self.ready(&[Source::Listener(l)], u64::MAX).await;
            let w = self.world();
            let entry = w.now();
            let taken = {
                let mut w = w.0.borrow_mut();
                let now = w.now;
                let l = &mut w.listeners[l.0];
                if l.backlog.front().is_some_and(|b| b.0 <= now) { l.backlog.pop_front() } else { None }
            };
            let Some((_, sock)) = taken else { continue };
            w.sleep(w.within(US, 8 * US)).await;
            let at = w.now();
            let (end, announced) = {
                let w = w.0.borrow();
                (w.socks[sock].end, w.socks[sock].announced)
            };
            if let (Some((_, flow)), Some(mut a)) = (end, announced) {
                a.task = self.task;
                self.rows(|h| {
                    h.endpoint(at, &a);
                    h.op(entry, at, self.task, flow, op::ACCEPT, 0);
                });
            }
            return Conn(sock);
        }
    }

    /// Connects.
    pub async fn connect(&self, l: Listener) -> Conn {
        let w = self.world();
        let entry = w.now();
        let (client, mine, latency) = {
            let mut w = w.0.borrow_mut();
            let w = &mut *w;
            let (host, server_host) = (self.process.host, w.listeners[l.0].host);
            let latency = if host == server_host { (4 * US, 12 * US) } else { (80 * US, 150 * US) };
            let listening = &w.listeners[l.0];
            let here = if listening.netns > 1 { [127, 0, 0, 1] } else { Inner::address(host) };
            let (netns, to) = (listening.netns, l.0);
            // a port is given again when both ends of its last connection to there are closed
            let first = w.ports + 1;
            let candidates = (0..w.ports_wrap).map(|i| 32_768 + (first + i) % w.ports_wrap);
            let port = candidates.chain(53_000..u16::MAX).find(|&p| w.used.insert((here, p, to))).unwrap_or(0);
            w.ports = first % w.ports_wrap;
            let (mut ends, there) = ([None, None], (w.listeners[to].address, w.listeners[to].port));
            for (slot, h) in ends.iter_mut().zip([host, server_host]) {
                if let Some(h) = h {
                    w.flows += 1;
                    *slot = Some((h, w.flows));
                }
            }
            let numbers = [w.random.within(1, u64::from(u32::MAX)), w.random.within(1, u64::from(u32::MAX))];
            let dialled = w.listeners[to].published.unwrap_or(there);
            let announce = |is_server: bool, end: Option<(usize, u64)>| {
                end.map(|(_, flow)| Announced {
                    flow,
                    local: if is_server { there } else { (here, port) },
                    remote: if is_server { (here, port) } else { dialled },
                    netns,
                    snd: numbers[usize::from(is_server)],
                    rcv: numbers[usize::from(!is_server)],
                    task: self.task,
                    how: if is_server { seen::ACCEPTED } else { seen::CONNECTED },
                    side: if is_server { 1 } else { 2 },
                })
            };
            let opaque = w.listeners[to].opaque;
            let index = w.socks.len();
            for (i, is_server) in [(0, false), (1, true)] {
                w.socks.push(Sock {
                    end: ends[i],
                    peer: index + 1 - i,
                    snd: numbers[i],
                    rcv: numbers[1 - i],
                    latency,
                    opaque,
                    announced: announce(is_server, ends[i]),
                    tuple: (here, port, to),
                    ..Sock::default()
                });
            }
            let arrives = w.now + w.random.within(latency.0, latency.1);
            w.listeners[l.0].backlog.push_back((arrives, index + 1));
            w.wake_all(Source::Listener(l), arrives);
            (index, w.socks[index].announced, latency)
        };
        w.sleep(2 * w.within(latency.0, latency.1)).await;
        let at = w.now();
        if let Some(a) = mine {
            self.rows(|h| {
                h.endpoint(entry + 1, &a);
                h.op(entry, at, self.task, a.flow, op::CONNECT, 0);
            });
        }
        Conn(client)
    }

    /// Sends a request in the service of `cause`; gives its number.
    pub async fn request(&self, c: Conn, target: &str, bytes: u64, cause: Option<usize>) -> usize {
        let call = {
            let mut w = self.world().0.borrow_mut();
            let peer = w.socks[c.0].peer;
            let call = w.recording.truth.calls.len();
            let new = Call {
                name: format!("{target}#{call}"),
                cause,
                client: w.end(c.0),
                server: w.end(peer),
                start: w.socks[c.0].snd,
                began_ns: w.now,
                ended_ns: u64::MAX,
            };
            w.recording.truth.calls.push(new);
            call
        };
        self.send(c, Got { call, is_reply: false }, bytes, bytes, 0).await;
        call
    }

    /// Sends a whole reply.
    pub async fn reply(&self, c: Conn, call: usize, bytes: u64, status: u16) {
        self.send(c, Got { call, is_reply: true }, bytes, bytes, status).await;
    }

    /// Sends the first `first` bytes of a reply.
    pub async fn begin_reply(&self, c: Conn, call: usize, bytes: u64, first: u64, status: u16) {
        self.send(c, Got { call, is_reply: true }, bytes, first, status).await;
    }

    /// Sends the rest of a reply.
    pub async fn end_reply(&self, c: Conn, call: usize) {
        let rest = self.world().0.borrow_mut().socks[c.0].rests.remove(&call);
        if let Some((from, to)) = rest {
            self.write(c, to - from).await;
            self.ended(call);
        }
    }

    fn ended(&self, call: usize) {
        let now = self.world().now();
        self.world().0.borrow_mut().recording.truth.calls[call].ended_ns = now;
    }

    async fn send(&self, c: Conn, got: Got, bytes: u64, first: u64, status: u16) {
        let is_split = {
            let mut w = self.world().0.borrow_mut();
            let w = &mut *w;
            let (start, peer) = (w.socks[c.0].snd, w.socks[c.0].peer);
            let wire = Wire { start, end: start + bytes, is_told: false, got, status };
            w.socks[peer].wire.push_back(wire);
            if first < bytes {
                w.socks[c.0].rests.insert(got.call, (start + first, start + bytes));
            }
            let percent = w.split_percent;
            w.random.chance(percent)
        };
        let at_once = if is_split { first / 2 } else { first };
        let start = self.world().0.borrow().socks[c.0].snd;
        self.write(c, at_once).await;
        if at_once < HEAD_BYTES.min(bytes) {
            self.write(c, first - at_once).await;
            self.tell(c, true, start, bytes, got, status);
        } else {
            self.tell(c, true, start, bytes, got, status);
            if at_once < first {
                self.write(c, first - at_once).await;
            }
        }
        if got.is_reply && first == bytes {
            self.ended(got.call);
        }
    }

    /// The first bytes tell the protocol, or that it is none.
    fn note(&self, c: Conn) {
        let (end, opaque, noted, now) = {
            let mut w = self.world().0.borrow_mut();
            let now = w.now;
            let s = &mut w.socks[c.0];
            (s.end, s.opaque, std::mem::replace(&mut s.noted, true), now)
        };
        if let Some((_, flow)) = end
            && !noted
        {
            self.rows(|h| h.note(now, flow, !opaque));
        }
    }

    /// The row of a message whose head is complete here.
    fn tell(&self, c: Conn, sent: bool, start: u64, bytes: u64, got: Got, status: u16) {
        let (end, opaque, now) = {
            let w = self.world().0.borrow();
            (w.socks[c.0].end, w.socks[c.0].opaque, w.now)
        };
        let name = {
            let w = self.world().0.borrow();
            let name = &w.recording.truth.calls[got.call].name;
            name.split('#').next().unwrap_or_default().to_owned()
        };
        let Some((_, flow)) = end else { return };
        let status = if got.is_reply { status.max(1) } else { 0 };
        if !opaque {
            self.rows(|h| h.message(now, flow, sent, start..start + bytes, ("GET", &name), status));
        }
    }

    async fn write(&self, c: Conn, bytes: u64) {
        let w = self.world();
        let entry = w.now();
        let (end, from, cost) = {
            let mut w = w.0.borrow_mut();
            let w = &mut *w;
            let s = &mut w.socks[c.0];
            let (from, peer, latency, end) = (s.snd, s.peer, s.latency, s.end);
            s.snd += bytes;
            let before = w.socks[peer].segments.back().map_or(0, |s| s.1);
            let arrives = (entry + w.random.within(latency.0, latency.1)).max(before);
            w.socks[peer].segments.push_back((from + bytes, arrives));
            w.wake_all(Source::Conn(Conn(peer)), arrives);
            (end, from, w.random.within(2 * US, 30 * US))
        };
        w.sleep(cost).await;
        let at = w.now();
        if let Some((_, flow)) = end {
            self.rows(|h| h.moved((entry, at, 0), self.task, flow, true, from..from + bytes));
            self.note(c);
        }
    }

    /// Reads what is there, without waiting.
    pub async fn read(&self, c: Conn) -> Read {
        let w = self.world();
        let entry = w.now();
        let moved = {
            let mut w = w.0.borrow_mut();
            let s = &mut w.socks[c.0];
            if !s.parsed.is_empty() {
                return Read::Messages(s.parsed.drain(..).collect());
            }
            let (from, mut arrived) = (s.rcv, 0);
            while let Some(&(end, at)) = s.segments.front()
                && at <= entry
            {
                s.segments.pop_front();
                s.rcv = end;
                arrived = if arrived == 0 { at } else { arrived };
            }
            match (arrived, s.over) {
                (0, Some(t)) if t <= entry && s.segments.is_empty() => None,
                _ => Some((from..s.rcv, arrived)),
            }
        };
        w.sleep(w.within(US, 10 * US)).await;
        let (at, end) = (w.now(), w.0.borrow().socks[c.0].end);
        let Some((bytes, arrived)) = moved else {
            if let Some((_, flow)) = end {
                self.rows(|h| h.op(entry, at, self.task, flow, op::RECV, 0));
            }
            return Read::End;
        };
        if bytes.is_empty() {
            return Read::Messages(Vec::new());
        }
        if let Some((_, flow)) = end {
            self.rows(|h| h.moved((entry, at, arrived), self.task, flow, false, bytes.clone()));
            self.note(c);
        }
        let (mut told, mut whole) = (Vec::new(), Vec::new());
        {
            let mut w = w.0.borrow_mut();
            let s = &mut w.socks[c.0];
            for m in &mut s.wire {
                if !m.is_told && m.start + HEAD_BYTES.min(m.end - m.start) <= bytes.end {
                    m.is_told = true;
                    told.push(m.clone());
                }
            }
            while s.wire.front().is_some_and(|m| m.end <= bytes.end) {
                whole.extend(s.wire.pop_front().map(|m| m.got));
            }
        }
        for m in told {
            self.tell(c, false, m.start, m.end - m.start, m.got, m.status);
        }
        Read::Messages(whole)
    }

    /// Waits for a message; none where the other side closed.
    pub async fn recv(&self, c: Conn) -> Option<Got> {
        loop {
            self.ready(&[Source::Conn(c)], u64::MAX).await;
            match self.read(c).await {
                Read::End => return None,
                Read::Messages(mut all) if !all.is_empty() => {
                    let first = all.remove(0);
                    self.world().0.borrow_mut().socks[c.0].parsed.extend(all);
                    return Some(first);
                }
                Read::Messages(_) => {}
            }
        }
    }

    /// Asks and waits for the reply.
    pub async fn call(&self, c: Conn, target: &str, cause: Option<usize>) {
        self.request(c, target, self.world().within(60, 300), cause).await;
        self.recv(c).await;
    }

    /// Closes its end.
    pub async fn close(&self, c: Conn) {
        let w = self.world();
        w.sleep(w.within(500, 3 * US)).await;
        let (now, end) = {
            let mut w = w.0.borrow_mut();
            let w = &mut *w;
            let (peer, latency) = (w.socks[c.0].peer, w.socks[c.0].latency);
            let before = w.socks[peer].segments.back().map_or(0, |s| s.1);
            let arrives = (w.now + w.random.within(latency.0, latency.1)).max(before);
            w.socks[peer].over = Some(arrives);
            w.socks[c.0].is_closed = true;
            if w.socks[peer].is_closed {
                let tuple = w.socks[c.0].tuple;
                w.used.remove(&tuple);
            }
            w.wake_all(Source::Conn(Conn(peer)), arrives);
            (w.now, w.socks[c.0].end)
        };
        if let Some((_, flow)) = end {
            self.rows(|h| h.closed(now, flow, self.task, false));
        }
    }

    /// Signals (a write to an eventfd).
    pub async fn signal(&self, e: Event) {
        let w = self.world();
        w.sleep(w.within(US, 4 * US)).await;
        let mut w = w.0.borrow_mut();
        let now = w.now;
        w.events[e.0].count += 1;
        w.events[e.0].by = Some((now, self.task));
        w.wake_all(Source::Event(e), now);
    }

    /// Takes all signals, without waiting.
    pub async fn take_signals(&self, e: Event) {
        let w = self.world();
        w.sleep(w.within(500, 2 * US)).await;
        w.0.borrow_mut().events[e.0].count = 0;
    }

    /// Puts an item into a queue, and wakes who waits longest.
    pub async fn push<T>(&self, q: &Queue<T>, item: T) {
        let w = self.world();
        let fiber = {
            let mut q = q.0.borrow_mut();
            q.items.push_back(item);
            let next = q.waiters.pop_front();
            if let Some(f) = next {
                q.woken.insert(f, (self.task, w.now()));
            }
            next
        };
        if let Some(f) = fiber {
            let mut w = w.0.borrow_mut();
            let now = w.now;
            w.wake(f, now);
        }
        w.sleep(w.within(500, 3 * US)).await;
    }

    /// An item, without waiting.
    pub fn try_pop<T>(&self, q: &Queue<T>) -> Option<T> {
        q.0.borrow_mut().items.pop_front()
    }

    /// Waits for an item.
    pub async fn pop<T>(&self, q: &Queue<T>) -> T {
        loop {
            if let Some(item) = self.try_pop(q) {
                return item;
            }
            let w = self.world();
            let (blocked, fiber) = (w.now(), w.0.borrow().current);
            q.0.borrow_mut().waiters.push_back(fiber);
            let (by, woken) = loop {
                pause().await;
                if let Some(woken) = q.0.borrow_mut().woken.remove(&fiber) {
                    break woken;
                }
            };
            self.runs_again(blocked, woken, by, 0).await;
        }
    }
}
