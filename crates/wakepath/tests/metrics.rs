//! `wakepath metrics` end to end: rows of a sniffer in a folder, capture files, folders without packets; as text, as JSON by the
//! schema, and as Prometheus reads it. `UPDATE_GOLDEN=1` writes the golden texts anew.

mod support;

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use support::{Tested, check, run, stderr, stdout, widest};
use wakepath_testkit::data;
use wakepath_testkit::recording::Cuts;
use wakepath_testkit::shapes::{Plan, Shape, simulate};
use wakepath_testkit::sniffed::Script;

fn path(p: &Path) -> &str {
    p.to_str().expect("temporary paths are UTF-8")
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/ana.metrics")
}

/// The rows of a golden case as a folder.
fn folder_of(case: &Path, dir: &Path) -> PathBuf {
    let text = std::fs::read_to_string(case.join("input.txt")).expect("input.txt");
    let folder = dir.join(case.file_name().expect("a name"));
    Script::read(&text).write(&folder).expect("written");
    folder
}

/// A sample of the text format: name, labels, value.
type Sample = (String, BTreeMap<String, String>, f64);

/// Reads the text format of Prometheus as strictly as its own parser: each family announced once, before its samples, which
/// stand together; names and labels well formed; no sample twice; histograms cumulative up to their count.
fn parse(text: &str) -> Vec<Sample> {
    let mut out: Vec<Sample> = Vec::new();
    let mut families: BTreeMap<String, String> = BTreeMap::new();
    let mut current = String::new();
    let mut seen = BTreeSet::new();
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a help text");
            assert!(!help.is_empty() && !families.contains_key(name), "{line}");
            current = name.to_owned();
            continue;
        }
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type");
            assert!(name == current && matches!(kind, "counter" | "gauge" | "histogram"), "{line}");
            assert!(kind != "counter" || name.ends_with("_total"), "{line}");
            families.insert(name.to_owned(), kind.to_owned());
            continue;
        }
        let (name, labels, value) = sample(line);
        let kind = families.get(&current).unwrap_or_else(|| panic!("no type before: {line}"));
        let own = match kind.as_str() {
            "histogram" => ["_bucket", "_sum", "_count"].iter().any(|s| name == format!("{current}{s}")),
            _ => name == current,
        };
        assert!(own, "{name} in the family {current}");
        assert!(seen.insert((name.clone(), labels.clone())), "twice: {line}");
        out.push((name, labels, value));
    }
    type Series = (String, BTreeMap<String, String>);
    let mut buckets: BTreeMap<Series, Vec<(f64, f64)>> = BTreeMap::new();
    for (name, labels, value) in &out {
        if let Some(family) = name.strip_suffix("_bucket") {
            let mut labels = labels.clone();
            let le = labels.remove("le").expect("a bucket has a bound");
            let bound = if le == "+Inf" { f64::INFINITY } else { le.parse().expect("a number") };
            buckets.entry((family.to_owned(), labels)).or_default().push((bound, *value));
        }
    }
    for ((family, labels), of) in buckets {
        assert!(of.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 <= w[1].1), "{family} {labels:?}: {of:?}");
        let count = out.iter().find(|s| s.0 == format!("{family}_count") && s.1 == labels).expect("a count").2;
        assert_eq!(of.last(), Some(&(f64::INFINITY, count)), "{family} {labels:?}");
    }
    out
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn sample(line: &str) -> Sample {
    let end = line.find(['{', ' ']).unwrap_or_else(|| panic!("{line}"));
    let name = line[..end].to_owned();
    assert!(is_name(&name), "{line}");
    let mut labels = BTreeMap::new();
    let mut rest = &line[end..];
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("{line}"));
            assert!(is_name(label), "{label} in {line}");
            let (mut value, mut chars) = (String::new(), after.char_indices());
            let end = loop {
                match chars.next().unwrap_or_else(|| panic!("{line}")) {
                    (_, '\\') => match chars.next().map(|c| c.1) {
                        Some('n') => value.push('\n'),
                        Some(c @ ('\\' | '"')) => value.push(c),
                        other => panic!("{other:?} escaped in {line}"),
                    },
                    (i, '"') => break i,
                    (_, c) => value.push(c),
                }
            };
            assert!(labels.insert(label.to_owned(), value).is_none(), "{label} twice in {line}");
            rest = &after[end + 1..];
            match rest.strip_prefix(',') {
                Some(more) => rest = more,
                None => break,
            }
        }
        rest = rest.strip_prefix('}').unwrap_or_else(|| panic!("{line}"));
    }
    let value = rest.strip_prefix(' ').and_then(|v| v.parse().ok()).unwrap_or_else(|| panic!("{line}"));
    (name, labels, value)
}

