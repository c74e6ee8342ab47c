//! `wakepath export`: what it writes is read by the classes and tools of those who made the forms, and is what our own answers
//! say.

#[path = "support/gateway.rs"]
mod gateway;
mod support;

use gateway::{REQUESTS, folder, script};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use support::{Tested, check, run, stderr, stdout};
use wakepath_testkit::recording::Cuts;
use wakepath_testkit::script::play;
use wakepath_testkit::shapes::{Plan, Shape, simulate};

/// Forms, and the files that the reader expects.
const FILES: [(&str, &[&str]); 7] = [
    ("otlp.jsonl", &["--to", "otlp", "--waits"]),
    ("otlp.pb", &["--to", "otlp", "--waits", "--protobuf"]),
    ("jaeger.json", &["--to", "jaeger"]),
    ("perfetto.pftrace", &["--to", "perfetto"]),
    ("prometheus.txt", &["--to", "prometheus"]),
    ("flame.folded", &["--to", "folded"]),
    ("flame.pb.gz", &["--to", "pprof"]),
];

fn path(p: &Path) -> &str {
    p.to_str().expect("temporary paths are UTF-8")
}

/// Exports a folder in every form; what was said of each.
fn export(folder: &str, into: &Path) -> Result<BTreeMap<&'static str, String>, Box<dyn Error>> {
    std::fs::create_dir_all(into)?;
    let mut said = BTreeMap::new();
    for (file, flags) in FILES {
        let out = into.join(file);
        let exported = run(&[&["export", folder, "-o", path(&out)], flags].concat());
        assert_eq!(exported.status.code(), Some(0), "{file}: {}", stderr(&exported));
        assert!(exported.stdout.is_empty(), "{file}");
        said.insert(file, stderr(&exported));
    }
    Ok(said)
}

/// The Python that has the readers: `$WAKEPATH_VENV`, or what `scripts/install test` made.
fn python() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let venv = std::env::var_os("WAKEPATH_VENV").map_or(root.join("target/venv"), PathBuf::from);
    let python = venv.join("bin/python");
    let readers = "import grpc, opentelemetry.proto, perfetto, prometheus_client";
    let has_all = Command::new(&python).args(["-c", readers]).output();
    has_all.is_ok_and(|o| o.status.success()).then_some(python)
}

/// What the independent readers find in an export.
fn read(python: &Path, exported: &Path) -> Result<Value, Box<dyn Error>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/exports.py");
    let read = Command::new(python).arg(script).arg(exported).output()?;
    assert!(read.status.success(), "{}", stderr(&read));
    Ok(serde_json::from_slice(&read.stdout)?)
}

fn spans(of: &Value) -> &Vec<Value> {
    of.as_array().expect("a list of spans")
}

#[test]
fn sums_stand_for_waits_unless_these_are_asked_for() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), "shop", &script(5_000, 0));
    let written = |flags: &[&str]| stdout(&run(&[&["export", &folder, "--to", "otlp"], flags].concat()));
    let (sums, each) = (written(&[]), written(&["--waits"]));
    let (wait, sum) = ("\"name\":\"wait\"", "wakepath.critical_path.");
    assert!(!sums.contains(wait) && each.contains(wait), "{sums}");
    assert!(sums.matches(sum).count() == each.matches(sum).count() && sums.contains(sum), "{sums}");
    Ok(())
}

