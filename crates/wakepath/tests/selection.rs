//! `wakepath requests --each`, `--map`, `--over-time` and `--common`.

#[path = "support/gateway.rs"]
mod gateway;
mod support;

use gateway::{DEPLOYED_MS, REQUESTS, deployed, folder, script};
use serde_json::Value;
use std::fmt::Write as _;
use support::{Tested, check, run, stderr, stdout, widest};
use wakepath_testkit::golden;

fn list<'v>(document: &'v Value, key: &str) -> &'v [Value] {
    document[key].as_array().map_or(&[], Vec::as_slice)
}

#[test]
fn each_request_says_what_most_of_it_went_to() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), "t", &script(5_000, 0));
    let all = check("each", &stdout(&run(&["requests", "--each", "--json", "--limit", "0", &folder])));
    assert_eq!(
        (list(&all, "requests").len(), &all["found"], &all["one_in"]),
        (REQUESTS, &Value::from(60), &Value::from(1))
    );
    for (n, r) in list(&all, "requests").iter().enumerate() {
        let slept = r["largest"]["cause"] == "timer";
        assert_eq!(slept, n < 6, "the six slow ones slept: {r:#}");
        assert!(!slept || r["largest"]["duration_ns"].as_u64() >= Some(4_900_000), "{r:#}");
    }
    let some = run(&["requests", "--each", "--limit", "8", &folder]);
    let text = stdout(&some);
    assert!(
        text.contains("8 of 60 requests: the 4 slowest") || text.contains(" of 60 requests: the 4 slowest"),
        "{text}"
    );
    assert!(text.contains("timer at store") && widest(&text) <= 100, "{text}");
    Ok(())
}

#[test]
fn a_selection_is_by_time_and_length() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), "t", &script(5_000, 0));
    let ask = |flags: &[&str]| {
        let json = [&["requests", "--each", "--json", "--limit", "0", &folder], flags].concat();
        check("each", &stdout(&run(&json)))
    };
    assert_eq!(ask(&["--longer-than", "5ms"])["found"], 6);
    assert_eq!(ask(&["--shorter-than", "5ms"])["found"], 54);
    let (from, all) = (ask(&[])["from_ns"].as_i64().ok_or("a time")?, ask(&[]));
    let begun = |least: i64, most: i64| {
        let at = |r: &&Value| r["at_ns"].as_i64().is_some_and(|at| (least..most).contains(&(at - from)));
        list(&all, "requests").iter().filter(at).count()
    };
    let half = begun(0, 300_000_000);
    assert!((20..=40).contains(&half), "{half}");
    assert_eq!(ask(&["--to", "+300ms"])["found"], half);
    assert_eq!(ask(&["--from", "+300ms"])["found"], REQUESTS - half);
    let (a, b) = ((from + 100_000_000).to_string(), (from + 300_000_000).to_string());
    assert_eq!(ask(&["--from", &a, "--to", &b])["found"], begun(100_000_000, 300_000_000));
    assert_eq!(ask(&["--kind", "GET /vote"])["found"], REQUESTS);
    // the last 300 ms, and their kinds with rates over that time
    let to = all["to_ns"].as_i64().ok_or("a time")?;
    let last = begun(to - from - 300_000_000, i64::MAX);
    assert!((20..=40).contains(&last), "{last}");
    assert_eq!(ask(&["--from", "-300ms"])["found"], last);
    let kinds = check("requests", &stdout(&run(&["requests", "--json", "--from=-300ms", &folder])));
    assert_eq!((&kinds["requests"], &kinds["span_ns"]), (&Value::from(last), &Value::from(300_000_000)));
    let of_kind = |kind: &str| run(&["requests", "--json", "--kind", kind, &folder]);
    assert_eq!(check("requests", &stdout(&of_kind("GET /vote")))["requests"], REQUESTS);
    assert!(stderr(&of_kind("GET /nowhere")).contains("no request of kind"));
    let active_ns = kinds["kinds"][0]["active_ns"].as_u64().ok_or("a time")?;
    assert!((200_000_000..=300_000_000).contains(&active_ns), "{active_ns}");
    assert_eq!(kinds["kinds"][0]["rate_per_s"].as_f64(), Some(last as f64 * 1e9 / active_ns as f64));
    for (flags, code, part) in [
        (&["--each", "--kind", "GET /nowhere"][..], 1, "no request of kind"),
        (&["--each", "--from", "+2s", "--to", "+1s"], 1, "--from is not before --to"),
        (&["--map", "--longer-than", "2s", "--shorter-than", "1s"], 1, "no request can match both"),
        (&["--from", "+2s", "--to", "+1s"], 1, "--from is not before --to"),
        (&["--each", "--map"], 2, "cannot be used with"),
    ] {
        let output = run(&[&["requests", &folder], flags].concat());
        assert_eq!(output.status.code(), Some(code), "{flags:?}");
        assert!(stderr(&output).contains(part), "{flags:?}: {}", stderr(&output));
    }
    Ok(())
}

