//! What became of a service's connections that no request shows. Replies whose end TCP held back when the service had
//! written it: the client waits for it, and no duration that was measured at the service shows that. And connections that
//! the service closed without reading what the client sent.

use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use wakepath_model::defects::loses_operations;
use wakepath_model::folder::{Folder, Host, TableSet};
use wakepath_model::ids::{EndpointId, HostId, MonoNs, TaskId};
use wakepath_model::rows::{Event, OpKind, OpRow, Reset, Side, StepKind, Table, held};

/// From this share of a service's replies on they are told.
const SHARE_MIN: f64 = 0.01;
/// Most connections that are followed at a time.
const FLOWS_MAX: usize = 1 << 20;

/// Replies of a service that TCP held back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldReplies {
    /// Its host.
    pub host: HostId,
    /// A task that wrote one.
    pub task: TaskId,
    /// The port at which it serves.
    pub port: u16,
    /// Replies whose last bytes TCP held back for an acknowledgement of earlier ones.
    pub held: u64,
    /// Of so many after which the client sent more on the connection.
    pub replies: u64,
}

/// Connections that a service accepted and closed unread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedUnread {
    /// Its host.
    pub host: HostId,
    /// A task that closed one.
    pub task: TaskId,
    /// The port at which it serves.
    pub port: u16,
    /// Connections that it closed when nothing had been read or sent there, and whose client had sent something, or did so after.
    pub closed: u64,
    /// Of so many that it accepted.
    pub accepted: u64,
}

/// What was found of the connections of services.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// The services of which TCP held a hundredth of the replies back, or more; by host and port.
    pub held_replies: Vec<HeldReplies>,
    /// The services that closed connections unread; by host and port.
    pub closed_unread: Vec<ClosedUnread>,
}

/// What is known of a connection.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    task: TaskId,
    /// It was read from.
    is_asked: bool,
    /// What was done last there was a send, and whether TCP held bytes of that back.
    sent: Option<bool>,
    held: u64,
    replies: u64,
    is_accepted: bool,
    /// Bytes passed, either way.
    is_used: bool,
    /// Closed before any byte passed.
    is_closed_unused: bool,
    /// A reset was sent: bytes had come that were not read, or came after.
    is_reset: bool,
    /// When it was accepted, and closed.
    span: (MonoNs, MonoNs),
}

impl Flow {
    fn step(&mut self, r: &OpRow) {
        self.is_used |= matches!(r.kind, OpKind::Send | OpKind::Recv) && r.result > 0;
        match r.kind {
            OpKind::Accept => {
                self.is_accepted = true;
                self.span.0 = r.at;
            }
            OpKind::Close if self.is_accepted && !self.is_used => {
                self.is_closed_unused = true;
                self.task = r.task;
                self.span.1 = r.at;
            }
            OpKind::Send if r.result > 0 && self.is_asked => {
                self.sent = Some(r.flags & held::BITS == held::NAGLE);
                self.task = r.task;
            }
            OpKind::Recv if r.result > 0 => {
                // whoever closes after a reply sends all of it at once, so only what is asked next ends one
                if let Some(is_held) = self.sent.take() {
                    self.replies += 1;
                    self.held += u64::from(is_held);
                }
                self.is_asked = true;
            }
            _ => {}
        }
    }

    /// Whether it was closed unread. What was read may be among what was lost.
    fn is_unread(&self, lost: &[(MonoNs, MonoNs)]) -> bool {
        let (from, to) = self.span;
        let is_known = !lost.iter().any(|l| l.0 <= to && l.1 >= from);
        self.is_closed_unused && !self.is_used && self.is_reset && is_known
    }
}

/// What became of the connections of services. One pass over the operations; memory: the connections.
pub fn connections(folder: &Folder) -> Connections {
    let mut out = Connections::default();
    for host in folder.hosts() {
        of_host(host, &mut out);
    }
    out
}

/// Of a reduced host, whose operations are not there, as [`crate::reduce`] wrote it.
fn of_reduced(host: &Host, out: &mut Connections) {
    let Some((_, last)) = host.span() else { return };
    for event in host.events(Table::Reduced.into(), last..) {
        let Event::Reduced(r) = event else { continue };
        let (host, task, port, some, of) = (host.id(), r.task, r.status, u64::from(r.count), r.number);
        match r.what {
            StepKind::HeldReplies => {
                out.held_replies.push(HeldReplies { host, task, port, held: some, replies: of });
            }
            StepKind::ClosedUnread => {
                out.closed_unread.push(ClosedUnread { host, task, port, closed: some, accepted: of });
            }
            _ => {}
        }
    }
}

/// The connections of one host.
pub(crate) fn of_host(host: &Host, out: &mut Connections) {
    if wakepath_causality::reduced::is_reduced(host) {
        return of_reduced(host, out);
    }
    let mut flows: FxHashMap<EndpointId, Flow> = FxHashMap::default();
    let mut lost: Vec<(MonoNs, MonoNs)> = Vec::new();
    for event in host.events(TableSet::of(&[Table::Op, Table::FlowState, Table::Loss]), ..) {
        match event {
            Event::Loss(r) if loses_operations(host.text(r.what)) => lost.push((r.from, r.at)),
            Event::Op(r) if flows.len() < FLOWS_MAX || flows.contains_key(&r.flow) => {
                flows.entry(r.flow).or_default().step(&r);
            }
            Event::FlowState(r) if r.reset == Reset::Sent => {
                if let Some(f) = flows.get_mut(&r.flow) {
                    f.is_reset = true;
                }
            }
            _ => {}
        }
    }
    if !flows.values().any(|f| f.held > 0 || f.is_unread(&lost)) {
        return;
    }
    let mut services: BTreeMap<u16, (HeldReplies, ClosedUnread)> = BTreeMap::new();
    for event in host.events(TableSet::of(&[Table::Endpoint]), ..) {
        let Event::Endpoint(r) = event else { continue };
        // each connection once, though it may be announced again
        let Some(f) = (r.side == Side::Server && r.lport != 0).then(|| flows.remove(&r.flow)).flatten() else {
            continue;
        };
        let (host, task, port) = (host.id(), f.task, r.lport);
        let (held, unread) = services.entry(port).or_insert_with(|| {
            let held = HeldReplies { host, task, port, held: 0, replies: 0 };
            (held, ClosedUnread { host, task, port, closed: 0, accepted: 0 })
        });
        if held.task == TaskId::UNKNOWN || f.held > 0 {
            held.task = task;
        }
        held.held += f.held;
        held.replies += f.replies;
        unread.accepted += u64::from(f.is_accepted);
        if f.is_unread(&lost) {
            unread.task = task;
            unread.closed += 1;
        }
    }
    for (held, unread) in services.into_values() {
        if held.held > 0 && held.held as f64 >= SHARE_MIN * held.replies as f64 {
            out.held_replies.push(held);
        }
        if unread.closed > 0 {
            out.closed_unread.push(unread);
        }
    }
}
