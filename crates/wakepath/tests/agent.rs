//! `wakepath agent`: it records on, answers, keeps what triggers ask for, and outlives what ends others.

#[path = "agent/harness.rs"]
mod harness;
#[path = "agent/hosts.rs"]
mod hosts;
mod support;

use harness::{Agent, Ended, SOON, TOKEN, alone, ask, is_root, parts, service, start, until};
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};
use support::{Tested, run, stderr, stdout, wakepath};
use wakepath_model::defects::id as defect;
use wakepath_model::folder::Folder;
use wakepath_model::rows::Table;

/// Of a service on this port.
fn config(port: u16) -> String {
    format!(
        "[record]\nports = [{port}]\nwords = 'all'\n[http]\nlisten = '127.0.0.1:0'\nTOKEN_FILE\n[kept]\nbefore = '20s'\n[budget]\nevery = '500ms'\n"
    )
}

fn request(port: u16, path: &str) {
    let answered = ask(&format!("127.0.0.1:{port}"), "GET", path, "", None);
    assert!(answered.is_ok_and(|a| a.0 > 0), "the service answers");
}

fn until_served(port: u16) {
    until("the service listens", SOON, || TcpStream::connect(("127.0.0.1", port)).is_ok());
}

/// A port that is free now.
fn port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("it has one").port()
}

/// A service, its port, and an agent that records it.
fn watched(dir: &Path, config: impl Fn(u16) -> String) -> (Ended, u16, Agent) {
    let served = port();
    let service = service(served, None, &[]);
    until_served(served);
    let agent = start(dir, "one", &config(served), &[]);
    agent.until_recording();
    (service, served, agent)
}

/// How many requests of a folder's kind there are.
fn requests(folder: &Path, kind: &str) -> u64 {
    let output = run(&["requests", "--json", "--limit", "0", &folder.to_string_lossy()]);
    let answer: Value = serde_json::from_str(&stdout(&output)).unwrap_or_default();
    let kinds = answer["kinds"].as_array().cloned().unwrap_or_default();
    kinds.iter().filter(|k| k["asked"] == kind).filter_map(|k| k["count"].as_u64()).sum()
}

