//! Lines of what a task does.

use super::{HEAD_BYTES, Played, Player, REPLY_BYTES, REQUEST_BYTES, Task, US, number};
use wakepath_model::rows::{InputKind, OPEN, OpKind, WitnessKind};

/// Bytes of a control frame.
const FRAME_BYTES: u64 = 13;

/// When and by whom something is done.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub(super) at: u64,
    pub(super) host: usize,
    pub(super) task: u32,
    /// The leader of the task's process.
    pub(super) leader: u32,
    /// Whether messages are recorded.
    pub(super) says: bool,
}

/// How much of a request is read.
enum Part {
    Whole,
    Head,
    Rest,
}

/// What stands behind `given FLOW`: how the library handed an input over.
struct GivenOptions {
    entry: u64,
    timeout: u64,
    ready: u32,
    kind: InputKind,
    isolated: u8,
}

impl GivenOptions {
    fn read(at: u64, mut how: &[&str]) -> Played<GivenOptions> {
        let mut o = GivenOptions { entry: at, timeout: u64::MAX, ready: 1, kind: InputKind::Read, isolated: 1 };
        while let Some((word, mut more)) = how.split_first() {
            match (*word, more) {
                ("write", _) => o.kind = InputKind::Write,
                ("other", _) => o.kind = InputKind::Other,
                ("together", _) => o.isolated = 0,
                ("rest", _) => o.isolated = 2,
                ("of", [n, after @ ..]) => {
                    o.ready = number(n)? as u32;
                    more = after;
                }
                ("since", [t, after @ ..]) => {
                    o.entry = number(t)? * US;
                    more = after;
                }
                ("timeout", [ms, after @ ..]) => {
                    o.timeout = number(ms)? * 1_000_000;
                    more = after;
                }
                _ => return Err(format!("{word} is not understood")),
            }
            how = more;
        }
        Ok(o)
    }
}

impl Player {
    pub(super) fn step(&mut self, at: u64, who: &str, verb: &str, rest: &[&str], says: bool) -> Played<()> {
        let t = self.who(who)?;
        let (host, task, leader) = (t.host, t.number, t.leader);
        let step = Step { at, host, task, leader, says };
        match (verb, rest) {
            ("takes", [names, "rest"]) => self.takes(step, names, None, Part::Rest),
            ("takes", [names, flow, "part"]) => self.takes(step, names, Some(flow), Part::Head),
            ("takes", [names, flow @ ..]) => self.takes(step, names, flow.first().copied(), Part::Whole),
            ("asks" | "posts", [name, flow, "for", cause]) => self.asks(step, [name, flow, cause], verb == "posts"),
            ("answers", [name, how @ ..]) => self.answers(step, name, how),
            ("hears", [name]) => self.hears(step, name),
            ("accepts" | "connects", [flow, how @ ..]) => {
                let f = self.flow_of(flow)?;
                let (side, kind) =
                    if verb == "accepts" { (f.server, OpKind::Accept) } else { (f.client, OpKind::Connect) };
                let (h, e) = side.ok_or("this end is not watched")?;
                self.out.hosts[h].op(at - US / 2, at, task, e, kind, if *how == ["later"] { -115 } else { 0 });
                Ok(())
            }
            ("polls", [ready, how @ ..]) => self.polls(step, ready, how),
            ("runs", [logical]) => {
                let logical = self.who(logical)?.number;
                self.out.hosts[host].ran(at, task, logical);
                Ok(())
            }
            ("given", [flow, how @ ..]) => self.given(step, flow, how),
            ("else", []) => {
                self.out.hosts[host].given(at, task, 0, InputKind::Else, 0, 0);
                Ok(())
            }
            ("woken", ["by", by, "since", blocked, how @ ..]) => self.woken(step, [by, blocked], how),
            ("forks", [name, comm]) => {
                let child = self.tasks.len() as u32 + 1;
                self.out.hosts[host].task(at, child, leader, task, comm);
                self.tasks.insert((*name).to_owned(), Task { host, number: child, leader });
                Ok(())
            }
            ("sends" | "reads", [what, of]) => self.frames(step, of, verb == "sends", what),
            ("loses", ["borders", flow]) => {
                let f = self.flow_of(flow)?;
                let end = [f.client, f.server].into_iter().flatten().find(|end| end.0 == host);
                let flow = f.pipes.unwrap_or(end.ok_or("this end is not watched")?.1);
                self.out.hosts[host].loses_borders(at, flow);
                Ok(())
            }
            ("ends", []) => {
                self.out.hosts[host].ended(at, task, leader);
                Ok(())
            }
            ("closes" | "resets", [flow]) => {
                let f = self.flow_of(flow)?;
                for (h, e) in [f.client, f.server].into_iter().flatten() {
                    self.out.hosts[h].closed(at, e, task, verb == "resets");
                }
                Ok(())
            }
            ("closes", [flow, "amid"]) => {
                let f = self.flow_of(flow)?;
                for (h, e) in [f.client, f.server].into_iter().flatten() {
                    self.out.hosts[h].closed(at - US / 4, e, task, false);
                }
                Ok(())
            }
            ("leaves", [flow]) => {
                let f = self.flow_of(flow)?;
                let (host, end) = f.client.ok_or("the client's end is not watched")?;
                self.out.hosts[host].op(at, at, task, end, OpKind::Close, 0);
                Ok(())
            }
            ("drops" | "fails", [flow]) => {
                let f = self.flow_of(flow)?;
                let (host, end) = f.server.ok_or("the server's end is not watched")?;
                let (kind, result) = if verb == "drops" { (OpKind::Close, 0) } else { (OpKind::Send, -32) };
                self.out.hosts[host].op(at, at, task, end, kind, result);
                Ok(())
            }
            ("loses", ["client", flow, how @ ..]) => {
                let f = self.flow_of(flow)?;
                let (host, end) = f.server.ok_or("the server's end is not watched")?;
                self.out.hosts[host].client_left(at, end, *how == ["reset"]);
                Ok(())
            }
            _ => Err("not understood".into()),
        }
    }

