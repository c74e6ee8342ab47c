//! What had not ended when the recording ended: requests that nobody had answered, waits that went on, and circles of
//! them.
//!
//! A wait that goes on has a record at each flush, the last one at the end. It says in which system call, not for which
//! connection: that is told by the call whose answer its task had not received, by an earlier receive from the same
//! descriptor, or by what the task sent last. What it wrote to a pipe meanwhile (a log) is no question. Who holds a futex
//! is not known, and no circle is made of guesses.

mod circles;
mod last;
mod looks;
mod owing;
mod peers;
mod queues;
mod readers;
mod sessions;

pub use looks::{Answered, Before};
pub use owing::Owing;
pub use queues::AcceptQueue;
pub use readers::HandedOn;
pub use sessions::{Held, Session};

use crate::names::{Names, remote_of};
use crate::requests::{awaits, kind_of};
use crate::selected::Selected;
use circles::circles;
use last::{Descriptors, Last, descriptor_of, last_operations, last_waits};
use looks::Looks;
use peers::{find_peers, serve_only};
use readers::Readers;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use wakepath_causality::exchange::Exchange;
use wakepath_causality::exchange::ExchangeFlag;
use wakepath_causality::path::{Half, Request};
use wakepath_flows::Place;
use wakepath_graph::Index;
use wakepath_model::folder::{Folder, TableSet};
use wakepath_model::ids::{EndpointId, HostId, MonoNs, TaskId};
use wakepath_model::rows::{Event, Life, OpKind, RuntimeKind, STATE_UNKNOWN, Side, Table, WaitRow};

/// Most requests and descriptors that are remembered.
const HELD_MAX: usize = 1 << 20;
/// [`WaitRow::syscall`] where there was none, or none was seen.
const NO_SYSCALL: u16 = 0xffff;

type At = (HostId, TaskId);
type End = (HostId, EndpointId);

/// What a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum For {
    /// Bytes on a connection.
    Bytes,
    /// Somebody who connects.
    Connection,
    /// Its own connection to come about.
    Connect,
    /// Something to happen on any of its descriptors.
    Poll,
    /// A futex: a lock, or work that another thread hands over.
    Futex,
    /// A lock on a file, or a System V semaphore.
    Lock,
    /// A time.
    Timer,
    /// A child's end.
    Child,
    /// A disk or the kernel: it cannot be interrupted.
    Disk,
    /// It was stopped by a signal.
    Stopped,
    /// Something else.
    Other,
    /// Not known: nothing was recorded of how it went to sleep.
    Unseen,
}

impl For {
    fn of(w: &WaitRow) -> For {
        // system calls of x86-64
        match w.syscall {
            _ if w.is_stopped() => For::Stopped,
            202 | 449 | 455 => For::Futex,
            65 | 72 | 73 | 220 => For::Lock,
            _ if w.is_uninterruptible() => For::Disk,
            0 | 17 | 19 | 45 | 47 | 295 | 299 | 327 => For::Bytes,
            43 | 288 => For::Connection,
            42 => For::Connect,
            7 | 23 | 232 | 270 | 271 | 281 | 441 => For::Poll,
            35 | 230 => For::Timer,
            61 | 247 => For::Child,
            NO_SYSCALL if w.state == STATE_UNKNOWN => For::Unseen,
            _ => For::Other,
        }
    }
}

/// How it is known for which connection a task waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// It made a call there that has no answer.
    Call,
    /// An earlier wait on the same descriptor was for it, and the task's last bytes there were sent.
    Descriptor,
    /// It sent there last, pipes apart.
    LastSend,
    /// Its socket, as it stood at the end: this end spoke last there, or is the one that asks.
    Socket,
    /// The connection has not come about.
    Connecting,
}

/// A connection on which a task waits for bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// Its own end.
    pub end: End,
    /// The other end's address, where known.
    pub address: Option<String>,
    /// Who works on the other end, where watched.
    pub peer: Option<At>,
    /// How the connection is known.
    pub known: Known,
    /// The queue before the listener in which the connection lies, or finds no room.
    pub queue: Option<AcceptQueue>,
}

