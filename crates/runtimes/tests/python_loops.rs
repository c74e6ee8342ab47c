//! A Python whose event loop is not asyncio's is not taken for one whose tasks can be told apart.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use wakepath_runtimes::{Unread, of_process};

/// Why the tasks of a Python that has a file mapped cannot be read, if that is so.
fn unread(file: &std::path::Path) -> Option<Option<Unread>> {
    const MAPS: &str = "import mmap, sys; f = open(sys.argv[1]); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ); print(flush=True); sys.stdin.read()";
    let mut line = Command::new("python3");
    let mut python = line.args(["-c", MAPS]).arg(file).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
    BufReader::new(python.stdout.take()?).read_line(&mut String::new()).ok()?;
    let found = of_process(python.id()).map(|r| r.layout.err());
    drop(python.stdin.take());
    python.wait().ok()?;
    found
}

#[test]
fn uvloop_tells_nothing_of_asyncios_tasks() -> Result<(), std::io::Error> {
    let dir = tempfile::tempdir()?;
    let [own, other] = ["asyncio/loop.so", "uvloop/loop.cpython-311.so"].map(|name| dir.path().join(name));
    for file in [&own, &other] {
        std::fs::create_dir(file.parent().expect("a folder"))?;
        std::fs::copy("/bin/true", file)?;
    }
    let Some(with_own) = unread(&own) else {
        println!("skipped: no python3 here, or its memory cannot be read");
        return Ok(());
    };
    if matches!(with_own, Some(Unread::Machine | Unread::Version)) {
        println!("skipped: of this python3 nothing is read");
        return Ok(());
    }
    assert_eq!((with_own, unread(&other)), (None, Some(Some(Unread::OtherLoop))));
    Ok(())
}