#[test]
fn check_prints_the_configuration_or_what_is_wrong_with_it() -> Tested {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("agent.toml");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/agent.toml");
    // the example is right but for the token, which is each user's own
    let token = dir.path().join("token");
    std::fs::write(&token, TOKEN)?;
    let text = std::fs::read_to_string(&example)?.replace("/etc/wakepath/token", &token.to_string_lossy());
    std::fs::write(&file, &text)?;
    let path = file.to_string_lossy().into_owned();
    let checked = run(&["agent", "--config", &path, "--check"]);
    assert!(checked.status.success(), "{}", stderr(&checked));
    let effective = stdout(&checked);
    std::fs::write(&file, &effective)?;
    assert_eq!(stdout(&run(&["agent", "--config", &path, "--check"])), effective);
    std::fs::write(&file, "folder = '/x'\n\n[ring]\nkep = '5m'\n")?;
    let wrong = run(&["agent", "--config", &path, "--check"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(stderr(&wrong).contains("agent.toml:4: unknown field `kep`"), "{}", stderr(&wrong));
    Ok(())
}

#[test]
fn it_records_answers_and_keeps() -> Tested {
    let _one = alone();
    if !is_root() {
        return Ok(());
    }
    let dir = tempfile::tempdir()?;
    let (_service, served, agent) = watched(dir.path(), config);
    (0..20).for_each(|_| request(served, "/vote"));
    answers_only_with_the_token(&agent)?;
    let cache = dir.path().join("cache");
    let asked = wakepath(&["requests", "--json", "--since=-5m", &format!("agent://{}", agent.address)])
        .env("WAKEPATH_TOKEN", TOKEN)
        .env("XDG_CACHE_HOME", &cache)
        .output()?;
    assert!(asked.status.success(), "{}", stderr(&asked));
    let answer: Value = serde_json::from_str(&stdout(&asked))?;
    assert_eq!(answer["kinds"][0]["count"], 20, "{answer:#}");
    assert!(stderr(&asked).contains("fetched"), "{}", stderr(&asked));
    // an operator, for a time that is kept then, and again for the same one
    let (status, answer) = agent.ask("POST", "/v1/trigger", r#"{"reason": "votes are slow"}"#);
    assert_eq!(status, 202, "{answer}");
    let kept = agent.kept(&answer);
    until("it is kept", SOON, || !parts(&kept).is_empty());
    assert_eq!(parts(&kept), [(String::new(), "here".to_owned())]);
    assert_eq!(requests(&kept, "GET /vote"), 20);
    let (_, again) = agent.ask("POST", "/v1/trigger", r#"{"at": "-10s"}"#);
    assert_eq!(
        (agent.kept(&again), serde_json::from_str::<Value>(&again)?["new"].clone()),
        (kept.clone(), false.into())
    );
    let info = stdout(&run(&["info", &kept.to_string_lossy()]));
    assert!(info.contains("votes are slow"), "{info}");
    alerts(&agent)?;
    assert_eq!((agent.metric("kept_folders"), agent.metric("up")), (2.0, 1.0));
    assert!(
        agent.metric("rows_total") > 100.0 && agent.metric("memory_bytes") > 1e6 && agent.metric("lost_total") == 0.0
    );
    assert!(agent.metric("oldest_timestamp_seconds") > 1e9 && agent.metric("processor_seconds_total") > 0.0);
    Ok(())
}

fn answers_only_with_the_token(agent: &Agent) -> Tested {
    for path in ["/metrics", "/v1/about", "/v1/window?from=-1m&to=-0s"] {
        for token in [None, Some("a-token-of-this-test-012345678x"), Some("")] {
            assert_eq!(ask(&agent.address, "GET", path, "", token)?.0, 401, "{path} {token:?}");
        }
    }
    for path in ["/v1/trigger", "/v1/alertmanager"] {
        assert_eq!(ask(&agent.address, "POST", path, "{}", Some("wrong"))?.0, 401, "{path}");
    }
    assert_eq!(ask(&agent.address, "GET", "/health", "", None)?.0, 200);
    for (path, wanted) in [
        ("/v1/window", 400),
        ("/v1/window?from=x&to=y", 400),
        ("/v1/window?from=-1m&to=-2m", 400),
        ("/v1/window?from=-2h&to=-0s", 400),
        ("/v1/window?from=1&to=2", 404),
        ("/v1/window/../../etc/passwd", 404),
        ("/secret", 404),
    ] {
        assert_eq!(agent.ask("GET", path, "").0, wanted, "{path}");
    }
    for body in ["{", r#"{"at": "soon"}"#, r#"{"at": 7}"#, r#"{"at": "+5s"}"#] {
        assert_eq!(agent.ask("POST", "/v1/trigger", body).0, 400, "{body}");
    }
    let wrong = wakepath(&["info", &format!("agent://{}", agent.address)]).env("WAKEPATH_TOKEN", "wrong").output()?;
    assert!(!wrong.status.success() && stderr(&wrong).contains("The token is missing or wrong"), "{}", stderr(&wrong));
    Ok(())
}

/// A message as Alertmanager sends it, and sends it again while the alert goes on.
fn alerts(agent: &Agent) -> Tested {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs();
    let at = |ago: u64| jiff_like(now - ago);
    let alert = |status: &str, name: &str, from: String, to: &str| {
        format!(
            r#"{{"status": "{status}", "labels": {{"alertname": "{name}", "severity": "page"}}, "annotations": {{}},
                "startsAt": "{from}", "endsAt": "{to}", "generatorURL": "", "fingerprint": "c0ffee"}}"#
        )
    };
    let message = format!(
        r#"{{"version": "4", "groupKey": "{{}}", "status": "firing", "receiver": "wakepath", "alerts": [{}, {}]}}"#,
        alert("firing", "CheckoutSlow", at(30), "0001-01-01T00:00:00Z"),
        alert("resolved", "Old", at(9000), &at(8000)),
    );
    for is_new in [true, false] {
        let (status, answer) = agent.ask("POST", "/v1/alertmanager", &message);
        assert_eq!(status, 202, "{answer}");
        let answer: Value = serde_json::from_str(&answer)?;
        let kept = answer["kept"].as_array().ok_or("a list")?;
        assert_eq!((kept.len(), &kept[0]["new"]), (1, &is_new.into()), "{answer}");
        let folder = agent.kept(&kept[0].to_string());
        until("it is kept", SOON, || !parts(&folder).is_empty());
    }
    for body in ["{}", "[]", r#"{"alerts": [{"status": "firing"}]}"#, "\u{1}"] {
        assert_eq!(agent.ask("POST", "/v1/alertmanager", body).0, 400, "{body}");
    }
    Ok(())
}

/// RFC 3339 of seconds since 1970.
fn jiff_like(seconds: u64) -> String {
    let output = std::process::Command::new("date").args(["-u", "-d", &format!("@{seconds}"), "+%FT%TZ"]).output();
    stdout(&output.expect("date is there")).trim().to_owned()
}

#[test]
fn what_ends_a_recorder_or_the_agent_costs_moments_that_are_counted() -> Tested {
    let _one = alone();
    if !is_root() {
        return Ok(());
    }
    let dir = tempfile::tempdir()?;
    let served = port();
    let _service = service(served, None, &[]);
    until_served(served);
    let mut agent = start(dir.path(), "one", &config(served), &[]);
    agent.until_recording();
    (0..5).for_each(|_| request(served, "/first"));
    std::thread::sleep(Duration::from_millis(1500));
    // the recorder alone
    let recorder = recorder_of(agent.process.0.id()).ok_or("a recorder")?;
    // SAFETY: a process that the agent of this test started.
    unsafe { libc::kill(recorder, libc::SIGKILL) };
    until("another recorder", SOON, || recorder_of(agent.process.0.id()).is_some_and(|r| r != recorder));
    until("it is counted", SOON, || agent.metric("restarts_total") == 1.0);
    agent.until_recording();
    (0..5).for_each(|_| request(served, "/second"));
    std::thread::sleep(Duration::from_millis(1500));
    // the agent: its recorder ends by itself, and well
    let recorder = recorder_of(agent.process.0.id()).ok_or("a recorder")?;
    agent.process.signal(libc::SIGKILL);
    agent.process.wait();
    until("the recorder ends", SOON, || !Path::new(&format!("/proc/{recorder}")).exists());
    let mut agent = start(dir.path(), "one", &config(served), &[]);
    agent.until_recording();
    (0..5).for_each(|_| request(served, "/third"));
    std::thread::sleep(Duration::from_millis(1500));
    let two = run(&["agent", "--config", &dir.path().join("one.toml").to_string_lossy()]);
    assert!(!two.status.success() && stderr(&two).contains("another agent uses it"), "{}", stderr(&two));
    agent.process.signal(libc::SIGTERM);
    assert_eq!(agent.process.wait(), 0, "{}", agent.said());
    let ring = agent.folder.join("ring");
    for kind in ["GET /first", "GET /second", "GET /third"] {
        assert_eq!(requests(&ring, kind), 5, "{kind}: {}", agent.said());
    }
    let folder = Folder::open(&[&ring])?;
    let host = &folder.hosts()[0];
    assert_eq!(host.recordings().len(), 3, "one for each recorder");
    let defects: Vec<_> = folder.defects().iter().map(|d| (d.defect.id, d.count)).collect();
    assert_eq!(defects, [(defect::FOLDER_NOT_ENDED, 1)], "only the recorder that was killed did not end");
    assert_eq!(host.pauses().len(), 2);
    assert!(host.row_count(Table::Op) > 0);
    Ok(())
}

#[test]
fn what_a_start_takes_is_not_over_budget() -> Tested {
    let _one = alone();
    if !is_root() {
        return Ok(());
    }
    let dir = tempfile::tempdir()?;
    // short, so that the check of the programs alone takes longer than it is patient
    let often = |port| config(port).replace("'500ms'", "'100ms'");
    let (_service, served, agent) = watched(dir.path(), often);
    request(served, "/vote");
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(agent.metric("lowered{detail=\"waits\"}"), 0.0, "{}", agent.said());
    assert!(!agent.said().contains("over budget"), "{}", agent.said());
    Ok(())
}

/// The process that an agent started.
fn recorder_of(agent: u32) -> Option<i32> {
    let children = std::fs::read_to_string(format!("/proc/{agent}/task/{agent}/children")).ok()?;
    children.split_ascii_whitespace().next()?.parse().ok()
}

#[test]
fn bad_clients_hold_up_nobody() -> Tested {
    let _one = alone();
    if !is_root() {
        return Ok(());
    }
    let dir = tempfile::tempdir()?;
    let agent = start(dir.path(), "one", &config(port()), &[]);
    agent.until_recording();
    let connect = || TcpStream::connect(&agent.address).expect("it listens");
    let mut held: Vec<TcpStream> = (0..40).map(|_| connect()).collect();
    for (i, stream) in held.iter_mut().enumerate() {
        let said: &[u8] = match i % 4 {
            0 => b"",
            1 => b"GET /metrics HTTP/1.1\r\nHost:",
            2 => b"\x16\x03\x01\x02\x00\x01\x00\xff\xfe",
            _ => b"POST /v1/trigger HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999999\r\n\r\n{",
        };
        let _ = stream.write_all(said);
    }
    let begun = Instant::now();
    assert!(agent.metric("up") == 1.0);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    // each is left, or told what is wrong, before long
    for stream in &mut held {
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        let _ = stream.read_to_end(&mut Vec::new());
    }
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    let mut seed = 7_u32;
    for _ in 0..200 {
        let mut bytes = [0; 300];
        bytes.iter_mut().for_each(|b| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *b = (seed >> 24) as u8;
        });
        let mut stream = connect();
        let _ = stream.write_all(&bytes);
    }
    let long = format!("GET /v1/window?from={}&to=x HTTP/1.1\r\n", "x".repeat(1 << 20));
    let _ = connect().write_all(long.as_bytes());
    assert_eq!((agent.metric("up"), agent.metric("restarts_total"), agent.metric("kept_folders")), (1.0, 0.0, 0.0));
    Ok(())
}

#[test]
fn rules_keep_what_failed_and_what_was_slow() -> Tested {
    let _one = alone();
    if !is_root() {
        return Ok(());
    }
    let dir = tempfile::tempdir()?;
    let rules = "[[trigger]]\non = 'failed'\n[[trigger]]\non = 'slow'\nabove = '200ms'\n";
    let with_rules = |port| format!("{}{rules}", config(port).replace("before = '20s'", "before = '1s'"));
    let (_service, served, agent) = watched(dir.path(), with_rules);
    let kept = || -> Vec<String> {
        let folders = std::fs::read_dir(agent.folder.join("kept")).into_iter().flatten().flatten();
        let mut said: Vec<String> = folders.map(|f| stdout(&run(&["info", &f.path().to_string_lossy()]))).collect();
        said.sort();
        said
    };
    (0..20).for_each(|_| request(served, "/vote"));
    request(served, "/fail");
    // looks take a small share of a processor: on a busy machine there is a minute between them
    let soon = 5 * SOON;
    until("what failed is kept", soon, || kept().iter().any(|s| s.contains("failed: ") && s.contains("GET /fail")));
    assert!(!kept().iter().any(|s| s.contains("slow: ")), "nothing was slow");
    request(served, "/slow");
    until("what was slow is kept", soon, || kept().iter().any(|s| s.contains("slow: ") && s.contains("GET /slow")));
    assert_eq!((kept().len(), agent.metric("looks_failed_total")), (2, 0.0));
    Ok(())
}

#[test]
fn without_a_token_no_page_of_another_site_is_answered() -> Tested {
    let _one = alone();
    if !is_root() {
        return Ok(());
    }
    let dir = tempfile::tempdir()?;
    let (_service, _, agent) = watched(dir.path(), |port| config(port).replace("TOKEN_FILE\n", ""));
    // a name that somebody else made resolve to this machine
    for (host, expected) in [(&agent.address[..], "200"), ("evil.example:7412", "421")] {
        let mut stream = TcpStream::connect(&agent.address)?;
        stream.write_all(format!("GET /v1/about HTTP/1.0\r\nHost: {host}\r\n\r\n").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        assert_eq!(answer.split(' ').nth(1), Some(expected), "{answer}");
    }
    Ok(())
}
