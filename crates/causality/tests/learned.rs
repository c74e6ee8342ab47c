//! What was learned of a folder once finds the same paths each time.

mod support;

use support::{Found, read};
use wakepath_causality::Learned;
use wakepath_model::folder::Folder;
use wakepath_testkit::recording::Cuts;
use wakepath_testkit::script::play;

#[test]
fn a_folder_that_was_learned_once_gives_the_same_paths_again() {
    let script = include_str!("../../../tests/golden/link.fragment/loop_pool_parallel/input.txt");
    let recording = play(script).expect("the script");
    let dir = tempfile::tempdir().expect("a temporary folder");
    let paths = recording.write(dir.path(), Cuts::default()).expect("the disk takes it");
    let expected = read(&paths);
    assert!(expected.requests.iter().any(|r| r.spans.len() > 1));
    let folder = Folder::open(&paths).expect("folders");
    let learned = Learned::of(&folder);
    for _ in 0..2 {
        let mut requests = Vec::new();
        let report = learned.reconstruct(&folder, |r| requests.push(r));
        assert_eq!(report, expected.report);
        let found = Found { requests, report, hosts: expected.hosts.clone(), refused: 0 };
        assert_eq!(found.digest(), expected.digest());
    }
}
