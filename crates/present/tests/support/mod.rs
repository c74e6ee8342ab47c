//! What `requests` says of recordings that tests make.

use wakepath_analysis::names::Names;
use wakepath_analysis::requests::Kinds;
use wakepath_model::folder::Folder;
use wakepath_present::requests::RequestsView;
use wakepath_testkit::recording::{Cuts, Recording};
use wakepath_testkit::script::play;

/// Of a script.
pub fn requests(script: &str) -> RequestsView {
    told(play(script).expect("the script"))
}

/// Of a recording.
pub fn told(recording: Recording) -> RequestsView {
    let dir = tempfile::tempdir().expect("a folder");
    let dirs = recording.write(&dir.path().join("t"), Cuts::default()).expect("written");
    let folder = Folder::open(&dirs).expect("opened");
    let names = Names::read(&folder);
    let mut kinds = Kinds::default();
    let report = wakepath_causality::reconstruct(&folder, |r| kinds.add(&r, &names), |_, _, _, _| {});
    RequestsView::new(&kinds, &report, &[(0, 1_000_000)])
}
