//! Node's inspector: opened by a signal, spoken to over a WebSocket of this host, closed again.
//!
//! Everything here is bounded: what is read in bytes, what is waited for in time. The process is a watched one, and whoever
//! listens at its port may be another: any bytes may come.

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};

/// How long the inspector may take to open, and a connection to be made.
const OPEN_MAX: Duration = Duration::from_secs(5);
/// How long an answer may take: the program may be in a long call that cannot be interrupted.
const ANSWER_MAX: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(5);
/// Most bytes of a message.
const BYTES_MAX: usize = 1 << 20;
/// Where Node listens if nobody says otherwise.
const USUAL_PORT: u16 = 9229;

/// Evaluated last.
const CLOSE: &str = "require('node:inspector').close()";

// kinds of WebSocket frames
const CONTINUED: u8 = 0;
const TEXT: u8 = 1;
const CLOSED: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// Moves this thread into the network of a process, if that has another.
pub fn enter_network(pid: u32) -> Result<()> {
    let network = |who: &str| std::fs::read_link(format!("/proc/{who}/ns/net"));
    let theirs = network(&pid.to_string()).context("reading its network namespace; run it as root")?;
    if network("thread-self").is_ok_and(|own| own == theirs) {
        return Ok(());
    }
    let file = std::fs::File::open(format!("/proc/{pid}/ns/net")).context("opening its network namespace")?;
    // SAFETY: moves this thread alone, and takes a descriptor that is open.
    if unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) } != 0 {
        let e = std::io::Error::last_os_error();
        bail!("it is in a container, whose network cannot be entered: {e}; run it as root on the host");
    }
    Ok(())
}

/// An inspector that is open, and its only session of ours.
pub struct Inspector {
    pid: u32,
    at: SocketAddr,
    stream: TcpStream,
    /// The number of the last question.
    asked: u32,
    /// It was open before: it stays so.
    is_older: bool,
}

impl Inspector {
    /// Opens it, or takes the one that is open.
    pub fn open(pid: u32) -> Result<Inspector> {
        let before = listening(pid)?;
        let older = said_to_be_open(pid, &before).into_iter().find_map(|at| Some((at, path(at).ok()?)));
        let is_older = older.is_some();
        let (at, path) = match older {
            Some(found) => found,
            None => opened(pid, &before)?,
        };
        let stream = upgraded(at, &path).with_context(|| {
            format!("the inspector at {at} was opened, and stays open until `wakepath detach {pid}` or the end of the process")
        })?;
        Ok(Inspector { pid, at, stream, asked: 0, is_older })
    }

    /// Runs a program in the process; gives the text that it comes to.
    pub fn evaluate(&mut self, program: &str) -> Result<String> {
        self.ask(program)?;
        let deadline = Instant::now() + ANSWER_MAX;
        loop {
            let Some(text) = self.message(deadline)? else {
                bail!("the inspector at {} ended the conversation", self.at)
            };
            let message: Value = serde_json::from_slice(&text).context("an answer that is no JSON")?;
            if message["id"] == self.asked {
                return outcome(&message);
            }
        }
    }

    /// Ends the conversation, and the inspector if it was not open before.
    pub fn close(mut self) -> Result<()> {
        if self.is_older {
            return Ok(());
        }
        self.ask(CLOSE)?;
        let deadline = Instant::now() + ANSWER_MAX;
        // no answer comes: whoever would give it is closed
        while self.message(deadline).is_ok_and(|message| message.is_some()) {}
        drop(self.stream);
        while listening(self.pid)?.contains(&self.at) {
            if Instant::now() > deadline {
                bail!("its inspector did not close: it still listens at {}", self.at);
            }
            std::thread::sleep(STEP);
        }
        Ok(())
    }

    fn ask(&mut self, program: &str) -> Result<()> {
        self.asked += 1;
        let question = json!({
            "id": self.asked,
            "method": "Runtime.evaluate",
            // `require` is there for a person at this prompt, in modules of any kind
            "params": { "expression": program, "includeCommandLineAPI": true, "returnByValue": true },
        });
        self.send(TEXT, question.to_string().as_bytes())
    }

    fn send(&mut self, kind: u8, bytes: &[u8]) -> Result<()> {
        let frame = frame(kind, bytes);
        self.stream.write_all(&frame).with_context(|| format!("writing to the inspector at {}", self.at))
    }

