//! Our own failures with a folder; what is wrong *in* a folder is a defect, not an error.

use std::io;
use std::path::{Path, PathBuf};

/// A folder could not be made, written or opened.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The operating system refused.
    #[error("{}: cannot {action} at byte {offset}: {source}; {}", path.display(), remedy(source))]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// Where in the file; 0 where it has no place.
        offset: u64,
        /// Why not.
        source: io::Error,
    },
    /// The output exists.
    #[error("{} exists; choose another folder, or give --append or --force", .0.display())]
    Exists(PathBuf),
    /// The output exists and is not a trace folder, so it is not replaced.
    #[error("{} exists and is not a trace folder, so --force does not remove it; choose another folder", .0.display())]
    NotOurs(PathBuf),
    /// The output is being written.
    #[error("{} is in use: a recorder writes into it now; end it first, or choose another folder", .0.display())]
    InUse(PathBuf),
    /// The output was removed or moved while it was written.
    #[error("{} was removed or moved while it was being written: the recording is lost", .0.display())]
    Gone(PathBuf),
    /// A part of the output is a link, which leads out of it.
    #[error("{} is a link, and a recording follows none inside its folder; put the folder itself there, or choose another", .0.display())]
    Link(PathBuf),
    /// The input is not a trace folder.
    #[error("{} is not a trace folder (no readable {}); give the folder that `wakepath record -o` made", .0.display(), super::info::FOLDER_FILE)]
    NotAFolder(PathBuf),
    /// The folder is of another format version.
    #[error("{} has format version {version}, this wakepath reads version {}: record again, or use the wakepath that wrote it", path.display(), super::layout::FORMAT_VERSION)]
    OtherFormat {
        /// The folder.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// A description is not what it should be.
    #[error("{}: not readable as a description at line {line}, column {column}: {reason}; copy it again from where it was recorded", path.display())]
    Description {
        /// The file.
        path: PathBuf,
        /// Line in it.
        line: usize,
        /// Column in it.
        column: usize,
        /// What is wrong.
        reason: String,
    },
    /// No host is called so, or several are.
    #[error("{}; the hosts are: {}", which_host(wanted), hosts.join(", "))]
    WhichHost {
        /// What was asked for; empty where nothing was.
        wanted: String,
        /// The names of the hosts' folders.
        hosts: Vec<String>,
    },
    /// A call that makes no sense.
    #[error("{0}")]
    Usage(&'static str),
}

impl FolderError {
    pub(crate) fn io<'a>(
        path: &'a Path,
        action: &'static str,
        offset: u64,
    ) -> impl FnOnce(io::Error) -> FolderError + 'a {
        move |source| FolderError::Io { path: path.to_owned(), action, offset, source }
    }

    /// Whether the disk was full.
    pub fn is_disk_full(&self) -> bool {
        match self {
            FolderError::Io { source, .. } => {
                matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            _ => false,
        }
    }
}

fn remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free space, bound the recording with --max-bytes, or write to another disk (what was written stays readable)"
        }
        io::ErrorKind::PermissionDenied => "check the rights on the folder, or write to one of your own",
        io::ErrorKind::NotFound => "check the path",
        io::ErrorKind::ReadOnlyFilesystem => "write to another file system",
        io::ErrorKind::FileTooLarge => "raise the limit on file sizes (ulimit -f)",
        _ => "check the disk (what was written before stays readable)",
    }
}

fn which_host(wanted: &str) -> String {
    match wanted {
        "" => "give --host HOST".to_owned(),
        wanted => format!("no host, or not just one, is called {wanted}"),
    }
}