#[test]
fn golden_rows_give_golden_answers() -> Tested {
    let dir = tempfile::tempdir()?;
    // the others are about bounds that the command does not set, or about several captures
    for name in ["shop", "network", "opaque", "outcome_unknown", "turned_around", "windows"] {
        let case = golden().join(name);
        let folder = folder_of(&case, dir.path());
        let asked: [(&str, &[&str]); 2] =
            [("text.txt", &["--map", "--window", "1s"]), ("prometheus.txt", &["--prometheus"])];
        for (file, flags) in asked {
            let output = run(&[&["metrics", path(&folder)], flags].concat());
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            let got = stdout(&output);
            if file == "prometheus.txt" {
                parse(&got);
            } else {
                assert!(widest(&got) <= 100, "{got}");
            }
            wakepath_testkit::golden::holds_as(&case, file, &got);
        }
    }
    Ok(())
}

#[test]
fn the_json_answer_keeps_its_schema() -> Tested {
    let dir = tempfile::tempdir()?;
    for case in std::fs::read_dir(golden())?.flatten() {
        let folder = folder_of(&case.path(), dir.path());
        for flags in [&[][..], &["--window", "1s"], &["--kinds", "1", "--service", "10.0.0.1"]] {
            let output = run(&[&["metrics", "--json", path(&folder)], flags].concat());
            assert_eq!(output.status.code(), Some(0), "{:?} {flags:?}: {}", case.path(), stderr(&output));
            let document = check("metrics", &stdout(&output));
            assert_eq!(document["schema"], "wakepath.metrics/1");
            assert_eq!(document["windows"].as_array().is_some_and(|w| w.is_empty()), !flags.contains(&"--window"));
        }
    }
    let again = tempfile::tempdir()?;
    let shop = folder_of(&golden().join("shop"), again.path());
    let document = check("metrics", &stdout(&run(&["metrics", "--json", path(&shop)])));
    let web = &document["services"][0];
    assert_eq!(
        (&web["service"], &web["requests"], &web["unanswered"]),
        (&"10.0.0.1:8080".into(), &5.into(), &1.into())
    );
    assert_eq!(web["success_rate"], 0.4);
    assert_eq!(web["service_time"]["max_ns"], 45_000_000);
    assert_eq!(web["http_classes"], serde_json::json!([0, 2, 0, 1, 1]));
    assert_eq!(web["network"]["handshake_server"]["p50_ns"], 200_000);
    assert_eq!(document["callers"][0]["client"], "10.0.0.9");
    Ok(())
}

#[test]
fn a_service_and_an_interval_may_be_asked_for() -> Tested {
    let dir = tempfile::tempdir()?;
    let shop = folder_of(&golden().join("shop"), dir.path());
    for wanted in ["10.0.0.2:3306", ":3306", "3306", "10.0.0.2"] {
        let text = stdout(&run(&["metrics", path(&shop), "--service", wanted]));
        assert!(text.contains("SELECT * FROM votes") && !text.contains("GET /vote"), "{wanted}: {text}");
    }
    let none = run(&["metrics", path(&shop), "--service", ":99"]);
    assert_eq!(none.status.code(), Some(1));
    assert!(stderr(&none).contains("10.0.0.1:8080"), "{}", stderr(&none));
    let some = check("metrics", &stdout(&run(&["metrics", "--json", path(&shop), "--from", "+40ms", "--to", "+96ms"])));
    assert_eq!(some["services"][0]["requests"], 2, "of 41 and of 95 ms");
    assert_eq!(some["span_ns"], 56_000_000);
    Ok(())
}

