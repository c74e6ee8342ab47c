//! Ends of flows: what is kept of each while it is there, and when it can be forgotten.

use super::direction::{Direction, Span};
use super::opening::Opening;
use super::record::Side;
use crate::flags::{Flags, flags};
use crate::process::ProcessId;
use crate::slab::ExId;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::collections::VecDeque;
use wakepath_flows::per_end::{End, PerEnd};
use wakepath_model::ids::{EndpointId, HostId, MonoNs, TaskId};
use wakepath_model::rows::{EndpointRow, MessageRole, MessageRow, OPEN, OpKind, OpRow, held};

/// How long an end whose descriptor was closed is kept: another process may have the socket too. This and the next bound memory, not
/// what is linked.
const FORGET_NS: u64 = 20_000_000_000;
/// How long one peer of an unconnected datagram socket may be silent: no row tells of its end.
const SILENT_NS: u64 = 60_000_000_000;
/// So many ends are always kept.
const KEPT: usize = 1000;
/// How many ends are kept that went last.
const GONE_KEPT: usize = 256;
/// Ids of such peers have this bit.
const PEER_BIT: u64 = 1 << 61;
/// Ids from here on are of pipes and the like.
pub(super) const NO_SOCKET: u64 = 1 << 62;

/// Whether a flow is one peer of an unconnected datagram socket.
pub(crate) fn is_peer(flow: EndpointId) -> bool {
    flow.0 < NO_SOCKET && flow.0 & PEER_BIT != 0
}

flags! {
    /// What is so of a flow.
    pub(super) enum FlowFlag {
        /// Its exchanges are made by messages; else by direction.
        ByMessages,
        /// Its messages overlap, and bytes of none lie between them.
        Interleaves,
        /// It is older than the recording.
        Older,
        /// A request was seen on it.
        Requested,
        /// Replies passed since the last request whose operations were not recorded.
        MissedReply,
        /// Messages were missed: what is whose is not known until the flow ends.
        UnclearBorders,
        /// Several requests use it at once, and its protocol is not known: which reply is whose is not known.
        Shared,
        /// Turns alone pair its messages, and its server also says something unasked: what answers what is not known.
        Unpaired,
        /// It was over before what is told of it now.
        Over,
    }
}

/// What is known of a flow as seen from one end.
#[derive(Default)]
pub(super) struct FlowTraits {
    pub(super) flags: Flags<FlowFlag>,
    /// Of those, since when the next border between requests is not known.
    pub(super) unframed: Option<MonoNs>,
    /// When its server last sent something.
    pub(super) told: MonoNs,
    /// Whether the last operation seen moved request bytes.
    pub(super) last_was_request: Option<bool>,
    /// It was called for, and nothing was asked on it yet.
    pub(super) opening: Option<Box<Opening>>,
    /// The last exchange of whose reply no more than the head was read at once.
    pub(super) replied: Option<Replied>,
    /// Witnesses of requests that were taken back: what still comes of their replies answers nobody.
    pub(super) withdrawn: Vec<u64>,
}

/// An exchange whose reply began.
#[derive(Clone, Copy)]
pub(super) struct Replied {
    pub(super) of: ExId,
    /// The reply's first byte.
    pub(super) start: u64,
    /// Its status.
    pub(super) status: u16,
    /// Whose exchange it is.
    pub(super) process: ProcessId,
}

/// Where the other end is.
#[derive(Default)]
pub(super) struct OtherEnd {
    /// Of a pair of UNIX sockets, or where an address talks to itself.
    pub(super) flow: EndpointId,
    /// The ports, where an address talks to itself.
    ports: Option<Box<Ports>>,
    /// When it closed or reset the connection; 0: it did not.
    pub(super) left: MonoNs,
}

/// What a flow moved before it was known which end it is.
#[derive(Clone, Copy)]
pub(super) struct Early {
    /// The last operation sent.
    pub(super) sent: bool,
    pub(super) last: Span,
    /// It went both ways.
    pub(super) is_answered: bool,
}

