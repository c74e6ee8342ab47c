//! Whole scenes: what is recorded of a guest whose tasks make system calls.

use crate::made::{Made, btf};
use crate::{Cpu, Guest, Records};
use wakepath_wire as w;
use wakepath_wire::Frame;
use wakepath_wire::arena::aside;

const VARIABLES: u64 = 0xffff_8880_0000_0000;
const SERVER: u64 = 0xffff_8881_0000_0000;
const CLIENT: u64 = 0xffff_8882_0000_0000;
const FILES: u64 = 0xffff_8883_0000_0000;
const BUFFER: u64 = 0x7f00_0000_0000;
const CODE: u64 = 0x40_0000;
const SOCKET: u16 = 0o140_000;
const ESTABLISHED: u8 = 1;

#[derive(Default)]
struct Written {
    records: Vec<Vec<u8>>,
    asides: Vec<usize>,
}

impl Records for Written {
    fn put<T: w::Record>(&mut self, record: &T, tail: &[u8], _: u32) {
        self.records.push([w::bytes_of(record), tail].concat());
    }
    fn aside(&mut self, why: usize) {
        self.asides.push(why);
    }
}

impl Written {
    fn of<T: w::Record>(&self, kind: u8) -> Vec<(T, Vec<u8>)> {
        let all = self.records.iter().map(|bytes| Frame { origin: 0, bytes });
        let those = all.filter(|f| f.head().is_some_and(|h| h.kind == kind));
        those.map(|f| (f.read::<T>().expect("whole"), f.tail::<T>(f.bytes.len()).to_vec())).collect()
    }
}

/// A guest, what it has in its memory, and what was recorded.
struct Scene {
    guest: Guest,
    memory: Made,
    out: Written,
    now_ns: u64,
}

impl Scene {
    fn new() -> Scene {
        let (memory, mut out) = (Made::default(), Written::default());
        memory.task(SERVER, (100, 101), "server", CLIENT);
        memory.task(CLIENT, (200, 200), "client", CLIENT);
        memory.write(BUFFER, &[0; 256]);
        let mut guest = Guest::new(64);
        guest.use_types(Some(&btf()), &mut out);
        Scene { guest, memory, out, now_ns: 1000 }
    }

    fn enters(&mut self, task: u64, call: u64, arguments: [u64; 6]) {
        self.at(task, 0x7ffe_0000, |guest, cpu, out| guest.enters(call, arguments, CODE + 2, cpu, out));
    }

    fn returns(&mut self, task: u64, result: i64) {
        self.at(task, 0x7ffe_0000, |guest, cpu, out| {
            assert!(guest.awaits(CODE + 2, cpu.stack));
            guest.returns(CODE + 2, result as u64, cpu, out);
        });
    }

