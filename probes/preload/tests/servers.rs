//! Real event loops under isolation: clients get what they asked for, and each fragment begins with one input.

mod support;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;
use support::{Mode, Run, run_with};
use wakepath_wire as w;

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port").port()
}

fn connect(port: u16) -> TcpStream {
    for _ in 0..200 {
        if let Ok(s) = TcpStream::connect(("127.0.0.1", port)) {
            s.set_read_timeout(Some(Duration::from_secs(10))).expect("a time");
            s.set_nodelay(true).expect("TCP");
            return s;
        }
        thread::sleep(Duration::from_millis(25));
    }
    panic!("nobody listens on {port}");
}

fn is_there(tool: &str) -> bool {
    let paths = ["/usr/sbin", "/usr/bin", "/usr/local/bin", "/bin"];
    let found = paths.iter().any(|p| Path::new(p).join(tool).exists());
    if !found {
        println!("skipped: there is no {tool} here");
    }
    found
}

fn end(child: &Child) {
    // SAFETY: a child of ours that was not waited for
    unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
}

/// The bytes of a head that begins a message, by record.
fn taken(run: &Run, begins: &[u8]) -> Vec<usize> {
    let flows: Vec<w::FlowSeen> = run.all(w::KIND_FLOW);
    let served = |id: u64| flows.iter().any(|f| f.flow == id && f.head.sub == w::FLOW_ACCEPTED);
    let count = |r: &Vec<u8>| {
        let o = w::view::<w::Op>(r).filter(|o| r[6] == w::KIND_OP && o.head.sub == w::OP_RECV && o.bytes > 0)?;
        let head = &r[size_of::<w::Op>()..][..o.head_bytes.into()];
        served(o.flow).then(|| head.windows(begins.len()).filter(|x| *x == begins).count())
    };
    run.records.iter().filter_map(count).collect()
}

/// `clients` at once, each `rounds` times `bundle` in one segment, of which `reply` must come back `times` times.
fn load(port: u16, clients: usize, rounds: usize, bundle: &[u8], reply: impl Fn(&[u8]) -> Option<usize> + Sync) {
    thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(|| {
                let mut s = connect(port);
                for _ in 0..rounds {
                    s.write_all(bundle).expect("it takes requests");
                    let (mut got, mut part) = (Vec::new(), [0u8; 65536]);
                    while reply(&got).is_none() {
                        let n = s.read(&mut part).expect("it answers in ten seconds");
                        assert!(n > 0, "it hung up after {} bytes", got.len());
                        got.extend_from_slice(&part[..n]);
                    }
                    assert_eq!(reply(&got), Some(got.len()), "nothing more came");
                }
            });
        }
    });
}

/// Length of `n` HTTP replies whose bodies are `body`, once they are all there.
fn http(got: &[u8], n: usize, body: &[u8]) -> Option<usize> {
    let mut at = 0;
    for _ in 0..n {
        let head = got[at..].windows(4).position(|x| x == b"\r\n\r\n")? + 4;
        let text = &got[at..at + head];
        assert!(text.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(text));
        let seen = got.get(at + head..at + head + body.len())?;
        assert!(seen == body, "the body is as it was");
        at += head + body.len();
    }
    Some(at)
}

fn assert_isolated(run: &Run, begins: &[u8], requests: usize) {
    assert_eq!(run.drops, 0);
    let taken = taken(run, begins);
    assert_eq!(taken.iter().sum::<usize>(), requests, "each request was read once");
    assert!(taken.iter().all(|&n| n <= 1), "no read had two");
    let inputs: Vec<w::Input> = run.all(w::KIND_INPUT);
    let together = inputs.iter().filter(|i| i.flags & w::INPUTF_ISOLATED == 0).count();
    assert_eq!(together, 0, "of {} inputs", inputs.len());
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("preload-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder of the tests");
    folder
}

