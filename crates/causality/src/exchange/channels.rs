//! Pipes and nameless pairs of sockets by which two processes talk: what one asks and the other answers, as on a connection.
//!
//! A *lane* carries bytes one way: a pipe, or one direction of a pair of sockets. A first pass learns who writes to each and who reads
//! from it. Two lanes between the same two processes, one each way, are a *channel* where what is written to one is followed by what
//! is read from the other: its two ends are then announced as those of a socket would be, and each operation on a lane becomes one
//! on its end. Who made the other process asks; else who spoke first. Messages are told by turns, or are read (`lanes.rs`).
//!
//! A lane with several writers or readers, which answers go back for, is not followed: whose words are whose does not show. Nor is a
//! channel of turns whose answering end serves clients of its own: such a worker asks its master as well, and turns do not tell who asks. What is
//! written to either, or to a pair whose other end is not recorded, may be a call ([`Moved::Unfollowed`]). Where nothing ever comes back
//! no task waits for an answer, and it is none.

use super::record::Side;
use super::said::{Lane, Said, Skew};
use super::{Engine, Steps};
use crate::process::ProcessId;
use rustc_hash::{FxHashMap, FxHashSet};
use wakepath_model::ids::{EndpointId, MonoNs, TaskId};
use wakepath_model::rows::{EndpointRow, OpKind, OpRow, TaskRow};

/// Ids of pipes have this bit, and so have ends of channels.
const PIPE_BIT: u64 = 1 << 63;
/// Lanes of sockets have this one besides, so that no inode is taken for a cookie.
const SOCKET_BIT: u64 = 1 << 62;
/// The end of a channel that asks, and the one that answers.
const ENDS: [u64; 2] = [1 << 60, 1 << 59];
/// Most lanes of which users are told apart.
const LANES_MAX: usize = 1 << 16;
/// What a turn counts where who asked reads the answer itself; else it counts 1.
const OWN_TURN: u32 = 4;
/// How far the makers of a process are looked for.
const MAKERS_MAX: usize = 16;
const AF_UNIX: u16 = 1;

/// Who uses one end of a lane.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Users {
    #[default]
    None,
    /// One process.
    One(ProcessId),
    Many,
}

impl Users {
    fn add(&mut self, process: ProcessId) {
        *self = match *self {
            Users::None => Users::One(process),
            Users::One(known) if known == process => return,
            _ => Users::Many,
        };
    }

    fn one(self) -> Option<ProcessId> {
        match self {
            Users::One(process) => Some(process),
            _ => None,
        }
    }
}

#[derive(Clone, Default)]
struct LaneUsers {
    writers: Users,
    readers: Users,
    /// Who wrote last what was not read yet.
    unread: Option<TaskId>,
    skew: Skew,
}

/// What was written last from one process to another, and is not answered.
#[derive(Clone, Copy)]
struct Asked {
    lane: Lane,
    by: TaskId,
}

/// Which end of which channel a lane's writer, and its reader, are: the ends' ids.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) writer: EndpointId,
    pub(super) reader: EndpointId,
}

/// What an operation on a lane is.
pub(super) enum Moved {
    /// One on this end of a channel, by this lane.
    On(EndpointId, Lane),
    /// What may be a call that is not followed, or its taking.
    Unfollowed,
    /// Nothing that is known.
    No,
}

/// Channels of a host.
#[derive(Clone, Default)]
pub struct Channels {
    lanes: FxHashMap<Lane, LaneUsers>,
    /// By writing and reading process.
    asked: FxHashMap<(ProcessId, ProcessId), Asked>,
    /// How well a lane and the one that answers go together, and who spoke first.
    turns: FxHashMap<(Lane, Lane), u32>,
    first: FxHashMap<(ProcessId, ProcessId), ProcessId>,
    makers: FxHashMap<ProcessId, ProcessId>,
    /// Of a pair of sockets, the other one.
    peers: FxHashMap<EndpointId, EndpointId>,
    /// What a first pass found.
    parts: FxHashMap<Lane, Part>,
    pub(super) said: Said,
    unfollowed: FxHashSet<Lane>,
    is_learned: bool,
}

