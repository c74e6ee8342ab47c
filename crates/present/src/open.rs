//! What had not ended, as text and as JSON.

mod owing;
mod stopped;
mod text;

pub(crate) use owing::silent_for_longer;
pub use owing::{OwingView, SilentView};
pub use stopped::StoppedView;

use crate::units;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use wakepath_analysis::names::{Names, OPAQUE};
use wakepath_analysis::open::{AcceptQueue, Awaited, Before, For, Held, InFlight, Known, Open, Unended};
use wakepath_model::ids::{HostId, TaskId};
use wakepath_model::syscalls;

/// A request without a whole answer.
#[derive(Clone, Debug, Serialize)]
pub struct RequestView {
    /// Its id.
    pub request: String,
    /// Entry service.
    pub service: String,
    /// What was asked.
    pub kind: String,
    /// For how long (ns).
    pub age_ns: u64,
    /// The innermost service that had it.
    pub at_service: String,
    /// What was asked of that.
    pub asked: String,
    /// The task that read it there, where watched.
    pub task: Option<String>,
    /// That task hands on what it reads: which task has this request is not known. Null for tasks that do not.
    pub handed_on: Option<HandedOnView>,
    /// That task's host.
    pub host: Option<String>,
    /// Its caller is watched, but for which request it was made is not known.
    pub orphan: bool,
    /// How long before the recording's end its client closed or reset the connection (ns); null: it did not.
    pub left_ago_ns: Option<u64>,
    /// Nobody has accepted its connection: the queue in which that lies.
    pub queue: Option<QueueView>,
    /// Where it is, in words: the innermost service that had it, and what was asked of that.
    pub place: String,
    /// The service that it was sent to is recorded, and was not seen to read it.
    pub unread: bool,
}

/// Who answered the requests that a task read.
#[derive(Clone, Debug, Serialize)]
pub struct HandedOnView {
    /// The requests that it read and that were answered.
    pub read: u64,
    /// Those of them that other tasks answered.
    pub by_others: u64,
}

impl RequestView {
    /// Whether nobody could read what it asked of the service that had it, so that an answer is perhaps not due.
    pub(crate) fn is_opaque(&self) -> bool {
        self.asked == OPAQUE
    }

    /// What `place` says; `goes_on`: its client left, and a part of it has no answer.
    fn place_in_words(&self, goes_on: bool) -> String {
        let task = self.task.as_deref().unwrap_or("peer not recorded");
        let place = match &self.queue {
            Some(q) => q.in_words(),
            None if self.unread => format!("{} (which was not seen to read it)", self.at_service),
            None if self.handed_on.is_some() => format!("{} (read by {task}, which hands it on)", self.at_service),
            None => format!("{} ({task})", self.at_service),
        };
        let place = match self.asked == self.kind && self.at_service == self.service {
            true => place,
            false => format!("{place}: {}", self.asked),
        };
        match self.left_ago_ns {
            Some(ns) if goes_on => {
                let after = units::duration(self.age_ns.saturating_sub(ns));
                format!("{place}; its client left after {after}, the work goes on")
            }
            Some(ns) => format!("{place}; its client left {} before the end", units::duration(ns)),
            None => place,
        }
    }
}

/// The queue of connections before a listener.
#[derive(Clone, Debug, Serialize)]
pub struct QueueView {
    /// Who listens: name and port.
    pub listener: String,
    /// How many connections were in it when it was looked at last.
    pub waiting: Option<u64>,
    /// How many have room.
    pub room: Option<u64>,
    /// It has no room for one more.
    pub is_full: bool,
    /// The connection is in it; else it is still being asked for.
    pub is_in: bool,
}

impl QueueView {
    /// `NAME:PORT (3 of 3)`.
    fn name(&self) -> String {
        let length = match (self.waiting, self.room) {
            (Some(waiting), Some(room)) => format!(" ({} of {})", units::count(waiting), units::count(room)),
            _ => String::new(),
        };
        format!("{}{length}", self.listener)
    }

    /// Where a connection that nobody has accepted is.
    pub(crate) fn in_words(&self) -> String {
        match (self.is_in, self.is_full) {
            (true, true) => format!("in the full accept queue of {}", self.name()),
            (true, false) => format!("in the accept queue of {}", self.name()),
            (false, true) => format!("no room in the accept queue of {}", self.name()),
            (false, false) => format!("asked for at {}", self.listener),
        }
    }
}

