//! `wakepath export --to clickhouse`: its spans are those of `--to otlp`, its requests those of `requests --each`, and ClickHouse
//! answers its queries with the numbers of `why` and `requests`.

#[path = "support/gateway.rs"]
mod gateway;
mod support;

use gateway::folder;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{Tested, check, run, stderr, stdout};
use wakepath_testkit::recording::Cuts;
use wakepath_testkit::shapes::{Plan, Shape, simulate};

/// What went wrong, or it.
type Or<T> = Result<T, Box<dyn Error>>;

const SPANS: &str = "otel_traces.jsonl.zst";
const REQUESTS: &str = "wakepath_requests.jsonl.zst";

fn path(p: &Path) -> &str {
    p.to_str().expect("temporary paths are UTF-8")
}

/// A gateway that asks a store three times for each request. The store sleeps longer in the second half, and long in each tenth
/// request, for which the gateway also computes longer; it fails in each eighth, and the gateway in each twentieth.
fn script() -> String {
    let mut text = String::from("task A front\ntask D store\nflow c - A\nflow d A D\n");
    for n in 1..=60_u64 {
        let t = n * 50_000;
        let slept = if n > 30 { 2_000 } else { 500 } + if n % 10 == 0 { 8_000 + n } else { 0 };
        let _ = writeln!(text, "{t} A woken by c since {}\n{} A takes r{n} c", t - 500, t + 10);
        let computed = if n % 10 == 0 { 1_500 } else { 100 };
        let (mut at, mut idle) = (t + computed, t - 400);
        for k in 0..3 {
            let call = 3 * n + k;
            let status = if n % 8 == 0 && k == 2 { " 500" } else { "" };
            let _ = writeln!(text, "{at} A asks q{call} d for r{n}\n{} D woken by d since {idle}", at + 20);
            let _ =
                writeln!(text, "{} D takes q{call}\n{} D woken by timer since {}", at + 30, at + 40 + slept, at + 40);
            let answered = at + 100 + slept;
            let _ = writeln!(
                text,
                "{answered} D answers q{call}{status}\n{} A woken by d since {}",
                answered + 15,
                at + 10
            );
            let _ = writeln!(text, "{} A hears q{call}", answered + 20);
            (at, idle) = (answered + 40, answered + 10);
        }
        let status = if n % 20 == 0 { " 500" } else { "" };
        let _ = writeln!(text, "{at} A answers r{n}{status}");
    }
    text
}

/// Services whose workers' calls nobody can tell apart in part.
fn murky(dir: &Path) -> Or<String> {
    let written = simulate(&Plan::new(Shape::DispatcherReplies, 3)).write(dir, Cuts::default())?;
    Ok(path(&written[0]).to_owned())
}

/// Exports a folder; what was said.
fn export(folder: &str, into: &Path, flags: &[&str]) -> String {
    let exported = run(&[&["export", folder, "--to", "clickhouse", "-o", path(into)], flags].concat());
    assert_eq!(exported.status.code(), Some(0), "{}", stderr(&exported));
    assert!(exported.stdout.is_empty());
    stderr(&exported)
}

