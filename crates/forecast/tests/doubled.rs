//! A database behind something that is not seen: what its service asks there arrives as if clients of its own asked.

use std::fmt::Write as _;
use wakepath_analysis::names::Names;
use wakepath_forecast::derive::{Selection, derive};
use wakepath_graph::Index;
use wakepath_model::folder::Folder;
use wakepath_testkit::recording::Cuts;
use wakepath_testkit::script::play;

/// Twenty requests that each ask the database once by an address that is not its own, as the flow's option says. Its own clients
/// ask it so often too.
fn refused(option: &str, own: usize, kind: Option<&str>) -> String {
    let mut script = format!(
        "task A app\ntask D db\nflow c - A\nflow d A D seen as 10.96.0.10 5432 {option}\ntask E db\nflow e - E\n"
    );
    for i in 0..20 {
        let at = |us: usize| 1000 * i + us;
        let (r, q) = (format!("r{i}"), format!("q{i}"));
        let steps = [
            (100, format!("A takes {r} c")),
            (120, format!("A asks {q} d for {r}")),
            (130, format!("D takes {q}")),
            (150, format!("D answers {q}")),
            (160, format!("A hears {q}")),
            (170, format!("A answers {r}")),
        ];
        for (us, step) in steps {
            let _ = writeln!(script, "{} {step}", at(us));
        }
        if i < own {
            let _ = writeln!(script, "{} E takes s{i} e\n{} E answers s{i}", at(200), at(300));
        }
    }
    let dir = tempfile::tempdir().expect("a folder");
    let recording = play(&script).expect("the script");
    let dirs = recording.write(&dir.path().join("trace"), Cuts::default()).expect("written");
    let folder = Folder::open(&dirs).expect("opened");
    let index = Index::open(&folder, &dirs).expect("an index");
    let selection = Selection { kind: kind.map(str::to_owned), ..Selection::default() };
    derive(&folder, &index, &Names::read(&folder), &selection).err().map_or_else(String::new, |e| e.to_string())
}

#[test]
fn requests_that_may_be_calls_of_others_are_no_clients_of_their_own() {
    let said = refused("old", 0, None);
    assert!(said.contains("may be those that app:80 sent to 10.96.0.10:5432"), "{said}");
    assert!(said.contains("--request 'GET"), "{said}");
}

#[test]
fn nothing_is_refused_where_the_ends_were_joined_or_one_kind_is_asked_for() {
    assert_eq!(refused("old counted", 0, None), "");
    assert_eq!(refused("", 0, None), "", "seen when it was made");
    assert_eq!(refused("old", 0, Some("GET /r0")), refused("old counted", 0, Some("GET /r0")));
}

/// Another service gets the same requests, and much fewer than are called.
#[test]
fn other_numbers_are_other_requests() {
    assert_eq!(refused("old counted", 5, None), "");
}
