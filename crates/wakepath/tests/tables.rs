//! Requests, spans and their tables as readers meet them: the documents against their schemas, and every query of
//! `docs/queries.md` run by the real readers.

mod support;

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{Tested, check, run, stderr, stdout, widest};
use wakepath_model::rows::FaultKind;
use wakepath_testkit::recording::Cuts;
use wakepath_testkit::shapes::{Plan, Shape, simulate};

fn path(p: &Path) -> &str {
    p.to_str().expect("temporary paths are UTF-8")
}

/// Page faults: begin, end, how they ended, of which file.
const FAULTS: [(u64, u64, FaultKind, &str, u64); 5] = [
    (100, 200, FaultKind::Minor, "/lib/a", 1),
    (1_000_000, 3_000_000, FaultKind::Major, "/lib/a", 1),
    (4_000_000, 5_000_000, FaultKind::Major, "/lib/a", 1),
    (6_000_000, 7_000_000, FaultKind::Major, "", 2),
    (8_000_000, 8_500_000, FaultKind::Major, "", 0),
];

/// A web service with a thread for each connection, before a database: every path is whole.
fn web(dir: &Path) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let mut recording = simulate(&Plan { clients: 6, requests: 20, ..Plan::new(Shape::ThreadPerConnection, 7) });
    recording.hosts[0].lost(0, 1_000, 3, "loss.ring.other");
    for (began, ended, kind, file, inode) in FAULTS {
        recording.hosts[0].faulted(began, ended, 1, kind, file, inode);
    }
    Ok(recording.write(dir, Cuts::default())?.remove(0))
}

/// A service whose workers' calls nobody can tell apart in part.
fn murky(dir: &Path) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let recording = simulate(&Plan::new(Shape::DispatcherReplies, 3));
    Ok(recording.write(dir, Cuts::default())?.remove(0))
}

#[test]
fn requests_and_show_are_as_their_schemas_say() -> Tested {
    let dir = tempfile::tempdir()?;
    for folder in [web(&dir.path().join("web"))?, murky(&dir.path().join("murky"))?] {
        let requests = check("requests", &stdout(&run(&["requests", "--json", path(&folder)])));
        assert!(requests["requests"].as_u64() > Some(20), "{requests}");
        let kinds = requests["kinds"].as_array().expect("checked");
        assert_eq!(kinds.len(), 3, "{requests}");
        for kind in kinds {
            let id = kind["slowest"][0].as_str().expect("checked");
            let shown = check("show", &stdout(&run(&["show", "--json", path(&folder), id])));
            assert_eq!((&shown["request"], &shown["duration_ns"]), (&kind["slowest"][0], &kind["max_ns"]));
            let text = stdout(&run(&["show", path(&folder), id]));
            assert!(widest(&text) <= 100 && text.contains(id), "{text}");
        }
    }
    let orphans = check("requests", &stdout(&run(&["requests", "--json", path(&dir.path().join("murky/web"))])));
    assert!(orphans["orphans"].as_array().is_some_and(|o| !o.is_empty()), "{orphans}");
    let strict = run(&["requests", "--strict", path(&dir.path().join("murky/web"))]);
    assert_eq!(strict.status.code(), Some(3));
    Ok(())
}

/// The Python that has the readers: `$WAKEPATH_VENV`, or what `scripts/install test` made.
fn python() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let venv = std::env::var_os("WAKEPATH_VENV").map_or(root.join("target/venv"), PathBuf::from);
    let python = venv.join("bin/python");
    let has_all = Command::new(&python).args(["-c", "import duckdb, polars, pandas, pyarrow"]).output();
    has_all.is_ok_and(|o| o.status.success()).then_some(python)
}

#[test]
fn every_query_of_the_document_runs() -> Tested {
    let Some(python) = python() else {
        eprintln!("skipped: run scripts/install test");
        return Ok(());
    };
    let dir = tempfile::tempdir()?;
    let folder = web(dir.path())?;
    let output = run(&["tables", path(&folder)]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("requests") && widest(&stdout(&output)) <= 100);

    let requests: Value = serde_json::from_str(&stdout(&run(&["requests", "--json", path(&folder)])))?;
    let slowest: Value = serde_json::from_str(&stdout(&run(&["show", "--json", path(&folder), "slowest"])))?;
    let kinds: Vec<String> = requests["kinds"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|k| format!("{} {}", k["service"].as_str().unwrap_or("?"), k["asked"].as_str().unwrap_or("?")))
        .collect();
    let expected = json!({
        "host": "web",
        "requests": requests["requests"],
        "kinds": kinds,
        "services": ["app:80", "db:5432"],
        "comms": ["app", "db"],
        "losses": { "loss.ring.other": 3 },
        "faults": [
            ["web", "/lib/a", 2, 3.0, 2.0],
            ["web", "inode 2 on 8:0", 1, 1.0, 1.0],
            ["web", "no file", 1, 0.5, 0.5],
        ],
        "spans_each": slowest["spans"].as_array().map(Vec::len),
    });
    let told = dir.path().join("expected.json");
    std::fs::write(&told, expected.to_string())?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let output = Command::new(python)
        .arg(root.join("tests/tables.py"))
        .arg(root.join("docs/queries.md"))
        .arg(&told)
        .current_dir(&folder)
        .output()?;
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    Ok(())
}