/// A wait that went on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// Who.
    pub at: At,
    /// Since when, on its host's clock.
    pub since: MonoNs,
    /// For how long (ns).
    pub age_ns: u64,
    /// For what.
    pub what: For,
    /// In which system call.
    pub syscall: Option<u16>,
    /// Of a futex, its address.
    pub futex: u64,
    /// The file of the call, as far as its path is known: `…/FOLDER/NAME`.
    pub file: Option<String>,
    /// The connections from which it waits for an answer.
    pub awaited: Vec<Awaited>,
    /// The requests that it holds.
    pub holds: Vec<u64>,
}

/// A request without a whole answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// Its id.
    pub id: u64,
    /// Entry service and what was asked.
    pub kind: (String, String),
    /// Since when, on its host's clock.
    pub since: MonoNs,
    /// For how long (ns).
    pub age_ns: u64,
    /// The innermost service that had it, and what was asked of that.
    pub where_: (String, String),
    /// The task that read it there, where watched.
    pub task: Option<At>,
    /// That task hands on what it reads: which task has this request is not known.
    pub handed_on: Option<HandedOn>,
    /// Its caller is watched, but for which request it was made is not known.
    pub is_orphan: bool,
    /// How long before the recording's end its client closed or reset the connection (ns); `None`: it did not.
    pub left_ago_ns: Option<u64>,
    /// Nobody has accepted its connection: the queue in which that lies.
    pub queue: Option<AcceptQueue>,
    /// The service that it was sent to is recorded, and was not seen to read it.
    pub is_unread: bool,
}

/// Tasks that wait for each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circle {
    /// Each waits for the next, the last for the first.
    pub members: Vec<At>,
    /// None of them waits for anything else: a deadlock. Else one polls, and something else may wake it.
    pub is_deadlock: bool,
}

/// What had not ended.
#[derive(Clone, Debug, Default)]
pub struct Unended {
    /// Requests, oldest first.
    pub requests: Vec<InFlight>,
    /// Waits that are for something, oldest first.
    pub waits: Vec<Open>,
    /// Idle tasks, by what they wait for.
    pub idle: BTreeMap<For, u64>,
    /// Tasks of processes that owe an answer since before the recording, and of which nothing was recorded but their sleep: some of
    /// them may have those requests. By what they wait for.
    pub may_owe: BTreeMap<For, u64>,
    /// Tasks of processes in which a request was handed on, that fell asleep since: some of them may have such requests. By what they
    /// wait for.
    pub may_have: BTreeMap<For, u64>,
    /// Requests that asked to wait until something happens, which it had not: the service and what was asked, with how many, and
    /// since when the oldest of them waits (ns).
    pub awaited: BTreeMap<(String, String), (u64, u64)>,
    /// Circles among the waits.
    pub circles: Vec<Circle>,
    /// TCP connections of watched processes that were open when the recording began.
    pub open_before: u64,
    /// Of these, those on which somebody had spoken last before, and still waits: longest first.
    pub before: Vec<Before>,
    /// Of these, those that nothing moved on since, and of which their sockets do not show whether an answer is due.
    pub before_unknown: u64,
    /// The services that owe these answers, each after those that it asks itself.
    pub owing: Vec<Owing>,
    /// PostgreSQL's sessions that sleep in the middle of a statement.
    pub sessions: Vec<Held>,
    /// PostgreSQL's sessions that answered last before the recording, and were silent since: longest first. A transaction may be open.
    pub silent: Vec<Answered>,
    /// Listeners whose queues had no room for one more when they were looked at last.
    pub full: Vec<AcceptQueue>,
}

