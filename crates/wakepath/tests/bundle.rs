//! `wakepath bundle`: the same request, and no name.

#[path = "support/gateway.rs"]
mod gateway;
mod support;

use gateway::script;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use support::{Tested, check, run, stderr, stdout};
use wakepath_model::folder::{Folder, TableSet};
use wakepath_model::rows::{Event, Table};
use wakepath_testkit::recording::Cuts;
use wakepath_testkit::script::play;

/// What nobody may find in a bundle.
const SECRETS: [&str; 6] = ["payrolld", "--password=hunter2", "/slice/acme", "/salaries/alice", "ORA-SECRET", "app"];
const ADDRESS: [u8; 4] = [203, 0, 113, 77];

/// A recording with secrets wherever a name may stand.
fn secretive(dir: &Path) -> String {
    let mut recording = play(&script(5_000, 0)).expect("the script");
    for host in &mut recording.hosts {
        let [comm, cmdline, cgroup, target, detail] = [0, 1, 2, 3, 4].map(|i| host.text(SECRETS[i]));
        for row in &mut host.rows {
            match row {
                Event::Task(t) => (t.comm, t.cmdline, t.cgroup) = (comm, cmdline, cgroup),
                Event::Message(m) => (m.target, m.detail) = (target, detail),
                Event::Endpoint(e) => {
                    for address in [&mut e.laddr, &mut e.raddr] {
                        if address[..4] != [0; 4] {
                            address[..4].copy_from_slice(&ADDRESS);
                        }
                    }
                }
                _ => {}
            }
        }
    }
    let dirs = recording.write(&dir.join("shop"), Cuts::default()).expect("written");
    dirs[0].to_str().expect("temporary paths are UTF-8").to_owned()
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).expect("a folder").map(|e| e.expect("an entry").path());
    entries.flat_map(|p| if p.is_dir() { files(&p) } else { vec![p] }).collect()
}

/// Of each span of a request what has no name in it.
fn tree(document: &Value) -> Vec<String> {
    let spans = document["spans"].as_array().expect("checked").iter();
    spans
        .map(|s| {
            [
                "span",
                "parent",
                "offset_ns",
                "duration_ns",
                "self_ns",
                "queued_ns",
                "between_ns",
                "status",
                "evidence",
                "hole",
            ]
            .map(|name| format!("{name} {}", s[name]))
            .join(", ")
        })
        .collect()
}

#[test]
fn it_has_the_same_request_and_no_name() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = secretive(dir.path());
    let out = dir.path().join("bundle");
    let out_name = out.to_str().ok_or("temporary paths are UTF-8")?;
    let made = run(&["bundle", &folder, "slowest", "-o", out_name]);
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    assert!(stderr(&made).contains("next: wakepath show "), "{}", stderr(&made));

    let before = check("show", &stdout(&run(&["show", "--json", &folder, "slowest"])));
    let after = check("show", &stdout(&run(&["show", "--json", out_name, "slowest"])));
    assert_eq!(tree(&before), tree(&after));
    assert!(tree(&after).len() > 1 && after["complete"] == true, "{after}");
    assert!(stderr(&made).contains(after["request"].as_str().ok_or("an id")?), "the id that it has there is named");
    let waits = |folder: &str| check("waits", &stdout(&run(&["waits", "--json", folder, "--request", "slowest"])));
    let path = |w: &Value| {
        let slices = w["slices"].as_array().cloned().unwrap_or_default();
        slices.iter().map(|s| format!("{} {} {}", s["from_ns"], s["to_ns"], s["state"])).collect::<Vec<_>>()
    };
    assert_eq!(path(&waits(&folder)), path(&waits(out_name)));

    // not in its texts, its addresses, its descriptions, nor anywhere else that is not packed
    let read = Folder::open(&[&out])?;
    for host in read.hosts() {
        for (_, text) in host.strings().iter() {
            assert!(!SECRETS.iter().any(|s| text.contains(s)), "{text:?} is a name");
        }
        let mut programs = BTreeSet::new();
        for event in host.events(TableSet::of(Table::ALL), ..) {
            match event {
                Event::Endpoint(e) => assert!(e.laddr[..4] != ADDRESS && e.raddr[..4] != ADDRESS),
                Event::Task(t) => drop(programs.insert(host.text(t.comm).to_owned())),
                _ => {}
            }
        }
        assert!(programs.iter().all(|p| p.starts_with("program-")), "{programs:?}");
    }
    for file in files(&out) {
        let bytes = std::fs::read(&file)?;
        let whole = format!("{}{}", file.strip_prefix(&out)?.display(), String::from_utf8_lossy(&bytes));
        for secret in &SECRETS[..5] {
            assert!(!whole.contains(secret), "{secret} is in {}", file.display());
        }
    }
    // and the other commands read it
    for words in [&["requests"][..], &["info"], &["why"], &["open"], &["triage"], &["flame"], &["timeline"]] {
        let output = run(&[words, &[out_name]].concat());
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", stderr(&output));
        assert!(!SECRETS[..5].iter().any(|s| stdout(&output).contains(s)), "{words:?}: {}", stdout(&output));
    }
    Ok(())
}

/// A second of requests at the same time: only those near it are handed over.
#[test]
fn it_is_small() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = gateway::folder(dir.path(), "shop", &script(5_000, 0));
    let out = dir.path().join("bundle");
    let out_name = out.to_str().ok_or("temporary paths are UTF-8")?;
    // the first of the slow ones, 99 ms after the begin of 600 ms
    let slow = check(
        "each",
        &stdout(&run(&["requests", "--each", "--json", &folder, "--limit", "0", "--longer-than", "5ms"])),
    );
    let first = slow["requests"].as_array().ok_or("a list")?.iter().min_by_key(|r| r["at_ns"].as_i64()).ok_or("one")?;
    let id = first["request"].as_str().ok_or("an id")?;
    assert_eq!(run(&["bundle", &folder, id, "-o", out_name]).status.code(), Some(0));
    let count = |folder: &str| {
        let folder = Folder::open(&[folder]).expect("a folder");
        Table::ALL.iter().map(|t| folder.hosts()[0].row_count(*t)).sum::<u64>()
    };
    assert!(count(out_name) * 2 < count(&folder), "{} of {}", count(out_name), count(&folder));
    Ok(())
}

#[test]
fn what_cannot_be_bundled_leaves_nothing_behind() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = gateway::folder(dir.path(), "shop", &script(0, 0));
    let out = dir.path().join("bundle");
    let out_name = out.to_str().ok_or("temporary paths are UTF-8")?;
    let none = run(&["bundle", &folder, "ffffffffffffffff", "-o", out_name]);
    assert!(none.status.code() == Some(1) && stderr(&none).contains("no request begins with"), "{}", stderr(&none));
    assert!(!out.exists());
    let usage = run(&["bundle", &folder, "-o", out_name]);
    assert_eq!(usage.status.code(), Some(2), "{}", stderr(&usage));
    std::fs::create_dir(&out)?;
    std::fs::write(out.join("mine"), "kept")?;
    let there = run(&["bundle", &folder, "slowest", "-o", out_name]);
    assert!(there.status.code() == Some(1) && stderr(&there).contains("exists"), "{}", stderr(&there));
    assert_eq!(std::fs::read_to_string(out.join("mine"))?, "kept");
    Ok(())
}