#[test]
fn lost_packets_are_said_first_and_strict_exits_3() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder_of(&golden().join("network"), dir.path());
    let output = run(&["metrics", path(&folder), "--strict"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(3));
    let lost = text.find("loss.packet × 3").ok_or("the loss is told")?;
    assert!(Some(lost) < text.find("success  4xx"), "{text}");
    let samples = parse(&stdout(&run(&["metrics", path(&folder), "--prometheus"])));
    let value = samples.iter().find(|s| s.0 == "wakepath_capture_lost_packets_total").map(|s| s.2);
    assert_eq!(value, Some(3.0));
    Ok(())
}

#[test]
fn label_values_of_foreign_bytes_are_escaped() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = dir.path().join("t");
    let text = "flow 1 begin 0 10.0.0.9:1 10.0.0.1:80\n\
                exchange 1 answered 9 proto.http1 GET /\"\\{\u{9b}\u{1b}[31m} status=200\n";
    Script::read(text).write(&folder)?;
    let figures = stdout(&run(&["metrics", path(&folder), "--prometheus"]));
    assert!(figures.chars().all(|c| c == '\n' || !c.is_control()), "{figures:?}");
    let samples = parse(&figures);
    // what a terminal would obey is spelt out
    let kind = "GET /\"\\{\\u{9b}\\u{1b}[31m}";
    assert!(
        samples.iter().any(|s| s.0 == "wakepath_requests_total" && s.1["kind"] == kind && s.2 == 1.0),
        "{samples:?}"
    );
    let text = stdout(&run(&["metrics", path(&folder)]));
    assert!(!text.contains(['\u{9b}', '\u{1b}']) && text.contains("GET /"), "{text}");
    Ok(())
}

#[test]
fn what_is_neither_folder_nor_capture_says_what_to_give() -> Tested {
    let dir = tempfile::tempdir()?;
    let (text, empty) = (dir.path().join("text"), dir.path().join("t"));
    std::fs::write(&text, "not a capture at all, though it is long enough to look like one")?;
    Script::read("").write(&empty)?;
    for (sources, said) in [
        (vec![text.as_path()], "not a packet capture"),
        (vec![&empty], "neither packets nor socket operations"),
        (vec![&empty, &text], "and not both"),
        (vec![Path::new("/nowhere/at/all")], "no such file"),
    ] {
        let sources: Vec<&str> = sources.into_iter().map(path).collect();
        let output = run(&[&["metrics"][..], &sources].concat());
        assert_eq!(output.status.code(), Some(1), "{sources:?}");
        assert!(output.stdout.is_empty() && stderr(&output).contains(said), "{sources:?}: {}", stderr(&output));
    }
    assert_eq!(run(&["metrics", "x", "--json", "--prometheus"]).status.code(), Some(2));
    Ok(())
}

