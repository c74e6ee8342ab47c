//! A line that says how a recording goes: on a terminal, in place of the one before.

use std::io::{IsTerminal as _, Write as _};
use wakepath_capture::monotonic_ns;
use wakepath_model::folder::WriteCounts;
use wakepath_present::units;

/// How often the line is written.
const EVERY_NS: u64 = 1_000_000_000;

/// The line; it is gone when this is.
pub struct Status {
    is_shown: bool,
    began_ns: u64,
    shown_ns: u64,
}

impl Status {
    /// On standard error, where that is a terminal on which no command writes meanwhile.
    pub fn new(has_command: bool) -> Status {
        let is_dumb = std::env::var_os("TERM").is_none_or(|t| t == "dumb");
        let now = monotonic_ns();
        Status { is_shown: !has_command && !is_dumb && std::io::stderr().is_terminal(), began_ns: now, shown_ns: now }
    }

    /// Writes the line where that is due; `counts`: what was written, and what was lost.
    pub fn show(&mut self, now_ns: u64, counts: impl FnOnce() -> (WriteCounts, u64)) {
        if !self.is_shown || now_ns.saturating_sub(self.shown_ns) < EVERY_NS {
            return;
        }
        self.shown_ns = now_ns;
        let (written, lost) = counts();
        let line = line(now_ns.saturating_sub(self.began_ns), written.rows, written.bytes, lost);
        let _ = write!(std::io::stderr(), "\r{line}\x1b[K");
    }
}

impl Drop for Status {
    fn drop(&mut self) {
        if self.is_shown && self.shown_ns > self.began_ns {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

/// As short as fits any terminal.
fn line(for_ns: u64, rows: u64, bytes: u64, lost: u64) -> String {
    // what was lost matters more than how to end it
    let rest = match lost {
        0 => "nothing lost; Ctrl-C ends it".to_owned(),
        n => format!("LOST {} events", units::count(n)),
    };
    let seconds = for_ns / 1_000_000_000;
    format!(
        "recording {}:{:02}, {} rows, {}, {rest}",
        seconds / 60,
        seconds % 60,
        units::count(rows),
        units::bytes(bytes)
    )
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn the_line_fits_80_columns_and_says_what_is_lost() {
        let text = line(75_000_000_000, 1_234_567, 12_300_000, 0);
        assert_eq!(text, "recording 1:15, 1 234 567 rows, 12.3 MB, nothing lost; Ctrl-C ends it");
        let text = line(86_400_000_000_000, 9_999_999_999, 999_000_000_000, 123_456_789);
        assert!(text.contains("LOST 123 456 789 events") && text.chars().count() <= 80, "{text}");
    }
}
