//! `wakepath triage`: it says what its parts say, on one screen, and in time.

mod support;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use support::{Tested, check, run, stderr, stdout, wakepath, widest, write_small};
use wakepath_model::rows::Event;
use wakepath_testkit::recording::Cuts;
use wakepath_testkit::script::play;
use wakepath_testkit::shapes::{Plan, Shape, simulate};

fn path(p: &Path) -> &str {
    p.to_str().expect("temporary paths are UTF-8")
}

fn recorded(dir: &Path, plan: &Plan) -> Result<PathBuf, Box<dyn std::error::Error>> {
    Ok(simulate(plan).write(dir, Cuts::default())?.remove(0))
}

fn of<'f>(triage: &'f Value, section: &str) -> Vec<&'f Value> {
    let findings = triage["findings"].as_array().expect("checked");
    findings.iter().filter(|f| f["section"] == section).collect()
}

fn sentence(finding: &Value) -> &str {
    finding["sentence"].as_str().expect("checked")
}

#[test]
fn each_statement_is_one_of_its_parts() -> Tested {
    let dir = tempfile::tempdir()?;
    let plan = Plan { clients: 6, requests: 40, ..Plan::new(Shape::ThreadPerConnection, 7) };
    let folder = recorded(dir.path(), &plan)?;
    let folder = path(&folder);
    let ask = |name: &str| check(name, &stdout(&run(&[name, "--json", folder])));
    let triage = ask("triage");
    let (requests, why, open) = (ask("requests"), ask("why"), ask("open"));
    assert_eq!(triage["requests"], requests["requests"]);

    // slow: the kind with most time, and the sentences of `why`
    let slow = of(&triage, "slow");
    let total = |k: &Value| k["mean_ns"].as_u64().unwrap_or(0) * k["count"].as_u64().unwrap_or(0);
    let most = requests["kinds"].as_array().and_then(|k| k.iter().max_by_key(|k| total(k))).expect("there are kinds");
    let expected = format!("{} at {}", most["asked"].as_str().unwrap_or("?"), most["service"].as_str().unwrap_or("?"));
    assert!(sentence(slow[0]).contains(&expected), "{slow:?}");
    // of a kind whose slow ones are like all others, it says what all of them take their time for
    let of_why = slow.iter().filter(|f| f["next"].as_str().is_some_and(|n| n.starts_with("wakepath why")));
    for (finding, kind) in of_why.zip(why["kinds"].as_array().expect("checked")) {
        assert!(finding["sentence"] == kind["sentence"] || sentence(finding).starts_with("All "), "{finding}");
    }

    // fails: counts of `requests`
    let failed: u64 = requests["kinds"].as_array().into_iter().flatten().filter_map(|k| k["failed"].as_u64()).sum();
    let fails = of(&triage, "fails");
    assert!(failed > 0 && fails.iter().all(|f| f["level"] == "bad"), "{fails:?}");

    // hangs: as many as `open` has
    let in_flight = open["requests"].as_array().map_or(0, Vec::len);
    let hangs = of(&triage, "hangs");
    assert!(in_flight > 0 || hangs[0]["level"] == "good", "{hangs:?}");

    // every finding has a command, and every command works
    let findings = triage["findings"].as_array().expect("checked");
    assert!(findings.iter().all(|f| f["next"].is_string()), "{findings:?}");
    for next in findings.iter().filter_map(|f| f["next"].as_str()).filter(|n| !n.starts_with("wakepath record")) {
        let output = std::process::Command::new("sh")
            .args(["-c", &next.replacen("wakepath", env!("CARGO_BIN_EXE_wakepath"), 1)])
            .output()?;
        assert_eq!(output.status.code(), Some(0), "{next}: {}", stderr(&output));
    }
    Ok(())
}

#[test]
fn errors_of_calls_that_the_application_hid_are_shown() -> Tested {
    let dir = tempfile::tempdir()?;
    let script = "
task A app
task D db
flow c - A
flow d A D
90 A woken by c since 10
100 A takes r1 c
110 A asks q1 d for r1
120 D takes q1
140 D answers q1 500
150 A hears q1
200 A answers r1
";
    let folder = play(script)?.write(dir.path(), Cuts::default())?.remove(0);
    let triage = check("triage", &stdout(&run(&["triage", "--json", path(&folder)])));
    let fails = of(&triage, "fails");
    assert_eq!(fails.len(), 1, "{fails:?}");
    assert_eq!(fails[0]["level"], "bad");
    assert!(sentence(fails[0]).starts_with("db") && sentence(fails[0]).contains("500 × 1"), "{fails:?}");
    assert!(sentence(fails[0]).contains("whose own reply does not mention it"), "{fails:?}");
    Ok(())
}

