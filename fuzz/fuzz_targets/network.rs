//! Any packets of any kind of link: no panic, and bounded memory.
//!
//! `cargo +nightly fuzz run network`, from the root of the repository.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakepath_fuzz::{mutations, within};
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

/// Packets of a connection over HTTP and of one over HTTP/2, as the target reads them.
fn packets() -> Vec<Vec<u8>> {
    let said: [(bool, u8, &[u8]); 9] = [
        (true, 2, b""),
        (false, 18, b""),
        (true, 24, b"GET /a HTTP/1.1\r\n\r\n"),
        (false, 24, b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"),
        (true, 17, b""),
        (false, 17, b""),
        (true, 24, b"\0\0\x01\x01\x05\0\0\0\x05\x82"),
        (false, 24, b"\0\0\x01\x01\x05\0\0\0\x05\x88"),
        (false, 4, b""),
    ];
    let mut next = [1000u32, 5000];
    let packet = |&(client, flags, payload): &(bool, u8, &[u8])| {
        let (own, length) = (usize::from(!client), 40 + payload.len() as u16);
        let ports = [40_000u16, 80];
        let mut out = vec![1, 0, length as u8, 0, 0, 1, 0x45, 0, 0, length as u8, 0, own as u8, 0x40, 0, 64, 6, 0, 0];
        out.extend([10, 0, 0, own as u8 + 1, 10, 0, 0, 2 - own as u8]);
        out.extend([ports[own], ports[1 - own]].map(u16::to_be_bytes).concat());
        out.extend([next[own], next[1 - own]].map(u32::to_be_bytes).concat());
        out.extend([0x50, flags, 4, 0, 0, 0, 0, 0]);
        out.extend(payload);
        next[own] += payload.len() as u32 + u32::from(flags & 3 != 0);
        out
    };
    said.iter().map(packet).collect()
}

/// How time goes on: some ms, or by a power of two of ns, forth or back.
fn later(at_ns: u64, step: u16) -> u64 {
    match step {
        ..0xf000 => at_ns.saturating_add(u64::from(step) * 1_000_000),
        step if step & 0x40 == 0 => at_ns.saturating_add(1 << (step & 0x3f)),
        step => at_ns.saturating_sub(1 << (step & 0x3f)),
    }
}

// Packets one behind the other, each after a byte of link, two of length, one of bytes not captured, and two of time.
fn one(data: &[u8]) {
    let options = SnifferOptions { flows_max: 8, held_bytes_max: 1 << 14, ..SnifferOptions::default() };
    let mut sniffer = Sniffer::new(Sink, options);
    let (mut rest, mut at_ns) = (data, 1_700_000_000_000_000_000);
    while let Some((&[kind, high, low, missing, late, step], behind)) = rest.split_first_chunk() {
        let size = usize::from(u16::from_be_bytes([high, low])).min(behind.len());
        let (bytes, next) = behind.split_at(size);
        at_ns = later(at_ns, u16::from_be_bytes([late, step]));
        let link = LINKS[usize::from(kind) % LINKS.len()];
        sniffer.packet(&Packet { at_ns, link, interface: 0, length: size as u32 + u32::from(missing), bytes });
        if missing == 0xff {
            sniffer.lost(MonoNs(at_ns.saturating_sub(1000)), MonoNs(at_ns), 3);
        }
        rest = next;
    }
    sniffer.idle(MonoNs(at_ns.saturating_add(1)));
    sniffer.finish();
}

fuzz_target!(|data: &[u8]| within(|| one(data)));

mutations!(packets());
