//! The same metrics where no packet was captured: from exchanges at endpoints, as the kernel and the library vantage saw them.

use super::{Metrics, MetricsOptions, Place};
use crate::names::Names;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::iter::Peekable;
use std::rc::Rc;
use wakepath_causality::exchange::ExchangeFlag;
use wakepath_causality::exchange::{Channels, Engine, ExId, Exchange, Side, Sides, Slab, Steps};
use wakepath_causality::process::ProcessId;
use wakepath_flows::Place as EndPlace;
use wakepath_model::clock::Timeline;
use wakepath_model::folder::{Events, Folder, Host, TableSet};
use wakepath_model::ids::{EndpointId, HostId, MonoNs, SniffedFlowId, StrId, TaskId};
use wakepath_model::rows::{Event, ExchangeKind, Failed, OPEN, SniffedExchangeRow, Table};

const TABLES: [Table; 7] =
    [Table::Op, Table::Message, Table::MessageEnd, Table::Endpoint, Table::FlowState, Table::Task, Table::FlowNote];
/// How often what is over is looked for.
const CHECK_NS: u64 = 20_000_000;
const AF_UNIX: u16 = 1;

/// Metrics by who saw the exchanges.
pub struct Seen {
    /// Exchanges at the endpoints that serve.
    pub server: Metrics,
    /// Exchanges at the endpoints that call. Where both ends were watched, they are the same as the servers'.
    pub client: Metrics,
}

/// Metrics of a folder's exchanges at endpoints. Times are those of the endpoints: a server's request counts from its first
/// byte's arrival at the host, where that was seen, and a reply from the call that sent it; a client's from the call that sent
/// the request until the reply was read.
pub fn of_endpoints(folder: &Folder, names: &Names<'_>, options: MetricsOptions) -> Seen {
    let seen = Rc::new(RefCell::new(Seen { server: Metrics::new(options), client: Metrics::new(options) }));
    let line = Rc::new(folder.timeline());
    let mut streams: Vec<Stream<'_>> = folder
        .hosts()
        .iter()
        .map(|host| Stream {
            events: host.events(TableSet::of(&TABLES), ..).peekable(),
            engine: Engine::new(
                Taker {
                    host,
                    names,
                    line: Rc::clone(&line),
                    seen: Rc::clone(&seen),
                    places: FxHashMap::default(),
                    processes: FxHashMap::default(),
                    is_over: false,
                },
                Sides::default(),
                Channels::none(),
            ),
            pauses: host.pauses().into(),
            checked: MonoNs(0),
            last: MonoNs(0),
        })
        .collect();
    if let [only] = &mut streams[..] {
        while only.step() {}
    } else {
        loop {
            let next = (0..streams.len()).filter_map(|i| streams[i].next_at().map(|t| (t, i))).min();
            let Some((_, i)) = next else { break };
            streams[i].step();
        }
    }
    for stream in &mut streams {
        stream.engine.steps.is_over = true;
        stream.engine.finish(stream.last);
    }
    drop(streams);
    let mut seen = Rc::into_inner(seen)
        .map_or_else(|| Seen { server: Metrics::new(options), client: Metrics::new(options) }, RefCell::into_inner);
    seen.server.finish();
    seen.client.finish();
    seen
}

/// One host's rows.
struct Stream<'f> {
    events: Peekable<Events<'f>>,
    engine: Engine<Taker<'f>>,
    /// Times in which nobody recorded that are still to come.
    pauses: VecDeque<(MonoNs, MonoNs)>,
    checked: MonoNs,
    last: MonoNs,
}

impl Stream<'_> {
    fn next_at(&mut self) -> Option<i64> {
        let at = self.events.peek()?.at();
        Some(self.engine.steps.line.common(self.engine.steps.host.id(), at).0)
    }

    fn step(&mut self) -> bool {
        let Some(event) = self.events.next() else { return false };
        let at = event.at();
        while let Some(&(from, _)) = self.pauses.front().filter(|(_, to)| *to <= at) {
            self.engine.paused(from);
            self.pauses.pop_front();
        }
        self.last = self.last.max(at);
        match &event {
            Event::Task(r) => {
                self.engine.steps.processes.insert(r.task, r.tgid);
                self.engine.task(r);
            }
            Event::Endpoint(r) => {
                self.engine.steps.places.insert(r.flow, (EndPlace::of(r), r.path));
                self.engine.endpoint(r);
            }
            Event::Op(r) => self.engine.operation(r),
            Event::Message(r) => self.engine.message(r),
            Event::MessageEnd(r) => self.engine.message_end(r),
            Event::FlowState(r) => self.engine.state(r),
            Event::FlowNote(r) => self.engine.note(r),
            _ => {}
        }
        if at.0 > self.checked.0.saturating_add(CHECK_NS) {
            self.checked = at;
            self.engine.forget(at);
        }
        true
    }
}

