//! Time namespaces: what runs there has other clocks, and its records have the host's.

use super::*;
use wakepath_model::rows::AnchorRow;

/// Runs a command whose clocks are a day ahead.
const AHEAD: [&str; 7] = ["unshare", "-T", "--monotonic", "86400", "--boottime", "86400", "--fork"];

/// The time of day by the host's monotonic clock at 0, in nanoseconds.
fn begin_of_clock() -> i128 {
    let read = |clock| {
        let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: a place of our own
        assert_eq!(unsafe { libc::clock_gettime(clock, &raw mut t) }, 0);
        i128::from(t.tv_sec) * 1_000_000_000 + i128::from(t.tv_nsec)
    };
    read(libc::CLOCK_REALTIME) - read(libc::CLOCK_MONOTONIC)
}

#[test]
fn records_of_another_time_namespace_have_the_hosts_time() -> Tested {
    const MINUTE_NS: u64 = 60_000_000_000;
    if !has_library() {
        return Ok(());
    }
    if !Command::new(AHEAD[0]).args(&AHEAD[1..]).arg("true").output().is_ok_and(|o| o.status.success()) {
        println!("skipped: no right to make a time namespace");
        return Ok(());
    }
    let server = ["python3", "-c", SERVER];
    // the program alone is there, or the recorder with it
    for (is_recorder_there, with) in [(false, vec![]), (true, vec![]), (true, vec!["--kernel"])] {
        let dir = tempfile::tempdir()?;
        let folder = dir.path().join("t");
        let mut line = vec![env!("CARGO_BIN_EXE_wakepath"), "run", "-o", path(&folder)];
        line.extend(&with);
        line.push("--");
        let line = match is_recorder_there {
            true => [&AHEAD[..], &line, &server].concat(),
            false => [&line, &AHEAD[..], &server].concat(),
        };
        let output = Command::new(line[0]).args(&line[1..]).stdin(Stdio::null()).output()?;
        let said = stderr(&output);
        if output.status.code() == Some(1) && ["--kernel needs", "lacks", "refused"].iter().any(|w| said.contains(w)) {
            println!("skipped: {}", said.trim());
            continue;
        }
        assert_eq!(output.status.code(), Some(7), "{said}");
        let ops: Vec<u64> = rows(&folder).ops.iter().map(|o| o.at.0).collect();
        let (first, last) = (ops.iter().min().expect("operations"), ops.iter().max().expect("operations"));
        assert!(last - first < MINUTE_NS, "{line:?}: a recording of {} ns", last - first);
        let anchors: Vec<AnchorRow> = anchors(&folder);
        assert!(!anchors.is_empty());
        for a in anchors {
            let begins = i128::from(a.real_ns) - i128::from(a.at.0);
            assert!((begins - begin_of_clock()).abs() < i128::from(MINUTE_NS), "{line:?}: dated {begins} ns");
            assert!(a.at.0.abs_diff(*first) < MINUTE_NS, "{line:?}: {first} ns, and the recorder's clock is at {a:?}");
        }
    }
    Ok(())
}

fn anchors(folder: &Path) -> Vec<AnchorRow> {
    let folder = Folder::open(&[folder]).expect("a trace folder");
    let events = folder.hosts().iter().flat_map(|host| host.events(TableSet::ALL, ..).collect::<Vec<_>>());
    events.filter_map(|e| if let Event::Anchor(a) = e { Some(a) } else { None }).collect()
}
