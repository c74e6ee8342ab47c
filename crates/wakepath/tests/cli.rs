//! The command as scripts and people meet it: exit codes, what goes where, what a broken folder looks like.

mod support;

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output, Stdio};
use support::{Tested, check, run, segment, stderr, stdout, wakepath, widest, write_small};

const COMMANDS: [&str; 21] = [
    "triage",
    "guest",
    "sniff",
    "collect",
    "doctor",
    "record",
    "import",
    "info",
    "requests",
    "show",
    "merge",
    "sync",
    "tables",
    "export",
    "flame",
    "timeline",
    "completions",
    "man",
    "waits",
    "bottleneck",
    "forecast",
];

fn path(p: &std::path::Path) -> &str {
    p.to_str().expect("temporary paths are UTF-8")
}

#[test]
fn help_teaches_and_exits_0() {
    let all = run(&["--help"]);
    assert_eq!(all.status.code(), Some(0));
    for command in COMMANDS {
        assert!(stdout(&all).contains(command), "{command} is missing in --help");
        let help = run(&[command, "--help"]);
        assert_eq!(help.status.code(), Some(0));
        assert!(stdout(&help).contains("Examples:"), "{command}");
        assert!(widest(&stdout(&help)) <= 100, "{command}");
    }
    assert_eq!(run(&["--version"]).status.code(), Some(0));
}

#[test]
fn wrong_usage_exits_2() {
    for args in [
        &["--nonsense"][..],
        &["info"],
        &["info", "--nonsense", "x"],
        &["nonsense"],
        &["record", "--duration", "soon"],
        &["record", "--ring-bytes", "8X"],
        &["merge", "a"],
        &["tables", "a", "b"],
        &["completions", "nonsense"],
    ] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn info_on_what_is_no_folder_says_what_to_give() -> Tested {
    let dir = tempfile::tempdir()?;
    for given in [dir.path().join("missing"), dir.path().to_owned()] {
        let output = run(&["info", path(&given)]);
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stdout.is_empty());
        assert!(stderr(&output).contains("is not a trace folder") && stderr(&output).contains("give the folder"));
    }
    Ok(())
}

#[test]
fn info_tells_what_the_folder_holds() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = dir.path().join("t");
    write_small(&folder, "web", "aaaaaaaa-1", false);
    let output = run(&["info", path(&folder)]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(!text.contains('\x1b'), "no colour and no recorded escape without a terminal: {text:?}");
    assert!(widest(&text) <= 100, "{text}");
    for part in [
        "Host web (Linux 6.1.0-18-amd64, x86_64, 2 processors, boot aaaaaaaa)",
        "2023-11-14T22:13:20.000Z for 2.00 s",
        "--port 443",
        "http1",
        "opaque: encrypted (TLS)",
        "ngi?[2Jnx",
        "tcp 127.0.0.1:443",
        "unix (path not recorded)",
        "No losses",
    ] {
        assert!(text.contains(part), "{part} is missing:\n{text}");
    }

    let document = check("info", &stdout(&run(&["info", "--json", "--verify", path(&folder)])));
    assert_eq!(document["schema"], "wakepath.info/1");
    assert_eq!(document["verified"], true);
    let host = &document["hosts"][0];
    assert_eq!(host["span"]["duration_ns"], 2_000_002_000u64);
    assert_eq!(host["span"]["begin_wall_ns"], 1_700_000_000_000_000_000u64);
    let http = &host["protocols"][0];
    assert_eq!(
        (&http["protocol"], &http["endpoints"], &http["messages"], &http["requests"], &http["failed"]),
        (&"proto.http1".into(), &1.into(), &2.into(), &1.into(), &1.into())
    );
    assert_eq!(host["protocols"].as_array().map(Vec::len), Some(2), "listeners are no flows");
    assert_eq!(host["services"].as_array().map(Vec::len), Some(2));
    Ok(())
}

