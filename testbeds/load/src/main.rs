//! `vload`: a small load generator that writes down the truth about every request it sends.
//!
//! N threads, each with one connection at a time, send requests whose ids (`?rid=`) are unique. The
//! truth file has one JSON line per request, with the times of the monotonic clock, which is also
//! the kernel's clock for events. Tests hold recorded paths against it.

mod client;
mod mix;
mod run;
mod summary;
mod target;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use crate::mix::Mix;
use crate::run::Plan;
use crate::target::Target;

/// Sends HTTP/1.1 requests over keep-alive connections and writes down when each one happened.
#[derive(Parser)]
#[command(name = "vload")]
struct Args {
    /// Where to send: http://HOST:PORT (loopback or a private network only).
    #[arg(long)]
    url: String,
    /// Connections, each served by a thread of its own.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=4096))]
    connections: u32,
    /// How many requests to send.
    #[arg(long, conflicts_with = "duration", required_unless_present = "duration")]
    requests: Option<u64>,
    /// How long to send, e.g. 5s, 500ms, 2m, instead of a number of requests.
    #[arg(long, value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Requests per second over all connections, evenly spaced; without it, as fast as replies come.
    #[arg(long, value_parser = parse_rate)]
    rate: Option<f64>,
    /// Routes and their weights: vote, results, item, health, error, slow, login, static, or a path
    /// such as `/x=1` or `/x?y=z=1`, where the last `=` gives the weight. `{key}` in a path becomes a number from 1
    /// to 999, by Zipf's law.
    #[arg(long, default_value = "vote=5,results=3,item=1,health=1,error=0.01,slow=0.001")]
    mix: Mix,
    /// Keep connections (the default).
    #[arg(long, conflicts_with = "close")]
    keepalive: bool,
    /// A new connection for each request.
    #[arg(long)]
    close: bool,
    /// Sends each request's id as `x-request-id` too.
    #[arg(long)]
    id_header: bool,
    /// A header line of every request, e.g. `Accept-Encoding: gzip`.
    #[arg(long, value_name = "LINE", value_parser = parse_header)]
    header: Vec<String>,
    /// Where to write one JSON line per request.
    #[arg(long)]
    truth: Option<PathBuf>,
    /// Fixes which requests are sent, and the ids; without it, another one at each run.
    #[arg(long)]
    seed: Option<u32>,
    /// The limit for the whole run; what is not answered by then has failed.
    #[arg(long, default_value = "120s", value_parser = parse_duration)]
    timeout: Duration,
    /// One JSON line on standard output, the table on standard error.
    #[arg(long)]
    json: bool,
}

/// `5s`, `500ms`, `2m`, or plain seconds.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, scale) = if let Some(number) = text.strip_suffix("ms") {
        (number, 0.001)
    } else if let Some(number) = text.strip_suffix('s') {
        (number, 1.0)
    } else if let Some(number) = text.strip_suffix('m') {
        (number, 60.0)
    } else {
        (text, 1.0)
    };
    number
        .parse()
        .ok()
        .and_then(|n: f64| Duration::try_from_secs_f64(n * scale).ok())
        .filter(|d| !d.is_zero() && d.as_secs() <= 24 * 3600)
        .ok_or_else(|| format!("`{text}` is no duration such as 5s, 500ms or 2m, at most a day"))
}

fn parse_rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if rate > 0.0 && rate <= 1e7 => Ok(rate),
        _ => Err("a number of requests per second above 0".into()),
    }
}

/// One line with a name before its colon.
fn parse_header(text: &str) -> Result<String, String> {
    match text.split_once(':') {
        Some((name, _)) if !name.is_empty() && !text.contains(['\r', '\n']) => Ok(text.to_owned()),
        _ => Err(format!("`{text}` is no header line such as `Accept-Encoding: gzip`")),
    }
}

/// A seed for those who do not care, different from run to run, so that ids are too.
fn any_seed() -> u32 {
    let mixed = mix::scramble(run::now_ns() ^ (u64::from(std::process::id()) << 32));
    (mixed >> 32) as u32
}

fn main() -> ExitCode {
    let args = Args::parse();
    let target = match Target::parse(&args.url) {
        Ok(target) => target,
        Err(problem) => {
            eprintln!("vload: {problem}");
            return ExitCode::from(2);
        }
    };
    let plan = Plan {
        target,
        connections: args.connections,
        requests: args.requests,
        duration: args.duration,
        rate: args.rate,
        mix: args.mix,
        keep_alive: !args.close,
        id_header: args.id_header,
        headers: args.header.iter().flat_map(|line| [line.as_str(), "\r\n"]).collect(),
        seed: args.seed.unwrap_or_else(any_seed),
        timeout: args.timeout,
    };
    let summary = match run::run(&plan, args.truth.as_deref()) {
        Ok(summary) => summary,
        Err(problem) => {
            eprintln!("vload: {problem}");
            return ExitCode::FAILURE;
        }
    };
    if args.json {
        eprint!("{}", summary.table());
        println!("{}", summary.json());
    } else {
        print!("{}", summary.table());
    }
    if summary.all_as_expected() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }

    #[test]
    fn headers_are_one_line_with_a_name() {
        assert_eq!(parse_header("Accept-Encoding: gzip").as_deref(), Ok("Accept-Encoding: gzip"));
        for wrong in ["", "gzip", ": gzip", "a: b\r\nc: d"] {
            assert!(parse_header(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations() {
        assert_eq!(parse_duration("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(parse_duration("1.5"), Ok(Duration::from_millis(1500)));
        for wrong in ["", "s", "-1s", "0", "inf", "nan", "1e99", "5 h"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }
}
