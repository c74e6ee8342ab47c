//! Any text is a change or an error, and a change that is printed is read as the same.
//!
//! `cargo +nightly fuzz run change`, from the root of the repository.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakepath_fuzz::{mutations, within};
use wakepath_forecast::change::{Change, ParseError};

fn one(text: &str) {
    match text.parse::<Change>() {
        Ok(change) => assert_eq!(change.to_string().parse::<Change>().as_ref(), Ok(&change)),
        Err(ParseError { at, .. }) => assert!(at <= text.chars().count()),
    }
}

fuzz_target!(|text: &str| within(|| one(text)));

mutations!(EXAMPLES.iter().map(|text| text.as_bytes().to_vec()).collect());

const EXAMPLES: [&str; 7] = [
    "scale web/nginx/cpu=0.5",
    "cpu web=+1",
    "speed web/disk=2x",
    "link web-db bandwidth=10x delay=-50%",
    "queue web:80=+128",
    "drop postgres:5432 SELECT * FROM item WHERE id = ? keep=1",
    "parallel \"db:5432 SELECT a, b FROM t\",cache:6379 GET",
];
