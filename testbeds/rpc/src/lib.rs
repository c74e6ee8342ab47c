//! What client and server of the remote procedure call share: the message, the clock, computing, the truth file.
//!
//! It is the wait paper's `wk-rpc` (section 3.1): the client writes a command and its parameter, the server computes for
//! the time that the parameter says and sends the result back. Messages have 32 bytes, as in the paper's section 3.6.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Bytes of each message, both ways.
pub const MESSAGE_BYTES: usize = 32;
/// How long an event loop waits at most: a screen's refresh at 60 Hz (the paper's section 3.3).
pub const LOOP_MS: i32 = 16;

const MAGIC: &[u8; 8] = b"wkrpc\x01\0\0";

/// A request, or its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Chosen by the client; the reply repeats it.
    pub id: u64,
    /// Request: how long to compute (ns of processor time). Reply: how long the server did.
    pub compute_ns: u64,
    /// Reply: a result that depends on `id`, so that a mixed-up reply is found. Request: 0.
    pub result: u64,
}

impl Message {
    /// Its bytes.
    pub fn bytes(self) -> [u8; MESSAGE_BYTES] {
        let mut bytes = [0; MESSAGE_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        for (at, field) in bytes[8..].chunks_exact_mut(8).zip([self.id, self.compute_ns, self.result]) {
            at.copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }

    /// From its bytes; `None` where they are no message.
    pub fn read(bytes: &[u8]) -> Option<Message> {
        if bytes.len() != MESSAGE_BYTES || &bytes[..8] != MAGIC {
            return None;
        }
        let field = |n: usize| bytes[n * 8..n * 8 + 8].try_into().map(u64::from_le_bytes).ok();
        Some(Message { id: field(1)?, compute_ns: field(2)?, result: field(3)? })
    }

    /// The reply to this request.
    pub fn reply(self, compute_ns: u64) -> Message {
        Message { id: self.id, compute_ns, result: !self.id }
    }
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec; both clocks that are asked for always exist.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// CLOCK_MONOTONIC (ns), the clock of recordings.
pub fn now_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// Uses so many nanoseconds of processor time of this thread, however long a neighbour makes that take; gives begin and
/// end by [`now_ns`].
pub fn compute(ns: u64) -> (u64, u64) {
    let begin = now_ns();
    let until = clock_ns(libc::CLOCK_THREAD_CPUTIME_ID) + ns;
    while clock_ns(libc::CLOCK_THREAD_CPUTIME_ID) < until {
        for _ in 0..100 {
            std::hint::spin_loop();
        }
    }
    (begin, now_ns())
}

/// This thread's number, as the kernel schedules it.
pub fn tid() -> i32 {
    // SAFETY: no pointers, cannot fail.
    unsafe { libc::gettid() }
}

/// Waits until something can be read, at most `timeout_ms` (-1: without end). Gives which can; none after a time-out.
pub fn poll(fds: &[BorrowedFd<'_>], timeout_ms: i32) -> io::Result<Vec<bool>> {
    let mut asked: Vec<libc::pollfd> =
        fds.iter().map(|fd| libc::pollfd { fd: fd.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 }).collect();
    // SAFETY: pointer and length are those of a live vector.
    let ready = unsafe { libc::poll(asked.as_mut_ptr(), asked.len() as libc::nfds_t, timeout_ms) };
    if ready < 0 {
        let problem = io::Error::last_os_error();
        if problem.kind() != io::ErrorKind::Interrupted {
            return Err(problem);
        }
    }
    Ok(asked.iter().map(|fd| ready > 0 && fd.revents != 0).collect())
}

/// Where the truth goes: one JSON object a line, each written at once, so that a killed server loses none.
pub struct Truth(Option<Mutex<File>>);

impl Truth {
    /// Makes the file; without a path nothing is written.
    pub fn create(path: Option<&Path>) -> io::Result<Truth> {
        Ok(Truth(path.map(File::create).transpose()?.map(Mutex::new)))
    }

    /// Writes one line: names and their values, which are numbers or need no escaping.
    pub fn line(&self, side: &str, texts: &[(&str, &str)], numbers: &[(&str, u64)]) -> io::Result<()> {
        let Some(file) = &self.0 else { return Ok(()) };
        let mut line = format!("{{\"side\":\"{side}\",\"pid\":{},\"tid\":{}", std::process::id(), tid());
        for (name, text) in texts {
            line.push_str(&format!(",\"{name}\":\"{text}\""));
        }
        for (name, number) in numbers {
            line.push_str(&format!(",\"{name}\":{number}"));
        }
        line.push_str("}\n");
        file.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_survives_its_bytes() {
        let asked = Message { id: 7, compute_ns: 1 << 40, result: 0 };
        assert_eq!(Message::read(&asked.bytes()), Some(asked));
        assert_eq!(asked.reply(5), Message { id: 7, compute_ns: 5, result: !7 });
    }

    #[test]
    fn other_bytes_are_no_message() {
        let mut bytes = Message { id: 1, compute_ns: 2, result: 3 }.bytes();
        assert_eq!(Message::read(&bytes[..31]), None);
        bytes[0] ^= 1;
        assert_eq!(Message::read(&bytes), None);
    }

    #[test]
    fn computing_uses_processor_time() {
        let before = clock_ns(libc::CLOCK_THREAD_CPUTIME_ID);
        let (begin, end) = compute(2_000_000);
        assert!(clock_ns(libc::CLOCK_THREAD_CPUTIME_ID) - before >= 2_000_000);
        assert!(end - begin >= 2_000_000);
    }
}