#[test]
fn over_time_each_request_is_in_one_column_and_one_cell() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), "t", &script(5_000, 0));
    let ask = |flags: &[&str]| {
        let json = [&["requests", "--over-time", "--json", &folder], flags].concat();
        check("over_time", &stdout(&run(&json)))
    };
    let sum = |of: &[Value], key: &str| of.iter().filter_map(|v| v[key].as_u64()).sum::<u64>();
    let all = ask(&["--columns", "6"]);
    let (columns, cells) = (list(&all, "columns"), list(&all, "cells"));
    assert_eq!((columns.len(), &all["requests"], &all["errors"]), (6, &Value::from(60), &Value::from(0)));
    assert_eq!((sum(columns, "requests"), sum(cells, "requests")), (60, 60));
    for (n, c) in columns.iter().enumerate() {
        // every tenth is slow: the median is of the others, and of so few the longest is the 99th percentile
        let at = |key: &str| c[key].as_u64().unwrap_or_default();
        assert!((9..=11).contains(&at("requests")), "{n}: {c}");
        assert!(at("p50_ns") < 1_000_000 && at("p99_ns") >= 5_000_000 && at("p99_ns") == at("max_ns"), "{n}: {c}");
        let seconds = c["to_ns"].as_i64().zip(c["from_ns"].as_i64()).map_or(0.0, |(to, from)| (to - from) as f64 / 1e9);
        let rate = c["rate_per_s"].as_f64().ok_or("a rate")?;
        assert!((rate * seconds - at("requests") as f64).abs() < 1e-6, "{c}");
    }
    // the same requests as one by one, wherever they are counted
    let slow = cells.iter().filter(|c| c["least_ns"].as_u64() >= Some(4_000_000));
    assert_eq!(slow.filter_map(|c| c["requests"].as_u64()).sum::<u64>(), 6);
    let part = ask(&["--longer-than", "5ms", "--from", "+100ms", "--to", "+300ms", "--columns", "4"]);
    assert_eq!((&part["requests"], list(&part, "columns").len()), (&Value::from(2), 4));
    assert_eq!((&part["column_ns"], &part["from_ns"]), (&Value::from(50_000_000), &all["from_ns"]));
    let text = stdout(&run(&["requests", "--over-time", "--columns", "5", &folder]));
    assert!(text.contains("60 requests in columns of ") && widest(&text) <= 100, "{text}");
    let output = run(&["requests", "--columns", "5", &folder]);
    assert!(stderr(&output).contains("--over-time"), "{}", stderr(&output));
    Ok(())
}

#[test]
fn the_slow_ones_have_their_cause_in_common() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), "t", &script(5_000, 0));
    let ask = |flags: &[&str]| {
        let json = [&["requests", "--common", "--json", &folder], flags].concat();
        check("common", &stdout(&run(&json)))
    };
    let slow = ask(&["--longer-than", "5ms"]);
    assert_eq!((&slow["selected"], &slow["others"]), (&Value::from(6), &Value::from(54)));
    let first = &slow["values"][0];
    assert_eq!((first["attribute"].as_str(), first["value"].as_str()), (Some("cause"), Some("timer at store:81")));
    assert_eq!((first["selected_share"].as_f64(), first["others_share"].as_f64()), (Some(1.0), Some(0.0)));
    // what all have sets nobody apart
    let told = |v: &Value| v["attribute"] == "kind" || v["attribute"] == "service";
    assert!(!list(&slow, "values").iter().any(told), "{slow:#}");
    assert_eq!(ask(&["--longer-than", "5ms", "--limit", "1"])["values"].as_array().map(Vec::len), Some(1));
    let text = stdout(&run(&["requests", "--common", "--longer-than", "5ms", &folder]));
    assert!(text.contains("6 requests are selected, 54 not") && text.contains("timer at store:81"), "{text}");
    assert!(widest(&text) <= 100, "{text}");
    let all = stdout(&run(&["requests", "--common", &folder]));
    assert!(all.contains("select some requests, and not all of them"), "{all}");
    Ok(())
}

