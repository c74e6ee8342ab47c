//! Who is in the freezer of its cgroup is stopped: it waits for nobody, and not for who lets it go on.

use crate::harness::*;
use crate::open::{listen, start};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A cgroup of version 2 of this test's own.
struct Group(PathBuf);

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("cgroup.freeze"), "0");
        // a process that just ended may take a moment to leave it
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            pause(10);
        }
    }
}

/// `None` where there is no freezer.
fn group() -> Option<Group> {
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(Path::new);
    let root = roots.into_iter().find(|r| r.join("cgroup.controllers").exists())?;
    let dir = root.join(format!("wakepath-frozen-{}", std::process::id()));
    fs::create_dir(&dir).ok()?;
    let made = Group(dir);
    made.0.join("cgroup.freeze").exists().then_some(made)
}

#[test]
fn a_frozen_task_is_stopped_by_the_freezer() {
    const NAME: &str = "frozen::a_frozen_task_is_stopped_by_the_freezer";
    const FROZEN_MS: u64 = 200;
    if part().is_some() {
        let _listener = listen();
        println!("tid {} asks 0", gettid());
        loop {
            pause(2);
        }
    }
    let Some(cgroup) = group() else { return skip("no cgroup of version 2 can be made here") };
    let mut sleeper = start(NAME, "sleeper");
    let (tid, _) = sleeper.asked();
    fs::write(cgroup.0.join("cgroup.procs"), sleeper.child.id().to_string()).expect("it is put there");
    let pid = sleeper.child.id().to_string();
    let Some(mut rec) = record_as("auto", &["--pid", &pid]) else { return };
    pause(100);
    fs::write(cgroup.0.join("cgroup.freeze"), "1").expect("it freezes");
    let is_frozen = || fs::read_to_string(cgroup.0.join("cgroup.events")).is_ok_and(|t| t.contains("frozen 1"));
    until("it is frozen", is_frozen);
    pause(FROZEN_MS);
    fs::write(cgroup.0.join("cgroup.freeze"), "0").expect("it thaws");
    pause(100);
    rec.signal(libc::SIGINT);
    assert_eq!(rec.wait(Duration::from_secs(60)), 0, "{}", rec.said());
    let path = path_of(&rec, tid);
    let longest = path.iter().max_by_key(|s| s.0.1 - s.0.0).expect("it did something");
    assert!(longest.0.1 - longest.0.0 >= FROZEN_MS * 1_000_000, "{longest:#?}");
    assert_eq!(longest.1["state"], "stopped", "{longest:#?}");
    assert_eq!(longest.1["object"], "the freezer of its cgroup", "{longest:#?}");
    assert!(longest.1["by"].is_null(), "{longest:#?}");
}
