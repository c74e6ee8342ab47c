//! The wakepath command: flags, wiring, exit codes.

mod agent;
mod asked;
mod attach;
mod bottleneck;
mod bundle;
mod captures;
mod cli;
mod collect;
mod complete;
mod doctor;
mod ending;
mod export;
mod find;
mod flame;
mod folders;
mod forecast;
mod forward;
mod guest;
mod import;
mod info;
mod library;
mod limits;
mod live;
mod man;
mod marks;
mod merge;
mod metrics;
mod mirror;
mod moment;
mod open;
mod outlets;
mod output;
mod owner;
mod pager;
mod placements;
mod priority;
mod program;
mod progress;
mod proofs;
mod record;
mod recording;
mod reduce;
mod requests;
mod rights;
mod show;
mod sides;
mod sink;
mod sniff;
mod status;
mod suggest;
mod sync;
mod tables;
mod timeline;
mod tls;
mod top;
mod triage;
mod ui;
mod waits;
mod why;

use clap::FromArgMatches as _;
use clap_complete::CompleteEnv;
use cli::{Cli, Command, EvidenceFlag};
use wakepath_capture::CaptureError;
use wakepath_present::text;

fn main() {
    CompleteEnv::with_factory(cli::command).var(complete::VARIABLE).complete();
    let cli = Cli::from_arg_matches(&cli::matches()).unwrap_or_else(|e| e.exit());
    text::choose_colour(cli.color.into());
    let cli = match agent::remote::fetched(std::env::args_os().collect(), &cli.agents) {
        Ok(None) => cli,
        Ok(Some(line)) => Cli::from_arg_matches(&cli::matches_from(line)).unwrap_or_else(|e| e.exit()),
        Err(e) => {
            output::say(&format!("wakepath: {}", output::reasons(&e)));
            std::process::exit(output::FAILED);
        }
    };
    if cli.no_witness {
        folders::refuse_witness();
    }
    match (cli.evidence, &cli.command) {
        (Some(EvidenceFlag::Shown), _) => folders::refuse_habits(),
        (Some(_), Command::Show(_)) | (None, _) => {}
        (Some(_), _) => cli::usage_error(
            "show",
            clap::error::ErrorKind::ArgumentConflict,
            "only `show` prints how links are known; other commands take --evidence=shown",
        ),
    }
    pager::allow(!cli.no_pager);
    let mut stdout = output::Answers::Stdout;
    let result = match &cli.command {
        Command::Doctor(args) => doctor::run(args),
        Command::Record(args) => record::run(args),
        Command::Agent(args) => agent::run(args),
        Command::Run(args) => library::run(args),
        Command::Guest(args) => guest::run(args),
        Command::AttachEnv(args) => library::switch::attach_env(args),
        Command::On(args) => library::switch::on(args),
        Command::Off(args) => library::switch::off(args),
        Command::Recorder(args) => library::recorder(args),
        Command::Sniff(args) => sniff::run(args),
        Command::Collect(args) => collect::run(args),
        Command::Mirror(args) => mirror::run(args),
        Command::Import(args) => import::run(args),
        Command::Helper(args) => attach::helper(args),
        Command::Attach(args) => attach::attach(args),
        Command::Detach(args) => attach::detach(args),
        Command::Triage(args) => triage::run(args, &mut stdout),
        Command::Top(args) => top::run(args),
        Command::Ui(args) => ui::run(args, cli.evidence),
        Command::Info(args) => info::run(args, &mut stdout),
        Command::Requests(args) => requests::run(args, &mut stdout),
        Command::Show(args) => show::run(args, cli.evidence, &mut stdout),
        Command::Waits(args) => waits::run(args, &mut stdout),
        Command::Why(args) => why::run(args, &mut stdout),
        Command::Flame(args) => flame::run(args, &mut stdout),
        Command::Timeline(args) => timeline::run(args, &mut stdout),
        Command::Open(args) => open::run(args, &mut stdout),
        Command::Bottleneck(args) => bottleneck::run(args, &mut stdout),
        Command::Forecast(args) => forecast::run(args, &mut stdout),
        Command::Metrics(args) => metrics::run(args, &mut stdout),
        Command::Bundle(args) => bundle::run(args),
        Command::Merge(args) => merge::run(args),
        Command::Reduce(args) => reduce::run(args),
        Command::Sync(args) => sync::run(args),
        Command::Tables(args) => tables::run(args),
        Command::Export(args) => export::run(args),
        Command::Completions(args) => man::completions(args),
        Command::Man(args) => man::run(args),
    };
    std::process::exit(match result {
        Ok(code) => code,
        Err(e) if e.is::<output::Closed>() => 0,
        Err(e) => {
            output::say(&format!("wakepath: {}", output::reasons(&e)));
            match (e.downcast_ref::<program::CannotStart>(), e.downcast_ref()) {
                (Some(cannot), _) => cannot.code,
                // an expression of tcpdump's language is as much a part of the command line as a flag
                (_, Some(CaptureError::Filter(_))) => 2,
                _ => output::FAILED,
            }
        }
    });
}
