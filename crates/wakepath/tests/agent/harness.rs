//! Agents of the real binary, small services, and three hosts that are namespaces.

use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// One test at a time: each records, and the machine is small.
static ONE: Mutex<()> = Mutex::new(());

pub const TOKEN: &str = "a-token-of-this-test-0123456789";

/// Whether this machine can; or why not is printed.
pub fn is_root() -> bool {
    // SAFETY: takes nothing and cannot fail.
    let is = unsafe { libc::geteuid() == 0 };
    if !is {
        println!("skipped: the agent needs the rights of the kernel vantage");
    }
    is
}

pub fn alone() -> MutexGuard<'static, ()> {
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A process that ends with the test.
pub struct Ended(pub Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Ended {
    pub fn signal(&self, signal: i32) {
        // SAFETY: signals a child of ours that was not waited for yet.
        unsafe { libc::kill(self.0.id() as i32, signal) };
    }

    pub fn wait(&mut self) -> i32 {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().expect("it can be waited for") {
                return status.code().unwrap_or(-1);
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Waits until something is so.
pub fn until(what: &str, limit: Duration, mut is_so: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < limit, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
    begun.elapsed()
}

pub const SOON: Duration = Duration::from_secs(30);

/// An agent and its address.
pub struct Agent {
    pub process: Ended,
    pub address: String,
    pub folder: PathBuf,
    stderr: PathBuf,
}

/// Starts an agent by a configuration; `before`: words of a command line that runs it.
pub fn start(dir: &Path, name: &str, config: &str, before: &[&str]) -> Agent {
    let (file, ready, stderr) =
        (dir.join(format!("{name}.toml")), dir.join(format!("{name}.ready")), dir.join(format!("{name}.err")));
    let (token, folder) = (dir.join("token"), dir.join(name));
    std::fs::write(&token, TOKEN).expect("the token is written");
    let text = format!("folder = {folder:?}\n{}", config.replace("TOKEN_FILE", &format!("token_file = {token:?}")));
    std::fs::write(&file, text).expect("the configuration is written");
    let _ = std::fs::remove_file(&ready);
    let words = before.iter().map(|w| (*w).to_owned());
    let own = [
        env!("CARGO_BIN_EXE_wakepath"),
        "agent",
        "--config",
        &file.to_string_lossy(),
        "--ready-file",
        &ready.to_string_lossy(),
    ];
    let line: Vec<String> = words.chain(own.map(str::to_owned)).collect();
    let errors = std::fs::OpenOptions::new().create(true).append(true).open(&stderr).expect("a file for its messages");
    let child = Command::new(&line[0])
        .args(&line[1..])
        .env("WAKEPATH_WORDS", "all")
        .stdin(Stdio::null())
        .stderr(errors)
        .spawn()
        .expect("it starts");
    let process = Ended(child);
    let mut agent = Agent { process, address: String::new(), folder, stderr };
    until("the agent is ready", SOON, || {
        agent.address = std::fs::read_to_string(&ready).unwrap_or_default().trim().to_owned();
        !agent.address.is_empty()
    });
    agent
}

impl Agent {
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.stderr).unwrap_or_default()
    }

    /// Asks, and gives status and body.
    pub fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        ask(&self.address, method, path, body, Some(TOKEN)).expect("it answers")
    }

    pub fn metric(&self, name: &str) -> f64 {
        let text = self.ask("GET", "/metrics", "").1;
        let line = text
            .lines()
            .find(|l| l.strip_prefix("wakepath_agent_").is_some_and(|l| l.starts_with(&format!("{name} "))));
        line.and_then(|l| l.rsplit(' ').next()?.parse().ok()).unwrap_or_else(|| panic!("no {name} in\n{text}"))
    }

    pub fn until_recording(&self) {
        until("it records", SOON, || self.ask("GET", "/health", "").0 == 200);
    }

    /// The folder of a trigger, when all of its parts ended.
    pub fn kept(&self, answer: &str) -> PathBuf {
        let answer: Value = serde_json::from_str(answer).expect("an answer");
        let folder = answer["folder"].as_str().unwrap_or_else(|| panic!("no folder in {answer}"));
        PathBuf::from(folder)
    }
}

/// What a kept folder says of its parts: address and state.
pub fn parts(folder: &Path) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(folder.join("wakepath.json")).unwrap_or_default();
    let described: Value = serde_json::from_str(&text).unwrap_or_default();
    let parts = described["kept"]["parts"].as_array().cloned().unwrap_or_default();
    let word = |p: &Value, name: &str| p[name].as_str().unwrap_or_default().to_owned();
    parts.iter().map(|p| (word(p, "agent"), word(p, "state"))).collect()
}

