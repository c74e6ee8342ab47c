//! What the kernel programs take of operations that lie in frames, as probes/bpf/frames.h is compiled for this machine: of a connection
//! whose frames are known all but bodies, in which the recorder finds the messages that are in all bytes; of any bytes nothing that is
//! not the operation's, and no piece out of place.
//!
//! `cargo +nightly fuzz run frames`, from the root of the repository.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakepath_fuzz::{mutate, mutations, within};
use wakepath_probes_host::streams::{check_any, check_connection, connection};

/// No connection of more bytes says more.
const INPUT_MAX: usize = 2000;

fn one(input: &[u8]) {
    let Some((which, input)) = input.split_first() else { return };
    let input = &input[..input.len().min(INPUT_MAX)];
    if which & 1 == 0 {
        check_connection(&connection(input));
    } else {
        check_any(input);
    }
}

fuzz_target!(|input: &[u8]| within(|| one(input)));

mutations!(mutate::golden(&["proto.http2"], mutate::whole));
