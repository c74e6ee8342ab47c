//! Names for people: a service is what listens, never a process number.

use crate::command_line;
use rustc_hash::{FxHashMap, FxHashSet};
use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::OnceLock;
use wakepath_causality::path::{Half, Span};
use wakepath_flows::Place;
use wakepath_graph::End;
use wakepath_model::clock::Timeline;
use wakepath_model::folder::{Folder, TableSet};
use wakepath_model::ids::{CommonNs, HostId, MonoNs, StrId, TaskId};
use wakepath_model::rows::{Event, JVM_EXECUTORS, Life, PlacementRow, RuntimeKind, Side, Table, TcpState};

#[derive(Clone, Copy)]
struct Known {
    comm: StrId,
    leader: TaskId,
    tgid: u32,
    tid: u32,
    cgroup: StrId,
    cmdline: StrId,
    runtime: RuntimeKind,
    key: u64,
}

impl Known {
    /// What a logical task is called; `None` of a thread.
    fn logical(&self) -> Option<String> {
        match self.runtime {
            RuntimeKind::None => None,
            RuntimeKind::Go => Some(format!("goroutine {}", self.key)),
            RuntimeKind::Jvm if self.key >= JVM_EXECUTORS => Some("an executor's task".into()),
            RuntimeKind::Jvm => Some(format!("virtual thread {}", self.key)),
            RuntimeKind::Tokio => Some(format!("Tokio task {}", self.key)),
            // these have no number that anybody else knows
            RuntimeKind::Python => Some("a task of Python".into()),
            RuntimeKind::Node => Some("a request's context".into()),
        }
    }
}

/// Where a task runs: in which container, pod or systemd unit. What is not known is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Placement<'f> {
    /// What runs the container: `docker`, `containerd`, `cri-o`, `podman`, `lxc` …
    pub runtime: &'f str,
    /// The container's id.
    pub container: &'f str,
    /// The container's name; of a pod's container, the name that the pod gives it.
    pub name: &'f str,
    /// The image that it was made of.
    pub image: &'f str,
    /// The pod.
    pub pod: &'f str,
    /// The pod's namespace.
    pub namespace: &'f str,
    /// The pod's UID.
    pub pod_uid: &'f str,
    /// The deployment, by the form of the pod's name.
    pub deployment: &'f str,
    /// The systemd unit.
    pub unit: &'f str,
}

impl<'f> Placement<'f> {
    fn of(row: &PlacementRow, text: impl Fn(StrId) -> &'f str) -> Placement<'f> {
        Placement {
            runtime: text(row.runtime),
            container: text(row.container),
            name: text(row.name),
            image: text(row.image),
            pod: text(row.pod),
            namespace: text(row.namespace),
            pod_uid: text(row.pod_uid),
            deployment: text(row.deployment),
            unit: text(row.unit),
        }
    }

    /// How people call what a program of this name runs in: `NAMESPACE/DEPLOYMENT`, `NAMESPACE/POD`, a container's name or the
    /// first twelve digits of its id, a systemd service that is not named like the program; empty where it is none of these.
    pub fn owner(&self, program: &str) -> String {
        let service = self.unit.strip_suffix(".service").filter(|unit| !unit.starts_with("user@")).unwrap_or_default();
        match (self.pod, self.name, self.container) {
            ("", "", "") if is_alike(service, program) => String::new(),
            ("", "", "") => service.to_owned(),
            ("", "", id) => id.chars().take(12).collect(),
            ("", name, _) => name.to_owned(),
            (pod, ..) => {
                let workload = if self.deployment.is_empty() { pod } else { self.deployment };
                format!("{}/{workload}", self.namespace)
            }
        }
    }
}

/// Whether a systemd service says nothing more than its program's name: `nginx`, and of `postgres` `postgresql@15-main`.
fn is_alike(service: &str, program: &str) -> bool {
    let base = service.split('@').next().unwrap_or_default();
    base.starts_with(program) || program.starts_with(base)
}

/// What tasks are called. Memory: some 40 bytes a task of the recording.
pub struct Names<'f> {
    folder: &'f Folder,
    line: Timeline,
    tasks: FxHashMap<(HostId, TaskId), Known>,
    /// By cgroup; whether the recorder ran there too.
    placements: FxHashMap<(HostId, StrId), (Placement<'f>, bool)>,
    /// Names after what their programs run in, by cgroup and name.
    programs: FxHashMap<(HostId, StrId, StrId), String>,
    /// Who listens at a port, or serves what came in there; read where a request's own task is not known.
    listeners: OnceLock<FxHashMap<(HostId, u16), TaskId>>,
}

impl<'f> Names<'f> {
    /// Reads the tasks of a folder.
    pub fn read(folder: &'f Folder) -> Names<'f> {
        let mut tasks = FxHashMap::default();
        let mut placements = FxHashMap::default();
        for host in folder.hosts() {
            let mut leaders: FxHashMap<u32, TaskId> = FxHashMap::default();
            for event in host.events(TableSet::of(&[Table::Task, Table::Placement]), ..) {
                if let Event::Placement(r) = event {
                    let placement = Placement::of(&r, |id| host.text(id));
                    placements.insert((host.id(), r.cgroup), (placement, r.is_own != 0));
                }
                let Event::Task(r) = event else { continue };
                if r.tgid == r.tid && r.what != Life::Exit {
                    leaders.insert(r.tgid, r.task);
                }
                let leader = leaders.get(&r.tgid).copied().unwrap_or(r.task);
                tasks.insert(
                    (host.id(), r.task),
                    Known {
                        comm: r.comm,
                        leader,
                        tgid: r.tgid,
                        tid: r.tid,
                        cgroup: r.cgroup,
                        cmdline: r.cmdline,
                        runtime: r.runtime,
                        key: r.key,
                    },
                );
            }
        }
        let mut names = Names {
            folder,
            line: folder.timeline(),
            tasks,
            placements,
            programs: FxHashMap::default(),
            listeners: OnceLock::new(),
        };
        names.qualify();
        names
    }

    /// The name of a task's process.
    pub fn process(&self, host: HostId, task: TaskId) -> &'f str {
        self.leader(host, task).map_or("?", |k| self.text(host, k.comm))
    }