#[test]
fn losses_are_shown_and_strict_exits_3() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = dir.path().join("t");
    write_small(&folder, "web", "aaaaaaaa-1", true);
    let output = run(&["info", path(&folder)]);
    assert_eq!(output.status.code(), Some(0));
    let text = stdout(&output);
    assert!(
        text.contains("ERROR loss.ring.op × 15 on web") && text.contains("→ Give the recording larger rings"),
        "{text}"
    );
    assert_eq!(run(&["info", "--strict", path(&folder)]).status.code(), Some(3));
    let document = check("info", &stdout(&run(&["info", "--json", path(&folder)])));
    let loss = &document["losses"][0];
    assert_eq!((&loss["id"], &loss["count"]), (&"loss.ring.op".into(), &15.into()));
    assert_eq!((&loss["from_ns"], &loss["to_ns"]), (&3_000.into(), &5_000.into()));
    Ok(())
}

#[test]
fn an_empty_folder_is_an_answer() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = dir.path().join("t");
    write_small(&folder, "web", "aaaaaaaa-1", false);
    let kept = std::fs::read(segment(&folder))?;
    std::fs::write(segment(&folder), &kept[..64])?;
    let output = run(&["info", path(&folder)]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("No rows") && stdout(&output).contains("→ Record again"), "{}", stdout(&output));
    check("info", &stdout(&run(&["info", "--json", path(&folder)])));

    std::fs::remove_dir_all(folder.join("hosts"))?;
    let output = run(&["info", path(&folder)]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("No host"), "{}", stdout(&output));
    check("info", &stdout(&run(&["info", "--json", path(&folder)])));
    Ok(())
}

#[test]
fn a_folder_cut_anywhere_is_read_up_to_the_cut() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = dir.path().join("t");
    write_small(&folder, "web", "aaaaaaaa-1", true);
    let whole = std::fs::read(segment(&folder))?;
    let mut said = 0;
    for cut in (0..whole.len()).step_by(whole.len() / 12) {
        std::fs::write(segment(&folder), &whole[..cut])?;
        let output = run(&["info", "--json", "--verify", path(&folder)]);
        assert_eq!(output.status.code(), Some(0), "cut at {cut}: {}", stderr(&output));
        let document = check("info", &stdout(&output));
        said += usize::from(document["losses"].as_array().is_some_and(|l| l.iter().any(|l| l["id"] == "folder.cut")));
        assert!(widest(&stdout(&run(&["info", path(&folder)]))) <= 100);
    }
    assert!(said >= 6, "cuts are named: {said}");

    let middle = whole.len() / 2;
    std::fs::write(segment(&folder), &whole[..middle])?;
    assert_eq!(run(&["info", "--strict", path(&folder)]).status.code(), Some(3));
    let text = stdout(&run(&["info", path(&folder)]));
    assert!(
        text.contains("warning folder.cut") && text.contains("First at") && text.contains(".seg at byte"),
        "{text}"
    );
    Ok(())
}

#[test]
fn damage_is_counted_not_fatal() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = dir.path().join("t");
    write_small(&folder, "web", "aaaaaaaa-1", true);
    let whole = std::fs::read(segment(&folder))?;
    let mut found = 0;
    for at in (0..whole.len()).step_by(37) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        std::fs::write(segment(&folder), &bytes)?;
        let output = run(&["info", "--json", "--verify", path(&folder)]);
        assert_eq!(output.status.code(), Some(0), "byte {at}: {}", stderr(&output));
        let document: serde_json::Value = serde_json::from_str(&stdout(&output))?;
        let ids = document["losses"]
            .as_array()
            .map_or(0, |l| l.iter().filter(|l| l["id"].as_str().is_some_and(|i| i.starts_with("folder."))).count());
        found += usize::from(ids > 0);
    }
    let all = whole.len().div_ceil(37);
    assert!(found * 10 >= all * 9, "{found} of {all} damaged folders say so");
    Ok(())
}

