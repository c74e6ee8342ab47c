//! Counts rows of flows: each says how much there was of it until then.

use super::flows::{Flow, NONE, Said};
use super::{Metrics, Place, Texts};
use wakepath_model::ids::{CommonNs, StrId};
use wakepath_model::rows::{FlowRowKind, ResetBy, SideHow, SniffedFlowRow};

impl Metrics {
    /// Takes a row of a flow. `source` tells captures apart, `at` is the row's time on the line that all have in common.
    pub fn flow(&mut self, source: u16, at: CommonNs, row: &SniffedFlowRow, texts: &impl Texts) {
        if at >= self.options.to {
            return;
        }
        let is_known = self.flows.get(row.flow).is_some();
        if !is_known {
            let mut flow = Flow::new(source, row);
            if row.what != FlowRowKind::Begin && self.limits.flows_forgotten > 0 {
                // what was counted of it before is not known any more
                self.limits.flows_uncertain += 1;
                flow.said = Said::of(row);
                flow.rtt = [true; 2];
            }
            let gone = self.flows.add(row.flow, flow);
            self.limits.flows_forgotten += gone.len() as u64;
            for flow in gone.iter().filter(|f| f.service != NONE) {
                let service = &mut self.services[flow.service as usize];
                service.flows_open = service.flows_open.saturating_sub(1);
            }
        }
        let Some(mut flow) = self.flows.get(row.flow).copied() else { return };
        if flow.source != source {
            return;
        }
        if is_known && row.what == FlowRowKind::Begin {
            // forgotten by its capture and met again: its counts begin anew
            flow.said = Said::default();
            if flow.ended && flow.service != NONE {
                flow.ended = false;
                self.services[flow.service as usize].flows_open += 1;
            }
        }
        if at < self.options.from {
            flow.said = Said::of(row);
            flow.rtt = [row.syn_ack.0 != 0, row.ack.0 != 0];
        }
        // by its ports alone, the first row may be mistaken: a later one, or the first exchange, decides
        let is_sure = matches!(row.side, SideHow::Handshake | SideHow::Protocol) || row.what != FlowRowKind::Begin;
        let moved = (row.server, row.server_port) != (flow.server, flow.server_port);
        if is_sure && (flow.service == NONE || moved) {
            if moved && flow.server == row.client {
                flow.said.turn();
            }
            (flow.client, flow.server, flow.server_port) = (row.client, row.server, row.server_port);
            self.settle(&mut flow);
        }
        if flow.service != NONE && at >= self.options.from {
            self.roll(at);
            self.count_flow(&mut flow, row, texts);
        }
        if !matches!(row.what, FlowRowKind::Begin | FlowRowKind::Update) && !flow.ended {
            flow.ended = true;
            if flow.service != NONE {
                let service = &mut self.services[flow.service as usize];
                service.flows_open = service.flows_open.saturating_sub(1);
            }
        }
        if let Some(kept) = self.flows.get(row.flow) {
            *kept = flow;
        }
    }

    /// Gives a flow its service and its caller.
    pub(super) fn settle(&mut self, flow: &mut Flow) {
        if flow.service != NONE {
            // it turned out to go the other way round; what was counted stays, since counters never go back
            let before = &mut self.services[flow.service as usize];
            before.flows_open = before.flows_open.saturating_sub(u64::from(!flow.ended));
        }
        let place = Place {
            family: flow.family,
            address: flow.server,
            port: flow.server_port,
            ip_protocol: flow.ip_protocol,
            path: String::new(),
        };
        flow.service = self.service_at(place);
        flow.caller = self.caller_of(flow.family, flow.client, flow.service);
        self.touch_service(flow.service);
        let service = &mut self.services[flow.service as usize];
        service.flows_open += u64::from(!flow.ended);
        service.network.counts.flows += 1;
        self.callers[flow.caller as usize].flows += 1;
    }

    pub(super) fn count_flow(&mut self, flow: &mut Flow, row: &SniffedFlowRow, texts: &impl Texts) {
        let now = Said::of(row);
        let more = now.since(&flow.said);
        flow.said = now;
        self.touch_service(flow.service);
        let service = &mut self.services[flow.service as usize];
        if service.protocol.is_empty() && row.protocol != StrId::EMPTY {
            service.protocol = texts.text(row.protocol).into_owned();
        }
        if row.protocol == StrId::EMPTY && row.reason != StrId::EMPTY && service.opaque.is_empty() {
            service.opaque = texts.text(row.reason).into_owned();
        }
        let net = &mut service.network;
        let pairs = [
            (&mut net.counts.packets, more.packets),
            (&mut net.counts.wire_bytes, more.wire_bytes),
            (&mut net.counts.stream_bytes, more.stream_bytes),
            (&mut net.counts.missing_bytes, more.missing_bytes),
            (&mut net.counts.retransmitted, more.retransmitted),
            (&mut net.counts.reordered, more.reordered),
            (&mut net.counts.zero_windows, more.zero_windows),
            (&mut self.callers[flow.caller as usize].stream_bytes, more.stream_bytes),
        ];
        for (sum, more) in pairs {
            sum[0] += more[0];
            sum[1] += more[1];
        }
        let handshake = [(row.syn, row.syn_ack, &mut net.rtt_server), (row.syn_ack, row.ack, &mut net.rtt_client)];
        for (told, (from, to, rtt)) in flow.rtt.iter_mut().zip(handshake) {
            if !*told && from.0 != 0 && to.0 != 0 {
                *told = true;
                rtt.add(to.0.saturating_sub(from.0));
            }
        }
        if row.what == FlowRowKind::Reset && !flow.ended {
            let is_refused = row.reset_by == ResetBy::Server && row.syn.0 != 0 && row.syn_ack.0 == 0;
            match row.reset_by {
                _ if is_refused => net.counts.refused += 1,
                ResetBy::Client => net.counts.resets[0] += 1,
                ResetBy::Server => net.counts.resets[1] += 1,
                ResetBy::Nobody => {}
            }
        }
    }
}
