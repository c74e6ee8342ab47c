//! `wakepath run`, `attach-env`, `on`, `off` with the real library, as any user.

#[path = "support/annotated.rs"]
mod annotated;
#[path = "run/clocks.rs"]
mod clocks;
#[path = "run/disk.rs"]
mod disk;
#[path = "run/memory.rs"]
mod memory;
mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Once;
use support::{Tested, run, stderr, stdout, wakepath};
use wakepath_model::folder::{Folder, TableSet};
use wakepath_model::rows::{Event, InputRow, MessageRole, MessageRow, OpRow};

/// Two clients at once, each with its own request, to an event loop that asks itself for each: what is told of it.
const SERVER: &str = r#"
import os, select, socket, sys
s = socket.create_server(("127.0.0.1", 0)); port = s.getsockname()[1]
def ask(n):
    c = socket.create_connection(("127.0.0.1", port))
    for i in range(5):
        c.sendall(b"GET /%d/%d HTTP/1.1\r\nHost: a\r\n\r\nGET /%d/%dp HTTP/1.1\r\nHost: a\r\n\r\n" % (n, i, n, i))
        got = b""
        while got.count(b"ok") < 2: got += c.recv(100)
    c.close()
for n in range(4):
    if os.fork() == 0:
        ask(n)
        os._exit(0)
ep, conns, closed = select.epoll(), {}, 0
ep.register(s, select.EPOLLIN)
while closed < 4:
    for fd, ev in ep.poll(20, 64):
        if fd == s.fileno():
            c, _ = s.accept(); conns[c.fileno()] = c; ep.register(c, select.EPOLLIN)
            continue
        data = conns[fd].recv(1000)
        if not data:
            ep.unregister(fd); conns.pop(fd).close(); closed += 1
            continue
        for _ in range(data.count(b"GET")): conns[fd].sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
sys.exit(7)
"#;

/// Whether the tests can run; then the library lies beside the command, which looks for it there. Cargo builds it for the
/// tests, but puts it there only where it was itself asked for.
fn has_library() -> bool {
    static PUT: Once = Once::new();
    PUT.call_once(|| {
        let tests = std::env::current_exe().expect("a test knows its own path");
        let name = "libwakepath_preload.so";
        let (built, wanted) =
            (tests.with_file_name(name), Path::new(env!("CARGO_BIN_EXE_wakepath")).with_file_name(name));
        // by another name first: a program that starts meanwhile finds the old one or the new one
        let part = wanted.with_extension(format!("part-{}", std::process::id()));
        fs::copy(&built, &part).and_then(|_| fs::rename(&part, &wanted)).unwrap_or_else(|e| panic!("{built:?}: {e}"));
    });
    let asked = Command::new("python3").args(["-c", "import select"]).stderr(Stdio::null()).status();
    let able = asked.is_ok_and(|s| s.success());
    if !able {
        println!("skipped: no python3 here");
    }
    able
}

fn path(p: &Path) -> &str {
    p.to_str().expect("temporary paths are UTF-8")
}

struct Rows {
    ops: Vec<OpRow>,
    inputs: Vec<InputRow>,
    messages: Vec<MessageRow>,
    losses: Vec<(String, u64)>,
}

fn rows(folder: &Path) -> Rows {
    let folder = Folder::open(&[folder]).expect("a trace folder");
    let mut rows = Rows { ops: vec![], inputs: vec![], messages: vec![], losses: vec![] };
    for host in folder.hosts() {
        for event in host.events(TableSet::ALL, ..) {
            match event {
                Event::Op(r) => rows.ops.push(r),
                Event::Input(r) => rows.inputs.push(r),
                Event::Message(r) => rows.messages.push(r),
                Event::Loss(r) => rows.losses.push((host.text(r.what).to_owned(), r.count)),
                _ => {}
            }
        }
    }
    rows
}

