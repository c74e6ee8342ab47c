//! The trace folder on disk: written by the recorder and the importers, read by everything behind them.
//!
//! Segments are the truth and only ever grow; whatever stands in `cache/` or `tables/` can be made again.
//! A folder that was cut off at any byte reads up to the cut; damage is counted and located, never an error.
//! The bytes are described in `docs/formats/folder.md`.

#[cfg(target_endian = "big")]
compile_error!("rows are little-endian on disk and are used as they are");

mod codec;
mod copier;
mod error;
mod events;
mod files;
mod heads;
mod info;
mod layout;
mod list;
mod merge;
mod options;
mod output;
mod packed;
mod part;
mod pending;
mod prune;
mod reader;
mod remove;
mod resize;
mod scan;
mod segment;
mod stream;
mod strings;
mod sync;
mod table_set;
mod verify;
mod window;
mod writer;

pub use copier::Copier;
pub use error::FolderError;
pub use events::{Batch, Batches, Events};
pub use heads::{Head, Heads};
pub use info::{
    EarlierRecording, FolderInfo, HostInfo, Kept, KeptPart, MONOTONIC, PartState, describe_kept, read_kept,
};
pub use layout::FORMAT_VERSION;
pub use list::{delete_oldest, is_being_written};
pub use merge::{Merged, merge, merge_told};
pub use options::{Durability, Options, Overwrite, WriteCounts};
pub use part::Part;
pub use prune::{Pruned, prune};
pub use reader::{Folder, Host};
pub use remove::foreign;
pub use stream::{read_archive, write_archive};
pub use strings::{Strings, UNDEFINED, UNDEFINED_TEXT};
pub use sync::{SYNC_FILE, SyncFile};
pub use table_set::TableSet;
pub use verify::Missing;
pub use window::{Window, adopt, oldest_real_ns, segment_bytes, window};
pub use writer::FolderWriter;