impl Channels {
    /// None, and none are looked for.
    pub fn none() -> Channels {
        Channels { is_learned: true, ..Channels::default() }
    }

    /// A process begins.
    pub(super) fn task(&mut self, r: &TaskRow, process_of: impl Fn(TaskId) -> ProcessId) {
        if r.tid == r.tgid && r.parent != TaskId::UNKNOWN && !self.is_learned {
            self.makers.insert(process_of(r.task), process_of(r.parent));
        }
    }

    /// An end was announced: a pair of sockets names each other.
    pub(super) fn endpoint(&mut self, r: &EndpointRow) {
        if r.family == AF_UNIX && r.rport == 0 && r.peer.0 != 0 {
            self.peers.insert(r.flow, r.peer);
            self.peers.insert(r.peer, r.flow);
        }
    }

    /// The lane of an operation, if it is on one.
    fn lane(&self, r: &OpRow) -> Option<Lane> {
        if r.flow.0 & PIPE_BIT != 0 {
            return Some(r.flow.0);
        }
        let peer = *self.peers.get(&r.flow)?;
        let receiver = if r.kind == OpKind::Send { peer } else { r.flow };
        Some(receiver.0 | PIPE_BIT | SOCKET_BIT)
    }

    /// The lane of what an end sends, if it is one.
    pub(super) fn sent_by(&self, flow: EndpointId) -> Option<Lane> {
        match flow.0 & PIPE_BIT {
            0 => self.peers.get(&flow).map(|peer| peer.0 | PIPE_BIT | SOCKET_BIT),
            _ => Channels::may_be_lane(flow).then_some(flow.0),
        }
    }

    /// Which ends a lane leads to and from.
    pub(super) fn part(&self, lane: Lane) -> Option<Part> {
        self.parts.get(&lane).copied()
    }

    /// Whether the operation may be on a lane at all.
    pub(super) fn may_be_lane(flow: EndpointId) -> bool {
        flow.0 & PIPE_BIT != 0 && flow.0 & (ENDS[0] | ENDS[1]) == 0
    }

    /// Whether an end is one of a channel's.
    pub(crate) fn is_end(end: EndpointId) -> bool {
        end.0 & PIPE_BIT != 0 && !Channels::may_be_lane(end)
    }

    /// Whether an end of a channel is the one that asks.
    pub(super) fn asks_on(end: EndpointId) -> bool {
        end.0 & ENDS[0] != 0
    }

    /// Bytes were moved on a lane.
    pub(super) fn moved(&mut self, r: &OpRow, process: ProcessId) -> Moved {
        let Some(lane) = self.lane(r) else { return Moved::No };
        let sent = r.kind == OpKind::Send;
        if !self.is_learned {
            self.learn(lane, sent, r.task, process);
            if let Some(users) = self.lanes.get_mut(&lane) {
                users.skew.moved(r, sent);
            }
        }
        match self.parts.get(&lane) {
            Some(part) => Moved::On(if sent { part.writer } else { part.reader }, lane),
            None if self.unfollowed.contains(&lane) => Moved::Unfollowed,
            None => Moved::No,
        }
    }

    fn learn(&mut self, lane: Lane, sent: bool, task: TaskId, process: ProcessId) {
        if self.lanes.len() >= LANES_MAX && !self.lanes.contains_key(&lane) {
            return;
        }
        let users = self.lanes.entry(lane).or_default();
        if sent {
            users.writers.add(process);
            users.unread = Some(task);
            return;
        }
        users.readers.add(process);
        let (Some(writer), Some(reader)) = (users.writers.one(), users.readers.one()) else { return };
        let Some(by) = users.unread.take().filter(|_| writer != reader) else { return };
        self.first.entry((writer.min(reader), writer.max(reader))).or_insert(writer);
        self.asked.insert((writer, reader), Asked { lane, by });
        // it answers what its reader wrote before
        if let Some(asked) = self.asked.remove(&(reader, writer)) {
            let weight = if asked.by == task { OWN_TURN } else { 1 };
            *self.turns.entry((asked.lane, lane)).or_default() += weight;
            self.form(asked.lane, lane, reader, writer);
        }
    }