#[test]
fn requests_are_selected_by_what_they_have() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), "t", &script(5_000, 0));
    let found = |with: &[&str]| {
        let flags: Vec<&str> = with.iter().flat_map(|w| ["--with", w]).collect();
        let all = check("each", &stdout(&run(&[&["requests", "--each", "--json", &folder][..], &flags].concat())));
        all["found"].as_u64().unwrap_or_default()
    };
    for (with, expected) in [
        (&["kind=GET /vote at front:80"][..], 60),
        (&["kind=GET /vote*", "call=*at store:81"], 60),
        (&["call=GET /vote at front:80"], 0),
        (&["outcome=error"], 0),
        (&["service=store*", "outcome=error"], 0),
        (&["reply=404"], 0),
    ] {
        assert_eq!(found(with), expected, "{with:?}");
    }
    let values = |with: &str| {
        let args = ["requests", "--common", "--json", "--limit", "0", "--longer-than", "5ms", "--with", with, &folder];
        check("common", &stdout(&run(&args)))["selected"].clone()
    };
    assert_eq!(values("service=store:81"), 6);
    for (with, part) in
        [("cause=loc", "not a cause; use cpu, "), ("path=x", "not an attribute"), ("reply", "give reply=VALUE")]
    {
        let output = run(&["why", "--with", with, &folder]);
        assert_eq!(output.status.code(), Some(2), "{with}");
        assert!(stderr(&output).contains(part), "{with}: {}", stderr(&output));
    }
    Ok(())
}

#[test]
fn requests_are_selected_by_their_main_cause_everywhere() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), "t", &script(5_000, 0));
    for (with, expected) in [
        ("cause=timer", 6),
        ("cause=t*", 6),
        ("cause=timer at store", 6),
        ("cause=timer at sto*", 6),
        ("cause=* at store:81", 60),
        ("cause=timer at front", 0),
        ("cause=disk", 0),
        ("cause=*", 60),
    ] {
        let ask = |command: &[&str], schema: &str| {
            check(schema, &stdout(&run(&[command, &["--json", "--with", with, &folder]].concat())))
        };
        let of_kinds = |v: &Value| list(v, "kinds").iter().filter_map(|k| k["count"].as_u64()).sum::<u64>();
        let of_columns = |v: &Value| list(v, "columns").iter().filter_map(|c| c["requests"].as_u64()).sum::<u64>();
        assert_eq!(ask(&["requests", "--each"], "each")["found"], expected, "{with}");
        assert_eq!(of_kinds(&ask(&["requests"], "requests")), expected, "{with}");
        assert_eq!(ask(&["requests", "--map"], "service_map")["requests"], expected, "{with}");
        assert_eq!(of_columns(&ask(&["requests", "--over-time"], "over_time")), expected, "{with}");
        assert_eq!(ask(&["requests", "--common"], "common")["selected"], expected, "{with}");
        assert_eq!(ask(&["flame"], "flame")["selected"]["requests"], expected, "{with}");
        let exported = stdout(&run(&["export", "--to", "otlp", "--with", with, &folder]));
        assert_eq!(exported.lines().count() as u64, expected, "{with}");
        let figures = stdout(&run(&["export", "--to", "prometheus", "--with", with, &folder]));
        assert_eq!(!figures.contains("_count{"), expected == 0, "{with}: {figures}");
    }
    let why = stdout(&run(&["why", "--with", "cause=timer", &folder]));
    assert!(why.contains("store:81 sleeping"), "{why}");
    let compared = run(&["requests", "--with", "cause=timer", "--against-to", "+300ms", &folder]);
    assert!(stdout(&compared).contains("GET /vote"), "{}", stderr(&compared));
    Ok(())
}

#[test]
fn without_waits_no_request_is_selected_by_cause() -> Tested {
    let dir = tempfile::tempdir()?;
    let script: Vec<String> = script(0, 0).lines().filter(|l| !l.contains(" woken ")).map(str::to_owned).collect();
    let folder = folder(dir.path(), "t", &script.join("\n"));
    for command in
        [&["requests"][..], &["requests", "--each"], &["requests", "--map"], &["export", "--to", "prometheus"]]
    {
        let output = run(&[command, &["--with", "cause=lock", &folder]].concat());
        assert_eq!(output.status.code(), Some(1), "{command:?}");
        assert!(stderr(&output).contains("no waits were recorded"), "{command:?}: {}", stderr(&output));
    }
    Ok(())
}

