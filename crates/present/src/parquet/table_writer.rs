//! A Parquet file with typed columns, written row by row in bounded memory.

use super::TableSummary;
use super::column::{Column, ColumnKind, begin};
use super::error::TableError;
use super::row_writer::RowWriter;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use rustc_hash::FxHashMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A row group is written at so many rows, or bytes before encoding (at most half of that after it).
const GROUP_ROWS_MAX: usize = 1 << 20;
const GROUP_BYTES_MAX: usize = 128 << 20;
/// Texts are handed to the encoder in portions of this many.
const PORTION: usize = 4096;

/// Values of a column in the current row group; missing ones are only in `levels`.
pub(super) enum Values {
    I32(Vec<i32>),
    I64(Vec<i64>),
    Bool(Vec<bool>),
    F64(Vec<f64>),
    /// Numbers of texts in the group's dictionary.
    Text(Vec<u32>),
}

pub(super) struct Buffer {
    pub kind: ColumnKind,
    pub levels: Option<Vec<i16>>,
    pub values: Values,
}

/// Writes one table.
pub struct TableWriter {
    name: String,
    path: PathBuf,
    temporary: PathBuf,
    writer: Option<SerializedFileWriter<File>>,
    pub(super) buffers: Vec<Buffer>,
    texts: Vec<ByteArray>,
    text_ids: FxHashMap<Box<[u8]>, u32>,
    rows: u64,
    group_rows: usize,
    pub(super) group_bytes: usize,
}

impl TableWriter {
    /// Begins `dir/<name>.parquet`.
    pub fn create(dir: &Path, name: &str, columns: &[Column]) -> Result<TableWriter, TableError> {
        let path = dir.join(format!("{name}.parquet"));
        let temporary = dir.join(format!(".{name}.parquet.{}", std::process::id()));
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|source| TableError::Io {
            path: dir.to_owned(),
            action: "make the folder",
            source,
        })?;
        // one of a process that had our number and was killed
        let _ = fs::remove_file(&temporary);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)
            .map_err(|source| TableError::Io { path: temporary.clone(), action: "make the file", source })?;
        let writer =
            begin(file, columns).map_err(|source| TableError::Encode { path: path.clone(), row: 0, source })?;
        let buffers = columns
            .iter()
            .map(|c| Buffer {
                kind: c.kind,
                levels: c.optional.then(Vec::new),
                values: match c.kind {
                    ColumnKind::U16 | ColumnKind::U32 | ColumnKind::I32 => Values::I32(Vec::new()),
                    ColumnKind::U64 | ColumnKind::I64 | ColumnKind::WallTime => Values::I64(Vec::new()),
                    ColumnKind::Bool => Values::Bool(Vec::new()),
                    ColumnKind::F64 => Values::F64(Vec::new()),
                    ColumnKind::Text => Values::Text(Vec::new()),
                },
            })
            .collect();
        Ok(TableWriter {
            name: name.to_owned(),
            path,
            temporary,
            writer: Some(writer),
            buffers,
            texts: Vec::new(),
            text_ids: FxHashMap::default(),
            rows: 0,
            group_rows: 0,
            group_bytes: 0,
        })
    }

    /// Begins a row: give its values in the order of the columns, then [`RowWriter::end`].
    pub fn row(&mut self) -> RowWriter<'_> {
        RowWriter::new(self)
    }

    /// Writes what is left and puts the table into its place.
    pub fn finish(mut self) -> Result<TableSummary, TableError> {
        self.write_group()?;
        if let Some(writer) = self.writer.take() {
            writer.close().map_err(|e| self.encode_error(e))?;
        }
        let io = |path: &Path, action| {
            let path = path.to_owned();
            move |source| TableError::Io { path, action, source }
        };
        let file = File::open(&self.temporary).map_err(io(&self.temporary, "open"))?;
        file.sync_data().map_err(io(&self.temporary, "sync"))?;
        let bytes = file.metadata().map_err(io(&self.temporary, "read"))?.len();
        fs::rename(&self.temporary, &self.path).map_err(io(&self.path, "rename into place"))?;
        Ok(TableSummary { name: self.name.clone(), path: self.path.clone(), rows: self.rows, bytes })
    }

    fn encode_error(&self, source: ParquetError) -> TableError {
        TableError::Encode { path: self.path.clone(), row: self.rows, source }
    }

    pub(super) fn text_id(&mut self, text: &[u8]) -> u32 {
        if let Some(id) = self.text_ids.get(text) {
            return *id;
        }
        let id = self.texts.len() as u32;
        self.texts.push(ByteArray::from(text.to_vec()));
        self.text_ids.insert(text.into(), id);
        self.group_bytes += 2 * text.len() + 64;
        id
    }

    /// Counts a row, unless a column of it was wrong.
    pub(super) fn end_row(&mut self, wrong: Option<usize>) -> Result<(), TableError> {
        if let Some(column) = wrong {
            return Err(TableError::Shape { table: self.name.clone(), row: self.rows, column });
        }
        self.rows += 1;
        self.group_rows += 1;
        if self.group_rows >= GROUP_ROWS_MAX || self.group_bytes >= GROUP_BYTES_MAX {
            return self.write_group();
        }
        Ok(())
    }

    fn write_group(&mut self) -> Result<(), TableError> {
        if self.group_rows == 0 {
            return Ok(());
        }
        let (buffers, texts) = (&mut self.buffers, &self.texts);
        let written = match &mut self.writer {
            Some(writer) => writer.next_row_group().and_then(|group| write_columns(group, buffers, texts)),
            None => Ok(()),
        };
        written.map_err(|e| self.encode_error(e))?;
        self.texts.clear();
        self.text_ids.clear();
        self.group_rows = 0;
        self.group_bytes = 0;
        Ok(())
    }
}

