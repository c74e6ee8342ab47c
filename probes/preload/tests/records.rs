//! What is written about a program: the layouts, numbers and flags that the recorder and the linkers rely on.

mod support;

use std::collections::HashMap;
use std::io::Write as _;
use std::process::Command;
use support::{Mode, Run, program, run, run_with, wait_for};
use wakepath_wire as w;

const REQUEST: usize = "GET /item HTTP/1.1\r\nHost: a\r\n\r\n".len();

/// Flows by cookie, as they were first announced.
fn flows(run: &Run) -> HashMap<u64, w::FlowSeen> {
    let mut all = HashMap::new();
    for f in run.all::<w::FlowSeen>(w::KIND_FLOW) {
        all.entry(f.flow).or_insert(f);
    }
    all
}

#[test]
fn each_read_of_pipelined_requests_is_one_request() {
    for part in ["edge", "level", "oneshot"] {
        let run = run(Mode::Isolate, &program("loops"), &[part]);
        let flows = flows(&run);
        let served =
            |o: &&w::Op| o.head.sub == w::OP_RECV && o.bytes > 0 && flows[&o.flow].head.sub == w::FLOW_ACCEPTED;
        let operations = run.operations();
        let taken: Vec<_> = operations.iter().filter(served).collect();
        assert_eq!(taken.len(), 12, "{part}");
        assert!(taken.iter().all(|o| o.bytes as usize == REQUEST), "{part}: each is a whole request");
        let cut = taken.iter().filter(|o| o.flags & w::OPF_BORDER != 0).count();
        assert!(cut <= 8, "{part}: the last of three had nothing behind it");
    }
}

#[test]
fn an_input_comes_before_what_is_read_from_it() {
    let run = run(Mode::Isolate, &program("loops"), &["edge"]);
    let flows = flows(&run);
    let mut last: HashMap<u32, u64> = HashMap::new();
    let mut reads = 0;
    for r in &run.records {
        if let (w::KIND_INPUT, Some(i)) = (r[6], w::view::<w::Input>(r)) {
            last.insert(i.tid, i.flow);
        }
        if let (w::KIND_OP, Some(o)) = (r[6], w::view::<w::Op>(r))
            && o.head.sub == w::OP_RECV
            && flows[&o.flow].head.sub == w::FLOW_ACCEPTED
        {
            assert_eq!(last.get(&o.tid), Some(&o.flow));
            reads += 1;
        }
    }
    assert!(reads >= 16, "twelve requests and four ends");
}

/// Both ends of each connection: who connected, who accepted.
fn ends(flows: &HashMap<u64, w::FlowSeen>) -> Vec<(w::FlowSeen, w::FlowSeen)> {
    let mirrored = |a: &w::FlowSeen, b: &w::FlowSeen| (a.lport, a.rport) == (b.rport, b.lport);
    let connected = flows.values().filter(|f| f.head.sub == w::FLOW_CONNECTED);
    connected
        .filter_map(|a| Some((*a, *flows.values().find(|b| b.head.sub == w::FLOW_ACCEPTED && mirrored(a, b))?)))
        .collect()
}

fn last_end(run: &Run, flow: u64, op: u8) -> u32 {
    let o = run.operations().into_iter().rfind(|o| o.flow == flow && o.head.sub == op && o.bytes > 0);
    o.expect("bytes moved").seq_end
}

#[test]
fn both_ends_number_their_bytes_alike() {
    let run = run(Mode::Isolate, &program("loops"), &["edge"]);
    let pairs = ends(&flows(&run));
    assert_eq!(pairs.len(), 4);
    for (client, server) in &pairs {
        assert_eq!((client.snd_seq, client.rcv_seq), (server.rcv_seq, server.snd_seq));
        assert_eq!(last_end(&run, client.flow, w::OP_SEND), last_end(&run, server.flow, w::OP_RECV));
        assert_eq!(last_end(&run, client.flow, w::OP_RECV), last_end(&run, server.flow, w::OP_SEND));
        assert_eq!(last_end(&run, client.flow, w::OP_SEND).wrapping_sub(client.snd_seq) as usize, 3 * REQUEST);
    }
    let mut begins: Vec<_> = pairs.iter().flat_map(|(c, s)| [c.snd_seq, s.snd_seq]).collect();
    begins.sort_unstable();
    begins.dedup();
    assert_eq!(begins.len(), 8, "no two directions begin alike");
}

#[test]
fn switched_on_in_the_middle_numbers_agree() {
    let mut command = Command::new(program("loops"));
    let run = run_with(Mode::Off, command.arg("in_the_middle"), |arena, child| {
        wait_for(child.stdout.as_mut().expect("piped"), "half");
        arena.switch(Mode::Isolate);
        child.stdin.take().expect("piped").write_all(b"\n").expect("it waits");
    });
    assert!(run.output.status.success(), "{}", run.text());
    let flows = flows(&run);
    let pairs: Vec<_> = flows.values().filter(|f| f.protocol == 6 && f.rport != 0).collect();
    assert_eq!(pairs.len(), 2, "both ends are met");
    assert!(pairs.iter().all(|f| f.head.sub == w::FLOW_MET));
    let (a, b) = (pairs[0], pairs[1]);
    // each was met at its own moment: what one has sent since, the other has received
    assert_eq!(last_end(&run, a.flow, w::OP_SEND), last_end(&run, b.flow, w::OP_RECV));
    assert_eq!(last_end(&run, b.flow, w::OP_SEND), last_end(&run, a.flow, w::OP_RECV));
}