/// Bytes of the reply for which the client has no room.
#[derive(Default)]
pub(super) struct Unread {
    since: Option<MonoNs>,
    /// For how long there were any in all, in this reply (ns).
    pub(super) total_ns: u64,
}

flags! {
    /// What is so of the use of an end.
    enum UsageFlag {
        /// That closed the descriptor.
        Closed,
        /// It was announced: its addresses and side are as known as they will be.
        Announced,
        /// Two ports: of a connection by TCP, or of datagrams.
        Ports,
    }
}

/// Who used an end last, and when.
#[derive(Default)]
struct Usage {
    flags: Flags<UsageFlag>,
    at: MonoNs,
    by: TaskId,
    /// Since when it stands in [`Ends::looked_at`].
    looked_at: MonoNs,
}

/// One end. What each operation asks for stands together, what only some do behind: of many ends, few are in a cache.
#[derive(Default)]
#[repr(C, align(64))]
pub(super) struct Ep {
    pub(super) side: Option<Side>,
    pub(super) traits: FlowTraits,
    usage: Usage,
    pub(super) open: SmallVec<[ExId; 2]>,
    pub(super) requests: Direction,
    /// Who moved request bytes last, and when.
    pub(super) requested: (TaskId, MonoNs),
    pub(super) replies: Direction,
    pub(super) unread: Unread,
    pub(super) last_begun: Option<ExId>,
    /// What was moved before its side was known.
    pub(super) early: Option<Box<Early>>,
    pub(super) other: OtherEnd,
    /// It was shut or closed at this end.
    pub(super) is_shut: bool,
}

impl Ep {
    /// Whether something is so of its flow.
    pub(super) fn is(&self, flag: FlowFlag) -> bool {
        self.traits.flags.has(flag)
    }

    fn paused(&mut self) {
        const STAYS: [FlowFlag; 4] =
            [FlowFlag::ByMessages, FlowFlag::Interleaves, FlowFlag::Shared, FlowFlag::Unpaired];
        let mut flags = Flags::of(&[FlowFlag::Older]);
        STAYS.into_iter().for_each(|flag| flags.add_if(flag, self.traits.flags.has(flag)));
        let other = OtherEnd { left: MonoNs(0), ..std::mem::take(&mut self.other) };
        let traits = FlowTraits { flags, ..FlowTraits::default() };
        *self = Ep { side: self.side, traits, usage: std::mem::take(&mut self.usage), other, ..Ep::default() };
    }

    pub(super) fn used(&mut self, r: &OpRow) {
        (self.usage.at, self.usage.by) = (r.at, r.task);
        self.usage.flags.set(UsageFlag::Closed, r.kind == OpKind::Close);
    }

    pub(super) fn announced(&mut self, by: TaskId, has_ports: bool) {
        self.usage.flags.add(UsageFlag::Announced);
        self.usage.flags.set(UsageFlag::Ports, has_ports);
        if self.usage.by == TaskId::UNKNOWN {
            self.usage.by = by;
        }
    }

    pub(super) fn user(&self) -> TaskId {
        self.usage.by
    }

    /// Who closed its descriptor.
    pub(super) fn closed_by(&self) -> Option<TaskId> {
        self.usage.flags.has(UsageFlag::Closed).then_some(self.usage.by)
    }

    pub(super) fn is_announced(&self) -> bool {
        self.usage.flags.has(UsageFlag::Announced)
    }

    pub(super) fn has_ports(&self) -> bool {
        self.usage.flags.has(UsageFlag::Ports)
    }

    /// An operation that moved bytes; `goes_on`: with those of the one before it, if that was the same task's.
    pub(super) fn push_span(&mut self, r: &OpRow, is_request: bool, goes_on: bool) {
        let is_explained = self.is(FlowFlag::ByMessages) && !self.is(FlowFlag::Interleaves);
        let direction = if is_request { &mut self.requests } else { &mut self.replies };
        if is_explained {
            // so that one stays, for which there is room without asking for memory
            direction.forget_explained();
        }
        direction.push(r, goes_on);
    }

