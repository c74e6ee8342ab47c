//! A CPython is of the version that what it exports tells, and is read only where the layout of that version is known.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use wakepath_runtimes::{Runtime, Unread, of_process};

const CODE: &str = "#include <stdio.h>\n\
    char _PyRuntime[4096];\n\
    int PyContext_CopyCurrent(void) { return 0; }\n\
    int main(void) { puts(\"\"); fflush(stdout); return getchar() == 1; }\n";

/// What is known of a program that exports what an interpreter does, and this.
fn exporting(more: &str) -> Runtime {
    let dir = tempfile::tempdir().expect("a folder");
    let made = dir.path().join("python");
    let line = ["-rdynamic", "-x", "c", "-", "-o"];
    let mut cc = Command::new("cc").args(line).arg(&made).stdin(Stdio::piped()).spawn().expect("a C compiler");
    cc.stdin.take().expect("it is piped").write_all(format!("{CODE}{more}").as_bytes()).expect("it reads");
    assert!(cc.wait().expect("it ends").success());
    let mut program = Command::new(&made).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let begun = BufReader::new(program.stdout.take().expect("it is piped")).read_line(&mut String::new());
    let found = of_process(program.id());
    drop(program.stdin.take());
    program.wait().expect("it ends");
    begun.expect("it says that it runs");
    found.expect("an interpreter")
}

#[test]
fn a_version_is_told_by_what_came_with_it_and_no_other_is_read() {
    const SINCE_9: &str = "int PyModule_AddType(void) { return 0; }\n";
    const SINCE_10: &str = "int PyModule_AddType(void) { return 0; } int PyModule_AddObjectRef(void) { return 0; }\n";
    const WITHOUT_LOCK: &str =
        "const unsigned long Py_Version = 0x030d02f0; int _Py_DecRefShared(void) { return 0; }\n";
    for (more, version, is_read) in [
        ("", "before 3.9", false),
        (SINCE_9, "3.9", true),
        (SINCE_10, "3.10", true),
        ("const unsigned long Py_Version = 0x030d02f0;\n", "3.13.2", true),
        (WITHOUT_LOCK, "3.13.2 (free-threaded)", false),
        ("const unsigned long Py_Version = 0x030e00f0;\n", "3.14.0", false),
    ] {
        let found = exporting(more);
        assert_eq!((found.name, &*found.version), ("CPython", version));
        let expected = if !cfg!(target_arch = "x86_64") {
            Some(Unread::Machine)
        } else if is_read {
            None
        } else {
            Some(Unread::Version)
        };
        assert_eq!(found.layout.err(), expected, "{version}");
    }
}
