//! The reader of `/proc/self/fdinfo`, on text as kernels write it and on any other.

#[path = "../src/fdinfo.rs"]
mod fdinfo;

use fdinfo::{Target, line};
use proptest::prelude::*;

proptest! {
    #[test]
    fn what_the_kernel_writes_is_read(fd in 0..i32::MAX, events: u32, data: u64) {
        let text = format!("tfd: {fd:8} events: {events:8x} data: {data:16x}  pos:0 ino:1 sdev:2");
        prop_assert_eq!(line(text.as_bytes()), Some(Target { fd, events, data }));
    }

    #[test]
    fn nothing_makes_it_fail(text: Vec<u8>, cut in 0usize..60) {
        let _ = line(&text);
        let whole = b"tfd:        9 events: 80002019 data:     7f3a5c0012ab  pos:0 ino:3f8a sdev:9";
        let piece = &whole[..cut];
        prop_assert!(line(piece).is_none_or(|t| t.fd == 9), "a cut line gives no other descriptor");
    }
}

#[test]
fn a_registration() {
    let text = b"tfd:        9 events: 80002019 data:     7f3a5c0012ab  pos:0 ino:3f8a sdev:9";
    assert_eq!(line(text), Some(Target { fd: 9, events: 0x8000_2019, data: 0x7f3a_5c00_12ab }));
}

#[test]
fn anything_else() {
    let others: [&[u8]; 7] = [
        b"",
        b"pos:\t0",
        b"flags:\t02000002",
        b"tfd:",
        b"tfd: x events: 1 data: 2",
        b"tfd: 99999999999 events: 1 data: 2",
        b"tfd: 1 data: 2",
    ];
    for text in others {
        assert_eq!(line(text), None, "{}", String::from_utf8_lossy(text));
    }
}
