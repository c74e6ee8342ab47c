//! The helper for Node.js in a real Node: whether the numbers that it tells name the right requests.

use std::process::Command;

/// Handlers that share work tell no number that is another request's; those that share nothing tell all.
#[test]
fn no_call_of_shared_work_is_told_as_another_requests() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let mut node = Command::new("node");
    node.arg(format!("{root}/testbeds/contexts/queues.js")).arg(format!("{root}/crates/runtimes/helpers/node.cjs"));
    let Ok(out) = node.output() else {
        eprintln!("SKIPPED: no Node.js; remedy: scripts/install test");
        return;
    };
    let told = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let lines: Vec<&str> = told.lines().collect();
    // replies at once, and in parts
    assert_eq!(lines.len(), 10, "{told}");
    assert!(lines.iter().all(|line| line.contains("\"wrong\":0")), "{told}");
    for lines in lines.chunks(5) {
        assert!(lines[0].contains("\"kind\":\"alone\"") && lines[0].contains("\"open\":0"), "{told}");
        // so many that requests did share work
        assert!(lines[1..].iter().all(|line| !line.contains("\"open\":0")), "{told}");
    }
}