#[test]
fn a_command_runs_isolated_and_its_status_is_passed_on() -> Tested {
    if !has_library() {
        return Ok(());
    }
    let dir = tempfile::tempdir()?;
    let folder = dir.path().join("t");
    let output = run(&["run", "-o", path(&folder), "--", "python3", "-c", SERVER]);
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    assert!(stderr(&output).contains("recorded "), "{}", stderr(&output));
    let rows = rows(&folder);
    let received = rows.messages.iter().filter(|m| m.role == MessageRole::Request && m.sent == 0).count();
    assert_eq!(received, 40, "each of the pipelined requests is one");
    assert!(rows.inputs.iter().all(|i| i.isolated == 1) && rows.inputs.len() >= 44, "{} inputs", rows.inputs.len());
    let lost: Vec<_> = rows.losses.iter().filter(|l| l.0.starts_with("loss.")).collect();
    assert!(lost.is_empty(), "{lost:?}");
    let again = run(&["run", "-o", path(&folder), "--", "true"]);
    assert!(!again.status.success() && stderr(&again).contains("--append"), "{}", stderr(&again));
    let requests = run(&["requests", path(&folder)]);
    assert!(stdout(&requests).contains("GET"), "{}", stdout(&requests));
    Ok(())
}

#[test]
fn observing_alters_nothing_and_says_what_came_together() -> Tested {
    if !has_library() {
        return Ok(());
    }
    let dir = tempfile::tempdir()?;
    let folder = dir.path().join("t");
    let output = run(&["run", "--observe", "-o", path(&folder), "--", "python3", "-c", SERVER]);
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    let rows = rows(&folder);
    assert!(!rows.ops.is_empty());
    let together = rows.inputs.iter().filter(|i| i.isolated == 0).count();
    let counted: u64 = rows.losses.iter().filter(|l| l.0 == "library.not_isolated").map(|l| l.1).sum();
    assert_eq!(together > 0, counted > 0, "{together} together, {counted} counted");
    Ok(())
}

#[test]
fn recording_is_switched_on_and_off_while_a_program_runs() -> Tested {
    if !has_library() {
        return Ok(());
    }
    let dir = tempfile::tempdir()?;
    let folder = dir.path().join("t");
    let env = run(&["attach-env", "-o", path(&folder), "--slots", "4", "--ring-bytes", "256K"]);
    assert_eq!(env.status.code(), Some(0), "{}", stderr(&env));
    let program = "import socket, sys\na, b = socket.socketpair()\nprint('up', flush=True)\n\
                   for line in sys.stdin:\n a.sendall(line.encode()); b.recv(100); print('did', flush=True)";
    let script = format!("{}exec python3 -c '{}'", stdout(&env), program.replace('\'', "'\"'\"'"));
    let mut child = Command::new("sh").args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (mut stdin, out) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(out));
    assert_eq!(lines.next().transpose()?.as_deref(), Some("up"));
    let mut step = |text: &str| -> Tested {
        std::io::Write::write_all(&mut stdin, text.as_bytes())?;
        assert_eq!(lines.next().transpose()?.as_deref(), Some("did"));
        Ok(())
    };
    step("before\n")?;
    assert!(!folder.exists(), "nothing is recorded yet");
    let on = run(&["on", path(&folder), "--slots", "4", "--ring-bytes", "256K"]);
    assert_eq!(on.status.code(), Some(0), "{}", stderr(&on));
    step("seen\n")?;
    let off = run(&["off", path(&folder)]);
    assert_eq!(off.status.code(), Some(0), "{}", stderr(&off));
    let once = rows(&folder).ops.len();
    assert!(once >= 2, "{once} operations");
    step("unseen\n")?;
    assert_eq!(rows(&folder).ops.len(), once, "nothing is recorded while it is off");
    assert_eq!(run(&["on", path(&folder)]).status.code(), Some(0));
    step("again\n")?;
    let off = run(&["off", path(&folder), "--forget"]);
    assert_eq!(off.status.code(), Some(0), "{}", stderr(&off));
    assert!(rows(&folder).ops.len() > once, "it goes on in the same folder");
    let none = run(&["off", path(&folder)]);
    assert!(none.status.code() == Some(1) && stderr(&none).contains("attach-env"), "{}", stderr(&none));
    child.kill()?;
    child.wait()?;
    Ok(())
}