/// An exchange that was cut, as candidates for requests in flight are kept.
struct Cut {
    flight: InFlight,
    end: End,
    began: MonoNs,
    /// Calls of it without an answer: who made them, on which connection.
    calls: Vec<(At, End)>,
    /// Tasks that hold a part of it.
    holders: Vec<At>,
    /// Those of them that are sessions of a PostgreSQL server: what they were asked, and for how long (ns).
    sessions: Vec<(At, String, u64)>,
    /// When its innermost service read it, on that host's clock.
    inner_began: Option<MonoNs>,
    /// The connection of its innermost call, where nobody was seen to take that.
    untaken: Option<(End, Place)>,
}

/// Finds what had not ended. Memory: the tasks, and what is open.
pub fn open(folder: &Folder, index: &Index, names: &Names<'_>) -> Unended {
    let (mut cuts, awaiting) = cuts(folder, index, names);
    let looks = Looks::read(folder, names);
    let (mut waits, mut descriptors) = last_waits(folder, names);
    let selected = Selected::read(folder);
    waits.retain(|(host, task), _| selected.has(*host, names.tgid(*host, *task)));
    for (at, w) in &waits {
        // as it was when the recording ended, whatever the number was before
        if let Some(key) = descriptor_of(names, *at, w)
            && let Some(row) = looks.at(key.0, key.1, key.2)
        {
            descriptors.insert(key, row.flow);
        }
    }
    let last = last_operations(folder, names, &waits, &mut descriptors, &mut cuts);
    for c in &mut cuts {
        let Some((end, place)) = &c.untaken else { continue };
        c.flight.queue = queues::of_unaccepted(index, &looks, *end, place);
        if let Some((host, task)) = peers::listens(index, *end, place).filter(|_| c.flight.queue.is_none())
            && selected.has(host, names.tgid(host, task))
        {
            c.flight.where_.0 = format!("{}:{}", names.program(host, task), place.rport);
            c.flight.is_unread = true;
        }
    }
    let tasks = TasksOf::read(folder);
    let recorded = |host| (recorded_since(folder, host), span_of(folder, host).1);
    let silent = looks.silent(index, recorded, |h, tgid| tasks.only(h, tgid));
    let mut out = Unended {
        owing: owing::owing(&silent.due, names),
        open_before: silent.open,
        before: silent.due,
        before_unknown: silent.unknown,
        full: queues::full(index, &looks),
        sessions: sessions::held(folder, index, names, &cuts, &waits),
        silent: sessions::silent(silent.answered, names),
        awaited: awaiting.kinds,
        ..Unended::default()
    };
    let seen = Seen {
        folder,
        index,
        names,
        looks: &looks,
        tasks: &tasks,
        descriptors: &descriptors,
        last: &last,
        awaiting: &awaiting.ends,
    };
    sort_waits(&seen, &waits, &cuts, &mut out);
    find_peers(folder, index, &mut out.waits);
    // who serves a connection waits for the next request on it, which is no answer: both ends cannot be owed one
    let idle_servers = serve_only(folder, &mut out.waits);
    *out.idle.entry(For::Bytes).or_default() += idle_servers;
    out.idle.retain(|_, n| *n > 0);
    out.waits.sort_by(|a, b| b.age_ns.cmp(&a.age_ns).then(a.at.cmp(&b.at)));
    out.circles = circles(&out.waits);
    out.requests = cuts.into_iter().map(|c| c.flight).collect();
    out.requests.sort_by(|a, b| b.age_ns.cmp(&a.age_ns).then(a.id.cmp(&b.id)));
    out
}

/// What a recording tells of connections and of the tasks that wait.
struct Seen<'a> {
    folder: &'a Folder,
    index: &'a Index,
    names: &'a Names<'a>,
    looks: &'a Looks,
    tasks: &'a TasksOf,
    descriptors: &'a Descriptors,
    last: &'a Last,
    awaiting: &'a FxHashSet<End>,
}

