//! Page faults of a request: whose they are, and what they read.

use wakepath_analysis::faults::{FileRead, SpanFaults, of_request};
use wakepath_model::folder::Folder;
use wakepath_model::rows::FaultKind;
use wakepath_testkit::recording::Cuts;
use wakepath_testkit::script::play;

const A: u32 = 1;
const D: u32 = 2;

#[test]
fn a_span_has_the_faults_of_its_own_time() {
    let script = "
task A app
task D db
flow c - A
flow d A D
90 A woken by c since 10
100 A takes r1 c
110 A asks q1 d for r1
120 D takes q1
300 D answers q1
310 A hears q1
350 A answers r1
";
    let mut recording = play(script).expect("the script");
    for (began, ended, task, kind, file, inode) in [
        // before it took the request up
        (92, 95, A, FaultKind::Major, "/lib/early", 1),
        (101, 103, A, FaultKind::Minor, "", 0),
        (104, 109, A, FaultKind::Major, "/lib/a", 2),
        // while its call is under way a task that need not wait may be with another request
        (200, 205, A, FaultKind::Major, "/lib/elsewhere", 3),
        (320, 330, A, FaultKind::Major, "/lib/a", 2),
        (331, 332, A, FaultKind::Neither, "", 0),
        (333, 337, A, FaultKind::Major, "", 0),
        (360, 370, A, FaultKind::Major, "/lib/late", 4),
        (130, 140, D, FaultKind::Major, "", 9),
        (310, 320, D, FaultKind::Minor, "", 0),
    ] {
        recording.hosts[0].faulted(began * 1000, ended * 1000, task, kind, file, inode);
    }
    let dir = tempfile::tempdir().expect("a folder");
    let dirs = recording.write(&dir.path().join("t"), Cuts::default()).expect("written");
    let folder = Folder::open(&dirs).expect("opened");
    let mut found = Vec::new();
    wakepath_causality::reconstruct(&folder, |r| found.push(of_request(&folder, &r)), |_, _, _, _| {});
    let read = |name: &str, faults, us: u64| FileRead { name: name.to_owned(), faults, ns: us * 1000 };
    let root = SpanFaults { minor: 1, major: 3, neither: 1, major_ns: 19_000, files: vec![read("/lib/a", 2, 15)] };
    let files = vec![read("inode 9 on 8:0", 1, 10)];
    let call = SpanFaults { minor: 0, major: 1, neither: 0, major_ns: 10_000, files };
    assert_eq!(found, [[root, call]]);
}
