//! Pools, locks, interpreters and disks of simulated services are found with the right numbers, and none where there is
//! none.

use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use wakepath_analysis::names::Names;
use wakepath_causality::exchange::{Answered, Asked, Exchange, ExchangeFlag, Side};
use wakepath_causality::flags::Flags;
use wakepath_causality::path::{Half, Request, Span};
use wakepath_flows::Place;
use wakepath_forecast::derive::holds::{self, Found};
use wakepath_graph::Index;
use wakepath_model::folder::Folder;
use wakepath_model::ids::{EndpointId, HostId, MonoNs, TaskId};
use wakepath_model::rows::{EndedBy, WaitRow};
use wakepath_testkit::random::Random;
use wakepath_testkit::recording::{Cuts, HostRows};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
/// The process of the service that is looked at, and the task that it calls.
const LEADER: u32 = 1;
const DATABASE: u32 = 500;
const FUTEX: u16 = 202;
const POLL: u16 = 7;
const NANOSLEEP: u16 = 230;
const FDATASYNC: u16 = 75;
const NO_SYSCALL: u16 = 0xffff;

/// Rows and requests of one service, as a simulation makes them.
struct Bed {
    host: HostRows,
    requests: Vec<Request>,
}

impl Bed {
    fn new(threads: u32) -> Bed {
        let mut host = HostRows::new("h", 0);
        for t in 0..threads {
            host.task(1, LEADER + t, LEADER, 0, "app");
        }
        host.task(1, DATABASE, DATABASE, 0, "db");
        Bed { host, requests: Vec::new() }
    }

    /// A task slept and ran a little later.
    fn wait(&mut self, row: WaitRow) {
        self.host.rows.push(row.into());
    }

    /// A request that a task served, with its calls: on which connection, from when to when.
    fn request(&mut self, task: u32, from: u64, to: u64, calls: &[(u64, u64, u64)]) {
        let root = half(Side::Server, task, 10_000 + u64::from(task), from, to, 80);
        let mut spans = vec![span(None, None, Some(root))];
        for &(flow, a, b) in calls {
            let caller = half(Side::Client, task, flow, a, b, 0);
            let callee = half(Side::Server, DATABASE, flow + 5_000, a + 10 * US, b - 10 * US, 5432);
            spans.push(span(Some(0), Some(caller), Some(callee)));
        }
        let id = self.requests.len() as u64;
        self.requests.push(Request { id, spans, orphan: None });
    }

    fn find(mut self) -> Found {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r");
        let last = self.requests.iter().map(|r| r.spans[0].callee.as_ref().unwrap().exchange.reply.ended.0).max();
        self.host.anchor(last.unwrap_or(0) + MS);
        self.host.write(&path, Cuts::default()).unwrap();
        let dirs = [path];
        let folder = Folder::open(&dirs).unwrap();
        let index = Index::open(&folder, &dirs).unwrap();
        holds::find(&index, &Names::read(&folder), &self.requests)
    }
}

/// A wait's record.
fn waited(task: u32, from: u64, woken: u64, why: EndedBy, by: u32, syscall: u16, address: u64) -> WaitRow {
    WaitRow {
        at: MonoNs(woken + 5 * US),
        blocked: MonoNs(from),
        woken: MonoNs(woken),
        object: 0,
        arg0: address,
        task: TaskId(task),
        by: TaskId(by),
        rcv_seq: 0,
        state: 1,
        syscall,
        cpu: (task % 2) as u16,
        woken_cpu: 0,
        cause: why,
        ..Default::default()
    }
}

fn half(side: Side, task: u32, flow: u64, from: u64, to: u64, port: u16) -> Half {
    let mut exchange = Exchange::of_request(EndpointId(flow), side, 0, 1);
    (exchange.number, exchange.content.status) = (from, 200);
    exchange.flags = Flags::of(&[ExchangeFlag::Replied]);
    let (task, actor) = (TaskId(task), TaskId(task));
    let (began, ended) = (MonoNs(from), MonoNs(to));
    exchange.request = Asked { began, taken: began, task, actor, ..exchange.request };
    exchange.reply = Answered { start: 0, end: 1, began: ended, ended, task, actor };
    Half { host: HostId(0), exchange, place: Place { lport: port, ..Place::default() } }
}

