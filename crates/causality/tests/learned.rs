//! What was learned of a folder once finds the same paths each time.

mod support;

use std::cell::Cell;
use std::rc::Rc;
use support::{Found, read};
use wakepath_causality::{Learned, Options, reconstruct_with};
use wakepath_model::folder::Folder;
use wakepath_testkit::recording::Cuts;
use wakepath_testkit::script::play;
use wakepath_testkit::shapes::{Plan, Shape, simulate};

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

#[test]
fn who_wants_no_more_ends_the_linking() {
    // requests are given some seconds after their end
    let plan = Plan { requests: 400, think_us: 1_000_000, ..Plan::new(Shape::ALL[0], 1) };
    let recording = simulate(&plan);
    let dir = tempfile::tempdir().expect("a temporary folder");
    let paths = recording.write(dir.path(), Cuts::default()).expect("the disk takes it");
    let folder = Folder::open(&paths).expect("folders");
    let count = |stops: bool| {
        let stop = Rc::new(Cell::new(false));
        let options = Options { stop: Some(Rc::clone(&stop)), ..Options::default() };
        let mut given = 0;
        let take = |_| {
            given += 1;
            stop.set(stops);
        };
        reconstruct_with(&folder, &options, take, |_, _, _, _| {});
        given
    };
    // what was open then is given too
    let (all, some) = (count(false), count(true));
    assert!(all > 20 && 2 * some < all, "{some} of {all}");
}
