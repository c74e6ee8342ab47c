//! Plaintext at the calls of a TLS library.

mod support;

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use support::{Mode, Run, compiled, run, run_with};
use wakepath_wire as w;

/// A server of the OpenSSL tool, stopped when this goes.
struct Server {
    child: Child,
    port: u16,
    folder: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A certificate, its key, and a free port; `None` where there is no such tool.
fn certificate(name: &str) -> Option<(PathBuf, u16)> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("preload-tls-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder of the tests");
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout"])
        .arg(folder.join("key"))
        .arg("-out")
        .arg(folder.join("cert"))
        .stderr(Stdio::null())
        .status();
    if !made.is_ok_and(|s| s.success()) {
        println!("skipped: there is no openssl here");
        return None;
    }
    let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port").port();
    Some((folder, port))
}

fn server(name: &str) -> Option<Server> {
    let (folder, port) = certificate(name)?;
    let child = Command::new("openssl")
        .args(["s_server", "-quiet", "-www", "-accept", &format!("127.0.0.1:{port}"), "-cert"])
        .arg(folder.join("cert"))
        .arg("-key")
        .arg(folder.join("key"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it was there a moment ago");
    for _ in 0..100 {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Some(Server { child, port, folder })
}

fn plain(run: &Run, op: u8) -> Vec<(w::Op, Vec<u8>)> {
    let of = |r: &Vec<u8>| {
        let o =
            w::view::<w::Op>(r).filter(|o| r[6] == w::KIND_OP && o.head.sub == op && o.flags & w::OPF_PLAIN != 0)?;
        Some((o, r[size_of::<w::Op>()..][..o.head_bytes.into()].to_vec()))
    };
    run.records.iter().filter_map(of).collect()
}

#[test]
fn what_openssl_encrypts_is_seen_in_plain() {
    let Some(s) = server("client") else { return };
    for mode in [Mode::Bare, Mode::Observe, Mode::Isolate] {
        let mut command = Command::new("openssl");
        command.args(["s_client", "-quiet", "-connect", &format!("127.0.0.1:{}", s.port)]);
        let run = run_with(mode, &mut command, |_, child| {
            let mut stdin = child.stdin.take().expect("piped");
            stdin.write_all(b"GET /secret HTTP/1.0\r\n\r\n").expect("it reads");
        });
        assert!(run.text().contains("HTTP/1.0 200 ok"), "{mode:?}: {}", run.text());
        if mode == Mode::Bare {
            continue;
        }
        let (sent, received) = (plain(&run, w::OP_SEND), plain(&run, w::OP_RECV));
        assert!(sent.iter().any(|(_, head)| head.starts_with(b"GET /secret HTTP/1.0")), "{mode:?}");
        assert!(received.iter().any(|(_, head)| head.starts_with(b"HTTP/1.0 200 ok")), "{mode:?}");
        let flow = sent[0].0.flow;
        let seen: Vec<w::FlowSeen> = run.all(w::KIND_FLOW);
        assert!(seen.iter().any(|f| f.flow == flow && f.rport == s.port), "it is the connection's flow");
        // once there is plaintext, the encrypted bytes are not told beside it
        let first = sent[0].0.ts_ns;
        let raw = |o: &&w::Op| o.flow == flow && o.flags & w::OPF_PLAIN == 0 && o.bytes > 0 && o.ts_ns > first;
        assert_eq!(run.operations().iter().filter(raw).count(), 0, "{mode:?}");
        let end = sent[0].0.seq_end.wrapping_add(sent[1..].iter().map(|(o, _)| o.bytes as u32).sum());
        assert_eq!(sent.last().expect("there is one").0.seq_end, end, "numbers count plaintext");
    }
}

/// `SSL_connect` ends in a jump to `SSL_do_handshake`, whose caller then seems to be the library itself.
#[test]
fn a_tls_library_in_a_plugins_own_scope() {
    let linked =
        Command::new("cc").args(["-shared", "-o", "/dev/null", "-l:libssl.so.3"]).stderr(Stdio::null()).status();
    if !linked.is_ok_and(|s| s.success()) {
        println!("skipped: no libssl.so.3 here, or no cc");
        return;
    }
    let Some(s) = server("plugin") else { return };
    let plugin = compiled("tls_plugin", &["-DPLUGIN", "-shared", "-fPIC", "-l:libssl.so.3"]);
    let (plugin, port) = (plugin.to_str().expect("a name that the test gave"), s.port.to_string());
    for mode in [Mode::Bare, Mode::Off, Mode::Observe, Mode::Isolate] {
        let run = run(mode, &compiled("tls_plugin", &["-ldl"]), &[plugin, &port]);
        assert_eq!(run.text(), "HTTP/1.0\n", "{mode:?}");
        if matches!(mode, Mode::Observe | Mode::Isolate) {
            let sent = plain(&run, w::OP_SEND);
            assert!(sent.iter().any(|(_, head)| head.starts_with(b"GET /secret HTTP/1.0")), "{mode:?}");
        }
    }
    let Some(s) = server("by_name") else { return };
    let port = s.port.to_string();
    for mode in [Mode::Bare, Mode::Off, Mode::Observe, Mode::Isolate] {
        let run = run(mode, &compiled("tls_plugin", &["-ldl"]), &["", &port, "by name"]);
        assert_eq!(run.text(), "shaken\n", "{mode:?}");
    }
}