#[test]
fn merge_makes_one_folder_and_refuses_an_old_one() -> Tested {
    let dir = tempfile::tempdir()?;
    let (a, b, out) = (dir.path().join("a"), dir.path().join("b"), dir.path().join("c"));
    write_small(&a, "web", "aaaaaaaa-1", false);
    write_small(&b, "db", "bbbbbbbb-2", true);
    let output = run(&["merge", path(&a), path(&b), path(&a), "-o", path(&out)]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(output.stdout.is_empty());
    let said = stderr(&output);
    assert!(said.contains("2 hosts, 2 segments; 1 segment given twice and copied once"), "{said}");
    let one = check("info", &stdout(&run(&["info", "--json", path(&out)])));
    let two = check("info", &stdout(&run(&["info", "--json", path(&a), path(&b)])));
    assert_eq!(one["hosts"].as_array().map(Vec::len), Some(2));
    assert_eq!(two["hosts"].as_array().map(Vec::len), Some(2));

    let again = run(&["merge", path(&a), "-o", path(&out)]);
    assert_eq!(again.status.code(), Some(1));
    assert!(stderr(&again).contains("choose another name"), "{}", stderr(&again));
    let missing = run(&["merge", path(&dir.path().join("x")), "-o", path(&dir.path().join("y"))]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(!dir.path().join("y").exists(), "a failed merge leaves nothing");
    Ok(())
}

#[test]
fn tables_are_written_where_they_belong() -> Tested {
    let dir = tempfile::tempdir()?;
    let (a, b, out) = (dir.path().join("a"), dir.path().join("b"), dir.path().join("o"));
    write_small(&a, "web", "aaaaaaaa-1", false);
    write_small(&b, "db", "bbbbbbbb-2", false);
    let output = run(&["tables", path(&a)]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).is_empty(), "no progress without a terminal: {}", stderr(&output));
    assert!(a.join("tables/messages.parquet").is_file());
    assert!(widest(&stdout(&output)) <= 100);
    let both = run(&["tables", path(&a), path(&b), "-o", path(&out)]);
    assert_eq!(both.status.code(), Some(0), "{}", stderr(&both));
    assert!(out.join("messages.parquet").is_file());
    Ok(())
}

#[test]
fn completions_and_manual_pages() -> Tested {
    for shell in ["bash", "zsh", "fish"] {
        let output = run(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0));
        assert!(stdout(&output).contains("wakepath"));
    }
    let dir = tempfile::tempdir()?;
    let man = dir.path().join("share/man1");
    assert_eq!(run(&["man", path(&man)]).status.code(), Some(0));
    for command in COMMANDS {
        let page = std::fs::read_to_string(man.join(format!("wakepath-{command}.1")))?;
        assert!(page.contains(".TH") && page.contains(".SH \"EXAMPLES\"\n.nf\nwakepath "), "{command}: {page}");
    }
    assert!(stdout(&run(&["man"])).contains(".TH wakepath 1"));
    Ok(())
}

