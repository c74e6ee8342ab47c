//! Where a request's time went: the time of each span that no call of its covers, and the time between two sides.

use wakepath_causality::evidence::Rule;
use wakepath_causality::exchange::Exchange;
use wakepath_causality::path::{Request, Span};
use wakepath_model::ids::{HostId, MonoNs};

/// A span with its times laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timed {
    /// Index of the span in the request.
    pub index: u32,
    /// Depth below the root.
    pub depth: u32,
    /// The host whose clock `start` and `end` are of.
    pub host: HostId,
    /// Begin: the first byte's arrival where it was served, else when it was sent.
    pub start: MonoNs,
    /// End: the reply's last byte.
    pub end: MonoNs,
    /// Time from the first byte's arrival until a task took the request (ns).
    pub queued_ns: u64,
    /// Time inside the span in which it neither waited for its calls nor for connections, without the queueing and what its client's
    /// reading took (ns).
    pub self_ns: u64,
    /// Time in which its reply found no room, since the client had not read what came before (ns).
    pub unread_ns: u64,
    /// Time in which it had read all that had come of its request, and the client had not sent the rest (ns); not in `self_ns`.
    pub unsent_ns: u64,
    /// Time, within its caller's span, in which the connection that this is the first call on came about: until it was there, and in
    /// which the peer's answers in a handshake were waited for (ns). It is in no `self_ns`.
    pub opening: OpeningNs,
    /// Time that the caller saw and the server did not: network, and what it waited to be read (ns); `None` where
    /// nothing tells the two apart. Where the wire alone tells, what is not its server's time.
    pub between_ns: Option<u64>,
    /// Time, as its caller saw it, after the reply of the request that it was made for, or after its caller had left: nobody waited
    /// for that (ns).
    pub after_ns: u64,
    /// What the wire tells of the time, where a sniffer saw the reply.
    pub wire: Option<Legs>,
}

/// How long a connection took to come about (ns).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpeningNs {
    /// Until it was there.
    pub connect: u64,
    /// Until the peer had answered in its handshake.
    pub handshake: u64,
}

impl OpeningNs {
    /// All of it.
    pub fn total(self) -> u64 {
        self.connect + self.handshake
    }

    /// Of a call, between `from` and `to`.
    fn of(call: &Exchange, from: u64, to: u64) -> OpeningNs {
        let Some(opening) = &call.client.opening else { return OpeningNs::default() };
        let within = |(a, b): (MonoNs, MonoNs)| b.0.min(to).saturating_sub(a.0.max(from));
        let handshake = opening.answers().iter().map(|&wait| within(wait)).sum();
        OpeningNs { connect: within(opening.connect()), handshake }
    }
}

/// A span's time as a sniffer divides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Legs {
    /// From the caller's sending to the request's last packet; `None` where the caller or the clocks are not known.
    pub out_ns: Option<u64>,
    /// From there to the reply's first packet: the server's, and the way between it and the sniffer.
    pub server_ns: u64,
    /// From there until the caller had the complete reply.
    pub back_ns: Option<u64>,
}

/// What the wire tells of a span.
fn legs(s: &Span) -> Option<Legs> {
    let w = s.wire.as_ref().filter(|w| w.reply_first.0 != 0)?;
    // a reply that begins before its request is over: what was asked for is worked on from the first packet
    let from = if w.reply_first < w.request_last { w.request_first } else { w.request_last };
    let caller = s.caller.as_ref().filter(|_| !w.is_caller);
    let own = s.callee.as_ref().or(s.caller.as_ref()).map(|h| h.host);
    let caller = caller.filter(|c| Some(c.host) == own).map(|c| &c.exchange);
    let at = |t: MonoNs| Some(t.0.saturating_add_signed(w.offset_ns?));
    Some(Legs {
        out_ns: caller.and_then(|c| Some(at(from)?.saturating_sub(c.request.began.0))),
        server_ns: w.reply_first.0.saturating_sub(from.0),
        back_ns: caller.and_then(|c| Some(c.reply.ended.0.saturating_sub(at(w.reply_first)?))),
    })
}

/// Whose clock the calls of a span are in: the server's, or of one that nobody watches, the sniffer's.
fn inner_host(s: &Span) -> Option<HostId> {
    s.callee.as_ref().map(|h| h.host).or(s.wire.as_ref().map(|w| w.host)).or(s.caller.as_ref().map(|h| h.host))
}

impl Timed {
    /// Length of the span (ns).
    pub fn duration_ns(&self) -> u64 {
        self.end.0.saturating_sub(self.start.0)
    }
}

