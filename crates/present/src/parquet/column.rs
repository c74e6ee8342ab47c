//! Typed columns, and how each is stored.

use parquet::basic::{Compression, Encoding, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type};
use std::fs::File;
use std::sync::Arc;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Unsigned, up to 16 bits.
    U16,
    /// Unsigned, up to 32 bits.
    U32,
    /// Signed, 32 bits.
    I32,
    /// Unsigned, 64 bits.
    U64,
    /// Signed, 64 bits; also durations and monotonic times in nanoseconds.
    I64,
    /// A point on the wall clock: TIMESTAMP in nanoseconds, UTC; may be missing.
    WallTime,
    /// True or false.
    Bool,
    /// A number with a fraction.
    F64,
    /// Text, as a dictionary.
    Text,
}

/// One column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub kind: ColumnKind,
    /// Whether values may be missing.
    pub optional: bool,
}

impl Column {
    /// A column whose values are always there.
    pub fn new(name: &str, kind: ColumnKind) -> Column {
        Column { name: name.to_owned(), kind, optional: kind == ColumnKind::WallTime }
    }

    /// A column whose values may be missing.
    pub fn optional(name: &str, kind: ColumnKind) -> Column {
        Column { optional: true, ..Column::new(name, kind) }
    }

    fn schema(&self) -> Result<Type, ParquetError> {
        let integer = |bit_width, is_signed| Some(LogicalType::integer(bit_width, is_signed));
        let (physical, logical) = match self.kind {
            ColumnKind::U16 => (Physical::INT32, integer(16, false)),
            ColumnKind::U32 => (Physical::INT32, integer(32, false)),
            ColumnKind::I32 => (Physical::INT32, integer(32, true)),
            ColumnKind::U64 => (Physical::INT64, integer(64, false)),
            ColumnKind::I64 => (Physical::INT64, integer(64, true)),
            ColumnKind::WallTime => (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::NANOS))),
            ColumnKind::Bool => (Physical::BOOLEAN, None),
            ColumnKind::F64 => (Physical::DOUBLE, None),
            ColumnKind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let repetition = if self.optional { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        Type::primitive_type_builder(&self.name, physical)
            .with_repetition(repetition)
            .with_logical_type(logical)
            .build()
    }
}

/// Begins a file with these columns.
pub(super) fn begin(file: File, columns: &[Column]) -> Result<SerializedFileWriter<File>, ParquetError> {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .set_created_by(concat!("wakepath ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_max_row_group_row_count(None);
    let mut fields = Vec::new();
    for column in columns {
        fields.push(Arc::new(column.schema()?));
        let path = ColumnPath::from(column.name.as_str());
        properties = match column.kind {
            ColumnKind::Text => properties.set_column_dictionary_page_size_limit(path, 8 << 20),
            ColumnKind::Bool | ColumnKind::F64 => properties.set_column_dictionary_enabled(path, false),
            // Processors, ports, system calls: few values.
            ColumnKind::U16 => properties,
            _ => properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED),
        };
    }
    let schema = Type::group_type_builder("schema").with_fields(fields).build()?;
    SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties.build()))
}
