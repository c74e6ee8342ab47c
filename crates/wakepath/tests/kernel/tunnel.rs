//! Calls that go through a tunnel, which a small proxy opens at CONNECT.

use crate::harness::*;
use std::process::Command;
use wakepath_analysis::names::Names;
use wakepath_model::folder::Folder;

const REQUESTS: usize = 45;

/// An application that makes two calls for each request, each through the tunnel that it opened; the proxy; who is called; and,
/// without which nothing would be asked, their client. Each is a process.
const PROGRAM: &str = r#"
import http.client, http.server, os, signal, socket, sys, threading, time

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *a): pass
    def do_GET(self):
        if self.path == "/x":
            c = http.client.HTTPConnection("127.0.0.1", PROXY.getsockname()[1])
            c.set_tunnel("127.0.0.1", INNER.getsockname()[1])
            for path in ("/c", "/d"):
                c.request("GET", path)
                c.getresponse().read()
            c.close()
        else:
            time.sleep(0.002)
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

def listens():
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("127.0.0.1", 0))
    s.listen(64)
    return s

def serve(listener):
    server = http.server.ThreadingHTTPServer(listener.getsockname(), Handler, bind_and_activate=False)
    server.socket = listener
    server.serve_forever()

def relay(a, b):
    while True:
        data = a.recv(65536)
        if not data: break
        b.sendall(data)
    try: b.shutdown(socket.SHUT_WR)
    except OSError: pass

def tunnel(c):
    head = b""
    while b"\r\n\r\n" not in head: head += c.recv(65536)
    host, port = head.split()[1].split(b":")
    up = socket.create_connection((host.decode(), int(port)))
    c.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
    t = threading.Thread(target=relay, args=(up, c))
    t.start()
    relay(c, up)
    t.join()

def proxy(listener):
    while True:
        c, _ = listener.accept()
        threading.Thread(target=tunnel, args=(c,)).start()

APP, PROXY, INNER = listens(), listens(), listens()
children = []
for what, listener in ((serve, APP), (proxy, PROXY), (serve, INNER)):
    child = os.fork()
    if child == 0:
        what(listener)
    children.append(child)
time.sleep(0.2)
for _ in range(int(sys.argv[1])):
    c = http.client.HTTPConnection("127.0.0.1", APP.getsockname()[1])
    c.request("GET", "/x")
    assert c.getresponse().read() == b"ok"
    c.close()
time.sleep(0.1)
for child in children:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"#;

#[test]
fn calls_through_a_tunnel_are_their_requests() {
    if Command::new("python3").arg("--version").output().is_err() {
        return skip("no Python; remedy: scripts/install build");
    }
    for backend in BACKENDS {
        let count = REQUESTS.to_string();
        let command = ["--runtimes=memory", "--", "python3", "-c", PROGRAM, &count];
        let Some(dir) = recorded(backend, &command, &[]) else { continue };
        let trace = dir.path().join("trace");
        let folder = Folder::open(&[&trace]).expect("the folder reads");
        let names = Names::read(&folder);
        // the requests that begin with it, and the calls below them
        let (mut with_all, mut roots) = (0, Vec::new());
        let take = |r: wakepath_causality::request::Request| {
            let asked =
                |s: &wakepath_causality::request::Span| s.callee.as_ref().or(s.caller.as_ref()).map(|h| names.asked(h));
            let all: Vec<String> = r.spans.iter().filter_map(asked).collect();
            // the client is recorded too, and its call is where each begins
            let has = |call: &str| r.spans.iter().any(|s| s.parent.is_some() && asked(s).as_deref() == Some(call));
            if all[0] == "GET /x" && has("GET /c") && has("GET /d") {
                with_all += 1;
            } else {
                roots.push(all.join(", "));
            }
        };
        wakepath_causality::reconstruct(&folder, take, |_, _, _, _| {});
        assert_eq!((with_all, roots.len()), (REQUESTS, 0), "{backend}: {roots:?}");
        for args in [&["requests"][..], &["show", "slowest"], &["waits"], &["why"]] {
            let o = Command::new(binary()).args(args).arg(&trace).output().expect("the binary starts");
            let said = String::from_utf8_lossy(&[o.stdout, o.stderr].concat()).into_owned();
            assert!(!said.contains("0.0.0.0:0") && !said.contains("[::]:0"), "{backend}, {args:?}: {said}");
        }
    }
}
