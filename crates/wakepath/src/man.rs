//! `wakepath man` and `wakepath completions`: written from the definition of the command line.

use crate::cli::{Cli, CompletionsArgs, ManArgs};
use crate::output;
use anyhow::{Context as _, Result};
use clap::{Command, CommandFactory as _};
use clap_mangen::Man;

/// Prints a shell's completions.
pub fn completions(args: &CompletionsArgs) -> Result<i32> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "wakepath", &mut text);
    output::answer(&text)?;
    Ok(output::ANSWERED)
}

/// Writes the manual pages, or prints the first.
pub fn run(args: &ManArgs) -> Result<i32> {
    let Some(dir) = &args.output else {
        output::answer(&page(Cli::command())?)?;
        return Ok(output::ANSWERED);
    };
    std::fs::create_dir_all(dir)
        .with_context(|| format!("{}: cannot make the folder; choose one of your own", dir.display()))?;
    let pages = pages();
    for (name, command) in &pages {
        let path = dir.join(format!("{name}.1"));
        std::fs::write(&path, page(command.clone())?)
            .with_context(|| format!("{}: cannot write; check rights and space", path.display()))?;
    }
    output::say(&format!("wrote {} manual pages into {}", pages.len(), dir.display()));
    Ok(output::ANSWERED)
}

/// Every page's name and command.
fn pages() -> Vec<(String, Command)> {
    let cli = Cli::command();
    let mut pages = vec![("wakepath".to_owned(), cli.clone())];
    for sub in cli.get_subcommands().filter(|c| !c.is_hide_set()) {
        let name = format!("wakepath-{}", sub.get_name());
        let called = format!("wakepath {}", sub.get_name());
        let command = sub.clone().display_name(name.clone()).bin_name(called).version(env!("CARGO_PKG_VERSION"));
        pages.push((name, command));
    }
    pages
}

fn page(command: Command) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    Man::new(command).render(&mut text).context("writing a manual page")?;
    Ok(text)
}