#[test]
fn others_read_what_our_own_answers_say() -> Tested {
    let Some(python) = python() else {
        eprintln!("skipped: run scripts/install test");
        return Ok(());
    };
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), "shop", &script(5_000, 0));
    let said = export(&folder, &dir.path().join("out"))?;
    let found = read(&python, &dir.path().join("out"))?;
    let otlp = spans(&found["otlp"]["spans"]);
    // of each request its server's side, and both sides of its one call
    assert_eq!(otlp.len(), 3 * REQUESTS);
    let each = check("each", &stdout(&run(&["requests", "--each", "--limit", "0", "--json", &folder])));
    for one in each["requests"].as_array().expect("checked").iter().step_by(7) {
        let id = one["request"].as_str().expect("checked");
        let of: Vec<&Value> = otlp.iter().filter(|s| s["trace"].as_str().is_some_and(|t| t.ends_with(id))).collect();
        let root = of.iter().find(|s| s["parent"] == "").ok_or("a root")?;
        assert_eq!((&root["start_ns"], &root["duration_ns"]), (&one["at_ns"], &one["duration_ns"]));
        assert_eq!((&root["service"], &root["name"]), (&one["service"], &one["asked"]));
        // its critical path is its whole time, told among its spans
        let told: u64 = of.iter().filter_map(|s| s["critical_ns"].as_u64()).sum();
        assert_eq!(Some(told), one["duration_ns"].as_u64(), "{of:?}");
        let shown = check("show", &stdout(&run(&["show", "--json", &folder, id])));
        let kinds: Vec<u64> = of.iter().filter_map(|s| s["kind"].as_u64()).collect();
        assert_eq!(kinds.iter().filter(|k| **k == 2).count(), shown["spans"].as_array().map_or(0, Vec::len));
    }
    assert!(otlp.iter().any(|s| s["waits"].as_u64() > Some(0)));
    let without = |spans: &[Value]| -> Vec<Value> {
        spans
            .iter()
            .map(|s| {
                json!([s["trace"], s["span"], s["parent"], s["name"], s["service"], s["start_ns"], s["duration_ns"]])
            })
            .collect()
    };
    let (mut ours, mut theirs) = (without(otlp), without(spans(&found["jaeger"])));
    ours.sort_by_key(Value::to_string);
    theirs.sort_by_key(Value::to_string);
    assert_eq!(ours, theirs, "Jaeger's form has the same spans");
    let perfetto = &found["perfetto"];
    let told = format!(
        "{} spans, {} intervals of tasks, {} arrows",
        perfetto["slices"]["span"], perfetto["slices"]["interval"], perfetto["arrows"]
    );
    assert!(said["perfetto.pftrace"].contains(&told), "{told}: {}", said["perfetto.pftrace"]);
    assert_eq!(perfetto["slices"]["span"], 3 * REQUESTS);
    assert!(perfetto["arrows"].as_u64() >= Some(2 * REQUESTS as u64) && perfetto["counters"].as_u64() > Some(1));
    let prometheus = &found["prometheus"];
    assert_eq!(
        (prometheus["requests"].as_f64(), prometheus["answered"].as_f64()),
        (Some(REQUESTS as f64), Some(REQUESTS as f64))
    );
    assert_eq!(prometheus["kinds"], json!(["GET /vote"]));
    let traces: Vec<&Value> = otlp.iter().map(|s| &s["trace"]).collect();
    let exemplars = prometheus["exemplars"].as_array().ok_or("exemplars")?;
    assert!(!exemplars.is_empty() && exemplars.iter().all(|e| traces.contains(&e)));
    // the time of all critical paths is that of all requests
    let all: u64 = each["requests"].as_array().expect("checked").iter().filter_map(|r| r["duration_ns"].as_u64()).sum();
    let folded: u64 = found["flame"]["folded"].as_object().ok_or("stacks")?.values().filter_map(Value::as_u64).sum();
    assert_eq!((folded, found["flame"]["pprof_ns"].as_u64()), (all, Some(all)));
    assert_eq!(found["flame"]["pprof_samples"].as_u64(), found["flame"]["folded"].as_object().map(|s| s.len() as u64));
    Ok(())
}

#[test]
fn an_export_made_twice_is_the_same() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), "shop", &script(5_000, 0));
    export(&folder, &dir.path().join("a"))?;
    export(&folder, &dir.path().join("b"))?;
    for (file, _) in FILES {
        assert!(
            std::fs::read(dir.path().join("a").join(file))? == std::fs::read(dir.path().join("b").join(file))?,
            "{file}"
        );
    }
    Ok(())
}

