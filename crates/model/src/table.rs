//! How a table is declared: [`table!`](crate::table!) makes of one list of fields the row's struct, which of its fields are ids, how its
//! words are packed, its columns for people, and `docs/formats/columns.md`.
//!
//! A field is `name: Type`, with `=>` and what differs from the rule, see the methods of [`Field`]. The rule: a field is one
//! column of its own name; its kind follows from its type.

use crate::ids::{EndpointId, MonoNs, SniffedFlowId, StrId, TaskId};
use bytemuck::CheckedBitPattern;
use bytemuck::checked::try_pod_read_unaligned;
use std::borrow::Cow;

/// A number as a word for people; empty where it stands for none.
pub type Word = Cow<'static, str>;

/// What a column's values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// True or false.
    Bool,
    /// Unsigned, up to 16 bits.
    U16,
    /// Unsigned, up to 32 bits.
    U32,
    /// Signed, 32 bits.
    I32,
    /// Unsigned, 64 bits.
    U64,
    /// Nanoseconds: a time of the host's monotonic clock, or a duration.
    Ns,
    /// Text.
    Text,
}

/// A column's value in one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// None; only in columns that may be without.
    None,
    /// Of [`Kind::Bool`].
    Bool(bool),
    /// Of [`Kind::U16`] and [`Kind::U32`].
    U32(u32),
    /// Of [`Kind::I32`].
    I32(i32),
    /// Of [`Kind::U64`].
    U64(u64),
    /// Of [`Kind::Ns`].
    Ns(u64),
    /// Of [`Kind::Text`]: a string of the recording.
    Text(StrId),
    /// Of [`Kind::Text`]: a word of ours.
    Word(Word),
}

impl Value {
    /// The number that it is, to be compared with what stands for none.
    fn raw(&self) -> Option<u64> {
        match *self {
            Value::U32(n) => Some(n.into()),
            Value::U64(n) | Value::Ns(n) => Some(n),
            Value::Text(id) => Some(id.0.into()),
            _ => None,
        }
    }

    /// A word, or none where it is empty.
    pub fn word_or_none(word: impl Into<Word>) -> Value {
        let word = word.into();
        if word.is_empty() { Value::None } else { Value::Word(word) }
    }
}

/// Which ids a field holds. They belong to one recording: the folder defines strings before it names them, and
/// translates both where recordings are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Id {
    /// None.
    None,
    /// A string's.
    Str,
    /// A task's.
    Task,
}

/// How a word of a row is made small before its bits are packed: `docs/formats/folder.md`, *packed*.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// As it is.
    Plain = 0,
    /// Less the same word of the row before; of a frame's first row, as it is.
    Step = 1,
    /// A time, against the row's own.
    Near = 2,
    /// An end, against the begin in the word before.
    Beyond = 3,
    /// A number of which all ones means none: one more, modulo 2^64.
    Next = 4,
}

/// What fields are made of.
pub trait Cell: Copy + CheckedBitPattern {
    /// How many columns it is; two are by direction, to the server and to the client.
    const COLUMNS: usize = 1;
    /// What their values are.
    const KIND: Kind;
    /// Whether values may be missing.
    const MAY_MISS: bool = false;
    /// Which ids they are.
    const ID: Id = Id::None;
    /// Its value in one of its columns.
    fn value(self, column: usize) -> Value;
}

macro_rules! cells {
    ($($t:ty: $kind:ident, $id:ident, |$v:ident| $value:expr;)*) => {
        $(impl Cell for $t {
            const KIND: Kind = Kind::$kind;
            const ID: Id = Id::$id;
            fn value(self, _: usize) -> Value { let $v = self; $value }
        })*
    };
}

cells! {
    bool: Bool, None, |v| Value::Bool(v);
    u8: U16, None, |v| Value::U32(v.into());
    u16: U16, None, |v| Value::U32(v.into());
    u32: U32, None, |v| Value::U32(v);
    i32: I32, None, |v| Value::I32(v);
    u64: U64, None, |v| Value::U64(v);
    MonoNs: Ns, None, |v| Value::Ns(v.0);
    EndpointId: U64, None, |v| Value::U64(v.0);
    SniffedFlowId: U64, None, |v| Value::U64(v.0);
    TaskId: U32, Task, |v| Value::U32(v.0);
    StrId: Text, Str, |v| Value::Text(v);
}

