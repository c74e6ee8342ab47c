//! The wakepath command: flags, wiring, exit codes.

mod cli;
mod record;
mod rights;

use clap::Parser as _;
use cli::{Cli, Command};

fn main() {
    let cli = Cli::parse();
    let result = match &cli.command {
        Command::Record(args) => record::run(args),
    };
    match result {
        Ok(code) => std::process::exit(code),
        Err(e) => {
            eprintln!("wakepath: {e:#}");
            std::process::exit(1);
        }
    }
}