#[test]
fn one_screen_at_any_width() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = recorded(dir.path(), &Plan::new(Shape::DispatcherReplies, 3))?;
    for width in [80, 100, 200] {
        let output = wakepath(&["triage", path(&folder)]).env("COLUMNS", width.to_string()).output()?;
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let prose: Vec<&str> = text.lines().filter(|l| !l.contains("→")).collect();
        assert!(widest(&prose.join("\n")) <= width && text.lines().count() <= 50, "{text}");
        for title in ["What is slow", "What fails", "What hangs", "What limits", "How far to trust it"] {
            assert!(text.contains(title), "{title} is missing:\n{text}");
        }
    }
    let strict = run(&["triage", "--strict", path(&folder)]);
    assert_eq!(strict.status.code(), Some(3), "paths are incomplete here");
    Ok(())
}

#[test]
fn what_is_not_known_is_said_with_the_reason() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = dir.path().join("t");
    write_small(&folder, "web", "aaaaaaaa-1", true);
    let output = run(&["triage", "--json", path(&folder)]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let triage = check("triage", &stdout(&output));
    let hangs = of(&triage, "hangs");
    assert_eq!(hangs[0]["level"], "unknown");
    assert!(sentence(hangs[0]).contains("no waits were recorded"), "{hangs:?}");
    let trust = of(&triage, "trust");
    assert!(trust.iter().any(|f| sentence(f).contains("loss.ring.op") && f["level"] == "bad"), "{trust:?}");
    let text = stdout(&run(&["triage", path(&folder)]));
    assert!(!text.contains('\x1b') && text.contains("Not known: "), "{text}");
    Ok(())
}

#[test]
fn answers_that_take_too_long_are_left_out_and_said() -> Tested {
    let dir = tempfile::tempdir()?;
    let plan = Plan { clients: 20, requests: 100, ..Plan::new(Shape::ThreadPerConnection, 7) };
    let folder = recorded(dir.path(), &plan)?;
    let began = Instant::now();
    let output = run(&["triage", "--json", "--within", "0s", path(&folder)]);
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let triage = check("triage", &stdout(&output));
    assert!(triage["late"].as_array().is_some_and(|l| l.contains(&"forecast".into())), "{triage}");
    let limits = of(&triage, "limits");
    assert!(limits[0]["level"] == "unknown" && sentence(limits[0]).contains("--within"), "{limits:?}");

    // what was half made then is removed by the next question, as what a killed process left
    std::fs::create_dir_all(folder.join("cache/.graph-999999999-killed"))?;
    let output = run(&["open", path(&folder)]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let left: Vec<_> = std::fs::read_dir(folder.join("cache"))?.flatten().map(|e| e.file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with('.')), "{left:?}");
    Ok(())
}

/// Plays a script into a folder; its requests are of one kind, which a script names one by one.
fn played(dir: &Path, script: &str) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let mut recording = play(script)?;
    for host in &mut recording.hosts {
        let target = host.text("/vote");
        for row in &mut host.rows {
            if let Event::Message(m) = row {
                m.target = target;
            }
        }
    }
    Ok(recording.write(&dir.join("t"), Cuts::default())?.remove(0))
}

#[test]
fn the_slowest_is_one_whose_end_was_seen() -> Tested {
    let dir = tempfile::tempdir()?;
    let script = "
task A app
flow c - A
flow d - A
100 A takes r1 c
200 A answers r1
300 A takes r2 d
80000 A woken by timer since 310
";
    let folder = played(dir.path(), script)?;
    let ask = |which: &str| check("show", &stdout(&run(&["show", "--json", path(&folder), which])));
    let slowest = ask("slowest");
    assert_eq!((&slowest["in_progress"], &slowest["complete"]), (&false.into(), &true.into()), "{slowest}");
    let open = check("open", &stdout(&run(&["open", "--json", path(&folder)])));
    let cut = ask(open["requests"][0]["request"].as_str().ok_or("one is in flight")?);
    assert_eq!((&cut["in_progress"], &cut["complete"]), (&true.into(), &false.into()), "{cut}");
    Ok(())
}