/// The rows of a file.
fn rows(file: &Path) -> Or<Vec<Value>> {
    let text = zstd::decode_all(std::fs::File::open(file)?)?;
    std::str::from_utf8(&text)?.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

fn list(of: &Value) -> &[Value] {
    of.as_array().map_or(&[], Vec::as_slice)
}

/// ns since 1970 of a time that a row has.
fn ns(time: &Value) -> Value {
    let time: jiff::Timestamp = time.as_str().and_then(|t| t.parse().ok()).expect("a time");
    json!(time.as_nanosecond().to_string())
}

/// OTLP's attributes as a map of texts.
fn texts(attributes: &Value) -> Value {
    let text = |a: &Value| {
        let value = a["value"]["stringValue"].as_str().or(a["value"]["intValue"].as_str()).expect("a text or a number");
        (a["key"].as_str().expect("a key").to_owned(), json!(value))
    };
    Value::Object(list(attributes).iter().map(text).collect())
}

/// What a line of `--to otlp` says of its spans, as rows say it.
fn otlp_spans(line: &str, out: &mut Vec<Value>) -> Tested {
    let request: Value = serde_json::from_str(line)?;
    for resource in list(&request["resourceSpans"]) {
        let attributes = texts(&resource["resource"]["attributes"]);
        for s in list(&resource["scopeSpans"][0]["spans"]) {
            let number = |key: &str| s[key].as_str().and_then(|n| n.parse::<u64>().ok()).expect("a number");
            let events = list(&s["events"]);
            let links = list(&s["links"]);
            let column = |of: &[Value], value: &dyn Fn(&Value) -> Value| of.iter().map(value).collect::<Value>();
            let kind = ["", "", "Server", "Client", "Producer"][s["kind"].as_u64().expect("a kind") as usize];
            out.push(json!({
                "TraceId": s["traceId"], "SpanId": s["spanId"], "ParentSpanId": s["parentSpanId"].as_str().unwrap_or(""),
                "SpanName": s["name"], "SpanKind": kind, "ServiceName": attributes["service.name"],
                "ResourceAttributes": attributes, "SpanAttributes": texts(&s["attributes"]), "Timestamp": s["startTimeUnixNano"],
                "Duration": number("endTimeUnixNano") - number("startTimeUnixNano"),
                "StatusCode": if s["status"]["code"] == 2 { "Error" } else { "Unset" },
                "StatusMessage": s["status"]["message"].as_str().unwrap_or(""),
                "ScopeName": resource["scopeSpans"][0]["scope"]["name"],
                "ScopeVersion": resource["scopeSpans"][0]["scope"]["version"], "TraceState": "",
                "Events.Timestamp": column(events, &|e| e["timeUnixNano"].clone()),
                "Events.Name": column(events, &|e| e["name"].clone()),
                "Events.Attributes": column(events, &|e| texts(&e["attributes"])),
                "Links.TraceId": column(links, &|l| l["traceId"].clone()),
                "Links.SpanId": column(links, &|l| l["spanId"].clone()),
                "Links.TraceState": column(links, &|_| json!("")),
                "Links.Attributes": column(links, &|l| texts(&l["attributes"])),
            }));
        }
    }
    Ok(())
}

#[test]
fn spans_are_those_of_otlp() -> Tested {
    let dir = tempfile::tempdir()?;
    for folder in [folder(dir.path(), "shop", &script()), murky(&dir.path().join("murky"))?] {
        let out = dir.path().join("out");
        let said = export(&folder, &out, &["--waits"]);
        assert!(said.contains("clickhouse-client --queries-file schema.sql load.sql"), "{said}");
        let mut expected = Vec::new();
        for line in stdout(&run(&["export", &folder, "--to", "otlp", "--waits"])).lines() {
            otlp_spans(line, &mut expected)?;
        }
        let mut found = rows(&out.join(SPANS))?;
        for row in &mut found {
            row["Timestamp"] = ns(&row["Timestamp"]);
            for at in row["Events.Timestamp"].as_array_mut().ok_or("times")? {
                *at = ns(at);
            }
        }
        let key = |row: &Value| (row["TraceId"].to_string(), row["SpanId"].to_string());
        expected.sort_by_key(key);
        found.sort_by_key(key);
        assert!(!found.is_empty() && found == expected, "{}: {found:#?}\n{expected:#?}", folder);
    }
    Ok(())
}

#[test]
fn requests_are_as_our_own_answers_have_them() -> Tested {
    let dir = tempfile::tempdir()?;
    for folder in [folder(dir.path(), "shop", &script()), murky(&dir.path().join("murky"))?] {
        let out = dir.path().join("out");
        export(&folder, &out, &[]);
        let each = check("each", &stdout(&run(&["requests", "--each", "--limit", "0", "--json", &folder])));
        let expected: BTreeMap<&str, &Value> =
            list(&each["requests"]).iter().map(|r| (r["request"].as_str().unwrap_or(""), r)).collect();
        let spans = rows(&out.join(SPANS))?;
        let found = rows(&out.join(REQUESTS))?;
        assert!(found.len() == expected.len() && found.len() >= 30, "{}", found.len());
        for row in &found {
            let trace = row["TraceId"].as_str().ok_or("an id")?;
            let one = expected.get(&trace[16..]).ok_or("a request")?;
            let ours = json!([
                ns(&row["Timestamp"]),
                row["ServiceName"],
                row["SpanName"],
                row["Duration"],
                row["Status"],
                row["Failed"],
                row["End"],
                row["Spans"],
                row["Complete"]
            ]);
            let theirs = json!([
                one["at_ns"].to_string(),
                one["service"],
                one["asked"],
                one["duration_ns"],
                one["status"],
                one["failed"],
                one["end"],
                one["spans"],
                one["complete"]
            ]);
            assert_eq!(ours, theirs);
            assert_eq!(row["Complete"] == true, list(&row["Incomplete"]).is_empty(), "{row}");
            assert_eq!(row["Complete"] == false, row["NoCriticalPath"] == "incomplete path", "{row}");
            // all parts are its whole time, and each span's are what its attributes say
            let mut parts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
            for ((span, cause), time) in list(&row["CriticalPath.SpanId"])
                .iter()
                .zip(list(&row["CriticalPath.Cause"]))
                .zip(list(&row["CriticalPath.Duration"]))
            {
                let key = (span.as_str().ok_or("a span")?, cause.as_str().ok_or("a cause")?);
                *parts.entry(key).or_default() += time.as_u64().ok_or("a time")?;
            }
            if row["NoCriticalPath"] == "" {
                assert_eq!(Some(parts.values().sum()), row["Duration"].as_u64(), "{row}");
            }
            let mut told = BTreeMap::new();
            for span in spans.iter().filter(|s| s["TraceId"] == trace) {
                for (name, value) in span["SpanAttributes"].as_object().ok_or("a map")? {
                    let cause = name.strip_prefix("wakepath.critical_path.").and_then(|n| n.strip_suffix("_ns"));
                    if let (Some(cause), Some(id)) = (cause, span["SpanId"].as_str()) {
                        told.insert((id, cause), value.as_str().ok_or("a number")?.parse()?);
                    }
                }
            }
            assert_eq!(parts, told);
        }
    }
    Ok(())
}

/// Columns of a table, as `schema.sql` has them.
fn columns(schema: &str, table: &str) -> BTreeSet<String> {
    let from = schema.find(&format!("EXISTS {table}\n")).expect("the table");
    let mut columns = BTreeSet::new();
    let mut nested = String::new();
    for line in schema[from..].lines().skip(2).take_while(|l| !l.starts_with(')')) {
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (Some("INDEX" | "(" | "--") | None, _) => {}
            (Some(name), Some("Nested")) => nested = format!("{name}."),
            (Some(")"), _) => nested.clear(),
            (Some(name), _) => _ = columns.insert(format!("{nested}{name}")),
        }
    }
    columns
}