/// A listener whose queue has no room for one more connection.
#[derive(Clone, Debug, Serialize)]
pub struct FullQueueView {
    /// Who listens: name and port.
    pub listener: String,
    /// On which host.
    pub host: String,
    /// How many connections are in it.
    pub waiting: u64,
    /// How many have room.
    pub room: u64,
    /// In one sentence.
    pub sentence: String,
}

/// A connection that was open before the recording, on which somebody waits since.
#[derive(Clone, Debug, Serialize)]
pub struct BeforeView {
    /// For how long (ns).
    pub age_ns: u64,
    /// Who has the connection: a service where it was asked, else a process.
    pub process: String,
    /// On which host.
    pub host: String,
    /// It was asked and owes the answer; else it asked.
    pub is_asked: bool,
    /// The other end's address.
    pub address: String,
    /// Bytes that came and were not read.
    pub unread: u32,
    /// The other end has closed its side since.
    pub is_given_up: bool,
    /// The process's only task.
    pub task: Option<String>,
    /// What that does, in words.
    pub doing: Option<String>,
    /// In words.
    pub text: String,
}

/// A session with an open transaction.
#[derive(Clone, Debug, Serialize)]
pub struct SessionView {
    /// The server's process.
    pub task: String,
    /// What it was asked last.
    pub statement: String,
    /// It has answered that, and waits for its client to send: for so long (ns).
    pub idle_ns: Option<u64>,
    /// Its client: the task where it is recorded, else the address.
    pub client: Option<String>,
}

/// A session that sleeps in the middle of a statement.
#[derive(Clone, Debug, Serialize)]
pub struct HeldView {
    /// The server's process.
    pub task: String,
    /// On which host.
    pub host: String,
    /// For how long (ns).
    pub age_ns: u64,
    /// What it was asked.
    pub statement: String,
    /// It has a transaction open, for which others may wait.
    pub is_in_transaction: bool,
    /// Other sessions of the server with an open transaction.
    pub others: Vec<SessionView>,
    /// The query that tells which sessions it waits for.
    pub query: String,
}

/// A connection from which bytes are awaited.
#[derive(Clone, Debug, Serialize)]
pub struct AwaitedView {
    /// The other end's address, where known.
    pub address: Option<String>,
    /// Who works on the other end, where watched.
    pub peer: Option<String>,
    /// How the connection is known: `call`, `descriptor`, `last send`, `socket`, `connecting`.
    pub known_by: &'static str,
    /// The queue before the listener in which the connection lies, or finds no room.
    pub queue: Option<QueueView>,
}

/// A wait that went on.
#[derive(Clone, Debug, Serialize)]
pub struct WaitView {
    /// Who.
    pub task: String,
    /// On which host.
    pub host: String,
    /// For how long (ns).
    pub age_ns: u64,
    /// For what, in one word.
    pub waits_for: &'static str,
    /// For what, in words.
    pub text: String,
    /// In which system call.
    pub syscall: Option<String>,
    /// The file of that call, `…/FOLDER/NAME`.
    pub file: Option<String>,
    /// The connections.
    pub awaited: Vec<AwaitedView>,
    /// Ids of the requests that it holds.
    pub holds: Vec<String>,
}

impl WaitView {
    /// Whether its words say for what it waits, or where.
    pub(crate) fn says_something(&self) -> bool {
        self.waits_for != word(For::Other) || self.syscall.is_some()
    }
}

/// Tasks that wait for each other.
#[derive(Clone, Debug, Serialize)]
pub struct CircleView {
    /// None of them waits for anything else.
    pub is_deadlock: bool,
    /// Each waits for the next, the last for the first.
    pub members: Vec<String>,
    /// In one sentence.
    pub sentence: String,
}

/// Requests of a kind that asked to wait until something happens, and that it had not happened for.
#[derive(Clone, Debug, Serialize)]
pub struct WaitingView {
    /// Who was asked.
    pub service: String,
    /// What was asked.
    pub asked: String,
    /// How many.
    pub count: u64,
    /// For how long the oldest waited (ns).
    pub oldest_ns: u64,
}

/// Idle tasks.
#[derive(Clone, Debug, Serialize)]
pub struct IdleView {
    /// What they wait for.
    pub waits_for: &'static str,
    /// How many.
    pub tasks: u64,
}

