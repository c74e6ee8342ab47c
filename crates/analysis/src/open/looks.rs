//! What the last look at all descriptors of a host found: which socket or pipe each was, and who had the last word there.

use super::{At, End, HELD_MAX};
use crate::names::Names;
use rustc_hash::{FxHashMap, FxHashSet};
use wakepath_flows::Place;
use wakepath_graph::Index;
use wakepath_model::folder::{Folder, TableSet};
use wakepath_model::ids::{EndpointId, HostId, MonoNs, TaskId};
use wakepath_model::rows::{DescriptorRow, Event, LastWord, Side, Table, TcpState, descriptor};

const AF_UNIX: u16 = 1;

/// Protocols in which a client may send last and wait for nothing: it grants room, acknowledges, or asks for no answer.
const CLIENT_MAY_SEND_LAST: [&str; 5] = ["proto.http2", "proto.websocket", "proto.amqp", "proto.nats", "proto.x11"];

/// An endpoint of a descriptor.
#[derive(Clone, Copy, Debug)]
struct Known {
    place: Place,
    side: Side,
}

/// The descriptors of all hosts at the last look, as far as operations of their processes are recorded.
#[derive(Default)]
pub(super) struct Looks {
    /// By host, process and number.
    rows: FxHashMap<(HostId, u32, u64), DescriptorRow>,
    /// Endpoints that some process had open then, watched or not, with the task that leads it; `None` where several had one.
    held: FxHashMap<End, Option<TaskId>>,
    ends: FxHashMap<End, Known>,
    /// Hosts that were looked at.
    hosts: FxHashSet<HostId>,
    /// Ports of services that spoke one of [`CLIENT_MAY_SEND_LAST`] during the recording.
    free: FxHashSet<(HostId, u16)>,
    /// Ends of TCP connections that were open at the first look, those included whose other end had closed its side.
    first: FxHashSet<End>,
}

/// What sockets show of the connections that were open before the recording.
#[derive(Debug, Default)]
pub(super) struct Silent {
    /// How many were open.
    pub open: u64,
    /// Those on which an answer has been due since, oldest first.
    pub due: Vec<Before>,
    /// Those that were silent since, and whose sockets do not show who spoke last.
    pub unknown: u64,
    /// Those that were silent since, and on which the end that serves had spoken last: longest first.
    pub answered: Vec<Answered>,
}

/// A connection that was open before the recording, on which nothing has moved since: what was asked there had an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The task that leads the process that serves it.
    pub leader: At,
    /// The port that this listens at.
    pub port: u16,
    /// When it sent last, on its host's clock, to some milliseconds.
    pub since: MonoNs,
    /// For how long nothing has moved (ns).
    pub age_ns: u64,
    /// The client's address.
    pub address: String,
    /// The task that leads the client's process, where one alone had its end.
    pub client: Option<At>,
}

/// A connection that was open before the recording, on which one end spoke last before the recording began, and waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Before {
    /// The end that is watched.
    pub end: End,
    /// The task that leads its process.
    pub leader: At,
    /// The process's only task.
    pub task: Option<At>,
    /// When data was sent last, on its host's clock, to some milliseconds.
    pub since: MonoNs,
    /// For how long (ns).
    pub age_ns: u64,
    /// The other end spoke last: this one owes the answer. Else this end asked.
    pub is_asked: bool,
    /// This end serves: the port that it listens at.
    pub port: u16,
    /// The other end's address.
    pub address: String,
    /// The task that leads the process which alone had the other end, watched or not.
    pub other: Option<At>,
    /// Bytes that came and that nobody has read.
    pub unread: u32,
    /// The other end has closed its side since.
    pub is_given_up: bool,
}

impl Looks {
    pub(super) fn read(folder: &Folder, names: &Names<'_>) -> Looks {
        let mut looks = Looks::default();
        for host in folder.hosts() {
            let id = host.id();
            let (mut look, mut first): (Option<u16>, Option<u16>) = (None, None);
            // sockets as they were before a pause say nothing of now
            for event in host.events(TableSet::of(&[Table::Descriptor]), super::recorded_since(folder, id)..) {
                let Event::Descriptor(r) = event else { continue };
                if look != Some(r.look) {
                    looks.rows.retain(|key, _| key.0 != id);
                    looks.held.retain(|end, _| end.0 != id);
                    look = Some(r.look);
                }
                first.get_or_insert(r.look);
                if looks.rows.len() >= HELD_MAX || looks.held.len() >= HELD_MAX {
                    continue;
                }
                let holder = looks.held.entry((id, r.flow)).or_insert(Some(r.task));
                *holder = holder.filter(|task| *task == r.task);
                if r.marks & descriptor::WATCHED != 0 {
                    if look == first && is_open(&r) && r.received.0 != 0 {
                        looks.first.insert((id, r.flow));
                    }
                    looks.rows.insert((id, names.tgid(id, r.task), r.fd.into()), r);
                }
            }
            if look.is_some() {
                looks.hosts.insert(id);
            }
        }
        looks.name_ends(folder);
        looks
    }