#[test]
fn where_nothing_works_that_comes_first() -> Tested {
    let dir = tempfile::tempdir()?;
    let mut script = "task A app\nflow c - A\n".to_owned();
    for n in 0..40u32 {
        script += &format!("{} A takes r{n} c\n{} A answers r{n} 500\n", 100 + n * 100, 150 + n * 100);
    }
    let folder = played(dir.path(), &script)?;
    let triage = check("triage", &stdout(&run(&["triage", "--json", path(&folder)])));
    let first = &triage["findings"][0];
    assert_eq!((&first["section"], &first["level"]), (&"fails".into(), &"bad".into()), "{triage}");
    assert!(sentence(first).contains("all 40 failed (500 × 40)"), "{first}");
    // since the first of them: in the answer and on the screen
    let each = check("each", &stdout(&run(&["requests", "--each", "--limit", "0", "--json", path(&folder)])));
    let began = each["requests"].as_array().ok_or("requests")?.iter().filter_map(|r| r["at_ns"].as_i64()).min();
    assert!(began.is_some() && first["since_ns"].as_i64() == began, "{began:?} {first}");
    assert!(first["next"].as_str().is_some_and(|n| n.starts_with("wakepath show ")), "{first}");
    let text = stdout(&run(&["triage", path(&folder)]));
    let place = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what}: {text}"));
    assert!(place("What fails") < place("What is slow"), "{text}");
    assert!(text.contains(" First at "), "{text}");
    Ok(())
}

/// Against nothing there is no slow one: where all are alike, it says what all take their time for.
#[test]
fn where_all_are_alike_it_says_where_the_time_goes() -> Tested {
    let dir = tempfile::tempdir()?;
    let mut script = "task A app\nflow c - A\n".to_owned();
    for n in 0..200u32 {
        let at = 1_000 + n * 1_000;
        let ran = at + 500 + n % 7;
        script +=
            &format!("{at} A takes r{n} c\n{ran} A woken by timer since {}\n{} A answers r{n}\n", at + 10, ran + 10);
    }
    let folder = played(dir.path(), &script)?;
    let triage = check("triage", &stdout(&run(&["triage", "--json", path(&folder)])));
    let slow = of(&triage, "slow");
    let alike = slow.iter().find(|f| sentence(f).starts_with("All 200 requests")).ok_or_else(|| format!("{slow:?}"))?;
    assert!(sentence(alike).contains("take about equally long") && sentence(alike).contains("are app"), "{alike}");
    Ok(())
}

#[test]
fn calls_that_leave_name_the_port_to_watch() -> Tested {
    let dir = tempfile::tempdir()?;
    let mut script = "task A app\nflow c - A\nflow d A - ports 40001 6379\n".to_owned();
    for n in 0..20u32 {
        let at = 1_000 + n * 1_000;
        script += &format!(
            "{at} A takes r{n} c\n{} A asks q{n} d for r{n}\n{} A hears q{n}\n{} A answers r{n}\n",
            at + 10,
            at + 400,
            at + 420
        );
    }
    let folder = played(dir.path(), &script)?;
    let triage = check("triage", &stdout(&run(&["triage", "--json", path(&folder)])));
    let there = of(&triage, "slow").into_iter().find(|f| sentence(f).contains("leave for")).ok_or("it is said")?;
    assert!(sentence(there).contains(":6379, which is not watched"), "{there}");
    Ok(())
}

/// What another did cannot be told from the time of who asked: a reply that a worker gave through a broker (NATS' inbox, AMQP's reply-to),
/// a result that was published, and what a child did whose messages nobody can tell. None of that is named as a service's own.
#[test]
fn time_that_may_be_anothers_is_nobodys_own() -> Tested {
    let relayed = "
{t}00 A takes r{n} c
{t}10 A asks k{n} b for r{n}
{t}20 B takes k{n}
{t}25 B posts m{n} w for k{n}
{t}30 W takes m{n}
{t}65 B answers k{n}
{t}70 A hears k{n}
{t}80 A answers r{n}
";
    let unwatched = "
{t}00 A takes r{n} c
{t}10 A asks k{n} b for r{n}
{t}70 A hears k{n}
{t}80 A answers r{n}
";
    let pushed = "
{t}00 A takes r{n} c
{t}10 A posts j{n} b for r{n}
{t}12 B takes j{n}
{t}70 A reads push s
{t}80 A answers r{n}
";
    // children take work from one pipe, whoever comes first, and answer on another
    let piped = "
{t}00 A takes r{n} c
{t}10 A asks k{n} p for r{n}
{t}20 K takes k{n}
{t}65 K answers k{n}
{t}70 A hears k{n}
{t}80 A answers r{n}
{t}81 A takes s{n} c
{t}82 A asks l{n} m for s{n}
{t}84 M takes l{n}
{t}90 M answers l{n}
{t}95 A hears l{n}
{t}99 A answers s{n}
";
    let alone = "
{t}00 A takes r{n} c
{t}80 A answers r{n}
";
    let children = "task K child by A\ntask M child by A\nflow c - A\nflow p A K piped\nflow m A M piped as p";
    let brokers = "task B broker\ntask W worker\nflow c - A\nflow b A B relayed\nflow w B W opaque";
    let in_app = "in app:80, or in calls of it that could not be assigned to a request";
    let cases = [
        ("relayed", brokers, relayed, "in 10.0.0.1:82, or in calls of it"),
        ("unwatched", "flow c - A\nflow b A - relayed", unwatched, "at 10.0.0.99:81, which is not watched"),
        ("pushed", "task B broker\nflow c - A\nflow b A B\nflow s A - turns", pushed, in_app),
        ("piped", children, piped, in_app),
        ("alone", "flow c - A", alone, "app:80's own"),
    ];
    for (name, head, each, part) in cases {
        let dir = tempfile::tempdir()?;
        let mut script = format!("task A app\n{head}\n");
        for n in 10..40u32 {
            script += &each.replace("{t}", &n.to_string()).replace("{n}", &n.to_string());
        }
        let folder = played(dir.path(), &script)?;
        let triage = check("triage", &stdout(&run(&["triage", "--json", path(&folder)])));
        let slow: Vec<&str> = of(&triage, "slow").into_iter().map(sentence).collect();
        assert!(slow[0].contains(&format!("the largest part is {part}")), "{name}: {slow:?}");
        let findings = triage["findings"].as_array().ok_or("checked")?;
        let owns = findings.iter().filter(|f| sentence(f).contains("'s own")).count();
        assert_eq!(owns, usize::from(part.ends_with("own")), "{name}: {findings:?}");
    }
    Ok(())
}

