//! Inputs that are handed over when the whole process is at rest: programs go on as without the library, whatever their
//! other threads do.

mod support;

use support::{Mode, Run, program, run, same_in_all_modes};
use wakepath_wire as w;

/// What its user sees is as without the library; the run.
fn goes_on(part: &str) -> Run {
    let bare = run(Mode::Bare, &program("rest"), &[part]);
    assert!(bare.output.status.success(), "{part} without the library: {}", bare.text());
    let run = run(Mode::Rest, &program("rest"), &[part]);
    assert_eq!((run.text(), run.output.status), (bare.text(), bare.output.status), "{part}");
    // one that never waits fills any ring
    assert!(run.drops == 0 || part == "asking", "{part}: {} records lost", run.drops);
    run
}

/// Inputs on flows, and how many of them were handed over at rest.
fn inputs(run: &Run) -> (usize, usize) {
    let all: Vec<w::Input> = run.all(w::KIND_INPUT);
    let flows = all.iter().filter(|i| i.flow != 0);
    (flows.clone().count(), flows.filter(|i| i.flags & w::INPUTF_REST != 0).count())
}

#[test]
fn threads_that_hand_requests_on() {
    for part in ["stages", "stages_edge"] {
        let run = goes_on(part);
        let (all, at_rest) = inputs(&run);
        assert!(all >= 6 && at_rest > 0, "{part}: {at_rest} of {all}");
    }
}

#[test]
fn each_of_several_connections_is_an_input() {
    let run = goes_on("together");
    let accepted = run.operations().iter().filter(|o| o.head.sub == w::OP_ACCEPT).count();
    assert_eq!(accepted, 6);
    assert!(inputs(&run).1 >= accepted, "{:?}", inputs(&run));
}

#[test]
fn a_thread_that_computes_for_ever() {
    let run = goes_on("computing");
    assert_eq!(inputs(&run).1, 0, "the process is never at rest, and nothing is said of its inputs");
}

#[test]
fn threads_with_a_life_of_their_own() {
    for part in ["sleeping", "logging", "asking", "forking", "holding"] {
        goes_on(part);
    }
}

#[test]
fn edges_that_are_taken_are_never_lost() {
    for part in ["edges", "registered"] {
        let run = same_in_all_modes(&program("rest"), &[part]);
        assert!(inputs(&run).0 > 0, "{part}");
    }
}
