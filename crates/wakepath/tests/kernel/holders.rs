//! Who held it up: the reader of a full connection, who accepts from a full queue, and those that share a processor. Real
//! processes, which write down what they did.

use crate::harness::*;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::mpsc;
use std::time::Duration;

const MS: u64 = 1_000_000;
/// Between two looks at the clock, longer than this means that somebody else ran.
const GAP_NS: u64 = 30_000;

/// Computes for so long by the clock; when it had a processor.
fn compute(ns: u64) -> Vec<Interval> {
    let end = now_ns() + ns;
    let (mut ran, mut begin) = (Vec::new(), now_ns());
    let mut last = begin;
    while last < end {
        let now = now_ns();
        if now > last + GAP_NS {
            ran.push((begin, last));
            begin = now;
        }
        last = now;
    }
    ran.push((begin, last));
    ran
}

fn common(a: &[Interval], b: &[Interval]) -> u64 {
    a.iter().flat_map(|x| b.iter().map(move |y| overlap(*x, *y))).sum()
}

/// Computes until it had a processor for so long; when it had one.
fn compute_in_all(ns: u64) -> Vec<Interval> {
    let mut ran: Vec<Interval> = Vec::new();
    while ran.iter().map(|i| i.1 - i.0).sum::<u64>() < ns {
        ran.extend(compute(MS));
    }
    ran
}

/// A process that plays a part and says, each on a line, what it has to say.
pub struct Player {
    pub child: Child,
    pub to: ChildStdin,
    said: BufReader<ChildStdout>,
}

impl Drop for Player {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Player {
    pub fn start(test: &str, part: &str) -> Player {
        Player::with(test, part, &[])
    }

    /// The same with variables besides.
    pub fn with(test: &str, part: &str, variables: &[(&str, &str)]) -> Player {
        let mut command = helper(test, part);
        command.envs(variables.iter().copied());
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let to = child.stdin.take().expect("a pipe");
        let said = BufReader::new(child.stdout.take().expect("a pipe"));
        Player { child, to, said }
    }

    /// What follows a word that it says; the test's own runner says other things.
    pub fn hears(&mut self, word: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.said.read_line(&mut line).expect("a pipe") > 0, "it ended without saying {word}");
            if let Some((_, rest)) = line.split_once(word) {
                return rest.trim().to_owned();
            }
        }
    }

    pub fn number(&mut self, word: &str) -> u64 {
        self.hears(word).parse().expect("a number")
    }

    fn intervals(&mut self, word: &str) -> Vec<Interval> {
        let all: Vec<u64> = self.hears(word).split(' ').map(|n| n.parse().expect("a number")).collect();
        all.chunks(2).map(|two| (two[0], two[1])).collect()
    }

    pub fn tell(&mut self) {
        self.to.write_all(b"\n").expect("it listens");
    }

    pub fn pid(&self) -> String {
        self.child.id().to_string()
    }
}

pub fn told() {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("it is told");
}

fn say_intervals(word: &str, of: &[Interval]) {
    let numbers: Vec<String> = of.iter().map(|i| format!("{} {}", i.0, i.1)).collect();
    println!("{word}{}", numbers.join(" "));
}

fn buffers(fd: &impl AsRawFd, option: libc::c_int, bytes: libc::c_int) {
    // SAFETY: the value is a live int of the stated size.
    let done = unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, option, (&raw const bytes).cast(), 4) };
    assert_eq!(done, 0);
}

fn stop(recording: &mut Recording) {
    // the newest records settle for some milliseconds
    pause(30);
    recording.signal(libc::SIGINT);
    assert_eq!(recording.wait(Duration::from_secs(60)), 0, "{}", recording.said());
}

