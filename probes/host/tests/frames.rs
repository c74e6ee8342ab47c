//! Frames that the kernel programs follow, on this machine.

use proptest::prelude::*;
use wakepath_probes_host::streams::{check_any, check_connection, connection};
use wakepath_probes_host::{Flow, Way, head_of};

const HEAD: usize = 4096;

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, 1], body].concat()
}

/// HEADERS that are whole.
fn headers() -> Vec<u8> {
    frame(1, 4, &[0x88])
}

#[test]
fn an_operation_within_a_head_has_no_pieces() {
    let taken = Flow::new(true).operation(Way::Sent, &headers());
    assert_eq!((taken.head, taken.pieces, taken.is_closed), (10, vec![], false));
}

#[test]
fn what_is_behind_a_long_body_is_taken_and_the_body_is_not() {
    let (data, next) = (frame(0, 0, &[7; 9000]), headers());
    let bytes = [headers(), data, next.clone(), frame(0, 1, &[7; 5000])].concat();
    let taken = Flow::new(true).operation(Way::Sent, &bytes);
    // with the header of the frame of data that ends the operation
    let at = 10 + 9 + 9000;
    assert_eq!(taken.pieces, [(at, bytes[at..at + 10 + 9].to_vec())]);
    assert!(taken.is_closed);
}

#[test]
fn an_operation_that_is_all_one_body_says_that_nothing_more_comes() {
    let bytes = [headers(), frame(0, 1, &[7; 9000])].concat();
    let taken = Flow::new(true).operation(Way::Sent, &bytes);
    assert_eq!((taken.pieces, taken.is_closed), (vec![(HEAD, vec![])], true));
}

#[test]
fn a_header_that_is_cut_is_continued_by_the_next_operation() {
    let (data, next) = (frame(0, 0, &[7; 9000]), headers());
    for cut in 0..=9 {
        let mut flow = Flow::new(true);
        let bytes = [&headers()[..], &data[..cut]].concat();
        flow.operation(Way::Received, &bytes);
        let bytes = [&data[cut..], &next].concat();
        let taken = flow.operation(Way::Received, &bytes);
        let at = bytes.len() - next.len();
        assert_eq!(taken.pieces, [(at, next.clone())], "cut behind {cut} bytes");
    }
}

#[test]
fn the_rest_of_a_body_is_not_taken_even_as_a_head() {
    let data = frame(0, 0, &[7; 9000]);
    let mut flow = Flow::new(true);
    flow.operation(Way::Sent, &[&headers(), &data[..5000]].concat());
    assert_eq!(flow.operation(Way::Sent, &data[5000..8000]).head, 0);
    assert_eq!(flow.operation(Way::Sent, &data[8000..]).head, 0);
    assert_eq!(flow.operation(Way::Sent, &headers()).head, 10);
}

#[test]
fn an_operation_that_begins_with_the_rest_of_a_body_has_no_head() {
    let data = frame(0, 0, &[7; 9000]);
    let mut flow = Flow::new(true);
    flow.operation(Way::Sent, &[&headers(), &data[..5000]].concat());
    let taken = flow.operation(Way::Sent, &[&data[5000..], &headers()].concat());
    assert_eq!((taken.head, taken.pieces, taken.is_closed), (0, vec![(data.len() - 5000, headers())], true));
    // of one that begins with data, and is long, what the body begins with
    let taken = flow.operation(Way::Sent, &[&data[..], &headers()].concat());
    assert_eq!((taken.head, taken.pieces, taken.is_closed), (9 + 64, vec![(data.len(), headers())], true));
    // of a short rest it is taken: a record of its own costs more
    let mut flow = Flow::new(true);
    flow.operation(Way::Sent, &[&headers(), &data[..8980]].concat());
    assert_eq!(flow.operation(Way::Sent, &[&data[8980..], &headers()].concat()).head, data.len() - 8980 + 10);
}

#[test]
fn directions_are_followed_apart() {
    let data = frame(0, 0, &[7; 9000]);
    let mut flow = Flow::new(true);
    flow.operation(Way::Sent, &[&headers(), &data[..5000]].concat());
    assert_eq!(flow.operation(Way::Received, &headers()).head, 10);
    assert_eq!(flow.operation(Way::Sent, &data[5000..]).head, 0);
}