impl Drop for TableWriter {
    fn drop(&mut self) {
        // Gone already where the table was finished.
        let _ = fs::remove_file(&self.temporary);
    }
}

fn write_columns(
    mut group: SerializedRowGroupWriter<'_, File>,
    buffers: &mut [Buffer],
    texts: &[ByteArray],
) -> Result<(), ParquetError> {
    let mut buffers = buffers.iter_mut();
    while let Some(mut column) = group.next_column()? {
        let Some(buffer) = buffers.next() else { break };
        let levels = buffer.levels.as_deref();
        match (column.untyped(), &mut buffer.values) {
            (ColumnWriter::Int32ColumnWriter(w), Values::I32(v)) => _ = w.write_batch(v, levels, None)?,
            (ColumnWriter::Int64ColumnWriter(w), Values::I64(v)) => _ = w.write_batch(v, levels, None)?,
            (ColumnWriter::BoolColumnWriter(w), Values::Bool(v)) => _ = w.write_batch(v, levels, None)?,
            (ColumnWriter::DoubleColumnWriter(w), Values::F64(v)) => _ = w.write_batch(v, levels, None)?,
            (ColumnWriter::ByteArrayColumnWriter(w), Values::Text(ids)) => {
                let mut portion: Vec<ByteArray> = Vec::with_capacity(PORTION);
                let mut ids = ids.iter();
                let mut write = |portion: &mut Vec<ByteArray>, levels| {
                    let written = w.write_batch(portion.as_slice(), levels, None);
                    portion.clear();
                    written.map(drop)
                };
                match levels {
                    None => {
                        for ids in ids.as_slice().chunks(PORTION) {
                            portion.extend(ids.iter().map(|id| texts[*id as usize].clone()));
                            write(&mut portion, None)?;
                        }
                    }
                    Some(levels) => {
                        for levels in levels.chunks(PORTION) {
                            let here = levels.iter().filter(|l| **l != 0).count();
                            portion.extend(ids.by_ref().take(here).map(|id| texts[*id as usize].clone()));
                            write(&mut portion, Some(levels))?;
                        }
                    }
                }
            }
            _ => {
                return Err(ParquetError::General("a column is not of its type".to_owned()));
            }
        }
        column.close()?;
        match &mut buffer.values {
            Values::I32(v) => v.clear(),
            Values::I64(v) => v.clear(),
            Values::Bool(v) => v.clear(),
            Values::F64(v) => v.clear(),
            Values::Text(v) => v.clear(),
        }
        if let Some(levels) = &mut buffer.levels {
            levels.clear();
        }
    }
    group.close().map(drop)
}