    /// Whether a message asks (or answers), and so which side this is; `None` where it does neither, but explains its bytes.
    pub(super) fn direction_of(&mut self, r: &MessageRow) -> Option<bool> {
        let sender = |sent: Side, received: Side| if r.sent == 1 { sent } else { received };
        match r.role {
            MessageRole::Request => {
                self.side.get_or_insert(sender(Side::Client, Side::Server));
                Some(true)
            }
            MessageRole::Reply => {
                self.side.get_or_insert(sender(Side::Server, Side::Client));
                Some(false)
            }
            _ => {
                let replies = self.side == Some(sender(Side::Server, Side::Client));
                let explained = if replies { &mut self.replies.explained_to } else { &mut self.requests.explained_to };
                if r.end != OPEN || !replies {
                    *explained = (*explained).max(r.end);
                }
                None
            }
        }
    }
}

/// Ports here and there of a connection from an address to itself, with the address and its network namespace.
type Ports = (u16, u16, [u8; 16], u32);

/// All are of one host.
fn end(flow: EndpointId) -> End {
    (HostId(0), flow)
}

/// All ends of a host.
#[derive(Default)]
pub(super) struct Ends {
    all: PerEnd<Ep>,
    /// Every end, and when it was last looked at whether it is gone; in order of time.
    looked_at: VecDeque<(MonoNs, EndpointId)>,
    /// Processes that ended not long ago, in order of time and to be asked for.
    ended: VecDeque<(MonoNs, ProcessId)>,
    has_ended: FxHashSet<ProcessId>,
    /// Ends of connections from an address to itself.
    to_itself: FxHashMap<Ports, EndpointId>,
    /// Those that went last.
    gone: VecDeque<Gone>,
    now: MonoNs,
}

/// What is still known of a flow that has gone.
#[derive(Clone, Copy)]
struct Gone {
    flow: EndpointId,
    at: MonoNs,
    is_client: bool,
    messages: bool,
}

impl Ep {
    /// Whether its messages overlap, or may, since none was told yet.
    pub(super) fn may_interleave(&self) -> bool {
        self.is(FlowFlag::Interleaves) || self.last_begun.is_none()
    }

    /// An operation of a server: when it told its client something, and how long its reply had to wait for a client that had not read what
    /// came before. That ended when more of it could be sent.
    pub(super) fn sends_to_reader(&mut self, r: &OpRow, sent: bool) {
        if !sent {
            self.unread.since = None;
            return;
        }
        self.traits.told = r.at;
        if let Some(since) = self.unread.since.take() {
            self.unread.total_ns += r.entry.0.saturating_sub(since.0);
        }
        if r.flags & held::BITS == held::WINDOW {
            self.unread.total_ns += r.at.0.saturating_sub(r.entry.0);
            self.unread.since = Some(r.at);
        }
    }
}

impl Ends {
    pub(super) fn get(&self, flow: &EndpointId) -> Option<&Ep> {
        self.all.get(end(*flow))
    }

    pub(super) fn get_mut(&mut self, flow: &EndpointId) -> Option<&mut Ep> {
        self.all.get_mut(end(*flow))
    }

    /// The end, made where it is not known.
    pub(super) fn at(&mut self, flow: EndpointId, at: MonoNs) -> &mut Ep {
        let Ends { all, now, looked_at, .. } = self;
        all.or_insert_with(end(flow), || {
            *now = (*now).max(at);
            looked_at.push_back((*now, flow));
            Ep { usage: Usage { looked_at: *now, at: *now, ..Usage::default() }, ..Ep::default() }
        })
    }

    /// An end went a short while ago: an operation on it that is told of now was under way then.
    pub(super) fn has_gone(&self, flow: EndpointId) -> bool {
        self.gone.iter().any(|g| g.flow == flow)
    }