    /// Where a task runs, as far as it is known.
    pub fn placement(&self, host: HostId, task: TaskId) -> Placement<'f> {
        let known = self.tasks.get(&(host, task));
        known.and_then(|k| self.placements.get(&(host, k.cgroup))).map_or_else(Placement::default, |p| p.0)
    }

    /// The name of a task's process, behind what it runs in: `shop/web/nginx`, `db-1/postgres`, or `nginx` where it runs in nothing
    /// else than the recorder did.
    pub fn program(&self, host: HostId, task: TaskId) -> &str {
        let key = self.leader(host, task).map(|k| (host, k.cgroup, k.comm));
        let qualified = key.and_then(|key| self.programs.get(&key));
        qualified.map_or_else(|| self.process(host, task), String::as_str)
    }

    /// Whether two tasks are threads of one process.
    pub fn is_one_process(&self, a: (HostId, TaskId), b: (HostId, TaskId)) -> bool {
        let tgid = self.tgid(a.0, a.1);
        a == b || (a.0 == b.0 && tgid != 0 && tgid == self.tgid(b.0, b.1))
    }

    /// Whether two tasks are of processes that do the same: of one name, at one place, with one command line, as the workers of a
    /// server are.
    pub fn is_alike(&self, a: (HostId, TaskId), b: (HostId, TaskId)) -> bool {
        let about = |t: (HostId, TaskId)| self.leader(t.0, t.1).map(|k| (t.0, k.comm, k.cgroup, k.cmdline));
        about(a).is_some() && about(a) == about(b)
    }

    /// The name of a task's process, with the first of its arguments that is no option: `python3 app.py`.
    pub fn with_argument(&self, host: HostId, task: TaskId) -> String {
        let program = self.program(host, task);
        let line = self.leader(host, task).map_or("", |k| self.text(host, k.cmdline));
        let argument = line.split_whitespace().skip(1).find(|word| !word.starts_with('-'));
        let argument = argument.filter(|&word| word != command_line::MASKED);
        match argument.map(|word| word.rsplit('/').next().unwrap_or(word)).filter(|word| !word.is_empty()) {
            Some(argument) => format!("{program} {argument}"),
            None => program.to_owned(),
        }
    }

    /// What people call a task's program where an interpreter runs it, as its command line says: `gunicorn shop.wsgi`.
    pub fn known_as(&self, host: HostId, task: TaskId) -> Option<String> {
        self.leader(host, task).and_then(|k| command_line::in_words(self.text(host, k.cmdline)))
    }

