//! `wakepath reduce`: each host in a process of its own, and the answers about all of them.

mod support;

use std::path::{Path, PathBuf};
use support::{Tested, run, stderr, stdout};
use wakepath_testkit::recording::Cuts;
use wakepath_testkit::shapes::{Plan, Shape, simulate};

/// A folder of hosts, with one for each of them.
fn write(dir: &Path, shape: Shape) -> Result<(PathBuf, Vec<String>), Box<dyn std::error::Error>> {
    let recording = simulate(&Plan { two_hosts: true, clients: 4, requests: 30, ..Plan::new(shape, 5) });
    let paths = recording.write(&dir.join("each"), Cuts::default())?;
    let all = dir.join("all");
    wakepath_model::folder::merge(&paths, &all)?;
    Ok((all, recording.hosts.iter().map(|h| h.name.clone()).collect()))
}

fn path(p: &Path) -> &str {
    p.to_str().expect("temporary paths are UTF-8")
}

#[test]
fn hosts_that_were_reduced_each_by_itself_give_the_same_answers() -> Tested {
    for shape in [Shape::Prefork, Shape::EventLoop] {
        let dir = tempfile::tempdir()?;
        let (all, hosts) = write(dir.path(), shape)?;
        let synced = run(&["sync", path(&all)]);
        assert!(synced.status.success(), "{}", stderr(&synced));
        let mut reduced = Vec::new();
        for host in hosts.iter().rev() {
            let out = dir.path().join(format!("{host}.reduced"));
            let done = run(&["reduce", path(&all), "--host", host, "-o", path(&out)]);
            assert!(done.status.success(), "{}", stderr(&done));
            reduced.push(out);
        }
        let reduced: Vec<&str> = reduced.iter().map(|p| path(p)).collect();
        for (before, after) in
            [(&["requests", "--json"][..], &[][..]), (&["requests"], &[]), (&["show", "--json"], &["slowest"])]
        {
            let ask = |dirs: &[&str]| run(&[before, dirs, after].concat());
            let (one, many) = (ask(&[path(&all)]), ask(&reduced));
            assert!(one.status.success() && !one.stdout.is_empty(), "{}", stderr(&one));
            assert_eq!(stdout(&one), stdout(&many), "{before:?}");
        }
        // what needs the recording says so
        for question in ["why", "open", "triage", "sync", "tables"] {
            let answer = run(&[question, reduced[0]]);
            assert!(
                !answer.status.success() && stderr(&answer).contains("was reduced"),
                "{question}: {}",
                stderr(&answer)
            );
        }
        let proofs = run(&["show", reduced[0], "slowest", "--evidence"]);
        assert!(!proofs.status.success() && stderr(&proofs).contains("was reduced"), "{}", stderr(&proofs));
        let twice = run(&["requests", reduced[0], path(&all)]);
        assert!(!twice.status.success() && stderr(&twice).contains("given twice"), "{}", stderr(&twice));
        assert!(run(&["info", reduced[0]]).status.success());
    }
    Ok(())
}

#[test]
fn a_host_that_is_not_there_is_told_with_those_that_are() -> Tested {
    let dir = tempfile::tempdir()?;
    let (all, hosts) = write(dir.path(), Shape::Prefork)?;
    let out = dir.path().join("out");
    for args in [&["--host", "nobody"][..], &[]] {
        let answer = run(&[&["reduce", path(&all), "-o", path(&out)], args].concat());
        assert!(!answer.status.success() && hosts.iter().all(|h| stderr(&answer).contains(h)), "{}", stderr(&answer));
    }
    Ok(())
}