impl Cell for [u64; 2] {
    const COLUMNS: usize = 2;
    const KIND: Kind = Kind::U64;
    fn value(self, column: usize) -> Value {
        Value::U64(self[column])
    }
}

impl Cell for [u32; 2] {
    const COLUMNS: usize = 2;
    const KIND: Kind = Kind::U32;
    fn value(self, column: usize) -> Value {
        Value::U32(self[column])
    }
}

/// Bytes are no column: addresses, of which others are made, and room that is zero.
impl<const N: usize> Cell for [u8; N]
where
    [u8; N]: CheckedBitPattern,
{
    const COLUMNS: usize = 0;
    const KIND: Kind = Kind::Text;
    fn value(self, _: usize) -> Value {
        Value::None
    }
}

/// A column that is computed from a row.
#[derive(Clone, Copy)]
pub struct Computed<R: 'static> {
    about: Column,
    value: fn(&R) -> Value,
}

/// A column that is always there.
pub const fn computed<R>(name: &'static str, kind: Kind, about: &'static str, value: fn(&R) -> Value) -> Computed<R> {
    Computed { about: Column { name, kind, may_miss: false, about }, value }
}

/// A column whose values may be missing.
pub const fn optional<R>(name: &'static str, kind: Kind, about: &'static str, value: fn(&R) -> Value) -> Computed<R> {
    Computed { about: Column { name, kind, may_miss: true, about }, value }
}

/// What is known of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// What its values are.
    pub kind: Kind,
    /// Whether values may be missing.
    pub may_miss: bool,
    /// What it says.
    pub about: &'static str,
}

/// A field of a row of type `R`.
#[derive(Clone, Copy)]
pub struct Field<R: 'static> {
    /// Its name in the row.
    pub name: &'static str,
    /// Its type in the row.
    pub stored: &'static str,
    /// What it says.
    pub about: &'static str,
    /// Its first byte.
    pub at: usize,
    /// Which ids it holds.
    pub id: Id,
    /// How the word that it is, or is part of, is packed.
    pub way: Way,
    bytes: usize,
    known: fn(&[u8]) -> bool,
    names: [&'static str; 2],
    columns: usize,
    kind: Kind,
    may_miss: bool,
    none: Option<u64>,
    words: Option<fn(u16) -> Word>,
    value: fn(&R, usize) -> Value,
    also: &'static [Computed<R>],
}

