//! Frames over a connection, kept until the collector says that it has written them.

use crate::output::tell;
use anyhow::{Context as _, Result};
use std::collections::VecDeque;
use std::io::{Read, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wakepath_model::forward::Frame;

/// Between two attempts to connect.
const AGAIN: Duration = Duration::from_millis(500);
/// A connection on which nothing moves for so long is given up; and the end is waited for so long.
const PATIENCE: Duration = Duration::from_secs(10);

/// What was left at the end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Left {
    pub frames: u64,
    pub rows: u64,
    pub resumed: u64,
}

struct Kept {
    sequence: u64,
    rows: u64,
    bytes: Vec<u8>,
}

#[derive(Default)]
struct Queue {
    /// Frames that were not acknowledged, by number.
    kept: VecDeque<Kept>,
    bytes: usize,
    /// The latest hello.
    hello: Vec<u8>,
    /// It was not sent on this connection yet.
    is_hello_due: bool,
    /// The sender ends: once all is acknowledged, the thread does.
    is_ending: bool,
    /// The last hello is acknowledged, or nobody waits for it any more.
    is_over: bool,
    /// The connection is broken.
    is_broken: bool,
    /// Number of acknowledgements so far: that it grows shows that something moves.
    acknowledged: u64,
    /// Where that stood when a frame had waited in vain: until it moves no other waits.
    given_up: Option<u64>,
    connections: u64,
}

struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection to a collector that is made again where it breaks.
pub struct Resumed {
    to: SocketAddr,
    bytes_max: usize,
    may_wait: bool,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Resumed {
    /// Keeps at most `bytes_max` bytes. `may_wait`: where they are full, [`Self::push`] waits.
    pub fn new(to: SocketAddr, bytes_max: usize, may_wait: bool) -> Resumed {
        let shared = Arc::new(Shared { queue: Mutex::default(), changed: Condvar::new() });
        Resumed { to, bytes_max, may_wait, shared, thread: None }
    }

    /// Starts the thread that sends.
    pub fn start(&mut self) -> Result<()> {
        let (to, shared) = (self.to, Arc::clone(&self.shared));
        let thread = std::thread::Builder::new().name("forward".into()).spawn(move || keep_connected(to, &shared));
        self.thread = Some(thread.context("starting the thread that sends on")?);
        Ok(())
    }

    /// Takes a frame; says whether there was room.
    pub fn push(&mut self, frame: &[u8]) -> bool {
        let Ok(head) = Frame::read(frame) else { return false };
        let mut queue = self.shared.lock();
        // a file may be held up, but not for ever by a collector that does not come
        while self.may_wait
            && queue.bytes + frame.len() > self.bytes_max
            && !queue.kept.is_empty()
            && queue.given_up != Some(queue.acknowledged)
        {
            let acknowledged = queue.acknowledged;
            let (next, timeout) =
                self.shared.changed.wait_timeout(queue, PATIENCE).unwrap_or_else(PoisonError::into_inner);
            queue = next;
            if timeout.timed_out() && queue.acknowledged == acknowledged {
                queue.given_up = Some(acknowledged);
            }
        }
        if queue.bytes + frame.len() > self.bytes_max {
            return false;
        }
        queue.bytes += frame.len();
        queue.kept.push_back(Kept { sequence: head.sequence, rows: head.rows, bytes: frame.to_vec() });
        self.shared.changed.notify_all();
        true
    }

    /// Takes the newest hello.
    pub fn hello(&mut self, frame: &[u8]) {
        let mut queue = self.shared.lock();
        queue.hello.clear();
        queue.hello.extend_from_slice(frame);
        queue.is_hello_due = true;
        self.shared.changed.notify_all();
    }

    /// Waits until all is acknowledged; what is not after [`PATIENCE`] without any progress is lost.
    pub fn finish(mut self, stop: &AtomicBool) -> Left {
        let mut queue = self.shared.lock();
        queue.is_ending = true;
        self.shared.changed.notify_all();
        let asked = stop.swap(false, Ordering::Relaxed);
        let (mut acknowledged, mut moved) = (queue.acknowledged, Instant::now());
        while !queue.is_over && moved.elapsed() < PATIENCE && !stop.load(Ordering::Relaxed) {
            let tick = Duration::from_millis(50);
            queue = self.shared.changed.wait_timeout(queue, tick).unwrap_or_else(PoisonError::into_inner).0;
            if queue.acknowledged != acknowledged {
                (acknowledged, moved) = (queue.acknowledged, Instant::now());
            }
        }
        stop.fetch_or(asked, Ordering::Relaxed);
        let left = Left {
            frames: queue.kept.len() as u64,
            rows: queue.kept.iter().map(|k| k.rows).sum(),
            resumed: queue.connections.saturating_sub(1),
        };
        queue.is_over = true;
        drop(queue);
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take().filter(|_| left.frames == 0) {
            let _ = thread.join();
        }
        left
    }
}

/// Connects as often as it takes.
fn keep_connected(to: SocketAddr, shared: &Arc<Shared>) {
    let mut is_told = false;
    loop {
        let result = TcpStream::connect_timeout(&to, PATIENCE).and_then(|stream| {
            is_told = false;
            speak(stream, shared)
        });
        let mut queue = shared.lock();
        if queue.is_over {
            return;
        }
        if let Err(e) = result
            && !std::mem::replace(&mut is_told, true)
        {
            tell!(
                "wakepath: no connection to the collector at {to} ({e}): what it did not take yet is kept, as far as \
                 there is room"
            );
        }
        queue.is_broken = false;
        drop(shared.changed.wait_timeout(queue, AGAIN).unwrap_or_else(PoisonError::into_inner));
    }
}

/// Sends on one connection until it breaks or all is over.
fn speak(stream: TcpStream, shared: &Arc<Shared>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut out = &stream;
    let hello = {
        let mut queue = shared.lock();
        // and again after all frames: only there it says how many there were
        queue.is_hello_due = true;
        queue.hello.clone()
    };
    write_frame(&mut out, &hello)?;
    // the collector says from where on it wants frames
    let mut next = read_acknowledgement(&mut out)?;
    {
        let mut queue = shared.lock();
        queue.connections += 1;
        acknowledge(&mut queue, next);
    }
    shared.changed.notify_all();
    let reader = stream.try_clone()?;
    let listener = {
        let shared = Arc::clone(shared);
        std::thread::Builder::new().name("forward-acks".into()).spawn(move || listen(reader, &shared))?
    };
    let result = write_all(&stream, shared, &mut next);
    let _ = stream.shutdown(Shutdown::Both);
    let _ = listener.join();
    result
}

/// Writes frames from number `next` on as they come.
fn write_all(mut out: &TcpStream, shared: &Shared, next: &mut u64) -> std::io::Result<()> {
    loop {
        let mut queue = shared.lock();
        if queue.is_over {
            return Ok(());
        }
        if queue.is_broken {
            return Err(std::io::ErrorKind::ConnectionReset.into());
        }
        let from = queue.kept.partition_point(|k| k.sequence < *next);
        // a few at once, so that the lock is not held while the connection is full
        let frames: Vec<Vec<u8>> = queue.kept.range(from..).take(32).map(|k| k.bytes.clone()).collect();
        if let Some(last) = queue.kept.range(from..).take(32).next_back() {
            *next = last.sequence + 1;
        }
        let hello = (frames.is_empty() && queue.is_hello_due).then(|| {
            queue.is_hello_due = false;
            queue.hello.clone()
        });
        if frames.is_empty() && hello.is_none() {
            drop(shared.changed.wait_timeout(queue, AGAIN).unwrap_or_else(PoisonError::into_inner));
            continue;
        }
        drop(queue);
        for frame in frames.iter().chain(&hello) {
            write_frame(&mut out, frame)?;
        }
    }
}

/// Takes acknowledgements until the connection breaks or all is over.
fn listen(mut stream: TcpStream, shared: &Shared) {
    loop {
        let result = read_acknowledgement(&mut stream);
        let mut queue = shared.lock();
        let Ok(next) = result else {
            queue.is_broken = true;
            drop(queue);
            shared.changed.notify_all();
            return;
        };
        acknowledge(&mut queue, next);
        queue.is_over |= queue.is_ending && queue.kept.is_empty() && !queue.is_hello_due;
        let is_over = queue.is_over;
        drop(queue);
        shared.changed.notify_all();
        if is_over {
            return;
        }
    }
}

fn acknowledge(queue: &mut Queue, next: u64) {
    queue.acknowledged += 1;
    while queue.kept.front().is_some_and(|k| k.sequence < next)
        && let Some(done) = queue.kept.pop_front()
    {
        queue.bytes -= done.bytes.len();
    }
}

fn write_frame(out: &mut &TcpStream, frame: &[u8]) -> std::io::Result<()> {
    let mut bytes = Vec::with_capacity(4 + frame.len());
    bytes.extend_from_slice(&(frame.len() as u32).to_le_bytes());
    bytes.extend_from_slice(frame);
    out.write_all(&bytes)
}

/// The number of the first frame that the collector has not written.
fn read_acknowledgement(stream: &mut impl Read) -> std::io::Result<u64> {
    let mut bytes = [0; 12];
    stream.read_exact(&mut bytes)?;
    match bytes.split_first_chunk::<4>() {
        Some((b"WfA\x01", next)) => Ok(next.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b))),
        _ => Err(std::io::Error::other("it is no `wakepath collect`, or one of another version")),
    }
}
