//! `vapp client`: concurrent sessions that ask the first tier, check every reply, and write the truth.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::calls::{self, Caller};
use crate::job::{Call, Context};
use crate::message::{self, Ask};
use crate::net::{self, Conn};
use crate::options::{Policy, Shape};
use crate::plan;
use crate::truth::{self, Header, Hop, RequestTruth, TruthWriter};
use crate::wire::Message;

/// How much is asked, and where the truth goes.
#[derive(Args, Clone, Debug)]
pub struct Load {
    /// Concurrent sessions, each a blocking thread
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub sessions: u64,
    /// Requests in total
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub requests: u64,
    /// Write the truth to this file (docs/formats/truth.md)
    #[arg(long, value_name = "FILE")]
    pub truth: Option<PathBuf>,
}

/// Options of the client process.
#[derive(Args, Debug)]
pub struct ClientArgs {
    #[command(flatten)]
    shape: Shape,
    #[command(flatten)]
    load: Load,
    /// Models of the tiers, for the header of the truth
    #[arg(long, value_delimiter = ',')]
    models: Vec<String>,
    /// End when this parent process ends
    #[arg(long, hide = true)]
    parent_pid: Option<u32>,
}

/// The outcome, as one JSON line on standard output.
#[derive(Debug, Serialize, Deserialize)]
pub struct Summary {
    /// Requests made.
    pub requests: u64,
    /// From the first to the last of them.
    pub seconds: f64,
    /// Requests a second.
    pub req_per_s: f64,
    /// Requests that were not answered, or not correctly.
    pub errors: u64,
    /// Calls in the truth.
    pub hops: u64,
}

/// What the sessions share.
struct Shared {
    context: Arc<Context>,
    requests: u64,
    next: AtomicU64,
    errors: AtomicU64,
    hops: AtomicU64,
    truth: Option<TruthWriter>,
}

impl Shared {
    /// The number of the next request, while there are any.
    fn take(&self) -> Option<u64> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        (number <= self.requests).then_some(number)
    }

    fn root_call(&self, request: u64, server: usize) -> Call {
        let hop = plan::child_hop(0, 1);
        self.context.call(Ask { request, hop }, 0, server)
    }

    /// Checks a reply and writes what is known of the request.
    fn finish(&self, request: u64, server: usize, start_ns: u64, hop: Hop, reply: Option<&Message>) {
        let end_ns = net::now_ns();
        let root = hop.hop;
        let mut hops = if hop.send_ns[0] == 0 { Vec::new() } else { vec![hop] };
        let mut ok = false;
        if let Some(answer) = reply.and_then(|reply| message::read_answer(&reply.body)) {
            ok = answer.errors == 0 && answer.ask == Ask { request, hop: root };
            hops.extend(answer.hops);
        }
        let mut expected = Vec::new();
        self.context.behaviour.expected(request, root, 1, server, &mut expected);
        ok = ok && truth::matches(&hops, &expected);
        if !ok {
            self.errors.fetch_add(1, Ordering::Relaxed);
        }
        self.hops.fetch_add(hops.len() as u64, Ordering::Relaxed);
        if let Some(truth) = &self.truth
            && let Err(error) = truth.write(&RequestTruth { request, start_ns, end_ns, ok, hops })
        {
            eprintln!("vapp: truth: {error}");
            self.errors.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// One request at a time.
    fn session(&self, mut caller: Caller) {
        while let Some(request) = self.take() {
            let server = self.context.behaviour.front(request);
            let start_ns = net::now_ns();
            let (hop, reply) = caller.call(self.root_call(request, server));
            self.finish(request, server, start_ns, hop, reply.as_ref());
        }
    }

    /// Up to `depth` requests under way on one connection, to a server that the session keeps.
    fn pipelined_session(&self, session: u64, depth: usize) {
        let server = self.context.behaviour.front(session);
        let address = self.context.shape.address(1, server);
        let mut conn = None;
        let mut under_way = VecDeque::<(u64, u64, Hop)>::new();
        loop {
            while under_way.len() < depth
                && let Some(request) = self.take()
            {
                let start_ns = net::now_ns();
                let Call { frame, mut hop, .. } = self.root_call(request, server);
                let sent = match &mut conn {
                    Some(conn) => Ok(conn),
                    None => Conn::open(address, self.context.style).map(|new| conn.insert(new)),
                }
                .and_then(|conn| conn.send(&frame, &mut hop));
                under_way.push_back((request, start_ns, hop));
                if sent.is_err() {
                    break;
                }
            }
            let Some((request, start_ns, mut hop)) = under_way.pop_front() else {
                return;
            };
            let reply = match &mut conn {
                Some(conn) => conn.receive_reply(&mut hop).ok(),
                None => None,
            };
            let lost = reply.is_none();
            self.finish(request, server, start_ns, hop, reply.as_ref());
            if lost {
                conn = None; // and with it the replies to everything under way
                for (request, start_ns, hop) in under_way.drain(..) {
                    self.finish(request, server, start_ns, hop, None);
                }
            }
        }
    }
}

/// Runs the sessions.
pub fn run(args: ClientArgs) -> io::Result<()> {
    if let Some(parent) = args.parent_pid {
        net::die_with(parent);
    }
    net::set_comm("vapp-client");
    let context = Arc::new(Context::new(args.shape, 0, 0));
    let shape = &context.shape;
    let truth = match &args.load.truth {
        Some(path) => {
            let header = Header::new(args.models, shape.seed, context.policy.name(), shape.wire.to_string());
            Some(TruthWriter::create(path, &header)?)
        }
        None => None,
    };
    let shared = Shared {
        requests: args.load.requests,
        next: AtomicU64::new(1),
        errors: AtomicU64::new(0),
        hops: AtomicU64::new(0),
        truth,
        context,
    };
    let pool = calls::pool(&shared.context);
    let start = net::now_ns();
    std::thread::scope(|scope| {
        for session in 0..args.load.sessions.min(args.load.requests) {
            let (shared, pool) = (&shared, pool.clone());
            scope.spawn(move || match shared.context.policy {
                Policy::Pipelined(depth) => shared.pipelined_session(session, depth),
                _ => shared.session(Caller::new(&shared.context, pool)),
            });
        }
    });
    let seconds = (net::now_ns() - start) as f64 / 1e9;
    if let Some(truth) = &shared.truth {
        truth.finish()?;
    }
    let summary = Summary {
        requests: shared.requests,
        seconds,
        req_per_s: shared.requests as f64 / seconds,
        errors: shared.errors.into_inner(),
        hops: shared.hops.into_inner(),
    };
    println!("{}", serde_json::to_string(&summary)?);
    Ok(())
}