impl<R: Copy> Field<R> {
    /// A field of type `T` as the rule has it; `names` are those of its column where it has one, then those where it has two.
    pub const fn new<T: Cell>(
        stored: &'static str,
        about: &'static str,
        at: usize,
        names: [&'static str; 3],
        value: fn(&R, usize) -> Value,
    ) -> Field<R> {
        Field {
            name: names[0],
            stored,
            about,
            at,
            id: T::ID,
            // all rows begin with their time, which has columns of its own
            way: if at == 0 { Way::Step } else { Way::Plain },
            bytes: size_of::<T>(),
            known: |bytes| try_pod_read_unaligned::<T>(bytes).is_ok(),
            names: if T::COLUMNS == 2 { [names[1], names[2]] } else { [names[0], ""] },
            columns: if at == 0 { 0 } else { T::COLUMNS },
            kind: T::KIND,
            may_miss: T::MAY_MISS || matches!(T::ID, Id::Str),
            none: if matches!(T::ID, Id::Str) { Some(0) } else { None },
            words: None,
            value,
            also: &[],
        }
    }

    /// Its column has another name.
    pub const fn named(mut self, name: &'static str) -> Self {
        self.names = [name, ""];
        self
    }

    /// This number stands for none.
    pub const fn none(mut self, number: u64) -> Self {
        self.none = Some(number);
        self.may_miss = true;
        self
    }

    /// A string that is always there.
    pub const fn always(mut self) -> Self {
        self.none = None;
        self.may_miss = false;
        self
    }

    /// It is no column.
    pub const fn hidden(mut self) -> Self {
        self.columns = 0;
        self
    }

    /// Its two columns have other names.
    pub const fn by_direction(mut self, to_server: &'static str, to_client: &'static str) -> Self {
        self.names = [to_server, to_client];
        self
    }

    /// It is true or false: a number that is 0 or not.
    pub const fn flag(mut self) -> Self {
        self.kind = Kind::Bool;
        self
    }

    /// It is shown as a word.
    pub const fn words(mut self, words: fn(u16) -> Word) -> Self {
        self.words = Some(words);
        self.kind = Kind::Text;
        self
    }

    /// It is shown as a word, and as none where that is empty.
    pub const fn words_or_none(mut self, words: fn(u16) -> Word) -> Self {
        self.may_miss = true;
        self.words(words)
    }

    /// A time near the row's own.
    pub const fn near(mut self) -> Self {
        self.way = Way::Near;
        self
    }

    /// An end, whose begin is the word before.
    pub const fn beyond(mut self) -> Self {
        self.way = Way::Beyond;
        self
    }

    /// A number of which all ones means none.
    pub const fn next(mut self) -> Self {
        self.way = Way::Next;
        self.none(u64::MAX)
    }

    /// Further columns, which stand behind its own.
    pub const fn also(mut self, columns: &'static [Computed<R>]) -> Self {
        self.also = columns;
        self
    }

    /// The number that it has in a row of these bytes, if it is a code's and none that we know.
    pub fn unknown(&self, row: &[u8]) -> Option<u64> {
        let bytes = &row[self.at..self.at + self.bytes];
        let number = || bytes.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b));
        (!(self.known)(bytes)).then(number)
    }

    /// Its columns.
    pub fn columns(&self) -> impl Iterator<Item = Column> + use<'_, R> {
        let own = self.names[..self.columns].iter();
        let own = own.map(|name| Column { name, kind: self.kind, may_miss: self.may_miss, about: self.about });
        own.chain(self.also.iter().map(|c| c.about))
    }

    /// The values of its columns in a row.
    pub fn values(&self, row: &R, mut give: impl FnMut(Value)) {
        for column in 0..self.columns {
            let value = (self.value)(row, column);
            let raw = value.raw();
            give(match (self.words, raw) {
                _ if self.none.is_some() && self.none == raw => Value::None,
                (Some(words), Some(n)) if self.may_miss => Value::word_or_none(words(n as u16)),
                (Some(words), Some(n)) => Value::Word(words(n as u16)),
                (None, Some(n)) if self.kind == Kind::Bool => Value::Bool(n != 0),
                _ => value,
            });
        }
        self.also.iter().for_each(|c| give((c.value)(row)));
    }
}

/// What [`table!`](crate::table!) makes of a declaration.
pub trait Declared: Copy + 'static {
    /// What a row is.
    const ABOUT: &'static str;
    /// Its fields in the order of their bytes.
    const FIELDS: &'static [Field<Self>];
}

/// What is known of a field, for documents.
#[derive(Clone, Debug)]
pub struct FieldLayout {
    /// Its first byte.
    pub at: usize,
    /// Its name in the row.
    pub name: &'static str,
    /// Its type in the row.
    pub stored: &'static str,
    /// What it says.
    pub about: &'static str,
    /// Its columns.
    pub columns: Vec<Column>,
}

/// What is known of the fields of a row.
pub fn layout<R: Copy>(fields: &[Field<R>]) -> Vec<FieldLayout> {
    let of = |f: &Field<R>| FieldLayout {
        at: f.at,
        name: f.name,
        stored: f.stored,
        about: f.about,
        columns: f.columns().collect(),
    };
    fields.iter().map(of).collect()
}

/// How many fields hold ids of a kind.
pub const fn id_count<R: Copy>(fields: &[Field<R>], id: Id) -> usize {
    let (mut i, mut n) = (0, 0);
    while i < fields.len() {
        n += (fields[i].id as u8 == id as u8) as usize;
        i += 1;
    }
    n
}