#[test]
fn every_row_has_the_columns_of_its_table_and_an_export_made_twice_is_the_same() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), "shop", &script());
    let out = [dir.path().join("a"), dir.path().join("b/c")];
    out.iter().for_each(|out| _ = export(&folder, out, &[]));
    export(&folder, &out[0], &[]); // in place of the first
    let names: BTreeSet<_> = std::fs::read_dir(&out[0])?.map(|e| e.map(|e| e.file_name())).collect::<Result<_, _>>()?;
    assert_eq!(names.len(), 5, "{names:?}");
    for name in names {
        assert!(std::fs::read(out[0].join(&name))? == std::fs::read(out[1].join(&name))?, "{name:?}");
    }
    let schema = std::fs::read_to_string(out[0].join("schema.sql"))?;
    for (file, table) in [(SPANS, "otel_traces"), (REQUESTS, "wakepath_requests")] {
        for row in rows(&out[0].join(file))? {
            let found: BTreeSet<String> = row.as_object().ok_or("a row")?.keys().cloned().collect();
            assert_eq!(found, columns(&schema, table));
        }
    }
    Ok(())
}

#[test]
fn it_needs_a_folder_and_takes_the_flags_of_traces() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), "shop", &script());
    let nowhere = run(&["export", &folder, "--to", "clickhouse"]);
    assert!(nowhere.status.code() == Some(2) && stderr(&nowhere).contains("-o DIR"), "{}", stderr(&nowhere));
    let out = dir.path().join("out");
    export(&folder, &out, &["--request", "slowest"]);
    assert_eq!(rows(&out.join(REQUESTS))?.len(), 1);
    let file = dir.path().join("file");
    std::fs::write(&file, "of another")?;
    let refused = run(&["export", &folder, "--to", "clickhouse", "-o", path(&file)]);
    assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));
    assert_eq!(std::fs::read(&file)?, b"of another");
    Ok(())
}

