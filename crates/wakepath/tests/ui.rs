//! `wakepath ui`: what it answers is what the commands print, and whom it does not answer.

#[path = "support/gateway.rs"]
mod gateway;
mod support;

use gateway::{folder, script};
use serde_json::Value;
use std::error::Error;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;
use support::{Tested, check, run, stderr, stdout, wakepath};

/// A server, ended with the test.
struct Page {
    child: Child,
    /// `127.0.0.1:PORT`.
    at: String,
    /// After the address.
    query: String,
}

/// What came back.
struct Reply {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Page {
    fn start(flags: &[&str]) -> Result<Page, Box<dyn Error>> {
        let mut child = wakepath(&[&["ui"], flags].concat()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("it has a standard output")?).read_line(&mut line)?;
        let rest = line.trim().strip_prefix("http://").ok_or_else(|| format!("an address: {line:?}"))?;
        let (at, query) = rest.split_once('/').ok_or("a path")?;
        Ok(Page { child, at: at.into(), query: query.into() })
    }

    fn ask(&self, path: &str) -> Result<Reply, Box<dyn Error>> {
        self.send("GET", path, &[("Host", &self.at)])
    }

    fn send(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Result<Reply, Box<dyn Error>> {
        let mut stream = TcpStream::connect(&self.at)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let lines: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        stream.write_all(format!("{method} {path} HTTP/1.1\r\n{lines}Connection: close\r\n\r\n").as_bytes())?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes)?;
        let end = bytes.windows(4).position(|w| w == b"\r\n\r\n").ok_or("a head")?;
        let head = String::from_utf8(bytes[..end].to_vec())?;
        let status = head.split(' ').nth(1).ok_or("a status")?.parse()?;
        let reply = Reply { status, head, body: bytes[end + 4..].to_vec() };
        match reply.header("transfer-encoding") {
            Some("chunked") => Ok(Reply { body: joined(&reply.body)?, ..reply }),
            _ => Ok(reply),
        }
    }

    /// How the downloads with marks ended.
    fn downloads(&self) -> Result<Vec<Value>, Box<dyn Error>> {
        Ok(serde_json::from_slice(&self.ask("/api/downloads")?.body)?)
    }
}

/// What was sent in chunks; refuses one that was cut off.
fn joined(mut rest: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut out = Vec::new();
    loop {
        let end = rest.windows(2).position(|w| w == b"\r\n").ok_or("a chunk's length")?;
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..end])?, 16)?;
        if length == 0 {
            return Ok(out);
        }
        out.extend_from_slice(rest.get(end + 2..end + 2 + length).ok_or("a whole chunk")?);
        rest = &rest[end + 2 + length + 2..];
    }
}

