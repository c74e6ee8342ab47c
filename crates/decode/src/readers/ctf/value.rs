//! Events with all their fields, straight from their types and without the programs: slow, and what those are held
//! against.

use super::bits;
use super::plan::label_ranges;
use super::schema::{Array, Int, Labels, Len, Order, Path, Schema, Scope, Type, Variant};
use super::stream_reader::{Next, StreamReader};
use super::trace::Trace;
use std::sync::Arc;

/// A field's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An integer, with the labels that an enumeration has for it.
    Int(i128, Vec<Arc<str>>),
    /// A floating-point number.
    Float(f64),
    /// A text up to its NUL.
    Text(Vec<u8>),
    /// Bytes.
    Blob(Vec<u8>),
    /// Elements.
    List(Vec<Value>),
    /// Members of a structure.
    Fields(Vec<(Arc<str>, Value)>),
    /// The one option of a variant that is there.
    Chosen(Arc<str>, Box<Value>),
    /// An optional field that is not there.
    Nothing,
}

/// An event with all its fields.
#[derive(Clone, Debug, PartialEq)]
pub struct Event<'a> {
    /// What it is called.
    pub name: &'a str,
    /// Nanoseconds of the host's clock.
    pub at_ns: u64,
    /// Ticks of that clock.
    pub ticks: u64,
    /// The processor that its packet names, or the stream's number.
    pub cpu: u16,
    /// The file that it is in.
    pub file: &'a str,
    /// Fields of the streams' event context, of the event's own context, and its own fields, where it has them.
    pub parts: [Option<Value>; 3],
    /// Whether this reading ended at the same bit as the event's program.
    pub agrees: bool,
}

/// Gives one event whose body was just read.
pub(super) fn event(trace: &Trace, stream_reader: &StreamReader, next: Next, take: &mut dyn FnMut(&Event<'_>)) {
    let id =
        trace.classes.get(stream_reader.packet.class).and_then(|c| Some((c.id, c.events.get(next.event as usize)?)));
    let Some((class_id, event)) = id else { return };
    let Some(stream) = trace.schema.streams.get(&class_id) else { return };
    let Some(class) = stream.events.get(&event.id) else { return };
    let head = stream_reader.head();
    let mut walker = Walker { schema: &trace.schema, data: &head, seen: Vec::new(), at: 0 };
    // the packet's own fields, for what depends on them
    walker.part(Scope::PacketHeader, trace.schema.packet_header.as_ref());
    walker.part(Scope::PacketContext, stream.packet_context.as_ref());
    let (window, base) = stream_reader.window();
    walker.data = window;
    walker.at = next.header - base;
    walker.part(Scope::EventHeader, stream.event_header.as_ref());
    let parts = [
        walker.part(Scope::StreamEventContext, stream.event_context.as_ref()),
        walker.part(Scope::EventContext, class.context.as_ref()),
        walker.part(Scope::Fields, class.fields.as_ref()),
    ];
    let agrees = walker.at + base == stream_reader.position();
    let file = stream_reader.files.get(stream_reader.current).map_or("", |f| &*f.name);
    let (cpu, name) = (stream_reader.packet.cpu, &*event.name);
    take(&Event { name, at_ns: next.at, ticks: next.ticks, cpu, file, parts, agrees });
}

/// An integer that others may depend on.
type Seen = (Scope, Vec<Arc<str>>, i128, Option<Arc<Labels>>);

struct Walker<'a> {
    schema: &'a Schema,
    data: &'a [u8],
    seen: Vec<Seen>,
    at: u64,
}

