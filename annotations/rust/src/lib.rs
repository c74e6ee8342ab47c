//! Wakepath's annotations: what a program knows of its own queues and states, told to whoever listens.
//!
//! A *machine* is a part of the program that does one thing at a time: a thread's loop, a stage, a connection's handler. Its
//! name says which, its key (a number: a thread's index, a descriptor, 0 where there is one) which of its kind. It is always
//! in one *state*, and puts into and takes out of *queues*. A queue is of the process; where its name begins with `/`, of the
//! host.
//!
//! ```
//! use wakepath_annotate::{Machine, Queue};
//!
//! let parser = Machine::new(c"parser", 0);
//! let jobs = Queue::new(c"jobs", 0);
//! parser.state(c"parse");
//! // before the call that makes the item available
//! parser.enqueue(jobs, 1);
//!
//! let writer = Machine::new(c"writer", 0);
//! writer.wait_empty(jobs, 1);
//! // after the call that took it
//! writer.dequeue(jobs, 1);
//! writer.state(c"write");
//! ```
//!
//! A wait ends with the machine's next mark. Names are at most 62 bytes long; longer ones are cut, and counted.
//!
//! While nobody listens a mark costs a load and a branch. Who listens is the kernel (USDT probes of the provider `wakepath`:
//! `wakepath record`, bpftrace, perf) or, without rights, the library that `wakepath run` loads. x86-64 and aarch64 on Linux;
//! elsewhere marks are nothing at all. `annotations/c/wakepath.h` is the same for C.
#![no_std]
#![deny(missing_docs)]

use core::ffi::CStr;

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[path = "linux.rs"]
mod channel;

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod channel {
    //! Nobody listens here.
    use super::{CStr, Kind};

    #[inline(always)]
    pub fn listens() -> bool {
        false
    }

    pub fn mark(_: Kind, _: &CStr, _: u64, _: &CStr, _: u64, _: u64) {}
}

/// What a mark says; the numbers are part of the probes.
#[derive(Clone, Copy)]
enum Kind {
    State = 1,
    Enqueue = 2,
    Dequeue = 3,
    WaitEmpty = 4,
    WaitFull = 5,
    Begin = 6,
    End = 7,
}

/// Whether somebody listens now. Marks ask by themselves: this is for what has to be computed only for them.
#[inline(always)]
pub fn listens() -> bool {
    channel::listens()
}

/// A queue by its name and which of that name.
#[derive(Clone, Copy, Debug)]
pub struct Queue<'a> {
    name: &'a CStr,
    key: u64,
}

impl<'a> Queue<'a> {
    /// Names a queue.
    pub const fn new(name: &'a CStr, key: u64) -> Queue<'a> {
        Queue { name, key }
    }
}

/// A machine by its name and which of that name.
#[derive(Clone, Copy, Debug)]
pub struct Machine<'a> {
    name: &'a CStr,
    key: u64,
}

impl<'a> Machine<'a> {
    /// Names a machine.
    pub const fn new(name: &'a CStr, key: u64) -> Machine<'a> {
        Machine { name, key }
    }

    /// It is in this state from now on.
    #[inline(always)]
    pub fn state(&self, name: &CStr) {
        self.mark(Kind::State, name, 0, 1);
    }

    /// It put `count` items (or bytes) into the queue.
    #[inline(always)]
    pub fn enqueue(&self, queue: Queue<'_>, count: u64) {
        self.mark(Kind::Enqueue, queue.name, queue.key, count);
    }

    /// It took `count` items out of the queue.
    #[inline(always)]
    pub fn dequeue(&self, queue: Queue<'_>, count: u64) {
        self.mark(Kind::Dequeue, queue.name, queue.key, count);
    }

    /// It waits from now on, since the queue has fewer than `count` items.
    #[inline(always)]
    pub fn wait_empty(&self, queue: Queue<'_>, count: u64) {
        self.mark(Kind::WaitEmpty, queue.name, queue.key, count);
    }

    /// It waits from now on, since the queue has no room for `count` items.
    #[inline(always)]
    pub fn wait_full(&self, queue: Queue<'_>, count: u64) {
        self.mark(Kind::WaitFull, queue.name, queue.key, count);
    }

    /// It begins a transaction of this kind: what throughput and latency are of.
    #[inline(always)]
    pub fn begin(&self, kind: &CStr) {
        self.mark(Kind::Begin, kind, 0, 1);
    }

    /// Its transaction of this kind is over.
    #[inline(always)]
    pub fn end(&self, kind: &CStr) {
        self.mark(Kind::End, kind, 0, 1);
    }

    #[inline(always)]
    fn mark(&self, kind: Kind, name: &CStr, name_key: u64, count: u64) {
        if channel::listens() {
            channel::mark(kind, self.name, self.key, name, name_key, count);
        }
    }
}