/// The answer to `wakepath open`.
#[derive(Clone, Debug, Serialize)]
pub struct OpenView {
    /// Circles of tasks that wait for each other.
    pub circles: Vec<CircleView>,
    /// How many requests were in flight, in words.
    pub head: String,
    /// Requests that began during the recording and were in flight at its end, oldest first.
    pub requests: Vec<RequestView>,
    /// Requests whose clients left, and of which it is not known how long the work for them went on.
    pub left_unknown: u64,
    /// TCP connections of watched processes that were open when the recording began.
    pub open_before: u64,
    /// What is known of these, in one or two sentences; none where there are none.
    pub before_sentence: Option<String>,
    /// Of these, those on which somebody waits since before, longest first.
    pub before: Vec<BeforeView>,
    /// Of these, those that nothing moved on since, and of which their sockets do not show whether an answer is due.
    pub before_unknown: u64,
    /// The services that owe these answers, each after those that it asks itself.
    pub owing: Vec<OwingView>,
    /// PostgreSQL's sessions that sleep in the middle of a statement, longest first.
    pub sessions: Vec<HeldView>,
    /// PostgreSQL's sessions that answered last before the recording, and were silent since: longest first. A transaction may be open.
    pub silent: Vec<SilentView>,
    /// Processes that were stopped.
    pub stopped: Vec<StoppedView>,
    /// Accept queues without room for one more connection.
    pub full_queues: Vec<FullQueueView>,
    /// Waits that are for something, oldest first.
    pub waits: Vec<WaitView>,
    /// Idle tasks, by what they wait for.
    pub idle: Vec<IdleView>,
    /// Tasks of processes that owe an answer since before the recording, and of which nothing was recorded but their sleep: some may
    /// have those requests. By what they wait for.
    pub may_owe: Vec<IdleView>,
    /// Tasks of processes in which a request was handed on, that fell asleep since: some may have such requests. By what they wait
    /// for.
    pub may_have: Vec<IdleView>,
    /// Requests that asked to wait until something happens, which it had not: they hang nowhere.
    pub awaited: Vec<WaitingView>,
}

const fn word(what: For) -> &'static str {
    match what {
        For::Bytes => "bytes",
        For::Connection => "connection",
        For::Connect => "connect",
        For::Poll => "poll",
        For::Futex => "futex",
        For::Lock => "lock",
        For::Timer => "timer",
        For::Child => "child",
        For::Disk => "disk",
        For::Stopped => "stopped",
        For::Other => "other",
        For::Unseen => "unseen",
    }
}

const fn idle_words(what: For) -> &'static str {
    match what {
        For::Bytes => "in a read",
        For::Connection => "for a connection",
        For::Poll => "in poll, select or epoll",
        For::Futex => "at a futex",
        For::Timer => "asleep",
        For::Child => "for a child",
        For::Connect | For::Lock | For::Disk | For::Stopped | For::Other => "otherwise",
        For::Unseen => "for something not recorded: they slept before the recording began, or events are missing",
    }
}

struct Namer<'n, 'f> {
    names: &'n Names<'f>,
    has_hosts: bool,
}

impl Namer<'_, '_> {
    fn task(&self, (host, task): (HostId, TaskId)) -> String {
        let name = self.names.task(host, task);
        if self.has_hosts { format!("{name} on {}", self.names.host(host)) } else { name }
    }

    fn awaited(&self, a: &Awaited) -> String {
        match (a.peer, &a.address) {
            (Some(peer), Some(address)) => format!("{} ({address})", self.task(peer)),
            (Some(peer), None) => self.task(peer),
            (None, Some(address)) => address.clone(),
            (None, None) => "an unknown peer".into(),
        }
    }

    /// Who listens: name and port.
    fn listener(&self, q: &AcceptQueue) -> String {
        let name = q.task.map_or("a process that is not known", |t| self.names.program(t.0, t.1));
        format!("{name}:{}", q.port)
    }

    fn queue_view(&self, q: &AcceptQueue) -> QueueView {
        QueueView {
            listener: self.listener(q),
            waiting: q.length.map(|l| l.0),
            room: q.length.map(|l| l.1),
            is_full: q.is_full(),
            is_in: q.is_in,
        }
    }