#[test]
fn a_call_that_several_may_have_made_has_links_and_no_parent() -> Tested {
    let dir = tempfile::tempdir()?;
    let written = simulate(&Plan::new(Shape::DispatcherReplies, 3)).write(dir.path(), Cuts::default())?;
    let folder = path(&written[0]);
    let exported = run(&["export", folder, "--to", "otlp", "--strict"]);
    assert_eq!(exported.status.code(), Some(3), "incomplete paths touch it: {}", stderr(&exported));
    let (mut roots, mut linked, mut orphans) = (Vec::new(), Vec::new(), 0);
    for line in stdout(&exported).lines() {
        let request: Value = serde_json::from_str(line)?;
        for resource in request["resourceSpans"].as_array().ok_or("a list")? {
            for span in resource["scopeSpans"][0]["spans"].as_array().ok_or("a list")? {
                let key = (span["traceId"].to_string(), span["spanId"].to_string());
                let links = span["links"].as_array().ok_or("a list")?;
                linked.extend(links.iter().map(|l| (l["traceId"].to_string(), l["spanId"].to_string())));
                if span["parentSpanId"].is_null() {
                    let is_unknown = |a: &Value| a["key"] == "wakepath.request_not_known";
                    orphans += usize::from(span["attributes"].as_array().ok_or("a list")?.iter().any(is_unknown));
                    roots.push(key);
                }
            }
        }
    }
    assert!(!linked.is_empty() && orphans > 0, "{} links, {orphans} orphans", linked.len());
    assert!(linked.iter().any(|l| roots.contains(l)), "a link leads to the call that was served");
    Ok(())
}

#[test]
fn names_are_data_in_every_form() -> Tested {
    const NAME: &str = "/\u{202e}<b>;a b\"\\\n1";
    let dir = tempfile::tempdir()?;
    let mut recording = play(&script(0, 0))?;
    for host in &mut recording.hosts {
        let target = host.text(NAME);
        for row in &mut host.rows {
            if let wakepath_model::rows::Event::Message(m) = row {
                m.target = target;
            }
        }
    }
    let written = recording.write(&dir.path().join("shop"), Cuts::default())?;
    export(path(&written[0]), &dir.path().join("out"))?;
    for (file, _) in FILES {
        let bytes = std::fs::read(dir.path().join("out").join(file))?;
        assert!(!bytes.windows(3).any(|w| w == "\u{202e}".as_bytes()), "{file} turns the text around it");
    }
    let Some(python) = python() else {
        eprintln!("skipped in part: run scripts/install test");
        return Ok(());
    };
    let found = read(&python, &dir.path().join("out"))?;
    let escaped = "GET /\\u{202e}<b>;a b\"\\\\u{a}1";
    assert!(
        spans(&found["jaeger"])
            .iter()
            .any(|s| s["name"].as_str().is_some_and(|n| n.starts_with("GET /\\u{202e}<b>;a b\""))),
        "{escaped}"
    );
    assert_eq!(found["prometheus"]["kinds"].as_array().map(Vec::len), Some(1));
    Ok(())
}

#[test]
fn promtool_accepts_the_older_text_format() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), "shop", &script(5_000, 0));
    let file = dir.path().join("metrics.prom");
    let exported = run(&["export", &folder, "--to", "prometheus", "--no-exemplars", "-o", path(&file)]);
    assert_eq!(exported.status.code(), Some(0), "{}", stderr(&exported));
    // the same samples as with exemplars
    let with = run(&["export", &folder, "--to", "prometheus"]);
    let samples = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|l| !l.starts_with('#'));
        lines.map(|l| l.split(" # ").next().unwrap_or_default().to_owned()).collect()
    };
    let text = std::fs::read_to_string(&file)?;
    assert!(!samples(&text).is_empty() && samples(&text) == samples(&stdout(&with)));
    let Ok(checked) = Command::new("promtool").args(["check", "metrics"]).stdin(std::fs::File::open(&file)?).output()
    else {
        eprintln!("skipped in part: no promtool; run scripts/install test");
        return Ok(());
    };
    assert!(checked.status.success(), "{}{}", stdout(&checked), stderr(&checked));
    Ok(())
}

/// What a collector was sent.
type Bodies = thread::JoinHandle<Vec<String>>;

/// A collector that gives these answers, one a connection; what it was sent.
fn collector(answers: &'static [&'static str]) -> Result<(String, Bodies), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}/v1/traces", listener.local_addr()?);
    let serve = move || {
        let mut bodies = Vec::new();
        for answer in answers {
            let Ok((mut stream, _)) = listener.accept() else { break };
            let (mut got, mut buffer) = (Vec::new(), [0; 65536]);
            let whole = |got: &[u8]| {
                let text = String::from_utf8_lossy(got).into_owned();
                let (head, body) = text.split_once("\r\n\r\n")?;
                let length = head
                    .lines()
                    .find_map(|l| l.to_ascii_lowercase().strip_prefix("content-length: ")?.parse::<usize>().ok())?;
                (body.len() >= length).then(|| body.to_owned())
            };
            while let Ok(n @ 1..) = stream.read(&mut buffer) {
                got.extend_from_slice(&buffer[..n]);
                // a client of HTTP/2 names no length
                if let Some(body) = whole(&got).or_else(|| got.starts_with(b"PRI * HTTP/2").then(String::new)) {
                    bodies.push(body);
                    break;
                }
            }
            let _ = stream.write_all(answer.as_bytes());
        }
        bodies
    };
    Ok((url, thread::spawn(serve)))
}