    /// The next message; none where the other side closes.
    fn message(&mut self, deadline: Instant) -> Result<Option<Vec<u8>>> {
        let mut message = Vec::new();
        loop {
            let [first, second] = self.bytes(deadline)?;
            let length = match second & 0x7f {
                126 => usize::from(u16::from_be_bytes(self.bytes(deadline)?)),
                127 => usize::try_from(u64::from_be_bytes(self.bytes(deadline)?)).unwrap_or(usize::MAX),
                short => usize::from(short),
            };
            if second & 0x80 != 0 || message.len().saturating_add(length) > BYTES_MAX {
                bail!("what listens at {} is no inspector of Node's", self.at);
            }
            let mut part = vec![0; length];
            read(&mut self.stream, &mut part, deadline)?;
            match first & 0xf {
                TEXT | CONTINUED => message.append(&mut part),
                CLOSED => return Ok(None),
                PING => {
                    self.send(PONG, &part)?;
                    continue;
                }
                _ => continue,
            }
            if first & 0x80 != 0 {
                return Ok(Some(message));
            }
        }
    }

    fn bytes<const N: usize>(&mut self, deadline: Instant) -> Result<[u8; N]> {
        let mut out = [0; N];
        read(&mut self.stream, &mut out, deadline)?;
        Ok(out)
    }
}

/// A frame of a client's. It must be masked, against proxies; a mask of zeros leaves it as it is, and there is no proxy.
fn frame(kind: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0x80 | kind];
    match bytes.len() {
        short @ ..126 => out.push(0x80 | short as u8),
        middle @ ..0x1_0000 => {
            out.push(0x80 | 126);
            out.extend_from_slice(&(middle as u16).to_be_bytes());
        }
        long => {
            out.push(0x80 | 127);
            out.extend_from_slice(&(long as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(bytes);
    out
}

/// Fills a buffer by a deadline.
fn read(stream: &mut TcpStream, into: &mut [u8], deadline: Instant) -> Result<()> {
    let mut have = 0;
    while have < into.len() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            bail!("no answer within {} s: the program may be busy and may still do it later", ANSWER_MAX.as_secs());
        }
        stream.set_read_timeout(Some(left)).context("setting a timeout")?;
        match stream.read(&mut into[have..]) {
            Ok(0) => bail!("the connection ended"),
            Ok(n) => have += n,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) => {}
            Err(e) => return Err(e).context("reading"),
        }
    }
    Ok(())
}

/// What an evaluation came to.
fn outcome(message: &Value) -> Result<String> {
    if let Some(error) = message["error"]["message"].as_str() {
        bail!("the inspector refused: {error}");
    }
    let result = &message["result"];
    if let Some(thrown) = result.get("exceptionDetails") {
        let text = thrown["exception"]["description"].as_str().or(thrown["text"].as_str()).unwrap_or("an exception");
        bail!("it failed: {}", text.lines().next().unwrap_or_default());
    }
    result["result"]["value"].as_str().map(str::to_owned).context("the inspector's answer has no text")
}

/// Opens the inspector by a signal; gives where it listens, and the path of its session.
fn opened(pid: u32, before: &HashSet<SocketAddr>) -> Result<(SocketAddr, String)> {
    // SAFETY: one system call, which touches no memory.
    if unsafe { libc::kill(pid as i32, libc::SIGUSR1) } != 0 {
        let e = std::io::Error::last_os_error();
        bail!("it cannot be sent a signal: {e}; run it as root, or as the user of the process");
    }
    let begin = Instant::now();
    while begin.elapsed() < OPEN_MAX {
        if let Some(found) = listening(pid)?.difference(before).find_map(|at| Some((*at, path(*at).ok()?))) {
            return Ok(found);
        }
        std::thread::sleep(STEP);
    }
    let port = ports_said(pid).into_iter().next().unwrap_or(USUAL_PORT);
    let is_taken = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), OPEN_MAX).is_ok();
    if is_taken {
        bail!(
            "its inspector did not open: port {port} is taken by another program. Nothing was changed; end that program, or \
             start this one with another --inspect-port"
        );
    }
    bail!(
        "its inspector did not open within {} s of SIGUSR1: the program handles that signal itself, or Node may not open it \
         (--permission), or it is stopped or busy in one call. No helper was put into it, but should it open its inspector yet, that \
         stays open. Start it with `node --require` (`wakepath helper --help`)",
        OPEN_MAX.as_secs()
    )
}

/// Of what a process listens at: where its command line or environment says that its inspector is open.
fn said_to_be_open(pid: u32, listening: &HashSet<SocketAddr>) -> Vec<SocketAddr> {
    let said = ports_said(pid);
    let is_said = |at: &&SocketAddr| said.contains(&at.port()) || at.port() == USUAL_PORT;
    listening.iter().filter(is_said).copied().collect()
}

