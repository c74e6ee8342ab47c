//! What a slice of a path was spent on, as a colleague would name it: a cause, where, and what is known besides.
//!
//! A path follows waits into those who were waited for. The cause is that of the *outermost* wait where that says more
//! than what went on after it: whoever waits for a lock waits for a lock, though its holder sleeps. It is the innermost
//! where a task only waited for another's work: then that work is the cause. A disk is the cause for whoever waits for it.

mod naming;

use crate::active_path::locks::{asked_last, is_lock_call, is_poll};
use crate::active_path::taken::VM_THREAD;
use crate::causes::Cause;
use crate::names::{Names, asked, remote_of};
use crate::reasons;
use crate::slices::{Slice, State};
use naming::Naming;
use rustc_hash::FxHashSet;
use std::ops::Range;
use wakepath_causality::path::{Request, Span};
use wakepath_graph::{Index, is_futex};
use wakepath_model::folder::{Folder, TableSet};
use wakepath_model::ids::{CommonNs, EndpointId, HostId, TaskId};
use wakepath_model::rows::{EndedBy, Event, OpKind, RuntimeKind, Table, WaitRow};

/// What is known of a futex that is asked for every 5 ms.
const INTERPRETER: &str = "asked for every 5 ms, as CPython asks for its interpreter lock";
/// Errors of statements that waited for a lock: a deadlock, `lock_timeout`.
const LOCK_ERRORS: [&str; 2] = ["40P01", "55P03"];
/// What names of threads of a JVM's collectors begin with.
const COLLECTORS: &[&str] = &["GC Thread#", "G1 ", "ParGC Thread#", "ZWorker", "ZDriver", "Shenandoah"];
/// Port of name servers.
const DNS_PORT: u16 = 53;
/// Programs that resolve names for others on their host; what they are waited for is a name.
const RESOLVERS: &[&str] =
    &["systemd-resolve", "dnsmasq", "unbound", "named", "nscd", "kresd", "coredns", "pdns_recursor"];
/// Where systemd's resolver listens on every host, and nothing else does.
const STUB_RESOLVER: [u8; 4] = [127, 0, 0, 53];
const UDP: u8 = 17;
/// No system call.
const NO_SYSCALL: u16 = 0xffff;
/// Slices of a path that are read together, at least.
const BATCH: usize = 4096;
/// And at most, where one wait has so many.
const BATCH_MAX: usize = 1 << 16;
/// The protocol's id.
const DNS: &str = "proto.dns";
/// Flows of name servers that are remembered: enough for a day of them, and little memory.
const DNS_FLOWS_MAX: usize = 1 << 20;

/// What time is summed by: the same in every recording of the same system.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct What {
    /// What it was spent on.
    pub cause: Cause,
    /// In which service or process: of a lock, who wanted it; of the network, who is called over it; of a name
    /// server, who asked it.
    pub service: String,
    /// On which host.
    pub host: String,
}

/// What is known besides; within one [`What`] it may differ from slice to slice.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Detail {
    /// What whoever was waited for did.
    pub state: State,
    /// The system call in which was waited.
    pub syscall: Option<u16>,
    /// Who held the lock or the processor, sent the message, or was waited for.
    pub by: Option<String>,
    /// The connection, device or name server.
    pub object: Option<String>,
    /// Of a lock or name server: whose time passed meanwhile, where that was another's.
    pub meanwhile: Option<String>,
    /// Of a lock: another thread of the same process holds it.
    pub is_own_thread: bool,
    /// Of processor time, a lock or a sleep: what the service had been asked for, where another service asked.
    pub serving: Option<String>,
    /// Why no more is known.
    pub reason: Option<&'static str>,
}

/// Reads slices of the paths of one folder.
pub struct Reader<'a> {
    index: &'a Index,
    names: &'a Names<'a>,
    name_servers: FxHashSet<(HostId, EndpointId)>,
}

/// A span of the request, as its slices need it.
struct Place {
    service: String,
    /// What was asked for, where it is a call.
    asked_for: Option<String>,
    /// The reply's class of error.
    error: String,
    process: String,
    /// Who served it, and when: from when its connection was begun, if it is the first call on it.
    task: Option<(HostId, TaskId)>,
    served: Range<CommonNs>,
    caller: Option<String>,
    host: HostId,
    depth: u16,
    /// The name server that was asked, and by whom.
    asked: Option<(String, String, HostId)>,
    /// What asked to wait until something happens, and who asked for that.
    awaits: Option<(String, String, HostId)>,
}

