//! `wakepath waits` as scripts and people meet it.

mod support;

use serde_json::Value;
use std::path::Path;
use support::{Tested, check, run, stderr, stdout, widest};
use wakepath_testkit::recording::Cuts;
use wakepath_testkit::script::play;

/// A gateway that asks a service, whose second thread holds a lock; all times in microseconds.
const SCRIPT: &str = "
task A front
task D store
task E store of D
flow c - A
flow d A D
90 A woken by c since 10
100 A takes r1 c
110 A asks q1 d for r1
150 D woken by d since 20
160 D takes q1
300 E woken by timer since 170
400 D woken by E since 165
410 D answers q1
450 A woken by d since 120
460 A hears q1
500 A answers r1
";

fn folder(dir: &Path) -> String {
    let recording = play(SCRIPT).expect("the script");
    let dirs = recording.write(&dir.join("t"), Cuts::default()).expect("written");
    dirs[0].to_str().expect("temporary paths are UTF-8").to_owned()
}

fn sum(v: &Value) -> u64 {
    v.as_array().expect("a list").iter().map(|s| s["duration_ns"].as_u64().expect("a number")).sum()
}

/// Slices follow each other, and each sum is the elapsed time.
fn adds_up(document: &Value) {
    let elapsed = document["elapsed_ns"].as_u64().expect("a number");
    for of in ["slices", "by_host", "by_task", "by_cause"] {
        assert_eq!(sum(&document[of]), elapsed, "{of}: {document:#}");
    }
    let mut at = document["from_ns"].clone();
    for s in document["slices"].as_array().expect("a list") {
        assert_eq!(s["from_ns"], at);
        at = s["to_ns"].clone();
    }
    assert_eq!(at, document["to_ns"]);
}

#[test]
fn a_task_is_followed_through_its_waits() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path());
    let output = run(&["waits", &folder, "--task", "front"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(widest(&text) <= 100 && !text.contains('\x1b'), "{text}");
    for part in ["Active path of front/", "where the time went", "timer (behind network)", "elapsed", "store/"] {
        assert!(text.contains(part), "{part} is missing:\n{text}");
    }
    let document = check("waits", &stdout(&run(&["waits", "--json", &folder, "--task", "front"])));
    adds_up(&document);
    let part = check("waits", &stdout(&run(&["waits", "--json", &folder, "--task", "front", "--from", "+150us"])));
    adds_up(&part);
    assert!(part["elapsed_ns"].as_u64() < document["elapsed_ns"].as_u64());
    Ok(())
}

#[test]
fn a_request_is_followed_into_the_service_that_it_called() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path());
    let document = check("waits", &stdout(&run(&["waits", "--json", &folder, "--request", "slowest"])));
    adds_up(&document);
    let id = document["request"].as_str().expect("an id");
    let shown = check("show", &stdout(&run(&["show", "--json", &folder, "slowest"])));
    assert_eq!((shown["request"].as_str(), &shown["duration_ns"]), (Some(id), &document["elapsed_ns"]));
    let states: Vec<String> = document["slices"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|s| format!("{} {}", s["task"].as_str().unwrap_or("?").split('/').next().unwrap_or("?"), s["state"]))
        .collect();
    assert!(states.iter().any(|s| s.starts_with("store \"timer\"")), "the lock's holder slept: {states:?}");
    assert!(states.iter().any(|s| s.starts_with("front \"running\"")), "{states:?}");
    assert!(states.iter().any(|s| s.ends_with("\"network\"")), "{states:?}");
    Ok(())
}

#[test]
fn what_cannot_be_answered_says_what_to_do() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path());
    let nothing = run(&["waits", &folder]);
    assert_eq!(nothing.status.code(), Some(2));
    assert!(stderr(&nothing).contains("--task <TASK>|--request <ID>"), "{}", stderr(&nothing));
    for (args, part) in [
        (&["--task", "store"][..], ""),
        (&["--task", "nobody"], "no task"),
        (&["--task", "front", "--host", "elsewhere"], "no task"),
        (&["--task", "front", "--from", "+2h"], "nothing between --from and --to"),
        (&["--request", "0123"], "wakepath requests"),
    ] {
        let output = run(&[&["waits", &folder], args].concat());
        if part.is_empty() {
            assert_eq!(output.status.code(), Some(0), "the first thread has the name: {}", stderr(&output));
        } else {
            assert_eq!(output.status.code(), Some(1), "{args:?}");
            assert!(stderr(&output).contains(part), "{args:?}: {}", stderr(&output));
        }
    }
    for args in
        [&["waits", &folder][..], &["waits", &folder, "--task", "a", "--request", "b"], &["waits", "--task", "a"]]
    {
        assert_eq!(run(args).status.code(), Some(2), "{args:?}");
    }
    Ok(())
}
