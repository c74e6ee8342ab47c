//! `wakepath bottleneck` and `wakepath forecast` as scripts and people meet them.

#[path = "support/gateway.rs"]
mod gateway;
mod support;

use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;
use support::{Tested, check, run, segment, stderr, stdout, widest, write_small};
use wakepath_model::rows::Event;
use wakepath_testkit::recording::Cuts;
use wakepath_testkit::script::play;

const REQUESTS: usize = 200;

/// A recording that can be replayed.
fn folder(dir: &Path) -> String {
    recorded(dir, &gateway::steady(REQUESTS))
}

/// A recording of requests of one kind, which a script names one by one.
fn recorded(dir: &Path, script: &str) -> String {
    let mut recording = play(script).expect("the script");
    for host in &mut recording.hosts {
        let target = host.text("/vote");
        for row in &mut host.rows {
            if let Event::Message(m) = row {
                m.target = target;
            }
        }
    }
    let dirs = recording.write(&dir.join("t"), Cuts::default()).expect("written");
    dirs[0].to_str().expect("temporary paths are UTF-8").to_owned()
}

/// 100 requests of 600 µs and 100 of 2.6 ms, in which the store computes so much longer. All fast ones have a complete path, and
/// of the slow ones so many: of the others, which come last, the event that asks the store is lost.
fn slow_ones_with_holes(dir: &Path, whole: usize) -> String {
    const FAST: usize = 100;
    let mut text = String::from("task A front\ntask D store\nflow c - A\nflow d A D\n");
    // when the store answered before
    let mut before = 3_000;
    for n in 1..=2 * FAST {
        let has_hole = n > FAST + whole;
        // slow ones among fast ones, as far as they are complete
        let is_slow = has_hole || whole > 0 && n % (FAST / whole + 1) == 0;
        let t = n as u64 * 4_000;
        let answered = t + 520 + if is_slow { 2_000 } else { 0 };
        let _ = writeln!(text, "{t} A woken by c since {}\n{} A takes r{n} c", before + 85, t + 5);
        let _ = writeln!(text, "{}{} A asks q{n} d for r{n}", if has_hole { "~" } else { "" }, t + 305);
        if has_hole {
            let _ = writeln!(text, "lost {} {}", t + 300, t + 310);
        }
        let _ = writeln!(text, "{} D woken by d since {}\n{} D takes q{n}", t + 315, before + 5, t + 320);
        let _ = writeln!(text, "{answered} D answers q{n}\n{} A woken by d since {}", answered + 10, t + 310);
        let _ = writeln!(text, "{} A hears q{n}\n{} A answers r{n}", answered + 15, answered + 80);
        before = answered;
    }
    recorded(dir, &text)
}

fn number(v: &Value) -> f64 {
    v.as_f64().unwrap_or_else(|| panic!("{v} is no number"))
}

/// Each figure is within its bar, and the bar is made of its parts.
fn holds_together(figure: &Value) {
    let (value, bar) = (number(&figure["value"]), &figure["bar"]);
    if bar["variation"].is_null() {
        assert!(figure["low"].is_null() && figure["high"].is_null(), "{figure:#}");
        return;
    }
    let (low, high) = (number(&figure["low"]), number(&figure["high"]));
    assert!(low <= value && value <= high, "{figure:#}");
    let parts = ["calibration", "change", "losses"].map(|p| number(&bar[p]));
    let chance = bar["variation"].as_f64().unwrap_or(0.0).hypot(number(&bar["pace"]));
    let whole = parts.iter().sum::<f64>() + chance;
    assert!((high / value - 1.0 - whole).abs() < 1e-9, "{figure:#}");
}

