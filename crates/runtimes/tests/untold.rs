//! A process of a runtime that nobody can read yet is called by its name.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use wakepath_runtimes::{Unread, of_process};

/// What is known of a program that has this library loaded.
fn with(library: &Path) -> Option<(&'static str, String, Option<Unread>)> {
    // it reads until its input ends
    let mut line = Command::new("cat");
    let mut child = line.env("LD_PRELOAD", library).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
    child.stdin.as_mut()?.write_all(b"x").ok()?;
    child.stdout.as_mut()?.read_exact(&mut [0]).ok()?;
    let found = of_process(child.id()).map(|r| (r.name, r.version, r.layout.err()));
    drop(child.stdin.take());
    child.wait().ok()?;
    found
}

#[test]
fn a_process_of_dotnet_or_ruby_is_called_so_and_not_read() -> Result<(), std::io::Error> {
    let dir = tempfile::tempdir()?;
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let c_library =
        maps.lines().find_map(|line| line.find('/').map(|at| &line[at..]).filter(|p| p.contains("/libc.so")));
    let c_library = c_library.expect("a test has its C library mapped");
    let of = |path: &str| {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a folder"))?;
        std::fs::copy(Path::new(c_library).with_file_name("libm.so.6"), &path)?;
        Ok::<_, std::io::Error>(with(&path))
    };
    let untold = Some(Unread::Untold);
    assert_eq!(of("Microsoft.NETCore.App/8.0.11/libcoreclr.so")?, Some((".NET", "8.0.11".to_owned(), untold)));
    assert_eq!(of("libruby-3.1.so.3.1.2")?, Some(("Ruby", "3.1.2".to_owned(), untold)));
    assert_eq!(of("libother.so")?, None, "a program of no runtime");
    Ok(())
}
