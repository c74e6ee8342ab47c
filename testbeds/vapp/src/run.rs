//! `vapp run`: starts all servers and the client, waits, stops everything.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;

use crate::client::{Load, Summary};
use crate::options::{Model, Policy, Shape};
use crate::plan::{self, Rng, Span};

/// Options of a run.
#[derive(Args, Debug)]
pub struct RunArgs {
    #[command(flatten)]
    shape: Shape,
    #[command(flatten)]
    load: Load,
    /// Threading model of all servers, or one for each tier (thread,eventloop,process)
    #[arg(long, value_enum, value_delimiter = ',', default_value = "thread")]
    model: Vec<Model>,
    /// Stop and fail after so many seconds
    #[arg(long, default_value_t = 120)]
    timeout: u64,
    /// Write this file (JSON: process ids and addresses) when all servers listen
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
    /// Start the client only when this file exists
    #[arg(long, value_name = "FILE")]
    start_file: Option<PathBuf>,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

/// What may be under way on one connection without filling the buffers between two blocking ends.
const PIPELINED_BYTES: u64 = 64 << 10;

/// A child that does not outlive its owner; killed with its process group.
pub struct Owned(pub Child);

impl Owned {
    /// Starts this executable again, in a process group of its own, to end when this process ends.
    pub fn spawn(args: &[String]) -> io::Result<Self> {
        let child = Command::new("/proc/self/exe")
            .arg0("vapp")
            .args(args)
            .arg(format!("--parent-pid={}", std::process::id()))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()?;
        Ok(Self(child))
    }

    /// The first line that it prints.
    pub fn first_line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        let out = self.0.stdout.take().expect("standard output is a pipe");
        BufReader::new(out).read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: signals the group of a child that was not reaped before, or whose group then is empty.
        unsafe { libc::kill(-(self.0.id() as i32), libc::SIGKILL) };
        let _ = self.0.wait();
    }
}

fn failure(text: impl Into<String>) -> io::Error {
    io::Error::other(text.into())
}

/// Wrong use: the program then ends with 2.
fn refused(text: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text.into())
}

/// A block of free ports below the ephemeral ones.
fn free_block(ports: u16, attempt: u64) -> io::Result<u16> {
    let span = Span { low: 10_000, high: 32_000 - u64::from(ports) };
    let mut rng = Rng::new(&[u64::from(std::process::id()), attempt, crate::net::now_ns()]);
    for _ in 0..200 {
        let base = rng.within(span) as u16;
        let free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
        if (base..base + ports).all(free) {
            return Ok(base);
        }
    }
    Err(failure("no free block of ports"))
}

/// The model of each tier.
fn tier_models(models: &[Model], shape: &Shape) -> io::Result<Vec<Model>> {
    let tiers = shape.tiers as usize;
    let models = match models {
        [one] => vec![*one; tiers],
        many if many.len() == tiers => many.to_vec(),
        many => {
            return Err(refused(format!("{} models for {tiers} tiers: give one, or one for each", many.len())));
        }
    };
    if matches!(shape.policy(), Policy::Pooled(_)) && models.contains(&Model::Process) {
        return Err(refused("--pooled cannot be used with the process model: processes share no connections"));
    }
    if let Policy::Pipelined(depth) = shape.policy()
        && shape.payload.high * depth as u64 > PIPELINED_BYTES
    {
        return Err(refused(format!(
            "--pipelined with that --payload could block both ends: at most {PIPELINED_BYTES} bytes together"
        )));
    }
    Ok(models)
}

struct Server {
    process: Owned,
    tier: usize,
    index: usize,
}

/// Starts all servers, the last tier first. `None`: a port was taken.
fn start_servers(shape: &Shape, models: &[Model]) -> io::Result<Option<Vec<Server>>> {
    let mut servers = Vec::new();
    for tier in (1..=shape.tiers as usize).rev() {
        for index in 1..=shape.servers as usize {
            let mut args = vec!["server".to_owned()];
            args.extend(shape.to_args());
            args.push(format!("--model={}", models[tier - 1]));
            args.push(format!("--tier={tier}"));
            args.push(format!("--index={index}"));
            servers.push(Server { process: Owned::spawn(&args)?, tier, index });
        }
    }
    for server in &mut servers {
        if server.process.first_line()? != "ready" {
            return Ok(None);
        }
    }
    Ok(Some(servers))
}

/// Writes a file that is complete as soon as it exists.
fn write_at_once(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    fs::write(&name, text)?;
    fs::rename(&name, path)
}

fn ready_text(shape: &Shape, models: &[Model], servers: &[Server]) -> String {
    let servers: Vec<_> = servers
        .iter()
        .rev()
        .map(|s| {
            json!({
                "component": plan::component(s.tier, s.index - 1),
                "model": models[s.tier - 1].to_string(),
                "pid": s.process.0.id(),
                "address": shape.address(s.tier, s.index - 1),
            })
        })
        .collect();
    format!("{}\n", json!({ "run_pid": std::process::id(), "servers": servers }))
}

fn run_client(args: &RunArgs, shape: &Shape, models: &[Model], deadline: Instant) -> io::Result<Summary> {
    let mut line = vec!["client".to_owned()];
    line.extend(shape.to_args());
    line.push(format!("--sessions={}", args.load.sessions));
    line.push(format!("--requests={}", args.load.requests));
    let names: Vec<_> = models.iter().map(Model::to_string).collect();
    line.push(format!("--models={}", names.join(",")));
    if let Some(truth) = &args.load.truth {
        line.push("--truth".to_owned());
        line.push(truth.to_str().ok_or_else(|| refused("the truth file's name is not UTF-8"))?.to_owned());
    }
    let mut client = Owned::spawn(&line)?;
    while client.0.try_wait()?.is_none() {
        if Instant::now() >= deadline {
            return Err(failure(format!("not finished after {} s (--timeout)", args.timeout)));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut out = String::new();
    client.0.stdout.take().expect("standard output is a pipe").read_to_string(&mut out)?;
    serde_json::from_str(&out).map_err(|_| failure("the client failed"))
}

/// Does a whole run.
pub fn run(args: RunArgs) -> io::Result<ExitCode> {
    let deadline = Instant::now() + Duration::from_secs(args.timeout);
    let mut shape = args.shape.clone();
    let models = tier_models(&args.model, &shape)?;
    let chosen = shape.base_port;
    if u32::from(chosen) + u32::from(shape.ports()) > 65_536 {
        return Err(refused("the block of ports goes beyond 65535"));
    }
    let mut servers = None;
    for attempt in 0..5 {
        if chosen == 0 {
            shape.base_port = free_block(shape.ports(), attempt)?;
        }
        servers = start_servers(&shape, &models)?;
        if servers.is_some() || chosen != 0 {
            break;
        }
    }
    let servers = servers.ok_or_else(|| failure("the servers did not start"))?;
    if let Some(path) = &args.ready_file {
        write_at_once(path, &ready_text(&shape, &models, &servers))?;
    }
    if let Some(path) = &args.start_file {
        while !path.exists() {
            if Instant::now() >= deadline {
                return Err(failure("the start file did not appear in time (--timeout)"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    let summary = run_client(&args, &shape, &models, deadline)?;
    drop(servers);
    if args.json {
        println!("{}", serde_json::to_string(&summary)?);
    } else {
        println!(
            "requests {} seconds {:.3} req/s {:.0} errors {} hops {}",
            summary.requests, summary.seconds, summary.req_per_s, summary.errors, summary.hops
        );
    }
    Ok(ExitCode::from(u8::from(summary.errors > 0)))
}
