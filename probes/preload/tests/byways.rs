//! Ways that bytes and events take beside read, write and epoll_wait: told like those, or said to be out of sight.

mod support;

use support::{Run, program, same_in_all_modes};
use wakepath_wire as w;
use wakepath_wire::arena::aside;

fn run(part: &str) -> Run {
    same_in_all_modes(&program("byways"), &[part])
}

/// Bytes of each operation of one kind that moved some.
fn moved(run: &Run, op: u8) -> Vec<i32> {
    let all = run.operations().into_iter();
    all.filter(|o| o.head.sub == op && o.bytes > 0).map(|o| o.bytes).collect()
}

/// Where the last bytes that were sent end, and the last that were received.
fn ends(run: &Run) -> (u32, u32) {
    let end = |op: u8| {
        let last = run.operations().into_iter().rfind(|o| o.head.sub == op && o.bytes > 0);
        last.map_or(0, |o| o.seq_end)
    };
    (end(w::OP_SEND), end(w::OP_RECV))
}

#[test]
fn fortified_calls_are_told() {
    let run = run("fortified");
    assert_eq!((moved(&run, w::OP_SEND), moved(&run, w::OP_RECV)), (vec![5], vec![1, 2, 2]));
    let polls: Vec<w::Poll> = run.all(w::KIND_POLL);
    assert_eq!(polls.len(), 2);
}

#[test]
fn vectors_without_an_offset_are_told() {
    let run = run("vectors");
    assert_eq!((moved(&run, w::OP_SEND), moved(&run, w::OP_RECV)), (vec![6], vec![6]));
}

#[test]
fn calls_made_by_their_numbers_are_told() {
    let run = run("by_number");
    assert_eq!((moved(&run, w::OP_SEND), moved(&run, w::OP_RECV)), (vec![3, 5], vec![3, 5]));
    let (sent, received) = ends(&run);
    assert_eq!(sent, received);
}

#[test]
fn bytes_that_are_looked_at_count_once() {
    let run = run("peeked");
    assert_eq!(moved(&run, w::OP_RECV), [4]);
}

#[test]
fn a_loop_by_epoll_pwait2() {
    let run = run("pwait2");
    if run.text().contains("no epoll_pwait2") {
        println!("skipped: this kernel has no epoll_pwait2");
        return;
    }
    let inputs: Vec<w::Input> = run.all(w::KIND_INPUT);
    assert!(inputs.len() >= 12 && inputs.iter().all(|i| i.flags & w::INPUTF_ISOLATED != 0));
    let polls: Vec<w::Poll> = run.all(w::KIND_POLL);
    assert!(polls.iter().all(|p| p.head.sub == w::SC_EPOLL2));
}

#[test]
fn signals_by_descriptor_are_inputs_of_no_flow() {
    let run = run("signals");
    assert_eq!(moved(&run, w::OP_RECV), [1], "the signal is on no flow");
}

#[test]
fn streams_on_a_connection_are_said() {
    let run = run("streams");
    assert_eq!(run.aside[aside::DESCRIPTOR], 2);
    assert!(moved(&run, w::OP_SEND).is_empty() && moved(&run, w::OP_RECV).is_empty());
}

#[test]
fn the_wait_for_a_name_is_seen() {
    let run = run("resolver");
    if run.text().contains("no localhost") {
        println!("skipped: nobody knows localhost here");
        return;
    }
    let waits: Vec<w::Wait> = run.all(w::KIND_WAIT);
    assert!(waits.iter().any(|x| x.syscall == w::NO_SYSCALL), "it reads files at least");
}

#[test]
fn asynchronous_calls_are_said() {
    let run = run("aio");
    assert_eq!(run.aside[aside::DESCRIPTOR], 2);
    let run = self::run("submitted");
    if run.text().contains("no io_setup") {
        println!("skipped: this kernel has no asynchronous calls");
        return;
    }
    assert_eq!(run.aside[aside::DESCRIPTOR], 1);
}

#[test]
fn an_urgent_byte_is_beside_the_stream() {
    let run = run("urgent");
    let flows: Vec<w::FlowSeen> = run.all(w::KIND_FLOW);
    let of = |how: u8| flows.iter().find(|f| f.head.sub == how).expect("both ends").flow;
    let last = |flow: u64, op: u8| {
        let all = run.operations().into_iter();
        all.rev().find(|o| o.flow == flow && o.head.sub == op && o.bytes > 0).expect("bytes moved").seq_end
    };
    let (client, server) = (of(w::FLOW_CONNECTED), of(w::FLOW_ACCEPTED));
    assert_eq!(last(client, w::OP_SEND), last(server, w::OP_RECV));
    assert_eq!(last(server, w::OP_SEND), last(client, w::OP_RECV));
}
