//! `wakepath import` of marks, and what is asked of them.

mod support;

use serde_json::Value;
use std::path::{Path, PathBuf};
use support::{check, run, stderr, stdout};
use wakepath_model::folder::Folder;
use wakepath_model::rows::{MarkKind, MarkRow, Table};

fn golden(case: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(case).join("input.marks")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

#[test]
fn a_file_becomes_hosts_with_rows() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("t");
    let output = run(&["import", text(&golden("read.marks/all_verbs")), "-o", text(&out)]);
    let said = stderr(&output);
    assert_eq!((output.status.code(), stdout(&output)), (Some(0), String::new()), "{said}");
    assert!(said.contains("web: 7 marks") && said.contains("db: 4 marks") && said.contains("2 hosts"), "{said}");
    let folder = Folder::open(&[&out]).unwrap();
    let web = folder.hosts().iter().find(|h| h.info().hostname == "web").unwrap();
    let rows: Vec<MarkRow> = web.batches(Table::Mark.into(), ..).flat_map(|b| b.rows::<MarkRow>().to_vec()).collect();
    assert_eq!((rows.len(), rows[0].kind, rows[0].key, web.text(rows[0].name)), (7, MarkKind::Begin, 16, "GET /"));
    assert!(rows.is_sorted_by_key(|r| (r.at, r.seq)));
    // times count from the epoch that the header names
    assert_eq!(web.wall_clock().wall_ns(rows[2].at), Some(1_700_000_000_000_001_250));
}

#[test]
fn contradictions_and_bad_lines_are_told_with_their_place() {
    let dir = tempfile::tempdir().unwrap();
    let bad = golden("read.marks/bad_lines");
    let output = run(&["import", text(&bad), "-o", text(&dir.path().join("bad"))]);
    let said = stderr(&output);
    assert!(said.contains(&format!("marks.line × 15, first {}:3: it ends before the host", bad.display())), "{said}");

    let out = dir.path().join("t");
    let source = golden("forecast.marks/dequeue_empty");
    let output = run(&["import", text(&source), "-o", text(&out), "--json", "--strict"]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let answer = check("import", &stdout(&output));
    let loss = answer["losses"].as_array().unwrap().iter().find(|l| l["id"] == "marks.dequeue_empty").unwrap();
    assert_eq!((&loss["count"], &loss["place"]), (&Value::from(1), &Value::from("h/b, queue q, at +0.000007 s")));
    assert_eq!(answer["hosts"][0]["sources"][0]["format"], "marks");
    // and whoever asks of them is told again
    for command in ["bottleneck", "forecast"] {
        let output = run(&[command, text(&out), "--strict"]);
        let said = stdout(&output);
        assert_eq!(output.status.code(), Some(3), "{said}{}", stderr(&output));
        for part in
            ["annotations contradict themselves", "marks.dequeue_empty × 1", "First at h/b, queue q", "(enqueue)"]
        {
            assert!(said.contains(part), "{part} is missing:\n{said}");
        }
        let answer = check(command, &stdout(&run(&[command, text(&out), "--json"])));
        assert_eq!(&answer["losses"][0], loss, "{answer:#}");
    }
}

#[test]
fn files_of_one_host_are_one_host_and_appended_ones_another() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b, out) = (dir.path().join("a.marks"), dir.path().join("b.marks"), dir.path().join("t"));
    std::fs::write(&a, "wakepath-marks 1\n1 h a 0 enqueue q\n5 h a 0 state -\n").unwrap();
    std::fs::write(&b, "wakepath-marks 1\n0 h b 0 wait_empty q\n3 h b 0 dequeue q\n3 h b 0 state -\n").unwrap();
    let output = run(&["import", text(&a), text(&b), "-o", text(&out)]);
    let said = stderr(&output);
    // they fit together: nothing contradicts itself
    assert!(output.status.success() && said.contains("h: 5 marks") && !said.contains("warning"), "{said}");
    assert_eq!(Folder::open(&[&out]).unwrap().hosts().len(), 1);
    assert!(!run(&["import", text(&a), "-o", text(&out)]).status.success());
    assert!(run(&["import", text(&b), "-o", text(&out), "--append"]).status.success());
    assert_eq!(Folder::open(&[&out]).unwrap().hosts().len(), 2);
    assert!(run(&["import", text(&b), "-o", text(&out), "--force"]).status.success());
    assert_eq!(Folder::open(&[&out]).unwrap().hosts().len(), 1);
}

#[test]
fn what_holds_no_marks_is_refused_with_the_place() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("t");
    let output = run(&["import", text(&golden("read.marks/newer_version")), "-o", text(&out)]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains(":1: version \"2\" is not known") && !out.exists(), "{said}");
    let output = run(&["import", text(&golden("read.marks/no_header")), "-o", text(&out)]);
    assert!(stderr(&output).contains("not a trace") && !out.exists());
    let named = format!("h={}", golden("read.marks/units").display());
    let output = run(&["import", "--host", &named, "-o", text(&out)]);
    assert!(stderr(&output).contains("without --host"), "{}", stderr(&output));
}

/// Figure 4 of the paper by the commands: a loop closed by the credit, which a second buffer takes away.
#[test]
fn figure_4_by_the_commands() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("t");
    assert!(run(&["import", text(&golden("forecast.marks/figure_4_one_buffer")), "-o", text(&out)]).status.success());
    let output = run(&["bottleneck", text(&out), "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let answer = check("bottleneck", &stdout(&output));
    assert_eq!(answer["path"]["loops"][0]["queue"], "credit", "{answer:#}");
    let output = run(&["forecast", text(&out), "--change", "queue credit=+1", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let answer = check("forecast", &stdout(&output));
    let mean = &answer["forecast"]["mean_ns"];
    assert_eq!((&mean["measured"], &mean["value"]), (&Value::from(11.0), &Value::from(7.0)), "{answer:#}");
}

/// Of two machines the items that they had a part in are followed, and no other's.
#[test]
fn a_path_between_two_machines_is_of_one_connection() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("t");
    assert!(run(&["import", text(&golden("forecast.marks/shared_driver")), "-o", text(&out)]).status.success());
    // who belongs together is told, and what tells one flow from the others
    let output = run(&["bottleneck", text(&out)]);
    let said = stdout(&output);
    assert!(said.contains("Machines that handled the same items:") && said.contains("client[2], "), "{said}");
    let (_, ends) = said.split_once(" --from ").expect("how to ask for one");
    let ends: Vec<&str> = ends.split_whitespace().take(3).map(|w| w.trim_matches('\'')).collect();
    let words = ["--from", ends[0], "--to", ends[2]];
    let output = run(&[&["bottleneck", text(&out), "--json"][..], &words].concat());
    assert_eq!(output.status.code(), Some(0), "{words:?}: {}", stderr(&output));
    assert!(check("bottleneck", &stdout(&output))["flows"].as_array().is_some_and(|f| f.len() > 1));
    let output = run(&["bottleneck", text(&out), "--from", "client[2]", "--to", "server[8]"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for (args, says) in [
        (["--from", "client[7]", "--to", "server[8]"], "no machine is called \"client[7]\""),
        (["--from", "client[2]", "--to", "+1s"], "both --from and --to"),
    ] {
        let output = run(&[&["bottleneck", text(&out)][..], &args].concat());
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains(says), "{}", stderr(&output));
    }
}