/// The wait of a path's own task in which slices lie.
struct Outer {
    state: State,
    /// Who ended it, where that is another task.
    by: Option<(HostId, TaskId)>,
    waiter: (HostId, TaskId),
    /// Its record; none of a logical task's, for which no thread waited.
    row: Option<WaitRow>,
    syscall: Option<u16>,
    /// The port or address of the name server that it waited for.
    name_server: Option<String>,
    /// It was for a futex that is asked for as CPython's interpreter lock is.
    is_for_an_interpreter: bool,
    /// A JVM had stopped it: for this.
    stopped_for: Option<Cause>,
}

impl<'a> Reader<'a> {
    /// For the paths of a folder. Reads which flows belong to name servers.
    pub fn new(folder: &Folder, index: &'a Index, names: &'a Names<'a>) -> Reader<'a> {
        let mut name_servers = FxHashSet::default();
        for host in folder.hosts() {
            for event in host.events(TableSet::of(&[Table::FlowNote]), ..) {
                let Event::FlowNote(r) = event else { continue };
                if host.text(r.protocol) == DNS && name_servers.len() < DNS_FLOWS_MAX {
                    name_servers.insert((host.id(), r.flow));
                }
            }
        }
        Reader { index, names, name_servers }
    }

    /// Names each slice of a path; `request` is whose critical path it is, `None` for a task's active path.
    pub fn read(&self, slices: &[Slice], request: Option<&Request>, put: &mut dyn FnMut(What, Detail, u64)) {
        let places = request.map_or_else(Vec::new, |r| self.places(r));
        let mut from = 0;
        while from < slices.len() {
            let first = &slices[from];
            let same = |s: &Slice| s.span == first.span && s.wait == first.wait;
            let to = match first.wait {
                Some(_) => from + slices[from..].iter().take_while(|s| same(s)).count(),
                None => from + 1,
            };
            let place = first.span.and_then(|i| places.get(i as usize));
            let outer = first.wait.map(|state| self.outer(slices, from..to, state, place.map_or(0, |p| p.depth)));
            for s in &slices[from..to] {
                let (what, detail) = Naming::new(self, s, outer.as_ref(), place, &places).name();
                put(what, detail, s.duration_ns());
            }
            from = to;
        }
    }

    /// Names each slice of a path of any length, which `each` gives in order of time.
    pub fn read_path(
        &self,
        request: Option<&Request>,
        each: impl FnOnce(&mut dyn FnMut(Slice)),
        put: &mut dyn FnMut(&Slice, What, Detail),
    ) {
        let mut slices = Vec::<Slice>::with_capacity(BATCH);
        let mut read = |slices: &mut Vec<Slice>| {
            let mut at = 0;
            self.read(slices, request, &mut |what, detail, _| {
                put(&slices[at], what, detail);
                at += 1;
            });
            slices.clear();
        };
        each(&mut |s| {
            // no wait is cut in two, but one of more slices than memory should hold
            let is_between = slices.last().is_some_and(|l| l.wait.is_none());
            if slices.len() >= BATCH_MAX || (slices.len() >= BATCH && is_between) {
                read(&mut slices);
            }
            slices.push(s);
        });
        read(&mut slices);
    }

    fn places(&self, r: &Request) -> Vec<Place> {
        let mut places: Vec<Place> = Vec::with_capacity(r.spans.len());
        let root = r.spans.first().and_then(|s| s.callee.as_ref()).map(|h| self.names.asked(h));
        for s in &r.spans {
            let half = s.callee.as_ref().or(s.caller.as_ref());
            let parent = s.parent.and_then(|p| places.get(p as usize));
            let caller = s.caller.as_ref().map(|c| match (&s.wire, parent) {
                (Some(w), Some(p)) if w.is_caller => p.service.clone(),
                (Some(w), None) if w.is_caller => "its client".to_owned(),
                _ => self.names.program(c.host, c.exchange.request.task).to_owned(),
            });
            let asked = match (self.asks_for_a_name(s), parent, &s.caller) {
                (true, Some(p), _) => Some((self.names.service(s), p.service.clone(), p.host)),
                (true, None, Some(c)) => Some((self.names.service(s), caller.clone().unwrap_or_default(), c.host)),
                // what a name server asks others is still the name server's answer
                _ => parent.and_then(|p| p.asked.clone()),
            };
            let service = self.names.service(s);
            let process = s.callee.as_ref().map(|h| self.names.program(h.host, h.exchange.request.task).to_owned());
            // what is handed on as it came says nothing new
            let asked_for =
                parent.and(s.callee.as_ref()).map(|h| self.names.asked(h)).filter(|a| root.as_ref() != Some(a));
            let event = half.filter(|h| h.exchange.awaits()).map(|h| {
                let what = format!("{} at {service}", self.names.asked(h));
                let who = parent.map_or_else(|| caller.clone().unwrap_or_default(), |p| p.service.clone());
                (what, who, s.caller.as_ref().map_or(h.host, |c| c.host))
            });
            places.push(Place {
                awaits: event,
                asked_for,
                error: half.map_or_else(String::new, |h| self.names.text(h.host, h.exchange.content.detail).to_owned()),
                process: process.unwrap_or_else(|| service.clone()),
                task: s.callee.as_ref().map(|h| (h.host, h.exchange.request.task)),
                served: self.served(s),
                service,
                caller,
                host: half.map_or(HostId(0), |h| h.host),
                depth: parent.map_or(0, |p| p.depth.saturating_add(1)),
                asked,
            });
        }
        places
    }

    /// When a span's service was at work for the request. What it says while a connection is set up is for the one that sets it up.
    fn served(&self, s: &Span) -> Range<CommonNs> {
        let Some(callee) = &s.callee else { return CommonNs(0)..CommonNs(0) };
        let at = |host, at| self.index.common(host, at);
        let began = at(callee.host, callee.exchange.request.began);
        let opened = s.caller.as_ref().and_then(|c| Some(at(c.host, c.exchange.client.opening.as_ref()?.connect().0)));
        opened.map_or(began, |opened| opened.min(began))..at(callee.host, callee.exchange.reply.ended)
    }

    fn asks_for_a_name(&self, s: &Span) -> bool {
        let half = s.caller.as_ref().or(s.callee.as_ref());
        half.is_some_and(|h| self.names.text(h.host, h.exchange.content.protocol) == DNS) && s.caller.is_some()
    }

    /// The wait of which `slices[run]` are the time.
    fn outer(&self, slices: &[Slice], run: Range<usize>, state: State, base: u16) -> Outer {
        let last = &slices[run.end - 1];
        // the waiter's own time goes on after it; where it was cut there, the wait's own slices say whose it is
        let is_inside = last.depth <= base && self.index.runtime(last.host, last.task) != RuntimeKind::None;
        let next = slices.get(run.end).filter(|n| n.span == last.span && n.wait.is_none() && !is_inside);
        let own = slices[run.clone()].iter().rfind(|s| s.depth <= base);
        let waiter = next.or(own).map_or((last.host, last.task), |s| (s.host, s.task));
        let by = if last.depth > base { Some((last.host, last.task)) } else { last.by };
        let row = self.wait_before(waiter, last.to);
        Outer {
            state,
            by: by.filter(|b| *b != waiter),
            waiter,
            row,
            syscall: row.map_or(last.syscall, |r| (r.syscall != NO_SYSCALL).then_some(r.syscall)),
            is_for_an_interpreter: row.is_some_and(|row| self.index.is_on_an_interpreter(waiter.0, &row)),
            stopped_for: by.and_then(|by| self.stopped_for(&slices[run.clone()], waiter, by)),
            name_server: self.name_server(&slices[run], waiter.0, row, by.filter(|b| *b != waiter)),
        }
    }

    /// For what a JVM had stopped a thread of its own, where one of its service threads let that go on.
    fn stopped_for(&self, run: &[Slice], waiter: (HostId, TaskId), by: (HostId, TaskId)) -> Option<Cause> {
        let process = |t: (HostId, TaskId)| (t.0, self.names.tgid(t.0, t.1));
        let is_collector = |t: (HostId, TaskId)| {
            let name = self.names.thread(t.0, t.1);
            process(t) == process(waiter) && COLLECTORS.iter().any(|c| name.starts_with(c))
        };
        let is_own = process(by) == process(waiter) && by != waiter;
        if is_own && is_collector(by) || is_own && run.iter().any(|s| is_collector((s.host, s.task))) && self.is_vm(by)
        {
            return Some(Cause::Gc);
        }
        (is_own && self.is_vm(by)).then_some(Cause::Safepoint)
    }

    fn is_vm(&self, task: (HostId, TaskId)) -> bool {
        self.names.thread(task.0, task.1) == VM_THREAD
    }

    /// The wait record of a task that ended at a moment, or around it.
    fn wait_before(&self, (host, task): (HostId, TaskId), at: CommonNs) -> Option<WaitRow> {
        let after = self.index.waits_from(host, task, self.index.timeline().local(host, at));
        self.index.wait(host, task, after.checked_sub(1)?)
    }

    /// The name server that a wait for the network was for, where it was one.
    fn name_server(
        &self,
        run: &[Slice],
        host: HostId,
        row: Option<WaitRow>,
        by: Option<(HostId, TaskId)>,
    ) -> Option<String> {
        let object = run.iter().rev().find_map(|s| s.object.as_deref().filter(|o| has_dns_port(o)));
        if let Some(address) = object {
            return Some(stable(address));
        }
        // a local resolver asks a name server, or knows what one said
        if let Some((_, by)) = by.map(|b| (b, self.names.process(b.0, b.1))).filter(|b| RESOLVERS.contains(&b.1)) {
            return Some(by.to_owned());
        }
        let row = row?;
        let is_dns = match row.cause {
            EndedBy::Socket => {
                let flow = EndpointId(row.object);
                let port = self.index.end(host, flow).map(|e| e.rport);
                port == Some(DNS_PORT) || self.name_servers.contains(&(host, flow))
            }
            EndedBy::Packet => self.index.packet(host, row.object).is_some_and(|p| {
                // older tracers tell no ports of datagrams
                let is_stub = p.protocol == UDP && p.sport == 0 && p.saddr[..4] == STUB_RESOLVER;
                p.sport == DNS_PORT || is_stub
            }),
            EndedBy::Net => {
                let next = self.index.operation_from(host, row.task, row.at);
                next.is_some_and(|o| self.name_servers.contains(&(host, o.flow)))
            }
            _ => false,
        };
        is_dns
            .then(|| run.iter().rev().find_map(|s| s.object.as_deref().map(stable)).unwrap_or_else(|| "port 53".into()))
    }

    /// What a slice was spent on, by itself. Where inputs were handed over one at a time, what would have been queued without
    /// that is not known, and polls that found nothing are its own.
    fn leaf(&self, s: &Slice) -> Cause {
        let cause = Cause::of(s);
        let may_be_isolation = cause == Cause::Queue || s.reason == Some(reasons::BUSY);
        if may_be_isolation && self.index.is_isolated(s.host) { Cause::Isolation } else { cause }
    }

    /// What had no room for what a task wanted to send.
    fn unread(&self, o: &Outer) -> Option<String> {
        let row = o.row?;
        let next = self.index.operation_from(o.waiter.0, row.task, row.at)?;
        if next.flow.is_pipe() {
            return Some("a pipe".into());
        }
        let end = self.index.end(o.waiter.0, next.flow)?;
        Some(if end.lport != 0 && end.rport != 0 { "a connection".to_owned() } else { "a UNIX socket".to_owned() })
    }

    /// The last wait of a task before `at` for the futex that another waited for; else its last wait. It may have slept for something else
    /// while it held that.
    fn queued_before(&self, (host, task): (HostId, TaskId), at: CommonNs, o: &Outer) -> Option<WaitRow> {
        const BACK_MAX: usize = 16;
        let futex = o.row.filter(is_futex);
        let after = self.index.waits_from(host, task, self.index.timeline().local(host, at));
        let mut back = (0..after).rev().take(BACK_MAX).map_while(|i| self.index.wait(host, task, i));
        let same = futex.and_then(|row| back.find(|w| is_futex(w) && w.arg0 == row.arg0));
        same.or_else(|| self.wait_before((host, task), at))
    }

    /// Who held what was waited for while a slice passed: who ended the wait may have been queued for it too, after another. For a futex,
    /// who held it for the most of the slice.
    fn holder(&self, o: &Outer, s: &Slice) -> Option<(HostId, TaskId)> {
        const QUEUED_MAX: usize = 64;
        let mut holder = o.by?;
        for _ in 0..QUEUED_MAX {
            let Some(w) = self.queued_before(holder, s.to, o) else { break };
            let (from, to) = (self.index.common(holder.0, w.blocked), self.index.common(holder.0, w.woken));
            let is_same = Some(w.syscall) == o.syscall && w.cause == EndedBy::Task;
            let is_same_futex = || is_futex(&w) && o.row.is_some_and(|row| row.arg0 == w.arg0);
            let queued_ns = to.min(s.to).0.saturating_sub(from.max(s.from).0);
            let is_queued = match () {
                () if is_file_lock(o.syscall) => from <= s.from && to >= s.to,
                () => is_same_futex() && 2 * queued_ns > s.to.0 - s.from.0,
            };
            if !is_same || !is_queued {
                break;
            }
            holder.1 = w.by;
        }
        Some(holder)
    }

    /// The file of the call that a wait was in.
    fn file_of(&self, o: &Outer) -> Option<String> {
        self.index.file_waited_for(o.waiter.0, o.row.as_ref()?).map(str::to_owned)
    }

    /// Which client the holder of a lock inside a server works for, and what that had asked last when the wait began.
    fn asked_of_holder(&self, o: &Outer, holder: Option<(HostId, TaskId)>) -> Option<String> {
        let (host, task) = holder?;
        let row = o.row.filter(|_| host == o.waiter.0 && !o.syscall.is_some_and(is_lock_call))?;
        let last = asked_last(self.index, host, task, row.woken)?;
        let end = self.index.end(host, last.flow)?;
        let at = |at| self.index.asked(host, last.flow, at);
        let [protocol, verb, target] = at(row.blocked).or_else(|| at(row.woken))?;
        let peer = HostId(end.peer_host);
        let until = self.index.common(host, row.woken);
        let sent = (end.how != 0).then(|| self.index.last_left(peer, end.peer, OpKind::Send, until)).flatten();
        let client = match sent.filter(|l| l.task != TaskId::UNKNOWN) {
            Some(left) => self.names.program(peer, left.task).to_owned(),
            None => without_port(&remote_of(&end)).to_owned(),
        };
        Some(format!("its client: {client}, its statement: {}", asked(protocol, verb, target)))
    }

    /// Whether a task waited for a lock that another held.
    fn is_lock(o: &Outer) -> bool {
        o.state == State::Lock || o.syscall.is_some_and(is_lock_call)
    }
}

/// fcntl, flock of x86-64.
fn is_file_lock(syscall: Option<u16>) -> bool {
    matches!(syscall, Some(72 | 73))
}

/// fsync, fdatasync, sync, sync_file_range, syncfs, msync of x86-64.
fn is_flush(syscall: Option<u16>) -> bool {
    matches!(syscall, Some(74 | 75 | 162 | 277 | 306 | 26))
}

/// The two ends of a packet as slices tell it: `A:1 > B:2` where addresses are known, else `packet 1 > 2`.
fn ends(object: &str) -> Option<[(&str, u16); 2]> {
    let (from, to) = object.strip_prefix("packet ").unwrap_or(object).split_once(" > ")?;
    let port = |end: &str| end.rsplit(':').next().and_then(|p| p.parse().ok());
    Some([(from, port(from)?), (to, port(to)?)])
}

/// Whether a slice's object is a name server: `ADDRESS:53`, or a packet from or to its port.
fn has_dns_port(object: &str) -> bool {
    match ends(object) {
        Some(ends) => ends.iter().any(|e| e.1 == DNS_PORT),
        None => port_of(object) == Some(DNS_PORT),
    }
}

/// An address without its port, which is another one each time.
fn without_port(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}

/// The port of `ADDRESS:PORT (…)`.
fn port_of(object: &str) -> Option<u16> {
    object.split(' ').next()?.rsplit(':').next()?.parse().ok()
}

/// A connection without the end that is another each time: of a packet's two ports the lower one's. 0 is not known.
fn stable(object: &str) -> String {
    let Some([a, b]) = ends(object) else { return object.to_owned() };
    let end = if b.1 == 0 || (1..=b.1).contains(&a.1) { a.0 } else { b.0 };
    if end.contains([':', '.']) { end.to_owned() } else { format!("port {end}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_servers_are_known_by_their_port() {
        for (object, is) in [
            ("127.0.0.1:53", true),
            ("[::1]:53", true),
            ("127.0.0.1:5353", false),
            ("packet 53 > 40000", true),
            ("packet 40000 > 53", true),
            ("packet 80 > 5353", false),
            ("10.0.0.1:40000 > 10.0.0.2:53", true),
            ("device 8:53", false),
            ("127.0.0.1:53 (SYN sent 2 times)", true),
        ] {
            assert_eq!(has_dns_port(object), is, "{object}");
        }
    }

    #[test]
    fn objects_do_not_tell_one_connection_from_the_next() {
        assert_eq!(stable("packet 80 > 40000"), "port 80");
        assert_eq!(stable("packet 40000 > 80"), "port 80");
        assert_eq!(stable("10.0.0.1:5432"), "10.0.0.1:5432");
        assert_eq!(stable("10.0.0.1:80 > 10.0.0.2:40964"), "10.0.0.1:80");
        assert_eq!(stable("127.0.0.53:53 > 127.0.0.1:0"), "127.0.0.53:53");
        assert_eq!(stable("127.0.0.1:0 > 127.0.0.53:53"), "127.0.0.53:53");
    }
}
