//! Secrets of every form in every protocol, by every vantage: what stands in the folder, byte by byte.
//!
//! `privacy/traffic.py` says who says what. Here only default settings are tried: `docs/privacy.md` has the rule.

mod support;

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use support::{Tested, run, stderr, stdout, wakepath};
use wakepath_model::folder::Folder;
use wakepath_model::rows::{Event, MessageRole, Table};

const PROTOCOLS: [&str; 9] = ["http", "httptwo", "fastcgi", "postgres", "mysql", "redis", "mongo", "kafka", "amqp"];
const FORMS: [&str; 9] = [
    "ann.lee",
    "corp.example",
    "5551234",
    "d41d8cd98f00b204",
    "deadbeefcafe",
    "eyJhbGciOiJI",
    "c2lnbmF0dXJl",
    "QxKvBzJwMp",
    "0049-170",
];
const PATIENCE: Duration = Duration::from_secs(120);

/// The command with its defaults.
fn with_defaults(args: &[&str]) -> Command {
    let mut command = wakepath(args);
    command.env_remove("WAKEPATH_WORDS");
    command
}

fn traffic() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/privacy/traffic.py")
}

fn path(p: &Path) -> &str {
    p.to_str().expect("temporary paths are UTF-8")
}

/// Everything that stands in a folder: each file as it is, each frame of strings or heads decompressed, each table's cells.
fn all_bytes(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut dirs = vec![folder.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).expect("a folder").map(|e| e.expect("an entry").path()) {
            if entry.is_dir() {
                dirs.push(entry);
                continue;
            }
            let bytes = fs::read(&entry).expect("a file");
            if entry.extension().is_some_and(|e| e == "seg") {
                found.push((entry.clone(), decompressed(&bytes)));
            }
            if entry.extension().is_some_and(|e| e == "parquet") {
                let reader = SerializedFileReader::new(fs::File::open(&entry).expect("a file")).expect("a table");
                let rows = reader.get_row_iter(None).expect("rows").map(|row| row.expect("a row").to_string());
                found.push((entry.clone(), rows.collect::<Vec<_>>().join("\n").into_bytes()));
            }
            found.push((entry, bytes));
        }
    }
    found
}

/// The bodies of a segment's frames of strings and heads (`docs/formats/folder.md`).
fn decompressed(segment: &[u8]) -> Vec<u8> {
    let (mut at, mut out) = (64, Vec::new());
    while let Some(header) = segment.get(at..at + 64).filter(|h| h.starts_with(b"WkFr")) {
        let word = |i: usize| u32::from_le_bytes([header[i], header[i + 1], header[i + 2], header[i + 3]]) as usize;
        let body = &segment[at + 64..at + 64 + word(8)];
        match (header[4], header[5]) {
            (128.., 1) => out.extend(lz4_flex::block::decompress(body, word(12)).expect("a block")),
            (128.., _) => out.extend_from_slice(body),
            _ => {}
        }
        at += 64 + word(8);
    }
    assert_eq!(at, segment.len(), "frames up to the end");
    out
}

/// Whether a text stands in these bytes. Digits count where they stand alone: a time or a hash may have the same ones among others.
fn holds(bytes: &[u8], text: &str) -> bool {
    let text = text.as_bytes();
    let are_digits = text.iter().all(u8::is_ascii_digit);
    let is_digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    let stands_alone = |at: usize| !is_digit(at.checked_sub(1)) && !is_digit(Some(at + text.len()));
    let mut found = bytes.windows(text.len()).enumerate().filter(|(_, w)| w.eq_ignore_ascii_case(text));
    found.any(|(at, _)| !are_digits || stands_alone(at))
}

/// Searches a folder of the traffic. `vantage`: for messages.
fn check(vantage: &str, folder: &Path) -> Tested {
    let tables = run(&["tables", path(folder)]);
    assert!(tables.status.success(), "{}", stderr(&tables));
    let all = all_bytes(folder);
    let lands = |text: &str| all.iter().find(|(_, bytes)| holds(bytes, text)).map(|(file, _)| file.clone());
    for protocol in PROTOCOLS {
        for how in ["once", "five"] {
            assert_eq!(lands(&format!("{how}{protocol}zq")), None, "{vantage}: {how} in {protocol}");
        }
        assert!(lands(&format!("shared{protocol}")).is_some(), "{vantage}: {protocol} was not recorded");
    }
    for form in FORMS.into_iter().chain(["oncealonezq"]) {
        assert_eq!(lands(form), None, "{vantage}: {form}");
    }
    // names are as they were, also of requests from before their words recurred
    let folder = Folder::open(&[folder])?;
    let mut targets: Vec<String> = Vec::new();
    for host in folder.hosts() {
        for event in host.events(Table::Message.into(), ..).chain(host.events(Table::SniffedExchange.into(), ..)) {
            match event {
                Event::Message(m) if m.role == MessageRole::Request && m.sent == 0 => {
                    targets.push(host.text(m.target).to_owned())
                }
                Event::SniffedExchange(x) => targets.push(host.text(x.target).to_owned()),
                _ => {}
            }
        }
    }
    let count = |target: &str| targets.iter().filter(|t| *t == target).count();
    assert_eq!(count("/user/sharedhttp"), 18, "{vantage}: {targets:?}");
    assert_eq!(count("SET ROLE sharedpostgres"), 18, "{vantage}: {targets:?}");
    assert_eq!(["/ballot/{n}", "/standings", "/healthy"].map(count), [20; 3], "{vantage}");
    // of HTTP, HTTP/2 and FastCGI: three clients with eight forms (two of which are ids to the processor), and six secrets
    assert_eq!(count("/user/{value}") + count("/user/{id}"), 3 * (3 * 8 + 6), "{vantage}");
    Ok(())
}