    /// The task itself, or where it is not known, one that listens at the port.
    pub(crate) fn serves(&self, host: HostId, task: TaskId, port: u16) -> TaskId {
        if self.tasks.contains_key(&(host, task)) || port == 0 {
            return task;
        }
        let listeners = self.listeners.get_or_init(|| listeners(self.folder));
        listeners.get(&(host, port)).copied().unwrap_or(task)
    }

    /// What is known of the task that leads a task's process, else of the task.
    fn leader(&self, host: HostId, task: TaskId) -> Option<&Known> {
        let known = self.tasks.get(&(host, task));
        known.and_then(|k| self.tasks.get(&(host, k.leader))).or(known)
    }

    /// The names of programs after what they run in, where that is something.
    fn qualify(&mut self) {
        for (&(host, _), k) in &self.tasks {
            let key = (host, k.cgroup, k.comm);
            let Some((placement, false)) = self.placements.get(&(host, k.cgroup)) else { continue };
            if !self.programs.contains_key(&key) {
                let comm = self.text(host, k.comm);
                let owner = placement.owner(comm);
                if !owner.is_empty() {
                    self.programs.insert(key, format!("{owner}/{comm}"));
                }
            }
        }
    }

    /// A task as people name it: `NAME/TID`, or `goroutine 17 of NAME`.
    pub fn task(&self, host: HostId, task: TaskId) -> String {
        let logical = self.tasks.get(&(host, task)).and_then(Known::logical);
        if let Some(logical) = logical {
            return format!("{logical} of {}", self.process(host, task));
        }
        match self.tasks.get(&(host, task)) {
            Some(k) => format!("{}/{}", self.text(host, k.comm), k.tid),
            None => "?".into(),
        }
    }

    /// The name of a thread, which may differ from that of its process.
    pub fn thread(&self, host: HostId, task: TaskId) -> &'f str {
        self.tasks.get(&(host, task)).map_or("?", |k| self.text(host, k.comm))
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

    /// All threads of `NAME`, `TID` or `NAME/TID`, or the logical tasks that are called so, oldest first.
    pub fn find_all(&self, wanted: &str) -> Vec<(HostId, TaskId)> {
        let (name, tid) = by_name(wanted);
        let fits = |host: HostId, k: &Known| {
            name.is_none_or(|n| self.text(host, k.comm) == n) && tid.is_none_or(|t| k.tid == t)
        };
        let is_called = |at: (HostId, TaskId), k: &Known| match k.runtime {
            RuntimeKind::None => fits(at.0, k),
            _ => self.task(at.0, at.1) == wanted,
        };
        let mut found: Vec<(HostId, TaskId)> =
            self.tasks.iter().filter(|(at, k)| is_called(**at, k)).map(|(at, _)| *at).collect();
        found.sort_unstable();
        found
    }

    /// The programs that serve connections, as recorded: by host and name. A process that is made later, as a worker, often serves
    /// what its parent listens at, and shares its program.
    pub fn serving(&self) -> FxHashSet<(HostId, String)> {
        let mut found = FxHashSet::default();
        for host in self.folder.hosts() {
            for event in host.events(TableSet::of(&[Table::Endpoint]), ..) {
                let Event::Endpoint(r) = event else { continue };
                if r.task != TaskId::UNKNOWN && (r.state == TcpState::Listen || r.side == Side::Server) {
                    found.insert((host.id(), self.program(host.id(), r.task).to_owned()));
                }
            }
        }
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

    /// A moment of a host on the line that all hosts share.
    pub fn common(&self, host: HostId, at: MonoNs) -> CommonNs {
        self.line.common(host, at)
    }

    /// The name of a host, where the folder has several.
    pub fn host(&self, host: HostId) -> &'f str {
        self.folder.host(host).map_or("?", |h| h.info().hostname.as_str())
    }

