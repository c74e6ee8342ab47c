//! Options shared by the whole run, as they travel from `run` to the servers and the client.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};

use clap::{Args, ValueEnum};

use crate::plan::{self, Behaviour, Span};
use crate::wire::Wire;

/// The threading model of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "lower")]
pub enum Model {
    /// A process per connection: some accepting processes, each forks.
    Process,
    /// A thread per connection.
    Thread,
    /// One thread reads requests with epoll, workers do everything else.
    Dispatcher,
    /// A single thread, epoll, non-blocking sockets, a state machine a request.
    EventLoop,
    /// Stages with their own threads and queues: reader, logic, writer.
    Seda,
    /// Reader threads hand work items to a few busy workers.
    WorkQueue,
    /// The tokio runtime with several threads.
    Tokio,
    /// A single thread on io_uring.
    IoUring,
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_possible_value().expect("no model is skipped").get_name())
    }
}

/// Who sends the reply in the `workqueue` model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReplyBy {
    /// The worker that did the work.
    Worker,
    /// The thread that read the request and waits for the result.
    Reader,
}

impl fmt::Display for ReplyBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReplyBy::Worker => "worker",
            ReplyBy::Reader => "reader",
        })
    }
}

/// How callers use connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// A new connection for every call.
    New,
    /// Each session, connection handler or worker keeps its own.
    KeepAlive,
    /// So many connections per server, shared, checked out one user at a time.
    Pooled(usize),
    /// The client has up to so many requests under way on a connection; servers call as with `KeepAlive`.
    Pipelined(usize),
}

impl Policy {
    /// The name in the truth file.
    pub fn name(self) -> &'static str {
        match self {
            Policy::New => "new",
            Policy::KeepAlive => "keepalive",
            Policy::Pooled(_) => "pooled",
            Policy::Pipelined(_) => "pipelined",
        }
    }
}

/// What all processes of a run must agree on.
#[derive(Args, Clone, Debug)]
pub struct Shape {
    /// Number of tiers
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=plan::MAX_TIERS as u64))]
    pub tiers: u64,
    /// Servers in each tier
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=64))]
    pub servers: u64,
    /// Seed of all stochastic choices; the same seed gives the same trees in every model
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Probability of a (further) downstream call at each decision
    #[arg(long, default_value_t = 0.6, value_parser = probability)]
    pub depth_prob: f64,
    /// Most downstream calls of one server for one request
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(0..=plan::MAX_CALLS))]
    pub max_calls: u64,
    /// Probability, at each call, that a first part of the reply is sent before it
    #[arg(long, default_value_t = 0.0, value_parser = probability)]
    pub partial: f64,
    /// Think time at each decision in microseconds, A..B (a sleep or a timer)
    #[arg(long, default_value_t, value_name = "A..B")]
    pub think_us: Span,
    /// Busy work at each decision in microseconds, A..B
    #[arg(long, default_value_t, value_name = "A..B")]
    pub work_us: Span,
    /// Padding of each message in bytes, A..B
    #[arg(long, default_value_t, value_name = "A..B")]
    pub payload: Span,
    /// Framing of messages
    #[arg(long, value_enum, default_value_t = Wire::Http)]
    pub wire: Wire,
    /// Keep connections: each session, connection handler or worker its own
    #[arg(long, conflicts_with_all = ["pooled", "pipelined"])]
    pub keepalive: bool,
    /// Share N connections to each server (default: a new connection per call)
    #[arg(long, value_name = "N", conflicts_with = "pipelined", value_parser = clap::value_parser!(u64).range(1..))]
    pub pooled: Option<u64>,
    /// The client sends up to N requests before it reads replies; servers keep their connections
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=64))]
    pub pipelined: Option<u64>,
    /// Write header and body separately, read at most 1000 bytes at a time
    #[arg(long)]
    pub split_writes: bool,
    /// Workers of dispatcher (default 64), workqueue (4), the logic stage of seda (4), tokio (2), accepting processes
    /// of process (2)
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub workers: Option<u64>,
    /// Who sends the reply in the workqueue model
    #[arg(long, value_enum, default_value_t = ReplyBy::Worker)]
    pub reply_by: ReplyBy,
    /// First of tiers x servers ports on 127.0.0.1; 0 picks a free block
    #[arg(long, default_value_t = 0)]
    pub base_port: u16,
}

fn probability(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(p) if (0.0..=1.0).contains(&p) => Ok(p),
        _ => Err("a probability lies between 0 and 1".into()),
    }
}

impl Shape {
    /// The options that give this shape again.
    pub fn to_args(&self) -> Vec<String> {
        let mut args = Vec::new();
        let mut add = |name: &str, value: String| args.push(format!("--{name}={value}"));
        add("tiers", self.tiers.to_string());
        add("servers", self.servers.to_string());
        add("seed", self.seed.to_string());
        add("depth-prob", self.depth_prob.to_string());
        add("max-calls", self.max_calls.to_string());
        add("partial", self.partial.to_string());
        add("think-us", self.think_us.to_string());
        add("work-us", self.work_us.to_string());
        add("payload", self.payload.to_string());
        add("wire", self.wire.to_string());
        add("reply-by", self.reply_by.to_string());
        add("base-port", self.base_port.to_string());
        for (name, value) in [("pooled", self.pooled), ("pipelined", self.pipelined), ("workers", self.workers)] {
            if let Some(value) = value {
                add(name, value.to_string());
            }
        }
        for (name, value) in [("--keepalive", self.keepalive), ("--split-writes", self.split_writes)] {
            if value {
                args.push(name.to_owned());
            }
        }
        args
    }

    /// How callers use connections.
    pub fn policy(&self) -> Policy {
        match (self.keepalive, self.pooled, self.pipelined) {
            (true, ..) => Policy::KeepAlive,
            (_, Some(n), _) => Policy::Pooled(n as usize),
            (.., Some(n)) => Policy::Pipelined(n as usize),
            _ => Policy::New,
        }
    }

    /// The stochastic process.
    pub fn behaviour(&self) -> Behaviour {
        Behaviour {
            seed: self.seed,
            tiers: self.tiers as usize,
            servers: self.servers as usize,
            depth_prob: self.depth_prob,
            max_calls: self.max_calls,
            partial: self.partial,
            think_us: self.think_us,
            work_us: self.work_us,
            payload: self.payload,
        }
    }

    /// Number of ports used.
    pub fn ports(&self) -> u16 {
        (self.tiers * self.servers) as u16
    }

    /// Where server `server` (from 0) of `tier` (from 1) listens.
    pub fn address(&self, tier: usize, server: usize) -> SocketAddrV4 {
        let offset = (tier - 1) * self.servers as usize + server;
        SocketAddrV4::new(Ipv4Addr::LOCALHOST, self.base_port + offset as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        shape: Shape,
    }

    #[test]
    fn arguments_survive_the_way_to_the_children() {
        for extra in ["--pooled=3", "--pipelined=4", "--keepalive", "--split-writes"] {
            let line = ["x", "--tiers=5", "--think-us=3..9", "--partial=0.25", "--wire=raw", "--workers=7", extra];
            let shape = Line::parse_from(line).shape;
            let mut again = vec!["x".to_owned()];
            again.extend(shape.to_args());
            assert_eq!(format!("{:?}", Line::parse_from(again).shape), format!("{shape:?}"));
        }
    }
}
