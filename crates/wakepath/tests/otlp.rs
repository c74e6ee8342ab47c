//! `--otlp`: what a collector is sent while a system is recorded is what an export of the recording says afterwards.

mod support;

use serde_json::Value;
use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use support::{Tested, run, stderr, stdout};

/// A front that asks a back for each of its requests, and four clients, for so many seconds.
const SYSTEM: &str = r#"
import http.client, os, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Quiet(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *_): pass
    def reply(self, body):
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
class Back(Quiet):
    def do_GET(self): self.reply(b"back")
class Front(Quiet):
    def do_GET(self):
        c = http.client.HTTPConnection("127.0.0.1", back.server_port)
        c.request("GET", "/stock"); self.reply(c.getresponse().read()); c.close()
back, front = ThreadingHTTPServer(("127.0.0.1", 0), Back), ThreadingHTTPServer(("127.0.0.1", 0), Front)
children = []
for server in (back, front):
    pid = os.fork()
    if pid == 0: server.serve_forever()
    children.append(pid)
end = time.time() + float(sys.argv[1])
def ask():
    c = http.client.HTTPConnection("127.0.0.1", front.server_port)
    while time.time() < end:
        c.request("GET", "/order"); assert c.getresponse().read() == b"back"
        time.sleep(0.004)
clients = [threading.Thread(target=ask) for _ in range(4)]
[c.start() for c in clients]; [c.join() for c in clients]
[os.kill(pid, 9) for pid in children]
"#;

/// Seconds: long enough that several segments were written, and read without those before.
const LASTS: &str = "9";

/// A span: trace, span and parent, service, name.
type Span = (String, String, String, String, String);

fn path(p: &Path) -> &str {
    p.to_str().expect("temporary paths are UTF-8")
}

fn has_python() -> bool {
    Command::new("python3").args(["-c", "import http.server"]).output().is_ok_and(|o| o.status.success())
}

/// The Python that has OpenTelemetry's classes: `$WAKEPATH_VENV`, or what `scripts/install test` made.
fn with_classes() -> Option<PathBuf> {
    let venv = std::env::var_os("WAKEPATH_VENV")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/venv"), PathBuf::from);
    let python = venv.join("bin/python");
    let has_all = Command::new(&python).args(["-c", "import grpc, opentelemetry.proto"]).output();
    has_all.is_ok_and(|o| o.status.success()).then_some(python)
}

/// The spans of OTLP's JSON.
fn spans(of: &Value) -> Vec<Span> {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let mut out = Vec::new();
    for resource in of["resourceSpans"].as_array().into_iter().flatten() {
        let attributes = resource["resource"]["attributes"].as_array().into_iter().flatten();
        let mut service = attributes.filter(|a| a["key"] == "service.name").map(|a| text(&a["value"]["stringValue"]));
        let service = service.next().unwrap_or_default();
        for span in resource["scopeSpans"][0]["spans"].as_array().into_iter().flatten() {
            let ids = ["traceId", "spanId", "parentSpanId"].map(|id| text(&span[id]));
            let [trace, id, parent] = ids;
            out.push((trace, id, parent, service.clone(), text(&span["name"])));
        }
    }
    out
}

/// What an export of the folder has, without habits.
fn exported(folder: &Path) -> Result<Vec<Span>, Box<dyn Error>> {
    let exported = run(&["export", path(folder), "--to", "otlp", "--evidence=shown"]);
    assert!(exported.status.success(), "{}", stderr(&exported));
    let mut out = Vec::new();
    for line in stdout(&exported).lines() {
        out.extend(spans(&serde_json::from_str(line)?));
    }
    Ok(out)
}

/// A collector that takes all, over HTTP; its address, and what each call had.
fn collector() -> Result<(String, Receiver<Value>), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}", listener.local_addr()?);
    let (tell, told) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            let mut reader = BufReader::new(stream);
            let (mut length, mut line) = (0, String::new());
            while reader.read_line(&mut line).is_ok_and(|n| n > 2) {
                if let Some(n) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = n.trim().parse().unwrap_or(0);
                }
                line.clear();
            }
            let mut body = vec![0; length];
            let sent = reader.read_exact(&mut body).ok().and_then(|()| serde_json::from_slice(&body).ok());
            // before the answer: after it the recorder may end, and the test look at what came
            if tell.send(sent.unwrap_or_default()).is_err() {
                return;
            }
            let _ = reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
        }
    });
    Ok((url, told))
}

/// What was sent is in the export, each span once, and most of that was sent.
fn are_the_same(live: Vec<Span>, afterwards: Vec<Span>) {
    let (sent, wanted): (BTreeSet<&Span>, BTreeSet<&Span>) = (live.iter().collect(), afterwards.iter().collect());
    assert_eq!(live.len(), sent.len(), "a span was sent twice");
    let missing: Vec<_> = wanted.difference(&sent).collect();
    let invented: Vec<_> = sent.difference(&wanted).take(5).collect();
    assert!(invented.is_empty(), "{} spans; other {invented:?}", sent.len());
    // what it read before all of it was there may lack spans (docs/limits.md); none may be another's
    let few: Vec<_> = missing.iter().take(5).collect();
    assert!(missing.len() * 2 < wanted.len(), "{} of {} missing, such as {few:?}", missing.len(), wanted.len());
    println!("{} of {} spans were not sent", missing.len(), wanted.len());
    let children = live.iter().filter(|s| !s.2.is_empty()).count();
    assert!(live.len() > 1000 && children > 600, "{} spans, {children} with a parent", live.len());
}

