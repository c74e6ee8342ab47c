//! CTF 2's metadata: a JSON text sequence of fragments in, [`Schema`] out (CTF 2, §5). Fields of the later drafts and of
//! the standard are understood alike.

use super::schema::{
    ALIGN_MAX, Choice, Clock, DEPTH_MAX, EventClass, Int, Labels, Len, Member, Order, Path, Schema, Scope, StreamClass,
    Type, Var, WEIGHT_MAX, role,
};
use rustc_hash::FxHashMap;
use serde_json::Value;
use std::sync::Arc;

/// Whether these metadata are JSON: a record separator, or an object.
pub(super) fn is_json(text: &[u8]) -> bool {
    matches!(text.iter().find(|b| !b.is_ascii_whitespace()), Some(0x1e | b'{'))
}

/// Reads metadata; what cannot be read ends the reading, as in [`super::tsdl::parse`].
pub(super) fn parse(text: &[u8]) -> Schema {
    let mut reader = Reader { schema: Schema::default(), aliases: FxHashMap::default(), clock_ids: Vec::new() };
    let mut at = 0;
    for part in text.split(|b| *b == 0x1e) {
        let mut fragments = serde_json::Deserializer::from_slice(part).into_iter::<Value>();
        loop {
            let before = at + fragments.byte_offset();
            let fault = match fragments.next() {
                None => break,
                Some(Err(e)) => e.to_string(),
                Some(Ok(fragment)) => match reader.fragment(&fragment) {
                    Ok(()) => continue,
                    Err(why) => why,
                },
            };
            reader.schema.cut = Some((before as u64, fault));
            return reader.schema;
        }
        at += part.len() + 1;
    }
    reader.schema
}

type Result<T> = std::result::Result<T, String>;

struct Reader {
    schema: Schema,
    aliases: FxHashMap<String, Type>,
    /// Identifier and name of each clock; either may be what a stream class says.
    clock_ids: Vec<(String, usize)>,
}

fn text<'a>(of: &'a Value, key: &str) -> Option<&'a str> {
    of.get(key).and_then(Value::as_str)
}

fn whole(of: &Value, key: &str) -> Option<u64> {
    of.get(key).and_then(Value::as_u64)
}

fn uuid(of: &Value) -> Option<[u8; 16]> {
    let uid = of.get("uuid").or_else(|| of.get("uid"))?;
    if let Some(text) = uid.as_str() {
        return super::schema::uuid(text);
    }
    let bytes: Vec<u8> = uid.as_array()?.iter().filter_map(|b| b.as_u64().and_then(|b| b.try_into().ok())).collect();
    bytes.try_into().ok()
}

fn list<'a>(of: &'a Value, key: &str) -> &'a [Value] {
    of.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

impl Reader {
    fn fragment(&mut self, fragment: &Value) -> Result<()> {
        match text(fragment, "type").ok_or("a fragment without a type")? {
            "preamble" => match whole(fragment, "version") {
                Some(2) => Ok(()),
                _ => Err("not version 2".into()),
            },
            "trace-class" => self.trace(fragment),
            "clock-class" => self.clock(fragment),
            "field-class-alias" => {
                let ty = self.class(fragment.get("field-class").ok_or("an alias of nothing")?, 0)?;
                self.aliases.insert(text(fragment, "name").unwrap_or_default().to_owned(), ty);
                Ok(())
            }
            "data-stream-class" => {
                let class = StreamClass {
                    packet_context: self.optional(fragment, "packet-context-field-class")?,
                    event_header: self.optional(fragment, "event-record-header-field-class")?,
                    event_context: self.optional(fragment, "event-record-common-context-field-class")?,
                    clock: text(fragment, "default-clock-class-name")
                        .or_else(|| text(fragment, "default-clock-class-id"))
                        .map(|id| self.clock_name(id)),
                    ..StreamClass::default()
                };
                self.schema.streams.insert(whole(fragment, "id").unwrap_or(0), class);
                Ok(())
            }
            "event-record-class" => {
                let class = EventClass {
                    name: text(fragment, "name").unwrap_or_default().to_owned(),
                    context: self.optional(fragment, "specific-context-field-class")?,
                    fields: self.optional(fragment, "payload-field-class")?,
                };
                let stream = whole(fragment, "data-stream-class-id").unwrap_or(0);
                let streams = self.schema.streams.entry(stream).or_default();
                streams.events.insert(whole(fragment, "id").unwrap_or(0), class);
                Ok(())
            }
            other => Err(format!("a fragment of type `{other}`")),
        }
    }

    fn clock_name(&self, id: &str) -> String {
        let at = self.clock_ids.iter().find(|(known, _)| known == id);
        at.map_or(id, |(_, i)| &self.schema.clocks[*i].name).to_owned()
    }

