//! Both vantages at once: one row an operation, with the kernel's numbers and the library's first bytes.

use wakepath_decode::recurring::Said;
use wakepath_decode::{KernelDecoder, Payload, RowSink, TaskFacts};
use wakepath_model::ids::{EndpointId, MonoNs, StrId, TaskId};
use wakepath_model::rows::{EndpointRow, Event, InputRow, Life, MessageRow, OpRow, PollRow, Row, TaskRow};
use wakepath_wire::{self as w, Frame};

#[derive(Default)]
struct Sink {
    ops: Vec<OpRow>,
    polls: Vec<PollRow>,
    inputs: Vec<InputRow>,
    messages: Vec<MessageRow>,
    endpoints: Vec<EndpointRow>,
    tasks: Vec<TaskRow>,
    texts: Vec<Vec<u8>>,
}

impl RowSink for Sink {
    fn push<R: Row>(&mut self, row: &R) {
        match Event::read(R::TABLE, bytemuck::bytes_of(row)) {
            Some(Event::Op(r)) => self.ops.push(r),
            Some(Event::Poll(r)) => self.polls.push(r),
            Some(Event::Input(r)) => self.inputs.push(r),
            Some(Event::Message(r)) => self.messages.push(r),
            Some(Event::Endpoint(r)) => self.endpoints.push(r),
            Some(Event::Task(r)) => self.tasks.push(r),
            _ => {}
        }
    }
    fn push_head(&mut self, _: MonoNs, _: EndpointId, _: u64, _: bool, _: &[u8]) {}
    fn count(&mut self, _: &'static str, _: MonoNs) {}
    fn intern(&mut self, text: &[u8]) -> StrId {
        self.texts.push(text.to_vec());
        StrId(self.texts.len() as u32)
    }
    fn said(&mut self, text: &str, _: &Said) -> StrId {
        self.intern(text.as_bytes())
    }
    fn describe(&mut self, _: u32, _: u32) -> TaskFacts {
        TaskFacts::default()
    }
}

const FLOW: u64 = 77;
const REQUEST: &[u8] = b"GET /one HTTP/1.1\r\nHost: a\r\n\r\n";

/// A record without its length.
fn record(kind: u8, sub: u8, fields: &[&[u8]]) -> Vec<u8> {
    let mut b = vec![0, 0, 0, 0, 0, 0, kind, sub];
    fields.iter().for_each(|f| b.extend_from_slice(f));
    b.resize(b.len().next_multiple_of(8), 0);
    let bytes = b.len() as u16;
    b[4..6].copy_from_slice(&bytes.to_ne_bytes());
    b
}

fn flow_seen(ts: u64) -> Vec<u8> {
    announced(ts, w::FLOW_ACCEPTED, 0, 2, [127; 16])
}

/// A flow whose ends have one address.
fn announced(ts: u64, how: u8, peer: u64, family: u16, address: [u8; 16]) -> Vec<u8> {
    let seen = record(
        w::KIND_FLOW,
        how,
        &[
            &ts.to_ne_bytes(),
            &FLOW.to_ne_bytes(),
            &peer.to_ne_bytes(),
            &1u32.to_ne_bytes(),
            &5u32.to_ne_bytes(),
            &900u32.to_ne_bytes(),
            &500u32.to_ne_bytes(),
            &family.to_ne_bytes(),
            &6u16.to_ne_bytes(),
            &80u16.to_ne_bytes(),
            &4000u16.to_ne_bytes(),
            &[1, 1, 0, 0],
            &0u32.to_ne_bytes(),
            &address,
            &address,
            // the first bytes' numbers are not told
            &[0; 8],
        ],
    );
    assert_eq!(seen.len(), size_of::<w::FlowSeen>());
    seen
}

/// The same of a connection that was asked for and not answered when the recording began: what the other end will say is numbered from
/// nobody knows where.
fn asked_for(ts: u64) -> Vec<u8> {
    let mut seen = announced(ts, w::FLOW_SNAPSHOT, 0, 2, [127; 16]);
    let at = std::mem::offset_of!(w::FlowSeen, rcv_seq);
    seen[at..at + 4].copy_from_slice(&0u32.to_ne_bytes());
    seen[std::mem::offset_of!(w::FlowSeen, state)] = 2;
    seen
}

fn op(ts: u64, tid: u32, seq_end: u32, bytes: i32, flags: u16, head: &[u8]) -> Vec<u8> {
    record(
        w::KIND_OP,
        w::OP_RECV,
        &[
            &ts.to_ne_bytes(),
            &FLOW.to_ne_bytes(),
            &5u32.to_ne_bytes(),
            &tid.to_ne_bytes(),
            &1u32.to_ne_bytes(),
            &0u32.to_ne_bytes(),
            &seq_end.to_ne_bytes(),
            &bytes.to_ne_bytes(),
            &flags.to_ne_bytes(),
            &(head.len() as u16).to_ne_bytes(),
            &45u16.to_ne_bytes(),
            &0u16.to_ne_bytes(),
            head,
        ],
    )
}

fn poll(ts: u64, ready: i32) -> Vec<u8> {
    let (none, five) = (u64::MAX.to_ne_bytes(), 5u32.to_ne_bytes());
    let (ready, fd) = (ready.to_ne_bytes(), (-1i32).to_ne_bytes());
    record(w::KIND_POLL, w::SC_POLL, &[&ts.to_ne_bytes(), &9u64.to_ne_bytes(), &none, &five, &five, &ready, &fd])
}

fn input(ts: u64) -> Vec<u8> {
    let five = 5u32.to_ne_bytes();
    let ones = [&3i32.to_ne_bytes()[..], &2u32.to_ne_bytes(), &w::INPUTF_ISOLATED.to_ne_bytes(), &[0; 6]].concat();
    record(w::KIND_INPUT, w::INPUT_READ, &[&ts.to_ne_bytes(), &FLOW.to_ne_bytes(), &five, &five, &ones])
}

/// A step in the life of a process; `parent` is who made it.
fn task(ts: u64, what: u8, tgid: u32, parent: u32, name: &str) -> Vec<u8> {
    let (tgid, parent) = (tgid.to_ne_bytes(), parent.to_ne_bytes());
    let mut comm = [0; 16];
    comm[..name.len()].copy_from_slice(name.as_bytes());
    let event =
        record(w::KIND_TASK, what, &[&ts.to_ne_bytes(), &[0; 16], &tgid, &tgid, &parent, &parent, &comm, &[0; 8]]);
    assert_eq!(event.len(), size_of::<w::TaskEvent>());
    event
}

fn frame(bytes: &[u8]) -> Frame<'_> {
    Frame { origin: 0, bytes }
}

