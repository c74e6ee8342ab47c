//! Services in containers are called by what they run in, whether they were there before the recording or came during it.

use crate::harness::*;
use serde_json::Value;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const SERVER: &str = "import http.server, sys
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header('Content-Length', '2')
        self.end_headers()
        self.wfile.write(b'ok')
    def log_message(self, *_): pass
server = http.server.HTTPServer(('127.0.0.1', 0), Answer)
print(server.server_port, flush=True)
server.serve_forever()";

/// A server that says its port first; it ends with the test.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(command: &mut Command) -> Server {
        Server::try_start(command).expect("it says its port")
    }

    /// `None` where it ended without saying a port.
    fn try_start(command: &mut Command) -> Option<Server> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut said = Vec::new();
        let mut out = child.stdout.take().expect("piped");
        let mut byte = [0];
        while said.last() != Some(&b'\n') && out.read(&mut byte).expect("its port") == 1 {
            said.push(byte[0]);
        }
        let port = String::from_utf8_lossy(&said).trim().parse();
        port.ok().map(|port| Server { child, port })
    }

    fn ask(&self) {
        let mut connection = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        connection.write_all(b"GET /item HTTP/1.0\r\nHost: shop\r\n\r\n").expect("sent");
        let mut reply = String::new();
        connection.read_to_string(&mut reply).expect("a reply");
        assert!(reply.ends_with("ok"), "{reply}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A cgroup of this test's own, in the hierarchy of version 2, else in one of version 1.
struct Group(PathBuf);

impl Group {
    fn make(name: &str) -> Option<Group> {
        let root = Path::new("/sys/fs/cgroup");
        let all = [root.into(), root.join("unified"), root.join("systemd"), root.join("pids")];
        all.into_iter().filter(|r| r.join("cgroup.procs").exists()).find_map(|root| {
            let dir = root.join(name);
            fs::create_dir(&dir).ok()?;
            Some(Group(dir))
        })
    }

    /// A server that moves into it before it begins its program, as those do who start containers.
    fn server(&self) -> Server {
        let script = format!("echo $$ > {}/cgroup.procs && exec python3 -c \"$1\"", self.0.display());
        Server::start(Command::new("sh").args(["-c", &script, "sh", SERVER]))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // a process that just ended may take a moment to leave it
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            pause(10);
        }
    }
}

fn answer(rec: &Recording, arguments: &[&str]) -> String {
    let o = Command::new(binary()).args(arguments).arg(&rec.folder).output().expect("the binary starts");
    assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr));
    String::from_utf8(o.stdout).expect("UTF-8")
}

fn json(rec: &Recording, command: &str) -> Value {
    serde_json::from_str(&answer(rec, &[command, "--json"])).expect("JSON")
}

/// What `info` says that the service at a port runs in.
fn runs_in(info: &Value, port: u16) -> Value {
    let services = info["hosts"][0]["services"].as_array().expect("services");
    services.iter().find(|s| s["port"] == port).unwrap_or_else(|| panic!("no service at {port}: {services:?}"))["runs_in"]
        .clone()
}

/// Stops a recording in which these services were asked, and holds how they are called against `names`.
fn check_names(mut rec: Recording, names: &[(&Server, String)]) -> Recording {
    let is_told = || {
        let t = rec.read();
        let is_of = |port| t.endpoints.iter().any(|e| e.lport == port && t.messages.iter().any(|m| m.flow == e.flow));
        names.iter().all(|(server, _)| is_of(server.port))
    };
    until("the requests", is_told);
    rec.signal(libc::SIGINT);
    assert_eq!(rec.wait(std::time::Duration::from_secs(60)), 0, "{}", rec.said());
    let requests = json(&rec, "requests");
    let kinds: Vec<&str> =
        requests["kinds"].as_array().expect("kinds").iter().filter_map(|k| k["service"].as_str()).collect();
    for (server, name) in names {
        let name = format!("{name}:{}", server.port);
        assert!(kinds.contains(&name.as_str()), "{name} is not in {kinds:?}");
    }
    rec
}

