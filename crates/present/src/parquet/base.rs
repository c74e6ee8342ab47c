//! The folder's own tables: columns and values as `crates/model/src/rows` declares them.

use super::{Column, ColumnKind, TableError, TableWriter};
use wakepath_model::clock::WallClock;
use wakepath_model::folder::Host;
use wakepath_model::rows::{Event, Table};
use wakepath_model::table::{Kind, Value};

/// What the values of a host's rows need besides the row.
pub(super) struct Context<'a> {
    pub host: &'a Host,
    pub name: &'a str,
    pub clock: WallClock,
}

/// The columns of a table: first those that all tables begin with.
pub(super) fn columns(table: Table) -> Vec<Column> {
    let common = [("host", ColumnKind::Text), ("at_ns", ColumnKind::I64), ("wall_time", ColumnKind::WallTime)];
    let common = common.into_iter().map(|(name, kind)| Column::new(name, kind));
    let own = table.layout().into_iter().flat_map(|field| field.columns).map(|column| {
        let kind = match column.kind {
            Kind::Bool => ColumnKind::Bool,
            Kind::U16 => ColumnKind::U16,
            Kind::U32 => ColumnKind::U32,
            Kind::I32 => ColumnKind::I32,
            Kind::U64 => ColumnKind::U64,
            Kind::Ns => ColumnKind::I64,
            Kind::Text => ColumnKind::Text,
        };
        let may = if column.may_miss { Column::optional } else { Column::new };
        may(column.name, kind)
    });
    common.chain(own).collect()
}

/// Writes one row.
pub(super) fn put(table: &mut TableWriter, context: &Context<'_>, event: &Event) -> Result<(), TableError> {
    let mut row = table.row();
    row.text(context.name).ns(event.at().0).wall_time(context.clock.wall_ns(event.at()));
    event.values(|value| {
        match value {
            Value::None => row.none(),
            Value::Bool(v) => row.bool(v),
            Value::U32(v) => row.u32(v),
            Value::I32(v) => row.i32(v),
            Value::U64(v) => row.u64(v),
            Value::Ns(v) => row.ns(v),
            Value::Text(id) => row.text(context.host.text(id)),
            Value::Word(word) => row.text(word),
        };
    });
    row.end()
}