    fn request(&self, r: &InFlight) -> RequestView {
        let view = RequestView {
            place: String::new(),
            request: format!("{:016x}", r.id),
            service: r.kind.0.clone(),
            kind: r.kind.1.clone(),
            age_ns: r.age_ns,
            at_service: r.where_.0.clone(),
            asked: r.where_.1.clone(),
            task: r.task.map(|t| self.task(t)),
            handed_on: r.handed_on.map(|h| HandedOnView { read: h.read, by_others: h.by_others }),
            host: r.task.map(|t| self.names.host(t.0).to_owned()),
            orphan: r.is_orphan,
            left_ago_ns: r.left_ago_ns,
            queue: r.queue.as_ref().map(|q| self.queue_view(q)),
            unread: r.is_unread,
        };
        RequestView { place: view.place_in_words(r.goes_on), ..view }
    }

    fn full(&self, q: &AcceptQueue) -> FullQueueView {
        let listener = self.listener(q);
        let (waiting, room) = q.length.unwrap_or_default();
        let sentence = format!(
            "The accept queue of {listener} is full: {} of {} places are taken and nothing accepts. Clients that \
             connect get no answer and retry after 1 s, 3 s, 7 s …",
            units::count(waiting),
            units::count(room),
        );
        FullQueueView { listener, host: self.names.host(q.end.0).to_owned(), waiting, room, sentence }
    }

    fn before(&self, b: &Before, waits: &[Open]) -> BeforeView {
        let process = self.names.program(b.leader.0, b.leader.1);
        let process = if b.is_asked { format!("{process}:{}", b.port) } else { process.to_owned() };
        let doing = b.task.and_then(|t| waits.iter().find(|w| w.at == t)).map(|w| self.text(w));
        let other = self.process_at(b.other, &b.address);
        let mut text = match (b.is_asked, b.unread) {
            (true, 0) => format!("last got bytes from {other}, and has sent nothing since"),
            (true, n) => format!("has not read {} that {other} sent", units::counted(n.into(), "byte", "bytes")),
            (false, _) => format!("last sent bytes to {other}, and has received nothing since"),
        };
        if b.is_given_up {
            text.push_str(if b.is_asked { "; the client has closed" } else { "; the server has closed" });
        }
        if let Some(doing) = &doing {
            let _ = write!(text, "; it {doing}");
        }
        BeforeView {
            age_ns: b.age_ns,
            process,
            host: self.names.host(b.leader.0).to_owned(),
            is_asked: b.is_asked,
            address: b.address.clone(),
            unread: b.unread,
            is_given_up: b.is_given_up,
            task: b.task.map(|t| self.task(t)),
            doing,
            text,
        }
    }

    fn held(&self, h: &Held) -> HeldView {
        let others = h.others.iter();
        HeldView {
            task: self.task(h.at),
            host: self.names.host(h.at.0).to_owned(),
            age_ns: h.age_ns,
            statement: h.statement.clone(),
            is_in_transaction: h.is_in_transaction,
            others: others
                .map(|o| SessionView {
                    task: self.task(o.at),
                    statement: o.statement.clone(),
                    idle_ns: o.idle_ns,
                    client: match (o.client, &o.address) {
                        (Some(client), Some(address)) => Some(format!("{} ({address})", self.task(client))),
                        (Some(client), None) => Some(self.task(client)),
                        (None, address) => address.clone(),
                    },
                })
                .collect(),
            query: owing::blocking(h.pid),
        }
    }

    fn text(&self, w: &Open) -> String {
        const NAMED: usize = 2;
        let in_queue = match &w.awaited[..] {
            [Awaited { queue: Some(q), .. }] => Some(format!("its connection: {}", self.queue_view(q).in_words())),
            _ => None,
        };
        let mut out = match w.what {
            For::Bytes | For::Poll | For::Connect if in_queue.is_some() => in_queue.unwrap_or_default(),
            For::Connect => {
                let to = w.awaited.first().map(|a| format!(" {}", self.awaited(a)));
                format!("asks{} for a connection", to.unwrap_or_default())
            }
            For::Bytes | For::Poll if !w.awaited.is_empty() => {
                let named: Vec<String> = w.awaited.iter().take(NAMED).map(|a| self.awaited(a)).collect();
                let more = w.awaited.len().saturating_sub(NAMED);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                format!("waits for an answer from {}{more}", named.join(" and "))
            }
            For::Bytes => "waits for bytes".into(),
            For::Poll => "polls its descriptors".into(),
            For::Connection => "waits for a connection".into(),
            For::Futex => format!("waits at futex {:#x}, whose holder is not known", w.futex),
            For::Lock => "waits for a lock on a file or a semaphore, whose holder is not known".into(),
            For::Timer => "sleeps".into(),
            For::Child => "waits for a child to end".into(),
            For::Disk => "waits for the disk or the kernel, uninterruptibly".into(),
            For::Stopped => "was stopped (by SIGSTOP, a debugger, or the freezer of its cgroup)".into(),
            For::Other => "waits".into(),
            For::Unseen => "waits for something that was not recorded".into(),
        };
        if let Some(call) = call(w) {
            let _ = write!(out, ", in {call}");
            if let Some(file) = &w.file {
                let _ = write!(out, " ({file})");
            }
        }
        out
    }
}

