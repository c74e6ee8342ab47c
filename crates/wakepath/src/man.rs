//! `wakepath man` and `wakepath completions`: written from the definition of the command line.

use crate::cli::{self, CompletionsArgs, ManArgs};
use crate::{complete, output};
use anyhow::{Context as _, Result};
use clap::Command;
use clap_complete::env::Shells;
use clap_mangen::Man;
use std::fmt::Write as _;

/// Prints a shell's completions: a script that asks this program, which knows kinds and requests of folders.
pub fn completions(args: &CompletionsArgs) -> Result<i32> {
    let mut text = Vec::new();
    let shells = Shells::builtins();
    let shell = shells.completer(&args.shell.to_string()).context("this shell is not known")?;
    shell.write_registration(complete::VARIABLE, "wakepath", "wakepath", "wakepath", &mut text)?;
    output::print(&text)?;
    Ok(output::ANSWERED)
}

/// Writes the manual pages, or prints the first.
pub fn run(args: &ManArgs) -> Result<i32> {
    let pages = pages();
    let Some(dir) = &args.output else {
        let first = pages.into_iter().next().context("there is no page")?;
        output::print(&page(first.1)?)?;
        return Ok(output::ANSWERED);
    };
    std::fs::create_dir_all(dir)
        .with_context(|| format!("{}: cannot make the folder; choose one of your own", dir.display()))?;
    let count = pages.len();
    for (name, command) in pages {
        let path = dir.join(format!("{name}.1"));
        std::fs::write(&path, page(command)?)
            .with_context(|| format!("{}: cannot write; check rights and space", path.display()))?;
    }
    output::say(&format!("wrote {count} manual pages into {}", dir.display()));
    Ok(output::ANSWERED)
}

/// Every page's name and command, those of commands of commands too.
fn pages() -> Vec<(String, Command)> {
    fn add(command: &Command, name: &str, called: &str, out: &mut Vec<(String, Command)>) {
        let own = command.clone().display_name(name.to_owned()).bin_name(called.to_owned());
        out.push((name.to_owned(), own.version(env!("CARGO_PKG_VERSION"))));
        for sub in command.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help") {
            add(sub, &format!("{name}-{}", sub.get_name()), &format!("{called} {}", sub.get_name()), out);
        }
    }
    let mut out = Vec::new();
    add(&cli::command(), "wakepath", "wakepath", &mut out);
    out
}

/// A page. What stands behind the options keeps its lines: examples are not prose.
fn page(command: Command) -> Result<Vec<u8>> {
    let extra = command.get_after_help().map(ToString::to_string);
    let has_commands = command.get_subcommands().any(|c| !c.is_hide_set());
    let man = Man::new(command);
    let mut text = Vec::new();
    man.render_title(&mut text)
        .and_then(|()| man.render_name_section(&mut text))
        .and_then(|()| man.render_synopsis_section(&mut text))
        .and_then(|()| man.render_description_section(&mut text))
        .and_then(|()| man.render_options_section(&mut text))
        .context("writing a manual page")?;
    if has_commands {
        man.render_subcommands_section(&mut text).context("writing a manual page")?;
    }
    text.extend_from_slice(literal(extra.as_deref().unwrap_or_default()).as_bytes());
    Ok(text)
}

/// Text in which each line stays a line. A line at the margin that ends in a colon is a section's heading.
fn literal(text: &str) -> String {
    let mut out = String::new();
    let mut is_open = false;
    for line in text.lines() {
        let heading = line.strip_suffix(':').filter(|h| !h.is_empty() && !h.starts_with(' '));
        if let Some(heading) = heading {
            out += if is_open { ".fi\n" } else { "" };
            is_open = false;
            let _ = writeln!(out, ".SH \"{}\"", escape(heading).to_uppercase());
            continue;
        }
        if !is_open {
            // what stands before any heading
            out += if out.is_empty() { ".SH NOTES\n.nf\n" } else { ".nf\n" };
            is_open = true;
        }
        let _ = writeln!(out, "{}", escape(line.strip_prefix("  ").unwrap_or(line)));
    }
    out + if is_open { ".fi\n" } else { "" }
}

/// A line as troff prints it: backslashes, hyphens and quotes are characters, and nothing at its begin is a request.
fn escape(line: &str) -> String {
    let mut out = if line.starts_with(['.', '\'']) { "\\&".to_owned() } else { String::new() };
    for c in line.chars() {
        match c {
            '\\' => out += "\\e",
            '-' => out += "\\-",
            '\'' => out += "\\(aq",
            '`' => out += "\\(ga",
            '^' => out += "\\(ha",
            '~' => out += "\\(ti",
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_page_stay_lines() {
        let text = "Examples:\n  wakepath a --b 'c'   one\n  .two\\n\n\nAfter it, prose";
        let page = "EXAMPLES\"\n.nf\nwakepath a \\-\\-b \\(aqc\\(aq   one\n\\&.two\\en\n\nAfter it, prose\n.fi\n";
        assert_eq!(literal(text), format!(".SH \"{page}"));
    }

    #[test]
    fn every_command_has_a_page() {
        let names: Vec<String> = pages().into_iter().map(|p| p.0).collect();
        for name in ["wakepath", "wakepath-record", "wakepath-triage", "wakepath-mirror", "wakepath-mirror-clean"] {
            assert!(names.iter().any(|n| n == name), "{name} is not in {names:?}");
        }
        assert!(!names.iter().any(|n| n.contains("recorder") || n.ends_with("-help")), "{names:?}");
    }
}