#[test]
fn an_operation_seen_twice_is_one_row_with_the_best_of_both() {
    let (mut d, mut s) = (KernelDecoder::new(Payload::Attributes), Sink::default());
    d.join();
    let n = REQUEST.len() as i32;
    d.frame(frame(&flow_seen(10)), &mut s);
    // the library's own announcement would bring other numbers
    d.library_frame(frame(&flow_seen(11)), &mut s);
    d.library_frame(frame(&op(12, 9, 3, 3, 0, b"")), &mut s);
    assert!(s.ops.is_empty(), "the kernel tells of its operations");
    d.frame(frame(&poll(20, 2)), &mut s);
    d.library_frame(frame(&poll(21, 1)), &mut s);
    d.library_frame(frame(&input(21)), &mut s);
    assert_eq!((s.polls.len(), s.polls[0].ready), (1, 1), "what was handed over, not what was ready");
    assert_eq!((s.inputs.len(), s.inputs[0].isolated, s.inputs[0].flow), (1, 1, EndpointId(FLOW)));
    // the kernel discarded what the library had shown: no bytes in its record
    d.frame(frame(&op(30, 5, 500 + n as u32, n, w::OPF_UNREADABLE | w::OPF_TURN, b"")), &mut s);
    assert!(s.ops.is_empty(), "it waits for them");
    d.library_frame(frame(&op(31, 5, 7_000 + n as u32, n, w::OPF_HEAD | w::OPF_BORDER, REQUEST)), &mut s);
    assert_eq!((s.ops.len(), s.messages.len()), (1, 1));
    assert_eq!((s.ops[0].end & 0xffff_ffff, s.ops[0].at), (500 + n as u64, MonoNs(30)), "the kernel's number and time");
    assert_eq!(s.messages[0].start & 0xffff_ffff, 500);
    assert!(s.texts.iter().any(|t| t == b"/one"));
}

