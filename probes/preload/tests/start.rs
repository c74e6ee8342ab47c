//! What a short-lived program pays for the library: servers that start one for each request start many. Counted; what it
//! takes is measured by `bench/library overhead`.

mod support;

use std::collections::BTreeSet;
use std::process::Command;
use support::{Mode, program, run, run_with};
use wakepath_wire as w;

/// Files of libraries that are mapped into a program that looks.
fn mapped(mode: Mode) -> BTreeSet<String> {
    let run = run_with(mode, Command::new("cat").arg("/proc/self/maps"), |_, _| ());
    assert!(run.output.status.success(), "{}", run.text());
    let files = run.text().lines().filter_map(|l| l.split_whitespace().nth(5).map(str::to_owned)).collect::<Vec<_>>();
    files.into_iter().filter(|f| f.contains(".so")).collect()
}

#[test]
fn the_unwinder_is_not_loaded() {
    let bare = mapped(Mode::Bare);
    for mode in [Mode::Off, Mode::Isolate] {
        let with = mapped(mode);
        let more: Vec<_> = with.difference(&bare).collect();
        assert!(more.iter().any(|f| f.ends_with("libwakepath_preload.so")), "{mode:?}: {more:?}");
        assert!(!more.iter().any(|f| f.contains("libgcc_s")), "{mode:?}: {more:?}");
    }
}

#[test]
fn a_duplicate_that_is_closed_touches_few_pages() {
    for mode in [Mode::Off, Mode::Isolate] {
        let run = run(mode, &program("start"), &[]);
        let pages: i64 = run.text().trim().parse().unwrap_or_else(|e| panic!("{e}: {}", run.text()));
        // a page of each table that has an entry for a descriptor, and of the code
        assert!((0..=24).contains(&pages), "{mode:?}: {pages} pages");
    }
}

#[test]
fn the_next_program_of_a_process_goes_on_with_its_slot() {
    let mut claimed = 0;
    let line = "exec sh -c 'exec sh -c :'";
    let run = run_with(Mode::Observe, Command::new("sh").args(["-c", line]), |arena, child| {
        assert!(child.wait().is_ok_and(|s| s.success()), "{line}");
        claimed = arena.claimed();
    });
    let programs = run.tasks().iter().filter(|t| t.head.sub == w::TASK_EXEC).count();
    assert_eq!((programs, claimed), (3, 1), "three programs, one process");
}