/// Tells the waits that are for something from those of idle tasks, and puts both into `out`.
fn sort_waits(seen: &Seen<'_>, waits: &BTreeMap<At, WaitRow>, cuts: &[Cut], out: &mut Unended) {
    let mut calls: FxHashMap<At, Vec<End>> = FxHashMap::default();
    let mut holds: FxHashMap<At, Vec<u64>> = FxHashMap::default();
    for c in cuts {
        c.calls.iter().for_each(|(at, end)| calls.entry(*at).or_default().push(*end));
        c.holders.iter().for_each(|at| holds.entry(*at).or_default().push(c.flight.id));
    }
    let process = |at: At| (at.0, seen.names.tgid(at.0, at.1));
    let owing: FxHashSet<_> = out.before.iter().filter(|b| b.is_asked).map(|b| process(b.leader)).collect();
    let mut handed: FxHashMap<_, MonoNs> = FxHashMap::default();
    for c in cuts.iter().filter(|c| c.flight.handed_on.is_some()) {
        let Some((at, began)) = c.flight.task.zip(c.inner_began) else { continue };
        handed.entry(process(at)).and_modify(|since| *since = began.min(*since)).or_insert(began);
    }
    for (at, w) in waits {
        let what = For::of(w);
        let open = Open {
            at: *at,
            since: w.blocked,
            age_ns: w.at.0.saturating_sub(w.blocked.0),
            what,
            syscall: (w.syscall != NO_SYSCALL).then_some(w.syscall),
            futex: if what == For::Futex { w.arg0 } else { 0 },
            file: seen.index.file_waited_for(at.0, w).map(str::to_owned),
            awaited: awaited_in(seen, *at, w, calls.get(at).map_or(&[], Vec::as_slice)),
            holds: holds.remove(at).unwrap_or_default(),
        };
        // who was asked before the recording is told of, whatever it does
        let owes = out.before.iter().any(|b| b.is_asked && b.task == Some(*at));
        let is_busy = owes || matches!(what, For::Disk | For::Stopped | For::Lock | For::Connect);
        if open.awaited.is_empty() && open.holds.is_empty() && !is_busy {
            // who waits for a connection has no request
            let may_owe = what != For::Connection && owing.contains(&process(*at)) && !seen.last.of.contains_key(at);
            // who waits for others' bytes or connections works on nothing, and who sleeps longer was handed nothing since
            let is_at_work = !matches!(what, For::Connection | For::Poll | For::Bytes);
            let may_have = is_at_work && handed.get(&process(*at)).is_some_and(|&since| w.blocked >= since);
            let of = match () {
                () if may_have => &mut out.may_have,
                () if may_owe => &mut out.may_owe,
                () => &mut out.idle,
            };
            *of.entry(what).or_default() += 1;
        } else {
            out.waits.push(open);
        }
    }
}

/// The connections that a task's wait is for, each once, best known first; `calls`: where it has calls without an answer.
fn awaited_in(seen: &Seen<'_>, at: At, w: &WaitRow, calls: &[End]) -> Vec<Awaited> {
    let Seen { folder, index, names, looks, tasks, descriptors, last, awaiting } = *seen;
    let what = For::of(w);
    let mut awaited: Vec<Awaited> = Vec::new();
    let mut add = |end: End, known: Known| {
        if !awaited.iter().any(|a| a.end == end) {
            let place = looks.place(end);
            let address = index.end(end.0, end.1).as_ref().map(remote_of).or(place.map(crate::names::remote));
            let queue = place.and_then(|p| match known {
                Known::Connecting => queues::of_connecting(index, end.0, p),
                _ => queues::of_unaccepted(index, looks, end, p),
            });
            awaited.push(Awaited { end, address, peer: None, known, queue });
        }
    };
    if matches!(what, For::Bytes | For::Poll) {
        calls.iter().for_each(|end| add(*end, Known::Call));
    }
    if what == For::Bytes {
        let (is_known, done) = match descriptor_of(names, at, w).and_then(|key| descriptors.get(&key)) {
            Some(flow) => (Known::Descriptor, last.on.get(&at).filter(|o| o.flow == *flow)),
            None => (Known::LastSend, last.of.get(&at)),
        };
        if let Some(o) = done.filter(|o| o.kind == OpKind::Send && o.at <= w.blocked) {
            add((at.0, o.flow), is_known);
        }
    }
    for (end, known) in by_socket(looks, tasks, names, span_of(folder, at.0).0, at, w) {
        add(end, known);
    }
    // it asked to wait there: no answer is due
    awaited.retain(|a| !awaiting.contains(&a.end));
    awaited
}