    /// Sends a request, made for another one or for none (`-`); several at once: their ends show after all their heads.
    /// `is_posted`: no reply comes.
    fn asks(&mut self, step: Step, [names, flow, cause]: [&str; 3], is_posted: bool) -> Played<()> {
        let at = step.at;
        let cause = match cause {
            "-" => None,
            c => Some(self.asked_of(c)?.call),
        };
        let mut messages = Vec::new();
        for name in names.split(',') {
            self.begin(name, flow, at, cause)?;
            if is_posted {
                let a = self.asked_of(name)?;
                a.is_posted = true;
                let call = a.call;
                self.out.truth.calls[call].ended_ns = at;
            }
            let end = self.flow_of(flow)?.sent[0];
            messages.push((name.to_owned(), end - REQUEST_BYTES..end, 0));
        }
        let client = self.flow_of(flow)?.client;
        let ranges: Vec<_> = messages.iter().map(|m| m.1.clone()).collect();
        let bytes = ranges[0].start..ranges[ranges.len() - 1].end;
        let are_several = ranges.len() > 1;
        if are_several {
            messages.iter_mut().for_each(|m| m.1.end = OPEN);
        }
        self.moved(step, client, bytes, 0, &messages)?;
        if let Some((host, end)) = client.filter(|_| are_several) {
            ranges.into_iter().for_each(|range| self.out.hosts[host].message_ended(at, end, range, true));
        }
        Ok(())
    }

    /// Moves bytes that are of no message, or of one of the server's that answers nothing.
    fn frames(&mut self, step: Step, flow: &str, is_send: bool, what: &str) -> Played<()> {
        match what {
            "frames" | "push" => {}
            "withdrawal" => return self.withdrawal(step, flow, is_send),
            _ => return Err(format!("{what} is not understood")),
        }
        let f = self.flow_of(flow)?;
        // between threads of a process, one end writes and the other reads
        let is_client = match f.leaders {
            [one, other] if one == other => is_send,
            [client, _] => f.client.is_some() && client == step.leader,
        };
        let way = usize::from(is_client != is_send);
        let side = if is_client { f.client } else { f.server };
        // an unwatched end sends them as they are read
        let is_seen_sent = if is_client { f.server.is_some() } else { f.client.is_some() };
        if is_send || !is_seen_sent {
            f.sent[way] += FRAME_BYTES;
        }
        let bytes = if is_send { f.sent[way] - FRAME_BYTES..f.sent[way] } else { f.read[way]..f.sent[way] };
        if !is_send {
            f.read[way] = f.sent[way];
        }
        self.moved(step, side, bytes.clone(), if is_send { 0 } else { step.at - US }, &[])?;
        if let Some((host, end)) = side.filter(|_| what == "push") {
            self.out.hosts[host].message(step.at, end, is_send, bytes, ("PUSH", "PUSH"), 0);
            self.out.hosts[host].is_push();
        }
        Ok(())
    }

