//! `wakepath attach` and `detach` on a Node.js and a JVM that run, and on processes where they must not do anything.

mod support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use support::{Tested, stderr};

/// Replies with the names of all methods that are no longer what they were when the program began, each a word.
const PROGRAM: &str = r"
const http = require('node:http'), https = require('node:https'), net = require('node:net'), Module = require('node:module');
const METHODS = [
  [net.Socket.prototype, ['write', 'end', '_writeGeneric', 'push']], [http.Server.prototype, ['emit']],
  [https.Server.prototype, ['emit']], [http.IncomingMessage.prototype, ['emit']], [http.ServerResponse.prototype, ['emit']],
  [http.ClientRequest.prototype, ['emit']], [Module, ['_load']],
].flatMap(([of, names]) => names.map(name => [of, name, of[name], JSON.stringify(Object.getOwnPropertyDescriptor(of, name))]));
const changed = () => METHODS.filter(([of, name, was, how]) =>
  of[name] !== was || JSON.stringify(Object.getOwnPropertyDescriptor(of, name)) !== how).map(([, name]) => name);
const server = http.createServer(async (request, reply) => {
  await new Promise(done => setTimeout(done, 1));
  if (request.url === '/wrap') {
    const { write } = net.Socket.prototype;
    net.Socket.prototype.write = function (...args) { return write.apply(this, args); };
  }
  reply.end(changed().join(' '));
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
";

/// A program of Node's that ends with the test.
struct Node {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Node {
    /// `None` (said) where there is no Node.
    fn start(options: &[&str]) -> Result<Option<Node>, Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let file: PathBuf = folder.path().join("program.js");
        std::fs::write(&file, PROGRAM)?;
        let mut command = Command::new("node");
        let started = command.args(options).arg(&file).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let Ok(mut child) = started else {
            eprintln!("skipped: no Node.js; remedy: scripts/install page");
            return Ok(None);
        };
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        Ok(Some(Node { child, port: line.trim().parse()?, _folder: folder }))
    }

    fn ask(&self, path: &str) -> Result<String, Box<dyn std::error::Error>> {
        let mut to = TcpStream::connect(("127.0.0.1", self.port))?;
        write!(to, "GET {path} HTTP/1.0\r\n\r\n")?;
        let mut reply = String::new();
        to.read_to_string(&mut reply)?;
        Ok(reply.split_once("\r\n\r\n").ok_or("no reply")?.1.to_owned())
    }

    fn changed(&self) -> Result<String, Box<dyn std::error::Error>> {
        self.ask("/")
    }

    fn tell(&self, command: &str, more: &[&str]) -> Output {
        run(command, self.child.id(), more)
    }
}

fn run(command: &str, pid: u32, more: &[&str]) -> Output {
    support::run(&[&[command, &pid.to_string()], more].concat())
}

#[test]
fn what_was_attached_is_taken_away_and_may_come_again() -> Tested {
    let Some(node) = Node::start(&["--inspect-port=0"])? else { return Ok(()) };
    assert_eq!(node.changed()?, "");
    for _ in 0..2 {
        let out = node.tell("attach", &["--yes"]);
        assert!(out.status.success(), "{}", stderr(&out));
        assert!(stderr(&out).contains("34 MiB") && stderr(&out).contains("has the helper now"), "{}", stderr(&out));
        assert!(node.changed()?.contains("_writeGeneric"));
        let again = node.tell("attach", &["--yes"]);
        assert!(again.status.success() && stderr(&again).contains("has the helper: "), "{}", stderr(&again));

        let out = node.tell("detach", &["--yes"]);
        assert!(out.status.success() && stderr(&out).contains("is as it was before"), "{}", stderr(&out));
        assert_eq!(node.changed()?, "");
        let again = node.tell("detach", &["--yes"]);
        assert!(again.status.success() && stderr(&again).contains("nothing to undo"), "{}", stderr(&again));
    }
    Ok(())
}

#[test]
fn a_method_that_somebody_else_replaced_behind_the_helper_stays_and_is_said() -> Tested {
    let Some(node) = Node::start(&["--inspect-port=0"])? else { return Ok(()) };
    assert!(node.tell("attach", &["--yes"]).status.success());
    node.ask("/wrap")?;
    let out = node.tell("detach", &["--yes"]);
    assert!(out.status.success() && stderr(&out).contains("1 of its methods stay"), "{}", stderr(&out));
    assert_eq!(node.changed()?, "write");
    Ok(())
}

#[test]
fn an_inspector_that_was_open_stays_open() -> Tested {
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let Some(node) = Node::start(&[&format!("--inspect={port}")])? else { return Ok(()) };
    for command in ["attach", "detach"] {
        let out = node.tell(command, &["--yes"]);
        assert!(out.status.success(), "{}", stderr(&out));
        TcpStream::connect(("127.0.0.1", port))?;
    }
    Ok(())
}

#[test]
fn nothing_is_done_without_a_yes() -> Tested {
    let Some(node) = Node::start(&["--inspect-port=0"])? else { return Ok(()) };
    let out = node.tell("attach", &[]);
    assert_eq!(out.status.code(), Some(1));
    assert!(stderr(&out).contains("SIGUSR1") && stderr(&out).contains("nothing was done"), "{}", stderr(&out));
    assert_eq!(node.changed()?, "");
    Ok(())
}

#[test]
fn a_port_that_is_taken_is_named() -> Tested {
    let other = TcpListener::bind("127.0.0.1:0")?;
    let port = other.local_addr()?.port();
    let Some(node) = Node::start(&[&format!("--inspect-port={port}")])? else { return Ok(()) };
    let out = node.tell("attach", &["--yes"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(stderr(&out).contains(&format!("port {port} is taken")), "{}", stderr(&out));
    assert_eq!(node.changed()?, "");
    Ok(())
}

#[test]
fn what_is_no_node_is_left_alone() -> Tested {
    let mut other = Command::new("sleep").arg("60").spawn()?;
    let out = run("attach", other.id(), &["--yes"]);
    assert!(other.try_wait()?.is_none(), "it was ended");
    let _ = other.kill();
    other.wait()?;
    assert_eq!(out.status.code(), Some(1));
    assert!(stderr(&out).contains("Wakepath has no helper for what this program is built with"), "{}", stderr(&out));
    let gone = run("attach", other.id(), &["--yes"]);
    assert!(stderr(&gone).contains("there is no process"), "{}", stderr(&gone));
    Ok(())
}

/// For each line, says whether a task of a pool runs within something of Wakepath's, and whether its future still gives what it should.
const JAVA: &str = r#"
import java.util.Arrays;
import java.util.concurrent.*;

public class Program {
    public static void main(String[] args) throws Exception {
        var pool = Executors.newFixedThreadPool(2);
        Callable<Boolean> look = () -> Arrays.stream(new Throwable().getStackTrace()).anyMatch(at -> at.getClassName().contains("Wakepath"));
        // so that each of its threads is amid its work when it is changed
        pool.submit(look).get();
        pool.submit(look).get();
        System.out.println("ready");
        while (System.in.read() >= 0) {
            var one = CompletableFuture.supplyAsync(() -> 1, pool).thenCombine(CompletableFuture.supplyAsync(() -> 2), Integer::sum);
            var late = Executors.newSingleThreadScheduledExecutor();
            var two = late.schedule(() -> 4, 1, TimeUnit.MILLISECONDS).get();
            late.shutdown();
            System.out.println(pool.submit(look).get() + " " + (one.thenApplyAsync(n -> n, pool).get() + two));
        }
    }
}
"#;

/// A program on the JVM that ends with the test.
struct Java {
    child: Child,
    says: BufReader<std::process::ChildStdout>,
    _folder: tempfile::TempDir,
}

impl Drop for Java {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Java {
    /// `None` (said) where there is no JDK.
    fn start(options: &[&str]) -> Result<Option<Java>, Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("Program.java");
        std::fs::write(&file, JAVA)?;
        if !Command::new("javac").arg("-version").output().is_ok_and(|out| out.status.success()) {
            eprintln!("skipped: no JDK; remedy: scripts/install test");
            return Ok(None);
        }
        let mut command = Command::new("java");
        command.args(options).arg(&file).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let says = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut java = Java { child, says, _folder: folder };
        assert_eq!(java.line()?, "ready");
        Ok(Some(java))
    }

    fn line(&mut self) -> Result<String, Box<dyn std::error::Error>> {
        let mut line = String::new();
        self.says.read_line(&mut line)?;
        Ok(line.trim().to_owned())
    }

    fn ask(&mut self) -> Result<String, Box<dyn std::error::Error>> {
        self.child.stdin.as_mut().ok_or("no input")?.write_all(b"x")?;
        self.line()
    }

    fn tell(&self, command: &str, more: &[&str]) -> Output {
        run(command, self.child.id(), more)
    }
}

#[test]
fn what_was_attached_to_a_jvm_is_taken_away_and_may_come_again() -> Tested {
    let Some(mut java) = Java::start(&[])? else { return Ok(()) };
    assert_eq!(java.ask()?, "false 7");
    let unasked = java.tell("attach", &[]);
    assert_eq!(unasked.status.code(), Some(1));
    assert!(
        stderr(&unasked).contains("SIGQUIT") && stderr(&unasked).contains("nothing was done"),
        "{}",
        stderr(&unasked)
    );
    assert_eq!(java.ask()?, "false 7");
    for _ in 0..2 {
        let out = java.tell("attach", &["--yes"]);
        assert!(out.status.success(), "{}", stderr(&out));
        assert!(stderr(&out).contains("33 MiB") && stderr(&out).contains("has the agent now"), "{}", stderr(&out));
        assert_eq!(java.ask()?, "true 7");
        let again = java.tell("attach", &["--yes"]);
        assert!(again.status.success() && stderr(&again).contains("has the agent: "), "{}", stderr(&again));

        let out = java.tell("detach", &["--yes"]);
        assert!(out.status.success() && stderr(&out).contains("has its own methods again"), "{}", stderr(&out));
        assert_eq!(java.ask()?, "false 7");
        let again = java.tell("detach", &["--yes"]);
        assert!(again.status.success() && stderr(&again).contains("nothing to undo"), "{}", stderr(&again));
    }
    Ok(())
}

#[test]
fn a_jvm_that_takes_no_agent_goes_on_unchanged() -> Tested {
    for (option, why) in
        [("-XX:+DisableAttachMechanism", "nothing can be loaded into it"), ("-XX:+ReduceSignalUsage", "")]
    {
        let Some(mut java) = Java::start(&[option])? else { return Ok(()) };
        let out = java.tell("attach", &["--yes"]);
        // with fewer signals, a JVM opens its attach socket when it begins
        assert_eq!(out.status.success(), why.is_empty(), "{}", stderr(&out));
        assert!(stderr(&out).contains(why), "{}", stderr(&out));
        assert_eq!(java.ask()?, if why.is_empty() { "true 7" } else { "false 7" });
    }
    Ok(())
}