/// The connections that a task's wait is for, as far as its process's sockets tell: the one whose descriptor its call names;
/// of a process of one task that polls, those on which it spoke last before the recording `began`.
fn by_socket(
    looks: &Looks,
    tasks: &TasksOf,
    names: &Names<'_>,
    began: MonoNs,
    at: At,
    w: &WaitRow,
) -> Vec<(End, Known)> {
    let tgid = names.tgid(at.0, at.1);
    let what = For::of(w);
    let is_only = tasks.only(at.0, tgid).is_some();
    let mut out: Vec<(End, Known)> = Vec::new();
    if what == For::Connect || (what == For::Poll && is_only) {
        let asked = looks.connecting(at.0, tgid).filter(|(fd, _)| what == For::Poll || *fd == w.arg0);
        out.extend(asked.map(|(_, end)| (end, Known::Connecting)));
    }
    if what == For::Bytes
        && let Some(row) = looks.at(at.0, tgid, w.arg0)
    {
        let end = (at.0, row.flow);
        // a UNIX socket does not tell who spoke last: whoever asks there and sleeps in a read waits for an answer
        let waits = looks.side(end) == Side::Client
            && (row.asks_since().is_some_and(|t| t <= w.at) || (looks.is_unix(end) && row.unread == 0));
        out.extend(waits.then_some((end, Known::Socket)));
    }
    if what == For::Poll && is_only {
        out.extend(looks.asking(at.0, tgid, began).map(|end| (end, Known::Socket)));
    }
    out
}

/// Which tasks processes have.
#[derive(Default)]
struct TasksOf(FxHashMap<(HostId, u32), FxHashSet<TaskId>>);

impl TasksOf {
    fn read(folder: &Folder) -> TasksOf {
        let mut out = TasksOf::default();
        for host in folder.hosts() {
            for event in host.events(TableSet::of(&[Table::Task]), ..) {
                let Event::Task(r) = event else { continue };
                let of = out.0.entry((host.id(), r.tgid)).or_default();
                if r.what == Life::Exit {
                    of.remove(&r.task)
                } else {
                    of.insert(r.task)
                };
            }
        }
        out
    }

    /// The only task of a process.
    fn only(&self, host: HostId, tgid: u32) -> Option<TaskId> {
        let of = self.0.get(&(host, tgid))?;
        (of.len() == 1).then(|| of.iter().next().copied()).flatten()
    }
}

/// Since when a host was recorded without a pause.
fn recorded_since(folder: &Folder, host: HostId) -> MonoNs {
    let pause = folder.host(host).and_then(|h| h.pauses().last().map(|last| last.1));
    pause.unwrap_or_else(|| span_of(folder, host).0)
}

fn span_of(folder: &Folder, host: HostId) -> (MonoNs, MonoNs) {
    folder.host(host).and_then(|h| h.span()).unwrap_or_default()
}

/// Whether nothing shows that somebody was done with it. Who takes a request back leaves it, though the connection goes on.
fn is_open(e: &Exchange) -> bool {
    let was_left = e.client.left.0 != 0 && !e.is(ExchangeFlag::Unfinished);
    !was_left && e.is(ExchangeFlag::Cut) && !e.is(ExchangeFlag::Replied) && !e.is(ExchangeFlag::Reset)
}

/// Requests that asked to wait until something happens, and that it had not happened for.
#[derive(Default)]
struct Awaiting {
    kinds: BTreeMap<(String, String), (u64, u64)>,
    /// The callers' ends of their connections.
    ends: FxHashSet<End>,
}

impl Awaiting {
    fn add(&mut self, r: &Request, age_ns: u64, names: &Names<'_>) {
        if self.ends.len() < HELD_MAX {
            self.ends.extend(r.spans[0].caller.iter().map(|c| (c.host, c.exchange.flow)));
        }
        let (count, oldest_ns) = self.kinds.entry(kind_of(r, names)).or_default();
        (*count, *oldest_ns) = (*count + 1, age_ns.max(*oldest_ns));
    }
}