#[test]
fn a_collector_gets_all_and_is_asked_again() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), "shop", &script(5_000, 0));
    let (url, served) = collector(&[
        "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 47\r\n\r\n{\"partialSuccess\":{\"rejectedSpans\":\"7\"}}       ",
    ])?;
    let exported = run(&["export", &folder, "--to", "otlp", "--endpoint", &url]);
    assert_eq!(exported.status.code(), Some(0), "{}", stderr(&exported));
    let said = stderr(&exported);
    assert!(
        said.contains("173 spans taken by the collector") && said.contains("7 rejected by it, 0 not delivered"),
        "{said}"
    );
    let bodies = served.join().map_err(|_| "the collector")?;
    assert!(bodies.len() == 2 && bodies[0] == bodies[1], "the same again");
    assert_eq!(bodies[1].matches("\"spanId\"").count(), 3 * REQUESTS);
    Ok(())
}

/// What went wrong, or it.
type Or<T> = Result<T, Box<dyn Error>>;

/// A collector of other people's classes that answers by gRPC; its address, and what it tells at its end.
fn grpc_collector(python: &Path, codes: &[&str]) -> Or<(String, impl FnOnce() -> Or<Value>)> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/collector.py");
    let mut child = Command::new(python).arg(script).args(codes).stdout(Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("its output")?).lines();
    let url = lines.next().ok_or("its address")??;
    let told = move || {
        let told = lines.next().ok_or("what it was sent")??;
        assert!(child.wait()?.success());
        Ok(serde_json::from_str(&told)?)
    };
    Ok((url, told))
}

#[test]
fn a_collector_gets_all_by_grpc_and_is_asked_again() -> Tested {
    let Some(python) = python() else {
        eprintln!("skipped: run scripts/install test");
        return Ok(());
    };
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), "shop", &script(5_000, 0));
    // UNAVAILABLE, then taken
    let (url, told) = grpc_collector(&python, &["14", "0"])?;
    let exported = run(&["export", &folder, "--to", "otlp", "--endpoint", &url, "--strict"]);
    let said = stderr(&exported);
    assert_eq!(exported.status.code(), Some(3), "{said}");
    let has = ["173 spans taken by the collector", "7 rejected by it, 0 not delivered"];
    assert!(has.iter().all(|h| said.contains(h)), "{said}");
    let all = 3 * REQUESTS;
    assert_eq!(told()?, json!({ "spans": [all, all], "parents": 2 * REQUESTS, "same": true }));
    // INVALID_ARGUMENT: the same is not sent again
    let (url, told) = grpc_collector(&python, &["3"])?;
    let refused = run(&["export", &folder, "--to", "otlp", "--endpoint", &url]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("answers gRPC status 3: not now: 100 % busy"), "{}", stderr(&refused));
    assert_eq!(told()?["spans"], json!([all]));
    Ok(())
}

#[test]
fn what_does_not_speak_grpc_is_named() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), "shop", &script(0, 0));
    // as often as it is tried
    let (url, served) = collector(&["HTTP/1.1 400 Bad Request\r\n\r\n"; 4])?;
    let url = url.replace("http://", "grpc://").replace("/v1/traces", "");
    let refused = run(&["export", &folder, "--to", "otlp", "--endpoint", &url]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains(url.trim_start_matches("grpc://")), "{}", stderr(&refused));
    drop(served.join());
    Ok(())
}