    /// What served a span: program and port of what listens, after the container, pod or unit that it runs in; an address
    /// where nobody watches there.
    pub fn service(&self, span: &Span) -> String {
        let mut out = String::new();
        match (&span.callee, &span.caller) {
            (Some(h), _) => {
                out.push_str(self.program(h.host, self.serves(h.host, h.exchange.request.task, h.place.lport)));
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
        asked(
            self.text(h.host, e.content.protocol),
            self.text(h.host, e.content.verb),
            self.text(h.host, e.content.target),
        )
    }
}

/// Of each host and port, a task that listens there, else one that was given a connection which came in there.
fn listeners(folder: &Folder) -> FxHashMap<(HostId, u16), TaskId> {
    let mut found: FxHashMap<(HostId, u16), TaskId> = FxHashMap::default();
    for host in folder.hosts() {
        for event in host.events(TableSet::of(&[Table::Endpoint]), ..) {
            let Event::Endpoint(r) = event else { continue };
            if r.task == TaskId::UNKNOWN || r.lport == 0 {
                continue;
            }
            if r.state == TcpState::Listen {
                found.insert((host.id(), r.lport), r.task);
            } else if r.side == Side::Server {
                found.entry((host.id(), r.lport)).or_insert(r.task);
            }
        }
    }
    found
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

/// What is said of a request whose protocol nobody could read.
pub const OPAQUE: &str = "(opaque)";

/// What was asked for: verb and target, or the protocol, or that it is opaque.
pub fn asked(protocol: &str, verb: &str, target: &str) -> String {
    match (verb, target) {
        ("", "") if protocol.is_empty() => OPAQUE.into(),
        ("", "") => protocol.trim_start_matches("proto.").to_owned(),
        // a statement's shape begins with its verb
        (v, t) if t.len() >= v.len() && t.as_bytes()[..v.len()].eq_ignore_ascii_case(v.as_bytes()) => t.to_owned(),
        (v, "") => v.to_owned(),
        (v, t) => format!("{v} {t}"),
    }
}

/// The remote end of a UNIX socket that nobody watches.
pub const UNIX_SOCKET: &str = "unix socket";

/// What the other end of a connection is called of which no address was recorded: it is older than the recording's list of connections.
pub const UNKNOWN_PEER: &str = "unknown peer";

/// `ADDRESS:PORT` of the remote end; the address alone where the port is not known.
fn address(p: &Place, out: &mut String) {
    const AF_INET6: u16 = 10;
    let _ = match p.family {
        _ if p.is_peer_unknown() => write!(out, "{UNKNOWN_PEER}"),
        AF_INET6 if p.rport == 0 => write!(out, "{}", Ipv6Addr::from(p.raddr)),
        1 => write!(out, "{UNIX_SOCKET}"),
        _ if p.rport == 0 => {
            let [a, b, c, d, ..] = p.raddr;
            write!(out, "{}", Ipv4Addr::new(a, b, c, d))
        }
        AF_INET6 => write!(out, "[{}]:{}", Ipv6Addr::from(p.raddr), p.rport),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A port of 0 is one that is not known: it is left out, and an end of which nothing is known is not "0.0.0.0:0".
    #[test]
    fn an_address_without_a_port_is_printed_alone() {
        let v4 = |last: u8, rport| {
            let mut raddr = [0; 16];
            raddr[..4].copy_from_slice(&if last == 0 { [0; 4] } else { [10, 0, 0, last] });
            Place { family: 2, raddr, rport, ..Place::default() }
        };
        let v6 = |last: u8, rport| {
            let mut raddr = [0; 16];
            (raddr[0], raddr[15]) = if last == 0 { (0, 0) } else { (0xfd, last) };
            Place { family: 10, raddr, rport, ..Place::default() }
        };
        let unix = Place { family: 1, ..Place::default() };
        let printed = [v4(7, 80), v4(7, 0), v4(0, 0), v6(7, 80), v6(7, 0), v6(0, 0), unix].map(|p| remote(&p));
        let expected = ["10.0.0.7:80", "10.0.0.7", UNKNOWN_PEER, "[fd00::7]:80", "fd00::7", UNKNOWN_PEER, UNIX_SOCKET];
        assert_eq!(printed, expected);
    }

    #[test]
    fn what_a_program_runs_in_has_the_name_that_people_use() {
        let owner = |p: Placement<'_>| p.owner("postgres");
        let none = Placement::default();
        let pod = Placement { pod: "db-5d7f-x", namespace: "shop", name: "pg", container: "0123", ..none };
        assert_eq!(owner(Placement { deployment: "db", ..pod }), "shop/db");
        assert_eq!(owner(pod), "shop/db-5d7f-x");
        assert_eq!(owner(Placement { name: "db-1", container: "0123", ..none }), "db-1");
        assert_eq!(owner(Placement { container: "0123456789abcdef", pod_uid: "u", ..none }), "0123456789ab");
        for (unit, expected) in [
            ("shop.service", "shop"),
            ("postgresql@15-main.service", ""),
            ("postgres.service", ""),
            ("pg@1.service", "pg@1"),
            ("user@1000.service", ""),
            ("session-3.scope", ""),
            ("", ""),
        ] {
            assert_eq!(owner(Placement { unit, ..none }), expected, "{unit}");
        }
    }
}
