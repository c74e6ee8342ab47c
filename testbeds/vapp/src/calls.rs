//! Blocking calls downstream, with the connection policies.

use std::collections::HashMap;
use std::io;
use std::net::TcpStream;
use std::sync::{Arc, Condvar, Mutex};

use crate::job::{Action, Call, Context, Job};
use crate::net::{self, Conn};
use crate::options::Policy;
use crate::truth::Hop;
use crate::wire::{Frame, Message};

/// At most so many connections to each server, each used by one at a time.
#[derive(Debug)]
pub struct Pool<C> {
    limit: usize,
    servers: Vec<(Mutex<Shelf<C>>, Condvar)>,
}

#[derive(Debug)]
struct Shelf<C> {
    idle: Vec<C>,
    open: usize,
}

impl<C> Pool<C> {
    /// A pool of `limit` connections to each of `servers` servers.
    pub fn new(limit: usize, servers: usize) -> Self {
        let shelf = || (Mutex::new(Shelf { idle: Vec::new(), open: 0 }), Condvar::new());
        Self { limit, servers: (0..servers).map(|_| shelf()).collect() }
    }

    /// Takes a connection, waiting for it. `None` is the permission to open one.
    pub fn take(&self, server: usize) -> Option<C> {
        let (shelf, free) = &self.servers[server];
        let mut shelf = shelf.lock().unwrap();
        loop {
            if let Some(conn) = shelf.idle.pop() {
                return Some(conn);
            }
            if shelf.open < self.limit {
                shelf.open += 1;
                return None;
            }
            shelf = free.wait(shelf).unwrap();
        }
    }

    /// Gives a connection back, or `None` for one that is broken or was never opened.
    pub fn give(&self, server: usize, conn: Option<C>) {
        let (shelf, free) = &self.servers[server];
        let mut shelf = shelf.lock().unwrap();
        match conn {
            Some(conn) => shelf.idle.push(conn),
            None => shelf.open -= 1,
        }
        free.notify_one();
    }
}

/// The shared pool of a process, if the policy wants one.
pub fn pool<C>(context: &Context) -> Option<Arc<Pool<C>>> {
    match context.policy {
        Policy::Pooled(limit) => Some(Arc::new(Pool::new(limit, context.behaviour.servers))),
        _ => None,
    }
}

/// Makes calls and waits for each; one for each thread (or session) that calls.
#[derive(Debug)]
pub struct Caller {
    context: Arc<Context>,
    pool: Option<Arc<Pool<Conn>>>,
    kept: HashMap<usize, Conn>,
}

impl Caller {
    /// A caller; `pool` is there exactly with the pooled policy.
    pub fn new(context: &Arc<Context>, pool: Option<Arc<Pool<Conn>>>) -> Self {
        Self { context: Arc::clone(context), pool, kept: HashMap::new() }
    }

    fn take(&mut self, server: usize) -> io::Result<Conn> {
        let kept = match (&self.pool, self.context.policy) {
            (Some(pool), _) => pool.take(server),
            (None, Policy::New) => None,
            (None, _) => self.kept.remove(&server),
        };
        match kept {
            Some(conn) => Ok(conn),
            None => Conn::open(self.context.shape.address(self.context.tier + 1, server), self.context.style),
        }
    }

    fn give(&mut self, server: usize, conn: Option<Conn>) {
        match (&self.pool, self.context.policy) {
            (Some(pool), _) => pool.give(server, conn),
            (None, Policy::New) => {}
            (None, _) => {
                if let Some(conn) = conn {
                    self.kept.insert(server, conn);
                }
            }
        }
    }

    /// Makes a call; without a reply it failed.
    pub fn call(&mut self, call: Call) -> (Hop, Option<Message>) {
        let Call { server, frame, mut hop } = call;
        let mut attempt = || {
            let mut conn = self.take(server)?;
            conn.send(&frame, &mut hop)?;
            let reply = conn.receive_reply(&mut hop)?;
            Ok::<_, io::Error>((conn, reply))
        };
        let (conn, reply) = match attempt() {
            Ok((conn, reply)) => (Some(conn), Some(reply)),
            Err(_) => (None, None),
        };
        self.give(server, conn);
        (hop, reply)
    }

    /// Does a whole job, blocking; `out` sends parts and the reply upstream.
    pub fn run(&mut self, job: &mut Job, mut out: impl FnMut(Frame) -> io::Result<()>) -> io::Result<()> {
        loop {
            match job.next() {
                Action::Think(time) => std::thread::sleep(time),
                Action::Call(call) => {
                    let (hop, reply) = self.call(call);
                    job.answered(hop, reply.as_ref());
                }
                Action::Part(frame) => out(frame)?,
                Action::Reply(frame) => return out(frame),
            }
        }
    }

    /// Serves one connection to its end, blocking.
    pub fn serve(&mut self, stream: &TcpStream) -> io::Result<()> {
        let context = Arc::clone(&self.context);
        stream.set_nodelay(true)?;
        let mut decoder = crate::wire::Decoder::new(context.style.wire);
        loop {
            while let Some(message) = decoder.next()? {
                let mut job = Job::new(&context, &message).ok_or(io::ErrorKind::InvalidData)?;
                self.run(&mut job, |frame| net::write_frame(stream, &frame, context.style))?;
            }
            if !net::read_some(stream, &mut decoder, context.style)? {
                return Ok(());
            }
        }
    }
}
