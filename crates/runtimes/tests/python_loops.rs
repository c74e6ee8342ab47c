//! A Python that may run on another event loop than asyncio's is said to, and is read all the same: it may run on asyncio's.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use wakepath_runtimes::{Runtime, of_process};

/// What is known of a Python that has a file mapped.
fn with(file: &std::path::Path) -> Option<Runtime> {
    const MAPS: &str = "import mmap, sys; f = open(sys.argv[1]); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ); print(flush=True); sys.stdin.read()";
    let mut line = Command::new("python3");
    let mut python = line.args(["-c", MAPS]).arg(file).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
    BufReader::new(python.stdout.take()?).read_line(&mut String::new()).ok()?;
    let found = of_process(python.id());
    drop(python.stdin.take());
    python.wait().ok()?;
    found
}

#[test]
fn a_python_that_has_loaded_uvloop_is_said_to() -> Result<(), std::io::Error> {
    let dir = tempfile::tempdir()?;
    let [own, other] = ["asyncio/loop.so", "uvloop/loop.cpython-311.so"].map(|name| dir.path().join(name));
    for file in [&own, &other] {
        std::fs::create_dir(file.parent().expect("a folder"))?;
        std::fs::copy("/bin/true", file)?;
    }
    let (Some(with_own), Some(with_other)) = (with(&own), with(&other)) else {
        println!("skipped: no python3 here that is recognised");
        return Ok(());
    };
    assert_eq!((with_own.tasks, with_own.layout.is_ok()), ("asyncio tasks", with_other.layout.is_ok()));
    assert_eq!(with_other.tasks, "asyncio tasks (not those of uvloop, which it has loaded)");
    Ok(())
}