impl Reply {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|l| l.split_once(": ").filter(|(n, _)| n.eq_ignore_ascii_case(name))).map(|(_, v)| v)
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn decoded(text: &str) -> String {
    let (mut out, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, behind @ ..] = rest {
        let code = (*first == b'%').then(|| u8::from_str_radix(std::str::from_utf8(&behind[..2]).unwrap_or(""), 16));
        match code {
            Some(Ok(byte)) => {
                out.push(byte);
                rest = &behind[2..];
            }
            _ => {
                out.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[test]
fn each_answer_is_what_the_shown_command_prints() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), "it's a 'trace'", &script(5_000, 0));
    // the index is made once, so that both find it
    run(&["why", &folder]);
    let page = Page::start(&[&folder, "--bind", "127.0.0.1:0"])?;
    for (path, schema) in [
        ("/api/info", "info"),
        ("/api/brief", "brief"),
        ("/api/requests", "requests"),
        ("/api/requests?from=-300ms", "requests"),
        ("/api/flame?of=0&against=0", "flame"),
        ("/api/kinds_compared?from=%2B300ms&against-to=%2B300ms", "requests_compared"),
        ("/api/map_compared?kind=GET%20/vote&of=0&against=0&against-from=-300ms", "service_map_compared"),
        ("/api/why?from=%2B300ms&against-to=%2B300ms", "why"),
        ("/api/flame?from=%2B300ms&against-to=%2B300ms", "flame"),
        ("/api/each?limit=10&longer-than=1us", "each"),
        ("/api/map?kind=GET%20/vote", "service_map"),
        ("/api/over_time?columns=50&kind=GET%20/vote&from=%2B100ms", "over_time"),
        ("/api/common?longer-than=5ms&limit=5", "common"),
        ("/api/show?request=slowest&evidence=true", "show"),
        ("/api/waits?request=slowest", "waits"),
        ("/api/waits?task=store", "waits"),
        ("/api/why?kind=GET+%2Fvote&slowest=5%25", "why"),
        ("/api/why?longer-than=5ms&to=%2B10s", "why"),
        ("/api/timeline?limit=5&columns=100&task=store&task=front", "timeline"),
        ("/api/timeline?task=store&path=true&from=%2B100ms", "timeline"),
        ("/api/timeline?processors=true&limit=1&of=0", "timeline"),
        ("/api/timeline?syscalls=true&events=5&what=recv&limit=1", "timeline"),
        ("/api/flame?longer-than=4ms&difference=true", "flame"),
        ("/api/each?service=store:81&limit=3", "each"),
        ("/api/map?service=front:80&calls=store", "service_map"),
        ("/api/requests?service=store", "requests"),
        ("/api/why?service=store&longer-than=5ms", "why"),
        ("/api/flame?service=front&calls=store&difference=true&kind=GET+/vote", "flame"),
        ("/api/open", "open"),
        ("/api/triage", "triage"),
    ] {
        let reply = page.ask(path)?;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        check(schema, &reply.text());
        let command = decoded(reply.header("wakepath-command").ok_or("a command")?);
        let words = shell_words(&command);
        assert_eq!(words[0], "wakepath", "{command}");
        let at = if words.last().is_some_and(|w| w == "--evidence") { words.len() - 1 } else { words.len() };
        let mut args: Vec<&str> = words[1..].iter().map(String::as_str).collect();
        args.insert(at - 1, "--json");
        assert_eq!(stdout(&run(&args)), reply.text(), "{command}");
    }
    Ok(())
}

#[test]
fn in_short_is_what_info_counts() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), "t", &script(5_000, 0));
    let asked = |flags: &[&str]| -> Result<Value, Box<dyn Error>> {
        Ok(serde_json::from_str(&stdout(&run(&[&["info", &folder, "--json"], flags].concat())))?)
    };
    let (info, brief) = (asked(&[])?, asked(&["--brief"])?);
    let counted: Vec<&Value> = info["hosts"].as_array().ok_or("hosts")?.iter().collect();
    assert_eq!(brief["hosts"].as_array().map(Vec::len), Some(counted.len()));
    let mut rows = 0;
    for table in brief["tables"].as_array().ok_or("tables")? {
        let of =
            |host: &&Value| host["tables"].as_array()?.iter().find(|t| t["table"] == table["table"])?["rows"].as_u64();
        assert_eq!(table["rows"].as_u64(), Some(counted.iter().filter_map(of).sum()), "{table}");
        rows += table["rows"].as_u64().ok_or("a count")?;
    }
    assert!(rows > 0 && brief["rows"] == rows, "{brief}");
    let span = &counted[0]["span"];
    assert_eq!(brief["hosts"][0]["duration_ns"], span["duration_ns"]);
    assert_eq!(brief["from_ns"], span["begin_wall_ns"]);
    assert_eq!((&brief["losses"], &brief["bytes"]), (&info["losses"], &counted[0]["bytes"]));
    let text = stdout(&run(&["info", &folder, "--brief"]));
    assert!(text.contains("The recordings report no lost data") && text.contains("operations"), "{text}");
    Ok(())
}