/// Lays out the times of a request's spans.
pub fn lay_out(r: &Request) -> Vec<Timed> {
    let mut out: Vec<Timed> = Vec::with_capacity(r.spans.len());
    let mut calls: Vec<Vec<(u64, u64)>> = vec![Vec::new(); r.spans.len()];
    for s in &r.spans {
        if let (Some(p), Some(c)) = (s.parent, &s.caller)
            && inner_host(&r.spans[p as usize]) == Some(c.host)
        {
            let of = &mut calls[p as usize];
            of.push((c.exchange.request.began.0, c.exchange.reply.ended.0));
            if let Some(opening) = &c.exchange.client.opening {
                of.extend(opening.answers().iter().chain([&opening.connect()]).map(|(a, b)| (a.0, b.0)));
            }
        }
    }
    for (s, of) in r.spans.iter().zip(&mut calls) {
        of.extend(s.refusals.iter().map(|f| (f.tried.0.0, f.tried.1.0)));
    }
    for (i, s) in r.spans.iter().enumerate() {
        let depth = s.parent.map_or(0, |p| out[p as usize].depth + 1);
        let Some(half) = s.callee.as_ref().or(s.caller.as_ref()) else { continue };
        let e = &half.exchange;
        let served = s.callee.is_some();
        // what arrived before the previous reply left waited after it: that is queueing too
        let start =
            if served && e.request.arrived.0 != 0 { e.request.arrived.min(e.request.began) } else { e.request.began };
        let end = e.reply.ended.max(e.request.began);
        let head_unsent_ns = if served { e.request.unsent_ns } else { 0 };
        let queued_ns =
            if served { e.request.taken.0.saturating_sub(start.0.saturating_add(head_unsent_ns)) } else { 0 };
        let wire = legs(s);
        let mut self_ns = match (&s.wire, wire) {
            _ if served => (end.0 - start.0).saturating_sub(union(&mut calls[i], e.request.taken.0, end.0) + queued_ns),
            (Some(w), Some(legs)) => {
                let to = w.reply_first.0;
                legs.server_ns - union(&mut calls[i], to - legs.server_ns, to)
            }
            // without a reply all that is known is who else it waited for
            (Some(w), None) => (end.0 - start.0).saturating_sub(union(&mut calls[i], w.request_first.0, u64::MAX)),
            _ => end.0 - start.0,
        };
        let unread_ns = if served { e.client.unread_ns.min(self_ns) } else { 0 };
        self_ns -= unread_ns;
        let unsent_ns = if served { e.client.unsent_ns.saturating_add(head_unsent_ns).min(self_ns) } else { 0 };
        self_ns -= unsent_ns;
        let between_ns = match (&s.caller, &s.callee) {
            _ if !served => wire.map(|w| (end.0 - start.0).saturating_sub(w.server_ns)),
            (Some(c), Some(_)) => {
                let seen = c.exchange.duration_ns();
                Some(seen.saturating_sub(end.0 - start.0))
            }
            _ => None,
        };
        let after_ns = s.parent.map_or(0, |p| behind(&out[p as usize], inner_host(&r.spans[p as usize]), s));
        // nor did anybody wait for what it did after its caller had left
        let left = e.client.left.0;
        let worked_on = if s.parent.is_some() && left != 0 { end.0.saturating_sub(left.max(start.0)) } else { 0 };
        let after_ns = after_ns.max(worked_on);
        let opening = s.parent.map_or(OpeningNs::default(), |p| {
            let parent = &out[p as usize];
            let call =
                s.caller.as_ref().filter(|c| c.host == parent.host && inner_host(&r.spans[p as usize]) == Some(c.host));
            call.map_or(OpeningNs::default(), |c| OpeningNs::of(&c.exchange, parent.start.0, parent.end.0))
        });
        let (index, host) = (i as u32, half.host);
        out.push(Timed {
            index,
            depth,
            host,
            start,
            end,
            queued_ns,
            self_ns,
            unread_ns,
            unsent_ns,
            opening,
            between_ns,
            after_ns,
            wire,
        });
    }
    out
}

/// How long a call went on after the reply of its parent, or while that itself was after its own (ns). `inner`: whose clock
/// the parent's calls are in.
fn behind(parent: &Timed, inner: Option<HostId>, call: &Span) -> u64 {
    let Some(c) = call.caller.as_ref().filter(|c| c.host == parent.host && inner == Some(c.host)) else { return 0 };
    let replied = parent.end.0.saturating_sub(parent.after_ns);
    c.exchange.reply.ended.0.saturating_sub(c.exchange.request.began.0.max(replied))
}

/// Length of the union of intervals, cut to `from..to`.
fn union(intervals: &mut [(u64, u64)], from: u64, to: u64) -> u64 {
    intervals.sort_unstable();
    let (mut covered, mut reached) = (0, from);
    for &(a, b) in intervals.iter() {
        let (a, b) = (a.max(reached), b.min(to));
        if b > a {
            covered += b - a;
            reached = b;
        }
    }
    covered
}

/// The evidence of a span, as shown: who made it, and how its two sides were joined.
pub fn evidence(s: &Span) -> String {
    let join = |r: Rule| format!("{} ({})", r.name(), r.class().name());
    match (s.made_by, s.joined_by) {
        (Some(m), Some(j)) => format!("{}, {}", join(m), join(j)),
        (Some(m), None) => join(m),
        (None, Some(j)) => join(j),
        (None, None) => "root".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_calls_count_once() {
        assert_eq!(union(&mut [(10, 20), (15, 30), (40, 50)], 0, 100), 30);
        assert_eq!(union(&mut [(0, 10), (90, 200)], 5, 100), 15);
        assert_eq!(union(&mut [], 0, 100), 0);
    }
}