/// The Python that has chDB: `$WAKEPATH_VENV`, or what `scripts/install test` made.
fn python() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let venv = std::env::var_os("WAKEPATH_VENV").map_or(root.join("target/venv"), PathBuf::from);
    let python = venv.join("bin/python");
    let has_it = Command::new(&python).args(["-c", "import chdb"]).output();
    has_it.is_ok_and(|o| o.status.success()).then_some(python)
}

/// What ClickHouse answers to the queries of an export of a folder.
fn asked(python: &Path, folder: &str, out: &Path) -> Or<Value> {
    export(folder, out, &[]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clickhouse.py");
    let read = Command::new(python).arg(script).arg(out).output()?;
    assert!(read.status.success(), "{}", stderr(&read));
    Ok(serde_json::from_slice(&read.stdout)?)
}

/// Causes whose time a query is about, by cause, service and host: of the selected requests, of the others, and the difference.
type Differences = BTreeSet<(String, String, String, i64, i64, i64)>;

fn differences(rows: &[Value], [selected, others, more]: [&str; 3], is_about: &dyn Fn(&str) -> bool) -> Differences {
    let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let number = |row: &Value, key: &str| row[key].as_i64().expect("a number");
    let of = |row: &Value| {
        let name = (text(row, "cause"), text(row, "service"), text(row, "host"));
        (name.0, name.1, name.2, number(row, selected), number(row, others), number(row, more))
    };
    // equal averages are no difference, and `why` leaves them out
    rows.iter().map(of).filter(|d| d.5 != 0 && is_about(&d.0)).collect()
}

#[test]
fn clickhouse_answers_what_why_says() -> Tested {
    let Some(python) = python() else {
        eprintln!("skipped: run scripts/install test");
        return Ok(());
    };
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), "shop", &script());
    let found = asked(&python, &folder, &dir.path().join("out"))?;
    let totals = &found["totals"];
    assert_eq!((&totals["spans"], &totals["requests"]), (&json!(7 * 60), &json!(60)));
    assert_eq!(totals["on_paths"], totals["with_paths"]);
    assert_eq!(found["lookup"], json!({ "traces": 60, "found": 60 }));
    let why = |flags: &[&str]| check("why", &stdout(&run(&[&["why", &folder, "--json"], flags].concat())));

    let slow = list(&found["queries"][0]);
    let from = slow.first().ok_or("a row")?["slow_from_ns"].as_u64().ok_or("a limit")?;
    let expected = why(&["--longer-than", &format!("{from}ns")]);
    let theirs =
        differences(list(&expected["kinds"][0]["differences"]), ["slow_ns", "typical_ns", "more_ns"], &|_| true);
    let ours = differences(slow, ["slow_ns", "other_ns", "more_ns"], &|_| true);
    assert!(ours == theirs && ours.len() > 1, "{ours:#?}\n{theirs:#?}");
    assert_eq!(slow[0]["cause"], "timer", "{slow:#?}");

    let moment = (totals["first"].as_i64().ok_or("a time")? + totals["last"].as_i64().ok_or("a time")?) / 2;
    let expected = why(&["--from", &moment.to_string()]);
    let waits = |cause: &str| !matches!(cause, "cpu" | "isolation");
    let theirs = differences(list(&expected["kinds"][0]["differences"]), ["slow_ns", "typical_ns", "more_ns"], &waits);
    let ours = differences(list(&found["queries"][1]), ["after_ns", "before_ns", "grew_ns"], &waits);
    assert!(ours == theirs && !ours.is_empty(), "{ours:#?}\n{theirs:#?}");
    Ok(())
}

/// Of each kind of JSON that `requests` gives: what it was, and numbers of it.
type Counts = BTreeSet<(String, Vec<u64>)>;

