//! Sessions of PostgreSQL that sleep in the middle of a statement: what they wait for is known to the server alone. Which
//! sessions of the same server could hold it up is shown by what they said: their transactions are open.

use super::{At, Cut, For, HELD_MAX};
use crate::names::Names;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use wakepath_model::folder::{Folder, TableSet};
use wakepath_model::ids::{EndpointId, HostId, MonoNs, TaskId};
use wakepath_model::rows::{Event, Table, WaitRow, op, role};

/// The protocol's id.
pub(super) const POSTGRES: &str = "proto.postgres";
/// Most sessions told as those that may hold another up.
const OTHERS_MAX: usize = 16;

/// A session that has a transaction open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The server's process.
    pub at: At,
    /// The statement that it was given last.
    pub statement: String,
    /// When it was given that, on its host's clock.
    pub since: MonoNs,
    /// It had answered that, and slept since until its client sends: for so long (ns).
    pub idle_ns: Option<u64>,
}

/// A session that sleeps in the middle of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The server's process.
    pub at: At,
    /// Its process number, for the server's own functions.
    pub pid: u32,
    /// What it was asked.
    pub statement: String,
    /// For how long (ns).
    pub age_ns: u64,
    /// It has changed or locked something before in a transaction that is open: others may wait for it.
    pub is_in_transaction: bool,
    /// The other sessions of the same server with an open transaction, as far as was recorded.
    pub others: Vec<Session>,
}

/// What a connection of a server said last.
#[derive(Clone, Debug, Default)]
struct Said {
    task: TaskId,
    statement: String,
    since: MonoNs,
    is_in_transaction: bool,
    /// When its server sent something, where that was what it did last on the connection.
    answered: Option<MonoNs>,
}

/// The sessions that sleep in the middle of a statement, longest first.
pub(super) fn held(folder: &Folder, names: &Names<'_>, cuts: &[Cut], waits: &BTreeMap<At, WaitRow>) -> Vec<Held> {
    let asleep = |at: &At| waits.get(at).is_some_and(|w| matches!(For::of(w), For::Poll | For::Futex | For::Lock));
    let is_session = |at: &At| cuts.iter().any(|c| c.sessions.iter().any(|s| s.0 == *at));
    if !waits.keys().any(|at| is_session(at) && asleep(at)) {
        return Vec::new();
    }
    let said = said(folder);
    let mut out: Vec<Held> = Vec::new();
    for (at, statement, age_ns) in cuts.iter().flat_map(|c| &c.sessions) {
        if !asleep(at) || out.iter().any(|h| h.at == *at) {
            continue;
        }
        let mine = |s: &&Said| s.task == at.1;
        let all = said.get(&at.0).map_or(&[][..], Vec::as_slice);
        let others = all.iter().filter(|s| !mine(s) && s.is_in_transaction && s.task != TaskId::UNKNOWN);
        out.push(Held {
            at: *at,
            pid: names.tgid(at.0, at.1),
            statement: statement.trim_end_matches(';').to_owned(),
            age_ns: *age_ns,
            is_in_transaction: all.iter().find(mine).is_some_and(|s| s.is_in_transaction),
            others: others
                .take(OTHERS_MAX)
                .map(|s| Session {
                    at: (at.0, s.task),
                    statement: s.statement.trim_end_matches(';').to_owned(),
                    since: s.since,
                    idle_ns: idle_ns(waits, (at.0, s.task), s),
                })
                .collect(),
        });
    }
    out.sort_by(|a, b| b.age_ns.cmp(&a.age_ns).then(a.at.cmp(&b.at)));
    out
}

/// For how long a session has waited for its client to send, where it did when the recording ended.
fn idle_ns(waits: &BTreeMap<At, WaitRow>, at: At, said: &Said) -> Option<u64> {
    let answered = said.answered.filter(|t| *t >= said.since)?;
    let wait = waits.get(&at).filter(|w| matches!(For::of(w), For::Poll | For::Bytes) && w.at > answered)?;
    Some(wait.at.0 - answered.0)
}

/// Of each host, what its PostgreSQL sessions were asked last and whether a transaction is open there.
fn said(folder: &Folder) -> FxHashMap<HostId, Vec<Said>> {
    let mut out = FxHashMap::default();
    for host in folder.hosts() {
        let mut flows: BTreeMap<EndpointId, Said> = BTreeMap::new();
        let mut readers: FxHashMap<EndpointId, TaskId> = FxHashMap::default();
        for event in host.events(TableSet::of(&[Table::Message, Table::Op]), ..) {
            match event {
                Event::Message(r) if r.role == role::REQUEST && r.sent == 0 && host.text(r.protocol) == POSTGRES => {
                    if flows.len() >= HELD_MAX && !flows.contains_key(&r.flow) {
                        continue;
                    }
                    let s = flows.entry(r.flow).or_default();
                    s.statement = crate::names::asked(POSTGRES, host.text(r.verb), host.text(r.target));
                    s.since = r.at;
                    match first_word(&s.statement).as_str() {
                        "BEGIN" | "START" => s.is_in_transaction = true,
                        "COMMIT" | "ROLLBACK" | "END" | "ABORT"
                            if !s.statement.to_ascii_uppercase().contains(" TO ") =>
                        {
                            s.is_in_transaction = false;
                        }
                        _ => {}
                    }
                }
                Event::Op(r) if r.kind == op::RECV && readers.len() < HELD_MAX => {
                    readers.insert(r.flow, r.task);
                    if let Some(s) = flows.get_mut(&r.flow).filter(|_| r.result > 0) {
                        s.answered = None;
                    }
                }
                Event::Op(r) if r.kind == op::SEND => {
                    if let Some(s) = flows.get_mut(&r.flow) {
                        s.answered = Some(r.at);
                    }
                }
                Event::Op(r) if r.kind == op::CLOSE => {
                    flows.remove(&r.flow);
                    readers.remove(&r.flow);
                }
                _ => {}
            }
        }
        flows.iter_mut().for_each(|(flow, s)| s.task = readers.get(flow).copied().unwrap_or_default());
        out.insert(host.id(), flows.into_values().collect());
    }
    out
}

fn first_word(statement: &str) -> String {
    statement.split(|c: char| !c.is_ascii_alphabetic()).find(|w| !w.is_empty()).unwrap_or("").to_ascii_uppercase()
}