    /// Whether this process asks the other one, rather than the other way round.
    fn asks(&self, process: ProcessId, other: ProcessId) -> bool {
        let is_made_by = |mut made: ProcessId, maker: ProcessId| {
            (0..MAKERS_MAX).any(|_| match self.makers.get(&made) {
                Some(&by) if by != made => {
                    made = by;
                    by == maker
                }
                _ => false,
            })
        };
        match (is_made_by(other, process), is_made_by(process, other)) {
            (true, false) => true,
            (false, true) => false,
            _ => self.first.get(&(process.min(other), process.max(other))) == Some(&process),
        }
    }

    /// Two lanes go together: a channel from here on, as far as is known.
    fn form(&mut self, ask: Lane, answer: Lane, asker: ProcessId, answerer: ProcessId) {
        if !self.asks(asker, answerer) || self.parts.contains_key(&ask) || self.parts.contains_key(&answer) {
            return;
        }
        self.join(ask, answer);
    }

    fn join(&mut self, ask: Lane, answer: Lane) {
        let [client, server] = ENDS.map(|end| EndpointId(ask | end));
        self.parts.insert(ask, Part { writer: client, reader: server });
        self.parts.insert(answer, Part { writer: server, reader: client });
    }

    /// The first pass is over: which lanes go together, by all that was seen. `serves`: whether a process takes requests on connections.
    pub fn learned(mut self, serves: impl Fn(ProcessId) -> bool) -> Channels {
        self.parts.clear();
        let mut best: Vec<((Lane, Lane), u32)> = self.turns.iter().map(|(&lanes, &n)| (lanes, n)).collect();
        best.sort_by_key(|&(lanes, n)| (std::cmp::Reverse(n), lanes));
        for ((ask, answer), _) in best {
            let users = |lane: Lane| self.lanes.get(&lane).and_then(|l| l.writers.one().zip(l.readers.one()));
            let (Some((asker, answerer)), Some(_)) = (users(ask), users(answer)) else { continue };
            // messages themselves say which of them ask
            if serves(answerer) && self.asks(asker, answerer) && !self.said.is_read(ask) {
                self.unfollowed.extend([ask, answer]);
            } else {
                self.form(ask, answer, asker, answerer);
            }
        }
        self.find_unfollowed();
        Channels {
            peers: self.peers,
            said: self.said.learned(self.lanes.iter().map(|(&lane, users)| (lane, users.skew))),
            parts: self.parts,
            unfollowed: self.unfollowed,
            is_learned: true,
            ..Channels::default()
        }
    }

    /// Lanes of several writers or readers, which something comes back for on another such lane, or to whom nobody recorded.
    fn find_unfollowed(&mut self) {
        let mut lanes: Vec<(&Lane, &LaneUsers)> = self.lanes.iter().collect();
        lanes.sort_by_key(|(lane, _)| **lane);
        let is_shared = |l: &LaneUsers| l.writers == Users::Many || l.readers == Users::Many;
        for (lane, l) in &lanes {
            let (Users::One(asker), true) = (l.writers, is_shared(l)) else { continue };
            let answers = |back: &LaneUsers| back.readers == Users::One(asker) && back.writers == Users::Many;
            if lanes.iter().any(|(_, back)| answers(back)) {
                self.unfollowed.insert(**lane);
            }
        }
        // a pair of sockets whose other end nobody recorded: what is written may be a call, and what is read the answer
        for (&flow, &peer) in &self.peers {
            let [to, from] = [peer, flow].map(|end| self.lanes.get(&(end.0 | PIPE_BIT | SOCKET_BIT)));
            let (Some(to), Some(from)) = (to, from) else { continue };
            let is_one = to.writers.one().is_some() && to.writers == from.readers;
            if is_one && to.readers == Users::None && from.writers == Users::None {
                self.unfollowed.insert(peer.0 | PIPE_BIT | SOCKET_BIT);
            }
        }
    }

