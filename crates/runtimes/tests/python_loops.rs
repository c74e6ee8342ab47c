//! A Python that may run on another event loop than asyncio's is said to, and whether that is read too.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use wakepath_runtimes::{Point, Probing, Runtime, of_process, probing};

/// What is known of a Python that has a file mapped.
fn with(file: &Path) -> Option<(Runtime, Vec<Probing>)> {
    const MAPS: &str = "import mmap, sys; f = open(sys.argv[1]); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ); print(flush=True); sys.stdin.read()";
    let mut line = Command::new("python3");
    let mut python = line.args(["-c", MAPS]).arg(file).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
    BufReader::new(python.stdout.take()?).read_line(&mut String::new()).ok()?;
    let found = of_process(python.id());
    let probes = probing(python.id(), wakepath_wire::RUNTIME_PYTHON);
    drop(python.stdin.take());
    python.wait().ok()?;
    found.map(|found| (found, probes))
}

#[test]
fn a_python_that_has_loaded_uvloop_is_said_to() -> Result<(), std::io::Error> {
    let dir = tempfile::tempdir()?;
    let [own, other] = ["asyncio/loop.so", "uvloop/loop.cpython-311.so"].map(|name| dir.path().join(name));
    for file in [&own, &other] {
        std::fs::create_dir(file.parent().expect("a folder"))?;
        std::fs::copy("/bin/true", file)?;
    }
    let (Some((with_own, _)), Some((with_other, probes))) = (with(&own), with(&other)) else {
        println!("skipped: no python3 here that is recognised");
        return Ok(());
    };
    assert_eq!((with_own.tasks, with_own.layout.is_ok()), ("asyncio tasks", with_other.layout.is_ok()));
    assert_eq!(with_other.tasks, "asyncio tasks (not those of uvloop, which it has loaded)");
    assert!(with_other.layout.is_ok_and(|l| l.other_loop == 0) && probes.len() < 2, "it makes no such calls");
    Ok(())
}

/// Compiles a library that calls for another's functions: two calls, of which compilers may make jumps, and one of another function.
fn library(folder: &Path, flags: &[&str]) -> Option<PathBuf> {
    const CODE: &str = "int PySet_Add(void *, void *); int PyContext_Exit(void *);\n\
        int adds(void *a, void *b) { return PySet_Add(a, b) + PySet_Add(b, a); }\n\
        int leaves(void *a) { return PyContext_Exit(a); }\n";
    let (source, made) = (folder.join("loop.c"), folder.join("uvloop/loop.cpython-311.so"));
    std::fs::create_dir_all(made.parent()?).ok()?;
    std::fs::write(&source, CODE).ok()?;
    let line = ["-shared", "-fPIC", "-O2", "-o", made.to_str()?, source.to_str()?];
    Command::new("cc").args(line).args(flags).status().ok()?.success().then_some(made)
}

#[test]
fn probes_are_placed_at_instructions_that_call() -> Result<(), std::io::Error> {
    for flags in [&["-Wl,-z,lazy"][..], &["-fcf-protection", "-Wl,-z,lazy"], &["-fno-plt"]] {
        let dir = tempfile::tempdir()?;
        let file = library(dir.path(), flags).expect("a C compiler, which building Wakepath needs too");
        let bytes = std::fs::read(&file)?;
        let Some((found, probes)) = with(&file) else {
            println!("skipped: no python3 here that is recognised");
            return Ok(());
        };
        assert_eq!(found.tasks, "asyncio tasks, uvloop's too", "{flags:?}");
        let [_, uvloop] = &probes[..] else { panic!("{probes:?}") };
        let count = |of| uvloop.places.iter().filter(|(point, _)| *point == of).count();
        assert_eq!((count(Point::UvloopQueues), count(Point::UvloopLeaves)), (2, 1), "{flags:?}");
        for &(_, place) in &uvloop.places {
            let begin = &bytes[place as usize..place as usize + 2];
            assert!(matches!(begin, [0xe8 | 0xe9, _] | [0xff, 0x15 | 0x25]), "{flags:?}: {begin:x?}");
        }
    }
    Ok(())
}