#[test]
fn a_forecast_says_how_requests_come_first_and_what_comes_of_the_change() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path());
    let output = run(&["forecast", &folder, "--change", "scale */front/cpu=0.5"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(widest(&text) <= 100 && !text.contains('\x1b'), "{text}");
    assert!(text.starts_with("Arrivals are "), "{text}");
    for part in ["With that changed: throughput goes from", "measured", "off by", "Assumptions:"] {
        assert!(text.contains(part), "{part} is missing:\n{text}");
    }
    let in_vain = stdout(&run(&["forecast", &folder, "--change", "scale */front/cpu=0.999"]));
    assert!(in_vain.contains("With that changed, hardly anything changes: throughput stays "), "{in_vain}");
    let document =
        check("forecast", &stdout(&run(&["forecast", "--json", &folder, "--change", "scale */front/cpu=0.5"])));
    assert_eq!(document["schema"], "wakepath.forecast/1");
    assert_eq!(document["unit"], "requests");
    for figure in ["throughput_per_s", "mean_ns", "p50_ns", "p95_ns", "p99_ns"] {
        holds_together(&document["forecast"][figure]);
    }
    // about 350 of 600 µs are the gateway's
    let mean = &document["forecast"]["mean_ns"];
    let gained = number(&mean["measured"]) - number(&mean["value"]);
    assert!((100e3..250e3).contains(&gained), "{mean:#}");
    // what is said to be next can be asked
    let next = document["bottlenecks"][0]["bottleneck"]["changes"][0].as_str().map(str::to_owned);
    if let Some(change) = next {
        let output = run(&["forecast", &folder, "--change", &change]);
        assert_eq!(output.status.code(), Some(0), "{change}: {}", stderr(&output));
    }
    Ok(())
}

#[test]
fn nothing_changed_is_what_was_measured() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path());
    let document = check("forecast", &stdout(&run(&["forecast", "--json", &folder])));
    for figure in ["throughput_per_s", "mean_ns", "p99_ns"] {
        let figure = &document["forecast"][figure];
        assert_eq!(figure["value"], figure["measured"], "{figure:#}");
        holds_together(figure);
    }
    let removed = check("forecast", &stdout(&run(&["forecast", "--json", &folder, "--next", "2"])));
    let steps = removed["bottlenecks"].as_array().expect("a list");
    assert!((1..=3).contains(&steps.len()), "{removed:#}");
    let text = stdout(&run(&["forecast", &folder, "--next", "2"]));
    assert!(widest(&text) <= 100, "{text}");
    Ok(())
}

#[test]
fn a_bottleneck_is_named_with_the_path_it_is_on() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path());
    for part in [&[][..], &["--request", "GET /vote"], &["--from", "+50ms", "--to", "+150ms"], &["--arrivals", "open"]]
    {
        let output = run(&[&["bottleneck", &folder], part].concat());
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(0), "{part:?}: {}", stderr(&output));
        assert!(widest(&text) <= 100, "{text}");
        assert!(text.starts_with("Arrivals are ") && text.contains("The bottleneck: "), "{text}");
        assert!(text.contains("front computing on"), "{text}");
    }
    let document = check("bottleneck", &stdout(&run(&["bottleneck", "--json", &folder])));
    let shares = document["path"]["shares"].as_array().expect("a list");
    let sum: f64 = shares.iter().map(|s| number(&s["share"])).sum();
    assert!((sum - 1.0).abs() < 1e-6, "{document:#}");
    // what gains most comes first, and less than all of it is enough
    let margins = document["margins"].as_array().expect("a list");
    assert!(margins.is_sorted_by(|a, b| number(&a["gain"]) >= number(&b["gain"])), "{document:#}");
    assert!(margins.iter().any(|m| m["what"].as_str().is_some_and(|w| w.starts_with("front computing on"))));
    for m in margins.iter().filter(|m| m["is_work"] == true && !m["enough"].is_null()) {
        assert!((0.0..1.0).contains(&number(&m["enough"])) && number(&m["gain"]) > 1.0, "{m:#}");
    }
    let open = check("bottleneck", &stdout(&run(&["bottleneck", "--json", &folder, "--arrivals", "open"])));
    assert_eq!((&open["arrivals"]["model"], &open["arrivals"]["inferred"]), (&"open".into(), &false.into()));
    Ok(())
}

/// Of the slow requests one in five has a complete path: it stands for those that have not, so that the model is as slow as
/// what was measured and ends where they do.
#[test]
fn complete_paths_stand_for_those_with_holes() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = slow_ones_with_holes(dir.path(), 20);
    let document = check("forecast", &stdout(&run(&["forecast", "--json", &folder])));
    let mean = &document["forecast"]["mean_ns"];
    // (600 + 2600) / 2 µs; those with a complete path took 930 on average
    for figure in ["measured", "replayed"] {
        assert!((1_500e3..1_700e3).contains(&number(&mean[figure])), "{figure}: {mean:#}");
    }
    let granted = "81 answered requests with gaps in their path are modelled by a complete one of the same kind";
    assert!(document["assumptions"].to_string().contains(granted), "{:#}", document["assumptions"]);
    let told = stdout(&run(&["forecast", &folder])).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("Incomplete paths or lost data may affect 40.5 % of the measurements"), "{told}");
    let document = check("bottleneck", &stdout(&run(&["bottleneck", "--json", &folder])));
    assert!(document["assumptions"].to_string().contains(granted), "{:#}", document["assumptions"]);
    let shares = document["path"]["shares"].as_array().expect("a list");
    let store = shares.iter().find(|s| s["what"] == "store computing on web").expect("the store computes");
    // 1200 of 1600 µs; of those with a complete path it is 530 of 930
    assert!(number(&store["share"]) > 0.7, "{shares:#?}");
    Ok(())
}