#[test]
fn a_recorder_whose_folder_is_removed_ends() -> Tested {
    if !has_library() {
        return Ok(());
    }
    let dir = tempfile::tempdir()?;
    let folder = dir.path().join("t");
    let on = run(&["on", path(&folder), "--slots", "4", "--ring-bytes", "256K"]);
    assert_eq!(on.status.code(), Some(0), "{}", stderr(&on));
    let said = stderr(&on);
    let pid = said.split_once("(process ").and_then(|(_, rest)| rest.split_once(')')).map(|(pid, _)| pid.to_owned());
    let stat = format!("/proc/{}/stat", pid.expect("it names its process"));
    // who adopts it may leave it unwaited for
    let is_over = || fs::read_to_string(&stat).map_or(true, |s| s.contains(") Z "));
    assert!(!is_over(), "it records");
    fs::remove_dir_all(&folder)?;
    let begin = std::time::Instant::now();
    while !is_over() {
        assert!(begin.elapsed().as_secs() < 60, "it goes on without its folder");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    fs::create_dir(&folder)?;
    let off = run(&["off", path(&folder), "--forget"]);
    assert!(stderr(&off).contains("no recorder"), "{}", stderr(&off));
    Ok(())
}

#[test]
fn both_vantages_at_once_make_one_row_an_operation() -> Tested {
    if !has_library() {
        return Ok(());
    }
    let dir = tempfile::tempdir()?;
    let folder = dir.path().join("t");
    let output = run(&["run", "--kernel", "-o", path(&folder), "--", "python3", "-c", SERVER]);
    let said = stderr(&output);
    if output.status.code() == Some(1) && ["--kernel needs", "lacks", "refused"].iter().any(|w| said.contains(w)) {
        println!("skipped: {}", said.trim());
        return Ok(());
    }
    assert_eq!(output.status.code(), Some(7), "{said}");
    let rows = rows(&folder);
    let mut moved: Vec<_> =
        rows.ops.iter().filter(|o| o.end > o.start).map(|o| (o.flow.0, o.kind, o.start, o.end)).collect();
    let all = moved.len();
    moved.sort_unstable();
    moved.dedup();
    assert_eq!(moved.len(), all, "no byte is told twice");
    let received = rows.messages.iter().filter(|m| m.role == MessageRole::Request && m.sent == 0).count();
    assert_eq!(received, 40, "also of reads whose bytes the kernel could not see");
    assert!(rows.inputs.iter().all(|i| i.isolated == 1) && rows.inputs.len() >= 44);
    Ok(())
}

/// A server that asks another one, which is not there, for each request: by a call that waits, then by one that does not.
const ALONE: &str = r#"
import errno, os, select, socket
gone = socket.create_server(("127.0.0.1", 0)); port = gone.getsockname()[1]; gone.close()
s = socket.create_server(("127.0.0.1", 0))
if os.fork() == 0:
    c = socket.create_connection(s.getsockname())
    for i in range(3):
        c.sendall(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % i)
        got = b""
        while b"no" not in got: got += c.recv(100)
    os._exit(0)
c, _ = s.accept()
while c.recv(1000):
    for wait in (True, False):
        u = socket.socket(); u.setblocking(wait)
        r = u.connect_ex(("127.0.0.1", port))
        if not wait:
            p = select.poll(); p.register(u, select.POLLOUT); p.poll(5000)
            r = u.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        assert r == errno.ECONNREFUSED, r
        u.close()
    c.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 2\r\n\r\nno")
print(port)
"#;

#[test]
fn refused_connections_are_told_with_the_request_that_tried() -> Tested {
    if !has_library() {
        return Ok(());
    }
    for how in [&["run"][..], &["run", "--kernel"], &["record"], &["record", "--backend", "syscalls"]] {
        let dir = tempfile::tempdir()?;
        let folder = dir.path().join("t");
        let output = run(&[how, &["-o", path(&folder), "--", "python3", "-c", ALONE]].concat());
        let said = stderr(&output);
        if output.status.code() == Some(1) && ["needs", "lacks", "refused"].iter().any(|w| said.contains(w)) {
            println!("skipped: {how:?}: {}", said.trim());
            continue;
        }
        assert!(output.status.success(), "{said}");
        let remote = format!("127.0.0.1:{}", stdout(&output).trim());
        let requests: serde_json::Value = serde_json::from_slice(&run(&["requests", "--json", path(&folder)]).stdout)?;
        // other things may be refused as well: a python3 that is a script of a shell's asks for a name service first
        let ours = |of: &serde_json::Value| -> Vec<serde_json::Value> {
            of.as_array().into_iter().flatten().filter(|f| f["remote"] == remote.as_str()).cloned().collect()
        };
        let told = ours(&requests["refused"]);
        assert_eq!(told.len(), 1, "{how:?}: {requests}");
        assert_eq!((&told[0]["why"], &told[0]["count"]), (&"refused".into(), &6.into()), "{how:?}");
        let text = stdout(&run(&["requests", path(&folder)]));
        assert!(text.contains(&format!("was refused a connection to {remote}: 6 times")), "{how:?}: {text}");
        let show: serde_json::Value =
            serde_json::from_slice(&run(&["show", "--json", path(&folder), "slowest"]).stdout)?;
        let refused = ours(&show["spans"][0]["refused"]);
        assert_eq!(refused.len(), 2, "{how:?}: {show}");
        assert!(refused.iter().all(|f| f["error"] == libc::ECONNREFUSED), "{how:?}: {show}");
        let text = stdout(&run(&["show", path(&folder), "slowest"]));
        assert_eq!(text.matches(&format!("was refused a connection to {remote}")).count(), 2, "{how:?}: {text}");
    }
    Ok(())
}

/// A server whose own server has left its UNIX socket behind, or took it away, or has a full queue; and which asks where no way
/// leads.
const LEFT_ALONE: &str = r#"
import errno, os, socket, sys
left, gone, full = (os.path.join(sys.argv[1], name) for name in ("left", "gone", "full"))
u = socket.socket(socket.AF_UNIX); u.bind(left); u.close()
busy = socket.socket(socket.AF_UNIX); busy.bind(full); busy.listen(0)
first = socket.socket(socket.AF_UNIX); first.connect(full)
s = socket.create_server(("127.0.0.1", 0))
if os.fork() == 0:
    c = socket.create_connection(s.getsockname())
    c.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    while c.recv(100): pass
    os._exit(0)
c, _ = s.accept()
c.recv(1000)
for path, why in ((left, errno.ECONNREFUSED), (gone, errno.ENOENT), (full, errno.EAGAIN),
                  ("\0wakepath's nobody", errno.ECONNREFUSED)):
    u = socket.socket(socket.AF_UNIX); u.setblocking(False)
    r = u.connect_ex(path)
    assert r == why, (path, r)
    u.close()
t = socket.socket()
r = t.connect_ex(("224.0.0.1", 9))
assert r == errno.ENETUNREACH, r
t.close()
c.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 2\r\n\r\nno")
c.close()
os.wait()
"#;

#[test]
fn failed_connections_that_never_began_are_told_too() -> Tested {
    if !has_library() {
        return Ok(());
    }
    for backend in ["calls", "socket-hooks", "syscalls"] {
        let dir = tempfile::tempdir()?;
        let folder = dir.path().join("t");
        let command = ["--", "python3", "-c", LEFT_ALONE, path(dir.path())];
        let output = run(&[&["record", "--backend", backend, "-o", path(&folder)], &command[..]].concat());
        let said = stderr(&output);
        if output.status.code() == Some(1) && ["needs", "lacks", "refused"].iter().any(|w| said.contains(w)) {
            println!("skipped: {backend}: {}", said.trim());
            continue;
        }
        assert!(output.status.success(), "{backend}: {said}");
        let show: serde_json::Value =
            serde_json::from_slice(&run(&["show", "--json", path(&folder), "slowest"]).stdout)?;
        let told: Vec<_> =
            show["spans"][0]["refused"].as_array().into_iter().flatten().map(|f| (&f["remote"], &f["error"])).collect();
        let [left, gone, full] = ["left", "gone", "full"].map(|n| format!("{}/{n}", path(dir.path())).into());
        let expected = [
            (&left, &libc::ECONNREFUSED.into()),
            (&gone, &libc::ENOENT.into()),
            (&full, &libc::EAGAIN.into()),
            (&"@wakepath's nobody".into(), &libc::ECONNREFUSED.into()),
            (&"224.0.0.1:9".into(), &libc::ENETUNREACH.into()),
        ];
        assert_eq!(told, expected, "{backend}: {show}");
        let text = stdout(&run(&["requests", path(&folder)]));
        assert!(text.contains(&format!("{}/left", path(dir.path()))), "{backend}: {text}");
        let asked_for = ["left", "gone", "full"].map(|name| path(dir.path()).to_owned() + "/" + name);
        let kept = Folder::open(&[&folder])?;
        let host = &kept.hosts()[0];
        let mut paths: Vec<String> = Vec::new();
        for event in host.events(TableSet::ALL, ..) {
            if let Event::Endpoint(r) = event {
                paths.push(host.text(r.path).to_owned());
            }
        }
        paths.retain(|p| asked_for.contains(p));
        assert!(asked_for.iter().all(|p| paths.contains(p)), "{backend}: {paths:?}");
    }
    Ok(())
}

/// Plays the Rust program of the test below.
#[test]
fn says() {
    if std::env::var("WAKEPATH_PART").as_deref() == Ok("marks") {
        annotated::say();
    }
}

#[test]
fn annotations_are_heard_in_every_language() -> Tested {
    if !has_library() {
        return Ok(());
    }
    let dir = tempfile::tempdir()?;
    for p in annotated::programs(dir.path(), "says") {
        // the library is told directly, where there are probes and where there are none
        let name = format!("{} {}", p.language, p.has_probes);
        let folder = dir.path().join(name);
        let args = [&["run", "-o", path(&folder), "--"][..], &p.command.iter().map(String::as_str).collect::<Vec<_>>()];
        let o = support::wakepath(&args.concat()).envs(p.variables).output()?;
        assert!(o.status.success(), "{}: {}", p.language, stderr(&o));
        let read = Folder::open(&[&folder])?;
        let (told, expected) = (annotated::said(&read.hosts()[0]), annotated::expected());
        let wrong = expected.iter().zip(&told).position(|(e, t)| e != t);
        assert_eq!((told.len(), wrong), (expected.len(), None), "{}: {:?}", p.language, rows(&folder).losses);
        // counted in as many rows as there are ticks of the recorder's clock between them
        let losses = rows(&folder).losses;
        let cut: u64 = losses.iter().filter(|l| l.0 == "marks.name_cut").map(|l| l.1).sum();
        assert_eq!(cut, 50, "{}: {losses:?}", p.language);
    }
    Ok(())
}

/// What says nothing makes no system call: the kernel kills the program at its first one.
#[test]
fn annotations_that_nobody_hears_cost_no_call() -> Tested {
    let dir = tempfile::tempdir()?;
    let Some(program) = annotated::compiled(dir.path()) else {
        println!("skipped: no C compiler");
        return Ok(());
    };
    assert!(Command::new(program).arg("silent").status()?.success());
    Ok(())
}

#[test]
fn a_program_that_is_not_there_leaves_no_folder() {
    let dir = tempfile::tempdir().unwrap();
    for program in ["/none/such", "none-such"] {
        let out = dir.path().join("trace");
        let output = run(&["run", "-o", out.to_str().unwrap(), "--", program]);
        assert_eq!(output.status.code(), Some(127));
        assert!(stderr(&output).contains(&format!("cannot start {program}")), "{}", stderr(&output));
        assert!(!out.exists());
    }
}

/// A program without a loader that ends with status 7.
fn static_program() -> Vec<u8> {
    // mov edi, 7; mov eax, 60; syscall
    #[cfg(target_arch = "x86_64")]
    let (machine, code): (u16, &[u8]) = (62, &[0xbf, 7, 0, 0, 0, 0xb8, 60, 0, 0, 0, 0x0f, 0x05]);
    // mov x0, #7; mov x8, #93; svc #0
    #[cfg(target_arch = "aarch64")]
    let (machine, code): (u16, &[u8]) = (183, &[0xe0, 0, 0x80, 0xd2, 0xa8, 0x0b, 0x80, 0xd2, 1, 0, 0, 0xd4]);
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0".to_vec();
    file.extend_from_slice(&machine.to_le_bytes());
    file.extend_from_slice(&1u32.to_le_bytes());
    for word in [0x40_0078u64, 64, 0] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    file.extend_from_slice(&0u32.to_le_bytes());
    for half in [64u16, 56, 1, 0, 0, 0] {
        file.extend_from_slice(&half.to_le_bytes());
    }
    let length = 120 + code.len() as u64;
    file.extend_from_slice(&[1, 0, 0, 0, 5, 0, 0, 0]);
    for word in [0, 0x40_0000, 0x40_0000, length, length, 4096] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    file.extend_from_slice(code);
    file
}

fn executable(file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::write(file, bytes)?;
    fs::set_permissions(file, fs::Permissions::from_mode(0o755))
}

#[test]
fn a_command_that_the_library_cannot_enter_is_counted_and_said_at_the_start() -> Tested {
    if !has_library() {
        return Ok(());
    }
    let dir = tempfile::tempdir()?;
    let program = dir.path().join("static");
    executable(&program, &static_program())?;
    let script = dir.path().join("script");
    executable(&script, format!("#!{}\n", path(&program)).as_bytes())?;
    for (name, command) in [("direct", path(&program)), ("script", path(&script))] {
        let folder = dir.path().join(format!("of-{name}"));
        let output = run(&["run", "-o", path(&folder), "--", command]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(7), "{said}");
        let (told, ready) = (said.find("statically linked"), said.find("recording into"));
        assert!(told.is_some() && told < ready, "{said}");
        assert!(said.contains("NOT SEEN: 1 programs"), "{said}");
        assert!(rows(&folder).losses.contains(&("library.not_loaded".to_owned(), 1)), "{:?}", rows(&folder).losses);
        let info = run(&["info", path(&folder), "--strict"]);
        assert_eq!(info.status.code(), Some(3), "{}", stdout(&info));
    }
    // one that it enters, and that starts the other: counted once
    let folder = dir.path().join("behind");
    let output = run(&["run", "-o", path(&folder), "--", "sh", "-c", &format!("{}; exit 3", path(&program))]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(rows(&folder).losses.contains(&("library.not_loaded".to_owned(), 1)), "{:?}", rows(&folder).losses);
    let folder = dir.path().join("seen");
    let output = run(&["run", "-o", path(&folder), "--", "true"]);
    assert!(!stderr(&output).contains("NOT SEEN") && rows(&folder).losses.is_empty(), "{}", stderr(&output));
    Ok(())
}

#[test]
fn what_cannot_be_started_has_the_exit_code_that_shells_give() -> Tested {
    if !has_library() {
        return Ok(());
    }
    let dir = tempfile::tempdir()?;
    let notes = dir.path().join("notes");
    fs::write(&notes, "text")?;
    let no_loader = dir.path().join("no-loader");
    executable(&no_loader, b"#!/no/such/interpreter\n")?;
    let folder = dir.path().join("t");
    for (code, command) in [(127, "no-such-command"), (127, path(&no_loader)), (126, path(&notes)), (126, "/")] {
        let output = run(&["run", "--force", "-o", path(&folder), "--", command]);
        assert_eq!(output.status.code(), Some(code), "{command}: {}", stderr(&output));
    }
    for code in [126, 127, 1, 0] {
        let output = run(&["run", "--force", "-o", path(&folder), "--", "sh", "-c", &format!("exit {code}")]);
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
    }
    let output = run(&["run", "--force", "-o", path(&folder), "--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(output.status.code(), Some(128 + 9), "{}", stderr(&output));
    Ok(())
}

/// Waits until something holds, ten seconds at most.
fn until(what: &str, holds: impl Fn() -> bool) {
    let begin = std::time::Instant::now();
    while !holds() {
        assert!(begin.elapsed().as_secs() < 10, "not within ten seconds: {what}");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn a_killed_recorder_leaves_no_shared_memory_and_its_command_goes_on() -> Tested {
    if !has_library() {
        return Ok(());
    }
    let dir = tempfile::tempdir()?;
    let (folder, ready, gate) = (dir.path().join("t"), dir.path().join("ready"), dir.path().join("gate"));
    let script = "printf %s \"$WAKEPATH_ARENA\" > arena; while [ ! -e gate ]; do sleep 0.05; done; echo well > end";
    let mut recorder = wakepath(&["run", "-o", path(&folder), "--ready-file", path(&ready), "--", "sh", "-c", script])
        .current_dir(dir.path())
        .stderr(Stdio::null())
        .spawn()?;
    until("the command runs", || fs::read(dir.path().join("arena")).is_ok_and(|a| !a.is_empty()));
    let arena = fs::read_to_string(dir.path().join("arena"))?;
    assert!(arena.starts_with("/dev/shm/") && Path::new(&arena).exists(), "{arena}");
    recorder.kill()?;
    recorder.wait()?;
    until("the shared memory is removed", || !Path::new(&arena).exists());
    fs::write(&gate, "")?;
    until("the command ends well", || fs::read(dir.path().join("end")).is_ok_and(|e| e == b"well\n"));
    let told: Vec<_> = Folder::open(&[&folder])?.defects().iter().map(|d| d.defect.id).collect();
    assert_eq!(told, ["folder.not_ended"]);
    // what was killed together with its remover is found by the next
    let stale = format!("/dev/shm/wakepath-{}-run-{:016x}", own_uid(), std::process::id());
    fs::write(&stale, "left behind")?;
    let output = run(&["run", "--force", "-o", path(&folder), "--", "true"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(!Path::new(&stale).exists());
    Ok(())
}

/// The user of this process, as the owner of what it made.
fn own_uid() -> u32 {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata("/proc/self").map_or(0, |m| m.uid())
}