#[test]
fn the_map_has_services_and_calls() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), "t", &script(5_000, 0));
    let map = check("service_map", &stdout(&run(&["requests", "--map", "--json", &folder])));
    assert_eq!((&map["requests"], list(&map, "services").len(), list(&map, "edges").len()), (&Value::from(60), 2, 1));
    let (front, edge) = (&map["services"][0], &map["edges"][0]);
    assert_eq!(
        (&front["entries"], &front["depth"], &front["failed"]),
        (&Value::from(60), &Value::from(0), &Value::from(0))
    );
    assert_eq!((&edge["caller"], &edge["calls"]), (&front["service"], &Value::from(60)));
    assert_eq!(edge["calls_per_request"].as_f64(), Some(1.0));
    assert_eq!(edge["p99_ns"], Value::Null, "of sixty there is no 99th percentile");
    // rates are over the time that is asked about, and over no other
    let part = check("service_map", &stdout(&run(&["requests", "--map", "--json", "--to", "+300ms", &folder])));
    assert_eq!(part["span_ns"], 300_000_000);
    let text = stdout(&run(&["requests", "--map", &folder]));
    assert!(text.contains("Of 60 requests.") && widest(&text) <= 100, "{text}");
    Ok(())
}

/// Every folder `tests/golden/ana.selection/*` is a script, and what commands say of the requests that pass through its cache.
#[test]
fn requests_that_pass_through_a_service_are_selected() {
    golden::each("ana.selection", |case| {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = folder(dir.path(), "t", &golden::text(case, "input.txt"));
        let mut got = String::new();
        for args in [
            &["requests", "--service", "cache"][..],
            &["requests", "--each", "--limit", "4", "--service", "cache:82"],
            &["requests", "--map", "--service", "front:80", "--calls", "cache"],
            &["why", "--service", "cache"],
            &["why", "--service", "store"],
            &["flame", "--service", "cache", "--difference"],
            &["export", "--to", "folded", "--service", "cache"],
        ] {
            let output = run(&[&[args[0], &folder], &args[1..]].concat());
            assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
            let text = stdout(&output);
            assert!(widest(&text) <= 100, "{args:?}: {text}");
            let _ = writeln!(got, "$ wakepath {}\n{}", args.join(" "), text.replace(&folder, "DIR"));
        }
        golden::holds(case, &got);
    });
}

#[test]
fn a_service_that_no_request_passes_through_is_refused_with_what_there_is() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = folder(dir.path(), "t", &script(5_000, 0));
    for command in [
        &["requests"][..],
        &["requests", "--each"],
        &["requests", "--map"],
        &["why"],
        &["flame"],
        &["export", "--to", "folded"],
    ] {
        for (flags, part) in [
            (&["--service", "stor"][..], "no request is known to pass through \"stor\": did you mean 'store:81'?"),
            (&["--service", "x y"], "\"x y\": `wakepath requests DIR --map` lists services"),
            (&["--service", "store", "--calls", "front"], "\"store\" is not known to call \"front\""),
            (&["--service", "front", "--calls", "stroe:81"], "did you mean 'store:81'?"),
        ] {
            let output = run(&[command, &[&folder], flags].concat());
            assert_eq!(output.status.code(), Some(1), "{command:?} {flags:?}");
            assert!(stderr(&output).contains(part), "{command:?} {flags:?}: {}", stderr(&output));
        }
        let alone = run(&[command, &[&folder, "--calls", "store"]].concat());
        assert_eq!(alone.status.code(), Some(2), "{command:?}");
        assert!(stderr(&alone).contains("--service"), "{command:?}: {}", stderr(&alone));
    }
    // a selection that others make empty is no error of the service's
    let none = run(&["requests", "--each", &folder, "--service", "store", "--longer-than", "10s"]);
    assert!(none.status.success() && stdout(&none).contains("No request is selected"), "{}", stderr(&none));
}

