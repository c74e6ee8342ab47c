//! Processes that did not end well: killed by a signal, or with an exit code other than 0.

use crate::names::Names;
use crate::requests::is_unanswered;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use wakepath_causality::request::{Half, Request};
use wakepath_model::folder::{Folder, TableSet};
use wakepath_model::ids::{HostId, MonoNs, TaskId};
use wakepath_model::rows::{Event, Life, OUT_OF_MEMORY, Table};

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum How {
    /// The kernel killed it to free its memory.
    OutOfMemory,
    /// By a signal.
    Signal(u8),
    /// By itself, with this exit code.
    Code(u8),
}

/// A signal that a program sends to itself, or that its own instructions raise: SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS.
const FAULTS: [u8; 7] = [4, 5, 6, 7, 8, 11, 31];

impl How {
    /// From the `status` of a task's end; `None` where it ended well, or that was not recorded.
    fn of(status: u32) -> Option<How> {
        let (signal, code) = ((status & 0x7f) as u8, (status >> 8 & 0xff) as u8);
        match (status & OUT_OF_MEMORY != 0, signal, code) {
            (true, ..) => Some(How::OutOfMemory),
            (_, 0, 0) => None,
            (_, 0, code) => Some(How::Code(code)),
            (_, signal, _) => Some(How::Signal(signal)),
        }
    }

    /// Whether that is news even of a process that neither served nor called: nobody ends a helper so on purpose.
    fn is_a_crash(self) -> bool {
        match self {
            How::OutOfMemory => true,
            How::Signal(signal) => FAULTS.contains(&signal),
            How::Code(_) => false,
        }
    }
}

/// A process that did not end well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its host.
    pub host: HostId,
    /// The task that led it.
    pub task: TaskId,
    /// When, by its host's clock.
    pub at: MonoNs,
    /// How.
    pub how: How,
    /// Requests and calls that it had taken, and whose clients got no complete answer.
    pub unanswered: u64,
    /// It took part in requests: served, or called.
    takes_part: bool,
}

/// The processes of a recording that did not end well, and what became of the requests at them. Memory: these processes.
#[derive(Default)]
pub struct Ends {
    of: FxHashMap<(HostId, TaskId), Ended>,
}

impl Ends {
    /// Reads when which process ended: one pass over the rows of tasks.
    pub fn read(folder: &Folder) -> Ends {
        let mut of = FxHashMap::default();
        for host in folder.hosts() {
            for event in host.events(TableSet::of(&[Table::Task]), ..) {
                let Event::Task(r) = event else { continue };
                let leads = r.tid == r.tgid && r.what == Life::Exit;
                if let Some(how) = How::of(r.status).filter(|_| leads) {
                    let (host, task) = (host.id(), r.task);
                    of.insert((host, task), Ended { host, task, at: r.at, how, unanswered: 0, takes_part: false });
                }
            }
        }
        Ends { of }
    }

    /// Counts the spans of a request at processes that ended.
    pub fn add(&mut self, r: &Request) {
        for span in &r.spans {
            for half in span.caller.iter().chain(&span.callee) {
                if let Some(ended) = self.of.get_mut(&(half.host, half.exchange.process.leader())) {
                    ended.takes_part = true;
                }
            }
            let Some(Half { host, exchange, .. }) = &span.callee else { continue };
            if let Some(ended) = self.of.get_mut(&(*host, exchange.process.leader()))
                && exchange.request.taken <= ended.at
                && is_unanswered(exchange)
            {
                ended.unanswered += 1;
            }
        }
    }

    /// Those worth a sentence: that took part in requests, or crashed. By program and how they ended, the most requests left first.
    pub fn told(self, names: &Names<'_>) -> Vec<Vec<Ended>> {
        let mut groups: BTreeMap<(HostId, &str, How), Vec<Ended>> = BTreeMap::new();
        for ended in self.of.into_values().filter(|e| e.takes_part || e.how.is_a_crash()) {
            groups.entry((ended.host, names.program(ended.host, ended.task), ended.how)).or_default().push(ended);
        }
        let mut out: Vec<Vec<Ended>> = groups.into_values().collect();
        out.iter_mut().for_each(|group| group.sort_by_key(|e| (e.at, e.task)));
        out.sort_by_key(|group| std::cmp::Reverse(group.iter().map(|e| e.unanswered).sum::<u64>()));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_a_process_ended_is_in_what_its_parent_would_be_told() {
        assert_eq!(How::of(0), None);
        assert_eq!(How::of(3 << 8), Some(How::Code(3)));
        assert_eq!(How::of(9), Some(How::Signal(9)));
        // with a core dump
        assert_eq!(How::of(0x80 | 11), Some(How::Signal(11)));
        assert_eq!(How::of(OUT_OF_MEMORY | 9), Some(How::OutOfMemory));
        assert!(How::OutOfMemory.is_a_crash() && How::Signal(11).is_a_crash() && !How::Signal(15).is_a_crash());
    }
}