    /// Moves what takes a request back.
    fn withdrawal(&mut self, step: Step, name: &str, is_send: bool) -> Played<()> {
        let a = self.asked_of(name)?;
        let (flow, stream) = (a.flow.clone(), a.call as u64 + 1);
        self.frames(step, &flow, is_send, "frames")?;
        let f = self.flow_of(&flow)?;
        let (side, to) = (if is_send { f.client } else { f.server }, f.sent[0]);
        let (host, end) = side.ok_or("this end is not watched")?;
        let h = &mut self.out.hosts[host];
        h.message(step.at, end, is_send, to - FRAME_BYTES..to, ("RST", "RST"), 0);
        h.is_withdrawal();
        h.bears(WitnessKind::Http2, stream);
        Ok(())
    }

    /// Takes what there is of a reply; of several at once: their ends show after all their heads.
    fn hears(&mut self, step: Step, names: &str) -> Played<()> {
        let (mut messages, mut from, mut behind, mut arrived, mut client) = (Vec::new(), u64::MAX, 0, 0, None);
        for name in names.split(',') {
            let flow = self.asked_of(name)?.flow.clone();
            let is_answered = self.asked_of(name)?.reply.is_some();
            if self.flow_of(&flow)?.server.is_none() && !is_answered {
                self.answers(step, name, &[])?;
            }
            let a = self.asked_of(name)?;
            let (start, end) = a.reply.ok_or("there is no reply yet")?;
            let (status, flow, to) = (a.status, a.flow.clone(), start + a.reply_sent);
            arrived = arrived.max(a.sent_at + 1);
            if !std::mem::replace(&mut a.reply_known, true) {
                messages.push((name.to_owned(), start..end, status));
            }
            let f = self.flow_of(&flow)?;
            (from, behind) = (from.min(f.read[1].max(start)), to);
            f.read[1] = to;
            client = f.client;
        }
        let ranges: Vec<_> = messages.iter().map(|m| m.1.clone()).filter(|_| messages.len() > 1).collect();
        if !ranges.is_empty() {
            messages.iter_mut().for_each(|m| m.1.end = OPEN);
        }
        self.moved(step, client, from..behind, arrived, &messages)?;
        if let Some((host, end)) = client {
            ranges.into_iter().for_each(|range| self.out.hosts[host].message_ended(step.at, end, range, false));
        }
        Ok(())
    }

    /// Asks which descriptors are ready.
    fn polls(&mut self, step: Step, ready: &str, how: &[&str]) -> Played<()> {
        let Step { at, host, task, .. } = step;
        let (mut entry, mut timeout) = (at, u64::MAX);
        for pair in how.chunks(2) {
            match pair {
                ["since", t] => entry = number(t)? * US,
                ["timeout", ms] => timeout = number(ms)? * 1_000_000,
                _ => return Err("not understood".into()),
            }
        }
        self.out.hosts[host].polled(entry, at, task, number(ready)? as i32, timeout);
        Ok(())
    }

    /// Is handed an input by the library.
    fn given(&mut self, step: Step, flow: &str, how: &[&str]) -> Played<()> {
        let Step { at, host, task, leader, .. } = step;
        let GivenOptions { entry, timeout, ready, kind, isolated } = GivenOptions::read(at, how)?;
        let flow = match flow {
            "-" => 0,
            name => {
                let f = self.flow_of(name)?;
                let mine = if f.leaders[1] == leader { f.server } else { f.client };
                mine.ok_or("this end is not watched")?.1
            }
        };
        let h = &mut self.out.hosts[host];
        h.polled(entry, at, task, if isolated > 0 { 1 } else { ready as i32 }, timeout);
        h.given(at, task, flow, kind, ready, isolated);
        Ok(())
    }