#[test]
fn what_was_read_once_is_kept_for_the_next_server_until_the_recording_changes() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), "t", &script(5_000, 0));
    let kept = || std::fs::read_dir(format!("{folder}/cache/answers")).map_or(0, |all| all.flatten().count());
    let ask = |path: &str| Page::start(&[&folder, "--bind", "127.0.0.1:0"])?.ask(path);
    let first = ask("/api/each?limit=10")?;
    assert_eq!((first.status, kept()), (200, 1), "{}", first.text());
    // so that it is seen where the next answer comes from
    let file = std::fs::read_dir(format!("{folder}/cache/answers"))?.flatten().next().ok_or("a file")?.path();
    let at = std::fs::metadata(&file)?.modified()?;
    let again = ask("/api/each?limit=10")?;
    assert_eq!((again.text(), kept()), (first.text(), 1));
    assert!(std::fs::metadata(&file)?.modified()? > at, "it was used");
    ask("/api/brief")?;
    ask("/api/timeline")?;
    assert_eq!(kept(), 1, "what is made quickly is not kept");
    // a folder whose recording is another one: what was kept is refused
    let host = std::fs::read_dir(format!("{folder}/hosts"))?.flatten().next().ok_or("a host")?.path();
    let segments = std::fs::read_dir(host)?.flatten().map(|e| e.path());
    let segment = segments.into_iter().find(|p| p.extension().is_some_and(|e| e == "seg")).ok_or("a segment")?;
    let length = std::fs::metadata(&segment)?.len();
    std::fs::OpenOptions::new().write(true).open(&segment)?.set_len(length - 40)?;
    let cut = ask("/api/each?limit=10")?;
    assert_ne!(cut.text(), first.text());
    assert!(cut.text().contains("folder."), "the damage is told: {}", cut.text());
    Ok(())
}

#[test]
fn how_far_answers_are_is_told_as_the_document_says() -> Tested {
    let dir = tempfile::tempdir()?;
    let page = Page::start(&[&folder(dir.path(), "t", &script(5_000, 0)), "--bind", "127.0.0.1:0"])?;
    let reply = page.ask("/api/progress")?;
    assert_eq!((reply.status, reply.text().as_str()), (200, "[]"));
    Ok(())
}

#[test]
fn a_download_is_what_the_shown_command_writes() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), "it's a 'trace'", &script(5_000, 0));
    let page = Page::start(&[&folder, "--bind", "127.0.0.1:0"])?;
    for (path, media) in [
        ("otlp?longer-than=1us&mark=a", "application/x-ndjson"),
        ("otlp?request=slowest", "application/x-ndjson"),
        ("jaeger?kind=GET%20/vote&from=%2B100ms&until=%2B10s", "application/json"),
        ("perfetto?task=store&task=front&of=0", "application/octet-stream"),
        ("prometheus?with=outcome=ok", "text/plain; charset=utf-8"),
        ("folded", "text/plain; charset=utf-8"),
    ] {
        let reply = page.ask(&format!("/api/download/{path}"))?;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        assert_eq!(reply.header("content-type"), Some(media));
        assert_eq!(reply.header("content-disposition"), Some("attachment"));
        let words = shell_words(&decoded(reply.header("wakepath-command").ok_or("a command")?));
        let output = run(&words[1..].iter().map(String::as_str).collect::<Vec<_>>());
        assert!(!reply.body.is_empty() && output.stdout == reply.body, "{path}: {words:?}");
    }
    let ended = page.downloads()?;
    assert_eq!(ended.len(), 1, "only those with a mark are remembered");
    assert_eq!((&ended[0]["mark"], &ended[0]["stage"]), (&"a".into(), &"done".into()));
    let said = ended[0]["said"].as_str().ok_or("what was written")?;
    assert!(said.contains(" requests, ") && said.contains(" spans"), "{said}");
    Ok(())
}

#[test]
fn a_bundle_is_downloaded_as_an_archive() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), "t", &script(5_000, 0));
    let page = Page::start(&[&folder, "--bind", "127.0.0.1:0"])?;
    let reply = page.ask("/api/download/bundle?request=slowest&mark=b")?;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let command = decoded(reply.header("wakepath-command").ok_or("a command")?);
    assert_eq!(command, format!("wakepath bundle {folder} slowest -o bundle"));
    let made = dir.path().join("bundle");
    wakepath_model::folder::read_archive(&mut &reply.body[..], &made, 1 << 30, &mut |_| {})?;
    let seen = |folder: &str| -> Result<Value, serde_json::Error> {
        serde_json::from_slice(&run(&["show", "--json", folder, "slowest"]).stdout)
    };
    let (here, there) = (seen(&folder)?, seen(made.to_str().ok_or("a name")?)?);
    assert_eq!(here["duration_ns"], there["duration_ns"]);
    assert_eq!(page.downloads()?[0]["stage"], "done");
    Ok(())
}