fn call(w: &Open) -> Option<String> {
    w.syscall.map(|nr| syscalls::name(nr).map_or_else(|| format!("syscall {nr}"), str::to_owned))
}

impl OpenView {
    /// What is shown of what had not ended.
    pub fn new(unended: &Unended, names: &Names<'_>, host_count: usize) -> OpenView {
        let namer = Namer { names, has_hosts: host_count > 1 };
        let requests: Vec<RequestView> = unended.requests.iter().map(|r| namer.request(r)).collect();
        let waits = unended
            .waits
            .iter()
            .map(|w| WaitView {
                task: namer.task(w.at),
                host: names.host(w.at.0).to_owned(),
                age_ns: w.age_ns,
                waits_for: word(w.what),
                text: namer.text(w),
                syscall: call(w),
                file: w.file.clone(),
                awaited: w
                    .awaited
                    .iter()
                    .map(|a| AwaitedView {
                        address: a.address.clone(),
                        peer: a.peer.map(|p| namer.task(p)),
                        known_by: match a.known {
                            Known::Call => "call",
                            Known::Descriptor => "descriptor",
                            Known::LastSend => "last send",
                            Known::Socket => "socket",
                            Known::Connecting => "connecting",
                        },
                        queue: a.queue.as_ref().map(|q| namer.queue_view(q)),
                    })
                    .collect(),
                holds: w.holds.iter().map(|id| format!("{id:016x}")).collect(),
            })
            .collect();
        let circles = unended
            .circles
            .iter()
            .map(|c| {
                let members: Vec<String> = c.members.iter().map(|&m| namer.task(m)).collect();
                let around = members.iter().chain(members.first()).map(String::as_str).collect::<Vec<_>>();
                let sentence = if c.is_deadlock {
                    format!("Deadlock: {}. None of them waits for anything else.", around.join(" waits for "))
                } else {
                    let circle = around.join(" waits for ");
                    format!("Circle: {circle}. One of them polls, so something else may still wake it.")
                };
                CircleView { is_deadlock: c.is_deadlock, members, sentence }
            })
            .collect();
        let asleep = |tasks: &BTreeMap<For, u64>| {
            tasks.iter().map(|(what, n)| IdleView { waits_for: word(*what), tasks: *n }).collect::<Vec<_>>()
        };
        let awaited = unended.awaited.iter().map(|((service, asked), &(count, oldest_ns))| WaitingView {
            service: service.clone(),
            asked: asked.clone(),
            count,
            oldest_ns,
        });
        OpenView {
            circles,
            head: text::in_flight(requests.len(), unended.left_unknown),
            before_sentence: text::open_before(unended.open_before, unended.before.len(), unended.before_unknown),
            requests,
            left_unknown: unended.left_unknown,
            open_before: unended.open_before,
            before: unended.before.iter().map(|b| namer.before(b, &unended.waits)).collect(),
            before_unknown: unended.before_unknown,
            full_queues: unended.full.iter().map(|q| namer.full(q)).collect(),
            owing: owing::owing(unended, names, &namer),
            sessions: unended.sessions.iter().map(|h| namer.held(h)).collect(),
            silent: unended.silent.iter().map(|a| namer.silent(a)).collect(),
            stopped: stopped::stopped(unended, names),
            waits,
            idle: asleep(&unended.idle),
            may_owe: asleep(&unended.may_owe),
            may_have: asleep(&unended.may_have),
            awaited: awaited.collect(),
        }
    }
}
