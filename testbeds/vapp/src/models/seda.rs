//! Stages with their own threads and queues: the reader (one epoll thread) reads requests and downstream replies, the
//! logic stage decides and sends downstream requests without waiting, the writer stage sends what goes upstream.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::{self, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::Queue;
use crate::calls::{self, Pool};
use crate::job::{Action, Call, Context, Job};
use crate::net::{self, Conn, Epoll, READ};
use crate::options::Policy;
use crate::truth::Hop;
use crate::wire::{Decoder, Frame, Message};

const LISTENER: u64 = 0;
const WAKER: u64 = 1;
const WRITERS: usize = 2;

/// A connection from upstream.
struct Session {
    stream: TcpStream,
    state: Mutex<SessionState>,
}

struct SessionState {
    decoder: Decoder,
    /// Requests read while another is under way.
    pending: VecDeque<Job>,
    busy: bool,
    gone: bool,
    kept: HashMap<usize, Arc<Down>>,
}

/// A connection to downstream.
struct Down {
    token: u64,
    server: usize,
    state: Mutex<DownState>,
}

struct DownState {
    conn: Conn,
    /// The reader has seen its end and watches it no more.
    ended: bool,
    /// Who waits for the reply.
    current: Option<(Work, Hop)>,
}

/// A request under way; whoever holds this is at it.
struct Work {
    session: Arc<Session>,
    job: Job,
}

enum Task {
    Go(Work),
    Reply(Work, Hop, Option<Message>),
}

struct Out {
    work: Work,
    frame: Frame,
    last: bool,
}

struct Stages {
    context: Arc<Context>,
    epoll: Epoll,
    waker: UnixStream,
    next_token: AtomicU64,
    logic: Queue<Task>,
    writer: Queue<Out>,
    downs: Mutex<HashMap<u64, Arc<Down>>>,
    timers: Mutex<BTreeMap<(u64, u64), Work>>,
    pool: Option<Arc<Pool<Arc<Down>>>>,
}

/// Serves for ever.
pub fn serve(context: &Arc<Context>, listener: TcpListener) -> io::Result<()> {
    let (waker, woken) = UnixStream::pair()?;
    waker.set_nonblocking(true)?;
    woken.set_nonblocking(true)?;
    let stages = Arc::new(Stages {
        context: Arc::clone(context),
        epoll: Epoll::new()?,
        waker,
        next_token: AtomicU64::new(WAKER + 1),
        logic: Queue::new(),
        writer: Queue::new(),
        downs: Mutex::default(),
        timers: Mutex::default(),
        pool: calls::pool(context),
    });
    let spawn = |count, step: fn(&Stages)| {
        for _ in 0..count {
            let stages = Arc::clone(&stages);
            std::thread::spawn(move || {
                loop {
                    step(&stages);
                }
            });
        }
    };
    spawn(context.workers(4), Stages::logic_step);
    spawn(WRITERS, Stages::writer_step);
    stages.read(&listener, &woken)
}

impl Stages {
    fn token(&self) -> u64 {
        self.next_token.fetch_add(1, Ordering::Relaxed)
    }

    // The reader stage.