#[test]
fn nginx() {
    if !is_there("nginx") {
        return;
    }
    let (folder, port) = (folder("nginx"), free_port());
    let body: Vec<u8> =
        (0..200_000u32).flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()).take(300_000).collect();
    std::fs::write(folder.join("big"), &body).expect("written");
    std::fs::write(folder.join("small"), b"hello\n").expect("written");
    let temporary: String =
        ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(|t| format!("{t}_temp_path t_{t};\n")).concat();
    let conf = format!(
        "daemon off; worker_processes 2; pid n.pid; error_log e.log;\nevents {{ worker_connections 128; }}\n\
         http {{ access_log off; keepalive_requests 100000; {temporary}\
         server {{ listen 127.0.0.1:{port}; root {}; }} }}\n",
        folder.display()
    );
    std::fs::write(folder.join("n.conf"), conf).expect("written");
    let mut command = Command::new("nginx");
    command.arg("-p").arg(&folder).args(["-e", "e.log", "-c"]).arg(folder.join("n.conf"));
    let run = run_with(Mode::Isolate, &mut command, |_, child| {
        let get = |path: &str| format!("GET /{path} HTTP/1.1\r\nHost: a\r\n\r\n");
        load(port, 10, 30, get("small").repeat(3).as_bytes(), |got| http(got, 3, b"hello\n"));
        load(port, 4, 5, get("big").repeat(2).as_bytes(), |got| http(got, 2, &body));
        end(child);
    });
    assert_isolated(&run, b"GET /", 10 * 30 * 3 + 4 * 5 * 2);
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
fn redis() {
    if !is_there("redis-server") {
        return;
    }
    let (folder, port) = (folder("redis"), free_port());
    let mut command = Command::new("redis-server");
    command.args(["--port", &port.to_string(), "--save", "", "--dir"]).arg(&folder);
    let run = run_with(Mode::Isolate, &mut command, |_, child| {
        let pings = "*2\r\n$4\r\nECHO\r\n$3\r\nabc\r\n".repeat(4);
        load(port, 10, 20, pings.as_bytes(), |got| (got.len() >= 36).then_some(36));
        end(child);
    });
    assert_isolated(&run, b"ECHO", 10 * 20 * 4);
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
fn nginx_over_tls() {
    if !is_there("nginx") || !is_there("openssl") || !is_there("curl") {
        return;
    }
    let (folder, port) = (folder("nginx-tls"), free_port());
    let mut openssl = Command::new("openssl");
    openssl.args([
        "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=a", "-keyout", "k", "-out", "c",
    ]);
    assert!(openssl.current_dir(&folder).output().expect("openssl runs").status.success());
    let body: Vec<u8> = (0..50_000u32).flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    std::fs::write(folder.join("big"), &body).expect("written");
    let temporary: String =
        ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(|t| format!("{t}_temp_path t_{t};\n")).concat();
    let conf = format!(
        "daemon off; worker_processes 1; pid n.pid; error_log e.log;\nevents {{ worker_connections 128; }}\n\
         http {{ access_log off; {temporary} ssl_certificate c; ssl_certificate_key k;\
         server {{ listen 127.0.0.1:{port} ssl http2; root {}; }} }}\n",
        folder.display()
    );
    std::fs::write(folder.join("n.conf"), conf).expect("written");
    let mut command = Command::new("nginx");
    command.arg("-p").arg(&folder).args(["-e", "e.log", "-c"]).arg(folder.join("n.conf"));
    let run = run_with(Mode::Isolate, &mut command, |_, child| {
        drop(connect(port));
        for version in ["--http1.1", "--http2"] {
            let url = format!("https://127.0.0.1:{port}/big");
            let got = Command::new("curl").args(["-sk", version, &url, &url]).output().expect("curl runs");
            assert_eq!(got.stdout, body.repeat(2), "{version}");
        }
        end(child);
    });
    assert_eq!(run.drops, 0);
    let operations = run.operations();
    let moved = |plain: bool| {
        let of = |o: &&w::Op| (o.flags & w::OPF_PLAIN != 0) == plain && o.bytes > 0 && o.flags & w::OPF_COUNTED == 0;
        operations.iter().filter(of).count()
    };
    assert!(moved(true) >= 4, "requests and replies are seen in plain");
    assert_eq!(moved(false), 0, "and nothing of what is encrypted");
    assert_eq!(taken(&run, b"GET /big HTTP/1.1").iter().sum::<usize>(), 2);
    let _ = std::fs::remove_dir_all(&folder);
}

/// A server that answers after a timer, so that requests of many connections are open at once.
const ASYNCIO: &str = r#"
import asyncio, sys
async def serve(r, w):
    try:
        while True:
            await r.readuntil(b'\r\n\r\n')
            await asyncio.sleep(0.001)
            w.write(b'HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n')
            await w.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        w.close()
async def main():
    await asyncio.start_server(serve, '127.0.0.1', int(sys.argv[1]))
    await asyncio.sleep(60)
asyncio.run(main())
"#;

#[test]
fn python_asyncio() {
    if !is_there("python3") {
        return;
    }
    let port = free_port();
    let mut command = Command::new("python3");
    command.args(["-c", ASYNCIO, &port.to_string()]);
    let run = run_with(Mode::Isolate, &mut command, |_, child| {
        let get = "GET /item HTTP/1.1\r\nHost: a\r\n\r\n".repeat(2);
        load(port, 20, 10, get.as_bytes(), |got| http(got, 2, b"ok\n"));
        end(child);
    });
    assert_isolated(&run, b"GET /", 20 * 10 * 2);
}
