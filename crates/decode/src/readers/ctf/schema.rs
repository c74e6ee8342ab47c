//! What a trace's metadata describe, whichever of the two languages they are written in.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Largest alignment that is believed, in bits: windows of a packet begin at its multiples.
pub(super) const ALIGN_MAX: u32 = 4096 * 8;
/// Most nodes of one type, so that no metadata of a few bytes unfold into gigabytes.
pub(super) const WEIGHT_MAX: u32 = 1 << 13;
/// Most nodes of all types, each counted as often as it is used.
pub(super) const NODES_MAX: u32 = 1 << 22;
/// Deepest nesting of types.
pub(super) const DEPTH_MAX: u32 = 48;

/// What an integer says besides its value; a set of bits.
pub(super) mod role {
    pub const MAGIC: u16 = 1;
    pub const STREAM_CLASS: u16 = 1 << 1;
    pub const STREAM: u16 = 1 << 2;
    pub const CONTENT: u16 = 1 << 3;
    pub const TOTAL: u16 = 1 << 4;
    pub const TIME: u16 = 1 << 5;
    pub const TIME_END: u16 = 1 << 6;
    pub const DISCARDED: u16 = 1 << 7;
    pub const SEQUENCE: u16 = 1 << 8;
    pub const EVENT_CLASS: u16 = 1 << 9;
    pub const CPU: u16 = 1 << 10;
    pub const UUID: u16 = 1 << 11;
}

/// Which byte comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Order {
    /// As the trace says, which may come later in the metadata.
    #[default]
    Native,
    Little,
    Big,
}

/// A type of field.
#[derive(Clone, Debug)]
pub(super) enum Type {
    Int(Int),
    Float {
        bits: u8,
        align: u32,
        order: Order,
    },
    Var(Var),
    /// Bytes up to a NUL unit of `unit` bytes.
    Str {
        unit: u8,
    },
    /// So many bytes; text where `text`.
    Bytes {
        len: Len,
        text: bool,
        roles: u16,
    },
    Array(Arc<Array>),
    Struct(Arc<Struct>),
    Variant(Arc<Variant>),
    Optional(Arc<Optional>),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Int {
    /// 1 to 64.
    pub bits: u8,
    pub align: u32,
    pub signed: bool,
    pub order: Order,
    /// One unit of a text, where it is an array's element.
    pub text: bool,
    /// Mapped to a clock: this one of the schema's, where it is known by name.
    pub clock: Option<Arc<str>>,
    pub roles: u16,
    pub labels: Option<Arc<Labels>>,
}

/// An integer of variable length (LEB128).
#[derive(Clone, Debug, Default)]
pub(super) struct Var {
    pub signed: bool,
    pub roles: u16,
    pub labels: Option<Arc<Labels>>,
}

/// Names of an enumeration's ranges of values, in their order; the bounds are inside.
pub(super) type Labels = Vec<(Arc<str>, i128, i128)>;

#[derive(Clone, Debug)]
pub(super) enum Len {
    Fixed(u64),
    Field(Path),
}

/// Where a field is that another one depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path {
    /// `None`: to be looked for from inside out.
    pub scope: Option<Scope>,
    pub names: Vec<Arc<str>>,
}

/// The parts of a packet in the order in which they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope {
    PacketHeader,
    PacketContext,
    EventHeader,
    StreamEventContext,
    EventContext,
    Fields,
}

#[derive(Debug)]
pub(super) struct Array {
    pub element: Type,
    pub len: Len,
    pub align: u32,
    size: Size,
}

#[derive(Debug)]
pub(super) struct Struct {
    pub members: Vec<Member>,
    pub align: u32,
    size: Size,
}

#[derive(Clone, Debug)]
pub(super) struct Member {
    /// As the metadata write it; what paths name.
    pub name: Arc<str>,
    pub ty: Type,
}

#[derive(Debug)]
pub(super) struct Variant {
    /// `None` while no tag was given: such a variant can be named but not read.
    pub tag: Option<Path>,
    pub options: Vec<Choice>,
    size: Size,
}

#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub name: Arc<str>,
    pub ty: Type,
    /// Values of the tag; `None`: those that the tag's enumeration calls by `name`.
    pub ranges: Option<Vec<(i128, i128)>>,
}

#[derive(Debug)]
pub(super) struct Optional {
    pub selector: Path,
    /// Values at which it is there; `None`: all but 0.
    pub ranges: Option<Vec<(i128, i128)>>,
    pub ty: Type,
    size: Size,
}

/// How large a type is: its nodes, and how deep they are nested.
#[derive(Clone, Copy, Debug)]
struct Size {
    weight: u32,
    depth: u32,
}

fn measure<'t>(parts: impl Iterator<Item = &'t Type>) -> Result<Size, &'static str> {
    let mut size = Size { weight: 1, depth: 0 };
    for part in parts.map(Type::size) {
        size = Size { weight: size.weight.saturating_add(part.weight), depth: size.depth.max(part.depth) };
    }
    size.depth += 1;
    match size {
        Size { weight, .. } if weight > WEIGHT_MAX => Err("a type with too many parts"),
        Size { depth, .. } if depth > DEPTH_MAX => Err("types nested too deeply"),
        size => Ok(size),
    }
}

