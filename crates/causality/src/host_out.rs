//! One host's way into the join.

use crate::exchange::{Exchange, Side};
use crate::finished::{Done, Finished, Refused};
use crate::path::Assembler;
use crate::sniffed::{ByteKey, Wires};
use std::cell::RefCell;
use std::rc::Rc;
use wakepath_model::clock::Timeline;
use wakepath_model::ids::{EndpointId, HostId, MonoNs};
use wakepath_model::rows::{EndpointRow, SniffedExchangeRow, SniffedFlowRow};

/// What is joined of all hosts.
#[derive(Clone)]
pub(crate) struct Joined<'a> {
    pub(crate) assembler: Rc<RefCell<Assembler<'a>>>,
    /// What sniffers saw, where there is any.
    pub(crate) wires: Option<Rc<RefCell<Wires<'a>>>>,
    /// The common line, where there are several hosts.
    pub(crate) line: Option<Rc<Timeline>>,
}

/// One host's way into the join.
pub(crate) struct HostOut<'a> {
    pub(crate) host: HostId,
    pub(crate) joined: Joined<'a>,
}

impl HostOut<'_> {
    /// A time of the host on the common line (ns); where it is the only one, on its own.
    pub(crate) fn common(&self, at: MonoNs) -> i64 {
        self.joined.line.as_ref().map_or(at.0 as i64, |line| line.common(self.host, at).0)
    }
}

impl Finished for HostOut<'_> {
    fn lost(&mut self, intervals: &[(u64, u64)]) {
        self.joined.assembler.borrow_mut().lost_on(self.host, intervals);
        if let Some(wires) = self.joined.wires.as_ref().filter(|_| !intervals.is_empty()) {
            wires.borrow_mut().lost_on(self.host);
        }
    }

    fn channel(&mut self, r: &EndpointRow) {
        self.endpoint(r);
    }

    fn endpoint(&mut self, r: &EndpointRow) {
        self.joined.assembler.borrow_mut().endpoint(self.host, r);
    }

    fn sniffed_flow(&mut self, r: &SniffedFlowRow) {
        if let Some(wires) = &self.joined.wires {
            wires.borrow_mut().flow(self.host, r);
        }
    }

    fn sniffed_exchange(&mut self, r: &SniffedExchangeRow) {
        if let Some(wires) = &self.joined.wires {
            wires.borrow_mut().exchange(self.host, r);
        }
    }

    fn over(&mut self, flow: EndpointId, sent_to: u64) {
        self.joined.assembler.borrow_mut().flow_over(self.host, flow, sent_to);
    }

    fn gone(&mut self, flow: EndpointId, at: MonoNs) {
        // one clock for all hosts, or those of the host that is ahead would be forgotten at once
        let common = MonoNs(self.common(at) as u64);
        self.joined.assembler.borrow_mut().flow_gone(self.host, flow, common);
    }

    fn tick(&mut self, at: MonoNs) {
        if let Some(wires) = &self.joined.wires {
            wires.borrow_mut().tick(self.host, at);
        }
    }

    fn began(&mut self, e: &Exchange, asks_only: bool) {
        let mut assembler = self.joined.assembler.borrow_mut();
        assembler.began(self.host, e, asks_only);
        if let Some(wires) = &self.joined.wires {
            wires.borrow_mut().began(self.host, &assembler.place(self.host, e.flow), e);
        }
    }

    fn done(&mut self, d: Done) {
        let mut assembler = self.joined.assembler.borrow_mut();
        if let Some(wires) = self.joined.wires.as_ref().filter(|_| d.exchange.side == Side::Client) {
            let gap = d.parent.filter(|_| !d.is_root_call);
            if let Some(key) = ByteKey::of(&assembler.place(self.host, d.exchange.flow), &d.exchange) {
                wires.borrow_mut().client_done(key, gap);
            }
        }
        assembler.done(self.host, d);
    }

    fn refused(&mut self, r: Refused) {
        self.joined.assembler.borrow_mut().refused(self.host, r);
    }
}