/// Before and after a moment of one recording, on every view; each side has the figures that it has alone.
#[test]
fn two_periods_of_a_recording_are_compared() -> Tested {
    const LONGER_NS: i64 = 2_000_000;
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), "shop", &deployed(LONGER_NS as u64 / 1_000));
    let at = format!("+{DEPLOYED_MS}ms");
    let ask = |schema: &str, words: &[&str]| check(schema, &stdout(&run(&[words, &["--json", &folder]].concat())));
    let both = ["--from", &at, "--against-to", &at];
    let (after, before) = (["--from", at.as_str()], ["--to", at.as_str()]);
    let of = |schema: &str, words: &[&str], flags: &[&str]| ask(schema, &[words, flags].concat());

    let kinds = of("requests_compared", &["requests"], &both);
    for (side, flags) in [("selected", after), ("against", before)] {
        let alone = of("requests", &["requests"], &flags);
        assert_eq!(kinds[side]["requests"], alone["requests"]);
        for key in ["count", "rate_per_s", "mean_ns", "p50_ns", "p99_ns", "max_ns"] {
            assert_eq!(kinds["kinds"][0][side][key], alone["kinds"][0][key], "{side} {key}");
        }
    }
    assert_eq!(kinds["kinds"][0]["more_ns"], LONGER_NS);

    let map = of("service_map_compared", &["requests", "--map"], &both);
    let alone = of("service_map", &["requests", "--map"], &before);
    let front = list(&map, "services").first().ok_or("a service")?;
    assert_eq!((&front["service"], &front["more_ns"]), (&Value::from("front:80"), &Value::from(LONGER_NS)), "{map:#}");
    let edge = &list(&map, "edges")[0];
    assert_eq!(edge["against"]["p50_ns"], alone["edges"][0]["p50_ns"]);
    assert_eq!((&edge["caller"], &edge["selected"]["per_request"]), (&Value::from("front:80"), &Value::from(1.0)));

    let why = of("why", &["why"], &both);
    let kind = &why["kinds"][0];
    assert_eq!((&why["mode"], &kind["more_ns"]), (&Value::from("before_after"), &Value::from(LONGER_NS)));
    assert_eq!(kind["differences"][0]["cause"], "cpu", "{kind:#}");
    let label = kind["slow"]["label"].as_str().ok_or("a label")?;
    assert!(label.starts_with("those of the period +300 ms to +"), "{label}");

    let flame = of("flame", &["flame"], &both);
    let alone = |flags: &[&str]| of("flame", &["flame"], flags)["selected"].clone();
    assert_eq!((&flame["selected"], &flame["others"]), (&alone(&after), &alone(&before)));

    let text = stdout(&run(&[&["requests", folder.as_str()][..], &both].concat()));
    assert!(text.contains(" → ") && text.contains("(left); what changed most first") && widest(&text) <= 100, "{text}");
    let text = stdout(&run(&[&["requests", "--map", folder.as_str()][..], &both].concat()));
    assert!(text.contains("front:80 to store:81") && widest(&text) <= 100, "{text}");
    for (flags, part) in [
        (&["requests", "--each"][..], "cannot be used with"),
        (&["flame", "--difference"], "cannot be used with"),
        (&["requests", "--map", "--kind", "GET /nowhere"], "no request of kind"),
        (&["requests", "--against-from", "+2s"], "--from is not before --to"),
    ] {
        let output = run(&[flags, &[&folder], &both].concat());
        assert!(output.status.code() != Some(0) && stderr(&output).contains(part), "{flags:?}: {}", stderr(&output));
    }
    Ok(())
}

/// Against another recording: the same as `why BEFORE AFTER`; what only one has is told apart.
#[test]
fn two_recordings_are_compared() -> Tested {
    let dir = tempfile::tempdir()?;
    let before = folder(dir.path(), "before", &script(0, 0));
    let after = folder(dir.path(), "after", &script(0, 3_000));
    let other = folder(dir.path(), "other", &script(0, 0).replace("store", "cache"));
    let ask = |schema: &str, words: &[&str]| check(schema, &stdout(&run(&[words, &["--json"]].concat())));
    let kinds = ask("requests_compared", &["requests", &after, "--against", &before]);
    assert_eq!(
        (&kinds["kinds"][0]["more_ns"], &kinds["against"]["name"]),
        (&Value::from(3_000_000), &Value::from(before.as_str()))
    );
    let why = ask("why", &["why", &after, "--against", &before]);
    assert_eq!(why["kinds"], ask("why", &["why", &before, &after])["kinds"]);
    let map = ask("service_map_compared", &["requests", "--map", &other, "--against", &before]);
    let on = |name: &str| {
        let found = list(&map, "services").iter().find(|s| s["service"] == name);
        found.map(|s| (s["selected"].is_object(), s["against"].is_object(), s["more_ns"].is_null()))
    };
    assert_eq!(on("front:80"), Some((true, true, false)));
    assert_eq!((on("cache:81"), on("store:81")), (Some((true, false, true)), Some((false, true, true))), "{map:#}");
    let three = run(&["why", &before, &after, "--against", &other]);
    assert!(three.status.code() == Some(1) && stderr(&three).contains("one folder with one"), "{}", stderr(&three));
    Ok(())
}
