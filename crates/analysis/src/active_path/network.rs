//! Waits that the network ended: who sent the message, made room for one, or accepted the connection.

use super::{Evidence, Frame, Walk, What};
use crate::causes::softirq;
use crate::names::remote_of;
use crate::reasons;
use crate::slices::State;
use wakepath_causality::evidence::Class;
use wakepath_flows::How;
use wakepath_graph::{Backlog, End, Index, Left, Listener, how, is_vague};
use wakepath_model::ids::{CommonNs, EndpointId, HostId, MonoNs, TaskId};
use wakepath_model::rows::{
    EndedBy, OpKind, OpRow, PacketContext, PacketRow, ResentRow, Side, TcpState, WaitRow, held,
};

const BYTES: Evidence = ("bytes", Class::Observed);
const TRANSLATED: Evidence = ("bytes (translated address)", Class::Observed);
const CONNECT: Evidence = ("connect", Class::Observed);
const CLOSE: Evidence = ("close", Class::Observed);
const DATAGRAM: Evidence = ("datagram", Class::ByRule);
const LAST_SEND: Evidence = ("last send", Class::ByRule);
const PACKET: Evidence = ("packet", Class::Observed);
const PACKET_LENGTH: Evidence = ("packet length", Class::ByRule);
const READ: Evidence = ("read", Class::ByRule);
const ACCEPTED: Evidence = ("accept", Class::ByRule);
/// Most packets followed back through softirqs.
const HOPS_MAX: usize = 64;
/// After which the kernel asks for a connection once more: TCP's first time-out (RFC 6298, section 2).
const SYN_AGAIN_NS: u64 = 1_000_000_000;
/// Operations of an acceptor that are looked at for its accepts.
const ACCEPTS_MAX: usize = 256;
/// How long before its return a read may have made room.
const COPYING_NS: i64 = 1_000_000;
/// From this round-trip time on, what is sent once more may be told from what came late.
const LONG_WAY_US: u32 = 1_000;
/// A segment that is sent once more comes within so long, and so many of the least round-trip times.
const AGAIN_NS: u64 = 2_000_000;
const AGAIN_TRIPS: u64 = 2;
/// The longest time for which Linux delays an acknowledgement (TCP_DELACK_MAX).
const DELAYED_NS: u64 = 200_000_000;

/// Whether bytes that came so long (ns) after TCP had sent them once more came by that: sooner than anything passes there, or
/// much later than that takes, the first segment came after all. A narrow link makes TCP send again what only queues.
fn is_what_came(again: &ResentRow, passed_ns: u64) -> bool {
    let trip_ns = if again.rtt_us == u32::MAX { 0 } else { u64::from(again.rtt_us) * 1_000 };
    let is_too_soon = trip_ns >= u64::from(LONG_WAY_US) * 1_000 && passed_ns < trip_ns / 4;
    !is_too_soon && passed_ns <= AGAIN_NS + AGAIN_TRIPS * trip_ns
}

/// Whether an acknowledgement that took so long (ns) need not have been delayed by the end that sent it, on a connection where
/// something was sent again or was not.
fn is_no_delay(held_ns: i64, is_resent: bool) -> bool {
    is_resent || held_ns > DELAYED_NS as i64
}

/// Whether an endpoint is none of a network: a UNIX socket or a pipe.
pub(super) fn is_local(index: &Index, host: HostId, flow: EndpointId) -> bool {
    const AF_INET: u16 = 2;
    const AF_INET6: u16 = 10;
    index.end(host, flow).is_none_or(|e| e.family != AF_INET && e.family != AF_INET6)
}

