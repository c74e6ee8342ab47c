//! Flags of `wakepath agent`, and of all commands that ask agents.

use crate::moment::Moment;
use clap::Args;
use std::path::PathBuf;

/// Record without end within a budget, answer about the recent past, and keep what triggers ask for
///
/// Keeps everything recent in a folder. A trigger (you, Alertmanager, or a rule) keeps the time around it, with the parts of
/// all peers. Other commands read an agent as a folder: agent://HOST:PORT.
/// docs/how-to/keep-it-running.md has every setting.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath agent --config /etc/wakepath/agent.toml           what the service runs
  wakepath agent --config agent.toml --check                 is it right, and what are the defaults
  wakepath triage agent://web:7412 agent://db:7412           the last ten minutes of two hosts
  wakepath why agent://web:7412 --since -1h --until -50m     an hour ago")]
pub struct AgentArgs {
    /// The configuration, a TOML file
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Only check the configuration, and print it with all defaults
    #[arg(long)]
    pub check: bool,
    /// Write this file, with the address, when the agent answers
    #[arg(long, value_name = "FILE")]
    pub ready_file: Option<PathBuf>,
}

/// How agents are asked.
#[derive(Args, Debug)]
#[command(next_help_heading = "Agents")]
pub struct AskAgents {
    /// With agent://HOST:PORT: from this time on: RFC 3339, -10m before now, or nanoseconds since 1970
    #[arg(
        long,
        global = true,
        value_name = "TIME",
        allow_hyphen_values = true,
        default_value = "-10m",
        hide_short_help = true
    )]
    pub since: Moment,
    /// With agent://HOST:PORT: until this time
    #[arg(
        long,
        global = true,
        value_name = "TIME",
        allow_hyphen_values = true,
        default_value = "-0s",
        hide_short_help = true
    )]
    pub until: Moment,
    /// With agent://HOST:PORT: a file with the token (or the token itself in WAKEPATH_TOKEN)
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    pub token_file: Option<PathBuf>,
}