#[test]
fn a_reader_that_leaves_is_no_failure() -> Tested {
    let mut child = wakepath(&["completions", "bash"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    // gone before the answer, which is larger than a pipe holds
    drop(child.stdout.take());
    let mut said = String::new();
    let status = child.wait()?;
    if let Some(mut e) = child.stderr.take() {
        e.read_to_string(&mut said)?;
    }
    assert_eq!((status.code(), said.as_str()), (Some(0), ""));
    Ok(())
}

#[test]
fn no_one_listening_to_standard_error_is_no_failure() -> Tested {
    let (reader, writer) = std::io::pipe()?;
    drop(reader);
    let status = wakepath(&["info", "/nowhere"]).stdout(Stdio::null()).stderr(writer).status()?;
    assert_eq!(status.code(), Some(1), "failed, without a panic");
    Ok(())
}

#[test]
fn doctor_tells_as_whoever_runs_it() {
    let output = run(&["doctor"]);
    let text = stdout(&output);
    assert!(widest(&text) <= 100, "{text}");
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
    assert_eq!(output.status.code() == Some(0), text.contains("The kernel vantage works."), "{text}");
    let output = run(&["doctor", "--json"]);
    let document = check("doctor", &stdout(&output));
    assert_eq!(output.status.code() == Some(0), document["vantages"][0]["works"] == true);
}

/// A temporary folder that everybody may enter; none, and says so, where there is no place for one.
fn public_dir() -> Option<tempfile::TempDir> {
    let open = |p: &std::path::Path| {
        let is_open = |p: &std::path::Path| p.metadata().is_ok_and(|m| m.permissions().mode() & 0o001 != 0);
        p.canonicalize().is_ok_and(|p| p.ancestors().all(is_open))
    };
    let places = [std::env::temp_dir(), "/tmp".into(), "/var/tmp".into()];
    let mut builder = tempfile::Builder::new();
    builder.permissions(std::fs::Permissions::from_mode(0o755));
    let dir = places.iter().filter(|p| open(p)).find_map(|p| builder.tempdir_in(p).ok());
    if dir.is_none() {
        println!("skipped: nobody may enter any folder for temporary files here");
    }
    dir
}

/// Runs the command without rights: as root, by becoming nobody with `setpriv`.
fn unprivileged(args: &[&str]) -> Option<Output> {
    let is_root =
        std::fs::read_to_string("/proc/self/status").is_ok_and(|s| s.lines().any(|l| l.starts_with("Uid:\t0\t")));
    if !is_root {
        return Some(run(args));
    }
    // nobody may not enter the build folder: take a copy to where all may
    let dir = public_dir()?;
    let program = dir.path().join("wakepath");
    std::fs::copy(env!("CARGO_BIN_EXE_wakepath"), &program).ok()?;
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
        .arg(program)
        .args(args)
        .current_dir("/")
        .stdin(Stdio::null())
        .output();
    match output {
        Ok(output) => Some(output),
        Err(e) => {
            println!("skipped: this runs as root and setpriv (util-linux) does not start: {e}");
            None
        }
    }
}

#[test]
fn without_rights_record_says_what_can_still_be_done() {
    let Some(dir) = public_dir() else { return };
    let out = dir.path().join("never-made");
    let Some(output) = unprivileged(&["record", "-o", path(&out), "--duration", "1s"]) else {
        return;
    };
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    for part in ["CAP_BPF", "CAP_PERFMON", "sudo wakepath record", "setcap", "needs no rights"] {
        assert!(said.contains(part), "{part} is missing: {said}");
    }
    assert!(!out.exists());
}

#[test]
fn without_rights_doctor_is_useful() {
    let Some(output) = unprivileged(&["doctor"]) else {
        return;
    };
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let text = stdout(&output);
    for part in ["This user lacks CAP_BPF", "tracepoints", "BTF", "sudo setcap", "sudo wakepath doctor"] {
        assert!(text.contains(part), "{part} is missing:\n{text}");
    }
    assert!(widest(&text) <= 100, "{text}");
    let Some(output) = unprivileged(&["doctor", "--json"]) else {
        return;
    };
    let document = check("doctor", &stdout(&output));
    assert_eq!(document["vantages"][0]["trial"]["tried"], false);
}

#[test]
fn without_rights_folders_of_ones_own_are_read() -> Tested {
    let Some(dir) = public_dir() else { return Ok(()) };
    let folder = dir.path().join("t");
    write_small(&folder, "web", "aaaaaaaa-1", false);
    let Some(output) = unprivileged(&["info", path(&folder)]) else {
        return Ok(());
    };
    // root's folders are root's: then the reason is said, with what to do
    match output.status.code() {
        Some(0) => assert!(stdout(&output).contains("Host web")),
        code => {
            assert_eq!(code, Some(1));
            assert!(output.stdout.is_empty() && stderr(&output).contains("run it with sudo"), "{}", stderr(&output));
        }
    }
    Ok(())
}