#[test]
fn a_download_that_fails_says_why() -> Tested {
    let dir = tempfile::tempdir()?;
    let page = Page::start(&[&folder(dir.path(), "t", &script(0, 0)), "--bind", "127.0.0.1:0"])?;
    for (path, status, part) in [
        ("nothing", 404, "nothing"),
        ("otlp?output=/etc/x", 400, "output"),
        ("otlp?endpoint=http://127.0.0.1", 400, "endpoint"),
        ("bundle", 400, "request"),
        ("otlp?of=7", 422, "there is no such folder"),
        ("otlp?from=soon", 422, "soon"),
        ("otlp?request=ffffffffffffffff", 422, "no request begins with"),
        ("perfetto?request=slowest&search=store", 422, "without --request"),
        ("bundle?request=ffffffffffffffff", 422, "no request begins with"),
        ("jaeger?kind=GET%20/nowhere&mark=c", 422, "no request of kind"),
    ] {
        let reply = page.ask(&format!("/api/download/{path}"))?;
        assert_eq!(reply.status, status, "{path}: {}", reply.text());
        let problem: Value = serde_json::from_slice(&reply.body)?;
        assert!(problem["error"].as_str().is_some_and(|e| e.contains(part)), "{path}: {problem}");
        assert_eq!(reply.header("content-disposition"), None, "{path}: it is no file");
    }
    let ended = page.downloads()?;
    assert_eq!(ended[0]["stage"], "failed");
    assert!(ended[0]["said"].as_str().is_some_and(|said| said.contains("no request of kind")), "{}", ended[0]);
    Ok(())
}

/// Words of a shell's command line; of its quoting only what is used.
fn shell_words(line: &str) -> Vec<String> {
    let (mut words, mut quoted, mut escaped) = (vec![String::new()], false, false);
    for c in line.chars() {
        let word = words.last_mut().expect("there is one");
        match c {
            _ if escaped => {
                word.push(c);
                escaped = false;
            }
            '\'' => quoted = !quoted,
            '\\' if !quoted => escaped = true,
            ' ' if !quoted => words.push(String::new()),
            _ => word.push(c),
        }
    }
    words
}

#[test]
fn what_is_no_question_is_refused() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), "t", &script(0, 0));
    let page = Page::start(&[&folder, "--bind", "127.0.0.1:0"])?;
    for (path, status) in [
        ("/", 200),
        ("/api/recording", 200),
        ("/api/nothing", 404),
        ("/api/requests?output=/etc", 400),
        ("/api/show", 400),
        ("/api/show?request=--help", 400),
        ("/api/show?request=ffffffffffffffff", 422),
        ("/api/each?limit=many", 422),
        ("/api/waits", 422),
        // a script is no system whose replay is as it was
        ("/api/forecast?next=2&change=cpu%20*%3D%2B1", 422),
        ("/api/forecast?change=cpu", 422),
        ("/../../etc/passwd", 404),
        ("/%2e%2e/%2e%2e/etc/passwd", 404),
        ("//etc/passwd", 404),
        ("/.gitignore", 404),
        ("/api/../Cargo.toml", 404),
        ("/index.html%00.js", 404),
    ] {
        let reply = page.ask(path)?;
        assert_eq!(reply.status, status, "{path}: {}", reply.text());
        assert!(!reply.text().contains("root:"), "{path}");
        for (name, part) in [
            ("content-security-policy", "default-src 'none'; script-src 'self'"),
            ("x-content-type-options", "nosniff"),
            ("cross-origin-resource-policy", "same-origin"),
            ("cache-control", "no-store"),
        ] {
            assert!(reply.header(name).is_some_and(|v| v.contains(part)), "{path}: {}", reply.head);
        }
        if status >= 400 {
            let problem: Value = serde_json::from_slice(&reply.body)?;
            assert!(problem["error"].as_str().is_some_and(|e| !e.is_empty()), "{path}: {problem}");
        }
    }
    let port = page.at.rsplit_once(':').ok_or("a port")?.1;
    for host in
        ["evil.example", &format!("evil.example:{port}"), "127.0.0.1:1", &format!("localhost.evil.example:{port}")]
    {
        assert_eq!(page.send("GET", "/api/requests", &[("Host", host)])?.status, 421, "{host}");
    }
    assert_eq!(page.send("GET", "/api/info", &[("Host", &page.at), ("Sec-Fetch-Site", "cross-site")])?.status, 403);
    assert_eq!(page.send("POST", "/api/info", &[("Host", &page.at), ("Content-Length", "0")])?.status, 405);
    Ok(())
}