fn counts(rows: &[Value], names: &[&str], numbers: &[&str]) -> Counts {
    let name = |row: &Value| names.iter().map(|n| row[*n].as_str().unwrap_or_default()).collect::<Vec<_>>().join(" | ");
    let number = |row: &Value| numbers.iter().map(|n| row[*n].as_u64().expect("a number")).collect();
    rows.iter().map(|row| (name(row), number(row))).collect()
}

#[test]
fn clickhouse_answers_what_requests_says() -> Tested {
    let Some(python) = python() else {
        eprintln!("skipped: run scripts/install test");
        return Ok(());
    };
    let dir = tempfile::tempdir()?;
    for (name, folder) in
        [("shop", folder(dir.path(), "shop", &script())), ("murky", murky(&dir.path().join("murky"))?)]
    {
        let found = asked(&python, &folder, &dir.path().join("out"))?;
        let requests = check("requests", &stdout(&run(&["requests", "--json", "--limit", "0", &folder])));
        let kinds = list(&requests["kinds"]);
        let ours = counts(
            list(&found["queries"][2]),
            &["entry", "asked"],
            &["requests", "failed", "client_left", "reset", "no_complete_reply", "outcome_unknown"],
        );
        let cut = |k: &Value| k["cut"].as_u64().zip(k["unreplied"].as_u64()).map(|(a, b)| a + b);
        let theirs = kinds.iter().map(|k| {
            let number = |key: &str| k[key].as_u64().expect("a number");
            let name = format!("{} | {}", k["service"].as_str().unwrap_or(""), k["asked"].as_str().unwrap_or(""));
            (
                name,
                vec![
                    number("count"),
                    number("failed"),
                    number("left"),
                    number("reset"),
                    cut(k).expect("numbers"),
                    number("outcome_unknown"),
                ],
            )
        });
        assert_eq!(ours, theirs.collect());

        let ours = counts(list(&found["queries"][3]), &["service", "called", "error"], &["calls"]);
        // one row a kind of request there, and none here
        let mut theirs: BTreeMap<String, u64> = BTreeMap::new();
        for e in list(&requests["call_errors"]) {
            let name = [&e["service"], &e["asked"], &e["error"]].map(|n| n.as_str().unwrap_or("")).join(" | ");
            *theirs.entry(name).or_default() += e["count"].as_u64().ok_or("a count")?;
        }
        assert_eq!(ours, theirs.into_iter().map(|(name, n)| (name, vec![n])).collect());

        let mut theirs: BTreeMap<String, u64> = BTreeMap::new();
        let why = [
            ("requests", kinds, "why_incomplete"),
            ("calls whose request is not known", list(&requests["orphans"]), "why"),
        ];
        for (what, of, why) in why {
            for (service, reason) in of.iter().flat_map(|k| list(&k[why]).iter().map(|w| (&k["service"], w))) {
                let name = [&json!(what), service, &reason[0]].map(|n| n.as_str().unwrap_or("")).join(" | ");
                *theirs.entry(name).or_default() += reason[1].as_u64().ok_or("a count")?;
            }
        }
        let ours = counts(list(&found["queries"][4]), &["what", "service", "reason"], &["times"]);
        assert_eq!(ours, theirs.into_iter().map(|(name, n)| (name, vec![n])).collect());
        assert_eq!(ours.is_empty(), name == "shop", "{ours:?}");

        let mut theirs = Counts::new();
        for (kind, tier) in kinds.iter().flat_map(|k| list(&k["tiers"]).iter().map(move |t| (k, t))) {
            for asked in list(&tier["asked"]).iter().filter(|a| a["calls_per_request"].as_f64() >= Some(2.0)) {
                let names = [&kind["service"], &kind["asked"], &tier["service"], &asked["asked"]];
                let calls = asked["calls_per_request"].as_f64().ok_or("a number")?
                    * kind["count"].as_f64().ok_or("a number")?;
                let name = names.map(|n| n.as_str().unwrap_or("")).join(" | ");
                theirs.insert((name, vec![calls.round() as u64, asked["requests"].as_u64().ok_or("a number")?]));
            }
        }
        let ours =
            counts(list(&found["queries"][5]), &["entry", "asked", "service", "called"], &["calls", "requests_with"]);
        assert_eq!(ours, theirs);
        assert_eq!(ours.is_empty(), name != "shop", "{ours:?}");
    }
    Ok(())
}
