//! The program of a command line that is to be recorded.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use wakepath_wire::program::{HEAD_BYTES, Unseen, unseen};

/// A command could not be started; with the exit code that shells give for that.
#[derive(Debug, thiserror::Error)]
#[error("cannot start {program}: {why}")]
pub struct CannotStart {
    program: String,
    why: String,
    /// 127 where there is no such program, 126 where it cannot be executed.
    pub code: i32,
}

impl CannotStart {
    /// Of what the system said when it was tried.
    pub fn new(program: &str, e: &std::io::Error) -> CannotStart {
        let code = if e.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 };
        CannotStart { program: program.to_owned(), why: e.to_string(), code }
    }
}

/// Where a program is, as a shell would find it.
pub fn file_of(program: &str) -> Option<PathBuf> {
    look_for(program, std::env::var_os("PATH").as_deref())
}

/// Says so where there is no such program, before anything is made for its recording.
///
/// # Errors
/// Where nothing of that name can be started.
pub fn require(program: &str) -> Result<(), CannotStart> {
    let (why, code) = match file_of(program) {
        Some(file) if is_executable(&file) => return Ok(()),
        Some(file) => (format!("{} is not executable (chmod +x makes it so)", file.display()), 126),
        None if program.contains('/') && Path::new(program).exists() => ("it is not a file".to_owned(), 126),
        None if program.contains('/') => ("there is no such file".to_owned(), 127),
        None => ("it is not in PATH".to_owned(), 127),
    };
    Err(CannotStart { program: program.to_owned(), why, code })
}

fn is_executable(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|m| m.permissions().mode() & 0o111 != 0)
}

fn look_for(program: &str, path: Option<&OsStr>) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|f| f.is_file());
    }
    let found = || std::env::split_paths(path?).map(|d| d.join(program)).find(|f| f.is_file());
    // one that cannot be executed is passed by where another can
    std::env::split_paths(path?).map(|d| d.join(program)).find(|f| f.is_file() && is_executable(f)).or_else(found)
}

/// Why the preload library will not see what a program does, in words; `None` where it will, as far as its file tells.
pub fn unseen_by_library(program: &str) -> Option<String> {
    let file = file_of(program)?;
    let head = head_of(&file);
    // a script is run by the program that its first line names
    let interpreter = head.strip_prefix(b"#!").and_then(|rest| {
        let line = rest.split(|b| *b == b'\n').next()?;
        let name = line.split(|b| b.is_ascii_whitespace()).find(|word| !word.is_empty())?;
        Some(PathBuf::from(OsStr::from_bytes(name)))
    });
    let (file, head) = match interpreter {
        Some(interpreter) => (interpreter.clone(), head_of(&interpreter)),
        None => (file, head),
    };
    let why = if is_privileged(&file) {
        "runs with special rights (setuid, setgid, or capabilities)"
    } else {
        match unseen(&head)? {
            Unseen::Static => "is statically linked",
            Unseen::OtherMachine => "is of another machine or word size",
            Unseen::OtherLibrary => "has another C library than glibc",
            Unseen::Go => "is a Go program, whose runtime bypasses the C library",
        }
    };
    Some(format!("{} {why}", file.display()))
}

fn head_of(file: &Path) -> Vec<u8> {
    let mut head = Vec::new();
    if file.is_file() {
        let _ = File::open(file).and_then(|f| f.take(HEAD_BYTES as u64).read_to_end(&mut head));
    }
    head
}

/// Whether executing it changes who runs, so that the loader takes no library from the environment.
fn is_privileged(file: &Path) -> bool {
    // SAFETY: no conditions
    let (uid, gid) = unsafe { (libc::getuid(), libc::getgid()) };
    let Ok(m) = fs::metadata(file) else { return false };
    let gives = |bit: u32, other: bool| m.mode() & bit != 0 && other;
    gives(libc::S_ISUID, m.uid() != uid) || gives(libc::S_ISGID, m.gid() != gid) || uid != 0 && has_capabilities(file)
}

fn has_capabilities(file: &Path) -> bool {
    let Ok(path) = std::ffi::CString::new(file.as_os_str().as_bytes()) else { return false };
    // SAFETY: two C strings; no buffer, since only the length is asked for
    unsafe { libc::getxattr(path.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0) > 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_looked_for_in_path_and_a_path_is_not() {
        let path = Some(OsStr::new("/nonexistent:/bin:/usr/bin"));
        assert_eq!(look_for("sh", path), Some("/bin/sh".into()));
        assert_eq!(look_for("/bin/sh", None), Some("/bin/sh".into()));
        for none in ["/bin", "/bin/none-such", "none-such", ""] {
            assert_eq!(look_for(none, path), None, "{none}");
        }
        assert!(require("/bin/none-such").is_err_and(|e| e.code == 127 && e.to_string().contains("no such file")));
        assert!(require("/bin").is_err_and(|e| e.code == 126));
    }

    #[test]
    fn a_file_that_may_not_be_executed_is_no_command() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("notes");
        fs::write(&file, "text").expect("it is written");
        let name = file.to_str().expect("UTF-8");
        assert!(require(name).is_err_and(|e| e.code == 126 && e.to_string().contains("chmod")));
        // after it in PATH is one that may
        let path = std::env::join_paths([dir.path(), Path::new("/bin")]).expect("a path");
        fs::write(dir.path().join("sh"), "text").expect("it is written");
        assert_eq!(look_for("sh", Some(&path)), Some("/bin/sh".into()));
        assert_eq!(look_for("notes", Some(&path)), Some(file));
    }

    #[test]
    fn programs_of_this_system_are_seen() {
        assert_eq!(unseen_by_library("/bin/sh"), None);
        assert_eq!(unseen_by_library("/bin/none-such"), None);
    }
}
