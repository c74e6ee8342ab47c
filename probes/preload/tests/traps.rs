//! What breaks naive interposition, made to happen: each program must end as it does without the library.

mod support;

use std::os::unix::fs::PermissionsExt as _;
use support::{Mode, compiled, program, run, same_in_all_modes};
use wakepath_wire as w;
use wakepath_wire::arena::aside;

/// Every input that was handed over was alone.
fn all_alone(run: &support::Run) -> bool {
    let inputs: Vec<w::Input> = run.all(w::KIND_INPUT);
    !inputs.is_empty() && inputs.iter().all(|i| i.flags & w::INPUTF_ISOLATED != 0)
}

#[test]
fn a_short_read_may_mean_drained() {
    // three requests in one segment to an edge-triggered loop that reads once: without a re-armed event it would hang
    let run = same_in_all_modes(&program("loops"), &["edge"]);
    assert!(all_alone(&run));
    let cut = run.operations().iter().filter(|o| o.flags & w::OPF_BORDER != 0).count();
    assert!(cut >= 4, "{cut} reads ended at a border");
}

#[test]
fn a_loop_by_calls_that_are_not_seen() {
    let run = same_in_all_modes(&program("loops"), &["unseen_edge"]);
    assert!(run.aside[aside::NOT_ISOLATED] >= 4, "nothing is left behind for whom nobody could tell of it");
}

#[test]
fn level_triggered_and_one_shot_loops() {
    for part in ["level", "oneshot"] {
        let run = same_in_all_modes(&program("loops"), &[part]);
        assert!(all_alone(&run), "{part}");
    }
}

#[test]
fn loops_by_poll_and_by_select() {
    for part in ["by_poll", "by_select"] {
        assert!(all_alone(&same_in_all_modes(&program("loops"), &[part])), "{part}");
    }
}

#[test]
fn a_mark_below_which_nothing_is_readable() {
    let run = same_in_all_modes(&program("loops"), &["low_mark"]);
    assert!(run.aside[aside::NOT_ISOLATED] > 0, "two requests came in one read, and that is said");
}

#[test]
fn datagrams_of_all_kinds() {
    let run = same_in_all_modes(&program("loops"), &["datagrams"]);
    let with = |op: u8| run.operations().iter().filter(|o| o.head.sub == op && o.flags & w::OPF_PEER != 0).count();
    assert_eq!((with(w::OP_SEND), with(w::OP_RECV)), (2, 1), "addresses where the program gave or asked for them");
    let received = run.operations().iter().filter(|o| o.head.sub == w::OP_RECV && o.bytes > 0).count();
    assert_eq!(received, 5);
}

#[test]
fn bytes_that_pass_through_no_buffer() {
    let run = same_in_all_modes(&program("loops"), &["zero_copy"]);
    let blind = |o: &&w::Op| o.flags & w::OPF_UNREADABLE != 0 && o.bytes > 0;
    let sum = |op: u8| run.operations().iter().filter(blind).filter(|o| o.head.sub == op).map(|o| o.bytes).sum::<i32>();
    assert_eq!((sum(w::OP_SEND), sum(w::OP_RECV)), (15000, 10000), "file, socket to pipe, pipe to socket");
}

#[test]
fn an_epoll_instance_inside_another() {
    assert!(all_alone(&same_in_all_modes(&program("loops"), &["nested"])));
}

#[test]
fn a_handler_that_looks_for_more_before_it_is_done() {
    assert!(all_alone(&same_in_all_modes(&program("loops"), &["within"])));
}

#[test]
fn two_threads_on_one_instance() {
    assert!(all_alone(&same_in_all_modes(&program("loops"), &["threads"])));
}

#[test]
fn ready_descriptors_that_are_closed_deleted_or_changed() {
    assert!(all_alone(&same_in_all_modes(&program("loops"), &["stale"])));
}

#[test]
fn nobody_starves() {
    let run = same_in_all_modes(&program("loops"), &["fair"]);
    assert!(all_alone(&run));
    let polls: Vec<w::Poll> = run.all(w::KIND_POLL);
    assert!(polls.len() >= 720 && polls.iter().all(|p| p.ready == 1), "one at a time");
}

#[test]
fn observing_says_what_it_could_not_tell_apart() {
    let run = run(Mode::Observe, &program("loops"), &["fair"]);
    assert!(run.aside[aside::NOT_ISOLATED] > 100, "{:?}", run.aside);
    let inputs: Vec<w::Input> = run.all(w::KIND_INPUT);
    assert!(inputs.iter().all(|i| i.flags & w::INPUTF_ISOLATED == 0 && i.ready > 1));
}

#[test]
fn one_descriptor_in_two_sets() {
    same_in_all_modes(&program("loops"), &["both_sets"]);
}

