//! Where programs wait: stacks of functions that a small program brings along.

use crate::harness::*;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use wakepath_model::rows::{EndedBy, StackRow};

/// Sleeps a hundred times in one place and waits in another until a signal comes, both while the kernel's table of stacks
/// has room; then with 4096 different stacks, of which some find their place taken; then in that other place for ever.
const PROGRAM: &str = r#"
#include <signal.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#define HERE __attribute__((noinline))
static volatile int steps;
HERE void nap(long ns) { struct timespec t = { 0, ns }; nanosleep(&t, 0); steps++; }
HERE void left(unsigned path, int depth);
HERE void right(unsigned path, int depth) {
    if (!depth) nap(1); else if (path & 1) left(path >> 1, depth - 1); else right(path >> 1, depth - 1);
    steps++;
}
HERE void left(unsigned path, int depth) {
    if (!depth) nap(1); else if (path & 1) left(path >> 1, depth - 1); else right(path >> 1, depth - 1);
    steps++;
}
HERE void nap_in_the_same_place(void) { nap(1000000); steps++; }
HERE void wait_for_the_end(void) { pause(); steps++; }
HERE void never_ends(void) { wait_for_the_end(); steps++; }
static void heard(int signal) { (void)signal; }
int main(void) {
    /* again and again: the first may come before the wait that it is to end */
    struct itimerval soon = { { 0, 20000 }, { 0, 20000 } }, never = { { 0, 0 }, { 0, 0 } };
    signal(SIGALRM, heard);
    for (int i = 0; i < 100; i++) { nap_in_the_same_place(); steps++; }
    /* volatile: else the compiler makes two calls of one, with two stacks */
    for (volatile int round = 0; round < 2; round++) {
        for (unsigned i = 0; round && i < 4096; i++) { left(i, 12); steps++; }
        if (round) { signal(SIGALRM, SIG_DFL); alarm(600); } else setitimer(ITIMER_REAL, &soon, 0);
        never_ends();
        setitimer(ITIMER_REAL, &never, 0);
    }
    return steps;
}
"#;

fn compiled(dir: &Path) -> Option<PathBuf> {
    let (source, program) = (dir.join("waits.c"), dir.join("waits"));
    std::fs::write(&source, PROGRAM).expect("written");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-Wl,--build-id=sha1", "-o"]);
    match cc.arg(&program).arg(&source).output() {
        Ok(o) if o.status.success() => Some(program),
        Ok(o) => panic!("the test's own program is wrong: {}", String::from_utf8_lossy(&o.stderr)),
        Err(e) => {
            skip(&format!("no C compiler: {e}"));
            None
        }
    }
}

fn ask(folder: &Path, task: &str, more: &[&str]) -> String {
    let o = Command::new(binary()).arg("waits").arg(folder).args(["--task", task, "--stacks"]).args(more).output();
    let o = o.expect("the binary starts");
    assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr));
    String::from_utf8(o.stdout).expect("text")
}

#[test]
fn waits_name_the_functions_that_waited() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let Some(program) = compiled(dir.path()) else { return };
    let Some(mut rec) = record("auto", &["--stacks"]) else { return };
    let child = Command::new(&program).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let child = Ended(child.expect("it starts"));
    let pid = child.0.id() as i32;
    let begun = Instant::now();
    // it has slept often enough when it stays in pause()
    let in_pause = format!("{} ", libc::SYS_pause);
    let waits = || std::fs::read_to_string(format!("/proc/{pid}/syscall")).is_ok_and(|s| s.starts_with(&in_pause));
    let slept = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let times = status.lines().find_map(|l| l.strip_prefix("voluntary_ctxt_switches:"));
        times.and_then(|n| n.trim().parse::<u64>().ok()).unwrap_or_default()
    };
    while !(waits() && slept() > 4096) {
        assert!(begun.elapsed().as_secs() < 300, "the program does not get to its end");
        pause(20);
    }
    pause(30);
    rec.signal(libc::SIGINT);
    assert_eq!(rec.wait(Duration::from_secs(60)), 0, "{}", rec.said());
    check(&rec, pid, begun.elapsed().as_nanos() as u64);
}

/// A program that does not outlive its test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a recorder keeps CAP_DAC_READ_SEARCH for: without it, root may not read what belongs to another user alone.
#[test]
fn a_program_that_only_its_owner_may_read_is_known_by_its_build_id() {
    const NOBODY: u32 = 65534;
    let dir = tempfile::tempdir().expect("a temporary folder");
    let Some(program) = compiled(dir.path()) else { return };
    let Some(mut rec) = record("auto", &["--stacks"]) else { return };
    for path in [&program, dir.path()] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o700)).expect("ours");
        chown(path, Some(NOBODY), Some(NOBODY)).expect("recording is root's here");
    }
    let mut command = Command::new(&program);
    command.uid(NOBODY).gid(NOBODY).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = Ended(command.spawn().expect("it starts"));
    let pid = child.0.id() as i32;
    pause(500);
    rec.signal(libc::SIGINT);
    assert_eq!(rec.wait(Duration::from_secs(60)), 0, "{}", rec.said());
    let trace = rec.read();
    let task = trace.task(pid);
    let texts = trace.stacks.iter().filter(|s| s.task == task).map(|s| trace.text(s.frames));
    let own: Vec<&str> = texts.flat_map(|t| t.split(';')).filter(|run| run.contains("/waits|")).collect();
    let is_known = |run: &&str| run.split('|').nth(1).is_some_and(|id| id.len() == 40);
    assert!(!own.is_empty() && own.iter().all(is_known), "{:?}", own.first());
}

