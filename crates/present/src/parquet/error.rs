//! Our own failures in writing tables.

use parquet::errors::ParquetError;
use std::io;
use std::path::PathBuf;

/// A table could not be written.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The operating system refused.
    #[error("{}: cannot {action}: {source}; check space and rights, then write the tables again", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// The encoder refused.
    #[error("{}: cannot write near row {row}: {source}; check space on the disk, then write the tables again", path.display())]
    Encode {
        /// The file.
        path: PathBuf,
        /// Rows given so far.
        row: u64,
        /// Why not.
        source: ParquetError,
    },
    /// A row does not have the table's columns: a fault of ours.
    #[error(
        "table {table}, row {row}: the value of column {column} is missing, of another type, or one too many; this \
         is a bug in wakepath, please report it"
    )]
    Shape {
        /// The table.
        table: String,
        /// Row number from 0.
        row: u64,
        /// Column number from 0.
        column: usize,
    },
}
