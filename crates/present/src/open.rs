//! What had not ended, as text and as JSON.

use crate::table::{Cell, Column, Table};
use crate::text::{Style, Tint, sanitise, wrap};
use crate::units;
use serde::Serialize;
use std::fmt::Write as _;
use wakepath_analysis::names::Names;
use wakepath_analysis::open::{Awaited, For, Known, Open, Unended};
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
    /// The task that had it there, where watched.
    pub task: Option<String>,
    /// That task's host.
    pub host: Option<String>,
    /// Its caller is watched, but for which request it was made is not known.
    pub orphan: bool,
}

/// A connection from which bytes are awaited.
#[derive(Clone, Debug, Serialize)]
pub struct AwaitedView {
    /// The other end's address, where known.
    pub address: Option<String>,
    /// Who works on the other end, where watched.
    pub peer: Option<String>,
    /// How the connection is known: `call`, `descriptor`, `last send`.
    pub known_by: &'static str,
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
    /// The connections.
    pub awaited: Vec<AwaitedView>,
    /// Ids of the requests that it holds.
    pub holds: Vec<String>,
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
    /// Requests in flight, oldest first.
    pub requests: Vec<RequestView>,
    /// Waits that are for something, oldest first.
    pub waits: Vec<WaitView>,
    /// Idle tasks, by what they wait for.
    pub idle: Vec<IdleView>,
}

const fn word(what: For) -> &'static str {
    match what {
        For::Bytes => "bytes",
        For::Connection => "connection",
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
        For::Lock | For::Disk | For::Stopped | For::Other => "otherwise",
        For::Unseen => "for what was not seen: they slept before the recording began, or events are missing",
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

    fn text(&self, w: &Open) -> String {
        const NAMED: usize = 2;
        let mut out = match w.what {
            For::Bytes | For::Poll if !w.awaited.is_empty() => {
                let named: Vec<String> = w.awaited.iter().take(NAMED).map(|a| self.awaited(a)).collect();
                let more = w.awaited.len().saturating_sub(NAMED);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                format!("waits for an answer of {}{more}", named.join(" and "))
            }
            For::Bytes => "waits for bytes".into(),
            For::Poll => "polls its descriptors".into(),
            For::Connection => "waits for a connection".into(),
            For::Futex => format!("waits at futex {:#x}, who holds it is not known", w.futex),
            For::Lock => "waits for a lock on a file or a semaphore, who holds it is not known".into(),
            For::Timer => "sleeps".into(),
            For::Child => "waits for a child to end".into(),
            For::Disk => "waits for the disk or the kernel, uninterruptibly".into(),
            For::Stopped => "was stopped by a signal (SIGSTOP, or a debugger)".into(),
            For::Other => "waits".into(),
            For::Unseen => "waits for what was not seen".into(),
        };
        if let Some(call) = call(w) {
            let _ = write!(out, ", in {call}");
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
        let requests = unended
            .requests
            .iter()
            .map(|r| RequestView {
                request: format!("{:016x}", r.id),
                service: r.kind.0.clone(),
                kind: r.kind.1.clone(),
                age_ns: r.age_ns,
                at_service: r.where_.0.clone(),
                asked: r.where_.1.clone(),
                task: r.task.map(|t| namer.task(t)),
                host: r.task.map(|t| names.host(t.0).to_owned()),
                orphan: r.is_orphan,
            })
            .collect();
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
                        },
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
                    format!("Circle: {circle}. One of them polls, so that something else may still wake it.")
                };
                CircleView { is_deadlock: c.is_deadlock, members, sentence }
            })
            .collect();
        let idle = unended.idle.iter().map(|(what, n)| IdleView { waits_for: word(*what), tasks: *n }).collect();
        OpenView { circles, requests, waits, idle }
    }

    /// How many requests were in flight.
    pub fn head(&self) -> String {
        match self.requests.len() {
            0 => "No request was in flight when the recording ended.".to_owned(),
            n => format!("In flight when the recording ended: {}", plural(n as u64, "request", "requests")),
        }
    }

    /// As text for a terminal; at most `limit` requests and waits (0 = all).
    pub fn render(&self, unended: &Unended, limit: usize, style: Style) -> String {
        let mut out = String::new();
        let limit = if limit == 0 { usize::MAX } else { limit };
        for c in &self.circles {
            for line in wrap(&sanitise(&c.sentence), "", style.prose()).lines() {
                let _ = writeln!(out, "{}", style.paint(line, if c.is_deadlock { Tint::Bad } else { Tint::Warn }));
            }
        }
        if !self.circles.is_empty() {
            out.push('\n');
        }
        let _ = writeln!(out, "{}", style.paint(&self.head(), Tint::Strong));
        if !self.requests.is_empty() {
            let mut t = Table::new(&[
                Column::number("age"),
                Column::text("request"),
                Column::text("what was asked"),
                Column::text("where it is"),
            ]);
            for r in self.requests.iter().take(limit) {
                let task = r.task.as_deref().unwrap_or("nobody watches there");
                let place = if r.asked == r.kind && r.at_service == r.service {
                    format!("{} ({task})", r.at_service)
                } else {
                    format!("{} ({task}): {}", r.at_service, r.asked)
                };
                t.row([
                    Cell::from(units::duration(r.age_ns)),
                    Cell::from(&r.request[..8]),
                    Cell::from(format!("{} at {}", r.kind, r.service)),
                    Cell::from(place),
                ]);
            }
            out.push_str(&t.render(style));
            more(&mut out, self.requests.len(), limit);
        }
        out.push('\n');
        let head = match self.waits.len() {
            0 => "No wait was open but those of idle tasks.".to_owned(),
            n => format!("Waits that went on: {}", units::count(n as u64)),
        };
        let _ = writeln!(out, "{}", style.paint(&head, Tint::Strong));
        if !self.waits.is_empty() {
            let mut t = Table::new(&[
                Column::number("age"),
                Column::text("task"),
                Column::text("what it waits for"),
                Column::text("holds"),
            ]);
            for w in self.waits.iter().take(limit) {
                let holds = match &w.holds[..] {
                    [] => String::new(),
                    [one] => one[..8].to_owned(),
                    [one, rest @ ..] => format!("{} +{}", &one[..8], rest.len()),
                };
                t.row([
                    Cell::from(units::duration(w.age_ns)),
                    Cell::from(&w.task),
                    Cell::from(&w.text),
                    Cell::from(holds),
                ]);
            }
            out.push_str(&t.render(style));
            more(&mut out, self.waits.len(), limit);
        }
        if !unended.idle.is_empty() {
            let total: u64 = unended.idle.values().sum();
            let parts: Vec<String> =
                unended.idle.iter().map(|(what, n)| format!("{} {}", units::count(*n), idle_words(*what))).collect();
            let line = format!(
                "Idle, with no request and no call open: {} ({}).",
                plural(total, "task", "tasks"),
                parts.join(", ")
            );
            out.push_str(&wrap(&line, "", style.prose()));
        }
        out
    }
}

fn plural(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", units::count(n), if n == 1 { one } else { many })
}

fn more(out: &mut String, count: usize, limit: usize) {
    if count > limit {
        let _ = writeln!(out, "… and {} more; --limit 0 shows all.", units::count((count - limit) as u64));
    }
}