    fn optional(&self, of: &Value, key: &str) -> Result<Option<Type>> {
        of.get(key).map(|class| self.class(class, 0)).transpose()
    }

    fn trace(&mut self, fragment: &Value) -> Result<()> {
        self.schema.uuid = uuid(fragment);
        if let Some(env) = fragment.get("environment").and_then(Value::as_object) {
            let shown = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
            self.schema.env = env.iter().map(|(k, v)| (k.clone(), shown(v))).collect();
        }
        self.schema.packet_header = self.optional(fragment, "packet-header-field-class")?;
        Ok(())
    }

    fn clock(&mut self, fragment: &Value) -> Result<()> {
        let part = |key| fragment.get("offset-from-origin").and_then(|o| o.get(key)).and_then(Value::as_i64);
        let frequency = whole(fragment, "frequency").filter(|f| *f > 0).ok_or("a clock that does not tick")?;
        let name = text(fragment, "name").or_else(|| text(fragment, "id")).unwrap_or_default().to_owned();
        if let Some(id) = text(fragment, "id") {
            self.clock_ids.push((id.to_owned(), self.schema.clocks.len()));
        }
        self.schema.clocks.push(Clock {
            name,
            uuid: uuid(fragment),
            frequency,
            offset_s: part("seconds").unwrap_or(0),
            offset: part("cycles").unwrap_or(0),
        });
        Ok(())
    }

    fn class(&self, class: &Value, depth: u32) -> Result<Type> {
        if depth > DEPTH_MAX {
            return Err("field classes nested too deeply".into());
        }
        if let Some(alias) = class.as_str() {
            return self.aliases.get(alias).cloned().ok_or_else(|| format!("no field class is called `{alias}`"));
        }
        let kind = text(class, "type").ok_or("a field class without a type")?;
        let element = |key: &str| {
            let inner = class.get(key).ok_or_else(|| format!("{kind} without {key}"))?;
            self.class(inner, depth + 1)
        };
        let fixed = || whole(class, "length").map(Len::Fixed).ok_or_else(|| format!("{kind} without a length"));
        let dynamic = || path(class, "length-field-location").map(Len::Field);
        let bytes = |len, text| Ok(Type::Bytes { len, text, roles: roles(class) });
        match kind {
            "null-terminated-string" => Ok(Type::Str { unit: unit(class) }),
            "static-length-string" => bytes(fixed()?, true),
            "dynamic-length-string" => bytes(dynamic()?, true),
            "static-length-blob" => bytes(fixed()?, false),
            "dynamic-length-blob" => bytes(dynamic()?, false),
            "fixed-length-floating-point-number" => match whole(class, "length") {
                Some(bits @ (32 | 64)) => {
                    Ok(Type::Float { bits: bits as u8, align: alignment(class, "alignment")?, order: order(class)? })
                }
                _ => Err("a floating-point number of neither 32 nor 64 bits".into()),
            },
            "static-length-array" | "dynamic-length-array" => {
                let len = if kind == "static-length-array" { fixed()? } else { dynamic()? };
                let element = element("element-field-class")?;
                Ok(Type::array(element, len, alignment(class, "minimum-alignment")?)?)
            }
            "structure" => {
                let mut members = Vec::new();
                for m in list(class, "member-classes") {
                    let ty = self.class(m.get("field-class").ok_or("a member without a class")?, depth + 1)?;
                    members.push(Member { name: text(m, "name").unwrap_or_default().into(), ty });
                }
                Ok(Type::structure(members, alignment(class, "minimum-alignment")?)?)
            }
            "variant" => {
                let mut options = Vec::new();
                for o in list(class, "options") {
                    let ty = self.class(o.get("field-class").ok_or("an option without a class")?, depth + 1)?;
                    let name = text(o, "name").unwrap_or_default().into();
                    options.push(Choice { name, ty, ranges: Some(ranges(list(o, "selector-field-ranges"))?) });
                }
                Ok(Type::variant(Some(path(class, "selector-field-location")?), options)?)
            }
            "optional" => {
                let at = class.get("selector-field-ranges").and_then(Value::as_array);
                let at = at.map(|r| ranges(r)).transpose()?;
                Ok(Type::optional(path(class, "selector-field-location")?, at, element("field-class")?)?)
            }
            _ if kind.starts_with("fixed-length-") => {
                let bits = match whole(class, "length") {
                    Some(bits @ 1..=64) => bits as u8,
                    _ => return Err("an integer of more than 64 bits, or of none".into()),
                };
                Ok(Type::Int(Int {
                    bits,
                    align: alignment(class, "alignment")?,
                    signed: kind.contains("signed") && !kind.contains("unsigned"),
                    order: order(class)?,
                    text: false,
                    clock: None,
                    roles: roles(class),
                    labels: labels(class)?,
                }))
            }
            _ if kind.starts_with("variable-length-") => {
                let signed = !kind.contains("unsigned");
                Ok(Type::Var(Var { signed, roles: roles(class), labels: labels(class)? }))
            }
            other => Err(format!("a field class of type `{other}`")),
        }
    }
}