#[test]
fn other_machines_need_the_token() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), "t", &script(0, 0));
    let output = run(&["ui", &folder, "--bind", "0.0.0.0:0"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("--token"), "{}", stderr(&output));
    let page = Page::start(&[&folder, "--bind", "127.0.0.1:0", "--token"])?;
    let token = page.query.strip_prefix("?token=").ok_or("a token")?;
    assert_eq!(token.len(), 32);
    for path in ["/", "/api/requests", "/?token=0123", &format!("/api/requests?token={token}")] {
        assert_eq!(page.ask(path)?.status, 401, "{path}");
    }
    let entry = page.ask(&format!("/?token={token}"))?;
    assert_eq!((entry.status, entry.header("location")), (303, Some("/")), "{}", entry.head);
    let cookie = entry.header("set-cookie").ok_or("a cookie")?;
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let cookie = cookie.split(';').next().ok_or("a value")?;
    for header in [("Cookie", cookie), ("Authorization", &format!("Bearer {token}"))] {
        assert_eq!(page.send("GET", "/api/requests", &[("Host", &page.at), header])?.status, 200, "{header:?}");
    }
    let other = page.send("GET", &format!("/?token={token}"), &[("Host", "evil.example")])?;
    assert_eq!((other.status, other.header("set-cookie")), (421, None));
    Ok(())
}

#[test]
fn what_cannot_be_served_is_said() -> Tested {
    let dir = tempfile::tempdir()?;
    let folder = folder(dir.path(), "t", &script(0, 0));
    let page = Page::start(&[&folder, "--bind", "127.0.0.1:0"])?;
    let taken = run(&["ui", &folder, "--bind", &page.at]);
    assert!(stderr(&taken).contains("in use") && stderr(&taken).contains("127.0.0.1:0"), "{}", stderr(&taken));
    let nothing = run(&["ui", "/nowhere", "--bind", "127.0.0.1:0"]);
    assert_eq!((nothing.status.code(), stdout(&nothing).as_str()), (Some(1), ""));
    Ok(())
}

#[test]
fn what_folders_hold_is_told_anew_after_they_changed() -> Tested {
    let dir = tempfile::tempdir()?;
    let path = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
    let (first, second, folder) = (path("a.marks"), path("b.marks"), path("t"));
    std::fs::write(&first, "wakepath-marks 1\n1 h a 0 enqueue q\n5 h a 0 state -\n")?;
    std::fs::write(&second, "wakepath-marks 1\n0 h b 0 wait_empty q\n3 h b 0 dequeue q\n3 h b 0 state -\n")?;
    assert!(run(&["import", &first, "-o", &folder]).status.success());
    let page = Page::start(&[&folder, "--bind", "127.0.0.1:0"])?;
    let told = || -> Result<String, Box<dyn Error>> {
        let reply = page.ask("/api/brief")?;
        assert_eq!(reply.text(), stdout(&run(&["info", "--brief", "--json", &folder])));
        Ok(reply.text())
    };
    let before = told()?;
    assert!(run(&["import", &second, "-o", &folder, "--append"]).status.success());
    assert_ne!(told()?, before);
    Ok(())
}