    fn at(&mut self, task: u64, stack: u64, f: impl FnOnce(&mut Guest, &Cpu<'_>, &mut Written)) {
        self.memory.runs(VARIABLES, task);
        self.now_ns += 1000;
        let cpu = Cpu { number: 1, now_ns: self.now_ns, variables: VARIABLES, stack, memory: &self.memory };
        f(&mut self.guest, &cpu, &mut self.out);
    }

    fn call(&mut self, task: u64, call: u64, arguments: [u64; 6], result: i64) {
        self.enters(task, call, arguments);
        self.returns(task, result);
    }
}

#[test]
fn a_request_over_loopback_has_both_ends_and_its_bytes() {
    let mut s = Scene::new();
    let ours = s.memory.descriptor(CLIENT, 3, FILES, (SOCKET, 501));
    s.memory.tcp(ours, (40_000, 80), (ESTABLISHED, 1001, 2001));
    s.call(CLIENT, 42, [3, BUFFER, 16, 0, 0, 0], 0);
    s.enters(SERVER, 43, [9, 0, 0, 0, 0, 0]);
    let theirs = s.memory.descriptor(SERVER, 7, FILES + 0x1000, (SOCKET, 502));
    s.memory.tcp(theirs, (80, 40_000), (ESTABLISHED, 2001, 1001));
    s.returns(SERVER, 7);
    s.memory.write(BUFFER, b"GET / HTTP/1.1\r\n\r\n");
    s.enters(CLIENT, 1, [3, BUFFER, 18, 0, 0, 0]);
    s.memory.numbers(ours, 1019, 2001);
    s.returns(CLIENT, 18);
    s.enters(SERVER, 0, [7, BUFFER, 256, 0, 0, 0]);
    s.memory.numbers(theirs, 2001, 1019);
    s.returns(SERVER, 18);

    let flows: Vec<_> = s.out.of::<w::FlowSeen>(w::KIND_FLOW).into_iter().map(|(f, _)| f).collect();
    let told: Vec<_> = flows.iter().map(|f| (f.head.sub, f.flow, f.lport, f.rport, f.snd_seq, f.rcv_seq)).collect();
    assert_eq!(
        told,
        [(w::FLOW_CONNECTED, 501, 40_000, 80, 1001, 2001), (w::FLOW_ACCEPTED, 502, 80, 40_000, 2001, 1001)]
    );
    assert!(flows.iter().all(|f| (f.netns, f.family, f.protocol, f.kind) == (77, 2, 6, 1)));
    assert_eq!(flows[0].laddr[..5], [127, 0, 0, 1, 0]);
    let moved: Vec<_> = s.out.of::<w::Op>(w::KIND_OP);
    let told: Vec<_> = moved.iter().map(|(o, _)| (o.head.sub, o.tid, o.flow, o.bytes, o.seq_end)).collect();
    assert_eq!(
        told,
        [
            (w::OP_CONNECT, 200, 501, 0, 0),
            (w::OP_ACCEPT, 101, 502, 0, 0),
            (w::OP_SEND, 200, 501, 18, 1019),
            (w::OP_RECV, 101, 502, 18, 1019)
        ]
    );
    for (o, head) in &moved[2..] {
        assert_eq!(head, b"GET / HTTP/1.1\r\n\r\n");
        assert_eq!((o.entry_ago_ns, o.flags), (1000, w::OPF_ENTRY | w::OPF_HEAD | w::OPF_TURN));
    }
    assert!(s.out.asides.is_empty());
}

#[test]
fn the_last_descriptor_ends_a_connection_and_another_does_not() {
    let mut s = Scene::new();
    let sock = s.memory.descriptor(CLIENT, 3, FILES, (SOCKET, 501));
    s.memory.tcp(sock, (40_000, 80), (ESTABLISHED, 10, 20));
    s.call(CLIENT, 42, [3, 0, 0, 0, 0, 0], 0);
    s.memory.word(FILES + 0x38, 2);
    s.call(CLIENT, 3, [3, 0, 0, 0, 0, 0], 0);
    assert!(s.out.of::<w::FlowState>(w::KIND_STATE).is_empty());
    s.memory.word(FILES + 0x38, 1);
    s.call(CLIENT, 3, [3, 0, 0, 0, 0, 0], 0);
    let ends = s.out.of::<w::FlowState>(w::KIND_STATE);
    assert_eq!(ends.iter().map(|(e, _)| (e.flow, e.snd_seq, e.rcv_seq)).collect::<Vec<_>>(), [(501, 10, 20)]);
    assert_eq!(s.out.of::<w::Op>(w::KIND_OP).len(), 3, "connect and two closes");
}

#[test]
fn a_fin_is_no_byte() {
    let mut s = Scene::new();
    let sock = s.memory.descriptor(CLIENT, 3, FILES, (SOCKET, 501));
    s.memory.tcp(sock, (40_000, 80), (ESTABLISHED, 10, 20));
    s.call(CLIENT, 42, [3, 0, 0, 0, 0, 0], 0);
    // two of five bytes are read, and the FIN has come; then the rest with the FIN
    for (copied, read) in [(22, 2), (26, 3)] {
        s.enters(CLIENT, 0, [3, BUFFER, read, 0, 0, 0]);
        s.memory.word(sock + 0x28, 2);
        s.memory.write(sock + 0x104, &u32::to_le_bytes(copied));
        s.memory.write(sock + 0x108, &26u32.to_le_bytes());
        s.returns(CLIENT, read as i64);
    }
    s.call(CLIENT, 3, [3, 0, 0, 0, 0, 0], 0);
    let told = s.out.of::<w::Op>(w::KIND_OP);
    let told: Vec<_> = told[1..3].iter().map(|(o, _)| (o.bytes, o.seq_end, o.flags & w::OPF_MORE != 0)).collect();
    assert_eq!(told, [(2, 22, true), (3, 25, false)]);
    let ends = s.out.of::<w::FlowState>(w::KIND_STATE);
    assert_eq!(ends.iter().map(|(e, _)| e.rcv_seq).collect::<Vec<_>>(), [25]);
}

#[test]
fn a_thread_is_its_makers_by_the_stack_that_it_begins_with() {
    const THREAD: u64 = 0x10000;
    const STACK: u64 = 0x7f12_3456_0000;
    let child = SERVER + 0x10_0000;
    let mut s = Scene::new();
    s.enters(SERVER, 56, [THREAD, STACK, 0, 0, 0, 0]);
    s.memory.task(child, (100, 102), "server", CLIENT);
    s.at(child, STACK, |guest, cpu, out| {
        assert!(guest.awaits(CODE + 2, STACK), "it may be one that is being made");
        guest.returns(CODE + 2, 0, cpu, out);
        assert!(!guest.awaits(CODE + 2, STACK), "none is any more");
    });
    s.returns(SERVER, 102);
    // another one with the same stack was not made so
    let other = SERVER + 0x20_0000;
    s.memory.task(other, (100, 103), "server", CLIENT);
    s.at(other, STACK, |guest, cpu, out| guest.returns(CODE + 2, 0, cpu, out));
    let told: Vec<_> = s.out.of::<w::TaskEvent>(w::KIND_TASK).into_iter().map(|(t, _)| t).collect();
    let told: Vec<_> = told.iter().map(|t| (t.head.sub, t.tgid, t.tid, t.parent_tid)).collect();
    assert_eq!(told, [(w::TASK_SNAPSHOT, 100, 101, 0), (w::TASK_FORK, 100, 102, 101), (w::TASK_SNAPSHOT, 100, 103, 0)]);
}

#[test]
fn a_program_is_told_when_its_memory_is_another() {
    let mut s = Scene::new();
    s.enters(CLIENT, 59, [0; 6]);
    // it fails
    s.returns(CLIENT, -2);
    s.enters(CLIENT, 59, [0; 6]);
    let mm = CLIENT + 0x700;
    s.memory.word(CLIENT + 0x40, mm);
    s.memory.write(CLIENT + 0x20, b"other\0");
    s.memory.word(mm + 0x108, BUFFER);
    s.memory.word(mm + 0x110, BUFFER + 8);
    s.memory.write(BUFFER, b"other\0-x");
    s.at(CLIENT, 0x7fff_0000, |guest, cpu, out| {
        assert!(guest.awaits(0x7f00_0000_1000, 0x7fff_0000), "it begins anywhere");
        guest.returns(0x7f00_0000_1000, 0, cpu, out);
        assert!(!guest.awaits(0x7f00_0000_1000, 0x7fff_0000));
    });
    let told = s.out.of::<w::TaskEvent>(w::KIND_TASK);
    let told: Vec<_> = told.iter().map(|(t, words)| (t.head.sub, &t.comm[..5], &words[..])).collect();
    assert_eq!(told, [(w::TASK_SNAPSHOT, &b"clien"[..], &b""[..]), (w::TASK_EXEC, b"other", b"other\0-x")]);
}

#[test]
fn a_call_in_a_signal_handler_does_not_end_the_one_around_it() {
    let mut s = Scene::new();
    let sock = s.memory.descriptor(CLIENT, 3, FILES, (SOCKET, 501));
    s.memory.tcp(sock, (40_000, 80), (ESTABLISHED, 10, 20));
    s.enters(CLIENT, 0, [3, BUFFER, 10, 0, 0, 0]);
    let handler = CODE + 0x1000;
    s.at(CLIENT, 0x7ffd_0000, |guest, cpu, out| {
        guest.enters(1, [3, BUFFER, 4, 0, 0, 0], handler, cpu, out);
        // the same page of code, where this program has it
        guest.returns(handler + 0x7000, 4, cpu, out);
    });
    s.returns(CLIENT, 10);
    // what is no end of a call tells nothing
    s.returns(CLIENT, 10);
    s.enters(CLIENT, 0, [3, BUFFER, 10, 0, 0, 0]);
    s.at(CLIENT, 0x7ffe_0008, |guest, cpu, out| guest.returns(CODE + 2, 10, cpu, out));
    s.at(CLIENT, 0x7ffe_0000, |guest, cpu, out| guest.returns(CODE + 3, 10, cpu, out));
    let told: Vec<_> = s.out.of::<w::Op>(w::KIND_OP).iter().map(|(o, _)| (o.head.sub, o.bytes)).collect();
    assert_eq!(told, [(w::OP_SEND, 4), (w::OP_RECV, 10)]);
}

#[test]
fn another_boot_has_flows_of_its_own() {
    let mut s = Scene::new();
    s.memory.task(CLIENT, (1, 1), "init", CLIENT);
    let sock = s.memory.descriptor(CLIENT, 3, FILES, (SOCKET, 501));
    s.memory.tcp(sock, (40_000, 80), (ESTABLISHED, 10, 20));
    s.call(CLIENT, 42, [3, 0, 0, 0, 0, 0], 0);
    let again = CLIENT + 0x10_0000;
    s.memory.task(again, (1, 1), "init", CLIENT);
    s.memory.word(again + 0x30, 7);
    let sock = s.memory.descriptor(again, 3, FILES + 0x1000, (SOCKET, 501));
    s.memory.tcp(sock, (40_001, 80), (ESTABLISHED, 10, 20));
    s.call(again, 42, [3, 0, 0, 0, 0, 0], 0);
    let flows: Vec<u64> = s.out.of::<w::FlowSeen>(w::KIND_FLOW).iter().map(|(f, _)| f.flow).collect();
    assert_eq!(flows, [501, 501 | 1 << 40]);
}

#[test]
fn what_cannot_be_read_is_counted_and_no_more() {
    let mut s = Scene::new();
    s.memory.runs(VARIABLES, 0x1234);
    let mut cpu = Cpu { number: 0, now_ns: 1, variables: VARIABLES, stack: 0, memory: &s.memory };
    s.guest.enters(1, [3, BUFFER, 4, 0, 0, 0], CODE, &cpu, &mut s.out);
    cpu.variables = u64::MAX;
    s.guest.enters(1, [u64::MAX; 6], CODE, &cpu, &mut s.out);
    s.guest.returns(CODE, 0, &cpu, &mut s.out);
    assert_eq!(s.out.asides, [aside::GUEST_UNREAD; 3]);
    assert!(s.out.records.is_empty());
    s.out.asides.clear();
    // pointers into nothing, and lengths without end
    let sock = s.memory.descriptor(CLIENT, 3, FILES, (SOCKET, 501));
    s.memory.tcp(sock, (40_000, 80), (ESTABLISHED, 10, 20));
    s.call(CLIENT, 20, [3, u64::MAX - 4, u64::MAX, 0, 0, 0], i64::from(i32::MAX));
    s.call(CLIENT, 1, [3, u64::MAX, u64::MAX, 0, 0, 0], i64::MAX);
    s.call(CLIENT, 307, [3, u64::MAX - 100, u64::MAX, 0, 0, 0], i64::MAX);
    let told: Vec<_> = s.out.of::<w::Op>(w::KIND_OP).iter().map(|(o, _)| (o.bytes, o.flags)).collect();
    assert_eq!(told, [(i32::MAX, w::OPF_ENTRY | w::OPF_TURN | w::OPF_UNREADABLE)]);
}

/// Memory in which every address is there, and half of what it has are addresses again.
struct Anything(u64);

impl crate::Memory for Anything {
    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        for (i, byte) in into.iter_mut().enumerate() {
            let at = at.wrapping_add(i as u64);
            let word = (at / 8).wrapping_add(self.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let word = if word & 1 == 0 { word | 1 << 63 } else { word >> (word % 64) };
            *byte = word.to_le_bytes()[(at % 8) as usize];
        }
        !at.is_multiple_of(7)
    }
}

proptest::proptest! {
    #[test]
    fn whatever_a_guest_has_in_its_memory_records_stay_bounded(
        seed: u64,
        calls in proptest::collection::vec((0u64..450, proptest::array::uniform6(proptest::num::u64::ANY), proptest::num::u64::ANY, 0u64..3), 1..200),
    ) {
        let memory = Anything(seed);
        let mut out = Written::default();
        let mut guest = Guest::new(usize::MAX);
        guest.use_types(Some(&btf()), &mut out);
        for (number, arguments, result, which) in calls {
            let variables = seed.wrapping_mul(which);
            let cpu = Cpu { number: 0, now_ns: 1, variables, stack: which, memory: &memory };
            guest.enters(number, arguments, which, &cpu, &mut out);
            guest.returns(which, result, &cpu, &mut out);
        }
        let most = w::RING_SLACK as usize;
        proptest::prop_assert!(out.records.iter().all(|r| r.len() <= most));
    }
}

#[test]
fn a_kernel_without_types_is_counted_once() {
    let mut out = Written::default();
    let mut guest = Guest::new(64);
    let memory = Made::default();
    for _ in 0..3 {
        guest.kernel(0xffff_ffff_bfff_f000, &memory, &mut out);
    }
    assert_eq!(out.asides, [aside::GUEST_TYPES]);
    assert!(!guest.is_known());
}
