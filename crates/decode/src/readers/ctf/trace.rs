//! One trace's metadata, made ready to read its streams by.

use super::plan::{Known, Planner};
use super::program::{NONE, Program};
use super::schema::{Clock, Schema, Scope, StreamClass, Type, role};
use crate::readers::lttng::{self, Mapped};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Outputs of the programs of headers and contexts: a role's place among the roles.
pub(super) const fn out(role: u16) -> u8 {
    role.trailing_zeros() as u8
}

/// Event numbers below this are found by their place in a table.
const DENSE: u64 = 1 << 16;

/// What LTTng, and perf, call the kernel's release in a trace's environment.
pub(super) const KERNEL_RELEASE: &[&str] = &["kernel_release", "release"];

/// A trace.
pub(super) struct Trace {
    pub schema: Schema,
    pub programs: Vec<Program>,
    pub slots: usize,
    pub header: usize,
    pub classes: Vec<Class>,
}

/// A class of streams.
pub(super) struct Class {
    pub id: u64,
    pub context: usize,
    pub event_header: usize,
    /// Where an event may begin, in bits.
    pub align: u32,
    /// Ticks a second.
    pub frequency: u64,
    pub events: Vec<Event>,
    dense: Vec<u32>,
    sparse: FxHashMap<u64, u32>,
}

/// A class of events.
pub(super) struct Event {
    pub name: Arc<str>,
    pub id: u64,
    /// Its program; `None` where its layout cannot be read.
    pub body: Option<usize>,
    pub mapped: Option<Mapped>,
    /// How many were read.
    pub count: u64,
}

impl Class {
    /// An event's place in the list of events, by its number.
    #[inline]
    pub fn event(&self, id: u64) -> Option<u32> {
        match self.dense.get(id as usize) {
            Some(at) if id < DENSE => (*at != u32::MAX).then_some(*at),
            _ => self.sparse.get(&id).copied(),
        }
    }

    /// Nanoseconds of so many ticks.
    #[inline]
    pub fn ns(&self, ticks: u64) -> u64 {
        const SECOND: u64 = 1_000_000_000;
        if self.frequency == SECOND {
            return ticks;
        }
        u64::try_from(u128::from(ticks) * u128::from(SECOND) / u128::from(self.frequency)).unwrap_or(u64::MAX)
    }
}

impl Trace {
    /// Makes the programs.
    ///
    /// # Errors
    /// What cannot be read of the headers, without which nothing can be read.
    pub fn new(schema: Schema) -> Result<Trace, String> {
        let mut planner = Planner::new(schema.big);
        let by_role = |_: Scope, path: &[Arc<str>], roles: u16| match (roles, path) {
            // CTF 2 has no role for it
            (0, [name]) if **name == *"cpu_id" => out(role::CPU),
            (0, _) => NONE,
            (roles, _) => out(roles),
        };
        let parts = [(Scope::PacketHeader, schema.packet_header.as_ref())];
        let (header, behind) = planner.part(&parts, Known::START, &by_role)?;
        let mut classes = Vec::new();
        for (id, stream) in &schema.streams {
            let mark = planner.mark();
            let parts = [(Scope::PacketContext, stream.packet_context.as_ref())];
            let (context, _) = planner.part(&parts, behind, &by_role)?;
            let parts = [(Scope::EventHeader, stream.event_header.as_ref())];
            let (event_header, behind) = planner.part(&parts, Known::NOTHING, &by_role)?;
            let mut class = Class {
                id: *id,
                context,
                event_header,
                align: stream.event_header.as_ref().map_or(1, Type::align),
                frequency: clock(&schema, stream).map_or(1_000_000_000, |c| c.frequency),
                events: Vec::new(),
                dense: Vec::new(),
                sparse: FxHashMap::default(),
            };
            class.add_events(&schema, stream, &mut planner, behind);
            classes.push(class);
            planner.forget(mark);
        }
        let (programs, slots) = planner.done();
        Ok(Trace { schema, programs, slots, header, classes })
    }

    /// A class of streams, by its number; where there is but one and packets do not say, that one.
    pub fn class(&self, id: Option<u64>) -> Option<usize> {
        match (id, self.classes.len()) {
            (None, 1) => Some(0),
            (id, _) => self.classes.iter().position(|c| c.id == id.unwrap_or(0)),
        }
    }

    /// The clock by which the first class of streams that has one tells the time.
    pub fn clock(&self) -> Option<&Clock> {
        self.schema.streams.values().find_map(|s| clock(&self.schema, s)).or(self.schema.clocks.first())
    }
}

impl Class {
    fn add_events(&mut self, schema: &Schema, stream: &StreamClass, planner: &mut Planner, behind: Known) {
        let kernel = lttng::Kernel::of(schema.env_of(KERNEL_RELEASE));
        for (id, event) in &stream.events {
            let mark = planner.mark();
            let members: Vec<&str> = match &event.fields {
                Some(Type::Struct(s)) => s.members.iter().map(|m| schema.shown(&m.name)).collect(),
                _ => Vec::new(),
            };
            let plan = lttng::plan(kernel, &event.name, &members);
            let wanted = |scope: Scope, path: &[Arc<str>], _: u16| {
                let shown = |at: usize| path.get(at).map_or("", |name| schema.shown(name));
                match scope {
                    Scope::Fields => plan.as_ref().and_then(|p| p.output(path.len(), shown)).unwrap_or(NONE),
                    Scope::StreamEventContext if path.len() == 1 => lttng::context(shown(0)).unwrap_or(NONE),
                    _ => NONE,
                }
            };
            let parts = [
                (Scope::StreamEventContext, stream.event_context.as_ref()),
                (Scope::EventContext, event.context.as_ref()),
                (Scope::Fields, event.fields.as_ref()),
            ];
            let body = planner.part(&parts, behind, &wanted).ok().map(|(body, _)| body);
            planner.forget(mark);
            let mapped = plan.map(|p| p.mapped);
            let at = self.events.len() as u32;
            self.events.push(Event { name: event.name.as_str().into(), id: *id, body, mapped, count: 0 });
            if *id < DENSE {
                let place = *id as usize;
                if self.dense.len() <= place {
                    self.dense.resize(place + 1, u32::MAX);
                }
                self.dense[place] = at;
            } else {
                self.sparse.insert(*id, at);
            }
        }
    }
}

/// The clock that a class of streams names: itself (CTF 2), or through its timestamps (CTF 1.8); else the only one.
fn clock<'s>(schema: &'s Schema, stream: &StreamClass) -> Option<&'s Clock> {
    let name = match &stream.clock {
        Some(name) => Some(name.clone()),
        None => stream.event_header.as_ref().and_then(mapped_clock).map(|c| c.to_string()),
    };
    match name {
        Some(name) => schema.clocks.iter().find(|c| c.name == name),
        None => schema.clocks.first().filter(|_| schema.clocks.len() == 1),
    }
}

fn mapped_clock(ty: &Type) -> Option<&Arc<str>> {
    match ty {
        Type::Int(int) => int.clock.as_ref(),
        Type::Struct(s) => s.members.iter().find_map(|m| mapped_clock(&m.ty)),
        Type::Variant(v) => v.options.iter().find_map(|o| mapped_clock(&o.ty)),
        _ => None,
    }
}
