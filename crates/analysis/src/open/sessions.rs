//! Sessions of PostgreSQL that sleep in the middle of a statement: what they wait for is known to the server alone. Which
//! sessions of the same server could hold it up is shown by what they said: their transactions are open.

use super::looks::Answered;
use super::peers::{peer, workers};
use super::{At, Cut, For, HELD_MAX};
use crate::names::{Names, remote_of};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use wakepath_graph::Index;
use wakepath_model::folder::{Folder, TableSet};
use wakepath_model::ids::{EndpointId, HostId, MonoNs, TaskId};
use wakepath_model::rows::{Event, Life, MessageRole, OpKind, Table, WaitRow};

/// The protocol's id.
pub(super) const POSTGRES: &str = "proto.postgres";
/// The program of all of its sessions: each is a process of its own. Where nothing moves, nothing else says what serves a connection.
const PROGRAM: &str = "postgres";
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
    /// Its client's address, where known.
    pub address: Option<String>,
    /// The client, where recorded.
    pub client: Option<At>,
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
    /// The other sessions of the same server with an open transaction, as far as was recorded: first those that wait for their clients,
    /// longest first, and last those that sleep in a statement themselves.
    pub others: Vec<Session>,
}

/// What a connection of a server said last.
#[derive(Clone, Debug, Default)]
struct Said {
    flow: EndpointId,
    task: TaskId,
    statement: String,
    since: MonoNs,
    is_in_transaction: bool,
    /// When its server sent something, where that was what it did last on the connection.
    answered: Option<MonoNs>,
}

/// The sessions that sleep in the middle of a statement, longest first.
pub(super) fn held(
    folder: &Folder,
    index: &Index,
    names: &Names<'_>,
    cuts: &[Cut],
    waits: &BTreeMap<At, WaitRow>,
) -> Vec<Held> {
    let asleep = |at: &At| waits.get(at).is_some_and(|w| matches!(For::of(w), For::Poll | For::Futex | For::Lock));
    let is_session = |at: &At| cuts.iter().any(|c| c.sessions.iter().any(|s| s.0 == *at));
    if !waits.keys().any(|at| is_session(at) && asleep(at)) {
        return Vec::new();
    }
    let said = said(folder);
    let open = said.iter().flat_map(|(host, all)| all.iter().map(|s| (*host, s))).filter(|(_, s)| s.is_in_transaction);
    let clients = workers(folder, open.filter_map(|(host, s)| peer(index, (host, s.flow))));
    let mut out: Vec<Held> = Vec::new();
    for (at, statement, age_ns) in cuts.iter().flat_map(|c| &c.sessions) {
        if !asleep(at) || out.iter().any(|h| h.at == *at) {
            continue;
        }
        let mine = |s: &&Said| s.task == at.1;
        let all = said.get(&at.0).map_or(&[][..], Vec::as_slice);
        // a host may have several servers; a UNIX socket does not tell which it is of
        let port = |s: &Said| index.end(at.0, s.flow).map(|e| e.lport).filter(|port| *port != 0);
        let my_port = all.iter().find(mine).and_then(port);
        let is_its_server = |s: &&Said| my_port.is_none_or(|mine| port(s).is_none_or(|port| port == mine));
        let others = all.iter().filter(|s| !mine(s) && s.is_in_transaction && s.task != TaskId::UNKNOWN);
        let others = others.filter(is_its_server);
        let mut others: Vec<(Option<u64>, &Said)> = others.map(|s| (idle_ns(waits, (at.0, s.task), s), s)).collect();
        // who waits for its client may hold up others until that goes on; who sleeps in a statement waits itself
        others.sort_by_key(|(idle, s)| (Reverse(*idle), asleep(&(at.0, s.task))));
        out.push(Held {
            at: *at,
            pid: names.tgid(at.0, at.1),
            statement: statement.trim_end_matches(';').to_owned(),
            age_ns: *age_ns,
            is_in_transaction: all.iter().find(mine).is_some_and(|s| s.is_in_transaction),
            others: others
                .into_iter()
                .take(OTHERS_MAX)
                .map(|(idle_ns, s)| Session {
                    at: (at.0, s.task),
                    statement: s.statement.trim_end_matches(';').to_owned(),
                    since: s.since,
                    idle_ns,
                    address: index.end(at.0, s.flow).as_ref().map(remote_of),
                    client: peer(index, (at.0, s.flow)).and_then(|end| clients.get(&end).copied()),
                })
                .collect(),
        });
    }
    out.sort_by(|a, b| b.age_ns.cmp(&a.age_ns).then(a.at.cmp(&b.at)));
    out
}