/// One exchange by HTTP.
pub fn ask(to: &str, method: &str, path: &str, body: &str, token: Option<&str>) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(to)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let token = token.map_or_else(String::new, |t| format!("Authorization: Bearer {t}\r\n"));
    let head = format!("{method} {path} HTTP/1.0\r\nHost: x\r\n{token}Content-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(head.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let text = String::from_utf8_lossy(&answer).into_owned();
    let status = text.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or(0);
    Ok((status, text.split_once("\r\n\r\n").map_or_else(String::new, |(_, body)| body.to_owned())))
}

/// A small HTTP service; with a further address it asks there before it answers. `/slow` takes 300 ms, `/fail` fails.
const SERVICE: &str = r#"
import http.server, sys, time, urllib.request, urllib.error
port, further = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        status = 200
        if further:
            try: urllib.request.urlopen("http://" + further + self.path, timeout=10).read()
            except urllib.error.HTTPError as e: status = e.code
        elif self.path.startswith("/slow"): time.sleep(0.3)
        elif self.path.startswith("/fail"): status = 500
        self.send_response(status); self.send_header("Content-Length", "2"); self.end_headers()
        self.wfile.write(b"ok")
    def log_message(self, *a): pass
http.server.HTTPServer(("", port), H).serve_forever()
"#;

/// Starts it; `before`: as with [`start`].
pub fn service(port: u16, further: Option<&str>, before: &[&str]) -> Ended {
    let port = port.to_string();
    let own = ["python3", "-c", SERVICE, &port];
    let line: Vec<&str> = before.iter().copied().chain(own).chain(further).collect();
    let child = Command::new(line[0]).args(&line[1..]).stdin(Stdio::null()).spawn().expect("python3 is there");
    Ended(child)
}

/// Three hosts on one network: namespaces, gone when this is.
pub struct Hosts {
    pub names: [String; 3],
    switch: String,
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in self.names.iter().chain([&self.switch]) {
            let _ = Command::new("ip").args(["netns", "del", name]).stderr(Stdio::null()).status();
        }
    }
}

fn ip(words: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(words).output().map_err(|e| e.to_string())?;
    let text = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("ip {}: {}", words.join(" "), text.trim())) }
}

pub const ADDRESSES: [&str; 3] = ["10.212.9.1", "10.212.9.2", "10.212.9.3"];

impl Hosts {
    pub fn new() -> Result<Hosts, String> {
        let id = std::process::id();
        let hosts = Hosts { names: ["a", "b", "c"].map(|n| format!("wka{n}{id}")), switch: format!("wkas{id}") };
        ip(&["netns", "add", &hosts.switch])?;
        ip(&["-n", &hosts.switch, "link", "add", "br0", "type", "bridge"])?;
        ip(&["-n", &hosts.switch, "link", "set", "br0", "up"])?;
        for (n, (name, address)) in hosts.names.iter().zip(ADDRESSES).enumerate() {
            let port = format!("p{n}");
            ip(&["netns", "add", name])?;
            ip(&["-n", name, "link", "add", "v0", "type", "veth", "peer", "name", &port, "netns", &hosts.switch])?;
            ip(&["-n", &hosts.switch, "link", "set", &port, "master", "br0"])?;
            ip(&["-n", &hosts.switch, "link", "set", &port, "up"])?;
            ip(&["-n", name, "addr", "add", &format!("{address}/24"), "dev", "v0"])?;
            ip(&["-n", name, "link", "set", "v0", "up"])?;
            ip(&["-n", name, "link", "set", "lo", "up"])?;
        }
        Ok(hosts)
    }

    /// How a command is run on one of them.
    pub fn on(&self, host: usize) -> [&str; 4] {
        ["ip", "netns", "exec", &self.names[host]]
    }
}
