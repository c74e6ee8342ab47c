//! The second pass over one host: what its linker finds, step by step.

use crate::attribution::Attribution;
use crate::exchange::Engine;
use crate::finished::Finished;
use crate::first_pass::{BASE, CHECK_NS, LearnedFlows, Pauses, by_actor, feed};
use crate::options::Options;
use crate::report::HostReport;
use crate::roles::Roles;
use wakepath_model::folder::{Events, Host, TableSet};
use wakepath_model::ids::MonoNs;
use wakepath_model::rows::{EventRef, FlowStateRow, Reset, Table, TcpState};

/// One host's second pass.
pub(crate) struct Stream<'f, F: Finished> {
    events: Events<'f>,
    engine: Engine<Attribution<'f, F>>,
    pauses: Pauses,
    last: MonoNs,
    checked: MonoNs,
    held_max: usize,
    operations: u64,
}

impl<'f, F: Finished> Stream<'f, F> {
    /// Begins it: tells what is known before the first row.
    pub(crate) fn new(host: &'f Host, roles: &'f Roles, known: LearnedFlows, options: Options, mut out: F) -> Self {
        out.lost(roles.losses.all());
        for r in known.channels.announcements() {
            out.channel(&r);
        }
        let linker = Attribution::new(roles, host.id(), options, out);
        let mut tables = BASE.to_vec();
        tables.extend([Table::SniffedFlow, Table::SniffedExchange]);
        if roles.needs_wakes() {
            tables.push(Table::Wait);
        }
        Stream {
            events: host.events(TableSet::of(&tables), ..),
            engine: Engine::new(linker, known.sides, known.channels),
            pauses: Pauses::of(host),
            last: MonoNs(0),
            checked: MonoNs(0),
            held_max: 0,
            operations: 0,
        }
    }

    /// When its next row is.
    pub(crate) fn next_at(&mut self) -> Option<MonoNs> {
        self.events.next_at()
    }

    /// Where its steps go.
    pub(crate) fn out(&self) -> &F {
        &self.engine.steps.out
    }

    /// Reads the next row; false where there is none.
    pub(crate) fn step(&mut self) -> bool {
        if let Some(next) = self.events.next_at()
            && let Some(began) = self.pauses.before(next)
        {
            self.pause(began, next);
        }
        let Some(event) = self.events.next_ref() else { return false };
        let at = event.at();
        self.last = self.last.max(at);
        let (last, linker) = (self.last, &mut self.engine.steps);
        linker.out.at(last);
        match event {
            EventRef::Endpoint(r) => linker.out.endpoint(r),
            EventRef::Wait(r) => linker.wait(&self.engine.xs, r),
            EventRef::Poll(r) => linker.poll(&by_actor(r)),
            EventRef::Input(r) => linker.input(&self.engine.xs, r),
            EventRef::Handover(r) => linker.handed_over(&self.engine.xs, r),
            EventRef::Stream(r) if r.calls == 0 => linker.serves_stream(&self.engine.xs, r),
            EventRef::Task(r) => {
                linker.task(&self.engine.xs, r);
                self.engine.task(r);
            }
            EventRef::Op(_) => self.operations += 1,
            EventRef::SniffedFlow(r) => linker.out.sniffed_flow(r),
            EventRef::SniffedExchange(r) => linker.out.sniffed_exchange(r),
            _ => {}
        }
        feed(&mut self.engine, event);
        if let EventRef::FlowState(&FlowStateRow { flow, new: TcpState::Close, reset, snd, .. }) = event {
            self.engine.steps.out.over(flow, snd);
            if reset == Reset::None {
                self.engine.steps.out.gone(flow, at);
            }
        }
        if at.0 > self.checked.0.saturating_add(CHECK_NS) {
            self.checked = at;
            self.check(at);
        }
        true
    }

    /// Nobody recorded from then on, until `next`: gives what is held, as at the end of a recording, while its connections are known.
    fn pause(&mut self, began: MonoNs, next: MonoNs) {
        self.engine.steps.out.at(next);
        self.engine.paused(began);
        self.engine.steps.hand_on_all(&self.engine.xs);
        self.release(began);
    }

    /// Gives places back that are asked for no more.
    fn release(&mut self, at: MonoNs) {
        for x in self.engine.steps.advance(&self.engine.xs, at) {
            if self.engine.xs.is_live(x) {
                self.engine.xs.release(x);
            }
        }
    }

    /// Looks for what is over.
    fn check(&mut self, at: MonoNs) {
        self.engine.steps.out.tick(at);
        for flow in self.engine.forget(at) {
            self.engine.steps.out.gone(flow, at);
        }
        self.release(at);
        self.held_max = self.held_max.max(self.engine.xs.in_use());
    }

    /// The recording is over: gives what is left, and where it all went.
    pub(crate) fn finish(mut self) -> (HostReport, F) {
        self.engine.steps.out.read_all();
        self.engine.finish(self.last);
        self.engine.steps.finish(&self.engine.xs);
        let linker = self.engine.steps;
        let report = HostReport {
            made: linker.tally.links,
            missing: linker.tally.missing.into_iter().map(|((m, process), n)| ((m, process.leader()), n)).collect(),
            calls: linker.tally.calls,
            operations: self.operations,
            held_max: self.held_max,
        };
        (report, linker.out)
    }
}
