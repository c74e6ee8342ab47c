//! Hosts, tasks, flows and queues in virtual time: programs are `async` blocks, one a task, and what the kernel would show
//! of them becomes rows.
//!
//! One seed gives one recording. A send returns at some moment after its bytes are on their way, so that a reader may
//! be told of before the sender is; a woken task runs a little later, so that another may take its work.

mod thread;

use crate::random::Random;
use crate::recording::{Announced, HostRows, Recording};
use crate::truth::End;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Nanoseconds of a microsecond.
pub const US: u64 = 1_000;
type Fiber = usize;

/// A fiber in one of its pauses: what is to wake it from that one leaves the next alone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Sleeper {
    fiber: Fiber,
    pause: u64,
}

/// A simulated world.
#[derive(Clone)]
pub struct World(Rc<RefCell<Inner>>);

struct Inner {
    now: u64,
    turn: u64,
    timers: BinaryHeap<Reverse<(u64, u64, Sleeper)>>,
    fibers: Vec<Option<Pin<Box<dyn Future<Output = ()>>>>>,
    /// How often each fiber has run, which is the number of the pause that it is in or comes to next.
    pauses: Vec<u64>,
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
    is_isolating: bool,
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
    waiters: Vec<Sleeper>,
    /// When the other side closed.
    over: Option<u64>,
    noted: bool,
    opaque: bool,
    multiplexed: bool,
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
    waiters: Vec<Sleeper>,
    opaque: bool,
    multiplexed: bool,
}

#[derive(Default)]
struct Signal {
    count: u64,
    by: Option<(u64, u32)>,
    waiters: Vec<Sleeper>,
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
    waiters: VecDeque<Sleeper>,
    woken: BTreeMap<Sleeper, (u32, u64)>,
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
            pauses: Vec::new(),
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
            is_isolating: false,
        })))
    }

    /// How many messages of a hundred are written in two pieces.
    pub fn split(&self, percent: f64) {
        self.0.borrow_mut().split_percent = percent;
    }

    /// The library vantage isolates events: a poll gives one input, and a read ends with a message.
    pub fn isolate(&self, is_isolating: bool) {
        self.0.borrow_mut().is_isolating = is_isolating;
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
        w.pauses.push(0);
        let (fiber, now) = (w.fibers.len() - 1, w.now);
        w.wake(Sleeper { fiber, pause: 0 }, now);
    }

    /// Runs until nothing more happens, or until a true time.
    pub fn run(&self, until: u64) {
        let mut context = Context::from_waker(Waker::noop());
        loop {
            let (mut running, fiber) = {
                let mut w = self.0.borrow_mut();
                let Some(&Reverse((t, _, Sleeper { fiber, pause }))) = w.timers.peek() else { return };
                if t > until {
                    return;
                }
                w.timers.pop();
                if w.pauses[fiber] != pause {
                    // something else woke it from that pause
                    continue;
                }
                w.pauses[fiber] += 1;
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
                let me = w.me();
                w.wake(me, t);
            }
            pause().await;
        }
    }

    async fn sleep(&self, ns: u64) {
        self.sleep_until(self.now() + ns).await;
    }
}

impl Inner {
    /// The running fiber in the pause that it comes to next.
    fn me(&self) -> Sleeper {
        Sleeper { fiber: self.current, pause: self.pauses[self.current] }
    }

    fn wake(&mut self, sleeper: Sleeper, at: u64) {
        self.turn += 1;
        let at = at.max(self.now);
        self.timers.push(Reverse((at, self.turn, sleeper)));
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

    fn waiters(&mut self, s: Source) -> &mut Vec<Sleeper> {
        match s {
            Source::Conn(Conn(c)) => &mut self.socks[c].waiters,
            Source::Listener(Listener(l)) => &mut self.listeners[l].waiters,
            Source::Event(Event(e)) => &mut self.events[e].waiters,
        }
    }

    fn wake_all(&mut self, s: Source, at: u64) {
        for sleeper in std::mem::take(self.waiters(s)) {
            self.wake(sleeper, at);
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
            multiplexed: false,
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

    /// Messages of its flows bear the number of the request that they are of (a stream), and replies come in any order.
    pub fn multiplexed(self, world: &World) -> Listener {
        world.0.borrow_mut().listeners[self.0].multiplexed = true;
        self
    }

    /// Nobody knows the protocol of its flows.
    pub fn opaque(self, world: &World) -> Listener {
        world.0.borrow_mut().listeners[self.0].opaque = true;
        self
    }
}
