//! Who owed answers before the recording began, who waits for whom, and which sessions of PostgreSQL were silent meanwhile.

use super::Namer;
use crate::units;
use serde::Serialize;
use std::fmt::Write as _;
use wakepath_analysis::names::Names;
use wakepath_analysis::open::{Answered, Unended};
use wakepath_model::ids::{HostId, TaskId};

/// Most silent sessions that a sentence names.
const NAMED: usize = 2;

/// A service that owes answers since before the recording.
#[derive(Clone, Debug, Serialize)]
pub struct OwingView {
    /// NAME:PORT.
    pub service: String,
    /// On which host.
    pub host: String,
    /// How many of its connections wait for an answer.
    pub connections: u64,
    /// For how long the first of them has (ns).
    pub oldest_ns: u64,
    /// The services that owe it an answer themselves.
    pub asks: Vec<String>,
    /// In one sentence.
    pub sentence: String,
    /// Of a service that no other of them holds up: its sessions that have been silent for longer, in words.
    pub silent_sentence: Option<String>,
}

/// A session of PostgreSQL that was silent during the whole recording.
#[derive(Clone, Debug, Serialize)]
pub struct SilentView {
    /// The server's process.
    pub task: String,
    /// On which host.
    pub host: String,
    /// For how long (ns).
    pub age_ns: u64,
    /// Its client: the process where it is known, else the address.
    pub client: String,
}

impl SilentView {
    fn in_words(&self) -> String {
        format!("{}, client {}, for {}", self.task, self.client, units::duration(self.age_ns))
    }
}

/// What sessions that were silent for longer than somebody waits can mean for that one. `None` where there are none.
pub(crate) fn silent_for_longer(silent: &[SilentView]) -> Option<String> {
    let named: Vec<String> = silent.iter().take(NAMED).map(SilentView::in_words).collect();
    let more = silent.len().saturating_sub(NAMED);
    let more = if more > 0 { format!("; {} more", units::count(more as u64)) } else { String::new() };
    (!named.is_empty()).then(|| {
        format!(
            "Silent since before that: {}{more}. If a transaction is open there, others may wait for its locks.",
            named.join("; ")
        )
    })
}

/// The query that tells which sessions one of them waits for.
pub(super) fn blocking(pid: u32) -> String {
    format!("SELECT pg_blocking_pids({pid})")
}

impl Namer<'_, '_> {
    pub(super) fn silent(&self, a: &Answered) -> SilentView {
        SilentView {
            task: self.task(a.leader),
            host: self.names.host(a.leader.0).to_owned(),
            age_ns: a.age_ns,
            client: self.process_at(a.client, &a.address),
        }
    }

    /// A process, where it is known, and its address.
    pub(super) fn process_at(&self, process: Option<(HostId, TaskId)>, address: &str) -> String {
        process.map_or_else(|| address.to_owned(), |p| format!("{} ({address})", self.task(p)))
    }
}

/// What is shown of the services that owe answers.
pub(super) fn owing(unended: &Unended, names: &Names<'_>, namer: &Namer<'_, '_>) -> Vec<OwingView> {
    let service = |i: usize| {
        let oldest = &unended.before[unended.owing[i].before[0]];
        let program = names.program(oldest.leader.0, oldest.leader.1);
        // one that is reached by a UNIX socket has none
        if oldest.port == 0 { program.to_owned() } else { format!("{program}:{}", oldest.port) }
    };
    let view = |(i, o): (usize, &wakepath_analysis::open::Owing)| {
        let oldest = &unended.before[o.before[0]];
        let asks: Vec<String> = o.asks.iter().map(|&a| service(a)).collect();
        let count = o.before.len() as u64;
        let mut sentence = format!(
            "On {} to {}, an answer has been due for {}, or none was needed: before the recording, {} last got bytes from {}",
            units::counted(count, "connection", "connections"),
            service(i),
            units::duration(oldest.age_ns),
            namer.task(oldest.task.unwrap_or(oldest.leader)),
            namer.process_at(oldest.other, &oldest.address),
        );
        if !asks.is_empty() {
            let _ = write!(sentence, ". {} itself waits for {}", service(i), asks.join(" and "));
        }
        sentence.push('.');
        let is_its = |a: &&Answered| {
            (a.leader.0, a.port) == (oldest.leader.0, oldest.port) && a.since <= oldest.since && asks.is_empty()
        };
        let silent: Vec<_> = unended.silent.iter().filter(is_its).map(|a| namer.silent(a)).collect();
        let silent_sentence = silent_for_longer(&silent)
            .map(|text| format!("{text} Ask the server: {}", blocking(names.tgid(oldest.leader.0, oldest.leader.1))));
        OwingView {
            service: service(i),
            host: names.host(oldest.leader.0).to_owned(),
            connections: count,
            oldest_ns: oldest.age_ns,
            asks,
            sentence,
            silent_sentence,
        }
    };
    unended.owing.iter().enumerate().map(view).collect()
}
