//! Every folder `tests/golden/proto.*/*` is a test of its own, named by its path.

mod support;

use std::path::Path;
use support::{read_case, run};
use wakepath_testkit::golden;

fn gives_the_messages_that_are_expected(input: &Path) -> datatest_stable::Result<()> {
    let case = read_case(input.parent().expect("a case's folder"));
    let recorder = run(case.protocol, case.offset, &case.steps, |len| len);
    golden::holds(&case.folder, &(recorder.lines.join("\n") + "\n"));
    Ok(())
}

datatest_stable::harness! {
    { test = gives_the_messages_that_are_expected, root = "../../tests/golden", pattern = r"^proto\.[^/]*/[^/]*/input\.txt$" },
}