#[test]
fn where_bytes_passed_by_unseen_the_next_frame_that_is_sure_begins_anew() {
    let bytes = [headers(), frame(0, 0, &[7; 9000]), headers()].concat();
    let mut flow = Flow::new(true);
    flow.operation(Way::Sent, &[headers(), frame(0, 0, &[7; 9000])[..5000].to_vec()].concat());
    flow.lose(Way::Sent);
    assert_eq!(flow.operation(Way::Sent, &[7; 5000]).pieces, [(HEAD, vec![])]);
    assert_eq!(flow.operation(Way::Sent, &bytes).pieces, [(bytes.len() - 10, headers())]);
}

/// The recorder knows the protocol only after some operations, when a long body may be under way both ways.
#[test]
fn what_the_recorder_tells_of_the_protocol_forgets_no_place_that_is_sure() {
    let data = frame(0, 0, &[7; 20_000]);
    let mut flow = Flow::new(false);
    for way in [Way::Sent, Way::Received] {
        flow.operation(way, &[&headers(), &data[..5000]].concat());
    }
    flow.told();
    for way in [Way::Sent, Way::Received] {
        let rest = [&data[5000..], &headers(), &data].concat();
        assert_eq!(flow.operation(way, &rest).pieces, [(data.len() - 5000, [&headers(), &data[..9]].concat())]);
    }
    // one that began with what only looks like a frame of data is given up
    let mut flow = Flow::new(false);
    flow.operation(Way::Sent, &data[..5000]);
    flow.told();
    assert_eq!(flow.operation(Way::Sent, &[&data[5000..], &headers()].concat()).pieces, [(HEAD, vec![])]);
}

#[test]
fn a_full_ring_takes_what_it_can_and_where_frames_stand_is_kept() {
    let data = frame(0, 0, &[7; 9000]);
    let mut flow = Flow::new(true);
    let bytes = [&headers(), &data[..], &headers(), &data[..5000]].concat();
    let taken = flow.operation_in(Way::Sent, &bytes, false, 0);
    assert_eq!((taken.pieces, taken.is_closed), (vec![], false));
    assert_eq!(flow.operation(Way::Sent, &data[5000..]).head, 0);
}

#[test]
fn bytes_in_one_buffer_of_an_array_are_found() {
    let bytes = [headers(), frame(0, 0, &[7; 9000]), headers()].concat();
    let taken = Flow::new(true).operation_in(Way::Sent, &bytes, true, 1 << 20);
    assert_eq!(taken.pieces, [(bytes.len() - 10, headers())]);
}

#[test]
fn a_head_goes_through_all_buffers_up_to_its_room() {
    let (a, b) = ([1; 5], [2; 7]);
    let many: Vec<Result<&[u8], usize>> = (0..40).map(|i| Ok(if i % 2 == 0 { &a[..] } else { &b[..] })).collect();
    let all: Vec<u8> = many.iter().flatten().copied().flatten().copied().collect();
    assert_eq!(head_of(&many, HEAD), (all.clone(), true));
    assert_eq!(head_of(&many, 100), (all[..100].to_vec(), true));
    assert_eq!(head_of(&[Ok(&a), Ok(&[]), Ok(&b)], HEAD).0, [&a[..], &b].concat());
    assert_eq!(head_of(&[], HEAD), (vec![], true));
}

#[test]
fn of_a_head_with_a_page_that_is_not_there_counts_what_is_before_it() {
    let a = [1; 5];
    for missing in [0, 5, 6, 13] {
        let mut buffers: Vec<Result<&[u8], usize>> = vec![Ok(&a); 20];
        buffers[missing] = Err(6);
        assert_eq!(head_of(&buffers, HEAD), (vec![1; 5 * missing], false), "buffer {missing}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn of_any_connection_all_but_bodies_is_taken(input in prop::collection::vec(any::<u8>(), 0..400)) {
        check_connection(&connection(&input));
    }

    #[test]
    fn of_any_bytes_only_the_operation_is_read(input in prop::collection::vec(any::<u8>(), 0..400)) {
        check_any(&input);
    }
}
