//! The program of a command line that is to be recorded.

use anyhow::{Result, bail};
use std::ffi::OsStr;
use std::path::PathBuf;

/// Where a program is, as a shell would find it.
pub fn file_of(program: &str) -> Option<PathBuf> {
    look_for(program, std::env::var_os("PATH").as_deref())
}

/// Says so where there is no such program, before anything is made for its recording.
///
/// # Errors
/// Where nothing of that name can be started.
pub fn require(program: &str) -> Result<()> {
    if file_of(program).is_none() {
        let place = if program.contains('/') { "there is no such file" } else { "it is not in PATH" };
        bail!("cannot start {program}: {place}");
    }
    Ok(())
}

fn look_for(program: &str, path: Option<&OsStr>) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|f| f.is_file());
    }
    std::env::split_paths(path?).map(|d| d.join(program)).find(|f| f.is_file())
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
        assert!(require("/bin/none-such").is_err_and(|e| e.to_string().contains("no such file")));
    }
}
