//! The network vantage as people use it: files, standard input, interfaces, and rows that are sent on to a collector.

#[path = "sniff/capture.rs"]
mod capture;
#[path = "sniff/collect.rs"]
mod collect;
#[path = "sniff/forged.rs"]
mod forged;
#[path = "sniff/packets.rs"]
mod packets;
#[path = "sniff/relay.rs"]
mod relay;
mod support;

use capture::{BEGIN, shop};
use collect::{collected, collector, forward};
use relay::{TcpRelay, UdpRelay};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};
use support::{Tested, check, run, stderr, stdout, wakepath, widest};
use wakepath_model::defects::id as defect;
use wakepath_model::folder::Folder;
use wakepath_model::rows::{Event, ExchangeKind, FlowRowKind, Table};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

fn path(p: &Path) -> &str {
    p.to_str().expect("temporary paths are UTF-8")
}

/// A process that goes with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// Starts the command and waits until it is ready; none and what it said where it ends before.
    fn start(args: &[&str], ready: &Path, stdin: Stdio) -> Result<Running, String> {
        let mut command = wakepath(args);
        command.arg("--ready-file").arg(ready).stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = Running(command.spawn().expect("it starts"));
        let begun = Instant::now();
        while std::fs::metadata(ready).map_or(0, |m| m.len()) == 0 {
            if running.0.try_wait().expect("it is ours").is_some() {
                return Err(stderr(&running.output()));
            }
            assert!(begun.elapsed() < PATIENCE, "{args:?} is not ready");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(running)
    }

    /// Asks it to end, as Ctrl-C does, and waits.
    fn interrupt(self) -> Output {
        // SAFETY: signals a child of ours that was not waited for.
        unsafe { libc::kill(self.0.id() as i32, libc::SIGINT) };
        self.ended()
    }

    /// Waits until it ends.
    fn ended(mut self) -> Output {
        let begun = Instant::now();
        while self.0.try_wait().expect("it is ours").is_none() {
            assert!(begun.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        self.output()
    }

    fn output(&mut self) -> Output {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let _ = self.0.stdout.as_mut().map(|s| s.read_to_end(&mut out));
        let _ = self.0.stderr.as_mut().map(|s| s.read_to_end(&mut err));
        Output { status: self.0.wait().expect("it is ours"), stdout: out, stderr: err }
    }
}

/// All of a folder's exchanges and flows, each as a line, with its strings; sorted.
fn rows(folder: &Path) -> Vec<String> {
    let folder = Folder::open(&[folder]).expect("a folder");
    let mut lines = Vec::new();
    for host in folder.hosts() {
        for event in host.events(Table::SniffedExchange.into(), ..) {
            let Event::SniffedExchange(mut r) = event else { continue };
            let texts = [r.protocol, r.verb, r.target, r.detail].map(|id| host.text(id).to_owned());
            (r.protocol, r.verb, r.target, r.detail) = Default::default();
            lines.push(format!("{texts:?} {r:?}"));
        }
        for event in host.events(Table::SniffedFlow.into(), ..) {
            let Event::SniffedFlow(mut r) = event else { continue };
            let texts = [r.protocol, r.reason].map(|id| host.text(id).to_owned());
            (r.protocol, r.reason) = Default::default();
            lines.push(format!("{texts:?} {r:?}"));
        }
    }
    lines.sort();
    lines
}

/// Losses of a folder by defect.
fn losses(folder: &Path) -> BTreeMap<String, u64> {
    let folder = Folder::open(&[folder]).expect("a folder");
    let mut sum = BTreeMap::new();
    for host in folder.hosts() {
        for event in host.events(Table::Loss.into(), ..) {
            let Event::Loss(r) = event else { continue };
            *sum.entry(host.text(r.what).to_owned()).or_default() += r.count;
        }
    }
    sum
}

/// Verb, target, status and service time of each exchange that was answered, in order of time.
fn answered(folder: &Path, port: u16) -> Vec<(String, u16, u64)> {
    let folder = Folder::open(&[folder]).expect("a folder");
    let mut flows = BTreeSet::new();
    let mut found = Vec::new();
    for host in folder.hosts() {
        for event in host.events(Table::SniffedFlow.into(), ..) {
            let Event::SniffedFlow(r) = event else { continue };
            if r.server_port == port {
                flows.insert(r.flow.0);
            }
        }
        for event in host.events(Table::SniffedExchange.into(), ..) {
            let Event::SniffedExchange(r) = event else { continue };
            if r.what == ExchangeKind::Answered && flows.contains(&r.flow.0) {
                let asked = format!("{} {}", host.text(r.verb), host.text(r.target));
                found.push((r.request_first, asked, r.status, r.reply_head.0 - r.request_head.0));
            }
        }
    }
    found.sort();
    found.into_iter().map(|(_, asked, status, took)| (asked, status, took)).collect()
}

/// A capture file of a small shop, and what is in it.
fn shop_file(dir: &Path) -> PathBuf {
    let file = dir.join("shop.pcap");
    std::fs::write(&file, shop(12, 40).bytes()).expect("it is written");
    file
}

const ALL: usize = 12 * 40;

/// Sniffs a file into a folder.
fn sniff_file(file: &Path, folder: &Path) -> Output {
    let output = run(&["sniff", "--pcap", path(file), "-o", path(folder)]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    output
}

#[test]
fn a_file_becomes_a_folder_that_all_questions_read() -> Tested {
    let dir = tempfile::tempdir()?;
    let (file, folder) = (shop_file(dir.path()), dir.path().join("t"));
    let output = sniff_file(&file, &folder);
    assert!(output.stdout.is_empty() && stderr(&output).contains("480 exchanges"), "{}", stderr(&output));
    let found = answered(&folder, 80);
    assert_eq!(found.len(), ALL);
    for (i, (asked, status, took)) in found.iter().enumerate() {
        let i = i as u64 % 40;
        assert_eq!(*status, if i % 10 == 9 { 503 } else { 200 }, "{asked}");
        // the paper's: last packet of the request's header to last packet of the reply's
        assert_eq!(*took, 10_000 + 1_000_000 + i * 1000, "{asked}");
    }
    assert!(found.iter().any(|f| f.0 == "GET /cart/{n}") && found.iter().all(|f| !f.0.contains("x=1")), "{found:?}");

    let info = run(&["info", path(&folder)]);
    let text = stdout(&info);
    assert_eq!(info.status.code(), Some(0), "{}", stderr(&info));
    for part in ["Host shop", "sniff --pcap", "2023-11-14T22:13:20", "sniffed_exchanges", "No losses"] {
        assert!(text.contains(part), "{part} is missing:\n{text}");
    }
    let document = check("info", &stdout(&run(&["info", "--json", "--verify", path(&folder)])));
    let sniffed = &document["hosts"][0]["sniffed"];
    let (protocol, flows, exchanges, failed) =
        (&sniffed[0]["protocol"], &sniffed[0]["flows"], &sniffed[0]["exchanges"], &sniffed[0]["failed"]);
    assert_eq!((protocol, flows, exchanges, failed), (&"proto.http1".into(), &12.into(), &ALL.into(), &48.into()));
    assert_eq!((&sniffed[0]["packets"], &sniffed[0]["missing_bytes"]), (&2448.into(), &0.into()));
    assert_eq!(run(&["tables", path(&folder)]).status.code(), Some(0));
    assert!(folder.join("tables/sniffed_exchanges.parquet").is_file());
    Ok(())
}

#[test]
fn the_answer_for_scripts_has_its_schema() -> Tested {
    let dir = tempfile::tempdir()?;
    let file = shop_file(dir.path());
    let output = run(&["sniff", "--pcap", path(&file), "--json"]);
    let document = check("sniff", &stdout(&output));
    assert_eq!((&document["exchanges"], &document["flows"]), (&ALL.into(), &12.into()), "{document}");
    assert_eq!((&document["from_ns"], &document["output"]), (&BEGIN.into(), &serde_json::Value::Null));
    assert_eq!(document["losses"], serde_json::json!([]));
    Ok(())
}

#[test]
fn without_a_destination_a_table_is_shown() -> Tested {
    let dir = tempfile::tempdir()?;
    let file = shop_file(dir.path());
    let output = run(&["sniff", "--pcap", path(&file)]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(text.contains("10.1.0.2:80") && text.contains("480") && widest(&text) <= 100, "{text}");
    Ok(())
}

#[test]
fn several_files_are_one_host_in_order_of_time() -> Tested {
    let dir = tempfile::tempdir()?;
    let whole = shop_file(dir.path());
    let bytes = std::fs::read(&whole)?;
    // every other packet in either file
    let mut parts = [bytes[..24].to_vec(), bytes[..24].to_vec()];
    let (mut at, mut i) = (24, 0);
    while at < bytes.len() {
        let length = 16 + u32::from_le_bytes(bytes[at + 8..at + 12].try_into()?) as usize;
        parts[i % 2].extend_from_slice(&bytes[at..at + length]);
        (at, i) = (at + length, i + 1);
    }
    let files = ["a.pcap", "b.pcap"].map(|n| dir.path().join(n));
    for (file, part) in files.iter().zip(&parts) {
        std::fs::write(file, part)?;
    }
    let (one, two) = (dir.path().join("one"), dir.path().join("two"));
    sniff_file(&whole, &one);
    let output = run(&["sniff", "--pcap", path(&files[0]), path(&files[1]), "-o", path(&two)]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(rows(&one), rows(&two));
    assert_eq!(Folder::open(&[&two])?.hosts().len(), 1);
    Ok(())
}

#[test]
fn standard_input_is_read_as_it_comes_and_ctrl_c_keeps_it() -> Tested {
    let dir = tempfile::tempdir()?;
    let (folder, ready) = (dir.path().join("t"), dir.path().join("ready"));
    let bytes = shop(12, 40).bytes().to_vec();
    // it looks at the first bytes before it is ready
    let mut command =
        wakepath(&["sniff", "--pcap", "-", "--metrics", ":0", "-o", path(&folder), "--ready-file", path(&ready)]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().ok_or("a pipe")?;
    let mut errors = child.stderr.take().ok_or("a pipe")?;
    let running = Running(child);
    input.write_all(&bytes[..bytes.len() / 2])?;
    input.flush()?;
    let address = metrics_address(&mut errors)?;
    // the input is open and half of it was written: what has come so far is told
    assert!(wait_for(|| requests_told(address).saturating_sub(200)) > 0);
    let output = running.interrupt();
    assert_eq!(output.status.code(), Some(0));
    drop(input);
    let found = answered(&folder, 80);
    assert!((200..=280).contains(&found.len()), "{}", found.len());

    let (file, all, piped) = (dir.path().join("a.pcap"), dir.path().join("all"), dir.path().join("piped"));
    std::fs::write(&file, &bytes)?;
    sniff_file(&file, &all);
    let mut child = wakepath(&["sniff", "--pcap", "-", "-o", path(&piped)]).stdin(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().ok_or("a pipe")?;
    for part in bytes.chunks(7777) {
        input.write_all(part)?;
    }
    drop(input);
    assert_eq!(Running(child).ended().status.code(), Some(0));
    assert_eq!(rows(&piped), rows(&all));
    Ok(())
}

/// A pipe that stays open and silent, after no more than its first bytes too, keeps nobody from ending it.
#[test]
fn sigterm_ends_the_reading_of_a_pipe_that_falls_silent() -> Tested {
    let dir = tempfile::tempdir()?;
    let bytes = shop(12, 40).bytes().to_vec();
    for (number, count) in [4, bytes.len() / 2, bytes.len()].into_iter().enumerate() {
        let (pipe, folder) = (dir.path().join(format!("pipe{number}")), dir.path().join(format!("t{number}")));
        let ready = dir.path().join(format!("ready{number}"));
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status()?.success());
        let args = ["sniff", "--pcap", path(&pipe), "-o", path(&folder), "--ready-file", path(&ready)];
        let running = Running(wakepath(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
        let mut input = std::fs::File::options().write(true).open(&pipe)?;
        input.write_all(&bytes[..count])?;
        assert_eq!(wait_for(|| usize::from(ready.exists())), 1, "{count}");
        std::thread::sleep(Duration::from_millis(200));
        let asked = Instant::now();
        // SAFETY: signals a child of ours that was not waited for.
        unsafe { libc::kill(running.0.id() as i32, libc::SIGTERM) };
        let output = running.ended();
        assert!(asked.elapsed() < Duration::from_secs(2), "{count} bytes: {:?}", asked.elapsed());
        assert_eq!(output.status.code(), Some(0), "{count}");
        drop(input);
        assert!(Folder::open(&[&folder]).is_ok(), "{count}");
    }
    Ok(())
}

/// The address that the command says Prometheus is answered at.
fn metrics_address(errors: &mut impl std::io::Read) -> Result<SocketAddr, Box<dyn std::error::Error>> {
    let mut text = String::new();
    let mut byte = [0];
    while !text.contains("/metrics\n") {
        errors.read_exact(&mut byte).map_err(|e| format!("{e}: {text}"))?;
        text.push(byte[0].into());
    }
    let (_, rest) = text.split_once("http://").ok_or("no address")?;
    Ok(rest.split('/').next().unwrap_or_default().parse()?)
}

fn scrape(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it answers");
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    text
}

/// Requests that Prometheus is told of.
fn requests_told(address: SocketAddr) -> usize {
    let count = |line: &str| line.rsplit(' ').next().and_then(|n| n.parse::<usize>().ok()).unwrap_or_default();
    scrape(address).lines().filter(|l| l.starts_with("wakepath_requests_total{")).map(count).sum()
}

/// Asks until there is some, or for as long as is bearable.
fn wait_for(mut count: impl FnMut() -> usize) -> usize {
    let begun = Instant::now();
    loop {
        let n = count();
        if n > 0 || begun.elapsed() > PATIENCE {
            return n;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_is_no_capture_says_so() -> Tested {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("x.pcap");
    for (bytes, wanted) in [(&b""[..], "is empty"), (b"hello world, this is a text", "not a packet capture")] {
        std::fs::write(&file, bytes)?;
        let output = run(&["sniff", "--pcap", path(&file), "-o", path(&dir.path().join("t"))]);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains(wanted), "{}", stderr(&output));
        assert!(!dir.path().join("t").exists(), "no folder is left behind");
    }
    for args in [
        &["sniff"][..],
        &["sniff", "--iface", "lo", "--pcap", "x"],
        &["sniff", "--pcap", "x", "--append"],
        &["sniff", "--pcap", "x", "--forward-by", "tcp"],
        &["sniff", "--iface", "lo", "--metrics", "nowhere"],
        &["collect", "--listen", "nowhere:"],
    ] {
        assert_eq!(run(args).status.code(), Some(2), "{args:?}");
    }
    let missing = run(&["sniff", "--pcap", path(&dir.path().join("missing"))]);
    assert!(missing.status.code() == Some(1) && stderr(&missing).contains("no such file"));
    Ok(())
}

#[test]
fn a_cut_file_is_read_up_to_the_cut_and_said() -> Tested {
    let dir = tempfile::tempdir()?;
    let (file, folder) = (dir.path().join("cut.pcap"), dir.path().join("t"));
    let bytes = shop(12, 40).bytes().to_vec();
    std::fs::write(&file, &bytes[..bytes.len() - 30])?;
    let output = run(&["sniff", "--pcap", path(&file), "-o", path(&folder), "--strict"]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("import.cut") && stderr(&output).contains("cut.pcap at byte"),
        "{}",
        stderr(&output)
    );
    assert_eq!(answered(&folder, 80).len(), ALL);
    assert_eq!(losses(&folder).len(), 1, "{:?}", losses(&folder));
    // a capture without a packet is a capture
    std::fs::write(&file, &bytes[..24])?;
    let none = run(&["sniff", "--pcap", path(&file), "--json"]);
    let document = check("sniff", &stdout(&none));
    assert_eq!((&document["packets"], &document["from_ns"]), (&0.into(), &serde_json::Value::Null));
    Ok(())
}

/// A server whose replies the capture lacks may well have answered.
#[test]
fn a_reply_that_was_not_captured_is_no_failure_and_does_not_hang() -> Tested {
    let dir = tempfile::tempdir()?;
    let (file, folder) = (dir.path().join("short.pcap"), dir.path().join("t"));
    std::fs::write(&file, shop(12, 40).cut_to(100))?;
    sniff_file(&file, &folder);
    let metrics = check("metrics", &stdout(&run(&["metrics", "--json", path(&folder)])));
    let missed = metrics["services"][0]["reply_missed"].as_u64().unwrap_or(0);
    assert!(missed > 100, "{metrics}");
    let requests = check("requests", &stdout(&run(&["requests", "--json", path(&folder)])));
    let sum =
        |of: &str| -> u64 { requests["kinds"].as_array().into_iter().flatten().filter_map(|k| k[of].as_u64()).sum() };
    assert_eq!([sum("unfinished"), sum("cut"), sum("reset"), sum("left")], [missed, 0, 0, 0], "{requests}");
    let text = stdout(&run(&["requests", path(&folder)]));
    assert!(text.contains("In parentheses:"), "{text}");
    let open = check("open", &stdout(&run(&["open", "--json", path(&folder)])));
    assert_eq!(open["requests"].as_array().map(Vec::len), Some(0), "{open}");
    let triage = stdout(&run(&["triage", path(&folder)]));
    assert!(triage.contains("(durations") && !triage.contains("record sniff"), "{triage}");
    Ok(())
}

/// A small file system, gone when this is.
struct Small(tempfile::TempDir);

impl Drop for Small {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_is_said_and_what_was_written_reads() -> Tested {
    let dir = tempfile::tempdir()?;
    let mount =
        std::process::Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "none"]).arg(dir.path()).output()?;
    if !mount.status.success() {
        println!("skipped: no right to mount a small file system");
        return Ok(());
    }
    let small = Small(dir);
    let elsewhere = tempfile::tempdir()?;
    let file = elsewhere.path().join("big.pcap");
    std::fs::write(&file, shop(100, 100).bytes())?;
    let folder = small.0.path().join("t");
    let output = run(&["sniff", "--pcap", path(&file), "-o", path(&folder)]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(said.contains("free space") && said.contains("are kept in"), "{said}");
    Folder::open(&[&folder])?;
    Ok(())
}

/// Moves this thread and what it starts to a network of its own, where nobody else sends; where it may not, it stays.
fn own_network() {
    // SAFETY: moves this thread alone.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0 {
        let up = std::process::Command::new("ip").args(["link", "set", "lo", "up"]).status();
        assert!(up.is_ok_and(|s| s.success()), "loopback of a network of its own");
    }
}

/// A real server on loopback, asked over real connections.
#[test]
fn every_request_on_an_interface_is_found() -> Tested {
    let dir = tempfile::tempdir()?;
    let (folder, ready) = (dir.path().join("t"), dir.path().join("ready"));
    own_network();
    let server = TcpListener::bind("127.0.0.1:0")?;
    let port = server.local_addr()?.port();
    let running = match Running::start(&["sniff", "--iface", "lo", "-o", path(&folder)], &ready, Stdio::null()) {
        Ok(running) => running,
        Err(said) if said.contains("CAP_NET_RAW") || said.contains("root") => {
            println!("skipped: {said}");
            return Ok(());
        }
        Err(said) => return Err(said.into()),
    };
    std::thread::spawn(move || {
        for stream in server.incoming().flatten() {
            std::thread::spawn(move || serve(stream));
        }
    });
    let mut asked = Vec::new();
    for c in 0..5 {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        for i in 0..20 {
            let status = if i % 7 == 3 { 500 } else { 200 };
            write!(stream, "GET /status/{status}?c={c} HTTP/1.1\r\nHost: x\r\n\r\n")?;
            let mut reply = vec![0; 4096];
            let mut got = 0;
            while !reply[..got].ends_with(b"end") {
                got += stream.read(&mut reply[got..])?;
            }
            asked.push(status);
        }
    }
    // a packet may wait in the kernel until its block is full or old enough
    wait_for(|| answered(&folder, port).len() / asked.len());
    let output = running.interrupt();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let found = answered(&folder, port);
    assert_eq!(found.iter().map(|f| f.1).collect::<Vec<_>>(), asked, "{}", stderr(&output));
    assert!(found.iter().all(|f| f.0 == "GET /status/{n}"), "{found:?}");
    assert_eq!(losses(&folder).get(defect::PACKET_DROP), None, "{:?}", losses(&folder));
    let folder = Folder::open(&[&folder])?;
    let host = &folder.hosts()[0];
    let ended = host
        .events(Table::SniffedFlow.into(), ..)
        .filter(|e| matches!(e, Event::SniffedFlow(r) if r.server_port == port && r.what == FlowRowKind::Begin))
        .count();
    assert_eq!(ended, 5);
    Ok(())
}

/// Answers each request with the status in its path.
fn serve(mut stream: TcpStream) {
    let mut head = Vec::new();
    let mut byte = [0];
    while stream.read(&mut byte).is_ok_and(|n| n == 1) {
        head.push(byte[0]);
        if head.ends_with(b"\r\n\r\n") {
            let text = String::from_utf8_lossy(&head).into_owned();
            let status = text.split(['/', '?']).nth(2).unwrap_or("400").to_owned();
            head.clear();
            let reply = format!("HTTP/1.1 {status} X\r\nContent-Length: 3\r\n\r\nend");
            if stream.write_all(reply.as_bytes()).is_err() {
                return;
            }
        }
    }
}
