//! Long answers on a terminal, by a pager: as `git` does it.

use crate::program;
use std::io::{IsTerminal as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use terminal_size::{Height, Width, terminal_size_of};
use wakepath_present::text::columns;

/// Whether a pager may be used; it may not until the command line was read.
static ALLOWED: OnceLock<bool> = OnceLock::new();

/// Says for the rest of the process whether a pager may be used.
pub fn allow(is_allowed: bool) {
    let _ = ALLOWED.set(is_allowed);
}

/// Shows text by a pager, where standard output is a terminal that is too small for it. False: it was not shown.
pub fn show(text: &[u8]) -> bool {
    let is_wanted = ALLOWED.get().copied().unwrap_or(false) && std::io::stdout().is_terminal();
    let Some((Width(width), Height(height))) = terminal_size_of(std::io::stdout()).filter(|_| is_wanted) else {
        return false;
    };
    // the shell's prompt needs a line too
    if fits(&String::from_utf8_lossy(text), width.into(), usize::from(height).saturating_sub(1)) {
        return false;
    }
    let chosen = ["WAKEPATH_PAGER", "PAGER"].iter().find_map(std::env::var_os);
    let is_dumb = std::env::var_os("TERM").is_none_or(|t| t == "dumb");
    let Some(command) = choose(chosen.map(|c| c.to_string_lossy().into_owned()), is_dumb) else { return false };
    run(&command, text)
}

/// The pager's command line; none where the user wants none, or none is there.
fn choose(chosen: Option<String>, is_dumb: bool) -> Option<String> {
    match chosen.as_deref().map(str::trim) {
        Some("" | "cat") => None,
        Some(command) => Some(command.to_owned()),
        None if is_dumb => None,
        None => program::file_of("less").map(|_| "less".to_owned()),
    }
}

/// Whether text takes no more lines than there are, with those that a terminal breaks.
fn fits(text: &str, width: usize, height: usize) -> bool {
    let lines = |line: &str| columns(&without_escapes(line)).div_ceil(width.max(1)).max(1);
    text.lines().map(lines).sum::<usize>() <= height
}

/// Colours take no columns.
fn without_escapes(line: &str) -> String {
    let mut out = String::new();
    let mut parts = line.split('\x1b');
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        out.push_str(part.split_once('m').map_or("", |(_, rest)| rest));
    }
    out
}

/// Runs the pager. False where it could not be started: then nothing was shown.
fn run(command: &str, text: &[u8]) -> bool {
    const NOT_STARTED: [i32; 2] = [126, 127];
    let mut pager = Command::new("sh");
    pager.arg("-c").arg(command).stdin(Stdio::piped());
    // colours as they are, no pager for one screen, and the text stays on the terminal
    for (name, value) in [("LESS", "FRX"), ("LV", "-c"), ("LESSCHARSET", "utf-8")] {
        if std::env::var_os(name).is_none() {
            pager.env(name, value);
        }
    }
    let Ok(mut child) = pager.spawn() else { return false };
    // Ctrl-C is the pager's while it runs: it would go on reading the terminal after us
    // SAFETY: sets a signal's disposition to one of the system's own.
    let before = unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
    if let Some(mut input) = child.stdin.take() {
        // who leaves before the end has seen enough
        let _ = input.write_all(text);
    }
    let status = child.wait();
    // SAFETY: puts back what was there.
    unsafe { libc::signal(libc::SIGINT, before) };
    !status.is_ok_and(|s| s.code().is_some_and(|c| NOT_STARTED.contains(&c)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pager_is_what_the_user_chose() {
        assert_eq!(choose(Some("more -s".into()), false).as_deref(), Some("more -s"));
        assert_eq!(choose(Some("more".into()), true).as_deref(), Some("more"), "chosen, on any terminal");
        for none in ["", " ", "cat"] {
            assert_eq!(choose(Some(none.into()), false), None);
        }
        assert_eq!(choose(None, true), None);
    }

    #[test]
    fn lines_are_counted_as_the_terminal_shows_them() {
        assert!(fits("a\nb\n", 80, 2) && !fits("a\nb\nc\n", 80, 2));
        assert!(!fits(&"x".repeat(161), 80, 2), "three lines");
        assert!(fits(&format!("\x1b[31m{}\x1b[0m", "x".repeat(80)), 80, 1), "colour takes no room");
    }
}
