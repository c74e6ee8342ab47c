//! Processes that did not end well.

use crate::units;
use serde::Serialize;
use wakepath_analysis::ended::{Ended, How};

/// Processes of one program that ended in one way: killed by a signal, or with an exit code other than 0.
#[derive(Clone, Debug, Serialize)]
pub struct EndedView {
    /// The first of them: NAME/PID.
    pub process: String,
    /// How many ended so.
    pub processes: u64,
    /// The signal's number; null where no signal ended them, or the kernel killed them to free memory.
    pub signal: Option<u8>,
    /// Their exit code; null where they did not exit by themselves.
    pub code: Option<u8>,
    /// The kernel killed them to free memory.
    pub out_of_memory: bool,
    /// Requests that they had taken, and whose clients got no complete answer.
    pub unanswered: u64,
    /// When the first ended (ns since 1970).
    pub first_ns: i64,
    /// The same in words, without a full stop.
    pub sentence: String,
}

/// What Linux calls its signals, from 1 on.
const SIGNALS: [&str; 31] = [
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGILL",
    "SIGTRAP",
    "SIGABRT",
    "SIGBUS",
    "SIGFPE",
    "SIGKILL",
    "SIGUSR1",
    "SIGSEGV",
    "SIGUSR2",
    "SIGPIPE",
    "SIGALRM",
    "SIGTERM",
    "SIGSTKFLT",
    "SIGCHLD",
    "SIGCONT",
    "SIGSTOP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGVTALRM",
    "SIGPROF",
    "SIGWINCH",
    "SIGIO",
    "SIGPWR",
    "SIGSYS",
];

fn signal_name(signal: u8) -> String {
    let name = usize::from(signal).checked_sub(1).and_then(|at| SIGNALS.get(at));
    name.map_or_else(|| format!("signal {signal}"), |&name| name.to_owned())
}

impl EndedView {
    /// Of those of one program and one way, the first first; `first`: its NAME/PID, and when it ended (ns since 1970).
    pub(super) fn new(first: &(String, i64), ended: &[Ended]) -> EndedView {
        let (process, first_ns) = first.clone();
        let processes = ended.len() as u64;
        let unanswered = ended.iter().map(|e| e.unanswered).sum();
        let how = ended.first().map_or(How::Code(0), |e| e.how);
        let (signal, code) = match how {
            How::OutOfMemory => (None, None),
            How::Signal(signal) => (Some(signal), None),
            How::Code(code) => (None, Some(code)),
        };
        let who = match processes {
            0 | 1 => process.clone(),
            n => format!("{} processes of {}", units::count(n), process.rsplit_once('/').map_or(&*process, |p| p.0)),
        };
        let was = if processes > 1 { "were" } else { "was" };
        let end = match how {
            How::OutOfMemory => format!("{was} killed by the kernel to free memory (out of memory)"),
            How::Signal(signal) => format!("{was} killed by {}", signal_name(signal)),
            How::Code(code) => format!("ended with exit code {code}"),
        };
        let left = match unanswered {
            0 => String::new(),
            n => format!("; {} in progress there got no complete answer", units::counted(n, "request", "requests")),
        };
        let sentence = format!("{who} {end}{left}");
        EndedView {
            process,
            processes,
            signal,
            code,
            out_of_memory: how == How::OutOfMemory,
            unanswered,
            first_ns,
            sentence,
        }
    }

    /// The sentence, and when.
    pub(super) fn dated(&self) -> String {
        let first = if self.processes > 1 { "first at" } else { "at" };
        format!("{} ({first} {})", self.sentence, units::wall(self.first_ns))
    }
}
