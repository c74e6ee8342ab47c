//! What a program may do: each call takes its time, and leaves the rows that the kernel would show of it.

use super::{Conn, Event, Got, Inner, Listener, Queue, Read, Sock, Source, Thread, US, Wire, World, pause};
use crate::recording::{Announced, HEAD_BYTES, HostRows};
use crate::truth::Call;
use std::future::Future;
use wakepath_model::rows::{InputKind, OpKind, SeenHow, Side, WitnessKind};

impl Thread {
    /// The world.
    pub fn world(&self) -> &World {
        &self.process.world
    }

    fn rows(&self, f: impl FnOnce(&mut HostRows)) {
        if let Some(h) = self.process.host {
            f(&mut self.world().0.borrow_mut().recording.hosts[h]);
        }
    }

    /// Starts another thread of the process.
    pub fn spawn<F: Future<Output = ()> + 'static>(&self, program: impl FnOnce(Thread) -> F) {
        let task = self.process.new_task(self.task, Some(self.world().now()));
        self.world().spawn(program(Thread { process: self.process.clone(), task }));
    }

    /// Works for up to `us` microseconds.
    pub async fn work(&self, us: u64) {
        let ns = self.world().within(US, us.max(1) * US);
        self.world().sleep(ns).await;
    }

    /// Sleeps.
    pub async fn sleep(&self, us: u64) {
        let (w, blocked) = (self.world(), self.world().now());
        w.sleep(us * US).await;
        let woken = w.now();
        self.runs_again(blocked, woken, 0, 0).await;
    }

    async fn runs_again(&self, blocked: u64, woken: u64, by: u32, on: u64) {
        let w = self.world();
        w.sleep(w.within(3 * US, 40 * US)).await;
        let ran = w.now();
        self.rows(|h| h.waited(blocked, woken.max(blocked), ran, self.task, by, on));
    }

    /// Waits until one of the sources is ready, or the deadline; true where it is.
    #[expect(clippy::await_holding_refcell_ref, reason = "it is dropped before")]
    async fn ready(&self, sources: &[Source], deadline: u64) -> bool {
        let w = self.world();
        let blocked = w.now();
        let mut has_blocked = false;
        loop {
            {
                let mut w = w.0.borrow_mut();
                let now = w.now;
                let first = sources.iter().filter_map(|&s| w.ready_at(s).map(|t| (t, s))).min_by_key(|f| f.0);
                if let Some((t, s)) = first
                    && t <= now
                {
                    let (by, on) = match s {
                        Source::Event(Event(e)) => (w.events[e].by.map_or(0, |b| b.1), 0),
                        Source::Conn(Conn(c)) => (0, w.socks[c].end.map_or(1, |e| e.1)),
                        Source::Listener(_) => (0, 1),
                    };
                    drop(w);
                    if has_blocked {
                        self.runs_again(blocked, t, by, on).await;
                    }
                    return true;
                }
                if now >= deadline {
                    drop(w);
                    if has_blocked {
                        self.runs_again(blocked, deadline, 0, 0).await;
                    }
                    return false;
                }
                let me = w.me();
                for &s in sources {
                    if let Some(t) = w.ready_at(s) {
                        w.wake(me, t);
                    }
                    let waiters = w.waiters(s);
                    waiters.retain(|w| w.fiber != me.fiber);
                    waiters.push(me);
                }
                if deadline != u64::MAX {
                    w.wake(me, deadline);
                }
            }
            has_blocked = true;
            pause().await;
        }
    }

    /// Waits as epoll does: everything that is ready.
    pub async fn poll(&self, sources: &[Source], timeout_ms: Option<u64>) -> Vec<Source> {
        let w = self.world();
        let entry = w.now();
        let deadline = timeout_ms.map_or(u64::MAX, |ms| entry + ms * 1_000_000);
        self.ready(sources, deadline).await;
        w.sleep(w.within(500, 4 * US)).await;
        let mut ready: Vec<Source> = {
            let w = w.0.borrow();
            sources.iter().copied().filter(|&s| w.ready_at(s).is_some_and(|t| t <= w.now)).collect()
        };
        let (at, n) = (w.now(), ready.len() as i32);
        let timeout_ns = timeout_ms.map_or(u64::MAX, |ms| ms * 1_000_000);
        if !w.0.borrow().is_isolating || n == 0 {
            self.rows(|h| h.polled(entry, at, self.task, n, timeout_ns));
            return ready;
        }
        let given = ready.swap_remove(w.within(0, ready.len() as u64 - 1) as usize);
        let (flow, kind) = match given {
            Source::Conn(Conn(c)) => (w.0.borrow().socks[c].end.map_or(0, |e| e.1), InputKind::Read),
            Source::Listener(_) => (1 << 40, InputKind::Read),
            Source::Event(_) => (0, InputKind::Other),
        };
        self.rows(|h| {
            h.polled(entry, at, self.task, 1, timeout_ns);
            h.given(at, self.task, flow, kind, n as u32, 1);
        });
        vec![given]
    }

    /// Accepts a connection.
    pub async fn accept(&self, l: Listener) -> Conn {
        loop {
            self.ready(&[Source::Listener(l)], u64::MAX).await;
            let w = self.world();
            let entry = w.now();
            let taken = {
                let mut w = w.0.borrow_mut();
                let now = w.now;
                let l = &mut w.listeners[l.0];
                if l.backlog.front().is_some_and(|b| b.0 <= now) { l.backlog.pop_front() } else { None }
            };
            let Some((_, sock)) = taken else { continue };
            w.sleep(w.within(US, 8 * US)).await;
            let at = w.now();
            let (end, announced) = {
                let w = w.0.borrow();
                (w.socks[sock].end, w.socks[sock].announced)
            };
            if let (Some((_, flow)), Some(mut a)) = (end, announced) {
                a.task = self.task;
                self.rows(|h| {
                    h.endpoint(at, &a);
                    h.op(entry, at, self.task, flow, OpKind::Accept, 0);
                });
            }
            return Conn(sock);
        }
    }

    /// Connects.
    pub async fn connect(&self, l: Listener) -> Conn {
        let w = self.world();
        let entry = w.now();
        let (client, mine, latency) = {
            let mut w = w.0.borrow_mut();
            let w = &mut *w;
            let (host, server_host) = (self.process.host, w.listeners[l.0].host);
            let latency = if host == server_host { (4 * US, 12 * US) } else { (80 * US, 150 * US) };
            let listening = &w.listeners[l.0];
            let here = if listening.netns > 1 { [127, 0, 0, 1] } else { Inner::address(host) };
            let (netns, to) = (listening.netns, l.0);
            // a port is given again when both ends of its last connection to there are closed
            let first = w.ports + 1;
            let candidates = (0..w.ports_wrap).map(|i| 32_768 + (first + i) % w.ports_wrap);
            let port = candidates.chain(53_000..u16::MAX).find(|&p| w.used.insert((here, p, to))).unwrap_or(0);
            w.ports = first % w.ports_wrap;
            let (mut ends, there) = ([None, None], (w.listeners[to].address, w.listeners[to].port));
            for (slot, h) in ends.iter_mut().zip([host, server_host]) {
                if let Some(h) = h {
                    w.flows += 1;
                    *slot = Some((h, w.flows));
                }
            }
            let numbers = [w.random.within(1, u64::from(u32::MAX)), w.random.within(1, u64::from(u32::MAX))];
            let dialled = w.listeners[to].published.unwrap_or(there);
            let announce = |is_server: bool, end: Option<(usize, u64)>| {
                end.map(|(_, flow)| Announced {
                    flow,
                    local: if is_server { there } else { (here, port) },
                    remote: if is_server { (here, port) } else { dialled },
                    netns,
                    snd: numbers[usize::from(is_server)],
                    rcv: numbers[usize::from(!is_server)],
                    task: self.task,
                    how: if is_server { SeenHow::Accepted } else { SeenHow::Connected },
                    side: if is_server { Side::Server } else { Side::Client },
                })
            };
            let (opaque, multiplexed) = (w.listeners[to].opaque, w.listeners[to].multiplexed);
            let index = w.socks.len();
            for (i, is_server) in [(0, false), (1, true)] {
                w.socks.push(Sock {
                    end: ends[i],
                    peer: index + 1 - i,
                    snd: numbers[i],
                    rcv: numbers[1 - i],
                    latency,
                    opaque,
                    multiplexed,
                    announced: announce(is_server, ends[i]),
                    tuple: (here, port, to),
                    ..Sock::default()
                });
            }
            let arrives = w.now + w.random.within(latency.0, latency.1);
            w.listeners[l.0].backlog.push_back((arrives, index + 1));
            w.wake_all(Source::Listener(l), arrives);
            (index, w.socks[index].announced, latency)
        };
        w.sleep(2 * w.within(latency.0, latency.1)).await;
        let at = w.now();
        if let Some(a) = mine {
            self.rows(|h| {
                h.endpoint(entry + 1, &a);
                h.op(entry, at, self.task, a.flow, OpKind::Connect, 0);
            });
        }
        Conn(client)
    }

    /// Sends a request in the service of `cause`; gives its number.
    pub async fn request(&self, c: Conn, target: &str, bytes: u64, cause: Option<usize>) -> usize {
        let call = {
            let mut w = self.world().0.borrow_mut();
            let peer = w.socks[c.0].peer;
            let call = w.recording.truth.calls.len();
            let new = Call {
                name: format!("{target}#{call}"),
                cause,
                client: w.end(c.0),
                server: w.end(peer),
                wire: Vec::new(),
                start: w.socks[c.0].snd,
                began_ns: w.now,
                ended_ns: u64::MAX,
            };
            w.recording.truth.calls.push(new);
            call
        };
        self.send(c, Got { call, is_reply: false }, bytes, bytes, 0).await;
        call
    }

    /// Sends a whole reply.
    pub async fn reply(&self, c: Conn, call: usize, bytes: u64, status: u16) {
        self.send(c, Got { call, is_reply: true }, bytes, bytes, status).await;
    }

    /// Sends the first `first` bytes of a reply.
    pub async fn begin_reply(&self, c: Conn, call: usize, bytes: u64, first: u64, status: u16) {
        self.send(c, Got { call, is_reply: true }, bytes, first, status).await;
    }

    /// Sends the rest of a reply.
    pub async fn end_reply(&self, c: Conn, call: usize) {
        let rest = self.world().0.borrow_mut().socks[c.0].rests.remove(&call);
        if let Some((from, to)) = rest {
            self.write(c, to - from).await;
            self.ended(call);
        }
    }

    fn ended(&self, call: usize) {
        let now = self.world().now();
        self.world().0.borrow_mut().recording.truth.calls[call].ended_ns = now;
    }

    async fn send(&self, c: Conn, got: Got, bytes: u64, first: u64, status: u16) {
        let is_split = {
            let mut w = self.world().0.borrow_mut();
            let w = &mut *w;
            let (start, peer) = (w.socks[c.0].snd, w.socks[c.0].peer);
            let wire = Wire { start, end: start + bytes, is_told: false, got, status };
            w.socks[peer].wire.push_back(wire);
            if first < bytes {
                w.socks[c.0].rests.insert(got.call, (start + first, start + bytes));
            }
            let percent = w.split_percent;
            w.random.chance(percent)
        };
        let at_once = if is_split { first / 2 } else { first };
        let start = self.world().0.borrow().socks[c.0].snd;
        self.write(c, at_once).await;
        if at_once < HEAD_BYTES.min(bytes) {
            self.write(c, first - at_once).await;
            self.tell(c, true, start, bytes, got, status);
        } else {
            self.tell(c, true, start, bytes, got, status);
            if at_once < first {
                self.write(c, first - at_once).await;
            }
        }
        if got.is_reply && first == bytes {
            self.ended(got.call);
        }
    }

    /// The first bytes tell the protocol, or that it is none.
    fn note(&self, c: Conn) {
        let (end, opaque, noted, now) = {
            let mut w = self.world().0.borrow_mut();
            let now = w.now;
            let s = &mut w.socks[c.0];
            (s.end, s.opaque, std::mem::replace(&mut s.noted, true), now)
        };
        if let Some((_, flow)) = end
            && !noted
        {
            self.rows(|h| h.note(now, flow, !opaque));
        }
    }

    /// The row of a message whose head is complete here.
    fn tell(&self, c: Conn, sent: bool, start: u64, bytes: u64, got: Got, status: u16) {
        let (end, opaque, multiplexed, now) = {
            let w = self.world().0.borrow();
            (w.socks[c.0].end, w.socks[c.0].opaque, w.socks[c.0].multiplexed, w.now)
        };
        let name = {
            let w = self.world().0.borrow();
            let name = &w.recording.truth.calls[got.call].name;
            name.split('#').next().unwrap_or_default().to_owned()
        };
        let Some((_, flow)) = end else { return };
        let status = if got.is_reply { status.max(1) } else { 0 };
        if !opaque {
            self.rows(|h| h.message(now, flow, sent, start..start + bytes, ("GET", &name), status));
            if multiplexed {
                self.rows(|h| h.bears(WitnessKind::Http2, got.call as u64 + 1));
            }
        }
    }

    async fn write(&self, c: Conn, bytes: u64) {
        let w = self.world();
        let entry = w.now();
        let (end, from, cost) = {
            let mut w = w.0.borrow_mut();
            let w = &mut *w;
            let s = &mut w.socks[c.0];
            let (from, peer, latency, end) = (s.snd, s.peer, s.latency, s.end);
            s.snd += bytes;
            let before = w.socks[peer].segments.back().map_or(0, |s| s.1);
            let arrives = (entry + w.random.within(latency.0, latency.1)).max(before);
            w.socks[peer].segments.push_back((from + bytes, arrives));
            w.wake_all(Source::Conn(Conn(peer)), arrives);
            (end, from, w.random.within(2 * US, 30 * US))
        };
        w.sleep(cost).await;
        let at = w.now();
        if let Some((_, flow)) = end {
            self.rows(|h| h.moved((entry, at, 0), self.task, flow, true, from..from + bytes));
            self.note(c);
        }
    }

    /// Reads what is there, without waiting.
    pub async fn read(&self, c: Conn) -> Read {
        let w = self.world();
        let entry = w.now();
        let moved = {
            let mut w = w.0.borrow_mut();
            let is_isolating = w.is_isolating;
            let s = &mut w.socks[c.0];
            if !s.parsed.is_empty() {
                return Read::Messages(s.parsed.drain(..).collect());
            }
            let (from, mut arrived) = (s.rcv, 0);
            let border = if is_isolating { s.wire.iter().map(|m| m.end).find(|&e| e > from) } else { None };
            while s.rcv < border.unwrap_or(u64::MAX)
                && let Some(&(end, at)) = s.segments.front()
                && at <= entry
            {
                // what is behind the border stays to be read
                if border.is_none_or(|b| end <= b) {
                    s.segments.pop_front();
                }
                s.rcv = end.min(border.unwrap_or(u64::MAX));
                arrived = if arrived == 0 { at } else { arrived };
            }
            match (arrived, s.over) {
                (0, Some(t)) if t <= entry && s.segments.is_empty() => None,
                _ => Some((from..s.rcv, arrived)),
            }
        };
        w.sleep(w.within(US, 10 * US)).await;
        let (at, end) = (w.now(), w.0.borrow().socks[c.0].end);
        let Some((bytes, arrived)) = moved else {
            if let Some((_, flow)) = end {
                self.rows(|h| h.op(entry, at, self.task, flow, OpKind::Recv, 0));
            }
            return Read::End;
        };
        if bytes.is_empty() {
            return Read::Messages(Vec::new());
        }
        if let Some((_, flow)) = end {
            self.rows(|h| h.moved((entry, at, arrived), self.task, flow, false, bytes.clone()));
            self.note(c);
        }
        let (mut told, mut whole) = (Vec::new(), Vec::new());
        {
            let mut w = w.0.borrow_mut();
            let s = &mut w.socks[c.0];
            for m in &mut s.wire {
                if !m.is_told && m.start + HEAD_BYTES.min(m.end - m.start) <= bytes.end {
                    m.is_told = true;
                    told.push(m.clone());
                }
            }
            while s.wire.front().is_some_and(|m| m.end <= bytes.end) {
                whole.extend(s.wire.pop_front().map(|m| m.got));
            }
        }
        for m in told {
            self.tell(c, false, m.start, m.end - m.start, m.got, m.status);
        }
        Read::Messages(whole)
    }

    /// Waits for a message; none where the other side closed.
    pub async fn recv(&self, c: Conn) -> Option<Got> {
        loop {
            self.ready(&[Source::Conn(c)], u64::MAX).await;
            match self.read(c).await {
                Read::End => return None,
                Read::Messages(mut all) if !all.is_empty() => {
                    let first = all.remove(0);
                    self.world().0.borrow_mut().socks[c.0].parsed.extend(all);
                    return Some(first);
                }
                Read::Messages(_) => {}
            }
        }
    }

    /// Asks and waits for the reply.
    pub async fn call(&self, c: Conn, target: &str, cause: Option<usize>) {
        self.request(c, target, self.world().within(60, 300), cause).await;
        self.recv(c).await;
    }

    /// Closes its end.
    pub async fn close(&self, c: Conn) {
        let w = self.world();
        w.sleep(w.within(500, 3 * US)).await;
        let (now, end) = {
            let mut w = w.0.borrow_mut();
            let w = &mut *w;
            let (peer, latency) = (w.socks[c.0].peer, w.socks[c.0].latency);
            let before = w.socks[peer].segments.back().map_or(0, |s| s.1);
            let arrives = (w.now + w.random.within(latency.0, latency.1)).max(before);
            w.socks[peer].over = Some(arrives);
            w.socks[c.0].is_closed = true;
            if w.socks[peer].is_closed {
                let tuple = w.socks[c.0].tuple;
                w.used.remove(&tuple);
            }
            w.wake_all(Source::Conn(Conn(peer)), arrives);
            (w.now, w.socks[c.0].end)
        };
        if let Some((_, flow)) = end {
            self.rows(|h| h.closed(now, flow, self.task, false));
        }
    }

    /// Signals (a write to an eventfd).
    pub async fn signal(&self, e: Event) {
        let w = self.world();
        w.sleep(w.within(US, 4 * US)).await;
        let mut w = w.0.borrow_mut();
        let now = w.now;
        w.events[e.0].count += 1;
        w.events[e.0].by = Some((now, self.task));
        w.wake_all(Source::Event(e), now);
    }

    /// Takes all signals, without waiting.
    pub async fn take_signals(&self, e: Event) {
        let w = self.world();
        w.sleep(w.within(500, 2 * US)).await;
        w.0.borrow_mut().events[e.0].count = 0;
    }

    /// Puts an item into a queue, and wakes who waits longest.
    pub async fn push<T>(&self, q: &Queue<T>, item: T) {
        let w = self.world();
        let sleeper = {
            let mut q = q.0.borrow_mut();
            q.items.push_back(item);
            let next = q.waiters.pop_front();
            if let Some(s) = next {
                q.woken.insert(s, (self.task, w.now()));
            }
            next
        };
        if let Some(s) = sleeper {
            let mut w = w.0.borrow_mut();
            let now = w.now;
            w.wake(s, now);
        }
        w.sleep(w.within(500, 3 * US)).await;
    }

    /// An item, without waiting.
    pub fn try_pop<T>(&self, q: &Queue<T>) -> Option<T> {
        q.0.borrow_mut().items.pop_front()
    }

    /// Waits for an item.
    pub async fn pop<T>(&self, q: &Queue<T>) -> T {
        loop {
            if let Some(item) = self.try_pop(q) {
                return item;
            }
            let w = self.world();
            let (blocked, me) = (w.now(), w.0.borrow().me());
            q.0.borrow_mut().waiters.push_back(me);
            pause().await;
            // nothing else wakes it from this pause
            let woken = q.0.borrow_mut().woken.remove(&me);
            let (by, woken) = woken.unwrap_or((0, w.now()));
            self.runs_again(blocked, woken, by, 0).await;
        }
    }
}