#[test]
fn without_the_librarys_record_the_kernels_goes_on_alone() {
    let (mut d, mut s) = (KernelDecoder::new(Payload::Attributes), Sink::default());
    d.join();
    d.frame(frame(&flow_seen(10)), &mut s);
    d.library_frame(frame(&input(11)), &mut s);
    let bare = |ts: u64, end: u32| op(ts, 5, end, 10, w::OPF_UNREADABLE, b"");
    d.frame(frame(&bare(30, 510)), &mut s);
    d.frame(frame(&bare(40, 520)), &mut s);
    assert_eq!(s.ops.len(), 1, "the thread did something else: nothing more comes of the first");
    d.frame(frame(&poll(60_000_000, 1)), &mut s);
    assert_eq!(s.ops.len(), 2, "it came too late");
    d.frame(frame(&bare(60_000_001, 530)), &mut s);
    d.finish(&mut s);
    assert_eq!(s.ops.iter().map(|o| o.end & 0xffff_ffff).collect::<Vec<_>>(), [510, 520, 530]);
}

#[test]
fn library_records_alone_are_decoded_as_they_are() {
    let (mut d, mut s) = (KernelDecoder::new(Payload::Attributes), Sink::default());
    let n = REQUEST.len() as i32;
    d.library_frame(frame(&flow_seen(10)), &mut s);
    d.library_frame(frame(&poll(20, 1)), &mut s);
    d.library_frame(frame(&input(21)), &mut s);
    d.library_frame(frame(&op(31, 5, 500 + n as u32, n, w::OPF_HEAD | w::OPF_BORDER, REQUEST)), &mut s);
    assert_eq!((s.polls.len(), s.inputs.len(), s.ops.len(), s.messages.len()), (1, 1, 1, 1));
    // any cut of a record is no panic
    for whole in [flow_seen(10), poll(20, 1), input(21), op(31, 5, 500, n, w::OPF_HEAD, REQUEST)] {
        (0..whole.len()).for_each(|cut| d.library_frame(frame(&whole[..cut]), &mut s));
    }
}

#[test]
fn a_socket_of_both_families_keeps_its_plain_address_when_it_is_told_again() {
    let (mut d, mut s) = (KernelDecoder::new(Payload::Attributes), Sink::default());
    let mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1];
    d.frame(frame(&announced(10, w::FLOW_SNAPSHOT, 0, 10, mapped)), &mut s);
    // with news, so that a row is written
    d.frame(frame(&announced(11, w::FLOW_SNAPSHOT, 78, 10, mapped)), &mut s);
    let addresses: Vec<_> = s.endpoints.iter().map(|e| (e.family, &e.laddr[..4], &e.raddr[..4], e.peer.0)).collect();
    let plain: &[u8] = &[127, 0, 0, 1];
    assert_eq!(addresses, [(2, plain, plain, 0), (2, plain, plain, 78)]);
}

#[test]
fn a_child_that_tells_of_itself_before_its_maker_does_is_one_task() {
    let (mut d, mut s) = (KernelDecoder::new(Payload::Attributes), Sink::default());
    let steps = [
        task(90, w::TASK_EXEC, 5, 5, "maker"),
        task(200, w::TASK_EXEC, 7, 7, "child"),
        task(100, w::TASK_FORK, 7, 5, "maker"),
        task(300, w::TASK_EXIT, 7, 0, ""),
        // the number is another's now
        task(400, w::TASK_FORK, 7, 5, "maker"),
    ];
    for step in &steps {
        d.library_frame(frame(step), &mut s);
    }
    let of = |what: Life| -> Vec<(u32, u32, TaskId)> {
        let those = s.tasks.iter().filter(|r| r.what == what && r.tid == 7);
        those.map(|r| (r.at.0 as u32, r.task.0, r.parent)).collect()
    };
    let (maker, child) = (TaskId(1), of(Life::Exec)[0].1);
    assert_eq!(of(Life::Fork), [(100, child, maker), (400, child + 1, maker)]);
    assert_eq!(of(Life::Exit), [(300, child, maker)]);
    assert_eq!(d.task_of(7), TaskId(child + 1));
}

#[test]
fn what_answers_a_connection_that_was_being_made_is_numbered_as_its_other_end_does() {
    // numbers in the upper half, too, must not count as long before zero
    for seq in [10, 3_000_000_000u32] {
        let (mut d, mut s) = (KernelDecoder::new(Payload::Attributes), Sink::default());
        d.frame(frame(&asked_for(10)), &mut s);
        d.frame(frame(&op(30, 5, seq + 10, 10, w::OPF_UNREADABLE, b"")), &mut s);
        d.frame(frame(&op(40, 5, seq + 20, 10, w::OPF_UNREADABLE, b"")), &mut s);
        d.finish(&mut s);
        assert_eq!(
            s.ops.iter().map(|o| o.start).collect::<Vec<_>>(),
            [(1 << 32) + u64::from(seq), (1 << 32) + u64::from(seq) + 10]
        );
    }
}