/// Segments of a folder.
fn segments(folder: &Path) -> usize {
    let hosts = fs::read_dir(folder.join("hosts")).expect("hosts").flatten();
    let files = hosts.flat_map(|h| fs::read_dir(h.path()).expect("a host").flatten());
    files.filter(|f| f.path().extension().is_some_and(|e| e == "seg")).count()
}

/// Whether the library lies beside the command, which looks for it there.
fn put_library() {
    let tests = std::env::current_exe().expect("a test knows its own path");
    let name = "libwakepath_preload.so";
    let (built, wanted) = (tests.with_file_name(name), Path::new(env!("CARGO_BIN_EXE_wakepath")).with_file_name(name));
    let part = wanted.with_extension(format!("part-{}", std::process::id()));
    fs::copy(&built, &part).and_then(|_| fs::rename(&part, &wanted)).unwrap_or_else(|e| panic!("{built:?}: {e}"));
}

/// Each recorder reads along while it records, and two processors are few for two of them; what it reads early it may send
/// with fewer spans than an export has afterwards (docs/limits.md).
static ONE_RECORDER: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_RECORDER.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn what_run_sends_meanwhile_is_what_an_export_has() -> Tested {
    let _alone = alone();
    if !has_python() {
        println!("skipped: no python3 here");
        return Ok(());
    }
    put_library();
    let dir = tempfile::tempdir()?;
    let folder = dir.path().join("t");
    let (url, told) = collector()?;
    let run = run(&["run", "--observe", "--otlp", &url, "-o", path(&folder), "--", "python3", "-c", SYSTEM, LASTS]);
    let said = stderr(&run);
    assert!(run.status.success() && said.contains("traces sent to") && !said.contains("NOT SENT"), "{said}");
    assert!(segments(&folder) > 1, "nothing was read in parts");
    let live: Vec<Span> = told.try_iter().flat_map(|body| spans(&body)).collect();
    are_the_same(live, exported(&folder)?);
    Ok(())
}

#[test]
fn what_record_sends_by_grpc_is_what_an_export_has() -> Tested {
    let _alone = alone();
    let Some(python) = with_classes().filter(|_| has_python()) else {
        println!("skipped: run scripts/install test");
        return Ok(());
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/collector.py");
    let mut collector =
        Command::new(python).arg(script).arg("all").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(collector.stdout.take().ok_or("its output")?).lines();
    let url = lines.next().ok_or("its address")??;
    let dir = tempfile::tempdir()?;
    let folder = dir.path().join("t");
    let recorded = run(&["record", "--otlp", &url, "-o", path(&folder), "--", "python3", "-c", SYSTEM, LASTS]);
    let said = stderr(&recorded);
    drop(collector.stdin.take());
    if !recorded.status.success() && ["needs CAP", "lacks", "refused"].iter().any(|t| said.contains(t)) {
        println!("skipped: {}", said.trim());
        collector.wait()?;
        return Ok(());
    }
    assert!(recorded.status.success() && !said.contains("NOT SENT"), "{said}");
    let told: Vec<Vec<Value>> = serde_json::from_str(&lines.next().ok_or("what it was sent")??)?;
    collector.wait()?;
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let live = told.iter().map(|s| (text(&s[0]), text(&s[1]), text(&s[2]), text(&s[3]), text(&s[4]))).collect();
    assert!(segments(&folder) > 1, "nothing was read in parts");
    are_the_same(live, exported(&folder)?);
    Ok(())
}

#[test]
fn a_collector_that_is_not_there_stops_nothing_and_what_it_misses_is_counted() -> Tested {
    let _alone = alone();
    if !has_python() {
        println!("skipped: no python3 here");
        return Ok(());
    }
    put_library();
    let dir = tempfile::tempdir()?;
    let folder = dir.path().join("t");
    // bound and closed again: nobody listens there
    let url = format!("http://{}", TcpListener::bind("127.0.0.1:0")?.local_addr()?);
    let run_ = run(&["run", "--observe", "--otlp", &url, "-o", path(&folder), "--", "python3", "-c", SYSTEM, "1"]);
    let said = stderr(&run_);
    assert!(run_.status.success() && said.contains("is a collector listening there?; recording continues"), "{said}");
    let undelivered = said.split("NOT SENT: ").nth(1).and_then(|s| s.split(' ').next()).ok_or(said.clone())?;
    let info = stdout(&run(&["info", path(&folder)]));
    assert!(info.contains("export.undelivered") && info.contains(undelivered), "{undelivered}: {info}");
    let wrong = run(&["run", "--otlp", "https://collector", "-o", path(&folder), "--", "true"]);
    assert!(wrong.status.code() == Some(2) && stderr(&wrong).contains("http://HOST"), "{}", stderr(&wrong));
    Ok(())
}