/// A path for who reads why a test failed.
fn shown(path: &[(Interval, Value)]) -> String {
    let line = |s: &(Interval, Value)| {
        let v = &s.1;
        let of =
            ["task", "state", "by", "syscall", "object", "evidence", "reason"].map(|k| v[k].as_str().unwrap_or("-"));
        format!("{:>12} {:>12} {}", s.0.0, s.0.1 - s.0.0, of.join(" | "))
    };
    path.iter().filter(|s| s.0.1 - s.0.0 > MS / 10).map(line).collect::<Vec<_>>().join("\n")
}

/// Whether a slice is of a thread, in a state.
fn is_of(slice: &Value, tid: u64, state: &str) -> bool {
    slice["state"] == state && slice["task"].as_str().is_some_and(|t| t.ends_with(&format!("/{tid}")))
}

#[test]
fn a_full_connection_is_its_readers_time() {
    const NAME: &str = "holders::a_full_connection_is_its_readers_time";
    const BYTES: usize = 2 << 20;
    if part().is_some() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        buffers(&listener, libc::SO_RCVBUF, 64 << 10);
        println!("tid {}", gettid());
        println!("port {}", listener.local_addr().expect("it is bound").port());
        let (mut from, _) = listener.accept().expect("it accepts");
        told();
        let slept = now_ns();
        pause(300);
        let woke = now_ns();
        let ran = compute_in_all(60 * MS);
        from.read_exact(&mut vec![0; BYTES]).expect("it comes");
        say_intervals("slept ", &[(slept, woke)]);
        say_intervals("ran ", &ran);
        wait_stdin();
        return;
    }
    for backend in BACKENDS {
        let mut reader = Player::start(NAME, "reader");
        let (tid, port) = (reader.number("tid "), reader.number("port "));
        let Some(mut rec) = record(backend, &["--pid", &reader.pid()]) else { continue };
        let (says, said) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut to = TcpStream::connect(("127.0.0.1", port as u16)).expect("it connects");
            buffers(&to, libc::SO_SNDBUF, 64 << 10);
            says.send((gettid(), to.as_raw_fd())).expect("it is heard");
            let begin = now_ns();
            to.write_all(&vec![7; BYTES]).expect("it goes");
            let written = (begin, now_ns());
            // that nothing is cut: its time goes on
            pause(20);
            written
        });
        let (writer, fd) = said.recv().expect("it says so");
        until_asleep(writer, libc::SYS_sendto, Some(fd));
        reader.tell();
        let written = thread.join().expect("it ends");
        let (slept, ran) = (reader.intervals("slept "), reader.intervals("ran "));
        stop(&mut rec);
        let path = path_of(&rec, writer);
        // before its buffers are full, a writer may also wait for a delayed acknowledgement
        for (state, truth, least) in [("timer", &slept, 40), ("running", &ran, 90)] {
            let truth: Vec<Interval> = truth.iter().map(|i| (i.0.max(written.0), i.1.min(written.1))).collect();
            let all: u64 = truth.iter().map(|i| i.1.saturating_sub(i.0)).sum();
            let told: Vec<Interval> = path.iter().filter(|s| is_of(&s.1, tid, state)).map(|s| s.0).collect();
            let (share, least) = (common(&told, &truth), all / 100 * least);
            assert!(
                all > 10 * MS && share >= least,
                "{backend}, {state}: {share} of {all} ns are the reader's:\n{}",
                shown(&path)
            );
        }
        let by_read = path.iter().any(|s| s.1["evidence"] == "read (by-rule)");
        assert!(by_read, "{backend}: no slice says how that is known");
    }
}