    fn read(&self, listener: &TcpListener, mut woken: &UnixStream) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        self.epoll.add(listener.as_raw_fd(), LISTENER, READ)?;
        self.epoll.add(woken.as_raw_fd(), WAKER, READ)?;
        let (mut sessions, mut events) = (HashMap::new(), Vec::new());
        loop {
            let next_timer = self.timers.lock().unwrap().first_key_value().map(|((at_ns, _), _)| *at_ns);
            self.epoll.wait(next_timer, &mut events)?;
            self.fire_timers();
            for &(token, _) in &events {
                match token {
                    LISTENER => self.accept(listener, &mut sessions)?,
                    WAKER => {
                        let _ = io::Read::read(&mut woken, &mut [0; 256]);
                    }
                    _ if sessions.contains_key(&token) => {
                        if self.read_session(&sessions[&token]).is_err()
                            && let Some(session) = sessions.remove(&token)
                        {
                            self.epoll.remove(session.stream.as_raw_fd())?;
                            let mut state = session.state.lock().unwrap();
                            state.gone = true;
                            self.forget_if_idle(&mut state);
                        }
                    }
                    _ => {
                        let down = self.downs.lock().unwrap().get(&token).cloned();
                        if let Some(down) = down {
                            self.read_down(&down);
                        }
                    }
                }
            }
        }
    }

    fn fire_timers(&self) {
        let mut timers = self.timers.lock().unwrap();
        let now_ns = net::now_ns();
        while let Some(first) = timers.first_entry()
            && first.key().0 <= now_ns
        {
            self.logic.push(Task::Go(first.remove()));
        }
    }

    fn accept(&self, listener: &TcpListener, sessions: &mut HashMap<u64, Arc<Session>>) -> io::Result<()> {
        while let Ok((stream, _)) = listener.accept() {
            let Ok(()) = stream.set_nodelay(true) else {
                continue;
            };
            let (token, fd) = (self.token(), stream.as_raw_fd());
            let state = Mutex::new(SessionState {
                decoder: Decoder::new(self.context.style.wire),
                pending: VecDeque::new(),
                busy: false,
                gone: false,
                kept: HashMap::new(),
            });
            sessions.insert(token, Arc::new(Session { stream, state }));
            self.epoll.add(fd, token, READ)?;
        }
        Ok(())
    }

    fn read_session(&self, session: &Arc<Session>) -> io::Result<()> {
        let mut state = session.state.lock().unwrap();
        if !net::read_some(&session.stream, &mut state.decoder, self.context.style)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        while let Some(message) = state.decoder.next()? {
            let job = Job::new(&self.context, &message).ok_or(io::ErrorKind::InvalidData)?;
            if state.busy {
                state.pending.push_back(job);
            } else {
                state.busy = true;
                self.logic.push(Task::Go(Work { session: Arc::clone(session), job }));
            }
        }
        Ok(())
    }

    fn read_down(&self, down: &Arc<Down>) {
        let mut guard = down.state.lock().unwrap();
        let state = &mut *guard;
        let read = net::read_some(&state.conn.stream, &mut state.conn.decoder, self.context.style);
        let reply = match (read, state.conn.decoder.next()) {
            (_, Ok(Some(message))) => Some(message),
            (Ok(true), Ok(None)) => return,
            _ => None,
        };
        let current = state.current.take();
        if reply.is_none() {
            state.ended = true;
            let _ = self.epoll.remove(state.conn.stream.as_raw_fd());
        }
        drop(guard);
        let usable = reply.is_some() && current.is_some();
        self.release(down, current.as_ref().map(|(work, _)| &*work.session), usable);
        if let Some((work, mut hop)) = current {
            if let Some(reply) = &reply {
                hop.replied(reply);
            }
            self.logic.push(Task::Reply(work, hop, reply));
        }
    }

    /// Gives a downstream connection back, or forgets it.
    fn release(&self, down: &Arc<Down>, session: Option<&Session>, usable: bool) {
        let keep = usable && self.context.policy != Policy::New;
        if !keep {
            self.downs.lock().unwrap().remove(&down.token);
        }
        match (&self.pool, session) {
            // an idle pooled connection that ended stays on its shelf: the next call on it fails and removes it
            (Some(pool), Some(_)) => pool.give(down.server, keep.then(|| Arc::clone(down))),
            (None, Some(session)) if !keep => drop(session.state.lock().unwrap().kept.remove(&down.server)),
            _ => {}
        }
    }

    // The logic stage.

    fn logic_step(&self) {
        let mut work = match self.logic.pop() {
            Task::Go(work) => work,
            Task::Reply(mut work, hop, reply) => {
                work.job.answered(hop, reply.as_ref());
                work
            }
        };
        loop {
            match work.job.next() {
                Action::Think(time) => {
                    let at_ns = net::now_ns() + time.as_nanos() as u64;
                    self.timers.lock().unwrap().insert((at_ns, self.token()), work);
                    let _ = (&self.waker).write(&[1]); // full means that a wake-up is on its way
                    return;
                }
                Action::Part(frame) => {
                    return self.writer.push(Out { work, frame, last: false });
                }
                Action::Reply(frame) => {
                    return self.writer.push(Out { work, frame, last: true });
                }
                Action::Call(call) => match self.call(work, call) {
                    None => return,
                    Some(failed) => work = failed,
                },
            }
        }
    }

    /// Sends a call. The work comes back if that failed.
    fn call(&self, mut work: Work, call: Call) -> Option<Work> {
        let Call { server, frame, mut hop } = call;
        let Ok(down) = self.take(&work.session, server) else {
            if let Some(pool) = &self.pool {
                pool.give(server, None);
            }
            work.job.answered(hop, None);
            return Some(work);
        };
        let mut state = down.state.lock().unwrap();
        if state.ended || state.conn.send(&frame, &mut hop).is_err() {
            drop(state);
            self.release(&down, Some(&work.session), false);
            work.job.answered(hop, None);
            return Some(work);
        }
        state.current = Some((work, hop));
        None
    }

    fn take(&self, session: &Session, server: usize) -> io::Result<Arc<Down>> {
        let kept = match (&self.pool, self.context.policy) {
            (Some(pool), _) => pool.take(server), // may wait: it is the reader that gives connections back
            (None, Policy::New) => None,
            (None, _) => session.state.lock().unwrap().kept.get(&server).cloned(),
        };
        if let Some(down) = kept {
            return Ok(down);
        }
        let conn = Conn::open(self.context.shape.address(self.context.tier + 1, server), self.context.style)?;
        let (token, fd) = (self.token(), conn.stream.as_raw_fd());
        let down = Arc::new(Down { token, server, state: Mutex::new(DownState { conn, ended: false, current: None }) });
        self.downs.lock().unwrap().insert(token, Arc::clone(&down));
        self.epoll.add(fd, token, READ)?;
        if self.pool.is_none() && self.context.policy != Policy::New {
            session.state.lock().unwrap().kept.insert(server, Arc::clone(&down));
        }
        Ok(down)
    }

    // The writer stage.

    fn writer_step(&self) {
        let Out { work, frame, last } = self.writer.pop();
        if net::write_frame(&work.session.stream, &frame, self.context.style).is_err() {
            let _ = work.session.stream.shutdown(Shutdown::Both);
        }
        if !last {
            return self.logic.push(Task::Go(work));
        }
        let session = work.session;
        let mut state = session.state.lock().unwrap();
        match state.pending.pop_front() {
            Some(job) if !state.gone => self.logic.push(Task::Go(Work { session: Arc::clone(&session), job })),
            _ => {
                state.busy = false;
                self.forget_if_idle(&mut state);
            }
        }
    }

    /// Closes what a session kept, once it is gone and nothing is under way.
    fn forget_if_idle(&self, state: &mut SessionState) {
        if state.gone && !state.busy {
            for (_, down) in state.kept.drain() {
                self.downs.lock().unwrap().remove(&down.token);
            }
        }
    }
}