/// Who has a request, or makes a call: the thread; or the logical task of a runtime whose tasks go from thread to thread, so that what its
/// thread waits for now is not what it waits for.
fn who(index: &Index, h: &Half) -> At {
    let (thread, actor) = (h.exchange.request.task, h.exchange.request.actor);
    let leaves_threads =
        matches!(index.runtime(h.host, actor), RuntimeKind::Go | RuntimeKind::Jvm | RuntimeKind::Tokio);
    (h.host, if leaves_threads { actor } else { thread })
}

/// Requests that were cut: by the end of the recording, or of their connection. Apart from them, those that asked to wait.
fn cuts(folder: &Folder, index: &Index, names: &Names<'_>) -> (Vec<Cut>, Awaiting) {
    let (mut cuts, mut awaiting, mut readers): (Vec<Cut>, Awaiting, Readers) = Default::default();
    let begins: Vec<MonoNs> = folder.hosts().iter().map(|h| recorded_since(folder, h.id())).collect();
    let is_older = |host: HostId, at: MonoNs| begins.get(usize::from(host.0)).is_some_and(|begin| at < *begin);
    let out = |r: Request| {
        readers.count(&r);
        let Some(root) = r.spans.first() else { return };
        let Some(half) = root.callee.as_ref().or(root.caller.as_ref()) else { return };
        if cuts.len() >= HELD_MAX || !is_open(&half.exchange) {
            return;
        }
        let e = &half.exchange;
        if is_older(half.host, e.request.began) {
            // its end may have come while nobody recorded; if not, its socket tells
            return;
        }
        let since = if e.request.arrived.0 != 0 { e.request.arrived.min(e.request.began) } else { e.request.began };
        let age = |host: HostId, since: MonoNs| span_of(folder, host).1.0.saturating_sub(since.0);
        if awaits(&r) {
            awaiting.add(&r, age(half.host, since), names);
            return;
        }
        let (mut calls, mut holders, mut sessions, mut inner) = (Vec::new(), Vec::new(), Vec::new(), root);
        for s in &r.spans {
            if let Some(c) = s.caller.as_ref().filter(|c| is_open(&c.exchange)) {
                calls.push((who(index, c), (c.host, c.exchange.flow)));
                inner = s;
            }
            if let Some(c) = s.callee.as_ref().filter(|c| is_open(&c.exchange)) {
                let at = who(index, c);
                holders.push(at);
                if names.text(c.host, c.exchange.content.protocol) == sessions::POSTGRES {
                    sessions.push((at, names.asked(c), age(c.host, c.exchange.request.began)));
                }
                inner = s;
            }
        }
        let asked = inner.callee.as_ref().or(inner.caller.as_ref()).map_or_else(String::new, |h| names.asked(h));
        let flight = InFlight {
            id: r.id,
            kind: kind_of(&r, names),
            since,
            age_ns: age(half.host, since),
            queue: None,
            is_unread: false,
            where_: (names.service(inner), asked),
            task: inner.callee.as_ref().map(|h| who(index, h)),
            handed_on: None,
            is_orphan: r.orphan.is_some(),
            left_ago_ns: (e.client.left.0 != 0).then(|| age(half.host, e.client.left)),
        };
        let untaken = inner.caller.as_ref().filter(|_| inner.callee.is_none());
        let untaken = untaken.map(|c| ((c.host, c.exchange.flow), c.place));
        let inner_began = inner.callee.as_ref().map(|h| h.exchange.request.began);
        let (end, began) = ((half.host, e.flow), e.request.began);
        cuts.push(Cut { flight, end, began, calls, holders, sessions, inner_began, untaken });
    };
    wakepath_causality::reconstruct(folder, out, |_, _, _, _| {});
    readers.take_from(&mut cuts);
    (cuts, awaiting)
}