fn check(rec: &Recording, pid: i32, elapsed_ns: u64) {
    let trace = rec.read();
    let task = trace.task(pid);
    let rows: Vec<&StackRow> = trace.stacks.iter().filter(|s| s.task == task).collect();
    let waits = trace.waits_of(pid);

    // one for each wait in which it was not preempted
    let slept = waits.iter().filter(|w| w.state != 0).count();
    assert!(slept > 4096 && rows.len() == slept, "{} stacks of {slept} waits", rows.len());
    for r in &rows {
        assert!(waits.iter().any(|w| (w.blocked, w.at, w.cause) == (r.blocked, r.at, r.cause)), "{r:?}");
    }

    // what the kernel's table had no place for is counted, and it is little
    let empty = rows.iter().filter(|r| trace.text(r.frames).is_empty()).count() as u64;
    let lost: u64 = trace.losses.iter().filter(|(w, _)| w.starts_with("loss.stack")).map(|(_, n)| n).sum();
    let others = trace.stacks.iter().filter(|s| s.task != task && trace.text(s.frames).is_empty()).count() as u64;
    println!("{} stacks, {empty} lost, {others} of other tasks", rows.len());
    assert_eq!(lost, empty + others, "{:?}", trace.losses);
    assert!(empty > 0 && empty < 1000, "4096 stacks meet in a table of 65536 places: {empty} lost");

    // the one that goes on
    let open = rows.iter().rev().find(|r| r.cause == EndedBy::Open && i64::from(r.syscall) == libc::SYS_pause);
    assert!(open.is_some_and(|r| trace.text(r.frames).contains("/waits|")), "{open:?}");

    let folded = ask(&rec.folder, &pid.to_string(), &["--folded"]);
    let lines: Vec<&str> = folded.lines().collect();
    let ns = |part: &str| -> u64 {
        let of = lines.iter().filter(|l| l.contains(part));
        of.map(|l| l.rsplit_once(' ').expect("a number").1.parse::<u64>().expect("a number")).sum()
    };
    // the C library's own wrappers keep no frame pointer: the function that called them may be missing, not its callers
    let same = ns(";nap_in_the_same_place;");
    assert!((100_000_000..elapsed_ns).contains(&same), "{same}: {}", lines[0]);
    assert!(ns(";never_ends;") > 10_000_000);
    assert!(ns(";main;left;") > 0 && ns("left;right;left;") > 0);
    assert!(lines.len() > 3000 && lines.iter().all(|l| l.starts_with("waits;")));

    let text = ask(&rec.folder, &pid.to_string(), &[]);
    assert!(text.contains("nap_in_the_same_place") && text.lines().all(|l| l.chars().count() <= 100), "{text}");
    let json: serde_json::Value = serde_json::from_str(&ask(&rec.folder, &pid.to_string(), &["--json"])).expect("JSON");
    let sum: u64 = json["stacks"].as_array().expect("a list").iter().filter_map(|s| s["duration_ns"].as_u64()).sum();
    assert_eq!(Some(sum), json["duration_ns"].as_u64());

    // another build of the program: its names would be wrong
    let program = rec_program(&trace, &rows);
    std::fs::write(&program, b"something else").expect("written");
    let folded = ask(&rec.folder, &pid.to_string(), &["--folded"]);
    assert!(!folded.contains("never_ends") && folded.contains(";waits+0x"), "{}", &folded[..200.min(folded.len())]);
}

fn rec_program(trace: &Trace, rows: &[&StackRow]) -> PathBuf {
    let text = rows.iter().map(|r| trace.text(r.frames)).find(|t| t.contains("/waits|")).expect("its own frames");
    let run = text.split(';').find(|r| r.contains("/waits|")).expect("its own frames");
    let path = PathBuf::from(run.split('|').next().expect("a path"));
    // the running program's file cannot be written: a new one takes its name
    std::fs::remove_file(&path).expect("it is there");
    path
}

#[test]
fn nothing_is_taken_unless_asked_for() {
    let Some(mut rec) = record("auto", &[]) else { return };
    std::thread::spawn(|| pause(5)).join().expect("it ends");
    let folder = rec.folder.clone();
    let me = std::process::id().to_string();
    rec.signal(libc::SIGINT);
    assert_eq!(rec.wait(Duration::from_secs(60)), 0, "{}", rec.said());
    assert!(rec.read().stacks.is_empty());
    let o = Command::new(binary()).arg("waits").arg(&folder).args(["--task", &me, "--stacks"]).output();
    let o = o.expect("the binary starts");
    assert_eq!(o.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&o.stderr).contains("--stacks"), "{}", String::from_utf8_lossy(&o.stderr));
}
