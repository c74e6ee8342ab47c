//! PostgreSQL with TLS: statements are told as without it, at both ends.

use crate::harness::*;
use crate::tls::{SECRET, files};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use wakepath_model::rows::MessageRole;

/// Clients, and how often each runs the statements.
const CLIENTS: u32 = 2;
const TIMES: u32 = 20;

/// Statements with literals, one of which nobody may find; with many rows, with one long value, and of which none comes.
const STATEMENTS: &str = "\\set aid random(1, 1000)
BEGIN;
UPDATE pairs SET value = value || 'x' WHERE key = :aid;
INSERT INTO pairs VALUES (:aid + 1000, 'hunter2-QxKvBzJwMp');
END;
SELECT repeat('x', 30000) AS large;
SELECT generate_series(1, 300), 'hunter2-QxKvBzJwMp';
SELECT value FROM pairs WHERE key = :aid LIMIT 3;
";

/// What the statements are about.
const MADE: &str = "CREATE TABLE pairs AS SELECT g AS key, '' AS value FROM generate_series(1, 1000) g";

/// A server that ends with the test.
struct Server {
    child: Child,
    programs: PathBuf,
    port: u16,
    dir: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        // SAFETY: signals a child of ours that was not waited for yet: its fast shutdown, which ends its own children.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGINT) };
        let _ = self.child.wait();
    }
}

/// The newest version's programs.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let newest = versions.filter_map(|e| Some(e.ok()?.path().join("bin"))).filter(|p| p.join("initdb").exists()).max();
    newest.filter(|p| p.join("pgbench").exists())
}

fn as_postgres(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--init-groups"]).arg(program).current_dir("/");
    command
}

fn done(command: &mut Command) {
    let o = command.output().expect("it starts");
    assert!(o.status.success(), "{command:?}: {}", String::from_utf8_lossy(&o.stderr));
}

impl Server {
    fn start() -> Option<Server> {
        let Some(programs) = programs() else {
            skip("no PostgreSQL; remedy: scripts/install bench");
            return None;
        };
        let dir = tempfile::tempdir().expect("a temporary folder");
        let data = dir.path().join("data");
        done(Command::new("chmod").arg("755").arg(dir.path()));
        done(Command::new("install").args(["-d", "-m", "700", "-o", "postgres"]).arg(&data));
        done(as_postgres(&programs.join("initdb")).arg("-D").arg(&data).args(["-A", "trust", "--no-sync"]));
        let key = [data.join("server.key"), data.join("server.crt")];
        let mut made = Command::new("openssl");
        made.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout"]);
        done(made.arg(&key[0]).arg("-out").arg(&key[1]));
        done(Command::new("chown").arg("postgres").args(&key));
        done(Command::new("chmod").arg("600").args(&key));
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("an address").port();
        drop(free);
        let mut server = as_postgres(&programs.join("postgres"));
        server.arg("-D").arg(&data).args(["-p", &port.to_string(), "-c", "ssl=on", "-c", "fsync=off"]);
        server.args(["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]);
        let child = server.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        let server = Server { child, programs, port, dir };
        until("it accepts", || server.client("pg_isready").output().is_ok_and(|o| o.status.success()));
        done(server.client("psql").args(["-c", MADE]));
        std::fs::write(server.dir.path().join("statements.sql"), STATEMENTS).expect("a file");
        Some(server)
    }

    fn client(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.args(["-h", "127.0.0.1", "-U", "postgres", "-p", &self.port.to_string()]);
        command
    }

    /// What it is asked, and how often, by which end saw it; recorded while clients run the statements.
    fn asked(&self, backend: &str, with_tls: bool, how: &str) -> Option<BTreeMap<(bool, String, String), usize>> {
        let pids = format!("{},{}", std::process::id(), self.child.id());
        let folder = self.dir.path().join(format!("{backend}-{with_tls}-{how}"));
        let rec = record_to(backend, &["--tls", "--no-compress", "--pid", &pids], folder.clone())?;
        let mut load = self.client("pgbench");
        load.args(["-n", "-c", &CLIENTS.to_string(), "-t", &TIMES.to_string(), "-M", how, "-f"]);
        load.arg(self.dir.path().join("statements.sql"));
        load.arg(format!("dbname=postgres sslmode={}", if with_tls { "require" } else { "disable" }));
        done(&mut load);
        let trace = rec.stop();
        for file in files(&folder) {
            let bytes = std::fs::read(&file).expect("a file");
            assert!(!bytes.windows(SECRET.len()).any(|w| w == SECRET.as_bytes()), "{file:?}");
        }
        let (mut asked, mut replies) = (BTreeMap::new(), [0, 0]);
        for m in trace.messages.iter().filter(|m| trace.text(m.protocol) == "proto.postgres") {
            let is_sent = m.sent != 0;
            match m.role {
                MessageRole::Request if trace.text(m.verb) != "SSLREQUEST" => {
                    let key = (is_sent, trace.text(m.verb).to_owned(), trace.text(m.target).to_owned());
                    *asked.entry(key).or_default() += 1;
                }
                MessageRole::Reply => replies[usize::from(is_sent)] += 1,
                _ => {}
            }
        }
        // a reply for each request, and the byte that agrees to TLS
        assert_eq!(replies[0], replies[1], "{:?}", trace.losses);
        Some(asked)
    }
}

#[test]
fn statements_are_told_as_without_tls() {
    let Some(server) = Server::start() else { return };
    for how in ["simple", "extended", "prepared"] {
        let Some(plain) = server.asked("auto", false, how) else { return };
        let each = (CLIENTS * TIMES) as usize;
        assert!(plain.values().filter(|n| **n >= each).count() >= 14, "seven statements at two ends: {plain:?}");
        for backend in BACKENDS {
            let Some(encrypted) = server.asked(backend, true, how) else { return };
            assert_eq!(encrypted, plain, "{backend}, {how}");
        }
    }
}
