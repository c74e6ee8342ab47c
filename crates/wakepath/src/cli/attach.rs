//! `wakepath attach` and `wakepath detach`.

use clap::Args;

/// Tell the requests of a running process apart: put into it what it must load for that.
///
/// For Node.js, what `wakepath helper node` prints. For Java 17 and later, an agent that tells the tasks of executors apart.
/// It says first what it does to the process, and asks. `wakepath detach` undoes it. Requests that are under way at
/// that moment are not told apart; those behind are. docs/runtimes.md says what it does, and what stays open.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath attach 4711                             says what it does to process 4711, and asks
  wakepath attach 4711 --yes                       for scripts
  wakepath record -o shop --port 8080              before, meanwhile or behind")]
pub struct AttachArgs {
    /// The process: its number, as `ps` and `wakepath doctor` give it
    #[arg(value_name = "PID")]
    pub pid: u32,
    /// Do it without asking
    #[arg(short, long)]
    pub yes: bool,
}

/// Take away what `wakepath attach` put into a process
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath detach 4711
  wakepath detach 4711 --yes                       for scripts")]
pub struct DetachArgs {
    /// The process
    #[arg(value_name = "PID")]
    pub pid: u32,
    /// Do it without asking
    #[arg(short, long)]
    pub yes: bool,
}
