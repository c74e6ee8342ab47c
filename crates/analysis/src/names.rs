//! Names for people: a service is what listens, never a process number.

use rustc_hash::FxHashMap;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};
use wakepath_causality::graph::End;
use wakepath_causality::pairs::Place;
use wakepath_causality::path::{Half, Span};
use wakepath_model::folder::{Folder, TableSet};
use wakepath_model::ids::{HostId, StrId, TaskId};
use wakepath_model::rows::{Event, Table, life};

#[derive(Clone, Copy)]
struct Known {
    comm: StrId,
    leader: TaskId,
    tgid: u32,
    tid: u32,
}

/// What tasks are called. Memory: some 40 bytes a task of the recording.
pub struct Names<'f> {
    folder: &'f Folder,
    tasks: FxHashMap<(HostId, TaskId), Known>,
}

impl<'f> Names<'f> {
    /// Reads the tasks of a folder.
    pub fn read(folder: &'f Folder) -> Names<'f> {
        let mut tasks = FxHashMap::default();
        for host in folder.hosts() {
            let mut leaders: FxHashMap<u32, TaskId> = FxHashMap::default();
            for event in host.events(TableSet::of(&[Table::Task]), ..) {
                let Event::Task(r) = event else { continue };
                if r.tgid == r.tid && r.what != life::EXIT {
                    leaders.insert(r.tgid, r.task);
                }
                let leader = leaders.get(&r.tgid).copied().unwrap_or(r.task);
                tasks.insert((host.id(), r.task), Known { comm: r.comm, leader, tgid: r.tgid, tid: r.tid });
            }
        }
        Names { folder, tasks }
    }

    /// The name of a task's process.
    pub fn process(&self, host: HostId, task: TaskId) -> &'f str {
        let known = self.tasks.get(&(host, task));
        let leader = known.and_then(|k| self.tasks.get(&(host, k.leader))).or(known);
        leader.map_or("?", |k| self.text(host, k.comm))
    }

    /// A task as people name it: `NAME/TID`.
    pub fn task(&self, host: HostId, task: TaskId) -> String {
        match self.tasks.get(&(host, task)) {
            Some(k) => format!("{}/{}", self.text(host, k.comm), k.tid),
            None => "?".into(),
        }
    }

    /// All tasks, in no order.
    pub fn tasks(&self) -> impl Iterator<Item = (HostId, TaskId)> + '_ {
        self.tasks.keys().copied()
    }

    /// The tasks that somebody means by `NAME`, `TID` or `NAME/TID`, oldest first. A name that a process's first
    /// thread has means that thread.
    pub fn find(&self, wanted: &str) -> Vec<(HostId, TaskId)> {
        let mut found = self.find_all(wanted);
        let leads = |at: &(HostId, TaskId)| self.tasks.get(at).is_some_and(|k| k.tgid == k.tid);
        if by_name(wanted).1.is_none() && found.iter().filter(|at| leads(at)).count() == 1 {
            found.retain(leads);
        }
        found
    }

    /// All tasks of `NAME`, `TID` or `NAME/TID`, oldest first.
    pub fn find_all(&self, wanted: &str) -> Vec<(HostId, TaskId)> {
        let (name, tid) = by_name(wanted);
        let fits = |host: HostId, k: &Known| {
            name.is_none_or(|n| self.text(host, k.comm) == n) && tid.is_none_or(|t| k.tid == t)
        };
        let mut found: Vec<(HostId, TaskId)> =
            self.tasks.iter().filter(|((host, _), k)| fits(*host, k)).map(|(at, _)| *at).collect();
        found.sort_unstable();
        found
    }

    /// The process number of a task, 0 where not known.
    pub fn tgid(&self, host: HostId, task: TaskId) -> u32 {
        self.tasks.get(&(host, task)).map_or(0, |k| k.tgid)
    }

    /// An interned text.
    pub fn text(&self, host: HostId, id: StrId) -> &'f str {
        self.folder.host(host).map_or("", |h| h.text(id))
    }

    /// The name of a host, where the folder has several.
    pub fn host(&self, host: HostId) -> &'f str {
        self.folder.host(host).map_or("?", |h| h.info().hostname.as_str())
    }

    /// What served a span: name and port of what listens; an address where nobody watches there.
    pub fn service(&self, span: &Span) -> String {
        let mut out = String::new();
        match (&span.callee, &span.caller) {
            (Some(h), _) => {
                out.push_str(self.process(h.host, h.exchange.task));
                if h.place.lport != 0 {
                    let _ = write!(out, ":{}", h.place.lport);
                }
            }
            (None, Some(h)) => address(&h.place, &mut out),
            (None, None) => out.push('?'),
        }
        out
    }

    /// Where a connection was to go: path of a UNIX socket, where known, or `ADDRESS:PORT`.
    pub fn asked_for(&self, host: HostId, place: &Place) -> String {
        match self.text(host, place.path) {
            "" => remote(place),
            path => path.to_owned(),
        }
    }

    /// What a span asked for: verb and target, or the protocol, or that it is opaque.
    pub fn asked(&self, h: &Half) -> String {
        let e = &h.exchange;
        asked(self.text(h.host, e.protocol), self.text(h.host, e.verb), self.text(h.host, e.target))
    }
}

/// The name and the number in `NAME`, `TID` or `NAME/TID`.
fn by_name(wanted: &str) -> (Option<&str>, Option<u32>) {
    match wanted.rsplit_once('/') {
        Some((name, tid)) if tid.parse::<u32>().is_ok() => (Some(name), tid.parse().ok()),
        _ => match wanted.parse::<u32>() {
            Ok(tid) => (None, Some(tid)),
            Err(_) => (Some(wanted), None),
        },
    }
}

/// What was asked for: verb and target, or the protocol, or that it is opaque.
pub fn asked(protocol: &str, verb: &str, target: &str) -> String {
    match (verb, target) {
        ("", "") if protocol.is_empty() => "(opaque)".into(),
        ("", "") => protocol.trim_start_matches("proto.").to_owned(),
        // a statement's shape begins with its verb
        (v, t) if t.len() >= v.len() && t.as_bytes()[..v.len()].eq_ignore_ascii_case(v.as_bytes()) => t.to_owned(),
        (v, "") => v.to_owned(),
        (v, t) => format!("{v} {t}"),
    }
}

/// `ADDRESS:PORT` of the remote end.
fn address(p: &Place, out: &mut String) {
    const AF_INET6: u16 = 10;
    let _ = match p.family {
        AF_INET6 => write!(out, "[{}]:{}", Ipv6Addr::from(p.raddr), p.rport),
        1 => write!(out, "unix socket"),
        _ => {
            let [a, b, c, d, ..] = p.raddr;
            write!(out, "{}:{}", Ipv4Addr::new(a, b, c, d), p.rport)
        }
    };
}

/// `ADDRESS:PORT` of the remote end, as the execution graph keeps it.
pub fn remote_of(e: &End) -> String {
    remote(&Place { raddr: e.raddr, rport: e.rport, family: e.family, ..Place::default() })
}

/// `ADDRESS:PORT` of an endpoint's remote end.
pub fn remote(p: &Place) -> String {
    let mut out = String::new();
    address(p, &mut out);
    out
}
