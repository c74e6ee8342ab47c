//! Annotated programs tell the kernel's probes what they say, also those that map annotated code after they have begun.

use crate::annotated::{self, expected, said};
use crate::harness::*;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use wakepath_model::folder::Folder;

/// Plays the Rust program.
#[test]
fn says() {
    if part().as_deref() == Some("marks") {
        annotated::say();
    }
}

#[test]
fn annotations_are_heard_in_every_language() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let programs = unrecorded(|| annotated::programs(dir.path(), "marks::says"));
    for backend in BACKENDS {
        for p in programs.iter().filter(|p| p.has_probes) {
            // directly, where the recorder knows the program; and after another one, where it learns of it
            for behind in [&[][..], &["env"][..]] {
                let command = ["--"].into_iter().chain(behind.iter().copied());
                let command: Vec<&str> = command.chain(p.command.iter().map(String::as_str)).collect();
                let Some(folder) = recorded(backend, &command, &p.variables) else { return };
                let trace = Trace::open(&folder.path().join("trace"));
                let marks = Folder::open(&[folder.path().join("trace")]).expect("it reads");
                let told = said(&marks.hosts()[0]);
                let about = format!("{backend}, {} behind {behind:?}: lost {:?}", p.language, trace.losses);
                let wrong = expected().iter().zip(&told).position(|(e, t)| e != t);
                assert_eq!((told.len(), wrong), (expected().len(), None), "{about}");
                assert_eq!(trace.lost("marks.name_cut"), 50, "{about}");
                // it waited until it was heard, which the recorder cannot know
                let is_late = p.language.starts_with("Python") || !behind.is_empty();
                assert_eq!(trace.lost("loss.marks.late") > 0, is_late, "{about}");
                assert_eq!(trace.lost("loss.ring.mark") + trace.lost("marks.name_unread"), 0, "{about}");
                let tasks: Vec<_> = trace.marks.iter().map(|m| m.task).collect();
                assert!(tasks.iter().all(|t| t.0 != 0 && *t == tasks[0]), "{about}");
            }
        }
    }
}

/// A program that says nothing before it is told to: other tests' recordings may listen to it until then.
fn waiting(program: &Path) -> Child {
    Command::new(program).arg("wait").stdin(Stdio::piped()).spawn().expect("it starts")
}

#[test]
fn a_program_that_was_there_before_is_heard() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let Some(program) = annotated::compiled(dir.path()) else { return skip("no C compiler") };
    let mut child = waiting(&program);
    let rec = record_as("auto", &["--pid", &child.id().to_string()]);
    let Some(rec) = rec else {
        let _ = child.kill();
        let _ = child.wait();
        return;
    };
    drop(child.stdin.take().map(|mut to| to.write_all(b"x")));
    assert!(child.wait().expect("it ends").success());
    let trace = rec.stop();
    assert_eq!(trace.marks.len(), expected().len(), "lost {:?}", trace.losses);
    assert_eq!(trace.lost("loss.marks.late"), 0);
}

#[test]
fn who_is_not_watched_is_not_heard() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let Some(program) = annotated::compiled(dir.path()) else { return skip("no C compiler") };
    let mut first = waiting(&program);
    let Some(rec) = record_as("auto", &["--pid", &first.id().to_string()]) else {
        let _ = first.kill();
        let _ = first.wait();
        return;
    };
    // the same file: its probes are listened to, but not of this process
    let second = Command::new(&program).status().expect("it starts");
    drop(first.stdin.take().map(|mut to| to.write_all(b"x")));
    assert!(first.wait().expect("it ends").success() && second.success());
    let trace = rec.stop();
    let tasks: std::collections::BTreeSet<u32> = trace.marks.iter().map(|m| m.task.0).collect();
    assert_eq!((tasks.len(), trace.marks.len()), (1, expected().len()), "lost {:?}", trace.losses);
}