    /// Runs again after a wait.
    fn woken(&mut self, step: Step, [by, blocked]: [&str; 2], how: &[&str]) -> Played<()> {
        let Step { at, host, task, leader, .. } = step;
        let (by, on) = match (by, self.tasks.get(by)) {
            ("timer", _) => (0, 0),
            (_, Some(t)) => (t.number, 0),
            (flow, None) => {
                let f = self.flow_of(flow)?;
                // its own end, where both are on its host
                let ends = if f.leaders[1] == leader { [f.server, f.client] } else { [f.client, f.server] };
                let side = ends.into_iter().flatten().find(|s| s.0 == host);
                (0, side.ok_or("this end is not watched")?.1)
            }
        };
        let (mut woken, mut futex, mut is_epoll, mut is_datagram) = (at - US, None, false, false);
        for pair in how.chunks(2) {
            match pair {
                ["when", t] => woken = number(t)? * US,
                ["at", address] => futex = Some(number(address)?),
                ["in", "epoll"] => is_epoll = true,
                ["by", "datagram"] => is_datagram = true,
                other => return Err(format!("unknown behind `woken`: {other:?}")),
            }
        }
        let h = &mut self.out.hosts[host];
        h.waited(number(blocked)? * US, woken, at, task, by, on);
        futex.into_iter().for_each(|address| h.at_futex(address));
        if is_epoll {
            h.in_epoll();
        }
        if is_datagram {
            h.by_datagram();
        }
        Ok(())
    }

    fn takes(&mut self, step: Step, names: &str, flow: Option<&str>, part: Part) -> Played<()> {
        let mut messages = Vec::new();
        let (mut server, mut from, mut to, mut arrived) = (None, u64::MAX, 0, u64::MAX);
        for name in names.split(',') {
            if let Some(flow) = flow {
                self.begin(name, flow, step.at, None)?;
            }
            let a = self.asked_of(name)?;
            let (flow, start, sent_at) = (a.flow.clone(), a.start, a.sent_at);
            let f = self.flow_of(&flow)?;
            server = f.server;
            from = from.min(start);
            to = to.max(start + REQUEST_BYTES);
            f.read[0] = to;
            arrived = arrived.min(if f.client.is_some() { sent_at + 1 } else { step.at - US });
            messages.push((name.to_owned(), start..start + REQUEST_BYTES, 0));
        }
        match part {
            Part::Whole => self.moved(step, server, from..to, arrived, &messages),
            Part::Head => self.moved(step, server, from..from + REQUEST_BYTES / 2, arrived, &messages),
            Part::Rest => self.moved(step, server, from + REQUEST_BYTES / 2..to, arrived, &[]),
        }
    }

    fn answers(&mut self, step: Step, name: &str, how: &[&str]) -> Played<()> {
        let mut status = 200;
        let mut part = None;
        for word in how {
            match *word {
                "part" | "rest" => part = Some(*word),
                code => status = number(code)? as u16,
            }
        }
        let flow = self.asked_of(name)?.flow.clone();
        let f = self.flow_of(&flow)?;
        let next = f.sent[1];
        let (server, overlaps) = (f.server, (f.has_streams || f.is_chunked) && part.is_some());
        let a = self.asked_of(name)?;
        let is_first = a.reply.is_none();
        let (start, end) = *a.reply.get_or_insert((next, next + REPLY_BYTES));
        let (from, to) = match part {
            Some("part") => (start + a.reply_sent, start + HEAD_BYTES),
            // after whatever else was sent there
            Some(_) if overlaps => (next, next + REPLY_BYTES - HEAD_BYTES),
            _ => (start + a.reply_sent, end),
        };
        a.reply_sent = to - start;
        if is_first {
            a.status = status;
        }
        a.sent_at = step.at;
        let (call, status) = (a.call, a.status);
        let f = self.flow_of(&flow)?;
        f.sent[1] = f.sent[1].max(to);
        if part != Some("part") {
            self.out.truth.calls[call].ended_ns = step.at;
        }
        if server.is_none() {
            return Ok(()); // nobody sees it leave
        }
        let message = [(name.to_owned(), start..if overlaps { OPEN } else { end }, status)];
        self.moved(step, server, from..to, 0, if is_first { &message } else { &[] })?;
        if let Some((host, flow)) = server.filter(|_| overlaps && !is_first) {
            self.out.hosts[host].message_ended(step.at, flow, start..to, true);
        }
        Ok(())
    }
}