    /// A client's system call that sent into a flow, and met its end there: the kernel tells the end first. The end is
    /// known again, and over. Gives whether it is so.
    pub(super) fn sent_at_its_end(&mut self, r: &OpRow) -> bool {
        let is_its = |g: &&Gone| g.flow == r.flow && g.is_client && r.entry <= g.at;
        let Some(&gone) = self.gone.iter().find(is_its) else { return false };
        let ep = self.at(r.flow, r.at);
        ep.side = Some(Side::Client);
        ep.traits.flags.set(FlowFlag::ByMessages, gone.messages);
        ep.traits.flags.add(FlowFlag::Over);
        true
    }

    pub(super) fn remove(&mut self, flow: EndpointId, at: MonoNs) -> bool {
        let Some(ep) = self.all.remove(end(flow)) else { return false };
        if self.gone.len() == GONE_KEPT {
            self.gone.pop_front();
        }
        let (is_client, messages) = (ep.side == Some(Side::Client), ep.is(FlowFlag::ByMessages));
        self.gone.push_back(Gone { flow, at, is_client, messages });
        if let Some(ports) = ep.other.ports.filter(|p| self.to_itself.get(&**p) == Some(&flow)) {
            self.to_itself.remove(&*ports);
        }
        true
    }

    /// An end was announced: finds its other end, where the two are on one host for certain.
    pub(super) fn pair(&mut self, r: &EndpointRow) {
        let peer = if r.laddr != r.raddr || r.rport == 0 {
            r.peer
        } else {
            self.to_itself.insert((r.lport, r.rport, r.laddr, r.netns), r.flow);
            self.to_itself.get(&(r.rport, r.lport, r.laddr, r.netns)).copied().unwrap_or_default()
        };
        if let Some(ep) = self.get_mut(&r.flow) {
            let is_to_itself = r.laddr == r.raddr && r.rport != 0;
            let ports = is_to_itself.then(|| Box::new((r.lport, r.rport, r.laddr, r.netns)));
            (ep.other.flow, ep.other.ports) = (peer, ports);
        }
        if let Some(other) = self.get_mut(&peer) {
            other.other.flow = r.flow;
        }
    }

    /// Of all flows no more is known than which end of what they are, and their protocol: as where a recording begins.
    pub(super) fn paused(&mut self) {
        let ends: Vec<End> = self.all.iter().map(|(end, _)| end).collect();
        for end in ends {
            if let Some(ep) = self.all.get_mut(end) {
                ep.paused();
            }
        }
    }

    /// Flows on which something is open, in order.
    pub(super) fn open(&self) -> Vec<EndpointId> {
        let open = self.all.iter().filter(|(_, ep)| !ep.open.is_empty());
        let mut flows: Vec<EndpointId> = open.map(|((_, flow), _)| flow).collect();
        flows.sort_unstable();
        flows
    }

    /// An operation; the close of an end that is not known does not make it.
    pub(super) fn used(&mut self, r: &OpRow) {
        let ep = if r.kind == OpKind::Close { self.get_mut(&r.flow) } else { Some(self.at(r.flow, r.at)) };
        if let Some(ep) = ep {
            ep.used(r);
        }
    }

    pub(super) fn process_ended(&mut self, process: ProcessId, at: MonoNs) {
        if self.has_ended.insert(process) {
            self.ended.push_back((at, process));
        }
    }

