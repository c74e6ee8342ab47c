//! The wakepath command: flags, wiring, exit codes.

mod cli;
mod doctor;
mod ending;
mod folders;
mod import;
mod info;
mod library;
mod man;
mod merge;
mod moment;
mod open;
mod output;
mod record;
mod requests;
mod rights;
mod show;
mod sink;
mod sync;
mod tables;
mod waits;
mod why;

use clap::Parser as _;
use cli::{Cli, Command};

fn main() {
    let cli = Cli::parse();
    let result = match &cli.command {
        Command::Doctor(args) => doctor::run(args),
        Command::Record(args) => record::run(args),
        Command::Run(args) => library::run(args),
        Command::AttachEnv(args) => library::switch::attach_env(args),
        Command::On(args) => library::switch::on(args),
        Command::Off(args) => library::switch::off(args),
        Command::Recorder(args) => library::recorder(args),
        Command::Import(args) => import::run(args),
        Command::Info(args) => info::run(args),
        Command::Requests(args) => requests::run(args),
        Command::Show(args) => show::run(args),
        Command::Waits(args) => waits::run(args),
        Command::Why(args) => why::run(args),
        Command::Open(args) => open::run(args),
        Command::Merge(args) => merge::run(args),
        Command::Sync(args) => sync::run(args),
        Command::Tables(args) => tables::run(args),
        Command::Completions(args) => man::completions(args),
        Command::Man(args) => man::run(args),
    };
    std::process::exit(match result {
        Ok(code) => code,
        Err(e) if e.is::<output::Closed>() => 0,
        Err(e) => {
            output::say(&format!("wakepath: {e:#}"));
            1
        }
    });
}