/// Of connections on which nothing moved, those of PostgreSQL's sessions.
pub(super) fn silent(mut answered: Vec<Answered>, names: &Names<'_>) -> Vec<Answered> {
    answered.retain(|a| names.program(a.leader.0, a.leader.1) == PROGRAM);
    answered
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
        let tables = TableSet::of(&[Table::Message, Table::Op, Table::Task]);
        for event in host.events(tables, super::recorded_since(folder, host.id())..) {
            match event {
                // whose process is gone has nothing open, however its connection ended
                Event::Task(r) if r.what == Life::Exit => {
                    flows.retain(|flow, _| readers.get(flow) != Some(&r.task));
                }
                Event::Message(r)
                    if r.role == MessageRole::Request && r.sent == 0 && host.text(r.protocol) == POSTGRES =>
                {
                    if flows.len() >= HELD_MAX && !flows.contains_key(&r.flow) {
                        continue;
                    }
                    let s = flows.entry(r.flow).or_default();
                    s.statement = crate::names::asked(POSTGRES, host.text(r.verb), host.text(r.target));
                    s.since = r.at;
                    s.is_in_transaction = is_in_transaction(s.is_in_transaction, &s.statement);
                }
                Event::Op(r) if r.kind == OpKind::Recv && readers.len() < HELD_MAX => {
                    readers.insert(r.flow, r.task);
                    if let Some(s) = flows.get_mut(&r.flow).filter(|_| r.result > 0) {
                        s.answered = None;
                    }
                }
                Event::Op(r) if r.kind == OpKind::Send => {
                    if let Some(s) = flows.get_mut(&r.flow) {
                        s.answered = Some(r.at);
                    }
                }
                Event::Op(r) if r.kind == OpKind::Close => {
                    flows.remove(&r.flow);
                    readers.remove(&r.flow);
                }
                _ => {}
            }
        }
        for (flow, s) in &mut flows {
            (s.flow, s.task) = (*flow, readers.get(flow).copied().unwrap_or_default());
        }
        out.insert(host.id(), flows.into_values().collect());
    }
    out
}

/// Whether a transaction is open after a message with these statements, where one `was` before. Of a text whose end was not
/// read nothing is claimed: what closes the transaction may follow.
fn is_in_transaction(was: bool, statements: &str) -> bool {
    let mut is_open = was;
    for statement in statements.split(';') {
        let text = statement.to_ascii_uppercase();
        let mut words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|w| !w.is_empty());
        is_open = match (words.next().unwrap_or_default(), words.next().unwrap_or_default()) {
            ("BEGIN", _) | ("START", "TRANSACTION") => true,
            ("PREPARE", "TRANSACTION") => false,
            ("COMMIT" | "ROLLBACK" | "END" | "ABORT", _) => {
                text.contains(" AND CHAIN") || is_open && text.contains(" TO ")
            }
            _ => is_open,
        };
    }
    is_open && !(statements.contains(';') && statements.ends_with('…'))
}

#[cfg(test)]
mod tests {
    use super::is_in_transaction;

    #[test]
    fn each_statement_of_a_message_counts() {
        for (was, statements, then) in [
            (false, "BEGIN", true),
            (false, "begin; UPDATE t SET a = ? WHERE id = ?; commit;", false),
            (false, "START TRANSACTION ISOLATION LEVEL SERIALIZABLE", true),
            (false, "START_REPLICATION SLOT s LOGICAL ?", false),
            (true, "ROLLBACK TO SAVEPOINT a", true),
            (true, "ROLLBACK", false),
            (true, "COMMIT AND CHAIN", true),
            (true, "COMMIT; BEGIN; SELECT ?", true),
            (true, "PREPARE TRANSACTION ?", false),
            (false, "PREPARE q AS SELECT ?", false),
            (true, "SELECT ?", true),
            (false, "BEGIN; INSERT INTO t (a, b, c) VALUES (…", false),
        ] {
            assert_eq!(is_in_transaction(was, statements), then, "{statements}");
        }
    }
}