#[test]
fn a_service_in_a_container_is_called_by_it() {
    let digits = format!("{:08x}", std::process::id()).repeat(8);
    let Some(docker) = Group::make(&format!("docker-{digits}.scope")) else {
        return skip("no cgroup can be made here");
    };
    let Some(unit) = Group::make(&format!("shop-{}.service", std::process::id())) else {
        return skip("no cgroup can be made here");
    };
    let (before, of_unit) = (docker.server(), unit.server());
    let bare = Server::start(Command::new("python3").args(["-c", SERVER]));
    let Some(rec) = record("auto", &[]) else { return };
    let after = docker.server();
    let all = [&before, &after, &of_unit, &bare];
    all.iter().for_each(|s| s.ask());
    let short = &digits[..12];
    let service = format!("shop-{}", std::process::id());
    let names = [
        (&before, format!("{short}/python3")),
        (&after, format!("{short}/python3")),
        (&of_unit, format!("{service}/python3")),
        (&bare, "python3".to_owned()),
    ];
    let rec = check_names(rec, &names);
    let info = json(&rec, "info");
    let of = runs_in(&info, before.port);
    assert_eq!((of["runtime"].as_str(), of["container"].as_str()), (Some("docker"), Some(digits.as_str())), "{of}");
    assert_eq!(runs_in(&info, of_unit.port)["unit"], format!("{service}.service"));
    assert_eq!(runs_in(&info, bare.port)["container"], "");
    let text = answer(&rec, &["info"]);
    assert!(text.contains(&format!("container {short}")) && text.contains(&format!("{service}.service")), "{text}");
    let spans = answer(&rec, &["export", "--to", "otlp"]);
    assert!(spans.contains(&format!(r#"{{"key":"container.id","value":{{"stringValue":"{digits}"}}}}"#)), "{spans}");
}

/// A container of a runtime of the distribution's: the host's programs in a root of their own, on the host's network.
struct Container {
    runtime: &'static str,
    id: String,
    bundle: tempfile::TempDir,
}

impl Container {
    fn new(runtime: &'static str, number: u32) -> Container {
        let bundle = tempfile::tempdir().expect("a folder");
        fs::create_dir(bundle.path().join("rootfs")).expect("made");
        let mount = |folder: &str| serde_json::json!({"destination": folder, "type": "bind", "source": folder, "options": ["rbind", "ro"]});
        let folders = ["/usr", "/lib", "/lib64", "/bin", "/etc"].into_iter().filter(|f| Path::new(f).exists());
        let mut mounts = vec![serde_json::json!({"destination": "/proc", "type": "proc", "source": "proc"})];
        mounts.extend(folders.map(mount));
        let config = serde_json::json!({
            "ociVersion": "1.0.2",
            "process": {
                "user": {"uid": 0, "gid": 0}, "cwd": "/", "args": ["python3", "-c", SERVER],
                "env": ["PATH=/usr/local/bin:/usr/bin:/bin"],
            },
            "root": {"path": "rootfs"},
            "mounts": mounts,
            "linux": {"namespaces": [{"type": "mount"}, {"type": "pid"}]},
        });
        fs::write(bundle.path().join("config.json"), config.to_string()).expect("written");
        Container { runtime, id: format!("wakepath-{number}-{}", std::process::id()), bundle }
    }

    fn start(&self) -> Option<Server> {
        let bundle = self.bundle.path();
        Server::try_start(Command::new(self.runtime).args(["run", "--bundle"]).arg(bundle).arg(&self.id))
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = Command::new(self.runtime).args(["delete", "--force", &self.id]).output();
    }
}

#[test]
fn a_container_of_runc_or_crun_is_called_by_its_name() {
    for runtime in ["runc", "crun"] {
        if Command::new(runtime).arg("--version").output().is_err() {
            skip(&format!("{runtime} is not installed"));
            continue;
        }
        let (first, second) = (Container::new(runtime, 1), Container::new(runtime, 2));
        let Some(before) = first.start() else {
            skip(&format!("{runtime} starts no container here"));
            continue;
        };
        let Some(rec) = record("auto", &[]) else { return };
        let after = second.start().expect("it starts as the other did");
        before.ask();
        after.ask();
        let names = [(&before, &first), (&after, &second)].map(|(s, c)| (s, format!("{}/python3", c.id)));
        let rec = check_names(rec, &names);
        let of = runs_in(&json(&rec, "info"), before.port);
        assert_eq!((of["runtime"].as_str(), of["name"].as_str()), (Some(runtime), Some(first.id.as_str())), "{of}");
    }
}
