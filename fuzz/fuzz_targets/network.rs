//! Any packets of any kind of link: no panic, and bounded memory.
//!
//! `cargo +nightly fuzz run network`, from the root of the repository.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakepath_decode::network::{Sniffer, SnifferOptions};
use wakepath_decode::recurring::Said;
use wakepath_decode::{RowSink, TaskFacts};
use wakepath_model::defects;
use wakepath_model::ids::{EndpointId, MonoNs, StrId};
use wakepath_model::rows::Row;
use wakepath_wire::packet::{Packet, link};

struct Sink;

impl RowSink for Sink {
    fn push<R: Row>(&mut self, _: &R) {}
    fn push_head(&mut self, _: MonoNs, _: EndpointId, _: u64, _: bool, _: &[u8]) {}
    fn count(&mut self, defect: &'static str, _: MonoNs) {
        assert!(defects::find(defect).is_some(), "{defect} is not in the list of defects");
    }
    fn intern(&mut self, _: &[u8]) -> StrId {
        StrId(1)
    }
    fn said(&mut self, text: &str, _: &Said) -> StrId {
        self.intern(text.as_bytes())
    }
    fn describe(&mut self, _: u32, _: u32) -> TaskFacts {
        TaskFacts::default()
    }
}

const LINKS: [u32; 8] =
    [link::ETHERNET, link::RAW, link::NULL, link::LINUX_SLL, link::LINUX_SLL2, link::IPV4, link::IPV6, link::LOOP];

// Packets one behind the other, each after a byte of link, two of length, one of bytes not captured, and two of time in ms.
fuzz_target!(|data: &[u8]| {
    let options = SnifferOptions { flows_max: 8, held_bytes_max: 1 << 14, ..SnifferOptions::default() };
    let mut sniffer = Sniffer::new(Sink, options);
    let (mut rest, mut at_ns) = (data, 1_000_000_000);
    while let Some((&[kind, high, low, missing, late, later], behind)) = rest.split_first_chunk() {
        let size = usize::from(u16::from_be_bytes([high, low])).min(behind.len());
        let (bytes, next) = behind.split_at(size);
        at_ns += u64::from(u16::from_be_bytes([late, later])) * 1_000_000;
        let link = LINKS[usize::from(kind) % LINKS.len()];
        sniffer.packet(&Packet { at_ns, link, interface: 0, length: size as u32 + u32::from(missing), bytes });
        if missing == 0xff {
            sniffer.lost(MonoNs(at_ns - 1000), MonoNs(at_ns), 3);
        }
        rest = next;
    }
    sniffer.idle(MonoNs(at_ns + 1));
    sniffer.finish();
});