impl Type {
    pub fn array(element: Type, len: Len, align: u32) -> Result<Type, &'static str> {
        // an array of integers that are text is a text
        if let (Type::Int(Int { bits: 8, text: true, align: 8, .. }), 1) = (&element, align) {
            return Ok(Type::Bytes { len, text: true, roles: 0 });
        }
        let size = measure([&element].into_iter())?;
        Ok(Type::Array(Arc::new(Array { align: align.max(element.align()), element, len, size })))
    }

    pub fn structure(members: Vec<Member>, align: u32) -> Result<Type, &'static str> {
        let size = measure(members.iter().map(|m| &m.ty))?;
        let align = members.iter().map(|m| m.ty.align()).fold(align.max(1), u32::max);
        Ok(Type::Struct(Arc::new(Struct { members, align, size })))
    }

    pub fn variant(tag: Option<Path>, options: Vec<Choice>) -> Result<Type, &'static str> {
        let size = measure(options.iter().map(|o| &o.ty))?;
        Ok(Type::Variant(Arc::new(Variant { tag, options, size })))
    }

    pub fn optional(selector: Path, ranges: Option<Vec<(i128, i128)>>, ty: Type) -> Result<Type, &'static str> {
        let size = measure([&ty].into_iter())?;
        Ok(Type::Optional(Arc::new(Optional { selector, ranges, ty, size })))
    }

    /// Where it may begin, in bits.
    pub fn align(&self) -> u32 {
        match self {
            Type::Int(i) => i.align.max(1),
            Type::Float { align, .. } => (*align).max(1),
            Type::Var(_) | Type::Str { .. } | Type::Bytes { .. } => 8,
            Type::Array(a) => a.align.max(1),
            Type::Struct(s) => s.align.max(1),
            Type::Variant(_) | Type::Optional(_) => 1,
        }
    }

    fn size(&self) -> Size {
        match self {
            Type::Array(a) => a.size,
            Type::Struct(s) => s.size,
            Type::Variant(v) => v.size,
            Type::Optional(o) => o.size,
            _ => Size { weight: 1, depth: 0 },
        }
    }

    /// Nodes in it.
    pub fn weight(&self) -> u32 {
        self.size().weight
    }
}

/// What a trace's metadata describe.
#[derive(Debug, Default)]
pub(super) struct Schema {
    /// Byte order of what says none itself.
    pub big: bool,
    pub uuid: Option<[u8; 16]>,
    pub env: Vec<(String, String)>,
    pub clocks: Vec<Clock>,
    pub packet_header: Option<Type>,
    pub streams: BTreeMap<u64, StreamClass>,
    /// Whether names begin with an underscore that is none of theirs (CTF 1.8).
    pub underscores: bool,
    /// Where the metadata stopped to be readable, and why: what came before is used.
    pub cut: Option<(u64, String)>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    pub name: String,
    pub uuid: Option<[u8; 16]>,
    /// Ticks a second, never 0.
    pub frequency: u64,
    pub offset_s: i64,
    /// Ticks.
    pub offset: i64,
}

#[derive(Debug, Default)]
pub(super) struct StreamClass {
    pub packet_context: Option<Type>,
    pub event_header: Option<Type>,
    pub event_context: Option<Type>,
    /// Its clock, where it says so itself (CTF 2).
    pub clock: Option<String>,
    pub events: BTreeMap<u64, EventClass>,
}

#[derive(Debug, Default)]
pub(super) struct EventClass {
    pub name: String,
    pub context: Option<Type>,
    pub fields: Option<Type>,
}

impl Schema {
    /// A name as people know it.
    pub fn shown<'a>(&self, name: &'a str) -> &'a str {
        if self.underscores { name.strip_prefix('_').unwrap_or(name) } else { name }
    }

    /// What the environment says under the first of these names that it has; empty where it has none.
    pub fn env_of(&self, keys: &[&str]) -> &str {
        let of = |key: &&str| self.env.iter().find(|(k, _)| k == key);
        keys.iter().find_map(of).map_or("", |(_, v)| v)
    }
}

/// A UUID from its text.
pub(super) fn uuid(text: &str) -> Option<[u8; 16]> {
    let mut digits = text.bytes().filter(|b| *b != b'-').map(|b| char::from(b).to_digit(16));
    let mut out = [0; 16];
    for byte in &mut out {
        *byte = (digits.next()?? * 16 + digits.next()??) as u8;
    }
    digits.next().is_none().then_some(out)
}

/// The text of a UUID.
pub(super) fn hyphens(uuid: [u8; 16]) -> String {
    let mut out = String::new();
    for (i, byte) in uuid.into_iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        out.push_str(&format!("{byte:02x}"));
    }
    out
}