/// Takes exchanges as they are closed.
struct Taker<'f> {
    host: &'f Host,
    names: &'f Names<'f>,
    line: Rc<Timeline>,
    seen: Rc<RefCell<Seen>>,
    places: FxHashMap<EndpointId, (EndPlace, StrId)>,
    processes: FxHashMap<TaskId, u32>,
    /// The recording ended: what is open now is open.
    is_over: bool,
}

impl Taker<'_> {
    /// The service, and its client's family and address. A socket without an address serves nobody who could be named.
    fn ends(&self, flow: EndpointId, side: Side) -> Option<(Place, u16, [u8; 16])> {
        let (place, path) = *self.places.get(&flow)?;
        if place.family == AF_UNIX {
            let path = self.host.text(path).to_owned();
            let service = Place { family: AF_UNIX, path, ..Place::default() };
            return (side == Side::Server && !service.path.is_empty()).then_some((service, AF_UNIX, [0; 16]));
        }
        let (address, port, client) = match side {
            Side::Server => (place.laddr, place.lport, place.raddr),
            Side::Client => (place.raddr, place.rport, place.laddr),
        };
        let ip_protocol = place.protocol as u8;
        let service = Place { family: place.family, address, port, ip_protocol, path: String::new() };
        (port != 0).then_some((service, place.family, client))
    }
}

/// An exchange at an endpoint as if its packets had been seen there.
fn as_row(e: &Exchange, host: HostId, is_over: bool) -> SniffedExchangeRow {
    let mut row: SniffedExchangeRow = Default::default();
    let arrived = if e.side == Side::Server && e.request.arrived.0 != 0 {
        e.request.arrived.min(e.request.began)
    } else {
        e.request.began
    };
    row.at = e.reply.ended.max(e.request.began);
    // endpoints of two hosts may have the same number
    row.flow = SniffedFlowId(e.flow.0 ^ u64::from(host.0) << 48);
    (row.request_start, row.request_end) = (e.request.start, e.request.end);
    (row.reply_start, row.reply_end) = (e.reply.start, e.reply.end);
    (row.request_first, row.request_head) = (arrived, arrived);
    if e.reply.start != OPEN {
        row.reply_last = e.reply.ended;
        // a call that sent several replies may have begun before this request came: then its own begin is not known
        if e.reply.began >= arrived {
            (row.reply_first, row.reply_head) = (e.reply.began, e.reply.began);
        }
    }
    (row.protocol, row.verb, row.target, row.detail) =
        (e.content.protocol, e.content.verb, e.content.target, e.content.detail);
    row.status = e.content.status;
    row.failed = match e {
        _ if e.is(ExchangeFlag::Failed) => Failed::Yes,
        _ if e.is(ExchangeFlag::OutcomeUnknown) => Failed::Unknown,
        _ => Failed::No,
    };
    row.what = match e {
        _ if e.is(ExchangeFlag::OneWay) => ExchangeKind::NoReply,
        _ if e.is(ExchangeFlag::Replied) => ExchangeKind::Answered,
        _ if e.is(ExchangeFlag::UnclearBorders) => ExchangeKind::ReplyMissed,
        // it was open where a recorder ended, and the next began later
        _ if e.is(ExchangeFlag::Unfinished) && !is_over => ExchangeKind::ReplyMissed,
        _ if is_over && !e.is(ExchangeFlag::Reset) => ExchangeKind::Open,
        _ => ExchangeKind::Unanswered,
    };
    row
}

impl Steps for Taker<'_> {
    const KEEPS: bool = false;

    fn closed(&mut self, xs: &Slab, x: ExId, _: MonoNs) {
        let e = xs.get(x);
        let Some((place, family, client)) = self.ends(e.flow, e.side) else { return };
        let row = as_row(e, self.host.id(), self.is_over);
        let at = self.line.common(self.host.id(), row.at);
        let mut seen = self.seen.borrow_mut();
        let metrics = if e.side == Side::Server { &mut seen.server } else { &mut seen.client };
        if at < metrics.options.from || at >= metrics.options.to {
            return;
        }
        let service = metrics.service_at(place);
        let caller = metrics.caller_of(family, client, service);
        let name = &mut metrics.services[service as usize].name;
        if name.is_empty() && e.side == Side::Server {
            name.push_str(self.names.program(self.host.id(), e.request.task));
        }
        metrics.count(self.host.id().0, at, &row, service, caller, self.host);
    }

    fn flow_gone(&mut self, _: &Slab, flow: EndpointId) {
        self.places.remove(&flow);
    }

    fn process_of(&self, task: TaskId) -> ProcessId {
        // only whether two are the same is asked: the process's number stands for its leading task
        let number = self.processes.get(&task).copied().unwrap_or(u32::MAX - task.0);
        ProcessId::led_by(TaskId(number))
    }
}