#[test]
fn a_collector_that_is_not_there_or_refuses_is_named() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), "shop", &script(0, 0));
    let (url, served) = collector(&["HTTP/1.1 400 Bad Request\r\n\r\nno such thing"])?;
    let refused = run(&["export", &folder, "--to", "otlp", "--endpoint", &url]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("answers 400: no such thing"), "{}", stderr(&refused));
    drop(served.join());
    let wrong = run(&["export", &folder, "--to", "otlp", "--endpoint", "https://collector"]);
    assert!(wrong.status.code() == Some(1) && stderr(&wrong).contains("http://HOST"), "{}", stderr(&wrong));
    Ok(())
}

#[test]
fn flags_of_another_form_are_refused() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), "shop", &script(0, 0));
    for flags in [
        &["--to", "jaeger", "--protobuf"][..],
        &["--to", "jaeger", "--endpoint", "http://localhost"],
        &["--to", "pprof", "--difference"],
        &["--to", "otlp", "--no-exemplars"],
        &["--to", "folded", "--request", "slowest"],
        &["--to", "otlp", "--request", "slowest", "--longer-than", "1ms"],
        &["--to", "zipkin"],
        &["--to", "otlp", "--task", "store"],
        &["--to", "perfetto", "--request", "slowest", "--search", "store"],
    ] {
        let refused = run(&[&["export", folder.as_str()], flags].concat());
        assert_eq!(refused.status.code(), Some(2), "{flags:?}: {}", stderr(&refused));
    }
    let unknown = run(&["export", &folder, "--to", "otlp", "--kind", "GET /vot"]);
    assert!(unknown.status.code() == Some(1) && stderr(&unknown).contains("did you mean"), "{}", stderr(&unknown));
    Ok(())
}

/// What `wakepath export --to perfetto` said that it wrote: spans, intervals and arrows.
fn written(folder: &str, flags: &[&str]) -> Result<[u64; 3], Box<dyn std::error::Error>> {
    let output = run(&[&["export", folder, "--to", "perfetto"], flags].concat());
    assert!(output.status.success(), "{flags:?}: {}", stderr(&output));
    let said = stderr(&output);
    let count = |what: &str| -> Option<u64> {
        let before = &said[..said.find(&format!(" {what}"))?];
        before.rsplit(' ').next()?.replace('\u{202f}', "").parse().ok()
    };
    Ok([
        count("span").ok_or_else(|| said.clone())?,
        count("interval").ok_or_else(|| said.clone())?,
        count("arrow").ok_or_else(|| said.clone())?,
    ])
}

#[test]
fn tasks_and_a_time_are_exported_for_perfetto() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), "shop", &script(5_000, 0));
    let all = written(&folder, &[])?;
    let of = |flags: &[&str]| written(&folder, flags);
    let (store, front) = (of(&["--search", "store"])?, of(&["--task", "front"])?);
    assert!(store[1] > 0 && front[1] > 0);
    // each interval is of one task, and requests are exported with whichever
    assert_eq!((store[1] + front[1], store[0]), (all[1], all[0]));
    assert_eq!(of(&["--task", "store", "--task", "front"])?, all);
    let half = of(&["--from", "+300ms", "--until", "+600ms", "--search", "store"])?;
    assert!(half[0] < all[0] && half[1] < store[1] && half[1] > 0, "{half:?} {store:?}");
    let nobody = run(&["export", &folder, "--to", "perfetto", "--task", "nobody"]);
    assert!(nobody.status.code() == Some(1) && stderr(&nobody).contains("no task with recorded waits matches"));
    Ok(())
}

#[test]
fn a_difference_scales_the_others_to_as_many() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), "shop", &script(5_000, 0));
    let both = run(&["export", &folder, "--to", "folded", "--difference", "--longer-than", "4ms"]);
    let (mut others, mut selected, mut slept) = (0_u64, 0_u64, (0, 0));
    for line in stdout(&both).lines() {
        let mut words = line.rsplitn(3, ' ');
        let (b, a): (u64, u64) = (words.next().ok_or("a number")?.parse()?, words.next().ok_or("a number")?.parse()?);
        (others, selected) = (others + a, selected + b);
        if words.next().is_some_and(|stack| stack.contains(";timer")) {
            slept = (slept.0 + a, slept.1 + b);
        }
    }
    // a tenth of the requests slept for 5 ms, of which the last microsecond is that until it ran; none of the others did
    assert_eq!(slept, (0, REQUESTS as u64 / 10 * 4_999_000));
    assert!(selected > others && others > 0, "{others} {selected}");
    Ok(())
}