#[test]
fn a_connection_that_nobody_takes_waits_in_a_full_queue() {
    const NAME: &str = "holders::a_connection_that_nobody_takes_waits_in_a_full_queue";
    if part().is_some() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        // room for one
        // SAFETY: our own descriptor.
        assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
        println!("tid {}", gettid());
        println!("port {}", listener.local_addr().expect("it is bound").port());
        told();
        let slept = now_ns();
        pause(400);
        say_intervals("slept ", &[(slept, now_ns())]);
        let taken: Vec<_> = (0..3).map(|_| listener.accept().expect("it accepts")).collect();
        wait_stdin();
        drop(taken);
        return;
    }
    for backend in BACKENDS {
        let mut server = Player::start(NAME, "server");
        let (tid, port) = (server.number("tid "), server.number("port "));
        let Some(mut rec) = record(backend, &["--pid", &server.pid()]) else { continue };
        let address = SocketAddr::from(([127, 0, 0, 1], port as u16));
        let _first = TcpStream::connect(address).expect("there is room for one");
        let (says, said) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            says.send(gettid()).expect("it is heard");
            let begin = now_ns();
            let connected = TcpStream::connect(address).expect("it connects");
            let blocked = (begin, now_ns());
            pause(20);
            (blocked, connected)
        });
        let client = said.recv().expect("it says so");
        until("a connection that waits or is there", || {
            let is_in = std::fs::read_to_string(format!("/proc/{client}/syscall")).unwrap_or_default();
            is_in.starts_with(&format!("{} ", libc::SYS_connect)) || thread.is_finished()
        });
        server.tell();
        let (blocked, _connected) = thread.join().expect("it ends");
        // a third connection, for the third accept
        let _third = TcpStream::connect(address).expect("it connects");
        stop(&mut rec);
        if blocked.1 - blocked.0 < 900 * MS {
            skip("the kernel answers a connection for which the queue has no room");
            continue;
        }
        let path = path_of(&rec, client);
        // whose queue it was, how long, and who listens there; and not what that one did meanwhile
        let its = |s: &&(Interval, Value)| {
            s.1["state"] == "queued"
                && s.1["reason"].as_str().is_some_and(|r| r.contains("accept queue"))
                && s.1["object"] == format!("127.0.0.1:{port} (1 of 1)")
        };
        // without the socket hooks a queue's length is known at the begin and the end alone
        let may_be = |s: &&(Interval, Value)| {
            backend == "syscalls" && s.1["reason"].as_str().is_some_and(|r| r.contains("queue had no room"))
        };
        let told: Vec<Interval> = path.iter().filter(|s| its(s) || may_be(s)).map(|s| s.0).collect();
        let (share, all) = (common(&told, &[blocked]), blocked.1 - blocked.0);
        assert!(
            share >= all - all / 10,
            "{backend}: {share} of {all} ns are the queue's; lost {:?}, waits {:?}:\n{}",
            rec.read().losses,
            rec.read().waits_of(client),
            shown(&path)
        );
        let by_listener =
            |s: &(Interval, Value)| s.1["by"].as_str().is_some_and(|b| b.ends_with(&format!("/{}", server.pid())));
        assert!(path.iter().filter(its).all(by_listener), "{backend}, {tid}:\n{}", shown(&path));
    }
}

#[test]
fn a_writer_to_somebody_unwatched_says_so() {
    const NAME: &str = "holders::a_writer_to_somebody_unwatched_says_so";
    const BYTES: usize = 1 << 20;
    if part().is_some() {
        println!("tid {}", gettid());
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).expect("it is told");
        let mut to = TcpStream::connect(("127.0.0.1", line.trim().parse().expect("a port"))).expect("it connects");
        buffers(&to, libc::SO_SNDBUF, 64 << 10);
        let begin = now_ns();
        to.write_all(&vec![7; BYTES]).expect("it goes");
        say_intervals("written ", &[(begin, now_ns())]);
        wait_stdin();
        return;
    }
    for backend in BACKENDS {
        let mut writer = Player::start(NAME, "writer");
        let tid = writer.number("tid ");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        buffers(&listener, libc::SO_RCVBUF, 64 << 10);
        let port = listener.local_addr().expect("it is bound").port();
        let Some(mut rec) = record_as(backend, &["--pid", &writer.pid()]) else { continue };
        writeln!(writer.to, "{port}").expect("it listens");
        let (mut from, _) = listener.accept().expect("it accepts");
        until_asleep(tid as i32, libc::SYS_sendto, None);
        pause(60);
        from.read_exact(&mut vec![0; BYTES]).expect("it comes");
        let written = writer.intervals("written ");
        stop(&mut rec);
        let path = path_of(&rec, tid as i32);
        let unread = |s: &&(Interval, Value)| {
            s.1["state"] == "unread"
                && s.1["reason"].as_str().is_some_and(|r| r.contains("its reader is slow, and is not recorded"))
        };
        let told: Vec<Interval> = path.iter().filter(unread).map(|s| s.0).collect();
        let share = common(&told, &written);
        assert!(share > 40 * MS, "{backend}: {share} ns of {written:?}:\n{}", shown(&path));
    }
}

