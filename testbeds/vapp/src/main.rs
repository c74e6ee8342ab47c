//! vApp, the random multi-tier application of the vPath paper (section 4.1), in every threading model, with truth.
//!
//! A server that receives a request replies, or asks a random server of the next tier; on each reply from there it asks
//! again or replies. All choices follow from a seed (see [`plan`]), all calls are written down by those who make them
//! (see [`truth`]), and the client checks every reply against the seed. SIGPIPE is ignored, as in every Rust program.

mod calls;
mod client;
mod echo;
mod job;
mod message;
mod models;
mod net;
mod options;
mod plan;
mod run;
mod server;
mod truth;
mod wire;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The random multi-tier application of the vPath paper, in every threading model, with ground truth
#[derive(Parser, Debug)]
#[command(version, about, after_help = EXAMPLES)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "Examples:
  vapp run --model thread --sessions 30 --requests 10000 --truth truth.jsonl
  vapp run --model thread,eventloop,process --keepalive --think-us 0..500 --work-us 0..200
  vapp run --model seda --pooled 8 --wire raw --partial 0.2
  vapp run --model workqueue --reply-by reader --pipelined 4
  vapp echo-client --threads 50 --seconds 3";

#[derive(Subcommand, Debug)]
enum Command {
    /// Start all servers and the client, wait, stop everything; exit 0 if every reply was correct
    Run(Box<run::RunArgs>),
    /// One server (started by run)
    Server(Box<server::ServerArgs>),
    /// The client (started by run)
    Client(Box<client::ClientArgs>),
    /// Echo single bytes, a thread per connection: the paper's worst case
    EchoServer(echo::EchoServerArgs),
    /// Keep an echo server busy; prints round trips and the server's processor time as JSON
    EchoClient(echo::EchoClientArgs),
}

fn main() -> ExitCode {
    let done = match Line::parse().command {
        Command::Run(args) => run::run(*args),
        Command::Server(args) => server::run(*args).map(|()| ExitCode::SUCCESS),
        Command::Client(args) => client::run(*args).map(|()| ExitCode::SUCCESS),
        Command::EchoServer(args) => echo::serve(&args).map(|()| ExitCode::SUCCESS),
        Command::EchoClient(args) => echo::measure(&args).map(|()| ExitCode::SUCCESS),
    };
    done.unwrap_or_else(|error| {
        eprintln!("vapp: {error}");
        ExitCode::from(if error.kind() == std::io::ErrorKind::InvalidInput { 2 } else { 1 })
    })
}
