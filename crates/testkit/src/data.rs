//! Recordings that tests read: our own in `tests/data`, and other people's, where a folder of them is named.

use std::path::{Path, PathBuf};

/// Names the folder with other people's recordings.
const VARIABLE: &str = "WAKEPATH_DATA";

/// A recording of our own; beside it lies the script that made it.
pub fn own(name: &str) -> PathBuf {
    existing(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data").join(name))
}

/// Other people's recording. Tests that ask for one are marked `#[ignore = "needs WAKEPATH_DATA"]`, so that they count as
/// not run where there are none; `./test` runs them where the variable is set.
///
/// # Panics
/// Where the variable is not set, or the folder does not have it: the test cannot do its work.
pub fn others(name: &str) -> PathBuf {
    let folder = std::env::var_os(VARIABLE).unwrap_or_else(|| panic!("{VARIABLE} names no folder"));
    existing(Path::new(&folder).join(name))
}

/// Our own captures, in the order of their names.
pub fn own_captures() -> Vec<PathBuf> {
    captures(&own("pcap"))
}

/// The captures among other people's recordings, in the order of their names.
pub fn others_captures() -> Vec<PathBuf> {
    captures(&others("pcap"))
}

fn captures(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "pcap"));
    files.sort();
    assert!(!files.is_empty(), "{} has no capture", folder.display());
    files
}

/// An archive (`tar`, packed by `gzip`), unpacked into a folder that goes with what is returned.
pub fn unpacked(archive: &Path) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let tar = std::process::Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(dir.path()).status();
    assert!(tar.is_ok_and(|s| s.success()), "tar unpacks {}", archive.display());
    dir
}

fn existing(path: PathBuf) -> PathBuf {
    assert!(path.exists(), "{} is not there", path.display());
    path
}
