//! What the kernel programs take of operations that lie in records of TLS, as probes/bpf/tls_records.h is compiled for this machine, and
//! what the recorder makes of it: of a connection the header of every record, and each message in the record that it was told of; of any
//! bytes nothing that is not the operation's.
//!
//! `cargo +nightly fuzz run records`, from the root of the repository.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakepath_fuzz::{mutate, mutations, within};
use wakepath_probes_host::records::{check_any, connection};
use wakepath_probes_host::told::check_told;

/// No connection of more bytes says more.
const INPUT_MAX: usize = 1000;

fn one(input: &[u8]) {
    let Some((which, input)) = input.split_first() else { return };
    let input = &input[..input.len().min(INPUT_MAX)];
    if which & 1 == 0 {
        check_told(&connection(input));
    } else {
        check_any(input);
    }
}

fuzz_target!(|input: &[u8]| within(|| one(input)));

mutations!(mutate::golden(&["proto.tls"], mutate::whole));
