//! Programs that limit their own memory, under the library.

use super::*;

/// Servers such as vsftpd give themselves a limit of some 200 MB of address space, far less than the arena takes.
#[test]
fn a_limit_of_memory_leaves_a_program_as_much_as_without_the_library() -> Tested {
    const LIMITED: &str = r#"
import resource, subprocess, sys
wanted = (400 << 20, 400 << 20)
resource.setrlimit(resource.RLIMIT_AS, wanted)
for _ in range(3):
    told = resource.getrlimit(resource.RLIMIT_AS)
    if told != wanted or resource.prlimit(0, resource.RLIMIT_AS) != wanted: sys.exit(7)
    in_force = open("/proc/self/limits").read()
    resource.setrlimit(resource.RLIMIT_AS, told)
    if open("/proc/self/limits").read() != in_force: sys.exit(6)
child = "import resource, sys; sys.exit(resource.getrlimit(resource.RLIMIT_AS) != (400 << 20, 400 << 20))"
if subprocess.run([sys.executable, "-c", child]).returncode: sys.exit(5)
kept = bytearray(64 << 20)
try: bytearray(3 << 30)
except MemoryError: sys.exit(9)
"#;
    if !has_library() {
        return Ok(());
    }
    let dir = tempfile::tempdir()?;
    let output = run(&["run", "-o", path(&dir.path().join("t")), "--", "python3", "-c", LIMITED]);
    assert_eq!(
        output.status.code(),
        Some(9),
        "as much as it asked for, no more (7: told otherwise, 6: loosened, 5: a child is told otherwise): {}",
        stderr(&output)
    );
    // one that others gave a program leaves no room for the arena: it runs unseen, and that is said
    const BEFORE: &str = "
import os, resource
resource.prlimit(os.getpid(), resource.RLIMIT_AS, (300 << 20, 300 << 20))
os.execvp('python3', ['python3', '-c', 'raise SystemExit(8)'])
";
    let to = dir.path().join("before");
    let output = run(&["run", "-o", path(&to), "--", "python3", "-c", BEFORE]);
    assert_eq!(output.status.code(), Some(8), "{}", stderr(&output));
    assert!(stderr(&output).contains("NOT SEEN: 1 programs"), "{}", stderr(&output));
    Ok(())
}