/// Ports for the inspector that a process was told.
fn ports_said(pid: u32) -> Vec<u16> {
    let text = |what| std::fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
    let words = [text("cmdline"), text("environ")].concat();
    let options = words.split(|b| *b == 0 || b.is_ascii_whitespace()).filter_map(|word| std::str::from_utf8(word).ok());
    options.map(|word| word.strip_prefix("NODE_OPTIONS=").unwrap_or(word)).filter_map(port_said).collect()
}

/// `--inspect=9300`, `--inspect-brk=127.0.0.1:9300`, `--inspect-port=9300`.
fn port_said(option: &str) -> Option<u16> {
    let (name, value) = option.split_once('=')?;
    let is_it = name.starts_with("--inspect") || name == "--debug-port";
    value.rsplit(':').next().filter(|_| is_it)?.parse().ok()
}

/// Where a process listens for TCP connections, in its own network.
fn listening(pid: u32) -> Result<HashSet<SocketAddr>> {
    let folder = format!("/proc/{pid}/fd");
    let open =
        std::fs::read_dir(&folder).with_context(|| format!("reading {folder}; run it as root, or as its user"))?;
    let inode =
        |link: std::path::PathBuf| link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse::<u64>().ok();
    let own: HashSet<u64> = open.flatten().filter_map(|fd| inode(std::fs::read_link(fd.path()).ok()?)).collect();
    let mut out = HashSet::new();
    for table in ["tcp", "tcp6"] {
        let text = std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        out.extend(text.lines().filter_map(listener).filter(|(_, inode)| own.contains(inode)).map(|(at, _)| at));
    }
    Ok(out)
}

/// Address and inode of a socket that listens, out of a line of `/proc/net/tcp` or `tcp6`.
fn listener(line: &str) -> Option<(SocketAddr, u64)> {
    const LISTENS: &str = "0A";
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let (address, port) = words.get(1)?.split_once(':')?;
    if *words.get(3)? != LISTENS {
        return None;
    }
    // each group of four bytes is a number of this machine's
    let groups = (0..address.len() / 8).map(|i| u32::from_str_radix(address.get(i * 8..i * 8 + 8)?, 16).ok());
    let bytes: Vec<u8> = groups.collect::<Option<Vec<u32>>>()?.into_iter().flat_map(u32::to_ne_bytes).collect();
    let address = match bytes.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?),
        16 => IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?),
        _ => return None,
    };
    let at = SocketAddr::new(address, u16::from_str_radix(port, 16).ok()?);
    Some((at, words.get(9)?.parse().ok()?))
}

/// Where to connect to what listens at an address.
fn reachable(at: SocketAddr) -> SocketAddr {
    let host = match at.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(host, at.port())
}

fn connected(at: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&reachable(at), OPEN_MAX).with_context(|| format!("connecting to {at}"))?;
    stream.set_write_timeout(Some(ANSWER_MAX)).context("setting a timeout")?;
    Ok(stream)
}

/// The path of the only session that an inspector of Node's offers; an error where it is none.
fn path(at: SocketAddr) -> Result<String> {
    let mut stream = connected(at)?;
    write!(stream, "GET /json/list HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", reachable(at))?;
    let deadline = Instant::now() + OPEN_MAX;
    let head = head(&mut stream, deadline)?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok()).flatten()
    });
    let length = length.filter(|n| *n <= BYTES_MAX).context("what listens there is no inspector of Node's")?;
    let mut body = vec![0; length];
    read(&mut stream, &mut body, deadline)?;
    let sessions: Value = serde_json::from_slice(&body).context("what listens there is no inspector of Node's")?;
    let node = sessions.as_array().and_then(|all| all.iter().find(|s| s["type"] == "node"));
    let id =
        node.and_then(|s| s["id"].as_str()).filter(|id| id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'));
    Ok(format!("/{}", id.context("what listens there is no inspector of Node's")?))
}

/// A connection on which frames go.
fn upgraded(at: SocketAddr, path: &str) -> Result<TcpStream> {
    let mut stream = connected(at)?;
    // the key guards against caches, of which there are none here
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: d2FrZXBhdGgtYXR0YWNoLg==\r\nSec-WebSocket-Version: 13\r\n\r\n",
        reachable(at)
    )?;
    let head = head(&mut stream, Instant::now() + OPEN_MAX)?;
    if !head.starts_with("HTTP/1.1 101 ") {
        bail!("it refused: {}", head.lines().next().unwrap_or_default());
    }
    Ok(stream)
}

/// The head of an HTTP reply, byte by byte, so that nothing after it is taken.
fn head(stream: &mut TcpStream, deadline: Instant) -> Result<String> {
    const HEAD_MAX: usize = 4096;
    let mut out = Vec::new();
    while !out.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        read(stream, &mut byte, deadline)?;
        out.push(byte[0]);
        if out.len() > HEAD_MAX {
            bail!("what listens there is no inspector of Node's");
        }
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}
