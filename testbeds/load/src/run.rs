//! The run: threads that take the next number, send that request, and write down what came of it.

use std::fs::File;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{Connection, Reply};
use crate::mix::{Mix, Shot};
use crate::summary::{Summary, Tally};
use crate::target::Target;

/// Truth lines go to the file in blocks of about this size.
const TRUTH_BLOCK_BYTES: usize = 64 * 1024;

/// What is to be sent, where to, and how fast.
pub struct Plan {
    pub target: Target,
    pub connections: u32,
    pub requests: Option<u64>,
    pub duration: Option<Duration>,
    pub rate: Option<f64>,
    pub mix: Mix,
    pub keep_alive: bool,
    pub id_header: bool,
    /// Header lines of every request, each with its end of line.
    pub headers: String,
    pub seed: u32,
    pub timeout: Duration,
}

/// The clock that the kernel stamps its events with.
pub fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Processor time of this process so far, in seconds: the generator's own share of the machine.
fn own_cpu_s() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: as above.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The truth file, shared by all threads; each hands in whole lines.
struct Truth {
    file: Mutex<Option<File>>,
}

impl Truth {
    fn create(path: Option<&Path>) -> io::Result<Self> {
        Ok(Self { file: Mutex::new(path.map(File::create).transpose()?) })
    }

    fn append(&self, lines: &mut Vec<u8>) -> io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let result = file.as_mut().map_or(Ok(()), |file| file.write_all(lines));
        lines.clear();
        result
    }
}

/// What came of one request.
struct Outcome {
    /// The last attempt's.
    start_ns: u64,
    end_ns: u64,
    client: Option<SocketAddr>,
    result: Result<Reply, String>,
    /// Bytes received, also of a reply that broke off.
    bytes: u64,
    /// How long connecting took, where this request had to.
    connect_ns: Option<u64>,
    /// Connections on which it was sent in vain, and when: closed by the server without a byte.
    in_vain: Vec<(SocketAddr, u64)>,
}

/// One thread with its connection.
struct Worker<'a> {
    plan: &'a Plan,
    truth: &'a Truth,
    next: &'a AtomicU64,
    started: Instant,
    deadline: Instant,
    connection: Option<Connection>,
    tally: Tally,
    lines: Vec<u8>,
}

