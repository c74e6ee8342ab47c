//! Records of TLS that the kernel programs follow, on this machine, and the plaintext that the recorder joins to them.

use proptest::prelude::*;
use wakepath_probes_host::records::{check_any, connection};
use wakepath_probes_host::told::check_told;
use wakepath_probes_host::{Flow, Way};

const HEAD: usize = 4096;

/// A record with so many bytes after its header.
fn record(length: u16) -> Vec<u8> {
    let mut out = vec![23, 3, 3];
    out.extend(length.to_be_bytes());
    out.resize(5 + usize::from(length), 7);
    out
}

#[test]
fn a_header_behind_the_head_is_taken_and_what_is_in_records_is_not() {
    let bytes = [record(9000), record(50), record(5000)].concat();
    let taken = Flow::of_tls().operation(Way::Sent, &bytes);
    let (second, third) = (5 + 9000, 5 + 9000 + 5 + 50);
    let headers = [(second, bytes[second..second + 5].to_vec()), (third, bytes[third..third + 5].to_vec())];
    assert_eq!(taken.pieces, [&headers[..], &[(bytes.len(), vec![])]].concat());
    assert!(taken.is_closed);
}

#[test]
fn a_header_that_the_end_of_an_operation_and_a_buffer_cut_is_taken() {
    let (long, short) = (record(9000), record(50));
    for cut in 0..=5 {
        let mut flow = Flow::of_tls();
        let first = [&long[..], &short[..cut]].concat();
        let (a, b) = first.split_at(9000);
        flow.operation_of(Way::Received, &[a, &[], b], true, 1 << 20);
        let next = [&short[cut..], &long, &short].concat();
        let (a, b) = next.split_at(next.len() - short.len() + 2);
        let taken = flow.operation_of(Way::Received, &[a, b], true, 1 << 20);
        let at = a.len() - 2;
        assert!(at > HEAD);
        let pieces = [(at, short[..2].to_vec()), (at + 2, short[2..5].to_vec()), (next.len(), vec![])];
        assert_eq!(taken.pieces, pieces, "cut after {cut} bytes");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn requests_are_found_in_their_records_however_operations_cut_them(input in prop::collection::vec(any::<u8>(), 0..200)) {
        check_told(&connection(&input));
    }

    #[test]
    fn of_any_bytes_only_the_operation_is_read(input in prop::collection::vec(any::<u8>(), 0..400)) {
        check_any(&input);
    }
}