/// Only the fast ones have a complete path: no model of these alone.
#[test]
fn where_only_the_fast_ones_are_complete_nothing_is_forecast() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = slow_ones_with_holes(dir.path(), 0);
    for command in ["forecast", "bottleneck"] {
        let output = run(&[command, &folder]);
        assert_eq!(output.status.code(), Some(1), "{command}: {}", stdout(&output));
        let told = stderr(&output).split_whitespace().collect::<Vec<_>>().join(" ");
        let parts = ["101 of 200 answered requests have an incomplete path", "no complete one of the same kind"];
        for part in parts {
            assert!(told.contains(part), "{command}: {told}");
        }
        assert!(output.stdout.is_empty(), "{command}");
    }
    Ok(())
}

/// What `bottleneck` refuses, triage does not say either; and no two figures on its screen say how many paths are complete.
#[test]
fn triage_names_no_limit_where_bottleneck_refuses() -> Tested {
    let dir = tempfile::tempdir()?;
    for (name, whole, is_refused) in [("none", 0, true), ("all", 100, false)] {
        let folder = slow_ones_with_holes(&dir.path().join(name), whole);
        let output = run(&["bottleneck", &folder]);
        assert_eq!(output.status.code() == Some(1), is_refused, "{name}: {}", stderr(&output));
        let triage = check("triage", &stdout(&run(&["triage", "--json", &folder])));
        let of = |section: &str| -> Vec<(String, bool)> {
            let findings = triage["findings"].as_array().expect("checked").iter().filter(|f| f["section"] == section);
            let told = |f: &Value| (f["sentence"].as_str().unwrap_or_default().to_owned(), f["level"] == "unknown");
            findings.map(told).collect()
        };
        let limits = of("limits");
        assert!(limits.iter().all(|(_, is_unknown)| *is_unknown == is_refused), "{limits:?}");
        if is_refused {
            let why = "101 of 200 answered requests have an incomplete path";
            assert!(limits.iter().any(|(text, _)| text.contains(why)), "{limits:?}");
        }
        let complete = if is_refused { 99 } else { 200 };
        let trust = of("trust");
        let total = format!("{complete} of 200 requests have a complete path");
        assert!(trust.iter().any(|(text, _)| text.starts_with(&total)), "{trust:?}");
        // every other count of all requests is that of those that are complete, or of those that are not
        for (text, _) in limits.iter().chain(&trust).chain(&of("slow")) {
            let words: Vec<&str> = text.split_whitespace().collect();
            for of_all in words.windows(3).filter(|w| w[1] == "of" && w[2] == "200") {
                let counted: u64 = of_all[0].parse().map_err(|_| format!("no count: {text}"))?;
                assert!([complete, 200 - complete].contains(&counted), "{text}");
            }
        }
    }
    Ok(())
}

#[test]
fn what_the_recording_cannot_support_is_refused_with_what_there_is() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path());
    for (change, parts) in [
        (
            "workers frond=+1",
            &["is refused: no service is called \"frond\"", "What can be named here:", "front:80"][..],
        ),
        ("pool front->store=+1", &["no pool is called"]),
        ("drop SELECT 1", &["no call is named", "store:81"]),
        ("drop GET /vote", &["is refused"]),
        ("scale */front/disk=0.5", &["no work is called", "/front:80/cpu"]),
    ] {
        let output = run(&["forecast", &folder, "--change", change]);
        // both are asked for the same here
        if change == "drop GET /vote" && output.status.code() == Some(0) {
            continue;
        }
        assert_eq!(output.status.code(), Some(1), "{change}");
        assert!(output.stdout.is_empty(), "{change}");
        for part in parts {
            assert!(stderr(&output).contains(part), "{change}: {}", stderr(&output));
        }
    }
    let output = run(&["forecast", &folder, "--request", "GET /nowhere"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("GET /nowhere"), "{}", stderr(&output));
    Ok(())
}