fn span(parent: Option<u32>, caller: Option<Half>, callee: Option<Half>) -> Span {
    Span {
        parent,
        made_by: None,
        joined_by: None,
        caller,
        callee,
        doubts: 0,
        open_calls: Vec::new(),
        gap: None,
        wire: None,
        refusals: Vec::new(),
    }
}

/// One of `tokens`, given to whoever asked first.
struct Queue {
    /// When each is free, and who had it last.
    free: Vec<(u64, u32)>,
}

impl Queue {
    fn new(tokens: usize) -> Queue {
        Queue { free: vec![(0, 0); tokens] }
    }

    /// The number of the one that is had, from when, and of whom.
    fn take(&self, asked: u64) -> (usize, u64, u32) {
        let (i, &(free, by)) = self.free.iter().enumerate().min_by_key(|(_, f)| f.0).unwrap();
        (i, free.max(asked), by)
    }
}

/// Threads that share connections: each request asks twice. Gives when each hold began and ended.
fn pooled(threads: u32, connections: usize, requests: usize, seed: u64) -> (Bed, Vec<(u32, u64, u64)>) {
    pooled_with(threads, connections, requests, seed, false)
}

/// The same. `in_vain`: each gives its connection back between the two questions, wakes who waits, and takes it again first.
fn pooled_with(
    threads: u32,
    connections: usize,
    requests: usize,
    seed: u64,
    in_vain: bool,
) -> (Bed, Vec<(u32, u64, u64)>) {
    let (mut bed, mut random, mut truth) = (Bed::new(threads), Random::new(seed), Vec::new());
    let mut queue = Queue::new(connections);
    // of each connection, when its holder last gave it back for a moment
    let mut offered = vec![0u64; connections];
    let mut next: BinaryHeap<Reverse<(u64, u32)>> =
        (0..threads).map(|t| Reverse((MS + u64::from(t) * 7 * US, LEADER + t))).collect();
    for _ in 0..requests {
        let Reverse((begin, task)) = next.pop().unwrap();
        let asked = begin + 100 * US;
        let (which, taken, by) = queue.take(asked);
        let mut asleep = asked;
        let address = 0x7000_0000 + 4096 * u64::from(task);
        if in_vain && asked < offered[which] && offered[which] + 50 * US < taken {
            bed.wait(waited(task, asked, offered[which], EndedBy::Task, by, FUTEX, address));
            asleep = offered[which] + 10 * US;
        }
        if taken > asleep {
            bed.wait(waited(task, asleep, taken, EndedBy::Task, by, FUTEX, address));
        }
        let flow = 100 + which as u64;
        let first = (taken + 40 * US, taken + 40 * US + random.within(2 * MS, 6 * MS));
        let second = (first.1 + 300 * US, first.1 + 300 * US + random.within(MS, 2 * MS));
        for (a, b) in [first, second] {
            bed.wait(waited(task, a + 5 * US, b - 10 * US, EndedBy::Socket, 0, POLL, 0));
        }
        let given = second.1 + 20 * US;
        queue.free[which] = (given, task);
        offered[which] = first.1 + 150 * US;
        truth.push((task, taken, given));
        bed.request(task, begin, given + 100 * US, &[(flow, first.0, first.1), (flow, second.0, second.1)]);
        next.push(Reverse((given + 200 * US + random.within(0, 200 * US), task)));
    }
    (bed, truth)
}

/// Goroutines, one a request, that call over shared connections.
#[derive(Clone, Copy, Debug)]
struct Logical {
    clients: usize,
    connections: usize,
    /// What each computes before its call, on one of two processors, about (ns).
    computes: u64,
    /// What its call takes, about (ns).
    called: u64,
}