#[test]
fn pipelined_requests_by_all_kinds_of_reads() {
    same_in_all_modes(&program("loops"), &["pipelined"]);
}

#[test]
fn what_is_not_handed_out_stays_in_the_kernel() {
    same_in_all_modes(&program("loops"), &["left_behind"]);
    same_in_all_modes(&program("tasks"), &["passed"]);
}

#[test]
fn a_vfork_child_shares_its_parents_memory() {
    let run = same_in_all_modes(&program("tasks"), &["vforked"]);
    // the parent's pipe is still the one that it was after the child closed its own
    let parent = run.tasks().iter().find(|t| t.head.sub == w::TASK_EXEC).expect("it began").tgid;
    let read = |o: &&w::Op| o.tgid == parent && o.head.sub == w::OP_RECV && o.bytes == 10;
    assert_eq!(run.operations().iter().filter(read).count(), 1);
    let begun = run.tasks().iter().filter(|t| t.head.sub == w::TASK_EXEC && t.tgid != parent).count();
    assert_eq!(begun, 1, "echo is watched");
}

#[test]
fn spawned_and_executed_programs_are_watched() {
    let run = same_in_all_modes(&program("tasks"), &["spawned"]);
    let names: Vec<_> = run.tasks().iter().filter(|t| t.head.sub == w::TASK_EXEC).map(|t| t.comm).collect();
    assert_eq!(names.iter().filter(|n| n.starts_with(b"sh\0")).count(), 2, "also with a cleared environment");
    assert_eq!(names.iter().filter(|n| n.starts_with(b"true\0")).count(), 1);
}

#[test]
fn closed_by_the_dozen() {
    same_in_all_modes(&program("tasks"), &["closed_ranges"]);
}

#[test]
fn cancelled_threads_unwind_through_the_hooks() {
    same_in_all_modes(&program("tasks"), &["cancelled"]);
}

#[test]
fn signals_and_errno() {
    same_in_all_modes(&program("tasks"), &["interrupted"]);
}

#[test]
fn two_threads_read_one_connection() {
    same_in_all_modes(&program("tasks"), &["two_readers"]);
}

#[test]
fn a_thread_executes_another_program() {
    let run = same_in_all_modes(&program("tasks"), &["thread_exec"]);
    let tasks = run.tasks();
    let began: Vec<_> = tasks.iter().filter(|t| t.head.sub == w::TASK_EXEC).collect();
    assert_eq!((began.len(), began[0].tgid), (2, began[1].tgid), "one process, two programs");
}

#[test]
fn io_uring_is_said() {
    let run = same_in_all_modes(&program("tasks"), &["ring"]);
    assert_eq!(run.aside[aside::IO_URING], u64::from(run.text().contains("a ring")));
}

#[test]
fn a_program_that_forbids_itself_system_calls_is_left() {
    let run = same_in_all_modes(&program("tasks"), &["sandboxed"]);
    assert_eq!(run.not_loaded, 1);
}

#[test]
fn static_programs_are_left_alone_and_said() {
    let still = compiled("hello", &["-static"]);
    let run = same_in_all_modes(&program("tasks"), &["executed", still.to_str().expect("a plain path")]);
    assert_eq!(run.not_loaded, 1);
}

#[test]
fn setuid_programs_are_left_alone_and_said() {
    // SAFETY: no conditions
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: only root makes a program setuid for somebody else");
        return;
    }
    let other = compiled("hello", &["-DSETUID"]);
    std::os::unix::fs::chown(&other, Some(65534), None).expect("root may");
    std::fs::set_permissions(&other, std::fs::Permissions::from_mode(0o4755)).expect("root may");
    let run = same_in_all_modes(&program("tasks"), &["executed", other.to_str().expect("a plain path")]);
    assert_eq!(run.not_loaded, 1);
    assert_eq!(run.tasks().iter().filter(|t| t.comm.starts_with(b"preload-hello")).count(), 0);
}

#[test]
fn plugins_that_are_bound_past_the_library_are_said() {
    let plugin = compiled("plugins", &["-DPLUGIN", "-shared", "-fPIC"]);
    let name = plugin.file_name().and_then(|n| n.to_str()).expect("a name that the test gave");
    let run = same_in_all_modes(&compiled("plugins", &["-Wl,-rpath,$ORIGIN", "-ldl"]), &[name]);
    assert!(run.text().starts_with("5 5\n"), "{}", run.text());
    let sent = run.operations().iter().filter(|o| o.head.sub == w::OP_SEND && o.bytes == 5).count();
    assert_eq!((sent, run.aside[aside::DEEPBIND]), (1, 2), "one went by; one more was tried");
}