impl Worker<'_> {
    fn work(mut self) -> io::Result<Tally> {
        let stop = self.plan.duration.map(|duration| self.started + duration);
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if self.plan.requests.is_some_and(|limit| number >= limit) {
                break;
            }
            let due = self.wait_until_due(number, stop);
            let now = Instant::now();
            if now >= self.deadline || stop.is_some_and(|stop| now >= stop) {
                break;
            }
            if let Some(due) = due {
                self.tally.late(now.saturating_duration_since(due));
            }
            let shot = self.plan.mix.shot(self.plan.seed, number);
            let outcome = self.send(&shot);
            self.note(&shot, &outcome);
            if self.lines.len() >= TRUTH_BLOCK_BYTES {
                self.truth.append(&mut self.lines)?;
            }
        }
        self.truth.append(&mut self.lines)?;
        Ok(self.tally)
    }

    /// With a rate, sleeps until this request's time has come, which it returns.
    fn wait_until_due(&self, number: u64, stop: Option<Instant>) -> Option<Instant> {
        let rate = self.plan.rate?;
        let due = Duration::try_from_secs_f64(number as f64 / rate)
            .ok()
            .and_then(|offset| self.started.checked_add(offset))
            .unwrap_or(self.deadline);
        let limit = stop.map_or(self.deadline, |stop| stop.min(self.deadline));
        thread::sleep(due.min(limit).saturating_duration_since(Instant::now()));
        Some(due)
    }

    fn send(&mut self, shot: &Shot) -> Outcome {
        let request = self.text(shot);
        let mut in_vain = Vec::new();
        loop {
            let mut connect_ns = None;
            let mut connection = match self.connection.take() {
                Some(kept) => kept,
                None => {
                    let before = now_ns();
                    match Connection::open(self.plan.target.address, self.deadline) {
                        Ok(fresh) => {
                            connect_ns = Some(now_ns() - before);
                            fresh
                        }
                        Err(problem) => {
                            return Outcome {
                                start_ns: before,
                                end_ns: now_ns(),
                                client: None,
                                result: Err(format!("connect: {problem}")),
                                bytes: 0,
                                connect_ns: None,
                                in_vain,
                            };
                        }
                    }
                }
            };
            let client = connection.local;
            let was_used = connection.answered > 0;
            let start_ns = now_ns();
            let result = connection.exchange(request.as_bytes(), self.deadline);
            let end_ns = now_ns();
            let (result, bytes) = match result {
                Ok(reply) => {
                    if reply.reusable && self.plan.keep_alive {
                        self.connection = Some(connection);
                    }
                    let bytes = reply.bytes;
                    (Ok(reply), bytes)
                }
                // The server closed a connection that it had kept idle, as it may at any time.
                Err(failure) if was_used && failure.bytes == 0 && is_closed(failure.problem.kind()) => {
                    in_vain.push((client, start_ns));
                    continue;
                }
                Err(failure) => (Err(failure.problem.to_string()), failure.bytes),
            };
            return Outcome { start_ns, end_ns, client: Some(client), result, bytes, connect_ns, in_vain };
        }
    }

    fn text(&self, shot: &Shot) -> String {
        let Plan { target, keep_alive, id_header, headers, .. } = self.plan;
        let connection = if *keep_alive { "keep-alive" } else { "close" };
        let (method, body) = match &shot.form {
            Some(form) => ("POST", form.as_str()),
            None => ("GET", ""),
        };
        let about_body = if shot.form.is_some() {
            format!("Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n", body.len())
        } else {
            String::new()
        };
        let id = if *id_header { format!("x-request-id: {}\r\n", shot.rid) } else { String::new() };
        format!(
            "{method} {}{}rid={} HTTP/1.1\r\nHost: {}\r\nUser-Agent: vload\r\nAccept: */*\r\n\
             Connection: {connection}\r\n{id}{headers}{about_body}\r\n{body}",
            shot.path,
            if shot.path.contains('?') { '&' } else { '?' },
            shot.rid,
            target.host
        )
    }

    fn note(&mut self, shot: &Shot, outcome: &Outcome) {
        let status = outcome.result.as_ref().map_or(0, |reply| reply.status);
        self.tally.count(
            shot.route_index,
            status,
            outcome.end_ns - outcome.start_ns,
            outcome.end_ns,
            outcome.in_vain.len() as u64,
            outcome.connect_ns.is_some(),
        );
        let mut line = json!({
            "rid": shot.rid,
            "path": shot.path,
            "status": status,
            "start_ns": outcome.start_ns,
            "end_ns": outcome.end_ns,
            "client": outcome.client.map(|address| address.to_string()),
            "server": self.plan.target.address.to_string(),
            "bytes": outcome.bytes,
        });
        if let Err(problem) = &outcome.result {
            line["error"] = json!(problem);
            self.tally.problem(problem);
        }
        if let Some(connect_ns) = outcome.connect_ns {
            line["connect_ns"] = json!(connect_ns);
        }
        if !outcome.in_vain.is_empty() {
            line["retried"] = outcome
                .in_vain
                .iter()
                .map(|(client, start)| json!({"client": client.to_string(), "start_ns": start}))
                .collect();
        }
        self.lines.extend_from_slice(line.to_string().as_bytes());
        self.lines.push(b'\n');
    }
}

/// Whether an error without a byte of reply means that the other side had closed.
fn is_closed(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(kind, UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe)
}