/// Why no more is known of a wait for bytes on `end` than `otherwise`: who holds what others wait for is held up by its own
/// client, where that is the one that is to send.
fn whose(f: &Frame, end: &End, otherwise: &'static str) -> &'static str {
    let is_holder = f.wait == Some(State::Lock) && f.evidence.is_some_and(super::locks::is_of_holder);
    if is_holder && end.side == Side::Server { reasons::HOLDERS_CLIENT } else { otherwise }
}

impl Walk<'_> {
    /// The same; of the connection on which a request came in, its client was to send the rest of that.
    fn whose(&self, f: &Frame, end: &End, otherwise: &'static str) -> &'static str {
        let is_entry = f.depth == self.base_depth && self.entry == Some((f.host, end.flow));
        if is_entry { reasons::UNSENT } else { whose(f, end, otherwise) }
    }

    /// Bytes were on their way from `sent` to the cursor. Where TCP sent them once more, they were lost until then; where it
    /// held them back for an acknowledgement, that was what they waited for. `sender`: the endpoint, and the number (32
    /// wrapping bits) after the last of them.
    pub(super) fn on_its_way(&mut self, f: &Frame, sender: (HostId, EndpointId, u32), sent: CommonNs, what: What) {
        let index = self.index;
        let (host, flow, end) = sender;
        let local = |t| index.timeline().local(host, t);
        let is_before = |r: &ResentRow| (end.wrapping_sub(r.seq) as i32) > 0;
        let mut again = None;
        for r in index.resent(host, flow, local(sent), local(self.at)).filter(is_before) {
            again = Some((r, is_what_came(&r, local(self.at).0.saturating_sub(r.at.0))));
        }
        let dropped = again.and_then(|(r, _)| self.dropped_by((host, flow), sent, index.common(host, r.at)));
        if dropped.is_some() {
            self.tell(f, sent, State::Queued, What { by: dropped, reason: Some(reasons::HANDSHAKE_DROPPED), ..what });
            return;
        }
        if let Some((r, true)) = again {
            let again = index.common(host, r.at).max(sent);
            self.tell(f, again, State::Network, what.clone());
            self.tell(f, sent, State::Network, What { reason: Some(reasons::LOSS), ..what });
            return;
        }
        let left = index.send_of(host, flow, end, self.at);
        let reason = match left.is_some_and(|l| l.held == held::NAGLE) {
            true => Some(match self.may_have_lost((host, flow), self.at.0.saturating_sub(sent.0)) {
                true => reasons::NAGLE_LATE,
                false => reasons::NAGLE,
            }),
            false => again.map(|_| reasons::SENT_AGAIN).or(what.reason),
        };
        self.tell(f, sent, State::Network, What { reason, ..what });
    }

    /// Whether an acknowledgement for which TCP held bytes back so long (ns) need not have been delayed by the end that sent it:
    /// no end delays one for so long, or something was sent again on the connection, so that it may have been lost.
    fn may_have_lost(&self, sender: (HostId, EndpointId), held_ns: i64) -> bool {
        let (host, flow) = sender;
        let is_resent = |host, flow| self.index.resent(host, flow, MonoNs(0), MonoNs(u64::MAX)).next().is_some();
        let peer = self.index.end(host, flow).filter(|e| how(e).is_some());
        is_no_delay(held_ns, is_resent(host, flow) || peer.is_some_and(|e| is_resent(HostId(e.peer_host), e.peer)))
    }

    /// A message was on its way from `sent` to the cursor; its sender's time goes on below.
    fn sent_by(&mut self, f: Frame, from: HostId, left: &Left, evidence: Evidence, what: What) {
        let sent = self.index.common(from, left.entry).max(f.floor);
        let on_way = Frame { evidence: Some(evidence), wait: f.wait.or(Some(State::Network)), ..f };
        let by = Some((from, left.task));
        self.on_its_way(&on_way, (from, left.flow, left.end as u32), sent, What { by, ..what.clone() });
        if self.at > f.floor {
            if left.task == TaskId::UNKNOWN {
                self.tell_wait(&f, State::Unknown, What { reason: Some(reasons::NO_WAKER), ..what });
            } else {
                self.follow(f, (from, left.task), State::Network, evidence, what);
            }
        }
    }

    /// A message on a socket woke it.
    pub(super) fn socket(&mut self, f: Frame, w: &WaitRow, flow: EndpointId, syscall: Option<u16>) {
        const UDP: u16 = 17;
        let index = self.index;
        let end = index.end(f.host, flow);
        let object = end.as_ref().map(remote_of);
        let what = |reason| What { by: None, syscall, object: object.clone(), reason };
        if end.is_none_or(|e| e.state == TcpState::Listen || (e.protocol == UDP && e.how == 0)) {
            // a listener, or a datagram socket for many peers: what it took next says who it was
            self.network(f, w, syscall);
            return;
        }
        let Some(end) = end else { return };
        if self.tried(f.host, w, flow) == Some(OpKind::Connect) {
            self.connecting(f, w, flow, Some(end), what(None));
            return;
        }
        let Some(kind) = how(&end) else {
            self.tell_wait(&f, State::Network, what(Some(self.whose(&f, &end, reasons::NO_PEER))));
            return;
        };
        let peer = HostId(end.peer_host);
        // the cursor stands before the wake-up where only a part of the wait is asked for
        let until = index.common(f.host, w.woken).max(self.at);
        let found = if end.protocol == UDP {
            index.last_left(peer, end.peer, OpKind::Send, until).map(|l| (l, DATAGRAM))
        } else {
            let evidence = if kind == How::Translated { TRANSLATED } else { BYTES };
            index.send_of(peer, end.peer, w.rcv_seq, until).map(|l| (l, evidence))
        };
        // the end of a stream has a number of its own, which no send covers
        let found = found
            .or_else(|| index.last_left(peer, end.peer, OpKind::Shutdown, until).map(|l| (l, CLOSE)))
            .or_else(|| index.last_left(peer, end.peer, OpKind::Close, until).map(|l| (l, CLOSE)))
            .or_else(|| index.last_left(peer, end.peer, OpKind::Send, until).map(|l| (l, LAST_SEND)));
        match found {
            Some((left, evidence)) => self.sent_by(f, peer, &left, evidence, what(None)),
            None => self.tell_wait(&f, State::Network, what(Some(self.whose(&f, &end, reasons::NO_SEND)))),
        }
    }

    /// The network woke it, the socket is not named: its own operation tells which, the one that it was in, else the
    /// one that it did next.
    pub(super) fn network(&mut self, f: Frame, w: &WaitRow, syscall: Option<u16>) {
        let index = self.index;
        let until = index.common(f.host, w.woken).max(self.at);
        let after = index.wait(f.host, f.task, index.waits_from(f.host, f.task, w.at));
        let next = index
            .operation_from(f.host, f.task, w.at)
            .filter(|o| o.entry <= w.blocked || after.is_none_or(|a| o.at <= a.blocked));
        let Some(o) = next else {
            let what = What { by: None, syscall, object: None, reason: Some(reasons::NO_SOCKET) };
            self.tell_wait(&f, State::Network, what);
            return;
        };
        let end = index.end(f.host, o.flow);
        let object = end.as_ref().map(remote_of);
        let what = |reason| What { by: None, syscall, object: object.clone(), reason };
        let tried = self.tried(f.host, w, o.flow);
        let held = self.held(f.host, w, &o);
        let reason = match (o.kind, &end) {
            (OpKind::Connect | OpKind::Send, _) if tried == Some(OpKind::Connect) => {
                self.connecting(f, w, o.flow, end, what(None));
                return;
            }
            (OpKind::Send, _) if tried == Some(OpKind::Send) => {
                self.room(f, w, end, held, what(None));
                return;
            }
            (OpKind::Recv | OpKind::Accept, Some(e)) if e.how != 0 => {
                let peer = HostId(e.peer_host);
                let found = match o.kind {
                    OpKind::Accept => index.last_left(peer, e.peer, OpKind::Connect, until).map(|l| (l, CONNECT)),
                    _ if o.end > o.start => index
                        .send_of(peer, e.peer, (o.start as u32).wrapping_add(1), until)
                        .map(|l| (l, BYTES))
                        .or_else(|| index.last_left(peer, e.peer, OpKind::Send, until).map(|l| (l, LAST_SEND))),
                    _ => index
                        .last_left(peer, e.peer, OpKind::Shutdown, until)
                        .or_else(|| index.last_left(peer, e.peer, OpKind::Close, until))
                        .map(|l| (l, CLOSE)),
                };
                if let Some((left, evidence)) = found {
                    self.sent_by(f, peer, &left, evidence, what(None));
                    return;
                }
                self.whose(&f, e, reasons::NO_SEND)
            }
            (OpKind::Recv, Some(e)) => self.whose(&f, e, reasons::NO_PEER),
            (OpKind::Recv | OpKind::Accept, _) => reasons::NO_PEER,
            _ => reasons::NO_SOCKET,
        };
        self.tell_wait(&f, State::Network, what(Some(reason)));
    }

    /// What a task was doing on a connection while it waited: the operation that it was in, or, in poll, what it had tried
    /// before and went on with afterwards.
    fn tried(&self, host: HostId, w: &WaitRow, flow: EndpointId) -> Option<OpKind> {
        let next = self.index.operation_from(host, w.task, w.at).filter(|o| o.flow == flow)?;
        if next.entry <= w.blocked {
            return Some(next.kind);
        }
        let before = self.index.operation_before(host, w.task, w.blocked).filter(|o| o.flow == flow)?;
        let goes_on = matches!(
            (before.kind, next.kind),
            (OpKind::Connect, OpKind::Connect | OpKind::Send) | (OpKind::Send, OpKind::Send)
        );
        goes_on.then_some(before.kind)
    }

    /// For what TCP kept bytes back while a task waited for room: as the send in which it waited tells when it returned, or,
    /// where the task polled, the one before.
    fn held(&self, host: HostId, w: &WaitRow, next: &OpRow) -> u16 {
        let behind = next.flags & held::BITS;
        if next.entry <= w.blocked || behind == held::WINDOW {
            return behind;
        }
        let before = self.index.operation_before(host, w.task, w.blocked).filter(|o| o.flow == next.flow);
        before.map_or(0, |o| o.flags & held::BITS)
    }

    /// There was no room to send until the cursor: whoever reads at the other end makes it, or the network.
    fn room(&mut self, f: Frame, w: &WaitRow, end: Option<End>, held: u16, what: What) {
        let is_slow_reader = held == held::WINDOW;
        let state = if is_slow_reader { State::Unread } else { State::Network };
        if held == held::OTHER {
            self.tell_wait(&f, State::Network, What { reason: Some(reasons::SENT_SLOWLY), ..what });
            return;
        }
        let index = self.index;
        let begin = index.common(f.host, w.blocked);
        let until = index.common(f.host, w.woken).max(self.at);
        let known = end.filter(|e| {
            let reads = |kind| index.last_left(HostId(e.peer_host), e.peer, kind, CommonNs(i64::MAX)).is_some();
            how(e).is_some() && [OpKind::Recv, OpKind::Send, OpKind::Accept, OpKind::Connect].into_iter().any(reads)
        });
        let Some(end) = known else {
            let (state, reason) = match is_slow_reader {
                true => (State::Unread, reasons::NOT_READ),
                false => (State::Unknown, reasons::NO_READER),
            };
            self.tell_wait(&f, state, What { reason: Some(reason), ..what });
            return;
        };
        let peer = HostId(end.peer_host);
        let read = index.last_read(peer, end.peer, until, COPYING_NS).filter(|l| index.common(peer, l.at) >= begin);
        match read.filter(|l| l.task != TaskId::UNKNOWN) {
            Some(l) => self.made_by(Frame { wait: f.wait.or(Some(state)), ..f }, peer, &l, READ, what),
            None if is_slow_reader => {
                self.tell_wait(&f, State::Unread, What { reason: Some(reasons::SEND_ROOM), ..what });
            }
            // what was on its way arrived, and nobody had to read it for that
            None => self.tell_wait(&f, State::Network, What { reason: Some(reasons::SEND_ROOM), ..what }),
        }
    }

    /// A connection was being established until the cursor. The kernels do that by themselves; where the first packet
    /// went unanswered, the queue of the listener was full until somebody accepted.
    pub(super) fn connecting(&mut self, f: Frame, w: &WaitRow, flow: EndpointId, end: Option<End>, what: What) {
        let index = self.index;
        let is_answered = self.is_connect_answered(f.host, w, flow);
        if is_answered && w.woken.0.saturating_sub(w.blocked.0) < SYN_AGAIN_NS {
            self.tell_wait(&f, State::Network, What { reason: Some(reasons::CONNECTING), ..what });
            return;
        }
        if let Some((listener, backlog)) = end.as_ref().and_then(|e| self.full_listener(f.host, e, self.at)) {
            let object = end.as_ref().map(|e| format!("{} ({} of {})", remote_of(e), backlog.waiting, backlog.room));
            let by = Some(listener).filter(|l| l.1 != TaskId::UNKNOWN);
            self.tell_wait(&f, State::Queued, What { by, object, reason: Some(reasons::ACCEPT_QUEUE), ..what });
            return;
        }
        let is_syn = |r: &ResentRow| r.state == TcpState::SynSent;
        let is_resent = index.resent(f.host, flow, w.blocked, w.woken).any(|r| is_syn(&r));
        let sent = 1 + index.resent(f.host, flow, MonoNs(0), w.woken).filter(is_syn).count();
        let object = what.object.clone().or_else(|| end.as_ref().map(remote_of));
        let object = object.map(|o| if sent > 1 { format!("{o} (SYN sent {sent} times)") } else { o });
        let what = |reason| What { reason: Some(reason), object: object.clone(), ..what.clone() };
        if !is_answered {
            self.tell_wait(&f, State::Network, what(reasons::NOT_CONNECTED));
            return;
        }
        if end.as_ref().is_some_and(|e| self.listener_of(f.host, e).is_some()) && is_resent {
            self.tell_wait(&f, State::Network, what(reasons::SYN_LOST));
            return;
        }
        let accepted = end.filter(|e| how(e).is_some()).and_then(|e| {
            let peer = HostId(e.peer_host);
            let mine = index.last_left(peer, e.peer, OpKind::Accept, CommonNs(i64::MAX))?;
            let (begin, until) = (index.common(f.host, w.blocked), index.common(f.host, w.woken));
            let local = index.timeline().local(peer, until);
            let recent = index.operations_back(peer, mine.task, local).take(ACCEPTS_MAX);
            let mut recent = recent.take_while(|o| index.common(peer, o.at) >= begin);
            let earlier = recent.find(|o| o.kind == OpKind::Accept)?;
            Some((peer, Left { at: earlier.at, task: earlier.task, ..mine }))
        });
        match accepted {
            Some((peer, l)) => self.made_by(f, peer, &l, ACCEPTED, what(reasons::CONNECTING)),
            None => self.tell_wait(&f, State::Unknown, what(reasons::UNANSWERED)),
        }
    }

    /// Whether somebody answered a connection attempt by the end of a wait for it: neither the program's time-out nor the
    /// kernel's ended that.
    fn is_connect_answered(&self, host: HostId, w: &WaitRow, flow: EndpointId) -> bool {
        const ETIMEDOUT: i32 = 110;
        const EHOSTUNREACH: i32 = 113;
        let told =
            self.index.operation_from(host, w.task, w.at).filter(|o| (o.flow, o.kind) == (flow, OpKind::Connect));
        w.cause != EndedBy::Timer && told.is_none_or(|o| !matches!(-o.result, ETIMEDOUT | EHOSTUNREACH))
    }

    /// The listener that a connection from `from` went to, where that is on a recorded host.
    fn listener_of(&self, from: HostId, e: &End) -> Option<(HostId, Listener)> {
        let host = if how(e).is_some() { HostId(e.peer_host) } else { from };
        Some((host, self.index.listener(host, &e.raddr, e.rport)?))
    }

    /// The task that listens where a connection went to, and its queue, where that had no room at a moment.
    fn full_listener(&self, from: HostId, e: &End, at: CommonNs) -> Option<((HostId, TaskId), Backlog)> {
        let (host, l) = self.listener_of(from, e)?;
        let backlog = self.index.backlog(host, l.flow, self.index.timeline().local(host, at))?;
        backlog.is_full().then_some(((host, l.task), backlog))
    }

    /// The task that listens, where its full queue is why a client's first bytes, sent at `sent`, went unanswered until `again`:
    /// nobody had accepted the connection until then.
    fn dropped_by(&self, client: (HostId, EndpointId), sent: CommonNs, again: CommonNs) -> Option<(HostId, TaskId)> {
        let end = self.index.end(client.0, client.1).filter(|e| e.side == Side::Client && how(e).is_some())?;
        let (listener, _) = self.full_listener(client.0, &end, sent)?;
        let peer = HostId(end.peer_host);
        let accepted = self.index.last_left(peer, end.peer, OpKind::Accept, CommonNs(i64::MAX))?;
        (listener.1 != TaskId::UNKNOWN && self.index.common(peer, accepted.at) >= again).then_some(listener)
    }

    /// What a task at the other end did let this one go on, by a packet that was on its way since: its time goes on.
    fn made_by(&mut self, f: Frame, peer: HostId, l: &Left, evidence: Evidence, what: What) {
        let done = self.index.common(peer, l.at).max(f.floor);
        let on_way = Frame { evidence: Some(evidence), wait: f.wait.or(Some(State::Network)), ..f };
        self.tell(&on_way, done, State::Network, What { by: Some((peer, l.task)), ..what.clone() });
        if self.at > f.floor {
            let kind = f.wait.unwrap_or(State::Network);
            self.follow(f, (peer, l.task), kind, evidence, What { reason: None, ..what });
        }
    }

    /// A packet that an imported trace saw woke it: back to the task that sent it, through the softirqs that answered
    /// packets with packets and the timers that sent them late.
    pub(super) fn packet(&mut self, mut f: Frame, w: &WaitRow, syscall: Option<u16>) {
        let index = self.index;
        let (mut host, mut id) = (f.host, w.object);
        let mut what = What { syscall, reason: Some(reasons::NO_PACKET), ..What::default() };
        for _ in 0..HOPS_MAX {
            let Some(received) = index.packet(host, id) else { break };
            what.object = packet_name(&received);
            let Some((from, mut sent)) = index.sent(host, &received) else { break };
            f.evidence = Some(if is_vague(&received) { PACKET_LENGTH } else { PACKET });
            let left = index.common(from, sent.at);
            let by = is_by_task(&sent).then_some((from, sent.task));
            self.tell(&f, left, State::Network, What { by, reason: None, ..what.clone() });
            let nobody = Frame { host: from, task: TaskId::UNKNOWN, ..f };
            if sent.context == PacketContext::Timer {
                let Some(earlier) = index.before_timer(from, &sent) else {
                    what.reason = Some(reasons::BY_TIMER);
                    break;
                };
                let is_again = earlier.sent != 0;
                let object = Some(if is_again { "retransmission" } else { "delayed acknowledgement" }.to_owned());
                let what = What { object, ..What::default() };
                self.tell(&nobody, index.common(from, earlier.at), State::Timer, what);
                if !is_again {
                    (host, id) = (from, earlier.id);
                    continue;
                }
                sent = earlier;
            }
            if self.at <= f.floor {
                return;
            }
            if is_by_task(&sent) {
                let evidence = f.evidence.unwrap_or(PACKET);
                self.follow(f, (from, sent.task), State::Network, evidence, What { reason: None, ..what });
                return;
            }
            let Some(trigger) = (sent.trigger != 0).then(|| index.packet(from, sent.trigger)).flatten() else {
                what.reason =
                    Some(if sent.context == PacketContext::Timer { reasons::BY_TIMER } else { reasons::NO_TRIGGER });
                break;
            };
            let object = Some(format!("softirq {}", softirq(3)));
            self.tell(&nobody, index.common(from, trigger.at), State::Interrupt, What { object, ..What::default() });
            (host, id) = (from, trigger.id);
        }
        self.tell(&f, f.floor, State::Network, what);
    }
}

fn is_by_task(p: &PacketRow) -> bool {
    p.context == PacketContext::Task && p.task != TaskId::UNKNOWN
}

/// Ports of a packet, with its addresses where the trace has them.
fn packet_name(p: &PacketRow) -> Option<String> {
    if p.sport == 0 && p.dport == 0 {
        return None;
    }
    let end = |a: &[u8; 16], port: u16| match p.ip {
        4 => format!("{}.{}.{}.{}:{port}", a[0], a[1], a[2], a[3]),
        6 => format!("[{}]:{port}", std::net::Ipv6Addr::from(*a)),
        _ => format!(":{port}"),
    };
    Some(format!("{} > {}", end(&p.saddr, p.sport), end(&p.daddr, p.dport)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_end_is_to_blame_for_an_acknowledgement_that_may_be_lost() {
        let ms = |n: i64| n * 1_000_000;
        assert!(!is_no_delay(ms(41), false) && !is_no_delay(ms(200), false));
        assert!(is_no_delay(ms(41), true), "something was sent again");
        assert!(is_no_delay(ms(201), false), "nobody delays one for so long");
    }

    #[test]
    fn only_what_comes_in_time_is_what_was_sent_again() {
        let row = |rtt_us| ResentRow {
            at: MonoNs(0),
            flow: EndpointId(1),
            seq: 0,
            seq_end: 1,
            rtt_us,
            state: TcpState::Established,
            pad: [0; 3],
        };
        assert!(is_what_came(&row(30), 40_000), "on a loopback it comes at once");
        assert!(is_what_came(&row(50_000), 60_000_000));
        assert!(!is_what_came(&row(50_000), 10_000_000), "nothing comes so soon");
        // a loopback of 20 Mbit/s without a drop: what queued came 44 ms after TCP had sent it again
        assert!(!is_what_came(&row(30), 44_000_000));
        assert!(!is_what_came(&row(u32::MAX), 44_000_000));
    }
}