impl Walker<'_> {
    fn part(&mut self, scope: Scope, ty: Option<&Type>) -> Option<Value> {
        ty.and_then(|ty| self.value(ty, scope, &mut Vec::new()))
    }

    fn int(&mut self, int: &Int) -> Option<i128> {
        self.at = bits::align(self.at, int.align.max(1));
        let value = bits::read(self.data, self.at, int.bits, self.big(int.order))?;
        self.at += u64::from(int.bits);
        let signed = bits::extend(value, int.bits) as i64;
        Some(if int.signed { signed.into() } else { value.into() })
    }

    fn big(&self, order: Order) -> bool {
        order == Order::Big || order == Order::Native && self.schema.big
    }

    fn bytes(&mut self, count: u64) -> Option<&[u8]> {
        let from = (self.at / 8) as usize;
        let to = from.checked_add(usize::try_from(count).ok()?)?;
        self.at = to as u64 * 8;
        self.data.get(from..to)
    }

    fn len(&self, len: &Len, scope: Scope, path: &[Arc<str>]) -> Option<u64> {
        match len {
            Len::Fixed(n) => Some(*n),
            Len::Field(to) => Some(self.find(to, scope, path)?.0 as u64),
        }
    }

    fn find(&self, to: &Path, scope: Scope, path: &[Arc<str>]) -> Option<(i128, Option<Arc<Labels>>)> {
        let at = |scope: Option<Scope>, prefix: &[Arc<str>]| {
            let whole: Vec<Arc<str>> = prefix.iter().chain(&to.names).cloned().collect();
            let found = self.seen.iter().rev().find(|s| scope.is_none_or(|scope| s.0 == scope) && s.1 == whole);
            found.map(|(_, _, value, labels)| (*value, labels.clone()))
        };
        if to.scope.is_some() {
            return at(to.scope, &[]);
        }
        (0..path.len()).rev().find_map(|n| at(Some(scope), &path[..n])).or_else(|| at(None, &[]))
    }

    fn see(&mut self, scope: Scope, path: &[Arc<str>], value: i128, labels: Option<&Arc<Labels>>) -> Value {
        self.seen.push((scope, path.to_vec(), value, labels.cloned()));
        let names = labels.into_iter().flat_map(|l| l.iter());
        let names = names.filter(|(_, low, high)| (*low..=*high).contains(&value)).map(|(name, ..)| name);
        Value::Int(value, names.cloned().collect())
    }

    fn value(&mut self, ty: &Type, scope: Scope, path: &mut Vec<Arc<str>>) -> Option<Value> {
        self.at = bits::align(self.at, ty.align());
        Some(match ty {
            Type::Int(int) => {
                let value = self.int(int)?;
                self.see(scope, path, value, int.labels.as_ref())
            }
            Type::Var(var) => {
                let (value, bytes) = bits::leb128(self.data, (self.at / 8) as usize, var.signed)?;
                self.at += bytes as u64 * 8;
                let value = if var.signed { i128::from(value as i64) } else { value.into() };
                self.see(scope, path, value, var.labels.as_ref())
            }
            Type::Float { bits: width, order, .. } => {
                let value = bits::read(self.data, self.at, *width, self.big(*order))?;
                self.at += u64::from(*width);
                Value::Float(if *width == 32 { f32::from_bits(value as u32).into() } else { f64::from_bits(value) })
            }
            Type::Str { unit } => {
                let unit = usize::from((*unit).max(1));
                let rest = self.data.get((self.at / 8) as usize..)?;
                let len = rest.chunks_exact(unit).position(|c| c.iter().all(|b| *b == 0))? * unit;
                let text = rest[..len].to_vec();
                self.at += ((len + unit) * 8) as u64;
                Value::Text(text)
            }
            Type::Bytes { len, text, .. } => {
                let count = self.len(len, scope, path)?;
                let mut bytes = self.bytes(count)?.to_vec();
                if *text {
                    bytes.truncate(bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len()));
                }
                if *text { Value::Text(bytes) } else { Value::Blob(bytes) }
            }
            Type::Array(a) => self.array(a, scope, path)?,
            Type::Struct(s) => {
                let mut out = Vec::new();
                for m in &s.members {
                    path.push(m.name.clone());
                    let value = self.value(&m.ty, scope, path);
                    path.pop();
                    out.push((self.schema.shown(&m.name).into(), value?));
                }
                Value::Fields(out)
            }
            Type::Variant(v) => self.variant(v, scope, path)?,
            Type::Optional(o) => {
                let (selector, _) = self.find(&o.selector, scope, path)?;
                let there = match &o.ranges {
                    Some(ranges) => ranges.iter().any(|(low, high)| (*low..=*high).contains(&selector)),
                    None => selector != 0,
                };
                let mark = self.seen.len();
                let value = if there { self.value(&o.ty, scope, path)? } else { Value::Nothing };
                self.seen.truncate(mark);
                value
            }
        })
    }

    fn array(&mut self, a: &Array, scope: Scope, path: &mut Vec<Arc<str>>) -> Option<Value> {
        let count = self.len(&a.len, scope, path)?;
        let mark = self.seen.len();
        path.push("".into());
        let mut out = Vec::new();
        for _ in 0..count {
            let before = self.at;
            out.push(self.value(&a.element, scope, path)?);
            if self.at == before {
                break;
            }
            self.seen.truncate(mark);
        }
        path.pop();
        self.seen.truncate(mark);
        Some(Value::List(out))
    }

    fn variant(&mut self, v: &Variant, scope: Scope, path: &mut Vec<Arc<str>>) -> Option<Value> {
        let (tag, labels) = self.find(v.tag.as_ref()?, scope, path)?;
        let has = |ranges: &[(i128, i128)]| ranges.iter().any(|(low, high)| (*low..=*high).contains(&tag));
        let chosen = v.options.iter().find(|o| match (&o.ranges, &labels) {
            (Some(ranges), _) => has(ranges),
            (None, labels) => labels.as_ref().is_some_and(|l| has(&label_ranges(l, &o.name))),
        })?;
        let mark = self.seen.len();
        path.push(chosen.name.clone());
        let value = self.value(&chosen.ty, scope, path);
        path.pop();
        self.seen.truncate(mark);
        Some(Value::Chosen(self.schema.shown(&chosen.name).into(), Box::new(value?)))
    }
}
