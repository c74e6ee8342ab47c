//! Every folder `tests/golden/link.*/*` is a test of its own, named by its path: a script (`wakepath_testkit::script`), and the
//! paths that it gives. For each rule there is a case in which its condition holds, and one in which it does not: then the
//! link must be left open, and the conditions that failed are listed. Whatever is expected, no parent may be wrong.

mod support;

use std::path::Path;
use support::{found_and_proved, reduced_alike};
use wakepath_testkit::golden;
use wakepath_testkit::script::play;

fn gives_the_paths_that_are_expected(input: &Path) -> datatest_stable::Result<()> {
    let case = input.parent().expect("a case's folder");
    let recording = play(&golden::text(case, "input.txt"))?;
    let (f, proofs) = found_and_proved(&recording);
    golden::holds(case, &(f.text(&recording.truth) + &f.failed(&proofs, &recording.truth)));
    let verdict = recording.truth.judge(&f.claims());
    assert!(verdict.wrong.is_empty(), "WRONG PARENT: {:?}", verdict.wrong);
    reduced_alike(&recording);
    Ok(())
}

datatest_stable::harness! {
    { test = gives_the_paths_that_are_expected, root = "../../tests/golden", pattern = r"^link\.[^/]*/[^/]*/input\.txt$" },
}