/// The sniffer sees whatever passes the loopback: no other test's traffic may.
fn one_at_a_time() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn no_value_lands_by_the_kernel_vantage() -> Tested {
    let _one = one_at_a_time();
    let dir = tempfile::tempdir()?;
    let folder = dir.path().join("t");
    let script = traffic();
    let output = with_defaults(&["record", "-o", path(&folder), "--", "python3", path(&script)]).output()?;
    if !output.status.success() && ["needs CAP", "lacks", "refused"].iter().any(|t| stderr(&output).contains(t)) {
        println!("skipped: {}", stderr(&output).trim());
        return Ok(());
    }
    assert!(output.status.success(), "{}", stderr(&output));
    check("record", &folder)?;
    let requests = run(&["requests", path(&folder)]);
    let text = stdout(&requests);
    assert!(text.contains("GET /standings") && text.contains("GET /user/{value}"), "{text}");
    Ok(())
}

#[test]
fn no_value_lands_by_the_library_vantage() -> Tested {
    let _one = one_at_a_time();
    let tests = std::env::current_exe()?;
    let name = "libwakepath_preload.so";
    let wanted = Path::new(env!("CARGO_BIN_EXE_wakepath")).with_file_name(name);
    let part = wanted.with_extension(format!("part-{}", std::process::id()));
    fs::copy(tests.with_file_name(name), &part).and_then(|_| fs::rename(&part, &wanted))?;
    let dir = tempfile::tempdir()?;
    let folder = dir.path().join("t");
    let script = traffic();
    let output = with_defaults(&["run", "--observe", "-o", path(&folder), "--", "python3", path(&script)]).output()?;
    assert!(output.status.success(), "{}", stderr(&output));
    check("run", &folder)
}

#[test]
fn no_value_lands_by_the_network_vantage_or_is_sent_on() -> Tested {
    let _one = one_at_a_time();
    let dir = tempfile::tempdir()?;
    let (here, there) = (dir.path().join("here"), dir.path().join("there"));
    let start = |args: &[&str], ready: &Path| -> std::io::Result<std::process::Child> {
        let mut command = with_defaults(args);
        let mut child = command.arg("--ready-file").arg(ready).stderr(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        let begun = Instant::now();
        while fs::metadata(ready).map_or(0, |m| m.len()) == 0 && child.try_wait()?.is_none() {
            assert!(begun.elapsed() < PATIENCE, "{args:?} is not ready");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(child)
    };
    let end = |mut child: std::process::Child| -> std::io::Result<()> {
        // SAFETY: signals a child of ours that was not waited for.
        unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
        let begun = Instant::now();
        while child.try_wait()?.is_none() {
            assert!(begun.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    };
    let ready = dir.path().join("collects");
    let collector = start(&["collect", "--listen", "127.0.0.1:0", "-o", path(&there)], &ready)?;
    let to = fs::read_to_string(&ready)?.trim().to_owned();
    let ready = dir.path().join("sniffs");
    let args = ["sniff", "--iface", "lo", "-o", path(&here), "--forward", &to, "--forward-by", "tcp"];
    let sniffer = start(&args, &ready)?;
    if fs::metadata(&ready).is_err() {
        let output = sniffer.wait_with_output()?;
        end(collector)?;
        assert!(stderr(&output).contains("CAP_NET_RAW"), "{}", stderr(&output));
        println!("skipped: {}", stderr(&output).trim());
        return Ok(());
    }
    let traffic = Command::new("python3").arg(traffic()).stdin(Stdio::null()).status()?;
    assert!(traffic.success());
    std::thread::sleep(Duration::from_millis(500));
    end(sniffer)?;
    std::thread::sleep(Duration::from_millis(200));
    end(collector)?;
    check("sniff", &here)?;
    check("collect", &there)
}