impl Logical {
    /// Gives who held a connection, and from when.
    fn run(&self, seed: u64) -> (Bed, Vec<(u32, u64)>) {
        let (mut bed, mut random, mut truth) = (Bed::new(2), Random::new(seed), Vec::new());
        let mut processors = Queue::new(2);
        let mut next: BinaryHeap<Reverse<(u64, usize)>> =
            (0..self.clients).map(|c| Reverse((MS + c as u64 * 70 * US, c))).collect();
        // who is next to have a connection has computed first
        let mut asking: BinaryHeap<Reverse<(u64, u64, usize)>> = BinaryHeap::new();
        let mut free: Vec<(u64, u64)> = (0..self.connections as u64).map(|i| (0, 100 + i)).collect();
        let mut who = 1_000;
        while who < 1_400 {
            let asks_at = asking.peek().map_or(u64::MAX, |a| a.0.0);
            if let Some(Reverse((begin, client))) = next.peek().copied()
                && begin <= asks_at
            {
                next.pop();
                let (processor, from, _) = processors.take(begin);
                let until = from + random.within(self.computes / 2, self.computes * 3 / 2);
                processors.free[processor] = (until, 0);
                asking.push(Reverse((until, from, client)));
                continue;
            }
            let Some(Reverse((asked, begin, client))) = asking.pop() else { break };
            // the one given back last of those that are free, else the first to be
            let last_of_free = (0..free.len()).filter(|&i| free[i].0 <= asked).max_by_key(|&i| free[i].0);
            let which = last_of_free.or_else(|| (0..free.len()).min_by_key(|&i| free[i].0)).unwrap();
            let sent = free[which].0.max(asked) + random.within(10 * US, 60 * US);
            let answered = sent + random.within(self.called / 2, self.called * 3 / 2);
            free[which].0 = answered;
            let end = answered + 50 * US;
            bed.request(LEADER + who % 2, begin, end, &[(free[which].1, sent, answered)]);
            for half in bed.requests.last_mut().iter_mut().flat_map(|r| &mut r.spans) {
                half.callee
                    .iter_mut()
                    .filter(|_| half.parent.is_none())
                    .for_each(|h| h.exchange.request.actor = TaskId(who));
                half.caller.iter_mut().for_each(|h| h.exchange.request.actor = TaskId(who));
            }
            truth.push((who, sent));
            who += 1;
            next.push(Reverse((end + random.within(50 * US, 200 * US), client)));
        }
        (bed, truth)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever its size, a pool that is waited for is found with it, and the holds are where they were.
    #[test]
    fn a_pool_is_found_with_its_size(connections in 1usize..7, more in 2u32..7, seed: u64) {
        let (bed, truth) = pooled(connections as u32 + more, connections, 400, seed);
        let found = bed.find();
        prop_assert_eq!(found.tokens.pools.len(), 1, "{:?}", found.tokens.pools);
        let pool = &found.tokens.pools[0];
        prop_assert_eq!((pool.name.as_str(), pool.tokens, pool.is_lock), ("app:80->db:5432", connections as u32, false));
        prop_assert!(found.interpreters.is_empty());
        let mut near = 0;
        for &(task, taken, given) in &truth {
            let held = found.tokens.held(HostId(0), TaskId(task), MonoNs(taken - 60 * US), MonoNs(taken + 60 * US));
            near += usize::from(held.len() == 1 && held[0].given.0.abs_diff(given) <= 60 * US);
        }
        prop_assert!(near as f64 >= 0.95 * truth.len() as f64, "{near} of {} holds", truth.len());
    }

    /// Goroutines show no waits. Those that take turns at connections are told from those that only meet: with a connection
    /// for each, or because they compute for longer than they call.
    #[test]
    fn logical_tasks_that_take_turns_share_a_pool(connections in 1usize..7, more in 2usize..7, seed: u64) {
        let calls = Logical { clients: connections + more, connections, computes: 100 * US, called: 4 * MS };
        let (bed, truth) = calls.run(seed);
        let found = bed.find();
        prop_assert_eq!(found.tokens.pools.len(), 1, "{:?}", found.tokens.pools);
        prop_assert_eq!(found.tokens.pools[0].tokens, connections as u32);
        let is_held = |&&(who, taken): &&(u32, u64)| {
            let held = found.tokens.held(HostId(0), TaskId(who), MonoNs(taken - 300 * US), MonoNs(taken + 300 * US));
            held.len() == 1
        };
        let near = truth.iter().filter(is_held).count();
        prop_assert!(near as f64 >= 0.95 * truth.len() as f64, "{near} of {} holds", truth.len());
        for enough in [
            Logical { connections: calls.clients, ..calls },
            Logical { connections: calls.clients, computes: 10 * MS, called: 100 * US, ..calls },
            Logical { connections: calls.clients, computes: 2 * MS, called: 2 * MS, ..calls },
        ] {
            let found = enough.run(seed).0.find();
            prop_assert!(found.tokens.pools.is_empty(), "{:?} {:?}", enough, found.tokens.pools);
        }
    }

    /// Who is woken for a connection that its holder takes again at once waited for the pool, and for no lock.
    #[test]
    fn a_connection_that_was_offered_in_vain_is_the_pools(connections in 2usize..6, more in 2u32..6, seed: u64) {
        let (bed, _) = pooled_with(connections as u32 + more, connections, 400, seed, true);
        let found = bed.find();
        let kinds: Vec<_> = found.tokens.pools.iter().map(|p| (p.is_lock, p.tokens)).collect();
        prop_assert_eq!(kinds, vec![(false, connections as u32)], "{:?}", found.tokens.pools);
    }

    /// What several have at once is no lock.
    #[test]
    fn what_several_have_at_once_is_no_lock(tokens in 3usize..6, more in 3u32..6, seed: u64) {
        let threads = tokens as u32 + more;
        let (mut bed, mut random, mut queue) = (Bed::new(threads), Random::new(seed), Queue::new(tokens));
        let mut next: BinaryHeap<Reverse<(u64, u32)>> =
            (0..threads).map(|t| Reverse((MS + u64::from(t) * 7 * US, LEADER + t))).collect();
        for _ in 0..400 {
            let Reverse((begin, task)) = next.pop().unwrap();
            let asked = begin + 100 * US;
            let (which, taken, by) = queue.take(asked);
            if taken > asked {
                bed.wait(waited(task, asked, taken, EndedBy::Task, by, FUTEX, 0x7000_0000 + 4096 * u64::from(task)));
            }
            let slept = taken + random.within(3 * MS, 5 * MS);
            bed.wait(waited(task, taken + 20 * US, slept, EndedBy::Timer, 0, NANOSLEEP, 0));
            queue.free[which] = (slept + 20 * US, task);
            bed.request(task, begin, slept + 120 * US, &[]);
            next.push(Reverse((slept + 200 * US, task)));
        }
        let found = bed.find();
        prop_assert!(found.tokens.pools.is_empty(), "{:?}", found.tokens.pools);
        prop_assert!(found.tokens.unseen.iter().any(|s| s.contains("at the same time")), "{:?}", found.tokens.unseen);
    }

    /// Connections enough for all, or one a thread, are no pool.
    #[test]
    fn what_nobody_waits_for_is_no_pool(threads in 2u32..8, seed: u64) {
        let (bed, _) = pooled(threads, threads as usize, 300, seed);
        let found = bed.find();
        prop_assert!(found.tokens.pools.is_empty(), "{:?}", found.tokens.pools);
    }
}

#[test]
fn of_a_pool_that_never_ran_out_the_size_is_not_known() {
    let (bed, _) = pooled(4, 4, 300, 5);
    let found = bed.find();
    assert_eq!(found.tokens.unseen.len(), 1);
    assert!(found.tokens.unseen[0].contains("app:80->db:5432"), "{:?}", found.tokens.unseen);
}

/// Threads whose requests hold one lock for `hold_ns`, sleeping with it or computing, and then sleep outside.
fn locked(threads: u32, hold_ns: u64, outside_ns: u64, sleeps: bool, seed: u64) -> (Bed, Vec<(u32, u64, u64)>) {
    let (mut bed, mut random, mut truth) = (Bed::new(threads), Random::new(seed), Vec::new());
    let mut queue = Queue::new(1);
    let mut next: BinaryHeap<Reverse<(u64, u32)>> =
        (0..threads).map(|t| Reverse((MS + u64::from(t) * 13 * US, LEADER + t))).collect();
    for _ in 0..600 {
        let Reverse((begin, task)) = next.pop().unwrap();
        let asked = begin + 150 * US;
        let (which, taken, by) = queue.take(asked);
        if taken > asked {
            bed.wait(waited(task, asked, taken, EndedBy::Task, by, FUTEX, 0x5000_0100));
        }
        let given = taken + hold_ns;
        if sleeps {
            bed.wait(waited(task, taken + 30 * US, given - 20 * US, EndedBy::Timer, 0, NANOSLEEP, 0));
        }
        queue.free[which] = (given, task);
        truth.push((task, taken, given));
        let outside = random.within(outside_ns / 2, outside_ns);
        bed.wait(waited(task, given + 50 * US, given + 50 * US + outside, EndedBy::Timer, 0, NANOSLEEP, 0));
        let end = given + 100 * US + outside;
        bed.request(task, begin, end, &[]);
        next.push(Reverse((end + random.within(100 * US, 300 * US), task)));
    }
    (bed, truth)
}

/// Checks that one lock is found and that nearly all holds are where they were.
fn assert_locked(found: &Found, truth: &[(u32, u64, u64)], name: &str) {
    assert_eq!(found.tokens.pools.len(), 1, "{:?}", found.tokens.pools);
    let lock = &found.tokens.pools[0];
    assert_eq!((lock.name.as_str(), lock.tokens, lock.is_lock), (name, 1, true));
    assert!(found.interpreters.is_empty(), "{:?}", found.interpreters);
    let near = truth.iter().filter(|&&(task, taken, given)| {
        let held = found.tokens.held(HostId(0), TaskId(task), MonoNs(taken - 100 * US), MonoNs(taken + 100 * US));
        held.len() == 1 && held[0].given.0.abs_diff(given) <= 100 * US
    });
    let near = near.count();
    assert!(near as f64 >= 0.9 * truth.len() as f64, "{near} of {} holds", truth.len());
}

#[test]
fn a_lock_that_is_always_waited_for_is_found() {
    let (bed, truth) = locked(6, 4 * MS, 8 * MS, true, 1);
    assert_locked(&bed.find(), &truth, "app/lock 1");
}

#[test]
fn holds_that_nobody_waited_for_are_put_where_the_others_are() {
    // in use for some 15 % of the time
    let (bed, truth) = locked(4, MS, 40 * MS, true, 2);
    let found = bed.find();
    assert_locked(&found, &truth, "app/lock 1");
    assert!(found.tokens.assumptions[0].contains("uncontended"), "{:?}", found.tokens.assumptions);
}

#[test]
fn a_lock_in_which_its_holder_computes_is_no_interpreter() {
    let (bed, truth) = locked(5, 2 * MS, 12 * MS, false, 3);
    assert_locked(&bed.find(), &truth, "app/lock 1");
}

/// Threads of an interpreter: a request of three turns at running, with a sleep between; a turn is asked for as soon as the sleep
/// is over. Gives who slept, from when to when.
fn interpreted(threads: u32, turns: usize, sleep_ns: u64, seed: u64) -> (Bed, Vec<(u32, u64, u64)>) {
    let (mut bed, mut random, mut sleeps) = (Bed::new(threads), Random::new(seed), Vec::new());
    let mut free = (0u64, 0u32);
    let mut next: BinaryHeap<Reverse<(u64, u32, u32, u64)>> =
        (0..threads).map(|t| Reverse((MS + u64::from(t) * 11 * US, LEADER + t, 0, 0))).collect();
    for _ in 0..turns {
        let Reverse((back, task, turn, begin)) = next.pop().unwrap();
        let begin = if turn == 0 { back } else { begin };
        let asked = back + 5 * US;
        let taken = free.0.max(asked);
        if taken > asked {
            bed.wait(waited(task, asked, taken, EndedBy::Task, free.1, FUTEX, 0xa0_0000 + 4 * u64::from(task % 2)));
        }
        let given = taken + random.within(150 * US, 250 * US);
        free = (given, task);
        if turn == 2 {
            bed.request(task, begin, given, &[]);
        }
        let slept = random.within(sleep_ns, 2 * sleep_ns);
        bed.wait(waited(task, given + 2 * US, given + slept, EndedBy::Socket, 0, POLL, 0));
        sleeps.push((task, given + 2 * US, given + slept));
        next.push(Reverse((given + slept + 5 * US, task, (turn + 1) % 3, begin)));
    }
    (bed, sleeps)
}

#[test]
fn an_interpreter_is_found() {
    let found = interpreted(6, 3000, MS, 4).0.find();
    assert_eq!(found.interpreters.len(), 1, "{:?}", found.tokens.assumptions);
    assert!(found.tokens.pools.is_empty(), "{:?}", found.tokens.pools);
}

/// One that is waited for too seldom to be told from a lock: it is held while a thread runs, and not while that sleeps.
#[test]
fn a_lock_that_is_given_away_before_sleeping_is_not_held_asleep() {
    let (bed, sleeps) = interpreted(3, 400, 3 * MS, 5);
    let found = bed.find();
    assert!(found.interpreters.is_empty() && !found.tokens.pools.is_empty(), "{:?}", found.tokens.pools);
    let held_asleep = sleeps.iter().filter(|&&(task, from, to)| {
        let before = found.tokens.held(HostId(0), TaskId(task), MonoNs(from.saturating_sub(20 * MS)), MonoNs(to));
        before.iter().any(|h| h.taken.0 < from && h.given.0 > to)
    });
    assert_eq!(held_asleep.count(), 0);
}

/// Processes that flush: one after the other, or all at once. Gives how long each is served.
fn flushed(servers: usize) -> (Bed, Vec<(u32, u64, u64)>) {
    let (mut bed, mut random, mut truth) = (Bed::new(4), Random::new(6), Vec::new());
    let mut queue = Queue::new(servers);
    let mut next: BinaryHeap<Reverse<(u64, u32)>> =
        (0..4).map(|t| Reverse((MS + u64::from(t) * 100 * US, LEADER + t))).collect();
    for _ in 0..600 {
        let Reverse((begin, task)) = next.pop().unwrap();
        let asked = begin + 100 * US;
        let (which, taken, _) = queue.take(asked);
        let done = taken + random.within(2 * MS, 2 * MS + 200 * US);
        queue.free[which] = (done, task);
        bed.wait(waited(task, asked, done, EndedBy::Block, 0, FDATASYNC, 0));
        truth.push((task, asked, done - taken));
        bed.request(task, begin, done + 100 * US, &[]);
        next.push(Reverse((done + 200 * US + random.within(0, 9 * MS), task)));
    }
    (bed, truth)
}

#[test]
fn a_disk_that_serves_one_at_a_time_is_told_from_one_that_serves_all() {
    for servers in [1, 4] {
        let (bed, truth) = flushed(servers);
        let found = bed.find();
        let (host, station) = &found.disks.stations[0];
        assert_eq!((host, station.name.as_str(), station.what), (&HostId(0), "h/disk", "disk"));
        assert_eq!(station.servers, if servers == 1 { 1.0 } else { f64::INFINITY });
        for &(task, asked, served) in &truth {
            let w = waited(task, asked, asked, EndedBy::Block, 0, FDATASYNC, 0);
            assert_eq!(found.disks.served_ns(HostId(0), &w), Some(served));
        }
    }
}

#[test]
fn a_service_that_waits_for_nothing_shared_has_nothing() {
    let mut bed = Bed::new(3);
    for i in 0..300u64 {
        let (task, begin) = (LEADER + (i % 3) as u32, MS + i * MS);
        bed.wait(waited(task, begin + 100 * US, begin + 600 * US, EndedBy::Timer, 0, NO_SYSCALL, 0));
        // a child of its own ends its wait: it works for it and holds nothing
        bed.wait(waited(task, begin + 700 * US, begin + 800 * US, EndedBy::Task, 77, FUTEX, 0x6000_0000));
        bed.request(task, begin, begin + 900 * US, &[]);
    }
    let found = bed.find();
    assert!(found.tokens.pools.is_empty() && found.interpreters.is_empty() && found.disks.stations.is_empty());
}

/// Backends of a database that wait for each other's rows: what they waited for is not known, and that is said.
#[test]
fn waits_for_rows_stay_and_are_told() {
    let backends = |is_other_program: bool, is_in_a_call: bool| {
        let mut bed = Bed::new(1);
        for t in 10..12 {
            bed.host.task(1, t, t, 0, if is_other_program && t == 10 { "other" } else { "postgres" });
        }
        for n in 0..20 {
            let t = MS * (1 + 10 * n);
            let calls = [(77, t + MS, t + 4 * MS)];
            bed.request(10, t, t + 5 * MS, &[]);
            bed.request(11, t + MS, t + 7 * MS, if is_in_a_call { &calls } else { &[] });
            bed.wait(waited(11, t + 2 * MS, t + 4 * MS, EndedBy::Task, 10, POLL, 0));
        }
        bed.find().tokens
    };
    let told = backends(false, false);
    assert!(told.pools.is_empty(), "{:?}", told.pools);
    let [said] = &told.assumptions[..] else { panic!("{:?}", told.assumptions) };
    assert!(
        said.starts_with("20 waits of postgres for locks that another request held") && said.contains("2.000 ms"),
        "{said}"
    );
    assert!(backends(true, false).assumptions.is_empty() && backends(false, true).assumptions.is_empty());
}
