//! Records of stacks into rows: what was lost is counted, and its row says so.

use wakepath_decode::recurring::Said;
use wakepath_decode::{KernelDecoder, Payload, RowSink, TaskFacts};
use wakepath_model::defects::id as defect;
use wakepath_model::ids::{EndpointId, MonoNs, StrId};
use wakepath_model::rows::{EndedBy, Event, Row, StackRow, Table};
use wakepath_wire::{self as w, Frame};

#[derive(Default)]
struct Sink {
    stacks: Vec<StackRow>,
    counted: Vec<&'static str>,
    asked: Vec<(u32, u64, u32)>,
}

impl RowSink for Sink {
    fn push<R: Row>(&mut self, row: &R) {
        if let Some(Event::Stack(r)) = Event::read(Table::Stack, bytes(row)).filter(|_| R::TABLE == Table::Stack) {
            self.stacks.push(r);
        }
    }
    fn push_head(&mut self, _: MonoNs, _: EndpointId, _: u64, _: bool, _: &[u8]) {}
    fn count(&mut self, defect: &'static str, _: MonoNs) {
        self.counted.push(defect);
    }
    fn intern(&mut self, _: &[u8]) -> StrId {
        StrId(2)
    }
    fn stack(&mut self, tgid: u32, image: u64, id: u32) -> StrId {
        self.asked.push((tgid, image, id));
        StrId(9)
    }
    fn said(&mut self, text: &str, _: &Said) -> StrId {
        self.intern(text.as_bytes())
    }
    fn describe(&mut self, _: u32, _: u32) -> TaskFacts {
        TaskFacts::default()
    }
}

fn bytes<R: Row>(row: &R) -> &[u8] {
    bytemuck::bytes_of(row)
}

/// A record as the kernel side writes it.
fn record(id: i32) -> Vec<u8> {
    let mut b = vec![0, 0, 0, 0, 48, 0, w::KIND_STACK, w::CAUSE_TIMER];
    for word in [5_000u64, 4_000, 0x7ffd_0000] {
        b.extend(word.to_ne_bytes());
    }
    for word in [70u32, 71, id as u32] {
        b.extend(word.to_ne_bytes());
    }
    b.extend(7u16.to_ne_bytes());
    b.extend([0, 0]);
    assert_eq!(b.len(), size_of::<w::Stack>());
    b
}

#[test]
fn a_stack_is_asked_for_or_counted_as_lost() {
    let (eexist, enomem, efault) = (17, 12, 14);
    let mut sink = Sink::default();
    let mut decoder = KernelDecoder::new(Payload::None);
    for id in [33, -eexist, -enomem, -efault] {
        let bytes = record(id);
        decoder.frame(Frame { origin: 0, bytes: &bytes }, &mut sink);
    }
    assert_eq!(sink.asked, [(70, 0x7ffd_0000, 33)]);
    assert_eq!(sink.counted, [defect::STACK_LOST, defect::STACK_LOST, defect::STACK_UNREADABLE]);
    let frames: Vec<u32> = sink.stacks.iter().map(|s| s.frames.0).collect();
    assert_eq!(frames, [9, 0, 0, 0]);
    let first = sink.stacks[0];
    assert_eq!(
        (first.at, first.blocked, first.syscall, first.cause),
        (MonoNs(5_000), MonoNs(4_000), 7, EndedBy::Timer)
    );
    // a record that was cut says nothing
    decoder.frame(Frame { origin: 0, bytes: &record(1)[..40] }, &mut sink);
    assert_eq!(sink.stacks.len(), 4);
}