    /// Where the endpoints are, and which side each is; and which services speak so that who sent last says nothing.
    fn name_ends(&mut self, folder: &Folder) {
        let wanted: FxHashSet<End> = self.rows.iter().map(|(key, r)| (key.0, r.flow)).collect();
        for host in folder.hosts().iter().filter(|h| self.hosts.contains(&h.id())) {
            let mut free: FxHashSet<EndpointId> = FxHashSet::default();
            for event in host.events(TableSet::of(&[Table::FlowNote]), ..) {
                let Event::FlowNote(r) = event else { continue };
                if free.len() < HELD_MAX && CLIENT_MAY_SEND_LAST.contains(&host.text(r.protocol)) {
                    free.insert(r.flow);
                }
            }
            for event in host.events(TableSet::of(&[Table::Endpoint]), ..) {
                let Event::Endpoint(r) = event else { continue };
                let end = (host.id(), r.flow);
                if free.contains(&r.flow) {
                    self.free.insert((end.0, service_port(r.side, &Place::of(&r))));
                }
                if wanted.contains(&end) {
                    self.ends.insert(end, Known { place: Place::of(&r), side: r.side });
                }
            }
        }
    }

    /// What a descriptor of a process was.
    pub(super) fn at(&self, host: HostId, tgid: u32, fd: u64) -> Option<&DescriptorRow> {
        self.rows.get(&(host, tgid, fd))
    }

    pub(super) fn side(&self, end: End) -> Side {
        self.ends.get(&end).map_or(Side::Unknown, |k| k.side)
    }

    /// Where an endpoint of a descriptor is.
    pub(super) fn place(&self, end: End) -> Option<&Place> {
        self.ends.get(&end).map(|k| &k.place)
    }

    /// Whether no process had this endpoint open at the last look; `None` where nobody looked.
    pub(super) fn is_unheld(&self, end: End) -> Option<bool> {
        self.hosts.contains(&end.0).then(|| !self.held.contains_key(&end))
    }

    /// The task that leads the process which alone had an endpoint open at the last look.
    fn holder(&self, end: End) -> Option<At> {
        let task = (*self.held.get(&end)?)?;
        (task != TaskId::UNKNOWN).then_some((end.0, task))
    }

    pub(super) fn is_unix(&self, end: End) -> bool {
        self.place(end).is_some_and(|p| p.family == AF_UNIX)
    }

