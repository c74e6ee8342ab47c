//! Words for connections that did not come about.

/// Why one did not, as JSON has it. `error`: Linux's number, 0 = not known.
pub fn why(error: i32) -> String {
    let word = match error {
        111 => "refused",
        110 => "timed out",
        100 | 101 | 112 | 113 => "unreachable",
        125 => "given up",
        2 => "no such socket",
        13 | 1 => "not permitted",
        11 => "queue full",
        0 => "not known",
        n => return format!("error {n}"),
    };
    word.to_owned()
}

/// What somebody met who tried, with the place behind it: `was refused a connection to`.
pub fn met(error: i32) -> String {
    let words = match error {
        111 => "was refused a connection to",
        110 => "got no answer in time when connecting to",
        100 | 101 | 112 | 113 => "found no route to",
        125 => "gave up connecting to",
        2 => "found no socket at",
        13 | 1 => "may not connect to",
        11 => "found the queue full when connecting to",
        0 => "could not connect to",
        n => return format!("could not connect (error {n}) to"),
    };
    words.to_owned()
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_reason_is_named_in_both_forms() {
        assert_eq!((super::why(111).as_str(), super::met(111).as_str()), ("refused", "was refused a connection to"));
        assert_eq!((super::why(99).as_str(), super::met(99).as_str()), ("error 99", "could not connect (error 99) to"));
    }
}
