//! `wakepath attach` and `wakepath detach`.

use clap::Args;

/// Load a helper into a running Node.js or Java process, so that its requests can be told apart.
///
/// In such a process many requests share a thread, or pass from thread to thread. The helper keeps in memory which request or
/// task a thread works on, and `wakepath record` reads that. Node.js gets what `wakepath helper node` prints. Java 17 and later
/// gets an agent for the tasks of executors. `attach` first prints what it changes in the process, and asks. `wakepath detach`
/// undoes it. Only requests that begin later are told apart. docs/runtimes.md says what the helper does, and which calls stay
/// open with it.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath attach 4711                             says what it changes in process 4711, and asks
  wakepath attach 4711 --yes                       for scripts
  wakepath record -o shop --port 8080              may be started before or after that")]
pub struct AttachArgs {
    /// The number of the process, as `ps` and `wakepath doctor` print it
    #[arg(value_name = "PID")]
    pub pid: u32,
    /// Do it without asking first
    #[arg(short, long)]
    pub yes: bool,
}

/// Remove what `wakepath attach` loaded into a process
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath detach 4711
  wakepath detach 4711 --yes                       for scripts")]
pub struct DetachArgs {
    /// The number of the process
    #[arg(value_name = "PID")]
    pub pid: u32,
    /// Do it without asking first
    #[arg(short, long)]
    pub yes: bool,
}
