//! Tables as Parquet, for DuckDB, Polars, pandas and Spark: see `docs/queries.md`.
//!
//! They are derived: written under another name first and renamed when whole, they may be removed and made again at
//! any time. The folder's own tables are written by [`write_tables`], requests and spans by [`write_derived`].

mod base;
mod column;
mod derived;
mod error;
mod row_writer;
mod table_writer;

pub use column::{Column, ColumnKind};
pub use derived::{DERIVED, write_derived};
pub use error::TableError;
pub use row_writer::RowWriter;
pub use table_writer::TableWriter;

use rustc_hash::FxHashSet;
use std::path::{Path, PathBuf};
use wakepath_model::folder::{Folder, Host};
use wakepath_model::rows::Table;

/// How far the writing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The table being written.
    pub table: Table,
    /// Rows written so far, of all tables.
    pub rows: u64,
    /// Rows that there are, of all tables.
    pub rows_all: u64,
}

/// One written table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSummary {
    /// Its name.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
    /// Rows.
    pub rows: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

/// What was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Every table, also empty ones.
    pub tables: Vec<TableSummary>,
}

/// Rows between two calls of the progress callback.
const PROGRESS_ROWS: u64 = 1 << 18;

/// Writes every table of `folder` as `out_dir/<name>.parquet`, in bounded memory. By convention `out_dir` is
/// `DIR/tables`.
pub fn write_tables(
    folder: &Folder,
    out_dir: impl AsRef<Path>,
    mut progress: impl FnMut(Progress),
) -> Result<Summary, TableError> {
    let hosts = host_names(folder);
    let count = |table: &Table| -> u64 { folder.hosts().iter().map(|h| h.row_count(*table)).sum() };
    let rows_all = Table::ALL.iter().map(count).sum();
    let mut rows = 0;
    let mut summary = Summary::default();
    for table in Table::ALL.iter().copied() {
        progress(Progress { table, rows, rows_all });
        let mut writer = TableWriter::create(out_dir.as_ref(), table.name(), &base::columns(table))?;
        for (host, name) in folder.hosts().iter().zip(&hosts) {
            let context = base::Context { host, name, clock: host.wall_clock() };
            for event in host.events(table.into(), ..) {
                base::put(&mut writer, &context, &event)?;
                rows += 1;
                if rows % PROGRESS_ROWS == 0 {
                    progress(Progress { table, rows, rows_all });
                }
            }
        }
        summary.tables.push(writer.finish()?);
    }
    if let Some(table) = Table::ALL.last().copied() {
        progress(Progress { table, rows, rows_all });
    }
    Ok(summary)
}

/// What the `host` column says of each host: its name, or its folder's name where two have the same.
pub fn host_names(folder: &Folder) -> Vec<String> {
    let mut seen = FxHashSet::default();
    let mut twice = FxHashSet::default();
    for host in folder.hosts() {
        if !seen.insert(&host.info().hostname) {
            twice.insert(&host.info().hostname);
        }
    }
    let name = |host: &Host| {
        let info = host.info();
        if twice.contains(&info.hostname) { info.folder_name() } else { info.hostname.clone() }
    };
    folder.hosts().iter().map(name).collect()
}

#[cfg(test)]
mod tests;
