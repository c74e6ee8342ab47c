//! Commands asked within this process, by the page and by `top`: both show what the commands print.

use crate::cli::{self, Cli, Command};
use crate::output::{self, Answers};
use crate::{bundle, export, flame, forecast, info, open, requests, show, timeline, triage, waits, why};
use clap::FromArgMatches as _;
use std::ffi::OsString;
use std::io::Write;
use wakepath_present::bottleneck::shell;

/// What a command line, `wakepath` at its head, prints; or why it prints nothing.
pub fn answer(words: Vec<OsString>) -> Result<Vec<u8>, String> {
    let cli = parsed(words)?;
    let mut out = Answers::Kept(Vec::new());
    let answered = match &cli.command {
        Command::Triage(args) => triage::run(args, &mut out),
        Command::Info(args) => info::run(args, &mut out),
        Command::Requests(args) => requests::run(args, &mut out),
        Command::Show(args) => show::run(args, cli.evidence, &mut out),
        Command::Waits(args) => waits::run(args, &mut out),
        Command::Why(args) => why::run(args, &mut out),
        Command::Flame(args) => flame::run(args, &mut out),
        Command::Timeline(args) => timeline::run(args, &mut out),
        Command::Forecast(args) => forecast::run(args, &mut out),
        Command::Open(args) => open::run(args, &mut out),
        _ => Err(anyhow::anyhow!("that command cannot be run here")),
    };
    match (answered, out) {
        (Ok(_), Answers::Kept(answer)) => Ok(answer),
        (Ok(_), Answers::Stdout) => Err("the answer went elsewhere".into()),
        (Err(e), _) => Err(output::reasons(&e)),
    }
}

/// Writes the file of a command line, `wakepath` at its head, into `out` as it is made. Gives what was written, or why it is not
/// whole, for people.
pub fn write(words: Vec<OsString>, out: &mut dyn Write) -> Result<String, String> {
    let written = match &parsed(words)?.command {
        Command::Export(args) => export::write(args, out),
        Command::Bundle(args) => bundle::write(args, out),
        _ => Err(anyhow::anyhow!("that command writes no file here")),
    };
    written.map_err(|e| output::reasons(&e))
}

fn parsed(words: Vec<OsString>) -> Result<Cli, String> {
    let matches = cli::command().try_get_matches_from(words).map_err(|e| e.to_string())?;
    Cli::from_arg_matches(&matches).map_err(|e| e.to_string())
}

/// A word of a command line as it is typed into a shell.
pub fn typed_word(word: &str) -> String {
    let is_plain = !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._-+:@=%".contains(&b));
    if is_plain { word.to_owned() } else { shell(word) }
}
