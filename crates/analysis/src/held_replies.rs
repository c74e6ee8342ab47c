//! Replies whose end TCP held back when the service had written it: the client waits for it, and no duration that was
//! measured at the service shows that.

use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use wakepath_model::folder::{Folder, Host, TableSet};
use wakepath_model::ids::{EndpointId, HostId, TaskId};
use wakepath_model::rows::{Event, OpKind, OpRow, Side, Table, held};

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
}

impl Flow {
    fn step(&mut self, r: &OpRow) {
        match r.kind {
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
}

/// The services of which TCP held a hundredth of the replies back, or more; by host and port. One pass over the operations;
/// memory: the connections.
pub fn held_replies(folder: &Folder) -> Vec<HeldReplies> {
    folder.hosts().iter().flat_map(of_host).collect()
}

fn of_host(host: &Host) -> Vec<HeldReplies> {
    let mut flows: FxHashMap<EndpointId, Flow> = FxHashMap::default();
    for event in host.events(TableSet::of(&[Table::Op]), ..) {
        let Event::Op(r) = event else { continue };
        if flows.len() < FLOWS_MAX || flows.contains_key(&r.flow) {
            flows.entry(r.flow).or_default().step(&r);
        }
    }
    if flows.values().all(|f| f.held == 0) {
        return Vec::new();
    }
    let mut out: BTreeMap<u16, HeldReplies> = BTreeMap::new();
    for event in host.events(TableSet::of(&[Table::Endpoint]), ..) {
        let Event::Endpoint(r) = event else { continue };
        // each connection once, though it may be announced again
        let Some(f) = (r.side == Side::Server && r.lport != 0).then(|| flows.remove(&r.flow)).flatten() else {
            continue;
        };
        let of = out.entry(r.lport).or_insert_with(|| HeldReplies {
            host: host.id(),
            task: f.task,
            port: r.lport,
            held: 0,
            replies: 0,
        });
        if of.task == TaskId::UNKNOWN || f.held > 0 {
            of.task = f.task;
        }
        of.held += f.held;
        of.replies += f.replies;
    }
    out.into_values().filter(|h| h.held > 0 && h.held as f64 >= SHARE_MIN * h.replies as f64).collect()
}