#[test]
fn calls_under_way_when_it_is_switched_on_are_told() {
    let mut command = Command::new(program("loops"));
    let run = run_with(Mode::Off, command.arg("under_way"), |arena, child| {
        wait_for(child.stdout.as_mut().expect("piped"), "half");
        arena.switch(Mode::Isolate);
        child.stdin.take().expect("piped").write_all(b"\n").expect("it waits");
    });
    assert!(run.output.status.success(), "{}", run.text());
    let flows = flows(&run);
    let pairs: Vec<_> = flows.values().filter(|f| f.head.sub == w::FLOW_MET && f.rport != 0).collect();
    assert_eq!(pairs.len(), 2, "both ends are met");
    let (a, b) = (pairs[0], pairs[1]);
    assert_eq!((a.snd_seq, a.rcv_seq), (b.rcv_seq, b.snd_seq), "the server's before the bytes that its read took");
    assert_eq!(last_end(&run, a.flow, w::OP_SEND), last_end(&run, b.flow, w::OP_RECV));
    assert_eq!(last_end(&run, b.flow, w::OP_SEND), last_end(&run, a.flow, w::OP_RECV));
    let accepted = run.operations().iter().filter(|o| o.head.sub == w::OP_ACCEPT).count();
    assert_eq!(accepted, 1, "the accept that was under way");
}

#[test]
fn switched_off_nothing_more_is_written() {
    let mut command = Command::new(program("loops"));
    let mut before = 0;
    let run = run_with(Mode::Isolate, command.arg("in_the_middle"), |arena, child| {
        wait_for(child.stdout.as_mut().expect("piped"), "half");
        arena.switch(Mode::Off);
        before = monotonic_ns();
        child.stdin.take().expect("piped").write_all(b"\n").expect("it waits");
    });
    assert!(run.output.status.success(), "{}", run.text());
    let began_late = |o: &&w::Op| o.ts_ns - w::ago_ns(o.entry_ago_ns) > before;
    let late = run.operations().iter().filter(began_late).count();
    assert_eq!(late, 0);
    assert!(run.operations().len() > 3, "the first half is there");
}

fn monotonic_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a live timespec
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

#[test]
fn a_child_names_its_parent_before_it_does_anything() {
    let run = run(Mode::Isolate, &program("loops"), &["edge"]);
    let mut seen: HashMap<u32, u8> = HashMap::new();
    for r in &run.records {
        let tgid = match r[6] {
            w::KIND_TASK => w::view::<w::TaskEvent>(r).expect("whole").tgid,
            w::KIND_OP => w::view::<w::Op>(r).expect("whole").tgid,
            _ => continue,
        };
        seen.entry(tgid).or_insert(r[6]);
    }
    assert_eq!(seen.len(), 5);
    assert!(seen.values().all(|&kind| kind == w::KIND_TASK));
    let tasks = run.tasks();
    let server = tasks.iter().find(|t| t.head.sub == w::TASK_EXEC).expect("it began");
    assert!(server.start_ns > 0 && server.comm.starts_with(b"preload-loops"));
    let forks: Vec<_> = tasks.iter().filter(|t| t.head.sub == w::TASK_FORK).collect();
    assert_eq!(forks.len(), 4);
    assert!(forks.iter().all(|t| (t.parent_tgid, t.parent_tid) == (server.tgid, server.tid)));
    assert_eq!(tasks.iter().filter(|t| t.head.sub == w::TASK_EXIT).count(), 5);
}

#[test]
fn threads_say_who_made_them() {
    let run = run(Mode::Observe, &program("loops"), &["threads"]);
    let tasks = run.tasks();
    let of_threads = |what: u8| tasks.iter().filter(|t| t.head.sub == what && t.tid != t.tgid).count();
    assert_eq!((of_threads(w::TASK_FORK), of_threads(w::TASK_EXIT)), (2, 2));
}

#[test]
fn both_ends_of_a_socketpair_know_each_other() {
    let run = run(Mode::Observe, &program("loops"), &["nested"]);
    let flows = flows(&run);
    let paired = flows.values().filter(|f| f.peer_flow != 0).collect::<Vec<_>>();
    assert!(paired.len() >= 4);
    assert!(paired.iter().all(|f| flows.get(&f.peer_flow).is_some_and(|p| p.peer_flow == f.flow)));
}

#[test]
fn a_wait_names_what_ended_it() {
    let run = run(Mode::Observe, &program("tasks"), &["passed"]);
    let waits: Vec<w::Wait> = run.all(w::KIND_WAIT);
    assert!(!waits.is_empty());
    assert!(waits.iter().all(|x| x.ts_ns - x.blocked_ns >= 10_000 && x.ts_ns == x.woken_ns));
    let reads = waits.iter().filter(|x| x.head.sub == w::CAUSE_SOCKET && x.object != 0).count();
    assert!(reads >= 1);
}

#[test]
fn a_wait_of_poll_ends_with_the_bytes_that_arrived() {
    // isolating, with the first of them: the read that follows tells the rest
    for (mode, bytes) in [(Mode::Observe, 2 * REQUEST as u32), (Mode::Isolate, 1)] {
        let run = run(mode, &program("loops"), &["low_mark"]);
        let flows = flows(&run);
        let server = flows.values().find(|f| f.head.sub == w::FLOW_ACCEPTED).expect("one connection");
        let waits: Vec<w::Wait> = run.all(w::KIND_WAIT);
        let polled = |x: &&w::Wait| x.object == server.flow && i64::from(x.syscall) == libc::SYS_ppoll;
        let arrived: Vec<_> = waits.iter().filter(polled).map(|x| x.rcv_seq.wrapping_sub(server.rcv_seq)).collect();
        assert_eq!(arrived, [bytes], "{mode:?}");
    }
}