/// A hog's part, on one processor until it had it for so long, whoever else wants it: when it ran.
fn share_a_processor(ns: u64) -> Vec<Interval> {
    assert!(on_processor(a_processor()), "{}", std::io::Error::last_os_error());
    compute_in_all(ns)
}

#[test]
fn each_of_several_hogs_is_named_for_what_it_ran() {
    const NAME: &str = "holders::each_of_several_hogs_is_named_for_what_it_ran";
    const FOR_NS: u64 = 175 * MS;
    if part().is_some() {
        println!("tid {}", gettid());
        told();
        let ran = share_a_processor(FOR_NS);
        say_intervals("ran ", &ran);
        wait_stdin();
        return;
    }
    let mut hogs: Vec<Player> = (0..3).map(|_| Player::start(NAME, "hog")).collect();
    let tids: Vec<u64> = hogs.iter_mut().map(|h| h.number("tid ")).collect();
    let Some(mut rec) = record("auto", &[]) else { return };
    hogs.iter_mut().for_each(Player::tell);
    let victim = std::thread::spawn(|| {
        let ran = share_a_processor(FOR_NS);
        pause(20);
        (gettid(), ran)
    });
    let (victim, mine) = victim.join().expect("it ends");
    let theirs: Vec<Vec<Interval>> = hogs.iter_mut().map(|h| h.intervals("ran ")).collect();
    stop(&mut rec);
    let off: Vec<Interval> = mine.windows(2).map(|two| (two[0].1, two[1].0)).collect();
    let path = path_of(&rec, victim);
    let window = [(mine[0].0, mine[mine.len() - 1].1)];
    let (mut held, mut ran_meanwhile) = (0, 0);
    for (i, (tid, ran)) in tids.iter().zip(&theirs).enumerate() {
        let by =
            |s: &Value| s["state"] == "preempted" && s["by"].as_str().is_some_and(|b| b.ends_with(&format!("/{tid}")));
        let told: Vec<Interval> = path.iter().filter(|s| by(&s.1)).map(|s| s.0).collect();
        let (truth, right) = (common(&off, ran), common(&told, ran));
        held += truth;
        ran_meanwhile += common(&window, ran);
        // interrupts and looking at the clock are nobody's, nor is what a hypervisor takes: a gap in what a hog saw is no
        // proof that another ran, only that another saw itself run is
        let is_untold =
            |s: &&(Interval, Value)| !by(&s.1) && common(&[s.0], ran) > MS / 10 && s.1["state"] != "running";
        assert!(
            right + truth / 20 + 2 * MS >= truth,
            "{tid}: {right} of {truth} ns that it ran are told:\n{}",
            shown(&path.iter().filter(is_untold).cloned().collect::<Vec<_>>())
        );
        let others = theirs.iter().enumerate().filter(|o| o.0 != i).map(|o| o.1);
        let wrong: u64 = others.chain([&mine]).map(|o| common(&told, o)).sum();
        assert!(
            wrong <= truth / 20 + 2 * MS,
            "{tid}: in {wrong} ns that are told of it another ran, {right} are right"
        );
    }
    assert!(held > 0 && held >= ran_meanwhile / 2, "they shared no processor: {held} of {ran_meanwhile} ns");
}