#[test]
fn a_folder_without_packets_is_answered_from_its_endpoints() -> Tested {
    let dir = tempfile::tempdir()?;
    let folders = simulate(&Plan::new(Shape::ALL[0], 1)).write(&dir.path().join("t"), Cuts::default())?;
    let args: Vec<&str> =
        ["metrics", "--json", "--window", "100ms"].into_iter().chain(folders.iter().map(|f| path(f))).collect();
    let output = run(&args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let document = check("metrics", &stdout(&output));
    let services = document["services"].as_array().ok_or("services")?;
    assert!(services.iter().any(|s| s["seen"] == "server" && s["process"].is_string()), "{document}");
    for service in services {
        assert!(service["seen"] != "packets" && service["network"] == Value::Null, "{service}");
        assert!(service["last_byte"]["count"].as_u64() > Some(0), "{service}");
    }
    // what both ends saw is not counted twice
    let labels: BTreeSet<&str> = services.iter().filter_map(|s| s["service"].as_str()).collect();
    assert_eq!(labels.len(), services.len());
    let text = stdout(&run(&[&["metrics"], &args[4..]].concat()));
    assert!(text.contains("Times: at the server") && widest(&text) <= 100, "{text}");
    Ok(())
}

/// Captures, each with the service that is in it (any, where empty), and how many of its requests are answered.
type Captures<'c> = &'c [(PathBuf, &'c str, u64)];

/// Other people's.
const OTHERS: [(&str, &str, u64); 5] = [
    ("http-httpv1", "120.52.183.165:80", 1),
    ("mysql-mysql", "172.20.1.128:20130", 6),
    ("dns-a-and-ns", "10.50.100.81:53/udp", 2),
    ("redis-redis", "127.0.0.1:6379", 9),
    ("memcached-memcached", "", 1),
];

/// Our own.
const OWN: [(&str, &str, u64); 5] = [
    ("http1", "127.0.0.1:8080", 1),
    ("mysql", "127.0.0.1:3306", 6),
    ("dns-udp", "127.0.0.1:53/udp", 2),
    ("redis", "127.0.0.1:6379", 9),
    ("memcached", "127.0.0.1:11211", 1),
];

#[test]
fn capture_files_are_read_as_they_are() {
    let all = OWN.map(|(name, service, n)| (data::own(&format!("pcap/{name}.pcap")), service, n));
    are_read_as_they_are(&all);
}

#[test]
#[ignore = "needs WAKEPATH_DATA"]
fn others_capture_files_are_read_as_they_are() {
    let all = OTHERS.map(|(name, service, n)| (data::others(&format!("pcap/{name}.pcap")), service, n));
    are_read_as_they_are(&all);
}

/// The second and the fourth are not of the same time, in this order.
fn are_read_as_they_are(captures: Captures<'_>) {
    for (file, service, answered) in captures {
        let name = file.display();
        let document = check("metrics", &stdout(&run(&["metrics", "--json", path(file)])));
        let of: Vec<&Value> = document["services"].as_array().into_iter().flatten().collect();
        let found = of.iter().find(|s| s["service"] == *service || service.is_empty());
        let found = found.unwrap_or_else(|| panic!("{name}: no {service} in {document}"));
        let sum: u64 =
            ["succeeded", "rejected", "failed", "outcome_unknown"].iter().filter_map(|k| found[k].as_u64()).sum();
        assert!(sum >= *answered, "{name}: {sum} answered");
        assert!(found["service_time"]["count"].as_u64() >= Some(*answered), "{name}");
        parse(&stdout(&run(&["metrics", "--prometheus", path(file)])));
    }
    // one after the other is one capture; the other way round is none
    let (early, late) = (&captures[1].0, &captures[3].0);
    let both = check("metrics", &stdout(&run(&["metrics", "--json", path(early), path(late)])));
    assert!(both["services"].as_array().is_some_and(|s| s.len() >= 2), "{both}");
    let back = run(&["metrics", path(late), path(early)]);
    assert_eq!(back.status.code(), Some(1));
    assert!(stderr(&back).contains("in order of time"), "{}", stderr(&back));
}

/// Kinds apart: a folder writes words only that recur, and the capture has them all.
fn without_kinds(document: &Value) -> Value {
    let mut found = document.clone();
    for list in ["services", "windows"] {
        for entry in found[list].as_array_mut().into_iter().flatten() {
            if let Some(entry) = entry.as_object_mut() {
                entry.remove("kinds");
            }
            if let Some(rows) = entry["rows"].as_array_mut() {
                rows.retain(|r| r["asked"].is_null());
            }
        }
    }
    json!([found["services"], found["windows"], found["callers"], found["span_ns"]])
}

#[test]
fn a_capture_and_the_folder_made_of_it_have_the_same_windows() -> Tested {
    let dir = tempfile::tempdir()?;
    for (name, _, _) in OWN {
        let (file, folder) = (data::own(&format!("pcap/{name}.pcap")), dir.path().join(name));
        let sniffed = run(&["sniff", "--pcap", path(&file), "-o", path(&folder)]);
        assert_eq!(sniffed.status.code(), Some(0), "{}", stderr(&sniffed));
        for window in ["100us", "1ms", "1s"] {
            let ask = |of: &Path| {
                let output = run(&["metrics", "--json", "--window", window, path(of)]);
                without_kinds(&check("metrics", &stdout(&output)))
            };
            let (of_file, of_folder) = (ask(&file), ask(&folder));
            assert!(of_file[1].as_array().is_some_and(|w| !w.is_empty()), "{name}");
            assert_eq!(of_file, of_folder, "{name} by {window}");
        }
    }
    Ok(())
}

/// A capture of IP packets between 10.0.0.1 and 10.0.0.2, each with its time in microseconds, who sent it, and its TCP payload.
fn capture_of(ports: [u16; 2], said: &[(u32, bool, Vec<u8>)]) -> Vec<u8> {
    let mut file = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 101, 0, 0, 0];
    let mut next = [770_000u32, 990_000];
    for (i, (us, client, payload)) in said.iter().enumerate() {
        let own = usize::from(!client);
        let length = (40 + payload.len()) as u16;
        let mut packet = vec![0x45, 0];
        packet.extend(length.to_be_bytes());
        packet.extend((i as u16 + 1).to_be_bytes());
        packet.extend([0x40, 0, 64, 6, 0, 0, 10, 0, 0, own as u8 + 1, 10, 0, 0, 2 - own as u8]);
        packet.extend([ports[own], ports[1 - own]].map(u16::to_be_bytes).concat());
        packet.extend([next[own], next[1 - own]].map(u32::to_be_bytes).concat());
        packet.extend([0x50, 0x18, 4, 0, 0, 0, 0, 0]);
        packet.extend(payload);
        next[own] += payload.len() as u32;
        [1_700_000_000, *us, length.into(), length.into()].iter().for_each(|n| file.extend(n.to_le_bytes()));
        file.extend(packet);
    }
    file
}

#[test]
fn a_capture_and_the_folder_made_of_it_give_one_answer_where_flows_turn_out_to_go_the_other_way() -> Tested {
    let frame = |stream: u32, flags: u8, field: u8| {
        let mut frame = vec![0, 0, 1, 1, flags];
        frame.extend(stream.to_be_bytes());
        frame.push(field);
        frame
    };
    // after a reply, and from a port that is usual for servers
    let mut said = vec![(500, false, frame(3, 5, 0x88))];
    for i in 0..30u32 {
        said.push((1000 + i * 1000, true, frame(5 + 2 * i, 5, 0x82)));
        said.push((1400 + i * 1000, false, frame(5 + 2 * i, 5, 0x88)));
    }
    let dir = tempfile::tempdir()?;
    for ports in [[50_051, 61_616], [40_000, 61_616], [61_616, 50_051]] {
        let (file, folder) = (dir.path().join("c.pcap"), dir.path().join(format!("{}-{}", ports[0], ports[1])));
        std::fs::write(&file, capture_of(ports, &said))?;
        let sniffed = run(&["sniff", "--pcap", path(&file), "-o", path(&folder)]);
        assert_eq!(sniffed.status.code(), Some(0), "{}", stderr(&sniffed));
        let [of_file, of_folder] =
            [&file, &folder].map(|of| check("metrics", &stdout(&run(&["metrics", "--json", "--map", path(of)]))));
        assert_eq!(of_file["services"], of_folder["services"], "{ports:?}");
        assert_eq!(of_file["callers"], of_folder["callers"], "{ports:?}");
        let services: Vec<_> = of_file["services"].as_array().into_iter().flatten().collect();
        assert_eq!(services.len(), 1, "{services:?}");
        assert_eq!(services[0]["service"], format!("10.0.0.2:{}", ports[1]));
        assert_eq!((&services[0]["succeeded"], &services[0]["reply_only"]), (&30.into(), &1.into()));
    }
    Ok(())
}
