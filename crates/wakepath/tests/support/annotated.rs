//! The same annotations in C, in Rust and in Python.

use std::path::{Path, PathBuf};
use std::process::Command;
use wakepath_annotate::{Machine, Queue, listens};
use wakepath_model::folder::Host;
use wakepath_model::rows::{Event, MarkKind, Table};

const ANNOTATIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../annotations");
/// How long a program waits to be listened to (s).
const PATIENCE_S: u64 = 200;

/// All of them go on a tenth of a second after they are listened to: the kernel attaches the probes one after another, and the
/// first already makes a program think that it is heard.
///
/// `silent`: marks without any system call but the last, since the kernel kills who makes another one. `wait`: only when there is
/// something to read.
const C: &str = r#"
#include "wakepath.h"
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv) {
    unsigned long i;
    char mode = argc > 1 ? argv[1][0] : 0, byte;
    if (mode == 'w' && read(0, &byte, 1) != 1) return 2;
    for (i = 0; mode != 's' && !WAKEPATH_LISTENS() && i < 20000; i++) usleep(10000);
    if (mode != 's') usleep(100000);
    if (mode == 's' && prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) return 3;
    for (i = 0; i < 50; i++) {
        WAKEPATH_BEGIN("machine", i, "job");
        WAKEPATH_STATE("machine", i, "works");
        WAKEPATH_WAIT_FULL("machine", i, "/queue", 7, 2);
        WAKEPATH_ENQUEUE("machine", i, "/queue", 7, i);
        WAKEPATH_WAIT_EMPTY("machine", i, "queue", 0, 1);
        WAKEPATH_DEQUEUE("machine", i, "queue", 1UL << 63, ~0UL);
        WAKEPATH_END("machine", i, "a name of sixty-four bytes, which is two more than there is room");
    }
    syscall(SYS_exit, 0);
    return 4;
}
"#;

const PYTHON: &str = r#"
import time, wakepath
for i in range(20000):
    if wakepath.listens(): break
    time.sleep(0.01)
time.sleep(0.1)
for i in range(50):
    m = wakepath.Machine("machine", i)
    m.begin("job")
    m.state("works")
    m.wait_full(wakepath.Queue("/queue", 7), 2)
    m.enqueue(wakepath.Queue("/queue", 7), i)
    m.wait_empty(wakepath.Queue("queue"))
    m.dequeue(wakepath.Queue("queue", 1 << 63), (1 << 64) - 1)
    m.end("a name of sixty-four bytes, which is two more than there is room")
"#;

/// What says a mark, in one line: kind, machine, key, name, key, count.
pub type Said = (MarkKind, String, u64, String, u64, u64);

/// Says what the other programs say.
pub fn say() {
    for _ in 0..PATIENCE_S * 100 {
        if listens() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    std::thread::sleep(std::time::Duration::from_millis(100));
    for i in 0..50 {
        let m = Machine::new(c"machine", i);
        m.begin(c"job");
        m.state(c"works");
        m.wait_full(Queue::new(c"/queue", 7), 2);
        m.enqueue(Queue::new(c"/queue", 7), i);
        m.wait_empty(Queue::new(c"queue", 0), 1);
        m.dequeue(Queue::new(c"queue", 1 << 63), u64::MAX);
        m.end(c"a name of sixty-four bytes, which is two more than there is room");
    }
}

/// What all of them say.
pub fn expected() -> Vec<Said> {
    let cut = "a name of sixty-four bytes, which is two more than there is roo";
    let of = |i: u64| {
        [
            (MarkKind::Begin, "job", 0, 1),
            (MarkKind::State, "works", 0, 1),
            (MarkKind::WaitFull, "/queue", 7, 2),
            (MarkKind::Enqueue, "/queue", 7, i),
            (MarkKind::WaitEmpty, "queue", 0, 1),
            (MarkKind::Dequeue, "queue", 1 << 63, u64::MAX),
            (MarkKind::End, cut, 0, 1),
        ]
        .map(|(kind, name, name_key, count)| (kind, "machine".to_owned(), i, name.to_owned(), name_key, count))
    };
    (0..50).flat_map(of).collect()
}

/// What a recording says that they said.
pub fn said(host: &Host) -> Vec<Said> {
    let text = |id| host.text(id).to_owned();
    host.events(Table::Mark.into(), ..)
        .filter_map(|e| match e {
            Event::Mark(m) => Some((m.kind, text(m.machine), m.key, text(m.name), m.name_key, m.count)),
            _ => None,
        })
        .collect()
}

/// A program that says it.
pub struct Program {
    /// What it is written in.
    pub language: &'static str,
    /// How to start it.
    pub command: Vec<String>,
    /// Its variables.
    pub variables: Vec<(String, String)>,
    /// It has probes; else it knows the library alone.
    pub has_probes: bool,
}

/// The programs that can be made here. `me`: the name of the test of this binary that calls [`say`] where `WAKEPATH_PART`
/// is `marks`.
pub fn programs(dir: &Path, me: &str) -> Vec<Program> {
    let this = std::env::current_exe().expect("this program has a path");
    let mut out = vec![Program {
        language: "Rust",
        command: [path(&this), me, "--exact", "--nocapture", "--test-threads=1"].map(str::to_owned).to_vec(),
        variables: vec![("WAKEPATH_PART".into(), "marks".into())],
        has_probes: true,
    }];
    let Some(program) = compiled(dir) else {
        println!("skipped: no C compiler, so neither C nor Python");
        return out;
    };
    out.push(Program { language: "C", command: vec![path(&program).into()], variables: vec![], has_probes: true });
    let module = Path::new(ANNOTATIONS).join("python/wakepath.py");
    let Ok(built) = Command::new("python3").arg(&module).arg("build").arg(dir).output() else {
        println!("skipped: no python3");
        return out;
    };
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let object = String::from_utf8_lossy(&built.stdout).trim().to_owned();
    let script = dir.join("said.py");
    std::fs::write(&script, PYTHON).expect("written");
    for (language, object) in [("Python with probes", object), ("Python", "none".into())] {
        out.push(Program {
            language,
            command: vec!["python3".into(), path(&script).into()],
            has_probes: object != "none",
            variables: vec![
                ("PYTHONPATH".into(), format!("{ANNOTATIONS}/python")),
                ("WAKEPATH_ANNOTATE".into(), object),
            ],
        });
    }
    out
}

/// The C program; `None` where there is no compiler.
pub fn compiled(dir: &Path) -> Option<PathBuf> {
    let (file, program) = (dir.join("said.c"), dir.join("said"));
    std::fs::write(&file, C).expect("written");
    let flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-I", &format!("{ANNOTATIONS}/c"), "-o"].map(str::to_owned);
    let o = Command::new("cc").args(flags).arg(&program).arg(&file).output().ok()?;
    assert!(o.status.success(), "the test's own program is wrong: {}", String::from_utf8_lossy(&o.stderr));
    Some(program)
}

fn path(p: &Path) -> &str {
    p.to_str().expect("UTF-8")
}
