//! `wakepath waits --stacks` as scripts and people meet it.

mod support;

use std::path::Path;
use support::{Tested, check, host, run, stderr, stdout, widest};
use wakepath_model::folder::{FolderWriter, Options};
use wakepath_model::ids::{MonoNs, StrId, TaskId};
use wakepath_model::rows::{AnchorRow, EndedBy, Life, StackRow, TaskClass, TaskRow, WaitRow};

const POLL: u16 = 7;
const FUTEX: u16 = 202;

/// A task that waits in two places of a program that is nowhere, once without a stack, and in the end for ever.
fn folder(dir: &Path, stacks: bool) -> String {
    let path = dir.join(if stacks { "with" } else { "without" });
    let mut w = FolderWriter::create(&path, host("web", "b0071d"), Options::default()).expect("a new folder");
    w.push(&AnchorRow { at: MonoNs(0), real_ns: 1_700_000_000_000_000_000, error_ns: 0, ..Default::default() });
    let comm = w.intern("app".as_bytes());
    let at = MonoNs(1_000_000);
    let task = TaskId(1);
    w.push(&TaskRow { at, start: at, task, tgid: 7, tid: 7, comm, what: Life::Fork, ..nobody() });
    let texts = ["/no/where/app|8f|10,20,30", "/no/where/app|8f|11,20,30", "/no/where/app|8f|40;|9|77", ""];
    let ids: Vec<StrId> = texts.iter().map(|t| w.intern(t.as_bytes())).collect();
    let waits = [
        (2_000_000, 5_000_000, 0, POLL, EndedBy::Timer),
        (6_000_000, 8_000_000, 1, FUTEX, EndedBy::Task),
        (9_000_000, 10_000_000, 3, FUTEX, EndedBy::Task),
        // told twice while it goes on
        (11_000_000, 12_000_000, 2, FUTEX, EndedBy::Open),
        (11_000_000, 15_000_000, 2, FUTEX, EndedBy::Open),
    ];
    for (blocked, at, text, syscall, cause) in waits {
        let (at, blocked) = (MonoNs(at), MonoNs(blocked));
        w.push(&WaitRow { at, blocked, woken: at, task, state: 1, syscall, cause, ..wait() });
        if stacks {
            w.push(&StackRow { at, blocked, task, frames: ids[text], syscall, cause, ..Default::default() });
        }
    }
    w.close().expect("written");
    path.to_str().expect("temporary paths are UTF-8").to_owned()
}

fn nobody() -> TaskRow {
    let z = MonoNs(0);
    let (none, empty) = (TaskId::UNKNOWN, StrId::EMPTY);
    TaskRow {
        at: z,
        start: z,
        task: none,
        parent: none,
        tgid: 0,
        tid: 0,
        comm: empty,
        cmdline: empty,
        cgroup: empty,
        what: Life::Snapshot,
        class: TaskClass::User,
        ..Default::default()
    }
}

fn wait() -> WaitRow {
    let z = MonoNs(0);
    WaitRow {
        at: z,
        blocked: z,
        woken: z,
        object: 0,
        arg0: 0,
        task: TaskId::UNKNOWN,
        by: TaskId::UNKNOWN,
        rcv_seq: 0,
        state: 0,
        syscall: 0,
        cpu: 0,
        woken_cpu: 0,
        cause: EndedBy::Unknown,
        ..Default::default()
    }
}

#[test]
fn a_flame_of_waits_in_three_forms() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), true);
    let ask = |more: &[&str]| run(&[&["waits", &folder, "--task", "app", "--stacks"], more].concat());
    let folded = stdout(&ask(&["--folded"]));
    assert_eq!(
        folded,
        "app;[no file];app+0x40;[futex] 4000000\n\
         app;app+0x30;app+0x20;app+0x10;[poll] 3000000\n\
         app;app+0x30;app+0x20;app+0x11;[futex] 2000000\n\
         app;[stack not known];[futex] 1000000\n"
    );
    let text = stdout(&ask(&[]));
    assert!(widest(&text) <= 100 && !text.contains('\x1b'), "{text}");
    for part in ["Where app/7 on web waited: 10.0 ms in 4 waits", "    5.000 ms  50.0%  ", "is not on this machine"] {
        assert!(text.contains(part), "{part} is missing:\n{text}");
    }
    let document = check("stacks", &stdout(&ask(&["--json"])));
    assert_eq!((&document["duration_ns"], &document["waits"]), (&10_000_000.into(), &4.into()));
    assert_eq!(document["lost_ns"], 1_000_000);
    assert_eq!(document["stacks"][1]["frames"][0], "app+0x30");
    assert_eq!(document["stacks"][1]["syscall"], "poll");
    // a wait is cut where the question is
    let part = check("stacks", &stdout(&ask(&["--json", "--from", "+2ms", "--to", "+6ms"])));
    assert_eq!(part["duration_ns"], 3_000_000);
    let strict = ask(&["--strict"]);
    assert_eq!(strict.status.code(), Some(3), "a stack is missing");
    Ok(())
}

#[test]
fn what_cannot_be_answered_says_what_to_do() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), false);
    let output = run(&["waits", &folder, "--task", "app", "--stacks"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("record it again with --stacks"), "{}", stderr(&output));
    for args in [
        &["waits", &folder, "--task", "app", "--folded"][..],
        &["waits", &folder, "--request", "slowest", "--stacks"],
        &["waits", &folder, "--task", "app", "--stacks", "--folded", "--json"],
        &["record", "--stacks", "--no-waits"],
    ] {
        assert_eq!(run(args).status.code(), Some(2), "{args:?}");
    }
    Ok(())
}
