//! Examples of `--help`, run as a reader would run them: in a folder with recordings of the names that they use.

#[path = "support/gateway.rs"]
mod gateway;
mod support;

use support::{Tested, run, stderr, stdout, wakepath};
use wakepath_testkit::recording::Cuts;
use wakepath_testkit::shapes::{Plan, Shape, simulate};

/// Commands that only read recordings.
const READING: [&str; 15] = [
    "triage",
    "info",
    "requests",
    "show",
    "waits",
    "why",
    "flame",
    "timeline",
    "open",
    "metrics",
    "bottleneck",
    "forecast",
    "tables",
    "export",
    "bundle",
];
/// Recordings that examples name.
const NAMES: [&str; 11] =
    ["shop", "wakepath-trace", "hang", "web", "monday", "fast", "a", "tuesday", "before", "slow", "both"];

/// The commands of ours in a line of an example, without what other programs do with the answer, and without its explanation.
fn commands(line: &str) -> Vec<Vec<String>> {
    let mut out = Vec::new();
    let line = line.trim().split("   ").next().unwrap_or_default();
    for part in line.split("; ").flat_map(|p| p.split(" && ")) {
        let part = part.split(" | ").next().unwrap_or_default().split(" > ").next().unwrap_or_default();
        let part = part.split("  ").next().unwrap_or_default();
        // words in quotes stay together
        let words: Vec<String> = part
            .split('\'')
            .enumerate()
            .flat_map(|(i, text)| match i % 2 {
                1 => vec![text.to_owned()],
                _ => text.split_whitespace().map(str::to_owned).collect(),
            })
            .collect();
        if let Some((first, words)) = words.split_first()
            && first == "wakepath"
        {
            out.push(words.to_vec());
        }
    }
    out
}

/// An example answers; or, where it names a kind, a request or a task that these recordings do not have, it says which.
#[test]
fn examples_that_read_a_recording_answer() -> Tested {
    let dir = tempfile::tempdir()?;
    for name in NAMES {
        std::fs::rename(gateway::folder(dir.path(), "made", &gateway::steady(200)), dir.path().join(name))?;
    }
    let plan = Plan { two_hosts: true, ..Plan::new(Shape::ThreadPerConnection, 7) };
    let two = simulate(&plan).write(&dir.path().join("two"), Cuts::default())?;
    for (name, made) in [("db", &two[1]), ("b", &two[0])] {
        std::fs::rename(made, dir.path().join(name))?;
    }
    let (mut ran, mut answered, mut problems) = (0, 0, Vec::new());
    for command in READING {
        let help = stdout(&run(&[command, "--help"]));
        let examples = help.split("Examples:\n").nth(1).unwrap_or_default();
        // captures and collectors are not here, and a recorder needs rights
        let is_elsewhere = |w: &String| w.contains(".pcap") || w.starts_with("http") || w == "record" || w == "ui";
        let lines = examples.lines().take_while(|l| !l.is_empty()).flat_map(commands);
        for words in lines.filter(|words| words.iter().any(|w| w == command) && !words.iter().any(is_elsewhere)) {
            let args: Vec<&str> = words.iter().map(String::as_str).collect();
            let output = wakepath(&args).current_dir(dir.path()).output()?;
            ran += 1;
            let said = stderr(&output);
            let names_what_is_missing = words[1..].iter().any(|w| w.len() > 2 && said.contains(w.as_str()));
            match output.status.code() {
                Some(0) => answered += 1,
                Some(1) if names_what_is_missing => {}
                status => problems.push(format!("wakepath {}: {status:?}\n{said}", args.join(" "))),
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(ran >= 50 && answered * 3 >= ran * 2, "{ran} examples, {answered} answered");
    Ok(())
}