/// The gateway keeps each request to itself before it asks on, as a proxy with a limit of connections does: no record says
/// what for, and who asks for its pool is told.
#[test]
fn a_queue_within_a_process_is_told_where_it_is_asked_for() -> Tested {
    let dir = tempfile::tempdir()?;
    let mut text = String::from("task A front\ntask D store\nflow c - A\nflow d A D\nflow e - A\n");
    for n in 1..=REQUESTS {
        let t = n as u64 * 2_000;
        let _ = writeln!(text, "{t} A woken by c since {}\n{} A takes r{n} c", t - 480, t + 5);
        let _ = writeln!(text, "{} A woken by e since {}\n{} A asks q{n} d for r{n}", t + 500, t + 10, t + 510);
        let _ = writeln!(text, "{} D woken by d since {}\n{} D takes q{n}", t + 520, t - 560, t + 525);
        let _ = writeln!(text, "{} D answers q{n}\n{} A woken by d since {}", t + 720, t + 730, t + 515);
        let _ = writeln!(text, "{} A hears q{n}\n{} A answers r{n}", t + 735, t + 800);
    }
    let folder = recorded(dir.path(), &text);
    let output = run(&["forecast", &folder, "--change", "pool front->store=+1"]);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    let told = stderr(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "no pool is called",
        "Not seen: what 6",
        "% of the requests' time was spent waiting for, most of it in front:80",
    ] {
        assert!(told.contains(part), "{part:?} is missing: {told}");
    }
    let told = stdout(&run(&["bottleneck", &folder])).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("stays as it is, whatever changes: were it a queue, it would not."), "{told}");
    Ok(())
}

#[test]
fn a_wrong_change_says_where_and_shows_a_right_one() {
    for (change, parts) in [
        ("cpus web=+1", &["did you mean cpu?", "for example: --change 'cpu web1=+1'"][..]),
        ("cpu web=more", &["^ here", "+1 (more)"]),
        ("", &["one of scale, cpu"]),
    ] {
        let output = run(&["forecast", "x", "--change", change]);
        assert_eq!(output.status.code(), Some(2), "{change}");
        for part in parts {
            assert!(stderr(&output).contains(part), "{change}: {}", stderr(&output));
        }
    }
    for args in [
        &["forecast"][..],
        &["bottleneck"],
        &["forecast", "x", "--next", "many"],
        &["forecast", "x", "--arrivals", "poisson"],
        &["bottleneck", "x", "--from", "+soon"],
        &["bottleneck", "x", "--change", "cpu a=+1"],
    ] {
        assert_eq!(run(args).status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn a_folder_with_nothing_to_replay_says_what_to_do() -> Tested {
    let dir = tempfile::tempdir()?;
    let (small, empty, missing) = (dir.path().join("small"), dir.path().join("empty"), dir.path().join("missing"));
    // a server that nobody asked anything
    write_small(&small, "web", "aaaaaaaa-1", false);
    write_small(&empty, "web", "aaaaaaaa-1", false);
    let kept = std::fs::read(segment(&empty))?;
    std::fs::write(segment(&empty), &kept[..64])?;
    let (packets, sniffed) = (Path::new(env!("CARGO_MANIFEST_DIR")), dir.path().join("sniffed"));
    let packets = packets.join("../../tests/golden/net.link/kernel/capture.pcap");
    let output = run(&["sniff", "--pcap", packets.to_str().expect("UTF-8"), "-o", sniffed.to_str().expect("UTF-8")]);
    assert!(output.status.success(), "{}", stderr(&output));
    for command in ["bottleneck", "forecast"] {
        for (folder, part) in [
            (&small, "too few requests have a complete path and a complete reply: 0 of 1; "),
            (&empty, "no message of a request was recorded"),
            (&missing, "is not a trace folder"),
            (&sniffed, "packets do not show what the hosts computed"),
        ] {
            let output = run(&[command, folder.to_str().expect("UTF-8")]);
            assert_eq!(output.status.code(), Some(1), "{command} {}", folder.display());
            assert!(output.stdout.is_empty() && stderr(&output).contains(part), "{}", stderr(&output));
        }
    }
    Ok(())
}
