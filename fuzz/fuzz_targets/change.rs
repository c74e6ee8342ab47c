//! Any text is a change or an error, and a change that is printed is read as the same.
//!
//! `cargo +nightly fuzz run change`, from the root of the repository.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakepath_forecast::change::{Change, ParseError};

fuzz_target!(|text: &str| {
    match text.parse::<Change>() {
        Ok(change) => assert_eq!(change.to_string().parse::<Change>().as_ref(), Ok(&change)),
        Err(ParseError { at, .. }) => assert!(at <= text.chars().count()),
    }
});
