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
        99 => "no local address or port",
        24 => "process out of open files",
        23 => "host out of open files",
        0 => "not known",
        n => return words_of(n),
    };
    word.to_owned()
}

/// What somebody met who tried, with the place after it: `was refused a connection to`.
pub fn met(error: i32) -> String {
    let words = match error {
        111 => "was refused a connection to",
        110 => "got no answer in time when connecting to",
        100 | 101 | 112 | 113 => "found no route to",
        125 => "gave up connecting to",
        2 => "found no socket at",
        13 | 1 => "may not connect to",
        11 => "found the queue full when connecting to",
        99 => "had no local address or port left to connect to",
        24 => "reached its limit of open files when connecting to",
        23 => "found the host's limit of open files reached when connecting to",
        0 => "could not connect to",
        n => return format!("could not connect ({}) to", words_of(n)),
    };
    words.to_owned()
}

/// An error number of Linux in its own words, in small letters; the number where it has none.
fn words_of(error: i32) -> String {
    // the library adds the number in parentheses
    let text = std::io::Error::from_raw_os_error(error).to_string();
    match text.split_once(" (os error") {
        Some((words, _)) if !words.starts_with("Unknown error") => words.to_lowercase(),
        _ => format!("error {error}"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_reason_is_named_in_both_forms() {
        assert_eq!((super::why(111).as_str(), super::met(111).as_str()), ("refused", "was refused a connection to"));
        assert_eq!(super::why(99), "no local address or port");
        assert_eq!(super::met(99), "had no local address or port left to connect to");
        assert_eq!(super::met(105), "could not connect (no buffer space available) to");
        assert_eq!((super::why(90).as_str(), super::why(4000).as_str()), ("message too long", "error 4000"));
    }
}