/// Each request asks for one thing after another: a finding of its own, with the number.
#[test]
fn calls_that_each_request_repeats_are_a_finding() -> Tested {
    const CALLS: u32 = 123;
    let dir = tempfile::tempdir()?;
    let mut script = "task A app\ntask D db\nflow c - A\nflow d A D\n".to_owned();
    for n in 1..=12u32 {
        let at = n * 10_000;
        script += &format!("{at} A takes r{n} c\n");
        for call in 1..=CALLS {
            let (q, at) = (n * 1_000 + call, at + call * 50);
            script += &format!(
                "{at} A asks q{q} d for r{n}\n{} D takes q{q}\n{} D answers q{q}\n{} A hears q{q}\n",
                at + 10,
                at + 30,
                at + 40
            );
        }
        script += &format!("{} A answers r{n}\n", at + CALLS * 50 + 100);
    }
    let folder = played(dir.path(), &script)?;
    let triage = check("triage", &stdout(&run(&["triage", "--json", path(&folder)])));
    let slow = of(&triage, "slow");
    let found = slow.iter().find(|f| sentence(f).contains("makes 123 calls of GET /vote at db:81 on average"));
    let found = found.ok_or_else(|| format!("{slow:#?}"))?;
    assert!(sentence(found).contains("one call for all would replace 123 round trips"), "{found}");
    assert_eq!(found["level"], "bad", "{found}");
    assert!(found["next"].as_str().is_some_and(|n| n.contains(" show ") && n.contains("slowest")), "{found}");
    Ok(())
}

/// A worker asks for work, and waits until there is some (`BRPOP`, Kafka's FETCH): that is nothing slow, and no part of the requests' time.
#[test]
fn who_waits_for_work_has_no_part_in_the_requests_time() -> Tested {
    let dir = tempfile::tempdir()?;
    for (mark, is_told) in [("awaits", false), ("", true)] {
        let mut script = format!("task A app\ntask D broker\nflow c - A\nflow w - D {mark}\n");
        for n in 1..=20u32 {
            let at = n * 10_000;
            script += &format!("{at} D takes w{n} w\n{} A takes r{n} c\n", at + 100);
            script += &format!("{} A answers r{n}\n{} D answers w{n}\n", at + 300, at + 9_000);
        }
        script += "300000 D takes w30 w\n400000 A takes r30 c\n400100 A answers r30\n";
        let folder = played(&dir.path().join(format!("of-{mark}")), &script)?;
        let triage = check("triage", &stdout(&run(&["triage", "--json", path(&folder)])));
        let slow = of(&triage, "slow");
        let first = sentence(slow[0]);
        assert_eq!(first.contains("GET /vote at broker:81"), is_told, "{first}");
        assert_eq!(
            first.starts_with("100 % of the requests' time is GET /vote at app:80: 21 requests"),
            !is_told,
            "{first}"
        );
        let findings = triage["findings"].as_array().ok_or("checked")?;
        assert_eq!(findings.iter().any(|f| sentence(f).contains("broker")), is_told, "{findings:#?}");
    }
    Ok(())
}
