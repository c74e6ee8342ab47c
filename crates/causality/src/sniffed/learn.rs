//! What has to be known of a capture before its exchanges are joined: who serves, when packets were lost, and when a server
//! was at work on requests that the capture does not have.

use crate::intervals::Intervals;
use rustc_hash::{FxHashMap, FxHashSet};
use wakepath_model::defects;
use wakepath_model::folder::{Host, TableSet};
use wakepath_model::ids::{MonoNs, SniffedFlowId};
use wakepath_model::rows::{Event, ExchangeKind, FlowRowKind, LossRow, SniffedExchangeRow, SniffedFlowRow, Table};

/// An address, IPv4 in the first four bytes.
pub(crate) type Address = [u8; 16];

/// Whether a row ends its flow.
pub(super) fn is_over(r: &SniffedFlowRow) -> bool {
    matches!(r.what, FlowRowKind::Fin | FlowRowKind::Reset | FlowRowKind::Forgotten | FlowRowKind::CaptureEnd)
}

/// Of one sniffer.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// When packets or rows were lost.
    pub(crate) losses: Intervals,
    /// When a server was at work on a request that was not captured.
    unseen: FxHashMap<Address, Intervals>,
    /// Everybody who serves.
    serves: FxHashSet<Address>,
}

/// A flow as this pass needs it: its server, and since when a request on it may be under way that was not captured.
struct Flow {
    server: Address,
    since: u64,
}

impl Seen {
    /// Reads a sniffer's flows, losses and the replies without requests. Memory: flows open at once, addresses of servers.
    pub(crate) fn read(host: &Host) -> Seen {
        let mut seen = Seen::default();
        let mut flows: FxHashMap<SniffedFlowId, Flow> = FxHashMap::default();
        let tables = TableSet::of(&[Table::SniffedFlow, Table::SniffedExchange, Table::Loss]);
        let mut over: Vec<SniffedFlowId> = Vec::new();
        for event in host.events(tables, ..) {
            match event {
                Event::SniffedFlow(r) => {
                    seen.serves.insert(r.server);
                    // one that was not seen to begin may owe a reply from before
                    let since = if r.syn.0 != 0 { r.at.0 } else { 0 };
                    flows.entry(r.flow).or_insert(Flow { server: r.server, since }).server = r.server;
                    if is_over(&r) {
                        over.push(r.flow);
                    }
                    // the last exchange of a flow stands behind its end
                    if over.len() > OVER_MAX {
                        over.drain(..OVER_MAX / 2).for_each(|f| _ = flows.remove(&f));
                    }
                }
                Event::SniffedExchange(r) => {
                    if let Some(flow) = flows.get_mut(&r.flow) {
                        seen.exchange(flow, &r);
                    }
                }
                Event::Loss(r) => seen.loss(&r, host.text(r.what)),
                _ => {}
            }
        }
        seen.losses.settle();
        seen.unseen.values_mut().for_each(Intervals::settle);
        seen
    }

    fn exchange(&mut self, flow: &mut Flow, r: &SniffedExchangeRow) {
        if r.what == ExchangeKind::ReplyOnly {
            self.unseen.entry(flow.server).or_default().push(flow.since, r.reply_last.0.max(r.at.0));
        }
        flow.since = flow.since.max(r.at.0);
    }

    fn loss(&mut self, r: &LossRow, what: &str) {
        const HIDING: [&str; 6] =
            ["loss.packet", "loss.forward", "net.bytes_missing", "net.held_limit", "net.flows_limit", "net.open_limit"];
        if HIDING.iter().any(|h| what.starts_with(h)) || defects::hides_rows(what) {
            self.losses.push(r.from.0, r.at.0);
        }
    }

    /// Whether an address was ever that of a server.
    pub(crate) fn serves(&self, address: &Address) -> bool {
        self.serves.contains(address)
    }

    /// Whether a server was at work on a request then that was not captured.
    pub(crate) fn was_unseen(&self, server: &Address, at: MonoNs) -> bool {
        self.unseen.get(server).is_some_and(|i| i.touch(at, at))
    }

    /// Whether that request came before the capture began.
    pub(crate) fn is_older(&self, server: &Address, at: MonoNs) -> bool {
        self.unseen.get(server).is_some_and(|i| i.begins_before(at))
    }
}

/// Flows that are over and still kept.
const OVER_MAX: usize = 4096;