/// Sends everything and sums it up.
pub fn run(plan: &Plan, truth_path: Option<&Path>) -> io::Result<Summary> {
    let truth = Truth::create(truth_path)?;
    let next = AtomicU64::new(0);
    // All threads exist before the first request leaves: starting them is not part of the rate.
    let ready = Barrier::new(plan.connections as usize + 1);
    let start = Mutex::new(None::<Instant>);
    let cpu_before = own_cpu_s();
    let mut begin_ns = 0;
    let mut total = Tally::new(plan.mix.route_count());
    let mut outcome = Ok(());
    thread::scope(|scope| {
        let threads: Vec<_> = (0..plan.connections)
            .map(|_| {
                scope.spawn(|| {
                    ready.wait();
                    let started = {
                        let mut start = start.lock().unwrap_or_else(PoisonError::into_inner);
                        *start.get_or_insert_with(Instant::now)
                    };
                    Worker {
                        plan,
                        truth: &truth,
                        next: &next,
                        started,
                        deadline: started + plan.timeout,
                        connection: None,
                        tally: Tally::new(plan.mix.route_count()),
                        lines: Vec::new(),
                    }
                    .work()
                })
            })
            .collect();
        begin_ns = now_ns();
        ready.wait();
        for thread in threads {
            match thread.join() {
                Ok(Ok(tally)) => total.add(tally),
                Ok(Err(problem)) => outcome = Err(problem),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    outcome?;
    Ok(Summary::new(plan, total, begin_ns, own_cpu_s() - cpu_before))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;

    fn plan(address: SocketAddr, requests: u64) -> Plan {
        Plan {
            target: Target { address, host: address.to_string() },
            connections: 3,
            requests: Some(requests),
            duration: None,
            rate: None,
            mix: "health,login".parse().unwrap(),
            keep_alive: true,
            id_header: false,
            headers: String::new(),
            seed: 1,
            timeout: Duration::from_secs(200),
        }
    }

    /// Answers `per_connection` requests on each connection, then closes without having said so.
    fn server(per_connection: usize, reply: &'static str) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                thread::spawn(move || serve(&stream, per_connection, reply));
            }
        });
        address
    }

    fn serve(stream: &std::net::TcpStream, per_connection: usize, reply: &str) {
        let mut reader = BufReader::new(stream);
        for _ in 0..per_connection {
            let mut body_bytes = 0;
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line).unwrap_or(0) == 0 {
                    return;
                }
                if let Some(value) = line.strip_prefix("Content-Length: ") {
                    body_bytes = value.trim().parse().unwrap();
                }
                if line == "\r\n" {
                    break;
                }
            }
            io::Read::read_exact(&mut reader, &mut vec![0; body_bytes]).unwrap();
            (&*stream).write_all(reply.as_bytes()).unwrap();
        }
    }

    fn truth_lines(path: &Path) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn truth_path(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("vload-{name}-{}", std::process::id()))
    }

    #[test]
    fn a_closed_idle_connection_costs_a_retry_and_no_request() {
        let path = truth_path("retry");
        let address = server(7, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        let summary = run(&plan(address, 200), Some(&path)).unwrap();
        assert!(summary.all_as_expected());
        let lines = truth_lines(&path);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(lines.len(), 200);
        let rids: std::collections::BTreeSet<_> = lines.iter().map(|line| line["rid"].as_str().unwrap()).collect();
        assert_eq!(rids.len(), 200);
        let retried = lines.iter().filter(|line| line.get("retried").is_some()).count();
        assert!((20..=30).contains(&retried), "{retried}");
        for line in &lines {
            assert_eq!(line["status"], 200);
            assert!(line["start_ns"].as_u64().unwrap() < line["end_ns"].as_u64().unwrap());
            assert_ne!(line["client"], line["server"]);
        }
    }

    #[test]
    fn a_reply_that_breaks_off_is_a_failure_and_not_retried() {
        let path = truth_path("cut");
        let address = server(1, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok");
        let summary = run(&plan(address, 5), Some(&path)).unwrap();
        assert!(!summary.all_as_expected());
        let lines = truth_lines(&path);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(lines.len(), 5);
        assert!(lines.iter().all(|line| line["status"] == 0 && line["error"].is_string()));
    }

    #[test]
    fn a_server_that_never_answers_ends_with_the_timeout() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut plan = plan(listener.local_addr().unwrap(), 1000);
        plan.timeout = Duration::from_millis(300);
        let begin = Instant::now();
        let summary = run(&plan, None).unwrap();
        assert!(begin.elapsed() < Duration::from_secs(60));
        assert!(!summary.all_as_expected());
    }

    #[test]
    fn duration_and_rate_bound_the_run() {
        let address = server(usize::MAX, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        let mut plan = plan(address, 0);
        plan.requests = None;
        plan.duration = Some(Duration::from_millis(500));
        plan.rate = Some(100.0);
        let summary = run(&plan, None).unwrap();
        assert!(summary.all_as_expected());
        // a busy machine may send some too late to count, and none too early
        assert!((1..=50).contains(&summary.answered()), "{}", summary.answered());
    }
}
