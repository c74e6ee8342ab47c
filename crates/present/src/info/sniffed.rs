//! What a sniffer saw: flows by protocol, their packets and exchanges.

use super::SniffedFacts;
use rustc_hash::FxHashMap;
use wakepath_model::folder::Host;
use wakepath_model::ids::{SniffedFlowId, StrId};
use wakepath_model::rows::{ExchangeKind, Failed, SniffedExchangeRow, SniffedFlowRow, Table};

/// Flows told apart on one host: about 60 MB.
const FLOWS_MAX: usize = 1 << 20;
/// Kinds of flows told apart on one host.
const KINDS_MAX: usize = 1 << 12;
/// Why a flow has no protocol where no row says it.
const UNTOLD: &str = "content not recognised";

/// What the last row of a flow says; its counts are since the flow's begin.
#[derive(Clone, Copy)]
struct Flow {
    kind: Kind,
    packets: u64,
    wire_bytes: u64,
    missing_bytes: u64,
}

/// IP protocol, protocol and why it has none.
type Kind = (u8, StrId, StrId);

/// Flows by protocol, the one with most exchanges first; and what found no room, in words.
pub(super) fn sniffed(host: &Host) -> (Vec<SniffedFacts>, Option<String>) {
    let mut flows: FxHashMap<SniffedFlowId, Flow> = FxHashMap::default();
    let mut is_full = false;
    for batch in host.batches(Table::SniffedFlow.into(), ..) {
        for row in batch.rows::<SniffedFlowRow>() {
            if flows.len() >= FLOWS_MAX && !flows.contains_key(&row.flow) {
                is_full = true;
                continue;
            }
            let sum = |pair: [u64; 2]| pair[0].saturating_add(pair[1]);
            let flow = Flow {
                kind: (row.ip_protocol, row.protocol, row.reason),
                packets: sum(row.packets),
                wire_bytes: sum(row.wire_bytes),
                missing_bytes: sum(row.missing_bytes),
            };
            // frames overlap in time: the row with the most packets is the last one
            let last = flows.entry(row.flow).or_insert(flow);
            if flow.packets >= last.packets {
                *last = flow;
            }
        }
    }
    let mut kinds: FxHashMap<Kind, SniffedFacts> = FxHashMap::default();
    let mut facts_of = |kind: Kind, change: &mut dyn FnMut(&mut SniffedFacts)| {
        if kinds.len() >= KINDS_MAX && !kinds.contains_key(&kind) {
            is_full = true;
            return;
        }
        change(kinds.entry(kind).or_default());
    };
    for flow in flows.values() {
        facts_of(flow.kind, &mut |f| {
            f.flows += 1;
            f.packets = f.packets.saturating_add(flow.packets);
            f.wire_bytes = f.wire_bytes.saturating_add(flow.wire_bytes);
            f.missing_bytes = f.missing_bytes.saturating_add(flow.missing_bytes);
        });
    }
    for batch in host.batches(Table::SniffedExchange.into(), ..) {
        for row in batch.rows::<SniffedExchangeRow>().iter().filter(|r| r.what != ExchangeKind::Open) {
            let kind = flows.get(&row.flow).map_or((0, row.protocol, StrId::EMPTY), |f| f.kind);
            facts_of(kind, &mut |f| {
                f.exchanges += 1;
                f.failed += u64::from(row.failed == Failed::Yes);
                f.unanswered += u64::from(row.what == ExchangeKind::Unanswered);
            });
        }
    }
    let mut out: Vec<SniffedFacts> = kinds
        .into_iter()
        .map(|((ip_protocol, protocol, reason), facts)| {
            let is_known = protocol != StrId::EMPTY;
            let reason = Some(host.text(reason)).filter(|r| !r.is_empty()).unwrap_or(UNTOLD);
            SniffedFacts {
                transport: transport(ip_protocol),
                protocol: is_known.then(|| host.text(protocol).to_owned()),
                reason: (!is_known).then(|| reason.to_owned()),
                ..facts
            }
        })
        .collect();
    let key = |f: &SniffedFacts| (f.protocol.is_none(), u64::MAX - f.exchanges, u64::MAX - f.packets, f.transport);
    out.sort_by(|a, b| key(a).cmp(&key(b)).then_with(|| (&a.protocol, &a.reason).cmp(&(&b.protocol, &b.reason))));
    let full = is_full.then(|| {
        format!(
            "more than {FLOWS_MAX} sniffed flows, or {KINDS_MAX} kinds of them; the rest are not counted by protocol"
        )
    });
    (out, full)
}

fn transport(ip_protocol: u8) -> &'static str {
    match ip_protocol {
        6 => "tcp",
        17 => "udp",
        _ => "other",
    }
}
