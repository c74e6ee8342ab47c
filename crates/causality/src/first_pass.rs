//! The first pass: what one host's rows show of how its tasks work.

use crate::exchange::{Channels, Engine, Sides, Steps};
use crate::process::known::ProcessFlag;
use crate::roles::{FUTEX, Roles};
use std::collections::VecDeque;
use wakepath_model::folder::{Host, TableSet};
use wakepath_model::ids::MonoNs;
use wakepath_model::rows::{Event, EventRef, PollRow, Table, op_flag};

/// What both passes read.
pub(crate) const BASE: [Table; 11] = [
    Table::Op,
    Table::Message,
    Table::MessageEnd,
    Table::Endpoint,
    Table::FlowState,
    Table::Task,
    Table::FlowNote,
    Table::Poll,
    Table::Input,
    Table::Handover,
    Table::Stream,
];

/// How often what is over is looked for.
pub(crate) const CHECK_NS: u64 = 20_000_000;

/// First pass over one host.
pub(crate) fn learn(host: &Host) -> (Roles, LearnedFlows) {
    let mut engine = Engine::new(Roles::default(), Sides::default(), Channels::default());
    let mut tables = BASE.to_vec();
    tables.push(Table::Loss);
    let mut checked = MonoNs(0);
    let mut events = host.events(TableSet::of(&tables), ..);
    let mut pauses = Pauses::of(host);
    while let Some(event) = events.next_ref() {
        if let Some(at) = pauses.before(event.at()) {
            engine.steps.paused(&engine.xs);
            engine.paused(at);
        }
        if event.at().0 > checked.0.saturating_add(CHECK_NS) {
            checked = event.at();
            engine.forget(checked);
        }
        match event {
            EventRef::Task(r) => {
                engine.steps.task(&engine.xs, r);
                engine.task(r);
            }
            EventRef::Loss(r) => engine.steps.loss(r, host.text(r.what)),
            EventRef::Poll(r) => engine.steps.poll(&by_actor(r)),
            EventRef::Input(r) => engine.steps.input(r),
            EventRef::Handover(r) => engine.steps.handed_over(r),
            EventRef::Stream(r) if r.calls == 0 => engine.steps.logical_tasks.lineage.serves(&engine.xs, r),
            EventRef::Op(r) if r.flags & op_flag::IO_URING != 0 => {
                engine.steps.ring(r.task);
                engine.operation(r);
            }
            other => feed(&mut engine, other),
        }
    }
    let mut roles = engine.steps;
    let channels = engine.channels.learned(|process| roles.is_so(process, ProcessFlag::ServesClients));
    let known = LearnedFlows { sides: engine.sides, channels };
    roles.finish(&engine.xs);
    if roles.needs_wakes() {
        for event in host.events(TableSet::of(&[Table::Wait]), ..) {
            if let Event::Wait(r) = event {
                if r.syscall == FUTEX {
                    roles.futex(&r);
                }
                roles.waited(&r);
            }
        }
    }
    (roles, known)
}

/// The times in which nobody recorded that are still to come.
pub(crate) struct Pauses(VecDeque<(MonoNs, MonoNs)>);

impl Pauses {
    pub(crate) fn of(host: &Host) -> Pauses {
        Pauses(host.pauses().into())
    }

    /// When the last of them began that ends by the time of this row, where any does.
    pub(crate) fn before(&mut self, at: MonoNs) -> Option<MonoNs> {
        let mut began = None;
        while let Some(&(from, _)) = self.0.front().filter(|(_, to)| *to <= at) {
            began = Some(from);
            self.0.pop_front();
        }
        began
    }
}

/// What a first pass learned of flows.
#[derive(Clone, Default)]
pub(crate) struct LearnedFlows {
    pub(crate) sides: Sides,
    pub(crate) channels: Channels,
}

/// Gives a row to an engine.
pub(crate) fn feed<S: Steps>(engine: &mut Engine<S>, event: EventRef<'_>) {
    match event {
        EventRef::Op(r) => engine.operation(r),
        EventRef::Message(r) => engine.message(r),
        EventRef::MessageEnd(r) => engine.message_end(r),
        EventRef::Endpoint(r) => engine.endpoint(r),
        EventRef::FlowState(r) => engine.state(r),
        EventRef::FlowNote(r) => engine.note(r),
        EventRef::Stream(r) => engine.asks_by_stream(r),
        _ => {}
    }
}

/// What is waited for is waited for in a logical task's name, where one is known.
pub(crate) fn by_actor(r: &PollRow) -> PollRow {
    PollRow { task: r.actor(), ..*r }
}
