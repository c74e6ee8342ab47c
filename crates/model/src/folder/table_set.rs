//! A set of tables.

use crate::rows::Table;

/// Which tables to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TableSet(u128);

impl TableSet {
    /// No table.
    pub const NONE: TableSet = TableSet(0);
    /// Every table.
    pub const ALL: TableSet = TableSet(u128::MAX);

    /// These tables.
    pub const fn of(tables: &[Table]) -> TableSet {
        let mut set = 0;
        let mut i = 0;
        while i < tables.len() {
            set |= 1 << (tables[i] as u8 & 127);
            i += 1;
        }
        TableSet(set)
    }

    /// Without these tables.
    pub const fn without(self, tables: &[Table]) -> TableSet {
        TableSet(self.0 & !TableSet::of(tables).0)
    }

    /// Whether a table is in it.
    pub const fn contains(self, table: Table) -> bool {
        self.0 & (1 << (table as u8 & 127)) != 0
    }
}

impl From<Table> for TableSet {
    fn from(table: Table) -> TableSet {
        TableSet::of(&[table])
    }
}

impl FromIterator<Table> for TableSet {
    fn from_iter<I: IntoIterator<Item = Table>>(tables: I) -> TableSet {
        TableSet(tables.into_iter().fold(0, |set, t| set | TableSet::from(t).0))
    }
}
