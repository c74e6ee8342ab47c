//! The command line as clap is given it: commands in groups, and help texts that say literally what they say.

use super::Cli;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgMatches, ColorChoice, Command, CommandFactory as _};
use std::ffi::OsString;
use wakepath_present::text::{Style, wrap};

/// The commands as `--help` groups them. Each visible command is in exactly one.
pub const GROUPS: [(&str, &[&str]); 5] = [
    (
        "Record",
        &[
            "doctor",
            "record",
            "agent",
            "run",
            "guest",
            "attach-env",
            "on",
            "off",
            "sniff",
            "collect",
            "mirror",
            "import",
            "helper",
            "attach",
            "detach",
        ],
    ),
    (
        "Ask",
        &["triage", "top", "ui", "info", "requests", "show", "waits", "why", "flame", "timeline", "open", "metrics"],
    ),
    ("Forecast", &["bottleneck", "forecast"]),
    ("Share", &["merge", "sync", "reduce", "tables", "export", "bundle"]),
    ("Manage", &["completions", "man", "help"]),
];

/// clap breaks a line wherever `{n}` stands, which is also how a path template writes a number. Between the brace and the
/// letter goes an escape that changes nothing; it is taken out where the output is no terminal.
const LITERAL: (&str, &str) = ("{n}", "{\x1b[0mn}");

/// The command line's definition. Everything that shows help or reads arguments takes it from here.
pub fn command() -> Command {
    let cli = literal(Cli::command());
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{}\n{{options}}{{after-help}}",
        groups(&cli, Style::for_stdout().prose())
    );
    cli.help_template(template).color(help_colour(std::env::args()))
}

/// The arguments of this process as read; wrong ones end it.
pub fn matches() -> ArgMatches {
    command().try_get_matches().unwrap_or_else(|e| without_hidden(e).exit())
}

/// The same of a command line that was made of it.
pub fn matches_from(line: Vec<OsString>) -> ArgMatches {
    command().try_get_matches_from(line).unwrap_or_else(|e| without_hidden(e).exit())
}

/// An error of usage that suggests no command that help does not list.
fn without_hidden(mut error: clap::Error) -> clap::Error {
    if let Some(ContextValue::Strings(mut names)) = error.remove(ContextKind::SuggestedSubcommand) {
        names.retain(|name| GROUPS.iter().any(|(_, listed)| listed.contains(&name.as_str())));
        if !names.is_empty() {
            error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(names));
        }
    }
    error
}

/// What `--color` says of help and of errors of usage, which are printed before all arguments were read.
fn help_colour(args: impl Iterator<Item = String>) -> ColorChoice {
    let args: Vec<String> = args.take_while(|a| a != "--").collect();
    let value = |(i, a): (usize, &String)| match a.strip_prefix("--color=") {
        Some(value) => Some(value.to_owned()),
        None if a == "--color" => args.get(i + 1).cloned(),
        None => None,
    };
    match args.iter().enumerate().find_map(value).as_deref() {
        Some("always") => ColorChoice::Always,
        Some("never") => ColorChoice::Never,
        _ => ColorChoice::Auto,
    }
}

/// Ends with wrong usage of a command, said as clap says it.
pub fn usage_error(command: &str, kind: ErrorKind, said: &str) -> ! {
    let mut cli = self::command();
    cli.build();
    match cli.find_subcommand_mut(command) {
        Some(sub) => sub.error(kind, said).exit(),
        None => cli.error(kind, said).exit(),
    }
}

/// The groups with a line for each command, and the heading of what follows them.
fn groups(cli: &Command, width: usize) -> String {
    let header = cli.get_styles().get_header();
    let title_width = GROUPS.iter().flat_map(|(_, names)| names.iter()).map(|n| n.len()).max().unwrap_or(0);
    let indent = " ".repeat(title_width + 4);
    let mut out = String::new();
    for (group, names) in GROUPS {
        out += &format!("\n{header}{group}:{header:#}\n");
        for name in names {
            let about = match cli.find_subcommand(name).and_then(Command::get_about) {
                Some(about) => about.to_string(),
                None => "Print this message, or a command's".to_owned(),
            };
            let about = wrap(&about, &indent, width);
            out += &format!("  {name:title_width$}  {}", about.trim_start());
        }
    }
    format!("{out}\n{header}Options:{header:#}")
}

/// All texts of a command and of those below it, escaped.
fn literal(mut command: Command) -> Command {
    let escaped = |text: Option<&StyledStr>| {
        let text = text.map(|t| t.ansi().to_string()).filter(|t| t.contains(LITERAL.0));
        text.map(|t| StyledStr::from(t.replace(LITERAL.0, LITERAL.1)))
    };
    if let Some(text) = escaped(command.get_about()) {
        command = command.about(text);
    }
    if let Some(text) = escaped(command.get_long_about()) {
        command = command.long_about(text);
    }
    if let Some(text) = escaped(command.get_after_help()) {
        command = command.after_help(text);
    }
    command = command.mut_args(|arg: Arg| {
        let (help, long) = (escaped(arg.get_help()), escaped(arg.get_long_help()));
        let arg = match help {
            Some(help) => arg.help(help),
            None => arg,
        };
        match long {
            Some(long) => arg.long_help(long),
            None => arg,
        }
    });
    command.mut_subcommands(literal)
}

/// Every command with its path, those of commands included.
#[cfg(test)]
pub(super) fn every_command() -> Vec<(String, Command)> {
    fn each(command: &Command, path: &str, out: &mut Vec<(String, Command)>) {
        out.push((path.to_owned(), command.clone()));
        for sub in command.get_subcommands().filter(|c| c.get_name() != "help") {
            each(sub, &format!("{path} {}", sub.get_name()), out);
        }
    }
    let mut cli = command();
    cli.build();
    let mut out = Vec::new();
    each(&cli, "wakepath", &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let cli = command();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        grouped.retain(|n| *n != "help");
        let mut visible: Vec<&str> =
            cli.get_subcommands().filter(|c| !c.is_hide_set()).map(Command::get_name).collect();
        grouped.sort_unstable();
        visible.sort_unstable();
        assert_eq!(grouped, visible);
    }

    #[test]
    fn help_shows_examples_as_they_are_in_100_columns() {
        for (path, command) in every_command() {
            let Some(examples) = command.get_after_help().map(ToString::to_string) else { continue };
            let help = command.clone().term_width(100).render_long_help().to_string();
            for line in examples.lines() {
                assert!(help.lines().any(|l| l == line.trim_end()), "{path}: {line:?} is not in\n{help}");
            }
        }
    }

    #[test]
    fn help_loses_no_braces() {
        let mut seen = 0;
        for (path, command) in every_command() {
            let source = [command.get_long_about(), command.get_after_help()].into_iter().flatten();
            let texts: Vec<String> = source
                .chain(command.get_arguments().filter_map(|a| a.get_long_help().or(a.get_help())))
                .map(ToString::to_string)
                .collect();
            let braces = |text: &str| text.matches("{n}").count();
            let wanted: usize = texts.iter().map(|t| braces(t)).sum();
            let help = command.clone().render_long_help().to_string();
            assert_eq!(braces(&help), wanted, "{path}:\n{help}");
            seen += wanted;
        }
        assert!(seen >= 2, "some help texts have a path template");
    }
}
