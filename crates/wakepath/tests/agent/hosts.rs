//! Three hosts with an agent each: a trigger on one brings together the parts of all. The hosts are network namespaces. They have one
//! kernel, so its readers take them for one host with three recordings.

use crate::harness::{ADDRESSES, Agent, Hosts, SOON, alone, is_root, parts, service, start, until};
use crate::support::{Tested, run, stdout};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const AGENTS: u16 = 7412;
/// Hosts are namespaces of one kernel: each has a port of its own, so that its agent records its service alone.
const SERVED: [u16; 3] = [8081, 8082, 8083];

/// How long after a trigger all parts are there.
const WITHIN: Duration = Duration::from_secs(5);

fn config(host: usize, peers: &[&str]) -> String {
    let peers: Vec<String> = peers.iter().map(|p| format!("'{p}:{AGENTS}'")).collect();
    format!(
        "peers = [{}]\n[record]\nports = [{}]\n[http]\nlisten = '{}:{AGENTS}'\nTOKEN_FILE\n[kept]\nbefore = '20s'\n\
         peers_within = '4s'\n",
        peers.join(", "),
        SERVED[host],
        ADDRESSES[host]
    )
}

/// Asks from a host, as nobody outside of them reaches their addresses.
fn curl(hosts: &Hosts, from: usize, words: &[&str]) -> String {
    let on = hosts.on(from);
    let token = format!("Authorization: Bearer {}", crate::harness::TOKEN);
    let line = [&on[1..], &["curl", "-s", "--max-time", "20", "-H", &token], words].concat();
    stdout(&Command::new(on[0]).args(line).output().expect("curl is there"))
}

fn started(hosts: &Hosts, dir: &Path, host: usize, peers: &[&str]) -> Agent {
    let agent = start(dir, ["web", "app", "store"][host], &config(host, peers), &hosts.on(host));
    until("it records", SOON, || curl(hosts, host, &[&format!("{}/health", agent.address)]).contains("\"recording\""));
    agent
}

fn trigger(hosts: &Hosts, agent: &Agent, question: &str) -> std::path::PathBuf {
    agent.kept(&curl(hosts, 0, &["-d", question, &format!("{}/v1/trigger", agent.address)]))
}

#[test]
fn a_trigger_on_one_host_brings_the_parts_of_all_within_seconds() -> Tested {
    let _one = alone();
    if !is_root() {
        return Ok(());
    }
    let hosts = match Hosts::new() {
        Ok(hosts) => hosts,
        Err(e) => {
            println!("skipped: {e}");
            return Ok(());
        }
    };
    let dir = tempfile::tempdir()?;
    let further = [1, 2].map(|n| format!("{}:{}", ADDRESSES[n], SERVED[n]));
    let _services: Vec<_> =
        (0..3).rev().map(|n| service(SERVED[n], further.get(n).map(String::as_str), &hosts.on(n))).collect();
    let front = format!("http://{}:{}", ADDRESSES[0], SERVED[0]);
    until("all services listen", SOON, || curl(&hosts, 0, &[&format!("{front}/ready")]) == "ok");
    // the third agent comes later
    let web = started(&hosts, dir.path(), 0, &[ADDRESSES[1], ADDRESSES[2]]);
    let app = started(&hosts, dir.path(), 1, &[]);
    let partial = trigger(&hosts, &web, r#"{"reason": "one is missing"}"#);
    let missing = |state: &str| parts(&partial).get(2).is_some_and(|p| p.1 == state);
    until("the third is missing", WITHIN, || missing("missing"));
    until("the second is there", WITHIN, || parts(&partial)[1].1 == "here");
    let info = stdout(&run(&["info", &partial.to_string_lossy()]));
    assert!(info.contains("kept.part") && info.contains(&format!("{}:{AGENTS}", ADDRESSES[2])), "{info}");
    let strict = run(&["info", "--strict", &partial.to_string_lossy()]);
    assert_eq!(strict.status.code(), Some(3), "a part that is missing affects answers");

    let store = started(&hosts, dir.path(), 2, &[]);
    std::thread::sleep(Duration::from_millis(1100));
    for path in ["/cart", "/cart", "/slow"] {
        assert_eq!(curl(&hosts, 0, &[&format!("{front}{path}")]), "ok");
    }
    let kept = trigger(&hosts, &web, r#"{"reason": "the cart is slow"}"#);
    let took = until("all parts are there", WITHIN, || {
        let parts = parts(&kept);
        parts.len() == 3 && parts.iter().all(|p| p.1 == "here")
    });
    println!("all parts after {took:?}");
    let text = stdout(&run(&["show", "--json", &kept.to_string_lossy(), "slowest"]));
    let shown: Value = serde_json::from_str(&text).map_err(|e| format!("{e}: {text}"))?;
    assert_eq!(shown["complete"], true, "{shown:#}");
    let services: Vec<&str> =
        shown["spans"].as_array().ok_or("spans")?.iter().filter_map(|s| s["service"].as_str()).collect();
    assert_eq!(services, SERVED.map(|port| format!("python3:{port}")), "{shown:#}");
    drop((app, store));
    Ok(())
}