    /// The listeners, each with the task that leads a process that has it.
    pub(super) fn listeners(&self) -> impl Iterator<Item = (End, TaskId)> + '_ {
        self.rows.iter().filter(|(_, r)| r.state == TcpState::Listen).map(|(key, r)| ((key.0, r.flow), r.task))
    }

    /// The connections of a process on which it asked before `began`, and has no answer.
    pub(super) fn asking(&self, host: HostId, tgid: u32, began: MonoNs) -> impl Iterator<Item = End> + '_ {
        let asks = move |r: &DescriptorRow| r.asks_since().is_some_and(|t| t < began);
        let of = self.rows.iter().filter(move |(key, r)| (key.0, key.1) == (host, tgid) && asks(r));
        of.map(|(key, r)| (key.0, r.flow)).filter(|end| self.side(*end) == Side::Client)
    }

    /// The connections that a process was asking for, with their descriptors.
    pub(super) fn connecting(&self, host: HostId, tgid: u32) -> impl Iterator<Item = (u64, End)> + '_ {
        let of =
            self.rows.iter().filter(move |(key, r)| (key.0, key.1) == (host, tgid) && r.state == TcpState::SynSent);
        of.map(|(key, r)| (key.2, (key.0, r.flow)))
    }

    /// The connections that were open before the recording, and on which ends nothing moved since. Of a connection of which
    /// both ends are watched, the end that owes the answer.
    pub(super) fn silent(
        &self,
        index: &Index,
        span: impl Fn(HostId) -> (MonoNs, MonoNs),
        only_task: impl Fn(HostId, u32) -> Option<TaskId>,
    ) -> Silent {
        let mut out = Silent { open: self.connections(index), ..Silent::default() };
        let mut due: FxHashSet<End> = FxHashSet::default();
        let mut answered: FxHashSet<End> = FxHashSet::default();
        let mut undecided: Vec<End> = Vec::new();
        let mut rows: Vec<_> = self.rows.iter().collect();
        // who owes an answer first, and always in the same order
        rows.sort_unstable_by_key(|(key, r)| (r.asked_since().is_none(), **key));
        for (&(host, tgid, _), r) in rows {
            let end = (host, r.flow);
            let (began, ended) = span(host);
            if !is_open(r) || r.received.max(r.sent) >= began {
                continue;
            }
            let known = self.ends.get(&end);
            let is_free = known.is_some_and(|k| self.free.contains(&(host, service_port(k.side, &k.place))));
            let (known, since, is_asked) = match (known.map(|k| (k, k.side)), r.last_word()) {
                (Some((_, Side::Server)), LastWord::Peer(_)) | (Some((_, Side::Client)), LastWord::Own(_))
                    if is_free =>
                {
                    undecided.push(end);
                    continue;
                }
                (Some((k, Side::Server)), LastWord::Peer(since)) => (k, since, true),
                (Some((k, Side::Client)), LastWord::Own(since)) => (k, since, false),
                (None | Some((_, Side::Unknown)), LastWord::Peer(_) | LastWord::Own(_)) | (_, LastWord::NotKnown) => {
                    undecided.push(end);
                    continue;
                }
                (Some((k, Side::Server)), LastWord::Own(since)) => {
                    if answered.insert(end) {
                        out.answered.push(self.answered(index, end, k, (r.task, since, ended)));
                    }
                    continue;
                }
                _ => {
                    answered.insert(end);
                    continue;
                }
            };
            let other = super::peers::peer(index, end);
            if other.is_some_and(|o| due.contains(&o)) || !due.insert(end) {
                continue;
            }
            out.due.push(Before {
                end,
                leader: (host, r.task),
                task: only_task(host, tgid).map(|t| (host, t)),
                since,
                age_ns: ended.0.saturating_sub(since.0),
                is_asked,
                port: if is_asked { known.place.lport } else { 0 },
                address: crate::names::remote(&known.place),
                other: other.and_then(|o| self.holder(o)),
                unread: r.unread,
                is_given_up: r.state == TcpState::CloseWait,
            });
        }
        // one end that decides is enough
        let is_decided = |end: &End| due.contains(end) || answered.contains(end);
        undecided.retain(|end| {
            let other = super::peers::peer(index, *end);
            self.first.contains(end) && !is_decided(end) && !other.is_some_and(|o| is_decided(&o))
        });
        out.unknown = each_once(index, undecided.into_iter().collect());
        out.due.sort_by(|a, b| b.age_ns.cmp(&a.age_ns).then(a.end.cmp(&b.end)));
        out.answered.sort_by(|a, b| b.age_ns.cmp(&a.age_ns).then(a.leader.cmp(&b.leader)));
        out
    }

    /// A connection that `leader`'s process serves, and on which it had the last word, `since` when.
    fn answered(&self, index: &Index, end: End, known: &Known, at: (TaskId, MonoNs, MonoNs)) -> Answered {
        let (leader, since, ended) = at;
        Answered {
            leader: (end.0, leader),
            port: known.place.lport,
            since,
            age_ns: ended.0.saturating_sub(since.0),
            address: crate::names::remote(&known.place),
            client: super::peers::peer(index, end).and_then(|o| self.holder(o)),
        }
    }

    /// How many connections were open at the first look, each counted once.
    fn connections(&self, index: &Index) -> u64 {
        each_once(index, self.first.clone())
    }
}

/// The port of the service at a connection's end.
fn service_port(side: Side, place: &Place) -> u16 {
    if side == Side::Client { place.rport } else { place.lport }
}

/// A connection on which this end can still answer.
fn is_open(r: &DescriptorRow) -> bool {
    matches!(r.state, TcpState::Established | TcpState::CloseWait)
}

/// How many connections these ends are of.
fn each_once(index: &Index, ends: FxHashSet<End>) -> u64 {
    let is_second = |end: &End| super::peers::peer(index, *end).is_some_and(|p| p < *end && ends.contains(&p));
    ends.iter().filter(|end| !is_second(end)).count() as u64
}
