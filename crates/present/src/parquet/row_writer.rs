//! One row of a table, value by value.

use super::column::ColumnKind;
use super::error::TableError;
use super::table_writer::{TableWriter, Values};

/// One row being given.
pub struct RowWriter<'a> {
    table: &'a mut TableWriter,
    column: usize,
    wrong: Option<usize>,
}

impl RowWriter<'_> {
    pub(super) fn new(table: &mut TableWriter) -> RowWriter<'_> {
        RowWriter { table, column: 0, wrong: None }
    }

    /// Takes the next column, if it may hold a value of one of these kinds; tells it that there is one.
    #[inline]
    fn next(&mut self, kinds: &[ColumnKind]) -> Option<&mut Values> {
        let index = self.column;
        self.column += 1;
        let Some(buffer) = self.table.buffers.get_mut(index).filter(|b| kinds.contains(&b.kind)) else {
            self.wrong.get_or_insert(index);
            return None;
        };
        if let Some(levels) = &mut buffer.levels {
            levels.push(1);
        }
        self.table.group_bytes += 8;
        Some(&mut buffer.values)
    }

    /// A value of up to 32 unsigned bits.
    #[inline]
    pub fn u32(&mut self, value: u32) -> &mut Self {
        if let Some(Values::I32(v)) = self.next(&[ColumnKind::U32, ColumnKind::U16]) {
            v.push(value as i32);
        }
        self
    }

    /// A signed value of 32 bits.
    #[inline]
    pub fn i32(&mut self, value: i32) -> &mut Self {
        if let Some(Values::I32(v)) = self.next(&[ColumnKind::I32]) {
            v.push(value);
        }
        self
    }

    /// An unsigned value of 64 bits.
    #[inline]
    pub fn u64(&mut self, value: u64) -> &mut Self {
        if let Some(Values::I64(v)) = self.next(&[ColumnKind::U64]) {
            v.push(value as i64);
        }
        self
    }

    /// A signed value of 64 bits.
    #[inline]
    pub fn i64(&mut self, value: i64) -> &mut Self {
        if let Some(Values::I64(v)) = self.next(&[ColumnKind::I64]) {
            v.push(value);
        }
        self
    }

    /// Nanoseconds: a time of a host, or a duration.
    #[inline]
    pub fn ns(&mut self, value: u64) -> &mut Self {
        self.i64(i64::try_from(value).unwrap_or(i64::MAX))
    }

    /// A wall-clock time, ns since 1970, or none.
    #[inline]
    pub fn wall_time(&mut self, value: Option<i64>) -> &mut Self {
        let Some(value) = value else {
            return self.none();
        };
        if let Some(Values::I64(v)) = self.next(&[ColumnKind::WallTime]) {
            v.push(value);
        }
        self
    }

    /// True or false.
    #[inline]
    pub fn bool(&mut self, value: bool) -> &mut Self {
        if let Some(Values::Bool(v)) = self.next(&[ColumnKind::Bool]) {
            v.push(value);
        }
        self
    }

    /// True or false, missing where that is not known.
    #[inline]
    pub fn bool_or_none(&mut self, value: Option<bool>) -> &mut Self {
        match value {
            Some(value) => self.bool(value),
            None => self.none(),
        }
    }

    /// A number with a fraction.
    #[inline]
    pub fn f64(&mut self, value: f64) -> &mut Self {
        if let Some(Values::F64(v)) = self.next(&[ColumnKind::F64]) {
            v.push(value);
        }
        self
    }

    /// Text.
    #[inline]
    pub fn text(&mut self, value: impl AsRef<str>) -> &mut Self {
        let id = self.table.text_id(value.as_ref().as_bytes());
        if let Some(Values::Text(v)) = self.next(&[ColumnKind::Text]) {
            v.push(id);
        }
        self
    }

    /// Text, missing where empty.
    #[inline]
    pub fn text_or_none(&mut self, value: impl AsRef<str>) -> &mut Self {
        if value.as_ref().is_empty() { self.none() } else { self.text(value) }
    }

    /// No value, where the column may be without.
    #[inline]
    pub fn none(&mut self) -> &mut Self {
        let index = self.column;
        self.column += 1;
        match self.table.buffers.get_mut(index).and_then(|b| b.levels.as_mut()) {
            Some(levels) => levels.push(0),
            None => drop(self.wrong.get_or_insert(index)),
        }
        self
    }

    /// Ends the row; an error where it did not have the table's columns, after which the table is of no use.
    pub fn end(&mut self) -> Result<(), TableError> {
        let missing = (self.column != self.table.buffers.len()).then_some(self.column);
        self.table.end_row(self.wrong.or(missing))
    }
}