/// Bytes of a unit of a text.
fn unit(class: &Value) -> u8 {
    match text(class, "encoding") {
        Some(e) if e.starts_with("utf-16") => 2,
        Some(e) if e.starts_with("utf-32") => 4,
        _ => 1,
    }
}

fn alignment(class: &Value, key: &str) -> Result<u32> {
    match class.get(key).map(Value::as_u64) {
        None => Ok(1),
        Some(Some(bits)) if bits.is_power_of_two() && bits <= u64::from(ALIGN_MAX) => Ok(bits as u32),
        Some(_) => Err("an alignment that is none".into()),
    }
}

fn order(class: &Value) -> Result<Order> {
    let order = match text(class, "byte-order") {
        Some("little-endian") => Order::Little,
        Some("big-endian") => Order::Big,
        None if whole(class, "length").is_some_and(|bits| bits <= 8) => Order::Little,
        _ => return Err("no byte order".into()),
    };
    // bits run the other way only where somebody asks for it; nobody is known to
    match (text(class, "bit-order"), order) {
        (None, _) | (Some("first-to-last"), Order::Little) | (Some("last-to-first"), Order::Big) => Ok(order),
        _ => Err("a bit order that is not its byte order's own".into()),
    }
}

fn roles(class: &Value) -> u16 {
    let role = |r: &Value| match r.as_str().unwrap_or_default() {
        "packet-magic-number" => role::MAGIC,
        "metadata-stream-uuid" => role::UUID,
        "data-stream-class-id" => role::STREAM_CLASS,
        "data-stream-id" => role::STREAM,
        "packet-content-length" => role::CONTENT,
        "packet-total-length" => role::TOTAL,
        "default-clock-timestamp" => role::TIME,
        "packet-end-default-clock-timestamp" => role::TIME_END,
        "discarded-event-record-counter-snapshot" => role::DISCARDED,
        "packet-sequence-number" => role::SEQUENCE,
        "event-record-class-id" => role::EVENT_CLASS,
        _ => 0,
    };
    list(class, "roles").iter().map(role).fold(0, |all, r| all | r)
}

fn range(range: &Value) -> Result<(i128, i128)> {
    let bound = |v: &Value| v.as_i64().map(i128::from).or_else(|| v.as_u64().map(i128::from));
    match range.as_array().map(Vec::as_slice) {
        Some([low, high]) => bound(low).zip(bound(high)).ok_or_else(|| "a range of what is no number".into()),
        _ => Err("a range without two bounds".into()),
    }
}

fn ranges(of: &[Value]) -> Result<Vec<(i128, i128)>> {
    of.iter().map(range).collect()
}

fn labels(class: &Value) -> Result<Option<Arc<Labels>>> {
    let Some(mappings) = class.get("mappings").and_then(Value::as_object) else { return Ok(None) };
    let mut out = Labels::new();
    for (name, of) in mappings {
        if out.len() > WEIGHT_MAX as usize {
            return Err("an enumeration with too many labels".into());
        }
        for (low, high) in ranges(of.as_array().map_or(&[], Vec::as_slice))? {
            out.push((name.as_str().into(), low, high));
        }
    }
    Ok(Some(Arc::new(out)))
}

/// A field's location: a list of names with the scope first, or an object of `origin` and `path`.
fn path(class: &Value, key: &str) -> Result<Path> {
    let location = class.get(key).ok_or_else(|| format!("no {key}"))?;
    let names = location.get("path").unwrap_or(location).as_array().ok_or("a location that is none")?;
    // a `null` goes one level up: looking from inside out finds the same field
    let mut names: Vec<Arc<str>> = names.iter().filter_map(|n| n.as_str().map(Arc::from)).collect();
    let scoped = |name: &str| match name {
        "packet-header" => Some(Scope::PacketHeader),
        "packet-context" => Some(Scope::PacketContext),
        "event-record-header" => Some(Scope::EventHeader),
        "event-record-common-context" => Some(Scope::StreamEventContext),
        "event-record-specific-context" => Some(Scope::EventContext),
        "event-record-payload" => Some(Scope::Fields),
        _ => None,
    };
    let scope = if location.is_array() {
        let scope = names.first().and_then(|n| scoped(n));
        if scope.is_some() {
            names.remove(0);
        }
        scope
    } else {
        text(location, "origin").and_then(scoped)
    };
    if names.is_empty() { Err("a location without a name".into()) } else { Ok(Path { scope, names }) }
}