    /// The ends of all channels, as the kernel would announce those of a socket.
    pub fn announcements(&self) -> Vec<EndpointRow> {
        let mut clients: Vec<Part> = self.parts.values().copied().filter(|p| p.writer.0 & ENDS[0] != 0).collect();
        clients.sort_by_key(|p| p.writer);
        let row = |flow, peer, side| EndpointRow {
            at: MonoNs(0),
            flow,
            peer,
            family: AF_UNIX,
            side,
            ..EndpointRow::default()
        };
        let ends = |p: Part| {
            use wakepath_model::rows::Side::{Client, Server};
            [row(p.writer, p.reader, Client), row(p.reader, p.writer, Server)]
        };
        clients.into_iter().flat_map(ends).collect()
    }
}

impl<S: Steps> Engine<S> {
    /// Bytes were moved on a pipe, or on a socket that names no service.
    pub(super) fn moved_on_lane(&mut self, r: &OpRow) {
        let process = self.steps.process_of(r.task);
        match self.channels.moved(r, process) {
            Moved::On(flow, lane) => {
                self.end_of_channel(flow, lane, r.at);
                let r = self.channels.said.moves(lane, OpRow { flow, ..*r });
                self.moved(&r);
                self.read_on_lane(lane, &r);
            }
            Moved::Unfollowed if r.kind == OpKind::Send => self.steps.unfollowed(&self.xs, r.actor(), r.at),
            Moved::Unfollowed => self.steps.unclear(&self.xs, Side::Server, r.actor(), r.at),
            Moved::No => {
                if let Some(lane) = self.channels.lane(r) {
                    self.steps.moved_within(lane, r);
                }
                if r.kind == OpKind::Recv {
                    self.steps.reads_within(r.actor(), r.at);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MASTER: TaskId = TaskId(1);
    const WORKER: TaskId = TaskId(2);
    /// The worker's end of a pair of sockets, and the master's.
    const PAIR: [EndpointId; 2] = [EndpointId(20), EndpointId(10)];

    /// What is learned where the worker writes and the master answers, as far as `recorded` tasks' operations are seen; then what the
    /// worker's next writing is, and its reading. `serves`: it takes requests on connections.
    fn learned(recorded: &[TaskId], serves: bool) -> [Moved; 2] {
        let process = ProcessId::led_by;
        let mut channels = Channels::default();
        let [flow, peer] = PAIR;
        channels.endpoint(&EndpointRow { flow, peer, family: AF_UNIX, ..EndpointRow::default() });
        channels.makers.insert(process(WORKER), process(MASTER));
        let op = |flow, kind, task| OpRow { flow, kind, task, ..OpRow::default() };
        let [own, masters] = PAIR;
        for _ in 0..4 {
            let turn = [
                op(own, OpKind::Send, WORKER),
                op(masters, OpKind::Recv, MASTER),
                op(masters, OpKind::Send, MASTER),
                op(own, OpKind::Recv, WORKER),
            ];
            for r in turn.iter().filter(|r| recorded.contains(&r.task)) {
                channels.moved(r, process(r.task));
            }
        }
        let mut channels = channels.learned(|p| serves && p == process(WORKER));
        [OpKind::Send, OpKind::Recv].map(|kind| channels.moved(&op(own, kind, WORKER), process(WORKER)))
    }

    #[test]
    fn what_a_worker_asks_its_master_is_not_followed() {
        assert!(matches!(learned(&[MASTER, WORKER], true), [Moved::Unfollowed, Moved::Unfollowed]));
        assert!(matches!(learned(&[MASTER, WORKER], false), [Moved::On(..), Moved::On(..)]));
    }

    #[test]
    fn what_is_written_to_a_pair_whose_other_end_is_not_recorded_may_be_a_call() {
        for serves in [false, true] {
            assert!(matches!(learned(&[WORKER], serves), [Moved::Unfollowed, Moved::No]));
        }
        assert!(matches!(learned(&[], true), [Moved::No, Moved::No]));
    }
}