    /// Ends of which nothing more can come. Each is looked at once in [`FORGET_NS`].
    pub(super) fn over(&mut self, now: MonoNs, process_of: impl Fn(TaskId) -> ProcessId) -> Vec<EndpointId> {
        self.now = self.now.max(now);
        let mut gone = Vec::new();
        while self.looked_at.len() > KEPT
            && let Some(&(at, flow)) = self.looked_at.front()
            && at.0 + FORGET_NS <= now.0
        {
            self.looked_at.pop_front();
            // it may have gone, and come again, meanwhile
            let Some(ep) = self.all.get_mut(end(flow)).filter(|ep| ep.usage.looked_at == at) else { continue };
            let is_over = ep.usage.flags.has(UsageFlag::Closed)
                || is_peer(flow) && ep.usage.at.0 + SILENT_NS <= now.0
                || ep.usage.by != TaskId::UNKNOWN && self.has_ended.contains(&process_of(ep.usage.by));
            if is_over && ep.usage.at.0 + FORGET_NS <= now.0 {
                gone.push(flow);
            } else {
                ep.usage.looked_at = self.now;
                self.looked_at.push_back((self.now, flow));
            }
        }
        // an end is looked at twice before that, first perhaps too soon after its last operation
        while let Some(&(at, process)) = self.ended.front()
            && at.0 + 3 * FORGET_NS <= now.0
        {
            self.ended.pop_front();
            self.has_ended.remove(&process);
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakepath_model::rows::{OpKind, RangeHow};

    const SECOND: u64 = 1_000_000_000;

    fn operation(kind: OpKind, flow: u64, task: u32, at: u64) -> OpRow {
        let at = MonoNs(at);
        let (flow, task) = (EndpointId(flow), TaskId(task));
        OpRow {
            at,
            entry: at,
            arrived: MonoNs(0),
            flow,
            start: 1,
            end: 2,
            task,
            result: 1,
            kind,
            range: RangeHow::Counted,
            flags: 0,
            syscall: 0,
            cpu: 0,
            ..Default::default()
        }
    }

    /// Most ends held, where each of many is used and then left by `leave`, a thousand a second.
    fn held_max(ends: &mut Ends, first: u64, leave: impl Fn(&mut Ends, u64, u64)) -> usize {
        let (mut most, mut at) = (0, 100 * SECOND);
        for i in 0..200_000 {
            at += SECOND / 1000;
            ends.used(&operation(OpKind::Send, first + i, i as u32 + 1, at));
            leave(ends, first + i, at + 1);
            for flow in ends.over(MonoNs(at + 2), ProcessId::led_by) {
                assert!(ends.remove(flow, MonoNs(at + 2)));
            }
            most = most.max(ends.all.count() + ends.looked_at.len() + ends.ended.len());
        }
        most
    }

    #[test]
    fn closed_ends_are_forgotten() {
        let mut ends = Ends::default();
        let close = |ends: &mut Ends, flow, at| ends.used(&operation(OpKind::Close, flow, 1, at));
        assert!(held_max(&mut ends, 1, close) < 100_000);
    }

    #[test]
    fn ends_of_processes_that_ended_are_forgotten() {
        let mut ends = Ends::default();
        let exit = |ends: &mut Ends, flow, at| ends.process_ended(ProcessId::led_by(TaskId(flow as u32)), MonoNs(at));
        assert!(held_max(&mut ends, 1, exit) < 160_000);
    }

    #[test]
    fn silent_peers_of_a_datagram_socket_are_forgotten() {
        assert!(held_max(&mut Ends::default(), PEER_BIT, |_, _, _| {}) < 170_000);
        // others stay: somebody may have them for long
        assert!(held_max(&mut Ends::default(), 1, |_, _, _| {}) >= 400_000);
    }

    #[test]
    fn an_end_that_another_process_has_too_stays() {
        let mut ends = Ends::default();
        let mut kept = |at: u64, kind: OpKind, task: u32| {
            for flow in 0..2 * KEPT as u64 {
                ends.used(&operation(kind, flow + 1, task, at));
            }
            ends.over(MonoNs(at), ProcessId::led_by).len()
        };
        // a child reads after its parent has closed its copy
        assert_eq!(kept(SECOND, OpKind::Accept, 1), 0);
        assert_eq!(kept(2 * SECOND, OpKind::Close, 1), 0);
        assert_eq!(kept(3 * SECOND, OpKind::Recv, 2), 0);
        assert_eq!(ends.over(MonoNs(900 * SECOND), ProcessId::led_by), []);
        ends.process_ended(ProcessId::led_by(TaskId(1)), MonoNs(901 * SECOND));
        assert_eq!(ends.over(MonoNs(940 * SECOND), ProcessId::led_by), []);
        ends.process_ended(ProcessId::led_by(TaskId(2)), MonoNs(941 * SECOND));
        // all but those that are always kept
        assert_eq!(ends.over(MonoNs(980 * SECOND), ProcessId::led_by).len(), KEPT);
    }
}