/// The first bytes of the fields that hold ids of a kind.
pub const fn id_offsets<R: Copy, const N: usize>(fields: &[Field<R>], id: Id) -> [usize; N] {
    let (mut at, mut i, mut n) = ([0; N], 0, 0);
    while i < fields.len() {
        if fields[i].id as u8 == id as u8 {
            at[n] = fields[i].at;
            n += 1;
        }
        i += 1;
    }
    at
}

/// How the words of a row are packed.
pub const fn ways<R: Copy, const WORDS: usize>(fields: &[Field<R>]) -> [u8; WORDS] {
    let (mut ways, mut i) = ([Way::Plain as u8; WORDS], 0);
    while i < fields.len() {
        if !matches!(fields[i].way, Way::Plain) {
            assert!(fields[i].at.is_multiple_of(8), "only a whole word has a way of its own");
            ways[fields[i].at / 8] = fields[i].way as u8;
        }
        i += 1;
    }
    ways
}

/// A number that is none of those that a code has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{number} is no known {code}")]
pub struct UnknownCode {
    /// The code.
    pub code: &'static str,
    /// The number.
    pub number: u64,
}

/// Declares a code: what the numbers of a field mean, and the words under which people see them; an empty word stands for
/// none. The first is what rows have where nothing is said.
#[macro_export]
macro_rules! codes {
    (
        $(#[doc = $about:literal])+
        $name:ident($t:ty) {
            $($(#[doc = $doc:literal])+ $variant:ident = $number:tt => $word:literal),+ $(,)?
        }
    ) => {
        $(#[doc = $about])+
        #[repr($t)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, bytemuck::NoUninit, bytemuck::CheckedBitPattern)]
        pub enum $name { $($(#[doc = $doc])+ $variant = $number),+ }

        impl $name {
            /// All of them.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];
            /// As people see it, empty where it stands for none.
            pub const fn name(self) -> &'static str { match self { $($name::$variant => $word),+ } }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str(self.name()) }
        }

        impl Default for $name {
            fn default() -> $name { $name::ALL[0] }
        }

        impl TryFrom<$t> for $name {
            type Error = $crate::table::UnknownCode;
            fn try_from(number: $t) -> Result<$name, $crate::table::UnknownCode> {
                let known = $name::ALL.iter().copied().find(|c| *c as $t == number);
                known.ok_or($crate::table::UnknownCode { code: stringify!($name), number: number.into() })
            }
        }

        impl $crate::table::Cell for $name {
            const KIND: $crate::table::Kind = $crate::table::Kind::Text;
            const MAY_MISS: bool = false $(|| $word.is_empty())+;
            fn value(self, _: usize) -> $crate::table::Value { $crate::table::Value::word_or_none(self.name()) }
        }
    };
}

/// Declares the rows of a table: see [`crate::table`].
#[macro_export]
macro_rules! table {
    (
        $(#[doc = $about:literal])+
        $row:ident {
            $(
                $(#[doc = $doc:literal])+
                $field:ident: $ty:ty $(=> $($method:ident($($arg:expr),*)).+)?
            ),+ $(,)?
        }
    ) => {
        $(#[doc = $about])+
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::NoUninit, bytemuck::CheckedBitPattern)]
        pub struct $row {
            $($(#[doc = $doc])+ pub $field: $ty),+
        }

        impl $crate::table::Declared for $row {
            const ABOUT: &'static str = concat!($($about),+);
            const FIELDS: &'static [$crate::table::Field<$row>] = &[$(
                $crate::table::Field::new::<$ty>(
                    stringify!($ty),
                    concat!($($doc),+),
                    std::mem::offset_of!($row, $field),
                    [
                        stringify!($field),
                        concat!(stringify!($field), "_to_server"),
                        concat!(stringify!($field), "_to_client"),
                    ],
                    |row: &$row, column| $crate::table::Cell::value(row.$field, column),
                )$($(.$method($($arg),*))+)?
            ),+];
        }
    };
}
